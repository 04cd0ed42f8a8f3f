/* core_third.c - two brokers that do not hear each other, while others hear both.
 *
 * Purpose: a child that is silent for its parent may be dead, or the link between the two may be
 * bad in one direction or both.  In the latter case nothing is lost but the link: the child
 * connects to a broker above its parent, as if that had died (core_heal.c), with its clients,
 * modules, and subtree.  So the parent asks a third broker before it gives the child up.
 *
 * Terms: a third is a neighbor of the child on the ring, which has a connection of its own with the
 * child.  The parent itself, and ranks that it reaches only through the child, are no thirds.
 *
 * Without a third, as in a chain, or where the neighbors are down, the child speaks for itself.
 * When it hears nothing from its parent, or its parent says that it hears nothing from the child,
 * the child connects to the broker above its parent, too, and says that it lives.  That broker
 * tells the parent, and the connection ends.
 *
 * Drawing (lives): rank 2 does not hear rank 3, its child; rank 4 is below that.
 *
 *     rank 3                      rank 2                       rank 1
 *        |                           | slow: rank 3              |
 *        |        overlay.deaf (hears nothing from rank 3)       |
 *        |<--------------------------|                           |
 *        | connects, with the card of rank 1                     |
 *        |------------------------------------------------------>|
 *        | overlay.lives                                         |
 *        |------------------------------------------------------>|
 *        |                           |    overlay.vouch (rank 3) |
 *        |                   vouched |<--------------------------|
 *        |                                          overlay.over |
 *        |<------------------------------------------------------|
 *        | ends the connection
 *
 * What the parent has noted of a child, and what the end of the connection means then:
 *
 *    note       because                                   until             the end means
 *    none       it is heard                               the link says     it is lost
 *                                                         that it is slow
 *    doubted    the link says that it is slow (silent     it is heard,      it is lost
 *               for live.slow); thirds are asked half     lost, or vouched
 *               a beat later, and every half beat         for
 *    vouched    a third has heard it, or it has spoken    it is heard       it is pending
 *               to a broker above, when it was silent
 *               for its parent already
 *    deaf       it says that it hears nothing from its    it says that it   it is pending
 *               parent                                    hears it again
 *
 * A pending child has heal_timeout seconds to arrive at a broker above, and is lost after that.  It
 * looks for one when its connection ends, whichever side ends it; no third has to tell it anything.
 *
 * Time: the limits are those of the link (silence.c), and no verdict waits for an answer.  With the
 * usual limits a third is asked 3 s after the child was heard, and the answer counts if it is there
 * by the verdict, half a second later.  A child without a third speaks when one of the two finds
 * the other one slow, a second before the verdict.
 *
 * Proof: a broker sends its signs of life by all its connections at once, two in a beat.  A third
 * has thus heard a dead child at most half a beat, and a little, later than its parent.  A child
 * that lives was heard by the third within the last half beat, and a little.  So the third must
 * have heard it within half of the time for which the parent has not.
 *
 * The same holds for what the child says to a broker above.  It may say that before its parent
 * finds it slow, so the parent keeps the time.
 *
 * Format: the request overlay.heard {"rank"} -> {"ago"} to a third; the control messages
 * overlay.deaf {"deaf", "returns"} between a child and its parent, and overlay.lives
 * {"incarnation","session"} to a broker above; and the request overlay.vouch {"rank"} to a parent,
 * without a response.
 *
 * Invariants:
 *  1. A healthy session sends none of these messages: the first one follows a verdict `slow`, or a
 *     lack of memory (core_broken.c).
 *  2. A child of rank 0 is neither doubted nor vouched for: there is no broker above its parent.
 *     Nor is any child in a session whose subtrees do not move.
 *  3. An answer counts only while the child is doubted.
 *  4. A connection that only serves to say that the child lives counts as one to a former parent
 *     (core_former.c): it carries nothing else, and ends before the child, as an orphan, connects
 *     there.
 *  5. Only the broker that the session knows as that of a rank speaks for it, not an earlier one of
 *     the rank, nor one of another session.
 *
 * Failure: without memory, or when nobody that is up can vouch for the child, or does in time, the
 * child is lost.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libflux/overlay_wire.h"

struct third {
    flux_watcher_t *timer; /* ask for all children that are doubted */
    struct list_node questions;
};

/* A request under way. */
struct question {
    struct list_node node;
    core_t *core;
    flux_future_t *f;
    uint32_t child;
    uint32_t third;
    double silent; /* seconds for which the child had been silent when it was asked */
};

static void question_free(struct question *q)
{
    list_remove(&q->node);
    flux_future_destroy(q->f);
    free(q);
}

/* Return the number of seconds since something has come from a neighbor, or -1. */
static double heard_ago(const core_t *c, enum core_plane plane, uint32_t rank)
{
    return c->link && c->link->heard ? c->link->heard(c->link_arg, plane, rank) : -1.;
}

static bool may_move(const core_t *c)
{
    return !core_is_root(c) && heal_now(c);
}

/* Can the third vouch for a child of this parent? */
static bool can_vouch(const core_t *c, uint32_t child, uint32_t parent, uint32_t third)
{
    return third != parent && third != child && !census_is_gone(c, third) &&
           !idset_test(c->lost, third) && !topology_is_ancestor(overlay_tree(c), child, third);
}

/* --- the parent --- */

/* `by`: NULL: it has connected to a broker above. */
static void vouch(core_t *c, struct peer *p, const uint32_t *by)
{
    char who[80] = "it has connected to a broker above";

    p->vouched = true;
    if (by)
        snprintf(who, sizeof(who), "rank %u does", *by);
    core_log(c, LOG_NOTICE,
             "rank %u hears nothing from rank %u, but %s: the link between the former is bad, and "
             "rank %u is to connect to a broker above",
             c->cfg.rank, p->rank, who, p->rank);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct question *q = arg;
    core_t *c = q->core;
    struct peer *p = hmap_get_u64(c->child_by_rank, q->child);
    struct overlay_heard_ago a;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &overlay_heard_ago_schema, &a, &err) < 0)
        core_log(c, LOG_DEBUG, "rank %u does not know whether rank %u lives: %s", q->third,
                 q->child, err.text);
    else if (p && p->doubted && !p->vouched && a.ago >= 0. && a.ago < q->silent / 2.)
        vouch(c, p, &q->third);
    question_free(q);
}

static void ask(core_t *c, const struct peer *p, uint32_t third)
{
    const struct overlay_heard in = {p->rank};
    struct question *q;

    if (!can_vouch(c, p->rank, c->cfg.rank, third))
        return;
    if (!(q = calloc(1, sizeof(*q)))) {
        core_log(c, LOG_ERR, "rank %u is out of memory to ask about rank %u", c->cfg.rank, p->rank);
        return;
    }
    *q = (struct question){
        .core = c, .child = p->rank, .third = third, .silent = heard_ago(c, CORE_TREE, p->rank)};
    list_init(&q->node);
    list_append(&c->third->questions, &q->node);
    q->f = flux_rpc_struct(c->h, "overlay.heard", &overlay_heard_schema, &in, third, 0);
    if (!q->f || flux_future_then(q->f, c->cfg.beat, answer_cb, q) < 0)
        question_free(q);
}

static void ask_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    bool more = false;

    (void)r, (void)revents;
    for (uint32_t i = 0; i < c->nchildren; i++) {
        const struct peer *p = c->children[i];
        uint32_t prev = topology_ring_prev(c->topo, p->rank);
        uint32_t next = topology_ring_next(c->topo, p->rank);

        if (!p->doubted || p->vouched || !p->up || p->lost || !may_move(c))
            continue;
        ask(c, p, next);
        if (prev != next)
            ask(c, p, prev);
        more = true;
    }
    if (more)
        flux_timer_start(w, c->cfg.beat / 2., 0.);
}

void third_slow(core_t *c, struct peer *p, bool slow)
{
    if (!slow) {
        p->doubted = p->vouched = false;
    } else if (may_move(c) && p->up && !p->lost) {
        const struct control_deaf d = {.deaf = true};
        double silent = heard_ago(c, CORE_TREE, p->rank);

        p->doubted = true;
        if (p->lived > 0. && flux_reactor_now(c->r) - p->lived < silent / 2.)
            vouch(c, p, NULL);
        overlay_send(c, p, &control_down[CONTROL_UNHEARD], &d);
        if (!flux_watcher_active(c->third->timer))
            flux_timer_start(c->third->timer, c->cfg.beat / 2., 0.);
    }
}

void third_vouch_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct overlay_heard in;
    struct peer *p;
    json_t *owner;

    if (flux_request_decode(h, req, &overlay_heard_schema, &in, &owner) < 0)
        return;
    p = hmap_get_u64(c->child_by_rank, in.rank);
    if (p && p->up && !p->lost) {
        p->lived = flux_reactor_now(c->r);
        if (p->doubted && !p->vouched)
            vouch(c, p, NULL);
    }
    json_decref(owner);
}

void third_deaf_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_deaf *d = in;

    (void)msg;
    p->deaf = d->deaf;
    p->fresh |= d->returns;
    if (d->returns)
        core_log(c, LOG_NOTICE,
                 "rank %u has no memory for its messages with rank %u, and connects "
                 "again",
                 p->rank, c->cfg.rank);
    else if (d->deaf)
        core_log(c, LOG_NOTICE, "rank %u hears nothing from this broker, rank %u", p->rank,
                 c->cfg.rank);
}

bool third_lives(const core_t *c, const struct peer *p)
{
    return may_move(c) && (p->vouched || p->deaf);
}

void third_forget(struct peer *p)
{
    p->doubted = p->vouched = p->deaf = false;
    p->lived = 0.;
}

/* --- the child --- */

static bool has_third(const core_t *c)
{
    const struct peer *const both[] = {&c->ring_next, &c->ring_prev};
    bool any = false;

    for (size_t i = 0; i < 2; i++)
        any |= !both[i]->lost && can_vouch(c, c->cfg.rank, c->parent->rank, both[i]->rank);
    return any;
}

/* Connect to the nearest broker above the parent that is up, or use an earlier connection with
 * it.  Returns NULL if there is none. */
static struct peer *visit_above(core_t *c)
{
    struct control_card card;
    errmsg_t err;

    for (size_t i = 1; i < json_array_size(c->above); i++) {
        struct peer *p;

        if (flux_schema_decode_json(&control_card_schema, json_array_get(c->above, i), &card,
                                    &err) < 0 ||
            census_is_gone(c, card.rank))
            continue;
        if ((p = former_find(c, card.rank)) || (p = former_visit(c, &card, &err)))
            return p;
        core_log(c, LOG_ERR, "rank %u cannot connect to rank %u: %s", c->cfg.rank, card.rank,
                 err.text);
    }
    return NULL;
}

/* The parent and this broker do not hear each other, and no third hears both. */
static void say_it_lives(core_t *c)
{
    const struct control_lives l = {census_incarnation(c, c->cfg.rank), c->session};
    struct peer *p;

    if (heal_now(c) && restore_can(c) && c->parent->up && !c->parent->lost && !c->healing &&
        !c->second && !has_third(c) && (p = visit_above(c)))
        overlay_send(c, p, &control_up[CONTROL_LIVES], &l);
}

void third_parent_slow(core_t *c, bool slow)
{
    const struct control_deaf d = {.deaf = slow};

    if (heal_now(c) && c->parent->up && !c->parent->lost && !c->healing)
        overlay_send(c, c->parent, &control_up[CONTROL_DEAF], &d);
    if (slow)
        say_it_lives(c);
}

void third_unheard_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_deaf *d = in;

    (void)msg;
    if (p == c->parent && d->deaf)
        say_it_lives(c);
}

/* --- the third --- */

void third_lives_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_lives *l = in;
    const struct overlay_heard out = {p->rank};
    uint32_t parent = topology_parent(overlay_tree(c), p->rank);

    (void)msg;
    if (parent != c->cfg.rank && l->session == c->session && !census_is_gone(c, p->rank) &&
        l->incarnation == census_incarnation(c, p->rank))
        flux_future_destroy(flux_rpc_struct(c->h, "overlay.vouch", &overlay_heard_schema, &out,
                                            parent, FLUX_MSGF_NORESPONSE));
    if (!p->up && !p->former)
        overlay_send(c, p, &control_down[CONTROL_OVER], NULL);
}

void third_heard_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct overlay_heard in;
    struct overlay_heard_ago out;
    json_t *owner;

    if (flux_request_decode(h, req, &overlay_heard_schema, &in, &owner) < 0)
        return;
    if ((out.ago = heard_ago(c, CORE_RING, in.rank)) >= 0.)
        flux_respond_struct(h, req, &overlay_heard_ago_schema, &out);
    else
        flux_respond_error(h, req, EHOSTUNREACH,
                           "rank %u has no connection with rank %u on the ring", c->cfg.rank,
                           in.rank);
    json_decref(owner);
}

/* --- start and end --- */

int third_init(core_t *c)
{
    struct third *t = c->third = calloc(1, sizeof(*t));

    if (!t)
        return -1;
    list_init(&t->questions);
    return (t->timer = flux_timer_create(c->r, ask_cb, c)) ? 0 : -1;
}

void third_destroy(core_t *c)
{
    struct list_node *n;

    if (!c->third)
        return;
    while ((n = list_first(&c->third->questions)))
        question_free(list_entry(n, struct question, node));
    flux_watcher_destroy(c->third->timer);
    free(c->third);
    c->third = NULL;
}
