/* check_hmap.c - hmap against a naive model, and its promises on memory and iteration. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hmap.h"
#include "libutil/test/suite.h"

static int freed;

static void count_free(void *val)
{
    freed++;
    free(val);
}

static void *num(uintptr_t n)
{
    return (void *)(n + 1);
}

START_TEST(strings)
{
    hmap_t *m = hmap_create_str(NULL);
    char key[32];
    size_t pos = 0;
    const void *k;
    void *v;
    int i = 0;

    ck_assert_ptr_nonnull(m);
    ck_assert_ptr_null(hmap_get(m, "a"));
    ck_assert(!hmap_del(m, "a"));
    for (i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        ck_assert_int_eq(hmap_put(m, key, num(i)), 0);
    }
    ck_assert_uint_eq(hmap_count(m), 1000);
    for (i = 0; hmap_next(m, &pos, &k, NULL, &v); i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        ck_assert_str_eq(k, key);
        ck_assert_ptr_eq(v, num(i));
    }
    ck_assert_int_eq(i, 1000);
    ck_assert_int_eq(hmap_put(m, "", num(7)), 0);
    ck_assert_ptr_eq(hmap_get(m, ""), num(7));
    ck_assert_ptr_eq(hmap_take(m, ""), num(7));
    ck_assert_ptr_null(hmap_take(m, ""));
    hmap_destroy(m);
}
END_TEST

START_TEST(bad_use)
{
    hmap_t *m = hmap_create_str(NULL);

    errno = 0;
    ck_assert_int_eq(hmap_put(m, "a", NULL), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(hmap_put_u64(m, 1, num(1)), -1);
    ck_assert_ptr_null(hmap_get_u64(m, 1));
    ck_assert(!hmap_del_u64(m, 1));
    ck_assert_ptr_null(hmap_create_bin(0, NULL));
    ck_assert_ptr_null(hmap_create_bin(65, NULL));
    ck_assert_uint_eq(hmap_count(NULL), 0);
    errno = 42;
    hmap_destroy(m);
    hmap_destroy(NULL);
    ck_assert_int_eq(errno, 42);
}
END_TEST

START_TEST(free_fn)
{
    hmap_t *m = hmap_create_u64(count_free);
    void *v;

    freed = 0;
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(hmap_put_u64(m, i, malloc(1)), 0);
    ck_assert_int_eq(hmap_put_u64(m, 3, malloc(1)), 0);
    ck_assert_int_eq(freed, 1);
    v = hmap_get_u64(m, 3);
    ck_assert_int_eq(hmap_put_u64(m, 3, v), 0); /* same value again: must stay alive */
    ck_assert_int_eq(freed, 1);
    ck_assert(hmap_del_u64(m, 4));
    ck_assert_int_eq(freed, 2);
    v = hmap_take_u64(m, 5);
    ck_assert_int_eq(freed, 2);
    free(v);
    hmap_destroy(m);
    ck_assert_int_eq(freed, 10);
}
END_TEST

#define SPACE 3000

START_TEST(random_model)
{
    static void *model[SPACE];
    hmap_t *m = hmap_create_u64(NULL);
    size_t count = 0;

    memset(model, 0, sizeof(model));
    srandom(_i + 1);
    for (int step = 0; step < 40000; step++) {
        /* Phases in which insertions, then removals, prevail. */
        int grow = (step / 4000) % 2 == 0;
        uint64_t k = random() % SPACE;
        int op = random() % 10;

        if (op < (grow ? 6 : 2)) {
            void *v = num(random());

            ck_assert_int_eq(hmap_put_u64(m, k * 0x100000001ULL, v), 0);
            count += !model[k];
            model[k] = v;
        } else if (op < 8) {
            ck_assert_int_eq(hmap_del_u64(m, k * 0x100000001ULL), model[k] != NULL);
            count -= model[k] != NULL;
            model[k] = NULL;
        } else {
            ck_assert_ptr_eq(hmap_get_u64(m, k * 0x100000001ULL), model[k]);
        }
        ck_assert_uint_eq(hmap_count(m), count);
        if (step % 1997 == 0) {
            size_t pos = 0;
            size_t n = 0;
            uint64_t ik;
            void *v;

            while (hmap_next(m, &pos, NULL, &ik, &v)) {
                ck_assert_ptr_eq(model[ik / 0x100000001ULL], v);
                n++;
            }
            ck_assert_uint_eq(n, count);
        }
    }
    hmap_destroy(m);
}
END_TEST

/* Removing most entries during the iteration makes the map shrink under it. */
START_TEST(delete_while_iterating)
{
    for (int keep = 2; keep < 200; keep += 97) {
        hmap_t *m = hmap_create_u64(NULL);
        size_t pos = 0;
        uint64_t ik;
        uint64_t expect = 0;

        for (uint64_t i = 0; i < 20000; i++)
            ck_assert_int_eq(hmap_put_u64(m, i, num(i)), 0);
        while (hmap_next(m, &pos, NULL, &ik, NULL)) {
            ck_assert_uint_eq(ik, expect);
            expect++;
            if (ik % keep)
                ck_assert(hmap_del_u64(m, ik));
        }
        ck_assert_uint_eq(expect, 20000);
        ck_assert_uint_eq(hmap_count(m), (20000 + keep - 1) / keep);
        pos = 0;
        while (hmap_next(m, &pos, NULL, &ik, NULL))
            ck_assert(hmap_del_u64(m, ik));
        ck_assert_uint_eq(hmap_count(m), 0);
        ck_assert_int_eq(hmap_put_u64(m, 1, num(1)), 0);
        ck_assert_ptr_eq(hmap_get_u64(m, 1), num(1));
        hmap_destroy(m);
    }
}
END_TEST

START_TEST(delete_by_iterated_key)
{
    hmap_t *s = hmap_create_str(NULL);
    hmap_t *b = hmap_create_bin(20, NULL);
    size_t pos = 0;
    const void *k;

    for (int i = 0; i < 500; i++) {
        char key[20] = {0};

        snprintf(key, sizeof(key), "%d", i);
        ck_assert_int_eq(hmap_put(s, key, num(i)), 0);
        ck_assert_int_eq(hmap_put(b, key, num(i)), 0);
    }
    while (hmap_next(s, &pos, &k, NULL, NULL))
        ck_assert(hmap_del(s, k));
    pos = 0;
    while (hmap_next(b, &pos, &k, NULL, NULL))
        ck_assert(hmap_del(b, k));
    ck_assert_uint_eq(hmap_count(s), 0);
    ck_assert_uint_eq(hmap_count(b), 0);
    hmap_destroy(s);
    hmap_destroy(b);
}
END_TEST

/* Every key length takes its own way through the hash. */
START_TEST(binary_lengths)
{
    for (size_t len = 1; len <= 64; len++) {
        hmap_t *m = hmap_create_bin(len, NULL);
        unsigned char key[64] = {0};

        for (int i = 0; i < 200; i++) {
            key[len - 1] = i;
            ck_assert_int_eq(hmap_put(m, key, num(i)), 0);
        }
        for (int i = 0; i < 200; i++) {
            key[len - 1] = i;
            ck_assert_ptr_eq(hmap_get(m, key), num(i));
        }
        key[len - 1] = 201;
        ck_assert_ptr_null(hmap_get(m, key));
        hmap_destroy(m);
    }
}
END_TEST

/* Keys made to collide in a hash that multiplies words mixed with constants: a factor of zero wipes
 * out what differs.  If these did, this would take hours. */
START_TEST(chosen_keys)
{
    hmap_t *m = hmap_create_bin(32, NULL);
    uint64_t key[4] = {0x243f6a8885a308d3, 0, 1, 2};

    for (key[1] = 0; key[1] < 300000; key[1]++)
        ck_assert_int_eq(hmap_put(m, key, m), 0);
    ck_assert_uint_eq(hmap_count(m), 300000);
    hmap_destroy(m);
}
END_TEST

/* First in, first out, and steady churn: no growth, and taking the oldest stays cheap. */
START_TEST(churn)
{
    hmap_t *m = hmap_create_u64(NULL);

    for (uint64_t i = 0; i < 50000; i++) {
        ck_assert_int_eq(hmap_put_u64(m, i, num(i)), 0);
        if (i >= 1000) {
            size_t pos = 0;
            uint64_t ik;

            ck_assert(hmap_next(m, &pos, NULL, &ik, NULL));
            ck_assert_uint_eq(ik, i - 1000);
            ck_assert(hmap_del_u64(m, ik));
        }
    }
    ck_assert_uint_eq(hmap_count(m), 1000);
    hmap_destroy(m);
}
END_TEST

START_TEST(shrinks)
{
    hmap_t *m = hmap_create_u64(NULL);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    size_t after;

    for (uint64_t i = 0; i < 50000; i++)
        ck_assert_int_eq(hmap_put_u64(m, i, num(i)), 0);
    for (uint64_t i = 0; i < 49990; i++)
        ck_assert(hmap_del_u64(m, i));
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    ck_assert_uint_lt(after, before + 16384);
    for (uint64_t i = 49990; i < 50000; i++)
        ck_assert_ptr_eq(hmap_get_u64(m, i), num(i));
    hmap_destroy(m);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, strings);
    tcase_add_test(tc, bad_use);
    tcase_add_test(tc, free_fn);
    tcase_add_loop_test(tc, random_model, 0, 4);
    tcase_add_test(tc, delete_while_iterating);
    tcase_add_test(tc, delete_by_iterated_key);
    tcase_add_test(tc, binary_lengths);
    tcase_add_test(tc, chosen_keys);
    tcase_add_test(tc, churn);
    tcase_add_test(tc, shrinks);
    return run_case("hmap", tc);
}
