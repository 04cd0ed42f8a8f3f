/* km_tombstone.c - what is remembered of fences that were aborted.
 *
 * A fence that is aborted ends for all who called.  Calls that had not come then are late: they must
 * fail too, not wait for ever, and not count for the next fence of that name.  But a call by one who
 * was told of the end is not late: it is for the next.  So each fence has a generation, a number of
 * the master's; the end of an aborted one is told with it, and the instance of a client remembers
 * what it was told, and sends it with its next call of that name.
 *
 *    grave    at the master: name, nprocs, generation, calls that had not come
 *    memory   at the instance of a client: (client, name) -> generation
 *
 * A call that knows of no generation, or of an older one than the grave's, is refused as late as
 * long as calls are missing.  Who did not take part in the aborted fence (another process of the
 * same program, started anew) may be refused so, once: it was told then.
 *
 * Invariants:
 *  1. A client hears of the end of a generation at most once.
 *  2. A grave refuses as many calls as were missing, no more; it is gone when a later fence of that
 *     name is complete, or after two minutes.  At most GRAVES_MAX are kept, the newest.
 *  3. A memory ends with its client, or with its next call of that name; at most TOLD_MAX are kept.
 *
 * Failure: without memory a late call begins a fence that waits until one of its own is aborted.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_tombstone.h"
#include "km_private.h"

#define GRAVES_MAX 1024
#define GRAVE_SECONDS 120.
#define TOLD_MAX 65536

struct grave {
    struct list_node node;
    uint32_t nprocs;
    uint32_t left;
    uint32_t generation;
    double until;
    errmsg_t why;
    char name[];
};

struct told {
    struct list_node node;
    struct km_claim claim;
    struct km_ns *ns;
    uint32_t generation;
    char key[];
};

struct km_tombstones {
    hmap_t *graves;
    struct list_node old; /* graves, the oldest first */
    hmap_t *told;
    struct list_node all_told; /* the oldest first */
    char reason[sizeof(errmsg_t)];
};

struct km_tombstones *km_tombstone_create(void)
{
    struct km_tombstones *lt = calloc(1, sizeof(*lt));

    if (!lt)
        return NULL;
    list_init(&lt->old);
    list_init(&lt->all_told);
    lt->graves = hmap_create_str(NULL);
    lt->told = hmap_create_str(NULL);
    if (!lt->graves || !lt->told) {
        hmap_destroy(lt->graves);
        hmap_destroy(lt->told);
        free(lt);
        errno = ENOMEM;
        return NULL;
    }
    return lt;
}

/* --- graves --- */

static void grave_free(struct km_tombstones *lt, struct grave *g)
{
    (void)hmap_take(lt->graves, g->name);
    list_remove(&g->node);
    free(g);
}

static void forget_old(struct km_tombstones *lt, double now)
{
    struct list_node *n;

    while ((n = list_first(&lt->old))) {
        struct grave *g = list_entry(n, struct grave, node);
        if (g->until >= now && hmap_count(lt->graves) < GRAVES_MAX)
            return;
        grave_free(lt, g);
    }
}

void km_tombstone_add(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t left,
                      uint32_t generation, const char *why)
{
    struct km_tombstones *lt = ns->late;
    double now = flux_now(ns->h);
    size_t len = strlen(name);
    struct grave *g;

    forget_old(lt, now);
    km_tombstone_remove(ns, name);
    if (left == 0 || !(g = calloc(1, sizeof(*g) + len + 1)))
        return;
    memcpy(g->name, name, len + 1);
    g->nprocs = nprocs;
    g->left = left;
    g->generation = generation;
    g->until = now + GRAVE_SECONDS;
    errmsg_set(&g->why, "%s", why);
    list_init(&g->node);
    if (hmap_put(lt->graves, g->name, g) < 0)
        free(g);
    else
        list_append(&lt->old, &g->node);
}

const char *km_tombstone_refuse(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count,
                                uint32_t after, uint32_t *generation)
{
    struct km_tombstones *lt = ns->late;
    struct grave *g = hmap_get(lt->graves, name);

    if (!g || g->nprocs != nprocs)
        return NULL;
    if (g->until < flux_now(ns->h)) {
        grave_free(lt, g);
        return NULL;
    }
    /* Generations rise, and may begin again after 2^32. */
    if (after != 0 && (int32_t)(after - g->generation) >= 0)
        return NULL;
    *generation = g->generation;
    snprintf(lt->reason, sizeof(lt->reason),
             "%.160s (%.0f s before this call; call again if it is for another one)", g->why.text,
             flux_now(ns->h) - (g->until - GRAVE_SECONDS));
    if (g->left <= count)
        grave_free(lt, g);
    else
        g->left -= count;
    return lt->reason;
}

void km_tombstone_discount(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count)
{
    struct grave *g = hmap_get(ns->late->graves, name);

    if (!g || g->nprocs != nprocs)
        return;
    if (g->left <= count)
        grave_free(ns->late, g);
    else
        g->left -= count;
}

void km_tombstone_remove(struct km_ns *ns, const char *name)
{
    struct grave *g = hmap_get(ns->late->graves, name);

    if (g)
        grave_free(ns->late, g);
}

/* --- who was told --- */

static void told_free(struct told *t)
{
    (void)hmap_take(t->ns->late->told, t->key);
    list_remove(&t->node);
    km_claim_drop(t->ns->k->senders, &t->claim);
    free(t);
}

static void told_gone(struct km_claim *c, bool cancelled)
{
    told_free(list_entry(c, struct told, claim));
}

#define KEY_MAX (FLUX_SENDER_MAX + 1 + KVS_FENCE_NAME_MAX + 1)
static size_t told_key(const flux_msg_t *req, const char *name, char key[KEY_MAX])
{
    char sender[FLUX_SENDER_MAX];

    return (size_t)snprintf(key, KEY_MAX, "%s %s", flux_msg_sender(req, sender, sizeof(sender)),
                            name);
}

void km_tombstone_note_known(struct km_ns *ns, const char *name, const flux_msg_t *req,
                             uint32_t generation)
{
    struct km_tombstones *lt = ns->late;
    char key[KEY_MAX];
    size_t len = told_key(req, name, key);
    struct told *t = hmap_get(lt->told, key);

    if (t) {
        t->generation = generation;
        return;
    }
    if (hmap_count(lt->told) >= TOLD_MAX)
        told_free(list_entry(list_first(&lt->all_told), struct told, node));
    if (!(t = calloc(1, sizeof(*t) + len + 1)))
        return;
    t->ns = ns;
    t->generation = generation;
    memcpy(t->key, key, len + 1);
    list_init(&t->node);
    if (km_claim(ns->k->senders, &t->claim, req, told_gone) < 0) {
        free(t);
        return;
    }
    if (hmap_put(lt->told, t->key, t) < 0) {
        km_claim_drop(ns->k->senders, &t->claim);
        free(t);
        return;
    }
    list_append(&lt->all_told, &t->node);
}

uint32_t km_tombstone_take_known(struct km_ns *ns, const char *name, const flux_msg_t *req)
{
    char key[KEY_MAX];
    uint32_t generation = 0;
    struct told *t;

    if (hmap_count(ns->late->told) == 0)
        return 0;
    told_key(req, name, key);
    if ((t = hmap_get(ns->late->told, key))) {
        generation = t->generation;
        told_free(t);
    }
    return generation;
}

void km_tombstone_destroy(struct km_ns *ns, struct km_tombstones *lt)
{
    if (!lt)
        return;
    LIST_FOREACH_SAFE(n, tmp, &lt->old)
    grave_free(lt, list_entry(n, struct grave, node));
    LIST_FOREACH_SAFE(n, tmp, &lt->all_told)
    told_free(list_entry(n, struct told, node));
    hmap_destroy(lt->graves);
    hmap_destroy(lt->told);
    free(lt);
}
