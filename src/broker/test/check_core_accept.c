/* check_core_accept.c - whom a broker accepts below it: members of the session with their keys and
 * their incarnation, and nobody else. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* Each broker knows the keys of those below it, and no others; a rank that comes back has another
 * one. */
START_TEST(keys)
{
    struct cluster *cl = cl_up(7, "kary:2");
    core_t *root = cl->nodes[0].core;
    core_t *inner = cl->nodes[1].core;
    char old[41];

    for (uint32_t r = 0; r < 7; r++) {
        bool below = r == 1 || r == 3 || r == 4;

        ck_assert_str_eq(core_key_of(root, r), cl->nodes[r].key);
        ck_assert(core_has_key(inner, cl->nodes[r].key) == below);
        ck_assert((core_key_of(inner, r) != NULL) == below);
    }
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    strcpy(old, cl->nodes[1].key);
    start_again(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_str_ne(cl->nodes[1].key, old);
    ck_assert_str_eq(core_key_of(root, 1), cl->nodes[1].key);
    ck_assert(core_has_key(root, cl->nodes[1].key));
    ck_assert(!core_has_key(root, old));
    cl_free(cl);
}
END_TEST

/* A text of keys that does not fit its ranks. */
START_TEST(bad_keys)
{
    struct cluster *cl = cl_up(3, "chain");
    char known[41];

    strcpy(known, core_key_of(cl->nodes[0].core, 2));
    control(cl, 0, 1, "overlay.ready", "{\"ranks\":\"1-2\",\"keys\":\"short\"}");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "cannot read the public keys"));
    ck_assert_str_eq(core_key_of(cl->nodes[0].core, 2), known);
    cl_free(cl);
}
END_TEST

/* Who belongs to another session, lies about what is below it, is not the incarnation that is
 * known, or counts as lost, is refused. */
START_TEST(refused)
{
    static const struct {
        const char *below;
        unsigned incarnation;
        const char *why;
    } bad[] = {
        {"3-5", 1, "it belongs to another session, or to an earlier start of this one"},
        {"1-5", 1, "named ranks that are not in its subtree"},
        {"4-5", 1, "named ranks that are not in its subtree"},
        {"", 1, "named ranks that are not in its subtree"},
        {"3-70", 1, "named ranks that are not in its subtree"},
        {"3-x", 1, "named ranks that are not in its subtree"},
        {"3-5", 2, "it is incarnation 2 of its rank"},
    };

    for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
        struct cluster *cl = cl_up(6, "chain");

        /* Rank 3 cannot connect by itself. */
        cl->nodes[3].dead = true;
        cl_kill(cl, 2);
        ck_assert(!core_peer_adopt(cl->nodes[1].core, 0));
        ck_assert(!core_peer_adopt(cl->nodes[1].core, 1));
        ck_assert(!core_peer_adopt(cl->nodes[3].core, 2));
        ck_assert(core_peer_adopt(cl->nodes[1].core, 3));
        if (i < sizeof(bad) / sizeof(bad[0])) {
            hello(cl, 1, 3, bad[i].below, bad[i].incarnation, i == 0);
            ck_assert_msg(strstr(cl->nodes[1].log, bad[i].why) != NULL, "%s", cl->nodes[1].log);
        } else {
            cl_sleep(cl, TIMEOUT + 1.);
            hello(cl, 1, 3, "3-5", 1, false);
            ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "the session counts it as lost"));
        }
        cl_sleep(cl, TIMEOUT + 1.);
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "2-5");
        ck_assert_uint_eq(parent_of(cl, 0, 3), 2);
        cl_free(cl);
    }
}
END_TEST

/* The broker above was stopped: it finds a connection that has been given up meanwhile.  That is
 * not a reason to count as lost who tries again. */
START_TEST(tries_again)
{
    struct cluster *cl = cl_up(6, "chain");

    cl->nodes[3].dead = true; /* it connects below */
    cl_kill(cl, 2);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(core_peer_adopt(cl->nodes[1].core, 3));
        core_peer_back(cl->nodes[1].core, CORE_TREE, 3);
        core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "it has closed the connection");
        cl_pump(cl);
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    }
    cl->nodes[3].dead = false;
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 2, "killed");
    core_peer_lost(cl->nodes[3].core, CORE_RING, 2, "killed");
    cl_sleep(cl, TIMEOUT + 1.);
    expect_running(cl);
    ck_assert_uint_eq(parent_of(cl, 0, 3), 1);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* An orphan that is refused ends, and those below it go on without it, as if it had died. */
START_TEST(refused_below)
{
    struct cluster *cl = cl_up(4, "chain");
    struct node *nd = &cl->nodes[2];

    cl->nodes[0].full = true;
    cl_kill(cl, 1);
    control(cl, 2, 1, "overlay.refused", "{\"reason\":\"you are late\"}");
    cl_pump(cl);
    ck_assert_ptr_nonnull(strstr(nd->log, "you are late"));
    cl->nodes[0].full = false;
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_int_eq(core_state(nd->core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(nd->core), 1);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1-2");
    cl_free(cl);
}
END_TEST

/* The root has died, and is started again.  A broker of the session before connects to it, and is
 * refused: this session goes on to wait for a broker of that rank. */
START_TEST(of_another_start)
{
    struct cluster *cl = cl_create(2, "chain");

    cl->nodes[1].dead = true; /* the test speaks for the one before */
    cl_start(cl);
    core_local_ready(cl->nodes[0].core);
    core_peer_back(cl->nodes[0].core, CORE_TREE, 1);
    core_child_event_up(cl->nodes[0].core, 1);
    hello(cl, 0, 1, "1", 1, true);
    cl_pump(cl);
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 1, "it has ended");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_WIRED);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
    cl_free(cl);
}
END_TEST

static void say_hello(struct cluster *cl)
{
    core_peer_back(cl->nodes[1].core, CORE_TREE, 3);
    core_child_event_up(cl->nodes[1].core, 3);
    control(cl, 1, 3, "overlay.hello",
            "{\"rank\":3,\"size\":7,\"topology\":\"kary:2\",\"version\":1}");
    cl_pump(cl);
}

/* Rank 3 lives below rank 0, and not in its place, since the link to its parent is bad (0), or
 * since its parent has died and has come back (1); or it is still on its way to rank 0 (2).
 * Another broker of its rank connects to its parent. */
static struct cluster *second(int how)
{
    struct cluster *cl = cl_up(7, "kary:2");

    if (how == 0) {
        move_away(cl, 3, 1, 0);
    } else if (how == 1) {
        cl_kill(cl, 1);
        cl_sleep(cl, 2.);
        start_again(cl, 1);
    } else {
        control(cl, 1, 3, "overlay.deaf", "{\"deaf\":true}");
        core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "it is silent");
        cl_pump(cl);
    }
    say_hello(cl);
    if (how == 2) {
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
        /* The first one arrives; as in this session a rank has one connection, that of the second
         * one ends. */
        core_peer_lost(cl->nodes[3].core, CORE_TREE, 1, "it is silent");
        cl_sleep(cl, 2.);
        say_hello(cl);
    }
    cl_sleep(cl, 2.);
    ck_assert_ptr_null(strstr(cl->nodes[1].log, "rank 3 was refused"));
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    return cl;
}

/* The second one waits, as the first one may be dead, and is then refused.  Nobody else notices. */
START_TEST(second_broker)
{
    struct cluster *cl = second(_i);

    cl_sleep(cl, 15.);
    ck_assert_msg(strstr(cl->nodes[1].log, "rank 3 was refused: rank 3 is up below rank 0: stop "
                                           "one of its two brokers") != NULL,
                  "%s", cl->nodes[1].log);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "it has ended");
    cl_sleep(cl, TIMEOUT + 1.);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-6");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "rank 3 came back"));
    ck_assert_uint_eq(parent_of(cl, 1, 3), 0);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The first one dies before that: the second one joins. */
START_TEST(second_broker_joins)
{
    struct cluster *cl = second(_i);

    cl_kill(cl, 3);
    cl_sleep(cl, 15.);
    ck_assert_ptr_null(strstr(cl->nodes[1].log, "rank 3 was refused"));
    control(cl, 1, 3, "overlay.ready", "{\"ranks\":\"3\"}");
    cl_pump(cl);
    ck_assert_msg(strstr(cl->nodes[0].log, "rank 3 came back: incarnation 2") != NULL, "%s",
                  cl->nodes[0].log);
    ck_assert_uint_eq(parent_of(cl, 0, 3), 1);
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {keys,        bad_keys,      refused,
                                  tries_again, refused_below, of_another_start};
    TCase *tc = tcase_create("core_accept");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, second_broker, 0, 3);
    tcase_add_loop_test(tc, second_broker_joins, 0, 3);
    return run_case("core_accept", tc);
}
