/* The local connector: the door for clients on this host, a UNIX stream socket.
 *
 * Every client becomes an endpoint of the core.  libflux/conn_local.h is the other end.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_CONNECTOR_H
#define BROKER_CONNECTOR_H

#include "core.h"

typedef struct connector connector_t;

/* Listen at `path`; NULL: there are only adopted clients.  A socket that a dead broker left there
 * is replaced.  NULL with EADDRINUSE (a living one listens there, or it is not a socket),
 * ENAMETOOLONG,
 * ... and a sentence. */
connector_t *connector_create(core_t *core, const char *path, errmsg_t *err);
/* Make the socket's name again if somebody has removed it; connections stay.  1: made; 0: it is there;
 * -1 with errno and a sentence: it could not be made, and nobody new can connect until it is. */
int connector_relisten(connector_t *cn, errmsg_t *err);
/* Closes all connections and removes the socket's name.  NULL-safe, keeps errno. */
void connector_destroy(connector_t *cn);

/* Serve the client at the other end of a connected stream socket; `fd` is taken over, also on
 * failure.  -1 with EPERM (not the session's owner), ENOMEM... and a sentence. */
int connector_adopt(connector_t *cn, int fd, errmsg_t *err);

/* Bounds, to be changed before the first client comes. */
struct connector_limits {
    size_t pause_bytes;      /* waiting to be written to a client: no more is read from it */
    size_t pause_messages;   /* the same in messages */
    size_t cut_bytes;        /* a client that reads so little is disconnected */
    unsigned pause_inflight; /* requests of a client without answer: no more is read from it */
    size_t json_bytes;       /* a JSON request with a larger payload is refused with EMSGSIZE */
    size_t json_values;      /* ... or with more values and names in it */
    unsigned clients;        /* connections at a time; more are refused with EMFILE */
    unsigned per_process;    /* the same of one process */
};
/* What a connector begins with. */
void connector_limits_init(struct connector_limits *limits);
void connector_set_limits(connector_t *cn, const struct connector_limits *limits);

struct connector_stats {
    uint64_t clients;  /* now */
    uint64_t accepted; /* ever */
    uint64_t refused;  /* no permission */
    uint64_t broken;   /* disconnected for what they sent */
    uint64_t cut;      /* disconnected for what they did not read */
    uint64_t queued;   /* bytes waiting to be written, now */
};
void connector_get_stats(const connector_t *cn, struct connector_stats *st);

#endif
