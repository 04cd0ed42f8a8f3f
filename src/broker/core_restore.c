/* core_restore.c - a subtree returns to its place.
 *
 * Purpose: a broker dies, the brokers below it connect to an ancestor (core_heal.c), and the broker
 * is started again, as a leaf.  When it has stayed for a while (settle), or on request, the
 * ancestor, their foster parent, gives the subtrees back, one at a time.  Each child is connected
 * to its next parent before it leaves the foster parent.  It moves one step down: from a broker to
 * another child of that broker.
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
 *
 * Failure: when the move takes longer than GIVE_MAX seconds, or one of the three brokers is lost,
 * the child stays where it is, or heals.  The move is tried again after the same time as at first.
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
    flux_watcher_t *idle;  /* a former parent has answered all requests */
    struct list_node asks;
    /* Members of the foster parent. */
    struct peer *child; /* child of the present move; NULL: none */
    struct peer *to;    /* next parent of `child` */
    bool expected;      /* `to` holds the requests for it */
    /* Members of the next parent. */
    uint32_t guest;       /* the child of the ranks `expected` */
    bool guest_due;       /* ... which the parent has not been notified of */
    idset_t *guest_below; /* ranks that are up there, by its hello; NULL: no hello yet */
    /* Members of the child. */
    bool welcomed;  /* `second` has sent its welcome */
    bool leaving;   /* the parent was notified */
    json_t *above;  /* cards of the welcome */
    uint64_t seq;   /* the latest event before the welcome */
    uint64_t ahead; /* the latest event that `second` has sent, which was not accepted */
};

static bool can(const core_t *c)
{
    return heal_can(c) && c->link->beside && c->link->swap && c->link->drop;
}

static void send_moved(core_t *c, struct peer *p, const struct flux_method *m, uint32_t rank,
                       uint32_t parent, uint32_t number)
{
    const struct control_moved moved = {
        .rank = rank,
        .parent = parent,
        .move = number,
        .keys = m == &control_down[CONTROL_EXPECT] ? core_key_of(c, rank) : NULL};

    overlay_send(c, p, m, &moved);
}

/* --- the foster parent: the next child --- */

static bool is_there(const struct peer *p)
{
    return p && p->up && !p->lost && !p->gone && !p->former && !p->leaving;
}

/* Return the place of an adopted child: another child, which is up.  NULL: the child stays. */
static struct peer *place_of(core_t *c, const struct peer *p)
{
    struct peer *to;

    if (!is_there(p) || topology_parent(c->topo, p->rank) == c->cfg.rank)
        return NULL;
    to = hmap_get_u64(c->child_by_rank, topology_next_hop(c->topo, c->cfg.rank, p->rank));
    return to != p && is_there(to) && idset_test(c->up, to->rank) ? to : NULL;
}

static double delay_of(const core_t *c, const struct peer *to)
{
    return c->cfg.settle * (double)(1u << to->flaps);
}

static double due_at(const core_t *c, const struct peer *child, const struct peer *to)
{
    if (to->at_once)
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

static void begin(core_t *c, struct peer *child, struct peer *to)
{
    struct restore *r = c->restore;

    r->child = child;
    r->to = to;
    r->expected = false;
    flux_timer_start(r->timer, GIVE_MAX, 0.);
    send_moved(c, to, &control_down[CONTROL_EXPECT], child->rank, to->rank, 0);
}

void restore_plan(core_t *c)
{
    struct restore *r = c->restore;
    double now = flux_reactor_now(c->r);
    double due = INFINITY;
    struct peer *child = NULL;

    if (r->child)
        return;
    for (uint32_t i = 0; c->state == CORE_RUN && can(c) && i < c->nchildren; i++) {
        const struct peer *to = place_of(c, c->children[i]);

        if (to && due_at(c, c->children[i], to) < due) {
            due = due_at(c, c->children[i], to);
            child = c->children[i];
        }
    }
    if (child && due <= now) {
        begin(c, child, place_of(c, child));
        return;
    }
    if (child)
        flux_timer_start(r->timer, due - now, 0.);
    else
        flux_watcher_stop(r->timer);
    answer_all(c);
}

/* End the present move: the child stays. */
static void give_up(core_t *c, const char *why)
{
    struct restore *r = c->restore;
    struct peer *child = r->child;
    struct peer *to = r->to;

    core_log(c, LOG_ERR, "rank %u stays below rank %u: %s", child->rank, c->cfg.rank, why);
    r->child = r->to = NULL;
    to->at_once = false;
    defer(c, to);
    if (to->up)
        send_moved(c, to, &control_down[CONTROL_GIVEN], child->rank, c->cfg.rank, 0);
    if (child->up)
        send_moved(c, child, &control_down[CONTROL_GIVEN], child->rank, c->cfg.rank, 0);
    LIST_FOREACH(it, &c->restore->asks)
    {
        struct ask *a = list_entry(it, struct ask, node);

        if (idset_test(a->ranks, to->rank) && !a->why[0])
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

/* The loss of its parent may not be known here yet. */
void restore_taken(core_t *c, struct peer *p)
{
    defer(c, p);
    restore_plan(c);
}

void restore_back(core_t *c, const idset_t *ranks)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        if (idset_test(ranks, c->children[i]->rank)) {
            c->children[i]->since = flux_reactor_now(c->r);
            defer(c, c->children[i]);
        }
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
    if (!can(c))
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
    for (uint32_t i = 0; i < c->nchildren; i++)
        c->children[i]->at_once |= idset_test(a->ranks, c->children[i]->rank);
    restore_plan(c);
}

/* --- the foster parent: the move of a child --- */

void restore_expected_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_expected *e = in;
    struct restore *r = c->restore;
    struct control_card card = {0};

    if (p != r->to || r->expected || r->child->rank != e->rank) {
        send_moved(c, p, &control_down[CONTROL_GIVEN], e->rank, c->cfg.rank, 0);
        return;
    }
    r->expected = true;
    if (flux_schema_decode_json(&control_card_schema, json_array_get(e->cards, 0), &card, NULL) < 0)
        give_up(c, "the broker that has come back cannot be reached");
    else
        overlay_send(c, r->child, &control_down[CONTROL_GO], &card);
    restore_plan(c);
}

/* Give the child away: it is below another child from now on. */
static void give(core_t *c, const struct control_moved *m)
{
    struct restore *r = c->restore;
    struct peer *child = r->child;
    struct peer *to = r->to;

    if (!heal_move(c, m)) {
        give_up(c, "its change of parents is not its latest");
        return;
    }
    r->child = r->to = NULL;
    heal_tell_moved(c, m);
    send_moved(c, to, &control_down[CONTROL_GIVEN], m->rank, m->parent, m->move);
    send_moved(c, child, &control_down[CONTROL_GIVEN], m->rank, m->parent, m->move);
    child->up = child->event_up = false;
    child->former = child->absent = true;
    child->wants = 0;
    if (c->link->quiet)
        c->link->quiet(c->link_arg, child->rank);
    core_log(c, LOG_NOTICE, "rank %u is below rank %u again", m->rank, m->parent);
    LIST_FOREACH(it, &r->asks)
    {
        struct ask *a = list_entry(it, struct ask, node);

        if (idset_test(a->ranks, to->rank))
            (void)idset_set(a->moved, m->rank);
    }
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
            send_moved(c, p, &control_down[CONTROL_GIVEN], p->rank, c->cfg.rank, 0);
        return;
    }
    if (m->parent == r->to->rank)
        give(c, &own);
    else
        give_up(c, "it has not joined there");
    restore_plan(c);
}

void restore_done_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    if (!p->is_child)
        restore_former_end(c, p->rank);
    else if (p->former)
        overlay_send(c, p, &control_down[CONTROL_OVER], NULL);
}

/* --- the next parent --- */

bool restore_expects(const core_t *c, const struct peer *p)
{
    return c->expected && c->restore->guest == p->rank;
}

/* Route the held requests as before, or to the guest. */
static void guest_over(core_t *c)
{
    struct restore *r = c->restore;

    if (!c->expected)
        return;
    idset_destroy(c->expected);
    idset_destroy(r->guest_below);
    c->expected = r->guest_below = NULL;
    r->guest_due = false;
    route_held(c, &c->unsettled);
}

void restore_expect_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;
    idset_t *sub;

    guest_over(c);
    sub = c->state == CORE_RUN && can(c) ? topology_subtree(overlay_tree(c), m->rank) : NULL;
    if (!sub || idset_test(sub, c->cfg.rank) || c->second) {
        idset_destroy(sub); /* the foster parent will give up */
        return;
    }
    c->expected = sub;
    c->restore->guest = m->rank;
    c->restore->guest_due = true;
    keys_note_one(c, m->rank, m->keys);
    restore_drained(c);
}

static void say_expected(core_t *c)
{
    struct control_card card = {.rank = c->cfg.rank};
    struct control_expected e = {c->restore->guest, json_array()};
    json_t *o = c->link->card(c->link_arg, &card) == 0
                    ? flux_schema_encode_json(&control_card_schema, &card)
                    : NULL;

    if (e.cards && o && json_array_append(e.cards, o) == 0)
        overlay_send(c, c->parent, &control_up[CONTROL_EXPECTED], &e);
    json_decref(o);
    json_decref(e.cards);
}

void restore_hello(core_t *c, struct peer *p, const struct control_hello *h)
{
    idset_destroy(c->restore->guest_below);
    c->restore->guest_below = idset_parse(h->below, NULL);
    p->arriving = true;
}

/* The earlier parent has released the guest: the ranks that are up there are up here. */
static void took(core_t *c, struct peer *p, const struct control_moved *m, const idset_t *below)
{
    const struct control_moved own = {.rank = p->rank, .parent = c->cfg.rank, .move = m->move};

    /* A guest that loses the earlier parent before it hears of this looks for another parent. */
    p->fresh = p->arriving;
    heal_move(c, &own);
    if (below)
        heal_here(c, below);
    if (below && (idset_subtract(c->lost, below) < 0 || idset_add(c->up, below) < 0))
        core_log(c, LOG_ERR, "rank %u is out of memory for a subtree", c->cfg.rank);
    idset_destroy(p->await); /* it was up elsewhere */
    p->await = NULL;
    if (c->restore->guest == p->rank) /* the next guest may be expected */
        guest_over(c);
}

void restore_arrived_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;
    idset_t *below = m->below ? idset_parse(m->below, NULL) : NULL;
    const struct control_down_order order = {.rc = c->exit_code,
                                             .reason = c->alone ? "the broker above leaves"
                                                                : "the session is shutting down",
                                             .leave = c->alone,
                                             .alone = c->alone};

    if (p->arriving && m->rank == p->rank && below && idset_test(below, p->rank)) {
        p->arriving = false;
        p->up = true;
        took(c, p, m, below);
        core_log(c, LOG_NOTICE, "rank %u is below rank %u again", p->rank, c->cfg.rank);
        if (c->state >= CORE_DOWN)
            overlay_send(c, p, &control_down[CONTROL_SHUTDOWN], &order);
        route_held(c, p);
        restore_plan(c);
    }
    idset_destroy(below);
}

/* --- the child --- */

static void second_end(core_t *c)
{
    struct restore *r = c->restore;

    if (c->second) {
        route_held_destroy(c, c->second);
        free(c->second);
    }
    c->second = NULL;
    r->welcomed = false;
}

/* Notify the parent that this broker stays.  The parent answers if it was notified of the opposite
 * before. */
static void stay(core_t *c)
{
    send_moved(c, c->parent, &control_up[CONTROL_LEAVING], c->cfg.rank, c->parent->rank, 0);
}

void restore_go_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_card *card = in;
    errmsg_t err = {"there is another change of parents"};
    struct peer *to = NULL;

    if (c->state == CORE_RUN && !c->second && !c->expected && can(c) &&
        !overlay_tree_peer(c, card->rank) && (to = calloc(1, sizeof(*to))) &&
        c->link->beside(c->link_arg, card, &err) == 0) {
        overlay_peer_init(to, card->rank, CORE_TREE);
        list_init(&to->node);
        c->second = to;
        heal_hello(c, to);
        return;
    }
    free(to);
    core_log(c, LOG_ERR, "rank %u cannot connect to rank %u: %s", c->cfg.rank, card->rank,
             err.text);
    stay(c);
}

void restore_welcomed(core_t *c, const struct control_welcome *n)
{
    struct restore *r = c->restore;

    json_decref(r->above);
    r->above = json_incref(n->above);
    r->seq = r->ahead = n->seq;
    r->welcomed = true;
    restore_drained(c);
}

void restore_ahead(core_t *c, uint32_t from, uint64_t seq)
{
    struct restore *r = c->restore;

    if (c->second && c->second->rank == from && r->welcomed && seq > r->ahead)
        r->ahead = seq;
}

void restore_drained(core_t *c)
{
    struct restore *r = c->restore;

    if (!c->parent->up || !list_empty(&c->parent->held))
        return;
    if (r->guest_due) {
        r->guest_due = false;
        say_expected(c);
    }
    if (c->second && r->welcomed && !r->leaving && core_event_seq(c) >= r->seq) {
        r->leaving = true;
        send_moved(c, c->parent, &control_up[CONTROL_LEAVING], c->cfg.rank, c->second->rank,
                   heal_number(c));
        c->parent->up = false;
    }
}

void restore_refused(core_t *c, const char *why)
{
    core_log(c, LOG_ERR, "rank %u was refused by rank %u: %s", c->cfg.rank, c->second->rank, why);
    c->link->drop(c->link_arg, CORE_TREE, c->second->rank);
    second_end(c);
    stay(c);
}

/* A parent takes requests again; it may not know which ranks are lost. */
static void go_on(core_t *c)
{
    idset_t *lost = idset_difference(c->heal_below, c->up);

    c->restore->leaving = false;
    overlay_caught_up(c, lost);
    idset_destroy(lost);
}

static void change(core_t *c, const struct control_moved *m)
{
    struct restore *r = c->restore;
    struct peer *old = c->parent;
    char *below = idset_format(c->up, 0);
    const struct control_moved own = {
        .rank = c->cfg.rank, .parent = m->parent, .move = m->move, .below = below};

    c->link->swap(c->link_arg, c->second->rank);
    c->parent = c->second;
    c->second = NULL;
    r->welcomed = false;
    old->former = true;
    list_append(&c->formers, &old->node);
    list_splice(&c->parent->held, &old->held);
    c->parent->held_count = old->held_count;
    c->parent->held_bytes = old->held_bytes;
    old->held_count = old->held_bytes = 0;
    c->parent->up = true;
    heal_welcomed(c, r->above, NULL);
    heal_move(c, &own);
    if (below)
        overlay_send(c, c->parent, &control_up[CONTROL_ARRIVED], &own);
    free(below);
    heal_tell_again(c);
    event_moving(c);
    event_moved(c, r->ahead);
    go_on(c);
    restore_answered(c);
}

void restore_given_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_moved *m = in;
    struct restore *r = c->restore;
    struct peer *guest = hmap_get_u64(c->child_by_rank, m->rank);

    if (m->rank != c->cfg.rank) {
        if (!c->expected || r->guest != m->rank)
            return;
        if (m->parent == c->cfg.rank && guest && guest->arriving)
            took(c, guest, m, r->guest_below);
        else
            guest_over(c);
        return;
    }
    if (m->parent == c->parent->rank) {
        if (c->second) {
            c->link->drop(c->link_arg, CORE_TREE, c->second->rank);
            second_end(c);
        }
        if (r->leaving) {
            c->parent->up = true;
            go_on(c);
        }
    } else if (c->second && m->parent == c->second->rank && r->leaving)
        change(c, m);
    else if (r->leaving) {
        /* The new parent is lost: this broker is an orphan, and its next ancestor is the old
         * parent.
         */
        heal_welcomed(c, r->above, NULL);
        core_peer_lost(c, CORE_TREE, c->parent->rank, "the rank that was to be the parent is lost");
    }
}

/* --- former parents --- */

struct peer *restore_peer(const core_t *c, uint32_t rank)
{
    if (c->second && c->second->rank == rank)
        return c->second;
    LIST_FOREACH(it, &c->formers)
    {
        struct peer *p = list_entry(it, struct peer, node);

        if (p->rank == rank)
            return p;
    }
    return NULL;
}

static void former_free(core_t *c, struct peer *p, const char *why)
{
    struct list_node again;
    char text[200];

    list_remove(&p->node);
    list_init(&again);
    if (heal_now(c))
        inflight_set_aside(&p->to, &again);
    snprintf(text, sizeof(text), "rank %u was lost while the request was in flight: %.100s",
             p->rank, why);
    overlay_peer_over(c, p, text);
    inflight_again(c, &again);
    free(p);
}

void restore_former_end(core_t *c, uint32_t rank)
{
    struct peer *p = restore_peer(c, rank);

    if (!p || p == c->second)
        return;
    c->link->drop(c->link_arg, CORE_TREE, rank);
    former_free(c, p, "the parent has changed");
}

void restore_answered(core_t *c)
{
    LIST_FOREACH(it, &c->formers)
    {
        const struct peer *p = list_entry(it, struct peer, node);

        if (!p->done && list_empty(&p->to) && list_empty(&p->from) &&
            !flux_watcher_active(c->restore->idle))
            flux_timer_start(c->restore->idle, 0., 0.);
    }
}

static void idle_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;

    LIST_FOREACH(it, &c->formers)
    {
        struct peer *p = list_entry(it, struct peer, node);

        if (!p->done && list_empty(&p->to) && list_empty(&p->from) && !route_holds_from(c, p)) {
            p->done = true;
            overlay_send(c, p, &control_up[CONTROL_DONE], NULL);
        }
    }
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

bool restore_lost(core_t *c, struct peer *p, const char *why)
{
    struct restore *r = c->restore;

    if (p == c->second) {
        core_log(c, LOG_ERR, "rank %u has lost rank %u, which was to be its parent: %s",
                 c->cfg.rank, p->rank, why);
        second_end(c);
        stay(c);
        return true;
    }
    if (!p->is_child && p->former) {
        former_free(c, p, why);
        return true;
    }
    /* A lost rank was put back into its place here, but has not arrived. */
    if (p->arriving && !census_is_gone(c, p->rank) &&
        topology_parent(overlay_tree(c), p->rank) == c->cfg.rank) {
        const struct control_moved m = {.rank = p->rank, .parent = c->cfg.rank};

        took(c, p, &m, r->guest_below); /* the event has arrived before overlay.given */
    }
    if (p->is_child && p == r->child) {
        p->up = false;
        give_up(c, "it is lost");
        flux_timer_start(r->timer, 0., 0.);
    } else if (p->is_child && p == r->to) {
        p->up = false;
        give_up(c, "the broker that had come back is lost");
        flux_timer_start(r->timer, 0., 0.);
    }
    if (p->is_child && c->state == CORE_RUN && !p->former && !p->gone &&
        idset_test(c->up, p->rank) && topology_parent(overlay_tree(c), p->rank) == c->cfg.rank)
        count_flap(c, p);
    return false;
}

/* --- start and end --- */

void restore_stop(core_t *c)
{
    if (c->second) {
        c->link->drop(c->link_arg, CORE_TREE, c->second->rank);
        second_end(c);
    }
    c->restore->leaving = false;
    guest_over(c);
}

void restore_end(core_t *c)
{
    struct restore *r = c->restore;

    restore_stop(c);
    r->child = r->to = NULL;
    flux_watcher_stop(r->timer);
    answer_all(c);
}

int restore_init(core_t *c)
{
    struct restore *r = c->restore = calloc(1, sizeof(*r));

    if (!r)
        return -1;
    list_init(&r->asks);
    return (r->timer = flux_timer_create(c->r, timer_cb, c)) &&
                   (r->idle = flux_timer_create(c->r, idle_cb, c))
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
    second_end(c);
    while ((n = list_first(&c->formers))) {
        struct peer *p = list_entry(n, struct peer, node);

        list_remove(n);
        free(p);
    }
    idset_destroy(c->expected);
    idset_destroy(r->guest_below);
    json_decref(r->above);
    flux_watcher_destroy(r->timer);
    flux_watcher_destroy(r->idle);
    free(r);
    c->restore = NULL;
}
