/* wrexec.c - the module that runs the tasks of jobs, and the programs of flux exec.
 *
 * Purpose: every rank has an instance.  The instance at rank 0 is the coordinator: the job module
 * names the jobs to start, with their ids and the nodes that the scheduler chose, and the jobs to
 * signal.  A launch travels down the tree to all ranks of the job; output, failures and exit
 * statuses travel up.  On each node one process, flux-launcher, is the parent of all tasks.
 *
 *    wrexec.c       the request handlers, and the start and end of the module
 *    subjob.c       the part of a job in the subtree of one rank; subjob_flow.c moves its output,
 *                   standard input and signals, subjob_pmi.c joins the PMI barriers of its nodes,
 *                   subjob_heal.c finds other ways to its nodes when a broker dies
 *    edge.c         the connections to the children; uplink.c: those to the parents
 *    retain.c       frames that are kept until rank 0 has them
 *    ends.c         how tasks here ended, for whoever asks
 *    launchlink.c   the connection to flux-launcher (src/launcher)
 *    coord*.c       rank 0 only: coord.c serves the job module, coord_job.c decides how a job
 *                   ends, coord_hosts.c finds out which brokers share a host, coord_client.c serves
 *                   clients, coord_listener.c the stream of one, coord_exec.c runs the programs of
 *                   flux exec, coord_output.c writes job.ID.output, coord_spawn.c adds tasks to a
 *                   job
 *    names.c        rank 0 only: the names that jobs publish for each other
 *    settings.c     the attributes wrexec.*
 *    handover.c     the state that a reload passes to the next instance
 *
 * Format: requests and responses are in libexec/wrexec_wire.h and wrexec_names.h; frames between
 * ranks, and between a rank and its launcher, are in libexec/exec_wire.h.
 *
 * Ids: the job module assigns the ids of jobs and keeps their records in the key-value store.  This
 * module assigns numbers only to programs of flux exec (JOB_EXEC_BIT) and groups of spawned tasks
 * (JOB_SPAWN_BIT), which are not jobs.  In the store it writes the output of jobs, the names that
 * they publish, and the namespaces that carry their PMI pairs.
 *
 * Invariants:
 *  1. A handler never waits.  The module continues when the socket of the launcher is readable or a
 *     message arrives.  A launcher is started by a thread, and the module ends once its launcher
 *     has ended (launchlink.c).
 *  2. A job outlives the client that follows it.  When the client disconnects or cancels its
 *     request, the output for this client alone is discarded; the job module decides whether the
 *     job ends.  Only the programs of flux exec end with their client.  A client whose way was lost
 *     resumes its stream.
 *  3. A rank that loses its parent in the tree keeps its part of every job until the instance above
 *     sends the launch again (subjob_heal.c), unless rank 0 does not know the job any longer.
 *  4. The launcher kills all tasks when its connection to the module closes.  The module therefore
 *     refuses to be unloaded while it has jobs, unless the user forces it; and likewise while it
 *     ends the processes that an earlier broker has left, or requests wait for their end.
 *  5. A reload that is not forced keeps all jobs, clients and requests (handover.c).  The launcher
 *     stays if there are jobs.  Without jobs it ends, and the next launcher reads the settings and
 *     plugins again.
 *
 * Failure: if a rank cannot start its tasks, or a launcher is lost, the job ends with an exit code
 * other than 0 and an error message that names the rank.  The loss of a rank that has tasks of the
 * job ends it likewise, by an exception of type "node-lost", unless the job is to survive it: then
 * the other ranks continue.  The loss of a rank between ends nothing.  Without memory for the
 * shape of the tree the instance logs an error and starts no job.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/cancel_wire.h"
#include "libservice/setup.h"
#include "libutil/hostmark.h"
#include "libutil/le.h"
#include "names.h"

/* --- processes of an earlier broker --- */

/* A request wrexec.remains that waits. */
struct ask {
    struct list_node node;
    flux_msg_t *req;
};

static void answer_remains(struct ctx *ctx, const flux_msg_t *req)
{
    if (ctx->remain > 0)
        flux_respond_error(ctx->h, req, EBUSY,
                           "%u processes of earlier jobs on rank %u cannot be ended", ctx->remain,
                           ctx->rank);
    else
        flux_respond(ctx->h, req, "{}");
}

/* Answer the requests that wait for the end of the processes of an earlier broker; `why`: reason of
 * a failure, or NULL. */
static void answer_asks(struct ctx *ctx, const char *why)
{
    struct list_node *n;

    while ((n = list_first(&ctx->asks))) {
        struct ask *a = list_entry(n, struct ask, node);

        list_remove(n);
        if (why)
            flux_respond_error(ctx->h, a->req, ECANCELED, "%s", why);
        else
            answer_remains(ctx, a->req);
        flux_msg_destroy(a->req);
        free(a);
    }
}

static void remains_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct ask *a;

    if (ctx->ready && !ctx->sweeping) {
        answer_remains(ctx, req);
    } else if ((a = calloc(1, sizeof(*a)))) {
        a->req = flux_msg_incref(req);
        list_append(&ctx->asks, &a->node);
    } else {
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory", ctx->rank);
    }
}

static void exec_swept(void *arg, uint32_t remain)
{
    struct ctx *ctx = arg;

    ctx->sweeping = false;
    ctx->remain = remain;
    if (remain > 0)
        flux_log(ctx->h, LOG_ERR, "%u processes of earlier jobs on rank %u cannot be ended", remain,
                 ctx->rank);
    answer_asks(ctx, NULL);
}

/* Returns an error if these processes are being ended, or requests wait for their end. */
static int check_swept(struct ctx *ctx, errmsg_t *err)
{
    if (!ctx->sweeping && list_empty(&ctx->asks))
        return 0;
    return errmsg_fail(err, EAGAIN,
                       "what an earlier broker of rank %u has left running is being ended: try "
                       "again later",
                       ctx->rank);
}

/* --- frames along the tree --- */

/* Report that the tasks of a job cannot be started in this subtree. */
static void refuse(uplink_t *u, uint64_t id, uint32_t round, const char *text)
{
    const struct wire_numbered n = {.round = round, .f = {.type = WIRE_FAIL}};
    uint8_t head[WIRE_NUMBERED_HEAD], fixed[12], result[WIRE_ROUND];
    struct iovec iov[3] = {
        {head, sizeof(head)}, {fixed, sizeof(fixed)}, {(void *)text, strlen(text)}};
    struct iovec none[1] = {{result, sizeof(result)}};

    exec_wire_numbered_put(head, &n);
    le_put32(fixed, 126);
    le_put32(fixed + 4, UINT32_MAX);
    le_put32(fixed + 8, 0);
    le_put32(result, round);
    uplink_send(u, WIRE_NUMBERED, id, iov, 3);
    uplink_send(u, WIRE_RESULT, id, none, 1);
}

/* Continue a job below this parent.  Its tasks may run, so it is not refused, but fails. */
static void launch_again(struct subjob *j, uplink_t *u, const struct wire_launch *l)
{
    struct launchrec rec;
    errmsg_t err;
    idset_t *ranks = idset_parse(l->ranks, &err);

    j->up = u;
    if (!ranks || exec_launchrec_get(l->job, l->job_len, &rec, &err) < 0)
        subjob_fail(j, JOB_LOST_CODE, err.text);
    else if (subjob_take_launch(j, ranks, &rec) < 0)
        subjob_fail(j, JOB_LOST_CODE, "out of memory for a launch");
    subjob_again(j, l->round, l->credit);
    idset_destroy(ranks);
}

/* Start a job. */
static int launch(struct ctx *ctx, uplink_t *u, const struct wire_frame *f,
                  const struct wire_launch *l, errmsg_t *err)
{
    struct subjob *j = NULL;
    idset_t *ranks = NULL;
    struct launchrec rec;
    struct spec *s;
    uint64_t id;

    if (exec_launchrec_get(l->job, l->job_len, &rec, err) < 0 ||
        !(ranks = idset_parse(l->ranks, err)))
        return -1;
    if ((s = exec_spec_create(rec.json, rec.json_len, ctx->size, &id, err)) && id != f->job) {
        errmsg_fail(err, EPROTO, "a job comes with two numbers");
        exec_spec_destroy(s);
    } else if (s && idset_subset(ranks, s->ranks)) {
        j = subjob_create(ctx, s, err);
    } else if (s) {
        errmsg_fail(err, EPROTO, "a job is to be launched on ranks that it does not have");
        exec_spec_destroy(s);
    }
    if (j) {
        j->up = u;
        j->round = l->round;
        j->credit = l->credit;
        j->nonce = l->nonce;
        subjob_launch(j, ranks, &rec);
        subjob_check(j);
    }
    idset_destroy(ranks);
    return j ? 0 : -1;
}

static void up_frame(void *arg, uplink_t *u, const struct wire_frame *f)
{
    struct ctx *ctx = arg;
    struct subjob *j = hmap_get_u64(ctx->jobs, f->job);
    struct wire_launch l;
    errmsg_t err;

    if (f->type == WIRE_LAUNCH) {
        if (exec_wire_launch_get(f, &l, &err) < 0)
            refuse(u, f->job, l.round, err.text);
        else if (j && j->nonce == l.nonce && !j->rj)
            launch_again(j, u, &l);
        else if (!j && subjob_is_unknown(ctx, f->job, l.nonce))
            ; /* the sender is about to learn, too, that it is over */
        else if (launch(ctx, u, f, &l, &err) < 0)
            refuse(u, f->job, l.round, err.text);
    } else if (j && j->up == u) {
        subjob_parent_frame(j, f);
    }
}

static void up_lost(void *arg, uplink_t *u, bool on_purpose)
{
    subjob_all_parent_lost(arg, u, on_purpose);
}

static void edge_frame(void *arg, struct edge *e, const struct wire_frame *f)
{
    struct ctx *ctx = arg;
    struct subjob *j = hmap_get_u64(ctx->jobs, f->job);

    if (j && !j->finished)
        subjob_child_frame(j, e, f);
}

static void edge_lost(void *arg, struct edge *e, int errnum, const char *why)
{
    subjob_all_edge_lost(arg, e, errnum, why);
}

static void edge_again(void *arg, struct edge *e)
{
    subjob_all_edge_again(e);
}

static const struct edge_callbacks edge_callbacks = {edge_frame, edge_lost, edge_again};
static const struct uplink_callbacks uplink_callbacks = {up_frame, up_lost};

static void tree_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    uplinks_tree(ctx->uplinks, req);
}

static void down_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    uplinks_down(ctx->uplinks, req);
}

static void known_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    subjob_all_known(arg, req);
}

static void orphans_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    subjob_all_orphans(arg);
}

/* Handle a client that has disconnected, or (matchtag not 0) has canceled one of its requests. */
static void gone(struct ctx *ctx, const flux_msg_t *msg, uint32_t matchtag)
{
    char sender[FLUX_SENDER_MAX];

    flux_msg_sender(msg, sender, sizeof(sender));
    if (ctx->coord)
        coord_disconnect(ctx->coord, msg, sender, matchtag);
    uplinks_gone(ctx->uplinks, sender, matchtag);
    ends_gone(ctx->ends, msg, matchtag);
}

static void disconnect_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    gone(arg, msg, 0);
}

static void cancel_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    uint32_t matchtag;

    if (cancel_decode(h, msg, &matchtag) < 0)
        return;
    gone(arg, msg, matchtag);
    flux_respond(h, msg, NULL);
}

static void name_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->names)
        names_request(ctx->names, req);
    else
        flux_respond_error(h, req, ENOSYS, "names are kept at rank 0");
}

static void end_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    ends_request(ctx->ends, req);
}

static bool job_runs(void *arg, uint64_t id)
{
    struct ctx *ctx = arg;

    return hmap_get_u64(ctx->jobs, id) != NULL;
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct wrexec_stats st = {ctx->njobs, subjob_all_running(ctx), launchlink_pid(ctx->exec),
                              launchlink_started(ctx->exec)};

    flux_respond_struct(h, req, &wrexec_stats_schema, &st);
}

static void host_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    char mark[HOSTSHARE_SIZE];
    struct wrexec_host host = {.mark = mark};

    hostshare_get(mark);
    flux_respond_struct(h, req, &wrexec_host_schema, &host);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "wrexec.jobs", coord_jobs, 0},
    {FLUX_MSG_REQUEST, "wrexec.launch", coord_launch, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.kill", coord_kill, 0},
    {FLUX_MSG_REQUEST, "wrexec.listen", coord_client_listen, 0},
    {FLUX_MSG_REQUEST, "wrexec.run", coord_exec_run, 0},
    {FLUX_MSG_REQUEST, "wrexec.signal", coord_exec_signal, 0},
    {FLUX_MSG_REQUEST, "wrexec.spawn", coord_spawn_request, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.stdin", coord_stdin, 0},
    {FLUX_MSG_REQUEST, "wrexec.credit", coord_credit, 0},
    {FLUX_MSG_REQUEST, "wrexec.tree", tree_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.down", down_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.known", known_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.disconnect", disconnect_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.cancel", cancel_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.name", name_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.host", host_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.end", end_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.remains", remains_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "wrexec.stats", stats_cb, 0},
    FLUX_HANDLER_END,
};

/* --- frames from the launcher --- */

static void exec_frame(void *arg, const struct wire_frame *f)
{
    struct ctx *ctx = arg;
    struct subjob *j = hmap_get_u64(ctx->jobs, f->job);

    if (j)
        subjob_frame(j, f);
}

static void exec_lost(void *arg, const char *why)
{
    struct ctx *ctx = arg;
    size_t pos = 0;
    void *val;

    if (ctx->sweeping)
        exec_swept(ctx, 1); /* as far as is known */
    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val))
        subjob_launcher_lost(val, why);
}

static const struct launchlink_callbacks launchlink_callbacks = {exec_frame, exec_lost, exec_swept};

/* --- start and end --- */

static void reaper_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ctx *ctx = arg;
    struct list_node *n;

    while ((n = list_first(&ctx->over)))
        subjob_free(list_entry(n, struct subjob, over));
}

/* When the tree and the settings are known: continue the jobs that have waited for them. */
static void go_on(struct ctx *ctx)
{
    if (ctx->ready || !session_tree(ctx->session) || !ctx->settings ||
        !settings_known(ctx->settings))
        return;
    ctx->ready = true;
    ctx->sweeping = launchlink_sweep(ctx->exec);
    if (!ctx->sweeping)
        answer_asks(ctx, NULL);
    uplinks_ready(ctx->uplinks);
    if (ctx->coord)
        coord_ready(ctx->coord);
}

/* The next launches take the new ways. */
static int session_tree_cb(void *arg, int errnum, const char *why)
{
    struct ctx *ctx = arg;

    if (errnum)
        return 0;
    edges_set_topology(ctx->edges, session_tree(ctx->session));
    go_on(ctx);
    return 0;
}

static void ranks_lost_cb(void *arg, const idset_t *ranks, bool now)
{
    struct ctx *ctx = arg;

    subjob_all_ranks_lost(ctx, ranks);
    if (ctx->coord)
        coord_ranks_lost(ctx->coord, ranks);
}

static const struct session_ops session_ops = {.tree = session_tree_cb, .lost = ranks_lost_cb};

/* The tasks end first, and then the clients that wait for them. */
static void launcher_ended(void *arg)
{
    struct ctx *ctx = arg;

    flux_reactor_stop(flux_get_reactor(ctx->h), 0);
}

static bool wrexec_stop(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;

    return !launchlink_end(ctx->exec, launcher_ended, ctx);
}

static void wrexec_fini(flux_t *h, void *arg)
{
    struct ctx *ctx = arg;
    size_t pos = 0;
    void *val;

    flux_handlers_remove(ctx->handlers);
    launchlink_destroy(ctx->exec);
    ctx->exec = NULL;
    while (ctx->jobs && hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct subjob *j = val;

        if (j->rj && j->rj->l)
            flux_respond_error(h, j->rj->l->req, ECONNABORTED,
                               "the wrexec module of rank %u was unloaded", ctx->rank);
        subjob_free(j);
    }
    answer_asks(ctx, "the wrexec module was unloaded meanwhile");
    coord_destroy(ctx->coord);
    edges_destroy(ctx->edges);
    uplinks_destroy(ctx->uplinks);
    flux_future_destroy(ctx->known_f);
    flux_watcher_destroy(ctx->orphans);
    session_destroy(ctx->session);
    names_destroy(ctx->names);
    hmap_destroy(ctx->jobs);
    subjob_unknown_free(ctx);
    ends_destroy(ctx->ends);
    settings_destroy(ctx->settings);
    flux_watcher_destroy(ctx->reaper);
    free(ctx);
}

/* Returns an error if there are tasks, here or below, that would end with the module, or if it ends
 * processes of an earlier broker. */
static int wrexec_may_stop(flux_t *h, void *arg, errmsg_t *err)
{
    struct ctx *ctx = arg;
    size_t n = subjob_all_running(ctx);

    if (n == 0)
        return check_swept(ctx, err);
    return errmsg_fail(err, EBUSY,
                       "%zu job%s with tasks at or below rank %u would be killed: wait until %s "
                       "ended (flux queue drain), or use --force",
                       n, n == 1 ? "" : "s", ctx->rank, n == 1 ? "it has" : "they have");
}

/* Hand running jobs over to the next instance.  Without jobs, the next instance starts a launcher
 * of its own. */
static int wrexec_hand_over(flux_t *h, void *arg, flux_handover_t *o, errmsg_t *err)
{
    struct ctx *ctx = arg;

    if (check_swept(ctx, err) < 0)
        return -1;
    launchlink_settle(ctx->exec);
    edges_settle(ctx->edges);
    reaper_cb(NULL, NULL, 0, ctx);
    edges_flush(ctx->edges);
    uplinks_flush(ctx->uplinks);
    if (handover_save(ctx, o, err) < 0)
        return -1;
    if (subjob_all_running(ctx) > 0)
        launchlink_leave(ctx->exec);
    return 1;
}

/* Begin, or continue where the instance before this one has stopped. */
static int begin(struct ctx *ctx, errmsg_t *err)
{
    flux_handover_t *o = flux_module_inherited(ctx->h);

    errmsg_set(err, "the wrexec module is out of memory");
    if (!(ctx->session = session_create(ctx->h, &session_ops, ctx)))
        return -1;
    if (o && handover_load(ctx, o, err) < 0)
        return -1;
    if (!(ctx->handlers = flux_handlers_add(ctx->h, handlers, ctx)))
        return -1;
    session_ask_tree(ctx->session);
    if (!(ctx->settings = settings_ask(ctx, go_on)))
        return -1;
    if (o) {
        session_ask_lost(ctx->session); /* events may have been missed */
        handover_go_on(ctx);
    }
    return 0;
}

static int wrexec_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct ctx *ctx;
    int errnum;

    if (setup_no_arguments("wrexec", argc, argv, err) < 0)
        return -1;
    if (!(ctx = calloc(1, sizeof(*ctx))))
        return errmsg_fail(err, ENOMEM, "the wrexec module is out of memory");
    ctx->h = h;
    ctx->rank = flux_rank(h);
    ctx->size = flux_size(h);
    list_init(&ctx->over);
    list_init(&ctx->asks);
    ctx->jobs = hmap_create_u64(NULL);
    ctx->reaper = flux_defer_create(flux_get_reactor(h), reaper_cb, ctx);
    ctx->exec = launchlink_create(h, &launchlink_callbacks, ctx);
    ctx->edges = edges_create(h, &edge_callbacks, ctx);
    ctx->uplinks = uplinks_create(h, &uplink_callbacks, ctx);
    ctx->orphans = flux_timer_create(flux_get_reactor(h), orphans_cb, ctx);
    ctx->ends = ends_create(ctx);
    if (!ctx->jobs || !ctx->ends || !ctx->reaper || !ctx->exec || !ctx->edges || !ctx->uplinks ||
        !ctx->orphans ||
        (flux_is_root(h) &&
         (!(ctx->coord = coord_create(ctx)) || !(ctx->names = names_create(h, job_runs, ctx))))) {
        wrexec_fini(h, ctx);
        return errmsg_fail(err, ENOMEM, "the wrexec module is out of memory");
    }
    if (begin(ctx, err) < 0) {
        errnum = errno ? errno : ENOMEM;
        wrexec_fini(h, ctx);
        errno = errnum;
        return -1;
    }
    *arg = ctx;
    return 0;
}

FLUX_MODULE(wrexec, wrexec_init, wrexec_fini, .place = FLUX_PLACE_LOOP, .may_stop = wrexec_may_stop,
            .stop = wrexec_stop, .hand_over = wrexec_hand_over, .handover = HANDOVER_FORM);
