/* glue.c - between the callbacks of libflux and Python.
 *
 * libflux calls back while it handles messages.  Python code is not called then: it could close the
 * handle below the feet of the caller, raise an exception that has no way out, or be interrupted by
 * a signal.  So callbacks only put what has become ready into a queue, and Python takes it out when
 * the call has returned.  No function here needs Python, so all of this happens without its lock.
 *
 * Python does not know the exit status of its process until it has ended, with all of its objects:
 * what it writes is left here, after that.
 *
 * Invariants:
 *  1. A watch or an event queue is in the queue at most once.
 *  2. An event queue has at most `max` events of `max_bytes` bytes, or one larger event.  When it
 *     is full, the oldest events are dropped and counted.
 *
 * Failure: NULL with ENOMEM.  An event for which there is no memory counts as dropped.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"

#define LOST_TOPIC "event.lost"

struct node {
    struct node *prev, *next;
};

/* Something that becomes ready. */
struct source {
    struct node ready; /* in pyflux_queue.ready */
    uint64_t id;
};

struct pyflux_queue {
    flux_t *h;
    struct node ready;
    struct node watches;
    struct node events;
};

struct pyflux_watch {
    struct source source; /* first */
    struct node node;
    pyflux_queue_t *q;
    flux_future_t *f;
};

struct queued {
    struct queued *next;
    flux_msg_t *msg;
    size_t bytes;
};

struct pyflux_events {
    struct source source; /* first */
    struct node node;
    pyflux_queue_t *q;
    struct flux_handler table[3];
    flux_handlers_t *handlers;
    char *prefix;
    struct queued *first, **last;
    size_t count, bytes;
    size_t max, max_bytes;
    uint64_t dropped;
};

/* --- lists --- */

static void node_init(struct node *n)
{
    n->prev = n->next = n;
}

static void node_remove(struct node *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    node_init(n);
}

static void node_append(struct node *head, struct node *n)
{
    n->prev = head->prev;
    n->next = head;
    head->prev->next = n;
    head->prev = n;
}

#define NODE_ENTRY(n, type, member) ((type *)((char *)(n)-offsetof(type, member)))

/* --- the queue --- */

static void make_ready(pyflux_queue_t *q, struct source *s)
{
    if (s->ready.next == &s->ready)
        node_append(&q->ready, &s->ready);
}

/* Python looks at futures, which have ended then, and does not run the reactor. */
static void lost_cb(flux_t *h, void *arg)
{
}

pyflux_queue_t *pyflux_queue_create(flux_t *h)
{
    pyflux_queue_t *q = calloc(1, sizeof(*q));

    if (q) {
        q->h = h;
        node_init(&q->ready);
        node_init(&q->watches);
        node_init(&q->events);
        flux_set_lost_handler(h, lost_cb, NULL);
    }
    return q;
}

void pyflux_queue_destroy(pyflux_queue_t *q)
{
    if (q) {
        while (q->watches.next != &q->watches)
            pyflux_watch_destroy(NODE_ENTRY(q->watches.next, pyflux_watch_t, node));
        while (q->events.next != &q->events)
            pyflux_events_destroy(NODE_ENTRY(q->events.next, pyflux_events_t, node));
        free(q);
    }
}

uint64_t pyflux_queue_next(pyflux_queue_t *q)
{
    struct node *n = q->ready.next;

    if (n == &q->ready)
        return 0;
    node_remove(n);
    return NODE_ENTRY(n, struct source, ready)->id;
}

/* --- futures --- */

static void future_cb(flux_future_t *f, void *arg)
{
    pyflux_watch_t *w = arg;

    make_ready(w->q, &w->source);
}

pyflux_watch_t *pyflux_watch_create(pyflux_queue_t *q, flux_future_t *f, uint64_t id)
{
    pyflux_watch_t *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    node_init(&w->source.ready);
    w->source.id = id;
    w->q = q;
    w->f = f;
    if (flux_future_then(f, 0., future_cb, w) < 0) {
        free(w);
        return NULL;
    }
    node_append(&q->watches, &w->node);
    return w;
}

void pyflux_watch_destroy(pyflux_watch_t *w)
{
    if (w) {
        (void)flux_future_then(w->f, 0., NULL, NULL);
        node_remove(&w->source.ready);
        node_remove(&w->node);
        free(w);
    }
}

/* --- events --- */

static void drop_first(pyflux_events_t *ev)
{
    struct queued *e = ev->first;

    if (!(ev->first = e->next))
        ev->last = &ev->first;
    ev->count--;
    ev->bytes -= e->bytes;
    free(e);
}

static void event_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    pyflux_events_t *ev = arg;
    struct queued *e = malloc(sizeof(*e));

    make_ready(ev->q, &ev->source);
    if (!e) {
        ev->dropped++;
        return;
    }
    e->next = NULL;
    e->msg = flux_msg_incref(msg);
    e->bytes = flux_msg_encoded_size(msg);
    while (ev->first && (ev->count >= ev->max || ev->bytes + e->bytes > ev->max_bytes)) {
        flux_msg_destroy(ev->first->msg);
        drop_first(ev);
        ev->dropped++;
    }
    *ev->last = e;
    ev->last = &e->next;
    ev->count++;
    ev->bytes += e->bytes;
}

pyflux_events_t *pyflux_events_create(pyflux_queue_t *q, const char *prefix, size_t max,
                                      size_t max_bytes, uint64_t id)
{
    pyflux_events_t *ev = calloc(1, sizeof(*ev));

    if (!ev)
        return NULL;
    node_init(&ev->source.ready);
    node_init(&ev->node);
    ev->source.id = id;
    ev->q = q;
    ev->max = max;
    ev->max_bytes = max_bytes;
    ev->last = &ev->first;
    if (!(ev->prefix = strdup(prefix)))
        goto error;
    ev->table[0] =
        (struct flux_handler){.type = FLUX_MSG_EVENT, .topic = ev->prefix, .cb = event_cb};
    /* What the broker sends in place of events that it had to drop. */
    if (!flux_topic_prefix(LOST_TOPIC, prefix))
        ev->table[1] =
            (struct flux_handler){.type = FLUX_MSG_EVENT, .topic = LOST_TOPIC, .cb = event_cb};
    if (!(ev->handlers = flux_handlers_add(q->h, ev->table, ev)))
        goto error;
    node_append(&q->events, &ev->node);
    return ev;
error:
    pyflux_events_destroy(ev);
    return NULL;
}

void pyflux_events_destroy(pyflux_events_t *ev)
{
    if (ev) {
        flux_handlers_remove(ev->handlers);
        node_remove(&ev->source.ready);
        node_remove(&ev->node);
        while (ev->first) {
            flux_msg_destroy(ev->first->msg);
            drop_first(ev);
        }
        free(ev->prefix);
        free(ev);
    }
}

flux_msg_t *pyflux_events_take(pyflux_events_t *ev)
{
    flux_msg_t *msg = NULL;

    if (ev->first) {
        msg = ev->first->msg;
        drop_first(ev);
    }
    return msg;
}

uint64_t pyflux_events_dropped(pyflux_events_t *ev)
{
    uint64_t n = ev->dropped;

    ev->dropped = 0;
    return n;
}

/* --- the rest --- */

json_t *pyflux_json(const char *text, size_t len)
{
    json_t *obj;

    errno = 0;
    obj = json_loadb(text, len, JSON_DECODE_ANY, NULL);
    if (!obj && errno != ENOMEM)
        errno = EINVAL;
    return obj;
}

static void leave(int status, void *arg)
{
    if (status != 0)
        flux_stream_fail(arg);
    flux_stream_leave(arg);
}

int pyflux_leave_at_exit(flux_stream_t *s)
{
    if (on_exit(leave, s) == 0)
        return 0;
    errno = ENOMEM;
    return -1;
}

const char *pyflux_version(void)
{
    return PYFLUX_VERSION;
}
