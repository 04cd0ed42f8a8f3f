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
    uint8_t *data; /* type and what identifies the contents; NULL: not known */
    size_t len;
};

struct km_watchkey {
    struct km_watchkey *parent;
    struct km_watchkey **child; /* sorted by hash */
    uint32_t n, cap;
    uint64_t hash;
    struct km_watchkey_mark mark;
    struct km_watchkey *marked; /* for who sets marks: the one before */
    struct list_node watchers;
    uint8_t namelen;
    char name[];
};

/* What an entry is, in bytes; NULL: absent.  `buf` has KM_WATCHKEY_MARK_MAX bytes; returns how many
 * were written. */
#define KM_WATCHKEY_MARK_MAX (1 + KVS_KEY_MAX)
size_t km_watchkey_mark_bytes(const struct treeobj_entry *e, size_t dsize, uint8_t *buf);
bool km_watchkey_mark_is(const struct km_watchkey_mark *m, const uint8_t *bytes, size_t len);
/* Without memory it is not known after this, and looks changed the next time. */
void km_watchkey_mark_set(struct km_watchkey_mark *m, const uint8_t *bytes, size_t len);
void km_watchkey_mark_clear(struct km_watchkey_mark *m);

/* NULL with ENOMEM.  The top has no parent, and the name "". */
struct km_watchkey *km_watchkey_create(struct km_watchkey *parent, const char *name, size_t len);
/* The node of a key below `top`, created if there is none.  NULL with ENOMEM. */
struct km_watchkey *km_watchkey_get(struct km_watchkey *top, const char *key, size_t len);
/* Free a node without watchers and children, and those above it that this leaves without either. */
void km_watchkey_prune(struct km_watchkey *s);
/* The entries at this node and below it are not known any more. */
void km_watchkey_forget(struct km_watchkey *s);

#endif
