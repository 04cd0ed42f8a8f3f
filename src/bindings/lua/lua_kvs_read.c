/* lua_kvs_read.c - reading the key-value store.
 *
 *    kv:get(key [, options])        the value, a string of bytes
 *    kv:info(key [, options])       {type, version, size, tag, value}
 *    kv:readlink(key)               the target of a symbolic link
 *    kv:entries([key [, options]])  name -> {type, size, value}
 *    kv:dir([key [, options]])      iterator: name, type, size, value
 *    kv:chunks(key [, size])        iterator over the pieces of a value of any size
 *    kv:store(data)                 digests of chunks for txn:put_chunks()
 *
 *    option      for            meaning
 *    json        get            decode the value
 *    offset      get            with count: return a part of the value
 *    count       get            maximum number of bytes, 1 to 1 MiB
 *    link        info           a symbolic link itself, not its target
 *    brief       info           without the value, which may then be of any size
 *    values      entries, dir   with the values
 *    page        dir            number of entries in a response; they come from a snapshot
 *    timeout     all but dir    seconds; for the waiting form
 *
 * All but dir and chunks have a second form, NAME_async, that returns a future.
 *
 * Invariants:
 *  1. An iterator reads at one root: it has one response, or holds a snapshot until its end.
 *  2. An iterator that fails at its start returns the error message; later, it raises it.
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "lua_kvs.h"

static const char *at_root(const struct lflux_kvs *kv)
{
    return kv->at_root ? kv->rootref : NULL;
}

/* --- values --- */

static int push_value(lua_State *L, struct lflux_future *lf)
{
    const char *data;
    errmsg_t err;
    size_t len;

    if (flux_kvs_lookup_get(lf->f, &data, &len, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushlstring(L, data, len);
    return 1;
}

static int push_json(lua_State *L, struct lflux_future *lf)
{
    const char *data;
    errmsg_t err;
    size_t len;

    if (flux_kvs_lookup_get(lf->f, &data, &len, &err) < 0 ||
        lflux_json_decode(L, data, len, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return 1;
}

static int push_properties(lua_State *L, struct lflux_future *lf, bool brief)
{
    struct flux_kvs_info info;
    const char *data;
    errmsg_t err;
    size_t len;

    if (flux_kvs_lookup_get_info(lf->f, &info, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_createtable(L, 0, 5);
    lua_pushstring(L, lflux_kvs_type(info.type));
    lua_setfield(L, -2, "type");
    lua_pushinteger(L, (lua_Integer)info.version);
    lua_setfield(L, -2, "version");
    lua_pushinteger(L, (lua_Integer)info.size);
    lua_setfield(L, -2, "size");
    if (info.tag[0]) {
        lua_pushstring(L, info.tag);
        lua_setfield(L, -2, "tag");
    }
    if (!brief && info.type != FLUX_KVS_DIR && flux_kvs_lookup_get(lf->f, &data, &len, &err) == 0) {
        lua_pushlstring(L, data, len);
        lua_setfield(L, -2, "value");
    }
    return 1;
}

static int push_info(lua_State *L, struct lflux_future *lf)
{
    return push_properties(L, lf, false);
}

static int push_brief(lua_State *L, struct lflux_future *lf)
{
    return push_properties(L, lf, true);
}

/* An integer option in [lo, hi]; `*given` tells whether it is there. */
static lua_Integer integer_option(lua_State *L, int arg, const char *name, lua_Integer lo,
                                  lua_Integer hi, bool *given)
{
    lua_Integer n = 0;

    *given = lflux_option(L, arg, name) != LUA_TNIL;
    if (*given) {
        n = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : lo - 1;
        if (n < lo || n > hi)
            luaL_argerror(L, arg,
                          lua_pushfstring(L, "option '%s' is an integer from %I to %I", name,
                                          (LUAI_UACINT)lo, (LUAI_UACINT)hi));
    }
    lua_pop(L, 1);
    return n;
}

static int kvs_get(lua_State *L)
{
    static const char *const names[] = {"json", "offset", "count", "timeout", NULL};
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *key = lflux_check_text(L, 2, "the key");
    flux_t *h = kv->lh->conn->h;
    bool has_offset, has_count, json;
    lua_Integer offset, count;
    struct lflux_future *lf;
    flux_future_t *f;

    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    json = lflux_option_bool(L, 3, "json");
    offset = integer_option(L, 3, "offset", 0, LUA_MAXINTEGER, &has_offset);
    count = integer_option(L, 3, "count", 1, FLUX_KVS_STORE_MAX, &has_count);
    if (has_offset && !has_count)
        count = FLUX_KVS_STORE_MAX;
    if (lflux_bad_key(L, key, true) != 0)
        return 3;
    lf = lflux_kvs_future(L, 1, json ? push_json : push_value);
    if (has_offset || has_count)
        f = flux_kvs_lookup_range(h, lflux_kvs_ns(kv), key, at_root(kv), (uint64_t)offset,
                                  (uint32_t)count);
    else
        f = flux_kvs_lookup(h, lflux_kvs_ns(kv), key, 0, at_root(kv));
    return lflux_kvs_deliver(L, lf, f, key, 3);
}

static int kvs_info(lua_State *L)
{
    static const char *const names[] = {"link", "brief", "timeout", NULL};
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *key = lflux_check_text(L, 2, "the key");
    int flags = FLUX_KVS_TAG;
    struct lflux_future *lf;
    bool brief;

    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    if (lflux_option_bool(L, 3, "link"))
        flags |= FLUX_KVS_READLINK;
    brief = lflux_option_bool(L, 3, "brief");
    if (brief)
        flags |= FLUX_KVS_INFO;
    if (lflux_bad_key(L, key, true) != 0)
        return 3;
    lf = lflux_kvs_future(L, 1, brief ? push_brief : push_info);
    return lflux_kvs_deliver(
        L, lf, flux_kvs_lookup(kv->lh->conn->h, lflux_kvs_ns(kv), key, flags, at_root(kv)), key, 3);
}

static int push_link(lua_State *L, struct lflux_future *lf)
{
    struct flux_kvs_info info;
    errmsg_t err;

    if (flux_kvs_lookup_get_info(lf->f, &info, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    if (info.type != FLUX_KVS_LINK)
        return lflux_fail(L, EINVAL, "it is a %s, not a symbolic link", lflux_kvs_type(info.type));
    return push_value(L, lf);
}

static int kvs_readlink(lua_State *L)
{
    static const char *const names[] = {"timeout", NULL};
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *key = lflux_check_text(L, 2, "the key");
    struct lflux_future *lf;

    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    if (lflux_bad_key(L, key, false) != 0)
        return 3;
    lf = lflux_kvs_future(L, 1, push_link);
    return lflux_kvs_deliver(
        L, lf,
        flux_kvs_lookup(kv->lh->conn->h, lflux_kvs_ns(kv), key, FLUX_KVS_READLINK, at_root(kv)),
        key, 3);
}

/* --- directories --- */

int lflux_push_entries(lua_State *L, struct lflux_future *lf)
{
    struct flux_kvs_dirent e;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    lua_newtable(L);
    while ((rc = flux_kvs_readdir_next(lf->f, &pos, &e, &err)) > 0) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, lflux_kvs_type(e.type));
        lua_setfield(L, -2, "type");
        lua_pushinteger(L, (lua_Integer)e.size);
        lua_setfield(L, -2, "size");
        if (e.data) {
            lua_pushlstring(L, e.data, e.size);
            lua_setfield(L, -2, "value");
        }
        lua_setfield(L, -2, e.name);
    }
    return rc < 0 ? lflux_fail_err(L, errno, &err) : 1;
}

static int kvs_entries(lua_State *L)
{
    static const char *const names[] = {"values", "timeout", NULL};
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *key = lflux_opt_text(L, 2, "the key");
    struct lflux_future *lf;
    int flags;

    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    flags = lflux_option_bool(L, 3, "values") ? FLUX_KVS_VALUES : 0;
    key = key ? key : ".";
    if (lflux_bad_key(L, key, true) != 0)
        return 3;
    lf = lflux_kvs_future(L, 1, lflux_push_entries);
    return lflux_kvs_deliver(
        L, lf, flux_kvs_readdir(kv->lh->conn->h, lflux_kvs_ns(kv), key, flags, at_root(kv)), key,
        3);
}

/* What an iterator over a directory keeps, as upvalues. */
enum { UP_FUTURE = 1, UP_POS, UP_KVS, UP_KEY, UP_FLAGS, UP_PAGE, UP_LAST, UP_COUNT = UP_LAST };

/* Ask for the page after `last` (NULL: the first), at the object at `kvs`; its future is pushed.
 * 0; 3 with nil, error message, errno pushed. */
static int ask_page(lua_State *L, int kvs, const char *key, int flags, lua_Integer page,
                    const char *last)
{
    struct lflux_kvs *kv = lua_touserdata(L, kvs);
    struct lflux_future *lf;
    flux_future_t *f;
    errmsg_t err;
    int top;

    if (!kv->lh || !kv->lh->conn || (kv->snapshot && !kv->snapshot->f))
        return lflux_fail(L, ECANCELED, "the handle was closed, or the snapshot released");
    lf = lflux_kvs_future(L, kvs, lflux_push_entries);
    top = lua_gettop(L);
    if (page > 0)
        f = flux_kvs_readdir_page(kv->lh->conn->h, lflux_kvs_ns(kv), key, flags, at_root(kv), last,
                                  (uint32_t)page);
    else
        f = flux_kvs_readdir(kv->lh->conn->h, lflux_kvs_ns(kv), key, flags, at_root(kv));
    if (lflux_future_set(L, lf, f, key) != 1 || lflux_future_wait(L, lf, -1.) != 0)
        return 3;
    if (flux_kvs_readdir_count(lf->f, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_settop(L, top);
    return 0;
}

/* The end: release now, not on collection, what the iterator holds. */
static void end_iteration(lua_State *L)
{
    struct lflux_kvs *kv = lua_touserdata(L, lua_upvalueindex(UP_KVS));

    lflux_future_end(L, lflux_unbox(L, lua_upvalueindex(UP_FUTURE)));
    if (lua_tointeger(L, lua_upvalueindex(UP_PAGE)) < 0 && kv->snapshot)
        lflux_future_end(L, kv->snapshot);
}

static int dir_next(lua_State *L)
{
    struct lflux_future *lf = lflux_unbox(L, lua_upvalueindex(UP_FUTURE));
    size_t pos = (size_t)lua_tointeger(L, lua_upvalueindex(UP_POS));
    lua_Integer page = lua_tointeger(L, lua_upvalueindex(UP_PAGE));
    struct flux_kvs_dirent e;
    errmsg_t err;
    int rc;

    if (!lf || !lf->f)
        return luaL_error(L, "the iteration has ended, or its handle was closed");
    while ((rc = flux_kvs_readdir_next(lf->f, &pos, &e, &err)) == 0 && page != 0 &&
           flux_kvs_readdir_more(lf->f)) {
        lua_pushvalue(L, lua_upvalueindex(UP_KVS));
        if (ask_page(L, lua_gettop(L), lua_tostring(L, lua_upvalueindex(UP_KEY)),
                     (int)lua_tointeger(L, lua_upvalueindex(UP_FLAGS)), page < 0 ? -page : page,
                     lua_tostring(L, lua_upvalueindex(UP_LAST))) != 0) {
            lua_pop(L, 1);
            return lua_error(L);
        }
        lflux_future_end(L, lf);
        lf = lflux_unbox(L, -1);
        lua_replace(L, lua_upvalueindex(UP_FUTURE));
        pos = 0;
    }
    if (rc < 0)
        return luaL_error(L, "%s", err.text);
    if (rc == 0) {
        end_iteration(L);
        return 0;
    }
    lua_pushinteger(L, (lua_Integer)pos);
    lua_replace(L, lua_upvalueindex(UP_POS));
    lua_pushstring(L, e.name);
    if (page != 0) {
        lua_pushvalue(L, -1);
        lua_replace(L, lua_upvalueindex(UP_LAST));
    }
    lua_pushstring(L, lflux_kvs_type(e.type));
    lua_pushinteger(L, (lua_Integer)e.size);
    if (!e.data)
        return 3;
    lua_pushlstring(L, e.data, e.size);
    return 4;
}

/* kv:snapshot() of the object at `kvs`: 0 with it pushed; 3 with nil, error message, errno. */
static int push_snapshot(lua_State *L, int kvs)
{
    lua_getfield(L, kvs, "snapshot");
    lua_pushvalue(L, kvs);
    lua_call(L, 1, 3);
    if (lua_isnil(L, -3))
        return 3;
    lua_pop(L, 2);
    return 0;
}

static int kvs_dir(lua_State *L)
{
    static const char *const names[] = {"values", "page", NULL};
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *key = lflux_opt_text(L, 2, "the key");
    lua_Integer page;
    bool paged;
    int flags;

    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    flags = lflux_option_bool(L, 3, "values") ? FLUX_KVS_VALUES : 0;
    page = integer_option(L, 3, "page", 1, 1 << 20, &paged);
    key = key ? key : ".";
    if (lflux_bad_key(L, key, true) != 0)
        return 3;
    lua_settop(L, 1);
    if (paged && !kv->at_root) {
        if (push_snapshot(L, 1) != 0)
            return 3;
        lua_replace(L, 1);
        page = -page; /* negative: the snapshot is the iterator's own */
    }
    lua_pushstring(L, key);
    key = lua_tostring(L, 2);
    if (ask_page(L, 1, key, flags, page < 0 ? -page : page, NULL) != 0)
        return 3;
    lua_pushinteger(L, 0);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_pushinteger(L, flags);
    lua_pushinteger(L, page);
    lua_pushnil(L);
    lua_pushcclosure(L, dir_next, UP_COUNT);
    return 1;
}

/* --- large values --- */

/* Upvalues: snapshot object, key, piece size, offset, own (the snapshot is the iterator's). */
static int chunk_next(lua_State *L)
{
    struct lflux_kvs *kv = lua_touserdata(L, lua_upvalueindex(1));
    const char *key = lua_tostring(L, lua_upvalueindex(2));
    lua_Integer size = lua_tointeger(L, lua_upvalueindex(3));
    lua_Integer offset = lua_tointeger(L, lua_upvalueindex(4));
    struct lflux_future *lf;
    flux_future_t *f;

    lua_settop(L, 0);
    if (!kv->lh || !kv->lh->conn || (kv->snapshot && !kv->snapshot->f))
        return luaL_error(L, "the iteration has ended, or its handle was closed");
    lua_pushvalue(L, lua_upvalueindex(1));
    lf = lflux_kvs_future(L, 1, push_value);
    f = flux_kvs_lookup_range(kv->lh->conn->h, lflux_kvs_ns(kv), key, at_root(kv), (uint64_t)offset,
                              (uint32_t)size);
    if (lflux_future_await(L, lf, f, key, -1.) != 1) {
        lua_pop(L, 1);
        return lua_error(L);
    }
    if (lua_rawlen(L, -1) == 0) {
        if (lua_toboolean(L, lua_upvalueindex(5)) && kv->snapshot)
            lflux_future_end(L, kv->snapshot);
        return 0;
    }
    lua_pushinteger(L, offset + (lua_Integer)lua_rawlen(L, -1));
    lua_replace(L, lua_upvalueindex(4));
    return 1;
}

static int kvs_chunks(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *key = lflux_check_text(L, 2, "the key");
    lua_Integer size = FLUX_KVS_STORE_MAX;
    struct flux_kvs_info info;
    struct lflux_future *lf;
    errmsg_t err;

    if (!lua_isnoneornil(L, 3))
        size = lflux_check_range(L, 3, "the size of a piece", 1, FLUX_KVS_STORE_MAX);
    if (lflux_bad_key(L, key, false) != 0)
        return 3;
    lua_settop(L, 2);
    lua_pushboolean(L, !kv->at_root);
    if (kv->at_root)
        lua_pushvalue(L, 1);
    else if (push_snapshot(L, 1) != 0)
        return 3;
    kv = lua_touserdata(L, 4);
    /* Report a missing key, or one that is not a value, now. */
    lf = lflux_kvs_future(L, 4, push_value);
    if (lflux_future_set(
            L, lf, flux_kvs_lookup_range(kv->lh->conn->h, lflux_kvs_ns(kv), key, at_root(kv), 0, 1),
            key) != 1 ||
        lflux_future_wait(L, lf, -1.) != 0)
        return 3;
    if (flux_kvs_lookup_get_info(lf->f, &info, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    if (info.type != FLUX_KVS_VALUE)
        return lflux_fail(L, EISDIR, "'%s' is a directory", key);
    lflux_future_end(L, lf);
    lua_pushvalue(L, 4);
    lua_pushvalue(L, 2);
    lua_pushinteger(L, size);
    lua_pushinteger(L, 0);
    lua_pushvalue(L, 3);
    lua_pushcclosure(L, chunk_next, 5);
    return 1;
}

static int push_digests(lua_State *L, struct lflux_future *lf)
{
    const uint8_t *digests;
    size_t n, dsize;
    errmsg_t err;

    if (flux_kvs_store_get(lf->f, &digests, &n, &dsize, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushlstring(L, (const char *)digests, n * dsize);
    return 1;
}

static int kvs_store(lua_State *L)
{
    static const char *const names[] = {"timeout", NULL};
    struct lflux_kvs *kv = lflux_check_current(L, 1);
    struct lflux_future *lf;
    const char *data;
    size_t len;

    data = luaL_checklstring(L, 2, &len);
    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    if (len == 0 || len > FLUX_KVS_STORE_MAX)
        return lflux_fail(L, EINVAL, "a piece of a value has 1 to %d bytes", FLUX_KVS_STORE_MAX);
    lf = lflux_kvs_future(L, 1, push_digests);
    return lflux_kvs_deliver(L, lf, flux_kvs_store(kv->lh->conn->h, lflux_kvs_ns(kv), data, len),
                             "to store a piece of a value", 3);
}

const luaL_Reg lflux_kvs_read_methods[] = {
    {"get", kvs_get},         {"info", kvs_info},   {"readlink", kvs_readlink},
    {"entries", kvs_entries}, {"store", kvs_store}, {NULL, NULL},
};

const luaL_Reg lflux_kvs_dir_methods[] = {
    {"dir", kvs_dir},
    {"chunks", kvs_chunks},
    {NULL, NULL},
};
