/* check_kvs_wire.c - messages of the key-value store: round trips, and bytes that are none. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_wire.h"

/* Call a decoder with a copy of exactly `len` bytes, so that a sanitizer sees one byte too far. */
#define EXACT(rc, data, len, call)         \
    do {                                   \
        uint8_t *p = malloc((len) + !len); \
        memcpy(p, data, len);              \
        rc = call;                         \
        free(p);                           \
    } while (0)

START_TEST(root)
{
    struct kvs_root r = {.version = 77}, s;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    errmsg_t err = {""};
    int rc;
    strcpy(r.ref, "sha256-0123");
    size_t len = kvs_root_encode(&r, buf);
    ck_assert_int_eq(kvs_root_decode(buf, len, &s, &err), 0);
    ck_assert_uint_eq(s.version, 77);
    ck_assert_str_eq(s.ref, r.ref);
    for (size_t n = 0; n < 9; n++) {
        EXACT(rc, buf, n, kvs_root_decode(p, n, &s, &err));
        ck_assert_int_eq(rc, -1);
        ck_assert_int_eq(errno, EPROTO);
    }
    buf[9] = '\n';
    ck_assert_int_eq(kvs_root_decode(buf, len, &s, &err), -1);
    memset(buf, 'x', sizeof(buf));
    ck_assert_int_eq(kvs_root_decode(buf, 8 + KVS_ROOTREF_MAX, &s, &err), -1);
    ck_assert_int_eq(kvs_root_decode(buf, 7 + KVS_ROOTREF_MAX, &s, &err), 0);
}
END_TEST

START_TEST(lookup)
{
    struct kvs_lookup_req q = {.flags = KVS_REQ_VALUES, .ref = "ref", .reflen = 3, .key = "a.b"}, r;
    uint8_t buf[64];
    errmsg_t err = {""};
    int rc;
    q.keylen = 3;
    size_t len = kvs_lookup_req_size(&q);
    kvs_lookup_req_encode(&q, buf);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &r, &err), 0);
    ck_assert_uint_eq(r.flags, KVS_REQ_VALUES);
    ck_assert_uint_eq(r.reflen, 3);
    ck_assert_mem_eq(r.ref, "ref", 3);
    ck_assert_uint_eq(r.keylen, 3);
    ck_assert_mem_eq(r.key, "a.b", 3);
    for (size_t n = 0; n < len; n++) {
        EXACT(rc, buf, n, kvs_lookup_req_decode(p, n, &r, &err));
        ck_assert_int_eq(rc, -1);
        ck_assert(err.text[0]);
    }
    buf[0] = 0x80;
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &r, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    q.key = ".";
    q.keylen = 1;
    kvs_lookup_req_encode(&q, buf);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, kvs_lookup_req_size(&q), &r, &err), 0);
    q.key = "a..b";
    q.keylen = 4;
    kvs_lookup_req_encode(&q, buf);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, kvs_lookup_req_size(&q), &r, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(kvs_lookup_req_decode(NULL, 0, &r, &err), -1);
}
END_TEST

START_TEST(answer)
{
    struct kvs_answer a = {.type = 4, .count = 2, .version = 5}, b;
    struct kvs_answer_entry e;
    uint8_t buf[64];
    errmsg_t err = {""};
    size_t pos = 0, len = KVS_ANSWER_HEADER;
    kvs_answer_encode_header(&a, buf);
    static const uint8_t entries[] = {1,   2,   1, 0, 3, 0, 0, 0, 'a', 'b', 'x',
                                      'y', 'z', 4, 1, 0, 0, 9, 0, 0,   0,   'd'};
    memcpy(buf + len, entries, sizeof(entries));
    len += sizeof(entries);
    ck_assert_int_eq(kvs_answer_decode(buf, len, &b, &err), 0);
    ck_assert_int_eq(b.type, 4);
    ck_assert_uint_eq(b.count, 2);
    ck_assert_uint_eq(b.version, 5);
    ck_assert_int_eq(kvs_answer_next(&b, &pos, &e, &err), 1);
    ck_assert_uint_eq(e.namelen, 2);
    ck_assert_mem_eq(e.name, "ab", 2);
    ck_assert(e.has_data);
    ck_assert_mem_eq(e.data, "xyz", 3);
    ck_assert_int_eq(kvs_answer_next(&b, &pos, &e, &err), 1);
    ck_assert_int_eq(e.type, 4);
    ck_assert(!e.has_data);
    ck_assert_ptr_null(e.data);
    ck_assert_int_eq(kvs_answer_next(&b, &pos, &e, &err), 0);
    /* Cut anywhere: an error, or the end after a whole entry. */
    for (size_t n = 0; n < len; n++) {
        uint8_t *p = malloc(n + 1);
        memcpy(p, buf, n);
        int rc = kvs_answer_decode(p, n, &b, &err);
        ck_assert_int_eq(rc, n < KVS_ANSWER_HEADER ? -1 : 0);
        for (pos = 0; rc >= 0 && (rc = kvs_answer_next(&b, &pos, &e, &err)) == 1;)
            ;
        ck_assert(rc == -1 || n == KVS_ANSWER_HEADER || n == KVS_ANSWER_HEADER + 13);
        free(p);
    }
    buf[2] = 1;
    ck_assert_int_eq(kvs_answer_decode(buf, len, &b, &err), -1);
}
END_TEST

START_TEST(fence)
{
    static const uint8_t txn[8] = {'T', 1};
    struct kvs_fence_req q = {.nprocs = 8, .count = 1, .rank = 3, .name = "f", .namelen = 1}, r;
    uint8_t buf[64];
    errmsg_t err = {""};
    int rc;
    q.txn = txn;
    q.txnlen = sizeof(txn);
    size_t len = kvs_fence_req_size(&q);
    kvs_fence_req_encode(&q, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &r, &err), 0);
    ck_assert_uint_eq(r.nprocs, 8);
    ck_assert_uint_eq(r.rank, 3);
    ck_assert_uint_eq(r.txnlen, sizeof(txn));
    for (size_t n = 0; n < KVS_FENCE_HEADER + 1; n++) {
        EXACT(rc, buf, n, kvs_fence_req_decode(p, n, &r, &err));
        ck_assert_int_eq(rc, -1);
    }
    static const struct {
        uint32_t nprocs, count;
        uint8_t flags;
        const char *name;
        int errnum;
    } bad[] = {
        {0, 1, 0, "f", EINVAL}, {8, 0, 0, "f", EINVAL},    {8, 9, KVS_FENCE_INSTANCE, "f", EINVAL},
        {8, 2, 0, "f", EPROTO}, {8, 1, 0x10, "f", EPROTO}, {8, 1, KVS_FENCE_ADD, "f", EPROTO},
        {8, 1, 0, "", EINVAL},  {8, 1, 0, "a b", EINVAL},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        q.nprocs = bad[i].nprocs;
        q.count = bad[i].count;
        q.flags = bad[i].flags;
        q.name = bad[i].name;
        q.namelen = strlen(bad[i].name);
        kvs_fence_req_encode(&q, buf);
        ck_assert_int_eq(kvs_fence_req_decode(buf, kvs_fence_req_size(&q), &r, &err), -1);
        ck_assert_int_eq(errno, bad[i].errnum);
        ck_assert(err.text[0]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kvs_wire");
    TCase *tc = tcase_create("core");
    tcase_add_test(tc, root);
    tcase_add_test(tc, lookup);
    tcase_add_test(tc, answer);
    tcase_add_test(tc, fence);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
