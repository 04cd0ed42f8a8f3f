/* subjob.c - an instance's part of a job: start and result, along the tree.
 *
 * Purpose: a job arrives from the parent (at rank 0, from coord.c).  It goes to the launcher if
 * this rank has tasks, and to each child whose subtree has some.  The answers come back as frames,
 * in batches (edge.c):
 *
 *    NUMBERED        output, passed on unchanged as credit allows, failures, and messages for the
 *                    job's log, passed on at once (subjob_flow.c)
 *    TAKEN           standard input that a node has taken in all; passed on at once
 *    LOST            nodes that were lost with their tasks; passed on at once
 *    BEGUN           a task of the subtree has begun with MPI (subjob_pmi.c)
 *    STARTED         a node has started all its tasks of a spawned group; passed on at once
 *    RESULT          the ends of all tasks of the subtree; merged, the last frame on its edge
 *
 * Invariants:
 *  1. A job finishes here when the local tasks and all children are done and nothing waits to be
 *     sent.  Then the result goes up.  The job stays until rank 0 says that it is over, because the
 *     result may have to be repeated (subjob_heal.c).
 *  2. The tasks on the node of a dead broker are lost: they count as killed, and the job fails; if
 *     it survives the loss of nodes, they do not have a status.  Those below it get other ways
 *     (subjob_heal.c).  A child whose module has ended is done: the tasks there and below count as
 *     killed, and the job fails.
 *  3. When the parent gives the job up, or rank 0 does not know it, it is killed here and below,
 *     and its output is discarded.
 *  4. Only the reaper frees a job that is over, from the loop, so a caller never loses the job it
 *     works on.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "libutil/le.h"

#define WINDOW_ALL (8u << 20)
#define WINDOW_MIN 32768u

void subjob_send_up(struct subjob *j, enum wire_type type, const void *fixed, size_t fixedlen,
                    const void *data, size_t len)
{
    uint8_t round[WIRE_ROUND];
    struct iovec iov[3] = {{round, sizeof(round)}, {(void *)fixed, fixedlen}, {(void *)data, len}};

    le_put32(round, j->round);
    uplink_send(j->up, type, j->id, iov, 3);
}

void subjob_send_down(struct part *p, enum wire_type type, const void *fixed, size_t fixedlen,
                      const void *data, size_t len)
{
    struct iovec iov[2] = {{(void *)fixed, fixedlen}, {(void *)data, len}};

    if (!p->done)
        edge_send(p->edge, type, p->job->id, iov, 2);
}

/* --- frames to the parent --- */

void subjob_fail(struct subjob *j, int code, const char *text)
{
    uint8_t all[12 + 4096];
    size_t len = strlen(text);

    if (len > sizeof(all) - 12)
        len = sizeof(all) - 12;
    le_put32(all, (uint32_t)code);
    le_put32(all + 4, UINT32_MAX);
    le_put32(all + 8, 0);
    memcpy(all + 12, text, len);
    subjob_flow_tell(j, WIRE_FAIL, all, 12 + len);
}

/* --- the end of a job --- */

static void send_result(struct subjob *j)
{
    static const uint8_t nothing[WIRE_TIMES];
    size_t len;
    void *data = exec_result_pack(j->result, &len);

    if (!data)
        subjob_fail(j, 1, "out of memory for the results of tasks");
    subjob_send_up(j, WIRE_RESULT, NULL, 0, data ? data : nothing, data ? len : sizeof(nothing));
    free(data);
}

void subjob_check(struct subjob *j)
{
    if (j->finished || !j->local_done || j->nopen > 0 || subjob_flow_waits(j) ||
        (!j->rj && !j->up && !j->deaf))
        return;
    j->finished = true;
    if (j->rj) {
        subjob_over(j);
        coord_job_finished(j);
    } else if (j->up) {
        send_result(j);
    } else {
        subjob_end(j);
    }
}

void subjob_end(struct subjob *j)
{
    if (!list_empty(&j->over))
        return;
    j->finished = true;
    subjob_over(j);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

static void add_range(struct subjob *j, uint32_t node, int status, uint32_t lo, uint32_t hi)
{
    exec_result_add(j->result, status, lo, hi);
    if (node == j->node)
        ends_past(j, status, lo, hi);
}

/* Set the status of the tasks with numbers i to k - 1 of a node. */
static void add_status(struct subjob *j, uint32_t node, uint32_t i, uint32_t k, int status)
{
    const layout_t *l = j->spec->layout;
    uint32_t first = j->spec->w.first;

    if (exec_layout_kind(l) == LAYOUT_BLOCK) {
        add_range(j, node, status, first + exec_layout_task(l, node, i),
                  first + exec_layout_task(l, node, k - 1));
        return;
    }
    for (; i < k; i++) {
        uint32_t task = first + exec_layout_task(l, node, i);

        add_range(j, node, status, task, task);
    }
}

void subjob_count_killed(struct subjob *j, const idset_t *ranks)
{
    uint32_t node = 0;

    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r), node++)
        if (idset_test(ranks, r))
            add_status(j, node, 0, exec_layout_count(j->spec->layout, node), SIGKILL);
}

static void local_end(struct subjob *j, const int32_t *status, uint32_t n)
{
    /* Equal statuses are sent as one run. */
    for (uint32_t i = 0, k; i < j->count; i = k) {
        int st = exec_wire_i32(&status[i < n ? i : n - 1]);

        for (k = i + 1; k < j->count && exec_wire_i32(&status[k < n ? k : n - 1]) == st; k++)
            ;
        add_status(j, j->node, i, k, st);
    }
    j->local_done = true;
    subjob_pmi_free(j);
    subjob_pmi_check_begun(j);
    subjob_check(j);
}

static void frame_done(struct subjob *j, const struct wire_frame *f)
{
    struct wire_times times;
    errmsg_t err;

    if (exec_wire_times_get(f->payload, &times, &err) < 0)
        subjob_fail(j, 1, err.text);
    else
        exec_result_add_times(j->result, &times);
    local_end(j, (const int32_t *)(const void *)(f->payload + WIRE_TIMES),
              (f->len - WIRE_TIMES) / 4);
}

void subjob_launcher_lost(struct subjob *j, const char *why)
{
    int32_t killed = SIGKILL;
    char text[256];

    if (j->node == JOB_LOCAL || j->local_done)
        return;
    snprintf(text, sizeof(text),
             "the launcher of rank %u was lost (%s), and with it its tasks; look at flux dmesg",
             j->ctx->rank, why);
    subjob_fail(j, JOB_LOST_CODE, text);
    local_end(j, &killed, 1);
}

/* --- frames from the launcher --- */

static void frame_fail(struct subjob *j, const struct wire_frame *f)
{
    int32_t first = exec_wire_i32(f->payload + 4);
    uint32_t count = exec_wire_u32(f->payload + 8);
    char text[512];

    if (first >= 0 && count > 1 && exec_layout_kind(j->spec->layout) == LAYOUT_BLOCK)
        snprintf(text, sizeof(text), "%.*s (tasks %d-%u on rank %u)", (int)f->len - 12,
                 (const char *)f->payload + 12, first, (uint32_t)first + count - 1, j->ctx->rank);
    else
        snprintf(text, sizeof(text), "%.*s (rank %u)", (int)f->len - 12,
                 (const char *)f->payload + 12, j->ctx->rank);
    subjob_fail(j, exec_wire_i32(f->payload), text);
}

/* Note that all tasks of a node have started. */
static void started(struct subjob *j, uint32_t node)
{
    uint8_t fixed[4];

    if (j->rj) {
        coord_spawn_started(j, node);
        return;
    }
    le_put32(fixed, node);
    subjob_send_up(j, WIRE_STARTED, fixed, sizeof(fixed), NULL, 0);
}

static void bad_frame(struct subjob *j, const struct wire_frame *f, const char *who)
{
    char text[256];

    snprintf(text, sizeof(text), "%s sent a frame that is not valid (type %u, %u bytes)", who,
             f->said, f->len);
    subjob_fail(j, 1, text);
}

void subjob_frame(struct subjob *j, const struct wire_frame *f)
{
    int32_t killed = SIGKILL;

    if (j->local_done)
        return;
    switch (f->type) {
    case WIRE_BAD:
        bad_frame(j, f, "the launcher");
        if (f->said == WIRE_DONE) /* no further DONE will arrive */
            local_end(j, &killed, 1);
        break;
    case WIRE_OUTPUT:
        subjob_flow_output(j, f->payload, f->len);
        break;
    case WIRE_STDIN_ACK:
        j->taken += exec_wire_u32(f->payload);
        subjob_flow_taken(j, j->node, j->taken);
        break;
    case WIRE_FAIL:
        frame_fail(j, f);
        break;
    case WIRE_PMI_FENCE:
        subjob_pmi_fence(j, exec_wire_u32(f->payload), f->payload + 4, f->len - 4);
        break;
    case WIRE_PMI_NAME:
        subjob_pmi_name(j, f->payload, f->len);
        break;
    case WIRE_SPAWN:
        subjob_pmi_spawn(j, f->payload, f->len);
        break;
    case WIRE_STARTED:
        j->started = true;
        started(j, j->node);
        break;
    case WIRE_NOTE:
    case WIRE_WARNING:
        subjob_flow_tell(j, f->type, f->payload, f->len);
        break;
    case WIRE_BEGUN:
        subjob_pmi_begun(j, NULL);
        break;
    case WIRE_END:
        ends_frame(j, f);
        break;
    case WIRE_DONE:
        frame_done(j, f);
        break;
    default:
        break;
    }
}

/* --- frames from children --- */

void subjob_part_done(struct part *p)
{
    p->job->nopen -= !p->done;
    p->done = true;
}

void subjob_part_undone(struct part *p)
{
    p->job->nopen += p->done;
    p->done = false;
    p->job->finished = false;
}

void subjob_nodes_lost(struct subjob *j, const idset_t *nodes, const char *why)
{
    idset_t *fresh = idset_difference(nodes, j->lost);
    char *ranks = fresh ? idset_format(fresh, 0) : NULL;

    if (!ranks || (!j->lost && !(j->lost = idset_create())) || idset_add(j->lost, nodes) < 0) {
        subjob_fail(j, JOB_LOST_CODE, "out of memory for the loss of nodes");
    } else if (!idset_empty(fresh)) {
        if (!j->why)
            j->why = strdup(why);
        if (!j->spec->w.survive)
            subjob_count_killed(j, fresh);
        if (j->rj)
            coord_job_lost(j, fresh, why);
        else
            subjob_send_up(j, WIRE_LOST, ranks, strlen(ranks) + 1, why, strlen(why));
    }
    free(ranks);
    idset_destroy(fresh);
}

/* None of its tasks was started; a failure has told why. */
static void part_refused(struct part *p)
{
    subjob_count_killed(p->job, p->ranks);
    subjob_part_done(p);
    subjob_pmi_check_begun(p->job);
    subjob_check(p->job);
}

static void part_result(struct part *p, const void *data, size_t len)
{
    errmsg_t err;

    if (exec_result_unpack(p->job->result, data, len, &err) < 0) {
        subjob_part_lost(p, err.text);
        return;
    }
    subjob_part_done(p);
    subjob_pmi_check_begun(p->job);
    subjob_check(p->job);
}

void subjob_told(struct subjob *j, const struct wire_frame *f)
{
    char text[4096 + 1];

    if (f->type != WIRE_FAIL) {
        coord_job_note(j, f->type == WIRE_WARNING, f->payload, f->len);
        return;
    }
    memcpy(text, f->payload + 12, f->len - 12);
    text[f->len - 12] = '\0';
    coord_job_failed(j, (int)le_get32(f->payload), text);
}

static void part_nodes_lost(struct part *p, const struct wire_frame *f)
{
    const char *ranks = (const char *)f->payload + WIRE_ROUND;
    const char *tail = (const char *)f->payload + f->len, *end;
    struct subjob *j = p->job;
    idset_t *nodes;
    char why[512];

    end = memchr(ranks, '\0', (size_t)(tail - ranks));
    if (!end || !(nodes = idset_parse(ranks, NULL))) {
        bad_frame(j, f, "another rank");
        return;
    }
    if (j->rj) {
        snprintf(why, sizeof(why), "%.*s", (int)(tail - end - 1), end + 1);
        subjob_nodes_lost(j, nodes, why);
    } else {
        subjob_send_up(j, WIRE_LOST, ranks, (size_t)(tail - ranks), NULL, 0);
    }
    idset_destroy(nodes);
}

/* Handle a frame that begins with the present round of its part. */
static void part_frame(struct part *p, const struct wire_frame *f)
{
    struct subjob *j = p->job;
    const uint8_t *data = f->payload + WIRE_ROUND;

    switch (f->type) {
    case WIRE_TAKEN:
        subjob_flow_taken(j, le_get32(data), le_get64(data + 4));
        break;
    case WIRE_LOST:
        part_nodes_lost(p, f);
        break;
    case WIRE_BEGUN:
        subjob_pmi_begun(j, p);
        break;
    case WIRE_STARTED:
        if (f->len == WIRE_ROUND + 4)
            started(j, le_get32(data));
        break;
    case WIRE_RESULT:
        if (f->len == WIRE_ROUND)
            part_refused(p);
        else
            part_result(p, data, f->len - WIRE_ROUND);
        break;
    default:
        break;
    }
}

void subjob_child_frame(struct subjob *j, struct edge *e, const struct wire_frame *f)
{
    struct part *p = subjob_part_at(j, e);
    struct wire_numbered n;

    if (!p || p->done)
        return;
    if (f->type == WIRE_BAD) {
        bad_frame(j, f, "another rank");
        if (f->said == WIRE_RESULT)
            subjob_part_lost(p, "its result cannot be read");
    } else if (f->type == WIRE_NUMBERED && exec_wire_numbered_get(f, &n) < 0) {
        bad_frame(j, f, "another rank");
    } else if (f->len >= WIRE_ROUND && le_get32(f->payload) == p->round) {
        if (f->type == WIRE_NUMBERED)
            subjob_flow_numbered(j, p, &n);
        else
            part_frame(p, f);
    }
}

/* --- frames from the parent --- */

void subjob_parent_frame(struct subjob *j, const struct wire_frame *f)
{
    switch (f->type) {
    case WIRE_NTH_SIGNAL:
        subjob_flow_signal(j, le_get32(f->payload), (int)le_get32(f->payload + 4));
        break;
    case WIRE_KILL:
        subjob_signal(j, SIGKILL);
        break;
    case WIRE_INPUT:
        subjob_flow_input(j, le_get64(f->payload), le_get64(f->payload + 8), f->payload + 16,
                          f->len - 16);
        break;
    case WIRE_CREDIT:
        j->credit += le_get32(f->payload);
        subjob_flow_flush(j);
        break;
    case WIRE_ACK:
        subjob_flow_ack(j, f);
        break;
    case WIRE_AGAIN:
        subjob_again(j, le_get32(f->payload), le_get32(f->payload + 4));
        break;
    case WIRE_OVER:
        subjob_end(j);
        break;
    default:
        break;
    }
}

/* --- start --- */

static uint32_t window(const struct ctx *ctx)
{
    uint32_t n = edges_count(ctx->edges), window = WIRE_WINDOW;

    /* The windows of many children are smaller, so the output that waits here stays bounded. */
    while ((uint64_t)window * n > WINDOW_ALL && window > WINDOW_MIN)
        window /= 2;
    return window;
}

struct subjob *subjob_create(struct ctx *ctx, struct spec *spec, errmsg_t *err)
{
    struct subjob *j = calloc(1, sizeof(*j)), *past;

    if (!j) {
        exec_spec_destroy(spec);
        goto nomem;
    }
    j->ctx = ctx;
    j->id = spec->id;
    j->spec = spec;
    j->ranks = spec->ranks;
    j->nnodes = exec_layout_nnodes(spec->layout);
    j->node = JOB_LOCAL;
    j->window = window(ctx);
    list_init(&j->pieces);
    list_init(&j->fences);
    list_init(&j->former);
    list_init(&j->asked);
    list_init(&j->over);
    if ((past = hmap_get_u64(ctx->jobs, j->id)) && past->finished && !past->rj)
        subjob_free(past); /* an earlier attempt, which is over if there is another */
    if (hmap_get_u64(ctx->jobs, j->id)) {
        errmsg_fail(err, EEXIST, "job %" PRIu64 " runs on rank %u already", j->id, ctx->rank);
        goto fail;
    }
    j->local_done = true;
    j->result = exec_result_create();
    if (!j->result || hmap_put_u64(ctx->jobs, j->id, j) < 0)
        goto nomem;
    ctx->njobs++;
    return j;
nomem:
    errmsg_fail(err, ENOMEM, "rank %u has no memory for a job", ctx->rank);
fail:
    subjob_free(j);
    return NULL;
}

static void part_free(struct part *p)
{
    list_remove(&p->node);
    idset_destroy(p->ranks);
    free(p);
}

void subjob_free(struct subjob *j)
{
    int errnum = errno;

    if (!j)
        return;
    if (hmap_get_u64(j->ctx->jobs, j->id) == j) {
        hmap_take_u64(j->ctx->jobs, j->id);
        names_job_over(j->ctx->names, j->id);
    }
    list_remove(&j->over);
    ends_job_free(j);
    subjob_flow_free(j);
    subjob_pmi_free(j);
    for (uint32_t i = 0; i < j->nparts; i++)
        part_free(j->parts[i]);
    LIST_FOREACH_SAFE(it, tmp, &j->former)
    part_free(list_entry(it, struct part, node));
    coord_job_free(j->rj);
    subjob_kept_free(j);
    idset_destroy(j->dead);
    idset_destroy(j->lost);
    free(j->why);
    free(j->parts);
    exec_spec_destroy(j->spec);
    exec_result_destroy(j->result);
    free(j);
    errno = errnum;
}

static void launch_local(struct subjob *j, const struct launchrec *rec)
{
    const struct spec *s = j->spec;
    struct wire_run run = {.flags = s->flags,
                           .window = WIRE_WINDOW,
                           .nlimits = s->nlimits,
                           .limits = s->limits,
                           .nruns = (uint32_t)exec_layout_nruns(s->layout),
                           .runs = exec_layout_runs(s->layout),
                           .ncommands = s->ncommands,
                           .commands = s->commands,
                           .first = s->w.first,
                           .universe = s->universe,
                           .parent = s->w.parent,
                           .nnodes = j->nnodes,
                           .ntasks = exec_layout_ntasks(s->layout)};
    const char *strings[WIRE_NODE_STRINGS];
    int32_t status = 126 << 8, killed = SIGKILL;
    struct exec_spec_node n;
    errmsg_t err;

    exec_spec_node(s, j->ctx->rank, &n);
    j->node = n.node;
    j->count = n.count;
    j->local_done = false;
    if (j->killed) {
        /* The children could not be reached, and the job was killed. */
        local_end(j, &killed, 1);
        return;
    }
    run.node = n.node;
    run.memory = n.memory;
    run.expiration = (uint64_t)(s->w.expiration * 1e6);
    run.nonce = j->nonce;
    run.mask = (uint64_t)s->w.mask;
    run.grace = (uint64_t)(s->w.grace * 1e6);
    strings[WIRE_N_NAME] = s->w.name ? s->w.name : "";
    strings[WIRE_N_NODE] = n.name;
    strings[WIRE_N_CORES] = n.cores;
    strings[WIRE_N_GPUS] = n.gpus;
    strings[WIRE_N_HOSTS] = s->w.hosts ? s->w.hosts : s->w.names ? s->w.names : "";
    if (launchlink_run(j->ctx->exec, j->id, &run, strings, rec, &err) == 0)
        return;
    subjob_fail(j, 126, err.text);
    local_end(j, &status, 1);
}

void subjob_launch(struct subjob *j, const idset_t *ranks, const struct launchrec *rec)
{
    bool here = idset_test(ranks, j->ctx->rank);
    bool losses = j->rj && !idset_empty(session_lost(j->ctx->session));
    idset_t *dead = losses ? subjob_find_dead(j) : NULL;
    idset_t *alive = losses ? idset_difference(ranks, dead) : NULL;
    char text[80];

    j->nopen++; /* the job is not finished before its lost nodes are counted */
    if ((losses && !alive) || subjob_assign(j, losses ? alive : ranks) < 0) {
        snprintf(text, sizeof(text), "rank %u has no memory for a job", j->ctx->rank);
        subjob_fail(j, 126, text);
    }
    if (j->nparts > 0)
        subjob_keep(j, rec);
    /* The children come first, because the way to their tasks is longer. */
    for (uint32_t i = 0; i < j->nparts;) {
        struct part *p = j->parts[i];

        subjob_part_launch(p, rec);
        i += i < j->nparts && j->parts[i] == p; /* it may have been lost */
    }
    if (here)
        launch_local(j, rec);
    j->nopen--;
    if (dead && !idset_empty(dead)) {
        subjob_nodes_lost(j, dead, "its broker was lost before the launch");
        subjob_pmi_check_begun(j);
    }
    idset_destroy(dead);
    idset_destroy(alive);
}

void subjob_abandon(struct subjob *j)
{
    if (j->finished) {
        subjob_end(j);
        return;
    }
    j->deaf = true;
    subjob_flow_flush(j);
    if (!j->finished)
        subjob_signal(j, SIGKILL);
}
