/* A UNIX stream socket that listens at a name in the file system.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_LISTENER_H
#define BROKER_LISTENER_H

#include "core.h"

typedef struct listener listener_t;
typedef void (*listener_f)(void *arg);

/* Listen at `path`; the socket of a dead broker there is replaced.  cb(arg) is called in each pass
 * of the core's reactor in which a client waits to be accepted.  NULL with EADDRINUSE (a living
 * broker listens there, or it is not a socket), ENAMETOOLONG, ... and an error message. */
listener_t *listener_create(core_t *core, const char *path, listener_f cb, void *arg,
                            errmsg_t *err);
/* Removes the name.  NULL-safe, keeps errno. */
void listener_destroy(listener_t *l);

/* A new connection, as accept4(2) with SOCK_CLOEXEC and SOCK_NONBLOCK returns it. */
int listener_accept(listener_t *l);
/* Stop, or continue, to call the callback. */
void listener_stop(listener_t *l);
void listener_start(listener_t *l);

bool listener_has_name(const listener_t *l); /* false: the name was removed */
/* Listen at the name with a new socket.  Clients that wait at the old one must be accepted before.
 * 0, or -1 with errno and an error message. */
int listener_renew(listener_t *l, errmsg_t *err);

#endif
