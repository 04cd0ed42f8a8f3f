/* sched_tree.c - the ordered tree behind the queue: a treap.
 *
 * Invariants:
 *  1. Keys to the left of a node are smaller, keys to the right larger.
 *  2. A node's level, a hash of its b, is at least that of the nodes below it.
 *  3. size and least are those of the subtree.
 *
 * Failure: none.
 */
#include "config.h"

#include "sched_tree.h"

static uint32_t level_of(uint64_t b)
{
    b += UINT64_C(0x9e3779b97f4a7c15);
    b = (b ^ (b >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    b = (b ^ (b >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(b >> 32) | 1;
}

static void renew(struct sched_tree_node *n)
{
    n->size = 1;
    n->least = n->weight;
    if (n->left) {
        n->size += n->left->size;
        if (n->left->least < n->least)
            n->least = n->left->least;
    }
    if (n->right) {
        n->size += n->right->size;
        if (n->right->least < n->least)
            n->least = n->right->least;
    }
}

/* Split into the elements before `key`, and the rest. */
static void split(struct sched_tree_node *n, struct sched_tree_key key,
                  struct sched_tree_node **low, struct sched_tree_node **high)
{
    if (!n) {
        *low = *high = NULL;
        return;
    }
    if (sched_tree_before(sched_tree_key(n), key)) {
        split(n->right, key, &n->right, high);
        *low = n;
    } else {
        split(n->left, key, low, &n->left);
        *high = n;
    }
    renew(n);
}

static struct sched_tree_node *join(struct sched_tree_node *low, struct sched_tree_node *high)
{
    if (!low || !high)
        return low ? low : high;
    if (low->level >= high->level) {
        low->right = join(low->right, high);
        renew(low);
        return low;
    }
    high->left = join(low, high->left);
    renew(high);
    return high;
}

static struct sched_tree_node *insert(struct sched_tree_node *at, struct sched_tree_node *n)
{
    if (!at || n->level > at->level) {
        split(at, sched_tree_key(n), &n->left, &n->right);
        renew(n);
        return n;
    }
    if (sched_tree_before(sched_tree_key(n), sched_tree_key(at)))
        at->left = insert(at->left, n);
    else
        at->right = insert(at->right, n);
    at->size++;
    if (n->weight < at->least)
        at->least = n->weight;
    return at;
}

void sched_tree_insert(struct sched_tree *t, struct sched_tree_node *n)
{
    n->level = level_of(n->b);
    t->root = insert(t->root, n);
}

static struct sched_tree_node *take(struct sched_tree_node *at, struct sched_tree_node *n)
{
    if (at == n)
        return join(n->left, n->right);
    if (sched_tree_before(sched_tree_key(n), sched_tree_key(at)))
        at->left = take(at->left, n);
    else
        at->right = take(at->right, n);
    renew(at);
    return at;
}

void sched_tree_remove(struct sched_tree *t, struct sched_tree_node *n)
{
    t->root = take(t->root, n);
    n->left = n->right = NULL;
    n->level = 0;
}

struct sched_tree_node *sched_tree_first(const struct sched_tree *t)
{
    struct sched_tree_node *n = t->root;

    while (n && n->left)
        n = n->left;
    return n;
}

struct sched_tree_node *sched_tree_after(const struct sched_tree *t, struct sched_tree_key key)
{
    struct sched_tree_node *n = t->root;
    struct sched_tree_node *found = NULL;

    while (n) {
        if (sched_tree_before(key, sched_tree_key(n))) {
            found = n;
            n = n->left;
        } else
            n = n->right;
    }
    return found;
}

struct sched_tree_node *sched_tree_nth(const struct sched_tree *t, size_t i)
{
    struct sched_tree_node *n = t->root;

    while (n) {
        size_t before = n->left ? n->left->size : 0;

        if (i == before)
            return n;
        if (i < before)
            n = n->left;
        else {
            i -= before + 1;
            n = n->right;
        }
    }
    return NULL;
}

static struct sched_tree_node *first_light(struct sched_tree_node *n, double max)
{
    while (n && n->least <= max) {
        if (n->left && n->left->least <= max)
            n = n->left;
        else if (n->weight <= max)
            return n;
        else
            n = n->right;
    }
    return NULL;
}

struct sched_tree_node *sched_tree_first_light(const struct sched_tree *t, double max)
{
    return first_light(t->root, max);
}

static struct sched_tree_node *after_light(struct sched_tree_node *n, struct sched_tree_key key,
                                           double max)
{
    struct sched_tree_node *found;

    if (!n || n->least > max)
        return NULL;
    if (!sched_tree_before(key, sched_tree_key(n)))
        return after_light(n->right, key, max);
    if ((found = after_light(n->left, key, max)))
        return found;
    return n->weight <= max ? n : first_light(n->right, max);
}

struct sched_tree_node *sched_tree_after_light(const struct sched_tree *t,
                                               struct sched_tree_key key, double max)
{
    return after_light(t->root, key, max);
}

size_t sched_tree_place(const struct sched_tree *t, struct sched_tree_key key)
{
    const struct sched_tree_node *n = t->root;
    size_t place = 0;

    while (n) {
        if (sched_tree_before(sched_tree_key(n), key)) {
            place += 1 + (n->left ? n->left->size : 0);
            n = n->right;
        } else
            n = n->left;
    }
    return place;
}
