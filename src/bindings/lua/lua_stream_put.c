/* lua_stream_put.c - what is put into the step of a stream, and the memory of it.
 *
 *    w:put(variable, number or truth value [, {type}])
 *    w:put(variable, string)                             its bytes
 *    w:put(variable, table [, {type, count, shape, offset, columns}])
 *    w:put(variable, record or records, {format [, shape, offset]})
 *
 * With the option `pinned`, what is put is pinned, too.  Values are converted once, element by
 * element, into memory that libstream reads when the step ends.  The formats of records are kept by
 * their text, so that each is parsed once; readers, which may ask for one, use the same.
 *
 * Invariants:
 *  1. What was put stays in `values` until its step has ended.
 *
 * Failure: nil, an error message that has the names of the variable and the stream, and the step;
 * errno.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtransform/record_lua.h"
#include "libtransform/tarray_lua.h"
#include "lua_stream.h"

#define FORMATS_MAX 256 /* formats of records that a stream keeps */

struct lflux_value {
    struct lflux_value *next;
    char data[];
};

/* A call of put(). */
struct put {
    flux_stream_t *s;
    struct lflux_kept *kept;
    const char *name; /* of the stream */
    const char *var;
};

/* --- what is kept --- */

/* Memory that stays until the step has ended. */
static char *keep(lua_State *L, struct lflux_kept *k, size_t size)
{
    struct lflux_value *v = calloc(1, sizeof(*v) + size);

    if (!v)
        luaL_error(L, "out of memory for %d bytes", (int)size);
    v->next = k->values;
    k->values = v;
    return v->data;
}

void lflux_kept_forget(struct lflux_kept *k)
{
    while (k->values) {
        struct lflux_value *v = k->values;

        k->values = v->next;
        free(v);
    }
}

static void format_free(void *val)
{
    stream_format_destroy(val);
}

const stream_format_t *lflux_kept_format(struct lflux_kept *k, const char *text, errmsg_t *err)
{
    stream_format_t *f = k->formats ? hmap_get(k->formats, text) : NULL;

    if (f || !(f = stream_format_sketch(text, err)))
        return f;
    if (stream_format_pointer(f) != sizeof(void *)) { /* that of a writer on another host */
        stream_format_t *native = stream_format_native(f, err);

        stream_format_destroy(f);
        if (!(f = native))
            return NULL;
    }
    if (k->formats && hmap_count(k->formats) >= FORMATS_MAX) {
        hmap_destroy(k->formats);
        k->formats = NULL;
    }
    if ((!k->formats && !(k->formats = hmap_create_str(format_free))) ||
        hmap_put(k->formats, text, f) < 0) {
        stream_format_destroy(f);
        errmsg_fail(err, ENOMEM, "out of memory for a format");
        return NULL;
    }
    return f;
}

void lflux_kept_clear(struct lflux_kept *k)
{
    lflux_kept_forget(k);
    hmap_destroy(k->formats);
    k->formats = NULL;
}

/* --- putting --- */

/* What is put, or an element of it (counted from 1; 0: not one), is not possible, for this reason
 * and the errno that is set. */
static int put_fails(lua_State *L, const struct put *p, uint64_t elem, const errmsg_t *why)
{
    char which[32] = "";
    int errnum = errno;

    if (elem > 0)
        snprintf(which, sizeof(which), "element %" PRIu64 ": ", elem);
    return lflux_fail(L, errnum, "variable '%s' in step %" PRIu64 " of stream '%s': %s%s", p->var,
                      flux_stream_step(p->s), p->name, which, why->text);
}

/* The numbers of option `name`: how many; 0 without it. */
static unsigned option_dims(lua_State *L, int arg, const char *name, uint64_t *out)
{
    int type = lflux_option(L, arg, name);
    unsigned n = 0;

    if (type != LUA_TNIL) {
        if (type != LUA_TTABLE || lua_rawlen(L, -1) > TARRAY_DIMS)
            luaL_argerror(L, arg,
                          lua_pushfstring(L, "option '%s' is a table of at most %d numbers", name,
                                          TARRAY_DIMS));
        for (n = 0; n < lua_rawlen(L, -1); n++) {
            lua_rawgeti(L, -1, n + 1);
            if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 0)
                luaL_argerror(L, arg, lua_pushfstring(L, "option '%s' has whole numbers", name));
            out[n] = (uint64_t)lua_tointeger(L, -1);
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
    return n;
}

/* The type of the elements of the table at 3: integers if all are, truth values if the first is. */
static enum stream_type table_type(lua_State *L)
{
    enum stream_type type = 0;

    for (size_t i = 1; i <= lua_rawlen(L, 3); i++) {
        enum stream_type own;

        lua_rawgeti(L, 3, (lua_Integer)i);
        own = tarray_lua_type(L, -1);
        lua_pop(L, 1);
        if (type == 0 || own == STREAM_F64)
            type = own;
    }
    return type ? type : STREAM_F64;
}

/* put(variable, table, {type, count, shape, offset, columns}) */
static int put_table(lua_State *L, const struct put *p)
{
    const char *name = lflux_option_text(L, 4, "type");
    struct tarray a = {.type = name ? stream_elem_by_name(name) : table_type(L)};
    uint64_t shape[TARRAY_DIMS];
    uint64_t offset[TARRAY_DIMS] = {0};
    unsigned nshape = option_dims(L, 4, "shape", shape);
    unsigned noffset = option_dims(L, 4, "offset", offset);
    struct flux_stream_array out = {.shape = nshape > 0 ? shape : NULL,
                                    .offset = nshape > 0 ? offset : NULL,
                                    .count = a.count,
                                    .columns = lflux_option_bool(L, 4, "columns")};
    uint64_t n = lua_rawlen(L, 3);
    errmsg_t err;
    char *data;

    if (!tarray_numeric(a.type))
        return luaL_argerror(L, 4, "the type is not one of numbers");
    a.ndims = option_dims(L, 4, "count", a.count);
    if (a.ndims == 0) {
        a.ndims = 1;
        a.count[0] = n;
    }
    if (tarray_finish(&a) < 0 || a.elems != n)
        return luaL_argerror(L, 4, "the table has another number of elements than count");
    if ((nshape > 0 && nshape != a.ndims) || (noffset > 0 && noffset != nshape))
        return luaL_argerror(L, 4, "shape, offset and count have different dimensions");
    data = keep(L, p->kept, tarray_size(&a));
    for (uint64_t i = 0; i < n; i++) {
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        if (tarray_lua_get(L, -1, a.type, data + i * stream_elem_size(a.type), &err) < 0)
            return put_fails(L, p, i + 1, &err);
        lua_pop(L, 1);
    }
    out.type = stream_elem_name(a.type);
    out.ndims = a.ndims;
    if (flux_stream_put_array(p->s, p->var, &out, data, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_true(L);
}

static void *keep_record(lua_State *L, void *arg, size_t size)
{
    return keep(L, arg, size);
}

/* put(variable, record or records, {format, shape, offset}) */
static int put_records(lua_State *L, const struct put *p, const stream_format_t *f)
{
    const struct record_lua_pack pack = {f, keep_record, p->kept};
    uint64_t shape[TARRAY_DIMS];
    uint64_t offset[TARRAY_DIMS] = {0};
    unsigned nshape = option_dims(L, 4, "shape", shape);
    unsigned noffset = option_dims(L, 4, "offset", offset);
    struct flux_stream_array out = {
        .format = f, .shape = nshape > 0 ? shape : NULL, .offset = nshape > 0 ? offset : NULL};
    errmsg_t why, err;
    uint64_t count;
    size_t n;
    void *recs;
    bool one;

    if (!(recs = record_lua_pack(L, 3, &pack, &n, &one, &why)))
        return put_fails(L, p, 0, &why);
    if (nshape > 1 || (noffset > 0 && noffset != nshape) || (one && nshape > 0))
        return luaL_argerror(L, 4, "records are one, or have one dimension");
    count = n;
    out.count = &count;
    out.ndims = !one;
    if (flux_stream_put_array(p->s, p->var, &out, recs, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_true(L);
}

/* put(variable, string) */
static int put_text(lua_State *L, const struct put *p)
{
    size_t len;
    const char *text = lua_tolstring(L, 3, &len);
    char *data = keep(L, p->kept, len);
    errmsg_t err;

    memcpy(data, text, len);
    if (flux_stream_put(p->s, p->var, data, len, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_true(L);
}

/* put(variable, number or truth value, {type}) */
static int put_value(lua_State *L, const struct put *p)
{
    const char *name = lflux_option_text(L, 4, "type");
    enum stream_type type = name ? stream_elem_by_name(name) : tarray_lua_type(L, 3);
    struct flux_stream_array one = {0};
    errmsg_t err;
    char *data;

    if (!tarray_numeric(type))
        return luaL_argerror(L, 3, "it is not a value of a variable");
    data = keep(L, p->kept, stream_elem_size(type));
    if (tarray_lua_get(L, 3, type, data, &err) < 0)
        return put_fails(L, p, 0, &err);
    one.type = stream_elem_name(type);
    if (flux_stream_put_array(p->s, p->var, &one, data, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_true(L);
}

int lflux_put(lua_State *L, flux_stream_t *s, struct lflux_kept *k, const char *name)
{
    static const char *const names[] = {"type",    "count",  "shape",  "offset",
                                        "columns", "pinned", "format", NULL};
    const struct put p = {s, k, name, lflux_check_text(L, 2, "the variable")};
    const stream_format_t *f = NULL;
    const char *text;
    bool pinned;
    errmsg_t err;
    int n;

    lua_settop(L, 4);
    lflux_check_options(L, 4, names);
    pinned = lflux_option_bool(L, 4, "pinned");
    if ((text = lflux_option_text(L, 4, "format"))) {
        luaL_checktype(L, 3, LUA_TTABLE);
        if (!(f = lflux_kept_format(k, text, &err)))
            return lflux_fail_err(L, errno, &err);
    }
    if (f)
        n = put_records(L, &p, f);
    else if (lua_type(L, 3) == LUA_TTABLE)
        n = put_table(L, &p);
    else if (lua_type(L, 3) == LUA_TSTRING)
        n = put_text(L, &p);
    else
        n = put_value(L, &p);
    if (n == 1 && pinned && flux_stream_pin(s, p.var, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return n;
}
