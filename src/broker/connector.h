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
    size_t pause_bytes;      /* bytes waiting for a client above which it is not read */
    size_t pause_messages;   /* the same in messages */
    size_t cut_bytes;        /* bytes waiting for a client above which it is disconnected */
    size_t all_bytes;        /* bytes waiting for all clients above which the one with most is */
    unsigned pause_inflight; /* unanswered requests of a client above which it is not read */
    size_t json_bytes;       /* a JSON request with a larger payload is refused with EMSGSIZE */
    size_t json_values;      /* ... or with more values and names in it */
    unsigned clients;        /* connections at a time; others are refused with EMFILE */
    unsigned per_process;    /* the same for one process */
};
extern const struct connector_limits connector_limits_default;

struct connector_room {
    uint32_t rank;
    uint64_t clients; /* that are connected, with the new one */
    pid_t pid;        /* process of the new one, */
    unsigned mine;    /* which has as many already */
    int fd;           /* the new one's */
};
/* Is there room for one more client, and for one more of its process?  -1 with EMFILE and an error
 * message. */
int connector_check_room(const struct connector_limits *lim, const struct connector_room *r,
                         errmsg_t *err);
/* Is the JSON of a request small enough?  `dropped`: bytes that were not read, since it is not.  -1
 * with EMSGSIZE and an error message. */
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
/* Tell the clients that the broker ends and may be started again: those that would return then need
 * not hear how their streams end. */
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
    uint64_t broken;     /* disconnected because of what they sent */
    uint64_t cut;        /* disconnected because they did not read */
    uint64_t queued;     /* bytes waiting to be written, at present */
    uint64_t queued_max; /* the most that have ever waited for one client */
    uint64_t reading;    /* memory for messages of which a part has come, at present */
};
void connector_get_stats(const connector_t *cn, struct connector_stats *st);
/* The service "connector" of the broker, which answers with these counters.  The caller removes the
 * handlers before it destroys `cn`.  NULL with ENOMEM, or EEXIST (there is such a service). */
flux_handlers_t *connector_service_add(connector_t *cn, core_t *core);

#endif
