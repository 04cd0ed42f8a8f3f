/* The gate of the link: who may keep a connection, and how connections end.
 *
 * The monitor of a listening socket tells of each connection that is accepted and of each that
 * ends, by the number of its descriptor, and ZeroMQ gives the same number with each message that
 * came on it.  So this file knows of every connection from outside whether a neighbour has shown
 * itself on it:
 *
 * state     meaning                                             left when
 * strange   accepted; nobody has shown who it is                a frame with a neighbour's claim
 *                                                               and key came: kept.  Cut, or ended
 * kept      it belongs to a neighbour (conn.peer)               ended: that neighbour is lost
 *
 * 1. Strange connections are bounded: per address by what this broker's neighbours need if they all
 *    are on one host, and in all. Beyond that the oldest goes, so that a stranger cannot keep a
 *    neighbour out by being there first.
 * 2. Who shows nothing within SHOW_AFTER is cut off.  (A handshake that does not come to its end
 *    is ended by ZeroMQ before that: ZMQ_HANDSHAKE_IVL.)
 * 3. What ZeroMQ allocates for a strange connection is bounded by ZMQ_MAXMSGSIZE, which is the
 *    size of one frame (link_queue.h).
 * 4. A descriptor is used by ZeroMQ's thread and may be closed, and given to another connection,
 *    at any time.  Cutting therefore works on a duplicate, after a look at whose connection it is.
 * 5. All that a neighbour sent before its connection ended is read before the end is reported: a
 *    goodbye is not taken for a loss.
 * 6. A handshake that failed is told by the event before the end of its connection, which has the
 *    descriptor and so the address.
 *
 * Failure: without memory for a connection's entry it is not counted, and its end is noticed by
 * link_beat.c.
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

#include "link_private.h"

#define SHOW_AFTER 60.
#define SWEEP_EVERY 1.
#define ADDRESS_SLACK 16 /* strange connections of one address beyond those of all neighbours ... */
#define TOTAL_SLACK 256  /* ... and of all addresses */
#define TELL_EVERY 10.   /* seconds between two words about failing handshakes of one kind */
#define LOG_MAX 5        /* words about failed handshakes of strangers ... */
#define LOG_PERIOD 60.   /* ... in this time */
#define ADDRESS_SIZE 80

struct conn {
    struct list_node node; /* in gate.strange, oldest first, or in nothing */
    int which;
    int fd;
    double since;
    bool tcp;
    bool cut;
    struct link_peer *peer;  /* NULL: strange */
    char host[ADDRESS_SIZE]; /* "" for UNIX sockets */
    char address[ADDRESS_SIZE];
};

struct link_gate {
    link_t *l;
    hmap_t *conns; /* which << 32 | fd -> struct conn */
    hmap_t *hosts; /* host -> number of strange connections, as a pointer's value */
    struct list_node strange;
    size_t nstrange;
    size_t host_max, total_max;
    flux_watcher_t *sweep;
    uint16_t failed[SRC_COUNT]; /* the handshake event that came last */
    uint32_t failed_value[SRC_COUNT];
    double log_since;
    unsigned log_count;
    uint64_t failures;
};

/* --- whose connection --- */

/* The peer of socket `fd`; false when it is not a connection. */
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
        hmap_put(g->hosts, host, (void *)n); /* without memory one more may come in */
}

static void leave_strange(struct link_gate *g, struct conn *c)
{
    if (c->peer || list_empty(&c->node))
        return;
    list_remove(&c->node);
    g->nstrange--;
    if (c->tcp)
        count_host(g, c->host, -1);
}

/* Rule 4. */
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

static void accepted(struct link_gate *g, int which, int fd)
{
    link_t *l = g->l;
    struct conn *c = calloc(1, sizeof(*c));

    if (!c)
        return;
    list_init(&c->node);
    c->which = which;
    c->fd = fd;
    c->since = flux_reactor_now(l->r);
    if (!peer_address(fd, c->host, c->address, &c->tcp) || /* it is gone again */
        hmap_put_u64(g->conns, (uint64_t)which << 32 | (uint32_t)fd, c) < 0) {
        free(c);
        return;
    }
    list_append(&g->strange, &c->node);
    g->nstrange++;
    if (c->tcp) {
        count_host(g, c->host, 1);
        bound_strangers(g, c);
    }
    if (g->sweep && !flux_watcher_active(g->sweep))
        flux_timer_start(g->sweep, SWEEP_EVERY, SWEEP_EVERY);
}

/* Rule 2.  What came in while this broker was away is looked at first. */
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

        if (now - c->since < SHOW_AFTER)
            break;
        leave_strange(g, c);
        cut(c);
    }
    if (list_empty(&g->strange))
        flux_watcher_stop(w);
}

/* --- handshakes that fail --- */

static const char *failure_text(uint16_t event, uint32_t value)
{
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return NULL; /* zap.c has told whose key it was */
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
        if (value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
            return "it expects another public key of this broker than the one it has";
        if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
            return "it does not use CURVE as this broker does (session.curve)";
        return "it does not speak as a broker does";
    }
    return "it did not complete the handshake";
}

static void tell_failure(struct link_gate *g, uint16_t event, uint32_t value, const char *address)
{
    link_t *l = g->l;
    double now = flux_reactor_now(l->r);
    const char *text = failure_text(event, value);

    g->failures++;
    if (!text)
        return;
    if (now - g->log_since >= LOG_PERIOD) {
        g->log_since = now;
        g->log_count = 0;
    }
    if (g->log_count++ < LOG_MAX)
        link_logf(l, LOG_ERR, "refused a connection from %s: %s (%llu refused so far)", address,
                  text, (unsigned long long)g->failures);
}

/* --- connections that end --- */

static void ended(struct link_gate *g, int which, int fd)
{
    link_t *l = g->l;
    struct conn *c = find(g, which, fd);
    struct link_peer *p;

    if (!c)
        return;
    if (g->failed[which])
        tell_failure(g, g->failed[which], g->failed_value[which], c->address);
    /* It may have shown itself with the last that it sent (rule 5). */
    link_drain_all_in(l);
    if (which == SRC_PUB && l->src[SRC_PUB].sock)
        link_drain_pub(&l->src[SRC_PUB]);
    leave_strange(g, c);
    p = c->peer;
    hmap_del_u64(g->conns, (uint64_t)which << 32 | (uint32_t)fd);
    if (!p)
        return;
    if (which == SRC_PUB)
        p->connected = false;
    link_peer_doom(p, "its connection is gone");
}

static void drain_gate(struct link_source *mon)
{
    link_t *l = mon->l;
    struct link_gate *g = l->gate;
    int which = mon == &l->src[SRC_IN_MON] ? SRC_IN : SRC_PUB;
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
        } else if (event == ZMQ_EVENT_DISCONNECTED) {
            ended(g, which, (int)value);
            g->failed[which] = 0;
        } else {
            g->failed[which] = event;
            g->failed_value[which] = value;
        }
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

    if (mon->sock) /* a bind that failed is tried again */
        return 0;
    snprintf(address, sizeof(address), "inproc://gate.%d", which);
    mon->l = l;
    mon->drain = drain_gate;
    /* No bound: ZeroMQ's thread would wait for this one, and nobody's heart would beat. */
    if (zmq_socket_monitor(l->src[which].sock, address, events) < 0 ||
        !(mon->sock = zmq_socket(l->ctx, ZMQ_PAIR)) ||
        zmq_setsockopt(mon->sock, ZMQ_LINGER, &zero, sizeof(zero)) < 0 ||
        zmq_setsockopt(mon->sock, ZMQ_RCVHWM, &zero, sizeof(zero)) < 0 ||
        zmq_connect(mon->sock, address) < 0)
        return -1;
    return 0;
}

/* --- frames that show who somebody is --- */

static struct conn *conn_of(link_t *l, int which, zmq_msg_t *frame)
{
    int fd = zmq_msg_get(frame, ZMQ_SRCFD);
    struct conn *c = fd < 0 ? NULL : find(l->gate, which, fd);

    return c && !c->cut ? c : NULL;
}

void link_gate_admit(link_t *l, int which, zmq_msg_t *frame, struct link_peer *p)
{
    struct conn *c = conn_of(l, which, frame);

    if (!c || c->peer)
        return;
    leave_strange(l->gate, c);
    c->peer = p;
    if (which == SRC_IN)
        p->greeted = true;
}

void link_gate_reject(link_t *l, int which, zmq_msg_t *frame)
{
    struct conn *c = conn_of(l, which, frame);

    if (!c || c->peer)
        return;
    if (which == SRC_PUB) {
        leave_strange(l->gate, c);
        cut(c);
    } else if (!list_empty(&c->node)) { /* it is to read why: the next sweep cuts it */
        c->since = flux_reactor_now(l->r) - SHOW_AFTER + SWEEP_EVERY;
        list_remove(&c->node);
        list_push(&l->gate->strange, &c->node);
    }
}

const char *link_gate_address(link_t *l, int which, zmq_msg_t *frame)
{
    const struct conn *c = conn_of(l, which, frame);

    return c ? c->address : "an unknown address";
}

/* --- connections that this broker opens --- */

/* Its handshake failed, and is tried again. */
static void tell_trying(struct link_peer *p, const char *text)
{
    double now = flux_reactor_now(p->l->r);

    if (p->told > 0. && now - p->told < TELL_EVERY)
        return;
    p->told = now;
    link_logf(p->l, LOG_ERR, "rank %u at %s %s; trying again", p->rank, p->source->uri, text);
}

void link_drain_monitor(struct link_source *src)
{
    struct link_peer *p = src->peer;
    int more, len;
    size_t size = sizeof(more);
    uint8_t buf[6];
    uint16_t event;

    while ((len = zmq_recv(src->sock, buf, sizeof(buf), ZMQ_DONTWAIT)) >= 0) {
        if (zmq_getsockopt(src->sock, ZMQ_RCVMORE, &more, &size) == 0 && more)
            zmq_recv(src->sock, NULL, 0, ZMQ_DONTWAIT);
        if (len != sizeof(buf))
            continue;
        memcpy(&event, buf, sizeof(event));
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            p->handshaken = true;
            link_send_word(p, "");
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            link_logf(p->l, LOG_ERR, "rank %u at %s refuses this broker's public key, %s", p->rank,
                      p->source->uri, p->l->public_key);
            link_peer_doom(p, "it refuses this broker's key");
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            tell_trying(p, "does not answer as a broker with the expected key does");
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            tell_trying(p, "ended the connection during the handshake, as a broker does whose "
                           "public key is not the expected one");
            break;
        case ZMQ_EVENT_DISCONNECTED:
            if (p->handshaken)
                link_peer_doom(p, "its connection is gone");
            break;
        default:
            break;
        }
    }
}

/* --- life --- */

struct link_gate *link_gate_create(link_t *l)
{
    struct link_gate *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    list_init(&g->strange);
    g->l = l;
    g->host_max = 2 * l->nchildren + 1 + ADDRESS_SLACK;
    g->total_max = 2 * l->nchildren + 1 + TOTAL_SLACK;
    if (!(g->conns = hmap_create_u64(free)) || !(g->hosts = hmap_create_str(NULL))) {
        link_gate_destroy(g);
        errno = ENOMEM;
        return NULL;
    }
    return g;
}

void link_gate_destroy(struct link_gate *g)
{
    if (!g)
        return;
    hmap_destroy(g->conns);
    hmap_destroy(g->hosts);
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
