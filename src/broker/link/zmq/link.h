/* The production link: the ZeroMQ sockets between one broker and its neighbors.
 *
 * Thread rules: a link belongs to the broker's main thread (ZeroMQ's own I/O threads stay inside).
 */
#ifndef BROKER_LINK_H
#define BROKER_LINK_H

#include "../transport.h"

typedef struct link link_t;

extern const struct core_link_ops link_ops;

#endif
