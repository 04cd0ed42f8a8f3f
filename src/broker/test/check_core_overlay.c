/* check_core_overlay.c - joining, being ready, losing neighbors and shutting down. */
#include "config.h"
#include <malloc.h>

#include "cluster.h"
#include "libidset/idset.h"
#include "libutil/test/suite.h"

static void expect_ranks(const idset_t *ids, const char *want)
{
    char *s = idset_format(ids, 0);

    ck_assert_str_eq(s, want);
    free(s);
}

/* Every broker says hello, ready and goodbye once, whatever the size. */
START_TEST(up_and_down)
{
    static const char *const shapes[] = {"flat", "chain", "kary:2", "kary:16"};

    for (size_t i = 0; i < 4; i++) {
        for (uint32_t n = 1; n <= 13; n += 3) {
            struct cluster *cl = cl_up(n, shapes[i]);
            char all[16];

            snprintf(all, sizeof(all), n > 1 ? "0-%u" : "%u", n - 1);
            expect_ranks(core_ranks_up(cl->nodes[0].core), all);
            expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
            /* hello, welcome, ready; the event overlay.run goes by the event plane */
            ck_assert_uint_eq(cl->sent[CORE_TREE], 3 * (n - 1));
            ck_assert_uint_eq(cl->sent[CORE_EVENT], n - 1);
            cl->sent[CORE_TREE] = 0;
            core_shutdown(cl->nodes[n - 1].core, 7, "done");
            cl_pump(cl);
            for (uint32_t r = 0; r < n; r++) {
                struct node *nd = &cl->nodes[r];
                ck_assert_int_eq(core_state(nd->core), CORE_EXIT);
                ck_assert_str_eq(nd->states, "wyrdde");
                ck_assert_int_eq(core_exit_code(nd->core), 7);
                ck_assert_str_eq(nd->log, "");
            }
            cl_free(cl);
        }
    }
}
END_TEST

static void record_state(struct node *nd, enum core_state s)
{
    char *order = nd->cl->nodes[0].log; /* nothing else is logged */

    if (s == CORE_EXIT)
        snprintf(order + strlen(order), 8, "%u", nd->rank);
}

START_TEST(children_first)
{
    struct cluster *cl = cl_up(7, "kary:2");
    const char *order = cl->nodes[0].log;

    for (uint32_t i = 0; i < 7; i++)
        cl->nodes[i].on_state = record_state;
    core_shutdown(cl->nodes[0].core, 0, "done");
    cl_pump(cl);
    ck_assert_uint_eq(strlen(order), 7);
    for (uint32_t i = 1; i < 7; i++) {
        char child = (char)('0' + i), parent = (char)('0' + (i - 1) / 2);
        ck_assert(strchr(order, child) < strchr(order, parent));
    }
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(cl->nodes[i].dropped, 2);
    cl_free(cl);
}
END_TEST

/* Whatever the order in which they become ready, the root runs when all are, and gets one report
 * per subtree. */
START_TEST(ready_in_any_order)
{
    for (uint32_t first = 0; first < 7; first++) {
        struct cluster *cl = cl_create(7, "kary:2");

        cl_start(cl);
        for (uint32_t i = 0; i < 7; i++) {
            for (uint32_t k = 0; k < 7; k++)
                ck_assert_int_lt(core_state(cl->nodes[k].core), CORE_RUN);
            core_local_ready(cl->nodes[(first + i) % 7].core);
            cl_pump(cl);
        }
        ck_assert_uint_eq(cl->sent[CORE_TREE], 18);
        for (uint32_t k = 0; k < 7; k++)
            ck_assert_str_eq(cl->nodes[k].states, "wyr");
        cl_free(cl);
    }
}
END_TEST

/* A late rank delays the report of the others by 2 s only. */
START_TEST(ready_late)
{
    struct cluster *cl = cl_create(7, "kary:2");

    cl_start(cl);
    for (uint32_t i = 0; i < 7; i++) {
        if (i != 5)
            core_local_ready(cl->nodes[i].core);
    }
    cl_pump(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-4");
    cl_sleep(cl, 2.5);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4,6");
    cl_sleep(cl, 60.);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "still waiting after 60 s for rank 5:"));
    core_local_ready(cl->nodes[5].core);
    cl_pump(cl);
    for (uint32_t k = 0; k < 7; k++)
        ck_assert_int_eq(core_state(cl->nodes[k].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

/* An invalid hello is refused with the reason, and the child shuts down. */
START_TEST(hello_refused)
{
    static const struct {
        const char *json;
        const char *says;
    } bad[] = {
        {"{\"rank\":1,\"size\":4,\"topology\":\"flat\",\"version\":1}", "size 4"},
        {"{\"rank\":1,\"size\":3,\"topology\":\"chain\",\"version\":1}", "topology chain"},
        {"{\"rank\":2,\"size\":3,\"topology\":\"flat\",\"version\":1}",
         "claims to be rank 2: use the same configuration"},
        {"{\"rank\":1,\"size\":3,\"topology\":\"flat\",\"version\":9}",
         "uses version 1: start the same version of Flux"},
    };

    for (size_t i = 0; i < 4; i++) {
        struct cluster *cl = cl_create(3, "flat");
        ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
        control(cl, 0, 1, "overlay.hello", bad[i].json);
        ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 1 was refused"));
        ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, bad[i].says));
        cl_pump(cl);
        ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, bad[i].says));
        ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
        ck_assert_int_eq(core_exit_code(cl->nodes[1].core), 1);
        ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_WIRED);
        cl_free(cl);
    }
}
END_TEST

/* A second hello of a rank that has joined is refused, without effect on that rank. */
START_TEST(hello_twice)
{
    struct cluster *cl = cl_up(3, "flat");

    control(cl, 0, 1, "overlay.hello",
            "{\"rank\":1,\"size\":3,\"topology\":\"flat\",\"version\":1}");
    cl_pump(cl);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "a rank cannot join twice"));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

/* A root that its successor on the ring refuses, which has another broker of its rank, does not
 * begin a second session.  One that has begun goes on, and so does another rank. */
START_TEST(second_root)
{
    struct cluster *cl = cl_create(3, "flat");
    core_t *c = cl->nodes[0].core;

    ck_assert_int_eq(core_start(c), 0);
    core_local_ready(c);
    core_peer_lost(c, CORE_RING, 1, "it refused this broker: the rank is connected");
    core_rank_taken(c, 1);
    cl_pump(cl);
    ck_assert_ptr_nonnull(
        strstr(cl->nodes[0].log, "rank 0 does not begin a session: rank 1 is in "));
    ck_assert_int_eq(core_state(c), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(c), 1);
    cl_free(cl);

    cl = cl_up(3, "flat");
    core_rank_taken(cl->nodes[0].core, 1);
    core_rank_taken(cl->nodes[1].core, 2);
    cl_pump(cl);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

/* A broker that tries to join repeatedly, and is refused, costs no memory. */
START_TEST(hello_for_ever)
{
    static const char *const bad[] = {
        "{\"rank\":1,\"size\":3,\"topology\":\"flat\",\"version\":1}", /* a second broker */
        "{\"rank\":1,\"size\":3,\"topology\":\"flat\",\"version\":1,\"session\":7}",
        "{\"rank\":1,\"size\":3,\"topology\":\"flat\",\"version\":9}",
        "{\"rank\":2,\"size\":3,\"topology\":\"flat\",\"version\":1}",
        "{\"rank\":1,\"size\":3,\"topology\":\"flat\",\"version\":1,\"below\":\"1\",\"move\":1}",
        "{}",
    };
    struct cluster *cl = cl_up(3, "flat");
    size_t before = 0;

    for (unsigned i = 0; i < 1200; i++) {
        control(cl, 0, 1, "overlay.hello", bad[i % 6]);
        cl_pump(cl);
        if (i == 300)
            before = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, before + 16384);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

START_TEST(bad_control)
{
    static const char *const bad[] = {
        "overlay.ready",    "{\"ranks\":\"2\"}",    /* not in its subtree */
        "overlay.ready",    "{\"ranks\":\"0-99\"}", /* beyond the session */
        "overlay.ready",    "{\"ranks\":\"x\"}",
        "overlay.lost",     "{\"ranks\":\"0\"}",
        "overlay.ready",    "{\"rank\":\"1\"}",
        "overlay.ready",    "[]",
        "overlay.hello",    "{}",
        "event.replay",     "{\"from\":-1}",
        "no.such",          "{}",
        "overlay.shutdown", "{\"rc\":1,\"reason\":\"a child cannot\"}",
    };
    struct cluster *cl = cl_up(3, "flat");

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i += 2) {
        cl->nodes[0].log[0] = '\0';
        control(cl, 0, 1, bad[i], bad[i + 1]);
        ck_assert_msg(cl->nodes[0].log[0] != '\0', "%s %s", bad[i], bad[i + 1]);
    }
    control(cl, 1, 0, "overlay.shutdown", "{\"rc\":1}");
    control(cl, 1, 0, "overlay.goodbye", "{}");
    control(cl, 1, 0, "overlay.welcome", "{\"seq\":77,\"state\":3}"); /* late: ignored */
    cl_pump(cl);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_RUN);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2");
    ck_assert_uint_eq(core_event_seq(cl->nodes[1].core), 1);
    cl_free(cl);
}
END_TEST

/* Their payloads contain `json`. */
static size_t count_events(struct party *p, const char *topic, const char *json)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (flux_msg_type(p->kept[i]) == FLUX_MSG_EVENT &&
            strcmp(flux_msg_topic(p->kept[i]), topic) == 0) {
            const char *text = flux_msg_json(p->kept[i]);
            ck_assert_msg(strstr(text, json) != NULL, "'%s' is not in: %s", json, text);
            n++;
        }
    }
    return n;
}

static struct party *watcher(struct cluster *cl, uint32_t rank)
{
    struct party *p = client(cl, rank);

    ask_flags(p, "event.subscribe", rank, 0, "{\"prefix\":\"overlay.\"}");
    expect_answer(p, 1, 0, "{}");
    return p;
}

/* A lost rank is lost with all ranks below it; the others learn of it by an event. */
START_TEST(lost)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *w = watcher(cl, 4);

    cl_kill(cl, 2);
    cl_pump(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1,3-4");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2,5-6");
    ck_assert_uint_eq(count_events(w, "overlay.down", "{\"ranks\":\"2,5-6\",\"state\":\"lost\""),
                      1);
    party_clear(w);
    cl_kill(cl, 3);
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2-3,5-6");
    expect_ranks(core_ranks_lost(cl->nodes[1].core), "3");
    ck_assert_uint_eq(count_events(w, "overlay.down", "{\"ranks\":\"3\","), 1);
    core_peer_lost(cl->nodes[1].core, CORE_TREE, 3, "again");
    cl_pump(cl);
    ck_assert_uint_eq(w->n, 1);
    /* The orphans serve for a while, then shut down. */
    ck_assert_int_eq(core_state(cl->nodes[5].core), CORE_RUN);
    cl_sleep(cl, 31.);
    ck_assert_int_eq(core_state(cl->nodes[5].core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(cl->nodes[5].core), 1);
    ck_assert(core_parent_gone(cl->nodes[5].core));
    ck_assert_ptr_nonnull(strstr(cl->nodes[5].log, "without its parent, rank 2, for 30 s"));
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_RUN);
    core_shutdown(cl->nodes[4].core, 0, "done");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_EXIT);
    cl_free(cl);
}
END_TEST

/* Those below an orphan end like it: to be started again. */
START_TEST(orphans)
{
    struct cluster *cl = cl_up(4, "chain");

    cl_kill(cl, 1);
    cl_sleep(cl, 31.);
    for (uint32_t r = 2; r < 4; r++) {
        ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_EXIT);
        ck_assert_int_eq(core_exit_code(cl->nodes[r].core), 1);
        ck_assert(core_parent_gone(cl->nodes[r].core));
        ck_assert(!core_left_for_good(cl->nodes[r].core));
        ck_assert(!core_down_announced(cl->nodes[r].core));
    }
    cl_free(cl);
}
END_TEST

/* Lost before it was ready: the others run without it, and are told their number. */
START_TEST(lost_before_run)
{
    for (int early = 0; early < 2; early++) {
        struct cluster *cl = cl_create(7, "kary:2");
        struct party *w = watcher(cl, 3);

        cl_start(cl);
        for (uint32_t i = 0; i < 7; i++) {
            if (i != 5 && i != 2)
                core_local_ready(cl->nodes[i].core);
        }
        cl_pump(cl);
        if (early) {
            core_local_ready(cl->nodes[2].core);
            cl_sleep(cl, 3.);
        }
        cl_kill(cl, 5);
        cl_pump(cl);
        if (!early) {
            ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_WIRED);
            core_local_ready(cl->nodes[2].core);
            cl_pump(cl);
        }
        for (uint32_t i = 0; i < 7; i++) {
            if (i == 5)
                continue;
            ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_RUN);
            ck_assert_str_eq(cl->nodes[i].states, i == 2 && early ? "wr" : "wyr");
        }
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4,6");
        ck_assert_uint_eq(count_events(w, "overlay.run", "{\"up\":6}") +
                              count_events(w, "overlay.down", "{\"ranks\":\"5\","),
                          2);
        cl_free(cl);
    }
}
END_TEST

/* Lost and back before the session runs: it runs with the others. */
START_TEST(back_before_run)
{
    struct cluster *cl = cl_create(3, "flat");
    struct party *w = watcher(cl, 0);

    cl_start(cl);
    core_local_ready(cl->nodes[0].core);
    core_local_ready(cl->nodes[1].core);
    cl_pump(cl);
    cl_kill(cl, 1);
    cl_pump(cl);
    cl_restart(cl, 1);
    cl_pump(cl);
    ck_assert(!core_session_runs(cl->nodes[1].core));
    core_local_ready(cl->nodes[1].core);
    cl_pump(cl);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-1");
    ck_assert_ptr_nonnull(strstr(flux_msg_json(w->kept[w->n - 1]), "\"state\":\"wired\""));
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_READY);
    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_str_eq(cl->nodes[i].states, "wyr");
    cl_free(cl);
}
END_TEST

/* Another broker of a lost rank joins, at any depth, as often as it likes. */
START_TEST(back)
{
    for (uint32_t victim = 2; victim < 7; victim += 4) {
        struct cluster *cl = cl_up(7, "kary:2");
        struct party *w = watcher(cl, 4);
        const char *named = victim == 2 ? "{\"ranks\":\"2\"," : "{\"ranks\":\"6\",";
        uint64_t at = core_event_seq(cl->nodes[0].core);

        for (unsigned n = 1; n <= 3; n++) {
            struct party *c = client(cl, 0);
            struct party *m;

            cl_kill(cl, victim);
            cl_pump(cl);
            party_clear(w);
            cl_restart(cl, victim);
            cl_pump(cl);
            ck_assert_int_eq(core_state(cl->nodes[victim].core), CORE_WIRED);
            ck_assert(idset_test(core_ranks_lost(cl->nodes[0].core), victim));
            ask(c, "m.x", victim); /* on its way while the modules are loaded */
            m = module(cl, victim, "m");
            cl_pump(cl);
            ck_assert_uint_eq(m->n, 1);
            core_local_ready(cl->nodes[victim].core);
            cl_pump(cl);
            ck_assert_int_eq(core_state(cl->nodes[victim].core), CORE_RUN);
            ck_assert(idset_test(core_ranks_up(cl->nodes[0].core), victim));
            ck_assert(!idset_test(core_ranks_lost(cl->nodes[0].core), victim));
            ck_assert_uint_eq(count_events(w, "overlay.up", named), 1);
            ck_assert_ptr_nonnull(strstr(flux_msg_json(w->kept[0]), n == 1 ? "\"incarnation\":2,"
                                                                    : n == 2
                                                                        ? "\"incarnation\":3,"
                                                                        : "\"incarnation\":4,"));
            answer(m, 0, 0, 0, "{}");
            cl_pump(cl);
            expect_answer(c, 1, 0, "{}");
            /* It sees the events of the others from its welcome on, and the ring is whole. */
            at += 2;
            ck_assert_uint_eq(core_event_seq(cl->nodes[victim].core), at);
            ck_assert(cl->nodes[victim - 1].ring_again);
            cl->nodes[victim - 1].ring_again = false;
            cl_sleep(cl, 1.);
            party_leave(c);
            core_endpoint_remove(m->ep, EPIPE, "ended");
            party_free(m);
        }
        cl_sleep(cl, 31.);
        /* Those below an interior broker were lost with it, and come back through it. */
        if (victim == 2) {
            ck_assert_int_eq(core_state(cl->nodes[5].core), CORE_EXIT);
            expect_ranks(core_ranks_lost(cl->nodes[0].core), "5-6");
            party_clear(w);
            for (uint32_t r = 5; r < 7; r++) {
                cl->nodes[r].dead = true;
                cl_restart(cl, r);
                cl_pump(cl);
                core_local_ready(cl->nodes[r].core);
                cl_pump(cl);
                ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_RUN);
            }
            ck_assert_uint_eq(w->n, 2);
        }
        expect_ranks(core_ranks_lost(cl->nodes[0].core), "");
        expect_ranks(core_ranks_up(cl->nodes[0].core), "0-6");
        ck_assert_uint_eq(cl_inflight(cl), 0);
        core_shutdown(cl->nodes[victim].core, 3, "done");
        cl_pump(cl);
        for (uint32_t r = 0; r < 7; r++)
            ck_assert_int_eq(core_state(cl->nodes[r].core), CORE_EXIT);
        cl_free(cl);
    }
}
END_TEST

/* The next incarnation is not welcomed before the loss of the earlier one has been announced, and
 * one that dies before it is ready is lost without another event. */
START_TEST(back_early)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *w = watcher(cl, 1);

    cl_kill(cl, 3);
    cl_restart(cl, 3); /* the news of the loss is on its way to the root */
    while (cl->head && core_state(cl->nodes[3].core) == CORE_JOIN) {
        ck_assert(!idset_test(core_ranks_up(cl->nodes[0].core), 3) || w->n == 1);
        cl_step(cl);
    }
    ck_assert_uint_eq(count_events(w, "overlay.down", "{\"ranks\":\"3\","), 1);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_WIRED);
    cl_kill(cl, 3);
    cl_pump(cl);
    cl_restart(cl, 3);
    cl_pump(cl);
    ck_assert_uint_eq(w->n, 2);
    core_local_ready(cl->nodes[3].core);
    cl_pump(cl);
    ck_assert_uint_eq(w->n, 3);
    ck_assert_ptr_nonnull(strstr(flux_msg_json(w->kept[2]), "\"incarnation\":2,"));
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    /* One that is connected, and up, is not replaced. */
    core_peer_back(cl->nodes[2].core, CORE_TREE, 3);
    control(cl, 2, 3, "overlay.hello",
            "{\"rank\":3,\"size\":4,\"topology\":\"chain\",\"version\":1}");
    cl_pump(cl);
    ck_assert_ptr_nonnull(strstr(cl->nodes[2].log, "a rank cannot join twice"));
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    cl_free(cl);
}
END_TEST

/* Nor for ever: the event that announces the loss may be lost itself. */
START_TEST(back_skipped)
{
    struct cluster *cl = cl_up(4, "chain");
    struct frame *f;

    cl_kill(cl, 3);
    while ((f = cl->head)) { /* the root hears nothing */
        if (!(cl->head = f->next))
            cl->tail = &cl->head;
        flux_msg_destroy(f->msg);
        free(f);
    }
    cl_restart(cl, 3);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_JOIN);
    control(cl, 2, 1, "event.skip",
            "{\"to\":9,\"seq\":9,\"run\":true,\"gone\":\"3\",\"moved\":[]}");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_WIRED);
    ck_assert_uint_eq(core_event_seq(cl->nodes[3].core), 9);
    cl_free(cl);
}
END_TEST

/* What the session counts as lost may be replaced on the ring. */
START_TEST(ring_stale)
{
    struct cluster *cl = cl_up(4, "flat");
    struct party *c;

    ck_assert(!core_peer_stale(cl->nodes[3].core, CORE_RING, 2));
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 2, "it is stopped");
    cl_pump(cl);
    ck_assert(core_peer_stale(cl->nodes[3].core, CORE_RING, 2));
    ck_assert(!core_peer_stale(cl->nodes[3].core, CORE_TREE, 2));
    ck_assert(!core_peer_stale(cl->nodes[3].core, CORE_RING, 1));
    cl->nodes[2].dead = true;
    core_peer_lost(cl->nodes[3].core, CORE_RING, 2, "another broker has taken its place");
    cl_restart(cl, 2);
    cl_pump(cl);
    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    ck_assert(!core_peer_stale(cl->nodes[3].core, CORE_RING, 2));
    /* Rank 1 notices only now that the earlier one is gone. */
    ck_assert(!cl->nodes[1].ring_again);
    core_peer_lost(cl->nodes[1].core, CORE_RING, 2, "the connection was closed");
    cl_pump(cl);
    ck_assert(cl->nodes[1].ring_again);
    c = client(cl, 1);
    ask_flags(c, "m.x", 2, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    expect_answer(c, 1, ENOSYS, "rank 2 has no service");
    cl->nodes[1].ring_again = false;
    core_peer_lost(cl->nodes[1].core, CORE_RING, 2, "the next one ends");
    ck_assert(!cl->nodes[1].ring_again);
    cl_free(cl);
}
END_TEST

/* With boot_timeout the session begins when enough ranks are there, and the others come late. */
START_TEST(absent)
{
    for (int few = 0; few < 2; few++) {
        struct cluster *cl = cl_create_early(4, "flat", 10., 3);
        struct node *root = &cl->nodes[0];
        struct party *w = watcher(cl, 1);

        for (uint32_t i = 0; i < 3; i++)
            ck_assert_int_eq(core_start(cl->nodes[i].core), 0);
        cl_pump(cl);
        for (uint32_t i = 1; i < 3; i++)
            cl_event_links(cl, i);
        for (uint32_t i = 0; i < (few ? 2 : 3); i++)
            core_local_ready(cl->nodes[i].core);
        cl_sleep(cl, 9.);
        ck_assert_int_eq(core_state(root->core), CORE_WIRED);
        cl_sleep(cl, 2.);
        if (few) {
            ck_assert_int_eq(core_state(root->core), CORE_WIRED);
            core_local_ready(cl->nodes[2].core);
            cl_pump(cl);
        }
        ck_assert_int_eq(core_state(root->core), CORE_RUN);
        ck_assert_uint_eq(count_events(w, "overlay.down", "{\"ranks\":\"3\",\"state\":\"absent\""),
                          1);
        ck_assert_uint_eq(count_events(w, "overlay.run", "{\"up\":3}"), 1);
        ck_assert_ptr_nonnull(
            strstr(root->log, "rank 3 has not joined within 10 s (boot.timeout):"));
        party_clear(w);
        ck_assert_int_eq(core_start(cl->nodes[3].core), 0);
        cl_event_links(cl, 3);
        cl_pump(cl);
        core_local_ready(cl->nodes[3].core);
        cl_pump(cl);
        ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
        ck_assert_uint_eq(count_events(w, "overlay.up", "{\"ranks\":\"3\",\"incarnation\":1,"), 1);
        expect_ranks(core_ranks_up(root->core), "0-3");
        cl_free(cl);
    }
}
END_TEST

/* The time has passed, but there are too few: the root says for how many it waits. */
START_TEST(absent_too_many)
{
    struct cluster *cl = cl_create_early(4, "flat", 10., 3);

    ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
    core_local_ready(cl->nodes[0].core);
    cl_sleep(cl, 61.);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_WIRED);
    ck_assert_ptr_nonnull(
        strstr(cl->nodes[0].log,
               "still waiting after 60 s for ranks 1-3: the session begins when at least "
               "3 of its ranks are up (quorum), and 10 s have passed (boot.timeout)"));
    cl_free(cl);
}
END_TEST

/* The session begins while a broker still waits for one below it: it reports itself then. */
START_TEST(absent_below)
{
    struct cluster *cl = cl_create_early(4, "kary:2", 10., 2);

    ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
    ck_assert_int_eq(core_start(cl->nodes[2].core), 0);
    cl_pump(cl);
    cl_event_links(cl, 2);
    core_local_ready(cl->nodes[0].core);
    core_local_ready(cl->nodes[2].core);
    cl_sleep(cl, 9.);
    ck_assert_int_eq(core_start(cl->nodes[1].core), 0);
    cl_event_links(cl, 1);
    core_local_ready(cl->nodes[1].core);
    cl_sleep(cl, 5.);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_RUN);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_RUN);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-2");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3");
    cl_free(cl);
}
END_TEST

/* Requests to ranks that are not there are answered, also by a broker that has never seen them. */
START_TEST(absent_asked)
{
    struct cluster *cl = cl_create_early(5, "kary:2", 10., 3);
    struct party *near = client(cl, 1);
    struct party *far = client(cl, 0);
    struct party *m;

    cl->nodes[3].dead = cl->nodes[4].dead = true;
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(core_start(cl->nodes[i].core), 0);
    cl_pump(cl);
    for (uint32_t i = 0; i < 3; i++) {
        if (i > 0)
            cl_event_links(cl, i);
        core_local_ready(cl->nodes[i].core);
    }
    ask(near, "m.x", 3);
    cl_sleep(cl, 9.);
    ck_assert_uint_eq(near->n, 0);
    cl_sleep(cl, 2.);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_RUN);
    expect_answer(near, 1, EHOSTUNREACH, "rank 3 cannot be reached");
    ask(near, "m.x", 3);
    cl_pump(cl);
    expect_answer(near, 2, EHOSTUNREACH, "rank 3 cannot be reached");
    core_endpoint_remove(near->ep, 0, "");
    cl_kill(cl, 1);
    cl_pump(cl);
    cl_restart(cl, 1);
    cl_pump(cl);
    ask(far, "m.x", 3);
    cl_pump(cl);
    ck_assert_uint_eq(far->n, 0);
    core_local_ready(cl->nodes[1].core);
    cl_pump(cl);
    expect_answer(far, 1, EHOSTUNREACH, "rank 3 cannot be reached");
    cl_restart(cl, 3);
    cl_pump(cl);
    m = module(cl, 3, "m");
    ask(far, "m.x", 3);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    cl_free(cl);
}
END_TEST

/* A broker leaves with those below it, and the session goes on. */
START_TEST(leave)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *w = watcher(cl, 4);

    core_leave(cl->nodes[2].core, 0, "SIGTERM");
    cl_pump(cl);
    for (uint32_t r = 0; r < 7; r++) {
        bool gone = r == 2 || r > 4;

        ck_assert_int_eq(core_state(cl->nodes[r].core), gone ? CORE_EXIT : CORE_RUN);
        ck_assert_int_eq(core_parent_gone(cl->nodes[r].core), r > 4);
        ck_assert_int_eq(core_exit_code(cl->nodes[r].core), r > 4);
        ck_assert_int_eq(core_left_for_good(cl->nodes[r].core), r > 4);
        ck_assert(!core_down_announced(cl->nodes[r].core));
    }
    ck_assert_uint_eq(count_events(w, "overlay.down", "{\"ranks\":\"2,5-6\",\"state\":\"left\""),
                      1);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2,5-6");
    cl->nodes[2].dead = true;
    cl_restart(cl, 2);
    cl_pump(cl);
    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_RUN);
    ck_assert_uint_eq(count_events(w, "overlay.up", "{\"ranks\":\"2\",\"incarnation\":2,"), 1);
    cl_free(cl);
}
END_TEST

/* Who joins a running session knows that it runs, and leaves without ending it.  Those below wait
 * until it is up, and end with it. */
START_TEST(leave_early)
{
    struct cluster *cl = cl_create(4, "chain");

    cl_start(cl);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert(!core_session_runs(cl->nodes[r].core));
    for (uint32_t r = 0; r < 4; r++)
        core_local_ready(cl->nodes[r].core);
    cl_pump(cl);
    for (uint32_t r = 2; r < 4; r++)
        cl_kill(cl, r);
    cl_pump(cl);
    for (uint32_t r = 2; r < 4; r++) {
        cl_restart(cl, r);
        cl_pump(cl);
        ck_assert_int_eq(core_state(cl->nodes[r].core), r == 2 ? CORE_WIRED : CORE_JOIN);
    }
    ck_assert(core_session_runs(cl->nodes[2].core));
    core_leave(cl->nodes[2].core, 7, "its modules cannot be loaded");
    cl_pump(cl);
    ck_assert_int_eq(core_exit_code(cl->nodes[2].core), 7);
    core_peer_lost(cl->nodes[3].core, CORE_TREE, 2, "it has ended");
    cl_pump(cl);
    ck_assert_int_eq(core_exit_code(cl->nodes[3].core), 1);
    ck_assert(!core_left_for_good(cl->nodes[3].core));
    for (uint32_t r = 0; r < 4; r++)
        ck_assert_int_eq(core_state(cl->nodes[r].core), r < 2 ? CORE_RUN : CORE_EXIT);
    cl_free(cl);
}
END_TEST

START_TEST(no_welcome)
{
    struct cluster *cl = cl_create(3, "chain");

    ck_assert_int_eq(core_start(cl->nodes[1].core), 0);
    ck_assert_int_eq(core_start(cl->nodes[2].core), 0);
    cl_sleep(cl, 59.);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_JOIN);
    cl_sleep(cl, 2.);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_EXIT);
        ck_assert_int_eq(core_exit_code(cl->nodes[i].core), 1);
        ck_assert_ptr_nonnull(strstr(cl->nodes[i].log, "giving up"));
    }
    cl_free(cl);
}
END_TEST

/* A child that does not shut down is left behind, and requests to it are answered. */
START_TEST(left_behind)
{
    struct cluster *cl = cl_up(3, "flat");
    struct party *c = client(cl, 0);
    struct party *m = module(cl, 2, "m");
    struct frame *f;

    ask(c, "m.x", 2);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    core_shutdown(cl->nodes[0].core, 0, "done");
    while ((f = cl->head)) { /* rank 2 hears nothing */
        if (f->to == 2) {
            if (!(cl->head = f->next))
                cl->tail = &cl->head;
            flux_msg_destroy(f->msg);
            free(f);
        } else
            cl_step(cl);
    }
    cl_sleep(cl, 9.9); /* twice the grace, one level above the leaves */
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_DOWN);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    ck_assert_uint_eq(c->n, 0);
    cl_sleep(cl, 0.2);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_EXIT);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "rank 2 did not shut down within"));
    expect_answer(c, 1, EHOSTUNREACH, "rank 2");
    cl_free(cl);
}
END_TEST

/* Lost while shutting down, and orphaned before the root could answer. */
START_TEST(lost_going_down)
{
    struct cluster *cl = cl_up(4, "chain");

    core_shutdown(cl->nodes[0].core, 0, "done");
    cl_kill(cl, 1);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[0].core), CORE_EXIT);
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_RUN);
    core_shutdown(cl->nodes[2].core, 5, "orphan");
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(cl->nodes[3].core), 5);
    cl_free(cl);

    cl = cl_up(2, "chain");
    core_shutdown(cl->nodes[1].core, 6, "asked");
    cl_kill(cl, 0);
    cl_pump(cl);
    ck_assert_int_eq(core_state(cl->nodes[1].core), CORE_EXIT);
    ck_assert_int_eq(core_exit_code(cl->nodes[1].core), 6);
    cl_free(cl);
}
END_TEST

/* A child that leaves by itself is lost to the session, and requests to it end. */
START_TEST(goodbye)
{
    struct cluster *cl = cl_up(3, "flat");
    struct party *c = client(cl, 1);
    struct party *m = module(cl, 2, "m");

    ask(c, "m.x", 2);
    cl_pump(cl);
    control(cl, 0, 2, "overlay.goodbye", "{}");
    cl_pump(cl);
    expect_answer(c, 1, EHOSTUNREACH, "rank 2 has left the session");
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "2");
    ck_assert_uint_eq(m->n, 1);
    /* The goodbye was not its own: it learns that it counts as lost, and leaves. */
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_EXIT);
    ck_assert_int_eq(cl->nodes[0].dropped, 2);
    cl_free(cl);
}
END_TEST

int main(void)
{
    RUN_SUITE("core_overlay", up_and_down, children_first, ready_in_any_order, ready_late,
              hello_refused, hello_twice, second_root, hello_for_ever, bad_control, lost, orphans,
              lost_before_run, back_before_run, back, back_early, back_skipped, ring_stale, absent,
              absent_too_many, absent_below, absent_asked, leave, leave_early, no_welcome,
              left_behind, lost_going_down, goodbye);
}
