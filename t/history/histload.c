/* histload.c - what the clients do.
 *
 * Each client does one thing at a time: it asks (one request, or several at one root), waits until
 * all answers are there, writes them down, pauses, and goes on.  What it does is drawn at random:
 *
 *    commit      one to four keys, put or unlinked; or an append; or a guard with the tag of a
 *                value that it has read, and a new value (compare and set)
 *    get         one key now; or several at a root that itself or another client was told; or with
 *                a snapshot, which must keep its root
 *    list        all keys in one answer
 *    version     and what it is told may be passed to others:
 *    wait        for a version that another client was told
 *    watch       a key: results come beside all this; of a key that is appended to sometimes only
 *                what is new, which is put together here
 *    fence       with others: the first who likes to opens one, and all that have nothing else to
 *                do join until it is full
 *
 * When it is stopped it waits for the newest version that anybody was told, lists all keys once
 * more, and is at its end.
 *
 * Who watches a key reads it at the very end, when nothing is under way any more: its last result
 * must be the same.  histask.c has the questions, histanswer.c the answers.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "histload_private.h"

/* --- life --- */

static unsigned set_names(histload_t *l, unsigned at, char kind, unsigned n)
{
    for (unsigned i = 0; i < n && at < KEYS_MAX; i++, at++)
        snprintf(l->name[at], sizeof(l->name[at]), "%.20s.%c%u", l->cfg.dir, kind, i);
    return at;
}

histload_t *histload_create(const struct histload_config *cfg, history_t *h)
{
    histload_t *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->cfg = *cfg;
    l->h = h;
    rng_seed(&l->rng, cfg->seed);
    list_init(&l->clients);
    l->next_id = cfg->first_client;
    l->nkeys = set_names(l, 0, 'k', cfg->keys);
    l->cfg.keys = l->nkeys;
    l->nkeys = set_names(l, l->nkeys, 'a', cfg->append_keys);
    l->cfg.append_keys = l->nkeys - l->cfg.keys;
    l->nkeys = set_names(l, l->nkeys, 'g', cfg->guard_keys);
    l->cfg.guard_keys = l->nkeys - l->cfg.keys - l->cfg.append_keys;
    return l;
}

void hl_fence_left(struct histclient *c)
{
    histload_t *l = c->l;

    if (c->in_fence && c->fence == l->fence.number)
        l->fence.size = l->fence.called;
    c->in_fence = false;
}

/* Futures are forgotten when the handle is being closed, which destroys them. */
static void client_free(struct histclient *c, bool closing)
{
    histload_t *l = c->l;

    if (c->busy) {
        history_answer(l->h, c->op, l->cfg.now(l->cfg.arg), HIST_UNKNOWN, EPIPE, HIST_NO_VERSION,
                       NULL);
        history_answered(l->h, c->op);
        l->failed++;
    }
    for (unsigned i = 0; i < c->n && !closing; i++)
        flux_future_destroy(c->f[i]);
    if (!closing) {
        flux_future_destroy(c->snapshot);
        flux_future_destroy(c->watch.f);
    }
    free(c->watch.data);
    free(c->actual.data);
    c->hook->c = NULL;
    hl_fence_left(c);
    flux_watcher_destroy(c->timer);
    for (unsigned i = 0; i < l->nkeys; i++)
        free(c->memory[i].data);
    free(c->memory);
    list_remove(&c->node);
    l->nclients--;
    free(c);
}

static void closing_cb(void *arg)
{
    struct hook *hook = arg;

    if (hook->c)
        client_free(hook->c, true);
    free(hook);
}

void hl_leave(struct histclient *c, bool lost)
{
    histload_t *l = c->l;
    flux_t *h = c->h;

    client_free(c, false);
    if (l->cfg.ended)
        l->cfg.ended(h, lost, l->cfg.arg);
}

void histload_destroy(histload_t *l)
{
    if (!l)
        return;
    LIST_FOREACH_SAFE(n, tmp, &l->clients)
    {
        struct histclient *c = list_entry(n, struct histclient, node);
        client_free(c, false);
    }
    free(l);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct histclient *c = arg;

    if (c->in_fence)
        hl_leave(c, false);
    else
        hl_next(c);
}

int histload_add(histload_t *l, flux_t *h, uint64_t after)
{
    struct histclient *c = calloc(1, sizeof(*c));
    struct hook *hook = calloc(1, sizeof(*hook));

    if (!c || !hook || !(c->memory = calloc(l->nkeys + 1, sizeof(*c->memory))) ||
        !(c->timer = flux_timer_create(flux_get_reactor(h), timer_cb, c)) ||
        flux_aux_set(h, "histclient", hook, closing_cb) < 0) {
        if (c) {
            flux_watcher_destroy(c->timer);
            free(c->memory);
        }
        free(c);
        free(hook);
        errno = ENOMEM;
        return -1;
    }
    hook->c = c;
    c->hook = hook;
    c->l = l;
    c->h = h;
    c->id = l->next_id++;
    c->after = after;
    list_init(&c->node);
    list_append(&l->clients, &c->node);
    l->nclients++;
    flux_timer_start(c->timer, l->cfg.pause * rng_real(&l->rng), 0.);
    return 0;
}

void histload_stop(histload_t *l)
{
    l->stopped = true;
}

unsigned histload_busy(const histload_t *l)
{
    unsigned n = 0;

    LIST_FOREACH(it, &l->clients)
    n += !list_entry(it, struct histclient, node)->done;
    return n;
}

unsigned histload_clients(const histload_t *l)
{
    return l->nclients;
}

uint64_t histload_version(const histload_t *l)
{
    return l->version;
}

void histload_stats(const histload_t *l, uint64_t *ok, uint64_t *failed, uint64_t *lies)
{
    *ok = l->ok;
    *failed = l->failed;
    *lies = l->lies;
}

void hl_next(struct histclient *c)
{
    histload_t *l = c->l;
    unsigned what = rng_below(&l->rng, 100);

    if (l->cfg.watches && !l->stopped && rng_chance(&l->rng, c->watch.f ? 0.02 : 0.1)) {
        if (c->watch.f)
            hl_watch_end(c);
        else
            hl_watch_begin(c);
    }
    if (c->after) {
        uint64_t v = c->after;
        c->after = 0;
        hl_ask_wait(c, DO_WAIT, v);
    } else if (hl_fence_open(l) && l->cfg.fence_max > 0) {
        hl_ask_fence(c);
    } else if (c->ended && !c->done) {
        if (c->watch.f)
            hl_ask_get(c, DO_VERIFY, c->watch.key, 0);
        else
            c->done = true;
    } else if (l->stopped && !c->done) {
        if (!c->unkept)
            hl_drop_snapshot(c);
        hl_ask_wait(c, DO_LAST_WAIT, l->version);
    } else if (l->stopped) {
        return;
    } else if (c->next_guard || what < 30) {
        hl_ask_commit(c);
    } else if (what < 33 && l->cfg.fence_max > 0) {
        hl_ask_fence(c);
    } else if (what < 40 && l->cfg.guard_keys > 0) {
        unsigned key = l->nkeys - 1 - rng_below(&l->rng, l->cfg.guard_keys);
        hl_ask_get(c, DO_GET, key, FLUX_KVS_TAG);
    } else if (what < 60) {
        hl_ask_get(c, DO_GET, rng_below(&l->rng, l->nkeys), 0);
    } else if (what < 75) {
        hl_ask_list(c, DO_LIST);
    } else if (c->snapshot && what < 92) {
        hl_ask_get_at(c, c->root);
        if (c->snapshot_uses > 0)
            c->snapshot_uses--;
    } else if (what < 78 && l->cfg.snapshots) {
        hl_ask_version(c, DO_SNAPSHOT);
    } else if (what < 84 && l->npool > 0) {
        unsigned n = l->npool < POOL ? l->npool : POOL;
        hl_ask_get_at(c, l->pool[rng_below(&l->rng, n)]);
    } else if (what < 90) {
        hl_ask_version(c, DO_VERSION);
    } else if (l->npool > 0) {
        unsigned n = l->npool < POOL ? l->npool : POOL;
        hl_ask_wait(c, DO_WAIT, l->pool_version[rng_below(&l->rng, n)]);
    } else {
        hl_ask_list(c, DO_LIST);
    }
}

/* --- at the end --- */

void histload_verify(histload_t *l)
{
    LIST_FOREACH(it, &l->clients)
    {
        struct histclient *c = list_entry(it, struct histclient, node);
        if (!c->done || !c->watch.f)
            continue;
        c->done = false;
        flux_timer_start(c->timer, 0., 0.);
    }
}

unsigned histload_unkept(const histload_t *l)
{
    unsigned n = 0;

    LIST_FOREACH(it, &l->clients)
    n += list_entry(it, struct histclient, node)->unkept;
    return n;
}

unsigned histload_behind(const histload_t *l, unsigned *watching, char *buf, size_t size)
{
    unsigned n = 0;

    *watching = 0;
    LIST_FOREACH(it, &l->clients)
    {
        const struct histclient *c = list_entry(it, struct histclient, node);
        const struct watch *w = &c->watch;
        const struct memory *a = &c->actual;
        if (!w->f || !c->verified)
            continue;
        ++*watching;
        if (w->any && w->absent == !a->data &&
            (w->absent || (w->len == a->len && memcmp(w->data, a->data, a->len) == 0)))
            continue;
        if (n++ == 0)
            snprintf(
                buf, size,
                "client %u at rank %u watches %s (its watch no. %u): the last result was %s of "
                "%zu bytes at version %llu, and it is %s of %zu bytes at version %llu",
                c->id, flux_rank(c->h), l->name[w->key], w->number,
                !w->any     ? "nothing"
                : w->absent ? "absence"
                            : "a value",
                w->len, (unsigned long long)w->version, a->data ? "a value" : "absence", a->len,
                (unsigned long long)a->version);
    }
    return n;
}
