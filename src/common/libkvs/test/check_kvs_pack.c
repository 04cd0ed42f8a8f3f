/* check_kvs_pack.c - packed transactions: merged in any tree they say the same, each thing once. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_pack.h"
#include "libkvs/kvs_set.h"
#include "libkvs/kvsstore.h"
#include "libkvs/test/store_mem.h"
#include "libutil/test/suite.h"

struct pack {
    uint8_t *data;
    size_t len;
};

static uint32_t random_state;

static uint32_t rnd(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void put(struct kvs_txn_buf *b, const char *key, const void *val, size_t len)
{
    ck_assert_int_eq(kvs_txn_buf_add(b, KVS_OP_PUT, 0, key, strlen(key), val, len, NULL), 0);
}

static void merge(kvs_set_t *s, const void *data, size_t len)
{
    errmsg_t err = {""};
    ck_assert_msg(kvs_set_merge(s, data, len, NULL, &err) == 0, "%s", err.text);
}

static struct pack encode(kvs_set_t *s)
{
    struct pack p;
    uint8_t *buf;
    ck_assert_int_eq(kvs_set_encode(s, NULL, 5, &buf, &p.len), 0);
    p.data = malloc(p.len);
    memcpy(p.data, buf + 5, p.len);
    free(buf);
    ck_assert_uint_le(p.len, kvs_set_bytes(s) + KVS_PACK_HEADER);
    return p;
}

/* What a pack says, as text in the order of keys, then the rest. */
static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *dump(const void *data, size_t len)
{
    struct kvs_pack_iter it;
    struct kvs_op op;
    errmsg_t err = {""};
    uint32_t value;
    char **lines = calloc(200000, sizeof(*lines));
    size_t n = 0, nputs = 0, size = 1;
    int rc;
    ck_assert_msg(kvs_pack_open(&it, data, len, NULL, &err) == 0, "%s", err.text);
    while ((rc = kvs_pack_next(&it, &op, &value, &err)) == 1) {
        ck_assert(value == KVS_PACK_NO_VALUE || value < it.nvalues);
        ck_assert(asprintf(&lines[n], "%d %.*s=%u:%.*s\n", op.type, op.keylen, op.key, op.len,
                           op.len > 40 ? 40 : (int)op.len, (const char *)op.value) > 0);
        size += strlen(lines[n++]);
        if (value != KVS_PACK_NO_VALUE)
            nputs++;
    }
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_uint_eq(nputs, it.puts);
    kvs_pack_close(&it);
    qsort(lines, nputs, sizeof(*lines), compare);
    char *text = malloc(size), *p = text;
    *p = '\0';
    for (size_t i = 0; i < n; i++) {
        p = stpcpy(p, lines[i]);
        free(lines[i]);
    }
    free(lines);
    return text;
}

/* The pack of the set has this many puts, of this many distinct values. */
static void expect_set(kvs_set_t *s, uint32_t puts, uint32_t values)
{
    struct pack p = encode(s);
    struct kvs_pack_iter it;
    errmsg_t err = {""};

    ck_assert_msg(kvs_pack_open(&it, p.data, p.len, NULL, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(it.puts, puts);
    ck_assert_uint_eq(it.nvalues, values);
    kvs_pack_close(&it);
    free(p.data);
}

START_TEST(round_trip)
{
    kvs_set_t *s = kvs_set_create();
    struct kvs_txn_buf b = {0}, other = {0};
    put(&b, "a.k1", "one", 3);
    put(&b, "a.k2", "two", 3);
    put(&b, "a.k1", "uno", 3);
    put(&b, "empty", "", 0);
    put(&b, "x007y", "one", 3);
    merge(s, b.data, b.len);
    expect_set(s, 4, 4);
    put(&other, "a.k1", "tre", 3);
    ck_assert_int_eq(kvs_txn_buf_add(&other, KVS_OP_UNLINK, 0, "empty", 5, NULL, 0, NULL), 0);
    merge(s, other.data, other.len);
    ck_assert_uint_eq(kvs_set_rest(s), 2);
    struct pack p = encode(s);
    char *text = dump(p.data, p.len);
    ck_assert_str_eq(text, "1 a.k1=3:uno\n1 a.k2=3:two\n1 empty=0:\n1 x007y=3:one\n"
                           "1 a.k1=3:tre\n2 empty=0:\n");
    free(text);
    free(p.data);
    kvs_set_clear(s);
    p = encode(s);
    ck_assert_uint_eq(p.len, KVS_PACK_HEADER);
    text = dump(p.data, p.len);
    ck_assert_str_eq(text, "");
    free(text);
    free(p.data);
    kvs_set_destroy(s);
    kvs_txn_buf_clear(&b);
    kvs_txn_buf_clear(&other);
}
END_TEST

/* Sizes that are the reason for all this. */
static size_t packed_size(unsigned from, unsigned n, unsigned step, const char *fmt, size_t vlen,
                          bool unique)
{
    kvs_set_t *s = kvs_set_create();
    char *val = calloc(1, vlen);
    for (unsigned i = 0; i < n; i++) {
        struct kvs_txn_buf b = {0};
        char key[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(key, sizeof(key), fmt, from + i * step);
#pragma GCC diagnostic pop
        if (unique)
            snprintf(val, vlen, "%u", i);
        put(&b, key, val, vlen);
        merge(s, b.data, b.len);
        kvs_txn_buf_clear(&b);
    }
    struct pack p = encode(s);
    free(p.data);
    free(val);
    kvs_set_destroy(s);
    return p.len;
}

START_TEST(sizes)
{
    size_t one = packed_size(0, 1, 1, "job.key-%u", 512, false);
    ck_assert_uint_le(one, 560);
    ck_assert_uint_le(packed_size(0, 64, 1, "job.key-%u", 512, false), one + 10);
    ck_assert_uint_le(packed_size(0, 10000, 1, "job.key-%u", 512, false), one + 10);
    ck_assert_uint_le(packed_size(5, 10000, 16, "job.%08u.addr", 512, false), one + 20);
    /* Keys of their own values cost next to nothing beside the values. */
    ck_assert_uint_le(packed_size(0, 1000, 1, "job.%u.addr", 16, true), 1000 * 17 + 50);
}
END_TEST

/* Processes dealt out in turn: what some brokers gathered is rows interleaved, and becomes one
 * again. */
START_TEST(interleaved)
{
    kvs_set_t *all = kvs_set_create(), *some = kvs_set_create();
    size_t largest = 0;
    for (unsigned broker = 0; broker < 16; broker++) {
        kvs_set_t *s = kvs_set_create();
        for (unsigned i = broker; i < 1024; i += 16) {
            struct kvs_txn_buf b = {0};
            char key[32];
            for (unsigned j = 0; j < 3; j++) {
                snprintf(key, sizeof(key), "kap.k%u", i * 3 + j);
                put(&b, key, "the same for all", 16);
            }
            merge(s, b.data, b.len);
            kvs_txn_buf_clear(&b);
        }
        struct pack p = encode(s);
        merge(all, p.data, p.len);
        if (broker % 3 == 1)
            merge(some, p.data, p.len);
        largest = p.len > largest ? p.len : largest;
        free(p.data);
        kvs_set_destroy(s);
    }
    ck_assert_uint_le(largest, 100);
    expect_set(all, 3072, 1);
    struct pack p = encode(all);
    ck_assert_uint_le(p.len, 60);
    free(p.data);
    p = encode(some);
    ck_assert_uint_le(p.len, 250);
    free(p.data);
    kvs_set_destroy(some);
    kvs_set_destroy(all);
}
END_TEST

/* Random transactions, merged in a random tree, twice: the same bytes, and as a map the same as
 * from one set that saw everything in the order of a walk through the tree. */
static void random_txn(struct kvs_txn_buf *b, bool conflicts, unsigned number, bool rest)
{
    static uint8_t big[5000];
    unsigned n = rnd(6);
    for (unsigned i = 0; i < n; i++) {
        char key[64], val[32];
        unsigned k = conflicts ? rnd(40) : number * 6 + i, kind = rnd(6);
        switch (kind) {
        case 0:
            snprintf(key, sizeof(key), "k%u", k);
            break;
        case 1:
            snprintf(key, sizeof(key), "d.%03u.x", k);
            break;
        case 2:
            snprintf(key, sizeof(key), "e%02u", k);
            break;
        case 3:
            snprintf(key, sizeof(key), "p.%u.q.%u", k, k / 3);
            break;
        default:
            snprintf(key, sizeof(key), kind == 4 ? "plain-%u" : "z.9-%u", k * 1000003);
        }
        if (rnd(8) == 0) {
            memset(big, (int)rnd(3), sizeof(big));
            put(b, key, big, sizeof(big));
        } else {
            int len = snprintf(val, sizeof(val), "v%u", rnd(2) ? rnd(4) : k);
            put(b, key, val, (size_t)len);
        }
    }
    if (rest && rnd(4) == 0)
        ck_assert_int_eq(kvs_txn_buf_add(b, KVS_OP_MKDIR, 0, "dir", 3, NULL, 0, NULL), 0);
    if (!b->data) /* an empty one */
        put(b, "nothing", "", 0);
}

static struct pack tree(struct kvs_txn_buf *txns, unsigned n, bool reverse)
{
    kvs_set_t *s = kvs_set_create();
    if (n <= 3) {
        for (unsigned i = 0; i < n; i++) {
            struct kvs_txn_buf *b = &txns[reverse ? n - 1 - i : i];
            merge(s, b->data, b->len);
        }
    } else {
        unsigned cut = 1 + rnd(n - 1);
        struct pack p = tree(reverse ? txns + cut : txns, reverse ? n - cut : cut, reverse);
        merge(s, p.data, p.len);
        free(p.data);
        p = tree(reverse ? txns : txns + cut, reverse ? cut : n - cut, reverse);
        merge(s, p.data, p.len);
        free(p.data);
    }
    struct pack p = encode(s);
    kvs_set_destroy(s);
    return p;
}

START_TEST(trees)
{
    for (unsigned seed = 1; seed <= 60; seed++) {
        random_state = seed * 7919;
        unsigned n = 1 + rnd(60);
        bool conflicts = seed % 3 == 0, rest = seed % 4 == 0;
        struct kvs_txn_buf *txns = calloc(n, sizeof(*txns));
        kvs_set_t *flat = kvs_set_create();
        for (unsigned i = 0; i < n; i++) {
            random_txn(&txns[i], conflicts, i, rest);
            merge(flat, txns[i].data, txns[i].len);
        }
        struct pack want = encode(flat);
        char *text = dump(want.data, want.len);
        for (unsigned k = 0; k < 4; k++) {
            struct pack p = tree(txns, n, !conflicts && !rest && k % 2);
            char *got = dump(p.data, p.len);
            ck_assert_str_eq(got, text);
            ck_assert_uint_eq(p.len, want.len);
            ck_assert_mem_eq(p.data, want.data, p.len);
            free(got);
            free(p.data);
        }
        free(text);
        free(want.data);
        kvs_set_destroy(flat);
        for (unsigned i = 0; i < n; i++)
            kvs_txn_buf_clear(&txns[i]);
        free(txns);
    }
}
END_TEST

/* A store ends at the same root by a pack as by its transactions. */
static void begin(struct store *st)
{
    ck_assert(store_open(st, "sha256"));
    ck_assert_int_eq(kvsstore_begin(st->s), 0);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static int apply_paced(kvsstore_t *s, const void *data, size_t len, errmsg_t *err, unsigned *pauses)
{
    int rc;
    kvsstore_pace(s, never, NULL);
    for (; (rc = kvsstore_apply(s, data, len, err)) == KVSSTORE_MORE; ++*pauses)
        ;
    kvsstore_pace(s, NULL, NULL);
    return rc;
}

START_TEST(stored)
{
    unsigned pauses = 0;
    static uint8_t big[100000];
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct store a, b;
        struct kvs_txn_buf txns[40] = {{0}}, bad = {0};
        kvs_set_t *s = kvs_set_create();
        errmsg_t err = {""};
        random_state = seed * 31337;
        begin(&a);
        begin(&b);
        for (unsigned i = 0; i < 40; i++) {
            char key[32];
            random_txn(&txns[i], false, i, true);
            snprintf(key, sizeof(key), "big%u", i);
            big[5] = i % 2; /* one value of 100 kB for many keys */
            put(&txns[i], key, big, sizeof(big));
            ck_assert_int_eq(kvsstore_apply(a.s, txns[i].data, txns[i].len, &err), 0);
            merge(s, txns[i].data, txns[i].len);
        }
        struct pack p = encode(s);
        ck_assert_msg(apply_paced(b.s, p.data, p.len, &err, &pauses) == 0, "%s", err.text);
        /* One that fails leaves nothing behind. */
        kvs_set_clear(s);
        put(&bad, "aaa", big, sizeof(big));
        put(&bad, "big3.x", big, 1);
        merge(s, bad.data, bad.len);
        struct pack q = encode(s);
        ck_assert_int_eq(apply_paced(b.s, q.data, q.len, &err, &pauses), -1);
        ck_assert_int_eq(errno, ENOTDIR);
        ck_assert_int_eq(kvsstore_end(a.s, &err), 1);
        ck_assert_int_eq(kvsstore_end(b.s, &err), 1);
        ck_assert_mem_eq(kvsstore_root(a.s), kvsstore_root(b.s), 32);
        free(p.data);
        free(q.data);
        kvs_set_destroy(s);
        kvs_txn_buf_clear(&bad);
        for (unsigned i = 0; i < 40; i++)
            kvs_txn_buf_clear(&txns[i]);
        store_close(&a);
        store_close(&b);
    }
}
END_TEST

/* --- bytes that are none --- */

static int walk(const void *data, size_t len)
{
    errmsg_t err = {""};
    int rc = kvs_pack_check(data, len, NULL, NULL, &err);
    if (rc < 0)
        ck_assert(err.text[0] && errno);
    return rc;
}

START_TEST(refused)
{
    kvs_set_t *s = kvs_set_create();
    struct kvs_txn_buf b = {0}, rest = {0};
    for (unsigned i = 8; i < 20; i++) {
        char key[32];
        snprintf(key, sizeof(key), "a.k%u", i);
        put(&b, key, i % 2 ? "odd" : "even", i % 2 ? 3 : 4);
        snprintf(key, sizeof(key), "u.k%u", i);
        put(&b, key, key, strlen(key));
    }
    merge(s, b.data, b.len);
    ck_assert_int_eq(kvs_txn_buf_add(&rest, KVS_OP_MKDIR, 0, "dir", 3, NULL, 0, NULL), 0);
    merge(s, rest.data, rest.len);
    struct pack p = encode(s);
    ck_assert_int_eq(walk(p.data, p.len), 0);
    size_t cut = p.len - rest.len; /* without the rest it is whole, too */
    for (size_t n = 0; n < p.len; n++) {
        uint8_t *exact = malloc(n + 1);
        memcpy(exact, p.data, n);
        ck_assert_int_eq(walk(exact, n), n == cut ? 0 : -1);
        free(exact);
    }
    uint8_t *more = calloc(1, p.len + 1);
    memcpy(more, p.data, p.len);
    ck_assert_int_eq(walk(more, p.len + 1), -1);
    for (size_t i = 0; i < KVS_PACK_HEADER; i++) {
        more[i] ^= 0x40;
        ck_assert_int_eq(walk(more, p.len), -1);
        more[i] ^= 0x40;
    }
    /* Any other change is refused or says something else, but never goes out of bounds. */
    for (size_t i = KVS_PACK_HEADER; i < p.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            more[i] ^= (uint8_t)(1u << bit);
            (void)walk(more, p.len);
            more[i] ^= (uint8_t)(1u << bit);
        }
    }
    free(more);
    free(p.data);
    kvs_set_destroy(s);
    kvs_txn_buf_clear(&b);
    kvs_txn_buf_clear(&rest);
}
END_TEST

/* A few bytes that promise a million keys of a kilobyte. */
START_TEST(bombs)
{
    uint8_t p[KVS_PACK_HEADER + 1200] = {'P', 1, 0, 0, 0, 0, 16, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    uint8_t *q = p + KVS_PACK_HEADER;
    errmsg_t err;
    *q++ = 0;    /* an empty value */
    *q++ = 0;    /* shares nothing */
    *q++ = 0x80; /* 1024 bytes */
    *q++ = 8;
    memset(q, 'a', 1023);
    q[200] = q[400] = q[600] = q[800] = '.';
    q[1017] = '.';
    memset(q + 1018, '0', 6);
    q += 1024;
    *q++ = 1; /* run of one value */
    *q++ = 0;
    *q++ = 0; /* suffix */
    *q++ = 6; /* digits */
    *q++ = 6;
    *q++ = 1; /* step */
    *q++ = 0x80;
    *q++ = 0x80;
    *q++ = 0x40; /* 2^20 keys */
    ck_assert_int_eq(kvs_pack_check(p, (size_t)(q - p), NULL, NULL, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    q[-1] = 0x20; /* half of them: the last has six digits */
    p[6] = 8;
    ck_assert_int_eq(kvs_pack_check(p, (size_t)(q - p), NULL, NULL, &err), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
}
END_TEST

/* A stream of packs: both ends remember, and a value crosses once. */
START_TEST(stream)
{
    kvs_dict_t *up = kvs_dict_create(), *down = kvs_dict_create(), *other = kvs_dict_create();
    kvs_set_t *from = kvs_set_create(), *to = kvs_set_create(), *flat = kvs_set_create();
    size_t total = 0;
    errmsg_t err = {""};
    random_state = 4711;
    for (unsigned i = 0; i < 400; i++) {
        struct kvs_txn_buf b = {0};
        char key[32], val[3000];
        for (unsigned j = 0; j < 5; j++) {
            unsigned which = rnd(10) < 9 ? rnd(3) : 3 + rnd(400);
            snprintf(key, sizeof(key), "k%u", rnd(2000));
            memset(val, (int)('a' + which % 10), sizeof(val));
            snprintf(val, sizeof(val), "%u", which);
            put(&b, key, val, which == 2 ? 20 : sizeof(val));
        }
        merge(from, b.data, b.len);
        merge(flat, b.data, b.len);
        kvs_txn_buf_clear(&b);
        if (rnd(3) == 0) {
            uint8_t *buf;
            size_t len;
            ck_assert_int_eq(kvs_set_encode(from, up, 0, &buf, &len), 0);
            ck_assert_int_eq(kvs_pack_check(buf, len, down, NULL, &err), 0);
            if (total > 0)
                ck_assert_int_eq(kvs_pack_check(buf, len, other, NULL, &err), -1);
            ck_assert_msg(kvs_set_merge(to, buf, len, down, &err) == 0, "%s", err.text);
            ck_assert_uint_eq(kvs_dict_count(up), kvs_dict_count(down));
            total += len;
            free(buf);
            kvs_set_clear(from);
        }
    }
    struct pack p = encode(from), want = encode(flat);
    merge(to, p.data, p.len);
    free(p.data);
    p = encode(to);
    ck_assert_uint_eq(p.len, want.len);
    ck_assert_mem_eq(p.data, want.data, want.len);
    free(p.data);
    free(want.data);
    /* About 200 values beside the two of all the time, and some keys. */
    ck_assert_uint_le(total, 250 * 3000 + 2000 * 40);
    ck_assert_uint_gt(kvs_dict_count(up), 100);
    kvs_dict_destroy(up);
    kvs_dict_destroy(down);
    kvs_dict_destroy(other);
    kvs_set_destroy(from);
    kvs_set_destroy(to);
    kvs_set_destroy(flat);
}
END_TEST

/* A value that was put and then overwritten before the next pack of a stream went out. */
START_TEST(overwritten)
{
    kvs_dict_t *up = kvs_dict_create(), *down = kvs_dict_create();
    kvs_set_t *from = kvs_set_create(), *to = kvs_set_create();
    errmsg_t err = {""};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            struct kvs_txn_buf b = {0};
            char val[2000];
            memset(val, 'a' + 2 * i + k, sizeof(val));
            put(&b, "key", val, sizeof(val));
            merge(from, b.data, b.len);
            kvs_txn_buf_clear(&b);
        }
        uint8_t *buf;
        size_t len;
        ck_assert_int_eq(kvs_set_encode(from, up, 0, &buf, &len), 0);
        ck_assert_uint_lt(len, 2100);
        ck_assert_msg(kvs_set_merge(to, buf, len, down, &err) == 0, "%s", err.text);
        free(buf);
        kvs_set_clear(from);
    }
    expect_set(to, 1, 1);
    kvs_dict_destroy(up);
    kvs_dict_destroy(down);
    kvs_set_destroy(from);
    kvs_set_destroy(to);
}
END_TEST

/* A set that is full refuses, and stays what it was. */
START_TEST(full)
{
    kvs_set_t *s = kvs_set_create();
    uint8_t *big = calloc(1, KVS_VALUE_MAX);
    errmsg_t err;
    unsigned n = 0;
    int rc;
    do {
        struct kvs_txn_buf b = {0};
        char key[16];
        snprintf(key, sizeof(key), "k%u", n);
        big[0] = (uint8_t)n++;
        put(&b, key, big, KVS_VALUE_MAX);
        rc = kvs_set_merge(s, b.data, b.len, NULL, &err);
        kvs_txn_buf_clear(&b);
    } while (rc == 0);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_uint_eq(n, 4);
    expect_set(s, 3, 3);
    struct pack p = encode(s);
    ck_assert_int_eq(walk(p.data, p.len), 0);
    free(p.data);
    /* Equal ones take no more room. */
    for (n = 0; n < 100; n++) {
        struct kvs_txn_buf b = {0};
        char key[16];
        snprintf(key, sizeof(key), "j%u", n);
        big[0] = (uint8_t)(n % 3);
        put(&b, key, big, KVS_VALUE_MAX);
        merge(s, b.data, b.len);
        kvs_txn_buf_clear(&b);
    }
    expect_set(s, 103, 3);
    free(big);
    kvs_set_destroy(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, sizes);
    tcase_add_test(tc, interleaved);
    tcase_add_test(tc, trees);
    tcase_add_test(tc, stored);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, bombs);
    tcase_add_test(tc, stream);
    tcase_add_test(tc, overwritten);
    tcase_add_test(tc, full);
    return run_case("kvs_pack", tc);
}
