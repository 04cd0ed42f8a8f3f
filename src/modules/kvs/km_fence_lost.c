/* km_fence_lost.c - fences after the loss of a broker, at the master.
 *
 * A fence whose callers name the ranks of all participants ends when one of these is lost.
 *
 * When callers name no ranks, nobody can know whether a lost rank had a participant whose call
 * died there.  So the loss of a rank starts a timer (attribute kvs.fence-grace) for each fence
 * without ranks that gathers at the master then, and for one that begins within that time after
 * the loss.  If the fence is still incomplete when the timer ends, it ends for all, with an error
 * message that names the lost ranks and the ranks from which calls came.  The list shows the lost
 * ranks meanwhile.
 *
 * Invariant: at the master, no rank in `ranks` of a fence that gathers is lost.
 *
 * Failure: without memory for the timer, a fence is not watched, which is logged.
 */
#include "config.h"
#include <stdlib.h>

#include "km_fence.h"

bool km_fence_lost_end(struct km_fence *f, const idset_t *lost)
{
    errmsg_t why;
    idset_t *both;
    if (!f->ranks || f->applying || !idset_intersects(f->ranks, lost))
        return false;
    both = idset_intersect(f->ranks, lost);
    char *text = both ? idset_format(both, 0) : NULL;
    if (both && text && idset_count(both) > 1)
        errmsg_set(&why, "fence '%.128s' was aborted: ranks %.128s are lost", f->name, text);
    else
        errmsg_set(&why, "fence '%.128s' was aborted: rank %u is lost", f->name,
                   idset_first(both ? both : f->ranks));
    free(text);
    idset_destroy(both);
    km_fence_abort(f, why.text);
    return true;
}

/* The ranks from which calls came: of brokers that have sent them, which are this one, and those
 * directly below for all that is below them.  NULL with ENOMEM. */
static char *callers(const struct km_fence *f)
{
    idset_t *ranks = idset_create();
    int rc = ranks ? 0 : -1;
    char *text;

    LIST_FOREACH(n, &f->parts)
    {
        struct km_fence_part *p = list_entry(n, struct km_fence_part, node);
        if (rc == 0)
            rc = idset_set(ranks, p->instance ? (uint32_t)(p->key >> 32) : flux_rank(f->ns->h));
    }
    text = rc == 0 ? idset_format(ranks, 0) : NULL;
    idset_destroy(ranks);
    return text;
}

static void grace_over_cb(void *arg, const char *lost)
{
    struct km_fence *f = arg;
    errmsg_t why;
    char *from;

    if (f->applying || f->ranks) /* with ranks, a participant that is lost has ended it */
        return;
    from = callers(f);
    errmsg_set(&why,
               "fence '%.64s' was aborted: %u of %u calls came, at or below ranks %.48s, and ranks "
               "%.48s, which are lost, may have had the others",
               f->name, f->count, f->nprocs, from ? from : "?", lost);
    free(from);
    km_fence_abort(f, why.text);
}

void km_fence_lost_suspect(struct km_fence *f, const idset_t *lost)
{
    struct km_ns *ns = f->ns;

    if (f->ranks || f->applying)
        return;
    if (grace_suspect(ns->k->grace, &f->grace, lost, grace_over_cb, f) < 0)
        flux_log(ns->h, LOG_ERR, "out of memory to watch fence '%s' after a broker was lost",
                 f->name);
}

void km_fence_lost(struct km *k, const idset_t *ranks, bool now)
{
    size_t pos = 0;
    void *space, *val;

    if (now)
        grace_lost(k->grace, ranks);
    while (hmap_next(k->spaces, &pos, NULL, NULL, &space)) {
        struct km_ns *ns = space;
        size_t at = 0;
        while (ns->master && hmap_next(ns->fences->by_name, &at, NULL, NULL, &val))
            if (!km_fence_lost_end(val, ranks) && now)
                km_fence_lost_suspect(val, ranks);
    }
}
