/* net.c - the network between the brokers of a simulated session.
 *
 * A directed channel per plane and pair of neighbors carries messages in their order, each with a
 * delay drawn from the seed.  What TCP and ZeroMQ do to a broker is done here:
 *
 *    a neighbor not started yet       messages wait for it
 *    a full queue                      EAGAIN; core_peer_writable() when half of it is gone
 *    a dead neighbor                  messages vanish; later core_peer_lost() and EHOSTUNREACH
 *    what the dead one sent last       arrives, or does not, all from some point on
 *    a silent neighbor                 live.c, if the scenario wants it
 *    a broker started again           new connections to its parent and to the next of the ring;
 *                                     core_peer_back() for them
 *    a broker that has lost its       connections to another one, when that takes it over;
 *    parent, or joins while that      otherwise they end
 *    is dead
 *
 * Invariants:
 *  1. Messages of a channel arrive in the order in which they were sent, the news of its end last;
 *     unless the link is broken on purpose (enum sim_break) to see whether that is noticed.
 *  2. A request is copied: the sender keeps its own, with its own routes, to answer it in case of
 *     a loss.  Events are shared, since nobody changes them.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/control_wire.h"
#include "sim.h"

/* A message on its way. */
struct flight {
    struct chan *chan;
    unsigned epoch;
    flux_msg_t *msg; /* NULL: a sign of life, or the news that the other end is gone */
    bool sign;
};

static int depart(struct chan *ch, flux_msg_t *msg, int64_t delay);

static void chan_init(struct chan *ch, struct node *from, struct node *to, enum core_plane plane,
                      struct chan *back)
{
    memset(ch, 0, sizeof(*ch));
    ch->back = back;
    ch->from = from;
    ch->to = to;
    ch->plane = plane;
}

void net_init(sim_t *s)
{
    for (uint32_t r = 0; r < s->cfg.size; r++)
        list_init(&s->nodes[r].children);
    for (uint32_t r = 0; r < s->cfg.size; r++) {
        struct node *n = &s->nodes[r];
        uint32_t parent = topology_parent(s->topo, r);
        if (parent != TOPOLOGY_NONE) {
            struct node *p = &s->nodes[parent];
            list_init(&n->child);
            list_append(&p->children, &n->child);
            chan_init(&n->up, n, p, CORE_TREE, &n->down);
            chan_init(&n->down, p, n, CORE_TREE, &n->up);
            chan_init(&n->event, p, n, CORE_EVENT, NULL);
        }
        struct node *next = &s->nodes[topology_ring_next(s->topo, r)];
        struct node *prev = &s->nodes[topology_ring_prev(s->topo, r)];
        chan_init(&n->ring_next, n, next, CORE_RING, &next->ring_prev);
        chan_init(&n->ring_prev, n, prev, CORE_RING, &prev->ring_next);
    }
}

/* The channel from broker `n` to its neighbor, NULL when it is none. */
static struct chan *chan_find(struct node *n, enum core_plane plane, uint32_t rank,
                              const flux_msg_t *msg)
{
    sim_t *s = n->sim;

    if (rank >= s->cfg.size)
        return NULL;
    if (plane == CORE_RING) {
        bool forward = flux_msg_type(msg) == FLUX_MSG_REQUEST;
        struct chan *ch = forward ? &n->ring_next : &n->ring_prev;
        return ch->to->rank == rank ? ch : NULL;
    }
    if (n->up.to && n->up.to->rank == rank)
        return &n->up;
    if (s->nodes[rank].down.from == n)
        return &s->nodes[rank].down;
    return NULL;
}

static void writable(void *arg, void *data)
{
    struct node *n = arg;
    struct chan *ch = data;

    if (n->state == NODE_ON && !ch->closed)
        core_peer_writable(n->core, ch->to->rank);
}

static void trace_message(sim_t *s, const struct chan *ch, const flux_msg_t *msg)
{
    size_t len;
    char line[256];

    flux_msg_payload(msg, &len);
    sim_trace_add(s, 1, (uint64_t)ch->to->rank << 32 | ch->from->rank);
    sim_trace_add(s, (uint64_t)flux_msg_type(msg) << 32 | flux_msg_matchtag(msg),
                  flux_msg_seq(msg) << 24 ^ len);
    if (s->cfg.trace) {
        const char *json = strstr(flux_msg_topic(msg), "overlay.") ? flux_msg_json(msg) : NULL;

        sim_describe(msg, line, sizeof(line));
        printf("%14.6f  %u -> %u  %s%s %s\n", 1e-9 * (double)sim_now(s), ch->from->rank,
               ch->to->rank,
               ch->plane == CORE_EVENT  ? "[event] "
               : ch->plane == CORE_RING ? "[ring] "
                                        : "",
               line, json ? json : "");
    }
}

static void peer_lost(struct chan *ch)
{
    struct node *n = ch->to;
    enum core_plane plane = ch->plane;

    ch->back->closed = true;
    if (ch->back == &n->sim->nodes[ch->from->rank].down)
        ch->from->event.closed = true;
    if (n->state != NODE_ON)
        return;
    if (n->sim->cfg.trace)
        printf("%14.6f  %u notices the loss of %u (%s)\n", 1e-9 * (double)sim_now(n->sim), n->rank,
               ch->from->rank, plane == CORE_RING ? "ring" : "tree");
    core_peer_lost(n->core, plane, ch->from->rank, "the connection was lost");
}

static void arrive(void *arg, void *data)
{
    struct flight *f = data;
    struct chan *ch = f->chan;
    flux_msg_t *msg = f->msg;
    bool lost = f->epoch != ch->epoch, sign = f->sign;
    sim_t *s = ch->to->sim;

    free(f);
    if (sign) {
        if (!lost && ch->to->state == NODE_ON)
            live_heard(ch);
        return;
    }
    if (!msg) {
        ch->news--;
        if (lost) /* of an earlier connection */
            return;
        sim_trace_add(s, 2, (uint64_t)ch->to->rank << 32 | ch->from->rank);
        peer_lost(ch);
        return;
    }
    ch->queued--;
    if (ch->blocked && ch->queued <= s->queue_max / 2 && !ch->closed) {
        ch->blocked = false;
        vclock_add(s->clock, &ch->from->owner, sim_now(s), false, writable, ch->from, ch);
    }
    if (lost || ch->to->state != NODE_ON) {
        flux_msg_destroy(msg);
        return;
    }
    s->messages++;
    trace_message(s, ch, msg);
    live_heard(ch);
    core_link_input(ch->to->core, ch->plane, ch->from->rank, msg);
}

/* The moment from which the other end can take messages. */
static int64_t earliest(const struct chan *ch, int64_t at)
{
    return at > ch->to->start_at ? at : ch->to->start_at;
}

static int fly(struct chan *ch, flux_msg_t *msg, bool sign, int64_t delay)
{
    sim_t *s = ch->from->sim;
    struct flight *f = malloc(sizeof(*f));
    int64_t at = earliest(ch, sim_now(s) + delay);

    if (!f)
        return -1;
    f->chan = ch;
    f->epoch = ch->epoch;
    f->msg = msg;
    f->sign = sign;
    if (at < ch->last)
        at = ch->last;
    ch->last = at;
    if (!vclock_add(s->clock, &ch->to->owner, at, false, arrive, NULL, f)) {
        free(f);
        return -1;
    }
    if (msg)
        ch->queued++;
    else if (!sign)
        ch->news++;
    return 0;
}

/* The message; NULL: the news of the end. */
static int depart(struct chan *ch, flux_msg_t *msg, int64_t delay)
{
    return fly(ch, msg, false, delay);
}

void net_sign(struct chan *ch)
{
    if (!ch->cut && !ch->closed && !ch->mute)
        (void)fly(ch, NULL, true, sim_draw(ch->from->sim, &ch->from->sim->link_delay));
}

static void count(sim_t *s, const struct chan *ch)
{
    if (ch->plane == CORE_EVENT)
        s->tally.event++;
    else if (ch->plane == CORE_RING)
        s->tally.ring++;
    else if (ch == &ch->from->up)
        s->tally.up++;
    else
        s->tally.down++;
}

/* The link is to be broken on purpose, now and then: control messages excepted, so that the session
 * comes up.  true when the message was dealt with. */
static bool sabotage(sim_t *s, struct chan *ch, flux_msg_t *msg, int64_t delay)
{
    flux_msg_t *copy;

    if (s->broken == BREAK_NONE || flux_msg_type(msg) == FLUX_MSG_CONTROL ||
        !rng_chance(&s->rng, 0.02))
        return false;
    s->broke++;
    switch (s->broken) {
    case BREAK_DROP:
        flux_msg_destroy(msg);
        return true;
    case BREAK_DUP:
        if ((copy = flux_msg_copy(msg)) && depart(ch, copy, delay) < 0)
            flux_msg_destroy(copy);
        return false;
    default: { /* overtake everything that is on the way */
        int64_t last = ch->last;
        ch->last = 0;
        if (depart(ch, msg, 1) < 0)
            flux_msg_destroy(msg);
        ch->last = last;
        return true;
    }
    }
}

static int net_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    struct node *n = arg;
    sim_t *s = n->sim;
    struct chan *ch = chan_find(n, plane, rank, msg);
    int64_t delay;

    if (!ch || ch->closed) {
        errno = EHOSTUNREACH;
        return -1;
    }
    if (!force && s->queue_max && ch->queued >= s->queue_max) {
        ch->blocked = true;
        errno = EAGAIN;
        return -1;
    }
    count(s, ch);
    if (ch->cut || ch->mute) {
        flux_msg_destroy(msg);
        return 0;
    }
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST) {
        flux_msg_t *copy = flux_msg_copy(msg);
        if (!copy) {
            errno = EAGAIN;
            return -1;
        }
        flux_msg_destroy(msg);
        msg = copy;
    }
    if (s->cfg.plant != PLANT_NONE && flux_msg_type(msg) == FLUX_MSG_CONTROL)
        msg = plant_heal_control(n, msg);
    delay = sim_draw(s, &s->link_delay);
    if (!sabotage(s, ch, msg, delay) && depart(ch, msg, delay) < 0)
        flux_msg_destroy(msg);
    return 0;
}

static int net_publish(void *arg, const flux_msg_t *event)
{
    struct node *n = arg;
    sim_t *s = n->sim;

    LIST_FOREACH(it, &n->children)
    {
        struct node *child = list_entry(it, struct node, child);
        struct chan *ch = &child->event;
        flux_msg_t *msg;
        int64_t delay;

        if (!child->event_link || ch->closed)
            continue;
        count(s, ch);
        if (ch->cut || child->down.mute ||
            (s->event_loss > 0. && rng_chance(&s->rng, s->event_loss)))
            continue;
        msg = flux_msg_incref(event);
        delay = sim_draw(s, &s->link_delay);
        if (!sabotage(s, ch, msg, delay) && depart(ch, msg, delay) < 0)
            flux_msg_destroy(msg);
    }
    return 0;
}

/* An orderly end, from the parent's side: what is on the way still arrives. */
static void net_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    struct node *n = arg;
    struct node *peer = &n->sim->nodes[rank];

    if (plane == CORE_TREE && peer->down.from == n) {
        peer->event_link = false;
        peer->down.closed = true;
        peer->event.closed = true;
    }
}

static void chan_open(struct chan *ch, int64_t at)
{
    ch->cut = ch->closed = ch->blocked = ch->mute = ch->begun = false;
    ch->epoch++; /* what was sent before does not arrive */
    ch->last = at;
}

static void ring_back(void *arg, void *data)
{
    struct node *next = arg;
    struct node *n = data;

    if (next->state == NODE_ON)
        core_peer_back(next->core, CORE_RING, n->rank);
}

/* The connection to the next broker of the ring is made anew. */
static void ring_open(struct node *n)
{
    sim_t *s = n->sim;
    int64_t at = sim_now(s) + sim_draw(s, &s->link_delay);

    chan_open(&n->ring_next, at);
    chan_open(n->ring_next.back, at);
    vclock_add(s->clock, &n->ring_next.to->owner, at, false, ring_back, n->ring_next.to, n);
}

static int net_again(void *arg, enum core_plane plane, uint32_t rank)
{
    struct node *n = arg;

    if (plane != CORE_RING || n->ring_next.to->rank != rank || n->ring_next.to->state != NODE_ON ||
        n->ring_next.news > 0 || n->ring_next.back->news > 0)
        return -1;
    ring_open(n);
    return 0;
}

static void event_link_up(void *arg, void *data)
{
    struct node *parent = arg;
    struct node *child = data;

    if (parent->state == NODE_ON && child->state == NODE_ON && !child->event.cut &&
        !child->event.closed) {
        child->event_link = true;
        core_child_event_up(parent->core, child->rank);
    }
}

static int net_card(void *arg, struct control_card *card)
{
    card->tree = card->event = card->key = card->ticket = "";
    return 0;
}

static void connection_cut(sim_t *s, struct chan *a, struct chan *b, bool lose);

static void set_parent(struct node *n, struct node *parent, int64_t at)
{
    list_remove(&n->child);
    list_append(&parent->children, &n->child);
    n->up.to = n->down.from = n->event.from = parent;
    chan_open(&n->up, at);
    chan_open(&n->down, at);
    chan_open(&n->event, at);
    n->event_link = false;
}

/* A connection to another parent has arrived there. */
static void moved(void *arg, void *data)
{
    struct node *parent = arg;
    struct node *n = data;

    if (n->state != NODE_ON || n->up.to != parent)
        return;
    if (parent->state != NODE_ON || !core_peer_adopt(parent->core, n->rank)) {
        connection_cut(n->sim, &n->up, &n->down, false);
        return;
    }
    core_peer_back(parent->core, CORE_TREE, n->rank);
    event_link_up(parent, n);
}

/* The earlier parent, which lives, notices that the connection has ended. */
static void left(void *arg, void *data)
{
    struct node *former = arg;
    const struct node *n = data;

    if (former->state == NODE_ON)
        core_peer_lost(former->core, CORE_TREE, n->rank, "the connection was lost");
}

static int net_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    struct node *n = arg;
    sim_t *s = n->sim;
    struct node *parent = &s->nodes[card->rank];
    int64_t at = sim_now(s) + sim_draw(s, &s->link_delay);

    (void)err;
    /* The end of the connection is news there, or that would be lost with the connection. */
    if (n->up.news > 0 || n->up.to->state == NODE_ON)
        vclock_add(s->clock, &n->up.to->owner, at, false, left, n->up.to, n);
    set_parent(n, parent, at);
    vclock_add(s->clock, &parent->owner, at, false, moved, parent, n);
    if (parent->state != NODE_ON)
        connection_cut(s, &n->up, &n->down, false);
    return 0;
}

static bool net_reached(void *arg, enum core_plane plane, uint32_t rank)
{
    const struct node *n = arg;

    return plane == CORE_TREE && n->up.to->rank == rank && n->up.to->state == NODE_ON &&
           !n->up.mute && !n->up.cut;
}

const struct core_link_ops sim_link_ops = {
    .send = net_send,
    .publish = net_publish,
    .drop = net_drop,
    .again = net_again,
    .card = net_card,
    .move = net_move,
    .reached = net_reached,
};

void net_started(struct node *n)
{
    sim_t *s = n->sim;

    if (n->up.to) {
        int64_t at = earliest(&n->event, sim_now(s) + sim_draw(s, &s->link_delay));
        vclock_add(s->clock, &n->up.to->owner, at, false, event_link_up, n->up.to, n);
    }
}

/* The connection ends with what is on the way, or with only the part of it that has arrived. */
static void chan_cut(struct chan *ch, bool lose)
{
    if (ch->cut)
        return;
    ch->cut = true;
    if (lose) {
        ch->epoch++;
        ch->last = sim_now(ch->from->sim);
    }
}

/* Both directions of a connection; each end that is left notices once. */
static void connection_cut(sim_t *s, struct chan *a, struct chan *b, bool lose)
{
    struct chan *both[2] = {a, b};

    for (int i = 0; i < 2; i++) {
        struct chan *ch = both[i];
        if (ch->cut)
            continue;
        chan_cut(ch, lose);
        /* Noticing takes up to 50 ms on top. */
        depart(ch, NULL, sim_draw(s, &s->link_delay) + rng_below(&s->rng, 50) * SIM_MS);
    }
}

void net_give_up(struct chan *ch)
{
    sim_t *s = ch->to->sim;

    connection_cut(s, ch, ch->back, false);
    if (ch->plane == CORE_TREE)
        chan_cut(ch == &ch->to->down ? &ch->to->event : &ch->from->event, false);
}

static void break_one(struct node *n, enum core_plane plane, bool lose)
{
    sim_t *s = n->sim;

    if (plane == CORE_RING)
        connection_cut(s, &n->ring_next, n->ring_next.back, lose);
    else if (n->up.to) {
        connection_cut(s, &n->up, &n->down, lose);
        chan_cut(&n->event, lose);
    }
}

void net_break(struct node *n, enum core_plane plane)
{
    break_one(n, plane, rng_chance(&n->sim->rng, 0.5));
}

void net_lost(struct node *n, bool orderly)
{
    sim_t *s = n->sim;
    bool lose = !orderly && rng_chance(&s->rng, 0.5);

    break_one(n, CORE_TREE, lose);
    LIST_FOREACH(it, &n->children)
    break_one(list_entry(it, struct node, child), CORE_TREE, lose);
    if (s->cfg.size > 1) {
        break_one(n, CORE_RING, lose);
        break_one(n->ring_prev.to, CORE_RING, lose);
    }
}

bool net_settled(const struct node *n)
{
    const struct chan *const all[] = {&n->up,        &n->down,      n->ring_next.back,
                                      &n->ring_next, &n->ring_prev, n->ring_prev.back};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]->news > 0)
            return false;
    return true;
}

static void tree_back(void *arg, void *data)
{
    struct node *parent = arg;
    struct node *n = data;

    if (parent->state == NODE_ON)
        core_peer_back(parent->core, CORE_TREE, n->rank);
}

void net_back(struct node *n)
{
    sim_t *s = n->sim;
    int64_t at = sim_now(s) + sim_draw(s, &s->link_delay);

    set_parent(n, &s->nodes[topology_parent(s->topo, n->rank)], at);
    n->up.mute = n->down.mute = n->up.to->state != NODE_ON; /* nobody is there */
    if (!n->up.mute)
        vclock_add(s->clock, &n->up.to->owner, at, false, tree_back, n->up.to, n);
    ring_open(n);
    if (n->ring_next.to->state != NODE_ON) /* it will notice that nobody is there */
        connection_cut(s, &n->ring_next, n->ring_next.back, false);
}

void net_discard(vevent_f cb, void *data)
{
    if (cb == arrive) {
        struct flight *f = data;
        flux_msg_destroy(f->msg);
        free(f);
    }
}
