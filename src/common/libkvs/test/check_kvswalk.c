/* check_kvswalk.c - directories in pages, and what is different between two of them. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsdiff.h"
#include "libkvs/kvsstore.h"
#include "libutil/test/rnd.h"
#include "libutil/test/suite.h"

static blobref_t *blobref;
static content_t *content;
static kvsstore_t *store;
static struct kvsmiss miss;

static void setup(void)
{
    blobref = blobref_create("sha256", NULL);
    content = content_create(blobref, 0);
    store = kvsstore_create(content);
    ck_assert_ptr_nonnull(store);
}

static void teardown(void)
{
    kvsstore_destroy(store);
    content_destroy(content);
    blobref_destroy(blobref);
}

static void add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
                const void *val, size_t len)
{
    ck_assert_int_eq(kvs_txn_buf_add(b, type, flags, key, strlen(key), val, len, NULL), 0);
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

static const uint8_t *dir_digest(const uint8_t *root, const char *key)
{
    struct treeobj_entry e;
    miss.n = 0;
    if (kvswalk_find(content, root, key, strlen(key), 0, &e, NULL, &miss, NULL) < 0)
        return NULL;
    return e.digest;
}

static void fetch(content_t *cache)
{
    for (unsigned i = 0; i < miss.n; i++) {
        struct content_obj *o = content_get(content, miss.digest[i]);
        ck_assert_ptr_nonnull(o);
        ck_assert_int_eq(content_supply(cache, miss.digest[i], o->data, o->len), 0);
    }
}

/* --- pages --- */

#define NKEYS 4000

struct page {
    unsigned seen[NKEYS + 1000];
    unsigned n;
    char last[64];
};

static int show(const struct treeobj_entry *e, void *arg)
{
    struct page *p = arg;
    snprintf(p->last, sizeof(p->last), "%.*s", e->namelen, e->name);
    p->seen[atoi(p->last + 1)]++;
    p->n++;
    return 0;
}

static void fill(const char *dir, unsigned n)
{
    struct kvs_txn_buf b = {0};
    char key[64];
    add(&b, KVS_OP_MKDIR, 0, dir, NULL, 0);
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s.k%u", dir, i);
        add(&b, KVS_OP_PUT, 0, key, "v", 1);
    }
    commit(&b);
}

START_TEST(pages)
{
    static const unsigned sizes[] = {0, 1, 7, 32, 33, 500, NKEYS};
    static const unsigned counts[] = {1, 7, 32, 1000, NKEYS};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        char dir[16];
        snprintf(dir, sizeof(dir), "d%zu", s);
        fill(dir, sizes[s]);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            static struct page p;
            bool more = true;
            memset(&p, 0, sizeof(p));
            unsigned total = 0;
            while (more) {
                char cursor[64];
                snprintf(cursor, sizeof(cursor), "%s", p.last);
                p.n = 0;
                miss.n = 0;
                ck_assert_int_eq(kvswalk_page(content, dir_digest(kvsstore_root(store), dir),
                                              cursor, strlen(cursor), counts[c], show, &p, &more,
                                              &miss, NULL),
                                 0);
                total += p.n;
                ck_assert(p.n == counts[c] || !more);
                ck_assert(p.n > 0 || sizes[s] == 0);
            }
            ck_assert_uint_eq(total, sizes[s]);
            for (unsigned i = 0; i < sizes[s]; i++)
                ck_assert_uint_eq(p.seen[i], 1);
        }
    }
}
END_TEST

/* Names come and go between pages, leaves split and join: who stays is seen once. */
START_TEST(moving)
{
    static struct page p;
    uint64_t seed = 3;
    memset(&p, 0, sizeof(p));
    fill("d", 1000);
    bool more = true;
    unsigned turn = 0;
    while (more) {
        struct kvs_txn_buf b = {0};
        char cursor[64], key[64];
        snprintf(cursor, sizeof(cursor), "%s", p.last);
        ck_assert_int_eq(kvswalk_page(content, dir_digest(kvsstore_root(store), "d"), cursor,
                                      strlen(cursor), 10, show, &p, &more, &miss, NULL),
                         0);
        /* Those below 200 stay. */
        for (int i = 0; i < 300; i++) {
            snprintf(key, sizeof(key), "d.k%u", 200 + rnd(&seed) % NKEYS);
            add(&b, turn / 10 % 2 ? KVS_OP_PUT : KVS_OP_UNLINK, 0, key, "v", turn / 10 % 2);
        }
        commit(&b);
        turn++;
    }
    ck_assert_uint_gt(turn, 20);
    for (unsigned i = 0; i < NKEYS + 1000; i++)
        ck_assert_msg(i < 200 ? p.seen[i] == 1 : p.seen[i] <= 1, "k%u: %u times", i, p.seen[i]);
}
END_TEST

/* A page elsewhere needs the objects of that page. */
START_TEST(page_faults)
{
    static struct page p;
    struct content_stats st;
    fill("d", NKEYS);
    content_t *cache = content_create(blobref, 1 << 30);
    const uint8_t *dir = dir_digest(kvsstore_root(store), "d");
    bool more;
    memset(&p, 0, sizeof(p));
    for (int page = 0; page < 5; page++) {
        char cursor[64];
        int rounds = 0;
        snprintf(cursor, sizeof(cursor), "%s", p.last);
        for (;;) {
            miss.n = 0;
            p.n = 0;
            int rc =
                kvswalk_page(cache, dir, cursor, strlen(cursor), 40, show, &p, &more, &miss, NULL);
            if (rc == 0)
                break;
            ck_assert_int_eq(errno, EAGAIN);
            ck_assert_int_le(++rounds, 4);
            fetch(cache);
        }
        ck_assert_uint_eq(p.n, 40);
        ck_assert(more);
    }
    /* 200 entries are at least 7 leaves, and some branches: not all of 300 objects. */
    content_get_stats(cache, &st);
    ck_assert_uint_le(st.objects, 40);
    content_destroy(cache);
}
END_TEST

/* --- differences --- */

struct found {
    char key[100];
    enum kvsdiff_change change;
};
struct list {
    struct found *f;
    size_t n, cap;
};

static void note(struct list *l, const char *key, enum kvsdiff_change change)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->f = realloc(l->f, l->cap * sizeof(*l->f));
    }
    snprintf(l->f[l->n].key, sizeof(l->f[l->n].key), "%s", key);
    l->f[l->n++].change = change;
}

static int collect(const struct kvsdiff_item *d, void *arg)
{
    char key[100];
    ck_assert(d->change == KVSDIFF_ADDED ? !d->old && d->now : d->old != NULL);
    ck_assert(d->change == KVSDIFF_REMOVED ? !d->now : d->now != NULL);
    snprintf(key, sizeof(key), "%.*s", (int)d->keylen, d->key);
    note(arg, key, d->change);
    return 0;
}

static int cmp_found(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->key, ((const struct found *)b)->key);
}

/* Compare in runs of this number of steps. */
static int diff_by(unsigned steps, content_t *c, const uint8_t *old, const uint8_t *now,
                   unsigned flags, kvsdiff_f cb, void *arg, errmsg_t *err)
{
    kvsdiff_t *d = kvsdiff_create(c, old, now, flags);
    int rc;

    ck_assert_ptr_nonnull(d);
    while ((rc = kvsdiff_run(d, steps, cb, arg, &miss, err)) == KVSDIFF_MORE)
        ;
    kvsdiff_destroy(d);
    return rc;
}

/* By brute force: all keys below both, each looked up in the other. */
struct brute {
    const uint8_t *other;
    bool removed, deep;
    char path[100];
    struct list *out;
};

static int brute_entry(const struct treeobj_entry *e, void *arg)
{
    struct brute *x = arg;
    size_t len = strlen(x->path);
    struct treeobj_entry o;
    snprintf(x->path + len, sizeof(x->path) - len, "%s%.*s", len ? "." : "", e->namelen, e->name);
    bool has = x->other && kvswalk_find(content, x->other, x->path, strlen(x->path),
                                        KVSWALK_NOFOLLOW, &o, NULL, &miss, NULL) == 0;
    bool same = has && o.type == e->type && o.len == e->len &&
                (e->digest ? memcmp(e->digest, o.digest, 32) : memcmp(e->data, o.data, o.len)) == 0;
    if (!has)
        note(x->out, x->path, x->removed ? KVSDIFF_REMOVED : KVSDIFF_ADDED);
    else if (!same && !x->removed && !(x->deep && e->type == TREEOBJ_DIR && o.type == TREEOBJ_DIR))
        note(x->out, x->path, KVSDIFF_CHANGED);
    if (x->deep && e->type == TREEOBJ_DIR)
        ck_assert_int_eq(kvswalk_dir(content, e->digest, brute_entry, x, &miss, NULL), 0);
    x->path[len] = '\0';
    return 0;
}

static void brute(const uint8_t *old, const uint8_t *now, bool deep, struct list *out)
{
    struct brute x = {.other = now, .removed = true, .deep = deep, .out = out};
    if (old)
        ck_assert_int_eq(kvswalk_dir(content, old, brute_entry, &x, &miss, NULL), 0);
    x = (struct brute){.other = old, .deep = deep, .out = out};
    if (now)
        ck_assert_int_eq(kvswalk_dir(content, now, brute_entry, &x, &miss, NULL), 0);
}

static void compare(const uint8_t *old, const uint8_t *now)
{
    for (unsigned flags = 0; flags <= KVSDIFF_RECURSIVE; flags++) {
        struct list want = {0}, got = {0};
        miss.n = 0;
        brute(old, now, flags, &want);
        ck_assert_int_eq(diff_by(7, content, old, now, flags, collect, &got, NULL), 0);
        ck_assert_uint_eq(want.n, got.n);
        if (want.n == 0)
            continue; /* of nothing there is no array */
        qsort(want.f, want.n, sizeof(*want.f), cmp_found);
        qsort(got.f, got.n, sizeof(*got.f), cmp_found);
        for (size_t i = 0; i < want.n; i++) {
            ck_assert_str_eq(want.f[i].key, got.f[i].key);
            ck_assert_int_eq(want.f[i].change, got.f[i].change);
        }
        free(want.f);
        free(got.f);
    }
}

static void random_change(uint64_t *seed, unsigned ops, bool shrink)
{
    static const char *const dirs[] = {"", "a.", "b.", "a.c.", "b.d.e."};
    struct kvs_txn_buf b = {0};
    char key[64], val[16];
    for (unsigned i = 0; i < ops; i++) {
        unsigned r = rnd(seed) % 100;
        /* Now and then the name of a directory becomes a value, and the other way. */
        if (r < 2) {
            snprintf(key, sizeof(key), "b.d");
            add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, key, NULL, 0);
            add(&b, r ? KVS_OP_PUT : KVS_OP_MKDIR, 0, key, "v", r);
            if (r)
                add(&b, KVS_OP_UNLINK, 0, key, NULL, 0);
            continue;
        }
        snprintf(key, sizeof(key), "%sk%u", dirs[rnd(seed) % 5], rnd(seed) % 300);
        snprintf(val, sizeof(val), "%u", rnd(seed) % 5);
        bool del = rnd(seed) % 10 < (shrink ? 8 : 2);
        add(&b, del ? KVS_OP_UNLINK : KVS_OP_PUT, 0, key, val, del ? 0 : strlen(val));
    }
    commit(&b);
}

START_TEST(differences)
{
    uint64_t seed = 70 + (uint64_t)_i;
    uint8_t roots[12][32];
    fill("a.c", 10);
    for (int i = 0; i < 12; i++) {
        random_change(&seed, 1 + rnd(&seed) % 400, i % 4 == 3);
        memcpy(roots[i], kvsstore_root(store), 32);
        ck_assert_int_eq(kvsstore_hold_root(store, roots[i], NULL), 0);
        for (int k = 0; k <= i; k++) {
            compare(roots[k], roots[i]);
            compare(roots[i], roots[k]);
        }
        compare(NULL, roots[i]);
        compare(roots[i], NULL);
    }
    compare(NULL, NULL);
    /* A value that becomes a directory. */
    struct kvs_txn_buf b = {0};
    add(&b, KVS_OP_PUT, 0, "turn", "v", 1);
    commit(&b);
    memcpy(roots[0], kvsstore_root(store), 32);
    ck_assert_int_eq(kvsstore_hold_root(store, roots[0], NULL), 0);
    add(&b, KVS_OP_UNLINK, 0, "turn", NULL, 0);
    add(&b, KVS_OP_PUT, 0, "turn.x.y", "v", 1);
    commit(&b);
    compare(roots[0], kvsstore_root(store));
    compare(kvsstore_root(store), roots[0]);
}
END_TEST

/* One key of many: the objects of two paths. */
START_TEST(diff_cost)
{
    struct list got = {0};
    struct kvs_txn_buf b = {0};
    struct content_stats st;
    uint8_t old[32];
    fill("x.d", NKEYS);
    memcpy(old, kvsstore_root(store), 32);
    ck_assert_int_eq(kvsstore_hold_root(store, old, NULL), 0);
    add(&b, KVS_OP_PUT, 0, "x.d.k77", "w", 1);
    commit(&b);
    content_t *cache = content_create(blobref, 1 << 30);
    for (int rounds = 0;; rounds++) {
        miss.n = 0;
        got.n = 0;
        if (diff_by(7, cache, old, kvsstore_root(store), KVSDIFF_RECURSIVE, collect, &got, NULL) ==
            0)
            break;
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_le(rounds, 6);
        fetch(cache);
    }
    ck_assert_uint_eq(got.n, 1);
    ck_assert_str_eq(got.f[0].key, "x.d.k77");
    content_get_stats(cache, &st);
    ck_assert_uint_le(st.objects, 12);
    content_destroy(cache);
    free(got.f);
}
END_TEST

/* Directories deeper than any key: what a key can name is told, and it ends. */
START_TEST(deep)
{
    struct kvs_txn_buf b = {0};
    struct list got = {0};
    kvsstore_allow_long_keys(store, true); /* as earlier versions did */
    add(&b, KVS_OP_PUT, 0, "x", "v", 1);
    commit(&b);
    for (int i = 0; i < 200; i++) {
        add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "t", NULL, 0);
        add(&b, KVS_OP_COPY, 0, "t", "d", 1);
        if (i == 0) {
            kvs_txn_buf_clear(&b);
            add(&b, KVS_OP_PUT, 0, "t.y", "v", 1);
        }
        add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "d", NULL, 0);
        add(&b, KVS_OP_COPY, 0, "d.n", "t", 1);
        commit(&b);
    }
    ck_assert_int_eq(
        diff_by(7, content, NULL, kvsstore_root(store), KVSDIFF_RECURSIVE, collect, &got, NULL), 0);
    ck_assert_uint_gt(got.n, 64);
    ck_assert_uint_lt(got.n, 200);
    free(got.f);
    struct content_stats st;
    add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "d", NULL, 0);
    add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "t", NULL, 0);
    commit(&b);
    content_get_stats(content, &st);
    ck_assert_uint_eq(st.objects, 1);
}
END_TEST

static content_t *content_elsewhere; /* has nothing */

static int count(const struct kvsdiff_item *d, void *arg)
{
    (void)d;
    ++*(unsigned *)arg;
    return 0;
}

/* The callback needs the bytes of each value, which are not here. */
static int needs_value(const struct kvsdiff_item *d, void *arg)
{
    const struct treeobj_entry *e = d->now;
    count(d, arg);
    if (e && e->type == TREEOBJ_REF)
        kvsmiss_get(content_elsewhere, e->digest, &miss);
    return 0;
}

/* A directory that was copied into itself sixty times: 2^60 keys in sixty objects. */
START_TEST(doubling)
{
    struct kvs_txn_buf b = {0};
    char key[16], large[1000] = "";
    unsigned told = 0;
    errmsg_t err;
    add(&b, KVS_OP_PUT, 0, "d.v", large, sizeof(large));
    for (int i = 0; i < 60; i++) {
        snprintf(key, sizeof(key), "d.%d", i);
        add(&b, KVS_OP_COPY, 0, key, "d", 1);
    }
    commit(&b);
    ck_assert_int_eq(
        diff_by(7, content, NULL, kvsstore_root(store), KVSDIFF_RECURSIVE, count, &told, &err), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    /* Objects that are missing are found level by level, each once. */
    content_t *cache = content_create(blobref, 1 << 30);
    for (int rounds = 0;; rounds++) {
        miss.n = 0;
        if (diff_by(7, cache, NULL, kvsstore_root(store), KVSDIFF_RECURSIVE, count, &told, &err) ==
                -1 &&
            errno != EAGAIN)
            break;
        ck_assert_int_le(rounds, 70);
        ck_assert_uint_le(miss.n, 64);
        fetch(cache);
    }
    ck_assert_int_eq(errno, EMSGSIZE);
    content_destroy(cache);
    /* So are values. */
    told = 0;
    miss.n = 0;
    content_elsewhere = content_create(blobref, 1 << 30);
    ck_assert_int_eq(diff_by(7, content, NULL, kvsstore_root(store), KVSDIFF_RECURSIVE, needs_value,
                             &told, &err),
                     -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_lt(told, 10000);
    content_destroy(content_elsewhere);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, pages);
    tcase_add_test(tc, moving);
    tcase_add_test(tc, page_faults);
    tcase_add_loop_test(tc, differences, 0, 8);
    tcase_add_test(tc, diff_cost);
    tcase_add_test(tc, deep);
    tcase_add_test(tc, doubling);
    return run_case("kvswalk", tc);
}
