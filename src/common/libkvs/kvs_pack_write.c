/* kvs_pack_write.c - writing packs (format: kvs_pack.c).
 *
 * Each key is split at its last number into prefix, digits and suffix.  Keys with equal prefixes
 * and suffixes are a group.  In a group, the keys of one width that have the same value form a
 * bucket, and so do the keys of one width whose values are new (no other key and no entry of the
 * dictionary has them).  kvs_runs.h finds the arithmetic progressions among the numbers of a
 * bucket.  A progression of three or more numbers is written as a run; each other key is an item of
 * its own.
 *
 * Invariants:
 *  1. With a given dictionary, a set of puts has one encoding, whatever the order of the arrays.
 *  2. Each key is in one item.
 *
 * Failure: ENOMEM, and there is nothing to free.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_pack.h"
#include "kvs_pack_format.h"
#include "kvs_runs.h"
#include "libutil/le.h"

#define RUN_MIN 3

static unsigned put_varint(uint8_t *p, uint64_t v)
{
    unsigned n = 0;
    for (; v >= 0x80; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

/* A key, split at its last digits. */
struct split {
    const char *key;
    uint64_t number;
    uint32_t value;
    uint32_t rank; /* rank of its value, by the first key with that value; UINT32_MAX: no other key
                    * has it */
    uint16_t prefix, suffix;
    uint8_t digits, width;
};

struct writer {
    const struct kvs_pack_bytes *values;
    const kvs_dict_t *dict;
    uint32_t *ranks; /* per value: first its rank among shared values, then its number in the pack;
                      * both plus one */
    uint32_t nranks;
    uint32_t *order; /* new values in the order of the pack */
    uint32_t nout;
    uint32_t items;
    uint64_t *numbers; /* scratch */
    uint32_t *next;
    uint8_t *buf; /* items */
    size_t len, cap;
    const struct split *last; /* first key of the preceding item */
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
    while (begin > 0 && end - begin < KVS_PACK_DIGITS && put->key[begin - 1] >= '0' &&
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

/* Order within a group, by buckets. */
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
    if (kind != KVS_PACK_NEW && w->ranks[s->value] == 0) {
        w->order[w->nout++] = s->value;
        w->ranks[s->value] = kvs_dict_count(w->dict) + w->nout;
    }
    if (kind != KVS_PACK_ONE) {
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
    return write_item(w, s, KVS_PACK_ONE, 0, 1);
}

/* Write a bucket: keys of one group, width and rank, sorted by number. */
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
            if (w->next[i] == 0) /* the element is in a run already */
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
        if (write_item(w, &s[i], fresh ? KVS_PACK_NEW : KVS_PACK_SAME, step, count) < 0)
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

/* Give numbers without leading zeros the width of those with leading zeros, if they are as long. */
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
