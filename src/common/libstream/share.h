/* One TCP connection between two hosts for all streams between them.
 *
 * On each host runs a relay (share_relay_run(), `flux stream relay`).  A writer registers with the
 * relay of its host, and publishes where that is; a reader of another host asks its own relay to
 * connect it to the writer.  What the reader gets is a stream of bytes, over which reader and
 * writer say what they say by TCP: relays carry it, and know nothing of it.
 *
 * Thread rules: share_relay_run() is for a process of its own; the other functions may be called by
 * any thread.
 */
#ifndef STREAM_SHARE_H
#define STREAM_SHARE_H

#include <stdbool.h>

#include "libstream/far_addr.h"

#define SHARE_PREFIX "share://"

/* Writer: register with the relay of this host.  `text` is the address for readers of other hosts.
 * Returns a descriptor, which stays open as long as readers may come; each of them is a descriptor
 * that comes over it (fdpass_recv()).  -1 with an error message and ENOENT (there is no relay),
 * EPERM (that of another user) or another errno. */
int share_register(char text[FAR_ADDR_MAX], errmsg_t *err);
/* Reader: connect to a writer at such an address.  Returns a non-blocking descriptor, which ends
 * when the writer, or a relay, does.  -1 with the errors of share_register(), or EINVAL. */
int share_connect(const char *text, errmsg_t *err);

/* Be the relay of this host, in this network namespace and for this user, until `stop_fd` is
 * readable.  `address`, `interface`: as for far_addr_listen().  0; -1 with an error message and
 * EADDRINUSE (there is one) or another errno. */
int share_relay_run(const char *address, const char *interface, int stop_fd, errmsg_t *err);

#endif
