/* A relay to a socket on another host of a session: bytes go through the session.
 *
 *    program -> local socket -> relay (a process) -> flux exec of rank R -> "flux proxy
 *    --connect=PATH" -> socket PATH
 *
 * Each connection to the local socket is one command run at rank R, whose standard input and output
 * are the two directions.  Nothing is read that the other side has no room for.
 *
 * Thread rules: for programs with one thread.
 */
#ifndef CMD_RELAY_H
#define CMD_RELAY_H

#include <stdint.h>

#include "libutil/errmsg.h"

typedef struct relay relay_t;

/* Start the process: it connects to the session `uri` (its broker must be reachable from here) and
 * listens on a socket in a fresh directory.  It ends with relay_stop(), or with the caller.  NULL
 * with errno and an error message. */
relay_t *relay_start(const char *uri, uint32_t rank, const char *path, errmsg_t *err);
void relay_stop(relay_t *r); /* NULL-safe, keeps errno; waits for it */
/* "local://..." of the socket. */
const char *relay_uri(const relay_t *r);

/* The far end: connect to the socket and copy until both directions are over.  An exit code; says
 * an error message on standard error. */
int relay_connect(const char *path);

#endif
