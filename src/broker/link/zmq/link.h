/* The production link: the ZeroMQ sockets between one broker and its neighbors.
 *
 * Thread rules: a link belongs to the broker's main thread (ZeroMQ's own I/O threads stay inside).
 */
#ifndef BROKER_LINK_H
#define BROKER_LINK_H

#include "../transport.h"

typedef struct link link_t;

/* Returns a link_t, which its owner uses through link_ops.  NULL with errno and an error
 * message. */
void *link_create(core_t *core, const struct link_config *cfg, errmsg_t *err);
extern const struct core_link_ops link_ops;

struct link_stats {
    uint64_t msgs_in, msgs_out, events_in, events_out;
    uint64_t frames_in,
        frames_out; /* what ZeroMQ carried: messages per frame tell how well batching works */
    uint64_t malformed,
        misclaimed;       /* dropped: not a message; sent by a peer whose claimed rank and key do
                             not match */
    uint64_t refused;     /* connections with an unknown key */
    uint64_t event_skips; /* times that events were sent without waiting for a slow child */
};
void link_get_stats(const link_t *l, struct link_stats *st);

#endif
