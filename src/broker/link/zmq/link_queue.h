/* Messages that wait for one ZeroMQ socket or peer, and the frames made of them.
 *
 * A frame holds one or more encoded messages back to back: as many as wait, up to a size, because
 * ZeroMQ's costs (a queue slot, a wake-up, and encryption under CURVE) are per frame.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_LINK_QUEUE_H
#define BROKER_LINK_QUEUE_H

#include <stdbool.h>
#include <zmq.h>

#include "libflux/msg.h"

#define LINK_FRAME_MAX (64u * 1024) /* bytes of a frame at most */

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

/* Append a message; takes it over if it returns 0.  -1 with ENOMEM. */
int link_queue_push(struct link_queue *q, flux_msg_t *msg);

/* Bytes that wait behind the first message.  (One message may exceed any bound on a queue.) */
size_t link_queue_backlog(const struct link_queue *q);

/* The next part to send; NULL with errno 0 if nothing waits, or with ENOMEM.  It stays the same
 * until link_queue_sent(), which the caller calls once ZeroMQ has taken it.  A part has at most
 * LINK_FRAME_MAX bytes. link_queue_more() says whether it must be sent with ZMQ_SNDMORE,
 * link_queue_begun() whether earlier parts of the same message were sent. */
zmq_msg_t *link_queue_frame(struct link_queue *q);
bool link_queue_more(const struct link_queue *q);
bool link_queue_begun(const struct link_queue *q);
void link_queue_sent(struct link_queue *q);

#endif
