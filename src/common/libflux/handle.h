/* The handle: a program's or a module's end of its connection to the local broker.
 *
 * flux_open() connects to a broker's UNIX socket.  A module gets its handle from the broker, with
 * messages passing in memory.  The simulator makes handles of its own.  Above struct
 * flux_handle_ops all of them are alike.
 *
 * Thread rules: a handle, its reactor, and all that depends on them belong to one thread.
 */
#ifndef FLUX_HANDLE_H
#define FLUX_HANDLE_H

#include <stdint.h>

#include "libutil/errmsg.h"
#include "msg.h"
#include "reactor.h"

typedef struct flux_handle flux_t;

/* The address of the session that serves the whole host. */
#define FLUX_SYSTEM_SOCKET "/run/flux/local"

/* The address that flux_open() uses by default: FLUX_URI, else that of the system session if there
 * is one, else NULL.  Valid until the environment changes. */
const char *flux_default_uri(void);

/* Connect.  `uri`: "local:///path/to/socket", "fd://N" (an inherited connected socket), or NULL for
 * flux_default_uri().  Creates a reactor unless `r` is given (not taken over).  NULL with errno and
 * an error message. */
flux_t *flux_open(const char *uri, flux_reactor_t *r, errmsg_t *err);
/* The same with flags.
 *
 * FLUX_O_RECONNECT: when the connection is lost because the broker went away, return to a broker of
 * the same rank that listens at the same socket and whose session runs.  Until then, both
 * outstanding and new requests end with ECONNRESET, except those with FLUX_MSGF_IDEMPOTENT: these
 * wait, and are sent (again) when the connection is back.  Subscriptions are made again, too;
 * events that were published meanwhile are missed.  A stream whose request is sent again starts
 * over; so does a stream with FLUX_MSGF_IDEMPOTENT when a broker on its path was lost.  The
 * connection counts as lost, as without the flag, when the broker has disconnected this program,
 * after FLUX_RECONNECT_MAX seconds, or when the session's directory (two levels above the socket;
 * that of the system session stays) is gone.  No effect for an inherited connection.
 *
 * FLUX_O_NOWAIT: do not wait until the broker greets this program, so that the first requests are
 * sent together with the connection request: a program that makes one request waits once.
 * flux_rank() and flux_size() wait for the greeting, which comes with the first response at the
 * latest.  If the broker refuses this program, pending requests end with EPIPE and its error
 * message, and the size is 0; also with FLUX_O_RECONNECT, they end with EPIPE if the broker goes
 * away before it has greeted. */
#define FLUX_O_RECONNECT 1u
#define FLUX_O_NOWAIT 2u
#define FLUX_RECONNECT_MAX 60.
flux_t *flux_open_flags(const char *uri, flux_reactor_t *r, unsigned flags, errmsg_t *err);
/* Not from within a callback of this handle. */
void flux_close(flux_t *h); /* NULL-safe, keeps errno; destroys remaining futures and handlers */

flux_reactor_t *flux_get_reactor(flux_t *h);
double flux_now(flux_t *h);  /* flux_reactor_now() of its reactor */
double flux_wall(flux_t *h); /* flux_reactor_wall() of its reactor */
/* A random number from the handle's own source, seeded by the system or by a simulation. */
uint64_t flux_random(flux_t *h);

/* Rank and size of the session, known from the start (but see FLUX_O_NOWAIT). */
uint32_t flux_rank(flux_t *h);
uint32_t flux_size(flux_t *h);
/* Does the broker at the other end have the role of the root, which gets the requests to
 * FLUX_NODEID_ROOT? */
bool flux_is_root(flux_t *h);

/* Send a message; takes it over, on success and on failure.  0, or -1 with EPIPE (the broker is
 * gone), ECONNRESET (it may return), ENOMEM, or ENOBUFS (the queue is full).  Does not block: bytes
 * that the socket does not accept wait in a bounded queue. */
int flux_send(flux_t *h, flux_msg_t *msg);

/* Run the reactor.  Returns the result of flux_reactor_run(), or -1 with EPIPE if the connection
 * was lost (unless flux_set_lost_handler() was called). */
int flux_run(flux_t *h);

/* Wait for messages, without running the reactor: write the queued messages, wait until the
 * connection is readable or `timeout` seconds are over (0: do not wait; <0: no limit), and deliver
 * messages to futures and handlers.  0, also at the timeout or after a signal; -1 with EPIPE (the
 * connection is lost), or EDEADLK inside a module. */
int flux_handle_wait(flux_t *h, double timeout);
/* For an event loop other than the reactor: the descriptor of the connection, which stays the same
 * and belongs to the handle, and in *events the events to wait for (FLUX_POLLIN, and FLUX_POLLOUT
 * while messages are queued).  When it is ready, call flux_handle_wait(h, 0.), then ask for the
 * events again, as also after sending.  -1 with EPIPE (the connection is lost) or ENOTSUP (not a
 * socket, or not always the same: FLUX_O_RECONNECT). */
int flux_handle_pollfd(flux_t *h, int *events);

/* Called once when the connection to the broker is lost; futures have then ended with EPIPE. */
typedef void (*flux_lost_f)(flux_t *h, void *arg);
void flux_set_lost_handler(flux_t *h, flux_lost_f cb, void *arg);

/* Called each time a handle with FLUX_O_RECONNECT is back, before requests are sent again. */
typedef void (*flux_back_f)(flux_t *h, void *arg);
void flux_set_back_handler(flux_t *h, flux_back_f cb, void *arg);

/* Called each time the connection of a handle with FLUX_O_RECONNECT is lost, but may return.
 * Requests that do not wait for that have ended by then. */
typedef void (*flux_away_f)(flux_t *h, void *arg);
void flux_set_away_handler(flux_t *h, flux_away_f cb, void *arg);

/* Attach data to the handle under a name, to be freed with it.  Replaces earlier data.  -1 with
 * ENOMEM. */
int flux_aux_set(flux_t *h, const char *name, void *val, void (*free_fn)(void *));
void *flux_aux_get(flux_t *h, const char *name); /* NULL when absent */

/* --- another transport --- */

struct flux_handle_ops {
    /* Takes the message over, as flux_send() does. */
    int (*send)(void *impl, flux_msg_t *msg);
    /* Wait (in real time) until a message can be read or `timeout` seconds are over (<0: no limit),
     * deliver the messages that have come, and write the queued ones.  0, also at the timeout or
     * after a signal; -1 with EPIPE if the connection is lost.  NULL where waiting is not allowed
     * (modules): flux_future_wait() then fails with EDEADLK. */
    int (*wait)(void *impl, double timeout);
    void (*destroy)(void *impl); /* may be NULL */
    /* As flux_handle_pollfd(); NULL: ENOTSUP. */
    int (*pollfd)(void *impl, int *events);
};
/* Make a handle over such a transport.  `ops` must outlive it, `r` is not taken over, and `impl` is
 * destroyed with the handle.  NULL with ENOMEM; then `impl` still belongs to the caller. */
flux_t *flux_handle_create(const struct flux_handle_ops *ops, void *impl, flux_reactor_t *r,
                           uint32_t rank, uint32_t size, uint64_t seed);
/* For transports: deliver an incoming message (taken over) to its future or handler.  A request
 * without a handler is answered with ENOSYS. */
void flux_handle_deliver(flux_t *h, flux_msg_t *msg);
/* For transports: set rank and size of a handle that was created with size 0. */
void flux_handle_greeted(flux_t *h, uint32_t rank, uint32_t size);
/* For transports: the connection is lost; `why` is an error message.  All futures end with
 * EPIPE. */
void flux_handle_lost(flux_t *h, const char *why);
/* For transports that return.  away(): there is no connection for a while; flux_send() fails with
 * ECONNRESET, and so do all futures except those of requests that are sent again.  back(): the
 * connection is back, in a session of `size` ranks. */
void flux_handle_away(flux_t *h);
void flux_handle_back(flux_t *h, uint32_t size);
void *flux_handle_impl(flux_t *h); /* as given to flux_handle_create() */

#endif
