/* jobs_proof.c - the end of the scenario `jobs`: every job comes to its end, and what is on record
 * proves that it was treated as it should be.
 *
 * What could keep a job is taken away first: the queue is started, nodes are undrained, held jobs
 * are released, and those canceled that ask for more than is left of the session.  All others have
 * to end by themselves within PATIENCE of virtual time.  Then the store is read, and besides what
 * the checker of t/jobs proves (audit.h) this has to hold:
 *
 *  1. The jobspec on record is the one that was submitted, and the end the one that was told.
 *  2. A job that nobody interfered with has its own exit code; an exception has somebody or
 *     something that can have raised it.
 *  3. No job runs longer than its time limit, the period of grace and what it takes to kill it;
 *     none is ended by its limit before that, wherever the wall clock is set to; unless the module
 *     was loaded again, which then knows only from the wall clock how long a job has run.
 *  4. A node that is drained is given no more work (jobs_nodes.c).
 *  5. The loss of nodes ends no job that is to run again then, before it has run again as often as
 *     it may.
 *  6. No service has anything left of any job.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "jobs.h"
#include "jobs/audit.h"
#include "libjob/jobspec.h"
#include "libkvs/kvs.h"
#include "libresource/resrc_wire.h"
#include "libresource/resgraph.h"
#include "libsched/sched_wire.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define PATIENCE (600 * SIM_S)
#define LAUNCH 1.    /* seconds after its start, at most, the tasks of a job are launched */
#define SLACK 3.     /* seconds: the root may have been paused */
#define IN_TIME 0.05 /* seconds, with everybody well */
#define AFTER_LOADING 1.
#define GRACE 5.        /* of the session */
#define KILL_AGAIN 10.  /* the job module sends SIGKILL so often */
#define REQUEUES_MAX 16 /* the job module starts a job that loses nodes again so often */

static void ready_cb(flux_future_t *f, void *arg)
{
    bool *ready = arg;

    *ready = true;
}

static bool is_ready(sim_t *s, void *arg)
{
    return *(bool *)arg;
}

flux_future_t *jobs_ask(struct jobs *j, flux_future_t *f, const char *what)
{
    bool *ready = sim_alloc(j->s, sizeof(*ready));

    if (f && flux_future_then(f, -1., ready_cb, ready) == 0 &&
        sim_run_until(j->s, is_ready, ready, PATIENCE))
        return f;
    sim_fail(j->s, "%s: no answer", what);
    flux_future_destroy(f);
    return NULL;
}

/* The same for a request that must succeed. */
static bool ask_ok(struct jobs *j, flux_future_t *f, const char *what)
{
    bool ok;

    if (!(f = jobs_ask(j, f, what)))
        return false;
    if (!(ok = flux_future_errnum(f) == 0))
        sim_fail(j->s, "%s: %s", what, flux_future_error(f));
    flux_future_destroy(f);
    return ok;
}

/* --- letting jobs end --- */

static void undrain(struct jobs *j)
{
    flux_t *h = j->control->h;
    struct resrc_status st = {0};
    struct resrc_status_entry e;
    flux_future_t *f =
        jobs_ask(j, flux_rpc(h, "resrc.status", NULL, FLUX_NODEID_ANY, 0), "resrc.status");
    errmsg_t err;

    if (!f)
        return;
    if (flux_rpc_get_struct(f, &resrc_status_schema, &st, &err) < 0)
        sim_fail(j->s, "resrc.status: %s", err.text);
    for (size_t i = 0; i < json_array_size(st.nodes) && !j->s->failed; i++) {
        memset(&e, 0, sizeof(e));
        if (flux_schema_decode_json(&resrc_status_entry_schema, json_array_get(st.nodes, i), &e,
                                    &err) < 0) {
            sim_fail(j->s, "resrc.status: %s", err.text);
        } else if (str_starts(e.state, "drain")) {
            struct resrc_ranks r = {e.ranks};
            ask_ok(j,
                   flux_rpc_struct(h, "resrc.undrain", &resrc_ranks_schema, &r, FLUX_NODEID_ANY, 0),
                   "resrc.undrain");
        }
    }
    flux_future_destroy(f);
}

/* Ids of jobs in these states; `held`: only those with urgency 0. */
static idset_t *list(struct jobs *j, unsigned states, bool held)
{
    struct job_list query;
    idset_t *ids = idset_create();
    flux_future_t *f;
    struct job_info info;
    const json_t *page;
    errmsg_t err;

    flux_job_list_init(&query);
    query.states = states;
    if (!(f = jobs_ask(j, flux_job_list(j->control->h, &query), "job.list")))
        return ids;
    if (flux_future_errnum(f) == 0 && flux_job_list_get(f, &page, &err) == 0) {
        for (size_t i = 0; i < json_array_size(page); i++) {
            memset(&info, 0, sizeof(info));
            if (flux_job_list_at(page, i, &info, &err) < 0)
                sim_fail(j->s, "job.list: %s", err.text);
            else if (!held || info.urgency == JOB_URGENCY_HOLD)
                idset_set(ids, (uint32_t)info.id);
        }
    } else if (flux_future_errnum(f) != ENODATA) {
        sim_fail(j->s, "job.list: %s", flux_future_error(f));
    }
    flux_future_destroy(f);
    return ids;
}

static void release(struct jobs *j)
{
    idset_t *ids = list(j, JOB_STATES_PENDING, true);
    char *text = idset_format(ids, 0);

    if (!idset_empty(ids) && !j->s->failed)
        ask_ok(j, flux_job_urgency(j->control->h, text, JOB_URGENCY_DEFAULT), "job.urgency");
    free(text);
    idset_destroy(ids);
}

/* A value of the store: copied, in memory that stays; NULL when there is none. */
static const char *value(struct jobs *j, const char *key, size_t *len)
{
    flux_future_t *f = jobs_ask(j, flux_kvs_lookup(j->control->h, NULL, key, 0, NULL), "a lookup");
    const char *data;
    char *copy = NULL;
    errmsg_t err;

    *len = 0;
    if (!f)
        return NULL;
    if (flux_kvs_lookup_get(f, &data, len, &err) == 0) {
        copy = sim_alloc(j->s, *len + 1);
        memcpy(copy, data, *len);
    } else if (errno != ENOENT) {
        sim_fail(j->s, "%s cannot be read: %s", key, err.text);
    }
    flux_future_destroy(f);
    return copy;
}

/* What there is, without the nodes that are lost.  NULL after sim_fail(). */
static resgraph_t *what_is_left(struct jobs *j)
{
    flux_future_t *f = jobs_ask(
        j, flux_rpc(j->control->h, "resrc.watch", "{}", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING),
        "resrc.watch");
    struct resrc_update u = {0};
    resgraph_t *g = NULL;
    idset_t *all = NULL, *up = NULL;
    errmsg_t err = {"out of memory"};

    if (!f)
        return NULL;
    if (flux_rpc_get_struct(f, &resrc_update_schema, &u, &err) < 0 ||
        !(g = resgraph_from_json(u.inventory, &err)) || !(all = resgraph_ranks(g)) ||
        !(up = idset_parse(u.up, &err)) || idset_subtract(all, up) < 0 ||
        resgraph_remove(g, all) < 0)
        sim_fail(j->s, "resrc.watch: %s", err.text);
    idset_destroy(all);
    idset_destroy(up);
    flux_future_destroy(f);
    if (j->s->failed) {
        resgraph_destroy(g);
        g = NULL;
    }
    return g;
}

/* Those that ask for more than is left. */
static void cancel_impossible(struct jobs *j)
{
    resgraph_t *left = what_is_left(j);
    idset_t *ids = list(j, JOB_STATES_PENDING, false);
    char key[64], text[24];
    size_t len;

    for (uint32_t id = idset_first(ids); id != IDSET_NONE && left && !j->s->failed;
         id = idset_next(ids, id)) {
        snprintf(key, sizeof(key), "job.%u.jobspec", id);
        const char *spec = value(j, key, &len);
        jobspec_t *js = spec ? jobspec_parse(spec, len, NULL) : NULL;

        if (!js && !j->s->failed)
            sim_fail(j->s, "job %u has no good jobspec", id);
        if (js && resgraph_satisfiable(left, jobspec_rreq(js), NULL) < 0) {
            snprintf(text, sizeof(text), "%u", id);
            idset_set(j->ended, id);
            ask_ok(j, flux_job_cancel(j->control->h, text, "nothing is left for it"), "job.cancel");
        }
        jobspec_destroy(js);
    }
    idset_destroy(ids);
    resgraph_destroy(left);
}

static void say_who_stays(struct jobs *j)
{
    char why[sizeof(j->s->failure)];
    idset_t *ids;
    char *text;

    /* The failure is there already: ask in spite of it. */
    snprintf(why, sizeof(why), "%s", j->s->failure);
    j->s->failed = false;
    ids = list(j, JOB_STATES_ACTIVE, false);
    text = idset_format(ids, 0);
    j->s->failed = false;
    sim_fail(j->s, "jobs %s do not come to their end", text ? text : "?");
    free(text);
    idset_destroy(ids);
}

void jobs_finish(struct jobs *j)
{
    flux_t *h = j->control->h;
    double *wall = &j->s->nodes[0].wall;

    /* Jobs that are to begin at a time of the day wait until the clock shows it. */
    *wall = fmax(*wall, 0.);
    jobs_nodes_over(j);
    ask_ok(j, flux_job_queue(h, "enable", NULL), "job.queue enable");
    ask_ok(j, flux_job_queue(h, "start", NULL), "job.queue start");
    undrain(j);
    release(j);
    cancel_impossible(j);
    if (!j->s->failed && !ask_ok(j, flux_job_queue(h, "drain", NULL), "job.queue drain"))
        say_who_stays(j);
}

/* --- one job --- */

struct facts {
    double alloc, start, finish; /* of its last attempt */
    bool fatal;
    char type[24]; /* of the exception that ended it */
    double t_fatal;
    struct jobstate st;
};

/* An attempt of a job was given these resources at that time. */
static void check_nodes(struct jobs *j, uint64_t id, const rset_t *rs, double t)
{
    idset_t *ranks = rs && !j->s->clock_set ? rset_ranks(rs) : NULL;

    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (!jobs_nodes_allowed(j, r, t))
            sim_fail(j->s, "job %" PRIu64 " was given a share of node %u, which was drained", id,
                     r);
    }
    idset_destroy(ranks);
}

static void attempt_over(struct jobs *j, uint64_t id, struct facts *fa, const json_t *had)
{
    rset_t *R = had ? rset_from_json(had, NULL) : NULL;

    check_nodes(j, id, R, fa->alloc);
    rset_destroy(R);
    fa->alloc = fa->start = 0;
}

static void take(struct jobs *j, uint64_t id, struct facts *fa, const struct job_event *ev)
{
    if (ev->event == JOB_EV_ALLOC)
        fa->alloc = ev->timestamp;
    else if (ev->event == JOB_EV_START)
        fa->start = ev->timestamp;
    else if (ev->event == JOB_EV_FINISH)
        fa->finish = ev->timestamp;
    else if (ev->event == JOB_EV_REQUEUE)
        attempt_over(j, id, fa, ev->R);
    else if (ev->event == JOB_EV_EXCEPTION && ev->severity == JOB_SEVERITY_FATAL && !fa->fatal) {
        fa->fatal = fa->st.state < JOB_STATE_CLEANUP;
        fa->t_fatal = ev->timestamp;
        snprintf(fa->type, sizeof(fa->type), "%s", ev->type);
    }
    jobstate_apply(&fa->st, ev, NULL);
}

static void read_facts(struct jobs *j, uint64_t id, const char *text, size_t len, struct facts *fa)
{
    struct job_log log;
    struct job_event ev;

    memset(fa, 0, sizeof(*fa));
    job_log_init(&log, text, len);
    while (job_log_next(&log, &ev, NULL) == 1)
        take(j, id, fa, &ev);
    job_log_done(&log);
}

/* What the emulated tasks took; < 0: there is nothing to be concluded. */
static double ran(const struct jobs *j, const struct jobs_rec *rec)
{
    const struct sim_ep *exec = sim_module_find(j->s, 0, "wrexec");

    return exec ? exec_ran(exec, rec->id) : -1.;
}

/* Is there something that can have raised the exception which ended it? */
static bool explained(const struct jobs *j, const struct jobs_rec *rec, const struct facts *fa)
{
    if (strcmp(fa->type, "cancel") == 0)
        return idset_test(j->ended, (uint32_t)rec->id) || (rec->flags & JOB_FLAG_CLIENT);
    if (strcmp(fa->type, "thing") == 0)
        return idset_test(j->ended, (uint32_t)rec->id);
    if (strcmp(fa->type, "timeout") == 0 && j->s->clock_set)
        return rec->duration > 0 &&
               (j->reloads || ran(j, rec) < 0 || ran(j, rec) >= rec->duration - LAUNCH);
    if (strcmp(fa->type, "timeout") == 0)
        return rec->duration > 0 && fa->t_fatal >= fa->start + rec->duration - 1e-3;
    if (strcmp(fa->type, "dependency") == 0)
        return rec->ndeps > 0;
    /* When resrc is loaded again lost nodes are no more, and jobs may ask for too many. */
    if (strcmp(fa->type, "alloc") == 0)
        return j->faults && j->reloads;
    if (strcmp(fa->type, "node-lost") == 0)
        return j->faults && (!rec->requeue || fa->st.requeues >= REQUEUES_MAX);
    if (strcmp(fa->type, "exec") == 0)
        return rec->how == 'f' || rec->how == 'l' ||
               (j->faults && (!rec->requeue || idset_test(j->killed, (uint32_t)rec->id)));
    return j->reloads && strcmp(fa->type, "lost") == 0;
}

static void check_end(struct jobs *j, const struct jobs_rec *rec, const struct facts *fa)
{
    int code = jobstate_code(&fa->st);
    enum job_result result = jobstate_result(&fa->st);

    if (fa->fatal && !explained(j, rec, fa))
        sim_fail(j->s, "job %" PRIu64 " was ended by '%s', and nobody did that", rec->id, fa->type);
    if (!fa->fatal && !idset_test(j->killed, (uint32_t)rec->id) && code != rec->code)
        sim_fail(j->s, "job %" PRIu64 " ended with exit code %d, not with %d", rec->id, code,
                 rec->code);
    if (!fa->fatal && fa->alloc <= 0)
        sim_fail(j->s, "job %" PRIu64 " ended, and had no resources", rec->id);
    if (rec->result >= 0 && ((int)result != rec->result || code != rec->told_code))
        sim_fail(j->s,
                 "the end of job %" PRIu64 " is on record as %s (%d), and was told as %s (%d)",
                 rec->id, job_result_name(result), code,
                 job_result_name((enum job_result)rec->result), rec->told_code);
}

static void check_limit(struct jobs *j, const struct jobs_rec *rec, const struct facts *fa)
{
    double grace = rec->grace >= 0 ? rec->grace : GRACE;
    double max = rec->duration + grace + SLACK + jobs_root_stood(j) +
                 (rec->how == 'k' ? LAUNCHER_STUCK_MAX : 0);

    if (rec->duration > 0 && ran(j, rec) > max)
        sim_fail(j->s, "job %" PRIu64 " has a limit of %g s, and its tasks ran for %g s", rec->id,
                 rec->duration, ran(j, rec));
    if (j->s->clock_set)
        return;
    /* Who is in time by little may have been told about late. */
    if (!fa->fatal && !j->faults && rec->duration > 0 &&
        fa->st.t_exited - fa->st.t_started > rec->duration + (j->reloads ? AFTER_LOADING : IN_TIME))
        sim_fail(j->s, "job %" PRIu64 " has a limit of %g s, and was let run for %g s", rec->id,
                 rec->duration, fa->st.t_exited - fa->st.t_started);
    if (rec->duration > 0 && fa->start > 0 && fa->finish - fa->start > max)
        sim_fail(j->s, "job %" PRIu64 " has a limit of %g s, and ran for %g s", rec->id,
                 rec->duration, fa->finish - fa->start);
    /* The same for what was to end for another reason. */
    if (fa->fatal && fa->start > 0 && fa->finish - fa->t_fatal > max - rec->duration)
        sim_fail(j->s, "job %" PRIu64 " was ended by '%s', and ran on for %g s", rec->id, fa->type,
                 fa->finish - fa->t_fatal);
}

/* A planted fault: the end of a job that has lost a node is on record once more. */
static void end_twice(struct jobs *j, struct audit_job *job)
{
    const char *finish = strstr(job->log, "\"finish\"");
    const char *begin = finish, *end = finish ? strchr(finish, '\n') : NULL;
    size_t line;
    char *log;

    if (!end || !strstr(job->log, "lost the tasks"))
        return;
    while (begin > job->log && begin[-1] != '\n')
        begin--;
    line = (size_t)(end + 1 - begin);
    log = sim_alloc(j->s, job->log_len + line + 1);
    memcpy(log, job->log, (size_t)(end + 1 - job->log));
    memcpy(log + (end + 1 - job->log), begin, job->log_len - (size_t)(begin - job->log));
    job->log = log;
    job->log_len += line;
    j->s->broke++;
}

static void prove_job(struct jobs *j, audit_t *a, uint64_t id)
{
    struct jobs_rec *rec = hmap_get_u64(j->recs, id);
    struct audit_job job = {.id = id};
    struct facts fa;
    rset_t *R = NULL;
    char key[64];

    snprintf(key, sizeof(key), "job.%" PRIu64 ".eventlog", id);
    job.log = value(j, key, &job.log_len);
    if (j->s->cfg.plant == PLANT_LOST_TWICE && job.log)
        end_twice(j, &job);
    snprintf(key, sizeof(key), "job.%" PRIu64 ".R", id);
    job.R = value(j, key, &job.R_len);
    snprintf(key, sizeof(key), "job.%" PRIu64 ".jobspec", id);
    job.jobspec = value(j, key, &job.jobspec_len);
    if (j->s->failed)
        return;
    if (j->s->cfg.trace && job.log)
        printf("job %" PRIu64 ":\n%s", id, job.log);
    /* Judged by what was submitted. */
    if (rec && job.jobspec) {
        if (job.jobspec_len != rec->len || memcmp(job.jobspec, rec->spec, rec->len) != 0)
            j->differs = id;
        job.jobspec = rec->spec;
        job.jobspec_len = rec->len;
    }
    if (audit_job(a, &job) < 0)
        sim_fail(j->s, "out of memory");
    if (!job.log)
        return;
    read_facts(j, id, job.log, job.log_len, &fa);
    if (fa.alloc > 0 && job.R && (R = rset_parse(job.R, job.R_len, NULL)))
        check_nodes(j, id, R, fa.alloc);
    rset_destroy(R);
    if (rec) {
        check_end(j, rec, &fa);
        check_limit(j, rec, &fa);
    }
}

/* --- all of them --- */

static void tell(const char *sentence, void *arg)
{
    struct jobs *j = arg;

    if (j->s->cfg.trace)
        printf("VIOLATION %s\n", sentence);
    sim_fail(j->s, "%s", sentence);
}

static void prove_jobs(struct jobs *j, audit_t *a)
{
    flux_future_t *f =
        jobs_ask(j, flux_kvs_readdir(j->control->h, NULL, "job", 0, NULL), "the list of jobs");
    struct flux_kvs_dirent e;
    size_t pos = 0, n = 0;
    uint64_t id;
    void *val;

    if (!f)
        return;
    while (!j->s->failed && flux_future_errnum(f) == 0 &&
           flux_kvs_readdir_next(f, &pos, &e, NULL) == 1) {
        if (str2u64(e.name, &id) < 0)
            sim_fail(j->s, "'%s' is not a job", e.name);
        else
            prove_job(j, a, id);
        n++;
    }
    flux_future_destroy(f);
    for (pos = 0; hmap_next(j->recs, &pos, NULL, &id, &val);) {
        if (!idset_test(j->purged, (uint32_t)id))
            audit_expect(a, id, JOB_RESULT_NONE, -1);
    }
    sim_trace_add(j->s, 8, n);
}

/* Nothing is left anywhere. */
static void check_services(struct jobs *j)
{
    flux_t *h = j->control->h;
    const struct sim_ep *exec = sim_module_find(j->s, 0, "wrexec");
    struct sched_status st = {0};
    struct job_queue_status q = {0};
    errmsg_t err = {""};
    flux_future_t *f = jobs_ask(j, flux_rpc(h, "sched.status", NULL, FLUX_NODEID_ANY, 0), "sched");

    if (f && flux_rpc_get_struct(f, &sched_status_schema, &st, &err) < 0)
        sim_fail(j->s, "sched.status: %s", err.text);
    else if (f && (st.queued || st.running))
        sim_fail(j->s, "the scheduler has %" PRIu64 " jobs in its queue and %" PRIu64 " that run",
                 st.queued, st.running);
    flux_future_destroy(f);
    f = jobs_ask(j, flux_job_queue(h, "status", NULL), "job.queue status");
    if (f && flux_job_queue_get(f, &q, &err) < 0)
        sim_fail(j->s, "job.queue: %s", err.text);
    else if (f && q.depend + q.priority + q.sched + q.run + q.cleanup > 0)
        sim_fail(j->s, "the job module has jobs that have not ended");
    flux_future_destroy(f);
    if (exec && exec_running(exec) > 0)
        sim_fail(j->s, "%zu jobs still run, though all have ended", exec_running(exec));
}

/* What there was when all nodes were there: one that is lost may be missing on record. */
static int true_inventory(struct jobs *j, audit_t *a, errmsg_t *err)
{
    strbuf_t *sb = strbuf_create(0);
    int rc;

    strbuf_add(sb, "{\"nodes\":[");
    for (uint32_t r = 0; r < j->s->cfg.size; r++)
        strbuf_addf(sb, "%s{\"ranks\":\"%u\",\"hosts\":\"node%u\",\"cores\":\"0-%u\"}",
                    r ? "," : "", r, r, sim_node_cores(j->s, r) - 1);
    strbuf_add(sb, "]}");
    rc = sb ? audit_inventory(a, strbuf_str(sb), strbuf_len(sb), err) : -1;
    strbuf_destroy(sb);
    return rc;
}

void jobs_prove(struct jobs *j)
{
    audit_t *a = audit_create();
    errmsg_t err = {"out of memory"};

    if (!a || true_inventory(j, a, &err) < 0)
        sim_fail(j->s, "the inventory is bad: %s", err.text);
    if (a && j->s->clock_set)
        audit_clock_set(a);
    if (!j->s->failed)
        prove_jobs(j, a);
    if (!j->s->failed && audit_run(a, 0, tell, j) < 0)
        sim_fail(j->s, "out of memory for the proof");
    if (j->differs && j->s->cfg.plant != PLANT_NO_LIMIT && j->s->cfg.plant != PLANT_NO_DEPENDENCY)
        sim_fail(j->s, "job %" PRIu64 ": the jobspec on record is not the one that was submitted",
                 j->differs);
    if (!j->s->failed)
        check_services(j);
    if (j->s->cfg.trace)
        printf("%zu jobs, %zu of them with resources, at most %zu at a time\n", audit_njobs(a),
               audit_nallocs(a), audit_peak(a));
    audit_destroy(a);
}
