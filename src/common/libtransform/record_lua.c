/* record_lua.c - records of streams as tables of Lua, and back: see record_lua.h.
 *
 * Structs are walked by the description of their format.  Those that are read come from
 * flux_stream_get_records(), so that sizes and pointers in them are sound.  Those that are written
 * are made in memory of the stream, which lasts until the step has ended; libstream encodes them.
 *
 * Sizes of arrays that a table does not have follow from the arrays, if only one dimension of an
 * array is given by a field.
 *
 * Failure: EINVAL, or ERANGE for a number that the type does not have, with an error message that
 * names the field.  Tables inside each other without end are E2BIG.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <string.h>

#include "libstream/encode.h"
#include "libtransform/tarray_lua.h"
#include "libtransform/record_lua.h"

#define FIELD_FAIL(err, f, fd, errnum, what, ...) \
    errmsg_fail(err, errnum, "field %s.%s " what, stream_format_name(f), (fd)->name, ##__VA_ARGS__)

/* --- to Lua --- */

static void push_record(lua_State *L, const stream_format_t *f, const char *rec);

static bool is_text(enum stream_type type)
{
    return type == STREAM_CHAR || type == STREAM_BYTES;
}

/* The numbers of which an element consists. */
static unsigned parts_of(enum stream_type type)
{
    return type == STREAM_C64 || type == STREAM_C128 ? 2 : 1;
}

/* The pointer that is in memory there. */
static const char *pointer_at(const char *slot)
{
    const char *p;

    memcpy(&p, slot, sizeof(p));
    return p;
}

static enum stream_type part_type(enum stream_type type)
{
    return type == STREAM_C64 ? STREAM_F32 : type == STREAM_C128 ? STREAM_F64 : type;
}

static void push_element(lua_State *L, const struct stream_field *fd, const char *at, uint64_t i)
{
    const struct tarray a = {.type = part_type(fd->type), .data = at};
    const char *p = at + i * fd->elem;

    if (fd->type < STREAM_STRING) {
        tarray_lua_push(L, &a, i);
        return;
    }
    if (fd->pointers)
        p = pointer_at(p);
    if (!p)
        lua_pushboolean(L, false);
    else if (fd->type == STREAM_STRING)
        lua_pushstring(L, p);
    else
        push_record(L, fd->of, p);
}

/* The number of elements of a field, as the record says. */
static uint64_t count_of(const stream_format_t *f, const struct stream_field *fd, const char *rec)
{
    uint64_t n = fd->count;

    for (unsigned d = 0; d < fd->ndims; d++) {
        const struct stream_field *size;
        uint64_t v = 0;

        if (fd->dims[d].fixed)
            continue;
        size = stream_format_field(f, fd->dims[d].field);
        stream_elem_size_value(size->type, STREAM_NATIVE, rec + size->offset, &v);
        n *= v;
    }
    return n;
}

static void push_field(lua_State *L, const stream_format_t *f, const struct stream_field *fd,
                       const char *rec)
{
    uint64_t n = count_of(f, fd, rec) * parts_of(fd->type);
    const char *at = rec + fd->offset;

    if (fd->slot)
        at = pointer_at(at);
    if (!at && n > 0)
        lua_pushnil(L);
    else if (is_text(fd->type))
        lua_pushlstring(L, at ? at : "", n);
    else if (fd->ndims == 0 && parts_of(fd->type) == 1) {
        push_element(L, fd, at, 0);
        if (fd->pointers && lua_isboolean(L, -1)) {
            lua_pop(L, 1);
            lua_pushnil(L);
        }
    } else {
        lua_newtable(L);
        for (uint64_t i = 0; i < n; i++) {
            push_element(L, fd, at, i);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
    }
}

static void push_record(lua_State *L, const stream_format_t *f, const char *rec)
{
    luaL_checkstack(L, 8, "a record is too deep");
    lua_newtable(L);
    for (size_t i = 0; i < stream_format_count(f); i++) {
        const struct stream_field *fd = stream_format_field(f, i);

        push_field(L, f, fd, rec);
        lua_setfield(L, -2, fd->name);
    }
}

void record_lua_push(lua_State *L, const stream_format_t *f, const void *recs, size_t n, bool one)
{
    if (one) {
        push_record(L, f, recs);
        return;
    }
    lua_newtable(L);
    for (size_t i = 0; i < n; i++) {
        push_record(L, f, (const char *)recs + i * stream_format_size(f));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* --- from Lua --- */

static int pack_record(lua_State *L, const struct record_lua_pack *p, const stream_format_t *f,
                       char *rec, unsigned depth, errmsg_t *err);

static void put_pointer(char *at, const void *p)
{
    memcpy(at, &p, sizeof(p));
}

/* The number of elements that the value of a field, at the top of the stack, has. */
static uint64_t length_of(lua_State *L, const struct stream_field *fd)
{
    return fd->ndims == 0 ? 1 : lua_rawlen(L, -1) / parts_of(fd->type);
}

/* Set the sizes of arrays: those of the table at the top of the stack, or else of its arrays. */
static int pack_sizes(lua_State *L, const stream_format_t *f, char *rec, errmsg_t *err)
{
    for (size_t i = 0; i < stream_format_count(f); i++) {
        const struct stream_field *fd = stream_format_field(f, i), *size = NULL;
        unsigned sizes = 0;

        for (unsigned d = 0; d < fd->ndims; d++) {
            if (!fd->dims[d].fixed) {
                size = stream_format_field(f, fd->dims[d].field);
                sizes++;
            }
        }
        if (sizes == 0)
            continue;
        lua_getfield(L, -1, size->name);
        lua_getfield(L, -2, fd->name);
        if (lua_isnil(L, -2) && (lua_istable(L, -1) || lua_isstring(L, -1))) {
            if (sizes > 1)
                return FIELD_FAIL(err, f, size, EINVAL,
                                  "has no value, and does not follow from field %s", fd->name);
            stream_elem_size_put(size->type, (uint8_t *)rec + size->offset,
                                 length_of(L, fd) / fd->count);
        }
        lua_pop(L, 2);
    }
    return 0;
}

/* Is it the size of an array, and has pack_sizes() set it? */
static bool is_size(const stream_format_t *f, size_t field)
{
    for (size_t i = 0; i < stream_format_count(f); i++) {
        const struct stream_field *fd = stream_format_field(f, i);

        for (unsigned d = 0; d < fd->ndims; d++)
            if (!fd->dims[d].fixed && fd->dims[d].field == field)
                return true;
    }
    return false;
}

/* Make a string of which the record has the address. */
static void pack_string(lua_State *L, const struct record_lua_pack *p, const char *s, size_t len,
                        char *at)
{
    char *copy = p->alloc(L, p->arg, len + 1);

    memcpy(copy, s, len);
    put_pointer(at, copy);
}

/* The value for a field that the table does not have. */
static int pack_absent(lua_State *L, const struct record_lua_pack *p, const stream_format_t *f,
                       size_t i, char *rec, errmsg_t *err)
{
    const struct stream_field *fd = stream_format_field(f, i);
    const char *text = stream_format_lookup(fd->attrs, "default");

    if (is_size(f, i) || fd->variable || (fd->flags & STREAM_OPTIONAL) ||
        (fd->pointers && fd->type == STREAM_RECORD))
        return 0;
    if (!text || fd->ndims > 0)
        return FIELD_FAIL(err, f, fd, EINVAL, "has no value");
    if (fd->type == STREAM_STRING) {
        pack_string(L, p, text, strlen(text), rec + fd->offset);
        return 0;
    }
    return stream_elem_parse(fd->type, text, rec + fd->offset);
}

/* Element number `i` of a field, whose value is at the top of the stack. */
static int pack_element(lua_State *L, const struct record_lua_pack *p, const stream_format_t *f,
                        const struct stream_field *fd, char *at, unsigned depth, errmsg_t *err)
{
    errmsg_t why;
    const char *s;
    size_t len;

    if (fd->type < STREAM_STRING) {
        if (tarray_lua_get(L, -1, part_type(fd->type), at, &why) < 0)
            return FIELD_FAIL(err, f, fd, errno, "of type %s: %s", stream_elem_name(fd->type),
                              why.text);
        return 0;
    }
    if (fd->type == STREAM_STRING) {
        if (lua_type(L, -1) != LUA_TSTRING)
            return FIELD_FAIL(err, f, fd, EINVAL, "is not a string");
        s = lua_tolstring(L, -1, &len);
        if (strlen(s) != len)
            return FIELD_FAIL(err, f, fd, EINVAL, "has a NUL");
        pack_string(L, p, s, len, at);
        return 0;
    }
    if (fd->pointers) {
        char *to;

        if (!lua_toboolean(L, -1))
            return 0;
        to = p->alloc(L, p->arg, stream_format_size(fd->of));
        put_pointer(at, to);
        at = to;
    }
    if (!lua_istable(L, -1))
        return FIELD_FAIL(err, f, fd, EINVAL, "is not a table");
    return pack_record(L, p, fd->of, at, depth + 1, err);
}

/* The bytes of a text, which may be shorter than a fixed array. */
static int pack_text(lua_State *L, const stream_format_t *f, const struct stream_field *fd,
                     char *at, uint64_t n, errmsg_t *err)
{
    const char *s;
    size_t len;

    if (lua_type(L, -1) != LUA_TSTRING)
        return FIELD_FAIL(err, f, fd, EINVAL, "is not a string");
    s = lua_tolstring(L, -1, &len);
    if (len > n || (fd->variable && len != n))
        return FIELD_FAIL(err, f, fd, EINVAL, "has %zu bytes, not %" PRIu64, len, n);
    memcpy(at, s, len);
    return 0;
}

/* A field, whose value is at the top of the stack, and not nil. */
static int pack_field(lua_State *L, const struct record_lua_pack *p, const stream_format_t *f,
                      const struct stream_field *fd, char *rec, unsigned depth, errmsg_t *err)
{
    uint64_t n = count_of(f, fd, rec);
    bool table = fd->ndims > 0 || parts_of(fd->type) > 1;
    char *at = rec + fd->offset;

    if (table && !is_text(fd->type) && !lua_istable(L, -1))
        return FIELD_FAIL(err, f, fd, EINVAL, "is not a table");
    if (table && !is_text(fd->type) && lua_rawlen(L, -1) != n * parts_of(fd->type))
        return FIELD_FAIL(err, f, fd, EINVAL, "has %d elements, not %" PRIu64,
                          (int)lua_rawlen(L, -1), n * parts_of(fd->type));
    if (fd->slot) {
        if (n == 0)
            return 0;
        at = p->alloc(L, p->arg, n * fd->elem);
        put_pointer(rec + fd->offset, at);
    }
    if (is_text(fd->type))
        return pack_text(L, f, fd, at, n, err);
    if (!table)
        return pack_element(L, p, f, fd, at, depth, err);
    for (uint64_t i = 0; i < n * parts_of(fd->type); i++) {
        int rc;

        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        rc = pack_element(L, p, f, fd, at + i * (fd->elem / parts_of(fd->type)), depth, err);
        lua_pop(L, 1);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* A record from the table at the top of the stack. */
static int pack_record(lua_State *L, const struct record_lua_pack *p, const stream_format_t *f,
                       char *rec, unsigned depth, errmsg_t *err)
{
    if (depth == STREAM_VALUE_DEPTH)
        return errmsg_fail(err, E2BIG, "records of format %s are more than %d inside each other",
                           stream_format_name(f), STREAM_VALUE_DEPTH);
    luaL_checkstack(L, 8, "a record is too deep");
    if (pack_sizes(L, f, rec, err) < 0)
        return -1;
    for (int sizes = 1; sizes >= 0; sizes--) { /* first sizes, by which arrays are measured */
        for (size_t i = 0; i < stream_format_count(f); i++) {
            const struct stream_field *fd = stream_format_field(f, i);
            int rc;

            if (is_size(f, i) != sizes)
                continue;
            lua_getfield(L, -1, fd->name);
            rc = lua_isnil(L, -1) ? pack_absent(L, p, f, i, rec, err)
                                  : pack_field(L, p, f, fd, rec, depth, err);
            lua_pop(L, 1);
            if (rc < 0)
                return -1;
        }
    }
    return 0;
}

void *record_lua_pack(lua_State *L, int arg, const struct record_lua_pack *p, size_t *n, bool *one,
                      errmsg_t *err)
{
    size_t size = stream_format_size(p->f);
    char *recs;

    *n = lua_rawlen(L, arg);
    lua_pushnil(L);
    *one = *n == 0 && lua_next(L, arg);
    lua_settop(L, lua_gettop(L) - (*one ? 2 : *n > 0 ? 1 : 0));
    if (*one)
        *n = 1;
    recs = p->alloc(L, p->arg, *n > 0 ? *n * size : 1);
    for (size_t i = 0; i < *n; i++) {
        int rc;

        if (*one)
            lua_pushvalue(L, arg);
        else
            lua_rawgeti(L, arg, (lua_Integer)i + 1);
        if (lua_istable(L, -1))
            rc = pack_record(L, p, p->f, recs + i * size, 0, err);
        else
            rc = errmsg_fail(err, EINVAL, "record %d is not a table", (int)i + 1);
        lua_pop(L, 1);
        if (rc < 0)
            return NULL;
    }
    return recs;
}
