/* kap_run.c - the coordinator of flux kap: starts the workers and leads them through the steps.
 *
 * step       when all workers have done it
 * ready      counters of the master are read
 * produce    go on
 * sync       fence: counters are read, and the difference is the fence's; commits: go on
 * wait       as after a fence
 * consume    the run's directory is removed; the next run, or the end
 *
 * It uses the reactor of job_attach.c, which runs the workers and ends when they do.
 *
 * Invariants:
 *  1. Only one step is in progress at a time, and each worker reports it once.
 *  2. The keys of the test are removed at the end, even after an error, while there is a session.
 *
 * Failure: the first error ends the test: the workers are told to exit.  A step that takes longer
 * than the configured time is an error.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kap.h"
#include "libflux/dispatch.h"
#include "libkvs/kvs.h"
#include "libkvs/kvs_json_wire.h"
#include "../job/job_attach.h"

extern char **environ;

#define CLEAN_UP_SECONDS 60.

struct counters {
    uint64_t msgs, bytes, local;
};

struct coord {
    struct cmd *c;
    flux_t *h;
    const struct kap_config *cfg;
    struct kap_result *results;
    uint32_t repeat;
    uint32_t master; /* rank */
    uint32_t workers;
    uint32_t arrived;
    struct kap_go go;
    struct counters before;
    flux_watcher_t *timer;
    flux_future_t *pending;
    bool failed;
    bool over;
};

static const char *const step_names[] = {"the start", "putting", "synchronization",
                                         "waiting for the version", "getting"};

static const char *namespace(const struct kap_config *cfg)
{
    return cfg->ns[0] ? cfg->ns : NULL;
}

/* Unanswered: workers that do not hear it leave, and that is a failure (see end()). */
static void send_go(struct coord *co)
{
    char topic[64];
    char *json = flux_schema_encode(&kap_go_schema, &co->go);
    snprintf(topic, sizeof(topic), "kap.%.32s.go", co->cfg->id);
    if (!json || flux_event_send(co->h, topic, json) < 0) {
        cmd_error(co->c, "cannot reach the workers: %s", strerror(errno));
        co->failed = true; /* they leave when nothing comes */
    }
    free(json);
}

static void end(struct coord *co, bool failed)
{
    if (co->over)
        return;
    co->over = true;
    co->failed = co->failed || failed;
    flux_watcher_stop(co->timer);
    co->go.step = KAP_END;
    send_go(co);
}

static void step(struct coord *co, enum kap_step s)
{
    if (co->over)
        return;
    co->go.step = s;
    co->arrived = 0;
    flux_timer_start(co->timer, co->cfg->timeout, 0);
    if (s != KAP_READY)
        send_go(co);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct coord *co = arg;
    cmd_error(co->c, "%s took more than %g s: %u of %u ranks have completed it",
              step_names[co->go.step], co->cfg->timeout, co->arrived, co->workers);
    end(co, true);
}

/* --- counters of the master --- */

static int get_counter(struct coord *co, const json_t *obj, const char *name, uint64_t *out)
{
    json_t *val = json_object_get(obj, name);
    if (!json_is_integer(val))
        return cmd_error(co->c, "the service kvs at rank %u has no counter %s", co->master, name),
               -1;
    *out = (uint64_t)json_integer_value(val);
    return 0;
}

static int get_counters(struct coord *co, flux_future_t *f, struct counters *out)
{
    const char *json;
    errmsg_t err;
    json_t *obj;
    int rc = -1;
    if (flux_rpc_get_json(f, &json, &err) < 0)
        return cmd_error(co->c, "counters of kvs at rank %u: %s", co->master, err.text), -1;
    if (!(obj = json_loads(json, 0, NULL)))
        return cmd_error(co->c, "the counters of kvs at rank %u are invalid", co->master), -1;
    if (get_counter(co, obj, "fence_msgs_in", &out->msgs) == 0 &&
        get_counter(co, obj, "fence_bytes_in", &out->bytes) == 0 &&
        get_counter(co, obj, "fence_bytes_local", &out->local) == 0)
        rc = 0;
    json_decref(obj);
    return rc;
}

static void next_run(struct coord *co);

static void counted_cb(flux_future_t *f, void *arg)
{
    struct coord *co = arg;
    struct kap_result *res = &co->results[co->go.run];
    struct counters now;
    int rc = get_counters(co, f, &now);
    co->pending = NULL;
    flux_future_destroy(f);
    if (rc < 0) {
        end(co, true);
    } else if (co->go.step == KAP_READY) {
        co->before = now;
        step(co, KAP_PRODUCE);
    } else {
        res->fence_msgs = now.msgs - co->before.msgs;
        res->fence_bytes = now.bytes - co->before.bytes;
        res->fence_local = now.local - co->before.local;
        if (co->cfg->gets > 0 && co->cfg->consumers > 0)
            step(co, KAP_CONSUME);
        else
            next_run(co);
    }
}

static void count(struct coord *co)
{
    const struct kvs_ns_only body = {co->cfg->ns[0] ? co->cfg->ns : "primary"};
    if (co->over)
        return;
    co->pending = flux_rpc_struct(co->h, "kvs.stats", &kvs_ns_only_schema, &body, co->master, 0);
    if (!co->pending || flux_future_then(co->pending, co->cfg->timeout, counted_cb, co) < 0) {
        cmd_error(co->c, "out of memory");
        end(co, true);
    }
}

/* --- runs --- */

static flux_future_t *remove_dir(flux_t *h, const struct kap_config *cfg, const char *dir)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f = NULL;
    if (txn && flux_kvs_txn_unlink(txn, dir, FLUX_KVS_RECURSIVE, NULL) == 0)
        f = flux_kvs_commit(h, namespace(cfg), txn);
    flux_kvs_txn_destroy(txn);
    return f;
}

static void removed_cb(flux_future_t *f, void *arg)
{
    struct coord *co = arg;
    errmsg_t err;
    int rc = flux_kvs_commit_get(f, NULL, NULL, &err);
    co->pending = NULL;
    flux_future_destroy(f);
    if (rc < 0)
        cmd_error(co->c, "the keys of a run cannot be removed: %s", err.text);
    if (rc < 0 || ++co->go.run == co->repeat) {
        end(co, rc < 0);
        return;
    }
    co->go.step = KAP_READY;
    count(co);
}

static void next_run(struct coord *co)
{
    char dir[KAP_KEY_MAX];
    if (co->over)
        return;
    kap_dir(co->cfg, co->go.run, dir);
    co->pending = remove_dir(co->h, co->cfg, dir);
    if (!co->pending || flux_future_then(co->pending, co->cfg->timeout, removed_cb, co) < 0) {
        cmd_error(co->c, "out of memory");
        end(co, true);
    }
}

static void all_arrived(struct coord *co)
{
    flux_watcher_stop(co->timer);
    switch (co->go.step) {
    case KAP_READY:
        count(co);
        break;
    case KAP_PRODUCE:
        step(co, KAP_SYNC);
        break;
    case KAP_SYNC:
        if (co->cfg->commit)
            step(co, KAP_WAIT);
        else
            count(co);
        break;
    case KAP_WAIT:
        count(co);
        break;
    default:
        next_run(co);
    }
}

static struct kap_stat *phase_of(struct coord *co)
{
    struct kap_stat *phase = co->results[co->go.run].phase;
    return co->go.step == KAP_PRODUCE   ? &phase[0]
           : co->go.step == KAP_CONSUME ? &phase[2]
           : co->go.step == KAP_READY   ? NULL
                                        : &phase[1];
}

static void at_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct coord *co = arg;
    struct kap_at at = {0};
    size_t len;
    const char *data = flux_msg_payload(event, &len);
    errmsg_t err;
    json_t *owner = data ? flux_schema_decode(&kap_at_schema, data, len, &at, &err) : NULL;
    if (!owner) {
        cmd_error(co->c, "a worker sent an invalid report: %s", data ? err.text : "nothing");
        end(co, true);
        return;
    }
    if (at.error) {
        end(co, true); /* it said so itself */
    } else if (co->over) {
        send_go(co); /* to one that came late to hear of the end */
    } else if (at.run == co->go.run && at.step == co->go.step) {
        struct kap_stat *phase = phase_of(co);
        struct kap_stat more = {at.n, at.sum, at.min, at.max};
        if (phase)
            kap_stat_merge(phase, &more);
        if (co->go.step == KAP_SYNC && at.version > co->go.version)
            co->go.version = at.version;
        if (++co->arrived == co->workers)
            all_arrived(co);
    }
    json_decref(owner);
}

/* --- life --- */

/* Where the namespace has its master.  -1 after an error message. */
static int find_master(struct coord *co)
{
    struct flux_kvs_namespace n;
    flux_future_t *f;
    size_t pos = 0;
    errmsg_t err;
    int rc;
    if (!namespace(co->cfg))
        return 0;
    f = flux_kvs_namespace_list(co->h);
    if (cmd_wait(co->c, f, co->cfg->timeout, "the list of namespaces") < 0) {
        flux_future_destroy(f);
        return -1;
    }
    while ((rc = flux_kvs_namespace_next(f, &pos, &n, &err)) == 1 &&
           strcmp(n.name, co->cfg->ns) != 0)
        ;
    if (rc == 1)
        co->master = n.rank;
    else if (rc == 0)
        rc = (cmd_error(co->c, "there is no namespace '%s'", co->cfg->ns), -1);
    else
        cmd_error(co->c, "%s", err.text);
    flux_future_destroy(f);
    return rc < 0 ? -1 : 0;
}

static int run_workers(struct coord *co)
{
    struct job_attach_params p = {.run.input = "none"};
    char *json = flux_schema_encode(&kap_config_schema, co->cfg);
    char exe[4096];
    char *argv[] = {exe, "kap", "--worker", json, NULL};
    char *cwd = getcwd(NULL, 0);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    int code = CMD_FAIL;
    if (json && cwd && n > 0) {
        exe[n] = '\0';
        p.run.ranks = co->cfg->ranks;
        p.argv = argv;
        p.env = environ;
        p.fixed[WIRE_S_CWD] = cwd;
        step(co, KAP_READY);
        code = job_attach_exec(co->c, &p);
    } else {
        cmd_error(co->c, "the workers cannot be started: %s", strerror(errno));
    }
    free(cwd);
    free(json);
    return code;
}

static int coordinate(struct coord *co)
{
    static const struct flux_handler handlers[] = {
        {FLUX_MSG_EVENT, "kap.", at_cb, 0},
        FLUX_HANDLER_END,
    };
    flux_handlers_t *hs = flux_handlers_add(co->h, handlers, co);
    char topic[64];
    flux_future_t *f;
    int code = CMD_FAIL;
    snprintf(topic, sizeof(topic), "kap.%.32s.at", co->cfg->id);
    f = flux_event_subscribe(co->h, topic);
    co->timer = flux_timer_create(flux_get_reactor(co->h), timer_cb, co);
    if (!hs || !co->timer)
        cmd_error(co->c, "out of memory");
    else if (cmd_wait(co->c, f, co->cfg->timeout, "the subscription to events") == 0)
        code = run_workers(co);
    flux_future_destroy(f);
    flux_future_destroy(co->pending);
    flux_watcher_destroy(co->timer);
    flux_handlers_remove(hs);
    if (code == CMD_OK && !co->over)
        cmd_error(co->c, "the workers exited before they had finished");
    return code == CMD_OK && co->over && !co->failed ? 0 : -1;
}

int kap_run(struct cmd *c, flux_t *h, const struct kap_config *cfg, uint32_t repeat,
            struct kap_result *results)
{
    struct coord co = {.c = c, .h = h, .cfg = cfg, .repeat = repeat, .results = results};
    idset_t *ranks = idset_parse(cfg->ranks, NULL);
    char top[KAP_KEY_MAX];
    flux_future_t *f;
    int rc;
    co.workers = (uint32_t)idset_count(ranks);
    idset_destroy(ranks);
    if (find_master(&co) < 0)
        return -1;
    rc = coordinate(&co);
    kap_top(cfg, top);
    f = remove_dir(h, cfg, top);
    if (cmd_wait(c, f, CLEAN_UP_SECONDS, "the removal of the test's keys") < 0)
        rc = -1;
    flux_future_destroy(f);
    return rc;
}
