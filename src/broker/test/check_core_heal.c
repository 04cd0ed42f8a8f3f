/* check_core_heal.c - subtrees that lose the broker above them, and live. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* Every event comes once, in order; what the buffer of the new parent has no more is reported. */
START_TEST(events)
{
    for (unsigned missed = 0; missed <= 40; missed += 8) {
        struct cluster *cl = cl_up(5, "chain");
        struct party *s[2];
        uint64_t last, seen[2] = {0, 0};

        last = core_event_seq(cl->nodes[0].core);
        s[0] = subscriber(cl, 2);
        s[1] = subscriber(cl, 4);
        publish(cl);
        cl_pump(cl);
        cl_kill(cl, 1);
        for (unsigned i = 0; i < missed; i++)
            publish(cl);
        cl_sleep(cl, 0.1);
        publish(cl);
        cl_sleep(cl, 0.1);
        ck_assert_uint_eq(core_event_seq(cl->nodes[4].core), core_event_seq(cl->nodes[0].core));
        for (unsigned k = 0; k < 2; k++) {
            struct core_stats st;
            unsigned got = 0, lost = 0;

            for (size_t i = 0; i < s[k]->n; i++) {
                const flux_msg_t *msg = s[k]->kept[i];

                ck_assert_uint_gt(flux_msg_seq(msg), seen[k]);
                seen[k] = flux_msg_seq(msg);
                ck_assert_uint_gt(seen[k], last);
                got += strcmp(flux_msg_topic(msg), "some.thing") == 0;
                lost += strcmp(flux_msg_topic(msg), "event.lost") == 0;
            }
            core_get_stats(cl->nodes[k ? 4 : 2].core, &st);
            if (st.events_lost == 0)
                ck_assert_uint_eq(got, missed + 2);
            else
                ck_assert_uint_eq(lost, 1);
            ck_assert(st.events_lost == 0 || missed > 8);
            ck_assert(st.events_lost > 0 || missed < 40);
        }
        cl_free(cl);
    }
}
END_TEST

/* The one above the parent is dead, too: the next one. */
START_TEST(several)
{
    struct cluster *cl = cl_up(6, "chain");

    cl_kill(cl, 3);
    cl_kill(cl, 2);
    cl_sleep(cl, 1.);
    expect_running(cl);
    ck_assert_int_eq(cl->nodes[4].moves, 2);
    ck_assert_int_eq(cl->nodes[5].moves, 0);
    ck_assert_uint_eq(parent_of(cl, 0, 4), 1);
    /* Rank 2 was known at once, rank 3 was waited for. */
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    cl_sleep(cl, TIMEOUT);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2-3");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,4-5");
    expect_whole(cl);
    /* And once more: rank 4, where it is now. */
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_running(cl);
    ck_assert_uint_eq(parent_of(cl, 5, 4), 0);
    cl_kill(cl, 4);
    cl_sleep(cl, 1.);
    expect_running(cl);
    ck_assert_uint_eq(parent_of(cl, 0, 5), 0);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1-4");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Those below a dead broker that do not come in time are lost. */
START_TEST(late)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c = client(cl, 6);

    cl->nodes[3].dead = true; /* nobody but rank 1 would notice */
    cl_kill(cl, 1);
    ask(c, "some.thing", 3);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(c->n, 0);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    cl_sleep(cl, TIMEOUT);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3");
    expect_answer(c, 1, EHOSTUNREACH, "rank 3 cannot be reached");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 3 has lost the broker above it"));
    expect_running(cl);
    cl_free(cl);
}
END_TEST

/* The session runs, and one below the dead broker has not heard of it yet. */
START_TEST(before_run)
{
    struct cluster *cl = cl_create(7, "kary:2");

    cl_start(cl);
    cl->nodes[3].deaf_to_events = true;
    for (uint32_t r = 0; r < 7; r++)
        core_local_ready(cl->nodes[r].core);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_RUN);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_READY);
    cl->nodes[3].deaf_to_events = false;
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_running(cl);
    ck_assert_uint_eq(parent_of(cl, 0, 3), 0);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The session waits for other ranks when a broker dies whose subtree was ready: it is not lost. */
START_TEST(before_others)
{
    struct cluster *cl = cl_create(15, "kary:2");

    cl_start(cl);
    for (uint32_t r = 0; r < 15; r++) {
        if (r != 2)
            core_local_ready(cl->nodes[r].core);
    }
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_READY);
    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_WIRED);
    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    expect_running(cl);
    ck_assert_uint_eq(parent_of(cl, 0, 7), 1);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The dead broker is started again: it is a leaf, and what was below it stays where it is. */
START_TEST(again)
{
    struct cluster *cl = cl_up(7, "kary:2");

    replace(cl, 1);
    cl_sleep(cl, 1.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-6");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
    ck_assert_uint_eq(parent_of(cl, 1, 3), 0);
    expect_routes(cl);
    /* A leaf: its death concerns nobody else. */
    cl_kill(cl, 1);
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_running(cl);
    start_again(cl, 1);
    /* One that has moved dies, and comes back below rank 1, where it belongs. */
    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    ck_assert_uint_eq(parent_of(cl, 6, 3), 1);
    ck_assert_uint_eq(parent_of(cl, 6, 4), 0);
    start_again(cl, 3);
    cl_sleep(cl, 1.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-6");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* A broker and the one above it die, and are started again at once: the brokers above know of one
 * death only.  The other one is welcomed when they know that, too. */
START_TEST(two_again)
{
    struct cluster *cl = cl_up(5, "chain");

    cl->nodes[2].dead = true;
    cl_kill(cl, 1);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 2, "killed");
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(parent_of(cl, 0, 3), 0);
    for (uint32_t r = 1; r < 3; r++) {
        start_again(cl, r);
        cl_sleep(cl, 0.1);
    }
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_RUN);
    ck_assert_int_ne(core_state(cl->nodes[2].core), CORE_RUN);
    cl_sleep(cl, TIMEOUT);
    core_local_ready(cl->nodes[2].core);
    cl_sleep(cl, 1.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The connection of rank 1 with the root breaks, not its process: it learns that it is lost, and
 * ends at once, to be started again.  Those below it go on without it. */
START_TEST(cut_from_root)
{
    struct cluster *cl = cl_up(4, "chain");
    struct node *nd = &cl->nodes[1];

    if (_i == 0) /* who notices first? */
        core_peer_lost(nd->core, CORE_TREE, 0, "broken");
    cl->nodes[0].event_link[1] = false;
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 1, "broken");
    cl_pump(cl);
    if (_i == 1)
        core_peer_lost(nd->core, CORE_TREE, 0, "broken");
    cl_sleep(cl, 0.5);
    ck_assert_ptr_nonnull(strstr(nd->log, "the session counts it as lost"));
    ck_assert_int_eq(core_state(nd->core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(nd->core), 1);
    ck_assert(!core_left_for_good(nd->core));
    nd->dead = true;
    expect_running(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    ck_assert_uint_eq(parent_of(cl, 0, 2), 0);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* A broker that leaves takes its subtree with it, but not what has moved away. */
START_TEST(leave)
{
    struct cluster *cl = cl_up(7, "kary:2");

    replace(cl, 1);
    cl_sleep(cl, 1.);
    core_leave(cl->nodes[1].core, 0, "enough");
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-6");
    core_leave(cl->nodes[3].core, 0, "enough");
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3");
    cl_free(cl);
}
END_TEST

/* Rank 3 has missed events when its parent dies, and connects to rank 1, which has been started
 * since: rank 1 asks rank 0 for them.  With a small buffer, rank 0 does not have them any
 * longer. */
START_TEST(older_events)
{
    struct cluster *cl;
    struct party *sub;
    unsigned some = 0, lost = 0;

    cl_event_buffer = _i ? 300 : 100000;
    cl_settle = 1.;
    cl = cl_up(5, "chain");
    sub = subscriber(cl, 3);
    cl->nodes[3].deaf_to_events = true;
    for (unsigned i = 0; i < 5; i++)
        publish(cl);
    replace(cl, 1);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[2].parent, 1);
    publish(cl);
    ck_assert(_i || sub->n == 0);
    cl_kill(cl, 2);
    cl->nodes[3].deaf_to_events = false;
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    publish(cl);
    cl_sleep(cl, 1.);
    for (size_t i = 0; i < sub->n; i++) {
        some += strcmp(flux_msg_topic(sub->kept[i]), "some.thing") == 0;
        lost += strcmp(flux_msg_topic(sub->kept[i]), "event.lost") == 0;
    }
    ck_assert(_i ? lost > 0 : lost == 0);
    if (_i)
        ck_assert(some > 0 && some < 7);
    else
        ck_assert_uint_eq(some, 7);
    ck_assert_uint_eq(core_event_seq(cl->nodes[4].core), core_event_seq(cl->nodes[0].core));
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* A broker leaves, and hears that its child has moved before that has hung up. */
START_TEST(leave_moved)
{
    struct cluster *cl = cl_up(4, "chain");

    cl->slow[2][1] = true;
    core_leave(cl->nodes[1].core, 0, "enough");
    cl_sleep(cl, 1.5);
    ck_assert_uint_eq(parent_of(cl, 0, 2), 0);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_DOWN);
    cl->slow[2][1] = false;
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-3");
    cl_free(cl);
}
END_TEST

/* Kills, also in the middle of a heal, and restarts, by chance: in the end all that live are one
 * session. */
START_TEST(chance)
{
    static const char *const shapes[] = {"chain", "kary:2", "kary:3"};
    uint64_t seed = 0x9e3779b97f4a7c15u * ((uint64_t)_i + 1);
    struct cluster *cl;

    cl_settle = _i % 2 ? 0.3 : 0.; /* half of them: subtrees return meanwhile */
    cl = cl_up(MAX_NODES, shapes[_i % 3]);
    for (unsigned step = 0; step < 12; step++)
        chance_step(cl, &seed, 20, 1.);
    cl_sleep(cl, 2. * TIMEOUT + 1.);
    expect_counted(cl);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* The welcome of the next ancestor takes longer than an orphan waits: it has tried another one by
 * then.  It is not lost, at once or later; if it has died instead, it is. */
START_TEST(welcome_late)
{
    struct cluster *cl = cl_up(5, "chain");

    cl_kill(cl, 2);
    cl->slow[1][3] = true;
    cl_sleep(cl, 1.9);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-4");
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "rank 3 has lost its parent, and is below"));
    if (_i == 0) {
        cl_sleep(cl, TIMEOUT + 3.);
        ck_assert_uint_eq(cl->nodes[3].parent, 0);
        ck_assert_uint_eq(parent_of(cl, 0, 3), 0);
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-4");
        ck_assert_ptr_null(strstr(cl->nodes[0].log, "ranks 3"));
        expect_running(cl);
    } else {
        cl_kill(cl, 3);
        cl_sleep(cl, 2 * TIMEOUT + 1.);
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "2-3");
    }
    cl->slow[1][3] = false;
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The next broker of a lost rank is asked for a rank that was below the earlier one, and has not
 * connected anywhere yet: it goes on to where that rank connects. */
START_TEST(asked_of_next)
{
    struct cluster *cl = cl_up(15, "kary:2");
    struct party *m = module(cl, 7, "m"), *c;

    cl->slow[7][1] = true;
    cl_kill(cl, 3);
    cl_sleep(cl, 0.1);
    start_again(cl, 3);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    c = client(cl, 3);
    ask(c, "m.x", 7);
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(m->n, 0);
    ck_assert_uint_eq(c->n, 0);
    cl->slow[7][1] = false;
    cl_sleep(cl, 3.);
    ck_assert_uint_eq(cl->nodes[7].parent, 1);
    ck_assert_uint_eq(m->n, 1);
    answer(m, 0, 0, 0, "here");
    cl_pump(cl);
    expect_answer(c, 1, 0, "here");
    cl_free(cl);
}
END_TEST

/* Rank 5 goes back to rank 4, which rank 2 is not told, and loses it; both lose rank 3.  Rank 4
 * tells rank 2 in its hello that rank 5 was below it, and names rank 6, for which it waits.  Rank 5
 * is lost by that, though it lives; rank 6, which was below it, is not. */
START_TEST(named_twice)
{
    struct cluster *cl = cl_up(7, "chain");
    struct party *c = client(cl, 3);

    replace(cl, 4);
    cl->slow[3][2] = true;
    ask_flags(c, "overlay.restore", 3, 0, "{\"ranks\":\"4\"}");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[5].parent, 4);
    core_endpoint_remove(c->ep, 0, "");
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 5, "the connection was lost");
    cl_kill(cl, 3);
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    core_peer_lost(cl->nodes[5].core, CORE_TREE, 4, "the connection was lost");
    cl_sleep(cl, 0.5);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3,5");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2,4,6");
    ck_assert_ptr_nonnull(strchr(cl->nodes[5].states, 'd'));
    cl->nodes[5].dead = true;
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Rank 6 has moved from rank 5 to rank 4, which was below rank 2 by then, and rank 3, with rank 5
 * below it, has not heard of it: it names rank 6 when all have lost rank 2.  Rank 1, which has,
 * looks for rank 6 below rank 4. */
START_TEST(named_wrongly)
{
    struct cluster *cl = cl_up(7, "chain");

    bad_link(cl, 5, 4);
    cl->slow[5][6] = true; /* rank 6 does not hear that rank 5 moves, nor rank 5 that rank 6 does */
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[5].parent, 3);
    move_away(cl, 4, 3, 2);
    cl->nodes[3].deaf_to_events = true;
    cl->slow[6][5] = true;
    move_away(cl, 6, 5, 4);
    ck_assert_uint_eq(parent_of(cl, 1, 6), 4);
    cl->slow[4][1] = true; /* so it tries rank 0 */
    cl_kill(cl, 2);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    ck_assert_uint_eq(parent_of(cl, 1, 6), 4);
    cl_sleep(cl, 3.);
    ck_assert_uint_eq(cl->nodes[4].parent, 0);
    ck_assert_uint_eq(parent_of(cl, 1, 6), 4);
    cl->nodes[3].deaf_to_events = false;
    cl->slow[4][1] = cl->slow[5][6] = cl->slow[6][5] = false;
    publish(cl);
    cl_sleep(cl, TIMEOUT + 1.); /* the hello arrives that rank 4 has given up */
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 5 has moved from rank 4, which counts it as lost, to rank 3.  Rank 2 dies with the reports
 * of both, and rank 0 hears that rank 4 has moved without rank 5. */
START_TEST(told_in_hello)
{
    struct cluster *cl = cl_up(6, "chain");

    move_away(cl, 4, 3, 2);
    cl->slow[3][2] = cl->slow[4][2] = true;
    disconnect(cl, 4, 5);
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[5].parent, 3);
    cl->slow[4][1] = true;
    cl_kill(cl, 2);
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    cl->slow[4][1] = false;
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 has moved from rank 3 to rank 2, which tells rank 0 so when its parent has died.  Rank 3
 * dies before rank 2 has the welcome. */
START_TEST(told_in_time)
{
    struct cluster *cl = cl_up(5, "chain");

    for (uint32_t parent = 2; parent > 0; parent--) {
        bad_link(cl, 3, parent);
        cl_sleep(cl, 1.);
    }
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    cl->slow[2][1] = cl->slow[3][0] = true;
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 3, "the connection was lost");
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    cl->slow[0][2] = true;
    cl_kill(cl, 1);
    cl_sleep(cl, 0.5);
    cl_kill(cl, 3);
    cl_sleep(cl, 0.5);
    cl->slow[0][2] = false;
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 3 has reported rank 4 as lost, which has moved to rank 2.  Rank 1 does not take that rank
 * back, and knows by that where rank 6 is, which rank 3 looks for below rank 5. */
START_TEST(below_a_denied_one)
{
    struct cluster *cl = cl_up(7, "chain");

    move_away(cl, 3, 2, 1);
    cl->slow[4][3] = cl->slow[5][4] = true;
    core_peer_lost(cl->nodes[6].core, CORE_TREE, 5, "the connection was lost");
    cl_sleep(cl, 1.5);
    ck_assert_uint_eq(cl->nodes[6].parent, 4);
    cl->slow[1][0] = true;
    disconnect(cl, 3, 4);
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "rank 4 is counted as lost"));
    core_peer_lost(cl->nodes[5].core, CORE_TREE, 4, "the connection was lost");
    cl_sleep(cl, 0.5);
    ck_assert_uint_eq(cl->nodes[5].parent, 3);
    cl->slow[1][0] = cl->slow[4][3] = cl->slow[5][4] = false;
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_ptr_nonnull(strchr(cl->nodes[4].states, 'd'));
    cl->nodes[4].dead = true;
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "4");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        events,        several,       late,         before_run,         before_others,
        again,         two_again,     leave,        leave_moved,        named_twice,
        named_wrongly, told_in_hello, told_in_time, below_a_denied_one, asked_of_next};
    TCase *tc = tcase_create("core_heal");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, cut_from_root, 0, 2);
    tcase_add_loop_test(tc, welcome_late, 0, 2);
    tcase_add_loop_test(tc, older_events, 0, 2);
    tcase_add_loop_test(tc, chance, 0, 60);
    return run_case("core_heal", tc);
}
