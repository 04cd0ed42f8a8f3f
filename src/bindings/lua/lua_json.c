/* lua_json.c - JSON text from Lua values, and back.
 *
 *    Lua                                      JSON
 *    flux.null                                null      (nil cannot be held by a table)
 *    boolean, integer                         the same
 *    float                                    number with a '.' or an exponent; must be finite
 *    string                                   string; must be UTF-8
 *    table whose keys are 1..n, n > 0         array
 *    table marked by flux.array{...}          array, also when empty; keys must be 1..n
 *    table whose keys are strings, or none    object
 *    anything else                            an error that names the place
 *
 * Decoding follows the same table; arrays are marked, so that an empty one stays an array when it
 * is encoded again.
 *
 * Invariants:
 *  1. Encoding raises no Lua error and runs no script (no metamethods), so that its buffer cannot
 *     leak.  The enclosing tables are a list on the C stack: a table that is in it contains itself.
 *  2. Nesting deeper than LFLUX_JSON_DEPTH is an error in both directions; so is encoding a table
 *     that contains itself.
 *  3. Integers are exact over all 64 bits; decoding an encoded float results in the same float.
 *  4. Decoding refuses duplicate names, invalid UTF-8, and anything after the value.
 *
 * Failure: encoding returns NULL and an error message with the place, as in "payload.list[3]: ...";
 * decoding, that of the parser with line and column.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strbuf.h"
#include "libutil/strutil.h"
#include "lua_private.h"

/* A table that is being encoded, and which of its members. */
struct level {
    const struct level *up;
    const void *table;
    const char *key; /* NULL: index */
    lua_Integer index;
    int depth;
};

static const char array_key = 'a'; /* registry: the metatable of arrays */

struct encoder {
    lua_State *L;
    strbuf_t *out;
    errmsg_t *err;
};

/* --- encoding --- */

static void add_place(const struct level *lv, strbuf_t *sb)
{
    if (!lv)
        return;
    add_place(lv->up, sb);
    if (lv->key)
        strbuf_addf(sb, ".%.40s", lv->key);
    else if (lv->index)
        strbuf_addf(sb, "[%lld]", (long long)lv->index);
}

static int refuse(struct encoder *e, const struct level *lv, const char *why)
{
    strbuf_t *sb = strbuf_create(0);
    char *place;

    strbuf_add(sb, "value");
    add_place(lv, sb);
    place = strbuf_take(sb);
    errmsg_set(e->err, "%.160s: %s", place ? place : "value", why);
    free(place);
    errno = EINVAL;
    return -1;
}

static int encode_string(struct encoder *e, const struct level *lv, const char *s, size_t len)
{
    size_t start = 0;

    if (str_utf8_span(s, len) != len)
        return refuse(e, lv,
                      "a string in JSON must be UTF-8 (a payload that is a string is sent "
                      "as bytes)");
    strbuf_addc(e->out, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        strbuf_addn(e->out, s + start, i - start);
        start = i + 1;
        if (c < 0x20)
            strbuf_addf(e->out, "\\u%04x", c);
        else {
            strbuf_addc(e->out, '\\');
            strbuf_addc(e->out, (char)c);
        }
    }
    strbuf_addn(e->out, s + start, len - start);
    strbuf_addc(e->out, '"');
    return 0;
}

static int encode_float(struct encoder *e, const struct level *lv, double d)
{
    char buf[40];
    int precision = 15;

    if (!isfinite(d))
        return refuse(e, lv, "JSON has neither infinity nor NaN");
    do {
        snprintf(buf, sizeof(buf), "%.*g", precision, d);
    } while (strtod(buf, NULL) != d && ++precision <= 17);
    /* The script may have set a locale whose decimal point is a comma. */
    buf[strcspn(buf, ",")] = buf[strcspn(buf, ",")] ? '.' : '\0';
    strbuf_add(e->out, buf);
    if (!buf[strcspn(buf, ".e")])
        strbuf_add(e->out, ".0");
    return 0;
}

static int encode(struct encoder *e, int index, const struct level *up);

/* Does the table at `index` carry the mark of flux.array? */
static bool marked_array(lua_State *L, int index)
{
    bool marked = false;

    if (lua_getmetatable(L, index)) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key); /* a look-up by name could raise ENOMEM */
        marked = lua_rawequal(L, -1, -2);
        lua_pop(L, 2);
    }
    return marked;
}

static int encode_array(struct encoder *e, int index, struct level *lv)
{
    lua_State *L = e->L;
    lua_Integer count = 0, max = 0;

    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        lua_Integer i = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0;
        if (i < 1) {
            lua_pop(L, 2);
            return refuse(e, lv, "an array has keys other than 1 to n");
        }
        count++;
        max = i > max ? i : max;
    }
    if (max != count)
        return refuse(e, lv, "an array has holes (flux.null can fill them)");
    strbuf_addc(e->out, '[');
    for (lv->index = 1; lv->index <= max; lv->index++) {
        int rc;

        if (lv->index > 1)
            strbuf_addc(e->out, ',');
        lua_rawgeti(L, index, lv->index);
        rc = encode(e, lua_gettop(L), lv);
        lua_pop(L, 1);
        if (rc < 0)
            return -1;
    }
    lv->index = 0;
    strbuf_addc(e->out, ']');
    return 0;
}

static int encode_object(struct encoder *e, int index, struct level *lv)
{
    lua_State *L = e->L;
    bool first = true;

    strbuf_addc(e->out, '{');
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        size_t len;
        int rc;

        lv->key = NULL;
        if (lua_type(L, -2) != LUA_TSTRING) {
            lua_pop(L, 2);
            return refuse(e, lv,
                          "a table has both string keys and other keys: it is neither an object "
                          "nor an array");
        }
        lv->key = lua_tolstring(L, -2, &len);
        if (strlen(lv->key) != len) {
            lua_pop(L, 2);
            return refuse(e, lv, "a name contains a NUL byte");
        }
        if (!first)
            strbuf_addc(e->out, ',');
        first = false;
        if ((rc = encode_string(e, lv, lv->key, len)) == 0) {
            strbuf_addc(e->out, ':');
            rc = encode(e, lua_gettop(L), lv);
        }
        if (rc < 0) {
            lua_pop(L, 2);
            return -1;
        }
    }
    lv->key = NULL;
    strbuf_addc(e->out, '}');
    return 0;
}

static int encode_table(struct encoder *e, int index, const struct level *up)
{
    lua_State *L = e->L;
    struct level lv = {.up = up, .table = lua_topointer(L, index)};
    bool array = marked_array(L, index);

    lv.depth = up ? up->depth + 1 : 1;
    for (const struct level *l = up; l; l = l->up) {
        if (l->table == lv.table)
            return refuse(e, up, "a table contains itself");
    }
    if (lv.depth > LFLUX_JSON_DEPTH || !lua_checkstack(L, 8))
        return refuse(e, NULL, "it is nested too deeply: 128 levels at most");
    if (!array) {
        lua_pushnil(L);
        if (lua_next(L, index)) {
            array = lua_isinteger(L, -2);
            lua_pop(L, 2);
        }
    }
    return array ? encode_array(e, index, &lv) : encode_object(e, index, &lv);
}

static int encode(struct encoder *e, int index, const struct level *up)
{
    lua_State *L = e->L;
    const char *s;
    size_t len;

    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN:
        return strbuf_add(e->out, lua_toboolean(L, index) ? "true" : "false");
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            return strbuf_addf(e->out, "%lld", (long long)lua_tointeger(L, index));
        return encode_float(e, up, lua_tonumber(L, index));
    case LUA_TSTRING:
        s = lua_tolstring(L, index, &len);
        return encode_string(e, up, s, len);
    case LUA_TTABLE:
        return encode_table(e, index, up);
    case LUA_TLIGHTUSERDATA:
        if (!lua_touserdata(L, index))
            return strbuf_add(e->out, "null");
        return refuse(e, up, "JSON has no pointers");
    case LUA_TNIL:
        return refuse(e, up, "nil is not a JSON value (flux.null is)");
    default:
        return refuse(e, up, "JSON has no functions, coroutines and objects");
    }
}

char *lflux_json_encode(lua_State *L, int index, size_t *len, errmsg_t *err)
{
    struct encoder e = {L, strbuf_create(0), err};
    char *text;

    if (encode(&e, lua_absindex(L, index), NULL) < 0 && errno == EINVAL) {
        strbuf_destroy(e.out);
        return NULL;
    }
    *len = e.out ? strbuf_len(e.out) : 0;
    if (!(text = strbuf_take(e.out)))
        errmsg_fail(err, ENOMEM, "out of memory for JSON");
    return text;
}

/* --- decoding --- */

/* Mark the table on top as an array. */
static void mark(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
    lua_setmetatable(L, -2);
}

static void push_value(lua_State *L, const json_t *v, int depth)
{
    const char *name;
    json_t *member;
    size_t i;

    if (depth > LFLUX_JSON_DEPTH)
        luaL_error(L, "it is nested too deeply: %d levels at most", LFLUX_JSON_DEPTH);
    luaL_checkstack(L, 8, "for JSON");
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        lua_createtable(L, 0, (int)json_object_size(v));
        json_object_foreach((json_t *)v, name, member)
        {
            lua_pushstring(L, name);
            push_value(L, member, depth + 1);
            lua_rawset(L, -3);
        }
        break;
    case JSON_ARRAY:
        lua_createtable(L, (int)json_array_size(v), 0);
        json_array_foreach(v, i, member)
        {
            push_value(L, member, depth + 1);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        mark(L);
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(v), json_string_length(v));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(v));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(v));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(v));
        break;
    case JSON_NULL:
        lua_pushlightuserdata(L, NULL);
        break;
    }
}

static int push_body(lua_State *L)
{
    const json_t *v = lua_touserdata(L, 1);

    push_value(L, v, 0);
    return 1;
}

int lflux_json_decode(lua_State *L, const char *text, size_t len, errmsg_t *err)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t why;
    json_t *v = json_loadb(text, len, flags, &why);
    int rc;

    if (!v)
        return errmsg_fail(err, EPROTO, "invalid JSON at line %d column %d: %s", why.line,
                           why.column, why.text);
    luaL_checkstack(L, 4, "for JSON");
    /* Protected: the parsed value must be freed whatever happens. */
    lua_pushcfunction(L, push_body);
    lua_pushlightuserdata(L, v);
    rc = lua_pcall(L, 1, 1, 0);
    json_decref(v);
    if (rc == LUA_OK)
        return 0;
    errmsg_set(err, "%s", lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "bad JSON");
    lua_pop(L, 1);
    errno = rc == LUA_ERRMEM ? ENOMEM : EPROTO;
    return -1;
}

int lflux_push_payload(lua_State *L, const flux_msg_t *msg, errmsg_t *err)
{
    const void *data;
    size_t len;

    if (!(data = flux_msg_payload(msg, &len))) {
        lua_pushnil(L);
        return 0;
    }
    if (flux_msg_has_flag(msg, FLUX_MSGF_RAW)) {
        lua_pushlstring(L, data, len);
        return 0;
    }
    return lflux_json_decode(L, data, len, err);
}

/* --- for scripts --- */

/* Encode the value at `arg` and push the text: 0; -1 with nil, error message, errno pushed. */
static int push_text(lua_State *L, int arg)
{
    errmsg_t err;
    size_t len;
    char *text = lflux_json_encode(L, arg, &len, &err);

    if (!text) {
        lflux_fail_err(L, errno, &err);
        return -1;
    }
    lflux_push_taken(L, text, len);
    return 0;
}

int lflux_check_payload(lua_State *L, int arg, const char **data, size_t *len, bool *raw)
{
    *data = NULL;
    *len = 0;
    *raw = false;
    switch (lua_type(L, arg)) {
    case LUA_TNONE:
    case LUA_TNIL:
        return 0;
    case LUA_TSTRING:
        *raw = true;
        *data = lua_tolstring(L, arg, len);
        return 0;
    case LUA_TTABLE:
        if (push_text(L, arg) < 0)
            return -1;
        *data = lua_tolstring(L, -1, len);
        return 0;
    default:
        luaL_argerror(L, arg,
                      "a payload is a table (sent as JSON), a string (sent as bytes) or nil");
        return -1;
    }
}

static int encode_lua(lua_State *L)
{
    luaL_checkany(L, 1);
    return push_text(L, 1) < 0 ? 3 : 1;
}

static int decode_lua(lua_State *L)
{
    errmsg_t err;
    size_t len;
    const char *text = luaL_checklstring(L, 1, &len);

    return lflux_json_decode(L, text, len, &err) < 0 ? lflux_fail_err(L, errno, &err) : 1;
}

static int mark_array(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    mark(L);
    return 1;
}

static const luaL_Reg functions[] = {
    {"encode", encode_lua},
    {"decode", decode_lua},
    {NULL, NULL},
};

void lflux_json_register(lua_State *L)
{
    luaL_newmetatable(L, LFLUX_ARRAY);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
    luaL_newlib(L, functions);
    lua_setfield(L, -2, "json");
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    lua_pushcfunction(L, mark_array);
    lua_setfield(L, -2, "array");
}
