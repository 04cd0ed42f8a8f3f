/* check_log.c - log lines and attributes, over a handle that answers itself. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libflux/handle.h"
#include "libflux/log.h"
#include "libutil/test/suite.h"

struct fake {
    flux_t *h;
    flux_reactor_t *r;
    flux_msg_t *last;   /* request sent */
    flux_msg_t *answer; /* to be delivered by the next wait */
    const char *json;   /* answer to give, or */
    int errnum;
};

static int fake_send(void *impl, flux_msg_t *msg)
{
    struct fake *f = impl;

    flux_msg_destroy(f->last);
    f->last = msg;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE)) {
        f->answer = flux_msg_response_create(msg, f->errnum);
        flux_msg_set_json(f->answer, f->errnum ? "no such thing" : f->json);
    }
    return 0;
}

static int fake_wait(void *impl, double timeout)
{
    struct fake *f = impl;
    flux_msg_t *msg = f->answer;

    f->answer = NULL;
    if (msg)
        flux_handle_deliver(f->h, msg);
    return 0;
}

static const struct flux_handle_ops ops = {.send = fake_send, .wait = fake_wait};

static void fake_open(struct fake *f)
{
    memset(f, 0, sizeof(*f));
    ck_assert((f->r = flux_reactor_create(false)) != NULL);
    ck_assert((f->h = flux_handle_create(&ops, f, f->r, 3, 8, 1)) != NULL);
}

static void fake_close(struct fake *f)
{
    flux_close(f->h);
    flux_msg_destroy(f->last);
    flux_msg_destroy(f->answer);
    flux_reactor_destroy(f->r);
}

START_TEST(test_line)
{
    struct fake f;

    fake_open(&f);
    errno = 4711;
    flux_log_set_source(f.h, "kvs");
    flux_log(f.h, LOG_ERR, "%d of %s\n", 7, "them");
    ck_assert_int_eq(errno, 4711);
    ck_assert_str_eq(flux_msg_topic(f.last), "log.append");
    ck_assert(flux_msg_has_flag(f.last, FLUX_MSGF_NORESPONSE));
    ck_assert_str_eq(flux_msg_json(f.last),
                     "{\"level\":3,\"source\":\"kvs\",\"text\":\"7 of them\"}");
    flux_log(f.h, 99,
             "a\tb\x01"
             "c\xff"
             "d\xc3\xa9");
    ck_assert_str_eq(flux_msg_json(f.last),
                     "{\"level\":7,\"source\":\"kvs\",\"text\":\"a b c?d\xc3\xa9\"}");
    flux_log(f.h, -1, "\n\n");
    ck_assert_str_eq(flux_msg_json(f.last), "{\"level\":0,\"source\":\"kvs\",\"text\":\"\"}");
    flux_log_set_source(f.h, "a-name-that-is-longer-than-what-is-kept-of-it");
    flux_log(f.h, LOG_INFO, "x");
    ck_assert(strstr(flux_msg_json(f.last), "\"a-name-that-is-longer-than-what\"") != NULL);
    fake_close(&f);
}
END_TEST

/* A text that is cut in the middle of a character is still one that can be sent. */
START_TEST(test_long)
{
    struct fake f;
    char text[3000];

    fake_open(&f);
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        flux_log(f.h, LOG_INFO, "%s", text + 2 * shift);
        flux_log(f.h, LOG_INFO, "x%s", text);
        ck_assert(f.last != NULL);
    }
    ck_assert_uint_gt(strlen(flux_msg_json(f.last)), 1000);
    fake_close(&f);
}
END_TEST

START_TEST(test_levels)
{
    for (int level = LOG_EMERG; level <= LOG_DEBUG; level++)
        ck_assert_int_eq(flux_log_level_parse(flux_log_level_name(level)), level);
    ck_assert_int_eq(flux_log_level_parse("error"), LOG_ERR);
    ck_assert_int_eq(flux_log_level_parse("loud"), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_eq(flux_log_level_name(8), "?");
    ck_assert_str_eq(flux_log_level_name(-1), "?");
}
END_TEST

START_TEST(test_attr)
{
    struct fake f;
    errmsg_t err = {""};
    flux_future_t *fu;
    const char *value;
    char *s;

    fake_open(&f);
    f.json = "{\"name\":\"size\",\"value\":\"8\"}";
    ck_assert((s = flux_attr_get(f.h, "size", &err)) != NULL);
    ck_assert_str_eq(s, "8");
    free(s);
    ck_assert_str_eq(flux_msg_json(f.last), "{\"name\":\"size\"}");
    ck_assert_uint_eq(flux_msg_nodeid(f.last), 3);
    ck_assert((fu = flux_attr_get_async(f.h, "size")) != NULL);
    ck_assert_int_eq(flux_future_wait(fu, 1.), 0);
    ck_assert_int_eq(flux_attr_future_get(fu, &value, &err), 0);
    ck_assert_str_eq(value, "8");
    flux_future_destroy(fu);
    f.json = "{\"name\":\"size\"}";
    ck_assert(flux_attr_get(f.h, "size", &err) == NULL);
    ck_assert_int_eq(errno, EPROTO);
    f.json = "{}";
    ck_assert_int_eq(flux_attr_set(f.h, "a", "b", &err), 0);
    ck_assert_str_eq(flux_msg_json(f.last), "{\"name\":\"a\",\"value\":\"b\"}");
    f.errnum = ENOENT;
    ck_assert(flux_attr_get(f.h, "none", &err) == NULL);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(err.text, "no such thing");
    f.errnum = EPERM;
    ck_assert_int_eq(flux_attr_set(f.h, "rank", "b", &err), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(flux_attr_set(f.h, "\xff", "b", &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    fake_close(&f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("log");

    tcase_add_test(tc, test_line);
    tcase_add_test(tc, test_long);
    tcase_add_test(tc, test_levels);
    tcase_add_test(tc, test_attr);
    return run_case("log", tc);
}
