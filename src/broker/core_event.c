/* core_event.c - one order of events for the whole session.
 *
 * Purpose: the root numbers events from 1, and stamps its term on them.  A broker accepts event n+1
 * only after event n.  It keeps an accepted event for a while, passes it to its children and
 * delivers it to local subscribers.  A broker that notices a gap in the numbers requests the
 * missing events from its parent.
 *
 * Format: these control messages are used:
 *
 *    to parent    "event.replay"   {"from":n}    send the events that you have from n on again
 *    to child     the events themselves, in order, on the tree plane
 *                 "event.skip"     {"to":n,...}  events up to n are no longer kept (core_view.c)
 *                 "event.replayed" {"last":n}    end of a part of the replay; n is the newest
 *                 "event.last"     {"last":n}    by now you should have all events up to n
 *                 "event.cut"      {"last":n}    no event follows n: a parent above is lost
 *
 * Replay: the parent sends REPLAY_BYTES of events for each request, so a replay never takes more
 * room in the queue to the child.  While a child does not keep up (core_event_slow()), the log may
 * grow to event_backlog, and "event.last" tells the children which events they should have, so a
 * child notices a gap at the very end without a further event.  A child whose event link is not yet
 * in place gets its events on the tree plane, one by one.
 *
 * Older events: a broker that was started lately may be asked for events from before its start.  It
 * asks its parent for them, and passes them on to the child, without keeping them.  Only when no
 * broker above has them are they skipped.
 *
 * Loss: events that cannot be replayed are reported to all local subscribers, whatever their
 * prefixes, by an event without a number of its own: topic "event.lost", payload {"from":n,"to":m},
 * where m is 0 if no event from n on will follow.  A broker that loses its parent for good drops
 * events that still arrive on the other plane.  Its children first take the events that it has
 * passed on, since "event.cut" may overtake them.  They are told only in a session whose tree does
 * not heal: otherwise they may get the events from another parent.  A broker that gets another
 * parent (core_heal.c) requests the events that it has missed from the new parent.
 *
 * Invariants:
 *  1. `last` grows by one only, except when the parent says that events are lost (logged as an
 *     error, and reported to subscribers): each number is either delivered or reported as lost.
 *  2. The log holds the events up to `last` without a gap.  Their size exceeds event_buffer (or
 *     event_backlog, see above) by at most one event.  A broker without children keeps none.
 *  3. An event reaches a subscriber once, however many of its prefixes match.
 *  4. An event that is accepted while another one is passed on (because a subscriber publishes it
 *     at once) is passed on after it.
 *  5. Events that arrive before the welcome of the parent are kept (EARLY_MAX of them) until the
 *     welcome says with which event this broker begins.
 *
 * Failure: without memory for the log an event is still passed on; the log then begins after it.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control_wire.h"
#include "core_private.h"
#include "eventlog.h"
#include "libflux/event_wire.h"

#define EARLY_MAX 1024
#define REPLAY_BYTES (1024u * 1024)
#define BEHIND 1.              /* seconds without an event after which missing ones are requested */
#define SLOW_EVERY 1.          /* seconds between two "event.last" to the children ... */
#define SLOW_FOR 60            /* ... sent this often after a child has missed events ... */
#define SLOW_FOR_BLOCKED 2     /* ... or after other children have waited for it */
#define SUBSCRIPTIONS_MAX 4096 /* prefixes of one endpoint, all compared with each event */

struct queued {
    struct list_node node;
    flux_msg_t *msg;
};

struct event_log {
    eventlog_t *past;
    uint64_t last;       /* newest event accepted, which is the newest of `past` */
    uint64_t seen;       /* newest event received, whether accepted or dropped because of a gap */
    bool replaying;      /* the parent sends events again ... */
    bool fetching;       /* ... for children ... */
    uint64_t fetch_from; /* ... from this one on */
    bool passing_on;
    bool cut;               /* no event follows ... */
    uint64_t cut_last;      /* ... this one, once it has arrived; ... */
    bool cut_announced;     /* ... subscribers have been notified */
    uint64_t expected;      /* the parent has sent all events up to this number ... */
    uint64_t behind_at;     /* ... and `last` had this value at the latest check */
    flux_watcher_t *behind; /* active while the missing events may still arrive by themselves */
    flux_watcher_t *slow;   /* active while the log may grow to event_backlog */
    unsigned slow_left;
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

/* Send a control message {"FIELD":n} to all children. */
static void tell_children(core_t *c, const struct flux_method *m, uint64_t last)
{
    struct control_number n = {.last = last};

    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (p->up && !p->lost && !p->gone)
            overlay_send(c, p, m, &n);
    }
}

/* --- older events, for children --- */

static uint64_t log_first(const struct event_log *l)
{
    return l->last - eventlog_count(l->past) + 1;
}

/* Return the first event that children wait for, or 0. */
static uint64_t fetch_next(const core_t *c)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < c->nchildren; i++) {
        uint64_t wants = c->children[i]->wants;

        if (wants > 0 && (next == 0 || wants < next))
            next = wants;
    }
    return next;
}

/* Children that wait for events up to `to` do not get them. */
static void fetch_skip(core_t *c, uint64_t to)
{
    struct event_log *l = c->events;

    if (to >= log_first(l))
        to = log_first(l) - 1;
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (p->wants > 0 && p->wants <= to) {
            view_send(c, p, to);
            p->wants = to + 1;
        }
    }
}

/* Serve those from the log that wait for events in it. */
static void fetch_serve(core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        uint64_t wants = p->wants;

        if (wants >= log_first(c->events)) {
            p->wants = 0;
            event_replay(c, p, wants);
        }
    }
}

/* Nobody above has them, or can be asked. */
static void fetch_give_up(core_t *c)
{
    c->events->fetching = false;
    fetch_skip(c, UINT64_MAX);
    fetch_serve(c);
}

/* Ask the parent for the events that children wait for, when it has sent what it was asked for
 * before. */
static void fetch(core_t *c)
{
    struct event_log *l = c->events;
    struct control_number n = {.from = fetch_next(c)};

    if (n.from == 0 || l->replaying || !c->parent->up)
        return;
    if (overlay_send(c, c->parent, &control_up[CONTROL_REPLAY], &n) < 0) {
        fetch_give_up(c);
        return;
    }
    l->replaying = l->fetching = true;
    l->fetch_from = n.from;
}

/* An event that is in the past here. */
static void fetched(core_t *c, flux_msg_t *msg)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (p->wants == 0 || p->wants != flux_msg_seq(msg))
            continue;
        p->wants++;
        if (c->link->send(c->link_arg, CORE_TREE, p->rank, flux_msg_incref(msg), true) == 0)
            c->stats.tree_down++;
        else
            flux_msg_destroy(msg); /* the child is about to be lost */
    }
}

/* A part of them has come. */
static void fetch_replayed(core_t *c)
{
    struct event_log *l = c->events;

    if (!l->fetching)
        return;
    l->fetching = false;
    fetch_serve(c);
    if (fetch_next(c) > 0 && fetch_next(c) <= l->fetch_from)
        fetch_give_up(c); /* the parent does not have them yet */
}

static void ask_replay(core_t *c)
{
    struct event_log *l = c->events;
    struct control_number n = {.from = l->last + 1};

    if (!l->replaying && c->parent && c->parent->up && !c->parent->lost &&
        overlay_send(c, c->parent, &control_up[CONTROL_REPLAY], &n) == 0)
        l->replaying = true;
}

static void behind_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    struct event_log *l = c->events;

    if (l->last >= l->expected)
        return;
    if (l->last > l->behind_at) { /* the missing events are arriving */
        l->behind_at = l->last;
        flux_timer_start(w, BEHIND, 0.);
        return;
    }
    if (l->expected > l->seen)
        l->seen = l->expected;
    ask_replay(c);
}

static void slow_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    struct event_log *l = c->events;

    if (--l->slow_left == 0) {
        flux_watcher_stop(w);
        eventlog_set_limit(l->past, c->cfg.event_buffer);
    }
    tell_children(c, &control_down[CONTROL_LAST], l->last);
}

void core_event_slow(core_t *c, bool skipped)
{
    struct event_log *l = c->events;
    unsigned more = skipped ? SLOW_FOR : SLOW_FOR_BLOCKED;

    if (more > l->slow_left)
        l->slow_left = more;
    if (flux_watcher_active(l->slow))
        return;
    if (c->cfg.event_backlog > c->cfg.event_buffer)
        eventlog_set_limit(l->past, c->cfg.event_backlog);
    flux_timer_start(l->slow, SLOW_EVERY, SLOW_EVERY);
}

int event_init(core_t *c)
{
    if (!(c->events = calloc(1, sizeof(*c->events))))
        return -1;
    list_init(&c->events->queue);
    if (!(c->events->slow = flux_timer_create(c->r, slow_cb, c)) ||
        !(c->events->behind = flux_timer_create(c->r, behind_cb, c)) ||
        !(c->events->past = eventlog_create(c->cfg.event_buffer)))
        return -1;
    return 0;
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
        flux_watcher_destroy(c->events->slow);
        flux_watcher_destroy(c->events->behind);
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

/* Record the next event.  A leaf does not record events, since no broker requests a replay from
 * it. */
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

bool event_has_subscriber(const core_t *c, const char *topic)
{
    LIST_FOREACH(it, &c->subscribers)
    {
        if (subscribed(list_entry(it, struct endpoint, sub_node), topic))
            return true;
    }
    return false;
}

/* Deliver to the subscribers of the topic, or to all. */
static void deliver(core_t *c, flux_msg_t *msg, bool all)
{
    struct list_node *it = c->subscribers.next;

    while (it != &c->subscribers) {
        endpoint_t *ep = list_entry(it, struct endpoint, sub_node);
        uint64_t left = c->subscribers_left;

        if (ep->event_seen < flux_msg_seq(msg)) {
            ep->event_seen = flux_msg_seq(msg);
            if (all || subscribed(ep, flux_msg_topic(msg)))
                ep->ops->send(ep->arg, flux_msg_incref(msg));
        }
        /* The receiver may have left, and other subscribers with it: start again, and skip the
         * subscribers that have got the event. */
        it = left == c->subscribers_left ? it->next : c->subscribers.next;
    }
}

/* Notify local subscribers that events `from` to `to` (0: all later ones) will not follow.  `seq`
 * only ensures that no subscriber is notified twice. */
static void deliver_lost(core_t *c, uint64_t from, uint64_t to, uint64_t seq)
{
    struct event_lost in = {from, to};
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "event.lost");
    char *json = flux_schema_encode(&event_lost_schema, &in);

    if (msg && json && flux_msg_set_json(msg, json) == 0) {
        flux_msg_set_seq(msg, seq);
        flux_msg_set_term(msg, c->term);
        flux_msg_set_nodeid(msg, c->cfg.rank);
        flux_msg_set_cred(msg, c->cfg.userid, FLUX_ROLE_BROKER);
        deliver(c, msg, true);
    } else
        core_log(c, LOG_CRIT,
                 "rank %u is out of memory: subscribers were not notified which events are lost",
                 c->cfg.rank);
    free(json);
    flux_msg_destroy(msg);
}

static void pass_down(core_t *c, flux_msg_t *msg)
{
    if (c->nchildren == 0)
        return;
    c->link->publish(c->link_arg, msg);
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
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
    if (c->trace)
        trace_event(c, msg);
    pass_down(c, msg);
    overlay_event(c, msg);
    deliver(c, msg, false);
    if (strcmp(flux_msg_topic(msg), EVENT_OFFERED) == 0)
        offer_tell(c); /* nobody may await the next one */
}

/* After a cut: when the last event on its way has arrived, notify subscribers and children.  If the
 * tree heals, the children end with this broker, or get the events from another parent. */
static void cut_reached(core_t *c)
{
    struct event_log *l = c->events;

    if (!l->cut || l->cut_announced || l->passing_on || l->last < l->cut_last)
        return;
    l->cut_announced = true;
    deliver_lost(c, l->last + 1, 0, l->last + 1);
    if (!heal_can(c))
        tell_children(c, &control_down[CONTROL_CUT], l->last);
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
    cut_reached(c);
}

void event_input(core_t *c, flux_msg_t *msg)
{
    struct event_log *l = c->events;
    uint64_t seq = flux_msg_seq(msg);

    if (l->cut && seq > l->cut_last) { /* it was or will be reported as lost */
        flux_msg_destroy(msg);
        return;
    }
    if (seq > l->seen)
        l->seen = seq;
    if (c->state == CORE_JOIN) {
        if (!l->early)
            l->early = calloc(1, sizeof(*l->early));
        if (l->early && l->early->count < EARLY_MAX)
            l->early->msgs[l->early->count++] = flux_msg_incref(msg);
    } else if (seq == l->last + 1) {
        accept_event(c, msg);
        if (c->second)
            restore_drained(c); /* it may have waited for this event */
    } else if (seq > l->last) {
        if (!l->replaying)
            c->stats.gaps++;
        ask_replay(c);
    } else if (l->fetching) {
        fetched(c, msg);
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
    if (l->seen > l->last) /* more events arrived early than could be kept */
        ask_replay(c);
}

struct replay {
    core_t *c;
    struct peer *child;
    size_t bytes;
};

static int replay_one(void *arg, flux_msg_t *msg)
{
    struct replay *r = arg;

    r->bytes += flux_msg_encoded_size(msg);
    if (r->c->link->send(r->c->link_arg, CORE_TREE, r->child->rank, msg, true) < 0) {
        flux_msg_destroy(msg);
        return -1;
    }
    r->c->stats.tree_down++;
    return r->bytes >= REPLAY_BYTES;
}

void event_replay(core_t *c, struct peer *child, uint64_t from)
{
    struct event_log *l = c->events;
    uint64_t first = log_first(l);
    struct replay r = {c, child, 0};
    struct control_number n = {.last = l->last};

    c->stats.replays++;
    if (from < first && !core_is_root(c) && !c->parent->lost && !l->cut) {
        child->wants = from;
        fetch(c);
        return;
    }
    if (from < first) {
        if (view_send(c, child, first - 1) < 0)
            return;
        from = first;
    }
    if (from <= l->last && eventlog_each(l->past, from - first, replay_one, &r) < 0) {
        if (errno == ENOMEM)
            core_log(c, LOG_ERR, "rank %u is out of memory to send rank %u the events it missed",
                     c->cfg.rank, child->rank);
        broken_note(c, child); /* it waits for event.replayed */
        return;
    }
    overlay_send(c, child, &control_down[CONTROL_REPLAYED], &n);
}

void event_skip(core_t *c, const struct control_skip *skip)
{
    struct event_log *l = c->events;
    uint64_t from = l->last + 1, to = skip->to;

    if (l->fetching)
        fetch_skip(c, to);
    if (to < from)
        return;
    core_log(c, LOG_CRIT,
             "rank %u missed events %llu to %llu, which its parent no longer keeps: raise "
             "event.backlog",
             c->cfg.rank, (unsigned long long)from, (unsigned long long)to);
    eventlog_clear(l->past);
    l->last = to;
    c->stats.events_lost += to - from + 1;
    view_take(c, skip);
    deliver_lost(c, from, to, to);
    tell_children(c, &control_down[CONTROL_LAST], to);
    cut_reached(c);
}

void event_moving(core_t *c)
{
    c->events->replaying = c->events->fetching = false;
}

void event_moved(core_t *c, uint64_t last)
{
    struct event_log *l = c->events;

    if (last > l->seen)
        l->seen = last;
    if (l->seen > l->last)
        ask_replay(c);
    fetch(c);
}

/* The message may have overtaken the events on the other plane: wait before asking for them. */
void event_expect(core_t *c, uint64_t last)
{
    struct event_log *l = c->events;

    if (last > l->expected)
        l->expected = last;
    if (c->state == CORE_JOIN || l->last >= l->expected || flux_watcher_active(l->behind))
        return;
    l->behind_at = l->last;
    flux_timer_start(l->behind, BEHIND, 0.);
}

void event_cut(core_t *c, uint64_t last)
{
    struct event_log *l = c->events;

    if (l->cut_announced)
        return;
    l->cut = true;
    l->cut_last = last > l->last ? last : l->last;
    if (l->seen > l->cut_last)
        l->seen = l->cut_last;
    fetch_give_up(c);
    cut_reached(c);
    if (!l->cut_announced)
        event_expect(c, l->cut_last);
}

void event_replayed(core_t *c, uint64_t last)
{
    struct event_log *l = c->events;

    l->replaying = false;
    fetch_replayed(c);
    /* Newer events may have overtaken the replay on the event plane, and were dropped. */
    if (last > l->last || l->seen > l->last)
        ask_replay(c);
    fetch(c);
}

int event_publish_root(core_t *c, flux_msg_t *msg, uint64_t *seq)
{
    if (!core_is_root(c)) {
        flux_msg_destroy(msg);
        errno = EINVAL;
        return -1;
    }
    flux_msg_set_seq(msg, c->events->last + 1);
    flux_msg_set_term(msg, c->term);
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
    if (flux_topic_prefix(EVENT_OFFERED, prefix))
        offer_tell(ep->core);
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
