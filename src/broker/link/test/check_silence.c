/* check_silence.c - who is slow or lost, and when, on a clock that the test moves. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "src/broker/link/silence.h"

/* --- a reactor with one timer --- */

struct bed {
    flux_reactor_t *r;
    double now;
    double at; /* of the timer */
    flux_watcher_t *timer;
    silence_t *s;
    struct silence_line line;
    bool patient;
    bool alive; /* the neighbor: its sign of life comes before each round with probes */
    unsigned probes;
    unsigned rounds;
    double slow_at, lost_at, heard_at; /* silent for so long; 0: never */
};

static double bed_now(void *impl)
{
    return ((struct bed *)impl)->now;
}

static int bed_timer_set(void *impl, flux_watcher_t *w, double at)
{
    struct bed *b = impl;

    b->timer = w;
    b->at = at;
    return 0;
}

static void bed_timer_clear(void *impl, flux_watcher_t *w)
{
    struct bed *b = impl;

    if (b->timer == w)
        b->timer = NULL;
}

static const struct flux_reactor_ops ops = {
    .now = bed_now, .timer_set = bed_timer_set, .timer_clear = bed_timer_clear};

static void round_cb(void *arg, bool probe)
{
    struct bed *b = arg;

    b->rounds++;
    b->probes += probe;
    if (probe && b->alive)
        silence_heard(b->s, &b->line);
    switch (silence_judge(b->s, &b->line, b->patient)) {
    case SILENCE_SLOW:
        b->slow_at = silence_length(b->s, &b->line);
        break;
    case SILENCE_LOST:
        b->lost_at = silence_length(b->s, &b->line);
        break;
    case SILENCE_HEARD:
        b->heard_at = b->now;
        break;
    case SILENCE_FINE:
        break;
    }
}

static struct bed *bed_create(const struct silence_limits *lim)
{
    struct bed *b = calloc(1, sizeof(*b));

    ck_assert_ptr_nonnull(b);
    b->now = 1000.3;
    b->alive = true;
    ck_assert_ptr_nonnull(b->r = flux_reactor_create_ops(&ops, b));
    ck_assert_ptr_nonnull(b->s = silence_create(b->r, lim, round_cb, b));
    silence_begin(b->s, &b->line);
    silence_start(b->s);
    return b;
}

static void bed_destroy(struct bed *b)
{
    silence_destroy(b->s);
    silence_destroy(NULL);
    flux_reactor_destroy(b->r);
    free(b);
}

/* Let time pass; each timer fires `late` seconds after its time. */
static void pass(struct bed *b, double seconds, double late)
{
    double end = b->now + seconds;

    while (b->timer && b->at + late <= end) {
        flux_watcher_t *w = b->timer;

        b->timer = NULL;
        b->now = b->at + late > b->now ? b->at + late : b->now;
        flux_watcher_fire(w);
    }
    b->now = end > b->now ? end : b->now;
}

static const struct silence_limits limits = {1., 2., 3., 60.};

/* --- tests --- */

START_TEST(who_is_heard_is_fine)
{
    struct bed *b = bed_create(&limits);

    pass(b, 1000., 0.);
    ck_assert(b->slow_at == 0. && b->lost_at == 0.);
    ck_assert_uint_ge(b->probes, 1999);
    ck_assert_uint_eq(b->rounds, b->probes); /* nothing else wakes an idle broker up */
    bed_destroy(b);
}
END_TEST

/* SIGNS of a probe after the limit, and at the latest EARLY and DOUBT of a probe later. */
START_TEST(slow_then_lost)
{
    struct bed *b = bed_create(&limits);

    pass(b, 0.1 * _i, 0.);
    silence_heard(b->s, &b->line);
    b->alive = false;
    pass(b, 2.39, 0.);
    ck_assert(b->slow_at == 0.);
    pass(b, 0.1, 0.);
    ck_assert(b->slow_at >= 2.39);
    pass(b, 0.9, 0.);
    ck_assert(b->lost_at == 0.);
    pass(b, 0.1, 0.);
    ck_assert(b->lost_at >= 3.39);
    bed_destroy(b);
}
END_TEST

/* The neighbor stands still for a little less than the limit, and begins to do so at any moment
 * between two signs of life. */
START_TEST(pause_of_neighbor)
{
    struct bed *b = bed_create(&limits);

    pass(b, 5. + 0.02 * _i, 0.);
    b->alive = false;
    pass(b, 2.98, 0.);
    silence_heard(b->s, &b->line);
    b->alive = true;
    pass(b, 10., 0.);
    ck_assert_msg(b->lost_at == 0., "lost after %g s", b->lost_at);
    bed_destroy(b);
}
END_TEST

START_TEST(heard_again)
{
    struct bed *b = bed_create(&limits);

    b->alive = false;
    pass(b, 2.9, 0.);
    ck_assert(b->slow_at >= 2. && b->heard_at == 0.);
    silence_heard(b->s, &b->line);
    pass(b, 1., 0.);
    ck_assert(b->heard_at > 0.);
    ck_assert(b->lost_at == 0.);
    b->slow_at = 0.;
    pass(b, 1.8, 0.);
    ck_assert(b->slow_at >= 2.);
    bed_destroy(b);
}
END_TEST

START_TEST(patience)
{
    struct bed *b = bed_create(&limits);

    b->patient = true;
    b->alive = false;
    pass(b, 59.9, 0.);
    ck_assert(b->slow_at == 0. && b->lost_at == 0.);
    pass(b, 0.9, 0.);
    ck_assert(b->lost_at >= 60.);
    /* Once it may be expected to be heard, it gets another chance to be read. */
    b->lost_at = 0.;
    b->patient = false;
    pass(b, 1., 0.);
    ck_assert(b->slow_at > 60.);
    bed_destroy(b);
}
END_TEST

/* The broker itself was stopped for _i / 10 s, at any moment: it accuses nobody.  What has come
 * meanwhile is read after the round that is late. */
START_TEST(own_pause)
{
    for (int phase = 0; phase < 10; phase++) {
        struct bed *b = bed_create(&limits);

        pass(b, 5. + 0.1 * phase, 0.);
        b->alive = false;
        b->now += 0.1 * _i;
        if (b->timer && b->at <= b->now) {
            flux_watcher_t *w = b->timer;

            b->timer = NULL;
            flux_watcher_fire(w);
        }
        silence_heard(b->s, &b->line);
        b->alive = true;
        pass(b, 10., 0.);
        ck_assert_msg(b->slow_at == 0. && b->lost_at == 0.,
                      "slow after %g s, lost after %g s (phase %d)", b->slow_at, b->lost_at, phase);
        bed_destroy(b);
    }
}
END_TEST

/* The same, and a limit had passed just before, so that it was in doubt already. */
START_TEST(own_pause_in_doubt)
{
    struct bed *b = bed_create(&limits);

    b->alive = false;
    while (!b->line.doubt)
        pass(b, 0.01, 0.);
    b->now += 0.1 * _i;
    pass(b, 0., 0.);
    silence_heard(b->s, &b->line);
    b->alive = true;
    pass(b, 10., 0.);
    ck_assert(b->slow_at == 0. && b->lost_at == 0.);
    bed_destroy(b);
}
END_TEST

/* Rounds that are always late, but not by more than half of the limit, still find who is dead. */
START_TEST(busy)
{
    static const double late[] = {0.2, 0.3, 1.};
    struct bed *b = bed_create(&limits);

    pass(b, 5., late[_i]);
    ck_assert(b->slow_at == 0.);
    b->alive = false;
    pass(b, late[_i] < 0.25 ? 5. : 40., late[_i]);
    ck_assert(b->slow_at > 0. && b->lost_at > 0.);
    bed_destroy(b);
}
END_TEST

START_TEST(never)
{
    const struct silence_limits off = {0., 0., 0., 60.};
    struct bed *b = bed_create(&off);

    pass(b, 1000., 0.);
    ck_assert_uint_eq(b->rounds, 0);
    bed_destroy(b);
}
END_TEST

START_TEST(texts)
{
    struct silence_limits lim;
    errmsg_t err = {""};

    ck_assert_int_eq(silence_limits_parse(&lim, NULL, NULL, NULL, NULL, &err), 0);
    ck_assert(lim.probe == 1. && lim.slow == 2. && lim.lost == 3. && lim.patience == 60.);
    ck_assert_int_eq(silence_limits_parse(&lim, NULL, NULL, "300ms", NULL, &err), 0);
    ck_assert(lim.probe < 0.11 && lim.slow < 0.21 && lim.lost == 0.3);
    ck_assert_int_eq(silence_limits_parse(&lim, NULL, NULL, "5m", NULL, &err), 0);
    ck_assert(lim.probe == 1. && lim.slow == 2. && lim.lost == 300. && lim.patience == 300.);
    ck_assert_int_eq(silence_limits_parse(&lim, NULL, NULL, "0", NULL, &err), 0);
    ck_assert(lim.lost == 0.);
    ck_assert_int_eq(silence_limits_parse(&lim, "2s", "2s", NULL, NULL, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_msg(strstr(err.text, "live.slow") != NULL, "%s", err.text);
    ck_assert_int_eq(silence_limits_parse(&lim, NULL, NULL, "2m", "1m", &err), -1);
    ck_assert_int_eq(silence_limits_parse(&lim, "soon", NULL, NULL, NULL, &err), -1);
    ck_assert_msg(strstr(err.text, "live.probe=soon") != NULL, "%s", err.text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("silence");

    tcase_add_test(tc, who_is_heard_is_fine);
    tcase_add_loop_test(tc, slow_then_lost, 0, 30);
    tcase_add_loop_test(tc, pause_of_neighbor, 0, 50);
    tcase_add_test(tc, heard_again);
    tcase_add_test(tc, patience);
    tcase_add_loop_test(tc, own_pause, 1, 100);
    tcase_add_loop_test(tc, own_pause_in_doubt, 4, 20);
    tcase_add_loop_test(tc, busy, 0, 3);
    tcase_add_test(tc, never);
    tcase_add_test(tc, texts);
    return run_case("silence", tc);
}
