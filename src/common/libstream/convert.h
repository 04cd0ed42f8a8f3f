/* Reading records of typed streams: a check, and the conversion to the reader's format.
 *
 * The rules of conversion are in doc/stream-format.rst.  The conversion between two formats is
 * planned once; then records are copied as wholes if their layouts agree, else field by field, and
 * each array by one loop.
 *
 *    c = stream_convert_create(writers_format, head.order, my_format, &err);
 *    if (stream_convert_in_place(c))
 *        stream_convert_check(c, head.body, head.len, &need, &err);   then use head.body
 *    else
 *        rec = stream_convert(c, head.body, head.len, 1 << 20, 0, &err);   free(rec)
 *
 * Bodies may be in memory that others write to at the same time: then values may be wrong, but
 * lengths, pointers and strings of a result are sound.
 *
 * Thread rules: any thread; a conversion is constant, and may be used by several.
 */
#ifndef STREAM_CONVERT_H
#define STREAM_CONVERT_H

#include "libstream/encode.h"

typedef struct stream_convert stream_convert_t;

/* Plan the conversion from a writer's format and byte order to a format of this host.  Keeps
 * references to both.  NULL with ENOMEM, or EINVAL and an error message (a field that cannot be
 * converted without loss, or a format of another host). */
stream_convert_t *stream_convert_create(const stream_format_t *from, enum stream_order order,
                                        const stream_format_t *to, errmsg_t *err);
void stream_convert_destroy(stream_convert_t *c); /* NULL-safe, keeps errno */

/* Is a body already the reader's struct?  True if layouts and byte orders agree, and there are no
 * pointers. */
bool stream_convert_in_place(const stream_convert_t *c);

/* Check a whole body of `len` bytes, which is aligned to 8.  *need: number of bytes of the result.
 * -1 with EPROTO (not a body of the writer's format; the error message names the field), or E2BIG
 * (too deep). */
int stream_convert_check(const stream_convert_t *c, const void *body, size_t len, size_t *need,
                         errmsg_t *err);

enum stream_convert_flags {
    /* Arrays of numbers that need no conversion stay in the body; the result points to them, so the
     * body has to live as long as the result.  Sizes, strings and records are always copied. */
    STREAM_BORROW = 1,
};

/* Check and convert: returns the reader's struct, followed in the same allocation, which the caller
 * frees, by the data that it points to.  NULL with the errors above, EMSGSIZE if the result had
 * more than `budget` bytes, or ENOMEM. */
void *stream_convert(const stream_convert_t *c, const void *body, size_t len, size_t budget,
                     unsigned flags, errmsg_t *err);
/* The same into memory of the caller, aligned to 8, of `space` bytes, as determined by
 * stream_convert_check() (with STREAM_BORROW, less is needed).  -1 with the errors above; the
 * content of the memory is then undefined. */
int stream_convert_into(const stream_convert_t *c, const void *body, size_t len, void *out,
                        size_t space, unsigned flags, errmsg_t *err);

/* The same for the value of a variable of a stream: a body that begins with the fixed parts of `n`
 * records.  The results are `n` structs, one after the other, followed by what they point to. */
int stream_convert_array_check(const stream_convert_t *c, uint64_t n, const void *body, size_t len,
                               size_t *need, errmsg_t *err);
void *stream_convert_array(const stream_convert_t *c, uint64_t n, const void *body, size_t len,
                           size_t budget, unsigned flags, errmsg_t *err);
int stream_convert_array_into(const stream_convert_t *c, uint64_t n, const void *body, size_t len,
                              void *out, size_t space, unsigned flags, errmsg_t *err);

#endif
