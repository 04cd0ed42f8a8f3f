/* lua_handle.c - the connection to the broker, its attributes and the log.
 *
 *    h = flux.open([uri [, reactor]])    h:close()          h:reactor()      h:on_lost(fn)
 *    h:rank() h:size()                   h:getattr(name)    h:setattr(name, value)   h:attrs()
 *    h:log(level, format, ...)           h:log_source(name)
 *
 *    state     methods                 left when (by)
 *    open      work                    the connection is lost: lost (lost_cb); close(): closed
 *                                      (handle_close)
 *    lost      requests fail (EPIPE)   close() (handle_close)
 *    closed    raise an error          never
 *
 * Invariants:
 *  1. Closing ends all futures, event handlers, KVS objects and streams of the handle at once.  The
 *     C handle may be in use further up the C stack, so while there is a frame (lua_reactor.c) it
 *     is only put on the reactor's list of zombies.
 *  2. Every wait goes through lflux_wait(), which makes the frame that callbacks need.
 *
 * Failure: nil, error message, errno.  A lost connection ends run() with EPIPE, unless there is an
 * on_lost callback.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/handle_private.h"
#include "lua_private.h"
#include "libutil/clock.h"

static const char format_key = 'f'; /* registry: string.format */

struct lflux_handle *lflux_check_handle(lua_State *L, int arg)
{
    struct lflux_handle *lh = lflux_object(L, arg, LFLUX_HANDLE);

    if (!lh->conn)
        luaL_argerror(L, arg, "the handle was closed");
    return lh;
}

/* --- ending --- */

static void conn_destroy(struct lflux_conn *conn)
{
    if (conn) {
        flux_close(conn->h);
        free(conn);
    }
}

void lflux_conns_reap(struct lflux_reactor *lr)
{
    struct list_node *n;

    while ((n = list_first(&lr->zombies))) {
        list_remove(n);
        conn_destroy(list_entry(n, struct lflux_conn, node));
    }
}

void lflux_handle_end(lua_State *L, struct lflux_handle *lh)
{
    struct lflux_conn *conn = lh->conn;
    struct list_node *n;

    if (!conn)
        return;
    while ((n = list_first(&lh->futures)))
        lflux_future_end(L, list_entry(n, struct lflux_future, node));
    lflux_writers_end(lh);
    lflux_streams_end(lh);
    lflux_events_end(L, lh);
    if (L && lh->lost_handled) {
        if (lflux_push_known(L, lh))
            lflux_unanchor(L, lh->lr, -1);
        lua_pop(L, 1);
    }
    lh->conn = NULL;
    list_remove(&lh->node);
    conn->owner = NULL;
    if (!lh->lr->top) {
        conn_destroy(conn);
        return;
    }
    list_append(&lh->lr->zombies, &conn->node);
    lh->lr->reap = true;
    flux_reactor_stop(lh->lr->r, 0);
}

/* --- losing the broker --- */

static int lost_body(lua_State *L)
{
    struct lflux_handle *lh = lua_touserdata(L, 1);

    if (!lflux_push_known(L, lh))
        return 0;
    lflux_push_anchored(L, lh->lr, 2);
    lua_insert(L, 2);
    lua_call(L, 1, 0);
    return 0;
}

static void lost_cb(flux_t *h, void *arg)
{
    struct lflux_conn *conn = arg;
    struct lflux_handle *lh = conn->owner;

    if (!lh)
        return;
    lh->lost = true;
    if (lh->lost_handled)
        lflux_protect(lh->lr, lost_body, lh);
    else
        flux_reactor_stop(lh->lr->r, 0);
}

static int handle_on_lost(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);

    luaL_checktype(L, 2, LUA_TFUNCTION);
    lflux_known(L, 1, lh);
    lflux_anchor(L, lh->lr, 1, 2);
    lh->lost_handled = true;
    return lflux_true(L);
}

/* --- waiting --- */

int lflux_wait(lua_State *L, struct lflux_handle *lh, double timeout, bool (*ready)(void *arg),
               void *arg)
{
    struct lflux_conn *conn = lh->conn; /* outlives the frame, even when closed in a callback */
    double end = timeout >= 0. ? clock_now() + timeout : 0.;
    double left = timeout;
    struct lflux_frame fr;
    int errnum = 0;

    if (ready(arg))
        return 0;
    lflux_enter(L, lh->lr, &fr, true);
    for (bool first = true; !fr.failed && !ready(arg); first = false) {
        if (!lh->conn)
            errnum = ECANCELED;
        else if (lh->lost)
            errnum = EPIPE;
        else if (timeout >= 0. && !first && (left = end - clock_now()) <= 0.)
            errnum = ETIMEDOUT;
        if (errnum != 0)
            break;
        if (flux_handle_wait(conn->h, left) < 0 && errno != EPIPE) {
            errnum = errno;
            break;
        }
    }
    lflux_leave(L, lh->lr, &fr);
    errno = errnum;
    return errnum == 0 ? 0 : -1;
}

/* --- opening --- */

int lflux_open(lua_State *L)
{
    const char *uri = lflux_opt_text(L, 1, "the address");
    struct lflux_reactor *lr = NULL;
    struct lflux_handle *lh;
    struct lflux_conn *conn;
    errmsg_t err;

    lua_settop(L, 2);
    if (!lua_isnil(L, 2))
        lr = lflux_check_reactor(L, 2);
    else if ((lr = lflux_reactor_create(L, false)))
        lua_replace(L, 2);
    else
        return 3;
    lh = lflux_new(L, LFLUX_HANDLE, sizeof(*lh));
    lh->lr = lr;
    lflux_hold(lr);
    list_init(&lh->node);
    list_init(&lh->futures);
    list_init(&lh->handlers);
    list_init(&lh->writers);
    list_init(&lh->streams);
    lua_pushvalue(L, 2);
    lua_setuservalue(L, -2);
    if (!(conn = calloc(1, sizeof(*conn))))
        return lflux_fail(L, ENOMEM, "out of memory for a connection");
    if (!(conn->h = flux_open(uri, lr->r, &err))) {
        int errnum = errno;
        free(conn);
        return lflux_fail_err(L, errnum, &err);
    }
    list_init(&conn->node);
    conn->owner = lh;
    lh->conn = conn;
    list_append(&lr->handles, &lh->node);
    flux_set_lost_handler(conn->h, lost_cb, conn);
    return 1;
}

static int handle_close(lua_State *L)
{
    lflux_handle_end(L, lflux_object(L, 1, LFLUX_HANDLE));
    return 0;
}

static int handle_gc(lua_State *L)
{
    struct lflux_handle *lh = lflux_collect(L, LFLUX_HANDLE);

    if (lh) {
        struct lflux_reactor *lr = lh->lr;
        lflux_handle_end(NULL, lh);
        lflux_drop(lh);
        lflux_drop(lr);
    }
    return 0;
}

static int handle_tostring(lua_State *L)
{
    struct lflux_handle *lh = lflux_object(L, 1, LFLUX_HANDLE);

    return lflux_describe(L, LFLUX_HANDLE, lh->conn ? lh : NULL);
}

/* --- properties --- */

static int handle_rank(lua_State *L)
{
    lua_pushinteger(L, flux_rank(lflux_check_handle(L, 1)->conn->h));
    return 1;
}

static int handle_size(lua_State *L)
{
    lua_pushinteger(L, flux_size(lflux_check_handle(L, 1)->conn->h));
    return 1;
}

static int handle_reactor(lua_State *L)
{
    lflux_check_handle(L, 1);
    lua_getuservalue(L, 1);
    return 1;
}

/* --- attributes --- */

static int push_attr(lua_State *L, struct lflux_future *lf)
{
    const char *value;
    errmsg_t err;

    if (flux_attr_future_get(lf->f, &value, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushstring(L, value);
    return 1;
}

static int handle_getattr(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *name = lflux_check_text(L, 2, "the name");
    struct lflux_future *lf = lflux_future_push(L, 1, push_attr);

    return lflux_future_await(L, lf, flux_attr_get_async(lh->conn->h, name), "for an attribute",
                              -1.);
}

static int handle_setattr(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *name = lflux_check_text(L, 2, "the name");
    const char *value = lflux_check_text(L, 3, "the value");
    struct lflux_future *lf = lflux_future_push(L, 1, lflux_push_true);

    return lflux_future_await(L, lf, flux_attr_set_async(lh->conn->h, name, value),
                              "to set an attribute", -1.);
}

static int push_attrs(lua_State *L, struct lflux_future *lf)
{
    int n = lflux_push_response(L, lf);

    if (n != 1 || !lua_istable(L, -1))
        return n;
    lua_getfield(L, -1, "attrs");
    return 1;
}

static int handle_attrs(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    struct lflux_future *lf = lflux_future_push(L, 1, push_attrs);
    flux_t *h = lh->conn->h;

    return lflux_future_await(L, lf,
                              flux_rpc(h, "attr.list", NULL, flux_rank(h), FLUX_MSGF_IDEMPOTENT),
                              "for the attributes", -1.);
}

/* --- log --- */

static int check_level(lua_State *L, int arg)
{
    int level;

    if (lua_type(L, arg) == LUA_TNUMBER)
        return (int)lflux_check_range(L, arg, "a level", LOG_EMERG, LOG_DEBUG);
    level = flux_log_level_parse(luaL_checkstring(L, arg));
    if (level < 0)
        luaL_argerror(L, arg,
                      "levels are emerg, alert, crit, err, warning, notice, info, debug or 0 to 7");
    return level;
}

static int handle_log(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    int level = check_level(L, 2);

    luaL_checkstring(L, 3);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &format_key);
    lua_insert(L, 3);
    lua_call(L, lua_gettop(L) - 3, 1);
    /* The metamethod of an argument may have closed the handle. */
    lh = lflux_check_handle(L, 1);
    flux_log(lh->conn->h, level, "%s", luaL_checkstring(L, -1));
    return lflux_true(L);
}

static int handle_log_source(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);

    flux_log_set_source(lh->conn->h, lflux_check_text(L, 2, "the name"));
    return lflux_true(L);
}

static const luaL_Reg methods[] = {
    {"close", handle_close},
    {"rank", handle_rank},
    {"size", handle_size},
    {"reactor", handle_reactor},
    {"on_lost", handle_on_lost},
    {"getattr", handle_getattr},
    {"setattr", handle_setattr},
    {"attrs", handle_attrs},
    {"log", handle_log},
    {"log_source", handle_log_source},
    {NULL, NULL},
};

void lflux_handle_register(lua_State *L)
{
    /* As it is now: a script may change its global `string`. */
    luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
    lua_getfield(L, -1, "format");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &format_key);
    lua_pop(L, 1);
    lflux_class(L, LFLUX_HANDLE, methods, handle_gc, handle_tostring);
    lflux_extend(L, LFLUX_HANDLE, lflux_rpc_methods);
    lflux_extend(L, LFLUX_HANDLE, lflux_event_methods);
    lflux_extend(L, LFLUX_HANDLE, lflux_kvs_handle_methods);
    lflux_extend(L, LFLUX_HANDLE, lflux_stream_handle_methods);
}
