/* Whose input the connector passes on next, when several clients send at the same time.
 *
 * A client that has sent little is served at once.  One that has sent more than a few messages waits for its
 * turn, with all other clients of its process, and processes have turns one after the other.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_TURNS_H
#define BROKER_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libutil/list.h"

/* Messages that a process has passed on at once, and that are passed on in one pass for those who wait. */
#define TURNS_FEW 8

typedef struct turns turns_t;
struct turns_process;

/* A client's place, in the struct of the client. */
struct turn {
    struct list_node node;         /* while it waits */
    struct turns_process *process; /* NULL: it has not joined */
};

turns_t *turns_create(void);    /* NULL with ENOMEM */
void turns_destroy(turns_t *t); /* all have left; NULL-safe, keeps errno */

void turns_init(struct turn *turn);
/* A client of process `pid` is there.  -1 with ENOMEM. */
int turns_join(turns_t *t, struct turn *turn, pid_t pid);
void turns_leave(turns_t *t, struct turn *turn); /* harmless when it has not joined */
unsigned turns_clients(const turns_t *t, pid_t pid);

/* How many messages of this client may be passed on now, in the pass that began at `now` (seconds, of the
 * reactor).  0: it has to wait. */
unsigned turns_share(turns_t *t, struct turn *turn, double now);
/* So many of them were. */
void turns_used(struct turn *turn, unsigned messages);

/* To wait, at the end, and to be the next one; NULL: nobody waits. */
void turns_wait(turns_t *t, struct turn *turn);
struct turn *turns_next(turns_t *t);
bool turns_waits(const struct turn *turn);
bool turns_pending(const turns_t *t); /* somebody waits */

/* Do several clients send at the same time? */
bool turns_several(const turns_t *t, double now);

#endif
