/* The bytes of a step: the description and the value of each variable.
 *
 *    block_t *b = block_create();
 *    block_add(b, "T", desc, desc_len, len);         for each variable
 *    block_write(b, buf);                            block_size(b) bytes, with gaps for the values
 *    memcpy(buf + block_at(b, i)->off, value, len);
 *
 *    block_t *b = block_read(data, len, err);        in place: nothing is copied but the table
 *    const struct block_var *v = block_find(b, "T");
 *
 * Thread rules: one thread at a time.
 */
#ifndef STREAM_BLOCK_H
#define STREAM_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define BLOCK_NAME_MAX 127  /* bytes */
#define BLOCK_VARS_MAX 4096 /* variables of a step */
#define BLOCK_DESC_MAX 4096 /* bytes of a description */

typedef struct block block_t;

struct block_var {
    char *name;
    uint8_t *desc; /* description of the variable, or NULL: its value is just bytes */
    uint32_t desc_len;
    uint64_t off; /* of the value, a multiple of 64; after block_write() or block_read() */
    uint64_t len;
};

/* Can a variable have this name? */
bool block_name_ok(const char *name, size_t len);
block_t *block_create(void);    /* empty; NULL with ENOMEM */
void block_destroy(block_t *b); /* NULL-safe, keeps errno */

/* Add a variable.  The description is copied.  0, or -1 with EINVAL (invalid name), EEXIST, E2BIG
 * (too many variables, or too large) or ENOMEM. */
int block_add(block_t *b, const char *name, const void *desc, size_t desc_len, uint64_t len);
/* Change the number of bytes of the value of variable `i`, which is at most 2^60. */
void block_resize(block_t *b, size_t i, uint64_t len);
void block_clear(block_t *b);
uint64_t block_size(const block_t *b); /* of the step in bytes */
/* Write everything but the values to `buf`, which has block_size() bytes.  This sets the offsets of
 * values; no variable can be added afterwards. */
void block_write(block_t *b, void *buf);
/* After block_write(): let the block be as it was before, so that it can be written again, to other
 * memory. */
void block_unwrite(block_t *b);

/* Parse a step.  NULL with EPROTO and an error message, or ENOMEM.  Even if the bytes are
 * malformed, or change later, each value of the result is within them. */
block_t *block_read(const void *data, uint64_t len, errmsg_t *err);

/* Number of bytes of a step in front of its values; 0: it does not have the format of a step. */
uint64_t block_head_size(const void *data, uint64_t len);

size_t block_count(const block_t *b);
const struct block_var *block_at(const block_t *b, size_t i); /* NULL: none */
const struct block_var *block_find(const block_t *b, const char *name);

#endif
