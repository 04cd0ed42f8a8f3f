/* check_core_heal.c - subtrees that lose the broker above them, and live. */
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
    party_free(c3);
    party_free(c0);
    party_free(m0);
    party_free(m3);
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
    party_free(c3);
    party_free(c0);
    party_free(c5);
    party_free(m0);
    party_free(m1);
    party_free(m3);
    party_free(own);
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
    party_free(c0);
    party_free(m3);
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
    ck_assert_uint_eq(m3->n, 1);
    answer(m3, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c0, 1, 0, NULL);
    cl_free(cl);
    party_free(c0);
    party_free(m3);
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
    party_free(c3);
    party_free(m0);
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
    party_free(c3);
    party_free(m0);
}
END_TEST

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
        party_free(s[0]);
        party_free(s[1]);
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
    expect_running(cl);
    expect_routes(cl);
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
    party_free(c);
    party_free(c2);
    party_free(m0);
    party_free(m2);
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
    party_free(c);
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
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, "overlay.ready");
    char known[41];

    strcpy(known, core_key_of(cl->nodes[0].core, 2));
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    flux_msg_set_json(msg, "{\"ranks\":\"1-2\",\"keys\":\"short\"}");
    core_link_input(cl->nodes[0].core, CORE_TREE, 1, msg);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "cannot read the public keys"));
    ck_assert_str_eq(core_key_of(cl->nodes[0].core, 2), known);
    cl_free(cl);
}
END_TEST

/* The dead broker is started again: it is a leaf, and what was below it stays where it is. */
START_TEST(again)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    start_again(cl, 1);
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
    flux_msg_t *msg;

    cl->nodes[0].full = true;
    cl_kill(cl, 1);
    msg = flux_msg_create(FLUX_MSG_CONTROL, "overlay.refused");
    ck_assert_int_eq(flux_msg_set_json(msg, "{\"reason\":\"you are late\"}"), 0);
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    core_link_input(nd->core, CORE_TREE, 1, msg);
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
    core_endpoint_remove(c->ep, 0, "");
    party_free(c);
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

/* A broker that leaves takes its subtree with it, but not what has moved away. */
START_TEST(leave)
{
    struct cluster *cl = cl_up(7, "kary:2");

    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    start_again(cl, 1);
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
    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    start_again(cl, 1);
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
    expect_running(cl);
    expect_routes(cl);
    cl_free(cl);
    party_free(sub);
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
    party_free(m);
    party_free(c);
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
    party_free(m);
    party_free(c);
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
    expect_running(cl);
    expect_routes(cl);
    cl_free(cl);
    party_free(m);
    party_free(c);
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
    for (unsigned step = 0; step < 12; step++) {
        uint32_t r = 1 + next(&seed) % (MAX_NODES - 1);
        struct node *nd = &cl->nodes[r];
        uint32_t up = topology_parent(core_topology(cl->nodes[0].core), r);

        if (!nd->dead) {
            cl_kill(cl, r);
            for (uint64_t n = next(&seed) % 20; n > 0; n--)
                cl_step(cl);
            if (next(&seed) % 2)
                cl_sleep(cl, (double)(next(&seed) % 700) / 100.);
        } else if (!cl->nodes[up].dead && core_state(cl->nodes[up].core) == CORE_RUN) {
            cl_sleep(cl, 1.);
            start_again(cl, r);
            cl_sleep(cl, 1.);
        }
        publish(cl);
    }
    cl_sleep(cl, 2. * TIMEOUT + 1.);
    expect_running(cl);
    for (uint32_t r = 0; r < cl->size; r++) {
        ck_assert_int_eq(idset_test(core_ranks_up(cl->nodes[0].core), r), !cl->nodes[r].dead);
        if (!cl->nodes[r].dead)
            ck_assert_uint_eq(core_event_seq(cl->nodes[r].core), core_event_seq(cl->nodes[0].core));
    }
    expect_routes(cl);
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
    party_free(m);
    party_free(c);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        one,           events,     several,          in_vain,           late,         before_run,
        before_others, again,      two_again,        refused,           tries_again,  refused_below,
        leave,         idempotent, idempotent_large, held_for_the_dead, noticed_late, closed_first,
        keys,          bad_keys,   cut_off,          leave_idempotent,  named_late,   leave_moved,
        leave_closed,  root_dies,  of_another_start};
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
