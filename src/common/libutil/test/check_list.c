/* check_list.c - the intrusive list. */
#include "config.h"
#include <check.h>

#include "libutil/list.h"
#include "libutil/test/suite.h"

struct item {
    int n;
    struct list_node node;
};

static int digits(struct list_node *head)
{
    int sum = 0;

    LIST_FOREACH(it, head)
    {
        sum = sum * 10 + list_entry(it, struct item, node)->n;
    }
    return sum;
}

START_TEST(order)
{
    struct list_node head;
    struct item item[5];

    list_init(&head);
    ck_assert(list_empty(&head));
    ck_assert_ptr_null(list_first(&head));
    for (int i = 0; i < 5; i++) {
        item[i].n = i + 1;
        list_init(&item[i].node);
        list_remove(&item[i].node); /* in no list: harmless */
    }
    list_append(&head, &item[1].node);
    list_append(&head, &item[2].node);
    list_push(&head, &item[0].node);
    list_append(&head, &item[3].node);
    ck_assert_int_eq(digits(&head), 1234);
    ck_assert_ptr_eq(list_first(&head), &item[0].node);
    list_remove(&item[1].node);
    list_remove(&item[1].node);
    ck_assert_int_eq(digits(&head), 134);
    list_append(&head, &item[1].node);
    ck_assert_int_eq(digits(&head), 1342);
    LIST_FOREACH_SAFE(it, tmp, &head)
    {
        if (list_entry(it, struct item, node)->n % 2 == 0)
            list_remove(it);
    }
    ck_assert_int_eq(digits(&head), 13);
    list_remove(&item[0].node);
    list_remove(&item[2].node);
    ck_assert(list_empty(&head));
}
END_TEST

static int by_tens(const struct list_node *a, const struct list_node *b)
{
    return list_entry(a, struct item, node)->n / 10 - list_entry(b, struct item, node)->n / 10;
}

/* The tens are the key, the ones are the order in which nodes of one key were appended. */
START_TEST(sort)
{
    struct item item[40];

    for (int n = 0; n <= 40; n++) {
        struct list_node head;
        int last = -1, count = 0;

        list_init(&head);
        for (int i = 0; i < n; i++) {
            item[i].n = i * 17 % 5 * 10 + i / 5;
            list_append(&head, &item[i].node);
        }
        list_sort(&head, by_tens);
        LIST_FOREACH(it, &head)
        {
            const struct item *now = list_entry(it, struct item, node);

            ck_assert_int_lt(last, now->n);
            ck_assert_ptr_eq(it->next->prev, it);
            last = now->n;
            count++;
        }
        ck_assert_int_eq(count, n);
    }
}
END_TEST

START_TEST(splice)
{
    struct list_node a, b, n[4];

    list_init(&a);
    list_init(&b);
    for (int i = 0; i < 4; i++) {
        list_init(&n[i]);
        list_append(i < 2 ? &a : &b, &n[i]);
    }
    list_splice(&a, &b);
    ck_assert(list_empty(&b));
    list_splice(&a, &b);
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_eq(list_first(&a), &n[i]);
        list_remove(&n[i]);
    }
    list_append(&b, &n[0]);
    list_splice(&a, &b);
    ck_assert_ptr_eq(list_first(&a), &n[0]);
    ck_assert_ptr_eq(a.prev, &n[0]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, order);
    tcase_add_test(tc, sort);
    tcase_add_test(tc, splice);
    return run_case("list", tc);
}
