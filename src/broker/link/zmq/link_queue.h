/* Messages that wait for one ZeroMQ socket or peer, and the frames made of them.
 *
 * A frame holds one or more encoded messages back to back: all messages that wait, up to a size,
 * because the costs of ZeroMQ (a queue slot, a wake-up, and encryption under CURVE) are per frame.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_LINK_QUEUE_H
#define BROKER_LINK_QUEUE_H

#include <stdbool.h>
#include <zmq.h>

#include "libflux/msg.h"

#define LINK_FRAME_MAX (64u * 1024) /* maximum number of bytes of a frame */

struct link_queue {
    flux_msg_t **ring;
    size_t cap, head, count; /* messages that wait, including those in `frame` */
    size_t bytes;            /* their encoded size */
    zmq_msg_t frame;         /* the next part, if ZeroMQ has not taken it yet */
    bool framed;
    size_t frame_count, frame_bytes;
    struct link_whole *whole; /* a large message, encoded, while its parts are being sent */
    size_t part_at;           /* offset in `whole` of the part in `frame` */
};

void link_queue_init(struct link_queue *q);
void link_queue_clear(struct link_queue *q); /* destroys the messages; the queue remains usable */

/* Append a message, and take it over if the result is 0.  Returns -1 with ENOMEM. */
int link_queue_push(struct link_queue *q, flux_msg_t *msg);

/* Return the number of bytes that wait behind the first message.  (One message may exceed any bound
 * on a queue.) */
size_t link_queue_backlog(const struct link_queue *q);

/* Return the next part to send; NULL with errno 0 if no message waits, or with ENOMEM.  The part
 * stays the same until link_queue_sent(), which the caller calls once ZeroMQ has taken it.  A part
 * has at most LINK_FRAME_MAX bytes.  link_queue_more() tells whether it must be sent with
 * ZMQ_SNDMORE, link_queue_begun() whether earlier parts of the same message were sent. */
zmq_msg_t *link_queue_frame(struct link_queue *q);
bool link_queue_more(const struct link_queue *q);
bool link_queue_begun(const struct link_queue *q);
void link_queue_sent(struct link_queue *q);

#endif
