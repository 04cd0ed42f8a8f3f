/* Messages over a stream socket: splits input into messages, and queues output.
 *
 * Used by both ends of a local connection.  Calls never block, whatever the socket's blocking mode,
 * except framer_read() with `wait`.
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

/* --- input --- */

typedef struct framer framer_t;
#define FRAMER_SCRATCH 32768 /* least size of scratch memory */

framer_t *framer_create(void);    /* NULL with ENOMEM */
void framer_destroy(framer_t *f); /* NULL-safe, keeps errno */

/* Read once from `fd`; call it when framer_next() has returned EAGAIN.  `scratch` (of `size` >=
 * FRAMER_SCRATCH bytes) may be shared by many framers, but must stay unchanged until framer_next()
 * returns EAGAIN or framer_park() was called.  `wait`: block if the socket does.  Returns what
 * recv(2) returns: 0 at the end of the stream, -1 with EAGAIN, EINTR, ECONNRESET... or ENOMEM. */
ssize_t framer_read(framer_t *f, int fd, void *scratch, size_t size, bool wait);

/* Read at most `most` bytes at once, except for a frame that does not fit in the scratch memory; 0,
 * the default: as many as fit.  The kernel frees a buffer for each message that the other side
 * sent, so a read of many small messages takes long. */
void framer_set_read_max(framer_t *f, size_t most);

/* Accept no text request with a payload of more than `max` bytes: the payload is discarded as it
 * comes in, and the message is handed out without it.  Default: only the limit of all messages. */
void framer_set_text_max(framer_t *f, size_t max);
/* Number of payload bytes of the last returned message that were discarded because of that limit;
 * 0: none. */
size_t framer_dropped(const framer_t *f);

/* Keep the first descriptor that comes with the bytes of the messages (unix(7), SCM_RIGHTS), until
 * framer_take_fd(), which returns it (close-on-exec, owned by the caller), or -1.  At other times
 * the kernel drops descriptors. */
void framer_want_fd(framer_t *f);
int framer_take_fd(framer_t *f);

/* The next message.  NULL with EAGAIN (read more), EPROTO and an error message (the stream is
 * unusable), or ENOMEM (likewise). */
flux_msg_t *framer_next(framer_t *f, errmsg_t *err);

/* Release the scratch memory before all messages were taken: the rest is copied.  -1 with ENOMEM.
 */
int framer_park(framer_t *f);
/* Were bytes read that are not yet part of a returned message? */
bool framer_pending(const framer_t *f);

/* Memory of bytes that were read and not yet returned, apart from the scratch memory. */
size_t framer_memory(const framer_t *f);

/* --- output --- */

typedef struct outq outq_t;

outq_t *outq_create(void);    /* NULL with ENOMEM */
void outq_destroy(outq_t *q); /* NULL-safe, keeps errno */

/* Append a message (not taken over).  -1 with ENOMEM; then nothing was appended. */
int outq_add(outq_t *q, const flux_msg_t *msg);
/* Write a message at once if nothing is queued (not taken over), and queue what the socket does not
 * accept.  0, or -1 with ENOMEM, or an error of send(2) other than EAGAIN. */
int outq_send(outq_t *q, int fd, const flux_msg_t *msg);
/* The same, and pass a duplicate of the descriptor `pass` with the first byte.  It is not passed if
 * messages are queued, or the kernel refuses it; the message is sent in any case. */
int outq_send_fd(outq_t *q, int fd, const flux_msg_t *msg, int pass);
/* Write as many bytes as the socket accepts.  0 if the queue is empty, 1 if bytes are left, -1 with
 * an error of sendmsg(2). */
int outq_flush(outq_t *q, int fd);

size_t outq_bytes(const outq_t *q);
/* Number of messages queued, including one that is partly written, and perhaps a few before it. */
size_t outq_messages(const outq_t *q);

#endif
