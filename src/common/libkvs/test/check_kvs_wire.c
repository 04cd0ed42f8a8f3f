/* check_kvs_wire.c - messages of the key-value store: what is encoded comes back, what is odd is
 * refused with an error message; and what the client refuses before it sends anything. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "libkvs/kvs_key.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvs_wire.h"
#include "libutil/test/suite.h"

START_TEST(root)
{
    struct kvs_root in = {.version = 0x0102030405060708, .ns = "n", .ref = "sha1-0123"};
    struct kvs_root out;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    errmsg_t err = {""};
    size_t len = kvs_root_encode(&in, buf);

    ck_assert_uint_eq(len, 22);
    ck_assert_uint_eq(buf[0], 8);
    ck_assert_int_eq(kvs_root_decode(buf, len, &out, &err), 0);
    ck_assert_uint_eq(out.version, in.version);
    ck_assert_str_eq(out.ref, in.ref);
    ck_assert_str_eq(out.ns, in.ns);
    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(kvs_root_decode(buf, n, &out, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_str_ne(err.text, "");
    }
    buf[12] = '/';
    ck_assert_int_eq(kvs_root_decode(buf, len, &out, &err), -1);
    buf[12] = 'n';
    buf[15] = ' ';
    ck_assert_int_eq(kvs_root_decode(buf, len, &out, &err), -1);
}
END_TEST

START_TEST(ns_request)
{
    struct kvs_ns_req in = {.ns = "ab", .nslen = 2, .body = (const uint8_t *)"xyz", .len = 3};
    struct kvs_ns_req out;
    uint8_t buf[16];
    errmsg_t err = {""};
    size_t len = kvs_ns_req_size(&in);

    ck_assert_uint_eq(len, 9);
    kvs_ns_req_encode(&in, buf);
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), 0);
    ck_assert(out.nslen == 2 && memcmp(out.ns, "ab", 2) == 0);
    ck_assert(out.len == 3 && memcmp(out.body, "xyz", 3) == 0);
    for (size_t n = 0; n < 6; n++)
        ck_assert_int_eq(kvs_ns_req_decode(buf, n, &out, &err), -1);
    buf[0] = 0; /* no namespace */
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    buf[0] = 2;
    buf[1] = KVS_NS_DURABLE;
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), 0);
    ck_assert_int_eq(out.flags, KVS_NS_DURABLE);
    buf[1] = 2; /* no flag */
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    buf[1] = 0;
    buf[2] = 1;
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
}
END_TEST

/* Numbers of a commit. */
START_TEST(ns_numbers)
{
    struct kvs_ns_req in = {.flags = KVS_NS_NUMBERED | KVS_NS_AGAIN | KVS_NS_DURABLE,
                            .ns = "ab",
                            .nslen = 2,
                            .sender = UINT64_MAX,
                            .number = 1ull << 40,
                            .after = 12,
                            .answered = 11,
                            .body = (const uint8_t *)"xyz",
                            .len = 3};
    struct kvs_ns_req out;
    uint8_t buf[64];
    errmsg_t err = {""};
    size_t len = kvs_ns_req_size(&in);

    ck_assert_uint_eq(len, 41);
    kvs_ns_req_encode(&in, buf);
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), 0);
    ck_assert(out.sender == in.sender && out.number == in.number && out.after == in.after &&
              out.answered == in.answered && out.flags == in.flags);
    ck_assert(out.len == 3 && memcmp(out.body, "xyz", 3) == 0);
    for (size_t n = 0; n < len - 3; n++)
        ck_assert_int_eq(kvs_ns_req_decode(buf, n, &out, &err), -1);
    buf[1] = KVS_NS_AGAIN;
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), -1);
    in.after = 11;
    kvs_ns_req_encode(&in, buf);
    ck_assert_int_eq(kvs_ns_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
}
END_TEST

START_TEST(store_answer)
{
    const uint8_t buf[] = {2, 0, 0, 0, 1, 2, 3, 4};
    const uint8_t *d;
    size_t n, dsize;
    errmsg_t err = {""};

    ck_assert_int_eq(kvs_store_answer_decode(buf, 8, &d, &n, &dsize, &err), 0);
    ck_assert(n == 2 && dsize == 2 && d == buf + 4);
    ck_assert_int_eq(kvs_store_answer_decode(buf, 7, &d, &n, &dsize, &err), -1);
    ck_assert_int_eq(kvs_store_answer_decode(buf, 3, &d, &n, &dsize, &err), -1);
    ck_assert_int_eq(kvs_store_answer_decode(buf + 1, 7, &d, &n, &dsize, &err), -1);
    ck_assert_str_ne(err.text, "");
}
END_TEST

START_TEST(lookup)
{
    struct kvs_lookup_req in = {.flags = KVS_REQ_PAGE,
                                .ns = "n",
                                .nslen = 1,
                                .ref = "r-1",
                                .reflen = 3,
                                .key = "a.b",
                                .keylen = 3,
                                .cursor = "cc",
                                .cursorlen = 2,
                                .count = 7};
    struct kvs_lookup_req out;
    uint8_t buf[64];
    errmsg_t err = {""};
    size_t len = kvs_lookup_req_size(&in);

    kvs_lookup_req_encode(&in, buf);
    ck_assert_uint_eq(len, KVS_REQ_HEADER + 9);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), 0);
    ck_assert_uint_eq(out.flags, in.flags);
    ck_assert(out.nslen == 1 && out.ns[0] == 'n' && out.count == 7 && out.offset == 0);
    ck_assert(out.keylen == 3 && memcmp(out.key, "a.b", 3) == 0);
    ck_assert(out.reflen == 3 && memcmp(out.ref, "r-1", 3) == 0);
    ck_assert(out.cursorlen == 2 && memcmp(out.cursor, "cc", 2) == 0);
    for (size_t n = 0; n < len; n++)
        ck_assert_int_eq(kvs_lookup_req_decode(buf, n, &out, &err), -1);
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len + 1, &out, &err), -1);
    buf[1] = 1; /* a flag that is not known */
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    buf[1] = 0;
    buf[len - 1] = '.';
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    buf[len - 1] = 'c';
    buf[KVS_REQ_HEADER + 5] = '\n';
    ck_assert_int_eq(kvs_lookup_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(lookup_flags)
{
    static const struct {
        unsigned flags;
        uint32_t count;
        uint64_t offset;
        int errnum;
    } cases[] = {
        {0, 0, 0, 0},
        {0, 1, 0, EPROTO},
        {0, 0, 1, EPROTO},
        {KVS_REQ_TAG | KVS_REQ_READLINK, 0, 0, 0},
        {KVS_REQ_RANGE, KVS_RANGE_MAX, UINT64_MAX, 0},
        {KVS_REQ_RANGE, KVS_RANGE_MAX + 1, 0, EINVAL},
        {KVS_REQ_PAGE, 0, 0, EINVAL},
        {KVS_REQ_PAGE, 1, 1, EPROTO},
        {KVS_REQ_PAGE | KVS_REQ_VALUES, 1, 0, 0},
        {KVS_REQ_VALUES, 0, 100, 0},
        {KVS_REQ_VALUES, 1, 100, EPROTO},
        {KVS_REQ_VALUES | KVS_REQ_DIFF, 0, 100, EPROTO},
        {KVS_REQ_APPEND | KVS_REQ_DIFF, 0, 0, EPROTO},
        {KVS_REQ_APPEND, 0, 0, 0},
    };
    errmsg_t err = {""};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvs_lookup_req in = {.flags = cases[i].flags,
                                    .ns = "n",
                                    .nslen = 1,
                                    .key = ".",
                                    .keylen = 1,
                                    .count = cases[i].count,
                                    .offset = cases[i].offset};
        struct kvs_lookup_req out;
        uint8_t buf[KVS_REQ_HEADER + 2];
        kvs_lookup_req_encode(&in, buf);
        int rc = kvs_lookup_req_decode(buf, sizeof(buf), &out, &err);
        ck_assert_msg(cases[i].errnum ? rc < 0 && errno == cases[i].errnum : rc == 0, "case %zu",
                      i);
    }
}
END_TEST

START_TEST(answer)
{
    static const struct kvs_answer_entry entries[] = {
        {.type = 1, .namelen = 1, .has_data = true, .size = 2},
        {.type = 4, .change = KVS_CHANGE_REMOVED, .namelen = 1},
    };
    struct kvs_answer in = {
        .type = 4, .flags = KVS_ANSWER_MORE, .count = 2, .version = 9, .size = 11};
    struct kvs_answer out;
    struct kvs_answer_entry e;
    uint8_t buf[KVS_ANSWER_HEADER + 2 * KVS_ANSWER_ENTRY_HEADER + 4];
    uint8_t *p = buf + KVS_ANSWER_HEADER;
    errmsg_t err = {""};
    size_t pos = 0;

    kvs_answer_encode_header(&in, buf);
    kvs_answer_entry_encode_header(&entries[0], p);
    memcpy(p + KVS_ANSWER_ENTRY_HEADER, "axy", 3);
    p += KVS_ANSWER_ENTRY_HEADER + 3;
    kvs_answer_entry_encode_header(&entries[1], p);
    p[KVS_ANSWER_ENTRY_HEADER] = 'd';
    ck_assert_int_eq(kvs_answer_decode(buf, sizeof(buf), &out, &err), 0);
    ck_assert(out.type == 4 && out.count == 2 && out.version == 9 && out.size == 11 && !out.tag);
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), 1);
    ck_assert(e.has_data && e.size == 2 && memcmp(e.data, "xy", 2) == 0 && e.name[0] == 'a');
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), 1);
    ck_assert(!e.has_data && !e.data && e.type == 4 && e.name[0] == 'd');
    ck_assert_uint_eq(e.change, KVS_CHANGE_REMOVED);
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), 0);
    /* Cut off anywhere but between entries. */
    size_t all = out.len, first = KVS_ANSWER_ENTRY_HEADER + 3;
    for (size_t n = 0; n < all; n++) {
        int rc;
        pos = 0;
        out.len = n;
        while ((rc = kvs_answer_next(&out, &pos, &e, &err)) == 1)
            ;
        ck_assert_int_eq(rc, n == 0 || n == first ? 0 : -1);
    }
    /* A size that wraps around. */
    out.len = all;
    memset(buf + KVS_ANSWER_HEADER + 8, 0xff, 8);
    pos = 0;
    ck_assert_int_eq(kvs_answer_next(&out, &pos, &e, &err), -1);
    buf[1] = 0x80;
    ck_assert_int_eq(kvs_answer_decode(buf, sizeof(buf), &out, &err), -1);
    buf[1] = KVS_ANSWER_TAG;
    ck_assert_int_eq(kvs_answer_decode(buf, KVS_ANSWER_HEADER + 32, &out, &err), -1);
    ck_assert_int_eq(kvs_answer_decode(buf, KVS_ANSWER_HEADER + 33, &out, &err), 0);
    ck_assert(out.tag == buf + KVS_ANSWER_HEADER && out.len == 0);
}
END_TEST

START_TEST(fence)
{
    struct kvs_fence_req in = {.nprocs = 3,
                               .count = 1,
                               .rank = 7,
                               .ns = "n",
                               .nslen = 1,
                               .name = "f",
                               .namelen = 1,
                               .ranks = "0-3",
                               .rankslen = 3,
                               .txn = (const uint8_t *)"T\1\0\0\0\0\0\0",
                               .txnlen = 8};
    struct kvs_fence_req out;
    uint8_t buf[64];
    errmsg_t err = {""};
    size_t len = kvs_fence_req_size(&in);

    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), 0);
    ck_assert(out.nprocs == 3 && out.count == 1 && out.rank == 7 && out.namelen == 1);
    ck_assert(out.rankslen == 3 && memcmp(out.ranks, in.ranks, 3) == 0);
    ck_assert(out.txnlen == 8 && memcmp(out.txn, in.txn, 8) == 0);
    buf[24] = 12; /* longer than what is there */
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    buf[27] = 0x80;
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    in.number = 1; /* of a client */
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    in.number = 0;
    in.count = 2;
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
    in.heard = 1; /* of a client */
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    in.heard = 0;
    in.name = " ";
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    ck_assert_str_ne(err.text, "");
}
END_TEST

/* What instances send once a broker was lost. */
START_TEST(fence_again)
{
    struct kvs_fence_req in = {.nprocs = 3,
                               .flags = KVS_FENCE_INSTANCE | KVS_FENCE_ANEW,
                               .heard = 5,
                               .before = 6,
                               .ns = "n",
                               .nslen = 1,
                               .name = "f",
                               .namelen = 1,
                               .ranks = "0",
                               .rankslen = 1,
                               .callers = "1-2",
                               .callerslen = 3,
                               .txn = (const uint8_t *)"x",
                               .txnlen = 1};
    struct kvs_fence_req out;
    uint8_t buf[64];
    errmsg_t err;
    size_t len = kvs_fence_req_size(&in);

    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), 0);
    ck_assert(out.count == 0 && out.heard == 5 && out.before == 6 && out.txnlen == 1);
    ck_assert(out.callerslen == 3 && memcmp(out.callers, "1-2", 3) == 0);
    in.flags = KVS_FENCE_INSTANCE | KVS_FENCE_AGAIN;
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1); /* nothing to report */
    in.count = 1;
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), 0);
    in.flags |= KVS_FENCE_ADD; /* one of these only */
    kvs_fence_req_encode(&in, buf);
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
    in.flags = KVS_FENCE_INSTANCE;
    kvs_fence_req_encode(&in, buf);
    buf[28] = 12; /* longer than what is there */
    ck_assert_int_eq(kvs_fence_req_decode(buf, len, &out, &err), -1);
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
    ck_assert_int_eq(flux_kvs_txn_guard(txn, "l", "value-", &err), -1);
    ck_assert_int_eq(flux_kvs_txn_copy(txn, NULL, "l", &err), -1);
    ck_assert_int_eq(flux_kvs_txn_move(txn, "a..b", "l", &err), -1);
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
    ck_assert_ptr_null(flux_kvs_lookup(h, NULL, "a..b", 0, NULL));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(flux_kvs_lookup(h, NULL, NULL, 0, NULL));
    ck_assert_ptr_null(flux_kvs_lookup(h, NULL, "a", 0, name));
    ck_assert_ptr_null(flux_kvs_fence(h, NULL, "", 1, NULL));
    ck_assert_ptr_null(flux_kvs_fence(h, NULL, name, 1, NULL));
    ck_assert_ptr_null(flux_kvs_fence(h, NULL, "f", 0, NULL));
    ck_assert_ptr_null(flux_kvs_wait_version(h, NULL, UINT64_MAX));
    ck_assert_ptr_null(flux_kvs_lookup(h, "a/b", "a", 0, NULL));
    ck_assert_ptr_null(flux_kvs_lookup(h, NULL, "a", FLUX_KVS_WATCH_DIFF, NULL));
    ck_assert_ptr_null(flux_kvs_lookup_range(h, NULL, "a", NULL, 0, KVS_RANGE_MAX + 1));
    ck_assert_ptr_null(flux_kvs_readdir_page(h, NULL, "a", 0, NULL, NULL, 0));
    ck_assert_ptr_null(flux_kvs_readdir_small(h, NULL, "a", 0, NULL));
    ck_assert_ptr_null(flux_kvs_watch(h, NULL, "a", FLUX_KVS_WATCH_DIFF | FLUX_KVS_WATCH_APPEND));
    ck_assert_ptr_null(flux_kvs_store(h, NULL, "a", 0));
    ck_assert_ptr_null(flux_kvs_namespace_create(h, "x", 0, 1));
    ck_assert_ptr_null(flux_kvs_snapshot(h, NULL, name));
    ck_assert_int_eq(sent, 0);
    flux_future_destroy(flux_kvs_lookup(h, NULL, ".", 0, NULL));
    flux_future_destroy(flux_kvs_fence(h, NULL, "f", 1, NULL));
    flux_future_destroy(flux_kvs_commit(h, NULL, NULL));
    ck_assert_int_eq(sent, 3);
    flux_close(h);
    flux_reactor_destroy(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, root);
    tcase_add_test(tc, ns_request);
    tcase_add_test(tc, ns_numbers);
    tcase_add_test(tc, store_answer);
    tcase_add_test(tc, lookup);
    tcase_add_test(tc, lookup_flags);
    tcase_add_test(tc, answer);
    tcase_add_test(tc, fence);
    tcase_add_test(tc, fence_again);
    tcase_add_test(tc, client_transactions);
    tcase_add_test(tc, client_requests);
    return run_case("kvs_wire", tc);
}
