/* lua_kvs_watch.c - watching a key of the key-value store.
 *
 *    f = kv:watch(key [, options] [, fn])
 *
 * A stream of results: the current state of the key, and its state after each change.  The loop
 * calls fn(result); or use `for result in f:results() do ... end`.  f:destroy() ends the stream.  A
 * result is a table:
 *
 *    the key is       result
 *    a value          {type="value", value=..., size=..., version=..., whole=boolean}
 *    a directory      {type="dir", entries={name -> {type, size, value}}, size, version}
 *    the same with    {type="dir", changes={{key, change="added"|"changed"|"removed", type, size,
 *      diff           value}...}, size, version}
 *    missing          {absent=true}
 *
 *    option     meaning
 *    values     directories: with the values
 *    append     values: after the first result only the bytes that were appended, or, with
 *               whole=true, the value that replaced it
 *    diff       directories: the changes below, at any depth
 *
 * Invariants: those of lua_future.c.
 *
 * Failure: the stream ends with fn(nil, error message, errno).
 */
#include "config.h"
#include <errno.h>

#include "lua_kvs.h"

static const char *change_name(enum flux_kvs_change_type change)
{
    return change == FLUX_KVS_ADDED ? "added" : change == FLUX_KVS_REMOVED ? "removed" : "changed";
}

static int push_changes(lua_State *L, struct lflux_future *lf)
{
    struct flux_kvs_change c;
    lua_Integer count = 0;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    lua_newtable(L);
    while ((rc = flux_kvs_change_next(lf->f, &pos, &c, &err)) > 0) {
        lua_createtable(L, 0, 5);
        lua_pushstring(L, c.key);
        lua_setfield(L, -2, "key");
        lua_pushstring(L, change_name(c.change));
        lua_setfield(L, -2, "change");
        lua_pushstring(L, lflux_kvs_type(c.type));
        lua_setfield(L, -2, "type");
        lua_pushinteger(L, (lua_Integer)c.size);
        lua_setfield(L, -2, "size");
        if (c.data) {
            lua_pushlstring(L, c.data, c.size);
            lua_setfield(L, -2, "value");
        }
        lua_rawseti(L, -2, ++count);
    }
    return rc < 0 ? lflux_fail_err(L, errno, &err) : 1;
}

/* The value into field `value`, or what a directory has into `field`.  1; 3 on failure. */
static int add_contents(lua_State *L, struct lflux_future *lf, const struct flux_kvs_info *info,
                        bool diff)
{
    const char *data;
    errmsg_t err;
    size_t len;

    if (info->type == FLUX_KVS_DIR) {
        if ((diff ? push_changes(L, lf) : lflux_push_entries(L, lf)) != 1)
            return 3;
        lua_setfield(L, -2, diff ? "changes" : "entries");
        return 1;
    }
    if (flux_kvs_lookup_get(lf->f, &data, &len, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushlstring(L, data, len);
    lua_setfield(L, -2, "value");
    lua_pushboolean(L, flux_kvs_watch_whole(lf->f));
    lua_setfield(L, -2, "whole");
    return 1;
}

static int push_result(lua_State *L, struct lflux_future *lf, bool diff)
{
    struct flux_kvs_info info;
    int n = lflux_push_failure(L, lf);
    errmsg_t err;

    if (n > 0)
        return n;
    lua_createtable(L, 0, 5);
    if (flux_kvs_watch_absent(lf->f)) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "absent");
        return 1;
    }
    if (flux_kvs_lookup_get_info(lf->f, &info, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushstring(L, lflux_kvs_type(info.type));
    lua_setfield(L, -2, "type");
    lua_pushinteger(L, (lua_Integer)info.size);
    lua_setfield(L, -2, "size");
    lua_pushinteger(L, (lua_Integer)info.version);
    lua_setfield(L, -2, "version");
    return add_contents(L, lf, &info, diff);
}

static int push_watch(lua_State *L, struct lflux_future *lf)
{
    return push_result(L, lf, false);
}

static int push_watch_diff(lua_State *L, struct lflux_future *lf)
{
    return push_result(L, lf, true);
}

int lflux_kvs_watch(lua_State *L)
{
    static const char *const names[] = {"values", "append", "diff", NULL};
    struct lflux_kvs *kv = lflux_check_current(L, 1);
    const char *key = lflux_check_text(L, 2, "the key");
    struct lflux_future *lf;
    int flags = 0;

    if (lua_isfunction(L, 3)) {
        lua_settop(L, 3);
        lua_pushnil(L);
        lua_insert(L, 3);
    }
    lua_settop(L, 4);
    lflux_check_options(L, 3, names);
    if (!lua_isnil(L, 4))
        luaL_checktype(L, 4, LUA_TFUNCTION);
    if (lflux_option_bool(L, 3, "values"))
        flags |= FLUX_KVS_VALUES;
    if (lflux_option_bool(L, 3, "append"))
        flags |= FLUX_KVS_WATCH_APPEND;
    if (lflux_option_bool(L, 3, "diff"))
        flags |= FLUX_KVS_WATCH_DIFF;
    if (lflux_bad_key(L, key, true) != 0)
        return 3;
    lf = lflux_kvs_future(L, 1, flags & FLUX_KVS_WATCH_DIFF ? push_watch_diff : push_watch);
    lf->stream = true;
    if (lflux_future_set(L, lf, flux_kvs_watch(kv->lh->conn->h, lflux_kvs_ns(kv), key, flags),
                         key) != 1)
        return 3;
    if (lua_isnil(L, 4))
        return 1;
    lf->spread = true;
    return lflux_future_then(L, lf, lua_gettop(L), 4, -1.) != 0 ? 3 : 1;
}
