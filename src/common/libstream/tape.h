/* A recording: the steps of a stream in a file.
 *
 *    tape_t *t = tape_open("heat.rec", err);
 *    for (size_t i = 0; i < tape_count(t); i++)
 *        tape_blocks(t, i, blocks, err);               in place: the file is mapped
 *    tape_destroy(t);
 *
 * A file must not be truncated while it is open.
 *
 * Thread rules: one thread at a time.
 */
#ifndef STREAM_TAPE_H
#define STREAM_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

typedef struct tape tape_t;

struct tape_info {
    const char *name;   /* of the stream */
    const char *format; /* description of its variables, in words; NULL: none */
    uint32_t writers;
    bool complete; /* the recording was ended; false: only the complete sections were read */
    uint64_t end; /* size of the complete part of the file, behind which a recording is continued */
    uint64_t format_at;  /* offset of the section with the format */
    uint64_t records_at; /* offset of the last section with a format of records; 0: none */
};

struct tape_step {
    uint64_t number;
    uint64_t time; /* when it was recorded, in nanoseconds since 1970 */
    uint64_t at;   /* offset in the file */
};

struct tape_block {
    const void *data; /* at a multiple of 64 */
    uint64_t len;
};

/* NULL with an error message and EPROTO (it is not a recording), ENOMEM or an error of open(2). */
tape_t *tape_open(const char *path, errmsg_t *err);
/* The same of an open file, named `path` in messages. */
tape_t *tape_open_fd(int fd, const char *path, errmsg_t *err);
/* The same of bytes in memory, at a multiple of 64, which are not copied. */
tape_t *tape_read(const void *data, uint64_t size, const char *path, errmsg_t *err);
void tape_destroy(tape_t *t); /* NULL-safe, keeps errno */

const struct tape_info *tape_info(const tape_t *t);
size_t tape_count(const tape_t *t); /* of steps */
struct tape_step tape_at(const tape_t *t, size_t i);
/* The step of this number, or of the next larger one: its index, or tape_count(). */
size_t tape_find(const tape_t *t, uint64_t number);
/* The data of each writer in a step, in `blocks`, which has room for all writers.  Only the bounds
 * are verified: block.h parses the data.  0, or -1 with EPROTO and an error message. */
int tape_blocks(const tape_t *t, size_t i, struct tape_block *blocks, errmsg_t *err);

/* What each writer had pinned as of a step: its block, empty if there is none, and a number that is
 * the same as long as the block is.  `pins` has room for all writers.  0, or -1 with EPROTO and an
 * error message. */
struct tape_pin {
    struct tape_block block;
    uint64_t number;
};
int tape_pins(const tape_t *t, size_t i, struct tape_pin *pins, errmsg_t *err);

/* The text of the format of records with this id, which is not verified; NULL: it is not in the
 * file.  Valid as long as the recording. */
const char *tape_record_format(const tape_t *t, uint64_t id);
/* The ids of all of them, from *pos == 0 on; false: no more. */
bool tape_record_next(const tape_t *t, size_t *pos, uint64_t *id);

#endif
