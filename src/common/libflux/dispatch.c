/* dispatch.c - from a message to its handler, and from a handler to a response.
 *
 * A request is looked up by its whole topic, then as "service.*": at most two hash look-ups.  An
 * event goes to every handler whose topic is a prefix of its own; a handle has few of those.
 *
 * If a service has no handler of its own, its requests are answered as follows:
 *    NAME.ping                  JSON object: the same object, with "rank" and "route" (array of
 *                               strings, the origin first) added; else: the same payload
 *    without response (such as  ignored
 *    NAME.disconnect, .cancel)
 *    others                     ENOSYS and an error message
 *
 * Invariants:
 *  1. A handler may add and remove handlers, including its own, while messages are dispatched:
 *     removed entries are marked dead, and freed when no dispatch is under way.
 *  2. A request is handled by at most one handler.
 *
 * Failure: a handler that cannot create a response for lack of memory gets -1.  The broker's table
 * of pending requests still ends the request when the service or the client goes away.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "handle_private.h"
#include "route.h"
#include "libutil/fnv.h"

struct entry {
    const struct flux_handler *handler;
    struct flux_handlers *owner;
    struct list_node event_node;
    bool dead;
};

struct flux_handlers {
    flux_t *h;
    void *arg;
    size_t count;
    struct entry *entries;
    struct list_node node; /* in dispatch.tables or dispatch.dead */
};

struct dispatch {
    hmap_t *requests; /* topic -> struct entry */
    struct list_node events;
    struct list_node tables;
    struct list_node dead;
    int depth;
};

struct dispatch *dispatch_create(void)
{
    struct dispatch *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    list_init(&d->events);
    list_init(&d->tables);
    list_init(&d->dead);
    if (!(d->requests = hmap_create_str(NULL))) {
        free(d);
        return NULL;
    }
    return d;
}

static void table_free(struct flux_handlers *hs)
{
    list_remove(&hs->node);
    free(hs->entries);
    free(hs);
}

static void free_tables(struct list_node *list)
{
    LIST_FOREACH_SAFE(it, tmp, list)
    table_free(list_entry(it, struct flux_handlers, node));
}

void dispatch_destroy(struct dispatch *d)
{
    if (d) {
        int saved = errno;
        free_tables(&d->tables);
        free_tables(&d->dead);
        hmap_destroy(d->requests);
        free(d);
        errno = saved;
    }
}

static void unlink_entries(struct dispatch *d, struct flux_handlers *hs)
{
    for (size_t i = 0; i < hs->count; i++) {
        struct entry *e = &hs->entries[i];
        e->dead = true;
        if (e->handler->type == FLUX_MSG_REQUEST) {
            if (hmap_get(d->requests, e->handler->topic) == e)
                hmap_del(d->requests, e->handler->topic);
        }
        /* Event nodes stay linked while a dispatch may be at one of them. */
        else if (d->depth == 0)
            list_remove(&e->event_node);
    }
}

static void sweep(struct dispatch *d)
{
    LIST_FOREACH_SAFE(it, tmp, &d->dead)
    {
        struct flux_handlers *hs = list_entry(it, struct flux_handlers, node);
        for (size_t i = 0; i < hs->count; i++)
            list_remove(&hs->entries[i].event_node);
        table_free(hs);
    }
}

void flux_handlers_remove(flux_handlers_t *hs)
{
    if (hs) {
        struct dispatch *d = flux_handle_dispatch(hs->h);
        int saved = errno;
        unlink_entries(d, hs);
        list_remove(&hs->node);
        list_append(&d->dead, &hs->node);
        if (d->depth == 0)
            sweep(d);
        errno = saved;
    }
}

flux_handlers_t *flux_handlers_add(flux_t *h, const struct flux_handler *tab, void *arg)
{
    struct dispatch *d = flux_handle_dispatch(h);
    struct flux_handlers *hs = calloc(1, sizeof(*hs));
    size_t n = 0;
    int errnum;

    if (!hs)
        return NULL;
    while (tab[n].cb)
        n++;
    hs->h = h;
    hs->arg = arg;
    list_append(&d->tables, &hs->node);
    if (!(hs->entries = calloc(n ? n : 1, sizeof(*hs->entries)))) {
        errnum = ENOMEM;
        goto error;
    }
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &hs->entries[i];
        e->handler = &tab[i];
        e->owner = hs;
        list_init(&e->event_node);
    }
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &hs->entries[i];
        if (tab[i].type == FLUX_MSG_EVENT)
            list_append(&d->events, &e->event_node);
        else if (tab[i].type != FLUX_MSG_REQUEST) {
            errnum = EINVAL;
            goto error;
        } else if (hmap_get(d->requests, tab[i].topic)) {
            errnum = EEXIST;
            goto error;
        } else if (hmap_put(d->requests, tab[i].topic, e) < 0) {
            errnum = ENOMEM;
            goto error;
        }
        hs->count = i + 1;
    }
    return hs;
error:
    flux_handlers_remove(hs);
    errno = errnum;
    return NULL;
}

/* The handler for a topic: an exact match, else "service.*". */
static struct entry *find_request(struct dispatch *d, const char *topic)
{
    struct entry *e = hmap_get(d->requests, topic);

    if (!e) {
        const char *dot = strchr(topic, '.');
        char key[FLUX_MSG_TOPIC_MAX + 3];
        if (dot) {
            snprintf(key, sizeof(key), "%.*s.*", (int)(dot - topic), topic);
            e = hmap_get(d->requests, key);
        }
    }
    return e;
}

static json_t *describe_route(const flux_msg_t *req)
{
    json_t *a = json_array();

    for (size_t i = 0; a && i < flux_msg_route_count(req); i++) {
        uint32_t id = flux_msg_route_at(req, i);
        const char *kind = flux_route_kind(id) == FLUX_ROUTE_ENDPOINT ? "client-"
                           : flux_route_kind(id) == FLUX_ROUTE_RING   ? "ring:"
                                                                      : "";
        char buf[32];

        snprintf(buf, sizeof(buf), "%s%u", kind, flux_route_value(id));
        if (json_array_append_new(a, json_string(buf)) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

static void ping(flux_t *h, const flux_msg_t *req)
{
    size_t len;
    const void *data = flux_msg_payload(req, &len);
    json_t *obj = NULL;
    json_t *route = NULL;
    char *text = NULL;

    if (!data || flux_msg_has_flag(req, FLUX_MSGF_RAW)) {
        flux_respond_raw(h, req, data, len);
        return;
    }
    if (!(obj = json_loadb(data, len, 0, NULL)) || !json_is_object(obj)) {
        flux_respond_error(h, req, EPROTO, "the payload of %s is not a JSON object",
                           flux_msg_topic(req));
    } else if (!(route = describe_route(req)) || json_object_set(obj, "route", route) < 0 ||
               json_object_set_new(obj, "rank", json_integer(flux_rank(h))) < 0 ||
               !(text = json_dumps(obj, JSON_COMPACT))) {
        flux_respond_error(h, req, ENOMEM, "rank %u is out of memory for a ping", flux_rank(h));
    } else
        flux_respond(h, req, text);
    free(text);
    json_decref(route);
    json_decref(obj);
}

static bool has_suffix(const char *topic, const char *suffix)
{
    size_t n = strlen(topic);
    size_t m = strlen(suffix);

    return n > m && strcmp(topic + n - m, suffix) == 0;
}

static void deliver_request(struct dispatch *d, flux_t *h, const flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);
    struct entry *e = find_request(d, topic);

    if (e) {
        uint32_t allowed =
            e->handler->rolemask ? e->handler->rolemask : (FLUX_ROLE_OWNER | FLUX_ROLE_BROKER);
        /* Only brokers report disconnects, and they expect no response; any other sender would wait
         * forever. */
        if (has_suffix(topic, ".disconnect"))
            allowed = FLUX_ROLE_BROKER;
        if (flux_msg_rolemask(msg) & allowed)
            e->handler->cb(h, msg, e->owner->arg);
        else
            flux_respond_error(h, msg, EPERM,
                               allowed == FLUX_ROLE_BROKER
                                   ? "%s is for brokers and modules only"
                                   : "%s is for the owner of the session only",
                               topic);
    } else if (flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        return;
    else if (has_suffix(topic, ".ping"))
        ping(h, msg);
    else
        flux_respond_error(h, msg, ENOSYS, "rank %u does not know the request %s", flux_rank(h),
                           topic);
}

static void deliver_event(struct dispatch *d, flux_t *h, const flux_msg_t *msg)
{
    const char *topic = flux_msg_topic(msg);

    LIST_FOREACH(it, &d->events)
    {
        struct entry *e = list_entry(it, struct entry, event_node);
        if (!e->dead && flux_topic_prefix(topic, e->handler->topic))
            e->handler->cb(h, msg, e->owner->arg);
    }
}

void dispatch_deliver(struct dispatch *d, flux_t *h, const flux_msg_t *msg)
{
    d->depth++;
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST)
        deliver_request(d, h, msg);
    else
        deliver_event(d, h, msg);
    if (--d->depth == 0 && !list_empty(&d->dead))
        sweep(d);
}

static int respond(flux_t *h, const flux_msg_t *req, int errnum, unsigned flags, const void *data,
                   size_t len, bool raw)
{
    flux_msg_t *msg;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE))
        return 0;
    if (!(msg = flux_msg_response_create(req, errnum)))
        return -1;
    if (raw ? flux_msg_set_raw(msg, data, len) < 0 : flux_msg_set_json(msg, data) < 0) {
        flux_msg_destroy(msg);
        return -1;
    }
    if (flags)
        flux_msg_set_flags(msg, flags);
    flux_msg_set_nodeid(msg, flux_rank(h));
    return flux_send(h, msg);
}

int flux_respond(flux_t *h, const flux_msg_t *req, const char *json)
{
    return respond(h, req, 0, 0, json, 0, false);
}

int flux_respond_lazy(flux_t *h, const flux_msg_t *req, const char *json)
{
    return respond(h, req, 0, FLUX_MSGF_LAZY, json, 0, false);
}

int flux_respond_raw(flux_t *h, const flux_msg_t *req, const void *data, size_t len)
{
    return respond(h, req, 0, 0, data, len, true);
}

int flux_respond_struct(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc,
                        const void *in)
{
    char *json = flux_schema_encode(desc, in);
    int rc;

    /* The sender must not wait for a response that cannot be encoded. */
    if (!json)
        return flux_respond_error(h, req, errno, "rank %u cannot encode its answer to %s: %s",
                                  flux_rank(h), flux_msg_topic(req), strerror(errno));
    rc = flux_respond(h, req, json);
    free(json);
    return rc;
}

int flux_respond_more(flux_t *h, const flux_msg_t *req, const char *json)
{
    return respond(h, req, 0, FLUX_MSGF_STREAMING, json, 0, false);
}

int flux_respond_more_raw(flux_t *h, const flux_msg_t *req, const void *data, size_t len)
{
    return respond(h, req, 0, FLUX_MSGF_STREAMING, data, len, true);
}

int flux_respond_error(flux_t *h, const flux_msg_t *req, int errnum, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* Always respond: a number that no message can carry becomes EINVAL. */
    if (errnum < 1 || errnum > FLUX_MSG_ERRNUM_MAX)
        errnum = EINVAL;
    return respond(h, req, errnum, 0, text, 0, false);
}

int flux_request_decode(flux_t *h, const flux_msg_t *req, const struct flux_schema *desc, void *out,
                        json_t **owner)
{
    size_t len;
    const char *json = flux_msg_payload(req, &len);
    errmsg_t err;

    if (!json || flux_msg_has_flag(req, FLUX_MSGF_RAW)) {
        flux_respond_error(h, req, EPROTO, "%s needs a JSON object as its payload",
                           flux_msg_topic(req));
        errno = EPROTO;
        return -1;
    }
    if (!(*owner = flux_schema_decode(desc, json, len, out, &err))) {
        int errnum = errno;
        flux_respond_error(h, req, errnum, "%s: %s", flux_msg_topic(req), err.text);
        errno = errnum;
        return -1;
    }
    return 0;
}

const char *flux_msg_sender(const flux_msg_t *req, char *buf, size_t size)
{
    size_t n = flux_msg_route_count(req);
    uint32_t origin = flux_msg_route_at(req, 0);

    if (n == 0)
        snprintf(buf, size, "none");
    else if (n == 1)
        snprintf(buf, size, "here.%u", flux_route_value(origin));
    else
        snprintf(buf, size, "%u.%u", flux_route_value(flux_msg_route_at(req, 1)),
                 flux_route_value(origin));
    return buf;
}

uint64_t flux_msg_way(const flux_msg_t *msg)
{
    uint64_t way = FNV64_BASIS;

    for (size_t i = 0; i < flux_msg_route_count(msg); i++)
        way = fnv64_word(way, flux_msg_route_at(msg, i));
    return way;
}

bool flux_request_ended(const flux_msg_t *req, const flux_msg_t *notice)
{
    char a[FLUX_SENDER_MAX], b[FLUX_SENDER_MAX];

    if (flux_msg_has_flag(notice, FLUX_MSGF_IDEMPOTENT) &&
        flux_msg_way(req) != flux_msg_way(notice))
        return false;
    return strcmp(flux_msg_sender(req, a, sizeof(a)), flux_msg_sender(notice, b, sizeof(b))) == 0;
}
