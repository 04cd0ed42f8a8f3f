/* The elements of a part (select.h) moved: from a piece to a box, packed for the way between hosts,
 * and as runs for writev(2).
 *
 *    writer: len = part.elems * part.from_elem;
 *            stream_copy_pack(&part, piece, buf)           or, without a copy:
 *            struct stream_runs r = {0};
 *            while ((n = stream_copy_runs(&part, piece, &r, iov, MAX)) > 0)
 *                writev(fd, iov, n);
 *    reader: stream_copy_unpack(&part, buf, box)
 *
 * What is packed has the elements in the order in which they are in the piece.  A reader that
 * converts, converts what is packed (elem.h) before it unpacks it; `to_elem` is the size of the
 * result.
 *
 * Nothing is checked here: parts come from select.h, and the memory is as large as piece and box.
 * Memory of a piece, of what is packed and of a box do not overlap.
 *
 * Thread rules: any thread.
 */
#ifndef STREAM_COPY_H
#define STREAM_COPY_H

#include <sys/uio.h>

#include "libstream/select.h"

/* From the piece to the box; `from_elem` and `to_elem` are the same. */
void stream_copy(const struct stream_part *part, const void *piece, void *box);
/* From the piece to `elems` elements without gaps, and from there to the box. */
void stream_copy_pack(const struct stream_part *part, const void *piece, void *packed);
void stream_copy_unpack(const struct stream_part *part, const void *packed, void *box);

/* Bytes that lie together in the piece, and how many times there are such bytes: many short runs
 * are better packed. */
size_t stream_copy_run(const struct stream_part *part);
uint64_t stream_copy_count(const struct stream_part *part);

/* The next runs of the piece, at most `max`; `at` begins as zeros, and says where to go on.
 * Returns how many; 0 after the last one. */
struct stream_runs {
    uint64_t at[STREAM_NDIMS_MAX];
    bool end;
};
size_t stream_copy_runs(const struct stream_part *part, const void *piece, struct stream_runs *at,
                        struct iovec *iov, size_t max);

#endif
