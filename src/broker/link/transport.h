/* Transports: ways to carry messages between neighboring brokers.
 *
 * A transport is a folder beside this file.  It fills a struct transport, which is named in
 * TRANSPORTS; boot.c chooses one by the address at which the broker is to listen.  All calls go
 * through struct core_link_ops.
 *
 * Thread rules: a link belongs to the broker's main thread.
 */
#ifndef BROKER_TRANSPORT_H
#define BROKER_TRANSPORT_H

#include "../core.h"
#include "silence.h"

struct link_config {
    bool curve;             /* CURVE encryption and authentication */
    const char *public_key; /* Z85, 40 characters; own */
    const char *secret_key; /* Z85, 40 characters; own */
    struct silence_limits live;
    double handshake; /* seconds for a neighbor to prove its key, at first; 0: default */
    size_t queue_max; /* messages queued for one neighbor before it counts as full */
    /* Log a message (syslog's levels), at most a few per second.  May be NULL. */
    void (*log)(void *arg, int level, const char *text);
    void *log_arg;
    /* A neighbor that has connected has proved who it is.  False: another link carries it, and the
     * connection is refused.  NULL: there is no other link. */
    bool (*claim)(void *arg, enum core_plane plane, uint32_t rank);
    void *claim_arg;
};

struct transport {
    const char *name;
    unsigned child_files; /* descriptors for each child, at least */
    /* Does a broker that listens at this address use the transport? */
    bool (*is_address)(const char *uri);
    /* Cut off what is for other transports in a neighbor's address.  NULL: nothing is. */
    void (*trim)(char *uri);
    /* The `arg` of the operations below.  NULL with errno and an error message. */
    void *(*create)(core_t *core, const struct link_config *cfg, errmsg_t *err);
    const struct core_link_ops *ops;
};

/* All transports, each of whose addresses is one of no other:
 *   unix   brokers of one host: "unix://PATH", or "unix://@NAME", a name without a file
 *   mixed  unix and zmq together: mixed/mixlink.h
 *   zmq    ZeroMQ: "tcp://ADDRESS:PORT", "ipc://PATH" */
#define TRANSPORTS(X) X(transport_unix) X(transport_mixed) X(transport_zmq)
#define TRANSPORT_DECLARE(t) extern const struct transport t;
TRANSPORTS(TRANSPORT_DECLARE)

/* A link with its transport; `arg` is NULL in a session of one broker. */
struct transport_link {
    const struct core_link_ops *ops;
    void *arg;
};

#endif
