/* outlet_await.c - groups that earlier writers have had.
 *
 * A member of a group that stays waits for the next writer when one has died.  What the dead writer
 * had given it, it still does; so the next writer must not give the same numbers again.  It would,
 * if it did not know better: a writer that was killed may have handed out steps that it had not
 * counted, and the module lets the next one begin with the first step that a group may still need,
 * as it was counted last (modules/stream/stream.c).
 *
 * Therefore the module names all members of groups that stay to a writer that takes the place of
 * another one, and the writer awaits them.  Each of them comes when it has ended what it had, and
 * tells the number of the last step that it was given.  The group exists from the beginning, with
 * the default bound of its queue, so that no step is lost which is published before the first
 * member is here; the options of that member become those of the group.
 *
 *    the writer of rank 0          awaits members      hands out nothing of the group, and tells no
 *                                                      floor: they may have steps before its first
 *                                  they are here       hands out the steps from `given` on, the
 *                                                      largest number that they have told; those
 *                                                      before it are done
 *    a writer that follows         awaits members      keeps the steps, and gives them to members
 *                                                      that claim them
 *
 * A member that is awaited for too long, because it is stopped or computes, makes the writer wait
 * when the queue of the group is full, as one that does not release a step.  It is awaited no more
 * when it has joined, when the module says that it has left the stream, or after opts.evict seconds
 * in which the writer has waited.  In the last case its steps may be given twice.
 *
 * Invariants:
 *  1. group.awaits = number of entries of outlet.awaits with this group; such a group is not freed.
 *
 * Failure: a member that cannot be awaited, for lack of memory or since there are too many groups,
 * is not.
 */
#include "config.h"

#include "libstream/outlet_private.h"
#include "libutil/invariant.h"

void outlet_await(outlet_t *o, uint64_t reader, const char *group, bool follow)
{
    struct outlet_group *g;
    bool here = false;

    pthread_mutex_lock(&o->lock);
    LIST_FOREACH(it, &o->readers)
    {
        const struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        here |= c->want.reader == reader && !c->gone;
    }
    if (!here && !hmap_get_u64(o->awaits, reader) && (g = outlet_group_awaited(o, group, follow))) {
        if (hmap_put_u64(o->awaits, reader, g) == 0)
            g->awaits++;
        outlet_group_unused(o, g);
        outlet_set_wanted(o);
    }
    pthread_mutex_unlock(&o->lock);
}

void outlet_await_end(outlet_t *o, uint64_t reader)
{
    struct outlet_group *g = hmap_take_u64(o->awaits, reader);

    if (!g)
        return;
    INVARIANT(1, g->awaits > 0);
    if (--g->awaits == 0)
        outlet_group_resume(o, g);
    outlet_group_unused(o, g);
    outlet_set_wanted(o);
}

void outlet_await_drop(outlet_t *o, const struct outlet_group *g)
{
    uint64_t reader;
    size_t pos = 0;
    void *of;

    while (hmap_next(o->awaits, &pos, NULL, &reader, &of)) {
        if (!g || of == g)
            outlet_await_end(o, reader);
    }
}

uint64_t outlet_need(outlet_t *o, uint64_t step)
{
    uint64_t need = step;

    pthread_mutex_lock(&o->lock);
    LIST_FOREACH(it, &o->groups)
    {
        const struct outlet_group *g = list_entry(it, struct outlet_group, node);

        if (g->want.follow) {
            need = outlet_follow_need(g, need);
            continue;
        }
        LIST_FOREACH(n, &g->waiting)
        {
            const struct outlet_share *sh = list_entry(n, struct outlet_share, node);

            if (need > sh->s->step)
                need = sh->s->step;
        }
    }
    pthread_mutex_unlock(&o->lock);
    return need;
}

uint64_t outlet_seen(outlet_t *o)
{
    uint64_t given = UINT64_MAX;
    uint64_t seen;

    pthread_mutex_lock(&o->lock);
    LIST_FOREACH(it, &o->groups)
    {
        const struct outlet_group *g = list_entry(it, struct outlet_group, node);

        if (g->resumed && given > g->given)
            given = g->given;
    }
    seen = given < UINT64_MAX ? given : o->seen;
    pthread_mutex_unlock(&o->lock);
    return seen;
}
