/* lua_kvs_txn.c - changing the key-value store.
 *
 *    t = kv:txn()
 *    t:put(key, value) t:put{key = value...}  t:append(key, data)     t:unlink(key [, options])
 *    t:mkdir(key)      t:symlink(key, target) t:copy(from, to)        t:move(from, to)
 *    t:guard(key, tag|nil)                    t:put_chunks(key, size, digests)
 *    t:clear()         t:count()
 *    t:commit()        t:fence(name, nprocs [, {ranks=}])             version, root reference
 *
 * Operations return the transaction, so that they can be chained:
 * kv:txn():mkdir("a"):put("a.b", 1):commit().  commit and fence do not empty it.  The namespace has
 * the same operations as methods, each a transaction that is committed at once; all methods that
 * commit have a second form, NAME_async.
 *
 * A value is a string of bytes; a number is stored as its text; a table as JSON.
 *
 * Invariants:
 *  1. A transaction is memory of C, bounded by libkvs (64 MiB); the userdata frees it.
 *  2. An operation that fails leaves the transaction unchanged, put{...} excepted.
 *  3. The garbage collector does not see that memory: a put makes it advance as if it did.
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lua_kvs.h"

struct txn {
    flux_kvs_txn_t *txn; /* never NULL once made */
};

static flux_kvs_txn_t *check_txn(lua_State *L, int arg)
{
    struct txn *t = luaL_checkudata(L, arg, LFLUX_TXN);

    if (!t->txn)
        luaL_argerror(L, arg, "the transaction was collected");
    return t->txn;
}

/* Push a new transaction of the namespace at `kv`; NULL with nil, error message, errno pushed. */
static flux_kvs_txn_t *push_txn(lua_State *L, int kv)
{
    struct txn *t;

    kv = lua_absindex(L, kv);
    t = lua_newuserdata(L, sizeof(*t));
    t->txn = NULL;
    luaL_setmetatable(L, LFLUX_TXN);
    lua_pushvalue(L, kv);
    lua_setuservalue(L, -2);
    if (!(t->txn = flux_kvs_txn_create()))
        lflux_fail(L, ENOMEM, "out of memory for a transaction");
    return t->txn;
}

int lflux_kvs_txn_new(lua_State *L)
{
    lflux_check_current(L, 1);
    return push_txn(L, 1) ? 1 : 3;
}

/* --- operations: 0, or 3 with nil, error message, errno pushed.  Arguments begin at `arg`. --- */

/* Advance the collector as if Lua had allocated these bytes. */
static void account(lua_State *L, size_t bytes)
{
    if (bytes >= 1024)
        lua_gc(L, LUA_GCSTEP, (int)(bytes / 1024 > 4096 ? 4096 : bytes / 1024));
}

static int put_one(lua_State *L, flux_kvs_txn_t *txn, const char *key, int value, int arg)
{
    char *json = NULL;
    const char *data;
    errmsg_t err;
    size_t len;
    int rc;

    switch (lua_type(L, value)) {
    case LUA_TSTRING:
        data = lua_tolstring(L, value, &len);
        break;
    case LUA_TNUMBER:
        data = luaL_tolstring(L, value, &len); /* pushed: the original stays a number */
        break;
    case LUA_TTABLE:
        if (!(data = json = lflux_json_encode(L, value, &len, &err)))
            return lflux_fail_err(L, errno, &err);
        break;
    default:
        return luaL_argerror(L, arg,
                             lua_pushfstring(L,
                                             "a value is a string, a number or a table (stored as "
                                             "JSON), not a %s",
                                             luaL_typename(L, value)));
    }
    rc = flux_kvs_txn_put_raw(txn, key, data, len, &err);
    free(json);
    if (rc < 0)
        return lflux_fail_err(L, errno, &err);
    account(L, len);
    return 0;
}

/* put(key, value), put{key = value, ...} */
static int op_put(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    if (lua_type(L, arg) != LUA_TTABLE) {
        const char *key = lflux_check_text(L, arg, "the key");
        luaL_checkany(L, arg + 1);
        return put_one(L, txn, key, arg + 1, arg + 1);
    }
    for (lua_pushnil(L); lua_next(L, arg);) {
        int top = lua_gettop(L), n;

        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_argerror(L, arg, "the names in this table are keys: strings");
        n = put_one(L, txn, lflux_check_text(L, top - 1, "the key"), top, arg);
        if (n != 0)
            return n;
        lua_settop(L, top - 1);
    }
    return 0;
}

static int result(lua_State *L, int rc, const errmsg_t *err)
{
    return rc < 0 ? lflux_fail_err(L, errno, err) : 0;
}

static int op_append(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    const char *key = lflux_check_text(L, arg, "the key");
    errmsg_t err;
    size_t len;
    const char *data = luaL_checklstring(L, arg + 1, &len);
    int n = result(L, flux_kvs_txn_append(txn, key, data, len, &err), &err);

    if (n == 0)
        account(L, len);
    return n;
}

static int op_unlink(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    static const char *const names[] = {"recursive", "must_exist", "timeout", NULL};
    const char *key = lflux_check_text(L, arg, "the key");
    int flags = 0;
    errmsg_t err;

    lflux_check_options(L, arg + 1, names);
    if (lflux_option_bool(L, arg + 1, "recursive"))
        flags |= FLUX_KVS_RECURSIVE;
    if (lflux_option_bool(L, arg + 1, "must_exist"))
        flags |= FLUX_KVS_MUST_EXIST;
    return result(L, flux_kvs_txn_unlink(txn, key, flags, &err), &err);
}

static int op_mkdir(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    errmsg_t err;

    return result(L, flux_kvs_txn_mkdir(txn, lflux_check_text(L, arg, "the key"), &err), &err);
}

typedef int (*two_keys_f)(flux_kvs_txn_t *txn, const char *a, const char *b, errmsg_t *err);

static int op_two_keys(lua_State *L, flux_kvs_txn_t *txn, int arg, two_keys_f op)
{
    const char *a = lflux_check_text(L, arg, "the key");
    const char *b = lflux_check_text(L, arg + 1, "the key");
    errmsg_t err;

    return result(L, op(txn, a, b, &err), &err);
}

static int op_symlink(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    return op_two_keys(L, txn, arg, flux_kvs_txn_symlink);
}

static int op_copy(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    return op_two_keys(L, txn, arg, flux_kvs_txn_copy);
}

static int op_move(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    return op_two_keys(L, txn, arg, flux_kvs_txn_move);
}

static int op_guard(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    const char *key = lflux_check_text(L, arg, "the key");
    const char *tag = lflux_opt_text(L, arg + 1, "the tag");
    errmsg_t err;

    return result(L, flux_kvs_txn_guard(txn, key, tag, &err), &err);
}

static int op_put_chunks(lua_State *L, flux_kvs_txn_t *txn, int arg)
{
    const char *key = lflux_check_text(L, arg, "the key");
    lua_Integer size = lflux_check_range(L, arg + 1, "the size", 1, (lua_Integer)1 << 40);
    errmsg_t err;
    size_t len;
    const char *digests = luaL_checklstring(L, arg + 2, &len);
    size_t n = ((size_t)size + FLUX_KVS_CHUNK - 1) / FLUX_KVS_CHUNK;

    if (len == 0 || len % n != 0)
        return lflux_fail(L, EINVAL, "%lld bytes are %zu chunks, and the number of digests differs",
                          (long long)size, n);
    return result(L, flux_kvs_txn_put_chunks(txn, key, (uint64_t)size, digests, n, len / n, &err),
                  &err);
}

typedef int (*op_f)(lua_State *L, flux_kvs_txn_t *txn, int arg);

static const struct {
    const char *name;
    op_f op;
    int args; /* before the options of the form that commits at once */
} ops[] = {
    {"put", op_put, 2},     {"append", op_append, 2},   {"unlink", op_unlink, 1},
    {"mkdir", op_mkdir, 1}, {"symlink", op_symlink, 2}, {"copy", op_copy, 2},
    {"move", op_move, 2},   {"guard", op_guard, 2},     {"put_chunks", op_put_chunks, 3},
};
#define OPS (sizeof(ops) / sizeof(ops[0]))

/* --- methods of a transaction --- */

/* Upvalue: which operation. */
static int txn_op(lua_State *L)
{
    flux_kvs_txn_t *txn = check_txn(L, 1);
    int n;

    n = ops[lua_tointeger(L, lua_upvalueindex(1))].op(L, txn, 2);
    if (n != 0)
        return n;
    lua_settop(L, 1);
    return 1;
}

static int txn_clear(lua_State *L)
{
    flux_kvs_txn_clear(check_txn(L, 1));
    lua_settop(L, 1);
    return 1;
}

static int txn_count(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)flux_kvs_txn_count(check_txn(L, 1)));
    return 1;
}

static int txn_gc(lua_State *L)
{
    struct txn *t = luaL_checkudata(L, 1, LFLUX_TXN);

    flux_kvs_txn_destroy(t->txn);
    t->txn = NULL;
    return 0;
}

static int txn_tostring(lua_State *L)
{
    struct txn *t = luaL_checkudata(L, 1, LFLUX_TXN);

    return lflux_describe(L, LFLUX_TXN, t->txn);
}

static const char *const timeout_option[] = {"timeout", NULL};

static int txn_commit(lua_State *L)
{
    flux_kvs_txn_t *txn = check_txn(L, 1);
    struct lflux_kvs *kv;
    struct lflux_future *lf;

    lua_settop(L, 2);
    lflux_check_options(L, 2, timeout_option);
    lua_getuservalue(L, 1);
    kv = lflux_check_current(L, 3);
    lf = lflux_kvs_future(L, 3, lflux_push_version);
    return lflux_kvs_deliver(L, lf, flux_kvs_commit(kv->lh->conn->h, lflux_kvs_ns(kv), txn),
                             "to commit", 2);
}

static const char *const fence_options[] = {"ranks", "timeout", NULL};

static int txn_fence(lua_State *L)
{
    flux_kvs_txn_t *txn = check_txn(L, 1);
    const char *name = lflux_check_text(L, 2, "the name");
    lua_Integer nprocs = lflux_check_range(L, 3, "the number of participants", 1, UINT32_MAX);
    struct lflux_kvs *kv;
    struct lflux_future *lf;
    const char *ranks = NULL;

    lua_settop(L, 4);
    lflux_check_options(L, 4, fence_options);
    lua_getuservalue(L, 1);
    kv = lflux_check_current(L, 5);
    if (!*name || strlen(name) > 255)
        return lflux_fail(L, EINVAL, "the name of a fence has 1 to 255 printable characters");
    if (lflux_option(L, 4, "ranks") != LUA_TNIL)
        ranks = lflux_check_text(L, 6, "the ranks of the participants");
    lf = lflux_kvs_future(L, 5, lflux_push_version);
    return lflux_kvs_deliver(
        L, lf,
        flux_kvs_fence_ranks(kv->lh->conn->h, lflux_kvs_ns(kv), name, (uint32_t)nprocs, ranks, txn),
        "for a fence", 4);
}

static const luaL_Reg methods[] = {
    {"clear", txn_clear},
    {"count", txn_count},
    {NULL, NULL},
};

static const luaL_Reg commit_methods[] = {
    {"commit", txn_commit},
    {"fence", txn_fence},
    {NULL, NULL},
};

/* --- one operation, committed at once --- */

/* Upvalues: whether a future is wanted, which operation. */
static int kvs_op(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_current(L, 1);
    size_t which = (size_t)lua_tointeger(L, lua_upvalueindex(2));
    /* put{...} has one argument less */
    int options = 2 + ops[which].args - (which == 0 && lua_istable(L, 2));
    flux_kvs_txn_t *txn;
    struct lflux_future *lf;
    int n;

    lua_settop(L, options);
    if (strcmp(ops[which].name, "unlink") != 0)
        lflux_check_options(L, options, timeout_option);
    if (!(txn = push_txn(L, 1)) || (n = ops[which].op(L, txn, 2)) != 0)
        return 3;
    lf = lflux_kvs_future(L, 1, lflux_push_version);
    return lflux_kvs_deliver(L, lf, flux_kvs_commit(kv->lh->conn->h, lflux_kvs_ns(kv), txn),
                             "to commit", options);
}

/* kv:fence(name, nprocs): without changes. */
static int kvs_fence(lua_State *L)
{
    lflux_check_current(L, 1);
    if (!push_txn(L, 1))
        return 3;
    lua_replace(L, 1);
    return txn_fence(L);
}

const luaL_Reg lflux_kvs_write_methods[] = {
    {"fence", kvs_fence},
    {NULL, NULL},
};

void lflux_kvs_txn_register(lua_State *L)
{
    lflux_class(L, LFLUX_TXN, methods, txn_gc, txn_tostring);
    lflux_kvs_methods(L, LFLUX_TXN, commit_methods);
    luaL_getmetatable(L, LFLUX_TXN);
    lua_getfield(L, -1, "__index");
    luaL_getmetatable(L, LFLUX_KVS);
    lua_getfield(L, -1, "__index"); /* -3: methods of transactions, -1: of namespaces */
    for (size_t i = 0; i < OPS; i++) {
        lua_pushinteger(L, (lua_Integer)i);
        lua_pushcclosure(L, txn_op, 1);
        lua_setfield(L, -4, ops[i].name);
        if (ops[i].op == op_guard) /* alone it would change nothing */
            continue;
        for (int async = 0; async < 2; async++) {
            lua_pushfstring(L, "%s%s", ops[i].name, async ? "_async" : "");
            lua_pushboolean(L, async);
            lua_pushinteger(L, (lua_Integer)i);
            lua_pushcclosure(L, kvs_op, 2);
            lua_rawset(L, -3);
        }
    }
    lua_pop(L, 4);
}
