/* check_connector_limits.c - limits of the local connector for one client: descriptors, JSON,
 * connections and waiting requests.
 */
#include "config.h"
#include "connector_bed.h"
#include "libutil/fdutil.h"

/* Without descriptors the broker neither spins nor ends, and continues when there are some. */
START_TEST(test_emfile)
{
    struct broker *b = broker_start(geteuid(), NULL);
    int fds[512];
    int n = 0;
    int spare = dup(0);
    struct rlimit old;
    struct rlimit low;
    struct timespec t0;
    struct timespec t1;
    clockid_t clock;
    flux_t *h = open_client(b);

    ping(h);
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = (rlim_t)spare + 40;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    close(spare);
    /* This process is both broker and client: take all descriptors but one for the client. */
    while (n < 512 && (fds[n] = dup(0)) >= 0)
        n++;
    ck_assert_int_gt(n, 2);
    close(fds[--n]);
    int fd = raw_connect(b);
    ck_assert_int_eq(pthread_getcpuclockid(b->thread, &clock), 0);
    WAIT_FOR(b->lines > 0);
    clock_gettime(clock, &t0);
    poll(NULL, 0, 600);
    clock_gettime(clock, &t1);
    double cpu = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
    ck_assert_msg(cpu < 0.1, "the broker spins: %g s of CPU time in 0.6 s", cpu);
    ck_assert_int_eq(b->lines, 1); /* however often it tries again */
    ping(h);
    while (n > 0)
        close(fds[--n]);
    expect_hello(fd);
    close(fd);
    setrlimit(RLIMIT_NOFILE, &old);
    flux_close(h);
    broker_stop(b);
}
END_TEST

/* JSON that would take too much memory is refused before it is parsed; the connection remains. */
START_TEST(test_json)
{
    enum { SIZE = 9 << 20 };
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    char *text = malloc(SIZE + 1);
    errmsg_t err;

    for (int kind = 0; kind < 3; kind++) {
        size_t len = kind == 0 ? SIZE : 4 << 20;
        flux_future_t *f;

        memset(text, 'x', len);
        text[len] = '\0';
        memcpy(text, "{\"a\":\"", 6);
        memcpy(text + len - 2, "\"}", 2);
        if (kind == 1) { /* four million names and values */
            for (size_t i = 5; i + 1 < len; i++)
                text[i] = i == 5 ? '[' : i + 2 == len ? ']' : i % 2 ? ',' : '0';
            text[len - 1] = '}';
        }
        f = flux_rpc(h, "test.big", text, FLUX_NODEID_ANY, 0);
        ck_assert_int_eq(flux_future_wait(f, 60.), 0);
        if (kind == 2) { /* as long, but a single value */
            ck_assert_msg(flux_rpc_get(f, &err) == 0, "%s", err.text);
        } else {
            ck_assert_int_eq(flux_rpc_get(f, &err), -1);
            ck_assert_int_eq(errno, EMSGSIZE);
            ck_assert_msg(strstr(err.text, kind ? "more than 262144 values" : "is too large"), "%s",
                          err.text);
        }
        flux_future_destroy(f);
        ping(h);
    }
    /* Raw bytes are not parsed as JSON. */
    flux_future_t *f = flux_rpc_raw(h, "test.big", text, SIZE, FLUX_NODEID_ANY, 0);
    ck_assert_int_eq(flux_future_wait(f, 60.), 0);
    ck_assert_msg(flux_rpc_get(f, &err) == 0, "%s", err.text);
    flux_future_destroy(f);
    free(text);
    flux_close(h);
    WAIT_FOR(b->clients == 0);
    ck_assert_uint_eq(b->broken, 0);
    broker_stop(b);
}
END_TEST

/* The numbers of connections per process and in total are limited; a refused client learns the
 * reason. */
START_TEST(test_connections)
{
    struct connector_limits limits = connector_limits_default;
    limits.per_process = 3;
    limits.clients = 4;
    struct broker *b = broker_start(geteuid(), &limits);
    flux_t *h[3];
    flux_t *again;
    char uri[128];
    pid_t pid;
    int status;
    errmsg_t err;

    for (int i = 0; i < 3; i++)
        h[i] = open_client(b);
    snprintf(uri, sizeof(uri), "local://%s", b->path);
    ck_assert(flux_open(uri, NULL, &err) == NULL);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_msg(strstr(err.text, "has 3 connections"), "%s", err.text);
    WAIT_FOR(b->clients == 3); /* a refused client counts until it is closed */
    if ((pid = fork()) == 0) {
        flux_t *own = flux_open(uri, NULL, &err);
        flux_t *more = flux_open(uri, NULL, &err);

        _exit(own && !more && strstr(err.text, "maximum of 4 clients") ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    WAIT_FOR(b->clients == 3);
    flux_close(h[0]);
    WAIT_FOR(b->clients == 2);
    again = open_client(b);
    ping(again);
    flux_close(again);
    flux_close(h[1]);
    flux_close(h[2]);
    WAIT_FOR(b->clients == 0);
    broker_stop(b);
}
END_TEST

/* Requests that are never answered hold the sender back, but not forever. */
START_TEST(test_inflight)
{
    struct connector_limits limits = connector_limits_default;
    limits.pause_inflight = 100;
    struct broker *b = broker_start(geteuid(), &limits);
    flux_t *h = open_client(b);
    flux_future_t *f[1000];

    for (int i = 0; i < 1000; i++)
        f[i] = flux_rpc(h, "test.silent", NULL, FLUX_NODEID_ANY, 0);
    ping(h);
    for (int i = 0; i < 1000; i++)
        flux_future_destroy(f[i]);
    flux_close(h);
    WAIT_FOR(b->clients == 0);
    broker_stop(b);
}
END_TEST

/* The order of messages from two clients that both sent before the broker read. */
struct seen {
    flux_reactor_t *r;
    char order[1024];
    size_t n;
};

static void seen_cb(void *arg, flux_msg_t *msg)
{
    struct seen *s = arg;

    if (s->n < sizeof(s->order) - 1 && strcmp(flux_msg_topic(msg), "seen.disconnect") != 0)
        s->order[s->n++] = flux_msg_topic(msg)[strlen("seen.")];
    if (s->n == 200)
        flux_reactor_stop(s->r, 0);
    flux_msg_destroy(msg);
}

static int adopted(connector_t *cn)
{
    int fd[2];
    errmsg_t err;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    ck_assert_int_eq(fd_set_nonblock(fd[1], 1), 0);
    ck_assert_msg(connector_adopt(cn, fd[1], &err) == 0, "%s", err.text);
    return fd[0];
}

static void send_many(int fd, const char *topic, unsigned n)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    char buf[128];

    flux_msg_set_nodeid(msg, FLUX_NODEID_ANY);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    flux_msg_encode(msg, buf);
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(write(fd, buf, flux_msg_encoded_size(msg)),
                         (int)flux_msg_encoded_size(msg));
    flux_msg_destroy(msg);
}

/* While another client waits, not all messages of a client that has sent many are passed on;
 * finally all are passed on, in order. */
START_TEST(test_turns)
{
    static const struct endpoint_ops ep_ops = {.send = seen_cb};
    struct core_config cfg;
    errmsg_t err = {""};
    flux_reactor_t *r = flux_reactor_create(false);
    struct seen seen = {.r = r};
    core_t *core;
    connector_t *cn;
    endpoint_t *ep;
    int one, two;

    core_config_init(&cfg);
    cfg.userid = geteuid();
    ck_assert_ptr_nonnull(core = core_create(&cfg, r, NULL, NULL, &err));
    core_set_link(core, &alone_ops, NULL);
    ck_assert_ptr_nonnull(cn = connector_create(core, NULL, &connector_limits_default, &err));
    ep = core_endpoint_add(core, ENDPOINT_MODULE, "seen", cfg.userid, FLUX_ROLE_BROKER, &ep_ops,
                           &seen);
    ck_assert_int_eq(core_service_add(core, "seen", ep), 0);
    ck_assert_int_eq(core_start(core), 0);
    one = adopted(cn);
    two = adopted(cn);
    /* Whichever is read first. */
    send_many(one, "seen.a", 100);
    send_many(two, "seen.b", 100);
    ck_assert_int_ge(flux_reactor_run(r), 0);
    ck_assert_uint_eq(seen.n, 200);
    ck_assert_uint_le((size_t)(strchr(seen.order, 'a') - seen.order), 32);
    ck_assert_uint_le((size_t)(strchr(seen.order, 'b') - seen.order), 32);
    close(one);
    close(two);
    connector_destroy(cn);
    core_endpoint_remove(ep, EHOSTUNREACH, "end");
    core_destroy(core);
    flux_reactor_destroy(r);
}
END_TEST

/* While two clients send, other clients come and go, one after the other. */
struct crowd {
    flux_reactor_t *r;
    connector_t *cn;
    struct sockaddr_un sun;
    int sender[2];
    int fd[16];
    unsigned passes;
    bool closed;
    uint64_t clients, accepted;         /* after the last pass */
    uint64_t most_accepted, most_freed; /* in one pass */
};

static void crowd_pass(void *arg)
{
    enum { CROWD = sizeof(((struct crowd *)0)->fd) / sizeof(int) };
    struct crowd *c = arg;
    struct connector_stats st;
    uint64_t freed;

    connector_get_stats(c->cn, &st);
    freed = c->clients + (st.accepted - c->accepted) - st.clients;
    if (st.accepted - c->accepted > c->most_accepted)
        c->most_accepted = st.accepted - c->accepted;
    if (freed > c->most_freed)
        c->most_freed = freed;
    c->accepted = st.accepted;
    c->clients = st.clients;
    send_many(c->sender[c->passes % 2], "seen.a", 1);
    if (++c->passes == 10)
        for (int i = 0; i < CROWD; i++) {
            c->fd[i] = socket(AF_UNIX, SOCK_STREAM, 0);
            ck_assert_int_eq(connect(c->fd[i], (struct sockaddr *)&c->sun, sizeof(c->sun)), 0);
        }
    if (st.accepted == 2 + CROWD && !c->closed) {
        for (int i = 0; i < CROWD; i++)
            close(c->fd[i]);
        c->closed = true;
    }
    if (c->closed && st.clients == 2)
        flux_reactor_stop(c->r, 0);
}

static void drop_cb(void *arg, flux_msg_t *msg)
{
    flux_msg_destroy(msg);
}

START_TEST(test_crowd)
{
    static const struct endpoint_ops ep_ops = {.send = drop_cb};
    char dir[] = "/tmp/check_crowd.XXXXXX";
    struct core_config cfg;
    errmsg_t err = {""};
    flux_reactor_t *r = flux_reactor_create(false);
    struct crowd c = {.r = r, .sun = {.sun_family = AF_UNIX}};
    core_t *core;
    endpoint_t *ep;

    core_config_init(&cfg);
    cfg.userid = geteuid();
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(c.sun.sun_path, sizeof(c.sun.sun_path), "%s/s", dir);
    ck_assert_ptr_nonnull(core = core_create(&cfg, r, NULL, NULL, &err));
    core_set_link(core, &alone_ops, NULL);
    ck_assert_ptr_nonnull(
        c.cn = connector_create(core, c.sun.sun_path, &connector_limits_default, &err));
    ep = core_endpoint_add(core, ENDPOINT_MODULE, "seen", cfg.userid, FLUX_ROLE_BROKER, &ep_ops,
                           NULL);
    ck_assert_int_eq(core_service_add(core, "seen", ep), 0);
    ck_assert_int_eq(core_start(core), 0);
    c.sender[0] = adopted(c.cn);
    c.sender[1] = adopted(c.cn);
    c.clients = c.accepted = 2;
    ck_assert_int_eq(flux_reactor_before_sleep(r, crowd_pass, &c), 0);
    send_many(c.sender[1], "seen.a", 1);
    ck_assert_int_ge(flux_reactor_run(r), 0);
    ck_assert_uint_eq(c.accepted, 18);
    ck_assert_uint_eq(c.most_accepted, 1);
    ck_assert_uint_ge(c.most_freed, 1);
    ck_assert_uint_le(c.most_freed, 2);
    flux_reactor_before_sleep(r, NULL, NULL);
    close(c.sender[0]);
    close(c.sender[1]);
    connector_destroy(c.cn);
    core_endpoint_remove(ep, EHOSTUNREACH, "end");
    core_destroy(core);
    flux_reactor_destroy(r);
    rmdir(dir);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_emfile, test_json, test_connections, test_inflight, test_turns, test_crowd,
    };
    TCase *tc = tcase_create("connector_limits");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    return run_case("connector_limits", tc);
}
