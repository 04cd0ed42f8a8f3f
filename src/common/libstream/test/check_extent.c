/* check_extent.c - pieces of an address space: none overlaps another, and they are used again. */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "libstream/extent.h"
#include "libutil/test/suite.h"

START_TEST(again)
{
    extent_pool_t *p = extent_pool_create(1 << 20);
    struct extent *a = extent_take(p, 5000);
    struct extent *b = extent_take(p, 5000);

    ck_assert(a && b && a->room == 8192 && b->room == 8192);
    extent_give(p, a);
    extent_give(p, b);
    ck_assert_ptr_eq(extent_take(p, 8192), b); /* the latest first */
    ck_assert_ptr_eq(extent_take(p, 4097), a);
    extent_pool_destroy(p);
}
END_TEST

START_TEST(limits)
{
    extent_pool_t *p;

    ck_assert_ptr_null(extent_pool_create(0));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(extent_pool_create(1000));
    ck_assert_int_eq(errno, EINVAL);
    p = extent_pool_create(4096);
    ck_assert_ptr_null(extent_take(p, 4097));
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_ptr_null(extent_take(p, UINT64_MAX));
    ck_assert_int_eq(errno, ENOSPC);
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(extent_take(p, 1));
    ck_assert_ptr_null(extent_take(p, 1));
    ck_assert_int_eq(errno, ENOSPC);
    extent_pool_destroy(p);
    extent_pool_destroy(NULL);
}
END_TEST

/* Any order of takes and gives, from a seed: an owner for each unit of the address space. */
START_TEST(disjoint)
{
    enum { UNITS = 4096, PIECES = 200 };
    static bool owned[UNITS];
    extent_pool_t *p = extent_pool_create(UNITS * EXTENT_MIN);
    struct extent *e[PIECES] = {NULL};

    srand(13);
    for (int i = 0; i < 20000; i++) {
        int k = rand() % PIECES;
        bool give = e[k] != NULL;
        unsigned wrong = 0;

        if (!give && !(e[k] = extent_take(p, 1 + (uint64_t)(rand() % 20000)))) {
            ck_assert_int_eq(errno, ENOSPC);
            continue;
        }
        ck_assert_uint_le(e[k]->off + e[k]->room, UNITS * EXTENT_MIN);
        for (uint64_t u = e[k]->off / EXTENT_MIN; u < (e[k]->off + e[k]->room) / EXTENT_MIN; u++) {
            wrong += owned[u] != give;
            owned[u] = !give;
        }
        ck_assert_uint_eq(wrong, 0);
        if (give) {
            extent_give(p, e[k]);
            e[k] = NULL;
        }
    }
    extent_pool_destroy(p);
}
END_TEST

int main(void)
{
    RUN_SUITE("extent", again, limits, disjoint);
}
