/* check_core_successor.c - the successor on the ring comes back, perhaps with another address. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

#define OLD "tcp://10.0.0.2:1"
#define NEW "tcp://10.0.0.9:1"

/* Rank 2, which rank 1 has as its successor, is dead, and another broker of it is started. */
static struct cluster *restarted(void)
{
    struct cluster *cl = cl_up(4, "flat");

    cl->nodes[2].tree = OLD;
    cl_kill(cl, 2);
    cl_pump(cl);
    cl_restart(cl, 2);
    cl->nodes[2].tree = NEW;
    cl_pump(cl);
    ck_assert(!cl->nodes[1].ring_again);
    return cl;
}

static void expect_address(struct cluster *cl, const char *tree)
{
    ck_assert(cl->nodes[1].ring_again);
    ck_assert_str_eq(cl->nodes[1].ring_at, tree);
    cl->nodes[1].ring_again = false;
}

START_TEST(another_address)
{
    struct cluster *cl = restarted();

    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    expect_address(cl, NEW);
    cl_free(cl);
}
END_TEST

/* Requests around the ring wait until the address is known. */
START_TEST(requests_wait)
{
    struct cluster *cl = restarted();
    struct party *c = client(cl, 1);

    core_local_ready(cl->nodes[2].core);
    CL_STEP_UNTIL(cl, strstr(cl->nodes[0].log, "rank 2 came back"));
    CL_STEP_UNTIL(cl, core_event_seq(cl->nodes[1].core) == core_event_seq(cl->nodes[0].core));
    ck_assert(!cl->nodes[1].ring_again);
    ask_flags(c, "m.x", 2, FLUX_MSGF_RING, NULL);
    cl_pump(cl);
    expect_address(cl, NEW);
    expect_answer(c, 1, ENOSYS, "rank 2 has no service");
    core_endpoint_remove(c->ep, 0, "");
    cl_free(cl);
}
END_TEST

/* The earlier connection is noticed to be over only when the next broker is up. */
START_TEST(noticed_late)
{
    struct cluster *cl = cl_up(4, "flat");

    cl->nodes[2].dead = true;
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 2, "silent");
    core_peer_lost(cl->nodes[3].core, CORE_RING, 2, "silent");
    cl_pump(cl);
    cl_restart(cl, 2);
    cl->nodes[2].tree = NEW;
    cl_pump(cl);
    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    ck_assert(!cl->nodes[1].ring_again);
    core_peer_lost(cl->nodes[1].core, CORE_RING, 2, "silent");
    cl_pump(cl);
    expect_address(cl, NEW);
    cl_free(cl);
}
END_TEST

/* This broker is about to connect to the earlier address, as to a rank that was absent. */
START_TEST(attempt_under_way)
{
    struct cluster *cl = restarted();

    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    expect_address(cl, NEW); /* from now on, an attempt is under way */
    cl->nodes[1].ring_waits = true;
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 2, "killed");
    cl->nodes[2].dead = true;
    core_peer_lost(cl->nodes[3].core, CORE_RING, 2, "killed");
    cl_pump(cl);
    cl_restart(cl, 2);
    cl->nodes[2].tree = OLD;
    cl_pump(cl);
    core_local_ready(cl->nodes[2].core);
    cl_pump(cl);
    core_peer_lost(cl->nodes[1].core, CORE_RING, 2, "its broker has another address");
    cl_pump(cl);
    expect_address(cl, OLD);
    cl_free(cl);
}
END_TEST

/* The successor is lost again before it has answered: there is nobody to connect to. */
START_TEST(lost_again)
{
    struct cluster *cl = restarted();

    core_local_ready(cl->nodes[2].core);
    CL_STEP_UNTIL(cl, strstr(cl->nodes[0].log, "rank 2 came back"));
    cl->nodes[2].dead = true; /* it takes nothing any more */
    cl_pump(cl);
    core_peer_lost(cl->nodes[0].core, CORE_TREE, 2, "killed");
    cl_pump(cl);
    ck_assert(!cl->nodes[1].ring_again);
    cl_free(cl);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {another_address, requests_wait, noticed_late, attempt_under_way,
                                  lost_again};
    TCase *tc = tcase_create("core_successor");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    return run_case("core_successor", tc);
}
