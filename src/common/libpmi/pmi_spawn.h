/* Blocks of `mcmd=spawn`: a strict reader, and the encoding of a whole request as bytes.
 *
 * A spawn of several commands consists of one block for each, and gets a single response.  Nothing
 * here does I/O; one object is to be used by one thread at a time.
 *
 * The encoded request, for the service that starts the processes:
 *    u32 commands, u32 pairs
 *    for each command u32 processes, u32 arguments (with the program: at least 1), u32 infos
 *    strings, each with its NUL: for each command its program and arguments, then key and value of
 *    each info; then key and value of each pair for the key-value space of the new processes
 * Numbers are little-endian.
 */
#ifndef PMI_SPAWN_H
#define PMI_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libpmi/pmi_wire.h"
#include "libutil/buf.h"
#include "libutil/errmsg.h"

#define PMI_SPAWN_COMMANDS_MAX 4096
#define PMI_SPAWN_PROCS_MAX (1 << 22) /* of all commands */
#define PMI_SPAWN_LIST_MAX 65536      /* arguments, infos, preput pairs: of each, in a block */
#define PMI_SPAWN_SIZE_MAX (4u << 20) /* bytes of all blocks */

struct pmi_spawn {
    bool in_block;
    bool nomem;  /* memory was short: the request is incomplete */
    int total;   /* number of commands; 0 before the first block has given it */
    int done;    /* blocks that are complete */
    int nprocs;  /* of all blocks so far */
    size_t size; /* bytes of lines so far */
    /* of the current block: */
    unsigned seen; /* bits of fields that may come once */
    int procs;
    int args, argcnt;   /* seen, announced (-1: not yet) */
    int infos, infonum; /* complete pairs */
    int preputs, preputnum;
    bool info_key, preput_key; /* the key was read, and its value must follow */
    buf_t *name, *argv, *info; /* its strings */
    /* of all blocks: */
    uint32_t npairs;
    buf_t *table, *strings, *pairs;
};

/* Begin a block: the line `mcmd=spawn` was read.  `sp` is all zeros before the first block. */
void pmi_spawn_begin(struct pmi_spawn *sp);

/* Process a line of the block.  0: the block continues; 1: the block is complete and another one
 * must follow; 2: the request is complete; -1 with EPROTO or E2BIG: the line is invalid. */
int pmi_spawn_line(struct pmi_spawn *sp, const char *line, size_t len);

/* The encoding of a complete request, malloc'd; *len is its length.  NULL with ENOMEM. */
void *pmi_spawn_take(const struct pmi_spawn *sp, size_t *len);
/* Free the strings, and reset `sp` to all zeros. */
void pmi_spawn_clear(struct pmi_spawn *sp);

/* --- the encoded request --- */

struct pmi_spawn_command {
    uint32_t nprocs;
    uint32_t argc;
    uint32_t ninfo;
    const char *argv; /* argc strings, one after the other */
    const char *info; /* key, value, key, value... */
};

struct pmi_spawn_request {
    uint32_t ncommands;
    uint32_t npairs;
    uint32_t nprocs;                    /* of all commands */
    struct pmi_spawn_command *commands; /* malloc'd */
    const char *pairs;                  /* key, value, ... */
    size_t pairs_len;
};

/* Strict; pointers lead into `data`, except for the table of commands, which
 * pmi_spawn_request_clear() frees.  -1 with EPROTO or ENOMEM and an error message. */
int pmi_spawn_request_get(const void *data, size_t len, struct pmi_spawn_request *req,
                          errmsg_t *err);
void pmi_spawn_request_clear(struct pmi_spawn_request *req);

/* The value of an info of a command; NULL: it has no such info. */
const char *pmi_spawn_info(const struct pmi_spawn_command *c, const char *key);

#endif
