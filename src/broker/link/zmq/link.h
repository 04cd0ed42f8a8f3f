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

#endif
