/* lua_stream_schedule.c - parts of arrays that a reader of a stream gets together.
 *
 *    r:schedule(variable [, start, count [, stride [, options]]])     r:perform()
 *
 * Each request has the memory that libstream fills when they are performed.  It belongs to the
 * list of the reader, not to Lua, so that it is there for as long as libstream may write to it:
 * until the requests were performed, or the step has ended.
 *
 * Invariants:
 *  1. A request is in the list if, and only if, libstream knows it, except while its value is given
 *     to Lua.
 *
 * Failure: nil, error message, errno; performing then forgets all requests.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libtransform/tarray_lua.h"
#include "lua_stream.h"

struct lflux_request {
    struct list_node node;
    struct tarray a;
    char data[];
};

static void clear(struct list_node *list)
{
    struct list_node *n;

    while ((n = list_first(list))) {
        list_remove(n);
        free(list_entry(n, struct lflux_request, node));
    }
}

void lflux_requests_init(struct lflux_requests *rs)
{
    list_init(&rs->open);
    list_init(&rs->done);
}

void lflux_requests_clear(struct lflux_requests *rs)
{
    clear(&rs->open);
    clear(&rs->done);
    rs->nopen = 0;
}

/* The number of elements in each dimension.  0, or -1 with E2BIG. */
static int shape(const struct flux_stream_info *in, bool whole, const uint64_t *count,
                 const uint64_t *stride, struct tarray *a)
{
    *a = (struct tarray){.type = stream_elem_by_name(in->type), .ndims = in->ndims};
    for (unsigned d = 0; d < in->ndims; d++) {
        a->count[d] = count ? count[d] : whole ? in->shape[d] : in->count[d];
        if (!whole && stride && stride[d] > 1)
            a->count[d] = (a->count[d] + stride[d] - 1) / stride[d];
    }
    return tarray_finish(a);
}

static int new_room(lua_State *L)
{
    lua_newuserdata(L, *(const size_t *)lua_touserdata(L, 1));
    return 1;
}

void *lflux_stream_room(lua_State *L, size_t *size)
{
    lua_pushcfunction(L, new_room);
    lua_pushlightuserdata(L, size);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
        return lua_touserdata(L, -1);
    *size = 0;
    return NULL;
}

int lflux_schedule(lua_State *L, flux_stream_t *s, struct lflux_requests *rs)
{
    static const char *const options[] = {"rank", NULL};
    const char *var = lflux_check_text(L, 2, "the variable");
    uint64_t start[TARRAY_DIMS], count[TARRAY_DIMS], stride[TARRAY_DIMS];
    uint32_t rank = FLUX_STREAM_ALL;
    struct lflux_request *r;
    struct flux_stream_info in;
    struct flux_stream_box box;
    struct tarray a;
    errmsg_t err;
    size_t size;

    lua_settop(L, 6);
    lflux_check_options(L, 6, options);
    if (lflux_option(L, 6, "rank") != LUA_TNIL)
        rank = (uint32_t)lflux_check_range(L, 7, "the rank", 0, UINT32_MAX - 1);
    if (flux_stream_inquire(s, rank, var, &in, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    if (lua_isnil(L, 3) != lua_isnil(L, 4))
        return luaL_argerror(L, 4, "start and count belong together");
    if (in.format > 0)
        return lflux_fail(L, EOPNOTSUPP, "variable '%s' has records: use get() or read()", var);
    box.start = lflux_stream_dims(L, 3, in.ndims, start);
    box.count = lflux_stream_dims(L, 4, in.ndims, count);
    box.stride = lflux_stream_dims(L, 5, in.ndims, stride);
    if (shape(&in, rank == FLUX_STREAM_ALL, box.count, box.stride, &a) < 0)
        a.elems = 0; /* an empty box, or it is outside of the array */
    size = tarray_size(&a);
    if (!(r = malloc(sizeof(*r) + size))) {
        size = 0; /* for which libstream says what is wrong */
        if (!(r = malloc(sizeof(*r))))
            return lflux_fail(L, ENOMEM, "out of memory for a part of variable '%s'", var);
    }
    r->a = a;
    r->a.data = r->data;
    list_init(&r->node);
    if (flux_stream_schedule(s, var, rank, &box, r->data, size, &err) < 0) {
        free(r);
        return lflux_fail_err(L, errno, &err);
    }
    list_append(&rs->open, &r->node);
    lua_pushinteger(L, ++rs->nopen);
    return 1;
}

int lflux_perform(lua_State *L, flux_stream_t *s, struct lflux_requests *rs)
{
    struct list_node *n;
    errmsg_t err;
    int rc = flux_stream_perform(s, &err);
    int errnum = errno;

    clear(&rs->done);
    while ((n = list_first(&rs->open))) {
        list_remove(n);
        list_append(&rs->done, n);
    }
    rs->nopen = 0;
    if (rc < 0) {
        clear(&rs->done);
        return lflux_fail_err(L, errnum, &err);
    }
    lua_newtable(L);
    for (lua_Integer i = 1; (n = list_first(&rs->done)); i++) {
        lflux_push_elements(L, &list_entry(n, struct lflux_request, node)->a);
        lua_rawseti(L, -2, i);
        list_remove(n);
        free(list_entry(n, struct lflux_request, node));
    }
    return 1;
}
