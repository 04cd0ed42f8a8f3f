/* The transport of clients: a UNIX stream socket to the local broker.
 *
 * Frames (msg.c) pass back to back in both directions.  The broker sends first: a control message
 * with its protocol version, rank and size.
 *
 * Thread rules: those of the handle.
 */
#ifndef FLUX_CONN_LOCAL_H
#define FLUX_CONN_LOCAL_H

#include "handle.h"

/* Open `uri`: "local:///path/to/socket" or "fd://N".  `flags`: FLUX_O_RECONNECT.  NULL with errno
 * and an error message. */
flux_t *flux_local_open(const char *uri, flux_reactor_t *r, unsigned flags, errmsg_t *err);

#endif
