/* check_core_stale.c - what is reported of brokers that the session has counted as lost. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* Rank 3 was below rank 1, and rank 4 below rank 3.  Ranks 2 and 4 lose their parents, and rank 2
 * takes over rank 4 while it looks for a parent itself; rank 3 reports the loss of rank 4, which
 * does not hear of it yet. */
static struct cluster *lost_below_an_orphan(void)
{
    struct cluster *cl = cl_up(5, "chain");

    move_away(cl, 3, 2, 1);
    cl->slow[2][0] = true;
    cl->nodes[4].deaf_to_events = true;
    bad_link(cl, 2, 1);
    cl_pump(cl);
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 3, "it is silent");
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[2].parent, 0);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "4");
    return cl;
}

/* Rank 2 names rank 4 in its hello (1), or has said hello before, and reports that rank 4 has moved
 * (0).  That does not bring rank 4 back; it leaves, and the next broker of its rank comes back. */
START_TEST(taken_over)
{
    struct cluster *cl = lost_below_an_orphan();

    if (_i)
        cl_sleep(cl, 2.5); /* it tries again */
    cl->slow[2][0] = false;
    cl_sleep(cl, 1.5);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 2 has lost its parent, and is below"));
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "rank 4 came back"));
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "4");
    cl->nodes[4].deaf_to_events = false;
    publish(cl); /* it notices that it has missed events */
    cl_sleep(cl, 0.5);
    ck_assert_int_eq(core_state(cl->nodes[4].core), CORE_EXIT);
    cl_kill(cl, 4);
    cl_pump(cl);
    start_again(cl, 4);
    cl_sleep(cl, 1.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* What rank 4 asks for, before it hears that it is lost, gets nowhere. */
START_TEST(asks)
{
    struct cluster *cl = lost_below_an_orphan();
    struct party *m = module(cl, 0, "top");
    struct party *c = client(cl, 4), *other = client(cl, 2);

    if (_i)
        cl_sleep(cl, 2.5);
    cl->slow[2][0] = false;
    cl_sleep(cl, 1.5);
    ck_assert_int_eq(core_state(cl->nodes[4].core), CORE_RUN);
    ask(c, "top.it", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 0);
    expect_answer(c, 1, EHOSTUNREACH, "the session counts rank 4 as lost");
    ask(other, "top.it", 0);
    cl_pump(cl);
    expect_served(cl, m, other);
    cl_free(cl);
}
END_TEST

/* Rank 3 does not hear that it was announced as lost: what it asks for gets nowhere, though nobody
 * has denied it.  The next broker of its rank is answered. */
START_TEST(announced)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *c = client(cl, 3), *m = module(cl, 0, "top");

    ask(c, "top.it", 0);
    cl_pump(cl);
    expect_served(cl, m, c);
    party_clear(m);
    cl->nodes[3].deaf_to_events = true;
    control(cl, 1, 2, "overlay.lost", "{\"ranks\":\"3\",\"left\":false,\"by\":2}");
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    ask(c, "top.it", 0);
    cl_pump(cl);
    expect_answer(c, 2, EHOSTUNREACH, "the session counts rank 3 as lost");
    ask_flags(c, "top.it", 0, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    expect_answer(c, 3, EHOSTUNREACH, "the session counts rank 3 as lost");
    ck_assert_uint_eq(m->n, 0);
    cl->nodes[3].deaf_to_events = false;
    publish(cl);
    cl_sleep(cl, 0.5);
    cl_kill(cl, 3);
    cl_pump(cl);
    start_again(cl, 3);
    cl_sleep(cl, 1.);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 3 hears nothing for a while: rank 4 has moved to rank 2, and has died there.  Rank 3 names
 * it as up, and then hears of it.  What the next broker of rank 4 asks for is answered, also before
 * it is ready. */
START_TEST(named_dead)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *m = module(cl, 0, "top");
    struct party *c;

    cl->nodes[3].deaf_to_events = true;
    cl->slow[4][3] = true; /* nor does it notice that rank 4 has gone */
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 3, "it is silent");
    cl_sleep(cl, 1.5);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    cl_kill(cl, 4);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "4");
    bad_link(cl, 3, 2);
    cl_pump(cl);
    cl->nodes[3].deaf_to_events = false;
    cl_sleep(cl, 1.5);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "4");
    cl->slow[4][3] = false;
    cl_pump(cl);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 4, "it has hung up");
    cl_restart(cl, 4);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[4].core), CORE_WIRED);
    c = client(cl, 4);
    ask(c, "top.it", 0);
    cl_pump(cl);
    expect_served(cl, m, c);
    core_local_ready(cl->nodes[4].core);
    cl_pump(cl);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    cl_free(cl);
}
END_TEST

/* A rank that has joined below an orphan, which reports that to its next parent, comes back. */
START_TEST(joined)
{
    struct cluster *cl = cl_up(4, "chain");

    cl_kill(cl, 3);
    cl_pump(cl);
    cl_restart(cl, 3);
    cl_pump(cl);
    cl->slow[2][1] = true;
    core_local_ready(cl->nodes[3].core);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    cl_kill(cl, 1); /* with the report that it is ready */
    cl->slow[2][1] = false;
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[2].parent, 0);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 3 came back: incarnation 2"));
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_running(cl);
    cl_free(cl);
}
END_TEST

/* Rank 2 has passed on the loss of rank 5, which has come back below rank 3 when that was
 * elsewhere.  Then rank 4, and rank 5 with it, connects to rank 2. */
START_TEST(elsewhere)
{
    struct cluster *cl = cl_up(6, "chain");

    cl_kill(cl, 5);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[2].core), "5");
    move_away(cl, 3, 2, 1);
    start_again(cl, 5);
    expect_running(cl);
    expect_ranks(core_ranks_lost(cl->nodes[2].core), "");
    move_away(cl, 4, 3, 2);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-5");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 is lost before rank 0 hears that it is below rank 2, and no event takes that back.  All
 * of 2 to 4 are started again: rank 3 joins below rank 1, and rank 4 below rank 3.  Then rank 2 is
 * lost, before an event says that rank 4 is up: rank 1 does not look for rank 4 below it. */
START_TEST(earlier_place)
{
    struct cluster *cl = cl_up(5, "chain");

    cl->slow[1][0] = true;
    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    control(cl, 0, 1, "overlay.lost", "{\"ranks\":\"3-4\",\"by\":1}");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[4].core), CORE_EXIT);
    cl->slow[1][0] = false;
    cl_kill(cl, 4);
    cl_kill(cl, 2);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2-4");
    cl_restart_as(cl, 3, false);
    cl_sleep(cl, 3.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    core_local_ready(cl->nodes[3].core);
    cl_pump(cl);
    start_again(cl, 2);
    cl->slow[1][0] = true;
    start_again(cl, 4);
    cl_kill(cl, 2);
    cl_pump(cl);
    cl->slow[1][0] = false;
    cl_sleep(cl, TIMEOUT + 2.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 1 has passed on the loss of rank 3, and has heard no event about it: a broker above may have
 * ignored that, since it looked for rank 3 elsewhere.  So rank 1 passes on what rank 2 repeats,
 * until it hears the event. */
START_TEST(repeated)
{
    const char *again = "{\"ranks\":\"3\",\"by\":2}";
    struct cluster *cl = cl_up(4, "chain");
    unsigned sent;

    cl->nodes[1].deaf_to_events = true;
    cl_kill(cl, 3);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    sent = cl->sent[CORE_TREE];
    control(cl, 1, 2, "overlay.lost", again);
    cl_pump(cl);
    ck_assert_uint_eq(cl->sent[CORE_TREE], sent + 1);
    cl->nodes[1].deaf_to_events = false;
    publish(cl); /* it notices that it has missed events */
    cl_sleep(cl, 0.5);
    sent = cl->sent[CORE_TREE];
    control(cl, 1, 2, "overlay.lost", again);
    cl_pump(cl);
    ck_assert_uint_eq(cl->sent[CORE_TREE], sent);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    expect_running(cl);
    cl_free(cl);
}
END_TEST

/* The session counts rank 3 as lost, by the report of another broker, while it is below rank 2.
 * That has heard the event when rank 3 leaves, so it does not wait for one, and the next broker of
 * that rank joins there.  If that dies before it is up everywhere (1), rank 2 waits for what is
 * said of it. */
START_TEST(left_after)
{
    struct cluster *cl = cl_up(4, "chain");

    control(cl, 0, 1, "overlay.lost", "{\"ranks\":\"3\",\"by\":1}");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_EXIT);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    cl_kill(cl, 3);
    cl_pump(cl);
    if (_i) {
        cl_restart(cl, 3);
        cl_pump(cl);
        ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_WIRED);
        cl->slow[2][1] = true; /* with what it reports of rank 3 */
        core_local_ready(cl->nodes[3].core);
        cl_pump(cl);
        cl_kill(cl, 3);
        cl_pump(cl);
        cl_restart(cl, 3);
        cl_pump(cl);
        ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_JOIN);
        cl->slow[2][1] = false;
        cl_pump(cl);
        core_local_ready(cl->nodes[3].core);
        cl_pump(cl);
    } else {
        start_again(cl, 3);
    }
    cl_sleep(cl, 1.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-3");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_stale");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    tcase_add_loop_test(tc, taken_over, 0, 2);
    tcase_add_loop_test(tc, asks, 0, 2);
    tcase_add_test(tc, announced);
    tcase_add_test(tc, named_dead);
    tcase_add_test(tc, joined);
    tcase_add_test(tc, elsewhere);
    tcase_add_test(tc, earlier_place);
    tcase_add_test(tc, repeated);
    tcase_add_loop_test(tc, left_after, 0, 2);
    return run_case("core_stale", tc);
}
