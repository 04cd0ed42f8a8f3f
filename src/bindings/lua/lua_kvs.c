/* lua_kvs.c - the key-value store: namespaces as objects, their versions and snapshots.
 *
 *    kv = h:kvs([namespace])
 *    kv:version()               version, root reference
 *    kv:wait_version(v)         the same, once this broker has reached v
 *    kv:snapshot([rootref])     the namespace at its current root (or that root), until release()
 *    kv:at(rootref)             the same without keeping the root
 *    kv:namespace()
 *    h:namespace_create(name [, {owner=uid, rank=r}])  h:namespace_remove(name)  h:namespaces()
 *
 * Reading is in lua_kvs_read.c, writing in lua_kvs_txn.c and lua_kvs_stream.c, watching in
 * lua_kvs_watch.c.
 *
 * Invariants:
 *  1. A namespace object has no state but its name and root: its requests belong to the handle.
 *  2. Keys and names are checked here, for an error message that is more than EINVAL.
 *  3. An object at a given root cannot write.
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libkvs/kvs_key.h"
#include "lua_kvs.h"

struct lflux_kvs *lflux_check_kvs(lua_State *L, int arg)
{
    struct lflux_kvs *kv = luaL_checkudata(L, arg, LFLUX_KVS);

    if (!kv->lh || !kv->lh->conn)
        luaL_argerror(L, arg, "its handle was closed");
    if (kv->snapshot && !kv->snapshot->f)
        luaL_argerror(L, arg, "the snapshot was released");
    return kv;
}

struct lflux_kvs *lflux_check_current(lua_State *L, int arg)
{
    struct lflux_kvs *kv = lflux_check_kvs(L, arg);

    if (kv->at_root)
        luaL_argerror(L, arg, "it is at a past root, which cannot be changed");
    return kv;
}

/* Push a new one for the handle (or future) at `parent`. */
static struct lflux_kvs *lflux_kvs_push(lua_State *L, int parent, struct lflux_handle *lh)
{
    struct lflux_kvs *kv;

    parent = lua_absindex(L, parent);
    kv = lua_newuserdata(L, sizeof(*kv));
    *kv = (struct lflux_kvs){.lh = lh};
    lflux_hold(lh);
    luaL_setmetatable(L, LFLUX_KVS);
    lua_pushvalue(L, parent);
    lua_setuservalue(L, -2);
    return kv;
}

struct lflux_future *lflux_kvs_future(lua_State *L, int kv, lflux_push_f push)
{
    lua_getuservalue(L, kv);
    if (luaL_testudata(L, -1, LFLUX_FUTURE)) {
        lua_getuservalue(L, -1);
        lua_remove(L, -2);
    }
    return lflux_future_push(L, -1, push);
}

int lflux_bad_key(lua_State *L, const char *key, bool root_allowed)
{
    size_t len = strlen(key);
    errmsg_t err;

    if ((root_allowed && kvs_key_is_root(key, len)) || kvs_key_check(key, len, &err) == 0)
        return 0;
    return lflux_fail_err(L, errno, &err);
}

static int lflux_bad_ns(lua_State *L, const char *ns)
{
    errmsg_t err;

    return kvs_ns_check(ns, strlen(ns), &err) < 0 ? lflux_fail_err(L, errno, &err) : 0;
}

const char *lflux_kvs_type(enum flux_kvs_type type)
{
    return type == FLUX_KVS_DIR ? "dir" : type == FLUX_KVS_LINK ? "link" : "value";
}

/* --- two forms of a method --- */

void lflux_kvs_methods(lua_State *L, const char *class, const luaL_Reg methods[])
{
    luaL_getmetatable(L, class);
    lua_getfield(L, -1, "__index");
    for (const luaL_Reg *m = methods; m->name; m++) {
        lua_pushboolean(L, 0);
        lua_pushcclosure(L, m->func, 1);
        lua_setfield(L, -2, m->name);
        lua_pushfstring(L, "%s_async", m->name);
        lua_pushboolean(L, 1);
        lua_pushcclosure(L, m->func, 1);
        lua_rawset(L, -3);
    }
    lua_pop(L, 2);
}

int lflux_kvs_deliver(lua_State *L, struct lflux_future *lf, flux_future_t *f, const char *what,
                      int options)
{
    double timeout = -1.;

    /* An error raised here must find the C future in its userdata. */
    if (lflux_future_set(L, lf, f, what) != 1)
        return 3;
    if (options)
        timeout = lflux_option_timeout(L, options);
    if (lua_toboolean(L, lua_upvalueindex(1))) {
        if (timeout >= 0.)
            luaL_argerror(
                L, options,
                "'timeout' is for the waiting form: pass it to wait, get or then_ of the future");
        return 1;
    }
    return lflux_future_finish(L, lf, timeout);
}

/* --- versions --- */

int lflux_push_version(lua_State *L, struct lflux_future *lf)
{
    const char *rootref;
    uint64_t version;
    errmsg_t err;

    if (flux_kvs_commit_get(lf->f, &version, &rootref, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushinteger(L, (lua_Integer)version);
    lua_pushstring(L, rootref);
    return 2;
}

static const char *const timeout_option[] = {"timeout", NULL};

static int kvs_version(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_current(L, 1);
    struct lflux_future *lf;

    lflux_check_options(L, 2, timeout_option);
    lua_settop(L, 2);
    lf = lflux_kvs_future(L, 1, lflux_push_version);
    return lflux_kvs_deliver(L, lf, flux_kvs_version(kv->lh->conn->h, lflux_kvs_ns(kv)),
                             "for the version", 2);
}

static int kvs_wait_version(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_current(L, 1);
    lua_Integer version = lflux_check_range(L, 2, "a version", 0, LUA_MAXINTEGER);
    struct lflux_future *lf;

    /* wait_version(v, seconds) for short. */
    if (lua_type(L, 3) == LUA_TNUMBER) {
        lua_createtable(L, 0, 1);
        lua_pushvalue(L, 3);
        lua_setfield(L, -2, "timeout");
        lua_replace(L, 3);
    }
    lflux_check_options(L, 3, timeout_option);
    lua_settop(L, 3);
    lf = lflux_kvs_future(L, 1, lflux_push_version);
    return lflux_kvs_deliver(
        L, lf, flux_kvs_wait_version(kv->lh->conn->h, lflux_kvs_ns(kv), (uint64_t)version),
        "for a version", 3);
}

static const luaL_Reg version_methods[] = {
    {"version", kvs_version},
    {"wait_version", kvs_wait_version},
    {NULL, NULL},
};

/* --- roots of the past --- */

static int set_root(lua_State *L, struct lflux_kvs *kv, const char *rootref)
{
    if (strlen(rootref) >= sizeof(kv->rootref) || !*rootref)
        return lflux_fail(L, EINVAL, "'%s' is not a root reference", rootref);
    strcpy(kv->rootref, rootref);
    kv->at_root = true;
    return 1;
}

static int kvs_at(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *rootref = lflux_check_text(L, 2, "the root reference");
    struct lflux_kvs *at;

    lua_getuservalue(L, 1);
    at = lflux_kvs_push(L, -1, kv->lh);
    strcpy(at->ns, kv->ns);
    return set_root(L, at, rootref);
}

static int kvs_snapshot(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);
    const char *rootref = lflux_opt_text(L, 2, "the root reference");
    struct lflux_kvs *snap;
    struct lflux_future *lf;
    errmsg_t err;

    if (!rootref && kv->at_root)
        rootref = kv->rootref;
    lf = lflux_kvs_future(L, 1, lflux_push_version);
    lf->stream = true;
    if (lflux_future_set(L, lf, flux_kvs_snapshot(kv->lh->conn->h, lflux_kvs_ns(kv), rootref),
                         "for a snapshot") != 1 ||
        lflux_future_wait(L, lf, -1.) != 0)
        return 3;
    if (flux_kvs_commit_get(lf->f, NULL, &rootref, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    snap = lflux_kvs_push(L, -1, kv->lh);
    snap->snapshot = lf;
    lflux_hold(lf);
    strcpy(snap->ns, kv->ns);
    return set_root(L, snap, rootref);
}

static int kvs_release(lua_State *L)
{
    struct lflux_kvs *kv = luaL_checkudata(L, 1, LFLUX_KVS);

    if (kv->snapshot)
        lflux_future_end(L, kv->snapshot);
    return 0;
}

static int kvs_rootref(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_kvs(L, 1);

    if (kv->at_root)
        lua_pushstring(L, kv->rootref);
    else
        lua_pushnil(L);
    return 1;
}

static int kvs_namespace(lua_State *L)
{
    struct lflux_kvs *kv = luaL_checkudata(L, 1, LFLUX_KVS);

    lua_pushstring(L, kv->ns[0] ? kv->ns : KVS_NS_PRIMARY);
    return 1;
}

static int kvs_tostring(lua_State *L)
{
    struct lflux_kvs *kv = luaL_checkudata(L, 1, LFLUX_KVS);

    lua_pushfstring(L, "%s: %s%s%s", LFLUX_KVS, kv->ns[0] ? kv->ns : KVS_NS_PRIMARY,
                    kv->at_root ? " at " : "", kv->rootref);
    return 1;
}

/* A snapshot ends with its object, even if there are other references to its future. */
static int kvs_gc(lua_State *L)
{
    struct lflux_kvs *kv = luaL_checkudata(L, 1, LFLUX_KVS);

    if (kv->snapshot)
        lflux_future_end(NULL, kv->snapshot);
    lflux_drop(kv->snapshot);
    lflux_drop(kv->lh);
    kv->snapshot = NULL;
    kv->lh = NULL;
    return 0;
}

static const luaL_Reg methods[] = {
    {"at", kvs_at},
    {"snapshot", kvs_snapshot},
    {"release", kvs_release},
    {"rootref", kvs_rootref},
    {"namespace", kvs_namespace},
    {"txn", lflux_kvs_txn_new},
    {"writer", lflux_kvs_writer},
    {"watch", lflux_kvs_watch},
    {NULL, NULL},
};

/* --- namespaces --- */

static int handle_kvs(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *ns = lflux_opt_text(L, 2, "the namespace");
    struct lflux_kvs *kv;

    if (ns && lflux_bad_ns(L, ns) != 0)
        return 3;
    kv = lflux_kvs_push(L, 1, lh);
    if (ns && strcmp(ns, KVS_NS_PRIMARY) != 0)
        snprintf(kv->ns, sizeof(kv->ns), "%s", ns);
    return 1;
}

static uint32_t u32_option(lua_State *L, int arg, const char *name, lua_Integer max,
                           uint32_t otherwise)
{
    uint32_t value = otherwise;

    if (lflux_option(L, arg, name) != LUA_TNIL) {
        lua_Integer n = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
        if (n < 0 || n > max)
            luaL_argerror(L, arg,
                          lua_pushfstring(L, "option '%s' is an integer from 0 to %I", name,
                                          (LUAI_UACINT)max));
        value = (uint32_t)n;
    }
    lua_pop(L, 1);
    return value;
}

static int handle_namespace_create(lua_State *L)
{
    static const char *const names[] = {"owner", "rank", NULL};
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *ns = lflux_check_text(L, 2, "the namespace");
    uint32_t owner, rank;
    struct lflux_future *lf;

    lua_settop(L, 3);
    lflux_check_options(L, 3, names);
    owner = u32_option(L, 3, "owner", UINT32_MAX - 1, FLUX_KVS_OWNER_SELF);
    rank = u32_option(L, 3, "rank", FLUX_RANK_MAX, 0);
    if (lflux_bad_ns(L, ns) != 0)
        return 3;
    if (rank >= flux_size(lh->conn->h))
        return lflux_fail(L, EINVAL, "there is no rank %d: the session has ranks 0 to %d",
                          (int)rank, (int)flux_size(lh->conn->h) - 1);
    lf = lflux_future_push(L, 1, lflux_push_true);
    return lflux_future_await(L, lf, flux_kvs_namespace_create(lh->conn->h, ns, owner, rank),
                              "for a namespace", -1.);
}

static int handle_namespace_remove(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *ns = lflux_check_text(L, 2, "the namespace");
    struct lflux_future *lf;

    if (lflux_bad_ns(L, ns) != 0)
        return 3;
    lf = lflux_future_push(L, 1, lflux_push_true);
    return lflux_future_await(L, lf, flux_kvs_namespace_remove(lh->conn->h, ns),
                              "to remove a namespace", -1.);
}

static int push_namespaces(lua_State *L, struct lflux_future *lf)
{
    struct flux_kvs_namespace n;
    lua_Integer count = 0;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    lua_newtable(L);
    while ((rc = flux_kvs_namespace_next(lf->f, &pos, &n, &err)) > 0) {
        lua_createtable(L, 0, 4);
        lua_pushstring(L, n.name);
        lua_setfield(L, -2, "name");
        lua_pushinteger(L, n.owner);
        lua_setfield(L, -2, "owner");
        lua_pushinteger(L, n.rank);
        lua_setfield(L, -2, "rank");
        lua_pushboolean(L, n.lost);
        lua_setfield(L, -2, "lost");
        lua_rawseti(L, -2, ++count);
    }
    return rc < 0 ? lflux_fail_err(L, errno, &err) : 1;
}

static int handle_namespaces(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    struct lflux_future *lf = lflux_future_push(L, 1, push_namespaces);

    return lflux_future_await(L, lf, flux_kvs_namespace_list(lh->conn->h), "for the namespaces",
                              -1.);
}

const luaL_Reg lflux_kvs_handle_methods[] = {
    {"kvs", handle_kvs},
    {"namespace_create", handle_namespace_create},
    {"namespace_remove", handle_namespace_remove},
    {"namespaces", handle_namespaces},
    {NULL, NULL},
};

void lflux_kvs_register(lua_State *L)
{
    lflux_class(L, LFLUX_KVS, methods, kvs_gc, kvs_tostring);
    lflux_kvs_methods(L, LFLUX_KVS, version_methods);
    lflux_kvs_methods(L, LFLUX_KVS, lflux_kvs_read_methods);
    lflux_extend(L, LFLUX_KVS, lflux_kvs_dir_methods);
    lflux_kvs_methods(L, LFLUX_KVS, lflux_kvs_write_methods);
    lflux_kvs_txn_register(L);
    lflux_kvs_stream_register(L);
}
