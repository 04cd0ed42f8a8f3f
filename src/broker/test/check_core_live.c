/* check_core_live.c - ranks that join, are slow, or are being drained: what is told to rank 0, and
 * how many messages that takes. */
#include "config.h"

#include "cluster.h"
#include "libutil/test/suite.h"
#include "src/broker/verdicts.h"

/* Does the answer of rank 0 contain this? */
static void expect(struct cluster *cl, const char *topic, const char *says, bool there)
{
    struct party *p = client(cl, 0);
    const char *json;

    ask(p, topic, 0);
    cl_pump(cl);
    ck_assert_uint_eq(p->n, 1);
    json = flux_msg_json(p->kept[0]);
    ck_assert_msg((strstr(json, says) != NULL) == there, "%s is%s in: %s", says,
                  there ? " not" : "", json);
    core_endpoint_remove(p->ep, ECONNRESET, "done");
    party_free(p);
}

static void expect_status(struct cluster *cl, const char *says)
{
    expect(cl, "overlay.status", says, true);
}

static void expect_no(struct cluster *cl, const char *state)
{
    char key[32];

    snprintf(key, sizeof(key), "\"%s\":", state);
    expect(cl, "overlay.status", key, false);
}

static void slow(struct cluster *cl, uint32_t parent, uint32_t rank, bool is)
{
    core_peer_slow(cl->nodes[parent].core, CORE_TREE, rank, is);
}

static void restart(struct cluster *cl, uint32_t rank)
{
    for (uint32_t i = 0; i < cl->size; i++)
        cl->nodes[i].ring_again = false;
    cl_restart(cl, rank);
}

/* Nothing changes, so nothing is sent. */
START_TEST(healthy)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_sleep(cl, 5.);
    memset(cl->sent, 0, sizeof(cl->sent));
    cl_sleep(cl, 1000.);
    ck_assert_uint_eq(cl->sent[CORE_TREE] + cl->sent[CORE_EVENT] + cl->sent[CORE_RING], 0);
    expect(cl, "overlay.history", "\"state\":\"up\"", true);
    cl_free(cl);
}
END_TEST

START_TEST(slow_and_back)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_sleep(cl, 5.);
    memset(cl->sent, 0, sizeof(cl->sent));
    slow(cl, 1, 3, true);
    slow(cl, 1, 4, true);
    slow(cl, 0, 2, true);
    slow(cl, 3, 1, true); /* its parent: nobody to tell */
    core_peer_slow(cl->nodes[3].core, CORE_RING, 4, true);
    cl_sleep(cl, 0.1);
    expect_status(cl, "\"slow\":\"2-4\"");
    expect_status(cl, "\"up\":\"0-6\"");
    expect(cl, "overlay.history", "\"ranks\":\"3-4\",\"state\":\"slow\",\"by\":1", true);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 1);
    ck_assert_uint_eq(cl->sent[CORE_EVENT], 6);
    slow(cl, 1, 3, false);
    cl_sleep(cl, 2.5);
    expect_status(cl, "\"slow\":\"2,4\"");
    /* What is taken back within a beat is not told, and who is lost is not slow any more. */
    memset(cl->sent, 0, sizeof(cl->sent));
    slow(cl, 1, 3, true);
    slow(cl, 1, 3, false);
    cl_sleep(cl, 2.5);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 0);
    cl_kill(cl, 4);
    cl_sleep(cl, 2.5);
    ck_assert_uint_eq(cl->sent[CORE_TREE], 1);
    expect_status(cl, "\"slow\":\"2\"");
    expect(cl, "overlay.history", "\"ranks\":\"4\",\"state\":\"lost\",\"by\":1,\"why\":\"killed\"",
           true);
    cl_free(cl);
}
END_TEST

/* However often the state of a rank changes, there is a report in a beat. */
START_TEST(reduced)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_sleep(cl, 5.);
    memset(cl->sent, 0, sizeof(cl->sent));
    for (int i = 0; i < 100; i++) {
        slow(cl, 1, 3 + i % 2, i % 4 < 2);
        cl_sleep(cl, 0.1);
    }
    ck_assert_uint_le(cl->sent[CORE_TREE], 11);
    ck_assert_uint_ge(cl->sent[CORE_TREE], 5);
    cl_free(cl);
}
END_TEST

START_TEST(joining)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_kill(cl, 3);
    cl_pump(cl);
    /* One that is ready soon is not told of. */
    memset(cl->sent, 0, sizeof(cl->sent));
    restart(cl, 3);
    cl_pump(cl);
    core_local_ready(cl->nodes[3].core);
    cl_sleep(cl, 5.);
    /* hello, welcome, ready of 3 and 1; rank 2, before it on the ring, asks for its address */
    ck_assert_uint_eq(cl->sent[CORE_TREE], 4 + 6);
    cl_kill(cl, 3);
    cl_pump(cl);
    restart(cl, 3);
    cl_sleep(cl, 3.);
    expect_status(cl, "\"joining\":\"3\"");
    expect_status(cl, "\"lost\":\"3\"");
    cl_kill(cl, 3);
    cl_sleep(cl, 3.);
    expect_no(cl, "joining");
    expect(cl, "overlay.history", "lost before it was ready", true);
    restart(cl, 3);
    cl_sleep(cl, 3.);
    expect_status(cl, "\"joining\":\"3\"");
    core_local_ready(cl->nodes[3].core);
    cl_pump(cl);
    expect_no(cl, "joining");
    expect_status(cl, "\"up\":\"0-6\"");
    cl_free(cl);
}
END_TEST

/* One that has joined when the session begins without it. */
START_TEST(joining_early)
{
    struct cluster *cl = cl_create_early(3, "flat", 1., 2);

    cl_start(cl);
    core_local_ready(cl->nodes[0].core);
    core_local_ready(cl->nodes[1].core);
    cl_sleep(cl, 4.);
    expect_status(cl, "\"joining\":\"2\"");
    core_local_ready(cl->nodes[2].core);
    cl_sleep(cl, 4.);
    expect_no(cl, "joining");
    expect_status(cl, "\"up\":\"0-2\"");
    cl_free(cl);
}
END_TEST

START_TEST(draining)
{
    struct cluster *cl = cl_up(7, "kary:2");

    slow(cl, 1, 3, true);
    cl->nodes[1].down_calls = cl->nodes[3].down_calls = 10; /* their modules do not end yet */
    core_leave(cl->nodes[1].core, 0, "test");
    cl_sleep(cl, 1.5);
    expect_status(cl, "\"draining\":\"1,3-4\"");
    expect(cl, "overlay.history", "about to leave", true);
    core_local_down_done(cl->nodes[3].core);
    cl_pump(cl);
    core_local_down_done(cl->nodes[1].core);
    cl_sleep(cl, 30.);
    expect_no(cl, "draining");
    expect_status(cl, "\"left\":\"1,3-4\"");
    cl_free(cl);
}
END_TEST

/* A rank that was slow is not when the broker that has told so is gone: its parent (_i: 0), or the
 * one above, which has not been told yet that it was heard again (1). */
START_TEST(slow_and_moved)
{
    struct cluster *cl;

    cl_heal_timeout = 5.;
    cl = cl_up(6, "chain");
    cl_heal_timeout = 0.;
    cl_sleep(cl, 5.);
    slow(cl, 3, 4, true);
    cl_sleep(cl, 5.);
    expect_status(cl, "\"slow\":\"4\"");
    if (_i == 0) {
        cl_kill(cl, 3);
    } else {
        slow(cl, 3, 4, false);
        cl_kill(cl, 2);
    }
    cl_sleep(cl, 20.);
    expect_no(cl, "slow");
    expect_status(cl, _i ? "\"up\":\"0-1,3-5\"" : "\"up\":\"0-2,4-5\"");
    cl_free(cl);
}
END_TEST

START_TEST(patient)
{
    struct cluster *cl = cl_create(7, "kary:2");

    cl_start(cl);
    ck_assert(core_peer_patient(cl->nodes[1].core, CORE_TREE, 3)); /* it is not ready */
    for (uint32_t i = 0; i < 7; i++)
        core_local_ready(cl->nodes[i].core);
    cl_pump(cl);
    ck_assert(!core_peer_patient(cl->nodes[1].core, CORE_TREE, 3));
    ck_assert(!core_peer_patient(cl->nodes[3].core, CORE_TREE, 1));
    ck_assert(core_peer_patient(cl->nodes[1].core, CORE_TREE, 0));
    ck_assert(!core_peer_patient(cl->nodes[4].core, CORE_RING, 3));
    cl_kill(cl, 3);
    cl_pump(cl);
    restart(cl, 3);
    cl_pump(cl);
    ck_assert(core_peer_patient(cl->nodes[1].core, CORE_TREE, 3));
    ck_assert(core_peer_patient(cl->nodes[4].core, CORE_RING, 3));
    core_local_ready(cl->nodes[3].core);
    cl_pump(cl);
    ck_assert(!core_peer_patient(cl->nodes[1].core, CORE_TREE, 3));
    ck_assert(!core_peer_patient(cl->nodes[4].core, CORE_RING, 3));
    core_draining(cl->nodes[3].core); /* for as long as its jobs run */
    cl_sleep(cl, 0.1);
    ck_assert(!core_peer_patient(cl->nodes[1].core, CORE_TREE, 3));
    cl->nodes[3].down_calls = 10;
    core_leave(cl->nodes[3].core, 0, "test");
    cl_pump(cl);
    ck_assert(core_peer_patient(cl->nodes[1].core, CORE_TREE, 3));
    cl_free(cl);
}
END_TEST

/* A child can only tell of ranks below it, and of states that are reported this way. */
START_TEST(liars)
{
    static const char *const bad[] = {
        "{\"changes\":[{\"ranks\":\"5\",\"state\":\"slow\",\"by\":1}]}",
        "{\"changes\":[{\"ranks\":\"3\",\"state\":\"left\",\"by\":1}]}",
        "{\"changes\":[{\"ranks\":\"3\",\"state\":\"tired\",\"by\":1}]}",
        "{\"changes\":[{\"ranks\":\"3\",\"state\":\"slow\"}]}",
        "{\"changes\":{}}",
    };
    struct cluster *cl = cl_up(7, "kary:2");

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, "overlay.state");

        flux_msg_set_term(msg, FLUX_TERM_FIRST);
        ck_assert_int_eq(flux_msg_set_json(msg, bad[i]), 0);
        cl->nodes[0].log[0] = '\0';
        core_link_input(cl->nodes[0].core, CORE_TREE, 1, msg);
        cl_sleep(cl, 2.);
        ck_assert_str_ne(cl->nodes[0].log, "");
        expect_no(cl, "slow");
    }
    cl_free(cl);
}
END_TEST

START_TEST(record)
{
    verdicts_t *v = verdicts_create();
    char *ranks = big(1000);
    json_t *list;
    size_t n;

    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(verdicts_add(v, i, ranks, RANK_SLOW, 7, i % 2 ? "why" : NULL), 0);
    list = verdicts_list(v);
    n = json_array_size(list);
    ck_assert(n > 100 && n < 1000);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, n - 1), "number")),
                     1000);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 0), "number")),
                     (json_int_t)(1001 - n));
    json_decref(list);
    free(ranks);
    ranks = big(1000000); /* alone it is kept */
    ck_assert_int_eq(verdicts_add(v, 0., ranks, RANK_LOST, 0, NULL), 0);
    list = verdicts_list(v);
    ck_assert_uint_eq(json_array_size(list), 1);
    json_decref(list);
    free(ranks);
    verdicts_destroy(v);
    verdicts_destroy(NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {healthy,  slow_and_back, reduced, joining, joining_early,
                                  draining, patient,       liars,   record};
    TCase *tc = tcase_create("core_live");

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, slow_and_moved, 0, 2);
    return run_case("core_live", tc);
}
