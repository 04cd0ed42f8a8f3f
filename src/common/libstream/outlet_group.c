/* outlet_group.c - readers that share the steps of a writer: each step goes to one member of the
 * group.
 *
 * A group has one queue, with waiting steps and the steps that members have.  A member has a lane
 * like any reader, which gets as many steps as the member requested (`depth`), usually one: the
 * member that finishes first gets the next step.  It sends a byte on its connection for each
 * released step, so that the door's thread gives it another one independently of the writer.  Steps
 * that a member has not released when its connection ends, or when it is evicted, go to the front
 * of the queue, in the order in which the member got them.
 *
 * With a key, steps with equal values of a variable are in order: as long as a member has such a
 * step, the next ones go to the same member, whose lane is in order.  Values are compared by their
 * hash, which puts them into KEY_BUCKETS buckets: values of one bucket are in order as if they were
 * equal.  A step without the variable counts as one with an empty value.
 *
 * Members may divide the steps, by record (knock_want.by_record).  A step then has PARTS parts, and
 * each share of it is a set of these, which a member releases by itself; the step is done when all
 * its shares are.  A waiting share is cut when it is given: a member gets as many parts as each
 * would get if all had room, so that all work on one step.  Which records are in a part is the
 * readers' matter (stream_mine.c): with a key, all with one value of it are.  So the writer looks
 * into no record, and the owner of the parts with a value of the key is that of a bucket: there is
 * one bucket for each part.
 *
 * The group may be one of a stream with several writers.  Then the writer of rank 0 hands out the
 * steps in this way, and the others keep theirs until members claim and release them
 * (outlet_follow.c).  For that, members learn the `floor` of the group with each step: the number
 * of its first step that is not done.  They also learn it when a member has gone, and when no step
 * is left but some were not given to the group.  When no step is left, the member that has released
 * the last one learns it: a writer that has taken the place of another one may keep steps whose
 * releases only the other one has got.
 *
 * Invariants:
 *  1. A step is in a group at most once, plus once for each evicted member that has it in its lane
 *     (`again`).  If members divide steps, this holds for each part of it.
 *  2. `live` and `bytes` count the steps of the shares that are not `again`, which are those in
 *     `open`, by rising number; `waiting` is in the order in which members get them.
 *  3. A member in `idle` has room for another step.  A member with room is in `idle`, unless its
 *     lane has no slot, because the member releases steps in another order than it got them.
 *  4. A bucket has an owner if and only if that member has steps of it that are not `again`.
 *
 * When the last member has gone, the group may be held for some seconds (knock_want.hold): it gets
 * steps, and the writer waits when its queue is full, as if a member were there.  So a reader that
 * is the only member, and is started again in time, goes on after the last step that it has
 * released.  What the group does not get after that time is counted as dropped for the next member.
 *
 * Failure: if memory for its share is short, a group loses a step, which counts as dropped.  A
 * group without members, which awaits none (outlet_await.c) and is not held, gets no new steps; its
 * steps wait for the next member.  No reader becomes a member after the writer has ended
 * (ECONNRESET).
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/block.h"
#include "libstream/outlet_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"
#include "libutil/siphash.h"

#define GROUPS_MAX 64 /* groups of a writer */
#define KEY_BUCKETS 1024
#define PARTS 64

_Static_assert(PARTS <= KEY_BUCKETS, "a part is a bucket");

struct outlet_bucket {
    struct outlet_conn *owner; /* NULL: no member has a step of it */
    unsigned count;
};

/* --- shares --- */

/* The bucket of a step, by its value of the group's key. */
static uint32_t bucket_of(outlet_t *o, const struct outlet_group *g, const struct outlet_step *s)
{
    static const struct siphash_key any = {{1, 2}}; /* the hash key of a writer is random */
    const unsigned char *data = o->base + s->e->off;
    const struct block_var *v = NULL;
    block_t *b;
    uint64_t hash;

    if (!g->buckets || g->want.by_record)
        return 0;
    if ((b = block_read(data, s->len, NULL)))
        v = block_find(b, g->want.key);
    hash = siphash(&any, v ? data + v->off : data, v ? v->len : 0);
    block_destroy(b);
    return (uint32_t)(hash % KEY_BUCKETS);
}

struct outlet_share *outlet_group_share(outlet_t *o, struct outlet_group *g, struct outlet_step *s,
                                        uint32_t bucket)
{
    struct outlet_share *sh = calloc(1, sizeof(*sh));

    if (!sh) {
        o->stats.dropped++;
        g->gap = true;
        return NULL;
    }
    sh->s = s;
    sh->bucket = bucket;
    sh->parts = g->want.by_record ? UINT64_MAX : 0;
    s->refs++;
    g->live++;
    g->bytes += s->len;
    list_init(&sh->node);
    list_append(&g->open, &sh->open);
    return sh;
}

/* Another share of the same step, and before it in `open`: of some of its parts.  NULL: memory is
 * short. */
static struct outlet_share *share_beside(struct outlet_share *sh, uint64_t parts)
{
    struct outlet_share *own = calloc(1, sizeof(*own));

    if (!own)
        return NULL;
    own->s = sh->s;
    own->bucket = sh->bucket;
    own->parts = parts;
    own->s->refs++;
    list_init(&own->node);
    list_append(&sh->open, &own->open);
    return own;
}

static bool same_step(const struct outlet_group *g, const struct list_node *n,
                      const struct outlet_step *s)
{
    return n != &g->open && list_entry(n, struct outlet_share, open)->s == s;
}

void outlet_group_uncount(struct outlet_group *g, struct outlet_share *sh)
{
    bool last = !same_step(g, sh->open.prev, sh->s) && !same_step(g, sh->open.next, sh->s);

    INVARIANT(2, g->live > 0 && g->bytes >= sh->s->len && !list_empty(&sh->open));
    list_remove(&sh->open);
    if (!last)
        return;
    g->live--;
    g->bytes -= sh->s->len;
}

void outlet_group_share_free(outlet_t *o, struct outlet_share *sh)
{
    list_remove(&sh->open);
    list_remove(&sh->node);
    outlet_unref(o, sh->s);
    free(sh);
}

/* The number of the first step that is not done; 0: members that are awaited may have earlier
 * ones. */
static uint64_t floor_of(const outlet_t *o, const struct outlet_group *g)
{
    struct list_node *n = list_first(&g->open);

    return g->awaits > 0 ? 0 : n ? list_entry(n, struct outlet_share, open)->s->step : o->next_step;
}

/* Let all members learn the floor, apart from steps. */
static void tell_floor(outlet_t *o, struct outlet_group *g)
{
    g->gap = false;
    LIST_FOREACH(it, &g->members)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, member);

        lane_tx_floor(c->lane, floor_of(o, g));
        outlet_bell(o, c);
    }
}

/* --- buckets --- */

static unsigned lowest(uint64_t parts)
{
    return (unsigned)__builtin_ctzll(parts);
}

static void enter(struct outlet_bucket *b, struct outlet_conn *c)
{
    INVARIANT(4, !b->owner || b->owner == c);
    b->owner = c;
    b->count++;
}

static void leave(struct outlet_bucket *b)
{
    INVARIANT(4, b->owner && b->count > 0);
    if (--b->count == 0)
        b->owner = NULL;
}

/* Note that a member has a share of its bucket, or of that of each part. */
static void bucket_enter(struct outlet_group *g, const struct outlet_share *sh,
                         struct outlet_conn *c)
{
    if (g->buckets && !g->want.by_record)
        enter(&g->buckets[sh->bucket], c);
    for (uint64_t left = g->buckets ? sh->parts : 0; left != 0; left &= left - 1)
        enter(&g->buckets[lowest(left)], c);
}

/* Note that a member no longer has it. */
static void bucket_leave(struct outlet_group *g, const struct outlet_share *sh)
{
    if (g->buckets && !g->want.by_record)
        leave(&g->buckets[sh->bucket]);
    for (uint64_t left = g->buckets ? sh->parts : 0; left != 0; left &= left - 1)
        leave(&g->buckets[lowest(left)]);
}

/* Those of the parts that a member may have, at most `max`. */
static uint64_t parts_for(const struct outlet_group *g, const struct outlet_conn *c, uint64_t parts,
                          unsigned max)
{
    uint64_t some = 0;

    for (; parts != 0 && max > 0; parts &= parts - 1) {
        const struct outlet_conn *owner = g->buckets ? g->buckets[lowest(parts)].owner : NULL;

        if (!owner || owner == c) {
            some |= parts & -parts;
            max--;
        }
    }
    return some;
}

/* Make a share with some parts of one that waits, and before it.  If memory is short, it is the
 * share itself if the member may have that, else NULL. */
static struct outlet_share *cut(const struct outlet_group *g, const struct outlet_conn *c,
                                struct outlet_share *sh, unsigned max)
{
    uint64_t parts = parts_for(g, c, sh->parts, max);
    struct outlet_share *own;

    if (parts == sh->parts)
        return sh;
    if (!(own = share_beside(sh, parts)))
        return parts_for(g, c, sh->parts, PARTS) == sh->parts ? sh : NULL;
    sh->parts &= ~parts;
    list_append(&sh->node, &own->node);
    return own;
}

/* --- giving steps --- */

static bool has_room(const struct outlet_conn *c)
{
    return lane_tx_live(c->lane) < c->want.depth;
}

/* The same for a share of a step that is divided: the member gets some of its parts. */
static struct outlet_conn *choose_parts(const struct outlet_group *g, const struct outlet_share *sh)
{
    struct list_node *n = list_first(&g->idle);
    struct outlet_conn *any = n ? list_entry(n, struct outlet_conn, idle) : NULL;

    for (uint64_t left = g->buckets ? sh->parts : 0; left != 0; left &= left - 1) {
        struct outlet_conn *owner = g->buckets[lowest(left)].owner;

        if (!owner)
            return any;
        if (has_room(owner))
            return owner;
    }
    return g->buckets ? NULL : any;
}

/* Choose the member for a share; NULL: no member has room, or the owner of its bucket has none. */
static struct outlet_conn *choose(const struct outlet_group *g, const struct outlet_share *sh)
{
    struct outlet_conn *owner = g->buckets ? g->buckets[sh->bucket].owner : NULL;
    struct list_node *n;

    if (owner)
        return has_room(owner) ? owner : NULL;
    n = list_first(&g->idle);
    return n ? list_entry(n, struct outlet_conn, idle) : NULL;
}

/* Give a share to a member.  false: its lane has no slot, so the member is not idle until it
 * releases a step. */
static bool give(outlet_t *o, struct outlet_group *g, struct outlet_conn *c,
                 struct outlet_share *sh)
{
    struct lane_item item = outlet_item(sh->s);

    item.parts = sh->parts;
    list_remove(&c->idle);
    if (!lane_tx_room(c->lane))
        return false;
    lane_tx_floor(c->lane, floor_of(o, g));
    lane_tx_offer(c->lane, &item, sh);
    list_remove(&sh->node);
    list_append(&c->held, &sh->node);
    bucket_enter(g, sh, c);
    if (has_room(c))
        list_append(&g->idle, &c->idle);
    o->stats.offered++;
    outlet_bell(o, c);
    return true;
}

/* Give a waiting share of a step that is divided to members that have room.  false: as give(). */
static bool divide(outlet_t *o, struct outlet_group *g, struct outlet_share *sh)
{
    struct outlet_conn *c;
    unsigned n = 0;
    unsigned max;

    LIST_FOREACH(it, &g->members)
    {
        if (++n == PARTS)
            break;
    }
    max = n > 0 ? (PARTS + n - 1) / n : PARTS;

    while ((c = choose_parts(g, sh))) {
        struct outlet_share *own = cut(g, c, sh, max);

        if (!own || !give(o, g, c, own))
            return false;
        if (own == sh)
            break;
    }
    return true;
}

/* Give waiting shares to members that have room. */
static void pump(outlet_t *o, struct outlet_group *g)
{
    if (g->awaits > 0)
        return;
    LIST_FOREACH_SAFE(it, tmp, &g->waiting)
    {
        struct outlet_share *sh = list_entry(it, struct outlet_share, node);
        struct outlet_conn *c;

        if (list_empty(&g->idle))
            return;
        if (g->want.by_record ? !divide(o, g, sh) : (c = choose(g, sh)) && !give(o, g, c, sh))
            return; /* later steps of the bucket must not overtake it */
    }
}

void outlet_group_offer(outlet_t *o, struct outlet_step *s)
{
    LIST_FOREACH(it, &o->groups)
    {
        struct outlet_group *g = list_entry(it, struct outlet_group, node);
        struct outlet_share *sh;

        if (g->want.follow)
            outlet_follow_offer(o, g, s);
        else if (s->step < g->given) {
            g->gap = true;
            if (list_empty(&g->open))
                tell_floor(o, g);
        } else if (!outlet_group_there(g)) {
            g->gap = true;
            g->missed += g->want.hold > 0;
            if (g->until > 0.) {
                g->until = 0.;
                outlet_set_wanted(o);
            }
        } else if ((sh = outlet_group_share(o, g, s, bucket_of(o, g, s)))) {
            list_append(&g->waiting, &sh->node);
            pump(o, g);
        }
    }
}

/* Give all waiting shares to members in turn, regardless of their room. */
static void flush(outlet_t *o, struct outlet_group *g)
{
    struct list_node *n;

    while (!list_empty(&g->waiting) && (n = list_first(&g->members))) {
        struct outlet_share *sh = list_entry(list_first(&g->waiting), struct outlet_share, node);
        struct outlet_conn *c = list_entry(n, struct outlet_conn, member);

        uint32_t bucket = g->want.by_record ? lowest(sh->parts) : sh->bucket;

        if (g->buckets && g->buckets[bucket].owner)
            c = g->buckets[bucket].owner;
        if (g->want.by_record && !(sh = cut(g, c, sh, PARTS)))
            return;
        if (!give(o, g, c, sh))
            return;
        list_remove(&c->member);
        list_append(&g->members, &c->member);
    }
}

/* --- taking steps back --- */

/* Collect the steps that a member has released.  false: there are none. */
static bool reap(outlet_t *o, struct outlet_group *g, struct outlet_conn *c)
{
    struct outlet_share *sh;
    bool any = false;

    while ((sh = lane_tx_reap(c->lane))) {
        if (!sh->again) {
            bucket_leave(g, sh);
            outlet_group_uncount(g, sh);
            g->since = 0.;
            any = true;
        }
        outlet_group_share_free(o, sh);
    }
    return any;
}

void outlet_group_reap(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_group *g = c->group;
    uint64_t floor;

    if (g->want.follow) {
        outlet_follow_reap(o, c);
        return;
    }
    if (!reap(o, g, c) || c->evicted)
        return;
    /* The member that has nothing to do comes first in the new order. */
    list_remove(&c->idle);
    if (has_room(c) && lane_tx_live(c->lane) == 0)
        list_push(&g->idle, &c->idle);
    else if (has_room(c))
        list_append(&g->idle, &c->idle);
    pump(o, g);
    floor = floor_of(o, g);
    if (g->gap && list_empty(&g->open))
        tell_floor(o, g);
    else if (list_empty(&g->open) || (g->want.by_record && floor > g->floor)) {
        lane_tx_floor(c->lane, floor);
        outlet_bell(o, c);
        g->floor = floor;
    }
    pthread_cond_broadcast(&o->moved);
}

/* Give the steps of a member to others; a member that is only evicted keeps its shares, and may
 * still read them. */
static void hand_on(outlet_t *o, struct outlet_group *g, struct outlet_conn *c, bool evicted)
{
    struct list_node *n = c->held.prev; /* the last one first, since each goes to the front */

    while (n != &c->held) {
        struct outlet_share *sh = list_entry(n, struct outlet_share, node);
        struct outlet_share *next = sh;

        n = n->prev;
        if (sh->again) {
            if (!evicted)
                outlet_group_share_free(o, sh);
            continue;
        }
        if (evicted && !(next = share_beside(sh, sh->parts))) {
            o->stats.dropped++;
            g->gap = true;
            continue;
        }
        bucket_leave(g, sh);
        if (evicted) {
            outlet_group_uncount(g, sh);
            sh->again = true;
        } else
            list_remove(&sh->node);
        list_push(&g->waiting, &next->node);
    }
}

static void evict(outlet_t *o, struct outlet_group *g, struct outlet_conn *c)
{
    struct outlet_share *sh;

    list_remove(&c->member);
    list_remove(&c->idle);
    outlet_group_hold(g);
    hand_on(o, g, c, true);
    while ((sh = lane_tx_drop(c->lane))) {
        if (!sh->again) { /* memory to hand it on was short */
            bucket_leave(g, sh);
            outlet_group_uncount(g, sh);
        }
        outlet_group_share_free(o, sh);
    }
    c->evicted = true;
    lane_tx_end(c->lane, LANE_EVICTED);
    o->stats.evicted++;
    outlet_bell(o, c);
}

/* Evict the members that have steps. */
static void evict_all(outlet_t *o, struct outlet_group *g)
{
    LIST_FOREACH_SAFE(it, tmp, &g->members)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, member);

        if (!list_empty(&c->held))
            evict(o, g, c);
    }
    pump(o, g);
}

/* --- waiting --- */

bool outlet_group_there(const struct outlet_group *g)
{
    return !list_empty(&g->members) || g->awaits > 0 || (g->until > 0. && clock_now() < g->until);
}

bool outlet_groups_held(const outlet_t *o)
{
    LIST_FOREACH(it, &o->groups)
    {
        const struct outlet_group *g = list_entry(it, struct outlet_group, node);

        if (g->until > 0. && outlet_group_there(g))
            return true;
    }
    return false;
}

void outlet_group_hold(struct outlet_group *g)
{
    if (list_empty(&g->members) && g->want.hold > 0)
        g->until = clock_now() + g->want.hold;
}

bool outlet_group_beyond(const struct outlet_group *g, uint64_t size)
{
    return g->live >= LANE_SLOTS ||
           (g->live >= 2 && (size > g->want.bytes || g->bytes > g->want.bytes - size));
}

struct outlet_group *outlet_group_full(outlet_t *o, uint64_t step, uint64_t size)
{
    LIST_FOREACH(it, &o->groups)
    {
        struct outlet_group *g = list_entry(it, struct outlet_group, node);

        if (outlet_group_there(g) && outlet_group_beyond(g, size) &&
            (!g->want.follow || outlet_follow_full(g, step)))
            return g;
        g->since = 0.;
    }
    return NULL;
}

double outlet_group_wait(outlet_t *o, struct outlet_group *g, double now, double until)
{
    double begun = now;

    if (g->since == 0.)
        g->since = now;
    if (o->evict > 0. && now >= g->since + o->evict) {
        g->since = now;
        if (g->awaits > 0)
            outlet_await_drop(o, g);
        else if (list_empty(&g->members))
            g->until = 0.;
        else if (g->want.follow)
            outlet_follow_evict(o, g);
        else
            evict_all(o, g);
        return now;
    }
    if (o->evict > 0. && until > g->since + o->evict)
        until = g->since + o->evict;
    if (list_empty(&g->members) && g->awaits == 0 && until > g->until)
        until = g->until;
    outlet_cond_wait(o, &o->moved, until);
    now = clock_now(); /* the group may no longer exist */
    o->stats.blocked += now - begun;
    return now;
}

/* The number of steps in groups.  What a group without members keeps here counts at rank 0. */
static unsigned live(const outlet_t *o)
{
    unsigned n = 0;

    LIST_FOREACH(it, &o->groups)
    {
        const struct outlet_group *g = list_entry(it, struct outlet_group, node);

        n += g->want.follow && !outlet_group_there(g) ? 0 : g->live;
    }
    return n;
}

int outlet_drain(outlet_t *o, double timeout, errmsg_t *err)
{
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    unsigned left;

    pthread_mutex_lock(&o->lock);
    while ((left = live(o)) > 0 && clock_now() < until)
        outlet_cond_wait(o, &o->moved, until);
    pthread_mutex_unlock(&o->lock);
    if (left > 0)
        return errmsg_fail(err, ETIMEDOUT, "groups have not released %u steps within %g s", left,
                           timeout);
    return 0;
}

/* --- members --- */

void outlet_group_free(outlet_t *o, struct outlet_group *g)
{
    LIST_FOREACH_SAFE(it, tmp, &g->waiting)
    {
        outlet_group_share_free(o, list_entry(it, struct outlet_share, node));
    }
    list_remove(&g->node);
    free(g->buckets);
    free(g);
}

void outlet_groups_close(outlet_t *o)
{
    outlet_await_drop(o, NULL);
    LIST_FOREACH(it, &o->groups)
    {
        struct outlet_group *g = list_entry(it, struct outlet_group, node);

        if (g->want.follow)
            outlet_follow_close(o, g);
        else
            flush(o, g);
    }
    LIST_FOREACH(it, &o->readers)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        LIST_FOREACH_SAFE(sh, tmp, &c->held)
        {
            outlet_group_share_free(o, list_entry(sh, struct outlet_share, node));
        }
        while (c->group && lane_tx_forget(c->lane))
            ;
        c->group = NULL;
    }
    LIST_FOREACH_SAFE(it, tmp, &o->groups)
    {
        outlet_group_free(o, list_entry(it, struct outlet_group, node));
    }
}

/* Let a group that was created for members that are awaited have the options of its first one. */
static int adopt(outlet_t *o, struct outlet_group *g, const struct knock_want *want)
{
    if (want->key[0] != '\0' && !want->follow &&
        !(g->buckets = calloc(KEY_BUCKETS, sizeof(*g->buckets))))
        return ENOMEM;
    g->want = *want;
    g->fresh = false;
    LIST_FOREACH(it, &g->waiting)
    {
        struct outlet_share *sh = list_entry(it, struct outlet_share, node);

        sh->bucket = bucket_of(o, g, sh->s);
        sh->parts = want->by_record ? UINT64_MAX : 0;
    }
    return 0;
}

static struct outlet_group *group_create(outlet_t *o, const struct knock_want *want)
{
    struct outlet_group *g = calloc(1, sizeof(*g));
    bool ordered = want->key[0] != '\0' && !want->follow;

    if (!g || (ordered && !(g->buckets = calloc(KEY_BUCKETS, sizeof(*g->buckets))))) {
        free(g);
        return NULL;
    }
    g->want = *want;
    list_init(&g->members);
    list_init(&g->idle);
    list_init(&g->waiting);
    list_init(&g->open);
    list_append(&o->groups, &g->node);
    return g;
}

/* The group of the name in `want`, or a new one.  NULL with EBUSY or ENOMEM. */
static struct outlet_group *group_get(outlet_t *o, const struct knock_want *want)
{
    struct outlet_group *unused = NULL;
    struct outlet_group *g;
    unsigned n = 0;

    LIST_FOREACH(it, &o->groups)
    {
        g = list_entry(it, struct outlet_group, node);
        n++;
        if (!unused && g->users == 0 && !outlet_group_there(g) &&
            (g->want.follow || list_empty(&g->waiting)))
            unused = g;
        if (strcmp(g->want.group, want->group) == 0)
            return g;
    }
    errno = EBUSY;
    if (n >= GROUPS_MAX && !unused)
        return NULL;
    if (n >= GROUPS_MAX)
        outlet_group_free(o, unused);
    return group_create(o, want);
}

int outlet_group_enter(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_group *g;
    int rc;

    if (o->ended)
        return ECONNRESET;
    if (!(g = group_get(o, &c->want)))
        return errno;
    if (g->want.follow != c->want.follow)
        return EPROTO;
    if (g->fresh && (rc = adopt(o, g, &c->want)) != 0)
        return rc;
    if (strcmp(g->want.key, c->want.key) != 0)
        return EEXIST;
    if (g->want.by_record != c->want.by_record)
        return EINVAL;
    c->group = g;
    g->users++;
    return 0;
}

struct outlet_group *outlet_group_awaited(outlet_t *o, const char *name, bool follow)
{
    struct outlet_group *g;
    struct knock_want want;

    knock_want_init(&want);
    if (knock_group_set(&want, name, NULL, NULL) < 0)
        return NULL;
    want.follow = follow;
    if ((g = group_get(o, &want)) && g->users == 0 && !g->begun)
        g->fresh = g->begun = true;
    if (g)
        g->resumed = true;
    return g;
}

void outlet_group_resume(outlet_t *o, struct outlet_group *g)
{
    bool any = false;

    if (!g->want.follow) {
        LIST_FOREACH_SAFE(it, tmp, &g->waiting)
        {
            struct outlet_share *sh = list_entry(it, struct outlet_share, node);

            if (sh->s->step < g->given) {
                outlet_group_uncount(g, sh);
                outlet_group_share_free(o, sh);
                any = true;
            }
        }
        pump(o, g);
        if (any || list_empty(&g->open))
            tell_floor(o, g);
    }
    pthread_cond_broadcast(&o->moved);
}

void outlet_group_unused(outlet_t *o, struct outlet_group *g)
{
    if (g->users == 0 && g->until == 0. && g->awaits == 0 && list_empty(&g->waiting))
        outlet_group_free(o, g);
}

void outlet_group_joined(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_group *g = c->group;
    uint64_t n = o->nkept < o->keep ? o->nkept : o->keep;

    list_append(&g->members, &c->member);
    g->until = 0.;
    g->want.hold = c->want.hold;
    c->counts.dropped += g->missed;
    g->missed = 0;
    if (!g->want.follow)
        list_append(&g->idle, &c->idle);
    for (uint64_t i = o->nkept - n; !g->begun && i < o->nkept; i++) {
        struct outlet_step *s = o->kept[i % o->keep];
        struct outlet_share *sh = outlet_group_share(o, g, s, bucket_of(o, g, s));

        if (sh)
            list_append(&g->waiting, &sh->node);
    }
    g->begun = true;
    if (!g->want.follow) {
        if (g->given < c->want.seen)
            g->given = c->want.seen;
        lane_tx_floor(c->lane, floor_of(o, g));
        outlet_group_resume(o, g);
    }
}

void outlet_group_leave(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_group *g = c->group;

    if (!g)
        return;
    if (g->want.follow) {
        outlet_follow_leave(o, c);
        return;
    }
    reap(o, g, c);
    list_remove(&c->member);
    list_remove(&c->idle);
    outlet_group_hold(g);
    hand_on(o, g, c, false);
    while (lane_tx_forget(c->lane))
        ;
    c->group = NULL;
    g->users--;
    pump(o, g);
    tell_floor(o, g);
    outlet_group_unused(o, g);
    pthread_cond_broadcast(&o->moved);
}
