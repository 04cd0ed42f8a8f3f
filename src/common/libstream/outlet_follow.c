/* outlet_follow.c - the steps of a group at a writer that does not hand them out.
 *
 * A stream may have several writers, and each step of a group has to come to one member from all of
 * them.  The writer of rank 0 decides which member that is (outlet_group.c).  The others follow:
 * they keep each step until it is done, and give it to any member that claims it by its number.
 *
 *    step at this writer       a claim of it
 *    is kept                   is met: the step goes into the lane of the member
 *    is not published yet      is kept: one for each member
 *    is neither                is answered: the step is missing
 *
 * A member repeats its claim when its connection is resumed (inlet_far_join.c).  That has no effect
 * if the step is in its lane already; an answer is repeated as well (outlet_far.c).
 *
 * A step is done when a member has released it here, or when the floor has passed it.  A member
 * releases a step at rank 0 first, and then at the others.  It learns the floor of the group from
 * rank 0: all steps below it are done, or were never given to the group.  Each claim has the floor,
 * and a member passes on a floor that it has learned otherwise.  So nothing stays here that a
 * member has not released because it died after its first release.
 *
 * If members divide the steps, by record, each of them may have parts of a step, so that its
 * release shows nothing: the step is done only when the floor has passed it, and until then it is
 * given to any member that claims it.  A member keeps it, too, and claims it once
 * (stream_group.c).  So nobody knows here which of them has not done its parts: the writer of rank
 * 0 evicts it, and this one waits.
 *
 * A step that is missing was released by a member, which had ended it, so that no other member has
 * to do it; or this writer had published it before the group had a member here.  In both cases, the
 * member that has claimed it releases it at all writers, without having begun it.  So nobody has to
 * know whether rank 0 has heard of the release of a member that died.
 *
 * The queue is that of outlet_group.c, with one exception: if a member has claimed the next step,
 * or one after it, the writer does not wait, however many steps it keeps.  Otherwise it could wait
 * for a step that has gone back to rank 0, and waits there for a member that waits for this writer.
 * Such steps are at most as many as rank 0 has handed out, whose queue is bounded.
 *
 * A group whose members have all gone keeps what it has, and takes further steps as long as they
 * fit into its queue, since rank 0 may have given these to the group.  The floor removes the others
 * when there is a member again.  Such a group ends with the writer, or when there is no room for
 * another group.
 *
 * When this writer ends, each member gets all steps that are kept, since nobody can claim them any
 * more, and finds out by itself which of them it needs (stream_group.c).
 *
 * Invariants:
 *  1. `waiting` has the steps that are kept, by rising number; none is below `floor`.
 *  2. A share in `held` of a member is `again`, and does not count: the group has its own, or the
 *     step is done.
 *  3. A claim is open (`claims`) only if the step is not published, or the lane has no slot.
 *
 * Failure: if memory is short for a step, it is missing.  A member that was evicted gets ESTALE,
 * and leaves rank 0, which gives its steps to others.
 */
#include "config.h"
#include <stdlib.h>

#include "libstream/outlet_private.h"
#include "libutil/invariant.h"

static struct outlet_share *share_of(struct list_node *n)
{
    return list_entry(n, struct outlet_share, node);
}

static struct outlet_conn *member_of(struct list_node *n)
{
    return list_entry(n, struct outlet_conn, member);
}

/* The share of a step; NULL: it is not kept.  Steps that members need are among the first ones. */
static struct outlet_share *find(const struct outlet_group *g, uint64_t step)
{
    LIST_FOREACH(it, &g->waiting)
    {
        if (share_of(it)->s->step >= step)
            return share_of(it)->s->step == step ? share_of(it) : NULL;
    }
    return NULL;
}

static void done(outlet_t *o, struct outlet_group *g, struct outlet_share *sh)
{
    outlet_group_uncount(g, sh);
    outlet_group_share_free(o, sh);
    g->since = 0.;
}

/* Put a step into the lane of a member.  false: memory is short, or the lane has no slot. */
static bool give(outlet_t *o, struct outlet_conn *c, struct outlet_step *s)
{
    struct lane_item item = outlet_item(s);
    struct outlet_share *sh;

    if (!lane_tx_room(c->lane) || !(sh = calloc(1, sizeof(*sh))))
        return false;
    sh->s = s;
    sh->again = true;
    s->refs++;
    list_init(&sh->open);
    list_append(&c->held, &sh->node);
    lane_tx_offer(c->lane, &item, sh);
    o->stats.offered++;
    outlet_bell(o, c);
    return true;
}

/* Has the member this step in its lane? */
static bool has(const struct outlet_conn *c, const struct outlet_step *s)
{
    LIST_FOREACH(it, &c->held)
    {
        if (share_of(it)->s == s)
            return true;
    }
    return false;
}

/* Meet or answer the claim of a member, if it is time for that. */
static void settle(outlet_t *o, const struct outlet_group *g, struct outlet_conn *c)
{
    struct outlet_share *sh;

    if (!c->claims)
        return;
    if ((sh = find(g, c->claim)))
        c->claims = !has(c, sh->s) && !give(o, c, sh->s);
    else if (c->claim < o->next_step) {
        c->claims = false;
        lane_tx_missing(c->lane, c->claim);
        outlet_bell(o, c);
    }
    INVARIANT(3, !c->claims || sh || c->claim >= o->next_step);
}

uint64_t outlet_follow_need(const struct outlet_group *g, uint64_t step)
{
    LIST_FOREACH(it, &g->waiting)
    {
        bool lent = false;

        LIST_FOREACH(m, &g->members)
        {
            lent |= has(member_of(m), share_of(it)->s);
        }
        if (!lent)
            return share_of(it)->s->step;
    }
    return step;
}

bool outlet_follow_wants(const outlet_t *o)
{
    LIST_FOREACH(it, &o->groups)
    {
        const struct outlet_group *g = list_entry(it, struct outlet_group, node);

        if (g->want.follow && g->begun && list_empty(&g->members) && !outlet_group_beyond(g, 1))
            return true;
    }
    return false;
}

void outlet_follow_offer(outlet_t *o, struct outlet_group *g, struct outlet_step *s)
{
    bool alone = !outlet_group_there(g);
    struct outlet_share *sh;

    if (s->step >= g->floor && g->begun && !(alone && outlet_group_beyond(g, s->len)) &&
        (sh = outlet_group_share(o, g, s, 0)))
        list_append(&g->waiting, &sh->node);
    if (alone)
        outlet_set_wanted(o);
    LIST_FOREACH(it, &g->members)
    {
        settle(o, g, member_of(it));
    }
}

bool outlet_follow_full(const struct outlet_group *g, uint64_t step)
{
    if (g->live >= LANE_SLOTS)
        return true;
    LIST_FOREACH(it, &g->members)
    {
        const struct outlet_conn *c = member_of(it);

        if (c->claims && c->claim >= step)
            return false;
    }
    return true;
}

void outlet_follow_reap(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_group *g = c->group;
    struct outlet_share *sh;
    struct outlet_share *own;
    bool any = false;

    while ((sh = lane_tx_reap(c->lane))) {
        INVARIANT(2, sh->again);
        if (!g->want.by_record && (own = find(g, sh->s->step)))
            done(o, g, own);
        outlet_group_share_free(o, sh);
        any = true;
    }
    if (!any)
        return;
    settle(o, g, c); /* the lane may have a slot again */
    pthread_cond_broadcast(&o->moved);
}

void outlet_follow_claim(outlet_t *o, struct outlet_conn *c, const struct knock_claim *claim)
{
    struct outlet_group *g = c->group;
    struct list_node *n;

    if (!g || c->evicted)
        return;
    outlet_follow_reap(o, c);
    if (g->floor < claim->floor)
        g->floor = claim->floor;
    while ((n = list_first(&g->waiting)) && share_of(n)->s->step < g->floor)
        done(o, g, share_of(n));
    INVARIANT(1, !n || share_of(n)->s->step >= g->floor);
    c->claims = claim->step != KNOCK_NO_STEP;
    c->claim = claim->step;
    settle(o, g, c);
    pthread_cond_broadcast(&o->moved);
}

static void evict(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_share *sh;

    list_remove(&c->member);
    outlet_group_hold(c->group);
    c->claims = false;
    while ((sh = lane_tx_drop(c->lane)))
        outlet_group_share_free(o, sh);
    c->evicted = true;
    lane_tx_end(c->lane, LANE_EVICTED);
    o->stats.evicted++;
    outlet_bell(o, c);
}

void outlet_follow_evict(outlet_t *o, struct outlet_group *g)
{
    bool any = false;

    if (g->want.by_record)
        return;
    LIST_FOREACH(it, &g->members)
    {
        any |= !list_empty(&member_of(it)->held);
    }
    LIST_FOREACH_SAFE(it, tmp, &g->members)
    {
        struct outlet_conn *c = member_of(it);

        if (!any || !list_empty(&c->held))
            evict(o, c);
    }
}

void outlet_follow_leave(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_group *g = c->group;

    outlet_follow_reap(o, c);
    list_remove(&c->member);
    outlet_group_hold(g);
    LIST_FOREACH_SAFE(it, tmp, &c->held)
    {
        outlet_group_share_free(o, share_of(it));
    }
    while (lane_tx_forget(c->lane))
        ;
    c->group = NULL;
    g->users--;
    outlet_set_wanted(o);
    pthread_cond_broadcast(&o->moved);
}

void outlet_follow_close(outlet_t *o, struct outlet_group *g)
{
    LIST_FOREACH(it, &g->members)
    {
        struct outlet_conn *c = member_of(it);

        LIST_FOREACH(n, &g->waiting)
        {
            if (!has(c, share_of(n)->s) && !give(o, c, share_of(n)->s))
                o->stats.dropped++;
        }
    }
}
