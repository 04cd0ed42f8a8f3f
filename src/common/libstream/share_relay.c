/* share_relay.c - the relay of a host, and the processes of the host.
 *
 * A process registers as a writer, or asks to be connected to a writer of another host (requests:
 * share_join.c).  share_link.c has the connections to the relays of other hosts.
 *
 *    state of a process      what comes
 *    SHARE_LOCAL                   its request
 *    SHARE_WRITER                  nothing; each reader is passed to it as a descriptor
 *    SHARE_CHANNEL (share_link.c)  bytes for the other end
 *
 * Invariants:
 *  1. A connection of another host that has no channel can be closed: there are at most IDLE_MAX.
 *
 * A relay that a process has started ends when no process has used it for a while.  One that is
 * needed again, or has ended otherwise, has a successor, to which its writers and readers come
 * back: see adopt().
 *
 * Failure: a process that says anything else is disconnected.  What is out of memory or descriptors
 * is closed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "libstream/share.h"
#include "libstream/share_private.h"
#include "libutil/clock.h"
#include "libutil/fdutil.h"

#define IDLE_MAX 64
#define LOOK_SECONDS 2.

void share_end_watch(struct share_relay *r, struct share_end *e, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};

    if (e->fd >= 0 && e->events != events && epoll_ctl(r->epoll_fd, EPOLL_CTL_MOD, e->fd, &ev) == 0)
        e->events = events;
}

int share_end_add(struct share_relay *r, struct share_end *e, int kind, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};

    e->kind = (__typeof__(e->kind))kind;
    e->fd = fd;
    e->events = events;
    list_init(&e->node);
    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

void share_end_close(struct share_end *e)
{
    list_remove(&e->node);
    if (e->fd >= 0)
        close(e->fd); /* and epoll forgets it */
    e->fd = -1;
}

/* --- processes of this host --- */

static void local_free(struct share_relay *r, struct share_local *l)
{
    if (l->end.kind == SHARE_WRITER)
        (void)hmap_take_u64(r->writers, l->token);
    r->nlocals--;
    share_end_close(&l->end);
    free(l);
}

/* --- requests --- */

/* The first process that comes may have known another relay of this host: take over the address and
 * the key of that one, if its port is free. */
static void adopt(struct share_relay *r, const struct share_id *own)
{
    int fd;

    if (r->used)
        return;
    r->used = true;
    if (!*own->address || (fd = far_addr_listen_again(own->address)) < 0)
        return;
    share_end_close(&r->listen_far);
    if (share_end_add(r, &r->listen_far, SHARE_LISTEN_FAR, fd, EPOLLIN) == 0)
        r->own = *own;
}

/* Answer a request.  -1: the process is gone. */
static int answer(const struct share_relay *r, int fd, enum share_kind kind, uint64_t token)
{
    struct share_request a = {.kind = kind, .token = token, .own = r->own};
    unsigned char buf[SHARE_REQUEST_LEN];

    share_request_encode(&a, buf);
    return send(fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(buf) ? 0 : -1;
}

/* Give a writer its former token, if it is free and this relay has taken over the address that goes
 * with it; else a new one.  -1: there is none. */
static int token_take(struct share_relay *r, struct share_local *l, const struct share_request *q)
{
    bool again = q->token != 0 && strcmp(q->own.address, r->own.address) == 0 &&
                 memcmp(q->own.key, r->own.key, SHARE_KEY_LEN) == 0 &&
                 !hmap_get_u64(r->writers, q->token);

    l->token = q->token;
    if (!again && (getrandom(&l->token, sizeof(l->token), 0) != (ssize_t)sizeof(l->token) ||
                   l->token == 0 || hmap_get_u64(r->writers, l->token)))
        return -1;
    return hmap_put_u64(r->writers, l->token, l);
}

static void local_register(struct share_relay *r, struct share_local *l,
                           const struct share_request *q)
{
    if (token_take(r, l, q) < 0) {
        local_free(r, l);
        return;
    }
    l->end.kind = SHARE_WRITER;
    if (answer(r, l->end.fd, SHARE_REGISTER, l->token) < 0)
        local_free(r, l);
}

static void local_connect(struct share_relay *r, struct share_local *l,
                          const struct share_request *q)
{
    int fd = l->end.fd;

    epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    l->end.fd = -1;
    local_free(r, l);
    if (answer(r, fd, SHARE_CONNECT, q->token) < 0)
        close(fd);
    else
        share_link_open(r, q, fd);
}

static void local_request(struct share_relay *r, struct share_local *l)
{
    struct share_request q;

    if (share_request_decode(l->request, &q) < 0) {
        local_free(r, l);
        return;
    }
    adopt(r, &q.own);
    if (q.kind == SHARE_REGISTER)
        local_register(r, l, &q);
    else
        local_connect(r, l, &q);
}

static void local_ready(struct share_relay *r, struct share_local *l)
{
    ssize_t n = recv(l->end.fd, l->request + l->got, sizeof(l->request) - l->got, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        local_free(r, l);
        return;
    }
    l->got += (size_t)n;
    if (l->got == sizeof(l->request))
        local_request(r, l);
}

/* A registered writer says nothing. */
static void writer_ready(struct share_relay *r, struct share_local *l)
{
    local_free(r, l);
}

static void accept_local(struct share_relay *r)
{
    int fd = accept4(r->listen_local.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct share_local *l = fd >= 0 ? calloc(1, sizeof(*l)) : NULL;

    if (fd < 0)
        return;
    if (!l || r->nlocals >= SHARE_LOCALS_MAX || fd_check_peer(fd, "a process", NULL) < 0 ||
        share_end_add(r, &l->end, SHARE_LOCAL, fd, EPOLLIN) < 0) {
        free(l);
        close(fd);
        return;
    }
    list_append(&r->locals, &l->end.node);
    r->nlocals++;
}

/* Invariant 1. */
static void idle_close(struct share_relay *r)
{
    struct share_peer *oldest = NULL;
    unsigned n = 0;

    LIST_FOREACH(it, &r->peers)
    {
        struct share_peer *p =
            list_entry(list_entry(it, struct share_end, node), struct share_peer, end);

        if (p->out || !list_empty(&p->channels))
            continue;
        if (n++ == 0)
            oldest = p;
    }
    if (n >= IDLE_MAX)
        share_link_free(r, oldest);
}

static void accept_far(struct share_relay *r)
{
    int fd = accept4(r->listen_far.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    idle_close(r);
    share_link_create(r, NULL, fd);
}

/* --- the relay --- */

/* Look for connections that have to be given up.  true: there may be more. */
static bool look_once(struct share_relay *r, double now)
{
    LIST_FOREACH(it, &r->peers)
    {
        if (share_link_look(
                r, list_entry(list_entry(it, struct share_end, node), struct share_peer, end), now))
            return true;
    }
    return false;
}

static void look(struct share_relay *r, double *when)
{
    double now = clock_now();

    if (now < *when)
        return;
    *when = now + LOOK_SECONDS;
    while (look_once(r, now))
        ;
}

static void ready(struct share_relay *r, struct share_end *e, uint32_t events)
{
    switch (e->kind) {
    case SHARE_STOP:
        r->done = true;
        return;
    case SHARE_LISTEN_LOCAL:
        accept_local(r);
        return;
    case SHARE_LISTEN_FAR:
        accept_far(r);
        return;
    case SHARE_LOCAL:
        local_ready(r, list_entry(e, struct share_local, end));
        return;
    case SHARE_WRITER:
        writer_ready(r, list_entry(e, struct share_local, end));
        return;
    case SHARE_PEER:
        share_link_ready(r, list_entry(e, struct share_peer, end), events);
        return;
    case SHARE_CHANNEL:
        share_link_channel_ready(r, list_entry(e, struct share_channel, end), events);
        return;
    }
}

static int relay_open(struct share_relay *r, const char *address, const char *interface,
                      errmsg_t *err)
{
    struct sockaddr_un sun;
    socklen_t len = share_name(&sun);
    char text[FAR_ADDR_MAX];
    const char *first = text;
    int fd;

    if ((r->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 || !(r->writers = hmap_create_u64(NULL)) ||
        getrandom(r->own.key, sizeof(r->own.key), 0) != (ssize_t)sizeof(r->own.key))
        return errmsg_fail(err, errno, "a relay cannot be made: %s", strerror(errno));
    if ((fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0 ||
        share_end_add(r, &r->listen_local, SHARE_LISTEN_LOCAL, fd, EPOLLIN) < 0 ||
        bind(fd, (struct sockaddr *)&sun, len) < 0 || listen(fd, 128) < 0)
        return errmsg_fail(err, errno, "a relay cannot listen on this host%s: %s",
                           errno == EADDRINUSE ? ", which has one of this user already" : "",
                           strerror(errno));
    if ((fd = far_addr_listen(address, interface, text, err)) < 0)
        return -1;
    if (share_end_add(r, &r->listen_far, SHARE_LISTEN_FAR, fd, EPOLLIN) < 0)
        return errmsg_fail(err, errno, "a relay cannot listen: %s", strerror(errno));
    if (!far_addr_next(&first, r->own.address))
        return errmsg_fail(err, EADDRNOTAVAIL, "this host has no address for other relays");
    return 0;
}

share_relay_t *share_relay_create(const char *address, const char *interface, errmsg_t *err)
{
    struct share_relay *r = calloc(1, sizeof(*r));

    if (!r) {
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    r->epoll_fd = r->stop.fd = r->listen_local.fd = r->listen_far.fd = -1;
    list_init(&r->listen_local.node);
    list_init(&r->listen_far.node);
    list_init(&r->locals);
    list_init(&r->peers);
    if (relay_open(r, address, interface, err) == 0)
        return r;
    share_relay_destroy(r);
    return NULL;
}

void share_relay_destroy(share_relay_t *r)
{
    int saved = errno;

    if (!r)
        return;
    LIST_FOREACH_SAFE(it, tmp, &r->peers)
    {
        share_link_free(r,
                        list_entry(list_entry(it, struct share_end, node), struct share_peer, end));
    }
    LIST_FOREACH_SAFE(it, tmp, &r->locals)
    {
        local_free(r, list_entry(list_entry(it, struct share_end, node), struct share_local, end));
    }
    share_end_close(&r->listen_local);
    share_end_close(&r->listen_far);
    hmap_destroy(r->writers);
    if (r->epoll_fd >= 0)
        close(r->epoll_fd);
    free(r);
    errno = saved;
}

bool share_relay_turn(struct share_relay *r, int ms)
{
    struct epoll_event ev; /* one at a time, since handling it may free others */

    if (epoll_wait(r->epoll_fd, &ev, 1, ms) != 1)
        return false;
    ready(r, ev.data.ptr, ev.events);
    return true;
}

void share_relay_run(share_relay_t *r, int stop_fd, double idle)
{
    double when = 0.;
    double since = clock_now(); /* the last time at which there was a process */

    r->done = share_end_add(r, &r->stop, SHARE_STOP, stop_fd, EPOLLIN) < 0;
    while (!r->done) {
        double left = r->nlocals == 0 && idle > 0. ? since + idle - clock_now() : LOOK_SECONDS;
        int ms = (int)((left < LOOK_SECONDS ? left : LOOK_SECONDS) * 1e3) + 1;

        if (left <= 0.)
            break;
        share_relay_turn(r, ms);
        if (r->nlocals > 0)
            since = clock_now();
        look(r, &when);
    }
    r->stop.fd = -1; /* it belongs to the caller */
}
