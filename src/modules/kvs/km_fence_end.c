/* km_fence_end.c - how fences have ended: the message to instances, and what is remembered.
 *
 * A broker between may die with the answer to a fence.  The instances below it report their calls
 * to the master again (km_fence.c), which finds here that the fence is over, and answers as before.
 * Or the fence is complete with what they have reported again, and an instance that has not heard
 * of the loss reports afterwards what it had from the dead one.
 *
 * A report belongs to a remembered fence if calls from its ranks counted there, and its sender had
 * not heard of that end; otherwise to a fence that is open, or begins.  So every instance remembers
 * which generation of a name was the last whose end it heard.  Reports other than those that were
 * sent again are compared only with fences for which something was, and for LATE_SECONDS.
 *
 * Invariants:
 *  1. All ends are in `old` in their order, and those of one name in a chain, whose newest one is
 *     in `ends`; there are at most ENDS_MAX.  An instance hears of no more ends than the master
 *     notes, so it forgets none that the master still knows.
 *  2. A rank counted in at most one fence of a name whose end it has not heard.  A rank that is
 *     lost is forgotten here: if it is back, it has heard of nothing.
 *
 * Failure: an end that is forgotten, since there was no memory, or ENDS_MAX others came later, is
 * not known to instances that report late: they begin a fence that is not complete before its
 * participants give up.
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
    idset_t *callers; /* master: ranks whose calls counted; else NULL */
    bool applied;
    bool again;    /* some of these were reported again */
    double when;   /* it ended */
    size_t len;    /* master: of its encoding, */
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
    flux_log(ns->h, LOG_ERR, "no memory to remember the end of fence '%s'", f->name);
}

uint32_t km_fence_end_heard(const struct km_ns *ns, const char *name)
{
    const struct end *e = hmap_get(ns->fences->ends, name);

    return e ? e->generation : 0;
}

/* The fence that this report is about; NULL: none that is over. */
static const struct end *find_unheard(const struct km_ns *ns, const char *name,
                                      const struct kvs_fence_req *q, const idset_t *callers)
{
    bool again = q->flags & KVS_FENCE_AGAIN;

    /* Generations rise, and may begin again after 2^32. */
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
    /* All calls of a fence that was applied were there: others are for the next one, and the sender
     * does not know yet that it has to report them alone. */
    if (e->applied && !idset_subset(callers, e->callers))
        flux_respond_error(ns->h, msg, EHOSTUNREACH, "fence '%s' is over for some of these", name);
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
            flux_log(ns->h, LOG_ERR, "no memory to forget who had called fence '%s'", e->name);
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
