/* Rank 0: requests to run something, and who may be spoken to.
 *
 * A request that comes before the ids, the ranks that are up and the shape of the tree are known
 * waits for them; then it gets its id and its ranks, and goes down the tree (job.c).  rootjob.c has
 * what follows.
 *
 *  1. Ids grow by one; at the first job they continue after the greatest in the KVS directory
 *     "job".  A store that is not there is asked again at the next job.
 *  2. Which ranks are up is asked once, and again after an event that says it has changed.
 *  3. Standard input is taken from the client that started the job, from nobody else.
 *
 * Failure: the request is answered with errno and a sentence, and nothing was started.
 */
#include "config.h"
#include "root.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "libflux/proto_overlay.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define TASKS_MAX (1u << 24)
#define WAITING_MAX 65536

static void try_waiting(struct root *r);

void root_client_gone(struct root *r, const char *sender, uint32_t matchtag)
{
    size_t pos = 0;
    void *val;

    LIST_FOREACH_SAFE(it, tmp, &r->waiting)
    {
        struct waiting *w = list_entry(it, struct waiting, node);
        char buf[FLUX_SENDER_MAX];

        if (strcmp(flux_msg_sender(w->req, buf, sizeof(buf)), sender) != 0 ||
            (matchtag && flux_msg_matchtag(w->req) != matchtag))
            continue;
        list_remove(&w->node);
        r->nwaiting--;
        flux_msg_destroy(w->req);
        free(w);
    }
    while (hmap_next(r->ctx->jobs, &pos, NULL, NULL, &val)) {
        struct job *j = val;
        struct rootjob *rj = j->rj;

        if (!rj || rj->detach || rj->gone || strcmp(rj->sender, sender) != 0 ||
            (matchtag && rj->matchtag != matchtag))
            continue;
        rj->gone = true;
        rootjob_fail(rj, 128 + SIGHUP, "its client went away");
        flux_msg_destroy(j->req);
        j->req = NULL;
        job_credit(j, 0);
        if (!j->finished)
            rootjob_terminate(rj);
    }
}

/* --- the start of a job --- */

/* The ranks a job is to run on, and its size, into `start`.  To be destroyed by the caller. */
static idset_t *place(struct root *r, const struct wrexec_run *run, struct wrexec_start *start,
                      errmsg_t *err)
{
    size_t up = idset_count(r->up);
    uint32_t nnodes = run->nnodes, ntasks = run->ntasks;
    idset_t *ranks = NULL;

    if (run->ranks) {
        if (!(ranks = idset_parse(run->ranks, err)))
            return NULL;
        if (idset_empty(ranks) || !idset_subset(ranks, r->up)) {
            idset_t *missing = idset_difference(ranks, r->up);
            char *text = idset_format(missing, 0);

            errmsg_fail(err, EHOSTUNREACH, "rank%s %s %s not up; see flux up",
                        idset_count(missing) == 1 ? "" : "s", text ? text : "?",
                        idset_count(missing) == 1 ? "is" : "are");
            free(text);
            idset_destroy(missing);
            goto fail;
        }
        nnodes = (uint32_t)idset_count(ranks);
    } else if (nnodes == 0) {
        nnodes = ntasks == 0 ? 1 : ntasks < up ? ntasks : (uint32_t)up;
    }
    if (ntasks == 0)
        ntasks = nnodes;
    if (nnodes == 0 || nnodes > up) {
        errmsg_fail(err, ENOSPC, "%u nodes are wanted, but only %zu are up", nnodes, up);
        goto fail;
    }
    if (ntasks < nnodes) {
        errmsg_fail(err, EINVAL, "%u tasks do not fill %u nodes: a node needs at least one", ntasks,
                    nnodes);
        goto fail;
    }
    if (ntasks > TASKS_MAX || layout_count(ntasks, nnodes, 0) > WIRE_TASKS_MAX) {
        errmsg_fail(err, EINVAL, "%u tasks on %u nodes are too many: at most %u a node", ntasks,
                    nnodes, WIRE_TASKS_MAX);
        goto fail;
    }
    if (!ranks) {
        ranks = idset_create();
        for (uint32_t i = 0, rank = idset_first(r->up); ranks && i < nnodes;
             i++, rank = idset_next(r->up, rank))
            if (idset_set(ranks, rank) < 0)
                goto nomem;
        if (!ranks)
            goto nomem;
    }
    start->ntasks = ntasks;
    return ranks;
nomem:
    errmsg_fail(err, ENOMEM, "no memory for a job");
fail:
    idset_destroy(ranks);
    return NULL;
}

static int input_flags(const char *input, uint32_t *flags)
{
    if (!input || strcmp(input, "first") == 0)
        return 0;
    if (strcmp(input, "all") == 0)
        *flags |= WIRE_F_STDIN_ALL;
    else if (strcmp(input, "none") == 0)
        *flags |= WIRE_F_STDIN_NONE;
    else
        return -1;
    return 0;
}

static uint32_t tree_window(const struct ctx *ctx)
{
    uint32_t n = topology_nchildren(ctx->topo, ctx->rank), window = WIRE_WINDOW;

    /* With many children each gets less, so that what waits at one broker stays bounded. */
    while ((uint64_t)window * n > (8u << 20) && window > 32768)
        window /= 2;
    return window;
}

static struct rootjob *rootjob_create(struct root *r, const flux_msg_t *req,
                                      const struct wrexec_run *run, const struct jobreq *strings)
{
    struct rootjob *rj = calloc(1, sizeof(*rj));

    if (!rj)
        return NULL;
    rj->root = r;
    rj->exec = run->exec;
    rj->detach = run->detach;
    rj->limit_seconds = run->limit;
    rj->matchtag = flux_msg_matchtag(req);
    flux_msg_sender(req, rj->sender, sizeof(rj->sender));
    rj->req = flux_msg_incref(req);
    rj->keep_output = run->detach;
    rj->command = record_command(strings);
    if (run->detach && !(rj->outbuf = buf_create(0))) {
        rootjob_free(rj);
        return NULL;
    }
    return rj;
}

/* The same request for all instances below, and the job here. */
static int job_go(struct root *r, const flux_msg_t *req, const struct wrexec_run *run,
                  struct jobreq *strings, struct wrexec_start *start, errmsg_t *err)
{
    struct ctx *ctx = r->ctx;
    struct wrexec_notice n = {.id = start->id, .ranks = start->ranks};
    char *json = flux_schema_encode(&wrexec_start_schema, start);
    void *payload = NULL;
    struct rootjob *rj = NULL;
    struct job *j = NULL;
    size_t len = 0;
    int rc = -1;

    strings->json = json;
    strings->json_len = json ? strlen(json) : 0;
    if (!json || !(payload = jobreq_encode(strings, &len)) ||
        !(rj = rootjob_create(r, req, run, strings))) {
        errmsg_fail(err, ENOMEM, "no memory for a job");
        goto out;
    }
    if (!(j = job_create(ctx, start, err)))
        goto out;
    if ((start->flags & WIRE_F_STDIN_ALL) && !(rj->taken = calloc(j->nnodes, sizeof(*rj->taken)))) {
        errmsg_fail(err, ENOMEM, "no memory for a job");
        goto out;
    }
    j->rj = rj;
    rj->j = j;
    rj = NULL;
    if (!run->detach) {
        j->req = flux_msg_incref(req);
        j->credit = run->window ? run->window : WREXEC_CLIENT_WINDOW;
    }
    job_launch(j, strings, payload, len);
    if (!run->detach)
        job_send_notice(j, &n);
    rootjob_begin(j->rj, run, strings);
    j = NULL;
    rc = 0;
out:
    job_free(j);
    rootjob_free(rj);
    free(payload);
    free(json);
    return rc;
}

static int try_run(struct root *r, const flux_msg_t *req, errmsg_t *err)
{
    struct wrexec_run run = {0};
    struct wrexec_start start = {.window = tree_window(r->ctx)};
    struct jobreq strings;
    const void *data;
    idset_t *ranks = NULL;
    char *text = NULL;
    json_t *owner;
    size_t len;
    int rc = -1;

    data = flux_msg_payload(req, &len);
    if (jobreq_decode(data, len, &strings, err) < 0)
        return -1;
    if (!(owner =
              flux_schema_decode(&wrexec_run_schema, strings.json, strings.json_len, &run, err)))
        return -1;
    if (input_flags(run.input, &start.flags) < 0) {
        errmsg_fail(err, EPROTO, "input: '%s' is none of first, all, none", run.input);
        goto out;
    }
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING) && !run.detach) {
        errmsg_fail(err, EPROTO, "wrexec.run has to be a streaming request");
        goto out;
    }
    if (run.exec)
        start.flags |= WIRE_F_EXEC;
    if (!(ranks = place(r, &run, &start, err)))
        goto out;
    if (!(text = idset_format(ranks, 0))) {
        errmsg_fail(err, ENOMEM, "no memory for a job");
        goto out;
    }
    start.ranks = text;
    start.id = run.exec ? JOB_EXEC_BIT + r->next_exec++ : r->next_id++;
    rc = job_go(r, req, &run, &strings, &start, err);
out:
    idset_destroy(ranks);
    free(text);
    json_decref(owner);
    return rc;
}

/* --- what has to be known first --- */

static void ids_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    struct flux_kvs_dirent e;
    size_t pos = 0;
    errmsg_t err;
    uint64_t id;
    int rc;

    while ((rc = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1)
        if (str2u64(e.name, &id) == 0 && id >= r->next_id && id < JOB_EXEC_BIT)
            r->next_id = id + 1;
    r->kvs = (rc == 0 || flux_future_errnum(f) == ENOENT);
    if (!r->kvs && !r->warned)
        flux_log(r->ctx->h, LOG_WARNING, "jobs are not put on record: %s", err.text);
    r->warned = !r->kvs;
    r->ids_state = KNOWN;
    flux_future_destroy(f);
    r->ids_f = NULL;
    try_waiting(r);
}

static void up_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    struct overlay_status st = {0};
    idset_t *up = NULL;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &overlay_status_schema, &st, &err) == 0)
        up = idset_parse(st.up, &err);
    if (up) {
        idset_destroy(r->up);
        r->up = up;
    } else {
        flux_log(r->ctx->h, LOG_ERR, "cannot learn which ranks are up: %s", err.text);
    }
    flux_future_destroy(f);
    r->up_f = NULL;
    r->up_state = up ? KNOWN : UNKNOWN;
    if (r->up)
        try_waiting(r);
}

void root_overlay_event(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->root)
        ctx->root->up_state = UNKNOWN;
}

static void ask(struct root *r)
{
    flux_t *h = r->ctx->h;

    if (r->ids_state == UNKNOWN && !r->ids_f) {
        r->ids_f = flux_kvs_readdir(h, NULL, "job", 0, NULL);
        if (r->ids_f && flux_future_then(r->ids_f, -1., ids_cb, r) == 0)
            r->ids_state = ASKED;
    }
    if (r->up_state == UNKNOWN && !r->up_f) {
        r->up_f = flux_rpc(h, "overlay.status", NULL, FLUX_NODEID_ANY, 0);
        if (r->up_f && flux_future_then(r->up_f, -1., up_cb, r) == 0)
            r->up_state = ASKED;
    }
}

static bool ready(const struct root *r)
{
    return r->ids_state == KNOWN && r->up_state == KNOWN && r->ctx->topo;
}

static void run_now(struct root *r, const flux_msg_t *req)
{
    errmsg_t err = {"unknown"};

    if (try_run(r, req, &err) < 0)
        flux_respond_error(r->ctx->h, req, errno, "%s", err.text);
}

static void try_waiting(struct root *r)
{
    struct list_node *n;

    while (ready(r) && (n = list_first(&r->waiting))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        list_remove(n);
        r->nwaiting--;
        run_now(r, w->req);
        flux_msg_destroy(w->req);
        free(w);
    }
    /* Without a store, ask again at the next job. */
    if (list_empty(&r->waiting) && r->ids_state == KNOWN && !r->kvs)
        r->ids_state = UNKNOWN;
}

void root_run(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct waiting *w;

    if (!r) {
        flux_respond_error(h, req, EINVAL, "jobs are started at rank 0, not at rank %u", ctx->rank);
        return;
    }
    if (ready(r)) {
        run_now(r, req);
        return;
    }
    if (r->nwaiting >= WAITING_MAX || !(w = calloc(1, sizeof(*w)))) {
        flux_respond_error(h, req, EAGAIN, "too many jobs wait to be started");
        return;
    }
    w->req = flux_msg_incref(req);
    list_append(&r->waiting, &w->node);
    r->nwaiting++;
    ask(r);
}

/* --- other requests --- */

static struct job *find_job(struct ctx *ctx, uint64_t id)
{
    struct job *j = hmap_get_u64(ctx->jobs, id);

    return j && j->rj && !j->finished ? j : NULL;
}

void root_signal(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct wrexec_signal s;
    struct job *j;
    json_t *owner;

    if (flux_request_decode(h, req, &wrexec_signal_schema, &s, &owner) < 0)
        return;
    if (s.signum <= 0 || s.signum >= _NSIG)
        flux_respond_error(h, req, EINVAL, "%d is no signal", s.signum);
    else if (!(j = find_job(ctx, s.id)))
        flux_respond_error(h, req, ESRCH, "no job %" PRIu64 " is running", s.id);
    else {
        job_signal(j, s.signum);
        flux_respond(h, req, "{}");
    }
    json_decref(owner);
}

void root_list(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    json_t *obj = json_object(), *arr = json_array();
    size_t pos = 0;
    char *text;
    void *val;

    while (hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        struct job *j = val;
        char *ranks = idset_format(j->ranks, 0);
        struct wrexec_job wj = {.id = j->id,
                                .state = j->finished ? "ending" : "running",
                                .ranks = ranks ? ranks : "",
                                .nnodes = j->nnodes,
                                .ntasks = j->spec.ntasks,
                                .command = j->rj && j->rj->command ? j->rj->command : ""};

        if (j->rj && !j->rj->exec)
            json_array_append_new(arr, flux_schema_encode_json(&wrexec_job_schema, &wj));
        free(ranks);
    }
    json_object_set(obj, "jobs", arr);
    if ((text = json_dumps(obj, JSON_COMPACT)))
        flux_respond(h, req, text);
    else
        flux_respond_error(h, req, ENOMEM, "no memory to list jobs");
    free(text);
    json_decref(arr);
    json_decref(obj);
}

/* A piece of standard input: from the client at rank 0, from there to the ranks that read it. */
void root_stdin(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    size_t len;
    const uint8_t *data = flux_msg_payload(req, &len);
    char sender[FLUX_SENDER_MAX];
    struct job *j;

    if (len < WREXEC_STDIN_HEAD || len > WREXEC_STDIN_HEAD + WIRE_STDIN_WINDOW)
        return;
    if (!(j = hmap_get_u64(ctx->jobs, le_get64(data))))
        return;
    if (j->rj) {
        if (strcmp(flux_msg_sender(req, sender, sizeof(sender)), j->rj->sender) != 0)
            return;
        for (uint32_t r = idset_first(j->ranks); r != IDSET_NONE; r = idset_next(j->ranks, r)) {
            if (r != ctx->rank)
                flux_future_destroy(
                    flux_rpc_raw(h, "wrexec.stdin", data, len, r, FLUX_MSGF_NORESPONSE));
            if (!(j->spec.flags & WIRE_F_STDIN_ALL))
                break;
        }
        if (!(j->spec.flags & WIRE_F_STDIN_ALL) && idset_first(j->ranks) != ctx->rank)
            return;
    }
    job_stdin(j, data + WREXEC_STDIN_HEAD, len - WREXEC_STDIN_HEAD);
}

void root_job_taken(struct job *j, uint32_t node, uint64_t bytes)
{
    struct rootjob *rj = j->rj;
    struct wrexec_notice n = {.id = j->id, .taken = bytes};

    if (rj->taken) {
        uint64_t least = UINT64_MAX;

        if (node >= j->nnodes)
            return;
        rj->taken[node] += bytes;
        for (uint32_t i = 0; i < j->nnodes; i++)
            if (rj->taken[i] < least)
                least = rj->taken[i];
        n.taken = least - rj->acked;
        rj->acked = least;
    }
    if (n.taken)
        job_send_notice(j, &n);
}

struct root *root_create(struct ctx *ctx)
{
    struct root *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->ctx = ctx;
    r->next_id = r->next_exec = 1;
    list_init(&r->waiting);
    return r;
}

void root_destroy(struct root *r)
{
    struct list_node *n;

    if (!r)
        return;
    while ((n = list_first(&r->waiting))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        list_remove(n);
        flux_msg_destroy(w->req);
        free(w);
    }
    flux_future_destroy(r->ids_f);
    flux_future_destroy(r->up_f);
    idset_destroy(r->up);
    free(r);
}
