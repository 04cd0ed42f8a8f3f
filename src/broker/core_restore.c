/* core_restore.c - a subtree returns to its place.
 *
 * Purpose: a broker dies, the brokers below it connect to an ancestor (core_heal.c), and the broker
 * is started again, as a leaf.  When it has stayed for a while (settle), or on request, the
 * ancestor, their foster parent, gives the subtrees back, one at a time.  Each child is connected
 * to its next parent before it leaves the foster parent.  It moves one step down: from a broker to
 * another child of that broker.  A broker with too many children gives them to others in the same
 * way (core_spread.c); on the way back from there, the step leads up: from a broker to its parent.
 * Then overlay.expect and overlay.given go up, and overlay.expected comes down.  This file has the
 * parts of the foster parent and of the next parent; core_change.c has that of the child.
 *
 * Drawing (restore): rank 1 has come back, and rank 3, whose place is below it, is below rank 0.
 *
 *     rank 3                      rank 0                      rank 1
 *        |                           |                           |
 *        |                           | overlay.expect (rank 3)   |
 *        |                           |-------------------------->| holds what is for rank 3
 *        |                           |                           | and below
 *        |                overlay.go |          overlay.expected |
 *        |<--------------------------|<--------------------------|
 *        | connects, with the ticket on the card of rank 1       |
 *        |------------------------------------------------------>|
 *        | overlay.hello                                         |
 *        |------------------------------------------------------>|
 *        |                                       overlay.welcome |
 *        |<------------------------------------------------------|
 *        | holds what is for above   |                           |
 *        | overlay.leaving           |                           |
 *        |-------------------------->| rank 3 is below rank 1    |
 *        |             overlay.given | overlay.given             |
 *        |<--------------------------|-------------------------->|
 *        | overlay.arrived, and then what was held               |
 *        |------------------------------------------------------>| sends what it held
 *        |                           |                           |
 *        | answers to what was asked before, in both directions  |
 *        |<------------------------->|                           |
 *        | overlay.done              |                           |
 *        |-------------------------->|                           |
 *        |              overlay.over |                           |
 *        |<--------------------------|                           |
 *        | ends the connection
 *
 * Connections: the old connection stays as long as requests that have passed on it are not
 * answered; new requests take the new way.  A stream may thus keep the old connection for long.
 * Its loss ends these requests, as the loss of any neighbor does; requests that may be sent again
 * take the new way (core_inflight.c).
 *
 * Flapping: a broker that came back and is lost again too soon has to stay twice as long the next
 * time, up to FLAPS_MAX doublings.  Too soon is before it has stayed for twice the time after which
 * it would have got its subtree.
 *
 * Invariants:
 *  1. A broker gives away one child at a time.  It alone decides whether the child has left: until
 *     overlay.given names the new parent, the child belongs to the foster parent.
 *  2. Each of the three brokers sends its mark (overlay.expected, overlay.leaving, overlay.given)
 *     behind all requests that it has sent the old way, and holds later requests until the receiver
 *     has got the mark.  So no request overtakes another one that was sent before.
 *  3. The child accepts events from its parent only.  It is welcomed when the next parent can send
 *     it events, and leaves when it has all events that the next parent had at the welcome.  So the
 *     next parent has sent, or can send, the events that it misses then; the child asks again for
 *     those that came too early (`ahead`).
 *  4. `expected` and `second` are gone when the parent is lost.
 *  5. A broker expects one child at a time.  What another neighbor offers meanwhile (`offered`) has
 *     to wait.
 *  6. A broker that moves itself gives no child to its parent meanwhile, and the reverse.
 *  7. After a step up, the next parent gets what the ranks have sent by the old way before what
 *     they send by the new one: it says overlay.given itself, when it has got that from the foster
 *     parent, and the child waits for both.  So the step changes nothing of what the next parent
 *     knows of these ranks, and the next parent reports the move.
 *
 * Failure: when the move takes longer than GIVE_MAX seconds, or one of the three brokers is lost,
 * the child stays where it is, or heals.  The move is tried again after the same time as at first,
 * and then after twice the time each time, up to FAILS_MAX doublings, until one of the two comes
 * back; moves of other children are not affected.  The first failure of several is logged as an
 * error, the others for debugging only, by the foster parent and by the child.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"

#define GIVE_MAX 10.
#define FLAPS_MAX 6
#define FAILS_MAX 4

/* A request overlay.restore. */
struct ask {
    struct list_node node;
    flux_msg_t *req;
    idset_t *ranks;
    idset_t *moved;
    char why[200]; /* reason for the first rank that was not moved */
};

struct restore {
    flux_watcher_t *timer; /* the next child is due, or the present move is late */
    struct list_node asks;
    /* Members of the foster parent. */
    struct peer *child; /* child of the present move; NULL: none */
    struct peer *to;    /* next parent of `child`: another child, or the parent */
    bool spreads;       /* `to` is not nearer to its place */
    bool expected;      /* `to` holds the requests for it */
    /* Members of the next parent. */
    uint32_t guest;       /* the child of the ranks `expected` */
    struct peer *giver;   /* ... and its foster parent: the parent, or another child */
    bool guest_due;       /* ... which has not been notified */
    idset_t *guest_below; /* ranks that are up there, by its hello; NULL: no hello yet */
};

bool restore_can(const core_t *c)
{
    return heal_can(c) && c->link->beside && c->link->swap && c->link->drop;
}

void restore_send(core_t *c, struct peer *p, const struct flux_method *m, uint32_t rank,
                  uint32_t parent, uint32_t number)
{
    const struct control_moved moved = {
        .rank = rank,
        .parent = parent,
        .move = number,
        .keys = m == &control_down[CONTROL_EXPECT] ? core_key_of(c, rank) : NULL};

    overlay_send(c, p, m, &moved);
}

bool restore_raises(const core_t *c)
{
    return c->restore->child && !c->restore->to->is_child;
}

/* Tell the next parent of this rank who its parent is. */
static void send_given(core_t *c, struct peer *to, uint32_t rank, uint32_t parent, uint32_t number)
{
    restore_send(c, to, to->is_child ? &control_down[CONTROL_GIVEN] : &control_up[CONTROL_GAVE],
                 rank, parent, number);
}

/* --- the foster parent: the next child --- */

/* Return the place of an adopted child: another child, which is up, or for a guest, the parent.
 * NULL: the child stays. */
static struct peer *place_of(core_t *c, const struct peer *p)
{
    struct peer *to;

    if (!spread_is_there(p) || topology_parent(c->topo, p->rank) == c->cfg.rank)
        return NULL;
    if (spread_is_guest(c, p->rank))
        return c->parent->up && !c->healing && !c->second &&
                       spread_way_back(c, p->rank) != TOPOLOGY_NONE
                   ? c->parent
                   : NULL;
    to = hmap_get_u64(c->child_by_rank, topology_next_hop(c->topo, c->cfg.rank, p->rank));
    return to != p && spread_is_there(to) && idset_test(c->up, to->rank) ? to : NULL;
}

static double delay_of(const core_t *c, const struct peer *to)
{
    return c->cfg.settle * (double)(1u << to->flaps);
}

static double due_at(const core_t *c, const struct peer *child, const struct peer *to)
{
    if (to->at_once || child->at_once)
        return 0.;
    if (c->cfg.settle <= 0.)
        return INFINITY;
    return child->due > to->due ? child->due : to->due;
}

/* Defer the move of a child until its broker has stayed for the full time from now on. */
static void defer(core_t *c, struct peer *p)
{
    p->due = flux_reactor_now(c->r) + delay_of(c, p);
}

static void ask_free(struct ask *a)
{
    list_remove(&a->node);
    flux_msg_destroy(a->req);
    idset_destroy(a->ranks);
    idset_destroy(a->moved);
    free(a);
}

static void answer(core_t *c, struct ask *a)
{
    char *moved = idset_format(a->moved, 0);
    const struct overlay_restored out = {moved, a->why[0] ? a->why : NULL};

    if (moved)
        flux_respond_struct(c->h, a->req, &overlay_restored_schema, &out);
    else
        flux_respond_error(c->h, a->req, ENOMEM, "rank %u is out of memory", c->cfg.rank);
    free(moved);
    ask_free(a);
}

/* Answer the requests overlay.restore: no child is left to be moved at once. */
static void answer_all(core_t *c)
{
    struct list_node *n;

    for (uint32_t i = 0; i < c->nchildren; i++)
        c->children[i]->at_once = false;
    while ((n = list_first(&c->restore->asks)))
        answer(c, list_entry(n, struct ask, node));
}

static void begin(core_t *c, struct peer *child, struct peer *to, bool spreads)
{
    struct restore *r = c->restore;

    r->child = child;
    r->to = to;
    r->spreads = spreads;
    r->expected = false;
    flux_timer_start(r->timer, GIVE_MAX, 0.);
    restore_send(c, to, to->is_child ? &control_down[CONTROL_EXPECT] : &control_up[CONTROL_TAKE],
                 child->rank, to->rank, 0);
}

/* A child that was asked for is on its way here: where it has to go from here is known when it has
 * arrived. */
static bool awaits(const core_t *c)
{
    for (uint32_t i = 0; i < c->nchildren && !list_empty(&c->restore->asks); i++)
        if (c->children[i]->arriving && c->children[i]->at_once)
            return true;
    return false;
}

struct next {
    struct peer *child; /* NULL: only the time is known */
    struct peer *to;
    bool spreads;
    double due; /* INFINITY: never */
};

/* Find the child whose move is due next: to its place, or to a host. */
static void find_next(core_t *c, struct next *n)
{
    double hosts_due;
    struct peer *host = spread_host(c, &hosts_due);

    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        struct peer *to = place_of(c, p);
        bool spreads = !to && host && spread_may_go(c, p);
        double due = spreads ? p->stays : to ? due_at(c, p, to) : INFINITY;

        if (due < n->due)
            *n = (struct next){p, spreads ? host : to, spreads, due};
    }
    if (hosts_due < n->due)
        *n = (struct next){.due = hosts_due};
}

void restore_plan(core_t *c)
{
    struct restore *r = c->restore;
    double now = flux_reactor_now(c->r);
    struct next n = {.due = INFINITY};

    if (r->child)
        return;
    if (c->state == CORE_RUN && restore_can(c))
        find_next(c, &n);
    if (n.child && n.due <= now) {
        begin(c, n.child, n.to, n.spreads);
        return;
    }
    if (isfinite(n.due))
        flux_timer_start(r->timer, n.due - now, 0.);
    else
        flux_watcher_stop(r->timer);
    if (!awaits(c))
        answer_all(c);
}

/* Returns whether a request overlay.restore is for a move of a child to its next parent. */
static bool asks_for(const core_t *c, const struct ask *a, uint32_t child, const struct peer *to)
{
    return idset_test(a->ranks, to->is_child ? to->rank : spread_way_back(c, child));
}

/* Defer the next attempt to move a child after one that failed, and log the first one. */
static void failed(core_t *c, struct peer *child, struct peer *to, const char *why)
{
    const double most = (double)(1u << FAILS_MAX);
    double times = (double)(1u << child->fails);
    double first = c->restore->spreads ? SPREAD_AGAIN : delay_of(c, to->is_child ? to : child);
    double now = flux_reactor_now(c->r);

    if (c->restore->spreads) {
        child->stays = now + first * times;
        to->stays = now + first;
    } else {
        child->due = now + first * times;
    }
    if (child->fails > 0 || first <= 0.)
        core_log(c, child->fails > 0 ? LOG_DEBUG : LOG_ERR, "rank %u stays below rank %u: %s",
                 child->rank, c->cfg.rank, why);
    else
        core_log(c, LOG_ERR,
                 "rank %u stays below rank %u: %s; the change is tried again in %g s, and then "
                 "less often, at least every %g s",
                 child->rank, c->cfg.rank, why, first, first * most);
    if (child->fails < FAILS_MAX)
        child->fails++;
}

/* End the present move: the child stays. */
static void give_up(core_t *c, const char *why)
{
    struct restore *r = c->restore;
    struct peer *child = r->child;
    struct peer *to = r->to;

    failed(c, child, to, why);
    r->child = r->to = NULL;
    to->at_once = child->at_once = false;
    if (to->up)
        send_given(c, to, child->rank, c->cfg.rank, 0);
    if (child->up)
        restore_send(c, child, &control_down[CONTROL_GIVEN], child->rank, c->cfg.rank, 0);
    LIST_FOREACH(it, &c->restore->asks)
    {
        struct ask *a = list_entry(it, struct ask, node);

        if (asks_for(c, a, child->rank, to) && !a->why[0])
            snprintf(a->why, sizeof(a->why), "rank %u stays below rank %u: %.120s", child->rank,
                     c->cfg.rank, why);
    }
}

static void timer_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    if (c->restore->child)
        give_up(c, "the change of its parent has taken too long");
    restore_plan(c);
}

static void guest_over(core_t *c);

/* The loss of its parent may not be known here yet. */
void restore_taken(core_t *c, struct peer *p)
{
    if (restore_expects(c, p->rank))
        guest_over(c); /* it has lost the one that would have given it */
    p->fails = 0;
    defer(c, p);
    restore_plan(c);
}

void restore_back(core_t *c, const idset_t *ranks)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        bool guest = spread_is_guest(c, p->rank);
        bool way = idset_test(ranks, guest ? spread_way_back(c, p->rank)
                                           : topology_next_hop(c->topo, c->cfg.rank, p->rank));

        if (way && p->fails > 0) {
            p->fails = 0;
            p->due = 0.; /* that of the broker that is back decides */
        }
        if (idset_test(ranks, p->rank))
            p->since = flux_reactor_now(c->r);
        if (idset_test(ranks, p->rank) || (guest && way))
            defer(c, p);
    }
    restore_plan(c);
}

void restore_request_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct overlay_restore in;
    struct ask *a = NULL;
    errmsg_t err = {""};
    json_t *owner;

    if (flux_request_decode(h, req, &overlay_restore_schema, &in, &owner) < 0)
        return;
    if (!restore_can(c))
        flux_respond_error(h, req, ENOTSUP,
                           "ranks of this session do not change their parents: it has "
                           "heal.timeout=0");
    else if (!(a = calloc(1, sizeof(*a))))
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory", c->cfg.rank);
    else {
        list_init(&a->node);
        a->ranks = idset_parse(in.ranks, &err);
        a->moved = idset_create();
        a->req = flux_msg_incref((flux_msg_t *)req);
        if (!a->ranks || !a->moved) {
            flux_respond_error(h, req, a->ranks ? ENOMEM : EPROTO, "%s", err.text);
            ask_free(a);
            a = NULL;
        }
    }
    json_decref(owner);
    if (!a)
        return;
    list_append(&c->restore->asks, &a->node);
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        p->at_once |=
            idset_test(a->ranks, p->rank) ||
            (spread_is_guest(c, p->rank) && idset_test(a->ranks, spread_way_back(c, p->rank)));
    }
    restore_plan(c);
}

/* --- the foster parent: the move of a child --- */

void restore_expected_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_expected *e = in;
    struct restore *r = c->restore;
    struct control_card card = {0};

    if (p != r->to || r->expected || r->child->rank != e->rank) {
        send_given(c, p, e->rank, c->cfg.rank, 0);
        return;
    }
    r->expected = true;
    if (flux_schema_decode_json(&control_card_schema, json_array_get(e->cards, 0), &card, NULL) < 0)
        give_up(c, "its next parent cannot be reached");
    else
        overlay_send(c, r->child, &control_down[CONTROL_GO], &card);
    restore_plan(c);
}

static void log_below(core_t *c, uint32_t rank, uint32_t parent)
{
    core_log(c, LOG_NOTICE, "rank %u is below rank %u %s", rank, parent,
             topology_parent(c->topo, rank) == parent ? "again" : "now");
}

/* Give the child away: it is below another child, or the parent, from now on. */
static void give(core_t *c, const struct control_moved *m)
{
    struct restore *r = c->restore;
    struct peer *child = r->child;
    struct peer *to = r->to;

    if (!moves_apply(c, m)) {
        give_up(c, "its change of parents is not its latest");
        return;
    }
    r->child = r->to = NULL;
    if (to->is_child)
        moves_tell(c, m);
    send_given(c, to, m->rank, m->parent, m->move);
    restore_send(c, child, &control_down[CONTROL_GIVEN], m->rank, m->parent, m->move);
    child->up = child->event_up = false;
    child->former = child->absent = true;
    child->wants = 0;
    child->fails = 0;
    child->at_once = false;
    if (c->link->quiet)
        c->link->quiet(c->link_arg, child->rank);
    log_below(c, m->rank, m->parent);
    LIST_FOREACH(it, &r->asks)
    {
        struct ask *a = list_entry(it, struct ask, node);

        if (!r->spreads && asks_for(c, a, m->rank, to))
            (void)idset_set(a->moved, m->rank);
    }
    if (!to->is_child)
        moves_gave_up(c, m->rank);
    route_held(c, child);
}

void restore_leaving_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;
    const struct restore *r = c->restore;
    const struct control_moved own = {.rank = p->rank, .parent = m->parent, .move = m->move};

    if (p->former)
        return;
    if (p != r->child || !r->expected) {
        if (m->parent != c->cfg.rank)
            restore_send(c, p, &control_down[CONTROL_GIVEN], p->rank, c->cfg.rank, 0);
        return;
    }
    if (m->parent == r->to->rank)
        give(c, &own);
    else
        give_up(c, "it has not joined there");
    restore_plan(c);
}

/* --- the next parent --- */

bool restore_expects(const core_t *c, uint32_t rank)
{
    return c->expected && c->restore->guest == rank;
}

/* Route the held requests as before, or to the guest. */
static void guest_end(core_t *c)
{
    struct restore *r = c->restore;

    if (!c->expected)
        return;
    idset_destroy(c->expected);
    idset_destroy(r->guest_below);
    c->expected = r->guest_below = NULL;
    r->giver = NULL;
    r->guest_due = false;
    route_held(c, &c->unsettled);
}

static void expect(core_t *c, struct peer *giver, uint32_t rank)
{
    idset_t *sub =
        c->state == CORE_RUN && restore_can(c) ? topology_subtree(overlay_tree(c), rank) : NULL;

    if (!sub || idset_test(sub, c->cfg.rank) || c->second ||
        (giver->is_child && !topology_is_ancestor(overlay_tree(c), giver->rank, rank))) {
        idset_destroy(sub); /* the foster parent will give up */
        return;
    }
    c->expected = sub;
    c->restore->guest = rank;
    c->restore->giver = giver;
    c->restore->guest_due = true;
    restore_drained(c);
}

/* The guest is here, or not expected any longer: expect the next one that was offered. */
static void guest_over(core_t *c)
{
    guest_end(c);
    for (uint32_t i = 0; i < c->nchildren && !c->expected; i++) {
        struct peer *p = c->children[i];
        uint32_t rank = p->offered;

        p->offered = 0;
        if (rank != 0 && spread_is_there(p))
            expect(c, p, rank);
    }
}

void restore_expect_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;

    if (p->is_child && c->expected) {
        p->offered = m->rank;
        return;
    }
    /* What the parent gives comes first: a child of this broker makes another offer later. */
    guest_end(c);
    keys_note_one(c, m->rank, m->keys);
    expect(c, p, m->rank);
}

static void say_expected(core_t *c)
{
    struct peer *giver = c->restore->giver;
    struct control_card card = {.rank = c->cfg.rank};
    struct control_expected e = {c->restore->guest, json_array()};
    json_t *o = c->link->card(c->link_arg, &card) == 0
                    ? flux_schema_encode_json(&control_card_schema, &card)
                    : NULL;

    if (e.cards && o && json_array_append(e.cards, o) == 0)
        overlay_send(c, giver,
                     giver->is_child ? &control_down[CONTROL_TAKES] : &control_up[CONTROL_EXPECTED],
                     &e);
    json_decref(o);
    json_decref(e.cards);
}

void restore_hello(core_t *c, struct peer *p, const struct control_hello *h)
{
    idset_destroy(c->restore->guest_below);
    c->restore->guest_below = idset_parse(h->below, NULL);
    p->arriving = true;
    p->raised = c->restore->giver->is_child;
}

/* The earlier parent has released the guest: the ranks that are up there are up here. */
static void took(core_t *c, struct peer *p, const struct control_moved *m, const idset_t *below)
{
    const struct control_moved own = {.rank = p->rank, .parent = c->cfg.rank, .move = m->move};
    bool fresh = moves_apply(c, &own);

    /* A guest that loses the earlier parent before it hears of this looks for another parent. */
    p->fresh = p->arriving;
    if (fresh && p->raised)
        moves_tell(c, &own);
    else if (fresh)
        moves_remember(c, p->rank); /* the one that gave it may die with its report */
    if (below)
        heal_here(c, below);
    if (below && !p->raised && (idset_subtract(c->lost, below) < 0 || idset_add(c->up, below) < 0))
        core_log(c, LOG_ERR, "rank %u is out of memory for a subtree", c->cfg.rank);
    /* The one that gave it may know better whether the broker of its place is up. */
    if (spread_is_guest(c, p->rank))
        defer(c, p);
    idset_destroy(p->await); /* it was up elsewhere */
    p->await = NULL;
    offer_tell(c); /* its hello may have said that the heartbeat is awaited there */
    if (c->restore->guest == p->rank) /* the next guest may be expected */
        guest_over(c);
}

void restore_arrived_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;
    idset_t *below;
    const struct control_down_order order = {.rc = c->exit_code,
                                             .reason = c->alone ? "the broker above leaves"
                                                                : "the session is shutting down",
                                             .leave = c->alone,
                                             .alone = c->alone};

    errno = 0;
    below = m->below ? idset_parse(m->below, NULL) : NULL;
    if (m->below && !below && errno == ENOMEM)
        broken_note(c, p); /* the child is up here already, for itself */
    if (p->arriving && m->rank == p->rank && below && idset_test(below, p->rank)) {
        p->arriving = false;
        p->up = true;
        keys_note(c, below, m->keys);
        took(c, p, m, below);
        log_below(c, p->rank, c->cfg.rank);
        if (c->state >= CORE_DOWN)
            overlay_send(c, p, &control_down[CONTROL_SHUTDOWN], &order);
        route_held(c, p);
        restore_plan(c);
    }
    idset_destroy(below);
}

void restore_drained(core_t *c)
{
    struct restore *r = c->restore;

    if (r && r->guest_due && r->giver->up && list_empty(&r->giver->held)) {
        r->guest_due = false;
        say_expected(c);
    }
    if (r)
        change_drained(c);
}

/* A guest is below this broker now.  Its connection may have ended meanwhile: then it is an orphan
 * that this broker waits for. */
static void given(core_t *c, struct peer *guest, const struct control_moved *m)
{
    static const char why[] = "the connection was lost when it had just changed its parent";
    bool here = guest->arriving || guest->up;

    took(c, guest, m, c->restore->guest_below);
    if (guest->arriving && guest->raised)
        restore_send(c, guest, &control_down[CONTROL_GIVEN], m->rank, m->parent, m->move);
    if (here)
        return;
    guest->fresh = true;
    (void)heal_child_lost(c, guest, RANK_LOST, why);
}

void restore_given_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;
    struct restore *r = c->restore;
    struct peer *guest = hmap_get_u64(c->child_by_rank, m->rank);

    if (m->rank != c->cfg.rank) {
        if (p->offered == m->rank)
            p->offered = 0;
        if (!c->expected || r->guest != m->rank || r->giver != p)
            return;
        if (m->parent == c->cfg.rank && guest && r->guest_below)
            given(c, guest, m);
        else
            guest_over(c);
        return;
    }
    change_given(c, p, m);
}

struct peer *restore_peer(const core_t *c, uint32_t rank)
{
    return c->second && c->second->rank == rank ? c->second : former_find(c, rank);
}

/* --- losses --- */

/* Count a child that was lost again soon after it came back.  The end of a connection says nothing
 * of a rank that is below another broker. */
static void count_flap(core_t *c, struct peer *p)
{
    double stayed = flux_reactor_now(c->r) - p->since;
    bool flaps = p->since > 0. && stayed < 2. * delay_of(c, p);

    p->flaps = !flaps ? 0 : p->flaps < FLAPS_MAX ? p->flaps + 1 : FLAPS_MAX;
    if (flaps && topology_nchildren(c->topo, p->rank) > 0)
        core_log(c, LOG_WARNING,
                 "rank %u is lost again, %.1f s after it came back: next time it has to stay for "
                 "%g s before it gets its subtree back",
                 p->rank, stayed, delay_of(c, p));
}

void restore_left(core_t *c, struct peer *p)
{
    struct restore *r = c->restore;

    p->offered = 0;
    if (p->arriving && !r->child)
        flux_timer_start(r->timer, 0., 0.); /* nobody waits for it any more */
    if (p == r->giver) {
        p->up = false;
        guest_over(c);
    }
    if (p->is_child && (p == r->child || p == r->to)) {
        p->up = false;
        give_up(c, p == r->child ? "it is lost" : "its next parent is lost");
        flux_timer_start(r->timer, 0., 0.);
    }
}

bool restore_lost(core_t *c, struct peer *p, const char *why)
{
    struct restore *r = c->restore;

    if (change_lost(c, p, why))
        return true;
    if (!p->is_child && p->former) {
        former_lost(c, p, why);
        return true;
    }
    restore_left(c, p);
    /* A lost rank was put back into its place here, but has not arrived.  An earlier guest was
     * taken over before. */
    if (p->arriving && restore_expects(c, p->rank) && !census_is_gone(c, p->rank) &&
        topology_parent(overlay_tree(c), p->rank) == c->cfg.rank) {
        const struct control_moved m = {.rank = p->rank, .parent = c->cfg.rank};

        took(c, p, &m, r->guest_below); /* the event has arrived before overlay.given */
    }
    if (p->is_child && c->state == CORE_RUN && !p->former && !p->gone &&
        idset_test(c->up, p->rank) && topology_parent(overlay_tree(c), p->rank) == c->cfg.rank)
        count_flap(c, p);
    return false;
}

/* --- start and end --- */

void restore_stop(core_t *c)
{
    change_stop(c);
    for (uint32_t i = 0; i < c->nchildren; i++)
        c->children[i]->offered = 0;
    guest_end(c);
    if (c->restore->child && !c->restore->to->is_child) {
        give_up(c, "the broker above is lost");
        flux_timer_start(c->restore->timer, 0., 0.);
    }
}

void restore_end(core_t *c)
{
    struct restore *r = c->restore;

    r->child = r->to = NULL;
    restore_stop(c);
    flux_watcher_stop(r->timer);
    answer_all(c);
}

int restore_init(core_t *c)
{
    struct restore *r = c->restore = calloc(1, sizeof(*r));

    if (!r)
        return -1;
    list_init(&r->asks);
    return (r->timer = flux_timer_create(c->r, timer_cb, c)) && former_init(c) == 0 &&
                   change_init(c) == 0
               ? 0
               : -1;
}

void restore_destroy(core_t *c)
{
    struct restore *r = c->restore;
    struct list_node *n;

    if (!r)
        return;
    while (r->asks.next && (n = list_first(&r->asks)))
        ask_free(list_entry(n, struct ask, node));
    change_destroy(c);
    idset_destroy(c->expected);
    idset_destroy(r->guest_below);
    flux_watcher_destroy(r->timer);
    former_destroy(c);
    free(r);
    c->restore = NULL;
}
