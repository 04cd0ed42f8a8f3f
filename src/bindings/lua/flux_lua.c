/* flux_lua.c - the module `flux` for Lua 5.3: local flux = require "flux".
 *
 *    flux.open([uri [, reactor]])    a handle (lua_handle.c)
 *    flux.reactor([options])         an event loop (lua_reactor.c)
 *    flux.json  flux.null  flux.array   (lua_json.c)
 *    flux.version                    text
 *    flux.errno                      name -> number, number -> name
 *    flux.strerror(errno)            text
 *
 * The manual is doc/man3/flux-lua.rst.
 *
 * The module contains the parts of libflux that it needs, and exports luaopen_flux only; the
 * interpreter provides the symbols of Lua.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "lua_private.h"

/* Called by the interpreter, which looks it up by name. */
int luaopen_flux(lua_State *L);

static const struct {
    const char *name;
    int number;
} errnos[] = {
    {"EPERM", EPERM},
    {"ENOENT", ENOENT},
    {"EINTR", EINTR},
    {"EIO", EIO},
    {"E2BIG", E2BIG},
    {"EBADF", EBADF},
    {"EAGAIN", EAGAIN},
    {"ENOMEM", ENOMEM},
    {"EACCES", EACCES},
    {"EBUSY", EBUSY},
    {"EEXIST", EEXIST},
    {"ENOTDIR", ENOTDIR},
    {"EISDIR", EISDIR},
    {"EINVAL", EINVAL},
    {"EFBIG", EFBIG},
    {"ENOSPC", ENOSPC},
    {"EPIPE", EPIPE},
    {"ERANGE", ERANGE},
    {"EDEADLK", EDEADLK},
    {"ENAMETOOLONG", ENAMETOOLONG},
    {"ENOSYS", ENOSYS},
    {"ENOTEMPTY", ENOTEMPTY},
    {"ELOOP", ELOOP},
    {"ENODATA", ENODATA},
    {"EPROTO", EPROTO},
    {"EMSGSIZE", EMSGSIZE},
    {"ENOTSUP", ENOTSUP},
    {"ENOBUFS", ENOBUFS},
    {"ECONNABORTED", ECONNABORTED},
    {"ECONNRESET", ECONNRESET},
    {"ECONNREFUSED", ECONNREFUSED},
    {"ETIMEDOUT", ETIMEDOUT},
    {"EHOSTUNREACH", EHOSTUNREACH},
    {"ECANCELED", ECANCELED},
    {"ESTALE", ESTALE},
    {"EOVERFLOW", EOVERFLOW},
};

static int strerror_lua(lua_State *L)
{
    lua_pushstring(L, strerror((int)lflux_check_range(L, 1, "an error number", 0, 4095)));
    return 1;
}

static const luaL_Reg functions[] = {
    {"open", lflux_open},
    {"reactor", lflux_reactor_new},
    {"strerror", strerror_lua},
    {NULL, NULL},
};

int luaopen_flux(lua_State *L)
{
    luaL_checkversion(L);
    lflux_reactor_register(L);
    lflux_watcher_register(L);
    lflux_handle_register(L);
    lflux_future_register(L);
    lflux_event_register(L);
    lflux_kvs_register(L);
    lflux_stream_register(L);
    luaL_newlib(L, functions);
    lflux_json_register(L);
    lua_pushliteral(L, PACKAGE_VERSION);
    lua_setfield(L, -2, "version");
    lua_newtable(L);
    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
        lua_pushinteger(L, errnos[i].number);
        lua_setfield(L, -2, errnos[i].name);
        lua_pushstring(L, errnos[i].name);
        lua_rawseti(L, -2, errnos[i].number);
    }
    lua_setfield(L, -2, "errno");
    return 1;
}
