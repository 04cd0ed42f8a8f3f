/* A queue that serves its senders in turn: a sender that floods delays only itself.
 *
 * Each sender belongs to a group, and groups take turns: a process with many connections, or all
 * clients of another rank together, get no more than a process with one connection.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_FAIRQ_H
#define BROKER_FAIRQ_H

#include <stdint.h>

#include "mailbox.h"

typedef struct fairq fairq_t;

/* The group that is served before all others, in its own order. */
#define FAIRQ_FIRST 0

fairq_t *fairq_create(void);    /* NULL with ENOMEM */
void fairq_destroy(fairq_t *q); /* NULL-safe, keeps errno; destroys the remaining messages */

/* Put in a copy of `l` from sender `sender` of `group`; takes its message over.  `weight`, at least
 * 1: the number of small requests that it is worth.  -1 with ENOMEM: the queue is unchanged. */
int fairq_put(fairq_t *q, uint32_t group, uint32_t sender, unsigned weight,
              const struct envelope *l);

/* Take out the next envelope.  False: the queue is empty. */
bool fairq_next(fairq_t *q, struct envelope *l);

/* Does an envelope of this sender wait? */
bool fairq_has(const fairq_t *q, uint32_t group, uint32_t sender);

size_t fairq_count(const fairq_t *q); /* number of envelopes */
/* Number of groups with envelopes, not counting FAIRQ_FIRST. */
size_t fairq_groups(const fairq_t *q);

#endif
