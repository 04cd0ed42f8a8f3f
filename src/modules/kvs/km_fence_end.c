/* km_fence_end.c - the ends of fences: their encoding for instances, and the recent ones, which are
 * stored.
 *
 * Purpose: a broker between an instance and the master may die before it has passed the answer to a
 * fence on.  The instances below it then report their calls to the master again (km_fence.c).  The
 * master finds the stored end of the fence here, and repeats its answer.  Conversely, a fence may
 * become complete with calls that were reported again, and an instance that does not know yet of
 * the loss may later report the same calls, which it had received from the dead broker.
 *
 * Matching: a report belongs to a stored fence if calls from its ranks counted in that fence, and
 * its sender did not know the end of that fence; else it belongs to an open fence, or begins one.
 * To make this possible, every instance stores the last generation of each name whose end it knows.
 *  A report that is not marked as sent again is compared only with fences in which some calls were
 *  reported
 * again, and only for LATE_SECONDS after their end.
 *
 * Invariants:
 *  1. All ends are in `old` in the order of time.  The ends of one name are a chain, whose newest
 *     element is in `ends`.  There are at most ENDS_MAX ends.  An instance receives no more ends
 *     than the master stores, so it drops no end that the master still has.
 *  2. The calls from a rank counted in at most one fence of a name whose end this rank does not
 *     know.  A lost rank is removed from all ends: when it has come back, it knows no end.
 *
 * Failure: an end is missing here if there was no memory for it, or if ENDS_MAX newer ends have
 * replaced it.  Instances that report late then begin a new fence, which does not become complete
 * before its participants give up.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_fence.h"
#include "libutil/invariant.h"
#include "libutil/le.h"

#define ENDS_MAX 4096
#define LATE_SECONDS 120.

struct end {
    struct list_node node;     /* in km_fence_table.old */
    struct end *older, *newer; /* of the same name */
    uint32_t generation;
    uint32_t nprocs;
    idset_t *callers; /* master: ranks of the calls that counted; else NULL */
    bool applied;
    bool again;    /* some calls of the fence were reported again */
    double when;   /* time of the end */
    size_t len;    /* master: length of the encoding, */
    uint8_t *data; /* which follows the name */
    char name[];
};

size_t km_fence_end_encode(const struct km_fence_end *e, uint8_t buf[KM_FENCE_END_MAX])
{
    size_t len;

    le_put32(buf, e->generation);
    le_put32(buf + 4, (uint32_t)e->errnum);
    if (e->errnum == 0)
        return KM_FENCE_END_HEADER + kvs_root_encode(&e->root, buf + KM_FENCE_END_HEADER);
    len = strlen(e->why.text);
    memcpy(buf + KM_FENCE_END_HEADER, e->why.text, len);
    return KM_FENCE_END_HEADER + len;
}

int km_fence_end_decode(const void *data, size_t len, struct km_fence_end *e, errmsg_t *err)
{
    const uint8_t *p = data;

    if (len < KM_FENCE_END_HEADER || le_get32(p + 4) > INT32_MAX)
        return errmsg_fail(err, EPROTO, "%zu bytes are not the end of a fence", len);
    e->generation = le_get32(p);
    e->errnum = (int)le_get32(p + 4);
    p += KM_FENCE_END_HEADER;
    len -= KM_FENCE_END_HEADER;
    if (e->errnum == 0)
        return kvs_root_decode(p, len, &e->root, err);
    errmsg_set(&e->why, "%.*s", len > sizeof(e->why) ? (int)sizeof(e->why) : (int)len,
               (const char *)p);
    return 0;
}

static void end_free(struct end *e)
{
    idset_destroy(e->callers);
    free(e);
}

static void forget_oldest(struct km_fence_table *fs)
{
    struct end *e = list_entry(list_first(&fs->old), struct end, node);

    fs->nends--;
    list_remove(&e->node);
    if (e->newer)
        e->newer->older = NULL;
    else
        (void)hmap_take(fs->ends, e->name);
    end_free(e);
}

void km_fence_end_note(struct km_fence *f, const struct km_fence_end *end, const uint8_t *data,
                       size_t len)
{
    struct km_ns *ns = f->ns;
    struct km_fence_table *fs = ns->fences;
    size_t namelen = strlen(f->name) + 1;
    struct end *newest = hmap_get(fs->ends, f->name);
    struct end *e = calloc(1, sizeof(*e) + namelen + len);

    if (!e)
        goto nomem;
    e->generation = end->generation;
    e->nprocs = f->nprocs;
    e->applied = end->errnum == 0;
    e->again = f->again;
    e->when = flux_now(ns->h);
    memcpy(e->name, f->name, namelen);
    if (hmap_put(fs->ends, e->name, e) < 0) {
        end_free(e);
        goto nomem;
    }
    if (ns->master) {
        e->callers = f->callers;
        f->callers = NULL;
        e->len = len;
        e->data = (uint8_t *)e->name + namelen;
        memcpy(e->data, data, len);
    }
    e->older = newest;
    if (newest)
        newest->newer = e;
    list_init(&e->node);
    list_append(&fs->old, &e->node);
    if (++fs->nends > ENDS_MAX)
        forget_oldest(fs);
    INVARIANT(1, hmap_count(fs->ends) <= fs->nends && fs->nends <= ENDS_MAX);
    return;
nomem:
    flux_log(ns->h, LOG_ERR, "no memory to store the end of fence '%s'", f->name);
}

uint32_t km_fence_end_heard(const struct km_ns *ns, const char *name)
{
    const struct end *e = hmap_get(ns->fences->ends, name);

    return e ? e->generation : 0;
}

/* The stored end of the fence to which this report belongs; NULL: the report belongs to no stored
 * fence. */
static const struct end *find_unheard(const struct km_ns *ns, const char *name,
                                      const struct kvs_fence_req *q, const idset_t *callers)
{
    bool again = q->flags & KVS_FENCE_AGAIN;

    /* Generations rise, and wrap around after 2^32. */
    for (const struct end *e = hmap_get(ns->fences->ends, name); e; e = e->older) {
        if (q->heard && (int32_t)(e->generation - q->heard) <= 0)
            return NULL;
        if (e->nprocs == q->nprocs && idset_intersects(e->callers, callers) &&
            (again || (e->again && flux_now(ns->h) - e->when < LATE_SECONDS)))
            return e;
    }
    return NULL;
}

bool km_fence_end_answers(struct km_ns *ns, const flux_msg_t *msg, const char *name,
                          const struct kvs_fence_req *q, const idset_t *callers)
{
    const struct end *e = find_unheard(ns, name, q, callers);

    if (!e)
        return false;
    /* An applied fence was complete, so calls from other ranks are for the next fence.  The sender
     * has merged both, and is to report the latter alone. */
    if (e->applied && !idset_subset(callers, e->callers))
        flux_respond_error(ns->h, msg, EHOSTUNREACH, "fence '%s' is over for some of these calls",
                           name);
    else
        flux_respond_raw(ns->h, msg, e->data, e->len);
    return true;
}

void km_fence_ends_lost(struct km_ns *ns, const idset_t *ranks)
{
    LIST_FOREACH(n, &ns->fences->old)
    {
        struct end *e = list_entry(n, struct end, node);

        if (idset_intersects(e->callers, ranks) && idset_subtract(e->callers, ranks) < 0)
            flux_log(ns->h, LOG_ERR,
                     "no memory to remove lost ranks from the callers of fence '%s'", e->name);
    }
}

int km_fence_ends_create(struct km_fence_table *fs)
{
    list_init(&fs->old);
    return (fs->ends = hmap_create_str(NULL)) ? 0 : -1;
}

void km_fence_ends_destroy(struct km_fence_table *fs)
{
    while (fs->nends)
        forget_oldest(fs);
    hmap_destroy(fs->ends);
}
