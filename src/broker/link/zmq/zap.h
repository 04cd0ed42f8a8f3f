/* Who may connect: ZeroMQ's authentication protocol (RFC 27/ZAP), served from the reactor of its
 * owner.
 *
 * ZeroMQ asks over an in-process socket for every connection that finished its CURVE handshake.  A
 * key that was allowed is admitted, and what it sends then carries the key as its "User-Id"; all
 * others are refused.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_ZAP_H
#define BROKER_ZAP_H

#include <stdbool.h>
#include <stdint.h>

#include "libutil/errmsg.h"

typedef struct zap zap_t;

#define ZAP_KEY_SIZE 40 /* characters of a key in Z85 */

/* One sentence about a refusal, at most a few a minute. */
typedef void (*zap_log_f)(void *arg, const char *text);

/* Binds ZAP's address in `ctx`, which must happen before any other socket of the context is bound.
 * NULL with errno and a sentence. */
zap_t *zap_create(void *ctx, zap_log_f log, void *arg, errmsg_t *err);
void zap_destroy(zap_t *z); /* NULL-safe, keeps errno; after the sockets that it guards */

/* Admit this key (Z85).  -1 with EINVAL (not a key) or ENOMEM.  Allowing it twice is not an error. */
int zap_allow(zap_t *z, const char *key);

/* The socket, for its ZMQ_FD and ZMQ_EVENTS; serve what it has, at most `max` requests.  Returns
 * how many were served: less than `max` when nothing is left. */
void *zap_socket(zap_t *z);
int zap_serve(zap_t *z, double now, int max);

uint64_t zap_refused(const zap_t *z);

#endif
