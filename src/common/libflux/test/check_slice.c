/* check_slice.c - slices of long computations: by time, by steps on a virtual clock, and shorter on
 * a shared loop.
 */
#include "config.h"
#include <check.h>

#include "libflux/slice.h"
#include "libutil/test/suite.h"

static double hundred(void *impl)
{
    return 100.;
}

static const struct flux_reactor_ops still = {.now = hundred};

START_TEST(slices)
{
    flux_reactor_t *virtual = flux_reactor_create_ops(&still, NULL);
    flux_reactor_t *real = flux_reactor_create(false);
    struct flux_slice s;
    double last;

    ck_assert(flux_reactor_virtual(virtual) && !flux_reactor_virtual(real));
    /* No time passes: the number of steps counts. */
    flux_slice_begin(&s, virtual, 1e-9, 3);
    for (int i = 0; i < 3; i++)
        ck_assert(flux_slice_more(&s));
    ck_assert(!flux_slice_more(&s));
    /* Time is over at once: one thing all the same. */
    flux_slice_begin(&s, real, 0., 1000);
    ck_assert(flux_slice_more(&s));
    ck_assert(!flux_slice_more(&s));
    /* It ends by itself, and not before its time. */
    last = flux_reactor_clock(real);
    flux_slice_begin(&s, real, 0.01, 1);
    while (flux_slice_more(&s))
        ;
    ck_assert(flux_reactor_clock(real) >=
              last + 0.01); /* sums are rounded alike, differences are not */
    flux_reactor_destroy(virtual);
    flux_reactor_destroy(real);
}
END_TEST

static void no_stop(void *arg)
{
}

static void no_turn(void *arg, const char *what, flux_watcher_f cb, double seconds)
{
}

/* While the loop hurries, slices of its parts are short; those of the whole are as they were. */
START_TEST(hurried_slices)
{
    static const struct flux_reactor_part_ops ops = {no_stop, no_turn};
    flux_reactor_t *whole = flux_reactor_create(false);
    flux_reactor_t *part = flux_reactor_create_part(whole, &ops, NULL);
    flux_reactor_t *virtual = flux_reactor_create_ops(&still, NULL);
    double begin = flux_reactor_clock(whole);
    struct flux_slice s;

    flux_slice_begin(&s, part, 1., 1);
    ck_assert(s.until >= begin + FLUX_SLICE_SHARED);
    ck_assert(!flux_reactor_hurries(whole) && !flux_reactor_hurries(part));
    flux_reactor_hurry(part, begin + 1000.);
    ck_assert(flux_reactor_hurries(whole) && flux_reactor_hurries(part));
    flux_slice_begin(&s, part, 1., 1);
    ck_assert(s.until <= flux_reactor_clock(whole) + FLUX_SLICE_HURRIED);
    begin = flux_reactor_clock(whole);
    flux_slice_begin(&s, whole, 1., 1);
    ck_assert(s.until >= begin + 1.);
    flux_reactor_hurry(whole, flux_reactor_clock(whole));
    ck_assert(!flux_reactor_hurries(part));
    flux_reactor_hurry(virtual, 1000.);
    ck_assert(!flux_reactor_hurries(virtual));
    flux_reactor_destroy(part);
    flux_reactor_destroy(whole);
    flux_reactor_destroy(virtual);
}
END_TEST

int main(void)
{
    RUN_SUITE("slice", slices, hurried_slices);
}
