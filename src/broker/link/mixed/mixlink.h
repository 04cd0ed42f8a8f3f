/* The link of brokers on several hosts: UNIX sockets to neighbors on the same host, ZeroMQ to all
 * others.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef MIXLINK_H
#define MIXLINK_H

#include "../transport.h"

/* An address is REMOTE+LOCAL@PLACE, for example "tcp://10.1.2.3:4567+unix:///run/f/0/tree@9e.f2".
 * LOCAL is "unix://PATH" or "unix://@NAME" (ulink.h).  PLACE is equal for brokers of one host and
 * one network namespace (hostnet_get() of libutil/hostmark.h).  "+LOCAL@PLACE" may be absent. */
#define MIXLINK_LOCAL "+unix://"

/* Is this the address of such a link? */
bool mixlink_is_address(const char *uri);

#endif
