/* The ZeroMQ link: the sockets between one broker and its neighbors.
 *
 * Thread rules: a link belongs to the main thread of the broker (the I/O threads of ZeroMQ stay
 * inside).
 */
#ifndef BROKER_LINK_H
#define BROKER_LINK_H

#include "../transport.h"

typedef struct link link_t;

extern const struct core_link_ops link_ops;

#endif
