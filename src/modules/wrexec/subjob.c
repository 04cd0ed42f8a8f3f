/* subjob.c - an instance's part of a job: start, signals and result, along the tree.
 *
 * Purpose: a job arrives from the parent (at rank 0, from coord.c).  It goes to the launcher if
 * this rank has tasks, and unchanged to each child whose subtree has some.  The answers come back
 * as frames, in batches (edge.c):
 *
 *    OUTPUT          output; passed on unchanged, as credit allows (subjob_flow.c)
 *    TAKEN           standard input that a node has taken; passed on at once
 *    FAIL            a failure; passed on at once
 *    LOST            nodes that were lost with their tasks; passed on at once
 *    NOTE, WARNING   a message for the job's log; passed on at once
 *    BEGUN           a task of the subtree has begun with MPI (subjob_pmi.c); sent once
 *    STARTED         a node has started all its tasks of a spawned group; passed on at once
 *    RESULT          the ends of all tasks of the subtree; merged, the last frame on its edge
 *
 * Invariants:
 *  1. A job finishes here once: when the local tasks and all children are done and no piece of
 *     output waits.  Then the result goes up, and the reaper frees the job.
 *  2. A child that cannot be reached or is lost is done: its tasks count as killed, and the job
 *     fails.  If the job survives the loss of nodes, these tasks do not have a status, and the job
 *     continues.  The edge lists the jobs that this concerns.
 *  3. When the parent is lost, the job is killed here and below, and its output is discarded.
 *  4. Only the reaper frees a finished job, from the loop, so a caller never loses the job it works
 *     on.
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
    struct iovec iov[2] = {{(void *)fixed, fixedlen}, {(void *)data, len}};

    edges_send_up(j->ctx->edges, type, j->id, iov, 2);
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
    uint8_t fixed[12];
    size_t len = strlen(text);

    if (j->rj) {
        coord_job_failed(j, code, text);
        return;
    }
    le_put32(fixed, (uint32_t)code);
    le_put32(fixed + 4, UINT32_MAX);
    le_put32(fixed + 8, 0);
    subjob_send_up(j, WIRE_FAIL, fixed, sizeof(fixed), text, len < 4096 ? len : 4096);
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
    if (j->finished || !j->local_done || j->nopen > 0 || !list_empty(&j->pieces))
        return;
    j->finished = true;
    if (j->rj) {
        coord_job_finished(j);
        return;
    }
    send_result(j);
    list_append(&j->ctx->over, &j->over);
    flux_watcher_start(j->ctx->reaper);
}

/* Set the status of the tasks with numbers i to k - 1 of a node. */
static void add_status(struct subjob *j, uint32_t node, uint32_t i, uint32_t k, int status)
{
    const layout_t *l = j->spec->layout;
    uint32_t first = j->spec->w.first;

    if (exec_layout_kind(l) == LAYOUT_BLOCK) {
        exec_result_add(j->result, status, first + exec_layout_task(l, node, i),
                        first + exec_layout_task(l, node, k - 1));
        return;
    }
    for (; i < k; i++) {
        uint32_t task = first + exec_layout_task(l, node, i);

        exec_result_add(j->result, status, task, task);
    }
}

/* Count the tasks of these ranks as killed. */
static void add_lost(struct subjob *j, const idset_t *ranks)
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

static void note(struct subjob *j, const struct wire_frame *f)
{
    if (j->rj)
        coord_job_note(j, f->type == WIRE_WARNING, f->payload, f->len);
    else
        subjob_send_up(j, f->type, NULL, 0, f->payload, f->len);
}

/* Note that all tasks of this number of nodes have started. */
static void started(struct subjob *j, uint32_t nodes)
{
    uint8_t fixed[4];

    if (j->rj) {
        coord_spawn_started(j, nodes);
        return;
    }
    le_put32(fixed, nodes);
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
        subjob_flow_output(j, JOB_LOCAL, f->payload, f->len);
        break;
    case WIRE_STDIN_ACK:
        subjob_flow_taken(j, j->node, exec_wire_u32(f->payload));
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
        started(j, 1);
        break;
    case WIRE_NOTE:
    case WIRE_WARNING:
        note(j, f);
        break;
    case WIRE_BEGUN:
        subjob_pmi_begun(j, NULL);
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
    list_remove(&p->node);
    p->done = true;
    p->job->nopen--;
}

/* Handle the loss of nodes of the job. */
static void nodes_lost(struct subjob *j, const char *ranks, const char *why)
{
    if (j->rj)
        coord_job_lost(j, ranks, why);
    else
        subjob_send_up(j, WIRE_LOST, ranks, strlen(ranks) + 1, why, strlen(why));
}

void subjob_part_lost(struct part *p, int errnum, const char *why)
{
    struct subjob *j = p->job;
    idset_t *nodes = idset_intersect(p->edge->below, j->ranks);
    char *ranks = nodes ? idset_format(nodes, 0) : NULL, text[512];

    subjob_part_done(p);
    if (nodes && !(errnum == EHOSTUNREACH && j->spec->w.survive))
        add_lost(j, nodes);
    snprintf(text, sizeof(text), "lost the tasks on rank%s %s: %s",
             idset_count(nodes) == 1 ? "" : "s", ranks ? ranks : "?", why);
    if (errnum == EHOSTUNREACH && ranks)
        nodes_lost(j, ranks, why);
    else
        subjob_fail(j, JOB_LOST_CODE, text);
    free(ranks);
    idset_destroy(nodes);
    subjob_check(j);
}

static void part_result(struct part *p, const void *data, size_t len)
{
    errmsg_t err;

    if (exec_result_unpack(p->job->result, data, len, &err) < 0) {
        subjob_part_lost(p, EPROTO, err.text);
        return;
    }
    subjob_part_done(p);
    subjob_pmi_check_begun(p->job);
    subjob_check(p->job);
}

static void part_fail(struct part *p, const struct wire_frame *f)
{
    char text[4096 + 1];

    memcpy(text, f->payload + 12, f->len - 12);
    text[f->len - 12] = '\0';
    subjob_fail(p->job, (int)le_get32(f->payload), text);
}

static void part_lost(struct part *p, const struct wire_frame *f)
{
    const char *ranks = (const char *)f->payload, *end = memchr(ranks, '\0', f->len);
    char why[512];

    if (!end) {
        bad_frame(p->job, f, "another rank");
        return;
    }
    snprintf(why, sizeof(why), "%.*s", (int)(f->len - (size_t)(end - ranks) - 1), end + 1);
    nodes_lost(p->job, ranks, why);
}

/* Compare two parts.  Parts are sorted by the ranks of their edges, so their order is the same
 * after a reload. */
static int by_edge(const void *a, const void *b)
{
    const struct part *x = a, *y = b;

    return x->edge->rank < y->edge->rank ? -1 : x->edge->rank > y->edge->rank;
}

void subjob_child_frame(struct subjob *j, struct edge *e, const struct wire_frame *f)
{
    const struct part key = {.edge = e};
    struct part *p = j->nparts ? bsearch(&key, j->parts, j->nparts, sizeof(key), by_edge) : NULL;

    if (!p || p->done)
        return;
    switch (f->type) {
    case WIRE_BAD:
        bad_frame(j, f, "another rank");
        if (f->said == WIRE_RESULT)
            subjob_part_lost(p, EPROTO, "its result cannot be read");
        break;
    case WIRE_OUTPUT:
        subjob_flow_output(j, (uint32_t)(p - j->parts), f->payload, f->len);
        break;
    case WIRE_TAKEN:
        subjob_flow_taken(j, le_get32(f->payload), le_get32(f->payload + 4));
        break;
    case WIRE_FAIL:
        part_fail(p, f);
        break;
    case WIRE_LOST:
        part_lost(p, f);
        break;
    case WIRE_NOTE:
    case WIRE_WARNING:
        note(j, f);
        break;
    case WIRE_BEGUN:
        subjob_pmi_begun(j, p);
        break;
    case WIRE_STARTED:
        started(j, f->len == 4 ? le_get32(f->payload) : 0);
        break;
    case WIRE_RESULT:
        part_result(p, f->payload, f->len);
        break;
    default:
        break;
    }
}

/* --- frames from the parent --- */

void subjob_parent_frame(struct subjob *j, const struct wire_frame *f)
{
    switch (f->type) {
    case WIRE_SIGNAL:
        subjob_signal(j, (int)le_get32(f->payload));
        break;
    case WIRE_KILL:
        subjob_signal(j, SIGKILL);
        break;
    case WIRE_STDIN:
        subjob_flow_stdin(j, f->payload + 4, f->len - 4);
        break;
    case WIRE_CREDIT:
        j->credit += le_get32(f->payload);
        subjob_flow_flush(j);
        break;
    default:
        break;
    }
}

/* --- start --- */

/* Find the children that have nodes of the job in their subtrees. */
static int find_parts(struct subjob *j)
{
    edges_t *es = j->ctx->edges;
    idset_t *rest = NULL;
    uint32_t n, most;
    int rc = -1;

    if (j->ctx->ready) /* otherwise it is one of several jobs that are loaded */
        edges_renew(es);
    n = edges_count(es);
    most = j->nnodes < n ? j->nnodes : n;
    if (most == 0 || (j->nnodes == 1 && j->node != JOB_LOCAL))
        return 0;
    if (!(j->parts = calloc(most, sizeof(*j->parts))))
        return -1;
    for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE && j->nparts < most;) {
        struct edge *e = edges_find(es, r);
        struct part *p;

        if (!e) {
            r = idset_next(rest ? rest : j->ranks, r);
            continue;
        }
        p = &j->parts[j->nparts++];
        p->job = j;
        p->edge = e;
        list_init(&p->node);
        if (j->nnodes == 1)
            break;
        if ((!rest && !(rest = idset_copy(j->ranks))) || idset_subtract(rest, e->below) < 0)
            goto out;
        r = idset_next(rest, r);
    }
    qsort(j->parts, j->nparts, sizeof(*j->parts), by_edge);
    for (uint32_t i = 0; i < j->nparts; i++)
        list_append(&j->parts[i].edge->parts, &j->parts[i].node);
    j->nopen = j->nparts;
    rc = 0;
out:
    idset_destroy(rest);
    return rc;
}

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
    struct subjob *j = calloc(1, sizeof(*j));

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
    list_init(&j->over);
    if (hmap_get_u64(ctx->jobs, j->id)) {
        errmsg_fail(err, EEXIST, "job %" PRIu64 " runs on rank %u already", j->id, ctx->rank);
        goto fail;
    }
    if (idset_test(j->ranks, ctx->rank))
        j->node = 0; /* subjob_launch() sets the real number */
    j->local_done = (j->node == JOB_LOCAL);
    j->result = exec_result_create();
    if (!j->result || find_parts(j) < 0 || hmap_put_u64(ctx->jobs, j->id, j) < 0)
        goto nomem;
    ctx->njobs++;
    return j;
nomem:
    errmsg_fail(err, ENOMEM, "rank %u has no memory for a job", ctx->rank);
fail:
    subjob_free(j);
    return NULL;
}

void subjob_free(struct subjob *j)
{
    int errnum = errno;
    struct list_node *n;

    if (!j)
        return;
    if (hmap_get_u64(j->ctx->jobs, j->id) == j) {
        hmap_take_u64(j->ctx->jobs, j->id);
        names_job_over(j->ctx->names, j->id);
    }
    list_remove(&j->over);
    while ((n = list_first(&j->pieces)))
        subjob_flow_piece_free(list_entry(n, struct piece, node));
    subjob_pmi_free(j);
    for (uint32_t i = 0; i < j->nparts; i++)
        if (!j->parts[i].done)
            list_remove(&j->parts[i].node);
    coord_job_free(j->rj);
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

void subjob_launch(struct subjob *j, const struct launchrec *rec)
{
    uint8_t head[WIRE_LAUNCH_HEAD + LAUNCHREC_HEAD];
    struct iovec iov[4] = {{head, sizeof(head)},
                           {(void *)rec->json, rec->json_len},
                           {(void *)rec->strings, rec->strings_len},
                           {(void *)rec->env, rec->env_len}};

    le_put32(head, j->window);
    le_put64(head + 4, j->nonce);
    exec_launchrec_head(head + WIRE_LAUNCH_HEAD, rec);
    /* The children come first, because the way to their tasks is longer. */
    for (uint32_t i = 0; i < j->nparts; i++)
        edge_send(j->parts[i].edge, WIRE_LAUNCH, j->id, iov, 4);
    if (j->node != JOB_LOCAL)
        launch_local(j, rec);
}

/* --- signals --- */

void subjob_signal(struct subjob *j, int signum)
{
    int32_t num = signum;
    uint8_t buf[4];

    le_put32(buf, (uint32_t)signum);
    for (uint32_t i = 0; i < j->nparts; i++)
        if (signum == SIGKILL)
            subjob_send_down(&j->parts[i], WIRE_KILL, NULL, 0, NULL, 0);
        else
            subjob_send_down(&j->parts[i], WIRE_SIGNAL, buf, sizeof(buf), NULL, 0);
    if (j->local_done)
        return;
    if (signum == SIGKILL)
        launchlink_send(j->ctx->exec, WIRE_KILL, j->id, NULL, 0, NULL, 0);
    else
        launchlink_send(j->ctx->exec, WIRE_SIGNAL, j->id, &num, sizeof(num), NULL, 0);
}

void subjob_abandon(struct subjob *j)
{
    j->deaf = true;
    subjob_flow_flush(j);
    if (!j->finished)
        subjob_signal(j, SIGKILL);
}
