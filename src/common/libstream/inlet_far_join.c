/* inlet_far_join.c - connecting to a writer on another host, and once more if a relay ends.
 *
 * A connection through relays (share.h) that is closed in both directions was cut: a relay has
 * ended, or cannot reach the other one.  The writer keeps the lane of this reader for a while
 * (outlet_far.c), and this end connects again, with a hello that says up to which number steps have
 * come.  Then it releases the steps up to there that it does not hold, since the writer may not
 * have heard of that, asks again for values that it waits for, and goes on.  So no step is lost,
 * and none comes twice.
 *
 *    state      meaning                       left when
 *    joined     there is a link               it is cut: lost
 *    lost       attempts are made when they   one succeeds: joined; the writer refuses, or is not
 *               are due: each of at most      reached within half of the silence after which a host
 *               ATTEMPT seconds, pauses       is gone: gave_up
 *               that grow between them
 *    gave_up    see inlet_far_take()
 *
 * For the first ALONE seconds of being lost, only relays are tried, which may have to be started;
 * after that also the addresses of the writer without them.
 *
 * Failure: if another process answers at an address of the writer, or the connection is refused,
 * the next address is tried.  A connection that ends before the greeting, or is reset before the
 * response, was closed because the writer had too many others: it is tried again, after the other
 * addresses, until the timeout of opening.  Through relays that is tried RELAY_TRIES times more,
 * and then without them.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "libstream/far_addr.h"
#include "libstream/inlet_far_private.h"
#include "libutil/clock.h"
#include "libutil/strutil.h"

#define AGAIN_MS 10 /* pause before the next attempt to connect */
#define RELAY_TRIES 3
#define ATTEMPT 1.
#define ALONE 2.
#define PAUSE_LEAST 0.01
#define PAUSE_MOST 0.5

/* --- joining --- */

/* The handshake messages of both ends. */
struct words {
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];
    unsigned char welcome[FAR_WELCOME_LEN];
};

/* Has a connection through relays been closed in both directions, and not by the writer? */
static bool hung(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

/* Receive exactly `len` bytes.  0, or -1: ENODATA if the writer has closed the connection. */
static int receive(inlet_far_t *f, void *buf, size_t len, double until)
{
    struct pollfd p = {.fd = far_link_fd(f->link), .events = POLLIN};
    size_t got = 0;

    while (got < len) {
        ssize_t n = far_link_recv(f->link, (char *)buf + got, len - got);
        double left = until - clock_now();

        if (n > 0)
            got += (size_t)n;
        else if (n == 0 || errno != EAGAIN || left <= 0.) {
            errno = n == 0 ? ENODATA : errno == EAGAIN ? ETIMEDOUT : errno;
            return -1;
        } else
            poll(&p, 1, left < 1e6 ? (int)(left * 1e3) + 1 : 1000000000);
    }
    return 0;
}

/* The progress of an attempt; the error of the attempt with the most progress is reported. */
enum reached { NOBODY, SOMEBODY, WRITER };

/* Connect, and receive the greeting. */
static int greet(inlet_far_t *f, const struct inlet_far_opts *opts, const char *address,
                 double until, unsigned char *greeting, enum reached *how, errmsg_t *err)
{
    double left = until - clock_now();
    int fd = str_starts(address, SHARE_PREFIX)
                 ? share_connect(opts->share, address, &f->relay, err)
                 : far_addr_connect(address, left > 0.001 ? left : 0.001, err);

    if (fd < 0)
        return -1;
    *how = SOMEBODY;
    far_addr_setup(fd, opts->silence > 0. ? opts->silence : INLET_SILENCE, true);
    if (!(f->link = far_link_create(fd))) {
        close(fd);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    if (receive(f, greeting, FAR_GREETING_LEN, until) == 0 && far_greeting_check(greeting) == 0)
        return 0;
    if (errno == ENODATA)
        errno = ECONNRESET;
    return errmsg_fail(err, errno, "no writer of a stream answers at %.100s: %s", address,
                       strerror(errno));
}

/* Connect, send the hello, and receive the response of the right writer.  -1: ECONNRESET if the
 * writer has not read the hello. */
static int knock(inlet_far_t *f, const struct inlet_far_opts *opts, const char *address,
                 const struct far_hello *h, double until, struct words *say, struct far_welcome *w,
                 enum reached *how, errmsg_t *err)
{
    struct iovec iov = {say->hello, sizeof(say->hello)};

    *how = NOBODY;
    if (greet(f, opts, address, until, say->greeting, how, err) < 0)
        return -1;
    *how = WRITER;
    far_hello_make(say->hello, h, opts->secret, say->greeting);
    if (far_link_send(f->link, &iov, 1) != (ssize_t)sizeof(say->hello))
        return errmsg_fail(err, errno == EPIPE ? ECONNRESET : errno,
                           "cannot write to the writer of a stream at %.100s: %s", address,
                           strerror(errno));
    if (receive(f, say->welcome, sizeof(say->welcome), until) < 0) {
        if (errno == ENODATA && str_starts(address, SHARE_PREFIX) && hung(far_link_fd(f->link)))
            return errmsg_fail(err, ECONNRESET, "a relay on the way to %.100s has ended", address);
        if (errno == ENODATA)
            return errmsg_fail(err, EACCES,
                               "the writer at %.100s refuses the capability: the stream may have "
                               "begun anew, or the clocks of the hosts differ",
                               address);
        return errmsg_fail(err, errno, "the writer of a stream at %.100s does not answer: %s",
                           address, strerror(errno));
    }
    if (far_welcome_read(say->welcome, w, opts->secret, say->hello) < 0)
        return errmsg_fail(err, EPROTO, "the writer of a stream at %.100s is not the right one",
                           address);
    return 0;
}

/* Let only the addresses at relays be tried, or only the others.  Returns their number, and sets
 * `wrong` of those that are not. */
static unsigned choose(const char *address, bool share, unsigned char *wrong)
{
    char one[FAR_ADDR_MAX];
    unsigned n = 0;
    unsigned i = 0;

    for (const char *p = address; far_addr_next(&p, one); i++) {
        wrong[i] = str_starts(one, SHARE_PREFIX) != share;
        n += !wrong[i];
    }
    return n;
}

/* Find the writer at one of its addresses, at relays or not.  An address at which another process
 * answers, or none, or where the connection is refused, is not tried again. */
static int find_way(inlet_far_t *f, const struct inlet_far_opts *opts, bool share,
                    const struct far_hello *h, double until, struct words *say,
                    struct far_welcome *w, errmsg_t *err)
{
    char one[FAR_ADDR_MAX];
    unsigned char wrong[FAR_ADDR_MAX] = {0}; /* by number of the address */
    enum reached best = NOBODY;
    unsigned left = choose(opts->address, share, wrong);
    unsigned tries = 0; /* through relays */
    int errnum = EHOSTUNREACH;

    errmsg_set(err, "the writer of a stream has no address for this reader");
    while (left > 0) {
        unsigned rest = left; /* number of addresses to try in this round */
        unsigned i = 0;

        for (const char *p = opts->address; far_addr_next(&p, one); i++) {
            double now = clock_now();
            enum reached how;
            errmsg_t e;
            bool later;

            if (wrong[i])
                continue;
            if (knock(f, opts, one, h, now + (until - now) / rest--, say, w, &how, &e) == 0)
                return 0;
            later = errno == ECONNRESET && clock_now() < until &&
                    (how == WRITER || !share || tries++ < RELAY_TRIES);
            if (how >= best) {
                best = how;
                errnum = errno;
                errmsg_set(err, "%s", e.text);
            }
            far_link_destroy(f->link);
            f->link = NULL;
            wrong[i] = !later;
            left -= !later;
        }
        if (left > 0)
            poll(NULL, 0, AGAIN_MS);
    }
    errno = errnum;
    return -1;
}

/* Find the writer: through relays, if connections are to be shared and the writer is at one; and if
 * that relay is not there any more, without. */
static int find(inlet_far_t *f, const struct inlet_far_opts *opts, const struct far_hello *h,
                double until, struct words *say, struct far_welcome *w, errmsg_t *err)
{
    double now = clock_now();

    if (!*opts->address || strlen(opts->address) >= FAR_ADDR_MAX)
        return errmsg_fail(err, EINVAL, "the address of a stream's writer is malformed");
    if (opts->share && strstr(opts->address, SHARE_PREFIX)) {
        if (find_way(f, opts, true, h, now + (until - now) / 2., say, w, err) == 0) {
            f->shared = true;
            return 0;
        }
        if (errno != ECONNRESET && errno != ETIMEDOUT)
            return -1;
    }
    return find_way(f, opts, false, h, until, say, w, err);
}

/* The writer's response.  0: it admits this reader, and the link is encrypted if it has to be. */
static int admitted(inlet_far_t *f, const struct inlet_far_opts *opts,
                    const struct knock_want *want, const struct words *say,
                    const struct far_welcome *w, errmsg_t *err)
{
    struct far_keys keys;

    if (w->errnum == EEXIST)
        return errmsg_fail(err, EEXIST,
                           "group '%s' of the stream has another key than '%s': all members have "
                           "the same",
                           want->group, want->key);
    if (w->errnum == ESTALE)
        return errmsg_fail(err, ESTALE, "it has given this reader up");
    if (w->errnum != 0)
        return errmsg_fail(err, w->errnum, "the writer does not admit this reader: %s",
                           strerror(w->errnum));
    if (opts->secure && !w->secure)
        return errmsg_fail(err, EPROTO, "the writer of a stream at %.100s does not encrypt",
                           opts->address);
    far_keys_make(&keys, opts->secret, say->hello, say->greeting);
    if (w->secure && far_link_secure(f->link, keys.to_writer, keys.to_reader) < 0)
        return errmsg_fail(err, errno, "a stream cannot be encrypted: %s", strerror(errno));
    return 0;
}

static int watch(inlet_far_t *f)
{
    struct epoll_event ev = {.events = EPOLLIN};

    return f->wait_fd < 0 ? 0 : epoll_ctl(f->wait_fd, EPOLL_CTL_ADD, far_link_fd(f->link), &ev);
}

/* Keep what is needed to resume the connection. */
static int prepare(inlet_far_t *f, const struct inlet_far_opts *opts, const struct knock_want *want,
                   errmsg_t *err)
{
    struct epoll_event ev = {.events = EPOLLIN};

    if (!f->shared)
        return 0;
    f->opts = *opts;
    f->want = *want;
    f->place = *opts->share;
    f->opts.share = &f->place;
    memcpy(f->secret, opts->secret, sizeof(f->secret));
    f->opts.secret = f->secret;
    f->opts.address = f->address = strdup(opts->address);
    if (f->address && (f->wait_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0 &&
        (f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) >= 0 &&
        epoll_ctl(f->wait_fd, EPOLL_CTL_ADD, f->timer_fd, &ev) == 0 && watch(f) == 0)
        return 0;
    return errmsg_fail(err, f->address ? errno : ENOMEM,
                       "a reader of a stream cannot wait for it: %s",
                       strerror(f->address ? errno : ENOMEM));
}

static int join(inlet_far_t *f, const struct inlet_far_opts *opts, const struct knock_want *want,
                double until, errmsg_t *err)
{
    struct far_hello h = {
        .secure = opts->secure, .want = *want, .reader = opts->reader, .expires = opts->expires};
    struct far_welcome w;
    struct words say;

    if (find(f, opts, &h, until, &say, &w, err) < 0 || admitted(f, opts, want, &say, &w, err) < 0)
        return -1;
    return prepare(f, opts, want, err);
}

inlet_far_t *inlet_far_connect(const struct inlet_far_opts *opts, const struct knock_want *want,
                               double timeout, errmsg_t *err)
{
    double until = clock_now() + timeout;
    inlet_far_t *f = calloc(1, sizeof(*f));

    if (!f || !(f->buf = malloc(INLET_FAR_BUFFER))) {
        free(f);
        errmsg_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    f->wait_fd = f->timer_fd = -1;
    list_init(&f->queue);
    f->asks = want->policy == KNOCK_LATEST || want->policy == KNOCK_DROP_OLDEST;
    if (join(f, opts, want, until, err) == 0 && inlet_far_memory_open(f, err) == 0)
        return f;
    inlet_far_destroy(f);
    return NULL;
}

/* --- resuming --- */

/* Let wait_fd report after `seconds`; 0: never. */
static void timer_set(inlet_far_t *f, double seconds)
{
    double whole;
    double rest = modf(seconds, &whole);
    struct itimerspec t = {.it_value = {(time_t)whole, (long)(rest * 1e9)}};

    timerfd_settime(f->timer_fd, 0, &t, NULL);
}

/* What was on its way is gone. */
static void forget(inlet_far_t *f)
{
    struct inlet_far_step *st = f->arriving;

    if (st) {
        inlet_far_step_free(f, st);
        f->arriving = NULL;
    }
    if (f->msg.type == FAR_PINNED && f->to) {
        inlet_far_pin_unref(f, f->pin);
        f->pin = NULL;
    }
    f->last = f->have;
    f->msg.type = 0;
    f->to = NULL;
    f->left = 0;
    f->at = f->len = 0;
    f->asked = f->waits = false;
}

bool inlet_far_cut(inlet_far_t *f, int errnum)
{
    if (!f->shared || !f->link || f->left_it || (errnum == 0 && !hung(far_link_fd(f->link))) ||
        (errnum != 0 && errnum != ECONNRESET && errnum != EPIPE))
        return false;
    forget(f);
    far_link_destroy(f->link);
    f->link = NULL;
    f->lost = true;
    f->since = f->due = clock_now();
    f->pause = PAUSE_LEAST;
    timer_set(f, 1e-9);
    return true;
}

/* The connection is there again: say what the writer may not have heard. */
static void go_on(inlet_far_t *f)
{
    uint64_t n = f->have > LANE_SLOTS ? f->have - LANE_SLOTS + 1 : 1;
    struct far_msg m = {.type = FAR_RELEASE};

    f->lost = false;
    timer_set(f, 0.);
    if (watch(f) < 0) {
        inlet_far_broken(f, errno);
        return;
    }
    for (; n <= f->have; n++) {
        m.number = n;
        if (!inlet_far_step_find(f, n) && (inlet_far_say(f, &m, NULL) < 0 || f->lost))
            return;
    }
    m = (struct far_msg){.type = FAR_CLAIM, .step = f->claim.step, .len = f->claim.floor};
    if (f->claims && (inlet_far_say(f, &m, NULL) < 0 || f->lost))
        return;
    if (f->pending.open && f->pending.to)
        inlet_far_say(f, &f->pending.msg, f->pending.payload);
    else
        f->pending.open = false;
}

/* Try the addresses at relays, or the others.  0, or -1. */
static int attempt(inlet_far_t *f, bool share, double until)
{
    struct far_hello h = {.secure = f->opts.secure,
                          .want = f->want,
                          .reader = f->opts.reader,
                          .expires = f->opts.expires,
                          .resume = true,
                          .have = f->have};
    char one[FAR_ADDR_MAX];
    struct far_welcome w;
    struct words say;
    enum reached how;

    for (const char *p = f->address; far_addr_next(&p, one);) {
        if (str_starts(one, SHARE_PREFIX) != share)
            continue;
        if (knock(f, &f->opts, one, &h, until, &say, &w, &how, &f->why) == 0 &&
            admitted(f, &f->opts, &f->want, &say, &w, &f->why) == 0) {
            f->shared = share;
            return 0;
        }
        far_link_destroy(f->link);
        f->link = NULL;
        if (errno == ESTALE || errno == EACCES)
            return -1;
    }
    return -1;
}

int inlet_far_resume(inlet_far_t *f)
{
    double now = clock_now();
    double silence = f->opts.silence > 0. ? f->opts.silence : INLET_SILENCE;

    if (now < f->due)
        return 0;
    if (attempt(f, true, now + ATTEMPT) == 0 ||
        (errno != ESTALE && errno != EACCES && now > f->since + ALONE &&
         attempt(f, false, clock_now() + ATTEMPT) == 0)) {
        go_on(f);
        return f->lost ? 0 : f->errnum == 0 ? 1 : -1;
    }
    if (errno == ESTALE || errno == EACCES || now > f->since + silence / 2) {
        f->gave_up = true;
        return inlet_far_broken(f, ECONNRESET);
    }
    f->due = clock_now() + f->pause;
    timer_set(f, f->pause);
    f->pause = f->pause * 2 < PAUSE_MOST ? f->pause * 2 : PAUSE_MOST;
    return 0;
}
