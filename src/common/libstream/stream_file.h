/* Record the steps that a reader has begun (flux_stream_open_file() reads the recording).
 *
 *    w = tape_write_open(path, name, flux_stream_writers(s), false, err);
 *    while (flux_stream_begin_step(s, ...) == 1) {
 *        stream_file_record(s, w, err);
 *        flux_stream_end_step(s, ...);
 *    }
 *    tape_write_end(w, err);
 *
 * Thread rules: that of the stream.
 */
#ifndef STREAM_FILE_H
#define STREAM_FILE_H

#include "libstream/stream.h"
#include "libstream/tape_write.h"

/* Write the step, with the present time.  0, or -1 with an error message and the errors of
 * flux_stream_get() and tape_write_step(). */
int stream_file_record(flux_stream_t *s, tape_write_t *w, errmsg_t *err);

#endif
