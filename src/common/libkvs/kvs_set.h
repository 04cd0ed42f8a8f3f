/* A set of changes of many participants: transactions and packs (kvs_pack.h) merged into one.
 *
 * A transaction that consists of plain puts is kept as key -> value; the last put to a key wins.
 * Other transactions follow whole, in order of arrival.  The result is that of applying the
 * transactions in some order in which they might have arrived.  (Exception: if a transaction puts
 * different values to one key through different symbolic links, any of these values may win.)
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

/* Merge the operations of a transaction or of a pack.  `dict` is the dictionary of the pack's
 * stream, to which its new values are added (NULL: the pack stands alone).  -1 with an error
 * message and ENOMEM, EMSGSIZE (more than KVS_TXN_OPS_MAX operations or KVS_TXN_MAX bytes together)
 * or the errors of kvs_txn_next() and kvs_pack_next(); some operations may have been merged
 * then. */
int kvs_set_merge(kvs_set_t *s, const void *data, size_t len, kvs_dict_t *dict, errmsg_t *err);

/* The number of operations that are not in plain transactions of puts. */
uint32_t kvs_set_rest(const kvs_set_t *s);
/* An upper bound of the size of the pack without its header. */
size_t kvs_set_bytes(const kvs_set_t *s);

/* Encode the set as a pack for a stream with this dictionary (NULL: it stands alone).  *buf
 * (malloc'd) has `head` bytes for the caller, then the *len bytes of the pack.  0, or -1 with
 * ENOMEM. */
int kvs_set_encode(const kvs_set_t *s, kvs_dict_t *dict, size_t head, uint8_t **buf, size_t *len);

#endif
