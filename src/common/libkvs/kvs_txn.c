/* kvs_txn.c - transactions in bytes.
 *
 * Format (integers little-endian):
 *
 *   header      u8 'T'  u8 1 (format)  u16 0  u32 number of operations
 *   operation   u8 type  u8 flags  u16 key length  u32 value length  key  value
 *
 * type     flags            value
 * put      0                the bytes, at most 16 MiB
 * unlink   recursive, must  none
 * mkdir    0                none
 * symlink  0                a key
 *
 * Invariants:
 *  1. Operations take effect in the order in which they stand.
 *  2. One sequence of operations has one encoding: unused bits are zero and nothing follows the
 * last.
 *  3. A transaction has at most 64 MiB and 2^20 operations; one that has more is refused whole.
 *
 * Failure: anything else is refused with EPROTO (no transaction), or with the error of the key or
 * value, and a sentence that says at which operation.
 */
#include "config.h"
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_txn.h"

#define OP_HEADER 8

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static void put16(uint8_t *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

/* What is wrong with the operation, apart from its bytes. */
static int check_op(const struct kvs_op *op, errmsg_t *err)
{
    static const struct {
        uint8_t flags;
        uint32_t max;
    } types[] = {
        [KVS_OP_PUT] = {0, KVS_VALUE_MAX},
        [KVS_OP_UNLINK] = {KVS_OP_RECURSIVE | KVS_OP_MUST, 0},
        [KVS_OP_MKDIR] = {0, 0},
        [KVS_OP_SYMLINK] = {0, KVS_KEY_MAX},
    };
    if (op->type < KVS_OP_PUT || op->type > KVS_OP_SYMLINK)
        return errmsg_fail(err, EPROTO, "operation of type %u in a transaction is not known",
                           op->type);
    if (op->flags & ~types[op->type].flags)
        return errmsg_fail(err, EPROTO, "operation flags %#x in a transaction are not known",
                           op->flags);
    if (kvs_key_check(op->key, op->keylen, err) < 0)
        return -1;
    if (op->len > types[op->type].max) {
        if (op->type == KVS_OP_PUT)
            return errmsg_fail(err, EMSGSIZE, "value of '%.*s' has %u bytes: the limit is %u",
                               op->keylen > 80 ? 80 : op->keylen, op->key, op->len, KVS_VALUE_MAX);
        return errmsg_fail(err, EPROTO,
                           "operation of type %u in a transaction has a value of %u bytes",
                           op->type, op->len);
    }
    if (op->type == KVS_OP_SYMLINK)
        return kvs_key_check((const char *)op->value, op->len, err);
    return 0;
}

int kvs_txn_open(struct kvs_txn_iter *it, const void *data, size_t len, uint32_t *nops,
                 errmsg_t *err)
{
    const uint8_t *p = data;
    if (len > KVS_TXN_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "transaction has %zu bytes: the limit is %u, commit in parts", len,
                           KVS_TXN_MAX);
    if (len < KVS_TXN_HEADER || p[0] != 'T' || p[1] != 1 || get16(p + 2) != 0)
        return errmsg_fail(err, EPROTO, "payload of %zu bytes is no transaction", len);
    it->left = get32(p + 4);
    it->p = p + KVS_TXN_HEADER;
    it->end = p + len;
    if (it->left > KVS_TXN_OPS_MAX)
        return errmsg_fail(err, EMSGSIZE, "transaction has %u operations: the limit is %u",
                           it->left, KVS_TXN_OPS_MAX);
    if (nops)
        *nops = it->left;
    return 0;
}

int kvs_txn_next(struct kvs_txn_iter *it, struct kvs_op *op, errmsg_t *err)
{
    size_t left = (size_t)(it->end - it->p);
    if (it->left == 0) {
        if (left != 0)
            return errmsg_fail(err, EPROTO, "%zu bytes follow the last operation of a transaction",
                               left);
        return 0;
    }
    if (left < OP_HEADER)
        return errmsg_fail(err, EPROTO, "transaction ends with %u operations missing", it->left);
    op->start = it->p;
    op->type = it->p[0];
    op->flags = it->p[1];
    op->keylen = get16(it->p + 2);
    op->len = get32(it->p + 4);
    op->size = OP_HEADER + (size_t)op->keylen + op->len;
    if (left < op->size)
        return errmsg_fail(err, EPROTO, "an operation of %zu bytes reaches beyond its transaction",
                           op->size);
    op->key = (const char *)it->p + OP_HEADER;
    op->value = it->p + OP_HEADER + op->keylen;
    if (check_op(op, err) < 0)
        return -1;
    it->p += op->size;
    it->left--;
    return 1;
}

void kvs_txn_buf_clear(struct kvs_txn_buf *b)
{
    int saved = errno;
    free(b->data);
    memset(b, 0, sizeof(*b));
    errno = saved;
}

/* Room for `size` bytes more, with the header in place. */
static int reserve(struct kvs_txn_buf *b, size_t size, errmsg_t *err)
{
    size_t used = b->len ? b->len : KVS_TXN_HEADER;
    if (used + size > KVS_TXN_MAX || b->nops >= KVS_TXN_OPS_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "transaction would exceed %u bytes or %u operations: commit in parts",
                           KVS_TXN_MAX, KVS_TXN_OPS_MAX);
    if (used + size > b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 256;
        while (cap < used + size)
            cap *= 2;
        uint8_t *data = realloc(b->data, cap);
        if (!data)
            return errmsg_fail(err, ENOMEM, "out of memory for a transaction of %zu bytes", cap);
        b->data = data;
        b->cap = cap;
    }
    if (b->len == 0) {
        memcpy(b->data, "T\1\0\0\0\0\0\0", KVS_TXN_HEADER);
        b->len = KVS_TXN_HEADER;
    }
    return 0;
}

int kvs_txn_buf_add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
                    size_t keylen, const void *value, size_t len, errmsg_t *err)
{
    if (keylen > KVS_KEY_MAX)
        return kvs_key_check(key, keylen, err);
    if (len > KVS_TXN_MAX)
        return errmsg_fail(err, EMSGSIZE, "value has %zu bytes: the limit is %u", len,
                           KVS_VALUE_MAX);
    struct kvs_op op = {.type = type,
                        .flags = (uint8_t)flags,
                        .keylen = (uint16_t)keylen,
                        .len = (uint32_t)len,
                        .key = key,
                        .value = value};
    if (check_op(&op, err) < 0 || reserve(b, OP_HEADER + keylen + len, err) < 0)
        return -1;
    uint8_t *p = b->data + b->len;
    p[0] = op.type;
    p[1] = op.flags;
    put16(p + 2, op.keylen);
    put32(p + 4, op.len);
    memcpy(p + OP_HEADER, key, keylen);
    if (len)
        memcpy(p + OP_HEADER + keylen, value, len);
    b->len += OP_HEADER + keylen + len;
    put32(b->data + 4, ++b->nops);
    return 0;
}

int kvs_txn_buf_copy(struct kvs_txn_buf *b, const struct kvs_op *op, errmsg_t *err)
{
    if (reserve(b, op->size, err) < 0)
        return -1;
    memcpy(b->data + b->len, op->start, op->size);
    b->len += op->size;
    put32(b->data + 4, ++b->nops);
    return 0;
}
