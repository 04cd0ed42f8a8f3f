/* histmodel.c - a master with a list of versions, brokers that are behind it, and clients.
 *
 * A step is one of: the master applies all commits that wait in one root change; a broker learns of
 * a newer version; a client asks something, or is answered.  What a key held is kept for all
 * versions, so that reads at old roots can be answered.
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "../sim/rng.h"
#include "histmodel.h"

#define APPEND_KEYS 4
#define GUARD_KEYS 3
#define APPEND_MAX 24 /* tokens, before it is put anew */
#define FENCE_MAX 6

struct state {
    uint64_t version; /* from this one on */
    struct hist_item value;
};
struct mkey {
    char name[16];
    uint32_t id;
    struct state *states;
    size_t n, cap;
};
struct client {
    uint32_t id, rank;
    bool busy;
    size_t op;
    bool refused, lost, dropped;
    uint64_t root_known; /* a version whose root it has */
};
struct fence {
    char name[24];
    unsigned size, called;
};
struct histmodel {
    struct histmodel_config cfg;
    struct rng rng;
    history_t *h;
    struct mkey *keys;
    unsigned nkeys;
    struct client *clients;
    uint64_t *rank_version;
    uint64_t version;
    uint64_t *applied; /* by operation */
    size_t applied_cap;
    size_t *queue; /* operations that wait at the master */
    size_t nqueue, queue_cap;
    struct fence fence; /* the one being called */
    unsigned nfences;
    unsigned tokens;
};

static void *need(void *p)
{
    if (!p) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return p;
}

static void *more(void *array, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 64;
    return need(realloc(array, *cap * size));
}

static struct hist_item value_at(const struct mkey *k, uint64_t version)
{
    size_t lo = 0, hi = k->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k->states[mid].version <= version)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return (struct hist_item){.kind = HIST_RESULT, .absent = true, .key = k->id};
    return k->states[lo - 1].value;
}

static struct mkey *key_of(const histmodel_t *m, uint32_t id)
{
    for (unsigned i = 0; i < m->nkeys; i++) {
        if (m->keys[i].id == id)
            return &m->keys[i];
    }
    return NULL;
}

/* --- the master --- */

static void set_value(histmodel_t *m, struct mkey *k, const struct hist_item *value)
{
    if (k->n > 0 && k->states[k->n - 1].version == m->version) {
        k->states[k->n - 1].value = *value;
        return;
    }
    k->states = more(k->states, &k->cap, k->n, sizeof(*k->states));
    k->states[k->n++] = (struct state){m->version, *value};
}

static bool guards_hold(histmodel_t *m, const struct hist_op *o)
{
    for (uint32_t i = 0; i < o->nitems; i++) {
        const struct hist_item *g = history_item_at(m->h, o->items + i);
        if (g->kind != HIST_GUARD)
            continue;
        struct hist_item now = value_at(key_of(m, g->key), m->version);
        if (now.absent != g->absent || now.ntokens != g->ntokens)
            return false;
        for (uint32_t k = 0; k < now.ntokens; k++) {
            if (*history_token_at(m->h, now.tokens + k) != *history_token_at(m->h, g->tokens + k))
                return false;
        }
    }
    return true;
}

static void apply(histmodel_t *m, size_t op)
{
    for (uint32_t i = 0; i < history_op(m->h, op)->nitems; i++) {
        struct hist_item it = *history_item_at(m->h, history_op(m->h, op)->items + i);
        if (it.kind == HIST_GUARD)
            continue;
        struct mkey *k = key_of(m, it.key);
        struct hist_item v = value_at(k, m->version);
        struct hist_item result = {.kind = HIST_RESULT, .key = it.key};
        if (it.kind == HIST_UNLINK) {
            result.absent = true;
        } else {
            uint32_t old = it.kind == HIST_APPEND ? v.ntokens : 0, at = 0;
            if (old > 0)
                at = history_add_tokens(m->h, history_token_at(m->h, v.tokens), old);
            uint32_t last = history_add_tokens(m->h, history_token_at(m->h, it.tokens), 1);
            result.tokens = old > 0 ? at : last;
            result.ntokens = old + 1;
        }
        set_value(m, k, &result);
    }
    m->applied[op] = m->version;
}

static void root_change(histmodel_t *m)
{
    if (m->nqueue == 0)
        return;
    m->version++;
    for (size_t i = 0; i < m->nqueue; i++) {
        if (guards_hold(m, history_op(m->h, m->queue[i])))
            apply(m, m->queue[i]);
        else
            m->applied[m->queue[i]] = HIST_NEVER;
    }
    m->nqueue = 0;
    m->rank_version[0] = m->version;
}

static void enqueue(histmodel_t *m, size_t op)
{
    m->queue = more(m->queue, &m->queue_cap, m->nqueue, sizeof(*m->queue));
    m->queue[m->nqueue++] = op;
}

/* --- clients --- */

static const char *root_name(uint64_t version, char *buf, size_t size)
{
    snprintf(buf, size, "root-%llu", (unsigned long long)version);
    return buf;
}

static void ask_token(histmodel_t *m, size_t op, enum hist_item_kind kind, const struct mkey *k)
{
    char token[24];
    int len = snprintf(token, sizeof(token), "t%u", ++m->tokens);

    history_ask(m->h, op, kind, k->name, token, (size_t)len);
}

static void ask_writes(histmodel_t *m, struct client *c, bool fence)
{
    unsigned what = rng_below(&m->rng, 10), n = rng_range(&m->rng, 1, 4);

    if (what < 2) { /* append */
        const struct mkey *k = &m->keys[m->cfg.keys + rng_below(&m->rng, APPEND_KEYS)];
        bool full = value_at(k, m->version).ntokens >= APPEND_MAX;
        ask_token(m, c->op, full ? HIST_PUT : HIST_APPEND, k);
    } else if (what < 4 && !fence) { /* compare and set, with a value as this broker knows it */
        const struct mkey *k = &m->keys[m->cfg.keys + APPEND_KEYS + rng_below(&m->rng, GUARD_KEYS)];
        struct hist_item v = value_at(k, m->rank_version[c->rank]);
        char buf[40] = "";
        if (!v.absent)
            snprintf(buf, sizeof(buf), "%s;",
                     history_name(m->h, HIST_TOKENS, *history_token_at(m->h, v.tokens)));
        history_ask(m->h, c->op, HIST_GUARD, k->name, v.absent ? NULL : buf, strlen(buf));
        if (!v.absent && rng_chance(&m->rng, 0.1))
            history_ask(m->h, c->op, HIST_UNLINK, k->name, NULL, 0);
        else
            ask_token(m, c->op, HIST_PUT, k);
    }
    unsigned first = rng_below(&m->rng, m->cfg.keys);
    for (unsigned i = 0; i < n; i++) {
        const struct mkey *k = &m->keys[(first + i) % m->cfg.keys];
        if (rng_chance(&m->rng, 0.05))
            history_ask(m->h, c->op, HIST_UNLINK, k->name, NULL, 0);
        else
            ask_token(m, c->op, HIST_PUT, k);
    }
}

static void ask_commit(histmodel_t *m, struct client *c, bool fence)
{
    c->op = history_begin(m->h, 0, c->id, c->rank, NULL, fence ? HIST_FENCE : HIST_COMMIT);
    if (fence)
        history_set_fence(m->h, c->op, m->fence.name, m->fence.size);
    ask_writes(m, c, fence);
    history_asked(m->h, c->op);
    c->refused = !fence && rng_chance(&m->rng, m->cfg.refused);
    c->lost = !c->refused && rng_chance(&m->rng, m->cfg.unknown);
    c->dropped = !fence && c->lost && rng_chance(&m->rng, 0.4);
    m->applied = more(m->applied, &m->applied_cap, c->op, sizeof(*m->applied));
    m->applied[c->op] = 0;
    if (!fence && !c->refused && !c->dropped)
        enqueue(m, c->op);
}

/* All that call a fence, one after the other; it is complete with the last. */
static void ask_fence(histmodel_t *m, struct client *c)
{
    struct fence *f = &m->fence;

    if (f->called == f->size) {
        unsigned idle = 0;
        for (unsigned i = 0; i < m->cfg.clients; i++)
            idle += !m->clients[i].busy;
        f->size = idle < 1 ? 1 : rng_range(&m->rng, 1, idle < FENCE_MAX ? idle : FENCE_MAX);
        f->called = 0;
        snprintf(f->name, sizeof(f->name), "fence-%u", ++m->nfences);
    }
    ask_commit(m, c, true);
    if (++f->called < f->size)
        return;
    for (unsigned i = 0; i < m->cfg.clients; i++) {
        const struct client *x = &m->clients[i];
        const struct hist_op *o = history_op(m->h, x->op);
        if (x->busy && o->call == HIST_FENCE && o->fence == history_op(m->h, c->op)->fence &&
            x != c)
            enqueue(m, x->op);
    }
    enqueue(m, c->op);
    root_change(m);
}

static void ask_get(histmodel_t *m, struct client *c)
{
    char root[32];
    unsigned n = rng_range(&m->rng, 1, 5), first = rng_below(&m->rng, m->nkeys);

    c->op = history_begin(m->h, 0, c->id, c->rank, NULL, HIST_GET);
    if (c->root_known && rng_chance(&m->rng, 0.2))
        history_set_at(m->h, c->op, root_name(c->root_known, root, sizeof(root)));
    for (unsigned i = 0; i < n; i++)
        history_ask(m->h, c->op, HIST_KEY, m->keys[(first + i) % m->nkeys].name, NULL, 0);
}

static void ask(histmodel_t *m, struct client *c)
{
    unsigned what = rng_below(&m->rng, 100);
    bool fence_open = m->fence.called < m->fence.size;

    c->busy = true;
    c->lost = c->refused = c->dropped = false;
    if (what < 35)
        ask_commit(m, c, false);
    else if (what < 38 || (fence_open && what < 50))
        ask_fence(m, c);
    else if (what < 85)
        ask_get(m, c);
    else if (what < 92) {
        c->op = history_begin(m->h, 0, c->id, c->rank, NULL, HIST_VERSION);
    } else {
        /* For a version that somebody has been told, here or elsewhere. */
        c->op = history_begin(m->h, 0, c->id, c->rank, NULL, HIST_WAIT);
        history_set_want(m->h, c->op, m->version - rng_below(&m->rng, m->version < 3 ? 1 : 3));
    }
    m->applied = more(m->applied, &m->applied_cap, c->op, sizeof(*m->applied));
    if (history_op(m->h, c->op)->call != HIST_FENCE)
        m->applied[c->op] = 0;
}

static void got(histmodel_t *m, size_t op, const struct hist_item *v)
{
    char buf[APPEND_MAX * 16 + 64];
    size_t len = 0;

    for (uint32_t i = 0; i < v->ntokens; i++)
        len += history_encode(
            buf + len, history_name(m->h, HIST_TOKENS, *history_token_at(m->h, v->tokens + i)), 0);
    history_got(m->h, op, history_name(m->h, HIST_KEYS, v->key), v->absent ? NULL : buf, len);
}

static void answer_get(histmodel_t *m, struct client *c)
{
    const struct hist_op *o = history_op(m->h, c->op);
    uint64_t v = o->at ? c->root_known : m->rank_version[c->rank];
    bool untold = o->at != 0;

    /* A single key that is not there: its absence comes without a version. */
    if (!untold && o->nitems == 1)
        untold = value_at(key_of(m, history_item_at(m->h, o->items)->key), v).absent;
    history_answer(m->h, c->op, 0, HIST_OK, 0, untold ? HIST_NO_VERSION : v, NULL);
    for (uint32_t i = 0; i < history_op(m->h, c->op)->nitems; i++) {
        uint32_t key = history_item_at(m->h, history_op(m->h, c->op)->items + i)->key;
        struct hist_item value = value_at(key_of(m, key), v);
        got(m, c->op, &value);
    }
}

/* Answer it, if that can be done now. */
static void answer(histmodel_t *m, struct client *c)
{
    const struct hist_op *o = history_op(m->h, c->op);
    uint64_t *here = &m->rank_version[c->rank];
    char root[32];

    if (o->call == HIST_COMMIT || o->call == HIST_FENCE) {
        uint64_t v = m->applied[c->op];
        if (c->refused)
            history_answer(m->h, c->op, 0, HIST_FAIL, 22, HIST_NO_VERSION, NULL);
        else if (c->lost && (o->call == HIST_COMMIT || v != 0))
            history_answer(m->h, c->op, 0, HIST_UNKNOWN, 113, HIST_NO_VERSION, NULL);
        else if (v == HIST_NEVER)
            history_answer(m->h, c->op, 0, HIST_FAIL, 11, HIST_NO_VERSION, NULL);
        else if (v == 0)
            return;
        else {
            if (*here < v)
                *here = v;
            history_answer(m->h, c->op, 0, HIST_OK, 0, v, root_name(v, root, sizeof(root)));
            c->root_known = v;
        }
    } else if (o->call == HIST_GET) {
        answer_get(m, c);
    } else {
        if (o->call == HIST_WAIT && *here < o->want)
            return;
        history_answer(m->h, c->op, 0, HIST_OK, 0, *here, root_name(*here, root, sizeof(root)));
        c->root_known = *here;
    }
    history_answered(m->h, c->op);
    c->busy = false;
}

static void step(histmodel_t *m)
{
    unsigned what = rng_below(&m->rng, 10);

    if (what == 0) {
        root_change(m);
    } else if (what == 1) {
        uint32_t r = rng_below(&m->rng, m->cfg.ranks);
        m->rank_version[r] += rng_below(&m->rng, (uint32_t)(m->version - m->rank_version[r]) + 1);
    } else {
        struct client *c = &m->clients[rng_below(&m->rng, m->cfg.clients)];
        if (c->busy)
            answer(m, c);
        else
            ask(m, c);
    }
}

histmodel_t *histmodel_run(const struct histmodel_config *cfg)
{
    histmodel_t *m = need(calloc(1, sizeof(*m)));

    m->cfg = *cfg;
    rng_seed(&m->rng, cfg->seed);
    m->h = need(history_create());
    m->nkeys = cfg->keys + APPEND_KEYS + GUARD_KEYS;
    m->keys = need(calloc(m->nkeys, sizeof(*m->keys)));
    m->clients = need(calloc(cfg->clients, sizeof(*m->clients)));
    m->rank_version = need(calloc(cfg->ranks, sizeof(*m->rank_version)));
    for (unsigned i = 0; i < m->nkeys; i++) {
        struct mkey *k = &m->keys[i];
        unsigned n = i < cfg->keys                 ? i
                     : i < cfg->keys + APPEND_KEYS ? i - cfg->keys
                                                   : i - cfg->keys - APPEND_KEYS;
        snprintf(k->name, sizeof(k->name), "%c%u",
                 i < cfg->keys                 ? 'k'
                 : i < cfg->keys + APPEND_KEYS ? 'a'
                                               : 'g',
                 n);
        k->id = history_intern(m->h, HIST_KEYS, k->name, strlen(k->name));
    }
    for (unsigned i = 0; i < cfg->clients; i++)
        m->clients[i] = (struct client){.id = i + 1, .rank = rng_below(&m->rng, cfg->ranks)};
    while (history_count(m->h) < cfg->ops)
        step(m);
    root_change(m);
    for (unsigned i = 0; i < cfg->clients; i++) {
        struct client *c = &m->clients[i];
        m->rank_version[c->rank] = m->version;
        if (c->busy)
            answer(m, c);
    }
    return m;
}

void histmodel_destroy(histmodel_t *m)
{
    if (!m)
        return;
    for (unsigned i = 0; i < m->nkeys; i++)
        free(m->keys[i].states);
    history_destroy(m->h);
    free(m->keys);
    free(m->clients);
    free(m->rank_version);
    free(m->applied);
    free(m->queue);
    free(m);
}

history_t *histmodel_history(histmodel_t *m)
{
    return m->h;
}

struct hist_item histmodel_value(const histmodel_t *m, uint32_t key, uint64_t version)
{
    return value_at(key_of(m, key), version);
}

uint64_t histmodel_applied(const histmodel_t *m, size_t op)
{
    uint64_t v = op < m->applied_cap ? m->applied[op] : 0;

    return v == HIST_NEVER ? 0 : v;
}

uint64_t histmodel_version(const histmodel_t *m)
{
    return m->version;
}
