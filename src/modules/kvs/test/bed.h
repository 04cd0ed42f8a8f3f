/* bed.h - an instance of the kvs module on a handle of the test's own: what it asks is answered,
 * what it answers is examined. */
#ifndef KVS_TEST_BED_H
#define KVS_TEST_BED_H

#include "config.h"
#include <stdio.h>

#include "libflux/module.h"
#include "libflux/test/fake.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvs_wire.h"
#include "libutil/test/suite.h"
#include "modules/kvs/km_commit.h"
#include "modules/kvs/km_private.h"
#include "modules/kvs/km_upload.h"

extern const struct flux_module flux_module_kvs;

#define CREATE "kvs.namespace-create"
#define REMOVE "kvs.namespace-remove"
#define OWNER FLUX_ROLE_OWNER
#define BROKER FLUX_ROLE_BROKER

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
    const char *place;   /* what kvs.namespace-find is answered with */
    const char *checked; /* and kvs.namespace-check */
    const char *hold;    /* a topic that is not answered, */
    flux_msg_t *held;    /* and the last request for it */
    int full;            /* this many requests by courier find no room */
    bool abort_taken;
    const char *statedir; /* the only attribute there is; NULL: none */
    const char *topic;    /* what is answered with these bytes, or this error */
    const void *raw;
    size_t rawlen;
    int raw_errnum;
    int registered;
    flux_msg_t *last;   /* response to the test */
    flux_msg_t *page;   /* and the last one with more to come */
    size_t logged;      /* messages that went to the log, */
    size_t complaints;  /* and those that the test expects */
    size_t roots_asked; /* how often kvs.getroot was asked for, */
    size_t lost_told;   /* and kvs.namespace-lost, */
    size_t stores_gone; /* and kvs.store-gone */
};

/* What the module sends: requests are kept, responses examined. */
static inline void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        b->errnum = flux_msg_errnum(msg);
        b->answers++;
        flux_msg_destroy(b->last);
        b->last = msg;
        if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING)) {
            flux_msg_destroy(b->page);
            b->page = flux_msg_incref(msg);
        }
        return;
    }
    if (flux_msg_type(msg) == FLUX_MSG_REQUEST && !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) &&
        b->nasked < 256) {
        b->asked[b->nasked++] = msg;
        return;
    }
    b->logged += strcmp(flux_msg_topic(msg), "log.append") == 0;
    flux_msg_destroy(msg);
}

static inline void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* The root that the master has, for an instance elsewhere. */
static inline void answer_root(flux_msg_t *resp)
{
    struct kvs_root root = {.version = 5, .ns = "primary"};
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ref, sizeof(root.ref), "sha256-%064d", 0);
    flux_msg_set_raw(resp, buf, kvs_root_encode(&root, buf));
}

/* Let it work until nothing is asked for and no namespace has work left, however slowly this
 * program is given the CPU; attributes are not there (but for `statedir`), everything else
 * succeeds. */
static inline void settle(struct bed *b)
{
    do {
        for (size_t i = b->nasked; i-- > 0;) {
            if (!b->hold || strcmp(flux_msg_topic(b->asked[i]), b->hold) != 0)
                continue;
            flux_msg_destroy(b->held);
            b->held = b->asked[i];
            b->asked[i] = b->asked[--b->nasked];
        }
        for (size_t i = 0; i < b->nasked; i++) {
            bool attr = strcmp(flux_msg_topic(b->asked[i]), "attr.get") == 0;
            bool statedir = attr && b->statedir && strstr(flux_msg_json(b->asked[i]), "statedir");
            int errnum = attr && !statedir ? ENOENT : 0;
            if (strcmp(flux_msg_topic(b->asked[i]), "kvs.snapshot") == 0)
                errnum = b->snapshot_errnum;
            if (strcmp(flux_msg_topic(b->asked[i]), "event.publish") == 0) {
                errnum = b->event_errnum;
                b->published++;
            }
            const char *text = errnum ? "no such thing" : "{\"seq\":1}";
            bool aborts = strcmp(flux_msg_topic(b->asked[i]), "kvs.fence-abort") == 0;
            bool registers = strcmp(flux_msg_topic(b->asked[i]), "kvs.namespace-register") == 0;
            if ((aborts || registers) && b->full > 0) {
                b->full--;
                errnum = EAGAIN;
            }
            b->abort_taken |= aborts && errnum == 0;
            b->registered += registers && errnum == 0;
            b->lost_told += strcmp(flux_msg_topic(b->asked[i]), "kvs.namespace-lost") == 0;
            b->stores_gone += strcmp(flux_msg_topic(b->asked[i]), "kvs.store-gone") == 0;
            if (strcmp(flux_msg_topic(b->asked[i]), "kvs.namespace-find") == 0) {
                errnum = b->place ? 0 : ENOENT;
                text = b->place ? b->place : "no such thing";
            }
            if (strcmp(flux_msg_topic(b->asked[i]), "kvs.namespace-check") == 0)
                text = b->checked;
            char value[256];
            if (statedir) {
                snprintf(value, sizeof(value), "{\"name\":\"statedir\",\"value\":\"%s\"}",
                         b->statedir);
                text = value;
            }
            if (strcmp(flux_msg_topic(b->asked[i]), "overlay.topology") == 0)
                text = "{\"topology\":\"kary:2\",\"size\":4,\"file\":\"\"}";
            bool is_raw = b->topic && strcmp(flux_msg_topic(b->asked[i]), b->topic) == 0;
            if (is_raw)
                errnum = b->raw_errnum;
            flux_msg_t *resp = flux_msg_response_create(b->asked[i], errnum);
            if (strcmp(flux_msg_topic(b->asked[i]), "kvs.getroot") == 0) {
                b->roots_asked++;
                answer_root(resp);
            } else if (is_raw && !errnum)
                flux_msg_set_raw(resp, b->raw, b->rawlen);
            else
                flux_msg_set_json(resp, text);
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
    } while (b->nasked > 0 || !list_empty(&((struct km *)b->ctx)->turns->busy));
}

/* It was only just loaded: it does not know its attributes yet. */
static inline struct bed *bed_new(uint32_t rank)
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

static inline struct bed *bed_create_at(uint32_t rank)
{
    struct bed *b = bed_new(rank);

    settle(b);
    return b;
}

static inline struct bed *bed_create(void)
{
    return bed_create_at(0);
}

static inline void bed_free(struct bed *b)
{
    /* All went well, but for what the test made go wrong. */
    ck_assert_uint_eq(b->logged, b->complaints);
    if (b->ctx) /* the test has not ended it */
        flux_module_kvs.fini(b->f.h, b->ctx);
    flux_watcher_destroy(b->stop);
    for (size_t i = 0; i < b->nasked; i++)
        flux_msg_destroy(b->asked[i]);
    flux_msg_destroy(b->held);
    flux_msg_destroy(b->last);
    flux_msg_destroy(b->page);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    free(b);
}

static inline flux_msg_t *request(const char *topic, uint32_t userid, uint32_t roles,
                                  uint32_t client)
{
    static uint32_t tag;
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    flux_msg_set_cred(msg, userid, roles);
    flux_msg_set_matchtag(msg, ++tag);
    flux_msg_route_push(msg, 1u << 28 | client);
    return msg;
}

static inline int json(struct bed *b, const char *topic, uint32_t userid, uint32_t roles,
                       const char *text)
{
    flux_msg_t *msg = request(topic, userid, roles, 7);

    flux_msg_set_json(msg, text);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    settle(b);
    return b->errnum;
}

/* It has come, and nothing was done about it yet. */
static inline void put_later(struct bed *b, const char *ns, uint32_t userid, uint32_t roles,
                             const char *value)
{
    struct kvs_txn_buf txn = {0};
    struct kvs_ns_req q = {.ns = ns, .nslen = strlen(ns)};
    flux_msg_t *msg = request("kvs.commit", userid, roles, 7);
    uint8_t buf[256];

    kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, "k", 1, value, strlen(value), NULL);
    q.body = txn.data;
    q.len = txn.len;
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    kvs_txn_buf_clear(&txn);
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
}

static inline int put_value(struct bed *b, const char *ns, uint32_t userid, uint32_t roles,
                            const char *value)
{
    put_later(b, ns, userid, roles, value);
    settle(b);
    return b->errnum;
}

static inline int put(struct bed *b, const char *ns, uint32_t userid, uint32_t roles)
{
    return put_value(b, ns, userid, roles, "v");
}

static inline int get(struct bed *b, const char *ns, uint32_t userid, uint32_t roles)
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

/* Deliver a request, and let the module work: the errno of its answer, -1 when there is none. */
static inline int deliver(struct bed *b, flux_msg_t *msg)
{
    b->errnum = -1;
    flux_handle_deliver(b->f.h, msg);
    settle(b);
    return b->errnum;
}

/* A request that is something for a namespace, with `len` bytes of it. */
static inline int raw(struct bed *b, const char *topic, const char *ns, uint8_t flags, size_t len)
{
    struct kvs_ns_req q = {.ns = ns, .nslen = strlen(ns), .flags = flags};
    flux_msg_t *msg = request(topic, 0, OWNER | BROKER, 7);
    size_t head = kvs_ns_req_size(&q);
    uint8_t *buf = calloc(1, head + len);

    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, head + len);
    free(buf);
    return deliver(b, msg);
}

/* From now on, answer the module's requests for `topic` with these bytes, or this error. */
static inline void reply(struct bed *b, const char *topic, const void *data, size_t len, int errnum)
{
    b->topic = topic;
    b->raw = data;
    b->rawlen = len;
    b->raw_errnum = errnum;
}

/* A client watches the key "k" of the primary namespace. */
static inline void watch_key(struct bed *b, uint32_t client)
{
    struct kvs_lookup_req q = {.ns = "primary", .nslen = 7, .key = "k", .keylen = 1};
    flux_msg_t *msg = request("kvs.watch", 0, FLUX_ROLE_OWNER, client);
    uint8_t buf[KVS_REQ_MAX];

    kvs_lookup_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_lookup_req_size(&q));
    flux_msg_set_flags(msg, flux_msg_flags(msg) | FLUX_MSGF_STREAMING);
    flux_handle_deliver(b->f.h, msg);
}

/* A watch of what changes below a directory. */
static inline void watch_changes(struct bed *b, const char *key, uint32_t client)
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

#endif
