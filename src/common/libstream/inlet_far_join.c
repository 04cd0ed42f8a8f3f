/* inlet_far_join.c - connecting to a writer on another host, and once more if a relay ends.
 *
 * An attempt at one address is inlet_far_dial.c.  Joining does not wait, so that a reader joins all
 * its writers at the same time: inlet_far_joining() goes on with the attempt, or makes the next
 * one, and inlet_far_joining_poll() says what for it has to be called again.
 *
 * A connection through relays (share.h) that is closed in both directions was cut: a relay has
 * ended, or cannot reach the other one.  The writer keeps the lane of this reader for a while
 * (outlet_far.c), and this end connects again, with a hello that says up to which number steps have
 * come.  Then it releases the steps up to there that it does not hold, since the writer may not
 * have heard of that, asks again for values that it waits for, and goes on.  So no step is lost,
 * and none comes twice.
 *
 *    state      meaning                       left when
 *    joining    there is a `search`           an attempt succeeds: joined; or all have failed
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
 * the next address is tried.  A connection that ends before the response was closed because the
 * writer had too many others, or has died: it is tried again, after the other addresses, until the
 * timeout of opening, or until nobody listens there.  Through relays, one that ends before the
 * greeting is tried RELAY_TRIES times more, and then without them.
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

#define AGAIN 0.01 /* pause before addresses are tried again */
#define RELAY_TRIES 3
#define ATTEMPT 1.
#define ALONE 2.
#define PAUSE_LEAST 0.01
#define PAUSE_MOST 0.5

/* --- joining --- */

/* The search for the writer among its addresses: those at relays, or the others. */
struct inlet_far_search {
    bool shared;
    double until; /* of these addresses, */
    double end;   /* and of all */
    bool dials;   /* there is an attempt, at address number `at` */
    unsigned at;
    const char *next;                  /* the addresses that follow in this round */
    unsigned number;                   /* of the first of these */
    unsigned rest;                     /* attempts that are left in this round */
    double pause;                      /* the next one is not made before this time */
    unsigned char wrong[FAR_ADDR_MAX]; /* by number: addresses that are not tried again */
    unsigned left;                     /* number of the others */
    unsigned tries;                    /* that were repeated through relays */
    enum inlet_far_reached best;       /* the attempt that has got furthest, */
    int errnum;                        /* and its error */
    errmsg_t why;
};

static void round_begin(inlet_far_t *f)
{
    f->search->next = f->address;
    f->search->number = 0;
    f->search->rest = f->search->left;
}

/* Search at relays, or at the other addresses. */
static void search_begin(inlet_far_t *f, bool shared, double until)
{
    struct inlet_far_search *s = f->search;
    char one[FAR_ADDR_MAX];
    unsigned i = 0;

    *s = (struct inlet_far_search){
        .shared = shared, .until = until, .end = s->end, .errnum = EHOSTUNREACH};
    errmsg_set(&s->why, "the writer of a stream has no address for this reader");
    for (const char *p = f->address; far_addr_next(&p, one); i++) {
        s->wrong[i] = str_starts(one, SHARE_PREFIX) != shared;
        s->left += !s->wrong[i];
    }
    round_begin(f);
}

/* An attempt has failed.  An address at which another process answers, or none, or where the
 * connection is refused, is not tried again. */
static void attempt_failed(inlet_far_t *f, const errmsg_t *why)
{
    struct inlet_far_search *s = f->search;
    bool again = errno == ECONNRESET && clock_now() < s->until &&
                 (f->dial.reached == WRITER || !s->shared || s->tries++ < RELAY_TRIES);

    if (f->dial.reached >= s->best) {
        s->best = f->dial.reached;
        s->errnum = errno;
        s->why = *why;
    }
    far_link_destroy(f->link);
    f->link = NULL;
    s->wrong[s->at] = !again;
    s->left -= !again;
}

static struct far_hello hello_of(const inlet_far_t *f)
{
    return (struct far_hello){.secure = f->opts.secure,
                              .want = f->want,
                              .reader = f->opts.reader,
                              .expires = f->opts.expires};
}

/* Begin an attempt at the next address of this round.  false: there is none. */
static bool attempt_next(inlet_far_t *f)
{
    struct inlet_far_search *s = f->search;
    struct far_hello h = hello_of(f);
    char one[FAR_ADDR_MAX];
    errmsg_t why;

    while (!s->dials && far_addr_next(&s->next, one)) {
        double now = clock_now();

        s->at = s->number++;
        if (s->wrong[s->at])
            continue;
        if (inlet_far_dial(f, one, &h, now + (s->until - now) / s->rest--, &why) == 0)
            s->dials = true;
        else
            attempt_failed(f, &why);
    }
    return s->dials;
}

/* The writer's response.  0: it admits this reader, and the link is encrypted if it has to be. */
static int admitted(inlet_far_t *f, const struct far_welcome *w, errmsg_t *err)
{
    const struct inlet_far_dial *d = &f->dial;
    struct far_keys keys;

    if (w->errnum == ESTALE)
        return errmsg_fail(err, ESTALE, "it has given this reader up");
    if (w->errnum != 0)
        return knock_refused(&f->want, w->errnum, err);
    if (f->opts.secure && !w->secure)
        return errmsg_fail(err, EPROTO, "the writer of a stream at %.100s does not encrypt",
                           f->address);
    far_keys_make(&keys, f->opts.secret, d->said, d->greeting);
    if (w->secure && far_link_secure(f->link, keys.to_writer, keys.to_reader) < 0)
        return errmsg_fail(err, errno, "a stream cannot be encrypted: %s", strerror(errno));
    return 0;
}

static int watch(inlet_far_t *f)
{
    struct epoll_event ev = {.events = EPOLLIN};

    return f->wait_fd < 0 ? 0 : epoll_ctl(f->wait_fd, EPOLL_CTL_ADD, far_link_fd(f->link), &ev);
}

/* The writer is found: have what this end needs, also to resume a connection through relays.  1; or
 * -1. */
static int joined(inlet_far_t *f, errmsg_t *err)
{
    struct epoll_event ev = {.events = EPOLLIN};

    f->shared = f->search->shared;
    free(f->search);
    f->search = NULL;
    if (f->shared &&
        ((f->wait_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
         (f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) < 0 ||
         epoll_ctl(f->wait_fd, EPOLL_CTL_ADD, f->timer_fd, &ev) < 0 || watch(f) < 0))
        return errmsg_fail(err, errno, "a reader of a stream cannot wait for it: %s",
                           strerror(errno));
    return inlet_far_memory_open(f, err) == 0 ? 1 : -1;
}

/* All addresses have failed: try the others, if these were those at relays, which are not there any
 * more.  0; or -1 with the error. */
static int search_over(inlet_far_t *f, errmsg_t *err)
{
    struct inlet_far_search *s = f->search;

    if (!s->shared || (s->errnum != ECONNRESET && s->errnum != ETIMEDOUT))
        return errmsg_fail(err, s->errnum, "%s", s->why.text);
    search_begin(f, false, s->end);
    return 0;
}

int inlet_far_joining(inlet_far_t *f, errmsg_t *err)
{
    struct inlet_far_search *s = f->search;
    struct far_welcome w;
    errmsg_t why;
    int rc;

    if (!s)
        return 1;
    for (;;) {
        if (s->dials) {
            if ((rc = inlet_far_dial_on(f, &w, &why)) == 0)
                return 0;
            if (rc > 0)
                return admitted(f, &w, err) == 0 ? joined(f, err) : -1;
            s->dials = false;
            attempt_failed(f, &why);
        } else if (clock_now() < s->pause)
            return 0;
        if (attempt_next(f))
            continue;
        if (s->left > 0) {
            s->pause = clock_now() + AGAIN;
            round_begin(f);
        } else if (search_over(f, err) < 0)
            return -1;
    }
}

double inlet_far_joining_poll(const inlet_far_t *f, struct pollfd *p)
{
    p->fd = -1;
    p->events = 0;
    return !f->search ? 0. : f->search->dials ? inlet_far_dial_poll(f, p) : f->search->pause;
}

inlet_far_t *inlet_far_begin(const struct inlet_far_opts *opts, const struct knock_want *want,
                             double timeout, errmsg_t *err)
{
    double now = clock_now();
    inlet_far_t *f;

    if (!*opts->address || strlen(opts->address) >= FAR_ADDR_MAX) {
        errmsg_fail(err, EINVAL, "the address of a stream's writer is malformed");
        return NULL;
    }
    if (!(f = calloc(1, sizeof(*f))))
        goto nomem;
    f->wait_fd = f->timer_fd = -1;
    list_init(&f->queue);
    f->asks = want->policy == KNOCK_LATEST || want->policy == KNOCK_DROP_OLDEST;
    f->want = *want;
    f->opts = *opts;
    memcpy(f->secret, opts->secret, sizeof(f->secret));
    f->opts.secret = f->secret;
    if (opts->share) {
        f->place = *opts->share;
        f->opts.share = &f->place;
    }
    if (!(f->opts.address = f->address = strdup(opts->address)) ||
        !(f->buf = malloc(INLET_FAR_BUFFER)) || !(f->search = calloc(1, sizeof(*f->search))))
        goto nomem;
    f->search->end = now + timeout;
    if (opts->share && strstr(f->address, SHARE_PREFIX))
        search_begin(f, true, now + timeout / 2.);
    else
        search_begin(f, false, f->search->end);
    return f;
nomem:
    inlet_far_destroy(f);
    errmsg_fail(err, ENOMEM, "out of memory");
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
    if (!f->shared || !f->link || f->left_it ||
        (errnum == 0 && !inlet_far_hung(far_link_fd(f->link))) ||
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

/* Request again what is wanted, and has not come. */
static void ask_again(inlet_far_t *f)
{
    unsigned n = 0;

    for (unsigned i = 0; i < f->npending; i++) {
        const struct inlet_far_pending *p = inlet_far_pending(f, i);

        if (p->to || p->box)
            *inlet_far_pending(f, n++) = *p;
    }
    f->npending = n;
    for (unsigned i = 0; i < f->npending && !f->lost; i++) {
        if (inlet_far_say_question(f, inlet_far_pending(f, i)) < 0)
            return;
    }
    inlet_far_push(f);
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
    ask_again(f);
}

/* Make an attempt, and wait for its end.  0, or -1. */
static int dial(inlet_far_t *f, const char *address, double until)
{
    struct far_hello h = hello_of(f);
    struct far_welcome w;
    int rc;

    h.resume = true;
    h.have = f->have;
    if (inlet_far_dial(f, address, &h, until, &f->why) < 0)
        return -1;
    while ((rc = inlet_far_dial_on(f, &w, &f->why)) == 0) {
        struct pollfd p;
        double left = inlet_far_dial_poll(f, &p) - clock_now();

        poll(&p, 1, clock_poll_ms(left));
    }
    return rc > 0 ? admitted(f, &w, &f->why) : -1;
}

/* Try the addresses at relays, or the others.  0, or -1. */
static int attempt(inlet_far_t *f, bool share, double until)
{
    char one[FAR_ADDR_MAX];

    for (const char *p = f->address; far_addr_next(&p, one);) {
        if (str_starts(one, SHARE_PREFIX) != share)
            continue;
        if (dial(f, one, until) == 0) {
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
