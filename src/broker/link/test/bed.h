/* What the tests of all links share: links in one process, each with a core that only records the
 * calls it gets.  The including file says which link (TRANSPORT), and how a local address begins
 * (LOCAL); or it defines OWN_ADDRESSES and addresses(). */
#ifndef LINK_BED_H
#define LINK_BED_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "broker/control_wire.h"
#include "broker/link/transport.h"
#include "libutil/fdutil.h"

#define NODES 4
#define PATIENCE 10.

/* --- the core's side, for these tests --- */

struct core {
    uint32_t rank;
    topology_t *topo;
    flux_reactor_t *r;
    const struct core_link_ops *ops;
    void *arg;
    unsigned got[3];     /* messages by plane */
    char last_topic[64]; /* of the last one */
    uint32_t last_from;
    size_t bytes; /* payload */
    unsigned event_up[NODES];
    unsigned event_now[NODES]; /* the same since it was lost */
    unsigned lost[3][NODES];
    char why[80]; /* of the last loss */
    unsigned back[3][NODES];
    unsigned slow[3][NODES], heard[3][NODES];
    bool stale;              /* the session counts the predecessor on the ring as lost */
    uint32_t adopts;         /* rank that may become a child; 0: none */
    const char *keys[NODES]; /* of ranks below, as far as they are known */
    unsigned writable;
    unsigned skipped;
    bool ordered;
    uint32_t expect; /* match tag that is next */
};

flux_reactor_t *core_reactor(core_t *c)
{
    return c->r;
}

uint32_t core_rank(const core_t *c)
{
    return c->rank;
}

uint32_t core_size(const core_t *c)
{
    return topology_size(c->topo);
}

const topology_t *core_topology(const core_t *c)
{
    return c->topo;
}

void core_set_link(core_t *c, const struct core_link_ops *ops, void *arg)
{
    c->ops = ops;
    c->arg = arg;
}

void core_link_input(core_t *c, enum core_plane plane, uint32_t from, flux_msg_t *msg)
{
    size_t len;

    c->got[plane]++;
    c->last_from = from;
    snprintf(c->last_topic, sizeof(c->last_topic), "%s", flux_msg_topic(msg));
    flux_msg_payload(msg, &len);
    c->bytes += len;
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST && flux_msg_matchtag(msg) != 0) {
        if (flux_msg_matchtag(msg) != c->expect++)
            c->ordered = false;
    }
    flux_msg_destroy(msg);
}

void core_child_event_up(core_t *c, uint32_t rank)
{
    c->event_up[rank]++;
    c->event_now[rank]++;
}

void core_event_slow(core_t *c, bool skipped)
{
    c->skipped += skipped;
}

void core_peer_lost(core_t *c, enum core_plane plane, uint32_t rank, const char *why)
{
    ck_assert_str_ne(why, "");
    c->lost[plane][rank]++;
    snprintf(c->why, sizeof(c->why), "%s", why);
    if (plane == CORE_TREE)
        c->event_now[rank] = 0;
}

void core_rank_taken(core_t *c, uint32_t by)
{
    (void)c;
    (void)by;
}

void core_peer_back(core_t *c, enum core_plane plane, uint32_t rank)
{
    c->back[plane][rank]++;
}

bool core_peer_adopt(core_t *c, uint32_t rank)
{
    return c->adopts == rank;
}

const char *core_key_of(const core_t *c, uint32_t rank)
{
    return rank < NODES ? c->keys[rank] : NULL;
}

bool core_hosts(const core_t *c)
{
    (void)c;
    return false;
}

bool core_has_key(const core_t *c, const char *key)
{
    bool found = false;

    for (int i = 0; i < NODES && !found; i++)
        found = c->keys[i] && strcmp(c->keys[i], key) == 0;
    return found;
}

bool core_peer_stale(const core_t *c, enum core_plane plane, uint32_t rank)
{
    return plane == CORE_RING && c->stale;
}

void core_peer_slow(core_t *c, enum core_plane plane, uint32_t rank, bool slow)
{
    if (slow)
        c->slow[plane][rank]++;
    else
        c->heard[plane][rank]++;
}

bool core_peer_patient(const core_t *c, enum core_plane plane, uint32_t rank)
{
    return false;
}

void core_peer_writable(core_t *c, uint32_t rank)
{
    c->writable++;
}

/* --- a session --- */

struct node {
    core_t core;
    void *link;
    struct cert_keys {
        char pub[41], sec[41];
    } key;
    char log[512];  /* the last line */
    char all[8192]; /* all lines */
    unsigned lines; /* how many */
};

static const struct transport *const transport = &TRANSPORT;
static flux_reactor_t *reactor;
static char *dir;
static struct node node[NODES];
static uint32_t nodes;
static struct silence_limits live;
static double handshake;
static size_t queue_max;

static inline void log_cb(void *arg, int level, const char *text)
{
    struct node *n = arg;

    snprintf(n->log, sizeof(n->log), "%s", text);
    snprintf(n->all + strlen(n->all), sizeof(n->all) - strlen(n->all), "%s\n", text);
    n->lines++;
}

static inline bool was_logged(uint32_t i, const char *text)
{
    return strstr(node[i].all, text) != NULL;
}

/* Who is silent for so long is lost, whether it is given patience or not. */
static inline void silent_for(double seconds)
{
    live = (struct silence_limits){seconds / 3., seconds * 2. / 3., seconds, seconds};
}

static inline void setup(void)
{
    reactor = flux_reactor_create(true);
    ck_assert_ptr_nonnull(reactor);
    dir = dir_create_runtime("check-link", NULL);
    ck_assert_ptr_nonnull(dir);
    memset(node, 0, sizeof(node));
    silent_for(5.);
    handshake = 0.;
    queue_max = 100;
}

static inline void teardown(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        transport->ops->destroy(node[i].link);
        topology_destroy(node[i].core.topo);
    }
    flux_reactor_destroy(reactor);
    ck_assert_int_eq(dir_remove_tree(dir), 0);
    free(dir);
}

static inline void create(uint32_t i, uint32_t size, const char *topology, bool curve)
{
    struct node *n = &node[i];
    struct link_config cfg = {
        .curve = curve,
        .live = live,
        .handshake = handshake,
        .queue_max = queue_max,
        .log = log_cb,
        .log_arg = n,
    };
    errmsg_t err = {""};

    nodes = size;
    n->core.rank = i;
    n->core.r = reactor;
    n->core.ordered = true;
    n->core.expect = 1;
    n->core.topo = topology_create(topology, size, &err);
    ck_assert_msg(n->core.topo != NULL, "%s", err.text);
    if (!n->key.pub[0]) /* another broker of the same rank has the same key */
        ck_assert_int_eq(zmq_curve_keypair(n->key.pub, n->key.sec), 0);
    cfg.public_key = n->key.pub;
    cfg.secret_key = n->key.sec;
    n->link = transport->create(&n->core, &cfg, &err);
    ck_assert_msg(n->link != NULL, "%s", err.text);
}

/* Where node `i` listens. */
static void addresses(uint32_t i, bool tcp, char tree[200], char event[200]);

/* Brokers that are created from now on listen elsewhere; mixed links do at other ports anyway. */
static bool elsewhere;

#ifndef OWN_ADDRESSES
static void addresses(uint32_t i, bool tcp, char tree[200], char event[200])
{
    snprintf(tree, 200, tcp ? "tcp://127.0.0.1:*" : LOCAL "%s/%c%u", dir, elsewhere ? 'u' : 't', i);
    snprintf(event, 200, tcp ? "tcp://127.0.0.1:*" : LOCAL "%s/%c%u", dir, elsewhere ? 'f' : 'e',
             i);
}
#endif

static inline void bind_node(uint32_t i, bool tcp)
{
    char tree[200], event[200];
    errmsg_t err = {""};

    addresses(i, tcp, tree, event);
    ck_assert_msg(transport->ops->bind(node[i].link, tree, event, &err) == 0, "%s", err.text);
}

static inline void allow_all(uint32_t i)
{
    const topology_t *t = node[i].core.topo;
    errmsg_t err = {""};
    uint32_t prev = topology_ring_prev(t, i);

    for (uint32_t k = 0; k < topology_nchildren(t, i); k++) {
        uint32_t child = topology_child_at(t, i, k);
        ck_assert_int_eq(transport->ops->allow(node[i].link, child, node[child].key.pub, &err), 0);
    }
    ck_assert_int_eq(transport->ops->allow(node[i].link, prev, node[prev].key.pub, &err), 0);
}

static inline void connect_node(uint32_t i)
{
    uint32_t parent = topology_parent(node[i].core.topo, i);
    uint32_t next = topology_ring_next(node[i].core.topo, i);
    errmsg_t err = {""};

    ck_assert_msg(transport->ops->connect(node[i].link, CORE_RING, next,
                                          transport->ops->tree_uri(node[next].link), NULL,
                                          node[next].key.pub, &err) == 0,
                  "%s", err.text);
    if (parent == TOPOLOGY_NONE)
        return;
    ck_assert_msg(transport->ops->connect(node[i].link, CORE_TREE, parent,
                                          transport->ops->tree_uri(node[parent].link),
                                          transport->ops->event_uri(node[parent].link),
                                          node[parent].key.pub, &err) == 0,
                  "%s", err.text);
}

static inline void start_all(uint32_t size, const char *topology, bool tcp, bool curve)
{
    errmsg_t err = {""};

    for (uint32_t i = 0; i < size; i++)
        create(i, size, topology, curve);
    for (uint32_t i = 0; i < size; i++)
        bind_node(i, tcp);
    for (uint32_t i = 0; i < size; i++) {
        allow_all(i);
        connect_node(i);
    }
    for (uint32_t i = 0; i < size; i++)
        ck_assert_msg(transport->ops->start(node[i].link, &err) == 0, "%s", err.text);
}

/* The broker of rank `i` ends; another one of its rank is started at the same address. */
static inline void end_node(uint32_t i)
{
    transport->ops->destroy(node[i].link);
    node[i].link = NULL;
}

static inline void start_again(uint32_t i, const char *topology, bool curve)
{
    struct node *n = &node[i];
    struct cert_keys key = n->key;
    errmsg_t err = {""};

    topology_destroy(n->core.topo);
    memset(n, 0, sizeof(*n));
    n->key = key;
    create(i, nodes, topology, curve);
    bind_node(i, false);
    allow_all(i);
    connect_node(i);
    ck_assert_msg(transport->ops->start(n->link, &err) == 0, "%s", err.text);
}

/* Run until `*counter` has at least that value. */
struct until {
    const unsigned *counter;
    unsigned want;
    double end;
};

static inline void until_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct until *u = arg;

    if (*u->counter >= u->want || flux_reactor_now(r) > u->end)
        flux_reactor_stop(r, 0);
}

static inline bool run_until(const unsigned *counter, unsigned want, double seconds)
{
    struct until u = {counter, want, 0.};
    flux_watcher_t *w = flux_timer_create(reactor, until_cb, &u);

    flux_reactor_update(reactor);
    u.end = flux_reactor_now(reactor) + seconds;
    flux_timer_start(w, 0., 0.002);
    flux_reactor_run(reactor);
    flux_watcher_destroy(w);
    return *counter >= want;
}

static inline void run_for(double seconds)
{
    const unsigned never = 0;

    run_until(&never, 1, seconds);
}

static inline int send_from(uint32_t i, enum core_plane plane, uint32_t to, uint32_t tag,
                            size_t bytes, bool force)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.link");
    char *data = calloc(1, bytes + 1);
    int rc;

    ck_assert(msg && data);
    flux_msg_set_matchtag(msg, tag);
    ck_assert_int_eq(flux_msg_take_raw(msg, data, bytes), 0);
    if ((rc = node[i].core.ops->send(node[i].core.arg, plane, to, msg, force)) < 0) {
        int saved = errno;
        flux_msg_destroy(msg);
        errno = saved;
    }
    return rc;
}

static inline void publish(uint32_t i, const char *topic)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    ck_assert_ptr_nonnull(msg);
    ck_assert_int_eq(node[i].core.ops->publish(node[i].core.arg, msg), 0);
    flux_msg_destroy(msg);
}

#endif
