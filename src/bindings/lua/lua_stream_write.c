/* lua_stream_write.c - what a writer of a stream does with a whole step, and for its readers.
 *
 *    w:end_step([timeout])     w:end_step_later()        w:wait_step([timeout])
 *    w:drop_step()             w:drain([timeout])        w:define(text)
 *    h:stream_rank()
 *
 * All but the last are calls of libstream that may wait for the broker, and are made by
 * lflux_writer_run(), in a frame (lua_stream.c).  There is no counterpart of flux_stream_place():
 * values of Lua have to be converted, element by element, and are written once, into memory of the
 * binding.
 *
 * Failure: nil, error message, errno.
 */
#include "config.h"
#include <errno.h>

#include "lua_stream.h"

static int call_end(flux_stream_t *s, const char *text, double timeout, errmsg_t *err)
{
    return flux_stream_end_step(s, timeout, err);
}

int lflux_writer_end_step(lua_State *L)
{
    return lflux_writer_run(L, call_end, NULL, lflux_check_timeout(L, 2), true);
}

static int call_later(flux_stream_t *s, const char *text, double timeout, errmsg_t *err)
{
    int rc = flux_stream_end_step_async(s, err);

    return rc < 0 ? -1 : rc == 0; /* 1: it is pending, which is false in Lua */
}

int lflux_writer_end_step_later(lua_State *L)
{
    return lflux_writer_run(L, call_later, NULL, 0., true);
}

static int call_wait(flux_stream_t *s, const char *text, double timeout, errmsg_t *err)
{
    return flux_stream_wait_step(s, timeout, err);
}

int lflux_writer_wait_step(lua_State *L)
{
    return lflux_writer_run(L, call_wait, NULL, lflux_check_timeout(L, 2), false);
}

static int call_drop(flux_stream_t *s, const char *text, double timeout, errmsg_t *err)
{
    return flux_stream_drop_step(s, err);
}

int lflux_writer_drop_step(lua_State *L)
{
    return lflux_writer_run(L, call_drop, NULL, 0., true);
}

static int call_drain(flux_stream_t *s, const char *text, double timeout, errmsg_t *err)
{
    return flux_stream_drain(s, timeout, err);
}

int lflux_writer_drain(lua_State *L)
{
    return lflux_writer_run(L, call_drain, NULL, lflux_check_timeout(L, 2), false);
}

static int call_define(flux_stream_t *s, const char *text, double timeout, errmsg_t *err)
{
    return flux_stream_define(s, text, err);
}

int lflux_writer_define(lua_State *L)
{
    return lflux_writer_run(L, call_define, lflux_check_text(L, 2, "the text"), 0., false);
}

int lflux_stream_rank(lua_State *L)
{
    uint32_t rank, size;
    errmsg_t err;

    lflux_check_handle(L, 1);
    if (flux_stream_rank(&rank, &size, &err) < 0)
        return lflux_fail_err(L, errno, &err);
    lua_pushinteger(L, rank);
    lua_pushinteger(L, size);
    return 2;
}
