/* fuzz_streamrelay.c - any bytes as what another relay, or a process of the host, says to a relay.
 *
 * The first byte of an input says who the other relay is: one that has connected, or one to which
 * this relay has, for a reader of this host.  After that come pieces, each with a byte that says
 * how long it is.  A writer is registered under the token 1, and sends what it gets back.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_must.h"
#include "libstream/share_private.h"
#include "libutil/fdpass.h"

#define ADDRESS "tcp://127.0.0.1:1"
#define PIECE 8 /* bytes, for each number in the byte before a piece */
#define TURNS 1000

struct bed {
    struct share_relay *r;
    int other;  /* the other relay */
    int writer; /* end of the process */
    int reader; /* the same, or -1 */
    int passed; /* the last connection that the writer has got, or -1 */
};

static void pair(int fds[2])
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
}

static struct share_relay *relay(void)
{
    struct share_relay *r = calloc(1, sizeof(*r));

    MUST(r && (r->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    MUST((r->writers = hmap_create_u64(NULL)));
    r->stop.fd = r->listen_local.fd = r->listen_far.fd = -1;
    list_init(&r->listen_local.node);
    list_init(&r->listen_far.node);
    list_init(&r->locals);
    list_init(&r->peers);
    strcpy(r->own.address, "tcp://127.0.0.1:2");
    return r;
}

/* A process of the host, with a request that is complete but for what comes later. */
static int process(struct share_relay *r)
{
    struct share_local *l = calloc(1, sizeof(*l));
    int fds[2];

    pair(fds);
    MUST(l && share_end_add(r, &l->end, SHARE_LOCAL, fds[0], EPOLLIN) == 0);
    list_append(&r->locals, &l->end.node);
    r->nlocals++;
    return fds[1];
}

static void bed_open(struct bed *b, bool out)
{
    struct share_request q = {.kind = SHARE_CONNECT, .token = 1, .to = {.address = ADDRESS}};
    unsigned char buf[SHARE_REQUEST_LEN];
    int fds[2];

    b->r = relay();
    b->reader = b->passed = -1;
    b->writer = process(b->r);
    share_request_encode(&(struct share_request){.kind = SHARE_REGISTER}, buf);
    MUST(send(b->writer, buf, sizeof(buf), 0) == (ssize_t)sizeof(buf));
    while (share_relay_turn(b->r, 0))
        ;
    MUST(hmap_count(b->r->writers) == 1);
    MUST(recv(b->writer, buf, sizeof(buf), 0) == (ssize_t)sizeof(buf));
    { /* the token that inputs know */
        struct share_local *w = list_entry(
            list_entry(list_first(&b->r->locals), struct share_end, node), struct share_local, end);

        (void)hmap_take_u64(b->r->writers, w->token);
        w->token = 1;
        MUST(hmap_put_u64(b->r->writers, 1, w) == 0);
    }
    pair(fds);
    b->other = fds[1];
    MUST(share_link_create(b->r, out ? &q.to : NULL, fds[0]));
    if (!out)
        return;
    pair(fds);
    b->reader = fds[1];
    share_link_open(b->r, &q, fds[0]);
}

static void drain(int fd)
{
    char buf[4096];

    while (fd >= 0 && recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
        ;
}

/* What the processes do meanwhile. */
static void others(struct bed *b)
{
    char buf[4096];
    int fd = -1;
    ssize_t n;

    while (fdpass_recv(b->writer, buf, 1, &fd, MSG_DONTWAIT) == 1 && fd >= 0) {
        if (b->passed >= 0)
            close(b->passed);
        b->passed = fd;
        fd = -1;
    }
    if (b->passed >= 0 && (n = recv(b->passed, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
        (void)!send(b->passed, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    drain(b->reader);
    drain(b->other);
}

static void feed(struct bed *b, const uint8_t *data, size_t size)
{
    while (size > 1) {
        size_t n = ((size_t)data[0] + 1) * PIECE;

        if (n > size - 1)
            n = size - 1;
        if (send(b->other, data + 1, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
            return; /* the relay has disconnected it */
        data += 1 + n;
        size -= 1 + n;
        for (int i = 0; i < TURNS && share_relay_turn(b->r, 0); i++)
            others(b);
    }
}

static void bed_close(struct bed *b)
{
    close(b->other);
    for (int i = 0; i < TURNS && share_relay_turn(b->r, 0); i++)
        others(b);
    close(b->writer);
    if (b->reader >= 0)
        close(b->reader);
    if (b->passed >= 0)
        close(b->passed);
    for (int i = 0; i < TURNS && share_relay_turn(b->r, 0); i++)
        ;
    MUST(list_empty(&b->r->peers)); /* nothing remains of it */
    MUST(b->r->nlocals == 0 && hmap_count(b->r->writers) == 0);
    share_relay_destroy(b->r);
}

/* What a process says is a request, or not; and what it is comes out again. */
static void requests(const uint8_t *data, size_t size)
{
    unsigned char again[SHARE_REQUEST_LEN];
    struct share_request q;
    struct share_request p;

    if (size < SHARE_REQUEST_LEN || share_request_decode(data, &q) < 0)
        return;
    share_request_encode(&q, again);
    MUST(share_request_decode(again, &p) == 0 && p.kind == q.kind && p.token == q.token);
    MUST(strcmp(p.to.address, q.to.address) == 0 && strcmp(p.own.address, q.own.address) == 0);
    MUST(memcmp(p.to.key, q.to.key, SHARE_KEY_LEN) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bed b;

    requests(data, size);
    if (size == 0)
        return 0;
    bed_open(&b, data[0] & 1);
    feed(&b, data + 1, size - 1);
    bed_close(&b);
    return 0;
}
