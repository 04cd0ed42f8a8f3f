/* ended.c - barriers that have ended (interface: ended.h).
 *
 * Invariant 1: a name is in the table once, and in `old` in the order of the ends; there are at
 * most NAMES_MAX.
 *
 * Failure: an end is lost if memory is short, or after NAMES_MAX later ends.  Instances that join
 * after that begin a barrier that stays incomplete until its participants disconnect, or
 * barrier.grace ends it.
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

struct record {
    struct list_node node;
    struct ended e;
    char *why;
    char name[];
};

struct ended_table {
    hmap_t *by_name;
    struct list_node old; /* the oldest first */
};

static void record_free(void *val)
{
    struct record *r = val;

    list_remove(&r->node);
    idset_destroy(r->e.ranks);
    free(r->why);
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

int ended_put(ended_table_t *t, const char *name, const struct ended *e)
{
    size_t len = strlen(name);
    struct record *r = calloc(1, sizeof(*r) + len + 1);

    if (!r)
        goto nomem;
    list_init(&r->node);
    memcpy(r->name, name, len + 1);
    if (e->why && !(r->why = strdup(e->why)))
        goto nomem;
    r->e = *e;
    r->e.why = r->why;
    hmap_del(t->by_name, name);
    if (hmap_put(t->by_name, name, r) < 0)
        goto nomem;
    list_append(&t->old, &r->node);
    if (hmap_count(t->by_name) > NAMES_MAX)
        hmap_del(t->by_name, list_entry(list_first(&t->old), struct record, node)->name);
    INVARIANT(1, hmap_count(t->by_name) <= NAMES_MAX);
    return 0;
nomem:
    if (r)
        free(r->why);
    free(r);
    idset_destroy(e->ranks);
    errno = ENOMEM;
    return -1;
}

const struct ended *ended_get(const ended_table_t *t, const char *name)
{
    const struct record *r = hmap_get(t->by_name, name);

    return r ? &r->e : NULL;
}

bool ended_answer(const ended_table_t *t, flux_t *h, const flux_msg_t *req, uint32_t rank,
                  const struct barrier_join *in)
{
    const struct ended *e = ended_get(t, in->name);
    entries_t *entries = e && in->after < e->use ? entries_create() : NULL;
    bool took_part = entries && (idset_test(e->ranks, rank) ||
                                 (entries_merge(entries, in->entries, flux_size(h), NULL) == 0 &&
                                  idset_intersects(e->ranks, entries_ranks(entries))));

    entries_destroy(entries);
    if (took_part && e->errnum)
        flux_respond_error(h, req, e->errnum, "%s", e->why);
    else if (took_part) {
        const struct barrier_joined done = {true, e->use};
        flux_respond_struct(h, req, &barrier_joined_schema, &done);
    }
    return took_part;
}
