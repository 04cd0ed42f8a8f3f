/* check_kvs_txn.c - transactions: round trip, limits, and bytes that are none. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"
#include "libutil/test/suite.h"

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
    /* Every truncation and every invalid change of a header byte is rejected. */
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
    more[8] = 10; /* type */
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

/* Copy the operations of a transaction one by one, in both ways: the same bytes come out. */
static void same_again(const struct kvs_txn_buf *b)
{
    struct kvs_txn_buf copy = {0}, made = {0};
    struct kvs_txn_iter it;
    struct kvs_op op;
    ck_assert_int_eq(kvs_txn_open(&it, b->data, b->len, NULL, NULL), 0);
    while (kvs_txn_next(&it, &op, NULL) == 1) {
        ck_assert_int_eq(kvs_txn_buf_copy(&copy, &op, NULL), 0);
        ck_assert_int_eq(
            kvs_txn_buf_add(&made, op.type, op.flags, op.key, op.keylen, op.value, op.len, NULL),
            0);
    }
    ck_assert_uint_eq(copy.len, b->len);
    ck_assert_mem_eq(copy.data, b->data, b->len);
    ck_assert_uint_eq(made.len, b->len);
    ck_assert_mem_eq(made.data, b->data, b->len);
    kvs_txn_buf_clear(&copy);
    kvs_txn_buf_clear(&made);
}

START_TEST(more_operations)
{
    struct kvs_txn_buf b = {0};
    struct kvs_txn_iter it;
    struct kvs_op op;
    struct kvs_op_chunks ch;
    uint8_t tag[KVS_TAG_SIZE] = {KVS_TAG_DIR, 1, 2, 3}, digests[3 * 32];
    memset(digests, 7, sizeof(digests));
    ck_assert_int_eq(add(&b, KVS_OP_APPEND, 0, "log", "more"), 0);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_GUARD, 0, "a.b", 3, tag, sizeof(tag), NULL), 0);
    ck_assert_int_eq(add(&b, KVS_OP_GUARD, KVS_OP_ABSENT, "a.c", NULL), 0);
    ck_assert_int_eq(add(&b, KVS_OP_COPY, 0, "a.d", "."), 0);
    ck_assert_int_eq(add(&b, KVS_OP_COPY, 0, "a.d", "x.y"), 0);
    ck_assert_int_eq(add(&b, KVS_OP_MOVE, 0, "a.e", "a.d"), 0);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "big", 3, 2 * KVS_CHUNK + 1, digests, 3, 32, NULL),
                     0);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "big", 3, KVS_CHUNK, digests, 1, 20, NULL), 0);
    ck_assert_uint_eq(b.nops, 8);
    same_again(&b);
    ck_assert_int_eq(kvs_txn_open(&it, b.data, b.len, NULL, NULL), 0);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(kvs_txn_next(&it, &op, NULL), 1);
    ck_assert_int_eq(op.type, KVS_OP_PUTCHUNKS);
    kvs_op_get_chunks(&op, &ch);
    ck_assert_uint_eq(ch.size, 2 * KVS_CHUNK + 1);
    ck_assert_uint_eq(ch.n, 3);
    ck_assert_uint_eq(ch.dsize, 32);
    ck_assert_mem_eq(ch.digests, digests, sizeof(digests));
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *exact = malloc(n + 1);
        memcpy(exact, b.data, n);
        ck_assert_int_eq(count(exact, n), -1);
        free(exact);
    }
    kvs_txn_buf_clear(&b);
}
END_TEST

START_TEST(more_refused)
{
    struct kvs_txn_buf b = {0};
    errmsg_t err = {""};
    uint8_t tag[KVS_TAG_SIZE] = {2}, digests[64] = {0}, body[8 + 64] = {0};
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_APPEND, 0, "a", 1, "", KVS_VALUE_MAX + 1, &err),
                     -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_GUARD, 0, "a", 1, tag, sizeof(tag), &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    tag[0] = KVS_TAG_VALUE;
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_GUARD, 0, "a", 1, tag, sizeof(tag) - 1, &err), -1);
    ck_assert_int_eq(
        kvs_txn_buf_add(&b, KVS_OP_GUARD, KVS_OP_ABSENT, "a", 1, tag, sizeof(tag), &err), -1);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_GUARD, 0x104, "a", 1, NULL, 0, &err), -1);
    ck_assert_int_eq(add(&b, KVS_OP_COPY, 0, "a", ""), -1);
    ck_assert_int_eq(add(&b, KVS_OP_COPY, 0, "a", "b..c"), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(add(&b, KVS_OP_COPY, 0, ".", "b"), -1);
    ck_assert_int_eq(add(&b, KVS_OP_MOVE, 0, "a", "."), -1);
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_COPY, KVS_OP_MUST, "a", 1, "b", 1, &err), -1);
    /* Sizes and numbers of chunks that do not agree. */
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "a", 1, 0, digests, 0, 32, &err), -1);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "a", 1, KVS_CHUNK + 1, digests, 1, 32, &err), -1);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "a", 1, KVS_CHUNK, digests, 2, 32, &err), -1);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "a", 1, 10, digests, 1, 16, &err), -1);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "a", 1, KVS_SIZE_MAX, digests,
                                            KVS_SIZE_MAX / KVS_CHUNK, 32, &err),
                     -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    for (unsigned len = 0; len <= sizeof(body); len++) {
        body[0] = 100;
        ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_PUTCHUNKS, 0, "a", 1, body, len, &err),
                         len == 8 + 20 || len == 8 + 32 ? 0 : -1);
    }
    body[7] = 1; /* 2^56 bytes */
    ck_assert_int_eq(kvs_txn_buf_add(&b, KVS_OP_PUTCHUNKS, 0, "a", 1, body, 40, &err), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_uint_eq(b.nops, 2);
    kvs_txn_buf_clear(&b);
}
END_TEST

START_TEST(tag_text)
{
    static const uint8_t types[] = {KVS_TAG_VALUE, KVS_TAG_DIR, KVS_TAG_LINK};
    uint8_t tag[KVS_TAG_SIZE], back[KVS_TAG_SIZE];
    char text[KVS_TAG_TEXT_MAX];
    errmsg_t err = {""};
    for (size_t t = 0; t < 3; t++) {
        for (size_t dsize = 20; dsize <= 32; dsize += 12) {
            memset(tag, 0, sizeof(tag));
            tag[0] = types[t];
            for (size_t i = 1; i <= dsize; i++)
                tag[i] = (uint8_t)(i * 37);
            kvs_tag_format(tag, text);
            ck_assert_uint_eq(strlen(strchr(text, '-') + 1), 2 * dsize);
            ck_assert_int_eq(kvs_tag_parse(text, strlen(text), back, &err), 0);
            ck_assert_mem_eq(tag, back, sizeof(tag));
            ck_assert_int_eq(kvs_tag_parse(text, strlen(text) - 1, back, &err), -1);
            ck_assert_int_eq(errno, EINVAL);
            text[9] = 'A';
            ck_assert_int_eq(kvs_tag_parse(text, strlen(text), back, &err), -1);
            text[0] = 'V';
            ck_assert_int_eq(kvs_tag_parse(text, strlen(text), back, &err), -1);
        }
    }
    ck_assert_int_eq(kvs_tag_parse("", 0, back, &err), -1);
    ck_assert_str_ne(err.text, "");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, more_operations);
    tcase_add_test(tc, more_refused);
    tcase_add_test(tc, tag_text);
    return run_case("kvs_txn", tc);
}
