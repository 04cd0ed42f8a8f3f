/* Records of streams as tables of Lua.
 *
 * A field is a number, a truth value, a string (also an array of `char` or `bytes`: all of it), a
 * table for a record, or nil for what is absent.  An array is a table of its elements in the order
 * of memory; a complex number is two numbers.  In an array, what is absent is false.
 *
 * Thread rules: one thread.
 */
#ifndef TRANSFORM_RECORD_LUA_H
#define TRANSFORM_RECORD_LUA_H

#include <lua.h>

#include "libstream/format.h"

/* Push `n` structs of a format of this host: a table of records; or, `one`, a record. */
void record_lua_push(lua_State *L, const stream_format_t *f, const void *recs, size_t n, bool one);

struct record_lua_pack {
    const stream_format_t *f;
    void *(*alloc)(lua_State *L, void *arg, size_t size); /* zeros; raises an error */
    void *arg;
};
/* Make structs from the table at `arg`: a record, or a table of records, of which there are *n;
 * *one says which.  NULL with errno and an error message that names the field. */
void *record_lua_pack(lua_State *L, int arg, const struct record_lua_pack *p, size_t *n, bool *one,
                      errmsg_t *err);

#endif
