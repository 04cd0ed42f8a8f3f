/* early.c - requests that wait until a module is ready.
 *
 * Invariants:
 *  1. `count` is the number of requests in the list, and at most `max`.
 *  2. Requests are served in the order in which they came.  One that comes while others are served
 *     is not queued, since the module is ready then.
 *
 * Failure: a request that cannot be queued is answered with an error.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "early.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

struct waiting {
    struct list_node node;
    flux_msg_t *req;
    flux_handler_f cb;
    void *arg;
};

struct early {
    flux_t *h;
    size_t max;
    size_t count;
    struct list_node list;
};

early_t *early_create(flux_t *h, size_t max)
{
    early_t *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->h = h;
    e->max = max;
    list_init(&e->list);
    return e;
}

static void drop(early_t *e, struct waiting *w)
{
    INVARIANT(1, e->count > 0);
    list_remove(&w->node);
    e->count--;
    flux_msg_destroy(w->req);
    free(w);
}

void early_destroy(early_t *e)
{
    int saved = errno;

    if (!e)
        return;
    LIST_FOREACH_SAFE(n, tmp, &e->list)
    {
        drop(e, list_entry(n, struct waiting, node));
    }
    INVARIANT(1, e->count == 0);
    free(e);
    errno = saved;
}

void early_put(early_t *e, const flux_msg_t *req, flux_handler_f cb, void *arg)
{
    struct waiting *w = e->count < e->max ? malloc(sizeof(*w)) : NULL;

    if (!w) {
        flux_respond_error(e->h, req, EAGAIN,
                           "%s: rank %u is not ready, and cannot keep more requests",
                           flux_msg_topic(req), flux_rank(e->h));
        return;
    }
    w->req = flux_msg_incref(req);
    w->cb = cb;
    w->arg = arg;
    list_append(&e->list, &w->node);
    e->count++;
    INVARIANT(1, e->count <= e->max);
}

void early_serve(early_t *e)
{
    struct list_node *n;

    while ((n = list_first(&e->list))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        list_remove(n);
        e->count--;
        w->cb(e->h, w->req, w->arg);
        flux_msg_destroy(w->req);
        free(w);
    }
}
