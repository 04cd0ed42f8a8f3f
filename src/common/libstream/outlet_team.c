/* outlet_team.c - readers that are offered the same steps.
 *
 * The processes of a parallel program that read a stream together form a team: a name, and a rank
 * of each below the size of the team.  Each of them has a lane of its own, but what it is offered
 * is decided for all of them at once, when the step is committed, under the lock:
 *
 *    state of the team        a step
 *    not all have come yet    is not offered, and delays nobody; a writer that waits for readers
 *                             does not count the members
 *    has begun                is offered to all members, or to none
 *
 * A team begins when a reader of each rank is there.  What this writer keeps is offered then.  If
 * members leave later, die or are evicted, the others go on; one that takes the place of such a
 * member is offered the kept steps, and those that follow.
 *
 *    policy        the step is offered unless
 *    block         it waits until all members have room (outlet.c)
 *    sample        the same; its number is not a multiple of `every`
 *    others        the queue of a member is full; that of `latest` when it has LATEST_DEPTH steps
 *
 * A step is never taken back, since another member may have taken it.  While one member is off, all
 * of them are, for this writer.
 *
 * So what this writer offers to one member is what it offers to all.  If the stream has several
 * writers, a member begins the steps that all of them have offered (stream_reader.c), which are the
 * same for all members too, though each writer decides alone: no message and no order among members
 * or writers is needed.
 *
 * Invariants:
 *  1. The members of a team have different ranks below its size, and the same policy.
 *  2. A team exists while it has members.
 *
 * Failure: a reader whose size or policy is not that of the team is refused with EINVAL, and one
 * whose rank is there with EEXIST.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/outlet_private.h"
#include "libutil/invariant.h"

#define LATEST_DEPTH 2 /* with 1, writers that are not at the same step would have none in common */

static struct outlet_conn *member_of(struct list_node *n)
{
    return list_entry(n, struct outlet_conn, team_node);
}

static struct outlet_team *find(const outlet_t *o, const char *name)
{
    LIST_FOREACH(it, &o->teams)
    {
        struct outlet_team *t = list_entry(it, struct outlet_team, node);

        if (strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

static int check(const struct outlet_team *t, const struct knock_want *w)
{
    LIST_FOREACH(it, &t->members)
    {
        const struct knock_want *other = &member_of(it)->want;

        if (other->size != w->size || other->policy != w->policy || other->every != w->every)
            return EINVAL;
        if (other->rank == w->rank)
            return EEXIST;
    }
    return 0;
}

int outlet_team_enter(outlet_t *o, struct outlet_conn *c)
{
    struct outlet_team *t = find(o, c->want.team);
    int errnum = t ? check(t, &c->want) : 0;

    if (errnum != 0)
        return errnum;
    if (!t) {
        if (!(t = calloc(1, sizeof(*t))))
            return ENOMEM;
        strcpy(t->name, c->want.team);
        list_init(&t->members);
        list_append(&o->teams, &t->node);
    }
    c->team = t;
    list_append(&t->members, &c->team_node);
    t->n++;
    return 0;
}

static bool accepts(const struct outlet_conn *c, uint64_t len)
{
    if (c->want.policy == KNOCK_BLOCK || c->want.policy == KNOCK_SAMPLE)
        return true; /* outlet_begin() has waited */
    return !outlet_full(c, len) && lane_tx_room(c->lane) &&
           (c->want.policy != KNOCK_LATEST || lane_tx_live(c->lane) < LATEST_DEPTH);
}

bool outlet_team_wants(const struct outlet_team *t, uint64_t step)
{
    const struct knock_want *w = &list_entry(t->members.next, struct outlet_conn, team_node)->want;

    return t->begun && t->noff == 0 && (w->policy != KNOCK_SAMPLE || step % w->every == 0);
}

void outlet_team_decide(struct outlet_team *t, const struct outlet_step *s)
{
    t->takes = outlet_team_wants(t, s->step);
    LIST_FOREACH(it, &t->members)
    {
        if (!member_of(it)->evicted && !accepts(member_of(it), s->len))
            t->takes = false;
    }
}

void outlet_teams_decide(outlet_t *o, const struct outlet_step *s)
{
    LIST_FOREACH(it, &o->teams)
    {
        outlet_team_decide(list_entry(it, struct outlet_team, node), s);
    }
}

bool outlet_team_joined(struct outlet_conn *c)
{
    struct outlet_team *t = c->team;

    INVARIANT(1, t->n <= c->want.size);
    t->noff += c->want.off;
    if (t->begun || t->n < c->want.size)
        return false;
    return t->begun = true;
}

unsigned outlet_teams_waiting(const outlet_t *o)
{
    unsigned n = 0;

    LIST_FOREACH(it, &o->teams)
    {
        const struct outlet_team *t = list_entry(it, struct outlet_team, node);

        if (!t->begun)
            n += t->n;
    }
    return n;
}

void outlet_team_want(struct outlet_team *t, const struct knock_want *w)
{
    LIST_FOREACH(it, &t->members)
    {
        member_of(it)->want.policy = w->policy;
        member_of(it)->want.every = w->every;
    }
}

void outlet_team_off(struct outlet_team *t, bool off)
{
    t->noff += off ? 1 : -1u;
}

void outlet_team_leave(struct outlet_conn *c)
{
    struct outlet_team *t = c->team;

    if (!t)
        return;
    list_remove(&c->team_node);
    t->noff -= c->want.off;
    c->team = NULL;
    if (--t->n > 0)
        return;
    list_remove(&t->node);
    free(t);
}
