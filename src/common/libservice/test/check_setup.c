/* check_setup.c - settings: attributes and arguments, defaults, ranges, and what is refused. */
#include "config.h"
#include <math.h>
#include <stdio.h>

#include "bed.h"
#include "libflux/module.h"
#include "libservice/setup.h"
#include "libutil/test/suite.h"

struct ctx {
    double period;
    uint64_t size;
    uint64_t bytes;
    bool sure;
    char text[64];
    char *owned;
    unsigned ready;
    char refused[200];
};

static int set_text(void *arg, const char *value, errmsg_t *err)
{
    struct ctx *ctx = arg;

    if (strcmp(value, "loud") == 0)
        return errmsg_fail(err, EINVAL, "'%s' is not a level", value);
    snprintf(ctx->text, sizeof(ctx->text), "%s", value);
    return 0;
}

static int bytes_too_large(void *arg, const char *value, errmsg_t *err)
{
    struct ctx *ctx = arg;

    return ctx->bytes > 1 << 20 ? errmsg_fail(err, ENOMEM, "there is no memory for it") : 0;
}

static void ready(void *arg)
{
    ((struct ctx *)arg)->ready++;
}

static void refused(void *arg, const char *sentence)
{
    struct ctx *ctx = arg;

    snprintf(ctx->refused, sizeof(ctx->refused), "%s", sentence);
}

static const struct setup_row rows[] = {
    SETUP_COUNT("log.ring-size", struct ctx, size),
    SETUP_SIZE_THEN("log.ring-bytes", struct ctx, bytes, bytes_too_large),
    SETUP_CALL("log.forward-level", set_text),
    SETUP_SECONDS("hb.period", struct ctx, period),
    SETUP_BOOL("curve", struct ctx, sure),
    SETUP_END,
};
static const struct setup_row text_rows[] = {
    SETUP_TEXT("uri", struct ctx, owned), /* which is fixed */
    SETUP_END,
};
static const struct setup_table text_table = {"wrexec", text_rows, ready, refused};
static const struct setup_table patient = {"log", rows, ready, refused};
static const struct setup_table strict = {"log", rows, ready, NULL};

START_TEST(test_setup)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    char *argv[] = {"ring-size=7"};
    struct ctx ctx = {.ready = 0};
    errmsg_t err;
    setup_t *s = setup_create(f->h, &patient, &ctx, 1, argv, &err);

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(ctx.size, 7);        /* the argument */
    ck_assert_uint_eq(ctx.bytes, 1 << 20); /* the others have their defaults meanwhile */
    ck_assert(ctx.period == 2. && ctx.sure);
    ck_assert_uint_eq(f->nsent, 4); /* and are asked for, in the order of the rows */
    ck_assert(!setup_known(s));
    fake_respond(f, 0, 0, 0, "{\"name\":\"log.ring-bytes\",\"value\":\"64K\"}");
    fake_respond(f, 1, 0, 0, "{\"name\":\"log.forward-level\",\"value\":\"info\"}");
    fake_respond(f, 2, ENOENT, 0, "there is no such attribute");
    ck_assert_uint_eq(ctx.ready, 0);
    fake_respond(f, 3, 0, 0, "{\"name\":\"curve\",\"value\":\"no\"}");
    ck_assert_uint_eq(ctx.ready, 1);
    ck_assert(setup_known(s));
    ck_assert_uint_eq(ctx.bytes, 65536);
    ck_assert_str_eq(ctx.text, "info");
    ck_assert(ctx.period == 2. && !ctx.sure);
    ck_assert_str_eq(ctx.refused, "");
    setup_destroy(s);
    fake_free(f);
}
END_TEST

/* A text has no default, and is the module's to free. */
START_TEST(test_setup_text)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct ctx ctx = {.ready = 0};
    bool set = _i == 1;
    errmsg_t err;
    setup_t *s = setup_create(f->h, &text_table, &ctx, 0, NULL, &err);

    ck_assert_ptr_nonnull(s);
    ck_assert_ptr_null(ctx.owned);
    fake_respond(f, 0, set ? 0 : ENOENT, 0,
                 set ? "{\"name\":\"uri\",\"value\":\"/x\"}" : "no such attribute");
    ck_assert_uint_eq(ctx.ready, 1);
    if (set)
        ck_assert_str_eq(ctx.owned, "/x");
    else
        ck_assert_ptr_null(ctx.owned);
    setup_destroy(s);
    free(ctx.owned);
    fake_free(f);
}
END_TEST

/* An invalid attribute changes nothing, whether the table, a setter or a later check refuses it. */
START_TEST(test_setup_refused)
{
    static const struct {
        size_t row;
        const char *json, *sentence;
    } cases[] = {
        {3, "{\"name\":\"hb.period\",\"value\":\"0s\"}",
         "attribute hb.period: hb.period=0s: the range is"},
        {2, "{\"name\":\"log.forward-level\",\"value\":\"loud\"}",
         "attribute log.forward-level: 'loud' is not a level"},
        {1, "{\"name\":\"log.ring-bytes\",\"value\":\"2M\"}",
         "attribute log.ring-bytes: there is no memory for it"},
    };
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct ctx ctx = {.ready = 0};
    errmsg_t err;
    setup_t *s = setup_create(f->h, &patient, &ctx, 0, NULL, &err);

    ck_assert_ptr_nonnull(s);
    ck_assert_uint_eq(f->nsent, 5);
    for (size_t i = 0; i < 5; i++) {
        if (i == cases[_i].row)
            fake_respond(f, i, 0, 0, cases[_i].json);
        else
            fake_respond(f, i, ENOENT, 0, "there is no such attribute");
    }
    ck_assert_uint_eq(ctx.ready, 1);
    ck_assert_msg(strstr(ctx.refused, cases[_i].sentence), "%s", ctx.refused);
    ck_assert(ctx.period == 2.);
    ck_assert_uint_eq(ctx.bytes, 1 << 20);
    ck_assert_str_eq(ctx.text, "");
    setup_destroy(s);
    fake_free(f);
}
END_TEST

/* Where no attribute may be refused the module ends, and is never ready. */
START_TEST(test_setup_strict)
{
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct ctx ctx = {.ready = 0};
    errmsg_t err;
    setup_t *s = setup_create(f->h, &strict, &ctx, 0, NULL, &err);
    int rc;

    ck_assert_ptr_nonnull(s);
    fake_respond(f, 0, 0, 0, "{\"name\":\"log.ring-size\",\"value\":\"0\"}");
    ck_assert(flux_reactor_stopped(f->r, &rc));
    ck_assert_int_eq(rc, -1);
    for (size_t i = 1; i < 5; i++)
        fake_respond(f, i, ENOENT, 0, "there is no such attribute");
    ck_assert_uint_eq(ctx.ready, 0);
    setup_destroy(s);
    fake_free(f);
}
END_TEST

START_TEST(test_setup_arguments)
{
    static const struct {
        char *arg;
        const char *sentence;
    } bad[] = {
        {"ring=7", "has no argument 'ring=7'"},       {"ring-size", "has no argument 'ring-size'"},
        {"period=3s", "has no argument 'period=3s'"}, /* hb's */
        {"ring-size=x", "log.ring-size=x"},           {"forward-level=loud", "is not a level"},
    };
    struct clock c;
    struct fake *f = bed_create(&c, 0);
    struct ctx ctx = {.ready = 0};
    char *argv[] = {bad[_i].arg};
    errmsg_t err;

    ck_assert_ptr_null(setup_create(f->h, &patient, &ctx, 1, argv, &err));
    ck_assert_msg(strstr(err.text, bad[_i].sentence), "%s", err.text);
    ck_assert_int_eq(setup_no_arguments("x", 1, argv, &err), -1);
    ck_assert_int_eq(setup_no_arguments("x", 0, argv, &err), 0);
    ck_assert_int_eq(setup_root_only(f->h, "x", &err), 0);
    fake_free(f);
}
END_TEST
int main(void)
{
    TCase *tc = tcase_create("setup");

    (void)fake_create;
    tcase_add_test(tc, test_setup);
    tcase_add_loop_test(tc, test_setup_text, 0, 2);
    tcase_add_loop_test(tc, test_setup_refused, 0, 3);
    tcase_add_test(tc, test_setup_strict);
    tcase_add_loop_test(tc, test_setup_arguments, 0, 5);
    return run_case("setup", tc);
}
