/* The link on ZeroMQ: sockets, keys, and the calls of its owner.
 *
 * One broker has
 *     ROUTER  bound      tree children and the ring predecessor connect to it
 *     DEALER  connected  to the parent's ROUTER        DEALER  connected  to the ring successor's
 *     XPUB    bound      events for the children       SUB     connected  to the parent's XPUB
 *     ROUTER  inproc     authentication (zap.c)        PAIRs   inproc     monitors of the others
 * and, when events go by multicast, a PUB or SUB on epgm.
 *
 * Wire.  A frame is one or several encoded messages back to back, or a part of a large one
 * (link_queue.h).  A frame of less than a message header is a word of the link: "cut" (the sender
 * has cut this connection: you are gone for it), "refused: WHY" (you do not belong here), or empty
 * (a sign of life).  Routing ids have 5 bytes: 'T' (tree) or 'R' (ring), and the
 * rank of the connecting broker, big endian.
 *
 * 1. A connecting broker must own the key that this rank has (link_allow()); what comes from a
 *    peer that claims another rank than its key's is dropped.
 * 2. The child's SUB subscribes to "" and after that to "up.RANK". The parent's XPUB shows it
 *    that subscription: so a parent knows when the child's events flow.
 * 3. The end of a connection is told by the monitors of the sockets: on a connecting socket once
 *    the connection was in use (before that ZeroMQ tries again for ever, and the core's
 *    join_timeout is the end of it), on a listening one once its peer has shown who it is
 *    (link_gate.c). A peer of which one connection ends is lost.
 * 4. A peer that falls silent without an end of its connections (it is stopped, its host died, the
 *    network is cut) is found by link_beat.c.
 * 5. A peer that is lost stays lost (state table in link_private.h).
 * 6. The core is called from the reactor only, never from within its own calls.
 * 7. Bounds: ZeroMQ holds at most HWM frames per connection and direction. Beyond that a peer's
 *    own queue fills: at queue_max messages or BYTES_MAX the core gets EAGAIN; what may not be
 *    refused goes on to FORCED_MAX, and then the peer counts as lost. See link_io.c.
 * 8. Memory: a leaf of a large session must stay small, so there is one I/O thread, and HWMs are
 *    low: many messages in few frames.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>
#include <zmq.h>

#include "link_private.h"
#include "libutil/strutil.h"

#define HWM_FRAMES 64
#define HWM_EVENT_FRAMES 256
#define LINGER_MS 1000
#define RETRY_MS 50         /* a connection that could not be made is tried again after this ... */
#define RETRY_MAX_MS 500    /* ... and at last after this */
#define HANDSHAKE_MS 120000 /* many brokers on few cores, busy with their own bring-up */
#define HANDSHAKE_TCP_MS 10000 /* where strangers come too: who did not make it tries again */
#define FRAME_SLACK 1024       /* what CURVE adds to a frame, and more */
#define KEEPALIVE_MAX 3600.    /* seconds */
#define BACKLOG 4096
#define MAX_SOCKETS 32
#define LOG_PER_SECOND 5

#define CAST_RATE_KBIT 100000
#define CAST_RECOVERY_MS 250

void link_logf(link_t *l, int level, const char *fmt, ...)
{
    char text[320];
    double now = flux_reactor_now(l->r);
    va_list ap;

    if (!l->log)
        return;
    if (now - l->log_since >= 1.) {
        l->log_since = now;
        l->log_count = 0;
    }
    if (l->log_count++ >= LOG_PER_SECOND)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    l->log(l->log_arg, level, text);
}

static void log_refusal(void *arg, const char *text)
{
    link_logf(arg, LOG_ERR, "%s", text);
}

void link_make_id(uint8_t *id, enum core_plane plane, uint32_t rank)
{
    id[0] = plane == CORE_RING ? 'R' : 'T';
    id[1] = rank >> 24;
    id[2] = rank >> 16;
    id[3] = rank >> 8;
    id[4] = rank;
}

struct link_peer *link_inbound(const link_t *l, enum core_plane plane, uint32_t rank)
{
    return hmap_get_u64(l->inbound, (uint64_t)plane << 32 | rank);
}

/* --- sockets --- */

static int set_int(void *sock, int option, int value)
{
    return zmq_setsockopt(sock, option, &value, sizeof(value));
}

/* link_beat.c finds a peer that is silent.  A TCP connection that is broken while others of the same
 * peer are not is found by the kernel.  ZeroMQ's heartbeats would find it, too, but they count the
 * time during which both ends were stopped, when a virtual machine is suspended, and then end
 * connections in which nothing is wrong. */
static int set_keepalive(const link_t *l, void *sock)
{
    int sec = l->peer_timeout > KEEPALIVE_MAX ? (int)KEEPALIVE_MAX : (int)l->peer_timeout;

    if (l->peer_timeout <= 0.)
        return 0;
    if (sec < 1)
        sec = 1;
    if (set_int(sock, ZMQ_TCP_KEEPALIVE, 1) < 0 || set_int(sock, ZMQ_TCP_KEEPALIVE_IDLE, sec) < 0 ||
        set_int(sock, ZMQ_TCP_KEEPALIVE_INTVL, (sec + 3) / 4) < 0 ||
        set_int(sock, ZMQ_TCP_KEEPALIVE_CNT, 4) < 0)
        return -1;
    /* Also while data waits to be acknowledged, when no keepalive is sent; longer, since a peer may
     * be stopped for nearly that long and read nothing. */
    return set_int(sock, ZMQ_TCP_MAXRT, 4000 * sec);
}

/* A socket with what all have in common. */
static struct link_source *open_source(link_t *l, int which, int type,
                                       void (*drain)(struct link_source *))
{
    struct link_source *src = &l->src[which];
    bool events = which == SRC_PUB || which == SRC_SUB || which == SRC_CAST;
    int64_t max = LINK_FRAME_MAX + FRAME_SLACK; /* before a peer is known, and after */

    src->l = l;
    src->drain = drain;
    if (!(src->sock = zmq_socket(l->ctx, type)))
        return NULL;
    /* SUB: its subscriptions to a parent that is gone are nothing to wait for. */
    if (set_int(src->sock, ZMQ_LINGER, which == SRC_SUB ? 0 : LINGER_MS) < 0 ||
        set_int(src->sock, ZMQ_SNDHWM, events ? HWM_EVENT_FRAMES : HWM_FRAMES) < 0 ||
        set_int(src->sock, ZMQ_RCVHWM, events ? HWM_EVENT_FRAMES : HWM_FRAMES) < 0 ||
        set_int(src->sock, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) < 0 ||
        zmq_setsockopt(src->sock, ZMQ_MAXMSGSIZE, &max, sizeof(max)) < 0)
        return NULL;
    return src;
}

static int set_ipv6(void *sock, const char *uri)
{
    return strchr(uri, '[') ? set_int(sock, ZMQ_IPV6, 1) : 0;
}

static int secure_server(const link_t *l, void *sock)
{
    if (!l->curve)
        return 0;
    if (set_int(sock, ZMQ_CURVE_SERVER, 1) < 0 ||
        zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, l->secret_key, ZAP_KEY_SIZE) < 0 ||
        zmq_setsockopt(sock, ZMQ_ZAP_DOMAIN, "flux", 4) < 0)
        return -1;
    return 0;
}

static int secure_client(const link_t *l, void *sock, const char *server_key)
{
    if (!l->curve)
        return 0;
    if (zmq_setsockopt(sock, ZMQ_CURVE_SERVERKEY, server_key, ZAP_KEY_SIZE) < 0 ||
        zmq_setsockopt(sock, ZMQ_CURVE_PUBLICKEY, l->public_key, ZAP_KEY_SIZE) < 0 ||
        zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, l->secret_key, ZAP_KEY_SIZE) < 0)
        return -1;
    return 0;
}

static bool key_ok(const char *key)
{
    uint8_t bin[32];

    return key && strlen(key) == ZAP_KEY_SIZE && zmq_z85_decode(bin, key);
}

/* First of all: ZeroMQ's threads would block on events that nobody takes. */
static void stop_monitors(link_t *l)
{
    static const int watched[] = {SRC_IN, SRC_UP, SRC_RING, SRC_PUB};

    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        if (l->src[watched[i]].sock)
            zmq_socket_monitor(l->src[watched[i]].sock, NULL, 0);
    }
}

static void close_source(struct link_source *src)
{
    if (src->sock && src->drain != link_drain_zap)
        zmq_close(src->sock);
    src->sock = NULL;
    free(src->uri);
    src->uri = NULL;
}

/* --- life --- */

static void peer_free(void *val)
{
    struct link_peer *p = val;

    if (!p)
        return;
    list_remove(&p->work);
    list_remove(&p->unreported);
    link_queue_clear(&p->queue);
    free(p);
}

static struct link_peer *peer_create(link_t *l, enum core_plane plane, uint32_t rank)
{
    struct link_peer *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->l = l;
    p->plane = plane;
    p->rank = rank;
    list_init(&p->work);
    list_init(&p->unreported);
    link_queue_init(&p->queue);
    link_make_id(p->id, plane, rank);
    return p;
}

static int add_inbound(link_t *l, enum core_plane plane, uint32_t rank)
{
    struct link_peer *p = peer_create(l, plane, rank);

    if (!p)
        return -1;
    p->source = &l->src[SRC_IN];
    if (hmap_put_u64(l->inbound, (uint64_t)plane << 32 | rank, p) < 0) {
        peer_free(p);
        return -1;
    }
    return 0;
}

static int expect_peers(link_t *l)
{
    const topology_t *topo = core_topology(l->core);

    l->nchildren = topology_nchildren(topo, l->rank);
    if (!(l->inbound = hmap_create_u64(peer_free)))
        return -1;
    for (uint32_t i = 0; i < l->nchildren; i++) {
        if (add_inbound(l, CORE_TREE, topology_child_at(topo, l->rank, i)) < 0)
            return -1;
    }
    if (core_size(l->core) > 1)
        return add_inbound(l, CORE_RING, topology_ring_prev(topo, l->rank));
    return 0;
}

static int open_context(link_t *l, errmsg_t *err)
{
    if (!(l->ctx = zmq_ctx_new()) || zmq_ctx_set(l->ctx, ZMQ_IO_THREADS, 1) < 0 ||
        zmq_ctx_set(l->ctx, ZMQ_MAX_SOCKETS, MAX_SOCKETS) < 0)
        return errmsg_fail(err, errno, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    if (l->curve) {
        if (!(l->zap = zap_create(l->ctx, log_refusal, l, err)))
            return -1;
        l->src[SRC_ZAP] =
            (struct link_source){.l = l, .sock = zap_socket(l->zap), .drain = link_drain_zap};
    }
    return 0;
}

void *link_create(core_t *core, const struct link_config *cfg, errmsg_t *err)
{
    link_t *l;

    if (cfg->curve && (!key_ok(cfg->public_key) || !key_ok(cfg->secret_key))) {
        errmsg_fail(err, EINVAL,
                    "the broker's key pair is missing or is not in Z85 of 40 characters");
        return NULL;
    }
    if (cfg->event_uri && !str_starts(cfg->event_uri, "epgm://")) {
        errmsg_fail(err, EINVAL,
                    "event.uri \"%s\" is not a multicast address: it must begin with epgm://",
                    cfg->event_uri);
        return NULL;
    }
    if (!(l = calloc(1, sizeof(*l)))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        return NULL;
    }
    list_init(&l->dirty);
    list_init(&l->blocked);
    list_init(&l->unreported);
    link_queue_init(&l->events);
    l->core = core;
    l->r = core_reactor(core);
    l->rank = core_rank(core);
    l->curve = cfg->curve;
    if (l->curve) {
        memcpy(l->public_key, cfg->public_key, LINK_KEY_SIZE);
        memcpy(l->secret_key, cfg->secret_key, LINK_KEY_SIZE);
    }
    l->peer_timeout = cfg->peer_timeout;
    l->queue_max = cfg->queue_max > 0 ? cfg->queue_max : 1;
    l->log = cfg->log;
    l->log_arg = cfg->log_arg;
    if (cfg->event_uri && !(l->cast_uri = strdup(cfg->event_uri))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        goto error;
    }
    if (expect_peers(l) < 0 || !(l->gate = link_gate_create(l))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        goto error;
    }
    if (open_context(l, err) < 0)
        goto error;
    return l;
error:
    link_destroy(l);
    return NULL;
}

void link_destroy(void *arg)
{
    link_t *l = arg;
    int saved = errno;

    if (!l)
        return;
    if (l->started) {
        l->started = false; /* the core is told nothing from here on */
        link_io_flush(l);
    }
    link_io_stop(l);
    stop_monitors(l);
    for (int i = 0; i < SRC_COUNT; i++)
        close_source(&l->src[i]);
    zap_destroy(l->zap);
    if (l->ctx)
        zmq_ctx_term(l->ctx);
    link_gate_destroy(l->gate);
    link_queue_clear(&l->events);
    peer_free(l->parent);
    peer_free(l->next);
    hmap_destroy(l->inbound);
    free(l->cast_uri);
    explicit_bzero(l->secret_key, sizeof(l->secret_key));
    free(l);
    errno = saved;
}

/* --- listening --- */

static int bind_source(struct link_source *src, const char *uri, errmsg_t *err)
{
    char bound[512];
    size_t len = sizeof(bound);

    if (!src)
        return errmsg_fail(err, errno, "cannot open a socket: %s", zmq_strerror(errno));
    if (set_ipv6(src->sock, uri) < 0 || secure_server(src->l, src->sock) < 0 ||
        set_int(src->sock, ZMQ_BACKLOG, BACKLOG) < 0 ||
        (str_starts(uri, "tcp:") && set_int(src->sock, ZMQ_HANDSHAKE_IVL, HANDSHAKE_TCP_MS) < 0) ||
        link_gate_guard(src->l, (int)(src - src->l->src)) < 0 || zmq_bind(src->sock, uri) < 0 ||
        zmq_getsockopt(src->sock, ZMQ_LAST_ENDPOINT, bound, &len) < 0)
        return errmsg_fail(err, errno, "cannot listen at %s: %s", uri, zmq_strerror(errno));
    if (!(src->uri = strdup(bound)))
        return errmsg_fail(err, ENOMEM, "out of memory while listening at %s", uri);
    return 0;
}

int link_bind(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err)
{
    link_t *l = arg;
    struct link_source *in, *pub;

    if (l->src[SRC_IN].sock)
        return errmsg_fail(err, EINVAL, "this broker listens already, at %s", link_tree_uri(l));
    in = open_source(l, SRC_IN, ZMQ_ROUTER, link_drain_in);
    if (in && set_int(in->sock, ZMQ_ROUTER_MANDATORY, 1) < 0)
        in = NULL;
    if (bind_source(in, tree_uri, err) < 0)
        return -1;
    if (l->nchildren == 0)
        return 0;
    /* NODROP: a full child stops the flow, for a moment (link_io.c), instead of losing events. */
    pub = open_source(l, SRC_PUB, ZMQ_XPUB, link_drain_pub);
    /* VERBOSE: each child's "up.RANK" is shown, whoever has subscribed to the same before. */
    if (pub && (set_int(pub->sock, ZMQ_XPUB_NODROP, 1) < 0 ||
                set_int(pub->sock, ZMQ_XPUB_VERBOSE, 1) < 0 || set_keepalive(l, pub->sock) < 0))
        pub = NULL;
    return bind_source(pub, event_uri, err);
}

const char *link_tree_uri(void *arg)
{
    const link_t *l = arg;

    return l->src[SRC_IN].uri;
}

const char *link_event_uri(void *arg)
{
    const link_t *l = arg;

    if (l->src[SRC_PUB].uri)
        return l->src[SRC_PUB].uri;
    return l->src[SRC_IN].uri ? "" : NULL;
}

int link_rebind(void *arg, errmsg_t *err)
{
    link_t *l = arg;
    static const int bound[] = {SRC_IN, SRC_PUB}; /* the others' names are those of peers */
    int made = 0;

    for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
        const struct link_source *src = &l->src[bound[i]];
        const char *uri = src->uri;

        if (!uri || !str_starts(uri, "ipc://") || access(uri + strlen("ipc://"), F_OK) == 0)
            continue;
        /* A second listener: the end of the first would be that of its connections. */
        if (zmq_bind(src->sock, uri) < 0)
            return errmsg_fail(err, errno, "cannot listen at %s: %s", uri, zmq_strerror(errno));
        made = 1;
    }
    return made;
}

static int allow_one(link_t *l, enum core_plane plane, uint32_t rank, const char *key)
{
    struct link_peer *p = link_inbound(l, plane, rank);

    if (!p)
        return 0;
    if (l->curve)
        memcpy(p->key, key, LINK_KEY_SIZE);
    return 1;
}

int link_allow(void *arg, uint32_t rank, const char *public_key, errmsg_t *err)
{
    link_t *l = arg;
    if (l->curve && !key_ok(public_key))
        return errmsg_fail(err, EINVAL, "the key of rank %u is not in Z85 of 40 characters", rank);
    if (allow_one(l, CORE_TREE, rank, public_key) + allow_one(l, CORE_RING, rank, public_key) == 0)
        return errmsg_fail(err, EINVAL, "rank %u has no reason to connect to rank %u", rank,
                           l->rank);
    if (l->curve && zap_allow(l->zap, public_key) < 0)
        return errmsg_fail(err, errno, "out of memory while admitting rank %u", rank);
    return 0;
}

/* --- connecting --- */

static int connect_source(struct link_source *src, const char *uri, const char *key, errmsg_t *err)
{
    link_t *l;

    if (!src)
        return errmsg_fail(err, errno, "cannot open a socket: %s", zmq_strerror(errno));
    l = src->l;
    if (set_ipv6(src->sock, uri) < 0 || secure_client(l, src->sock, key) < 0 ||
        set_keepalive(l, src->sock) < 0 || set_int(src->sock, ZMQ_RECONNECT_IVL, RETRY_MS) < 0 ||
        set_int(src->sock, ZMQ_RECONNECT_IVL_MAX, RETRY_MAX_MS) < 0 ||
        zmq_connect(src->sock, uri) < 0)
        return errmsg_fail(err, errno, "cannot connect to %s: %s", uri, zmq_strerror(errno));
    if (!(src->uri = strdup(uri)))
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to %s", uri);
    return 0;
}

/* Hear what happens to the connection of `src`. */
static int monitor(link_t *l, struct link_source *src, int which)
{
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_DISCONNECTED;
    struct link_source *mon = &l->src[which];
    char address[32];

    snprintf(address, sizeof(address), "inproc://monitor.%d", which);
    mon->l = l;
    mon->peer = src->peer;
    mon->drain = link_drain_monitor;
    if (zmq_socket_monitor(src->sock, address, events) < 0 ||
        !(mon->sock = zmq_socket(l->ctx, ZMQ_PAIR)) || set_int(mon->sock, ZMQ_LINGER, 0) < 0 ||
        zmq_connect(mon->sock, address) < 0)
        return -1;
    return 0;
}

static int connect_dealer(link_t *l, int which, enum core_plane plane, uint32_t rank,
                          const char *uri, const char *key, struct link_peer **slot, errmsg_t *err)
{
    struct link_source *src;
    uint8_t id[LINK_ID_SIZE];

    if (l->src[which].sock)
        return errmsg_fail(err, EINVAL, "this broker is connected already, to %s", uri);
    if (l->curve && !key_ok(key))
        return errmsg_fail(err, EINVAL, "the key of rank %u is not in Z85 of 40 characters", rank);
    if (!(*slot = peer_create(l, plane, rank)))
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", rank);
    src = open_source(l, which, ZMQ_DEALER, link_drain_peer);
    (*slot)->outbound = true;
    (*slot)->source = &l->src[which];
    if (src) {
        src->peer = *slot;
        link_make_id(id, plane, l->rank);
        if (zmq_setsockopt(src->sock, ZMQ_ROUTING_ID, id, sizeof(id)) < 0 ||
            monitor(l, src, which == SRC_UP ? SRC_UP_MON : SRC_RING_MON) < 0)
            src = NULL;
    }
    if (connect_source(src, uri, key, err) < 0)
        return -1;
    link_send_word(*slot, ""); /* the other side's gate is to know whose connection it is */
    return 0;
}

static int connect_parent(link_t *l, uint32_t rank, const char *tree_uri, const char *event_uri,
                          const char *public_key, errmsg_t *err)
{
    struct link_source *sub;
    char topic[24];

    if (connect_dealer(l, SRC_UP, CORE_TREE, rank, tree_uri, public_key, &l->parent, err) < 0)
        return -1;
    sub = open_source(l, SRC_SUB, ZMQ_SUB, link_drain_sub);
    snprintf(topic, sizeof(topic), "up.%u", l->rank);
    if (sub && (zmq_setsockopt(sub->sock, ZMQ_SUBSCRIBE, "", 0) < 0 ||
                zmq_setsockopt(sub->sock, ZMQ_SUBSCRIBE, topic, strlen(topic)) < 0))
        sub = NULL;
    return connect_source(sub, event_uri, public_key, err);
}

int link_connect(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                 const char *event_uri, const char *public_key, errmsg_t *err)
{
    link_t *l = arg;

    if (plane == CORE_TREE)
        return connect_parent(l, rank, tree_uri, event_uri, public_key, err);
    return connect_dealer(l, SRC_RING, CORE_RING, rank, tree_uri, public_key, &l->next, err);
}

/* Multicast carries events only; it is neither encrypted nor authenticated, which is why it has to
 * be asked for.  The tree's event connections stay, as witnesses of who is there. */
static int open_cast(link_t *l, errmsg_t *err)
{
    bool root = l->rank == 0;
    struct link_source *src = open_source(l, SRC_CAST, root ? ZMQ_PUB : ZMQ_SUB, link_drain_sub);

    if (!src || set_int(src->sock, ZMQ_RATE, CAST_RATE_KBIT) < 0 ||
        set_int(src->sock, ZMQ_RECOVERY_IVL, CAST_RECOVERY_MS) < 0 ||
        (!root && zmq_setsockopt(src->sock, ZMQ_SUBSCRIBE, "", 0) < 0) ||
        zmq_connect(src->sock, l->cast_uri) < 0)
        return errmsg_fail(err, errno, "cannot use %s for events: %s", l->cast_uri,
                           zmq_strerror(errno));
    l->announce = true;
    return 0;
}

int link_start(void *arg, errmsg_t *err)
{
    link_t *l = arg;

    if (l->started)
        return errmsg_fail(err, EINVAL, "the broker's link runs already");
    if (l->cast_uri && open_cast(l, err) < 0)
        return -1;
    if (link_io_start(l) < 0)
        return errmsg_fail(err, errno, "cannot watch the broker's sockets: %s", strerror(errno));
    l->started = true;
    core_set_link(l->core, &link_ops, l);
    return 0;
}

void link_get_stats(const link_t *l, struct link_stats *st)
{
    *st = l->stats;
    st->refused = l->zap ? zap_refused(l->zap) : 0;
}

const struct transport transport_zmq = {.name = "zmq", .create = link_create, .ops = &link_ops};
