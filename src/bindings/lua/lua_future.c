/* lua_future.c - outstanding requests and their results.
 *
 *    f:wait([t])     true when there is a result; else nil, error message, errno
 *    f:get([t])      wait for the result and return it
 *    f:next()        discard the current result: true; nil, error message, ENODATA after the last
 *    f:results([t])  iterator over the results of a stream (or of an RPC to many ranks)
 *    f:then_(fn[,t]) call fn(f) from the loop for each result; also named next_
 *    f:ready() f:rank() f:destroy()
 *
 * The creator of a future names the function (`push`) that converts its results to Lua values.  The
 * callback of a stream need not call next(): that happens when it returns.
 *
 * Invariants:
 *  1. The userdata is made before the request is sent, so that a memory error of Lua loses nothing.
 *  2. A future with a callback is anchored until its last result was delivered, or it is ended.
 *  3. The C future may be destroyed at any time, even in its own callback and during a wait for it:
 *     the wait checks for that after each message.
 *
 * Failure: nil, error message, errno (lua_util.c); iterators raise the error message instead, as
 * Lua's own do.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "lua_private.h"

/* not ended */
static struct lflux_future *lflux_check_future(lua_State *L, int arg)
{
    struct lflux_future *lf = lflux_object(L, arg, LFLUX_FUTURE);

    if (!lf->f)
        luaL_argerror(L, arg, "the future was destroyed, or its handle closed");
    return lf;
}

struct lflux_future *lflux_future_push(lua_State *L, int handle, lflux_push_f push)
{
    struct lflux_handle *lh = lflux_unbox(L, handle);
    struct lflux_future *lf;

    handle = lua_absindex(L, handle);
    lf = lflux_new(L, LFLUX_FUTURE, sizeof(*lf));
    lf->lh = lh;
    lflux_hold(lh);
    lf->push = push;
    list_init(&lf->node);
    lua_pushvalue(L, handle);
    lua_setuservalue(L, -2);
    return lf;
}

int lflux_future_set(lua_State *L, struct lflux_future *lf, flux_future_t *f, const char *what)
{
    if (!f) {
        int errnum = errno;
        return lflux_fail(L, errnum, "cannot ask %s: %s", what,
                          errnum == EMSGSIZE ? "the payload is too large for a message"
                                             : strerror(errnum));
    }
    lf->f = f;
    list_append(&lf->lh->futures, &lf->node);
    return 1;
}

void lflux_future_end(lua_State *L, struct lflux_future *lf)
{
    if (!lf->f)
        return;
    flux_future_destroy(lf->f);
    lf->f = NULL;
    list_remove(&lf->node);
    if (lf->callback && L) {
        if (lflux_push_known(L, lf))
            lflux_unanchor(L, lf->lh->lr, -1);
        lua_pop(L, 1);
    }
}

/* --- waiting --- */

static bool ready(void *arg)
{
    struct lflux_future *lf = arg;

    return !lf->f || flux_future_ready(lf->f);
}

int lflux_future_wait(lua_State *L, struct lflux_future *lf, double timeout)
{
    if (lf->over)
        return lflux_fail(L, ENODATA, "there are no more results");
    if (lflux_wait(L, lf->lh, timeout, ready, lf) < 0) {
        if (errno == ETIMEDOUT)
            return lflux_fail(L, ETIMEDOUT, "no response arrived within the timeout");
        if (errno == EPIPE)
            return lflux_fail(L, EPIPE, "the connection to the broker was lost");
    }
    if (!lf->f)
        return lflux_fail(L, ECANCELED,
                          "the future was destroyed, or its handle closed, while waiting for it");
    return 0;
}

int lflux_future_finish(lua_State *L, struct lflux_future *lf, double timeout)
{
    int n = lflux_future_wait(L, lf, timeout);

    if (n == 0)
        n = lf->push(L, lf);
    lflux_future_end(L, lf);
    return n;
}

int lflux_future_await(lua_State *L, struct lflux_future *lf, flux_future_t *f, const char *what,
                       double timeout)
{
    return lflux_future_set(L, lf, f, what) == 1 ? lflux_future_finish(L, lf, timeout) : 3;
}

int lflux_push_failure(lua_State *L, struct lflux_future *lf)
{
    int errnum = flux_future_errnum(lf->f);

    return errnum ? lflux_fail(L, errnum, "%s", flux_future_error(lf->f)) : 0;
}

int lflux_push_response(lua_State *L, struct lflux_future *lf)
{
    const flux_msg_t *msg = flux_rpc_get_msg(lf->f);
    int n = lflux_push_failure(L, lf);
    errmsg_t err;

    if (n > 0)
        return n;
    if (!msg || !flux_msg_payload(msg, &(size_t){0}))
        return lflux_true(L);
    if (lflux_push_payload(L, msg, &err) < 0)
        return lflux_fail(L, errno, "the response to %s is invalid: %s", flux_msg_topic(msg),
                          err.text);
    return 1;
}

int lflux_push_true(lua_State *L, struct lflux_future *lf)
{
    int n = lflux_push_failure(L, lf);

    return n > 0 ? n : lflux_true(L);
}

/* --- callbacks --- */

struct call {
    struct lflux_future *lf;
    flux_future_t *f;
};

/* Push the userdata, unless it was collected; an address may be reused for another object. */
static bool push_same(lua_State *L, const struct call *c)
{
    return lflux_push_known(L, c->lf) && luaL_testudata(L, -1, LFLUX_FUTURE) &&
           lflux_unbox(L, -1) == c->lf && c->lf->f == c->f;
}

static int call_body(lua_State *L)
{
    struct call *c = lua_touserdata(L, 1);
    int n = 1;

    if (!push_same(L, c))
        return 0;
    c->lf->moved = false;
    lflux_push_anchored(L, c->lf->lh->lr, 2);
    if (lua_isnil(L, -1))
        return 0;
    if (c->lf->spread)
        n = c->lf->push(L, c->lf); /* the results are on top; there may be remains below */
    else
        lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_insert(L, -1 - n);
    lua_call(L, n, 0);
    return 0;
}

static int after_body(lua_State *L)
{
    struct call *c = lua_touserdata(L, 1);

    if (!push_same(L, c))
        return 0;
    if (c->lf->stream && !c->lf->moved && flux_future_next(c->lf->f) < 0)
        c->lf->over = true;
    if (!c->lf->stream || c->lf->over) {
        lflux_unanchor(L, c->lf->lh->lr, 2);
        c->lf->callback = false;
    }
    return 0;
}

static void future_cb(flux_future_t *f, void *arg)
{
    struct lflux_future *lf = arg;
    struct lflux_reactor *lr = lf->lh->lr;
    struct call c = {lf, f};

    /* Separate, since the code after the call must run even if the call fails. */
    lflux_protect(lr, call_body, &c);
    lflux_protect(lr, after_body, &c);
}

int lflux_future_then(lua_State *L, struct lflux_future *lf, int obj, int fn, double timeout)
{
    struct lflux_reactor *lr = lf->lh->lr;

    if (lf->over)
        return lflux_fail(L, ENODATA, "there are no more results");
    lflux_known(L, obj, lf);
    lflux_anchor(L, lr, obj, fn);
    lf->callback = true;
    if (!lr->top)
        flux_reactor_update(lr->r);
    /* In C, 0 means forever; here it means not to wait. */
    if (flux_future_then(lf->f, timeout == 0. ? 1e-9 : timeout, future_cb, lf) < 0) {
        int errnum = errno;
        lf->callback = false;
        lflux_unanchor(L, lr, obj);
        return lflux_fail(L, errnum, "cannot watch a future: %s", strerror(errnum));
    }
    return 0;
}

static int future_then(lua_State *L)
{
    struct lflux_future *lf = lflux_check_future(L, 1);
    double timeout = lflux_check_timeout(L, 3);

    luaL_checktype(L, 2, LUA_TFUNCTION);
    if (lflux_future_then(L, lf, 1, 2, timeout) != 0)
        return 3;
    lua_settop(L, 1);
    return 1;
}

/* --- methods --- */

static struct lflux_future *check_waitable(lua_State *L)
{
    struct lflux_future *lf = lflux_check_future(L, 1);

    if (lf->callback && lf->stream)
        luaL_argerror(L, 1, "the results of this future go to its callback");
    return lf;
}

static int future_wait(lua_State *L)
{
    struct lflux_future *lf = lflux_check_future(L, 1);
    double timeout = lflux_check_timeout(L, 2);

    if (!flux_future_ready(lf->f) && lflux_future_wait(L, check_waitable(L), timeout) != 0)
        return 3;
    return lflux_true(L);
}

static int future_get(lua_State *L)
{
    struct lflux_future *lf = lflux_check_future(L, 1);
    double timeout = lflux_check_timeout(L, 2);

    if (!flux_future_ready(lf->f) && lflux_future_wait(L, check_waitable(L), timeout) != 0)
        return 3;
    return lf->push(L, lf);
}

static int future_next(lua_State *L)
{
    struct lflux_future *lf = lflux_check_future(L, 1);

    if (lf->stream && !lf->over) {
        lf->moved = true;
        if (flux_future_next(lf->f) == 0)
            return lflux_true(L);
        lf->over = true;
    }
    return lflux_fail(L, ENODATA, "there are no more results");
}

static int future_ready(lua_State *L)
{
    lua_pushboolean(L, flux_future_ready(lflux_check_future(L, 1)->f));
    return 1;
}

static int future_rank(lua_State *L)
{
    uint32_t rank = flux_mrpc_rank(lflux_check_future(L, 1)->f);

    if (rank == FLUX_NODEID_ANY)
        lua_pushnil(L);
    else
        lua_pushinteger(L, rank);
    return 1;
}

/* Upvalues: the future, the time-out, whether it was called before. */
static int iterate(lua_State *L)
{
    struct lflux_future *lf = lflux_unbox(L, lua_upvalueindex(1));
    double timeout = lua_tonumber(L, lua_upvalueindex(2));
    int n;

    if (!lf || !lf->f)
        return luaL_error(L, "the future was destroyed, or its handle closed");
    if (lua_toboolean(L, lua_upvalueindex(3)) && !lf->over)
        lf->over = flux_future_next(lf->f) < 0;
    lua_pushboolean(L, 1);
    lua_replace(L, lua_upvalueindex(3));
    if (lf->over)
        return 0;
    if (lflux_future_wait(L, lf, timeout) != 0) {
        lua_pop(L, 1);
        return lua_error(L); /* the error message */
    }
    n = lf->push(L, lf);
    if (n != 3 || !lua_isnil(L, -3))
        return n;
    if (lua_tointeger(L, -1) == ENODATA) {
        lf->over = true;
        return 0;
    }
    lua_pop(L, 1);
    return lua_error(L);
}

/* Push an iterator over the results of the future at `obj`. */
static int lflux_future_iterate(lua_State *L, int obj, double timeout)
{
    lua_pushvalue(L, obj);
    lua_pushnumber(L, timeout);
    lua_pushboolean(L, 0);
    lua_pushcclosure(L, iterate, 3);
    return 1;
}

static int future_results(lua_State *L)
{
    check_waitable(L);
    return lflux_future_iterate(L, 1, lflux_check_timeout(L, 2));
}

static int future_destroy(lua_State *L)
{
    lflux_future_end(L, lflux_object(L, 1, LFLUX_FUTURE));
    return 0;
}

static int future_gc(lua_State *L)
{
    struct lflux_future *lf = lflux_collect(L, LFLUX_FUTURE);

    if (lf) {
        struct lflux_handle *lh = lf->lh;
        lflux_future_end(NULL, lf);
        lflux_drop(lf);
        lflux_drop(lh);
    }
    return 0;
}

static int future_tostring(lua_State *L)
{
    struct lflux_future *lf = lflux_object(L, 1, LFLUX_FUTURE);

    return lflux_describe(L, LFLUX_FUTURE, lf->f ? lf : NULL);
}

static const luaL_Reg methods[] = {
    {"wait", future_wait},       {"get", future_get},
    {"next", future_next},       {"then_", future_then},
    {"next_", future_then},      {"results", future_results},
    {"ready", future_ready},     {"rank", future_rank},
    {"destroy", future_destroy}, {NULL, NULL},
};

void lflux_future_register(lua_State *L)
{
    lflux_class(L, LFLUX_FUTURE, methods, future_gc, future_tostring);
}
