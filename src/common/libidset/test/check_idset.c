/* check_idset.c - sets of ranges against a naive array of booleans. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/idset.h"
#include "libutil/test/suite.h"

/* Text of the set, compared and freed. */
static void expect(const idset_t *ids, const char *text)
{
    char *s = idset_format(ids, 0);

    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(s, text);
    free(s);
}

START_TEST(parse_good)
{
    static const struct {
        const char *text;
        const char *canonical;
        size_t count;
    } tests[] = {
        {"", "", 0},
        {"[]", "", 0},
        {"0", "0", 1},
        {"[0]", "0", 1},
        {"0-3,7", "0-3,7", 5},
        {"[0-3,7]", "0-3,7", 5},
        {"7,0-3", "0-3,7", 5},
        {"1,1,1", "1", 1},
        {"1-3,2-5", "1-5", 5},
        {"5,4,3,2,1", "1-5", 5},
        {"0-1,2-3", "0-3", 4},
        {"3-3", "3", 1},
        {"0-2147483647", "0-2147483647", 2147483648u},
        {"2147483647", "2147483647", 1},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        idset_t *ids = idset_parse(tests[i].text, NULL);

        ck_assert_msg(ids != NULL, "\"%s\"", tests[i].text);
        expect(ids, tests[i].canonical);
        ck_assert_uint_eq(idset_count(ids), tests[i].count);
        idset_destroy(ids);
    }
}
END_TEST

START_TEST(parse_bad)
{
    static const char *tests[] = {
        " ",
        "a",
        "-1",
        "1-",
        "1,",
        ",1",
        "1,,2",
        "3-1",
        "1 -2",
        "1-2-3",
        "[1",
        "1]",
        "[1]]",
        "[[1]]",
        "[",
        "]",
        "00",
        "01",
        "1-02",
        "+1",
        "0x1",
        "1.5",
        "[1],2",
        "1;2",
        "1\n",
        "[1]x",
        "[,]",
        "2147483648",
        "0-4294967296",
        "-",
        "99999999999999999999",
        "1-99999999999999999999",
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errmsg_t err = {""};

        errno = 0;
        ck_assert_msg(idset_parse(tests[i], &err) == NULL, "\"%s\" was taken", tests[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    ck_assert_ptr_null(idset_parse(NULL, NULL));
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(format)
{
    idset_t *ids = idset_create();
    char *s = idset_format(ids, IDSET_BRACKETS);

    ck_assert_str_eq(s, "[]");
    free(s);
    idset_set(ids, 3);
    s = idset_format(ids, IDSET_BRACKETS);
    ck_assert_str_eq(s, "3");
    free(s);
    idset_set(ids, 4);
    s = idset_format(ids, IDSET_BRACKETS);
    ck_assert_str_eq(s, "[3-4]");
    free(s);
    s = idset_format(NULL, 0);
    ck_assert_str_eq(s, "");
    free(s);
    idset_destroy(ids);
}
END_TEST

START_TEST(limits)
{
    idset_t *ids = idset_create();

    ck_assert_int_eq(idset_set(ids, IDSET_MAX), 0);
    ck_assert_int_eq(idset_set(ids, IDSET_MAX + 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(idset_range_set(ids, 5, 4), -1);
    ck_assert_int_eq(idset_range_set(ids, 0, IDSET_NONE), -1);
    ck_assert_int_eq(idset_clear(ids, IDSET_NONE), -1);
    ck_assert_int_eq(idset_set(NULL, 1), -1);
    ck_assert(!idset_test(ids, IDSET_NONE));
    ck_assert_uint_eq(idset_next(ids, IDSET_MAX), IDSET_NONE);
    ck_assert_uint_eq(idset_next(ids, IDSET_NONE), IDSET_NONE);
    ck_assert_uint_eq(idset_prev(ids, IDSET_NONE), IDSET_MAX);
    ck_assert_uint_eq(idset_prev(ids, 0), IDSET_NONE);
    ck_assert_uint_eq(idset_next(ids, 0), IDSET_MAX);
    ck_assert_int_eq(idset_range_set(ids, 0, IDSET_MAX), 0);
    ck_assert_uint_eq(idset_count(ids), 2147483648u);
    ck_assert_uint_eq(idset_nth(ids, 2147483647), IDSET_MAX);
    ck_assert_uint_eq(idset_nth(ids, 2147483648), IDSET_NONE);
    ck_assert_int_eq(idset_clear(ids, 1000), 0);
    expect(ids, "0-999,1001-2147483647");
    idset_destroy(ids);
    ck_assert_ptr_null(idset_create_range(2, 1));
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(null_is_empty)
{
    idset_t *ids = idset_create_range(1, 3);
    idset_t *r;

    ck_assert(idset_empty(NULL) && idset_count(NULL) == 0 && !idset_test(NULL, 0));
    ck_assert(idset_first(NULL) == IDSET_NONE && idset_last(NULL) == IDSET_NONE);
    ck_assert(idset_subset(NULL, ids) && !idset_subset(ids, NULL) && !idset_intersects(ids, NULL));
    ck_assert(idset_equal(NULL, NULL) && !idset_equal(ids, NULL));
    r = idset_union(ids, NULL);
    ck_assert(idset_equal(r, ids));
    idset_destroy(r);
    r = idset_difference(ids, NULL);
    ck_assert(idset_equal(r, ids));
    idset_destroy(r);
    r = idset_difference(NULL, ids);
    ck_assert(idset_empty(r));
    idset_destroy(r);
    r = idset_intersect(NULL, ids);
    ck_assert(idset_empty(r));
    ck_assert(idset_equal(r, NULL));
    idset_destroy(r);
    r = idset_copy(NULL);
    ck_assert(r && idset_empty(r));
    idset_destroy(r);
    errno = 42;
    idset_destroy(ids);
    idset_destroy(NULL);
    ck_assert_int_eq(errno, 42);
}
END_TEST

/* Falling single items are the worst order for a sorted vector; a million must take no time. */
START_TEST(hostile_order)
{
    size_t n = 300000;
    char *text = malloc(n * 8);
    size_t len = 0;
    idset_t *ids;

    for (size_t i = n; i > 0; i--)
        len += (size_t)sprintf(text + len, "%s%zu", i < n ? "," : "", i * 2);
    ids = idset_parse(text, NULL);
    ck_assert_ptr_nonnull(ids);
    ck_assert_uint_eq(idset_count(ids), n);
    free(text);
    idset_destroy(ids);
}
END_TEST

#define SPACE 64

static void check_model(const idset_t *ids, const char *model)
{
    size_t count = 0;
    uint32_t first = IDSET_NONE;
    uint32_t last = IDSET_NONE;
    uint32_t it = idset_first(ids);
    size_t pos = 0;
    uint32_t lo;
    uint32_t hi;
    size_t total = 0;
    idset_t *back;
    char *s;
    bool ok = true;

    for (uint32_t i = 0; i < SPACE; i++) {
        ok &= idset_test(ids, i) == (bool)model[i];
        if (!model[i])
            continue;
        if (first == IDSET_NONE)
            first = i;
        ok &= it == i && idset_nth(ids, count) == i && idset_prev(ids, i) == last;
        it = idset_next(ids, it);
        last = i;
        count++;
    }
    ok &= it == IDSET_NONE && idset_count(ids) == count && idset_empty(ids) == (count == 0);
    ok &= idset_first(ids) == first && idset_last(ids) == last;
    hi = IDSET_NONE;
    for (uint32_t end = 0; idset_next_range(ids, &pos, &lo, &hi); end = hi) {
        ok &= lo <= hi && (pos == 1 || lo > end + 1);
        total += hi - lo + 1;
    }
    ok &= total == count;
    ck_assert(ok);
    s = idset_format(ids, count % 2 ? IDSET_BRACKETS : 0);
    back = idset_parse(s, NULL);
    ck_assert_msg(idset_equal(ids, back), "%s", s);
    free(s);
    idset_destroy(back);
}

static idset_t *random_set(char *model)
{
    idset_t *ids = idset_create();

    memset(model, 0, SPACE);
    for (long n = random() % 20; n > 0; n--) {
        uint32_t lo = (uint32_t)(random() % SPACE);
        uint32_t hi = lo + (uint32_t)(random() % (random() % 2 ? 4 : SPACE));
        int on = random() % 3 > 0;

        if (hi >= SPACE)
            hi = SPACE - 1;
        ck_assert_int_eq((on ? idset_range_set : idset_range_clear)(ids, lo, hi), 0);
        memset(model + lo, on, hi - lo + 1);
    }
    return ids;
}

START_TEST(algebra)
{
    char a[SPACE];
    char b[SPACE];
    char m[SPACE];

    srandom(_i + 1);
    for (int round = 0; round < 2000; round++) {
        idset_t *x = random_set(a);
        idset_t *y = random_set(b);
        idset_t *r;
        bool subset = true;
        bool meet = false;

        check_model(x, a);
        check_model(y, b);
        for (int i = 0; i < SPACE; i++) {
            subset &= !a[i] || b[i];
            meet |= a[i] && b[i];
        }
        ck_assert(idset_subset(x, y) == subset && idset_intersects(x, y) == meet);
        ck_assert(idset_equal(x, y) == (memcmp(a, b, SPACE) == 0));
        for (int i = 0; i < SPACE; i++)
            m[i] = a[i] || b[i];
        r = idset_union(x, y);
        check_model(r, m);
        idset_destroy(r);
        r = idset_copy(x);
        ck_assert_int_eq(idset_add(r, y), 0);
        check_model(r, m);
        idset_destroy(r);
        for (int i = 0; i < SPACE; i++)
            m[i] = a[i] && b[i];
        r = idset_intersect(x, y);
        check_model(r, m);
        idset_destroy(r);
        r = idset_copy(x);
        ck_assert_int_eq(idset_keep(r, y), 0);
        check_model(r, m);
        idset_destroy(r);
        for (int i = 0; i < SPACE; i++)
            m[i] = a[i] && !b[i];
        r = idset_difference(x, y);
        check_model(r, m);
        idset_destroy(r);
        r = idset_copy(x);
        ck_assert_int_eq(idset_subtract(r, y), 0);
        check_model(r, m);
        ck_assert_int_eq(idset_subtract(r, r), 0);
        ck_assert(idset_empty(r));
        idset_destroy(r);
        ck_assert_int_eq(idset_add(x, x), 0);
        check_model(x, a);
        idset_destroy(x);
        idset_destroy(y);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, parse_good);
    tcase_add_test(tc, parse_bad);
    tcase_add_test(tc, format);
    tcase_add_test(tc, limits);
    tcase_add_test(tc, null_is_empty);
    tcase_add_test(tc, hostile_order);
    tcase_add_loop_test(tc, algebra, 0, 4);
    return run_case("idset", tc);
}
