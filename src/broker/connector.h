/* The local connector: accepts clients on this host at a UNIX stream socket.
 *
 * Every client becomes an endpoint of the core.  libflux/conn_local.h is the other end.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_CONNECTOR_H
#define BROKER_CONNECTOR_H

#include "core.h"
#include "libflux/dispatch.h"

typedef struct connector connector_t;

struct connector_limits {
    size_t pause_bytes;    /* pause a client when more bytes than this wait for it */
    size_t pause_messages; /* the same in messages */
    size_t cut_bytes;      /* disconnect a client when more bytes than this wait for it */
    size_t all_bytes; /* when more bytes than this wait for all clients, disconnect the client with
                       * the most */
    unsigned pause_inflight; /* pause a client with more unanswered requests */
    size_t json_bytes;       /* refuse a JSON request with a larger payload (EMSGSIZE) */
    size_t json_values;      /* ... or with more values and names in it */
    unsigned clients;     /* maximum number of connections; further ones are refused with EMFILE */
    unsigned per_process; /* the same for one process */
};
extern const struct connector_limits connector_limits_default;

struct connector_room {
    uint32_t rank;
    uint64_t clients; /* connected clients, including the new one */
    pid_t pid;        /* process of the new one, */
    unsigned mine;    /* number of other clients of that process */
    int fd;           /* the new one's */
};
/* Is there room for one more client, and for one more of its process?  -1 with EMFILE and an error
 * message. */
int connector_check_room(const struct connector_limits *lim, const struct connector_room *r,
                         errmsg_t *err);
/* Is the JSON of a request small enough?  `dropped`: number of bytes that were discarded because it
 * is too large.  -1 with EMSGSIZE and an error message. */
int connector_check_json(const struct connector_limits *lim, const flux_msg_t *req, size_t dropped,
                         errmsg_t *err);

/* Listen at `path`; NULL: only adopted clients.  The socket of a dead broker at that path is
 * replaced.  NULL with EADDRINUSE (a living broker listens there, or it is not a socket),
 * ENAMETOOLONG, ... and an error message. */
connector_t *connector_create(core_t *core, const char *path, const struct connector_limits *limits,
                              errmsg_t *err);
/* Create the socket's name again if it was removed; connections remain.  1: created; 0: it exists;
 * -1 with errno and an error message: no new client can connect. */
int connector_relisten(connector_t *cn, errmsg_t *err);
/* Notify the clients that the broker ends and may be started again: clients that will return then
 * ignore the ends of their streams. */
void connector_ending(connector_t *cn);
/* Closes all connections and removes the socket's name.  NULL-safe, keeps errno. */
void connector_destroy(connector_t *cn);

/* Serve the client at the other end of a connected stream socket; `fd` (close-on-exec) is taken
 * over, even on failure.  -1 with EPERM (not the session's owner), ENOMEM... and an error
 * message. */
int connector_adopt(connector_t *cn, int fd, errmsg_t *err);

struct connector_stats {
    uint64_t clients;    /* at present */
    uint64_t accepted;   /* in total */
    uint64_t refused;    /* no permission */
    uint64_t broken;     /* disconnected because of invalid messages */
    uint64_t cut;        /* disconnected because they did not read */
    uint64_t queued;     /* bytes waiting to be written, at present */
    uint64_t queued_max; /* maximum that has ever waited for one client */
    uint64_t reading;    /* memory of incomplete input messages, at present */
};
void connector_get_stats(const connector_t *cn, struct connector_stats *st);
/* The service "connector" of the broker, which answers with these counters.  The caller removes the
 * handlers before it destroys `cn`.  NULL with ENOMEM, or EEXIST (there is such a service). */
flux_handlers_t *connector_service_add(connector_t *cn, core_t *core);

#endif
