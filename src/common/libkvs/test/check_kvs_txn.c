/* check_kvs_txn.c - transactions: round trip, limits, and bytes that are none. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"

static int add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
               const char *val)
{
    return kvs_txn_buf_add(b, type, flags, key, strlen(key), val, val ? strlen(val) : 0, NULL);
}

static int count(const void *data, size_t len)
{
    struct kvs_txn_iter it;
    struct kvs_op op;
    int n = 0, rc;
    errmsg_t err = {""};
    if (kvs_txn_open(&it, data, len, NULL, &err) < 0) {
        ck_assert(err.text[0]);
        return -1;
    }
    while ((rc = kvs_txn_next(&it, &op, &err)) == 1)
        n++;
    ck_assert(rc == 0 || err.text[0]);
    return rc < 0 ? -1 : n;
}

START_TEST(round_trip)
{
    struct kvs_txn_buf b = {0}, copy = {0};
    struct kvs_txn_iter it;
    struct kvs_op op;
    uint32_t nops;
    ck_assert_int_eq(add(&b, KVS_OP_PUT, 0, "a.b", "value"), 0);
    ck_assert_int_eq(add(&b, KVS_OP_PUT, 0, "empty", ""), 0);
    ck_assert_int_eq(add(&b, KVS_OP_UNLINK, KVS_OP_RECURSIVE | KVS_OP_MUST, "c", NULL), 0);
    ck_assert_int_eq(add(&b, KVS_OP_MKDIR, 0, "d", NULL), 0);
    ck_assert_int_eq(add(&b, KVS_OP_SYMLINK, 0, "e", "a.b"), 0);
    ck_assert_int_eq(kvs_txn_open(&it, b.data, b.len, &nops, NULL), 0);
    ck_assert_uint_eq(nops, 5);
    ck_assert_int_eq(kvs_txn_next(&it, &op, NULL), 1);
    ck_assert_int_eq(op.type, KVS_OP_PUT);
    ck_assert_uint_eq(op.keylen, 3);
    ck_assert_mem_eq(op.key, "a.b", 3);
    ck_assert_uint_eq(op.len, 5);
    ck_assert_mem_eq(op.value, "value", 5);
    ck_assert_int_eq(kvs_txn_buf_copy(&copy, &op, NULL), 0);
    while (kvs_txn_next(&it, &op, NULL) == 1)
        ck_assert_int_eq(kvs_txn_buf_copy(&copy, &op, NULL), 0);
    ck_assert_uint_eq(copy.len, b.len);
    ck_assert_mem_eq(copy.data, b.data, b.len);
    /* Every truncation and every change of a header byte to nonsense is refused. */
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *exact = malloc(n + 1);
        memcpy(exact, b.data, n);
        ck_assert_int_eq(count(exact, n), -1);
        free(exact);
    }
    uint8_t *more = malloc(b.len + 1);
    memcpy(more, b.data, b.len);
    more[b.len] = 0;
    ck_assert_int_eq(count(more, b.len + 1), -1);
    for (size_t i = 0; i < 8; i++) {
        more[i] ^= 0x40;
        ck_assert_int_eq(count(more, b.len), -1);
        more[i] ^= 0x40;
    }
    ck_assert_int_eq(count(more, b.len), 5);
    more[8] = 9; /* type */
    ck_assert_int_eq(count(more, b.len), -1);
    more[8] = 1;
    more[9] = 1; /* flags */
    ck_assert_int_eq(count(more, b.len), -1);
    free(more);
    kvs_txn_buf_clear(&b);
    kvs_txn_buf_clear(&copy);
}
END_TEST

START_TEST(refused)
{
    struct kvs_txn_buf b = {0};
    errmsg_t err;
    ck_assert_int_eq(add(&b, KVS_OP_PUT, 0, "a..b", "x"), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(add(&b, KVS_OP_PUT, 0, ".", "x"), -1);
    ck_assert_int_eq(add(&b, KVS_OP_SYMLINK, 0, "a", "x."), -1);
    ck_assert_int_eq(add(&b, KVS_OP_MKDIR, 0, "a", "x"), -1);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_PUT, 0, "a", 1, "", KVS_VALUE_MAX + 1, &err), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_ptr_null(b.data);
    /* As many full values as fit. */
    void *big = calloc(1, KVS_VALUE_MAX);
    int n = 0;
    while (kvs_txn_buf_add(&b, KVS_OP_PUT, 0, "a", 1, big, KVS_VALUE_MAX, &err) == 0)
        n++;
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(count(b.data, b.len), 3);
    free(big);
    kvs_txn_buf_clear(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kvs_txn");
    TCase *tc = tcase_create("core");
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, refused);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
