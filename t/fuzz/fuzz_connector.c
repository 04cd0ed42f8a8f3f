/* fuzz_connector.c - bytes of a client into a local connector with a real core behind it.
 *
 * The first byte says how the others are cut: written in pieces of that size, with a pass of the
 * reactor after each.  At the end a second, well-behaved client must still get its answer.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_must.h"
#include "libflux/dispatch.h"
#include "src/broker/connector.h"
#include "src/broker/test/alone.h"

struct world {
    flux_reactor_t *r;
    core_t *core;
    connector_t *cn;
    flux_watcher_t *timer;
};

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* A few passes of the reactor. */
static void turn(struct world *w)
{
    for (int i = 0; i < 3; i++) {
        flux_timer_start(w->timer, 0., 0.);
        flux_reactor_run(w->r);
    }
}

#define TURNS_MAX 1000 /* many more than anything here may take */

static void drain(int fd)
{
    char buf[65536];

    while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
        ;
}

static int connect_client(struct world *w)
{
    int sv[2];
    errmsg_t err;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
    MUST(connector_adopt(w->cn, sv[1], &err) == 0);
    turn(w);
    drain(sv[0]);
    return sv[0];
}

/* Ask for a ping and expect the answer. */
static void ping(struct world *w)
{
    int fd = connect_client(w);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "broker.ping");
    uint8_t buf[1024];
    errmsg_t err;
    ssize_t n = -1;

    flux_msg_set_matchtag(msg, 42);
    flux_msg_encode(msg, buf);
    MUST(write(fd, buf, flux_msg_encoded_size(msg)) == (ssize_t)flux_msg_encoded_size(msg));
    flux_msg_destroy(msg);
    for (int i = 0; i < TURNS_MAX && n < 0; i++) {
        turn(w);
        n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
    }
    MUST(n > 0);
    MUST((msg = flux_msg_decode(buf, (size_t)n, &err)) != NULL);
    MUST(flux_msg_matchtag(msg) == 42 && flux_msg_errnum(msg) == 0);
    flux_msg_destroy(msg);
    close(fd);
}

/* "broker.shutdown" would end the core, which is not a fault: such a session has no second
 * client. */
static bool going_down(const struct world *w)
{
    return core_state(w->core) >= CORE_DOWN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct core_config cfg;
    struct world w;
    struct connector_stats st;
    errmsg_t err;
    size_t piece;
    int fd;

    if (size < 2)
        return 0;
    piece = data[0] ? data[0] : size;
    core_config_init(&cfg);
    cfg.userid = geteuid();
    MUST((w.r = flux_reactor_create(false)) != NULL);
    MUST((w.core = core_create(&cfg, w.r, NULL, NULL, &err)) != NULL);
    core_set_link(w.core, &alone_ops, NULL);
    MUST((w.cn = connector_create(w.core, NULL, &connector_limits_default, &err)) != NULL);
    MUST((w.timer = flux_timer_create(w.r, stop_cb, NULL)) != NULL);
    MUST(core_start(w.core) == 0);
    core_local_ready(w.core);
    fd = connect_client(&w);
    for (size_t off = 1; off < size; off += piece) {
        size_t n = size - off < piece ? size - off : piece;
        if (send(fd, data + off, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            break;
        turn(&w);
        drain(fd);
    }
    if (!going_down(&w))
        ping(&w);
    close(fd);
    st.clients = 1;
    for (int i = 0; i < TURNS_MAX && st.clients > 0 && !going_down(&w); i++) {
        turn(&w);
        connector_get_stats(w.cn, &st);
    }
    MUST(going_down(&w) || st.clients == 0);
    flux_watcher_destroy(w.timer);
    connector_destroy(w.cn);
    core_destroy(w.core);
    flux_reactor_destroy(w.r);
    return 0;
}
