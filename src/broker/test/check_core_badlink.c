/* check_core_badlink.c - a subtree that cannot return to its place since the link there is bad. */
#include "config.h"

#include "heal_bed.h"
#include "libutil/test/suite.h"

/* Rank 1 of a session kary:2 of 7 has come back, and rank 3 cannot connect to it. */
static struct cluster *bad(void)
{
    struct cluster *cl;

    cl_settle = 10.;
    cl = cl_up(7, "kary:2");
    replace(cl, 1);
    cl->bad[3][1] = true;
    return cl;
}

/* The attempts follow after 10 s, 20 s, 40 s, 80 s, 160 s, and then every 160 s; the first failure
 * is said. */
static void tries(struct cluster *cl)
{
    static const double at[] = {10., 10., 20., 40., 80., 160., 160., 160.};
    unsigned root = cl->nodes[0].errors, child = cl->nodes[3].errors;

    cl->tried = 0;
    cl_sleep(cl, -0.5 + at[0]);
    ck_assert_uint_eq(cl->tried, 0);
    for (unsigned i = 1; i < sizeof(at) / sizeof(at[0]); i++) {
        cl_sleep(cl, 1.);
        ck_assert_uint_eq(cl->tried, i);
        ck_assert_uint_eq(cl->nodes[3].parent, 0);
        ck_assert_uint_eq(cl->nodes[0].errors, root + 1);
        ck_assert_uint_eq(cl->nodes[3].errors, child + 1);
        cl_sleep(cl, at[i] - 1.);
        ck_assert_uint_eq(cl->tried, i);
    }
}

static void expect_return(struct cluster *cl)
{
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_whole(cl);
}

/* Its sibling is not held up; rank 3 returns when the link is good again. */
START_TEST(tried_less_often)
{
    struct cluster *cl = bad();

    tries(cl);
    ck_assert_uint_eq(cl->nodes[4].parent, 1);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "the change is tried again in 10 s, and then "
                                                   "less often, at least every 160 s"));
    cl->bad[3][1] = false;
    cl_sleep(cl, 1.);
    expect_return(cl);
    cl_free(cl);
}
END_TEST

/* Another broker of rank 1 comes: all begins anew. */
START_TEST(comes_back)
{
    struct cluster *cl = bad();

    tries(cl);
    cl_sleep(cl, 2.);
    replace(cl, 1);
    cl->bad[3][1] = true;
    cl->nodes[3].errors = 0;
    cl->tried = 0;
    cl_sleep(cl, 11.);
    ck_assert_uint_eq(cl->tried, 1);
    cl_sleep(cl, 10.);
    ck_assert_uint_eq(cl->tried, 2);
    cl->bad[3][1] = false;
    cl_sleep(cl, 20.);
    expect_return(cl);
    cl_free(cl);
}
END_TEST

/* Whoever asks for the return gets one attempt at once, and the reason of its failure. */
START_TEST(on_request)
{
    struct cluster *cl = bad();
    struct party *op = client(cl, 0);

    tries(cl);
    cl_sleep(cl, 2.);
    cl->tried = 0;
    ask_flags(op, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->tried, 1);
    ck_assert_uint_eq(op->n, 1);
    ck_assert_ptr_nonnull(strstr(flux_msg_json(op->kept[0]), "rank 3 stays below rank 0"));
    cl->bad[3][1] = false;
    ask_flags(op, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    cl_sleep(cl, 1.);
    expect_return(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_badlink");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, healing, NULL);
    tcase_add_test(tc, tried_less_often);
    tcase_add_test(tc, comes_back);
    tcase_add_test(tc, on_request);
    return run_case("core_badlink", tc);
}
