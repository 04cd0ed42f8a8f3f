/* lua_stream_attr.c - attributes of streams and their variables.
 *
 *    w:set_attribute(name, value [, variable])     r:attribute(name [, variable [, rank]])
 *
 * A text goes by the functions of libstream.  Numbers, which programs in other languages, or
 * w:put(), have put, are read as the variable that has them (libstream/stream_attr.c).
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "lua_stream.h"

static const char *variable_at(lua_State *L, int arg)
{
    return lua_isnoneornil(L, arg) ? NULL : lflux_check_text(L, arg, "the variable");
}

int lflux_set_attribute(lua_State *L, flux_stream_t *s)
{
    const char *name = lflux_check_text(L, 2, "the name");
    const char *value = lflux_check_text(L, 3, "the value");
    errmsg_t err;

    if (flux_stream_put_attr(s, variable_at(L, 4), name, value, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    return lflux_true(L);
}

/* Push the value of an attribute that is not a text.  false: this writer has none, or of another
 * type. */
static bool push_numbers(lua_State *L, flux_stream_t *s, uint32_t writer, const char *key)
{
    struct flux_stream_info in;
    struct tarray a = {0};
    size_t len;

    if (flux_stream_inquire(s, writer, key, &in, NULL) < 0 || in.format > 0 ||
        flux_stream_get(s, writer, key, &a.data, &len, NULL) < 0)
        return false;
    a.type = stream_elem_by_name(in.type);
    a.ndims = in.ndims;
    memcpy(a.count, in.count, sizeof(a.count));
    if (tarray_finish(&a) < 0 || tarray_size(&a) != len)
        return false;
    lflux_push_elements(L, &a);
    return true;
}

int lflux_attribute(lua_State *L, flux_stream_t *s)
{
    const char *name = lflux_check_text(L, 2, "the name");
    const char *var = variable_at(L, 3);
    uint32_t rank = FLUX_STREAM_ALL;
    const char *value;
    errmsg_t err;
    size_t len;

    if (!lua_isnoneornil(L, 4))
        rank = (uint32_t)lflux_check_range(L, 4, "the rank", 0, UINT32_MAX - 1);
    if (flux_stream_attr(s, rank, var, name, &value, &len, &err) == 0) {
        lua_pushlstring(L, value, len);
        return 1;
    }
    if (errno == EINVAL) {
        uint32_t last = rank == FLUX_STREAM_ALL ? flux_stream_writers(s) : rank + 1;
        const char *key =
            var ? lua_pushfstring(L, "@%s/%s", var, name) : lua_pushfstring(L, "@%s", name);

        for (uint32_t w = rank == FLUX_STREAM_ALL ? 0 : rank; w < last; w++) {
            if (push_numbers(L, s, w, key))
                return 1;
        }
        errno = EINVAL;
    }
    return lflux_fail_err(L, errno, &err);
}
