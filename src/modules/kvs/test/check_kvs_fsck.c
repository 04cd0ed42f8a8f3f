/* check_kvs_fsck.c - rows of the journal and their replay; files that are sound, and each way in
 * which one can be not. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sqlfile.h"
#include "../km_fsck.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvsdisk.h"
#include "libkvs/treeobj.h"
#include "libutil/fdutil.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"

static char dir[64];
static char path[128];
static blobref_t *blobref;
static content_t *content;
static kvsstore_t *store;
static sqlfile_t *file;
static uint32_t ns;
static errmsg_t err;

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/check-fsck-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/%s", dir, KVS_STORAGE_FILE);
    blobref = blobref_create("sha1", NULL);
    content = content_create(blobref, 1000000);
    store = kvsstore_create(content);
    ck_assert_ptr_nonnull(store);
    file = sqlfile_open(path, "sha1", SQLFILE_MAKE, &err);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(sqlfile_begin(file, true, &err), 0);
    ck_assert_int_eq(sqlfile_create_ns(file, "primary", 0, 0, NULL, &ns, &err), 0);
}

static void teardown(void)
{
    sqlfile_close(file);
    kvsstore_destroy(store);
    content_destroy(content);
    blobref_destroy(blobref);
    ck_assert_int_eq(dir_remove_tree(dir), 0);
}

static void put(struct kvs_txn_buf *b, const char *key, size_t len)
{
    char *value = malloc(len + 1);

    for (size_t i = 0; i < len; i++)
        value[i] = (char)(i / 7 + strlen(key) + i / 32768);
    ck_assert_int_eq(kvs_txn_buf_add(b, KVS_OP_PUT, 0, key, strlen(key), value, len, &err), 0);
    free(value);
}

/* Apply a transaction and put it into a row. */
static void change(struct kvs_txn_buf *b, bool journal)
{
    uint8_t head[KVSDISK_ROW_HEADER], len[KVSDISK_ROW_TXN];
    struct iovec iov[] = {{head, sizeof(head)}, {len, sizeof(len)}, {b->data, b->len}};

    ck_assert_int_eq(kvsstore_begin(store), 0);
    ck_assert_int_eq(kvsstore_apply(store, b->data, b->len, &err), 0);
    ck_assert_int_eq(kvsstore_end(store, &err), 1);
    kvsdisk_row_header(head, 1);
    kvsdisk_row_txn(len, (uint32_t)b->len);
    if (journal)
        ck_assert_int_eq(
            sqlfile_journal(file, ns, kvsstore_version(store), kvsstore_root(store), iov, 3, &err),
            0);
    kvs_txn_buf_clear(b);
}

/* Write what is not on disk, but for objects of this size; its number is returned. */
static unsigned checkpoint_without(size_t len, uint8_t *digest)
{
    struct content_obj *o;
    unsigned n = 0;

    kvsstore_checkpoint(store);
    while ((o = kvsstore_checkpoint_next(store))) {
        struct kvs_storage_obj obj = {o->digest, o->data, o->len,
                                      treeobj_kind(o->data) == TREEOBJ_BLOB};
        if (o->len != len) {
            ck_assert_int_eq(sqlfile_store(file, ns, &obj, &err), 0);
        } else {
            memcpy(digest, o->digest, 20);
            n++;
        }
        kvsstore_written(store, o, true);
    }
    ck_assert_int_eq(
        sqlfile_checkpoint(file, ns, kvsstore_version(store), kvsstore_root(store), &err), 0);
    return n;
}

static void checkpoint(void)
{
    checkpoint_without(SIZE_MAX, NULL);
}

static void some_content(void)
{
    struct kvs_txn_buf b = {0};
    char key[32];

    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof(key), "dir.k%d", i);
        put(&b, key, (size_t)i);
    }
    put(&b, "a.medium", 3000);
    put(&b, "a.large", 200000);
    change(&b, false);
}

static void some_rows(void)
{
    struct kvs_txn_buf b = {0};

    put(&b, "a.b.c", 10);
    put(&b, "dir.k7", 5000);
    change(&b, true);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_APPEND, 0, "a.large", 7, "more", 4, &err), 0);
    change(&b, true);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_APPEND, 0, "a.medium", 8, "more", 4, &err), 0);
    change(&b, true);
}

static void report(void *arg, bool bad, const char *sentence)
{
    char *last = arg;

    ck_assert_str_ne(sentence, "");
    if (bad)
        snprintf(last, 512, "%s", sentence);
}

static char said[512];

static struct km_fsck check(void)
{
    struct km_fsck f = {.report = report, .arg = said};
    bool unknown;

    ck_assert_int_eq(sqlfile_commit(file, &unknown, &err), 0);
    sqlfile_close(file);
    file = NULL;
    said[0] = '\0';
    ck_assert_msg(km_fsck(dir, &f, &err) == 0, "%s", err.text);
    return f;
}

START_TEST(sound)
{
    some_content();
    checkpoint();
    some_rows();
    struct km_fsck f = check();
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(f.problems, 0);
    ck_assert_str_eq(f.hash, "sha1");
    ck_assert_uint_eq(f.namespaces, 1);
    ck_assert_uint_eq(f.rows, 3);
    ck_assert_uint_gt(f.nodes, 10);
    ck_assert_uint_gt(f.blobs, 40);
    f = (struct km_fsck){.report = report, .arg = said};
    ck_assert_int_eq(km_fsck(path, &f, &err), 0);
    ck_assert_uint_eq(f.problems, 0);
}
END_TEST

START_TEST(nothing_yet)
{
    struct km_fsck f = check();
    ck_assert_uint_eq(f.problems, 0);
    ck_assert_uint_eq(f.nodes, 0);
}
END_TEST

START_TEST(missing_blob)
{
    uint8_t digest[20];
    some_content();
    ck_assert_uint_eq(checkpoint_without(TREEOBJ_HEADER + 3000, digest), 1);
    struct km_fsck f = check();
    ck_assert_uint_eq(f.problems, 1);
    ck_assert_ptr_nonnull(strstr(said, "'a.medium'"));
    ck_assert_ptr_nonnull(strstr(said, "missing"));
}
END_TEST

/* One byte of an object is another. */
START_TEST(changed_object)
{
    uint8_t digest[20];
    uint8_t other[TREEOBJ_HEADER + 3000] = {0};
    some_content();
    ck_assert_uint_eq(checkpoint_without(TREEOBJ_HEADER + 3000, digest), 1);
    treeobj_blob_header(other);
    struct kvs_storage_obj o = {digest, other, sizeof(other), true};
    ck_assert_int_eq(sqlfile_store(file, ns, &o, &err), 0);
    struct km_fsck f = check();
    ck_assert_uint_eq(f.problems, 2); /* and so it is missing */
}
END_TEST

/* A row is lost, or one is not what its root says. */
START_TEST(broken_journal)
{
    struct kvs_txn_buf b = {0};
    uint8_t head[KVSDISK_ROW_HEADER], len[KVSDISK_ROW_TXN];

    some_content();
    checkpoint();
    if (_i == 0) {
        put(&b, "x", 1);
        change(&b, false);
        some_rows();
    } else {
        some_rows();
        put(&b, "y", 1);
        struct iovec iov[] = {{head, sizeof(head)}, {len, sizeof(len)}, {b.data, b.len}};
        kvsdisk_row_header(head, 1);
        kvsdisk_row_txn(len, (uint32_t)b.len - (_i == 2));
        ck_assert_int_eq(sqlfile_journal(file, ns, kvsstore_version(store) + 1,
                                         kvsstore_root(store), iov, 3, &err),
                         0);
        kvs_txn_buf_clear(&b);
    }
    struct km_fsck f = check();
    ck_assert_uint_eq(f.problems, 1);
    ck_assert_ptr_nonnull(strstr(said, "journal, version"));
}
END_TEST

/* Objects that have their hash but do not fit together: a branch that counts wrong, a value whose
 * size is not that of its blob. */
START_TEST(does_not_fit)
{
    static uint8_t buf[70000];
    uint8_t digest[20], root[20], blob[TREEOBJ_HEADER + 1000] = {0};
    struct treeobj_child child[TREEOBJ_FAN] = {{0}};
    struct treeobj_entry e[17];

    char names[17][16];
    size_t len;

    if (_i == 0) {
        /* Two leaves, where 33 entries would be needed: 16 + 17 names at the top. */
        for (int half = 0; half < 2; half++) {
            for (int i = 0; i < 17; i++) {
                snprintf(names[i], sizeof(names[i]), "%02d", i);
                e[i] = (struct treeobj_entry){
                    .name = names[i], .namelen = 2, .type = TREEOBJ_VALUE, .len = 1};
                e[i].data = (const uint8_t *)(half ? "a" : "b");
            }
            len = treeobj_leaf_size(e, 16, 20);
            treeobj_leaf_encode(buf, e, 16, 20, 1);

            blobref_hash(blobref, buf, len, half ? digest : root);
            struct kvs_storage_obj leaf = {half ? digest : root, buf, len, false};
            ck_assert_int_eq(sqlfile_store(file, ns, &leaf, &err), 0);
        }
        child[0].digest = digest;
        child[0].count = 17;
        child[1].digest = root;
        child[1].count = 16;
        len = treeobj_branch_size(child, 20);
        treeobj_branch_encode(buf, child, 20, 0);
    } else {
        treeobj_blob_header(blob);
        blobref_hash(blobref, blob, sizeof(blob), digest);
        struct kvs_storage_obj b = {digest, blob, sizeof(blob), true};
        ck_assert_int_eq(sqlfile_store(file, ns, &b, &err), 0);
        e[0] = (struct treeobj_entry){
            .name = "v", .namelen = 1, .type = TREEOBJ_REF, .len = 999, .digest = digest};
        len = treeobj_leaf_size(e, 1, 20);
        treeobj_leaf_encode(buf, e, 1, 20, 0);
    }
    uint8_t top[20];
    blobref_hash(blobref, buf, len, top);
    struct kvs_storage_obj t = {top, buf, len, false};
    ck_assert_int_eq(sqlfile_store(file, ns, &t, &err), 0);
    ck_assert_int_eq(sqlfile_checkpoint(file, ns, 1, top, &err), 0);
    struct km_fsck f = check();
    ck_assert_uint_eq(f.problems, 1);
    ck_assert_ptr_nonnull(strstr(said, "disagrees with an object"));
}
END_TEST

START_TEST(cannot_be_checked)
{
    struct km_fsck f = {.report = report, .arg = said};
    ck_assert_int_eq(km_fsck(dir, &f, &err), -1);
    ck_assert_int_eq(errno, EBUSY);
    ck_assert_int_eq(km_fsck("/nowhere/at/all", &f, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(km_fsck("/dev/null", &f, &err), -1);
    ck_assert_str_ne(err.text, "");
    check();
    put_file(path, "some text that is not a database file", 37, 0600);
    ck_assert_int_eq(km_fsck(path, &f, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    put_file(path, "", 0, 0600);
    ck_assert_int_eq(km_fsck(path, &f, &err), 0);
    ck_assert_uint_eq(f.problems, 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("km_fsck");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, sound);
    tcase_add_test(tc, nothing_yet);
    tcase_add_test(tc, missing_blob);
    tcase_add_test(tc, changed_object);
    tcase_add_loop_test(tc, broken_journal, 0, 3);
    tcase_add_loop_test(tc, does_not_fit, 0, 2);
    tcase_add_test(tc, cannot_be_checked);
    return run_case("km_fsck", tc);
}
