/* Moving the elements of a part (select.h): from a piece to a box; between hosts, from a piece to
 * writev(2) as runs, and from the packed elements that arrive to the box.
 *
 *    writer: len = part.elems * part.from_elem;
 *            struct stream_runs r = {0};
 *            while ((n = stream_copy_runs(&part, piece, &r, iov, MAX)) > 0)
 *                writev(fd, iov, n);
 *    reader: stream_copy_unpack(&part, buf, box)
 *
 * The runs, one after the other, are the packed elements, which have the order that they have in
 * the piece.  If the type changes, the reader converts the packed elements (elem.h) before it
 * unpacks them; `to_elem` is the size after the conversion.
 *
 * Nothing is checked here: parts come from select.h, and the memory is as large as piece and box.
 * The memory of a piece, of packed elements and of a box must not overlap.
 *
 * Thread rules: any thread.
 */
#ifndef STREAM_COPY_H
#define STREAM_COPY_H

#include <sys/uio.h>

#include "libstream/select.h"

/* From the piece to the box; `from_elem` and `to_elem` are the same. */
void stream_copy(const struct stream_part *part, const void *piece, void *box);
/* From the `elems` packed elements to the box. */
void stream_copy_unpack(const struct stream_part *part, const void *packed, void *box);

/* The length of a contiguous run of bytes in the piece. */
size_t stream_copy_run(const struct stream_part *part);

/* The next runs of the piece, at most `max`; `at` begins as zeros, and keeps the position. Returns
 * their number; 0 after the last one. */
struct stream_runs {
    uint64_t at[STREAM_NDIMS_MAX];
    bool end;
};
size_t stream_copy_runs(const struct stream_part *part, const void *piece, struct stream_runs *at,
                        struct iovec *iov, size_t max);

#endif
