/* sandbox_list.c - which functions of Lua's library a file may use, and the limits for those that
 * could run forever in one call.
 *
 * A library function is dangerous if the work of one call is not bounded by the memory that it may
 * touch: a range of numbers (table.move), a repeat count (string.rep), a length that a metamethod
 * invents (table.insert), comparisons of long strings (table.sort), backtracking (string.find).
 * `bounded` is called before such a function, or instead of it.  One that is called before charges
 * for the work and then becomes Lua's own function in the same stack frame, so that messages keep
 * their position.
 *
 * Never allowed: functions that stop or replace the process (os.exit, os.execute, io.popen), load
 * machine code or byte code (require, package, loadfile, string.dump), change the process
 * (os.setlocale), or inspect the interpreter (debug); and coroutines, which have hooks of their
 * own.
 */
#include "config.h"
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "sandbox_private.h"

static int become_original(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* --- charges --- */

/* Charge for the elements first..last, whatever the numbers. */
static void charge_range(lua_State *L, lua_Integer first, lua_Integer last)
{
    if (last >= first)
        sandbox_charge(L, (uint64_t)last - (uint64_t)first + 1);
}

/* The length of the table at 1; 0 if it is not a table. */
static lua_Integer length(lua_State *L)
{
    if (lua_type(L, 1) != LUA_TTABLE)
        return 0;
    return luaL_getmetafield(L, 1, "__len") == LUA_TNIL ? (lua_Integer)lua_rawlen(L, 1)
                                                        : (lua_pop(L, 1), luaL_len(L, 1));
}

/* The integer argument; or the default if it is absent or not a number, which the original then
 * reports. */
static lua_Integer integer_or(lua_State *L, int arg, lua_Integer otherwise)
{
    int ok;
    lua_Integer n = lua_tointegerx(L, arg, &ok);

    return ok ? n : otherwise;
}

static int rep(lua_State *L)
{
    lua_Integer n = integer_or(L, 2, 0);
    size_t len = 0, seplen = 0;

    lua_tolstring(L, 1, &len);
    if (lua_type(L, 3) == LUA_TSTRING)
        lua_tolstring(L, 3, &seplen);
    if (n > 0 && len + seplen == 0 && lua_type(L, 1) == LUA_TSTRING) {
        lua_pushliteral(L, ""); /* Lua would append nothing n times */
        return 1;
    }
    /* The allocator refuses a string that exceeds the memory, at once. */
    if (n > 0 && (uint64_t)n < (uint64_t)1 << 32)
        sandbox_charge(L, (uint64_t)n / 256 * (1 + (len + seplen) / 64));
    return become_original(L);
}

static int move(lua_State *L)
{
    charge_range(L, integer_or(L, 2, 1), integer_or(L, 3, 0));
    return become_original(L);
}

static int concat(lua_State *L)
{
    charge_range(L, integer_or(L, 3, 1), lua_isnoneornil(L, 4) ? length(L) : integer_or(L, 4, 0));
    return become_original(L);
}

static int unpack(lua_State *L)
{
    charge_range(L, integer_or(L, 2, 1), lua_isnoneornil(L, 3) ? length(L) : integer_or(L, 3, 0));
    return become_original(L);
}

/* table.insert(t, pos, value), table.remove(t, pos): all elements from pos on move. */
static int insert(lua_State *L)
{
    if (lua_gettop(L) > 2)
        charge_range(L, integer_or(L, 2, 1), length(L));
    return become_original(L);
}

static int remove_one(lua_State *L)
{
    if (lua_gettop(L) > 1)
        charge_range(L, integer_or(L, 2, 1), length(L));
    return become_original(L);
}

/* The comparison for sort: `<`, or the caller's function (upvalue 1). */
static int compare(lua_State *L)
{
    uint64_t cost = 1;

    if (lua_type(L, 1) == LUA_TSTRING && lua_type(L, 2) == LUA_TSTRING) {
        size_t a = lua_rawlen(L, 1), b = lua_rawlen(L, 2);
        cost += (a < b ? a : b) / 64;
    }
    sandbox_charge(L, cost);
    if (lua_isnil(L, lua_upvalueindex(1))) {
        lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
        return 1;
    }
    lua_settop(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 1);
    return 1;
}

static int sort(lua_State *L)
{
    if (lua_isnoneornil(L, 2) || lua_isfunction(L, 2)) {
        lua_settop(L, 2);
        lua_pushcclosure(L, compare, 1);
    }
    return become_original(L);
}

/* Finalizers run without hooks, so one that loops could not be stopped. */
static int set_metatable(lua_State *L)
{
    if (lua_type(L, 2) == LUA_TTABLE) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L, "__gc is not allowed");
        lua_pop(L, 1);
    }
    return become_original(L);
}

/* Make the metatable on top inaccessible. */
static void protect_metatable(lua_State *L)
{
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

/* load(): text only, whatever mode the caller requests. */
static int load_text(lua_State *L)
{
    bool env = !lua_isnone(L, 4);

    lua_settop(L, env ? 4 : 3);
    lua_pushliteral(L, "t");
    lua_replace(L, 3);
    return become_original(L);
}

/* --- the list --- */

#define PURE SANDBOX_PURE
#define HOOKS SANDBOX_HOOKS

static const struct allowed {
    const char *lib;
    const char *name;       /* NULL: the whole library */
    enum sandbox_kind kind; /* the lowest kind that allows it */
    lua_CFunction bounded;
} list[] = {
    {"_G", "assert", PURE, NULL},
    {"_G", "error", PURE, NULL},
    {"_G", "ipairs", PURE, NULL},
    {"_G", "next", PURE, NULL},
    {"_G", "pairs", PURE, NULL},
    {"_G", "select", PURE, NULL},
    {"_G", "tonumber", PURE, NULL},
    {"_G", "tostring", PURE, NULL},
    {"_G", "type", PURE, NULL},
    {"_G", "collectgarbage", HOOKS, NULL},
    {"_G", "getmetatable", HOOKS, NULL},
    {"_G", "load", HOOKS, load_text},
    {"_G", "pcall", HOOKS, NULL},
    {"_G", "print", HOOKS, NULL},
    {"_G", "rawequal", HOOKS, NULL},
    {"_G", "rawget", HOOKS, NULL},
    {"_G", "rawlen", HOOKS, NULL},
    {"_G", "rawset", HOOKS, NULL},
    {"_G", "setmetatable", HOOKS, set_metatable},
    {"_G", "xpcall", HOOKS, NULL},
    {"_G", "_VERSION", HOOKS, NULL},
    {"string", "byte", PURE, NULL},
    {"string", "char", PURE, NULL},
    {"string", "find", PURE, sandbox_find},
    {"string", "format", PURE, NULL},
    {"string", "gmatch", PURE, sandbox_gmatch},
    {"string", "gsub", PURE, sandbox_gsub},
    {"string", "len", PURE, NULL},
    {"string", "lower", PURE, NULL},
    {"string", "match", PURE, sandbox_match},
    {"string", "pack", HOOKS, NULL},
    {"string", "packsize", HOOKS, NULL},
    {"string", "rep", PURE, rep},
    {"string", "reverse", PURE, NULL},
    {"string", "sub", PURE, NULL},
    {"string", "unpack", HOOKS, NULL},
    {"string", "upper", PURE, NULL},
    {"table", "concat", PURE, concat},
    {"table", "insert", PURE, insert},
    {"table", "move", PURE, move},
    {"table", "pack", PURE, NULL},
    {"table", "remove", PURE, remove_one},
    {"table", "sort", PURE, sort},
    {"table", "unpack", PURE, unpack},
    {"math", "abs", PURE, NULL},
    {"math", "acos", PURE, NULL},
    {"math", "asin", PURE, NULL},
    {"math", "atan", PURE, NULL},
    {"math", "ceil", PURE, NULL},
    {"math", "cos", PURE, NULL},
    {"math", "deg", PURE, NULL},
    {"math", "exp", PURE, NULL},
    {"math", "floor", PURE, NULL},
    {"math", "fmod", PURE, NULL},
    {"math", "huge", PURE, NULL},
    {"math", "log", PURE, NULL},
    {"math", "max", PURE, NULL},
    {"math", "maxinteger", PURE, NULL},
    {"math", "min", PURE, NULL},
    {"math", "mininteger", PURE, NULL},
    {"math", "modf", PURE, NULL},
    {"math", "pi", PURE, NULL},
    {"math", "rad", PURE, NULL},
    {"math", "random", HOOKS, NULL}, /* not PURE: all brokers must get the same configuration */
    {"math", "randomseed", HOOKS, NULL},
    {"math", "sin", PURE, NULL},
    {"math", "sqrt", PURE, NULL},
    {"math", "tan", PURE, NULL},
    {"math", "tointeger", PURE, NULL},
    {"math", "type", PURE, NULL},
    {"math", "ult", PURE, NULL},
    {"utf8", "char", PURE, NULL},
    {"utf8", "charpattern", PURE, NULL},
    {"utf8", "codepoint", PURE, NULL},
    {"utf8", "codes", PURE, NULL},
    {"utf8", "len", PURE, NULL},
    {"utf8", "offset", PURE, NULL},
    {"os", "clock", HOOKS, NULL},
    {"os", "date", HOOKS, NULL},
    {"os", "difftime", HOOKS, NULL},
    {"os", "getenv", HOOKS, NULL},
    {"os", "remove", HOOKS, NULL},
    {"os", "rename", HOOKS, NULL},
    {"os", "time", HOOKS, NULL},
    {"os", "tmpname", HOOKS, NULL},
    {"io", "close", HOOKS, NULL},
    {"io", "flush", HOOKS, NULL},
    {"io", "input", HOOKS, NULL},
    {"io", "lines", HOOKS, NULL},
    {"io", "open", HOOKS, NULL},
    {"io", "output", HOOKS, NULL},
    {"io", "read", HOOKS, NULL},
    {"io", "stderr", HOOKS, NULL},
    {"io", "stdin", HOOKS, NULL},
    {"io", "stdout", HOOKS, NULL},
    {"io", "tmpfile", HOOKS, NULL},
    {"io", "type", HOOKS, NULL},
    {"io", "write", HOOKS, NULL},
};

/* Push the allowed part of the library at `from`. */
static void take_allowed(lua_State *L, int from, const char *lib, enum sandbox_kind kind)
{
    lua_newtable(L);
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        const struct allowed *a = &list[i];

        if (strcmp(a->lib, lib) != 0 || a->kind > kind)
            continue;
        lua_getfield(L, from, a->name);
        if (a->bounded)
            lua_pushcclosure(L, a->bounded, 1); /* the original is its upvalue */
        lua_setfield(L, -2, a->name);
    }
}

/* Argument: enum sandbox_kind. */
int sandbox_open_libs(lua_State *L)
{
    static const luaL_Reg libs[] = {
        {"string", luaopen_string}, {"table", luaopen_table}, {"math", luaopen_math},
        {"utf8", luaopen_utf8},     {"os", luaopen_os},       {"io", luaopen_io},
    };
    enum sandbox_kind kind = (enum sandbox_kind)lua_tointeger(L, 1);
    int globals;

    luaL_requiref(L, "_G", luaopen_base, 0);
    take_allowed(L, lua_gettop(L), "_G", kind);
    globals = lua_gettop(L);
    for (size_t i = 0; i < sizeof(libs) / sizeof(libs[0]); i++) {
        if (kind < HOOKS && (libs[i].func == luaopen_os || libs[i].func == luaopen_io))
            continue;
        luaL_requiref(L, libs[i].name, libs[i].func, 0);
        take_allowed(L, lua_gettop(L), libs[i].name, kind);
        if (libs[i].func == luaopen_string) {
            lua_pushliteral(L, ""); /* methods of strings are the same functions */
            lua_getmetatable(L, -1);
            lua_pushvalue(L, -3);
            lua_setfield(L, -2, "__index");
            protect_metatable(L);
            lua_pop(L, 2);
        }
        lua_setfield(L, globals, libs[i].name);
        lua_settop(L, globals);
    }
    if (kind >= HOOKS) {
        luaL_getmetatable(L, LUA_FILEHANDLE);
        protect_metatable(L);
        lua_pop(L, 1);
        lua_pushvalue(L, globals);
        lua_setfield(L, globals, "_G");
    }
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    /* No way leads back to the complete libraries. */
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    return 0;
}
