/* Packed transactions: what instances of the key-value store send each other for many at once, and
 * what the master applies for a fence.
 *
 * A pack holds plain puts of distinct keys in a form that says each thing once (equal values once,
 * equal beginnings of keys once, numbered names with one value as one item), and after them an
 * ordinary transaction (kvs_txn.h) with whatever is not a plain put.  Format: kvs_pack.c.
 *
 *    struct kvs_pack_iter it;
 *    if (kvs_pack_open(&it, data, len, NULL, &err) < 0) ...
 *    while ((rc = kvs_pack_next(&it, &op, &value, &err)) == 1) ...
 *    kvs_pack_close(&it);
 *
 * It answers the FLUX paper's finding (ICPP 2014, figure 3) that fences of equal values still grow
 * with the number of processes, since the tuples of keys and references were concatenated.
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

/* Do these bytes claim to be a pack (and not a transaction)? */
static inline bool kvs_pack_is(const void *data, size_t len)
{
    return len > 0 && *(const uint8_t *)data == 'P';
}

/* --- reading --- */

struct kvs_pack_value {
    const uint8_t *data;
    uint32_t len;
};

/* Fields are private but for these: */
struct kvs_pack_iter {
    uint32_t puts;    /* plain puts in the pack, as its header says */
    uint32_t nvalues; /* distinct values, with those from the dictionary */
    uint32_t known;   /* how many these are; they come first */
    struct kvs_pack_value *values;
    const uint8_t *p, *end;
    uint32_t seen;  /* values referred to so far */
    uint32_t items; /* left */
    uint32_t left;  /* puts left */
    size_t key_bytes;
    /* the item at hand */
    uint32_t count; /* of its puts left */
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

/* Look at the header and the values; `data` and the dictionary of this stream of packs (NULL: the
 * pack stands alone) are borrowed until close().  0, or -1 with EPROTO, EMSGSIZE or ENOMEM and a
 * sentence, and nothing to close. */
int kvs_pack_open(struct kvs_pack_iter *it, const void *data, size_t len, const kvs_dict_t *dict,
                  errmsg_t *err);
/* The next operation: 1 with *op.  First all puts: op->key lives until the next call, op->value as
 * long as the data, *value is the number of the value (0 to nvalues-1; equal numbers have equal
 * bytes), op->start is NULL.  Then the operations of the transaction as from kvs_txn_next(), with
 * *value KVS_PACK_NO_VALUE.  0 after the last; -1 with EPROTO, EMSGSIZE or the error of a key or
 * value.  All operations together are at most KVS_TXN_OPS_MAX, all keys together at most
 * KVS_TXN_MAX bytes, however small the pack. */
int kvs_pack_next(struct kvs_pack_iter *it, struct kvs_op *op, uint32_t *value, errmsg_t *err);
void kvs_pack_close(struct kvs_pack_iter *it); /* keeps errno */

/* Have the dictionary learn what was new in a pack that was read to its end.  -1 with ENOMEM. */
int kvs_pack_learn(const struct kvs_pack_iter *it, kvs_dict_t *dict);

/* Look through a pack, or a transaction, to its end: 0 with the number of operations (`nops` may be
 * NULL), or -1.  The dictionary stays as it is. */
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
    uint32_t refs; /* puts that have it, at least one */
};
/* Pack `n` puts of distinct keys, `nvalues` distinct values and a transaction (len 0: none) for the
 * reader with the same dictionary (NULL: none), which then learns the new values.  The result
 * depends on what is put and what is known only, not on the order of the arrays.  In *buf
 * (malloc'd) there are `head` bytes for the caller, then the *len bytes of the pack.  0, or -1 with
 * ENOMEM. */
int kvs_pack_write(const struct kvs_pack_put *puts, uint32_t n, const struct kvs_pack_bytes *values,
                   uint32_t nvalues, const void *rest, size_t restlen, kvs_dict_t *dict,
                   size_t head, uint8_t **buf, size_t *len);

#endif
