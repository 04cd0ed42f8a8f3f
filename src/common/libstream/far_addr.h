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

/* Listen on a free port.  `address`: a numeric address that readers reach, or NULL: all of the
 * interface `interface`; NULL: all of this host, without those of loopback unless there is no
 * other.  Returns a non-blocking descriptor, and where readers connect in `text`; -1 with errno and
 * an error message. */
int far_addr_listen(const char *address, const char *interface, char text[FAR_ADDR_MAX],
                    errmsg_t *err);
/* Take the first address, as a text, from those at *text, and move *text to those that follow.
 * False: there are no more. */
bool far_addr_next(const char **text, char one[FAR_ADDR_MAX]);
/* Connect to one address.  Returns a non-blocking descriptor; -1 with EINVAL (not an address),
 * ETIMEDOUT, ECONNREFUSED or another errno, and an error message. */
int far_addr_connect(const char *text, double timeout, errmsg_t *err);
/* Send without delay, and find out within about `silence` seconds that the other host, or the way
 * to it, is gone while nothing is sent; or, with `sending`, also while something is. */
void far_addr_setup(int fd, double silence, bool sending);
/* Has the other host been silent although it should have answered for `silence` seconds?  For
 * connections that were not set up with `sending`. */
bool far_addr_silent(int fd, double silence);

#endif
