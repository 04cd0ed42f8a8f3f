/* fuzz_streamfar.c - any bytes as what the ends of a stream between hosts say to each other: heads
 * of messages, hello and welcome, and encrypted records. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_must.h"
#include "libstream/far_link.h"
#include "libstream/far_msg.h"

static const unsigned char secret[FAR_KEY_LEN] = "secret";

static void heads(const uint8_t *data, size_t size)
{
    for (; size >= FAR_HEAD_LEN; data += FAR_HEAD_LEN, size -= FAR_HEAD_LEN) {
        for (int from_writer = 0; from_writer < 2; from_writer++) {
            unsigned char head[FAR_HEAD_LEN];
            struct far_msg m;

            if (far_msg_decode(data, from_writer, &m) < 0)
                continue;
            MUST(m.payload <= (from_writer ? FAR_PINNED_MAX : FAR_BOX_MAX));
            far_msg_encode(&m, head);
            MUST(memcmp(head, data, sizeof(head)) == 0);
            MUST(far_msg_decode(data, !from_writer, &m) < 0);
        }
    }
}

/* Nobody gets in with bytes alone. */
static void joining(const uint8_t *data, size_t size)
{
    static const unsigned char greeting[FAR_GREETING_LEN];
    unsigned char again[FAR_HELLO_LEN];
    struct far_welcome w;
    struct far_hello h;

    if (size >= FAR_GREETING_LEN)
        far_greeting_check(data);
    if (size < FAR_HELLO_LEN)
        return;
    MUST(far_welcome_read(data, &w, secret, data) < 0 || w.errnum == EACCES);
    if (far_hello_read(data, &h) < 0)
        return;
    MUST(!far_hello_proves(data, secret, greeting));
    far_hello_make(again, &h, secret, greeting);
    MUST(memcmp(again, data, 64) == 0 && memcmp(again + 96, data + 96, KNOCK_NAMES_LEN) == 0);
    MUST(far_hello_proves(again, secret, greeting));
}

static void records(const uint8_t *data, size_t size)
{
    unsigned char buf[1000];
    far_link_t *l;
    int fds[2];

    if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
        return;
    MUST((l = far_link_create(fds[0])) && far_link_secure(l, secret, secret) == 0);
    MUST(send(fds[1], data, size, 0) == (ssize_t)size);
    MUST(shutdown(fds[1], SHUT_WR) == 0);
    MUST(far_link_recv(l, buf, sizeof(buf)) <= 0);
    far_link_destroy(l);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    heads(data, size);
    joining(data, size);
    records(data, size);
    return 0;
}
