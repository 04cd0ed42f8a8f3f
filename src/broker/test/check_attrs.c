/* check_attrs.c - attributes of a broker and their service. */
#include "config.h"

#include "libutil/test/suite.h"
#include "cluster.h"
#include "src/broker/attrs.h"

START_TEST(values)
{
    attrs_t *a = attrs_create();
    char longest[66];
    char *huge = malloc(64 * 1024 + 2);
    static const char *const bad[] = {"", "a b", "a/b", "\xc3\xa4", "a\n", "a=b"};

    ck_assert(a && huge);
    ck_assert_ptr_null(attrs_get(a, "x"));
    ck_assert_int_eq(attrs_set(a, "x.y-z_0", "1", false), 0);
    ck_assert_int_eq(attrs_setf(a, "rank", true, "%d", 17), 0);
    ck_assert_str_eq(attrs_get(a, "x.y-z_0"), "1");
    ck_assert_str_eq(attrs_get(a, "rank"), "17");
    ck_assert_int_eq(attrs_set(a, "x.y-z_0", attrs_get(a, "x.y-z_0"), false), 0);
    ck_assert_str_eq(attrs_get(a, "x.y-z_0"), "1");
    ck_assert_int_eq(attrs_set(a, "x.y-z_0", "", false), 0);
    ck_assert_str_eq(attrs_get(a, "x.y-z_0"), "");
    /* the broker itself may change a fixed attribute */
    ck_assert_int_eq(attrs_set(a, "rank", "18", true), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        errno = 0;
        ck_assert_int_eq(attrs_set(a, bad[i], "v", false), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    memset(longest, 'n', sizeof(longest));
    longest[65] = '\0';
    ck_assert_int_eq(attrs_set(a, longest, "v", false), -1);
    longest[64] = '\0';
    ck_assert_int_eq(attrs_set(a, longest, "v", false), 0);
    memset(huge, 'v', 64 * 1024 + 1);
    huge[64 * 1024 + 1] = '\0';
    ck_assert_int_eq(attrs_set(a, "huge", huge, false), -1);
    ck_assert_int_eq(errno, EINVAL);
    huge[64 * 1024] = '\0';
    ck_assert_int_eq(attrs_set(a, "huge", huge, false), 0);
    /* a value that no response could carry */
    errno = 0;
    ck_assert_int_eq(attrs_set(a, "bytes", "\xff\xfe", false), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(attrs_set(a, "text", "\xc3\xa4", false), 0);
    free(huge);
    attrs_destroy(a);
    attrs_destroy(NULL);
}
END_TEST

START_TEST(service)
{
    struct cluster *cl = cl_up(1, "flat");
    attrs_t *a = attrs_create();
    struct party *c = client(cl, 0);
    struct party *stranger = client(cl, 0);

    ck_assert_int_eq(attrs_set(a, "rank", "0", true), 0);
    ck_assert_int_eq(attrs_set(a, "b", "x \"y\"", false), 0);
    ck_assert_int_eq(attrs_serve(a, c->core), 0);
    ask_flags(c, "attr.get", 0, 0, "{\"name\":\"b\"}");
    expect_answer(c, 1, 0, "{\"name\":\"b\",\"value\":\"x \\\"y\\\"\"}");
    ask_flags(c, "attr.get", 0, 0, "{\"name\":\"c\"}");
    expect_answer(c, 2, ENOENT, "rank 0 has no attribute 'c'");
    ask_flags(c, "attr.get", 0, 0, "{\"name\":1}");
    expect_answer(c, 3, EPROTO, "'name'");
    ask_flags(c, "attr.set", 0, 0, "{\"name\":\"b\",\"value\":\"2\"}");
    expect_answer(c, 4, 0, "{}");
    ck_assert_str_eq(attrs_get(a, "b"), "2");
    ask_flags(c, "attr.set", 0, 0, "{\"name\":\"rank\",\"value\":\"2\"}");
    expect_answer(c, 5, EPERM, "rank is fixed");
    ask_flags(c, "attr.set", 0, 0, "{\"name\":\"\",\"value\":\"2\"}");
    expect_answer(c, 6, EINVAL, "cannot be set");
    ask_flags(c, "attr.set", 0, 0, "{\"name\":\"new\",\"value\":\"2\"}");
    expect_answer(c, 7, 0, "{}");
    ask(c, "attr.list", 0);
    expect_answer(c, 8, 0, "{\"attrs\":{\"b\":\"2\",\"new\":\"2\",\"rank\":\"0\"}}");
    /* another user may look but not touch */
    core_endpoint_remove(stranger->ep, 0, "");
    stranger->ep = core_endpoint_add(c->core, ENDPOINT_CLIENT, "stranger", 2000, FLUX_ROLE_USER,
                                     &party_ops, stranger);
    ask_flags(stranger, "attr.get", 0, 0, "{\"name\":\"rank\"}");
    expect_answer(stranger, 1, 0, "\"0\"");
    ask_flags(stranger, "attr.set", 0, 0, "{\"name\":\"b\",\"value\":\"3\"}");
    expect_answer(stranger, 2, EPERM, "attr.set");
    ck_assert_str_eq(attrs_get(a, "b"), "2");
    attrs_destroy(a);
    cl_free(cl);
}
END_TEST

int main(void)
{
    RUN_SUITE("attrs", values, service);
}
