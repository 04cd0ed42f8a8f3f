/* The order in which the connector passes on messages while several clients send.
 *
 * A client that has sent little is served at once.  A client that has sent more than a few messages
 * waits for its turn, as do all other clients of its process; waiting processes have turns one
 * after the other.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_TURNS_H
#define BROKER_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libutil/list.h"

/* Messages of one process that are passed on at once in one pass of the reactor; also the messages
 * of all waiting clients that are passed on in one pass. */
#define TURNS_FEW 4
/* A process that sends alone is not read any more in a pass in which it has sent this many
 * messages: other clients may wait for that long when they begin to send. */
#define TURNS_MANY 512
/* Messages of waiting clients that are passed on in one pass while a light client is served. */
#define TURNS_LEAN 2

typedef struct turns turns_t;
struct turns_process;

/* A client's place in the order; part of the client's struct. */
struct turn {
    struct list_node node;         /* in a list while the client waits */
    struct turns_process *process; /* NULL: has not joined */
};

turns_t *turns_create(void); /* NULL with ENOMEM */
/* To be called after all clients have left.  NULL-safe, keeps errno. */
void turns_destroy(turns_t *t);

void turns_init(struct turn *turn);
/* A client of process `pid` has connected.  0, or -1 with ENOMEM. */
int turns_join(turns_t *t, struct turn *turn, pid_t pid);
void turns_leave(turns_t *t, struct turn *turn);     /* does nothing if the client has not joined */
unsigned turns_clients(const turns_t *t, pid_t pid); /* of that process */

/* The number of messages of this client that may be passed on now, in the pass that began at `now`
 * (flux_reactor_now()).  0: the client has to wait. */
unsigned turns_share(turns_t *t, struct turn *turn, double now);
/* That many messages of the client were passed on. */
void turns_used(struct turn *turn, unsigned messages);

/* The client waits from now on; does nothing if it waits already. */
void turns_wait(turns_t *t, struct turn *turn);
/* The waiting client whose turn it is; it does not wait any more.  NULL: no client waits. */
struct turn *turns_next(turns_t *t);
bool turns_waits(const struct turn *turn);
bool turns_pending(const turns_t *t); /* a client waits */

/* True when clients of several processes send at the same time.  `now` as above. */
bool turns_several(turns_t *t, double now);

#endif
