/* courier.c - reliable requests, in the order in which they were posted.
 *
 * state      meaning                        left when                                     by
 * idle       nothing is queued              courier_post()                                post
 * sent       the first parcel is under way  it is answered: the next is sent, or idle     answer_cb
 * pausing    its receiver had no room, or   the pause is over: it is sent again           timer_cb
 *            the way to it was lost
 *
 * Invariants:
 *  1. At most one request is under way, so a request that was refused for lack of room cannot be
 *     overtaken by a later one.
 *  2. EAGAIN means that a request was not handled: a full mailbox or queue refuses it before its
 *     receiver sees it.  Only then is it sent again, so nothing is delivered twice; except with
 *     FLUX_MSGF_IDEMPOTENT, when the way was lost, up to LOST_MAX times.
 *  3. The pause grows from PAUSE_MIN to PAUSE_MAX while the receiver has no room.
 *
 * Memory: the caller bounds what it posts; the courier adds only the parcels.
 */
#include "config.h"
#include "courier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/list.h"
#include "libutil/invariant.h"

#define PAUSE_MIN 0.005
#define PAUSE_MAX 0.5
#define LOST_MAX 20

struct parcel {
    struct list_node node;
    const char *topic;
    uint32_t nodeid;
    unsigned lost; /* how often it was, with its way */
    bool raw;
    size_t len;
    void *data;
    char name[];
};

struct courier {
    flux_t *h;
    unsigned flags;
    struct courier_callbacks cbs;
    void *arg;
    struct list_node queue;
    flux_future_t *f; /* of the first parcel */
    flux_watcher_t *timer;
    double pause;
    bool *gone; /* set when destroyed in a callback */
};

static void send_first(courier_t *c);

static void parcel_free(struct parcel *p)
{
    list_remove(&p->node);
    free(p->data);
    free(p);
}

static void wait_for_room(courier_t *c)
{
    INVARIANT(3, c->pause >= PAUSE_MIN && c->pause <= PAUSE_MAX);
    flux_timer_start(c->timer, c->pause, 0.);
    c->pause = c->pause * 2 < PAUSE_MAX ? c->pause * 2 : PAUSE_MAX;
}

static void answer_cb(flux_future_t *f, void *arg)
{
    courier_t *c = arg;
    struct parcel *p = list_entry(list_first(&c->queue), struct parcel, node);
    int errnum = flux_future_errnum(f);
    bool gone = false;

    INVARIANT(1, c->f == f);
    INVARIANT(1, !list_empty(&c->queue));
    c->f = NULL;
    if (errnum == EAGAIN ||
        (errnum == EHOSTUNREACH && (c->flags & FLUX_MSGF_IDEMPOTENT) && p->lost++ < LOST_MAX)) {
        flux_future_destroy(f);
        wait_for_room(c);
        return;
    }
    list_remove(&p->node);
    c->pause = PAUSE_MIN;
    c->gone = &gone;
    if (errnum && c->cbs.failed)
        c->cbs.failed(c->arg, p->topic, errnum, flux_future_error(f));
    flux_future_destroy(f);
    parcel_free(p);
    if (!gone && !c->f && !list_empty(&c->queue))
        send_first(c);
    if (!gone && list_empty(&c->queue) && c->cbs.idle)
        c->cbs.idle(c->arg);
    if (!gone)
        c->gone = NULL;
}

static void send_first(courier_t *c)
{
    const struct parcel *p = list_entry(list_first(&c->queue), struct parcel, node);

    INVARIANT(1, !c->f);
    c->f = p->raw ? flux_rpc_raw(c->h, p->topic, p->data, p->len, p->nodeid, c->flags)
                  : flux_rpc(c->h, p->topic, p->data, p->nodeid, c->flags);
    if (c->f && flux_future_then(c->f, -1., answer_cb, c) == 0)
        return;
    flux_future_destroy(c->f);
    c->f = NULL;
    wait_for_room(c);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    courier_t *c = arg;

    if (!c->f && !list_empty(&c->queue))
        send_first(c);
}

static int queue(courier_t *c, const char *topic, uint32_t nodeid, void *data, size_t len, bool raw)
{
    size_t n = strlen(topic) + 1;
    struct parcel *p = malloc(sizeof(*p) + n);

    if (!p) {
        free(data);
        errno = ENOMEM;
        return -1;
    }
    memcpy(p->name, topic, n);
    p->topic = p->name;
    p->nodeid = nodeid;
    p->lost = 0;
    p->data = data;
    p->len = len;
    p->raw = raw;
    list_append(&c->queue, &p->node);
    return 0;
}

static int post(courier_t *c, const char *topic, uint32_t nodeid, void *data, size_t len, bool raw)
{
    bool first = list_empty(&c->queue);

    if (queue(c, topic, nodeid, data, len, raw) < 0)
        return -1;
    if (first && !c->f)
        send_first(c);
    return 0;
}

int courier_post(courier_t *c, const char *topic, uint32_t nodeid, void *data, size_t len)
{
    return post(c, topic, nodeid, data, len, true);
}

int courier_post_json(courier_t *c, const char *topic, uint32_t nodeid, char *json)
{
    return post(c, topic, nodeid, json, 0, false);
}

bool courier_busy(const courier_t *c)
{
    return !list_empty(&c->queue);
}

void courier_clear(courier_t *c)
{
    struct list_node *n;

    flux_watcher_stop(c->timer);
    flux_future_destroy(c->f);
    c->f = NULL;
    c->pause = PAUSE_MIN;
    while ((n = list_first(&c->queue)))
        parcel_free(list_entry(n, struct parcel, node));
}

void courier_save(const courier_t *c, flux_handover_t *o)
{
    LIST_FOREACH(it, &c->queue)
    {
        const struct parcel *p = list_entry(it, struct parcel, node);
        size_t len = p->raw ? p->len : strlen(p->data) + 1;

        flux_handover_put_str(o, p->topic);
        flux_handover_put(o, p->nodeid);
        flux_handover_put(o, p->raw);
        flux_handover_put_data(o, p->data, len);
    }
    flux_handover_put_str(o, NULL);
    flux_handover_put(o, c->f != NULL);
    flux_handover_put(o, c->f ? flux_rpc_tag(c->f) : 0);
}

static int load_parcel(courier_t *c, const char *topic, flux_handover_t *o)
{
    uint32_t nodeid = (uint32_t)flux_handover_get(o, UINT32_MAX);
    bool raw = flux_handover_get(o, 1);
    size_t len;
    const void *data = flux_handover_get_data(o, &len);
    void *copy = malloc(len + 1);

    if (copy && flux_handover_ok(o)) {
        memcpy(copy, data, len);
        if (queue(c, topic, nodeid, copy, len, raw) == 0)
            return 0;
    } else {
        free(copy);
    }
    flux_handover_fail(o, ENOMEM);
    return -1;
}

bool courier_load(courier_t *c, flux_handover_t *o)
{
    const char *topic;
    uint32_t tag;
    bool sent;

    while ((topic = flux_handover_get_str(o)) && load_parcel(c, topic, o) == 0)
        ;
    sent = flux_handover_get(o, 1);
    tag = (uint32_t)flux_handover_get(o, UINT32_MAX);
    if (!flux_handover_ok(o))
        return false;
    if (list_empty(&c->queue))
        return true;
    if (!sent) {
        wait_for_room(c);
        return true;
    }
    c->f = flux_rpc_resume(c->h, "", 0, c->flags, tag);
    if (c->f && flux_future_then(c->f, -1., answer_cb, c) == 0)
        return true;
    flux_handover_fail(o, ENOMEM);
    return false;
}

courier_t *courier_create(flux_t *h, unsigned flags, const struct courier_callbacks *cbs, void *arg)
{
    courier_t *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->h = h;
    c->flags = flags;
    if (cbs)
        c->cbs = *cbs;
    c->arg = arg;
    c->pause = PAUSE_MIN;
    list_init(&c->queue);
    if (!(c->timer = flux_timer_create(flux_get_reactor(h), timer_cb, c))) {
        free(c);
        errno = ENOMEM;
        return NULL;
    }
    return c;
}

void courier_destroy(courier_t *c)
{
    int errnum = errno;

    if (!c)
        return;
    courier_clear(c);
    if (c->gone)
        *c->gone = true;
    flux_watcher_destroy(c->timer);
    free(c);
    errno = errnum;
}
