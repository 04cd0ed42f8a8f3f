/* net.c - the network between the brokers of a simulated session.
 *
 * A directed channel per plane and pair of neighbors carries messages in their order, each with a
 * delay drawn from the seed.  What TCP and ZeroMQ do to a broker is done here:
 *
 *    a neighbor not started yet       messages wait for it a full queue
 *    EAGAIN; core_peer_writable() when half of it is gone a dead neighbor                  messages
 *    vanish; later core_peer_lost() and EHOSTUNREACH what the dead one sent last       arrives, or
 *    does not, all from some point on a silent neighbor                 live.c, if the scenario
 *    wants it a part of the network cut off     what crosses the border arrives when it is over, as
 *    TCP sends
 *                                     it again
 *    a broker started again           new connections to its parent and to the next of the ring;
 *                                     core_peer_back() for them
 *    a broker that has lost its       connections to another one, when that takes it over;
 *    parent, or joins while that      otherwise they end
 *    is dead
 *    a broker that is to return       a connection to a second parent, beside the present one; the
 *    to its place                     latter stays after the change until it is dropped
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
    unsigned starts; /* brokers of the receiver's rank when it departed */
    flux_msg_t *msg; /* NULL: a sign of life, or the news that the other end is gone */
    bool sign;
};

static int depart(struct chan *ch, flux_msg_t *msg, int64_t delay);

static void chan_init(struct chan *ch, struct node *from, struct node *to, enum core_plane plane,
                      struct chan *back, struct way *way)
{
    memset(ch, 0, sizeof(*ch));
    ch->way = way;
    ch->back = back;
    ch->from = from;
    ch->to = to;
    ch->plane = plane;
}

/* A new connection to a broker above, on which nothing arrives before `at`. */
static struct way *way_create(struct node *n, struct node *parent, int64_t at)
{
    struct way *w = sim_alloc(n->sim, sizeof(*w));

    list_init(&w->child);
    list_init(&w->other);
    list_append(&parent->children, &w->child);
    chan_init(&w->up, n, parent, CORE_TREE, &w->down, w);
    chan_init(&w->down, parent, n, CORE_TREE, &w->up, w);
    chan_init(&w->event, parent, n, CORE_EVENT, NULL, w);
    w->up.last = w->down.last = w->event.last = at;
    return w;
}

void net_init(sim_t *s)
{
    for (uint32_t r = 0; r < s->cfg.size; r++) {
        list_init(&s->nodes[r].children);
        list_init(&s->nodes[r].others);
    }
    for (uint32_t r = 0; r < s->cfg.size; r++) {
        struct node *n = &s->nodes[r];
        uint32_t parent = topology_parent(s->topo, r);
        if (parent != TOPOLOGY_NONE) {
            n->way = way_create(n, &s->nodes[parent], 0);
            n->way->there = true;
        }
        struct node *next = &s->nodes[topology_ring_next(s->topo, r)];
        struct node *prev = &s->nodes[topology_ring_prev(s->topo, r)];
        chan_init(&n->ring_next, n, next, CORE_RING, &next->ring_prev, NULL);
        chan_init(&n->ring_prev, n, prev, CORE_RING, &prev->ring_next, NULL);
    }
}

/* The connection that broker `n` has made to this rank above, NULL when there is none. */
static struct way *way_find(const struct node *n, uint32_t rank)
{
    if (n->way && n->way->up.to->rank == rank)
        return n->way;
    LIST_FOREACH(it, &n->others)
    {
        struct way *w = list_entry(it, struct way, other);

        if (w->up.to->rank == rank && !list_empty(&w->child) && !w->up.closed)
            return w;
    }
    return NULL;
}

/* The same as the broker above knows it: one that has arrived there, and that it has not ended. */
static struct way *way_find_below(const struct node *parent, const struct node *n)
{
    if (n->way && n->way->up.to == parent && n->way->there && !n->way->down.closed)
        return n->way;
    LIST_FOREACH(it, &n->others)
    {
        struct way *w = list_entry(it, struct way, other);

        if (w->up.to == parent && w->there && !list_empty(&w->child) && !w->down.closed)
            return w;
    }
    return NULL;
}

bool net_connects(const struct node *n, const struct node *to)
{
    return way_find(n, to->rank) != NULL;
}

/* The channel from broker `n` to its neighbor, NULL when it is none. */
static struct chan *chan_find(struct node *n, enum core_plane plane, uint32_t rank,
                              const flux_msg_t *msg)
{
    sim_t *s = n->sim;
    struct way *w;

    if (rank >= s->cfg.size)
        return NULL;
    if (plane == CORE_RING) {
        bool forward = flux_msg_type(msg) == FLUX_MSG_REQUEST;
        struct chan *ch = forward ? &n->ring_next : &n->ring_prev;
        return ch->to->rank == rank ? ch : NULL;
    }
    if ((w = way_find(n, rank)))
        return &w->up;
    return (w = way_find_below(n, &s->nodes[rank])) ? &w->down : NULL;
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

/* The broker below has ended this connection, or is about to, but cannot tell the one above, which
 * has to notice by itself. */
static bool goes_unnoticed(const struct way *w)
{
    return w->up.mute && !w->up.cut && w->there;
}

static void peer_lost(struct chan *ch)
{
    struct node *n = ch->to;
    enum core_plane plane = ch->plane;
    bool known = ch->way && ch->back->closed; /* this broker has ended it */

    ch->back->closed = true;
    if (ch->way && ch == &ch->way->up)
        ch->way->event.closed = true;
    if (ch->way && (ch == &ch->way->up ? ch->closed : !goes_unnoticed(ch->way)))
        list_remove(&ch->way->child);
    if (n->state != NODE_ON || known || (ch->way && ch == &ch->way->up && !ch->way->there))
        return;
    if (n->sim->cfg.trace)
        printf("%14.6f  %u notices the loss of %u (%s)\n", 1e-9 * (double)sim_now(n->sim), n->rank,
               ch->from->rank, plane == CORE_RING ? "ring" : "tree");
    core_peer_lost(n->core, plane, ch->from->rank, "the connection was lost");
}

/* The broker above does not read a connection that it has not admitted, and none of both reads one
 * that it has ended. */
static bool is_read(const struct chan *ch)
{
    if (!ch->way || !ch->back)
        return true;
    return !ch->back->closed && (ch != &ch->way->up || ch->way->there);
}

static void arrive(void *arg, void *data)
{
    struct flight *f = data;
    struct chan *ch = f->chan;
    flux_msg_t *msg = f->msg;
    bool lost = f->epoch != ch->epoch, sign = f->sign;
    unsigned starts = f->starts;
    sim_t *s = ch->to->sim;

    free(f);
    if (sign) {
        if (!lost && ch->to->state == NODE_ON)
            live_heard(ch);
        return;
    }
    if (!msg) {
        ch->news--;
        if (lost ||
            (ch->way && starts > 0 && starts != ch->to->starts)) /* of an earlier connection */
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
    if (lost || ch->to->state != NODE_ON || !is_read(ch)) {
        flux_msg_destroy(msg);
        return;
    }
    s->messages++;
    trace_message(s, ch, msg);
    live_heard(ch);
    core_link_input(ch->to->core, ch->plane, ch->from->rank, msg);
}

void net_part(sim_t *s, bool *part, unsigned which, int64_t until)
{
    s->apart = part;
    s->apart_which = which;
    s->apart_until = until;
}

/* Does what is sent now reach the other broker? */
static bool reaches(const struct node *from, const struct node *to, enum core_plane plane)
{
    const sim_t *s = from->sim;

    return !s->apart || sim_now(s) >= s->apart_until ||
           s->apart[from->rank] == s->apart[to->rank] ||
           !(s->apart_which & (s->apart[from->rank] ? SILENT_UP : SILENT_DOWN)) ||
           (s->apart_which & SILENT_EVENTS && plane != CORE_EVENT);
}

/* The moment at which something arrives that takes `delay`. */
static int64_t arrival(const struct node *from, const struct node *to, enum core_plane plane,
                       int64_t delay)
{
    const sim_t *s = from->sim;

    return (reaches(from, to, plane) ? sim_now(s) : s->apart_until) + delay;
}

void net_silence(struct way *w, unsigned which)
{
    w->up.mute |= (which & SILENT_UP) != 0;
    w->down.mute |= (which & SILENT_DOWN) != 0;
    w->event.mute |= (which & (w->up.to->sim->cfg.event_lines ? SILENT_EVENTS : SILENT_DOWN)) != 0;
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
    int64_t at = earliest(ch, arrival(ch->from, ch->to, ch->plane, delay));

    if (!f)
        return -1;
    f->chan = ch;
    f->epoch = ch->epoch;
    f->starts = ch->to->starts;
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
    else if (ch == &ch->way->up)
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
        struct way *w = list_entry(it, struct way, child);
        struct chan *ch = &w->event;
        flux_msg_t *msg;
        int64_t delay;

        if (!w->event_link || w->quiet || ch->closed)
            continue;
        count(s, ch);
        if (ch->cut || ch->mute || (s->event_loss > 0. && rng_chance(&s->rng, s->event_loss)))
            continue;
        msg = flux_msg_incref(event);
        delay = sim_draw(s, &s->link_delay);
        if (!sabotage(s, ch, msg, delay) && depart(ch, msg, delay) < 0)
            flux_msg_destroy(msg);
    }
    return 0;
}

static void chan_cut(struct chan *ch, bool lose);

/* Its broker ends a connection: what comes on it is not read any longer.  `lose`: nor does what is
 * on the way up arrive. */
static void way_end(struct way *w, bool lose)
{
    sim_t *s = w->up.from->sim;
    bool cut = w->up.cut;

    w->up.closed = true;
    if (goes_unnoticed(w)) {
        chan_cut(&w->down, true);
        chan_cut(&w->event, true);
        return;
    }
    list_remove(&w->child);
    w->up.cut = w->down.cut = w->event.cut = true;
    w->down.epoch++;
    w->event.epoch++;
    if (lose) {
        w->up.epoch++;
        w->up.last = sim_now(s);
    }
    if (lose || !cut)
        depart(&w->up, NULL, sim_draw(s, &s->link_delay));
}

/* An orderly end: what is on the way to the other end still arrives. */
static void net_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    struct node *n = arg;
    struct way *w;

    if (plane != CORE_TREE)
        return;
    if ((w = way_find(n, rank))) {
        if (w != n->way)
            way_end(w, false);
    } else if ((w = way_find_below(n, &n->sim->nodes[rank]))) {
        w->event_link = false;
        w->down.closed = true;
        w->event.closed = true;
    }
}

/* The moment at which a new connection is made, for which both ends have to reach the other. */
static int64_t connected_at(const struct node *n, const struct node *to)
{
    int64_t delay = sim_draw(n->sim, &n->sim->link_delay);
    int64_t there = arrival(n, to, CORE_TREE, delay), back = arrival(to, n, CORE_TREE, delay);

    return there > back ? there : back;
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
    int64_t at = connected_at(n, n->ring_next.to);

    chan_open(&n->ring_next, at);
    chan_open(n->ring_next.back, at);
    vclock_add(s->clock, &n->ring_next.to->owner, at, false, ring_back, n->ring_next.to, n);
}

static int net_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree)
{
    struct node *n = arg;

    (void)tree;
    if (plane != CORE_RING || n->ring_next.to->rank != rank || n->ring_next.to->state != NODE_ON ||
        n->ring_next.news > 0 || n->ring_next.back->news > 0)
        return -1;
    ring_open(n);
    return 0;
}

static void event_link_up(void *arg, void *data)
{
    struct node *parent = arg;
    struct way *w = data;
    const struct node *child = w->up.from;

    if (parent->state == NODE_ON && child->state == NODE_ON && !w->event.cut && !w->event.closed) {
        w->event_link = true;
        core_child_event_up(parent->core, child->rank);
    }
}

static int net_card(void *arg, struct control_card *card)
{
    const struct node *n = arg;

    card->tree = n->address;
    card->event = card->key = card->ticket = "";
    return 0;
}

static void connection_cut(sim_t *s, struct chan *a, struct chan *b, bool lose);

/* Another connection of the same broker takes the place of those that are over, or are not welcome
 * yet. */
static void supersede(struct way *w)
{
    struct node *parent = w->up.to;

    LIST_FOREACH(it, &w->up.from->others)
    {
        struct way *v = list_entry(it, struct way, other);

        if (v == w || v->up.to != parent || v->down.closed || !v->there)
            continue;
        v->down.closed = v->event.closed = true;
        list_remove(&v->child);
        core_peer_lost(parent->core, CORE_TREE, v->up.from->rank, "it has connected again");
    }
}

/* A connection to another parent, or to a second one, has arrived there. */
static void moved(void *arg, void *data)
{
    struct node *parent = arg;
    struct way *w = data;
    struct node *n = w->up.from;

    if (n->state != NODE_ON || w->up.closed || w->up.cut)
        return;
    if (parent->state != NODE_ON || !core_peer_adopt(parent->core, n->rank)) {
        connection_cut(n->sim, &w->up, &w->down, false);
        return;
    }
    supersede(w);
    w->there = true;
    core_peer_back(parent->core, CORE_TREE, n->rank);
    event_link_up(parent, w);
}

static bool way_is_over(const struct way *w)
{
    return list_empty(&w->child) && w->up.news == 0 && w->down.news == 0;
}

/* Connect to another broker above. */
static struct way *way_open(struct node *n, struct node *parent)
{
    sim_t *s = n->sim;
    int64_t at = connected_at(n, parent);
    struct way *w = way_create(n, parent, at);

    LIST_FOREACH_SAFE(it, tmp, &n->others)
    {
        if (way_is_over(list_entry(it, struct way, other)))
            list_remove(it);
    }
    vclock_add(s->clock, &parent->owner, at, false, moved, parent, w);
    if (parent->state != NODE_ON)
        connection_cut(s, &w->up, &w->down, false);
    return w;
}

static int net_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    struct node *n = arg;
    const struct node *former = n->way->up.to;

    (void)err;
    if (n->way->there && !n->way->up.cut)
        n->ends += former->state != NODE_ON || core_state(former->core) >= CORE_DOWN;
    way_end(n->way, true);
    list_append(&n->others, &n->way->other);
    n->way = way_open(n, &n->sim->nodes[card->rank]);
    return 0;
}

static int net_beside(void *arg, const struct control_card *card, errmsg_t *err)
{
    struct node *n = arg;
    struct way *w = way_open(n, &n->sim->nodes[card->rank]);

    (void)err;
    list_append(&n->others, &w->other);
    return 0;
}

static void net_swap(void *arg, uint32_t rank)
{
    struct node *n = arg;
    struct way *former = n->way;

    LIST_FOREACH(it, &n->others)
    {
        struct way *w = list_entry(it, struct way, other);

        if (w->up.to->rank == rank && !list_empty(&w->child))
            n->way = w;
    }
    list_remove(&n->way->other);
    list_append(&n->others, &former->other);
}

static void net_quiet(void *arg, uint32_t rank)
{
    struct node *n = arg;
    struct way *w = way_find_below(n, &n->sim->nodes[rank]);

    if (w)
        w->quiet = true;
}

static bool net_reached(void *arg, enum core_plane plane, uint32_t rank)
{
    const struct node *n = arg;
    const struct way *w = plane == CORE_TREE ? way_find(n, rank) : NULL;

    if (plane == CORE_RING) /* its address is known */
        return true;
    return w && w->up.to->state == NODE_ON && !w->up.mute && !w->up.cut &&
           reaches(n, w->up.to, CORE_TREE) && reaches(w->up.to, n, CORE_TREE);
}

static double net_heard(void *arg, enum core_plane plane, uint32_t rank)
{
    struct node *n = arg;
    const struct chan *from = NULL;

    if (!n->silence)
        return -1.;
    if (plane == CORE_RING)
        from = n->ring_next.to->rank == rank   ? n->ring_next.back
               : n->ring_prev.to->rank == rank ? n->ring_prev.back
                                               : NULL;
    LIST_FOREACH(it, &n->children)
    {
        struct way *w = list_entry(it, struct way, child);

        if (plane == CORE_TREE && w->up.from->rank == rank && !w->down.closed)
            from = &w->up;
    }
    return from && from->begun && !from->back->closed ? silence_length(n->silence, &from->line)
                                                      : -1.;
}

const struct core_link_ops sim_link_ops = {
    .send = net_send,
    .publish = net_publish,
    .drop = net_drop,
    .again = net_again,
    .readdress = true,
    .card = net_card,
    .move = net_move,
    .beside = net_beside,
    .swap = net_swap,
    .quiet = net_quiet,
    .reached = net_reached,
    .heard = net_heard,
};

void net_started(struct node *n)
{
    sim_t *s = n->sim;

    if (n->way) {
        struct node *parent = n->way->up.to;
        int64_t at = earliest(&n->way->event, sim_now(s) + sim_draw(s, &s->link_delay));

        /* Otherwise its events come by the tree if it starts before the parent does. */
        if (s->cfg.event_lines && at <= parent->start_at)
            at = parent->start_at + 1;
        vclock_add(s->clock, &parent->owner, at, false, event_link_up, parent, n->way);
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

/* The other end is told, unless the way to it is silent: then it has to notice by itself. */
void net_give_up(struct chan *ch)
{
    sim_t *s = ch->to->sim;

    if (ch->way)
        ch->way->up.from->ends += ch->way->there && !ch->way->up.cut;
    connection_cut(s, ch, ch->back->mute ? ch : ch->back, false);
    if (ch->way)
        chan_cut(&ch->way->event, false);
}

static void way_break(struct way *w, bool lose)
{
    w->up.from->ends += w->there && !w->up.cut;
    connection_cut(w->up.from->sim, &w->up, &w->down, lose);
    chan_cut(&w->event, lose);
}

static void ring_break(struct node *n, bool lose)
{
    connection_cut(n->sim, &n->ring_next, n->ring_next.back, lose);
}

void net_break(struct node *n, enum core_plane plane)
{
    bool lose = rng_chance(&n->sim->rng, 0.5);

    if (plane == CORE_RING)
        ring_break(n, lose);
    else if (n->way)
        way_break(n->way, lose);
}

void net_break_way(struct way *w)
{
    way_break(w, rng_chance(&w->up.from->sim->rng, 0.5));
}

void net_lost(struct node *n, bool orderly)
{
    sim_t *s = n->sim;
    bool lose = !orderly && rng_chance(&s->rng, 0.5);

    if (n->way)
        way_break(n->way, lose);
    LIST_FOREACH(it, &n->others)
    way_break(list_entry(it, struct way, other), lose);
    LIST_FOREACH(it, &n->children)
    way_break(list_entry(it, struct way, child), lose);
    if (s->cfg.size > 1) {
        ring_break(n, lose);
        ring_break(n->ring_prev.to, lose);
    }
}

bool net_settled(const struct node *n)
{
    const struct chan *const ring[] = {n->ring_next.back, &n->ring_next, &n->ring_prev,
                                       n->ring_prev.back};

    for (size_t i = 0; i < sizeof(ring) / sizeof(ring[0]); i++)
        if (ring[i]->news > 0)
            return false;
    LIST_FOREACH(it, &n->others)
    {
        const struct way *w = list_entry(it, struct way, other);

        if (w->up.news > 0 || w->down.news > 0)
            return false;
    }
    return !n->way || (n->way->up.news == 0 && n->way->down.news == 0);
}

static void tree_back(void *arg, void *data)
{
    struct node *parent = arg;
    struct way *w = data;

    if (w->up.closed || w->up.cut) /* it has given up, and may have connected again */
        return;
    w->there = true;
    if (parent->state == NODE_ON)
        core_peer_back(parent->core, CORE_TREE, w->up.from->rank);
}

void net_back(struct node *n)
{
    sim_t *s = n->sim;
    int64_t at = connected_at(n, &s->nodes[topology_parent(s->topo, n->rank)]);
    struct node *parent = &s->nodes[topology_parent(s->topo, n->rank)];
    struct list_node *it;

    while ((it = list_first(&n->others))) {
        list_remove(&list_entry(it, struct way, other)->child);
        list_remove(it);
    }
    list_remove(&n->way->child);
    LIST_FOREACH(c, &n->children) /* who has not noticed yet was connected to its predecessor */
    {
        struct way *w = list_entry(c, struct way, child);

        w->down.closed = w->event.closed = true;
    }
    n->way = way_create(n, parent, at);
    if (parent->state != NODE_ON) /* nobody is there */
        net_silence(n->way, SILENT_ALL);
    else
        vclock_add(s->clock, &parent->owner, at, false, tree_back, parent, n->way);
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
