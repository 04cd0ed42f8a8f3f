/* The production link: ZeroMQ sockets to the neighbours of one broker.
 *
 * Thread rules: belongs to the broker's main thread (ZeroMQ's own I/O threads stay inside).
 */
#ifndef BROKER_LINK_H
#define BROKER_LINK_H

#include "../transport.h"

typedef struct link link_t;

/* A link_t: its owner calls it by link_ops.  NULL with errno and a sentence. */
void *link_create(core_t *core, const struct link_config *cfg, errmsg_t *err);
extern const struct core_link_ops link_ops;

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
