/* Shared by the files of streams in the Lua binding.  Not installed.
 *
 * Thread rules: those of lua_private.h.
 */
#ifndef FLUX_LUA_STREAM_H
#define FLUX_LUA_STREAM_H

#include "libstream/stream.h"
#include "libtransform/tarray.h"
#include "libutil/hmap.h"
#include "lua_private.h"

/* Push elements: one, or a table.  Returns 1. */
int lflux_push_elements(lua_State *L, const struct tarray *a);
/* The numbers of a table at `arg`, one for each dimension, in `out`; NULL without it.  Raises an
 * error. */
uint64_t *lflux_stream_dims(lua_State *L, int arg, unsigned ndims, uint64_t *out);

/* Call a function of libstream for the writer at 1, in a frame, with what belongs to it.  What was
 * put is forgotten if this `ends` the step.  Returns what the method returns: true if the function
 * returns 0, false if 1, or an error. */
typedef int (*lflux_writer_call)(flux_stream_t *s, const char *text, double timeout, errmsg_t *err);
int lflux_writer_run(lua_State *L, lflux_writer_call call, const char *text, double timeout,
                     bool ends);

/* --- lua_stream_put.c --- */

/* What a stream keeps; it is zeroed at first. */
struct lflux_kept {
    struct lflux_value *values; /* that were put, until their step ends */
    hmap_t *formats;            /* of records, by their text; NULL: none */
};
void lflux_kept_forget(struct lflux_kept *k); /* the step has ended */
void lflux_kept_clear(struct lflux_kept *k);  /* and so has the stream */
/* The format of this host that a text describes.  NULL with errno and an error message. */
const stream_format_t *lflux_kept_format(struct lflux_kept *k, const char *text, errmsg_t *err);
/* The method, with the writer at 1, whose stream has this name. */
int lflux_put(lua_State *L, flux_stream_t *s, struct lflux_kept *k, const char *name);

/* --- lua_stream_write.c --- */

int lflux_writer_end_step(lua_State *L);
int lflux_writer_end_step_later(lua_State *L);
int lflux_writer_wait_step(lua_State *L);
int lflux_writer_drop_step(lua_State *L);
int lflux_writer_drain(lua_State *L);
int lflux_writer_define(lua_State *L);
int lflux_stream_rank(lua_State *L); /* with the handle at 1 */

/* --- lua_stream_attr.c --- */

/* The methods, with the writer or the reader at 1. */
int lflux_set_attribute(lua_State *L, flux_stream_t *s);
int lflux_attribute(lua_State *L, flux_stream_t *s);

/* --- lua_stream_mine.c --- */

/* The method, with the reader at 1. */
int lflux_mine(lua_State *L, flux_stream_t *s);

/* --- lua_stream_schedule.c --- */

/* Push memory for a part of an array.  If there is none as large: NULL, and *size is 0, for which
 * libstream says what is wrong. */
void *lflux_stream_room(lua_State *L, size_t *size);
/* What a reader has requested. */
struct lflux_requests {
    struct list_node open;
    lua_Integer nopen;
    struct list_node done; /* performed, and being given to Lua */
};
void lflux_requests_init(struct lflux_requests *rs);
/* The step, or the stream, has ended. */
void lflux_requests_clear(struct lflux_requests *rs);
/* The methods, with the reader at 1. */
int lflux_schedule(lua_State *L, flux_stream_t *s, struct lflux_requests *rs);
int lflux_perform(lua_State *L, flux_stream_t *s, struct lflux_requests *rs);

#endif
