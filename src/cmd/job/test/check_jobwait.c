/* check_jobwait.c - the end of jobs is asked for until the service has room for the question. */
#include "config.h"

#include "libflux/reactor.h"
#include "libflux/test/fake.h"
#include "libutil/test/suite.h"
#include "../jobwait.h"

struct bed {
    struct fake *f;
    jobwait_t *w;
    flux_watcher_t *stop;
    unsigned calls;
    int errnum; /* of the last call */
};

static void ended_cb(flux_future_t *f, void *arg)
{
    struct bed *b = arg;

    b->calls++;
    b->errnum = flux_future_errnum(f);
    ck_assert_ptr_eq(f, jobwait_answer(b->w));
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* Run the loop until `n` messages were sent. */
static void until_sent(struct bed *b, size_t n)
{
    while (b->f->nsent < n) {
        flux_timer_start(b->stop, 0.002, 0.);
        flux_reactor_run(b->f->r);
    }
}

static void answer(struct bed *b, size_t i, int errnum)
{
    flux_handle_deliver(b->f->h, fake_answer(b->f, i, errnum, 0, errnum ? "because" : NULL));
}

static void bed_init(struct bed *b)
{
    memset(b, 0, sizeof(*b));
    b->f = fake_create();
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f->r, stop_cb, b));
    ck_assert_ptr_nonnull(b->w = jobwait_create(b->f->h, "3-4", ended_cb, b));
}

static void bed_clear(struct bed *b)
{
    jobwait_destroy(b->w);
    flux_watcher_destroy(b->stop);
    fake_free(b->f);
}

START_TEST(asks_again)
{
    struct bed b;

    bed_init(&b);
    for (size_t i = 0; i < 3; i++) {
        until_sent(&b, i + 1);
        ck_assert_str_eq(flux_msg_topic(b.f->sent[i]), "job.wait");
        ck_assert_ptr_nonnull(strstr(flux_msg_json(b.f->sent[i]), "\"3-4\""));
        answer(&b, i, EAGAIN);
        ck_assert_ptr_null(jobwait_answer(b.w));
    }
    until_sent(&b, 4);
    ck_assert_uint_eq(b.calls, 0);
    answer(&b, 3, 0);
    ck_assert_uint_eq(b.calls, 1);
    ck_assert_int_eq(b.errnum, 0);
    ck_assert_ptr_nonnull(jobwait_answer(b.w));
    ck_assert_uint_eq(b.f->nsent, 4);
    bed_clear(&b);
}
END_TEST

/* The way is lost when some of the jobs have ended already. */
START_TEST(way_lost)
{
    struct bed b;

    bed_init(&b);
    fake_respond(b.f, 0, 0, FLUX_MSGF_STREAMING, "{\"ended\":[]}");
    ck_assert_uint_eq(b.calls, 1);
    ck_assert_int_eq(flux_future_next(jobwait_answer(b.w)), 0);
    answer(&b, 0, EHOSTUNREACH);
    ck_assert_uint_eq(b.calls, 1);
    ck_assert_ptr_null(jobwait_answer(b.w));
    until_sent(&b, 2);
    ck_assert_ptr_nonnull(strstr(flux_msg_json(b.f->sent[1]), "\"3-4\""));
    answer(&b, 1, ENODATA);
    ck_assert_uint_eq(b.calls, 2);
    ck_assert_int_eq(b.errnum, ENODATA);
    bed_clear(&b);
}
END_TEST

START_TEST(tells_other_errors)
{
    struct bed b;

    bed_init(&b);
    answer(&b, 0, ENOENT);
    ck_assert_uint_eq(b.calls, 1);
    ck_assert_int_eq(b.errnum, ENOENT);
    ck_assert_uint_eq(b.f->nsent, 1);
    bed_clear(&b);
}
END_TEST

/* Destroyed during a pause, it sends nothing. */
START_TEST(left)
{
    struct bed b;

    bed_init(&b);
    answer(&b, 0, EAGAIN);
    jobwait_destroy(b.w);
    b.w = NULL;
    flux_reactor_run(b.f->r);
    ck_assert_uint_eq(b.f->nsent, 1);
    errno = 17;
    jobwait_destroy(NULL);
    ck_assert_int_eq(errno, 17);
    bed_clear(&b);
}
END_TEST

int main(void)
{
    RUN_SUITE("jobwait", asks_again, way_lost, tells_other_errors, left);
}
