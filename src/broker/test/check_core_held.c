/* check_core_held.c - requests for a service that is being exchanged: held, then handed to the next
 * one. */
#include "config.h"

#include "libutil/test/suite.h"
#include "cluster.h"

START_TEST(held)
{
    struct cluster *cl = cl_create(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *gone = client(cl, 1);
    struct party *m = module(cl, 1, "m");
    struct party *r = module(cl, 0, "r");
    struct party *rc;

    ask(c, "m.x", FLUX_NODEID_ANY);
    ck_assert_uint_eq(m->n, 1);
    ask(c, "r.x", FLUX_NODEID_ANY);
    ask(c, "nothing.x", 2);
    ask(gone, "r.y", FLUX_NODEID_ANY);
    ask_flags(gone, "r.z", FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE, NULL);
    ask_flags(m, "m.x", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    core_endpoint_remove(gone->ep, 0, "gone");
    ck_assert_uint_eq(c->n, 0);
    /* the root holds too, for a child that has not joined */
    ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
    rc = client(cl, 0);
    ask(rc, "m.x", 1);
    ask(rc, "m.x", 2);
    cl_pump(cl);
    ck_assert_uint_eq(rc->n, 0);
    ck_assert_int_eq(core_start(cl->nodes[1].core), 0);
    cl_pump(cl);
    ck_assert_uint_eq(r->n, 3);
    ck_assert_str_eq(flux_msg_topic(r->kept[0]), "r.x");
    /* no request of the client that is gone, but what it sent without response, and its
     * disconnect */
    ck_assert_str_eq(flux_msg_topic(r->kept[1]), "r.z");
    ck_assert_str_eq(flux_msg_topic(r->kept[2]), "r.disconnect");
    expect_answer(m, 3, ENOSYS, "service 'm'"); /* upstream there is none */
    cl_free(cl);
}
END_TEST

/* What a broker has asked for is not sent in the name of the next one of its rank. */
START_TEST(held_from_lost)
{
    for (int left = 0; left < 2; left++) {
        struct cluster *cl = cl_up(3, "chain");
        struct party *c = client(cl, 2);
        struct party *own = client(cl, 1);
        struct party *r = module(cl, 0, "r");

        cl->nodes[0].full = true;
        ask(c, "r.x", 0);
        ask_flags(c, "r.y", 0, FLUX_MSGF_NORESPONSE, NULL);
        cl_pump(cl);
        ask(own, "r.z", 0);
        if (left) {
            core_leave(cl->nodes[2].core, 0, "SIGTERM");
            cl_pump(cl);
            cl->nodes[2].dead = true;
        } else
            cl_kill(cl, 2);
        cl_pump(cl);
        cl_restart(cl, 2);
        cl_pump(cl);
        cl->nodes[0].full = false;
        core_peer_writable(cl->nodes[1].core, 0);
        cl_pump(cl);
        ck_assert_uint_eq(r->n, 2);
        ck_assert_str_eq(flux_msg_topic(r->kept[0]), "r.y");
        ck_assert_str_eq(flux_msg_topic(r->kept[1]), "r.z");
        answer(r, 1, 0, 0, "{}");
        cl_pump(cl);
        expect_answer(own, 1, 0, "{}");
        ck_assert_uint_eq(cl_inflight(cl), 0);
        cl_free(cl);
    }
}
END_TEST

/* What is held for the parent, past the services of this broker, is not for these when the parent
 * is lost for good. */
START_TEST(upstream_lost)
{
    struct cluster *cl;
    struct party *m1, *m0, *c;

    cl = cl_up(2, "chain");
    m1 = module(cl, 1, "m");
    m0 = module(cl, 0, "m");
    c = client(cl, 1);
    ask_flags(c, "m.sent", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 1);
    cl->nodes[0].full = true;
    ask_flags(c, "m.held", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    ask_flags(c, "m.new", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    cl->nodes[0].full = false;
    core_peer_writable(cl->nodes[1].core, 0);
    cl_pump(cl);
    ck_assert_uint_eq(m0->n, 3);
    ck_assert(!flux_msg_has_flag(m0->kept[1], FLUX_MSGF_UPSTREAM));
    cl->nodes[0].full = true;
    ask_flags(c, "m.lost", FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM, NULL);
    cl_pump(cl);
    cl_kill(cl, 0);
    cl_pump(cl);
    ck_assert_uint_eq(m1->n, 0);
    expect_answer(c, 4, EHOSTUNREACH, NULL);
    cl_free(cl);
}
END_TEST

START_TEST(held_until_lost)
{
    struct cluster *cl = cl_create(3, "kary:2");
    struct party *c;

    ck_assert_int_eq(core_start(cl->nodes[0].core), 0);
    c = client(cl, 0);
    ask(c, "m.x", 2);
    ck_assert_uint_eq(c->n, 0);
    core_peer_lost(cl->nodes[0].core, CORE_RING, 2, "never came");
    core_peer_lost(cl->nodes[0].core, CORE_RING, 1, "never came");
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 2, "never came");
    expect_answer(c, 1, EHOSTUNREACH, "rank 2 cannot be reached");
    cl_free(cl);
}
END_TEST

START_TEST(replaced)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *far = client(cl, 2);
    struct party *m = module(cl, 1, "m");
    struct party *fresh = party_create(cl, 1, ENDPOINT_MODULE, NULL);
    char *text = big(5000);

    ask(c, "m.1", FLUX_NODEID_ANY);
    ask_flags(far, "m.2", 1, 0, text);
    ask(c, "m.3", FLUX_NODEID_ANY);
    cl_pump(cl);
    answer(m, 0, 0, 0, "old");
    ck_assert_int_eq(core_service_add(m->core, "alias", m->ep), 0);
    core_endpoint_replace(m->ep, fresh->ep, false);
    core_endpoint_remove(m->ep, ENOSYS, "unloaded");
    ck_assert_uint_eq(fresh->n, 2);
    ck_assert_str_eq(flux_msg_topic(fresh->kept[0]), "m.3");
    ck_assert_str_eq(flux_msg_topic(fresh->kept[1]), "m.2");
    ck_assert_str_eq(flux_msg_json(fresh->kept[1]), text);
    ask(c, "m.4", FLUX_NODEID_ANY);
    ask(c, "alias.5", FLUX_NODEID_ANY);
    ck_assert_uint_eq(fresh->n, 4);
    for (size_t i = 0; i < 4; i++)
        answer(fresh, i, 0, 0, "new");
    cl_pump(cl);
    ck_assert_uint_eq(c->n, 4);
    ck_assert_str_eq(flux_msg_json(c->kept[0]), "old");
    expect_answer(far, 1, 0, "new");
    ck_assert_uint_eq(cl_inflight(cl), 0);
    free(text);
    cl_free(cl);
}
END_TEST

/* The same for one that has the complete state of the old one. */
START_TEST(inherited)
{
    struct cluster *cl = cl_up(3, "kary:2");
    struct party *c = client(cl, 1);
    struct party *m = module(cl, 1, "m");
    struct party *far = module(cl, 2, "far");
    struct party *fresh = party_create(cl, 1, ENDPOINT_MODULE, NULL);
    char before[FLUX_SENDER_MAX], after[FLUX_SENDER_MAX];
    flux_msg_t *resp;

    ask(c, "m.1", FLUX_NODEID_ANY);
    ask(m, "far.1", 2);
    ask(m, "far.2", 2);
    cl_pump(cl);
    flux_msg_sender(far->kept[0], before, sizeof(before));
    core_endpoint_replace(m->ep, fresh->ep, true);
    ck_assert_uint_eq(core_endpoint_inflight(fresh->ep), 2);
    core_endpoint_remove(m->ep, ENOSYS, "unloaded");
    cl_pump(cl);
    ck_assert_uint_eq(far->n, 2); /* nobody is gone */
    ck_assert_uint_eq(fresh->n, 0);
    ck_assert_uint_eq(c->n, 0);
    answer(far, 1, 0, 0, "two");
    answer(far, 0, 0, 0, "one");
    cl_pump(cl);
    ck_assert_uint_eq(fresh->n, 2);
    ck_assert_str_eq(flux_msg_json(fresh->kept[0]), "two");
    ck_assert_str_eq(flux_msg_json(fresh->kept[1]), "one");
    ck_assert_uint_eq(core_endpoint_inflight(fresh->ep), 0);
    ask(fresh, "far.3", 2);
    cl_pump(cl);
    ck_assert_str_eq(flux_msg_sender(far->kept[2], after, sizeof(after)), before);
    /* the request that only the old one has seen */
    resp = flux_msg_response_create(m->kept[0], 0);
    ck_assert_int_eq(flux_msg_set_json(resp, "from the new one"), 0);
    core_endpoint_input(fresh->ep, resp);
    expect_answer(c, 1, 0, "from the new one");
    answer(far, 2, 0, 0, "three");
    cl_pump(cl);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

int main(void)
{
    RUN_SUITE("core_held", held, held_from_lost, upstream_lost, held_until_lost, replaced,
              inherited);
}
