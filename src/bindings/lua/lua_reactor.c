/* lua_reactor.c - the event loop, and how it calls Lua.
 *
 * Callbacks run only while C is in run() or in a wait for a handle.  Each such call is a frame.
 * Callbacks run on the Lua thread of the innermost frame, protected; the frame keeps the error of a
 * callback, with its traceback, and raises it when it is left.
 *
 *    frame    left when                                    error of a callback
 *    run()    stop(), no watcher is left, connection lost  stops the loop, raised by run()
 *    wait     the result is there, timeout, connection     ends the wait, raised by the blocking
 *             lost, the handle was closed                  call
 *
 * The registry has the metatables and a weak table, at known_key, of address -> object, in which C
 * finds the objects of callbacks.  The uservalue of a reactor is the table of its anchored objects
 * with their functions: a future with a callback lives until its last callback, or as long as the
 * reactor.
 *
 * Invariants:
 *  1. No Lua error passes through a C function of libev or libflux: they are called only in frames,
 *     and call Lua only through lflux_protect().
 *  2. run() cannot be called from a callback.  A handle that a callback closes is destroyed when no
 *     frame is left, or between two turns of run(), when no callback is running.
 *  3. An object that was collected is not called: it is not in the weak table any more.
 *  4. There is no global state: all of it belongs to the reactor or the registry.
 *
 * Failure: nil, error message, errno (lua_util.c).
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "lua_private.h"

static const char known_key = 'k';   /* registry: weak table, address -> object */
static const char signals_key = 's'; /* in that table: the reactor that has the signals */

/* --- known and anchored objects --- */

void lflux_known(lua_State *L, int obj, const void *p)
{
    obj = lua_absindex(L, obj);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &known_key);
    lua_pushvalue(L, obj);
    lua_rawsetp(L, -2, p);
    lua_pop(L, 1);
}

bool lflux_push_known(lua_State *L, const void *p)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &known_key);
    lua_rawgetp(L, -1, p);
    lua_remove(L, -2);
    return !lua_isnil(L, -1);
}

/* Push the table of what is anchored; false (nothing pushed) when the reactor was collected. */
static bool push_anchors(lua_State *L, struct lflux_reactor *lr)
{
    if (!lflux_push_known(L, lr)) {
        lua_pop(L, 1);
        return false;
    }
    lua_getuservalue(L, -1);
    lua_remove(L, -2);
    return true;
}

void lflux_anchor(lua_State *L, struct lflux_reactor *lr, int obj, int fn)
{
    obj = lua_absindex(L, obj);
    fn = lua_absindex(L, fn);
    if (!push_anchors(L, lr))
        return;
    lua_pushvalue(L, obj);
    lua_pushvalue(L, fn);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void lflux_unanchor(lua_State *L, struct lflux_reactor *lr, int obj)
{
    obj = lua_absindex(L, obj);
    if (!push_anchors(L, lr))
        return;
    lua_pushvalue(L, obj);
    if (lua_rawget(L, -2) != LUA_TNIL) {
        lua_pushvalue(L, obj);
        lua_pushnil(L);
        lua_rawset(L, -4);
    }
    lua_pop(L, 2);
}

void lflux_push_anchored(lua_State *L, struct lflux_reactor *lr, int obj)
{
    obj = lua_absindex(L, obj);
    if (!push_anchors(L, lr)) {
        lua_pushnil(L);
        return;
    }
    lua_pushvalue(L, obj);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

/* --- frames --- */

void lflux_enter(lua_State *L, struct lflux_reactor *lr, struct lflux_frame *fr, bool wait)
{
    *fr = (struct lflux_frame){.up = lr->top, .L = L, .wait = wait};
    luaL_checkstack(L, LUA_MINSTACK, "for callbacks");
    lr->top = fr;
}

void lflux_leave(lua_State *L, struct lflux_reactor *lr, struct lflux_frame *fr)
{
    lr->top = fr->up;
    if (!lr->top)
        lflux_conns_reap(lr);
    if (!fr->failed)
        return;
    if (!push_anchors(L, lr))
        luaL_error(L, "a callback raised an error");
    lua_pushliteral(L, "error");
    lua_rawget(L, -2);
    lua_pushliteral(L, "error");
    lua_pushnil(L);
    lua_rawset(L, -4);
    if (lua_isnil(L, -1))
        luaL_error(L, "a callback ran out of memory, or loops are nested too deeply");
    lua_error(L);
}

/* Add the traceback to an error message, once if it passes through several loops; other errors are
 * not changed. */
static int message_handler(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING && strstr(lua_tostring(L, 1), "\nstack traceback:"))
        return 1;
    if (lua_type(L, 1) == LUA_TSTRING || lua_type(L, 1) == LUA_TNUMBER)
        luaL_traceback(L, L, lua_tostring(L, 1), 1);
    else if (lua_isnil(L, 1))
        luaL_traceback(L, L, "(the error is nil)", 1);
    return 1;
}

/* (reactor, error): keep the error; a second message is appended to the first. */
static int keep_error(lua_State *L)
{
    lua_getuservalue(L, 1);
    lua_pushliteral(L, "error");
    lua_pushliteral(L, "error");
    lua_rawget(L, 3);
    if (lua_isnil(L, 5))
        lua_pushvalue(L, 2);
    else if (lua_type(L, 5) == LUA_TSTRING && lua_type(L, 2) == LUA_TSTRING &&
             lua_rawlen(L, 5) < 8192)
        lua_pushfstring(L, "%s\nand another callback: %s", lua_tostring(L, 5), lua_tostring(L, 2));
    else
        lua_pushvalue(L, 5);
    lua_remove(L, 5);
    lua_rawset(L, 3);
    return 0;
}

struct protect {
    struct lflux_reactor *lr;
    lua_CFunction body;
    void *arg;
};

/* Called protected, without a message handler; calls the body with one. */
static int protect_body(lua_State *L)
{
    struct protect *p = lua_touserdata(L, 1);
    int rc;

    lua_pushcfunction(L, message_handler);
    lua_pushcfunction(L, p->body);
    lua_pushlightuserdata(L, p->arg);
    rc = lua_pcall(L, 1, 0, 2);
    if (rc == LUA_OK)
        return 0;
    /* The error is on top. */
    if (lflux_push_known(L, p->lr)) {
        lua_pushcfunction(L, keep_error);
        lua_insert(L, -3);
        lua_insert(L, -2); /* keep_error, reactor, error */
        lua_call(L, 2, 0);
    }
    lua_pushboolean(L, 1);
    return 1;
}

void lflux_protect(struct lflux_reactor *lr, lua_CFunction body, void *arg)
{
    struct lflux_frame *fr = lr->top;
    struct protect p = {lr, body, arg};
    bool failed = true;

    /* No frame: the Lua state is being closed. */
    if (!fr)
        return;
    if (lua_checkstack(fr->L, LUA_MINSTACK)) {
        lua_State *L = fr->L;
        int top = lua_gettop(L);
        lua_pushcfunction(L, protect_body);
        lua_pushlightuserdata(L, &p);
        failed = lua_pcall(L, 1, 1, 0) != LUA_OK || lua_toboolean(L, -1);
        lua_settop(L, top);
    }
    if (failed) {
        fr->failed = true;
        if (!fr->wait)
            flux_reactor_stop(lr->r, 0);
    }
}

/* --- the class --- */

struct lflux_reactor *lflux_check_reactor(lua_State *L, int arg)
{
    struct lflux_reactor *lr = lflux_object(L, arg, LFLUX_REACTOR);

    if (!lr->r)
        luaL_argerror(L, arg, "the reactor was closed");
    return lr;
}

static void reactor_end(struct lflux_reactor *lr)
{
    struct list_node *n;

    if (!lr->r)
        return;
    lflux_watchers_end(lr);
    while ((n = list_first(&lr->handles)))
        lflux_handle_end(NULL, list_entry(n, struct lflux_handle, node));
    lflux_conns_reap(lr);
    flux_reactor_destroy(lr->r);
    lr->r = NULL;
}

/* One reactor of a Lua state may have signals.  0; -1 if another has them. */
static int claim_signals(lua_State *L, int obj)
{
    struct lflux_reactor *other;

    if (lflux_push_known(L, &signals_key)) {
        other = lflux_unbox(L, -1);
        if (other && other->r) {
            lua_pop(L, 1);
            return -1;
        }
    }
    lua_pop(L, 1);
    lflux_known(L, obj, &signals_key);
    return 0;
}

struct lflux_reactor *lflux_reactor_create(lua_State *L, bool signals)
{
    struct lflux_reactor *lr = lflux_new(L, LFLUX_REACTOR, sizeof(*lr));

    lr->signals = signals;
    list_init(&lr->handles);
    list_init(&lr->watchers);
    list_init(&lr->zombies);
    lua_newtable(L);
    lua_setuservalue(L, -2);
    lflux_known(L, -1, lr);
    if (signals && claim_signals(L, -1) < 0) {
        lflux_fail(L, EBUSY, "another reactor of this program has the signals: close it first");
        return NULL;
    }
    if (!(lr->r = flux_reactor_create(signals))) {
        lflux_fail(L, errno, "cannot create an event loop: %s", strerror(errno));
        return NULL;
    }
    return lr;
}

int lflux_reactor_new(lua_State *L)
{
    static const char *const names[] = {"signals", NULL};

    lflux_check_options(L, 1, names);
    return lflux_reactor_create(L, lflux_option_bool(L, 1, "signals")) ? 1 : 3;
}

static bool connection_lost(struct lflux_reactor *lr)
{
    LIST_FOREACH(it, &lr->handles)
    {
        struct lflux_handle *lh = list_entry(it, struct lflux_handle, node);
        if (lh->lost && !lh->lost_handled)
            return true;
    }
    return false;
}

static int reactor_run(lua_State *L)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    struct lflux_frame fr;
    lua_Integer rc;
    bool stopped;

    if (lr->top)
        return luaL_error(L, "run() is called from a callback of the same reactor");
    lflux_enter(L, lr, &fr, false);
    while (!lr->stopped && !fr.failed && !connection_lost(lr)) {
        lr->reap = false;
        flux_reactor_update(lr->r);
        flux_reactor_run(lr->r);
        lflux_conns_reap(lr);
        /* Stopped only to close a handle, or nothing is left to wait for. */
        if (!lr->reap)
            break;
    }
    stopped = lr->stopped;
    rc = lr->rc;
    lr->stopped = false;
    lr->rc = 0;
    lflux_leave(L, lr, &fr);
    if (!stopped && connection_lost(lr))
        return lflux_fail(L, EPIPE, "the connection to the broker was lost");
    lua_pushinteger(L, rc);
    return 1;
}

static int reactor_stop(lua_State *L)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    lua_Integer rc = luaL_optinteger(L, 2, 0);

    /* A callback may come during a wait before run(): then run() returns at once. */
    lr->stopped = true;
    lr->rc = rc;
    flux_reactor_stop(lr->r, 0);
    return 0;
}

static int reactor_now(lua_State *L)
{
    lua_pushnumber(L, flux_reactor_now(lflux_check_reactor(L, 1)->r));
    return 1;
}

static int reactor_close(lua_State *L)
{
    struct lflux_reactor *lr = lflux_object(L, 1, LFLUX_REACTOR);

    if (lr->r && lr->top)
        return luaL_error(L, "close() is called from a callback of the same reactor");
    reactor_end(lr);
    /* Release the anchored objects. */
    lua_newtable(L);
    lua_setuservalue(L, 1);
    return 0;
}

static int reactor_gc(lua_State *L)
{
    struct lflux_reactor *lr = lflux_collect(L, LFLUX_REACTOR);

    if (lr)
        reactor_end(lr);
    lflux_drop(lr);
    return 0;
}

static int reactor_tostring(lua_State *L)
{
    struct lflux_reactor *lr = lflux_object(L, 1, LFLUX_REACTOR);

    return lflux_describe(L, LFLUX_REACTOR, lr->r ? lr : NULL);
}

static const luaL_Reg methods[] = {
    {"run", reactor_run},     {"stop", reactor_stop}, {"now", reactor_now},
    {"close", reactor_close}, {NULL, NULL},
};

void lflux_reactor_register(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &known_key);
    lflux_class(L, LFLUX_REACTOR, methods, reactor_gc, reactor_tostring);
    lflux_extend(L, LFLUX_REACTOR, lflux_watcher_makers);
}
