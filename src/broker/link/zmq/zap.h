/* Authentication of the brokers that connect: ZeroMQ's authentication protocol (RFC 27/ZAP), served
 * from the reactor of the owner.
 *
 * ZeroMQ asks, over an in-process socket, about every connection that has finished its CURVE
 * handshake.  A key that was allowed is admitted, and all frames of its connection then carry the
 * key as their "User-Id".  All other keys are refused.
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

/* Each may be NULL. */
struct zap_callbacks {
    /* Log a message about a refusal, at most a few per minute. */
    void (*log)(void *arg, const char *text);
    /* Returns whether the owner of this key may connect, although zap_allow() has not named it. */
    bool (*known)(void *arg, const char *key);
    /* Note that a key was admitted on a connection from this address. */
    void (*admitted)(void *arg, const char *address);
};

/* Bind the address of ZAP in `ctx`.  This must be called before any other socket of the context is
 * bound.  Returns NULL with errno and an error message. */
zap_t *zap_create(void *ctx, const struct zap_callbacks *cb, void *arg, errmsg_t *err);
void zap_destroy(zap_t *z); /* NULL-safe, keeps errno; call it after closing the sockets that it
                               guards */

/* Admit this key (Z85).  Returns -1 with EINVAL (not a key) or ENOMEM.  Repeating a call is not an
 * error. */
int zap_allow(zap_t *z, const char *key);

/* Return the socket, for its ZMQ_FD and ZMQ_EVENTS; serve at most `max` of its requests.
 * zap_serve() returns the number of requests served: less than `max` when no request is left. */
void *zap_socket(zap_t *z);
int zap_serve(zap_t *z, double now, int max);

#endif
