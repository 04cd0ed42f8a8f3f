/* link_gate.c - the gate of the link: which connections may stay open, and how connections end.
 *
 * Purpose: the monitor of a listening socket reports each connection that is accepted and each that
 * ends, by the number of its descriptor.  ZeroMQ gives the same number with each message that came
 * over the connection.  This file therefore knows of every incoming connection whether a neighbor
 * has identified itself on it:
 *
 *    state     meaning                                    left when (by)
 *    strange   accepted; the peer is not identified yet   a frame with a neighbor's rank and key
 *                                                         arrives: kept (link_gate_admit); it is
 *                                                         cut off (on_sweep, bound_strangers); or
 *                                                         the peer ends it
 *    kept      it belongs to a neighbor (conn.peer)       it ended: that neighbor is lost (ended);
 *                                                         or a later attempt took its place:
 *                                                         strange (link_gate_forget)
 *
 * Invariants:
 *  1. Strange TCP connections are bounded: per address by the number that all neighbors of this
 *     broker would need if they shared one host, and in total.  Beyond a bound the oldest is cut
 *     off, so that a stranger cannot keep a neighbor out by connecting first.
 *  2. A connection on which no neighbor has identified itself within SHOW_AFTER seconds is cut off.
 *     On TCP with CURVE, to which strangers can connect, the limit depends on earlier connections
 *     from the same address (link_patience.h).  (ZeroMQ ends an unfinished handshake after the
 *     longest of these times: ZMQ_HANDSHAKE_IVL.)
 *  3. ZMQ_MAXMSGSIZE, the size of one frame (link_queue.h), bounds the memory that ZeroMQ allocates
 *     for a strange connection.
 *  4. A descriptor belongs to the thread of ZeroMQ, which may close it, and reuse it for another
 *     connection, at any time.  To cut a connection off, this file therefore duplicates the
 *     descriptor and checks the address of the duplicate first.
 *  5. All frames that a neighbor sent before its connection ended are read before the end is
 *     reported, so that a goodbye is not taken for a loss.
 *  6. A connection may have the number of an earlier one, whose frames are still to be read.  So
 *     all reports of the monitors are read before a connection is looked up, and the entry of a
 *     connection follows the latest frame: if that frame is from another neighbor than before, the
 *     connection of the earlier neighbor has ended.
 *  7. The reason of a failed handshake is in the event before the one that reports the end of the
 *     connection.  Only the latter has the descriptor, and so the address.
 *
 * Failure: without memory for its entry, a connection is not counted, and link_beat.c detects its
 * end.  A ROUTER ignores a connection whose routing id another one has, and it forgets an id some
 * time after it has reported the end of the connection.  So the frames of a neighbor are not
 * received if its first connection ended in its handshake, and it connects again before the ROUTER
 * has forgotten the first one.  Such a neighbor waits until it is cut off as a stranger, or its
 * join_timeout is over, and then ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>
#include <zmq.h>

#include "link_patience.h"
#include "link_private.h"

#define SHOW_AFTER 60.  /* equal to HANDSHAKE_TCP_MS of link.c */
#define KNOWN_AFTER 10. /* first limit for a neighbor to prove its key */
#define SWEEP_EVERY 1.
#define ADDRESS_SLACK 16 /* strange connections per address, besides those of neighbors ... */
#define TOTAL_SLACK 256  /* ... and of all addresses together */
#define LOG_MAX 5        /* messages about failed handshakes of strangers ... */
#define LOG_PERIOD 60.   /* ... in this number of seconds */
#define ADDRESS_SIZE 80

struct conn {
    struct list_node node; /* in gate.strange, oldest first, in gate.over, or in no list */
    int which;
    int fd;
    double since;
    double limit; /* seconds for the peer to identify itself */
    bool tcp;
    bool rejected; /* the limit stays: the connection was refused, or its attempt was replaced */
    bool cut;
    bool over;
    uint16_t failed; /* event of its failed handshake; 0: none */
    uint32_t failed_value;
    struct link_peer *peer;  /* NULL: strange */
    char host[ADDRESS_SIZE]; /* "" for UNIX sockets */
    char address[ADDRESS_SIZE];
};

struct link_gate {
    link_t *l;
    hmap_t *conns; /* which << 32 | fd -> struct conn */
    hmap_t *hosts; /* host -> number of strange connections, stored as a pointer */
    link_patience_t *patience;
    struct list_node strange;
    size_t nstrange;
    struct list_node over; /* connections whose end is to be reported */
    size_t host_max, total_max;
    flux_watcher_t *sweep;
    uint16_t failed[SRC_COUNT]; /* the latest handshake failure, until its connection ends */
    uint32_t failed_value[SRC_COUNT];
    struct linkpace pace;
    uint64_t failures;
};

/* --- addresses of connections --- */

/* Get the address of the peer of socket `fd`.  Returns false when `fd` is not a connection. */
static bool peer_address(int fd, char *host, char *address, bool *tcp)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    char ip[INET6_ADDRSTRLEN] = "?";

    host[0] = '\0';
    *tcp = false;
    if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
        return false;
    if (ss.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&ss;

        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
        snprintf(address, ADDRESS_SIZE, "%s:%u", ip, ntohs(in->sin_port));
    } else if (ss.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&ss;

        inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
        snprintf(address, ADDRESS_SIZE, "[%s]:%u", ip, ntohs(in->sin6_port));
    } else {
        snprintf(address, ADDRESS_SIZE, "a local socket");
        return true;
    }
    snprintf(host, ADDRESS_SIZE, "%s", ip);
    *tcp = true;
    return true;
}

static void count_host(struct link_gate *g, const char *host, int by)
{
    uintptr_t n = (uintptr_t)hmap_get(g->hosts, host) + by;

    if (n == 0)
        hmap_del(g->hosts, host);
    else
        hmap_put(g->hosts, host, (void *)n); /* without memory one more is accepted */
}

static void join_strange(struct link_gate *g, struct conn *c, double limit)
{
    c->since = flux_reactor_now(g->l->r);
    c->limit = limit;
    list_append(&g->strange, &c->node);
    g->nstrange++;
    if (c->tcp)
        count_host(g, c->host, 1);
    if (g->sweep && !flux_watcher_active(g->sweep))
        flux_timer_start(g->sweep, SWEEP_EVERY, SWEEP_EVERY);
}

static void leave_strange(struct link_gate *g, struct conn *c)
{
    if (c->peer || c->over || list_empty(&c->node))
        return;
    list_remove(&c->node);
    g->nstrange--;
    if (c->tcp)
        count_host(g, c->host, -1);
}

/* Cut a connection off (invariant 4). */
static void cut(struct conn *c)
{
    char host[ADDRESS_SIZE], address[ADDRESS_SIZE];
    int fd = c->cut ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    bool tcp;

    c->cut = true;
    if (fd < 0)
        return;
    if (peer_address(fd, host, address, &tcp) && strcmp(address, c->address) == 0)
        shutdown(fd, SHUT_RDWR);
    close(fd);
}

static struct conn *find(const struct link_gate *g, int which, int fd)
{
    return hmap_get_u64(g->conns, (uint64_t)which << 32 | (uint32_t)fd);
}

/* --- strangers --- */

static void bound_strangers(struct link_gate *g, const struct conn *fresh)
{
    bool crowded = (uintptr_t)hmap_get(g->hosts, fresh->host) > g->host_max;

    if (!crowded && g->nstrange <= g->total_max)
        return;
    LIST_FOREACH(it, &g->strange)
    {
        struct conn *c = list_entry(it, struct conn, node);

        if (c->tcp && (!crowded || strcmp(c->host, fresh->host) == 0)) {
            leave_strange(g, c);
            cut(c);
            return;
        }
    }
}

/* Return the seconds that the peer of this connection has to identify itself. */
static double limit_of(const struct link_gate *g, const struct conn *c)
{
    if (!c->tcp || !g->l->curve)
        return SHOW_AFTER;
    return link_patience_limit(g->patience, c->host, flux_reactor_now(g->l->r));
}

static void accepted(struct link_gate *g, int which, int fd)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (!c)
        return;
    list_init(&c->node);
    c->which = which;
    c->fd = fd;
    if (!peer_address(fd, c->host, c->address, &c->tcp) || /* it has already ended */
        hmap_put_u64(g->conns, (uint64_t)which << 32 | (uint32_t)fd, c) < 0) {
        free(c);
        return;
    }
    join_strange(g, c, limit_of(g, c));
    if (c->tcp)
        bound_strangers(g, c);
}

/* Cut off the connections whose limit has passed (invariant 2).  Frames that came while this broker
 * was stopped are read first. */
static void on_sweep(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct link_gate *g = arg;
    double now = flux_reactor_now(r);

    (void)revents;
    if (g->l->src[SRC_IN].again || g->l->src[SRC_PUB].again)
        return;
    LIST_FOREACH_SAFE(it, tmp, &g->strange)
    {
        struct conn *c = list_entry(it, struct conn, node);

        /* A neighbor may have proved its key at this address in the meantime. */
        if (!c->rejected && limit_of(g, c) > c->limit)
            c->limit = limit_of(g, c);
        if (now - c->since < c->limit)
            continue;
        if (!c->rejected && c->tcp)
            link_patience_over(g->patience, c->host, c->limit, now);
        leave_strange(g, c);
        cut(c);
    }
    if (list_empty(&g->strange))
        flux_watcher_stop(w);
}

/* --- handshakes that fail --- */

static const char *failure_text(const link_t *l, uint16_t event, uint32_t value)
{
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return NULL; /* zap.c has reported the key */
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
        if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
            return "it expects a different public key of this broker: use the same keys at all "
                   "ranks (session.keyfile)";
        if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
            return l->curve ? "it does not use CURVE, which this broker requires: use the same "
                              "session.curve at all ranks"
                            : "it uses CURVE, and this broker does not: use the same session.curve "
                              "at all ranks";
        return "it does not speak the protocol of brokers";
    }
    return "it did not complete the handshake";
}

static void tell_failure(struct link_gate *g, uint16_t event, uint32_t value, const char *address)
{
    link_t *l = g->l;
    double now = flux_reactor_now(l->r);
    const char *text = failure_text(l, event, value);

    g->failures++;
    if (!text)
        return;
    if (linkpace_may(&g->pace, now, LOG_PERIOD, LOG_MAX))
        linklog(&l->log, LOG_ERR, "refused a connection from %s: %s (%llu refused so far)", address,
                text, (unsigned long long)g->failures);
}

/* --- connections that end --- */

static void leave_peer(struct conn *c)
{
    if (c->which == SRC_PUB) {
        c->peer->connected = false;
        if (c->peer->quiet)
            return; /* it gets its events from another parent */
    }
    link_peer_fail(c->peer, "its connection was closed");
}

static void ended(struct link_gate *g, struct conn *c)
{
    link_t *l = g->l;

    if (c->failed)
        tell_failure(g, c->failed, c->failed_value, c->address);
    /* The last frames may identify the peer (invariant 5). */
    link_drain_all_in(l);
    if (c->which == SRC_PUB && l->src[SRC_PUB].sock)
        link_drain_pub(&l->src[SRC_PUB]);
    if (c->peer)
        leave_peer(c);
}

/* Note the end of a connection.  It is reported from drain_gate(), because the caller may be
 * reading frames. */
static void over(struct link_gate *g, int which, int fd)
{
    struct conn *c = hmap_take_u64(g->conns, (uint64_t)which << 32 | (uint32_t)fd);

    if (c) {
        leave_strange(g, c);
        c->over = true;
        list_append(&g->over, &c->node);
        c->failed = g->failed[which];
        c->failed_value = g->failed_value[which];
    }
    g->failed[which] = 0;
}

/* Read the reports of the monitor of a socket. */
static void read_events(struct link_gate *g, int which)
{
    struct link_source *mon = &g->l->src[which == SRC_IN ? SRC_IN_MON : SRC_PUB_MON];
    uint8_t buf[6];
    uint16_t event;
    uint32_t value;
    int more, len;
    size_t size = sizeof(more);

    while ((len = zmq_recv(mon->sock, buf, sizeof(buf), ZMQ_DONTWAIT)) >= 0) {
        if (zmq_getsockopt(mon->sock, ZMQ_RCVMORE, &more, &size) == 0 && more)
            zmq_recv(mon->sock, NULL, 0, ZMQ_DONTWAIT);
        if (len != sizeof(buf))
            continue;
        memcpy(&event, buf, sizeof(event));
        memcpy(&value, buf + sizeof(event), sizeof(value));
        if (event == ZMQ_EVENT_ACCEPTED) {
            accepted(g, which, (int)value);
        } else if (event != ZMQ_EVENT_DISCONNECTED) {
            g->failed[which] = event;
            g->failed_value[which] = value;
        } else {
            over(g, which, (int)value);
        }
    }
}

static void drain_gate(struct link_source *mon)
{
    link_t *l = mon->l;
    struct list_node *n;

    read_events(l->gate, mon == &l->src[SRC_IN_MON] ? SRC_IN : SRC_PUB);
    while ((n = list_first(&l->gate->over))) {
        struct conn *c = list_entry(n, struct conn, node);

        ended(l->gate, c);
        list_remove(&c->node);
        free(c);
    }
}

int link_gate_guard(link_t *l, int which)
{
    const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    struct link_source *mon = &l->src[which == SRC_IN ? SRC_IN_MON : SRC_PUB_MON];
    char address[32];
    int zero = 0;

    if (mon->sock) /* the retry of a bind that failed */
        return 0;
    snprintf(address, sizeof(address), "inproc://gate.%d", which);
    mon->l = l;
    mon->drain = drain_gate;
    /* The queue is unbounded: otherwise the I/O thread of ZeroMQ could block here, and with it
     * every connection. */
    if (zmq_socket_monitor(l->src[which].sock, address, events) < 0 ||
        !(mon->sock = zmq_socket(l->ctx, ZMQ_PAIR)) ||
        zmq_setsockopt(mon->sock, ZMQ_LINGER, &zero, sizeof(zero)) < 0 ||
        zmq_setsockopt(mon->sock, ZMQ_RCVHWM, &zero, sizeof(zero)) < 0 ||
        zmq_connect(mon->sock, address) < 0)
        return -1;
    return 0;
}

/* --- frames that identify the peer --- */

static struct conn *conn_of(link_t *l, int which, zmq_msg_t *frame)
{
    struct link_gate *g = l->gate;
    int fd = zmq_msg_get(frame, ZMQ_SRCFD);
    struct conn *c;

    read_events(g, which);
    c = find(g, which, fd);
    if (!list_empty(&g->over)) {
        l->src[which == SRC_IN ? SRC_IN_MON : SRC_PUB_MON].again = true;
        flux_timer_start(l->again, 0., 0.);
    }
    LIST_FOREACH(it, &g->over)
    {
        struct conn *old = list_entry(it, struct conn, node);

        if (!c && old->which == which && old->fd == fd)
            c = old;
    }
    return c && !c->cut ? c : NULL;
}

void link_gate_admit(link_t *l, int which, zmq_msg_t *frame, struct link_peer *p)
{
    struct conn *c = conn_of(l, which, frame);

    if (!c)
        return;
    if (c->peer && c->peer != p)
        leave_peer(c);
    leave_strange(l->gate, c);
    c->rejected = false;
    c->peer = p;
    if (which == SRC_IN)
        p->greeted = true;
}

void link_gate_reject(link_t *l, int which, zmq_msg_t *frame)
{
    struct conn *c = conn_of(l, which, frame);

    if (!c || c->peer || c->over || c->rejected || list_empty(&c->node))
        return;
    /* It is cut off later, also the connection for events: the end of either of them tells the peer
     * that it was refused, and it is to read the reason first. */
    c->rejected = true;
    c->since = flux_reactor_now(l->r);
    c->limit = SWEEP_EVERY;
    list_remove(&c->node);
    list_push(&l->gate->strange, &c->node);
}

void link_gate_forget(link_t *l, struct link_peer *p)
{
    size_t pos = 0;
    void *val;

    LIST_FOREACH(it, &l->gate->over)
    {
        struct conn *c = list_entry(it, struct conn, node);

        if (c->peer == p)
            c->peer = NULL;
    }
    while (hmap_next(l->gate->conns, &pos, NULL, NULL, &val)) {
        struct conn *c = val;

        if (c->peer == p) {
            c->peer = NULL;
            c->rejected = true;
            join_strange(l->gate, c, SWEEP_EVERY);
        }
    }
}

const char *link_gate_address(link_t *l, int which, zmq_msg_t *frame)
{
    const struct conn *c = conn_of(l, which, frame);

    return c ? c->address : "an unknown address";
}

void link_gate_known(link_t *l, const char *host)
{
    if (l->gate)
        link_patience_known(l->gate->patience, host, flux_reactor_now(l->r));
}

/* --- start and end --- */

struct link_gate *link_gate_create(link_t *l)
{
    struct link_gate *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    list_init(&g->strange);
    list_init(&g->over);
    g->l = l;
    g->host_max = 2 * l->nchildren + 1 + ADDRESS_SLACK;
    g->total_max = 2 * l->nchildren + 1 + TOTAL_SLACK;
    if (!(g->conns = hmap_create_u64(free)) || !(g->hosts = hmap_create_str(NULL)) ||
        !(g->patience =
              link_patience_create(l->handshake > 0. ? l->handshake : KNOWN_AFTER, SHOW_AFTER))) {
        link_gate_destroy(g);
        errno = ENOMEM;
        return NULL;
    }
    return g;
}

void link_gate_destroy(struct link_gate *g)
{
    struct list_node *n;

    if (!g)
        return;
    while ((n = list_first(&g->over))) {
        list_remove(n);
        free(list_entry(n, struct conn, node));
    }
    hmap_destroy(g->conns);
    hmap_destroy(g->hosts);
    link_patience_destroy(g->patience);
    free(g);
}

int link_gate_start(link_t *l)
{
    if (!(l->gate->sweep = flux_timer_create(l->r, on_sweep, l->gate)))
        return -1;
    flux_timer_start(l->gate->sweep, SWEEP_EVERY, SWEEP_EVERY);
    return 0;
}

void link_gate_stop(link_t *l)
{
    if (l->gate)
        flux_watcher_destroy(l->gate->sweep);
    if (l->gate)
        l->gate->sweep = NULL;
}
