/* check_link.c - messages and events between links, over UNIX sockets and over TCP with CURVE:
 * batches, full queues, losses. */
#include "link_bed.h"
#include "broker/link/test/common.h"

START_TEST(test_batch)
{
    const uint32_t count = 20000;

    queue_max = count;
    start_all(2, "flat", _i, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    for (uint32_t i = 1; i <= count; i++)
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, i, i % 100, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], count, PATIENCE));
    ck_assert(node[0].core.ordered);
    ck_assert_uint_eq(link_of(1)->stats.msgs_out, count);
    ck_assert_uint_lt(link_of(1)->stats.frames_out, count / 100);
    /* One that is larger than a frame. */
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 0, 5000000, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], count + 1, PATIENCE));
    ck_assert_uint_ge(node[0].core.bytes, 5000000);
}
END_TEST

/* A child that reads no events does not hold up its sibling. */
START_TEST(test_slow_child)
{
    void *ctx = zmq_ctx_new(), *s = zmq_socket(ctx, ZMQ_SUB);
    int zero = 0, one = 1;
    errmsg_t err = {""};

    /* A child that reads nothing sends no sign of life: on a slow host it would be lost before it
     * is full. */
    silent_for(60.);
    create(0, 3, "flat", false);
    create(1, 3, "flat", false);
    create(2, 3, "flat", false);
    bind_node(0, true);
    bind_node(1, true);
    bind_node(2, true);
    connect_node(0);
    connect_node(1);
    ck_assert_int_eq(link_start(node[0].link, &err), 0);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(s, ZMQ_RCVHWM, &one, sizeof(one));
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "up.2.696e747275646572", 21);
    ck_assert_int_eq(zmq_connect(s, link_event_uri(node[0].link)), 0);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    for (unsigned i = 0; i < 60; i++) { /* 60 MB: more than sockets and queues between them hold */
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "much");
        ck_assert_int_eq(flux_msg_take_raw(msg, calloc(1, 1000001), 1000000), 0);
        for (unsigned k = 0; k < 5; k++)
            node[0].core.ops->publish(node[0].core.arg, msg);
        flux_msg_destroy(msg);
        ck_assert(run_until(&node[1].core.got[CORE_EVENT], 5 * (i + 1), PATIENCE));
    }
    ck_assert_uint_gt(link_of(0)->stats.event_skips, 0);
    ck_assert_uint_eq(node[0].core.skipped, link_of(0)->stats.event_skips);
    zmq_close(s);
    zmq_ctx_term(ctx);
}
END_TEST

/* A child that has stopped is lost, whatever waits for it, although its connections are open:
 * ZeroMQ's threads in the test keep them alive. */
START_TEST(test_silent_child)
{
    void *ctx = zmq_ctx_new(), *s;

    silent_for(1.);
    two_of_three();
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1intruder", LINK_ID_SIZE);
    zmq_send(s, "", 0, 0);
    if (_i) {
        while (send_from(0, CORE_TREE, 1, 0, 10, true) < 0)
            run_for(0.01);
        for (int i = 0; i < 30; i++) /* more than ZeroMQ and the kernel take */
            ck_assert_int_eq(send_from(0, CORE_TREE, 1, 0, 1000000, true), 0);
    }
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    zmq_close(s);
    zmq_ctx_term(ctx);
}
END_TEST

/* A child is slow before it is lost, and no longer when it is heard. */
START_TEST(test_slow)
{
    void *ctx = zmq_ctx_new(), *s;

    silent_for(6.);
    live.slow = 0.3;
    live.probe = 0.1;
    two_of_three();
    s = intruder(ctx, node[1].key.pub, node[1].key.sec, "T\0\0\0\1intruder", LINK_ID_SIZE);
    zmq_send(s, "", 0, 0);
    ck_assert(run_until(&node[0].core.slow[CORE_TREE][1], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    zmq_send(s, "", 0, 0);
    ck_assert(run_until(&node[0].core.heard[CORE_TREE][1], 1, PATIENCE));
    zmq_close(s);
    zmq_ctx_term(ctx);
}
END_TEST

/* The next broker of the ring stops before it has sent anything: ZeroMQ's thread, which goes on,
 * has completed the handshake. */
START_TEST(test_ring_never_heard)
{
    errmsg_t err = {""};

    silent_for(1.);
    for (uint32_t i = 0; i < 3; i++)
        create(i, 3, "chain", false);
    for (uint32_t i = 0; i < 3; i++)
        bind_node(i, true);
    connect_node(1);
    ck_assert_int_eq(link_start(node[1].link, &err), 0);
    ck_assert(run_until(&node[1].core.lost[CORE_RING][2], 1, PATIENCE));
    ck_assert_uint_eq(node[1].core.lost[CORE_TREE][2], 0); /* the core's join_timeout is for that */
}
END_TEST

/* A broker that waits for its ring successor at an address where nobody listens, or (1) knows no
 * address of it, is told another one. */
START_TEST(test_ring_readdressed)
{
    const struct core_link_ops *ops = transport->ops;
    const char *tree, *old = _i ? "" : "tcp://127.0.0.1:1";
    errmsg_t err = {""};

    for (uint32_t i = 0; i < 3; i++)
        create(i, 3, "flat", true);
    for (uint32_t i = 0; i < 3; i++)
        bind_node(i, true);
    for (uint32_t i = 0; i < 3; i++)
        allow_all(i);
    ck_assert_int_eq(ops->connect(node[1].link, CORE_RING, 2, old, NULL, node[2].key.pub, &err), 0);
    connect_node(0);
    connect_node(2);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(ops->start(node[i].link, &err), 0);
    tree = ops->tree_uri(node[2].link);
    ck_assert_int_eq(ops->again(node[1].link, CORE_RING, 2, old), -1);
    ck_assert_int_eq(ops->again(node[1].link, CORE_RING, 2, NULL), -1);
    if (_i == 0)
        ck_assert_int_eq(ops->again(node[1].link, CORE_RING, 2, tree), 0);
    ck_assert_int_eq(ops->again(node[1].link, CORE_RING, 2, tree), -1); /* not reported yet */
    ck_assert(run_until(&node[1].core.lost[CORE_RING][2], 1, PATIENCE));
    ck_assert_int_eq(ops->again(node[1].link, CORE_RING, 2, tree), 0);
    ck_assert_int_eq(send_from(1, CORE_RING, 2, 0, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_RING], 1, PATIENCE));
}
END_TEST

static void move_is_lost(const struct control_card *card, unsigned times)
{
    errmsg_t err = {""};

    ck_assert_msg(transport->ops->move(node[2].link, card, &err) == 0, "%s", err.text);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][card->rank], times, PATIENCE));
}

/* A broker whose parent has ended connects to the one above it, if that knows its key, and the core
 * there takes it. */
START_TEST(test_moved)
{
    struct control_card card = {.rank = 0}, other;
    bool curve = _i == 0;
    char tree[100], event[100];
    errmsg_t err = {""};
    uint64_t misclaimed;

    start_all(4, "chain", true, curve);
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(transport->ops->card(node[1].link, &card), 0);
    snprintf(tree, sizeof(tree), "%s", card.tree);
    snprintf(event, sizeof(event), "%s", card.event);
    end_node(1);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 1, PATIENCE));
    /* Nobody listens there. */
    other = (struct control_card){1, tree, event, node[1].key.pub, ""};
    move_is_lost(&other, 2);
    ck_assert_int_eq(transport->ops->card(node[0].link, &card), 0);
    ck_assert_str_eq(card.key, curve ? node[0].key.pub : "");
    /* The key is not known, or that of another rank, or the core does not take the rank. */
    if (curve) {
        node[0].core.adopts = 2;
        move_is_lost(&card, 1);
        ck_assert(was_logged(0, "is not that of a neighbor"));
        node[0].core.keys[1] = node[2].key.pub;
        move_is_lost(&card, 2);
        ck_assert(was_logged(0, "is not taken over"));
        node[0].core.adopts = 0;
    }
    node[0].core.keys[2] = node[2].key.pub;
    misclaimed = link_of(0)->stats.misclaimed;
    move_is_lost(&card, curve ? 3 : 1);
    ck_assert(was_logged(0, "is not taken over"));
    ck_assert_uint_gt(link_of(0)->stats.misclaimed, misclaimed);
    node[0].core.adopts = 2;
    /* The key is not that of the broker there. */
    other = card;
    other.key = node[1].key.pub;
    if (curve)
        move_is_lost(&other, 4);
    /* All is right, and it has tried before, when rank 0 was busy: the later connection counts. */
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(transport->ops->move(node[2].link, &card, &err) == 0, "%s", err.text);
        if (i == 1)
            ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    }
    ck_assert_int_eq(send_from(2, CORE_TREE, 0, 1, 100000, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.last_from, 2);
    ck_assert_int_eq(send_from(0, CORE_TREE, 2, 1, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_now[2], 1, PATIENCE));
    publish(0, "some.thing");
    ck_assert(run_until(&node[2].core.got[CORE_EVENT], 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.lost[CORE_TREE][0], curve ? 4 : 1);
    /* One that is connected, and was welcomed, does not give way. */
    node[0].core.adopts = 0;
    node[0].core.lost[CORE_TREE][2] = 0;
    end_node(2);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    /* A card that is none. */
    other.event = "";
    ck_assert_int_eq(transport->ops->move(node[0].link, &other, &err), -1);
    other.key = "short";
    ck_assert_int_eq(transport->ops->move(node[0].link, &other, &err), -1);
    ck_assert_str_ne(err.text, "");
}
END_TEST

/* In the place of rank 1 of a chain, the test has the sockets of a parent. */
struct parent {
    void *ctx;
    void *tree;
    void *events;
};

/* Rank 2 connects to it; rank 0 is there, too. */
static void parent_create(struct parent *p)
{
    char tree[100], event[100];
    size_t len = sizeof(tree);
    errmsg_t err = {""};
    int zero = 0;

    p->ctx = zmq_ctx_new();
    for (uint32_t i = 0; i < 3; i++)
        create(i, 3, "chain", false);
    for (uint32_t i = 0; i < 3; i++)
        bind_node(i, true);
    p->tree = zmq_socket(p->ctx, ZMQ_ROUTER);
    p->events = zmq_socket(p->ctx, ZMQ_XPUB);
    zmq_setsockopt(p->tree, ZMQ_LINGER, &zero, sizeof(zero));
    zmq_setsockopt(p->events, ZMQ_LINGER, &zero, sizeof(zero));
    ck_assert_int_eq(zmq_bind(p->tree, "tcp://127.0.0.1:*"), 0);
    ck_assert_int_eq(zmq_bind(p->events, "tcp://127.0.0.1:*"), 0);
    ck_assert_int_eq(zmq_getsockopt(p->tree, ZMQ_LAST_ENDPOINT, tree, &len), 0);
    len = sizeof(event);
    ck_assert_int_eq(zmq_getsockopt(p->events, ZMQ_LAST_ENDPOINT, event, &len), 0);
    ck_assert_int_eq(transport->ops->connect(node[2].link, CORE_TREE, 1, tree, event, NULL, &err),
                     0);
    for (int i = 0; i < 3; i += 2)
        ck_assert_int_eq(link_start(node[i].link, &err), 0);
}

static void parent_close(struct parent *p)
{
    zmq_close(p->tree);
    zmq_close(p->events);
    zmq_ctx_term(p->ctx);
}

/* Time passes; the child gets a word on the tree if it has sent one.  Returns whether it has. */
static bool parent_answers(struct parent *p)
{
    char id[LINK_ID_SIZE], word[4];

    run_for(0.01);
    if (zmq_recv(p->tree, id, sizeof(id), ZMQ_DONTWAIT) != LINK_ID_SIZE)
        return false;
    zmq_recv(p->tree, word, sizeof(word), 0);
    zmq_send(p->tree, id, sizeof(id), ZMQ_SNDMORE);
    zmq_send(p->tree, "", 0, 0);
    return true;
}

/* The parent stands still, with its host: nothing tells of that but silence. */
START_TEST(test_moved_from_silence)
{
    struct parent p;
    struct control_card card;
    errmsg_t err = {""};

    silent_for(0.5);
    parent_create(&p);
    while (!parent_answers(&p))
        ;
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 1, PATIENCE));
    node[0].core.adopts = 2;
    ck_assert_int_eq(transport->ops->card(node[0].link, &card), 0);
    card.rank = 0;
    ck_assert_int_eq(transport->ops->move(node[2].link, &card, &err), 0);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert_int_eq(send_from(2, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    run_for(0.1);
    ck_assert_uint_eq(node[2].core.lost[CORE_TREE][0], 0);
    parent_close(&p);
}
END_TEST

/* The parent answers on the tree, but its events stop, and both connections stay open: it is slow,
 * no longer when an event comes (1), and lost.  A parent whose events come, if only as signs of
 * life, is neither. */
START_TEST(test_silent_events)
{
    const unsigned *lost = &node[2].core.lost[CORE_TREE][1];
    const unsigned *slow = &node[2].core.slow[CORE_TREE][1];
    const unsigned *heard = &node[2].core.heard[CORE_TREE][1];
    struct parent p;

    silent_for(_i ? 6. : 3.);
    live.slow = live.lost / 2.;
    live.probe = live.lost / 6.;
    parent_create(&p);
    for (unsigned answers = 0; answers < 9;) { /* it asks six times before a parent is lost */
        answers += parent_answers(&p);
        zmq_send(p.events, "", 0, ZMQ_DONTWAIT);
        ck_assert_uint_eq(*slow, 0);
    }
    for (unsigned i = 0; i < 100 * PATIENCE && *slow == 0; i++)
        parent_answers(&p);
    ck_assert_uint_eq(*slow, 1);
    ck_assert_uint_eq(*heard, 0);
    if (_i) {
        zmq_send(p.events, "", 0, ZMQ_DONTWAIT);
        for (unsigned i = 0; i < 100 * PATIENCE && *heard == 0; i++)
            parent_answers(&p);
        ck_assert_uint_eq(*heard, 1);
        ck_assert_uint_eq(*lost, 0);
    }
    for (unsigned i = 0; i < 100 * PATIENCE && *lost == 0; i++)
        parent_answers(&p);
    ck_assert_uint_eq(*lost, 1);
    ck_assert_uint_eq(*slow, _i ? 2 : 1);
    ck_assert_ptr_nonnull(strstr(node[2].core.why, "no event and no sign of life came for"));
    parent_close(&p);
}
END_TEST

START_TEST(test_errors)
{
    struct link_config cfg = {.curve = true, .public_key = "short", .secret_key = "short"};
    errmsg_t err = {""};
    core_t c = {.r = reactor, .topo = topology_create("flat", 3, NULL)};
    link_t *l;

    ck_assert_ptr_null(transport_zmq.create(&c, &cfg, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_ne(err.text, "");
    cfg.curve = false;
    l = transport_zmq.create(&c, &cfg, &err);
    ck_assert_ptr_nonnull(l);
    ck_assert_ptr_null(link_tree_uri(l));
    ck_assert_int_eq(link_bind(l, "not-an-address", "ipc:///x", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "not-an-address"));
    ck_assert_int_eq(link_allow(l, 7, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 7"));
    link_destroy(l);
    link_destroy(NULL);
    /* An address in use. */
    create(0, 2, "flat", false);
    create(1, 2, "flat", false);
    bind_node(0, true);
    ck_assert_int_eq(
        link_bind(node[1].link, link_tree_uri(node[0].link), "tcp://127.0.0.1:*", &err), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    topology_destroy(c.topo);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("link");

    add_common(tc, 2);
    tcase_add_loop_test(tc, test_batch, 0, 2);
    tcase_add_test(tc, test_slow_child);
    tcase_add_loop_test(tc, test_silent_child, 0, 2);
    tcase_add_test(tc, test_slow);
    tcase_add_test(tc, test_ring_never_heard);
    tcase_add_loop_test(tc, test_ring_readdressed, 0, 2);
    tcase_add_loop_test(tc, test_moved, 0, 2);
    tcase_add_test(tc, test_moved_from_silence);
    tcase_add_loop_test(tc, test_silent_events, 0, 2);
    tcase_add_test(tc, test_errors);
    return run_case("link", tc);
}
