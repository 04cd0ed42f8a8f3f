/* Encoding records of typed streams: their header, and the writer's functions.
 *
 * A record in a stream is the C struct as it is in the writer's memory, followed by the data that
 * it points to, with offsets in place of pointers; doc/stream-format.rst describes it byte by byte.
 * A struct without pointers is its own encoding: a writer can build it in shared memory.
 *
 *    if (stream_encode_size(f, &rec, &len, &err) == 0 && (buf = space for len bytes))
 *        rc = stream_encode(f, &rec, buf, len, &len, &err);
 *
 *    stream_encode_open(buf, len, &head, &err);      the reader's side; convert.h goes on
 *
 * Thread rules: any thread; a struct must not be changed while it is being encoded.
 */
#ifndef STREAM_ENCODE_H
#define STREAM_ENCODE_H

#include "libstream/format.h"

#define STREAM_HEADER 24       /* bytes before the body */
#define STREAM_VALUE_DEPTH 256 /* maximum depth of records in one record */

/* --- writing --- */

/* The size of the encoded struct `rec`, header included.  -1 with EINVAL and an error message that
 * names the field (a NULL pointer where none is allowed, a negative size, a struct that two
 * pointers point to, a format of another host), E2BIG (too deep, or too large) or ENOMEM. */
int stream_encode_size(const stream_format_t *f, const void *rec, size_t *len, errmsg_t *err);
/* Write header and body to `buf`, which has `space` bytes and is aligned to 8; *len is their size.
 * -1 with the errors above, or ENOBUFS. */
int stream_encode(const stream_format_t *f, const void *rec, void *buf, size_t space, size_t *len,
                  errmsg_t *err);
/* Write only the header of a record; its body, of `len` bytes and in this host's byte order,
 * follows it.  Returns the place of the body. */
void *stream_encode_header(const stream_format_t *f, void *buf, size_t len);

/* The same for `n` structs, one after the other, as the value of a variable of a stream: a body
 * without a header, which begins with the fixed parts of all of them. */
int stream_encode_array_size(const stream_format_t *f, const void *recs, uint64_t n, size_t *len,
                             errmsg_t *err);
int stream_encode_array(const stream_format_t *f, const void *recs, uint64_t n, void *buf,
                        size_t space, size_t *len, errmsg_t *err);

/* --- reading --- */

struct stream_header {
    uint64_t id;             /* of the writer's format */
    enum stream_order order; /* of the body */
    size_t pointer;          /* 4 or 8 */
    const void *body;        /* in the buffer */
    size_t len;              /* of the body */
};

/* Parse a header; `data` is exactly one record.  -1 with EPROTO and an error message. */
int stream_encode_open(const void *data, size_t len, struct stream_header *head, errmsg_t *err);

#endif
