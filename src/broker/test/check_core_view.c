/* check_core_view.c - brokers that have missed events, which nobody keeps any longer, learn what
 * has happened. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

static void forgetful(void)
{
    healing();
    cl_event_buffer = 300; /* holds two or three events */
}

/* This rank, and those below it, get no event any longer ... */
static void deafen(struct cluster *cl, uint32_t rank)
{
    cl->nodes[rank].deaf_to_events = true;
}

/* ... until the events so far are kept nowhere. */
static void hear_again(struct cluster *cl, uint32_t rank)
{
    for (unsigned i = 0; i < 8; i++)
        publish(cl);
    cl->nodes[rank].deaf_to_events = false;
    publish(cl);
    cl_sleep(cl, 1.);
    ck_assert_ptr_nonnull(strstr(cl->nodes[rank].log, "missed events"));
    for (uint32_t r = 0; r < cl->size; r++) {
        if (!cl->nodes[r].dead && core_state(cl->nodes[r].core) < CORE_DOWN)
            ck_assert_uint_eq(core_event_seq(cl->nodes[r].core), core_event_seq(cl->nodes[0].core));
    }
}

/* All living ranks have the tree of rank 0. */
static void expect_tree(struct cluster *cl)
{
    for (uint32_t at = 1; at < cl->size; at++) {
        for (uint32_t r = 1; !cl->nodes[at].dead && r < cl->size; r++)
            ck_assert_msg(parent_of(cl, at, r) == parent_of(cl, 0, r),
                          "at rank %u, rank %u is below rank %u", at, r, parent_of(cl, at, r));
    }
}

/* A broker that has joined late runs, though it has missed that it is up: it survives its parent.
 * Its grandparent, which has missed it too, takes it. */
START_TEST(own)
{
    struct cluster *cl = cl_up(5, "chain");

    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    cl_restart(cl, 3);
    cl_pump(cl);
    deafen(cl, 1);
    core_local_ready(cl->nodes[3].core);
    cl_sleep(cl, 1.);
    ck_assert_int_ne(core_state(cl->nodes[3].core), CORE_RUN);
    hear_again(cl, 1);
    expect_running(cl);
    cl_kill(cl, 2);
    cl_sleep(cl, 1.);
    expect_parents(cl, 3, 1);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Nor is the beginning of the session missed. */
START_TEST(begin)
{
    struct cluster *cl = cl_create(3, "chain");

    cl_start(cl);
    cl_pump(cl);
    deafen(cl, 1);
    for (uint32_t r = 0; r < 3; r++)
        core_local_ready(cl->nodes[r].core);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_RUN);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_READY);
    hear_again(cl, 1);
    expect_running(cl);
    cl_free(cl);
}
END_TEST

/* Moves of other ranks, and their return. */
START_TEST(moves)
{
    struct cluster *cl;

    cl_settle = 1.;
    cl = cl_up(7, "kary:2");
    deafen(cl, 2);
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(parent_of(cl, 5, 3), 1);
    hear_again(cl, 2);
    expect_tree(cl);
    ck_assert_uint_eq(parent_of(cl, 5, 3), 0);
    deafen(cl, 2);
    start_again(cl, 1);
    cl_sleep(cl, 3.);
    ck_assert_uint_eq(parent_of(cl, 5, 3), 0);
    ck_assert_uint_eq(parent_of(cl, 0, 3), 1);
    hear_again(cl, 2);
    expect_tree(cl);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 dies and comes back while its predecessor on the ring, rank 3, misses that, and the
 * ancestor of its next parent.  `_i`: the events that are replayed say so again, later. */
START_TEST(back)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c = client(cl, 3), *m = module(cl, 4, "last");

    deafen(cl, 1);
    cl_kill(cl, 4);
    cl_sleep(cl, 1.);
    if (_i) {
        for (unsigned i = 0; i < 8; i++)
            publish(cl);
    }
    start_again(cl, 4);
    cl_sleep(cl, 1.);
    if (_i) {
        cl->nodes[1].deaf_to_events = false;
        publish(cl);
        cl_sleep(cl, 1.);
    } else {
        hear_again(cl, 1);
    }
    expect_running(cl);
    party_free(m);
    m = module(cl, 4, "last");
    ask_flags(c, "last.it", 4, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    expect_served(cl, m, c);
    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    expect_parents(cl, 4, 2);
    expect_running(cl);
    cl_free(cl);
}
END_TEST

/* A broker that the session has counted as lost meanwhile learns it. */
START_TEST(counted)
{
    struct cluster *cl = cl_up(4, "chain");

    control(cl, 0, 1, "overlay.lost", "{\"ranks\":\"3\",\"left\":false,\"by\":1}");
    deafen(cl, 1);
    cl_pump(cl);
    hear_again(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_int_ge(core_state(cl->nodes[3].core), CORE_DOWN);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

/* What cannot be read changes nothing, and the events are skipped all the same. */
START_TEST(bad)
{
    static const char *const views[] = {
        "\"gone\":\"x\",\"moved\":[]",
        "\"gone\":\"\",\"moved\":[],\"incarnations\":[{\"ranks\":\"x\",\"incarnation\":2}]",
    };
    struct cluster *cl = cl_up(3, "chain");
    char json[200];

    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        snprintf(json, sizeof(json), "{\"to\":%zu,\"seq\":%zu,\"run\":true,%s}", 9 + i, 9 + i,
                 views[i]);
        control(cl, 2, 1, "event.skip", json);
        ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "cannot read what has happened"));
        cl->nodes[2].log[0] = '\0';
        ck_assert_uint_eq(core_event_seq(cl->nodes[2].core), 9 + i);
    }
    control(cl, 2, 1, "event.skip", "{\"to\":20}");
    ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "event.skip from rank 1 was dropped"));
    ck_assert_uint_eq(core_event_seq(cl->nodes[2].core), 10);
    expect_running(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_view");

    tcase_add_checked_fixture(tc, forgetful, NULL);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, own);
    tcase_add_test(tc, begin);
    tcase_add_test(tc, moves);
    tcase_add_loop_test(tc, back, 0, 2);
    tcase_add_test(tc, counted);
    tcase_add_test(tc, bad);
    return run_case("core_view", tc);
}
