/* The local link: messages between neighbors on one host, over UNIX sockets.
 *
 * Thread rules: it belongs to the main thread of the broker, and uses no other thread.
 */
#ifndef ULINK_H
#define ULINK_H

#include "src/broker/link/transport.h"

#define ULINK_SCHEME "unix://"

/* Check whether a process of this user listens at "unix://PATH" or "unix://@NAME".  Returns 0, or
 * -1 with errno and an error message. */
int ulink_reach(const char *uri, errmsg_t *err);

#endif
