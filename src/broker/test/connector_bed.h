/* connector_bed.h - a broker in a thread, with its local connector, and clients of it: for the unit
 * tests of the connector.
 *
 * The broker is a thread with its own reactor; clients are in the test's thread.
 */
#ifndef CONNECTOR_BED_H
#define CONNECTOR_BED_H

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alone.h"
#include "src/broker/connector.h"
#include "libflux/dispatch.h"
#include "libflux/event.h"
#include "libflux/future.h"
#include "libutil/strutil.h"
#include "libutil/test/suite.h"
/* --- a broker in a thread --- */

struct broker {
    pthread_t thread;
    char dir[64];
    char path[96];
    uint32_t userid;
    struct connector_limits limits;
    int stop[2];
    int ready[2];
    int gate[2];          /* test.gate holds the broker up until a byte is written to it, */
    flux_watcher_t *busy; /* which then works until another one is */
    core_t *core;
    connector_t *cn;
    flux_reactor_t *r;
    atomic_int lines; /* lines logged */
    atomic_ullong clients, accepted, refused, broken, cut, queued;
    atomic_uint disconnects;
};

static inline void log_cb(core_t *c, int level, const char *text, void *arg)
{
    struct broker *b = arg;

    (void)c;
    (void)level;
    (void)text;
    atomic_fetch_add(&b->lines, 1);
}

static inline void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static inline void stats_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct broker *b = arg;
    struct connector_stats st;

    connector_get_stats(b->cn, &st);
    b->clients = st.clients;
    b->accepted = st.accepted;
    b->refused = st.refused;
    b->broken = st.broken;
    b->cut = st.cut;
    b->queued = st.queued;
}

/* A service of the broker's own, for things that a service may do. */
static inline void flood_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct broker *b = arg;
    struct connector_stats st = {0};
    char *block = calloc(1, 65536);
    int after = 0;

    /* A stream that does not care whether it is read, nor that its reader has been disconnected. */
    for (int i = 0; i < 32768 && after < 100; i++) {
        flux_respond_more_raw(h, req, block, 65536);
        connector_get_stats(b->cn, &st);
        after += st.cut > 0;
    }
    flux_respond_error(h, req, ENODATA, "end");
    free(block);
}

static inline void big_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    size_t len;
    const void *data = flux_msg_payload(req, &len);

    flux_respond_raw(h, req, data, len);
}

static inline void gate_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct broker *b = arg;
    char c;

    ck_assert_int_eq(read(b->gate[0], &c, 1), 1);
    flux_respond(h, req, NULL);
    flux_watcher_start(b->busy);
}

static inline void busy_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct broker *b = arg;
    struct pollfd pfd = {.fd = b->gate[0], .events = POLLIN};

    if (poll(&pfd, 1, 0) == 0)
        flux_watcher_start(w);
}

static inline void lazy_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    flux_respond_lazy(h, req, NULL);
}

static inline void silent_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
}

static inline void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct broker *b = arg;

    atomic_fetch_add(&b->disconnects, 1);
}

static inline void cred_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    char json[96];

    snprintf(json, sizeof(json), "{\"userid\":%u,\"roles\":%u,\"hops\":%zu}", flux_msg_userid(req),
             flux_msg_rolemask(req), flux_msg_route_count(req));
    flux_respond(h, req, json);
}

static const struct flux_handler test_handlers[] = {
    {FLUX_MSG_REQUEST, "test.flood", flood_cb, 0},
    {FLUX_MSG_REQUEST, "test.big", big_cb, 0},
    {FLUX_MSG_REQUEST, "test.silent", silent_cb, 0},
    {FLUX_MSG_REQUEST, "test.gate", gate_cb, 0},
    {FLUX_MSG_REQUEST, "test.lazy", lazy_cb, 0},
    {FLUX_MSG_REQUEST, "test.cred", cred_cb, 0},
    {FLUX_MSG_REQUEST, "test.disconnect", disconnect_cb, 0},
    FLUX_HANDLER_END,
};

/* The service is an endpoint with its own handle, as a module's would be, but in this thread. */
struct service {
    endpoint_t *ep;
    flux_t *h;
};

static inline int service_out(void *impl, flux_msg_t *msg)
{
    struct service *s = impl;

    core_endpoint_input(s->ep, msg);
    return 0;
}

static inline void service_in(void *arg, flux_msg_t *msg)
{
    struct service *s = arg;

    flux_handle_deliver(s->h, msg);
}

/* A link that reaches nobody: a session of one. */
static inline void *broker_thread(void *arg)
{
    static const struct flux_handle_ops handle_ops = {.send = service_out};
    static const struct endpoint_ops ep_ops = {.send = service_in};
    static const struct core_callbacks cbs = {.log = log_cb};
    struct broker *b = arg;
    struct core_config cfg;
    struct service s;
    flux_handlers_t *hs;
    flux_watcher_t *stop;
    flux_watcher_t *stats;
    errmsg_t err = {""};

    core_config_init(&cfg);
    cfg.userid = b->userid;
    b->r = flux_reactor_create(false);
    b->core = core_create(&cfg, b->r, &cbs, b, &err);
    ck_assert_msg(b->core != NULL, "%s", err.text);
    core_set_link(b->core, &alone_ops, NULL);
    b->cn = connector_create(b->core, b->path, &b->limits, &err);
    ck_assert_msg(b->cn != NULL, "%s", err.text);
    s.h = flux_handle_create(&handle_ops, &s, b->r, 0, 1, 1);
    s.ep = core_endpoint_add(b->core, ENDPOINT_MODULE, "test", cfg.userid, FLUX_ROLE_BROKER,
                             &ep_ops, &s);
    core_service_add(b->core, "test", s.ep);
    hs = flux_handlers_add(s.h, test_handlers, b);
    ck_assert_int_eq(core_start(b->core), 0);
    core_local_ready(b->core);
    stop = flux_fd_watcher_create(b->r, b->stop[0], FLUX_POLLIN, stop_cb, NULL);
    flux_watcher_start(stop);
    ck_assert_ptr_nonnull(b->busy = flux_defer_create(b->r, busy_cb, b));
    stats = flux_timer_create(b->r, stats_cb, b);
    flux_timer_start(stats, 0.01, 0.01);
    ck_assert_int_eq(write(b->ready[1], "x", 1), 1);
    flux_reactor_run(b->r);
    flux_watcher_destroy(b->busy);
    flux_watcher_destroy(stats);
    flux_watcher_destroy(stop);
    connector_destroy(b->cn);
    flux_handlers_remove(hs);
    core_endpoint_remove(s.ep, EHOSTUNREACH, "end");
    flux_close(s.h);
    core_destroy(b->core);
    flux_reactor_destroy(b->r);
    return NULL;
}

static inline struct broker *broker_start(uint32_t userid, const struct connector_limits *limits)
{
    struct broker *b = calloc(1, sizeof(*b));
    char c;

    strcpy(b->dir, "/tmp/check-connector-XXXXXX");
    ck_assert(mkdtemp(b->dir) != NULL);
    snprintf(b->path, sizeof(b->path), "%s/local", b->dir);
    b->userid = userid;
    b->limits = limits ? *limits : connector_limits_default;
    ck_assert_int_eq(pipe(b->stop), 0);
    ck_assert_int_eq(pipe(b->ready), 0);
    ck_assert_int_eq(pipe(b->gate), 0);
    ck_assert_int_eq(pthread_create(&b->thread, NULL, broker_thread, b), 0);
    ck_assert_int_eq(read(b->ready[0], &c, 1), 1);
    return b;
}

static inline void broker_stop(struct broker *b)
{
    ck_assert_int_eq(write(b->stop[1], "x", 1), 1);
    pthread_join(b->thread, NULL);
    ck_assert(access(b->path, F_OK) < 0); /* the socket's name is gone */
    for (int i = 0; i < 2; i++) {
        close(b->stop[i]);
        close(b->ready[i]);
        close(b->gate[i]);
    }
    ck_assert_int_eq(rmdir(b->dir), 0);
    free(b);
}

/* The broker checks its counters every 10 ms. */
#define WAIT_FOR(cond)                                         \
    do {                                                       \
        int tries_ = 0;                                        \
        while (!(cond) && tries_++ < 6000)                     \
            poll(NULL, 0, 5);                                  \
        ck_assert_msg((cond), "waited in vain for %s", #cond); \
    } while (0)

static inline flux_t *open_client(struct broker *b)
{
    char uri[128];
    errmsg_t err = {""};
    flux_t *h;

    snprintf(uri, sizeof(uri), "local://%s", b->path);
    h = flux_open(uri, NULL, &err);
    ck_assert_msg(h != NULL, "%s", err.text);
    return h;
}

static inline int raw_connect(struct broker *b)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    strcpy(sun.sun_path, b->path);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
    return fd;
}

/* Read a frame from a raw connection: NULL at the end of the stream. */
static inline flux_msg_t *raw_read(int fd)
{
    static char buf[1 << 20];
    size_t have = 0;

    for (;;) {
        errmsg_t err;
        ssize_t size = flux_msg_frame_size(buf, have, &err);
        ck_assert_int_ge(size, 0);
        if (size > 0 && (size_t)size == have)
            return flux_msg_decode(buf, have, &err);
        ssize_t n =
            read(fd, buf + have, size > 0 ? (size_t)size - have : FLUX_MSG_HEADER_SIZE - have);
        if (n <= 0)
            return NULL;
        have += (size_t)n;
    }
}

static inline void expect_error(int fd, const char *says)
{
    flux_msg_t *msg = raw_read(fd);

    ck_assert(msg != NULL);
    ck_assert_int_eq(flux_msg_type(msg), FLUX_MSG_CONTROL);
    ck_assert_str_eq(flux_msg_topic(msg), "error");
    ck_assert_msg(strstr(flux_msg_json(msg), says) != NULL, "%s", flux_msg_json(msg));
    flux_msg_destroy(msg);
    ck_assert(raw_read(fd) == NULL);
}

static inline void expect_hello(int fd)
{
    flux_msg_t *msg = raw_read(fd);

    ck_assert(msg != NULL);
    ck_assert_str_eq(flux_msg_topic(msg), "hello");
    ck_assert_msg(str_starts(flux_msg_json(msg), "{\"protocol\":1,\"rank\":0,\"size\":1,\"life\":"),
                  "%s", flux_msg_json(msg));
    flux_msg_destroy(msg);
}

static inline void ping(flux_t *h)
{
    flux_future_t *f = flux_rpc(h, "broker.ping", "{}", FLUX_NODEID_ANY, 0);
    errmsg_t err;

    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_msg(flux_rpc_get(f, &err) == 0, "%s", err.text);
    flux_future_destroy(f);
}

#endif
