/* core_offer.c - the heartbeat is sent only through a session in which somebody has subscribed.
 *
 * Purpose: an idle session sends nothing but signs of life.  Every other event reaches all brokers
 * whether or not anybody there awaits it, since they are numbered without gaps, and the heartbeat
 * (EVENT_OFFERED) would go through the whole session each time.  So the root publishes what is
 * offered to it (the request event.offer) only if somebody awaits it.
 *
 * Format: "event.awaited" {"awaited":b} to the parent says whether somebody at the sender or below
 * it has subscribed to EVENT_OFFERED, or to a prefix of it.  A hello says so, too.
 *
 *    begin    is told at once: at a subscription, or at the message of a child
 *    end      is told at the message of a child, or when an event of this topic comes and nobody
 *             awaits the next one, so a program that subscribes repeatedly causes few messages
 *    heal     a child that is lost awaits the event as before while orphans may connect here
 *
 * Invariants:
 *  1. What a parent knows of a child is what that has said last.
 *  2. While a living subtree awaits the event, all brokers above believe so, from the moment when
 *     they have been told first.  If a broker believes so and it is not true, its child says so.
 *
 * Failure: without memory for the message the parent is told at the next occasion.
 */
#include "config.h"

#include "control_wire.h"
#include "core_private.h"
#include "libflux/event_wire.h"

bool offer_awaited(const core_t *c)
{
    bool orphans = c->pending && !idset_empty(c->pending);

    for (uint32_t i = 0; i < c->nchildren; i++) {
        const struct peer *p = c->children[i];

        if (p->awaits && ((p->up && !p->lost && !p->gone) || orphans))
            return true;
    }
    return event_has_subscriber(c, EVENT_OFFERED);
}

void offer_tell(core_t *c)
{
    struct control_awaited a;

    if (!c->parent || !c->parent->up || c->parent->lost)
        return;
    a.awaited = offer_awaited(c);
    if (a.awaited == c->awaited)
        return;
    if (overlay_send(c, c->parent, &control_up[CONTROL_AWAITED], &a) == 0)
        c->awaited = a.awaited;
}

bool offer_in_hello(core_t *c)
{
    c->awaited_hello = offer_awaited(c);
    return c->awaited_hello;
}

void offer_again(core_t *c)
{
    c->awaited = c->awaited_hello;
    offer_tell(c);
}

void offer_awaited_cb(core_t *c, struct peer *p, const void *in, const flux_msg_t *msg)
{
    const struct control_awaited *a = in;

    (void)msg;
    p->awaits = a->awaited;
    offer_tell(c);
}
