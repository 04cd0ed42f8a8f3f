/* A queue of messages between two threads: any number put in, one takes out and waits on a
 * descriptor.
 *
 * Thread rules: mailbox_put(), mailbox_post(), mailbox_wake() and mailbox_count() from any thread; the rest from
 * the one reader.
 */
#ifndef BROKER_MAILBOX_H
#define BROKER_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "libflux/msg.h"

typedef struct mailbox mailbox_t;

/* A put with a limit of N envelopes may also leave no more than N times so many bytes waiting. */
#define MAILBOX_BYTES_EACH 1024

struct envelope {
    void *from;      /* the sender's own mark */
    flux_msg_t *msg; /* or NULL: `code` is the news */
    int code;
};

mailbox_t *mailbox_create(void);    /* NULL with errno */
void mailbox_destroy(mailbox_t *m); /* NULL-safe, keeps errno; frees what is left in it */

/* Readable when there is something to take. */
int mailbox_fd(const mailbox_t *m);

/* Put one in; takes the message over on success.  `limit`: refuse with ENOBUFS when as many envelopes
 * or MAILBOX_BYTES_MAX bytes wait (0: no limit).  -1 with ENOBUFS or ENOMEM; the message is then
 * still the caller's. */
int mailbox_put(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit);

/* The same, but the reader need not hear of it at once: 1 when it does not know yet that something
 * waits, and a call of mailbox_wake() has to follow; 0 otherwise. */
int mailbox_post(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit);
void mailbox_wake(mailbox_t *m);

/* Take all that wait: an array that stays valid until the next call of mailbox_take(), and how
 * many. */
struct envelope *mailbox_take(mailbox_t *m, size_t *count);

/* Has something been put in since the last mailbox_take()?  Costs next to nothing. */
bool mailbox_has_new(const mailbox_t *m);

/* The reader sets aside so many of what it took, for later: they count as waiting, for limits too, until it is
 * done with them. */
void mailbox_set_aside(mailbox_t *m, size_t envelopes, size_t bytes);
void mailbox_done(mailbox_t *m, size_t envelopes, size_t bytes);
/* The reader goes on with what it has set aside when its descriptor is looked at the next time. */
void mailbox_again(mailbox_t *m);

/* How many wait (a moment's truth). */
size_t mailbox_count(mailbox_t *m);

#endif
