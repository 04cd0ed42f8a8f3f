/* Structs of records from one format of this host to another, for transforms: formats are parsed,
 * and conversions planned, once.
 *
 *    to = recast_format(r, "record place\nfield id u64\nfield x f64\n", &err);
 *    recast_structs(r, from, to, structs, n, &out, &own, &err);
 *    free(own);
 *
 * Thread rules: one thread per object.
 */
#ifndef STREAM_RECAST_H
#define STREAM_RECAST_H

#include "libstream/format.h"

typedef struct recast recast_t;

recast_t *recast_create(void);    /* NULL with ENOMEM */
void recast_destroy(recast_t *r); /* NULL-safe, keeps errno */
/* Formats that recast_format() has returned are not in use any more: some may be forgotten. */
void recast_renew(recast_t *r);
/* The format with this text, for structs of this host (stream_format_sketch()): it belongs to `r`.
 * NULL with an error message and EINVAL, E2BIG (there are too many) or ENOMEM. */
const stream_format_t *recast_format(recast_t *r, const char *text, errmsg_t *err);
/* Convert `n` structs by the names of their fields, as readers do (convert.h).  *out: the structs
 * themselves if the formats are equal, and *own is NULL; else they are in memory that the caller
 * frees, *own.  0, or -1 with the errors of stream_encode_array() and stream_convert_array(), and
 * an error message. */
int recast_structs(recast_t *r, const stream_format_t *from, const stream_format_t *to,
                   const void *structs, uint64_t n, const void **out, void **own, errmsg_t *err);
/* The bytes of `n` structs as the value of a variable (encode.h): the structs themselves if they
 * have no pointers, and *own is NULL; else memory that the caller frees, *own. */
int recast_body(const stream_format_t *f, const void *structs, uint64_t n, const void **body,
                size_t *len, void **own, errmsg_t *err);

#endif
