/* Transports: ways to carry messages between neighboring brokers.
 *
 * A transport is a folder beside this file.  It fills a struct transport, which is named in
 * TRANSPORTS.  A broker uses the transport that owns the address at which the broker listens.
 * Users may configure that address; otherwise the broker uses the first transport that can compose
 * an address for its place.  All calls go through struct core_link_ops.
 *
 * Thread rules: a link belongs to the main thread of the broker.
 */
#ifndef BROKER_TRANSPORT_H
#define BROKER_TRANSPORT_H

#include "../core.h"
#include "silence.h"

struct link_config {
    bool curve;             /* CURVE encryption and authentication */
    const char *public_key; /* key of this broker in Z85, 40 characters */
    const char *secret_key; /* key of this broker in Z85, 40 characters */
    struct silence_limits live;
    double handshake; /* first limit in seconds for a neighbor to prove its key; 0: default */
    size_t queue_max; /* messages queued for one neighbor before it counts as full */
    /* Log a message (with a level of syslog), at most a few per second.  May be NULL. */
    void (*log)(void *arg, int level, const char *text);
    void *log_arg;
    /* A neighbor that has connected has proved its identity.  Returns false if another link carries
     * it: the connection is then refused.  NULL: there is no other link. */
    bool (*claim)(void *arg, enum core_plane plane, uint32_t rank);
    void *claim_arg;
    /* Addresses at which descendants reach this broker; NULL: those at which it listens. */
    const char *card_tree, *card_event;
};

#define TRANSPORT_URI_MAX 300

/* The place at which a broker is to listen. */
struct transport_place {
    /* An address of TCP, "tcp://ADDRESS:PORT"; PORT may be "*".  NULL: all brokers of the session
     * are on this host. */
    const char *remote;
    const char *dir;  /* directory of this broker alone; NULL: none that neighbors can find */
    const char *name; /* name for an abstract UNIX socket, unique on this host; NULL: none */
    size_t size;      /* limit on the length of an address and its NUL, at most TRANSPORT_URI_MAX */
};

struct transport {
    const char *name;     /* a value of the setting link.transport */
    unsigned child_files; /* minimum number of descriptors for each child */
    /* A broker that is started again listens at the address of the earlier one, without its secret
     * key. */
    bool restarts;
    /* Compose the addresses, of TRANSPORT_URI_MAX bytes each, at which a broker listens for
     * neighbors in its tree and for subscribers to its events.  Returns false if the transport
     * cannot be used at this place. */
    bool (*compose)(const struct transport_place *place, char *tree_uri, char *event_uri);
    /* Returns whether a broker that listens at this address uses the transport. */
    bool (*is_address)(const char *uri);
    /* Cut off the part of a neighbor's address that is for other transports.  NULL: there is no
     * such part. */
    void (*trim)(char *uri);
    /* Create the `arg` of the operations below.  Returns NULL with errno and an error message. */
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

/* Return the transport that owns an address, or NULL with EINVAL and an error message. */
const struct transport *transport_at(const char *uri, errmsg_t *err);

/* Return the transport that composes the addresses of a broker: the first one that can (`name` NULL
 * or "auto"), or the one called `name`.  Returns NULL with EINVAL and an error message. */
const struct transport *transport_compose(const char *name, const struct transport_place *place,
                                          char *tree_uri, char *event_uri, errmsg_t *err);

/* Verify that `name` is the name of a transport, "auto" or NULL.  0; -1 with EINVAL and an error
 * message. */
int transport_check(const char *name, errmsg_t *err);

/* Returns whether a broker of a session on one host can be started again, with this value of
 * link.transport. */
bool transport_restarts(const char *name);

/* A link with its transport; `arg` is NULL in a session of one broker. */
struct transport_link {
    const struct core_link_ops *ops;
    void *arg;
};

#endif
