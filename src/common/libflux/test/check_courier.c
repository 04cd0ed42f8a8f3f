/* check_courier.c - requests arrive once, in order, although their receiver has no room at first.
 */
#include "config.h"

#include "libflux/courier.h"
#include "libflux/test/fake.h"
#include "libutil/test/suite.h"

struct bed {
    struct fake *f;
    courier_t *c;
    flux_watcher_t *stop;
    unsigned idle, failed;
    int errnum;
    bool destroy; /* in the next callback */
};

static void idle_cb(void *arg)
{
    struct bed *b = arg;

    b->idle++;
    if (b->destroy) {
        courier_destroy(b->c);
        b->c = NULL;
    }
}

static void failed_cb(void *arg, const char *topic, int errnum, const char *why)
{
    struct bed *b = arg;

    b->failed++;
    b->errnum = errnum;
    if (b->destroy) {
        courier_destroy(b->c);
        b->c = NULL;
    }
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

static const struct courier_callbacks cbs = {idle_cb, failed_cb};

static struct bed *bed_create(void)
{
    struct bed *b = calloc(1, sizeof(*b));

    ck_assert_ptr_nonnull(b);
    b->f = fake_create();
    ck_assert_ptr_nonnull(b->c = courier_create(b->f->h, FLUX_MSGF_UPSTREAM, &cbs, b));
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f->r, stop_cb, b));
    return b;
}

static void bed_free(struct bed *b)
{
    courier_destroy(b->c);
    flux_watcher_destroy(b->stop);
    fake_free(b->f);
    free(b);
}

static void post(struct bed *b, const char *text)
{
    ck_assert_int_eq(courier_post(b->c, "s.take", 5, strdup(text), strlen(text)), 0);
}

static void expect(struct bed *b, size_t i, const char *text)
{
    size_t len;
    const char *data;

    ck_assert_uint_lt(i, b->f->nsent);
    data = flux_msg_payload(b->f->sent[i], &len);
    ck_assert_uint_eq(len, strlen(text));
    ck_assert_int_eq(memcmp(data, text, len), 0);
    ck_assert_uint_eq(flux_msg_nodeid(b->f->sent[i]), 5);
    ck_assert(flux_msg_has_flag(b->f->sent[i], FLUX_MSGF_UPSTREAM));
}

static void answer(struct bed *b, size_t i, int errnum)
{
    flux_handle_deliver(b->f->h, fake_answer(b->f, i, errnum, 0, errnum ? "because" : NULL));
}

START_TEST(in_order)
{
    struct bed *b = bed_create();

    ck_assert(!courier_busy(b->c));
    post(b, "one");
    post(b, "two");
    ck_assert_int_eq(courier_post_json(b->c, "s.json", 5, strdup("{}")), 0);
    until_sent(b, 1);
    ck_assert_uint_eq(b->f->nsent, 1); /* the next waits */
    expect(b, 0, "one");
    answer(b, 0, 0);
    until_sent(b, 2);
    expect(b, 1, "two");
    ck_assert_uint_eq(b->idle, 0);
    answer(b, 1, 0);
    until_sent(b, 3);
    ck_assert_str_eq(flux_msg_topic(b->f->sent[2]), "s.json");
    answer(b, 2, 0);
    ck_assert_uint_eq(b->idle, 1);
    ck_assert_uint_eq(b->failed, 0);
    ck_assert(!courier_busy(b->c));
    bed_free(b);
}
END_TEST

/* No room: sent again, before what was posted later. */
START_TEST(again)
{
    struct bed *b = bed_create();

    post(b, "one");
    post(b, "two");
    for (size_t i = 0; i < 3; i++) {
        until_sent(b, i + 1);
        expect(b, i, "one");
        answer(b, i, EAGAIN);
        ck_assert(courier_busy(b->c));
    }
    until_sent(b, 4);
    expect(b, 3, "one");
    answer(b, 3, 0);
    until_sent(b, 5);
    expect(b, 4, "two");
    ck_assert_uint_eq(b->failed, 0);
    bed_free(b);
}
END_TEST

/* The way was lost: sent again, if the receiver knows what it has. */
START_TEST(way_lost)
{
    struct bed *b = bed_create();

    post(b, "one");
    answer(b, 0, EHOSTUNREACH);
    ck_assert_uint_eq(b->failed, 1);
    courier_destroy(b->c);
    b->c = courier_create(b->f->h, FLUX_MSGF_UPSTREAM | FLUX_MSGF_IDEMPOTENT, &cbs, b);
    post(b, "two");
    post(b, "three");
    for (size_t i = 1; i <= 5; i++) {
        until_sent(b, i + 1);
        expect(b, i, "two");
        ck_assert(flux_msg_has_flag(b->f->sent[i], FLUX_MSGF_IDEMPOTENT));
        answer(b, i, EHOSTUNREACH);
    }
    until_sent(b, 7);
    expect(b, 6, "two");
    answer(b, 6, 0);
    ck_assert_uint_eq(b->failed, 1);
    until_sent(b, 8);
    expect(b, 7, "three");
    bed_free(b);
}
END_TEST

/* Any other error is told, and the next one goes. */
START_TEST(failure)
{
    struct bed *b = bed_create();

    post(b, "one");
    post(b, "two");
    until_sent(b, 1);
    answer(b, 0, ENOSYS);
    ck_assert_uint_eq(b->failed, 1);
    ck_assert_int_eq(b->errnum, ENOSYS);
    until_sent(b, 2);
    expect(b, 1, "two");
    bed_free(b);
}
END_TEST

START_TEST(clear)
{
    struct bed *b = bed_create();

    post(b, "one");
    post(b, "two");
    until_sent(b, 1);
    courier_clear(b->c);
    ck_assert(!courier_busy(b->c));
    post(b, "three");
    until_sent(b, 2);
    expect(b, 1, "three");
    answer(b, 0, 0); /* late: of no interest */
    ck_assert(courier_busy(b->c));
    answer(b, 1, EAGAIN);
    courier_clear(b->c);
    ck_assert_uint_eq(b->idle + b->failed, 0);
    bed_free(b);
}
END_TEST

START_TEST(destroyed_in_callback)
{
    struct bed *b = bed_create();

    b->destroy = true;
    post(b, "one");
    post(b, "two");
    until_sent(b, 1);
    answer(b, 0, EPERM);
    ck_assert_ptr_null(b->c);
    bed_free(b);
    b = bed_create();
    b->destroy = true;
    post(b, "one");
    until_sent(b, 1);
    answer(b, 0, 0);
    ck_assert_ptr_null(b->c);
    bed_free(b);
}
END_TEST

/* To a courier of the next instance, with the request that is under way, or its pause. */
START_TEST(handed_over)
{
    for (int pausing = 0; pausing < 2; pausing++) {
        static const struct courier_callbacks cbs = {idle_cb, failed_cb};
        struct bed *b = bed_create();
        flux_handover_t *o = flux_handover_create();
        flux_t *before = b->f->h;
        size_t at = 1;

        post(b, "one");
        ck_assert_int_eq(courier_post_json(b->c, "s.json", 5, strdup("{}")), 0);
        until_sent(b, 1);
        if (pausing)
            answer(b, 0, EAGAIN);
        courier_save(b->c, o);
        courier_destroy(b->c);
        b->f->h = flux_handle_create(&fake_ops, b->f, b->f->r, 3, 8, 43);
        ck_assert_ptr_nonnull(b->c = courier_create(b->f->h, FLUX_MSGF_UPSTREAM, &cbs, b));
        ck_assert(courier_load(b->c, o));
        ck_assert_int_eq(flux_handover_end(o, NULL), 0);
        ck_assert(courier_busy(b->c));
        if (pausing) {
            until_sent(b, 2);
            expect(b, 1, "one");
            at = 2;
        }
        ck_assert_uint_eq(b->f->nsent, at);
        answer(b, at - 1, 0);
        until_sent(b, at + 1);
        ck_assert_str_eq(flux_msg_topic(b->f->sent[at]), "s.json");
        ck_assert_str_eq(flux_msg_json(b->f->sent[at]), "{}");
        answer(b, at, 0);
        ck_assert_uint_eq(b->idle, 1);
        ck_assert(!courier_busy(b->c));
        flux_handover_destroy(o);
        /* what is not a courier's */
        o = flux_handover_create();
        flux_handover_put_str(o, "s.take");
        flux_handover_put(o, 5);
        flux_handover_put(o, 2);
        ck_assert(!courier_load(b->c, o));
        ck_assert(!flux_handover_ok(o));
        flux_handover_destroy(o);
        flux_close(before);
        b->f->destroyed = false;
        bed_free(b);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("courier", in_order, again, way_lost, failure, clear, destroyed_in_callback,
              handed_over);
}
