/* check_kvs_uploads.c - pieces of values that clients upload before they commit: how long the kvs
 * module keeps them, how many it takes of one client, and what instances tell the master of
 * them. */
#include "bed.h"
#include "libkvs/kvsstore_private.h"

static double later; /* seconds by which the clock of the reactor is advanced */

double __real_flux_now(flux_t *h);
double __wrap_flux_now(flux_t *h);

double __wrap_flux_now(flux_t *h)
{
    return __real_flux_now(h) + later;
}

/* Pieces of a value that no commit refers to are given back after ten minutes. */
START_TEST(uploads_expire)
{
    struct bed *b = bed_create();
    struct km *k = b->ctx;
    struct content_stats before, now;

    content_get_stats(k->primary->content, &before);
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, 1000), 0);
    later += 500.;
    km_upload_expire(k->primary);
    settle(b);
    ck_assert_int_eq(json(b, "kvs.gc", 0, OWNER, "{}"), 0);
    content_get_stats(k->primary->content, &now);
    ck_assert_uint_eq(now.objects, before.objects + 1);
    later += 500.;
    km_upload_expire(k->primary);
    settle(b);
    ck_assert_int_eq(json(b, "kvs.gc", 0, OWNER, "{}"), 0);
    content_get_stats(k->primary->content, &now);
    ck_assert_uint_eq(now.objects, before.objects);
    bed_free(b);
}
END_TEST

/* A piece of a value from a client, each of its own contents. */
static int piece(struct bed *b, uint32_t client, size_t len)
{
    static uint32_t mark;
    struct kvs_ns_req q = {.ns = "primary", .nslen = 7};
    flux_msg_t *msg = request("kvs.store", 0, OWNER, client);
    size_t head = kvs_ns_req_size(&q);
    uint8_t *buf = calloc(1, head + len);

    mark++;
    kvs_ns_req_encode(&q, buf);
    memcpy(buf + head, &mark, sizeof(mark));
    flux_msg_set_raw(msg, buf, head + len);
    free(buf);
    return deliver(b, msg);
}

static uint64_t uploaded(struct bed *b)
{
    struct kvsstore_stats st;

    kvsstore_get_stats(((struct km *)b->ctx)->primary->store, &st);
    return st.upload_bytes;
}

/* One client that uploads and never commits keeps nobody else from it, and leaves nothing. */
START_TEST(upload_shares)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;
    unsigned hog = 0, other = 0;

    ns->store->upload_limit = 300000;
    while (piece(b, 7, 10000) == 0)
        ck_assert_uint_lt(++hog, 30);
    ck_assert_int_eq(b->errnum, EAGAIN);
    ck_assert_uint_gt(hog, 10);
    while (other < 5 && piece(b, 8, 10000) == 0)
        other++;
    ck_assert_uint_eq(other, 5);
    deliver(b, request("kvs.disconnect", 0, BROKER, 7));
    ck_assert_uint_lt(uploaded(b), 5 * 10500);
    ck_assert_int_eq(piece(b, 8, 10000), 0);
    deliver(b, request("kvs.disconnect", 0, BROKER, 8));
    ck_assert_uint_eq(uploaded(b), 0);
    ck_assert_uint_eq(hmap_count(ns->upload->uploaders), 0);
    bed_free(b);
}
END_TEST

/* An instance says whose pieces it passes on, and when one of these is gone. */
START_TEST(uploads_passed)
{
    struct bed *b = bed_create_at(1), *m = bed_create();
    struct km_ns *ns = ((struct km *)m->ctx)->primary;
    struct kvs_ns_req q = {.flags = KVS_NS_CLIENT, .client = 3, .ns = "primary", .nslen = 7};
    uint8_t buf[100] = {0};
    flux_msg_t *msg;

    reply(b, "kvs.store", "digests", 7, 0);
    ck_assert_int_eq(piece(b, 7, 100), 0);
    ck_assert_int_eq(piece(b, 7, 100), 0);
    ck_assert_int_eq(piece(b, 8, 100), 0);
    ck_assert_uint_eq(hmap_count(((struct km *)b->ctx)->primary->upload->uploaders), 2);
    deliver(b, request("kvs.disconnect", 0, BROKER, 7));
    ck_assert_uint_eq(hmap_count(((struct km *)b->ctx)->primary->upload->uploaders), 1);
    ck_assert_uint_eq(b->stores_gone, 1);
    bed_free(b);

    /* The master: of an instance's clients one goes, then the instance. */
    for (q.client = 3; q.client < 6; q.client++) {
        msg = request("kvs.store", 0, BROKER, 20);
        kvs_ns_req_encode(&q, buf);
        buf[kvs_ns_req_size(&q)] = (uint8_t)q.client;
        flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q) + 10);
        ck_assert_int_eq(deliver(m, msg), 0);
    }
    ck_assert_uint_eq(hmap_count(ns->upload->uploaders), 3);
    uint64_t before = uploaded(m);
    /* The loss of the way to the instance is not its end. */
    msg = request("kvs.disconnect", 0, BROKER, 20);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT);
    deliver(m, msg);
    ck_assert_uint_eq(uploaded(m), before);
    msg = request("kvs.store-gone", 0, BROKER, 20);
    flux_msg_set_json(msg, "{\"namespace\":\"primary\",\"client\":3}");
    ck_assert_int_eq(deliver(m, msg), 0);
    ck_assert_uint_eq(uploaded(m), before / 3 * 2);
    deliver(m, request("kvs.disconnect", 0, BROKER, 20));
    ck_assert_uint_eq(uploaded(m), 0);
    /* A client may not speak for others. */
    msg = request("kvs.store", 0, FLUX_ROLE_OWNER, 21);
    flux_msg_set_raw(msg, buf, sizeof(buf));
    ck_assert_int_eq(deliver(m, msg), EPROTO);
    bed_free(m);
}
END_TEST

/* A piece that was lost with a broker on its way is sent again. */
START_TEST(upload_again)
{
    struct bed *b = bed_create_at(1);
    size_t answers;

    b->hold = "kvs.store";
    piece(b, 7, 100);
    answers = b->answers;
    for (int i = 0; i < 3; i++) {
        flux_msg_t *resp = flux_msg_response_create(b->held, EHOSTUNREACH);

        ck_assert(flux_msg_has_flag(b->held, FLUX_MSGF_IDEMPOTENT));
        flux_msg_set_json(resp, "rank 1 was lost");
        flux_msg_destroy(b->held);
        b->held = NULL;
        flux_handle_deliver(b->f.h, resp);
        settle(b);
        ck_assert_ptr_nonnull(b->held);
        ck_assert_uint_eq(b->answers, answers);
    }
    b->hold = NULL;
    flux_msg_t *resp = flux_msg_response_create(b->held, 0);
    flux_msg_set_raw(resp, "digests", 7);
    flux_handle_deliver(b->f.h, resp);
    settle(b);
    ck_assert_uint_eq(b->answers, answers + 1);
    ck_assert_int_eq(b->errnum, 0);
    /* It is given up some time. */
    reply(b, "kvs.store", NULL, 0, EHOSTUNREACH);
    ck_assert_int_eq(piece(b, 7, 100), EHOSTUNREACH);
    ck_assert_uint_eq(((struct km *)b->ctx)->primary->upload->bytes, 0);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("kvs_uploads", uploads_expire, upload_shares, uploads_passed, upload_again);
}
