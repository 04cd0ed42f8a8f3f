/* check_core_late.c - ranks that join while the broker above them is dead. */
#include "config.h"
#include <errno.h>

#include "heal_bed.h"
#include "libutil/test/suite.h"

#define SEEK 3. /* time for a round through all candidates; shorter than TIMEOUT */

static void die(struct cluster *cl, const uint32_t *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cl_kill(cl, ranks[i]);
    cl_sleep(cl, 0.1);
}

static void start_late(struct cluster *cl, uint32_t rank)
{
    cl_restart_as(cl, rank, false);
    cl_sleep(cl, SEEK);
}

static void expect_parent(struct cluster *cl, uint32_t rank, uint32_t parent)
{
    ck_assert_uint_eq(cl->nodes[rank].parent, parent);
    for (uint32_t r = 0; r < cl->size; r++) {
        if (!cl->nodes[r].dead)
            ck_assert_msg(parent_of(cl, r, rank) == parent, "rank %u has rank %u below rank %u", r,
                          rank, parent_of(cl, r, rank));
    }
}

/* Rank 3 is started while rank 0 still waits for the earlier one as an orphan, or (1) has counted
 * it as lost. */
START_TEST(one)
{
    struct cluster *cl = cl_up(8, "kary:2");

    die(cl, (const uint32_t[]){1, 3}, 2);
    if (_i)
        cl_sleep(cl, 2. * TIMEOUT);
    else
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    start_late(cl, 3);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3");
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_WIRED);
    core_local_ready(cl->nodes[3].core);
    cl_sleep(cl, 0.1);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-7");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 3 came back: incarnation 2"));
    expect_running(cl);
    expect_parent(cl, 3, 0);
    expect_parent(cl, 7, 0);
    expect_routes(cl);
    /* It stays when its parent is back, and when that is lost again. */
    start_again(cl, 1);
    expect_parent(cl, 3, 0);
    expect_routes(cl);
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_routes(cl);
    /* It is lost itself, before it is ready or after: the next one joins, too. */
    for (unsigned i = 0; i < 3; i++) {
        cl_kill(cl, 3);
        cl_sleep(cl, 0.1);
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3");
        ck_assert_uint_eq(parent_of(cl, 0, 3), 1);
        start_late(cl, 3);
        if (i == 1)
            continue;
        core_local_ready(cl->nodes[3].core);
        cl_sleep(cl, 0.1);
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
        expect_parent(cl, 3, 0);
        expect_routes(cl);
    }
    cl_free(cl);
}
END_TEST

/* The nearest ancestor is not the root, and waits for the event on the loss. */
START_TEST(nearest)
{
    struct cluster *cl = cl_up(15, "kary:2");

    die(cl, (const uint32_t[]){3, 7}, 2);
    start_late(cl, 7);
    core_local_ready(cl->nodes[7].core);
    cl_sleep(cl, 0.1);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    expect_running(cl);
    expect_parent(cl, 7, 1);
    expect_routes(cl);
    /* It heals as the others do. */
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3");
    expect_parent(cl, 7, 0);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* All between it and the root are dead. */
START_TEST(chain)
{
    struct cluster *cl = cl_up(6, "kary:1");

    die(cl, (const uint32_t[]){4, 3, 2, 1}, 4);
    cl_sleep(cl, 2. * TIMEOUT);
    start_late(cl, 4);
    core_local_ready(cl->nodes[4].core);
    cl_sleep(cl, 0.1);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,4-5");
    expect_parent(cl, 4, 0);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* A rank that does not reach its parent is not welcome elsewhere while that is up: it tries its
 * parent again. */
START_TEST(parent_lives)
{
    struct cluster *cl = cl_up(8, "kary:2");

    die(cl, (const uint32_t[]){3}, 1);
    start_late(cl, 3);
    ck_assert_ptr_nonnull(
        strstr(cl->nodes[0].log, "rank 3 was refused: rank 1, which is nearer to it, is not lost"));
    ck_assert_uint_eq(cl->nodes[3].moves, 2);
    core_local_ready(cl->nodes[3].core);
    cl_sleep(cl, 0.1);
    expect_parent(cl, 3, 1);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Ranks below absent ones join before the session runs, as the quorum needs them. */
START_TEST(early)
{
    struct cluster *cl = cl_create_early(8, "kary:2", 1., 5);
    const uint32_t there[] = {0, 2, 5, 6, 7}, absent[] = {1, 3, 4};
    struct control_card card;

    cl_boot_keys = true;
    for (size_t i = 0; i < 3; i++) {
        cl->nodes[absent[i]].dead = true;
        cl_link_ops.card(&cl->nodes[absent[i]], &card); /* it has a key */
    }
    cl->nodes[7].unreached = true;
    cl_name_ancestors(&cl->nodes[7]);
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(core_start(cl->nodes[there[i]].core), 0);
    cl_pump(cl);
    for (uint32_t r = 2; r < 7; r++)
        if (!cl->nodes[r].dead)
            cl_event_links(cl, r);
    for (size_t i = 0; i < 5; i++)
        core_local_ready(cl->nodes[there[i]].core);
    cl_sleep(cl, 0.9);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_WIRED);
    cl_sleep(cl, 10.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2,5-7");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1,3-4");
    expect_parent(cl, 7, 0);
    expect_routes(cl);
    start_late(cl, 3);
    core_local_ready(cl->nodes[3].core);
    cl_sleep(cl, 0.1);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 3 came late: incarnation 1"));
    expect_parent(cl, 3, 0);
    expect_routes(cl);
    start_again(cl, 1);
    start_again(cl, 4);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-7");
    expect_parent(cl, 4, 1);
    expect_parent(cl, 3, 0);
    expect_parent(cl, 7, 0);
    expect_routes(cl);
    cl_boot_keys = false;
    cl_free(cl);
}
END_TEST

/* Who is welcome nowhere gives up. */
START_TEST(nobody)
{
    struct cluster *cl = cl_up(8, "kary:2");

    die(cl, (const uint32_t[]){1, 3}, 2);
    cl->nodes[0].dead = true;
    cl_restart_as(cl, 3, false);
    cl_sleep(cl, 100.);
    ck_assert_ptr_nonnull(strstr(cl->nodes[3].log, "got no welcome"));
    ck_assert_int_eq(core_exit_code(cl->nodes[3].core), 1);
    cl_free(cl);
}
END_TEST

/* A session of seven ranks, of which 3 to 6 have no host when it begins. */
static struct cluster *begin_vacant(void)
{
    struct cluster *cl;

    cl_expected = 3;
    cl = cl_create(7, "kary:2");
    for (uint32_t i = 0; i < 7; i++)
        cl->nodes[i].dead = i >= 3;
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(core_start(cl->nodes[i].core), 0);
    cl_pump(cl);
    for (uint32_t i = 1; i < 3; i++)
        cl_event_links(cl, i);
    for (uint32_t i = 1; i < 3; i++) {
        ck_assert_int_lt(core_state(cl->nodes[0].core), CORE_READY);
        core_local_ready(cl->nodes[i].core);
    }
    core_local_ready(cl->nodes[0].core);
    cl_pump(cl);
    expect_running(cl);
    return cl;
}

/* Ranks 3 to 6 have no host when the session begins, and get one later; rank 1 is started again in
 * between. */
START_TEST(vacant)
{
    struct cluster *cl = begin_vacant();

    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3-6");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "ranks 3-6 have no host yet"));
    for (uint32_t rank = 3; rank < 5; rank++) {
        start_again(cl, rank);
        cl_sleep(cl, 0.1);
        expect_parent(cl, rank, 1);
    }
    expect_running(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "5-6");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 3 came late: incarnation 1"));
    /* The next broker of their parent does not take them for vacant. */
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    expect_parent(cl, 3, 0);
    start_again(cl, 1);
    cl_sleep(cl, 0.1);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "5-6");
    expect_whole(cl);
    cl_expected = 0;
    cl_free(cl);
}
END_TEST

/* Start rank 3, about which its parent asks. */
static void asked_about(struct cluster *cl, uint32_t number)
{
    cl_restart(cl, 3);
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(cl_question, number);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_JOIN);
}

/* A rank for which a host has to be added joins when its parent was told that this is the one. */
START_TEST(admitted)
{
    struct cluster *cl;
    core_t *parent;

    cl_named = 3;
    cl = begin_vacant();
    parent = cl->nodes[1].core;
    asked_about(cl, 1);
    cl_kill(cl, 3);
    asked_about(cl, 2);
    /* That was the answer about the earlier connection. */
    core_admitted(parent, 3, 1, 0, NULL);
    cl_sleep(cl, 0.1);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_JOIN);
    core_admitted(parent, 3, 2, EPERM, "its host was not added");
    cl_sleep(cl, 0.1);
    ck_assert_ptr_nonnull(strstr(cl->nodes[3].log, "its host was not added"));
    ck_assert_int_eq(core_exit_code(cl->nodes[3].core), 1);
    core_admitted(parent, 3, 2, 0, NULL); /* once */
    cl_kill(cl, 3);
    for (uint32_t number = 3; number < 5; number++) { /* it is asked about each time */
        asked_about(cl, number);
        core_admitted(parent, 3, number, 0, NULL);
        cl_pump(cl);
        core_local_ready(cl->nodes[3].core);
        cl_sleep(cl, 0.1);
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0-3");
        cl_kill(cl, 3);
        cl_sleep(cl, 0.1);
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2");
    }
    cl_named = cl_expected = 0;
    cl_free(cl);
}
END_TEST

/* A rank without a host at the start that is ready before the others is not absent. */
START_TEST(vacant_early)
{
    struct cluster *cl;

    cl_expected = 3;
    cl = cl_create(4, "kary:2");
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(core_start(cl->nodes[i].core), 0);
    cl_pump(cl);
    for (uint32_t i = 1; i < 4; i++)
        cl_event_links(cl, i);
    for (uint32_t i = 4; i-- > 0;) {
        core_local_ready(cl->nodes[i].core);
        cl_pump(cl);
    }
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-3");
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "no host yet"));
    cl_expected = 0;
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {nearest, chain,  parent_lives, early,
                                  nobody,  vacant, admitted,     vacant_early};
    TCase *tc = tcase_create("core_late");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, one, 0, 2);
    return run_case("core_late", tc);
}
