/* check_kvs_once.c - commits that arrive more than once: the table of the master, the master, and
 * an instance that sends them again. */
#include "config.h"

#include "bed.h"
#include "modules/kvs/km_once.h"

/* --- the table --- */

static struct kvs_ns_req commit_of(uint64_t sender, uint64_t number, uint64_t after,
                                   uint64_t answered)
{
    return (struct kvs_ns_req){.flags = KVS_NS_NUMBERED,
                               .sender = sender,
                               .number = number,
                               .after = after,
                               .answered = answered};
}

static enum km_once_state look(struct km_once *t, uint64_t sender, uint64_t number, uint64_t after,
                               uint64_t answered, struct km_once_found *found)
{
    struct kvs_ns_req q = commit_of(sender, number, after, answered);

    return km_once_look(t, &q, found);
}

static void begin(struct km_once *t, uint64_t sender, uint64_t number, void *pending)
{
    struct kvs_ns_req q = commit_of(sender, number, 0, 0);

    ck_assert_int_eq(km_once_begin(t, &q, pending), 0);
}

static void end(struct km_once *t, uint64_t sender, uint64_t number, int errnum)
{
    struct km_outcome *o = km_once_outcome(errnum, "why");

    km_once_end(t, sender, number, o);
    km_once_unref(o);
}

START_TEST(states)
{
    struct km_once *t = km_once_create(4);
    struct km_once_found found;
    int a, b;

    ck_assert_int_eq(look(t, 9, 2, 1, 0, &found), KM_ONCE_MISSING);
    ck_assert_int_eq(look(t, 9, 1, 0, 0, &found), KM_ONCE_NEW);
    begin(t, 9, 1, &a);
    ck_assert_int_eq(look(t, 9, 1, 0, 0, &found), KM_ONCE_PENDING);
    ck_assert_ptr_eq(found.pending, &a);
    ck_assert_int_eq(look(t, 9, 3, 2, 0, &found), KM_ONCE_MISSING);
    ck_assert_int_eq(look(t, 9, 3, 1, 0, &found), KM_ONCE_NEW); /* 2 was refused on its way */
    begin(t, 9, 3, &b);
    end(t, 9, 1, 0);
    ck_assert_int_eq(look(t, 9, 1, 0, 0, &found), KM_ONCE_OVER);
    ck_assert_int_eq(found.outcome->errnum, 0);
    end(t, 9, 3, EINVAL);
    ck_assert_int_eq(look(t, 9, 3, 1, 0, &found), KM_ONCE_OVER);
    ck_assert_int_eq(found.outcome->errnum, EINVAL);
    ck_assert_str_eq(found.outcome->text, "why");
    ck_assert_int_eq(look(t, 9, 2, 1, 0, &found), KM_ONCE_PAST);
    ck_assert_uint_eq(km_once_count(t), 2);
    /* The sender has the answer to 1, then to all. */
    ck_assert_int_eq(look(t, 9, 4, 3, 1, &found), KM_ONCE_NEW);
    ck_assert_uint_eq(km_once_count(t), 1);
    ck_assert_int_eq(look(t, 9, 1, 0, 0, &found), KM_ONCE_PAST);
    ck_assert_int_eq(look(t, 9, 4, 0, 3, &found), KM_ONCE_NEW);
    ck_assert_uint_eq(km_once_count(t), 0);
    ck_assert_int_eq(look(t, 9, 3, 0, 0, &found), KM_ONCE_PAST);
    km_once_end(t, 9, 3, NULL); /* not known any more */
    km_once_end(t, 8, 1, NULL);
    /* Without memory for an outcome there is none. */
    begin(t, 9, 4, &a);
    km_once_end(t, 9, 4, NULL);
    ck_assert_int_eq(look(t, 9, 4, 0, 3, &found), KM_ONCE_PAST);
    km_once_destroy(t);
    km_once_destroy(NULL);
}
END_TEST

/* Many commits at a time, with holes, which get their answers piece by piece. */
START_TEST(many)
{
    struct km_once *t = km_once_create(4);
    struct km_once_found found;
    static int pending[3000];

    for (uint64_t n = 1; n < 3000; n++) {
        if (n % 7 != 0)
            begin(t, 1, n, &pending[n]);
        if (n % 100 == 0)
            ck_assert_int_eq(look(t, 1, n + 1, 0, n - 90, &found), KM_ONCE_NEW);
    }
    for (uint64_t n = 2811; n < 3000; n++) {
        int rc = look(t, 1, n, 0, 2810, &found);
        ck_assert_int_eq(rc, n % 7 ? KM_ONCE_PENDING : KM_ONCE_PAST);
        if (n % 7)
            ck_assert_ptr_eq(found.pending, &pending[n]);
    }
    ck_assert_uint_eq(km_once_count(t), 162);
    ck_assert_int_eq(look(t, 1, 3001, 0, 3000, &found), KM_ONCE_NEW);
    ck_assert_uint_eq(km_once_count(t), 0);
    km_once_destroy(t);
}
END_TEST

/* The sender that was silent for longest makes room; what it sends again may have been applied. */
START_TEST(senders)
{
    struct km_once *t = km_once_create(3);
    struct km_once_found found;
    struct kvs_ns_req q = commit_of(1, 5, 0, 4);
    int x;

    for (uint64_t s = 1; s <= 3; s++)
        begin(t, s, 1, &x);
    ck_assert_int_eq(look(t, 1, 1, 0, 0, &found), KM_ONCE_PENDING);
    begin(t, 4, 1, &x); /* instead of 2 */
    ck_assert_int_eq(look(t, 1, 1, 0, 0, &found), KM_ONCE_PENDING);
    ck_assert_int_eq(look(t, 3, 1, 0, 0, &found), KM_ONCE_PENDING);
    ck_assert_int_eq(look(t, 2, 1, 0, 0, &found), KM_ONCE_NEW);
    ck_assert_uint_eq(km_once_count(t), 3);
    q.sender = 2;
    ck_assert_int_eq(km_once_look(t, &q, &found), KM_ONCE_NEW);
    q.flags |= KVS_NS_AGAIN;
    ck_assert_int_eq(km_once_look(t, &q, &found), KM_ONCE_UNKNOWN);
    km_once_destroy(t);
}
END_TEST

/* --- the master --- */

static flux_msg_t *numbered(uint32_t roles, struct kvs_ns_req q)
{
    struct kvs_txn_buf txn = {0};
    flux_msg_t *msg = request("kvs.commit", 0, roles, 7);
    uint8_t buf[256];

    ck_assert_int_eq(kvs_txn_buf_add(&txn, KVS_OP_APPEND, 0, "k", 1, "x", 1, NULL), 0);
    q.ns = "primary";
    q.nslen = 7;
    q.body = txn.data;
    q.len = txn.len;
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    kvs_txn_buf_clear(&txn);
    return msg;
}

static uint64_t version_said(const struct bed *b)
{
    struct kvs_root root;
    size_t len;
    const void *data = flux_msg_payload(b->last, &len);

    ck_assert_int_eq(kvs_root_decode(data, len, &root, NULL), 0);
    return root.version;
}

START_TEST(applied_once)
{
    struct bed *b = bed_create();
    struct km_ns *ns = ((struct km *)b->ctx)->primary;
    struct kvs_ns_req q = commit_of(77, 1, 0, 0);
    size_t before;

    /* Two copies come at once: both get the outcome. */
    b->errnum = -1;
    before = b->answers;
    flux_handle_deliver(b->f.h, numbered(BROKER, q));
    ck_assert_int_eq(deliver(b, numbered(BROKER, q)), 0);
    ck_assert_uint_eq(b->answers - before, 2);
    ck_assert_uint_eq(ns->version, 1);
    /* Another commit; then a copy of the first one gets the version of the first one. */
    ck_assert_int_eq(put(b, "primary", 0, OWNER), 0);
    ck_assert_int_eq(deliver(b, numbered(BROKER, q)), 0);
    ck_assert_uint_eq(version_said(b), 1);
    ck_assert_uint_eq(ns->version, 2);
    ck_assert_uint_eq(ns->st.commits_again, 2);
    /* One that follows a lost one waits for it. */
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 3, 2, 1))), ESTALE);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 2, 0, 1))), 0);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 3, 2, 1))), 0);
    ck_assert_uint_eq(ns->version, 4);
    /* It was answered: this copy has come too late. */
    ck_assert_int_eq(deliver(b, numbered(BROKER, q)), EHOSTUNREACH);
    ck_assert_uint_eq(ns->version, 4);
    bed_free(b);
}
END_TEST

/* An error is an outcome, too. */
START_TEST(refused_once)
{
    struct bed *b = bed_create();
    struct kvs_ns_req q = commit_of(77, 1, 0, 0);
    flux_msg_t *msg = request("kvs.commit", 0, BROKER, 7);
    uint8_t buf[64];

    q.ns = "primary";
    q.nslen = 7;
    q.body = (const uint8_t *)"junk";
    q.len = 4;
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    ck_assert_int_eq(deliver(b, msg), EPROTO);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 1, 0, 0))), EPROTO);
    bed_free(b);
}
END_TEST

/* Only an instance numbers commits, and its numbers agree with each other. */
START_TEST(who_may)
{
    struct bed *b = bed_create();
    struct kvs_ns_req q = commit_of(77, 1, 0, 0);

    ck_assert_int_eq(deliver(b, numbered(OWNER, q)), EPROTO);
    q.flags = KVS_NS_AGAIN;
    ck_assert_int_eq(deliver(b, numbered(BROKER, q)), EPROTO);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(0, 1, 0, 0))), EPROTO);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(7, 0, 0, 0))), EPROTO);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(7, 4, 4, 0))), EPROTO);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(7, 4, 0, 4))), EPROTO);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(7, 4, 2, 3))), EPROTO);
    bed_free(b);
}
END_TEST

/* --- an instance on the way --- */

static struct kvs_ns_req held(const struct bed *b)
{
    struct kvs_ns_req q;
    size_t len;
    const void *data = flux_msg_payload(b->held, &len);

    ck_assert_int_eq(kvs_ns_req_decode(data, len, &q, NULL), 0);
    return q;
}

/* Answer what is held; with a root if errnum is 0. */
static void answer(struct bed *b, int errnum)
{
    flux_msg_t *msg = b->held;
    flux_msg_t *resp = flux_msg_response_create(msg, errnum);
    struct kvs_root root = {.version = 9, .ns = "primary"};
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ref, sizeof(root.ref), "sha256-%064d", 2);
    if (errnum)
        flux_msg_set_json(resp, "some reason");
    else
        flux_msg_set_raw(resp, buf, kvs_root_encode(&root, buf));
    b->held = NULL;
    flux_handle_deliver(b->f.h, resp);
    flux_msg_destroy(msg);
    settle(b);
}

START_TEST(sent_again)
{
    struct bed *b = bed_create_at(1);
    struct kvs_ns_req first, q;

    b->hold = "kvs.commit";
    ck_assert_int_eq(put(b, "primary", 0, OWNER), -1);
    first = held(b);
    ck_assert_uint_eq(first.flags, KVS_NS_NUMBERED);
    ck_assert(flux_msg_has_flag(b->held, FLUX_MSGF_UPSTREAM));
    /* A broker has died: it goes to the master, with the same number. */
    answer(b, EHOSTUNREACH);
    ck_assert_int_eq(b->errnum, -1);
    q = held(b);
    ck_assert_uint_eq(q.flags, KVS_NS_NUMBERED | KVS_NS_AGAIN);
    ck_assert_uint_eq(q.number, first.number);
    ck_assert_uint_eq(q.sender, first.sender);
    ck_assert_uint_eq(flux_msg_nodeid(b->held), 0);
    answer(b, 0);
    ck_assert_int_eq(b->errnum, 0);
    /* The next one says that the answer has come.  That an earlier one was lost does not
     * mean that a copy may have been applied. */
    ck_assert_int_eq(put(b, "primary", 0, OWNER), -1);
    q = held(b);
    ck_assert_uint_eq(q.number, first.number + 1);
    ck_assert_uint_eq(q.answered, first.number);
    ck_assert_uint_eq(q.after, 0);
    answer(b, ESTALE);
    ck_assert_uint_eq(held(b).flags, KVS_NS_NUMBERED);
    answer(b, EAGAIN);
    ck_assert_int_eq(b->errnum, EAGAIN);
    bed_free(b);
}
END_TEST

/* Commits of an instance below keep their numbers, and it sends them again itself. */
START_TEST(passed_on)
{
    struct bed *b = bed_create_at(1);
    struct kvs_ns_req q;

    b->hold = "kvs.commit";
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 5, 4, 2))), -1);
    q = held(b);
    ck_assert_uint_eq(q.sender, 77);
    ck_assert_uint_eq(q.number, 5);
    ck_assert_uint_eq(q.after, 4);
    ck_assert_uint_eq(q.answered, 2);
    answer(b, ESTALE);
    ck_assert_int_eq(b->errnum, ESTALE);
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 5, 4, 2))), -1);
    answer(b, EHOSTUNREACH);
    ck_assert_int_eq(b->errnum, EHOSTUNREACH);
    /* It is stopped: the next instance passes it on again. */
    ck_assert_int_eq(deliver(b, numbered(BROKER, commit_of(77, 6, 0, 5))), -1);
    flux_module_kvs.fini(b->f.h, b->ctx);
    b->ctx = NULL;
    ck_assert_int_eq(b->errnum, -1);
    bed_free(b);
}
END_TEST

/* The way does not come back: the client gets an error, and an honest one. */
START_TEST(given_up)
{
    struct bed *b = bed_create_at(1);
    int n = 0;

    b->hold = "kvs.commit";
    ck_assert_int_eq(put(b, "primary", 0, OWNER), -1);
    for (; b->held; n++)
        answer(b, EHOSTUNREACH);
    ck_assert_int_eq(b->errnum, EHOSTUNREACH);
    ck_assert_int_eq(n, 17);
    /* A copy may have been applied: that another one finds no room does not mean "no". */
    ck_assert_int_eq(put(b, "primary", 0, OWNER), -1);
    answer(b, EHOSTUNREACH);
    answer(b, EAGAIN);
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    bed_free(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("kvs_once");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, states);
    tcase_add_test(tc, many);
    tcase_add_test(tc, senders);
    tcase_add_test(tc, applied_once);
    tcase_add_test(tc, refused_once);
    tcase_add_test(tc, who_may);
    tcase_add_test(tc, sent_again);
    tcase_add_test(tc, passed_on);
    tcase_add_test(tc, given_up);
    return run_case("kvs_once", tc);
}
