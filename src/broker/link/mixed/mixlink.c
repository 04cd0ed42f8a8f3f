/* mixlink.c - a link that combines UNIX sockets and ZeroMQ.
 *
 * Purpose: in a session on several hosts, some of which have several brokers, the brokers of one
 * host are neighbors without an I/O thread and encryption between them.
 *
 * Format: mixaddr.c has that of addresses, which name both links, and the place of a broker.
 *
 * Choice: a broker listens on both links, and each neighbor is carried by one of them.  The broker
 * that connects chooses, by the neighbor's address:
 *
 *    PLACE of the neighbor   its UNIX socket               its port   carried by
 *    another one, or none    -                             -          ZeroMQ
 *    that of this broker     is reached                    -          UNIX sockets
 *    that of this broker     is another user's             -          ZeroMQ; the reason is logged
 *    that of this broker     nobody listens there          listens    ZeroMQ; the reason is logged
 *    that of this broker     nobody listens there          does not   not decided: checked again
 *    address not known yet   -                             -          not decided, and lost: until
 *                                                                     the core names one (again)
 *
 * A socket cannot be reached, for example, from a container that shares the network of its host,
 * but not its directories.  A broker listens on its UNIX socket before it listens on its port, so a
 * neighbor with an open port has been started, and has the socket already or will never have it.
 * Brokers that a launcher has started listen before one of them knows an address (boot.c).  Brokers
 * that read a configuration file may start at any time; messages to a broker that has not started
 * yet are held until then.  The broker that listens follows the choice: the link on which a
 * neighbor proves its identity carries it.
 *
 * Invariants:
 *  1. A neighbor is carried by one link for as long as the session lasts, also when another broker
 *     of its rank has taken its place.  The choice is made before any message is sent to the
 *     neighbor; a connection on the other link is refused (claim).  Until the choice, at most
 *     queue_max messages, or HELD_BYTES_MAX bytes and one message, are held, and in addition the
 *     messages that must not be refused.  For another parent (move, beside) the choice is made
 *     anew, since its card has the same kind of address; if its socket is not reached and its port
 *     is not open, the core tries the next ancestor, or stays.  The ring successor gets another
 *     address (again) for the link that carries it.
 *  2. Each link authenticates as it does alone: SO_PEERCRED and the keys of the session for UNIX
 *     sockets, CURVE for ZeroMQ.  Equal places only save an attempt that cannot succeed: they prove
 *     nothing, and give no permission.
 *  3. Both links call the core; this file only chooses between them.
 *  4. A broker ends ZeroMQ, with all its threads, when the session runs and all its neighbors are
 *     connected by UNIX sockets.  A broker with ranks below its children keeps ZeroMQ, because
 *     these ranks may be on other hosts and connect here when their parents are lost.  A broker
 *     that has ended ZeroMQ begins it again when its next parent is on another host.
 *
 * Failure: a broker that cannot listen on its UNIX socket listens on ZeroMQ only, and logs the
 * reason.
 */
#include "config.h"
#include "src/broker/link/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "libidset/idset.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "src/broker/control_wire.h"
#include "src/broker/link/mixed/mixaddr.h"
#include "src/broker/link/unix/ulink.h"

#define PAUSE_MIN 0.005
#define PAUSE_MAX 0.5
#define HELD_BYTES_MAX (8u * 1024 * 1024)
#define KEY_SIZE 41
#define REASON_SIZE 160

typedef struct mixlink mixlink_t;

/* A message that is held until the link of a neighbor is chosen. */
struct held {
    struct list_node node;
    flux_msg_t *msg;
};

struct half {
    mixlink_t *m;
    const struct core_link_ops *ops;
    void *arg; /* NULL: this broker does not use this link */
};

/* A neighbor to which this broker connects. */
struct outbound {
    mixlink_t *m;
    enum core_plane plane;
    struct half *by; /* link of the neighbor; NULL: there is no neighbor, or no choice yet */
    uint32_t rank;
    /* Reason why a neighbor on this host is not carried by UNIX sockets; "": none. */
    char why[REASON_SIZE];

    bool waits; /* the link is not chosen yet; the members below are for that time */
    struct mixaddr address;
    char *event_uri, *key;
    bool looked;           /* it was checked since the session runs */
    flux_watcher_t *retry; /* timer */
    double pause;
    struct list_node held;
    size_t nheld;
    size_t held_bytes;
};

struct mixlink {
    core_t *core;
    struct half local, remote;
    char *place;     /* place of this broker; NULL: unknown */
    char *uri;       /* address at which it listens */
    char *card_tree; /* addresses at which descendants reach it */
    char *card_event;
    struct link_config cfg; /* configuration of the two links */
    char public_key[KEY_SIZE];
    char secret_key[KEY_SIZE];
    char ticket[KEY_SIZE];
    char why[REASON_SIZE]; /* why it does not listen at a UNIX socket; "": it does, or need not */
    hmap_t *inbound;       /* plane << 32 | rank -> struct half of neighbors that have connected */
    struct outbound parent, next;
    hmap_t *parents; /* rank -> struct half of the next parent, and of earlier ones */
    size_t peak;     /* maximum of bytes held, or waiting in a link that has ended */
    bool running;    /* the session runs */
    bool tells;      /* log the links of the neighbors when they are known */
};

/* --- the links of neighbors --- */

static uint64_t key_of(enum core_plane plane, uint32_t rank)
{
    return (uint64_t)plane << 32 | rank;
}

static struct outbound *outbound(mixlink_t *m, enum core_plane plane)
{
    return plane == CORE_RING ? &m->next : &m->parent;
}

/* Return the link of a neighbor, or NULL if it has not connected yet. */
static struct half *carrier(mixlink_t *m, enum core_plane plane, uint32_t rank)
{
    const struct outbound *out = outbound(m, plane);
    struct half *by = plane == CORE_TREE ? hmap_get_u64(m->parents, rank) : NULL;

    /* In a ring of two brokers, both connections reach the other broker. */
    if (out->by && out->rank == rank)
        return out->by;
    return by ? by : hmap_get_u64(m->inbound, key_of(plane, rank));
}

/* Returns whether all neighbors are connected by UNIX sockets, and no other broker will connect. */
static bool all_local(const mixlink_t *m)
{
    const topology_t *topo = core_topology(m->core);
    uint32_t nchildren = topology_nchildren(topo, core_rank(m->core));
    size_t pos = 0;
    void *by;

    if (topology_subtree_count(topo, core_rank(m->core)) > 1 + nchildren || core_hosts(m->core) ||
        !m->local.arg || m->parent.waits || (m->parent.by && m->parent.by != &m->local) ||
        m->next.waits || (m->next.by && m->next.by != &m->local) ||
        hmap_count(m->inbound) < nchildren + 1u)
        return false;
    while (hmap_next(m->inbound, &pos, NULL, NULL, &by))
        if (by != &m->local)
            return false;
    pos = 0;
    while (hmap_next(m->parents, &pos, NULL, NULL, &by))
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

/* End ZeroMQ once the session runs, if no neighbor needs it: a lost neighbor comes back by the same
 * link. */
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
        end_remote(h->m); /* the last neighbor may connect when the session runs already */
    return true;
}

static bool full(const struct outbound *out)
{
    return out->nheld >= out->m->cfg.queue_max || out->held_bytes >= HELD_BYTES_MAX;
}

/* Hold a message until the link is chosen. */
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

/* Send the held messages.  The core does not have them any longer, so the link must not refuse
 * them. */
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

/* Forget the state of a choice that was made, or is not needed. */
static void settle(struct outbound *out)
{
    out->waits = false;
    mixaddr_clear(&out->address);
    free(out->event_uri);
    free(out->key);
    out->event_uri = out->key = NULL;
    flux_watcher_destroy(out->retry);
    out->retry = NULL;
}

/* Check a choice that is not made yet at once. */
static void hurry(struct outbound *out)
{
    if (!out->waits)
        return;
    out->looked = false;
    flux_timer_start(out->retry, 0., 0.);
}

/* The part of an address for the link that carries a neighbor; NULL: there is none, so that the
 * earlier one remains. */
static const char *part_for(const struct outbound *out, const struct mixaddr *a)
{
    const mixlink_t *m = out->m;

    if (out->by != &m->local)
        return a->remote;
    return a->local && m->place && strcmp(a->place, m->place) == 0 ? a->local : NULL;
}

static int mix_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree)
{
    struct outbound *out = outbound(arg, plane);
    struct mixaddr a = {NULL, NULL, NULL};
    int rc = -1;

    if (plane == CORE_EVENT || out->rank != rank ||
        (tree && mixaddr_parse(tree, &a, &(errmsg_t){""}) < 0)) {
        mixaddr_clear(&a);
        return -1;
    }
    if (out->waits) {
        if (tree) {
            mixaddr_clear(&out->address);
            out->address = a;
        }
        release(out); /* the core counted these messages as lost */
        hurry(out);
        return 0;
    }
    if (out->by && out->by->ops->again)
        rc = out->by->ops->again(out->by->arg, plane, rank, tree ? part_for(out, &a) : NULL);
    mixaddr_clear(&a);
    return rc;
}

/* Drop on both links: a neighbor that has not connected yet cannot do so later. */
static void mix_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    mixlink_t *m = arg;
    struct outbound *out = outbound(m, plane);

    if (out->waits && out->rank == rank) {
        settle(out);
        release(out);
    }
    if (plane == CORE_TREE)
        hmap_del_u64(m->parents, rank);
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

static void log_reason(mixlink_t *m, uint32_t rank, const char *why)
{
    errmsg_t line;

    if (!why[0])
        return;
    errmsg_set(&line, "rank %u is on the same host, but is reached by ZeroMQ: %s", rank, why);
    mix_log(m, LOG_WARNING, line.text);
}

static void log_outbound(mixlink_t *m, const struct outbound *out)
{
    log_reason(m, out->rank, out->why);
}

static void sort(const struct half *by, const mixlink_t *m, uint32_t rank, idset_t *local,
                 idset_t *remote)
{
    if (by)
        (void)idset_set(by == &m->local ? local : remote, rank);
}

/* Log one line on all neighbors, unless all of them are on other hosts, with the reasons why
 * neighbors on this host are carried by ZeroMQ. */
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

/* Log this line when the links are known.  A neighbor that has not started by then is left out. */
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

/* Compose REMOTE+LOCAL@PLACE.  Returns NULL with ENOMEM. */
static char *join(const mixlink_t *m, const char *remote)
{
    char *uri;

    if (asprintf(&uri, "%s%s%s%s%s", remote, m->place ? "+" : "",
                 m->place ? m->local.ops->tree_uri(m->local.arg) : "", m->place ? "@" : "",
                 m->place ? m->place : "") < 0)
        return NULL;
    return uri;
}

/* Keep the addresses of both links, which stay known when ZeroMQ has ended. */
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
    struct mixaddr a;
    errmsg_t why;
    int rc = -1;

    if (m->uri)
        return errmsg_fail(err, EINVAL, "this broker already listens at %s", m->uri);
    if (mixaddr_parse(tree_uri, &a, err) < 0)
        goto done;
    /* The order matters: see the choice above. */
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
    mixaddr_clear(&a);
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

/* The neighbor chooses the link, so both allow it. */
static int mix_allow(void *arg, uint32_t rank, const char *public_key, errmsg_t *err)
{
    mixlink_t *m = arg;

    if (m->local.arg && m->local.ops->allow(m->local.arg, rank, public_key, err) < 0)
        return -1;
    return m->remote.ops->allow(m->remote.arg, rank, public_key, err);
}

/* Choose the link for a neighbor with this address, and write the reason if that is not the UNIX
 * socket which it has on this host.  Returns NULL if the choice is not possible yet. */
static struct half *choose(mixlink_t *m, const struct mixaddr *a, char reason[REASON_SIZE])
{
    errmsg_t why;

    if (!m->local.arg || !a->local || strcmp(a->place, m->place) != 0)
        return &m->remote;
    if (ulink_reach(a->local, &why) == 0)
        return &m->local;
    if (errno == ENOENT || errno == ECONNREFUSED) {
        if (!mixaddr_listens(a->remote))
            return NULL;
        if (ulink_reach(a->local, &why) == 0) /* it has begun to listen in the meantime */
            return &m->local;
    }
    snprintf(reason, REASON_SIZE, "%.150s", why.text);
    return &m->remote;
}

/* Connect if the choice is possible; check again later if not. */
static int decide(struct outbound *out, errmsg_t *err)
{
    mixlink_t *m = out->m;
    int rc;

    if (!out->address.remote[0]) { /* not known yet: decide_later() reports that */
        flux_timer_start(out->retry, 0., 0.);
        return 0;
    }
    if (!(out->by = choose(m, &out->address, out->why))) {
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

    if (!out->address.remote[0]) {
        core_peer_lost(out->m->core, out->plane, out->rank, "its host is not known yet");
        return;
    }
    if (decide(out, &err) < 0) {
        mix_log(out->m, LOG_ERR, err.text);
        core_peer_lost(out->m->core, out->plane, out->rank, err.text);
    }
    out->looked = true;
    if (out->m->running && !out->m->tells && out->by)
        log_outbound(out->m, out);
    tell_when_known(out->m);
    end_remote(out->m); /* it may have been the last neighbor */
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
    if (mixaddr_parse(tree_uri, &out->address, err) < 0)
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

/* Begin ZeroMQ again for a parent that needs it: to connect, not to listen. */
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

/* Connect to a parent, with its card: `instead` of the present one, or beside it.  `why`: as for
 * choose().  Returns the link that carries it, or NULL with errno and an error message. */
static struct half *connect_card(mixlink_t *m, const struct control_card *card, bool instead,
                                 char why[REASON_SIZE], errmsg_t *err)
{
    struct control_card part = *card;
    struct half *by = NULL;
    struct mixaddr a;
    int rc = -1;

    if (mixaddr_parse(card->tree, &a, err) == 0) {
        if (!(by = choose(m, &a, why)))
            errmsg_fail(err, EHOSTUNREACH, "%s: nobody listens there", card->tree);
        else if (by->arg || begin_remote(m, err) == 0) {
            part.tree = by == &m->local ? a.local : a.remote;
            rc = (instead ? by->ops->move : by->ops->beside)(by->arg, &part, err);
        }
    }
    mixaddr_clear(&a);
    return rc == 0 ? by : NULL;
}

static int mix_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    mixlink_t *m = arg;
    struct outbound *out = &m->parent;

    mix_drop(m, CORE_TREE, out->rank);
    out->rank = card->rank;
    out->why[0] = '\0';
    if (!(out->by = connect_card(m, card, true, out->why, err)))
        return -1;
    if (m->running)
        log_outbound(m, out);
    return 0;
}

static int mix_beside(void *arg, const struct control_card *card, errmsg_t *err)
{
    mixlink_t *m = arg;
    char why[REASON_SIZE] = "";
    struct half *by;

    /* The present parent is noted, too, so that the swap cannot fail. */
    if (hmap_put_u64(m->parents, m->parent.rank, m->parent.by) < 0 ||
        hmap_put_u64(m->parents, card->rank, &m->local) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", card->rank);
    if (!(by = connect_card(m, card, false, why, err))) {
        hmap_del_u64(m->parents, card->rank);
        return -1;
    }
    (void)hmap_put_u64(m->parents, card->rank, by); /* it has an entry */
    log_reason(m, card->rank, why);
    return 0;
}

static void mix_swap(void *arg, uint32_t rank)
{
    mixlink_t *m = arg;
    struct half *by = hmap_take_u64(m->parents, rank);

    if (!by)
        return;
    if (m->local.arg)
        m->local.ops->swap(m->local.arg, rank);
    if (m->remote.arg)
        m->remote.ops->swap(m->remote.arg, rank);
    m->parent.by = by;
    m->parent.rank = rank;
}

static void mix_quiet(void *arg, uint32_t rank)
{
    mixlink_t *m = arg;
    struct half *by = hmap_get_u64(m->inbound, key_of(CORE_TREE, rank));

    if (by)
        by->ops->quiet(by->arg, rank);
}

static bool mix_reached(void *arg, enum core_plane plane, uint32_t rank)
{
    const struct outbound *out = outbound(arg, plane);

    return !out->waits && out->by && out->rank == rank &&
           out->by->ops->reached(out->by->arg, plane, rank);
}

static double mix_heard(void *arg, enum core_plane plane, uint32_t rank)
{
    const struct half *by = carrier(arg, plane, rank);

    return by ? by->ops->heard(by->arg, plane, rank) : -1.;
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

/* --- start and end --- */

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
    hmap_destroy(m->parents);
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

/* Keep a copy: ZeroMQ may be begun again when the owner has wiped the keys. */
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
    if (!m || !(m->inbound = hmap_create_u64(NULL)) || !(m->parents = hmap_create_u64(NULL))) {
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
    .readdress = true,
    .by_key = true,
    .card = mix_card,
    .move = mix_move,
    .beside = mix_beside,
    .swap = mix_swap,
    .quiet = mix_quiet,
    .reached = mix_reached,
    .heard = mix_heard,
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
                                          .compose = mixaddr_compose,
                                          .is_address = mixaddr_is,
                                          .create = mix_create,
                                          .ops = &mix_ops};
