/* Variables of a step: values, local arrays, and global arrays of which each writer has pieces.
 *
 * The bytes of a description are documented in doc/stream-format.rst.  select.h determines which
 * bytes of which pieces make up a box of a global array.
 *
 *    const struct stream_shape shape = {.name = "T", .kind = STREAM_GLOBAL, .type = STREAM_F64,
 *        .order = STREAM_NATIVE, .memory = STREAM_ROWS, .ndims = 2, .extents = {4, 6}};
 *    a = stream_array_create(&shape, &err);
 *    stream_array_add(a, 0, (uint64_t[]){0, 0}, (uint64_t[]){2, 6}, &err);
 *    stream_array_add(a, 1, (uint64_t[]){2, 0}, (uint64_t[]){2, 6}, &err);
 *    stream_array_seal(a, &err);
 *
 * Offsets and counts are in elements, sizes of memory in bytes.
 *
 * Thread rules: one thread until the array is sealed; then it is constant, for any thread.
 */
#ifndef STREAM_ARRAY_H
#define STREAM_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libstream/elem.h"
#include "libutil/errmsg.h"

#define STREAM_NDIMS_MAX 16
#define STREAM_PIECES_MAX 65536
#define STREAM_VARIABLE_MAX 255 /* bytes of a name */

enum stream_kind {
    STREAM_VALUE = 1, /* one element of each writer */
    STREAM_LOCAL = 2, /* one array of each writer */
    STREAM_GLOBAL = 3 /* pieces of one array */
};

enum stream_memory {
    STREAM_ROWS = 1,   /* the last dimension is the fastest, as in C */
    STREAM_COLUMNS = 2 /* the first one is, as in Fortran */
};

struct stream_shape {
    const char *name;
    enum stream_kind kind;
    enum stream_type type; /* not STRING: strings travel in records */
    enum stream_order order;
    enum stream_memory memory;
    uint64_t id;                        /* RECORD: of its format; else 0 */
    size_t elem;                        /* bytes of an element; may be 0 unless RECORD */
    unsigned ndims;                     /* 0 for a value */
    uint64_t extents[STREAM_NDIMS_MAX]; /* of a global array only */
};

struct stream_piece {
    uint32_t rank;          /* of the writer */
    const uint64_t *offset; /* of a global array; else NULL */
    const uint64_t *count;
    uint64_t elems; /* the product of `count`, 1 for a value */
};

typedef struct stream_array stream_array_t;

/* A variable without pieces.  The name is copied.  NULL with EINVAL and an error message, E2BIG (an
 * array whose size in bytes is not a number of 62 bits), or ENOMEM. */
stream_array_t *stream_array_create(const struct stream_shape *shape, errmsg_t *err);
void stream_array_destroy(stream_array_t *a); /* NULL-safe, keeps errno */

/* Add a piece, described by `ndims` numbers in each array; `offset` is for global arrays only.  -1
 * with an error message and EINVAL (not inside the array, or without elements), E2BIG or ENOMEM. */
int stream_array_add(stream_array_t *a, uint32_t rank, const uint64_t *offset,
                     const uint64_t *count, errmsg_t *err);
/* Seal the array, after all pieces have been added.  -1 with EINVAL and an error message (pieces
 * overlap, or a writer has two pieces of a variable that permits one), E2BIG (too many pieces side
 * by side) or ENOMEM. */
int stream_array_seal(stream_array_t *a, errmsg_t *err);

const struct stream_shape *stream_array_shape(const stream_array_t *a);
size_t stream_array_count(const stream_array_t *a); /* pieces */
/* Piece number `i`, in the order in which they were added. */
struct stream_piece stream_array_piece(const stream_array_t *a, size_t i);

/* Call `fn` for each piece of a sealed array that may have elements from `low` to `high` (both
 * included), in any order; stops when `fn` returns a value other than 0, and returns that. */
typedef int (*stream_array_f)(size_t piece, void *arg);
int stream_array_visit(const stream_array_t *a, const uint64_t *low, const uint64_t *high,
                       stream_array_f fn, void *arg);

/* Encode a sealed array: the number of bytes, and the bytes. */
size_t stream_array_encoded(const stream_array_t *a);
void stream_array_encode(const stream_array_t *a, void *buf);
/* Decode a sealed array.  NULL with EPROTO and an error message, or ENOMEM; the memory is
 * proportional to `len`. */
stream_array_t *stream_array_decode(const void *data, size_t len, errmsg_t *err);

#endif
