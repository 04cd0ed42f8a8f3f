/* kvs_pack.c - packed transactions: the format, its reader and its writer.
 *
 * Format (numbers of the header little-endian, others varint: 7 bits a byte, the lowest first, the
 * highest bit set in all but the last byte, no byte more than needed):
 *
 *   header   u8 'P'  u8 1 (format)  u16 known  u32 puts  u32 values  u32 items
 *   value    varint length, bytes                                        (as many as the header says)
 *   item     varint s, varint n, n bytes    first key: s bytes of the item's before, then these
 *            u8 kind                        0 one key, 1 run of one value, 2 run of new values
 *            varint v                       0: the next value of this pack; v > 0: value number v-1
 *            in a run also
 *            varint suffix, digits, width, step, count
 *   rest     nothing, or a transaction (kvs_txn.c) of one operation at least
 *
 * `known` values, from packs before on the same stream, have the first numbers (kvs_dict.h); those
 * of this pack follow.
 *
 * The keys of a run are those that printf("%0*u") makes of the number that stands in `digits`
 * digits before the last `suffix` bytes of the first key, with `width`, and of the numbers `step`
 * apart that follow, `count` in all.  A run of new values has one more of them for each key: that
 * is the exchange of as many processes, one key each, in one item.
 *
 * What the writer looks for: keys are split at their last digits; those that agree before and after
 * are a group; within a group those with one value, and all whose value nobody shares, are numbers
 * for kvs_runs.h.  A chain of less than three is written key by key.
 *
 * Invariants:
 *  1. Values of a pack are numbered in the order in which items refer to them; each is referred to.
 *  2. One set of puts has one encoding, whatever the order in which it came together.
 *  3. What a reader yields is bounded whatever the bytes are: by KVS_TXN_OPS_MAX operations and
 *     KVS_TXN_MAX bytes of keys.  It allocates 16 bytes for each value, which has at least one byte
 *     in the pack, and nothing for a put.
 *
 * Failure: EPROTO with a sentence for bytes that are no pack, the error of the key for a key that is
 * none.  Whether a run meets a key of another item is not checked: the later one wins then.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_pack.h"
#include "kvs_runs.h"
#include "libutil/le.h"
#include "libutil/le.h"

#define DIGITS_MAX 18
#define NUMBER_END 1000000000000000000ull /* 10^18 */
#define RUN_MIN 3
enum { KIND_ONE = 0, KIND_SAME = 1, KIND_NEW = 2 };

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

static unsigned put_varint(uint8_t *p, uint64_t v)
{
    unsigned n = 0;
    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
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
        return errmsg_fail(err, EPROTO, "payload of %zu bytes is no packed transaction", len);
    if (le_get16(p + 2) != kvs_dict_count(dict))
        return errmsg_fail(err, EPROTO,
                           "packed transaction builds on %u values where %u came before",
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

/* Write `number` into the key at hand, between what is before and behind it in the base. */
static int make_key(struct kvs_pack_iter *it, uint64_t number, errmsg_t *err)
{
    unsigned digits = count_digits(number);
    unsigned width = digits > it->width ? digits : it->width;
    size_t len = (size_t)it->prefix + width + it->suffix;
    if (len > KVS_KEY_MAX)
        return bad_item(it, err, "the keys of a run grow too long");
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
        get_varint(&it->p, it->end, DIGITS_MAX, &digits) < 0 ||
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
    /* Keys of a run differ in digits only: when the last, which is the longest, is a key, all are. */
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
        return bad_item(it, err, "there are fewer than the puts it promised");
    if (get_varint(&it->p, it->end, it->baselen, &shared) < 0 ||
        get_varint(&it->p, it->end, KVS_KEY_MAX - shared, &n) < 0 ||
        (size_t)(it->end - it->p) < n + 1)
        return bad_item(it, err, "its key is cut off or too long");
    if (n > 0 && shared < it->baselen && it->base[shared] == (char)*it->p)
        return bad_item(it, err, "its key shares more with the one before than it says");
    memcpy(it->base + shared, it->p, n);
    it->baselen = (uint16_t)(shared + n);
    it->p += n;
    if (kvs_key_check(it->base, it->baselen, err) < 0)
        return -1;
    unsigned kind = *it->p++;
    if (kind > KIND_NEW || get_varint(&it->p, it->end, it->seen, &v) < 0 ||
        (kind == KIND_NEW && v != 0))
        return bad_item(it, err, "it has no such kind or value");
    it->ascending = kind == KIND_NEW;
    it->count = 1;
    if (kind == KIND_ONE) {
        memcpy(it->key, it->base, it->baselen);
        it->keylen = it->baselen;
        it->step = 0;
    } else if (open_run(it, err) < 0) {
        return -1;
    }
    uint32_t fresh = v > 0 ? 0 : it->ascending ? it->count : 1;
    if (fresh > it->nvalues - it->seen)
        return bad_item(it, err, "there are fewer values than it needs");
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
                               "packed transaction has %u items and %u values that nothing needs",
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

/* --- writing --- */

/* A key, split at its last digits. */
struct split {
    const char *key;
    uint64_t number;
    uint32_t value;
    uint32_t rank; /* of its value, by the first key that has it; UINT32_MAX: nobody shares it */
    uint16_t prefix, suffix;
    uint8_t digits, width;
};

struct writer {
    const struct kvs_pack_bytes *values;
    const kvs_dict_t *dict;
    uint32_t *ranks; /* of values that are shared, by their first keys, plus one; then their numbers
                      * in the pack, plus one */
    uint32_t nranks;
    uint32_t *order; /* new values in the order of the pack */
    uint32_t nout;
    uint32_t items;
    uint64_t *numbers; /* scratch */
    uint32_t *next;
    uint8_t *buf; /* items */
    size_t len, cap;
    const struct split *last; /* the item before */
};

static void split_key(const struct kvs_pack_put *put, struct split *s)
{
    unsigned end = put->keylen, begin;
    while (end > 0 && !(put->key[end - 1] >= '0' && put->key[end - 1] <= '9'))
        end--;
    s->key = put->key;
    s->value = put->value;
    s->number = 0;
    if (end == 0) {
        s->prefix = put->keylen;
        s->digits = 0;
        s->suffix = 0;
        return;
    }
    begin = end;
    while (begin > 0 && end - begin < DIGITS_MAX && put->key[begin - 1] >= '0' &&
           put->key[begin - 1] <= '9')
        begin--;
    for (unsigned i = begin; i < end; i++)
        s->number = s->number * 10 + (uint64_t)(put->key[i] - '0');
    s->prefix = (uint16_t)begin;
    s->digits = (uint8_t)(end - begin);
    s->suffix = (uint16_t)(put->keylen - end);
}

static const char *suffix_of(const struct split *s)
{
    return s->key + s->prefix + s->digits;
}

static int compare_bytes(const char *a, size_t alen, const char *b, size_t blen)
{
    int rc = memcmp(a, b, alen < blen ? alen : blen);
    return rc ? rc : (alen > blen) - (alen < blen);
}

static int compare_group(const struct split *a, const struct split *b)
{
    int rc = compare_bytes(a->key, a->prefix, b->key, b->prefix);
    if (rc == 0)
        rc = (a->digits > 0) - (b->digits > 0);
    return rc ? rc : compare_bytes(suffix_of(a), a->suffix, suffix_of(b), b->suffix);
}

static int compare_keys(const void *x, const void *y)
{
    const struct split *a = x, *b = y;
    int rc = compare_group(a, b);
    if (rc == 0)
        rc = (a->number > b->number) - (a->number < b->number);
    return rc ? rc : (int)a->digits - (int)b->digits;
}

/* Within a group: what may be a run stands together. */
static int compare_buckets(const void *x, const void *y)
{
    const struct split *a = x, *b = y;
    if (a->width != b->width)
        return (int)a->width - (int)b->width;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static size_t key_len(const struct split *s)
{
    return (size_t)s->prefix + s->digits + s->suffix;
}

static int write_item(struct writer *w, const struct split *s, unsigned kind, uint64_t step,
                      uint32_t count)
{
    size_t keylen = key_len(s), shared = 0;
    if (w->len + keylen + 64 > w->cap) {
        size_t cap = w->cap * 2 + keylen + 64;
        uint8_t *p = realloc(w->buf, cap);
        if (!p)
            return -1;
        w->buf = p;
        w->cap = cap;
    }
    if (w->last) {
        size_t most = key_len(w->last);
        if (most > keylen)
            most = keylen;
        while (shared < most && s->key[shared] == w->last->key[shared])
            shared++;
    }
    uint8_t *p = w->buf + w->len;
    p += put_varint(p, shared);
    p += put_varint(p, keylen - shared);
    memcpy(p, s->key + shared, keylen - shared);
    p += keylen - shared;
    *p++ = (uint8_t)kind;
    p += put_varint(p, w->ranks[s->value]);
    if (kind != KIND_NEW && w->ranks[s->value] == 0) {
        w->order[w->nout++] = s->value;
        w->ranks[s->value] = kvs_dict_count(w->dict) + w->nout;
    }
    if (kind != KIND_ONE) {
        p += put_varint(p, s->suffix);
        p += put_varint(p, s->digits);
        p += put_varint(p, s->width);
        p += put_varint(p, step);
        p += put_varint(p, count);
    }
    w->len = (size_t)(p - w->buf);
    w->last = s;
    w->items++;
    return 0;
}

static int write_one(struct writer *w, const struct split *s)
{
    return write_item(w, s, KIND_ONE, 0, 1);
}

/* Keys of one group, width and value (or of values nobody shares), by number. */
static int write_bucket(struct writer *w, const struct split *s, uint32_t n)
{
    uint32_t chains;
    uint64_t step = 0;
    if (n >= RUN_MIN) {
        for (uint32_t i = 0; i < n; i++)
            w->numbers[i] = s[i].number;
        step = kvs_runs_step(w->numbers, n, w->next, &chains);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = 1, at = i, after;
        if (step > 0) {
            if (w->next[i] == 0) /* is in a run already */
                continue;
            while (w->next[at] != n) {
                at = w->next[at];
                count++;
            }
        }
        if (count < RUN_MIN) {
            if (write_one(w, &s[i]) < 0)
                return -1;
            continue;
        }
        bool fresh = s->rank == UINT32_MAX;
        if (write_item(w, &s[i], fresh ? KIND_NEW : KIND_SAME, step, count) < 0)
            return -1;
        for (at = i; count > 0; at = after, count--) {
            after = w->next[at];
            if (fresh)
                w->order[w->nout++] = s[at].value;
            w->next[at] = 0; /* no element follows itself or the first */
        }
    }
    return 0;
}

/* Numbers without leading zeros go with those that have some, where they may. */
static void choose_widths(struct split *s, uint32_t n)
{
    uint32_t padded = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (s[i].digits > 1 && s[i].key[s[i].prefix] == '0')
            padded |= 1u << s[i].digits;
    }
    for (uint32_t i = 0; i < n; i++) {
        unsigned d = s[i].digits;
        if (d > 1 && s[i].key[s[i].prefix] == '0') {
            s[i].width = (uint8_t)d;
            continue;
        }
        while (d > 1 && !(padded & 1u << d))
            d--;
        s[i].width = (uint8_t)d;
    }
}

static int write_group(struct writer *w, struct split *s, uint32_t n)
{
    uint32_t end;
    if (n >= RUN_MIN && s->digits > 0) {
        choose_widths(s, n);
        qsort(s, n, sizeof(*s), compare_buckets);
        for (uint32_t i = 0; i < n; i = end) {
            for (end = i + 1; end < n && s[end].width == s[i].width && s[end].rank == s[i].rank;)
                end++;
            if (write_bucket(w, s + i, end - i) < 0)
                return -1;
        }
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (write_one(w, &s[i]) < 0)
            return -1;
    }
    return 0;
}

static int write_items(struct writer *w, struct split *s, uint32_t n, uint32_t nvalues)
{
    uint32_t known = kvs_dict_count(w->dict), end;
    for (uint32_t i = 0; i < n; i++) {
        const struct kvs_pack_bytes *v = &w->values[s[i].value];
        uint32_t *rank = &w->ranks[s[i].value];
        if (*rank == 0)
            *rank = v->refs > 1 || kvs_dict_find(w->dict, v->data, v->len) != UINT32_MAX
                        ? ++w->nranks
                        : UINT32_MAX;
        s[i].rank = *rank;
    }
    memset(w->ranks, 0, nvalues * sizeof(*w->ranks));
    for (uint32_t i = 0; known > 0 && i < nvalues; i++)
        w->ranks[i] = kvs_dict_find(w->dict, w->values[i].data, w->values[i].len) + 1;
    for (uint32_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && compare_group(&s[i], &s[end]) == 0;)
            end++;
        if (write_group(w, s + i, end - i) < 0)
            return -1;
    }
    return 0;
}

static int put_together(struct writer *w, uint32_t n, const void *rest, size_t restlen, size_t head,
                        uint8_t **buf, size_t *len)
{
    uint8_t scratch[10], *p;
    size_t size = KVS_PACK_HEADER + w->len + restlen;
    for (uint32_t i = 0; i < w->nout; i++) {
        uint32_t vlen = w->values[w->order[i]].len;
        size += put_varint(scratch, vlen) + vlen;
    }
    if (!(*buf = malloc(head + size)))
        return -1;
    *len = size;
    p = *buf + head;
    memset(p, 0, KVS_PACK_HEADER);
    p[0] = 'P';
    p[1] = 1;
    le_put16(p + 2, (uint16_t)kvs_dict_count(w->dict));
    le_put32(p + 4, n);
    le_put32(p + 8, w->nout);
    le_put32(p + 12, w->items);
    p += KVS_PACK_HEADER;
    for (uint32_t i = 0; i < w->nout; i++) {
        const struct kvs_pack_bytes *v = &w->values[w->order[i]];
        p += put_varint(p, v->len);
        if (v->len)
            memcpy(p, v->data, v->len);
        p += v->len;
    }
    if (w->len)
        memcpy(p, w->buf, w->len);
    if (restlen)
        memcpy(p + w->len, rest, restlen);
    return 0;
}

static int learn(const struct writer *w, kvs_dict_t *dict)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < w->nout; i++) {
        const struct kvs_pack_bytes *v = &w->values[w->order[i]];
        rc = kvs_dict_learn(dict, v->data, v->len);
    }
    return rc;
}

int kvs_pack_write(const struct kvs_pack_put *puts, uint32_t n, const struct kvs_pack_bytes *values,
                   uint32_t nvalues, const void *rest, size_t restlen, kvs_dict_t *dict,
                   size_t head, uint8_t **buf, size_t *len)
{
    struct writer w = {.values = values, .dict = dict};
    struct split *s = calloc(n + 1u, sizeof(*s));
    int rc = -1;
    w.ranks = calloc(nvalues + 1u, sizeof(*w.ranks));
    w.order = calloc(nvalues + 1u, sizeof(*w.order));
    w.numbers = calloc(n + 1u, sizeof(*w.numbers));
    w.next = calloc(n + 1u, sizeof(*w.next));
    if (s && w.ranks && w.order && w.numbers && w.next) {
        for (uint32_t i = 0; i < n; i++)
            split_key(&puts[i], &s[i]);
        qsort(s, n, sizeof(*s), compare_keys);
        rc = write_items(&w, s, n, nvalues);
        if (rc == 0)
            rc = put_together(&w, n, rest, restlen, head, buf, len);
        if (rc == 0 && (rc = learn(&w, dict)) < 0) {
            free(*buf);
            *buf = NULL;
        }
    }
    free(w.buf);
    free(w.next);
    free(w.numbers);
    free(w.order);
    free(w.ranks);
    free(s);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
