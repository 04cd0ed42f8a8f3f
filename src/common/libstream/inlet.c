/* inlet.c - the reader's end of a stream.
 *
 * inlet_far.c has the connection to a writer on another host.  On one host, a reader joins by one
 * exchange over a socket (knock.h), in which the writer passes two descriptors: the memory that
 * holds steps, which is mapped for reading, and the page of this reader's lane.  After that, the
 * socket carries only single bytes, which are wake-ups for a reader that sleeps and, in a group,
 * reports to the writer that a step was released; and claims (knock.h).  End of file reports at
 * once that the writer is gone.
 *
 * Invariants:
 *  1. Both descriptors are sealed against shrinking, so an access within their size cannot fail,
 *     whatever the writer does later.
 *  2. A step, and its pin block, lie within the mapping.
 *
 * Failure: see inlet_take().  Steps that were offered completely before the writer ended can still
 * be taken; a step that it was writing is never visible.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "libstream/copy.h"
#include "libstream/inlet.h"
#include "libstream/inlet_far.h"
#include "libstream/lane.h"
#include "libutil/clock.h"
#include "libutil/fdpass.h"
#include "libutil/fdutil.h"
#include "libutil/invariant.h"

struct inlet {
    inlet_far_t *far; /* if the writer is on another host: all members below are unused; else
                       * NULL */
    int fd;
    const unsigned char *base; /* the writer's memory; NULL: not mapped */
    uint64_t size;
    void *page;
    lane_rx_t *lane;
    bool hung;              /* the connection has ended */
    struct knock_want want; /* a member of a group notifies the writer of each release */
    double until;           /* that is the end of joining */
};

void inlet_destroy(inlet_t *i)
{
    int saved = errno;

    if (!i)
        return;
    inlet_far_destroy(i->far);
    if (i->fd >= 0)
        close(i->fd);
    if (i->base)
        munmap((void *)i->base, i->size);
    if (i->page)
        munmap(i->page, lane_page_size());
    lane_rx_destroy(i->lane);
    free(i);
    errno = saved;
}

/* Map a descriptor, and close it.  Fails if it is not of this size or can shrink. */
static void *map(int fd, uint64_t size, int prot, errmsg_t *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *p = MAP_FAILED;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || size == 0 ||
        st.st_size < 0 || (uint64_t)st.st_size != size)
        errmsg_fail(err, EPROTO, "the writer of a stream offers memory that it could take away");
    else if ((p = mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, fd, 0)) == MAP_FAILED)
        errmsg_fail(err, errno, "cannot map %llu bytes of a stream's memory: %s",
                    (unsigned long long)size, strerror(errno));
    else
        madvise(p, size, MADV_DONTDUMP); /* a core file would visit every page */
    {
        int saved = errno;

        close(fd);
        errno = saved;
    }
    return p == MAP_FAILED ? NULL : p;
}

static int failed(errmsg_t *err, const char *what)
{
    int errnum = errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT
                 : errno == EPIPE                        ? ECONNRESET /* it has ended meanwhile */
                                                         : errno;

    return errmsg_fail(err, errnum, "cannot %s the writer of a stream: %s", what, strerror(errnum));
}

/* A process that is stopped and continued is interrupted in these, without a signal that it
 * handles. */
static int reach_again(int fd, const struct sockaddr_un *sun, socklen_t len)
{
    int rc;

    do
        rc = connect(fd, (const struct sockaddr *)sun, len);
    while (rc < 0 && errno == EINTR);
    return rc;
}

static ssize_t say(const inlet_t *i, const void *buf, size_t len)
{
    ssize_t n;

    do
        n = send(i->fd, buf, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

static int reach(inlet_t *i, const char *name, double timeout, errmsg_t *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    struct timeval tv = {.tv_sec = (time_t)timeout};

    if (len == 0 || len > sizeof(sun.sun_path) - 1)
        return errmsg_fail(err, EINVAL, "the address of a stream's writer is malformed");
    memcpy(sun.sun_path + 1, name, len);
    tv.tv_usec = (suseconds_t)((timeout - (double)tv.tv_sec) * 1e6);
    if (tv.tv_sec == 0 && tv.tv_usec == 0)
        tv.tv_usec = 1;
    if ((i->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) < 0)
        return failed(err, "open a socket to");
    if (setsockopt(i->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0 ||
        reach_again(i->fd, &sun, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) < 0)
        return failed(err, "connect to");
    return fd_check_peer(i->fd, "the writer of the stream", err);
}

static int knock(inlet_t *i, const unsigned char *key, const struct knock_want *want, errmsg_t *err)
{
    struct knock k = {.want = *want};
    unsigned char buf[KNOCK_MAX];
    ssize_t len;

    memcpy(k.key, key, KNOCK_KEY_LEN);
    len = (ssize_t)knock_encode(&k, buf);
    return say(i, buf, (size_t)len) == len ? 0 : failed(err, "write to");
}

/* Receive a part of the answer, with a descriptor; it is the number of bytes.  0: it has not come;
 * -1. */
static ssize_t hear(inlet_t *i, void *buf, size_t size, int *pass, errmsg_t *err)
{
    ssize_t n = fdpass_recv(i->fd, buf, size, pass, MSG_DONTWAIT);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR) && clock_now() < i->until))
        return n > 0 ? n : 0;
    if (n == 0)
        errno = ECONNRESET;
    return failed(err, "hear from");
}

/* The first part of the answer has the memory.  1, 0 or -1. */
static int memory_hear(inlet_t *i, errmsg_t *err)
{
    unsigned char buf[KNOCK_MAX];
    struct knock_welcome w;
    int pass;
    ssize_t n = hear(i, buf, sizeof(buf), &pass, err);

    if (n <= 0)
        return (int)n;
    if (knock_welcome_decode(buf, (size_t)n, &w) < 0 || (w.errnum == 0) != (pass >= 0)) {
        if (pass >= 0)
            close(pass);
        return errmsg_fail(err, EPROTO, "the writer of a stream says something malformed");
    }
    if (w.errnum == EACCES)
        return errmsg_fail(err, EACCES,
                           "the writer refuses the capability: the stream may have "
                           "begun anew since its name was looked up");
    if (w.errnum != 0)
        return knock_refused(&i->want, w.errnum, err);
    i->size = w.size;
    return (i->base = map(pass, i->size, PROT_READ, err)) ? 1 : -1;
}

/* The second one has the page of the lane. */
static int page_hear(inlet_t *i, errmsg_t *err)
{
    unsigned char byte;
    int pass;
    ssize_t n = hear(i, &byte, 1, &pass, err);

    if (n <= 0)
        return (int)n;
    if (pass < 0) {
        errno = ECONNRESET;
        return failed(err, "hear from");
    }
    if (!(i->page = map(pass, lane_page_size(), PROT_READ | PROT_WRITE, err)))
        return -1;
    if (!(i->lane = lane_rx_create(i->page)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    return 1;
}

static inlet_t *inlet_create(errmsg_t *err)
{
    inlet_t *i = calloc(1, sizeof(*i));

    if (i)
        i->fd = -1;
    else
        errmsg_fail(err, ENOMEM, "out of memory");
    return i;
}

inlet_t *inlet_begin_far(const struct inlet_far_opts *opts, const struct knock_want *want,
                         double timeout, errmsg_t *err)
{
    inlet_t *i = inlet_create(err);

    if (i && !(i->far = inlet_far_begin(opts, want, timeout, err))) {
        inlet_destroy(i);
        return NULL;
    }
    return i;
}

inlet_t *inlet_begin(const char *name, const unsigned char *key, const struct knock_want *want,
                     double timeout, errmsg_t *err)
{
    inlet_t *i = inlet_create(err);

    if (!i)
        return NULL;
    i->until = clock_now() + timeout;
    i->want = *want;
    if (reach(i, name, timeout, err) < 0 || knock(i, key, want, err) < 0) {
        inlet_destroy(i);
        return NULL;
    }
    return i;
}

int inlet_joining(inlet_t *i, errmsg_t *err)
{
    int rc = 1;

    if (i->far)
        return inlet_far_joining(i->far, err);
    if (!i->base)
        rc = memory_hear(i, err);
    if (rc > 0 && !i->lane)
        rc = page_hear(i, err);
    return rc;
}

double inlet_joining_poll(const inlet_t *i, struct pollfd *p)
{
    *p = (struct pollfd){.fd = i->fd, .events = POLLIN};
    return i->far ? inlet_far_joining_poll(i->far, p) : i->until;
}

/* Wait until it is connected: it, or NULL with an error message. */
static inlet_t *joined(inlet_t *i, errmsg_t *err)
{
    int rc;

    while (i && (rc = inlet_joining(i, err)) <= 0) {
        struct pollfd p;
        double left = inlet_joining_poll(i, &p) - clock_now();

        if (rc == 0)
            poll(&p, 1, clock_poll_ms(left));
        else {
            inlet_destroy(i);
            i = NULL;
        }
    }
    return i;
}

inlet_t *inlet_connect(const char *name, const unsigned char *key, const struct knock_want *want,
                       double timeout, errmsg_t *err)
{
    return joined(inlet_begin(name, key, want, timeout, err), err);
}

inlet_t *inlet_connect_far(const struct inlet_far_opts *opts, const struct knock_want *want,
                           double timeout, errmsg_t *err)
{
    return joined(inlet_begin_far(opts, want, timeout, err), err);
}

void inlet_leave(inlet_t *i)
{
    if (i->far)
        inlet_far_leave(i->far);
    else
        shutdown(i->fd, SHUT_RDWR);
}

void inlet_hollow(inlet_t *i)
{
    inlet_leave(i);
    if (i->far)
        inlet_far_hollow(i->far);
    else
        (void)mmap((void *)i->base, i->size, PROT_READ,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void inlet_get_stats(const inlet_t *i, struct inlet_stats *st)
{
    st->far = i->far != NULL;
    st->lost = i->far && inlet_far_lost(i->far);
    st->received = i->far ? inlet_far_received(i->far) : 0;
}

int inlet_fd(const inlet_t *i)
{
    return i->far ? inlet_far_fd(i->far) : i->fd;
}

static int ended(enum lane_end end, errmsg_t *err)
{
    if (end == LANE_CLOSED)
        return errmsg_fail(err, ENODATA, "the writer has closed the stream");
    if (end == LANE_FAILED)
        return errmsg_fail(err, ECONNRESET, "the writer of the stream has failed");
    if (end == LANE_EVICTED)
        return errmsg_fail(err, ESTALE,
                           "the writer has evicted this reader, which did not keep "
                           "up: release steps earlier, or choose another policy");
    return errmsg_fail(err, ECONNRESET, "the writer of the stream has died");
}

static bool inside(const inlet_t *i, uint64_t off, uint64_t len)
{
    return off <= i->size && len <= i->size - off;
}

int inlet_take(inlet_t *i, struct inlet_step *s, errmsg_t *err)
{
    struct lane_item item;
    int rc;

    if (i->far)
        return inlet_far_take(i->far, s, err);
    rc = lane_rx_take(i->lane, &item);
    if (rc == 0) {
        bool hung = i->hung;
        enum lane_end end = lane_rx_end(i->lane);

        /* Steps that were offered before the end are visible by now. */
        if (!hung && end == LANE_OPEN)
            return 0;
        if ((rc = lane_rx_take(i->lane, &item)) == 0)
            return ended(end, err);
    }
    if (rc < 0 || !inside(i, item.off, item.len) || !inside(i, item.pin_off, item.pin_len))
        return errmsg_fail(err, EPROTO, "the writer has destroyed the description of a step");
    *s = (struct inlet_step){item.number,  item.step, i->base + item.off,
                             item.len,     item.pin,  i->base + item.pin_off,
                             item.pin_len, item.parts};
    INVARIANT(2, (const unsigned char *)s->data + s->len <= i->base + i->size);
    return 1;
}

bool inlet_sleep(inlet_t *i)
{
    return i->far ? inlet_far_sleep(i->far) : !i->hung && lane_rx_sleep(i->lane);
}

void inlet_wake(inlet_t *i)
{
    char bells[64];
    ssize_t n;

    if (i->far) {
        inlet_far_wake(i->far);
        return;
    }
    while ((n = recv(i->fd, bells, sizeof(bells), MSG_DONTWAIT)) > 0)
        ;
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        i->hung = true;
}

int inlet_release(inlet_t *i, const struct inlet_step *s)
{
    int rc;

    if (i->far)
        return inlet_far_release(i->far, s);
    rc = lane_rx_release(i->lane, s->number);
    if (rc == 0 && i->want.group[0] != '\0')
        send(i->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* if the socket is full, other bytes will
                                                          * wake the writer */
    return rc;
}

/* --- groups over several writers --- */

uint64_t inlet_floor(const inlet_t *i)
{
    return i->far ? inlet_far_floor(i->far) : lane_rx_floor(i->lane);
}

bool inlet_missing(const inlet_t *i, uint64_t step)
{
    return i->far ? inlet_far_missing(i->far, step) : lane_rx_missing(i->lane) == step + 1;
}

void inlet_claim(inlet_t *i, const struct knock_claim *c)
{
    unsigned char buf[KNOCK_CLAIM_LEN];

    if (i->far) {
        inlet_far_claim(i->far, c);
        return;
    }
    knock_claim_encode(c, buf);
    while (send(i->fd, buf, sizeof(buf), MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

/* --- values between hosts --- */

int inlet_fetch(inlet_t *i, const struct inlet_step *s, const struct inlet_value *v, errmsg_t *err)
{
    return i && i->far ? inlet_far_fetch(i->far, s, v, err) : 0;
}

int inlet_fetch_all(inlet_t *i, const struct inlet_step *s, errmsg_t *err)
{
    return i && i->far ? inlet_far_fetch_all(i->far, s, err) : 0;
}

bool inlet_here(const inlet_t *i)
{
    return !i || !i->far;
}

int inlet_ask(inlet_t *i, const struct inlet_step *s, const struct inlet_value *v,
              const struct stream_box *box, const struct stream_part *part, void *buf,
              errmsg_t *err)
{
    if (i && i->far)
        return inlet_far_ask(i->far, s, v, box, part, buf, err);
    stream_copy(part, (const unsigned char *)s->data + v->off, buf);
    return 0;
}

int inlet_ask_value(inlet_t *i, const struct inlet_step *s, const struct inlet_value *v,
                    errmsg_t *err)
{
    return i && i->far ? inlet_far_ask_value(i->far, s, v, err) : 0;
}

void inlet_push(inlet_t *i)
{
    if (i && i->far)
        inlet_far_push(i->far);
}

int inlet_answer(inlet_t *i, errmsg_t *err)
{
    return i && i->far ? inlet_far_answer(i->far, err) : 0;
}

void inlet_forget(inlet_t *i)
{
    if (i && i->far)
        inlet_far_forget(i->far);
}
