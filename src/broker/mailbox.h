/* A queue of messages between threads: any number of writers, and one reader that waits on a
 * descriptor.
 *
 * Thread rules: mailbox_put(), mailbox_post(), mailbox_wake() and mailbox_count() may be called
 * from any thread, the others by the reader only.
 */
#ifndef BROKER_MAILBOX_H
#define BROKER_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "libflux/msg.h"

typedef struct mailbox mailbox_t;

/* A limit of N envelopes is also one of N times this many bytes. */
#define MAILBOX_BYTES_EACH 1024

struct envelope {
    void *from;      /* identifies the sender */
    flux_msg_t *msg; /* NULL: `code` is the message */
    int code;
};

/* `wakes`: the reader waits on mailbox_fd(); otherwise there is no descriptor (-1), and the writers
 * wake the reader in another way.  NULL with errno. */
mailbox_t *mailbox_create(bool wakes);
void mailbox_destroy(mailbox_t *m); /* NULL-safe, keeps errno; frees the messages that wait */

/* Readable when there are envelopes to take. */
int mailbox_fd(const mailbox_t *m);

/* Put an envelope in; takes the message over on success.  `limit` (0: none): refuse with ENOBUFS if
 * this many envelopes, or MAILBOX_BYTES_EACH bytes for each of them, wait already.  -1 with ENOBUFS
 * or ENOMEM; the message then still belongs to the caller. */
int mailbox_put(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit);

/* The same without waking the reader.  1: the reader is not notified yet, and the caller must call
 * mailbox_wake() later; 0 otherwise. */
int mailbox_post(mailbox_t *m, void *from, flux_msg_t *msg, int code, size_t limit);
void mailbox_wake(mailbox_t *m);

/* Take all envelopes: returns an array that is valid until the next mailbox_take(), and its
 * length. */
struct envelope *mailbox_take(mailbox_t *m, size_t *count);

/* Were envelopes put in since the last mailbox_take()?  Very cheap. */
bool mailbox_has_new(const mailbox_t *m);

/* Note that the reader sets aside some envelopes that it took.  They count as waiting, also for
 * limits, until mailbox_done(). */
void mailbox_set_aside(mailbox_t *m, size_t envelopes, size_t bytes);
void mailbox_done(mailbox_t *m, size_t envelopes, size_t bytes);
/* Make the descriptor readable, so that the reader continues with the envelopes that it has set
 * aside. */
void mailbox_again(mailbox_t *m);

/* Number of waiting envelopes (a snapshot). */
size_t mailbox_count(mailbox_t *m);

#endif
