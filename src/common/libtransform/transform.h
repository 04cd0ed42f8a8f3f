/* Transforms of streams: run the functions of shared objects and Lua files on steps.
 *
 *    transform_t *t = transform_create(&err);
 *    transform_add(t, "/path/narrow.so:2", &err);          each gets the result of the preceding
 *                                                          one
 *    while (...) {                                         in[]: readers that have begun a step
 *        rc = transform_step(t, in, ninputs, number, out, &err);
 *        if (rc == 1)
 *            flux_stream_end_step(out, -1., &err);         before the inputs end theirs
 *    }
 *    transform_destroy(t);
 *
 * Thread rules: one thread per object.
 */
#ifndef TRANSFORM_TRANSFORM_H
#define TRANSFORM_TRANSFORM_H

#include "libstream/stream.h"

typedef struct transform transform_t;

transform_t *transform_create(errmsg_t *err); /* empty; NULL with ENOMEM */
void transform_destroy(transform_t *t);       /* NULL-safe, keeps errno */

/* Load a shared object, PATH[:ARGUMENT], which must be trusted (filetrust.h), at the end of the
 * chain.  0, or -1 with an error message. */
int transform_add(transform_t *t, const char *spec, errmsg_t *err);
/* The same for a file in Lua, which need not be trusted: transform_lua.c. */
int transform_add_lua(transform_t *t, const char *path, errmsg_t *err);

/* Compute a step of `out` from a step of each input, without ending it.  1; 0: there is none; -1
 * with an error message that names the file and the place. */
int transform_step(transform_t *t, flux_stream_t *const *in, unsigned ninputs, uint64_t number,
                   flux_stream_t *out, errmsg_t *err);

#endif
