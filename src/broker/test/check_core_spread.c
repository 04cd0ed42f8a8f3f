/* check_core_spread.c - a broker with too many children gives some of them to others. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

static void crowded(void)
{
    healing();
    cl_fanout_max = 2;
}

static void ask_restore(struct cluster *cl, uint32_t rank)
{
    struct party *c = client(cl, 0);

    ask_flags(c, "overlay.restore", rank, 0, "{\"ranks\":\"1-6\"}");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(c->n, 1);
    ck_assert_int_eq(flux_msg_errnum(c->kept[0]), 0);
    party_leave(c);
}

/* Rank 1 dies: one of its children goes to rank 2, until rank 1 is back and has settled. */
START_TEST(spread)
{
    struct cluster *cl;

    cl_settle = _i ? 30. : 0.;
    cl_fanout_max = 3;
    cl = cl_up(7, "kary:2");
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_parents(cl, 3, 0);
    expect_parents(cl, 4, 0);
    cl_free(cl);
    cl_fanout_max = 2;
    cl = cl_up(6, "kary:2");
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_parents(cl, 3, 2);
    expect_parents(cl, 4, 0);
    expect_whole(cl);
    publish(cl);
    cl_pump(cl);
    for (uint32_t r = 2; r < 6; r++)
        ck_assert_uint_eq(core_event_seq(cl->nodes[r].core), core_event_seq(cl->nodes[0].core));
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-5");
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2-3,5");
    start_again(cl, 1);
    if (_i) {
        cl_sleep(cl, 29.);
        expect_parents(cl, 3, 2);
        cl_sleep(cl, 2.);
    } else {
        ask_restore(cl, 0);
        expect_parents(cl, 3, 2);
        expect_parents(cl, 4, 1);
        ask_restore(cl, 2);
        expect_parents(cl, 3, 0);
        ask_restore(cl, 0);
    }
    expect_parents(cl, 3, 1);
    expect_parents(cl, 4, 1);
    expect_whole(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-5");
    expect_ranks(core_ranks_up(cl->nodes[1].core), "1,3-4");
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2,5");
    ck_assert(!cl->nodes[3].beside[0] && !cl->nodes[3].beside[2]);
    cl_free(cl);
}
END_TEST

/* A guest is released by rank 2, and has not arrived at rank 0, when this one is asked, too. */
START_TEST(asked_on_the_way)
{
    struct party *c;
    struct cluster *cl;

    cl_settle = 0.;
    cl = cl_up(6, "kary:2");
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    start_again(cl, 1);
    ask_restore(cl, 0);
    expect_parents(cl, 3, 2);
    c = client(cl, 0);
    ask_flags(c, "overlay.restore", 2, 0, "{\"ranks\":\"1-6\"}");
    while (c->n == 0)
        ck_assert(cl_step(cl));
    ask_flags(c, "overlay.restore", 0, 0, "{\"ranks\":\"1-6\"}");
    if (_i) {
        /* It is lost: the answer does not wait for it. */
        cl_step(cl);
        cl_kill(cl, 3);
    }
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(c->n, 2);
    ck_assert_int_eq(flux_msg_errnum(c->kept[1]), 0);
    if (!_i)
        expect_parents(cl, 3, 1);
    cl_sleep(cl, 2. * TIMEOUT);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* In a session of 16 with fanout_max=4, rank 1 dies: rank 4 goes to rank 2, with 13 to 15. */
static struct cluster *spread_16(void)
{
    struct cluster *cl;

    cl_fanout_max = 4;
    cl = cl_up(16, "kary:3");
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_parents(cl, 4, 2);
    expect_parents(cl, 5, 0);
    expect_parents(cl, 6, 0);
    expect_parents(cl, 13, 4);
    return cl;
}

static void expect_home(struct cluster *cl)
{
    for (uint32_t r = 1; r < cl->size; r++)
        expect_parents(cl, r, topology_parent(core_topology(cl->nodes[0].core), r));
}

/* A guest dies: those below it connect to a broker above it, which may give them away, and all
 * return when the ranks of their places are back. */
START_TEST(guest_lost)
{
    struct cluster *cl;

    cl_settle = 1.;
    cl = spread_16();
    cl_kill(cl, 4);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,4");
    for (uint32_t r = 13; r < 16; r++)
        ck_assert_uint_le(cl->nodes[r].parent, 3);
    expect_whole(cl);
    cl_kill(cl, 14);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,4,14");
    start_again(cl, 1);
    start_again(cl, 4);
    start_again(cl, 14);
    cl_sleep(cl, 60.);
    expect_home(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-15");
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2,7-9");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* The host dies, before it has taken the guest, or later: the guest and its subtree live. */
START_TEST(host_lost)
{
    struct cluster *cl;

    cl_settle = 1.;
    cl_fanout_max = 4;
    cl = cl_up(16, "kary:3");
    cl_kill(cl, 1);
    for (int i = 0; i < _i; i++)
        (void)cl_step(cl);
    cl_kill(cl, 2);
    cl_sleep(cl, 2. * TIMEOUT);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,3-15");
    expect_whole(cl);
    start_again(cl, 1);
    start_again(cl, 2);
    cl_sleep(cl, 60.);
    expect_home(cl);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* What has been asked before the guest moves is answered by the old way, and what follows is not
 * lost. */
START_TEST(requests)
{
    struct cluster *cl = spread_16();
    struct party *c13, *m0;

    start_again(cl, 1);
    c13 = client(cl, 13);
    m0 = module(cl, 0, "top");
    ask(c13, "top.it", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 1);
    ask_restore(cl, 2);
    expect_parents(cl, 4, 0);
    ask(c13, "top.it", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 2);
    answer(m0, 1, 0, 0, "2");
    answer(m0, 0, 0, 0, "1");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(c13->n, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(flux_msg_errnum(c13->kept[i]), 0);
    ask_restore(cl, 0);
    expect_parents(cl, 4, 1);
    ck_assert(!cl->nodes[4].beside[0] && !cl->nodes[4].beside[2]);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Reports of ranks that are not below a child, and moves to a parent that is not above. */
START_TEST(bad_reports)
{
    static const char *const bad[] = {
        "{\"rank\":13,\"parent\":14,\"move\":70000}",
        "{\"rank\":2,\"parent\":4,\"move\":70000}",
        "{\"rank\":10,\"parent\":2,\"move\":70000,\"below\":\"10,99\"}",
    };
    struct cluster *cl = spread_16();

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cl->nodes[0].log[0] = '\0';
        control(cl, 0, 2, "overlay.moved", bad[i]);
        cl_pump(cl);
        ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "that is not in its subtree"));
    }
    ck_assert(!core_peer_adopt(cl->nodes[13].core, 4));
    ck_assert(!core_peer_adopt(cl->nodes[3].core, 13));
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Kills, also in the middle of a move, and restarts, by chance: in the end all that live are one
 * session, and when all are back, all are in their places. */
START_TEST(chance)
{
    static const char *const shapes[] = {"kary:2", "kary:3", "kary:4"};
    uint64_t seed = 0x9e3779b97f4a7c15u * ((uint64_t)_i + 1);
    struct cluster *cl;

    cl_settle = _i % 2 ? 0.3 : 5.;
    cl_fanout_max = 1 + _i % 5;
    cl = cl_up(MAX_NODES, shapes[_i % 3]);
    for (unsigned step = 0; step < 16; step++) {
        chance_step(cl, &seed, 60, (double)(next(&seed) % 100) / 100.);
        /* One that was started when its parent was about to die. */
        for (uint32_t r = 0; r < cl->size; r++) {
            if (!cl->nodes[r].dead && strstr(cl->nodes[r].log, "cannot join through its parent"))
                cl_kill(cl, r);
        }
    }
    for (unsigned round = 0; round < 2; round++) {
        cl_sleep(cl, 2. * TIMEOUT + 1.);
        expect_counted(cl);
        expect_whole(cl);
        for (uint32_t r = 1; round == 0 && r < cl->size; r++)
            if (cl->nodes[r].dead)
                start_again(cl, r);
        if (round == 0)
            cl_sleep(cl, 2000.);
    }
    expect_home(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_spread");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, crowded, NULL);
    tcase_add_loop_test(tc, spread, 0, 2);
    tcase_add_loop_test(tc, asked_on_the_way, 0, 2);
    tcase_add_test(tc, guest_lost);
    tcase_add_test(tc, requests);
    tcase_add_test(tc, bad_reports);
    tcase_add_loop_test(tc, host_lost, 0, (int)suite_runs(100));
    tcase_add_loop_test(tc, chance, 0, (int)suite_runs(60));
    return run_case("core_spread", tc);
}
