/* kvs_pack.c - packed transactions: the format and its reader (the writer is kvs_pack_write.c).
 *
 * Format.  Numbers in the header are little-endian.  The others are varints: 7 bits a byte, the
 * lowest first, the highest bit set in all bytes but the last, in the shortest form.
 *
 *   header   u8 'P'  u8 1 (format)  u16 known  u32 puts  u32 values  u32 items
 *   values   each: varint length, bytes
 *   items    each:
 *            varint s, varint n, n bytes   its first key: s bytes of the preceding item's first
 *                                          key, then these n bytes
 *            u8 kind                       0 one key, 1 run with one value, 2 run with new values
 *            varint v                      0: the next value of this pack; v > 0: value v-1
 *            in a run, varints suffix, digits, width, step, count
 *   rest     nothing, or a transaction (kvs_txn.c) with at least one operation
 *
 * Values 0 to known-1 come from earlier packs of the same stream (kvs_dict.h); the values of this
 * pack follow.
 *
 * Runs.  The first key has a number in the `digits` digits before its last `suffix` bytes.  The
 * keys of the run have `count` numbers in its place, from this one in steps of `step`, as
 * printf("%0*u") prints them with `width`.  In a run of kind 2 each key has the next new value: one
 * item holds an exchange in which each process puts one key.
 *
 * Invariants:
 *  1. The values of a pack are in the order in which items first refer to them, and each is
 *     referred to.
 *  2. Whatever the bytes are, a reader yields at most KVS_TXN_OPS_MAX operations and KVS_TXN_MAX
 *     bytes of keys.  It allocates 16 bytes for each value, which has at least one byte in the pack
 *     or is one of at most KVS_DICT_MAX in the dictionary, and nothing for a put.
 *
 * Failure: EPROTO with an error message for bytes that are not a pack; the error of kvs_key_check()
 * for an invalid key.  That a run contains a key of another item is not detected: the later put
 * takes effect.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_pack.h"
#include "kvs_pack_format.h"
#include "libutil/le.h"

#define NUMBER_END 1000000000000000000ull /* 10^18 */

/* --- numbers --- */

static int get_varint(const uint8_t **p, const uint8_t *end, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 63 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            if (v > max || (b == 0 && shift > 0))
                return -1;
            *out = v;
            return 0;
        }
    }
    return -1;
}

static unsigned count_digits(uint64_t v)
{
    unsigned n = 1;
    for (; v >= 10; v /= 10)
        n++;
    return n;
}

/* --- reading --- */

int kvs_pack_open(struct kvs_pack_iter *it, const void *data, size_t len, const kvs_dict_t *dict,
                  errmsg_t *err)
{
    const uint8_t *p = data;
    uint32_t fresh;
    if (len > KVS_TXN_MAX)
        return errmsg_fail(err, EMSGSIZE, "packed transaction has %zu bytes: the limit is %u", len,
                           KVS_TXN_MAX);
    if (len < KVS_PACK_HEADER || p[0] != 'P' || p[1] != 1)
        return errmsg_fail(err, EPROTO, "payload of %zu bytes is not a packed transaction", len);
    if (le_get16(p + 2) != kvs_dict_count(dict))
        return errmsg_fail(err, EPROTO,
                           "packed transaction refers to %u preceding values, but there are %u",
                           le_get16(p + 2), kvs_dict_count(dict));
    memset(it, 0, offsetof(struct kvs_pack_iter, base));
    it->puts = it->left = le_get32(p + 4);
    it->known = it->seen = le_get16(p + 2);
    fresh = le_get32(p + 8);
    it->items = le_get32(p + 12);
    it->p = p + KVS_PACK_HEADER;
    it->end = p + len;
    if (it->puts > KVS_TXN_OPS_MAX)
        return errmsg_fail(err, EMSGSIZE, "packed transaction has %u puts: the limit is %u",
                           it->puts, KVS_TXN_OPS_MAX);
    if (fresh > it->puts || it->items > it->puts || fresh > len ||
        (it->items == 0) != (it->puts == 0))
        return errmsg_fail(err, EPROTO,
                           "packed transaction of %u puts cannot have %u values and %u items",
                           it->puts, fresh, it->items);
    it->nvalues = it->known + fresh;
    if (it->nvalues > 0 && !(it->values = malloc(it->nvalues * sizeof(*it->values))))
        return errmsg_fail(err, ENOMEM, "out of memory for a packed transaction of %u values",
                           it->nvalues);
    for (uint32_t i = 0; i < it->known; i++)
        it->values[i].data = kvs_dict_value(dict, i, &it->values[i].len);
    for (uint32_t i = it->known; i < it->nvalues; i++) {
        uint64_t n;
        if (get_varint(&it->p, it->end, KVS_VALUE_MAX, &n) < 0 || n > (size_t)(it->end - it->p)) {
            kvs_pack_close(it);
            return errmsg_fail(err, EPROTO,
                               "a value of a packed transaction is cut off or exceeds %u bytes",
                               KVS_VALUE_MAX);
        }
        it->values[i].data = it->p;
        it->values[i].len = (uint32_t)n;
        it->p += n;
    }
    return 0;
}

void kvs_pack_close(struct kvs_pack_iter *it)
{
    int saved = errno;
    free(it->values);
    it->values = NULL;
    errno = saved;
}

static int bad_item(struct kvs_pack_iter *it, errmsg_t *err, const char *what)
{
    return errmsg_fail(err, EPROTO, "an item of a packed transaction, %zu bytes from its end: %s",
                       (size_t)(it->end - it->p), what);
}

/* Make the current key: `number` between the prefix and the suffix of the base. */
static int make_key(struct kvs_pack_iter *it, uint64_t number, errmsg_t *err)
{
    unsigned digits = count_digits(number);
    unsigned width = digits > it->width ? digits : it->width;
    size_t len = (size_t)it->prefix + width + it->suffix;
    if (len > KVS_KEY_MAX)
        return bad_item(it, err, "the keys of a run become too long");
    char *d = it->key + it->prefix + width;
    for (unsigned i = 0; i < width; i++, number /= 10)
        *--d = (char)('0' + number % 10);
    memcpy(it->key + it->prefix + width, it->base + it->baselen - it->suffix, it->suffix);
    it->keylen = (uint16_t)len;
    return 0;
}

static int open_run(struct kvs_pack_iter *it, errmsg_t *err)
{
    uint64_t suffix, digits, width, step, count;
    if (get_varint(&it->p, it->end, it->baselen, &suffix) < 0 ||
        get_varint(&it->p, it->end, KVS_PACK_DIGITS, &digits) < 0 ||
        get_varint(&it->p, it->end, digits, &width) < 0 ||
        get_varint(&it->p, it->end, NUMBER_END - 1, &step) < 0 ||
        get_varint(&it->p, it->end, it->left, &count) < 0)
        return bad_item(it, err, "a run has a number that is too large");
    if (width == 0 || step == 0 || count < 2 || digits + suffix > it->baselen)
        return bad_item(it, err, "a run has a number that is too small");
    it->suffix = (uint16_t)suffix;
    it->prefix = (uint16_t)(it->baselen - suffix - digits);
    it->width = (uint16_t)width;
    it->step = step;
    it->number = 0;
    for (const char *d = it->base + it->prefix; d < it->base + it->prefix + digits; d++) {
        if (*d < '0' || *d > '9')
            return bad_item(it, err, "a run has no number where it should be");
        it->number = it->number * 10 + (uint64_t)(*d - '0');
    }
    if (digits > width && it->base[it->prefix] == '0')
        return bad_item(it, err, "a run begins with a number of another width");
    if ((NUMBER_END - 1 - it->number) / step < count - 1)
        return bad_item(it, err, "a run exceeds 18 digits");
    /* Keys of a run differ in digits only: if the last, which is the longest, is valid, all are. */
    memcpy(it->key, it->base, it->prefix);
    if (make_key(it, it->number + step * (count - 1), err) < 0)
        return -1;
    it->count = (uint32_t)count;
    return kvs_key_check(it->key, it->keylen, err);
}

static int open_item(struct kvs_pack_iter *it, errmsg_t *err)
{
    uint64_t shared, n, v;
    if (it->items-- == 0)
        return bad_item(it, err, "it has fewer puts than announced");
    if (get_varint(&it->p, it->end, it->baselen, &shared) < 0 ||
        get_varint(&it->p, it->end, KVS_KEY_MAX - shared, &n) < 0 ||
        (size_t)(it->end - it->p) < n + 1)
        return bad_item(it, err, "its key is cut off or too long");
    if (n > 0 && shared < it->baselen && it->base[shared] == (char)*it->p)
        return bad_item(it, err,
                        "its key shares a longer prefix with the preceding key than it states");
    memcpy(it->base + shared, it->p, n);
    it->baselen = (uint16_t)(shared + n);
    it->p += n;
    if (kvs_key_check(it->base, it->baselen, err) < 0)
        return -1;
    unsigned kind = *it->p++;
    if (kind > KVS_PACK_NEW || get_varint(&it->p, it->end, it->seen, &v) < 0 ||
        (kind == KVS_PACK_NEW && v != 0))
        return bad_item(it, err, "its kind or its value index is invalid");
    it->ascending = kind == KVS_PACK_NEW;
    it->count = 1;
    if (kind == KVS_PACK_ONE) {
        memcpy(it->key, it->base, it->baselen);
        it->keylen = it->baselen;
        it->step = 0;
    } else if (open_run(it, err) < 0) {
        return -1;
    }
    uint32_t fresh = v > 0 ? 0 : it->ascending ? it->count : 1;
    if (fresh > it->nvalues - it->seen)
        return bad_item(it, err, "it has fewer values than its items refer to");
    it->value = v > 0 ? (uint32_t)v - 1 : it->seen;
    it->seen += fresh;
    return 0;
}

static int next_rest(struct kvs_pack_iter *it, struct kvs_op *op, uint32_t *value, errmsg_t *err)
{
    if (!it->in_rest) {
        uint32_t nops;
        if (it->items > 0 || it->seen != it->nvalues)
            return errmsg_fail(err, EPROTO,
                               "packed transaction has %u surplus items and %u unused values",
                               it->items, it->nvalues - it->seen);
        if (it->p == it->end)
            return 0;
        if (kvs_txn_open(&it->rest, it->p, (size_t)(it->end - it->p), &nops, err) < 0)
            return -1;
        if (nops == 0 || nops > KVS_TXN_OPS_MAX - it->puts)
            return errmsg_fail(err, nops ? EMSGSIZE : EPROTO,
                               "packed transaction has %u puts and %u other operations", it->puts,
                               nops);
        it->in_rest = true;
    }
    *value = KVS_PACK_NO_VALUE;
    return kvs_txn_next(&it->rest, op, err);
}

int kvs_pack_next(struct kvs_pack_iter *it, struct kvs_op *op, uint32_t *value, errmsg_t *err)
{
    if (it->left == 0)
        return next_rest(it, op, value, err);
    if (it->count == 0 && open_item(it, err) < 0)
        return -1;
    if (it->step > 0) {
        if (make_key(it, it->number, err) < 0)
            return -1;
        it->number += it->step;
    }
    it->key_bytes += it->keylen;
    if (it->key_bytes > KVS_TXN_MAX)
        return errmsg_fail(err, EMSGSIZE, "keys of a packed transaction exceed %u bytes",
                           KVS_TXN_MAX);
    memset(op, 0, sizeof(*op));
    op->type = KVS_OP_PUT;
    op->key = it->key;
    op->keylen = it->keylen;
    op->value = it->values[it->value].data;
    op->len = it->values[it->value].len;
    *value = it->value;
    it->value += it->ascending;
    it->count--;
    it->left--;
    return 1;
}

int kvs_pack_learn(const struct kvs_pack_iter *it, kvs_dict_t *dict)
{
    int rc = 0;
    for (uint32_t i = it->known; rc == 0 && i < it->nvalues; i++)
        rc = kvs_dict_learn(dict, it->values[i].data, it->values[i].len);
    return rc;
}

int kvs_pack_check(const void *data, size_t len, const kvs_dict_t *dict, uint32_t *nops,
                   errmsg_t *err)
{
    struct kvs_pack_iter it;
    struct kvs_op op;
    uint32_t n = 0, value;
    int rc;
    if (kvs_pack_is(data, len)) {
        if (kvs_pack_open(&it, data, len, dict, err) < 0)
            return -1;
        while ((rc = kvs_pack_next(&it, &op, &value, err)) == 1)
            n++;
        kvs_pack_close(&it);
    } else {
        if (kvs_txn_open(&it.rest, data, len, NULL, err) < 0)
            return -1;
        while ((rc = kvs_txn_next(&it.rest, &op, err)) == 1)
            n++;
    }
    if (nops)
        *nops = n;
    return rc;
}
