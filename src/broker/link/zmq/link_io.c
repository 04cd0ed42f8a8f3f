/* link_io.c - the work of the link when a socket is ready.
 *
 * ZeroMQ's descriptor is edge-triggered and belongs to the command queue of the socket, not to its
 * messages: any call on the socket may consume the edge.
 *
 * Invariants:
 *  1. After every operation on a socket its ZMQ_EVENTS are queried.  If frames wait to be read, the
 *     socket is marked, and a timer of 0 seconds reads it in the next turn of the reactor.  A
 *     socket that has more input than one turn handles (BATCH_FRAMES, BATCH_BYTES) is marked as
 *     well, so that other descriptors get their turn.
 *  2. Messages to be sent are collected.  They are handed to ZeroMQ when the reactor has no other
 *     work in this turn, or as soon as they fill a frame.  No message waits for later ones.
 *  3. A peer is blocked when ZeroMQ accepts no more frames for it.  Sending is retried whenever its
 *     socket becomes ready, and also every RETRY seconds, since another call may have consumed the
 *     edge.
 *  4. One child that is too slow for the events stops them for all children, for at most
 *     EVENT_PATIENCE seconds or EVENT_BYTES_MAX bytes.  Then the events are sent without it, and
 *     the core of that child notices the gap in the sequence numbers and requests the missing
 *     events.
 *  5. A peer whose connection fails during a call of the core is put on a list, and reported from
 *     the reactor.
 *  6. A message larger than a frame travels as a ZeroMQ message of several parts, which ZeroMQ
 *     delivers completely or not at all.
 *  7. A child that was dropped is expected to disconnect by itself.  If it is still connected after
 *     CUT_AFTER seconds, it gets the word "cut", which it treats as the loss of its parent.  So
 *     does a lost peer from which a frame arrives, because it was stopped for long or one of its
 *     connections survived: otherwise it would wait for answers forever.
 *  8. The state of a peer (link_private.h) changes by the transitions of `moves` only.
 *
 * Failure: received data that are not a message are counted, logged and dropped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <zmq.h>

#include "libutil/invariant.h"
#include "link_private.h"

#define BATCH_FRAMES 32
#define BATCH_BYTES (1024u * 1024)
#define BYTES_MAX (16u * 1024 * 1024)
#define FORCED_MAX (64u * 1024 * 1024)
#define RETRY 0.005
#define CUT_AFTER 2.
#define EVENT_PATIENCE 0.05
#define EVENT_BYTES_MAX (8u * 1024 * 1024)
#define DRAIN_TURNS 64

/* --- peers that are gone --- */

static const struct transition moves[] = {
    {LINK_NEW, LINK_UP, "take_frame"},
    {LINK_NEW, LINK_GONE, "peer_close, for link_peer_fail, link_peer_leave and op_drop"},
    {LINK_UP, LINK_GONE, "peer_close, for link_peer_fail, link_peer_leave and op_drop"},
    {LINK_GONE, LINK_NEW, "link_peer_renew"},
    TRANSITION_END,
};

static void set_state(struct link_peer *p, enum link_peer_state state)
{
    TRANSITION(8, moves, p->state, state);
    p->state = state;
}

/* Discard the messages that wait for the peer; send and accept no further ones. */
static void peer_close(struct link_peer *p)
{
    set_state(p, LINK_GONE);
    p->blocked = false;
    list_remove(&p->work);
    link_queue_clear(&p->queue);
    if (p->event_up) {
        p->event_up = false;
        p->l->event_up--;
    }
    if (p->out && p->out->messages.uri) /* otherwise ZeroMQ would reconnect */
        zmq_disconnect(p->out->messages.sock, p->out->messages.uri);
    if (p->out && p->out->events.uri)
        zmq_disconnect(p->out->events.sock, p->out->events.uri);
}

void link_peer_fail(struct link_peer *p, const char *why)
{
    link_t *l = p->l;

    if (p->state == LINK_GONE)
        return;
    snprintf(p->why, sizeof(p->why), "%s", why);
    peer_close(p);
    list_append(&l->unreported, &p->unreported);
    flux_timer_start(l->again, 0., 0.);
}

void link_peer_leave(struct link_peer *p)
{
    if (p->state != LINK_GONE)
        peer_close(p);
    list_remove(&p->unreported);
}

void link_peer_renew(struct link_peer *p)
{
    set_state(p, LINK_NEW);
    p->handshaken = p->greeted = p->named = p->connected = false;
    p->cut_due = p->was_full = p->quiet = false;
    p->logged = 0.;
    silence_begin(p->l->silence, &p->line);
}

void link_report_lost(link_t *l)
{
    struct list_node *n;

    while ((n = list_first(&l->unreported))) {
        struct link_peer *p = list_entry(n, struct link_peer, unreported);

        list_remove(n);
        core_peer_lost(l->core, p->plane, p->rank, p->why);
        link_out_done(p);
    }
}

/* --- sending --- */

/* Send a frame; `begun`: earlier parts of the same message were sent.  Returns 1: sent; 0: retry
 * later; -1: the peer is gone. */
static int send_frame(struct link_peer *p, zmq_msg_t *frame, bool begun, bool more)
{
    void *sock = p->source->sock;

    if (!p->outbound && !begun &&
        zmq_send(sock, p->id, sizeof(p->id), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return errno == EAGAIN ? 0 : -1;
    if (zmq_msg_send(frame, sock, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0)
        return errno == EAGAIN && !begun ? 0 : -1; /* ZeroMQ grants room for a whole message */
    return 1;
}

static void peer_flush(struct link_peer *p)
{
    link_t *l = p->l;
    zmq_msg_t *frame;
    int rc = 1;

    list_remove(&p->work);
    p->blocked = false;
    while (rc > 0 && (frame = link_queue_frame(&p->queue))) {
        size_t count = p->queue.frame_count;
        bool more = link_queue_more(&p->queue);

        if ((rc = send_frame(p, frame, link_queue_begun(&p->queue), more)) > 0) {
            link_queue_sent(&p->queue);
            l->stats.frames_out++;
            l->stats.msgs_out += more ? 0 : count;
        }
    }
    if (rc < 0) {
        link_peer_fail(p, "its connection was closed");
    } else if (p->queue.count > 0) { /* blocked, or no memory for a frame: retry later */
        p->blocked = true;
        list_append(&l->blocked, &p->work);
        if (!flux_watcher_active(l->retry))
            flux_timer_start(l->retry, RETRY, RETRY);
    }
}

/* Notify the core that it may send again.  Called from the reactor only. */
static void peer_tell_room(struct link_peer *p)
{
    if (p->l->started && p->was_full && p->state != LINK_GONE &&
        p->queue.count <= p->l->queue_max / 2 && p->queue.bytes <= BYTES_MAX / 2) {
        p->was_full = false;
        core_peer_writable(p->l->core, p->rank);
    }
}

static void events_lossy(link_t *l, int lossy)
{
    int nodrop = !lossy;

    zmq_setsockopt(l->src[SRC_PUB].sock, ZMQ_XPUB_NODROP, &nodrop, sizeof(nodrop));
}

static void events_flush(link_t *l)
{
    struct link_source *src = &l->src[SRC_PUB];
    double now = flux_reactor_now(l->r);
    bool lossy = false;
    zmq_msg_t *frame;

    if (!src->sock || l->events.count == 0)
        return;
    if (l->event_blocked) {
        lossy = now - l->event_blocked_since >= EVENT_PATIENCE || l->events.bytes > EVENT_BYTES_MAX;
        if (lossy) {
            l->stats.event_skips++;
            core_event_slow(l->core, true);
            events_lossy(l, 1);
        }
    }
    while ((frame = link_queue_frame(&l->events))) {
        bool more = link_queue_more(&l->events);

        if (zmq_msg_send(frame, src->sock, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0)
            break;
        link_queue_sent(&l->events);
        l->stats.frames_out++;
    }
    if (lossy)
        events_lossy(l, 0);
    if (l->events.count == 0) {
        l->event_blocked = false;
    } else if (!l->event_blocked) {
        l->event_blocked = true;
        l->event_blocked_since = now;
        core_event_slow(l->core, false);
        if (!flux_watcher_active(l->retry))
            flux_timer_start(l->retry, RETRY, RETRY);
    }
}

/* Apply invariant 1 to a socket on which a frame was sent. */
static void look_again(struct link_source *src)
{
    link_t *l = src->l;
    int events = 0;
    size_t len = sizeof(events);

    if (!src->sock || src->again)
        return;
    if (zmq_getsockopt(src->sock, ZMQ_EVENTS, &events, &len) == 0 && (events & ZMQ_POLLIN)) {
        src->again = true;
        flux_timer_start(l->again, 0., 0.);
    }
}

/* The same for all sockets that send frames. */
static void look_again_all(link_t *l)
{
    look_again(&l->src[SRC_IN]);
    look_again(&l->src[SRC_PUB]);
    LIST_FOREACH(it, &l->outs)
    look_again(&list_entry(it, struct link_out, node)->messages);
}

static void flush_list(link_t *l, struct list_node *list, const struct link_source *only)
{
    /* peer_flush() may put a peer back on the blocked list: process each peer once. */
    struct list_node now;

    list_init(&now);
    LIST_FOREACH_SAFE(n, tmp, list)
    {
        struct link_peer *p = list_entry(n, struct link_peer, work);

        if (!only || p->source == only) {
            list_remove(n);
            list_append(&now, n);
        }
    }
    while (!list_empty(&now)) {
        struct link_peer *p = list_entry(list_first(&now), struct link_peer, work);

        peer_flush(p);
        peer_tell_room(p);
    }
}

void link_io_flush(link_t *l)
{
    flush_list(l, &l->dirty, NULL);
    events_flush(l);
}

static void on_flush(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    link_t *l = arg;

    (void)r, (void)w, (void)revents;
    link_io_flush(l);
    link_out_reap(l);
    look_again_all(l);
}

static void on_retry(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    link_t *l = arg;

    (void)r, (void)revents;
    flush_list(l, &l->blocked, NULL);
    events_flush(l);
    if (list_empty(&l->blocked) && !l->event_blocked)
        flux_watcher_stop(w);
    look_again_all(l);
}

static struct link_peer *peer_find(link_t *l, enum core_plane plane, uint32_t rank)
{
    struct link_peer *out = plane == CORE_RING ? l->next : l->parent;

    if (plane == CORE_EVENT)
        return NULL;
    /* In a ring of two brokers the successor is also the predecessor.  Its connection to this
     * broker carries the responses to its requests, and the connection of this broker carries its
     * own requests; both reach it. */
    if (out && out->rank == rank && out->state != LINK_GONE)
        return out;
    if (plane == CORE_TREE && (out = link_parent_of_rank(l, rank)))
        return out;
    return link_inbound(l, plane, rank);
}

static double op_heard(void *arg, enum core_plane plane, uint32_t rank)
{
    link_t *l = arg;
    const struct link_peer *p = peer_find(l, plane, rank);

    return p && p->state == LINK_UP ? silence_length(l->silence, &p->line) : -1.;
}

static size_t op_peak(void *arg)
{
    return ((const link_t *)arg)->peak;
}

static void note_peak(link_t *l, const struct link_queue *q)
{
    if (q->bytes > l->peak)
        l->peak = q->bytes;
}

static int op_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    link_t *l = arg;
    struct link_peer *p = peer_find(l, plane, rank);

    if (!p || p->state == LINK_GONE || (!p->outbound && p->state == LINK_NEW)) {
        errno = EHOSTUNREACH;
        return -1;
    }
    if (!force && p->queue.count > 0 &&
        (p->queue.count >= l->queue_max || p->queue.bytes >= BYTES_MAX)) {
        p->was_full = true;
        errno = EAGAIN;
        return -1;
    }
    if (link_queue_backlog(&p->queue) >= FORCED_MAX) {
        linklog(&l->log, LOG_ERR,
                "rank %u does not read its messages: %zu messages of %zu bytes wait; it is cut "
                "off and counts as lost",
                rank, p->queue.count, p->queue.bytes);
        link_peer_fail(p, "it did not read its messages");
        errno = EHOSTUNREACH;
        return -1;
    }
    if (link_queue_push(&p->queue, msg) < 0)
        return -1;
    note_peak(l, &p->queue);
    if (!p->blocked && p->queue.bytes >= LINK_FRAME_MAX)
        peer_flush(p);
    /* Even if all messages were sent: the core may have got EAGAIN just before, and must be
     * notified of the room. */
    if (list_empty(&p->work) && p->state != LINK_GONE && (p->queue.count > 0 || p->was_full))
        list_append(&l->dirty, &p->work);
    flux_watcher_start(l->flush); /* also to check the socket after peer_flush() */
    return 0;
}

static int op_publish(void *arg, const flux_msg_t *event)
{
    link_t *l = arg;
    flux_msg_t *ref;

    if (l->event_up == 0)
        return 0;
    ref = flux_msg_incref(event);
    if (link_queue_push(&l->events, ref) < 0) {
        flux_msg_destroy(ref);
        return -1;
    }
    note_peak(l, &l->events);
    if (l->events.bytes >= LINK_FRAME_MAX &&
        (!l->event_blocked || l->events.bytes > EVENT_BYTES_MAX))
        events_flush(l);
    flux_watcher_start(l->flush);
    return 0;
}

void link_send_word(struct link_peer *p, const char *text)
{
    size_t len = strlen(text);
    zmq_msg_t word;

    /* A word must not interrupt a message of several parts. */
    if (link_queue_begun(&p->queue) || zmq_msg_init_size(&word, len) < 0)
        return;
    memcpy(zmq_msg_data(&word), text, len);
    send_frame(p, &word, false, false);
    zmq_msg_close(&word);
}

/* Send "cut" (invariant 7).  A child that said goodbye does not get the word: ZeroMQ would delay
 * the end of this broker to deliver it. */
static void peer_cut(struct link_peer *p)
{
    link_t *l = p->l;

    if (p->state == LINK_GONE)
        return;
    if (p->state == LINK_UP && p->queue.count > 0)
        peer_flush(p);
    if (p->outbound && p->state == LINK_UP)
        link_send_word(p, LINK_WORD_CUT);
    peer_close(p);
    list_remove(&p->unreported); /* the core knows already */
    p->cut_due = p->connected;
    if (p->cut_due && !flux_watcher_active(l->cut))
        flux_timer_start(l->cut, CUT_AFTER, 0.);
    flux_watcher_start(l->flush);
}

static void on_cut(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    link_t *l = arg;
    size_t pos = 0;
    void *val;

    (void)r, (void)w, (void)revents;
    while (hmap_next(l->inbound, &pos, NULL, NULL, &val)) {
        struct link_peer *p = val;

        if (p->cut_due && p->connected)
            link_send_word(p, LINK_WORD_CUT);
        p->cut_due = false;
    }
    look_again(&l->src[SRC_IN]);
}

static void op_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    struct link_peer *p = peer_find(arg, plane, rank);

    if (p) {
        peer_cut(p);
        link_out_done(p);
    }
}

static void op_quiet(void *arg, uint32_t rank)
{
    struct link_peer *p = link_inbound(arg, CORE_TREE, rank);

    if (!p)
        return;
    p->quiet = true;
    if (p->event_up) {
        p->event_up = false;
        p->l->event_up--;
    }
}

const struct core_link_ops link_ops = {
    .send = op_send,
    .publish = op_publish,
    .drop = op_drop,
    .again = link_again,
    .readdress = true,
    .by_key = true,
    .card = link_card,
    .move = link_move,
    .beside = link_beside,
    .swap = link_swap,
    .quiet = op_quiet,
    .reached = link_reached,
    .heard = op_heard,
    .peak = op_peak,
    .bind = link_bind,
    .tree_uri = link_tree_uri,
    .event_uri = link_event_uri,
    .rebind = link_rebind,
    .allow = link_allow,
    .connect = link_connect,
    .start = link_start,
    .destroy = link_destroy,
};

/* --- receiving --- */

/* Pass the messages of one frame to the core.  Returns false when the frame is not valid. */
static bool take_messages(link_t *l, enum core_plane plane, uint32_t from, const char *p,
                          size_t len)
{
    errmsg_t err = {""};

    while (len > 0) {
        ssize_t size = flux_msg_frame_size(p, len, &err);
        flux_msg_t *msg = NULL;

        if (size > 0 && (size_t)size <= len)
            msg = flux_msg_decode(p, size, &err);
        if (!msg) {
            l->stats.malformed++;
            linklog(&l->log, LOG_ERR, "dropped %zu bytes from rank %u that are not a message: %s",
                    len, from, err.text[0] ? err.text : "it is truncated");
            return false;
        }
        p += size;
        len -= size;
        core_link_input(l->core, plane, from, msg);
    }
    return true;
}

/* Returns whether the first byte is that of a message, and the second one that of another
 * format. */
static bool is_other_version(const char *data, size_t len)
{
    return len > LINK_WORD_MAX && flux_msg_frame_size(data, 1, NULL) == 0 &&
           flux_msg_frame_size(data, 2, NULL) < 0;
}

static void refuse_version(struct link_peer *p, const char *data)
{
    errmsg_t err = {""};

    (void)flux_msg_frame_size(data, 2, &err);
    linklog(&p->l->log, LOG_ERR, "rank %u is refused: %s: %s", p->rank, err.text,
            link_refusal_advice(LINK_WHY_VERSION));
    link_send_word(p, LINK_WORD_REFUSED LINK_WHY_VERSION);
    link_peer_fail(p, "it is another version of Flux");
}

static void take_frame(struct link_peer *p, int fd, const char *data, size_t len)
{
    const size_t refused = strlen(LINK_WORD_REFUSED);
    char why[LINK_WORD_MAX + 32];

    if (p->state == LINK_GONE) {
        if (!p->outbound)
            link_send_word(p, LINK_WORD_CUT);
        return;
    }
    if (p->state == LINK_NEW)
        set_state(p, LINK_UP);
    p->fd = fd;
    silence_heard(p->l->silence, &p->line);
    if (is_other_version(data, len)) {
        refuse_version(p, data);
    } else if (len > LINK_WORD_MAX) {
        take_messages(p->l, p->plane, p->rank, data, len);
    } else if (len == strlen(LINK_WORD_CUT) && memcmp(data, LINK_WORD_CUT, len) == 0) {
        link_peer_fail(p, "it cut the connection");
    } else if (len > refused && memcmp(data, LINK_WORD_REFUSED, refused) == 0 && p->outbound) {
        char word[LINK_WORD_MAX + 1];

        snprintf(word, sizeof(word), "%.*s", (int)(len - refused), data + refused);
        snprintf(why, sizeof(why), "it refused this broker: %s", word);
        linklog(&p->l->log, LOG_ERR, "rank %u at %s refused this broker: %s: %s", p->rank,
                p->source->uri, word, link_refusal_advice(word));
        link_peer_fail(p, why);
        if (p->plane == CORE_RING && strcmp(word, LINK_WHY_TAKEN) == 0)
            core_rank_taken(p->l->core, p->rank);
    } else if (len > 0) {
        p->l->stats.malformed++;
        linklog(&p->l->log, LOG_ERR, "dropped %zu bytes from rank %u that are not a message", len,
                p->rank);
    }
}

/* One input: a frame, or the joined parts of a large message (invariant 6). */
struct incoming {
    zmq_msg_t id;    /* ROUTER: the sender's routing id */
    zmq_msg_t first; /* holds the properties of the connection */
    char *joined;
    const char *data;
    size_t len;
    bool good;
};

static bool receive_part(void *sock, zmq_msg_t *part)
{
    zmq_msg_init(part);
    if (zmq_msg_recv(part, sock, ZMQ_DONTWAIT) >= 0)
        return true;
    zmq_msg_close(part);
    return false;
}

/* Receive and join the remaining parts of the message that in->first begins. */
static bool join_parts(void *sock, struct incoming *in)
{
    ssize_t size = flux_msg_frame_size(in->data, in->len, NULL);
    bool good = size > 0 && (size_t)size > in->len && (in->joined = malloc(size));
    size_t have = in->len;
    bool more = true;
    zmq_msg_t part;

    if (good)
        memcpy(in->joined, in->data, have);
    while (more && receive_part(sock, &part)) {
        size_t len = zmq_msg_size(&part);

        more = zmq_msg_more(&part);
        good = good && len <= (size_t)size - have;
        if (good)
            memcpy(in->joined + have, zmq_msg_data(&part), len);
        have += len;
        zmq_msg_close(&part);
    }
    in->data = in->joined;
    in->len = have;
    return good && have == (size_t)size;
}

/* Receive one message.  Returns false when there is none.  The caller calls release()
 * afterwards. */
static bool receive(void *sock, bool router, struct incoming *in)
{
    memset(in, 0, sizeof(*in));
    if (!receive_part(sock, router ? &in->id : &in->first))
        return false;
    if (!router) {
        zmq_msg_init(&in->id);
    } else if (!zmq_msg_more(&in->id) || !receive_part(sock, &in->first)) {
        zmq_msg_init(&in->first);
        return true; /* a routing id without a frame */
    }
    in->data = zmq_msg_data(&in->first);
    in->len = zmq_msg_size(&in->first);
    in->good = !zmq_msg_more(&in->first) || join_parts(sock, in);
    return true;
}

static void release(struct incoming *in)
{
    zmq_msg_close(&in->id);
    zmq_msg_close(&in->first);
    free(in->joined);
}

static void drop_malformed(link_t *l, const struct incoming *in)
{
    l->stats.malformed++;
    linklog(&l->log, LOG_ERR,
            "dropped %zu bytes from a neighbor: their parts do not form a message", in->len);
}

void link_drain_in(struct link_source *src)
{
    struct incoming in;
    size_t bytes = 0;

    for (int i = 0; i < BATCH_FRAMES && bytes < BATCH_BYTES; i++) {
        struct link_peer *p;

        if (!receive(src->sock, true, &in))
            return;
        bytes += in.len;
        if (!in.good)
            drop_malformed(src->l, &in);
        else if ((p = link_identify(src->l, &in.id, &in.first)))
            take_frame(p, zmq_msg_get(&in.first, ZMQ_SRCFD), in.data, in.len);
        release(&in);
    }
}

static bool readable(struct link_source *src)
{
    int events = 0;
    size_t len = sizeof(events);

    return src->sock && zmq_getsockopt(src->sock, ZMQ_EVENTS, &events, &len) == 0 &&
           (events & ZMQ_POLLIN);
}

void link_drain_all_in(link_t *l)
{
    /* A closed connection has at most HWM frames left. */
    for (int i = 0; i < DRAIN_TURNS && readable(&l->src[SRC_IN]); i++)
        link_drain_in(&l->src[SRC_IN]);
}

void link_drain_peer(struct link_source *src)
{
    struct incoming in;
    size_t bytes = 0;

    for (int i = 0; i < BATCH_FRAMES && bytes < BATCH_BYTES; i++) {
        if (!receive(src->sock, false, &in))
            return;
        bytes += in.len;
        if (in.good)
            take_frame(src->peer, zmq_msg_get(&in.first, ZMQ_SRCFD), in.data, in.len);
        else
            drop_malformed(src->l, &in);
        release(&in);
    }
}

void link_drain_sub(struct link_source *src)
{
    link_t *l = src->l;
    struct link_peer *p = src->peer;
    struct incoming in;
    size_t bytes = 0;

    for (int i = 0; i < BATCH_FRAMES && bytes < BATCH_BYTES; i++) {
        if (!receive(src->sock, false, &in))
            return;
        bytes += in.len;
        if (!in.good) {
            drop_malformed(l, &in);
        } else if (p->state != LINK_GONE) {
            silence_heard(l->silence, &p->out->event_line);
            p->out->event_heard = true;
            p->out->event_fd = zmq_msg_get(&in.first, ZMQ_SRCFD);
            take_messages(l, CORE_EVENT, p->rank, in.data, in.len);
        }
        release(&in);
    }
}

void link_drain_pub(struct link_source *src)
{
    struct incoming in;

    for (int i = 0; i < BATCH_FRAMES; i++) {
        if (!receive(src->sock, false, &in))
            return;
        if (in.good && !in.joined)
            link_take_subscription(src->l, &in.first);
        release(&in);
    }
}

void link_drain_zap(struct link_source *src)
{
    zap_serve(src->l->zap, flux_reactor_now(src->l->r), BATCH_FRAMES);
}

/* --- turns --- */

static void source_run(struct link_source *src)
{
    link_t *l = src->l;

    src->again = false;
    src->drain(src);
    if (!list_empty(&l->blocked))
        flush_list(l, &l->blocked, src);
    if (l->event_blocked && src == &l->src[SRC_PUB])
        events_flush(l);
    look_again(src);
}

static void on_source(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    (void)r, (void)w, (void)revents;
    source_run(arg);
}

/* Call `f` for each socket, until it fails.  Meanwhile a connection may begin; none is freed. */
static int each_source(link_t *l, int (*f)(struct link_source *src))
{
    int rc = 0;

    for (int i = 0; i < SRC_COUNT && rc == 0; i++)
        rc = l->src[i].sock ? f(&l->src[i]) : 0;
    LIST_FOREACH(it, &l->outs)
    {
        struct link_out *out = list_entry(it, struct link_out, node);
        struct link_source *const all[] = {&out->messages, &out->mon, &out->events};

        for (size_t i = 0; i < 3 && rc == 0; i++)
            rc = all[i]->sock ? f(all[i]) : 0;
    }
    return rc;
}

static int run_again(struct link_source *src)
{
    if (src->again)
        source_run(src);
    return 0;
}

static void on_again(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    link_t *l = arg;

    (void)r, (void)w, (void)revents;
    each_source(l, run_again);
    link_report_lost(l);
}

static int watch(struct link_source *src)
{
    int fd;
    size_t len = sizeof(fd);

    if (src->w)
        return 0;
    if (zmq_getsockopt(src->sock, ZMQ_FD, &fd, &len) < 0 ||
        !(src->w = flux_fd_watcher_create(src->l->r, fd, FLUX_POLLIN, on_source, src)))
        return -1;
    flux_watcher_start(src->w);
    src->again = true; /* read the frames that arrived before the socket was watched */
    return 0;
}

int link_io_watch(link_t *l)
{
    if (each_source(l, watch) < 0)
        return -1;
    flux_timer_start(l->again, 0., 0.);
    return 0;
}

int link_io_start(link_t *l)
{
    if (!(l->flush = flux_defer_create(l->r, on_flush, l)) ||
        !(l->again = flux_timer_create(l->r, on_again, l)) ||
        !(l->cut = flux_timer_create(l->r, on_cut, l)) ||
        !(l->retry = flux_timer_create(l->r, on_retry, l)) || link_gate_start(l) < 0 ||
        link_beat_start(l) < 0)
        return -1;
    return link_io_watch(l);
}

static int unwatch(struct link_source *src)
{
    flux_watcher_destroy(src->w);
    src->w = NULL;
    return 0;
}

void link_io_stop(link_t *l)
{
    each_source(l, unwatch);
    flux_watcher_destroy(l->flush);
    flux_watcher_destroy(l->again);
    flux_watcher_destroy(l->cut);
    flux_watcher_destroy(l->retry);
    l->flush = l->again = l->cut = l->retry = NULL;
    link_gate_stop(l);
    link_beat_stop(l);
}
