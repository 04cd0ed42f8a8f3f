/* outlet_door.c - who is admitted to a writer's memory, and who has gone.
 *
 * A thread listens at an abstract name, which vanishes with the process.  A connection of another
 * user's process is closed at once; one that has not knocked correctly (knock.c) within KNOCK_TIME
 * seconds, or shows a wrong capability, too.  Then it gets the memory and the page of a lane of its
 * own, and is a reader until it ends.  A reader sends nothing more: if it does, it is dropped; but
 * a member of a group sends single bytes, each of which says that it has released a step.
 *
 * Invariants:
 *  1. At most KNOCKING_MAX connections knock, and READERS_MAX readers are there: beyond that, the
 *     next one is closed, and costs nothing but that.
 *  2. The thread holds the lock only while it changes what it shares with the writer, and never
 *     while it calls the kernel for longer than that takes without waiting.
 *
 * Failure: a reader whose messages cannot be sent (its socket is full, though these are the first)
 * is dropped.  If descriptors run out, accepting pauses for a moment.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

#define KNOCK_TIME 2.
#define KNOCKING_MAX 64
#define READERS_MAX 1024
#define PAUSE 0.1 /* seconds without accepting, when descriptors have run out */
#define BATCH 16
#define QUEUE_PART 8 /* of the memory: what the queue of one reader may have, but for 2 steps */

void outlet_conn_free(struct outlet_conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    lane_tx_destroy(c->lane);
    if (c->page)
        munmap(c->page, lane_page_size());
    free(c);
}

static void refuse(outlet_t *o, struct outlet_conn *c, int errnum)
{
    struct knock_welcome w = {.errnum = errnum};
    unsigned char buf[KNOCK_WELCOME_LEN];

    if (errnum != 0) {
        knock_welcome_encode(&w, buf);
        send(c->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    list_remove(&c->node);
    o->nknocking--;
    pthread_mutex_lock(&o->lock);
    outlet_group_leave(o, c);
    o->stats.refused++;
    pthread_mutex_unlock(&o->lock);
    outlet_conn_free(c);
}

/* The page of a lane: its descriptor, for the reader only, or -1. */
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

static void admit(outlet_t *o, struct outlet_conn *c)
{
    struct knock_welcome w = {.size = o->size};
    unsigned char buf[KNOCK_WELCOME_LEN];
    int page = page_create(c);

    if (page < 0) {
        refuse(o, c, errno);
        return;
    }
    knock_welcome_encode(&w, buf);
    pthread_mutex_lock(&o->lock);
    list_remove(&c->node);
    o->nknocking--;
    /* First, so that a reader that is welcomed finds all steps that were kept. */
    outlet_joined(o, c);
    if (fdpass_send(c->fd, buf, sizeof(buf), o->mem) != (ssize_t)sizeof(buf) ||
        fdpass_send(c->fd, "", 1, page) != 1) {
        outlet_gone(o, c);
        o->stats.refused++;
    }
    pthread_mutex_unlock(&o->lock);
    close(page);
}

/* A member of a group has released steps.  false: it says something else. */
static bool released(outlet_t *o, struct outlet_conn *c, ssize_t n)
{
    char byte[2];

    for (int i = 0; n == 1 && i < LANE_SLOTS; i++)
        n = recv(c->fd, byte, sizeof(byte), MSG_DONTWAIT);
    if (n != 1 && (n >= 0 || (errno != EAGAIN && errno != EINTR)))
        return false;
    pthread_mutex_lock(&o->lock);
    outlet_group_reap(o, c);
    pthread_mutex_unlock(&o->lock);
    return true;
}

/* Who wants to be in a group is in it, or is refused with this errno. */
static int enter(outlet_t *o, struct outlet_conn *c)
{
    int errnum;

    if (c->want.group[0] == '\0')
        return 0;
    pthread_mutex_lock(&o->lock);
    errnum = outlet_group_enter(o, c);
    pthread_mutex_unlock(&o->lock);
    return errnum;
}

static void conn_ready(outlet_t *o, struct outlet_conn *c)
{
    unsigned char buf[KNOCK_MAX + 1];
    struct knock k;
    int errnum;
    ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (c->lane && c->group && released(o, c, n))
        return;
    if (c->lane) {
        epoll_ctl(o->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); /* the writer may still need `c` */
        pthread_mutex_lock(&o->lock);
        outlet_gone(o, c);
        pthread_mutex_unlock(&o->lock);
    } else if (n <= 0)
        refuse(o, c, 0);
    else if (knock_decode(buf, (size_t)n, &k) < 0)
        refuse(o, c, EPROTO);
    else if (!knock_key_equal(k.key, o->key))
        refuse(o, c, EACCES);
    else if (o->nreaders >= READERS_MAX)
        refuse(o, c, EBUSY);
    else {
        c->want = k.want;
        if (c->want.bytes > o->size / QUEUE_PART)
            c->want.bytes = o->size / QUEUE_PART;
        if ((errnum = enter(o, c)) != 0)
            refuse(o, c, errnum);
        else
            admit(o, c);
    }
}

/* Accept one.  false: no more descriptors. */
static bool door_ready(outlet_t *o)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP};
    int fd = accept4(o->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct outlet_conn *c;

    if (fd < 0)
        return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
    if (o->nknocking >= KNOCKING_MAX || fd_check_peer(fd, "a reader", NULL) < 0 ||
        !(c = calloc(1, sizeof(*c)))) {
        close(fd);
        pthread_mutex_lock(&o->lock);
        o->stats.refused++;
        pthread_mutex_unlock(&o->lock);
        return true;
    }
    list_init(&c->member);
    list_init(&c->idle);
    list_init(&c->held);
    c->fd = fd;
    c->deadline = clock_now() + KNOCK_TIME;
    list_append(&o->knocking, &c->node);
    o->nknocking++;
    INVARIANT(1, o->nknocking <= KNOCKING_MAX);
    ev.data.ptr = c;
    if (epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        refuse(o, c, errno);
    return true;
}

/* Close those whose time is over; milliseconds until the next one's is, or -1. */
static int expire(outlet_t *o)
{
    struct list_node *n;

    while ((n = list_first(&o->knocking))) { /* the oldest */
        struct outlet_conn *c = list_entry(n, struct outlet_conn, node);
        double left = c->deadline - clock_now();

        if (left > 0.)
            return (int)(left * 1e3) + 1;
        refuse(o, c, ETIMEDOUT);
    }
    return -1;
}

static void listen_for(outlet_t *o, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.ptr = &o->listen_fd};

    epoll_ctl(o->epoll_fd, EPOLL_CTL_MOD, o->listen_fd, &ev);
}

static void *door_main(void *arg)
{
    outlet_t *o = arg;
    bool paused = false;

    for (;;) {
        struct epoll_event ev[BATCH];
        int wait = expire(o);
        int n = epoll_wait(o->epoll_fd, ev, BATCH, paused ? (int)(PAUSE * 1e3) : wait);

        if (paused)
            listen_for(o, true);
        paused = false;
        for (int i = 0; i < n; i++) {
            if (ev[i].data.ptr == &o->stop_fd)
                return NULL;
            if (ev[i].data.ptr != &o->listen_fd)
                conn_ready(o, ev[i].data.ptr);
            else if (!door_ready(o)) {
                listen_for(o, false);
                paused = true;
            }
        }
    }
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
    sigset_t all;
    sigset_t old;
    int rc;

    if (name_bind(o, err) < 0)
        return -1;
    if ((o->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        (o->stop_fd = eventfd(0, EFD_CLOEXEC)) < 0 ||
        epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->listen_fd, &ev) < 0 ||
        epoll_ctl(o->epoll_fd, EPOLL_CTL_ADD, o->stop_fd, &stop) < 0)
        return errmsg_fail(err, errno, "a stream cannot listen for readers: %s", strerror(errno));
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&o->thread, NULL, door_main, o);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return errmsg_fail(err, rc, "a stream gets no thread: %s", strerror(rc));
    o->running = true;
    return 0;
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
    if (o->listen_fd >= 0)
        close(o->listen_fd);
    if (o->epoll_fd >= 0)
        close(o->epoll_fd);
    if (o->stop_fd >= 0)
        close(o->stop_fd);
}
