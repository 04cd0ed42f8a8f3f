/* Tests that each link passes. */
#ifndef LINK_COMMON_H
#define LINK_COMMON_H

#include "broker/link/test/bed.h"
#include "libutil/test/suite.h"

/* Odd loop indexes are for addresses of TCP; for the mixed link they mean hosts of their own. */
/* Send messages of every kind along every path. */
static void exchange(void)
{
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.last_from, 1);
    ck_assert_str_eq(node[0].core.last_topic, "check.link");
    ck_assert_int_eq(send_from(0, CORE_TREE, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
    publish(0, "news");
    ck_assert(run_until(&node[1].core.got[CORE_EVENT], 1, PATIENCE));
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 1, PATIENCE));
    ck_assert_str_eq(node[2].core.last_topic, "news");
    ck_assert_int_eq(send_from(1, CORE_RING, 2, 1, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.last_from, 1);
    ck_assert_int_eq(send_from(2, CORE_RING, 1, 2, 10, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_uint_eq(node[1].core.last_from, 2);
    /* A neighbor that does not exist, and one that has not connected yet. */
    ck_assert_int_eq(send_from(1, CORE_TREE, 2, 1, 10, false), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
}

START_TEST(test_exchange)
{
    start_all(3, "flat", _i & 1, _i & 2);
    exchange();
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(node[i].core.event_up[i], 0);
}
END_TEST

START_TEST(test_ring_of_two)
{
    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 1, 1, false), 0);
    ck_assert(run_until(&node[1].core.got[CORE_RING], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_RING, 0, 1, 1, true), 0);
    ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
}
END_TEST

START_TEST(test_full)
{
    unsigned sent = 0;
    uint32_t tag = 1;

    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    /* The reactor does not run, so the queues below fill, and then that of the link. */
    while (send_from(1, CORE_TREE, 0, tag, 50000, false) == 0) {
        tag++;
        ck_assert_uint_lt(++sent, 20000);
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_ge(sent, queue_max);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, tag++, 100, true), 0); /* may not be refused */
    ck_assert(run_until(&node[1].core.writable, 1, PATIENCE));
    ck_assert(run_until(&node[0].core.got[CORE_TREE], sent + 1, PATIENCE));
    ck_assert(node[0].core.ordered);
    ck_assert_uint_eq(node[1].core.writable, 1);
}
END_TEST

/* Messages that make no full frame fill the queue, and one that may not be refused takes them all
 * along. */
START_TEST(test_full_of_small)
{
    uint32_t tag = 1;

    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    while (send_from(1, CORE_TREE, 0, tag, 10, false) == 0)
        ck_assert_uint_le(++tag, queue_max + 1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, tag, 100000, true), 0);
    ck_assert(run_until(&node[1].core.writable, 1, PATIENCE));
    ck_assert(run_until(&node[0].core.got[CORE_TREE], tag, PATIENCE));
    ck_assert(node[0].core.ordered);
    ck_assert_uint_eq(node[1].core.writable, 1);
}
END_TEST

START_TEST(test_backlog_is_cut)
{
    unsigned sent = 0;

    start_all(2, "flat", false, false);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    while (send_from(1, CORE_TREE, 0, 0, 1000000, true) == 0)
        ck_assert_uint_lt(++sent, 1000);
    ck_assert_int_eq(errno, EHOSTUNREACH);
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][0], 0); /* not from within send */
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_str_ne(node[1].log, "");
}
END_TEST

START_TEST(test_child_lost)
{
    start_all(3, "flat", _i, true);
    exchange();
    end_node(2);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.lost[CORE_RING][2], 1, PATIENCE));
    ck_assert_int_eq(send_from(0, CORE_TREE, 2, 1, 10, true), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
    run_for(0.2);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 1);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    /* The others go on. */
    publish(0, "more");
    ck_assert(run_until(&node[1].core.got[CORE_EVENT], 2, PATIENCE));
}
END_TEST

/* Another broker takes the place of a lost child, and of its neighbor on the ring. */
START_TEST(test_child_back)
{
    start_all(3, "flat", false, true);
    exchange();
    for (unsigned n = 1; n < 4; n++) {
        end_node(2);
        ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], n, PATIENCE));
        ck_assert(run_until(&node[0].core.lost[CORE_RING][2], n, PATIENCE));
        ck_assert(run_until(&node[1].core.lost[CORE_RING][2], n, PATIENCE));
        ck_assert_uint_eq(node[0].core.back[CORE_TREE][2], n - 1);
        start_again(2, "flat", true);
        ck_assert_int_eq(node[1].core.ops->again(node[1].core.arg, CORE_RING, 2, NULL), 0);
        ck_assert_int_eq(node[1].core.ops->again(node[1].core.arg, CORE_RING, 2, NULL), -1);
        ck_assert(run_until(&node[0].core.back[CORE_TREE][2], n, PATIENCE));
        ck_assert(run_until(&node[0].core.back[CORE_RING][2], n, PATIENCE));
        ck_assert(run_until(&node[0].core.event_up[2], n + 1, PATIENCE));
        node[0].core.got[CORE_TREE] = node[0].core.got[CORE_RING] = 0;
        node[1].core.got[CORE_EVENT] = 0;
        ck_assert_int_eq(send_from(2, CORE_TREE, 0, 0, 10, false), 0);
        ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
        ck_assert_int_eq(send_from(0, CORE_TREE, 2, 0, 10, false), 0);
        ck_assert(run_until(&node[2].core.got[CORE_TREE], 1, PATIENCE));
        publish(0, "news");
        ck_assert(run_until(&node[1].core.got[CORE_EVENT], 1, PATIENCE));
        ck_assert(run_until(&node[2].core.got[CORE_EVENT], 1, PATIENCE));
        ck_assert_int_eq(send_from(2, CORE_RING, 0, 0, 10, false), 0);
        ck_assert(run_until(&node[0].core.got[CORE_RING], 1, PATIENCE));
        ck_assert_int_eq(send_from(1, CORE_RING, 2, 0, 10, false), 0);
        ck_assert(run_until(&node[2].core.got[CORE_RING], 1, PATIENCE));
    }
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][0], 0);
}
END_TEST

/* The successor on the ring comes back with another address. */
START_TEST(test_ring_elsewhere)
{
    const char *tree;

    start_all(3, "flat", _i, true);
    exchange();
    end_node(2);
    ck_assert(run_until(&node[1].core.lost[CORE_RING][2], 1, PATIENCE));
    elsewhere = true;
    start_again(2, "flat", true);
    tree = transport->ops->tree_uri(node[2].link);
    ck_assert_int_eq(node[1].core.ops->again(node[1].core.arg, CORE_RING, 2, tree), 0);
    ck_assert_int_eq(send_from(1, CORE_RING, 2, 0, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_RING], 1, PATIENCE));
    /* It is connected: no other address is better. */
    ck_assert_int_eq(node[1].core.ops->again(node[1].core.arg, CORE_RING, 2, "tcp://127.0.0.1:1"),
                     -1);
}
END_TEST

START_TEST(test_parent_lost)
{
    start_all(3, "chain", _i, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    /* The end of a connection counts only after its handshake, and events have a connection of
     * their own. */
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert_int_eq(send_from(2, CORE_TREE, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.got[CORE_TREE], 1, PATIENCE));
    end_node(1);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert_int_eq(send_from(2, CORE_TREE, 1, 1, 10, true), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
}
END_TEST

/* The core drops a child that does not disconnect by itself. */
START_TEST(test_drop)
{
    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    node[0].core.ops->drop(node[0].core.arg, CORE_TREE, 1);
    ck_assert_int_eq(send_from(0, CORE_TREE, 1, 1, 10, true), -1);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 2, 10, false), 0);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 1); /* nothing more is accepted from it */
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
}
END_TEST

/* The card of a broker, with copies of its addresses. */
struct kept_card {
    struct control_card card;
    char tree[300], event[300], key[60], ticket[60];
};

static inline void keep_card(struct kept_card *k, uint32_t rank)
{
    struct control_card *c = &k->card;

    *c = (struct control_card){.rank = rank};
    ck_assert_int_eq(transport->ops->card(node[rank].link, c), 0);
    snprintf(k->tree, sizeof(k->tree), "%s", c->tree);
    snprintf(k->event, sizeof(k->event), "%s", c->event);
    snprintf(k->key, sizeof(k->key), "%s", c->key);
    snprintf(k->ticket, sizeof(k->ticket), "%s", c->ticket);
    *c = (struct control_card){rank, k->tree, k->event, k->key, k->ticket};
}

/* A message each way between rank 2 and that rank. */
static inline void speaks_with_2(uint32_t rank)
{
    unsigned up = node[rank].core.got[CORE_TREE], down = node[2].core.got[CORE_TREE];

    ck_assert_int_eq(send_from(2, CORE_TREE, rank, 0, 10, false), 0);
    ck_assert(run_until(&node[rank].core.got[CORE_TREE], up + 1, PATIENCE));
    ck_assert_uint_eq(node[rank].core.last_from, 2);
    ck_assert_int_eq(send_from(rank, CORE_TREE, 2, 0, 100000, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_TREE], down + 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.last_from, rank);
}

/* Rank 2, whose parent is rank 1, gets a second parent, rank 0, beside it, and then instead of
 * it. */
static inline void second_parent(void)
{
    struct kept_card up, gone;
    errmsg_t err = {""};

    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    ck_assert(run_until(&node[2].core.event_up[3], 1, PATIENCE));
    speaks_with_2(1);
    keep_card(&up, 0);
    keep_card(&gone, 3);
    end_node(3);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][3], 1, PATIENCE));
    /* Nobody listens there. */
    gone.card.rank = 0;
    if (transport->ops->beside(node[2].link, &gone.card, &err) == 0)
        ck_assert(run_until(&node[2].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.lost[CORE_TREE][1], 0);
    node[2].core.lost[CORE_TREE][0] = 0;
    /* It is dropped before it has taken the place of the other. */
    node[0].core.adopts = 2;
    node[0].core.keys[2] = node[2].key.pub;
    ck_assert_int_eq(transport->ops->beside(node[2].link, &up.card, &err), 0);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    speaks_with_2(0);
    transport->ops->drop(node[2].link, CORE_TREE, 0);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    ck_assert_int_eq(send_from(2, CORE_TREE, 0, 0, 10, false), -1);
    speaks_with_2(1);
    /* Both are neighbors. */
    ck_assert_int_eq(transport->ops->beside(node[2].link, &up.card, &err), 0);
    ck_assert(run_until(&node[0].core.event_now[2], 1, PATIENCE));
    speaks_with_2(0);
    speaks_with_2(1);
    publish(0, "some.thing");
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 1, PATIENCE));
    publish(1, "some.thing");
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 2, PATIENCE));
    /* The earlier one sends no events any longer, and does not miss the reader. */
    transport->ops->quiet(node[1].link, 2);
    transport->ops->swap(node[2].link, 0);
    run_for(0.2);
    publish(1, "some.thing");
    speaks_with_2(1);
    speaks_with_2(0);
    publish(0, "some.thing");
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 3, PATIENCE));
    ck_assert_uint_eq(node[2].core.got[CORE_EVENT], 3);
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][2], 0);
    /* It ends. */
    transport->ops->drop(node[2].link, CORE_TREE, 1);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][2], 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.lost[CORE_TREE][1], 0);
    ck_assert_int_eq(send_from(2, CORE_TREE, 1, 0, 10, false), -1);
    speaks_with_2(0);
    /* And back, and away again: the other one is lost. */
    node[1].core.adopts = 2;
    node[1].core.keys[2] = node[2].key.pub;
    keep_card(&gone, 1);
    ck_assert_int_eq(transport->ops->beside(node[2].link, &gone.card, &err), 0);
    ck_assert(run_until(&node[1].core.event_now[2], 1, PATIENCE));
    transport->ops->quiet(node[0].link, 2);
    transport->ops->swap(node[2].link, 1);
    speaks_with_2(1);
    speaks_with_2(0);
    publish(1, "some.thing");
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 4, PATIENCE));
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 1);
    end_node(0);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][0], 1, PATIENCE));
    speaks_with_2(1);
    end_node(1);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 1, PATIENCE));
    /* An address that is none. */
    gone.card.tree = "nonsense";
    ck_assert_int_eq(transport->ops->beside(node[2].link, &gone.card, &err), -1);
}

START_TEST(test_second_parent)
{
    start_all(4, "chain", _i, true);
    second_parent();
}
END_TEST

/* Neighbors that have nothing to send to each other are not lost. */
START_TEST(test_idle)
{
    silent_for(1.);
    start_all(3, "chain", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    run_for(3.);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            ck_assert_uint_eq(node[i].core.lost[CORE_TREE][k], 0);
            ck_assert_uint_eq(node[i].core.lost[CORE_RING][k], 0);
        }
    }
}
END_TEST

/* `tcp`: 2 if the link has TCP, else 1. */
static inline void add_common(TCase *tc, int tcp)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    for (int i = 0; i < 4; i++)
        if (!(i & 1) || tcp == 2)
            tcase_add_loop_test(tc, test_exchange, i, i + 1);
    tcase_add_test(tc, test_ring_of_two);
    tcase_add_test(tc, test_full);
    tcase_add_test(tc, test_full_of_small);
    tcase_add_test(tc, test_backlog_is_cut);
    tcase_add_loop_test(tc, test_child_lost, 0, tcp);
    tcase_add_test(tc, test_child_back);
    tcase_add_loop_test(tc, test_ring_elsewhere, 0, tcp);
    tcase_add_loop_test(tc, test_parent_lost, 0, tcp);
    tcase_add_test(tc, test_drop);
    tcase_add_test(tc, test_idle);
    tcase_add_loop_test(tc, test_second_parent, 0, tcp);
}

#endif
