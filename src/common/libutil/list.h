/* Intrusive doubly linked list: the node is part of the element, so adding and removing never
 * allocate and take constant time.  A node is in at most one list; an initialized node that is in
 * no list points to itself.  Not thread-safe; no function can fail.
 */
#ifndef UTIL_LIST_H
#define UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *next;
    struct list_node *prev;
};

/* Initialize a list head, or a node that is in no list. */
static inline void list_init(struct list_node *n)
{
    n->next = n->prev = n;
}

static inline bool list_empty(const struct list_node *head)
{
    return head->next == head;
}

/* Add `n` (in no list) at the end of `head`. */
static inline void list_append(struct list_node *head, struct list_node *n)
{
    n->prev = head->prev;
    n->next = head;
    head->prev->next = n;
    head->prev = n;
}

/* Add `n` (in no list) at the front of `head`. */
static inline void list_push(struct list_node *head, struct list_node *n)
{
    list_append(head->next, n);
}

/* Remove `n` from its list; no effect on an initialized node that is in none. */
static inline void list_remove(struct list_node *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    list_init(n);
}

/* Move all nodes of `from` to the end of `head`. */
static inline void list_splice(struct list_node *head, struct list_node *from)
{
    if (list_empty(from))
        return;
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    list_init(from);
}

/* First node, or NULL. */
static inline struct list_node *list_first(const struct list_node *head)
{
    return list_empty(head) ? NULL : head->next;
}

typedef int (*list_cmp_f)(const struct list_node *a, const struct list_node *b);

/* For list_sort(): `n` is the number of nodes. */
static inline void list_sort_n(struct list_node *head, size_t n, list_cmp_f cmp)
{
    struct list_node left, *it;

    if (n < 2)
        return;
    list_init(&left);
    for (size_t i = 0; i < n / 2; i++) {
        it = head->next;
        list_remove(it);
        list_append(&left, it);
    }
    list_sort_n(&left, n / 2, cmp);
    list_sort_n(head, n - n / 2, cmp);
    it = head->next;
    while (!list_empty(&left)) {
        struct list_node *first = left.next;

        if (it != head && cmp(first, it) > 0) {
            it = it->next;
            continue;
        }
        list_remove(first);
        list_append(it, first); /* before `it` */
    }
}

/* Merge sort: stable, without memory of its own.  `cmp` is negative, 0 or positive, as in
 * qsort(3). */
static inline void list_sort(struct list_node *head, list_cmp_f cmp)
{
    size_t n = 0;

    for (const struct list_node *it = head->next; it != head; it = it->next)
        n++;
    list_sort_n(head, n, cmp);
}

#define list_entry(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define LIST_FOREACH(it, head) \
    for (struct list_node *it = (head)->next; it != (head); it = it->next)

/* Safe against removal of the current node. */
#define LIST_FOREACH_SAFE(it, tmp, head)                                     \
    for (struct list_node *it = (head)->next, *tmp = it->next; it != (head); \
         it = tmp, tmp = it->next)

#endif
