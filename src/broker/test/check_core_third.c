/* check_core_third.c - a broker and its parent that do not hear each other. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

#define SILENT "it sent nothing for 3.0 s"

/* Ranks 1 and 3 do not hear each other; the neighbors of rank 3 on the ring, ranks 2 and 4, have
 * heard it `before` and `after` seconds ago. */
static struct cluster *silent(double before, double after)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl->nodes[1].ago[3] = 2.6;
    cl->nodes[2].ago[3] = before;
    cl->nodes[4].ago[3] = after;
    core_peer_slow(cl->nodes[1].core, CORE_TREE, 3, true);
    return cl;
}

static void end_connection(struct cluster *cl, uint32_t parent, uint32_t child)
{
    core_peer_lost(cl->nodes[parent].core, CORE_TREE, child, SILENT);
    cl_pump(cl);
    core_peer_lost(cl->nodes[child].core, CORE_TREE, parent, SILENT);
    cl_sleep(cl, TIMEOUT + 3.);
}

/* Rank 3 is below this rank, and no rank but `dead` is lost. */
static void expect_moved(struct cluster *cl, uint32_t parent, const char *dead)
{
    expect_running(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), dead);
    ck_assert_uint_eq(idset_count(core_ranks_up(cl->nodes[0].core)) +
                          idset_count(core_ranks_lost(cl->nodes[0].core)),
                      cl->size);
    ck_assert_uint_eq(cl->nodes[3].parent, parent);
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "came back"));
    expect_routes(cl);
    cl_free(cl);
}

static void expect_lost(struct cluster *cl, uint32_t rank)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", rank);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), text);
    cl_free(cl);
}

/* One neighbor is enough. */
START_TEST(vouched)
{
    struct cluster *cl = silent(_i == 0 ? 1. : 2.6, _i == 0 ? 2.6 : 1.);

    cl_sleep(cl, 0.6);
    ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "the link between the former is bad"));
    end_connection(cl, 1, 3);
    expect_moved(cl, 0, "");
}
END_TEST

/* The neighbors may have heard it a little later than its parent, since it is dead. */
START_TEST(dead)
{
    struct cluster *cl = silent(1.6, 1.4);

    cl_sleep(cl, 0.6);
    ck_assert_ptr_null(strstr(cl->nodes[1].log, "the link"));
    end_connection(cl, 1, 3);
    expect_lost(cl, 3);
}
END_TEST

/* No neighbor can answer, or none does in time: the verdict does not wait. */
START_TEST(nobody)
{
    struct cluster *cl = silent(-1., -1.);

    if (_i == 0)
        cl_sleep(cl, 0.6);
    end_connection(cl, 1, 3);
    expect_lost(cl, 3);
}
END_TEST

/* It is heard again before its connection ends for another reason. */
START_TEST(heard_again)
{
    struct cluster *cl = silent(1., 1.);

    cl_sleep(cl, 0.6);
    core_peer_slow(cl->nodes[1].core, CORE_TREE, 3, false);
    end_connection(cl, 1, 3);
    expect_lost(cl, 3);
}
END_TEST

/* The child hears nothing, and says so. */
START_TEST(deaf)
{
    struct cluster *cl = cl_up(7, "kary:2");

    core_peer_slow(cl->nodes[3].core, CORE_TREE, 1, true);
    cl_pump(cl);
    if (_i == 1) {
        core_peer_slow(cl->nodes[3].core, CORE_TREE, 1, false);
        cl_pump(cl);
    }
    end_connection(cl, 1, 3);
    if (_i == 0)
        expect_moved(cl, 0, "");
    else
        expect_lost(cl, 3);
}
END_TEST

/* The child has found another parent before its earlier one notices anything. */
START_TEST(noticed_late)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl->slow[3][1] = true;
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 1, SILENT);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    cl->slow[3][1] = false;
    cl_sleep(cl, TIMEOUT + 3.);
    expect_moved(cl, 0, "");
}
END_TEST

/* In a chain, the neighbors of rank 3 on the ring are its parent and the rank below it. */
static struct cluster *silent_chain(void)
{
    struct cluster *cl = cl_up(6, "chain");

    cl->nodes[2].ago[3] = 2.4;
    return cl;
}

/* No neighbor on the ring can vouch for it: it connects to the rank above its parent and says that
 * it lives, when its parent says that it does not hear it, or when it does not hear its parent. */
START_TEST(speaks)
{
    struct cluster *cl = silent_chain();

    if (_i == 0) {
        core_peer_slow(cl->nodes[2].core, CORE_TREE, 3, true);
    } else {
        cl->slow[3][2] = true;
        core_peer_slow(cl->nodes[3].core, CORE_TREE, 2, true);
        cl_sleep(cl, 0.5);
        core_peer_slow(cl->nodes[2].core, CORE_TREE, 3, true);
    }
    cl_sleep(cl, 0.1);
    ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "the link between the former is bad"));
    ck_assert(!cl->nodes[3].beside[1]);
    cl->slow[3][2] = false;
    end_connection(cl, 2, 3);
    expect_moved(cl, 1, "");
}
END_TEST

/* The neighbors that could vouch for it are down. */
START_TEST(neighbors_down)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_kill(cl, 2);
    cl_kill(cl, 4);
    cl_sleep(cl, TIMEOUT + 3.);
    cl->nodes[1].ago[3] = 2.4;
    core_peer_slow(cl->nodes[1].core, CORE_TREE, 3, true);
    cl_sleep(cl, 0.1);
    ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "the link between the former is bad"));
    end_connection(cl, 1, 3);
    expect_moved(cl, 0, "2,4");
}
END_TEST

/* It connects to nobody while a neighbor can vouch for it. */
START_TEST(speaks_in_need)
{
    struct cluster *cl = silent(1., 1.);

    cl->bad[3][0] = true; /* attempts are counted */
    cl_sleep(cl, 0.6);
    ck_assert_uint_eq(cl->tried, 0);
    cl->bad[3][0] = false;
    end_connection(cl, 1, 3);
    expect_moved(cl, 0, "");
}
END_TEST

/* What it said before it died does not count, nor what it said of an earlier silence. */
START_TEST(spoke)
{
    struct cluster *cl = silent_chain();

    cl->slow[3][2] = true;
    core_peer_slow(cl->nodes[3].core, CORE_TREE, 2, true);
    cl_sleep(cl, 1.5);
    cl->slow[2][3] = true;
    core_peer_slow(cl->nodes[2].core, CORE_TREE, 3, true);
    cl_sleep(cl, 0.6);
    ck_assert_ptr_null(strstr(cl->nodes[2].log, "the link"));
    end_connection(cl, 2, 3);
    expect_lost(cl, 3);
}
END_TEST

/* Rank 1 is told that rank 3 lives, by a broker of this incarnation and session. */
static void say_it_lives(struct cluster *cl, unsigned incarnation, uint64_t session)
{
    char json[80];

    snprintf(json, sizeof(json), "{\"incarnation\":%u,\"session\":%llu}", incarnation,
             (unsigned long long)session);
    control(cl, 1, 3, "overlay.lives", json);
    cl_pump(cl);
}

/* Only the broker that the session knows speaks for its rank. */
START_TEST(impostor)
{
    struct cluster *cl = silent_chain();
    core_t *above = cl->nodes[1].core;

    cl->bad[3][0] = cl->bad[3][1] = true; /* the test speaks instead */
    core_peer_slow(cl->nodes[2].core, CORE_TREE, 3, true);
    cl_pump(cl);
    ck_assert_uint_eq(cl->tried, 2);
    ck_assert(core_peer_adopt(above, 3));
    core_peer_back(above, CORE_TREE, 3);
    say_it_lives(cl, 2, above->session);
    say_it_lives(cl, 1, above->session + 1);
    ck_assert_ptr_null(strstr(cl->nodes[2].log, "the link"));
    say_it_lives(cl, 1, above->session);
    ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "the link"));
    cl_free(cl);
}
END_TEST

/* A broker above says nothing of a rank that has connected to it only to say that it lives. */
START_TEST(visitor)
{
    struct cluster *cl = silent_chain();
    core_t *above = cl->nodes[1].core;
    json_t *verdicts;
    char *text;

    ck_assert(core_peer_adopt(above, 3));
    core_peer_back(above, CORE_TREE, 3);
    core_peer_slow(above, CORE_TREE, 3, true);
    cl_sleep(cl, 3.);
    core_peer_lost(above, CORE_TREE, 3, SILENT);
    cl_sleep(cl, 3.);
    verdicts = live_verdicts(cl->nodes[0].core);
    text = json_dumps(verdicts, 0);
    ck_assert_msg(!strstr(text, "slow") && !strstr(text, "lost"), "%s", text);
    free(text);
    json_decref(verdicts);
    cl_free(cl);
}
END_TEST

/* Its parent has reported its loss when it finds another parent: it leaves, and nobody else. */
START_TEST(reported)
{
    struct cluster *cl = cl_up(8, "kary:2");

    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, SILENT);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(cl->nodes[3].core), 1);
    cl_kill(cl, 3);
    cl_sleep(cl, 2.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2,4-7");
    ck_assert_uint_eq(cl->nodes[7].parent, 1);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* Nobody is above the parent: it asks nobody. */
START_TEST(below_root)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl->nodes[0].ago[1] = 2.6;
    cl_sleep(cl, 5.);
    memset(cl->sent, 0, sizeof(cl->sent));
    core_peer_slow(cl->nodes[0].core, CORE_TREE, 1, true);
    cl_sleep(cl, 0.9);
    ck_assert_uint_eq(cl->sent[CORE_TREE] + cl->sent[CORE_RING], 0);
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 1, SILENT);
    cl_pump(cl);
    expect_lost(cl, 1);
}
END_TEST

/* The request overlay.heard. */
START_TEST(answers)
{
    struct cluster *cl = cl_up(4, "kary:2");
    struct party *c = client(cl, 0);

    cl->nodes[2].ago[3] = 0.5;
    cl->nodes[2].ago[0] = -1.;
    ck_assert_int_eq(ask_flags(c, "overlay.heard", 2, 0, "{\"rank\":3}") != 0, 1);
    cl_pump(cl);
    expect_answer(c, 1, 0, NULL);
    ck_assert_ptr_nonnull(strstr(flux_msg_json(c->kept[0]), "\"ago\":0.5"));
    ask_flags(c, "overlay.heard", 2, 0, "{\"rank\":0}");
    cl_pump(cl);
    expect_answer(c, 2, EHOSTUNREACH, "rank 2 has no connection with rank 0 on the ring");
    party_leave(c);
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {dead,       heard_again, noticed_late,   reported,
                                  below_root, answers,     neighbors_down, speaks_in_need,
                                  spoke,      impostor,    visitor};
    TCase *tc = tcase_create("core_third");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, vouched, 0, 2);
    tcase_add_loop_test(tc, nobody, 0, 2);
    tcase_add_loop_test(tc, deaf, 0, 2);
    tcase_add_loop_test(tc, speaks, 0, 2);
    return run_case("core_third", tc);
}
