/* histanswer.c - answers: what they say is written down, and remembered for later questions.
 *
 * An answer says that something was not done (EAGAIN and other refusals), or leaves it open
 * (connection lost, aborted): see surely_not().
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "histload_private.h"

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

/* What is watched, as it is at the end. */
static void verify(struct histclient *c, int errnum, const char *data, size_t len, uint64_t version)
{
    struct memory *m = &c->actual;

    free(m->data);
    m->data = errnum == 0 ? malloc(len + 1) : NULL;
    if (m->data && len)
        memcpy(m->data, data, len);
    m->len = len;
    m->version = version;
    c->verified = errnum == ENOENT || m->data;
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
    if (c->what == DO_VERIFY)
        verify(c, errnum, data, len, info.version);
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

/* All at one root: together they are one answer, or none.  A root that nobody holds may be gone;
 * one that is held must not, as long as the service has not said that it is held no longer. */
static void got_at(struct histclient *c)
{
    histload_t *l = c->l;
    int errnum = 0;

    for (unsigned i = 0; i < c->n && errnum == 0; i++) {
        errnum = flux_future_errnum(c->f[i]);
        if (errnum == 0 && flux_kvs_lookup_get(c->f[i], NULL, NULL, NULL) < 0)
            errnum = errno;
        bool gone = errnum == ENOENT && strstr(flux_future_error(c->f[i]), "kept");
        if (errnum == ENOENT && !gone)
            errnum = 0;
        c->unkept |= gone && c->snapshot && strcmp(c->asked_root, c->root) == 0;
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
        hl_drop_snapshot(c);
        c->snapshot = f;
        c->snapshot_uses = rng_range(&c->l->rng, 1, 6);
        c->n = 0;
        flux_future_next(f); /* its end */
    }
}

/* All answers are here. */
void hl_finish(struct histclient *c)
{
    histload_t *l = c->l;

    for (unsigned i = 0; i < c->n; i++) {
        if (flux_future_errnum(c->f[i]) == EPIPE) {
            hl_leave(c, true); /* which says that the outcome is unknown */
            return;
        }
    }
    flux_watcher_stop(c->timer);
    bool cut_off = flux_future_errnum(c->f[0]) == EHOSTUNREACH;
    if (flux_future_errnum(c->f[0]) != 0)
        hl_fence_left(c);
    c->in_fence = false;
    if (c->what == DO_GET || c->what == DO_VERIFY)
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
    if (c->snapshot && c->snapshot_uses == 0 && !c->unkept)
        hl_drop_snapshot(c);
    if (c->what == DO_LAST_WAIT) {
        hl_ask_list(c, DO_LAST_LIST);
    } else {
        c->done = c->what == DO_LAST_LIST || c->what == DO_VERIFY;
        c->ended |= c->done;
        /* Who has no way to the master should not do more than the others for it. */
        flux_timer_start(c->timer, l->cfg.pause * 2. * rng_real(&l->rng) * (cut_off ? 20. : 1.),
                         0.);
    }
}

/* --- watching --- */

void hl_watch_end(struct histclient *c)
{
    flux_future_destroy(c->watch.f);
    free(c->watch.data);
    c->watch = (struct watch){.number = c->watch.number};
}

/* The value as it is now: bytes that were added, or all of them.  false: out of memory. */
static bool watch_value(struct watch *w, const char *data, size_t len, bool whole)
{
    size_t old = whole || w->absent || !w->data ? 0 : w->len;
    char *value = realloc(w->data, old + len + 1);

    if (!value)
        return false;
    if (len)
        memcpy(value + old, data, len);
    w->data = value;
    w->len = old + len;
    return true;
}

static void watch_cb(flux_future_t *f, void *arg)
{
    struct histclient *c = arg;
    histload_t *l = c->l;
    struct watch *w = &c->watch;
    struct flux_kvs_info info = {.version = HIST_NO_VERSION};
    const char *data = NULL;
    size_t len = 0;
    bool absent = flux_kvs_watch_absent(f);

    if (!absent && (flux_future_errnum(f) != 0 || flux_kvs_lookup_get(f, &data, &len, NULL) < 0 ||
                    flux_kvs_lookup_get_info(f, &info, NULL) < 0 ||
                    !watch_value(w, data, len,
                                 !(w->flags & FLUX_KVS_WATCH_APPEND) || flux_kvs_watch_whole(f)))) {
        hl_watch_end(c);
        return;
    }
    w->any = true;
    w->absent = absent;
    w->version = info.version;
    size_t op =
        history_begin(l->h, l->cfg.now(l->cfg.arg), c->id, flux_rank(c->h), l->cfg.ns, HIST_WATCH);
    history_set_want(l->h, op, w->number);
    history_ask(l->h, op, HIST_KEY, l->name[w->key], NULL, 0);
    history_asked(l->h, op);
    history_answer(l->h, op, l->cfg.now(l->cfg.arg), HIST_OK, 0, info.version, NULL);
    history_got(l->h, op, l->name[w->key], absent ? NULL : w->data, w->len);
    history_answered(l->h, op);
    flux_future_next(f);
}

void hl_watch_begin(struct histclient *c)
{
    histload_t *l = c->l;
    struct watch *w = &c->watch;

    w->number++;
    w->key = rng_below(&l->rng, l->nkeys);
    bool appended = w->key >= l->cfg.keys && w->key < l->cfg.keys + l->cfg.append_keys;
    w->flags = appended && l->cfg.append_watches ? FLUX_KVS_WATCH_APPEND : 0;
    w->f = flux_kvs_watch(c->h, l->cfg.ns, l->name[w->key], w->flags);
    if (!w->f || flux_future_then(w->f, -1., watch_cb, c) < 0)
        hl_watch_end(c);
}
