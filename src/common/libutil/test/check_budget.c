/* check_budget.c - how much work a budget permits, on a clock of the test's own. */
#include "config.h"
#include <check.h>

#include "libutil/budget.h"
#include "libutil/test/suite.h"

/* What was saved up goes at once, and then the share. */
START_TEST(rate)
{
    struct budget b;
    double now = 100., used = 0.;

    budget_init(&b, 0.1, 0.01, now);
    while (now < 110.) {
        double wait = budget_wait(&b, now);

        ck_assert_double_ge(wait, 0.);
        if (wait > 0.) {
            now += wait;
            ck_assert_double_eq(budget_wait(&b, now), 0.);
            continue;
        }
        budget_use(&b, 0.002);
        used += 0.002;
        now += 0.002;
    }
    ck_assert_double_ge(used, 0.99);
    ck_assert_double_le(used, 1.02);
}
END_TEST

/* After an hour without work there is no more than the maximum. */
START_TEST(most)
{
    struct budget b;

    budget_init(&b, 0.5, 0.01, 0.);
    ck_assert_double_eq(budget_wait(&b, 3600.), 0.);
    budget_use(&b, 0.03);
    ck_assert_double_ge_tol(budget_wait(&b, 3600.), 0.04, 1e-3);
    ck_assert_double_le(budget_wait(&b, 3600.), 0.041);
    /* A clock that stands still, or goes back, gives nothing. */
    ck_assert_double_gt(budget_wait(&b, 3599.), 0.03);
    ck_assert_double_eq(budget_wait(&b, 3600.05), 0.);
}
END_TEST

/* Work that takes no time, as on a virtual clock, is never held back. */
START_TEST(virtual_clock)
{
    struct budget b;

    budget_init(&b, 0.1, 0.01, 0.);
    for (int i = 0; i < 1000; i++) {
        ck_assert_double_eq(budget_wait(&b, 0.), 0.);
        budget_use(&b, 0.);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("budget", rate, most, virtual_clock);
}
