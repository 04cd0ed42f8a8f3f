/* lua_stream.c - streams: steps of values and small arrays.
 *
 *    w = h:stream_writer(name [, options])    w:wait_readers(n [, timeout])
 *    w:step()   w:epoch()   w:fail()   w:close()
 *    r = h:stream_reader(name [, options])    r:steps([timeout])
 *    r:begin_step([timeout [, which]])        r:end_step()   r:writers()   r:step()   r:epoch()
 *    r:close()
 *    r:vars([rank])            r:pinned([rank])
 *    r:inquire(variable [, rank])             r:format(variable)
 *    r:get(variable [, rank [, options]])     r:read(variable [, start, count [, stride]])
 *
 * Methods of other files are called with the stream: w:put() (lua_stream_put.c), steps of a writer
 * (lua_stream_write.c), attributes (lua_stream_attr.c), r:schedule() and r:perform()
 * (lua_stream_schedule.c), r:mine() (lua_stream_mine.c).
 *
 * Elements are numbers and truth values; bytes are read as a string.  An array is a table, in the
 * order of memory.  Records are tables (record_lua.h).
 *
 * Invariants:
 *  1. Functions of libstream may wait for the broker, and are called within a frame
 *     (lua_reactor.c); callbacks run as in any other wait.
 *  2. A stream is closed before its handle: at once, or, if a callback closes the handle during a
 *     call, when the call returns.
 *
 * Failure: nil, error message, errno.  The end of a stream is ENODATA.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtransform/record_lua.h"
#include "libtransform/tarray_lua.h"
#include "lua_stream.h"

_Static_assert(TARRAY_DIMS == FLUX_STREAM_DIMS_MAX, "one limit");

#define NAME_MAX_LEN 128 /* of a stream */

struct lflux_stream {
    flux_stream_t *s; /* NULL: ended */
    struct lflux_handle *lh;
    struct list_node node; /* in lflux_handle.streams */
    struct lflux_kept kept;
    struct lflux_requests requests;
    char name[NAME_MAX_LEN + 1];
    bool begun;
    bool busy;  /* a call is under way */
    bool ended; /* during that call */
};

static void stream_end(struct lflux_stream *ls)
{
    if (ls->busy) {
        ls->ended = true;
        return;
    }
    flux_stream_close(ls->s);
    ls->s = NULL;
    lflux_kept_clear(&ls->kept);
    lflux_requests_clear(&ls->requests);
    list_remove(&ls->node);
}

void lflux_streams_end(struct lflux_handle *lh)
{
    LIST_FOREACH_SAFE(it, tmp, &lh->streams)
    stream_end(list_entry(it, struct lflux_stream, node));
}

static struct lflux_stream *check_stream(lua_State *L, const char *class)
{
    struct lflux_stream *ls = lflux_object(L, 1, class);

    if (!ls->s || ls->ended)
        luaL_argerror(L, 1, "the stream was closed, or its handle");
    if (ls->busy)
        luaL_argerror(L, 1, "a callback uses a stream that waits");
    return ls;
}

static struct lflux_stream *check_writer(lua_State *L)
{
    return check_stream(L, LFLUX_STREAM_WRITER);
}

static struct lflux_stream *check_reader(lua_State *L)
{
    return check_stream(L, LFLUX_STREAM_READER);
}

static void begin(lua_State *L, struct lflux_stream *ls, struct lflux_frame *fr)
{
    lflux_enter(L, ls->lh->lr, fr, true);
    ls->busy = true;
}

/* Raises the error of a callback, as every wait. */
static void end(lua_State *L, struct lflux_stream *ls, struct lflux_frame *fr)
{
    ls->busy = false;
    if (ls->ended)
        stream_end(ls);
    lflux_leave(L, ls->lh->lr, fr);
}

/* --- opening --- */

/* A number of the table of options at `arg`: 0 without it. */
static double option_number(lua_State *L, int arg, const char *name, double max)
{
    int type = lflux_option(L, arg, name);
    double value = lua_tonumber(L, -1);

    if (type != LUA_TNIL && (type != LUA_TNUMBER || !(value >= 0. && value <= max)))
        luaL_argerror(L, arg, lua_pushfstring(L, "option '%s' is a number, 0 or more", name));
    lua_pop(L, 1);
    return value;
}

static int stream_open(lua_State *L, const char *class, enum flux_stream_mode mode,
                       const struct flux_stream_opts *opts)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *name = lflux_check_text(L, 2, "the name");
    struct lflux_stream *ls = lflux_new(L, class, sizeof(*ls));
    struct lflux_frame fr;
    flux_stream_t *s;
    errmsg_t err;
    int errnum;

    ls->lh = lh;
    snprintf(ls->name, sizeof(ls->name), "%s", name);
    lflux_hold(lh);
    list_init(&ls->node);
    lflux_requests_init(&ls->requests);
    lua_pushvalue(L, 1);
    lua_setuservalue(L, -2);
    list_append(&lh->streams, &ls->node);
    begin(L, ls, &fr);
    s = flux_stream_open(lh->conn->h, name, mode, opts, &err);
    errnum = errno;
    ls->s = s;
    end(L, ls, &fr);
    if (s)
        return 1;
    list_remove(&ls->node);
    return lflux_fail_err(L, errnum, &err);
}

static double open_timeout(lua_State *L)
{
    double t = lflux_option_timeout(L, 3);

    return t == 0. ? 1e-3 : t < 0. ? 0. : t; /* 0 is the default of libstream */
}

static int writer_open(lua_State *L)
{
    static const char *const names[] = {"rank",  "size",    "readers",    "keep",      "depth",
                                        "evict", "timeout", "transforms", "transport", "secure",
                                        "share", "start",   NULL};
    struct flux_stream_opts opts;

    lflux_check_options(L, 3, names);
    opts =
        (struct flux_stream_opts){.rank = (uint32_t)option_number(L, 3, "rank", UINT32_MAX),
                                  .size = (uint32_t)option_number(L, 3, "size", UINT32_MAX),
                                  .readers = (uint32_t)option_number(L, 3, "readers", UINT32_MAX),
                                  .keep = (uint32_t)option_number(L, 3, "keep", UINT32_MAX),
                                  .depth = (uint32_t)option_number(L, 3, "depth", UINT32_MAX),
                                  .evict = option_number(L, 3, "evict", HUGE_VAL),
                                  .start = lflux_option_text(L, 3, "start"),
                                  .transforms = lflux_option_text(L, 3, "transforms"),
                                  .transport = lflux_option_text(L, 3, "transport"),
                                  .secure = lflux_option_text(L, 3, "secure"),
                                  .share = lflux_option_text(L, 3, "share"),
                                  .timeout = open_timeout(L)};
    return stream_open(L, LFLUX_STREAM_WRITER, FLUX_STREAM_WRITE, &opts);
}

static int reader_open(lua_State *L)
{
    static const char *const names[] = {"policy",  "depth",      "bytes", "group",  "key",
                                        "resume",  "team",       "rank",  "size",   "stay",
                                        "timeout", "transforms", "join",  "switch", "transport",
                                        "secure",  "share",      "by",    NULL};
    struct flux_stream_opts opts;

    lflux_check_options(L, 3, names);
    opts = (struct flux_stream_opts){.policy = lflux_option_text(L, 3, "policy"),
                                     .depth = (uint32_t)option_number(L, 3, "depth", UINT32_MAX),
                                     .bytes = (uint64_t)option_number(L, 3, "bytes", 0x1p62),
                                     .group = lflux_option_text(L, 3, "group"),
                                     .key = lflux_option_text(L, 3, "key"),
                                     .by = lflux_option_text(L, 3, "by"),
                                     .resume = option_number(L, 3, "resume", 65535.),
                                     .team = lflux_option_text(L, 3, "team"),
                                     .rank = (uint32_t)option_number(L, 3, "rank", UINT32_MAX),
                                     .size = (uint32_t)option_number(L, 3, "size", UINT32_MAX),
                                     .transforms = lflux_option_text(L, 3, "transforms"),
                                     .join = lflux_option_text(L, 3, "join"),
                                     .onoff = lflux_option_text(L, 3, "switch"),
                                     .stay = lflux_option_bool(L, 3, "stay"),
                                     .transport = lflux_option_text(L, 3, "transport"),
                                     .secure = lflux_option_text(L, 3, "secure"),
                                     .share = lflux_option_text(L, 3, "share"),
                                     .timeout = open_timeout(L)};
    return stream_open(L, LFLUX_STREAM_READER, FLUX_STREAM_READ, &opts);
}

const luaL_Reg lflux_stream_handle_methods[] = {
    {"stream_rank", lflux_stream_rank},
    {"stream_writer", writer_open},
    {"stream_reader", reader_open},
    {NULL, NULL},
};

static int stream_close(lua_State *L, const char *class)
{
    struct lflux_stream *ls = lflux_object(L, 1, class);

    if (ls->s)
        stream_end(ls);
    return lflux_true(L);
}

static int writer_fail(lua_State *L)
{
    struct lflux_stream *ls = check_writer(L);

    flux_stream_fail(ls->s);
    stream_end(ls);
    return lflux_true(L);
}

static int stream_step(lua_State *L, struct lflux_stream *ls)
{
    lua_pushinteger(L, (lua_Integer)flux_stream_step(ls->s));
    return 1;
}

static int stream_epoch(lua_State *L, struct lflux_stream *ls)
{
    lua_pushinteger(L, (lua_Integer)flux_stream_epoch(ls->s));
    return 1;
}

/* --- writing --- */

static int writer_put(lua_State *L)
{
    struct lflux_stream *ls = check_writer(L);

    return lflux_put(L, ls->s, &ls->kept, ls->name);
}

int lflux_writer_run(lua_State *L, lflux_writer_call call, const char *text, double timeout,
                     bool ends)
{
    struct lflux_stream *ls = check_writer(L);
    struct lflux_frame fr;
    errmsg_t err;
    int errnum;
    int rc;

    begin(L, ls, &fr);
    rc = call(ls->s, text, timeout, &err);
    errnum = errno;
    if (ends && (rc >= 0 || (errnum != ETIMEDOUT && errnum != EBUSY)))
        lflux_kept_forget(&ls->kept);
    end(L, ls, &fr);
    if (rc < 0)
        return lflux_fail_err(L, errnum, &err);
    lua_pushboolean(L, rc == 0);
    return 1;
}

static int writer_wait_readers(lua_State *L)
{
    struct lflux_stream *ls = check_writer(L);
    lua_Integer readers = luaL_checkinteger(L, 2);
    double timeout = lflux_check_timeout(L, 3);
    errmsg_t err;

    luaL_argcheck(L, readers >= 0 && readers <= UINT32_MAX, 2, "not a number of readers");
    if (flux_stream_wait_readers(ls->s, (uint32_t)readers, timeout, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_true(L);
}

static int writer_step(lua_State *L)
{
    return stream_step(L, check_writer(L));
}
static int writer_epoch(lua_State *L)
{
    return stream_epoch(L, check_writer(L));
}

static int writer_close(lua_State *L)
{
    return stream_close(L, LFLUX_STREAM_WRITER);
}

/* --- reading --- */

static int step_begin(lua_State *L, struct lflux_stream *ls, double timeout, uint64_t which)
{
    struct lflux_frame fr;
    uint64_t step = 0;
    errmsg_t err;
    int errnum;
    int rc;

    if (ls->begun)
        flux_stream_end_step(ls->s, 0., NULL);
    lflux_requests_clear(&ls->requests);
    begin(L, ls, &fr);
    rc = flux_stream_begin_step(ls->s, which, timeout, &step, &err);
    errnum = errno;
    ls->begun = rc == 1;
    end(L, ls, &fr);
    if (rc < 0)
        return lflux_fail_err(L, errnum, &err);
    if (rc == 0)
        return lflux_fail(L, ENODATA, "the stream has ended");
    lua_pushinteger(L, (lua_Integer)step);
    return 1;
}

/* The step that is asked for: "next" (the default), "newest", or a number. */
static uint64_t check_which(lua_State *L, int arg)
{
    static const char *const names[] = {"next", "newest", NULL};

    if (lua_type(L, arg) == LUA_TNUMBER)
        return (uint64_t)lflux_check_range(L, arg, "the number of a step", 0, LUA_MAXINTEGER);
    return luaL_checkoption(L, arg, "next", names) == 0 ? FLUX_STREAM_NEXT : FLUX_STREAM_NEWEST;
}

static int reader_begin_step(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);
    double timeout = lflux_check_timeout(L, 2);

    return step_begin(L, ls, timeout, check_which(L, 3));
}

static int reader_end_step(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);
    errmsg_t err;

    if (flux_stream_end_step(ls->s, 0., &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lflux_requests_clear(&ls->requests);
    ls->begun = false;
    return lflux_true(L);
}

/* The iterator of steps(): nil at the end, an error otherwise. */
static int steps_next(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);
    int n = step_begin(L, ls, lua_tonumber(L, lua_upvalueindex(1)), FLUX_STREAM_NEXT);

    if (n == 3 && lua_tointeger(L, -1) != ENODATA) {
        lua_pop(L, 1);
        return lua_error(L);
    }
    lua_settop(L, -n); /* the number, or nil */
    return 1;
}

static int reader_steps(lua_State *L)
{
    check_reader(L);
    lua_pushnumber(L, lflux_check_timeout(L, 2));
    lua_pushcclosure(L, steps_next, 1);
    lua_pushvalue(L, 1);
    return 2;
}

static uint32_t rank_at(lua_State *L, int arg, uint32_t otherwise)
{
    return lua_isnoneornil(L, arg)
               ? otherwise
               : (uint32_t)lflux_check_range(L, arg, "the rank", 0, UINT32_MAX - 1);
}

/* The names that `next` gives for a writer. */
static int names(lua_State *L, const char *(*next)(flux_stream_t *, uint32_t, size_t))
{
    struct lflux_stream *ls = check_reader(L);
    uint32_t rank = rank_at(L, 2, 0);
    const char *name;

    lua_newtable(L);
    for (size_t i = 0; (name = next(ls->s, rank, i)); i++) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int reader_vars(lua_State *L)
{
    return names(L, flux_stream_var);
}

static int reader_pinned(lua_State *L)
{
    return names(L, flux_stream_pinned);
}

static void push_dims(lua_State *L, const char *name, const uint64_t *dims, unsigned n)
{
    lua_createtable(L, (int)n, 0);
    for (unsigned i = 0; i < n; i++) {
        lua_pushinteger(L, (lua_Integer)dims[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, name);
}

static int reader_inquire(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);
    const char *var = lflux_check_text(L, 2, "the variable");
    struct flux_stream_info in;
    errmsg_t err;

    if (flux_stream_inquire(ls->s, rank_at(L, 3, FLUX_STREAM_ALL), var, &in, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_newtable(L);
    lua_pushstring(L, in.type);
    lua_setfield(L, -2, "type");
    lua_pushboolean(L, in.global);
    lua_setfield(L, -2, "global");
    lua_pushboolean(L, in.columns);
    lua_setfield(L, -2, "columns");
    push_dims(L, "shape", in.shape, in.ndims);
    push_dims(L, "offset", in.offset, in.ndims);
    push_dims(L, "count", in.count, in.ndims);
    return 1;
}

int lflux_push_elements(lua_State *L, const struct tarray *a)
{
    if (a->ndims == 0) {
        tarray_lua_push(L, a, 0);
        return 1;
    }
    lua_newtable(L);
    for (uint64_t i = 0; i < a->elems; i++) {
        tarray_lua_push(L, a, i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* The format in which the records of a variable are read: that of the option at `arg`, or the
 * writer's.  NULL with errno and an error message. */
static const stream_format_t *records_format(lua_State *L, struct lflux_stream *ls, const char *var,
                                             int arg, errmsg_t *err)
{
    const char *text = lflux_option_text(L, arg, "format");
    const stream_format_t *f;

    if (!text && (f = flux_stream_format(ls->s, var, err)))
        text = stream_format_text(f);
    return text ? lflux_kept_format(&ls->kept, text, err) : NULL;
}

static int get_records(lua_State *L, struct lflux_stream *ls, const char *var, uint32_t rank,
                       bool one)
{
    errmsg_t err;
    const stream_format_t *f = records_format(L, ls, var, 4, &err);
    const void *recs;
    size_t n;

    if (!f || flux_stream_get_records(ls->s, rank, var, f, &recs, &n, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    record_lua_push(L, f, recs, n, one);
    return 1;
}

/* The canonical text of the format of records. */
static int reader_format(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);
    const char *var = lflux_check_text(L, 2, "the variable");
    const stream_format_t *f;
    errmsg_t err;

    if (!(f = flux_stream_format(ls->s, var, &err)))
        return lflux_fail_err(L, errno, &err);
    lua_pushstring(L, stream_format_text(f));
    return 1;
}

/* What a writer has put. */
static int reader_get(lua_State *L)
{
    static const char *const options[] = {"format", NULL};
    struct lflux_stream *ls = check_reader(L);
    const char *var = lflux_check_text(L, 2, "the variable");
    uint32_t rank = rank_at(L, 3, 0);
    struct flux_stream_info in;
    struct tarray a = {0};
    errmsg_t err;
    size_t len;

    lua_settop(L, 4);
    lflux_check_options(L, 4, options);
    if (flux_stream_get(ls->s, rank, var, &a.data, &len, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    if (flux_stream_inquire(ls->s, rank, var, &in, &err) < 0) {
        if (errno != ENOENT)
            return lflux_fail_err(L, errno, &err);
        if (len == 0 && flux_stream_format(ls->s, var, NULL))
            return get_records(L, ls, var, rank, false);
        lua_pushlstring(L, a.data, len); /* bytes */
        return 1;
    }
    if (in.format > 0)
        return get_records(L, ls, var, rank, in.ndims == 0);
    a.type = stream_elem_by_name(in.type);
    if (a.type == STREAM_CHAR) {
        lua_pushlstring(L, a.data, len);
        return 1;
    }
    a.ndims = in.ndims;
    memcpy(a.count, in.count, sizeof(a.count));
    if (tarray_finish(&a) < 0 || tarray_size(&a) != len)
        return lflux_fail(L, EPROTO,
                          "variable '%s' has another number of bytes than its writer says", var);
    return lflux_push_elements(L, &a);
}

uint64_t *lflux_stream_dims(lua_State *L, int arg, unsigned ndims, uint64_t *out)
{
    if (lua_isnoneornil(L, arg))
        return NULL;
    luaL_checktype(L, arg, LUA_TTABLE);
    if (lua_rawlen(L, arg) != ndims)
        luaL_argerror(L, arg, lua_pushfstring(L, "the array has %d dimensions", (int)ndims));
    for (unsigned i = 0; i < ndims; i++) {
        lua_rawgeti(L, arg, i + 1);
        if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 0)
            luaL_argerror(L, arg, "the table has whole numbers");
        out[i] = (uint64_t)lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return out;
}

/* The records of a part of a global array. */
static int read_records(lua_State *L, struct lflux_stream *ls, const char *var,
                        const struct flux_stream_info *in)
{
    uint64_t start[TARRAY_DIMS], count[TARRAY_DIMS], stride[TARRAY_DIMS], n = 1;
    const uint64_t *counts = lflux_stream_dims(L, 4, in->ndims, count);
    const uint64_t *starts = lflux_stream_dims(L, 3, in->ndims, start);
    const uint64_t *strides = lflux_stream_dims(L, 5, in->ndims, stride);
    const stream_format_t *f;
    errmsg_t err;
    size_t size;
    void *to;

    for (unsigned i = 0; i < in->ndims; i++)
        if (__builtin_mul_overflow(n, counts ? counts[i] : in->shape[i], &n))
            n = UINT64_MAX;
    if (!(f = records_format(L, ls, var, 6, &err)))
        return lflux_fail_err(L, errno, &err);
    if (__builtin_mul_overflow(n, stream_format_size(f), &size))
        size = SIZE_MAX;
    to = lflux_stream_room(L, &size);
    if (flux_stream_get_record_box(ls->s, var, starts, counts, strides, f, to, size, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    record_lua_push(L, f, to, n, false);
    return 1;
}

/* A part of a global array. */
static int reader_read(lua_State *L)
{
    static const char *const options[] = {"format", NULL};
    struct lflux_stream *ls = check_reader(L);
    const char *var = lflux_check_text(L, 2, "the variable");
    uint64_t start[TARRAY_DIMS];
    uint64_t count[TARRAY_DIMS];
    uint64_t stride[TARRAY_DIMS];
    struct flux_stream_info in;
    const uint64_t *starts, *strides;
    struct tarray a = {0};
    errmsg_t err;
    size_t size;
    void *to;

    lua_settop(L, 6);
    lflux_check_options(L, 6, options);
    if (flux_stream_inquire(ls->s, FLUX_STREAM_ALL, var, &in, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    if (lua_isnil(L, 3) != lua_isnil(L, 4))
        return luaL_argerror(L, 4, "start and count belong together");
    if (in.format > 0)
        return read_records(L, ls, var, &in);
    a.type = stream_elem_by_name(in.type);
    a.ndims = in.ndims;
    memcpy(a.count, lflux_stream_dims(L, 4, in.ndims, count) ? count : in.shape,
           in.ndims * sizeof(a.count[0]));
    if (tarray_finish(&a) < 0)
        a.elems = 0; /* an empty box, or it is outside of the array */
    size = tarray_size(&a);
    a.data = to = lflux_stream_room(L, &size);
    starts = lflux_stream_dims(L, 3, in.ndims, start);
    strides = lflux_stream_dims(L, 5, in.ndims, stride);
    if (flux_stream_get_box(ls->s, var, starts, a.count, strides, to, size, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_push_elements(L, &a);
}

static int reader_schedule(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);

    return lflux_schedule(L, ls->s, &ls->requests);
}

static int writer_set_attribute(lua_State *L)
{
    return lflux_set_attribute(L, check_writer(L)->s);
}

static int reader_attribute(lua_State *L)
{
    return lflux_attribute(L, check_reader(L)->s);
}

static int reader_mine(lua_State *L)
{
    return lflux_mine(L, check_reader(L)->s);
}

static int reader_perform(lua_State *L)
{
    struct lflux_stream *ls = check_reader(L);

    return lflux_perform(L, ls->s, &ls->requests);
}

static int reader_writers(lua_State *L)
{
    lua_pushinteger(L, flux_stream_writers(check_reader(L)->s));
    return 1;
}

static int reader_step(lua_State *L)
{
    return stream_step(L, check_reader(L));
}
static int reader_epoch(lua_State *L)
{
    return stream_epoch(L, check_reader(L));
}

static int reader_close(lua_State *L)
{
    return stream_close(L, LFLUX_STREAM_READER);
}

/* --- classes --- */

static int collect(lua_State *L, const char *class)
{
    struct lflux_stream *ls = lflux_collect(L, class);
    struct lflux_handle *lh;

    if (!ls)
        return 0;
    lh = ls->lh;
    stream_end(ls);
    lflux_drop(ls);
    lflux_drop(lh);
    return 0;
}

static int writer_gc(lua_State *L)
{
    return collect(L, LFLUX_STREAM_WRITER);
}

static int reader_gc(lua_State *L)
{
    return collect(L, LFLUX_STREAM_READER);
}

static int to_string(lua_State *L)
{
    const struct lflux_stream *ls = lflux_unbox(L, 1);

    return lflux_describe(L, "flux.stream", ls ? ls->s : NULL);
}

static const luaL_Reg writer_methods[] = {
    {"put", writer_put},
    {"end_step", lflux_writer_end_step},
    {"end_step_later", lflux_writer_end_step_later},
    {"wait_step", lflux_writer_wait_step},
    {"drop_step", lflux_writer_drop_step},
    {"drain", lflux_writer_drain},
    {"define", lflux_writer_define},
    {"wait_readers", writer_wait_readers},
    {"step", writer_step},
    {"epoch", writer_epoch},
    {"fail", writer_fail},
    {"set_attribute", writer_set_attribute},
    {"close", writer_close},
    {NULL, NULL},
};

static const luaL_Reg reader_methods[] = {
    {"begin_step", reader_begin_step},
    {"end_step", reader_end_step},
    {"steps", reader_steps},
    {"vars", reader_vars},
    {"pinned", reader_pinned},
    {"inquire", reader_inquire},
    {"format", reader_format},
    {"get", reader_get},
    {"read", reader_read},
    {"mine", reader_mine},
    {"attribute", reader_attribute},
    {"schedule", reader_schedule},
    {"perform", reader_perform},
    {"writers", reader_writers},
    {"step", reader_step},
    {"epoch", reader_epoch},
    {"close", reader_close},
    {NULL, NULL},
};

void lflux_stream_register(lua_State *L)
{
    lflux_class(L, LFLUX_STREAM_WRITER, writer_methods, writer_gc, to_string);
    lflux_class(L, LFLUX_STREAM_READER, reader_methods, reader_gc, to_string);
}
