/* check_core_counted.c - ranks that the session counts as lost, or that have moved, while another
 * broker waits for them. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* Rank 2 waits for rank 4, which has lost rank 3; meanwhile rank 1 reports the loss of rank 4.
 * Rank 2 does not report it again, and does not wait for an event on it when rank 3 comes back. */
START_TEST(announced)
{
    struct cluster *cl = cl_up(5, "chain");

    cl->nodes[4].dead = true; /* it does not connect again */
    cl_kill(cl, 3);
    cl_pump(cl);
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2,4");
    control(cl, 0, 1, "overlay.lost",
            "{\"ranks\":\"4\",\"left\":false,\"by\":1,\"why\":\"the test says so\"}");
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3-4");
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2");
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_ptr_null(strstr(cl->nodes[2].log, "have lost the broker above them"));
    start_again(cl, 3);
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    start_again(cl, 4);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* A request waits at rank 2 for rank 4, which has lost rank 3, and connects to rank 1.  What is
 * asked later takes the new way at once, so the request would be overtaken if it went back: it
 * fails, unless the order does not matter to its sender. */
START_TEST(overtaken)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c = client(cl, 0);

    cl->nodes[4].dead = true; /* the test speaks for it */
    cl_kill(cl, 3);
    cl_pump(cl);
    ask_flags(c, "some.thing", 4, _i ? FLUX_MSGF_IDEMPOTENT : 0, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 0);
    connect_as(cl, 4, 1, "4");
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(parent_of(cl, 2, 4), 1);
    if (_i) {
        ck_assert_uint_eq(c->n, 0); /* it waits at rank 1, which cannot reach rank 4 either */
    } else {
        expect_answer(c, 1, EHOSTUNREACH, "it has left rank 2 while the request waited there");
        ck_assert_uint_eq(cl_inflight(cl), 0);
    }
    cl_free(cl);
}
END_TEST

/* Rank 2 learns from an event that the session counts it as lost, while it looks for another
 * parent, or below one that lives.  It ends, as one that is to be started again, and rank 3 goes on
 * without it. */
START_TEST(counted_lost)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *sub = subscriber(cl, 3);
    flux_msg_t *ev = flux_msg_create(FLUX_MSG_EVENT, "overlay.down");

    if (!_i) {
        cl->nodes[0].full = true;
        cl_kill(cl, 1);
    }
    ck_assert_int_eq(flux_msg_set_json(ev, "{\"ranks\":\"2\",\"state\":\"lost\",\"map\":9}"), 0);
    flux_msg_set_term(ev, FLUX_TERM_FIRST);
    flux_msg_set_seq(ev, core_event_seq(cl->nodes[2].core) + 1);
    core_link_input(cl->nodes[2].core, CORE_EVENT, 1, ev);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_DOWN);
    cl->nodes[0].full = false;
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(cl->nodes[2].core), 1);
    ck_assert(core_parent_gone(cl->nodes[2].core));
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    ck_assert_uint_eq(cl->nodes[3].parent, _i ? 1 : 0);
    if (!_i) { /* the others know nothing of the event in the other case */
        publish(cl);
        cl_pump(cl);
        ck_assert_uint_eq(sub->n, 1);
    }
    cl_free(cl);
}
END_TEST

/* Rank 4 returns from rank 2 to rank 3, and rank 2 dies with its report of that.  Rank 1, which
 * takes over rank 3, sends what it has held for rank 4 there. */
START_TEST(moved_unheard)
{
    struct cluster *cl;
    struct party *m, *c;

    cl_settle = 1.;
    cl = cl_up(6, "chain");
    m = module(cl, 4, "low");
    c = client(cl, 0);
    cl_kill(cl, 3);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    start_again(cl, 3);
    cl->slow[2][1] = true;
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[4].parent, 3);
    ck_assert_uint_eq(parent_of(cl, 1, 4), 2);
    cl_kill(cl, 2);
    ask(c, "low.it", 4);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_served(cl, m, c);
    expect_parents(cl, 4, 3);
    cl_free(cl);
}
END_TEST

/* Rank 1 leaves, rank 3 has hung up there, and rank 4 has not: requests for rank 3 that rank 0
 * still sends to rank 1 are not answered before rank 1 has left. */
START_TEST(leaves_slowly)
{
    struct cluster *cl = cl_up(5, "kary:2");
    struct party *m = module(cl, 3, "low");
    struct party *c = client(cl, 0);

    cl->slow[1][4] = true;
    core_leave(cl->nodes[1].core, 0, "enough");
    cl_sleep(cl, 0.2);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_DOWN);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    ask(c, "low.once", 3);
    ask_flags(c, "low.it", 3, FLUX_MSGF_IDEMPOTENT, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 0);
    ck_assert_uint_eq(m->n, 0);
    cl->slow[1][4] = false;
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    expect_answer(c, 1, EHOSTUNREACH, "rank 1 has left the session");
    ck_assert_str_eq(flux_msg_topic(c->kept[0]), "low.once");
    ck_assert_uint_eq(m->n, 1);
    answer_low_it(cl, m, c);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Rank 3 has heard nothing for a while: that rank 4 has moved to rank 1, and has lost rank 5.  It
 * names both when it connects again, and rank 5 is lost all the same. */
START_TEST(outdated)
{
    struct cluster *cl = cl_up(6, "chain");
    struct node *above = &cl->nodes[1];

    cl->nodes[3].dead = true; /* the test speaks for it */
    cl_kill(cl, 2);
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 3, "it is silent");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[4].parent, 1);
    cl_kill(cl, 5);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2,5");
    connect_as(cl, 3, 1, "3-5");
    cl_pump(cl);
    ck_assert_ptr_nonnull(strstr(above->log, "rank 3 has lost its parent, and is below"));
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2,5");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-4");
    start_again(cl, 5);
    ck_assert_int_eq(core_state(cl->nodes[5].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

/* Rank 3 has lost its connection to rank 2, and has not heard that rank 4 has moved there.  It
 * names rank 4 when it connects to rank 1: what that has asked by rank 2 is answered. */
START_TEST(named_late)
{
    struct cluster *cl = cl_up(5, "chain");
    struct node *above = &cl->nodes[1];
    struct party *m = module(cl, 0, "top");
    struct party *c = client(cl, 4);

    cl->nodes[3].dead = true; /* the test speaks for it */
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 3, "it is silent");
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    ask(c, "top.it", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    connect_as(cl, 3, 1, "3-4");
    cl_sleep(cl, 2.);
    ck_assert_ptr_nonnull(strstr(above->log, "rank 3 has lost its parent, and is below"));
    expect_served(cl, m, c); /* and no notice that the sender is gone */
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Rank 4 connects to rank 2, and has not heard that ranks 5 and 6 have moved to rank 3, and with
 * that to rank 1, which dies then: rank 0 finds them below rank 3. */
START_TEST(named_in_vain)
{
    struct cluster *cl = cl_up(7, "chain");
    struct party *m = module(cl, 6, "low");
    struct party *c = client(cl, 0);

    cl->nodes[4].dead = true; /* the test speaks for it */
    core_peer_lost(cl->nodes[5].core, CORE_TREE, 4, "it is silent");
    cl_sleep(cl, 2.);
    cl->slow[2][1] = true; /* so rank 1 hears of the loss after the move */
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 2, "it is silent");
    cl_sleep(cl, 2.);
    cl->slow[2][1] = false;
    cl_pump(cl);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    ck_assert_uint_eq(cl->nodes[5].parent, 3);
    connect_as(cl, 4, 2, "4-6");
    cl_sleep(cl, 2.);
    ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "rank 4 has lost its parent, and is below"));
    cl_kill(cl, 1);
    cl_sleep(cl, 2.);
    expect_parents(cl, 2, 0);
    expect_parents(cl, 3, 0);
    expect_parents(cl, 5, 3);
    expect_parents(cl, 6, 5);
    ask(c, "low.it", 6);
    cl_pump(cl);
    expect_served(cl, m, c);
    cl_free(cl);
}
END_TEST

/* Rank 3 is lost by the reports of rank 1, and then has another parent.  Its requests are refused
 * until it has left. */
START_TEST(has_to_leave)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *m = module(cl, 0, "top");
    struct party *c = client(cl, 3);

    cl->nodes[3].deaf_to_events = true;
    control(cl, 0, 1, "overlay.lost", "{\"ranks\":\"3\"}");
    control(cl, 0, 1, "overlay.moved", "{\"rank\":3,\"parent\":1,\"move\":65537,\"below\":\"3\"}");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "and has to leave"));
    ask(c, "top.it", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 0);
    expect_answer(c, 1, EHOSTUNREACH, "the session counts rank 3 as lost");
    cl_free(cl);
}
END_TEST

/* Rank 2 reports the loss of ranks 3 and 4, which live below rank 1: no event announces it.  Rank 3
 * is lost there, and comes back below rank 2, which does not wait for an event on rank 4. */
START_TEST(reported_in_vain)
{
    struct cluster *cl = cl_up(5, "chain");

    cl->slow[2][1] = true;
    core_peer_lost(cl->nodes[2].core, CORE_TREE, 3, "it is silent");
    cl_sleep(cl, TIMEOUT + 1.);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 2, "it is silent");
    cl_sleep(cl, 2.);
    cl->slow[2][1] = false;
    cl_pump(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    cl_kill(cl, 3);
    cl_sleep(cl, 2.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    start_again(cl, 3);
    cl_sleep(cl, 2.);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    cl_free(cl);
}
END_TEST

/* Rank 1 loses its connection to rank 0, and lives for a while.  Then those below it go on below
 * rank 0, and miss no event. */
START_TEST(cut_above)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *sub = subscriber(cl, 3);

    disconnect(cl, 0, 1);
    cl_sleep(cl, 1.);
    publish(cl);
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[2].parent, 0);
    publish(cl);
    cl_pump(cl);
    ck_assert_uint_eq(sub->n, 2);
    for (size_t i = 0; i < sub->n; i++)
        ck_assert_str_eq(flux_msg_topic(sub->kept[i]), "some.thing");
    ck_assert_uint_eq(core_event_seq(cl->nodes[3].core), core_event_seq(cl->nodes[0].core));
    cl_free(cl);
}
END_TEST

/* Rank 3 moves from rank 2 to rank 1, and rank 2 hears of it only after it has counted all that was
 * below it as lost.  Nobody else does, so it does not, either. */
START_TEST(moved_unseen)
{
    struct cluster *cl = cl_up(6, "chain");

    cl->nodes[2].deaf_to_events = true;
    bad_link(cl, 3, 2);
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_ranks(core_ranks_lost(cl->nodes[2].core), "3-5");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-5");
    cl->nodes[2].deaf_to_events = false;
    publish(cl);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[2].core), "");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 dies below rank 1, to which it has moved, and is put back into its place below rank 3.  A
 * request from rank 2 to rank 5, which was below it, waits where that is pending. */
START_TEST(below_put_back)
{
    struct cluster *cl = cl_up(6, "chain");
    struct party *c = client(cl, 2);

    move_away(cl, 4, 3, 2);
    move_away(cl, 4, 2, 1);
    cl->nodes[5].dead = true; /* it does not connect again */
    cl_kill(cl, 4);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[2].core), "4");
    ask(c, "top.it", 5);
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 0);
    cl_sleep(cl, TIMEOUT + 1.);
    expect_answer(c, 1, EHOSTUNREACH, "");
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_counted");

    tcase_add_checked_fixture(tc, healing, NULL);
    tcase_add_test(tc, announced);
    tcase_add_loop_test(tc, overtaken, 0, 2);
    tcase_add_loop_test(tc, counted_lost, 0, 2);
    tcase_add_test(tc, moved_unheard);
    tcase_add_test(tc, leaves_slowly);
    tcase_add_test(tc, outdated);
    tcase_add_test(tc, named_late);
    tcase_add_test(tc, named_in_vain);
    tcase_add_test(tc, has_to_leave);
    tcase_add_test(tc, reported_in_vain);
    tcase_add_test(tc, cut_above);
    tcase_add_test(tc, moved_unseen);
    tcase_add_test(tc, below_put_back);
    return run_case("core_counted", tc);
}
