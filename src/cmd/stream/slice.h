/* Slices of arrays, as text: "0:10,:" are the first ten rows, all columns.
 *
 * Thread rules: one thread.
 */
#ifndef CMD_STREAM_SLICE_H
#define CMD_STREAM_SLICE_H

#include <jansson.h>

#include "libstream/stream.h"

struct slice {
    uint64_t start[FLUX_STREAM_DIMS_MAX];
    uint64_t count[FLUX_STREAM_DIMS_MAX];
    uint64_t stride[FLUX_STREAM_DIMS_MAX];
    uint64_t elems; /* of all dimensions */
};

/* For each dimension, separated by commas: I (one element), or FROM:TO or FROM:TO:STRIDE, where
 * FROM is 0 and TO the end when they are left out; what is beyond TO is not meant.  Dimensions at
 * the end may be left out: all of them.  0, or -1 with EINVAL (malformed, or too many dimensions)
 * or ERANGE (outside of the array), and an error message. */
int slice_parse(struct slice *sl, const char *text, const struct flux_stream_info *info,
                errmsg_t *err);

/* An element of a type as JSON: a number, true or false, or an array of two numbers of a complex
 * one; null for what is not a finite number.  NULL without memory. */
json_t *slice_element(const char *type, const void *at);

#endif
