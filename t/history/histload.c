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
 *    fence       with others: the first who likes to opens one, and all that have nothing else to do
 *                join until it is full
 *
 * When it is stopped it waits for the newest version that anybody was told, lists all keys once
 * more, and is at its end.
 *
 * An answer says that something was not done (EAGAIN and other refusals), or leaves it open
 * (connection lost, aborted): see surely_not().
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/rng.h"
#include "histload.h"
#include "libflux/future.h"
#include "libkvs/kvs.h"
#include "libutil/list.h"

#define ASK_MAX 6   /* requests at a time */
#define POOL 32     /* roots passed between clients */
#define KEYS_MAX 64 /* in all */

enum what {
    DO_COMMIT,
    DO_FENCE,
    DO_GET,
    DO_GET_AT,
    DO_LIST,
    DO_VERSION,
    DO_SNAPSHOT,
    DO_WAIT,
    DO_LAST_WAIT,
    DO_LAST_LIST
};

/* A value that a client has read, to lie with or to compare with. */
struct memory {
    char *data; /* NULL: was absent */
    size_t len;
    uint64_t version;
    char tag[FLUX_KVS_TAG_MAX];
    bool known;
};

struct hook;
struct histclient {
    struct list_node node;
    struct hook *hook;
    histload_t *l;
    flux_t *h;
    uint32_t id;
    flux_watcher_t *timer; /* pause, or time of a fence */
    bool in_fence;
    unsigned fence; /* which one */
    bool done;
    uint64_t after; /* version to wait for first */
    unsigned tokens;
    /* what was asked */
    bool busy;
    enum what what;
    size_t op;
    uint64_t asked_version;
    flux_future_t *f[ASK_MAX];
    unsigned key[ASK_MAX];
    unsigned n, ready;
    bool next_guard; /* compare and set a key that has been read */
    unsigned guard_key;
    bool bad; /* a transaction could not be made */
    flux_future_t *snapshot;
    char root[96]; /* of it */
    unsigned snapshot_uses;
    struct memory *memory; /* by key */
};

/* Hangs on the handle: when that is closed the client ends. */
struct hook {
    struct histclient *c;
};

struct histload {
    struct histload_config cfg;
    history_t *h;
    struct rng rng;
    struct list_node clients;
    unsigned nclients;
    uint32_t next_id;
    unsigned nkeys;
    char name[KEYS_MAX][40]; /* whole key */
    bool stopped;
    uint64_t version;
    char pool[POOL][96];
    uint64_t pool_version[POOL];
    unsigned npool;
    struct {
        char name[40];
        unsigned size, called, number;
    } fence;
    uint64_t ok, failed, lies;
};

static void next(struct histclient *c);
static void finish(struct histclient *c);

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

/* One of those who called the fence at hand does so no more: nobody else should. */
static void fence_left(struct histclient *c)
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
    if (!closing)
        flux_future_destroy(c->snapshot);
    c->hook->c = NULL;
    fence_left(c);
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

/* The client ends before its handle. */
static void leave(struct histclient *c, bool lost)
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
        leave(c, false);
    else
        next(c);
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

/* --- asking --- */

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

    if (++c->ready == c->n)
        finish(c);
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
            leave(c, false);
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

static void ask_commit(struct histclient *c)
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

static bool fence_open(const histload_t *l)
{
    return l->fence.called < l->fence.size;
}

static void ask_fence(struct histclient *c)
{
    histload_t *l = c->l;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();

    if (!fence_open(l)) {
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

static void ask_get(struct histclient *c, unsigned key, int flags)
{
    histload_t *l = c->l;

    begin(c, DO_GET, HIST_GET);
    history_ask(l->h, c->op, HIST_KEY, l->name[key], NULL, 0);
    request(c, flux_kvs_lookup(c->h, l->cfg.ns, l->name[key], flags, NULL), key);
    asked(c, -1.);
}

static void ask_get_at(struct histclient *c, const char *root)
{
    histload_t *l = c->l;
    unsigned n = rng_range(&l->rng, 1, ASK_MAX), first = rng_below(&l->rng, l->nkeys);

    begin(c, DO_GET_AT, HIST_GET);
    history_set_at(l->h, c->op, root);
    for (unsigned i = 0; i < n && i < l->nkeys; i++) {
        unsigned key = (first + i) % l->nkeys;
        history_ask(l->h, c->op, HIST_KEY, l->name[key], NULL, 0);
        request(c, flux_kvs_lookup(c->h, l->cfg.ns, l->name[key], 0, root), key);
    }
    asked(c, -1.);
}

static void ask_list(struct histclient *c, enum what what)
{
    histload_t *l = c->l;

    begin(c, what, HIST_GET);
    for (unsigned i = 0; i < l->nkeys; i++)
        history_ask(l->h, c->op, HIST_KEY, l->name[i], NULL, 0);
    request(c, flux_kvs_readdir(c->h, l->cfg.ns, l->cfg.dir, FLUX_KVS_VALUES, NULL), 0);
    asked(c, -1.);
}

static void ask_version(struct histclient *c, enum what what)
{
    histload_t *l = c->l;

    begin(c, what, HIST_VERSION);
    request(c,
            what == DO_SNAPSHOT ? flux_kvs_snapshot(c->h, l->cfg.ns, NULL)
                                : flux_kvs_version(c->h, l->cfg.ns),
            0);
    asked(c, -1.);
}

static void ask_wait(struct histclient *c, enum what what, uint64_t version)
{
    histload_t *l = c->l;

    begin(c, what, HIST_WAIT);
    history_set_want(l->h, c->op, version);
    request(c, flux_kvs_wait_version(c->h, l->cfg.ns, version), 0);
    asked(c, l->cfg.wait_timeout);
}

static void drop_snapshot(struct histclient *c)
{
    flux_future_destroy(c->snapshot);
    c->snapshot = NULL;
}

static void next(struct histclient *c)
{
    histload_t *l = c->l;
    unsigned what = rng_below(&l->rng, 100);

    if (c->after) {
        uint64_t v = c->after;
        c->after = 0;
        ask_wait(c, DO_WAIT, v);
    } else if (fence_open(l) && l->cfg.fence_max > 0) {
        ask_fence(c);
    } else if (l->stopped && !c->done) {
        drop_snapshot(c);
        ask_wait(c, DO_LAST_WAIT, l->version);
    } else if (l->stopped) {
        return;
    } else if (c->next_guard || what < 30) {
        ask_commit(c);
    } else if (what < 33 && l->cfg.fence_max > 0) {
        ask_fence(c);
    } else if (what < 40 && l->cfg.guard_keys > 0) {
        unsigned key = l->nkeys - 1 - rng_below(&l->rng, l->cfg.guard_keys);
        ask_get(c, key, FLUX_KVS_TAG);
    } else if (what < 60) {
        ask_get(c, rng_below(&l->rng, l->nkeys), 0);
    } else if (what < 75) {
        ask_list(c, DO_LIST);
    } else if (c->snapshot && what < 92) {
        ask_get_at(c, c->root);
        if (c->snapshot_uses > 0)
            c->snapshot_uses--;
    } else if (what < 78 && l->cfg.snapshots) {
        ask_version(c, DO_SNAPSHOT);
    } else if (what < 84 && l->npool > 0) {
        unsigned n = l->npool < POOL ? l->npool : POOL;
        ask_get_at(c, l->pool[rng_below(&l->rng, n)]);
    } else if (what < 90) {
        ask_version(c, DO_VERSION);
    } else if (l->npool > 0) {
        unsigned n = l->npool < POOL ? l->npool : POOL;
        ask_wait(c, DO_WAIT, l->pool_version[rng_below(&l->rng, n)]);
    } else {
        ask_list(c, DO_LIST);
    }
}

/* --- answers --- */

/* Was what was answered with this error surely not done? */
static bool surely_not(enum what what, int errnum)
{
    static const int refusals[] = {EAGAIN, EINVAL,   ENOENT, EEXIST,    ENOTDIR, EISDIR,
                                   EPERM,  EMSGSIZE, ENOSPC, ENOTEMPTY, ELOOP,   ENOSYS};

    /* A fence ends for all with an error that one of them met. */
    for (size_t i = 0; what != DO_FENCE && i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        if (errnum == refusals[i])
            return true;
    }
    return what == DO_FENCE ? errnum == EINVAL : what != DO_COMMIT; /* what changes nothing */
}

static void answered(struct histclient *c, enum hist_outcome outcome, int errnum, uint64_t version,
                     const char *root)
{
    histload_t *l = c->l;

    history_answer(l->h, c->op, l->cfg.now(l->cfg.arg), outcome, errnum, version, root);
    c->busy = false;
    if (outcome == HIST_OK)
        l->ok++;
    else
        l->failed++;
    if (version != HIST_NO_VERSION && version > l->version)
        l->version = version;
    if (root && strlen(root) < sizeof(l->pool[0])) {
        unsigned i = l->npool < POOL ? l->npool : rng_below(&l->rng, POOL);
        snprintf(l->pool[i], sizeof(l->pool[i]), "%s", root);
        l->pool_version[i] = version;
        l->npool += l->npool < POOL;
    }
}

static void remember(struct histclient *c, unsigned key, const char *data, size_t len,
                     const struct flux_kvs_info *info)
{
    struct memory *m = &c->memory[key];
    char *copy = data ? malloc(len + 1) : NULL;

    if (data && !copy)
        return;
    if (copy && len)
        memcpy(copy, data, len);
    free(m->data);
    m->data = copy;
    m->len = len;
    m->version = info->version;
    memcpy(m->tag, info->tag, sizeof(m->tag));
    m->known = true;
}

/* Tell a read as an older one that the client remembers: with its version, or with the new one. */
static bool lie(struct histclient *c, const char *data, size_t len, uint64_t version)
{
    histload_t *l = c->l;
    const struct memory *m = &c->memory[c->key[0]];

    if (l->cfg.lie <= 0. || !m->known || !m->data || m->version >= version ||
        (m->len == len && memcmp(m->data, data, len) == 0) || !rng_chance(&l->rng, l->cfg.lie))
        return false;
    answered(c, HIST_OK, 0, rng_chance(&l->rng, 0.5) ? m->version : version, NULL);
    history_got(l->h, c->op, l->name[c->key[0]], m->data, m->len);
    l->lies++;
    return true;
}

static void got_one(struct histclient *c)
{
    histload_t *l = c->l;
    flux_future_t *f = c->f[0];
    unsigned key = c->key[0];
    struct flux_kvs_info info = {0};
    const char *data = NULL;
    size_t len = 0;
    int errnum = flux_future_errnum(f);
    bool guard = key >= l->nkeys - l->cfg.guard_keys;

    if (errnum == 0 && (flux_kvs_lookup_get(f, &data, &len, NULL) < 0 ||
                        flux_kvs_lookup_get_info(f, &info, NULL) < 0))
        errnum = errno;
    if (errnum == ENOENT) {
        answered(c, HIST_OK, 0, HIST_NO_VERSION, NULL);
        history_got(l->h, c->op, l->name[key], NULL, 0);
        remember(c, key, NULL, 0, &info);
    } else if (errnum) {
        answered(c, HIST_FAIL, errnum, HIST_NO_VERSION, NULL);
        guard = false;
    } else if (!lie(c, data, len, info.version)) {
        answered(c, HIST_OK, 0, info.version, NULL);
        history_got(l->h, c->op, l->name[key], data, len);
        /* An older value makes a better lie. */
        if (guard || !c->memory[key].known || rng_chance(&l->rng, 0.3))
            remember(c, key, data, len, &info);
    } else {
        guard = false;
    }
    c->next_guard = guard && (!data || info.tag[0]);
    c->guard_key = key;
}

/* All at one root: together they are one answer, or none.  A root that nobody holds may be gone. */
static void got_at(struct histclient *c)
{
    histload_t *l = c->l;
    int errnum = 0;

    for (unsigned i = 0; i < c->n && errnum == 0; i++) {
        errnum = flux_future_errnum(c->f[i]);
        if (errnum == 0 && flux_kvs_lookup_get(c->f[i], NULL, NULL, NULL) < 0)
            errnum = errno;
        bool gone = errnum == ENOENT && strstr(flux_future_error(c->f[i]), "kept");
        if (errnum == ENOENT && (!gone || c->snapshot))
            errnum = 0;
    }
    if (errnum) {
        answered(c, HIST_FAIL, errnum, HIST_NO_VERSION, NULL);
        return;
    }
    answered(c, HIST_OK, 0, HIST_NO_VERSION, NULL);
    for (unsigned i = 0; i < c->n; i++) {
        const char *data = NULL;
        size_t len = 0;
        if (flux_kvs_lookup_get(c->f[i], &data, &len, NULL) < 0)
            data = NULL;
        history_got(l->h, c->op, l->name[c->key[i]], data, len);
    }
}

/* Where in the keys an entry of the directory is; -1 when it is none of them. */
static int find_key(const histload_t *l, const char *name)
{
    size_t dir = strlen(l->cfg.dir) + 1;

    for (unsigned i = 0; i < l->nkeys; i++) {
        if (strcmp(l->name[i] + dir, name) == 0)
            return (int)i;
    }
    return -1;
}

static void got_list(struct histclient *c)
{
    histload_t *l = c->l;
    flux_future_t *f = c->f[0];
    int errnum = flux_future_errnum(f);
    struct flux_kvs_dirent e;
    struct flux_kvs_info info = {0};
    bool seen[KEYS_MAX] = {false};
    size_t pos = 0;

    if (errnum == 0 && flux_kvs_lookup_get_info(f, &info, NULL) < 0)
        errnum = errno;
    if (errnum && errnum != ENOENT) {
        answered(c, HIST_FAIL, errnum, HIST_NO_VERSION, NULL);
        return;
    }
    answered(c, HIST_OK, 0, errnum ? HIST_NO_VERSION : info.version, NULL);
    while (errnum == 0 && flux_kvs_readdir_next(f, &pos, &e, NULL) == 1) {
        int key = find_key(l, e.name);
        if (key < 0)
            continue;
        seen[key] = true;
        history_got(l->h, c->op, l->name[key], e.data ? e.data : "?", e.data ? e.size : 1);
    }
    for (unsigned i = 0; i < l->nkeys; i++) {
        if (!seen[i])
            history_got(l->h, c->op, l->name[i], NULL, 0);
    }
}

static void got_root(struct histclient *c)
{
    flux_future_t *f = c->f[0];
    int errnum = flux_future_errnum(f);
    uint64_t version;
    const char *root;

    if (errnum == 0 && flux_kvs_commit_get(f, &version, &root, NULL) < 0)
        errnum = errno;
    if (errnum) {
        answered(c, surely_not(c->what, errnum) ? HIST_FAIL : HIST_UNKNOWN, errnum, HIST_NO_VERSION,
                 NULL);
        return;
    }
    answered(c, HIST_OK, 0, version, root);
    if (c->what == DO_SNAPSHOT && strlen(root) < sizeof(c->root)) {
        memcpy(c->root, root, strlen(root) + 1);
        drop_snapshot(c);
        c->snapshot = f;
        c->snapshot_uses = rng_range(&c->l->rng, 1, 6);
        c->n = 0; /* it is kept */
    }
}

/* All answers are here. */
static void finish(struct histclient *c)
{
    histload_t *l = c->l;

    for (unsigned i = 0; i < c->n; i++) {
        if (flux_future_errnum(c->f[i]) == EPIPE) {
            leave(c, true); /* which says that the outcome is unknown */
            return;
        }
    }
    flux_watcher_stop(c->timer);
    if (flux_future_errnum(c->f[0]) != 0)
        fence_left(c);
    c->in_fence = false;
    if (c->what == DO_GET)
        got_one(c);
    else if (c->what == DO_GET_AT)
        got_at(c);
    else if (c->what == DO_LIST || c->what == DO_LAST_LIST)
        got_list(c);
    else
        got_root(c);
    history_answered(l->h, c->op);
    for (unsigned i = 0; i < c->n; i++)
        flux_future_destroy(c->f[i]);
    c->n = 0;
    if (c->snapshot && c->snapshot_uses == 0)
        drop_snapshot(c);
    if (c->what == DO_LAST_WAIT) {
        ask_list(c, DO_LAST_LIST);
    } else {
        c->done = c->what == DO_LAST_LIST;
        flux_timer_start(c->timer, l->cfg.pause * 2. * rng_real(&l->rng), 0.);
    }
}
