/* kap_work.c - a worker of flux kap: simulated processes, each with a connection of its own to the
 * broker, driven by one reactor.
 *
 * step      each process                                           latency
 * produce   a producer puts its keys into a transaction            of the puts, no message is sent
 * sync      calls the fence with its transaction, or (commit)      until the fence is over
 *           a producer commits it
 * wait      (commit) waits for the highest version                 from its commit to that
 * consume   a consumer gets its keys, one after the other,         of all its gets
 *           and compares each byte
 *
 * All processes of a worker begin a step together, and the worker reports when all have completed
 * it.  Therefore a latency includes the cost of the other processes of the same worker, as
 * intended: they represent the processes of one node.
 *
 * Failure: the first error is reported on standard error and to the coordinator, and the worker
 * exits.  It also exits when it has not heard from the coordinator for a long time.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kap.h"
#include "libflux/dispatch.h"
#include "libkvs/kvs.h"
#include "libutil/clock.h"
#include "libutil/errmsg.h"

struct proc {
    struct worker *w;
    flux_t *h;
    uint32_t producer, consumer; /* which, or KAP_NOBODY */
    uint32_t done;               /* gets */
    uint64_t key;
    double begin;
    flux_kvs_txn_t *txn;
};

struct worker {
    struct cmd *c;
    struct kap_config cfg;
    flux_t *h;
    flux_handlers_t *handlers;
    flux_watcher_t *guard;
    struct proc *procs;
    uint32_t nprocs;
    uint8_t *value;
    struct kap_go go;
    uint32_t left; /* processes that are still at it */
    uint64_t version;
    struct kap_stat stat;
    bool failed;
};

static const char *namespace(const struct worker *w)
{
    return w->cfg.ns[0] ? w->cfg.ns : NULL;
}

/* --- reporting --- */

static flux_future_t *publish(struct worker *w, struct kap_at *at)
{
    char topic[64];
    char *json;
    flux_future_t *f;
    at->rank = flux_rank(w->h);
    at->run = w->go.run;
    at->step = w->go.step;
    at->version = w->version;
    at->n = w->stat.n;
    at->sum = w->stat.sum;
    at->min = w->stat.min;
    at->max = w->stat.max;
    snprintf(topic, sizeof(topic), "kap.%.32s.at", w->cfg.id);
    if (!(json = flux_schema_encode(&kap_at_schema, at)))
        return NULL;
    f = flux_event_publish(w->h, topic, json);
    free(json);
    return f;
}

static void leave_cb(flux_future_t *f, void *arg)
{
    struct worker *w = arg;
    flux_future_destroy(f);
    flux_reactor_stop(flux_get_reactor(w->h), 0);
}

static void fail(struct worker *w, const char *what, const char *why)
{
    struct kap_at at = {0};
    errmsg_t text;
    flux_future_t *f;
    if (w->failed)
        return;
    w->failed = true;
    errmsg_set(&text, "rank %u: %s: %s", flux_rank(w->h), what, why);
    cmd_error(w->c, "%s", text.text);
    at.error = text.text;
    if (!(f = publish(w, &at)) || flux_future_then(f, 1., leave_cb, w) < 0)
        flux_reactor_stop(flux_get_reactor(w->h), 0);
}

static void reported_cb(flux_future_t *f, void *arg)
{
    struct worker *w = arg;
    if (flux_future_errnum(f))
        fail(w, "cannot report to the coordinator", flux_future_error(f));
    flux_future_destroy(f);
}

static void report(struct worker *w)
{
    struct kap_at at = {0};
    flux_future_t *f = publish(w, &at);
    if (!f || flux_future_then(f, 0., reported_cb, w) < 0)
        fail(w, "cannot report to the coordinator", "out of memory");
    memset(&w->stat, 0, sizeof(w->stat));
    w->version = 0;
}

static void proc_done(struct worker *w)
{
    if (--w->left == 0 && !w->failed)
        report(w);
}

/* --- steps --- */

static void produce(struct proc *p)
{
    struct worker *w = p->w;
    const struct kap_config *cfg = &w->cfg;
    char key[KAP_KEY_MAX];
    errmsg_t err;
    if (p->producer != KAP_NOBODY) {
        if (cfg->redundant)
            kap_value(cfg, w->go.run, 0, w->value);
        p->begin = clock_now();
        for (uint32_t j = 0; j < cfg->puts; j++) {
            uint64_t k = (uint64_t)p->producer * cfg->puts + j;
            kap_key(cfg, w->go.run, k, key);
            if (!cfg->redundant)
                kap_value(cfg, w->go.run, k, w->value);
            if (flux_kvs_txn_put_raw(p->txn, key, w->value, cfg->value_size, &err) < 0) {
                fail(w, key, err.text);
                return;
            }
        }
        kap_stat_add(&w->stat, clock_now() - p->begin);
    }
    proc_done(w);
}

/* Of a fence, or of waiting for the version: the phase is over for this process. */
static void synced_cb(flux_future_t *f, void *arg)
{
    struct proc *p = arg;
    errmsg_t err;
    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        fail(p->w, "synchronization", err.text);
    else
        kap_stat_add(&p->w->stat, clock_now() - p->begin);
    flux_future_destroy(f);
    proc_done(p->w);
}

static void committed_cb(flux_future_t *f, void *arg)
{
    struct proc *p = arg;
    struct worker *w = p->w;
    uint64_t version;
    errmsg_t err;
    if (flux_kvs_commit_get(f, &version, NULL, &err) < 0)
        fail(w, "commit", err.text);
    else if (version > w->version)
        w->version = version;
    flux_future_destroy(f);
    proc_done(w);
}

static void then(struct proc *p, flux_future_t *f, flux_future_f cb)
{
    if (!f || flux_future_then(f, 0., cb, p) < 0) {
        flux_future_destroy(f);
        fail(p->w, "request", strerror(errno));
    }
}

static void sync_proc(struct proc *p)
{
    struct worker *w = p->w;
    char name[64];
    p->begin = clock_now();
    if (!w->cfg.commit) {
        snprintf(name, sizeof(name), "kap.%.32s.%u", w->cfg.id, w->go.run);
        then(p, flux_kvs_fence_ranks(p->h, namespace(w), name, w->cfg.nprocs, w->cfg.ranks, p->txn),
             synced_cb);
    } else if (p->producer != KAP_NOBODY) {
        then(p, flux_kvs_commit(p->h, namespace(w), p->txn), committed_cb);
    } else {
        proc_done(w);
    }
    flux_kvs_txn_clear(p->txn);
}

static void wait_proc(struct proc *p)
{
    then(p, flux_kvs_wait_version(p->h, namespace(p->w), p->w->go.version), synced_cb);
}

static void got_cb(flux_future_t *f, void *arg);

static void get_next(struct proc *p)
{
    struct worker *w = p->w;
    char key[KAP_KEY_MAX];
    if (p->done == w->cfg.gets) {
        kap_stat_add(&w->stat, clock_now() - p->begin);
        proc_done(w);
        return;
    }
    p->key = kap_wanted(&w->cfg, p->consumer, p->done);
    kap_key(&w->cfg, w->go.run, p->key, key);
    then(p, flux_kvs_lookup(p->h, namespace(w), key, 0, NULL), got_cb);
}

static void got_cb(flux_future_t *f, void *arg)
{
    struct proc *p = arg;
    struct worker *w = p->w;
    const char *data;
    char key[KAP_KEY_MAX];
    size_t len, at;
    errmsg_t err;
    bool good = false;
    kap_key(&w->cfg, w->go.run, p->key, key);
    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0) {
        fail(w, key, err.text);
    } else if (len != w->cfg.value_size) {
        errmsg_set(&err, "has %zu bytes, not %u", len, w->cfg.value_size);
        fail(w, key, err.text);
    } else if ((at = kap_compare(&w->cfg, w->go.run, p->key, data, len)) < len) {
        errmsg_set(&err, "differs from byte %zu on", at);
        fail(w, key, err.text);
    } else {
        good = true;
    }
    flux_future_destroy(f);
    if (good) {
        p->done++;
        get_next(p);
    }
}

static void consume(struct proc *p)
{
    if (p->consumer == KAP_NOBODY) {
        proc_done(p->w);
        return;
    }
    p->done = 0;
    p->begin = clock_now();
    get_next(p);
}

static void go_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    static void (*const steps[])(struct proc *) = {
        [KAP_PRODUCE] = produce,
        [KAP_SYNC] = sync_proc,
        [KAP_WAIT] = wait_proc,
        [KAP_CONSUME] = consume,
    };
    struct worker *w = arg;
    size_t len;
    const char *data = flux_msg_payload(event, &len);
    errmsg_t err;
    json_t *owner = data ? flux_schema_decode(&kap_go_schema, data, len, &w->go, &err) : NULL;
    if (!owner) {
        fail(w, "step", data ? err.text : "it is empty");
        return;
    }
    json_decref(owner);
    if (w->failed)
        return;
    flux_timer_start(w->guard, w->cfg.timeout * 2 + 60, 0);
    if (w->go.step == KAP_END) {
        flux_reactor_stop(flux_get_reactor(h), 0);
        return;
    }
    if (w->go.step >= sizeof(steps) / sizeof(steps[0]) || !steps[w->go.step]) {
        fail(w, "step", "it is unknown: does this rank run another version of flux?");
        return;
    }
    w->left = w->nprocs + 1;
    for (uint32_t i = 0; i < w->nprocs && !w->failed; i++)
        steps[w->go.step](&w->procs[i]);
    proc_done(w);
}

static void guard_cb(flux_reactor_t *r, flux_watcher_t *t, int revents, void *arg)
{
    fail(arg, "lost contact with the coordinator", "it has exited");
}

/* --- life --- */

/* A simulated process takes a connection, and a shell's usual limit is 1024 files. */
static void raise_limit(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
        rl.rlim_cur = rl.rlim_max;
        setrlimit(RLIMIT_NOFILE, &rl);
    }
}

static int open_procs(struct worker *w)
{
    idset_t *ranks = idset_parse(w->cfg.ranks, NULL);
    uint32_t nranks = (uint32_t)idset_count(ranks), index = 0, first;
    errmsg_t err;
    if (!idset_test(ranks, flux_rank(w->h))) {
        idset_destroy(ranks);
        return cmd_error(w->c, "rank %u has no work in this run", flux_rank(w->h)), -1;
    }
    for (uint32_t r = idset_first(ranks); r != flux_rank(w->h); r = idset_next(ranks, r))
        index++;
    idset_destroy(ranks);
    kap_share(&w->cfg, index, nranks, &first, &w->nprocs);
    w->procs = calloc(w->nprocs + 1u, sizeof(*w->procs));
    w->value = malloc(w->cfg.value_size + 8u);
    if (!w->procs || !w->value)
        return cmd_error(w->c, "out of memory for %u processes", w->nprocs), -1;
    for (uint32_t i = 0; i < w->nprocs; i++) {
        struct proc *p = &w->procs[i];
        p->w = w;
        p->producer = kap_producer(&w->cfg, first + i);
        p->consumer = kap_consumer(&w->cfg, first + i);
        if (!(p->h = flux_open(NULL, flux_get_reactor(w->h), &err)))
            return cmd_error(w->c, "process %u of %u at rank %u: %s", i, w->nprocs, flux_rank(w->h),
                             err.text),
                   -1;
        if (!(p->txn = flux_kvs_txn_create()))
            return cmd_error(w->c, "out of memory for %u processes", w->nprocs), -1;
    }
    return 0;
}

static int work(struct worker *w)
{
    static const struct flux_handler handlers[] = {
        {FLUX_MSG_EVENT, "kap.", go_cb, 0},
        FLUX_HANDLER_END,
    };
    char topic[64];
    flux_future_t *f;
    raise_limit();
    if (!(w->h = cmd_handle(w->c)))
        return -1;
    snprintf(topic, sizeof(topic), "kap.%.32s.go", w->cfg.id);
    if (!(w->handlers = flux_handlers_add(w->h, handlers, w)) ||
        !(w->guard = flux_timer_create(flux_get_reactor(w->h), guard_cb, w)))
        return cmd_error(w->c, "out of memory"), -1;
    f = flux_event_subscribe(w->h, topic);
    int rc = cmd_wait(w->c, f, w->cfg.timeout, "the subscription to events");
    flux_future_destroy(f);
    if (rc < 0)
        return -1;
    if (open_procs(w) < 0)
        return -1;
    flux_timer_start(w->guard, w->cfg.timeout * 2 + 60, 0);
    report(w); /* KAP_READY */
    if (flux_run(w->h) < 0 && !w->failed)
        return cmd_error(w->c, "the broker of rank %u is lost", flux_rank(w->h)), -1;
    return w->failed ? -1 : 0;
}

int kap_work(struct cmd *c, const char *json)
{
    struct worker w = {.c = c};
    errmsg_t err;
    json_t *owner = flux_schema_decode(&kap_config_schema, json, strlen(json), &w.cfg, &err);
    int rc;
    if (!owner)
        return cmd_usage_error(c, "--worker is for internal use by flux kap: %s", err.text);
    rc = work(&w);
    flux_handlers_remove(w.handlers);
    flux_watcher_destroy(w.guard);
    for (uint32_t i = 0; w.procs && i < w.nprocs; i++) {
        flux_kvs_txn_destroy(w.procs[i].txn);
        flux_close(w.procs[i].h);
    }
    free(w.procs);
    free(w.value);
    json_decref(owner);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}
