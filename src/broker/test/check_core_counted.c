/* check_core_counted.c - ranks that the session counts as lost, or that have moved, while another
 * broker waits for them. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

static void control(struct cluster *cl, uint32_t to, uint32_t from, const char *topic,
                    const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, topic);

    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    core_link_input(cl->nodes[to].core, CORE_TREE, from, msg);
}

/* Rank 2 waits for rank 4, which has lost rank 3; meanwhile rank 1 reports the loss of rank 4.
 * Rank 2 does not report it again, and does not wait for an event on it when rank 3 comes back. */
START_TEST(announced)
{
    struct cluster *cl = cl_up(5, "chain");

    cl->nodes[4].dead = true; /* it does not connect again */
    cl_kill(cl, 3);
    cl_pump(cl);
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2,4");
    control(cl, 0, 1, "overlay.lost",
            "{\"ranks\":\"4\",\"left\":false,\"by\":1,\"why\":\"the test says so\"}");
    cl_pump(cl);
    expect_ranks(core_ranks_lost(cl->nodes[0].core), "3-4");
    expect_ranks(core_ranks_up(cl->nodes[2].core), "2");
    cl_sleep(cl, TIMEOUT + 1.);
    ck_assert_ptr_null(strstr(cl->nodes[2].log, "have lost the broker above them"));
    start_again(cl, 3);
    cl_sleep(cl, 1.);
    ck_assert_int_eq(core_state(cl->nodes[3].core), CORE_RUN);
    start_again(cl, 4);
    cl_sleep(cl, 1.);
    expect_ranks(core_ranks_up(cl->nodes[0].core), "0-4");
    expect_routes(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_counted");

    tcase_add_checked_fixture(tc, healing, NULL);
    tcase_add_test(tc, announced);
    return run_case("core_counted", tc);
}
