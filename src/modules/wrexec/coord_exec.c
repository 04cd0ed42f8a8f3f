/* coord_exec.c - wrexec.run: the programs of flux exec, which bypass the queue.
 *
 * Purpose: start one task on each of the requested ranks.  A program is a job without a record: its
 * number is above JOB_EXEC_BIT and identifies it in output, signals and input.  Only its client is
 * notified of it, and it ends with its client.
 *
 * Invariants:
 *  1. A request that arrives before the shape of the tree and the set of ranks that are up are
 *     known waits for both.
 *  2. The module asks for the ranks that are up at the first request, and at the first request
 *     after an event that reports a change.
 *
 * Failure: the request is answered with errno and an error message; no task was started.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libservice/session.h"

#define WAITING_MAX 65536

struct waiting {
    struct list_node node;
    flux_msg_t *req;
};

struct runs {
    struct coord *coord;
    session_t *session;
    idset_t *up; /* ranks that are up, as last reported; NULL: unknown */
    uint64_t next_exec;
    struct list_node waiting;
    size_t nwaiting;
};

/* Return the requested ranks, all of which must be up.  The caller destroys the set. */
static idset_t *place(const struct runs *rs, const struct wrexec_run *run, errmsg_t *err)
{
    idset_t *ranks = idset_parse(run->ranks, err), *missing;
    char *text;

    if (!ranks)
        return NULL;
    if (!idset_empty(ranks) && idset_subset(ranks, rs->up))
        return ranks;
    missing = idset_difference(ranks, rs->up);
    text = idset_format(missing, 0);
    errmsg_fail(err, EHOSTUNREACH, "rank%s %s %s not up; see flux up",
                idset_count(missing) == 1 ? "" : "s", text ? text : "?",
                idset_count(missing) == 1 ? "is" : "are");
    free(text);
    idset_destroy(missing);
    idset_destroy(ranks);
    return NULL;
}

/* Describe one task on each of these ranks.  Returns NULL with ENOMEM. */
static json_t *nodes(const char *ranks)
{
    json_t *all = json_array(), *one = json_array();

    if (json_array_append_new(one, json_string(ranks)) < 0 ||
        json_array_append_new(one, json_integer(1)) < 0 ||
        json_array_append_new(one, json_string("")) < 0 ||
        json_array_append_new(one, json_string("")) < 0 ||
        json_array_append_new(one, json_integer(0)) < 0 || json_array_append(all, one) < 0) {
        json_decref(all);
        all = NULL;
    }
    json_decref(one);
    return all;
}

static int start(struct runs *rs, const flux_msg_t *req, const struct wrexec_run *run,
                 const struct jobreq *strings, struct wrexec_launch *launch, errmsg_t *err)
{
    struct coord *r = rs->coord;
    char *json = flux_schema_encode(&wrexec_launch_schema, launch);
    struct launchrec rec = {.json = json,
                            .json_len = json ? strlen(json) : 0,
                            .argc = strings->argc,
                            .envc = strings->envc,
                            .strings = strings->strings};
    struct listener *l = NULL;
    struct spec *spec = NULL;
    struct subjob *j = NULL;
    uint64_t id;

    rec.env = wrexec_jobreq_string(strings, (size_t)WIRE_STRINGS + strings->argc);
    rec.strings_len = (size_t)(rec.env - strings->strings);
    rec.env_len = strings->strings_len - rec.strings_len;
    if (!json)
        errmsg_fail(err, ENOMEM, "no memory to run it");
    else if ((spec = exec_spec_create(json, rec.json_len, r->ctx->size, &id, err))) {
        if ((l = coord_client_create(r->clients, req, launch->id, run->window))) {
            l->input = true;
            if (!(j = coord_start(r, spec, &rec, l, err)))
                coord_client_forget(r->clients, l);
        } else {
            exec_spec_destroy(spec);
            errmsg_fail(err, ENOMEM, "no memory to run it");
        }
    }
    free(json);
    return j ? 0 : -1;
}

static int try_run(struct runs *rs, const flux_msg_t *req, errmsg_t *err)
{
    struct wrexec_run run = {0};
    struct wrexec_launch launch = {
        .uid = flux_msg_userid(req), .output = "client", .gpuaffinity = "off", .exec = true};
    struct jobreq strings;
    idset_t *ranks = NULL;
    const void *data;
    json_t *owner;
    size_t len;
    int rc = -1;

    data = flux_msg_payload(req, &len);
    if (wrexec_jobreq_decode(data, len, &strings, err) < 0)
        return -1;
    if (!(owner =
              flux_schema_decode(&wrexec_run_schema, strings.json, strings.json_len, &run, err)))
        return -1;
    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        errmsg_fail(err, EPROTO, "wrexec.run has to be a streaming request");
        goto out;
    }
    if (!(ranks = place(rs, &run, err)))
        goto out;
    if (!(launch.nodes = nodes(run.ranks))) {
        errmsg_fail(err, ENOMEM, "no memory to run it");
        goto out;
    }
    launch.input = run.input ? run.input : "first";
    launch.id = JOB_EXEC_BIT + rs->next_exec++;
    rc = start(rs, req, &run, &strings, &launch, err);
out:
    json_decref(launch.nodes);
    idset_destroy(ranks);
    json_decref(owner);
    return rc;
}

/* --- the tree and the ranks that are up --- */

/* Run the program of the first request that waits, or answer it with this error (if not NULL). */
static void serve(struct runs *rs, const char *error)
{
    struct waiting *w = list_entry(list_first(&rs->waiting), struct waiting, node);
    flux_t *h = rs->coord->ctx->h;
    errmsg_t err = {"unknown"};

    list_remove(&w->node);
    rs->nwaiting--;
    if (error)
        flux_respond_error(h, w->req, EAGAIN, "%s", error);
    else if (try_run(rs, w->req, &err) < 0)
        flux_respond_error(h, w->req, errno, "%s", err.text);
    flux_msg_destroy(w->req);
    free(w);
}

void coord_execs_ready(struct runs *rs)
{
    while (!list_empty(&rs->waiting) && session_current(rs->session) && rs->coord->ctx->ready)
        serve(rs, NULL);
}

static void status_cb(void *arg, const struct overlay_status *st)
{
    struct runs *rs = arg;

    idset_destroy(rs->up);
    rs->up = st ? idset_parse(st->up, NULL) : NULL;
    while (!rs->up && !list_empty(&rs->waiting))
        serve(rs, "cannot find out which ranks are up: try again later");
    coord_execs_ready(rs);
}

static int add_waiting(struct runs *rs, const flux_msg_t *req)
{
    struct waiting *w = rs->nwaiting < WAITING_MAX ? calloc(1, sizeof(*w)) : NULL;

    if (!w)
        return -1;
    w->req = flux_msg_incref(req);
    list_append(&rs->waiting, &w->node);
    rs->nwaiting++;
    return 0;
}

void coord_exec_run(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct runs *rs = ctx->coord ? ctx->coord->runs : NULL;

    if (!rs) {
        flux_respond_error(h, req, EINVAL, "programs are run by rank 0, not by rank %u", ctx->rank);
        return;
    }
    if (add_waiting(rs, req) < 0) {
        flux_respond_error(h, req, EAGAIN, "too many programs wait to be run");
        return;
    }
    coord_execs_ready(rs);
}

void coord_exec_signal(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct wrexec_signal s = {0};
    struct subjob *j;
    json_t *owner;

    if (flux_request_decode(h, req, &wrexec_signal_schema, &s, &owner) < 0)
        return;
    j = hmap_get_u64(ctx->jobs, s.id);
    if (s.signum <= 0 || s.signum >= _NSIG)
        flux_respond_error(h, req, EINVAL, "%d is not a signal", s.signum);
    else if (!j || !j->rj || !j->rj->exec || j->finished)
        flux_respond_error(h, req, ESRCH, "nothing with the number %" PRIu64 " is running", s.id);
    else {
        if (!s.number || s.number > j->rj->nsignals)
            subjob_signal(j, s.signum);
        if (s.number > j->rj->nsignals)
            j->rj->nsignals = s.number;
        flux_respond(h, req, "{}");
    }
    json_decref(owner);
}

/* --- start, end, reload --- */

void coord_execs_gone(struct runs *rs, const char *sender, uint32_t matchtag)
{
    LIST_FOREACH_SAFE(it, tmp, &rs->waiting)
    {
        struct waiting *w = list_entry(it, struct waiting, node);
        char buf[FLUX_SENDER_MAX];

        if (strcmp(flux_msg_sender(w->req, buf, sizeof(buf)), sender) != 0 ||
            (matchtag && flux_msg_matchtag(w->req) != matchtag))
            continue;
        list_remove(&w->node);
        rs->nwaiting--;
        if (matchtag)
            flux_respond_error(rs->coord->ctx->h, w->req, ENODATA, "canceled");
        flux_msg_destroy(w->req);
        free(w);
    }
}

void coord_execs_save(const struct runs *rs, flux_handover_t *o)
{
    flux_handover_put_mark(o, "runs");
    flux_handover_put(o, rs->next_exec);
    LIST_FOREACH(it, &rs->waiting)
    flux_handover_put_msg(o, list_entry(it, struct waiting, node)->req);
    flux_handover_put_msg(o, NULL);
}

/* The next instance asks again for the ranks that are up. */
void coord_execs_load(struct runs *rs, flux_handover_t *o)
{
    flux_msg_t *req;

    flux_handover_get_mark(o, "runs");
    rs->next_exec = flux_handover_get(o, UINT64_MAX);
    while ((req = flux_handover_get_msg(o))) {
        if (add_waiting(rs, req) < 0)
            flux_handover_fail(o, ENOMEM);
        flux_msg_destroy(req);
    }
}

struct runs *coord_execs_create(struct coord *r)
{
    static const struct session_ops session_ops = {.status = status_cb, .on_demand = true};
    struct runs *rs = calloc(1, sizeof(*rs));

    if (!rs)
        return NULL;
    rs->coord = r;
    rs->next_exec = 1;
    list_init(&rs->waiting);
    if (!(rs->session = session_create(r->ctx->h, &session_ops, rs))) {
        free(rs);
        return NULL;
    }
    return rs;
}

void coord_execs_destroy(struct runs *rs)
{
    struct list_node *n;

    if (!rs)
        return;
    while ((n = list_first(&rs->waiting))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        list_remove(n);
        flux_msg_destroy(w->req);
        free(w);
    }
    session_destroy(rs->session);
    idset_destroy(rs->up);
    free(rs);
}
