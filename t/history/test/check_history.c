/* check_history.c - the checker accepts what is valid, and names what is planted.
 *
 * Valid histories come from a model (histmodel.h).  Each kind of violation is then planted in one
 * of them, at a place where it is one for sure, for many seeds; it must be reported by its name.
 */
#include "config.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libutil/test/suite.h"
#include "history/histmodel.h"
#include "sim/rng.h"

#define SEEDS 40

static const struct histmodel_config config = {
    .ops = 3000, .clients = 24, .ranks = 6, .keys = 12, .unknown = 0.02, .refused = 0.02};
static const struct hist_options options = {.master_known = true, .master = 0};

struct plant {
    histmodel_t *m;
    history_t *h;
    struct rng rng;
    size_t n;
    uint32_t *writer; /* token -> operation plus one */
    uint64_t *rank_floor;
};

static struct hist_op *op(struct plant *p, size_t i)
{
    return history_op(p->h, i);
}

static bool is_commit(const struct hist_op *o)
{
    return o->call == HIST_COMMIT || o->call == HIST_FENCE;
}

static bool told(const struct hist_op *o)
{
    return o->outcome == HIST_OK && o->version != HIST_NO_VERSION && !o->at;
}

static uint32_t token(const struct plant *p, const struct hist_item *it, uint32_t i)
{
    return *history_token_at(p->h, it->tokens + i);
}

static bool same(const struct plant *p, const struct hist_item *a, const struct hist_item *b)
{
    if (a->absent != b->absent || a->ntokens != b->ntokens)
        return false;
    for (uint32_t i = 0; i < a->ntokens; i++) {
        if (token(p, a, i) != token(p, b, i))
            return false;
    }
    return true;
}

static struct hist_op *writer_of(struct plant *p, uint32_t tok)
{
    return p->writer[tok] ? op(p, p->writer[tok] - 1) : NULL;
}

static size_t writes(struct plant *p, const struct hist_op *o, uint32_t key)
{
    for (uint32_t i = 0; i < o->nitems; i++) {
        const struct hist_item *it = history_item_at(p->h, o->items + i);
        if (it->key == key && it->kind <= HIST_UNLINK)
            return i + 1;
    }
    return 0;
}

/* --- what is planted: each function tries one place, and says whether it was fit --- */

/* Operation `i`, result `k`, of a read whose version was told. */
#define READ(o, it)                                                                             \
    struct hist_op *o = op(p, i);                                                               \
    if (o->call != HIST_GET || !told(o) || o->nresults == 0)                                    \
        return false;                                                                           \
    struct hist_item *it = history_item_at(p->h, o->results + rng_below(&p->rng, o->nresults)); \
    if (it->absent)                                                                             \
    return false

/* The value before the one at hand, with the version of now. */
static bool stale(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, it->ntokens - 1));
    if (!w || w->outcome != HIST_OK || o->nresults != 1 || it->ntokens != 1)
        return false;
    struct hist_item old = histmodel_value(p->m, it->key, w->version - 1);
    if (old.absent || old.ntokens != 1 || writer_of(p, token(p, &old, 0))->outcome != HIST_OK)
        return false;
    /* Seen by another, so that it is not lost. */
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *r = op(p, k);
        if (k == i || r->call != HIST_GET)
            continue;
        for (uint32_t n = 0; n < r->nresults; n++) {
            const struct hist_item *x = history_item_at(p->h, r->results + n);
            if (x != it && x->key == it->key && same(p, x, it)) {
                it->tokens = old.tokens;
                return true;
            }
        }
    }
    return false;
}

/* A write that is acknowledged, and never seen. */
static bool lost(struct plant *p, size_t i)
{
    struct hist_op *w = op(p, i);
    bool any = false;
    if (w->call != HIST_COMMIT || w->outcome != HIST_OK || w->nitems != 1)
        return false;
    const struct hist_item *put = history_item_at(p->h, w->items);
    struct hist_item old = histmodel_value(p->m, put->key, w->version - 1);
    if (put->kind != HIST_PUT || old.absent || old.ntokens > 1)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *r = op(p, k);
        for (uint32_t n = 0; n < r->nresults; n++) {
            struct hist_item *x = history_item_at(p->h, r->results + n);
            if (x->key != put->key || x->absent || token(p, x, 0) != token(p, put, 0))
                continue;
            if (x->ntokens > 1)
                return false; /* appended to; not one that is tried twice */
            x->tokens = old.tokens;
            any |= told(r);
        }
    }
    return any;
}

/* A read of several keys at one root, of which one is from before a commit that shows in
 * another. */
static bool torn(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, it->ntokens - 1));
    if (!w || w->outcome != HIST_OK)
        return false;
    for (uint32_t n = 0; n < o->nresults; n++) {
        struct hist_item *x = history_item_at(p->h, o->results + n);
        if (x == it || x->absent || writer_of(p, token(p, x, x->ntokens - 1)) != w)
            continue;
        struct hist_item old = histmodel_value(p->m, it->key, w->version - 1);
        if (old.absent)
            return false;
        it->tokens = old.tokens;
        it->ntokens = old.ntokens;
        return true;
    }
    return false;
}

/* The same with a commit whose outcome is unknown. */
static bool torn_unknown(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, it->ntokens - 1));
    size_t at = w ? (size_t)(p->writer[token(p, it, it->ntokens - 1)] - 1) : 0;
    if (!w || w->outcome != HIST_UNKNOWN || w->call != HIST_COMMIT)
        return false;
    uint64_t v = histmodel_applied(p->m, at);
    for (uint32_t n = 0; n < o->nresults; n++) {
        struct hist_item *x = history_item_at(p->h, o->results + n);
        size_t k = writes(p, w, x->key);
        if (x == it || x->absent || !k ||
            history_item_at(p->h, w->items + k - 1)->kind != HIST_PUT ||
            token(p, x, 0) != token(p, history_item_at(p->h, w->items + k - 1), 0))
            continue;
        struct hist_item old = histmodel_value(p->m, it->key, v - 1);
        struct hist_op *before =
            old.absent || old.ntokens != 1 ? NULL : writer_of(p, token(p, &old, 0));
        /* What stood there is from a commit that is surely older. */
        if (!before || before->outcome != HIST_OK || before->answered > w->invoked ||
            it->ntokens > 1)
            return false;
        for (size_t y = 0; y < p->n; y++) {
            if (is_commit(op(p, y)) && told(op(p, y)) && op(p, y)->version == v &&
                writes(p, op(p, y), it->key))
                return false;
        }
        it->tokens = old.tokens;
        return true;
    }
    return false;
}

/* Newest operation of the same client before i for which `fit` holds, or of any client (any). */
static struct hist_op *earlier(struct plant *p, size_t i, bool any,
                               bool (*fit)(const struct hist_op *))
{
    const struct hist_op *o = op(p, i);

    for (size_t k = i; k > 0; k--) {
        struct hist_op *e = op(p, k - 1);
        if ((any || e->client == o->client) && e->answered < o->invoked && fit(e))
            return e;
    }
    return NULL;
}

static bool fit_own(const struct hist_op *o)
{
    return is_commit(o) && told(o);
}
static bool fit_wait(const struct hist_op *o)
{
    return o->call == HIST_WAIT && told(o);
}
static bool fit_seen(const struct hist_op *o)
{
    return (o->call == HIST_GET || o->call == HIST_VERSION) && told(o);
}

/* All of a read as it was at an older version. */
static void as_of(struct plant *p, struct hist_op *o, uint64_t version)
{
    o->version = version;
    for (uint32_t n = 0; n < o->nresults; n++) {
        struct hist_item *x = history_item_at(p->h, o->results + n);
        *x = histmodel_value(p->m, x->key, version);
    }
}

static bool older_than(struct plant *p, size_t i, bool (*fit)(const struct hist_op *),
                       bool (*not1)(const struct hist_op *), bool (*not2)(const struct hist_op *))
{
    struct hist_op *o = op(p, i);
    struct hist_op *e = o->call == HIST_GET && told(o) ? earlier(p, i, false, fit) : NULL;
    struct hist_op *a = e ? earlier(p, i, false, not1) : NULL;
    struct hist_op *b = e ? earlier(p, i, false, not2) : NULL;
    if (!e || e->version < 2 || (a && a->version >= e->version) || (b && b->version >= e->version))
        return false;
    as_of(p, o, e->version - 1);
    return true;
}

static bool own_writes(struct plant *p, size_t i)
{
    return older_than(p, i, fit_own, fit_wait, fit_seen);
}
static bool causal(struct plant *p, size_t i)
{
    return older_than(p, i, fit_wait, fit_own, fit_seen);
}
static bool monotonic(struct plant *p, size_t i)
{
    return older_than(p, i, fit_seen, fit_own, fit_wait);
}

static bool broker(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    uint64_t mine = 0, others = 0;
    if (o->call != HIST_GET || !told(o) || o->rank == 0)
        return false;
    for (size_t k = 0; k < i; k++) {
        const struct hist_op *e = op(p, k);
        if (!told(e) || e->answered > o->invoked)
            continue;
        if (e->client == o->client)
            mine = e->version > mine ? e->version : mine;
        else if (e->rank == o->rank)
            others = e->version > others ? e->version : others;
    }
    if (others <= mine || others < 2)
        return false;
    as_of(p, o, others - 1);
    return true;
}

static bool master(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    uint64_t here = 0, all = 0;
    if (o->call != HIST_GET || !told(o) || o->rank != 0)
        return false;
    for (size_t k = 0; k < i; k++) {
        const struct hist_op *e = op(p, k);
        if (!told(e) || e->answered > o->invoked)
            continue;
        all = e->version > all ? e->version : all;
        if (e->client == o->client || e->rank == o->rank)
            here = e->version > here ? e->version : here;
    }
    if (all <= here || all < 2)
        return false;
    as_of(p, o, all - 1);
    return true;
}

/* A commit whose version is told as that of one that its client knew before. */
static bool follows(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    struct hist_op *e = o->call == HIST_COMMIT && told(o) ? earlier(p, i, false, told) : NULL;
    if (!e)
        return false;
    o->version = e->version;
    o->root = e->root;
    return true;
}

static bool realtime(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    uint64_t mine = 0, all = 0;
    if (o->call != HIST_COMMIT || !told(o))
        return false;
    for (size_t k = 0; k < i; k++) {
        const struct hist_op *e = op(p, k);
        if (!told(e) || e->answered > o->invoked)
            continue;
        if (e->client == o->client)
            mine = e->version > mine ? e->version : mine;
        all = e->version > all ? e->version : all;
    }
    if (all <= mine)
        return false;
    o->version = all;
    o->root = 0;
    return true;
}

static bool wait_early(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    if (!fit_wait(o))
        return false;
    o->want = o->version + 1;
    return true;
}

static bool two_roots(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    if (!told(o) || !o->root)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *e = op(p, k);
        if (k != i && told(e) && e->version == o->version && e->root) {
            o->root = history_intern(p->h, HIST_ROOTS, "root-changed", 12);
            return true;
        }
    }
    return false;
}

static bool root_again(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    const struct hist_item *it = o->nitems ? history_item_at(p->h, o->items) : NULL;
    if (o->call != HIST_COMMIT || !told(o) || !it || it->kind != HIST_PUT)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *e = op(p, k);
        size_t n = is_commit(e) && (e->outcome != HIST_OK || e->version == o->version)
                       ? writes(p, e, it->key)
                       : 0;
        if (n && history_item_at(p->h, e->items + n - 1)->kind == HIST_UNLINK)
            return false;
    }
    struct hist_op *e = earlier(p, i, true, fit_own);
    if (!e || e->version >= o->version)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        struct hist_op *x = op(p, k);
        if (told(x) && x->version == o->version)
            x->root = e->root;
    }
    return true;
}

static bool failed_seen(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, 0));
    if (!w || w->call != HIST_COMMIT)
        return false;
    w->outcome = HIST_FAIL;
    w->version = HIST_NO_VERSION;
    return true;
}

static bool nowhere(struct plant *p, size_t i)
{
    READ(o, it);
    uint32_t t = history_intern(p->h, HIST_TOKENS, "nobody", 6);
    uint32_t at = history_add_tokens(p->h, &t, 1);
    it->tokens = at;
    it->ntokens = 1;
    return true;
}

static bool wrong_key(struct plant *p, size_t i)
{
    READ(o, it);
    for (uint32_t n = 0; n < o->nresults; n++) {
        struct hist_item *x = history_item_at(p->h, o->results + n);
        if (x->key != it->key && !x->absent) {
            it->tokens = x->tokens;
            it->ntokens = x->ntokens;
            return true;
        }
    }
    return false;
}

static bool future(struct plant *p, size_t i)
{
    READ(o, it);
    if (it->ntokens != 1)
        return false;
    for (size_t k = i + 1; k < p->n; k++) {
        const struct hist_op *w = op(p, k);
        size_t n = w->call == HIST_COMMIT && w->outcome == HIST_OK && w->invoked > o->answered
                       ? writes(p, w, it->key)
                       : 0;
        if (n && history_item_at(p->h, w->items + n - 1)->kind == HIST_PUT) {
            it->tokens = history_item_at(p->h, w->items + n - 1)->tokens;
            return true;
        }
    }
    return false;
}

static bool double_append(struct plant *p, size_t i)
{
    READ(o, it);
    if (it->ntokens < 2)
        return false;
    uint32_t twice = token(p, it, it->ntokens - 1);
    uint32_t at = history_add_tokens(p->h, history_token_at(p->h, it->tokens), it->ntokens);
    history_add_tokens(p->h, &twice, 1);
    it->tokens = at;
    it->ntokens++;
    return true;
}

/* Version of the put that a value begins with.  (What is appended with that version may have come
 * before it.) */
static uint64_t based_on(struct plant *p, const struct hist_item *it)
{
    const struct hist_op *w = writer_of(p, token(p, it, 0));

    return w->outcome == HIST_OK ? w->version : HIST_NEVER;
}

static bool lost_append(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, it->ntokens - 1));
    if (it->ntokens < 2 || w->outcome != HIST_OK || o->nresults != 1 ||
        w->version <= based_on(p, it))
        return false;
    it->ntokens--;
    return true;
}

/* Not the last one, but one in the middle. */
static bool hole_append(struct plant *p, size_t i)
{
    READ(o, it);
    if (it->ntokens < 3 || o->nresults != 1)
        return false;
    const struct hist_op *w = writer_of(p, token(p, it, it->ntokens - 2));
    if (w->outcome != HIST_OK || w->version <= based_on(p, it))
        return false;
    uint32_t last = token(p, it, it->ntokens - 1);
    it->tokens = history_add_tokens(p->h, history_token_at(p->h, it->tokens), it->ntokens - 1);
    *history_token_at(p->h, it->tokens + it->ntokens - 2) = last;
    it->ntokens--;
    return true;
}

static bool swapped_append(struct plant *p, size_t i)
{
    READ(o, it);
    if (it->ntokens < 3)
        return false;
    uint32_t a = token(p, it, it->ntokens - 2), b = token(p, it, it->ntokens - 1);
    struct hist_op *x = writer_of(p, a), *y = writer_of(p, b);
    if (x->outcome != HIST_OK || y->outcome != HIST_OK || x->version == y->version)
        return false;
    uint32_t at = history_add_tokens(p->h, history_token_at(p->h, it->tokens), it->ntokens);
    *history_token_at(p->h, at + it->ntokens - 2) = b;
    *history_token_at(p->h, at + it->ntokens - 1) = a;
    it->tokens = at;
    return true;
}

/* A refused compare-and-set is told as successful, too. */
static bool two_winners(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    if (o->call != HIST_COMMIT || o->outcome != HIST_FAIL || o->nitems == 0)
        return false;
    const struct hist_item *g = history_item_at(p->h, o->items);
    if (g->kind != HIST_GUARD)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *w = op(p, k);
        if (w->call != HIST_COMMIT || w->outcome != HIST_OK || w->nitems == 0)
            continue;
        const struct hist_item *x = history_item_at(p->h, w->items);
        if (x->kind != HIST_GUARD || x->key != g->key || !same(p, x, g) || g->absent ||
            w->answered < o->invoked || w->invoked > o->answered)
            continue;
        o->outcome = HIST_OK;
        o->version = w->version;
        o->root = w->root;
        return true;
    }
    return false;
}

/* A guard for a state that is long past. */
static bool wrong_guard(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    struct hist_item *g = o->nitems ? history_item_at(p->h, o->items) : NULL;
    if (o->call != HIST_COMMIT || o->outcome != HIST_OK || !g || g->kind != HIST_GUARD || g->absent)
        return false;
    struct hist_op *w = writer_of(p, token(p, g, 0));
    struct hist_item old =
        w->outcome == HIST_OK ? histmodel_value(p->m, g->key, w->version - 1) : *g;
    if (w->outcome != HIST_OK || old.absent)
        return false;
    g->tokens = old.tokens;
    return true;
}

static bool fence_versions(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    if (o->call != HIST_FENCE || !told(o) || o->nprocs < 2)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *e = op(p, k);
        if (k != i && e->call == HIST_FENCE && e->fence == o->fence && told(e)) {
            o->version++;
            o->root = 0;
            return true;
        }
    }
    return false;
}

static bool fence_early(struct plant *p, size_t i)
{
    struct hist_op *o = op(p, i);
    if (o->call != HIST_FENCE || !told(o))
        return false;
    for (size_t k = 0; k < p->n; k++) {
        if (op(p, k)->call == HIST_FENCE && op(p, k)->fence == o->fence)
            op(p, k)->nprocs = o->nprocs + 1;
    }
    return true;
}

/* Two readers at one version, who disagree about which of two writes of one root change is last. */
static bool two_contents(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, 0));
    if (!w || w->outcome != HIST_OK || it->ntokens != 1)
        return false;
    bool seen = false;
    for (size_t k = 0; k < p->n && !seen; k++) {
        const struct hist_op *r = op(p, k);
        for (uint32_t n = 0; n < r->nresults; n++) {
            const struct hist_item *x = history_item_at(p->h, r->results + n);
            seen |= x != it && x->key == it->key && same(p, x, it) && told(r);
        }
    }
    for (size_t k = 0; k < p->n && seen; k++) {
        const struct hist_op *y = op(p, k);
        size_t n = y != w && y->call == HIST_COMMIT && told(y) && y->version == w->version
                       ? writes(p, y, it->key)
                       : 0;
        if (n && history_item_at(p->h, y->items + n - 1)->kind == HIST_PUT) {
            it->tokens = history_item_at(p->h, y->items + n - 1)->tokens;
            return true;
        }
    }
    return false;
}

static bool absent(struct plant *p, size_t i)
{
    READ(o, it);
    struct hist_op *w = writer_of(p, token(p, it, 0));
    if (!w || w->outcome != HIST_OK || o->nresults != 1)
        return false;
    for (size_t k = 0; k < p->n; k++) {
        const struct hist_op *e = op(p, k);
        size_t n = is_commit(e) ? writes(p, e, it->key) : 0;
        if (n && history_item_at(p->h, e->items + n - 1)->kind == HIST_UNLINK &&
            (e->outcome != HIST_OK || e->version == w->version))
            return false;
    }
    it->absent = true;
    it->ntokens = 0;
    return true;
}

static const struct {
    const char *name;
    bool (*plant)(struct plant *p, size_t op);
    enum hist_kind kinds[3]; /* any of these names it; ends with malformed */
} plants[] = {
    {"stale read", stale, {HV_STALE}},
    {"a key that is gone", absent, {HV_STALE, HV_LOST}},
    {"lost update", lost, {HV_LOST}},
    {"torn commit", torn, {HV_TORN}},
    {"torn commit of unknown outcome", torn_unknown, {HV_TORN}},
    {"own write not read", own_writes, {HV_OWN_WRITES}},
    {"read goes back", monotonic, {HV_MONOTONIC}},
    {"causality break", causal, {HV_CAUSAL}},
    {"broker goes back", broker, {HV_BROKER}},
    {"master goes back", master, {HV_MASTER}},
    {"commit does not follow reads", follows, {HV_FOLLOWS}},
    {"commits out of real time", realtime, {HV_REALTIME}},
    {"wait ends early", wait_early, {HV_WAIT}},
    {"root changed for a version", two_roots, {HV_ROOT}},
    {"root comes back", root_again, {HV_ROOT}},
    {"failed commit seen", failed_seen, {HV_FAILED}},
    {"value from nowhere", nowhere, {HV_NOWHERE}},
    {"value of another key", wrong_key, {HV_NOWHERE}},
    {"value from the future", future, {HV_FUTURE}},
    {"double append", double_append, {HV_APPEND_TWICE}},
    {"lost append", lost_append, {HV_APPEND_LOST}},
    {"append missing in the middle", hole_append, {HV_APPEND_LOST}},
    {"appends swapped", swapped_append, {HV_APPEND_ORDER}},
    {"two winners", two_winners, {HV_WINNERS}},
    {"guard passed wrongly", wrong_guard, {HV_GUARD, HV_WINNERS}},
    {"fence with two versions", fence_versions, {HV_FENCE}},
    {"fence over too early", fence_early, {HV_FENCE}},
    {"two contents of a version", two_contents, {HV_CONTENTS, HV_TORN}},
};
#define NPLANTS ((int)(sizeof(plants) / sizeof(plants[0])))

static histmodel_t *model(uint64_t seed, unsigned ops)
{
    struct histmodel_config c = config;

    c.seed = seed;
    c.ops = ops ? ops : c.ops;
    return histmodel_run(&c);
}

static void show(const struct hist_report *r)
{
    for (size_t i = 0; i < r->count && i < 3; i++)
        printf("%s\n", r->first[i].text);
}

START_TEST(valid)
{
    struct hist_report r;

    for (uint64_t seed = 1; seed <= SEEDS * 3; seed++) {
        histmodel_t *m = model(seed, 0);
        ck_assert_int_eq(history_check(histmodel_history(m), &options, &r), 0);
        show(&r);
        ck_assert_msg(r.count == 0, "seed %llu: %s", (unsigned long long)seed, r.first[0].text);
        ck_assert_uint_gt(r.commits, 500);
        ck_assert_uint_gt(r.unknown, 0);
        ck_assert_uint_gt(r.unknown_seen, 0);
        ck_assert_uint_gt(r.guards_passed, 10);
        histmodel_destroy(m);
    }
}
END_TEST

/* Plant it at the first fit place after a random one; false when this history has none. */
static bool plant(struct plant *p, bool (*try)(struct plant *, size_t))
{
    size_t first = rng_below(&p->rng, (uint32_t)p->n);

    for (size_t i = 0; i < p->n; i++) {
        if (try(p, (first + i) % p->n))
            return true;
    }
    return false;
}

START_TEST(planted)
{
    unsigned done = 0, caught = 0;
    struct hist_report *r = malloc(sizeof(*r));

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct plant p = {.m = model(seed + 1000, 0)};
        p.h = histmodel_history(p.m);
        p.n = history_count(p.h);
        rng_seed(&p.rng, seed);
        p.writer = calloc(history_names(p.h, HIST_TOKENS) + 16, sizeof(*p.writer));
        for (size_t i = 0; i < p.n; i++) {
            for (uint32_t k = 0; is_commit(op(&p, i)) && k < op(&p, i)->nitems; k++) {
                const struct hist_item *it = history_item_at(p.h, op(&p, i)->items + k);
                if (it->kind == HIST_PUT || it->kind == HIST_APPEND)
                    p.writer[token(&p, it, 0)] = (uint32_t)i + 1;
            }
        }
        if (plant(&p, plants[_i].plant)) {
            done++;
            ck_assert_int_eq(history_check(p.h, &options, r), 0);
            size_t named = r->of_kind[plants[_i].kinds[0]];
            if (plants[_i].kinds[1])
                named += r->of_kind[plants[_i].kinds[1]];
            if (!named)
                show(r);
            ck_assert_msg(named > 0, "%s, seed %llu: %zu violations, none of that name: %s",
                          plants[_i].name, (unsigned long long)seed, r->count,
                          r->count ? r->first[0].text : "-");
            caught++;
        }
        free(p.writer);
        histmodel_destroy(p.m);
    }
    printf("%-32s planted in %u of %u histories, named in %u\n", plants[_i].name, done, SEEDS,
           caught);
    ck_assert_msg(done >= SEEDS / 4, "%s: planted in %u histories only", plants[_i].name, done);
    free(r);
}
END_TEST

static char *dump(const history_t *h)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    ck_assert_int_eq(history_write(h, f), 0);
    fclose(f);
    return text;
}

/* What is written can be read, and is then the same. */
START_TEST(log_file)
{
    histmodel_t *m = model(5, 0);
    history_t *h = history_create();
    errmsg_t err = {""};
    struct hist_report r;
    char *text = dump(histmodel_history(m));
    FILE *f = fmemopen(text, strlen(text), "r");

    ck_assert_msg(history_read(h, f, "log", &err) == 0, "%s", err.text);
    fclose(f);
    char *again = dump(h);
    ck_assert_str_eq(text, again);
    ck_assert_int_eq(history_check(h, &options, &r), 0);
    ck_assert_uint_eq(r.count, 0);
    ck_assert_uint_eq(r.ops, history_count(histmodel_history(m)));
    free(text);
    free(again);
    history_destroy(h);
    histmodel_destroy(m);
}
END_TEST

static const char *const bad_logs[] = {
    "x",
    "i",
    "i 1",
    "i 1 2 3 4 - commit put:a",
    "i 1 2 3 4 - commit put:a=",
    "i 1 2 3 4 - commit put:a=x,y",
    "i 1 2 3 4 - commit put:a!",
    "i 1 2 3 4 - commit unlink:a=x",
    "i 1 2 3 4 - commit get:a",
    "i 1 2 3 4 - commit put:=x",
    "i 1 2 3 4 - dance",
    "i 1 2 3 4",
    "i -1 2 3 4 - version",
    "i 1 2 3 4 - wait",
    "i 1 2 3 4 - wait x",
    "i 1 2 3 4 - fence",
    "i 1 2 3 4 - fence f",
    "i 1 2 3 4 - get",
    "i 1 2 3 4 - get - a=x",
    "a 1 2 3 ok 1 - -",
    "i 1 2 3 4 - version\na 2 2 3 ok 1 - -\na 3 2 3 ok 1 - -",
    "i 1 2 3 4 - version\na 2 2 3 open 1 - -",
    "i 1 2 3 4 - version\na 2 2 3 ok x - -",
    "i 1 2 3 4 - version\na 2 2 3 ok 1 -",
    "i 1 2 3 4 - get - a\na 2 2 3 ok 1 - - a",
    "i 1 2 3 4 - version\ni 1 2 3 4 - version",
};

START_TEST(bad_log)
{
    history_t *h = history_create();
    errmsg_t err = {""};
    char text[200];
    FILE *f;

    snprintf(text, sizeof(text), "# log\n\n%s\n", bad_logs[_i]);
    f = fmemopen(text, strlen(text), "r");
    ck_assert_int_eq(history_read(h, f, "a-log", &err), -1);
    ck_assert_msg(strncmp(err.text, "a-log, line ", 12) == 0, "%s: '%s'", bad_logs[_i], err.text);
    fclose(f);
    history_destroy(h);
}
END_TEST

/* Short histories, and the first word of what is wrong with them ("": nothing). */
static const struct {
    const char *log;
    const char *wrong;
} small[] = {
    /* Results of a watch may be older than what was read meanwhile, but stay in order. */
    {"i 1 1 1 0 - commit put:a=x\na 2 1 1 ok 1 r1 -\n"
     "i 3 1 2 0 - commit put:a=y\na 4 1 2 ok 2 r2 -\n"
     "i 5 2 1 1 - get - a\na 6 2 1 ok 2 - - a=y\n"
     "i 7 2 2 1 - watch 1 a\na 8 2 2 ok 1 - - a=x\n"
     "i 9 2 3 1 - watch 1 a\na 10 2 3 ok 2 - - a=y\n",
     ""},
    {"i 1 1 1 0 - commit put:a=x\na 2 1 1 ok 1 r1 -\n"
     "i 3 1 2 0 - commit put:a=y\na 4 1 2 ok 2 r2 -\n"
     "i 7 2 2 1 - watch 1 a\na 8 2 2 ok 2 - - a=y\n"
     "i 9 2 3 1 - watch 1 a\na 10 2 3 ok 1 - - a=x\n",
     "read goes back"},
    {"i 1 1 1 0 - commit put:a=x\na 2 1 1 ok 1 r1 -\n"
     "i 7 2 2 1 - watch 1 a\na 8 2 2 ok 2 - - a=z\n",
     "value from nowhere"},
    /* Each namespace has versions and roots of its own. */
    {"i 1 1 1 0 - commit put:a=x\na 2 1 1 ok 5 r1 -\n"
     "i 3 1 2 0 other commit put:a=y\na 4 1 2 ok 1 r2 -\n"
     "i 5 1 3 0 other get - a\na 6 1 3 ok 1 - - a=y\n",
     ""},
    {"i 1 1 1 0 - commit put:a=x\na 2 1 1 ok 5 r1 -\n"
     "i 3 1 2 0 other get - a\na 4 1 2 ok 5 - - a=x\n",
     "value from nowhere"},
    /* An outcome that is unknown: may come late, but then for good. */
    {"i 1 1 1 0 - commit put:a=x put:b=x2\na 2 1 1 unknown - - EPIPE\n"
     "i 3 2 1 0 - commit put:b=y\na 4 2 1 ok 1 r1 -\n"
     "i 5 2 2 0 - get - a b\na 6 2 2 ok 1 - - a! b=y\n"
     "i 7 2 3 0 - get - a b\na 8 2 3 ok 2 - - a=x b=x2\n",
     ""},
    {"i 1 1 1 0 - commit put:a=x\na 2 1 1 unknown - - EPIPE\n"
     "i 3 2 1 0 - get - a\na 4 2 1 ok 1 - - a=x\n"
     "i 5 2 2 0 - get - a\na 6 2 2 ok 2 - - a!\n",
     "stale read"},
    {"i 1 1 1 0 - commit put:a=x put:b=x2\na 2 1 1 unknown - - EPIPE\n"
     "i 3 2 1 0 - commit put:b=y\na 4 2 1 ok 1 r1 -\n"
     "i 5 2 2 0 - commit put:c=z\na 6 2 2 ok 2 r2 -\n"
     "i 7 2 3 0 - get - a b\na 8 2 3 ok 2 - - a! b=y\n"
     "i 9 2 4 0 - get - a b\na 10 2 4 ok 4 - - a=x b=y\n",
     "torn commit"},
    /* A fence whose outcome only one participant knows was for all. */
    {"i 1 1 1 0 - fence f 2 put:a=x\ni 2 2 1 0 - fence f 2 put:b=y\n"
     "a 3 1 1 ok 1 r1 -\na 4 2 1 unknown - - EPIPE\n"
     "i 5 3 1 0 - get - a b\na 6 3 1 ok 1 - - a=x b=y\n",
     ""},
    {"i 1 1 1 0 - fence f 2 put:a=x\ni 2 2 1 0 - fence f 2 put:b=y\n"
     "a 3 1 1 ok 1 r1 -\na 4 2 1 unknown - - EPIPE\n"
     "i 5 3 1 0 - get - a b\na 6 3 1 ok 1 - - a=x b!\n",
     "torn commit"},
};

START_TEST(small_log)
{
    history_t *h = history_create();
    struct hist_report *r = malloc(sizeof(*r));
    errmsg_t err = {""};
    FILE *f = fmemopen((void *)small[_i].log, strlen(small[_i].log), "r");

    ck_assert_msg(history_read(h, f, "log", &err) == 0, "%s", err.text);
    fclose(f);
    ck_assert_int_eq(history_check(h, &options, r), 0);
    if (small[_i].wrong[0])
        ck_assert_msg(r->count > 0 &&
                          strncmp(r->first[0].text, small[_i].wrong, strlen(small[_i].wrong)) == 0,
                      "%d: %s: %s", _i, small[_i].wrong, r->first[0].text);
    else
        ck_assert_msg(r->count == 0, "%d: %s", _i, r->first[0].text);
    history_destroy(h);
    free(r);
}
END_TEST

/* A hundred thousand operations in seconds. */
START_TEST(large)
{
    histmodel_t *m = model(77, 100000);
    struct hist_report r;
    clock_t t = clock();

    ck_assert_int_eq(history_check(histmodel_history(m), &options, &r), 0);
    double s = (double)(clock() - t) / CLOCKS_PER_SEC;
    show(&r);
    ck_assert_uint_eq(r.count, 0);
    printf("%zu operations (%zu values read, %zu commits of unknown outcome) checked in %.2f s\n",
           r.ops, r.values, r.unknown, s);
    ck_assert_double_lt(s, 10.);
    histmodel_destroy(m);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, valid);
    tcase_add_loop_test(tc, planted, 0, NPLANTS);
    tcase_add_test(tc, log_file);
    tcase_add_loop_test(tc, bad_log, 0, sizeof(bad_logs) / sizeof(bad_logs[0]));
    tcase_add_loop_test(tc, small_log, 0, sizeof(small) / sizeof(small[0]));
    tcase_add_test(tc, large);
    tcase_set_timeout(tc, 120);
    return run_case("history", tc);
}
