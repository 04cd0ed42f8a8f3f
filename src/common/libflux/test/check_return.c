/* check_return.c - a handle that returns to a restarted broker: a server in a thread, which is
 * stopped and started again at the same socket.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "libflux/dispatch.h"
#include "libflux/event.h"
#include "libflux/event_wire.h"
#include "libflux/framer.h"
#include "libflux/future.h"
#include "libflux/local_proto.h"
#include "libflux/overlay_wire.h"
#include "libutil/test/suite.h"

#define SEEN_MAX 64

/* What one life of the server does, and what it has heard. */
struct server {
    char dir[64], rank[72], path[80]; /* DIR/RANK/local, as in a session */
    pthread_t thread;
    bool running;
    int listener, wake[2];
    /* set between lives */
    uint32_t rank_number;
    uint64_t life;
    unsigned starting; /* so often the session does not run yet */
    const char *answer;
    bool refuses;  /* sends an "error" instead of a greeting */
    bool waits;    /* greets a client after its first request */
    bool shuts;    /* ends the connection instead */
    bool says_end; /* sends "ending" when it is stopped */
    bool denies;   /* subscriptions */
    bool deaf;     /* reads nothing after the session runs */
    unsigned cuts; /* so often "x.cut" is cut off after it has begun, later before that */
    bool hurries;  /* an "error" comes together with the greeting */
    /* read between lives */
    char seen[SEEN_MAX][48]; /* topics, and prefixes of subscriptions, in their order */
    size_t nseen;
};

/* In one write; `more` may be NULL. */
static void send_frames(int fd, flux_msg_t *msg, flux_msg_t *more)
{
    size_t len = flux_msg_encoded_size(msg), more_len = more ? flux_msg_encoded_size(more) : 0;
    char *buf = malloc(len + more_len);

    ck_assert_ptr_nonnull(buf);
    flux_msg_encode(msg, buf);
    if (more)
        flux_msg_encode(more, buf + len);
    (void)send(fd, buf, len + more_len, MSG_NOSIGNAL); /* the client may have gone */
    free(buf);
    flux_msg_destroy(msg);
    flux_msg_destroy(more);
}

static void send_frame(int fd, flux_msg_t *msg)
{
    send_frames(fd, msg, NULL);
}

static flux_msg_t *control(const char *topic, const struct flux_schema *desc, const void *in)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, topic);
    char *json = desc ? flux_schema_encode(desc, in) : NULL;

    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    free(json);
    return msg;
}

static void send_control(int fd, const char *topic, const struct flux_schema *desc, const void *in)
{
    send_frame(fd, control(topic, desc, in));
}

static void respond(int fd, const flux_msg_t *req, int errnum, unsigned flags, const char *text)
{
    flux_msg_t *msg = flux_msg_response_create(req, errnum);

    flux_msg_set_flags(msg, flags);
    ck_assert_int_eq(flux_msg_set_json(msg, text), 0);
    send_frame(fd, msg);
}

static void send_status(struct server *s, int fd, const flux_msg_t *req)
{
    struct overlay_status st = {.rank = s->rank_number,
                                .size = 8,
                                .state = s->starting > 0 ? "ready" : "run",
                                .up = "0-7",
                                .lost = "",
                                .topology = "flat"};
    char *json = flux_schema_encode(&overlay_status_schema, &st);

    if (s->starting > 0)
        s->starting--;
    respond(fd, req, 0, 0, json);
    free(json);
}

/* "x.silent" gets no answer; "x.stream" gets one that more follow; all else is answered. */
static void serve(struct server *s, int fd, const flux_msg_t *req)
{
    const char *topic = flux_msg_topic(req);
    struct event_prefix in = {""};
    json_t *owner = NULL;

    if (strcmp(topic, "overlay.status") == 0) {
        send_status(s, fd, req);
        return;
    }
    if (strncmp(topic, "event.", 6) == 0)
        owner = flux_schema_decode(&event_prefix_schema, flux_msg_json(req),
                                   strlen(flux_msg_json(req)), &in, NULL);
    ck_assert_uint_lt(s->nseen, SEEN_MAX);
    snprintf(s->seen[s->nseen++], sizeof(s->seen[0]), "%s%s%s", topic, owner ? " " : "", in.prefix);
    if (owner && s->denies)
        respond(fd, req, ENOSPC, 0, "there are too many");
    else if (strcmp(topic, "x.stream") == 0)
        respond(fd, req, 0, FLUX_MSGF_STREAMING, s->answer);
    else if (strcmp(topic, "x.cut") == 0) {
        if (s->cuts > 0)
            respond(fd, req, 0, FLUX_MSGF_STREAMING, s->answer);
        s->cuts -= s->cuts > 0;
        respond(fd, req, EHOSTUNREACH, 0, "rank 1 was lost");
    } else if (strcmp(topic, "x.silent") != 0)
        respond(fd, req, 0, 0, s->answer);
    json_decref(owner);
}

static void greet(struct server *s, int fd)
{
    struct local_hello hello = {LOCAL_PROTOCOL, s->rank_number, 4, s->life};
    struct local_error error = {EMFILE, "there are too many clients"};

    if (s->refuses)
        send_control(fd, LOCAL_ERROR, &local_error_schema, &error);
    else
        send_frames(fd, control(LOCAL_HELLO, &local_hello_schema, &hello),
                    s->hurries ? control(LOCAL_ERROR, &local_error_schema, &error) : NULL);
}

static void *server_main(void *arg)
{
    struct server *s = arg;
    char *scratch = malloc(FRAMER_SCRATCH);
    framer_t *in = NULL;
    bool deaf = false, greeted = false;
    int fd = -1;

    for (;;) {
        struct pollfd p[3] = {{s->wake[0], POLLIN, 0},
                              {fd < 0 ? s->listener : -1, POLLIN, 0},
                              {deaf ? -1 : fd, POLLIN, 0}};
        flux_msg_t *msg;

        ck_assert_int_gt(poll(p, 3, -1), 0);
        if (p[0].revents)
            break;
        if (p[1].revents) {
            ck_assert_int_ge(fd = accept(s->listener, NULL, NULL), 0);
            ck_assert_ptr_nonnull(in = framer_create());
            greeted = !s->waits;
            if (greeted)
                greet(s, fd);
        }
        if (p[2].revents) {
            ssize_t n = framer_read(in, fd, scratch, FRAMER_SCRATCH, false);

            if (n > 0 && !greeted && s->shuts) {
                n = 0;
            } else if (n > 0 && !greeted) {
                greeted = true;
                greet(s, fd);
            }
            while (n > 0 && (msg = framer_next(in, NULL))) {
                serve(s, fd, msg);
                flux_msg_destroy(msg);
                deaf = s->deaf && s->starting == 0;
            }
            if (n <= 0) {
                framer_destroy(in);
                close(fd);
                in = NULL;
                fd = -1;
            }
        }
    }
    if (fd >= 0 && s->says_end)
        send_control(fd, LOCAL_ENDING, NULL, NULL);
    framer_destroy(in);
    if (fd >= 0)
        close(fd);
    free(scratch);
    return NULL;
}

static void server_start(struct server *s)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    ck_assert(!s->running);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", s->path);
    (void)unlink(s->path);
    ck_assert_int_ge(s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
    ck_assert_int_eq(bind(s->listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    ck_assert_int_eq(listen(s->listener, 5), 0);
    ck_assert_int_eq(pipe2(s->wake, O_CLOEXEC), 0);
    s->nseen = 0;
    s->life++;
    ck_assert_int_eq(pthread_create(&s->thread, NULL, server_main, s), 0);
    s->running = true;
}

/* As if it was killed: the name of its socket stays. */
static void server_stop(struct server *s)
{
    if (!s->running)
        return;
    close(s->wake[1]);
    ck_assert_int_eq(pthread_join(s->thread, NULL), 0);
    close(s->wake[0]);
    close(s->listener);
    s->running = false;
}

static void server_init(struct server *s, bool says_end)
{
    memset(s, 0, sizeof(*s));
    s->says_end = says_end;
    s->rank_number = 2;
    s->answer = "{\"life\":1}";
    snprintf(s->dir, sizeof(s->dir), "/tmp/flux-return-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(s->dir));
    snprintf(s->rank, sizeof(s->rank), "%s/2", s->dir);
    ck_assert_int_eq(mkdir(s->rank, 0700), 0);
    snprintf(s->path, sizeof(s->path), "%s/local", s->rank);
    server_start(s);
}

static void server_remove(struct server *s)
{
    server_stop(s);
    (void)unlink(s->path);
    (void)rmdir(s->rank);
    (void)rmdir(s->dir);
}

static flux_t *open_to(struct server *s, unsigned flags)
{
    char uri[100];
    errmsg_t err = {""};
    flux_t *h;

    snprintf(uri, sizeof(uri), "local://%s", s->path);
    h = flux_open_flags(uri, NULL, flags, &err);
    ck_assert_msg(h != NULL, "%s", err.text);
    return h;
}

static void expect_json(flux_future_t *f, const char *want)
{
    const char *json;
    errmsg_t err = {""};

    ck_assert_int_eq(flux_future_wait(f, 30.), 0);
    ck_assert_msg(flux_rpc_get_json(f, &json, &err) == 0, "%s", err.text);
    ck_assert_str_eq(json, want);
}

static void expect_error(flux_future_t *f, int errnum)
{
    ck_assert_msg(flux_future_wait(f, 30.) == 0, "%s", strerror(errno));
    ck_assert_int_eq(flux_future_errnum(f), errnum);
    ck_assert_str_ne(flux_future_error(f), "");
}

static void subscribe(flux_t *h, const char *prefix, bool yes)
{
    flux_future_t *f = yes ? flux_event_subscribe(h, prefix) : flux_event_unsubscribe(h, prefix);

    expect_json(f, "{\"life\":1}");
    flux_future_destroy(f);
}

static void back_cb(flux_t *h, void *arg)
{
    flux_future_t *f = flux_rpc(h, "x.first", NULL, FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE);

    flux_future_destroy(f);
    ++*(int *)arg;
}

static void away_cb(flux_t *h, void *arg)
{
    ++*(int *)arg;
}

START_TEST(requests)
{
    static const char *const want[] = {"x.first",  "event.subscribe a", "event.subscribe a",
                                       "x.stream", "x.silent",          "x.late"};
    struct server s;
    flux_future_t *plain, *again, *stream, *lost_stream, *whole_stream, *late, *early;
    const uint32_t ranks[] = {0, 1, 2};
    flux_future_t *many;
    int back = 0, away = 0;
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    ck_assert_uint_eq(flux_size(h), 4);
    flux_set_away_handler(h, away_cb, &away);
    ck_assert_int_eq(flux_handle_pollfd(h, &back), -1); /* it changes */
    ck_assert_int_eq(errno, ENOTSUP);
    flux_set_back_handler(h, back_cb, &back);
    subscribe(h, "a", true);
    subscribe(h, "b", true);
    subscribe(h, "a", true);
    subscribe(h, "b", false);
    stream =
        flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    expect_json(stream, "{\"life\":1}");
    ck_assert_int_eq(flux_future_next(stream), 0);
    lost_stream = flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
    expect_json(lost_stream, "{\"life\":1}");
    ck_assert_int_eq(flux_future_next(lost_stream), 0);
    whole_stream = flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY,
                            FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_WHOLE);
    expect_json(whole_stream, "{\"life\":1}");
    ck_assert_int_eq(flux_future_next(whole_stream), 0);
    plain = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    again = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    many = flux_mrpc(h, "x.silent", NULL, ranks, 3, 0);

    server_stop(&s);
    expect_error(plain, ECONNRESET);
    expect_error(lost_stream, ECONNRESET);
    expect_error(whole_stream, ECONNRESET);
    flux_future_destroy(whole_stream);
    ck_assert_int_eq(flux_future_next(lost_stream), -1);
    for (int i = 0; i < 3; i++) { /* each rank has its result */
        expect_error(many, ECONNRESET);
        ck_assert_int_eq(flux_future_next(many), i < 2 ? 0 : -1);
    }
    ck_assert(!flux_future_ready(again) && !flux_future_ready(stream));
    ck_assert_int_eq(away, 1);
    /* while it is away */
    late = flux_rpc(h, "x.late", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    early = flux_rpc(h, "x.early", NULL, FLUX_NODEID_ANY, 0);
    expect_error(early, ECONNRESET);
    ck_assert_int_eq(flux_future_wait(late, 0.02), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);

    s.starting = 3;
    s.answer = "{\"life\":2}";
    server_start(&s);
    expect_json(stream, "{\"life\":2}");
    expect_json(late, "{\"life\":2}");
    ck_assert_int_eq(back, 1);
    ck_assert_uint_eq(flux_size(h), 8);
    ck_assert(!flux_future_ready(again));
    server_stop(&s);
    ck_assert_uint_eq(s.nseen, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_str_eq(s.seen[i], want[i]);

    /* what was answered is not sent again, what was renewed is */
    server_start(&s);
    ck_assert_int_eq(flux_future_next(stream), 0);
    expect_json(stream, "{\"life\":2}");
    flux_future_destroy(plain);
    plain = flux_rpc(h, "x.plain", NULL, FLUX_NODEID_ANY, 0);
    expect_json(plain, "{\"life\":2}");
    server_stop(&s);
    ck_assert_uint_eq(s.nseen, 6);
    ck_assert_str_eq(s.seen[1], "event.subscribe a");
    ck_assert_str_eq(s.seen[3], "x.stream");
    ck_assert_str_eq(s.seen[4], "x.silent");
    ck_assert_int_eq(back, 2);
    flux_future_destroy(plain);
    flux_future_destroy(again);
    flux_future_destroy(stream);
    flux_future_destroy(lost_stream);
    flux_future_destroy(many);
    flux_future_destroy(late);
    flux_future_destroy(early);
    flux_close(h);
    server_remove(&s);
}
END_TEST

static void stop_cb(flux_future_t *f, void *arg)
{
    struct server *s = arg;

    if (s->running && !strcmp(s->answer, "{\"life\":1}")) {
        server_stop(s);
        s->answer = "{\"life\":2}";
        server_start(s);
        flux_future_next(f);
        return;
    }
    flux_reactor_stop(flux_get_reactor(flux_future_handle(f)), 7);
}

/* The same in a reactor, and with a broker that says that it ends. */
START_TEST(in_reactor)
{
    struct server s;
    flux_future_t *f;
    flux_t *h;

    server_init(&s, true);
    h = open_to(&s, FLUX_O_RECONNECT);
    f = flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    ck_assert_int_eq(flux_future_then(f, -1., stop_cb, &s), 0);
    ck_assert_int_eq(flux_run(h), 7);
    expect_json(f, "{\"life\":2}");
    flux_future_destroy(f);
    flux_close(h);
    server_remove(&s);
}
END_TEST

/* A stream that ends as a broker on its way is lost begins anew, if it had begun, unless its
 * responses belong together. */
START_TEST(cut_off)
{
    for (int i = 0; i < 3; i++) {
        const bool again = i == 1;
        const unsigned flags = FLUX_MSGF_STREAMING | (i > 0 ? FLUX_MSGF_IDEMPOTENT : 0) |
                               (i > 1 ? FLUX_MSGF_WHOLE : 0);
        unsigned heard = 0;
        struct server s;
        flux_future_t *f;
        flux_t *h;

        server_init(&s, false);
        s.cuts = 3;
        h = open_to(&s, FLUX_O_RECONNECT);
        f = flux_rpc(h, "x.cut", NULL, FLUX_NODEID_ANY, flags);
        while (flux_future_wait(f, 30.) == 0 && flux_future_errnum(f) == 0) {
            heard++;
            ck_assert_int_eq(flux_future_next(f), 0);
        }
        expect_error(f, EHOSTUNREACH);
        ck_assert_uint_eq(heard, again ? 3 : 1);
        flux_future_destroy(f);
        flux_close(h);
        server_stop(&s);
        server_remove(&s);
        ck_assert_uint_eq(s.nseen, again ? 4 : 1);
    }
}
END_TEST

/* With FLUX_O_NOWAIT: requests before the greeting, which comes after the first of them; then it
 * returns as others do.  Rank, size and life of the broker are those of the greeting. */
START_TEST(nowait)
{
    struct server s;
    flux_future_t *stream, *plain, *silent;
    int back = 0;
    flux_t *h;

    server_init(&s, false);
    s.waits = true;
    h = open_to(&s, FLUX_O_RECONNECT | FLUX_O_NOWAIT);
    flux_set_back_handler(h, back_cb, &back);
    stream =
        flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    silent = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    plain = flux_rpc(h, "x.plain", NULL, FLUX_NODEID_ANY, 0);
    expect_json(plain, "{\"life\":1}");
    expect_json(stream, "{\"life\":1}");
    ck_assert_int_eq(flux_future_next(stream), 0);
    ck_assert_uint_eq(flux_rank(h), 2);
    ck_assert_uint_eq(flux_size(h), 4);
    server_stop(&s);
    ck_assert_uint_eq(s.nseen, 3);
    expect_error(silent, ECONNRESET);
    s.waits = false;
    s.answer = "{\"life\":2}";
    server_start(&s);
    expect_json(stream, "{\"life\":2}");
    ck_assert_int_eq(back, 1);
    ck_assert_uint_eq(flux_size(h), 8);
    flux_future_destroy(plain);
    flux_future_destroy(silent);
    flux_future_destroy(stream);
    flux_close(h);
    server_remove(&s);
}
END_TEST

static void lost_cb(flux_t *h, void *arg)
{
    ++*(int *)arg;
}

/* With FLUX_O_NOWAIT: a broker that refuses, or goes away, before it has greeted this client is not
 * waited for, since nobody knows which one it was. */
START_TEST(nowait_lost)
{
    for (int i = 0; i < 2; i++) {
        struct server s;
        flux_future_t *f;
        int lost = 0;
        flux_t *h;

        server_init(&s, false);
        s.waits = true;
        s.refuses = i == 0;
        s.shuts = i == 1;
        h = open_to(&s, FLUX_O_RECONNECT | FLUX_O_NOWAIT);
        flux_set_lost_handler(h, lost_cb, &lost);
        f = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
        expect_error(f, EPIPE);
        ck_assert_int_eq(lost, 1);
        ck_assert_uint_eq(flux_size(h), 0);
        flux_future_destroy(f);
        flux_close(h);
        server_remove(&s);
    }
}
END_TEST

/* One that does not return hears it as before, and "ending" is nothing to it. */
START_TEST(without_flag)
{
    struct server s;
    flux_future_t *f;
    errmsg_t err;
    flux_t *h;

    server_init(&s, true);
    ck_assert_ptr_null(flux_open_flags("local:///x", NULL, 8, &err));
    ck_assert_int_eq(errno, EINVAL);
    h = open_to(&s, 0);
    f = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    server_stop(&s);
    expect_error(f, EPIPE);
    flux_future_destroy(f);
    flux_close(h);
    server_remove(&s);
}
END_TEST

/* It gives up: the session has gone, another rank is there, the broker refuses, does not subscribe,
 * or is the same that had closed the connection. */
START_TEST(given_up)
{
    for (int i = 0; i < 5; i++) {
        struct server s;
        flux_future_t *f;
        int lost = 0;
        flux_t *h;

        server_init(&s, false);
        h = open_to(&s, FLUX_O_RECONNECT);
        flux_set_lost_handler(h, lost_cb, &lost);
        subscribe(h, "a", true);
        f = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
        if (i == 0) {
            server_remove(&s);
        } else {
            server_stop(&s);
            s.rank_number = i == 1 ? 3 : 2;
            s.refuses = i == 2;
            s.denies = i == 3;
            s.life -= i == 4;
            server_start(&s);
        }
        expect_error(f, EPIPE);
        ck_assert_int_eq(lost, 1);
        flux_future_destroy(f);
        f = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
        expect_error(f, EPIPE);
        flux_future_destroy(f);
        flux_close(h);
        server_remove(&s);
    }
}
END_TEST

/* Futures may be destroyed, and the handle closed, while the broker is away. */
START_TEST(closed_while_away)
{
    struct server s;
    flux_future_t *f, *g;
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    f = flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    expect_json(f, "{\"life\":1}");
    ck_assert_int_eq(flux_future_next(f), 0);
    g = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    server_stop(&s);
    expect_error(g, ECONNRESET);
    flux_future_destroy(f);
    flux_future_destroy(g);
    (void)flux_event_subscribe(h, "c");
    flux_close(h);
    server_remove(&s);
}
END_TEST

static void wait_cb(flux_future_t *f, void *arg)
{
    struct server *s = arg;
    flux_future_t *g;

    ck_assert_int_eq(flux_future_errnum(f), ECONNRESET);
    s->answer = "{\"life\":2}";
    server_start(s);
    g = flux_rpc(flux_future_handle(f), "x.inside", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    expect_json(g, "{\"life\":2}");
    flux_future_destroy(g);
}

/* The callback of one request waits until the connection is back: another request, whose turn had
 * not come, is sent again all the same. */
START_TEST(back_in_callback)
{
    struct server s;
    flux_future_t *plain, *stream;
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    plain = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    ck_assert_int_eq(flux_future_then(plain, -1., wait_cb, &s), 0);
    stream =
        flux_rpc(h, "x.stream", NULL, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    expect_json(stream, "{\"life\":1}");
    ck_assert_int_eq(flux_future_next(stream), 0);
    server_stop(&s);
    expect_json(stream, "{\"life\":2}");
    flux_future_destroy(plain);
    flux_future_destroy(stream);
    flux_close(h);
    server_remove(&s);
}
END_TEST

static flux_future_t *send_large(flux_t *h, const char *topic, size_t mib, unsigned flags)
{
    char *data = calloc(mib, 1 << 20);
    flux_future_t *f;

    ck_assert_ptr_nonnull(data);
    f = flux_rpc_raw(h, topic, data, mib << 20, FLUX_NODEID_ANY, flags);
    ck_assert_ptr_nonnull(f);
    free(data);
    return f;
}

static void fill_cb(flux_t *h, void *arg)
{
    flux_future_destroy(send_large(h, "x.large", 80, FLUX_MSGF_NORESPONSE));
}

/* What waits for the connection is bounded, and what cannot be sent when it is back ends. */
START_TEST(too_much)
{
    struct server s;
    flux_future_t *plain, *f[4];
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    plain = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    server_stop(&s);
    expect_error(plain, ECONNRESET);
    for (int i = 0; i < 4; i++)
        f[i] = send_large(h, "x.large", 22, FLUX_MSGF_IDEMPOTENT);
    ck_assert(!flux_future_ready(f[2]));
    expect_error(f[3], ENOBUFS);
    for (int i = 0; i < 4; i++)
        flux_future_destroy(f[i]);
    f[0] = flux_rpc(h, "x.again", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    ck_assert(!flux_future_ready(f[0])); /* there is room again */

    flux_set_back_handler(h, fill_cb, NULL);
    s.deaf = true;
    server_start(&s);
    expect_error(f[0], ENOBUFS);
    server_stop(&s);
    flux_future_destroy(plain);
    flux_future_destroy(f[0]);
    flux_close(h);
    server_remove(&s);
}
END_TEST

static void subscribe_cb(flux_t *h, void *arg)
{
    int *back = arg;

    if (++*back == 2)
        flux_future_destroy(flux_event_subscribe(h, "d"));
}

/* Subscriptions are made again before what followed them, and if nobody waited for their answers;
 * those of the back handler are made once. */
START_TEST(subscriptions)
{
    static const char *const want[] = {"event.subscribe d", "event.subscribe a",
                                       "event.subscribe c", "event.unsubscribe a"};
    struct server s;
    flux_future_t *plain, *unsub;
    int back = 0;
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    flux_set_back_handler(h, subscribe_cb, &back);
    subscribe(h, "a", true);
    flux_future_destroy(flux_event_subscribe(h, "c"));
    plain = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    server_stop(&s);
    expect_error(plain, ECONNRESET);
    unsub = flux_event_unsubscribe(h, "a");

    /* a life without answers */
    s.deaf = true;
    server_start(&s);
    while (back == 0)
        ck_assert_int_eq(flux_handle_wait(h, 30.), 0);
    server_stop(&s);

    s.deaf = false;
    s.answer = "{\"life\":3}";
    server_start(&s);
    expect_json(unsub, "{\"life\":3}");
    server_stop(&s);
    ck_assert_uint_eq(s.nseen, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(s.seen[i], want[i]);
    flux_future_destroy(plain);
    flux_future_destroy(unsub);
    flux_close(h);
    server_remove(&s);
}
END_TEST

static void second_cb(flux_t *h, void *arg)
{
    if (++*(int *)arg == 2)
        flux_reactor_stop(flux_get_reactor(h), 7);
}

/* A handle that has lost its subscriptions is lost for good: nothing keeps its reactor running, and
 * it returns to no other broker. */
START_TEST(lost_for_good)
{
    struct server s;
    flux_future_t *f;
    int lost = 0, back = 0;
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    flux_set_lost_handler(h, lost_cb, &lost);
    flux_set_back_handler(h, second_cb, &back);
    subscribe(h, "a", true);
    f = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    server_stop(&s);
    s.denies = true;
    server_start(&s);
    expect_error(f, EPIPE);
    server_stop(&s);
    s.denies = false;
    server_start(&s);
    ck_assert_int_eq(flux_run(h), 0);
    ck_assert_int_eq(lost, 1);
    ck_assert_int_eq(back, 1);
    flux_future_destroy(f);
    flux_close(h);
    server_remove(&s);
}
END_TEST

/* While the socket of a broker that accepts nobody has no room, a wait keeps its time. */
START_TEST(no_room)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct server s;
    flux_future_t *plain, *f;
    int listener, fds[16], n = 0;
    flux_t *h;

    server_init(&s, false);
    h = open_to(&s, FLUX_O_RECONNECT);
    plain = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    server_stop(&s);
    expect_error(plain, ECONNRESET);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", s.path);
    ck_assert_int_eq(unlink(s.path), 0);
    ck_assert_int_ge(listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    do {
        ck_assert_int_lt(n, 16);
        fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(fds[n], 0);
    } while (connect(fds[n++], (struct sockaddr *)&sun, sizeof(sun)) == 0);
    ck_assert_int_eq(errno, EAGAIN);
    f = flux_rpc(h, "x.late", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    ck_assert_int_eq(flux_future_wait(f, 0.02), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);

    while (n > 0)
        close(fds[--n]);
    close(listener);
    server_start(&s);
    expect_json(f, "{\"life\":1}");
    flux_future_destroy(plain);
    flux_future_destroy(f);
    flux_close(h);
    server_remove(&s);
}
END_TEST

/* What came together with the greeting is delivered although nothing is readable any more. */
START_TEST(with_greeting)
{
    struct server s;
    flux_future_t *f;
    flux_t *h;

    server_init(&s, false);
    s.hurries = true;
    h = open_to(&s, 0);
    ck_assert_int_eq(flux_run(h), -1);
    ck_assert_int_eq(errno, EPIPE);
    flux_close(h);

    h = open_to(&s, 0);
    f = flux_rpc(h, "x.silent", NULL, FLUX_NODEID_ANY, 0);
    expect_error(f, EPIPE);
    flux_future_destroy(f);
    flux_close(h);
    server_remove(&s);
}
END_TEST

int main(void)
{
    RUN_SUITE("return", requests, in_reactor, cut_off, nowait, nowait_lost, without_flag,
              with_greeting, given_up, closed_while_away, back_in_callback, too_much, subscriptions,
              lost_for_good, no_room);
}
