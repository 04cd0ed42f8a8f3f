/* lua_stream_mine.c - which records a reader of a stream has to do.
 *
 *    r:mine(variable [, rank])     a table of ranges {first, last}, whose indices begin with 1
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>

#include "lua_stream.h"

int lflux_mine(lua_State *L, flux_stream_t *s)
{
    const char *var = lflux_check_text(L, 2, "the variable");
    const struct flux_stream_range *own;
    uint32_t rank = 0;
    errmsg_t err;
    size_t n;

    if (!lua_isnoneornil(L, 3))
        rank = (uint32_t)lflux_check_range(L, 3, "the rank", 0, UINT32_MAX - 1);
    if (flux_stream_mine(s, rank, var, &own, &n, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_newtable(L);
    for (size_t i = 0; i < n; i++) {
        lua_createtable(L, 2, 0);
        lua_pushinteger(L, (lua_Integer)own[i].start + 1);
        lua_rawseti(L, -2, 1);
        lua_pushinteger(L, (lua_Integer)(own[i].start + own[i].count));
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}
