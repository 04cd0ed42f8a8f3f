/* Shared by the files of the key-value store's binding.  Not installed. */
#ifndef FLUX_LUA_KVS_H
#define FLUX_LUA_KVS_H

#include "libkvs/kvs.h"
#include "lua_private.h"

#define LFLUX_ROOTREF_MAX 256

/* A namespace, now or at a root.  Its uservalue is the handle; of a snapshot, the future that keeps
 * the root, whose uservalue is the handle. */
struct lflux_kvs {
    struct lflux_handle *lh;
    struct lflux_future *snapshot; /* NULL: none */
    bool at_root;
    char ns[65]; /* "": primary */
    char rootref[LFLUX_ROOTREF_MAX];
};

static inline const char *lflux_kvs_ns(const struct lflux_kvs *kv)
{
    return kv->ns[0] ? kv->ns : NULL;
}

struct lflux_kvs *lflux_check_kvs(lua_State *L, int arg);     /* usable, or an error is raised */
struct lflux_kvs *lflux_check_current(lua_State *L, int arg); /* and not at a root of the past */
/* Push the future of a request that the namespace at `kv` makes. */
struct lflux_future *lflux_kvs_future(lua_State *L, int kv, lflux_push_f push);

/* Methods in two forms: NAME waits, NAME_async returns a future.  Their functions end with
 * lflux_kvs_deliver(); `options` is the argument with the option "timeout" (0: none). */
void lflux_kvs_methods(lua_State *L, const char *class, const luaL_Reg methods[]);
int lflux_kvs_deliver(lua_State *L, struct lflux_future *lf, flux_future_t *f, const char *what,
                      int options);

/* 0; or 3 with nil, error message, errno pushed. */
int lflux_bad_key(lua_State *L, const char *key, bool root_allowed);

const char *lflux_kvs_type(enum flux_kvs_type type);
/* lflux_push_f: version, rootref. */
int lflux_push_version(lua_State *L, struct lflux_future *lf);
/* Push a table name -> {type, size, value} of a directory. */
int lflux_push_entries(lua_State *L, struct lflux_future *lf);

extern const luaL_Reg lflux_kvs_read_methods[];  /* both forms */
extern const luaL_Reg lflux_kvs_dir_methods[];   /* waiting only */
extern const luaL_Reg lflux_kvs_write_methods[]; /* both forms */
void lflux_kvs_txn_register(lua_State *L);
int lflux_kvs_txn_new(lua_State *L); /* kv:txn() */
void lflux_kvs_stream_register(lua_State *L);
int lflux_kvs_writer(lua_State *L); /* kv:writer(key) */
int lflux_kvs_watch(lua_State *L);  /* kv:watch(key [, options] [, fn]) */

#endif
