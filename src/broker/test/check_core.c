/* check_core.c - requests, responses and pending requests, in sessions of a few cores. */
#include "config.h"

#include "libutil/test/suite.h"
#include "src/broker/core_private.h"
#include "cluster.h"

START_TEST(create)
{
    struct core_config cfg;
    errmsg_t err = {""};
    struct cluster *cl = cl_create(1, "kary:16");
    struct node *nd = &cl->nodes[0];

    core_config_init(&cfg);
    cfg.rank = 1;
    ck_assert_ptr_null(core_create(&cfg, cl->r, NULL, NULL, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_ne(err.text, "");
    cfg.size = 0;
    cfg.rank = 0;
    ck_assert_ptr_null(core_create(&cfg, cl->r, NULL, NULL, NULL));
    cfg.size = 4;
    cfg.topology = "round";
    err.text[0] = '\0';
    ck_assert_ptr_null(core_create(&cfg, cl->r, NULL, NULL, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_ne(err.text, "");
    core_destroy(NULL);

    ck_assert_int_eq(core_state(nd->core), CORE_JOIN);
    ck_assert_int_eq(core_start(nd->core), 0);
    ck_assert_int_eq(core_start(nd->core), -1);
    ck_assert_int_eq(errno, EINVAL);
    core_local_ready(nd->core);
    ck_assert_str_eq(nd->states, "wyr");
    ck_assert_uint_eq(core_rank(nd->core), 0);
    ck_assert_uint_eq(core_size(nd->core), 1);
    ck_assert_uint_eq(core_userid(nd->core), 500);
    ck_assert_ptr_eq(core_reactor(nd->core), cl->r);
    ck_assert_uint_eq(core_event_seq(nd->core), 1);
    ck_assert_str_eq(core_state_name((enum core_state)77), "?");
    ck_assert_int_eq(core_service_add_self(nd->core, "kvs"), 0);
    ck_assert_int_eq(core_service_add_self(nd->core, "kvs"), -1);
    ck_assert_int_eq(errno, EEXIST);
    core_shutdown(nd->core, 3, "test");
    ck_assert_str_eq(nd->states, "wyrdde");
    ck_assert_int_eq(core_exit_code(nd->core), 3);
    cl_free(cl);
}
END_TEST

/* A request for any rank goes to the nearest service upward, and the answer back the same way. */
START_TEST(any_rank)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *c = client(cl, 5);
    struct party *here = module(cl, 5, "a");
    struct party *mid = module(cl, 2, "b");
    struct party *top = module(cl, 0, "c");
    struct party *side = module(cl, 1, "d");
    char sender[FLUX_SENDER_MAX];

    ask(c, "a.x", FLUX_NODEID_ANY);
    ck_assert_uint_eq(here->n, 1);
    ck_assert_uint_eq(flux_msg_userid(here->kept[0]), 1000);
    ck_assert_uint_eq(flux_msg_rolemask(here->kept[0]), FLUX_ROLE_OWNER);
    answer(here, 0, 0, 0, "1");
    expect_answer(c, 1, 0, "1");
    ck_assert_uint_eq(flux_msg_matchtag(c->kept[0]), 1);

    ask(c, "b.x", FLUX_NODEID_ANY);
    cl_pump(cl);
    ck_assert_uint_eq(mid->n, 1);
    ck_assert_uint_eq(flux_msg_route_count(mid->kept[0]), 2);
    snprintf(sender, sizeof(sender), "5.%u", c->ep->id);
    char buf[FLUX_SENDER_MAX];
    ck_assert_str_eq(flux_msg_sender(mid->kept[0], buf, sizeof(buf)), sender);
    ck_assert_uint_eq(flux_msg_userid(mid->kept[0]), 1000);
    ask(c, "c.x", FLUX_NODEID_ANY);
    cl_pump(cl);
    ck_assert_uint_eq(top->n, 1);
    ck_assert_str_eq(flux_msg_sender(top->kept[0], buf, sizeof(buf)), sender);
    ck_assert_uint_eq(core_endpoint_inflight(c->ep), 2);
    ck_assert_uint_eq(cl_inflight(cl), 2 + 3);
    answer(top, 0, ENOENT, 0, "none");
    cl_pump(cl);
    expect_answer(c, 2, ENOENT, "none");
    ck_assert_uint_eq(flux_msg_nodeid(c->kept[1]), 0);
    answer(mid, 0, 0, 0, "2");
    cl_pump(cl);
    expect_answer(c, 3, 0, "2");
    ck_assert_uint_eq(cl_inflight(cl), 0);
    ck_assert_uint_eq(core_endpoint_inflight(c->ep), 0);

    /* only beside, not above */
    ask(c, "d.x", FLUX_NODEID_ANY);
    cl_pump(cl);
    expect_answer(c, 4, ENOSYS, "no broker up to rank 0 has a service 'd'");
    ask(c, "d.x", 5);
    expect_answer(c, 5, ENOSYS, "rank 5 has no service 'd': load module 'd' there");
    ask(c, "d", 2);
    cl_pump(cl);
    expect_answer(c, 6, ENOSYS, "rank 2 has no service 'd'");
    ask(c, "d.x", 1);
    cl_pump(cl);
    ck_assert_uint_eq(side->n, 1);
    ck_assert_uint_eq(flux_msg_route_count(side->kept[0]), 4);
    answer(side, 0, 0, 0, "3");
    cl_pump(cl);
    expect_answer(c, 7, 0, "3");
    ask(c, "d.x", 7);
    expect_answer(c, 8, EHOSTUNREACH, "rank 7 does not exist: the session has ranks 0-6");
    ask(c, "d.x", FLUX_RANK_MAX);
    expect_answer(c, 9, EHOSTUNREACH, "does not exist");
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

START_TEST(upstream)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *s[7];
    size_t n = 0;

    for (uint32_t i = 0; i < 7; i++)
        s[i] = i == 2 ? NULL : module(cl, i, "s");
    ask_flags(s[5], "s.up", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    /* rank 2 has none: the next above */
    ck_assert_uint_eq(s[0]->n, 1);
    ck_assert(!flux_msg_has_flag(s[0]->kept[0], FLUX_MSGF_UPSTREAM));
    answer(s[0], 0, 0, 0, "1");
    ask_flags(s[3], "s.up", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(s[1]->n, 1);
    expect_answer(s[5], 1, 0, "1");
    ask_flags(s[0], "s.up", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    expect_answer(s[0], 2, ENOSYS, "service 's'");
    ask_flags(s[4], "s.up", 0, FLUX_MSGF_UPSTREAM, NULL);
    expect_answer(s[4], 1, EINVAL, "upstream request cannot name a rank");
    for (uint32_t i = 0; i < 7; i++)
        n += s[i] ? s[i]->n : 0;
    ck_assert_uint_eq(n, 5);
    cl_free(cl);
}
END_TEST

START_TEST(ring)
{
    struct cluster *cl = cl_up(5, "kary:2");
    struct party *c = client(cl, 2);
    struct party *m = module(cl, 1, "m");
    struct party *self = module(cl, 2, "n");
    unsigned before = cl->sent[CORE_RING];
    unsigned tree = cl->sent[CORE_TREE];

    ask_flags(c, "m.x", 1, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    ck_assert_uint_eq(cl->sent[CORE_RING] - before, 4); /* 3, 4, 0, 1 */
    ck_assert_uint_eq(flux_msg_route_count(m->kept[0]), 5);
    answer(m, 0, 0, 0, "1");
    cl_pump(cl);
    expect_answer(c, 1, 0, "1");
    ck_assert_uint_eq(cl->sent[CORE_RING] - before, 8);
    ck_assert_uint_eq(cl->sent[CORE_TREE], tree);
    ask_flags(c, "n.x", 2, FLUX_MSGF_RING, NULL);
    ck_assert_uint_eq(self->n, 1);
    ck_assert_uint_eq(cl_inflight(cl), 1);
    cl_free(cl);
}
END_TEST

/* When a broker is lost, the notice that its clients are gone takes the way of their requests. */
START_TEST(notice_on_ring)
{
    struct cluster *cl = cl_up(5, "kary:2");
    struct party *c = client(cl, 2);
    struct party *m = module(cl, 1, "m");
    unsigned before = cl->sent[CORE_RING];

    ask_flags(c, "m.x", 1, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    cl_kill(cl, 2);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 2);
    ck_assert_str_eq(flux_msg_topic(m->kept[1]), "m.disconnect");
    ck_assert_uint_eq(cl->sent[CORE_RING] - before, 7); /* 3, 4, 0, 1; 4, 0, 1 */
    cl_free(cl);
}
END_TEST

/* Where the tree is broken, requests take the ring. */
START_TEST(around_a_loss)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c = client(cl, 0);

    module(cl, 4, "m");
    cl_kill(cl, 2);
    cl_pump(cl);
    ask(c, "m.x", 4);
    cl_pump(cl);
    /* 1 has lost its child 2, which is also its ring neighbor */
    expect_answer(c, 1, EHOSTUNREACH, "rank 4 cannot be reached");
    ask(c, "m.x", 2);
    cl_pump(cl);
    expect_answer(c, 2, EHOSTUNREACH, "rank 2 cannot be reached: rank 1 has no route to it");
    ck_assert_uint_eq(cl_inflight(cl), 0);
    /* 4 is next to 0 on the ring, the other way round */
    struct party *d = client(cl, 4);
    struct party *n = module(cl, 1, "n");
    ask(d, "n.x", 1);
    cl_pump(cl);
    ck_assert_uint_eq(n->n, 1);
    answer(n, 0, 0, 0, "here");
    cl_pump(cl);
    expect_answer(d, 1, 0, "here");
    ask(d, "n.x", FLUX_NODEID_ANY);
    cl_pump(cl);
    expect_answer(d, 2, EHOSTUNREACH, "rank 3 has lost its parent, rank 2");
    cl_free(cl);
}
END_TEST

/* The tree closes the gap that a lost rank leaves in the ring. */
START_TEST(ring_with_gap)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct party *m[7], *c[7];
    size_t asked = 0;

    for (uint32_t r = 0; r < 7; r++)
        m[r] = module(cl, r, "m");
    cl_kill(cl, 4);
    cl_pump(cl);
    for (uint32_t r = 0; r < 7; r++)
        c[r] = r == 4 ? NULL : client(cl, r);
    for (uint32_t from = 0; from < 7; from++) {
        for (uint32_t to = 0; to < 7 && from != 4; to++) {
            size_t n = c[from]->n;

            if (to == from)
                continue;
            ask_flags(c[from], "m.x", to, FLUX_MSGF_RING, NULL);
            cl_pump(cl);
            if (to == 4) {
                expect_answer(c[from], n + 1, EHOSTUNREACH, "rank 4 cannot be reached");
                continue;
            }
            ck_assert_uint_gt(m[to]->n, 0);
            answer(m[to], m[to]->n - 1, 0, 0, "here");
            cl_pump(cl);
            expect_answer(c[from], n + 1, 0, "here");
            asked++;
        }
    }
    ck_assert_uint_eq(asked, 30);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Exactly one final response for each request in flight when a broker dies, wherever the request
 * was. */
START_TEST(peer_lost_in_flight)
{
    for (int dead = 1; dead <= 3; dead++) {
        struct cluster *cl = cl_up(5, "chain");
        struct party *up = client(cl, 0);
        struct party *down = client(cl, 4);
        struct party *m4 = module(cl, 4, "m");
        struct party *m0 = module(cl, 0, "t");

        for (int i = 0; i < 10; i++) {
            ask(up, "m.x", 4);
            ask(down, "t.x", FLUX_NODEID_ANY);
            ask_flags(up, "m.s", 4, FLUX_MSGF_STREAMING, NULL);
            if (i % 2)
                cl_pump(cl);
        }
        cl_pump(cl);
        ck_assert_uint_eq(m4->n, 20);
        answer(m4, 1, 0, FLUX_MSGF_STREAMING, "1");
        cl_pump(cl);
        ck_assert_uint_eq(up->n, 1);
        cl_kill(cl, (uint32_t)dead);
        cl_pump(cl);
        /* answers that come after */
        for (size_t i = 0; i < 20; i++)
            answer(m4, i, 0, 0, "late");
        for (size_t i = 0; i < 10; i++)
            answer(m0, i, 0, 0, "late");
        cl_pump(cl);
        ck_assert_uint_eq(up->n, 21);
        ck_assert_uint_eq(down->n, 10);
        for (size_t i = 0; i < up->n; i++) {
            if (i > 0) {
                ck_assert_int_eq(flux_msg_errnum(up->kept[i]), EHOSTUNREACH);
                ck_assert_ptr_nonnull(
                    strstr(flux_msg_json(up->kept[i]), "was lost while the request was in flight"));
            }
            for (size_t k = 1; k < i; k++)
                ck_assert_uint_ne(flux_msg_matchtag(up->kept[i]), flux_msg_matchtag(up->kept[k]));
        }
        for (size_t i = 0; i < down->n; i++)
            ck_assert_int_eq(flux_msg_errnum(down->kept[i]), EHOSTUNREACH);
        /* the services were told that the senders are gone */
        ck_assert_uint_ge(m4->n, 21);
        ck_assert_str_eq(flux_msg_topic(m4->kept[20]), "m.disconnect");
        ck_assert_str_eq(flux_msg_topic(m0->kept[10]), "t.disconnect");
        ck_assert_uint_eq(cl_inflight(cl), 0);
        ck_assert_uint_eq(core_endpoint_inflight(up->ep), 0);
        cl_free(cl);
    }
}
END_TEST

/* No response is delivered twice, whatever a service sends. */
START_TEST(answered_once)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *far = client(cl, 2);
    struct party *m = module(cl, 1, "m");

    ask(c, "m.x", FLUX_NODEID_ANY);
    answer(m, 0, 0, 0, "1");
    answer(m, 0, 0, 0, "2");
    ck_assert_uint_eq(c->n, 1);
    ask(c, "m.x", FLUX_NODEID_ANY);
    answer(m, 1, ENOENT, 0, "1");
    answer(m, 1, ENOENT, 0, "2");
    ck_assert_uint_eq(c->n, 2);
    ask_flags(c, "m.x", FLUX_NODEID_ANY, FLUX_MSGF_STREAMING, NULL);
    answer(m, 2, 0, FLUX_MSGF_STREAMING, "1");
    answer(m, 2, ENODATA, 0, NULL);
    answer(m, 2, ENODATA, 0, NULL);
    ck_assert_uint_eq(c->n, 4);
    ask(far, "m.x", 1);
    cl_pump(cl);
    answer(m, 3, EIO, 0, "1");
    answer(m, 3, EIO, 0, "2");
    cl_pump(cl);
    ck_assert_uint_eq(far->n, 1);
    /* A client sends no responses, and endpoints send no events. */
    core_endpoint_input(c->ep, flux_msg_response_create(m->kept[3], 0));
    core_endpoint_input(c->ep, flux_msg_create(FLUX_MSG_EVENT, "x"));
    core_endpoint_input(c->ep, flux_msg_create(FLUX_MSG_CONTROL, "x"));
    /* A response to a plain request is final, even if it says that more follow. */
    ask(c, "m.x", FLUX_NODEID_ANY);
    ask(far, "m.x", 1);
    cl_pump(cl);
    answer(m, 4, 0, FLUX_MSGF_STREAMING, "1");
    answer(m, 5, 0, FLUX_MSGF_STREAMING, "1");
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 5);
    ck_assert_uint_eq(far->n, 2);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

START_TEST(large_payloads)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *m = module(cl, 2, "m");
    char *text = big(100000);

    ask_flags(c, "m.x", 2, 0, text);
    ask_flags(c, "m.x", 2, FLUX_MSGF_STREAMING, text);
    cl_pump(cl);
    ck_assert_str_eq(flux_msg_json(m->kept[0]), text);
    answer(m, 0, 0, 0, text);
    answer(m, 1, 0, FLUX_MSGF_STREAMING, "1");
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 2);
    ck_assert_str_eq(flux_msg_json(c->kept[0]), text);
    ask_flags(c, "m.x", 2, 0, text);
    cl_pump(cl);
    /* ended without the request at hand: the plain one and the stream */
    cl_kill(cl, 2);
    ck_assert_uint_eq(c->n, 2);
    cl_pump(cl);
    expect_answer(c, 4, EHOSTUNREACH, "rank 2 was lost");
    ck_assert_int_eq(flux_msg_errnum(c->kept[2]), EHOSTUNREACH);
    ck_assert_uint_eq(flux_msg_flags(c->kept[3]), 0);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    free(text);
    cl_free(cl);
}
END_TEST

START_TEST(endpoint_removed)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *other = client(cl, 1);
    struct party *m = module(cl, 1, "m");
    struct party *r = module(cl, 0, "r");
    char text[64];

    /* A client that leaves: its requests are forgotten, the services are told once. */
    ask(c, "m.a", FLUX_NODEID_ANY);
    ask(c, "m.b", FLUX_NODEID_ANY);
    ask(c, "r.a", FLUX_NODEID_ANY);
    ask_flags(c, "r.c", 0, FLUX_MSGF_NORESPONSE, NULL);
    ask(c, "event.subscribe", 1);
    cl_pump(cl);
    snprintf(text, sizeof(text), "1.%u", c->ep->id);
    core_endpoint_remove(c->ep, ECONNRESET, "bye");
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 3);
    ck_assert_str_eq(flux_msg_topic(m->kept[2]), "m.disconnect");
    ck_assert(flux_msg_has_flag(m->kept[2], FLUX_MSGF_NORESPONSE));
    ck_assert_uint_ge(r->n, 3);
    for (size_t i = 2; i < r->n; i++) {
        char buf[FLUX_SENDER_MAX];
        ck_assert_str_eq(flux_msg_topic(r->kept[i]), "r.disconnect");
        ck_assert_str_eq(flux_msg_sender(r->kept[i], buf, sizeof(buf)), text);
        ck_assert_uint_eq(flux_msg_rolemask(r->kept[i]), FLUX_ROLE_BROKER);
    }
    answer(m, 0, 0, 0, "late");
    answer(m, 1, EIO, 0, "late");
    answer(r, 0, 0, 0, "late");
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 1); /* the answer to the bad subscription */
    ck_assert_uint_eq(cl_inflight(cl), 0);

    /* A module that leaves: what it has not answered ends, and its service. */
    ask(other, "m.a", FLUX_NODEID_ANY);
    ask(m, "r.x", FLUX_NODEID_ANY);
    cl_pump(cl);
    core_endpoint_remove(m->ep, ENOSYS, "module m was unloaded");
    expect_answer(other, 1, ENOSYS, "module m was unloaded");
    ask(other, "m.a", 1);
    expect_answer(other, 2, ENOSYS, "rank 1 has no service 'm'");
    cl_pump(cl);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    ck_assert_str_eq(flux_msg_topic(r->kept[r->n - 1]), "r.disconnect");
    answer(r, r->n - 2, EIO, 0, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    core_endpoint_remove(NULL, 0, NULL);
    cl_free(cl);
}
END_TEST

START_TEST(no_response)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *m = module(cl, 2, "m");
    struct core_stats st;

    ask_flags(c, "m.x", 2, FLUX_MSGF_NORESPONSE, NULL);
    ask_flags(c, "nothing.x", 2, FLUX_MSGF_NORESPONSE, NULL);
    ask_flags(c, "nothing.x", FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE, NULL);
    ask_flags(c, "nothing.x", 99, FLUX_MSGF_NORESPONSE, NULL);
    ask_flags(c, "nothing.x", 0, FLUX_MSGF_NORESPONSE | FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    ck_assert_uint_eq(c->n, 0);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    answer(m, 0, 0, 0, "unwanted");
    answer(m, 0, EIO, 0, "unwanted");
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 0);
    core_get_stats(cl->nodes[2].core, &st);
    ck_assert_uint_eq(st.dropped, 3);
    cl_free(cl);
}
END_TEST

static size_t disconnects;

static void count_disconnects(struct party *p, const flux_msg_t *msg)
{
    disconnects += strcmp(flux_msg_topic(msg), "top.disconnect") == 0;
    flux_msg_destroy(p->kept[--p->n]);
}

START_TEST(bounds)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *m = module(cl, 1, "m");

    for (int i = 0; i < 100; i++)
        ask(c, "m.x", FLUX_NODEID_ANY);
    ck_assert_uint_eq(core_endpoint_inflight(c->ep), 100);
    ask(c, "m.x", FLUX_NODEID_ANY);
    expect_answer(c, 1, EAGAIN, "100 requests are unanswered");
    ask_flags(c, "m.x", FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE, NULL);
    ck_assert_uint_eq(m->n, 101);
    answer(m, 7, 0, 0, NULL);
    ck_assert_uint_eq(c->n, 2);
    ask(c, "m.x", FLUX_NODEID_ANY);
    ck_assert_uint_eq(m->n, 102);
    /* a neighbor that does not keep up */
    cl->nodes[0].full = true;
    struct party *d = client(cl, 1);
    struct party *top = module(cl, 0, "top");
    char topic[16];
    for (int i = 0; i < 90; i++) {
        snprintf(topic, sizeof(topic), "top.%d", i);
        ask_flags(d, topic, 0, i % 3 ? 0 : FLUX_MSGF_NORESPONSE, NULL);
        cl_pump(cl);
        if (i == 30)
            cl->nodes[0].full = false; /* the held requests are sent first, once the neighbor has
                                          room */
    }
    ck_assert_uint_eq(top->n, 0);
    cl->nodes[0].full = true;
    core_peer_writable(cl->nodes[1].core, 0);
    cl->nodes[0].full = false;
    cl_pump(cl);
    ck_assert_uint_eq(top->n, 0);
    core_peer_writable(cl->nodes[1].core, 0);
    ask(d, "top.90", 0);
    cl_pump(cl);
    ck_assert_uint_eq(top->n, 91);
    for (int i = 0; i <= 90; i++) {
        snprintf(topic, sizeof(topic), "top.%d", i);
        ck_assert_str_eq(flux_msg_topic(top->kept[i]), topic);
        if (flux_msg_matchtag(top->kept[i]))
            answer(top, (size_t)i, 0, 0, NULL);
    }
    cl_pump(cl);
    ck_assert_uint_eq(d->n, 61);
    party_clear(d);
    /* too many: an error response, and the endpoint is congested */
    cl->nodes[0].full = true;
    struct party *e = client(cl, 1);
    ask_flags(e, "top.e", 0, FLUX_MSGF_NORESPONSE, NULL);
    ck_assert(!core_endpoint_congested(d->ep));
    for (int i = 0; i < 65536; i++)
        ask_flags(d, "top.x", 0, FLUX_MSGF_NORESPONSE, NULL);
    ck_assert(core_endpoint_congested(d->ep));
    ck_assert(!core_endpoint_congested(c->ep));
    ask(d, "top.x", 0);
    expect_answer(d, 1, EAGAIN, "rank 0 does not keep up");
    party_clear(d);
    /* but the notice that a client is gone is sent */
    core_endpoint_remove(e->ep, 0, "");
    party_clear(top);
    top->hook = count_disconnects;
    cl->nodes[0].full = false;
    core_peer_writable(cl->nodes[1].core, 0);
    cl_pump(cl);
    ck_assert_uint_eq(disconnects, 1);
    /* the same tag again: the later one is answered */
    d->tag = 0;
    ask(d, "m.y", 1);
    d->tag = 0;
    ask(d, "m.z", 1);
    answer(m, 102, 0, 0, "y or z");
    answer(m, 103, 0, 0, "y or z");
    ck_assert_uint_eq(d->n, 1);
    cl_free(cl);
}
END_TEST

/* Before the parent has welcomed it a broker holds what goes up; local services serve. */
/* An endpoint in whose queue requests wait. */
static uint32_t queue_from[1024];
static unsigned queue_weight[1024];
static size_t queue_count;

static int queue_keep(void *arg, flux_msg_t *msg, uint32_t from)
{
    ck_assert_uint_lt(queue_count, 1024);
    queue_from[queue_count] = from;
    queue_weight[queue_count++] = core_request_weight(msg);
    flux_msg_destroy(msg);
    return 0;
}

static void relief_cb(void *arg)
{
    ++*(unsigned *)arg;
}

/* Clients of one process have one account, which stays when they leave with requests in queues. */
START_TEST(accounts)
{
    static const struct endpoint_ops queue_ops = {.send = party_send_cb, .queue = queue_keep};
    struct cluster *cl = cl_create(1, "kary:2");
    core_t *core = cl->nodes[0].core;
    struct party *one = client(cl, 0), *two = client(cl, 0), *other = client(cl, 0), *fresh;
    struct party *m = module(cl, 0, "m");
    endpoint_t *ep =
        core_endpoint_add(core, ENDPOINT_MODULE, "q", 1000, FLUX_ROLE_OWNER, &queue_ops, m);
    unsigned reliefs = 0;
    size_t taken = 0;

    queue_count = 0;
    ck_assert_int_eq(core_service_add(core, "q", ep), 0);
    core_on_relief(core, relief_cb, &reliefs);
    ck_assert_int_eq(core_endpoint_set_process(one->ep, 77), 0);
    ck_assert_int_eq(core_endpoint_set_process(two->ep, 77), 0);
    ck_assert_int_eq(core_endpoint_set_process(other->ep, 78), 0);
    for (int i = 0; i < 128; i++)
        ask_flags(one, "q.x", FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE, NULL);
    for (int i = 0; i < 128; i++)
        ask_flags(two, "q.x", FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE, NULL);
    ck_assert(!core_endpoint_congested(one->ep));
    ask(two, "q.x", FLUX_NODEID_ANY);
    ck_assert(core_endpoint_congested(one->ep) && core_endpoint_congested(two->ep));
    ck_assert(!core_endpoint_congested(other->ep));
    /* Both leave, and connect again. */
    core_endpoint_remove(one->ep, ECONNRESET, "gone");
    core_endpoint_remove(two->ep, ECONNRESET, "gone");
    fresh = client(cl, 0);
    ck_assert(!core_endpoint_congested(fresh->ep));
    ck_assert_int_eq(core_endpoint_set_process(fresh->ep, 77), 0);
    ck_assert(core_endpoint_congested(fresh->ep));
    while (taken < queue_count && reliefs == 0) {
        core_endpoint_taken(core, queue_from[taken], queue_weight[taken]);
        taken++;
    }
    ck_assert_uint_eq(taken, 131); /* to half of it, including two notices that clients are gone */
    ck_assert(!core_endpoint_congested(fresh->ep));
    for (; taken < queue_count; taken++)
        core_endpoint_taken(core, queue_from[taken], queue_weight[taken]);
    core_endpoint_taken(core, queue_from[0], queue_weight[0]); /* one too many */
    core_endpoint_taken(core, 4711, 1);
    ask(fresh, "q.x", FLUX_NODEID_ANY);
    ck_assert(!core_endpoint_congested(fresh->ep));
    core_endpoint_remove(ep, EHOSTUNREACH, "end");
    cl_free(cl);
}
END_TEST

/* While several clients send, a process may have less in queues, and continues when half of that
 * was taken; when no other client sends any more, at once. */
START_TEST(several)
{
    static const struct endpoint_ops queue_ops = {.send = party_send_cb, .queue = queue_keep};
    struct cluster *cl = cl_create(1, "kary:2");
    core_t *core = cl->nodes[0].core;
    struct party *one = client(cl, 0), *m = module(cl, 0, "m");
    endpoint_t *ep =
        core_endpoint_add(core, ENDPOINT_MODULE, "q", 1000, FLUX_ROLE_OWNER, &queue_ops, m);
    size_t taken = 0;

    queue_count = 0;
    ck_assert_int_eq(core_service_add(core, "q", ep), 0);
    core_set_several(core, true);
    for (int round = 0; round < 2; round++) {
        while (!core_endpoint_congested(one->ep))
            ask_flags(one, "q.x", FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE, NULL);
        ck_assert_uint_eq(queue_count - taken, 2 * CORE_QUEUED_LOW + 1);
        core_set_several(core, round == 0);
        do {
            core_endpoint_taken(core, queue_from[taken], queue_weight[taken]);
            taken++;
        } while (core_endpoint_congested(one->ep));
        ck_assert_uint_eq(queue_count - taken, round == 0 ? CORE_QUEUED_LOW : 2 * CORE_QUEUED_LOW);
    }
    core_endpoint_remove(ep, EHOSTUNREACH, "end");
    cl_free(cl);
}
END_TEST

/* Send requests for `topic` until one is refused, at most LIMIT times.  Returns how many were
 * taken. */
static unsigned ask_until_refused(struct cluster *cl, struct party *p, const char *text,
                                  unsigned limit)
{
    for (unsigned n = 0; n < limit; n++) {
        size_t before = p->n;

        ask_flags(p, "q.x", FLUX_NODEID_ANY, 0, text);
        cl_pump(cl);
        if (p->n > before) {
            ck_assert_int_eq(flux_msg_errnum(p->kept[before]), EAGAIN);
            ck_assert_ptr_nonnull(strstr(flux_msg_json(p->kept[before]), "try again later"));
            return n;
        }
    }
    return limit;
}

/* The clients of another rank share an account: half of what is left, so that others find room. */
START_TEST(ranks)
{
    static const struct endpoint_ops queue_ops = {.send = party_send_cb, .queue = queue_keep};
    struct cluster *cl = cl_up(3, "kary:2");
    core_t *core = cl->nodes[0].core;
    struct party *one = client(cl, 1), *two = client(cl, 1), *other = client(cl, 2);
    struct party *here = client(cl, 0), *m1 = module(cl, 1, "m");
    struct party *m = party_create(cl, 0, ENDPOINT_MODULE, "m");
    endpoint_t *ep =
        core_endpoint_add(core, ENDPOINT_MODULE, "q", 1000, FLUX_ROLE_OWNER, &queue_ops, m);
    char *text = big(1000000); /* 245 each */
    size_t mine;

    queue_count = 0;
    ck_assert_int_eq(core_service_add(core, "q", ep), 0);
    ck_assert_uint_eq(ask_until_refused(cl, one, text, 100), 33);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "clients of rank 1 flood"));
    mine = queue_count;
    for (size_t i = 0; i < mine; i++)
        ck_assert_uint_eq(queue_from[i], CORE_ACCOUNT_RANK | 1);
    ck_assert_uint_eq(ask_until_refused(cl, two, text, 100), 0);
    /* Another rank has its own share, and so have brokers and local clients. */
    ck_assert_uint_eq(ask_until_refused(cl, other, text, 100), 17);
    ck_assert_uint_eq(queue_from[mine], CORE_ACCOUNT_RANK | 2);
    mine = queue_count;
    ck_assert_uint_eq(ask_until_refused(cl, m1, text, 60), 60);
    ck_assert_uint_eq(queue_count, mine); /* on no account */
    ck_assert_uint_eq(ask_until_refused(cl, here, text, 60), 60);
    ck_assert_uint_eq(queue_count, mine + 60);
    ck_assert(core_endpoint_congested(here->ep));
    /* Taking requests makes room again. */
    for (size_t i = 0; i < queue_count; i++)
        core_endpoint_taken(core, queue_from[i], queue_weight[i]);
    ck_assert_uint_eq(ask_until_refused(cl, two, text, 100), 33);
    free(text);
    core_endpoint_remove(ep, EHOSTUNREACH, "end");
    cl_free(cl);
}
END_TEST

static flux_msg_t *stamped(enum flux_msg_type type, const char *topic)
{
    flux_msg_t *msg = flux_msg_create(type, topic);

    ck_assert_ptr_nonnull(msg);
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    return msg;
}

/* Messages that neighbors should not send. */
START_TEST(bad_input)
{
    struct cluster *cl = cl_up(3, "kary:2");
    core_t *root = cl->nodes[0].core;
    uint64_t responses;
    struct core_stats st;
    uint64_t dropped;
    flux_msg_t *msg;
    struct party *m = module(cl, 0, "m");

    core_get_stats(root, &st);
    dropped = st.dropped;
    core_link_input(root, CORE_TREE, 77, stamped(FLUX_MSG_REQUEST, "m.x"));
    core_link_input(root, CORE_TREE, 0, stamped(FLUX_MSG_REQUEST, "m.x"));
    core_link_input(root, CORE_RING, 1, stamped(FLUX_MSG_REQUEST, "m.x"));
    core_link_input(root, CORE_RING, 2, stamped(FLUX_MSG_RESPONSE, "m.x"));
    core_link_input(root, CORE_RING, 2, stamped(FLUX_MSG_CONTROL, "overlay.ready"));
    core_link_input(root, CORE_EVENT, 1, stamped(FLUX_MSG_EVENT, "e"));
    core_link_input(root, CORE_TREE, 1, stamped(FLUX_MSG_EVENT, "e"));
    core_link_input(root, CORE_TREE, 1, stamped(FLUX_MSG_RESPONSE, "m.x"));
    core_link_input(root, CORE_TREE, 1, stamped(FLUX_MSG_CONTROL, "what"));
    core_link_input(root, CORE_TREE, 1, stamped(FLUX_MSG_CONTROL, "overlay.ready"));
    core_link_input(root, CORE_TREE, 1, stamped(FLUX_MSG_CONTROL, "overlay.welcome"));
    core_get_stats(root, &st);
    ck_assert_uint_eq(st.dropped, dropped + 11);
    /* an unexpected error response that claims to be from here */
    msg = stamped(FLUX_MSG_RESPONSE, "m.x");
    flux_msg_set_errnum(msg, EIO);
    flux_msg_set_nodeid(msg, 0);
    ck_assert_int_eq(flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, m->ep->id)), 0);
    core_link_input(root, CORE_TREE, 1, msg);
    ck_assert_uint_eq(m->n, 0);
    /* a request that has made too many hops */
    msg = stamped(FLUX_MSG_REQUEST, "m.x");
    flux_msg_set_nodeid(msg, 0);
    for (int i = 0; i < FLUX_MSG_ROUTES_MAX; i++)
        ck_assert_int_eq(flux_msg_route_push(msg, 1), 0);
    core_get_stats(root, &st);
    responses = st.responses;
    core_link_input(root, CORE_TREE, 1, msg);
    core_get_stats(root, &st);
    ck_assert_uint_eq(st.responses, responses + 1); /* sent back with an error */
    ck_assert_uint_eq(m->n, 0);
    /* on the ring more hops than ranks are enough */
    msg = stamped(FLUX_MSG_REQUEST, "m.x");
    flux_msg_set_nodeid(msg, 1);
    flux_msg_set_matchtag(msg, 4);
    flux_msg_set_flags(msg, FLUX_MSGF_RING);
    ck_assert_int_eq(flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, m->ep->id)), 0);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_RING, 2)), 0);
    core_link_input(root, CORE_RING, 2, msg);
    cl_pump(cl);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* Messages of another term are refused, and their sender is named once. */
START_TEST(other_term)
{
    struct cluster *cl = cl_up(3, "kary:2");
    core_t *root = cl->nodes[0].core;
    struct party *m = module(cl, 0, "m"), *c = client(cl, 1);
    struct core_stats st;
    uint64_t dropped;
    flux_msg_t *msg;
    const char *told;

    /* what passes has the term of the session, whatever its sender wrote */
    msg = stamped(FLUX_MSG_REQUEST, "m.x");
    flux_msg_set_term(msg, 9);
    flux_msg_set_matchtag(msg, 1);
    core_endpoint_input(c->ep, msg);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 1);
    ck_assert_uint_eq(flux_msg_term(m->kept[0]), FLUX_TERM_FIRST);
    answer(m, 0, 0, 0, "{}");
    cl_pump(cl);
    expect_answer(c, 1, 0, "{}");
    ck_assert_uint_eq(flux_msg_term(c->kept[0]), FLUX_TERM_FIRST);

    core_get_stats(root, &st);
    dropped = st.dropped;
    for (uint32_t term = 0; term <= 2; term += 2) {
        msg = stamped(FLUX_MSG_REQUEST, "m.x");
        flux_msg_set_term(msg, term);
        flux_msg_set_matchtag(msg, 2 + term);
        ck_assert_int_eq(flux_msg_route_push(msg, flux_route_make(FLUX_ROUTE_ENDPOINT, c->ep->id)),
                         0);
        core_link_input(root, CORE_TREE, 1, msg);
        msg = stamped(FLUX_MSG_CONTROL, "overlay.goodbye");
        flux_msg_set_term(msg, term);
        core_link_input(root, CORE_TREE, 1, msg);
        msg = stamped(FLUX_MSG_EVENT, "e");
        flux_msg_set_term(msg, term);
        flux_msg_set_seq(msg, core_event_seq(root) + 1);
        core_link_input(cl->nodes[1].core, CORE_EVENT, 0, msg);
    }
    core_get_stats(root, &st);
    ck_assert_uint_eq(st.dropped, dropped + 4);
    ck_assert_uint_eq(m->n, 1);
    ck_assert(idset_test(core_ranks_up(root), 1));
    ck_assert_uint_eq(core_event_seq(cl->nodes[1].core), core_event_seq(root));
    /* the answer has the term of the request, so that its sender takes it */
    ck_assert_ptr_nonnull(cl->head);
    ck_assert_int_eq(flux_msg_errnum(cl->head->msg), ESTALE);
    ck_assert_uint_eq(flux_msg_term(cl->head->msg), 0);
    cl_pump(cl);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    told = strstr(cl->nodes[0].log, "rank 1 sends messages of term 0, and rank 0 is in term 1");
    ck_assert_ptr_nonnull(told);
    ck_assert_ptr_null(strstr(told + 1, "rank 1 sends"));
    ck_assert_ptr_nonnull(strstr(cl->nodes[1].log, "rank 0 sends messages of term 0"));
    cl_free(cl);
}
END_TEST

/* The core's own handle, and the services of every broker. */
START_TEST(services)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    flux_future_t *f = flux_rpc(core_handle(cl->nodes[2].core), "overlay.status", "{}", 0, 0);
    const char *json;
    char order[400];
    size_t n;

    cl_pump(cl);
    ck_assert_int_eq(flux_rpc_get_json(f, &json, NULL), 0);
    ck_assert_str_eq(json, "{\"rank\":0,\"size\":3,\"state\":\"run\",\"up\":\"0-2\",\"lost\":\"\","
                           "\"topology\":\"kary:2\",\"map\":3}");
    flux_future_destroy(f);
    ask(c, "overlay.topology", FLUX_NODEID_ANY);
    expect_answer(c, 1, 0, "0: 1-2");
    ask(c, "broker.stats", 0);
    cl_pump(cl);
    expect_answer(c, 2, 0, "\"inflight\":");
    ask_flags(c, "broker.ping", 2, 0, "{\"n\":1}");
    cl_pump(cl);
    expect_answer(c, 3, 0, "\"rank\":2");
    ask(c, "broker.nothing", 2);
    cl_pump(cl);
    expect_answer(c, 4, ENOSYS, "broker.nothing");
    ask(c, "broker.shutdown", 2);
    cl_pump(cl);
    expect_answer(c, 5, EPROTO, "broker.shutdown");
    ck_assert_int_eq(core_state(cl->nodes[2].core), CORE_RUN);
    /* The reason is too long, and where it is cut is within a character. */
    n = (size_t)snprintf(order, sizeof(order), "{\"rc\":4,\"reason\":\"");
    for (int i = 0; i < 150; i++)
        n += (size_t)snprintf(order + n, sizeof(order) - n, "\xc3\xa9");
    snprintf(order + n, sizeof(order) - n, "\"}");
    ask_flags(c, "broker.shutdown", 2, 0, order);
    cl_pump(cl);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(core_state(cl->nodes[i].core), CORE_EXIT);
        ck_assert_int_eq(core_exit_code(cl->nodes[i].core), 4);
    }
    cl_free(cl);
}
END_TEST

int main(void)
{
    RUN_SUITE("core", create, any_rank, upstream, ring, notice_on_ring, around_a_loss,
              ring_with_gap, peer_lost_in_flight, answered_once, large_payloads, endpoint_removed,
              no_response, bounds, accounts, several, ranks, bad_input, other_term, services);
}
