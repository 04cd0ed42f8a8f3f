/* core_event.c - one order of events for the whole session.
 *
 * The root numbers events from 1.  A broker accepts event n+1 after n and no other; what it accepts
 * it keeps for a while, passes to its children and delivers to local subscribers.  A number that is
 * skipped is noticed and asked for from the parent:
 *
 *    to parent    "event.replay"   {"from":n}    send again what you have from n on
 *    to child     the events themselves, in order, on the tree plane
 *                 "event.skip"     {"to":n}      events up to n are not kept any more
 *                 "event.replayed" {"last":n}    that was all up to n
 *
 * A child whose event link is not in place yet gets its events on the tree plane, one by one.
 *
 * Invariants:
 *  1. `last` only grows, by one, except when the parent says that events are lost (logged as an
 * error).
 *  2. The log holds the events up to `last` without a gap, at most event_buffer bytes of them (and
 * one); that of a broker without children holds none.
 *  3. An event reaches a subscriber once, however many of its prefixes match.
 *  4. An event that is accepted while another is passed on (a subscriber published it at once) is
 * passed on after it.
 *  5. Events that come before the parent's welcome are kept (EARLY_MAX) until it tells where to
 * begin.
 *
 * Failure: without memory for the log an event is still passed on; the log then begins after it.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "eventlog.h"

#define EARLY_MAX 1024
#define SUBSCRIPTIONS_MAX 4096 /* prefixes of one endpoint: each event is compared with all */

struct queued {
    struct list_node node;
    flux_msg_t *msg;
};

struct event_log {
    eventlog_t *past;
    uint64_t last; /* newest event accepted, and the newest of `past` */
    uint64_t seen; /* newest event that came, accepted or dropped for a gap before it */
    bool replaying;
    bool passing_on;
    struct list_node queue; /* struct queued: accepted, to be passed on */
    struct {
        flux_msg_t *msgs[EARLY_MAX];
        size_t count;
    } * early;
};

struct subscription {
    struct list_node node;
    unsigned count;
    char prefix[];
};

int event_init(core_t *c)
{
    if (!(c->events = calloc(1, sizeof(*c->events))))
        return -1;
    list_init(&c->events->queue);
    return (c->events->past = eventlog_create(c->cfg.event_buffer)) ? 0 : -1;
}

static void drop_early(struct event_log *l)
{
    if (l->early) {
        for (size_t i = 0; i < l->early->count; i++)
            flux_msg_destroy(l->early->msgs[i]);
        free(l->early);
        l->early = NULL;
    }
}

void event_destroy(core_t *c)
{
    if (c->events) {
        eventlog_destroy(c->events->past);
        drop_early(c->events);
        LIST_FOREACH_SAFE(it, tmp, &c->events->queue)
        {
            struct queued *q = list_entry(it, struct queued, node);
            flux_msg_destroy(q->msg);
            free(q);
        }
        free(c->events);
        c->events = NULL;
    }
}

uint64_t core_event_seq(const core_t *c)
{
    return c->events->last;
}

/* Keep the event that makes `last` grow by one; nobody asks a leaf for it. */
static void log_append(core_t *c, const flux_msg_t *msg)
{
    struct event_log *l = c->events;

    l->last++;
    if (c->nchildren > 0)
        (void)eventlog_append(l->past, msg);
}

static bool subscribed(endpoint_t *ep, const char *topic)
{
    LIST_FOREACH(it, &ep->subs)
    {
        if (flux_topic_prefix(topic, list_entry(it, struct subscription, node)->prefix))
            return true;
    }
    return false;
}

static void deliver(core_t *c, flux_msg_t *msg)
{
    struct list_node *it = c->subscribers.next;

    while (it != &c->subscribers) {
        endpoint_t *ep = list_entry(it, struct endpoint, sub_node);
        uint64_t left = c->subscribers_left;

        if (ep->event_seen < flux_msg_seq(msg)) {
            ep->event_seen = flux_msg_seq(msg);
            if (subscribed(ep, flux_msg_topic(msg)))
                ep->ops->send(ep->arg, flux_msg_incref(msg));
        }
        /* Being told it may have left, with others: those that were told are passed over. */
        it = left == c->subscribers_left ? it->next : c->subscribers.next;
    }
}

static void pass_down(core_t *c, flux_msg_t *msg)
{
    if (c->nchildren == 0)
        return;
    c->link->publish(c->link_arg, msg);
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = &c->children[i];
        if (p->event_up) {
            c->stats.event_down++;
        } else if (p->up && !p->lost && !p->gone) {
            flux_msg_t *cpy = flux_msg_incref(msg);
            if (c->link->send(c->link_arg, CORE_TREE, p->rank, cpy, true) < 0)
                flux_msg_destroy(cpy);
            else
                c->stats.tree_down++;
        }
    }
}

static void pass_on(core_t *c, flux_msg_t *msg)
{
    pass_down(c, msg);
    overlay_event(c, msg);
    deliver(c, msg);
}

static void accept_event(core_t *c, flux_msg_t *msg)
{
    struct event_log *l = c->events;
    struct queued *q;
    struct list_node *n;

    log_append(c, msg);
    c->stats.events++;
    if (l->passing_on) {
        if (!(q = malloc(sizeof(*q)))) {
            core_log(c, LOG_CRIT, "rank %u is out of memory: event %llu is out of order",
                     c->cfg.rank, (unsigned long long)flux_msg_seq(msg));
            pass_on(c, msg);
            return;
        }
        q->msg = flux_msg_incref(msg);
        list_append(&l->queue, &q->node);
        return;
    }
    l->passing_on = true;
    pass_on(c, msg);
    while ((n = list_first(&l->queue))) {
        q = list_entry(n, struct queued, node);
        list_remove(n);
        pass_on(c, q->msg);
        flux_msg_destroy(q->msg);
        free(q);
    }
    l->passing_on = false;
}

static void ask_replay(core_t *c)
{
    struct event_log *l = c->events;
    flux_msg_t *msg;
    char json[40];

    if (l->replaying || !c->parent || c->parent->lost)
        return;
    snprintf(json, sizeof(json), "{\"from\":%llu}", (unsigned long long)l->last + 1);
    if (!(msg = flux_msg_create(FLUX_MSG_CONTROL, "event.replay")))
        return;
    if (flux_msg_set_json(msg, json) < 0) {
        flux_msg_destroy(msg);
        return;
    }
    if (route_control(c, c->parent, msg) == 0)
        l->replaying = true;
}

void event_input(core_t *c, flux_msg_t *msg)
{
    struct event_log *l = c->events;
    uint64_t seq = flux_msg_seq(msg);

    if (seq > l->seen)
        l->seen = seq;
    if (c->state == CORE_JOIN) {
        if (!l->early)
            l->early = calloc(1, sizeof(*l->early));
        if (l->early && l->early->count < EARLY_MAX)
            l->early->msgs[l->early->count++] = flux_msg_incref(msg);
    } else if (seq == l->last + 1)
        accept_event(c, msg);
    else if (seq > l->last) {
        if (!l->replaying)
            c->stats.gaps++;
        ask_replay(c);
    }
    flux_msg_destroy(msg);
}

void event_set_last(core_t *c, uint64_t seq)
{
    struct event_log *l = c->events;

    eventlog_clear(l->past);
    l->last = seq;
    if (l->early) {
        typeof(l->early) early = l->early;
        l->early = NULL;
        for (size_t i = 0; i < early->count; i++)
            event_input(c, early->msgs[i]);
        free(early);
    }
    if (l->seen > l->last) /* more came early than could be kept */
        ask_replay(c);
}

struct replay {
    core_t *c;
    struct peer *child;
};

static int replay_one(void *arg, flux_msg_t *msg)
{
    struct replay *r = arg;

    if (r->c->link->send(r->c->link_arg, CORE_TREE, r->child->rank, msg, true) < 0) {
        flux_msg_destroy(msg);
        return -1;
    }
    r->c->stats.tree_down++;
    return 0;
}

void event_replay(core_t *c, struct peer *child, uint64_t from)
{
    struct event_log *l = c->events;
    uint64_t first = l->last - eventlog_count(l->past) + 1;
    struct replay r = {c, child};
    flux_msg_t *msg;
    char json[40];

    c->stats.replays++;
    if (from < first) {
        snprintf(json, sizeof(json), "{\"to\":%llu}", (unsigned long long)first - 1);
        if ((msg = flux_msg_create(FLUX_MSG_CONTROL, "event.skip"))) {
            if (flux_msg_set_json(msg, json) == 0)
                route_control(c, child, msg);
            else
                flux_msg_destroy(msg);
        }
        from = first;
    }
    if (from <= l->last && eventlog_each(l->past, from - first, replay_one, &r) < 0)
        return;
    snprintf(json, sizeof(json), "{\"last\":%llu}", (unsigned long long)l->last);
    if ((msg = flux_msg_create(FLUX_MSG_CONTROL, "event.replayed"))) {
        if (flux_msg_set_json(msg, json) == 0)
            route_control(c, child, msg);
        else
            flux_msg_destroy(msg);
    }
}

void event_skip(core_t *c, uint64_t to)
{
    struct event_log *l = c->events;

    if (to <= l->last)
        return;
    core_log(
        c, LOG_CRIT,
        "rank %u missed events %llu to %llu, which its parent keeps no longer: raise event.buffer",
        c->cfg.rank, (unsigned long long)l->last + 1, (unsigned long long)to);
    eventlog_clear(l->past);
    l->last = to;
}

void event_replayed(core_t *c, uint64_t last)
{
    struct event_log *l = c->events;

    l->replaying = false;
    /* Newer ones may have overtaken the replay on the event plane, and were dropped. */
    if (last > l->last || l->seen > l->last)
        ask_replay(c);
}

int event_publish_root(core_t *c, flux_msg_t *msg, uint64_t *seq)
{
    if (!core_is_root(c)) {
        flux_msg_destroy(msg);
        errno = EINVAL;
        return -1;
    }
    flux_msg_set_seq(msg, c->events->last + 1);
    if (seq)
        *seq = c->events->last + 1;
    accept_event(c, msg);
    flux_msg_destroy(msg);
    return 0;
}

int event_publish_json(core_t *c, const char *topic, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    if (!msg || flux_msg_set_json(msg, json) < 0) {
        flux_msg_destroy(msg);
        return -1;
    }
    flux_msg_set_nodeid(msg, c->cfg.rank);
    flux_msg_set_cred(msg, c->cfg.userid, FLUX_ROLE_BROKER);
    return event_publish_root(c, msg, NULL);
}

static struct subscription *find_sub(endpoint_t *ep, const char *prefix)
{
    LIST_FOREACH(it, &ep->subs)
    {
        struct subscription *s = list_entry(it, struct subscription, node);
        if (strcmp(s->prefix, prefix) == 0)
            return s;
    }
    return NULL;
}

int event_subscribe(endpoint_t *ep, const char *prefix)
{
    struct subscription *s = find_sub(ep, prefix);

    if (!s) {
        size_t len = strlen(prefix);
        if (len > FLUX_MSG_TOPIC_MAX || ep->nsubs >= SUBSCRIPTIONS_MAX) {
            errno = len > FLUX_MSG_TOPIC_MAX ? EINVAL : ENOSPC;
            return -1;
        }
        if (!(s = malloc(sizeof(*s) + len + 1)))
            return -1;
        ep->nsubs++;
        s->count = 0;
        memcpy(s->prefix, prefix, len + 1);
        if (list_empty(&ep->subs))
            list_append(&ep->core->subscribers, &ep->sub_node);
        list_append(&ep->subs, &s->node);
    }
    s->count++;
    return 0;
}

static void sub_free(endpoint_t *ep, struct subscription *s)
{
    list_remove(&s->node);
    free(s);
    ep->nsubs--;
    if (list_empty(&ep->subs)) {
        list_remove(&ep->sub_node);
        ep->core->subscribers_left++;
    }
}

int event_unsubscribe(endpoint_t *ep, const char *prefix)
{
    struct subscription *s = find_sub(ep, prefix);

    if (!s) {
        errno = ENOENT;
        return -1;
    }
    if (--s->count == 0)
        sub_free(ep, s);
    return 0;
}

void event_unsubscribe_all(endpoint_t *ep)
{
    LIST_FOREACH_SAFE(it, tmp, &ep->subs)
    sub_free(ep, list_entry(it, struct subscription, node));
}
