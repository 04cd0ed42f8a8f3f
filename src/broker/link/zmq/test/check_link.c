/* Links in one process, each with a core that only writes down what it is told: connection over
 * UNIX sockets and TCP with CURVE, strangers, false claims, losses, batches, full queues. */
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

#include "broker/link/zmq/link.h"
#include "broker/link/zmq/link_private.h"
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
    unsigned lost[3][NODES];
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
}

void core_event_slow(core_t *c, bool skipped)
{
    c->skipped += skipped;
}

void core_peer_lost(core_t *c, enum core_plane plane, uint32_t rank, const char *why)
{
    ck_assert_str_ne(why, "");
    c->lost[plane][rank]++;
}

void core_peer_writable(core_t *c, uint32_t rank)
{
    c->writable++;
}

/* --- a session --- */

struct node {
    core_t core;
    link_t *link;
    struct cert_keys {
        char pub[41], sec[41];
    } key;
    char log[512];
};

static flux_reactor_t *reactor;
static char *dir;
static struct node node[NODES];
static uint32_t nodes;
static double peer_timeout;
static size_t queue_max;

static void log_cb(void *arg, int level, const char *text)
{
    struct node *n = arg;

    snprintf(n->log, sizeof(n->log), "%s", text);
}

static void setup(void)
{
    reactor = flux_reactor_create(true);
    ck_assert_ptr_nonnull(reactor);
    dir = dir_create_runtime("check-link", NULL);
    ck_assert_ptr_nonnull(dir);
    memset(node, 0, sizeof(node));
    peer_timeout = 5.;
    queue_max = 100;
}

static void teardown(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        link_destroy(node[i].link);
        topology_destroy(node[i].core.topo);
    }
    flux_reactor_destroy(reactor);
    ck_assert_int_eq(dir_remove_tree(dir), 0);
    free(dir);
}

static void create(uint32_t i, uint32_t size, const char *topology, bool curve)
{
    struct node *n = &node[i];
    struct link_config cfg = {
        .curve = curve,
        .peer_timeout = peer_timeout,
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
    ck_assert_int_eq(zmq_curve_keypair(n->key.pub, n->key.sec), 0);
    cfg.public_key = n->key.pub;
    cfg.secret_key = n->key.sec;
    n->link = link_create(&n->core, &cfg, &err);
    ck_assert_msg(n->link != NULL, "%s", err.text);
}

static void bind_node(uint32_t i, bool tcp)
{
    char tree[200], event[200];
    errmsg_t err = {""};

    snprintf(tree, sizeof(tree), tcp ? "tcp://127.0.0.1:*" : "ipc://%s/t%u", dir, i);
    snprintf(event, sizeof(event), tcp ? "tcp://127.0.0.1:*" : "ipc://%s/e%u", dir, i);
    ck_assert_msg(link_bind(node[i].link, tree, event, &err) == 0, "%s", err.text);
}

static void allow_all(uint32_t i)
{
    const topology_t *t = node[i].core.topo;
    errmsg_t err = {""};
    uint32_t prev = topology_ring_prev(t, i);

    for (uint32_t k = 0; k < topology_nchildren(t, i); k++) {
        uint32_t child = topology_child_at(t, i, k);
        ck_assert_int_eq(link_allow(node[i].link, child, node[child].key.pub, &err), 0);
    }
    ck_assert_int_eq(link_allow(node[i].link, prev, node[prev].key.pub, &err), 0);
}

static void connect_node(uint32_t i)
{
    uint32_t parent = topology_parent(node[i].core.topo, i);
    uint32_t next = topology_ring_next(node[i].core.topo, i);
    errmsg_t err = {""};

    ck_assert_msg(link_connect(node[i].link, CORE_RING, next, link_tree_uri(node[next].link), NULL,
                               node[next].key.pub, &err) == 0,
                  "%s", err.text);
    if (parent == TOPOLOGY_NONE)
        return;
    ck_assert_msg(link_connect(node[i].link, CORE_TREE, parent, link_tree_uri(node[parent].link),
                               link_event_uri(node[parent].link), node[parent].key.pub, &err) == 0,
                  "%s", err.text);
}

static void start_all(uint32_t size, const char *topology, bool tcp, bool curve)
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
        ck_assert_msg(link_start(node[i].link, &err) == 0, "%s", err.text);
}

/* Run until `*counter` has at least that value. */
struct until {
    const unsigned *counter;
    unsigned want;
    double end;
};

static void until_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct until *u = arg;

    if (*u->counter >= u->want || flux_reactor_now(r) > u->end)
        flux_reactor_stop(r, 0);
}

static bool run_until(const unsigned *counter, unsigned want, double seconds)
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

static void run_for(double seconds)
{
    const unsigned never = 0;

    run_until(&never, 1, seconds);
}

static int send_from(uint32_t i, enum core_plane plane, uint32_t to, uint32_t tag, size_t bytes,
                     bool force)
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

static void publish(uint32_t i, const char *topic)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    ck_assert_ptr_nonnull(msg);
    ck_assert_int_eq(node[i].core.ops->publish(node[i].core.arg, msg), 0);
    flux_msg_destroy(msg);
}

/* Every kind of way that messages take. */
static void exchange(void)
{
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.last_from, 1);
    ck_assert_str_eq(node[0].core.last_topic, "check.link");
    ck_assert_int_eq(send_from(0, CORE_TREE, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
    publish(0, "news");
    ck_assert(run_until(&node[1].core.got[CORE_EVENT], 1, PATIENCE));
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 1, PATIENCE));
    ck_assert_str_eq(node[2].core.last_topic, "news");
    ck_assert_int_eq(send_from(1, CORE_RING, 2, 1, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.last_from, 1);
    ck_assert_int_eq(send_from(2, CORE_RING, 1, 2, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_uint_eq(node[1].core.last_from, 2);
    /* A neighbour that there is not, and one that has not been heard of. */
    ck_assert_int_eq(send_from(1, CORE_TREE, 2, 1, 10, false), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
}

START_TEST(test_exchange)
{
    start_all(3, "flat", _i & 1, _i & 2);
    exchange();
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(node[i].core.event_up[i], 0);
}
END_TEST

START_TEST(test_ring_of_two)
{
    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 1, 1, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_RING, 0, 1, 1, true), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
}
END_TEST

START_TEST(test_batch)
{
    struct link_stats st;
    const uint32_t count = 20000;

    queue_max = count;
    start_all(2, "flat", _i, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    for (uint32_t i = 1; i <= count; i++)
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, i, i % 100, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], count, PATIENCE));
    ck_assert(node[0].core.ordered);
    link_get_stats(node[1].link, &st);
    ck_assert_uint_eq(st.msgs_out, count);
    ck_assert_uint_lt(st.frames_out, count / 100);
    /* One that is larger than a frame. */
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 0, 5000000, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], count + 1, PATIENCE));
    ck_assert_uint_ge(node[0].core.bytes, 5000000);
}
END_TEST

START_TEST(test_full)
{
    unsigned sent = 0;
    uint32_t tag = 1;

    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    /* The reactor does not run, so ZeroMQ fills, and then the queue. */
    while (send_from(1, CORE_TREE, 0, tag, 50000, false) == 0) {
        tag++;
        ck_assert_uint_lt(++sent, 20000);
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_ge(sent, queue_max);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, tag++, 100, true), 0); /* may not be refused */
    ck_assert(run_until(&node[1].core.writable, 1, PATIENCE));
    ck_assert(run_until(&node[0].core.got[CORE_TREE], sent + 1, PATIENCE));
    ck_assert(node[0].core.ordered);
    ck_assert_uint_eq(node[1].core.writable, 1);
}
END_TEST

START_TEST(test_backlog_is_cut)
{
    unsigned sent = 0;

    start_all(2, "flat", false, false);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    while (send_from(1, CORE_TREE, 0, 0, 1000000, true) == 0)
        ck_assert_uint_lt(++sent, 1000);
    ck_assert_int_eq(errno, EHOSTUNREACH);
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][0], 0); /* not from within send */
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_str_ne(node[1].log, "");
}
END_TEST

START_TEST(test_child_lost)
{
    start_all(3, "flat", _i, true);
    exchange();
    link_destroy(node[2].link);
    node[2].link = NULL;
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.lost[CORE_RING][2], 1, PATIENCE));
    ck_assert_int_eq(send_from(0, CORE_TREE, 2, 1, 10, true), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
    run_for(0.2);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    /* The others go on. */
    publish(0, "more");
    ck_assert(run_until(&node[1].core.got[CORE_EVENT], 2, PATIENCE));
}
END_TEST

START_TEST(test_parent_lost)
{
    start_all(3, "chain", _i, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    /* The end of a connection is seen only once it was in use, and events have one of their own. */
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert_int_eq(send_from(2, CORE_TREE, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
    link_destroy(node[1].link);
    node[1].link = NULL;
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert_int_eq(send_from(2, CORE_TREE, 1, 1, 10, true), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
}
END_TEST

/* The core drops a child that does not leave by itself. */
START_TEST(test_drop)
{
    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    node[0].core.ops->drop(node[0].core.arg, CORE_TREE, 1);
    ck_assert_int_eq(send_from(0, CORE_TREE, 1, 1, 10, true), -1);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 1); /* it is not heard any more */
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
}
END_TEST

START_TEST(test_unknown_key)
{
    struct link_stats st;
    errmsg_t err = {""};

    create(0, 2, "flat", true);
    create(1, 2, "flat", true);
    bind_node(0, true);
    bind_node(1, true);
    /* Rank 0 expects another key. */
    char pub[41], sec[41];
    ck_assert_int_eq(zmq_curve_keypair(pub, sec), 0);
    ck_assert_int_eq(link_allow(node[0].link, 1, pub, &err), 0);
    allow_all(1);
    connect_node(0);
    connect_node(1);
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    send_from(1, CORE_TREE, 0, 1, 10, false);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    ck_assert_uint_eq(node[0].core.event_up[1], 0);
    link_get_stats(node[0].link, &st);
    ck_assert_uint_ge(st.refused, 1);
    ck_assert_ptr_nonnull(strstr(node[0].log, "refused"));
}
END_TEST

/* A stranger's connection with CURVE to the ROUTER of rank 0, as `id`. */
static void *intruder(void *ctx, const char *pub, const char *sec, const void *id, size_t idlen)
{
    void *s = zmq_socket(ctx, ZMQ_DEALER);
    int zero = 0;

    ck_assert_ptr_nonnull(s);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    if (idlen)
        zmq_setsockopt(s, ZMQ_ROUTING_ID, id, idlen);
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, node[0].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, sec, 40);
    ck_assert_int_eq(zmq_connect(s, link_tree_uri(node[0].link)), 0);
    return s;
}

static void two_of_three(void)
{
    errmsg_t err = {""};

    /* Rank 2 stays away; rank 1's key is in the hands of the test. */
    for (uint32_t i = 0; i < 3; i++)
        create(i, 3, "flat", true);
    bind_node(0, true);
    bind_node(1, true);
    allow_all(0);
    connect_node(0);
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
}

START_TEST(test_false_claim)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.claim");
    char buf[256];
    struct link_stats st;
    void *ctx = zmq_ctx_new();
    void *s;

    two_of_three();
    ck_assert_uint_le(flux_msg_encoded_size(msg), sizeof(buf));
    flux_msg_encode(msg, buf);
    /* Rank 1's key, rank 2's name. */
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\2", 5);
    zmq_send(s, buf, flux_msg_encoded_size(msg), 0);
    run_for(0.5);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    link_get_stats(node[0].link, &st);
    ck_assert_uint_eq(st.misclaimed, 1);
    ck_assert_ptr_nonnull(strstr(node[0].log, "another rank's key"));
    zmq_close(s);
    zmq_ctx_term(ctx);
    flux_msg_destroy(msg);
}
END_TEST

/* Frames that no broker sends, from one that is let in. */
START_TEST(test_malformed)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "check.good");
    size_t len = flux_msg_encoded_size(msg);
    char buf[256], junk[256];
    struct link_stats st;
    void *ctx = zmq_ctx_new(), *s, *odd;

    two_of_three();
    flux_msg_encode(msg, buf);
    memset(junk, 0xa5, sizeof(junk));
    odd = intruder(ctx, node[1].key.pub, node[1].key.sec, NULL, 0); /* ZeroMQ's own kind of id */
    zmq_send(odd, buf, len, 0);
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1", 5);
    zmq_send(s, junk, sizeof(junk), 0); /* no message */
    zmq_send(s, junk, 7, 0);            /* no word */
    zmq_send(s, "", 0, 0);              /* nothing, which is allowed */
    zmq_send(s, buf, len - 1, 0);       /* cut short */
    zmq_send(s, buf, len, ZMQ_SNDMORE); /* too many parts */
    zmq_send(s, buf, len, 0);
    memcpy(junk, buf, len);
    zmq_send(s, junk, sizeof(junk), 0); /* one message, and junk behind it */
    zmq_send(s, buf, len, 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 2, PATIENCE));
    run_for(0.3);
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 2);
    ck_assert_str_eq(node[0].core.last_topic, "check.good");
    link_get_stats(node[0].link, &st);
    ck_assert_uint_eq(st.malformed, 5);
    ck_assert_uint_eq(st.misclaimed, 1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    zmq_close(s);
    zmq_close(odd);
    zmq_ctx_term(ctx);
    flux_msg_destroy(msg);
}
END_TEST

/* A child that reads no events does not hold up its sibling. */
START_TEST(test_slow_child)
{
    struct link_stats st;
    void *ctx = zmq_ctx_new(), *s = zmq_socket(ctx, ZMQ_SUB);
    int zero = 0, one = 1;
    errmsg_t err = {""};

    /* Who reads nothing answers no heartbeat: on a slow host it would be lost before it is full. */
    peer_timeout = 60.;
    create(0, 3, "flat", false);
    create(1, 3, "flat", false);
    create(2, 3, "flat", false);
    bind_node(0, true);
    bind_node(1, true);
    bind_node(2, true);
    connect_node(0);
    connect_node(1);
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_RCVHWM, &one, sizeof(one));
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "up.2", 4);
    ck_assert_int_eq(zmq_connect(s, link_event_uri(node[0].link)), 0);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    for (unsigned i = 0; i < 60; i++) { /* 60 MB: more than sockets and queues between them hold */
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "much");
        ck_assert_int_eq(flux_msg_take_raw(msg, calloc(1, 1000001), 1000000), 0);
        for (unsigned k = 0; k < 5; k++)
            node[0].core.ops->publish(node[0].core.arg, msg);
        flux_msg_destroy(msg);
        ck_assert(run_until(&node[1].core.got[CORE_EVENT], 5 * (i + 1), PATIENCE));
    }
    link_get_stats(node[0].link, &st);
    ck_assert_uint_gt(st.event_skips, 0);
    ck_assert_uint_eq(node[0].core.skipped, st.event_skips);
    zmq_close(s);
    zmq_ctx_term(ctx);
}
END_TEST

/* A TCP connection of a stranger to the ROUTER of rank 0. */
static int stranger(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = strrchr(link_tree_uri(node[0].link), ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    in.sin_port = htons(atoi(port + 1));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Read what has come; true at the end of the connection. */
static bool ended(int fd)
{
    char buf[256];
    ssize_t n;

    while ((n = read(fd, buf, sizeof(buf))) > 0)
        ;
    return n == 0 || errno == ECONNRESET;
}

static bool ends(int fd)
{
    for (int i = 0; i < PATIENCE * 50 && !ended(fd); i++)
        run_for(0.02);
    return ended(fd);
}

/* Nobody makes a broker take memory by telling it, before he is known, that much is to come. */
START_TEST(test_stranger_large)
{
    static const char large[] = "\6\0\0\0\0\1\0\0\0\5HELLO"; /* a command of 16 MiB */
    unsigned char greeting[64] = {0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                  0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
    int fd;

    two_of_three();
    fd = stranger();
    ck_assert_int_eq(write(fd, greeting, sizeof(greeting)), sizeof(greeting));
    ck_assert_int_eq(write(fd, large, sizeof(large) - 1), sizeof(large) - 1);
    ck_assert(ends(fd));
    close(fd);
}
END_TEST

/* Many strangers of one address: the oldest have to go, and neighbours come in. */
START_TEST(test_strangers)
{
    enum { MANY = 60, MAX = 2 * 2 + 1 + 16 };
    int fds[MANY];
    errmsg_t err = {""};
    unsigned open = 0;

    two_of_three();
    bind_node(2, true);
    for (int i = 0; i < MANY; i++) {
        fds[i] = stranger();
        run_for(0.005);
    }
    ck_assert(ends(fds[0]));
    ck_assert(ends(fds[MANY - MAX - 1]));
    connect_node(1);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    for (int i = 0; i < MANY; i++) {
        open += !ended(fds[i]);
        close(fds[i]);
    }
    ck_assert_uint_le(open, MAX);
    ck_assert_uint_gt(open, 0);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
}
END_TEST

/* Rank 1 cannot keep rank 2's subscription from its parent, nor end it, nor take its place. */
START_TEST(test_false_events)
{
    void *ctx = zmq_ctx_new(), *s = zmq_socket(ctx, ZMQ_SUB), *t;
    int zero = 0;
    errmsg_t err = {""};

    two_of_three();
    bind_node(2, true);
    ck_assert_ptr_nonnull(s);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "up.2", 4);
    zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, node[0].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, node[1].key.pub, 40);
    zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, node[1].key.sec, 40);
    ck_assert_int_eq(zmq_connect(s, link_event_uri(node[0].link)), 0);
    for (int i = 0; i < PATIENCE * 50 && !strstr(node[0].log, "another rank's key"); i++)
        run_for(0.02);
    ck_assert_ptr_nonnull(strstr(node[0].log, "127.0.0.1:"));
    ck_assert_uint_eq(node[0].core.event_up[2], 0);
    t = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\2", 5);
    zmq_send(t, "", 0, 0);
    for (int i = 0; i < PATIENCE * 50; i++) {
        char word[64] = "";

        if (zmq_recv(t, word, sizeof(word) - 1, ZMQ_DONTWAIT) > 0) {
            ck_assert_ptr_nonnull(strstr(word, "refused: "));
            break;
        }
        ck_assert_int_lt(i, PATIENCE * 50 - 1);
        run_for(0.02);
    }
    zmq_close(t);
    allow_all(2);
    connect_node(2);
    ck_assert_int_eq(link_start(node[2].link, &err), 0);
    ck_assert_int_eq(send_from(2, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    zmq_close(s);
    run_for(0.3);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 0);
    zmq_ctx_term(ctx);
}
END_TEST

/* A child with another public key of its parent: both say so. */
START_TEST(test_wrong_parent_key)
{
    errmsg_t err = {""};
    char pub[41], sec[41];

    two_of_three();
    allow_all(1);
    ck_assert_int_eq(zmq_curve_keypair(pub, sec), 0);
    ck_assert_int_eq(link_connect(node[1].link, CORE_TREE, 0, link_tree_uri(node[0].link),
                                  link_event_uri(node[0].link), pub, &err),
                     0);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    for (int i = 0; i < PATIENCE * 50 && !(node[0].log[0] && node[1].log[0]); i++)
        run_for(0.02);
    ck_assert_msg(strstr(node[0].log, "refused a connection from 127.0.0.1:") != NULL, "%s",
                  node[0].log);
    ck_assert_ptr_nonnull(strstr(node[0].log, "another public key"));
    ck_assert_ptr_nonnull(strstr(node[1].log, "rank 0 at tcp://127.0.0.1"));
    ck_assert_ptr_nonnull(strstr(node[1].log, "key"));
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][0], 0);
}
END_TEST

/* A child that has stopped is lost, whatever waits for it, though its connections are there: the
 * threads of ZeroMQ in the test answer for it. */
START_TEST(test_silent_child)
{
    void *ctx = zmq_ctx_new(), *s;

    peer_timeout = 1.;
    two_of_three();
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1", 5);
    zmq_send(s, "", 0, 0);
    if (_i) {
        while (send_from(0, CORE_TREE, 1, 0, 10, true) < 0)
            run_for(0.01);
        for (int i = 0; i < 30; i++) /* more than ZeroMQ and the kernel take */
            ck_assert_int_eq(send_from(0, CORE_TREE, 1, 0, 1000000, true), 0);
    }
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    zmq_close(s);
    zmq_ctx_term(ctx);
}
END_TEST

/* Neighbours that have nothing to tell each other are not lost. */
START_TEST(test_idle)
{
    peer_timeout = 1.;
    start_all(3, "chain", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    run_for(3.);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            ck_assert_uint_eq(node[i].core.lost[CORE_TREE][k], 0);
            ck_assert_uint_eq(node[i].core.lost[CORE_RING][k], 0);
        }
    }
}
END_TEST

START_TEST(test_errors)
{
    struct link_config cfg = {.curve = true, .public_key = "short", .secret_key = "short"};
    errmsg_t err = {""};
    core_t c = {.r = reactor, .topo = topology_create("flat", 3, NULL)};
    link_t *l;

    ck_assert_ptr_null(link_create(&c, &cfg, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_ne(err.text, "");
    cfg.curve = false;
    cfg.event_uri = "tcp://1.2.3.4:5";
    ck_assert_ptr_null(link_create(&c, &cfg, &err));
    cfg.event_uri = NULL;
    l = link_create(&c, &cfg, &err);
    ck_assert_ptr_nonnull(l);
    ck_assert_ptr_null(link_tree_uri(l));
    ck_assert_int_eq(link_bind(l, "nonsense", "ipc:///x", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "nonsense"));
    ck_assert_int_eq(link_allow(l, 7, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 7"));
    link_destroy(l);
    link_destroy(NULL);
    /* An address in use. */
    create(0, 2, "flat", false);
    create(1, 2, "flat", false);
    bind_node(0, true);
    ck_assert_int_eq(
        link_bind(node[1].link, link_tree_uri(node[0].link), "tcp://127.0.0.1:*", &err), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    topology_destroy(c.topo);
}
END_TEST

static Suite *link_suite(void)
{
    Suite *s = suite_create("link");
    TCase *tc = tcase_create("link");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_exchange, 0, 4);
    tcase_add_test(tc, test_ring_of_two);
    tcase_add_loop_test(tc, test_batch, 0, 2);
    tcase_add_test(tc, test_full);
    tcase_add_test(tc, test_backlog_is_cut);
    tcase_add_loop_test(tc, test_child_lost, 0, 2);
    tcase_add_loop_test(tc, test_parent_lost, 0, 2);
    tcase_add_test(tc, test_drop);
    tcase_add_test(tc, test_unknown_key);
    tcase_add_test(tc, test_false_claim);
    tcase_add_test(tc, test_malformed);
    tcase_add_test(tc, test_slow_child);
    tcase_add_test(tc, test_stranger_large);
    tcase_add_test(tc, test_strangers);
    tcase_add_test(tc, test_false_events);
    tcase_add_test(tc, test_wrong_parent_key);
    tcase_add_loop_test(tc, test_silent_child, 0, 2);
    tcase_add_test(tc, test_idle);
    tcase_add_test(tc, test_errors);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *sr = srunner_create(link_suite());
    int failed;

    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
