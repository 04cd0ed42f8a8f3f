/* km_once.c - the commits that a master has received from other instances, so that each is applied
 * once, although it may arrive more than once.
 *
 * Purpose: when a broker between an instance and the master dies, the instance does not know
 * whether the master has received the commits that were on their way, so it sends them again
 * (km_forward.c).  The instance numbers the commits of its clients.  The master remembers the
 * outcome of each number until the instance says that it has the answer: every commit carries the
 * number up to which its sender has all answers.
 *
 * Order: commits of one instance take effect in the order of their numbers, also those that are
 * sent again.  A commit names the one before it that had no answer when it was sent (`after`).  If
 * that one has not arrived, it was lost on the way, and will be sent again.  So the later commit is
 * refused, and its sender sends it again, too, after the earlier one.
 *
 * state of a number   what happens when it arrives          left when (by)
 * missing             it is refused if it has to wait for   it arrives (km_once_begin)
 *                     an earlier one, else it is new
 * pending             it waits for the same outcome         it is over (km_once_end)
 * over                it gets the same outcome              its sender has the answer (look)
 * past                a copy was late: it is refused        never
 *
 * Invariants:
 *  1. The slots of a sender are in the order of their numbers, all of which are greater than
 *     `answered` and at most `high`.
 *  2. A number at or below `high` is never new again.
 *  3. There are at most `max` senders.
 *
 * Failure: without memory a commit is refused as if it had not arrived, and one whose outcome
 * cannot be kept is past.  A sender is unknown if it was dropped to make room, after `max` others
 * have sent commits since its last one, or if the master has been reloaded.  What such a sender
 * sends again is refused, unless it has no answers at all yet.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_once.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

#define SLOTS_MIN 16    /* a power of two */
#define SLOTS_KEPT 1024 /* of a sender without commits */

struct slot {
    uint64_t number;
    void *pending; /* NULL: over */
    struct km_outcome *outcome;
};

struct sender {
    struct list_node node; /* in km_once.senders, the one that was silent for longest first */
    uint64_t id;
    uint64_t high;      /* the greatest number that has arrived */
    uint64_t answered;  /* the sender has the answers up to this number */
    struct slot *slots; /* a ring of `cap` slots, a power of two, from `head` on */
    size_t cap, head, n;
};

struct km_once {
    hmap_t *by_id;
    struct list_node senders;
    size_t max, count;
};

/* --- outcomes --- */

struct km_outcome *km_once_outcome(int errnum, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    struct km_outcome *o = calloc(1, sizeof(*o) + len + 1);

    if (!o)
        return NULL;
    o->refs = 1;
    o->errnum = errnum;
    if (len)
        memcpy(o->text, text, len);
    return o;
}

struct km_outcome *km_once_ref(struct km_outcome *o)
{
    o->refs++;
    return o;
}

void km_once_unref(struct km_outcome *o)
{
    int saved = errno;

    if (o && --o->refs == 0)
        free(o);
    errno = saved;
}

/* --- slots --- */

static struct slot *slot_at(const struct sender *s, size_t i)
{
    return &s->slots[(s->head + i) & (s->cap - 1)];
}

/* The slot of a number, or NULL. */
static struct slot *slot_find(const struct sender *s, uint64_t number)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct slot *slot = slot_at(s, mid);

        if (slot->number == number)
            return slot;
        if (slot->number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static int slots_grow(struct sender *s)
{
    size_t cap = s->cap ? 2 * s->cap : SLOTS_MIN;
    struct slot *slots = malloc(cap * sizeof(*slots));

    if (!slots)
        return -1;
    for (size_t i = 0; i < s->n; i++)
        slots[i] = *slot_at(s, i);
    free(s->slots);
    s->slots = slots;
    s->cap = cap;
    s->head = 0;
    return 0;
}

/* --- senders --- */

static void drop_answered(struct km_once *t, struct sender *s, uint64_t answered)
{
    if (answered > s->answered)
        s->answered = answered;
    while (s->n > 0 && slot_at(s, 0)->number <= s->answered) {
        km_once_unref(slot_at(s, 0)->outcome);
        s->head = (s->head + 1) & (s->cap - 1);
        s->n--;
        t->count--;
    }
    if (s->n == 0 && s->cap > SLOTS_KEPT) { /* after a burst */
        free(s->slots);
        s->slots = NULL;
        s->cap = s->head = 0;
    }
}

static void sender_free(struct km_once *t, struct sender *s)
{
    drop_answered(t, s, UINT64_MAX);
    list_remove(&s->node);
    (void)hmap_take_u64(t->by_id, s->id);
    free(s->slots);
    free(s);
}

static struct sender *sender_add(struct km_once *t, uint64_t id)
{
    struct sender *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->id = id;
    list_init(&s->node);
    if (hmap_put_u64(t->by_id, id, s) < 0) {
        free(s);
        return NULL;
    }
    list_append(&t->senders, &s->node);
    if (hmap_count(t->by_id) > t->max)
        sender_free(t, list_entry(list_first(&t->senders), struct sender, node));
    INVARIANT(3, hmap_count(t->by_id) <= t->max);
    return s;
}

/* --- commits --- */

enum km_once_state km_once_look(struct km_once *t, const struct kvs_ns_req *q,
                                struct km_once_found *found)
{
    struct sender *s = hmap_get_u64(t->by_id, q->sender);
    const struct slot *slot;

    if (!s && q->after)
        return KM_ONCE_MISSING;
    if (!s)
        return q->flags & KVS_NS_AGAIN && q->answered ? KM_ONCE_UNKNOWN : KM_ONCE_NEW;
    list_remove(&s->node);
    list_append(&t->senders, &s->node);
    drop_answered(t, s, q->answered);
    if (q->number > s->high && q->number > s->answered)
        return q->after > s->high ? KM_ONCE_MISSING : KM_ONCE_NEW;
    if (!(slot = slot_find(s, q->number)) || (!slot->pending && !slot->outcome))
        return KM_ONCE_PAST;
    *found = (struct km_once_found){.pending = slot->pending, .outcome = slot->outcome};
    return slot->pending ? KM_ONCE_PENDING : KM_ONCE_OVER;
}

int km_once_begin(struct km_once *t, const struct kvs_ns_req *q, void *pending)
{
    struct sender *s = hmap_get_u64(t->by_id, q->sender);

    if ((!s && !(s = sender_add(t, q->sender))) || (s->n == s->cap && slots_grow(s) < 0)) {
        errno = ENOMEM;
        return -1;
    }
    INVARIANT(2, q->number > s->high);
    *slot_at(s, s->n++) = (struct slot){.number = q->number, .pending = pending};
    s->high = q->number;
    t->count++;
    INVARIANT(1, q->number > s->answered && slot_find(s, q->number)->pending == pending);
    return 0;
}

void km_once_end(struct km_once *t, uint64_t sender, uint64_t number, struct km_outcome *o)
{
    struct sender *s = hmap_get_u64(t->by_id, sender);
    struct slot *slot = s ? slot_find(s, number) : NULL;

    if (!slot)
        return;
    slot->pending = NULL;
    slot->outcome = o ? km_once_ref(o) : NULL;
}

size_t km_once_count(const struct km_once *t)
{
    return t->count;
}

/* --- life --- */

struct km_once *km_once_create(size_t max)
{
    struct km_once *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    list_init(&t->senders);
    t->max = max;
    if (!(t->by_id = hmap_create_u64(NULL))) {
        free(t);
        return NULL;
    }
    return t;
}

void km_once_destroy(struct km_once *t)
{
    int saved = errno;

    if (!t)
        return;
    LIST_FOREACH_SAFE(n, tmp, &t->senders)
    sender_free(t, list_entry(n, struct sender, node));
    hmap_destroy(t->by_id);
    free(t);
    errno = saved;
}
