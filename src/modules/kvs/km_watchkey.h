/* km_watchkey.h - watched keys as a tree of names.  Each node has the watchers of a key, and a mark
 * of the entry that the key had at the last walk.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_WATCHKEY_H
#define KM_WATCHKEY_H

#include "libkvs/kvs_key.h"
#include "libkvs/treeobj.h"
#include "libutil/list.h"

struct km_watchkey_mark {
    uint8_t *data; /* type and contents or digest of the entry; NULL: unknown */
    size_t len;
};

struct km_watchkey {
    struct km_watchkey *parent;
    struct km_watchkey **child; /* sorted by hash */
    uint32_t n, cap;
    uint64_t hash;
    struct km_watchkey_mark mark;
    struct km_watchkey *marked; /* during a walk: the watch key that was marked before */
    struct list_node watchers;
    uint8_t namelen;
    char name[];
};

/* Write the mark of an entry (NULL: absent) to `buf`, which has KM_WATCHKEY_MARK_MAX bytes.
 * Returns the length of the mark. */
#define KM_WATCHKEY_MARK_MAX (1 + KVS_KEY_MAX)
size_t km_watchkey_mark_bytes(const struct treeobj_entry *e, size_t dsize, uint8_t *buf);
bool km_watchkey_mark_is(const struct km_watchkey_mark *m, const uint8_t *bytes, size_t len);
/* Without memory the mark becomes unknown, so the entry counts as changed in the next walk. */
void km_watchkey_mark_set(struct km_watchkey_mark *m, const uint8_t *bytes, size_t len);
void km_watchkey_mark_clear(struct km_watchkey_mark *m);

/* NULL with ENOMEM.  The top has no parent, and the name "". */
struct km_watchkey *km_watchkey_create(struct km_watchkey *parent, const char *name, size_t len);
/* The node of a key below `top`, created if there is none.  NULL with ENOMEM. */
struct km_watchkey *km_watchkey_get(struct km_watchkey *top, const char *key, size_t len);
/* Free a node if it has neither watchers nor children, and then its ancestors likewise. */
void km_watchkey_prune(struct km_watchkey *s);
/* The marks of this node and of the nodes below it become unknown. */
void km_watchkey_forget(struct km_watchkey *s);

#endif
