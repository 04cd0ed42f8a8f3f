/* home.c - subtrees that others have taken over return to their places, while brokers die.
 *
 * When all brokers are up, those below one that was lost are still where they were taken over.
 * They return after a while (sim_config.settle), or because a client asks for it.  Meanwhile
 * clients at all ranks ask a service at all ranks, and read streams from it.  In half of the dances
 * there are faults, most of them while a broker is connected to two others: brokers die, leave, or
 * stand still, and any of the connections breaks.
 *
 * Required:
 *
 *  1. What one rank asks another through the tree arrives at most once, and in order.
 *  2. The responses of a stream come in order, none is missing before its end.
 *  3. While nobody dies, and no connection breaks, no request and no stream fails.
 *  4. A request that may be sent again is answered by a broker that lives, whoever dies, unless
 *     that has lost its connection, or with a broker above it the one to rank 0.
 *  5. When all are up, the tree has its shape again, and no further connections.
 *
 * That no event is lost is required by node.c, and that no broker changes its parent more often
 * than it has to, by ledger.c.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "home.h"
#include "libflux/overlay_wire.h"

#define QUESTIONS 60
#define STREAMS 10
#define FAULTS_MAX 3
#define WINDOW (3 * SIM_S)
#define FLAPPED 64. /* longest delay of a return, in settle times */

/* The payload of "order.put" and "order.stream". */
struct question {
    uint32_t rank;
    uint32_t broker; /* node.starts */
    uint32_t number; /* from 1 for each pair of ranks; 0: in any order; of a stream: its length */
};

struct home {
    sim_t *s;
    bool ask;    /* returns are asked for */
    bool faulty; /* of the present dance */
    unsigned faults_left;
    int64_t end;
    unsigned asked, answered; /* since the dance began */
    uint32_t *numbers;        /* by sender and receiver */
    struct sim_ep **clients;  /* by rank */
    unsigned *client_of;
    unsigned *cut_off; /* node.starts of brokers that have lost a connection, and may be lost */
};

/* --- the service --- */

struct order {
    struct sim_ep *ep;
    flux_handlers_t *handlers;
    struct question *last; /* by rank */
    struct list_node streams;
};

struct stream {
    struct list_node node;
    struct order *of;
    flux_watcher_t *timer;
    flux_msg_t *req;
    uint32_t sent, length;
};

static void stream_free(struct stream *st)
{
    list_remove(&st->node);
    flux_watcher_destroy(st->timer);
    flux_msg_destroy(st->req);
    free(st);
}

static bool read_question(flux_t *h, const flux_msg_t *req, struct question *q)
{
    size_t len;
    const void *data = flux_msg_payload(req, &len);

    if (len != sizeof(*q)) {
        flux_respond_error(h, req, EPROTO, "that is not a question");
        return false;
    }
    memcpy(q, data, sizeof(*q));
    return true;
}

static void put_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct order *o = arg;
    struct question q, *last;

    if (!read_question(h, req, &q))
        return;
    last = &o->last[q.rank];
    if (q.number > 0 && !flux_msg_has_flag(req, FLUX_MSGF_RING)) { /* on the tree */
        if (q.broker < last->broker || (q.broker == last->broker && q.number <= last->number))
            sim_fail(o->ep->broker->sim, "rank %u got question %u of rank %u after question %u",
                     o->ep->broker->rank, q.number, q.rank, last->number);
        *last = q;
    }
    flux_respond_raw(h, req, NULL, 0);
}

static void stream_next(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct stream *st = arg;

    if (st->sent == st->length) {
        flux_respond_error(st->of->ep->h, st->req, ENODATA, "the stream is over");
        stream_free(st);
        return;
    }
    st->sent++;
    flux_timer_start(st->timer, 0.05, 0.);
    flux_respond_more_raw(st->of->ep->h, st->req, &st->sent, sizeof(st->sent));
}

static void stream_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct order *o = arg;
    struct stream *st;
    struct question q;

    if (!read_question(h, req, &q))
        return;
    if (!(st = calloc(1, sizeof(*st))) ||
        !(st->timer = flux_timer_create(flux_get_reactor(h), stream_next, st))) {
        free(st);
        flux_respond_error(h, req, ENOMEM, "out of memory");
        return;
    }
    st->of = o;
    st->req = flux_msg_incref(req);
    st->length = q.number;
    list_init(&st->node);
    list_append(&o->streams, &st->node);
    flux_timer_start(st->timer, 0., 0.);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "order.put", put_cb, 0},
    {FLUX_MSG_REQUEST, "order.stream", stream_cb, 0},
    FLUX_HANDLER_END,
};

static void order_fini(flux_t *h, void *arg)
{
    struct order *o = arg;

    (void)h;
    LIST_FOREACH_SAFE(it, tmp, &o->streams)
    stream_free(list_entry(it, struct stream, node));
    flux_handlers_remove(o->handlers);
    free(o->last);
    free(o);
}

static int order_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct order *o = calloc(1, sizeof(*o));

    (void)argc, (void)argv;
    if (!o)
        return errmsg_fail(err, ENOMEM, "out of memory");
    o->ep = flux_handle_impl(h);
    list_init(&o->streams);
    if (!(o->last = calloc(o->ep->broker->sim->cfg.size, sizeof(*o->last))) ||
        !(o->handlers = flux_handlers_add(h, handlers, o))) {
        order_fini(h, o);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    *arg = o;
    return 0;
}

FLUX_MODULE(order, order_init, order_fini);

/* --- those who ask --- */

home_t *home_create(sim_t *s)
{
    home_t *o = sim_alloc(s, sizeof(*o));

    o->s = s;
    o->ask = s->cfg.settle <= 0. || rng_chance(&s->rng, 0.3);
    o->numbers = sim_alloc(s, sizeof(*o->numbers) * s->cfg.size * s->cfg.size);
    o->clients = sim_alloc(s, sizeof(*o->clients) * s->cfg.size);
    o->client_of = sim_alloc(s, sizeof(*o->client_of) * s->cfg.size);
    o->cut_off = sim_alloc(s, sizeof(*o->cut_off) * s->cfg.size);
    return o;
}

static bool serves(const struct node *n)
{
    return n->state == NODE_ON && core_state(n->core) == CORE_RUN;
}

static struct sim_ep *client_at(home_t *o, uint32_t rank)
{
    const struct node *n = &o->s->nodes[rank];

    if (!o->clients[rank] || o->client_of[rank] != n->starts) {
        o->clients[rank] = sim_client_add(o->s, rank, "asker");
        o->client_of[rank] = n->starts;
    }
    return o->clients[rank];
}

/* A request under way. */
struct asked {
    home_t *home;
    const struct node *from, *to;
    unsigned from_starts, to_starts; /* brokers of their ranks when it was asked */
    bool idempotent;
    uint32_t got; /* responses of a stream */
};

/* Is it the same broker as then, and not cut off? */
static bool is_there(const home_t *o, const struct node *n, unsigned starts)
{
    return serves(n) && n->starts == starts && o->cut_off[n->rank] != starts;
}

static bool both_there(const struct asked *a)
{
    return is_there(a->home, a->from, a->from_starts) && is_there(a->home, a->to, a->to_starts);
}

static void answered_cb(flux_future_t *f, void *arg)
{
    const struct asked *a = arg;
    home_t *o = a->home;

    if (flux_future_errnum(f) != 0 && (!o->faulty || (a->idempotent && both_there(a))))
        sim_fail(o->s, "rank %u serves, and yet a question failed: %s", a->to->rank,
                 flux_future_error(f));
    o->answered++;
    flux_future_destroy(f);
}

static void streamed_cb(flux_future_t *f, void *arg)
{
    struct asked *a = arg;
    home_t *o = a->home;
    int errnum = flux_future_errnum(f);
    const void *data;
    uint32_t number;
    size_t len;

    if (errnum != 0) {
        if (errnum != ENODATA && !o->faulty)
            sim_fail(o->s, "rank %u serves, and yet a stream ended after response %u: %s",
                     a->to->rank, a->got, flux_future_error(f));
        o->answered++;
        flux_future_destroy(f);
        return;
    }
    if (flux_rpc_get_raw(f, &data, &len, NULL) == 0 && len == sizeof(number)) {
        memcpy(&number, data, sizeof(number));
        if (number != a->got + 1)
            sim_fail(o->s, "response %u of a stream of rank %u came after response %u", number,
                     a->to->rank, a->got);
        a->got = number;
    }
    flux_future_next(f);
}

/* One rank asks another. */
static void put(void *arg, void *data)
{
    home_t *o = arg;
    sim_t *s = o->s;
    uint32_t from = sim_random_alive(s), to = sim_random_alive(s);
    bool stream = data != NULL, any = rng_chance(&s->rng, 0.3);
    struct question q = {from, s->nodes[from].starts, 0};
    struct asked *a;
    struct sim_ep *c;
    flux_future_t *f;

    if (s->failed || !serves(&s->nodes[from]) || !serves(&s->nodes[to]) ||
        !(c = client_at(o, from)))
        return;
    if (!sim_module_find(s, to, "order"))
        sim_module_add(s, to, &flux_module_order, NULL);
    a = sim_alloc(s, sizeof(*a));
    *a = (struct asked){.home = o,
                        .from = &s->nodes[from],
                        .to = &s->nodes[to],
                        .from_starts = s->nodes[from].starts,
                        .to_starts = s->nodes[to].starts,
                        .idempotent = any && !stream};
    if (stream)
        q.number = rng_range(&s->rng, 1, 30);
    else if (!any)
        q.number = ++o->numbers[from * s->cfg.size + to];
    f = flux_rpc_raw(c->h, stream ? "order.stream" : "order.put", &q, sizeof(q), to,
                     stream ? FLUX_MSGF_STREAMING
                     : any  ? FLUX_MSGF_IDEMPOTENT
                            : 0);
    if (!f || flux_future_then(f, -1., stream ? streamed_cb : answered_cb, a) < 0)
        sim_fail(s, "out of memory");
    o->asked++;
}

/* --- those who return --- */

static void restored_cb(flux_future_t *f, void *arg)
{
    (void)arg; /* it may have failed: brokers die */
    flux_future_destroy(f);
}

/* Ask all to give back what is not theirs. */
static void ask_all(void *arg, void *data)
{
    home_t *o = arg;
    sim_t *s = o->s;
    char ranks[32];
    struct overlay_restore in = {ranks};
    char *json;

    (void)data;
    snprintf(ranks, sizeof(ranks), "0-%u", s->cfg.size - 1);
    json = flux_schema_encode(&overlay_restore_schema, &in);
    for (uint32_t r = 0; r < s->cfg.size && json && !s->failed; r++) {
        struct sim_ep *c = serves(&s->nodes[r]) ? client_at(o, r) : NULL;
        flux_future_t *f = c ? flux_rpc(c->h, "overlay.restore", json, r, 0) : NULL;

        if (c && (!f || flux_future_then(f, -1., restored_cb, NULL) < 0))
            sim_fail(s, "out of memory");
    }
    free(json);
}

static struct way *any_other(const struct node *n)
{
    LIST_FOREACH(it, &n->others)
    {
        struct way *w = list_entry(it, struct way, other);

        if (!list_empty(&w->child))
            return w;
    }
    return NULL;
}

/* Any broker that is connected to two others, above; NULL: there is none. */
static struct node *any_mover(sim_t *s)
{
    uint32_t first = rng_below(&s->rng, s->cfg.size);

    for (uint32_t i = 0; i < s->cfg.size; i++) {
        struct node *n = &s->nodes[(first + i) % s->cfg.size];

        if (serves(n) && any_other(n))
            return n;
    }
    return NULL;
}

static void go_on(void *arg, void *data)
{
    struct node *n = arg;

    vowner_continue(n->sim->clock, &n->owner);
}

static void end(struct node *n)
{
    if (n->rank == 0)
        return;
    if (core_leaves_alone(n->core) && rng_chance(&n->sim->rng, 0.3)) {
        n->leaves = true;
        core_leave(n->core, 0, "it was asked to leave");
    } else {
        node_kill(n);
    }
}

static bool is_below(const struct node *n, const struct node *above)
{
    while (n && n != above)
        n = sim_parent(n);
    return n != NULL;
}

/* A connection of this broker breaks, and it may be counted as lost.  If that leads to rank 0,
 * there is no other parent for it, and those below end with it. */
static void note_cut_off(home_t *o, const struct node *n, bool to_root)
{
    for (uint32_t r = 0; r < o->s->cfg.size; r++) {
        const struct node *m = &o->s->nodes[r];

        if (m == n || (to_root && is_below(m, n)))
            o->cut_off[r] = m->starts;
    }
}

/* Something happens to a broker that is about to return, or to one of those that it is connected
 * to. */
static void harm(home_t *o, struct node *n)
{
    sim_t *s = o->s;
    unsigned what = rng_below(&s->rng, 6);
    struct way *w = any_other(n);

    s->faults++;
    sim_trace_add(s, 15, (uint64_t)n->rank << 8 | what);
    o->faults_left--;
    if (what == 5) {
        struct node *still = rng_chance(&s->rng, 0.5) ? n : sim_parent(n);

        if (still->owner.paused)
            return;
        vowner_pause(&still->owner);
        sim_at(s, sim_now(s) + rng_range(&s->rng, 1, 200) * SIM_MS, go_on, still, NULL);
        return; /* nothing fails because of that */
    }
    o->faulty = true;
    if (what <= 1)
        note_cut_off(o, n, what == 0 && sim_parent(n)->rank == 0);
    if (what == 0)
        net_break(n, CORE_TREE);
    else if (what == 1)
        net_break_way(w);
    else if (what == 2)
        end(n);
    else
        end(what == 3 ? w->up.to : sim_parent(n));
}

/* Look often for somebody to harm. */
static void lurk(void *arg, void *data)
{
    home_t *o = arg;
    sim_t *s = o->s;
    struct node *n = any_mover(s);

    (void)data;
    if (s->failed || o->faults_left == 0 || sim_now(s) >= o->end)
        return;
    if (n && sim_parent(n)->state == NODE_ON && any_other(n)->up.to->state == NODE_ON &&
        rng_chance(&s->rng, 0.1))
        harm(o, n);
    sim_at(s, sim_now(s) + rng_range(&s->rng, 100, 2000) * SIM_US, lurk, o, NULL);
}

static bool all_answered(sim_t *s, void *arg)
{
    const home_t *o = arg;

    (void)s;
    return o->answered == o->asked;
}

bool home_dance(home_t *o)
{
    sim_t *s = o->s;

    o->faulty = false;
    o->faults_left = rng_chance(&s->rng, 0.5) ? rng_range(&s->rng, 1, FAULTS_MAX) : 0;
    o->end = sim_now(s) + WINDOW;
    o->asked = o->answered = 0;
    for (unsigned i = 0; i < QUESTIONS + STREAMS; i++)
        sim_at(s, sim_now(s) + rng_below(&s->rng, WINDOW / SIM_MS) * SIM_MS, put, o,
               i < STREAMS ? o : NULL);
    if (o->ask)
        sim_at(s, sim_now(s) + rng_below(&s->rng, 1000) * SIM_MS, ask_all, o, NULL);
    lurk(o, NULL);
    sim_run_for(s, WINDOW);
    if (!o->faulty &&
        !sim_run_until(s, all_answered, o, 10 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size))
        sim_fail(s, "%u of %u questions were answered while subtrees returned", o->answered,
                 o->asked);
    return o->faulty;
}

/* Is this broker, if it is in its place, connected to its parent alone? */
static bool at_home(const struct node *n)
{
    return !any_other(n) &&
           (n->rank == 0 || sim_parent(n)->rank == topology_parent(n->sim->topo, n->rank));
}

void home_whole(home_t *o)
{
    sim_t *s = o->s;
    double most = FLAPPED * (s->cfg.settle + 1.) * (1. + topology_max_depth(s->topo));
    int64_t limit = sim_now(s) + 60 * SIM_S + (int64_t)(most * 1e9);

    for (uint32_t r = 0; r < s->cfg.size && !s->failed; r++) {
        while (!s->failed && !at_home(&s->nodes[r])) {
            if (sim_now(s) > limit)
                sim_fail(s, "all are up, and rank %u is still below rank %u, or connected twice", r,
                         sim_parent(&s->nodes[r])->rank);
            if (s->cfg.settle <= 0.)
                ask_all(o, NULL);
            sim_run_for(s, SIM_S);
        }
    }
}
