/* future.c - pending requests, and their results.
 *
 * Every request that wants a response has a match tag, and a `pending` in the handle's table under
 * that tag.  A future owns one pending (plain or streaming RPC) or a window of them (one per rank).
 * Its results form a queue, whose head is the current result.
 *
 *    kind        results                                over when
 *    plain       one                                    it has come
 *    streaming   any number with the streaming flag     one without it came (an error, or ENODATA)
 *    many-rank   one per rank, in the order of arrival  all ranks have answered
 *
 * Invariants:
 *  1. A pending is in the table exactly as long as a response is wanted.  A late response finds
 *     none and is dropped.
 *  2. Results reach the caller in the order of arrival.  A timeout of flux_future_then() is a
 *     result like any other.
 *  3. The callback is called once per result, and may destroy the future.
 *  4. At most MRPC_WINDOW requests of one many-rank future are outstanding.
 *  5. While the connection is away (FLUX_O_RECONNECT), only requests that are sent again are
 *     pending: all others have ended with ECONNRESET.
 *  6. A change of the connection marks or ends all pendings before it calls back for any: a
 *     callback may wait until the connection has changed again.
 *  7. While the connection is away, a request that would wait is refused once UNSENT_MAX bytes
 *     wait.
 *  8. A cancel request has no response and may be lost; the stream's last response shows that it
 *     was not.  While other responses keep coming, it is sent again each time their number has
 *     doubled.  A stream without responses costs nothing, and ends with the connection.
 *
 * Failure: a request that cannot be sent becomes a result with the error.  NULL is returned only
 * for lack of memory and bad arguments.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "future.h"
#include "event.h"
#include "handle_private.h"
#include "cancel_wire.h"
#include "libutil/clock.h"

#define MRPC_WINDOW 4096
#define TAG_MAX 0x7fffffffu
#define CANCELED_MAX 4096 /* canceled streams that are remembered */
#define UNSENT_MAX (64u * 1024 * 1024)
#define HEARD_MIN 4 /* responses that may have been under way at the cancel */
#define AWAY_TEXT                                                                  \
    "the broker has gone away and may return: whether it has handled the request " \
    "is not known"

struct pending {
    flux_future_t *f;
    uint32_t tag;
    uint32_t rank;
    struct list_node node; /* in future.pendings */
    flux_msg_t *req;       /* to be sent again if the connection returns; else NULL */
    size_t unsent;         /* its bytes, if it waits for that; else 0 */
};

struct result {
    struct list_node node;
    flux_msg_t *msg;  /* NULL: an error made here */
    int errnum;       /* of an error made here */
    const char *text; /* constant; of an error made here */
    uint32_t rank;
    bool embedded;
};

struct flux_future {
    flux_t *h;
    struct list_node node;       /* in pending_table.futures */
    struct list_node ended_node; /* in pending_table.ended */
    struct list_node pendings;
    struct list_node results;
    struct pending pending0; /* saves an allocation in the usual case */
    struct result result0;
    bool pending0_used;
    bool result0_used;
    bool streaming;
    bool in_callback;
    bool filling;   /* sending to many ranks: responses may come before the send returns */
    bool taken;     /* the callback has released the result for which it was called */
    bool destroyed; /* to be freed once it is neither in its callback nor filling */
    flux_future_f cb;
    void *arg;
    double timeout;
    flux_watcher_t *timer;
    flux_watcher_t *defer; /* calls back for results that had come earlier */
    json_t *decoded;
    char *topic; /* streaming: for the cancel request; many-rank: to send the rest */
    uint32_t nodeid;
    /* many-rank */
    char *json;
    unsigned flags;
    uint32_t *ranks;
    size_t nranks;
    size_t next_rank;
    size_t outstanding;
};

/* A canceled stream whose last response has not come yet. */
struct canceled {
    flux_t *h;
    uint32_t tag;
    uint32_t nodeid;
    unsigned flags;
    unsigned heard; /* responses since the cancel */
    char topic[];   /* of the cancel request */
};

struct pending_table {
    hmap_t *by_tag;
    hmap_t *canceled; /* by tag */
    struct list_node futures;
    struct list_node ended; /* futures that are called back for a change of the connection */
    size_t unsent;          /* bytes of requests that wait for the connection */
    uint32_t last_tag;
};

struct pending_table *pending_table_create(void)
{
    struct pending_table *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    list_init(&t->futures);
    list_init(&t->ended);
    t->by_tag = hmap_create_u64(NULL);
    t->canceled = hmap_create_u64(free);
    if (!t->by_tag || !t->canceled) {
        hmap_destroy(t->by_tag);
        hmap_destroy(t->canceled);
        free(t);
        return NULL;
    }
    return t;
}

void pending_table_destroy(struct pending_table *t)
{
    if (t) {
        struct list_node *n;
        while ((n = list_first(&t->futures)))
            flux_future_destroy(list_entry(n, struct flux_future, node));
        hmap_destroy(t->by_tag);
        hmap_destroy(t->canceled);
        free(t);
    }
}

/* `tag`: that of a request sent by a previous instance; 0: choose one. */
static struct pending *pending_add(flux_future_t *f, uint32_t rank, uint32_t tag)
{
    struct pending_table *t = flux_handle_pending(f->h);
    struct pending *p;

    if (tag && hmap_get_u64(t->by_tag, tag))
        return NULL;

    if (!f->pending0_used) {
        p = &f->pending0;
        f->pending0_used = true;
    } else if (!(p = malloc(sizeof(*p))))
        return NULL;
    /* A reloaded module gets responses for its predecessor: their tags must not collide. */
    if (t->last_tag == 0)
        t->last_tag = (uint32_t)flux_random(f->h) & TAG_MAX;
    if (!tag) {
        do {
            t->last_tag = t->last_tag >= TAG_MAX ? 1 : t->last_tag + 1;
        } while (hmap_get_u64(t->by_tag, t->last_tag));
        tag = t->last_tag;
    }
    p->f = f;
    p->rank = rank;
    p->tag = tag;
    p->req = NULL;
    p->unsent = 0;
    if (hmap_put_u64(t->by_tag, p->tag, p) < 0) {
        if (p == &f->pending0)
            f->pending0_used = false;
        else
            free(p);
        return NULL;
    }
    list_append(&f->pendings, &p->node);
    return p;
}

static void set_unsent(struct pending *p, bool unsent)
{
    struct pending_table *t = flux_handle_pending(p->f->h);

    t->unsent -= p->unsent;
    p->unsent = unsent ? flux_msg_encoded_size(p->req) : 0;
    t->unsent += p->unsent;
}

static void pending_drop(struct pending *p)
{
    flux_future_t *f = p->f;

    set_unsent(p, false);
    hmap_del_u64(flux_handle_pending(f->h)->by_tag, p->tag);
    list_remove(&p->node);
    flux_msg_destroy(p->req);
    if (p == &f->pending0)
        f->pending0_used = false;
    else
        free(p);
}

/* Nobody waits any more for the answers that have not come. */
static void give_up(flux_future_t *f)
{
    LIST_FOREACH_SAFE(it, tmp, &f->pendings)
    {
        struct pending *p = list_entry(it, struct pending, node);

        if (p->req)
            renew_note(flux_handle_renew(f->h), p->req);
        pending_drop(p);
    }
}

static void result_free(flux_future_t *f, struct result *res)
{
    list_remove(&res->node);
    flux_msg_destroy(res->msg);
    res->msg = NULL;
    if (res->embedded)
        f->result0_used = false;
    else
        free(res);
}

static struct result *result_head(const flux_future_t *f)
{
    struct list_node *n = list_first(&f->results);

    return n ? list_entry(n, struct result, node) : NULL;
}

static bool more_to_come(const flux_future_t *f)
{
    return !list_empty(&f->pendings) || f->next_rank < f->nranks;
}

static void arm_timer(flux_future_t *f)
{
    if (f->timer && f->timeout > 0. && !result_head(f) && more_to_come(f))
        flux_timer_start(f->timer, f->timeout, 0.);
}

/* Call back for each result, as long as the callback releases it (flux_future_next()). */
static void run_callback(flux_future_t *f)
{
    if (f->in_callback || f->filling)
        return;
    f->in_callback = true;
    while (f->cb && result_head(f) && !f->destroyed) {
        flux_watcher_stop(f->timer);
        f->taken = false;
        f->cb(f, f->arg);
        if (!f->taken)
            break;
    }
    f->in_callback = false;
    if (f->destroyed)
        flux_future_destroy(f);
    else
        arm_timer(f);
}

/* Queue a result.  `msg` is taken over. */
static void add_result(flux_future_t *f, uint32_t rank, flux_msg_t *msg, int errnum,
                       const char *text)
{
    struct result *res;

    if (!f->result0_used) {
        res = &f->result0;
        f->result0_used = true;
        res->embedded = true;
    } else if ((res = malloc(sizeof(*res))))
        res->embedded = false;
    else {
        /* The result that is lost must not be the one that ends the future: record the failure in
         * the last queued result instead. */
        struct result *last = list_entry(f->results.prev, struct result, node);
        flux_msg_destroy(msg);
        flux_msg_destroy(last->msg);
        last->msg = NULL;
        last->errnum = ENOMEM;
        last->text = "out of memory for a response";
        return;
    }
    res->msg = msg;
    res->errnum = errnum;
    res->text = text;
    res->rank = rank;
    list_append(&f->results, &res->node);
}

static void mrpc_fill(flux_future_t *f);

static void cancel(const struct canceled *c)
{
    const struct cancel body = {c->tag};
    char *json = flux_schema_encode(&cancel_schema, &body);
    flux_msg_t *msg = json ? flux_msg_create(FLUX_MSG_REQUEST, c->topic) : NULL;

    if (!msg)
        goto done;
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE | c->flags);
    flux_msg_set_nodeid(msg, c->nodeid);
    if (flux_msg_set_json(msg, json) < 0)
        flux_msg_destroy(msg);
    else
        (void)flux_send(c->h, msg);
done:
    free(json);
}

/* The last response shows that the cancel was handled.  A few others may have been under way; if
 * they keep coming, the cancel was lost and is sent again. */
static void heard_of_canceled(struct pending_table *t, const flux_msg_t *msg)
{
    struct canceled *c = hmap_get_u64(t->canceled, flux_msg_matchtag(msg));

    if (!c)
        return;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
        hmap_del_u64(t->canceled, c->tag);
    else if (++c->heard >= HEARD_MIN && (c->heard & (c->heard - 1)) == 0)
        cancel(c);
}

void pending_deliver(struct pending_table *t, flux_msg_t *msg)
{
    struct pending *p = hmap_get_u64(t->by_tag, flux_msg_matchtag(msg));
    flux_future_t *f;
    uint32_t rank;

    if (!p) {
        heard_of_canceled(t, msg);
        flux_msg_destroy(msg);
        return;
    }
    f = p->f;
    rank = p->rank;
    if (!f->streaming || !flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
        if (p->req && flux_msg_errnum(msg) == 0)
            renew_note(flux_handle_renew(f->h), p->req);
        pending_drop(p);
        f->outstanding--;
    }
    add_result(f, rank, msg, 0, NULL);
    mrpc_fill(f);
    run_callback(f);
}

/* Callbacks may create or destroy futures: work on a list of our own. */
static void take_futures(struct pending_table *t, struct list_node *all)
{
    list_init(all);
    list_splice(all, &t->futures);
}

static flux_future_t *next_future(struct pending_table *t, struct list_node *all)
{
    struct list_node *n = list_first(all);

    if (!n)
        return NULL;
    list_remove(n);
    list_append(&t->futures, n);
    return list_entry(n, struct flux_future, node);
}

static const char *send_error_text(int errnum)
{
    switch (errnum) {
    case EPIPE:
        return "the connection to the broker was lost";
    case ECONNRESET:
        return AWAY_TEXT;
    case ENOBUFS:
        return "too many bytes wait to be sent to the broker: read responses first";
    case ENOMEM:
        return "out of memory for a request";
    default:
        return "the request could not be sent";
    }
}

/* End a request without a response. */
static void end_pending(struct pending_table *t, struct pending *p, int errnum, const char *text)
{
    flux_future_t *f = p->f;
    uint32_t rank = p->rank;

    pending_drop(p);
    f->outstanding--;
    add_result(f, rank, NULL, errnum, text);
    list_remove(&f->ended_node);
    list_append(&t->ended, &f->ended_node);
}

/* A callback may wait, and so come here again. */
static void call_ended(struct pending_table *t)
{
    struct list_node *n;

    while ((n = list_first(&t->ended))) {
        flux_future_t *f = list_entry(n, struct flux_future, ended_node);

        list_remove(n);
        mrpc_fill(f);
        run_callback(f);
    }
}

void pending_away(struct pending_table *t)
{
    uint64_t tag;
    size_t pos = 0;

    while (hmap_next(t->canceled, &pos, NULL, &tag, NULL))
        hmap_del_u64(t->canceled, tag);
    LIST_FOREACH(fit, &t->futures)
    {
        flux_future_t *f = list_entry(fit, struct flux_future, node);

        LIST_FOREACH_SAFE(it, tmp, &f->pendings)
        {
            struct pending *p = list_entry(it, struct pending, node);

            if (p->req)
                set_unsent(p, true);
            else
                end_pending(t, p, ECONNRESET, AWAY_TEXT);
        }
    }
    call_ended(t);
}

static void send_again(struct pending_table *t, bool first)
{
    LIST_FOREACH(fit, &t->futures)
    {
        flux_future_t *f = list_entry(fit, struct flux_future, node);

        LIST_FOREACH_SAFE(it, tmp, &f->pendings)
        {
            struct pending *p = list_entry(it, struct pending, node);

            if (!p->unsent || renew_is_first(p->req) != first)
                continue;
            if (flux_send(f->h, flux_msg_incref(p->req)) == 0)
                set_unsent(p, false);
            else if (errno != ECONNRESET)
                end_pending(t, p, errno, send_error_text(errno));
        }
    }
}

void pending_back(struct pending_table *t)
{
    send_again(t, true);
    send_again(t, false);
    call_ended(t);
}

void pending_fail_all(struct pending_table *t, int errnum, const char *why)
{
    struct list_node all;
    flux_future_t *f;

    take_futures(t, &all);
    while ((f = next_future(t, &all))) {
        bool any = more_to_come(f);

        f->next_rank = f->nranks;
        LIST_FOREACH_SAFE(it, tmp, &f->pendings)
        pending_drop(list_entry(it, struct pending, node));
        if (any) {
            add_result(f, f->nodeid, NULL, errnum, why);
            run_callback(f);
        }
    }
}

static flux_future_t *future_create(flux_t *h)
{
    flux_future_t *f = calloc(1, sizeof(*f));

    if (!f)
        return NULL;
    f->h = h;
    list_init(&f->ended_node);
    list_init(&f->pendings);
    list_init(&f->results);
    f->nodeid = FLUX_NODEID_ANY;
    list_append(&flux_handle_pending(h)->futures, &f->node);
    return f;
}

/* Tell the service of a streaming request that nobody listens any more. */
static void send_cancel(flux_future_t *f)
{
    struct list_node *n = list_first(&f->pendings);
    struct pending_table *t = flux_handle_pending(f->h);
    const char *dot = strchr(f->topic, '.');
    struct canceled *c;

    if (!n || flux_handle_is_lost(f->h) || flux_handle_is_away(f->h) ||
        !(c = calloc(1, sizeof(*c) + FLUX_MSG_TOPIC_MAX + 8)))
        return;
    c->h = f->h;
    c->tag = list_entry(n, struct pending, node)->tag;
    c->nodeid = f->nodeid;
    c->flags = f->flags & (FLUX_MSGF_UPSTREAM | FLUX_MSGF_RING);
    snprintf(c->topic, FLUX_MSG_TOPIC_MAX + 8, "%.*s.cancel",
             dot ? (int)(dot - f->topic) : (int)strlen(f->topic), f->topic);
    cancel(c);
    if (hmap_count(t->canceled) >= CANCELED_MAX || hmap_put_u64(t->canceled, c->tag, c) < 0)
        free(c);
}

void flux_future_destroy(flux_future_t *f)
{
    if (f) {
        int saved = errno;
        if (f->in_callback || f->filling) {
            f->destroyed = true;
            return;
        }
        if (f->streaming && f->topic)
            send_cancel(f);
        give_up(f);
        LIST_FOREACH_SAFE(it, tmp, &f->results)
        result_free(f, list_entry(it, struct result, node));
        list_remove(&f->node);
        list_remove(&f->ended_node);
        flux_watcher_destroy(f->timer);
        flux_watcher_destroy(f->defer);
        json_decref(f->decoded);
        free(f->topic);
        free(f->json);
        free(f->ranks);
        free(f);
        errno = saved;
    }
}

/* Send `req` (taken over) as one of the future's requests. */
static void send_request(flux_future_t *f, flux_msg_t *req, uint32_t rank)
{
    struct pending_table *t = flux_handle_pending(f->h);
    struct pending *p;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        if (flux_send(f->h, req) < 0)
            add_result(f, rank, NULL, errno, send_error_text(errno));
        else
            add_result(f, rank, NULL, 0, "");
        return;
    }
    if (!(p = pending_add(f, rank, 0))) {
        flux_msg_destroy(req);
        add_result(f, rank, NULL, ENOMEM, send_error_text(ENOMEM));
        return;
    }
    f->outstanding++;
    flux_msg_set_matchtag(req, p->tag);
    if (flux_handle_renew(f->h) && renew_keeps(req)) {
        p->req = flux_msg_incref(req);
        if (flux_handle_is_away(f->h)) {
            flux_msg_destroy(req);
            if (t->unsent <= UNSENT_MAX) {
                set_unsent(p, true);
            } else {
                pending_drop(p);
                f->outstanding--;
                add_result(f, rank, NULL, ENOBUFS, send_error_text(ENOBUFS));
            }
            return;
        }
    }
    if (flux_send(f->h, req) < 0) {
        int errnum = errno;
        if (f->pending0_used || !list_empty(&f->pendings)) {
            /* A failed transport has dropped all pendings already. */
            LIST_FOREACH_SAFE(it, tmp, &f->pendings)
            {
                if (list_entry(it, struct pending, node) == p) {
                    if (p->req && errnum == ECONNRESET) {
                        if (t->unsent <= UNSENT_MAX) {
                            set_unsent(p, true);
                            break;
                        }
                        errnum = ENOBUFS;
                    }
                    pending_drop(p);
                    f->outstanding--;
                    add_result(f, rank, NULL, errnum, send_error_text(errnum));
                    break;
                }
            }
        }
    }
}

flux_future_t *flux_rpc_msg(flux_t *h, flux_msg_t *req)
{
    flux_future_t *f = future_create(h);

    if (!f)
        goto error;
    f->nodeid = flux_msg_nodeid(req);
    if (flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        f->streaming = true;
        f->flags = flux_msg_flags(req);
        if (!(f->topic = strdup(flux_msg_topic(req))))
            goto error;
    }
    send_request(f, req, f->nodeid);
    return f;
error:
    flux_msg_destroy(req);
    flux_future_destroy(f);
    errno = ENOMEM;
    return NULL;
}

uint32_t flux_rpc_tag(const flux_future_t *f)
{
    struct list_node *n = list_first(&f->pendings);

    return n ? list_entry(n, struct pending, node)->tag : 0;
}

flux_future_t *flux_rpc_resume(flux_t *h, const char *topic, uint32_t nodeid, unsigned flags,
                               uint32_t tag)
{
    flux_future_t *f = future_create(h);

    if (!f)
        goto error;
    f->nodeid = nodeid;
    f->flags = flags;
    f->streaming = (flags & FLUX_MSGF_STREAMING) != 0;
    if (f->streaming && !(f->topic = strdup(topic)))
        goto error;
    if (!tag)
        add_result(f, nodeid, NULL, EIO, send_error_text(EIO));
    else if (!pending_add(f, nodeid, tag))
        goto error;
    else
        f->outstanding++;
    return f;
error:
    flux_future_destroy(f);
    errno = ENOMEM;
    return NULL;
}

/* Send to as many ranks as may be outstanding.  Responses that come during a send are counted in
 * this loop, not by recursion, which could be as deep as the number of ranks. */
static void mrpc_fill(flux_future_t *f)
{
    if (f->filling)
        return;
    f->filling = true;
    while (!f->destroyed && f->next_rank < f->nranks && f->outstanding < MRPC_WINDOW) {
        uint32_t rank = f->ranks[f->next_rank++];
        flux_msg_t *msg = rpc_make_request(f->topic, rank, f->flags);

        if (!msg || (f->json && flux_msg_set_json(msg, f->json) < 0)) {
            flux_msg_destroy(msg);
            add_result(f, rank, NULL, ENOMEM, send_error_text(ENOMEM));
        } else
            send_request(f, msg, rank);
    }
    f->filling = false;
}

flux_future_t *flux_mrpc(flux_t *h, const char *topic, const char *json, const uint32_t *ranks,
                         size_t nranks, unsigned flags)
{
    flux_future_t *f;
    flux_msg_t *probe;

    if (nranks == 0 || (flags & FLUX_MSGF_STREAMING)) {
        errno = EINVAL;
        return NULL;
    }
    /* If one request is invalid, all are: fail at once. */
    if (!(probe = rpc_make_request(topic, 0, flags)) || flux_msg_set_json(probe, json) < 0) {
        flux_msg_destroy(probe);
        return NULL;
    }
    flux_msg_destroy(probe);
    if (!(f = future_create(h)))
        return NULL;
    f->flags = flags;
    if (!(f->topic = strdup(topic)) || (json && !(f->json = strdup(json))) ||
        !(f->ranks = malloc(nranks * sizeof(*ranks)))) {
        flux_future_destroy(f);
        errno = ENOMEM;
        return NULL;
    }
    memcpy(f->ranks, ranks, nranks * sizeof(*ranks));
    f->nranks = nranks;
    mrpc_fill(f);
    return f;
}

uint32_t flux_mrpc_rank(const flux_future_t *f)
{
    struct result *res = result_head(f);

    return res ? res->rank : FLUX_NODEID_ANY;
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_future_t *f = arg;

    if (f->streaming && f->topic)
        send_cancel(f);
    f->next_rank = f->nranks;
    give_up(f);
    add_result(f, f->nodeid, NULL, ETIMEDOUT, "no response came in time");
    run_callback(f);
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    run_callback(arg);
}

int flux_future_then(flux_future_t *f, double timeout, flux_future_f cb, void *arg)
{
    flux_reactor_t *r = flux_get_reactor(f->h);

    if (timeout > 0. && !f->timer && !(f->timer = flux_timer_create(r, timer_cb, f)))
        return -1;
    f->cb = cb;
    f->arg = arg;
    f->timeout = timeout;
    if (!result_head(f)) {
        arm_timer(f);
        return 0;
    }
    if (!f->defer && !(f->defer = flux_defer_create(r, defer_cb, f)))
        return -1;
    flux_watcher_start(f->defer);
    return 0;
}

int flux_future_wait(flux_future_t *f, double timeout)
{
    double left = timeout > 0. ? timeout : -1.;
    double end = timeout > 0. ? clock_now() + timeout : 0.;

    while (!result_head(f)) {
        if (!more_to_come(f)) {
            errno = ENODATA;
            return -1;
        }
        if (flux_handle_wait(f->h, left) < 0) {
            if (result_head(f))
                break;
            return -1;
        }
        if (timeout > 0. && !result_head(f) && (left = end - clock_now()) <= 0.) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

bool flux_future_ready(const flux_future_t *f)
{
    return result_head(f) != NULL;
}

int flux_future_next(flux_future_t *f)
{
    struct result *res = result_head(f);

    if (res) {
        result_free(f, res);
        f->taken = true;
    }
    json_decref(f->decoded);
    f->decoded = NULL;
    if (result_head(f)) {
        if (f->cb && !f->in_callback) {
            if (!f->defer && !(f->defer = flux_defer_create(flux_get_reactor(f->h), defer_cb, f)))
                return -1;
            flux_watcher_start(f->defer);
        }
        return 0;
    }
    if (!more_to_come(f)) {
        errno = ENODATA;
        return -1;
    }
    if (!f->in_callback)
        arm_timer(f);
    return 0;
}

flux_t *flux_future_handle(const flux_future_t *f)
{
    return f->h;
}

int flux_future_errnum(const flux_future_t *f)
{
    struct result *res = result_head(f);

    if (!res)
        return EAGAIN;
    return res->msg ? flux_msg_errnum(res->msg) : res->errnum;
}

const char *flux_future_error(const flux_future_t *f)
{
    struct result *res = result_head(f);
    const char *text;

    if (!res)
        return "no response has come yet";
    if (!res->msg)
        return res->text;
    if (flux_msg_errnum(res->msg) == 0)
        return "";
    text = flux_msg_json(res->msg);
    return text ? text : strerror(flux_msg_errnum(res->msg));
}

const flux_msg_t *flux_rpc_get_msg(flux_future_t *f)
{
    struct result *res = result_head(f);

    return res ? res->msg : NULL;
}

void future_keep_decoded(flux_future_t *f, json_t *obj)
{
    json_decref(f->decoded);
    f->decoded = obj;
}
