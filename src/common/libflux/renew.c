/* renew.c - the requests that a handle sends again when it has returned to its broker
 * (FLUX_O_RECONNECT).
 *
 *    request                                    after the return
 *    with FLUX_MSGF_IDEMPOTENT, unanswered      sent again (pending.c), with the same match tag
 *    (with FLUX_MSGF_WHOLE: without any response)
 *    event.subscribe, event.unsubscribe,        the same: their effect on the old connection has
 *    unanswered                                 ended with it
 *    event.subscribe, answered or given up      made again, once for each subscription, before
 *                                               other requests
 *    any other                                  had ended with ECONNRESET
 *
 * Invariants:
 *  1. `subs` has each prefix once, with the number of its subscriptions that are confirmed, or
 *     whose futures were destroyed.
 *  2. Subscriptions that the back handler makes, between renew_take() and renew_subscribe(), are
 *     not made again, since they belong to the new connection.
 *
 * Failure: if memory to note a subscription is short, or the broker refuses to renew one, events
 * would be missed without notice: the connection then counts as lost.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "event_wire.h"
#include "handle_private.h"

#define SUBSCRIBE "event.subscribe"
#define UNSUBSCRIBE "event.unsubscribe"

struct subscription {
    struct list_node node;
    unsigned count;
    char prefix[];
};

struct renew {
    struct list_node subs;
    struct list_node old; /* subscriptions of the last connection, to be made again */
    bool failed;          /* a subscription could not be noted */
};

struct renew *renew_create(void)
{
    struct renew *r = calloc(1, sizeof(*r));

    if (r) {
        list_init(&r->subs);
        list_init(&r->old);
    }
    return r;
}

static void sub_free(struct subscription *s)
{
    list_remove(&s->node);
    free(s);
}

void renew_destroy(struct renew *r)
{
    if (r) {
        int saved = errno;

        renew_take(r);
        LIST_FOREACH_SAFE(it, tmp, &r->old)
        sub_free(list_entry(it, struct subscription, node));
        free(r);
        errno = saved;
    }
}

bool renew_is_first(const flux_msg_t *req)
{
    return strcmp(flux_msg_topic(req), SUBSCRIBE) == 0;
}

bool renew_keeps(const flux_msg_t *req)
{
    return flux_msg_has_flag(req, FLUX_MSGF_IDEMPOTENT) ||
           strcmp(flux_msg_topic(req), SUBSCRIBE) == 0 ||
           strcmp(flux_msg_topic(req), UNSUBSCRIBE) == 0;
}

static struct subscription *find(struct renew *r, const char *prefix)
{
    LIST_FOREACH(it, &r->subs)
    {
        struct subscription *s = list_entry(it, struct subscription, node);

        if (strcmp(s->prefix, prefix) == 0)
            return s;
    }
    return NULL;
}

static struct subscription *add(struct renew *r, const char *prefix)
{
    size_t size = strlen(prefix) + 1;
    struct subscription *s = malloc(sizeof(*s) + size);

    if (s) {
        s->count = 0;
        memcpy(s->prefix, prefix, size);
        list_append(&r->subs, &s->node);
    }
    return s;
}

void renew_note(struct renew *r, const flux_msg_t *req)
{
    bool more = strcmp(flux_msg_topic(req), SUBSCRIBE) == 0;
    const char *json = flux_msg_json(req);
    struct event_prefix in;
    struct subscription *s;
    json_t *owner;

    if ((!more && strcmp(flux_msg_topic(req), UNSUBSCRIBE) != 0) || !json)
        return;
    if (!(owner = flux_schema_decode(&event_prefix_schema, json, strlen(json), &in, NULL))) {
        r->failed = true;
        return;
    }
    s = find(r, in.prefix);
    if (more && !s && !(s = add(r, in.prefix)))
        r->failed = true;
    else if (more)
        s->count++;
    else if (s && --s->count == 0)
        sub_free(s);
    json_decref(owner);
}

static void renewed_cb(flux_future_t *f, void *arg)
{
    char text[FLUX_MSG_TOPIC_MAX + 200];

    if (flux_future_errnum(f) && flux_future_errnum(f) != EPIPE) {
        snprintf(text, sizeof(text), "a subscription could not be renewed: %.200s",
                 flux_future_error(f));
        flux_handle_lost(flux_future_handle(f), text);
    }
    flux_future_destroy(f);
}

void renew_take(struct renew *r)
{
    list_splice(&r->old, &r->subs);
}

/* Confirmed subscriptions are noted again (renew_note()). */
void renew_subscribe(struct renew *r, flux_t *h)
{
    struct list_node *n;

    while ((n = list_first(&r->old))) {
        struct subscription *s = list_entry(n, struct subscription, node);

        while (s->count-- > 0 && !r->failed) {
            flux_future_t *f = flux_event_subscribe(h, s->prefix);

            if (!f || flux_future_then(f, -1., renewed_cb, NULL) < 0) {
                flux_future_destroy(f);
                r->failed = true;
            }
        }
        sub_free(s);
    }
    if (r->failed)
        flux_handle_lost(h, "out of memory to renew its subscriptions");
}
