/* jm_module.c - the job service, at rank 0: from a submission to the record of a job's end.
 *
 * Purpose: this file holds the instance, its settings, and the tables of its parts and requests.
 * Requests and responses are described in libjob/job_wire.h and submit.h, the messages to the
 * scheduler in libsched/sched_wire.h, those to wrexec in libexec, and the keys in the store in
 * jm_store.c and doc/jobs.rst.
 *
 *    jm_submit.c      reading submissions         jm_state.c      events, and their consequences
 *    jm_job.c         active jobs                 jm_ended.c      records of ended jobs
 *    jm_spec.c        jobspecs                    jm_env.c        environments
 *    jm_store.c       jobs in the store           jm_load.c       reading them back
 *    jm_depend.c      waiting for jobs            jm_time.c       waiting for a time (jm_heap.c)
 *    jm_sched.c       link to the scheduler       jm_exec.c       link to wrexec (jm_launch.c)
 *    jm_resources.c   what could run at all       jm_namespace.c  namespaces that jobs left
 *    jm_wait.c, jm_watch.c, jm_list.c, jm_queue.c, jm_control.c, jm_purge.c   other requests
 *    jm_leave.c       nodes that leave            jm_journal.c    lines in the session's log
 *    jm_client.c      jobs that end with their client
 *    jm_many.c        large requests, in slices   jm_repeat.c     requests that arrive again
 *    jm_request.c, jm_ids.c, jm_json.c            helpers
 *
 * Drawing (job): a job from submission to record; the arrows are messages.
 *
 *     client             job                      sched                 wrexec
 *       |                 |                          |                     |
 *       | job.submit      |                          |                     |
 *       |---------------->| into the store           |                     |
 *       |<----------------| id, when recorded        |                     |
 *       |                 |------------------------->| sched.feed          |
 *       |                 |<-------------------------| alloc: resources    |
 *       |                 | event start recorded     |                     |
 *       |                 |----------------------------------------------->| wrexec.launch
 *       |                 |                          |    tasks on nodes   |
 *       |                 |<-----------------------------------------------| statuses
 *       |                 | events finish, clean     |                     |
 *       |                 |------------------------->| sched.feed: free    |
 *       |                 | into the store           |                     |
 *
 * While the reactor reads the messages that have arrived, their handlers only change jobs and put
 * them into lists.  Then one pass does the work for all of them: feed the scheduler, launch,
 * commit.  So under load each message and each transaction covers many jobs, and an idle module
 * responds as quickly.  No code visits all jobs, except for lists that request them and for links
 * that start over.
 *
 * Attributes (or arguments NAME=VALUE without "job."):
 *    job.client-grace seconds that a job waits for a client that returns (1m)
 *    job.grace        seconds between SIGTERM and SIGKILL (5s)
 *    job.max-queued   jobs that may wait (1000000)
 *    job.purge-age    age after which an ended job is purged (never)
 *    job.purge-count  number of ended jobs that are kept (100000)
 *    statedir         if it is set, no job starts before it is recorded
 *    userid           jobs in the store that name another user (except root) are not run
 *
 * Invariants:
 *  1. A job of flux wreckrun ends with its client: when the client's broker says so, or is lost.
 *     When a broker between them dies, the client's broker is asked (libservice/presence.h).
 *  2. Every accepted job reaches INACTIVE: each event that the module waits for comes from a peer
 *     that gets the request again, or that reports a loss.
 *
 * Failure: see the files of the parts.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/duration.h"
#include "libutil/strutil.h"

#define ANYBODY (FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER)

/* the instance, with the fields that only this file uses */
struct job {
    struct jm jm;
    flux_handlers_t *handlers;
    flux_watcher_t *pass; /* runs once for all messages that have arrived */
    session_t *session;
    setup_t *setup;
    bool load_begun;
};

void jm_module_kick(struct jm *jm)
{
    flux_watcher_start(list_entry(jm, struct job, jm)->pass);
}

/* --- the pass --- */

static void pass_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct job *job = arg;
    struct jm *jm = &job->jm;

    if (!job->load_begun && jm_resources_known(jm) && setup_known(job->setup)) {
        job->load_begun = true;
        if (jm_load_start(jm) < 0) {
            flux_module_fail(jm->h, ENOMEM, "the job module is out of memory");
            flux_reactor_stop(jm->r, -1);
        }
    }
    if (!jm->ready)
        return;
    jm_submit_pass(jm);
    jm_many_pass(jm);
    jm_purge_pass(jm);
    jm_depend_flush(jm);
    jm_sched_flush(jm);
    jm_exec_flush(jm);
    jm_store_flush(jm);
    jm_queue_check(jm);
    jm_leave_check(jm);
    jm_wait_flush(jm);
    jm_list_pass(jm);
    jm_watch_pass(jm);
    jm_time_flush(jm);
}

/* --- other requests --- */

static void client_ended(void *arg, const flux_msg_t *notice)
{
    struct jm *jm = arg;
    char sender[FLUX_SENDER_MAX];

    jm_submit_gone(jm, flux_msg_sender(notice, sender, sizeof(sender)), NULL);
    claims_disconnect(jm->clients, notice);
    jm_module_kick(jm);
}

/* A client whose way was lost keeps its jobs, and sends its requests again. */
static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;

    claims_disconnect(jm->senders, req);
    if (!flux_msg_has_flag(req, FLUX_MSGF_IDEMPOTENT))
        client_ended(jm, req);
    else if ((claims_of_sender(jm->clients, req) > 0 || jm_submit_reads_from(jm, req)) &&
             presence_ask(jm->presence, req) < 0)
        flux_log(jm->h, LOG_WARNING,
                 "out of memory: it is not known whether the client of a job has ended");
    jm_module_kick(jm);
}

/* The message about a client's end may take a path that is broken now. */
static void ranks_lost(void *arg, const idset_t *ranks, bool now)
{
    struct jm *jm = arg;

    jm_submit_gone(jm, NULL, ranks);
    claims_lost(jm->senders, ranks);
    jm_client_lost(jm, ranks);
    jm_module_kick(jm);
}

static const struct session_ops session_ops = {.lost = ranks_lost};

/* --- the parts --- */

/* In the order of their creation.  They are destroyed in the opposite order, after the fields that
 * they have in jobs. */
static const struct {
    int (*create)(struct jm *jm);
    void (*destroy)(struct jm *jm);
    void (*stats)(const struct jm *jm, struct job_stats *st);
} parts[] = {
    {jm_resources_create, jm_resources_destroy, NULL},
    {jm_repeat_create, jm_repeat_destroy, NULL},
    {jm_time_create, jm_time_destroy, jm_time_stats},
    {jm_client_create, jm_client_destroy, NULL},
    {jm_exec_create, jm_exec_destroy, jm_exec_stats},
    {jm_sched_create, jm_sched_destroy, jm_sched_stats},
    {jm_store_create, jm_store_destroy, jm_store_stats},
    {jm_namespace_create, jm_namespace_destroy, NULL},
    {jm_depend_create, jm_depend_destroy, NULL},
    {jm_purge_create, jm_purge_destroy, jm_purge_stats},
    {jm_env_table_create, jm_env_table_destroy, jm_env_stats},
    {jm_spec_table_create, jm_spec_table_destroy, jm_spec_stats},
    {jm_ended_table_create, jm_ended_table_destroy, jm_ended_stats},
    {jm_job_table_create, jm_job_table_destroy, jm_job_stats},
    {jm_submit_create, jm_submit_destroy, jm_submit_stats},
    {jm_queue_create, jm_queue_destroy, NULL},
    {jm_leave_create, jm_leave_destroy, NULL},
    {jm_watch_create, jm_watch_destroy, jm_watch_stats},
    {jm_wait_create, jm_wait_destroy, NULL},
    {jm_many_create, jm_many_destroy, NULL},
    {jm_list_create, jm_list_destroy, NULL},
    {jm_journal_create, jm_journal_destroy, NULL},
};
#define NPARTS (sizeof(parts) / sizeof(parts[0]))

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_stats st = {.ready = jm->ready,
                           .durable = jm->durable,
                           .held = early_count(jm->early),
                           .senders = (uint32_t)claims_count(jm->senders)};

    for (size_t i = 0; i < NPARTS; i++)
        if (parts[i].stats)
            parts[i].stats(jm, &st);
    flux_respond_struct(h, req, &job_stats_schema, &st);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "job.submit", jm_submit_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.list", jm_list_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.wait", jm_wait_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.watch", jm_watch_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.cancel", jm_control_cancel_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.raise", jm_control_raise_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.kill", jm_control_kill_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.urgency", jm_control_urgency_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.queue", jm_queue_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.leave", jm_leave_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "job.purge", jm_purge_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.claim", jm_client_claim_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.memo", jm_control_memo_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.journal", jm_journal_cb, 0},
    {FLUX_MSG_REQUEST, "job.stats", stats_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "job.disconnect", disconnect_cb, FLUX_ROLE_BROKER},
    FLUX_HANDLER_END,
};

/* --- settings --- */

static int set_age(void *arg, const char *text, errmsg_t *err)
{
    struct jm *jm = arg;

    if (strcmp(text, "never") == 0) {
        jm->purge_age = 0;
        return 0;
    }
    if (duration_parse(text, &jm->purge_age, err) < 0)
        return -1;
    if (!isfinite(jm->purge_age))
        jm->purge_age = 0;
    return 0;
}

static int set_statedir(void *arg, const char *text, errmsg_t *err)
{
    struct jm *jm = arg;

    jm->durable = text[0] != '\0';
    return 0;
}

static int set_owner(void *arg, const char *text, errmsg_t *err)
{
    struct jm *jm = arg;
    uint32_t uid;

    if (str2u32(text, &uid) < 0)
        return errmsg_fail(err, EINVAL, "'%s' is not a user id", text);
    jm->owner = uid;
    return 0;
}

static void settings_known(void *arg)
{
    jm_module_kick(arg);
}

static void refused(void *arg, const char *sentence)
{
    struct jm *jm = arg;

    flux_log(jm->h, LOG_ERR, "%s", sentence);
}

static const struct setup_row rows[] = {
    SETUP_SECONDS("job.client-grace", struct jm, client_grace),
    SETUP_SECONDS("job.grace", struct jm, grace),
    SETUP_CALL("job.purge-age", set_age),
    SETUP_COUNT("job.purge-count", struct jm, purge_count),
    SETUP_COUNT("job.max-queued", struct jm, max_queued),
    SETUP_CALL("statedir", set_statedir),
    SETUP_CALL("userid", set_owner),
    SETUP_END,
};
static const struct setup_table settings = {"job", rows, settings_known, refused};

/* --- life --- */

static void job_fini(flux_t *h, void *arg)
{
    struct jm *jm = arg;
    struct job *job = list_entry(jm, struct job, jm);
    int saved = errno;

    /* Send the remaining changes to the store; the responses are not awaited. */
    jm_store_last(jm);
    flux_handlers_remove(job->handlers);
    setup_destroy(job->setup);
    session_destroy(job->session);
    jm_load_destroy(jm);
    for (size_t i = NPARTS; i-- > 0;)
        parts[i].destroy(jm);
    flux_watcher_destroy(job->pass);
    early_destroy(jm->early);
    presence_destroy(jm->presence);
    claims_destroy(jm->senders);
    claims_destroy(jm->clients);
    free(job);
    errno = saved;
}

static int job_may_stop(flux_t *h, void *arg, errmsg_t *err)
{
    struct jm *jm = arg;

    if (jm_store_busy(jm) || jm_submit_busy(jm))
        return errmsg_fail(err, EAGAIN,
                           "jobs are just being put on record: try again (or use --force)");
    if (jm_exec_busy(jm))
        return errmsg_fail(err, EAGAIN, "jobs are just being started: try again (or use --force)");
    return 0;
}

static struct job *create(flux_t *h)
{
    struct job *job = calloc(1, sizeof(*job));
    struct jm *jm = &job->jm;

    if (!job)
        return NULL;
    jm->h = h;
    jm->r = flux_get_reactor(h);
    jm->owner = -1;
    HOLD_POINT_INIT(&jm->hold);
    if (!(jm->senders = claims_create()) || !(jm->clients = claims_create()) ||
        !(jm->presence = presence_create(h, client_ended, jm)) ||
        !(jm->early = early_create(h, jm->senders, JM_EARLY_MAX)) ||
        !(job->pass = flux_defer_create(jm->r, pass_cb, job))) {
        job_fini(h, jm);
        return NULL;
    }
    for (size_t i = 0; i < NPARTS; i++) {
        if (parts[i].create(jm) < 0) {
            job_fini(h, jm);
            return NULL;
        }
    }
    return job;
}

static int job_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct job *job;

    if (setup_root_only(h, "job", err) < 0)
        return -1;
    if (!(job = create(h)))
        return errmsg_fail(err, ENOMEM, "the job module is out of memory");
    if (!(job->handlers = flux_handlers_add(h, handlers, &job->jm)) ||
        !(job->session = session_create(h, &session_ops, &job->jm)))
        errmsg_fail(err, ENOMEM, "the job module is out of memory");
    else if ((job->setup = setup_create(h, &settings, &job->jm, argc, argv, err))) {
        jm_resources_start(&job->jm);
        *arg = &job->jm;
        return 0;
    }
    job_fini(h, &job->jm);
    return -1;
}

FLUX_MODULE(job, job_init, job_fini, .place = FLUX_PLACE_LOOP, .may_stop = job_may_stop);
