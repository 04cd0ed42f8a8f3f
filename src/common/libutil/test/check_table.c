/* check_table.c - the same rows as text and as JSON. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/table.h"
#include "libutil/test/suite.h"

/* What table_print() writes, to be freed. */
static char *print(const table_t *t, int flags)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    ck_assert_int_eq(table_print(t, f, flags), 0);
    fclose(f);
    return text;
}

static table_t *sample(void)
{
    table_t *t = table_create();

    ck_assert_int_eq(table_column(t, "rank", "RANK", TABLE_RIGHT), 0);
    ck_assert_int_eq(table_column(t, "host", "HOST", TABLE_LEFT), 0);
    ck_assert_int_eq(table_column(t, "up", "UP", TABLE_LEFT), 0);
    return t;
}

START_TEST(text)
{
    table_t *t = sample();
    char *s = print(t, 0);

    ck_assert_str_eq(s, "RANK  HOST  UP\n");
    free(s);
    s = print(t, TABLE_NO_HEADER);
    ck_assert_str_eq(s, "");
    free(s);
    table_row(t);
    table_u64(t, 0);
    table_str(t, "node0");
    table_duration(t, 90);
    table_row(t);
    table_u64(t, 12345);
    table_str(t, "n\xc3\xb6");
    s = print(t, 0);
    ck_assert_str_eq(s, " RANK  HOST   UP\n    0  node0  1.5m\n12345  n\xc3\xb6     -\n");
    free(s);
    s = print(t, TABLE_NO_HEADER);
    ck_assert_str_eq(s, "    0  node0  1.5m\n12345  n\xc3\xb6     -\n");
    free(s);
    table_destroy(t);
}
END_TEST

START_TEST(no_blanks_at_end)
{
    table_t *t = sample();
    char *s;

    table_row(t);
    table_u64(t, 1);
    table_str(t, "h");
    table_str(t, "");
    s = print(t, TABLE_NO_HEADER);
    ck_assert_str_eq(s, "1  h\n");
    free(s);
    table_destroy(t);
}
END_TEST

START_TEST(json)
{
    table_t *t = table_create();
    json_t *array;
    json_t *row;
    char *s;
    static const char *keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        ck_assert_int_eq(table_column(t, keys[i], keys[i], TABLE_LEFT), 0);
    table_row(t);
    table_str(t, "x\ny");
    table_i64(t, -5);
    table_u64(t, UINT64_MAX);
    table_real(t, 1.25, 1);
    table_real(t, NAN, 1);
    table_cell(t, json_true(), "yes");
    table_size(t, 1536);
    table_duration(t, INFINITY);
    array = table_to_json(t);
    ck_assert_uint_eq(json_array_size(array), 1);
    row = json_array_get(array, 0);
    ck_assert_uint_eq(json_object_size(row), 9);
    ck_assert_str_eq(json_string_value(json_object_get(row, "a")), "x\ny");
    ck_assert_int_eq(json_integer_value(json_object_get(row, "b")), -5);
    ck_assert(json_is_real(json_object_get(row, "c")));
    ck_assert(json_real_value(json_object_get(row, "d")) == 1.25);
    ck_assert(json_is_null(json_object_get(row, "e")));
    ck_assert(json_is_true(json_object_get(row, "f")));
    ck_assert_int_eq(json_integer_value(json_object_get(row, "g")), 1536);
    ck_assert(json_is_null(json_object_get(row, "h")));
    ck_assert(json_is_null(json_object_get(row, "i")));
    json_decref(array);
    s = print(t, TABLE_JSON);
    array = json_loads(s, 0, NULL);
    ck_assert_uint_eq(json_array_size(array), 1);
    json_decref(array);
    free(s);
    s = print(t, TABLE_NO_HEADER);
    ck_assert_ptr_nonnull(strstr(s, "x?y"));
    ck_assert_ptr_nonnull(strstr(s, "18446744073709551615"));
    ck_assert_ptr_nonnull(strstr(s, "1.50K"));
    ck_assert_ptr_nonnull(strstr(s, "inf"));
    free(s);
    table_destroy(t);
}
END_TEST

/* Names from outside must not reach a terminal or a JSON reader unfiltered. */
START_TEST(hostile_text)
{
    table_t *t = table_create();
    json_t *array;
    char *s;

    table_column(t, "k", "K", TABLE_LEFT);
    table_row(t);
    ck_assert_int_eq(table_str(t, "\x1b[2J\xff\xc3\xc2\x9b\x7f"), 0);
    s = print(t, TABLE_NO_HEADER);
    ck_assert_str_eq(s, "?[2J?????\n");
    free(s);
    array = table_to_json(t);
    ck_assert_ptr_nonnull(array);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(array, 0), "k")),
                     "\x1b[2J??\xc2\x9b\x7f");
    json_decref(array);
    table_destroy(t);
}
END_TEST

START_TEST(usage_error)
{
    table_t *t = sample();

    ck_assert_int_eq(table_str(t, "before the first row"), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(table_row(t), -1);
    ck_assert_ptr_null(table_to_json(t));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(table_print(t, stderr, 0), -1);
    table_destroy(t);
    t = sample();
    table_row(t);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(table_i64(t, i), 0);
    ck_assert_int_eq(table_cell(t, json_true(), "x"), -1);
    ck_assert_int_eq(table_column(t, "late", "LATE", TABLE_LEFT), -1);
    table_destroy(t);
    t = table_create();
    ck_assert_int_eq(table_row(t), -1);
    table_destroy(t);
    errno = 0;
    ck_assert_int_eq(table_row(NULL), -1);
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(table_str(NULL, "x"), -1);
    ck_assert_int_eq(table_print(NULL, stderr, 0), -1);
    errno = 42;
    table_destroy(NULL);
    ck_assert_int_eq(errno, 42);
}
END_TEST

START_TEST(full_disk)
{
    table_t *t = sample();
    FILE *f = fopen("/dev/full", "w");

    ck_assert_ptr_nonnull(f);
    setvbuf(f, NULL, _IONBF, 0);
    ck_assert_int_eq(table_print(t, f, 0), -1);
    ck_assert_int_eq(errno, EIO);
    fclose(f);
    table_destroy(t);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, text);
    tcase_add_test(tc, no_blanks_at_end);
    tcase_add_test(tc, json);
    tcase_add_test(tc, hostile_text);
    tcase_add_test(tc, usage_error);
    tcase_add_test(tc, full_disk);
    return run_case("table", tc);
}
