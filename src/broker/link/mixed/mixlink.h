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
 * one network namespace (hostnet_get() of libutil/hostmark.h).  "+LOCAL@PLACE" may be absent.
 *
 * Append "+LOCAL@PLACE" to REMOTE in a buffer; PLACE is that of this broker.  False: the buffer is
 * too short, and REMOTE is all that is in it. */
bool mixlink_add_local(char *uri, size_t size, const char *local);

#endif
