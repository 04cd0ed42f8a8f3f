/* check_ring.c - the circular log buffer: order, numbers, both bounds. */
#include "config.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "modules/log/ring.h"

static uint64_t add(ring_t *r, const char *text)
{
    struct log_entry e = {.time = 1.5, .level = 3, .rank = 7, .source = "src", .text = text};

    return ring_append(r, &e);
}

START_TEST(order)
{
    ring_t *r = ring_create(3, 1 << 20);
    char text[24];

    ck_assert_ptr_nonnull(r);
    ck_assert_ptr_null(ring_at(r, 0));
    for (int i = 1; i <= 5; i++) {
        snprintf(text, sizeof(text), "line %d", i);
        ck_assert_uint_eq(add(r, text), (uint64_t)i);
    }
    ck_assert_uint_eq(ring_count(r), 3);
    ck_assert_uint_eq(ring_dropped(r), 2);
    ck_assert_uint_eq(ring_last_seq(r), 5);
    for (size_t i = 0; i < 3; i++) {
        const struct log_entry *e = ring_at(r, i);
        snprintf(text, sizeof(text), "line %zu", i + 3);
        ck_assert_str_eq(e->text, text);
        ck_assert_str_eq(e->source, "src");
        ck_assert_uint_eq(e->seq, i + 3);
        ck_assert_uint_eq(e->rank, 7);
    }
    ck_assert_ptr_null(ring_at(r, 3));
    ring_pop(r);
    ck_assert_uint_eq(ring_at(r, 0)->seq, 4);
    ck_assert_uint_eq(ring_dropped(r), 2);
    ring_clear(r);
    ring_pop(r);
    ck_assert_uint_eq(ring_count(r), 0);
    ck_assert_uint_eq(ring_bytes(r), 0);
    ck_assert_uint_eq(add(r, "next"), 6);
    ring_destroy(r);
    ring_destroy(NULL);
}
END_TEST

START_TEST(bytes)
{
    ring_t *r = ring_create(1000, 2000);
    char big[4000];

    for (int i = 0; i < 1000; i++) {
        add(r, "some text of a few bytes");
        ck_assert_uint_le(ring_bytes(r), 2000);
    }
    ck_assert_uint_gt(ring_count(r), 5);
    /* One that is larger than all is kept alone. */
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    add(r, big);
    ck_assert_uint_eq(ring_count(r), 1);
    add(r, "small");
    ck_assert_uint_eq(ring_count(r), 1);
    ck_assert_str_eq(ring_at(r, 0)->text, "small");
    ring_destroy(r);
}
END_TEST

/* Entries that were cleared are not seen; they make room without being counted as dropped. */
START_TEST(cleared)
{
    ring_t *r = ring_create(4, 1 << 20);
    size_t one;

    add(r, "text");
    one = ring_bytes(r);
    add(r, "text");
    add(r, "text");
    ring_clear(r);
    ck_assert_uint_eq(ring_count(r), 0);
    ck_assert_uint_eq(ring_bytes(r), 0);
    ck_assert_ptr_null(ring_at(r, 0));
    add(r, "text");
    add(r, "text");
    ck_assert_uint_eq(ring_count(r), 2);
    ck_assert_uint_eq(ring_bytes(r), 2 * one);
    ck_assert_uint_eq(ring_at(r, 0)->seq, 4);
    ck_assert_uint_eq(ring_dropped(r), 0);
    ck_assert(ring_sweep(r));
    ck_assert(!ring_sweep(r));
    ck_assert(!ring_sweep(r));
    ck_assert_uint_eq(ring_at(r, 1)->seq, 5);
    ring_clear(r);
    ck_assert_int_eq(ring_resize(r, 1, 1 << 20), 0);
    ck_assert_uint_eq(ring_dropped(r), 0);
    add(r, "text");
    add(r, "text");
    ck_assert_uint_eq(ring_dropped(r), 1);
    ring_clear(r);
    ring_pop(r);
    ck_assert_uint_eq(ring_bytes(r), 0);
    ring_destroy(r);
}
END_TEST

START_TEST(resize)
{
    ring_t *r = ring_create(4, 1 << 20);

    for (int i = 0; i < 6; i++)
        add(r, "text");
    ck_assert_int_eq(ring_resize(r, 8, 1 << 20), 0);
    ck_assert_uint_eq(ring_count(r), 4);
    ck_assert_uint_eq(ring_at(r, 0)->seq, 3);
    for (int i = 0; i < 6; i++)
        add(r, "text");
    ck_assert_uint_eq(ring_count(r), 8);
    ck_assert_int_eq(ring_resize(r, 2, 1 << 20), 0);
    ck_assert_uint_eq(ring_count(r), 2);
    ck_assert_uint_eq(ring_at(r, 0)->seq, 11);
    ck_assert_uint_eq(ring_at(r, 1)->seq, 12);
    ck_assert_uint_eq(ring_dropped(r), 2 + 2 + 6);
    ring_destroy(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("ring");

    tcase_add_test(tc, order);
    tcase_add_test(tc, bytes);
    tcase_add_test(tc, cleared);
    tcase_add_test(tc, resize);
    return run_case("log ring", tc);
}
