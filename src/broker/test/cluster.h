/* A session of a few broker cores in one thread, for tests of the core: a clock that jumps, a link
 * that is one queue of encoded frames, and endpoints that record what they get.
 */
#ifndef BROKER_TEST_CLUSTER_H
#define BROKER_TEST_CLUSTER_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "src/broker/control_wire.h"
#include "src/broker/core.h"
#include "libflux/dispatch.h"
#include "libflux/event.h"
#include "libflux/future.h"
#include "libflux/route.h"

#define MAX_NODES 16
#define MAX_TIMERS 256
#define MAX_KEPT 2048

struct cluster;

struct node {
    struct cluster *cl;
    core_t *core;
    uint32_t rank;
    bool dead;
    bool deaf_to_events; /* what the parent publishes does not arrive */
    bool full;           /* its queue is full: requests to it get EAGAIN */
    bool event_link[MAX_NODES];
    bool ring_again;  /* the core connects again to the next broker of the ring ... */
    char ring_at[32]; /* ... at this address; "": the earlier one */
    bool ring_waits;  /* it has not reached that broker */
    const char *tree; /* its address; NULL: "" */
    char own_tree[32];
    uint32_t parent;        /* to which it is connected */
    bool beside[MAX_NODES]; /* ... and to these, too */
    bool quiet[MAX_NODES];  /* gets no events from here */
    bool move_fails;        /* ... in vain, which the core has not been told yet */
    bool unreached;         /* ... which it does not reach, and the core is not told */
    double ago[MAX_NODES];  /* seconds since it has heard this neighbor; -1: no neighbor */
    int moves;
    int life; /* of its key: another one has another key */
    char key[41];
    int dropped;
    int down_calls;
    char states[64]; /* first letters */
    char log[4096];
    unsigned errors; /* of what it has logged */
    void (*on_state)(struct node *nd, enum core_state s);
};

struct frame {
    enum core_plane plane;
    uint32_t from;
    uint32_t to;
    flux_msg_t *msg; /* NULL: the connection has ended */
    struct frame *next;
};

/* An endpoint, and the messages that it has got. */
struct party {
    struct cluster *cl;
    struct party *next;
    core_t *core;
    endpoint_t *ep;
    flux_msg_t *kept[MAX_KEPT];
    size_t n;
    uint32_t tag;
    void (*hook)(struct party *p, const flux_msg_t *msg);
    void *user;
};

struct cluster {
    flux_reactor_t *r;
    double now;
    struct {
        flux_watcher_t *w;
        double at;
    } timers[MAX_TIMERS];
    size_t ntimers;
    flux_watcher_t *deferred[MAX_TIMERS];
    size_t ndeferred;
    uint32_t size;
    struct node nodes[MAX_NODES];
    struct party *parties;
    struct frame *head;
    struct frame **tail;
    unsigned sent[3];
    bool bad[MAX_NODES][MAX_NODES];  /* one cannot connect to the other one beside its parent ... */
    unsigned tried;                  /* ... as many times as this */
    bool slow[MAX_NODES][MAX_NODES]; /* what one sends to the other one on the tree waits */
};

/* --- clock --- */

static inline double cl_now(void *impl)
{
    return ((struct cluster *)impl)->now;
}

static inline void cl_timer_clear(void *impl, flux_watcher_t *w)
{
    struct cluster *cl = impl;

    for (size_t i = 0; i < cl->ntimers; i++) {
        if (cl->timers[i].w == w) {
            cl->timers[i] = cl->timers[--cl->ntimers];
            return;
        }
    }
}

static inline int cl_timer_set(void *impl, flux_watcher_t *w, double at)
{
    struct cluster *cl = impl;

    cl_timer_clear(cl, w);
    ck_assert_uint_lt(cl->ntimers, MAX_TIMERS);
    cl->timers[cl->ntimers].w = w;
    cl->timers[cl->ntimers++].at = at;
    return 0;
}

static inline int cl_defer(void *impl, flux_watcher_t *w)
{
    struct cluster *cl = impl;

    ck_assert_uint_lt(cl->ndeferred, MAX_TIMERS);
    cl->deferred[cl->ndeferred++] = w;
    return 0;
}

static inline void cl_defer_clear(void *impl, flux_watcher_t *w)
{
    struct cluster *cl = impl;

    for (size_t i = 0; i < cl->ndeferred; i++) {
        if (cl->deferred[i] == w) {
            cl->deferred[i] = cl->deferred[--cl->ndeferred];
            return;
        }
    }
}

static const struct flux_reactor_ops cl_reactor_ops = {.now = cl_now,
                                                       .timer_set = cl_timer_set,
                                                       .timer_clear = cl_timer_clear,
                                                       .defer = cl_defer,
                                                       .defer_clear = cl_defer_clear};

/* --- link --- */

/* What allocates for this link, and not for the core, does so between true and false. */
static void (*cl_spare)(bool spare);

static inline void cl_push(struct cluster *cl, enum core_plane plane, uint32_t from, uint32_t to,
                           const flux_msg_t *msg)
{
    size_t len = msg ? flux_msg_encoded_size(msg) : 0;
    struct frame *f;
    void *buf;

    if (cl_spare)
        cl_spare(true);
    ck_assert_ptr_nonnull(f = calloc(1, sizeof(*f)));
    ck_assert_ptr_nonnull(buf = malloc(len + 1));
    if (msg) {
        flux_msg_encode(msg, buf);
        ck_assert_ptr_nonnull(f->msg = flux_msg_decode(buf, len, NULL));
        cl->sent[plane]++;
    }
    free(buf);
    f->plane = plane;
    f->from = from;
    f->to = to;
    *cl->tail = f;
    cl->tail = &f->next;
    if (cl_spare)
        cl_spare(false);
}

static inline int cl_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg,
                          bool force)
{
    struct node *nd = arg;

    ck_assert_uint_lt(rank, nd->cl->size);
    if (plane == CORE_TREE && nd->unreached && nd->parent == rank) {
        flux_msg_destroy(msg);
        return 0;
    }
    if (nd->cl->nodes[rank].dead) {
        errno = EHOSTUNREACH;
        return -1;
    }
    if (nd->cl->nodes[rank].full && !force) {
        errno = EAGAIN;
        return -1;
    }
    cl_push(nd->cl, plane, nd->rank, rank, msg);
    flux_msg_destroy(msg);
    return 0;
}

static inline int cl_publish(void *arg, const flux_msg_t *event)
{
    struct node *nd = arg;

    for (uint32_t i = 0; i < nd->cl->size; i++) {
        if (nd->event_link[i] && !nd->quiet[i] && !nd->cl->nodes[i].dead &&
            !nd->cl->nodes[i].deaf_to_events)
            cl_push(nd->cl, CORE_EVENT, nd->rank, i, event);
    }
    return 0;
}

static bool cl_hangs_up; /* the other end notices the end of a connection that is dropped */

static inline void cl_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    struct node *nd = arg;

    nd->dropped++;
    nd->event_link[rank] = false;
    if (nd->beside[rank]) {
        nd->beside[rank] = false;
        cl_push(nd->cl, CORE_TREE, nd->rank, rank, NULL);
    } else if (cl_hangs_up && (nd->parent == rank || nd->cl->nodes[rank].parent == nd->rank) &&
               !nd->cl->nodes[rank].dead && core_state(nd->cl->nodes[rank].core) < CORE_DOWN) {
        cl_push(nd->cl, CORE_TREE, nd->rank, rank, NULL);
    }
}

/* The end of the connection between these is known at once, and what is on its way is lost. */
static inline void cl_hangup(struct cluster *cl, uint32_t child, uint32_t parent)
{
    struct frame **at = &cl->head;
    bool lost = false;

    while (*at) {
        struct frame *f = *at;

        if (f->plane != CORE_RING &&
            ((f->from == child && f->to == parent) || (f->from == parent && f->to == child))) {
            lost |= !f->msg && f->to == parent;
            *at = f->next;
            flux_msg_destroy(f->msg);
            free(f);
        } else
            at = &f->next;
    }
    cl->tail = at;
    if (lost) {
        cl->nodes[parent].event_link[child] = false;
        core_peer_lost(cl->nodes[parent].core, CORE_TREE, child, "it has hung up");
    }
}

static inline int cl_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree)
{
    struct node *nd = arg;

    ck_assert_int_eq(plane, CORE_RING);
    ck_assert(!nd->ring_again);
    nd->ring_again = true;
    snprintf(nd->ring_at, sizeof(nd->ring_at), "%s", tree ? tree : "");
    return 0;
}

static bool cl_addresses; /* each broker has an address of its own */
#define CL_ADDRESS "tcp://n%u:%d"

static inline int cl_card(void *arg, struct control_card *card)
{
    struct node *nd = arg;

    if (cl_addresses && !nd->tree) {
        snprintf(nd->own_tree, sizeof(nd->own_tree), CL_ADDRESS, nd->rank, nd->life);
        nd->tree = nd->own_tree;
    }
    snprintf(nd->key, sizeof(nd->key), "rank-%015u-life-%014u", nd->rank, (unsigned)nd->life);
    card->tree = nd->tree ? nd->tree : "";
    card->event = card->ticket = "";
    card->key = nd->key;
    return 0;
}

static inline bool cl_is_known(const struct node *nd, const struct node *to)
{
    const char *key = core_key_of(to->core, nd->rank);

    return key && strcmp(key, nd->key) == 0 && core_has_key(to->core, key);
}

static inline int cl_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    struct node *nd = arg;
    struct node *to = &nd->cl->nodes[card->rank];

    if (nd->dead)
        return errmsg_fail(err, EHOSTUNREACH, "it is dead");
    ck_assert(!nd->beside[card->rank]);
    if (!to->dead) {
        /* Perhaps it is connected there, and has given that up. */
        if (nd->parent == card->rank && to->event_link[nd->rank])
            cl_push(nd->cl, CORE_TREE, nd->rank, card->rank, NULL);
        cl_hangup(nd->cl, nd->rank, card->rank);
    }
    if (nd->parent != card->rank && !nd->cl->nodes[nd->parent].dead &&
        nd->cl->nodes[nd->parent].event_link[nd->rank])
        cl_push(nd->cl, CORE_TREE, nd->rank, nd->parent, NULL);
    nd->parent = card->rank;
    nd->unreached = false;
    nd->moves++;
    /* One that is up is known by its key, but to those that have come back. */
    if (!to->dead && to->life == 0)
        ck_assert(cl_is_known(nd, to));
    nd->move_fails = to->dead || !cl_is_known(nd, to) || !core_peer_adopt(to->core, nd->rank);
    if (!nd->move_fails) {
        core_peer_back(to->core, CORE_TREE, nd->rank);
        to->event_link[nd->rank] = true;
        to->quiet[nd->rank] = false;
        core_child_event_up(to->core, nd->rank);
    }
    return 0;
}

static inline int cl_beside(void *arg, const struct control_card *card, errmsg_t *err)
{
    struct node *nd = arg;
    struct node *to = &nd->cl->nodes[card->rank];

    ck_assert(!nd->beside[card->rank] && nd->parent != card->rank);
    if (nd->cl->bad[nd->rank][card->rank]) {
        nd->cl->tried++;
        return errmsg_fail(err, EHOSTUNREACH, "the link is bad");
    }
    if (nd->dead || to->dead || !core_peer_adopt(to->core, nd->rank))
        return errmsg_fail(err, EHOSTUNREACH, "nobody is there");
    /* Its neighbors by the shape know it from the beginning. */
    ck_assert(topology_parent(core_topology(nd->core), nd->rank) == card->rank ||
              cl_is_known(nd, to));
    cl_hangup(nd->cl, nd->rank, card->rank);
    nd->beside[card->rank] = true;
    core_peer_back(to->core, CORE_TREE, nd->rank);
    to->event_link[nd->rank] = true;
    to->quiet[nd->rank] = false;
    core_child_event_up(to->core, nd->rank);
    return 0;
}

static inline void cl_swap(void *arg, uint32_t rank)
{
    struct node *nd = arg;

    ck_assert(nd->beside[rank]);
    nd->beside[nd->parent] = true;
    nd->beside[rank] = false;
    nd->parent = rank;
    nd->moves++;
}

static inline void cl_quiet(void *arg, uint32_t rank)
{
    ((struct node *)arg)->quiet[rank] = true;
}

static inline bool cl_reached(void *arg, enum core_plane plane, uint32_t rank)
{
    const struct node *nd = arg;

    if (plane == CORE_RING)
        return !nd->ring_waits;
    return plane == CORE_TREE && nd->parent == rank && !nd->unreached && !nd->cl->nodes[rank].dead;
}

static inline double cl_heard(void *arg, enum core_plane plane, uint32_t rank)
{
    (void)plane;
    return ((const struct node *)arg)->ago[rank];
}

static const struct core_link_ops cl_link_ops = {.send = cl_send,
                                                 .publish = cl_publish,
                                                 .drop = cl_drop,
                                                 .again = cl_again,
                                                 .readdress = true,
                                                 .by_key = true,
                                                 .card = cl_card,
                                                 .move = cl_move,
                                                 .reached = cl_reached,
                                                 .heard = cl_heard,
                                                 .beside = cl_beside,
                                                 .swap = cl_swap,
                                                 .quiet = cl_quiet};

/* Of sessions that are created later. */
static double cl_heal_timeout;
static double cl_settle;
static uint32_t cl_fanout_max;
static uint32_t cl_expected;
static uint32_t cl_named;
static uint32_t cl_question; /* number of the last question whether a broker may join */
static size_t cl_event_buffer = 1000;

/* Take the next frame out of the queue.  NULL: none arrives now. */
static inline struct frame *cl_pop(struct cluster *cl)
{
    struct frame **at = &cl->head, *f;

    while ((f = *at) && f->plane == CORE_TREE && cl->slow[f->from][f->to])
        at = &f->next;
    if (f && !(*at = f->next))
        cl->tail = at;
    return f;
}

/* Deliver one frame, or fire one deferral. */
static inline bool cl_step(struct cluster *cl)
{
    struct frame *f;

    for (uint32_t i = 0; i < cl->size; i++) {
        struct node *nd = &cl->nodes[i];
        if (nd->move_fails && !nd->dead) {
            nd->move_fails = false;
            core_peer_lost(nd->core, CORE_TREE, nd->parent, "refused");
            return true;
        }
    }

    if ((f = cl_pop(cl))) {
        struct node *to = &cl->nodes[f->to];
        if (to->dead || !to->core || cl->nodes[f->from].dead)
            flux_msg_destroy(f->msg);
        else if (!f->msg) {
            to->event_link[f->from] = false;
            core_peer_lost(to->core, f->plane, f->from, "it has hung up");
        } else
            core_link_input(to->core, f->plane, f->from, f->msg);
        free(f);
        return true;
    }
    if (cl->ndeferred > 0) {
        flux_watcher_t *w = cl->deferred[0];
        cl_defer_clear(cl, w);
        flux_watcher_fire(w);
        return true;
    }
    return false;
}

static inline void cl_pump(struct cluster *cl)
{
    for (int i = 0; cl_step(cl); i++)
        ck_assert_msg(i < 1000000, "the session does not come to rest");
}

/* Deliver frames until the condition holds. */
#define CL_STEP_UNTIL(cl, condition)                                     \
    do {                                                                 \
        for (unsigned steps_ = 0; !(condition); steps_++) {              \
            ck_assert_msg(cl_step(cl), "no frame is left: " #condition); \
            ck_assert_msg(steps_ < 10000, "in vain: " #condition);       \
        }                                                                \
    } while (0)

/* Let `seconds` pass. */
static inline void cl_sleep(struct cluster *cl, double seconds)
{
    double end = cl->now + seconds;

    for (;;) {
        flux_watcher_t *w;
        size_t first;

        cl_pump(cl);
        first = cl->ntimers;
        for (size_t i = 0; i < cl->ntimers; i++) {
            if (cl->timers[i].at <= end &&
                (first == cl->ntimers || cl->timers[i].at < cl->timers[first].at))
                first = i;
        }
        if (first == cl->ntimers)
            break;
        if (cl->timers[first].at > cl->now)
            cl->now = cl->timers[first].at;
        w = cl->timers[first].w;
        cl_timer_clear(cl, w);
        flux_watcher_fire(w);
    }
    cl->now = end;
    cl_pump(cl);
}

/* --- nodes --- */

static inline void cl_state_cb(core_t *c, enum core_state state, void *arg)
{
    struct node *nd = arg;
    size_t n = strlen(nd->states);

    ck_assert_uint_lt(n + 1, sizeof(nd->states));
    nd->states[n] = core_state_name(state)[0];
    if (state == CORE_READY)
        nd->states[n] = 'y';
    nd->states[n + 1] = '\0';
    if (state == CORE_DOWN && ++nd->down_calls == 2)
        core_local_down_done(c);
    if (nd->on_state)
        nd->on_state(nd, state);
}

static inline void cl_log_cb(core_t *c, int level, const char *text, void *arg)
{
    struct node *nd = arg;
    size_t n = strlen(nd->log);

    nd->errors += level <= LOG_ERR;
    snprintf(nd->log + n, sizeof(nd->log) - n, "%s\n", text);
}

static bool cl_boot_keys; /* brokers know the keys of all ranks, as from a file */

static inline bool cl_key_cb(core_t *c, uint32_t rank, char key[CORE_KEY_SIZE], void *arg)
{
    const struct node *nd = arg;

    if (!cl_boot_keys || !nd->cl->nodes[rank].key[0])
        return false;
    memcpy(key, nd->cl->nodes[rank].key, CORE_KEY_SIZE);
    return true;
}

/* The test answers (core_admitted()). */
static inline void cl_admit_cb(core_t *c, uint32_t rank, const char *host, uint32_t number,
                               void *arg)
{
    (void)c, (void)arg;
    ck_assert_uint_ge(rank, cl_named);
    ck_assert_str_eq(host, "added");
    cl_question = number;
}

static const struct core_callbacks cl_callbacks = {
    .state = cl_state_cb, .key = cl_key_cb, .admit = cl_admit_cb, .log = cl_log_cb};

static inline void cl_node_create(struct cluster *cl, uint32_t rank, const struct core_config *cfg)
{
    struct node *nd = &cl->nodes[rank];
    errmsg_t err = {""};

    nd->cl = cl;
    nd->rank = rank;
    nd->core = core_create(cfg, cl->r, &cl_callbacks, nd, &err);
    ck_assert_msg(nd->core != NULL, "%s", err.text);
    core_set_link(nd->core, &cl_link_ops, nd);
    nd->parent = topology_parent(core_topology(nd->core), rank);
}

static inline void cl_event_links(struct cluster *cl, uint32_t child)
{
    uint32_t parent = topology_parent(core_topology(cl->nodes[child].core), child);

    cl->nodes[parent].event_link[child] = true;
    cl->nodes[parent].quiet[child] = false;
    core_child_event_up(cl->nodes[parent].core, child);
}

/* The configuration of a broker, as the settings of this file have it. */
static inline void cl_config(struct core_config *cfg, uint32_t rank, uint32_t size,
                             const char *topology)
{
    core_config_init(cfg);
    cfg->rank = rank;
    cfg->size = size;
    cfg->topology = topology;
    cfg->userid = 500;
    cfg->seed = 11;
    cfg->event_buffer = cl_event_buffer;
    cfg->heal_timeout = cl_heal_timeout;
    cfg->settle = cl_settle;
    cfg->fanout_max = cl_fanout_max;
    cfg->expected = cl_expected;
    cfg->named = cl_named;
    cfg->host = "added";
    cfg->inflight_max = 100;
}

/* Cores, not started; `quorum` of them are enough after `boot_timeout`. */
static inline struct cluster *cl_create_early(uint32_t size, const char *topology,
                                              double boot_timeout, uint32_t quorum)
{
    struct cluster *cl = calloc(1, sizeof(*cl));

    ck_assert_ptr_nonnull(cl);
    ck_assert_uint_le(size, MAX_NODES);
    cl->tail = &cl->head;
    cl->now = 1000.;
    cl->size = size;
    ck_assert_ptr_nonnull(cl->r = flux_reactor_create_ops(&cl_reactor_ops, cl));
    for (uint32_t i = 0; i < size; i++) {
        struct core_config cfg;
        cl_config(&cfg, i, size, topology);
        cfg.boot_timeout = boot_timeout;
        cfg.quorum = quorum;
        cl_node_create(cl, i, &cfg);
    }
    return cl;
}

/* Cores, not started. */
static inline struct cluster *cl_create(uint32_t size, const char *topology)
{
    return cl_create_early(size, topology, 0., size);
}

static inline void cl_start(struct cluster *cl)
{
    for (uint32_t i = 0; i < cl->size; i++)
        ck_assert_int_eq(core_start(cl->nodes[i].core), 0);
    cl_pump(cl);
    for (uint32_t i = 1; i < cl->size; i++)
        cl_event_links(cl, i);
}

/* A session that runs. */
static inline struct cluster *cl_up(uint32_t size, const char *topology)
{
    struct cluster *cl = cl_create(size, topology);

    cl_start(cl);
    for (uint32_t i = 0; i < size; i++)
        core_local_ready(cl->nodes[i].core);
    cl_pump(cl);
    for (uint32_t i = 0; i < size; i++)
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_RUN);
    return cl;
}

static inline void party_clear(struct party *p)
{
    for (size_t i = 0; i < p->n; i++)
        flux_msg_destroy(p->kept[i]);
    p->n = 0;
}

/* After its endpoint was removed, or with its session, which frees those that are left. */
static inline void party_free(struct party *p)
{
    struct party **at = &p->cl->parties;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    party_clear(p);
    free(p);
}

static inline void cl_free(struct cluster *cl)
{
    while (cl->head) {
        struct frame *f = cl->head;
        cl->head = f->next;
        flux_msg_destroy(f->msg);
        free(f);
    }
    for (uint32_t i = 0; i < cl->size; i++)
        core_destroy(cl->nodes[i].core);
    while (cl->parties)
        party_free(cl->parties);
    ck_assert_uint_eq(cl->ntimers, 0);
    ck_assert_uint_eq(cl->ndeferred, 0);
    flux_reactor_destroy(cl->r);
    free(cl);
}

/* A broker dies, and its neighbors notice. */
static inline void cl_kill(struct cluster *cl, uint32_t rank)
{
    const topology_t *t = core_topology(cl->nodes[rank].core);

    cl->nodes[rank].dead = true;
    for (uint32_t i = 0; i < cl->size; i++) {
        if (i == rank || cl->nodes[i].dead)
            continue;
        if (cl->nodes[i].parent == rank || cl->nodes[rank].parent == i ||
            cl->nodes[i].beside[rank] || cl->nodes[rank].beside[i])
            core_peer_lost(cl->nodes[i].core, CORE_TREE, rank, "killed");
        cl->nodes[i].beside[rank] = cl->nodes[rank].beside[i] = false;
        if (topology_ring_next(t, i) == rank)
            cl->nodes[i].ring_again = false;
        if (topology_ring_next(t, i) == rank || topology_ring_prev(t, i) == rank)
            core_peer_lost(cl->nodes[i].core, CORE_RING, rank, "killed");
    }
}

/* Another broker of the rank of a dead one is started, and connects. */
static inline void cl_name_ancestors(struct node *nd)
{
    const topology_t *t = core_topology(nd->core);
    struct control_card card = {.tree = "", .event = "", .key = "", .ticket = ""};

    for (card.rank = topology_parent(t, nd->rank); card.rank != TOPOLOGY_NONE;
         card.rank = topology_parent(t, card.rank))
        ck_assert_int_eq(core_ancestor_add(nd->core, &card), 0);
}

/* Start a broker again.  `reaches`: it reaches its parent; otherwise it knows its ancestors, and
 * has the key of before. */
static inline void cl_restart_as(struct cluster *cl, uint32_t rank, bool reaches)
{
    struct node *nd = &cl->nodes[rank];
    const topology_t *t = core_topology(nd->core);
    uint32_t parent = topology_parent(t, rank);
    uint32_t next = topology_ring_next(t, rank);
    struct core_config cfg;
    char topology[64];
    int life = nd->life + reaches;

    ck_assert(nd->dead);
    snprintf(topology, sizeof(topology), "%s", topology_spec(t));
    cl_config(&cfg, rank, cl->size, topology);
    core_destroy(nd->core);
    memset(nd, 0, sizeof(*nd));
    nd->life = life;
    cl_node_create(cl, rank, &cfg);
    core_peer_back(cl->nodes[next].core, CORE_RING, rank);
    if (reaches) {
        core_peer_back(cl->nodes[parent].core, CORE_TREE, rank);
        cl_event_links(cl, rank);
    } else {
        cl_name_ancestors(nd);
    }
    nd->unreached = !reaches;
    ck_assert_int_eq(core_start(nd->core), 0);
}

static inline void cl_restart(struct cluster *cl, uint32_t rank)
{
    cl_restart_as(cl, rank, true);
}

/* --- endpoints --- */

static inline void party_send_cb(void *arg, flux_msg_t *msg)
{
    struct party *p = arg;

    ck_assert_uint_lt(p->n, MAX_KEPT);
    p->kept[p->n++] = msg;
    if (p->hook)
        p->hook(p, msg);
}

static const struct endpoint_ops party_ops = {.send = party_send_cb};

static inline struct party *party_create(struct cluster *cl, uint32_t rank, enum endpoint_kind kind,
                                         const char *service)
{
    struct party *p = calloc(1, sizeof(*p));

    ck_assert_ptr_nonnull(p);
    p->cl = cl;
    p->next = cl->parties;
    cl->parties = p;
    p->core = cl->nodes[rank].core;
    p->ep = core_endpoint_add(p->core, kind, service ? service : "client", 1000,
                              kind == ENDPOINT_MODULE ? FLUX_ROLE_OWNER | FLUX_ROLE_BROKER
                                                      : FLUX_ROLE_OWNER,
                              &party_ops, p);
    ck_assert_ptr_nonnull(p->ep);
    if (service)
        ck_assert_int_eq(core_service_add(p->core, service, p->ep), 0);
    return p;
}

static inline struct party *client(struct cluster *cl, uint32_t rank)
{
    return party_create(cl, rank, ENDPOINT_CLIENT, NULL);
}

static inline struct party *module(struct cluster *cl, uint32_t rank, const char *service)
{
    return party_create(cl, rank, ENDPOINT_MODULE, service);
}

/* Remove its endpoint, and free it. */
static inline void party_leave(struct party *p)
{
    core_endpoint_remove(p->ep, 0, "");
    party_free(p);
}

static inline uint32_t ask_flags(struct party *p, const char *topic, uint32_t nodeid,
                                 unsigned flags, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    flux_msg_set_nodeid(msg, nodeid);
    flux_msg_set_flags(msg, flags);
    flux_msg_set_matchtag(msg, flags & FLUX_MSGF_NORESPONSE ? 0 : ++p->tag);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    core_endpoint_input(p->ep, msg);
    return p->tag;
}

static inline uint32_t ask(struct party *p, const char *topic, uint32_t nodeid)
{
    return ask_flags(p, topic, nodeid, 0, NULL);
}

/* Answer the request that the module got as number `i`. */
static inline void answer(struct party *p, size_t i, int errnum, unsigned flags, const char *json)
{
    flux_msg_t *resp;

    ck_assert_uint_lt(i, p->n);
    ck_assert_ptr_nonnull(resp = flux_msg_response_create(p->kept[i], errnum));
    flux_msg_set_flags(resp, flags);
    flux_msg_set_nodeid(resp, core_rank(p->core));
    ck_assert_int_eq(flux_msg_set_json(resp, json), 0);
    core_endpoint_input(p->ep, resp);
}

/* The last recorded message is a response with this error, whose text contains `says`. */
static inline void expect_answer(struct party *p, size_t n, int errnum, const char *says)
{
    const flux_msg_t *msg;
    const char *text;

    ck_assert_uint_eq(p->n, n);
    msg = p->kept[n - 1];
    ck_assert_int_eq(flux_msg_type(msg), FLUX_MSG_RESPONSE);
    text = flux_msg_json(msg);
    ck_assert_msg(flux_msg_errnum(msg) == errnum, "errnum %d: %s", flux_msg_errnum(msg), text);
    if (says)
        ck_assert_msg(text && strstr(text, says), "'%s' is not in: %s", says, text);
    ck_assert_uint_eq(flux_msg_route_count(msg), 0);
}

/* A control message from a neighbor in the tree. */
static inline void control(struct cluster *cl, uint32_t to, uint32_t from, const char *topic,
                           const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, topic);

    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    core_link_input(cl->nodes[to].core, CORE_TREE, from, msg);
}

static inline uint64_t cl_inflight(struct cluster *cl)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < cl->size; i++) {
        struct core_stats st;
        if (cl->nodes[i].dead)
            continue;
        core_get_stats(cl->nodes[i].core, &st);
        sum += st.inflight;
    }
    return sum;
}

/* A text of n bytes, to be freed. */
static inline char *big(size_t n)
{
    char *s = malloc(n + 1);

    memset(s, '7', n);
    s[n] = '\0';
    return s;
}

#endif
