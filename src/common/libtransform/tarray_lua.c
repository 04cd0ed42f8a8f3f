/* tarray_lua.c - elements of arrays as values of Lua, and back.
 *
 * Failure: see each function; only a lack of memory raises an error of Lua.
 */
#include "config.h"
#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "libtransform/tarray_lua.h"

void tarray_lua_push(lua_State *L, const struct tarray *a, uint64_t i)
{
    const char *data = a->data; /* which need not be aligned */
    uint64_t integer;
    int64_t number;

    switch (a->type) {
    case STREAM_I8:
    case STREAM_I16:
    case STREAM_I32:
    case STREAM_I64:
        if (a->type == STREAM_I64)
            memcpy(&number, data + i * sizeof(number), sizeof(number));
        else
            number = (int64_t)tarray_at(a, i);
        lua_pushinteger(L, number);
        return;
    case STREAM_U8:
    case STREAM_U16:
    case STREAM_U32:
        lua_pushinteger(L, (lua_Integer)tarray_at(a, i));
        return;
    case STREAM_U64:
        memcpy(&integer, data + i * sizeof(integer), sizeof(integer));
        if (integer <= INT64_MAX)
            lua_pushinteger(L, (lua_Integer)integer);
        else
            lua_pushnumber(L, (double)integer);
        return;
    case STREAM_F32:
    case STREAM_F64:
        lua_pushnumber(L, tarray_at(a, i));
        return;
    case STREAM_BOOL:
        lua_pushboolean(L, ((const uint8_t *)a->data)[i] != 0);
        return;
    default: /* characters, bytes, complex numbers: their bytes */
        lua_pushlstring(L, (const char *)a->data + i * stream_elem_size(a->type),
                        stream_elem_size(a->type));
    }
}

enum stream_type tarray_lua_type(lua_State *L, int arg)
{
    if (lua_isinteger(L, arg))
        return STREAM_I64;
    switch (lua_type(L, arg)) {
    case LUA_TNUMBER:
        return STREAM_F64;
    case LUA_TBOOLEAN:
        return STREAM_BOOL;
    case LUA_TSTRING:
        return STREAM_CHAR;
    default:
        return 0;
    }
}

int tarray_lua_get(lua_State *L, int arg, enum stream_type type, void *to, errmsg_t *err)
{
    struct tarray one = {.type = tarray_lua_type(L, arg), .elems = 1};
    int64_t integer = lua_tointeger(L, arg);
    double real = lua_tonumber(L, arg);
    uint8_t truth = (uint8_t)lua_toboolean(L, arg);

    if (one.type == 0 || one.type == STREAM_CHAR)
        return errmsg_fail(err, EINVAL, "a %s is not a number", luaL_typename(L, arg));
    one.data = one.type == STREAM_I64   ? (const void *)&integer
               : one.type == STREAM_F64 ? (const void *)&real
                                        : (const void *)&truth;
    return tarray_convert(&one, type, to, err);
}
