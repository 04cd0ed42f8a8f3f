/* The life of one job at rank 0, from its start to what is told of its end.
 *
 * state     what happens                                      left when
 * running   output goes to the listener or the store          all tasks are done, all output gone
 * storing   the last output is being committed                the store has answered
 * over      the end was told; freed by the reaper
 *
 *  1. The first failure decides the exit code and the sentence, and ends the job: at once by
 *     SIGKILL, or by SIGTERM first where it has a period of grace.  A failure with code 0, a task
 *     that aborted the job with it, is not one: the job is ended in the same way, and completes.
 *     One that follows a signal which ends programs is that signal's doing.
 *  2. Tasks that were spawned (spawn.c) are a group, with a life of its own here that is told to nobody:
 *     signals, output, failures and statuses are those of the job, which ends with the last of them.
 *  3. Nothing is waited for between the last task's end and what is told, but the commit of output
 *     that is still under way.
 */
#include "config.h"
#include "coord.h"

#define FAILED_SHOWN 8 /* tasks that a result names */
#define SENTENCE_MAX 4097

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"

struct rootjob *rootjob_create(struct root *r, struct job *j)
{
    struct rootjob *rj = calloc(1, sizeof(*rj));

    if (!rj)
        return NULL;
    rj->root = r;
    rj->j = j;
    rj->exec = (j->spec->flags & WIRE_F_EXEC) != 0;
    rj->cap = j->spec->w.outputlimit;
    list_init(&rj->dirty);
    list_init(&rj->waiting);
    list_init(&rj->groups);
    list_init(&rj->group);
    if ((j->spec->flags & WIRE_F_STDIN_ALL) &&
        !(rj->taken = calloc(j->nnodes, sizeof(*rj->taken)))) {
        free(rj);
        return NULL;
    }
    rj->behind = j->nnodes;
    return rj;
}

void rootjob_free(struct rootjob *rj)
{
    if (!rj)
        return;
    list_remove(&rj->group);
    LIST_FOREACH_SAFE(it, tmp, &rj->groups)
    list_remove(it);
    flux_msg_destroy(rj->spawn_req);
    json_decref(rj->failed_tasks);
    if (rj->l)
        listener_free(rj->l);
    output_forget(rj->root->output, rj);
    flux_watcher_destroy(rj->grace);
    buf_destroy(rj->outbuf);
    free(rj->fail_text);
    free(rj->taken);
    free(rj);
}

bool rootjob_over(const struct rootjob *rj)
{
    return rj->j->finished && list_empty(&rj->groups);
}

void rootjob_signal(struct rootjob *rj, int signum)
{
    job_signal(rj->j, signum);
    LIST_FOREACH(it, &rj->groups)
    job_signal(list_entry(it, struct rootjob, group)->j, signum);
}

void root_job_flush(struct job *j)
{
    LIST_FOREACH_SAFE(it, tmp, &j->rj->groups)
    job_flush(list_entry(it, struct rootjob, group)->j);
}

bool root_job_output(struct job *j, const void *data, size_t len)
{
    struct rootjob *rj = j->rj->parent ? j->rj->parent : j->rj;

    j = rj->j;

    if (rj->gone || j->spec->output == SPEC_OUTPUT_NONE)
        return true;
    if (j->spec->output == SPEC_OUTPUT_KVS)
        return output_put(rj->root->output, rj, data, len);
    if (!rj->l || rj->l->credit <= 0)
        return false;
    rj->l->credit -= (int64_t)len;
    flux_respond_more_raw(j->ctx->h, rj->l->req, data, len);
    return true;
}

/* A node has taken more: by how much does what all have taken grow?  All nodes are looked at only
 * when the last of those that were behind has moved. */
static uint64_t taken_by_all(struct rootjob *rj, uint32_t node, uint64_t bytes)
{
    uint64_t least = UINT64_MAX, before = rj->acked;
    uint32_t n = rj->j->nnodes;

    rj->behind -= (bytes > 0 && rj->taken[node] == before);
    rj->taken[node] += bytes;
    if (rj->behind > 0)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (rj->taken[i] < least)
            least = rj->taken[i];
    for (uint32_t i = 0; i < n; i++)
        rj->behind += (rj->taken[i] == least);
    rj->acked = least;
    return least - before;
}

void root_job_taken(struct job *j, uint32_t node, uint64_t bytes)
{
    struct rootjob *rj = j->rj;
    struct wrexec_notice n = {.id = j->id, .taken = bytes};

    if (rj->taken) {
        if (node >= j->nnodes)
            return;
        n.taken = taken_by_all(rj, node, bytes);
    }
    if (n.taken && rj->l)
        listener_notice(rj->l, &n);
}

/* --- the end of a job --- */

/* The namespace in which the tasks of different nodes told each other where they are (pmi.c).  Most
 * jobs never made one, which is no error. */
static void drop_namespace(struct rootjob *rj)
{
    char ns[JOB_NAMESPACE_MAX];

    if (rj->exec || (rj->j->nnodes < 2 && !rj->spawned) || (rj->j->spec->flags & WIRE_F_MPI_NONE))
        return;
    job_namespace(rj->j->id, ns);
    /* The request is on its way; nobody waits for its answer. */
    flux_future_destroy(flux_kvs_namespace_remove(rj->root->ctx->h, ns));
}

/* The first tasks that failed, with the rank of each: [[task, rank, status], ...].  NULL without any,
 * or without memory: the result does without. */
static json_t *failed_tasks(const struct job *j, const json_t *status)
{
    const layout_t *l = j->spec->layout;
    json_t *failed = json_array(), *pair;
    size_t i;

    json_array_foreach(status, i, pair)
    {
        int st = (int)json_integer_value(json_array_get(pair, 0));
        idset_t *tasks = st ? idset_parse(json_string_value(json_array_get(pair, 1)), NULL) : NULL;

        for (uint32_t t = idset_first(tasks);
             t != IDSET_NONE && json_array_size(failed) < FAILED_SHOWN; t = idset_next(tasks, t)) {
            uint32_t own = t - j->spec->w.first;

            if (own >= layout_ntasks(l)) /* of a group, which has told it */
                continue;
            (void)json_array_append_new(
                failed, json_pack("[I, I, i]", (json_int_t)t,
                                  (json_int_t)idset_nth(j->ranks, layout_node(l, own, NULL)), st));
        }
        idset_destroy(tasks);
    }
    if (json_array_size(failed) == 0) {
        json_decref(failed);
        failed = NULL;
    }
    return failed;
}

static void group_finished(struct rootjob *g)
{
    struct job *j = g->j;
    json_t *status = result_to_json(j->result), *failed = failed_tasks(j, status);

    drop_namespace(g);
    group_over(g, failed);
    json_decref(status);
    json_decref(failed);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

void root_job_finished(struct job *j)
{
    struct rootjob *rj = j->rj;
    struct root *r = rj->root;
    struct wrexec_result res = {.text = rj->fail_text};
    char *json = NULL;

    if (!list_empty(&j->over) || !rootjob_over(rj))
        return;
    if (rj->parent) {
        group_finished(rj);
        return;
    }
    flux_watcher_stop(rj->grace);
    if (!output_settled(r->output, rj))
        return;
    drop_namespace(rj);
    res.code = rj->failed ? rj->fail_code : result_worst(j->result);
    res.status = result_to_json(j->result);
    if (res.status && res.code)
        res.failed = failed_tasks(j, res.status);
    if (rj->failed_tasks && (res.failed || (res.code && (res.failed = json_array()))))
        (void)json_array_extend(res.failed, rj->failed_tasks);
    if (!rj->exec && res.status)
        root_tell_ended(r, rj, &res);
    if (res.status && (rj->l || (j->spec->output == SPEC_OUTPUT_CLIENT && !rj->gone)))
        json = flux_schema_encode(&wrexec_result_schema, &res);
    if (json)
        clients_result(r->clients, rj, json);
    free(json);
    json_decref(res.status);
    json_decref(res.failed);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

void rootjob_fail(struct rootjob *rj, int code, const char *text)
{
    if (rj->failed || rootjob_over(rj))
        return;
    rj->failed = true;
    rj->fail_code = code;
    if (code)
        rj->fail_text = strdup(text);
    else if (!rj->exec)
        root_tell_raise(rj->root, rj->j->id, "exec", 1, text);
}

void root_job_failed(struct job *j, int code, const char *why_it_did)
{
    struct rootjob *rj = j->rj;
    char text[SENTENCE_MAX];
    struct wrexec_notice n = {.id = j->id, .code = code, .text = text};

    /* It may name a program, or have words of a task. */
    snprintf(text, sizeof(text), "%s", why_it_did);
    str_clean(text);
    if (rj->parent) {
        if (rj->spawn_req)
            group_refuse(rj, code == 127 ? ENOENT : ECANCELED, text);
        else if (!rj->refused)
            root_job_failed(rj->parent->j, code, text);
        return;
    }
    if (rj->exec) {
        /* One rank's trouble is not another's. */
        if (!rj->failed) {
            rj->failed = true;
            rj->fail_code = code ? code : 1;
        }
        if (rj->l)
            listener_notice(rj->l, &n);
        return;
    }
    if (rj->failed)
        return;
    if (rj->signaled) {
        char why[80];

        /* Tasks that such a signal ended do not leave MPI in an orderly way. */
        snprintf(why, sizeof(why), "the job was ended by SIG%s", sigabbrev_np(rj->signaled));
        rootjob_fail(rj, 128 + rj->signaled, why);
    } else {
        rootjob_fail(rj, code, text);
    }
    if (!rootjob_over(rj))
        rootjob_terminate(rj, j->spec->w.grace);
}

void root_job_note(struct job *j, const void *text, size_t len)
{
    char copy[1024];

    if (j->rj->parent)
        j = j->rj->parent->j;
    snprintf(copy, sizeof(copy), "%.*s", (int)len, (const char *)text);
    str_clean(copy);
    if (!j->rj->exec)
        root_tell_raise(j->rj->root, j->id, "exec", 1, copy);
}

static void kill_all(struct rootjob *rj)
{
    rj->j->killed = true;
    LIST_FOREACH(it, &rj->groups)
    list_entry(it, struct rootjob, group)->j->killed = true;
    rootjob_signal(rj, SIGKILL);
}

static void grace_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    kill_all(arg);
}

void rootjob_terminate(struct rootjob *rj, double grace)
{
    struct job *j = rj->j;

    if (rj->terminating)
        return;
    rj->terminating = true;
    if (grace <= 0 || !(rj->grace = flux_timer_create(flux_get_reactor(j->ctx->h), grace_cb, rj))) {
        kill_all(rj);
        return;
    }
    rootjob_signal(rj, SIGTERM);
    rootjob_signal(rj, SIGCONT);
    rj->deadline = flux_now(j->ctx->h) + grace;
    flux_timer_start(rj->grace, grace, 0.);
}

/* --- from one instance to the next --- */

void rootjob_save(const struct rootjob *rj, flux_handover_t *o)
{
    double left = rj->grace ? rj->deadline - flux_now(rj->j->ctx->h) : 0.;

    flux_handover_put(o, rj->gone);
    flux_handover_put(o, rj->terminating);
    flux_handover_put(o, (uint64_t)rj->signaled);
    flux_handover_put(o, rj->failed);
    flux_handover_put(o, (uint32_t)rj->fail_code);
    flux_handover_put_str(o, rj->fail_text);
    flux_handover_put(o, rj->grace && !rootjob_over(rj) && !rj->j->killed);
    flux_handover_put(o, left > 0. ? (uint64_t)(left * 1e6) : 0);
    flux_handover_put_data(o, rj->taken, rj->taken ? rj->j->nnodes * sizeof(*rj->taken) : 0);
    flux_handover_put(o, rj->acked);
    flux_handover_put(o, rj->behind);
    flux_handover_put_data(o, rj->outbuf ? buf_data(rj->outbuf) : NULL,
                           rj->outbuf ? buf_len(rj->outbuf) : 0);
    flux_handover_put(o, rj->kept);
    flux_handover_put(o, rj->lost);
    flux_handover_put(o, rj->sent);
    flux_handover_put(o, rj->committing);
    group_save(rj, o);
}

static void load_taken(struct rootjob *rj, flux_handover_t *o)
{
    size_t len, want = rj->taken ? rj->j->nnodes * sizeof(*rj->taken) : 0;
    const void *data = flux_handover_get_data(o, &len);

    if (len != want)
        flux_handover_fail(o, EPROTO);
    else if (len)
        memcpy(rj->taken, data, len);
}

static void load_output(struct rootjob *rj, flux_handover_t *o)
{
    size_t len;
    const void *data = flux_handover_get_data(o, &len);

    if (!(rj->outbuf = buf_create(0)) || buf_append(rj->outbuf, data, len) < 0)
        flux_handover_fail(o, ENOMEM);
    rj->kept = flux_handover_get(o, UINT64_MAX);
    rj->lost = flux_handover_get(o, UINT64_MAX);
    rj->sent = flux_handover_get(o, UINT64_MAX);
    rj->committing = flux_handover_get(o, 1);
    if (flux_handover_ok(o))
        output_take_up(rj->root->output, rj);
}

void rootjob_load(struct rootjob *rj, flux_handover_t *o)
{
    const char *text;
    uint64_t left;
    bool grace;

    rj->gone = flux_handover_get(o, 1);
    rj->terminating = flux_handover_get(o, 1);
    rj->signaled = (int)flux_handover_get(o, _NSIG);
    rj->failed = flux_handover_get(o, 1);
    rj->fail_code = (int)(uint32_t)flux_handover_get(o, UINT32_MAX);
    if ((text = flux_handover_get_str(o)) && !(rj->fail_text = strdup(text)))
        flux_handover_fail(o, ENOMEM);
    grace = flux_handover_get(o, 1);
    left = flux_handover_get(o, UINT64_MAX);
    load_taken(rj, o);
    rj->acked = flux_handover_get(o, UINT64_MAX);
    rj->behind = (uint32_t)flux_handover_get(o, UINT32_MAX);
    load_output(rj, o);
    group_load(rj, o);
    if (!grace || !flux_handover_ok(o))
        return;
    rj->grace = flux_timer_create(flux_get_reactor(rj->j->ctx->h), grace_cb, rj);
    if (!rj->grace) {
        flux_handover_fail(o, ENOMEM);
        return;
    }
    rj->deadline = flux_now(rj->j->ctx->h) + (double)left * 1e-6;
    flux_timer_start(rj->grace, (double)left * 1e-6, 0.);
}
