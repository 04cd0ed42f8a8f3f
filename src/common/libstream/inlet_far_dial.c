/* inlet_far_dial.c - one attempt to reach a writer on another host, at one of its addresses.
 *
 * Nothing here waits, except for the relay of this host, so a reader can make attempts at many
 * writers at the same time: inlet_far_dial() begins one, and inlet_far_dial_on() goes on with it
 * whenever the connection is ready for that (inlet_far_dial_events()).
 *
 *    reached     what is awaited           then
 *    NOBODY      the connection            SOMEBODY; through a relay it is there at once
 *    SOMEBODY    a writer's greeting       the hello is sent: WRITER
 *    WRITER      its welcome               the attempt has succeeded
 *
 * The bytes of the messages are described in doc/stream-format.rst.
 *
 * Invariants:
 *  1. An attempt has a link from its beginning on.  When it fails the link is closed by the caller,
 *     who needs to look at it no more, with the error of the attempt.
 *
 * Failure: errno and a sentence.  ECONNRESET: the connection was closed before the writer has
 * answered: it has died, too many others knock, or a relay has ended; EACCES: it has refused it.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libstream/far_addr.h"
#include "libstream/inlet_far_private.h"
#include "libutil/clock.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"

static void setup(inlet_far_t *f)
{
    far_addr_setup(far_link_fd(f->link), f->opts.silence > 0. ? f->opts.silence : INLET_SILENCE,
                   true);
}

int inlet_far_dial(inlet_far_t *f, const char *address, const struct far_hello *h, double until,
                   errmsg_t *err)
{
    struct inlet_far_dial *d = &f->dial;
    bool share = str_starts(address, SHARE_PREFIX);
    int fd;

    INVARIANT(1, !f->link);
    d->hello = *h;
    d->until = until;
    d->reached = share ? SOMEBODY : NOBODY;
    d->got = 0;
    snprintf(d->address, sizeof(d->address), "%s", address);
    if (share) {
        if ((fd = share_connect(f->opts.share, address, &f->relay, err)) < 0) {
            d->reached = NOBODY;
            return -1;
        }
    } else if ((fd = far_addr_begin(address)) < 0)
        return errno == EINVAL
                   ? errmsg_fail(err, EINVAL,
                                 "the address of a stream's writer is malformed: %.100s", address)
                   : errmsg_fail(err, errno,
                                 "cannot connect to the writer of a stream at %.100s: %s", address,
                                 strerror(errno));
    if (!(f->link = far_link_create(fd))) {
        close(fd);
        return errmsg_fail(err, ENOMEM, "out of memory");
    }
    if (share)
        setup(f);
    return 0;
}

double inlet_far_dial_poll(const inlet_far_t *f, struct pollfd *p)
{
    p->fd = far_link_fd(f->link);
    p->events = f->dial.reached == NOBODY ? POLLOUT : POLLIN;
    return f->dial.until;
}

/* Nothing has come: 0; or -1 if the time of the attempt is over. */
static int not_yet(const struct inlet_far_dial *d)
{
    if (clock_now() < d->until)
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

/* Is the connection there? */
static int connected(inlet_far_t *f, errmsg_t *err)
{
    struct inlet_far_dial *d = &f->dial;
    int rc = far_addr_connected(far_link_fd(f->link));

    if (rc == 0 && (rc = not_yet(d)) == 0)
        return 0;
    if (rc < 0)
        return errmsg_fail(err, errno, "cannot connect to the writer of a stream at %.100s: %s",
                           d->address, strerror(errno));
    d->reached = SOMEBODY;
    setup(f);
    return 1;
}

/* Receive a message of this length.  1; 0: not all of it has come; -1: ENODATA if the writer has
 * closed the connection. */
static int receive(inlet_far_t *f, unsigned char *buf, size_t len)
{
    struct inlet_far_dial *d = &f->dial;

    while (d->got < len) {
        ssize_t n = far_link_recv(f->link, buf + d->got, len - d->got);

        if (n < 0 && errno == EAGAIN)
            return not_yet(d);
        if (n < 0)
            return -1;
        if (n == 0) {
            errno = ENODATA;
            return -1;
        }
        d->got += (size_t)n;
    }
    d->got = 0;
    return 1;
}

/* Has the greeting come?  Then the hello is sent. */
static int greeted(inlet_far_t *f, errmsg_t *err)
{
    struct inlet_far_dial *d = &f->dial;
    struct iovec iov = {d->said, sizeof(d->said)};
    int rc = receive(f, d->greeting, sizeof(d->greeting));

    if (rc == 0)
        return 0;
    if (rc < 0 || far_greeting_check(d->greeting) < 0)
        return errmsg_fail(err, errno == ENODATA ? ECONNRESET : errno,
                           "no writer of a stream answers at %.100s: %s", d->address,
                           strerror(errno == ENODATA ? ECONNRESET : errno));
    d->reached = WRITER;
    far_hello_make(d->said, &d->hello, f->opts.secret, d->greeting);
    if (far_link_send(f->link, &iov, 1) != (ssize_t)sizeof(d->said))
        return errmsg_fail(err, errno == EPIPE ? ECONNRESET : errno,
                           "cannot write to the writer of a stream at %.100s: %s", d->address,
                           strerror(errno));
    return 1;
}

bool inlet_far_hung(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

/* Has the writer answered? */
static int welcomed(inlet_far_t *f, struct far_welcome *w, errmsg_t *err)
{
    struct inlet_far_dial *d = &f->dial;
    int rc = receive(f, d->welcome, sizeof(d->welcome));

    if (rc == 0)
        return 0;
    if (rc < 0 && errno == ENODATA && str_starts(d->address, SHARE_PREFIX) &&
        inlet_far_hung(far_link_fd(f->link)))
        return errmsg_fail(err, ECONNRESET, "a relay on the way to %.100s has ended", d->address);
    if (rc < 0 && errno == ENODATA)
        return errmsg_fail(err, ECONNRESET,
                           "the writer of a stream at %.100s died before it answered", d->address);
    if (rc < 0)
        return errmsg_fail(err, errno, "the writer of a stream at %.100s does not answer: %s",
                           d->address, strerror(errno));
    if (far_welcome_read(d->welcome, w, f->opts.secret, d->said) < 0)
        return errmsg_fail(err, EPROTO, "the writer of a stream at %.100s is not the right one",
                           d->address);
    if (w->errnum == EACCES)
        return errmsg_fail(err, EACCES,
                           "the writer at %.100s refuses the capability: the stream may have "
                           "begun anew since its name was looked up",
                           d->address);
    return 1;
}

int inlet_far_dial_on(inlet_far_t *f, struct far_welcome *w, errmsg_t *err)
{
    struct inlet_far_dial *d = &f->dial;
    int rc;

    if (d->reached == NOBODY && (rc = connected(f, err)) <= 0)
        return rc;
    if (d->reached == SOMEBODY && (rc = greeted(f, err)) <= 0)
        return rc;
    return welcomed(f, w, err);
}
