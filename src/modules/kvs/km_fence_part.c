/* km_fence_part.c - the parts of a fence: one for each call of a client, and for each instance that
 * reports calls.
 *
 * Purpose: a merged transaction cannot be taken apart again.  But when a broker below is lost, the
 * calls that its instance has reported must not count any more, since the instances below it report
 * the same calls again by another way.  And when a broker above is lost, the calls that were sent
 * there must be sent again.  So a part keeps its messages until the fence has ended, and
 * km_fence_recount() merges the messages of all parts that count into an empty transaction.  No
 * call is merged twice before a broker is lost.
 *
 * Stale parts: the parts of instances name the ranks of their callers.  While the tree does not
 * change, each rank is in one part.  If a rank is in two parts, its calls were reported again by
 * another way, and the older part is stale.  A stale part does not count until its instance, which
 * will learn of the loss below it, has reported anew, or is gone.
 *
 * state of a part   what happens                          left when (by)
 * counting          its calls are merged                  a caller of it reports by another way
 *                                                         (stale), its sender is gone (part_gone)
 * stale             its messages are kept                 it shares no caller any more (counting),
 *                                                         its sender is gone (part_gone)
 *
 * Invariants:
 *  1. Parts of different senders that count have no callers in common, and `callers` of a fence is
 *     the union of the callers of all parts that count.
 *  2. The messages of instances that are kept for a fence take at most KEPT_MAX bytes.
 *
 * Failure: a fence ends with an error for all participants when the messages of a part cannot be
 * kept, or cannot be merged again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_fence.h"
#include "libutil/invariant.h"

#define KEPT_MAX (4u * KVS_TXN_MAX)

static uint64_t part_key(uint32_t rank, uint32_t number)
{
    return (uint64_t)rank << 32 | number;
}

static size_t bytes(const flux_msg_t *msg)
{
    size_t len;

    (void)flux_msg_payload(msg, &len);
    return len;
}

/* --- messages --- */

static int too_large(const struct km_fence *f, errmsg_t *err)
{
    return errmsg_fail(err, EMSGSIZE,
                       "fence '%.128s' was aborted: its calls have more than %u MiB together",
                       f->name, KEPT_MAX >> 20);
}

static void forget_messages(struct km_fence_part *p)
{
    for (size_t i = 0; i < p->nlater; i++) {
        p->f->kept -= bytes(p->later[i]);
        flux_msg_destroy(p->later[i]);
    }
    p->nlater = 0;
    if (p->base)
        p->f->kept -= bytes(p->base);
    flux_msg_destroy(p->base);
    p->base = NULL;
}

static int keep_later(struct km_fence_part *p, const flux_msg_t *msg)
{
    if (p->nlater == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 4;
        flux_msg_t **later = realloc(p->later, cap * sizeof(*later));

        if (!later)
            return -1;
        p->later = later;
        p->cap = cap;
    }
    p->later[p->nlater++] = flux_msg_incref(msg);
    return 0;
}

int km_fence_part_keep(struct km_fence_part *p, const flux_msg_t *msg,
                       const struct kvs_fence_req *q, const idset_t *callers, errmsg_t *err)
{
    struct km_fence *f = p->f;
    bool anew = q->flags & KVS_FENCE_ANEW;

    if (anew) {
        forget_messages(p);
        if (idset_range_clear(p->callers, 0, IDSET_MAX) < 0)
            goto nomem;
    }
    if (bytes(msg) > KEPT_MAX - f->kept)
        return too_large(f, err);
    if (idset_add(p->callers, callers) < 0)
        goto nomem;
    if (anew)
        p->base = flux_msg_incref(msg);
    else if (keep_later(p, msg) < 0)
        goto nomem;
    f->kept += bytes(msg);
    INVARIANT(2, f->kept <= KEPT_MAX);
    return 0;
nomem:
    return errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence", flux_rank(f->ns->h));
}

/* --- parts --- */

void km_fence_part_free(struct km_fence_part *p)
{
    struct km_ns *ns = p->f->ns;

    ns->fences->nparts--;
    p->f->here -= !p->instance;
    list_remove(&p->node);
    claim_drop(ns->k->senders, &p->claim);
    if (p->instance && hmap_get_u64(ns->fences->parts, p->key) == p)
        (void)hmap_take_u64(ns->fences->parts, p->key);
    forget_messages(p);
    free(p->later);
    idset_destroy(p->callers);
    flux_msg_destroy(p->req);
    free(p);
}

static void client_gone(struct km_fence_part *p)
{
    struct km_fence *f = p->f;
    errmsg_t why;

    errmsg_set(&why, "fence '%.128s' was aborted: a participant at rank %u disconnected", f->name,
               flux_rank(f->ns->h));
    flux_respond_error(f->ns->h, p->req, ECONNABORTED, "%s", why.text);
    km_fence_part_free(p);
    km_fence_abort(f, why.text);
}

/* The broker of the instance, or one on the way to it, was lost.  If a participant was lost with
 * it, km_fence_lost.c ends the fence; calls from other ranks are reported again. */
static void instance_gone(struct km_fence_part *p)
{
    struct km_fence *f = p->f;
    bool counted = !p->stale && !f->applying;
    errmsg_t err;
    int rc = 0;

    /* If the instance still exists, it reports its calls again. */
    flux_respond_error(f->ns->h, p->req, EHOSTUNREACH, "rank %u disconnected",
                       (uint32_t)(p->key >> 32));
    if (counted)
        rc = km_fence_lost_absent(f, p->callers, &err);
    km_fence_part_free(p);
    if (!counted)
        return;
    if (rc < 0 || km_fence_recount(f, &err) < 0)
        km_fence_abort(f, err.text);
    else
        km_fence_proceed(f);
}

static void part_gone(struct claim *c, bool canceled)
{
    struct km_fence_part *p = list_entry(c, struct km_fence_part, claim);

    if (canceled)
        return; /* a call is not a stream: it cannot be canceled */
    if (p->instance)
        instance_gone(p);
    else
        client_gone(p);
}

struct km_fence_part *km_fence_part_create(struct km_fence *f, const flux_msg_t *msg,
                                           const struct kvs_fence_req *q, idset_t *callers,
                                           errmsg_t *err)
{
    struct km_ns *ns = f->ns;
    bool instance = q->flags & KVS_FENCE_INSTANCE;
    struct km_fence_part *p = NULL;

    if (instance && bytes(msg) > KEPT_MAX - f->kept) {
        idset_destroy(callers);
        too_large(f, err);
        return NULL;
    }
    if (!(p = calloc(1, sizeof(*p))) || claim_take(ns->k->senders, &p->claim, msg, part_gone) < 0) {
        idset_destroy(callers);
        free(p);
        goto nomem;
    }
    p->f = f;
    p->instance = instance;
    p->key = part_key(q->rank, q->number);
    p->callers = callers;
    p->req = flux_msg_incref(msg);
    list_init(&p->node);
    list_append(&f->parts, &p->node);
    ns->fences->nparts++;
    f->here += !p->instance;
    if (!p->instance)
        return p;
    p->base = flux_msg_incref(msg);
    f->kept += bytes(msg);
    if (hmap_put_u64(ns->fences->parts, p->key, p) == 0)
        return p;
    km_fence_part_free(p);
nomem:
    errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence", flux_rank(ns->h));
    return NULL;
}

struct km_fence_part *km_fence_part_find(const struct km_ns *ns, uint32_t rank, uint32_t number)
{
    return hmap_get_u64(ns->fences->parts, part_key(rank, number));
}

/* --- all parts together --- */

int km_fence_callers(struct km_fence *f, const idset_t *callers, errmsg_t *err)
{
    if (idset_subset(callers, f->callers))
        return 0;
    if (idset_add(f->callers, callers) < 0 || idset_add(f->fresh, callers) < 0)
        return errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence",
                           flux_rank(f->ns->h));
    return 0;
}

static int merge_again(struct km_fence *f, const flux_msg_t *msg, errmsg_t *err)
{
    struct kvs_fence_req q;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);

    if (kvs_fence_req_decode(data, len, &q, err) < 0 || km_merge_add(&f->merge, &q, err) < 0)
        return -1;
    if (q.count > f->nprocs - f->count)
        return errmsg_fail(err, EINVAL, "fence '%.128s' of %u has been called more often than that",
                           f->name, f->nprocs);
    f->count += q.count;
    return 0;
}

static int merge_part(struct km_fence *f, const struct km_fence_part *p, errmsg_t *err)
{
    if (merge_again(f, p->instance ? p->base : p->req, err) < 0)
        return -1;
    for (size_t i = 0; i < p->nlater; i++) {
        if (merge_again(f, p->later[i], err) < 0)
            return -1;
    }
    return 0;
}

/* Does a newer part of another sender name a caller of `p`?  The newest report of a rank counts.
 * Several parts of one sender all count: the sender could not know that they are for one fence. */
static bool reported_since(const struct km_fence *f, const struct km_fence_part *p)
{
    for (struct list_node *n = p->node.next; n != &f->parts; n = n->next) {
        const struct km_fence_part *later = list_entry(n, struct km_fence_part, node);

        if (later->instance && !later->stale && later->key >> 32 != p->key >> 32 &&
            idset_intersects(later->callers, p->callers))
            return true;
    }
    return false;
}

static int find_stale(struct km_fence *f)
{
    int rc = 0;

    if (idset_range_clear(f->callers, 0, IDSET_MAX) < 0 ||
        (f->here && idset_set(f->callers, flux_rank(f->ns->h)) < 0))
        return -1;
    for (struct list_node *n = f->parts.prev; n != &f->parts && rc == 0; n = n->prev) {
        struct km_fence_part *p = list_entry(n, struct km_fence_part, node);

        if (!p->instance)
            continue;
        p->stale = idset_intersects(f->callers, p->callers) && reported_since(f, p);
        rc = p->stale ? km_fence_lost_absent(f, p->callers, NULL)
                      : idset_add(f->callers, p->callers);
    }
    return rc;
}

int km_fence_recount(struct km_fence *f, errmsg_t *err)
{
    km_merge_clear(&f->merge);
    f->count = 0;
    f->anew = true;
    f->ranks_unsent = f->ranks != NULL;
    if (find_stale(f) < 0 || idset_range_clear(f->fresh, 0, IDSET_MAX) < 0 ||
        idset_add(f->fresh, f->callers) < 0)
        return errmsg_fail(err, ENOMEM, "rank %u is out of memory for a fence",
                           flux_rank(f->ns->h));
    LIST_FOREACH(n, &f->parts)
    {
        const struct km_fence_part *p = list_entry(n, struct km_fence_part, node);

        if (!p->stale && merge_part(f, p, err) < 0)
            return -1;
    }
    f->unsent = f->count;
    return 0;
}
