/* Chains of transforms: run the functions of shared objects and Lua files on steps.
 *
 *    stream_chain_t *t = stream_chain_parse("/path/narrow.so:2 | /path/hot.lua", &err);
 *    while (...) {                              each gets the result of the preceding one
 *        rc = stream_chain_run(t, in, ninputs, number, &err);
 *        for (i = 0; rc == 1 && (a = stream_chain_made(t, i, &name)); i++)
 *            a variable of the result
 *        stream_chain_keeps(t, var)                        and does it have this one of in[0]?
 *    }
 *    stream_chain_destroy(t);
 *
 * Thread rules: one thread per object.
 */
#ifndef STREAM_CHAIN_H
#define STREAM_CHAIN_H

#include "libstream/stream.h"
#include "libstream/stream_transform.h"

typedef struct stream_chain stream_chain_t;

/* A step for the first transform of a chain.  What the functions return is valid until the step
 * ends. */
struct stream_chain_input {
    const struct stream_chain_ops *ops;
    void *arg;
};
struct stream_chain_ops {
    /* The name of the i-th variable; NULL beyond the last one. */
    const char *(*name)(void *arg, size_t i);
    bool (*has)(void *arg, const char *var);
    /* As in struct flux_transform_step, with an error message.  *own, NULL before, is memory that
     * the chain frees before its next step.  `want`: the format that records should have, which
     * need not be heeded; NULL: that of their writer, laid out for this host. */
    int (*get)(void *arg, const char *var, uint32_t rank, const stream_format_t *want,
               struct flux_transform_array *out, void **own, errmsg_t *err);
};
/* The step that a reader has begun. */
struct stream_chain_input stream_chain_reader(flux_stream_t *s);

stream_chain_t *stream_chain_create(errmsg_t *err); /* empty; NULL with ENOMEM */
void stream_chain_destroy(stream_chain_t *t);       /* NULL-safe, keeps errno */

/* Load a shared object, PATH[:ARGUMENT], which must be trusted (filetrust.h), at the end of the
 * chain.  0, or -1 with an error message. */
int stream_chain_add(stream_chain_t *t, const char *spec, errmsg_t *err);
/* The same for a file in Lua, which need not be trusted: libtransform/transform_lua.c. */
int stream_chain_add_lua(stream_chain_t *t, const char *path, errmsg_t *err);
/* The chain of a text: transforms separated by '|', of which those whose names end with ".lua" are
 * files in Lua, and the others shared objects.  NULL with EINVAL or other errors of loading, and an
 * error message. */
stream_chain_t *stream_chain_parse(const char *text, errmsg_t *err);

/* Compute a step.  1; 0: a transform has dropped it; -1 with an error message that names the file
 * and the place, and ECONNRESET (an input has had no value, since its writer has ended), EINVAL or
 * ENOMEM.  The result is valid until the next call, or the end of the inputs' steps. */
int stream_chain_run(stream_chain_t *t, const struct stream_chain_input *in, unsigned ninputs,
                     uint64_t number, errmsg_t *err);
/* The i-th variable that the result has and in[0] has not, or has with another value: NULL beyond
 * the last one. */
const struct flux_transform_array *stream_chain_made(const stream_chain_t *t, size_t i,
                                                     const char **name);
/* The format of records in an array of the chain, or of an input: valid until the next step.  NULL
 * with an error message. */
const stream_format_t *stream_chain_format(stream_chain_t *t, const struct flux_transform_array *a,
                                           errmsg_t *err);
/* Does the result have this variable of in[0] as it is? */
bool stream_chain_keeps(const stream_chain_t *t, const char *var);

#endif
