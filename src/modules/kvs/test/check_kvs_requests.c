/* check_kvs_requests.c - what the kvs module refuses, and what it does with what other instances
 * tell it: requests that are malformed or for somebody else, roots that are old, namespaces that
 * come and go. */
#include "bed.h"
#include "modules/kvs/km_fence.h"
#include "libflux/overlay_wire.h"

#define UNKNOWN "no-such-namespace"

static int stream(struct bed *b, const char *topic, uint32_t roles, uint32_t client,
                  const char *text)
{
    flux_msg_t *msg = request(topic, 0, roles, client);

    flux_msg_set_json(msg, text);
    flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    return deliver(b, msg);
}

static void event(struct bed *b, const char *topic, const char *text)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, topic);

    if (text)
        flux_msg_set_json(msg, text);
    flux_handle_deliver(b->f.h, msg);
    settle(b);
}

static struct kvs_root last_root(struct bed *b)
{
    struct kvs_root root;
    size_t len;
    const void *data = flux_msg_payload(b->last, &len);
    errmsg_t err;

    ck_assert_int_eq(kvs_root_decode(data, len, &root, &err), 0);
    return root;
}

static bool last_has(struct bed *b, const char *text)
{
    size_t len;
    const char *json = flux_msg_payload(b->last, &len);

    return strstr(json, text) != NULL;
}

START_TEST(payloads)
{
    struct bed *b = bed_create();
    size_t len;

    ck_assert_int_eq(json(b, "kvs.commit", 0, OWNER, "{}"), EPROTO);
    ck_assert_int_eq(raw(b, "kvs.commit", "no/name", 0, 4), EINVAL);
    ck_assert_int_eq(raw(b, "kvs.commit", UNKNOWN, 0, 4), ENOENT);
    /* An answer that waits for the disk is for commits only. */
    ck_assert_int_eq(raw(b, "kvs.store", "primary", KVS_NS_DURABLE, 1), EPROTO);
    /* Pieces of values have bounds. */
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, 0), EINVAL);
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, KVS_STORE_MAX + 1), EINVAL);
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, KVS_STORE_MAX), 0);
    (void)flux_msg_payload(b->last, &len);
    ck_assert_uint_eq(len, KVS_STORE_HEADER + KVS_STORE_MAX / KVS_CHUNK * 32);
    /* Lists of objects, too; objects that are not there are left out of the answer. */
    ck_assert_int_eq(raw(b, "kvs.load", "primary", 0, 0), EPROTO);
    ck_assert_int_eq(raw(b, "kvs.load", "primary", 0, 31), EPROTO);
    ck_assert_int_eq(raw(b, "kvs.load", "primary", 0, 32 * (KVS_LOAD_MAX + 1)), EPROTO);
    ck_assert_int_eq(raw(b, "kvs.load", "primary", 0, 32 * KVS_LOAD_MAX), 0);
    (void)flux_msg_payload(b->last, &len);
    ck_assert_uint_eq(len, 4 * KVS_LOAD_MAX);
    bed_free(b);
}
END_TEST

static int look(struct bed *b, const char *topic, unsigned flags, const char *ref, bool streaming)
{
    struct kvs_lookup_req q = {.flags = flags,
                               .ns = "primary",
                               .nslen = 7,
                               .key = "k",
                               .keylen = 1,
                               .ref = ref,
                               .reflen = strlen(ref)};
    flux_msg_t *msg = request(topic, 0, OWNER, 7);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    if (streaming)
        flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    return deliver(b, msg);
}

START_TEST(streams)
{
    struct bed *b = bed_create();
    char ref[KVS_ROOTREF_MAX], text[300];

    ck_assert_int_eq(put_value(b, "primary", 0, OWNER, "one"), 0);
    ck_assert_int_eq(put_value(b, "primary", 0, OWNER, "two"), 0);
    snprintf(ref, sizeof(ref), "%s", last_root(b).ref);
    /* What lasts must be asked for as a stream, and a watch is of what comes. */
    ck_assert_int_eq(json(b, "kvs.follow", 0, BROKER, "{\"namespace\":\"primary\"}"), EPROTO);
    ck_assert_int_eq(
        json(b, "kvs.snapshot", 0, OWNER, "{\"namespace\":\"primary\",\"rootref\":\"\"}"), EPROTO);
    ck_assert_int_eq(look(b, "kvs.watch", 0, "", false), EPROTO);
    ck_assert_int_eq(look(b, "kvs.watch", 0, ref, true), EPROTO);
    ck_assert_int_eq(look(b, "kvs.watch", KVS_REQ_TAG, "", true), EPROTO);
    ck_assert_int_eq(look(b, "kvs.watch", 0, "", true), 0);
    /* Snapshots: of now, of a root that is there, of none. */
    ck_assert_int_eq(
        stream(b, "kvs.snapshot", OWNER, 8, "{\"namespace\":\"primary\",\"rootref\":\"\"}"), 0);
    ck_assert_uint_eq(last_root(b).version, 2);
    ck_assert_str_eq(last_root(b).ref, ref);
    snprintf(text, sizeof(text), "{\"namespace\":\"primary\",\"rootref\":\"%s\"}", ref);
    ck_assert_int_eq(stream(b, "kvs.snapshot", OWNER, 8, text), 0);
    ck_assert_uint_eq(last_root(b).version, 2);
    ck_assert_int_eq(
        stream(b, "kvs.snapshot", OWNER, 8, "{\"namespace\":\"primary\",\"rootref\":\"x\"}"),
        EINVAL);
    snprintf(text, sizeof(text), "{\"namespace\":\"primary\",\"rootref\":\"sha256-%064d\"}", 0);
    ck_assert_int_eq(stream(b, "kvs.snapshot", OWNER, 8, text), ENOENT);
    snprintf(text, sizeof(text), "{\"namespace\":\"primary\",\"rootref\":\"%080d\"}", 0);
    ck_assert_int_eq(stream(b, "kvs.snapshot", OWNER, 8, text), EINVAL);
    bed_free(b);
}
END_TEST

/* A snapshot keeps its root as long as it lasts, and no longer. */
START_TEST(snapshot_holds)
{
    struct bed *b = bed_create();
    char ref[KVS_ROOTREF_MAX];
    flux_msg_t *msg;

    ck_assert_int_eq(put_value(b, "primary", 0, OWNER, "one"), 0);
    snprintf(ref, sizeof(ref), "%s", last_root(b).ref);
    ck_assert_int_eq(
        stream(b, "kvs.snapshot", OWNER, 20, "{\"namespace\":\"primary\",\"rootref\":\"\"}"), 0);
    ck_assert_int_eq(put_value(b, "primary", 0, OWNER, "two"), 0);
    ck_assert_int_eq(json(b, "kvs.gc", 0, OWNER, "{}"), 0);
    ck_assert_int_eq(look(b, "kvs.lookup", 0, ref, false), 0);
    msg = request("kvs.disconnect", 0, BROKER, 20);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    ck_assert_int_eq(deliver(b, msg), ENODATA);
    ck_assert_int_eq(json(b, "kvs.gc", 0, OWNER, "{}"), 0);
    ck_assert_int_eq(look(b, "kvs.lookup", 0, ref, false), ENOENT);
    ck_assert_int_eq(look(b, "kvs.lookup", 0, "", false), 0);
    bed_free(b);
}
END_TEST

/* Nobody would tell of the end of a client at a rank that is lost. */
START_TEST(lost_ranks)
{
    struct bed *b = bed_create();
    flux_msg_t *msg;

    event(b, "overlay.down", "{\"ranks\":\"x\"}");
    event(b, "overlay.down", NULL);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":2}"), 0);
    event(b, "overlay.down", "{\"ranks\":\"2\"}");
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"m\",\"owner\":0,\"rank\":2}"),
                     EHOSTUNREACH);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"m\",\"owner\":0,\"rank\":3}"), 0);
    ck_assert_int_eq(json(b, "kvs.namespace-list", 0, OWNER, "{}"), 0);
    ck_assert(last_has(b, "\"lost\":true") || last_has(b, "\"lost\": true"));
    ck_assert_int_eq(put(b, "n", 0, OWNER), EHOSTUNREACH);
    for (uint32_t rank = 2; rank <= 3; rank++) {
        msg = request("kvs.snapshot", 0, OWNER, 9);
        flux_msg_route_push(msg, rank);
        flux_msg_set_json(msg, "{\"namespace\":\"primary\",\"rootref\":\"\"}");
        flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
        ck_assert_int_eq(deliver(b, msg), rank == 2 ? EHOSTUNREACH : 0);
    }
    bed_free(b);
}
END_TEST

/* Waits for versions are answered when these are there, whatever the order in which they came. */
START_TEST(waits_in_order)
{
    struct bed *b = bed_create();
    static const unsigned versions[] = {3, 1, 2, 3, 1};
    char text[80];
    size_t before;

    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof(text), "{\"namespace\":\"primary\",\"version\":%u}", versions[i]);
        ck_assert_int_eq(json(b, "kvs.wait-version", 0, OWNER, text), -1);
    }
    for (int i = 1; i <= 3; i++) {
        before = b->answers;
        snprintf(text, sizeof(text), "%d", i);
        ck_assert_int_eq(put_value(b, "primary", 0, OWNER, text), 0);
        ck_assert_uint_eq(b->answers - before, 1 + (i == 2 ? 1 : 2));
    }
    ck_assert_int_eq(
        json(b, "kvs.wait-version", 0, OWNER, "{\"namespace\":\"primary\",\"version\":3}"), 0);
    ck_assert_int_eq(json(b, "kvs.version", 0, OWNER, "{\"namespace\":\"primary\"}"), 0);
    ck_assert(last_has(b, "\"version\":3") || last_has(b, "\"version\": 3"));
    bed_free(b);
}
END_TEST

static uint64_t version(struct bed *b)
{
    ck_assert_int_eq(json(b, "kvs.getroot", 0, OWNER, "{\"namespace\":\"primary\"}"), 0);
    return last_root(b).version;
}

static void announce(struct bed *b, const char *ns, uint64_t v, const char *ref)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "kvs.setroot");
    struct kvs_root root = {.version = v};
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ns, sizeof(root.ns), "%s", ns);
    snprintf(root.ref, sizeof(root.ref), "%s", ref);
    flux_msg_set_raw(msg, buf, kvs_root_encode(&root, buf));
    flux_handle_deliver(b->f.h, msg);
    settle(b);
}

/* An instance elsewhere: roots only ever become newer, unless the master began anew. */
START_TEST(roots_announced)
{
    struct bed *b = bed_create_at(1);
    char ref[KVS_ROOTREF_MAX];
    size_t logged, asked;

    snprintf(ref, sizeof(ref), "sha256-%064d", 1);
    ck_assert_uint_eq(version(b), 5);
    announce(b, "primary", 7, ref);
    ck_assert_uint_eq(version(b), 7);
    announce(b, "primary", 6, ref);
    ck_assert_uint_eq(version(b), 7);
    announce(b, UNKNOWN, 9, ref);
    ck_assert_uint_eq(version(b), 7);
    logged = b->logged;
    announce(b, "primary", 8, "sha256-xyz");
    ck_assert_uint_eq(b->logged - logged, 1);
    event(b, "kvs.setroot", NULL);
    ck_assert_uint_eq(b->logged - logged, 2);
    event(b, "kvs.setroot", "{}");
    ck_assert_uint_eq(b->logged - logged, 3);
    ck_assert_uint_eq(version(b), 7);
    /* The master, at 5, is asked; what was known up to 7 is lost, which is logged. */
    asked = b->roots_asked;
    announce(b, "primary", 0, ref);
    ck_assert_uint_eq(b->roots_asked - asked, 1);
    ck_assert_uint_eq(version(b), 5);
    ck_assert_uint_eq(b->logged - logged, 4);
    /* That it is back may be no news. */
    event(b, "kvs.began", NULL);
    ck_assert_uint_eq(b->roots_asked - asked, 2);
    ck_assert_uint_eq(version(b), 5);
    b->complaints = logged + 4;
    bed_free(b);
}
END_TEST

static int place(struct bed *b, const char *topic, const char *ns, unsigned rank, unsigned serial)
{
    char text[300];

    snprintf(text, sizeof(text),
             "{\"namespace\":\"%s\",\"owner\":1000,\"rank\":%u,\"serial\":%u,\"lost\":false,"
             "\"hash\":\"sha256\"}",
             ns, rank, serial);
    return json(b, topic, 0, BROKER, text);
}

static int numbered(struct bed *b, const char *topic, const char *ns, unsigned serial)
{
    char text[200];

    snprintf(text, sizeof(text), "{\"namespace\":\"%s\",\"serial\":%u}", ns, serial);
    return json(b, topic, 0, BROKER, text);
}

/* The master of a namespace: it is opened and closed by rank 0, and nobody else has a say. */
START_TEST(open_and_close)
{
    struct bed *b = bed_create_at(1);

    ck_assert_int_eq(place(b, "kvs.namespace-open", "no/name", 1, 1), EINVAL);
    ck_assert_int_eq(place(b, "kvs.namespace-open", "primary", 1, 1), EINVAL);
    ck_assert(last_has(b, "the primary namespace is always open"));
    ck_assert_int_eq(place(b, "kvs.namespace-open", "n", 1, 10), 0);
    ck_assert_int_eq(put(b, "n", 1000, FLUX_ROLE_USER), 0);
    ck_assert_uint_eq(last_root(b).version, 1);
    ck_assert_int_eq(put(b, "n", 1001, FLUX_ROLE_USER), EPERM);
    /* The removal of another one that had this name. */
    ck_assert_int_eq(numbered(b, "kvs.namespace-close", "n", 9), 0);
    event(b, "kvs.namespace-removed", "{\"namespace\":\"n\",\"serial\":9}");
    event(b, "kvs.namespace-removed", "{\"namespace\":\"n\"}");
    event(b, "kvs.namespace-removed", NULL);
    ck_assert_int_eq(get(b, "n", 1000, FLUX_ROLE_USER), 0);
    /* Opened once more: that is a new one. */
    ck_assert_int_eq(place(b, "kvs.namespace-open", "n", 1, 11), 0);
    ck_assert_int_eq(get(b, "n", 1000, FLUX_ROLE_USER), ENOENT);
    ck_assert_int_eq(put(b, "n", 1000, FLUX_ROLE_USER), 0);
    ck_assert_int_eq(numbered(b, "kvs.namespace-close", "n", 11), 0);
    ck_assert_int_eq(put(b, "n", 1000, FLUX_ROLE_USER), ENOENT);
    /* It is not here any more, but rank 0 believes so: it is told. */
    b->place = "{\"namespace\":\"n\",\"owner\":1000,\"rank\":1,\"serial\":11,\"lost\":false,"
               "\"hash\":\"sha256\"}";
    size_t told = b->lost_told;
    ck_assert_int_eq(put(b, "n", 1000, FLUX_ROLE_USER), EHOSTUNREACH);
    ck_assert_uint_eq(b->lost_told - told, 1);
    b->place = "{\"namespace\":\"n\",\"owner\":1000,\"rank\":2,\"serial\":11,\"lost\":true,"
               "\"hash\":\"sha256\"}";
    ck_assert_int_eq(put(b, "n", 1000, FLUX_ROLE_USER), EHOSTUNREACH);
    b->place = "{\"namespace\":\"n\",\"owner\":1000,\"rank\":2,\"serial\":11,\"lost\":false,"
               "\"hash\":\"rot13\"}";
    /* The directory is kept at rank 0. */
    ck_assert_int_eq(json(b, "kvs.namespace-drop", 0, BROKER,
                          "{\"namespace\":\"n\",\"userid\":0,\"owner\":true}"),
                     EPROTO);
    bed_free(b);
}
END_TEST

static bool listed(struct bed *b, const char *name, bool lost)
{
    json_t *o, *item;
    size_t i, len;
    bool found = false;

    ck_assert_int_eq(json(b, "kvs.namespace-list", 0, OWNER, "{}"), 0);
    const char *text = flux_msg_payload(b->last, &len);
    ck_assert_ptr_nonnull(o = json_loads(text, 0, NULL));
    json_array_foreach(json_object_get(o, "namespaces"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "namespace")), name) == 0)
            found = json_boolean_value(json_object_get(item, "lost")) == lost;
    }
    json_decref(o);
    return found;
}

/* Rank 0: what masters elsewhere say of their namespaces. */
START_TEST(directory_hears)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(
        json(b, CREATE, 0, OWNER, "{\"namespace\":\"primary\",\"owner\":0,\"rank\":0}"), EEXIST);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"a\",\"owner\":0,\"rank\":0}"), 0);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"a\",\"owner\":0,\"rank\":1}"),
                     EEXIST);
    place(b, "kvs.namespace-register", "n", 2, 10);
    ck_assert(listed(b, "n", false));
    /* Not what is not a name, and not over what is there. */
    place(b, "kvs.namespace-register", "no/name", 2, 10);
    ck_assert(!listed(b, "no/name", false));
    place(b, "kvs.namespace-register", "n", 3, 11);
    ck_assert_int_eq(json(b, "kvs.namespace-find", 0, BROKER, "{\"namespace\":\"n\"}"), 0);
    ck_assert(last_has(b, "\"serial\":10") || last_has(b, "\"serial\": 10"));
    ck_assert_int_eq(json(b, "kvs.namespace-find", 0, BROKER, "{\"namespace\":\"m\"}"), ENOENT);
    /* Another one of that name was lost; then this one. */
    numbered(b, "kvs.namespace-lost", "n", 9);
    numbered(b, "kvs.namespace-lost", "m", 10);
    ck_assert(listed(b, "n", false));
    numbered(b, "kvs.namespace-lost", "n", 10);
    ck_assert(listed(b, "n", true));
    ck_assert_int_eq(get(b, "n", 0, OWNER), EHOSTUNREACH);
    /* It can be removed, by its owner, and made anew. */
    ck_assert_int_eq(json(b, REMOVE, 1001, FLUX_ROLE_USER, "{\"namespace\":\"n\"}"), EPERM);
    ck_assert_int_eq(json(b, REMOVE, 1000, FLUX_ROLE_USER, "{\"namespace\":\"n\"}"), 0);
    ck_assert_int_eq(json(b, REMOVE, 1000, FLUX_ROLE_USER, "{\"namespace\":\"n\"}"), ENOENT);
    ck_assert(!listed(b, "n", true) && !listed(b, "n", false));
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"), 0);
    ck_assert_int_eq(put(b, "n", 0, OWNER), 0);
    /* A remove that another instance passes on, by whom. */
    ck_assert_int_eq(json(b, "kvs.namespace-drop", 0, BROKER,
                          "{\"namespace\":\"n\",\"userid\":1000,\"owner\":false}"),
                     EPERM);
    ck_assert_int_eq(json(b, "kvs.namespace-drop", 0, BROKER,
                          "{\"namespace\":\"n\",\"userid\":1000,\"owner\":true}"),
                     0);
    ck_assert_int_eq(get(b, "n", 0, OWNER), ENOENT);
    bed_free(b);
}
END_TEST

static int fence_at(struct bed *b, const char *ranks, const char *name, uint32_t nprocs,
                    uint32_t client, uint8_t flags, uint32_t roles)
{
    struct kvs_txn_buf txn = {0};
    struct kvs_fence_req q = {.nprocs = nprocs,
                              .count = 1,
                              .flags = flags,
                              .ns = "primary",
                              .nslen = 7,
                              .name = name,
                              .namelen = strlen(name),
                              .ranks = ranks,
                              .rankslen = strlen(ranks)};
    flux_msg_t *msg = request("kvs.fence", 0, roles, client);
    uint8_t *buf;
    size_t head;

    kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, name, strlen(name), "v", 1, NULL);
    head = kvs_fence_req_size(&q);
    buf = calloc(1, head + txn.len);
    q.txnlen = 0;
    kvs_fence_req_encode(&q, buf);
    memcpy(buf + head, txn.data, txn.len);
    flux_msg_set_raw(msg, buf, head + txn.len);
    kvs_txn_buf_clear(&txn);
    free(buf);
    return deliver(b, msg);
}

static int fence(struct bed *b, const char *name, uint32_t nprocs, uint32_t client, uint8_t flags,
                 uint32_t roles)
{
    return fence_at(b, "", name, nprocs, client, flags, roles);
}

static void leaves(struct bed *b, uint32_t client)
{
    flux_msg_t *msg = request("kvs.disconnect", 0, BROKER, client);

    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    deliver(b, msg);
}

START_TEST(fences)
{
    struct bed *b = bed_create();
    size_t before;

    /* Calls that do not fit are refused alone. */
    ck_assert_int_eq(fence(b, "f", 3, 1, 0, OWNER), -1);
    ck_assert_int_eq(fence(b, "f", 2, 2, 0, OWNER), EINVAL);
    ck_assert_int_eq(fence(b, "f", 3, 2, 0, OWNER), -1);
    before = b->answers;
    ck_assert_int_eq(fence(b, "f", 3, 3, 0, OWNER), 0);
    ck_assert_uint_eq(b->answers - before, 3);
    ck_assert_uint_eq(version(b), 1);
    /* Only an instance may call for others. */
    ck_assert_int_eq(fence(b, "g", 2, 1, KVS_FENCE_INSTANCE, OWNER), EPERM);
    /* A client that goes ends it for all; who comes late is refused, as often as calls are
     * missing. */
    ck_assert_int_eq(fence(b, "f", 3, 1, 0, OWNER), -1);
    ck_assert_int_eq(fence(b, "f", 3, 2, 0, OWNER), -1);
    before = b->answers;
    leaves(b, 1);
    ck_assert_uint_eq(b->answers - before, 2);
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_int_eq(fence(b, "f", 3, 3, 0, OWNER), ECONNABORTED);
    ck_assert_int_eq(fence(b, "f", 3, 3, 0, OWNER), -1);
    /* Who was told is not late: its call is for the next one. */
    ck_assert_int_eq(fence(b, "f", 3, 2, 0, OWNER), -1);
    before = b->answers;
    ck_assert_int_eq(fence(b, "f", 3, 4, 0, OWNER), 0);
    ck_assert_uint_eq(b->answers - before, 3);
    /* Another number of calls is another program's. */
    ck_assert_int_eq(fence(b, "h", 2, 5, 0, OWNER), -1);
    leaves(b, 5);
    ck_assert_int_eq(fence(b, "h", 1, 6, 0, OWNER), 0);
    bed_free(b);
}
END_TEST

static const char *said(const struct bed *b)
{
    return flux_msg_payload(b->last, NULL);
}

/* The page of open fences, for this user. */
static const char *open_fences(struct bed *b, uint32_t userid, uint32_t roles)
{
    flux_msg_t *msg = request("kvs.fences", userid, roles, 7);
    size_t before = b->answers;

    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    flux_handle_deliver(b->f.h, msg);
    settle(b);
    ck_assert_uint_eq(b->answers, before + 2);
    ck_assert_int_eq(b->errnum, ENODATA);
    return flux_msg_payload(b->page, NULL);
}

/* A rank that is lost ends the fences that have a participant there, and no others. */
START_TEST(fence_ranks)
{
    struct bed *b = bed_create();
    size_t before;

    ck_assert_int_eq(fence_at(b, "0-", "f", 3, 1, 0, OWNER), EINVAL);
    ck_assert_int_eq(fence_at(b, "4", "f", 3, 1, 0, OWNER), EINVAL);
    ck_assert_ptr_nonnull(strstr(said(b), "rank 4 does not exist"));
    ck_assert_int_eq(fence(b, "f", 3, 1, 0, OWNER), -1);
    ck_assert_int_eq(fence_at(b, "0,2", "f", 3, 2, 0, OWNER), -1);
    ck_assert_int_eq(fence_at(b, "1", "g", 2, 3, 0, OWNER), -1);
    ck_assert_ptr_nonnull(
        strstr(open_fences(b, 0, OWNER), "\"nprocs\":3,\"entered\":2,\"ranks\":\"0,2\""));
    ck_assert_ptr_nonnull(
        strstr(open_fences(b, 0, OWNER), "\"nprocs\":2,\"entered\":1,\"ranks\":\"1\""));
    /* A guest sees none of a namespace of somebody else. */
    ck_assert_ptr_nonnull(strstr(open_fences(b, 1000, FLUX_ROLE_USER), "\"fences\":[]"));
    before = b->answers;
    event(b, "overlay.down", "{\"ranks\":\"3\"}");
    ck_assert_uint_eq(b->answers - before, 0);
    event(b, "overlay.down", "{\"ranks\":\"2\"}");
    ck_assert_uint_eq(b->answers - before, 2);
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_ptr_nonnull(strstr(said(b), "fence 'f' was aborted: rank 2 is lost"));
    /* Also when it was lost before; the last call cannot complete it. */
    before = b->answers;
    ck_assert_int_eq(fence_at(b, "2-3", "g", 2, 4, 0, OWNER), ECONNABORTED);
    ck_assert_uint_eq(b->answers - before, 2);
    ck_assert_ptr_nonnull(strstr(said(b), "fence 'g' was aborted: ranks 2-3 are lost"));
    ck_assert_ptr_nonnull(strstr(open_fences(b, 0, OWNER), "\"fences\":[]"));
    bed_free(b);
}
END_TEST

/* An abort that an instance below passes on is for the fence that it names. */
START_TEST(fence_aborts)
{
    struct bed *b = bed_create();
    size_t before;

    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), -1);
    before = b->answers;
    json(b, "kvs.fence-abort", 0, BROKER,
         "{\"namespace\":\"primary\",\"name\":\"f\",\"nprocs\":3,\"rank\":1,\"number\":0,"
         "\"reason\":\"no\"}");
    json(b, "kvs.fence-abort", 0, BROKER,
         "{\"namespace\":\"primary\",\"name\":\"f\",\"nprocs\":2,\"rank\":1,\"number\":4,"
         "\"reason\":\"no\"}");
    ck_assert_uint_eq(b->answers - before, 2); /* that they came */
    json(b, "kvs.fence-abort", 0, BROKER,
         "{\"namespace\":\"primary\",\"name\":\"f\",\"nprocs\":2,\"rank\":1,\"number\":0,"
         "\"reason\":\"no\"}");
    ck_assert_uint_eq(b->answers - before, 4);
    /* The call that was missing is late; unless the master hears that it was answered below. */
    ck_assert_int_eq(fence(b, "f", 2, 2, 0, OWNER), ECONNABORTED);
    ck_assert_int_eq(fence(b, "f", 2, 3, 0, OWNER), -1);
    json(b, "kvs.fence-abort", 0, BROKER,
         "{\"namespace\":\"primary\",\"name\":\"f\",\"nprocs\":2,\"rank\":1,\"number\":0,"
         "\"reason\":\"no\"}");
    json(b, "kvs.fence-told", 0, BROKER,
         "{\"namespace\":\"primary\",\"name\":\"f\",\"nprocs\":2,\"count\":1}");
    ck_assert_int_eq(fence(b, "f", 2, 4, 0, OWNER), -1);
    /* One that was not begun here: all its calls are late. */
    json(b, "kvs.fence-abort", 0, BROKER,
         "{\"namespace\":\"primary\",\"name\":\"g\",\"nprocs\":2,\"rank\":1,\"number\":0,"
         "\"reason\":\"no\"}");
    ck_assert_int_eq(fence(b, "g", 2, 5, 0, OWNER), ECONNABORTED);
    ck_assert_int_eq(fence(b, "g", 2, 6, 0, OWNER), ECONNABORTED);
    before = b->answers;
    ck_assert_int_eq(fence(b, "g", 2, 7, 0, OWNER), -1);
    ck_assert_uint_eq(b->answers, before);
    bed_free(b);
}
END_TEST

/* What is in memory only is not to be lost by mistake. */
START_TEST(may_stop)
{
    struct bed *b = bed_create();
    errmsg_t err;

    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), 0);
    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), -1);
    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), -1);
    leaves(b, 1);
    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), 0);
    ck_assert_int_eq(put(b, "primary", 0, OWNER), 0);
    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), -1);
    bed_free(b);
    b = bed_create_at(1);
    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), 0);
    ck_assert_int_eq(place(b, "kvs.namespace-open", "n", 1, 10), 0);
    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), 0);
    ck_assert_int_eq(put(b, "n", 1000, FLUX_ROLE_USER), 0);
    ck_assert_int_eq(flux_module_kvs.may_stop(b->f.h, b->ctx, &err), -1);
    bed_free(b);
}
END_TEST

/* --- what is answered from above --- */

static size_t a_root(uint64_t v, uint8_t buf[KVS_ROOT_WIRE_MAX])
{
    struct kvs_root root = {.version = v, .ns = "primary"};

    snprintf(root.ref, sizeof(root.ref), "sha256-%064d", 2);
    return kvs_root_encode(&root, buf);
}

/* Without any root nobody waits for one for ever; with the first one that comes all goes on. */
START_TEST(first_root_refused)
{
    struct bed *b = bed_new(1);

    reply(b, "kvs.getroot", NULL, 0, EHOSTUNREACH);
    settle(b);
    ck_assert_int_eq(get(b, "primary", 0, OWNER), EHOSTUNREACH);
    ck_assert_int_eq(json(b, "kvs.version", 0, OWNER, "{\"namespace\":\"primary\"}"), EHOSTUNREACH);
    reply(b, NULL, NULL, 0, 0);
    ck_assert_int_eq(json(b, "kvs.version", 0, OWNER, "{\"namespace\":\"primary\"}"), 0);
    ck_assert(last_has(b, "\"version\":5"));
    bed_free(b);
}
END_TEST

/* The answer to what was passed on is the answer here, and its root is known before that. */
START_TEST(answers_passed)
{
    struct bed *b = bed_create_at(1);
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    reply(b, "kvs.commit", buf, a_root(9, buf), 0);
    ck_assert_int_eq(put(b, "primary", 0, OWNER), 0);
    ck_assert_uint_eq(last_root(b).version, 9);
    ck_assert_uint_eq(version(b), 9);
    reply(b, "kvs.commit", "x", 1, 0);
    ck_assert_int_eq(put(b, "primary", 0, OWNER), EPROTO);
    reply(b, "kvs.commit", NULL, 0, ENOSPC);
    ck_assert_int_eq(put(b, "primary", 0, OWNER), ENOSPC);
    ck_assert_uint_eq(version(b), 9);

    reply(b, "kvs.snapshot", buf, a_root(10, buf), 0);
    ck_assert_int_eq(
        stream(b, "kvs.snapshot", OWNER, 8, "{\"namespace\":\"primary\",\"rootref\":\"\"}"), 0);
    ck_assert_uint_eq(version(b), 10);
    reply(b, "kvs.snapshot", buf, a_root(11, buf) - 1, 0);
    ck_assert_int_eq(
        stream(b, "kvs.snapshot", OWNER, 8, "{\"namespace\":\"primary\",\"rootref\":\"\"}"),
        EPROTO);
    ck_assert_uint_eq(version(b), 10);

    reply(b, "kvs.store", "digests", 7, 0);
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, 100), 0);
    ck_assert_uint_eq(((struct km *)b->ctx)->primary->upload->bytes, 0);
    reply(b, "kvs.store", NULL, 0, EAGAIN);
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, 100), EAGAIN);
    ck_assert_uint_eq(((struct km *)b->ctx)->primary->upload->bytes, 0);

    reply(b, "kvs.gc", NULL, 0, EPERM);
    ck_assert_int_eq(json(b, "kvs.gc", 0, OWNER, "{}"), EPERM);
    reply(b, "kvs.namespace-create", NULL, 0, EEXIST);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"),
                     EEXIST);
    reply(b, NULL, NULL, 0, 0);
    for (int i = 0; i < 16; i++) /* whatever their random numbers are */
        ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"),
                         0);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"), 0);
    bed_free(b);
}
END_TEST

/* Creations and removals that are sent again, since a broker on the way has died, are answered as
 * the first time; another one is not. */
START_TEST(namespace_again)
{
    struct bed *b = bed_create();

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0,\"number\":5}"),
            0);
    ck_assert_int_eq(
        json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0,\"number\":6}"),
        EEXIST);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(json(b, "kvs.namespace-drop", 0, BROKER,
                              "{\"namespace\":\"n\",\"userid\":0,\"owner\":true,\"number\":7}"),
                         0);
    ck_assert_int_eq(json(b, "kvs.namespace-drop", 0, BROKER,
                          "{\"namespace\":\"n\",\"userid\":0,\"owner\":true,\"number\":8}"),
                     ENOENT);
    /* One that comes again while the first is under way: the master is at another rank. */
    b->hold = "kvs.namespace-open";
    for (int i = 0; i < 3; i++)
        json(b, CREATE, 0, OWNER,
             i < 2 ? "{\"namespace\":\"m\",\"owner\":0,\"rank\":1,\"number\":9}"
                   : "{\"namespace\":\"m\",\"owner\":0,\"rank\":1,\"number\":10}");
    size_t answers = b->answers;
    flux_msg_t *resp = flux_msg_response_create(b->held, 0);
    flux_msg_set_json(resp, "{}");
    flux_handle_deliver(b->f.h, resp);
    settle(b);
    ck_assert_uint_eq(b->answers, answers + 3);
    ck_assert_int_eq(b->errnum, EEXIST); /* the last one */
    bed_free(b);
}
END_TEST

/* The end of a fence as the instance above tells it. */
START_TEST(fences_passed)
{
    struct bed *b = bed_create_at(1);
    uint8_t buf[8 + KVS_ROOT_WIRE_MAX] = {5};
    struct km_fence_end aborted = {5, ECONNABORTED, .why = {"it was aborted"}};
    uint8_t ended[KM_FENCE_END_MAX];

    reply(b, "kvs.fence", buf, 8 + a_root(9, buf + 8), 0);
    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), 0);
    ck_assert_uint_eq(version(b), 9);
    reply(b, "kvs.fence", buf, 5, 0);
    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), EPROTO);
    reply(b, "kvs.fence", NULL, 0, EHOSTUNREACH);
    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), EHOSTUNREACH);
    reply(b, "kvs.fence", ended, km_fence_end_encode(&aborted, ended), 0);
    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), ECONNABORTED);
    ck_assert(last_has(b, "it was aborted"));
    /* The next call of who was told says what it knows. */
    b->hold = "kvs.fence";
    ck_assert_int_eq(fence(b, "f", 2, 2, 0, OWNER), -1);
    ck_assert_uint_eq(km_fence_count(((struct km *)b->ctx)->primary), 1);
    ck_assert_int_eq(fence(b, "f", 2, 1, 0, OWNER), -1);
    ck_assert_uint_eq(km_fence_count(((struct km *)b->ctx)->primary), 2);
    bed_free(b);
}
END_TEST

/* The ranks that the last call of a fence above told. */
static void told_ranks(const struct bed *b, const char *want)
{
    struct kvs_fence_req q;
    const void *data;
    size_t len;
    errmsg_t err;

    ck_assert_ptr_nonnull(b->held);
    data = flux_msg_payload(b->held, &len);
    ck_assert_int_eq(kvs_fence_req_decode(data, len, &q, &err), 0);
    ck_assert_uint_eq(q.rankslen, strlen(want));
    ck_assert_mem_eq(q.ranks, want, q.rankslen);
}

/* The instance above learns where participants are, as soon as that is known here. */
START_TEST(fence_ranks_passed)
{
    struct bed *b = bed_create_at(1);

    b->hold = "kvs.fence";
    ck_assert_int_eq(fence_at(b, "1", "f", 3, 1, 0, OWNER), -1);
    told_ranks(b, "1");
    ck_assert_int_eq(fence_at(b, "", "g", 3, 1, 0, OWNER), -1);
    told_ranks(b, "");
    bed_free(b);
}
END_TEST

/* Lookups and listings are counted apart. */
START_TEST(reads_counted)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(put_value(b, "primary", 0, OWNER, "one"), 0);
    (void)look(b, "kvs.lookup", 0, "", false);
    (void)look(b, "kvs.lookup", 0, "", false);
    (void)look(b, "kvs.readdir", 0, "", false);
    ck_assert_int_eq(json(b, "kvs.stats", 0, OWNER, "{}"), 0);
    ck_assert_msg(last_has(b, "\"lookups\":2,"), "%s", said(b));
    ck_assert_msg(last_has(b, "\"readdirs\":1,"), "%s", said(b));
    bed_free(b);
}
END_TEST

static size_t asks(const struct bed *b, const char *topic)
{
    size_t n = 0;

    for (size_t i = 0; i < b->nasked; i++)
        n += strcmp(flux_msg_topic(b->asked[i]), topic) == 0;
    return n;
}

/* An instance that ends says so: to who waits for a fence here, to the instances that it had told
 * of the calls, and to rank 0 of the namespaces whose master it was. */
START_TEST(says_that_it_ends)
{
    struct bed *b = bed_create_at(1);
    size_t before;

    b->hold = "kvs.fence";
    ck_assert_int_eq(fence(b, "f", 3, 1, 0, OWNER), -1);
    ck_assert_int_eq(place(b, "kvs.namespace-open", "mine", 1, 10), 0);
    ck_assert_int_eq(put(b, "mine", 1000, FLUX_ROLE_USER), 0);
    before = b->answers;
    ck_assert_uint_eq(b->nasked, 0);
    flux_module_kvs.fini(b->f.h, b->ctx);
    b->ctx = NULL;
    ck_assert_uint_eq(b->answers - before, 1);
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    ck_assert_uint_eq(asks(b, "kvs.fence-abort"), 1);
    ck_assert_uint_eq(asks(b, "kvs.namespace-lost"), 1);
    bed_free(b);
}
END_TEST

/* Objects that are asked for: an answer that is cut off, or is not what was asked for, is an
 * error of those who wait, and nothing of it is kept. */
START_TEST(objects_that_come)
{
    static const struct {
        const char *data;
        size_t len;
        int errnum;
    } answers[] = {
        {"", 0, EPROTO},
        {"\1\0\0", 3, EPROTO},
        {"\5\0\0\0abcd", 8, EPROTO},     /* longer than what is there */
        {"\4\0\0\0abcd", 8, EPROTO},     /* is not an object */
        {"\377\377\377\377", 4, EAGAIN}, /* is not there: the root is of the past */
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct bed *b = bed_create_at(1);

        reply(b, "kvs.load", answers[i].data, answers[i].len, 0);
        ck_assert_int_eq(get(b, "primary", 0, OWNER), answers[i].errnum);
        reply(b, "kvs.load", NULL, 0, EHOSTUNREACH);
        ck_assert_int_eq(get(b, "primary", 0, OWNER), EHOSTUNREACH);
        bed_free(b);
    }
}
END_TEST

/* A namespace that nobody uses is forgotten, but not by its master, and not while somebody waits.
 */
START_TEST(idle_namespaces)
{
    struct bed *b = bed_create_at(1);
    struct km *k = b->ctx;
    struct km_ns *ns;

    ck_assert_int_eq(place(b, "kvs.namespace-open", "mine", 1, 10), 0);
    b->place = "{\"namespace\":\"n\",\"owner\":1000,\"rank\":2,\"serial\":11,\"lost\":false,"
               "\"hash\":\"sha256\"}";
    b->hold = "kvs.follow";
    ck_assert_int_eq(json(b, "kvs.version", 0, OWNER, "{\"namespace\":\"n\"}"), -1);
    ck_assert_ptr_nonnull(ns = hmap_get(k->spaces, "n"));
    ((struct km_ns *)hmap_get(k->spaces, "mine"))->used -= 100;
    ns->used -= 100;
    k->primary->used -= 100;
    km_space_expire(k);
    ck_assert_ptr_eq(hmap_get(k->spaces, "n"), ns); /* somebody waits */
    leaves(b, 7);
    ns->used += 50;
    km_space_expire(k);
    ck_assert_ptr_eq(hmap_get(k->spaces, "n"), ns); /* it was used not long ago */
    ns->used -= 50;
    km_space_expire(k);
    ck_assert_ptr_null(hmap_get(k->spaces, "n"));
    ck_assert_ptr_nonnull(hmap_get(k->spaces, "mine"));
    ck_assert_ptr_nonnull(hmap_get(k->spaces, "primary"));
    settle(b);
    ck_assert(list_empty(&k->turns->busy));
    bed_free(b);
}
END_TEST

static int list_unanswered(struct bed *b)
{
    flux_msg_t *msg = request("kvs.namespace-list", 0, OWNER, 7);

    flux_msg_set_json(msg, "{}");
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    return b->errnum;
}

/* At rank 0 the list of namespaces is made later, in slices. */
START_TEST(list_later)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(json(b, CREATE, 0, OWNER, "{\"namespace\":\"n\",\"owner\":0,\"rank\":0}"), 0);
    ck_assert_int_eq(list_unanswered(b), -1);
    settle(b);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_ptr_nonnull(strstr(said(b), "\"primary\""));
    ck_assert_ptr_nonnull(strstr(said(b), "\"n\""));
    bed_free(b);
}
END_TEST

/* Elsewhere than at rank 0: requests that rank 0 leaves unanswered do not pile up without end. */
START_TEST(relays_bounded)
{
    struct bed *b = bed_create_at(1);
    const unsigned most = 4096;
    size_t answers = b->answers;

    for (unsigned i = 0; i < most; i++)
        ck_assert_int_eq(list_unanswered(b), -1);
    ck_assert_uint_eq(b->answers, answers);
    ck_assert_int_eq(list_unanswered(b), EAGAIN);
    ck_assert(last_has(b, "4096 requests that were passed on wait at rank 1: try again later"));
    /* Each answer of rank 0 makes room for one more. */
    size_t kept = b->nasked;
    ck_assert_uint_gt(kept, 0);
    settle(b);
    ck_assert_uint_eq(b->answers, answers + 1 + kept);
    ck_assert_int_eq(b->errnum, 0);
    for (size_t i = 0; i < kept; i++)
        ck_assert_int_eq(list_unanswered(b), -1);
    ck_assert_int_eq(list_unanswered(b), EAGAIN);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("kvs_requests", payloads, streams, snapshot_holds, lost_ranks, waits_in_order,
              roots_announced, open_and_close, directory_hears, fences, fence_ranks, fence_aborts,
              may_stop, first_root_refused, answers_passed, namespace_again, fences_passed,
              says_that_it_ends, objects_that_come, idle_namespaces, fence_ranks_passed,
              reads_counted, list_later, relays_bounded);
}
