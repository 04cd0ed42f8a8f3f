/* Elements of arrays as values of Lua, and back.
 *
 * Thread rules: those of Lua.
 */
#ifndef TRANSFORM_TARRAY_LUA_H
#define TRANSFORM_TARRAY_LUA_H

#include <lua.h>

#include "libtransform/tarray.h"

/* Push element `i`: an integer (a float beyond the range of Lua's), a float, a truth value; or the
 * bytes of anything else as a string. */
void tarray_lua_push(lua_State *L, const struct tarray *a, uint64_t i);
/* The type in which the value at `arg` is put when nobody names one: i64, f64, bool, and char for a
 * string; 0 for other values. */
enum stream_type tarray_lua_type(lua_State *L, int arg);
/* Write the number, or truth value, at `arg` as an element of a type of numbers.  0, or -1 with
 * EINVAL (it is none) or ERANGE (not a value of the type) and an error message. */
int tarray_lua_get(lua_State *L, int arg, enum stream_type type, void *to, errmsg_t *err);

#endif
