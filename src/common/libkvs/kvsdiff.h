/* What is different between two versions of a directory.
 *
 * Thread rules: those of the content store.
 */
#ifndef KVS_KVSDIFF_H
#define KVS_KVSDIFF_H

#include "kvswalk.h"

enum kvsdiff_change { KVSDIFF_ADDED = 1, KVSDIFF_CHANGED = 2, KVSDIFF_REMOVED = 3 };
enum {
    KVSDIFF_RECURSIVE = 1, /* what is different below, instead of a directory that was changed */
};

struct kvsdiff_item {
    enum kvsdiff_change change;
    const char *key; /* from the directory on; not NUL-terminated */
    size_t keylen;
    const struct treeobj_entry *old; /* NULL: added */
    const struct treeobj_entry *now; /* NULL: removed */
};

/* Call back for each difference between the directories `old` and `now` (digests of their objects;
 * NULL: there was none), in no particular order.  Nonzero from the callback ends it and is
 * returned.  0; -1 with EAGAIN (objects noted in `miss`; or by the callback, begin anew when they
 * are here; what was told does not count), EMSGSIZE (eight million nodes and entries were looked at, and that was not all),
 * ENOMEM, EIO and a sentence.
 *
 * With KVSDIFF_RECURSIVE a directory that came or went is told, and all below it; one that became a
 * value, or the other way, is told as changed, and what is below it as well.  What is deeper than a
 * key may be (by copying directories into each other) is not told.
 *
 * The cost is that of what is different: equal parts are equal objects, and are not looked at. */
typedef int (*kvsdiff_f)(const struct kvsdiff_item *d, void *arg);
int kvsdiff(content_t *c, const uint8_t *old, const uint8_t *now, unsigned flags, kvsdiff_f cb,
            void *arg, struct kvsmiss *miss, errmsg_t *err);

#endif
