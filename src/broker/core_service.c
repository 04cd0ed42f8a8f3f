/* core_service.c - the services of every broker: event, overlay, broker.
 *
 *    event.publish      raw: an encoded event   -> {"seq"}     (at rank 0)
 *    event.subscribe    {"prefix"}              -> {}          for the sender, at its own broker
 *    event.unsubscribe  {"prefix"}              -> {}
 *    overlay.status     {}  -> {"rank","size","state","up","lost","topology"}   complete at rank 0,
 *                              with "map","left","absent","incarnations","joining","slow",
 *                              "draining"
 *    overlay.map        {"since","first"}  -> {"map","places","next"}  at rank 0: the session map,
 *                              or what has changed in it (core_cards.c)
 *    overlay.history    {}  -> {"verdicts"}         at rank 0: the latest changes of states
 *    overlay.topology   {}  -> {"topology","size","file","moved"}  file: the present tree, in
 *                              topology file format; the answer waits for the welcome, which
 *                              names the ranks that have moved
 *    overlay.heard      {"rank"}  -> {"ago"}  when a neighbor on the ring was heard
 *    overlay.address    {}  -> {"tree"}  where this broker listens (core_successor.c)
 *    overlay.restore    {"ranks"}  -> {"moved","why"}  at the broker above these: they get their
 *                              subtrees back (core_restore.c)
 *    overlay.sender     {"endpoint"}  -> {"present"}    whether that client or module of this
 *                              broker is still there
 *    broker.stats       {}  -> counters
 *    broker.shutdown    {"rc","reason"} -> {}   forwarded to rank 0
 *
 * Publication: only brokers and modules may publish topics that begin with "overlay.", "kvs." or
 * "event.lost".  The JSON of an event of another publisher is bounded like the JSON of a request
 * (jsonsize.h): every subscriber parses it, and it arrives in a raw request, which the connector
 * does not check.
 *
 * Failure: a request is answered with errno and an error message.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libflux/event_wire.h"
#include "libflux/overlay_wire.h"
#include "libschema/jsonsize.h"
#include "libutil/strutil.h"

static uint32_t sender_rank(const core_t *c, const flux_msg_t *req)
{
    return flux_msg_route_count(req) > 1 ? flux_route_value(flux_msg_route_at(req, 1))
                                         : c->cfg.rank;
}

static bool reserved(const char *topic)
{
    return flux_topic_prefix(topic, "overlay.") || flux_topic_prefix(topic, "kvs.") ||
           flux_topic_prefix(topic, "event.lost");
}

/* Check whether the sender of `req` may publish this event. */
static int check_event(const flux_msg_t *req, const flux_msg_t *ev, errmsg_t *err)
{
    const char *topic = flux_msg_topic(ev);
    size_t len;
    const char *text = flux_msg_payload(ev, &len);

    if (flux_msg_type(ev) != FLUX_MSG_EVENT)
        return errmsg_fail(err, EPROTO, "event.publish: the payload is not an event");
    if (flux_msg_rolemask(req) & FLUX_ROLE_BROKER)
        return 0;
    if (reserved(topic))
        return errmsg_fail(err, EPERM, "topic %s is reserved for the session's own services",
                           topic);
    if (!text || flux_msg_has_flag(ev, FLUX_MSGF_RAW))
        return 0;
    if (len > FLUX_JSON_BYTES_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "event %s: a JSON payload of %zu bytes is too large: the limit is %zu",
                           topic, len, FLUX_JSON_BYTES_MAX);
    if (flux_json_count(text, len, FLUX_JSON_VALUES_MAX) > FLUX_JSON_VALUES_MAX)
        return errmsg_fail(err, EMSGSIZE, "event %s: the JSON payload has more than %zu values",
                           topic, FLUX_JSON_VALUES_MAX);
    return 0;
}

/* Publish the event in a request; or, if it is `offered`, only where somebody has subscribed. */
static void publish(core_t *c, flux_t *h, const flux_msg_t *req, bool offered)
{
    struct event_published p = {0};
    size_t len;
    const void *data = flux_msg_payload(req, &len);
    errmsg_t err;
    flux_msg_t *ev;

    if (!core_is_root(c)) {
        flux_respond_error(h, req, EINVAL, "events are published at rank 0, not at rank %u",
                           c->cfg.rank);
        return;
    }
    if (!data || !flux_msg_has_flag(req, FLUX_MSGF_RAW)) {
        flux_respond_error(h, req, EPROTO, "%s needs an encoded event as its payload",
                           flux_msg_topic(req));
        return;
    }
    if (!(ev = flux_msg_decode(data, len, &err))) {
        flux_respond_error(h, req, errno, "%s: %s", flux_msg_topic(req), err.text);
        return;
    }
    if (check_event(req, ev, &err) < 0) {
        flux_respond_error(h, req, errno, "%s", err.text);
        flux_msg_destroy(ev);
        return;
    }
    if (offered && strcmp(flux_msg_topic(ev), EVENT_OFFERED) != 0) {
        flux_respond_error(h, req, EINVAL,
                           "event.offer: the topic is " EVENT_OFFERED
                           ", not %.64s: publish the event",
                           flux_msg_topic(ev));
        flux_msg_destroy(ev);
        return;
    }
    if (offered && !offer_awaited(c)) {
        flux_respond_struct(h, req, &event_published_schema, &p);
        flux_msg_destroy(ev);
        return;
    }
    flux_msg_set_cred(ev, flux_msg_userid(req), flux_msg_rolemask(req));
    flux_msg_set_nodeid(ev, sender_rank(c, req));
    if (event_publish_root(c, ev, &p.seq) < 0)
        flux_respond_error(h, req, errno, "the event was not published: %s", strerror(errno));
    else
        flux_respond_struct(h, req, &event_published_schema, &p);
}

static void publish_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    publish(arg, h, req, false);
}

static void offer_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    publish(arg, h, req, true);
}

/* Return the endpoint of a subscriber.  Only local endpoints may subscribe: their requests have a
 * route of one entry. */
static endpoint_t *subscriber(core_t *c, flux_t *h, const flux_msg_t *req)
{
    endpoint_t *ep = NULL;
    uint32_t id;

    if (flux_msg_route_count(req) == 1 && flux_msg_route_top(req, &id) == 0 &&
        flux_route_kind(id) == FLUX_ROUTE_ENDPOINT)
        ep = hmap_get_u64(c->endpoints, flux_route_value(id));
    if (!ep)
        flux_respond_error(h, req, EINVAL, "subscribe at your own broker: this is rank %u",
                           c->cfg.rank);
    return ep;
}

static void subscribe_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    endpoint_t *ep = subscriber(arg, h, req);
    struct event_prefix in;
    json_t *owner;

    if (!ep || flux_request_decode(h, req, &event_prefix_schema, &in, &owner) < 0)
        return;
    if (event_subscribe(ep, in.prefix) < 0)
        flux_respond_error(h, req, errno, "cannot subscribe to '%.64s': %s", in.prefix,
                           strerror(errno));
    else
        flux_respond(h, req, "{}");
    json_decref(owner);
}

static void unsubscribe_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    endpoint_t *ep = subscriber(arg, h, req);
    struct event_prefix in;
    json_t *owner;

    if (!ep || flux_request_decode(h, req, &event_prefix_schema, &in, &owner) < 0)
        return;
    if (event_unsubscribe(ep, in.prefix) < 0)
        flux_respond_error(h, req, errno, "there is no subscription to '%.64s'", in.prefix);
    else
        flux_respond(h, req, "{}");
    json_decref(owner);
}

static void status_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    char *up = idset_format(c->up, 0);
    char *lost = idset_format(c->lost, 0);
    struct overlay_status s = {.rank = c->cfg.rank,
                               .size = c->cfg.size,
                               .state = core_state_name(c->state),
                               .up = up,
                               .lost = lost,
                               .topology = topology_spec(c->topo)};
    const struct {
        enum rank_state state;
        const char **field;
    } sets[] = {{RANK_LEFT, &s.left},
                {RANK_ABSENT, &s.absent},
                {RANK_JOINING, &s.joining},
                {RANK_SLOW, &s.slow},
                {RANK_DRAINING, &s.draining}};
    char *text[sizeof(sets) / sizeof(sets[0])] = {NULL};

    if (c->map) {
        s.map = sessmap_number(c->map);
        for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
            text[i] = sessmap_ranks(c->map, sets[i].state);
            *sets[i].field = text[i] && *text[i] ? text[i] : NULL;
        }
        if (!(s.incarnations = sessmap_incarnations(c->map)) ||
            json_array_size(s.incarnations) == 0) {
            json_decref(s.incarnations);
            s.incarnations = NULL;
        }
    }
    flux_respond_struct(h, req, &overlay_status_schema, &s);
    json_decref(s.incarnations);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        free(text[i]);
    free(up);
    free(lost);
}

static void topology_answer(core_t *c, const flux_msg_t *req)
{
    char *file = topology_format_file(overlay_tree(c));
    struct overlay_shape s = {topology_spec(c->topo), c->cfg.size, file, c->tree != NULL};

    flux_respond_struct(c->h, req, &overlay_shape_schema, &s);
    free(file);
}

/* The ranks that have moved are known from the welcome on. */
static void topology_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;

    if (c->state == CORE_JOIN && !core_is_root(c) && c->nasked < CORE_ASKED_MAX)
        c->asked[c->nasked++] = flux_msg_incref((flux_msg_t *)req);
    else
        topology_answer(c, req);
}

void service_welcomed(core_t *c)
{
    for (unsigned i = 0; i < c->nasked; i++) {
        topology_answer(c, c->asked[i]);
        flux_msg_destroy(c->asked[i]);
    }
    c->nasked = 0;
}

static void history_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct overlay_history out = {NULL};

    if (!core_is_root(c))
        flux_respond_error(h, req, EINVAL, "the history is kept at rank 0, not at rank %u",
                           c->cfg.rank);
    else if (!(out.verdicts = live_verdicts(c)))
        flux_respond_error(h, req, ENOMEM, "rank 0 is out of memory for the history");
    else
        flux_respond_struct(h, req, &overlay_history_schema, &out);
    json_decref(out.verdicts);
}

static void stats_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct core_stats st;

    core_get_stats(arg, &st);
    flux_respond_struct(h, req, &core_stats_schema, &st);
}

static void shutdown_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct shutdown_order in;
    char reason[256];
    json_t *owner;

    if (flux_request_decode(h, req, &shutdown_order_schema, &in, &owner) < 0)
        return;
    flux_respond(h, req, "{}");
    snprintf(reason, sizeof(reason), "%.160s, asked for by user %u on rank %u", in.reason,
             flux_msg_userid(req), sender_rank(c, req));
    str_clean(reason); /* a character may have been cut */
    core_shutdown(c, in.rc, reason);
    json_decref(owner);
}

static void sender_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct overlay_sender in = {0};
    struct overlay_present answer;
    json_t *owner;

    if (flux_request_decode(h, req, &overlay_sender_schema, &in, &owner) < 0)
        return;
    answer.present = hmap_get_u64(c->endpoints, in.endpoint) != NULL;
    flux_respond_struct(h, req, &overlay_present_schema, &answer);
    json_decref(owner);
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "event.publish", publish_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "event.offer", offer_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "event.subscribe", subscribe_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "event.unsubscribe", unsubscribe_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "overlay.status", status_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "overlay.map", cards_map_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "overlay.history", history_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "overlay.topology", topology_cb,
     FLUX_ROLE_OWNER | FLUX_ROLE_USER | FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "overlay.heard", third_heard_cb, 0},
    {FLUX_MSG_REQUEST, "overlay.vouch", third_vouch_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "overlay.address", successor_address_cb, 0},
    {FLUX_MSG_REQUEST, "overlay.restore", restore_request_cb, 0},
    {FLUX_MSG_REQUEST, "overlay.sender", sender_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "broker.stats", stats_cb, 0},
    {FLUX_MSG_REQUEST, "broker.shutdown", shutdown_cb, 0},
    FLUX_HANDLER_END,
};

int service_init(core_t *c)
{
    static const char *const names[] = {"event", "overlay", "broker"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (core_service_add(c, names[i], c->self) < 0)
            return -1;
    }
    return (c->handlers = flux_handlers_add(c->h, handlers, c)) ? 0 : -1;
}

void service_destroy(core_t *c)
{
    while (c->nasked > 0)
        flux_msg_destroy(c->asked[--c->nasked]);
    flux_handlers_remove(c->handlers);
    c->handlers = NULL;
}
