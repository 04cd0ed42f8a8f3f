/* fairq.c - the envelopes that wait for a module, served in turn by sender.
 *
 * There is a list of groups, and in each group a list of its senders, each with its envelopes in
 * order.  A turn takes the first envelope of the first sender of the first group; then both move to
 * the end of their lists.  An envelope thus waits for the earlier envelopes of its own sender, and
 * between them for at most one of each other group and sender, however many these have put in.
 *
 * A group that had no envelope in the queue gets its first turn before groups that wait for a
 * further turn, so a client that sends one request after the other does not wait for a round of
 * clients that flood.  After FAVORED_MAX such turns one of the other groups is served.
 *
 * A large envelope costs more than a small one: its group owes the difference, at most DEBT_MAX,
 * and skips one turn per unit while other groups wait.
 *
 * Invariants:
 *  1. The envelopes of one sender are taken in the order in which they were put in, and those of
 *     FAIRQ_FIRST before all others.
 *  2. A group or a sender is in its list, and in its table, exactly while it has envelopes: a
 *     sender that is gone leaves nothing behind.
 *  3. While groups wait for a further turn, they get at least one of FAVORED_MAX + 1 turns.
 *  4. The cost of put and take does not depend on the number of envelopes: a skipped turn was paid
 *     for by an envelope, which pays for at most DEBT_MAX.
 *
 * Failure: if memory is short, an envelope is not put in.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "fairq.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libutil/invariant.h"

#define DEBT_MAX 16
#define FAVORED_MAX 4
#define SPARE_MAX 1024 /* items kept for later envelopes */

struct item {
    struct list_node node;
    struct envelope envelope;
    unsigned weight;
};

struct group {
    struct list_node node; /* in fairq.fresh or fairq.groups */
    uint32_t number;
    unsigned debt;
    struct list_node senders;
};

struct sender {
    struct list_node node; /* in group.senders */
    struct group *group;
    uint64_t key;
    struct list_node items;
};

struct fairq {
    struct list_node first; /* items of FAIRQ_FIRST */
    struct list_node fresh; /* groups */
    struct list_node groups;
    unsigned favored;  /* turns of fresh groups since another group was served */
    hmap_t *by_number; /* -> struct group */
    hmap_t *by_key;    /* group and sender -> struct sender */
    struct list_node spare;
    size_t nspare;
    size_t count;
};

fairq_t *fairq_create(void)
{
    fairq_t *q = calloc(1, sizeof(*q));

    if (!q)
        return NULL;
    list_init(&q->first);
    list_init(&q->fresh);
    list_init(&q->groups);
    list_init(&q->spare);
    if (!(q->by_number = hmap_create_u64(NULL)) || !(q->by_key = hmap_create_u64(NULL))) {
        fairq_destroy(q);
        errno = ENOMEM;
        return NULL;
    }
    return q;
}

void fairq_destroy(fairq_t *q)
{
    if (q) {
        int saved = errno;
        struct envelope l;
        struct list_node *n;

        while (fairq_next(q, &l))
            flux_msg_destroy(l.msg);
        while ((n = list_first(&q->spare))) {
            list_remove(n);
            free(list_entry(n, struct item, node));
        }
        INVARIANT(2, hmap_count(q->by_key) == 0 && hmap_count(q->by_number) == 0);
        hmap_destroy(q->by_number);
        hmap_destroy(q->by_key);
        free(q);
        errno = saved;
    }
}

static struct item *item_create(fairq_t *q)
{
    struct list_node *n = list_first(&q->spare);
    struct item *it;

    if (n) {
        list_remove(n);
        q->nspare--;
        return list_entry(n, struct item, node);
    }
    if ((it = malloc(sizeof(*it))))
        list_init(&it->node);
    return it;
}

static void item_free(fairq_t *q, struct item *it)
{
    if (q->nspare < SPARE_MAX) {
        list_push(&q->spare, &it->node);
        q->nspare++;
    } else
        free(it);
}

/* --- groups and senders --- */

static uint64_t key_of(uint32_t group, uint32_t sender)
{
    return (uint64_t)group << 32 | sender;
}

static struct group *group_join(fairq_t *q, uint32_t number)
{
    struct group *g = hmap_get_u64(q->by_number, number);

    if (g)
        return g;
    if (!(g = calloc(1, sizeof(*g))))
        return NULL;
    g->number = number;
    list_init(&g->node);
    list_init(&g->senders);
    if (hmap_put_u64(q->by_number, number, g) < 0) {
        free(g);
        return NULL;
    }
    list_append(&q->fresh, &g->node);
    return g;
}

static void group_leave(fairq_t *q, struct group *g)
{
    if (list_empty(&g->senders)) {
        list_remove(&g->node);
        hmap_del_u64(q->by_number, g->number);
        free(g);
    }
}

static struct sender *sender_join(fairq_t *q, uint32_t group, uint32_t number)
{
    uint64_t key = key_of(group, number);
    struct sender *s = hmap_get_u64(q->by_key, key);

    if (s)
        return s;
    if (!(s = calloc(1, sizeof(*s))))
        return NULL;
    s->key = key;
    list_init(&s->node);
    list_init(&s->items);
    if (!(s->group = group_join(q, group))) {
        free(s);
        return NULL;
    }
    if (hmap_put_u64(q->by_key, key, s) < 0) {
        group_leave(q, s->group);
        free(s);
        return NULL;
    }
    list_append(&s->group->senders, &s->node);
    return s;
}

static void sender_free(fairq_t *q, struct sender *s)
{
    INVARIANT(2, list_empty(&s->items));
    list_remove(&s->node);
    hmap_del_u64(q->by_key, s->key);
    free(s);
}

/* --- in and out --- */

int fairq_put(fairq_t *q, uint32_t group, uint32_t sender, unsigned weight,
              const struct envelope *l)
{
    struct item *it = item_create(q);
    struct sender *s = NULL;

    if (!it || (group != FAIRQ_FIRST && !(s = sender_join(q, group, sender)))) {
        if (it)
            item_free(q, it);
        errno = ENOMEM;
        return -1;
    }
    it->envelope = *l;
    it->weight = weight;
    list_append(s ? &s->items : &q->first, &it->node);
    q->count++;
    INVARIANT(2, !s || hmap_get_u64(q->by_key, s->key) == s);
    INVARIANT(2, !s || !list_empty(&s->group->senders));
    return 0;
}

static unsigned take(fairq_t *q, struct list_node *items, struct envelope *l)
{
    struct item *it = list_entry(list_first(items), struct item, node);
    unsigned weight = it->weight;

    INVARIANT(2, !list_empty(items) && q->count > 0);
    list_remove(&it->node);
    *l = it->envelope;
    item_free(q, it);
    q->count--;
    return weight;
}

/* The group whose turn it is: the first without debt.  A single group ignores its debt. */
static struct group *next_group(fairq_t *q)
{
    struct list_node *n;
    struct group *g;

    for (;;) {
        n = list_first(&q->groups);
        g = list_entry(n, struct group, node);
        if (n->next == &q->groups)
            g->debt = 0;
        if (g->debt == 0)
            return g;
        g->debt--;
        list_remove(n);
        list_append(&q->groups, n);
    }
}

/* Is it the turn of a fresh group? */
static bool is_fresh_turn(fairq_t *q)
{
    if (list_empty(&q->fresh))
        return false;
    if (list_empty(&q->groups))
        return true;
    if (q->favored < FAVORED_MAX) {
        q->favored++;
        return true;
    }
    q->favored = 0;
    return false;
}

static void take_in_turn(fairq_t *q, struct envelope *l)
{
    struct group *g =
        is_fresh_turn(q) ? list_entry(list_first(&q->fresh), struct group, node) : next_group(q);
    struct sender *s = list_entry(list_first(&g->senders), struct sender, node);
    unsigned more = take(q, &s->items, l) - 1;

    g->debt = more < DEBT_MAX ? more : DEBT_MAX;
    INVARIANT(4, g->debt <= DEBT_MAX);
    list_remove(&s->node);
    if (list_empty(&s->items))
        sender_free(q, s);
    else
        list_append(&g->senders, &s->node);
    list_remove(&g->node);
    list_append(&q->groups, &g->node);
    group_leave(q, g);
}

bool fairq_next(fairq_t *q, struct envelope *l)
{
    INVARIANT(2, q->count > 0 || hmap_count(q->by_key) == 0);
    if (q->count == 0)
        return false;
    if (!list_empty(&q->first))
        (void)take(q, &q->first, l);
    else
        take_in_turn(q, l);
    return true;
}

bool fairq_has(const fairq_t *q, uint32_t group, uint32_t sender)
{
    if (group == FAIRQ_FIRST)
        return !list_empty(&q->first);
    return hmap_get_u64(q->by_key, key_of(group, sender));
}

size_t fairq_count(const fairq_t *q)
{
    return q->count;
}

size_t fairq_groups(const fairq_t *q)
{
    return hmap_count(q->by_number);
}
