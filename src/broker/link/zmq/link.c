/* link.c - the ZeroMQ link: its sockets, its keys, and the calls of its owner.
 *
 * Purpose: carry messages between a broker and its neighbors (tree parent, tree children, ring
 * predecessor and ring successor).  One broker has these sockets:
 *
 *     ROUTER  bound      tree children and the ring predecessor connect to it
 *     DEALER  connected  to the parent's ROUTER        DEALER  connected  to the ring successor's
 *     XPUB    bound      events for the children       SUB     connected  to the parent's XPUB
 *     ROUTER  inproc     authentication (zap.c)        PAIRs   inproc     monitors of the others
 *
 * While its subtree returns to its place, it has further ones that are connected (link_out.c).
 *
 * Format: a frame holds one or more encoded messages back to back, or one part of a large message
 * (link_queue.h).  A frame shorter than a message header is a control word of the link:
 *
 *     "cut"            the sender has cut the connection, and regards the receiver as lost
 *     "refused: WHY"   the sender does not expect the receiver as a neighbor, or in this version
 *     ""               a sign of life
 *
 * A routing id has 13 bytes: 'T' (tree) or 'R' (ring), then the rank of the connecting broker, 4
 * random bytes of that broker, and the number of its attempts to connect, in big-endian order.  A
 * ROUTER ignores a connection whose id another connection has.  These numbers make the ids of all
 * sockets that connect different, so the link receives the second connection of a rank as well, and
 * can refuse it with a reason.
 *
 * Invariants:
 *  1. A connecting broker must own the key that was registered for its rank (link_allow()), or,
 *     when it is below a neighbor and has lost its parent, the key that the brokers between have
 *     reported (core_key_of()).  The link refuses a peer whose claimed rank and key do not match.
 *  2. A child's SUB socket subscribes to "" and then to "up.RANK.ATTEMPT", where ATTEMPT is the end
 *     of its routing id in hexadecimal digits.  The XPUB socket shows the second subscription to
 *     the parent, which then knows that the child receives events.
 *  3. The monitors of the sockets report the end of a connection.  On a connecting socket the end
 *     counts once the handshake has succeeded; until then ZeroMQ retries, and the core's
 *     join_timeout limits the wait.  On a listening socket it counts once the peer has identified
 *     itself (link_gate.c).  A peer that loses one of its connections is lost.
 *  4. link_beat.c detects a peer that falls silent while its connections stay open, because the
 *     peer is stopped, its host has crashed, or the network is cut.
 *  5. One connection carries a neighbor, and another one the events to a child.  After its end
 *     another broker of the same rank, with the same key, may connect; the predecessor on the ring
 *     also while the end is not known here, but the session counts the rank as lost.  A broker
 *     connects again to its ring successor when the core asks for it, and to another parent by
 *     new sockets (link_out.c).  The connections of one attempt may be accepted in any order, and
 *     after those of a later attempt: the accepting broker goes by the number of the attempt,
 *     whichever of its connections arrived first, and drops frames of earlier attempts.
 *  6. The link calls the core from the reactor only, never from within a call of the core.
 *  7. Queues are bounded.  ZeroMQ holds at most HWM frames per connection and direction.  Beyond
 *     that the queue of the peer fills: at queue_max messages or BYTES_MAX bytes the core gets
 *     EAGAIN.  Messages that must not be refused are accepted up to FORCED_MAX bytes; then the peer
 *     counts as lost (link_io.c).
 *  8. A leaf of a large session must stay small: there is one I/O thread.
 *
 * Failure: see link_io.c and link_gate.c.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <syslog.h>
#include <unistd.h>
#include <zmq.h>

#include "link_private.h"
#include "libutil/strutil.h"
#include "src/broker/control_wire.h"

#define HANDSHAKE_TCP_MS \
    60000 /* strangers can connect here; link_gate.c ends most of them earlier */
#define BACKLOG 4096
#define MAX_SOCKETS 128 /* a closed socket counts until the thread of ZeroMQ has ended it */

static void log_refusal(void *arg, const char *text)
{
    link_t *l = arg;

    linklog(&l->log, LOG_ERR, "%s", text);
}

static bool known(void *arg, const char *key)
{
    const link_t *l = arg;

    return core_has_key(l->core, key);
}

static void admitted(void *arg, const char *host)
{
    link_gate_known(arg, host);
}

struct link_peer *link_inbound(const link_t *l, enum core_plane plane, uint32_t rank)
{
    return hmap_get_u64(l->inbound, (uint64_t)plane << 32 | rank);
}

/* --- keys and addresses --- */

static bool key_ok(const char *key)
{
    uint8_t bin[32];

    return key && strlen(key) == ZAP_KEY_SIZE && zmq_z85_decode(bin, key);
}

/* --- start and end --- */

void link_peer_free(void *val)
{
    struct link_peer *p = val;

    if (!p)
        return;
    list_remove(&p->work);
    list_remove(&p->unreported);
    link_queue_clear(&p->queue);
    free(p);
}

struct link_peer *link_peer_create(link_t *l, enum core_plane plane, uint32_t rank)
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
    return p;
}

struct link_peer *link_add_inbound(link_t *l, enum core_plane plane, uint32_t rank)
{
    struct link_peer *p = link_peer_create(l, plane, rank);

    if (!p)
        return NULL;
    p->source = &l->src[SRC_IN];
    if (hmap_put_u64(l->inbound, (uint64_t)plane << 32 | rank, p) < 0) {
        link_peer_free(p);
        return NULL;
    }
    return p;
}

static int expect_peers(link_t *l)
{
    const topology_t *topo = core_topology(l->core);

    l->nchildren = topology_nchildren(topo, l->rank);
    if (!(l->inbound = hmap_create_u64(link_peer_free)))
        return -1;
    for (uint32_t i = 0; i < l->nchildren; i++) {
        if (!link_add_inbound(l, CORE_TREE, topology_child_at(topo, l->rank, i)))
            return -1;
    }
    if (core_size(l->core) > 1 &&
        !link_add_inbound(l, CORE_RING, topology_ring_prev(topo, l->rank)))
        return -1;
    return 0;
}

static int open_context(link_t *l, errmsg_t *err)
{
    if (!(l->ctx = zmq_ctx_new()) || zmq_ctx_set(l->ctx, ZMQ_IO_THREADS, 1) < 0 ||
        zmq_ctx_set(l->ctx, ZMQ_MAX_SOCKETS, MAX_SOCKETS) < 0)
        return errmsg_fail(err, errno, "cannot start ZeroMQ: %s", zmq_strerror(errno));
    if (l->curve) {
        static const struct zap_callbacks zap_cb = {log_refusal, known, admitted};

        if (!(l->zap = zap_create(l->ctx, &zap_cb, l, err)))
            return -1;
        l->src[SRC_ZAP] =
            (struct link_source){.l = l, .sock = zap_socket(l->zap), .drain = link_drain_zap};
    }
    return 0;
}

void link_trim(char *uri)
{
    if (str_starts(uri, "tcp://"))
        uri[strcspn(uri, "+")] = '\0';
}

static void *link_create(core_t *core, const struct link_config *cfg, errmsg_t *err)
{
    link_t *l;

    if (cfg->curve && (!key_ok(cfg->public_key) || !key_ok(cfg->secret_key))) {
        errmsg_fail(
            err, EINVAL,
            "the broker's key pair is missing, or a key is not a Z85 string of 40 characters");
        return NULL;
    }
    if (!(l = calloc(1, sizeof(*l)))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        return NULL;
    }
    list_init(&l->dirty);
    list_init(&l->blocked);
    list_init(&l->unreported);
    list_init(&l->outs);
    link_queue_init(&l->events);
    l->core = core;
    l->r = core_reactor(core);
    l->rank = core_rank(core);
    l->curve = cfg->curve;
    if (l->curve) {
        memcpy(l->public_key, cfg->public_key, LINK_KEY_SIZE);
        memcpy(l->secret_key, cfg->secret_key, LINK_KEY_SIZE);
    }
    l->live = cfg->live;
    l->handshake = cfg->handshake;
    l->queue_max = cfg->queue_max > 0 ? cfg->queue_max : 1;
    l->log = (struct linklog){.r = l->r, .log = cfg->log, .arg = cfg->log_arg};
    l->claim = cfg->claim;
    l->claim_arg = cfg->claim_arg;
    if (getrandom(&l->attempt.broker, sizeof(l->attempt.broker), 0) < 0) {
        errmsg_fail(err, errno, "cannot get random bytes: %s", strerror(errno));
        goto error;
    }
    if ((cfg->card_tree && !(l->card_tree = strdup(cfg->card_tree))) ||
        (cfg->card_event && !(l->card_event = strdup(cfg->card_event))) || expect_peers(l) < 0 ||
        !(l->gate = link_gate_create(l))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        goto error;
    }
    if (l->card_tree)
        link_trim(l->card_tree);
    if (open_context(l, err) < 0)
        goto error;
    return l;
error:
    link_destroy(l);
    return NULL;
}

/* Stop the monitors first: the threads of ZeroMQ would block on monitor events that are not
 * read. */
static void stop_monitors(link_t *l)
{
    static const int watched[] = {SRC_IN, SRC_PUB};

    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        if (l->src[watched[i]].sock)
            zmq_socket_monitor(l->src[watched[i]].sock, NULL, 0);
    }
}

void link_destroy(void *arg)
{
    link_t *l = arg;
    int saved = errno;

    if (!l)
        return;
    if (l->started) {
        l->started = false; /* the core gets no further calls */
        link_io_flush(l);
    }
    link_io_stop(l);
    stop_monitors(l);
    link_out_stop(l);
    for (int i = 0; i < SRC_COUNT; i++)
        link_source_close(&l->src[i]);
    zap_destroy(l->zap);
    if (l->ctx)
        zmq_ctx_term(l->ctx);
    link_gate_destroy(l->gate);
    link_queue_clear(&l->events);
    link_out_destroy(l);
    hmap_destroy(l->inbound);
    free(l->card_tree);
    free(l->card_event);
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
    if (link_set_ipv6(src->sock, uri) < 0 || link_secure_server(src->l, src->sock) < 0 ||
        link_set_int(src->sock, ZMQ_BACKLOG, BACKLOG) < 0 ||
        (str_starts(uri, "tcp:") &&
         link_set_int(src->sock, ZMQ_HANDSHAKE_IVL, HANDSHAKE_TCP_MS) < 0) ||
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
        return errmsg_fail(err, EINVAL, "this broker already listens at %s", link_tree_uri(l));
    in = link_source_open(l, &l->src[SRC_IN], ZMQ_ROUTER, link_drain_in);
    if (in && link_set_int(in->sock, ZMQ_ROUTER_MANDATORY, 1) < 0)
        in = NULL;
    if (bind_source(in, tree_uri, err) < 0)
        return -1;
    if (l->nchildren == 0 && !core_hosts(l->core))
        return 0;
    /* NODROP: a full child briefly stops the flow (link_io.c) instead of losing events. */
    pub = link_source_open(l, &l->src[SRC_PUB], ZMQ_XPUB, link_drain_pub);
    /* VERBOSE: show each child's "up.RANK", even if another peer already subscribed to it. */
    if (pub &&
        (link_set_int(pub->sock, ZMQ_XPUB_NODROP, 1) < 0 ||
         link_set_int(pub->sock, ZMQ_XPUB_VERBOSE, 1) < 0 || link_set_keepalive(l, pub->sock) < 0))
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

int link_card(void *arg, struct control_card *card)
{
    link_t *l = arg;
    const char *tree = link_tree_uri(l), *event = link_event_uri(l);

    if (!tree)
        return -1;
    card->tree = l->card_tree ? l->card_tree : tree;
    card->event = l->card_event && event[0] ? l->card_event : event;
    card->key = l->public_key;
    card->ticket = "";
    return 0;
}

int link_rebind(void *arg, errmsg_t *err)
{
    link_t *l = arg;
    static const int bound[] = {SRC_IN, SRC_PUB}; /* the other URIs are addresses of peers */
    int made = 0;

    for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
        const struct link_source *src = &l->src[bound[i]];
        const char *uri = src->uri;

        if (!uri || !str_starts(uri, "ipc://") || access(uri + strlen("ipc://"), F_OK) == 0)
            continue;
        /* Bind a second listener: closing the first one would close its connections. */
        if (zmq_bind(src->sock, uri) < 0)
            return errmsg_fail(err, errno, "cannot listen at %s: %s", uri, zmq_strerror(errno));
        made = 1;
    }
    return made;
}

int link_check_key(const link_t *l, uint32_t rank, const char *key, errmsg_t *err)
{
    return !l->curve || key_ok(key)
               ? 0
               : errmsg_fail(err, EINVAL, "the key of rank %u is not a Z85 string of 40 characters",
                             rank);
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

    if (link_check_key(l, rank, public_key, err) < 0)
        return -1;
    if (allow_one(l, CORE_TREE, rank, public_key) + allow_one(l, CORE_RING, rank, public_key) == 0)
        return errmsg_fail(err, EINVAL,
                           "rank %u is not a neighbor of rank %u, and may not connect to it", rank,
                           l->rank);
    if (l->curve && zap_allow(l->zap, public_key) < 0)
        return errmsg_fail(err, errno, "out of memory while admitting rank %u", rank);
    return 0;
}

int link_start(void *arg, errmsg_t *err)
{
    link_t *l = arg;

    if (l->started)
        return errmsg_fail(err, EINVAL, "the broker's link is already running");
    if (link_io_start(l) < 0)
        return errmsg_fail(err, errno, "cannot watch the broker's sockets: %s", strerror(errno));
    l->started = true;
    core_set_link(l->core, &link_ops, l);
    link_out_start(l);
    return 0;
}

static bool is_address(const char *uri)
{
    return str_starts(uri, "ipc://") || (str_starts(uri, "tcp://") && !strchr(uri, '+'));
}

static bool fits(int len, const struct transport_place *place)
{
    return len >= 0 && (size_t)len < place->size;
}

static bool compose(const struct transport_place *place, char *tree_uri, char *event_uri)
{
    size_t size = place->size;

    if (place->remote)
        return fits(snprintf(tree_uri, size, "%s", place->remote), place) &&
               fits(snprintf(event_uri, size, "%s", place->remote), place);
    return place->dir && fits(snprintf(tree_uri, size, "ipc://%s/tree", place->dir), place) &&
           fits(snprintf(event_uri, size, "ipc://%s/event", place->dir), place);
}

const struct transport transport_zmq = {.name = "zmq",
                                        .child_files = 2,
                                        .compose = compose,
                                        .is_address = is_address,
                                        .trim = link_trim,
                                        .create = link_create,
                                        .ops = &link_ops};
