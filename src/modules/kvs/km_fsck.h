/* km_fsck.h - check the file of a store that no session uses.
 *
 * Thread rules: any thread.
 */
#ifndef KM_FSCK_H
#define KM_FSCK_H

#include <stdbool.h>
#include <stdint.h>

#include "libutil/errmsg.h"

struct km_fsck {
    /* Called for each thing that is wrong (bad), and with what there is to say of each
     * namespace. */
    void (*report)(void *arg, bool bad, const char *sentence);
    void *arg;
    /* What was found. */
    char hash[16];
    unsigned namespaces;
    uint64_t nodes, blobs, bytes; /* objects and what they hold */
    uint64_t rows;                /* of journals, all replayed */
    uint64_t idle;                /* objects that nothing needs: the next start takes them away */
    unsigned problems;
};

/* Look at `path`, a file or the directory it is in: is the database sound, does every object have
 * the hash it is named by and is it one, does every root (of checkpoints, and of each row of a
 * journal, which is applied) reach only what is there, with the sizes and counts that are said?
 * Nothing is changed.  Memory: the tree, not the large values.
 *
 * 0: it was examined, see `problems`.  -1 with an error message: it could not be (ENOENT, EACCES,
 * EBUSY: a session uses it, EINVAL: no such file, ENOMEM). */
int km_fsck(const char *path, struct km_fsck *f, errmsg_t *err);

#endif
