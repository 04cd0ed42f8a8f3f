/* jm_load.c - restore the jobs from the store, after a restart.
 *
 * First an empty transaction is committed.  Its response means that all transactions of an earlier
 * instance were accepted or refused, so the store no longer changes.  Then job-next and job-queue
 * are read, then the directory "job" page by page.  For each job, WINDOW at a time, its directory
 * is read with all values up to SMALL (output is usually longer, and not needed), then log,
 * jobspec, R and environment if they are still missing.  Once all jobs are there:
 *
 *    the log says       what happens
 *    INACTIVE           a small record is kept
 *    DEPEND..SCHED      the job is queued again, with its remaining dependencies
 *    RUN, no start      it was allocated resources and never launched: the events from "alloc" on
 *                       are removed from the log, and it is queued again
 *    RUN, start         it is not launched again.  wrexec reports whether it runs (this module was
 *                       reloaded) or not (the session was restarted): then it is recorded as lost
 *    CLEANUP            the remaining events are logged
 *    another user's     any of these but INACTIVE: it ends with an exception "user"
 *
 * Jobs that were to end with their client (wreckrun) and do not run yet are canceled.  Jobs for
 * hosts that no longer exist end with an exception "alloc".
 *
 * Invariants:
 *  1. Until all this is done, no request is handled, and no message is sent to the scheduler or
 *     wrexec.
 *  2. A job whose log has "start" is never launched.
 *  3. A job that is launched was submitted by the session's owner or root.
 *
 * Failure: if the store does not respond, requests are repeated, at most TRIES times for one job.
 * A job that cannot be read stays in the store, and the session's log names it.  A job that has
 * resources according to its log, but no R, is ended: its resources are not known.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"

#define WINDOW 128
#define SMALL 16384 /* bytes */
#define PAGE 1000
#define AGAIN 0.25
#define TRIES 20 /* for one job; fewer after the store has failed permanently for another one */
#define TRIES_LATER 2

enum { LOG, SPEC, R, ENV, PARTS };
static const char *const part_names[PARTS] = {"eventlog", "jobspec", "R", "env"};

struct loading {
    struct list_node node;
    struct jm *jm;
    uint64_t id;
    flux_future_t *dir;      /* its directory with the small values, */
    const char *data[PARTS]; /* those that were found, */
    size_t len[PARTS];
    flux_future_t *f[PARTS]; /* and requests for the others */
    unsigned left;
    unsigned tries;
    int errnum; /* a request could not even be sent */
};

enum step { SETTLED, NEXT_ID, QUEUE, NAMES, JOBS };

struct jm_load {
    enum step step;
    flux_future_t *f;
    flux_watcher_t *again;
    struct jm_ids ids;
    size_t next;
    unsigned inflight;
    struct list_node jobs;  /* struct loading */
    struct list_node retry; /* those of them for which requests must be repeated */
    char after[256];
    size_t nbad;
    bool store_bad; /* it has failed permanently for one of them */
};

static void step(struct jm *jm);
static void later(struct jm *jm);

static void drop_parts(struct loading *l)
{
    for (int i = 0; i < PARTS; i++) {
        flux_future_destroy(l->f[i]);
        l->f[i] = NULL;
        l->data[i] = NULL;
    }
    flux_future_destroy(l->dir);
    l->dir = NULL;
    l->left = 0;
    l->errnum = 0;
}

static void loading_free(struct loading *l)
{
    drop_parts(l);
    list_remove(&l->node);
    free(l);
}

void jm_load_destroy(struct jm *jm)
{
    struct jm_load *ld = jm->load;
    struct list_node *n;

    if (!ld)
        return;
    while ((n = list_first(&ld->jobs)) || (n = list_first(&ld->retry)))
        loading_free(list_entry(n, struct loading, node));
    flux_future_destroy(ld->f);
    flux_watcher_destroy(ld->again);
    jm_ids_clear(&ld->ids);
    free(ld);
    jm->load = NULL;
}

/* --- one job --- */

/* The value of a part: 0; 1 when it does not exist; -1 with a sentence. */
static int part(const struct loading *l, int which, const char **data, size_t *len, errmsg_t *err)
{
    *data = l->data[which];
    *len = l->len[which];
    if (*data || (l->f[which] && flux_kvs_lookup_get(l->f[which], data, len, err) == 0))
        return 0;
    if (l->f[which] && errno != ENOENT)
        return -1;
    *data = NULL;
    return 1;
}

static struct jm_job *make(struct loading *l, errmsg_t *err)
{
    struct jm *jm = l->jm;
    const char *text, *env;
    size_t len, envlen;
    struct jm_spec *spec;
    struct jm_env *e;
    struct jm_job *j;

    if (l->errnum || part(l, SPEC, &text, &len, err) != 0 || part(l, ENV, &env, &envlen, err) < 0 ||
        !(spec = jm_spec_get(jm, text, len, err)))
        return NULL;
    e = env ? jm_env_get(jm, env, envlen) : NULL;
    if ((env && !e) || !(j = jm_job_create(jm, l->id, spec, e))) {
        jm_spec_put(jm, spec);
        jm_env_put(jm, e);
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    j->from_store = true;
    if (part(l, LOG, &text, &len, err) != 0 || jm_state_restore(j, text, len, err) < 0)
        goto fail;
    if (j->st.seen & (1u << JOB_EV_ALLOC)) {
        if (part(l, R, &text, &len, err) < 0 ||
            (text && jm_state_restore_resources(j, text, len, err) < 0))
            goto fail;
    }
    jm_sched_restore(j);
    jm_job_moved(j, JOB_STATE_NEW, false);
    jm_spec_idle(jm, spec, false);
    return j;
fail:
    jm_job_moved(j, JOB_STATE_NEW, false);
    jm_job_destroy(j);
    return NULL;
}

static void keep(struct jm_job *j)
{
    struct jm *jm = j->jm;
    struct jm_ended *e;

    if (j->st.state != JOB_STATE_INACTIVE)
        return;
    if ((e = jm_ended_create(j)))
        jm_ended_add(jm, e);
    jm_job_destroy(j);
}

/* The error of the store, other than for parts that do not exist; 0: it has answered. */
static int store_failed(const struct loading *l)
{
    int errnum = l->errnum;

    for (int i = 0; i < PARTS && (errnum == 0 || errnum == ENOENT); i++)
        errnum = l->f[i] ? flux_future_errnum(l->f[i]) : 0;
    return errnum == ENOENT ? 0 : errnum;
}

static void job_done(struct loading *l)
{
    struct jm *jm = l->jm;
    struct jm_load *ld = jm->load;
    struct jm_job *j;
    errmsg_t err = {"its jobspec is missing"};
    bool failed = store_failed(l);

    if (l->errnum)
        errmsg_set(&err, "%s", strerror(l->errnum));
    if (failed && ++l->tries < (ld->store_bad ? TRIES_LATER : TRIES)) {
        list_remove(&l->node);
        list_append(&ld->retry, &l->node);
        later(jm);
        return;
    }
    ld->store_bad |= failed;
    if ((j = make(l, &err))) {
        keep(j);
    } else {
        ld->nbad++;
        flux_log(jm->h, LOG_ERR,
                 "job %" PRIu64 " cannot be read back: %s; its record in the store is unchanged%s",
                 l->id, err.text,
                 failed ? "; to try again when the store works, reload the "
                          "job module (flux module reload job)"
                        : "");
    }
    ld->inflight--;
    loading_free(l);
    step(jm);
}

static void part_cb(flux_future_t *f, void *arg)
{
    struct loading *l = arg;

    if (--l->left == 0)
        job_done(l);
}

static void ask_part(struct loading *l, int which)
{
    char key[64];

    snprintf(key, sizeof(key), "job.%" PRIu64 ".%s", l->id, part_names[which]);
    if ((l->f[which] = flux_kvs_lookup(l->jm->h, NULL, key, 0, NULL)) &&
        flux_future_then(l->f[which], -1., part_cb, l) == 0)
        l->left++;
    else
        l->errnum = ENOMEM;
}

static void dir_cb(flux_future_t *f, void *arg)
{
    struct loading *l = arg;
    struct flux_kvs_dirent e;
    int which, rc = 0, errnum = flux_future_errnum(f);
    size_t pos = 0;

    /* The error may concern a value that is not needed. */
    for (which = 0; errnum && errnum != ENOENT && which < PARTS; which++)
        ask_part(l, which);
    while (errnum == 0 && (rc = flux_kvs_readdir_next(f, &pos, &e, NULL)) == 1) {
        which = 0;
        while (which < PARTS && strcmp(e.name, part_names[which]) != 0)
            which++;
        if (which == PARTS)
            continue;
        l->data[which] = e.type == FLUX_KVS_VALUE ? e.data : NULL;
        l->len[which] = l->data[which] ? e.size : 0;
        if (!l->data[which])
            ask_part(l, which);
    }
    if (rc < 0)
        l->errnum = errno;
    if (l->left == 0)
        job_done(l);
}

static int ask_dir(struct loading *l)
{
    char key[64];

    snprintf(key, sizeof(key), "job.%" PRIu64, l->id);
    l->dir = flux_kvs_readdir_small(l->jm->h, NULL, key, SMALL, NULL);
    if (l->dir && flux_future_then(l->dir, -1., dir_cb, l) == 0)
        return 0;
    drop_parts(l);
    return -1;
}

static int load_job(struct jm *jm, uint64_t id)
{
    struct loading *l = calloc(1, sizeof(*l));

    if (!l)
        return -1;
    l->jm = jm;
    l->id = id;
    list_init(&l->node);
    if (ask_dir(l) < 0) {
        loading_free(l);
        return -1;
    }
    list_append(&jm->load->jobs, &l->node);
    jm->load->inflight++;
    return 0;
}

/* They stay counted as in progress, so that no job is left out at the end. */
static void retry_jobs(struct jm *jm)
{
    struct jm_load *ld = jm->load;
    struct list_node *n;

    while ((n = list_first(&ld->retry))) {
        struct loading *l = list_entry(n, struct loading, node);

        drop_parts(l);
        if (ask_dir(l) < 0) {
            later(jm);
            return;
        }
        list_remove(n);
        list_append(&ld->jobs, n);
    }
}

bool jm_load_restored(const struct jm_job *j)
{
    return j->from_store;
}

/* --- all of them --- */

/* Does its record name a user who cannot have submitted it in this session?  Only the session's
 * owner and root are admitted (connector.c). */
static bool alien(const struct jm_job *j)
{
    return j->jm->owner >= 0 && j->st.userid != 0 && j->st.userid != (uint64_t)j->jm->owner;
}

static void resume(struct jm_job *j)
{
    unsigned seen = j->st.seen;
    bool started = seen & (1u << JOB_EV_START), finished = seen & (1u << JOB_EV_FINISH);

    if (j->r_json && (seen & (1u << JOB_EV_ALLOC)) && !(seen & (1u << JOB_EV_FREE)))
        jm_sched_restore_allocated(j);
    if (started && !finished) {
        jm_exec_restore(j);
        if (j->spec->req.duration > 0) {
            double deadline = jm_state_restore_limit(j);

            if (j->st.state == JOB_STATE_RUN)
                jm_time_set(j, JM_TIME_LIMIT, deadline);
        }
        if (j->st.state == JOB_STATE_CLEANUP || j->again)
            jm_time_set(j, JM_TIME_GRACE, flux_reactor_now(j->jm->r) + j->jm->grace);
        else if (!j->r_json)
            jm_state_exception(j, "lost", JOB_SEVERITY_FATAL,
                               "the record of its resources is missing in the store", j->st.userid,
                               true);
        return;
    }
    if (j->st.state == JOB_STATE_CLEANUP) {
        jm_state_cleanup(j);
        return;
    }
    if (alien(j)) {
        char note[160];

        snprintf(note, sizeof(note),
                 "its record in the store names user %" PRIu32
                 ", but jobs of this session run as user %" PRIi64,
                 j->st.userid, j->jm->owner);
        flux_log(j->jm->h, LOG_ERR, "job %" PRIu64 " is not run: %s", j->id, note);
        jm_state_exception(j, "user", JOB_SEVERITY_FATAL, note, j->st.userid, false);
        return;
    }
    if (j->st.flags & JOB_FLAG_CLIENT) {
        jm_state_exception(j, "cancel", JOB_SEVERITY_FATAL, JM_CLIENT_GONE, j->st.userid, false);
        return;
    }
    if (j->spec->impossible) {
        jm_state_exception(j, "alloc", JOB_SEVERITY_FATAL, j->spec->impossible, j->st.userid,
                           false);
        return;
    }
    if (j->st.state == JOB_STATE_SCHED)
        jm_sched_restore_queued(j);
    if (j->st.state == JOB_STATE_DEPEND)
        jm_depend_restore(j);
    jm_state_advance(j);
}

static void finish(struct jm *jm)
{
    size_t nbad = jm->load->nbad, n;

    jm_job_sort(jm);
    jm_ended_sort(jm);
    n = jm_job_count(jm);
    if (n || jm_ended_count(jm) || nbad)
        flux_log(jm->h, LOG_INFO, "%zu jobs and %zu ended ones were read back, %zu could not be", n,
                 jm_ended_count(jm), nbad);
    jm_load_destroy(jm);
    jm->ready = true;
    jm_store_loaded(jm);
    for (struct jm_job *j = jm_job_first(jm), *next; j; j = next) {
        next = jm_job_next(j);
        resume(j);
    }
    jm_purge_check(jm);
    jm_sched_start(jm);
    jm_exec_start(jm);
    early_serve(jm->early);
    jm_namespace_sweep(jm);
    jm_module_kick(jm);
}

/* --- step by step --- */

static void again_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    retry_jobs(arg);
    step(arg);
}

static void later(struct jm *jm)
{
    flux_timer_start(jm->load->again, AGAIN, 0.);
}

static void take_names(struct jm *jm, flux_future_t *f)
{
    struct jm_load *ld = jm->load;
    struct flux_kvs_dirent e;
    size_t pos = 0;
    errmsg_t err;
    uint64_t id;

    while (flux_kvs_readdir_next(f, &pos, &e, &err) == 1) {
        snprintf(ld->after, sizeof(ld->after), "%s", e.name);
        if (e.type != FLUX_KVS_DIR || str2u64(e.name, &id) < 0 || id == 0 || id > IDSET_MAX)
            continue;
        jm_job_reserve(jm, id);
        if (jm_ids_add(&ld->ids, id) < 0)
            flux_log(jm->h, LOG_ERR, "out of memory: job %" PRIu64 " is not read back", id);
    }
    if (flux_kvs_readdir_more(f))
        return;
    ld->step = JOBS;
}

static void read_cb(flux_future_t *f, void *arg)
{
    struct jm *jm = arg;
    struct jm_load *ld = jm->load;
    int errnum = flux_future_errnum(f);
    const char *data;
    size_t len;
    uint64_t id;

    ld->f = NULL;
    if (errnum && errnum != ENOENT && (ld->step != SETTLED || errnum == EAGAIN)) {
        flux_future_destroy(f);
        later(jm);
        return;
    }
    switch (ld->step) {
    case SETTLED: /* refused by a full disk: all earlier transactions have been decided, too */
        ld->step = NEXT_ID;
        break;
    case NEXT_ID:
        if (!errnum && flux_kvs_lookup_get(f, &data, &len, NULL) == 0 && str2u64(data, &id) == 0 &&
            id > 0)
            jm_job_reserve(jm, id - 1);
        ld->step = QUEUE;
        break;
    case QUEUE:
        if (!errnum && flux_kvs_lookup_get(f, &data, &len, NULL) == 0)
            jm_queue_decode(jm, data, len);
        ld->step = NAMES;
        break;
    case NAMES:
        if (errnum)
            ld->step = JOBS;
        else
            take_names(jm, f);
        break;
    case JOBS:
        break;
    }
    flux_future_destroy(f);
    step(jm);
}

static flux_future_t *ask(struct jm *jm)
{
    struct jm_load *ld = jm->load;

    switch (ld->step) {
    case SETTLED:
        return flux_kvs_commit(jm->h, NULL, NULL);
    case NEXT_ID:
        return flux_kvs_lookup(jm->h, NULL, "job-next", 0, NULL);
    case QUEUE:
        return flux_kvs_lookup(jm->h, NULL, "job-queue", 0, NULL);
    default:
        return flux_kvs_readdir_page(jm->h, NULL, "job", 0, NULL, ld->after[0] ? ld->after : NULL,
                                     PAGE);
    }
}

static void step(struct jm *jm)
{
    struct jm_load *ld = jm->load;

    if (ld->step == JOBS) {
        while (ld->inflight < WINDOW && ld->next < ld->ids.n) {
            if (load_job(jm, ld->ids.ids[ld->next]) < 0) {
                later(jm);
                return;
            }
            ld->next++;
        }
        if (ld->inflight == 0 && ld->next == ld->ids.n)
            finish(jm);
        return;
    }
    if (ld->f)
        return;
    if (!(ld->f = ask(jm)) || flux_future_then(ld->f, -1., read_cb, jm) < 0) {
        flux_future_destroy(ld->f);
        ld->f = NULL;
        later(jm);
    }
}

int jm_load_start(struct jm *jm)
{
    struct jm_load *ld = calloc(1, sizeof(*ld));

    if (!ld)
        return -1;
    list_init(&ld->jobs);
    list_init(&ld->retry);
    jm->load = ld;
    if (!(ld->again = flux_timer_create(jm->r, again_cb, jm))) {
        jm_load_destroy(jm);
        return -1;
    }
    step(jm);
    return 0;
}
