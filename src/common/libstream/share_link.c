/* share_link.c - connections between relays: many streams of bytes over one TCP connection.
 *
 * Between two relays goes a sequence of frames, each a head of 24 bytes and for DATA as many bytes
 * as it says (doc/stream-format.rst):
 *
 *    OPEN    channel, token   by the relay of a reader, which wants the writer with this token
 *    DATA    channel, bytes   what one end has said to the other
 *    CREDIT  channel, bytes   as many were passed on: as many more may be sent
 *    CLOSE   channel          this end is gone
 *    CHALLENGE token          to the relay that has connected: prove that you are the one as which
 *                             you have come
 *    PROOF   token            a hash of that, under its key, of both addresses
 *
 * A connection serves both directions: the relay that has connected says its address, and the
 * other one uses the connection for its own readers of writers there.  Before it does, it has that
 * address proved with the key that goes with it, which it has from the reader, and this from the
 * session: a stranger at the same address, such as another user, does not get what is for the
 * relay.  Relays that connect to each other at the same time end up with one connection: greeted().
 *
 * At most WINDOW bytes of a channel are on the way in one direction, and in memory of the relay at
 * the end, so that a reader that does not read holds up nobody else.  Channels of a connection that
 * have something to send take turns, a frame each.  A relay connects to another one when the first
 * reader needs it, and disconnects when the last one has gone.
 *
 *    state of a channel       what it waits for
 *    in `turns`               room in the buffer of the connection
 *    EPOLLIN                  bytes of its process
 *    shut                     its process, which has been told of CLOSE, to go
 *    else                     credit
 *
 * A process reads the end of its channel, and can still write, if the process at the other end is
 * gone.  If its relay, another one or the connection between them is gone, the channel is closed at
 * once in both directions, and the process may try to resume it (inlet_far_join.c).
 *
 * A stranger can connect, and say OPEN with a token that he does not know: that is answered with
 * CLOSE.  Reader and writer prove to each other who they are, over the channel; so a relay, or
 * whoever pretends to be one, can interrupt what it carries, and read what is not encrypted, as
 * anybody between two hosts can, and nothing else.
 *
 * Invariants:
 *  1. A channel never has more than WINDOW bytes in its buffer.
 *
 * Failure: a frame that is malformed, or exceeds the credit, ends the connection with all its
 * channels.
 * What is out of memory or descriptors is closed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "libstream/share_private.h"
#include "libutil/clock.h"
#include "libutil/fdpass.h"
#include "libutil/invariant.h"
#include "libutil/le.h"
#include "libutil/siphash.h"

#define WINDOW ((size_t)1 << 20)
#define OUT_LEAST (SHARE_HEAD_LEN + 16384) /* room in the buffer for a frame of data */

#define PROOF_SECONDS 2. /* time that the other relay has for a proof */

enum {
    FRAME_OPEN = 1,
    FRAME_DATA,
    FRAME_CREDIT,
    FRAME_CLOSE,
    FRAME_CHALLENGE,
    FRAME_PROOF,
};

struct frame {
    uint32_t type;
    uint32_t channel;
    uint32_t bytes;
    uint64_t token;
};

/* --- channels --- */

static void channel_free(struct share_relay *r, struct share_channel *c)
{
    if (c->p->to == c)
        c->p->to = NULL;
    (void)hmap_take_u64(c->p->by_id, c->id);
    list_remove(&c->turn);
    share_end_close(&c->end);
    free(c->buf);
    free(c);
    r->nlocals--;
}

/* Create a channel of a process (`fd`, taken over; -1: of none, to be closed).  NULL: without
 * memory. */
static struct share_channel *channel_create(struct share_relay *r, struct share_peer *p,
                                            uint32_t id, int fd)
{
    struct share_channel *c = calloc(1, sizeof(*c));

    if (!c || !(c->buf = malloc(2 * WINDOW)) || hmap_put_u64(p->by_id, id, c) < 0) {
        if (c)
            free(c->buf);
        free(c);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    c->p = p;
    c->id = id;
    c->credit = WINDOW;
    c->gone = fd < 0;
    c->end.kind = SHARE_CHANNEL;
    c->end.fd = -1;
    list_init(&c->end.node);
    if (fd >= 0 && share_end_add(r, &c->end, SHARE_CHANNEL, fd, 0) < 0)
        c->gone = true;
    list_append(&p->channels, &c->end.node);
    list_init(&c->turn);
    list_append(&p->turns, &c->turn);
    r->nlocals++;
    return c;
}

static void turn(struct share_channel *c)
{
    if (list_empty(&c->turn))
        list_append(&c->p->turns, &c->turn);
}

/* Pass on what has come for a process. */
static void channel_flush(struct share_relay *r, struct share_channel *c)
{
    while (c->at < c->len && !c->gone) {
        ssize_t n = send(c->end.fd, c->buf + c->at, c->len - c->at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            c->gone = true;
            turn(c);
            break;
        }
        c->at += (size_t)n;
        c->owed += (size_t)n;
    }
    if (c->at == c->len)
        c->at = c->len = 0;
    if (c->ended && c->gone) {
        channel_free(r, c);
        return;
    }
    if (c->ended && c->len == 0 && !c->shut) {
        shutdown(c->end.fd, SHUT_WR);
        c->shut = true;
    }
    if (c->owed >= WINDOW / 4)
        turn(c);
    share_end_watch(
        r, &c->end,
        c->gone ? 0 : (c->end.events & EPOLLIN) | (c->at < c->len ? (uint32_t)EPOLLOUT : 0));
}

/* --- sending --- */

static void frame_put(struct share_peer *p, const struct frame *f)
{
    unsigned char *h = p->out_buf + p->len;

    memset(h, 0, SHARE_HEAD_LEN);
    le_put32(h, f->type);
    le_put32(h + 4, f->channel);
    le_put32(h + 8, f->bytes);
    le_put64(h + 16, f->token);
    p->len += SHARE_HEAD_LEN;
}

/* Put bytes of a process into a frame.  false: it has none. */
static bool data_put(struct share_relay *r, struct share_channel *c)
{
    struct share_peer *p = c->p;
    size_t room = SHARE_OUT - p->len - SHARE_HEAD_LEN;
    size_t max = c->credit < SHARE_DATA_MAX ? c->credit : SHARE_DATA_MAX;
    ssize_t n = recv(c->end.fd, p->out_buf + p->len + SHARE_HEAD_LEN, max < room ? max : room,
                     MSG_DONTWAIT);
    struct frame f = {.type = FRAME_DATA, .channel = c->id};

    if (n < 0 && errno == EAGAIN) {
        share_end_watch(r, &c->end, c->end.events | EPOLLIN);
        return false;
    }
    if (n <= 0) {
        c->gone = true;
        return true;
    }
    f.bytes = (uint32_t)n;
    frame_put(p, &f);
    p->len += (size_t)n;
    c->credit -= (size_t)n;
    return true;
}

/* A turn of a channel, for which there is room.  It leaves `turns` when it has nothing to do. */
static void channel_turn(struct share_relay *r, struct share_channel *c)
{
    struct share_peer *p = c->p;

    list_remove(&c->turn);
    if (c->open && !p->out && p->claim != SHARE_PROVED)
        return; /* proved() gives it a turn */
    if (c->open) {
        frame_put(p, &(struct frame){FRAME_OPEN, c->id, 0, c->token});
        c->open = false;
        turn(c);
    } else if (c->gone) {
        if (!c->ended)
            frame_put(p, &(struct frame){FRAME_CLOSE, c->id, 0, 0});
        channel_free(r, c);
    } else if (c->owed >= WINDOW / 4) {
        frame_put(p, &(struct frame){FRAME_CREDIT, c->id, (uint32_t)c->owed, 0});
        c->owed = 0;
        turn(c);
    } else if (c->credit > 0 && !c->ended && data_put(r, c))
        turn(c);
}

/* What the relay with this key answers to a challenge, when it has connected, by its own address,
 * to another address. */
static uint64_t proof(const struct share_id *own, const char *to, uint64_t nonce)
{
    struct siphash_key key = {{le_get64(own->key), le_get64(own->key + 8)}};
    unsigned char text[8 + 2 * FAR_ADDR_MAX] = {0};

    le_put64(text, nonce);
    memcpy(text + 8, own->address, strlen(own->address));
    memcpy(text + 8 + FAR_ADDR_MAX, to, strlen(to));
    return siphash(&key, text, sizeof(text));
}

/* Put a challenge, or a proof, into the buffer. */
static void say(const struct share_relay *r, struct share_peer *p)
{
    struct frame f = {.type = FRAME_CHALLENGE, .token = p->nonce};

    if (p->out) {
        f.type = FRAME_PROOF;
        f.token = proof(&r->own, p->id.address, p->nonce);
    }
    frame_put(p, &f);
    p->say = false;
}

/* Send what there is.  -1: the connection has failed, or is not needed any more. */
static int peer_pump(struct share_relay *r, struct share_peer *p)
{
    size_t budget = 8 * SHARE_OUT;

    while (!p->connecting && budget > 0) {
        struct list_node *n;
        ssize_t sent;

        if (p->at == p->len)
            p->at = p->len = 0;
        if (p->say && SHARE_OUT - p->len >= SHARE_HEAD_LEN)
            say(r, p);
        while (SHARE_OUT - p->len >= OUT_LEAST && (n = list_first(&p->turns)))
            channel_turn(r, list_entry(n, struct share_channel, turn));
        if (p->at == p->len)
            break;
        sent = send(p->end.fd, p->out_buf + p->at, p->len - p->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent <= 0)
            return -1;
        p->at += (size_t)sent;
        budget -= (size_t)sent < budget ? (size_t)sent : budget;
    }
    if (p->out && p->at == p->len && list_empty(&p->channels))
        return -1;
    share_end_watch(r, &p->end,
                    EPOLLIN | (p->connecting || p->at < p->len ? (uint32_t)EPOLLOUT : 0));
    return 0;
}

/* --- connections between relays --- */

/* The other relay is not, or not any more, the one as which it came: channels that wait for its
 * proof find another way. */
static void distrust(struct share_relay *r, struct share_peer *p)
{
    p->id.address[0] = '\0';
    if (p->out || p->claim == SHARE_PROVED)
        return;
    p->claim = SHARE_CLAIMED;
    for (bool more = true; more;) {
        more = false;
        LIST_FOREACH(it, &p->channels)
        {
            struct share_channel *c =
                list_entry(list_entry(it, struct share_end, node), struct share_channel, end);
            struct share_request q = {.kind = SHARE_CONNECT, .token = c->token, .to = c->writer};
            int fd = c->end.fd;

            if (!c->open || c->gone)
                continue;
            epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
            c->end.fd = -1;
            channel_free(r, c);
            share_link_open(r, &q, fd);
            more = true;
            break;
        }
    }
}

/* The connection is gone.  Processes that were told that the other end is gone must not take this
 * for the end of a relay: what has come for them is passed on, and their channels stay until they
 * go. */
static void link_end(struct share_relay *r, struct share_peer *p)
{
    p->dead = true;
    distrust(r, p);
    if (p->end.fd >= 0)
        close(p->end.fd); /* and epoll forgets it */
    p->end.fd = -1;
    LIST_FOREACH_SAFE(it, tmp, &p->channels)
    {
        struct share_channel *c =
            list_entry(list_entry(it, struct share_end, node), struct share_channel, end);

        if (!c->ended || c->gone)
            channel_free(r, c);
    }
    if (list_empty(&p->channels))
        share_link_free(r, p);
}

void share_link_free(struct share_relay *r, struct share_peer *p)
{
    LIST_FOREACH_SAFE(it, tmp, &p->channels)
    {
        channel_free(r,
                     list_entry(list_entry(it, struct share_end, node), struct share_channel, end));
    }
    hmap_destroy(p->by_id);
    share_end_close(&p->end);
    free(p);
}

static void pump(struct share_relay *r, struct share_peer *p)
{
    if (p->dead || peer_pump(r, p) < 0)
        link_end(r, p);
}

struct share_peer *share_link_create(struct share_relay *r, const struct share_id *to, int fd)
{
    struct share_peer *p = calloc(1, sizeof(*p));

    if (!p || !(p->by_id = hmap_create_u64(NULL)) ||
        share_end_add(r, &p->end, SHARE_PEER, fd, EPOLLIN | (to ? (uint32_t)EPOLLOUT : 0)) < 0) {
        if (p)
            hmap_destroy(p->by_id);
        free(p);
        close(fd);
        return NULL;
    }
    far_addr_setup(fd, SHARE_SILENCE, false);
    list_init(&p->channels);
    list_init(&p->turns);
    p->out = p->connecting = p->greeted = to != NULL;
    p->last = to ? -1u : 0;
    if (to) {
        p->id = *to;
        memcpy(p->out_buf, SHARE_MAGIC "\1", 9);
        memcpy(p->out_buf + 24, r->own.address, FAR_ADDR_MAX);
        p->len = SHARE_GREETING_LEN;
    }
    list_append(&r->peers, &p->end.node);
    return p;
}

static bool same_key(const struct share_id *a, const struct share_id *b)
{
    return memcmp(a->key, b->key, SHARE_KEY_LEN) == 0;
}

/* Let the other relay prove that it is the one with this key. */
static void challenge(struct share_peer *p, const struct share_id *id)
{
    if (getrandom(&p->nonce, sizeof(p->nonce), 0) != (ssize_t)sizeof(p->nonce))
        return;
    memcpy(p->id.key, id->key, SHARE_KEY_LEN);
    p->claim = SHARE_ASKED;
    p->asked = clock_now();
    p->say = true;
}

/* A connection with another relay, in one direction. */
static struct share_peer *peer_look(struct share_relay *r, const char *address, bool out)
{
    LIST_FOREACH(it, &r->peers)
    {
        struct share_peer *p =
            list_entry(list_entry(it, struct share_end, node), struct share_peer, end);

        if (p->out == out && !p->dead && strcmp(p->id.address, address) == 0)
            return p;
    }
    return NULL;
}

/* The connection with the relay of a writer: one that has come from there, if it proves that; or
 * one that this relay has made, or makes now.  NULL: it cannot. */
static struct share_peer *peer_find(struct share_relay *r, const struct share_id *to)
{
    struct share_peer *in = *to->address ? peer_look(r, to->address, false) : NULL;
    struct share_peer *p;
    int fd;

    if (in && in->claim == SHARE_PROVED && same_key(&in->id, to))
        return in;
    if (!*to->address)
        return NULL;
    if ((p = peer_look(r, to->address, true)))
        return p;
    if (in && in->claim == SHARE_CLAIMED)
        challenge(in, to);
    if (in && in->claim == SHARE_ASKED && same_key(&in->id, to))
        return in;
    if ((fd = far_addr_begin(to->address)) < 0)
        return NULL;
    return share_link_create(r, to, fd);
}

/* The other relay has connected, and says as what it is known.  Two relays may have connected to
 * each other at the same time: then the connection stays that was made by the one with the smaller
 * address. */
static int greeted(struct share_relay *r, struct share_peer *p)
{
    const char *address = (const char *)p->head + 24;
    struct share_peer *own;

    if (le_get32(p->head + 8) != 1 || !memchr(address, '\0', FAR_ADDR_MAX))
        return -1;
    p->greeted = true;
    if (!*address || strcmp(address, r->own.address) == 0 || peer_look(r, address, false))
        return 0;
    memcpy(p->id.address, address, FAR_ADDR_MAX);
    own = peer_look(r, address, true);
    if (own && strcmp(r->own.address, address) > 0)
        challenge(p, &own->id);
    return 0;
}

/* The other relay answers the challenge.  What this relay has connected to it goes on by this
 * connection. */
static void proved(struct share_relay *r, struct share_peer *p, uint64_t token)
{
    struct share_peer *own = peer_look(r, p->id.address, true);

    if (p->claim != SHARE_ASKED)
        return;
    if (token != proof(&p->id, r->own.address, p->nonce)) {
        distrust(r, p);
        return;
    }
    p->claim = SHARE_PROVED;
    LIST_FOREACH(it, &p->channels)
    {
        turn(list_entry(list_entry(it, struct share_end, node), struct share_channel, end));
    }
    if (own)
        link_end(r, own);
}

bool share_link_look(struct share_relay *r, struct share_peer *p, double now)
{
    if (p->dead)
        return false;
    if (far_addr_silent(p->end.fd, SHARE_SILENCE))
        link_end(r, p);
    else if (!p->out && p->claim == SHARE_ASKED && now > p->asked + PROOF_SECONDS)
        distrust(r, p);
    else
        return false;
    return true;
}

/* A reader of another host wants a writer: both get an end of a new connection. */
static int opened(struct share_relay *r, struct share_peer *p, const struct frame *f)
{
    struct share_local *w = hmap_get_u64(r->writers, f->token);
    int fds[2] = {-1, -1};

    if (f->channel <= p->other || f->channel % 2 != !p->out)
        return -1;
    p->other = f->channel;
    if (w && r->nlocals < SHARE_LOCALS_MAX &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0) {
        if (fdpass_send(w->end.fd, "", 1, fds[1]) != 1) {
            close(fds[0]);
            fds[0] = -1;
        }
        close(fds[1]);
    }
    return channel_create(r, p, f->channel, fds[0]) ? 0 : -1;
}

/* Handle the head of a frame.  -1: it is malformed. */
static int frame_begin(struct share_relay *r, struct share_peer *p)
{
    struct frame f = {le_get32(p->head), le_get32(p->head + 4), le_get32(p->head + 8),
                      le_get64(p->head + 16)};
    struct share_channel *c = hmap_get_u64(p->by_id, f.channel);

    switch (f.type) {
    case FRAME_OPEN:
        return opened(r, p, &f);
    case FRAME_DATA:
        if (f.bytes == 0 || f.bytes > SHARE_DATA_MAX || (c && c->len - c->at + f.bytes > WINDOW))
            return -1;
        p->to = c;
        p->left = f.bytes;
        return 0;
    case FRAME_CREDIT:
        if (c && f.bytes > WINDOW - c->credit)
            return -1;
        if (c) {
            c->credit += f.bytes;
            turn(c);
        }
        return 0;
    case FRAME_CLOSE:
        if (c) {
            c->ended = true;
            channel_flush(r, c);
        }
        return 0;
    case FRAME_CHALLENGE:
        p->nonce = f.token;
        p->say = p->out;
        return p->out ? 0 : -1;
    case FRAME_PROOF:
        if (!p->out)
            proved(r, p, f.token);
        return p->out ? -1 : 0;
    default:
        return -1;
    }
}

/* Take bytes of DATA. */
static size_t payload(struct share_relay *r, struct share_peer *p, const unsigned char *data,
                      size_t len)
{
    struct share_channel *c = p->to;

    if (len > p->left)
        len = p->left;
    p->left -= (uint32_t)len;
    if (!c)
        return len;
    if (2 * WINDOW - c->len < len) {
        memmove(c->buf, c->buf + c->at, c->len - c->at);
        c->len -= c->at;
        c->at = 0;
    }
    memcpy(c->buf + c->len, data, len);
    c->len += len;
    INVARIANT(1, c->len - c->at <= WINDOW);
    if (p->left == 0)
        p->to = NULL;
    channel_flush(r, c);
    return len;
}

/* Read what another relay sends.  -1: the connection has ended, or has to. */
static int peer_read(struct share_relay *r, struct share_peer *p)
{
    ssize_t n = recv(p->end.fd, r->in, sizeof(r->in), MSG_DONTWAIT);
    size_t at = 0;

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return -1;
    while (at < (size_t)n) {
        size_t whole = p->greeted ? SHARE_HEAD_LEN : SHARE_GREETING_LEN;
        size_t take = whole - p->got;

        if (p->left > 0) {
            at += payload(r, p, r->in + at, (size_t)n - at);
            continue;
        }
        if (take > (size_t)n - at)
            take = (size_t)n - at;
        memcpy(p->head + p->got, r->in + at, take);
        p->got += take;
        at += take;
        if (!p->greeted && memcmp(p->head, SHARE_MAGIC, p->got < 8 ? p->got : 8) != 0)
            return -1;
        if (p->got < whole)
            break;
        p->got = 0;
        if ((p->greeted ? frame_begin(r, p) : greeted(r, p)) < 0)
            return -1;
    }
    return 0;
}

void share_link_ready(struct share_relay *r, struct share_peer *p, uint32_t events)
{
    if (p->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        if (far_addr_connected(p->end.fd) < 0) {
            link_end(r, p);
            return;
        }
        p->connecting = false;
    }
    if (!p->connecting && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) && peer_read(r, p) < 0)
        link_end(r, p);
    else
        pump(r, p);
}

void share_link_channel_ready(struct share_relay *r, struct share_channel *c, uint32_t events)
{
    struct share_peer *p = c->p;

    if (events & (EPOLLERR | EPOLLHUP)) {
        /* This would be reported again.  What the process has said before is still read, as far as
         * there is credit. */
        epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, c->end.fd, NULL);
        c->gone |= c->ended;
        turn(c);
    } else {
        if (events & EPOLLIN) {
            share_end_watch(r, &c->end, c->end.events & ~(uint32_t)EPOLLIN);
            turn(c);
        }
        if (events & EPOLLOUT)
            channel_flush(r, c);
    }
    pump(r, p);
}

void share_link_open(struct share_relay *r, const struct share_request *q, int fd)
{
    struct share_peer *p = peer_find(r, &q->to);
    struct share_channel *c;

    if (!p) {
        close(fd);
        return;
    }
    p->last += 2;
    if (!(c = channel_create(r, p, p->last, fd)))
        return;
    c->open = true;
    c->token = q->token;
    c->writer = q->to;
    pump(r, p);
}
