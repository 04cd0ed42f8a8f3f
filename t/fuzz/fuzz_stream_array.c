/* fuzz_stream_array.c - any bytes as the description of a variable, and as a box of it.
 *
 * The first two bytes say how many of the others are the description; the rest is the box.  What is
 * accepted is written as it was read; the parts of a box, if pieces and box are small, are moved in
 * both ways, in memory of exactly the size that they have to have.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/copy.h"

#define SMALL 65536

static void move(const stream_array_t *a, const struct stream_part *p, uint64_t elems)
{
    size_t elem = stream_array_shape(a)->elem;
    struct stream_piece piece = stream_array_piece(a, p->piece);
    struct stream_runs at = {.end = false};
    struct iovec iov[8];
    uint8_t *from, *packed, *to, *again;
    size_t n, done = 0;

    if (piece.elems > SMALL / elem || elems > SMALL / elem)
        return;
    from = calloc(piece.elems, elem);
    packed = malloc(p->elems * elem);
    to = calloc(elems, elem);
    again = calloc(elems, elem);
    MUST(from && packed && to && again);
    for (size_t i = 0; i < piece.elems * elem; i++)
        from[i] = (uint8_t)(i * 7);
    while ((n = stream_copy_runs(p, from, &at, iov, 8)) > 0)
        for (size_t i = 0; i < n; done += iov[i++].iov_len) {
            MUST(iov[i].iov_len <= p->elems * elem - done);
            memcpy(packed + done, iov[i].iov_base, iov[i].iov_len);
        }
    MUST(done == p->elems * elem);
    stream_copy(p, from, to);
    stream_copy_unpack(p, packed, again);
    MUST(memcmp(to, again, elems * elem) == 0);
    free(from);
    free(packed);
    free(to);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    struct stream_want want = {.elem = 0};
    struct stream_box box;
    stream_array_t *a;
    stream_select_t *sel;
    uint64_t elems = 0;
    uint8_t *buf;
    size_t len;

    if (size < 2)
        return 0;
    len = (size_t)data[0] << 8 | data[1];
    if (len > size - 2)
        len = size - 2;
    if (!(a = stream_array_decode(data + 2, len, &err))) {
        MUST(errno == EPROTO && err.text[0]);
        return 0;
    }
    MUST(stream_array_encoded(a) == len);
    MUST((buf = malloc(len)) != NULL);
    stream_array_encode(a, buf);
    MUST(memcmp(buf, data + 2, len) == 0);
    free(buf);
    if (stream_select_decode(stream_array_shape(a), data + 2 + len, size - 2 - len, &box, &err) <
        0) {
        MUST(errno == EPROTO && err.text[0]);
        stream_array_destroy(a);
        return 0;
    }
    want.memory = size % 2 ? STREAM_ROWS : STREAM_COLUMNS;
    MUST((sel = stream_select_create(a, &box, &want, NULL)) != NULL);
    for (size_t i = 0; i < stream_select_count(sel); i++) {
        elems += stream_select_part(sel, i)->elems;
        move(a, stream_select_part(sel, i), stream_select_elems(sel));
    }
    MUST(elems + stream_select_missing(sel) == stream_select_elems(sel));
    stream_select_destroy(sel);
    stream_array_destroy(a);
    return 0;
}
