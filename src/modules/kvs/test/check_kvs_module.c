/* check_kvs_module.c - who may use a namespace, and what is left of who is gone: the instance of rank
 * 0 on a handle of the test's own. */
#include "config.h"
#include <stdio.h>

#include "libflux/module.h"
#include "libflux/test/fake.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvs_wire.h"
#include "libutil/test/suite.h"
#include "modules/kvs/kvs_private.h"

extern const struct flux_module flux_module_kvs;

struct bed {
    struct fake f;
    void *ctx;
    flux_watcher_t *stop;
    int errnum; /* of the last response to the test */
    size_t answers;
    flux_msg_t *asked[256]; /* of the module, to be answered */
    size_t nasked;
    int snapshot_errnum; /* what kvs.snapshot is answered with */
    int event_errnum;    /* what event.publish is */
    size_t published;    /* how many of these came */
};

/* What the module sends: requests are kept, responses looked at. */
static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        b->errnum = flux_msg_errnum(msg);
        b->answers++;
    } else if (flux_msg_type(msg) == FLUX_MSG_REQUEST &&
               !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) && b->nasked < 256) {
        b->asked[b->nasked++] = msg;
        return;
    }
    flux_msg_destroy(msg);
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* The root that the master has, for an instance elsewhere. */
static void answer_root(flux_msg_t *resp)
{
    struct kvs_root root = {.version = 5, .ns = "primary"};
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ref, sizeof(root.ref), "sha256-%064d", 0);
    flux_msg_set_raw(resp, buf, kvs_root_encode(&root, buf));
}

/* Let it work; attributes are not there, everything else succeeds. */
static void settle(struct bed *b)
{
    do {
        for (size_t i = 0; i < b->nasked; i++) {
            bool attr = strcmp(flux_msg_topic(b->asked[i]), "attr.get") == 0;
            int errnum = attr ? ENOENT : 0;
            if (strcmp(flux_msg_topic(b->asked[i]), "kvs.snapshot") == 0)
                errnum = b->snapshot_errnum;
            if (strcmp(flux_msg_topic(b->asked[i]), "event.publish") == 0) {
                errnum = b->event_errnum;
                b->published++;
            }
            flux_msg_t *resp = flux_msg_response_create(b->asked[i], errnum);
            if (strcmp(flux_msg_topic(b->asked[i]), "kvs.getroot") == 0)
                answer_root(resp);
            else
                flux_msg_set_json(resp, errnum ? "no such thing" : "{\"seq\":1}");
            flux_msg_destroy(b->asked[i]);
            b->asked[i] = resp;
        }
        size_t n = b->nasked;
        flux_msg_t *now[256];
        memcpy(now, b->asked, n * sizeof(now[0]));
        b->nasked = 0;
        for (size_t i = 0; i < n; i++)
            flux_handle_deliver(b->f.h, now[i]);
        flux_timer_start(b->stop, 0.005, 0.);
        flux_reactor_run(b->f.r);
    } while (b->nasked > 0);
}

/* It was only just loaded: it does not know its attributes yet. */
static struct bed *bed_new(uint32_t rank)
{
    struct bed *b = calloc(1, sizeof(*b));
    errmsg_t err;

    ck_assert_ptr_nonnull(b);
    b->f.user = b;
    b->f.hook = sent;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->f.h =
                              flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, rank, 4, 42));
    (void)fake_ops;
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f.r, stop_cb, b));
    ck_assert_int_eq(flux_module_kvs.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    return b;
}

static struct bed *bed_create_at(uint32_t rank)
{
    struct bed *b = bed_new(rank);

    settle(b);
    return b;
}

static struct bed *bed_create(void)
{
    return bed_create_at(0);
}

static void bed_free(struct bed *b)
{
    flux_module_kvs.fini(b->f.h, b->ctx);
    flux_watcher_destroy(b->stop);
    for (size_t i = 0; i < b->nasked; i++)
        flux_msg_destroy(b->asked[i]);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    free(b);
}

static uint32_t tag;

static flux_msg_t *request(const char *topic, uint32_t userid, uint32_t roles, uint32_t client)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    flux_msg_set_cred(msg, userid, roles);
    flux_msg_set_matchtag(msg, ++tag);
    flux_msg_route_push(msg, 1u << 28 | client);
    return msg;
}

static int json(struct bed *b, const char *topic, uint32_t userid, uint32_t roles, const char *text)
{
    flux_msg_t *msg = request(topic, userid, roles, 7);

    flux_msg_set_json(msg, text);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    settle(b);
    return b->errnum;
}

static int put(struct bed *b, const char *ns, uint32_t userid, uint32_t roles)
{
    struct kvs_txn_buf txn = {0};
    struct kvs_ns_req q = {.ns = ns, .nslen = strlen(ns)};
    flux_msg_t *msg = request("kvs.commit", userid, roles, 7);
    uint8_t buf[256];

    kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, "k", 1, "v", 1, NULL);
    q.body = txn.data;
    q.len = txn.len;
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    kvs_txn_buf_clear(&txn);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    settle(b);
    return b->errnum;
}

static int get(struct bed *b, const char *ns, uint32_t userid, uint32_t roles)
{
    struct kvs_lookup_req q = {.ns = ns, .nslen = strlen(ns), .key = "k", .keylen = 1};
    flux_msg_t *msg = request("kvs.lookup", userid, roles, 7);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    settle(b);
    return b->errnum;
}

#define CREATE "kvs.namespace-create"
#define REMOVE "kvs.namespace-remove"

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

/* What waits to be passed on is bounded in bytes, also when a little more than the bound is there. */
START_TEST(bytes_that_wait)
{
    struct bed *b = bed_create_at(1);
    struct km_ns *ns = ((struct km *)b->ctx)->primary;
    const size_t bound = 256u << 20;

    ns->waiting_bytes = bound - 100;
    ns->upload_bytes = bound - 100;
    ck_assert_int_eq(bytes(b, "kvs.commit", 100), -1);
    ck_assert_uint_gt(ns->waiting_bytes, bound);
    ck_assert_int_eq(bytes(b, "kvs.commit", 100), EAGAIN);
    ck_assert_int_eq(bytes(b, "kvs.store", 1), -1);
    ck_assert_int_eq(bytes(b, "kvs.store", 200), EAGAIN);
    settle(b);
    ck_assert_uint_eq(ns->waiting_bytes, bound - 100);
    ck_assert_uint_eq(ns->upload_bytes, bound - 100);
    ns->waiting_bytes = ns->upload_bytes = 0;
    ck_assert_int_eq(bytes(b, "kvs.commit", 100), -1);
    ck_assert_int_eq(bytes(b, "kvs.store", 200), -1);
    bed_free(b);
}
END_TEST

/* A watch of what changes below a directory, whose first root is not held yet: it is on its way. */
static void watch_changes(struct bed *b, uint32_t client)
{
    struct kvs_lookup_req q = {
        .ns = "primary", .nslen = 7, .key = "k", .keylen = 1, .flags = KVS_REQ_DIFF};
    flux_msg_t *msg = request("kvs.watch", 0, FLUX_ROLE_OWNER, client);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    ck_assert_int_eq(b->errnum, -1);
    ck_assert_uint_eq(b->nasked, 1);
    ck_assert_str_eq(flux_msg_topic(b->asked[0]), "kvs.snapshot");
}

START_TEST(watch_before_its_root)
{
    struct bed *b = bed_create_at(1);
    flux_msg_t *msg;

    /* Its client goes. */
    watch_changes(b, 20);
    msg = request("kvs.disconnect", 0, FLUX_ROLE_BROKER, 20);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    flux_handle_deliver(b->f.h, msg);
    ck_assert_int_eq(b->errnum, ENODATA);
    b->snapshot_errnum = EHOSTUNREACH;
    settle(b);
    /* The master cannot be reached. */
    watch_changes(b, 21);
    settle(b);
    ck_assert_int_eq(b->errnum, EHOSTUNREACH);
    /* The instance ends. */
    watch_changes(b, 22);
    bed_free(b);
}
END_TEST

/* --- the index --- */

struct thing {
    struct km_claim claim;
    int ended, cancelled;
};

static void gone(struct km_claim *c, bool was_cancelled)
{
    struct thing *t = list_entry(c, struct thing, claim);

    ck_assert_ptr_null(c->s);
    t->ended++;
    t->cancelled += was_cancelled;
}

START_TEST(index_of_senders)
{
    struct km_senders *ss = km_senders_create();
    struct thing t[100] = {0};
    uint32_t tags[100];
    flux_msg_t *a;

    ck_assert_ptr_nonnull(ss);
    for (int i = 0; i < 100; i++) {
        flux_msg_t *m = request("kvs.watch", 0, FLUX_ROLE_OWNER, (uint32_t)(i % 4));
        tags[i] = flux_msg_matchtag(m);
        ck_assert_int_eq(km_claim(ss, &t[i].claim, m, gone), 0);
        flux_msg_destroy(m);
    }
    ck_assert_uint_eq(km_senders_count(ss), 4);
    /* A cancel hits the one it names, of its own sender only. */
    a = request("kvs.cancel", 0, FLUX_ROLE_OWNER, 1);
    km_senders_cancel(ss, a, tags[5]);
    km_senders_cancel(ss, a, tags[5]);
    km_senders_cancel(ss, a, tags[6]);
    ck_assert_int_eq(t[5].ended, 1);
    ck_assert_int_eq(t[5].cancelled, 1);
    ck_assert_int_eq(t[6].ended, 0);
    /* What ends by itself is not told. */
    km_claim_drop(ss, &t[9].claim);
    km_claim_drop(ss, &t[9].claim);
    km_senders_disconnect(ss, a);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(t[i].ended, i % 4 == 1 && i != 9);
    ck_assert_uint_eq(km_senders_count(ss), 3);
    km_senders_disconnect(ss, a);
    for (int i = 0; i < 100; i++)
        km_claim_drop(ss, &t[i].claim);
    ck_assert_uint_eq(km_senders_count(ss), 0);
    flux_msg_destroy(a);
    km_senders_destroy(ss);
}
END_TEST

int main(void)
{
    RUN_SUITE("kvs_module", owner_and_others, no_such_rank, early_requests, clients_that_go,
              event_that_fails, bytes_that_wait, watch_before_its_root, index_of_senders);
}
