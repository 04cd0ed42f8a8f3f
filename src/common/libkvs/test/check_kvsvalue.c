/* check_kvsvalue.c - values of any size: form, append, ranges, prefixes, tags. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsstore.h"
#include "libkvs/kvsvalue.h"
#include "libutil/test/rnd.h"
#include "libutil/test/suite.h"

#define CHUNK TREEOBJ_CHUNK
#define MOST (130u * 128 * 1024) /* more than an index of level 1 has */

static blobref_t *blobref;
static content_t *content;
static kvsstore_t *store;
static struct kvsmiss miss;
static uint8_t *bytes; /* MOST of them, not repeating */

static void setup(void)
{
    uint64_t seed = 1;
    blobref = blobref_create("sha256", NULL);
    content = content_create(blobref, 0);
    store = kvsstore_create(content);
    bytes = malloc(MOST);
    ck_assert(store && bytes);
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (uint8_t)rnd(&seed);
}

static void teardown(void)
{
    kvsstore_destroy(store);
    content_destroy(content);
    blobref_destroy(blobref);
    free(bytes);
}

static void commit(struct kvs_txn_buf *b)
{
    errmsg_t err = {""};
    ck_assert_int_eq(kvsstore_begin(store), 0);
    ck_assert_msg(kvsstore_apply(store, b->data, b->len, &err) == 0, "%s", err.text);
    ck_assert_int_eq(kvsstore_end(store, &err), 1);
    kvs_txn_buf_clear(b);
    while (kvsstore_collect(store, 10))
        ;
}

static void op(enum kvs_op_type type, const char *key, const void *data, size_t len)
{
    struct kvs_txn_buf b = {0};
    ck_assert_int_eq(kvs_txn_buf_add(&b, type, 0, key, strlen(key), data, len, NULL), 0);
    commit(&b);
}

static struct treeobj_entry entry(const char *key)
{
    struct treeobj_entry e;
    miss.n = 0;
    ck_assert_int_eq(kvswalk_find(content, kvsstore_root(store), key, strlen(key), KVSWALK_NOFOLLOW,
                                  &e, NULL, &miss, NULL),
                     0);
    return e;
}

static bool same(const struct treeobj_entry *a, const struct treeobj_entry *b)
{
    if (a->type != b->type || a->len != b->len || !a->digest != !b->digest)
        return false;
    return a->digest ? memcmp(a->digest, b->digest, 32) == 0
                     : memcmp(a->data, b->data, a->len) == 0;
}

static const size_t sizes[] = {0,
                               1,
                               256,
                               257,
                               CHUNK - 1,
                               CHUNK,
                               CHUNK + 1,
                               2 * CHUNK - 1,
                               2 * CHUNK,
                               2 * CHUNK + 300,
                               128 * CHUNK - 1,
                               128 * CHUNK,
                               128 * CHUNK + 1,
                               129 * CHUNK,
                               256 * CHUNK,
                               256 * CHUNK + 17,
                               257 * CHUNK};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static void read_back(const struct treeobj_entry *e, uint64_t *seed)
{
    static uint8_t buf[100000];
    for (int i = 0; i < 20; i++) {
        uint64_t at = e->len ? ((uint64_t)rnd(seed) << 20) % (e->len + 1) : 0;
        size_t n = rnd(seed) % sizeof(buf);
        if (n > e->len - at)
            n = (size_t)(e->len - at);
        miss.n = 0;
        ck_assert_int_eq(kvsvalue_read(content, e, at, n, buf, &miss, NULL), 0);
        ck_assert(memcmp(buf, bytes + at, n) == 0);
    }
    ck_assert_int_eq(kvsvalue_read(content, e, e->len, 1, buf, &miss, NULL), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(kvsvalue_read(content, e, e->len + 1, 0, buf, &miss, NULL), -1);
    ck_assert_int_eq(kvsvalue_read(content, e, e->len, 0, buf, &miss, NULL), 0);
}

/* Upload all of it and name the chunks. */
static void put_chunks(const char *key, size_t size)
{
    struct kvs_txn_buf b = {0};
    size_t n = (size + CHUNK - 1) / CHUNK;
    uint8_t *digests = malloc(n * 32);
    for (size_t i = 0; i < n; i++) {
        size_t left = size - i * CHUNK;
        ck_assert_int_eq(kvsstore_upload(store, NULL, bytes + i * CHUNK,
                                         left < CHUNK ? left : CHUNK, 1, digests + i * 32, NULL),
                         0);
    }
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, key, strlen(key), size, digests, n, 32, NULL), 0);
    commit(&b);
    free(digests);
}

/* A value put at once, appended in pieces over root changes, in one root change, and named by its
 * chunks has one form, and reads back. */
START_TEST(one_form)
{
    size_t size = sizes[_i];
    uint64_t seed = 5 + (uint64_t)_i;
    struct kvsstore_stats st;

    if (size <= KVS_VALUE_MAX)
        op(KVS_OP_PUT, "put", bytes, size);
    for (size_t at = 0; at < size || at == 0;) {
        size_t n = rnd(&seed) % (size / 3 + 10);
        n = n < size - at ? n : size - at;
        op(KVS_OP_APPEND, "slow", bytes + at, n);
        at += n;
        if (at == size)
            break;
    }
    struct kvs_txn_buf b = {0};
    size_t most = size / 50 + 10;
    for (size_t at = 0; at < size || b.nops == 0;) {
        size_t n = rnd(&seed) % most;
        n = n < size - at ? n : size - at;
        ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_APPEND, 0, "fast", 4, bytes + at, n, NULL), 0);
        at += n;
    }
    commit(&b);
    struct treeobj_entry put = entry("put"), slow = entry("slow"), fast = entry("fast");
    ck_assert_uint_eq(put.len, size);
    ck_assert_int_eq(put.type, size <= 256     ? TREEOBJ_VALUE
                               : size <= CHUNK ? TREEOBJ_REF
                                               : TREEOBJ_CHUNKED);
    ck_assert(same(&put, &slow));
    ck_assert(same(&put, &fast));
    if (size > 0) {
        put_chunks("chunks", size);
        struct treeobj_entry chunks = entry("chunks");
        put = entry("put");
        ck_assert(same(&put, &chunks));
        kvsstore_get_stats(store, &st);
        ck_assert_uint_eq(st.uploads, 0);
        ck_assert_uint_eq(st.upload_bytes, 0);
    }
    put = entry("put");
    read_back(&put, &seed);
    /* And nothing stays. */
    struct kvs_txn_buf u = {0};
    static const char *const keys[] = {"put", "slow", "fast", "chunks"};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(
            kvs_txn_buf_add(&u, KVS_OP_UNLINK, 0, keys[i], strlen(keys[i]), NULL, 0, NULL), 0);
    commit(&u);
    struct content_stats cs;
    content_get_stats(content, &cs);
    ck_assert_uint_eq(cs.objects, 1);
}
END_TEST

/* The objects an append makes: the last chunk and the right edge, however long the value is. */
START_TEST(append_cost)
{
    op(KVS_OP_PUT, "k", bytes, 300 * CHUNK + 5);
    struct kvsstore_stats a, b;
    kvsstore_get_stats(store, &a);
    for (int i = 0; i < 10; i++) {
        op(KVS_OP_APPEND, "k", "0123456789", 10);
        kvsstore_get_stats(store, &b);
        ck_assert_uint_eq(a.kept, b.kept);
        /* Chunk, two indexes, root. */
        ck_assert_uint_eq(b.collected - a.collected, 4);
        a = b;
    }
}
END_TEST

START_TEST(prefixes)
{
    struct kvs_txn_buf b = {0};
    char key[32];
    for (size_t i = 0; i < NSIZES; i++) {
        int len = snprintf(key, sizeof(key), "k%zu", i);
        ck_assert_int_eq(
            kvs_txn_buf_add(&b, KVS_OP_PUT, 0, key, (size_t)len, bytes, sizes[i], NULL), 0);
        if (i % 4 == 3 || i == NSIZES - 1)
            commit(&b);
    }
    for (size_t i = 0; i < NSIZES; i++) {
        for (size_t j = 0; j < NSIZES; j++) {
            struct treeobj_entry old, now;
            snprintf(key, sizeof(key), "k%zu", i);
            old = entry(key);
            snprintf(key, sizeof(key), "k%zu", j);
            now = entry(key);
            miss.n = 0;
            ck_assert_int_eq(kvsvalue_begins_with(content, &now, &old, &miss, NULL), i <= j);
        }
    }
    /* A byte that differs, anywhere in the old part, is seen. */
    uint64_t seed = 9;
    for (size_t i = 1; i < NSIZES; i++) {
        size_t at = i % 3 == 0 ? 0 : i % 3 == 1 ? sizes[i] - 1 : rnd(&seed) % sizes[i];
        bytes[at] ^= 1;
        op(KVS_OP_PUT, "other", bytes, sizes[i]);
        bytes[at] ^= 1;
        struct treeobj_entry old = entry("other");
        for (size_t j = 0; j < NSIZES; j++) {
            snprintf(key, sizeof(key), "k%zu", j);
            struct treeobj_entry now = entry(key);
            ck_assert_int_eq(kvsvalue_begins_with(content, &now, &old, &miss, NULL), 0);
        }
    }
}
END_TEST

static void fetch(content_t *cache)
{
    for (unsigned i = 0; i < miss.n; i++) {
        struct content_obj *o = content_get(content, miss.digest[i]);
        ck_assert_ptr_nonnull(o);
        ck_assert_int_eq(content_supply(cache, miss.digest[i], o->data, o->len), 0);
    }
}

/* A reader elsewhere needs the objects of its range, and to compare, those of the right edge. */
START_TEST(missing)
{
    static uint8_t buf[1 << 20];
    content_t *cache = content_create(blobref, 1 << 30);
    struct content_stats st;
    int rc;
    op(KVS_OP_PUT, "old", bytes, 300 * CHUNK + 5);
    op(KVS_OP_PUT, "now", bytes, 400 * CHUNK + 5);
    struct treeobj_entry e = entry("now"), old = entry("old");
    for (int rounds = 0;; rounds++) {
        miss.n = 0;
        rc = kvsvalue_read(cache, &e, 126 * CHUNK + 100, 4 * CHUNK, buf, &miss, NULL);
        if (rc == 0)
            break;
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_le(rounds, 2);
        fetch(cache);
    }
    ck_assert(memcmp(buf, bytes + 126 * CHUNK + 100, 4 * CHUNK) == 0);
    content_get_stats(cache, &st);
    ck_assert_uint_eq(st.objects, 1 + 2 + 5);
    content_drop(cache, SIZE_MAX);
    for (int rounds = 0;; rounds++) {
        miss.n = 0;
        rc = kvsvalue_begins_with(cache, &e, &old, &miss, NULL);
        if (rc >= 0)
            break;
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_le(rounds, 10);
        fetch(cache);
    }
    ck_assert_int_eq(rc, 1);
    content_get_stats(cache, &st);
    ck_assert_uint_le(st.objects, 6);
    content_destroy(cache);
}
END_TEST

/* Objects that are not what they should be. */
START_TEST(forged)
{
    uint8_t buf[100], fake[TREEOBJ_HEADER + 2 * 32];
    errmsg_t err;
    op(KVS_OP_PUT, "k", bytes, 3 * CHUNK);
    struct treeobj_entry e = entry("k");
    e.len = 4 * CHUNK;
    ck_assert_int_eq(kvsvalue_read(content, &e, 0, 100, buf, &miss, &err), -1);
    ck_assert_int_eq(errno, EIO);
    ck_assert_int_eq(kvsvalue_can_append(content, &e, &miss, &err), -1);
    e.len = 3 * CHUNK - 1;
    ck_assert_int_eq(kvsvalue_read(content, &e, 2 * CHUNK, 100, buf, &miss, &err), -1);
    ck_assert_int_eq(errno, EIO);
    e.digest = kvsstore_root(store);
    ck_assert_int_eq(kvsvalue_read(content, &e, 0, 100, buf, &miss, &err), -1);
    ck_assert_int_eq(errno, EIO);
    /* An index above an index where a blob should be. */
    memset(fake, 0, sizeof(fake));
    e = entry("k");
    treeobj_index_header(fake, 32, 1, 2);
    memcpy(fake + TREEOBJ_HEADER, e.digest, 32);
    memcpy(fake + TREEOBJ_HEADER + 32, e.digest, 32);
    struct content_obj *o = content_add(content, fake, sizeof(fake));
    e.digest = o->digest;
    e.len = 2 * CHUNK;
    ck_assert_int_eq(kvsvalue_read(content, &e, 0, 100, buf, &miss, &err), -1);
    ck_assert_int_eq(errno, EIO);
}
END_TEST

START_TEST(tags)
{
    uint8_t tag[KVS_TAG_SIZE], hash[32];
    struct treeobj_entry e;
    op(KVS_OP_PUT, "a.small", "hello", 5);
    op(KVS_OP_PUT, "a.large", bytes, 1000);
    op(KVS_OP_SYMLINK, "a.l", "a.small", 7);
    e = entry("a.small");
    blobref_hash(blobref, "hello", 5, hash);
    ck_assert_int_eq(kvsvalue_tag(blobref, &e, tag), 0);
    ck_assert_int_eq(tag[0], KVS_TAG_VALUE);
    ck_assert_mem_eq(tag + 1, hash, 32);
    e = entry("a.l");
    blobref_hash(blobref, "a.small", 7, hash);
    kvsvalue_tag(blobref, &e, tag);
    ck_assert_int_eq(tag[0], KVS_TAG_LINK);
    ck_assert_mem_eq(tag + 1, hash, 32);
    e = entry("a.large");
    kvsvalue_tag(blobref, &e, tag);
    ck_assert_int_eq(tag[0], KVS_TAG_VALUE);
    ck_assert_mem_eq(tag + 1, e.digest, 32);
    e = entry("a");
    kvsvalue_tag(blobref, &e, tag);
    ck_assert_int_eq(tag[0], KVS_TAG_DIR);
    ck_assert_mem_eq(tag + 1, e.digest, 32);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, one_form, 0, NSIZES);
    tcase_add_test(tc, append_cost);
    tcase_add_test(tc, prefixes);
    tcase_add_test(tc, missing);
    tcase_add_test(tc, forged);
    tcase_add_test(tc, tags);
    return run_case("kvsvalue", tc);
}
