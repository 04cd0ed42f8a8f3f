/* Selections: which bytes of which pieces make up a box of a global array.
 *
 * A reader requests a box: in each dimension a first element, a number of elements and a stride.  A
 * selection lists, for each piece that contains elements of the box, a *part*: a set of elements at
 * regular distances both in the piece and in the reader's memory.
 *
 *    sel = stream_select_create(array, &box, &want, &err);
 *    for (i = 0; i < stream_select_count(sel); i++) { part = stream_select_part(sel, i);
 *        stream_copy(part, memory of piece part->piece, memory of the box);
 *    }
 *
 * Two processes that both know the array and the box compute the same part of a piece, with
 * stream_select_piece(): so a writer sends a reader on another host only the elements of the box,
 * in their order in the piece, packed or in runs (copy.h).
 *
 * Thread rules: any thread; a selection is constant.
 */
#ifndef STREAM_SELECT_H
#define STREAM_SELECT_H

#include "libstream/array.h"

struct stream_box {
    unsigned ndims;
    uint64_t start[STREAM_NDIMS_MAX];
    uint64_t count[STREAM_NDIMS_MAX];  /* elements of the box; may be 0 */
    uint64_t stride[STREAM_NDIMS_MAX]; /* 1: all elements from the first one on */
};

/* Is the box inside the array, which must be global?  -1 with an error message and EINVAL (other
 * dimensions, a stride of 0), ERANGE (outside) or E2BIG (too large). */
int stream_select_check(const struct stream_shape *shape, const struct stream_box *box,
                        errmsg_t *err);
/* Encode a box: 24 bytes for each dimension.  Decoding checks the box: -1 with EPROTO. */
void stream_select_encode(const struct stream_box *box, uint8_t *buf);
int stream_select_decode(const struct stream_shape *shape, const void *data, size_t len,
                         struct stream_box *box, errmsg_t *err);

/* The layout of the box in the reader's memory, which has no gaps. */
struct stream_want {
    enum stream_memory memory; /* 0: the order of the array */
    size_t elem;               /* bytes of an element, after a conversion; 0: as in the array */
};

/* Elements, as nested loops: the last dimension is the innermost loop, and the fastest one of the
 * piece.  Dimensions that form one regular run on both sides are merged. */
struct stream_part {
    size_t piece; /* its number */
    uint32_t rank;
    uint64_t elems;
    size_t from_elem, to_elem; /* bytes of an element */
    size_t from, to;           /* of the first element: offsets in bytes */
    unsigned ndims;            /* at least 1 */
    struct {
        uint64_t n;
        size_t from, to; /* from one to the next, in bytes */
    } dims[STREAM_NDIMS_MAX];
};

typedef struct stream_select stream_select_t;

/* Create a selection from a sealed array.  NULL with the errors of stream_select_check(), or
 * ENOMEM. */
stream_select_t *stream_select_create(const stream_array_t *a, const struct stream_box *box,
                                      const struct stream_want *want, errmsg_t *err);
void stream_select_destroy(stream_select_t *sel); /* NULL-safe, keeps errno */
/* The number of parts; they are in the order of their pieces. */
size_t stream_select_count(const stream_select_t *sel);
const struct stream_part *stream_select_part(const stream_select_t *sel, size_t i);
/* The number of elements of the box, and of those that are in no piece. */
uint64_t stream_select_elems(const stream_select_t *sel);
uint64_t stream_select_missing(const stream_select_t *sel);

/* The part of one piece, for a checked box.  False if the piece has no element of the box. */
bool stream_select_piece(const stream_array_t *a, size_t piece, const struct stream_box *box,
                         const struct stream_want *want, struct stream_part *part);

#endif
