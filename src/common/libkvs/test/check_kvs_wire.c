/* check_kvs_wire.c - messages of the key-value store: what is encoded comes back, what is odd is
 * refused with a sentence; and what the client refuses before it sends anything. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "libkvs/kvs_key.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvs_wire.h"

START_TEST(root)
{
    struct kvs_root in = {.version = 0x0102030405060708, .ref = "sha1-0123"};
    struct kvs_root out;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    errmsg_t err = {""};
    size_t len = kvs_root_encode(&in, buf);

    ck_assert_uint_eq(len, 17);
    ck_assert_uint_eq(buf[0], 8);
    ck_assert_int_eq(kvs_root_decode(buf, len, &out, &err), 0);
    ck_assert_uint_eq(out.version, in.version);
    ck_assert_str_eq(out.ref, in.ref);
    for (size_t n = 0; n <= 8; n++) {
        ck_assert_int_eq(kvs_root_decode(buf, n, &out, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_str_ne(err.text, "");
    }
    buf[10] = ' ';
    ck_assert_int_eq(kvs_root_decode(buf, len, &out, &err), -1);
}
END_TEST

START_TEST(lookup)
{
    struct kvs_lookup_req in = {
        .flags = KVS_REQ_READLINK, .ref = "r-1", .reflen = 3, .key = "a.b", .keylen = 3};
    struct kvs_lookup_req out;
    uint8_t buf[32];
    errmsg_t err = {""};
    size_t len = kvs_lookup_req_size(&in);

    kvs_lookup_req_encode(&in, buf);
    ck_assert_uint_eq(len, 10);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), 0);
    ck_assert_uint_eq(out.flags, in.flags);
    ck_assert(out.keylen == 3 && memcmp(out.key, "a.b", 3) == 0);
    ck_assert(out.reflen == 3 && memcmp(out.ref, "r-1", 3) == 0);
    for (size_t n = 0; n < len; n++)
        ck_assert_int_eq(kvs_lookup_req_decode(buf, n, &out, &err), -1);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len + 1, &out, &err), -1);
    buf[0] = 4;
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    buf[0] = 0;
    buf[8] = '\n';
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(answer)
{
    static const uint8_t body[] = {1,   1, 1, 0, 2, 0, 0, 0, 'a', 'x',
                                   'y', 4, 1, 0, 0, 0, 0, 0, 0,   'd'};
    struct kvs_answer in = {.type = 4, .count = 2, .version = 9};
    struct kvs_answer out;
    struct kvs_answer_entry e;
    uint8_t buf[KVS_ANSWER_HEADER + sizeof(body)];
    errmsg_t err = {""};
    size_t pos = 0;

    kvs_answer_encode_header(&in, buf);
    memcpy(buf + KVS_ANSWER_HEADER, body, sizeof(body));
    ck_assert_int_eq(kvs_answer_decode(buf, sizeof(buf), &out, &err), 0);
    ck_assert(out.type == 4 && out.count == 2 && out.version == 9);
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), 1);
    ck_assert(e.has_data && e.size == 2 && memcmp(e.data, "xy", 2) == 0 && e.name[0] == 'a');
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), 1);
    ck_assert(!e.has_data && !e.data && e.type == 4 && e.name[0] == 'd');
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), 0);
    /* Cut off anywhere but between entries. */
    for (size_t n = 0; n < sizeof(body); n++) {
        int rc;
        pos = 0;
        out.len = n;
        while ((rc = kvs_answer_next(&out, &pos, &e, &err)) == 1)
            ;
        ck_assert_int_eq(rc, n == 0 || n == 11 ? 0 : -1);
    }
    buf[1] = 1;
    ck_assert_int_eq(kvs_answer_decode(buf, sizeof(buf), &out, &err), -1);
}
END_TEST

START_TEST(fence)
{
    struct kvs_fence_req in = {.nprocs = 3,
                               .count = 1,
                               .rank = 7,
                               .name = "f",
                               .namelen = 1,
                               .txn = (const uint8_t *)"T\1\0\0\0\0\0\0",
                               .txnlen = 8};
    struct kvs_fence_req out;
    uint8_t buf[64];
    errmsg_t err = {""};
    size_t len = kvs_fence_req_size(&in);

    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), 0);
    ck_assert(out.nprocs == 3 && out.count == 1 && out.rank == 7 && out.namelen == 1);
    ck_assert(out.txnlen == 8 && memcmp(out.txn, in.txn, 8) == 0);
    in.count = 2; /* of a client */
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    in.flags = KVS_FENCE_INSTANCE;
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), 0);
    in.count = 4; /* more than all */
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    in.count = 1;
    in.flags = KVS_FENCE_ADD; /* without INSTANCE */
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    in.flags = 0;
    in.name = " ";
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    ck_assert_str_ne(err.text, "");
}
END_TEST

START_TEST(client_transactions)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err = {""};
    char *big = calloc(1, KVS_VALUE_MAX + 1);

    ck_assert_int_eq(flux_kvs_txn_put(txn, "a", "1", NULL), 0);
    ck_assert_int_eq(flux_kvs_txn_put(txn, "a..b", "1", &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(flux_kvs_txn_put(txn, NULL, "1", &err), -1);
    ck_assert_int_eq(flux_kvs_txn_put_raw(txn, "a", NULL, 3, &err), -1);
    ck_assert_int_eq(flux_kvs_txn_put_raw(txn, "a", big, KVS_VALUE_MAX + 1, &err), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_int_eq(flux_kvs_txn_unlink(txn, "a", 8, &err), -1);
    ck_assert_int_eq(flux_kvs_txn_symlink(txn, "l", "", &err), -1);
    ck_assert_uint_eq(flux_kvs_txn_count(txn), 1);
    flux_kvs_txn_clear(txn);
    ck_assert_uint_eq(flux_kvs_txn_count(txn), 0);
    flux_kvs_txn_destroy(txn);
    flux_kvs_txn_destroy(NULL);
    free(big);
}
END_TEST

static int drop(void *impl, flux_msg_t *msg)
{
    ++*(int *)impl;
    flux_msg_destroy(msg);
    return 0;
}

START_TEST(client_requests)
{
    static const struct flux_handle_ops ops = {.send = drop};
    flux_reactor_t *r = flux_reactor_create(false);
    int sent = 0;
    flux_t *h = flux_handle_create(&ops, &sent, r, 0, 1, 1);
    char name[300];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    ck_assert_ptr_null(flux_kvs_lookup(h, "a..b", 0, NULL));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(flux_kvs_lookup(h, NULL, 0, NULL));
    ck_assert_ptr_null(flux_kvs_lookup(h, "a", 0, name));
    ck_assert_ptr_null(flux_kvs_fence(h, "", 1, NULL));
    ck_assert_ptr_null(flux_kvs_fence(h, name, 1, NULL));
    ck_assert_ptr_null(flux_kvs_fence(h, "f", 0, NULL));
    ck_assert_ptr_null(flux_kvs_wait_version(h, UINT64_MAX));
    ck_assert_int_eq(sent, 0);
    flux_future_destroy(flux_kvs_lookup(h, ".", 0, NULL));
    flux_future_destroy(flux_kvs_fence(h, "f", 1, NULL));
    flux_future_destroy(flux_kvs_commit(h, NULL));
    ck_assert_int_eq(sent, 3);
    flux_close(h);
    flux_reactor_destroy(r);
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
    tcase_add_test(tc, client_transactions);
    tcase_add_test(tc, client_requests);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
