/* Output of a job as it stands in the key-value store: records "TASK STREAM LENGTH\n", each with
 * LENGTH bytes behind it; read in whatever pieces it comes.  Not thread-safe. */
#ifndef CMD_OUTREC_H
#define CMD_OUTREC_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define OUTREC_HEAD_MAX 48

/* All zero at the beginning. */
struct outrec {
    char head[OUTREC_HEAD_MAX];
    size_t nhead;
    uint32_t task;
    uint32_t stream; /* 1 standard output, 2 standard error */
    uint64_t left;   /* bytes of the record that have not come yet */
};

/* Take a piece in: `put` gets what there is of the records in it, in pieces, too.  -1 with EPROTO
 * and a sentence when that is no such output; nothing more can be read then. */
int outrec_take(struct outrec *r, const void *data, size_t len,
                void (*put)(void *arg, uint32_t task, uint32_t stream, const void *data,
                            size_t len),
                void *arg, errmsg_t *err);

#endif
