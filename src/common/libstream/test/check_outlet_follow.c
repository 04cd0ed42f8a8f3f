/* check_outlet_follow.c - a group at a writer that does not hand out the steps: who gets a step,
 * how long it is kept, and who waits. */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "ends.h"
#include "libutil/test/suite.h"

static inlet_t *member_of(outlet_t *o, bool follow, uint64_t bytes)
{
    struct knock_want w;
    inlet_t *i;

    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, "g", NULL, &err), 0);
    w.follow = follow;
    w.bytes = bytes;
    i = reader_try(writer_address(o), &w);
    ck_assert_msg(i != NULL, "%s", err.text);
    return i;
}

static inlet_t *member(outlet_t *o, uint64_t bytes)
{
    return member_of(o, true, bytes);
}

static void claim(inlet_t *i, uint64_t step, uint64_t floor)
{
    struct knock_claim c = {step, floor};

    inlet_claim(i, &c);
}

/* Wait until the writer has answered that a step is missing. */
static void missing(inlet_t *i, uint64_t step)
{
    struct pollfd p = {.fd = inlet_fd(i), .events = POLLIN};

    while (!inlet_missing(i, step)) {
        if (inlet_sleep(i))
            ck_assert_int_eq(poll(&p, 1, 30000), 1);
        inlet_wake(i);
    }
    get_error(i, ETIMEDOUT);
}

static void wait_floor(inlet_t *i, uint64_t floor)
{
    struct pollfd p = {.fd = inlet_fd(i), .events = POLLIN};

    while (inlet_floor(i) != floor) {
        if (inlet_sleep(i))
            ck_assert_int_eq(poll(&p, 1, 30000), 1);
        inlet_wake(i);
    }
}

static uint64_t len(uint64_t step)
{
    return STEP_LEN - step;
}

/* A step goes to whoever claims it, also to two, and is kept until one has released it; then it is
 * missing, as are steps from before the group began.  A claim may come before the step. */
START_TEST(claims)
{
    outlet_t *o;
    inlet_t *a;
    inlet_t *b;
    struct inlet_step s;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    a = member(o, 64 << 20);
    b = member(o, 64 << 20);
    wait_readers(o, 2);
    put(o, 3);
    put(o, 4);
    get_error(a, ETIMEDOUT);
    claim(a, 2, 0);
    missing(a, 2);
    claim(b, 4, 0);
    s = get(b, 4);
    claim(a, 4, 0);
    get(a, 4);
    inlet_destroy(a);
    wait_readers(o, 1);
    a = member(o, 64 << 20);
    claim(a, 4, 0);
    get_release(a, 4);
    wait_live(o, len(3) + len(4)); /* b holds it */
    ck_assert_int_eq(inlet_release(b, &s), 0);
    wait_live(o, len(3));
    claim(b, 4, 0);
    missing(b, 4);
    claim(b, 6, 0);
    put(o, 5);
    get_error(b, ETIMEDOUT);
    put(o, 6);
    get_release(b, 6);
    claim(a, 8, 0);
    put(o, 9);
    missing(a, 8);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    claim(a, KNOCK_NO_STEP, 9);
    wait_live(o, len(9));
    claim(a, 9, 0); /* the floor never falls */
    get_release(a, 9);
    ck_assert_int_eq(outlet_drain(o, -1., &err), 0);
    wait_live(o, 0);
    inlet_destroy(a);
    inlet_destroy(b);
    outlet_destroy(o);
}
END_TEST

/* The writer waits for the queue, unless somebody waits for the step, or the floor shows that the
 * others are done. */
START_TEST(queue)
{
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = member(o, 1);
    wait_readers(o, 1);
    put(o, 1);
    put(o, 2);
    ck_assert_int_eq(put_wait(o, 3, 0.), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    claim(i, 4, 1);
    ck_assert_msg(put_wait(o, 3, -1.) == 0, "%s", err.text);
    ck_assert_msg(put_wait(o, 4, 0.) == 0, "%s", err.text);
    ck_assert_int_eq(put_wait(o, 5, 0.), -1);
    get_release(i, 4);
    ck_assert_int_eq(put_wait(o, 5, 0.), -1);
    claim(i, KNOCK_NO_STEP, 3);
    ck_assert_msg(put_wait(o, 5, -1.) == 0, "%s", err.text);
    claim(i, KNOCK_NO_STEP, 8);
    wait_live(o, 0);
    put(o, 6); /* was never given to the group */
    ck_assert_uint_eq(stats(o).live, 0);
    put(o, 8);
    ck_assert_uint_eq(stats(o).live, len(8));
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* A group without members keeps steps, as many as fit into its queue. */
START_TEST(alone)
{
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = member(o, 1);
    wait_readers(o, 1);
    put(o, 1);
    claim(i, 1, 0);
    get(i, 1);
    inlet_destroy(i);
    wait_readers(o, 0);
    ck_assert(outlet_wanted(o));
    put(o, 2);
    ck_assert(!outlet_wanted(o));
    put(o, 3);
    ck_assert_int_eq(outlet_drain(o, 0., &err), 0);
    i = member(o, 1);
    wait_readers(o, 1);
    claim(i, 2, 0);
    get_release(i, 2);
    claim(i, 1, 0);
    get_release(i, 1);
    claim(i, 3, 0);
    missing(i, 3);
    wait_live(o, 0);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* Steps that are kept are for the first member; all that is left at the end is for all. */
START_TEST(keep_end)
{
    outlet_t *o;
    inlet_t *a;
    inlet_t *b;

    ends_way = (enum way)_i;
    o = writer(0., 2);
    for (uint64_t step = 1; step <= 3; step++)
        put(o, step);
    a = member(o, 64 << 20);
    b = member(o, 64 << 20);
    wait_readers(o, 2);
    put(o, 4);
    claim(a, 1, 0);
    missing(a, 1);
    claim(a, 3, 0);
    get_release(a, 3);
    claim(b, 4, 0);
    get(b, 4);
    while (outlet_drain(o, 0., &err) == 0 || !strstr(err.text, " 2 steps"))
        poll(NULL, 0, 1);
    outlet_destroy(o);
    if (ends_way == RING) { /* by TCP, values are not sent after the end */
        get(a, 2);
        get(a, 4);
        get(b, 2);
        get_error(a, ENODATA);
        get_error(b, ENODATA);
    }
    inlet_destroy(a);
    inlet_destroy(b);
}
END_TEST

/* Members that have steps are evicted first; else all. */
START_TEST(evict)
{
    outlet_t *o;
    inlet_t *a;
    inlet_t *b;
    struct inlet_step s;

    ends_way = (enum way)_i;
    o = writer(0.01, 0);
    a = member(o, 1);
    b = member(o, 1);
    wait_readers(o, 2);
    put(o, 1);
    put(o, 2);
    claim(a, 1, 0);
    s = get(a, 1);
    ck_assert_int_eq(put_wait(o, 3, -1.), 0);
    ck_assert_uint_eq(stats(o).evicted, 2);
    get_error(a, ESTALE);
    get_error(b, ESTALE);
    check(&s, 1);
    inlet_destroy(b);
    b = member(o, 1);
    claim(b, 1, 0);
    get(b, 1);
    ck_assert_int_eq(inlet_release(a, &s), 0); /* counts: it was done */
    inlet_destroy(a);
    wait_readers(o, 1);
    claim(b, 1, 0);
    missing(b, 1);
    inlet_destroy(b);
    outlet_destroy(o);
}
END_TEST

/* The writer that hands out the steps tells which are done: with each step, and when a member has
 * gone, steps were not given to the group, or all are done. */
START_TEST(floors)
{
    outlet_t *o;
    inlet_t *a;
    inlet_t *b;
    struct inlet_step s;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    put(o, 4);
    a = member_of(o, false, 64 << 20);
    wait_floor(a, 5);
    wait_readers(o, 1);
    put(o, 6);
    put(o, 7);
    put(o, 8);
    s = get(a, 6);
    ck_assert_uint_eq(inlet_floor(a), 6);
    b = member_of(o, false, 64 << 20);
    get_release(b, 7);
    get(b, 8);
    ck_assert_uint_eq(inlet_floor(b), 6); /* 6 is not done */
    ck_assert_int_eq(inlet_release(a, &s), 0);
    inlet_destroy(b);
    s = get(a, 8);
    ck_assert_uint_eq(inlet_floor(a), 8);
    ck_assert_int_eq(inlet_release(a, &s), 0);
    wait_floor(a, 9); /* nothing is left */
    inlet_destroy(a);
    wait_readers(o, 0);
    put(o, 9);
    a = member_of(o, false, 64 << 20);
    wait_floor(a, 10);
    outlet_destroy(o);
    inlet_destroy(a);
}
END_TEST

/* Nothing but a claim has the length of one, and only a member of such a group claims. */
START_TEST(wrong)
{
    struct knock_want w;
    outlet_t *o;
    inlet_t *i;

    ends_way = (enum way)_i;
    o = writer(0., 0);
    i = member_of(o, false, 1);
    claim(i, 1, 0);
    get_error(i, ECONNRESET);
    inlet_destroy(i);
    wait_readers(o, 0);
    i = member(o, 1);
    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, "g", NULL, &err), 0);
    ck_assert_ptr_null(reader_try(writer_address(o), &w));
    ck_assert_int_eq(errno, EPROTO);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

/* A writer that takes the place of another one keeps steps for members that it awaits, from its
 * first one on, and waits rather than lose one; the first step that no member has is told. */
START_TEST(await)
{
    outlet_t *o = writer(0., 0);
    struct knock_want w;
    inlet_t *i;

    outlet_await(o, 7, "g", true);
    ck_assert(outlet_wanted(o));
    put(o, 5);
    put(o, 6);
    put(o, 7);
    ck_assert_uint_eq(outlet_need(o, 8), 5);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, "g", NULL, &err), 0);
    w.follow = true;
    w.reader = 7;
    w.bytes = 1;
    ck_assert_msg((i = reader_try(writer_address(o), &w)) != NULL, "%s", err.text);
    wait_readers(o, 1);
    ck_assert_int_eq(put_wait(o, 8, 0.), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    claim(i, 5, 5);
    struct inlet_step s = get(i, 5);
    ck_assert_uint_eq(outlet_need(o, 8), 6);
    inlet_release(i, &s);
    claim(i, 7, 7);
    get_release(i, 7);
    ck_assert_int_eq(outlet_drain(o, -1., &err), 0);
    ck_assert_uint_eq(outlet_need(o, 8), 8);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("outlet_follow");
    Suite *s = suite_create("outlet_follow");
    SRunner *sr;
    int failed;

    tcase_add_loop_test(tc, claims, 0, WAYS);
    tcase_add_loop_test(tc, queue, 0, WAYS);
    tcase_add_loop_test(tc, alone, 0, WAYS);
    tcase_add_loop_test(tc, keep_end, 0, WAYS);
    tcase_add_loop_test(tc, evict, 0, WAYS);
    tcase_add_loop_test(tc, floors, 0, WAYS);
    tcase_add_loop_test(tc, wrong, 0, WAYS);
    tcase_add_loop_test(tc, await, 0, WAYS);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed > 0;
}
