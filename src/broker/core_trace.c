/* core_trace.c - reports to an observer which messages pass through the core, from whom and to
 * whom.
 *
 * Purpose: without an observer each message costs one comparison.  The observer is called when a
 * request has been given to a local service or to a neighbor, before a response is given, and when
 * an event is passed on; see core_set_trace() in core.h.
 *
 * Invariants:
 *  1. A request that is held for a neighbor is reported once, when it has been sent.
 *  2. Messages of the service "trace" are not reported: each report would cause the next one.
 *
 * Failure: none; the observer handles its own failures.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "core_private.h"

void core_set_trace(core_t *c, core_trace_f cb, void *arg)
{
    c->trace = cb;
    c->trace_arg = arg;
}

/* Write the name of an end: "client 17", "module kvs", "broker", "rank 3". */
static void name_end(struct core_end *end, const endpoint_t *ep, const struct peer *p)
{
    end->module = NULL;
    if (p)
        snprintf(end->name, sizeof(end->name), "rank %u", p->rank);
    else if (ep && ep->kind == ENDPOINT_MODULE) {
        snprintf(end->name, sizeof(end->name), "module %s", ep->name);
        end->module = ep->name;
    } else if (ep && ep->kind == ENDPOINT_CLIENT)
        snprintf(end->name, sizeof(end->name), "client %u", ep->id);
    else
        snprintf(end->name, sizeof(end->name), "broker");
}

static double report(core_t *c, struct core_sight *s)
{
    if (flux_topic_prefix(flux_msg_topic(s->msg), "trace."))
        return 0.;
    return c->trace(c->trace_arg, s);
}

double trace_request(core_t *c, const flux_msg_t *msg, const endpoint_t *from_ep,
                     const struct peer *from_peer, const endpoint_t *to_ep,
                     const struct peer *to_peer)
{
    struct core_sight s = {.msg = msg};

    name_end(&s.from, from_ep, from_peer);
    name_end(&s.to, to_ep, to_peer);
    return report(c, &s);
}

void trace_response(core_t *c, const flux_msg_t *msg, const struct trace_origin *from,
                    const endpoint_t *to_ep, const struct peer *to_peer)
{
    struct core_sight s = {.msg = msg, .asked = from ? from->asked : 0.};

    name_end(&s.from, from ? from->ep : NULL, from ? from->peer : NULL);
    name_end(&s.to, to_ep, to_peer);
    report(c, &s);
}

void trace_event(core_t *c, const flux_msg_t *msg)
{
    struct core_sight s = {.msg = msg};

    snprintf(s.from.name, sizeof(s.from.name), "rank %u", flux_msg_nodeid(msg));
    snprintf(s.to.name, sizeof(s.to.name), "subscribers");
    report(c, &s);
}
