/* histask.c - asking: requests, and what is written down before they leave. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "histload_private.h"

static void begin(struct histclient *c, enum what what, enum hist_call call)
{
    histload_t *l = c->l;

    c->what = what;
    c->busy = true;
    c->n = c->ready = 0;
    c->op = history_begin(l->h, l->cfg.now(l->cfg.arg), c->id, flux_rank(c->h), l->cfg.ns, call);
}

static void ready_cb(flux_future_t *f, void *arg)
{
    struct histclient *c = arg;

    if (f == c->snapshot) {
        /* The service has ended it: a rank was lost, say.  What was gone before, was rightly so. */
        c->unkept = false;
        hl_drop_snapshot(c);
    } else if (++c->ready == c->n) {
        hl_finish(c);
    }
}

/* One request more; a NULL one could not be made, and ends the client. */
static void request(struct histclient *c, flux_future_t *f, unsigned key)
{
    c->f[c->n] = f;
    c->key[c->n++] = key;
}

/* All are there. */
static void asked(struct histclient *c, double timeout)
{
    history_asked(c->l->h, c->op);
    for (unsigned i = 0; i < c->n; i++) {
        if (!c->f[i] || flux_future_then(c->f[i], timeout, ready_cb, c) < 0) {
            hl_leave(c, false);
            return;
        }
    }
}

static size_t new_token(struct histclient *c, char *buf, size_t size)
{
    return (size_t)snprintf(buf, size, "%u.%u", c->id, ++c->tokens);
}

/* A write of a key, into the transaction and into the history. */
static void write_key(struct histclient *c, flux_kvs_txn_t *txn, unsigned key,
                      enum hist_item_kind kind)
{
    histload_t *l = c->l;
    char token[24];
    size_t size = 0;

    if (kind == HIST_UNLINK) {
        history_ask(l->h, c->op, kind, l->name[key], NULL, 0);
        c->bad |= flux_kvs_txn_unlink(txn, l->name[key], 0, NULL) < 0;
        return;
    }
    history_ask(l->h, c->op, kind, l->name[key], token, new_token(c, token, sizeof(token)));
    if (l->cfg.value_max > 0 && rng_chance(&l->rng, l->cfg.large))
        size = rng_below(&l->rng, (uint32_t)l->cfg.value_max);
    char *buf = malloc(size + sizeof(token) + 1);
    if (!buf) {
        c->bad = true;
        return;
    }
    size = history_encode(buf, token, size);
    if (kind == HIST_APPEND)
        c->bad |= flux_kvs_txn_append(txn, l->name[key], buf, size, NULL) < 0;
    else
        c->bad |= flux_kvs_txn_put_raw(txn, l->name[key], buf, size, NULL) < 0;
    free(buf);
}

/* Some plain keys. */
static void write_keys(struct histclient *c, flux_kvs_txn_t *txn)
{
    histload_t *l = c->l;
    unsigned n = rng_range(&l->rng, 1, 4), first = rng_below(&l->rng, l->cfg.keys);

    for (unsigned i = 0; i < n && i < l->cfg.keys; i++)
        write_key(c, txn, (first + i) % l->cfg.keys,
                  rng_chance(&l->rng, 0.08) ? HIST_UNLINK : HIST_PUT);
}

void hl_ask_commit(struct histclient *c)
{
    histload_t *l = c->l;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    unsigned what = rng_below(&l->rng, 10);

    begin(c, DO_COMMIT, HIST_COMMIT);
    if (txn && c->next_guard) {
        const char *key = l->name[c->guard_key];
        const struct memory *m = &c->memory[c->guard_key];
        history_ask(l->h, c->op, HIST_GUARD, key, m->data, m->len);
        c->bad |= flux_kvs_txn_guard(txn, key, m->data ? m->tag : NULL, NULL) < 0;
        write_key(c, txn, c->guard_key,
                  m->data && rng_chance(&l->rng, 0.1) ? HIST_UNLINK : HIST_PUT);
        what = 9;
    } else if (txn && l->cfg.append_keys > 0 && what < 4) {
        unsigned key = l->cfg.keys + rng_below(&l->rng, l->cfg.append_keys);
        write_key(c, txn, key, rng_chance(&l->rng, 0.05) ? HIST_PUT : HIST_APPEND);
    }
    if (txn && (what < 2 || what >= 4))
        write_keys(c, txn);
    c->next_guard = false;
    request(c, txn && !c->bad ? flux_kvs_commit(c->h, l->cfg.ns, txn) : NULL, 0);
    flux_kvs_txn_destroy(txn);
    asked(c, -1.);
}

bool hl_fence_open(const histload_t *l)
{
    return l->fence.called < l->fence.size;
}

void hl_ask_fence(struct histclient *c)
{
    histload_t *l = c->l;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();

    if (!hl_fence_open(l)) {
        unsigned max = l->nclients < l->cfg.fence_max ? l->nclients : l->cfg.fence_max;
        l->fence.size = rng_range(&l->rng, 1, max > 0 ? max : 1);
        l->fence.called = 0;
        snprintf(l->fence.name, sizeof(l->fence.name), "%.20s-%u-%u", l->cfg.dir,
                 l->cfg.first_client, ++l->fence.number);
    }
    l->fence.called++;
    begin(c, DO_FENCE, HIST_FENCE);
    history_set_fence(l->h, c->op, l->fence.name, l->fence.size);
    if (txn)
        write_keys(c, txn);
    request(c,
            txn && !c->bad ? flux_kvs_fence(c->h, l->cfg.ns, l->fence.name, l->fence.size, txn)
                           : NULL,
            0);
    flux_kvs_txn_destroy(txn);
    c->in_fence = true;
    c->fence = l->fence.number;
    flux_timer_start(c->timer, l->cfg.fence_timeout * (0.5 + rng_real(&l->rng)), 0.);
    asked(c, -1.);
}

void hl_ask_get(struct histclient *c, enum what what, unsigned key, int flags)
{
    histload_t *l = c->l;

    begin(c, what, HIST_GET);
    history_ask(l->h, c->op, HIST_KEY, l->name[key], NULL, 0);
    request(c, flux_kvs_lookup(c->h, l->cfg.ns, l->name[key], flags, NULL), key);
    asked(c, -1.);
}

void hl_ask_get_at(struct histclient *c, const char *root)
{
    histload_t *l = c->l;
    unsigned n = rng_range(&l->rng, 1, ASK_MAX), first = rng_below(&l->rng, l->nkeys);

    begin(c, DO_GET_AT, HIST_GET);
    history_set_at(l->h, c->op, root);
    snprintf(c->asked_root, sizeof(c->asked_root), "%s", root);
    for (unsigned i = 0; i < n && i < l->nkeys; i++) {
        unsigned key = (first + i) % l->nkeys;
        history_ask(l->h, c->op, HIST_KEY, l->name[key], NULL, 0);
        request(c, flux_kvs_lookup(c->h, l->cfg.ns, l->name[key], 0, root), key);
    }
    asked(c, -1.);
}

void hl_ask_list(struct histclient *c, enum what what)
{
    histload_t *l = c->l;

    begin(c, what, HIST_GET);
    for (unsigned i = 0; i < l->nkeys; i++)
        history_ask(l->h, c->op, HIST_KEY, l->name[i], NULL, 0);
    request(c, flux_kvs_readdir(c->h, l->cfg.ns, l->cfg.dir, FLUX_KVS_VALUES, NULL), 0);
    asked(c, -1.);
}

void hl_ask_version(struct histclient *c, enum what what)
{
    histload_t *l = c->l;

    begin(c, what, HIST_VERSION);
    request(c,
            what == DO_SNAPSHOT ? flux_kvs_snapshot(c->h, l->cfg.ns, NULL)
                                : flux_kvs_version(c->h, l->cfg.ns),
            0);
    asked(c, -1.);
}

void hl_ask_wait(struct histclient *c, enum what what, uint64_t version)
{
    histload_t *l = c->l;

    begin(c, what, HIST_WAIT);
    history_set_want(l->h, c->op, version);
    request(c, flux_kvs_wait_version(c->h, l->cfg.ns, version), 0);
    asked(c, l->cfg.wait_timeout);
}

void hl_drop_snapshot(struct histclient *c)
{
    flux_future_destroy(c->snapshot);
    c->snapshot = NULL;
}
