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
    /* Called for each problem (bad), for each sound namespace with its contents, and for a file
     * without a store. */
    void (*report)(void *arg, bool bad, const char *sentence);
    void *arg;
    /* The results. */
    char hash[16];
    unsigned namespaces;
    uint64_t nodes, blobs, bytes; /* tree objects, blobs, and the bytes in both */
    uint64_t rows;                /* rows of journals that were replayed */
    uint64_t idle;                /* objects that no root needs: the next start deletes them */
    unsigned problems;
};

/* Check `path`, a file or its directory.  Is the database sound?  Has every object the hash that is
 * its name, and is it well-formed?  Does every root (of a checkpoint, and of each row of a journal,
 * which is applied) lead only to objects that exist, with the recorded sizes and counts?  The file
 * is not changed.  Memory: the tree, without the large values.
 *
 * 0: the file was checked, see `problems`.  -1 with an error message: the file could not be checked
 * (ENOENT, EACCES, EBUSY: a session uses it, EINVAL: it is not a store, ENOMEM). */
int km_fsck(const char *path, struct km_fsck *f, errmsg_t *err);

#endif
