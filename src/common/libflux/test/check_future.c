/* check_future.c - the handle, and pending requests, over a transport in memory. */
#include "config.h"
#include <stdio.h>

#include "libflux/future.h"
#include "fake.h"
#include "libutil/test/suite.h"

struct got {
    int calls;
    int errnums[16];
    char last[64];
    bool next;      /* go on to the next result */
    int destroy_at; /* call at which to destroy the future */
    struct fake *fake;
    int answer; /* in the callback, after next: answer this one */
};

static void got_cb(flux_future_t *f, void *arg)
{
    struct got *g = arg;
    const char *json;

    ck_assert(flux_future_ready(f));
    ck_assert_int_lt(g->calls, 16);
    g->errnums[g->calls++] = flux_future_errnum(f);
    if (flux_rpc_get_json(f, &json, NULL) == 0)
        snprintf(g->last, sizeof(g->last), "%s", json);
    if (g->next)
        (void)flux_future_next(f);
    if (g->answer > 0) {
        g->answer--;
        fake_respond(g->fake, 0, 0, FLUX_MSGF_STREAMING, "{\"again\":1}");
    }
    if (g->calls == g->destroy_at) {
        flux_future_destroy(f);
        flux_future_destroy(f);
    }
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static void run_for(struct fake *f, double seconds)
{
    flux_watcher_t *w = flux_timer_create(f->r, stop_cb, NULL);

    flux_reactor_update(f->r);
    flux_timer_start(w, seconds, 0.);
    flux_reactor_run(f->r);
    flux_watcher_destroy(w);
}

/* --- the handle --- */

static void count_free(void *val)
{
    ++*(int *)val;
}

START_TEST(handle)
{
    struct fake *f = fake_create();
    flux_t *twin = flux_handle_create(&fake_ops, f, f->r, 3, 8, 42);
    int freed_a = 0, freed_b = 0;
    uint64_t x, y;

    ck_assert_uint_eq(flux_rank(f->h), 3);
    ck_assert_uint_eq(flux_size(f->h), 8);
    ck_assert_ptr_eq(flux_get_reactor(f->h), f->r);
    ck_assert_ptr_eq(flux_handle_impl(f->h), f);
    ck_assert_double_eq(flux_now(f->h), flux_reactor_now(f->r));
    for (int i = 0; i < 100; i++) {
        x = flux_random(f->h);
        y = flux_random(twin);
        ck_assert_uint_eq(x, y);
    }
    ck_assert_uint_ne(x, flux_random(f->h));
    flux_close(twin);
    f->destroyed = false;

    ck_assert_ptr_null(flux_aux_get(f->h, "a"));
    ck_assert_int_eq(flux_aux_set(f->h, "a", &freed_a, count_free), 0);
    ck_assert_int_eq(flux_aux_set(f->h, "b", &freed_b, NULL), 0);
    ck_assert_ptr_eq(flux_aux_get(f->h, "a"), &freed_a);
    ck_assert_int_eq(flux_aux_set(f->h, "a", &freed_b, count_free), 0);
    ck_assert_int_eq(freed_a, 1);
    ck_assert_ptr_eq(flux_aux_get(f->h, "a"), &freed_b);
    errno = 321;
    flux_close(NULL);
    ck_assert_int_eq(errno, 321);
    /* an unexpected message is dropped */
    flux_handle_deliver(f->h, flux_msg_create(FLUX_MSG_CONTROL, "hello"));
    flux_handle_deliver(f->h, flux_msg_create(FLUX_MSG_RESPONSE, "late"));
    flux_handle_deliver(f->h, flux_msg_create(FLUX_MSG_EVENT, "e"));
    fake_free(f);
    ck_assert_int_eq(freed_a, 1);
    ck_assert_int_eq(freed_b, 1);
}
END_TEST

START_TEST(open_errors)
{
    errmsg_t err = {""};

    unsetenv("FLUX_URI");
    ck_assert_ptr_null(flux_open(NULL, NULL, &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "FLUX_URI"));
    ck_assert_ptr_null(flux_open("local:///nowhere/at/all", NULL, &err));
    ck_assert_ptr_null(flux_open("rubbish", NULL, &err));
    ck_assert_str_ne(err.text, "");
}
END_TEST

static void lost_cb(flux_t *h, void *arg)
{
    ++*(int *)arg;
}

START_TEST(lost)
{
    struct fake *f = fake_create();
    struct got g = {.next = true};
    struct got g2 = {.destroy_at = 1};
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 1, 0);
    flux_future_t *b = flux_rpc(f->h, "a.b", NULL, 1, FLUX_MSGF_STREAMING);
    flux_future_t *c = flux_rpc(f->h, "a.b", NULL, 1, 0);
    flux_future_t *late;
    int count = 0;
    size_t sent;

    ck_assert_int_eq(flux_future_then(a, 5., got_cb, &g), 0);
    ck_assert_int_eq(flux_future_then(b, 0., got_cb, &g2), 0);
    flux_set_lost_handler(f->h, lost_cb, &count);
    sent = f->nsent;
    flux_handle_lost(f->h, "test");
    flux_handle_lost(f->h, "test");
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(g.calls, 1);
    ck_assert_int_eq(g.errnums[0], EPIPE);
    ck_assert_int_eq(g2.calls, 1);
    ck_assert_int_eq(flux_future_wait(c, 1.), 0);
    ck_assert_int_eq(flux_future_errnum(c), EPIPE);
    ck_assert_ptr_nonnull(strstr(flux_future_error(c), "lost"));
    ck_assert_int_eq(flux_future_next(c), -1);
    ck_assert_int_eq(errno, ENODATA);
    ck_assert_uint_eq(f->nsent, sent); /* no cancel: it would have no receiver */
    ck_assert_int_eq(flux_send(f->h, flux_msg_create(FLUX_MSG_REQUEST, "x")), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_ptr_nonnull(late = flux_rpc(f->h, "a.b", NULL, 1, 0));
    ck_assert(flux_future_ready(late));
    ck_assert_int_eq(flux_future_errnum(late), EPIPE);
    flux_future_destroy(late);
    flux_future_destroy(a);
    flux_future_destroy(c);
    fake_free(f);
}
END_TEST

static void lose_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct fake *f = arg;

    flux_handle_lost(f->h, "test");
}

/* A program that runs its reactor must come back from it, also when the connection was lost before,
 * while it waited for something. */
START_TEST(lost_ends_run)
{
    for (int before = 0; before < 2; before++) {
        struct fake *f = fake_create();
        flux_watcher_t *work = flux_timer_create(f->r, stop_cb, NULL);
        flux_watcher_t *lose = flux_timer_create(f->r, lose_cb, f);

        flux_timer_start(work, 30., 0.);
        if (before)
            flux_handle_lost(f->h, "test");
        else
            flux_timer_start(lose, 0.001, 0.);
        errno = 0;
        ck_assert_int_eq(flux_run(f->h), -1);
        ck_assert_int_eq(errno, EPIPE);
        ck_assert(flux_watcher_active(work));
        flux_watcher_destroy(work);
        flux_watcher_destroy(lose);
        fake_free(f);
    }
}
END_TEST

/* --- plain --- */

START_TEST(plain)
{
    struct fake *f = fake_create();
    struct got g = {.calls = 0};
    flux_future_t *a = flux_rpc(f->h, "kvs.get", "{\"k\":1}", 5, FLUX_MSGF_RING);
    flux_future_t *b = flux_rpc_raw(f->h, "kvs.put", "x\0y", 3, FLUX_NODEID_ANY, 0);
    const char *json = NULL;
    const void *data;
    size_t len;
    errmsg_t err = {""};

    ck_assert_uint_eq(f->nsent, 2);
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[0]), 5);
    ck_assert_uint_eq(flux_msg_flags(f->sent[0]), FLUX_MSGF_RING);
    ck_assert_str_eq(flux_msg_json(f->sent[0]), "{\"k\":1}");
    ck_assert_uint_eq(flux_msg_flags(f->sent[1]), FLUX_MSGF_RAW);
    ck_assert_uint_ne(flux_msg_matchtag(f->sent[0]), FLUX_MATCHTAG_NONE);
    ck_assert_uint_ne(flux_msg_matchtag(f->sent[0]), flux_msg_matchtag(f->sent[1]));
    ck_assert_ptr_eq(flux_future_handle(a), f->h);

    ck_assert(!flux_future_ready(a));
    ck_assert_int_eq(flux_future_errnum(a), EAGAIN);
    ck_assert_int_eq(flux_rpc_get_json(a, &json, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_str_ne(err.text, "");
    ck_assert_ptr_null(flux_rpc_get_msg(a));
    ck_assert_int_eq(flux_future_then(a, 0., got_cb, &g), 0);
    fake_respond(f, 0, 0, 0, "{\"v\":2}");
    ck_assert_int_eq(g.calls, 1);
    ck_assert_str_eq(g.last, "{\"v\":2}");
    ck_assert_str_eq(flux_future_error(a), "");
    ck_assert_int_eq(flux_rpc_get_raw(a, &data, &len, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    /* a second response to the same request is dropped */
    fake_respond(f, 0, 0, 0, "{\"v\":3}");
    ck_assert_int_eq(g.calls, 1);

    flux_msg_t *raw = fake_answer(f, 1, 0, 0, NULL);
    ck_assert_int_eq(flux_msg_set_raw(raw, "p\0q", 3), 0);
    flux_handle_deliver(f->h, raw);
    ck_assert_int_eq(flux_rpc_get_raw(b, &data, &len, &err), 0);
    ck_assert_uint_eq(len, 3);
    ck_assert_mem_eq(data, "p\0q", 3);
    ck_assert_int_eq(flux_rpc_get_json(b, &json, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(flux_rpc_get(b, &err), 0);
    ck_assert_int_eq(flux_future_next(b), -1);
    ck_assert_int_eq(errno, ENODATA);
    ck_assert_int_eq(flux_future_wait(b, 1.), -1);
    ck_assert_int_eq(errno, ENODATA);

    /* bad arguments */
    ck_assert_ptr_null(flux_rpc(f->h, "a b", NULL, 0, 0));
    ck_assert_int_eq(errno, EINVAL);
    flux_future_destroy(a);
    flux_future_destroy(b);
    flux_future_destroy(NULL);
    fake_free(f);
}
END_TEST

START_TEST(errors)
{
    struct fake *f = fake_create();
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    flux_future_t *b = flux_rpc(f->h, "a.b", NULL, 0, 0);
    errmsg_t err = {""};

    fake_respond(f, 0, ENOENT, 0, "no such thing");
    fake_respond(f, 1, EPERM, 0, NULL);
    ck_assert_int_eq(flux_rpc_get(a, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(err.text, "no such thing");
    ck_assert_str_eq(flux_future_error(a), "no such thing");
    ck_assert_str_eq(flux_future_error(b), strerror(EPERM));
    flux_future_destroy(a);
    flux_future_destroy(b);
    fake_free(f);
}
END_TEST

/* One instance has sent, the next one gets the answers. */
START_TEST(resumed)
{
    struct fake *f = fake_create();
    flux_future_t *one = flux_rpc(f->h, "a.b", NULL, 3, 0), *again;
    flux_future_t *many = flux_rpc(f->h, "c.d", NULL, 4, FLUX_MSGF_STREAMING);
    uint32_t tags[2] = {flux_rpc_tag(one), flux_rpc_tag(many)};
    struct got g = {.next = true};
    flux_t *h;

    ck_assert_uint_eq(tags[0], flux_msg_matchtag(f->sent[0]));
    ck_assert_uint_eq(tags[1], flux_msg_matchtag(f->sent[1]));
    h = flux_handle_create(&fake_ops, f, f->r, 3, 8, 43);
    ck_assert_ptr_nonnull(one = flux_rpc_resume(h, "a.b", 3, 0, tags[0]));
    ck_assert_ptr_null(flux_rpc_resume(h, "a.b", 3, 0, tags[0]));
    ck_assert_ptr_nonnull(many = flux_rpc_resume(h, "c.d", 4, FLUX_MSGF_STREAMING, tags[1]));
    ck_assert_uint_eq(flux_rpc_tag(one), tags[0]);
    ck_assert_int_eq(flux_future_then(many, -1., got_cb, &g), 0);
    flux_handle_deliver(h, fake_answer(f, 0, 0, 0, "{\"v\":1}"));
    ck_assert_int_eq(flux_rpc_get(one, NULL), 0);
    ck_assert_uint_eq(flux_rpc_tag(one), 0);
    flux_handle_deliver(h, fake_answer(f, 1, 0, FLUX_MSGF_STREAMING, "{\"v\":2}"));
    flux_handle_deliver(h, fake_answer(f, 1, 0, FLUX_MSGF_STREAMING, "{\"v\":3}"));
    ck_assert_int_eq(g.calls, 2);
    ck_assert_str_eq(g.last, "{\"v\":3}");
    /* whose answer was there, or that could not be sent */
    ck_assert_ptr_nonnull(again = flux_rpc_resume(h, "a.b", 3, 0, 0));
    ck_assert_int_eq(flux_future_errnum(again), EIO);
    ck_assert_uint_eq(f->nsent, 2);
    /* a stream that is given up is canceled where it was asked for */
    flux_future_destroy(many);
    ck_assert_uint_eq(f->nsent, 3);
    ck_assert_str_eq(flux_msg_topic(f->sent[2]), "c.cancel");
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[2]), 4);
    flux_future_destroy(one);
    flux_future_destroy(again);
    flux_close(h);
    f->destroyed = false;
    fake_free(f);
}
END_TEST

struct num {
    int v;
    const char *s;
};
static const struct flux_field num_fields[] = {
    FLUX_FIELD_INT(struct num, v, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct num, s, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema num_schema = FLUX_SCHEMA(struct num, num_fields);

START_TEST(structs)
{
    struct fake *f = fake_create();
    struct num in = {7, "x"};
    struct num out = {0, NULL};
    struct num bad = {7, "\xff"};
    flux_future_t *a = flux_rpc_struct(f->h, "a.b", &num_schema, &in, 0, 0);
    errmsg_t err = {""};

    ck_assert_str_eq(flux_msg_json(f->sent[0]), "{\"v\":7,\"s\":\"x\"}");
    ck_assert_ptr_null(flux_rpc_struct(f->h, "a.b", &num_schema, &bad, 0, 0));
    ck_assert_int_eq(errno, EINVAL);
    fake_inbox(f, fake_answer(f, 0, 0, 0, "{\"v\":8,\"s\":\"y\"}"));
    ck_assert_int_eq(flux_rpc_wait_struct(a, 1., &num_schema, &out, &err), 0);
    ck_assert_int_eq(out.v, 8);
    ck_assert_str_eq(out.s, "y");
    /* again: the strings are those of the last decoding */
    ck_assert_int_eq(flux_rpc_get_struct(a, &num_schema, &out, &err), 0);
    ck_assert_str_eq(out.s, "y");
    flux_future_destroy(a);
    a = flux_rpc(f->h, "a.c", NULL, 0, 0);
    fake_respond(f, 1, 0, 0, "{\"v\":8,\"w\":1}");
    ck_assert_int_eq(flux_rpc_get_struct(a, &num_schema, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_ptr_nonnull(strstr(err.text, "a.c"));
    ck_assert_ptr_nonnull(strstr(err.text, "'w'"));
    flux_future_destroy(a);
    a = flux_rpc(f->h, "a.c", NULL, 0, 0);
    ck_assert_int_eq(flux_rpc_wait_struct(a, 0.01, NULL, NULL, &err), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

START_TEST(no_response)
{
    struct fake *f = fake_create();
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_NORESPONSE);

    ck_assert(flux_future_ready(a));
    ck_assert_int_eq(flux_rpc_get(a, NULL), 0);
    ck_assert_uint_eq(flux_msg_matchtag(f->sent[0]), FLUX_MATCHTAG_NONE);
    flux_future_destroy(a);
    f->fail = ENOBUFS;
    a = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_NORESPONSE);
    ck_assert_int_eq(flux_future_errnum(a), ENOBUFS);
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

START_TEST(failing_send)
{
    static const int errnums[] = {EPIPE, ENOBUFS, ENOMEM, EIO};
    struct fake *f = fake_create();

    for (size_t i = 0; i < 4; i++) {
        struct got g = {.calls = 0};
        flux_future_t *a;
        f->fail = errnums[i];
        ck_assert_ptr_nonnull(a = flux_rpc(f->h, "a.b", NULL, 0, 0));
        ck_assert(flux_future_ready(a));
        ck_assert_int_eq(flux_future_errnum(a), errnums[i]);
        ck_assert_str_ne(flux_future_error(a), "");
        /* never called back from within then() */
        ck_assert_int_eq(flux_future_then(a, 1., got_cb, &g), 0);
        ck_assert_int_eq(g.calls, 0);
        run_for(f, 0.001);
        ck_assert_int_eq(g.calls, 1);
        ck_assert_int_eq(g.errnums[0], errnums[i]);
        run_for(f, 0.001);
        ck_assert_int_eq(g.calls, 1);
        flux_future_destroy(a);
    }
    fake_free(f);
}
END_TEST

static void lose_in_send(struct fake *f, flux_msg_t *msg)
{
    flux_msg_destroy(msg);
    flux_handle_lost(f->h, "test");
}

/* The transport finds out while it sends: one result, not two. */
START_TEST(lost_in_send)
{
    struct fake *f = fake_create();
    flux_future_t *a, *m;
    uint32_t ranks[3] = {0, 1, 2};

    f->hook = lose_in_send;
    a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    ck_assert_int_eq(flux_future_errnum(a), EPIPE);
    ck_assert_int_eq(flux_future_next(a), -1);
    m = flux_mrpc(f->h, "a.b", NULL, ranks, 3, 0);
    ck_assert_int_eq(flux_future_errnum(m), EPIPE);
    flux_future_destroy(a);
    flux_future_destroy(m);
    fake_free(f);
    f = fake_create();
    f->hook = lose_in_send;
    m = flux_mrpc(f->h, "a.b", NULL, ranks, 3, 0);
    ck_assert_int_eq(flux_future_errnum(m), EPIPE);
    flux_future_destroy(m);
    fake_free(f);
}
END_TEST

/* --- waiting --- */

START_TEST(waiting)
{
    struct fake *f = fake_create();
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    flux_future_t *b = flux_rpc(f->h, "a.b", NULL, 0, 0);
    const char *json;
    int events;

    /* what comes for others is handled meanwhile */
    fake_inbox(f, fake_answer(f, 1, 0, 0, "2"));
    fake_inbox(f, fake_answer(f, 0, 0, 0, "1"));
    ck_assert_int_eq(flux_future_wait(a, -1.), 0);
    ck_assert_int_eq(f->waits, 2);
    ck_assert_int_eq(flux_future_wait(b, 0.), 0);
    ck_assert_int_eq(f->waits, 2);
    ck_assert_int_eq(flux_rpc_get_json(b, &json, NULL), 0);
    ck_assert_str_eq(json, "2");
    flux_future_destroy(a);
    flux_future_destroy(b);
    /* time is up, and the answer may still come */
    a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    ck_assert_int_eq(flux_future_wait(a, 0.01), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert(!flux_future_ready(a));
    fake_inbox(f, fake_answer(f, 2, 0, 0, "3"));
    ck_assert_int_eq(flux_future_wait(a, 5.), 0);
    flux_future_destroy(a);
    /* the connection is lost */
    a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    f->lost_when_empty = true;
    ck_assert_int_eq(flux_future_wait(a, 5.), 0);
    ck_assert_int_eq(flux_future_errnum(a), EPIPE);
    flux_future_destroy(a);
    fake_free(f);

    f = fake_create_ops(&fake_nowait_ops);
    a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    ck_assert_int_eq(flux_future_wait(a, 1.), -1);
    ck_assert_int_eq(errno, EDEADLK);
    ck_assert_int_eq(flux_handle_pollfd(f->h, &events), -1);
    ck_assert_int_eq(errno, ENOTSUP);
    fake_respond(f, 0, 0, 0, "1");
    ck_assert_int_eq(flux_future_wait(a, 1.), 0);
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

/* --- callbacks --- */

START_TEST(then_after_results)
{
    struct fake *f = fake_create();
    struct got g = {.next = true};
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_STREAMING);

    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "1");
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "2");
    fake_respond(f, 0, ENODATA, 0, NULL);
    ck_assert_int_eq(flux_future_then(a, 1., got_cb, &g), 0);
    ck_assert_int_eq(g.calls, 0);
    run_for(f, 0.001);
    ck_assert_int_eq(g.calls, 3);
    ck_assert_int_eq(g.errnums[2], ENODATA);
    ck_assert_str_eq(g.last, "2");
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

/* A callback that does not ask for the next result is not called for it; when the next is asked for
 * later, outside, it is. */
START_TEST(next_later)
{
    struct fake *f = fake_create();
    struct got g = {.calls = 0};
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_STREAMING);

    ck_assert_int_eq(flux_future_then(a, 0., got_cb, &g), 0);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "1");
    ck_assert_int_eq(g.calls, 1);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "2");
    fake_respond(f, 0, 0, 0, "3");
    ck_assert_str_eq(g.last, "1");
    run_for(f, 0.001);
    g.calls = 0;
    ck_assert_int_eq(flux_future_next(a), 0);
    ck_assert_int_eq(g.calls, 0);
    run_for(f, 0.001);
    ck_assert_int_eq(g.calls, 1);
    ck_assert_str_eq(g.last, "2");
    ck_assert_int_eq(flux_future_next(a), 0);
    run_for(f, 0.001);
    ck_assert_str_eq(g.last, "3");
    ck_assert_int_eq(flux_future_next(a), -1);
    ck_assert_int_eq(errno, ENODATA);
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

/* A result that comes while the callback runs, after it has let go of the one at hand. */
START_TEST(result_in_callback)
{
    struct fake *f = fake_create();
    struct got g = {.next = true, .fake = f, .answer = 3};
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_STREAMING);

    ck_assert_int_eq(flux_future_then(a, 0., got_cb, &g), 0);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "1");
    ck_assert_int_eq(g.calls, 4);
    ck_assert_str_eq(g.last, "{\"again\":1}");
    ck_assert(!flux_future_ready(a));
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

START_TEST(destroy_in_callback)
{
    struct fake *f = fake_create();
    struct got g = {.destroy_at = 1};
    struct got s = {.destroy_at = 2, .next = true};
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, 0);
    flux_future_t *b = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_STREAMING);
    flux_future_t *c = flux_rpc(f->h, "a.b", NULL, 0, 0);
    struct got t = {.destroy_at = 1};

    ck_assert_int_eq(flux_future_then(a, 1., got_cb, &g), 0);
    ck_assert_int_eq(flux_future_then(b, 1., got_cb, &s), 0);
    ck_assert_int_eq(flux_future_then(c, 0.001, got_cb, &t), 0);
    fake_respond(f, 0, 0, 0, "1");
    for (int i = 0; i < 3; i++)
        fake_respond(f, 1, 0, FLUX_MSGF_STREAMING, "2");
    ck_assert_int_eq(g.calls, 1);
    ck_assert_int_eq(s.calls, 2);
    run_for(f, 0.01);
    ck_assert_int_eq(t.calls, 1);
    ck_assert_int_eq(t.errnums[0], ETIMEDOUT);
    fake_free(f);
}
END_TEST

START_TEST(timeouts)
{
    struct fake *f = fake_create();
    struct got g = {.next = true};
    flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, FLUX_MSGF_STREAMING);

    /* Long enough not to be over, on a busy host, before the check. */
    ck_assert_int_eq(flux_future_then(a, 1., got_cb, &g), 0);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "1");
    run_for(f, 0.01);
    ck_assert_int_eq(g.calls, 1);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "2");
    run_for(f, 0.005);
    ck_assert_int_eq(g.calls, 2); /* counted from the last response */
    ck_assert_uint_eq(f->nsent, 1);
    while (g.calls < 3)
        run_for(f, 0.1);
    ck_assert_int_eq(g.calls, 3);
    ck_assert_int_eq(g.errnums[2], ETIMEDOUT);
    /* the service is told, once, and what comes late is dropped */
    ck_assert_uint_eq(f->nsent, 2);
    ck_assert_str_eq(flux_msg_topic(f->sent[1]), "a.cancel");
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "3");
    ck_assert_int_eq(g.calls, 3);
    flux_future_destroy(a);
    ck_assert_uint_eq(f->nsent, 2);
    fake_free(f);
}
END_TEST

/* --- streams --- */

START_TEST(streaming)
{
    struct fake *f = fake_create();
    flux_future_t *a = flux_rpc(f->h, "log.follow", NULL, 6, FLUX_MSGF_STREAMING | FLUX_MSGF_RING);
    const char *json;
    char want[64];

    for (int i = 0; i < 5; i++) {
        snprintf(want, sizeof(want), "%d", i);
        fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, want);
    }
    for (int i = 0; i < 5; i++) {
        snprintf(want, sizeof(want), "%d", i);
        ck_assert_int_eq(flux_future_wait(a, 1.), 0);
        ck_assert_int_eq(flux_rpc_get_json(a, &json, NULL), 0);
        ck_assert_str_eq(json, want);
        ck_assert_int_eq(flux_future_next(a), 0);
    }
    ck_assert(!flux_future_ready(a));
    /* not over: the service is told, in the same way, that nobody listens */
    flux_future_destroy(a);
    ck_assert_uint_eq(f->nsent, 2);
    ck_assert_str_eq(flux_msg_topic(f->sent[1]), "log.cancel");
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[1]), 6);
    ck_assert_uint_eq(flux_msg_flags(f->sent[1]), FLUX_MSGF_NORESPONSE | FLUX_MSGF_RING);
    snprintf(want, sizeof(want), "{\"matchtag\":%u}", flux_msg_matchtag(f->sent[0]));
    ck_assert_str_eq(flux_msg_json(f->sent[1]), want);
    /* a few responses were under way; more of them tell that the cancel was lost */
    for (int i = 0; i < 3; i++)
        fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "late");
    ck_assert_uint_eq(f->nsent, 2);
    fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "later");
    ck_assert_uint_eq(f->nsent, 3);
    ck_assert_str_eq(flux_msg_topic(f->sent[2]), "log.cancel");
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[2]), 6);
    ck_assert_str_eq(flux_msg_json(f->sent[2]), want);
    fake_respond(f, 0, ENODATA, 0, "over");
    for (int i = 0; i < 50; i++)
        fake_respond(f, 0, 0, FLUX_MSGF_STREAMING, "an answer too many");
    ck_assert_uint_eq(f->nsent, 3);
    /* over: nothing to tell */
    a = flux_rpc(f->h, "log", NULL, 6, FLUX_MSGF_STREAMING);
    fake_respond(f, 3, 0, FLUX_MSGF_STREAMING, "1");
    fake_respond(f, 3, ENODATA, 0, NULL);
    flux_future_destroy(a);
    ck_assert_uint_eq(f->nsent, 4);
    /* plain: nothing to tell either */
    flux_future_destroy(flux_rpc(f->h, "log", NULL, 6, 0));
    ck_assert_uint_eq(f->nsent, 5);
    /* one that answers a plain request with a stream gets one answer through */
    a = flux_rpc(f->h, "log", NULL, 6, 0);
    fake_respond(f, 5, 0, FLUX_MSGF_STREAMING, "1");
    fake_respond(f, 5, 0, FLUX_MSGF_STREAMING, "2");
    ck_assert_int_eq(flux_future_next(a), -1);
    flux_future_destroy(a);
    fake_free(f);
}
END_TEST

START_TEST(closed_with_futures)
{
    struct fake *f = fake_create();
    struct got g = {.next = true};

    for (int i = 0; i < 10; i++) {
        flux_future_t *a = flux_rpc(f->h, "a.b", NULL, 0, i % 2 ? FLUX_MSGF_STREAMING : 0);
        ck_assert_int_eq(flux_future_then(a, i, got_cb, &g), 0);
        fake_respond(f, (size_t)i, 0, FLUX_MSGF_STREAMING, "1");
    }
    ck_assert_int_eq(g.calls, 10);
    fake_free(f);
}
END_TEST

/* --- many ranks --- */

START_TEST(mrpc)
{
    enum { N = 10000, WINDOW = 4096 };
    struct fake *f = fake_create();
    uint32_t *ranks = malloc(N * sizeof(*ranks));
    char *seen = calloc(1, N);
    flux_future_t *m;
    size_t answered = 0;
    const char *json;

    ck_assert(ranks && seen);
    for (uint32_t i = 0; i < N; i++)
        ranks[i] = N - 1 - i;
    m = flux_mrpc(f->h, "a.b", "{\"q\":1}", ranks, N, 0);
    memset(ranks, 0, N * sizeof(*ranks));
    ck_assert_uint_eq(f->nsent, WINDOW);
    ck_assert_uint_eq(flux_mrpc_rank(m), FLUX_NODEID_ANY);
    /* answered in an order of its own, some with errors */
    while (answered < N) {
        size_t i = answered ^ 1;
        uint32_t rank = flux_msg_nodeid(f->sent[i]);
        ck_assert_str_eq(flux_msg_json(f->sent[i]), "{\"q\":1}");
        fake_respond(f, i, rank % 10 ? 0 : EIO, 0, "{}");
        answered++;
        ck_assert_uint_eq(f->nsent, answered + WINDOW < N ? answered + WINDOW : N);
        if (answered % 3 == 0) {
            ck_assert_int_eq(flux_future_wait(m, 1.), 0);
            rank = flux_mrpc_rank(m);
            ck_assert(!seen[rank]++);
            ck_assert_int_eq(flux_rpc_get_json(m, &json, NULL), rank % 10 ? 0 : -1);
            (void)flux_future_next(m);
        }
    }
    while (flux_future_ready(m)) {
        ck_assert(!seen[flux_mrpc_rank(m)]++);
        (void)flux_future_next(m);
    }
    ck_assert_int_eq(flux_future_next(m), -1);
    ck_assert_int_eq(errno, ENODATA);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(seen[i], 1);
    flux_future_destroy(m);
    ck_assert_ptr_null(flux_mrpc(f->h, "a.b", NULL, ranks, 0, 0));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(flux_mrpc(f->h, "a.b", NULL, ranks, 2, FLUX_MSGF_STREAMING));
    errno = 0;
    ck_assert_ptr_null(flux_mrpc(f->h, "a b", NULL, ranks, 2, 0));
    ck_assert_int_eq(errno, EINVAL);
    free(ranks);
    free(seen);
    fake_free(f);
}
END_TEST

static void mrpc_cb(flux_future_t *f, void *arg)
{
    int *left = arg;

    --*left;
    if (flux_future_next(f) < 0 || *left == 0)
        flux_future_destroy(f);
}

/* A transport that answers at once, as a broker does its own requests. */
static void answer_at_once(struct fake *f, flux_msg_t *msg)
{
    flux_msg_t *resp = flux_msg_response_create(msg, EHOSTUNREACH);

    flux_msg_destroy(msg);
    ck_assert_ptr_nonnull(resp);
    flux_handle_deliver(f->h, resp);
}

START_TEST(mrpc_answered_at_once)
{
    enum { N = 200000 };
    struct fake *f = fake_create();
    uint32_t *ranks = calloc(N, sizeof(*ranks));
    flux_future_t *m;
    int left = N;

    f->hook = answer_at_once;
    ck_assert_ptr_nonnull(m = flux_mrpc(f->h, "a.b", NULL, ranks, N, 0));
    ck_assert_int_eq(flux_future_then(m, 0., mrpc_cb, &left), 0);
    run_for(f, 0.01);
    ck_assert_int_eq(left, 0);

    /* The same when the window moves on, and the callback destroys the future in the middle. */
    for (int stop = 0; stop < 2; stop++) {
        fake_clear(f);
        f->hook = NULL;
        left = stop ? 5 : N;
        ck_assert_ptr_nonnull(m = flux_mrpc(f->h, "a.b", NULL, ranks, N, 0));
        ck_assert_int_eq(flux_future_then(m, 10., mrpc_cb, &left), 0);
        f->hook = answer_at_once;
        for (size_t i = 0; i < f->nsent; i++)
            fake_respond(f, i, 0, 0, "{}");
        ck_assert_int_eq(left, 0);
    }
    free(ranks);
    fake_free(f);
}
END_TEST

START_TEST(mrpc_no_response)
{
    struct fake *f = fake_create();
    uint32_t ranks[] = {4, 5, 6};
    flux_future_t *m = flux_mrpc(f->h, "a.b", NULL, ranks, 3, FLUX_MSGF_NORESPONSE);

    ck_assert_uint_eq(f->nsent, 3);
    for (uint32_t i = 4; i <= 6; i++) {
        ck_assert_uint_eq(flux_mrpc_rank(m), i);
        ck_assert_int_eq(flux_future_next(m), i < 6 ? 0 : -1);
    }
    flux_future_destroy(m);
    f->fail = ENOBUFS;
    m = flux_mrpc(f->h, "a.b", NULL, ranks, 3, 0);
    for (uint32_t i = 4; i <= 6; i++) {
        ck_assert_uint_eq(flux_mrpc_rank(m), i);
        ck_assert_int_eq(flux_future_errnum(m), ENOBUFS);
        ck_assert_int_eq(flux_future_next(m), i < 6 ? 0 : -1);
    }
    flux_future_destroy(m);
    fake_free(f);
}
END_TEST

int main(void)
{
    RUN_SUITE("future", handle, open_errors, lost, lost_ends_run, plain, errors, resumed, structs,
              no_response, failing_send, lost_in_send, waiting, then_after_results, next_later,
              result_in_callback, destroy_in_callback, timeouts, streaming, closed_with_futures,
              mrpc, mrpc_answered_at_once, mrpc_no_response);
}
