/* check_treeobj.c - tree objects: one encoding, and hostile bytes. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/treeobj.h"

#define DSIZE 32

static uint8_t digest[DSIZE];

static uint8_t *make_leaf(size_t *size, unsigned depth)
{
    static const struct treeobj_entry e[] = {
        {.name = "a", .namelen = 1, .type = TREEOBJ_VALUE, .len = 5, .data = (uint8_t *)"hello"},
        {.name = "ab", .namelen = 2, .type = TREEOBJ_REF, .len = 70000, .digest = digest},
        {.name = "b", .namelen = 1, .type = TREEOBJ_DIR, .digest = digest},
        {.name = "c", .namelen = 1, .type = TREEOBJ_LINK, .len = 3, .data = (uint8_t *)"a.b"},
        {.name = "d", .namelen = 1, .type = TREEOBJ_VALUE},
    };
    *size = treeobj_leaf_size(e, 5, DSIZE);
    uint8_t *buf = malloc(*size);
    treeobj_leaf_encode(buf, e, 5, DSIZE, depth);
    return buf;
}

START_TEST(leaf)
{
    size_t size;
    uint8_t *buf = make_leaf(&size, 0);
    struct treeobj_entry e;
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), 0);
    ck_assert_int_eq(treeobj_check(buf, size, 20, NULL), -1);
    ck_assert_uint_eq(treeobj_count(buf, DSIZE), 5);
    ck_assert(treeobj_leaf_find(buf, DSIZE, "ab", 2, &e));
    ck_assert_int_eq(e.type, TREEOBJ_REF);
    ck_assert_uint_eq(e.len, 70000);
    ck_assert_mem_eq(e.digest, digest, DSIZE);
    ck_assert(treeobj_leaf_find(buf, DSIZE, "a", 1, &e));
    ck_assert_mem_eq(e.data, "hello", 5);
    ck_assert(treeobj_leaf_find(buf, DSIZE, "d", 1, &e));
    ck_assert_uint_eq(e.len, 0);
    ck_assert(!treeobj_leaf_find(buf, DSIZE, "aa", 2, &e));
    ck_assert(!treeobj_leaf_find(buf, DSIZE, "e", 1, &e));
    free(buf);
}
END_TEST

START_TEST(hostile_leaf)
{
    size_t size;
    uint8_t *buf = make_leaf(&size, 0);
    errmsg_t err;
    for (size_t n = 0; n < size; n++) {
        uint8_t *exact = malloc(n + 1);
        memcpy(exact, buf, n);
        err.text[0] = '\0';
        ck_assert_int_eq(treeobj_check(exact, n, DSIZE, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert(err.text[0]);
        free(exact);
    }
    /* Any single byte changed: refused, or harmless to read. */
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            buf[i] ^= (uint8_t)(1 << bit);
            if (treeobj_check(buf, size, DSIZE, NULL) == 0) {
                struct treeobj_entry e;
                for (uint32_t k = 0; k < treeobj_count(buf, DSIZE); k++)
                    treeobj_leaf_entry(buf, DSIZE, k, &e);
            }
            buf[i] ^= (uint8_t)(1 << bit);
        }
    }
    free(buf);
    buf = make_leaf(&size, TREEOBJ_DEPTH_MAX + 1);
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, &err), -1);
    free(buf);
}
END_TEST

START_TEST(order)
{
    struct treeobj_entry e[2] = {
        {.name = "b", .namelen = 1, .type = TREEOBJ_VALUE},
        {.name = "a", .namelen = 1, .type = TREEOBJ_VALUE},
    };
    uint8_t buf[256];
    treeobj_leaf_encode(buf, e, 2, DSIZE, 0);
    ck_assert_int_eq(treeobj_check(buf, treeobj_leaf_size(e, 2, DSIZE), DSIZE, NULL), -1);
    e[0].name = "a";
    treeobj_leaf_encode(buf, e, 2, DSIZE, 0);
    ck_assert_int_eq(treeobj_check(buf, treeobj_leaf_size(e, 2, DSIZE), DSIZE, NULL), -1);
    e[0].name = ".";
    treeobj_leaf_encode(buf, e, 2, DSIZE, 0);
    ck_assert_int_eq(treeobj_check(buf, treeobj_leaf_size(e, 2, DSIZE), DSIZE, NULL), -1);
    treeobj_leaf_encode(buf, e, 0, DSIZE, 0);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER, DSIZE, NULL), 0);
    treeobj_leaf_encode(buf, e, 0, DSIZE, 1);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER, DSIZE, NULL), -1);
}
END_TEST

START_TEST(branch)
{
    struct treeobj_child child[TREEOBJ_FAN] = {{NULL, 0}};
    uint8_t buf[TREEOBJ_HEADER + TREEOBJ_FAN * (4 + DSIZE)];
    const uint8_t *d;
    uint32_t n;
    child[3] = (struct treeobj_child){digest, 30};
    child[15] = (struct treeobj_child){digest, 3};
    size_t size = treeobj_branch_size(child, DSIZE);
    treeobj_branch_encode(buf, child, DSIZE, 2);
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), 0);
    ck_assert_uint_eq(treeobj_depth(buf), 2);
    ck_assert_uint_eq(treeobj_count(buf, DSIZE), 33);
    ck_assert(treeobj_branch_child(buf, DSIZE, 15, &d, &n));
    ck_assert_uint_eq(n, 3);
    ck_assert_mem_eq(d, digest, DSIZE);
    ck_assert(!treeobj_branch_child(buf, DSIZE, 4, &d, &n));
    ck_assert_int_eq(treeobj_check(buf, size - 1, DSIZE, NULL), -1);
    buf[6] = 1;
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), -1);
    child[3].count = 29; /* 32 in all: must be a leaf */
    treeobj_branch_encode(buf, child, DSIZE, 2);
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), -1);
    child[3].count = 100;
    child[15].count = 0;
    treeobj_branch_encode(buf, child, DSIZE, 2);
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), -1);
    child[15].count = 1;
    treeobj_branch_encode(buf, child, DSIZE, TREEOBJ_DEPTH_MAX);
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), -1);
    child[3].count = child[15].count = UINT32_MAX;
    treeobj_branch_encode(buf, child, DSIZE, 2);
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), -1);
}
END_TEST

START_TEST(blob)
{
    uint8_t buf[TREEOBJ_HEADER + TREEOBJ_INLINE_MAX + 1] = {0};
    size_t len;
    treeobj_blob_header(buf);
    ck_assert_int_eq(treeobj_check(buf, sizeof(buf), DSIZE, NULL), 0);
    ck_assert_ptr_eq(treeobj_blob(buf, sizeof(buf), &len), buf + TREEOBJ_HEADER);
    ck_assert_uint_eq(len, TREEOBJ_INLINE_MAX + 1);
    ck_assert_int_eq(treeobj_check(buf, sizeof(buf) - 1, DSIZE, NULL), -1);
    buf[4] = 1;
    ck_assert_int_eq(treeobj_check(buf, sizeof(buf), DSIZE, NULL), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("treeobj");
    TCase *tc = tcase_create("core");
    tcase_add_test(tc, leaf);
    tcase_add_test(tc, hostile_leaf);
    tcase_add_test(tc, order);
    tcase_add_test(tc, branch);
    tcase_add_test(tc, blob);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
