/* check_kvsstore.c - the store against a model: contents, canonical roots, atomicity, garbage. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsstore.h"
#include "libkvs/kvsvalue.h"
#include "libkvs/kvswalk.h"
#include "libutil/hmap.h"
#include "libutil/test/suite.h"

#include "store_fixture.h"

static struct kvsmiss miss;

static void add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
                const void *val, size_t len)
{
    errmsg_t err;
    ck_assert_msg(kvs_txn_buf_add(b, type, flags, key, strlen(key), val, len, &err) == 0, "%s",
                  err.text);
}

/* Commit and clear; the errno or 0. */
static int commit(struct fixture *f, struct kvs_txn_buf *b)
{
    errmsg_t err;
    int errnum = 0;
    ck_assert_int_eq(kvsstore_begin(f->store), 0);
    if (kvsstore_apply(f->store, b->data, b->len, &err) < 0)
        errnum = errno;
    ck_assert_int_eq(kvsstore_end(f->store, &err), errnum ? 0 : 1);
    kvs_txn_buf_clear(b);
    while (kvsstore_collect(f->store, 10))
        ;
    return errnum;
}

static int op(struct fixture *f, enum kvs_op_type type, unsigned flags, const char *key,
              const char *val)
{
    struct kvs_txn_buf b = {0};
    add(&b, type, flags, key, val, val ? strlen(val) : 0);
    return commit(f, &b);
}

static const char *get(struct fixture *f, const char *key)
{
    static char buf[1024];
    struct treeobj_entry e;
    miss.n = 0;
    if (kvswalk_find(f->content, kvsstore_root(f->store), key, strlen(key), 0, &e, NULL, &miss,
                     NULL) < 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (e.type == TREEOBJ_DIR)
        return "(dir)";
    ck_assert_uint_lt(e.len, sizeof(buf));
    ck_assert_int_eq(kvsvalue_read(f->content, &e, 0, e.len, buf, &miss, NULL), 0);
    buf[e.len] = '\0';
    return buf;
}

/* --- the model: a value number per key number; 0 is absent --- */

#define KEYS 3000

static void key_name(char *buf, size_t size, unsigned k)
{
    /* Some in the root directory, many in one, some deep. */
    if (k % 10 == 0)
        snprintf(buf, size, "top%u", k);
    else if (k % 10 == 1)
        snprintf(buf, size, "deep.%u.x.%u", k % 7, k);
    else
        snprintf(buf, size, "big.key-%u", k);
}

static size_t value_of(char *buf, unsigned k, unsigned v)
{
    size_t len = v % 5 == 0 ? 300 + v % 100 : v % 40;
    for (size_t i = 0; i < len; i++)
        buf[i] = (char)('a' + (k + v + i) % 26);
    return len;
}

static void put_op(struct kvs_txn_buf *b, unsigned k, unsigned v)
{
    char key[64], val[512];
    key_name(key, sizeof(key), k);
    if (v == 0)
        add(b, KVS_OP_UNLINK, 0, key, NULL, 0);
    else
        add(b, KVS_OP_PUT, 0, key, val, value_of(val, k, v));
}

static int count_entry(const struct treeobj_entry *e, void *arg)
{
    ++*(unsigned *)arg;
    return 0;
}

struct checked {
    content_t *c;
    unsigned objects;
};

/* Every object below is there, passes the decoder, and stands where it should. */
static int check_tree(const uint8_t *digest, void *arg)
{
    struct checked *x = arg;
    struct content_obj *o = content_get(x->c, digest);
    errmsg_t err;
    ck_assert_ptr_nonnull(o);
    ck_assert_msg(treeobj_check(o->data, o->len, 32, &err) == 0, "%s", err.text);
    x->objects++;
    return treeobj_refs(o->data, 32, check_tree, x);
}

static void compare(struct fixture *f, const unsigned *model)
{
    char key[64], val[512];
    unsigned big = 0, have = 0;
    for (unsigned k = 0; k < KEYS; k++) {
        key_name(key, sizeof(key), k);
        const char *got = get(f, key);
        if (model[k] == 0) {
            ck_assert_ptr_null(got);
            continue;
        }
        size_t len = value_of(val, k, model[k]);
        val[len] = '\0';
        ck_assert_ptr_nonnull(got);
        ck_assert_str_eq(got, val);
        if (k % 10 > 1)
            big++;
    }
    struct treeobj_entry e;
    miss.n = 0;
    if (kvswalk_find(f->content, kvsstore_root(f->store), "big", 3, 0, &e, NULL, &miss, NULL) ==
        0) {
        ck_assert_int_eq(kvswalk_dir(f->content, e.digest, count_entry, &have, &miss, NULL), 0);
        ck_assert_uint_eq(have, big);
    }
    struct checked x = {f->content, 0};
    check_tree(kvsstore_root(f->store), &x);
}

START_TEST(model)
{
    static unsigned model[KEYS];
    struct fixture f = fresh();
    uint64_t seed = 7 + (uint64_t)_i;
    struct kvs_txn_buf b = {0};
    memset(model, 0, sizeof(model));
    add(&b, KVS_OP_MKDIR, 0, "big", NULL, 0);
    for (int d = 0; d < 7; d++) {
        char key[64];
        snprintf(key, sizeof(key), "deep.%d.x", d);
        add(&b, KVS_OP_MKDIR, 0, key, NULL, 0);
    }
    ck_assert_int_eq(commit(&f, &b), 0);
    uint8_t skeleton[BLOBREF_DIGEST_MAX];
    memcpy(skeleton, kvsstore_root(f.store), sizeof(skeleton));
    for (int round = 0; round < 60; round++) {
        /* Grow, shrink, grow: splits and joins. */
        bool shrink = round % 20 > 11;
        unsigned n = rnd(&seed) % 200 + 1;
        for (unsigned i = 0; i < n; i++) {
            unsigned k = rnd(&seed) % KEYS;
            unsigned v = shrink && rnd(&seed) % 10 ? 0 : rnd(&seed) % 1000 + 1;
            model[k] = v;
            put_op(&b, k, v);
        }
        if (shrink) {
            unsigned from = rnd(&seed) % KEYS;
            for (unsigned k = from; k < KEYS && k < from + 400; k++) {
                model[k] = 0;
                put_op(&b, k, 0);
            }
        }
        ck_assert_int_eq(commit(&f, &b), 0);
        if (round % 10 == 9)
            compare(&f, model);
    }
    compare(&f, model);
    /* The same contents in another order, in one transaction, give the same root. */
    struct fixture g = fresh();
    add(&b, KVS_OP_MKDIR, 0, "big", NULL, 0);
    for (int d = 6; d >= 0; d--) {
        char key[64];
        snprintf(key, sizeof(key), "deep.%d.x", d);
        add(&b, KVS_OP_MKDIR, 0, key, NULL, 0);
    }
    for (unsigned k = KEYS; k-- > 0;) {
        if (model[k])
            put_op(&b, k, model[k]);
    }
    ck_assert_int_eq(commit(&g, &b), 0);
    ck_assert_mem_eq(kvsstore_root(f.store), kvsstore_root(g.store), 32);
    /* The same number of objects are held: nothing leaked, nothing lost. */
    struct content_stats a, c;
    content_get_stats(f.content, &a);
    content_get_stats(g.content, &c);
    ck_assert_uint_eq(a.objects, c.objects);
    ck_assert_uint_eq(a.bytes, c.bytes);
    ck_assert_uint_eq(a.free_objects, 0);
    drop(&g);
    /* And back to nothing. */
    for (unsigned k = 0; k < KEYS; k++)
        put_op(&b, k, 0);
    ck_assert_int_eq(commit(&f, &b), 0);
    ck_assert_mem_eq(kvsstore_root(f.store), skeleton, 32);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "big", NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "deep", NULL), 0);
    content_get_stats(f.content, &a);
    ck_assert_uint_eq(a.objects, 1);
    drop(&f);
}
END_TEST

START_TEST(semantics)
{
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    ck_assert_uint_eq(kvsstore_version(f.store), 0);
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "a.b.c", "1"), 0);
    ck_assert_uint_eq(kvsstore_version(f.store), 1);
    ck_assert_str_eq(get(&f, "a.b.c"), "1");
    ck_assert_str_eq(get(&f, "a.b"), "(dir)");
    ck_assert_str_eq(get(&f, "."), "(dir)");
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "a.b", "1"), EISDIR);
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "a.b.c.d", "1"), ENOTDIR);
    ck_assert_int_eq(op(&f, KVS_OP_MKDIR, 0, "a.b.c", NULL), EEXIST);
    ck_assert_int_eq(op(&f, KVS_OP_MKDIR, 0, "a.b", NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, 0, "a", NULL), ENOTEMPTY);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, 0, "x.y", NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_MUST, "x.y", NULL), ENOENT);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_MUST, "a.b.x", NULL), ENOENT);
    ck_assert_str_eq(get(&f, "a.b.c.d"), strerror(ENOTDIR));
    /* Links. */
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "l", "a.b"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "m.n", "l"), 0);
    ck_assert_str_eq(get(&f, "l.c"), "1");
    ck_assert_str_eq(get(&f, "m.n.c"), "1");
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "m.n.new", "2"), 0);
    ck_assert_str_eq(get(&f, "a.b.new"), "2");
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "v", "a.b.c"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "v", "3"), 0);
    ck_assert_str_eq(get(&f, "a.b.c"), "3");
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_MUST, "v", NULL), 0);
    ck_assert_str_eq(get(&f, "a.b.c"), "3");
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "x", "y"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "y", "x"), 0);
    ck_assert_str_eq(get(&f, "x"), strerror(ELOOP));
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "x.z", "3"), ELOOP);
    /* In order within a transaction: what was put is replaced, removed, made anew. */
    add(&b, KVS_OP_PUT, 0, "t.a", "1", 1);
    add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "t", NULL, 0);
    add(&b, KVS_OP_PUT, 0, "t", "2", 1);
    add(&b, KVS_OP_UNLINK, 0, "t", NULL, 0);
    add(&b, KVS_OP_PUT, 0, "t.b", "3", 1);
    ck_assert_int_eq(commit(&f, &b), 0);
    ck_assert_str_eq(get(&f, "t.b"), "3");
    ck_assert_ptr_null(get(&f, "t.a"));
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "t", NULL), 0);
    ck_assert_ptr_null(get(&f, "t"));
    drop(&f);
}
END_TEST

START_TEST(atomic)
{
    struct fixture f = fresh();
    struct kvs_txn_buf good = {0}, bad = {0};
    errmsg_t err;
    struct kvs_txn_buf b = {0};
    for (int i = 0; i < 100; i++) {
        char key[32];
        snprintf(key, sizeof(key), "d.k%d", i);
        add(&b, KVS_OP_PUT, 0, key, "old", 3);
    }
    ck_assert_int_eq(commit(&f, &b), 0);
    for (int i = 0; i < 200; i++) {
        char key[32];
        snprintf(key, sizeof(key), "d.k%d", i);
        add(&bad, i % 3 ? KVS_OP_PUT : KVS_OP_UNLINK, 0, key, "bad", i % 3 ? 3 : 0);
    }
    add(&bad, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "d", NULL, 0);
    add(&bad, KVS_OP_PUT, 0, "d.e.f", "bad", 3);
    add(&bad, KVS_OP_PUT, 0, "d.e", "bad", 3); /* EISDIR */
    add(&good, KVS_OP_PUT, 0, "d.k7", "good", 4);
    uint64_t version = kvsstore_version(f.store);
    ck_assert_int_eq(kvsstore_begin(f.store), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, good.data, good.len, &err), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(kvsstore_apply(f.store, bad.data, bad.len, &err), -1);
        ck_assert_int_eq(errno, EISDIR);
        ck_assert_ptr_nonnull(strstr(err.text, "d.e"));
    }
    ck_assert_int_eq(kvsstore_end(f.store, &err), 1);
    ck_assert_uint_eq(kvsstore_version(f.store), version + 1);
    ck_assert_str_eq(get(&f, "d.k7"), "good");
    ck_assert_str_eq(get(&f, "d.k8"), "old");
    ck_assert_str_eq(get(&f, "d.k9"), "old");
    ck_assert_ptr_null(get(&f, "d.k100"));
    ck_assert_ptr_null(get(&f, "d.e"));
    /* A root change of nothing but failures is none. */
    uint8_t root[32];
    memcpy(root, kvsstore_root(f.store), 32);
    ck_assert_int_eq(kvsstore_begin(f.store), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, bad.data, bad.len, &err), -1);
    ck_assert_int_eq(kvsstore_apply(f.store, "junk", 4, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(kvsstore_end(f.store, &err), 0);
    ck_assert_mem_eq(kvsstore_root(f.store), root, 32);
    kvs_txn_buf_clear(&good);
    kvs_txn_buf_clear(&bad);
    drop(&f);
}
END_TEST

/* Overwriting one key for ever, and large values, keep memory where it is; a value that is equal to
 * a directory's object, bytes for bytes, does no harm. */
START_TEST(garbage)
{
    struct fixture f = fresh();
    struct content_stats st;
    char val[1000];
    for (int i = 0; i < 2000; i++) {
        struct kvs_txn_buf b = {0};
        memset(val, 'a' + i % 26, sizeof(val));
        memcpy(val, &i, sizeof(i));
        add(&b, KVS_OP_PUT, 0, "d.x", val, sizeof(val));
        ck_assert_int_eq(commit(&f, &b), 0);
    }
    content_get_stats(f.content, &st);
    ck_assert_uint_eq(st.objects, 3);
    struct content_obj *root = content_get(f.content, kvsstore_root(f.store));
    memcpy(val, root->data, root->len);
    size_t len = root->len;
    for (int i = 0; i < 2; i++) {
        struct kvs_txn_buf b = {0};
        memset(val + len, 0, sizeof(val) - len);
        add(&b, KVS_OP_PUT, 0, "copy", val, sizeof(val));
        ck_assert_int_eq(commit(&f, &b), 0);
        ck_assert_int_eq(op(&f, KVS_OP_UNLINK, 0, "copy", NULL), 0);
    }
    ck_assert_str_eq(get(&f, "d"), "(dir)");
    /* Two directories with equal contents are one object, and removing one keeps the other. */
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "p.q", "1"), 0);
    content_get_stats(f.content, &st);
    size_t before = st.objects;
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "r.q", "1"), 0);
    content_get_stats(f.content, &st);
    ck_assert_uint_eq(st.objects, before);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "p", NULL), 0);
    ck_assert_str_eq(get(&f, "r.q"), "1");
    drop(&f);
}
END_TEST

/* Collecting a little after each root change keeps up, also when root changes are large. */
START_TEST(keeps_up)
{
    struct fixture f = fresh();
    struct content_stats st;
    size_t most = 0;
    uint64_t seed = 1;
    for (int round = 0; round < 60; round++) {
        struct kvs_txn_buf b = {0};
        for (int i = 0; i < 500; i++) {
            char key[64], val[32];
            snprintf(key, sizeof(key), "d.k%u", rnd(&seed) % 5000);
            snprintf(val, sizeof(val), "%d.%d", round, i);
            add(&b, KVS_OP_PUT, 0, key, val, strlen(val));
        }
        ck_assert_int_eq(kvsstore_begin(f.store), 0);
        ck_assert_int_eq(kvsstore_apply(f.store, b.data, b.len, NULL), 0);
        ck_assert_int_eq(kvsstore_end(f.store, NULL), 1);
        kvs_txn_buf_clear(&b);
        (void)kvsstore_collect(f.store, 1);
        content_get_stats(f.content, &st);
        most = st.objects > most ? st.objects : most;
    }
    /* 5000 keys are about 275 objects. */
    ck_assert_uint_lt(most, 2000);
    drop(&f);
}
END_TEST

/* What a root no longer needs stays for a while within the bound, and can come back to life. */
START_TEST(revival)
{
    struct fixture f = fresh();
    content_set_limit(f.content, 1 << 20);
    char key[32];
    for (int round = 0; round < 4; round++) {
        struct kvs_txn_buf b = {0};
        for (int i = 0; i < 200; i++) {
            snprintf(key, sizeof(key), "d.e.k%d", i);
            add(&b, KVS_OP_PUT, 0, key, "v", 1);
        }
        ck_assert_int_eq(commit(&f, &b), 0);
        struct checked x = {f.content, 0};
        check_tree(kvsstore_root(f.store), &x);
        ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, round & 1 ? "d" : "d.e", NULL), 0);
    }
    struct content_stats st;
    content_get_stats(f.content, &st);
    ck_assert_uint_gt(st.free_objects, 10);
    content_drop(f.content, SIZE_MAX);
    content_get_stats(f.content, &st);
    ck_assert_uint_eq(st.objects, 1);
    drop(&f);
}
END_TEST

/* A reader that lacks objects names them, and gets on when it has them. */
START_TEST(missing)
{
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    char key[32], big[400];
    memset(big, 'x', sizeof(big));
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "d.k%d", i);
        add(&b, KVS_OP_PUT, 0, key, big, i == 77 ? sizeof(big) : 1);
    }
    ck_assert_int_eq(commit(&f, &b), 0);
    content_t *cache = content_create(blobref, 1 << 20);
    struct treeobj_entry e;
    unsigned n = 0, waves = 0;
    int rc;
    for (;;) {
        miss.n = 0;
        n = 0;
        rc = kvswalk_find(cache, kvsstore_root(f.store), "d", 1, 0, &e, NULL, &miss, NULL);
        if (rc == 0)
            rc = kvswalk_dir(cache, e.digest, count_entry, &n, &miss, NULL);
        if (rc == 0)
            break;
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_uint_gt(miss.n, 0);
        waves++;
        for (unsigned i = 0; i < miss.n; i++) {
            struct content_obj *o = content_get(f.content, miss.digest[i]);
            ck_assert_ptr_nonnull(o);
            ck_assert_int_eq(content_supply(cache, miss.digest[i], o->data, o->len), 0);
        }
    }
    ck_assert_uint_eq(n, 500);
    ck_assert_uint_le(waves, 4);
    ck_assert_int_eq(
        kvswalk_find(cache, kvsstore_root(f.store), "d.k77", 5, 0, &e, NULL, &miss, NULL), 0);
    miss.n = 0;
    ck_assert_int_eq(kvsvalue_read(cache, &e, 0, e.len, NULL, &miss, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(miss.n, 1);
    content_destroy(cache);
    drop(&f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, model, 0, 6);
    tcase_add_test(tc, semantics);
    tcase_add_test(tc, atomic);
    tcase_add_test(tc, garbage);
    tcase_add_test(tc, keeps_up);
    tcase_add_test(tc, revival);
    tcase_add_test(tc, missing);
    return run_case("kvsstore", tc);
}
