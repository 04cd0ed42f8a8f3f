/* The local link: messages between neighbors on one host, over UNIX sockets.
 *
 * Thread rules: belongs to the broker's main thread; there is no other.
 */
#ifndef ULINK_H
#define ULINK_H

#include "src/broker/link/transport.h"

#define ULINK_SCHEME "unix://"

/* Does a process of this user listen at "unix://PATH" or "unix://@NAME"?  0; -1 with errno and an
 * error message. */
int ulink_reach(const char *uri, errmsg_t *err);

#endif
