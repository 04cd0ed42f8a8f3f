/* km_tombstone.c - aborted fences, and the calls that arrive late for them.
 *
 * Purpose: a fence that is aborted ends for all participants that have called.  The calls that had
 * not arrived by then are late.  Late calls have to fail too: they must neither wait without end
 * nor count for the next fence of that name.  But a call from a client that knows of the abort is
 * not late: it is meant for the next fence.  To tell the two apart, the master gives each fence a
 * generation.  The answer to an aborted fence carries its generation; the instance of the client
 * stores it, and sends it with the next call of that client to a fence of the same name.
 *
 *    tombstone   at the master: name, nprocs, generation, number of calls that had not arrived
 *    notice      at the instance of a client: (client, name) -> generation that has ended
 *
 * The master refuses a call with no generation, or with an older one than that of the tombstone, as
 * long as late calls are expected.  A client that did not take part in the aborted fence (such as a
 * restarted process of the same program) may be refused once in this way, and then has a notice.
 *
 * Invariants:
 *  1. A client is notified of the end of a generation at most once.
 *  2. A tombstone refuses no more calls than were missing.  It is removed when a later fence of
 *     that name is complete, or after two minutes.  At most TOMBSTONES_MAX tombstones are kept, the
 *     newest ones.
 *  3. A notice is removed with its client, or by the next call of the client to a fence of that
 *     name.  At most NOTICES_MAX notices are kept.
 *
 * Failure: without memory for a tombstone, a late call begins a new fence, which waits until one of
 * its own participants aborts it.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_tombstone.h"
#include "km_private.h"

#define TOMBSTONES_MAX 1024
#define TOMBSTONE_SECONDS 120.
#define NOTICES_MAX 65536

struct tombstone {
    struct list_node node;
    uint32_t nprocs;
    uint32_t left;
    uint32_t generation;
    double until;
    errmsg_t why;
    char name[];
};

struct notice {
    struct list_node node;
    struct claim claim;
    struct km_ns *ns;
    uint32_t generation;
    char key[];
};

struct km_tombstones {
    hmap_t *tombstones;
    struct list_node old; /* tombstones, the oldest first */
    hmap_t *notices;
    struct list_node all_notices; /* the oldest first */
    char reason[sizeof(errmsg_t)];
};

struct km_tombstones *km_tombstone_create(void)
{
    struct km_tombstones *ts = calloc(1, sizeof(*ts));

    if (!ts)
        return NULL;
    list_init(&ts->old);
    list_init(&ts->all_notices);
    ts->tombstones = hmap_create_str(NULL);
    ts->notices = hmap_create_str(NULL);
    if (!ts->tombstones || !ts->notices) {
        hmap_destroy(ts->tombstones);
        hmap_destroy(ts->notices);
        free(ts);
        errno = ENOMEM;
        return NULL;
    }
    return ts;
}

/* --- tombstones --- */

static void tombstone_free(struct km_tombstones *ts, struct tombstone *g)
{
    (void)hmap_take(ts->tombstones, g->name);
    list_remove(&g->node);
    free(g);
}

static void forget_old(struct km_tombstones *ts, double now)
{
    struct list_node *n;

    while ((n = list_first(&ts->old))) {
        struct tombstone *g = list_entry(n, struct tombstone, node);
        if (g->until >= now && hmap_count(ts->tombstones) < TOMBSTONES_MAX)
            return;
        tombstone_free(ts, g);
    }
}

void km_tombstone_add(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t left,
                      uint32_t generation, const char *why)
{
    struct km_tombstones *ts = ns->tombstones;
    double now = flux_now(ns->h);
    size_t len = strlen(name);
    struct tombstone *g;

    forget_old(ts, now);
    km_tombstone_remove(ns, name);
    if (left == 0 || !(g = calloc(1, sizeof(*g) + len + 1)))
        return;
    memcpy(g->name, name, len + 1);
    g->nprocs = nprocs;
    g->left = left;
    g->generation = generation;
    g->until = now + TOMBSTONE_SECONDS;
    errmsg_set(&g->why, "%s", why);
    list_init(&g->node);
    if (hmap_put(ts->tombstones, g->name, g) < 0)
        free(g);
    else
        list_append(&ts->old, &g->node);
}

const char *km_tombstone_refuse(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count,
                                uint32_t after, uint32_t *generation)
{
    struct km_tombstones *ts = ns->tombstones;
    struct tombstone *g = hmap_get(ts->tombstones, name);

    if (!g || g->nprocs != nprocs)
        return NULL;
    if (g->until < flux_now(ns->h)) {
        tombstone_free(ts, g);
        return NULL;
    }
    /* Generations rise, and wrap around after 2^32. */
    if (after != 0 && (int32_t)(after - g->generation) >= 0)
        return NULL;
    *generation = g->generation;
    snprintf(ts->reason, sizeof(ts->reason),
             "%.160s (%.0f s before this call; call again if it is for another one)", g->why.text,
             flux_now(ns->h) - (g->until - TOMBSTONE_SECONDS));
    if (g->left <= count)
        tombstone_free(ts, g);
    else
        g->left -= count;
    return ts->reason;
}

void km_tombstone_discount(struct km_ns *ns, const char *name, uint32_t nprocs, uint32_t count)
{
    struct tombstone *g = hmap_get(ns->tombstones->tombstones, name);

    if (!g || g->nprocs != nprocs)
        return;
    if (g->left <= count)
        tombstone_free(ns->tombstones, g);
    else
        g->left -= count;
}

void km_tombstone_remove(struct km_ns *ns, const char *name)
{
    struct tombstone *g = hmap_get(ns->tombstones->tombstones, name);

    if (g)
        tombstone_free(ns->tombstones, g);
}

/* --- notices --- */

static void notice_free(struct notice *t)
{
    (void)hmap_take(t->ns->tombstones->notices, t->key);
    list_remove(&t->node);
    claim_drop(t->ns->k->senders, &t->claim);
    free(t);
}

static void notice_gone(struct claim *c, bool canceled)
{
    notice_free(list_entry(c, struct notice, claim));
}

#define KEY_MAX (FLUX_SENDER_MAX + 1 + KVS_FENCE_NAME_MAX + 1)
static size_t notice_key(const flux_msg_t *req, const char *name, char key[KEY_MAX])
{
    char sender[FLUX_SENDER_MAX];

    return (size_t)snprintf(key, KEY_MAX, "%s %s", flux_msg_sender(req, sender, sizeof(sender)),
                            name);
}

void km_tombstone_note_known(struct km_ns *ns, const char *name, const flux_msg_t *req,
                             uint32_t generation)
{
    struct km_tombstones *ts = ns->tombstones;
    char key[KEY_MAX];
    size_t len = notice_key(req, name, key);
    struct notice *t = hmap_get(ts->notices, key);

    if (t) {
        t->generation = generation;
        return;
    }
    if (hmap_count(ts->notices) >= NOTICES_MAX)
        notice_free(list_entry(list_first(&ts->all_notices), struct notice, node));
    if (!(t = calloc(1, sizeof(*t) + len + 1)))
        return;
    t->ns = ns;
    t->generation = generation;
    memcpy(t->key, key, len + 1);
    list_init(&t->node);
    if (claim_take(ns->k->senders, &t->claim, req, notice_gone) < 0) {
        free(t);
        return;
    }
    if (hmap_put(ts->notices, t->key, t) < 0) {
        claim_drop(ns->k->senders, &t->claim);
        free(t);
        return;
    }
    list_append(&ts->all_notices, &t->node);
}

uint32_t km_tombstone_take_known(struct km_ns *ns, const char *name, const flux_msg_t *req)
{
    char key[KEY_MAX];
    uint32_t generation = 0;
    struct notice *t;

    if (hmap_count(ns->tombstones->notices) == 0)
        return 0;
    notice_key(req, name, key);
    if ((t = hmap_get(ns->tombstones->notices, key))) {
        generation = t->generation;
        notice_free(t);
    }
    return generation;
}

void km_tombstone_destroy(struct km_ns *ns, struct km_tombstones *ts)
{
    if (!ts)
        return;
    LIST_FOREACH_SAFE(n, tmp, &ts->old)
    tombstone_free(ts, list_entry(n, struct tombstone, node));
    LIST_FOREACH_SAFE(n, tmp, &ts->all_notices)
    notice_free(list_entry(n, struct notice, node));
    hmap_destroy(ts->tombstones);
    hmap_destroy(ts->notices);
    free(ts);
}
