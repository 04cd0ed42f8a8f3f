/* check_core_ended.c - requests that are pending when their sender goes: services get a notice, and
 * no broker on the way keeps them, even if nobody answers. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

static size_t notices(const struct party *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++) {
        bool is = strcmp(flux_msg_topic(m->kept[i]), "low.disconnect") == 0;

        ck_assert(!is || flux_msg_has_flag(m->kept[i], FLUX_MSGF_NORESPONSE));
        n += is;
    }
    return n;
}

/* A client of rank 3 has asked a service of rank 0, directly (1) or as one that is anywhere above
 * (0), and ends.  What another client of the rank has asked is still pending. */
START_TEST(client_ends)
{
    struct cluster *cl = cl_up(4, "chain");
    struct party *m = module(cl, 0, "low");
    struct party *ends = client(cl, 3), *stays = client(cl, 3);

    for (unsigned i = 0; i < 5; i++)
        ask_flags(ends, "low.watch", _i ? 0 : FLUX_NODEID_ANY, FLUX_MSGF_STREAMING, NULL);
    ask(stays, "low.watch", 0);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 6);
    ck_assert_uint_eq(cl_inflight(cl), 4 * 6);
    core_endpoint_remove(ends->ep, 0, "");
    cl_pump(cl);
    ck_assert_uint_eq(notices(m), 1);
    ck_assert_uint_eq(cl_inflight(cl), 4);
    /* It may be answered nevertheless. */
    answer(m, 0, 0, 0, "1");
    answer(m, 5, 0, 0, "1");
    cl_pump(cl);
    ck_assert_uint_eq(ends->n, 0);
    expect_answer(stays, 1, 0, NULL);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* The requests of the client, and the notice, wait at rank 1 for room at rank 0. */
START_TEST(notice_held)
{
    struct cluster *cl = cl_up(3, "chain");
    struct party *m = module(cl, 0, "low");
    struct party *c = client(cl, 2);

    cl->nodes[0].full = true;
    ask(c, "low.watch", 0);
    cl_pump(cl);
    core_endpoint_remove(c->ep, 0, "");
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 0);
    cl->nodes[0].full = false;
    core_peer_writable(cl->nodes[1].core, 0);
    cl_pump(cl);
    ck_assert_uint_eq(m->n, 2);
    ck_assert_uint_eq(notices(m), 1);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

/* The broker of the client dies, or one between. */
START_TEST(broker_dies)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *m = module(cl, 0, "low");
    struct party *c = client(cl, 3);

    ask(c, "low.watch", 0);
    ask(c, "low.watch", 0);
    cl_pump(cl);
    cl_kill(cl, _i ? 3 : 2);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(notices(m), 2);
    ck_assert_uint_eq(cl_inflight(cl), 0);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_ended");

    tcase_add_checked_fixture(tc, healing, NULL);
    tcase_add_loop_test(tc, client_ends, 0, 2);
    tcase_add_test(tc, notice_held);
    tcase_add_loop_test(tc, broker_dies, 0, 2);
    return run_case("core_ended", tc);
}
