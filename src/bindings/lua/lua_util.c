/* lua_util.c - errors, arguments and metatables of all classes of the binding.
 *
 * There are two kinds of errors:
 *
 *    cause                                               effect
 *    a wrong call: wrong type or number out of range,    an error with a message is raised
 *      an object that was closed or ended, an unknown
 *      option
 *    anything a correct script can meet: a missing       nil, error message, errno are returned
 *      key, a lost rank, a timeout, data that JSON
 *      cannot represent
 *
 * Invariants:
 *  1. Every function that can fail in the second way returns exactly nil, a string, an integer; a
 *     function without a result returns true on success.
 *  2. Options are tables, and all their names are checked: a misspelled option is an error.
 *  3. An object is a block of C memory; its userdata is a box with a pointer to the block.  Lua may
 *     skip a finalizer when it runs out of memory, and then frees the box alone: the object stays
 *     in its parent's list, and is ended with the parent.  Blocks are reference counted, so that an
 *     object that is ended later than its parent still finds the parent's block.
 *
 * Failure: errors are raised by luaL_error() and the like, only from functions that were called by
 * Lua directly or under lua_pcall().
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_private.h"

int lflux_fail(lua_State *L, int errnum, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    lua_pushnil(L);
    lua_pushstring(L, text);
    lua_pushinteger(L, errnum);
    return 3;
}

int lflux_fail_err(lua_State *L, int errnum, const errmsg_t *err)
{
    return lflux_fail(L, errnum, "%s", err->text[0] ? err->text : strerror(errnum));
}

int lflux_true(lua_State *L)
{
    lua_pushboolean(L, 1);
    return 1;
}

struct bytes {
    const char *data;
    size_t len;
};

static int push_bytes(lua_State *L)
{
    const struct bytes *b = lua_touserdata(L, 1);

    lua_pushlstring(L, b->data, b->len);
    return 1;
}

void lflux_push_taken(lua_State *L, char *data, size_t len)
{
    struct bytes b = {data, len};
    int rc;

    luaL_checkstack(L, 4, "for a string");
    lua_pushcfunction(L, push_bytes);
    lua_pushlightuserdata(L, &b);
    rc = lua_pcall(L, 1, 1, 0);
    free(data);
    if (rc != LUA_OK)
        lua_error(L);
}

const char *lflux_check_text(lua_State *L, int arg, const char *what)
{
    size_t len;
    const char *s = luaL_checklstring(L, arg, &len);

    if (strlen(s) != len)
        luaL_argerror(L, arg, lua_pushfstring(L, "%s contains a NUL byte", what));
    return s;
}

const char *lflux_opt_text(lua_State *L, int arg, const char *what)
{
    return lua_isnoneornil(L, arg) ? NULL : lflux_check_text(L, arg, what);
}

static double timeout_value(lua_State *L, int index, int arg)
{
    double t;

    if (lua_isnoneornil(L, index))
        return -1.;
    t = luaL_checknumber(L, index);
    if (isnan(t) || t < 0.)
        luaL_argerror(L, arg, "a timeout is a number of seconds, 0 or more");
    return t;
}

double lflux_check_timeout(lua_State *L, int arg)
{
    return timeout_value(L, arg, arg);
}

lua_Integer lflux_check_range(lua_State *L, int arg, const char *what, lua_Integer lo,
                              lua_Integer hi)
{
    lua_Integer n = luaL_checkinteger(L, arg);

    if (n < lo || n > hi)
        luaL_argerror(L, arg,
                      lua_pushfstring(L, "%s is %I, not in the range %I to %I", what,
                                      (LUAI_UACINT)n, (LUAI_UACINT)lo, (LUAI_UACINT)hi));
    return n;
}

void lflux_check_options(lua_State *L, int arg, const char *const names[])
{
    if (lua_isnoneornil(L, arg))
        return;
    luaL_checktype(L, arg, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        size_t i = 0;

        while (names[i] && (!name || strcmp(names[i], name) != 0))
            i++;
        if (!names[i])
            luaL_argerror(
                L, arg,
                lua_pushfstring(L, "there is no option '%s'", name ? name : luaL_typename(L, -2)));
    }
}

int lflux_option(lua_State *L, int arg, const char *name)
{
    if (lua_type(L, arg) != LUA_TTABLE) {
        lua_pushnil(L);
        return LUA_TNIL;
    }
    lua_pushstring(L, name);
    return lua_rawget(L, arg);
}

bool lflux_option_bool(lua_State *L, int arg, const char *name)
{
    int type = lflux_option(L, arg, name);
    bool value = lua_toboolean(L, -1);

    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        luaL_argerror(L, arg, lua_pushfstring(L, "option '%s' is true or false", name));
    lua_pop(L, 1);
    return value;
}

const char *lflux_option_text(lua_State *L, int arg, const char *name)
{
    int type = lflux_option(L, arg, name);
    const char *text;

    if (type != LUA_TNIL && type != LUA_TSTRING)
        luaL_argerror(L, arg, lua_pushfstring(L, "option '%s' is a text", name));
    text = type == LUA_TNIL ? NULL : lflux_check_text(L, lua_gettop(L), name);
    lua_pop(L, 1);
    return text;
}

double lflux_option_timeout(lua_State *L, int arg)
{
    int type = lflux_option(L, arg, "timeout");
    double t = -1.;

    if (type == LUA_TNUMBER)
        t = timeout_value(L, lua_gettop(L), arg);
    else if (type != LUA_TNIL)
        luaL_argerror(L, arg, "option 'timeout' is a number of seconds");
    lua_pop(L, 1);
    return t;
}

/* --- objects --- */

struct header {
    size_t refs;
    max_align_t object[];
};

static struct header *header_of(void *object)
{
    return (struct header *)(void *)((char *)object - offsetof(struct header, object));
}

void *lflux_new(lua_State *L, const char *class, size_t size)
{
    void **box = lua_newuserdata(L, sizeof(*box));
    struct header *header;

    *box = NULL;
    luaL_setmetatable(L, class);
    if (!(header = calloc(1, sizeof(*header) + size)))
        luaL_error(L, "out of memory for a %s", class);
    header->refs = 1;
    return *box = header->object;
}

void *lflux_unbox(lua_State *L, int index)
{
    void **box = lua_touserdata(L, index);

    return *box;
}

void *lflux_object(lua_State *L, int arg, const char *class)
{
    void **box = luaL_checkudata(L, arg, class);

    if (!*box)
        luaL_argerror(L, arg, "the object was collected");
    return *box;
}

void *lflux_collect(lua_State *L, const char *class)
{
    void **box = luaL_checkudata(L, 1, class);
    void *object = *box;

    *box = NULL;
    return object;
}

void lflux_hold(void *object)
{
    header_of(object)->refs++;
}

void lflux_drop(void *object)
{
    if (object && --header_of(object)->refs == 0)
        free(header_of(object));
}

void lflux_class(lua_State *L, const char *name, const luaL_Reg methods[], lua_CFunction gc,
                 lua_CFunction to_string)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, to_string);
    lua_setfield(L, -2, "__tostring");
    lua_pushstring(L, name); /* scripts do not get at the metatable */
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}

void lflux_extend(lua_State *L, const char *name, const luaL_Reg methods[])
{
    luaL_getmetatable(L, name);
    lua_getfield(L, -1, "__index");
    luaL_setfuncs(L, methods, 0);
    lua_pop(L, 2);
}

int lflux_describe(lua_State *L, const char *name, const void *live)
{
    if (live)
        lua_pushfstring(L, "%s: %p", name, live);
    else
        lua_pushfstring(L, "%s (ended)", name);
    return 1;
}
