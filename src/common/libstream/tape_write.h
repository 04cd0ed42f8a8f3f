/* Writing a recording: see tape.h.
 *
 *    tape_write_t *w = tape_write_open("heat.rec", "heat", writers, false, err);
 *    tape_write_step(w, number, time, blocks, err);            for each step
 *    tape_write_end(w, err);
 *    tape_write_destroy(w);
 *
 * However this process ends, the steps whose tape_write_step() has returned are in the file.
 *
 * Thread rules: one thread at a time.
 */
#ifndef STREAM_TAPE_WRITE_H
#define STREAM_TAPE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "libstream/tape.h"

typedef struct tape_write tape_write_t;

/* Begin a file, which must not exist (EEXIST); or, with `append`, continue an existing one, behind
 * its last complete step.  NULL with an error message and EPROTO (not a recording), EINVAL (a
 * recording of another stream, or with another number of writers), EWOULDBLOCK (another process
 * writes it), or another errno. */
tape_write_t *tape_write_open(const char *path, const char *name, uint32_t writers, bool append,
                              errmsg_t *err);
/* NULL-safe, keeps errno.  Without tape_write_end(), the recording counts as interrupted. */
void tape_write_destroy(tape_write_t *w);

/* Describe the variables, also when the description changes.  A text that equals the last one of
 * the file is not written again.  0, or -1 with an error message and E2BIG, EINVAL (an empty text)
 * or an error of pwritev(2). */
int tape_write_format(tape_write_t *w, const char *text, errmsg_t *err);
/* Write the format of records that are in steps after it; no effect if it is in the file already.
 * 0, or -1 with an error message and E2BIG, EINVAL, ENOMEM or an error of pwritev(2). */
int tape_write_records(tape_write_t *w, uint64_t id, const char *text, errmsg_t *err);
bool tape_write_knows(const tape_write_t *w, uint64_t id); /* is it? */
/* Write what writers have pinned from the next step on.  `number` of a pin, and `owner`, say which
 * block it is: one that was in the last call for this writer is not written again.  An empty block
 * is none.  0, or -1 with an error message and an error of pwritev(2). */
int tape_write_pins(tape_write_t *w, const struct tape_pin *pins, const uint64_t *owners,
                    errmsg_t *err);
/* Write the data of each writer in a step, whose number is larger than those before (else EEXIST).
 * After an error the step is not in the file, and another one may be written. */
int tape_write_step(tape_write_t *w, uint64_t number, uint64_t time,
                    const struct tape_block *blocks, errmsg_t *err);
/* Write the index, and all of the file to the disk.  No more steps can be written afterwards. */
int tape_write_end(tape_write_t *w, errmsg_t *err);
/* Write all of the file to the disk, so that it counts as interrupted.  -1 with an error message
 * and an error of fdatasync(2). */
int tape_write_sync(tape_write_t *w, errmsg_t *err);

#endif
