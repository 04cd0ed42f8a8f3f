/* ulink_gate.c - strangers: connections whose peers are not known yet.
 *
 *    a stranger                                                            becomes
 *    of another user, or one too many                                      refused, at once
 *    sends a hello of a neighbor that has no connection, with its key      its connection
 *    sends a hello with the ticket of this broker, and the core takes it   a child's connection
 *    sends a hello of a rank below, with its key, and the core takes it    a child's connection
 *    sends more than HELLO_BYTES before it is answered                     refused
 *    sends anything else, or nothing for HELLO_MAX seconds                 refused
 *    closes its end before it is answered                                  forgotten
 *
 * Authentication: a process that connects must be able to open the socket, which is in a directory
 * of its own user (0700), or has a name that is visible only in its network namespace.  The kernel
 * reports the user of the process (SO_PEERCRED), and the key, which only brokers of the session
 * know, identifies the broker.
 *
 * Invariants:
 *  1. There are at most STRANGERS_MAX strangers; further connections wait in the queue of the
 *     kernel.
 *  2. No message of a stranger reaches the core.
 *  3. A stranger can make this broker allocate at most HELLO_BYTES for its message, whatever size
 *     it announces.
 *
 * Failure: without descriptors or memory no connection is accepted for STARVED seconds; the first
 * failure of several is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "ulink_private.h"

#define STRANGERS_MAX 256
#define HELLO_MAX 60. /* seconds: at bring-up, many brokers may share few processors */
#define HELLO_BYTES 1024
#define STARVED 0.1

static void stranger_free(struct ulink_stranger *s)
{
    ulink_t *l = s->l;

    list_remove(&s->node);
    l->nstrangers--;
    flux_watcher_destroy(s->w);
    flux_watcher_destroy(s->limit);
    framer_destroy(s->in);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
    if (l->accept && !flux_watcher_active(l->starved))
        flux_watcher_start(l->accept);
}

/* Send the reason to the peer, log it, and end the connection. */
static void refuse(struct ulink_stranger *s, const char *why)
{
    struct ulink_reason reason = {why};
    flux_msg_t *msg = ulink_word_create(ULINK_REFUSED, &reason);
    outq_t *q = outq_create();

    linklog(&s->l->log, LOG_ERR, "a connection to rank %u was refused: %s", s->l->rank, why);
    if (msg && q)
        (void)outq_send(q, s->fd, msg); /* a new connection has room for the message */
    outq_destroy(q);
    flux_msg_destroy(msg);
    stranger_free(s);
}

/* Admit a broker that is not a neighbor by the shape.  Returns NULL if the core does not adopt it.
  An earlier connection without a welcome gives way: the broker has given it
 * up. */
static struct ulink_peer *adopt(ulink_t *l, uint32_t rank)
{
    struct ulink_peer *p;

    if (!core_peer_adopt(l->core, rank) || (l->claim && !l->claim(l->claim_arg, CORE_TREE, rank)))
        return NULL;
    if (!(p = ulink_inbound(l, CORE_TREE, rank)) && (p = ulink_add_inbound(l, CORE_TREE, rank)))
        p->adopted = p->allowed = true;
    return p;
}

/* Returns whether the broker proves that it is below this one, and not its child by the shape: by
 * the ticket of this broker, or by the key of its rank. */
static bool is_below(const ulink_t *l, const struct ulink_hello *hello)
{
    const struct ulink_peer *p = ulink_inbound(l, CORE_TREE, hello->rank);
    const char *key = l->key[0] ? core_key_of(l->core, hello->rank) : "";

    if (ulink_same_key(l->ticket, hello->key))
        return true;
    return (!p || p->adopted) && key && ulink_same_key(key, hello->key);
}

static struct ulink_peer *identify(ulink_t *l, const flux_msg_t *msg, errmsg_t *err)
{
    struct ulink_hello hello = {0};
    json_t *owner = ulink_word_decode(ULINK_HELLO, msg, &hello, err);
    struct ulink_peer *p = NULL;
    bool ring;

    if (!owner)
        return NULL;
    ring = strcmp(hello.plane, "ring") == 0;
    if (hello.version == ULINK_VERSION && strcmp(hello.plane, "tree") == 0 && is_below(l, &hello)) {
        if (!(p = adopt(l, hello.rank)))
            errmsg_set(err,
                       "rank %u is not taken over here: if another broker of this rank runs, stop "
                       "one of the two",
                       hello.rank);
        json_decref(owner);
        return p;
    }
    if (hello.version != ULINK_VERSION)
        errmsg_set(err,
                   "its version of the protocol is %d, here it is %d: start the same version of "
                   "Flux at all ranks",
                   hello.version, ULINK_VERSION);
    else if ((!ring && strcmp(hello.plane, "tree") != 0) ||
             !(p = ulink_inbound(l, ring ? CORE_RING : CORE_TREE, hello.rank)) || !p->allowed ||
             (l->key[0] && !p->key[0])) /* it was adopted by its ticket */
        errmsg_set(err,
                   "rank %u is not a neighbor that is expected here: use the same configuration at "
                   "all ranks",
                   hello.rank);
    else if (!p->key[0] != !hello.key[0])
        errmsg_set(err, "it uses %s (curve), and this broker %s: use the same configuration",
                   hello.key[0] ? "keys" : "no keys", p->key[0] ? "does" : "does not");
    else if (!ulink_same_key(p->key, hello.key))
        errmsg_set(err,
                   "the key is not that of rank %u: start it with the key of its own rank "
                   "(session.keyfile)",
                   hello.rank);
    else if (p->state == ULINK_UP && !core_peer_stale(l->core, p->plane, p->rank))
        errmsg_set(err, "rank %u is connected already: stop one of its two brokers", hello.rank);
    else if (l->claim && !l->claim(l->claim_arg, p->plane, p->rank))
        errmsg_set(err, "another link carries rank %u", hello.rank);
    else {
        json_decref(owner);
        return p;
    }
    json_decref(owner);
    return NULL;
}

/* Returns whether the peer has closed its end before the answer, for example because this broker
 * was stopped.  It may try again, and its next connection must not give way to this one. */
static bool has_gone(const struct ulink_stranger *s)
{
    char byte;

    return recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void hello_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ulink_stranger *s = arg;
    ulink_t *l = s->l;
    struct ulink_peer *p;
    flux_msg_t *msg;
    framer_t *in;
    errmsg_t err;
    ssize_t n;
    int fd;

    if ((n = framer_read(s->in, s->fd, l->scratch, ULINK_SCRATCH, false)) <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            stranger_free(s); /* the peer has gone */
        return;
    }
    if ((s->bytes += (size_t)n) > HELLO_BYTES) {
        refuse(s, "its first message is too large");
        return;
    }
    if (!(msg = framer_next(s->in, &err))) {
        if (errno != EAGAIN)
            refuse(s, errno == EPROTO ? err.text : "out of memory");
        return;
    }
    if (has_gone(s)) {
        flux_msg_destroy(msg);
        stranger_free(s);
        return;
    }
    p = identify(l, msg, &err);
    flux_msg_destroy(msg);
    if (!p) {
        refuse(s, err.text);
        return;
    }
    if (p->state == ULINK_UP)
        ulink_peer_fail(p, "another broker has taken its place");
    if (p->state == ULINK_GONE && ulink_peer_revive(p) < 0) {
        refuse(s, "out of memory");
        return;
    }
    if (framer_park(s->in) < 0) {
        refuse(s, "out of memory");
        return;
    }
    in = s->in;
    fd = s->fd;
    s->in = NULL;
    s->fd = -1;
    stranger_free(s);
    if (ulink_peer_adopt(p, fd, in) < 0)
        linklog(&l->log, LOG_ERR, "rank %u is out of memory for the connection of rank %u", l->rank,
                p->rank);
}

static void limit_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    refuse(arg, "it has not identified itself");
}

/* Accept a connection.  Returns -1 with errno if none was accepted. */
static int admit(ulink_t *l, int fd)
{
    struct ulink_stranger *s = calloc(1, sizeof(*s));
    errmsg_t err;

    if (!s) {
        close(fd);
        errno = ENOMEM;
        return -1;
    }
    s->l = l;
    s->fd = fd;
    list_init(&s->node);
    list_append(&l->strangers, &s->node);
    l->nstrangers++;
    if (!(s->in = framer_create()) ||
        !(s->w = flux_fd_watcher_create(l->r, fd, FLUX_POLLIN, hello_cb, s)) ||
        !(s->limit = flux_timer_create(l->r, limit_cb, s))) {
        stranger_free(s);
        errno = ENOMEM;
        return -1;
    }
    if (ulink_check_peer(fd, &err) < 0) {
        refuse(s, err.text);
        return 0;
    }
    flux_watcher_start(s->w);
    flux_timer_start(s->limit, HELLO_MAX, 0.);
    return 0;
}

static void accept_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    ulink_t *l = arg;
    int fd;

    while (l->nstrangers < STRANGERS_MAX) {
        if ((fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
            if (admit(l, fd) == 0) {
                l->starved_logged = false;
                continue;
            }
        } else if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) {
            return;
        }
        if (!l->starved_logged)
            linklog(&l->log, LOG_ERR, "rank %u cannot accept connections now: %s", l->rank,
                    strerror(errno));
        l->starved_logged = true;
        flux_watcher_stop(l->accept);
        flux_timer_start(l->starved, STARVED, 0.);
        return;
    }
    flux_watcher_stop(l->accept);
}

static void starved_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    ulink_t *l = arg;

    flux_watcher_start(l->accept);
}

int ulink_gate_start(ulink_t *l)
{
    if (!(l->accept = flux_fd_watcher_create(l->r, l->fd, FLUX_POLLIN, accept_cb, l)) ||
        !(l->starved = flux_timer_create(l->r, starved_cb, l)))
        return -1;
    flux_watcher_start(l->accept);
    return 0;
}

void ulink_gate_stop(ulink_t *l)
{
    struct list_node *n;

    flux_watcher_destroy(l->accept);
    flux_watcher_destroy(l->starved);
    l->accept = NULL;
    l->starved = NULL;
    while ((n = list_first(&l->strangers)))
        stranger_free(list_entry(n, struct ulink_stranger, node));
}
