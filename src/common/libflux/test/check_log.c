/* check_log.c - log lines and attributes, over a handle that answers itself. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libflux/handle.h"
#include "libflux/log.h"
#include "libflux/test/fake.h"
#include "libutil/test/suite.h"

/* A handle that answers itself. */
struct bed {
    struct fake *f;
    flux_t *h;
    flux_msg_t *last; /* request sent */
    const char *json; /* answer to give, or */
    int errnum;
};

static void answer(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    flux_msg_destroy(b->last);
    b->last = msg;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE)) {
        flux_msg_t *resp = flux_msg_response_create(msg, b->errnum);

        flux_msg_set_json(resp, b->errnum ? "no such thing" : b->json);
        fake_inbox(f, resp);
    }
}

static void bed_open(struct bed *b)
{
    memset(b, 0, sizeof(*b));
    b->f = fake_create();
    b->f->hook = answer;
    b->f->user = b;
    b->h = b->f->h;
}

static void bed_close(struct bed *b)
{
    flux_msg_destroy(b->last);
    fake_free(b->f);
}

START_TEST(test_line)
{
    struct bed b;

    bed_open(&b);
    errno = 4711;
    flux_log_set_source(b.h, "kvs");
    flux_log(b.h, LOG_ERR, "%d of %s\n", 7, "them");
    ck_assert_int_eq(errno, 4711);
    ck_assert_str_eq(flux_msg_topic(b.last), "log.append");
    ck_assert(flux_msg_has_flag(b.last, FLUX_MSGF_NORESPONSE));
    ck_assert_str_eq(flux_msg_json(b.last),
                     "{\"level\":3,\"source\":\"kvs\",\"text\":\"7 of them\"}");
    flux_log(b.h, 99,
             "a\tb\x01"
             "c\xff"
             "d\xc3\xa9");
    ck_assert_str_eq(flux_msg_json(b.last),
                     "{\"level\":7,\"source\":\"kvs\",\"text\":\"a b c?d\xc3\xa9\"}");
    flux_log(b.h, -1, "\n\n");
    ck_assert_str_eq(flux_msg_json(b.last), "{\"level\":0,\"source\":\"kvs\",\"text\":\"\"}");
    flux_log_set_source(b.h, "a-name-that-is-longer-than-what-is-kept-of-it");
    flux_log(b.h, LOG_INFO, "x");
    ck_assert(strstr(flux_msg_json(b.last), "\"a-name-that-is-longer-than-what\"") != NULL);
    bed_close(&b);
}
END_TEST

/* A text that is cut in the middle of a character is still one that can be sent. */
START_TEST(test_long)
{
    struct bed b;
    char text[3000];

    bed_open(&b);
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        flux_log(b.h, LOG_INFO, "%s", text + 2 * shift);
        flux_log(b.h, LOG_INFO, "x%s", text);
        ck_assert(b.last != NULL);
    }
    ck_assert_uint_gt(strlen(flux_msg_json(b.last)), 1000);
    bed_close(&b);
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
    struct bed b;
    errmsg_t err = {""};
    flux_future_t *fu;
    const char *value;
    char *s;

    bed_open(&b);
    b.json = "{\"name\":\"size\",\"value\":\"8\"}";
    ck_assert((s = flux_attr_get(b.h, "size", &err)) != NULL);
    ck_assert_str_eq(s, "8");
    free(s);
    ck_assert_str_eq(flux_msg_json(b.last), "{\"name\":\"size\"}");
    ck_assert_uint_eq(flux_msg_nodeid(b.last), 3);
    ck_assert((fu = flux_attr_get_async(b.h, "size")) != NULL);
    ck_assert_int_eq(flux_future_wait(fu, 1.), 0);
    ck_assert_int_eq(flux_attr_future_get(fu, &value, &err), 0);
    ck_assert_str_eq(value, "8");
    flux_future_destroy(fu);
    b.json = "{\"name\":\"size\"}";
    ck_assert(flux_attr_get(b.h, "size", &err) == NULL);
    ck_assert_int_eq(errno, EPROTO);
    b.errnum = ENOENT;
    ck_assert(flux_attr_get(b.h, "none", &err) == NULL);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(err.text, "no such thing");
    bed_close(&b);
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
