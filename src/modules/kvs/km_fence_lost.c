/* km_fence_lost.c - fences after the loss of a broker, at the master.
 *
 * Known participants: a fence ends when a rank is lost from which a call came.  If callers name the
 * ranks of all participants, it also ends when a named rank is lost.  The loss of a broker that
 * only passed calls on does not end a fence (km_fence.c).
 *
 * Unknown participants: when callers name no ranks, a lost rank may have had a participant whose
 * call died there.  So the loss of a rank starts a timer (attribute kvs.fence-grace) for each fence
 * without named ranks that gathers at the master then, and for each fence that receives calls
 * within that time after the loss.  If the fence is still incomplete when the timer ends, it ends
 * for all participants, with an error message that names the lost ranks and the ranks from which
 * calls came.  The list of fences shows the lost ranks meanwhile.
 *
 * Missing calls: a call that had passed through a lost rank is reported again by another way, if
 * there is one.  In a session that is cut in two there may be none.  So a fence also ends if such a
 * call has not been reported again after kvs.fence-grace.
 *
 * Invariant: at the master, no rank in `ranks`, `callers` or `missing` of a fence that gathers is
 * lost.
 *
 * Failure: a fence for whose timer there is no memory is not watched, and a message is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_fence.h"

/* The lost ranks of participants; NULL without memory. */
static idset_t *lost_participants(const struct km_fence *f, const idset_t *lost)
{
    idset_t *all = idset_copy(f->callers);
    if (!all || (f->ranks && idset_add(all, f->ranks) < 0) || idset_add(all, f->missing) < 0 ||
        idset_keep(all, lost) < 0) {
        idset_destroy(all);
        return NULL;
    }
    return all;
}

bool km_fence_lost_end(struct km_fence *f, const idset_t *lost)
{
    errmsg_t why;
    if (f->applying || !(idset_intersects(f->callers, lost) || idset_intersects(f->ranks, lost) ||
                         idset_intersects(f->missing, lost)))
        return false;
    idset_t *both = lost_participants(f, lost);
    char *text = both ? idset_format(both, 0) : NULL;
    if (text && idset_count(both) > 1)
        errmsg_set(&why, "fence '%.128s' was aborted: ranks %.128s are lost", f->name, text);
    else if (both)
        errmsg_set(&why, "fence '%.128s' was aborted: rank %u is lost", f->name, idset_first(both));
    else
        errmsg_set(&why, "fence '%.128s' was aborted: the rank of a participant is lost", f->name);
    free(text);
    idset_destroy(both);
    km_fence_abort(f, why.text);
    return true;
}

static void grace_over_cb(void *arg, const char *lost)
{
    struct km_fence *f = arg;
    errmsg_t why;
    char *from;

    if (f->applying || f->ranks) /* if ranks are named, the loss of one has ended the fence */
        return;
    from = idset_format(f->callers, 0);
    errmsg_set(&why,
               "fence '%.64s' was aborted: %u of %u calls came, from ranks %.48s, and ranks %.48s, "
               "which are lost, may have had the others",
               f->name, f->count, f->nprocs, from ? from : "?", lost);
    free(from);
    km_fence_abort(f, why.text);
}

static void absent_cb(void *arg, const char *suspects)
{
    struct km_fence *f = arg;
    idset_t *ranks = idset_difference(f->missing, f->callers);
    char *text = ranks ? idset_format(ranks, 0) : NULL;
    errmsg_t why;
    bool over = !ranks || !idset_empty(ranks);

    errmsg_set(&why, "fence '%.64s' was aborted: calls from ranks %.100s were not reported again",
               f->name, text ? text : suspects);
    free(text);
    idset_destroy(ranks);
    if (over)
        km_fence_abort(f, why.text);
}

int km_fence_lost_absent(struct km_fence *f, const idset_t *ranks, errmsg_t *err)
{
    if (!f->ns->master || idset_empty(ranks))
        return 0;
    if (idset_add(f->missing, ranks) < 0 ||
        grace_suspect(f->ns->k->grace, &f->absent, ranks, absent_cb, f) < 0)
        return errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence",
                           flux_rank(f->ns->h));
    return 0;
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
    void *space;

    if (now)
        grace_lost(k->grace, ranks);
    while (hmap_next(k->spaces, &pos, NULL, NULL, &space)) {
        struct km_ns *ns = space;

        if (!ns->master)
            continue;
        km_fence_ends_lost(ns, ranks);
        LIST_FOREACH_SAFE(n, tmp, &ns->fences->all)
        {
            struct km_fence *f = list_entry(n, struct km_fence, all_node);

            if (!km_fence_lost_end(f, ranks) && now)
                km_fence_lost_suspect(f, ranks);
        }
    }
}
