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
    zmq_setsockopt(s, ZMQ_SUBSCRIBE, "up.2", 4);
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
    tcase_add_test(tc, test_errors);
    return run_case("link", tc);
}
