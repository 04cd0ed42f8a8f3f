/* check_dispatch.c - from messages to handlers, and from handlers to responses. */
#include "config.h"
#include <jansson.h>
#include <stdio.h>

#include "libflux/dispatch.h"
#include "libflux/route.h"
#include "libutil/test/suite.h"
#include "fake.h"

struct seen {
    char text[256];
    flux_handlers_t *remove; /* in the handler */
    flux_handlers_t *added;
    const struct flux_handler *add;
    int depth;
};

static void see(struct seen *s, const char *what)
{
    ck_assert_uint_lt(strlen(s->text) + strlen(what), sizeof(s->text));
    strcat(s->text, what);
}

static void topic_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct seen *s = arg;

    see(s, flux_msg_topic(msg));
    see(s, " ");
    if (s->remove) {
        flux_handlers_remove(s->remove);
        s->remove = NULL;
    }
    if (s->add) {
        s->added = flux_handlers_add(h, s->add, s);
        ck_assert_ptr_nonnull(s->added);
        s->add = NULL;
    }
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST)
        ck_assert_int_eq(flux_respond(h, msg, "{}"), 0);
}

static void wild_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    see(arg, "*");
    topic_cb(h, msg, arg);
}

static const struct flux_handler table[] = {
    {FLUX_MSG_REQUEST, "svc.one", topic_cb, 0},
    {FLUX_MSG_REQUEST, "svc.*", wild_cb, 0},
    {FLUX_MSG_REQUEST, "open.all", topic_cb, FLUX_ROLE_USER | FLUX_ROLE_OWNER},
    {FLUX_MSG_EVENT, "ev", topic_cb, 0},
    {FLUX_MSG_EVENT, "ev.x", wild_cb, 0},
    FLUX_HANDLER_END,
};

static void request(struct fake *f, const char *topic, const char *json, uint32_t roles)
{
    fake_clear(f);
    flux_handle_deliver(f->h, fake_request(topic, json, roles));
}

static void event(struct fake *f, const char *topic)
{
    flux_handle_deliver(f->h, flux_msg_create(FLUX_MSG_EVENT, topic));
}

static void expect_error(struct fake *f, int errnum, const char *says)
{
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), errnum);
    ck_assert_msg(strstr(flux_msg_json(f->sent[0]), says) != NULL, "%s", flux_msg_json(f->sent[0]));
}

START_TEST(requests)
{
    struct fake *f = fake_create();
    struct seen s = {.text = ""};
    flux_handlers_t *hs = flux_handlers_add(f->h, table, &s);

    ck_assert_ptr_nonnull(hs);
    request(f, "svc.one", NULL, FLUX_ROLE_OWNER);
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_int_eq(flux_msg_type(f->sent[0]), FLUX_MSG_RESPONSE);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), 0);
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[0]), 3);
    ck_assert_uint_eq(flux_msg_matchtag(f->sent[0]), 77);
    ck_assert_uint_eq(flux_msg_route_count(f->sent[0]), 1);
    request(f, "svc.two", NULL, FLUX_ROLE_BROKER);
    request(f, "svc.two.three", NULL, FLUX_ROLE_OWNER);
    request(f, "svc.", NULL, FLUX_ROLE_OWNER);
    ck_assert_str_eq(s.text, "svc.one *svc.two *svc.two.three *svc. ");
    /* unknown */
    s.text[0] = '\0';
    request(f, "svc", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "rank 3 does not know the request svc");
    request(f, "svcx.one", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "svcx.one");
    request(f, "open.other", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "open.other");
    /* roles */
    request(f, "svc.one", NULL, FLUX_ROLE_USER);
    expect_error(f, EPERM, "svc.one");
    request(f, "svc.one", NULL, 0);
    expect_error(f, EPERM, "svc.one");
    request(f, "open.all", NULL, FLUX_ROLE_BROKER);
    expect_error(f, EPERM, "open.all");
    ck_assert_str_eq(s.text, "");
    request(f, "open.all", NULL, FLUX_ROLE_USER);
    ck_assert_str_eq(s.text, "open.all ");
    /* no response is expected */
    fake_clear(f);
    flux_msg_t *quiet = fake_request("what.disconnect", NULL, FLUX_ROLE_OWNER);
    flux_msg_set_flags(quiet, FLUX_MSGF_NORESPONSE);
    flux_handle_deliver(f->h, quiet);
    quiet = fake_request("svc.one", NULL, FLUX_ROLE_USER);
    flux_msg_set_flags(quiet, FLUX_MSGF_NORESPONSE);
    flux_handle_deliver(f->h, quiet);
    ck_assert_uint_eq(f->nsent, 0);
    /* gone */
    flux_handlers_remove(hs);
    request(f, "svc.one", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "svc.one");
    fake_free(f);
}
END_TEST

START_TEST(taken)
{
    static const struct flux_handler other[] = {
        {FLUX_MSG_REQUEST, "other.a", topic_cb, 0},
        {FLUX_MSG_EVENT, "ev", topic_cb, 0},
        {FLUX_MSG_REQUEST, "svc.*", topic_cb, 0},
        FLUX_HANDLER_END,
    };
    static const struct flux_handler doubled[] = {
        {FLUX_MSG_REQUEST, "d.a", topic_cb, 0},
        {FLUX_MSG_REQUEST, "d.a", topic_cb, 0},
        FLUX_HANDLER_END,
    };
    static const struct flux_handler none[] = {FLUX_HANDLER_END};
    static const struct flux_handler wrong[] = {
        {FLUX_MSG_REQUEST, "d.b", topic_cb, 0},
        {FLUX_MSG_RESPONSE, "d.a", topic_cb, 0},
        FLUX_HANDLER_END,
    };
    struct fake *f = fake_create();
    struct seen s = {.text = ""};
    flux_handlers_t *hs = flux_handlers_add(f->h, table, &s);
    flux_handlers_t *empty;

    errno = 0;
    ck_assert_ptr_null(flux_handlers_add(f->h, other, &s));
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_ptr_null(flux_handlers_add(f->h, doubled, &s));
    /* nothing of them is left, and the first is whole */
    request(f, "other.a", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "other.a");
    request(f, "d.a", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "d.a");
    event(f, "ev");
    request(f, "svc.q", NULL, FLUX_ROLE_OWNER);
    ck_assert_str_eq(s.text, "ev *svc.q ");
    ck_assert_ptr_nonnull(empty = flux_handlers_add(f->h, none, &s));
    /* Responses are for futures. */
    errno = 0;
    ck_assert_ptr_null(flux_handlers_add(f->h, wrong, &s));
    ck_assert_int_eq(errno, EINVAL);
    request(f, "d.b", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "d.b");
    flux_handlers_remove(hs);
    ck_assert_ptr_nonnull(hs = flux_handlers_add(f->h, other, &s));
    flux_handlers_remove(NULL);
    fake_free(f); /* with tables left */
}
END_TEST

START_TEST(events)
{
    struct fake *f = fake_create();
    struct seen s = {.text = ""};
    struct seen s2 = {.text = ""};
    flux_handlers_t *hs = flux_handlers_add(f->h, table, &s);
    flux_handlers_t *twice = flux_handlers_add(f->h, table + 3, &s2);

    event(f, "e");
    event(f, "ev.x");
    event(f, "event");
    event(f, "svc.one");
    ck_assert_str_eq(s.text, "ev.x *ev.x event ");
    ck_assert_str_eq(s2.text, s.text);
    flux_handlers_remove(hs);
    event(f, "ev");
    ck_assert_str_eq(s.text, "ev.x *ev.x event ");
    ck_assert_str_eq(s2.text, "ev.x *ev.x event ev ");
    flux_handlers_remove(twice);
    fake_free(f);
}
END_TEST

START_TEST(changed_while_dispatching)
{
    struct fake *f = fake_create();
    struct seen s = {.text = ""};
    struct seen s2 = {.text = ""};
    flux_handlers_t *hs;
    flux_handlers_t *other;

    /* its own table, from a request and from an event */
    s.remove = flux_handlers_add(f->h, table, &s);
    request(f, "svc.one", NULL, FLUX_ROLE_OWNER);
    ck_assert_uint_eq(f->nsent, 1);
    request(f, "svc.one", NULL, FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, "svc.one");
    s.remove = flux_handlers_add(f->h, table, &s);
    event(f, "ev.x");
    ck_assert_str_eq(s.text, "svc.one ev.x ");
    /* another one that would come after it, and before it */
    for (int after = 0; after < 2; after++) {
        s.text[0] = s2.text[0] = '\0';
        if (!after)
            other = flux_handlers_add(f->h, table + 3, &s2);
        hs = flux_handlers_add(f->h, table + 3, &s);
        if (after)
            other = flux_handlers_add(f->h, table + 3, &s2);
        s.remove = other;
        event(f, "ev.x");
        ck_assert_str_eq(s.text, "ev.x *ev.x ");
        ck_assert_str_eq(s2.text, after ? "" : "ev.x *ev.x ");
        event(f, "ev");
        ck_assert_str_eq(s2.text, after ? "" : "ev.x *ev.x ");
        flux_handlers_remove(hs);
    }
    /* replaced by itself: removed and added in its own handler */
    s.text[0] = '\0';
    s.remove = flux_handlers_add(f->h, table, &s);
    s.add = table;
    request(f, "svc.one", NULL, FLUX_ROLE_OWNER);
    request(f, "svc.one", NULL, FLUX_ROLE_OWNER);
    ck_assert_str_eq(s.text, "svc.one svc.one ");
    flux_handlers_remove(s.added);
    s.text[0] = '\0';
    s.remove = flux_handlers_add(f->h, table + 3, &s);
    s.add = table + 3;
    event(f, "ev.x");
    ck_assert_ptr_nonnull(strstr(s.text, "ev.x "));
    s.text[0] = '\0';
    event(f, "ev");
    ck_assert_str_eq(s.text, "ev ");
    fake_free(f);
}
END_TEST

START_TEST(pings)
{
    struct fake *f = fake_create();
    flux_msg_t *req;
    json_t *obj;
    size_t len;

    request(f, "svc.ping", "{\"seq\":4,\"pad\":\"xx\",\"rank\":\"mine\"}", FLUX_ROLE_USER);
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), 0);
    obj = json_loads(flux_msg_json(f->sent[0]), 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(obj, "seq")), 4);
    ck_assert_str_eq(json_string_value(json_object_get(obj, "pad")), "xx");
    ck_assert_int_eq(json_integer_value(json_object_get(obj, "rank")), 3);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(obj, "route"), 0)),
                     "client-5");
    json_decref(obj);

    /* over tree and ring */
    req = fake_request("svc.ping", "{}", FLUX_ROLE_OWNER);
    ck_assert_int_eq(flux_msg_route_push(req, flux_route_make(FLUX_ROUTE_TREE, 9)), 0);
    ck_assert_int_eq(flux_msg_route_push(req, flux_route_make(FLUX_ROUTE_RING, 2)), 0);
    fake_clear(f);
    flux_handle_deliver(f->h, req);
    ck_assert_ptr_nonnull(strstr(flux_msg_json(f->sent[0]), "[\"client-5\",\"9\",\"ring:2\"]"));

    req = fake_request("svc.ping", NULL, FLUX_ROLE_OWNER);
    ck_assert_int_eq(flux_msg_set_raw(req, "\0\1\2", 3), 0);
    fake_clear(f);
    flux_handle_deliver(f->h, req);
    ck_assert_mem_eq(flux_msg_payload(f->sent[0], &len), "\0\1\2", 4);
    ck_assert_uint_eq(len, 3);
    ck_assert(flux_msg_has_flag(f->sent[0], FLUX_MSGF_RAW));

    request(f, "svc.ping", NULL, FLUX_ROLE_OWNER);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), 0);
    ck_assert_ptr_null(flux_msg_payload(f->sent[0], &len));
    request(f, "svc.ping", "[1]", FLUX_ROLE_OWNER);
    expect_error(f, EPROTO, "not a JSON object");
    request(f, "svc.ping", "{", FLUX_ROLE_OWNER);
    expect_error(f, EPROTO, "not a JSON object");
    request(f, ".ping", "{}", FLUX_ROLE_OWNER);
    expect_error(f, ENOSYS, ".ping");
    fake_free(f);
}
END_TEST

static void stream_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    ck_assert_int_eq(flux_respond_more(h, msg, "1"), 0);
    ck_assert_int_eq(flux_respond_more_raw(h, msg, "\0", 1), 0);
    ck_assert_int_eq(flux_respond_raw(h, msg, "\0", 1), 0);
    ck_assert_int_eq(flux_respond_error(h, msg, 0, "%s", ""), 0);
    ck_assert_int_eq(flux_respond_error(h, msg, ENODATA, "end %d", 5), 0);
}

START_TEST(answers)
{
    static const struct flux_handler tab[] = {
        {FLUX_MSG_REQUEST, "s.t", stream_cb, 0},
        FLUX_HANDLER_END,
    };
    struct fake *f = fake_create();
    flux_msg_t *req = fake_request("s.t", NULL, FLUX_ROLE_OWNER);
    char longest[600];

    ck_assert_ptr_nonnull(flux_handlers_add(f->h, tab, NULL));
    flux_msg_set_flags(req, FLUX_MSGF_STREAMING);
    flux_handle_deliver(f->h, flux_msg_incref(req));
    ck_assert_uint_eq(f->nsent, 5);
    ck_assert_uint_eq(flux_msg_flags(f->sent[0]), FLUX_MSGF_STREAMING);
    ck_assert_uint_eq(flux_msg_flags(f->sent[1]), FLUX_MSGF_STREAMING | FLUX_MSGF_RAW);
    ck_assert_uint_eq(flux_msg_flags(f->sent[2]), FLUX_MSGF_RAW);
    ck_assert_int_eq(flux_msg_errnum(f->sent[3]), EINVAL);
    ck_assert_ptr_null(flux_msg_payload(f->sent[3], NULL));
    ck_assert_int_eq(flux_msg_errnum(f->sent[4]), ENODATA);
    ck_assert_str_eq(flux_msg_json(f->sent[4]), "end 5");
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    fake_clear(f);
    ck_assert_int_eq(flux_respond_error(f->h, req, EIO, "%s", longest), 0);
    ck_assert_uint_eq(strlen(flux_msg_json(f->sent[0])), 511);
    fake_clear(f);
    f->fail = ENOBUFS;
    ck_assert_int_eq(flux_respond(f->h, req, NULL), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    f->fail = 0;
    /* an error number that no message carries is still an answer */
    ck_assert_int_eq(flux_respond_error(f->h, req, 1000000, "odd"), 0);
    ck_assert_uint_eq(f->nsent, 1);
    ck_assert_int_eq(flux_msg_errnum(f->sent[0]), EINVAL);
    flux_msg_destroy(req);
    fake_free(f);
}
END_TEST

struct num {
    int v;
};
static const struct flux_field num_fields[] = {
    FLUX_FIELD_INT(struct num, v, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema num_schema = FLUX_SCHEMA(struct num, num_fields);

START_TEST(decoding)
{
    struct fake *f = fake_create();
    static const char *const bad[] = {NULL, "[]", "{\"v\":\"x\"}", "{\"v\":1,\"w\":2}", "{", "{}"};
    json_t *owner;
    struct num n;
    flux_msg_t *req;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        req = fake_request("a.b", bad[i], FLUX_ROLE_OWNER);
        fake_clear(f);
        errno = 0;
        ck_assert_int_eq(flux_request_decode(f->h, req, &num_schema, &n, &owner), -1);
        ck_assert_int_eq(errno, EPROTO);
        expect_error(f, EPROTO, "a.b");
        flux_msg_destroy(req);
    }
    req = fake_request("a.b", "{\"v\":9}", FLUX_ROLE_OWNER);
    ck_assert_int_eq(flux_request_decode(f->h, req, &num_schema, &n, &owner), 0);
    ck_assert_int_eq(n.v, 9);
    json_decref(owner);
    fake_clear(f);
    ck_assert_int_eq(flux_respond_struct(f->h, req, &num_schema, &n), 0);
    ck_assert_str_eq(flux_msg_json(f->sent[0]), "{\"v\":9}");
    ck_assert_int_eq(flux_msg_set_raw(req, "{\"v\":9}", 7), 0);
    ck_assert_int_eq(flux_request_decode(f->h, req, &num_schema, &n, &owner), -1);
    flux_msg_destroy(req);
    fake_free(f);
}
END_TEST

START_TEST(senders)
{
    flux_msg_t *req = flux_msg_create(FLUX_MSG_REQUEST, "a");
    char buf[FLUX_SENDER_MAX];
    char tiny[4];

    ck_assert_str_eq(flux_msg_sender(req, buf, sizeof(buf)), "none");
    ck_assert_int_eq(flux_msg_route_push(req, flux_route_make(FLUX_ROUTE_ENDPOINT, 12)), 0);
    ck_assert_str_eq(flux_msg_sender(req, buf, sizeof(buf)), "here.12");
    ck_assert_int_eq(flux_msg_route_push(req, flux_route_make(FLUX_ROUTE_TREE, 7)), 0);
    ck_assert_str_eq(flux_msg_sender(req, buf, sizeof(buf)), "7.12");
    ck_assert_int_eq(flux_msg_route_push(req, flux_route_make(FLUX_ROUTE_TREE, 3)), 0);
    ck_assert_str_eq(flux_msg_sender(req, buf, sizeof(buf)), "7.12");
    ck_assert_str_eq(flux_msg_sender(req, tiny, sizeof(tiny)), "7.1");
    flux_msg_destroy(req);
}
END_TEST

int main(void)
{
    RUN_SUITE("dispatch", requests, taken, events, changed_while_dispatching, pings, answers,
              decoding, senders);
}
