/* mixlink.c - a link made of two: UNIX sockets and ZeroMQ.
 *
 * Purpose: in a session on several hosts, some of which have several brokers, those of one host are
 * neighbors without an I/O thread and encryption between them.
 *
 * Format: an address is REMOTE+LOCAL@PLACE, for example
 * "tcp://10.1.2.3:4567+unix:///run/f/0/tree@9e.f2".  LOCAL is "unix://PATH" or "unix://@NAME"
 * (ulink.h).  PLACE is equal for brokers of one host and one network namespace (hostnet_get() of
 * libutil/hostmark.h).  "+LOCAL@PLACE" may be absent from a neighbor's address.
 *
 * A broker listens on both links, and each neighbor is carried by one of them.  The broker that
 * connects chooses, by the neighbor's address:
 *
 *    PLACE of the neighbor   its UNIX socket               its port   carried by
 *    another one, or none    -                             -          ZeroMQ
 *    that of this broker     is reached                    -          UNIX sockets
 *    that of this broker     is another user's             -          ZeroMQ; the reason is logged
 *    that of this broker     nobody listens there          listens    ZeroMQ; the reason is logged
 *    that of this broker     nobody listens there          does not   not decided: checked again
 *
 * A socket cannot be reached, for example, from a container that shares the network of its host,
 * but not its directories.  A broker listens on its UNIX socket before it listens on its port, so a
 * neighbor whose port is open is there, and has the socket or will never have it.  Brokers that a
 * launcher has started listen before one of them knows an address (boot.c); those that read a
 * configuration file may start at any time, and what is to be sent to one that has not started yet
 * is held until then.  The broker that listens follows: the link on which a neighbor proves who it
 * is carries it.
 *
 * Invariants:
 *  1. A neighbor is carried by one link for as long as the session lasts, also when another broker
 *     of its rank has taken its place.  For another parent (move) the choice is made anew: its card
 *     has the same address; where its socket is not reached, and its port is not open, it is not
 *     there, and the core tries the next one.  The choice is made before anything is sent to it; a
 *     connection on the other link is refused (claim).  While there is no choice, at most queue_max
 *     messages, or HELD_BYTES_MAX bytes and one message, are held, and those that may not be
 *     refused.
 *  2. Each link authenticates as it does alone: SO_PEERCRED and the keys of the session for UNIX
 *     sockets, CURVE for ZeroMQ.  Equal places only save an attempt that cannot succeed: they prove
 *     nothing, and nothing is granted for them.
 *  3. Both links call the core; this file only chooses between them.
 *  4. A broker whose neighbors are all connected, and by UNIX sockets, once the session runs ends
 *     ZeroMQ, and has none of its threads from then on.  One that has ranks below its children does
 *     not: these may be on other hosts, and connect here when their parents are lost.  One that has
 *     ended ZeroMQ begins it again when its next parent is on another host.
 *
 * Failure: a broker that cannot listen on its UNIX socket listens on ZeroMQ only, and logs it.
 */
#include "config.h"
#include "src/broker/link/transport.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "libidset/idset.h"
#include "libutil/hmap.h"
#include "libutil/hostmark.h"
#include "libutil/list.h"
#include "libutil/strutil.h"
#include "src/broker/control_wire.h"
#include "src/broker/link/unix/ulink.h"

#define LOCAL "+" ULINK_SCHEME
#define PAUSE_MIN 0.005
#define PAUSE_MAX 0.5
#define HELD_BYTES_MAX (8u * 1024 * 1024)
#define KEY_SIZE 41

typedef struct mixlink mixlink_t;

struct address {
    char *remote;
    char *local; /* unix://PATH or unix://@NAME; NULL: absent */
    char *place;
};

/* Sent to a neighbor before it was known what carries it. */
struct held {
    struct list_node node;
    flux_msg_t *msg;
};

struct half {
    mixlink_t *m;
    const struct core_link_ops *ops;
    void *arg; /* NULL: this broker does, or goes on, without it */
};

/* A neighbor to which this broker connects. */
struct outbound {
    mixlink_t *m;
    enum core_plane plane;
    struct half *by; /* NULL: there is none, or it waits */
    uint32_t rank;
    char why[160]; /* it is on this host, and yet not carried by UNIX sockets; "": otherwise */

    bool waits; /* until it is known what carries it; the rest is for that */
    struct address address;
    char *event_uri, *key;
    bool looked;           /* since the session runs */
    flux_watcher_t *retry; /* timer */
    double pause;
    struct list_node held;
    size_t nheld;
    size_t held_bytes;
};

struct mixlink {
    core_t *core;
    struct half local, remote;
    char *place;     /* of this broker; NULL: not known */
    char *uri;       /* at which it listens */
    char *card_tree; /* at which descendants reach it */
    char *card_event;
    struct link_config cfg; /* of the two links */
    char public_key[KEY_SIZE];
    char secret_key[KEY_SIZE];
    char ticket[KEY_SIZE];
    char why[160];   /* why not at a UNIX socket; "": it does, or was not asked to */
    hmap_t *inbound; /* plane << 32 | rank -> struct half: those that have connected */
    struct outbound parent, next;
    size_t peak;  /* most bytes that have been held, or have waited in a link that has ended */
    bool running; /* the session is */
    bool tells;   /* what carries whom, when it is known */
};

/* --- addresses --- */

static bool is_address(const char *uri)
{
    return str_starts(uri, "tcp://") && strstr(uri, LOCAL);
}

static bool compose(const struct transport_place *where, char *tree_uri, char *event_uri)
{
    char place[HOSTNET_SIZE];
    int len;

    if (!where->remote || !str_starts(where->remote, "tcp://") || (!where->dir && !where->name))
        return false;
    hostnet_get(place);
    len = snprintf(tree_uri, where->size, "%s" LOCAL "%s%s@%s", where->remote,
                   where->dir ? where->dir : "@", where->dir ? "/tree" : where->name, place);
    snprintf(event_uri, TRANSPORT_URI_MAX, "%s", where->remote);
    return len >= 0 && (size_t)len < where->size;
}

static void address_clear(struct address *a)
{
    free(a->remote);
    free(a->local);
    free(a->place);
    *a = (struct address){NULL, NULL, NULL};
}

/* -1 with ENOMEM; the result is to be cleared in any case. */
static int address_parse(const char *uri, struct address *a, errmsg_t *err)
{
    const char *local = strstr(uri, LOCAL);
    const char *at = local ? strrchr(local, '@') : NULL; /* a path may have some, too */

    *a = (struct address){NULL, NULL, NULL};
    a->remote = strndup(uri, at ? (size_t)(local - uri) : strlen(uri));
    if (at) {
        a->local = strndup(local + 1, (size_t)(at - local - 1));
        a->place = strdup(at + 1);
    }
    if (!a->remote || (at && (!a->local || !a->place)))
        return errmsg_fail(err, ENOMEM, "out of memory for the address %.100s", uri);
    return 0;
}

/* --- who carries a neighbor --- */

static uint64_t key_of(enum core_plane plane, uint32_t rank)
{
    return (uint64_t)plane << 32 | rank;
}

static struct outbound *outbound(mixlink_t *m, enum core_plane plane)
{
    return plane == CORE_RING ? &m->next : &m->parent;
}

/* NULL: it has not connected yet. */
static struct half *carrier(mixlink_t *m, enum core_plane plane, uint32_t rank)
{
    const struct outbound *out = outbound(m, plane);

    /* In a ring of two brokers either connection reaches the other one. */
    if (out->by && out->rank == rank)
        return out->by;
    return hmap_get_u64(m->inbound, key_of(plane, rank));
}

/* Have all neighbors connected, and by UNIX sockets, and will nobody else connect? */
static bool all_local(const mixlink_t *m)
{
    const topology_t *topo = core_topology(m->core);
    uint32_t nchildren = topology_nchildren(topo, core_rank(m->core));
    size_t pos = 0;
    void *by;

    if (topology_subtree_count(topo, core_rank(m->core)) > 1 + nchildren || !m->local.arg ||
        m->parent.waits || (m->parent.by && m->parent.by != &m->local) || m->next.waits ||
        (m->next.by && m->next.by != &m->local) || hmap_count(m->inbound) < nchildren + 1u)
        return false;
    while (hmap_next(m->inbound, &pos, NULL, NULL, &by))
        if (by != &m->local)
            return false;
    return true;
}

static size_t mix_peak(void *arg)
{
    const mixlink_t *m = arg;
    size_t near = m->local.arg ? m->local.ops->peak(m->local.arg) : 0;
    size_t far = m->remote.arg ? m->remote.ops->peak(m->remote.arg) : 0;
    size_t most = near > far ? near : far;

    return most > m->peak ? most : m->peak;
}

/* Once the session runs: a neighbor that is lost comes back by the same link. */
static void end_remote(mixlink_t *m)
{
    if (!m->running || !m->remote.arg || !all_local(m))
        return;
    m->peak = mix_peak(m);
    m->remote.ops->destroy(m->remote.arg);
    m->remote.arg = NULL;
}

static bool claim(void *arg, enum core_plane plane, uint32_t rank)
{
    struct half *h = arg, *by = hmap_get_u64(h->m->inbound, key_of(plane, rank));

    if (by)
        return by == h;
    if (hmap_put_u64(h->m->inbound, key_of(plane, rank), h) < 0)
        return false;
    if (h == &h->m->local)
        end_remote(h->m); /* the last one may come when the session runs already */
    return true;
}

static bool full(const struct outbound *out)
{
    return out->nheld >= out->m->cfg.queue_max || out->held_bytes >= HELD_BYTES_MAX;
}

/* Keep it until there is something that carries it. */
static int hold(struct outbound *out, flux_msg_t *msg, bool force)
{
    struct held *held;

    if (!force && full(out)) {
        errno = EAGAIN;
        return -1;
    }
    if (!(held = malloc(sizeof(*held))))
        return -1;
    held->msg = msg;
    list_init(&held->node);
    list_append(&out->held, &held->node);
    out->nheld++;
    out->held_bytes += flux_msg_encoded_size(msg);
    if (out->held_bytes > out->m->peak)
        out->m->peak = out->held_bytes;
    return 0;
}

static int mix_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    struct half *h = plane == CORE_EVENT ? NULL : carrier(arg, plane, rank);
    struct outbound *out = outbound(arg, plane);

    if (plane != CORE_EVENT && out->waits && out->rank == rank)
        return hold(out, msg, force);
    if (h)
        return h->ops->send(h->arg, plane, rank, msg, force);
    errno = EHOSTUNREACH;
    return -1;
}

static int mix_publish(void *arg, const flux_msg_t *event)
{
    mixlink_t *m = arg;
    int near = m->local.arg ? m->local.ops->publish(m->local.arg, event) : 0;
    int far = m->remote.arg ? m->remote.ops->publish(m->remote.arg, event) : 0;

    return near < 0 || far < 0 ? -1 : 0;
}

/* Send what was held.  The core does not have it any more, so the link must not refuse it. */
static void release(struct outbound *out)
{
    struct list_node *n;
    bool was_full = full(out);

    while ((n = list_first(&out->held))) {
        struct held *held = list_entry(n, struct held, node);

        list_remove(n);
        if (!out->by ||
            out->by->ops->send(out->by->arg, out->plane, out->rank, held->msg, true) < 0)
            flux_msg_destroy(held->msg);
        free(held);
    }
    out->nheld = out->held_bytes = 0;
    if (was_full && out->by)
        core_peer_writable(out->m->core, out->rank);
}

/* It is decided, or there will be nothing to decide. */
static void settle(struct outbound *out)
{
    out->waits = false;
    address_clear(&out->address);
    free(out->event_uri);
    free(out->key);
    out->event_uri = out->key = NULL;
    flux_watcher_destroy(out->retry);
    out->retry = NULL;
}

/* Look at once at what is not decided yet. */
static void hurry(struct outbound *out)
{
    if (!out->waits)
        return;
    out->looked = false;
    flux_timer_start(out->retry, 0., 0.);
}

static int mix_again(void *arg, enum core_plane plane, uint32_t rank)
{
    struct outbound *out = outbound(arg, plane);

    if (plane == CORE_EVENT || out->rank != rank)
        return -1;
    if (out->waits) {
        release(out); /* the core counted these as lost */
        hurry(out);
        return 0;
    }
    return out->by && out->by->ops->again ? out->by->ops->again(out->by->arg, plane, rank) : -1;
}

/* On both: a neighbor that has not connected yet cannot do so later. */
static void mix_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    mixlink_t *m = arg;
    struct outbound *out = outbound(m, plane);

    if (out->waits && out->rank == rank) {
        settle(out);
        release(out);
    }
    if (m->local.arg)
        m->local.ops->drop(m->local.arg, plane, rank);
    if (m->remote.arg)
        m->remote.ops->drop(m->remote.arg, plane, rank);
}

/* --- the log --- */

static void mix_log(mixlink_t *m, int level, const char *text)
{
    if (m->cfg.log)
        m->cfg.log(m->cfg.log_arg, level, text);
}

static void log_outbound(mixlink_t *m, const struct outbound *out)
{
    errmsg_t line;

    if (!out->why[0])
        return;
    errmsg_set(&line, "rank %u is on the same host, but is reached by ZeroMQ: %s", out->rank,
               out->why);
    mix_log(m, LOG_WARNING, line.text);
}

static void sort(const struct half *by, const mixlink_t *m, uint32_t rank, idset_t *local,
                 idset_t *remote)
{
    if (by)
        (void)idset_set(by == &m->local ? local : remote, rank);
}

/* One line of all neighbors, unless all are on other hosts, and why some are carried by ZeroMQ
 * though they are on this one. */
static void tell(mixlink_t *m)
{
    idset_t *local = idset_create(), *remote = idset_create();
    char *near = NULL, *far = NULL;
    uint64_t key;
    size_t pos = 0;
    errmsg_t line;
    void *by;

    if (local && remote) {
        sort(m->parent.by, m, m->parent.rank, local, remote);
        sort(m->next.by, m, m->next.rank, local, remote);
        while (hmap_next(m->inbound, &pos, NULL, &key, &by))
            sort(by, m, (uint32_t)key, local, remote);
        near = idset_format(local, 0);
        far = idset_format(remote, 0);
    }
    if (near && far && near[0]) {
        errmsg_set(&line, "neighbors on this host, by UNIX sockets: %s; others, by ZeroMQ: %s",
                   near, far[0] ? far : "none");
        mix_log(m, LOG_INFO, line.text);
    }
    if (m->why[0])
        mix_log(m, LOG_WARNING, m->why);
    log_outbound(m, &m->parent);
    if (m->next.rank != m->parent.rank || !m->parent.by)
        log_outbound(m, &m->next);
    m->tells = false;
    free(near);
    free(far);
    idset_destroy(local);
    idset_destroy(remote);
}

/* A neighbor that is still not there is left out. */
static void tell_when_known(mixlink_t *m)
{
    if (m->tells && (!m->parent.waits || m->parent.looked) && (!m->next.waits || m->next.looked))
        tell(m);
}

static void mix_running(void *arg)
{
    mixlink_t *m = arg;

    m->running = m->tells = true;
    hurry(&m->parent);
    hurry(&m->next);
    tell_when_known(m);
    end_remote(m);
}

/* --- setup --- */

/* REMOTE+LOCAL@PLACE.  NULL with ENOMEM. */
static char *join(const mixlink_t *m, const char *remote)
{
    char *uri;

    if (asprintf(&uri, "%s%s%s%s%s", remote, m->place ? "+" : "",
                 m->place ? m->local.ops->tree_uri(m->local.arg) : "", m->place ? "@" : "",
                 m->place ? m->place : "") < 0)
        return NULL;
    return uri;
}

/* Both links have their addresses, which stay known when ZeroMQ has ended. */
static int keep_addresses(mixlink_t *m)
{
    struct control_card near = {.ticket = ""}, far = {.tree = "", .event = ""};

    if (m->local.arg)
        (void)m->local.ops->card(m->local.arg, &near);
    (void)m->remote.ops->card(m->remote.arg, &far);
    snprintf(m->ticket, sizeof(m->ticket), "%s", near.ticket);
    m->uri = join(m, m->remote.ops->tree_uri(m->remote.arg));
    m->card_tree = join(m, far.tree);
    m->card_event = strdup(far.event);
    return m->uri && m->card_tree && m->card_event ? 0 : -1;
}

static int mix_bind(void *arg, const char *tree_uri, const char *event_uri, errmsg_t *err)
{
    mixlink_t *m = arg;
    struct address a;
    errmsg_t why;
    int rc = -1;

    if (m->uri)
        return errmsg_fail(err, EINVAL, "this broker already listens at %s", m->uri);
    if (address_parse(tree_uri, &a, err) < 0)
        goto done;
    /* In this order: see above. */
    if (a.local && m->local.ops->bind(m->local.arg, a.local, "", &why) == 0) {
        m->place = a.place;
        a.place = NULL;
    } else {
        if (a.local)
            snprintf(m->why, sizeof(m->why), "neighbors on this host are reached by ZeroMQ: %.100s",
                     why.text);
        m->local.ops->destroy(m->local.arg);
        m->local.arg = NULL;
    }
    if (m->remote.ops->bind(m->remote.arg, a.remote, event_uri, err) < 0)
        goto done;
    if (keep_addresses(m) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory while listening at %s", tree_uri);
        goto done;
    }
    rc = 0;
done:
    address_clear(&a);
    return rc;
}

static const char *mix_tree_uri(void *arg)
{
    const mixlink_t *m = arg;

    return m->uri;
}

static int mix_card(void *arg, struct control_card *card)
{
    const mixlink_t *m = arg;

    card->tree = m->card_tree;
    card->event = m->card_event;
    card->key = m->public_key;
    card->ticket = m->ticket;
    return m->card_tree ? 0 : -1;
}

static const char *mix_event_uri(void *arg)
{
    mixlink_t *m = arg;

    return m->remote.ops->event_uri(m->remote.arg);
}

static int mix_rebind(void *arg, errmsg_t *err)
{
    mixlink_t *m = arg;
    int near = m->local.arg ? m->local.ops->rebind(m->local.arg, err) : 0;
    int far = near < 0 ? -1 : m->remote.arg ? m->remote.ops->rebind(m->remote.arg, err) : 0;

    return far < 0 ? -1 : near > 0 || far > 0;
}

/* Of which link it makes use is for the neighbor to say. */
static int mix_allow(void *arg, uint32_t rank, const char *public_key, errmsg_t *err)
{
    mixlink_t *m = arg;

    if (m->local.arg && m->local.ops->allow(m->local.arg, rank, public_key, err) < 0)
        return -1;
    return m->remote.ops->allow(m->remote.arg, rank, public_key, err);
}

/* Does a process listen at this address of TCP, which is one of this host? */
static bool listens(const char *uri)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM},
                    *ai;
    const char *start = uri + strlen("tcp://"), *colon = strrchr(start, ':');
    bool bracket = start[0] == '[', there = false;
    struct pollfd pfd = {.fd = -1, .events = POLLOUT};
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(int), ownlen = sizeof(own);
    int error = 0;
    char *host;

    host = colon ? strndup(start + bracket, (size_t)(colon - start) - 2 * bracket) : NULL;
    if (!host || getaddrinfo(host, colon + 1, &hints, &ai) != 0) {
        free(host);
        return false;
    }
    free(host);
    pfd.fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Within a host a connection needs no time; if there is no room for it now, there will be. */
    if (pfd.fd >= 0 && connect(pfd.fd, ai->ai_addr, ai->ai_addrlen) == 0)
        there = true;
    else if (pfd.fd >= 0 && errno == EINPROGRESS)
        there = poll(&pfd, 1, 0) == 1 &&
                getsockopt(pfd.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
    /* A port that nobody has may have been given to this very socket, which then reaches itself. */
    if (there && getsockname(pfd.fd, (struct sockaddr *)&own, &ownlen) == 0)
        there = memcmp(&own, ai->ai_addr, ai->ai_addrlen) != 0;
    if (pfd.fd >= 0)
        close(pfd.fd);
    freeaddrinfo(ai);
    return there;
}

/* NULL: that cannot be known yet. */
static struct half *choose(mixlink_t *m, struct outbound *out)
{
    const struct address *a = &out->address;
    errmsg_t why;

    if (!m->local.arg || !a->local || strcmp(a->place, m->place) != 0)
        return &m->remote;
    if (ulink_reach(a->local, &why) == 0)
        return &m->local;
    if (errno == ENOENT || errno == ECONNREFUSED) {
        if (!listens(a->remote))
            return NULL;
        if (ulink_reach(a->local, &why) == 0) /* it came meanwhile */
            return &m->local;
    }
    snprintf(out->why, sizeof(out->why), "%.150s", why.text);
    return &m->remote;
}

/* Connect if it is known by what; look again later if not. */
static int decide(struct outbound *out, errmsg_t *err)
{
    mixlink_t *m = out->m;
    int rc;

    if (!(out->by = choose(m, out))) {
        out->pause = out->pause < PAUSE_MIN ? PAUSE_MIN : out->pause * 2;
        if (out->pause > PAUSE_MAX)
            out->pause = PAUSE_MAX;
        flux_timer_start(out->retry, out->pause, 0.);
        return 0;
    }
    rc = out->by->ops->connect(out->by->arg, out->plane, out->rank,
                               out->by == &m->local ? out->address.local : out->address.remote,
                               out->event_uri, out->key, err);
    settle(out);
    release(out);
    return rc;
}

static void decide_later(struct outbound *out)
{
    errmsg_t err;

    if (decide(out, &err) < 0) {
        mix_log(out->m, LOG_ERR, err.text);
        core_peer_lost(out->m->core, out->plane, out->rank, err.text);
    }
    out->looked = true;
    if (out->m->running && !out->m->tells && out->by)
        log_outbound(out->m, out);
    tell_when_known(out->m);
    end_remote(out->m); /* it may have been the last one */
}

static void retry_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    decide_later(arg);
}

static char *copy(const char *s, bool *failed)
{
    char *text = s ? strdup(s) : NULL;

    *failed = *failed || (s && !text);
    return text;
}

static int mix_connect(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                       const char *event_uri, const char *public_key, errmsg_t *err)
{
    mixlink_t *m = arg;
    struct outbound *out = outbound(m, plane);
    bool failed = false;

    if (out->by || out->waits)
        return errmsg_fail(err, EINVAL, "this broker is already connected to %s", tree_uri);
    if (address_parse(tree_uri, &out->address, err) < 0)
        return -1;
    out->rank = rank;
    out->event_uri = copy(event_uri, &failed);
    out->key = copy(public_key, &failed);
    if (failed || !(out->retry = flux_timer_create(core_reactor(m->core), retry_cb, out)))
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", rank);
    out->waits = true;
    return decide(out, err);
}

static const struct core_link_ops mix_ops;

/* --- another parent --- */

static int make_half(mixlink_t *m, struct half *h, const struct transport *t, errmsg_t *err);

/* ZeroMQ has ended, and is needed: to connect, not to listen. */
static int begin_remote(mixlink_t *m, errmsg_t *err)
{
    if (make_half(m, &m->remote, &transport_zmq, err) < 0)
        return -1;
    if (m->remote.ops->start(m->remote.arg, err) < 0) {
        m->remote.ops->destroy(m->remote.arg);
        m->remote.arg = NULL;
    }
    core_set_link(m->core, &mix_ops, m);
    return m->remote.arg ? 0 : -1;
}

static int move_by(mixlink_t *m, struct half *by, const struct control_card *card, errmsg_t *err)
{
    struct control_card part = *card;
    const struct address *a = &m->parent.address;

    part.tree = by == &m->local ? a->local : a->remote;
    if (by == &m->remote && !by->arg && begin_remote(m, err) < 0)
        return -1;
    return by->ops->move(by->arg, &part, err);
}

static int mix_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    mixlink_t *m = arg;
    struct outbound *out = &m->parent;
    struct half *by;
    int rc = -1;

    mix_drop(m, CORE_TREE, out->rank);
    out->by = NULL;
    out->rank = card->rank;
    out->why[0] = '\0';
    if (address_parse(card->tree, &out->address, err) < 0)
        goto done;
    if (!(by = choose(m, out))) {
        errmsg_fail(err, EHOSTUNREACH, "%s: nobody listens there", card->tree);
        goto done;
    }
    if ((rc = move_by(m, by, card, err)) < 0)
        goto done;
    out->by = by;
    if (m->running)
        log_outbound(m, out);
done:
    address_clear(&out->address);
    return rc;
}

static int mix_start(void *arg, errmsg_t *err)
{
    mixlink_t *m = arg;

    if ((m->local.arg && m->local.ops->start(m->local.arg, err) < 0) ||
        m->remote.ops->start(m->remote.arg, err) < 0)
        return -1;
    core_set_link(m->core, &mix_ops, m);
    return 0;
}

/* --- life --- */

static void outbound_init(mixlink_t *m, struct outbound *out, enum core_plane plane)
{
    out->m = m;
    out->plane = plane;
    list_init(&out->held);
}

static void outbound_clear(struct outbound *out)
{
    settle(out);
    out->by = NULL;
    release(out);
}

static void mix_destroy(void *arg)
{
    mixlink_t *m = arg;
    int saved = errno;

    if (!m)
        return;
    outbound_clear(&m->parent);
    outbound_clear(&m->next);
    transport_unix.ops->destroy(m->local.arg);
    transport_zmq.ops->destroy(m->remote.arg);
    hmap_destroy(m->inbound);
    free(m->place);
    free(m->uri);
    free(m->card_tree);
    free(m->card_event);
    free((char *)m->cfg.card_tree);
    free((char *)m->cfg.card_event);
    explicit_bzero(m->secret_key, sizeof(m->secret_key));
    explicit_bzero(m->ticket, sizeof(m->ticket));
    free(m);
    errno = saved;
}

static int make_half(mixlink_t *m, struct half *h, const struct transport *t, errmsg_t *err)
{
    struct link_config own = m->cfg;

    own.claim = claim;
    own.claim_arg = h;
    h->m = m;
    h->ops = t->ops;
    return (h->arg = t->create(m->core, &own, err)) ? 0 : -1;
}

/* ZeroMQ may be begun again when the owner has wiped the keys. */
static int keep_config(mixlink_t *m, const struct link_config *cfg)
{
    bool failed = false;

    m->cfg = *cfg;
    m->cfg.card_tree = copy(cfg->card_tree, &failed);
    m->cfg.card_event = copy(cfg->card_event, &failed);
    if (cfg->curve) {
        snprintf(m->public_key, sizeof(m->public_key), "%s", cfg->public_key);
        snprintf(m->secret_key, sizeof(m->secret_key), "%s", cfg->secret_key);
    }
    m->cfg.public_key = m->public_key;
    m->cfg.secret_key = m->secret_key;
    if (m->cfg.queue_max == 0)
        m->cfg.queue_max = 1;
    return failed ? -1 : 0;
}

static void *mix_create(core_t *core, const struct link_config *cfg, errmsg_t *err)
{
    mixlink_t *m = calloc(1, sizeof(*m));

    if (m) {
        outbound_init(m, &m->parent, CORE_TREE);
        outbound_init(m, &m->next, CORE_RING);
    }
    if (!m || !(m->inbound = hmap_create_u64(NULL))) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        mix_destroy(m);
        return NULL;
    }
    m->core = core;
    if (keep_config(m, cfg) < 0) {
        errmsg_fail(err, ENOMEM, "out of memory while preparing the broker's link");
        mix_destroy(m);
        return NULL;
    }
    if (make_half(m, &m->local, &transport_unix, err) < 0 ||
        make_half(m, &m->remote, &transport_zmq, err) < 0) {
        mix_destroy(m);
        return NULL;
    }
    return m;
}

static const struct core_link_ops mix_ops = {
    .send = mix_send,
    .publish = mix_publish,
    .drop = mix_drop,
    .again = mix_again,
    .by_key = true,
    .card = mix_card,
    .move = mix_move,
    .peak = mix_peak,
    .bind = mix_bind,
    .tree_uri = mix_tree_uri,
    .event_uri = mix_event_uri,
    .rebind = mix_rebind,
    .allow = mix_allow,
    .connect = mix_connect,
    .start = mix_start,
    .running = mix_running,
    .destroy = mix_destroy,
};

const struct transport transport_mixed = {.name = "mixed",
                                          .child_files = 1, /* if it is on this host */
                                          .compose = compose,
                                          .is_address = is_address,
                                          .create = mix_create,
                                          .ops = &mix_ops};
