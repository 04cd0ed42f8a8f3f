/* check_schema.c - typed descriptions: what is decoded, what is refused, what is encoded. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/schema.h"
#include "libutil/test/suite.h"

struct all {
    const char *s;
    int i;
    int64_t i64;
    uint32_t u32;
    uint64_t u64;
    double d;
    bool b;
    json_t *any;
    json_t *obj;
    json_t *arr;
};

static const struct flux_field all_fields[] = {
    FLUX_FIELD_STR(struct all, s, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct all, i, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_I64(struct all, i64, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct all, u32, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct all, u64, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct all, d, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct all, b, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_JSON(struct all, any, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_OBJECT(struct all, obj, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct all, arr, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema all_schema = FLUX_SCHEMA(struct all, all_fields);

struct some {
    const char *name;
    int count;
    const char *note;
    json_t *extra;
};
static const struct flux_field some_fields[] = {
    FLUX_FIELD_STR(struct some, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct some, count, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct some, note, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_JSON(struct some, extra, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema some_schema = FLUX_SCHEMA(struct some, some_fields);

#define ALL                                                                              \
    "{\"s\":\"x\",\"i\":-5,\"i64\":-9007199254740993,\"u32\":4294967295,"                \
    "\"u64\":9223372036854775807,\"d\":0.1,\"b\":true,\"any\":null,\"obj\":{\"a\":[1]}," \
    "\"arr\":[\"z\"]}"

START_TEST(test_all)
{
    struct all a = {0};
    errmsg_t err;
    json_t *owner = flux_schema_decode(&all_schema, ALL, strlen(ALL), &a, &err);
    char *text;

    ck_assert_msg(owner != NULL, "%s", err.text);
    ck_assert_str_eq(a.s, "x");
    ck_assert_int_eq(a.i, -5);
    ck_assert(a.i64 == -9007199254740993);
    ck_assert(a.u32 == UINT32_MAX);
    ck_assert(a.u64 == INT64_MAX);
    ck_assert(a.d == 0.1);
    ck_assert(a.b);
    ck_assert(json_is_null(a.any));
    ck_assert(json_is_object(a.obj) && json_is_array(a.arr));

    /* What is encoded decodes to the same. */
    ck_assert((text = flux_schema_encode(&all_schema, &a)) != NULL);
    struct all b = {0};
    json_t *again = flux_schema_decode(&all_schema, text, strlen(text), &b, &err);
    ck_assert_msg(again != NULL, "%s: %s", err.text, text);
    ck_assert(json_equal(owner, again));
    ck_assert(b.d == a.d);
    free(text);
    json_decref(again);

    json_t *obj = flux_schema_encode_json(&all_schema, &a);
    ck_assert(json_equal(owner, obj));
    json_decref(obj);
    json_decref(owner);
}
END_TEST

static const struct {
    const char *json;
    const char *says;
} bad[] = {
    {"", "not JSON"},
    {"{", "not JSON"},
    {"{}x", "not JSON"},
    {"[]", "object"},
    {"\"s\"", "object"},
    {"null", "object"},
    {"{}", "'name' is missing"},
    {"{\"count\":1}", "'name' is missing"},
    {"{\"name\":1}", "'name' must be a string"},
    {"{\"name\":null}", "'name' must be a string"},
    {"{\"name\":\"a\",\"name\":\"b\"}", "not JSON"},
    {"{\"name\":\"a\\u0000b\"}", "not JSON"},
    {"{\"name\":\"\xff\"}", "not JSON"},
    {"{\"name\":\"a\",\"count\":1.0}", "'count' must be an integer"},
    {"{\"name\":\"a\",\"count\":2147483648}", "'count' must be an integer in its range"},
    {"{\"name\":\"a\",\"count\":-2147483649}", "'count' must be an integer in its range"},
    {"{\"name\":\"a\",\"count\":true}", "'count' must be an integer"},
    {"{\"name\":\"a\",\"note\":null}", "'note' must be a string"},
    {"{\"name\":\"a\",\"nam\":\"a\"}", "'nam' is unknown"},
    {"{\"name\":\"a\",\"\":\"a\"}", "'' is unknown"},
};

START_TEST(test_refused)
{
    struct some s = {.count = 77, .note = "kept"};
    errmsg_t err = {""};

    errno = 0;
    ck_assert(!flux_schema_decode(&some_schema, bad[_i].json, strlen(bad[_i].json), &s, &err));
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_msg(strstr(err.text, bad[_i].says), "%s: %s", bad[_i].json, err.text);
    ck_assert(!flux_schema_decode(&some_schema, bad[_i].json, strlen(bad[_i].json), &s, NULL));
}
END_TEST

static const struct {
    const char *field;
    const char *value;
} bad_values[] = {
    {"u32", "-1"},       {"u32", "4294967296"}, {"u64", "-1"},
    {"u64", "1e3"},      {"d", "\"1\""},        {"b", "0"},
    {"obj", "[]"},       {"arr", "{}"},         {"i64", "9223372036854775808"},
    {"i", "2147483648"},
};

START_TEST(test_bad_value)
{
    struct all a = {0};
    errmsg_t err = {""};
    json_t *base = json_loads(ALL, 0, NULL);
    json_t *val = json_loads(bad_values[_i].value, JSON_DECODE_ANY, NULL);

    if (val) { /* not so for integers that jansson itself refuses */
        json_object_set_new(base, bad_values[_i].field, val);
        ck_assert_int_eq(flux_schema_decode_json(&all_schema, base, &a, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_msg(strstr(err.text, bad_values[_i].field), "%s", err.text);
    }
    json_decref(base);
}
END_TEST

struct flat {
    const char *name;
    int count;
};
static const struct flux_field flat_fields[] = {
    FLUX_FIELD_STR(struct flat, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct flat, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema flat_schema = FLUX_SCHEMA(struct flat, flat_fields);

/* What has more values than its description allows is not parsed, which would take much memory;
 * neither a long string nor many values where any number is allowed make a text refused. */
START_TEST(test_many_values)
{
    const size_t len = 300000;
    char *text = malloc(len + 64);
    struct flat f = {0};
    struct some s = {0};
    errmsg_t err = {""};
    json_t *owner;

    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < len; i++)
        text[i] = "[],"[i % 3];
    text[0] = '[';
    ck_assert_ptr_null(flux_schema_decode(&flat_schema, text, len, &f, &err));
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_str_eq(err.text, "300000 bytes of JSON have more values than an object of 2 fields");
    memset(text, '{', len);
    memcpy(text, "{\"name\":\"", 9);
    strcpy(text + len, "\",\"count\":7}");
    owner = flux_schema_decode(&flat_schema, text, strlen(text), &f, &err);
    ck_assert_msg(owner != NULL, "%s", err.text);
    ck_assert_int_eq(f.count, 7);
    ck_assert_uint_eq(strlen(f.name), len - 9);
    json_decref(owner);
    memset(text, ' ', len);
    memcpy(text, "{\"name\":\"n\",\"extra\":[", 21);
    for (size_t i = 21; i < len; i++)
        text[i] = i % 2 ? '0' : ',';
    strcpy(text + len, "]}");
    owner = flux_schema_decode(&some_schema, text, strlen(text), &s, &err);
    ck_assert_msg(owner != NULL, "%s", err.text);
    ck_assert_uint_gt(json_array_size(s.extra), 100000);
    json_decref(owner);
    free(text);
}
END_TEST

START_TEST(test_optional)
{
    struct some s = {.count = 77, .note = "kept"};
    errmsg_t err;
    json_t *owner = flux_schema_decode(&some_schema, "{\"name\":\"n\"}", 12, &s, &err);
    char *text;

    ck_assert(owner != NULL);
    ck_assert_int_eq(s.count, 77);
    ck_assert_str_eq(s.note, "kept");
    s.note = NULL;
    ck_assert((text = flux_schema_encode(&some_schema, &s)) != NULL);
    ck_assert_str_eq(text, "{\"name\":\"n\",\"count\":77}");
    free(text);
    json_decref(owner);

    /* Any order. */
    const char *turned = "{\"note\":\"b\",\"count\":3,\"name\":\"a\"}";
    ck_assert((owner = flux_schema_decode(&some_schema, turned, strlen(turned), &s, &err)));
    ck_assert_str_eq(s.name, "a");
    ck_assert_str_eq(s.note, "b");
    ck_assert_int_eq(s.count, 3);
    json_decref(owner);
}
END_TEST

START_TEST(test_encode_strings)
{
    struct some s = {.name = "q\"b\\n\nt\t\x01 \xc3\xa9", .count = 0};
    struct some t;
    char *text = flux_schema_encode(&some_schema, &s);
    json_t *owner;

    ck_assert_str_eq(text, "{\"name\":\"q\\\"b\\\\n\\nt\\u0009\\u0001 \xc3\xa9\",\"count\":0}");
    ck_assert((owner = flux_schema_decode(&some_schema, text, strlen(text), &t, NULL)));
    ck_assert_str_eq(t.name, s.name);
    json_decref(owner);
    free(text);
}
END_TEST

START_TEST(test_encode_refused)
{
    struct some s = {.name = NULL};
    struct all a = {.s = "x", .any = json_null(), .obj = json_object(), .arr = json_array()};
    char *text;

    errno = 0;
    ck_assert(!flux_schema_encode(&some_schema, &s));
    ck_assert_int_eq(errno, EINVAL);
    s.name = "\xc3";
    ck_assert(!flux_schema_encode(&some_schema, &s));
    ck_assert_int_eq(errno, EINVAL);
    a.u64 = (uint64_t)INT64_MAX + 1;
    ck_assert(!flux_schema_encode(&all_schema, &a));
    ck_assert_int_eq(errno, EINVAL);
    a.u64 = 0;
    a.d = NAN;
    ck_assert(!flux_schema_encode(&all_schema, &a));
    ck_assert_int_eq(errno, EINVAL);
    a.d = HUGE_VAL;
    ck_assert(!flux_schema_encode_json(&all_schema, &a));
    a.d = 3.;
    text = flux_schema_encode(&all_schema, &a);
    ck_assert(strstr(text, "\"d\":3.0,") != NULL);
    free(text);
    json_t *obj = a.obj;
    a.obj = a.arr;
    ck_assert(!flux_schema_encode(&all_schema, &a));
    ck_assert_int_eq(errno, EINVAL);
    json_decref(obj);
    json_decref(a.arr);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("schema");

    tcase_add_test(tc, test_all);
    tcase_add_loop_test(tc, test_refused, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_loop_test(tc, test_bad_value, 0, sizeof(bad_values) / sizeof(bad_values[0]));
    tcase_add_test(tc, test_many_values);
    tcase_add_test(tc, test_optional);
    tcase_add_test(tc, test_encode_strings);
    tcase_add_test(tc, test_encode_refused);
    return run_case("schema", tc);
}
