/* lua_event.c - events: publishing, subscribing, and two ways to receive them.
 *
 *    h:subscribe(prefix) h:unsubscribe(prefix)    which events the broker sends to this handle
 *    h:on_event(prefix, fn)                       call fn(event) for each, until remove()
 *    h:recv_event([timeout])                      the next event that no on_event function took
 *    h:publish(topic [, payload])                 returns its sequence number
 *    h:publish_async(topic [, payload])           returns a future for it
 *    h:send_event(topic [, payload])              does not wait
 *
 * An event is a table {topic, seq, rank, userid, payload}; `payload` is a table, a string (raw
 * bytes) or nil; `error` is the error message for a payload that cannot be decoded.
 *
 * Invariants:
 *  1. The queue for recv_event has at most QUEUE_COUNT events and QUEUE_BYTES bytes, or one larger
 *     event.  When it is full the oldest events are dropped, and the next recv_event reports their
 *     number (ENOBUFS), once.
 *  2. An event goes to all functions with a matching prefix, in order of registration, and into the
 *     queue if there are none.
 *  3. A registered function is anchored at the reactor until remove() or the end of the handle.
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lua_private.h"

#define QUEUE_COUNT 8192
#define QUEUE_BYTES (16u * 1024 * 1024)

struct queued {
    struct list_node node;
    flux_msg_t *msg;
    size_t bytes;
};

struct lflux_event_queue {
    struct lflux_handle *lh;
    flux_handlers_t *handlers;
    struct list_node list;
    size_t count;
    size_t bytes;
    lua_Integer lost;
};

struct handler {
    flux_handlers_t *handlers; /* NULL: removed */
    struct lflux_handle *lh;
    struct list_node node; /* in lflux_handle.handlers */
    struct flux_handler table[2];
    char prefix[];
};

/* --- an event as a table --- */

static void push_event(lua_State *L, const flux_msg_t *msg)
{
    errmsg_t err;

    lua_createtable(L, 0, 5);
    lua_pushstring(L, flux_msg_topic(msg));
    lua_setfield(L, -2, "topic");
    lua_pushinteger(L, (lua_Integer)flux_msg_seq(msg));
    lua_setfield(L, -2, "seq");
    lua_pushinteger(L, flux_msg_nodeid(msg));
    lua_setfield(L, -2, "rank");
    lua_pushinteger(L, flux_msg_userid(msg));
    lua_setfield(L, -2, "userid");
    if (lflux_push_payload(L, msg, &err) == 0)
        lua_setfield(L, -2, "payload");
    else {
        lua_pushstring(L, err.text);
        lua_setfield(L, -2, "error");
    }
}

/* --- functions --- */

struct call {
    struct handler *eh;
    const flux_msg_t *msg;
};

static int call_body(lua_State *L)
{
    const struct call *c = lua_touserdata(L, 1);

    if (!lflux_push_known(L, c->eh))
        return 0;
    lflux_push_anchored(L, c->eh->lh->lr, 2);
    if (lua_isnil(L, -1))
        return 0;
    push_event(L, c->msg);
    lua_call(L, 1, 0);
    return 0;
}

static void handler_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct handler *eh = arg;
    struct call c = {eh, msg};

    lflux_protect(eh->lh->lr, call_body, &c);
}

static void handler_end(lua_State *L, struct handler *eh)
{
    if (!eh->handlers)
        return;
    flux_handlers_remove(eh->handlers);
    eh->handlers = NULL;
    list_remove(&eh->node);
    if (L) {
        if (lflux_push_known(L, eh))
            lflux_unanchor(L, eh->lh->lr, -1);
        lua_pop(L, 1);
    }
}

static int handle_on_event(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *prefix = lflux_check_text(L, 2, "the prefix");
    size_t len = strlen(prefix);
    struct handler *eh;

    luaL_checktype(L, 3, LUA_TFUNCTION);
    eh = lflux_new(L, LFLUX_HANDLER, sizeof(*eh) + len + 1);
    eh->lh = lh;
    lflux_hold(lh);
    list_init(&eh->node);
    memcpy(eh->prefix, prefix, len + 1);
    eh->table[0] = (struct flux_handler){FLUX_MSG_EVENT, eh->prefix, handler_cb, 0};
    lua_pushvalue(L, 1);
    lua_setuservalue(L, -2);
    lflux_known(L, -1, eh);
    lflux_anchor(L, lh->lr, -1, 3);
    if (!(eh->handlers = flux_handlers_add(lh->conn->h, eh->table, eh))) {
        int errnum = errno;
        lflux_unanchor(L, lh->lr, -1);
        return lflux_fail(L, errnum, "cannot handle events: %s", strerror(errnum));
    }
    list_append(&lh->handlers, &eh->node);
    return 1;
}

static int handler_remove(lua_State *L)
{
    handler_end(L, lflux_object(L, 1, LFLUX_HANDLER));
    return 0;
}

static int handler_gc(lua_State *L)
{
    struct handler *eh = lflux_collect(L, LFLUX_HANDLER);

    if (eh) {
        struct lflux_handle *lh = eh->lh;
        handler_end(NULL, eh);
        lflux_drop(eh);
        lflux_drop(lh);
    }
    return 0;
}

static int handler_tostring(lua_State *L)
{
    struct handler *eh = lflux_object(L, 1, LFLUX_HANDLER);

    return lflux_describe(L, LFLUX_HANDLER, eh->handlers ? eh : NULL);
}

/* --- the queue --- */

static void drop_first(struct lflux_event_queue *q)
{
    struct queued *e = list_entry(list_first(&q->list), struct queued, node);

    list_remove(&e->node);
    q->count--;
    q->bytes -= e->bytes;
    flux_msg_destroy(e->msg);
    free(e);
}

static void queue_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct lflux_event_queue *q = arg;
    struct queued *e;

    LIST_FOREACH(it, &q->lh->handlers)
    {
        if (flux_topic_prefix(flux_msg_topic(msg), list_entry(it, struct handler, node)->prefix))
            return;
    }
    if (!(e = malloc(sizeof(*e)))) {
        q->lost++;
        return;
    }
    e->msg = flux_msg_incref(msg);
    e->bytes = flux_msg_encoded_size(msg);
    list_append(&q->list, &e->node);
    q->count++;
    q->bytes += e->bytes;
    while (q->count > QUEUE_COUNT || (q->bytes > QUEUE_BYTES && q->count > 1)) {
        drop_first(q);
        q->lost++;
    }
}

static const struct flux_handler queue_table[] = {
    {FLUX_MSG_EVENT, "", queue_cb, 0},
    FLUX_HANDLER_END,
};

/* 0; 3 with nil, error message, errno pushed. */
static int need_queue(lua_State *L, struct lflux_handle *lh)
{
    struct lflux_event_queue *q = lh->events;

    if (q)
        return 0;
    if ((q = calloc(1, sizeof(*q)))) {
        q->lh = lh;
        list_init(&q->list);
        if ((q->handlers = flux_handlers_add(lh->conn->h, queue_table, q))) {
            lh->events = q;
            return 0;
        }
        free(q);
    }
    return lflux_fail(L, ENOMEM, "out of memory for events");
}

void lflux_events_end(lua_State *L, struct lflux_handle *lh)
{
    struct lflux_event_queue *q = lh->events;
    struct list_node *n;

    while ((n = list_first(&lh->handlers)))
        handler_end(L, list_entry(n, struct handler, node));
    if (!q)
        return;
    lh->events = NULL;
    flux_handlers_remove(q->handlers);
    while (!list_empty(&q->list))
        drop_first(q);
    free(q);
}

static bool event_ready(void *arg)
{
    struct lflux_handle *lh = arg;

    return !lh->events || lh->events->count > 0 || lh->events->lost > 0;
}

static int handle_recv_event(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    double timeout = lflux_check_timeout(L, 2);
    struct lflux_event_queue *q;

    if (need_queue(L, lh) != 0)
        return 3;
    if (lflux_wait(L, lh, timeout, event_ready, lh) < 0) {
        if (errno == ETIMEDOUT)
            return lflux_fail(L, ETIMEDOUT, "no event arrived within the timeout");
        if (errno == EPIPE)
            return lflux_fail(L, EPIPE, "the connection to the broker was lost");
    }
    if (!(q = lh->events))
        return lflux_fail(L, ECANCELED, "the handle was closed while waiting for an event");
    if (q->lost > 0) {
        lua_Integer lost = q->lost;
        q->lost = 0;
        return lflux_fail(L, ENOBUFS, "%lld events were lost: call recv_event more often",
                          (long long)lost);
    }
    push_event(L, list_entry(list_first(&q->list), struct queued, node)->msg);
    drop_first(q);
    return 1;
}

/* --- requests --- */

static int handle_subscribe(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *prefix = lflux_check_text(L, 2, "the prefix");
    struct lflux_future *lf;

    /* Before the subscription, so that no event is missed. */
    if (need_queue(L, lh) != 0)
        return 3;
    lf = lflux_future_push(L, 1, lflux_push_true);
    return lflux_future_await(L, lf, flux_event_subscribe(lh->conn->h, prefix), "for events", -1.);
}

static int handle_unsubscribe(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *prefix = lflux_check_text(L, 2, "the prefix");
    struct lflux_future *lf = lflux_future_push(L, 1, lflux_push_true);

    return lflux_future_await(L, lf, flux_event_unsubscribe(lh->conn->h, prefix),
                              "for no more events", -1.);
}

static int push_seq(lua_State *L, struct lflux_future *lf)
{
    uint64_t seq;
    errmsg_t err;

    if (flux_event_get_seq(lf->f, &seq, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushinteger(L, (lua_Integer)seq);
    return 1;
}

struct publication {
    struct lflux_handle *lh;
    const char *topic;
    const char *data;
    size_t len;
    bool raw;
};

/* 0; 3 with nil, error message, errno pushed. */
static int check_publication(lua_State *L, struct publication *p)
{
    p->lh = lflux_check_handle(L, 1);
    p->topic = lflux_check_text(L, 2, "the topic");
    lua_settop(L, 3);
    if (lflux_bad_topic(L, p->topic) != 0)
        return 3;
    return lflux_check_payload(L, 3, &p->data, &p->len, &p->raw) < 0 ? 3 : 0;
}

static flux_future_t *publish(const struct publication *p)
{
    return p->raw ? flux_event_publish_raw(p->lh->conn->h, p->topic, p->data, p->len)
                  : flux_event_publish(p->lh->conn->h, p->topic, p->data);
}

static int handle_publish(lua_State *L)
{
    struct lflux_future *lf;
    struct publication p;

    if (check_publication(L, &p) != 0)
        return 3;
    lf = lflux_future_push(L, 1, push_seq);
    return lflux_future_await(L, lf, publish(&p), "to publish", -1.);
}

static int handle_publish_async(lua_State *L)
{
    struct lflux_future *lf;
    struct publication p;

    if (check_publication(L, &p) != 0)
        return 3;
    lf = lflux_future_push(L, 1, push_seq);
    return lflux_future_set(L, lf, publish(&p), "to publish");
}

static int handle_send_event(lua_State *L)
{
    struct publication p;
    int rc;

    if (check_publication(L, &p) != 0)
        return 3;
    rc = p.raw ? flux_event_send_raw(p.lh->conn->h, p.topic, p.data, p.len)
               : flux_event_send(p.lh->conn->h, p.topic, p.data);
    if (rc < 0)
        return lflux_fail(L, errno, "cannot publish %s: %s", p.topic, strerror(errno));
    return lflux_true(L);
}

const luaL_Reg lflux_event_methods[] = {
    {"subscribe", handle_subscribe},   {"unsubscribe", handle_unsubscribe},
    {"publish", handle_publish},       {"publish_async", handle_publish_async},
    {"send_event", handle_send_event}, {"on_event", handle_on_event},
    {"recv_event", handle_recv_event}, {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"remove", handler_remove},
    {NULL, NULL},
};

void lflux_event_register(lua_State *L)
{
    lflux_class(L, LFLUX_HANDLER, methods, handler_gc, handler_tostring);
}
