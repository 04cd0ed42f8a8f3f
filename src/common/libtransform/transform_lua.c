/* transform_lua.c - transforms in Lua: a shared object whose argument is the name of a file.
 *
 *    transform(function(step)
 *        local T = step:get("T")
 *        if T:max() < 100 then return false end           -- no step of the result
 *        step:put("hot", (T:threshold(100)))
 *    end)
 *
 * A file runs in the sandbox (libsandbox/sandbox.h, SANDBOX_PURE) with three more functions,
 * `transform`, `array` and `records` (transform_records.c), and the objects that they use: a step,
 * arrays, and records.  The table `methods`
 * lists the computations of arrays; each charges for its work in proportion to the elements.
 *
 * An array of an input is a view of memory that is valid until the step ends; the results of
 * computations are in memory of the interpreter, and count towards its limit.
 *
 * Invariants:
 *  1. A view is not read after its step: its `epoch` must equal that of the script, which rises
 *     with each step.  Arrays that are not views have the epoch 0.
 *  2. The table `kept` refers to the arrays and records that were put, until the next step.
 *
 * Failure: the message of Lua, which begins with the file and the line.
 */
#include "config.h"
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtransform/tarray_lua.h"
#include "libtransform/transform_private.h"
#include "libutil/fdutil.h"

#define FILE_MAX_BYTES (256u * 1024)
#define CHARGE_ELEMS 32 /* for one instruction */

static const struct sandbox_limits limits = {
    .memory = (size_t)1 << 30, .steps = 50000000, .seconds = 10.};

/* Keys of the registry: the script, the function of the file, the arrays that were put. */
static const char script_key = 's', function_key = 'f', kept_key = 'k';

/* --- arrays --- */

struct view {
    struct tarray a;
    uint64_t epoch; /* 0: the data follow */
    bool piece;     /* as in struct flux_transform_array */
    uint64_t shape[TARRAY_DIMS];
    uint64_t offset[TARRAY_DIMS];
};
#define VIEW_SIZE ((sizeof(struct view) + 63) / 64 * 64)
#define ARRAY_NAME "array"
#define STEP_NAME "step"

struct script *transform_lua_script(lua_State *L)
{
    struct script *s;

    lua_rawgetp(L, LUA_REGISTRYINDEX, &script_key);
    s = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return s;
}

const struct tarray *transform_lua_array(lua_State *L, int arg)
{
    struct view *v = luaL_checkudata(L, arg, ARRAY_NAME);

    if (v->epoch != 0 && v->epoch != transform_lua_script(L)->epoch)
        luaL_error(L, "the array belongs to an earlier step: keep a copy of it");
    sandbox_charge(L, v->a.elems / CHARGE_ELEMS);
    return &v->a;
}

static const struct tarray *numbers_at(lua_State *L, int arg)
{
    const struct tarray *a = transform_lua_array(L, arg);

    if (!tarray_numeric(a->type))
        luaL_error(L, "an array of %s has no numbers", stream_elem_name(a->type));
    return a;
}

/* Push an array of this shape; returns its memory. */
static void *array_push(lua_State *L, const struct tarray *shape)
{
    struct tarray a = *shape;
    struct view *v;

    if (tarray_finish(&a) < 0)
        luaL_error(L, "the array is too large");
    v = lua_newuserdata(L, VIEW_SIZE + tarray_size(&a));
    v->a = a;
    v->a.data = (char *)v + VIEW_SIZE;
    v->epoch = 0;
    v->piece = false;
    luaL_setmetatable(L, ARRAY_NAME);
    return (char *)v + VIEW_SIZE;
}

/* Let the array at the top of the stack, which has the shape of the one at 1, be the same piece.
 * Returns 1: it is the result of a function. */
static int same_piece(lua_State *L)
{
    const struct view *from = lua_touserdata(L, 1);
    struct view *v = lua_touserdata(L, -1);

    v->piece = from->piece;
    memcpy(v->shape, from->shape, sizeof(v->shape));
    memcpy(v->offset, from->offset, sizeof(v->offset));
    return 1;
}

static void *line_push(lua_State *L, enum stream_type type, uint64_t n)
{
    return array_push(L, &(struct tarray){.type = type, .ndims = 1, .count = {n}});
}

/* A number that is at least `least`. */
static uint64_t count_at(lua_State *L, int arg, lua_Integer least)
{
    lua_Integer n = luaL_checkinteger(L, arg);

    luaL_argcheck(L, n >= least, arg, "the number is too small");
    return (uint64_t)n;
}

/* --- the computations of arrays --- */

static int m_min(lua_State *L)
{
    struct tarray_stats st;

    tarray_stats(numbers_at(L, 1), &st);
    lua_pushnumber(L, st.min);
    return 1;
}

static int m_max(lua_State *L)
{
    struct tarray_stats st;

    tarray_stats(numbers_at(L, 1), &st);
    lua_pushnumber(L, st.max);
    return 1;
}

static int m_sum(lua_State *L)
{
    struct tarray_stats st;

    tarray_stats(numbers_at(L, 1), &st);
    lua_pushnumber(L, st.sum);
    return 1;
}

static int m_mean(lua_State *L)
{
    struct tarray_stats st;

    tarray_stats(numbers_at(L, 1), &st);
    lua_pushnumber(L, st.sum / (double)st.n);
    return 1;
}

/* a:histogram(bins, low, high) */
static int m_histogram(lua_State *L)
{
    const struct tarray *a = numbers_at(L, 1);
    uint64_t bins = count_at(L, 2, 1);
    double low = luaL_checknumber(L, 3);
    double high = luaL_checknumber(L, 4);

    luaL_argcheck(L, high > low && isfinite(high - low), 4, "the range is empty, or infinite");
    tarray_histogram(a, low, high, bins, line_push(L, STREAM_U64, bins));
    return 1;
}

/* a:threshold(low [, high]): the values, and their positions */
static int m_threshold(lua_State *L)
{
    const struct tarray *a = numbers_at(L, 1);
    double low = luaL_checknumber(L, 2);
    double high = luaL_optnumber(L, 3, INFINITY);
    uint64_t n = tarray_within(a, low, high, NULL, NULL, UINT64_MAX);
    void *values = line_push(L, a->type, n);

    if (tarray_within(a, low, high, values, line_push(L, STREAM_U64, n), n) != n)
        return luaL_error(L, "the array changes while it is read");
    return 2;
}

/* a:scale(factor [, offset]) */
static int m_scale(lua_State *L)
{
    const struct tarray *a = numbers_at(L, 1);
    struct tarray shape = *a;
    double factor = luaL_checknumber(L, 2);
    double offset = luaL_optnumber(L, 3, 0.);

    shape.type = STREAM_F64;
    tarray_scale(a, factor, offset, array_push(L, &shape));
    return same_piece(L);
}

static enum stream_type type_at(lua_State *L, int arg)
{
    enum stream_type type = stream_elem_by_name(luaL_checkstring(L, arg));

    luaL_argcheck(L, tarray_numeric(type), arg, "it is not a type of numbers");
    return type;
}

/* a:convert(type) */
static int m_convert(lua_State *L)
{
    const struct tarray *a = numbers_at(L, 1);
    struct tarray shape = *a;
    errmsg_t err;

    shape.type = type_at(L, 2);
    if (tarray_convert(a, shape.type, array_push(L, &shape), &err) < 0)
        return luaL_error(L, "%s", err.text);
    return same_piece(L);
}

/* pairs:adjacency(n): the begin of the neighbors of each number, and the neighbors */
static int m_adjacency(lua_State *L)
{
    const struct tarray *a = numbers_at(L, 1);
    uint64_t n = count_at(L, 2, 0);
    errmsg_t err;
    void *from;

    luaL_argcheck(L, n < UINT64_MAX / 16, 2, "the number is too large");
    sandbox_charge(L, n / CHARGE_ELEMS);
    from = line_push(L, STREAM_U64, n + 1);
    if (tarray_adjacency(a, n, from, line_push(L, STREAM_U64, a->elems), &err) < 0)
        return luaL_error(L, "%s", err.text);
    return 2;
}

static int part_push(lua_State *L, const struct tarray *a, const struct tarray_part *p)
{
    struct tarray shape;
    errmsg_t err;

    if (tarray_part_shape(a, p, &shape, &err) < 0)
        return luaL_error(L, "%s", err.text);
    tarray_select(a, p, array_push(L, &shape));
    return 1;
}

/* a:copy(), a:rows(), a:columns(), a:transpose() */
static int m_copy(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);
    struct tarray_part p;

    tarray_part_init(&p, a);
    part_push(L, a, &p);
    return same_piece(L);
}

static int m_rows(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);
    struct tarray_part p;

    tarray_part_init(&p, a);
    p.columns = false;
    part_push(L, a, &p);
    return same_piece(L);
}

static int m_columns(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);
    struct tarray_part p;

    tarray_part_init(&p, a);
    p.columns = true;
    part_push(L, a, &p);
    return same_piece(L);
}

static int m_transpose(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);
    struct tarray_part p;

    tarray_part_init(&p, a);
    p.reverse = true;
    return part_push(L, a, &p);
}

/* a:stride(n), the same in each dimension, or a:stride(n1, n2, ...) */
static int m_stride(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);
    int n = lua_gettop(L) - 1;
    struct tarray_part p;

    if (n != 1 && n != (int)a->ndims)
        return luaL_error(L, "%d strides, and %d dimensions", n, (int)a->ndims);
    tarray_part_init(&p, a);
    for (int i = 0; i < (int)a->ndims; i++) {
        p.stride[i] = count_at(L, n == 1 ? 2 : 2 + i, 1);
        p.count[i] = p.count[i] / p.stride[i] + (p.count[i] % p.stride[i] > 0);
    }
    return part_push(L, a, &p);
}

/* The numbers of a table, one for each dimension. */
static void dims_at(lua_State *L, int arg, const struct tarray *a, uint64_t *out)
{
    luaL_checktype(L, arg, LUA_TTABLE);
    if (lua_rawlen(L, arg) != a->ndims)
        luaL_error(L, "%d numbers, and %d dimensions", (int)lua_rawlen(L, arg), (int)a->ndims);
    for (unsigned i = 0; i < a->ndims; i++) {
        int ok;

        lua_rawgeti(L, arg, i + 1);
        out[i] = (uint64_t)lua_tointegerx(L, -1, &ok);
        lua_pop(L, 1);
        if (!ok || out[i] > INT64_MAX)
            luaL_error(L, "number %d is not one of elements", (int)i + 1);
    }
}

/* a:box(start, count [, stride]) */
static int m_box(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);
    struct tarray_part p;

    tarray_part_init(&p, a);
    dims_at(L, 2, a, p.start);
    dims_at(L, 3, a, p.count);
    if (!lua_isnoneornil(L, 4))
        dims_at(L, 4, a, p.stride);
    return part_push(L, a, &p);
}

/* a:table() */
static int m_table(lua_State *L)
{
    const struct tarray *a = transform_lua_array(L, 1);

    sandbox_charge(L, a->elems);
    lua_newtable(L);
    for (uint64_t i = 0; i < a->elems; i++) {
        tarray_lua_push(L, a, i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static const luaL_Reg methods[] = {
    {"min", m_min},
    {"max", m_max},
    {"sum", m_sum},
    {"mean", m_mean},
    {"histogram", m_histogram},
    {"threshold", m_threshold},
    {"scale", m_scale},
    {"convert", m_convert},
    {"adjacency", m_adjacency},
    {"copy", m_copy},
    {"rows", m_rows},
    {"columns", m_columns},
    {"transpose", m_transpose},
    {"stride", m_stride},
    {"box", m_box},
    {"table", m_table},
    {NULL, NULL},
};

void transform_lua_numbers(lua_State *L, const uint64_t *n, unsigned ndims)
{
    lua_createtable(L, (int)ndims, 0);
    for (unsigned k = 0; k < ndims; k++) {
        lua_pushinteger(L, (lua_Integer)n[k]);
        lua_rawseti(L, -2, k + 1);
    }
}

/* a[i] (from 0), a.type, a.shape, a.offset and a.whole (of a piece), and the methods (a table,
 * upvalue 1) */
static int array_index(lua_State *L)
{
    struct view *v = luaL_checkudata(L, 1, ARRAY_NAME);
    int ok;
    lua_Integer i = lua_tointegerx(L, 2, &ok);
    const char *name;

    if (ok) {
        if (v->epoch != 0 && v->epoch != transform_lua_script(L)->epoch)
            return luaL_error(L, "the array belongs to an earlier step: keep a copy of it");
        if (i < 0 || (uint64_t)i >= v->a.elems)
            lua_pushnil(L);
        else
            tarray_lua_push(L, &v->a, (uint64_t)i);
        return 1;
    }
    name = luaL_checkstring(L, 2);
    if (strcmp(name, "type") == 0)
        lua_pushstring(L, stream_elem_name(v->a.type));
    else if (strcmp(name, "shape") == 0)
        transform_lua_numbers(L, v->a.count, v->a.ndims);
    else if (v->piece && strcmp(name, "offset") == 0)
        transform_lua_numbers(L, v->offset, v->a.ndims);
    else if (v->piece && strcmp(name, "whole") == 0)
        transform_lua_numbers(L, v->shape, v->a.ndims);
    else
        lua_getfield(L, lua_upvalueindex(1), name);
    return 1;
}

static int array_len(lua_State *L)
{
    const struct view *v = luaL_checkudata(L, 1, ARRAY_NAME);

    lua_pushinteger(L, (lua_Integer)v->a.elems);
    return 1;
}

/* array(type, table [, shape]) */
static int array_new(lua_State *L)
{
    struct tarray shape = {.type = type_at(L, 1), .ndims = 1};
    errmsg_t err;
    char *to;

    luaL_checktype(L, 2, LUA_TTABLE);
    shape.count[0] = lua_rawlen(L, 2);
    sandbox_charge(L, shape.count[0]);
    if (!lua_isnoneornil(L, 3)) {
        uint64_t elems = shape.count[0];

        luaL_checktype(L, 3, LUA_TTABLE);
        if (lua_rawlen(L, 3) > TARRAY_DIMS)
            return luaL_error(L, "an array has at most %d dimensions", TARRAY_DIMS);
        shape.ndims = (unsigned)lua_rawlen(L, 3);
        dims_at(L, 3, &shape, shape.count);
        if (tarray_finish(&shape) < 0 || shape.elems != elems)
            return luaL_error(L, "the table has %d elements, and the shape another number",
                              (int)elems);
    }
    to = array_push(L, &shape);
    for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, 2); i++) {
        lua_rawgeti(L, 2, i);
        if (tarray_lua_get(L, -1, shape.type, to, &err) < 0)
            return luaL_error(L, "number %d: %s", (int)i, err.text);
        to += stream_elem_size(shape.type);
        lua_pop(L, 1);
    }
    return 1;
}

/* --- the step --- */

/* The current step; `arg` is its object. */
static struct script *step_at(lua_State *L, int arg)
{
    struct script *s = transform_lua_script(L);
    const uint64_t *epoch = luaL_checkudata(L, arg, STEP_NAME);

    if (!s->st || *epoch != s->epoch)
        luaL_error(L, "the step has ended");
    return s;
}

/* An input, from 1; 1 by default. */
static unsigned input_at(lua_State *L, int arg, const struct script *s)
{
    lua_Integer n = luaL_optinteger(L, arg, 1);

    luaL_argcheck(L, n >= 1 && n <= (lua_Integer)s->st->inputs, arg, "there is no such input");
    return (unsigned)n - 1;
}

/* step:names([input]) */
static int s_names(lua_State *L)
{
    const struct script *s = step_at(L, 1);
    unsigned input = input_at(L, 2, s);
    const char *name;

    lua_newtable(L);
    for (size_t i = 0; (name = s->st->name(s->st, input, i)); i++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* step:get(name [, input [, rank]]) */
static int s_get(lua_State *L)
{
    const struct script *s = step_at(L, 1);
    const char *name = luaL_checkstring(L, 2);
    unsigned input = input_at(L, 3, s);
    lua_Integer rank = luaL_optinteger(L, 4, FLUX_TRANSFORM_ALL);
    struct flux_transform_array a;
    struct view *v;

    luaL_argcheck(L, rank >= 0 && rank <= UINT32_MAX, 4, "it is not a rank");
    if (s->st->get(s->st, input, name, (uint32_t)rank, &a) < 0)
        return luaL_error(L, "%s", s->st->why(s->st));
    if (a.format) {
        transform_records_push(L, &a);
        return 1;
    }
    v = lua_newuserdata(L, sizeof(*v));
    v->a = (struct tarray){.type = stream_elem_by_name(a.type),
                           .ndims = a.ndims,
                           .columns = a.columns,
                           .data = a.data};
    memcpy(v->a.count, a.count, sizeof(v->a.count));
    memcpy(v->shape, a.shape, sizeof(v->shape));
    memcpy(v->offset, a.offset, sizeof(v->offset));
    v->piece = a.piece;
    v->epoch = s->epoch;
    luaL_setmetatable(L, ARRAY_NAME);
    tarray_finish(&v->a);
    return 1;
}

/* Keep the array at the top of the stack until the next step. */
static void keep(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kept_key);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
}

/* Replace the value at `arg` by an array: a number or truth value, or a text. */
static void to_array(lua_State *L, int arg)
{
    struct tarray shape = {.type = tarray_lua_type(L, arg)};
    errmsg_t err;

    if (shape.type == STREAM_CHAR) {
        size_t len;
        const char *text = lua_tolstring(L, arg, &len);

        memcpy(line_push(L, STREAM_CHAR, len), text, len);
    } else if (!shape.type || tarray_lua_get(L, arg, shape.type, array_push(L, &shape), &err) < 0)
        luaL_error(L, "a %s is not a value of a variable", luaL_typename(L, arg));
    lua_replace(L, arg);
}

/* Describe the array at `arg`. */
static void array_get(lua_State *L, int arg, struct flux_transform_array *out)
{
    const struct tarray *a = transform_lua_array(L, arg);
    const struct view *v = lua_touserdata(L, arg);

    *out = (struct flux_transform_array){.type = stream_elem_name(a->type),
                                         .ndims = a->ndims,
                                         .columns = a->columns,
                                         .data = a->data,
                                         .piece = v->piece};
    memcpy(out->count, a->count, sizeof(out->count));
    memcpy(out->shape, v->shape, sizeof(out->shape));
    memcpy(out->offset, v->offset, sizeof(out->offset));
}

/* step:put(name, value) */
static int s_put(lua_State *L)
{
    const struct script *s = step_at(L, 1);
    const char *name = luaL_checkstring(L, 2);
    struct flux_transform_array out;

    lua_settop(L, 3);
    if (lua_type(L, 3) != LUA_TUSERDATA)
        to_array(L, 3);
    if (!transform_records_get(L, 3, &out))
        array_get(L, 3, &out);
    keep(L);
    if (s->st->put(s->st, name, &out) < 0)
        return luaL_error(L, "%s", s->st->why(s->st));
    return 0;
}

/* step:keep([name...]) */
static int s_keep(lua_State *L)
{
    const struct script *s = step_at(L, 1);
    int n = lua_gettop(L);

    for (int i = 2; i <= n || (n == 1 && i == 2); i++) {
        if (s->st->keep(s->st, n == 1 ? NULL : luaL_checkstring(L, i)) < 0)
            return luaL_error(L, "%s", s->st->why(s->st));
    }
    return 0;
}

static const luaL_Reg step_methods[] = {
    {"names", s_names}, {"get", s_get}, {"put", s_put}, {"keep", s_keep}, {NULL, NULL},
};

/* step.number, step.inputs, and the methods (a table, upvalue 1) */
static int step_index(lua_State *L)
{
    const struct script *s = step_at(L, 1);
    const char *name = luaL_checkstring(L, 2);

    if (strcmp(name, "number") == 0)
        lua_pushinteger(L, (lua_Integer)s->st->number);
    else if (strcmp(name, "inputs") == 0)
        lua_pushinteger(L, s->st->inputs);
    else
        lua_getfield(L, lua_upvalueindex(1), name);
    return 1;
}

/* --- the file --- */

/* transform(f) */
static int transform_call(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &function_key) != LUA_TNIL)
        return luaL_error(L, "transform is called a second time");
    lua_settop(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &function_key);
    return 0;
}

static void metatable(lua_State *L, const char *name, const luaL_Reg *list, lua_CFunction index)
{
    luaL_newmetatable(L, name);
    lua_newtable(L);
    luaL_setfuncs(L, list, 0);
    lua_pushcclosure(L, index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

/* Runs protected; argument: the script. */
static int open_script(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &script_key);
    metatable(L, ARRAY_NAME, methods, array_index);
    lua_pushcfunction(L, array_len);
    lua_setfield(L, -2, "__len");
    metatable(L, STEP_NAME, step_methods, step_index);
    transform_records_open(L);
    lua_pushcfunction(L, transform_call);
    lua_setglobal(L, "transform");
    lua_pushcfunction(L, array_new);
    lua_setglobal(L, "array");
    return 0;
}

/* Runs protected: call the function of the file with an object of the step.  true, unless it
 * returns false. */
static int call_function(lua_State *L)
{
    uint64_t *epoch;

    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kept_key);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &function_key) != LUA_TFUNCTION)
        return luaL_error(L, "the file does not call transform(function)");
    epoch = lua_newuserdata(L, sizeof(*epoch));
    *epoch = transform_lua_script(L)->epoch;
    luaL_setmetatable(L, STEP_NAME);
    lua_call(L, 1, 1);
    lua_pushboolean(L, !(lua_isboolean(L, -1) && !lua_toboolean(L, -1)));
    return 1;
}

static void script_destroy(void *state)
{
    struct script *s = state;

    sandbox_destroy(s->sb);
    free(s);
}

static int failed(struct script *s, int rc, char *text, size_t size)
{
    snprintf(text, size, "%s", sandbox_error(s->sb, rc));
    lua_settop(s->L, 0);
    return -1;
}

static int script_load(struct script *s, const char *path, char *text, size_t size)
{
    char chunk[4096];
    char *code = NULL;
    size_t len;
    int rc;

    if (file_read_all(path, FILE_MAX_BYTES, &code, &len) < 0) {
        snprintf(text, size, "the file cannot be read: %s", strerror(errno));
        return -1;
    }
    snprintf(chunk, sizeof(chunk), "@%s", path);
    lua_pushcfunction(s->L, open_script);
    lua_pushlightuserdata(s->L, s);
    if ((rc = sandbox_call(s->sb, 1, 0)) == LUA_OK &&
        (rc = sandbox_load(s->sb, code, len, chunk)) == LUA_OK)
        rc = sandbox_call(s->sb, 0, 0);
    free(code);
    return rc == LUA_OK ? 0 : failed(s, rc, text, size);
}

static void *script_create(const char *path, char *text, size_t size)
{
    struct script *s = calloc(1, sizeof(*s));

    if (!s || !(s->sb = sandbox_create(&limits, SANDBOX_PURE))) {
        free(s);
        snprintf(text, size, "out of memory");
        return NULL;
    }
    s->L = sandbox_lua(s->sb);
    if (path && script_load(s, path, text, size) == 0)
        return s;
    if (!path)
        snprintf(text, size, "it needs the name of a file");
    script_destroy(s);
    return NULL;
}

static int script_step(void *state, const struct flux_transform_step *st, char *text, size_t size)
{
    struct script *s = state;
    int rc;

    s->st = st;
    s->epoch++;
    lua_pushcfunction(s->L, call_function);
    rc = sandbox_call(s->sb, 0, 1);
    s->st = NULL;
    if (rc != LUA_OK)
        return failed(s, rc, text, size);
    rc = lua_toboolean(s->L, -1);
    lua_settop(s->L, 0);
    return rc;
}

const struct flux_transform flux_transform = {
    FLUX_TRANSFORM_ABI, "lua", script_create, script_step, script_destroy,
};
