/* check_core_restore.c - subtrees that return to their places. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* Time passes until the parent of the rank is this one. */
static void restored(struct cluster *cl, uint32_t rank, uint32_t parent)
{
    struct party *c = client(cl, 0);

    for (unsigned i = 0; i < cl->size && cl->nodes[rank].parent != parent; i++) {
        uint32_t foster = cl->nodes[rank].parent;
        char ranks[80];

        snprintf(ranks, sizeof(ranks), "{\"ranks\":\"0-%u\"}", cl->size - 1);
        ask_flags(c, "overlay.restore", foster, 0, ranks);
        cl_sleep(cl, 1.);
    }
    ck_assert_uint_eq(cl->nodes[rank].parent, parent);
    ck_assert_uint_gt(c->n, 0);
    for (size_t i = 0; i < c->n; i++)
        ck_assert_int_eq(flux_msg_errnum(c->kept[i]), 0);
    party_leave(c);
}

/* Rank 1 has come back, and gets back ranks 3 and 4: after a while, or on request. */
START_TEST(restore)
{
    struct cluster *cl;

    cl_settle = _i ? 30. : 0.;
    cl = cl_up(7, "kary:2");
    replace(cl, 1);
    cl_sleep(cl, 29.);
    expect_parents(cl, 3, 0);
    cl_sleep(cl, 2.);
    expect_parents(cl, 3, _i ? 1 : 0);
    if (!_i) {
        cl_sleep(cl, 1000.);
        expect_parents(cl, 3, 0);
        restored(cl, 3, 1);
        ck_assert_uint_eq(cl->nodes[4].parent, 1);
    }
    for (uint32_t r = 3; r <= 4; r++) {
        expect_parents(cl, r, 1);
        ck_assert_int_eq(cl->nodes[r].moves, 2);
        ck_assert(!cl->nodes[r].beside[0]); /* nothing was left to be answered */
    }
    expect_whole(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-6");
    expect_ranks(core_ranks_up(cl->nodes[1].core), "1,3-4");
    /* It is their parent in all respects. */
    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    cl_kill(cl, 1);
    cl_sleep(cl, TIMEOUT + 1.);
    expect_parents(cl, 4, 0);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2,4-6");
    expect_whole(cl);
    core_shutdown(cl->nodes[4].core, 3, "done");
    cl_pump(cl);
    for (uint32_t r = 0; r < 7; r++) {
        if (!cl->nodes[r].dead)
            ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_EXIT);
    }
    cl_free(cl);
}
END_TEST

/* Several brokers have died, and come back: each step goes to the next one below. */
START_TEST(restore_chain)
{
    struct cluster *cl = cl_up(6, "chain");

    for (uint32_t r = 1; r <= 3; r++) {
        cl_kill(cl, r);
        cl_sleep(cl, TIMEOUT + 1.);
    }
    ck_assert_uint_eq(cl->nodes[4].parent, 0);
    for (uint32_t r = 1; r <= 3; r++) {
        start_again(cl, r);
        expect_running(cl);
    }
    restored(cl, 4, 3);
    expect_parents(cl, 4, 3);
    ck_assert_int_eq(cl->nodes[4].moves, 6);
    expect_whole(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-5");
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2-5");
    cl_free(cl);
}
END_TEST

/* Rank 2 gives rank 4 back while it moves itself, and has no parent to tell: all know that later.
 */
START_TEST(restore_untold)
{
    struct cluster *cl = cl_up(6, "chain");
    struct party *c0, *c2;

    for (uint32_t r = 1; r <= 3; r += 2) {
        cl_kill(cl, r);
        cl_sleep(cl, 1.);
    }
    start_again(cl, 1);
    start_again(cl, 3);
    expect_parents(cl, 2, 0);
    expect_parents(cl, 4, 2);
    c0 = client(cl, 0);
    c2 = client(cl, 2);
    ask_flags(c0, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    CL_STEP_UNTIL(cl, cl->nodes[2].beside[1]);
    cl->slow[0][2] = true; /* it does not hear yet that rank 0 has let it go */
    cl_pump(cl);
    ask_flags(c2, "overlay.restore", 2, 0, "{\"ranks\":\"3\"}");
    cl_pump(cl);
    ck_assert_uint_eq(cl->nodes[2].parent, 0);
    ck_assert_uint_eq(cl->nodes[4].parent, 3);
    cl->slow[0][2] = false;
    cl_sleep(cl, 1.);
    expect_parents(cl, 2, 1);
    expect_parents(cl, 4, 3);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* A broker gives a subtree back to the broker of its place, and the report that is on its way up is
 * lost: with the broker above it, or with itself.  All get to know it when the next one has another
 * parent. */
START_TEST(report_dies)
{
    struct cluster *cl = cl_up(6, "chain");
    uint32_t giver = 2 + (uint32_t)_i,
             dies = 2; /* rank 2 gives, or passes the report of rank 3 on */
    struct party *c;

    replace(cl, giver + 1);
    expect_parents(cl, giver + 2, giver);
    c = client(cl, giver);
    cl->slow[dies][1] = true;
    ask_flags(c, "overlay.restore", giver, 0,
              giver == 2 ? "{\"ranks\":\"3\"}" : "{\"ranks\":\"4\"}");
    cl_pump(cl);
    ck_assert_uint_eq(cl->nodes[giver + 2].parent, giver + 1);
    cl_kill(cl, dies);
    cl->slow[dies][1] = false;
    cl_sleep(cl, TIMEOUT + 1.);
    expect_parents(cl, 3, 1);
    expect_parents(cl, giver + 2, giver + 1);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-5");
    expect_whole(cl);
    /* Nothing is left to be told. */
    start_again(cl, 2);
    restored(cl, 3, 2);
    expect_parents(cl, giver + 2, giver + 1);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The next parent says goodbye before the child leaves: the child stays where it is. */
START_TEST(next_leaves)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c1, *m4;

    replace(cl, 2);
    c1 = client(cl, 1);
    m4 = module(cl, 4, "low");
    cl->nodes[3].log[0] = '\0';
    ask_flags(c1, "overlay.restore", 1, 0, "{\"ranks\":\"2\"}");
    CL_STEP_UNTIL(cl, cl->nodes[3].beside[2]);
    cl->slow[3][1] = true;
    cl_pump(cl);
    core_leave(cl->nodes[2].core, 0, "enough");
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    cl->slow[3][1] = false;
    cl_pump(cl);
    cl_kill(cl, 2);
    cl_sleep(cl, 1.);
    ck_assert_ptr_null(strstr(cl->nodes[3].log, "lost its parent"));
    expect_parents(cl, 3, 1);
    ask(c1, "low.it", 4);
    cl_pump(cl);
    ck_assert_uint_eq(m4->n, 1);
    expect_running(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 dies at rank 1, with rank 5 below it, and was put back into its place below rank 3.  When
 * rank 3 moves away, rank 1 still waits for rank 5, and reports its loss. */
START_TEST(moves_without)
{
    struct cluster *cl = cl_up(6, "chain");

    for (uint32_t r = 2; r <= 3; r++) {
        cl_kill(cl, r);
        cl_sleep(cl, TIMEOUT + 1.);
    }
    start_again(cl, 2);
    start_again(cl, 3);
    expect_parents(cl, 4, 1);
    cl->nodes[5].dead = true;
    cl_kill(cl, 4);
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(parent_of(cl, 1, 4), 3);
    cl->slow[3][1] = true;
    cl_kill(cl, 2);
    cl_sleep(cl, TIMEOUT - 1.);
    ck_assert_uint_eq(parent_of(cl, 1, 3), 0);
    cl->slow[3][1] = false;
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2,4-5");
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 3 dies at rank 1, and was put back into its place below rank 2, where its orphan has never
 * been: what rank 2 has for that waits at rank 1. */
START_TEST(waits_above)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c2, *m4;

    replace(cl, 2);
    expect_parents(cl, 3, 1);
    c2 = client(cl, 2);
    m4 = module(cl, 4, "low");
    cl->slow[4][1] = true;
    cl_kill(cl, 3);
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(parent_of(cl, 2, 3), 2);
    ask(c2, "low.it", 4);
    ask(c2, "low.it", 3);
    cl_pump(cl);
    expect_answer(c2, 1, EHOSTUNREACH, "rank 3 cannot be reached");
    cl->slow[4][1] = false;
    cl_pump(cl);
    ck_assert_uint_eq(cl->nodes[4].parent, 1);
    ck_assert_uint_eq(m4->n, 1);
    answer(m4, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c2, 2, 0, NULL);
    expect_whole(cl);
    start_again(cl, 3);
    restored(cl, 4, 3);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* What was asked before is answered on the old connection, which ends then. */
START_TEST(restore_answers)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c3, *c0, *m0, *m3;

    replace(cl, 1);
    c3 = client(cl, 3);
    c0 = client(cl, 0);
    m0 = module(cl, 0, "top");
    m3 = module(cl, 3, "low");
    ask_flags(c3, "top.it", 0, FLUX_MSGF_STREAMING, NULL);
    ask(c0, "low.it", 3);
    cl_pump(cl);
    restored(cl, 3, 1);
    ck_assert(cl->nodes[3].beside[0]);
    for (size_t i = 1; i <= 3; i++) {
        answer(m0, 0, 0, FLUX_MSGF_STREAMING, "1");
        cl_pump(cl);
        expect_answer(c3, i, 0, NULL);
    }
    answer(m3, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c0, 1, 0, NULL);
    ck_assert(cl->nodes[3].beside[0]);
    answer(m0, 0, ENODATA, 0, "1");
    cl_sleep(cl, 0.1);
    expect_answer(c3, 4, ENODATA, NULL);
    ck_assert(!cl->nodes[3].beside[0]);
    expect_routes(cl);
    /* A stream of before, and the parent is lost: rank 3 returns to rank 0, and the stream fails.
     * */
    replace(cl, 1);
    party_clear(c3);
    party_clear(m0);
    ask_flags(c3, "top.it", 0, FLUX_MSGF_STREAMING, NULL);
    cl_pump(cl);
    restored(cl, 3, 1);
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    expect_answer(c3, 1, EHOSTUNREACH, "the parent has changed");
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Requests that may be sent again: those of before the return are answered by the old connection,
 * and are not repeated; when that ends, they take the new way. */
START_TEST(restore_idempotent)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c3, *c0, *m0, *m3;

    replace(cl, 1);
    c3 = client(cl, 3);
    c0 = client(cl, 0);
    m0 = module(cl, 0, "top");
    m3 = module(cl, 3, "low");
    for (unsigned i = 0; i < 2; i++) {
        ask_flags(c3, "top.it", FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_UPSTREAM, NULL);
        ask_flags(c0, "low.it", 3, FLUX_MSGF_IDEMPOTENT, NULL);
    }
    cl_pump(cl);
    restored(cl, 3, 1);
    ck_assert_uint_eq(m0->n, 2);
    ck_assert_uint_eq(m3->n, 2);
    answer(m0, 0, 0, 0, "1");
    answer(m3, 0, 0, 0, "1");
    cl_sleep(cl, 0.1);
    expect_answer(c3, 1, 0, NULL);
    expect_answer(c0, 1, 0, NULL);
    ck_assert(cl->nodes[3].beside[0]);
    /* The new parent dies, and rank 3 ends the old connection to be a child there again. */
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    ck_assert_uint_eq(m0->n, 4);
    ck_assert_str_eq(flux_msg_topic(m0->kept[2]), "top.disconnect");
    ck_assert_str_eq(flux_msg_topic(m0->kept[3]), "top.it");
    ck_assert_uint_eq(m3->n, 4);
    ck_assert_str_eq(flux_msg_topic(m3->kept[2]), "low.disconnect");
    ck_assert_str_eq(flux_msg_topic(m3->kept[3]), "low.it");
    for (size_t i = 1; i <= 3; i += 2) { /* of the first time: nobody hears it */
        answer(m0, i, 0, 0, "1");
        answer(m3, i, 0, 0, "1");
    }
    cl_pump(cl);
    expect_answer(c3, 2, 0, NULL);
    expect_answer(c0, 2, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* The next parent sends an event before the child has heard that it may go: no later event tells
 * the child of the gap, and it gets the event nevertheless. */
START_TEST(ahead)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *sub, *c0;

    replace(cl, 1);
    sub = subscriber(cl, 3);
    c0 = client(cl, 0);
    ask_flags(c0, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    CL_STEP_UNTIL(cl, cl->nodes[0].quiet[3]);
    cl->slow[0][3] = true;
    publish(cl);
    cl_pump(cl);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    ck_assert_uint_lt(core_event_seq(cl->nodes[3].core), core_event_seq(cl->nodes[0].core));
    cl->slow[0][3] = false;
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    ck_assert_uint_eq(core_event_seq(cl->nodes[3].core), core_event_seq(cl->nodes[0].core));
    ck_assert_uint_eq(sub->n, 1);
    ck_assert_str_eq(flux_msg_topic(sub->kept[0]), "some.thing");
    cl_free(cl);
}
END_TEST

/* The foster parent has given up before the child is there: the child is refused, and stays. */
START_TEST(too_late)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c0;

    for (uint32_t r = 1; r <= 2; r++) {
        cl_kill(cl, r);
        cl_sleep(cl, TIMEOUT + 1.);
    }
    start_again(cl, 1);
    c0 = client(cl, 0);
    ask_flags(c0, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    CL_STEP_UNTIL(cl, cl->nodes[3].beside[1]);
    cl->slow[3][1] = cl->slow[0][3] = true; /* its hello, and what it would hear of giving up */
    cl_sleep(cl, 11.);
    cl->slow[3][1] = false;
    cl_pump(cl);
    cl->slow[0][3] = false;
    cl_sleep(cl, 1.);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "has taken too long"));
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    ck_assert(!cl->nodes[3].beside[1]);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-4");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 3 of a chain is below rank 1, and returns below rank 2.  Stop when rank 1 has given it away,
 * and rank 3 does not know. */
static struct cluster *half_way(uint32_t size)
{
    struct cluster *cl = cl_up(size, "chain");
    struct party *c0;

    replace(cl, 2);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    c0 = client(cl, 0);
    ask_flags(c0, "overlay.restore", 1, 0, "{\"ranks\":\"2\"}");
    CL_STEP_UNTIL(cl, cl->nodes[1].quiet[3]);
    cl->slow[1][3] = true;
    cl_pump(cl);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    party_leave(c0);
    return cl;
}

/* The foster parent dies between what it tells the next parent and what it tells the child, which
 * then looks for another parent: it is not lost. */
START_TEST(given_unheard)
{
    struct cluster *cl = half_way(6);

    cl_kill(cl, 1);
    cl->slow[1][3] = false;
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-5");
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-5");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    expect_whole(cl);
    start_again(cl, 1);
    for (uint32_t r = 2; r <= 3; r++)
        restored(cl, r, r - 1);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The child dies then, and another broker of its rank is started: it does not wait in vain for the
 * news that the first one is lost. */
START_TEST(given_and_dead)
{
    struct cluster *cl = half_way(4);

    cl_kill(cl, 3);
    cl->slow[1][3] = false;
    cl_pump(cl);
    start_again(cl, 3);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-3");
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 3 came back: incarnation 2"));
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* The child is lost before it leaves, and the next parent hears that from the session first: it has
 * not taken the child over, and welcomes the next broker of its rank. */
START_TEST(lost_on_the_way)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *c0;

    replace(cl, 2);
    c0 = client(cl, 0);
    ask_flags(c0, "overlay.restore", 1, 0, "{\"ranks\":\"2\"}");
    CL_STEP_UNTIL(cl, cl->nodes[3].beside[2]);
    cl->slow[3][1] = true;
    cl_pump(cl);
    cl->slow[1][2] = true;
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "the connection was lost");
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    cl_kill(cl, 3);
    cl->slow[3][1] = cl->slow[1][2] = false;
    cl_sleep(cl, TIMEOUT + 1.);
    start_again(cl, 3);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-3");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* The connection of a child that has been given away breaks before it has arrived, and the next
 * child is expected already: that is not taken over for that reason. */
START_TEST(broken_behind)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c0;

    replace(cl, 1);
    c0 = client(cl, 0);
    ask_flags(c0, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    CL_STEP_UNTIL(cl, cl->nodes[0].quiet[3]);
    cl->slow[0][3] = cl->slow[4][0] = true;
    cl_pump(cl);
    ck_assert(cl->nodes[4].beside[1]);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "the connection was lost");
    expect_ranks(core_ranks_up(cl->nodes[1].core), "1,3");
    cl_free(cl);
}
END_TEST

/* Rank 3 loses its connection to rank 2, which lives, and whose parent is dead: its loss is
 * reported to nobody, and it is below rank 0 before rank 2 is.  Rank 2 takes it back. */
START_TEST(lost_here_only)
{
    struct cluster *cl = cl_up(6, "chain");

    cl->nodes[1].dead = true;
    disconnect(cl, 2, 3);
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 1, "killed");
    cl_sleep(cl, 1.);
    cl_kill(cl, 1); /* rank 2 notices it, too */
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-5");
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    start_again(cl, 1);
    restored(cl, 2, 1);
    restored(cl, 3, 2);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-5");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* Rank 3 has a stream from rank 0 by an earlier connection, when the broker above its parent dies,
 * which names it at rank 0: the stream goes on. */
START_TEST(stream_behind)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c3, *m0 = module(cl, 0, "top");

    for (uint32_t r = 2; r >= 1; r--) {
        cl_kill(cl, r);
        cl_sleep(cl, TIMEOUT + 1.);
    }
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    c3 = client(cl, 3);
    ask_flags(c3, "top.it", 0, FLUX_MSGF_STREAMING, NULL);
    cl_pump(cl);
    for (uint32_t r = 1; r <= 2; r++)
        start_again(cl, r);
    restored(cl, 3, 2);
    ck_assert(cl->nodes[3].beside[0]);
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[2].parent, 0);
    answer(m0, 0, 0, FLUX_MSGF_STREAMING, "1");
    cl_pump(cl);
    expect_answer(c3, 1, 0, NULL);
    answer(m0, 0, ENODATA, 0, "1");
    cl_sleep(cl, 1.);
    expect_answer(c3, 2, ENODATA, NULL);
    ck_assert(!cl->nodes[3].beside[0]);
    cl_free(cl);
}
END_TEST

/* A broker that was lost connects to one that had taken over its rank, and is refused: that does
 * not count as a loss of the broker that is up. */
START_TEST(strange_end)
{
    struct cluster *cl;

    cl_settle = 10.;
    cl = cl_up(5, "chain");
    cl_kill(cl, 2);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    start_again(cl, 2);
    start_again(cl, 3);
    ck_assert(core_peer_adopt(cl->nodes[1].core, 3));
    core_peer_back(cl->nodes[1].core, CORE_TREE, 3);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "it was refused");
    cl_pump(cl);
    ck_assert_ptr_null(strstr(cl->nodes[1].log, "is lost again"));
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    cl_sleep(cl, 25.);
    ck_assert_uint_eq(cl->nodes[4].parent, 3);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* The children notice the death of their parent first: they are not sent back to it. */
START_TEST(noticed_late)
{
    struct cluster *cl;

    cl_settle = 10.;
    cl = cl_up(7, "kary:2");
    cl->nodes[1].dead = true;
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 1, "killed");
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 1, "killed");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "stays below"));
    start_again(cl, 1);
    cl_sleep(cl, 9.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    ck_assert_int_eq(cl->nodes[3].moves, 2);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* A broker that repeatedly returns and dies does not get its subtree back each time. */
START_TEST(flaps)
{
    struct cluster *cl;

    cl_settle = 10.;
    cl = cl_up(7, "kary:2");
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    for (unsigned i = 0; i < 8; i++) {
        start_again(cl, 1);
        cl_sleep(cl, 19.);
        /* The first time is enough; then it takes 20 s, 40 s, ... */
        ck_assert_int_eq(cl->nodes[3].moves, i ? 3 : 2);
        ck_assert_uint_eq(cl->nodes[3].parent, i ? 0 : 1);
        cl_kill(cl, 1);
        cl_sleep(cl, 1.);
    }
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "next time it has to stay for 20 s"));
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "next time it has to stay for 40 s"));
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "next time it has to stay for 640 s"));
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "1280 s"));
    start_again(cl, 1);
    cl_sleep(cl, 639.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    cl_sleep(cl, 2.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    /* It stays, and is forgiven. */
    cl_sleep(cl, 1000.);
    replace(cl, 1);
    cl_sleep(cl, 11.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* A rank that joins and dies repeatedly is held off, for longer each time. */
START_TEST(bounces)
{
    struct cluster *cl = cl_up(3, "flat");
    double held = 1.;

    for (unsigned i = 0; i < 10; i++) {
        cl_kill(cl, 1);
        cl_sleep(cl, 0.1);
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2");
        start_again(cl, 1);
        if (i >= 4) {
            cl_sleep(cl, held - 0.2);
            expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2");
            cl_sleep(cl, 0.2);
            held = held < 32. ? 2. * held : held;
        }
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2");
    }
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "4 times in a row: it may not join"));
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "for 16 s:"));
    ck_assert_ptr_null(strstr(cl->nodes[0].log, "rank 2 is lost again"));
    expect_whole(cl);
    /* It stays, and is forgiven. */
    cl_sleep(cl, 11.);
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    start_again(cl, 1);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2");
    cl_free(cl);
}
END_TEST

/* Requests and events pass all the time while subtrees return, with deaths of each of the three in
 * the middle: each request is answered once, those of one sender to one module arrive in order, and
 * each event comes once. */
struct load {
    struct party *c, *m, *sub;
    uint64_t asked, seen, event;
    uint64_t order[MAX_NODES]; /* of the requests of each rank */
};

static void numbered(struct cluster *cl, struct load *ld, uint32_t from, uint32_t to)
{
    char text[32];

    snprintf(text, sizeof(text), "[%u,%llu]", from, (unsigned long long)++ld[from].asked);
    ask_flags(ld[from].c, "there.it", to, 0, text);
}

static void served(struct party *p, const flux_msg_t *msg)
{
    struct load *ld = p->user;
    json_t *o;
    uint32_t from;
    uint64_t n;

    if (flux_msg_type(msg) != FLUX_MSG_REQUEST || strcmp(flux_msg_topic(msg), "there.it") != 0)
        return;
    o = json_loads(flux_msg_json(msg), 0, NULL);
    from = (uint32_t)json_integer_value(json_array_get(o, 0));
    n = (uint64_t)json_integer_value(json_array_get(o, 1));
    json_decref(o);
    ck_assert_msg(n > ld->order[from], "request %llu of rank %u comes after %llu",
                  (unsigned long long)n, from, (unsigned long long)ld->order[from]);
    ld->order[from] = n;
    answer(p, p->n - 1, 0, 0, "1");
}

static void load_begin(struct cluster *cl, struct load *ld, uint32_t r)
{
    memset(&ld[r], 0, sizeof(ld[r]));
    ld[r].c = client(cl, r);
    ld[r].m = module(cl, r, "there");
    ld[r].m->user = &ld[r];
    ld[r].m->hook = served;
    ld[r].sub = subscriber(cl, r);
    for (uint32_t i = 0; i < cl->size; i++)
        ld[i].order[r] = 0;
}

static void load_check(struct load *ld, bool whole)
{
    ck_assert_uint_eq(ld->c->n, ld->asked);
    for (size_t i = 0; i < ld->c->n && whole; i++)
        ck_assert_msg(flux_msg_errnum(ld->c->kept[i]) == 0, "%s", flux_msg_json(ld->c->kept[i]));
    for (size_t i = 0; i < ld->sub->n; i++) {
        uint64_t seq = flux_msg_seq(ld->sub->kept[i]);

        ck_assert_uint_gt(seq, ld->event);
        ck_assert_str_eq(flux_msg_topic(ld->sub->kept[i]), "some.thing");
        ld->event = seq;
    }
}

/* Steps, and between them requests and events. */
static void busy(struct cluster *cl, struct load *ld, uint64_t *seed, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        uint32_t from = next(seed) % cl->size, to = next(seed) % cl->size;

        if (next(seed) % 3 == 0 && !cl->nodes[from].dead)
            numbered(cl, ld, from, to);
        if (next(seed) % 40 == 0)
            publish(cl);
        cl_step(cl);
    }
}

START_TEST(restore_busy)
{
    static const char *const shapes[] = {"chain", "kary:2", "kary:3"};
    uint64_t seed = 0x9e3779b97f4a7c15u * ((uint64_t)_i + 7);
    struct cluster *cl;
    struct load ld[MAX_NODES];
    bool whole = _i % 2; /* nobody dies meanwhile */
    struct party *op;

    cl_event_buffer = 100000; /* none is lost, whoever dies */
    cl = cl_up(8, shapes[_i % 3]);
    replace(cl, 1);
    for (uint32_t r = 0; r < cl->size; r++)
        load_begin(cl, ld, r);
    op = client(cl, 0);
    ask_flags(op, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    busy(cl, ld, &seed, whole ? 600 : (unsigned)(next(&seed) % 120));
    if (!whole) {
        uint32_t dead = 1 + next(&seed) % (cl->size - 1);

        cl_kill(cl, dead);
        busy(cl, ld, &seed, 600);
    }
    cl_sleep(cl, 20.);
    expect_running(cl);
    expect_counted(cl);
    for (uint32_t r = 0; r < cl->size; r++) {
        if (cl->nodes[r].dead)
            continue;
        load_check(&ld[r], whole);
        if (whole && topology_parent(core_topology(cl->nodes[0].core), r) == 1)
            ck_assert_msg(cl->nodes[r].parent == 1, "%s", cl->nodes[0].log);
    }
    ck_assert_uint_eq(op->n, 1);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    for (uint32_t r = 0; r < cl->size; r++)
        core_endpoint_remove(ld[r].m->ep, ENOSYS, "over");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {restore_chain,  restore_answers, restore_idempotent,
                                  ahead,          too_late,        noticed_late,
                                  flaps,          bounces,         given_unheard,
                                  given_and_dead, lost_on_the_way, strange_end,
                                  restore_untold, broken_behind,   lost_here_only,
                                  stream_behind,  waits_above,     next_leaves,
                                  moves_without};
    TCase *tc = tcase_create("core_restore");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, restore, 0, 2);
    tcase_add_loop_test(tc, report_dies, 0, 2);
    tcase_add_loop_test(tc, restore_busy, 0, 60);
    return run_case("core_restore", tc);
}
