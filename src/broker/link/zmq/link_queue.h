/* Messages that wait for one ZeroMQ socket or peer, and the frames made of them.
 *
 * A frame holds one or several encoded messages back to back: all that wait, up to a size, since
 * ZeroMQ's costs (a queue slot, a wake-up, and sealing under CURVE) are per frame.
 *
 * Thread rules: one thread.
 */
#ifndef BROKER_LINK_QUEUE_H
#define BROKER_LINK_QUEUE_H

#include <stdbool.h>
#include <zmq.h>

#include "libflux/msg.h"

#define LINK_FRAME_MAX (64u * 1024) /* a frame of several messages is not larger than this */

struct link_queue {
    flux_msg_t **ring;
    size_t cap, head, count; /* messages that wait, those in `frame` included */
    size_t bytes;            /* their encoded size */
    zmq_msg_t frame;         /* the next part: made, and not yet taken by ZeroMQ */
    bool framed;
    size_t frame_count, frame_bytes;
    struct link_whole *whole; /* a large message, encoded, while its parts are being sent */
    size_t part_at;           /* where in `whole` the part in `frame` begins */
};

void link_queue_init(struct link_queue *q);
void link_queue_clear(struct link_queue *q); /* destroys what waits; usable afterwards */

/* Append; takes the message over when it returns 0.  -1 with ENOMEM. */
int link_queue_push(struct link_queue *q, flux_msg_t *msg);

/* Bytes that wait behind the first message: one message may be larger than any bound on a queue. */
size_t link_queue_backlog(const struct link_queue *q);

/* The next part to send, NULL with errno 0 when nothing waits or ENOMEM.  It stays the same until
 * link_queue_sent(): call that once ZeroMQ has taken it.  A part has at most LINK_FRAME_MAX bytes;
 * link_queue_more() says whether it is to be sent with ZMQ_SNDMORE, link_queue_begun() whether
 * parts of the same message were sent before it. */
zmq_msg_t *link_queue_frame(struct link_queue *q);
bool link_queue_more(const struct link_queue *q);
bool link_queue_begun(const struct link_queue *q);
void link_queue_sent(struct link_queue *q);

#endif
