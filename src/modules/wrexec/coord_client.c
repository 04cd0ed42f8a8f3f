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
 *     over                 the result was sent, perhaps as the only answer,   end, answer_recent
 *                          since the job had ended already; the way to the
 *                          client may be lost with it, and with output: all
 *                          that is kept, in `over`, by job id
 *
 * In these states, the way to the client may be lost.  The client then resumes its stream
 * (coord_listener.c); meanwhile its broker is asked whether it has ended (libservice/presence.h).
 * When that broker is lost, nobody knows whether the client has ended.  One that can return has
 * given a token, and is waited for as long as there is its job, which the job module ends if the
 * client does not come (jm_client.c).
 *
 * The request may come when its job is forgotten: an answer was lost, or a request that came after
 * the loss of its broker was dropped with another client that has the number of its sender.  Such
 * a request would be early forever; when the client learns that the job has ended, it says so.
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
 *  4. At most OVER_MAX requests are over, and OVER_BYTES are kept for them; the oldest are dropped.
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

#include "libservice/claim.h"

#define EARLY_MAX 65536
#define RECENT_MAX 4096
#define OVER_MAX 4096
#define OVER_BYTES (64u << 20)
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
    hmap_t *over;           /* id -> struct listener */
    struct list_node overs; /* the same, oldest first */
    size_t over_bytes;
    presence_t *presence;
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

/* Returns -1 with ENOMEM. */
static int add(struct clients *cl, struct listener *l)
{
    if (!(l->client = client_of(cl, l->req))) {
        errno = ENOMEM;
        return -1;
    }
    list_append(&l->client->listeners, &l->node);
    return 0;
}

struct listener *coord_client_create(struct clients *cl, const flux_msg_t *req, uint64_t id,
                                     uint32_t window)
{
    struct listener *l = coord_listener_create(cl->coord->ctx->h, req, id, window);

    if (l && add(cl, l) == 0)
        return l;
    coord_listener_destroy(l);
    errno = ENOMEM;
    return NULL;
}

static void listener_drop(struct clients *cl, struct listener *l)
{
    struct client *c = l->client;

    if (l->rj)
        l->rj->l = NULL;
    else if (hmap_get_u64(cl->early, l->id) == l)
        hmap_take_u64(cl->early, l->id);
    else if (hmap_get_u64(cl->over, l->id) == l)
        hmap_take_u64(cl->over, l->id);
    cl->over_bytes -= l->bytes;
    coord_listener_destroy(l);
    client_put(cl, c);
}

/* Keep a listener whose last response was sent. */
static void keep_over(struct clients *cl, struct listener *l)
{
    if (hmap_put_u64(cl->over, l->id, l) < 0) {
        listener_drop(cl, l);
        return;
    }
    list_append(&cl->overs, &l->over);
    l->bytes = coord_listener_bytes(l);
    cl->over_bytes += l->bytes;
    while (hmap_count(cl->over) > OVER_MAX || cl->over_bytes > OVER_BYTES)
        listener_drop(cl, list_entry(list_first(&cl->overs), struct listener, over));
}

/* Send the last response. */
static void end(struct clients *cl, struct listener *l, int errnum, const char *text, bool lazy)
{
    if (!coord_listener_end(l, errnum, text, lazy)) {
        listener_drop(cl, l);
        return;
    }
    if (l->rj)
        l->rj->l = NULL;
    else
        (void)hmap_take_u64(cl->early, l->id);
    l->rj = NULL;
    keep_over(cl, l);
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

/* Send the first notice: the job is being started. */
static void tell_start(struct coord_job *rj)
{
    char *ranks = idset_format(rj->j->ranks, 0);
    struct wrexec_notice n = {.id = rj->j->id, .ranks = ranks ? ranks : "", .taken = rj->acked};

    coord_listener_notice(rj->l, &n);
    free(ranks);
}

static void join(struct coord_job *rj, struct listener *l)
{
    rj->l = l;
    l->rj = rj;
    tell_start(rj);
    if (!l->input)
        (void)subjob_flow_stdin(rj->j, rj->j->input_end, NULL, 0);
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
    end(cl, rj->l, 0, json, !rj->exec);
}

void coord_clients_unknown(struct clients *cl, uint64_t id)
{
    struct listener *l = hmap_get_u64(cl->early, id);
    char text[64];

    if (!l)
        return;
    snprintf(text, sizeof(text), "job %" PRIu64 " was not started", id);
    end(cl, l, ENOENT, text, false);
}

/* Find the request of the same client for the same job. */
static struct listener *find_earlier(struct clients *cl, const flux_msg_t *req,
                                     const struct wrexec_listen *p)
{
    struct subjob *j = hmap_get_u64(cl->coord->ctx->jobs, p->id);
    struct listener *l = j && j->rj ? j->rj->l : NULL;

    if (!l && !(l = hmap_get_u64(cl->early, p->id)))
        l = hmap_get_u64(cl->over, p->id);
    return l && coord_listener_is(l, req, p->token) ? l : NULL;
}

/* Give a listener to the sender of this request: its earlier one is not there any more.  Returns -1
 * with ENOMEM. */
static int move(struct clients *cl, struct listener *l, const flux_msg_t *req)
{
    struct client *c = client_of(cl, req), *former = l->client;

    if (!c)
        return -1;
    list_remove(&l->node);
    list_append(&c->listeners, &l->node);
    l->client = c;
    client_put(cl, former);
    (void)coord_listener_away(l);
    return 0;
}

/* The way to the client was lost, or its broker. */
static int resume(struct clients *cl, struct listener *l, const flux_msg_t *req,
                  const struct wrexec_listen *p, errmsg_t *err)
{
    char sender[FLUX_SENDER_MAX];

    if (strcmp(l->client->sender, flux_msg_sender(req, sender, sizeof(sender))) != 0 &&
        move(cl, l, req) < 0)
        return errmsg_fail(err, ENOMEM, "no memory to listen to job %" PRIu64, p->id);
    if (coord_listener_resume(l, req, p, err) < 0)
        return -1;
    if (l->rj)
        tell_start(l->rj);
    coord_listener_go_on(l);
    if (l->rj && !coord_job_over(l->rj))
        subjob_flow_flush(l->rj->j);
    return 0;
}

/* The job had ended already.  The way to the client may be lost with this answer, too. */
static int answer_recent(struct clients *cl, const flux_msg_t *req, const struct wrexec_listen *p,
                         const char *json, errmsg_t *err)
{
    struct listener *l = coord_client_create(cl, req, p->id, p->window);

    if (!l)
        return errmsg_fail(err, ENOMEM, "no memory to listen to job %" PRIu64, p->id);
    l->token = p->token;
    end(cl, l, 0, json, false);
    return 0;
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
    l = find_earlier(cl, req, p);
    if (p->ended) {
        if (!j && l && !l->last)
            coord_clients_unknown(cl, p->id);
        return errmsg_fail(err, ENOENT, "job %" PRIu64 " is not waited for any more", p->id);
    }
    if (l)
        return resume(cl, l, req, p, err);
    if (p->received > 0)
        return errmsg_fail(err, ENOENT, "what is left of job %" PRIu64 " is not kept any more",
                           p->id);
    if (p->id == 0 || p->id >= JOB_EXEC_BIT)
        return errmsg_fail(err, EINVAL, "%" PRIu64 " is not a job", p->id);
    if ((rc = recent_take(cl, p->id))) {
        int ret = answer_recent(cl, req, p, rc->json, err);

        free(rc);
        return ret;
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
    l->token = p->token;
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

    bool over = l->last != NULL;

    if (canceled)
        flux_respond_error(cl->coord->ctx->h, l->req, ENODATA, "canceled");
    listener_drop(cl, l);
    if (over)
        return;
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

/* The requests of a client that may return are not found. */
static struct listener *find(struct client *c, uint32_t matchtag)
{
    LIST_FOREACH(it, &c->listeners)
    {
        struct listener *l = list_entry(it, struct listener, node);

        if (l->lost)
            continue;
        if (!matchtag || (!l->last && flux_msg_matchtag(l->req) == matchtag))
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

/* What cannot be resumed ends as with its client. */
void coord_clients_away(struct clients *cl, const flux_msg_t *notice)
{
    char sender[FLUX_SENDER_MAX];
    struct client *c = hmap_get(cl->map, flux_msg_sender(notice, sender, sizeof(sender)));

    if (!c)
        return;
    LIST_FOREACH_SAFE(it, tmp, &c->listeners)
    {
        struct listener *l = list_entry(it, struct listener, node);

        if (!coord_listener_away(l)) {
            coord_clients_gone(cl, sender, 0);
            return;
        }
    }
    if (presence_ask(cl->presence, notice) < 0)
        flux_log(cl->coord->ctx->h, LOG_WARNING,
                 "out of memory: it is not known whether the client of a job has ended");
}

void coord_clients_lost(struct clients *cl, const idset_t *ranks)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(cl->map, &pos, NULL, NULL, &val)) {
        LIST_FOREACH(it, &((struct client *)val)->listeners)
        {
            struct listener *l = list_entry(it, struct listener, node);
            uint32_t rank = claim_sender_rank(l->req);

            if (rank != UINT32_MAX && idset_test(ranks, rank))
                (void)coord_listener_lost(l);
        }
    }
}

static void client_ended(void *arg, const flux_msg_t *notice)
{
    struct clients *cl = arg;
    char sender[FLUX_SENDER_MAX];

    coord_clients_gone(cl, flux_msg_sender(notice, sender, sizeof(sender)), 0);
}

/* --- reload --- */

/* Requests that are over come in their order. */
static void save_listener(const struct listener *l, flux_handover_t *o)
{
    coord_listener_save(l, o);
    flux_handover_put(o, l->rj != NULL);
}

void coord_clients_save(struct clients *cl, flux_handover_t *o)
{
    size_t pos = 0;
    void *val;

    flux_handover_put_mark(o, "clients");
    while (hmap_next(cl->map, &pos, NULL, NULL, &val)) {
        LIST_FOREACH(it, &((struct client *)val)->listeners)
        {
            const struct listener *l = list_entry(it, struct listener, node);

            if (!l->last)
                save_listener(l, o);
        }
    }
    LIST_FOREACH(it, &cl->overs)
    save_listener(list_entry(it, struct listener, over), o);
    flux_handover_put_msg(o, NULL);
    LIST_FOREACH(it, &cl->order)
    {
        const struct recent *rc = list_entry(it, struct recent, node);

        flux_handover_put_str(o, rc->json);
        flux_handover_put(o, rc->id);
    }
    flux_handover_put_str(o, NULL);
    presence_save(cl->presence, o);
}

static void load_listener(struct clients *cl, struct listener *l, flux_handover_t *o)
{
    bool joined = flux_handover_get(o, 1);
    struct subjob *j = hmap_get_u64(cl->coord->ctx->jobs, l->id);

    if ((joined && (!j || !j->rj || j->rj->l || l->last)) || !flux_handover_ok(o)) {
        flux_handover_fail(o, EPROTO);
        coord_listener_destroy(l);
    } else if (add(cl, l) < 0) {
        flux_handover_fail(o, ENOMEM);
        coord_listener_destroy(l);
    } else if (joined) {
        l->rj = j->rj;
        j->rj->l = l;
    } else if (l->last) {
        keep_over(cl, l);
    } else if (hmap_put_u64(cl->early, l->id, l) < 0) {
        listener_drop(cl, l);
        flux_handover_fail(o, ENOMEM);
    }
}

void coord_clients_load(struct clients *cl, flux_handover_t *o)
{
    struct listener *l;
    const char *json;

    flux_handover_get_mark(o, "clients");
    while ((l = coord_listener_load(cl->coord->ctx->h, o)))
        load_listener(cl, l, o);
    while ((json = flux_handover_get_str(o)))
        recent_keep(cl, flux_handover_get(o, UINT64_MAX), json);
    presence_load(cl->presence, o);
}

/* --- start and end --- */

struct clients *coord_clients_create(struct coord *r)
{
    struct clients *cl = calloc(1, sizeof(*cl));

    if (!cl)
        return NULL;
    cl->coord = r;
    list_init(&cl->order);
    list_init(&cl->overs);
    cl->over = hmap_create_u64(NULL);
    cl->presence = presence_create(r->ctx->h, client_ended, cl);
    cl->map = hmap_create_str(NULL);
    cl->early = hmap_create_u64(NULL);
    cl->recent = hmap_create_u64(free);
    if (!cl->map || !cl->early || !cl->recent || !cl->over || !cl->presence) {
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
    while (!list_empty(&cl->overs))
        listener_drop(cl, list_entry(list_first(&cl->overs), struct listener, over));
    presence_destroy(cl->presence);
    hmap_destroy(cl->over);
    hmap_destroy(cl->early);
    hmap_destroy(cl->recent);
    hmap_destroy(cl->map);
    free(cl);
}
