/* A queue that serves its senders in turn: who has put much in delays nobody but himself.
 *
 * A sender belongs to a group, and groups have turns: a process with many connections, or all clients of
 * another rank, get no more than a process with one.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_FAIRQ_H
#define BROKER_FAIRQ_H

#include <stdint.h>

#include "mailbox.h"

typedef struct fairq fairq_t;

/* The group of what is taken before all others, in its order. */
#define FAIRQ_FIRST 0

fairq_t *fairq_create(void);    /* NULL with ENOMEM */
void fairq_destroy(fairq_t *q); /* NULL-safe, keeps errno; destroys the messages that are left */

/* Put in a copy of `l`, from sender `sender` of `group`; the message is the queue's from then on.  `weight`, at
 * least 1: how many turns of small requests it is worth.  -1 with ENOMEM: the queue is as it was. */
int fairq_put(fairq_t *q, uint32_t group, uint32_t sender, unsigned weight,
              const struct envelope *l);

/* Take out whose turn it is.  False: there is nothing. */
bool fairq_next(fairq_t *q, struct envelope *l);

/* Does something of this sender wait? */
bool fairq_has(const fairq_t *q, uint32_t group, uint32_t sender);

size_t fairq_count(const fairq_t *q); /* envelopes that wait */
/* Who has some there, outside of FAIRQ_FIRST. */
size_t fairq_groups(const fairq_t *q);
size_t fairq_senders(const fairq_t *q);

#endif
