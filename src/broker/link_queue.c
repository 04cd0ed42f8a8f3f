/* Queue of messages with framing.
 *
 * 1. `count` and `bytes` cover everything that ZeroMQ has not taken, whether it is encoded
 *    already or not; so the owner's bounds mean what they say.
 * 2. Messages are encoded straight into the frame, once: there is no copy between message and
 *    frame.
 * 3. Messages in `frame` stay in the ring until link_queue_sent(), which costs nothing and keeps
 *    the queue whole when making a frame fails.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link_queue.h"

#define RING_MIN 16

void link_queue_init(struct link_queue *q)
{
    memset(q, 0, sizeof(*q));
}

static flux_msg_t *at(const struct link_queue *q, size_t i)
{
    return q->ring[(q->head + i) & (q->cap - 1)];
}

static void drop_front(struct link_queue *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        flux_msg_t *msg = at(q, 0);

        q->head = (q->head + 1) & (q->cap - 1);
        flux_msg_destroy(msg);
    }
    q->count -= n;
    if (q->count == 0 && q->cap > 1024) { /* give back what a burst took */
        free(q->ring);
        q->ring = NULL;
        q->cap = q->head = 0;
    }
}

void link_queue_clear(struct link_queue *q)
{
    if (q->framed)
        zmq_msg_close(&q->frame);
    drop_front(q, q->count);
    free(q->ring);
    link_queue_init(q);
}

static int grow(struct link_queue *q)
{
    size_t cap = q->cap ? q->cap * 2 : RING_MIN;
    flux_msg_t **ring = calloc(cap, sizeof(ring[0]));

    if (!ring)
        return -1;
    for (size_t i = 0; i < q->count; i++)
        ring[i] = at(q, i);
    free(q->ring);
    q->ring = ring;
    q->cap = cap;
    q->head = 0;
    return 0;
}

int link_queue_push(struct link_queue *q, flux_msg_t *msg)
{
    if (q->count == q->cap && grow(q) < 0) {
        errno = ENOMEM;
        return -1;
    }
    q->ring[(q->head + q->count) & (q->cap - 1)] = msg;
    q->count++;
    q->bytes += flux_msg_encoded_size(msg);
    return 0;
}

size_t link_queue_backlog(const struct link_queue *q)
{
    return q->count > 0 ? q->bytes - flux_msg_encoded_size(at(q, 0)) : 0;
}

zmq_msg_t *link_queue_frame(struct link_queue *q)
{
    size_t n = 0, bytes = 0;
    char *p;

    if (q->framed)
        return &q->frame;
    while (n < q->count) {
        size_t size = flux_msg_encoded_size(at(q, n));

        if (n > 0 && bytes + size > LINK_FRAME_MAX)
            break;
        bytes += size;
        n++;
    }
    if (n == 0) {
        errno = 0;
        return NULL;
    }
    if (zmq_msg_init_size(&q->frame, bytes) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    p = zmq_msg_data(&q->frame);
    for (size_t i = 0; i < n; i++) {
        flux_msg_encode(at(q, i), p);
        p += flux_msg_encoded_size(at(q, i));
    }
    q->framed = true;
    q->frame_count = n;
    q->frame_bytes = bytes;
    return &q->frame;
}

void link_queue_sent(struct link_queue *q)
{
    if (!q->framed)
        return;
    zmq_msg_close(&q->frame);
    q->framed = false;
    q->bytes -= q->frame_bytes;
    drop_front(q, q->frame_count);
}
