/* coord_client.c - the clients that follow a job, at rank 0.
 *
 * Purpose: connect the client of a job (wrexec.listen) to its output and its result, whether the
 * client arrives before the job, while it runs, or after its end.
 *
 *     state of a request   meaning                                            entered by
 *     early                the job has not been launched; the request is in   try_listen
 *                          `early`, by job id
 *     joined               the client receives output, notices and, last,     try_listen,
 *                          the result                                         coord_clients_job
 *     (answered)           the job had ended already; the result was the      try_listen
 *                          only answer
 *
 * Invariants:
 *  1. The requests of a client are in a list of the client, so the cost of a disconnect depends on
 *     the number of its requests only, not on the number of jobs.
 *  2. At most EARLY_MAX requests are early.  If the output of a job is for a client and no client
 *     has followed the job, the result is kept for a client that arrives later; the last RECENT_MAX
 *     such results are kept.
 *  3. When a client disconnects, the programs that it has started (flux exec) end.  Its jobs are
 *     left to the job module, which is notified of the disconnect as well.  Output for this client
 *     alone is discarded.
 *
 * Failure: a request beyond EARLY_MAX is refused with an error message.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_MAX 65536
#define RECENT_MAX 4096
#define EXEC_GRACE 5.0

struct client {
    char sender[FLUX_SENDER_MAX];
    struct list_node listeners;
};

struct recent {
    struct list_node node;
    uint64_t id;
    char json[];
};

struct clients {
    struct coord *coord;
    hmap_t *map;   /* sender -> struct client */
    hmap_t *early; /* id -> struct listener */
    hmap_t *recent;
    struct list_node order; /* order of `recent`, oldest first */
};

static struct client *client_of(struct clients *cl, const flux_msg_t *req)
{
    char sender[FLUX_SENDER_MAX];
    struct client *c;

    flux_msg_sender(req, sender, sizeof(sender));
    if ((c = hmap_get(cl->map, sender)) || !(c = calloc(1, sizeof(*c))))
        return c;
    memcpy(c->sender, sender, sizeof(sender));
    list_init(&c->listeners);
    if (hmap_put(cl->map, sender, c) < 0) {
        free(c);
        return NULL;
    }
    return c;
}

static void client_put(struct clients *cl, struct client *c)
{
    if (!list_empty(&c->listeners))
        return;
    hmap_take(cl->map, c->sender);
    free(c);
}

struct listener *coord_client_create(struct clients *cl, const flux_msg_t *req, uint64_t id,
                                     uint32_t window)
{
    struct client *c = client_of(cl, req);
    struct listener *l = c ? calloc(1, sizeof(*l)) : NULL;

    if (!l) {
        if (c)
            client_put(cl, c);
        errno = ENOMEM;
        return NULL;
    }
    l->client = c;
    l->req = flux_msg_incref(req);
    l->id = id;
    l->credit = window ? window : WREXEC_CLIENT_WINDOW;
    list_append(&c->listeners, &l->node);
    return l;
}

static void listener_drop(struct clients *cl, struct listener *l)
{
    struct client *c = l->client;

    if (l->rj)
        l->rj->l = NULL;
    else if (hmap_get_u64(cl->early, l->id) == l)
        hmap_take_u64(cl->early, l->id);
    list_remove(&l->node);
    flux_msg_destroy(l->req);
    free(l);
    client_put(cl, c);
}

void coord_client_free(struct listener *l)
{
    listener_drop(l->rj->coord->clients, l);
}

void coord_client_forget(struct clients *cl, struct listener *l)
{
    l->rj = NULL;
    listener_drop(cl, l);
}

void coord_client_notice(struct listener *l, const struct wrexec_notice *n)
{
    char *json = flux_schema_encode(&wrexec_notice_schema, n);

    if (json)
        flux_respond_more(l->rj->coord->ctx->h, l->req, json);
    free(json);
}

/* Send the first notice: the job is being started. */
static void tell_start(struct coord_job *rj)
{
    char *ranks = idset_format(rj->j->ranks, 0);
    struct wrexec_notice n = {.id = rj->j->id, .ranks = ranks ? ranks : ""};

    coord_client_notice(rj->l, &n);
    free(ranks);
}

static void join(struct coord_job *rj, struct listener *l)
{
    rj->l = l;
    l->rj = rj;
    tell_start(rj);
    if (!l->input)
        subjob_flow_stdin(rj->j, NULL, 0);
}

void coord_clients_job(struct clients *cl, struct coord_job *rj)
{
    struct listener *l = rj->l ? NULL : hmap_take_u64(cl->early, rj->j->id);

    if (rj->l)
        tell_start(rj);
    else if (l) {
        rj->l = l;
        l->rj = rj;
        tell_start(rj);
    }
}

static struct recent *recent_take(struct clients *cl, uint64_t id)
{
    struct recent *rc = hmap_take_u64(cl->recent, id);

    if (rc)
        list_remove(&rc->node);
    return rc;
}

static void recent_keep(struct clients *cl, uint64_t id, const char *json)
{
    size_t len = strlen(json) + 1;
    struct recent *rc;

    if (hmap_count(cl->recent) >= RECENT_MAX)
        free(recent_take(cl, list_entry(list_first(&cl->order), struct recent, node)->id));
    if (!(rc = malloc(sizeof(*rc) + len)))
        return;
    rc->id = id;
    memcpy(rc->json, json, len);
    free(recent_take(cl, id));
    if (hmap_put_u64(cl->recent, id, rc) < 0) {
        free(rc);
        return;
    }
    list_append(&cl->order, &rc->node);
}

void coord_clients_result(struct clients *cl, struct coord_job *rj, const char *json)
{
    if (!rj->l) {
        recent_keep(cl, rj->j->id, json);
        return;
    }
    /* The client of a job also waits for its end (job.wait), which is reported to the job module
     * next. */
    if (rj->exec)
        flux_respond(cl->coord->ctx->h, rj->l->req, json);
    else
        flux_respond_lazy(cl->coord->ctx->h, rj->l->req, json);
    listener_drop(cl, rj->l);
}

void coord_clients_unknown(struct clients *cl, uint64_t id)
{
    struct listener *l = hmap_get_u64(cl->early, id);

    if (!l)
        return;
    flux_respond_error(cl->coord->ctx->h, l->req, ENOENT, "job %" PRIu64 " was not started", id);
    listener_drop(cl, l);
}

static int try_listen(struct clients *cl, const flux_msg_t *req, const struct wrexec_listen *p,
                      errmsg_t *err)
{
    struct ctx *ctx = cl->coord->ctx;
    struct subjob *j = hmap_get_u64(ctx->jobs, p->id);
    struct listener *l;
    struct recent *rc;

    if (!flux_msg_has_flag(req, FLUX_MSGF_STREAMING))
        return errmsg_fail(err, EPROTO, "wrexec.listen has to be a streaming request");
    if (p->id == 0 || p->id >= JOB_EXEC_BIT)
        return errmsg_fail(err, EINVAL, "%" PRIu64 " is not a job", p->id);
    if ((rc = recent_take(cl, p->id))) {
        flux_respond(ctx->h, req, rc->json);
        free(rc);
        return 0;
    }
    if (j && (!j->rj || !list_empty(&j->over)))
        return errmsg_fail(err, ENOENT, "job %" PRIu64 " has ended", p->id);
    if ((j && j->rj->l) || (!j && hmap_get_u64(cl->early, p->id)))
        return errmsg_fail(err, EBUSY, "another client listens to job %" PRIu64, p->id);
    if (!j && hmap_count(cl->early) >= EARLY_MAX)
        return errmsg_fail(err, EAGAIN, "too many clients wait for their jobs");
    if (!(l = coord_client_create(cl, req, p->id, p->window)))
        return errmsg_fail(err, ENOMEM, "no memory to listen to job %" PRIu64, p->id);
    l->input = p->input;
    if (j) {
        join(j->rj, l);
        if (!coord_job_over(j->rj))
            subjob_flow_flush(j);
    } else if (hmap_put_u64(cl->early, p->id, l) < 0) {
        listener_drop(cl, l);
        return errmsg_fail(err, ENOMEM, "no memory to listen to job %" PRIu64, p->id);
    }
    return 0;
}

void coord_client_listen(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct wrexec_listen p = {0};
    json_t *owner;
    errmsg_t err;

    if (!ctx->coord) {
        flux_respond_error(h, req, EINVAL, "jobs are listened to at rank 0, not at rank %u",
                           ctx->rank);
        return;
    }
    if (flux_request_decode(h, req, &wrexec_listen_schema, &p, &owner) < 0)
        return;
    if (try_listen(ctx->coord->clients, req, &p, &err) < 0)
        flux_respond_error(h, req, errno, "%s", err.text);
    json_decref(owner);
}

static void listener_gone(struct clients *cl, struct listener *l, bool canceled)
{
    struct coord_job *rj = l->rj;

    if (canceled)
        flux_respond_error(cl->coord->ctx->h, l->req, ENODATA, "canceled");
    listener_drop(cl, l);
    if (!rj || coord_job_over(rj))
        return;
    if (rj->exec || rj->j->spec->output == SPEC_OUTPUT_CLIENT)
        rj->gone = true;
    if (rj->exec) {
        coord_job_fail(rj, 128 + SIGHUP, "its client went away");
        coord_job_terminate(rj, EXEC_GRACE);
    }
    subjob_flow_flush(rj->j);
}

static struct listener *find(struct client *c, uint32_t matchtag)
{
    LIST_FOREACH(it, &c->listeners)
    {
        struct listener *l = list_entry(it, struct listener, node);

        if (!matchtag || flux_msg_matchtag(l->req) == matchtag)
            return l;
    }
    return NULL;
}

void coord_clients_gone(struct clients *cl, const char *sender, uint32_t matchtag)
{
    struct client *c;
    struct listener *l;

    /* The client is looked up each time, because the end of one request may end others. */
    while ((c = hmap_get(cl->map, sender)) && (l = find(c, matchtag)))
        listener_gone(cl, l, matchtag != 0);
}

/* --- reload --- */

void coord_clients_save(struct clients *cl, flux_handover_t *o)
{
    size_t pos = 0;
    void *val;

    flux_handover_put_mark(o, "clients");
    while (hmap_next(cl->map, &pos, NULL, NULL, &val)) {
        LIST_FOREACH(it, &((struct client *)val)->listeners)
        {
            const struct listener *l = list_entry(it, struct listener, node);

            flux_handover_put_msg(o, l->req);
            flux_handover_put(o, l->id);
            flux_handover_put(o, (uint64_t)l->credit);
            flux_handover_put(o, l->input);
            flux_handover_put(o, l->rj != NULL);
        }
    }
    flux_handover_put_msg(o, NULL);
    LIST_FOREACH(it, &cl->order)
    {
        const struct recent *rc = list_entry(it, struct recent, node);

        flux_handover_put_str(o, rc->json);
        flux_handover_put(o, rc->id);
    }
    flux_handover_put_str(o, NULL);
}

static void load_listener(struct clients *cl, const flux_msg_t *req, flux_handover_t *o)
{
    uint64_t id = flux_handover_get(o, UINT64_MAX);
    int64_t credit = (int64_t)flux_handover_get(o, UINT64_MAX);
    bool input = flux_handover_get(o, 1), joined = flux_handover_get(o, 1);
    struct subjob *j = hmap_get_u64(cl->coord->ctx->jobs, id);
    struct listener *l;

    if (joined && (!j || !j->rj || j->rj->l)) {
        flux_handover_fail(o, EPROTO);
        return;
    }
    if (!(l = coord_client_create(cl, req, id, 0))) {
        flux_handover_fail(o, ENOMEM);
        return;
    }
    l->credit = credit;
    l->input = input;
    if (joined) {
        l->rj = j->rj;
        j->rj->l = l;
    } else if (hmap_put_u64(cl->early, id, l) < 0) {
        listener_drop(cl, l);
        flux_handover_fail(o, ENOMEM);
    }
}

void coord_clients_load(struct clients *cl, flux_handover_t *o)
{
    flux_msg_t *req;
    const char *json;

    flux_handover_get_mark(o, "clients");
    while ((req = flux_handover_get_msg(o))) {
        load_listener(cl, req, o);
        flux_msg_destroy(req);
    }
    while ((json = flux_handover_get_str(o)))
        recent_keep(cl, flux_handover_get(o, UINT64_MAX), json);
}

/* --- start and end --- */

struct clients *coord_clients_create(struct coord *r)
{
    struct clients *cl = calloc(1, sizeof(*cl));

    if (!cl)
        return NULL;
    cl->coord = r;
    list_init(&cl->order);
    cl->map = hmap_create_str(NULL);
    cl->early = hmap_create_u64(NULL);
    cl->recent = hmap_create_u64(free);
    if (!cl->map || !cl->early || !cl->recent) {
        coord_clients_destroy(cl);
        errno = ENOMEM;
        return NULL;
    }
    return cl;
}

void coord_clients_destroy(struct clients *cl)
{
    size_t pos = 0;
    void *val;

    if (!cl)
        return;
    while (cl->early && hmap_next(cl->early, &pos, NULL, NULL, &val)) {
        struct listener *l = val;

        flux_respond_error(cl->coord->ctx->h, l->req, ECONNABORTED,
                           "the wrexec module was unloaded");
        listener_drop(cl, l);
    }
    hmap_destroy(cl->early);
    hmap_destroy(cl->recent);
    hmap_destroy(cl->map);
    free(cl);
}
