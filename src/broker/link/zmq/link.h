/* The production link: ZeroMQ sockets to the neighbours of one broker.
 *
 * Thread rules: belongs to the broker's main thread (ZeroMQ's own I/O threads stay inside).
 */
#ifndef BROKER_LINK_H
#define BROKER_LINK_H

#include "../../core.h"

typedef struct link link_t;

struct link_config {
    bool curve;             /* CURVE encryption and authentication */
    const char *public_key; /* Z85, 40 characters; own */
    const char *secret_key; /* Z85, 40 characters; own */
    double peer_timeout;    /* seconds without a sign of life until a neighbour counts as lost; 0:
                               never */
    size_t queue_max;       /* messages queued towards one neighbour before it counts as full */
    const char *event_uri;  /* NULL: events along the tree over TCP/ipc; "epgm://..." multicast */
    /* A sentence for the log (syslog's levels); NULL: nobody listens.  At most a few a second. */
    void (*log)(void *arg, int level, const char *text);
    void *log_arg;
};

/* NULL with errno and a sentence. */
link_t *link_create(core_t *core, const struct link_config *cfg, errmsg_t *err);
void link_destroy(
    link_t *l); /* NULL-safe, keeps errno; queued goodbyes are still sent, for at most a second */

/* Listen for children and for the ring predecessor: `tree_uri`, `event_uri` may hold wildcards
 * ("tcp://127.0.0.1:*", "ipc:///dir/tree"). */
int link_bind(link_t *l, const char *tree_uri, const char *event_uri, errmsg_t *err);
/* What was bound, resolved, for the card that is shown to others; NULL before link_bind().  Without
 * children no event socket is bound and the event URI is "". */
const char *link_tree_uri(const link_t *l);
const char *link_event_uri(const link_t *l);

/* Make sockets with names (ipc://) again where somebody has removed these; connections stay.  1: made
 * some; 0: all are there; -1 with a sentence. */
int link_rebind(link_t *l, errmsg_t *err);

/* Connect to parent and ring successor; key NULL without CURVE. */
int link_connect_parent(link_t *l, uint32_t rank, const char *tree_uri, const char *event_uri,
                        const char *public_key, errmsg_t *err);
int link_connect_ring(link_t *l, uint32_t rank, const char *tree_uri, const char *public_key,
                      errmsg_t *err);
/* A neighbour that may connect here, with its key: all others are refused. */
int link_allow(link_t *l, uint32_t rank, const char *public_key, errmsg_t *err);

/* Plug into the core and start: neighbours are heard once the core's reactor runs. */
int link_start(link_t *l, errmsg_t *err);

struct link_stats {
    uint64_t msgs_in, msgs_out, events_in, events_out;
    uint64_t frames_in,
        frames_out; /* what ZeroMQ carried: messages per frame tell how much is batched */
    uint64_t malformed,
        misclaimed;       /* dropped: not a message; from a peer that is not who it says */
    uint64_t refused;     /* connections with a foreign key */
    uint64_t event_skips; /* times that events went out without waiting for a slow child */
};
void link_get_stats(const link_t *l, struct link_stats *st);

#endif
