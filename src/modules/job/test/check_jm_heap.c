/* check_jm_heap.c - the heap of times, against a list that is searched. */
#include "config.h"
#include <check.h>
#include <stdlib.h>

#include "libutil/test/suite.h"
#include "../jm_heap.h"

#define N 500

static void check_first(const struct jm_heap *hp, const struct jm_heap_node *nodes, size_t n)
{
    const struct jm_heap_node *least = NULL;
    uint32_t in = 0;

    for (size_t i = 0; i < n; i++) {
        if (nodes[i].pos == 0)
            continue;
        in++;
        if (!least || nodes[i].at < least->at)
            least = &nodes[i];
    }
    ck_assert_uint_eq(hp->n, in);
    if (least)
        ck_assert(jm_heap_first(hp)->at == least->at);
    else
        ck_assert_ptr_null(jm_heap_first(hp));
}

START_TEST(against_search)
{
    struct jm_heap hp = {0};
    struct jm_heap_node nodes[N] = {0};
    unsigned seed = 7;

    for (int i = 0; i < 20000; i++) {
        struct jm_heap_node *n = &nodes[rand_r(&seed) % N];

        if (rand_r(&seed) % 3 == 0)
            jm_heap_remove(&hp, n);
        else
            ck_assert_int_eq(jm_heap_put(&hp, n, rand_r(&seed) % 1000), 0);
        check_first(&hp, nodes, N);
    }
    for (int i = 0; i < N; i++) {
        jm_heap_remove(&hp, &nodes[i]);
        jm_heap_remove(&hp, &nodes[i]);
    }
    check_first(&hp, nodes, N);
    jm_heap_clear(&hp);
}
END_TEST

START_TEST(in_order)
{
    struct jm_heap hp = {0};
    struct jm_heap_node nodes[N] = {0};
    double last = -1;

    for (int i = 0; i < N; i++)
        jm_heap_put(&hp, &nodes[i], (i * 7919) % N);
    for (int i = 0; i < N; i++) {
        struct jm_heap_node *n = jm_heap_first(&hp);

        ck_assert(n->at > last);
        last = n->at;
        jm_heap_remove(&hp, n);
    }
    ck_assert_ptr_null(jm_heap_first(&hp));
    jm_heap_clear(&hp);
}
END_TEST

START_TEST(cleared)
{
    struct jm_heap hp = {0};
    struct jm_heap_node n = {0};

    jm_heap_put(&hp, &n, 1.);
    jm_heap_clear(&hp);
    ck_assert_uint_eq(n.pos, 0);
    jm_heap_remove(&hp, &n);
    ck_assert_int_eq(jm_heap_put(&hp, &n, 2.), 0);
    ck_assert_ptr_eq(jm_heap_first(&hp), &n);
    jm_heap_clear(&hp);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, against_search);
    tcase_add_test(tc, in_order);
    tcase_add_test(tc, cleared);
    return run_case("job heap", tc);
}
