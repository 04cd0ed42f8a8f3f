/* histcheck.c - whether a history keeps the promises of the store.
 *
 * Every change makes a new version, and all answers tell theirs.  So one pass in the order of time
 * sees the promises about versions, and the values are then compared with what their version must
 * hold:
 *
 *    promise                 how
 *    monotonic reads         versions told to one client, and at one broker, never fall; nor do
 *                            those of the results of one watch (which may come late, though)
 *    read your writes        nor below its own commit
 *    causal                  nor below a version waited for; a commit is newer than all that its
 *                            client had seen (writes follow reads); with the values below this is
 *                            transitive, since one order of versions holds for everybody
 *    order of commits        a commit is newer than all that anybody had been told before it began
 *    atomic commit           values, see histvalue.c: at any version all of its keys or none
 *    lost, failed, unknown   values: what was acknowledged stands, what failed does not, what is
 *                            unknown stands as a whole from some version on, or never
 *    one version, one root   by the answers; and a root never comes back while a write stands that
 *                            it did not have
 *    guards                  values at the place of the commit; one winner for each state
 *    appends                 values: each acknowledged one once, in one order, that of versions
 *    fences                  one version for all, after all have come
 *
 * Each namespace is a history of its own.  What is reported is wrong for sure; see historder.c for
 * what may be overlooked.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "histpriv.h"

static const char *const kind_names[HV_KINDS] = {
    [HV_MALFORMED] = "malformed history",
    [HV_NOWHERE] = "value from nowhere",
    [HV_FUTURE] = "value from the future",
    [HV_FAILED] = "failed commit seen",
    [HV_STALE] = "stale read",
    [HV_LOST] = "lost update",
    [HV_TORN] = "torn commit",
    [HV_CONTENTS] = "two contents of one version",
    [HV_ROOT] = "two roots of one version",
    [HV_OWN_WRITES] = "own write not read",
    [HV_MONOTONIC] = "read goes back",
    [HV_CAUSAL] = "causality broken",
    [HV_BROKER] = "broker goes back",
    [HV_MASTER] = "master goes back",
    [HV_FOLLOWS] = "commit before what its client had seen",
    [HV_REALTIME] = "commits out of order",
    [HV_WAIT] = "wait ended too early",
    [HV_FENCE] = "fence broken",
    [HV_WINNERS] = "two winners of one guard",
    [HV_GUARD] = "guard passed wrongly",
    [HV_APPEND_TWICE] = "append doubled",
    [HV_APPEND_LOST] = "append lost",
    [HV_APPEND_ORDER] = "appends out of order",
};

const char *hist_kind_name(enum hist_kind kind)
{
    return kind < HV_KINDS ? kind_names[kind] : "unknown";
}

void hc_violation(struct check *c, enum hist_kind kind, uint32_t op1, uint32_t op2, const char *fmt,
                  ...)
{
    struct hist_report *r = c->r;
    char one[400] = "", two[400] = "", what[300];
    va_list ap;

    r->of_kind[kind]++;
    if (r->count++ >= HIST_REPORT_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (op1 != NONE)
        history_describe(c->h, op1, one, sizeof(one));
    if (op2 != NONE && op2 != op1)
        history_describe(c->h, op2, two, sizeof(two));
    struct hist_violation *v = &r->first[r->count - 1];
    v->kind = kind;
    snprintf(v->text, sizeof(v->text), "%s: %s%s%s%s%s", kind_names[kind], what,
             one[0] ? "\n  " : "", one, two[0] ? "\n  " : "", two);
}

const char *hc_key(const struct check *c, uint32_t key)
{
    return history_name(c->h, HIST_KEYS, key);
}

/* --- transactions --- */

static uint32_t add_node(struct check *c, uint32_t op)
{
    c->nodes[c->nnodes] = (struct node){.op = op, .lo_op = op, .hi_op = op, .hi = HIST_NEVER};
    return c->nnodes++;
}

static void node_known(struct check *c, uint32_t node, uint32_t op, uint64_t version)
{
    struct node *n = &c->nodes[node];

    if (n->known && n->lo != version)
        hc_violation(c, HV_FENCE, n->op, op, "a fence has two versions, %" PRIu64 " and %" PRIu64,
                     n->lo, version);
    if (!n->known) {
        n->known = n->applied = true;
        n->lo = n->hi = version;
        n->op = op;
    }
}

/* A fence that is over was called as often as it says, before anybody was told. */
static void check_fences(struct check *c)
{
    uint32_t n = history_names(c->h, HIST_OTHERS) + 1;
    struct fence {
        uint32_t called, op;
        uint64_t last, first_over;
    } *f = calloc(n, sizeof(*f));

    if (!f) {
        c->oom = true;
        return;
    }
    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = history_op(c->h, i);
        if (o->call != HIST_FENCE || o->ns != c->ns || o->outcome == HIST_FAIL)
            continue;
        f[o->fence].called++;
        if (o->invoked > f[o->fence].last)
            f[o->fence].last = o->invoked;
        if (o->outcome == HIST_OK &&
            (!f[o->fence].first_over || o->answered < f[o->fence].first_over)) {
            f[o->fence].first_over = o->answered;
            f[o->fence].op = i;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!f[i].first_over)
            continue;
        if (f[i].called != history_op(c->h, f[i].op)->nprocs || f[i].last > f[i].first_over)
            hc_violation(c, HV_FENCE, f[i].op, NONE, "a fence was over before all had called it");
    }
    free(f);
}

static int collect_nodes(struct check *c)
{
    uint32_t *fence = calloc(history_names(c->h, HIST_OTHERS) + 1, sizeof(*fence));

    if (!fence)
        return -1;
    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = history_op(c->h, i);
        if (o->ns != c->ns || (o->call != HIST_COMMIT && o->call != HIST_FENCE))
            continue;
        c->r->commits += o->call == HIST_COMMIT;
        c->r->fences += o->call == HIST_FENCE;
        c->r->failed += o->outcome == HIST_FAIL;
        c->r->unknown += o->outcome == HIST_UNKNOWN || o->outcome == HIST_OPEN;
        uint32_t node;
        if (o->call == HIST_FENCE && o->outcome != HIST_FAIL) {
            if (!fence[o->fence])
                fence[o->fence] = add_node(c, i) + 1;
            node = fence[o->fence] - 1;
        } else {
            node = add_node(c, i);
        }
        c->op_node[i] = node + 1;
        if (o->outcome == HIST_FAIL)
            c->nodes[node].failed = true;
        else if (o->outcome == HIST_OK && o->version != HIST_NO_VERSION)
            node_known(c, node, i, o->version);
        else if (o->outcome == HIST_OK)
            hc_violation(c, HV_MALFORMED, i, NONE, "a commit was answered without a version");
    }
    free(fence);
    check_fences(c);
    return 0;
}

/* --- roots --- */

static void collect_roots(struct check *c)
{
    for (uint32_t i = 0; i < history_count(c->h); i++) {
        const struct hist_op *o = history_op(c->h, i);
        if (o->ns != c->ns || o->outcome != HIST_OK || !o->root || o->version == HIST_NO_VERSION)
            continue;
        /* Not by the version itself: zero is one. */
        uintptr_t root = (uintptr_t)hmap_get_u64(c->version_root, o->version);
        if (root && root != o->root)
            hc_violation(c, HV_ROOT, i, c->root_op[root],
                         "version %" PRIu64 " has root %.30s and root %.30s", o->version,
                         history_name(c->h, HIST_ROOTS, (uint32_t)root),
                         history_name(c->h, HIST_ROOTS, o->root));
        if (!root && hmap_put_u64(c->version_root, o->version, (void *)(uintptr_t)o->root) < 0)
            c->oom = true;
        c->r->roots += !root;
        if (o->version < c->root_version[o->root]) {
            c->root_version[o->root] = o->version;
            c->root_op[o->root] = i;
        }
    }
}

/* A root that came back, though a write of that version made a state that had never been before:
 * whatever stands at the key then, unless it was unlinked, was written with that version. */
static void check_roots(struct check *c)
{
    for (uint32_t i = 0, next; i < c->nwrites; i = next) {
        const struct write *w = &c->writes[i];
        const struct key *k = &c->keys[w->key];
        bool unlinked = false;
        for (next = i; next < c->nwrites && c->writes[next].key == w->key &&
                       c->writes[next].class == w->class && c->writes[next].version == w->version;
             next++)
            unlinked |= c->writes[next].kind == HIST_UNLINK;
        if (w->class != KNOWN || unlinked)
            continue;
        for (uint32_t n = k->first + k->known; n < k->first + k->known + k->unknown; n++)
            unlinked |= c->writes[n].kind == HIST_UNLINK;
        uintptr_t root = (uintptr_t)hmap_get_u64(c->version_root, w->version);
        if (unlinked || !root || c->root_version[root] >= w->version)
            continue;
        hc_violation(c, HV_ROOT, w->op, c->root_op[root],
                     "versions %" PRIu64 " and %" PRIu64
                     " have one root, though key '%s' was written between them",
                     c->root_version[root], w->version, hc_key(c, w->key));
    }
}

/* --- versions in the order of time --- */

struct latest {
    uint64_t version;
    uint32_t op;
    bool any;
};
struct session {
    struct latest own, waited, seen;
};
struct moment {
    uint64_t t;
    uint32_t op;
    bool answer;
};

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;

    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    /* What happened at one time on different clocks: the order that promises less. */
    if (x->answer != y->answer)
        return x->answer ? 1 : -1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static void latest_set(struct latest *l, uint64_t version, uint32_t op)
{
    if (!l->any || version > l->version)
        *l = (struct latest){version, op, true};
}

static void *state_of(struct check *c, hmap_t *map, uint64_t n, size_t size)
{
    void *p = hmap_get_u64(map, n);

    if (!p && (p = calloc(1, size)) && hmap_put_u64(map, n, p) < 0) {
        free(p);
        p = NULL;
    }
    if (!p)
        c->oom = true;
    return p;
}

static void not_older(struct check *c, uint32_t op, const struct latest *than, enum hist_kind kind)
{
    const struct hist_op *o = history_op(c->h, op);

    hc_violation(c, kind, op, than->op, "version %" PRIu64 " after version %" PRIu64, o->version,
                 than->version);
}

static bool older(const struct hist_op *o, const struct latest *l)
{
    return l->any && o->version < l->version;
}

/* Results of a watch come in order, but may be older than what was read meanwhile. */
static void watched(struct check *c, uint32_t op, struct latest *l)
{
    const struct hist_op *o = history_op(c->h, op);

    if (o->outcome != HIST_OK || o->version == HIST_NO_VERSION)
        return;
    if (older(o, l))
        not_older(c, op, l, HV_MONOTONIC);
    latest_set(l, o->version, op);
}

static void invoked(struct check *c, uint32_t op, const struct session *s,
                    const struct latest *rank, const struct latest *all)
{
    const struct hist_op *o = history_op(c->h, op);
    bool commit = c->op_node[op] != 0;
    bool master = c->o && c->o->master_known && c->o->master == o->rank &&
                  strcmp(history_name(c->h, HIST_OTHERS, o->ns), c->o->ns ? c->o->ns : "-") == 0;

    if (commit && all->any) {
        struct node *n = &c->nodes[c->op_node[op] - 1];
        if (!n->known && all->version + 1 > n->lo) {
            n->lo = all->version + 1;
            n->lo_op = all->op;
        }
    }
    if (!commit && o->version == HIST_NO_VERSION && !o->at) {
        const struct latest *l[] = {&s->own, &s->waited, &s->seen, rank, all};
        for (int i = 0; i < (master ? 5 : 4); i++) {
            if (l[i]->any && l[i]->version > c->floor[op])
                c->floor[op] = l[i]->version;
        }
    }
    if (o->outcome != HIST_OK || o->version == HIST_NO_VERSION || o->at)
        return;
    if (commit) {
        const struct latest *l[] = {&s->own, &s->waited, &s->seen};
        for (int i = 0; i < 3; i++) {
            if (l[i]->any && o->version <= l[i]->version) {
                not_older(c, op, l[i], HV_FOLLOWS);
                return;
            }
        }
        if (all->any && o->version <= all->version)
            not_older(c, op, all, HV_REALTIME);
    } else if (o->call == HIST_WAIT && o->version < o->want)
        hc_violation(c, HV_WAIT, op, NONE,
                     "version %" PRIu64 " was waited for, and version %" PRIu64 " was told",
                     o->want, o->version);
    else if (older(o, &s->own))
        not_older(c, op, &s->own, HV_OWN_WRITES);
    else if (older(o, &s->waited))
        not_older(c, op, &s->waited, HV_CAUSAL);
    else if (older(o, &s->seen))
        not_older(c, op, &s->seen, HV_MONOTONIC);
    else if (older(o, rank))
        not_older(c, op, rank, HV_BROKER);
    else if (master && older(o, all))
        not_older(c, op, all, HV_MASTER);
}

static void answered(const struct hist_op *o, uint32_t op, struct session *s, struct latest *rank,
                     struct latest *all)
{
    if (o->outcome != HIST_OK || o->version == HIST_NO_VERSION || o->at)
        return;
    bool commit = o->call == HIST_COMMIT || o->call == HIST_FENCE;
    latest_set(commit ? &s->own : o->call == HIST_WAIT ? &s->waited : &s->seen, o->version, op);
    latest_set(rank, o->version, op);
    latest_set(all, o->version, op);
}

static int walk(struct check *c)
{
    size_t count = history_count(c->h), n = 0;
    struct moment *m = malloc((2 * count + 1) * sizeof(*m));
    hmap_t *clients = hmap_create_u64(free), *ranks = hmap_create_u64(free);
    hmap_t *streams = hmap_create_u64(free);
    struct latest all = {0};

    if (!m || !clients || !ranks || !streams) {
        c->oom = true;
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct hist_op *o = history_op(c->h, i);
        if (o->ns != c->ns)
            continue;
        m[n++] = (struct moment){o->invoked, i, false};
        if (o->outcome != HIST_OPEN)
            m[n++] = (struct moment){o->answered, i, true};
        if (o->outcome != HIST_OPEN && o->answered <= o->invoked)
            hc_violation(c, HV_MALFORMED, i, NONE, "answered before it was asked");
    }
    if (n > 0)
        qsort(m, n, sizeof(*m), by_time);
    for (size_t i = 0; i < n && !c->oom; i++) {
        const struct hist_op *o = history_op(c->h, m[i].op);
        struct session *s = state_of(c, clients, o->client, sizeof(*s));
        struct latest *rank = state_of(c, ranks, o->rank, sizeof(*rank));
        struct latest *stream =
            o->call == HIST_WATCH
                ? state_of(c, streams, (uint64_t)o->client << 32 | (uint32_t)o->want,
                           sizeof(*stream))
                : NULL;
        if (!s || !rank || (o->call == HIST_WATCH && !stream))
            break;
        if (stream && !m[i].answer)
            watched(c, m[i].op, stream);
        else if (m[i].answer)
            answered(o, m[i].op, s, rank, &all);
        else
            invoked(c, m[i].op, s, rank, &all);
    }
    hmap_destroy(clients);
    hmap_destroy(ranks);
    hmap_destroy(streams);
    free(m);
    return c->oom ? -1 : 0;
}

/* --- the whole --- */

static int check_namespace(struct check *c)
{
    size_t n = history_count(c->h);
    uint32_t roots = history_names(c->h, HIST_ROOTS) + 1;

    c->nodes = calloc(n + 1, sizeof(*c->nodes));
    c->op_node = calloc(n + 1, sizeof(*c->op_node));
    c->floor = calloc(n + 1, sizeof(*c->floor));
    c->root_version = malloc(roots * sizeof(*c->root_version));
    c->root_op = calloc(roots, sizeof(*c->root_op));
    c->version_root = hmap_create_u64(NULL);
    c->edge_index = hmap_create_u64(NULL);
    c->either_index = hmap_create_u64(NULL);
    if (!c->nodes || !c->op_node || !c->floor || !c->root_version || !c->root_op ||
        !c->version_root || !c->edge_index || !c->either_index)
        return -1;
    for (uint32_t i = 0; i < roots; i++)
        c->root_version[i] = HIST_NO_VERSION;
    if (collect_nodes(c) < 0 || walk(c) < 0)
        return -1;
    collect_roots(c);
    if (hc_writes(c) < 0)
        return -1;
    check_roots(c);
    hc_reads(c);
    /* Who took effect is known only after the reads, and guards tell something about the order. */
    hc_guards(c);
    ho_resolve(c);
    for (uint32_t i = 0; i < c->nnodes; i++)
        c->r->unknown_seen += !c->nodes[i].known && c->nodes[i].applied;
    return c->oom ? -1 : 0;
}

static void forget(struct check *c)
{
    free(c->nodes);
    free(c->op_node);
    free(c->floor);
    free(c->writes);
    free(c->keys);
    free(c->token_write);
    free(c->root_version);
    free(c->root_op);
    free(c->edges);
    free(c->eithers);
    hmap_destroy(c->version_root);
    hmap_destroy(c->edge_index);
    hmap_destroy(c->either_index);
}

int history_check(const history_t *h, const struct hist_options *o, struct hist_report *report)
{
    uint32_t names = history_names(h, HIST_OTHERS) + 1;
    bool *spaces = calloc(names, sizeof(*spaces));
    int rc = 0;

    memset(report, 0, sizeof(*report));
    report->ops = history_count(h);
    for (size_t i = 0; spaces && i < history_count(h); i++)
        spaces[history_op(h, i)->ns] = true;
    for (uint32_t ns = 0; spaces && ns < names && rc == 0; ns++) {
        struct check c = {.h = h, .o = o, .r = report, .ns = ns};
        if (!spaces[ns])
            continue;
        rc = check_namespace(&c);
        forget(&c);
    }
    if (!spaces || history_failed(h))
        rc = -1;
    free(spaces);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
