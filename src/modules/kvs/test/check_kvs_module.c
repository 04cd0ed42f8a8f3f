/* check_kvs_module.c - who may use a namespace, and what is left of who is gone: the instance of
 * rank 0 on a handle of the test's own. */
#include "config.h"
#include <time.h>
#include <unistd.h>

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

START_TEST(owner_and_others)
{
    struct bed *b = bed_create();
    const uint32_t user = FLUX_ROLE_USER, owner = FLUX_ROLE_OWNER;

    /* The primary is the session owner's. */
    ck_assert_int_eq(put(b, "primary", 0, owner), 0);
    ck_assert_int_eq(get(b, "primary", 0, owner), 0);
    ck_assert_int_eq(put(b, "primary", 1000, user), EPERM);
    ck_assert_int_eq(get(b, "primary", 1000, user), EPERM);
    /* A user makes one for himself, not for others. */
    ck_assert_int_eq(json(b, CREATE, 1000, user, "{\"namespace\":\"n\",\"owner\":1001,\"rank\":0}"),
                     EPERM);
    ck_assert_int_eq(
        json(b, CREATE, 1000, user, "{\"namespace\":\"n\",\"owner\":4294967295,\"rank\":0}"), 0);
    ck_assert_int_eq(put(b, "n", 1000, user), 0);
    ck_assert_int_eq(get(b, "n", 1000, user), 0);
    /* Nobody else gets in, but the session owner. */
    ck_assert_int_eq(put(b, "n", 1001, user), EPERM);
    ck_assert_int_eq(get(b, "n", 1001, user), EPERM);
    ck_assert_int_eq(json(b, "kvs.version", 1001, user, "{\"namespace\":\"n\"}"), EPERM);
    ck_assert_int_eq(json(b, REMOVE, 1001, user, "{\"namespace\":\"n\"}"), EPERM);
    ck_assert_int_eq(put(b, "n", 0, owner), 0);
    ck_assert_int_eq(get(b, "n", 0, owner), 0);
    /* The session owner makes one for somebody. */
    ck_assert_int_eq(json(b, CREATE, 0, owner, "{\"namespace\":\"m\",\"owner\":1001,\"rank\":0}"),
                     0);
    ck_assert_int_eq(put(b, "m", 1001, user), 0);
    ck_assert_int_eq(put(b, "m", 1000, user), EPERM);
    ck_assert_int_eq(json(b, REMOVE, 1001, user, "{\"namespace\":\"m\"}"), 0);
    ck_assert_int_eq(put(b, "m", 1001, user), ENOENT);
    ck_assert_int_eq(json(b, REMOVE, 0, owner, "{\"namespace\":\"n\"}"), 0);
    ck_assert_int_eq(get(b, "n", 0, owner), ENOENT);
    ck_assert_int_eq(json(b, REMOVE, 0, owner, "{\"namespace\":\"primary\"}"), EPERM);
    /* What is for the session owner, and for instances. */
    ck_assert_int_eq(json(b, "kvs.stats", 1000, user, "{}"), EPERM);
    ck_assert_int_eq(json(b, "kvs.gc", 1000, user, "{}"), EPERM);
    ck_assert_int_eq(json(b, "kvs.follow", 0, owner, "{\"namespace\":\"primary\"}"), EPERM);
    ck_assert_int_eq(
        json(b, "kvs.namespace-close", 0, owner, "{\"namespace\":\"primary\",\"serial\":0}"),
        EPERM);
    bed_free(b);
}
END_TEST

START_TEST(no_such_rank)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(
        json(b, CREATE, 0, FLUX_ROLE_OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":4}"),
        EHOSTUNREACH);
    ck_assert_int_eq(
        json(b, CREATE, 0, FLUX_ROLE_OWNER, "{\"namespace\":\"no/name\",\"owner\":0,\"rank\":0}"),
        EINVAL);
    ck_assert_int_eq(json(b, CREATE, 0, FLUX_ROLE_OWNER, "{\"namespace\":\"n\",\"owner\":0}"),
                     EPROTO);
    bed_free(b);
}
END_TEST

/* What comes before the store is there waits for it, in order. */
START_TEST(early_requests)
{
    struct bed *b = bed_new(0);
    static const char *const ask[][2] = {
        {CREATE, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"},
        {"kvs.namespace-list", "{}"},
        {REMOVE, "{\"namespace\":\"n\"}"},
    };

    b->errnum = -1;
    for (int i = 0; i < 3; i++) {
        flux_msg_t *msg = request(ask[i][0], 0, FLUX_ROLE_OWNER, 7);
        flux_msg_set_json(msg, ask[i][1]);
        flux_handle_deliver(b->f.h, msg);
        ck_assert_uint_eq(b->answers, 0);
    }
    settle(b);
    ck_assert_uint_eq(b->answers, 3);
    ck_assert_int_eq(b->errnum, 0);
    bed_free(b);
}
END_TEST

/* The end of one client ends its waits, and nobody else's. */
START_TEST(clients_that_go)
{
    struct bed *b = bed_create();
    flux_msg_t *msg;
    size_t before;

    for (uint32_t i = 0; i < 300; i++) {
        msg = request("kvs.wait-version", 0, FLUX_ROLE_OWNER, 20 + i % 3);
        flux_msg_set_json(msg, "{\"namespace\":\"primary\",\"version\":1}");
        flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
        flux_handle_deliver(b->f.h, msg);
    }
    settle(b);
    msg = request("kvs.disconnect", 0, FLUX_ROLE_BROKER, 20);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    before = b->answers;
    flux_handle_deliver(b->f.h, msg);
    /* Brokers on the way keep a request until it is answered. */
    ck_assert_uint_eq(b->answers - before, 100);
    ck_assert_int_eq(b->errnum, ENODATA);
    before = b->answers;
    ck_assert_int_eq(put(b, "primary", 0, FLUX_ROLE_OWNER), 0);
    ck_assert_uint_eq(b->answers - before, 1 + 200);
    bed_free(b);
}
END_TEST

/* A root whose event failed is announced with whatever comes next. */
START_TEST(event_that_fails)
{
    struct bed *b = bed_create();
    size_t before;

    ck_assert_int_eq(put(b, "primary", 0, FLUX_ROLE_OWNER), 0);
    b->event_errnum = ENOMEM;
    ck_assert_int_eq(put(b, "primary", 0, FLUX_ROLE_OWNER), 0);
    b->event_errnum = 0;
    before = b->published;
    ck_assert_int_eq(json(b, "kvs.gc", 0, FLUX_ROLE_OWNER, "{}"), 0);
    ck_assert_uint_eq(b->published - before, 1);
    ck_assert_int_eq(json(b, "kvs.gc", 0, FLUX_ROLE_OWNER, "{}"), 0);
    ck_assert_uint_eq(b->published - before, 1);
    b->complaints = 1;
    bed_free(b);
}
END_TEST

/* A request with `size` bytes: the errno of its answer, -1 when it was passed on. */
static int bytes(struct bed *b, const char *topic, size_t size)
{
    struct kvs_ns_req q = {.ns = "primary", .nslen = 7};
    flux_msg_t *msg = request(topic, 0, FLUX_ROLE_OWNER, 7);
    uint8_t buf[256] = {0};

    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q) + size);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

/* What waits to be passed on is bounded in bytes, also when a little more than the bound is
 * there. */
START_TEST(bytes_that_wait)
{
    struct bed *b = bed_create_at(1);
    struct km_ns *ns = ((struct km *)b->ctx)->primary;
    const size_t bound = 256u << 20;

    ns->commit->waiting_bytes = bound - 100;
    ns->upload->bytes = bound - 100;
    ck_assert_int_eq(bytes(b, "kvs.commit", 100), -1);
    ck_assert_uint_gt(ns->commit->waiting_bytes, bound);
    ck_assert_int_eq(bytes(b, "kvs.commit", 100), EAGAIN);
    ck_assert_int_eq(bytes(b, "kvs.store", 1), -1);
    ck_assert_int_eq(bytes(b, "kvs.store", 200), EAGAIN);
    settle(b);
    ck_assert_uint_eq(ns->commit->waiting_bytes, bound - 100);
    ck_assert_uint_eq(ns->upload->bytes, bound - 100);
    ns->commit->waiting_bytes = ns->upload->bytes = 0;
    ck_assert_int_eq(bytes(b, "kvs.commit", 100), -1);
    ck_assert_int_eq(bytes(b, "kvs.store", 200), -1);
    bed_free(b);
}
END_TEST

/* A watch of what changes below a directory. */
static void watch_changes(struct bed *b, const char *key, uint32_t client)
{
    struct kvs_lookup_req q = {
        .ns = "primary", .nslen = 7, .key = key, .keylen = strlen(key), .flags = KVS_REQ_DIFF};
    flux_msg_t *msg = request("kvs.watch", 0, FLUX_ROLE_OWNER, client);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
}

/* Its first root is not held yet: it is on its way. */
static void watch_on_its_way(struct bed *b, uint32_t client)
{
    watch_changes(b, "k", client);
    ck_assert_int_eq(b->errnum, -1);
    ck_assert_uint_eq(b->nasked, 1);
    ck_assert_str_eq(flux_msg_topic(b->asked[0]), "kvs.snapshot");
}

START_TEST(watch_before_its_root)
{
    struct bed *b = bed_create_at(1);
    flux_msg_t *msg;

    /* Its client goes. */
    watch_on_its_way(b, 20);
    msg = request("kvs.disconnect", 0, FLUX_ROLE_BROKER, 20);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    flux_handle_deliver(b->f.h, msg);
    ck_assert_int_eq(b->errnum, ENODATA);
    b->snapshot_errnum = EHOSTUNREACH;
    settle(b);
    /* The master cannot be reached. */
    watch_on_its_way(b, 21);
    settle(b);
    ck_assert_int_eq(b->errnum, EHOSTUNREACH);
    /* The instance ends. */
    watch_on_its_way(b, 22);
    bed_free(b);
}
END_TEST

/* --- slices --- */

static void watch_key(struct bed *b, uint32_t client)
{
    struct kvs_lookup_req q = {.ns = "primary", .nslen = 7, .key = "k", .keylen = 1};
    flux_msg_t *msg = request("kvs.watch", 0, FLUX_ROLE_OWNER, client);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    flux_handle_deliver(b->f.h, msg);
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

/* --- news that may not be lost --- */

/* A namespace "n" of rank 2 becomes known to this instance, rank 1; its root is followed. */
static void learn(struct bed *b, uint64_t serial)
{
    char place[256];

    snprintf(place, sizeof(place),
             "{\"namespace\":\"n\",\"owner\":0,\"rank\":2,\"serial\":%llu,\"lost\":false,"
             "\"hash\":\"sha256\"}",
             (unsigned long long)serial);
    b->place = place;
    b->hold = "kvs.follow";
    (void)json(b, "kvs.version", 0, FLUX_ROLE_OWNER, "{\"namespace\":\"n\"}");
    ck_assert_ptr_nonnull(hmap_get(((struct km *)b->ctx)->spaces, "n"));
    b->place = NULL;
}

static size_t asked_for(const struct bed *b, const char *topic)
{
    size_t n = 0;

    for (size_t i = 0; i < b->nasked; i++)
        n += strcmp(flux_msg_topic(b->asked[i]), topic) == 0;
    return n;
}

START_TEST(removal_unheard)
{
    struct bed *b = bed_create_at(1);
    flux_msg_t *lost = flux_msg_create(FLUX_MSG_EVENT, "event.lost");
    struct km *k = b->ctx;

    flux_msg_set_json(lost, "{\"from\":3,\"to\":7}");
    learn(b, 77);
    /* It is still there. */
    b->checked = "{\"gone\":[]}";
    flux_handle_deliver(b->f.h, flux_msg_copy(lost));
    ck_assert_uint_eq(asked_for(b, "kvs.namespace-check"), 1);
    ck_assert_uint_eq(asked_for(b, "overlay.status"), 1);
    settle(b);
    ck_assert_ptr_nonnull(hmap_get(k->spaces, "n"));
    ck_assert_uint_eq(((struct km_ns *)hmap_get(k->spaces, "n"))->doubt, 0);
    /* It is not; more is lost while rank 0 is asked. */
    b->checked = "{\"gone\":[0]}";
    flux_handle_deliver(b->f.h, flux_msg_copy(lost));
    flux_handle_deliver(b->f.h, lost);
    ck_assert_uint_eq(asked_for(b, "kvs.namespace-check"), 1);
    settle(b);
    ck_assert_ptr_null(hmap_get(k->spaces, "n"));
    b->complaints = 2; /* what overlay.status was answered with is not a status */
    bed_free(b);
}
END_TEST

/* Rank 0 tells what was removed, and says nothing of what it did not make itself. */
START_TEST(removal_asked)
{
    struct bed *b = bed_create();
    struct km *k = b->ctx;
    struct km_wire_place p;
    char text[256];

    ck_assert_int_eq(
        json(b, CREATE, 0, FLUX_ROLE_OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"), 0);
    ck_assert_int_eq(km_directory_find(k->dir, "n", &p, NULL), 0);
    ck_assert(!km_directory_gone(k->dir, "n", p.serial));
    ck_assert(!km_directory_gone(k->dir, "m", p.serial + 1));
    ck_assert(!km_directory_gone(k->dir, "m", p.serial - 1));
    ck_assert_int_eq(json(b, REMOVE, 0, FLUX_ROLE_OWNER, "{\"namespace\":\"n\"}"), 0);
    ck_assert(km_directory_gone(k->dir, "n", p.serial));
    snprintf(text, sizeof(text), "{\"namespaces\":[{\"namespace\":\"n\",\"serial\":%llu}]}",
             (unsigned long long)p.serial);
    ck_assert_int_eq(json(b, "kvs.namespace-check", 0, FLUX_ROLE_BROKER, text), 0);
    ck_assert_int_eq(json(b, "kvs.namespace-check", 0, FLUX_ROLE_BROKER,
                          "{\"namespaces\":[{\"namespace\":\"n\"}]}"),
                     EPROTO);
    bed_free(b);
}
END_TEST

static int fence(struct bed *b, const char *name, uint32_t client)
{
    struct kvs_txn_buf txn = {0};
    struct kvs_fence_req q = {.nprocs = 2, .count = 1, .ns = "primary", .nslen = 7};
    flux_msg_t *msg = request("kvs.fence", 0, FLUX_ROLE_OWNER, client);
    uint8_t buf[256];

    kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, "k", 1, "v", 1, NULL);
    q.name = name;
    q.namelen = strlen(name);
    q.txn = txn.data;
    q.txnlen = txn.len;
    kvs_fence_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_fence_req_size(&q));
    kvs_txn_buf_clear(&txn);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    b->hold = "kvs.fence";
    settle(b);
    return b->errnum;
}

/* --- brokers between that die --- */

/* `more`: further answers follow. */
static void answer_held(struct bed *b, int errnum, bool more, const void *data, size_t len)
{
    flux_msg_t *req = b->held, *resp;

    ck_assert_ptr_nonnull(req);
    b->held = NULL;
    resp = flux_msg_response_create(req, errnum);
    if (errnum)
        flux_msg_set_json(resp, "rank 0 was lost");
    else
        flux_msg_set_raw(resp, data, len);
    if (more) {
        flux_msg_set_flags(resp, flux_msg_flags(resp) | FLUX_MSGF_STREAMING);
        b->held = flux_msg_incref(req);
    }
    flux_msg_destroy(req);
    flux_handle_deliver(b->f.h, resp);
    settle(b);
}

/* Objects that cannot be had from the next instance are asked for at the master, once. */
START_TEST(load_past_the_lost)
{
    struct bed *b = bed_create_at(1);

    settle(b);
    b->hold = "kvs.load";
    watch_key(b, 20);
    settle(b);
    ck_assert_uint_eq(flux_msg_nodeid(b->held), FLUX_NODEID_ANY);
    ck_assert(flux_msg_has_flag(b->held, FLUX_MSGF_IDEMPOTENT));
    b->errnum = -1;
    answer_held(b, EHOSTUNREACH, false, NULL, 0);
    ck_assert_int_eq(b->errnum, -1);
    ck_assert_uint_eq(flux_msg_nodeid(b->held), 0);
    answer_held(b, EHOSTUNREACH, false, NULL, 0);
    ck_assert_int_eq(b->errnum, EHOSTUNREACH);
    ck_assert_ptr_null(b->held);
    bed_free(b);
}
END_TEST

/* A namespace goes on, if its master can be reached when the next instance towards it cannot. */
START_TEST(follow_past_the_lost)
{
    struct kvs_root root = {.version = 5, .ns = "n"};
    struct bed *b = bed_create_at(1);
    hmap_t *spaces = ((struct km *)b->ctx)->spaces;
    uint8_t buf[KVS_ROOT_WIRE_MAX];
    size_t len;

    snprintf(root.ref, sizeof(root.ref), "sha256-%064d", 0);
    len = kvs_root_encode(&root, buf);
    learn(b, 11);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(flux_msg_nodeid(b->held), i > 0 ? 2 : 0);
        answer_held(b, 0, true, buf, len);
        ck_assert_ptr_nonnull(hmap_get(spaces, "n"));
        answer_held(b, EHOSTUNREACH, false, NULL, 0);
        ck_assert_ptr_nonnull(hmap_get(spaces, "n"));
    }
    answer_held(b, EHOSTUNREACH, false, NULL, 0);
    ck_assert_ptr_null(hmap_get(spaces, "n"));
    bed_free(b);
}
END_TEST

/* A participant goes: the instance above hears of it, however often it has no room. */
START_TEST(abort_without_room)
{
    struct bed *b = bed_create_at(1);
    flux_msg_t *msg;

    ck_assert_int_eq(fence(b, "f", 20), -1);
    b->full = 3;
    msg = request("kvs.disconnect", 0, FLUX_ROLE_BROKER, 20);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    flux_handle_deliver(b->f.h, msg);
    ck_assert_uint_eq(asked_for(b, "kvs.fence-abort"), 1);
    while (b->full > 0)
        settle(b);
    while (!b->abort_taken)
        settle(b);
    bed_free(b);
}
END_TEST

/* More calls, and the end, of a fence whose first message has gone by another way, before a subtree
 * returned to its place: the instances above know it. */
START_TEST(fence_by_another_way)
{
    struct bed *b = bed_create_at(1);

    settle(b);
    for (int i = 0; i < 2; i++) {
        struct kvs_fence_req q = {.nprocs = 2, .count = 1, .rank = 3, .number = 5};
        flux_msg_t *msg = request("kvs.fence", 0, FLUX_ROLE_BROKER, 20);
        const void *data;
        uint8_t buf[256];
        size_t len;

        q.flags = KVS_FENCE_INSTANCE | KVS_FENCE_ADD;
        q.ns = "primary";
        q.nslen = 7;
        q.name = "f";
        q.namelen = 1;
        kvs_fence_req_encode(&q, buf);
        flux_msg_set_raw(msg, buf, kvs_fence_req_size(&q));
        b->hold = "kvs.fence";
        b->errnum = -1;
        flux_handle_deliver(b->f.h, msg);
        settle(b);
        ck_assert_int_eq(b->errnum, -1);
        ck_assert_ptr_nonnull(b->held);
        data = flux_msg_payload(b->held, &len);
        ck_assert_uint_eq(len, kvs_fence_req_size(&q));
        ck_assert_mem_eq(data, buf, len);
        answer_held(b, i ? ECONNABORTED : 0, false, "", 0);
        ck_assert_int_eq(b->errnum, i ? ECONNABORTED : 0);
    }
    ck_assert_int_eq(json(b, "kvs.fence-abort", 0, FLUX_ROLE_BROKER,
                          "{\"namespace\":\"primary\",\"name\":\"f\",\"nprocs\":2,\"rank\":3,"
                          "\"number\":5,\"reason\":\"it left\"}"),
                     0);
    while (!b->abort_taken)
        settle(b);
    bed_free(b);
}
END_TEST

/* The masters at a rank are registered one by one, each until it was taken. */
START_TEST(register_without_room)
{
    struct bed *b = bed_create_at(1);
    flux_msg_t *began = flux_msg_create(FLUX_MSG_EVENT, "kvs.began");
    char text[256];

    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text),
                 "{\"namespace\":\"n%d\",\"owner\":0,\"rank\":1,\"serial\":%d,\"lost\":false,"
                 "\"hash\":\"sha256\"}",
                 i, i + 5);
        ck_assert_int_eq(json(b, "kvs.namespace-open", 0, FLUX_ROLE_BROKER, text), 0);
    }
    b->full = 2;
    flux_handle_deliver(b->f.h, began);
    while (b->registered < 3)
        settle(b);
    ck_assert_int_eq(b->full, 0);
    bed_free(b);
}
END_TEST

/* --- the index --- */

struct thing {
    struct claim claim;
    int ended, canceled;
};

static void gone(struct claim *c, bool was_canceled)
{
    struct thing *t = list_entry(c, struct thing, claim);

    ck_assert_ptr_null(c->s);
    t->ended++;
    t->canceled += was_canceled;
}

START_TEST(index_of_senders)
{
    struct claims *ss = claims_create();
    struct thing t[100] = {0};
    uint32_t tags[100];
    flux_msg_t *a;

    ck_assert_ptr_nonnull(ss);
    for (int i = 0; i < 100; i++) {
        flux_msg_t *m = request("kvs.watch", 0, FLUX_ROLE_OWNER, (uint32_t)(i % 4));
        tags[i] = flux_msg_matchtag(m);
        ck_assert_int_eq(claim_take(ss, &t[i].claim, m, gone), 0);
        flux_msg_destroy(m);
    }
    ck_assert_uint_eq(claims_count(ss), 4);
    /* A cancel hits the one it names, of its own sender only. */
    a = request("kvs.cancel", 0, FLUX_ROLE_OWNER, 1);
    claims_cancel(ss, a, tags[5]);
    claims_cancel(ss, a, tags[5]);
    claims_cancel(ss, a, tags[6]);
    ck_assert_int_eq(t[5].ended, 1);
    ck_assert_int_eq(t[5].canceled, 1);
    ck_assert_int_eq(t[6].ended, 0);
    /* What ends by itself is not told. */
    claim_drop(ss, &t[9].claim);
    claim_drop(ss, &t[9].claim);
    claims_disconnect(ss, a);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(t[i].ended, i % 4 == 1 && i != 9);
    ck_assert_uint_eq(claims_count(ss), 3);
    claims_disconnect(ss, a);
    for (int i = 0; i < 100; i++)
        claim_drop(ss, &t[i].claim);
    ck_assert_uint_eq(claims_count(ss), 0);
    flux_msg_destroy(a);
    claims_destroy(ss);
}
END_TEST

int main(void)
{
    RUN_SUITE("kvs_module", owner_and_others, no_such_rank, early_requests, clients_that_go,
              event_that_fails, bytes_that_wait, watch_before_its_root, removal_unheard,
              removal_asked, load_past_the_lost, follow_past_the_lost, abort_without_room,
              fence_by_another_way, register_without_room, index_of_senders, watch_slices,
              commit_turns, version_slices, dropcache_slices, upload_slices, listing_slices,
              listings_crowded, diff_slices);
}
