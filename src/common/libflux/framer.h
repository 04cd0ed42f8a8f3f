/* Messages over a stream socket: cutting what comes in into messages, queueing what goes out.
 *
 * Used by both ends of a local connection.  Calls never block; the socket's own blocking mode does
 * not matter.
 *
 * Thread rules: an object belongs to one thread.
 */
#ifndef FLUX_FRAMER_H
#define FLUX_FRAMER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "libutil/errmsg.h"
#include "msg.h"

/* --- in --- */

typedef struct framer framer_t;
#define FRAMER_SCRATCH 32768 /* least size of scratch memory */

framer_t *framer_create(void);    /* NULL with ENOMEM */
void framer_destroy(framer_t *f); /* NULL-safe, keeps errno */

/* Read once from `fd`, to be called when framer_next() has said EAGAIN.  `scratch` (of `size` >=
 * FRAMER_SCRATCH bytes) may be shared by many framers; it must stay as it is until framer_next()
 * says EAGAIN or framer_park() was called.  `wait`: block when the socket does.  Returns what
 * recv(2) does: 0 at the end of the stream, -1 with EAGAIN, EINTR, ECONNRESET... or ENOMEM. */
ssize_t framer_read(framer_t *f, int fd, void *scratch, size_t size, bool wait);

/* Take no text request with a payload of more than `max` bytes: the payload is dropped as it comes in,
 * and the message is handed out without it.  Default: no limit but that of all messages. */
void framer_set_text_max(framer_t *f, size_t max);
/* Bytes of payload that the last message handed out has lost to that limit; 0: none. */
size_t framer_dropped(const framer_t *f);

/* The next message.  NULL with EAGAIN (read more), EPROTO and a sentence (the stream is of no use
 * any more), or ENOMEM (likewise). */
flux_msg_t *framer_next(framer_t *f, errmsg_t *err);

/* Let go of the scratch memory before all messages were taken: the rest is copied.  -1 with ENOMEM.
 */
int framer_park(framer_t *f);
/* Is there anything left that was read and not handed out? */
bool framer_pending(const framer_t *f);

/* --- out --- */

typedef struct outq outq_t;

outq_t *outq_create(void);    /* NULL with ENOMEM */
void outq_destroy(outq_t *q); /* NULL-safe, keeps errno */

/* Append a message (not taken over).  -1 with ENOMEM; then nothing was added. */
int outq_add(outq_t *q, const flux_msg_t *msg);
/* Write a message at once when nothing is queued (not taken over); what the socket does not take is
 * queued.  0, or -1 with ENOMEM, or an error of send(2) other than EAGAIN. */
int outq_send(outq_t *q, int fd, const flux_msg_t *msg);
/* Write what the socket takes.  0 when the queue is empty, 1 when some is left, -1 with an error of
 * sendmsg(2). */
int outq_flush(outq_t *q, int fd);

size_t outq_bytes(const outq_t *q);
/* Messages queued; one that is partly written counts, and so may a few before it. */
size_t outq_messages(const outq_t *q);

#endif
