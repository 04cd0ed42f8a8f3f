/* pending.c - requests that have no response yet.
 *
 * Every request that expects a response has a match tag.  Under that tag, the handle's table has a
 * `pending`, which belongs to a future (future.c).
 *
 * Invariants:
 *  1. A pending is in the table exactly as long as its future expects a response.  A late response
 *     finds no pending and is dropped.
 *  2. While the connection is away (FLUX_O_RECONNECT), only requests that are sent again are
 *     pending: all others have ended with ECONNRESET.
 *  3. A change of the connection marks or ends all pendings before the first callback: a callback
 *     may wait until the connection has changed again.
 *  4. While the connection is away, a request that would wait is refused once UNSENT_MAX bytes
 *     wait.
 *  5. A cancel request has no response and may be lost; the last response of the stream shows that
 *     it was handled.  While other responses keep coming, it is sent again each time their number
 *     has doubled.  A stream without responses costs nothing, and ends with the connection.
 *
 *  6. With FLUX_O_RECONNECT, a stream with FLUX_MSGF_IDEMPOTENT is also sent again when a broker on
 *     its path was lost (EHOSTUNREACH) after its first response; before that, brokers send it
 *     again.  There is at least one response between two repetitions, so they end when the service
 *     cannot be reached.
 *  7. A stream with FLUX_MSGF_WHOLE is not sent again after its first response.
 *
 * Failure: a request that cannot be sent becomes a result with the error.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cancel_wire.h"
#include "event.h"
#include "future_private.h"

#define TAG_MAX 0x7fffffffu
#define CANCELED_MAX 4096 /* canceled streams that are remembered */
#define UNSENT_MAX (64u * 1024 * 1024)
#define HEARD_MIN 4 /* responses that may already have been sent before the cancel */
#define AWAY_TEXT                                                                  \
    "the broker has gone away and may return: whether it has handled the request " \
    "is not known"

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

void pending_join(flux_future_t *f)
{
    list_append(&flux_handle_pending(f->h)->futures, &f->node);
}

struct pending *pending_add(flux_future_t *f, uint32_t rank, uint32_t tag)
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
    p->heard = false;
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

void pending_give_up(flux_future_t *f)
{
    LIST_FOREACH_SAFE(it, tmp, &f->pendings)
    {
        struct pending *p = list_entry(it, struct pending, node);

        if (p->req)
            renew_note(flux_handle_renew(f->h), p->req);
        pending_drop(p);
    }
}

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

/* The last response shows that the cancel was handled.  A few other responses may have been sent
 * before; if more come, the cancel was lost and is sent again. */
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

/* Do its responses belong together? */
static bool whole(const struct pending *p)
{
    return flux_msg_has_flag(p->req, FLUX_MSGF_WHOLE);
}

/* A stream has ended after its first response, because a broker on its path was lost: true if its
 * request is sent again. */
static bool begins_anew(struct pending *p, const flux_msg_t *last)
{
    if (!p->req || !p->heard || flux_msg_errnum(last) != EHOSTUNREACH || whole(p))
        return false;
    p->heard = false;
    if (flux_send(p->f->h, flux_msg_incref(p->req)) == 0)
        return true;
    if (errno != ECONNRESET)
        return false;
    set_unsent(p, true);
    return true;
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
    if (f->streaming && flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
        p->heard = true;
    } else if (begins_anew(p, msg)) {
        flux_msg_destroy(msg);
        return;
    } else {
        if (p->req && flux_msg_errnum(msg) == 0)
            renew_note(flux_handle_renew(f->h), p->req);
        pending_drop(p);
        f->outstanding--;
    }
    future_add_result(f, rank, msg, 0, NULL);
    future_fill(f);
    future_call_back(f);
}

/* Callbacks may create or destroy futures, so move them to a list of this function. */
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

const char *pending_error_text(int errnum)
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
    future_add_result(f, rank, NULL, errnum, text);
    list_remove(&f->ended_node);
    list_append(&t->ended, &f->ended_node);
}

/* A callback may wait for a future, and so call this function again. */
static void call_ended(struct pending_table *t)
{
    struct list_node *n;

    while ((n = list_first(&t->ended))) {
        flux_future_t *f = list_entry(n, struct flux_future, ended_node);

        list_remove(n);
        future_fill(f);
        future_call_back(f);
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

            if (p->req && !(p->heard && whole(p)))
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
                end_pending(t, p, errno, pending_error_text(errno));
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
        bool any = future_more_to_come(f);

        f->next_rank = f->nranks;
        LIST_FOREACH_SAFE(it, tmp, &f->pendings)
        pending_drop(list_entry(it, struct pending, node));
        if (any) {
            future_add_result(f, f->nodeid, NULL, errnum, why);
            future_call_back(f);
        }
    }
}

void pending_cancel(flux_future_t *f)
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

void pending_send(flux_future_t *f, flux_msg_t *req, uint32_t rank)
{
    struct pending_table *t = flux_handle_pending(f->h);
    struct pending *p;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE)) {
        if (flux_send(f->h, req) < 0)
            future_add_result(f, rank, NULL, errno, pending_error_text(errno));
        else
            future_add_result(f, rank, NULL, 0, "");
        return;
    }
    if (!(p = pending_add(f, rank, 0))) {
        flux_msg_destroy(req);
        future_add_result(f, rank, NULL, ENOMEM, pending_error_text(ENOMEM));
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
                future_add_result(f, rank, NULL, ENOBUFS, pending_error_text(ENOBUFS));
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
                    future_add_result(f, rank, NULL, errnum, pending_error_text(errnum));
                    break;
                }
            }
        }
    }
}
