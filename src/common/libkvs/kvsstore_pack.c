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

int kvsstore_apply_pack(kvsstore_t *s, const void *pack, size_t len, errmsg_t *err)
{
    struct kvs_pack_iter it;
    struct kvs_op op;
    struct treeobj_entry *values;
    uint32_t number;
    int rc = kvs_pack_open(&it, pack, len, NULL, err);
    if (rc < 0)
        return -1;
    values = arena_alloc(s->make.arena, it.nvalues * sizeof(*values) + 1);
    if (values)
        memset(values, 0, it.nvalues * sizeof(*values));
    else
        rc = kvsstore_no_memory(err);
    while (rc >= 0 && (rc = kvs_pack_next(&it, &op, &number, err)) == 1) {
        char *key = arena_alloc(s->make.arena, op.keylen);
        if (!key) {
            rc = kvsstore_no_memory(err);
            break;
        }
        memcpy(key, op.key, op.keylen);
        op.key = key;
        rc = number == KVS_PACK_NO_VALUE ? kvsstore_op(s, &op, err)
                                         : put(s, &op, &values[number], err);
    }
    kvs_pack_close(&it);
    return rc;
}
