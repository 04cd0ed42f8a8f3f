/* ulink_io.c - connections of the local link to neighbors.
 *
 * Purpose: all work is done in the loop of the broker: no thread is between two brokers.  The
 * messages of one pass are written at its end, with one system call per neighbor, and one read
 * takes all data that wait, up to ULINK_SCRATCH bytes.
 *
 *    outbound    try to connect --> hello is written --> accepted: UP
 *                     ^-- pause <-- no one listens        refused: GONE
 *
 * A ring successor that is gone is tried again when the core asks for it (again()).  The core may
 * also name another parent (move()), which is lost at once if nobody listens there.
 *
 * Drawing (hop): what a hop adds to a request and its response: two wake-ups, six system calls.
 *
 *     broker                            next broker
 *        |                                |
 *        | send, at the end of the pass   | (asleep in epoll_wait)
 *        |------------------------------->| wakes up
 *        | epoll_wait                     | recv: all that has come
 *        | (asleep)                       |
 *        |                                |---> core: a hop further, or a service
 *        |                                |
 *        | wakes up                       | send, at the end of the pass
 *        |<-------------------------------|
 *        | recv: all that has come        | epoll_wait
 *        |                                |
 *        |---> core: a hop back, or the client
 *
 * Invariants:
 *  1. The core is called from the reactor only, never from within a call of the core: a loss that a
 *     call of the core detects is noted, and reported at the end of the pass (flush_cb).
 *  2. The end of an UP connection is the loss of the neighbor, and is detected at once.  A neighbor
 *     that is silent while its connection stays open, because it is stopped, is detected as
 *     silence.h describes.  The next broker of the ring is given patience until it accepts a
 *     connection; until another neighbor accepts one, only the join_timeout of the core applies.
 *  3. Queues are bounded: at queue_max messages or BYTES_MAX bytes the core gets EAGAIN.  Messages
 *     that must not be refused are accepted up to FORCED_MAX bytes; then the peer counts as lost.
 *  4. A child for which EVENT_BYTES_MAX bytes wait gets no events until some of them were written.
 *     The core of that child notices the gap in the sequence numbers and requests the missing
 *     events.
 *  5. No message of the core is written to a neighbor that has not proved its key.
 *  6. Each pass handles at most PASS_MAX messages of a read; that neighbor is not read again until
 *     later passes have handled the rest.
 *  7. Messages that a neighbor has sent before it closed its end are handled before the neighbor is
 *     lost.
 *  8. A neighbor that views the pulse of this broker (link/pulse.h) is sent no signs of life, and
 *     one whose pulse is viewed here sends none.  Its signs of life count until its data end.
 *  9. The state of a neighbor (ulink_private.h) changes by the transitions of `moves` only.
 *
 * Failure: a neighbor that sends malformed data is lost, and the error is logged.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "libutil/invariant.h"
#include "libutil/strutil.h"
#include "src/broker/control_wire.h"
#include "ulink_private.h"

#define BYTES_MAX (16u * 1024 * 1024)
#define FORCED_MAX (64u * 1024 * 1024)
#define EVENT_BYTES_MAX (8u * 1024 * 1024)
#define PASS_MAX 128
#define PAUSE_MIN 0.005
#define PAUSE_MAX 0.5
#define LINGER_MS 20

/* --- peers that are gone --- */

void ulink_peer_close(struct ulink_peer *p)
{
    list_remove(&p->dirty);
    list_remove(&p->unread);
    flux_watcher_stop(p->retry);
    flux_watcher_destroy(p->w);
    p->w = NULL;
    framer_destroy(p->in);
    p->in = NULL;
    pulse_view_destroy(p->view);
    p->view = NULL;
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->blocked = p->shown = p->viewed = false;
}

static const struct transition moves[] = {
    {ULINK_NEW, ULINK_UP, "accepted, ulink_peer_adopt"},
    {ULINK_NEW, ULINK_GONE, "ulink_peer_fail, ulink_drop"},
    {ULINK_UP, ULINK_GONE, "ulink_peer_fail, ulink_drop"},
    {ULINK_GONE, ULINK_NEW, "ulink_peer_revive"},
    {ULINK_NEW, ULINK_NEW, "ulink_peer_revive, for ulink_move"},
    {ULINK_UP, ULINK_NEW, "ulink_peer_revive, for ulink_move"}, /* it sent no welcome */
    TRANSITION_END,
};

static void set_state(struct ulink_peer *p, enum ulink_state state)
{
    TRANSITION(9, moves, p->state, state);
    p->state = state;
}

void ulink_peer_fail(struct ulink_peer *p, const char *why)
{
    if (p->state == ULINK_GONE)
        return;
    set_state(p, ULINK_GONE);
    snprintf(p->why, sizeof(p->why), "%s", why);
    list_append(&p->l->unreported, &p->unreported);
    flux_watcher_start(p->l->flush);
}

/* Close the connection of a peer that is gone, and discard the messages that wait for it. */
static void discard(struct ulink_peer *p)
{
    ulink_peer_close(p);
    outq_destroy(p->out);
    p->out = NULL;
}

/* Handle an outbound connection that ended before it was accepted: another attempt follows, unless
 * the core has other parents to try. */
static void try_later(struct ulink_peer *p)
{
    if (p->tries) {
        ulink_peer_fail(p, "it accepts no connection");
        return;
    }
    ulink_peer_close(p);
    if (p->pause < PAUSE_MIN)
        p->pause = PAUSE_MIN;
    flux_timer_start(p->retry, p->pause, 0.);
    p->pause = p->pause * 2 < PAUSE_MAX ? p->pause * 2 : PAUSE_MAX;
}

static void report_lost(ulink_t *l)
{
    struct list_node *n;

    while ((n = list_first(&l->unreported))) {
        struct ulink_peer *p = list_entry(n, struct ulink_peer, unreported);

        list_remove(n);
        discard(p);
        core_peer_lost(l->core, p->plane, p->rank, p->why);
        if (!list_empty(&p->other))
            ulink_peer_free(p);
    }
}

int ulink_peer_revive(struct ulink_peer *p)
{
    outq_t *out = outq_create();

    if (!out)
        return -1;
    if (!p->outbound)
        report_lost(p->l); /* before the report that it is back */
    discard(p);
    p->out = out;
    set_state(p, ULINK_NEW);
    silence_begin(p->l->silence, &p->line);
    p->pause = 0.;
    p->was_full = p->deaf = p->closing = p->quiet = false;
    if (!p->outbound)
        core_peer_back(p->l->core, p->plane, p->rank);
    return 0;
}

int ulink_again(void *arg, enum core_plane plane, uint32_t rank, const char *tree)
{
    const ulink_t *l = arg;
    struct ulink_peer *p = l->next;
    struct sockaddr_un sun;
    socklen_t len;
    char *uri = NULL;
    errmsg_t err;

    if (plane != CORE_RING || !p || p->rank != rank || p->state != ULINK_GONE ||
        !list_empty(&p->unreported) || (tree && ulink_address(tree, &sun, &len, &err) < 0) ||
        (tree && !(uri = strdup(tree))))
        return -1;
    if (ulink_peer_revive(p) < 0) {
        free(uri);
        return -1;
    }
    if (uri) {
        free(p->uri);
        p->uri = uri;
    }
    ulink_connect_peer(p);
    return 0;
}

int ulink_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    ulink_t *l = arg;
    struct ulink_peer *p = l->parent;
    struct sockaddr_un sun;
    socklen_t len;
    char *uri;

    if (ulink_address(card->tree, &sun, &len, err) < 0)
        return -1;
    if (!(uri = strdup(card->tree)) ||
        (!p && !(p = ulink_add_outbound(l, CORE_TREE, card->rank))) || ulink_peer_revive(p) < 0) {
        free(uri);
        return errmsg_fail(err, ENOMEM, "out of memory while connecting to rank %u", card->rank);
    }
    list_remove(&p->unreported);
    free(p->uri);
    p->uri = uri;
    p->rank = card->rank;
    snprintf(p->key, sizeof(p->key), "%s", card->key);
    snprintf(p->ticket, sizeof(p->ticket), "%s", card->ticket);
    p->tries = true;
    ulink_connect_peer(p);
    return 0;
}

/* --- writing --- */

static void mark_dirty(struct ulink_peer *p)
{
    if (list_empty(&p->dirty))
        list_append(&p->l->dirty, &p->dirty);
    flux_watcher_start(p->l->flush);
}

/* Write queued messages.  Returns 0 if all were written, 1 if some wait, -1 with errno. */
static int write_out(struct ulink_peer *p)
{
    int rc = outq_flush(p->out, p->fd);

    p->blocked = rc == 1;
    return rc;
}

static void peer_write(struct ulink_peer *p)
{
    ulink_t *l = p->l;
    int rc;

    list_remove(&p->dirty);
    if (p->closing) {
        (void)write_out(p);
        discard(p);
        if (!list_empty(&p->other))
            ulink_peer_free(p);
        return;
    }
    if (p->state != ULINK_UP || p->deaf)
        return;
    if ((rc = write_out(p)) < 0) {
        if (errno != EPIPE && errno != ECONNRESET) {
            ulink_peer_fail(p, strerror(errno));
            return;
        }
        p->deaf = p->blocked = true; /* ready_cb detects the end, after the data before it */
        rc = 0;
    }
    flux_fd_watcher_set(p->w, rc == 1 ? FLUX_POLLIN | FLUX_POLLOUT : FLUX_POLLIN);
    if (p->was_full && outq_messages(p->out) <= l->queue_max / 2 &&
        outq_bytes(p->out) <= BYTES_MAX / 2) {
        p->was_full = false;
        core_peer_writable(l->core, p->rank);
    }
}

static void take_messages(struct ulink_peer *p);

static void flush_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    ulink_t *l = arg;
    struct list_node now;
    struct list_node *n;

    list_init(&now);
    list_splice(&now, &l->unread);
    while ((n = list_first(&now))) {
        list_remove(n);
        take_messages(list_entry(n, struct ulink_peer, unread));
    }
    list_splice(&now, &l->dirty);
    while ((n = list_first(&now)))
        peer_write(list_entry(n, struct ulink_peer, dirty));
    if (l->slow) {
        bool skipped = l->skipped;

        l->slow = l->skipped = false;
        core_event_slow(l->core, skipped);
    }
    report_lost(l);
}

static struct ulink_peer *other_find(const ulink_t *l, uint32_t rank)
{
    LIST_FOREACH(it, &l->others)
    {
        struct ulink_peer *p = list_entry(it, struct ulink_peer, other);

        if (p->rank == rank && p->state != ULINK_GONE)
            return p;
    }
    return NULL;
}

void ulink_swap(void *arg, uint32_t rank)
{
    ulink_t *l = arg;
    struct ulink_peer *p = other_find(l, rank);

    if (l->parent && l->parent->state == ULINK_GONE && list_empty(&l->parent->dirty))
        ulink_peer_free(l->parent); /* another link has carried the parent since */
    else if (l->parent)
        list_append(&l->others, &l->parent->other);
    if (p)
        list_remove(&p->other);
    l->parent = p;
}

static struct ulink_peer *peer_find(ulink_t *l, enum core_plane plane, uint32_t rank)
{
    struct ulink_peer *out = plane == CORE_RING ? l->next : l->parent;

    /* In a ring of two brokers the successor is also the predecessor: both connections reach it. */
    if (out && out->rank == rank && out->state != ULINK_GONE)
        return out;
    if (plane == CORE_TREE && !list_empty(&l->others) && (out = other_find(l, rank)))
        return out;
    return ulink_inbound(l, plane, rank);
}

/* A connection that waits in the queue of the other end counts: its process is there. */
bool ulink_reached(void *arg, enum core_plane plane, uint32_t rank)
{
    const struct ulink_peer *p = peer_find(arg, plane, rank);

    return p && p->fd >= 0;
}

/* Look at the pulse of a neighbor. */
static void look(struct ulink_peer *p)
{
    double ago = p->view && !p->deaf ? pulse_view_ago(p->view) : -1.;

    if (ago >= 0.)
        silence_heard_ago(p->l->silence, &p->line, ago);
}

double ulink_heard(void *arg, enum core_plane plane, uint32_t rank)
{
    ulink_t *l = arg;
    struct ulink_peer *p = peer_find(l, plane, rank);

    if (!p || p->state != ULINK_UP)
        return -1.;
    look(p);
    return silence_length(l->silence, &p->line);
}

size_t ulink_peak(void *arg)
{
    return ((const ulink_t *)arg)->peak;
}

/* Queue a message for the next write. */
static int put(struct ulink_peer *p, const flux_msg_t *msg)
{
    ulink_t *l = p->l;

    if (outq_add(p->out, msg) < 0)
        return -1;
    if (outq_bytes(p->out) > l->peak)
        l->peak = outq_bytes(p->out);
    return 0;
}

int ulink_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    ulink_t *l = arg;
    struct ulink_peer *p = plane == CORE_EVENT ? NULL : peer_find(l, plane, rank);

    if (!p || p->state == ULINK_GONE || (!p->outbound && p->state == ULINK_NEW)) {
        errno = EHOSTUNREACH;
        return -1;
    }
    if (!force && outq_bytes(p->out) > 0 &&
        (outq_messages(p->out) >= l->queue_max || outq_bytes(p->out) >= BYTES_MAX)) {
        p->was_full = true;
        errno = EAGAIN;
        return -1;
    }
    if (outq_bytes(p->out) >= FORCED_MAX) {
        linklog(&l->log, LOG_ERR,
                "rank %u does not read its messages: %zu bytes wait; it is cut off and "
                "counts as lost",
                rank, outq_bytes(p->out));
        ulink_peer_fail(p, "it did not read its messages");
        errno = EHOSTUNREACH;
        return -1;
    }
    if (put(p, msg) < 0)
        return -1;
    flux_msg_destroy(msg);
    if (p->state == ULINK_UP && !p->blocked)
        mark_dirty(p);
    return 0;
}

int ulink_publish(void *arg, const flux_msg_t *event)
{
    ulink_t *l = arg;
    size_t pos = 0;
    void *val;

    while (hmap_next(l->inbound, &pos, NULL, NULL, &val)) {
        struct ulink_peer *p = val;

        if (p->plane != CORE_TREE || p->state != ULINK_UP || p->quiet)
            continue;
        if (outq_bytes(p->out) > EVENT_BYTES_MAX || put(p, event) < 0)
            l->slow = l->skipped = true;
        else if (p->blocked)
            l->slow = true;
        else
            mark_dirty(p);
    }
    if (l->slow)
        flux_watcher_start(l->flush);
    return 0;
}

void ulink_quiet(void *arg, uint32_t rank)
{
    struct ulink_peer *p = ulink_inbound(arg, CORE_TREE, rank);

    if (p)
        p->quiet = true;
}

void ulink_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    struct ulink_peer *p = peer_find(arg, plane, rank);

    if (!p || p->state == ULINK_GONE)
        return;
    set_state(p, ULINK_GONE);
    p->closing = true;
    mark_dirty(p);
}

/* Send a message of the link itself. */
static int send_word(struct ulink_peer *p, enum ulink_word word, const void *in)
{
    flux_msg_t *msg = ulink_word_create(word, in);
    int rc = msg ? outq_add(p->out, msg) : -1;

    flux_msg_destroy(msg);
    if (rc == 0)
        mark_dirty(p);
    return rc;
}

/* View the pulse that a neighbor shows, and tell it.  Without a view, it goes on to send its signs
 * of life. */
static void view(struct ulink_peer *p)
{
    int fd = framer_take_fd(p->in);

    if (fd < 0 || !(p->view = pulse_view_create(fd)))
        return;
    if (send_word(p, ULINK_VIEWED, NULL) < 0) {
        pulse_view_destroy(p->view);
        p->view = NULL;
    }
}

/* --- reading --- */

static void refused(struct ulink_peer *p, const flux_msg_t *msg)
{
    struct ulink_reason in = {NULL};
    errmsg_t err;
    json_t *owner = ulink_word_decode(ULINK_REFUSED, msg, &in, &err);
    char why[sizeof(p->why)];

    snprintf(why, sizeof(why), "it refused the connection: %.150s", owner ? in.reason : err.text);
    linklog(&p->l->log, LOG_ERR, "rank %u: %s", p->rank, why);
    ulink_peer_fail(p, why);
    json_decref(owner);
}

/* Handle the first message on an outbound connection. */
static void accepted(struct ulink_peer *p, const flux_msg_t *msg)
{
    struct ulink_key in = {NULL};
    errmsg_t err = {""};
    json_t *owner;

    if (strcmp(flux_msg_topic(msg), ulink_words[ULINK_REFUSED].topic) == 0) {
        refused(p, msg);
        return;
    }
    owner = ulink_word_decode(ULINK_ACCEPTED, msg, &in, &err);
    if (owner && !ulink_same_key(in.key, p->key)) {
        errmsg_set(&err, "it has not the key of rank %u", p->rank);
        json_decref(owner);
        owner = NULL;
    }
    if (!owner) {
        linklog(&p->l->log, LOG_ERR, "%s is not the socket of rank %u: %s", p->uri, p->rank,
                err.text);
        ulink_peer_fail(p, err.text);
        return;
    }
    json_decref(owner);
    set_state(p, ULINK_UP);
    mark_dirty(p);
}

static void take(struct ulink_peer *p, flux_msg_t *msg)
{
    enum core_plane plane = p->plane;

    if (p->state == ULINK_NEW) {
        accepted(p, msg);
        flux_msg_destroy(msg);
        return;
    }
    if (ulink_is_word(msg)) { /* its arrival is a sign of life, whatever it says */
        if (strcmp(flux_msg_topic(msg), ulink_words[ULINK_PULSE].topic) == 0)
            view(p);
        else if (strcmp(flux_msg_topic(msg), ulink_words[ULINK_VIEWED].topic) == 0)
            p->viewed = p->shown;
        flux_msg_destroy(msg);
        return;
    }
    if (flux_msg_type(msg) == FLUX_MSG_EVENT && plane == CORE_TREE)
        plane = CORE_EVENT;
    core_link_input(p->l->core, plane, p->rank, msg);
}

static void take_messages(struct ulink_peer *p)
{
    errmsg_t err = {""};
    flux_msg_t *msg;

    for (unsigned n = 0; p->state != ULINK_GONE; n++) {
        if (n >= PASS_MAX && framer_pending(p->in)) {
            list_append(&p->l->unread, &p->unread);
            flux_watcher_start(p->l->flush);
            return;
        }
        if ((msg = framer_next(p->in, &err))) {
            take(p, msg);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == ENOMEM)
            errmsg_set(&err, "out of memory for its messages");
        linklog(&p->l->log, LOG_ERR, "the connection to rank %u is of no use: %s", p->rank,
                err.text);
        ulink_peer_fail(p, err.text);
    }
}

static void ready_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ulink_peer *p = arg;
    ssize_t n;

    if (p->state == ULINK_GONE) { /* until the end of the pass */
        flux_watcher_stop(w);
        return;
    }
    if (revents & FLUX_POLLOUT)
        mark_dirty(p);
    if (!(revents & FLUX_POLLIN))
        return;
    n = framer_read(p->in, p->fd, p->l->scratch, ULINK_SCRATCH, false);
    if (n > 0) {
        if (!p->deaf)
            silence_heard(p->l->silence, &p->line);
        take_messages(p);
        if (p->in && framer_park(p->in) < 0)
            ulink_peer_fail(p, "out of memory for its messages");
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        if (p->state == ULINK_NEW)
            try_later(p);
        else
            ulink_peer_fail(p, n == 0 ? "its connection was closed" : strerror(errno));
    }
}

int ulink_peer_adopt(struct ulink_peer *p, int fd, framer_t *in)
{
    struct ulink_key key = {p->l->key};

    p->fd = fd;
    p->in = in;
    silence_begin(p->l->silence, &p->line);
    if (!(p->w = flux_fd_watcher_create(p->l->r, fd, FLUX_POLLIN, ready_cb, p)) ||
        send_word(p, ULINK_ACCEPTED, &key) < 0) {
        ulink_peer_close(p);
        errno = ENOMEM;
        return -1;
    }
    framer_want_fd(in);
    set_state(p, ULINK_UP);
    flux_watcher_start(p->w);
    if (p->plane == CORE_TREE)
        core_child_event_up(p->l->core, p->rank);
    take_messages(p);
    return 0;
}

/* --- connecting --- */

static int say_hello(struct ulink_peer *p)
{
    struct ulink_hello hello = {ULINK_VERSION, p->l->rank, p->plane == CORE_RING ? "ring" : "tree",
                                p->ticket[0] ? p->ticket : p->l->key};
    flux_msg_t *msg = ulink_word_create(ULINK_HELLO, &hello);
    outq_t *q = outq_create();
    int rc = -1;

    /* A new socket has room for the message. */
    if (msg && q && outq_send(q, p->fd, msg) == 0 && outq_bytes(q) == 0)
        rc = 0;
    outq_destroy(q);
    flux_msg_destroy(msg);
    return rc;
}

static int connect_now(struct ulink_peer *p, errmsg_t *err)
{
    struct sockaddr_un sun;
    socklen_t len;

    if (ulink_address(p->uri, &sun, &len, err) < 0)
        return -1;
    if ((p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0 ||
        connect(p->fd, (struct sockaddr *)&sun, len) < 0)
        return errmsg_fail(err, errno, "%s", strerror(errno));
    if (ulink_check_peer(p->fd, err) < 0)
        return -1;
    if (!(p->in = framer_create()) ||
        !(p->w = flux_fd_watcher_create(p->l->r, p->fd, FLUX_POLLIN, ready_cb, p)) ||
        say_hello(p) < 0)
        return errmsg_fail(err, errno, "%s", strerror(errno));
    framer_want_fd(p->in);
    flux_watcher_start(p->w);
    return 0;
}

void ulink_connect_peer(struct ulink_peer *p)
{
    errmsg_t err;

    if (connect_now(p, &err) == 0)
        return;
    /* No process listens yet, or its queue of connections is full. */
    if (errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN)
        linklog(&p->l->log, LOG_ERR, "cannot connect to rank %u at %s: %s; trying again", p->rank,
                p->uri, err.text);
    try_later(p);
}

/* --- signs of life --- */

/* Show the pulse of this broker to a neighbor for which nothing waits. */
static void show(struct ulink_peer *p)
{
    flux_msg_t *msg = ulink_word_create(ULINK_PULSE, NULL);

    if (msg && outq_send_fd(p->out, p->fd, msg, pulse_fd(p->l->pulse)) == 0) {
        p->shown = true;
        mark_dirty(p); /* a part of the message may wait */
    }
    flux_msg_destroy(msg);
}

static void judge(struct ulink_peer *p, bool probe)
{
    ulink_t *l = p->l;
    char why[64];

    /* Before its first message, only this check watches the next broker of the ring. */
    if (p->state != ULINK_UP && (p->state != ULINK_NEW || p->plane != CORE_RING || !p->outbound))
        return;
    look(p);
    switch (silence_judge(l->silence, &p->line,
                          p->state == ULINK_NEW || core_peer_patient(l->core, p->plane, p->rank))) {
    case SILENCE_LOST:
        snprintf(why, sizeof(why),
                 p->fd < 0 ? "it accepted no connection for %.1f s" : "it sent nothing for %.1f s",
                 silence_length(l->silence, &p->line));
        ulink_peer_fail(p, why);
        return;
    case SILENCE_SLOW:
        core_peer_slow(l->core, p->plane, p->rank, true);
        break;
    case SILENCE_HEARD:
        core_peer_slow(l->core, p->plane, p->rank, false);
        break;
    case SILENCE_FINE:
        break;
    }
    /* Queued data will serve as the sign of life once the peer reads again. */
    if (!probe || p->viewed || p->state != ULINK_UP || outq_bytes(p->out) > 0)
        return;
    if (l->pulse && !p->shown)
        show(p);
    else
        (void)send_word(p, ULINK_BEAT, NULL);
}

/* Not before the first round: a session that ends before has no use for it. */
static void begin_pulse(ulink_t *l)
{
    if (l->no_pulse || (l->pulse = pulse_create()))
        return;
    l->no_pulse = true;
    linklog(&l->log, LOG_ERR, "rank %u has no shared memory (%s), and sends all signs of life",
            l->rank, strerror(errno));
}

static void round_cb(void *arg, bool probe)
{
    ulink_t *l = arg;
    size_t pos = 0;
    void *val;

    if (l->pulse)
        pulse_beat(l->pulse);
    else
        begin_pulse(l);
    if (l->parent)
        judge(l->parent, probe);
    if (l->next)
        judge(l->next, probe);
    LIST_FOREACH(it, &l->others)
    judge(list_entry(it, struct ulink_peer, other), probe);
    while (hmap_next(l->inbound, &pos, NULL, NULL, &val))
        judge(val, probe);
}

/* --- start and end --- */

int ulink_io_start(ulink_t *l)
{
    if (!(l->flush = flux_defer_create(l->r, flush_cb, l)) ||
        !(l->silence = silence_create(l->r, &l->live, round_cb, l)))
        return -1;
    silence_start(l->silence);
    return 0;
}

void ulink_io_stop(ulink_t *l)
{
    flux_watcher_destroy(l->flush);
    silence_destroy(l->silence);
    pulse_destroy(l->pulse);
    l->pulse = NULL;
    l->flush = NULL;
    l->silence = NULL;
}

static bool lingers(struct ulink_peer *p)
{
    return p && p->fd >= 0 && p->state == ULINK_UP && outq_bytes(p->out) > 0 && write_out(p) == 1;
}

void ulink_linger(ulink_t *l, double seconds)
{
    double end = flux_reactor_clock(l->r) + seconds;
    bool left = true;

    while (left && flux_reactor_clock(l->r) < end) {
        size_t pos = 0;
        void *val;

        left = lingers(l->parent);
        left = lingers(l->next) || left;
        LIST_FOREACH(it, &l->others)
        left = lingers(list_entry(it, struct ulink_peer, other)) || left;
        while (hmap_next(l->inbound, &pos, NULL, NULL, &val))
            left = lingers(val) || left;
        if (left)
            (void)poll(NULL, 0, LINGER_MS);
    }
}
