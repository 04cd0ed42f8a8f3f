/* Elements of arrays as values of Lua, and back.
 *
 * Thread rules: those of Lua.
 */
#ifndef TRANSFORM_TARRAY_LUA_H
#define TRANSFORM_TARRAY_LUA_H

#include <lua.h>

#include "libtransform/tarray.h"

/* Push element `i`: an integer (or a float, if Lua's integers are too small), a float, a truth
 * value; or the bytes of any other type as a string. */
void tarray_lua_push(lua_State *L, const struct tarray *a, uint64_t i);
/* The default type for the value at `arg`: i64, f64, bool, and char for a string; 0 for other
 * values. */
enum stream_type tarray_lua_type(lua_State *L, int arg);
/* Write the number, or truth value, at `arg` as an element of a type of numbers.  0, or -1 with an
 * error message and EINVAL (neither a number nor a truth value) or ERANGE (not a value of the
 * type). */
int tarray_lua_get(lua_State *L, int arg, enum stream_type type, void *to, errmsg_t *err);

#endif
