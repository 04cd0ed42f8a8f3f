/* outlet_door.c - the admission of readers to a writer's memory, and the end of their connections.
 *
 * A thread listens at an abstract name, which vanishes with the process.  A connection of another
 * user's process is closed at once; so is one that has not knocked correctly (knock.c) within 2
 * seconds (opts.knock), or shows a wrong capability.  Otherwise it gets the memory and the page of
 * a lane of its own, and is a reader until it ends.  A reader that sends anything more is dropped,
 * except that a member of a group sends a single byte for each released step, and claims (knock.h).
 *
 * Connections of other hosts come by TCP, and the same thread serves them (outlet_far.c): when
 * messages have come from them, when they can take more data, and when the bell rings because a
 * step was offered.  When the writer closes the stream, the thread continues until they have all
 * steps.
 *
 * Connections that hosts share come as descriptors from the relay of this host (share.h), and are
 * like those by TCP after that.  If the relay ends, the writer registers with the next one, which
 * it may have to start, and readers whose connections were cut come back.
 *
 * Invariants:
 *  1. At most KNOCKING_MAX connections of this host knock, and as many of other hosts, and there
 *     are at most OUTLET_READERS_MAX readers.  Beyond that, the next reader, or the next connection
 *     of this host, is just closed.
 *  2. When too many connections of other hosts knock, the oldest one of the network that has the
 *     most is closed, so that a stranger with one address cannot lock out the readers of other
 *     hosts.  A network is an IPv4 address, or the upper 64 bits of an IPv6 address, which the
 *     owner of an address cannot choose.
 *  3. A connection is closed in a pass only after all events of the pass that may belong to it.
 *  4. The thread holds the lock only while it changes data that it shares with the writer, and
 *     never during a system call that may wait.
 *
 * Failure: a reader whose messages cannot be sent (its socket is full, though these are the first)
 * is dropped.  A connection of another host that is closed before it has knocked is reset, which
 * tells the reader that it was not refused, and may try again.  If descriptors run out, accepting
 * pauses for a moment.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libstream/outlet_private.h"
#include "libutil/clock.h"
#include "libutil/fdpass.h"
#include "libutil/fdutil.h"
#include "libutil/invariant.h"
#include "libutil/le.h"

#define KNOCKING_MAX 64
#define PAUSE 0.1 /* seconds without accepting, after descriptors have run out */
#define BATCH 16
#define V4 0xff /* instead of the first byte of an IPv6 address, which is 0xff only for multicast */
#define QUEUE_PART 8 /* a part of the memory: maximum of a reader's queue, apart from 2 steps */

void outlet_conn_free(struct outlet_conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    outlet_far_destroy(c->far);
    lane_tx_destroy(c->lane);
    if (c->page)
        munmap(c->page, lane_page_size());
    free(c);
}

static void count_refused(outlet_t *o)
{
    pthread_mutex_lock(&o->lock);
    o->stats.refused++;
    pthread_mutex_unlock(&o->lock);
}

/* Close a knocking connection; one of this host is informed of the reason. */
static void refuse(outlet_t *o, struct outlet_conn *c, int errnum)
{
    struct knock_welcome w = {.errnum = errnum};
    unsigned char buf[KNOCK_WELCOME_LEN];

    if (errnum != 0 && !c->far) {
        knock_welcome_encode(&w, buf);
        send(c->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    list_remove(&c->node);
    if (c->far)
        o->nknocking_far--;
    else
        o->nknocking--;
    count_refused(o);
    outlet_conn_free(c);
}

/* Close a connection that has not knocked yet. */
static void refuse_unheard(outlet_t *o, struct outlet_conn *c, int errnum)
{
    const struct linger reset = {.l_onoff = 1};

    if (c->far)
        setsockopt(outlet_far_fd(c), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    refuse(o, c, errnum);
}

/* Handle the end of a reader's connection. */
static void gone(outlet_t *o, struct outlet_conn *c)
{
    list_remove(&c->far_node);
    pthread_mutex_lock(&o->lock);
    outlet_gone(o, c);
    pthread_mutex_unlock(&o->lock);
}

static void far_serve(outlet_t *o, struct outlet_conn *c, bool readable)
{
    if (outlet_far_serve(o, c, readable) >= 0)
        return;
    if (outlet_far_cut(c)) {
        outlet_far_lose(o, c);
        return;
    }
    epoll_ctl(o->epoll_fd, EPOLL_CTL_DEL, outlet_far_fd(c), NULL);
    if (list_empty(&c->far_node))
        refuse(o, c, EACCES);
    else
        gone(o, c);
}

/* Create the page of a lane: its descriptor, for the reader only, or -1. */
static int page_create(struct outlet_conn *c)
{
    size_t size = lane_page_size();
    int fd = memfd_create("flux-stream-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *p;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) == 0 && fallocate(fd, 0, 0, (off_t)size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
        (p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) != MAP_FAILED) {
        c->page = p;
        if ((c->lane = lane_tx_create(p)))
            return fd;
    }
    close(fd);
    return -1;
}

int outlet_enter(outlet_t *o, struct outlet_conn *c)
{
    if (c->want.bytes > o->size / QUEUE_PART)
        c->want.bytes = o->size / QUEUE_PART;
    if (o->depth > 0 && c->want.depth > o->depth && c->want.group[0] == '\0')
        c->want.depth = o->depth;
    return c->want.size > 0           ? outlet_team_enter(o, c)
           : c->want.group[0] != '\0' ? outlet_group_enter(o, c)
                                      : 0;
}

static void admit(outlet_t *o, struct outlet_conn *c)
{
    struct knock_welcome w = {.size = o->size};
    unsigned char buf[KNOCK_WELCOME_LEN];
    int page = page_create(c);
    int errnum;

    if (page < 0) {
        refuse(o, c, errno);
        return;
    }
    knock_welcome_encode(&w, buf);
    pthread_mutex_lock(&o->lock);
    if ((errnum = outlet_enter(o, c)) != 0) {
        pthread_mutex_unlock(&o->lock);
        close(page);
        refuse(o, c, errnum);
        return;
    }
    list_remove(&c->node);
    o->nknocking--;
    /* First, so that a welcomed reader finds all kept steps. */
    outlet_joined(o, c);
    if (fdpass_send(c->fd, buf, sizeof(buf), o->mem) != (ssize_t)sizeof(buf) ||
        fdpass_send(c->fd, "", 1, page) != 1) {
        outlet_gone(o, c);
        o->stats.refused++;
    }
    pthread_mutex_unlock(&o->lock);
    close(page);
}

/* A member of a group has released steps, or claims one: `buf` has its first message, of n bytes.
 * false: it has sent anything else, or left. */
static bool member_says(outlet_t *o, struct outlet_conn *c, const unsigned char *buf, ssize_t n)
{
    unsigned char more[KNOCK_CLAIM_LEN + 1];
    struct knock_claim claim;
    bool released = false;
    bool claims = false;
    bool ok = n > 0;

    for (int i = 0; ok && n > 0; i++) {
        if (n == KNOCK_CLAIM_LEN && c->want.follow) {
            knock_claim_decode(buf, &claim);
            claims = true;
        } else if (n == 1)
            released = true;
        else
            ok = false;
        if (!ok || i == LANE_SLOTS)
            break; /* epoll(7) reports the rest again */
        buf = more;
        n = recv(c->fd, more, sizeof(more), MSG_DONTWAIT);
        ok = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    }
    pthread_mutex_lock(&o->lock);
    ok = ok && c->group;
    if (ok && released)
        outlet_group_reap(o, c);
    if (ok && claims)
        outlet_follow_claim(o, c, &claim);
    pthread_mutex_unlock(&o->lock);
    return ok;
}

static void conn_ready(outlet_t *o, struct outlet_conn *c)
{
    unsigned char buf[KNOCK_MAX + 1];
    struct knock k;
    ssize_t n;

    if (c->far) {
        far_serve(o, c, true);
        return;
    }
    n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (c->lane && member_says(o, c, buf, n))
        return;
    if (c->lane) {
        epoll_ctl(o->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); /* the writer may still need `c` */
        gone(o, c);
    } else if (n <= 0)
        refuse(o, c, 0);
    else if (knock_decode(buf, (size_t)n, &k) < 0)
        refuse(o, c, EPROTO);
    else if (!knock_key_equal(k.key, o->key))
        refuse(o, c, EACCES);
    else if (o->nreaders >= OUTLET_READERS_MAX)
        refuse(o, c, EBUSY);
    else {
        c->want = k.want;
        admit(o, c);
    }
}

/* The network of a connection of another host. */
static uint64_t network_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {{0}};
    socklen_t len = sizeof(a);

    if (getpeername(fd, &a.any, &len) < 0)
        return 0;
    if (a.any.sa_family == AF_INET)
        return V4 | (uint64_t)a.v4.sin_addr.s_addr << 32;
    if (IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr))
        return V4 | (uint64_t)le_get32(a.v6.sin6_addr.s6_addr + 12) << 32;
    return le_get64(a.v6.sin6_addr.s6_addr);
}

/* The number of connections of other hosts that knock from this network. */
static unsigned knocking_from(const outlet_t *o, uint64_t from)
{
    unsigned n = 0;

    LIST_FOREACH(it, &o->knocking)
    {
        const struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        n += c->far && c->from == from;
    }
    return n;
}

/* Invariant 2, before another connection of this network is added. */
static void make_room(outlet_t *o, uint64_t from)
{
    struct outlet_conn *crowd = NULL;
    unsigned most = 0;

    LIST_FOREACH(it, &o->knocking) /* the oldest first */
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);
        unsigned n = c->far ? knocking_from(o, c->from) + (c->from == from) : 0;

        if (n > most) {
            most = n;
            crowd = c;
        }
    }
    INVARIANT(2, crowd != NULL);
    refuse_unheard(o, crowd, 0);
}

/* Create a connection, of this host or another one; NULL: it is refused. */
static struct outlet_conn *conn_create(outlet_t *o, int fd, bool far)
{
    unsigned *knocking = far ? &o->nknocking_far : &o->nknocking;
    uint64_t from = far ? network_of(fd) : 0;
    struct outlet_conn *c;

    if (far && *knocking >= KNOCKING_MAX)
        make_room(o, from);
    if (*knocking >= KNOCKING_MAX || (!far && fd_check_peer(fd, "a reader", NULL) < 0) ||
        !(c = calloc(1, sizeof(*c))))
        return NULL;
    list_init(&c->far_node);
    list_init(&c->member);
    list_init(&c->idle);
    list_init(&c->held);
    c->fd = far ? -1 : fd;
    c->from = from;
    if (far && !(c->far = outlet_far_create(fd))) {
        free(c);
        return NULL;
    }
    c->deadline = clock_now() + o->knock;
    list_append(&o->knocking, &c->node);
    INVARIANT(1, *knocking < KNOCKING_MAX);
    ++*knocking;
    return c;
}

/* A connection has come. */
static void conn_new(outlet_t *o, int fd, bool far, bool shared)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP};
    struct outlet_conn *c;

    if (!(c = conn_create(o, fd, far))) {
        close(fd);
        count_refused(o);
        return;
    }
    c->shared = shared;
    c->late = o->closing;
    ev.data.ptr = c;
    if (epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 || (c->far && outlet_far_greet(c) < 0))
        refuse(o, c, errno);
}

/* Accept a connection.  false: descriptors have run out. */
static bool door_ready(outlet_t *o, int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
    conn_new(o, fd, listen_fd == o->far.listen, false);
    return true;
}

/* The relay of this host passes a connection of another host; or has ended, and the writer
 * registers with the next one.  Readers whose connections it had come back, also after the end of
 * the stream. */
static void share_ready(outlet_t *o)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &o->far.share};
    char byte;
    int fd = -1;
    ssize_t n = fdpass_recv(o->far.share, &byte, 1, &fd, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(o->far.share); /* and epoll forgets it */
        o->far.share = share_register(&o->far.place, o->far.shared, NULL);
        if (o->far.share >= 0 && epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->far.share, &ev) < 0) {
            close(o->far.share);
            o->far.share = -1;
        }
    } else if (fd >= 0)
        conn_new(o, fd, true, true);
}

/* Close the connections whose time is over; returns the milliseconds until the next one's time is,
 * or -1. */
static int expire(outlet_t *o)
{
    struct list_node *n;

    while ((n = list_first(&o->knocking))) { /* the oldest */
        struct outlet_conn *c = list_entry(n, struct outlet_conn, node);
        double left = c->deadline - clock_now();

        if (left > 0.)
            return (int)(left * 1e3) + 1;
        refuse_unheard(o, c, ETIMEDOUT);
    }
    return -1;
}

/* Does the stream have readers of other hosts that may have to come back after its end? */
static bool far_open(const outlet_t *o)
{
    return !o->closing || *o->far.shared;
}

static void listen_for(outlet_t *o, bool local, bool far)
{
    struct epoll_event ev = {.events = local ? EPOLLIN : 0, .data.ptr = &o->listen_fd};

    epoll_ctl(o->epoll_fd, EPOLL_CTL_MOD, o->listen_fd, &ev);
    ev = (struct epoll_event){.events = far ? EPOLLIN : 0, .data.ptr = &o->far.listen};
    if (o->far.listen >= 0)
        epoll_ctl(o->epoll_fd, EPOLL_CTL_MOD, o->far.listen, &ev);
}

/* Serve readers of other hosts: all if the bell has rung, else those with unfinished work. Returns
 * whether there is unfinished work now. */
static bool fars_serve(outlet_t *o, bool rung)
{
    uint64_t rings;
    bool more = false;

    if (rung && read(o->bell_fd, &rings, sizeof(rings)) < 0)
        rung = false;
    LIST_FOREACH_SAFE(it, tmp, &o->fars)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, far_node);

        if (!outlet_far_lost(c) && (rung || outlet_far_more(c)))
            far_serve(o, c, outlet_far_more(c));
    }
    LIST_FOREACH(it, &o->fars)
    {
        more |= outlet_far_more(list_entry(it, struct outlet_conn, far_node));
    }
    return more;
}

/* Check for hosts that do not answer any more, four times within the timeout for that. */
static void fars_look(outlet_t *o, double *when)
{
    double now = clock_now();

    if (now < *when)
        return;
    *when = now + o->far.silence / 4;
    LIST_FOREACH_SAFE(it, tmp, &o->fars)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, far_node);

        if (!outlet_far_silent(o, c))
            continue;
        if (!outlet_far_lost(c))
            epoll_ctl(o->epoll_fd, EPOLL_CTL_DEL, outlet_far_fd(c), NULL);
        gone(o, c);
    }
}

/* After the stream was closed: have all readers finished? */
static bool all_done(const outlet_t *o)
{
    bool done = true;

    LIST_FOREACH(it, &o->fars)
    {
        done &= outlet_far_done(list_entry(it, struct outlet_conn, far_node));
    }
    return done || clock_now() > o->progress + o->far.linger;
}

/* Reduce `wait` milliseconds (-1: any) to the time of the next event of the other clocks. */
static int wait_ms(const outlet_t *o, int wait, bool paused, bool more, bool closing)
{
    int most = list_empty(&o->fars) ? -1 : (int)(o->far.silence * 250.) + 1;

    if (paused)
        return (int)(PAUSE * 1e3);
    if (more)
        return 0;
    if (closing && (most < 0 || most > (int)(o->far.linger * 250.)))
        most = (int)(o->far.linger * 250.) + 1;
    return most >= 0 && (wait < 0 || wait > most) ? most : wait;
}

/* Further results of the events of one pass. */
struct pass {
    bool knocked; /* there are new connections of this host, */
    bool far;     /* of others, */
    bool shared;  /* and of others through the relay */
    bool paused;  /* descriptors have run out */
    bool rung;
};

static void door_event(outlet_t *o, const struct epoll_event *ev, struct pass *pass)
{
    uint64_t n;

    if (ev->data.ptr == &o->stop_fd) {
        if (read(o->stop_fd, &n, sizeof(n)) > 0) {
            o->closing = pass->rung = true;
            o->progress = clock_now();
            listen_for(o, false, far_open(o));
        }
    } else if (ev->data.ptr == &o->bell_fd)
        pass->rung = true;
    else if (ev->data.ptr == &o->listen_fd)
        pass->knocked = true;
    else if (ev->data.ptr == &o->far.listen)
        pass->far = true;
    else if (ev->data.ptr == &o->far.share)
        pass->shared = true;
    else
        conn_ready(o, ev->data.ptr);
}

/* Accept one connection of each kind, which may close another connection (invariant 3). */
static void pass_accept(outlet_t *o, struct pass *pass)
{
    if (pass->knocked && !o->closing)
        pass->paused = !door_ready(o, o->listen_fd);
    if (pass->far && far_open(o))
        pass->paused |= !door_ready(o, o->far.listen);
    if (pass->shared)
        share_ready(o);
}

static void *door_main(void *arg)
{
    outlet_t *o = arg;
    struct pass pass = {0};
    bool more = false;
    double look = 0.;

    while (!o->closing || !all_done(o)) {
        struct epoll_event ev[BATCH];
        int wait = wait_ms(o, expire(o), pass.paused, more, o->closing);
        int n = epoll_wait(o->epoll_fd, ev, BATCH, wait);

        if (pass.paused)
            listen_for(o, !o->closing, far_open(o));
        pass = (struct pass){0};
        for (int i = 0; i < n; i++)
            door_event(o, &ev[i], &pass);
        pass_accept(o, &pass);
        if (pass.paused)
            listen_for(o, false, false);
        more = fars_serve(o, pass.rung);
        fars_look(o, &look);
    }
    return NULL;
}

static int name_bind(outlet_t *o, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    uint64_t r[2];
    size_t len;

    if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return errmsg_fail(err, errno, "a stream gets no random name: %s", strerror(errno));
    len = (size_t)snprintf(o->name, sizeof(o->name), "flux-stream-%016" PRIx64 "%016" PRIx64, r[0],
                           r[1]);
    memcpy(sun.sun_path + 1, o->name, len);
    if ((o->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0 ||
        bind(o->listen_fd, (struct sockaddr *)&sun,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) < 0 ||
        listen(o->listen_fd, 128) < 0)
        return errmsg_fail(err, errno, "a stream cannot listen for readers: %s", strerror(errno));
    return 0;
}

int outlet_door_open(outlet_t *o, errmsg_t *err)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &o->listen_fd};
    struct epoll_event stop = {.events = EPOLLIN, .data.ptr = &o->stop_fd};
    struct epoll_event bell = {.events = EPOLLIN, .data.ptr = &o->bell_fd};
    struct epoll_event far = {.events = EPOLLIN, .data.ptr = &o->far.listen};
    struct epoll_event share = {.events = EPOLLIN, .data.ptr = &o->far.share};
    sigset_t all;
    sigset_t old;
    int rc;

    if (name_bind(o, err) < 0)
        return -1;
    if ((o->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        (o->stop_fd = eventfd(0, EFD_CLOEXEC)) < 0 ||
        (o->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->listen_fd, &ev) < 0 ||
        epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->stop_fd, &stop) < 0 ||
        epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->bell_fd, &bell) < 0 ||
        (o->far.listen >= 0 && epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->far.listen, &far) < 0) ||
        (o->far.share >= 0 && epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->far.share, &share) < 0))
        return errmsg_fail(err, errno, "a stream cannot listen for readers: %s", strerror(errno));
    sigfillset(&all); /* signals are handled by the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&o->thread, NULL, door_main, o);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return errmsg_fail(err, rc, "a stream gets no thread: %s", strerror(rc));
    o->running = true;
    return 0;
}

static void fd_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

void outlet_door_close(outlet_t *o)
{
    uint64_t one = 1;

    if (o->running) {
        while (write(o->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ;
        pthread_join(o->thread, NULL);
    }
    LIST_FOREACH_SAFE(it, tmp, &o->knocking)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        list_remove(&c->node);
        outlet_conn_free(c);
    }
    fd_close(o->listen_fd);
    fd_close(o->far.listen);
    fd_close(o->far.share);
    fd_close(o->epoll_fd);
    fd_close(o->stop_fd);
    fd_close(o->bell_fd);
}
