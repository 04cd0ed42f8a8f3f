/* coord_job.c - the life of a job at rank 0, from its start to the report of its end.
 *
 *     state     activity                                    left when (by)
 *     running   output goes to the client or to the store   all tasks have ended, no output waits
 *                                                           (coord_job_finished)
 *     storing   the last output is being committed          the store has answered
 *                                                           (coord_job_finished)
 *     over      the end has been reported                   the reaper frees the job (reaper_cb
 *                                                           of wrexec.c)
 *
 * Invariants:
 *  1. The first failure decides the exit code and the error message, and ends the job: by SIGKILL,
 *     or by SIGTERM first if the job has a grace period.  A failure with code 0 (a task aborted the
 *     job with that code) ends the job in the same way, but the job completes.  A failure after the
 *     job module has sent SIGTERM or SIGKILL is attributed to that signal.  A program of flux exec
 *     continues after a failure at one rank.
 *  2. Spawned tasks (coord_spawn.c) form a group, which has a struct coord_job of its own but is
 *     not reported.  Its signals, output, failures and statuses are those of the job, which ends
 *     when the last group has ended.
 *  3. A job that loses a node gets an exception "node-lost".  The job fails, unless it is to
 *     survive the loss of nodes and has other nodes left.  The report of its end says so again.
 *  4. Between the end of the last task and the report, the job waits only for the present commit of
 *     output.
 */
#include "config.h"
#include "coord.h"

#define FAILED_SHOWN 8 /* failed tasks that a result names */
#define SENTENCE_MAX 4097

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libutil/strutil.h"

struct coord_job *coord_job_create(struct coord *r, struct subjob *j)
{
    struct coord_job *rj = calloc(1, sizeof(*rj));

    if (!rj)
        return NULL;
    rj->coord = r;
    rj->j = j;
    rj->exec = (j->spec->flags & WIRE_F_EXEC) != 0;
    rj->cap = j->spec->w.outputlimit;
    list_init(&rj->dirty);
    list_init(&rj->waiting);
    list_init(&rj->groups);
    list_init(&rj->group);
    list_init(&rj->answers);
    if ((j->spec->flags & WIRE_F_STDIN_ALL) &&
        !(rj->taken = calloc(j->nnodes, sizeof(*rj->taken)))) {
        free(rj);
        return NULL;
    }
    rj->behind = j->nnodes;
    return rj;
}

void coord_job_free(struct coord_job *rj)
{
    if (!rj)
        return;
    list_remove(&rj->group);
    LIST_FOREACH_SAFE(it, tmp, &rj->groups)
    list_remove(it);
    coord_spawn_free(rj);
    json_decref(rj->failed_tasks);
    if (rj->l)
        coord_client_free(rj->l);
    coord_output_forget(rj->coord->output, rj);
    flux_watcher_destroy(rj->grace);
    buf_destroy(rj->outbuf);
    free(rj->fail_text);
    free(rj->taken);
    free(rj);
}

bool coord_job_over(const struct coord_job *rj)
{
    return rj->j->finished && list_empty(&rj->groups);
}

void coord_job_signal(struct coord_job *rj, int signum)
{
    subjob_signal(rj->j, signum);
    LIST_FOREACH(it, &rj->groups)
    subjob_signal(list_entry(it, struct coord_job, group)->j, signum);
}

void coord_job_flush(struct subjob *j)
{
    LIST_FOREACH_SAFE(it, tmp, &j->rj->groups)
    subjob_flow_flush(list_entry(it, struct coord_job, group)->j);
}

bool coord_job_output(struct subjob *j, const void *data, size_t len)
{
    struct coord_job *rj = j->rj->parent ? j->rj->parent : j->rj;

    j = rj->j;

    if (rj->gone || j->spec->output == SPEC_OUTPUT_NONE)
        return true;
    if (j->spec->output == SPEC_OUTPUT_KVS)
        return coord_output_put(rj->coord->output, rj, data, len);
    return rj->l && coord_listener_output(rj->l, data, len);
}

/* Note that a node has taken more input.  Returns the growth of the amount that all nodes have
 * taken.  The nodes are scanned only when the last of the slowest nodes has taken more. */
static uint64_t taken_by_all(struct coord_job *rj, uint32_t node, uint64_t bytes)
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

void coord_job_taken(struct subjob *j, uint32_t node, uint64_t bytes)
{
    struct coord_job *rj = j->rj;
    struct wrexec_notice n = {.id = j->id};

    if (node >= j->nnodes)
        return;
    if (rj->taken) {
        if (bytes > rj->taken[node] && taken_by_all(rj, node, bytes - rj->taken[node]) > 0)
            n.taken = rj->acked;
    } else if (bytes > rj->acked) {
        n.taken = rj->acked = bytes;
    }
    j->input_taken = rj->acked < j->input_end ? rj->acked : j->input_end;
    if (n.taken && rj->l)
        coord_listener_notice(rj->l, &n);
}

/* --- the end of a job --- */

/* Remove the namespace by which tasks of different nodes exchanged pairs (subjob_pmi.c).  Most jobs
 * do not have one, which is not an error. */
static void drop_namespace(struct coord_job *rj)
{
    char ns[JOB_NAMESPACE_MAX];

    if (rj->exec || (rj->j->nnodes < 2 && !rj->spawned) || (rj->j->spec->flags & WIRE_F_MPI_NONE))
        return;
    subjob_pmi_namespace(rj->j->id, ns);
    /* The request has been sent, and its answer is not needed. */
    flux_future_destroy(flux_kvs_namespace_remove(rj->coord->ctx->h, ns));
}

/* Return the first failed tasks with their ranks, [[task, rank, status], ...], or NULL if there are
 * none, or with ENOMEM: the result then omits them. */
static json_t *failed_tasks(const struct subjob *j, const json_t *status)
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

            if (own >= exec_layout_ntasks(l)) /* a task of a group, which has reported it */
                continue;
            (void)json_array_append_new(
                failed,
                json_pack("[I, I, i]", (json_int_t)t,
                          (json_int_t)idset_nth(j->ranks, exec_layout_node(l, own, NULL)), st));
        }
        idset_destroy(tasks);
    }
    if (json_array_size(failed) == 0) {
        json_decref(failed);
        failed = NULL;
    }
    return failed;
}

static void group_finished(struct coord_job *g)
{
    struct subjob *j = g->j;
    json_t *status = exec_result_to_json(j->result), *failed = failed_tasks(j, status);

    drop_namespace(g);
    coord_spawn_over(g, failed);
    json_decref(status);
    json_decref(failed);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

void coord_job_finished(struct subjob *j)
{
    struct coord_job *rj = j->rj;
    struct coord *r = rj->coord;
    struct wrexec_result res = {.text = rj->fail_text};
    char *json = NULL;

    if (!list_empty(&j->over) || !coord_job_over(rj))
        return;
    if (rj->parent) {
        group_finished(rj);
        return;
    }
    flux_watcher_stop(rj->grace);
    if (!coord_output_settled(r->output, rj))
        return;
    drop_namespace(rj);
    res.code = rj->failed ? rj->fail_code : exec_result_worst(j->result);
    res.status = exec_result_to_json(j->result);
    if (res.status && res.code)
        res.failed = failed_tasks(j, res.status);
    if (rj->failed_tasks && (res.failed || (res.code && (res.failed = json_array()))))
        (void)json_array_extend(res.failed, rj->failed_tasks);
    if (!rj->exec && res.status)
        coord_tell_ended(r, rj, &res);
    if (res.status && (rj->l || (j->spec->output == SPEC_OUTPUT_CLIENT && !rj->gone)))
        json = flux_schema_encode(&wrexec_result_schema, &res);
    if (json)
        coord_clients_result(r->clients, rj, json);
    free(json);
    json_decref(res.status);
    json_decref(res.failed);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

void coord_job_fail(struct coord_job *rj, int code, const char *text)
{
    if (rj->failed || coord_job_over(rj))
        return;
    rj->failed = true;
    rj->fail_code = code;
    if (code)
        rj->fail_text = strdup(text);
    else if (!rj->exec)
        coord_tell_raise(rj->coord, rj->j->id, "exec", 1, text);
}

void coord_job_failed(struct subjob *j, int code, const char *why_it_did)
{
    struct coord_job *rj = j->rj;
    char text[SENTENCE_MAX];
    struct wrexec_notice n = {.id = j->id, .code = code, .text = text};

    /* The text may contain the name of a program, or a message of a task. */
    snprintf(text, sizeof(text), "%s", why_it_did);
    str_clean(text);
    if (rj->parent) {
        if (rj->spawn_req)
            coord_spawn_refuse(rj, code == 127 ? ENOENT : ECANCELED, text);
        else if (!rj->refused)
            coord_job_failed(rj->parent->j, code, text);
        return;
    }
    if (rj->exec) {
        /* A failure at one rank does not affect the other ranks. */
        if (!rj->failed) {
            rj->failed = true;
            rj->fail_code = code ? code : 1;
        }
        if (rj->l)
            coord_listener_notice(rj->l, &n);
        return;
    }
    if (rj->failed)
        return;
    /* Others may tell of a loss before the instance above the lost node does. */
    if (code == JOB_LOST_CODE && !rj->signaled && !rj->fail_lost && j->dead &&
        !coord_job_over(rj)) {
        rj->fail_lost = true;
        coord_tell_raise(rj->coord, j->id, "node-lost", 0, text);
    }
    if (rj->signaled) {
        char why[80];

        /* A task that such a signal ends cannot finalize MPI, which is not the cause of the
         * failure. */
        snprintf(why, sizeof(why), "the job was ended by SIG%s", sigabbrev_np(rj->signaled));
        coord_job_fail(rj, 128 + rj->signaled, why);
    } else {
        coord_job_fail(rj, code, text);
    }
    if (!coord_job_over(rj))
        coord_job_terminate(rj, j->spec->w.grace);
}

/* Write the names of these ranks of a job, the numbers of their tasks, and the reason, as a
 * sentence. */
static void say_lost(const struct subjob *j, const idset_t *ranks, const char *why, char *text,
                     size_t size)
{
    hostlist_t *all = j->spec->w.names ? hostlist_parse(j->spec->w.names, NULL) : NULL;
    hostlist_t *hl = hostlist_create();
    idset_t *tasks = idset_create();
    char name[HOSTLIST_NAME_MAX + 1], *names, *numbers, *members;
    uint32_t node = 0;

    for (uint32_t r = idset_first(j->ranks); hl && tasks && r != IDSET_NONE;
         r = idset_next(j->ranks, r), node++) {
        if (!idset_test(ranks, r))
            continue;
        if (hostlist_nth(all, node, name, sizeof(name)))
            (void)hostlist_append(hl, name, NULL);
        for (uint32_t i = 0; i < exec_layout_count(j->spec->layout, node); i++)
            (void)idset_set(tasks, j->spec->w.first + exec_layout_task(j->spec->layout, node, i));
    }
    names = hl && hostlist_unique(hl) == 0 ? hostlist_format(hl) : NULL;
    numbers = idset_format(ranks, 0);
    members = tasks ? idset_format(tasks, 0) : NULL;
    snprintf(text, size, "lost rank%s %s%s%.400s%s with task%s %.400s: %s",
             idset_count(ranks) == 1 ? "" : "s", numbers ? numbers : "?",
             names && *names ? " (" : "", names ? names : "", names && *names ? ")" : "",
             idset_count(tasks) == 1 ? "" : "s", members ? members : "?", why);
    free(names);
    free(numbers);
    free(members);
    idset_destroy(tasks);
    hostlist_destroy(hl);
    hostlist_destroy(all);
}

/* Returns whether a job that has lost these ranks survives: it is to survive the loss of nodes, and
 * has nodes left. */
static bool survives(struct coord_job *rj, const idset_t *ranks)
{
    struct subjob *j = rj->j;
    uint32_t node = 0;

    if (!j->spec->w.survive || idset_equal(j->lost, j->ranks))
        return false;
    /* The job does not wait for them to take input. */
    for (uint32_t r = idset_first(j->ranks); rj->taken && r != IDSET_NONE;
         r = idset_next(j->ranks, r), node++) {
        if (idset_test(ranks, r))
            coord_job_taken(j, node, UINT64_MAX / 2);
    }
    return true;
}

void coord_job_lost(struct subjob *j, const idset_t *nodes, const char *why)
{
    struct coord_job *rj = j->rj;
    idset_t *ranks = idset_intersect(nodes, j->ranks);
    char *list = ranks ? idset_format(ranks, 0) : NULL, text[SENTENCE_MAX];
    struct wrexec_notice n = {.id = j->id, .warning = text};

    if (!list || idset_empty(ranks) || coord_job_over(rj)) {
        free(list);
        idset_destroy(ranks);
        return;
    }
    if (rj->exec || rj->parent) {
        snprintf(text, sizeof(text), "lost the tasks on rank%s %s: %s",
                 idset_count(ranks) == 1 ? "" : "s", list, why);
        coord_job_failed(j, JOB_LOST_CODE, text);
    } else {
        say_lost(j, ranks, why, text, sizeof(text));
        str_clean(text);
        if (survives(rj, ranks)) {
            coord_tell_raise(rj->coord, j->id, "node-lost", 1, text);
            if (rj->l)
                coord_listener_notice(rj->l, &n);
        } else {
            /* A failure or signal before the loss decides the result. */
            bool decided = rj->failed || rj->signaled;

            coord_tell_raise(rj->coord, j->id, "node-lost", decided ? 1 : 0, text);
            if (!decided)
                rj->fail_lost = true;
            coord_job_failed(j, JOB_LOST_CODE, text);
        }
    }
    free(list);
    idset_destroy(ranks);
}

void coord_job_note(struct subjob *j, bool warning, const void *text, size_t len)
{
    char copy[1024];
    struct wrexec_notice n = {.warning = copy};

    if (j->rj->parent)
        j = j->rj->parent->j;
    n.id = j->id;
    snprintf(copy, sizeof(copy), "%.*s", (int)len, (const char *)text);
    str_clean(copy);
    if (j->rj->exec)
        return;
    coord_tell_raise(j->rj->coord, j->id, warning ? "warning" : "exec", 1, copy);
    if (warning && j->rj->l)
        coord_listener_notice(j->rj->l, &n);
}

static void kill_all(struct coord_job *rj)
{
    rj->j->killed = true;
    LIST_FOREACH(it, &rj->groups)
    list_entry(it, struct coord_job, group)->j->killed = true;
    coord_job_signal(rj, SIGKILL);
}

static void grace_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    kill_all(arg);
}

void coord_job_terminate(struct coord_job *rj, double grace)
{
    struct subjob *j = rj->j;

    if (rj->terminating)
        return;
    rj->terminating = true;
    if (grace <= 0 || !(rj->grace = flux_timer_create(flux_get_reactor(j->ctx->h), grace_cb, rj))) {
        kill_all(rj);
        return;
    }
    coord_job_signal(rj, SIGTERM);
    coord_job_signal(rj, SIGCONT);
    rj->deadline = flux_now(j->ctx->h) + grace;
    flux_timer_start(rj->grace, grace, 0.);
}

/* --- reload --- */

void coord_job_save(const struct coord_job *rj, flux_handover_t *o)
{
    double left = rj->grace ? rj->deadline - flux_now(rj->j->ctx->h) : 0.;

    flux_handover_put(o, rj->gone);
    flux_handover_put(o, rj->terminating);
    flux_handover_put(o, rj->nsignals);
    flux_handover_put(o, (uint64_t)rj->signaled);
    flux_handover_put(o, rj->failed);
    flux_handover_put(o, (uint32_t)rj->fail_code);
    flux_handover_put_str(o, rj->fail_text);
    flux_handover_put(o, rj->fail_lost);
    flux_handover_put(o, rj->grace && !coord_job_over(rj) && !rj->j->killed);
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
    coord_spawn_save(rj, o);
}

static void load_taken(struct coord_job *rj, flux_handover_t *o)
{
    size_t len, want = rj->taken ? rj->j->nnodes * sizeof(*rj->taken) : 0;
    const void *data = flux_handover_get_data(o, &len);

    if (len != want)
        flux_handover_fail(o, EPROTO);
    else if (len)
        memcpy(rj->taken, data, len);
}

static void load_output(struct coord_job *rj, flux_handover_t *o)
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
        coord_output_take_up(rj->coord->output, rj);
}

void coord_job_load(struct coord_job *rj, flux_handover_t *o)
{
    const char *text;
    uint64_t left;
    bool grace;

    rj->gone = flux_handover_get(o, 1);
    rj->terminating = flux_handover_get(o, 1);
    rj->nsignals = (uint32_t)flux_handover_get(o, UINT32_MAX);
    rj->signaled = (int)flux_handover_get(o, _NSIG);
    rj->failed = flux_handover_get(o, 1);
    rj->fail_code = (int)(uint32_t)flux_handover_get(o, UINT32_MAX);
    if ((text = flux_handover_get_str(o)) && !(rj->fail_text = strdup(text)))
        flux_handover_fail(o, ENOMEM);
    rj->fail_lost = flux_handover_get(o, 1);
    grace = flux_handover_get(o, 1);
    left = flux_handover_get(o, UINT64_MAX);
    load_taken(rj, o);
    rj->acked = flux_handover_get(o, UINT64_MAX);
    rj->behind = (uint32_t)flux_handover_get(o, UINT32_MAX);
    load_output(rj, o);
    coord_spawn_load(rj, o);
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
