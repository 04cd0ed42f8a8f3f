/* Addresses of writers between hosts: "tcp://ADDRESS:PORT", several of them separated by commas.
 *
 * Thread rules: any thread.
 */
#ifndef STREAM_FAR_ADDR_H
#define STREAM_FAR_ADDR_H

#include <stdbool.h>
#include <stddef.h>

#include "libutil/errmsg.h"

#define FAR_ADDR_MAX 256 /* bytes of the text with its NUL */

/* Listen on a free port.  `address`: a numeric address that readers reach; or NULL: all addresses
 * of the interface `interface`; both NULL: all addresses of this host, without the loopback ones
 * unless there are no others.  Returns a non-blocking descriptor, and the addresses for readers in
 * `text`; -1 with errno and an error message. */
int far_addr_listen(const char *address, const char *interface, char text[FAR_ADDR_MAX],
                    errmsg_t *err);
/* Listen on the port of such an address again, after the process that did has ended.  -1 with
 * errno: EADDRINUSE, another process does, or EINVAL. */
int far_addr_listen_again(const char *text);
/* Extract the first address from those at *text, and advance *text. False: there are no more. */
bool far_addr_next(const char **text, char one[FAR_ADDR_MAX]);
/* Is this an IP address, as numbers? */
bool far_addr_is_ip(const char *text);
/* Begin to connect to one address: the descriptor, which does not block, becomes writable when that
 * has succeeded, or failed.  -1 with EINVAL (not an address) or another errno. */
int far_addr_begin(const char *text);
/* Has that succeeded?  1; 0: not yet; -1 with ECONNREFUSED or another errno. */
int far_addr_connected(int fd);
/* Set up a connection: send without delay, and detect within about `silence` seconds that the other
 * host, or the path to it, is gone while nothing is sent; with `sending`, also while data are being
 * sent. */
void far_addr_setup(int fd, double silence, bool sending);
/* Has the other host been silent although it should have answered for `silence` seconds?  For
 * connections without `sending`. */
bool far_addr_silent(int fd, double silence);

#endif
