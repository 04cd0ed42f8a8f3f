/* Packed transactions: the merged changes of many participants of a fence, which instances of the
 * key-value store send each other and the master applies.
 *
 * A pack holds plain puts of distinct keys without repetition (each value once, the common prefix
 * of successive keys once, a run of numbered keys as one item), then an ordinary transaction
 * (kvs_txn.h) with all other operations.  Format: kvs_pack.c.
 *
 *    struct kvs_pack_iter it;
 *    if (kvs_pack_open(&it, data, len, NULL, &err) < 0) ...
 *    while ((rc = kvs_pack_next(&it, &op, &value, &err)) == 1) ...
 *    kvs_pack_close(&it);
 *
 * In the FLUX paper (ICPP 2014, figure 3) the cost of a fence grows with the number of processes
 * even if all values are equal, because tuples of keys and references are concatenated.
 *
 * Thread rules: any thread; an iterator or a writer belongs to one.
 */
#ifndef KVS_PACK_H
#define KVS_PACK_H

#include <stddef.h>

#include "kvs_dict.h"
#include "kvs_txn.h"

#define KVS_PACK_HEADER 16
#define KVS_PACK_NO_VALUE UINT32_MAX

/* True if these bytes begin as a pack does, and not as a transaction. */
static inline bool kvs_pack_is(const void *data, size_t len)
{
    return len > 0 && *(const uint8_t *)data == 'P';
}

/* --- reading --- */

struct kvs_pack_value {
    const uint8_t *data;
    uint32_t len;
};

/* Callers may read the first four fields; the others are private. */
struct kvs_pack_iter {
    uint32_t puts;    /* plain puts in the pack, according to its header */
    uint32_t nvalues; /* distinct values, including those from the dictionary */
    uint32_t known;   /* number of those from the dictionary; they come first */
    struct kvs_pack_value *values;
    const uint8_t *p, *end;
    uint32_t seen;  /* values referred to so far */
    uint32_t items; /* not read yet */
    uint32_t left;  /* puts not read yet */
    size_t key_bytes;
    /* The current item. */
    uint32_t count; /* its puts that are not read yet */
    uint32_t value;
    bool ascending;
    uint64_t number, step;
    uint16_t prefix, suffix, width;
    bool in_rest;
    struct kvs_txn_iter rest;
    uint16_t baselen, keylen;
    char base[KVS_KEY_MAX];
    char key[KVS_KEY_MAX];
};

/* Decode the header and the values; `data` and the dictionary of this stream of packs (NULL: the
 * pack stands alone) are borrowed until close().  0, or -1 with EPROTO, EMSGSIZE or ENOMEM and an
 * error message, and nothing to close. */
int kvs_pack_open(struct kvs_pack_iter *it, const void *data, size_t len, const kvs_dict_t *dict,
                  errmsg_t *err);
/* The next operation: 1 with *op.  First all puts: op->key is valid until the next call, op->value
 * as long as the data, *value is the number of the value (0 to nvalues-1; equal numbers have equal
 * bytes), op->start is NULL.  Then the operations of the transaction as from kvs_txn_next(), with
 * *value KVS_PACK_NO_VALUE.  0 after the last operation; -1 with EPROTO, EMSGSIZE or the error of a
 * key or value.  All operations together are at most KVS_TXN_OPS_MAX, all keys together at most
 * KVS_TXN_MAX bytes, however small the pack is. */
int kvs_pack_next(struct kvs_pack_iter *it, struct kvs_op *op, uint32_t *value, errmsg_t *err);
void kvs_pack_close(struct kvs_pack_iter *it); /* keeps errno */

/* Add the new values of a pack that was read to its end to the dictionary.  -1 with ENOMEM. */
int kvs_pack_learn(const struct kvs_pack_iter *it, kvs_dict_t *dict);

/* Check a pack, or a transaction, to its end: 0 with the number of operations (`nops` may be NULL),
 * or -1.  The dictionary is not changed. */
int kvs_pack_check(const void *data, size_t len, const kvs_dict_t *dict, uint32_t *nops,
                   errmsg_t *err);

/* --- writing --- */

struct kvs_pack_put {
    const char *key;
    uint32_t value; /* index into values */
    uint16_t keylen;
};
struct kvs_pack_bytes {
    const uint8_t *data;
    uint32_t len;
    uint32_t refs; /* puts that have it; a value without puts is left out */
};
/* Pack `n` puts of distinct keys, `nvalues` distinct values and a transaction (restlen 0: none) for
 * the reader with the same dictionary (NULL: none), and add the new values to it.  The result
 * depends on the puts, the transaction and the dictionary, not on the order of the arrays.  *buf
 * (malloc'd) has `head` bytes for the caller, then the *len bytes of the pack.  0, or -1 with
 * ENOMEM. */
int kvs_pack_write(const struct kvs_pack_put *puts, uint32_t n, const struct kvs_pack_bytes *values,
                   uint32_t nvalues, const void *rest, size_t restlen, kvs_dict_t *dict,
                   size_t head, uint8_t **buf, size_t *len);

#endif
