/* check_kvs_slices.c - long work of the instance of rank 0, on a handle of the test's own: it is
 * done bit by bit, so that other requests have their turn, and yet whole, whatever changes
 * meanwhile.  The clock of the test (steps.h) says how much is done in a turn. */
#include "config.h"

#include "bed.h"
#include "libutil/test/steps.h"
#include "src/modules/kvs/km_entries.h"

/* Apply what waits, however many turns this takes on a busy host. */
static void commit_now(struct km_ns *ns)
{
    do
        km_commit_work(ns);
    while (km_commit_open(ns));
}

/* Those who watch a key hear of a change bit by bit, and nobody is left out: when each answer takes
 * long, others have their turn before all are sent. */
START_TEST(watch_slices)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;

    for (uint32_t i = 0; i < 100; i++)
        watch_key(b, 100 + i % 7);
    settle(b);
    ck_assert_int_eq(put(b, "primary", 0, FLUX_ROLE_OWNER), 0);
    uint64_t looked = ns->st.watch_looked;
    put_later(b, "primary", 0, FLUX_ROLE_OWNER, "new");
    commit_now(ns);
    size_t answers = b->answers;
    step_ns = 100000;
    km_watch_work(ns);
    step_ns = 0;
    ck_assert_uint_gt(ns->st.watch_looked, looked);
    ck_assert_uint_lt(ns->st.watch_looked, looked + 5);
    settle(b);
    ck_assert_uint_eq(ns->st.watch_looked, looked + 100);
    ck_assert_uint_eq(b->answers, answers + 100);
    bed_free(b);
}
END_TEST

/* A commit of n keys has come, and nothing was done about it yet. */
static void put_many_later(struct bed *b, unsigned n)
{
    struct kvs_txn_buf txn = {0};
    struct kvs_ns_req q = {.ns = "primary", .nslen = strlen("primary")};
    flux_msg_t *msg = request("kvs.commit", 0, FLUX_ROLE_OWNER, 7);
    char key[16];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "many%u", i);
        kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, key, strlen(key), "v", 1, NULL);
    }
    q.body = txn.data;
    q.len = txn.len;
    uint8_t *buf = malloc(kvs_ns_req_size(&q));
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    free(buf);
    kvs_txn_buf_clear(&txn);
    flux_handle_deliver(b->f.h, msg);
}

static unsigned turns(struct km_ns *ns, unsigned max)
{
    unsigned n = 0;

    step_ns = 100000;
    do
        km_commit_work(ns);
    while (km_commit_open(ns) && ++n < max);
    step_ns = 0;
    return n;
}

/* A large commit takes many turns, between which the old root is read, nothing is dropped, and
 * others commit; one that is given up begins anew. */
START_TEST(commit_turns)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;

    settle(b);
    put_many_later(b, 2000);
    size_t answers = b->answers;
    ck_assert_uint_eq(turns(ns, 5), 5);
    ck_assert(km_commit_open(ns));
    ck_assert_uint_eq(ns->version, 0);
    ck_assert_uint_eq(b->answers, answers);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_ptr_nonnull(content_add(ns->content, &i, sizeof(i)));
    ck_assert_uint_eq(content_drop(ns->content, 10), 0);
    put_later(b, "primary", 0, FLUX_ROLE_OWNER, "later");
    km_commit_give_up(ns);
    ck_assert(!km_commit_open(ns));
    ck_assert_uint_eq(content_drop(ns->content, 10), 10);
    ck_assert_uint_eq(turns(ns, 5), 5);
    ck_assert_uint_eq(b->answers, answers);
    /* Longer than a batch of small ones takes. */
    ck_assert_uint_ge(turns(ns, 10000), 11);
    ck_assert_uint_ge(ns->version, 1);
    ck_assert(!km_commit_open(ns));
    settle(b);
    ck_assert_uint_eq(b->answers, answers + 2);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_uint_ge(ns->version, 1);
    ck_assert_int_eq(get(b, "primary", 0, FLUX_ROLE_OWNER), 0);
    ck_assert_uint_eq(kvsstore_version(ns->store), ns->version);
    /* The module is unloaded during another. */
    put_many_later(b, 2000);
    ck_assert_uint_eq(turns(ns, 5), 5);
    bed_free(b);
}
END_TEST

/* So do those who wait for a version. */
START_TEST(version_slices)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;

    settle(b);
    for (uint32_t i = 0; i < 100; i++) {
        flux_msg_t *msg = request("kvs.wait-version", 0, FLUX_ROLE_OWNER, 100 + i % 7);

        flux_msg_set_json(msg, "{\"namespace\":\"primary\",\"version\":1}");
        flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
        flux_handle_deliver(b->f.h, msg);
    }
    put_later(b, "primary", 0, FLUX_ROLE_OWNER, "new");
    commit_now(ns);
    ck_assert_uint_eq(ns->version, 1);
    size_t answers = b->answers;
    step_ns = 100000;
    km_version_serve(ns);
    step_ns = 0;
    ck_assert_uint_gt(b->answers, answers);
    ck_assert_uint_lt(b->answers, answers + 5);
    settle(b);
    ck_assert(!km_version_busy(ns));
    ck_assert_uint_ge(b->answers, answers + 100);
    bed_free(b);
}
END_TEST

/* And so does a cache go that is dropped. */
START_TEST(dropcache_slices)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;
    struct content_stats st;
    size_t there, answers;
    flux_msg_t *msg;

    settle(b);
    for (uint32_t i = 0; i < 2000; i++)
        ck_assert_ptr_nonnull(content_add(ns->content, &i, sizeof(i)));
    content_get_stats(ns->content, &st);
    there = st.free_objects;
    ck_assert_uint_ge(there, 2000);
    msg = request("kvs.dropcache", 0, FLUX_ROLE_OWNER, 7);
    answers = b->answers;
    step_ns = 1000000;
    flux_handle_deliver(b->f.h, msg);
    step_ns = 0;
    content_get_stats(ns->content, &st);
    ck_assert_uint_lt(st.free_objects, there);
    ck_assert_uint_gt(st.free_objects, there / 2);
    ck_assert_uint_eq(b->answers, answers);
    settle(b);
    content_get_stats(ns->content, &st);
    ck_assert_uint_eq(st.free_objects, 0);
    ck_assert_uint_eq(b->answers, answers + 1);
    ck_assert_int_eq(b->errnum, 0);
    bed_free(b);
}
END_TEST

static void commit(struct bed *b, const struct kvs_txn_buf *txn)
{
    struct kvs_ns_req q = {.ns = "primary", .nslen = 7, .body = txn->data, .len = txn->len};
    flux_msg_t *msg = request("kvs.commit", 0, FLUX_ROLE_OWNER, 7);
    uint8_t *buf = malloc(kvs_ns_req_size(&q));

    ck_assert_ptr_nonnull(buf);
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    free(buf);
    flux_handle_deliver(b->f.h, msg);
}

/* Make a directory `dir` of n values of this size. */
static void make_dir(struct bed *b, const char *dir, int n, size_t size)
{
    struct kvs_txn_buf txn = {0};
    char *value = malloc(size);
    char key[64];
    errmsg_t err;

    ck_assert_ptr_nonnull(value);
    memset(value, 'v', size);
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%s.%04d", dir, i);
        memcpy(value, key, 4);
        ck_assert_int_eq(kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, key, strlen(key), value, size, &err),
                         0);
    }
    commit(b, &txn);
    settle(b);
    ck_assert_int_eq(b->errnum, 0);
    kvs_txn_buf_clear(&txn);
    free(value);
}

static void list_dir(struct bed *b, const char *dir, uint32_t client)
{
    struct kvs_lookup_req q = {
        .flags = KVS_REQ_VALUES, .ns = "primary", .nslen = 7, .key = dir, .keylen = strlen(dir)};
    flux_msg_t *msg = request("kvs.readdir", 0, FLUX_ROLE_OWNER, client);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    flux_handle_deliver(b->f.h, msg);
}

/* The last response is a listing of n such values, each once; in order, if there are few. */
static void check_listing(const struct bed *b, uint32_t n, size_t size, uint64_t version)
{
    struct kvs_answer_entry e;
    struct kvs_answer a;
    bool *seen = calloc(n, sizeof(*seen));
    size_t len, pos = 0;
    const void *data = flux_msg_payload(b->last, &len);
    errmsg_t err;

    ck_assert_int_eq(b->errnum, 0);
    ck_assert_msg(kvs_answer_decode(data, len, &a, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(a.count, n);
    ck_assert_uint_eq(a.size, n);
    ck_assert_uint_eq(a.version, version);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t nth;

        ck_assert_int_eq(kvs_answer_next(&a, &pos, &e, &err), 1);
        nth = (uint32_t)strtoul(e.name, NULL, 10);
        ck_assert_uint_lt(nth, n);
        ck_assert(!seen[nth] && (n > 32 || nth == i));
        ck_assert_uint_eq(e.size, size);
        ck_assert(e.has_data);
        seen[nth] = true;
    }
    free(seen);
}

/* Listings are made bit by bit, each from one version, although the directories are removed
 * meanwhile. */
START_TEST(listing_slices)
{
    enum { MANY = 3000, FEW = 20, LARGE = 100000 };
    struct bed *b = bed_create();
    struct km *k = b->ctx;
    struct km_ns *ns = k->primary;
    struct kvs_txn_buf txn = {0};
    uint64_t version;
    size_t answers;
    unsigned turns = 0;
    errmsg_t err;

    make_dir(b, "many", MANY, 100);
    make_dir(b, "few", FEW, LARGE);
    version = ns->version;
    answers = b->answers;
    step_ns = 1000000;
    list_dir(b, "many", 8);
    list_dir(b, "few", 9);
    ck_assert_uint_eq(b->answers, answers);
    kvs_txn_buf_add(&txn, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "many", 4, NULL, 0, &err);
    kvs_txn_buf_add(&txn, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "few", 3, NULL, 0, &err);
    commit(b, &txn);
    kvs_txn_buf_clear(&txn);
    commit_now(ns);
    ck_assert_uint_eq(ns->version, version + 1);
    ck_assert_uint_eq(b->answers, answers + 1);
    flux_handle_deliver(b->f.h, request("kvs.dropcache", 0, FLUX_ROLE_OWNER, 7));
    while (kvsstore_collect(ns->store, 1000))
        ;
    answers = b->answers;
    for (; b->answers == answers; turns++)
        km_read_work(k);
    check_listing(b, FEW, LARGE, version);
    for (answers++; b->answers == answers; turns++)
        km_read_work(k);
    check_listing(b, MANY, 100, version);
    ck_assert_uint_gt(turns, 20);
    step_ns = 0;
    ck_assert(!km_read_busy(ns));
    ck_assert_uint_eq(km_entries_sum_bytes(k->entries), 0);
    settle(b);
    struct kvsstore_stats st;
    kvsstore_get_stats(ns->store, &st);
    ck_assert_uint_eq(st.held, 0);
    bed_free(b);
}
END_TEST

/* So is what differs below a directory. */
START_TEST(diff_slices)
{
    enum { MANY = 3000 };
    struct bed *b = bed_create();
    struct km *k = b->ctx;
    struct kvs_answer a;
    size_t answers, len;
    const void *data;
    unsigned turns = 0;
    errmsg_t err;

    make_dir(b, "d", MANY, 100);
    answers = b->answers;
    step_ns = 1000000;
    watch_changes(b, ".", 20);
    ck_assert_uint_eq(b->answers, answers);
    ck_assert_uint_gt(km_entries_sum_bytes(k->entries), 0);
    /* Its root stays, and it is told what comes meanwhile afterwards. */
    step_ns = 0;
    put_later(b, "primary", 0, FLUX_ROLE_OWNER, "new");
    commit_now(k->primary);
    answers = b->answers;
    step_ns = 1000000;
    for (; b->answers == answers; turns++)
        km_read_work(k);
    step_ns = 0;
    ck_assert_uint_gt(turns, 20);
    data = flux_msg_payload(b->last, &len);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_msg(kvs_answer_decode(data, len, &a, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(a.count, MANY + 1); /* and the directory itself */
    ck_assert(a.flags & KVS_ANSWER_WHOLE);
    settle(b);
    ck_assert_uint_eq(b->answers, answers + 2);
    data = flux_msg_payload(b->last, &len);
    ck_assert_msg(kvs_answer_decode(data, len, &a, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(a.count, 1);
    ck_assert_uint_eq(km_entries_sum_bytes(k->entries), 0);
    ck_assert(!km_read_busy(k->primary));
    /* One that is being made ends with its client. */
    step_ns = 1000000;
    watch_changes(b, ".", 21);
    step_ns = 0;
    ck_assert_uint_gt(km_entries_sum_bytes(k->entries), 0);
    flux_handle_deliver(b->f.h, request("kvs.disconnect", 0, FLUX_ROLE_BROKER, 21));
    ck_assert_uint_eq(km_entries_sum_bytes(k->entries), 0);
    bed_free(b);
}
END_TEST

/* While unfinished listings take much memory, no other begins before its turn. */
START_TEST(listings_crowded)
{
    struct km_entries large[3];
    struct bed *b = bed_create();
    struct km *k = b->ctx;
    size_t answers, much;

    make_dir(b, "d", 3000, 100);
    answers = b->answers;
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        ck_assert_int_eq(km_entries_init(&large[i], k->entries, ""), 0);
        ck_assert_ptr_nonnull(km_entries_reserve(&large[i], 0, (size_t)120 << 20, NULL));
    }
    much = km_entries_sum_bytes(k->entries);
    step_ns = 1000000;
    list_dir(b, "d", 8);
    list_dir(b, "d", 9);
    ck_assert_uint_eq(km_entries_sum_bytes(k->entries), much);
    km_read_work(k);
    size_t first = km_entries_sum_bytes(k->entries);
    ck_assert_uint_gt(first, much);
    /* The first is finished before the second begins. */
    while (b->answers == answers) {
        ck_assert_uint_ge(km_entries_sum_bytes(k->entries), first);
        km_read_work(k);
    }
    ck_assert_uint_eq(km_entries_sum_bytes(k->entries), much);
    check_listing(b, 3000, 100, k->primary->version);
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        km_entries_clear(&large[i]);
    step_ns = 0;
    settle(b);
    ck_assert_uint_eq(b->answers, answers + 2);
    ck_assert_uint_eq(km_entries_sum_bytes(k->entries), 0);
    /* One that is being made ends with its namespace. */
    step_ns = 1000000;
    list_dir(b, "d", 10);
    step_ns = 0;
    ck_assert_uint_gt(km_entries_sum_bytes(k->entries), 0);
    bed_free(b);
}
END_TEST

/* What a client brought, and never used, is let go of bit by bit. */
START_TEST(upload_slices)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;
    struct kvs_ns_req q = {.ns = "primary", .nslen = 7};
    static uint8_t buf[100 + KVS_STORE_MAX];
    struct kvsstore_stats st;
    size_t before;

    for (uint32_t i = 0; i < 40 * KVS_STORE_MAX / KVS_CHUNK; i++) {
        flux_msg_t *msg = request("kvs.store", 0, FLUX_ROLE_OWNER, 7);
        kvs_ns_req_encode(&q, buf);
        memcpy(buf + kvs_ns_req_size(&q), &i, sizeof(i));
        flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q) + 4);
        flux_handle_deliver(b->f.h, msg);
        ck_assert_int_eq(b->errnum, 0);
    }
    kvsstore_get_stats(ns->store, &st);
    before = st.uploads;
    flux_handle_deliver(b->f.h, request("kvs.disconnect", 0, FLUX_ROLE_BROKER, 7));
    step_ns = 1000000;
    km_upload_work(ns);
    step_ns = 0;
    kvsstore_get_stats(ns->store, &st);
    ck_assert_uint_lt(st.uploads, before);
    ck_assert_uint_gt(st.uploads, before / 2);
    settle(b);
    kvsstore_get_stats(ns->store, &st);
    ck_assert_uint_eq(st.uploads, 0);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("kvs_slices", watch_slices, commit_turns, version_slices, dropcache_slices,
              upload_slices, listing_slices, listings_crowded, diff_slices);
}
