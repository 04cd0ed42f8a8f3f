/* An instance's part of a job: start, output, signals, result, along the tree.
 *
 * A start request comes from above (at rank 0: is made by root.c), goes to the launcher when this
 * rank has tasks, and unchanged to each child whose subtree has some: one message per edge.
 * Everything comes back as responses to it:
 *
 *   raw            output records                          passed on as they are
 *   JSON notice    a failure, standard input taken         passed on at once
 *   last, JSON     result of the whole subtree             merged; one message per edge
 *
 * Flow of output, hop by hop: whoever takes output gives `window` bytes of credit first, and as
 * much again as it got rid of.  So an instance holds at most a window for its launcher and each
 * child, and a reader that stands still stops every task's pipe, however deep.
 *
 *  1. A job is finished here once: local tasks done, all children done, no piece waiting, no commit
 *     unanswered.  Then the result goes up and the job is freed.
 *  2. A child that cannot be reached, or was lost, is done, its tasks count as killed, and the job
 *     fails.
 *  3. Nobody above (disconnect, cancel): the job is killed here and below, output is thrown away.
 *  4. A job is freed only by the reaper, from the loop, never under the feet of a caller.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "names.h"
#include "libutil/le.h"

#define LOST_CODE (128 + SIGKILL)

/* --- towards above --- */

void job_send_notice(struct job *j, const struct wrexec_notice *n)
{
    char *json;

    if (!j->req || !(json = flux_schema_encode(&wrexec_notice_schema, n)))
        return;
    flux_respond_more(j->ctx->h, j->req, json);
    free(json);
}

void job_fail(struct job *j, int code, const char *text)
{
    struct wrexec_notice n = {.id = j->id, .code = code, .text = text};

    if (j->rj)
        root_job_failed(j, code, text);
    else
        job_send_notice(j, &n);
}

static void source_credit(struct job *j, uint32_t src, size_t len)
{
    uint8_t buf[WREXEC_CREDIT_SIZE];

    if (src == JOB_LOCAL) {
        uint32_t n;

        j->owed += len;
        if (j->owed < WIRE_WINDOW / 4 || j->local_done)
            return;
        n = (uint32_t)j->owed;
        exec_send(j->ctx->exec, WIRE_CREDIT, j->id, &n, sizeof(n), NULL, 0);
        j->owed = 0;
    } else {
        struct child *c = &j->children[src];

        c->owed += len;
        if (c->owed < j->spec.window / 4 || c->done)
            return;
        le_put64(buf, j->id);
        le_put32(buf + 8, (uint32_t)c->owed);
        flux_future_destroy(flux_rpc_raw(j->ctx->h, "wrexec.credit", buf, sizeof(buf), c->rank,
                                         FLUX_MSGF_NORESPONSE));
        c->owed = 0;
    }
}

/* Get rid of bytes if they may be: false when they have to wait. */
static bool forward(struct job *j, uint32_t src, const void *data, size_t len)
{
    enum root_output where = j->rj ? root_job_output(j, data, len) : ROOT_OUTPUT_PASS;

    if (where == ROOT_OUTPUT_WAIT)
        return false;
    if (where == ROOT_OUTPUT_PASS && j->req) {
        if (j->credit <= 0)
            return false;
        j->credit -= (int64_t)len;
        flux_respond_more_raw(j->ctx->h, j->req, data, len);
    }
    source_credit(j, src, len);
    return true;
}

static const void *piece_data(const struct piece *p)
{
    size_t len;

    return p->msg ? flux_msg_payload(p->msg, &len) : p->data;
}

static void piece_free(struct piece *p)
{
    list_remove(&p->node);
    flux_msg_destroy(p->msg);
    free(p);
}

static void flush_pieces(struct job *j)
{
    struct list_node *n;

    while ((n = list_first(&j->pieces))) {
        struct piece *p = list_entry(n, struct piece, node);

        if (!forward(j, p->src, piece_data(p), p->len))
            return;
        piece_free(p);
    }
}

/* Output came from the launcher (`msg` NULL) or a child. */
static void output(struct job *j, uint32_t src, const flux_msg_t *msg, const void *data, size_t len)
{
    struct piece *p;

    if (list_empty(&j->pieces) && forward(j, src, data, len))
        return;
    p = malloc(sizeof(*p) + (msg ? 0 : len));
    if (!p) {
        /* Not to lose it in silence. */
        source_credit(j, src, len);
        job_fail(j, 1, "out of memory for output: some of it is lost");
        return;
    }
    p->src = src;
    p->len = len;
    p->msg = msg ? flux_msg_incref(msg) : NULL;
    if (!msg)
        memcpy(p->data, data, len);
    list_append(&j->pieces, &p->node);
}

void job_credit(struct job *j, uint32_t bytes)
{
    j->credit += bytes;
    flush_pieces(j);
    job_check(j);
}

/* --- the end --- */

static void respond_result(struct job *j)
{
    struct wrexec_result res = {.status = result_to_json(j->result)};
    char *json = res.status ? flux_schema_encode(&wrexec_result_schema, &res) : NULL;

    if (json)
        flux_respond(j->ctx->h, j->req, json);
    else
        flux_respond_error(j->ctx->h, j->req, ENOMEM, "rank %u has no memory for a job's result",
                           j->ctx->rank);
    free(json);
    json_decref(res.status);
}

void job_check(struct job *j)
{
    if (j->finished || !j->local_done || !list_empty(&j->pieces))
        return;
    for (uint32_t i = 0; i < j->nchildren; i++)
        if (!j->children[i].done)
            return;
    j->finished = true;
    if (j->rj) {
        root_job_finished(j);
        return;
    }
    if (j->req)
        respond_result(j);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

/* Tasks of these ranks are no more. */
static void add_lost(struct job *j, const idset_t *ranks)
{
    uint32_t node = 0;

    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r), node++) {
        uint32_t first = layout_first(j->spec.ntasks, j->nnodes, node);

        if (idset_test(ranks, r))
            result_add(j->result, SIGKILL, first,
                       first + layout_count(j->spec.ntasks, j->nnodes, node) - 1);
    }
}

static void local_end(struct job *j, const int32_t *status, uint32_t n)
{
    uint32_t first = layout_first(j->spec.ntasks, j->nnodes, j->node);
    uint32_t count = layout_count(j->spec.ntasks, j->nnodes, j->node);

    /* Runs of equal statuses at a time. */
    for (uint32_t i = 0, k; i < count; i = k) {
        int st = wire_i32(&status[i < n ? i : n - 1]);

        for (k = i + 1; k < count && wire_i32(&status[k < n ? k : n - 1]) == st; k++)
            ;
        result_add(j->result, st, first + i, first + k - 1);
    }
    j->local_done = true;
    job_fences_free(j);
    job_check(j);
}

void job_launcher_lost(struct job *j, const char *why)
{
    int32_t killed = SIGKILL;
    char text[256];

    if (j->node == JOB_LOCAL || j->local_done)
        return;
    snprintf(text, sizeof(text),
             "the launcher of rank %u was lost (%s), and with it its tasks; look at flux dmesg",
             j->ctx->rank, why);
    job_fail(j, LOST_CODE, text);
    local_end(j, &killed, 1);
}

/* --- what comes from the launcher --- */

static void frame_fail(struct job *j, const struct wire_frame *f)
{
    int32_t first = wire_i32(f->payload + 4);
    uint32_t count = wire_u32(f->payload + 8);
    char text[512];

    if (first >= 0 && count > 1)
        snprintf(text, sizeof(text), "%.*s (tasks %d-%u on rank %u)", (int)f->len - 12,
                 (const char *)f->payload + 12, first, (uint32_t)first + count - 1, j->ctx->rank);
    else
        snprintf(text, sizeof(text), "%.*s (rank %u)", (int)f->len - 12,
                 (const char *)f->payload + 12, j->ctx->rank);
    job_fail(j, wire_i32(f->payload), text);
}

static void taken(struct job *j, uint32_t node, uint64_t bytes)
{
    struct wrexec_notice n = {.id = j->id, .taken = bytes, .node = node};

    if (j->rj)
        root_job_taken(j, node, bytes);
    else
        job_send_notice(j, &n);
}

void job_frame(struct job *j, const struct wire_frame *f)
{
    if (j->local_done)
        return;
    switch (f->type) {
    case WIRE_OUTPUT:
        output(j, JOB_LOCAL, NULL, f->payload, f->len);
        break;
    case WIRE_STDIN_ACK:
        taken(j, j->node, wire_u32(f->payload));
        break;
    case WIRE_FAIL:
        frame_fail(j, f);
        break;
    case WIRE_PMI_FENCE:
        job_fence(j, wire_u32(f->payload), f->payload + 4, f->len - 4);
        break;
    case WIRE_PMI_NAME:
        job_name(j, f->payload, f->len);
        break;
    case WIRE_DONE:
        local_end(j, (const int32_t *)(const void *)f->payload, f->len / 4);
        break;
    default:
        break;
    }
}

/* --- what comes from a child --- */

static void child_lost(struct child *c, const char *why)
{
    struct job *j = c->job;
    char *ranks = idset_format(c->nodes, 0), text[512];

    snprintf(text, sizeof(text), "lost the tasks on rank%s %s: %s",
             idset_count(c->nodes) == 1 ? "" : "s", ranks ? ranks : "?", why);
    free(ranks);
    add_lost(j, c->nodes);
    c->done = true;
    job_fail(j, LOST_CODE, text);
    job_check(j);
}

static void child_result(struct child *c, const char *json, size_t len)
{
    struct wrexec_result res = {0};
    errmsg_t err;
    json_t *obj = flux_schema_decode(&wrexec_result_schema, json, len, &res, &err);

    if (!obj || result_merge(c->job->result, res.status, &err) < 0) {
        child_lost(c, err.text);
    } else {
        c->done = true;
        job_check(c->job);
    }
    json_decref(obj);
}

static void child_notice(struct child *c, const char *json, size_t len)
{
    struct job *j = c->job;
    struct wrexec_notice n = {0};
    json_t *obj = flux_schema_decode(&wrexec_notice_schema, json, len, &n, NULL);

    if (!obj)
        return;
    if (n.text)
        job_fail(j, n.code, n.text);
    else if (n.taken)
        taken(j, n.node, n.taken);
    json_decref(obj);
}

static void child_cb(flux_future_t *f, void *arg)
{
    struct child *c = arg;
    const flux_msg_t *msg = flux_rpc_get_msg(f);
    const void *data;
    size_t len;

    if (flux_future_errnum(f) || !msg) {
        child_lost(c, flux_future_error(f));
        return;
    }
    data = flux_msg_payload(msg, &len);
    if (flux_msg_has_flag(msg, FLUX_MSGF_RAW)) {
        output(c->job, (uint32_t)(c - c->job->children), msg, data, len);
        flux_future_next(f);
    } else if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
        child_notice(c, data, len);
        flux_future_next(f);
    } else {
        child_result(c, data, len);
    }
}

/* --- start --- */

/* Which of the job's ranks are below which child of this one. */
static int find_children(struct job *j)
{
    struct ctx *ctx = j->ctx;
    uint32_t n = topology_nchildren(ctx->topo, ctx->rank);

    if (n == 0 || !(j->children = calloc(n, sizeof(*j->children))))
        return n ? -1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        struct child *c = &j->children[j->nchildren];
        uint32_t rank = topology_child_at(ctx->topo, ctx->rank, i);
        idset_t *below = topology_subtree(ctx->topo, rank);

        if (!below)
            return -1;
        if (idset_intersects(below, j->ranks)) {
            c->job = j;
            c->rank = rank;
            c->nodes = idset_intersect(below, j->ranks);
            if (!c->nodes) {
                idset_destroy(below);
                return -1;
            }
            j->nchildren++;
        }
        idset_destroy(below);
    }
    return 0;
}

struct job *job_create(struct ctx *ctx, const struct wrexec_start *spec, errmsg_t *err)
{
    struct job *j = calloc(1, sizeof(*j));
    uint32_t node = 0;

    if (!j)
        goto nomem;
    j->ctx = ctx;
    j->id = spec->id;
    j->spec = *spec;
    j->spec.ranks = NULL;
    j->credit = spec->window;
    j->node = JOB_LOCAL;
    list_init(&j->pieces);
    list_init(&j->fences);
    list_init(&j->over);
    if (!(j->ranks = idset_parse(spec->ranks, err)))
        goto fail;
    j->nnodes = (uint32_t)idset_count(j->ranks);
    if (j->nnodes == 0 || spec->ntasks < j->nnodes || idset_last(j->ranks) >= ctx->size ||
        (spec->flags & ~WIRE_FLAGS_ALL)) {
        errmsg_fail(err, EPROTO, "%u tasks on ranks '%s' make no sense", spec->ntasks, spec->ranks);
        goto fail;
    }
    if (hmap_get_u64(ctx->jobs, j->id)) {
        errmsg_fail(err, EEXIST, "job %" PRIu64 " runs on rank %u already", j->id, ctx->rank);
        goto fail;
    }
    if (idset_test(j->ranks, ctx->rank)) {
        for (uint32_t r = idset_first(j->ranks); r < ctx->rank; r = idset_next(j->ranks, r))
            node++;
        j->node = node;
    }
    j->local_done = (j->node == JOB_LOCAL);
    j->result = result_create();
    if (!j->result || find_children(j) < 0 || hmap_put_u64(ctx->jobs, j->id, j) < 0)
        goto nomem;
    ctx->njobs++;
    return j;
nomem:
    errmsg_fail(err, ENOMEM, "rank %u has no memory for a job", ctx->rank);
fail:
    job_free(j);
    return NULL;
}

void job_free(struct job *j)
{
    int errnum = errno;
    struct list_node *n;

    if (!j)
        return;
    if (j->ctx && hmap_get_u64(j->ctx->jobs, j->id) == j) {
        hmap_take_u64(j->ctx->jobs, j->id);
        names_job_over(j->ctx->names, j->id);
    }
    list_remove(&j->over);
    while ((n = list_first(&j->pieces)))
        piece_free(list_entry(n, struct piece, node));
    job_fences_free(j);
    for (uint32_t i = 0; i < j->nchildren; i++) {
        flux_future_destroy(j->children[i].f);
        idset_destroy(j->children[i].nodes);
    }
    rootjob_free(j->rj);
    free(j->children);
    idset_destroy(j->ranks);
    result_destroy(j->result);
    flux_msg_destroy(j->req);
    free(j);
    errno = errnum;
}

static void launch_local(struct job *j, const struct jobreq *strings)
{
    struct wire_run run = {.flags = j->spec.flags,
                           .nnodes = j->nnodes,
                           .node = j->node,
                           .ntasks = j->spec.ntasks,
                           .window = WIRE_WINDOW,
                           .argc = strings->argc,
                           .envc = strings->envc,
                           .strings = strings->strings,
                           .strings_len = strings->strings_len};
    int32_t status = 126 << 8;
    errmsg_t err;

    if (layout_count(run.ntasks, run.nnodes, run.node) > WIRE_TASKS_MAX)
        errmsg_set(&err, "%u tasks on one node are too many: at most %u",
                   layout_count(run.ntasks, run.nnodes, run.node), WIRE_TASKS_MAX);
    else if (exec_run(j->ctx->exec, j->id, &run, &err) == 0)
        return;
    job_fail(j, 126, err.text);
    local_end(j, &status, 1);
}

void job_launch(struct job *j, const struct jobreq *strings, const void *payload, size_t len)
{
    /* Those below first: they have the longer way. */
    for (uint32_t i = 0; i < j->nchildren; i++) {
        struct child *c = &j->children[i];

        c->f = flux_rpc_raw(j->ctx->h, "wrexec.start", payload, len, c->rank, FLUX_MSGF_STREAMING);
        if (!c->f || flux_future_then(c->f, -1., child_cb, c) < 0)
            child_lost(c, "out of memory");
    }
    if (j->node != JOB_LOCAL)
        launch_local(j, strings);
}

/* --- signals --- */

void job_signal(struct job *j, int signum)
{
    struct wrexec_signal s = {j->id, signum};
    int32_t num = signum;

    for (uint32_t i = 0; i < j->nchildren; i++)
        if (!j->children[i].done)
            flux_future_destroy(flux_rpc_struct(j->ctx->h, "wrexec.ctl", &wrexec_signal_schema, &s,
                                                j->children[i].rank, FLUX_MSGF_NORESPONSE));
    if (j->local_done)
        return;
    if (signum == SIGKILL)
        exec_send(j->ctx->exec, WIRE_KILL, j->id, NULL, 0, NULL, 0);
    else
        exec_send(j->ctx->exec, WIRE_SIGNAL, j->id, &num, sizeof(num), NULL, 0);
}

void job_abandon(struct job *j)
{
    flux_msg_destroy(j->req);
    j->req = NULL;
    flush_pieces(j);
    job_signal(j, SIGKILL);
    job_check(j);
}

void job_stdin(struct job *j, const void *data, size_t len)
{
    uint32_t task = (j->spec.flags & WIRE_F_STDIN_ALL) ? WIRE_ALL : 0;

    if (j->node == JOB_LOCAL || (j->spec.flags & WIRE_F_STDIN_NONE))
        return;
    if (j->local_done) {
        if (len)
            taken(j, j->node, len);
        return;
    }
    exec_send(j->ctx->exec, WIRE_STDIN, j->id, &task, sizeof(task), data, len);
}
