/* check_connector_flow.c - every request of a client is answered, however its input is split and
 * whichever clients are held back meanwhile; and what waits while the loop hurries is done in
 * portions.
 *
 * The broker is a connector with a core in the test's own thread.  Its one service keeps requests
 * in a queue, as a module does, and takes them out when the test says so.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alone.h"
#include "libflux/framer.h"
#include "libutil/fdutil.h"
#include "libutil/test/suite.h"
#include "src/broker/connector.h"

#define QUEUE_MAX 65536
#define JSON_BYTES 1500000
#define GUARD 200. /* seconds after which the test has failed: it takes one on a quiet host */
#define SENDERS 12
#define PROCESSES 3
#define PAIRS 20 /* of each process */
#define STEPS 4000
#define SEEDS 8

/* --- a broker --- */

struct request {
    flux_msg_t *msg;
    uint32_t from;
};

struct bed {
    flux_reactor_t *r;
    core_t *core;
    connector_t *cn;
    endpoint_t *ep;
    struct request queue[QUEUE_MAX];
    size_t head, tail;
    flux_watcher_t *guard;
    bool late;
};

static int keep(void *arg, flux_msg_t *msg, uint32_t from)
{
    struct bed *b = arg;

    ck_assert_uint_lt(b->tail, QUEUE_MAX);
    b->queue[b->tail++] = (struct request){msg, from};
    return 0;
}

static void keep_own(void *arg, flux_msg_t *msg)
{
    (void)keep(arg, msg, 0);
}

/* Take the next request and answer it. */
static bool take(struct bed *b)
{
    struct request *q = &b->queue[b->head];

    if (b->head == b->tail)
        return false;
    b->head++;
    core_endpoint_taken(b->core, q->from, core_request_weight(q->msg));
    if (!flux_msg_has_flag(q->msg, FLUX_MSGF_NORESPONSE))
        core_endpoint_input(b->ep, flux_msg_response_create(q->msg, 0));
    flux_msg_destroy(q->msg);
    return true;
}

static void guard_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct bed *b = arg;

    b->late = true;
    flux_reactor_stop(r, 0);
}

static struct bed *bed_create(void)
{
    static const struct endpoint_ops ep_ops = {.send = keep_own, .queue = keep};
    struct bed *b = calloc(1, sizeof(*b));
    struct connector_limits limits = connector_limits_default;
    struct core_config cfg;
    errmsg_t err = {""};

    core_config_init(&cfg);
    cfg.userid = geteuid();
    b->r = flux_reactor_create(false);
    ck_assert_ptr_nonnull(b->core = core_create(&cfg, b->r, NULL, NULL, &err));
    core_set_link(b->core, &alone_ops, NULL);
    limits.json_bytes = JSON_BYTES;
    ck_assert_ptr_nonnull(b->cn = connector_create(b->core, NULL, &limits, &err));
    b->ep = core_endpoint_add(b->core, ENDPOINT_MODULE, "flow", cfg.userid, FLUX_ROLE_BROKER,
                              &ep_ops, b);
    ck_assert_int_eq(core_service_add(b->core, "flow", b->ep), 0);
    ck_assert_int_eq(core_start(b->core), 0);
    b->guard = flux_timer_create(b->r, guard_cb, b);
    flux_timer_start(b->guard, GUARD, 0.);
    return b;
}

static void bed_destroy(struct bed *b)
{
    connector_destroy(b->cn);
    while (take(b))
        ;
    core_endpoint_remove(b->ep, EHOSTUNREACH, "end");
    core_destroy(b->core);
    flux_watcher_destroy(b->guard);
    flux_reactor_destroy(b->r);
    free(b);
}

static int adopt(struct bed *b, int fd[2])
{
    errmsg_t err;

    ck_assert_int_eq(fd_set_nonblock(fd[0], 1), 0);
    ck_assert_int_eq(fd_set_nonblock(fd[1], 1), 0);
    ck_assert_msg(connector_adopt(b->cn, fd[1], &err) == 0, "%s", err.text);
    return fd[0];
}

/* A connection of this process. */
static int dial(struct bed *b)
{
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    return adopt(b, fd);
}

/* Append an encoded request to what `buf` has. */
static void encode(uint8_t **buf, size_t *len, uint32_t tag, size_t payload, bool raw, bool stream)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "flow.x");
    char *data = calloc(1, payload + 1);
    size_t size;

    memset(data, 'x', payload);
    flux_msg_set_nodeid(msg, FLUX_NODEID_ANY);
    flux_msg_set_matchtag(msg, tag);
    ck_assert_int_eq(raw ? flux_msg_set_raw(msg, data, payload) : flux_msg_set_json(msg, data), 0);
    if (stream)
        flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    size = flux_msg_encoded_size(msg);
    ck_assert_ptr_nonnull(*buf = realloc(*buf, *len + size));
    flux_msg_encode(msg, *buf + *len);
    *len += size;
    free(data);
    flux_msg_destroy(msg);
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* Run one pass, in which all that was written is read. */
static void run_pass(struct bed *b)
{
    flux_watcher_t *pass = flux_timer_create(b->r, stop_cb, NULL);

    flux_timer_start(pass, 0., 0.);
    flux_reactor_run(b->r);
    flux_watcher_destroy(pass);
}

/* Run until this many requests have come in total. */
static void run_until_kept(struct bed *b, size_t n)
{
    while (b->tail < n && !b->late)
        run_pass(b);
    ck_assert_msg(b->tail >= n, "%zu requests of %zu have come", b->tail, n);
}

/* Run until the client has a response, which may follow a greeting. */
static void run_until_answered(struct bed *b, int fd)
{
    uint8_t scratch[FRAMER_SCRATCH];
    framer_t *in = framer_create();
    bool answered = false;

    while (!answered && !b->late) {
        flux_msg_t *msg;

        run_pass(b);
        ck_assert_int_ne(framer_read(in, fd, scratch, sizeof(scratch), false), 0);
        while ((msg = framer_next(in, NULL))) {
            answered = answered || flux_msg_type(msg) == FLUX_MSG_RESPONSE;
            flux_msg_destroy(msg);
        }
    }
    framer_destroy(in);
    ck_assert_msg(answered, "a client waits for its answer");
}

/* Write, while the broker reads. */
static void write_all(struct bed *b, int fd, const uint8_t *buf, size_t len)
{
    while (len > 0 && !b->late) {
        ssize_t n = write(fd, buf, len);

        ck_assert(n > 0 || errno == EAGAIN);
        if (n > 0) {
            buf += n;
            len -= (size_t)n;
        }
        run_pass(b);
    }
    ck_assert_uint_eq(len, 0);
}

/* The last bytes of three large requests of one process come in one pass.  The one in the middle
 * exceeds what may wait, so the others are held back, and one of them is read after it, in any
 * order. */
START_TEST(last_bytes)
{
    enum { HEAVY = 1200000, LAST = 100 };
    static const struct {
        size_t payload;
        bool raw;
        unsigned requests; /* that reach the service */
    } kinds[] = {{HEAVY, true, 3}, {HEAVY, false, 3}, {JSON_BYTES + 1, false, 1}};
    struct bed *b = bed_create();
    int fd[3] = {dial(b), dial(b), dial(b)};
    uint8_t *request[3] = {NULL};
    size_t len[3] = {0};

    for (int i = 0; i < 3; i++) {
        encode(&request[i], &len[i], 1, i == 1 ? HEAVY : kinds[_i].payload, i == 1 || kinds[_i].raw,
               false);
        write_all(b, fd[i], request[i], len[i] - LAST);
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(write(fd[i], request[i] + len[i] - LAST, LAST), LAST);
    for (unsigned n = 1; n <= kinds[_i].requests; n++) {
        run_until_kept(b, n);
        while (take(b))
            ;
    }
    for (int i = 0; i < 3; i++) {
        run_until_answered(b, fd[i]);
        close(fd[i]);
        free(request[i]);
    }
    bed_destroy(b);
}
END_TEST

/* --- what can wait while short requests are served --- */

static void hurry(struct bed *b)
{
    flux_reactor_hurry(b->r, flux_reactor_clock(b->r) + 1000.);
}

static unsigned clients(const struct bed *b)
{
    struct connector_stats st;

    connector_get_stats(b->cn, &st);
    return (unsigned)st.clients;
}

/* Clients that are gone are freed one by one in a hurry, and several at a time otherwise, or when
 * they are many. */
START_TEST(gone)
{
    enum { CLIENTS = 100, FEW = 12 };
    bool hurries = _i > 0;
    int n = _i == 2 ? CLIENTS : FEW;
    struct bed *b = bed_create();
    unsigned most = 0;
    int fd[CLIENTS];

    for (int i = 0; i < n; i++)
        fd[i] = dial(b);
    run_pass(b);
    if (hurries)
        hurry(b);
    for (int i = 0; i < n; i++)
        close(fd[i]);
    while (clients(b) > 0 && !b->late) {
        unsigned before = clients(b);

        run_pass(b);
        if (before - clients(b) > most)
            most = before - clients(b);
    }
    ck_assert_uint_eq(clients(b), 0);
    if (hurries && n == FEW)
        ck_assert_uint_eq(most, 1);
    else
        ck_assert_uint_gt(most, 1);
    bed_destroy(b);
}
END_TEST

/* What a disconnected client has sent is thrown away in portions before its socket is closed, and
 * it can send no more meanwhile. */
START_TEST(unread)
{
    enum { BYTES = 150000 };
    struct bed *b = bed_create();
    char *garbage = calloc(1, BYTES);
    int fd = dial(b);
    unsigned passes = 0;

    ck_assert_int_gt(write(fd, garbage, BYTES), 100000); /* not a message: the client is broken */
    hurry(b);
    for (; clients(b) > 0 && !b->late; passes++)
        run_pass(b);
    ck_assert_uint_gt(passes, 4);
    ck_assert(write(fd, garbage, 1) < 0 && errno == EPIPE);
    close(fd);
    free(garbage);
    bed_destroy(b);
}
END_TEST

/* Read all that has come.  False: nothing has. */
static bool has_heard(int fd)
{
    uint8_t scratch[4096];
    bool heard = false;

    while (read(fd, scratch, sizeof(scratch)) > 0)
        heard = true;
    return heard;
}

/* Parts of streams to many clients are written to a few clients in each pass, and to all in the
 * end; without haste, to all in one pass.  A client that has an answer gets it at once, behind what
 * was put off. */
START_TEST(many_streams)
{
    enum { CLIENTS = 40, FEW = 16 };
    bool hurries = _i == 1;
    struct bed *b = bed_create();
    unsigned heard = 0;
    int fd[CLIENTS];
    bool has[CLIENTS] = {false};

    for (int i = 0; i < CLIENTS; i++) {
        uint8_t *request = NULL;
        size_t len = 0;

        fd[i] = dial(b);
        encode(&request, &len, 1, 10, true, true);
        write_all(b, fd[i], request, len);
        free(request);
        run_until_kept(b, (size_t)i + 1);
        core_endpoint_taken(b->core, b->queue[i].from, core_request_weight(b->queue[i].msg));
        b->queue[i].from = 0; /* which is done */
    }
    for (int i = 0; i < CLIENTS; i++)
        (void)has_heard(fd[i]);   /* the greeting */
    flux_reactor_hurry(b->r, 0.); /* it did, for these requests */
    if (hurries)
        hurry(b);
    for (size_t i = 0; i < CLIENTS; i++) {
        flux_msg_t *more = flux_msg_response_create(b->queue[i].msg, 0);

        flux_msg_set_flags(more, flux_msg_flags(more) | FLUX_MSGF_STREAMING);
        core_endpoint_input(b->ep, more);
    }
    core_endpoint_input(b->ep, flux_msg_response_create(b->queue[CLIENTS - 1].msg, ENODATA));
    while (heard < CLIENTS && !b->late) {
        unsigned now = 0;

        run_pass(b);
        for (int i = 0; i < CLIENTS; i++)
            if (!has[i] && has_heard(fd[i])) {
                has[i] = true;
                now++;
            }
        ck_assert(hurries ? now <= FEW : now == CLIENTS);
        ck_assert(has[CLIENTS - 1]);
        heard += now;
    }
    ck_assert_uint_eq(heard, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        close(fd[i]);
    bed_destroy(b);
}
END_TEST

/* --- many clients, by chance --- */

struct sender {
    int fd;
    uint8_t *out;
    size_t len, at; /* of `out`: its length, and how much was written */
    framer_t *in;
    uint32_t asked, answered;
};

struct crowd {
    struct bed *bed;
    struct sender sender[SENDERS];
    int pair[PROCESSES][PAIRS][2];
    unsigned used[PROCESSES];
    unsigned steps;
    bool busy;
    uint64_t seed;
    uint8_t scratch[65536];
};

static unsigned below(struct crowd *c, unsigned n)
{
    c->seed ^= c->seed << 13;
    c->seed ^= c->seed >> 7;
    c->seed ^= c->seed << 17;
    return (unsigned)(c->seed >> 11) % n;
}

/* The kernel names the creator of a socket pair as the process at the other end: a child creates
 * the pairs in the descriptor table that it shares with this process. */
static void make_pairs(int pair[PAIRS][2])
{
    int result[2], status;
    pid_t pid;

    ck_assert_int_eq(pipe(result), 0);
    if ((pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0)) == 0) {
        for (int i = 0; i < PAIRS; i++) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) < 0)
                _exit(1);
        }
        _exit(write(result[1], pair, sizeof(int) * PAIRS * 2) < 0);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(result[0], pair, sizeof(int) * PAIRS * 2), sizeof(int) * PAIRS * 2);
    close(result[0]);
    close(result[1]);
}

static void join(struct crowd *c, struct sender *s)
{
    unsigned p = below(c, PROCESSES);

    *s = (struct sender){.fd = adopt(c->bed, c->pair[p][c->used[p]++]), .in = framer_create()};
    ck_assert_ptr_nonnull(s->in);
}

static void leave(struct sender *s)
{
    close(s->fd);
    free(s->out);
    framer_destroy(s->in);
}

/* Encode one or more requests of any size. */
static void ask(struct crowd *c, struct sender *s)
{
    static const size_t sizes[] = {0, 100, 3000, 20000, 70000, 200000, JSON_BYTES + 1};
    size_t payload = sizes[below(c, sizeof(sizes) / sizeof(sizes[0]))];
    unsigned n = payload > 3000 ? 1 : 1 + below(c, 60);
    bool raw = below(c, 2) == 0;

    if (s->at == s->len)
        s->at = s->len = 0;
    for (; n > 0; n--)
        encode(&s->out, &s->len, ++s->asked, payload, raw, false);
}

/* Write a piece of the output, of any length. */
static void say(struct sender *s, size_t most)
{
    size_t n = s->len - s->at < most ? s->len - s->at : most;
    ssize_t rc = n > 0 ? write(s->fd, s->out + s->at, n) : 0;

    ck_assert_msg(rc >= 0 || errno == EAGAIN, "cannot write to the broker: %s", strerror(errno));
    s->at += rc > 0 ? (size_t)rc : 0;
}

static void hear(struct crowd *c, struct sender *s)
{
    ssize_t n = framer_read(s->in, s->fd, c->scratch, sizeof(c->scratch), false);
    flux_msg_t *msg;

    ck_assert_msg(n > 0 || (n < 0 && errno == EAGAIN), "the broker has closed the connection");
    while ((msg = framer_next(s->in, NULL))) {
        if (flux_msg_type(msg) == FLUX_MSG_RESPONSE)
            ck_assert_uint_le(++s->answered, s->asked);
        flux_msg_destroy(msg);
    }
}

static bool may_join(const struct crowd *c)
{
    for (unsigned p = 0; p < PROCESSES; p++) {
        if (c->used[p] == PAIRS)
            return false;
    }
    return true;
}

static void step(struct crowd *c)
{
    struct sender *s = &c->sender[below(c, SENDERS)];

    switch (below(c, 12)) {
    case 0:
    case 1:
        if (s->len - s->at < 2000000)
            ask(c, s);
        break;
    case 2:
        if (below(c, 40) == 0 && may_join(c)) {
            leave(s);
            join(c, s);
        }
        break;
    case 3: /* the service works for a while, or the broker does other things */
        if (below(c, 20) == 0)
            c->busy = !c->busy;
        break;
    case 4:
        for (unsigned n = below(c, 100); !c->busy && n > 0 && take(c->bed); n--)
            ;
        break;
    case 5:
    case 6:
        hear(c, s);
        break;
    default:
        say(s, 1 + below(c, below(c, 2) ? 100000 : 300));
        break;
    }
}

/* Finish: write and take everything.  True when each sender has its responses. */
static bool settle(struct crowd *c)
{
    bool done = true;

    while (take(c->bed))
        ;
    for (int i = 0; i < SENDERS; i++) {
        struct sender *s = &c->sender[i];

        say(s, s->len);
        hear(c, s);
        done = done && s->answered == s->asked;
    }
    return done;
}

static void step_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct crowd *c = arg;

    for (unsigned n = 1 + below(c, 20); n > 0 && c->steps < STEPS; n--, c->steps++)
        step(c);
    if (c->steps == STEPS && settle(c))
        flux_reactor_stop(r, 0);
    else
        flux_timer_start(w, 0., 0.);
}

/* Requests of all sizes, written in pieces, taken and answered now and then, by clients of several
 * processes that come and go. */
START_TEST(chance)
{
    struct crowd *c = calloc(1, sizeof(*c));
    flux_watcher_t *w;

    c->seed = 0x9e3779b97f4a7c15u * (uint64_t)(_i + 1);
    c->bed = bed_create();
    for (int p = 0; p < PROCESSES; p++)
        make_pairs(c->pair[p]);
    for (int i = 0; i < SENDERS; i++)
        join(c, &c->sender[i]);
    w = flux_timer_create(c->bed->r, step_cb, c);
    flux_timer_start(w, 0., 0.);
    flux_reactor_run(c->bed->r);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_msg(!c->bed->late, "a client has %u answers to %u requests",
                      c->sender[i].answered, c->sender[i].asked);
    for (int i = 0; i < SENDERS; i++)
        leave(&c->sender[i]);
    for (int p = 0; p < PROCESSES; p++) {
        for (; c->used[p] < PAIRS; c->used[p]++) {
            close(c->pair[p][c->used[p]][0]);
            close(c->pair[p][c->used[p]][1]);
        }
    }
    flux_watcher_destroy(w);
    bed_destroy(c->bed);
    free(c);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("connector_flow");

    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, last_bytes, 0, 3);
    tcase_add_loop_test(tc, gone, 0, 3);
    tcase_add_test(tc, unread);
    tcase_add_loop_test(tc, many_streams, 0, 2);
    tcase_add_loop_test(tc, chance, 0, suite_runs(SEEDS));
    return run_case("connector_flow", tc);
}
