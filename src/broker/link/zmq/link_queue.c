/* link_queue.c - a queue of messages that makes frames.
 *
 * Invariants:
 *  1. `count` and `bytes` include every message that ZeroMQ has not taken, encoded or not, so the
 *     bounds of the owner hold.
 *  2. Messages are encoded directly into the frame, once: there is no copy between message and
 *     frame.
 *  3. The messages of `frame` stay in the ring until link_queue_sent(), so that the queue stays
 *     complete when a frame cannot be made.
 *  4. A message larger than LINK_FRAME_MAX is encoded once into a `link_whole`, and is sent as a
 *     ZeroMQ message of several parts that share this memory.  The threads of ZeroMQ release their
 *     references, so the counter is atomic.  A part is at most one frame: the limit on the memory
 *     that a stranger can make a broker allocate before authentication (ZMQ_MAXMSGSIZE) can
 *     therefore be one frame.
 *
 * Failure: without memory the queue is unchanged, and the caller gets ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "link_queue.h"
#include "libutil/invariant.h"

#define RING_MIN 16

struct link_whole {
    atomic_uint refs;
    size_t size;
    char data[];
};

static void whole_release(void *data, void *hint)
{
    struct link_whole *w = hint;

    (void)data;
    if (w && atomic_fetch_sub(&w->refs, 1) == 1)
        free(w);
}

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
    INVARIANT(1, n <= q->count);
    q->count -= n;
    if (q->count == 0 && q->cap > 1024) { /* release the memory of a burst */
        free(q->ring);
        q->ring = NULL;
        q->cap = q->head = 0;
    }
}

void link_queue_clear(struct link_queue *q)
{
    if (q->framed)
        zmq_msg_close(&q->frame);
    whole_release(NULL, q->whole);
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
    INVARIANT(1, q->count <= q->cap);
    return 0;
}

size_t link_queue_backlog(const struct link_queue *q)
{
    return q->count > 0 ? q->bytes - flux_msg_encoded_size(at(q, 0)) : 0;
}

/* Make a frame of the part of `q->whole` at `q->part_at`. */
static zmq_msg_t *next_part(struct link_queue *q)
{
    size_t left = q->whole->size - q->part_at;

    INVARIANT(4, q->part_at < q->whole->size);
    atomic_fetch_add(&q->whole->refs, 1);
    if (zmq_msg_init_data(&q->frame, q->whole->data + q->part_at,
                          left < LINK_FRAME_MAX ? left : LINK_FRAME_MAX, whole_release,
                          q->whole) < 0) {
        whole_release(NULL, q->whole);
        errno = ENOMEM;
        return NULL;
    }
    q->framed = true;
    return &q->frame;
}

/* Make the first frame of the front message, which is larger than a frame. */
static zmq_msg_t *cut_message(struct link_queue *q, size_t size)
{
    struct link_whole *w = malloc(sizeof(*w) + size);

    if (!w) {
        errno = ENOMEM;
        return NULL;
    }
    atomic_init(&w->refs, 1);
    w->size = size;
    flux_msg_encode(at(q, 0), w->data);
    q->whole = w;
    q->part_at = 0;
    q->frame_count = 1;
    q->frame_bytes = size;
    return next_part(q);
}

zmq_msg_t *link_queue_frame(struct link_queue *q)
{
    size_t n = 0, bytes = 0;
    char *p;

    if (q->framed)
        return &q->frame;
    if (q->whole)
        return next_part(q);
    if (q->count > 0 && (bytes = flux_msg_encoded_size(at(q, 0))) > LINK_FRAME_MAX)
        return cut_message(q, bytes);
    bytes = 0;
    while (n < q->count) {
        size_t size = flux_msg_encoded_size(at(q, n));

        if (bytes + size > LINK_FRAME_MAX)
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
    INVARIANT(2, p == (char *)zmq_msg_data(&q->frame) + bytes);
    q->framed = true;
    q->frame_count = n;
    q->frame_bytes = bytes;
    return &q->frame;
}

bool link_queue_more(const struct link_queue *q)
{
    return q->whole && q->whole->size - q->part_at > LINK_FRAME_MAX;
}

bool link_queue_begun(const struct link_queue *q)
{
    return q->whole && q->part_at > 0;
}

void link_queue_sent(struct link_queue *q)
{
    if (!q->framed)
        return;
    zmq_msg_close(&q->frame);
    q->framed = false;
    if (link_queue_more(q)) {
        q->part_at += LINK_FRAME_MAX;
        return;
    }
    whole_release(NULL, q->whole);
    q->whole = NULL;
    q->part_at = 0;
    INVARIANT(3, q->frame_count > 0 && q->frame_count <= q->count);
    INVARIANT(1, q->frame_bytes <= q->bytes);
    q->bytes -= q->frame_bytes;
    drop_front(q, q->frame_count);
    INVARIANT(1, q->count > 0 || q->bytes == 0);
}
