/* inlet_far_io.c - the reader's input and output, when the writer is on another host.
 *
 * Input is read into a buffer, except the rest of a large payload, which is read directly to its
 * destination: the first bytes of a step into its place, values into the memory of the request.  A
 * message may arrive in any number of pieces: `msg` is the incomplete message, `to` the destination
 * of its missing bytes, and `left` their number.
 *
 * Invariants:
 *  1. Nothing is written but the place of the step, or of what is pinned, that arrives, the memory
 *     of the oldest request, and the buffer.
 *  2. Of the buffer, the bytes at..len were not handled; it is filled again when they were.
 *
 * Failure: an invalid message, and the end of the connection, are recorded in `errnum`; from then
 * on nothing is read or sent.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "libstream/inlet_far_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"

/* --- input --- */

int inlet_far_broken(inlet_far_t *f, int errnum)
{
    if (inlet_far_cut(f, errnum))
        return 0;
    f->errnum = errnum > 0 ? errnum : ECONNRESET;
    f->lost = false;
    if (f->link)
        shutdown(far_link_fd(f->link), SHUT_RDWR);
    errno = f->errnum;
    return -1;
}

/* A step is announced: allocate its place. */
static int step_begin(inlet_far_t *f)
{
    const struct far_msg *m = &f->msg;
    bool again = m->type == FAR_AGAIN;
    struct inlet_far_step *st;

    if (m->number <= f->last || f->steps[m->number % LANE_SLOTS] ||
        (again && (!f->first || f->first_len > m->len)))
        return inlet_far_broken(f, EPROTO);
    if (!(st = calloc(1, sizeof(*st))))
        return inlet_far_broken(f, ENOMEM);
    if (!(st->e = extent_take(f->pool, m->len > 0 ? m->len : 1))) {
        free(st);
        return inlet_far_broken(f, errno);
    }
    list_init(&st->node);
    st->number = f->last = m->number;
    st->step = m->step;
    st->len = m->len;
    st->parts = f->parts;
    f->parts = 0;
    st->first = again ? f->first_len : m->payload;
    if (again)
        memcpy(f->base + st->e->off, f->first, f->first_len);
    INVARIANT(1, st->first <= st->len && st->len <= st->e->room);
    if ((st->pin = f->pin))
        f->pin->refs++;
    f->live.steps++;
    f->live.bytes += st->len;
    f->arriving = st;
    f->to = f->base + st->e->off;
    f->left = m->payload;
    return 0;
}

/* The first bytes of the step have arrived. */
static int step_ready(inlet_far_t *f)
{
    struct inlet_far_step *st = f->arriving;

    if (f->msg.type == FAR_STEP) {
        unsigned char *first = realloc(f->first, st->first > 0 ? st->first : 1);

        if (!first)
            return inlet_far_broken(f, ENOMEM);
        memcpy(first, f->base + st->e->off, st->first);
        f->first = first;
        f->first_len = st->first;
    }
    f->arriving = NULL;
    f->have = st->number;
    f->steps[st->number % LANE_SLOTS] = st;
    list_append(&f->queue, &st->node);
    f->asked = f->waits = false;
    return 0;
}

/* What is pinned comes: make its place. */
static int pinned_begin(inlet_far_t *f)
{
    struct inlet_far_pin *p;

    if (f->msg.number > 0 && f->pin && f->msg.number == f->pin->number &&
        f->msg.payload == f->pin->len && f->since > 0.) { /* it had come before the connection was
                                                           * cut: steps refer to it */
        f->to = NULL;
        f->left = f->msg.payload;
        return 0;
    }
    if (f->msg.number == 0 || (f->pin && f->msg.number <= f->pin->number) || f->msg.payload == 0)
        return inlet_far_broken(f, EPROTO);
    if (!(p = calloc(1, sizeof(*p))))
        return inlet_far_broken(f, ENOMEM);
    if (!(p->e = extent_take(f->pool, f->msg.payload))) {
        free(p);
        return inlet_far_broken(f, errno);
    }
    p->number = f->msg.number;
    p->len = f->msg.payload;
    p->refs = 1;
    inlet_far_pin_unref(f, f->pin);
    f->pin = p;
    f->to = f->base + p->e->off;
    f->left = p->len;
    return 0;
}

static int message_begin(inlet_far_t *f)
{
    const struct far_msg *m = &f->msg;

    f->left = 0;
    switch (m->type) {
    case FAR_STEP:
    case FAR_AGAIN:
        return step_begin(f);
    case FAR_PINNED:
        return pinned_begin(f);
    case FAR_DATA:
        return inlet_far_data_begin(f) == 0 ? 0 : inlet_far_broken(f, EPROTO);
    case FAR_NOTHING:
        f->asked = false;
        return 0;
    case FAR_NOTE:
        f->missing = m->step == KNOCK_NO_STEP ? f->missing : m->step + 1;
        f->floor = m->len;
        f->noted = true;
        return 0;
    case FAR_PARTS:
        f->parts = m->step;
        return 0;
    default: /* FAR_END: far_msg_decode() accepts no other type */
        f->end = (enum lane_end)m->number;
        return 0;
    }
}

static int message_ready(inlet_far_t *f)
{
    if (f->msg.type == FAR_STEP || f->msg.type == FAR_AGAIN)
        return step_ready(f);
    if (f->msg.type == FAR_DATA)
        inlet_far_data_ready(f);
    return 0;
}

/* Read more bytes, into the buffer or directly to their destination.  1; 0: nothing has arrived;
 * -1. */
static int more(inlet_far_t *f)
{
    bool direct = f->left >= INLET_FAR_BUFFER && f->to;
    ssize_t n =
        far_link_recv(f->link, direct ? f->to : f->buf, direct ? f->left : INLET_FAR_BUFFER);

    INVARIANT(2, f->at == f->len);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return inlet_far_broken(f, n < 0 ? errno : 0);
    f->moved += (uint64_t)n;
    if (direct) {
        f->to += n;
        f->left -= (uint64_t)n;
    } else {
        f->at = 0;
        f->len = (size_t)n;
    }
    return 1;
}

/* Copy the part of the payload that is in the buffer. */
static void payload(inlet_far_t *f)
{
    size_t n = f->len - f->at;

    if (n > f->left)
        n = f->left;
    if (f->to && n > 0) {
        memcpy(f->to, f->buf + f->at, n);
        f->to += n;
    }
    f->at += n;
    f->left -= n;
}

/* Parse the head of the next message, which may be incomplete at the end of the buffer.  1, 0 or
 * -1. */
static int head(inlet_far_t *f)
{
    while (f->len - f->at < FAR_HEAD_LEN) {
        ssize_t n;

        memmove(f->buf, f->buf + f->at, f->len - f->at);
        f->len -= f->at;
        f->at = 0;
        n = far_link_recv(f->link, f->buf + f->len, INLET_FAR_BUFFER - f->len);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return inlet_far_broken(f, n < 0 ? errno : 0);
        f->moved += (uint64_t)n;
        f->len += (size_t)n;
    }
    if (far_msg_decode(f->buf + f->at, true, &f->msg) < 0)
        return inlet_far_broken(f, EPROTO);
    f->at += FAR_HEAD_LEN;
    return 1;
}

/* Is the payload of the current message incomplete? */
static bool amid(const inlet_far_t *f)
{
    return f->msg.type != 0;
}

int inlet_far_pump(inlet_far_t *f, bool (*enough)(const inlet_far_t *))
{
    int rc;

    while (f->errnum == 0 && !(enough && enough(f))) {
        if (f->lost && (rc = inlet_far_resume(f)) <= 0)
            return rc;
        if (!amid(f)) {
            if ((rc = head(f)) <= 0)
                return rc;
            if (message_begin(f) < 0)
                return -1;
        }
        payload(f);
        if (f->left > 0) {
            if ((rc = more(f)) <= 0)
                return rc;
            continue;
        }
        if (message_ready(f) < 0)
            return -1;
        f->msg.type = 0;
    }
    errno = f->errnum;
    return f->errnum == 0 ? 0 : -1;
}

int inlet_far_pump_until(inlet_far_t *f, bool (*enough)(const inlet_far_t *), double seconds)
{
    struct pollfd p = {.fd = inlet_far_fd(f), .events = POLLIN};
    double until = clock_now() + seconds;
    uint64_t moved = f->moved;

    for (;;) {
        double left;

        if (inlet_far_pump(f, enough) < 0)
            return -1;
        if (enough(f))
            return 1;
        if (f->moved != moved)
            until = clock_now() + seconds;
        moved = f->moved;
        if ((left = until - clock_now()) <= 0.)
            return 0;
        poll(&p, 1, clock_poll_ms(left));
    }
}

/* --- output --- */

static int say(inlet_far_t *f, const struct far_msg *m, const void *payload, bool later)
{
    unsigned char buf[FAR_HEAD_LEN + FAR_BOX_MAX];
    struct iovec iov = {buf, FAR_HEAD_LEN + m->payload};
    struct pollfd p = {.events = POLLOUT};
    double until = clock_now() + INLET_FAR_ANSWER;

    if (f->errnum > 0) {
        errno = f->errnum;
        return -1;
    }
    if (f->lost) /* it is said, if it is still true, when the connection is resumed */
        return 0;
    p.fd = far_link_fd(f->link);
    far_msg_encode(m, buf);
    if (m->payload > 0)
        memcpy(buf + FAR_HEAD_LEN, payload, m->payload);
    while (iov.iov_len > 0 || far_link_waits(f->link)) {
        ssize_t n = iov.iov_len == 0 ? far_link_flush(f->link)
                    : later          ? far_link_send_later(f->link, &iov, 1)
                                     : far_link_send(f->link, &iov, 1);

        if (n >= 0) {
            iov.iov_base = (char *)iov.iov_base + n;
            iov.iov_len -= (size_t)n;
        } else if (errno != EAGAIN || clock_now() > until)
            return inlet_far_broken(f, errno == EAGAIN ? ETIMEDOUT : errno);
        else
            poll(&p, 1, 1000);
    }
    return 0;
}

int inlet_far_say(inlet_far_t *f, const struct far_msg *m, const void *payload)
{
    f->unsaid = (struct inlet_far_load){0};
    return say(f, m, payload, false);
}

void inlet_far_say_release(inlet_far_t *f, const struct inlet_far_step *st, bool later)
{
    const struct far_msg m = {.type = FAR_RELEASE, .number = st->number};

    if (!later)
        inlet_far_say(f, &m, NULL);
    else if (say(f, &m, NULL, true) == 0) {
        f->unsaid.steps++;
        f->unsaid.bytes += st->len;
    }
}

int inlet_far_say_question(inlet_far_t *f, const struct inlet_far_pending *p)
{
    return say(f, &p->msg, p->payload, true);
}

void inlet_far_push(inlet_far_t *f)
{
    if (f->link)
        far_link_push(f->link);
    f->unsaid = (struct inlet_far_load){0};
}
