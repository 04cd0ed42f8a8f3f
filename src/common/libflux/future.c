/* future.c - the results of requests (pending.c has the requests).
 *
 * A future owns one pending (plain or streaming RPC) or a window of them (one per rank).  Its
 * results form a queue, whose head is the current result.
 *
 *    kind        results                                over when
 *    plain       one                                    it has come
 *    streaming   any number with the streaming flag     one without it came (an error, or ENODATA)
 *    many-rank   one per rank, in the order of arrival  all ranks have answered
 *
 * Invariants:
 *  1. Results reach the caller in the order of arrival.  A timeout of flux_future_then() is a
 *     result like any other.
 *  2. The callback is called once per result, and may destroy the future.
 *  3. At most MRPC_WINDOW requests of one many-rank future are outstanding.
 *
 * Failure: a request that cannot be sent becomes a result with the error.  NULL is returned only
 * for lack of memory and bad arguments.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "future_private.h"
#include "libutil/clock.h"

#define MRPC_WINDOW 4096

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

bool future_more_to_come(const flux_future_t *f)
{
    return !list_empty(&f->pendings) || f->next_rank < f->nranks;
}

static void arm_timer(flux_future_t *f)
{
    if (f->timer && f->timeout > 0. && !result_head(f) && future_more_to_come(f))
        flux_timer_start(f->timer, f->timeout, 0.);
}

/* Call back for each result, as long as the callback releases it (flux_future_next()). */
void future_call_back(flux_future_t *f)
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
void future_add_result(flux_future_t *f, uint32_t rank, flux_msg_t *msg, int errnum,
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
    pending_join(f);
    return f;
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
            pending_cancel(f);
        pending_give_up(f);
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
    pending_send(f, req, f->nodeid);
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
        future_add_result(f, nodeid, NULL, EIO, pending_error_text(EIO));
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
void future_fill(flux_future_t *f)
{
    if (f->filling)
        return;
    f->filling = true;
    while (!f->destroyed && f->next_rank < f->nranks && f->outstanding < MRPC_WINDOW) {
        uint32_t rank = f->ranks[f->next_rank++];
        flux_msg_t *msg = rpc_make_request(f->topic, rank, f->flags);

        if (!msg || (f->json && flux_msg_set_json(msg, f->json) < 0)) {
            flux_msg_destroy(msg);
            future_add_result(f, rank, NULL, ENOMEM, pending_error_text(ENOMEM));
        } else
            pending_send(f, msg, rank);
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
    future_fill(f);
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
        pending_cancel(f);
    f->next_rank = f->nranks;
    pending_give_up(f);
    future_add_result(f, f->nodeid, NULL, ETIMEDOUT, "no response came in time");
    future_call_back(f);
}

static void defer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    future_call_back(arg);
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
        if (!future_more_to_come(f)) {
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
    if (!future_more_to_come(f)) {
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
