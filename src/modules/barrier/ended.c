/* ended.c - barriers that have ended (interface: ended.h).
 *
 * A name may be used again before all instances have learned that its use has ended: joins that
 * were sent before are still on their way.  So a name has several ends, the newest first.  A rank
 * is in the newest of those that it took part in only, since its joins arrive in order.
 *
 * Invariants:
 *  1. A name is in the table once, and in `old` in the order of the ends; there are at most
 *     NAMES_MAX.
 *  2. A name has 1 to ENDS_MAX ends, of which each but the newest has ranks.
 *
 * Failure: an end is lost if memory is short, after NAMES_MAX later ends of other names, or after
 * ENDS_MAX later ones of this name.  Instances that join after that begin a barrier that stays
 * incomplete until its participants disconnect, or barrier.grace ends it.
 */
#include "config.h"
#include "ended.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "entries.h"
#include "libflux/dispatch.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

#define NAMES_MAX 4096
#define ENDS_MAX 8

struct end {
    struct list_node node; /* in record.ends */
    struct ended e;
    char why[];
};

struct record {
    struct list_node node; /* in ended_table.old */
    struct list_node ends;
    unsigned n;
    char name[];
};

struct ended_table {
    hmap_t *by_name;
    struct list_node old; /* the oldest first */
};

static void end_free(struct record *r, struct end *end)
{
    list_remove(&end->node);
    r->n--;
    idset_destroy(end->e.ranks);
    free(end);
}

static void record_free(void *val)
{
    struct record *r = val;

    LIST_FOREACH_SAFE(it, tmp, &r->ends)
    end_free(r, list_entry(it, struct end, node));
    list_remove(&r->node);
    free(r);
}

ended_table_t *ended_create(void)
{
    ended_table_t *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    list_init(&t->old);
    if (!(t->by_name = hmap_create_str(record_free))) {
        free(t);
        errno = ENOMEM;
        return NULL;
    }
    return t;
}

void ended_destroy(ended_table_t *t)
{
    int saved = errno;

    if (!t)
        return;
    hmap_destroy(t->by_name);
    free(t);
    errno = saved;
}

/* The record of a name, the newest of all.  NULL with ENOMEM. */
static struct record *record_of(ended_table_t *t, const char *name)
{
    struct record *r = hmap_get(t->by_name, name);
    size_t len = strlen(name);

    if (r) {
        list_remove(&r->node);
    } else {
        if (!(r = calloc(1, sizeof(*r) + len + 1)))
            return NULL;
        memcpy(r->name, name, len + 1);
        list_init(&r->node);
        list_init(&r->ends);
        if (hmap_put(t->by_name, name, r) < 0) {
            free(r);
            return NULL;
        }
    }
    list_append(&t->old, &r->node);
    return r;
}

int ended_put(ended_table_t *t, const char *name, const struct ended *e)
{
    const char *why = e->why ? e->why : "";
    struct end *end = calloc(1, sizeof(*end) + strlen(why) + 1);
    struct record *r = end ? record_of(t, name) : NULL;

    if (!r) {
        free(end);
        idset_destroy(e->ranks);
        errno = ENOMEM;
        return -1;
    }
    LIST_FOREACH_SAFE(it, tmp, &r->ends)
    {
        struct end *old = list_entry(it, struct end, node);

        if (idset_subtract(old->e.ranks, e->ranks) < 0 || idset_empty(old->e.ranks))
            end_free(r, old);
    }
    if (r->n == ENDS_MAX)
        end_free(r, list_entry(r->ends.prev, struct end, node));
    list_init(&end->node);
    end->e = *e;
    strcpy(end->why, why);
    end->e.why = e->why ? end->why : NULL;
    list_push(&r->ends, &end->node);
    r->n++;
    INVARIANT(2, r->n <= ENDS_MAX);
    if (hmap_count(t->by_name) > NAMES_MAX)
        hmap_del(t->by_name, list_entry(list_first(&t->old), struct record, node)->name);
    INVARIANT(1, hmap_count(t->by_name) <= NAMES_MAX);
    return 0;
}

const struct ended *ended_get(const ended_table_t *t, const char *name)
{
    const struct record *r = hmap_get(t->by_name, name);

    return r ? &list_entry(list_first(&r->ends), struct end, node)->e : NULL;
}

/* The newest end, which is news for the sender of this join, of a use in which it took part. */
static const struct ended *ended_find(const ended_table_t *t, uint32_t rank, const idset_t *at,
                                      const struct barrier_join *in)
{
    const struct record *r = hmap_get(t->by_name, in->name);

    if (!r)
        return NULL;
    LIST_FOREACH(it, &r->ends)
    {
        const struct ended *e = &list_entry(it, struct end, node)->e;

        if (in->after < e->use && (idset_test(e->ranks, rank) || idset_intersects(e->ranks, at)))
            return e;
    }
    return NULL;
}

bool ended_answer(const ended_table_t *t, flux_t *h, const flux_msg_t *req, uint32_t rank,
                  const struct barrier_join *in)
{
    entries_t *entries = hmap_get(t->by_name, in->name) ? entries_create() : NULL;
    const struct ended *e = NULL;

    if (entries && entries_merge(entries, in->entries, flux_size(h), NULL) == 0)
        e = ended_find(t, rank, entries_ranks(entries), in);
    entries_destroy(entries);
    if (e && e->errnum)
        flux_respond_error(h, req, e->errnum, "%s", e->why);
    else if (e) {
        const struct barrier_joined done = {true, e->use};
        flux_respond_struct(h, req, &barrier_joined_schema, &done);
    }
    return e != NULL;
}
