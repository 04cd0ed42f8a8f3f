/* histvalue.c - what values say: every token of a value leads to the write that made it.
 *
 * A key at version v holds what its last writer up to then made of it.  Writes with a known version
 * are sorted; so the tokens of a value must be those of the last put and of all appends after it,
 * in that order, and any other write of the key up to v comes before them.  Among writes of one
 * version (which were applied in one root change) the order is not known: what a read shows of it
 * becomes an edge.  Writes with an unknown outcome become edges when they are seen, and an `either`
 * when they are not (historder.c).
 *
 * A guard that passed is a read at the place just before its commit.
 */
#include "config.h"
#include <inttypes.h>
#include <stdlib.h>

#include "histpriv.h"

static const struct hist_op *op_at(const struct check *c, uint32_t op)
{
    return history_op(c->h, op);
}

static int by_key(const void *a, const void *b)
{
    const struct write *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->version != y->version)
        return x->version < y->version ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static bool is_write(enum hist_item_kind kind)
{
    return kind == HIST_PUT || kind == HIST_APPEND || kind == HIST_UNLINK;
}

int hc_writes(struct check *c)
{
    uint32_t nkeys = history_names(c->h, HIST_KEYS) + 1;
    uint32_t ntokens = history_names(c->h, HIST_TOKENS) + 1;
    size_t total = 0;

    for (size_t i = 0; i < history_count(c->h); i++)
        total += c->op_node[i] ? op_at(c, (uint32_t)i)->nitems : 0;
    c->writes = calloc(total + 1, sizeof(*c->writes));
    c->keys = calloc(nkeys, sizeof(*c->keys));
    c->token_write = calloc(ntokens, sizeof(*c->token_write));
    if (!c->writes || !c->keys || !c->token_write)
        return -1;
    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = op_at(c, i);
        if (!c->op_node[i])
            continue;
        struct node *n = &c->nodes[c->op_node[i] - 1];
        for (uint32_t k = 0; k < o->nitems; k++) {
            const struct hist_item *it = history_item_at(c->h, o->items + k);
            if (!is_write(it->kind))
                continue;
            n->nwrites++;
            c->writes[c->nwrites++] = (struct write){
                .key = it->key,
                .class = n->failed  ? FAILED
                         : n->known ? KNOWN
                                    : UNKNOWN,
                .kind = it->kind,
                .node = c->op_node[i] - 1,
                .op = i,
                .token = it->ntokens ? *history_token_at(c->h, it->tokens) : 0,
                .version = n->known ? n->lo : 0,
            };
        }
    }
    qsort(c->writes, c->nwrites, sizeof(*c->writes), by_key);
    for (uint32_t i = 0; i < c->nwrites; i++) {
        struct write *w = &c->writes[i];
        struct key *k = &c->keys[w->key];
        if (k->known + k->unknown == 0)
            k->first = i;
        k->known += w->class == KNOWN;
        k->unknown += w->class == UNKNOWN;
        if (!w->token)
            continue;
        if (c->token_write[w->token])
            hc_violation(c, HV_MALFORMED, w->op, c->writes[c->token_write[w->token] - 1].op,
                         "'%s' is written twice", history_name(c->h, HIST_TOKENS, w->token));
        c->token_write[w->token] = i + 1;
    }
    return 0;
}

/* How many known writes of a key have at most version v. */
static uint32_t up_to(const struct check *c, const struct key *k, uint64_t v)
{
    uint32_t lo = 0, hi = k->known;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (c->writes[k->first + mid].version <= v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* --- naming what is wrong --- */

/* Does the read show, at another key, a state with all of transaction y in it? */
static bool shows(const struct check *c, const struct hist_op *read, uint32_t key, uint32_t y)
{
    for (uint32_t i = 0; i < read->nresults; i++) {
        const struct hist_item *it = history_item_at(c->h, read->results + i);
        if (it->key == key || it->ntokens == 0)
            continue;
        uint32_t wi = c->token_write[*history_token_at(c->h, it->tokens + it->ntokens - 1)];
        if (wi == 0 || c->writes[wi - 1].class != KNOWN)
            continue;
        const struct key *k = &c->keys[it->key];
        if (c->writes[wi - 1].version < c->nodes[y].lo)
            continue;
        for (uint32_t n = 0; n < k->known; n++) {
            if (c->writes[k->first + n].node == y)
                return true;
        }
    }
    return false;
}

/* At version v, `y` should have been seen and was not. */
static void missing(struct check *c, uint32_t op, uint64_t v, const struct write *y, bool appends)
{
    const char *key = hc_key(c, y->key);

    if (shows(c, op_at(c, op), y->key, y->node))
        hc_violation(c, HV_TORN, op, y->op,
                     "part of the commit with version %" PRIu64 " is seen at version %" PRIu64
                     ", and not the part at key '%s'",
                     y->version, v, key);
    else if (appends && y->kind == HIST_APPEND)
        hc_violation(c, HV_APPEND_LOST, op, y->op,
                     "at key '%s' an append with version %" PRIu64
                     " is missing at version %" PRIu64,
                     key, y->version, v);
    else if (!y->seen && y->kind == HIST_PUT)
        hc_violation(c, HV_LOST, op, y->op,
                     "what was written to key '%s' with version %" PRIu64
                     " is not there at version %" PRIu64 " and was never seen",
                     key, y->version, v);
    else
        hc_violation(c, HV_STALE, op, y->op,
                     "key '%s' had been changed with version %" PRIu64 ", but at version %" PRIu64
                     " an older state is seen",
                     key, y->version, v);
}

/* --- values --- */

/* Look at each token by itself; false when that is enough. */
static bool tokens_ok(struct check *c, uint32_t op, const struct hist_item *it, uint64_t v)
{
    const uint32_t *tokens = history_token_at(c->h, it->tokens);

    c->serial++;
    for (uint32_t i = 0; i < it->ntokens; i++) {
        const char *name = history_name(c->h, HIST_TOKENS, tokens[i]);
        struct write *w =
            c->token_write[tokens[i]] ? &c->writes[c->token_write[tokens[i]] - 1] : NULL;
        if (!w || w->key != it->key) {
            hc_violation(c, HV_NOWHERE, op, w ? w->op : NONE,
                         "key '%s' has '%s', which nobody wrote there", hc_key(c, it->key), name);
            return false;
        }
        const struct node *n = &c->nodes[w->node];
        if (n->failed)
            hc_violation(c, HV_FAILED, op, w->op, "key '%s' has '%s' of a commit that was refused",
                         hc_key(c, it->key), name);
        else if (w->mark == c->serial)
            hc_violation(c, HV_APPEND_TWICE, op, w->op, "key '%s' has '%s' twice",
                         hc_key(c, it->key), name);
        else if (op_at(c, w->op)->invoked > op_at(c, op)->answered)
            hc_violation(c, HV_FUTURE, op, w->op, "key '%s' has '%s', which was written later",
                         hc_key(c, it->key), name);
        else if (n->known && n->lo > v)
            hc_violation(c, HV_FUTURE, op, w->op,
                         "at version %" PRIu64 " key '%s' has '%s' of version %" PRIu64, v,
                         hc_key(c, it->key), name, n->lo);
        else if (i > 0 && w->kind != HIST_APPEND)
            hc_violation(c, HV_APPEND_ORDER, op, w->op,
                         "key '%s' has '%s' behind others, though it was not appended",
                         hc_key(c, it->key), name);
        else {
            w->mark = c->serial;
            continue;
        }
        return false;
    }
    return true;
}

static bool has_unlink(const struct check *c, const struct key *k, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (c->writes[k->first + i].kind == HIST_UNLINK)
            return true;
    }
    return false;
}

static bool unknown_unlink(const struct check *c, const struct key *k)
{
    return has_unlink(c, k, k->known, k->known + k->unknown);
}

/* The unknown writes of a key that are not seen at version v, where `than` is. */
static void unknown_absent(struct check *c, const struct key *k, uint32_t than, uint64_t v,
                           uint32_t key, uint32_t op)
{
    for (uint32_t i = k->known; i < k->known + k->unknown; i++) {
        const struct write *y = &c->writes[k->first + i];
        if (y->mark != c->serial && y->node != than)
            ho_absent(c, y->node, than, v, key, op);
    }
}

/* An append that made the key: there must have been nothing before. */
static void first_append(struct check *c, uint32_t op, const struct write *x, const struct key *k)
{
    uint32_t n = up_to(c, k, x->version - 1), same = up_to(c, k, x->version);

    if (n == 0 || unknown_unlink(c, k) || has_unlink(c, k, n, same))
        return;
    const struct write *y = &c->writes[k->first + n - 1];
    uint32_t from = n;
    while (from > 0 && c->writes[k->first + from - 1].version == y->version)
        from--;
    if (!has_unlink(c, k, from, n))
        hc_violation(c, HV_APPEND_LOST, op, y->op,
                     "at key '%s' what was there before version %" PRIu64 " is missing",
                     hc_key(c, x->key), x->version);
}

static void read_value(struct check *c, uint32_t op, const struct hist_item *it, uint64_t v)
{
    const uint32_t *tokens = history_token_at(c->h, it->tokens);
    const struct key *k = &c->keys[it->key];

    if (!tokens_ok(c, op, it, v))
        return;
    if (it->ntokens == 0) {
        hc_violation(c, HV_NOWHERE, op, NONE, "key '%s' is empty, which nobody made it",
                     hc_key(c, it->key));
        return;
    }
    for (uint32_t i = 0; i < it->ntokens; i++) {
        const struct write *w = &c->writes[c->token_write[tokens[i]] - 1];
        if (w->class == UNKNOWN)
            ho_seen(c, w->node, v, op);
        if (i > 0)
            ho_before(c, c->writes[c->token_write[tokens[i - 1]] - 1].node, w->node, it->key, op,
                      HV_APPEND_ORDER);
    }
    const struct write *x = &c->writes[c->token_write[tokens[0]] - 1];
    uint64_t first = x->class == KNOWN ? x->version : 0;
    bool appends = it->ntokens > 1 || x->kind == HIST_APPEND;
    for (uint32_t i = up_to(c, k, v); i > 0; i--) {
        const struct write *y = &c->writes[k->first + i - 1];
        if (y->mark == c->serial || y->node == x->node)
            continue;
        if (x->class == KNOWN && y->version > first) {
            missing(c, op, v, y, appends || y->kind == HIST_APPEND);
            return;
        }
        if (y->version < first)
            break;
        /* The last ones before an unknown one, or those of the same version. */
        first = y->version;
        if (x->kind == HIST_PUT)
            ho_before(c, y->node, x->node, it->key, op, HV_STALE);
    }
    if (x->kind == HIST_APPEND && x->class == KNOWN)
        first_append(c, op, x, k);
    unknown_absent(c, k, x->node, v, it->key, op);
}

/* Nothing there, at version v. */
static void read_absent(struct check *c, uint32_t op, const struct hist_item *it, uint64_t v)
{
    const struct key *k = &c->keys[it->key];
    uint32_t n = up_to(c, k, v), unlinks = 0, from = n;
    const struct write *x = NULL;

    c->serial++;
    while (from > 0 &&
           c->writes[k->first + from - 1].version == c->writes[k->first + n - 1].version) {
        const struct write *w = &c->writes[k->first + --from];
        if (w->kind == HIST_UNLINK) {
            x = w;
            unlinks++;
        }
    }
    if (unknown_unlink(c, k))
        return; /* could be that one: nothing follows */
    if (n > 0 && unlinks == 0) {
        missing(c, op, v, &c->writes[k->first + n - 1], false);
        return;
    }
    if (unlinks > 1)
        return;
    for (uint32_t i = from; i < n; i++) {
        const struct write *y = &c->writes[k->first + i];
        ho_before(c, y->node, x->node, it->key, op, HV_STALE);
    }
    unknown_absent(c, k, x ? x->node : INITIAL, v, it->key, op);
}

/* Nothing there, and the version was not told: some version from `floor` on must be like that. */
static void read_absent_somewhen(struct check *c, uint32_t op, const struct hist_item *it,
                                 uint64_t floor)
{
    const struct key *k = &c->keys[it->key];
    uint32_t n = up_to(c, k, floor), from = n;

    if (n == 0 || unknown_unlink(c, k))
        return;
    const struct write *last = &c->writes[k->first + n - 1];
    while (from > 0 && c->writes[k->first + from - 1].version == last->version)
        from--;
    for (uint32_t i = from; i < k->known; i++) {
        const struct write *w = &c->writes[k->first + i];
        if (w->kind == HIST_UNLINK && op_at(c, w->op)->invoked < op_at(c, op)->answered)
            return;
    }
    bool own = op_at(c, last->op)->client == op_at(c, op)->client;
    hc_violation(c,
                 own          ? HV_OWN_WRITES
                 : last->seen ? HV_STALE
                              : HV_LOST,
                 op, last->op,
                 "there is no key '%s' for who has seen version %" PRIu64
                 ", though it was written with version %" PRIu64 " and not unlinked",
                 hc_key(c, it->key), floor, last->version);
}

/* Not known at which version: what a value says by itself. */
static void read_anywhen(struct check *c, uint32_t op, const struct hist_item *it)
{
    if (!it->absent)
        (void)tokens_ok(c, op, it, UINT64_MAX);
}

void hc_reads(struct check *c)
{
    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = op_at(c, i);
        for (uint32_t k = 0; k < o->nresults && o->ns == c->ns; k++) {
            const struct hist_item *it = history_item_at(c->h, o->results + k);
            for (uint32_t t = 0; t < it->ntokens; t++) {
                uint32_t w = c->token_write[*history_token_at(c->h, it->tokens + t)];
                if (w)
                    c->writes[w - 1].seen = true;
            }
        }
    }
    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = op_at(c, i);
        if (o->ns != c->ns || (o->call != HIST_GET && o->call != HIST_WATCH) ||
            o->outcome != HIST_OK)
            continue;
        c->r->reads++;
        uint64_t v = o->at ? c->root_version[o->at] : o->version;
        for (uint32_t k = 0; k < o->nresults; k++) {
            const struct hist_item *it = history_item_at(c->h, o->results + k);
            c->r->values++;
            if (v != HIST_NO_VERSION && it->absent)
                read_absent(c, i, it, v);
            else if (v != HIST_NO_VERSION)
                read_value(c, i, it, v);
            else if (it->absent && !o->at && o->call == HIST_GET)
                read_absent_somewhen(c, i, it, c->floor[i]);
            else
                read_anywhen(c, i, it);
        }
    }
}

/* --- guards --- */

/* Does the operation write what its guard is for? */
static bool writes_key(const struct check *c, const struct hist_op *o, uint32_t key)
{
    for (uint32_t i = 0; i < o->nitems; i++) {
        const struct hist_item *it = history_item_at(c->h, o->items + i);
        if (it->key == key && is_write(it->kind))
            return true;
    }
    return false;
}

static uint32_t last_token(const struct check *c, const struct hist_item *it)
{
    return it->ntokens ? *history_token_at(c->h, it->tokens + it->ntokens - 1) : 0;
}

/* Does it have the same guard? */
static bool same_guard(const struct check *c, const struct hist_op *o,
                       const struct hist_item *guard)
{
    for (uint32_t i = 0; i < o->nitems; i++) {
        const struct hist_item *it = history_item_at(c->h, o->items + i);
        if (it->kind == HIST_GUARD && it->key == guard->key && it->absent == guard->absent &&
            last_token(c, it) == last_token(c, guard))
            return true;
    }
    return false;
}

static void guard_broken(struct check *c, uint32_t op, const struct hist_item *it,
                         const struct write *y)
{
    if (same_guard(c, op_at(c, y->op), it))
        hc_violation(c, HV_WINNERS, op, y->op, "two commits passed with the same guard of key '%s'",
                     hc_key(c, it->key));
    else
        hc_violation(c, HV_GUARD, op, y->op,
                     "a commit passed, though key '%s' was not what its guard said",
                     hc_key(c, it->key));
}

static void guard_absent(struct check *c, uint32_t op, const struct hist_item *it, uint64_t g)
{
    const struct key *k = &c->keys[it->key];
    uint32_t self = c->op_node[op] - 1, before = up_to(c, k, g - 1), same = up_to(c, k, g);
    uint32_t from = before;

    if (unknown_unlink(c, k) || has_unlink(c, k, before, same))
        return;
    while (from > 0 &&
           c->writes[k->first + from - 1].version == c->writes[k->first + before - 1].version)
        from--;
    if (before > 0 && !has_unlink(c, k, from, before)) {
        guard_broken(c, op, it, &c->writes[k->first + before - 1]);
        return;
    }
    for (uint32_t i = before; i < same; i++) {
        const struct write *y = &c->writes[k->first + i];
        if (y->node != self && same_guard(c, op_at(c, y->op), it) &&
            writes_key(c, op_at(c, op), it->key))
            guard_broken(c, op, it, y);
        else
            ho_before(c, self, y->node, it->key, op, HV_GUARD);
    }
}

static void guard_value(struct check *c, uint32_t op, const struct hist_item *it, uint64_t g)
{
    const struct key *k = &c->keys[it->key];
    uint32_t self = c->op_node[op] - 1;

    if (it->ntokens == 0 || !tokens_ok(c, op, it, g))
        return;
    for (uint32_t i = 0; i < it->ntokens; i++) {
        const struct write *w =
            &c->writes[c->token_write[*history_token_at(c->h, it->tokens + i)] - 1];
        if (w->class == UNKNOWN)
            ho_seen(c, w->node, g, op);
        ho_before(c, w->node, self, it->key, op, HV_GUARD);
    }
    const struct write *x = &c->writes[c->token_write[last_token(c, it)] - 1];
    for (uint32_t i = up_to(c, k, g); i > 0; i--) {
        const struct write *y = &c->writes[k->first + i - 1];
        if (y->mark == c->serial || y->node == self)
            continue;
        if (x->class == UNKNOWN ? y->version < g : y->version <= x->version)
            break;
        if (y->version < g) {
            guard_broken(c, op, it, y);
            return;
        }
        ho_before(c, self, y->node, it->key, op, HV_GUARD);
    }
    if (g > 0)
        unknown_absent(c, k, x->node, g - 1, it->key, op);
}

static int by_guard(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    for (int i = 0; i < 2; i++) {
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    }
    return 0;
}

/* Who passed with a guard and changed the key, was alone. */
static void winners(struct check *c, uint32_t (*list)[3], size_t n)
{
    qsort(list, n, sizeof(*list), by_guard);
    for (size_t i = 1; i < n; i++) {
        const struct node *a = &c->nodes[c->op_node[list[i - 1][2]] - 1];
        const struct node *b = &c->nodes[c->op_node[list[i][2]] - 1];
        if (by_guard(list[i - 1], list[i]) == 0 && a->applied && b->applied)
            hc_violation(c, HV_WINNERS, list[i - 1][2], list[i][2],
                         "two commits passed with the same guard of key '%s'",
                         hc_key(c, list[i][0]));
    }
}

void hc_guards(struct check *c)
{
    uint32_t(*list)[3] = NULL;
    size_t n = 0, cap = 0;

    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = op_at(c, i);
        if (!c->op_node[i] || c->nodes[c->op_node[i] - 1].failed)
            continue;
        const struct node *node = &c->nodes[c->op_node[i] - 1];
        bool guarded = false;
        for (uint32_t k = 0; k < o->nitems; k++) {
            const struct hist_item *it = history_item_at(c->h, o->items + k);
            if (it->kind != HIST_GUARD)
                continue;
            guarded = true;
            if (node->known && it->absent)
                guard_absent(c, i, it, node->lo);
            else if (node->known)
                guard_value(c, i, it, node->lo);
            if (it->absent || !writes_key(c, o, it->key))
                continue;
            if (n == cap) {
                void *grown = realloc(list, (cap = cap ? cap * 2 : 256) * sizeof(*list));
                if (!grown) {
                    c->oom = true;
                    free(list);
                    return;
                }
                list = grown;
            }
            list[n][0] = it->key;
            list[n][1] = last_token(c, it);
            list[n++][2] = i;
        }
        c->r->guards_passed += guarded && node->known;
    }
    if (n > 0)
        winners(c, list, n);
    free(list);
}
