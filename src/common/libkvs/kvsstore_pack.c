/* kvsstore_pack.c - applying a pack: the merged changes of a fence.
 *
 * A value of the pack that is too long for an entry is made into objects once, for the first key
 * that has it: a thousand processes that put the same 32 KiB cost one hash.
 *
 * Invariant: the names of entries live as long as the root change.  The reader of packs reuses the
 * memory of a key for the next one, so keys are copied.
 *
 * Failure: as for any transaction; objects that are not referred to are reclaimed as usual.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "kvs_pack.h"
#include "kvsstore_private.h"
#include "kvsvalue.h"

static int put(kvsstore_t *s, const struct kvs_op *op, struct treeobj_entry *value, errmsg_t *err)
{
    if (value->type == 0) {
        value->type = TREEOBJ_VALUE;
        value->data = op->value;
        value->len = op->len;
        if (op->len > TREEOBJ_INLINE_MAX && kvsvalue_settle(&s->make, NULL, value) < 0)
            return kvsstore_no_memory(err);
    }
    return kvsstore_op_put(s, op, value, err);
}

int kvsstore_pack_begin(kvsstore_t *s, const void *pack, size_t len, errmsg_t *err)
{
    struct kvs_pack_iter *it = &s->now.pack;
    if (kvs_pack_open(it, pack, len, NULL, err) < 0)
        return -1;
    s->now.values = arena_alloc(s->make.arena, it->nvalues * sizeof(*s->now.values) + 1);
    if (!s->now.values) {
        kvs_pack_close(it);
        return kvsstore_no_memory(err);
    }
    memset(s->now.values, 0, it->nvalues * sizeof(*s->now.values));
    return 0;
}

int kvsstore_pack_step(kvsstore_t *s, errmsg_t *err)
{
    struct kvs_op op;
    uint32_t number;
    int rc = kvs_pack_next(&s->now.pack, &op, &number, err);
    if (rc <= 0)
        return rc;
    char *key = arena_alloc(s->make.arena, op.keylen);
    if (!key)
        return kvsstore_no_memory(err);
    memcpy(key, op.key, op.keylen);
    op.key = key;
    rc = number == KVS_PACK_NO_VALUE ? kvsstore_op(s, &op, err)
                                     : put(s, &op, &s->now.values[number], err);
    return rc < 0 ? -1 : 1;
}
