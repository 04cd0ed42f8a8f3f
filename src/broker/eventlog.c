/* eventlog.c - past events, as bytes in a few large segments.
 *
 * Thousands of events are kept, and for a long time.  As messages, allocated among short-lived
 * ones, they would keep pages all over the heap in use.
 *
 * Invariants:
 *  1. A segment holds complete frames, one after the other, from `begin` to `end`; no segment in
 *     the list is empty.
 *  2. `bytes` is the sum of all frames, and at most `limit` unless there is only one frame.
 *
 * Failure: if memory for an event is short, the log becomes empty.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "eventlog.h"
#include "libutil/list.h"
#include "libutil/invariant.h"

#define SEGMENT_SIZE (256 * 1024)

struct segment {
    struct list_node node;
    size_t begin;
    size_t end;
    size_t size;
    size_t count; /* number of frames from `begin` on */
    char data[];
};

struct eventlog {
    struct list_node segments; /* oldest first */
    size_t limit;
    size_t bytes;
    size_t count;
};

eventlog_t *eventlog_create(size_t limit)
{
    eventlog_t *l = calloc(1, sizeof(*l));

    if (l) {
        list_init(&l->segments);
        l->limit = limit;
    }
    return l;
}

static void segment_free(struct segment *s)
{
    list_remove(&s->node);
    free(s);
}

void eventlog_clear(eventlog_t *l)
{
    struct list_node *n;

    while ((n = list_first(&l->segments)))
        segment_free(list_entry(n, struct segment, node));
    l->bytes = l->count = 0;
}

void eventlog_destroy(eventlog_t *l)
{
    if (l) {
        int saved = errno;
        eventlog_clear(l);
        free(l);
        errno = saved;
    }
}

size_t eventlog_count(const eventlog_t *l)
{
    return l->count;
}

/* Size of the frame at `at`, which is valid because it was written here. */
static size_t frame_size(const struct segment *s, size_t at)
{
    return (size_t)flux_msg_frame_size(s->data + at, s->end - at, NULL);
}

static void drop_oldest(eventlog_t *l)
{
    struct segment *s = list_entry(list_first(&l->segments), struct segment, node);
    size_t size = frame_size(s, s->begin);

    INVARIANT(1, size > 0 && s->begin + size <= s->end);
    INVARIANT(2, l->count > 0 && l->bytes >= size);
    s->begin += size;
    s->count--;
    l->bytes -= size;
    l->count--;
    INVARIANT(1, (s->begin == s->end) == (s->count == 0));
    if (s->begin == s->end)
        segment_free(s);
}

/* The last segment, or a new one, with room for `size` bytes at its end. */
static struct segment *room(eventlog_t *l, size_t size)
{
    struct segment *s = NULL;

    if (!list_empty(&l->segments))
        s = list_entry(l->segments.prev, struct segment, node);
    if (s && s->size - s->end >= size)
        return s;
    if (size < SEGMENT_SIZE)
        size = SEGMENT_SIZE;
    if (!(s = malloc(sizeof(*s) + size)))
        return NULL;
    s->begin = s->end = s->count = 0;
    s->size = size;
    list_append(&l->segments, &s->node);
    return s;
}

void eventlog_set_limit(eventlog_t *l, size_t limit)
{
    l->limit = limit;
    while (l->count > 1 && l->bytes > limit)
        drop_oldest(l);
}

int eventlog_append(eventlog_t *l, const flux_msg_t *msg)
{
    size_t size = flux_msg_encoded_size(msg);
    struct segment *s;

    while (l->count > 0 && l->bytes + size > l->limit)
        drop_oldest(l);
    if (!(s = room(l, size))) {
        eventlog_clear(l);
        errno = ENOMEM;
        return -1;
    }
    flux_msg_encode(msg, s->data + s->end);
    s->end += size;
    s->count++;
    l->bytes += size;
    l->count++;
    INVARIANT(1, s->end <= s->size);
    INVARIANT(2, l->bytes <= l->limit || l->count == 1);
    return 0;
}

int eventlog_each(const eventlog_t *l, size_t skip, eventlog_f cb, void *arg)
{
    LIST_FOREACH(it, &l->segments)
    {
        struct segment *s = list_entry(it, struct segment, node);
        size_t size;
        int rc;

        if (skip >= s->count) {
            skip -= s->count;
            continue;
        }
        for (size_t at = s->begin; at < s->end; at += size) {
            flux_msg_t *msg;
            size = frame_size(s, at);
            if (skip > 0) {
                skip--;
                continue;
            }
            if (!(msg = flux_msg_decode(s->data + at, size, NULL)) || (rc = cb(arg, msg)) < 0)
                return -1;
            if (rc > 0)
                return 0;
        }
    }
    return 0;
}
