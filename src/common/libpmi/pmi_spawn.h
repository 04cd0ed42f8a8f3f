/* Blocks of `mcmd=spawn`: a strict reader.
 *
 * A spawn of several commands is as many blocks, one after the other; then there is one answer.
 * The reader keeps nothing of what it reads but numbers: it says whether a whole request was well
 * formed, and how many processes it asked for.  Nothing here does I/O; one object is to be used by
 * one thread at a time.
 */
#ifndef PMI_SPAWN_H
#define PMI_SPAWN_H

#include <stdbool.h>
#include <stdint.h>

#include "libpmi/pmi_wire.h"

#define PMI_SPAWN_COMMANDS_MAX 4096
#define PMI_SPAWN_PROCS_MAX (1 << 22) /* of all commands */
#define PMI_SPAWN_LIST_MAX 65536      /* arguments, infos, preput pairs: of each, in a block */

struct pmi_spawn {
    bool in_block;
    int total;  /* commands; 0 before the first block has said it */
    int done;   /* blocks that are complete */
    int nprocs; /* of all blocks so far */
    /* of this block */
    unsigned seen;      /* bits of fields that may come once */
    int args, argcnt;   /* seen, announced (-1: not yet) */
    int infos, infonum; /* complete pairs */
    int preputs, preputnum;
    bool info_key, preput_key; /* its value is to follow */
};

/* The line `mcmd=spawn` was seen.  `sp` is all zeros before the first block. */
void pmi_spawn_begin(struct pmi_spawn *sp);

/* Take a line of the block: 0, more follow; 1, the block is complete and another one must follow;
 * 2, the request is complete (then `sp` can be cleared); -1 with EPROTO or E2BIG: not well formed.
 */
int pmi_spawn_line(struct pmi_spawn *sp, const char *line, size_t len);

#endif
