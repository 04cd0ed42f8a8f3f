/* check_connector.c - the local connector with a real core, and libflux's client at the other end.
 *
 * The broker is a thread with its own reactor; clients are in the test's thread.
 */
#include "config.h"
#include "connector_bed.h"

/* --- the tests --- */

START_TEST(test_basic)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    flux_future_t *f;
    const char *json;
    char want[96];
    errmsg_t err;

    ck_assert_uint_eq(flux_rank(h), 0);
    ck_assert_uint_eq(flux_size(h), 1);
    ping(h);
    /* The kernel tells who the client is. */
    f = flux_rpc(h, "test.cred", NULL, FLUX_NODEID_ANY, 0);
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_int_eq(flux_rpc_get_json(f, &json, &err), 0);
    snprintf(want, sizeof(want), "{\"userid\":%u,\"roles\":1,\"hops\":1}", geteuid());
    ck_assert_str_eq(json, want);
    flux_future_destroy(f);
    f = flux_rpc(h, "nothing.here", NULL, FLUX_NODEID_ANY, 0);
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_int_eq(flux_rpc_get(f, &err), -1);
    ck_assert_int_eq(errno, ENOSYS);
    flux_future_destroy(f);
    flux_close(h);
    WAIT_FOR(b->clients == 0);
    WAIT_FOR(b->disconnects == 1);
    broker_stop(b);
}
END_TEST

static void count_cb(flux_future_t *f, void *arg)
{
    int *n = arg;
    flux_t *h = flux_future_handle(f);

    ck_assert_int_eq(flux_rpc_get(f, NULL), 0);
    flux_future_destroy(f);
    if (--*n == 0)
        flux_reactor_stop(flux_get_reactor(h), 0);
}

START_TEST(test_many)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    int n = 100000;

    for (int i = 0; i < 100000; i++) {
        flux_future_t *f = flux_rpc(h, "broker.ping", "{}", FLUX_NODEID_ANY, 0);
        ck_assert_int_eq(flux_future_then(f, 0., count_cb, &n), 0);
    }
    ck_assert_int_eq(flux_run(h), 0);
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(b->cut, 0);
    flux_close(h);
    broker_stop(b);
}
END_TEST

/* Reading from the client pauses and continues all the time: nothing is lost, duplicated or
 * reordered. */
START_TEST(test_pauses)
{
    struct connector_limits limits = connector_limits_default;
    limits.pause_bytes = 4096;
    limits.pause_messages = 8;
    limits.pause_inflight = 16;
    struct broker *b = broker_start(geteuid(), &limits);
    flux_t *h = open_client(b);
    enum { N = 20000 };
    static flux_future_t *f[N];
    static char data[4096];
    errmsg_t err;

    for (int i = 0; i < N; i++) {
        memset(data, 'a' + i % 26, sizeof(data));
        f[i] = flux_rpc_raw(h, "test.big", data, (size_t)(i * 7) % 300 + 1, FLUX_NODEID_ANY, 0);
    }
    for (int i = 0; i < N; i++) {
        const void *got;
        size_t len;
        ck_assert_int_eq(flux_future_wait(f[i], 20.), 0);
        ck_assert_msg(flux_rpc_get_raw(f[i], &got, &len, &err) == 0, "%s", err.text);
        ck_assert_uint_eq(len, (size_t)(i * 7) % 300 + 1);
        ck_assert_int_eq(*(const char *)got, 'a' + i % 26);
        flux_future_destroy(f[i]);
    }
    ck_assert_uint_eq(b->broken, 0);
    flux_close(h);
    broker_stop(b);
}
END_TEST

START_TEST(test_large)
{
    static const size_t sizes[] = {1, 16000, 16384, 65536, 1000000, 50000000};
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    char *data = malloc(50000000);
    errmsg_t err;

    for (size_t i = 0; i < 50000000; i++)
        data[i] = (char)(i * 7 >> 3);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        flux_future_t *f = flux_rpc_raw(h, "test.big", data, sizes[i], FLUX_NODEID_ANY, 0);
        const void *got;
        size_t len;
        ck_assert_int_eq(flux_future_wait(f, 60.), 0);
        ck_assert_msg(flux_rpc_get_raw(f, &got, &len, &err) == 0, "%s", err.text);
        ck_assert_uint_eq(len, sizes[i]);
        ck_assert(memcmp(got, data, len) == 0);
        flux_future_destroy(f);
    }
    free(data);
    flux_close(h);
    broker_stop(b);
}
END_TEST

/* A client sends a million pings and reads no response: the broker stops reading; others are
 * served. */
START_TEST(test_no_reader)
{
    struct broker *b = broker_start(geteuid(), NULL);
    int fd = raw_connect(b);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "broker.ping");
    flux_t *h = open_client(b);
    char buf[256];
    size_t size;
    size_t sent = 0;
    size_t stuck = 0;

    flux_msg_set_json(msg, "{}");
    size = flux_msg_encoded_size(msg);
    flux_msg_encode(msg, buf);
    flux_msg_destroy(msg);
    while (sent < 1000000 && stuck < 200) {
        if (send(fd, buf, size, MSG_DONTWAIT) == (ssize_t)size) {
            sent++;
            stuck = 0;
        } else { /* the last frame may be truncated, since nothing more is sent */
            stuck++;
            poll(NULL, 0, 2);
            if (stuck == 1)
                ping(h);
        }
    }
    ck_assert_uint_lt(sent, 1000000);
    ping(h);
    WAIT_FOR(b->queued > 0);
    ck_assert_uint_lt(b->queued, 2 * 1024 * 1024);
    ck_assert_uint_eq(b->cut, 0);
    close(fd);
    WAIT_FOR(b->clients == 1);
    ping(h);
    flux_close(h);
    broker_stop(b);
}
END_TEST

/* A stream that nobody reads is disconnected, with a line in the log; the queue stays within its
 * limit, or (1) within that of all clients together, who lose the one for which most waits.
 */
START_TEST(test_cut)
{
    struct connector_limits limits = connector_limits_default;
    *(_i ? &limits.all_bytes : &limits.cut_bytes) = 4 << 20;
    struct broker *b = broker_start(geteuid(), &limits);
    flux_t *h = open_client(b);
    flux_t *other = open_client(b);
    flux_future_t *f = flux_rpc(h, "test.flood", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);

    ck_assert(f != NULL);
    WAIT_FOR(b->cut == 1);
    WAIT_FOR(b->clients == 1);
    ck_assert_int_gt(b->lines, 0);
    ping(other);
    /* The client reads what was written, then learns that the connection has ended. */
    for (;;) {
        ck_assert(flux_future_wait(f, 20.) == 0);
        if (flux_rpc_get(f, NULL) < 0)
            break;
        if (flux_future_next(f) < 0)
            break;
    }
    ck_assert_int_eq(errno, EPIPE);
    flux_future_destroy(f);
    flux_close(h);
    flux_close(other);
    broker_stop(b);
}
END_TEST

START_TEST(test_malformed)
{
    static const char *const garbage[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "\xf1\x01 the wrong version",
        "\xf1\x02\x07\x01 a type that is none, in a header of more than forty-four bytes",
    };
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);

    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        int fd = raw_connect(b);
        expect_hello(fd);
        ck_assert_int_gt(write(fd, garbage[i], strlen(garbage[i])), 0);
        expect_error(fd, "errnum");
        close(fd);
        ping(h);
    }
    WAIT_FOR(b->broken == 3);
    WAIT_FOR(b->clients == 1);
    flux_close(h);
    broker_stop(b);
}
END_TEST

START_TEST(test_wrong_type)
{
    struct broker *b = broker_start(geteuid(), NULL);
    static const enum flux_msg_type types[] = {FLUX_MSG_CONTROL, FLUX_MSG_EVENT};

    for (size_t i = 0; i < 2; i++) {
        int fd = raw_connect(b);
        flux_msg_t *msg = flux_msg_create(types[i], "hello");
        char buf[128];
        expect_hello(fd);
        flux_msg_encode(msg, buf);
        ck_assert_int_gt(write(fd, buf, flux_msg_encoded_size(msg)), 0);
        expect_error(fd, "requests and responses only");
        flux_msg_destroy(msg);
        close(fd);
    }
    broker_stop(b);
}
END_TEST

/* Half a request, then death; requests in flight, then death. */
START_TEST(test_half)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "test.silent");
    char buf[128];
    size_t size;
    flux_t *h;

    flux_msg_set_matchtag(msg, 1);
    size = flux_msg_encoded_size(msg);
    flux_msg_encode(msg, buf);
    for (size_t cut = 1; cut <= size; cut += 7) {
        int fd = raw_connect(b);
        ck_assert_int_eq(write(fd, buf, cut), cut);
        close(fd);
    }
    int fd = raw_connect(b);
    expect_hello(fd);
    ck_assert_int_eq(write(fd, buf, size), size);
    close(fd);
    flux_msg_destroy(msg);
    WAIT_FOR(b->clients == 0 && b->accepted > 5);
    WAIT_FOR(b->disconnects == 1); /* of the one whole request */
    h = open_client(b);
    ping(h);
    flux_close(h);
    broker_stop(b);
}
END_TEST

static void raw_request(int fd, const char *topic, uint32_t tag)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    char buf[128];
    size_t size;

    flux_msg_set_matchtag(msg, tag);
    size = flux_msg_encoded_size(msg);
    flux_msg_encode(msg, buf);
    ck_assert_int_eq(write(fd, buf, size), size);
    flux_msg_destroy(msg);
}

static bool has_input(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static void expect_answer(int fd, uint32_t tag)
{
    flux_msg_t *msg = raw_read(fd);

    ck_assert_ptr_nonnull(msg);
    ck_assert_uint_eq(flux_msg_matchtag(msg), tag);
    flux_msg_destroy(msg);
}

/* What need not be written at once is written with the next message to its client, or before the
 * broker sleeps: the greeting of a client that has sent a request when it is accepted, and lazy
 * answers. */
START_TEST(test_lazy)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    flux_future_t *f = flux_rpc(h, "test.gate", NULL, FLUX_NODEID_ANY, 0);
    int fd[3];

    /* The broker cannot accept them yet: it is held up, or will read the request above first. */
    for (size_t i = 0; i < 3; i++) {
        fd[i] = raw_connect(b);
        raw_request(fd[i], i == 0 ? "test.cred" : i == 1 ? "test.silent" : "test.lazy", 1);
    }
    ck_assert_int_eq(write(b->gate[1], "x", 1), 1);
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    expect_hello(fd[0]);
    expect_answer(fd[0], 1);
    WAIT_FOR(b->accepted == 4);
    ping(h);
    ck_assert(!has_input(fd[1]));
    ck_assert(!has_input(fd[2]));
    raw_request(fd[2], "test.cred", 2);
    expect_hello(fd[2]);
    expect_answer(fd[2], 1);
    expect_answer(fd[2], 2);
    raw_request(fd[2], "test.lazy", 3);
    ping(h);
    ck_assert_int_eq(write(b->gate[1], "x", 1), 1); /* now it sleeps */
    expect_answer(fd[2], 3);
    expect_hello(fd[1]);
    flux_future_destroy(f);
    for (size_t i = 0; i < 3; i++)
        close(fd[i]);
    flux_close(h);
    broker_stop(b);
}
END_TEST

static flux_t *open_early(struct broker *b)
{
    char uri[128];
    errmsg_t err;
    flux_t *h;

    snprintf(uri, sizeof(uri), "local://%s", b->path);
    h = flux_open_flags(uri, NULL, FLUX_O_NOWAIT, &err);
    ck_assert_msg(h != NULL, "%s", err.text);
    return h;
}

/* FLUX_O_NOWAIT: requests before the greeting; rank and size wait for it. */
START_TEST(test_nowait)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_early(b);
    flux_future_t *f[100];

    for (size_t i = 0; i < 100; i++)
        ck_assert_ptr_nonnull(f[i] = flux_rpc(h, "test.cred", NULL, FLUX_NODEID_ANY, 0));
    for (size_t i = 0; i < 100; i++) {
        ck_assert_int_eq(flux_future_wait(f[i], 20.), 0);
        ck_assert_int_eq(flux_future_errnum(f[i]), 0);
        flux_future_destroy(f[i]);
    }
    ck_assert_uint_eq(flux_size(h), 1);
    flux_close(h);
    h = open_early(b);
    ck_assert_uint_eq(flux_size(h), 1);
    ck_assert_uint_eq(flux_rank(h), 0);
    ping(h);
    flux_close(h);
    broker_stop(b);
}
END_TEST

/* The broker ends a connection before, or instead of, greeting it. */
START_TEST(test_nowait_refused)
{
    static const char *const why = "the broker of rank 0 has its maximum of 0 clients";
    struct connector_limits limits = connector_limits_default;
    flux_future_t *f;
    struct broker *b;
    flux_t *h;

    limits.clients = 0;
    b = broker_start(geteuid(), &limits);
    h = open_early(b);
    ck_assert_ptr_nonnull(f = flux_rpc(h, "test.cred", NULL, FLUX_NODEID_ANY, 0));
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_int_eq(flux_future_errnum(f), EPIPE);
    ck_assert_msg(str_starts(flux_future_error(f), why), "%s", flux_future_error(f));
    ck_assert_uint_eq(flux_size(h), 0);
    flux_close(h); /* with the future */
    h = open_early(b);
    WAIT_FOR(b->refused == 2);
    f = flux_rpc(h, "test.cred", NULL, FLUX_NODEID_ANY, 0); /* cannot be written any more */
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_msg(str_starts(flux_future_error(f), why), "%s", flux_future_error(f));
    flux_close(h);
    broker_stop(b);
}
END_TEST

/* Only the owner and root are admitted: the test's own user is neither (unless root runs it). */
START_TEST(test_permission)
{
    struct broker *b = broker_start(geteuid() + 4711, NULL);
    char uri[128];
    errmsg_t err;
    flux_t *h;

    snprintf(uri, sizeof(uri), "local://%s", b->path);
    h = flux_open(uri, NULL, &err);
    if (geteuid() == 0) {
        ck_assert(h != NULL);
        flux_close(h);
    } else {
        ck_assert(h == NULL);
        ck_assert_int_eq(errno, EPERM);
        ck_assert(strstr(err.text, "belongs to user") != NULL);
        WAIT_FOR(b->refused == 1);
    }
    WAIT_FOR(b->clients == 0);
    broker_stop(b);
}
END_TEST

/* Run by root, the test becomes another user while it connects, to see the refusal. */
START_TEST(test_permission_root)
{
    struct broker *b;
    pid_t pid;
    int status;

    if (geteuid() != 0)
        return;
    b = broker_start(4711, NULL);
    ck_assert_int_eq(chmod(b->dir, 0711), 0);
    ck_assert_int_eq(chmod(b->path, 0666), 0);
    if ((pid = fork()) == 0) {
        char uri[128];
        errmsg_t err = {""};
        if (setresuid(4712, 4712, 4712) < 0)
            _exit(1);
        snprintf(uri, sizeof(uri), "local://%s", b->path);
        if (flux_open(uri, NULL, &err) || errno != EPERM || !strstr(err.text, "belongs to user"))
            _exit(2);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    WAIT_FOR(b->refused == 1);
    broker_stop(b);
}
END_TEST

START_TEST(test_socket_file)
{
    struct broker *b = broker_start(geteuid(), NULL);
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    char stale[96];
    char plain[96];
    char toolong[200];
    flux_t *h;
    struct core_config cfg;
    flux_reactor_t *r = flux_reactor_create(false);
    core_t *core;
    connector_t *cn;
    errmsg_t err;
    int fd;

    core_config_init(&cfg);
    core = core_create(&cfg, r, NULL, NULL, &err);
    /* A living one. */
    ck_assert(connector_create(core, b->path, &connector_limits_default, &err) == NULL);
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert(strstr(err.text, "another broker") != NULL);
    h = open_client(b);
    ping(h);
    flux_close(h);
    /* A dead one. */
    snprintf(stale, sizeof(stale), "%s/stale", b->dir);
    strcpy(sun.sun_path, stale);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
    close(fd);
    cn = connector_create(core, stale, &connector_limits_default, &err);
    ck_assert_msg(cn != NULL, "%s", err.text);
    connector_destroy(cn);
    ck_assert(access(stale, F_OK) < 0);
    /* Not a socket. */
    snprintf(plain, sizeof(plain), "%s/plain", b->dir);
    fclose(fopen(plain, "w"));
    ck_assert(connector_create(core, plain, &connector_limits_default, &err) == NULL);
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert(strstr(err.text, "is not a socket") != NULL);
    ck_assert_int_eq(unlink(plain), 0);
    memset(toolong, 'x', sizeof(toolong) - 1);
    toolong[sizeof(toolong) - 1] = '\0';
    toolong[0] = '/';
    ck_assert(connector_create(core, toolong, &connector_limits_default, &err) == NULL);
    ck_assert_int_eq(errno, ENAMETOOLONG);
    ck_assert(connector_create(core, "/nonexistent/dir/local", &connector_limits_default, &err) ==
              NULL);
    ck_assert_int_eq(errno, ENOENT);
    core_destroy(core);
    flux_reactor_destroy(r);
    broker_stop(b);
}
END_TEST

START_TEST(test_open_errors)
{
    static const struct {
        const char *uri;
        int errnum;
    } bad[] = {
        {"local:///tmp/nobody-listens-here", ENOENT},
        {"local://relative", EINVAL},
        {"fd://x", EINVAL},
        {"fd://-1", EINVAL},
        {"fd://999", EBADF},
        {"tcp://host", EINVAL},
        {"", EINVAL},
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        ck_assert(flux_open(bad[i].uri, NULL, &err) == NULL);
        ck_assert_msg(errno == bad[i].errnum, "%s: %s", bad[i].uri, strerror(errno));
        ck_assert(strlen(err.text) > 10);
    }
    unsetenv("FLUX_URI");
    ck_assert(flux_open(NULL, NULL, &err) == NULL);
    ck_assert(strstr(err.text, "not inside a session") != NULL);
}
END_TEST

/* The process that listens there is not a broker. */
START_TEST(test_open_strange)
{
    static const char *const says[] = {
        "",
        "220 mail ESMTP\r\n",
        "{\"protocol\":2,\"rank\":0,\"size\":1,\"life\":1}",
        "{\"protocol\":1,\"rank\":1,\"size\":1,\"life\":1}",
        "{\"protocol\":1,\"rank\":0,\"life\":1}",
        "{\"protocol\":1,\"rank\":0,\"size\":1}",
    };

    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        int sv[2];
        char uri[32];
        errmsg_t err = {""};

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        snprintf(uri, sizeof(uri), "fd://%d", sv[0]);
        if (says[i][0] == '{') {
            flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, "hello");
            char buf[256];
            flux_msg_set_json(msg, says[i]);
            flux_msg_encode(msg, buf);
            ck_assert_int_gt(write(sv[1], buf, flux_msg_encoded_size(msg)), 0);
            flux_msg_destroy(msg);
        } else if (says[i][0])
            ck_assert_int_gt(write(sv[1], says[i], strlen(says[i])), 0);
        close(sv[1]);
        ck_assert(flux_open(uri, NULL, &err) == NULL);
        ck_assert(errno == EPROTO || errno == ECONNRESET);
        ck_assert(strlen(err.text) > 10);
    }
}
END_TEST

/* Another event loop waits for the descriptor of a handle. */
START_TEST(test_pollfd)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    flux_future_t *f[2];
    int events = 0, fd = flux_handle_pollfd(h, &events);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(events, FLUX_POLLIN);
    /* The first is written at once, the second waits to be written. */
    for (int i = 0; i < 2; i++)
        f[i] = flux_rpc(h, "broker.ping", "{}", FLUX_NODEID_ANY, 0);
    ck_assert_int_eq(flux_handle_pollfd(h, &events), fd);
    ck_assert_int_eq(events, FLUX_POLLIN | FLUX_POLLOUT);
    while (!flux_future_ready(f[0]) || !flux_future_ready(f[1])) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        if (events & FLUX_POLLOUT)
            pfd.events |= POLLOUT;
        ck_assert_int_eq(poll(&pfd, 1, 20000), 1);
        ck_assert_int_eq(flux_handle_wait(h, 0.), 0);
        ck_assert_int_eq(flux_handle_pollfd(h, &events), fd);
        ck_assert_int_eq(events, FLUX_POLLIN);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(flux_rpc_get(f[i], NULL), 0);
        flux_future_destroy(f[i]);
    }
    broker_stop(b);
    while (flux_handle_wait(h, 20.) == 0)
        ;
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_int_eq(flux_handle_pollfd(h, &events), -1);
    ck_assert_int_eq(errno, EPIPE);
    flux_close(h);
}
END_TEST

/* The broker goes away: futures end with EPIPE, waiting and in a reactor. */
START_TEST(test_lost)
{
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    flux_t *h2 = open_client(b);
    flux_future_t *f = flux_rpc(h, "test.silent", NULL, FLUX_NODEID_ANY, 0);
    flux_future_t *f2 = flux_rpc(h2, "test.silent", NULL, FLUX_NODEID_ANY, 0);
    errmsg_t err;

    ping(h);
    ping(h2);
    broker_stop(b);
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_int_eq(flux_rpc_get(f, &err), -1);
    ck_assert_int_eq(errno, EPIPE);
    flux_future_destroy(f);
    f = flux_rpc(h, "test.silent", NULL, FLUX_NODEID_ANY, 0);
    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_int_eq(flux_rpc_get(f, &err), -1);
    ck_assert_int_eq(errno, EPIPE);
    flux_future_destroy(f);
    ck_assert_int_eq(flux_run(h2), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_int_eq(flux_rpc_get(f2, &err), -1);
    flux_future_destroy(f2);
    flux_close(h);
    flux_close(h2);
}
END_TEST

START_TEST(test_thousands)
{
    enum { N = 1500 };
    struct broker *b = broker_start(geteuid(), NULL);
    struct rlimit lim;
    static flux_t *h[N];
    int n = N;

    getrlimit(RLIMIT_NOFILE, &lim);
    if (lim.rlim_max >= 3 * N + 100) {
        lim.rlim_cur = lim.rlim_max > 10000 ? 10000 : lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    } else
        n = (int)lim.rlim_cur / 8;
    for (int i = 0; i < n; i++)
        h[i] = open_client(b);
    for (int i = 0; i < n; i += 7)
        ping(h[i]);
    WAIT_FOR(b->clients == (unsigned)n);
    for (int i = 0; i < n; i++)
        flux_close(h[i]);
    WAIT_FOR(b->clients == 0);
    broker_stop(b);
}
END_TEST
struct ticks {
    int n;
    uint64_t seq;
};

static void event_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct ticks *t = arg;

    ck_assert(t->n == 0 || flux_msg_seq(msg) == t->seq + 1);
    t->seq = flux_msg_seq(msg);
    if (++t->n == 1000)
        flux_reactor_stop(flux_get_reactor(h), 0);
}

START_TEST(test_events)
{
    static const struct flux_handler tab[] = {
        {FLUX_MSG_EVENT, "tick", event_cb, 0},
        FLUX_HANDLER_END,
    };
    struct broker *b = broker_start(geteuid(), NULL);
    flux_t *h = open_client(b);
    struct ticks t = {0};
    flux_handlers_t *hs = flux_handlers_add(h, tab, &t);
    flux_future_t *f = flux_event_subscribe(h, "tick");

    ck_assert_int_eq(flux_future_wait(f, 20.), 0);
    ck_assert_int_eq(flux_rpc_get(f, NULL), 0);
    flux_future_destroy(f);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(flux_event_send(h, "tick", NULL), 0);
    ck_assert_int_eq(flux_run(h), 0);
    ck_assert_int_eq(t.n, 1000);
    flux_handlers_remove(hs);
    flux_close(h);
    broker_stop(b);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_basic,           test_many,           test_pauses,
        test_large,           test_no_reader,      test_malformed,
        test_wrong_type,      test_half,           test_permission,
        test_permission_root, test_socket_file,    test_open_errors,
        test_open_strange,    test_pollfd,         test_lost,
        test_thousands,       test_events,         test_lazy,
        test_nowait,          test_nowait_refused,
    };
    TCase *tc = tcase_create("connector");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, test_cut, 0, 2);
    return run_case("connector", tc);
}
