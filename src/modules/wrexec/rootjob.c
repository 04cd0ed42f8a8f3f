/* The life of one job at rank 0, from its start to the client's last response.
 *
 * state     what happens                                      left when
 * running   output and notices go to the client               all tasks are done, all output gone
 * storing   the end of the record is being committed          the store has answered
 * over      the client has the result; freed by the reaper
 *
 *  1. The store is never waited for between a client's request and its tasks.  A job that lives
 *     for less than RECORD_DELAY is written by one commit, at its end; the client's last response
 *     comes when the record is complete.
 *  2. One commit of a job is under way at a time; what comes meanwhile is the next.
 *  3. The first failure decides the exit code and the sentence, and ends the job by SIGKILL.  A
 *     time limit, and a client that went away, send SIGTERM, and SIGKILL after GRACE seconds.
 *  4. Detached output waits here for its commit; above OUTPUT_HELD bytes no more is taken from
 *     the tasks.  Of a job OUTPUT_CAP bytes are kept; how many were lost is on record.
 *
 * Failure: without store a job runs as well and is not on record; a commit that fails is logged.
 */
#include "config.h"
#include "root.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRACE 5.0
#define RECORD_DELAY 0.02
#define OUTPUT_HELD (1u << 20)
#define OUTPUT_CAP (16u << 20)
#define LIMIT_CODE (128 + SIGALRM)

/* --- the record --- */

static void commit_pending(struct rootjob *rj);

static void commit_cb(flux_future_t *f, void *arg)
{
    struct rootjob *rj = arg;
    errmsg_t err;

    rj->commit = NULL;
    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        flux_log(rj->root->ctx->h, LOG_WARNING, "job %" PRIu64 " is not on record: %s", rj->j->id,
                 err.text);
    flux_future_destroy(f);
    if (rj->detach && !rj->stored) {
        struct wrexec_notice n = {.id = rj->j->id};
        char *json = flux_schema_encode(&wrexec_notice_schema, &n);

        rj->stored = true;
        if (json)
            flux_respond(rj->root->ctx->h, rj->req, json);
        free(json);
    }
    commit_pending(rj);
    if (!rj->j->finished)
        job_credit(rj->j, 0);
    else if (!rj->commit)
        root_job_finished(rj->j);
}

static int add_output(struct rootjob *rj)
{
    size_t len = rj->outbuf ? buf_len(rj->outbuf) : 0;

    if (len == 0)
        return 0;
    if (!rj->txn && !(rj->txn = flux_kvs_txn_create()))
        return -1;
    if (record_output(rj->txn, rj->j, rj->nchunks++, buf_data(rj->outbuf), len) < 0)
        rj->lost += len;
    buf_consume(rj->outbuf, len);
    return 0;
}

/* Commit what there is, unless a commit is under way: then it waits for that. */
static void commit_pending(struct rootjob *rj)
{
    flux_future_t *f;

    if (rj->commit || rj->j->finished || add_output(rj) < 0 || !rj->txn)
        return;
    f = flux_kvs_commit(rj->root->ctx->h, NULL, rj->txn);
    flux_kvs_txn_destroy(rj->txn);
    rj->txn = NULL;
    if (f && flux_future_then(f, -1., commit_cb, rj) == 0)
        rj->commit = f;
    else
        flux_future_destroy(f);
}

static void record_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    commit_pending(arg);
}

enum root_output root_job_output(struct job *j, const void *data, size_t len)
{
    struct rootjob *rj = j->rj;
    struct wire_record rec;

    if (!rj->keep_output)
        return ROOT_OUTPUT_PASS;
    if (buf_len(rj->outbuf) > OUTPUT_HELD)
        return ROOT_OUTPUT_WAIT;
    while (wire_record_next(&data, &len, &rec) == 1) {
        char head[48];
        int n = snprintf(head, sizeof(head), "%u %u %u\n", rec.task, rec.stream, rec.len);

        if (rj->kept + (size_t)n + rec.len > OUTPUT_CAP ||
            buf_append(rj->outbuf, head, (size_t)n) < 0 ||
            buf_append(rj->outbuf, rec.data, rec.len) < 0) {
            rj->lost += rec.len;
            continue;
        }
        rj->kept += (size_t)n + rec.len;
    }
    commit_pending(rj);
    return ROOT_OUTPUT_KEPT;
}

/* --- the end of a job --- */

void rootjob_free(struct rootjob *rj)
{
    if (!rj)
        return;
    flux_future_destroy(rj->commit);
    flux_future_destroy(rj->final);
    flux_kvs_txn_destroy(rj->txn);
    flux_watcher_destroy(rj->limit);
    flux_watcher_destroy(rj->grace);
    flux_watcher_destroy(rj->record);
    flux_msg_destroy(rj->req);
    buf_destroy(rj->outbuf);
    free(rj->command);
    free(rj->fail_text);
    free(rj->taken);
    free(rj);
}

static int job_code(const struct rootjob *rj)
{
    return rj->fail_code ? rj->fail_code : result_worst(rj->j->result);
}

static void finish(struct rootjob *rj)
{
    struct job *j = rj->j;
    struct ctx *ctx = rj->root->ctx;
    struct wrexec_result res = {.code = job_code(rj), .text = rj->fail_text};
    char *json = NULL;

    if (j->req && (res.status = result_to_json(j->result)))
        json = flux_schema_encode(&wrexec_result_schema, &res);
    if (json)
        flux_respond(ctx->h, j->req, json);
    else if (j->req)
        flux_respond_error(ctx->h, j->req, ENOMEM, "no memory for the result of job %" PRIu64,
                           j->id);
    free(json);
    json_decref(res.status);
    flux_msg_destroy(j->req);
    j->req = NULL;
    list_append(&ctx->over, &j->over);
    flux_watcher_start(ctx->reaper);
}

static void final_cb(flux_future_t *f, void *arg)
{
    struct rootjob *rj = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        flux_log(rj->root->ctx->h, LOG_WARNING, "the end of job %" PRIu64 " is not on record: %s",
                 rj->j->id, err.text);
    finish(rj);
}

/* The namespace in which the tasks of different nodes told each other where they are (pmi.c).  Most
 * jobs never made one, which is no error. */
static void drop_namespace(struct rootjob *rj)
{
    char ns[JOB_NAMESPACE_MAX];

    if (rj->exec || rj->j->nnodes < 2)
        return;
    job_namespace(rj->j->id, ns);
    /* The request is on its way; nobody waits for its answer. */
    flux_future_destroy(flux_kvs_namespace_remove(rj->root->ctx->h, ns));
}

void root_job_finished(struct job *j)
{
    struct rootjob *rj = j->rj;
    struct ctx *ctx = rj->root->ctx;

    /* Of an earlier commit the answer is still to come; then this is called again. */
    if (rj->commit || rj->final)
        return;
    flux_watcher_stop(rj->limit);
    flux_watcher_stop(rj->grace);
    flux_watcher_stop(rj->record);
    drop_namespace(rj);
    if (rj->exec || !rj->root->kvs || add_output(rj) < 0 ||
        (!rj->txn && !(rj->txn = flux_kvs_txn_create())) ||
        record_end(rj->txn, j, job_code(rj), rj->fail_text, rj->lost,
                   flux_reactor_now(flux_get_reactor(ctx->h))) < 0) {
        finish(rj);
        return;
    }
    rj->final = flux_kvs_commit(ctx->h, NULL, rj->txn);
    if (!rj->final || flux_future_then(rj->final, -1., final_cb, rj) < 0)
        finish(rj);
}

void rootjob_fail(struct rootjob *rj, int code, const char *text)
{
    if (rj->fail_code || rj->j->finished)
        return;
    rj->fail_code = code ? code : 1;
    rj->fail_text = strdup(text);
}

void root_job_failed(struct job *j, int code, const char *text)
{
    struct rootjob *rj = j->rj;
    struct wrexec_notice n = {.id = j->id, .code = code, .text = text};

    if (rj->exec) {
        /* One rank's trouble is not another's. */
        if (!rj->fail_code)
            rj->fail_code = code;
        job_send_notice(j, &n);
        return;
    }
    if (rj->fail_code && j->killed)
        return;
    rootjob_fail(rj, code, text);
    j->killed = true;
    job_signal(j, SIGKILL);
}

static void grace_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct rootjob *rj = arg;

    rj->j->killed = true;
    job_signal(rj->j, SIGKILL);
}

void rootjob_terminate(struct rootjob *rj)
{
    struct job *j = rj->j;

    job_signal(j, SIGTERM);
    job_signal(j, SIGCONT);
    if (!rj->grace && !(rj->grace = flux_timer_create(flux_get_reactor(j->ctx->h), grace_cb, rj))) {
        job_signal(j, SIGKILL);
        return;
    }
    flux_timer_start(rj->grace, GRACE, 0.);
}

static void limit_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct rootjob *rj = arg;
    char text[96];

    snprintf(text, sizeof(text), "its time limit of %g s is over", rj->limit_seconds);
    rootjob_fail(rj, LIMIT_CODE, text);
    rootjob_terminate(rj);
}

void rootjob_begin(struct rootjob *rj, const struct wrexec_run *run, const struct jobreq *strings)
{
    struct job *j = rj->j;
    flux_reactor_t *reactor = flux_get_reactor(j->ctx->h);

    if (run->limit > 0 && (rj->limit = flux_timer_create(reactor, limit_cb, rj)))
        flux_timer_start(rj->limit, run->limit, 0.);
    if (rj->exec || !rj->root->kvs) {
        if (rj->detach) {
            struct wrexec_notice n = {.id = j->id};
            char *json = flux_schema_encode(&wrexec_notice_schema, &n);

            rj->keep_output = false;
            rj->stored = true;
            flux_respond(j->ctx->h, rj->req, json ? json : "{}");
            free(json);
        }
        return;
    }
    rj->txn = flux_kvs_txn_create();
    if (rj->txn && record_start(rj->txn, j, strings, run, flux_reactor_now(reactor)) < 0) {
        flux_log(j->ctx->h, LOG_WARNING, "job %" PRIu64 " is not on record: %s", j->id,
                 strerror(errno));
    }
    if (rj->detach)
        commit_pending(rj);
    else if ((rj->record = flux_timer_create(reactor, record_timer_cb, rj)))
        flux_timer_start(rj->record, RECORD_DELAY, 0.);
}
