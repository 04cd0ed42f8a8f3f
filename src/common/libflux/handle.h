/* The handle: a program's or a module's end of its connection to the local broker.
 *
 * flux_open() connects to a broker's UNIX socket; a module gets its handle from the broker, over
 * which messages pass in memory; the simulator makes handles of its own.  All look alike above
 * struct flux_handle_ops.
 *
 * Thread rules: a handle, its reactor, and all that hangs on them belong to one thread.
 */
#ifndef FLUX_HANDLE_H
#define FLUX_HANDLE_H

#include <stdint.h>

#include "libutil/errmsg.h"
#include "msg.h"
#include "reactor.h"

typedef struct flux_handle flux_t;

/* Where the programs of a host find the session that was started for all of it. */
#define FLUX_SYSTEM_SOCKET "/run/flux/local"

/* The address that flux_open() uses when it is given none: FLUX_URI, else that of the system session if
 * there is one, else NULL.  Lives until the environment changes. */
const char *flux_default_uri(void);

/* Connect.  `uri`: "local:///path/to/socket", "fd://N" (an inherited connected socket), or NULL for
 * the environment's FLUX_URI.  Creates a reactor of its own unless `r` is given (not taken over).
 * NULL with errno and a sentence. */
flux_t *flux_open(const char *uri, flux_reactor_t *r, errmsg_t *err);
/* Not from within a callback of this handle. */
void flux_close(flux_t *h); /* NULL-safe, keeps errno.  Destroys futures and handlers left. */

flux_reactor_t *flux_get_reactor(flux_t *h);
double flux_now(flux_t *h);  /* flux_reactor_now() of its reactor */
double flux_wall(flux_t *h); /* flux_reactor_wall() of its reactor */
/* A number from the handle's own seeded source (seeded by the system, or by a simulation). */
uint64_t flux_random(flux_t *h);

/* Rank and size of the session, known since the connection was made. */
uint32_t flux_rank(flux_t *h);
uint32_t flux_size(flux_t *h);

/* Send; takes the message over, on success and on failure.  0, or -1 with EPIPE (broker gone),
 * ENOMEM, ENOBUFS (more than the bound waits to be written).  Does not block: what the socket does
 * not take waits in a bounded queue. */
int flux_send(flux_t *h, flux_msg_t *msg);

/* Run the reactor: returns what flux_reactor_run() returns; -1 with EPIPE when the connection was
 * lost (unless flux_set_lost_handler was used). */
int flux_run(flux_t *h);

/* Called once when the connection to the broker is gone; futures were already answered with EPIPE.
 */
typedef void (*flux_lost_f)(flux_t *h, void *arg);
void flux_set_lost_handler(flux_t *h, flux_lost_f cb, void *arg);

/* Attach anything to the handle under a name, freed with it.  Replaces.  -1 with ENOMEM. */
int flux_aux_set(flux_t *h, const char *name, void *val, void (*free_fn)(void *));
void *flux_aux_get(flux_t *h, const char *name); /* NULL when absent */

/* --- another transport --- */

struct flux_handle_ops {
    /* Take the message over, as flux_send(). */
    int (*send)(void *impl, flux_msg_t *msg);
    /* Wait (real time) until a message can be read or `timeout` seconds have passed (<0: for ever),
     * and deliver what has come; write what waits to be written.  0, also when the time is up or
     * after a signal; -1 with EPIPE when the connection is gone.  For flux_future_wait(); NULL
     * where waiting is not allowed (modules): it then fails with EDEADLK. */
    int (*wait)(void *impl, double timeout);
    void (*destroy)(void *impl); /* may be NULL */
};
/* A handle over such a transport.  `ops` must outlive it, `r` is not taken over; `impl` is destroyed
 * with the handle.  NULL with ENOMEM; then `impl` is still the caller's. */
flux_t *flux_handle_create(const struct flux_handle_ops *ops, void *impl, flux_reactor_t *r,
                           uint32_t rank, uint32_t size, uint64_t seed);
/* For transports: a message has come in (taken over): goes to the future or handler it is for.  A
 * request that no handler takes is answered with ENOSYS. */
void flux_handle_deliver(flux_t *h, flux_msg_t *msg);
/* For transports: the connection is gone; `why` is a sentence.  All futures end with EPIPE. */
void flux_handle_lost(flux_t *h, const char *why);
void *flux_handle_impl(flux_t *h); /* as given */

#endif
