/* kvs_txn.c - transactions in bytes.
 *
 * Format (integers little-endian):
 *
 *   header      u8 'T'  u8 1 (format)  u16 0  u32 number of operations
 *   operation   u8 type  u8 flags  u16 key length  u32 value length  key  value
 *
 * type         flags            value
 * 1 put        0                the bytes, at most 16 MiB
 * 2 unlink     recursive, must  none
 * 3 mkdir      0                none
 * 4 symlink    0                a key
 * 5 append     0                the bytes, at most 16 MiB
 * 6 guard      0                a tag: u8 1 value, 4 directory or 5 link; 32 bytes
 *              absent           none
 * 7 copy       0                the key it comes from, or "."
 * 8 move       0                the key it comes from
 * 9 putchunks  0                u64 size, 1 byte to 1 TiB; a digest of 20 or 32 bytes for every
 *                               32768 bytes of it and what is left
 *
 * Invariants:
 *  1. Operations take effect in the order of their encoding.
 *  2. One sequence of operations has one encoding: unused bits are zero and no bytes follow the
 *     last operation.
 *  3. A transaction has at most 64 MiB and 2^20 operations; a larger one is refused.
 *
 * Failure: anything else is refused with EPROTO, or with the error of the key or value, and an
 * error message.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_txn.h"
#include "libutil/hex.h"
#include "libutil/le.h"

#define OP_HEADER 8

/* --- values by type of operation; their length is within the limit of the table below --- */

static int check_key(const struct kvs_op *op, errmsg_t *err)
{
    return kvs_key_check((const char *)op->value, op->len, err);
}

static int check_from(const struct kvs_op *op, errmsg_t *err)
{
    if (op->type == KVS_OP_COPY && kvs_key_is_root((const char *)op->value, op->len))
        return 0;
    return check_key(op, err);
}

static int check_tag(const struct kvs_op *op, errmsg_t *err)
{
    bool absent = op->flags & KVS_OP_ABSENT;
    uint8_t type = op->len ? op->value[0] : 0;
    if (op->len != (absent ? 0 : KVS_TAG_SIZE))
        return errmsg_fail(err, EPROTO, "guard of '%.*s' has a tag of %u bytes instead of %d",
                           op->keylen > 80 ? 80 : op->keylen, op->key, op->len,
                           absent ? 0 : KVS_TAG_SIZE);
    if (!absent && type != KVS_TAG_VALUE && type != KVS_TAG_DIR && type != KVS_TAG_LINK)
        return errmsg_fail(err, EPROTO, "guard of '%.*s' has a tag of unknown type %u",
                           op->keylen > 80 ? 80 : op->keylen, op->key, type);
    return 0;
}

static int check_chunks(const struct kvs_op *op, errmsg_t *err)
{
    uint64_t size = op->len >= 8 ? le_get64(op->value) : 0;
    if (size < 1 || size > KVS_SIZE_MAX)
        return errmsg_fail(err, size ? EMSGSIZE : EPROTO,
                           "value in chunks of '%.*s' has %llu bytes: it may have 1 to %llu",
                           op->keylen > 80 ? 80 : op->keylen, op->key, (unsigned long long)size,
                           (unsigned long long)KVS_SIZE_MAX);
    uint64_t n = (size + KVS_CHUNK - 1) / KVS_CHUNK;
    if (op->len - 8 != n * 20 && op->len - 8 != n * 32)
        return errmsg_fail(
            err, EPROTO, "value in chunks of '%.*s': %u bytes of digests do not match %llu chunks",
            op->keylen > 80 ? 80 : op->keylen, op->key, op->len - 8, (unsigned long long)n);
    return 0;
}

/* Check an operation, apart from its bytes. */
static int check_op(const struct kvs_op *op, errmsg_t *err)
{
    static const struct {
        uint8_t flags;
        uint32_t max;
        int (*value)(const struct kvs_op *op, errmsg_t *err);
    } types[] = {
        [KVS_OP_PUT] = {0, KVS_VALUE_MAX, NULL},
        [KVS_OP_UNLINK] = {KVS_OP_RECURSIVE | KVS_OP_MUST, 0, NULL},
        [KVS_OP_MKDIR] = {0, 0, NULL},
        [KVS_OP_SYMLINK] = {0, KVS_KEY_MAX, check_key},
        [KVS_OP_APPEND] = {0, KVS_VALUE_MAX, NULL},
        [KVS_OP_GUARD] = {KVS_OP_ABSENT, KVS_TAG_SIZE, check_tag},
        [KVS_OP_COPY] = {0, KVS_KEY_MAX, check_from},
        [KVS_OP_MOVE] = {0, KVS_KEY_MAX, check_from},
        [KVS_OP_PUTCHUNKS] = {0, KVS_TXN_MAX, check_chunks},
    };
    if (op->type < KVS_OP_PUT || op->type > KVS_OP_PUTCHUNKS)
        return errmsg_fail(err, EPROTO, "a transaction has an operation of unknown type %u",
                           op->type);
    if (op->flags & ~types[op->type].flags)
        return errmsg_fail(err, EPROTO, "a transaction has an operation with unknown flags %#x",
                           op->flags);
    if (kvs_key_check(op->key, op->keylen, err) < 0)
        return -1;
    if (op->len > types[op->type].max) {
        if (types[op->type].max == KVS_VALUE_MAX)
            return errmsg_fail(err, EMSGSIZE,
                               "value of '%.*s' has %u bytes: the limit is %u, put it in chunks",
                               op->keylen > 80 ? 80 : op->keylen, op->key, op->len, KVS_VALUE_MAX);
        return errmsg_fail(err, EPROTO,
                           "operation of type %u in a transaction has a value of %u bytes",
                           op->type, op->len);
    }
    return types[op->type].value ? types[op->type].value(op, err) : 0;
}

void kvs_op_get_chunks(const struct kvs_op *op, struct kvs_op_chunks *ch)
{
    ch->size = le_get64(op->value);
    ch->n = (size_t)((ch->size + KVS_CHUNK - 1) / KVS_CHUNK);
    ch->dsize = (op->len - 8) / ch->n;
    ch->digests = op->value + 8;
}

bool kvs_txn_has(const void *data, size_t len, enum kvs_op_type type)
{
    const uint8_t *p = data, *end = p + len;
    for (p += KVS_TXN_HEADER; end - p >= OP_HEADER;) {
        size_t size = OP_HEADER + (size_t)le_get16(p + 2) + le_get32(p + 4);
        if (p[0] == type)
            return true;
        if (size > (size_t)(end - p))
            break;
        p += size;
    }
    return false;
}

int kvs_txn_open(struct kvs_txn_iter *it, const void *data, size_t len, uint32_t *nops,
                 errmsg_t *err)
{
    const uint8_t *p = data;
    if (len > KVS_TXN_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "transaction has %zu bytes: the limit is %u, commit in parts", len,
                           KVS_TXN_MAX);
    if (len < KVS_TXN_HEADER || p[0] != 'T' || p[1] != 1 || le_get16(p + 2) != 0)
        return errmsg_fail(err, EPROTO, "payload of %zu bytes is not a transaction", len);
    it->left = le_get32(p + 4);
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
    op->keylen = le_get16(it->p + 2);
    op->len = le_get32(it->p + 4);
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

/* Make room for `size` more bytes, with the header in place. */
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

/* Append an operation, whose value is `head` (8 bytes, or NULL), then `value`. */
static int add_op(struct kvs_txn_buf *b, const struct kvs_op *op, const uint8_t *head,
                  const void *value, size_t len, errmsg_t *err)
{
    size_t size = OP_HEADER + (size_t)op->keylen + op->len;
    if (reserve(b, size, err) < 0)
        return -1;
    uint8_t *p = b->data + b->len;
    p[0] = op->type;
    p[1] = op->flags;
    le_put16(p + 2, op->keylen);
    le_put32(p + 4, op->len);
    memcpy(p + OP_HEADER, op->key, op->keylen);
    p += OP_HEADER + op->keylen;
    if (head) {
        memcpy(p, head, 8);
        p += 8;
    }
    if (len)
        memcpy(p, value, len);
    b->len += size;
    le_put32(b->data + 4, ++b->nops);
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
    if (flags > UINT8_MAX || (unsigned)type > UINT8_MAX)
        return errmsg_fail(err, EPROTO, "unknown operation: type %u, flags %#x", (unsigned)type,
                           flags);
    if (check_op(&op, err) < 0)
        return -1;
    return add_op(b, &op, NULL, value, len, err);
}

int kvs_txn_buf_add_chunks(struct kvs_txn_buf *b, const char *key, size_t keylen, uint64_t size,
                           const uint8_t *digests, size_t n, size_t dsize, errmsg_t *err)
{
    uint8_t head[8];
    if (kvs_key_check(key, keylen, err) < 0)
        return -1;
    if ((dsize != 20 && dsize != 32) || n != (size + KVS_CHUNK - 1) / KVS_CHUNK || n == 0)
        return errmsg_fail(err, EINVAL, "%zu chunks do not make a value of %llu bytes", n,
                           (unsigned long long)size);
    if (size > KVS_SIZE_MAX || n > (KVS_TXN_MAX - 8) / dsize)
        return errmsg_fail(err, EMSGSIZE,
                           "value in chunks of '%.*s' has %llu bytes: too long for a transaction",
                           keylen > 80 ? 80 : (int)keylen, key, (unsigned long long)size);
    le_put64(head, size);
    struct kvs_op op = {.type = KVS_OP_PUTCHUNKS,
                        .keylen = (uint16_t)keylen,
                        .len = (uint32_t)(8 + n * dsize),
                        .key = key};
    return add_op(b, &op, head, digests, n * dsize, err);
}

int kvs_txn_buf_copy(struct kvs_txn_buf *b, const struct kvs_op *op, errmsg_t *err)
{
    if (reserve(b, op->size, err) < 0)
        return -1;
    memcpy(b->data + b->len, op->start, op->size);
    b->len += op->size;
    le_put32(b->data + 4, ++b->nops);
    return 0;
}

/* --- tags --- */

static const struct {
    uint8_t type;
    const char *name;
} tags[] = {{KVS_TAG_VALUE, "value-"}, {KVS_TAG_DIR, "dir-"}, {KVS_TAG_LINK, "link-"}};

#define NTAGS (sizeof(tags) / sizeof(tags[0]))
#define TAG_SHORT 20 /* bytes of the shortest digest */

char *kvs_tag_format(const uint8_t tag[KVS_TAG_SIZE], char *buf)
{
    size_t i = 0, n = KVS_TAG_SIZE - 1;
    while (i < NTAGS - 1 && tags[i].type != tag[0])
        i++;
    while (n > TAG_SHORT && tag[n] == 0)
        n--;
    n = n > TAG_SHORT ? KVS_TAG_SIZE - 1 : TAG_SHORT;
    char *p = stpcpy(buf, tags[i].name);
    p = hex_encode(p, tag + 1, n);
    *p = '\0';
    return buf;
}

int kvs_tag_parse(const char *text, size_t len, uint8_t tag[KVS_TAG_SIZE], errmsg_t *err)
{
    for (size_t i = 0; i < NTAGS; i++) {
        size_t n = strlen(tags[i].name);
        if (len < n || memcmp(text, tags[i].name, n) != 0)
            continue;
        if (len - n != 2 * TAG_SHORT && len - n != 2 * (KVS_TAG_SIZE - 1))
            break;
        memset(tag, 0, KVS_TAG_SIZE);
        tag[0] = tags[i].type;
        if (hex_decode(tag + 1, text + n, (len - n) / 2) < 0)
            break;
        return 0;
    }
    return errmsg_fail(
        err, EINVAL,
        "'%.*s' is not a tag: expected value-, dir- or link- and 40 or 64 hexadecimal "
        "digits",
        len > 100 ? 100 : (int)len, text);
}
