/* buf.c - growable byte queue.
 *
 *      data           data+head            data+head+len        data+cap
 *       | consumed        | held                | free              |
 *
 * Invariants:
 *  1. head + len <= cap, and len <= max if there is a limit.
 *  2. Held bytes move only if the space freed before them is at least as large as they are, or if
 *     the block is replaced by one of another size class.  A byte is thus moved a constant number
 *     of times on average, however small the pieces are.
 *  3. An empty buffer keeps at most KEEP bytes of memory.  A nearly empty one keeps at most four
 *     times what it needs beyond that.
 *
 * Failure: ENOBUFS beyond the limit, ENOMEM without memory; in both cases nothing has changed.
 */
#include "config.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "libutil/invariant.h"

#define MIN_CAP ((size_t)256)
#define KEEP ((size_t)65536)

struct buf {
    unsigned char *data;
    size_t cap;
    size_t head;
    size_t len;
    size_t max;
};

buf_t *buf_create(size_t max)
{
    buf_t *b = calloc(1, sizeof(*b));

    if (b)
        b->max = max;
    return b;
}

void buf_destroy(buf_t *b)
{
    int saved = errno;

    if (b) {
        free(b->data);
        free(b);
    }
    errno = saved;
}

/* Move the held bytes to the front of a block of `cap` bytes. */
static int replace(buf_t *b, size_t cap)
{
    unsigned char *p = malloc(cap);

    if (!p)
        return -1;
    if (b->len > 0)
        memcpy(p, b->data + b->head, b->len);
    free(b->data);
    b->data = p;
    b->cap = cap;
    b->head = 0;
    return 0;
}

void *buf_reserve(buf_t *b, size_t len)
{
    size_t need;
    size_t cap;

    if (len == 0)
        len = 1; /* so that the pointer is never NULL or past the end */
    if (len > SIZE_MAX / 4 - b->len || (b->max > 0 && len > b->max - b->len)) {
        errno = ENOBUFS;
        return NULL;
    }
    need = b->len + len;
    if (len <= b->cap - b->head - b->len)
        return b->data + b->head + b->len;
    for (cap = MIN_CAP; cap < need; cap *= 2)
        ;
    if (need <= b->cap && b->head >= b->len && (b->cap <= KEEP || cap > b->cap / 4)) {
        memmove(b->data, b->data + b->head, b->len);
        b->head = 0;
    } else {
        /* A block that must be replaced although it is large enough has bytes in its second half:
         * without the doubling they would soon move again. */
        if (cap == b->cap && b->len > b->head)
            cap *= 2;
        if (replace(b, cap) < 0)
            return NULL;
    }
    return b->data + b->len;
}

void buf_commit(buf_t *b, size_t len)
{
    assert(len <= b->cap - b->head - b->len);
    b->len += len;
}

int buf_append(buf_t *b, const void *data, size_t len)
{
    void *p;

    if (len == 0)
        return 0;
    p = buf_reserve(b, len);
    if (!p)
        return -1;
    memcpy(p, data, len);
    b->len += len;
    INVARIANT(1, b->head + b->len <= b->cap && (b->max == 0 || b->len <= b->max));
    return 0;
}

const void *buf_data(const buf_t *b)
{
    return b->data ? (const void *)(b->data + b->head) : (const void *)"";
}

size_t buf_len(const buf_t *b)
{
    return b->len;
}

void buf_consume(buf_t *b, size_t len)
{
    if (len > b->len)
        len = b->len;
    b->head += len;
    b->len -= len;
    if (b->len > 0)
        return;
    b->head = 0;
    if (b->cap > KEEP) {
        free(b->data);
        b->data = NULL;
        b->cap = 0;
    }
    INVARIANT(3, b->cap <= KEEP);
}
