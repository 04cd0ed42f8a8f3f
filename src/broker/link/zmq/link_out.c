/* link_out.c - the connections that this broker opens: to its parents, and to the ring successor.
 *
 * Purpose: a broker has one connection to its parent, and one to its successor on the ring.  While
 * its subtree returns to its place (core_restore.c), it is also connected to its next parent, or to
 * earlier ones, which have answers to send.  Each of these connections (struct link_out) has
 * sockets of its own, so neither messages of one parent nor reports on its connection can be taken
 * for those of another one.
 *
 *    connection          sockets                     ends when (by)
 *    ring successor      DEALER, its monitor         the link ends; after a loss it connects again
 *                                                    by the same sockets (link_again)
 *    parent              DEALER, its monitor, SUB    another parent takes its place after its loss
 *                                                    (link_move), or before (link_swap): it is an
 *                                                    earlier parent then
 *    next parent         DEALER, its monitor, SUB    it is dropped or lost; or it becomes the
 *    (link_beside)                                   parent (link_swap)
 *    earlier parent      DEALER, its monitor         it is dropped or lost
 *
 * Invariants:
 *  1. Each connection has an attempt of its own (begin_attempt), later than all before it.
 *  2. A connection that is over stays in link.outs until link_out_reap(), which is called from the
 *     reactor only: its peer may be in use by the caller.
 *  3. The events of an earlier parent end with the swap.  That parent does not take the end of that
 *     connection for a loss, because it was told before (quiet() at its end).
 *  4. A parent that the core has chosen among several (`tries`) is lost at once when it cannot be
 *     reached; ZeroMQ does not try again.
 *
 * Failure: a connection that cannot be opened is an error with a message; one that ends later is
 * reported to the core as the loss of that neighbor.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <zmq.h>

#include "link_private.h"
#include "src/broker/control_wire.h"

#define RETRY_MS 50      /* delay before ZeroMQ first retries a connection ... */
#define RETRY_MAX_MS 500 /* ... and the limit to which that delay grows */
#define TELL_EVERY 10.   /* seconds between two messages about failing handshakes with one peer */

static void put_u32(uint8_t *to, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(n >> (24 - 8 * i));
}

/* Begin the next attempt to connect to the peer, and write its routing id. */
static void begin_attempt(struct link_peer *p, uint8_t *id)
{
    link_t *l = p->l;

    l->attempt.number++;
    p->attempt = l->attempt;
    id[0] = p->plane == CORE_RING ? 'R' : 'T';
    put_u32(id + 1, l->rank);
    put_u32(id + LINK_ID_NAME, p->attempt.broker);
    put_u32(id + LINK_ID_NAME + 4, p->attempt.number);
}

/* --- sockets --- */

static int connect_source(struct link_source *src, const char *uri, const char *key, errmsg_t *err)
{
    link_t *l;

    if (!src)
        return errmsg_fail(err, errno, "cannot open a socket: %s", zmq_strerror(errno));
    l = src->l;
    if (link_set_ipv6(src->sock, uri) < 0 || link_secure_client(l, src->sock, key) < 0 ||
        link_set_keepalive(l, src->sock) < 0 ||
        link_set_int(src->sock, ZMQ_RECONNECT_IVL, RETRY_MS) < 0 ||
        link_set_int(src->sock, ZMQ_RECONNECT_IVL_MAX, RETRY_MAX_MS) < 0 ||
        (uri[0] && zmq_connect(src->sock, uri) < 0))
        return errmsg_fail(err, errno, "cannot connect to %s: %s", uri, zmq_strerror(errno));
    if (!(src->uri = strdup(uri)))
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to %s", uri);
    return 0;
}

/* Monitor the connection for messages. */
static int monitor(struct link_out *out)
{
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED;
    link_t *l = out->peer->l;
    char address[32];

    /* The name of a closed socket is not free at once. */
    snprintf(address, sizeof(address), "inproc://monitor.%u", l->monitors++);
    out->mon.l = l;
    out->mon.drain = link_drain_monitor;
    if (zmq_socket_monitor(out->messages.sock, address, events) < 0 ||
        !(out->mon.sock = zmq_socket(l->ctx, ZMQ_PAIR)) ||
        link_set_int(out->mon.sock, ZMQ_LINGER, 0) < 0 || zmq_connect(out->mon.sock, address) < 0)
        return -1;
    return 0;
}

static int connect_messages(struct link_out *out, const char *uri, const char *key, errmsg_t *err)
{
    struct link_peer *p = out->peer;
    struct link_source *src = link_source_open(p->l, &out->messages, ZMQ_DEALER, link_drain_peer);
    uint8_t id[LINK_ID_SIZE];

    if (src) {
        begin_attempt(p, id);
        if (zmq_setsockopt(src->sock, ZMQ_ROUTING_ID, id, sizeof(id)) < 0 || monitor(out) < 0)
            src = NULL;
    }
    if (connect_source(src, uri, key, err) < 0)
        return -1;
    link_send_word(p, ""); /* identifies the connection to the gate at the other end */
    return 0;
}

static int connect_events(struct link_out *out, const char *uri, const char *key, errmsg_t *err)
{
    const struct link_peer *p = out->peer;
    struct link_source *sub = link_source_open(p->l, &out->events, ZMQ_SUB, link_drain_sub);
    char topic[40];

    snprintf(topic, sizeof(topic), "up.%u.%08x%08x", p->l->rank, p->attempt.broker,
             p->attempt.number);
    if (sub && (zmq_setsockopt(sub->sock, ZMQ_SUBSCRIBE, "", 0) < 0 ||
                zmq_setsockopt(sub->sock, ZMQ_SUBSCRIBE, topic, strlen(topic)) < 0))
        sub = NULL;
    return connect_source(sub, uri, key, err);
}

/* --- connections --- */

/* Close the sockets, and drop the frames that wait in them. */
static void discard(struct link_out *out)
{
    if (out->messages.sock)
        zmq_socket_monitor(out->messages.sock, NULL, 0);
    link_source_discard(&out->mon);
    link_source_discard(&out->messages);
    link_source_discard(&out->events);
}

static void out_free(struct link_out *out)
{
    list_remove(&out->node);
    link_peer_free(out->peer);
    free(out);
}

/* This connection is over, and nothing about it is reported any longer. */
static void end(struct link_out *out)
{
    link_peer_leave(out->peer);
    out->over = true;
    if (out->peer->l->flush)
        flux_watcher_start(out->peer->l->flush);
}

/* Returns NULL with an error message. */
static struct link_out *out_create(link_t *l, enum core_plane plane, uint32_t rank, errmsg_t *err)
{
    struct link_out *out = calloc(1, sizeof(*out));
    struct link_peer *p = out ? link_peer_create(l, plane, rank) : NULL;

    if (!p) {
        free(out);
        errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", rank);
        return NULL;
    }
    p->outbound = true;
    p->out = out;
    p->source = &out->messages;
    out->peer = out->messages.peer = out->mon.peer = out->events.peer = p;
    list_init(&out->node);
    list_append(&l->outs, &out->node);
    return out;
}

/* Connect to a neighbor.  Returns its peer, or NULL with an error message. */
static struct link_peer *connect_to(link_t *l, enum core_plane plane,
                                    const struct control_card *card, bool tries, errmsg_t *err)
{
    struct link_out *out = link_check_key(l, card->rank, card->key, err) == 0
                               ? out_create(l, plane, card->rank, err)
                               : NULL;

    if (!out)
        return NULL;
    out->peer->tries = tries;
    if (l->silence)
        silence_begin(l->silence, &out->peer->line);
    if (connect_messages(out, card->tree, card->key, err) == 0 &&
        (plane == CORE_RING || connect_events(out, card->event, card->key, err) == 0)) {
        if (!l->started || link_io_watch(l) == 0)
            return out->peer;
        errmsg_fail(err, errno, "cannot watch the broker's sockets: %s", strerror(errno));
    }
    discard(out);
    end(out);
    return NULL;
}

int link_connect(void *arg, enum core_plane plane, uint32_t rank, const char *tree_uri,
                 const char *event_uri, const char *public_key, errmsg_t *err)
{
    link_t *l = arg;
    const struct control_card card = {
        .rank = rank, .tree = tree_uri, .event = event_uri, .key = public_key};
    struct link_peer **slot = plane == CORE_RING ? &l->next : &l->parent;

    /* A neighbor without an address is lost as soon as the link is started (link_out_start). */
    if (*slot)
        return errmsg_fail(err, EINVAL, "this broker is already connected to %s", tree_uri);
    return (*slot = connect_to(l, plane, &card, false, err)) ? 0 : -1;
}

void link_out_start(link_t *l)
{
    struct link_peer *const peers[] = {l->parent, l->next};

    for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
        if (peers[i] && !peers[i]->source->uri[0])
            link_peer_fail(peers[i], "its host is not known yet");
    }
}

int link_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree)
{
    link_t *l = arg;
    struct link_peer *p = l->next;
    uint8_t id[LINK_ID_SIZE];
    char *uri;

    if (plane != CORE_RING || !p || p->rank != rank || !list_empty(&p->unreported) ||
        !(uri = strdup(tree ? tree : p->source->uri)))
        return -1;
    link_trim(uri);
    if (p->state != LINK_GONE) {
        bool other = strcmp(uri, p->source->uri) != 0 && !p->handshaken;

        free(uri);
        if (other)
            link_peer_fail(p, "its broker has another address");
        return other ? 0 : -1;
    }
    free(p->source->uri);
    p->source->uri = uri;
    if (!uri[0] || link_set_ipv6(p->source->sock, uri) < 0)
        return -1;
    begin_attempt(p, id);
    if (zmq_setsockopt(p->source->sock, ZMQ_ROUTING_ID, id, sizeof(id)) < 0 ||
        zmq_connect(p->source->sock, p->source->uri) < 0)
        return -1;
    link_peer_renew(p);
    link_send_word(p, ""); /* identifies the connection to the gate at the other end */
    flux_watcher_start(l->flush);
    return 0;
}

/* Connect to a parent by its card.  Returns its peer, or NULL with an error message. */
static struct link_peer *connect_by_card(link_t *l, const struct control_card *card, errmsg_t *err)
{
    struct control_card part = *card;
    char *tree = strdup(card->tree);
    struct link_peer *p = NULL;

    if (!card->tree[0] || !card->event[0]) {
        errmsg_fail(err, EINVAL, "the address of rank %u is not known", card->rank);
    } else if (tree) {
        link_trim(tree);
        part.tree = tree;
        p = connect_to(l, CORE_TREE, &part, true, err);
    } else {
        errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", card->rank);
    }
    free(tree);
    if (p)
        flux_watcher_start(l->flush);
    return p;
}

int link_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    link_t *l = arg;

    if (l->parent) {
        end(l->parent->out);
        discard(l->parent->out);
    }
    return (l->parent = connect_by_card(l, card, err)) ? 0 : -1;
}

bool link_reached(void *arg, enum core_plane plane, uint32_t rank)
{
    const link_t *l = arg;
    const struct link_peer *p = plane == CORE_RING ? l->next : l->parent;

    return p && p->rank == rank && p->state != LINK_GONE && p->handshaken;
}

int link_beside(void *arg, const struct control_card *card, errmsg_t *err)
{
    return connect_by_card(arg, card, err) ? 0 : -1;
}

struct link_peer *link_parent_of_rank(const link_t *l, uint32_t rank)
{
    LIST_FOREACH(it, &l->outs)
    {
        const struct link_out *out = list_entry(it, struct link_out, node);

        if (out->peer->plane == CORE_TREE && out->peer->rank == rank &&
            out->peer->state != LINK_GONE)
            return out->peer;
    }
    return NULL;
}

void link_swap(void *arg, uint32_t rank)
{
    link_t *l = arg;
    struct link_peer *old = l->parent;

    l->parent = link_parent_of_rank(l, rank);
    if (old == l->parent || !old)
        return;
    if (old->state == LINK_GONE)
        end(old->out);
    else
        link_source_discard(&old->out->events);
}

void link_out_done(struct link_peer *p)
{
    if (p->out && p != p->l->parent && p != p->l->next)
        end(p->out);
}

void link_out_reap(link_t *l)
{
    LIST_FOREACH_SAFE(it, tmp, &l->outs)
    {
        struct link_out *out = list_entry(it, struct link_out, node);

        if (!out->over)
            continue;
        if (out->messages.sock)
            zmq_socket_monitor(out->messages.sock, NULL, 0);
        link_source_discard(&out->mon);
        link_source_close(&out->messages); /* its last word may wait */
        link_source_discard(&out->events);
        out_free(out);
    }
}

void link_out_stop(link_t *l)
{
    LIST_FOREACH(it, &l->outs)
    {
        struct link_out *out = list_entry(it, struct link_out, node);

        if (out->messages.sock)
            zmq_socket_monitor(out->messages.sock, NULL, 0);
        link_source_close(&out->mon);
        link_source_close(&out->messages);
        link_source_close(&out->events);
    }
}

void link_out_destroy(link_t *l)
{
    struct list_node *n;

    while ((n = list_first(&l->outs)))
        out_free(list_entry(n, struct link_out, node));
    l->parent = l->next = NULL;
}

/* --- reports of the monitors --- */

/* Report a failed handshake, which ZeroMQ will retry, unless the core has other parents to try. */
static void tell_trying(struct link_peer *p, const char *text)
{
    double now = flux_reactor_now(p->l->r);

    if (p->tries) {
        link_peer_fail(p, "the handshake with it failed");
        return;
    }
    if (p->logged > 0. && now - p->logged < TELL_EVERY)
        return;
    p->logged = now;
    linklog(&p->l->log, LOG_ERR, "rank %u at %s %s; trying again", p->rank, p->source->uri, text);
}

static const char *protocol_failure(const link_t *l, uint32_t value)
{
    if (value != ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return "does not answer as the broker with the expected public key would";
    return l->curve
               ? "does not use CURVE, which this broker requires: use the same session.curve at "
                 "all ranks"
               : "uses CURVE, and this broker does not: use the same session.curve at all ranks";
}

void link_drain_monitor(struct link_source *src)
{
    struct link_peer *p = src->peer;
    int more, len;
    size_t size = sizeof(more);
    uint8_t buf[6];
    uint16_t event;
    uint32_t value;

    while ((len = zmq_recv(src->sock, buf, sizeof(buf), ZMQ_DONTWAIT)) >= 0) {
        if (zmq_getsockopt(src->sock, ZMQ_RCVMORE, &more, &size) == 0 && more)
            zmq_recv(src->sock, NULL, 0, ZMQ_DONTWAIT);
        if (len != sizeof(buf))
            continue;
        memcpy(&event, buf, sizeof(event));
        memcpy(&value, buf + sizeof(event), sizeof(value));
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            p->handshaken = true;
            silence_begin(p->l->silence, &p->line);
            link_send_word(p, "");
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            linklog(&p->l->log, LOG_ERR,
                    "rank %u at %s refused this broker's public key, %s: start it with the key of "
                    "its own rank (session.keyfile)",
                    p->rank, p->source->uri, p->l->public_key);
            link_peer_fail(p, "it refused this broker's key");
            break;
        case ZMQ_EVENT_CONNECT_RETRIED:
            if (p->tries)
                link_peer_fail(p, "it accepts no connection");
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            tell_trying(p, protocol_failure(p->l, value));
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            tell_trying(
                p,
                p->l->curve
                    ? "ended the connection during the handshake; its public "
                      "key may not be the expected one"
                    : "ended the connection during the handshake; it may use "
                      "CURVE, and this broker does not: use the same session.curve at all ranks");
            break;
        case ZMQ_EVENT_DISCONNECTED:
            if (p->handshaken)
                link_peer_fail(p, "its connection was closed");
            break;
        default:
            break;
        }
    }
}
