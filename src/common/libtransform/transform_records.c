/* transform_records.c - records in transforms in Lua.
 *
 *    local atoms = step:get("atoms")
 *    local _, heavy = step:get("atoms.mass"):threshold(50)
 *    step:put("heavy", atoms:select(heavy):fields("id", "at.x"))
 *    step:put("sum", records("record sum\n field n u32\n", { n = #atoms }))
 *
 * Records are structs of this host and their format: those of an input where they are, others in
 * memory of the interpreter.  One record is a table (record_lua.h) when a file looks at it, and
 * only then.  Conversions are those of readers (convert.h), which do not allocate memory here.
 *
 * The user value of records leads to all that they need: their format, blocks that they point to,
 * and the records of which they are a part.
 *
 * Invariants:
 *  1. Records of an input are not read after its step, nor are those that point to the same memory:
 *     their `epoch` must equal that of the script.  Others have the epoch 0.
 *  2. At most KEPT_MAX formats and conversions are kept by their texts; the memory of each counts
 *     towards the limit of the interpreter.
 *
 * Failure: an error of Lua.
 */
#include "config.h"
#include <errno.h>
#include <lauxlib.h>
#include <math.h>
#include <string.h>

#include "libstream/convert.h"
#include "libtransform/record_lua.h"
#include "libtransform/tarray_lua.h"
#include "libtransform/transform_private.h"

#define KEPT_MAX 128
#define TEXT_COST 16     /* bytes of memory for one of the text of a format */
#define CHARGE_BYTES 256 /* for one instruction */
#define RECORDS_NAME "records"
#define HELD_NAME "format"

struct records {
    uint64_t epoch; /* 0: they stay */
    const stream_format_t *f;
    struct flux_transform_array a;
    uint64_t n;
};
#define RECORDS_SIZE ((sizeof(struct records) + 63) / 64 * 64)

/* A format, or a conversion, that is freed when nothing refers to it. */
struct held {
    stream_format_t *f;
    stream_convert_t *c;
};

/* Key of the registry: a table of what is held, by texts. */
static const char held_key = 'h';

/* --- formats --- */

static int held_gc(lua_State *L)
{
    struct held *h = lua_touserdata(L, 1);

    stream_convert_destroy(h->c);
    stream_format_destroy(h->f);
    h->c = NULL;
    h->f = NULL;
    return 0;
}

/* Push what is held by the key at the top of the stack, which stays below it: NULL, and nothing is
 * pushed, if there is nothing. */
static struct held *held_find(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &held_key);
    lua_pushvalue(L, -2);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (!lua_isnil(L, -1))
        return lua_touserdata(L, -1);
    lua_pop(L, 1);
    return NULL;
}

/* Push something to be held, which takes about `cost` bytes elsewhere. */
static struct held *held_new(lua_State *L, size_t cost)
{
    struct held *h;

    sandbox_charge(L, cost / TEXT_COST);
    h = lua_newuserdata(L, sizeof(*h) + cost);
    *h = (struct held){NULL, NULL};
    luaL_setmetatable(L, HELD_NAME);
    return h;
}

/* Keep what is at the top of the stack by the key below it. */
static void held_keep(lua_State *L)
{
    struct script *s = transform_lua_script(L);

    if (s->formats++ % KEPT_MAX == 0) {
        lua_newtable(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &held_key);
    }
    lua_rawgetp(L, LUA_REGISTRYINDEX, &held_key);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* Replace the text of a format at the top of the stack by the format. */
static const stream_format_t *format_push(lua_State *L)
{
    struct held *h = held_find(L);
    const char *text;
    errmsg_t err;
    size_t len;

    if (!h) {
        text = lua_tolstring(L, -1, &len);
        h = held_new(L, TEXT_COST * len);
        if (strlen(text) != len || !(h->f = stream_format_sketch(text, &err))) {
            luaL_error(L, "%s", strlen(text) != len ? "a format is not text" : err.text);
            return NULL;
        }
        if (stream_format_pointer(h->f) != sizeof(void *))
            luaL_error(L, "format %s is not one of structs of this host", stream_format_name(h->f));
        held_keep(L);
    }
    lua_remove(L, -2);
    return h->f;
}

/* Push the format of the fields that are named from the second argument on. */
static const stream_format_t *pick_push(lua_State *L, const stream_format_t *f)
{
    int n = lua_gettop(L) - 1;
    const char **paths;
    struct held *h;
    errmsg_t err;

    lua_pushliteral(L, "\001");
    for (int i = 0; i < n; i++) {
        luaL_checkstring(L, i + 2);
        lua_pushvalue(L, i + 2);
        lua_pushliteral(L, "\n");
        lua_concat(L, 3);
    }
    lua_pushstring(L, stream_format_text(f));
    lua_concat(L, 2);
    if (!(h = held_find(L))) {
        paths = lua_newuserdata(L, sizeof(*paths) * ((size_t)n + 1));
        for (int i = 0; i < n; i++)
            paths[i] = lua_tostring(L, i + 2);
        lua_insert(L, -2);
        h = held_new(L, TEXT_COST * strlen(stream_format_text(f)));
        if (!(h->f = stream_format_pick(f, paths, (size_t)n, &err))) {
            luaL_error(L, "%s", err.text);
            return NULL;
        }
        held_keep(L);
    }
    return h->f;
}

/* Push the conversion of one format to another. */
static const stream_convert_t *convert_push(lua_State *L, const stream_format_t *from,
                                            const stream_format_t *to)
{
    const uint64_t key[] = {stream_format_id(from), stream_format_id(to)};
    struct held *h;
    errmsg_t err;

    lua_pushliteral(L, "\002");
    lua_pushlstring(L, (const char *)key, sizeof(key));
    lua_concat(L, 2);
    if (!(h = held_find(L))) {
        h = held_new(L, TEXT_COST *
                            (strlen(stream_format_text(from)) + strlen(stream_format_text(to))));
        if (!(h->c = stream_convert_create(from, STREAM_NATIVE, to, &err))) {
            luaL_error(L, "%s", err.text);
            return NULL;
        }
        held_keep(L);
    }
    return h->c;
}

/* --- records --- */

static void charge(lua_State *L, uint64_t bytes)
{
    sandbox_charge(L, 1 + bytes / CHARGE_BYTES);
}

static struct records *records_at(lua_State *L, int arg)
{
    struct records *r = luaL_checkudata(L, arg, RECORDS_NAME);

    if (r->epoch != 0 && r->epoch != transform_lua_script(L)->epoch)
        luaL_error(L, "the records belong to an earlier step: keep a copy of them");
    return r;
}

/* Push records of the format `f`, with room for `size` bytes, where their structs are, and what
 * they need: the value at the top of the stack, which is taken away. */
static struct records *records_new(lua_State *L, const stream_format_t *f, size_t size)
{
    struct records *r = lua_newuserdata(L, RECORDS_SIZE + size);

    *r = (struct records){.f = f, .a = {.type = "record"}};
    r->a.data = (char *)r + RECORDS_SIZE;
    r->a.format = stream_format_text(f);
    luaL_setmetatable(L, RECORDS_NAME);
    lua_insert(L, -2);
    lua_setuservalue(L, -2);
    return r;
}

static void line(struct records *r, uint64_t n)
{
    r->n = r->a.count[0] = n;
    r->a.ndims = 1;
}

void transform_records_push(lua_State *L, const struct flux_transform_array *a)
{
    const stream_format_t *f;
    struct records *r;

    lua_pushstring(L, a->format);
    f = format_push(L);
    r = records_new(L, f, 0);
    r->a = *a;
    r->a.format = stream_format_text(f);
    r->epoch = transform_lua_script(L)->epoch;
    r->n = 1;
    for (unsigned i = 0; i < a->ndims; i++)
        r->n *= a->count[i];
}

bool transform_records_get(lua_State *L, int arg, struct flux_transform_array *out)
{
    if (!luaL_testudata(L, arg, RECORDS_NAME))
        return false;
    *out = records_at(L, arg)->a;
    return true;
}

/* Push the bytes of the records at 1, which are at *body: their structs themselves, if they have no
 * pointers. */
static size_t body_push(lua_State *L, const struct records *r, const void **body)
{
    errmsg_t err;
    size_t len;
    void *to;

    *body = r->a.data;
    if (stream_encode_array_size(r->f, r->a.data, r->n, &len, &err) < 0)
        luaL_error(L, "%s", err.text);
    charge(L, len);
    if (stream_format_flat(r->f)) {
        lua_pushnil(L);
        return len;
    }
    *body = to = lua_newuserdata(L, len + 1);
    if (stream_encode_array(r->f, r->a.data, r->n, to, len, &len, &err) < 0)
        luaL_error(L, "%s", err.text);
    return len;
}

/* Push the records at 1 as structs of the format `to`, which is at the top of the stack. */
static int recast(lua_State *L, const struct records *r, const stream_format_t *to)
{
    const stream_convert_t *c;
    struct records *out;
    const void *body;
    size_t len, need;
    errmsg_t err;

    c = convert_push(L, r->f, to);
    len = body_push(L, r, &body);
    if (stream_convert_array_check(c, r->n, body, len, &need, &err) < 0)
        return luaL_error(L, "%s", err.text);
    charge(L, need);
    lua_pushvalue(L, -4); /* the format: above it are the key and the conversion, and the bytes */
    out = records_new(L, to, need);
    if (stream_convert_array_into(c, r->n, body, len, (char *)out + RECORDS_SIZE, need, 0, &err) <
        0)
        return luaL_error(L, "%s", err.text);
    out->n = r->n;
    out->a.ndims = r->a.ndims;
    out->a.columns = r->a.columns;
    out->a.piece = r->a.piece;
    memcpy(out->a.count, r->a.count, sizeof(out->a.count));
    memcpy(out->a.shape, r->a.shape, sizeof(out->a.shape));
    memcpy(out->a.offset, r->a.offset, sizeof(out->a.offset));
    return 1;
}

/* r:fields(path, ...): records of these fields */
static int r_fields(lua_State *L)
{
    const struct records *r = records_at(L, 1);

    return recast(L, r, pick_push(L, r->f));
}

/* r:convert(format): records of another format, by the names of fields */
static int r_convert(lua_State *L)
{
    const struct records *r = records_at(L, 1);

    luaL_checkstring(L, 2);
    lua_settop(L, 2);
    return recast(L, r, format_push(L));
}

/* r:copy(): records that stay beyond the step */
static int r_copy(lua_State *L)
{
    const struct records *r = records_at(L, 1);

    lua_settop(L, 1);
    lua_pushstring(L, stream_format_text(r->f));
    return recast(L, r, format_push(L));
}

/* Push the record at a position as a table. */
static void one_push(lua_State *L, const struct records *r, uint64_t i)
{
    size_t size = stream_format_size(r->f);

    sandbox_charge(L, stream_format_count(r->f));
    record_lua_push(L, r->f, (const char *)r->a.data + i * size, 1, true);
}

/* r:table(): all of them, from 1 on */
static int r_table(lua_State *L)
{
    const struct records *r = records_at(L, 1);

    lua_newtable(L);
    for (uint64_t i = 0; i < r->n; i++) {
        one_push(L, r, i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* Position number `i` (from 0) of those at 2: an array, or a table. */
static uint64_t position(lua_State *L, const struct tarray *a, uint64_t i, uint64_t n)
{
    double at;

    if (a)
        at = tarray_at(a, i);
    else {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        at = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : NAN;
        lua_pop(L, 1);
    }
    if (!(at >= 0 && at < (double)n) || at != floor(at))
        luaL_error(L, "position %d is %f, and there are %d records", (int)i + 1, at, (int)n);
    return (uint64_t)at;
}

/* Copy those of the records at 1 for which the function at 2 is true.  Returns their number. */
static uint64_t filter(lua_State *L, const struct records *r, char *to)
{
    size_t size = stream_format_size(r->f);
    uint64_t n = 0;

    for (uint64_t i = 0; i < r->n; i++) {
        lua_pushvalue(L, 2);
        one_push(L, r, i);
        lua_pushinteger(L, (lua_Integer)i);
        lua_call(L, 2, 1);
        if (lua_toboolean(L, -1))
            memcpy(to + size * n++, (const char *)r->a.data + i * size, size);
        lua_pop(L, 1);
    }
    return n;
}

/* r:select(positions), from 0 on, in an array or a table; r:select(function(record, position)) */
static int r_select(lua_State *L)
{
    const struct records *r = records_at(L, 1);
    bool function = lua_type(L, 2) == LUA_TFUNCTION;
    const struct tarray *a = lua_type(L, 2) == LUA_TUSERDATA ? transform_lua_array(L, 2) : NULL;
    size_t size = stream_format_size(r->f);
    struct records *out;
    uint64_t n;
    char *to;

    lua_settop(L, 2);
    if (!function && !a)
        luaL_checktype(L, 2, LUA_TTABLE);
    if (a && !tarray_numeric(a->type))
        return luaL_error(L, "an array of %s has no positions", stream_elem_name(a->type));
    n = function ? r->n : a ? a->elems : lua_rawlen(L, 2);
    if (n > SIZE_MAX / 4 / size)
        return luaL_error(L, "there are too many positions");
    charge(L, n * size);
    lua_pushvalue(L, 1);
    out = records_new(L, r->f, n * size);
    to = (char *)out + RECORDS_SIZE;
    out->epoch = stream_format_flat(r->f) ? 0 : r->epoch;
    for (uint64_t i = 0; !function && i < n; i++)
        memcpy(to + i * size, (const char *)r->a.data + position(L, a, i, r->n) * size, size);
    line(out, function ? filter(L, r, to) : n);
    return 1;
}

static const luaL_Reg methods[] = {
    {"fields", r_fields}, {"convert", r_convert}, {"copy", r_copy},
    {"table", r_table},   {"select", r_select},   {NULL, NULL},
};

/* r[i] (from 0), r.format, r.shape, r.offset and r.whole (of a piece), and the methods (a table,
 * upvalue 1) */
static int records_index(lua_State *L)
{
    const struct records *r = luaL_checkudata(L, 1, RECORDS_NAME);
    int ok;
    lua_Integer i = lua_tointegerx(L, 2, &ok);
    const char *name;

    if (ok) {
        r = records_at(L, 1);
        if (i < 0 || (uint64_t)i >= r->n)
            lua_pushnil(L);
        else
            one_push(L, r, (uint64_t)i);
        return 1;
    }
    name = luaL_checkstring(L, 2);
    if (strcmp(name, "format") == 0)
        lua_pushstring(L, stream_format_text(r->f));
    else if (strcmp(name, "shape") == 0)
        transform_lua_numbers(L, r->a.count, r->a.ndims);
    else if (r->a.piece && strcmp(name, "offset") == 0)
        transform_lua_numbers(L, r->a.offset, r->a.ndims);
    else if (r->a.piece && strcmp(name, "whole") == 0)
        transform_lua_numbers(L, r->a.shape, r->a.ndims);
    else
        lua_getfield(L, lua_upvalueindex(1), name);
    return 1;
}

static int records_len(lua_State *L)
{
    const struct records *r = luaL_checkudata(L, 1, RECORDS_NAME);

    lua_pushinteger(L, (lua_Integer)r->n);
    return 1;
}

/* Memory for structs: a block in the table at *arg. */
static void *block(lua_State *L, void *arg, size_t size)
{
    int at = *(int *)arg;
    void *p;

    charge(L, size);
    p = lua_newuserdata(L, size);
    memset(p, 0, size);
    lua_rawseti(L, at, (lua_Integer)lua_rawlen(L, at) + 1);
    return p;
}

/* records(format, table): a record, or a table of records */
static int records_make(lua_State *L)
{
    int blocks = 4;
    struct record_lua_pack p = {.alloc = block, .arg = &blocks};
    struct records *r;
    const char *recs;
    errmsg_t err;
    size_t n;
    bool one;

    luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_pushvalue(L, 1);
    p.f = format_push(L);
    lua_newtable(L);
    lua_pushvalue(L, 3);
    lua_setfield(L, blocks, "format");
    if (!(recs = record_lua_pack(L, 2, &p, &n, &one, &err)))
        return luaL_error(L, "%s", err.text);
    lua_pushvalue(L, blocks);
    r = records_new(L, p.f, 0);
    line(r, n);
    r->a.ndims = !one;
    r->a.data = recs;
    return 1;
}

void transform_records_open(lua_State *L)
{
    luaL_newmetatable(L, HELD_NAME);
    lua_pushcfunction(L, held_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newmetatable(L, RECORDS_NAME);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_pushcclosure(L, records_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, records_len);
    lua_setfield(L, -2, "__len");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushcfunction(L, records_make);
    lua_setglobal(L, "records");
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &held_key);
    lua_pop(L, 2);
}
