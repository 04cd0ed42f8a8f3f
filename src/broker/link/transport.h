/* Transports: ways to carry messages between neighboring brokers.
 *
 * A transport is a folder beside this file.  It fills a struct transport, which is named in
 * TRANSPORTS.  A broker uses the transport that owns the address at which the broker listens.
 * Users may configure that address; otherwise the first transport that can compose an address for
 * the place of the broker is used.  All calls go through struct core_link_ops.
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
    /* Where descendants reach this broker; NULL: where it listens. */
    const char *card_tree, *card_event;
};

#define TRANSPORT_URI_MAX 300

/* Where a broker is to listen. */
struct transport_place {
    /* An address of TCP, "tcp://ADDRESS:PORT"; PORT may be "*".  NULL: all brokers of the session
     * are on this host. */
    const char *remote;
    const char *dir;  /* a directory of this broker alone; NULL: none that others can find */
    const char *name; /* for an abstract UNIX socket; unique on this host.  NULL: none */
    size_t size;      /* length of an address and its NUL, at most TRANSPORT_URI_MAX */
};

struct transport {
    const char *name;     /* a value of the setting link.transport */
    unsigned child_files; /* descriptors for each child, at least */
    /* A broker that is started again listens where the earlier one did, without its secret key. */
    bool restarts;
    /* Compose the addresses, of TRANSPORT_URI_MAX bytes each, at which a broker listens in its tree
     * and for those who subscribe to its events.  False: the transport cannot be used there. */
    bool (*compose)(const struct transport_place *place, char *tree_uri, char *event_uri);
    /* Does a broker that listens at this address use the transport? */
    bool (*is_address)(const char *uri);
    /* Cut off what is for other transports in a neighbor's address.  NULL: nothing is. */
    void (*trim)(char *uri);
    /* The `arg` of the operations below.  NULL with errno and an error message. */
    void *(*create)(core_t *core, const struct link_config *cfg, errmsg_t *err);
    const struct core_link_ops *ops;
};

/* All transports, the preferred ones first.  No address belongs to two of them:
 *   unix   brokers of one host: "unix://PATH", or "unix://@NAME", a name without a file
 *   mixed  unix and zmq together: mixed/mixlink.c
 *   zmq    ZeroMQ: "tcp://ADDRESS:PORT", "ipc://PATH" */
#define TRANSPORTS(X) X(transport_unix) X(transport_mixed) X(transport_zmq)
#define TRANSPORT_DECLARE(t) extern const struct transport t;
TRANSPORTS(TRANSPORT_DECLARE)

/* The transport that owns an address.  NULL with EINVAL and an error message. */
const struct transport *transport_at(const char *uri, errmsg_t *err);

/* The transport that composes the addresses of a broker: the first that can (`name` NULL or
 * "auto"), or the one called `name`.  NULL with EINVAL and an error message. */
const struct transport *transport_compose(const char *name, const struct transport_place *place,
                                          char *tree_uri, char *event_uri, errmsg_t *err);

/* May a broker of a session on one host be started again, given this value of link.transport? */
bool transport_restarts(const char *name);

/* A link with its transport; `arg` is NULL in a session of one broker. */
struct transport_link {
    const struct core_link_ops *ops;
    void *arg;
};

#endif
