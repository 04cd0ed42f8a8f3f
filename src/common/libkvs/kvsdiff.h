/* The differences between two versions of a directory.
 *
 * Thread rules: those of the content store.
 */
#ifndef KVS_KVSDIFF_H
#define KVS_KVSDIFF_H

#include "kvswalk.h"

enum kvsdiff_change { KVSDIFF_ADDED = 1, KVSDIFF_CHANGED = 2, KVSDIFF_REMOVED = 3 };
enum {
    KVSDIFF_RECURSIVE = 1, /* report the differences below a changed directory, not the directory */
};

struct kvsdiff_item {
    enum kvsdiff_change change;
    const char *key; /* from the directory on; not NUL-terminated */
    size_t keylen;
    const struct treeobj_entry *old; /* NULL: added */
    const struct treeobj_entry *now; /* NULL: removed */
};

typedef int (*kvsdiff_f)(const struct kvsdiff_item *d, void *arg);
typedef struct kvsdiff kvsdiff_t;

/* A comparison of the directories `old` and `now` (digests of their objects; NULL: no directory).
 * NULL with ENOMEM. */
kvsdiff_t *kvsdiff_create(content_t *c, const uint8_t *old, const uint8_t *now, unsigned flags);
/* The content store must still exist, because objects are held in it.  NULL-safe, keeps errno. */
void kvsdiff_destroy(kvsdiff_t *d);

/* Continue the comparison for at most `steps` (1 or more) entries and nodes, and call back for each
 * difference, in no particular order.  Returns KVSDIFF_MORE while the comparison is unfinished, and
 * 0 at its end.  Any other nonzero value from the callback ends it and is returned.  -1 with EAGAIN
 * (kvsdiff_run() or the callback added missing objects to `miss`: load them, begin a new
 * comparison, and discard the differences reported so far), EMSGSIZE (the limit of eight million
 * nodes and entries was reached), ENOMEM, EIO and an error message.  After KVSDIFF_MORE, pass
 * `miss` on unchanged.
 *
 * With KVSDIFF_RECURSIVE, an added or removed directory is reported together with all entries below
 * it; a directory that became a value, or the reverse, is reported as changed, and so are the
 * entries below it, as removed or added.  Entries below the maximum depth of keys (by copying
 * directories into each other) are not reported.
 *
 * The cost depends on the differences: equal parts are equal objects, and are skipped. */
enum { KVSDIFF_MORE = 2 };
int kvsdiff_run(kvsdiff_t *d, unsigned steps, kvsdiff_f cb, void *arg, struct kvsmiss *miss,
                errmsg_t *err);

#endif
