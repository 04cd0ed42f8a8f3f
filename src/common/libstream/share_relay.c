/* share_relay.c - the relay of a host: many streams of bytes over one TCP connection.
 *
 * Between two relays goes a sequence of frames, each a head of 24 bytes and for DATA as many bytes
 * as it says (doc/stream-format.rst):
 *
 *    OPEN    channel, token   by the relay of readers: a reader wants the writer with this token
 *    DATA    channel, bytes   what one end has said to the other
 *    CREDIT  channel, bytes   as many were passed on: as many more may be sent
 *    CLOSE   channel          this end is gone
 *
 * At most WINDOW bytes of a channel are on the way in one direction, and in memory of the relay at
 * the end, so that a reader that does not read holds up nobody else.  Channels of a connection that
 * have something to send take turns, a frame each.  A relay connects to another one when the first
 * reader needs it, and disconnects when the last one has gone.
 *
 *    state of a channel       what it waits for
 *    in `turns`               room in the buffer of the connection
 *    EPOLLIN                  bytes of its process
 *    neither                  credit
 *
 * A stranger can connect, and say OPEN with a token that he does not know: that is answered with
 * CLOSE.  Reader and writer prove to each other who they are, over the channel; so a relay, or
 * whoever pretends to be one, can interrupt what it carries, and read what is not encrypted, as
 * anybody between two hosts can, and nothing else.
 *
 * Invariants:
 *  1. A channel never has more than WINDOW bytes in its buffer.
 *  2. A connection of another host that has no channel can be closed: there are at most IDLE_MAX.
 *
 * Failure: a frame that is malformed, or exceeds the credit, ends the connection with all its
 * channels; their processes see the end of their connection, as they do when a host is cut off.
 * What is out of memory or descriptors is closed.
 */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "libstream/share.h"
#include "libstream/share_private.h"
#include "libutil/clock.h"
#include "libutil/fdpass.h"
#include "libutil/fdutil.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/le.h"
#include "libutil/list.h"

#define HEAD_LEN 24
#define DATA_MAX 65536
#define WINDOW ((size_t)1 << 20)
#define OUT ((size_t)512 << 10)
#define OUT_LEAST (HEAD_LEN + 16384) /* room in it for a frame of data */
#define LOCALS_MAX 8192              /* processes of this host that are connected */
#define IDLE_MAX 64
#define LOOK_SECONDS 2.
#define SILENCE 20.

enum { FRAME_OPEN = 1, FRAME_DATA, FRAME_CREDIT, FRAME_CLOSE };

struct frame {
    uint32_t type;
    uint32_t channel;
    uint32_t bytes;
    uint64_t token;
};

/* What epoll reports on. */
struct end {
    enum { STOP, LISTEN_LOCAL, LISTEN_FAR, LOCAL, WRITER, PEER, CHANNEL } kind;
    int fd; /* -1: none */
    uint32_t events;
    struct list_node node; /* in a list of its kind */
};

/* A process of this host that has not sent its request; or a writer that is registered. */
struct local {
    struct end end;
    uint64_t token;
    unsigned char request[SHARE_REQUEST_LEN];
    size_t got;
};

/* A connection to another relay. */
struct peer {
    struct end end;
    char address[FAR_ADDR_MAX]; /* "": that relay has connected */
    bool connecting;
    bool greeted;  /* it has said that it is a relay, or is one that was connected to */
    hmap_t *by_id; /* channels */
    struct list_node channels;
    struct list_node turns;
    uint32_t last; /* channel */
    unsigned char head[HEAD_LEN];
    size_t got;         /* bytes of the head, or of what greets */
    struct channel *to; /* of the DATA that arrives; NULL: it has gone */
    uint32_t left;      /* bytes of it */
    size_t at, len;     /* of `out` */
    unsigned char out[OUT];
};

struct channel {
    struct end end; /* a process of this host; node: in peer.channels */
    struct peer *p;
    struct list_node turn; /* in peer.turns */
    uint32_t id;
    uint64_t token;
    bool open;     /* OPEN was not sent yet */
    bool gone;     /* its process has: CLOSE was not sent yet */
    bool ended;    /* CLOSE has come */
    size_t credit; /* bytes that may be sent */
    size_t owed;   /* bytes that were passed on, of which the other relay does not know */
    size_t at, len;
    unsigned char *buf; /* 2 * WINDOW bytes */
};

struct relay {
    int epoll_fd;
    struct end stop, listen_local, listen_far;
    char address[FAR_ADDR_MAX];
    struct list_node locals; /* those that are registered, too */
    unsigned nlocals;
    hmap_t *writers; /* by token */
    struct list_node peers;
    bool done;
    unsigned char in[DATA_MAX * 4];
};

static void watch(struct relay *r, struct end *e, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};

    if (e->fd >= 0 && e->events != events && epoll_ctl(r->epoll_fd, EPOLL_CTL_MOD, e->fd, &ev) == 0)
        e->events = events;
}

static int end_add(struct relay *r, struct end *e, int kind, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};

    e->kind = (__typeof__(e->kind))kind;
    e->fd = fd;
    e->events = events;
    list_init(&e->node);
    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void end_close(struct end *e)
{
    list_remove(&e->node);
    if (e->fd >= 0)
        close(e->fd); /* and epoll forgets it */
    e->fd = -1;
}

/* --- processes of this host --- */

static void local_free(struct relay *r, struct local *l)
{
    if (l->end.kind == WRITER)
        (void)hmap_take_u64(r->writers, l->token);
    r->nlocals--;
    end_close(&l->end);
    free(l);
}

/* --- channels --- */

static void peer_free(struct relay *r, struct peer *p);

static void channel_free(struct relay *r, struct channel *c)
{
    if (c->p->to == c)
        c->p->to = NULL;
    (void)hmap_take_u64(c->p->by_id, c->id);
    list_remove(&c->turn);
    end_close(&c->end);
    free(c->buf);
    free(c);
    r->nlocals--;
}

/* Create a channel of a process (`fd`, taken over; -1: of none, to be closed).  NULL: without
 * memory. */
static struct channel *channel_create(struct relay *r, struct peer *p, uint32_t id, int fd)
{
    struct channel *c = calloc(1, sizeof(*c));

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
    c->end.kind = CHANNEL;
    c->end.fd = -1;
    list_init(&c->end.node);
    if (fd >= 0 && end_add(r, &c->end, CHANNEL, fd, 0) < 0)
        c->gone = true;
    list_append(&p->channels, &c->end.node);
    list_init(&c->turn);
    list_append(&p->turns, &c->turn);
    r->nlocals++;
    return c;
}

static void turn(struct channel *c)
{
    if (list_empty(&c->turn))
        list_append(&c->p->turns, &c->turn);
}

/* Pass on what has come for a process. */
static void channel_flush(struct relay *r, struct channel *c)
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
    if (c->ended && (c->len == 0 || c->gone)) {
        channel_free(r, c);
        return;
    }
    if (c->owed >= WINDOW / 4)
        turn(c);
    watch(r, &c->end,
          c->gone ? 0 : (c->end.events & EPOLLIN) | (c->at < c->len ? (uint32_t)EPOLLOUT : 0));
}

/* --- sending --- */

static void frame_put(struct peer *p, const struct frame *f)
{
    unsigned char *h = p->out + p->len;

    memset(h, 0, HEAD_LEN);
    le_put32(h, f->type);
    le_put32(h + 4, f->channel);
    le_put32(h + 8, f->bytes);
    le_put64(h + 16, f->token);
    p->len += HEAD_LEN;
}

/* Put bytes of a process into a frame.  false: it has none. */
static bool data_put(struct relay *r, struct channel *c)
{
    struct peer *p = c->p;
    size_t room = OUT - p->len - HEAD_LEN;
    size_t max = c->credit < DATA_MAX ? c->credit : DATA_MAX;
    ssize_t n = recv(c->end.fd, p->out + p->len + HEAD_LEN, max < room ? max : room, MSG_DONTWAIT);
    struct frame f = {.type = FRAME_DATA, .channel = c->id};

    if (n < 0 && errno == EAGAIN) {
        watch(r, &c->end, c->end.events | EPOLLIN);
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
static void channel_turn(struct relay *r, struct channel *c)
{
    struct peer *p = c->p;

    list_remove(&c->turn);
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

/* Send what there is.  -1: the connection has failed, or is not needed any more. */
static int peer_pump(struct relay *r, struct peer *p)
{
    size_t budget = 8 * OUT;

    while (!p->connecting && budget > 0) {
        struct list_node *n;
        ssize_t sent;

        if (p->at == p->len)
            p->at = p->len = 0;
        while (OUT - p->len >= OUT_LEAST && (n = list_first(&p->turns)))
            channel_turn(r, list_entry(n, struct channel, turn));
        if (p->at == p->len)
            break;
        sent = send(p->end.fd, p->out + p->at, p->len - p->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent <= 0)
            return -1;
        p->at += (size_t)sent;
        budget -= (size_t)sent < budget ? (size_t)sent : budget;
    }
    if (*p->address && p->at == p->len && list_empty(&p->channels))
        return -1;
    watch(r, &p->end, EPOLLIN | (p->connecting || p->at < p->len ? (uint32_t)EPOLLOUT : 0));
    return 0;
}

static void pump(struct relay *r, struct peer *p)
{
    if (peer_pump(r, p) < 0)
        peer_free(r, p);
}

/* --- connections between relays --- */

static void peer_free(struct relay *r, struct peer *p)
{
    LIST_FOREACH_SAFE(it, tmp, &p->channels)
    {
        channel_free(r, list_entry(list_entry(it, struct end, node), struct channel, end));
    }
    hmap_destroy(p->by_id);
    end_close(&p->end);
    free(p);
}

static struct peer *peer_create(struct relay *r, const char *address, int fd)
{
    struct peer *p = calloc(1, sizeof(*p));
    bool out = *address != '\0';

    if (!p || !(p->by_id = hmap_create_u64(NULL)) ||
        end_add(r, &p->end, PEER, fd, EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0)) < 0) {
        if (p)
            hmap_destroy(p->by_id);
        free(p);
        close(fd);
        return NULL;
    }
    far_addr_setup(fd, SILENCE, false);
    memcpy(p->address, address, strlen(address) + 1);
    list_init(&p->channels);
    list_init(&p->turns);
    p->connecting = p->greeted = out;
    if (out) {
        memcpy(p->out, SHARE_MAGIC "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", HEAD_LEN);
        p->len = HEAD_LEN;
    }
    list_append(&r->peers, &p->end.node);
    return p;
}

/* The connection to another relay, to be made if there is none.  NULL: it cannot be. */
static struct peer *peer_find(struct relay *r, const char *address)
{
    int fd;

    LIST_FOREACH(it, &r->peers)
    {
        struct peer *p = list_entry(list_entry(it, struct end, node), struct peer, end);

        if (strcmp(p->address, address) == 0)
            return p;
    }
    if (!*address || (fd = far_addr_begin(address)) < 0)
        return NULL;
    return peer_create(r, address, fd);
}

/* A reader of another host wants a writer: both get an end of a new connection. */
static int opened(struct relay *r, struct peer *p, const struct frame *f)
{
    struct local *w = hmap_get_u64(r->writers, f->token);
    int fds[2] = {-1, -1};

    if (f->channel <= p->last)
        return -1;
    p->last = f->channel;
    if (w && r->nlocals < LOCALS_MAX &&
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
static int frame_begin(struct relay *r, struct peer *p)
{
    struct frame f = {le_get32(p->head), le_get32(p->head + 4), le_get32(p->head + 8),
                      le_get64(p->head + 16)};
    struct channel *c = hmap_get_u64(p->by_id, f.channel);

    switch (f.type) {
    case FRAME_OPEN:
        return *p->address ? -1 : opened(r, p, &f);
    case FRAME_DATA:
        if (f.bytes == 0 || f.bytes > DATA_MAX || (c && c->len - c->at + f.bytes > WINDOW))
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
    default:
        return -1;
    }
}

/* Take bytes of DATA. */
static size_t payload(struct relay *r, struct peer *p, const unsigned char *data, size_t len)
{
    struct channel *c = p->to;

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
static int peer_read(struct relay *r, struct peer *p)
{
    ssize_t n = recv(p->end.fd, r->in, sizeof(r->in), MSG_DONTWAIT);
    size_t at = 0;

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return -1;
    while (at < (size_t)n) {
        size_t take = HEAD_LEN - p->got;

        if (p->left > 0) {
            at += payload(r, p, r->in + at, (size_t)n - at);
            continue;
        }
        if (take > (size_t)n - at)
            take = (size_t)n - at;
        memcpy(p->head + p->got, r->in + at, take);
        p->got += take;
        at += take;
        if (p->got < HEAD_LEN)
            break;
        p->got = 0;
        if (!p->greeted) {
            if (memcmp(p->head, SHARE_MAGIC, 8) != 0 || le_get32(p->head + 8) != 1)
                return -1;
            p->greeted = true;
        } else if (frame_begin(r, p) < 0)
            return -1;
    }
    return 0;
}

static void peer_ready(struct relay *r, struct peer *p, uint32_t events)
{
    int errnum = 0;
    socklen_t len = sizeof(errnum);

    if (p->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        if (getsockopt(p->end.fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0 || errnum != 0) {
            peer_free(r, p);
            return;
        }
        p->connecting = false;
    }
    if (!p->connecting && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) && peer_read(r, p) < 0)
        peer_free(r, p);
    else
        pump(r, p);
}

static void channel_ready(struct relay *r, struct channel *c, uint32_t events)
{
    struct peer *p = c->p;

    if (events & (EPOLLERR | EPOLLHUP)) {
        /* This would be reported again.  What the process has said before is still read, as far as
         * there is credit. */
        epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, c->end.fd, NULL);
        turn(c);
    } else {
        if (events & EPOLLIN) {
            watch(r, &c->end, c->end.events & ~(uint32_t)EPOLLIN);
            turn(c);
        }
        if (events & EPOLLOUT)
            channel_flush(r, c);
    }
    pump(r, p);
}

/* --- requests --- */

static void local_register(struct relay *r, struct local *l)
{
    struct share_request q = {.kind = SHARE_REGISTER};
    unsigned char buf[SHARE_REQUEST_LEN];

    if (getrandom(&l->token, sizeof(l->token), 0) != (ssize_t)sizeof(l->token) ||
        hmap_get_u64(r->writers, l->token) || hmap_put_u64(r->writers, l->token, l) < 0) {
        local_free(r, l);
        return;
    }
    l->end.kind = WRITER;
    q.token = l->token;
    memcpy(q.address, r->address, sizeof(q.address));
    share_request_encode(&q, buf);
    if (send(l->end.fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(buf))
        local_free(r, l);
}

static void local_connect(struct relay *r, struct local *l, const struct share_request *q)
{
    struct peer *p = peer_find(r, q->address);
    struct channel *c;
    int fd = l->end.fd;

    epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    l->end.fd = -1;
    local_free(r, l);
    if (!p) {
        close(fd);
        return;
    }
    if (!(c = channel_create(r, p, ++p->last, fd)))
        return;
    c->open = true;
    c->token = q->token;
    pump(r, p);
}

static void local_ready(struct relay *r, struct local *l)
{
    struct share_request q;
    ssize_t n = recv(l->end.fd, l->request + l->got, sizeof(l->request) - l->got, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        l->got += (size_t)n;
    if (n <= 0)
        local_free(r, l);
    else if (l->got < sizeof(l->request))
        return;
    else if (share_request_decode(l->request, &q) < 0)
        local_free(r, l);
    else if (q.kind == SHARE_REGISTER)
        local_register(r, l);
    else
        local_connect(r, l, &q);
}

/* A registered writer says nothing. */
static void writer_ready(struct relay *r, struct local *l)
{
    local_free(r, l);
}

static void accept_local(struct relay *r)
{
    int fd = accept4(r->listen_local.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct local *l = fd >= 0 ? calloc(1, sizeof(*l)) : NULL;

    if (fd < 0)
        return;
    if (!l || r->nlocals >= LOCALS_MAX || fd_check_peer(fd, "a process", NULL) < 0 ||
        end_add(r, &l->end, LOCAL, fd, EPOLLIN) < 0) {
        free(l);
        close(fd);
        return;
    }
    list_append(&r->locals, &l->end.node);
    r->nlocals++;
}

/* Invariant 2. */
static void idle_close(struct relay *r)
{
    struct peer *oldest = NULL;
    unsigned n = 0;

    LIST_FOREACH(it, &r->peers)
    {
        struct peer *p = list_entry(list_entry(it, struct end, node), struct peer, end);

        if (*p->address || !list_empty(&p->channels))
            continue;
        if (n++ == 0)
            oldest = p;
    }
    if (n >= IDLE_MAX)
        peer_free(r, oldest);
}

static void accept_far(struct relay *r)
{
    int fd = accept4(r->listen_far.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    idle_close(r);
    peer_create(r, "", fd);
}

/* --- the relay --- */

/* Close connections to hosts that do not answer any more. */
static void look(struct relay *r, double *when)
{
    double now = clock_now();

    if (now < *when)
        return;
    *when = now + LOOK_SECONDS;
    LIST_FOREACH_SAFE(it, tmp, &r->peers)
    {
        struct peer *p = list_entry(list_entry(it, struct end, node), struct peer, end);

        if (far_addr_silent(p->end.fd, SILENCE))
            peer_free(r, p);
    }
}

static void ready(struct relay *r, struct end *e, uint32_t events)
{
    switch (e->kind) {
    case STOP:
        r->done = true;
        return;
    case LISTEN_LOCAL:
        accept_local(r);
        return;
    case LISTEN_FAR:
        accept_far(r);
        return;
    case LOCAL:
        local_ready(r, list_entry(e, struct local, end));
        return;
    case WRITER:
        writer_ready(r, list_entry(e, struct local, end));
        return;
    case PEER:
        peer_ready(r, list_entry(e, struct peer, end), events);
        return;
    case CHANNEL:
        channel_ready(r, list_entry(e, struct channel, end), events);
        return;
    }
}

static int relay_open(struct relay *r, const char *address, const char *interface, int stop_fd,
                      errmsg_t *err)
{
    struct sockaddr_un sun;
    socklen_t len = share_name(&sun);
    char text[FAR_ADDR_MAX];
    const char *first = text;
    int fd;

    if ((r->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 || !(r->writers = hmap_create_u64(NULL)) ||
        end_add(r, &r->stop, STOP, stop_fd, EPOLLIN) < 0)
        return errmsg_fail(err, errno, "a relay cannot be made: %s", strerror(errno));
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0 ||
        end_add(r, &r->listen_local, LISTEN_LOCAL, fd, EPOLLIN) < 0 ||
        bind(fd, (struct sockaddr *)&sun, len) < 0 || listen(fd, 128) < 0)
        return errmsg_fail(err, errno, "a relay cannot listen on this host%s: %s",
                           errno == EADDRINUSE ? ", which has one of this user already" : "",
                           strerror(errno));
    if ((fd = far_addr_listen(address, interface, text, err)) < 0)
        return -1;
    if (end_add(r, &r->listen_far, LISTEN_FAR, fd, EPOLLIN) < 0)
        return errmsg_fail(err, errno, "a relay cannot listen: %s", strerror(errno));
    if (!far_addr_next(&first, r->address))
        return errmsg_fail(err, EADDRNOTAVAIL, "this host has no address for other relays");
    return 0;
}

static void relay_close(struct relay *r)
{
    LIST_FOREACH_SAFE(it, tmp, &r->peers)
    {
        peer_free(r, list_entry(list_entry(it, struct end, node), struct peer, end));
    }
    LIST_FOREACH_SAFE(it, tmp, &r->locals)
    {
        local_free(r, list_entry(list_entry(it, struct end, node), struct local, end));
    }
    if (r->listen_local.fd >= 0)
        close(r->listen_local.fd);
    if (r->listen_far.fd >= 0)
        close(r->listen_far.fd);
    hmap_destroy(r->writers);
    if (r->epoll_fd >= 0)
        close(r->epoll_fd);
    free(r);
}

int share_relay_run(const char *address, const char *interface, int stop_fd, errmsg_t *err)
{
    struct relay *r = calloc(1, sizeof(*r));
    double when = 0.;
    int rc;

    if (!r)
        return errmsg_fail(err, ENOMEM, "out of memory");
    r->epoll_fd = r->listen_local.fd = r->listen_far.fd = -1;
    list_init(&r->locals);
    list_init(&r->peers);
    rc = relay_open(r, address, interface, stop_fd, err);
    while (rc == 0 && !r->done) {
        struct epoll_event ev; /* one at a time, since handling it may free others */

        if (epoll_wait(r->epoll_fd, &ev, 1, (int)(LOOK_SECONDS * 1e3)) == 1)
            ready(r, ev.data.ptr, ev.events);
        look(r, &when);
    }
    relay_close(r);
    return rc;
}
