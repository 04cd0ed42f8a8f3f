/* check_kvs_module.c - who may use a namespace, and what is left of who is gone: the instance of
 * rank 0 on a handle of the test's own. */
#include "config.h"

#include "bed.h"

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

/* Where the last request of this topic goes to that has not been answered. */
static uint32_t asked_at(const struct bed *b, const char *topic)
{
    uint32_t rank = FLUX_NODEID_ANY;

    for (size_t i = 0; i < b->nasked; i++)
        if (strcmp(flux_msg_topic(b->asked[i]), topic) == 0)
            rank = flux_msg_nodeid(b->asked[i]);
    return rank;
}

/* A call of a fence that another instance reports. */
static flux_msg_t *fence_report(const char *ns, uint32_t rank, unsigned flags)
{
    struct kvs_fence_req q = {.nprocs = 2, .count = 1, .rank = rank, .number = 5};
    flux_msg_t *msg = request("kvs.fence", 0, FLUX_ROLE_BROKER, 20);
    uint8_t buf[256];

    q.flags = KVS_FENCE_INSTANCE | flags;
    q.ns = ns;
    q.nslen = strlen(ns);
    q.name = "f";
    q.namelen = 1;
    kvs_fence_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_fence_req_size(&q));
    return msg;
}

/* The message of an instance at this rank with a call to a fence of the namespace "n". */
static int fence_from(struct bed *b, uint32_t rank, unsigned flags)
{
    flux_msg_t *msg = fence_report("n", rank, flags);

    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

/* The master moves below this rank.  What has been asked for at the former next instance is asked
 * for at the master: the former may wait for this one now.  A fence is not accepted from an
 * instance to which it would be reported. */
START_TEST(tree_that_changes)
{
    struct kvs_root root = {.version = 5, .ns = "n"};
    struct bed *b = bed_create_at(1);
    flux_msg_t *moved = flux_msg_create(FLUX_MSG_EVENT, "overlay.moved");
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ref, sizeof(root.ref), "sha256-%064d", 0);
    learn(b, 11);
    ck_assert_uint_eq(flux_msg_nodeid(b->held), 0);
    answer_held(b, 0, true, buf, kvs_root_encode(&root, buf));
    b->hold = "kvs.load";
    ck_assert_int_eq(get(b, "n", 0, FLUX_ROLE_OWNER), -1);
    ck_assert_uint_eq(flux_msg_nodeid(b->held), 0);
    ck_assert_int_eq(fence_from(b, 0, 0), EHOSTUNREACH);
    ck_assert_int_eq(fence_from(b, 0, KVS_FENCE_ADD), EHOSTUNREACH);
    flux_msg_set_json(moved, "{\"rank\":2,\"parent\":1,\"move\":1,\"map\":2}");
    flux_handle_deliver(b->f.h, moved);
    ck_assert_uint_eq(asked_at(b, "kvs.load"), 2);
    ck_assert_uint_eq(asked_at(b, "kvs.follow"), 2);
    ck_assert_int_eq(fence_from(b, 2, 0), EHOSTUNREACH);
    ck_assert_int_ne(fence_from(b, 0, 0), EHOSTUNREACH);
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
        flux_msg_t *msg = fence_report("primary", 3, KVS_FENCE_ADD), *sent = flux_msg_incref(msg);
        const void *data, *want;
        size_t len, size;

        b->hold = "kvs.fence";
        b->errnum = -1;
        flux_handle_deliver(b->f.h, msg);
        settle(b);
        ck_assert_int_eq(b->errnum, -1);
        ck_assert_ptr_nonnull(b->held);
        data = flux_msg_payload(b->held, &len);
        want = flux_msg_payload(sent, &size);
        ck_assert_uint_eq(len, size);
        ck_assert_mem_eq(data, want, len);
        flux_msg_destroy(sent);
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
              removal_asked, load_past_the_lost, follow_past_the_lost, tree_that_changes,
              abort_without_room, fence_by_another_way, register_without_room, index_of_senders);
}
