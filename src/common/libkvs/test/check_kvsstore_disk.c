/* check_kvsstore_disk.c - checkpoints, deletion of what dies, loading, and bytes that left memory,
 * with a disk that is a map in this program. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsdisk.h"
#include "libkvs/kvsstore.h"
#include "libkvs/kvsvalue.h"
#include "libutil/hmap.h"
#include "libutil/test/rnd.h"
#include "libutil/test/suite.h"

static blobref_t *blobref;
static struct kvsmiss miss;

struct row {
    size_t len;
    uint8_t data[];
};

struct fixture {
    content_t *content;
    kvsstore_t *store;
    hmap_t *disk;
    uint8_t root[32];
    uint64_t version;
    bool has_root;
    /* being written */
    struct content_obj *slow[100];
    size_t nslow;
};

static void dead(void *arg, const uint8_t *digest)
{
    struct fixture *f = arg;
    ck_assert(hmap_del(f->disk, digest));
}

static void open_store(struct fixture *f)
{
    f->content = content_create(blobref, 50000);
    f->store = kvsstore_create(f->content);
    ck_assert_ptr_nonnull(f->store);
    kvsstore_on_dead(f->store, dead, f);
}

static void close_store(struct fixture *f)
{
    kvsstore_destroy(f->store);
    content_destroy(f->content);
}

static void setup(void)
{
    blobref = blobref_create("sha256", NULL);
}

static void teardown(void)
{
    blobref_destroy(blobref);
}

static void write_row(struct fixture *f, const struct content_obj *o)
{
    struct row *r = malloc(sizeof(*r) + o->len);
    r->len = o->len;
    memcpy(r->data, o->data, o->len);
    ck_assert_ptr_null(hmap_get(f->disk, o->digest));
    ck_assert_int_eq(hmap_put(f->disk, o->digest, r), 0);
}

/* Some writes end later, some fail. */
static void write_slowly(struct fixture *f, struct content_obj *o, uint64_t *seed)
{
    f->slow[f->nslow++] = o;
    while (f->nslow > 50 || (f->nslow > 0 && rnd(seed) % 3 == 0)) {
        size_t i = rnd(seed) % f->nslow;
        o = f->slow[i];
        f->slow[i] = f->slow[--f->nslow];
        write_row(f, o);
        kvsstore_written(f->store, o, true);
    }
}

static void write_rest(struct fixture *f)
{
    while (f->nslow > 0) {
        struct content_obj *o = f->slow[--f->nslow];
        write_row(f, o);
        kvsstore_written(f->store, o, true);
    }
}

static void random_commit(struct fixture *f, uint64_t *seed)
{
    static char data[80000];
    struct kvs_txn_buf b = {0};
    errmsg_t err = {""};
    char key[64], from[64];
    int left = 50;
    while (b.nops == 0 || rnd(seed) % 8) {
        unsigned r = rnd(seed) % 100;
        snprintf(key, sizeof(key), "d%u.k%u", rnd(seed) % 3, rnd(seed) % 150);
        snprintf(from, sizeof(from), "d%u", rnd(seed) % 5);
        size_t len = r % 20 ? rnd(seed) % 3000 : rnd(seed) % sizeof(data);
        memset(data, 'a' + (int)(rnd(seed) % 26), len);
        enum kvs_op_type type = r < 50   ? KVS_OP_PUT
                                : r < 70 ? KVS_OP_APPEND
                                : r < 95 ? KVS_OP_UNLINK
                                         : KVS_OP_COPY;
        if (type == KVS_OP_COPY) {
            snprintf(key, sizeof(key), "d%u", rnd(seed) % 5);
            ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, key, strlen(key),
                                             NULL, 0, NULL),
                             0);
            if (strcmp(key, from) == 0)
                continue;
            ck_assert_int_eq(
                kvs_txn_buf_add(&b, KVS_OP_MKDIR, 0, from, strlen(from), NULL, 0, NULL), 0);
            ck_assert_int_eq(
                kvs_txn_buf_add(&b, type, 0, key, strlen(key), from, strlen(from), NULL), 0);
            continue;
        }
        ck_assert_int_eq(kvs_txn_buf_add(&b, type, 0, key, strlen(key), data,
                                         type == KVS_OP_UNLINK ? 0 : len, NULL),
                         0);
    }
    for (;;) {
        ck_assert_int_eq(kvsstore_begin(f->store), 0);
        int rc = kvsstore_apply(f->store, b.data, b.len, &err);
        int errnum = rc < 0 ? errno : 0;
        ck_assert_int_eq(kvsstore_end(f->store, NULL), rc < 0 ? 0 : 1);
        if (rc == 0)
            break;
        /* Bytes that are on disk only. */
        ck_assert_msg(errnum == ENODATA, "%s", err.text);
        ck_assert_int_gt(--left, 0);
        const struct kvsmiss *m = kvsstore_missing(f->store);
        ck_assert_uint_gt(m->n, 0);
        for (unsigned i = 0; i < m->n; i++) {
            struct row *r = hmap_get(f->disk, m->digest[i]);
            ck_assert_ptr_nonnull(r);
            ck_assert_int_eq(content_supply(f->content, m->digest[i], r->data, r->len), 0);
        }
    }
    kvs_txn_buf_clear(&b);
}

struct tree {
    struct fixture *f;
    hmap_t *seen;
    size_t objects;
    bool disk; /* look there only */
};

/* All that is below is there, and on disk it is whole. */
static int look(const uint8_t *digest, void *arg)
{
    struct tree *t = arg;
    if (hmap_get(t->seen, digest))
        return 0;
    struct row *r = hmap_get(t->f->disk, digest);
    struct content_obj *o = content_find(t->f->content, digest);
    ck_assert(t->disk ? r != NULL : o && o->kept && (o->data || r));
    ck_assert_int_eq(hmap_put(t->seen, digest, t), 0);
    t->objects++;
    return treeobj_refs(!t->disk && o->data ? o->data : r->data, 32, look, t);
}

static size_t tree_objects(struct fixture *f, const uint8_t *root, bool disk)
{
    struct tree t = {f, hmap_create_bin(32, NULL), 0, disk};
    look(root, &t);
    hmap_destroy(t.seen);
    return t.objects;
}

/* --- slices --- */

static unsigned steps_left; /* of this slice */

static bool more(void *arg)
{
    if (steps_left == 0)
        return false;
    steps_left--;
    return true;
}

/* Load the root in slices of that many steps; 0: at once.  Returns the number of slices. */
static unsigned load_root(struct fixture *f, unsigned steps)
{
    errmsg_t err = {""};
    unsigned slices = 0;
    int rc;
    kvsstore_pace(f->store, steps ? more : NULL, NULL);
    do {
        steps_left = steps;
        slices++;
        rc = kvsstore_load_root(f->store, f->root, f->version, &err);
        if (rc == KVSSTORE_MORE)
            ck_assert(!kvsstore_collect(f->store, 10));
    } while (rc == KVSSTORE_MORE);
    kvsstore_pace(f->store, NULL, NULL);
    ck_assert_msg(rc == 0, "%s", err.text);
    return slices;
}

/* Load the disk into another store; it must be what `root` says, and no object more after a while.
 */
static void reload(struct fixture *f, bool records)
{
    errmsg_t err = {""};
    size_t pos = 0;
    const void *digest;
    void *val;
    close_store(f);
    f->nslow = 0;
    open_store(f);
    while (hmap_next(f->disk, &pos, &digest, NULL, &val)) {
        const struct row *r = val;
        bool bytes = !records || r->data[0] != TREEOBJ_BLOB || r->len < CONTENT_SEPARATE;
        ck_assert_msg(kvsstore_load(f->store, digest, bytes ? r->data : NULL, r->len, &err) == 0,
                      "%s", err.text);
    }
    ck_assert(!kvsstore_collect(f->store, 10));
    (void)load_root(f, records ? 1 : 0);
    while (kvsstore_collect(f->store, 100))
        ;
    ck_assert_mem_eq(kvsstore_root(f->store), f->root, 32);
    ck_assert_uint_eq(kvsstore_version(f->store), f->version);
    struct kvsstore_stats st;
    kvsstore_get_stats(f->store, &st);
    ck_assert_uint_eq(st.kept, tree_objects(f, f->root, false));
    ck_assert_uint_eq(st.kept, hmap_count(f->disk));
    ck_assert_uint_eq(st.dirty, 0);
    ck_assert_uint_eq(st.dirty_bytes, 0);
    ck_assert_int_eq(kvsstore_hold_root(f->store, f->root, &err), 0);
}

START_TEST(checkpoints)
{
    struct fixture f = {.disk = hmap_create_bin(32, free)};
    uint64_t seed = 40 + (uint64_t)_i;
    struct kvsstore_stats st;
    open_store(&f);
    for (int round = 0; round < 12; round++) {
        uint8_t root[32];
        for (int i = 0; i < 5; i++)
            random_commit(&f, &seed);
        (void)kvsstore_collect(f.store, rnd(&seed) % 50);
        memcpy(root, kvsstore_root(f.store), 32);
        uint64_t version = kvsstore_version(f.store);
        ck_assert_int_eq(kvsstore_hold_root(f.store, root, NULL), 0);
        kvsstore_checkpoint(f.store);
        struct content_obj *o;
        while ((o = kvsstore_checkpoint_next(f.store))) {
            if (rnd(&seed) % 50 == 0)
                kvsstore_written(f.store, o, false); /* the disk was full */
            else
                write_slowly(&f, o, &seed);
            /* Commits go on. */
            if (rnd(&seed) % 4 == 0) {
                random_commit(&f, &seed);
                (void)kvsstore_collect(f.store, rnd(&seed) % 100);
            }
            if (rnd(&seed) % 10 == 0) /* a second try for what failed */
                kvsstore_checkpoint(f.store);
        }
        for (int left = 1; left;) {
            left = 0;
            kvsstore_checkpoint(f.store);
            while ((o = kvsstore_checkpoint_next(f.store))) {
                left = 1;
                write_slowly(&f, o, &seed);
            }
            write_rest(&f);
        }
        (void)tree_objects(&f, root, true);
        if (f.has_root)
            kvsstore_release_root(f.store, f.root);
        memcpy(f.root, root, 32);
        f.version = version;
        f.has_root = true;
        for (int i = 0; i < 3; i++)
            random_commit(&f, &seed);
        while (round % 2 && kvsstore_collect(f.store, 100))
            ;
        (void)tree_objects(&f, kvsstore_root(f.store), false);
        (void)tree_objects(&f, f.root, true);
        if (round % 3 == 2)
            reload(&f, round % 2);
    }
    /* Nothing left but what the root needs. */
    kvsstore_release_root(f.store, f.root);
    while (kvsstore_collect(f.store, 100))
        ;
    kvsstore_get_stats(f.store, &st);
    ck_assert_uint_eq(st.kept, tree_objects(&f, kvsstore_root(f.store), false));
    ck_assert_uint_eq(st.held, 0);
    ck_assert_uint_eq(st.writing, 0);
    close_store(&f);
    hmap_destroy(f.disk);
}
END_TEST

static void put(struct fixture *f, const char *key, const void *data, size_t len)
{
    struct kvs_txn_buf b = {0};
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_PUT, 0, key, strlen(key), data, len, NULL), 0);
    ck_assert_int_eq(kvsstore_begin(f->store), 0);
    ck_assert_int_eq(kvsstore_apply(f->store, b.data, b.len, NULL), 0);
    ck_assert_int_eq(kvsstore_end(f->store, NULL), 1);
    kvs_txn_buf_clear(&b);
}

static void checkpoint(struct fixture *f)
{
    struct content_obj *o;
    kvsstore_checkpoint(f->store);
    while ((o = kvsstore_checkpoint_next(f->store))) {
        write_row(f, o);
        kvsstore_written(f->store, o, true);
    }
    memcpy(f->root, kvsstore_root(f->store), 32);
    f->version = kvsstore_version(f->store);
}

static void many_keys(struct kvs_txn_buf *b, const char *dir, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char key[64];
        snprintf(key, sizeof(key), "%s.k%u.%u", dir, i % 100, i);
        ck_assert_int_eq(kvs_txn_buf_add(b, KVS_OP_PUT, 0, key, strlen(key), "1", 1, NULL), 0);
    }
}

/* Neither the references of a large store nor a large row of the journal are worked on in one go,
 * and what comes of it is the same. */
START_TEST(slices)
{
    struct fixture f = {.disk = hmap_create_bin(32, free)};
    struct kvs_txn_buf b = {0};
    struct kvsdisk_replay r;
    errmsg_t err = {""};
    uint8_t root[32], *row;
    size_t len;
    unsigned n = 0;
    int rc;
    open_store(&f);
    many_keys(&b, "a", 200000);
    ck_assert_int_eq(kvsstore_begin(f.store), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, b.data, b.len, NULL), 0);
    ck_assert_int_eq(kvsstore_end(f.store, NULL), 1);
    kvs_txn_buf_clear(&b);
    while (kvsstore_collect(f.store, 100))
        ;
    checkpoint(&f);
    reload(&f, false);
    /* A row of two transactions. */
    many_keys(&b, "b", 20000);
    ck_assert_int_eq(kvsstore_begin(f.store), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, b.data, b.len, NULL), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, b.data, b.len, NULL), 0);
    ck_assert_int_eq(kvsstore_end(f.store, NULL), 1);
    memcpy(root, kvsstore_root(f.store), 32);
    len = KVSDISK_ROW_HEADER + 2 * (KVSDISK_ROW_TXN + b.len);
    ck_assert_ptr_nonnull(row = malloc(len));
    kvsdisk_row_header(row, 2);
    for (size_t i = 0; i < 2; i++) {
        uint8_t *p = row + KVSDISK_ROW_HEADER + i * (KVSDISK_ROW_TXN + b.len);
        kvsdisk_row_txn(p, (uint32_t)b.len);
        memcpy(p + KVSDISK_ROW_TXN, b.data, b.len);
    }
    kvs_txn_buf_clear(&b);
    /* Back to the checkpoint, from the disk. */
    kvsstore_release_root(f.store, f.root);
    close_store(&f);
    open_store(&f);
    size_t pos = 0;
    const void *digest;
    void *val;
    while (hmap_next(f.disk, &pos, &digest, NULL, &val)) {
        const struct row *o = val;
        ck_assert_int_eq(kvsstore_load(f.store, digest, o->data, o->len, &err), 0);
    }
    size_t objects = hmap_count(f.disk);
    ck_assert_uint_gt(objects, 2000);
    ck_assert_uint_gt(load_root(&f, 10), objects / 100);
    /* The row. */
    ck_assert_int_eq(kvsdisk_replay_begin(&r, f.store, f.version + 1, root, 32, row, len, &err), 0);
    kvsstore_pace(f.store, more, NULL);
    do {
        steps_left = 10;
        n++;
        rc = kvsdisk_replay_step(&r, &err);
    } while (rc == KVSSTORE_MORE);
    kvsstore_pace(f.store, NULL, NULL);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_uint_gt(n, 40000 / 100);
    ck_assert_mem_eq(kvsstore_root(f.store), root, 32);
    ck_assert_uint_eq(kvsstore_version(f.store), f.version + 1);
    /* One that is stopped before its end. */
    steps_left = 3;
    ck_assert_int_eq(kvsdisk_replay_begin(&r, f.store, f.version + 2, root, 32, row, len, &err), 0);
    kvsstore_pace(f.store, more, NULL);
    ck_assert_int_eq(kvsdisk_replay_step(&r, &err), KVSSTORE_MORE);
    close_store(&f);
    free(row);
    hmap_destroy(f.disk);
}
END_TEST

/* A row that is refused after much was done says why, although the undo takes many slices. */
START_TEST(refused)
{
    struct fixture f = {.disk = hmap_create_bin(32, free)};
    struct kvs_txn_buf b = {0};
    struct kvsdisk_replay r;
    errmsg_t err = {""};
    uint8_t root[32] = {0}, *row;
    unsigned n = 0;
    size_t len;
    int rc;

    open_store(&f);
    put(&f, "here", "1", 1);
    many_keys(&b, "b", 2000);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_MOVE, 0, "to", 2, "missing", 7, NULL), 0);
    len = KVSDISK_ROW_HEADER + KVSDISK_ROW_TXN + b.len;
    ck_assert_ptr_nonnull(row = malloc(len));
    kvsdisk_row_header(row, 1);
    kvsdisk_row_txn(row + KVSDISK_ROW_HEADER, (uint32_t)b.len);
    memcpy(row + KVSDISK_ROW_HEADER + KVSDISK_ROW_TXN, b.data, b.len);
    kvs_txn_buf_clear(&b);
    ck_assert_int_eq(
        kvsdisk_replay_begin(&r, f.store, kvsstore_version(f.store) + 1, root, 32, row, len, &err),
        0);
    kvsstore_pace(f.store, more, NULL);
    do {
        errmsg_t other = {"not this"};

        steps_left = 10;
        n++;
        rc = kvsdisk_replay_step(&r, &other);
        err = other;
    } while (rc == KVSSTORE_MORE);
    kvsstore_pace(f.store, NULL, NULL);
    ck_assert_int_eq(rc, -1);
    ck_assert_uint_gt(n, 20);
    ck_assert_msg(strstr(err.text, "missing") && strstr(err.text, "no such key"), "%s", err.text);
    close_store(&f);
    free(row);
    hmap_destroy(f.disk);
}
END_TEST

/* A store that is destroyed while its root is being loaded. */
START_TEST(slices_stopped)
{
    struct fixture f = {.disk = hmap_create_bin(32, free)};
    errmsg_t err = {""};
    open_store(&f);
    for (int i = 0; i < 100; i++) {
        char key[64];
        snprintf(key, sizeof(key), "d%d.e.f.k", i);
        put(&f, key, "1", 1);
    }
    while (kvsstore_collect(f.store, 100))
        ;
    checkpoint(&f);
    for (unsigned stop = 1; stop < 60; stop++) {
        size_t pos = 0;
        const void *digest;
        void *val;
        int rc;
        close_store(&f);
        open_store(&f);
        while (hmap_next(f.disk, &pos, &digest, NULL, &val)) {
            const struct row *o = val;
            ck_assert_int_eq(kvsstore_load(f.store, digest, o->data, o->len, &err), 0);
        }
        steps_left = stop;
        kvsstore_pace(f.store, more, NULL);
        rc = kvsstore_load_root(f.store, f.root, f.version, &err);
        ck_assert(rc == KVSSTORE_MORE || rc == 0);
    }
    close_store(&f);
    hmap_destroy(f.disk);
}
END_TEST

/* One object is missing or damaged: an error message says which key needs it; one that nothing
 * needs may be missing. */
START_TEST(damage)
{
    struct fixture f = {.disk = hmap_create_bin(32, free)};
    static char large[100000], medium[3000];
    struct treeobj_entry e;
    errmsg_t err = {""};
    uint8_t digest[32];
    open_store(&f);
    put(&f, "some.where.large", large, sizeof(large));
    put(&f, "some.where.medium", medium, sizeof(medium));
    for (int i = 0; i < 100; i++) {
        char key[64];
        snprintf(key, sizeof(key), "some.dir.k%d", i);
        put(&f, key, "1", 1);
    }
    while (kvsstore_collect(f.store, 100))
        ;
    checkpoint(&f);
    static const struct {
        const char *key;
        bool child; /* the first below it */
    } cases[] = {{"some.where.large", false},  {"some.where.large", true},
                 {"some.where.medium", false}, {"some.where", false},
                 {"some.dir", false},          {"some.dir", true}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        miss.n = 0;
        ck_assert_int_eq(kvswalk_find(f.content, f.root, cases[c].key, strlen(cases[c].key), 0, &e,
                                      NULL, &miss, NULL),
                         0);
        memcpy(digest, e.digest, 32);
        if (cases[c].child) {
            const struct content_obj *o = content_find(f.content, digest);
            memcpy(digest, o->data + TREEOBJ_HEADER + (o->data[0] == TREEOBJ_BRANCH ? 4 : 0), 32);
        }
        struct row *r = hmap_take(f.disk, digest);
        ck_assert_ptr_nonnull(r);
        struct fixture g = {.disk = f.disk};
        size_t pos = 0;
        const void *d;
        void *val;
        open_store(&g);
        while (hmap_next(f.disk, &pos, &d, NULL, &val)) {
            const struct row *row = val;
            ck_assert_int_eq(kvsstore_load(g.store, d, row->data, row->len, &err), 0);
        }
        /* Damaged: the bytes are another object's, or none. */
        r->data[r->len - 1] ^= 1;
        err.text[0] = '\0';
        ck_assert_int_eq(kvsstore_load(g.store, digest, r->data, r->len, &err), -1);
        ck_assert_int_eq(errno, EIO);
        ck_assert_ptr_nonnull(strstr(err.text, "damaged"));
        ck_assert_int_eq(kvsstore_load(g.store, digest, r->data, 5, &err), -1);
        ck_assert_int_eq(errno, EIO);
        r->data[r->len - 1] ^= 1;
        ck_assert_int_eq(kvsstore_load_root(g.store, f.root, 1, &err), -1);
        ck_assert_int_eq(errno, EIO);
        ck_assert_msg(strstr(err.text, cases[c].key) != NULL, "%s", err.text);
        close_store(&g);
        ck_assert_int_eq(hmap_put(f.disk, digest, r), 0);
    }
    close_store(&f);
    /* A root that is not there; objects without a root that needs them. */
    open_store(&f);
    memset(digest, 3, 32);
    ck_assert_int_eq(kvsstore_load_root(f.store, digest, 1, &err), -1);
    ck_assert_int_eq(errno, EIO);
    reload(&f, true);
    close_store(&f);
    hmap_destroy(f.disk);
}
END_TEST

START_TEST(leaving_memory)
{
    struct fixture f = {.disk = hmap_create_bin(32, free)};
    static char large[200000], back[200000];
    struct content_stats cs;
    struct treeobj_entry e;
    int rc;
    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = (char)(i / 1000);
    open_store(&f);
    put(&f, "large", large, sizeof(large));
    checkpoint(&f);
    (void)kvsstore_collect(f.store, 1000);
    content_get_stats(f.content, &cs);
    ck_assert_uint_gt(cs.absent_objects, 3);
    ck_assert_uint_lt(cs.bytes, 60000);
    for (int rounds = 0;; rounds++) {
        miss.n = 0;
        rc = kvswalk_find(f.content, kvsstore_root(f.store), "large", 5, 0, &e, NULL, &miss, NULL);
        ck_assert_int_eq(rc, 0);
        rc = kvsvalue_read(f.content, &e, 0, sizeof(back), back, &miss, NULL);
        if (rc == 0)
            break;
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_lt(rounds, 3);
        for (unsigned i = 0; i < miss.n; i++) {
            struct row *r = hmap_get(f.disk, miss.digest[i]);
            ck_assert_int_eq(content_supply(f.content, miss.digest[i], r->data, r->len), 0);
        }
    }
    ck_assert(memcmp(large, back, sizeof(back)) == 0);
    content_drop(f.content, SIZE_MAX);
    /* The same value again: its bytes are here again, and it is not written twice. */
    put(&f, "other", large, sizeof(large));
    struct kvsstore_stats st;
    while (kvsstore_collect(f.store, 1000))
        ;
    kvsstore_get_stats(f.store, &st);
    ck_assert_uint_eq(st.dirty, 1); /* the root */
    /* One chunk now; it dies while it is written. */
    uint8_t digest[32];
    struct content_obj *o;
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, "chunk", 5, 1, digest, NULL), 0);
    o = kvsstore_write_now(f.store, digest);
    ck_assert_ptr_nonnull(o);
    ck_assert_ptr_null(kvsstore_write_now(f.store, digest));
    ck_assert_int_eq(errno, EALREADY);
    ck_assert_uint_eq(kvsstore_upload_expire(f.store, 2, 100), 1);
    while (kvsstore_collect(f.store, 1000))
        ;
    size_t before = hmap_count(f.disk);
    write_row(&f, o);
    kvsstore_written(f.store, o, true);
    ck_assert_uint_eq(hmap_count(f.disk), before + 1);
    while (kvsstore_collect(f.store, 1000))
        ;
    ck_assert_uint_eq(hmap_count(f.disk), before);
    ck_assert_ptr_null(kvsstore_write_now(f.store, digest));
    ck_assert_int_eq(errno, ENOENT);
    close_store(&f);
    hmap_destroy(f.disk);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, checkpoints, 0, 8);
    tcase_add_test(tc, slices);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, slices_stopped);
    tcase_add_test(tc, damage);
    tcase_add_test(tc, leaving_memory);
    return run_case("kvsstore_disk", tc);
}
