/* check_event.c - the client's side of events, attributes and the log, and how a module reports its
 * end.
 */
#include "config.h"
#include <stdio.h>

#include "libflux/attr.h"
#include "libflux/event.h"
#include "libflux/log.h"
#include "libflux/module.h"
#include "libutil/test/suite.h"
#include "fake.h"

static flux_msg_t *inner(const flux_msg_t *req)
{
    size_t len;
    const void *data = flux_msg_payload(req, &len);
    flux_msg_t *ev;

    ck_assert_str_eq(flux_msg_topic(req), "event.publish");
    ck_assert_uint_eq(flux_msg_nodeid(req), 0);
    ck_assert(flux_msg_has_flag(req, FLUX_MSGF_RAW));
    ck_assert_ptr_nonnull(ev = flux_msg_decode(data, len, NULL));
    ck_assert_int_eq(flux_msg_type(ev), FLUX_MSG_EVENT);
    ck_assert_uint_eq(flux_msg_nodeid(ev), 3);
    return ev;
}

START_TEST(publish)
{
    struct fake *f = fake_create();
    flux_future_t *a = flux_event_publish(f->h, "x.y", "{\"a\":1}");
    flux_future_t *b = flux_event_publish_raw(f->h, "x.z", "\0\1", 2);
    flux_future_t *c = flux_event_publish(f->h, "x", NULL);
    uint64_t seq = 0;
    errmsg_t err = {""};
    size_t len;
    flux_msg_t *ev = inner(f->sent[0]);

    ck_assert_str_eq(flux_msg_json(ev), "{\"a\":1}");
    ck_assert_str_eq(flux_msg_topic(ev), "x.y");
    flux_msg_destroy(ev);
    ev = inner(f->sent[1]);
    ck_assert_mem_eq(flux_msg_payload(ev, &len), "\0\1", 3);
    ck_assert(flux_msg_has_flag(ev, FLUX_MSGF_RAW));
    flux_msg_destroy(ev);
    ev = inner(f->sent[2]);
    ck_assert_ptr_null(flux_msg_payload(ev, NULL));
    flux_msg_destroy(ev);

    ck_assert_int_eq(flux_event_get_seq(a, &seq, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    fake_respond(f, 0, 0, 0, "{\"seq\":12345678901}");
    ck_assert_int_eq(flux_event_get_seq(a, &seq, &err), 0);
    ck_assert_uint_eq(seq, 12345678901u);
    fake_respond(f, 1, EPERM, 0, "not you");
    ck_assert_int_eq(flux_event_get_seq(b, &seq, &err), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_str_eq(err.text, "not you");
    fake_respond(f, 2, 0, 0, "{\"seq\":-1}");
    ck_assert_int_eq(flux_event_get_seq(c, &seq, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    flux_future_destroy(a);
    flux_future_destroy(b);
    flux_future_destroy(c);

    fake_clear(f);
    ck_assert_int_eq(flux_event_send(f->h, "q", "{}"), 0);
    ck_assert_int_eq(flux_event_send_raw(f->h, "q", NULL, 0), 0);
    ck_assert_uint_eq(f->nsent, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert(flux_msg_has_flag(f->sent[i], FLUX_MSGF_NORESPONSE));
        flux_msg_destroy(inner(f->sent[i]));
    }
    ck_assert_ptr_null(flux_event_publish(f->h, "bad topic", NULL));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(flux_event_send(f->h, "", NULL), -1);
    ck_assert_int_eq(errno, EINVAL);
    f->fail = EPIPE;
    ck_assert_int_eq(flux_event_send(f->h, "q", NULL), -1);
    ck_assert_int_eq(errno, EPIPE);
    fake_free(f);
}
END_TEST

START_TEST(subscribe)
{
    struct fake *f = fake_create();
    flux_future_t *a = flux_event_subscribe(f->h, "kvs.\"");
    flux_future_t *b = flux_event_unsubscribe(f->h, "");

    ck_assert_str_eq(flux_msg_topic(f->sent[0]), "event.subscribe");
    ck_assert_str_eq(flux_msg_json(f->sent[0]), "{\"prefix\":\"kvs.\\\"\"}");
    ck_assert_uint_eq(flux_msg_nodeid(f->sent[0]), 3);
    ck_assert_str_eq(flux_msg_topic(f->sent[1]), "event.unsubscribe");
    ck_assert_str_eq(flux_msg_json(f->sent[1]), "{\"prefix\":\"\"}");
    flux_future_destroy(a);
    flux_future_destroy(b);
    ck_assert_ptr_null(flux_event_subscribe(f->h, "\xff"));
    ck_assert_int_eq(errno, EINVAL);
    fake_free(f);
}
END_TEST

static void attr_server(struct fake *f, flux_msg_t *msg)
{
    fake_keep(f, msg);
    ck_assert_uint_eq(flux_msg_nodeid(msg), 3);
    if (strcmp(flux_msg_topic(msg), "attr.set") == 0)
        fake_inbox(f, fake_answer(f, f->nsent - 1, strstr(flux_msg_json(msg), "rank") ? EPERM : 0,
                                  0, strstr(flux_msg_json(msg), "rank") ? "fixed" : "{}"));
    else if (strstr(flux_msg_json(msg), "none"))
        fake_inbox(f, fake_answer(f, f->nsent - 1, ENOENT, 0, "there is none"));
    else
        fake_inbox(f, fake_answer(f, f->nsent - 1, 0, 0, "{\"name\":\"a\",\"value\":\"b c\"}"));
}

START_TEST(attributes)
{
    struct fake *f = fake_create();
    errmsg_t err = {""};
    const char *value = NULL;
    flux_future_t *fut;
    char *s;

    f->hook = attr_server;
    s = flux_attr_get(f->h, "a", &err);
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(s, "b c");
    free(s);
    ck_assert_ptr_null(flux_attr_get(f->h, "none", &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(err.text, "there is none");
    ck_assert_ptr_null(flux_attr_get(f->h, "\xff", &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_nonnull(fut = flux_attr_set_async(f->h, "a", "v"));
    ck_assert_int_eq(flux_rpc_wait_struct(fut, 1., NULL, NULL, &err), 0);
    flux_future_destroy(fut);
    ck_assert_str_eq(flux_msg_json(f->sent[f->nsent - 1]), "{\"name\":\"a\",\"value\":\"v\"}");
    ck_assert_ptr_nonnull(fut = flux_attr_set_async(f->h, "rank", "v"));
    ck_assert_int_eq(flux_rpc_wait_struct(fut, 1., NULL, NULL, &err), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_str_eq(err.text, "fixed");
    flux_future_destroy(fut);
    ck_assert_ptr_null(flux_attr_set_async(f->h, "a", "\xff"));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_nonnull(fut = flux_attr_get_async(f->h, "a"));
    ck_assert_int_eq(flux_attr_future_get(fut, &value, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(flux_future_wait(fut, 1.), 0);
    ck_assert_int_eq(flux_attr_future_get(fut, &value, &err), 0);
    ck_assert_str_eq(value, "b c");
    flux_future_destroy(fut);
    f->lost_when_empty = true;
    f->hook = NULL;
    ck_assert_ptr_null(flux_attr_get(f->h, "a", &err));
    ck_assert_int_eq(errno, EPIPE);
    fake_free(f);
}
END_TEST

START_TEST(logging)
{
    struct fake *f = fake_create();
    char longest[3000];
    errmsg_t *why;

    flux_log_set_source(f->h, "mod\x80");
    errno = 99;
    flux_log(f->h, LOG_INFO, "hello %d \"%s\"\n\n", 5, "a\tb\xff");
    ck_assert_int_eq(errno, 99);
    ck_assert_str_eq(flux_msg_topic(f->sent[0]), "log.append");
    ck_assert(flux_msg_has_flag(f->sent[0], FLUX_MSGF_NORESPONSE));
    ck_assert_str_eq(flux_msg_json(f->sent[0]),
                     "{\"level\":6,\"source\":\"mod?\",\"text\":\"hello 5 "
                     "\\\"a b?\\\"\"}");
    flux_log(f->h, 100, "%s", "");
    flux_log(f->h, -100, "x");
    ck_assert_ptr_nonnull(strstr(flux_msg_json(f->sent[1]), "\"level\":7"));
    ck_assert_ptr_nonnull(strstr(flux_msg_json(f->sent[2]), "\"level\":0"));
    /* cut in the middle of a character */
    memset(longest, 'x', sizeof(longest));
    memcpy(longest + 1022, "\xc3\xa4", 3);
    flux_log(f->h, LOG_ERR, "%s", longest);
    ck_assert_ptr_nonnull(strstr(flux_msg_json(f->sent[3]), "x?\"}"));
    f->fail = EPIPE;
    errno = 0;
    flux_log(f->h, LOG_ERR, "lost");
    ck_assert_int_eq(errno, 0);

    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(flux_log_level_parse(flux_log_level_name(i)), i);
    ck_assert_str_eq(flux_log_level_name(8), "?");
    ck_assert_int_eq(flux_log_level_parse("loud"), -1);
    ck_assert_int_eq(errno, EINVAL);

    flux_module_fail(f->h, EIO, "disk %d", 1);
    ck_assert_int_eq(errno, EIO);
    flux_module_fail(f->h, ENOSPC, "disk %d", 2);
    ck_assert_ptr_nonnull(why = flux_aux_get(f->h, "module::fail"));
    ck_assert_str_eq(why->text, "disk 2");
    fake_free(f);
}
END_TEST

int main(void)
{
    RUN_SUITE("event", publish, subscribe, attributes, logging);
}
