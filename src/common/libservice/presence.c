/* presence.c - questions about senders whose way was lost.
 *
 * Format: overlay.sender to the broker of the sender (libflux/overlay_wire.h).  The number of
 * an endpoint is not used twice, so the answer holds for good if it is no.
 *
 *     state of a sender   meaning                              left when (by)
 *     asked               a request is under way; brokers      it is answered: forgotten if the
 *                         hold it while the rank looks for     sender is there, reported if it is
 *                         a parent, and send it again          not, otherwise pausing (answer_cb)
 *     pausing             the timer runs                       it is over (timer_cb): asked
 *
 * Invariants:
 *  1. A sender is in the table from the question to the answer, and only once.
 *  2. A sender about which nothing was learned in TRIES_MAX tries, about a minute, is reported as
 *     one that has ended.
 *
 * Failure: without memory for a question, the caller is told; later, the question is repeated.
 */
#include "config.h"
#include "presence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/dispatch.h"
#include "libflux/future.h"
#include "libflux/overlay_wire.h"
#include "libflux/route.h"
#include "libutil/hmap.h"

#define PAUSE 0.5
#define TRIES_MAX 120

struct presence {
    flux_t *h;
    hmap_t *asked; /* sender -> struct question */
    presence_f ended;
    void *arg;
};

struct question {
    presence_t *p;
    flux_msg_t *notice;
    flux_future_t *f; /* NULL: pausing */
    flux_watcher_t *timer;
    unsigned tries;
    char sender[FLUX_SENDER_MAX];
};

static void question_free(struct question *q)
{
    if (!q)
        return;
    if (hmap_get(q->p->asked, q->sender) == q)
        (void)hmap_take(q->p->asked, q->sender);
    flux_future_destroy(q->f);
    flux_watcher_destroy(q->timer);
    flux_msg_destroy(q->notice);
    free(q);
}

static void report(struct question *q)
{
    presence_t *p = q->p;
    flux_msg_t *notice = flux_msg_incref(q->notice);

    question_free(q);
    p->ended(p->arg, notice);
    flux_msg_destroy(notice);
}

static void pause_or_give_up(struct question *q)
{
    flux_future_destroy(q->f);
    q->f = NULL;
    if (q->tries >= TRIES_MAX)
        report(q);
    else
        flux_timer_start(q->timer, PAUSE, 0.);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct question *q = arg;
    struct overlay_present answer = {0};
    errmsg_t err;

    if (flux_rpc_get_struct(f, &overlay_present_schema, &answer, &err) < 0)
        pause_or_give_up(q);
    else if (answer.present)
        question_free(q);
    else
        report(q);
}

static int ask(struct question *q)
{
    struct overlay_sender in = {.endpoint = flux_route_value(flux_msg_route_at(q->notice, 0))};

    q->tries++;
    q->f = flux_rpc_struct(q->p->h, "overlay.sender", &overlay_sender_schema, &in,
                           flux_route_value(flux_msg_route_at(q->notice, 1)), FLUX_MSGF_IDEMPOTENT);
    return q->f ? flux_future_then(q->f, -1., answer_cb, q) : -1;
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct question *q = arg;

    if (ask(q) < 0)
        pause_or_give_up(q);
}

int presence_ask(presence_t *p, const flux_msg_t *notice)
{
    char sender[FLUX_SENDER_MAX];
    struct question *q;

    /* No way leads through another broker to a sender here. */
    if (flux_msg_route_count(notice) < 2 ||
        hmap_get(p->asked, flux_msg_sender(notice, sender, sizeof(sender))))
        return 0;
    if (!(q = calloc(1, sizeof(*q))))
        return -1;
    q->p = p;
    memcpy(q->sender, sender, sizeof(sender));
    q->notice = flux_msg_incref(notice);
    if ((q->timer = flux_timer_create(flux_get_reactor(p->h), timer_cb, q)) && ask(q) == 0 &&
        hmap_put(p->asked, q->sender, q) == 0)
        return 0;
    question_free(q);
    errno = ENOMEM;
    return -1;
}

presence_t *presence_create(flux_t *h, presence_f ended, void *arg)
{
    presence_t *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->h = h;
    p->ended = ended;
    p->arg = arg;
    if (!(p->asked = hmap_create_str(NULL))) {
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    return p;
}

void presence_destroy(presence_t *p)
{
    int saved = errno;
    size_t pos = 0;
    void *val;

    if (!p)
        return;
    while (hmap_next(p->asked, &pos, NULL, NULL, &val))
        question_free(val);
    hmap_destroy(p->asked);
    free(p);
    errno = saved;
}

void presence_save(const presence_t *p, flux_handover_t *o)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(p->asked, &pos, NULL, NULL, &val))
        flux_handover_put_msg(o, ((struct question *)val)->notice);
    flux_handover_put_msg(o, NULL);
}

void presence_load(presence_t *p, flux_handover_t *o)
{
    flux_msg_t *notice;

    while ((notice = flux_handover_get_msg(o))) {
        if (presence_ask(p, notice) < 0)
            flux_handover_fail(o, ENOMEM);
        flux_msg_destroy(notice);
    }
}
