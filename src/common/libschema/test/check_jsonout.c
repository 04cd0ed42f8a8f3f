/* check_jsonout.c - JSON text that is appended: commas, escapes, numbers, errors that stay. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libschema/jsonout.h"
#include "libschema/schema.h"
#include "libutil/test/suite.h"

static void check_text(strbuf_t *sb, const char *want)
{
    char *text = strbuf_take(sb);
    json_t *parsed;

    ck_assert_ptr_ne(text, NULL);
    ck_assert_str_eq(text, want);
    parsed = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_ne(parsed, NULL);
    json_decref(parsed);
    free(text);
}

START_TEST(test_nesting)
{
    strbuf_t *sb = strbuf_create(0);

    jsonout_object(sb, NULL);
    jsonout_uint(sb, "id", 7);
    jsonout_array(sb, "empty");
    jsonout_array_end(sb);
    jsonout_object(sb, "none");
    jsonout_object_end(sb);
    jsonout_array(sb, "list");
    jsonout_int(sb, NULL, -1);
    jsonout_str(sb, NULL, "[");
    jsonout_object(sb, NULL);
    jsonout_bool(sb, "yes", true);
    jsonout_str(sb, "a", "{");
    jsonout_str(sb, "b", "");
    jsonout_object_end(sb);
    jsonout_array(sb, NULL);
    jsonout_array_end(sb);
    jsonout_bool(sb, NULL, false);
    jsonout_array_end(sb);
    jsonout_text(sb, "text", "{\"x\":[]}");
    jsonout_object_end(sb);
    check_text(sb, "{\"id\":7,\"empty\":[],\"none\":{},\"list\":[-1,\"[\",{\"yes\":true,"
                   "\"a\":\"{\",\"b\":\"\"},[],false],\"text\":{\"x\":[]}}");
}
END_TEST

START_TEST(test_lines)
{
    strbuf_t *sb = strbuf_create(0);

    for (int i = 0; i < 2; i++) {
        jsonout_object(sb, NULL);
        jsonout_int(sb, "i", i);
        jsonout_object_end(sb);
        strbuf_addc(sb, '\n');
    }
    ck_assert_str_eq(strbuf_str(sb), "{\"i\":0}\n{\"i\":1}\n");
    strbuf_destroy(sb);
}
END_TEST

START_TEST(test_numbers)
{
    strbuf_t *sb = strbuf_create(0);

    jsonout_array(sb, NULL);
    jsonout_int(sb, NULL, INT64_MIN);
    jsonout_int(sb, NULL, INT64_MAX);
    jsonout_uint(sb, NULL, 0);
    jsonout_uint(sb, NULL, INT64_MAX);
    jsonout_double(sb, NULL, 3.);
    jsonout_double(sb, NULL, -0.5);
    jsonout_double(sb, NULL, 1e300);
    jsonout_time(sb, NULL, 1.25);
    jsonout_time(sb, NULL, 0.);
    jsonout_array_end(sb);
    check_text(sb, "[-9223372036854775808,9223372036854775807,0,9223372036854775807,3.0,-0.5,"
                   "1.0000000000000001e+300,1.250000,0.000000]");
}
END_TEST

/* Times have the digits that printf() gives them. */
START_TEST(test_times)
{
    uint64_t seed = 1;

    for (int i = 0; i < 100000; i++) {
        strbuf_t *sb = strbuf_create(0);
        char want[64];
        double t;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        t = i < 8 ? (double)i * 0.9999995 : (double)(seed >> 11) / (double)(1ull << (seed % 40));
        if (t >= 1e12)
            t = 1764e6 + (double)(seed >> 40) / 4194304.;
        snprintf(want, sizeof(want), "%.6f", t);
        ck_assert_int_eq(jsonout_time(sb, NULL, t), 0);
        check_text(sb, want);
    }
}
END_TEST

/* Every byte that may stand in a string comes back as it was. */
START_TEST(test_escapes)
{
    strbuf_t *sb = strbuf_create(0);
    char in[130], *text;
    json_t *out;

    for (int i = 0; i < 127; i++)
        in[i] = (char)(i + 1);
    strcpy(in + 127, "\xc3\xa9");
    jsonout_str(sb, NULL, in);
    text = strbuf_take(sb);
    out = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_str_eq(json_string_value(out), in);
    json_decref(out);
    free(text);
}
END_TEST

struct point {
    int x;
    const char *name;
};
static const struct flux_field point_fields[] = {
    FLUX_FIELD_INT(struct point, x, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct point, name, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema point_schema = FLUX_SCHEMA(struct point, point_fields);

START_TEST(test_structs)
{
    const struct point a = {1, "a"}, b = {2, NULL};
    strbuf_t *sb = strbuf_create(0);
    json_t *any = json_pack("{s:n}", "k");

    jsonout_object(sb, NULL);
    jsonout_members(sb, &point_schema, &a);
    jsonout_array(sb, "more");
    jsonout_struct(sb, NULL, &point_schema, &a);
    jsonout_struct(sb, NULL, &point_schema, &b);
    jsonout_array_end(sb);
    jsonout_struct(sb, "last", &point_schema, &b);
    jsonout_json(sb, "any", any);
    jsonout_object_end(sb);
    check_text(sb, "{\"x\":1,\"name\":\"a\",\"more\":[{\"x\":1,\"name\":\"a\"},{\"x\":2}],"
                   "\"last\":{\"x\":2},\"any\":{\"k\":null}}");
    json_decref(any);
}
END_TEST

/* What JSON cannot carry spoils the text for good. */
START_TEST(test_refused)
{
    strbuf_t *sb = strbuf_create(0);

    jsonout_array(sb, NULL);
    switch (_i) {
    case 0:
        ck_assert_int_eq(jsonout_str(sb, NULL, "\xff"), -1);
        break;
    case 1:
        ck_assert_int_eq(jsonout_double(sb, NULL, NAN), -1);
        break;
    case 2:
        ck_assert_int_eq(jsonout_time(sb, NULL, HUGE_VAL), -1);
        break;
    case 3:
        ck_assert_int_eq(jsonout_uint(sb, NULL, (uint64_t)INT64_MAX + 1), -1);
        break;
    default:
        ck_assert_int_eq(strbuf_fail(sb, EINVAL), -1);
        break;
    }
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(jsonout_array_end(sb), -1);
    ck_assert_ptr_eq(strbuf_take(sb), NULL);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(test_bound)
{
    strbuf_t *sb = strbuf_create(8);

    ck_assert_int_eq(jsonout_str(sb, NULL, "123456"), 0);
    ck_assert_int_eq(jsonout_str(sb, NULL, "7"), -1);
    ck_assert_int_eq(errno, E2BIG);
    strbuf_destroy(sb);
    ck_assert_int_eq(jsonout_int(NULL, NULL, 1), -1);
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("jsonout");

    tcase_add_test(tc, test_nesting);
    tcase_add_test(tc, test_lines);
    tcase_add_test(tc, test_numbers);
    tcase_add_test(tc, test_times);
    tcase_add_test(tc, test_escapes);
    tcase_add_test(tc, test_structs);
    tcase_add_loop_test(tc, test_refused, 0, 5);
    tcase_add_test(tc, test_bound);
    return run_case("jsonout", tc);
}
