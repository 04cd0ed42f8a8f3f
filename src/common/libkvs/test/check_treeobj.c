/* check_treeobj.c - tree objects: one encoding, and hostile bytes. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/treeobj.h"
#include "libutil/test/suite.h"

#define DSIZE 32

static uint8_t digest[DSIZE];

static uint8_t *make_leaf(size_t *size, unsigned depth)
{
    static const struct treeobj_entry e[] = {
        {.name = "a", .namelen = 1, .type = TREEOBJ_VALUE, .len = 5, .data = (uint8_t *)"hello"},
        {.name = "ab", .namelen = 2, .type = TREEOBJ_REF, .len = 30000, .digest = digest},
        {.name = "ac", .namelen = 2, .type = TREEOBJ_CHUNKED, .len = 1ull << 33, .digest = digest},
        {.name = "b", .namelen = 1, .type = TREEOBJ_DIR, .digest = digest},
        {.name = "c", .namelen = 1, .type = TREEOBJ_LINK, .len = 3, .data = (uint8_t *)"a.b"},
        {.name = "d", .namelen = 1, .type = TREEOBJ_VALUE},
    };
    *size = treeobj_leaf_size(e, 6, DSIZE);
    uint8_t *buf = malloc(*size);
    treeobj_leaf_encode(buf, e, 6, DSIZE, depth);
    return buf;
}

START_TEST(leaf)
{
    size_t size;
    uint8_t *buf = make_leaf(&size, 0);
    struct treeobj_entry e;
    ck_assert_int_eq(treeobj_check(buf, size, DSIZE, NULL), 0);
    ck_assert_int_eq(treeobj_check(buf, size, 20, NULL), -1);
    ck_assert_uint_eq(treeobj_count(buf, DSIZE), 6);
    ck_assert(treeobj_leaf_find(buf, DSIZE, "ab", 2, &e));
    ck_assert_int_eq(e.type, TREEOBJ_REF);
    ck_assert_uint_eq(e.len, 30000);
    ck_assert_mem_eq(e.digest, digest, DSIZE);
    ck_assert(treeobj_leaf_find(buf, DSIZE, "ac", 2, &e));
    ck_assert_int_eq(e.type, TREEOBJ_CHUNKED);
    ck_assert_uint_eq(e.len, 1ull << 33);
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

START_TEST(sizes)
{
    static const struct {
        uint8_t type;
        uint64_t len;
        int rc;
    } cases[] = {
        {TREEOBJ_REF, 256, -1},           {TREEOBJ_REF, 257, 0},
        {TREEOBJ_REF, 32768, 0},          {TREEOBJ_REF, 32769, -1},
        {TREEOBJ_CHUNKED, 32768, -1},     {TREEOBJ_CHUNKED, 32769, 0},
        {TREEOBJ_CHUNKED, 1ull << 40, 0}, {TREEOBJ_CHUNKED, (1ull << 40) + 1, -1},
    };
    uint8_t buf[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct treeobj_entry e = {.name = "n",
                                  .namelen = 1,
                                  .type = cases[i].type,
                                  .len = cases[i].len,
                                  .digest = digest};
        treeobj_leaf_encode(buf, &e, 1, DSIZE, 0);
        ck_assert_int_eq(treeobj_check(buf, treeobj_leaf_size(&e, 1, DSIZE), DSIZE, NULL),
                         cases[i].rc);
    }
}
END_TEST

START_TEST(blob)
{
    static uint8_t buf[TREEOBJ_HEADER + TREEOBJ_CHUNK + 1];
    size_t len;
    treeobj_blob_header(buf);
    ck_assert_int_eq(treeobj_check(buf, sizeof(buf) - 1, DSIZE, NULL), 0);
    ck_assert_ptr_eq(treeobj_blob(buf, sizeof(buf) - 1, &len), buf + TREEOBJ_HEADER);
    ck_assert_uint_eq(len, TREEOBJ_CHUNK);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER + 1, DSIZE, NULL), 0);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER, DSIZE, NULL), -1);
    ck_assert_int_eq(treeobj_check(buf, sizeof(buf), DSIZE, NULL), -1);
    buf[4] = 1;
    ck_assert_int_eq(treeobj_check(buf, sizeof(buf) - 1, DSIZE, NULL), -1);
}
END_TEST

static int count_ref(const uint8_t *d, void *arg)
{
    *(unsigned *)arg += *d;
    return 0;
}

START_TEST(index_object)
{
    static uint8_t buf[TREEOBJ_HEADER + (TREEOBJ_INDEX_FAN + 1) * DSIZE];
    uint32_t n;
    unsigned sum = 0;
    for (uint32_t i = 0; i < 129; i++)
        buf[TREEOBJ_HEADER + i * DSIZE] = 1;
    for (uint32_t i = 0; i <= 129; i++) {
        treeobj_index_header(buf, DSIZE, 1, i);
        ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER + i * DSIZE, DSIZE, NULL),
                         i == 0 || i == 129 ? -1 : 0);
    }
    treeobj_index_header(buf, DSIZE, 4, 3);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER + 3 * DSIZE, DSIZE, NULL), 0);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER + 3 * DSIZE - 1, DSIZE, NULL), -1);
    ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER + 3 * DSIZE + 1, DSIZE, NULL), -1);
    ck_assert_ptr_eq(treeobj_index(buf, &n), buf + TREEOBJ_HEADER);
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(treeobj_refs(buf, DSIZE, count_ref, &sum), 0);
    ck_assert_uint_eq(sum, 3);
    for (unsigned level = 0; level < 20; level++) {
        treeobj_index_header(buf, DSIZE, level, 3);
        ck_assert_int_eq(treeobj_check(buf, TREEOBJ_HEADER + 3 * DSIZE, DSIZE, NULL),
                         level >= 1 && level <= 4 ? 0 : -1);
    }
    ck_assert_uint_eq(treeobj_level(1), 0);
    ck_assert_uint_eq(treeobj_level(32768), 0);
    ck_assert_uint_eq(treeobj_level(32769), 1);
    ck_assert_uint_eq(treeobj_level(128 * 32768), 1);
    ck_assert_uint_eq(treeobj_level(128 * 32768 + 1), 2);
    ck_assert_uint_eq(treeobj_level(1ull << 40), 4);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, leaf);
    tcase_add_test(tc, hostile_leaf);
    tcase_add_test(tc, order);
    tcase_add_test(tc, branch);
    tcase_add_test(tc, sizes);
    tcase_add_test(tc, blob);
    tcase_add_test(tc, index_object);
    return run_case("treeobj", tc);
}
