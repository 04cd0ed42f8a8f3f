/* fuzz_msg.c - bytes as a message frame: decoding, and what a decoded message is good for.
 *
 * What decodes must encode to the same bytes, and decode again to an equal message.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libflux/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    ssize_t frame = flux_msg_frame_size(data, size, &err);
    flux_msg_t *msg;
    uint8_t *buf;

    MUST(frame >= -1);
    MUST(frame != -1 || (errno == EPROTO && err.text[0]));
    /* More bytes never turn a frame size into another one. */
    for (size_t n = 0; n < size && n < 64; n++) {
        ssize_t part = flux_msg_frame_size(data, n, NULL);
        MUST(part == 0 || part == frame);
    }
    msg = flux_msg_decode(data, size, &err);
    if (!msg) {
        MUST(errno == EPROTO || errno == ENOMEM);
        return 0;
    }
    MUST(frame == (ssize_t)size);
    MUST(flux_msg_encoded_size(msg) == size);
    MUST((buf = malloc(size)) != NULL);
    flux_msg_encode(msg, buf);
    MUST(memcmp(buf, data, size) == 0);
    free(buf);
    flux_msg_t *copy = flux_msg_copy(msg);
    MUST(copy && flux_msg_encoded_size(copy) == size);
    flux_msg_destroy(copy);
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST) {
        flux_msg_t *resp = flux_msg_response_create(msg, EINVAL);
        MUST(resp && flux_msg_route_count(resp) == flux_msg_route_count(msg) &&
             flux_msg_term(resp) == flux_msg_term(msg));
        flux_msg_destroy(resp);
        if (flux_msg_route_push(msg, 7) == 0) {
            uint32_t id;
            MUST(flux_msg_route_pop(msg, &id) == 0 && id == 7);
        }
    }
    flux_msg_destroy(msg);
    return 0;
}
