/* check_core_requests.c - requests and answers on their way when brokers die, leave, or are cut
 * off. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* What was sent through the dead broker fails once; what is sent afterwards arrives. */
START_TEST(one)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c3 = client(cl, 3), *c0 = client(cl, 0);
    struct party *m0 = module(cl, 0, "top"), *m3 = module(cl, 3, "low");
    size_t gone = 0;

    ask(c3, "top.it", 0);
    ask(c0, "low.it", 3);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 1);
    ck_assert_uint_eq(m3->n, 1);
    cl_kill(cl, 1);
    expect_answer(c3, 1, EHOSTUNREACH, "rank 1 was lost");
    expect_answer(c0, 1, EHOSTUNREACH, "rank 1 was lost");
    /* Rank 3 has no parent, and rank 0 has not heard of it yet. */
    ask(c3, "top.that", 0);
    ask(c0, "low.that", 3);
    ck_assert_uint_eq(c3->n, 1);
    ck_assert_uint_eq(c0->n, 1);
    cl_sleep(cl, 0.1);
    expect_running(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,2-6");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1");
    for (size_t i = 0; i < m0->n; i++)
        gone += strcmp(flux_msg_topic(m0->kept[i]), "top.disconnect") == 0;
    ck_assert_uint_eq(gone, 1); /* nobody waits for the answer to the first one */
    ck_assert_str_eq(flux_msg_topic(m0->kept[m0->n - 1]), "top.that");
    answer(m0, m0->n - 1, 0, 0, "1");
    answer(m0, 0, 0, 0, "1");
    ck_assert_str_eq(flux_msg_topic(m3->kept[m3->n - 1]), "low.that");
    answer(m3, m3->n - 1, 0, 0, "1");
    answer(m3, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c3, 2, 0, NULL);
    expect_answer(c0, 2, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    for (uint32_t r = 0; r < 7; r++) {
        if (r == 1)
            continue;
        ck_assert_uint_eq(parent_of(cl, r, 3), 0);
        ck_assert_uint_eq(parent_of(cl, r, 4), 0);
        ck_assert_uint_eq(parent_of(cl, r, 6), 2);
    }
    expect_routes(cl);
    core_shutdown(cl->nodes[4].core, 3, "done");
    cl_pump(cl);
    for (uint32_t r = 0; r < 7; r++) {
        if (r != 1)
            ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_EXIT);
    }
    cl_free(cl);
}
END_TEST

/* A request that waits on the earlier way of its sender, which has been told that it failed, does
 * not arrive after a later one. */
START_TEST(outrun)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c4 = client(cl, 4), *m0 = module(cl, 0, "top");

    cl->slow[3][2] = true;
    ask(c4, "top.one", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 0);
    core_peer_lost(cl->nodes[4].core, CORE_TREE, 3, "the connection was lost");
    expect_answer(c4, 1, EHOSTUNREACH, "rank 3 was lost");
    cl_sleep(cl, 1.5);
    ck_assert_uint_eq(cl->nodes[4].parent, 2);
    ask(c4, "top.two", 0);
    cl_pump(cl);
    cl->slow[3][2] = false;
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(m0->n, 2);
    ck_assert_str_eq(flux_msg_topic(m0->kept[0]), "top.two");
    ck_assert_str_eq(flux_msg_topic(m0->kept[1]), "top.disconnect");
    answer(m0, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c4, 2, 0, NULL);
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

/* A request that may be sent again is, by each broker that has lost the one next on its way: the
 * sender gets one answer. */
START_TEST(idempotent)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c3 = client(cl, 3), *c0 = client(cl, 0), *c5 = client(cl, 5);
    struct party *m0 = module(cl, 0, "top"), *m3 = module(cl, 3, "low");
    struct party *m1 = module(cl, 1, "mid"), *own = module(cl, 3, "top");
    const unsigned again = FLUX_MSGF_IDEMPOTENT, stream = again | FLUX_MSGF_STREAMING;
    char *large = big(16000), *larger = big(17000), text[17100];
    size_t topped = 0;

    ask_flags(c3, "top.one", FLUX_NODEID_ANY, again | FLUX_MSGF_UPSTREAM, NULL);
    snprintf(text, sizeof(text), "\"%s\"", large);
    ask_flags(c3, "top.two", 0, again, text);
    ask_flags(c0, "low.one", 3, again, NULL);
    ask_flags(c5, "low.new", 3, stream, NULL);
    ask_flags(c5, "low.begun", 3, stream, NULL);
    snprintf(text, sizeof(text), "\"%s\"", larger);
    ask_flags(c0, "low.larger", 3, again, text);
    ask_flags(c0, "mid.one", 1, again, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 2);
    ck_assert_uint_eq(m3->n, 4);
    ck_assert_uint_eq(m1->n, 1);
    answer(m3, 2, 0, FLUX_MSGF_STREAMING, "1");
    cl_pump(cl);
    ck_assert_uint_eq(c5->n, 1);
    party_clear(m3);
    cl_kill(cl, 1);
    ck_assert_uint_eq(c3->n, 0);
    expect_answer(c0, 1, EHOSTUNREACH, NULL); /* it went to the dead rank */
    cl_pump(cl);
    expect_answer(c5, 2, EHOSTUNREACH, "rank 1 was lost");
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(own->n, 0);
    for (size_t i = 0; i < m0->n; i++) {
        topped += strcmp(flux_msg_topic(m0->kept[i]), "top.disconnect") != 0;
        if (topped > 2 && flux_msg_type(m0->kept[i]) == FLUX_MSG_REQUEST &&
            !flux_msg_has_flag(m0->kept[i], FLUX_MSGF_NORESPONSE))
            answer(m0, i, 0, 0, "2");
    }
    ck_assert_uint_eq(topped, 4);
    answer(m0, 0, 0, 0, "1"); /* of the first time: nobody hears it */
    for (size_t i = 0; i < m3->n; i++) {
        if (!flux_msg_has_flag(m3->kept[i], FLUX_MSGF_NORESPONSE))
            answer(m3, i, 0, 0, "2");
    }
    cl_pump(cl);
    expect_answer(c3, 2, 0, NULL);
    expect_answer(c0, 3, 0, NULL);
    expect_answer(c5, 3, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
    free(large);
    free(larger);
}
END_TEST

/* A request that its sender has canceled is not sent again, as the copy would follow the cancel: it
 * fails at the brokers that have passed it on. */
START_TEST(canceled)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c3 = client(cl, 3), *m0 = module(cl, 0, "top");
    char text[40];
    uint32_t tag;

    tag = ask_flags(c3, "top.it", 0, FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_STREAMING, NULL);
    ask_flags(c3, "top.kept", 0, FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_STREAMING, NULL);
    snprintf(text, sizeof(text), "{\"matchtag\":%u}", tag);
    ask_flags(c3, "top.cancel", 0, FLUX_MSGF_NORESPONSE, text);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 3);
    ck_assert_str_eq(flux_msg_topic(m0->kept[2]), "top.cancel");
    party_clear(m0);
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    expect_answer(c3, 1, EHOSTUNREACH, NULL);
    ck_assert_str_eq(flux_msg_topic(c3->kept[0]), "top.it");
    for (size_t i = 0; i < m0->n; i++) {
        ck_assert_str_ne(flux_msg_topic(m0->kept[i]), "top.it");
        if (strcmp(flux_msg_topic(m0->kept[i]), "top.kept") == 0)
            answer(m0, i, 0, 0, "1");
    }
    cl_pump(cl);
    expect_answer(c3, 2, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Large requests that may be sent again are kept within a bound. */
START_TEST(idempotent_large)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c0 = client(cl, 0), *m3 = module(cl, 3, "low");
    size_t size = 40u << 20;
    char *text = big(size);

    text[0] = text[size - 1] = '"';
    ask_flags(c0, "low.one", 3, FLUX_MSGF_IDEMPOTENT, text);
    ask_flags(c0, "low.two", 3, FLUX_MSGF_IDEMPOTENT, text);
    cl_pump(cl);
    ck_assert_uint_eq(m3->n, 2);
    party_clear(m3);
    cl_kill(cl, 1);
    expect_answer(c0, 1, EHOSTUNREACH, NULL);
    ck_assert_str_eq(flux_msg_topic(c0->kept[0]), "low.two");
    cl_sleep(cl, 0.1);
    for (size_t i = 0; i < m3->n; i++) {
        if (!flux_msg_has_flag(m3->kept[i], FLUX_MSGF_NORESPONSE))
            answer(m3, i, 0, 0, "1");
    }
    cl_pump(cl);
    expect_answer(c0, 2, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
    free(text);
}
END_TEST

/* What was held for the dead broker, and is for a rank below it, waits for that. */
START_TEST(held_for_the_dead)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c0 = client(cl, 0), *m3 = module(cl, 3, "low");

    cl->nodes[1].full = true;
    ask(c0, "low.it", 3);
    cl_pump(cl);
    ck_assert_uint_eq(m3->n, 0);
    cl_kill(cl, 1);
    ck_assert_uint_eq(c0->n, 0);
    cl_sleep(cl, 0.1);
    expect_served(cl, m3, c0);
    cl_free(cl);
}
END_TEST

/* The broker above the dead one notices last: services hear that the sender's earlier request is
 * over before they get the next one, and not after it. */
START_TEST(noticed_late)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *c3 = client(cl, 3), *m0 = module(cl, 0, "top");

    ask_flags(c3, "top.stream", 0, FLUX_MSGF_STREAMING, NULL);
    cl_pump(cl);
    cl->nodes[1].dead = true;
    core_peer_lost(cl->nodes[2].core, CORE_TREE, 1, "killed");
    cl_pump(cl);
    expect_answer(c3, 1, EHOSTUNREACH, NULL);
    ask_flags(c3, "top.again", 0, FLUX_MSGF_STREAMING, NULL);
    cl_sleep(cl, 0.1);
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 1, "killed");
    core_peer_lost(cl->nodes[0].core, CORE_RING, 1, "killed");
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 3);
    ck_assert_str_eq(flux_msg_topic(m0->kept[1]), "top.disconnect");
    ck_assert(flux_msg_has_flag(m0->kept[1], FLUX_MSGF_IDEMPOTENT)); /* the sender lives */
    ck_assert_str_eq(flux_msg_topic(m0->kept[2]), "top.again");
    answer(m0, 2, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c3, 2, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* A request finds the connection closed before the loss is reported: it is sent another way. */
START_TEST(closed_first)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c3 = client(cl, 3), *m0 = module(cl, 0, "top");

    cl->nodes[1].dead = true;
    ask_flags(c3, "top.it", 0, FLUX_MSGF_IDEMPOTENT, NULL);
    ask(c3, "top.once", 0);
    expect_answer(c3, 1, EHOSTUNREACH, "rank 1 cannot be reached");
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(m0->n, 1);
    answer(m0, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c3, 2, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Nobody above lives: the subtree ends, as without healing. */
START_TEST(in_vain)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *c = client(cl, 3), *c2 = client(cl, 2);
    struct party *m0 = module(cl, 0, "top"), *m2 = module(cl, 2, "top");

    ask_flags(c2, "top.it", FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 1);
    cl_kill(cl, 1);
    cl_kill(cl, 0);
    ask(c, "top.it", 0);
    cl_sleep(cl, 10.);
    ck_assert_uint_eq(c->n + c2->n, 0);
    cl_sleep(cl, 25.);
    expect_answer(c, 1, EHOSTUNREACH, NULL);
    expect_answer(c2, 1, EHOSTUNREACH, NULL);
    ck_assert_uint_eq(m2->n, 0); /* it was for those above */
    for (uint32_t r = 2; r < 4; r++) {
        ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_EXIT);
        ck_assert_int_eq(core_exit_code(cl->nodes[r].core), 1);
        ck_assert(core_parent_gone(cl->nodes[r].core));
    }
    cl_free(cl);
}
END_TEST

/* The root dies: what waits for it fails, and those below it serve until orphan.timeout. */
START_TEST(root_dies)
{
    struct cluster *cl = cl_up(3, "flat");
    struct party *c = client(cl, 1);

    cl_kill(cl, 0);
    ask(c, "top.it", 0);
    cl_sleep(cl, TIMEOUT - 1.);
    ck_assert_uint_eq(c->n, 0);
    cl_sleep(cl, 2.);
    expect_answer(c, 1, EHOSTUNREACH, NULL);
    ask(c, "top.it", 0);
    cl_pump(cl);
    expect_answer(c, 2, EHOSTUNREACH, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_sleep(cl, 23.);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_RUN);
    party_leave(c);
    cl_sleep(cl, 2.);
    for (uint32_t r = 1; r < 3; r++) {
        ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_EXIT);
        ck_assert_int_eq(core_exit_code(cl->nodes[r].core), 1);
        ck_assert(core_parent_gone(cl->nodes[r].core));
        ck_assert_ptr_nonnull(strstr(cl->nodes[r].log, "without its parent, rank 0, for 30 s"));
    }
    cl_free(cl);
}
END_TEST

/* A broker leaves through which a request goes that may be sent again: it is answered by its
 * service, and not by the broker that leaves. */
START_TEST(leave_idempotent)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *m = module(cl, 3, "low");
    struct party *c = client(cl, 0);

    ask_flags(c, "low.it", 3, FLUX_MSGF_IDEMPOTENT, NULL);
    ask(c, "low.once", 3);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 2);
    core_leave(cl->nodes[1].core, 0, "enough");
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    expect_answer(c, 1, EHOSTUNREACH, NULL);
    ck_assert_str_eq(flux_msg_topic(c->kept[0]), "low.once");
    answer_low_it(cl, m, c);
    cl_free(cl);
}
END_TEST

/* The child of the broker that leaves has hung up, and such a request arrives before the broker
 * knows that. */
START_TEST(leave_closed)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *m = module(cl, 3, "low");
    struct party *c = client(cl, 0);

    cl->slow[1][2] = true;
    core_leave(cl->nodes[1].core, 0, "enough");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_DOWN);
    cl->nodes[2].dead = true;
    ask_flags(c, "low.it", 3, FLUX_MSGF_IDEMPOTENT, NULL);
    ask(c, "low.once", 3);
    cl_pump(cl);
    expect_answer(c, 1, EHOSTUNREACH, "rank 2 cannot be reached from rank 1");
    ck_assert_str_eq(flux_msg_topic(c->kept[0]), "low.once");
    cl->nodes[2].dead = false;
    cl->slow[1][2] = false;
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    ck_assert_uint_eq(m->n, 1);
    answer_low_it(cl, m, c);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* The hello of rank 2 names rank 3, and arrives when rank 3 has lost its connection to rank 2, and
 * is below rank 0 itself: what rank 3 has asked meanwhile is answered. */
START_TEST(named_late)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *m = module(cl, 0, "top");
    struct party *c = client(cl, 3);

    cl->slow[2][0] = cl->slow[3][2] = true;
    cl_kill(cl, 1);
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(cl->nodes[2].parent, 0);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 2, "the connection was lost");
    cl_sleep(cl, 0.1);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    ask(c, "top.it", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    cl->slow[2][0] = false;
    cl_pump(cl);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 2 has lost its parent"));
    expect_served(cl, m, c); /* no notice that rank 3 is gone */
    cl->slow[3][2] = false;
    cl_kill(cl, 2);
    cl_sleep(cl, TIMEOUT + 1.);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0,3");
    expect_whole(cl);
    cl_free(cl);
}
END_TEST

/* The link between ranks 0 and 1 is cut, and both live: requests from below wait, and then pass the
 * ring, which they may do after some hops up the tree; but rank 0 counts their senders as lost. */
START_TEST(cut_off)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *m = module(cl, 0, "top");
    struct party *c = client(cl, 4);

    cl->slow[1][0] = true;
    cl->nodes[1].deaf_to_events = true;
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 1, "the connection was lost");
    cl_sleep(cl, 1.);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 0, "the connection was lost");
    cl_pump(cl);
    ask(c, "top.it", 0);
    cl_sleep(cl, TIMEOUT - 0.5);
    ck_assert_uint_eq(c->n, 0);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(m->n, 0);
    expect_answer(c, 1, EHOSTUNREACH, "the session counts rank 4 as lost");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "1-4");
    ask(c, "top.it", 0);
    cl_pump(cl);
    expect_answer(c, 2, EHOSTUNREACH, "the session counts rank 4 as lost");
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Rank 4 was below rank 1, and is lost: rank 1 waits for rank 5, while the place of rank 4 is below
 * rank 3 again.  A request of rank 3 for rank 5 waits at rank 1, and does not come back. */
START_TEST(waits_above)
{
    struct cluster *cl = cl_up(6, "chain");
    struct party *m = module(cl, 5, "low"), *c;

    cl_kill(cl, 3);
    cl_kill(cl, 2);
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_uint_eq(cl->nodes[4].parent, 1);
    start_again(cl, 2);
    start_again(cl, 3);
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    c = client(cl, 3);
    cl->nodes[4].dead = true;
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 4, "killed"); /* rank 5 notices it later */
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "4");
    ck_assert_uint_eq(parent_of(cl, 2, 4), 3);
    ask(c, "low.it", 5);
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 0);
    core_peer_lost(cl->nodes[5].core, CORE_TREE, 4, "killed");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[5].parent, 1);
    expect_served(cl, m, c);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* A request passes a gap in the ring by the tree, and the ring is whole again when its client
 * leaves: the notice of that takes the way of the request. */
START_TEST(notice_past_gap)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *m = module(cl, 5, "m"), *c = client(cl, 2);

    cl_kill(cl, 4);
    cl_sleep(cl, 1.);
    ask_flags(c, "m.x", 5, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    start_again(cl, 4);
    cl_sleep(cl, 1.);
    party_leave(c);
    cl_pump(cl);
    ck_assert_uint_gt(m->n, 1);
    for (size_t i = 1; i < m->n; i++)
        ck_assert_str_eq(flux_msg_topic(m->kept[i]), "m.disconnect");
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        one,         idempotent, idempotent_large, held_for_the_dead, noticed_late, closed_first,
        in_vain,     root_dies,  leave_idempotent, leave_closed,      named_late,   cut_off,
        waits_above, outrun,     notice_past_gap,  canceled};
    TCase *tc = tcase_create("core_requests");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    return run_case("core_requests", tc);
}
