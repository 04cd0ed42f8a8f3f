/* A set of changes that many make together: transactions and packs (kvs_pack.h) merged into one.
 *
 * Transactions of plain puts only are kept as key -> value, the last one wins; others stand whole
 * behind them, in the order in which they came.  So the result is one of the orders in which the
 * participants might have come.  (One thing is not kept: when a transaction puts different values
 * to one key through different symbolic links, which of them wins is open.)
 *
 * Thread rules: a set belongs to one thread.
 */
#ifndef KVS_SET_H
#define KVS_SET_H

#include <stddef.h>
#include <stdint.h>

#include "kvs_dict.h"
#include "libutil/errmsg.h"

typedef struct kvs_set kvs_set_t;

kvs_set_t *kvs_set_create(void);    /* NULL with ENOMEM */
void kvs_set_destroy(kvs_set_t *s); /* NULL-safe, keeps errno */
void kvs_set_clear(kvs_set_t *s);

/* Merge the operations of a transaction or of a pack, which may build on the packs before it on its
 * stream: `dict` is the stream's dictionary, which learns from it (NULL: it stands alone).  -1 with a sentence and ENOMEM, EMSGSIZE
 * (more than KVS_TXN_OPS_MAX operations or KVS_TXN_MAX bytes together) or the errors of
 * kvs_txn_next() and kvs_pack_next(); a part may have been merged then. */
int kvs_set_merge(kvs_set_t *s, const void *data, size_t len, kvs_dict_t *dict, errmsg_t *err);

uint32_t kvs_set_puts(const kvs_set_t *s);   /* keys */
uint32_t kvs_set_values(const kvs_set_t *s); /* distinct values of them */
uint32_t kvs_set_rest(const kvs_set_t *s);   /* operations behind them */
/* What it says without packing, about: bytes of keys and distinct values. */
size_t kvs_set_bytes(const kvs_set_t *s);

/* As a pack, for a stream with this dictionary or, with NULL, one that stands alone.  In *buf (malloc'd) there are `head` bytes for the caller, then the *len bytes of the
 * pack.  0, or -1 with ENOMEM. */
int kvs_set_encode(const kvs_set_t *s, kvs_dict_t *dict, size_t head, uint8_t **buf, size_t *len);

#endif
