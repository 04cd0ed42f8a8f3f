/* check_outlet_group.c - groups: who gets a step, and who gets it after that. */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "inlet_next.h"
#include "libstream/block.h"
#include "libstream/lane.h"
#include "libutil/test/suite.h"
#include "outlet_wait.h"

static const unsigned char key[KNOCK_KEY_LEN] = "the capability of this stream...";
static errmsg_t err;

static outlet_t *writer(double evict, uint32_t keep)
{
    struct outlet_opts opts = {.key = key, .space = 64 << 20, .evict = evict, .keep = keep};
    outlet_t *o = outlet_create(&opts, &err);

    ck_assert_msg(o != NULL, "%s", err.text);
    return o;
}

static inlet_t *join(outlet_t *o, const char *group, const char *var, uint32_t depth,
                     uint64_t bytes)
{
    struct knock_want w;

    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, group, var, &err), 0);
    w.depth = depth;
    w.bytes = bytes;
    return inlet_connect(outlet_name(o), key, &w, 30., &err);
}

static inlet_t *member(outlet_t *o, const char *var, uint32_t depth)
{
    inlet_t *i = join(o, "g", var, depth, 64 << 20);

    ck_assert_msg(i != NULL, "%s", err.text);
    return i;
}

/* A step with the variable "k". */
static int put_wait(outlet_t *o, uint64_t step, const char *value, double timeout)
{
    block_t *b = block_create();
    void *buf;
    int rc;

    ck_assert_int_eq(block_add(b, "k", NULL, 0, strlen(value)), 0);
    if ((rc = outlet_begin(o, step, block_size(b), timeout, &buf, &err)) == 0) {
        block_write(b, buf);
        memcpy((char *)buf + block_at(b, 0)->off, value, strlen(value));
        ck_assert_int_eq(outlet_commit(o, block_size(b)), 0);
    }
    block_destroy(b);
    return rc;
}

static void put(outlet_t *o, uint64_t step, const char *value)
{
    ck_assert_msg(put_wait(o, step, value, 0.) == 0, "%s", err.text);
}

static void nothing(inlet_t *i)
{
    struct inlet_step s;

    ck_assert_int_eq(inlet_next(i, 0., &s, &err), -1);
    ck_assert_msg(errno == ETIMEDOUT, "%s", err.text);
}

static void ended(inlet_t *i, int errnum)
{
    struct inlet_step s;

    ck_assert_int_eq(inlet_next(i, 30., &s, &err), -1);
    ck_assert_msg(errno == errnum, "%s", err.text);
}

static struct inlet_step get(inlet_t *i, uint64_t step)
{
    struct inlet_step s;

    ck_assert_msg(inlet_next(i, 30., &s, &err) == 1, "%s", err.text);
    ck_assert_uint_eq(s.step, step);
    return s;
}

static void get_release(inlet_t *i, uint64_t step)
{
    struct inlet_step s = get(i, step);

    ck_assert_int_eq(inlet_release(i, &s), 0);
}

/* Each step goes to one member; who has released one gets the next; what a member leaves goes to
 * another one, first. */
START_TEST(share)
{
    outlet_t *o = writer(0., 0);
    inlet_t *a = member(o, NULL, 1);
    inlet_t *b = member(o, NULL, 1);
    struct inlet_step s;
    struct knock_want w;
    inlet_t *plain;

    knock_want_init(&w);
    plain = inlet_connect(outlet_name(o), key, &w, 30., &err);
    wait_readers(o, 3);
    for (uint64_t step = 1; step <= 5; step++)
        put(o, step, "");
    get(a, 1);
    s = get(b, 2);
    nothing(a);
    nothing(b);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_str_eq(err.text, "groups have not released 5 steps within 0 s");
    inlet_release(b, &s);
    s = get(b, 3);
    inlet_destroy(a);
    wait_readers(o, 2);
    inlet_release(b, &s);
    get_release(b, 1);
    get_release(b, 4);
    get_release(b, 5);
    ck_assert_msg(outlet_drain(o, -1., &err) == 0, "%s", err.text);
    for (uint64_t step = 1; step <= 5; step++)
        get_release(plain, step);
    ck_assert_uint_eq(stats(o).live, 0);
    outlet_destroy(o);
    ended(b, ENODATA);
    inlet_destroy(b);
    inlet_destroy(plain);
}
END_TEST

/* A group whose last member has gone keeps what it had for the next one. */
START_TEST(alone)
{
    outlet_t *o = writer(0., 0);
    inlet_t *i = member(o, NULL, 2);
    inlet_t *plain = join(o, "h", NULL, 5, 64 << 20);

    wait_readers(o, 2);
    for (uint64_t step = 1; step <= 3; step++)
        put(o, step, "");
    get_release(i, 1);
    get(i, 2);
    inlet_destroy(i);
    wait_readers(o, 1);
    put(o, 4, "");
    i = member(o, NULL, 2);
    get_release(i, 2);
    get_release(i, 3);
    nothing(i);
    wait_readers(o, 2);
    put(o, 5, "");
    get_release(i, 5);
    for (uint64_t step = 1; step <= 5; step++)
        get_release(plain, step);
    ck_assert_uint_eq(stats(o).live, 0);
    inlet_destroy(plain);
    inlet_destroy(i);
    wait_readers(o, 0);
    ck_assert(!outlet_wanted(o));
    outlet_destroy(o);
}
END_TEST

/* Steps with equal keys are in order: the next one waits, or is behind the other in one lane. */
START_TEST(keys)
{
    outlet_t *o = writer(0., 0);
    inlet_t *a = member(o, "k", 1);
    inlet_t *b = member(o, "k", 1);
    struct inlet_step s;
    struct inlet_step t = {0};

    ck_assert_ptr_null(join(o, "g", "other", 1, 1));
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_str_eq(err.text, "group 'g' of the stream has another key than 'other': all members "
                               "have the same");
    ck_assert_ptr_null(join(o, "g", NULL, 1, 1));
    wait_readers(o, 2);
    put(o, 1, "x");
    put(o, 2, "x");
    put(o, 3, "y");
    put(o, 4, "x");
    s = get(a, 1);
    t = get(b, 3);
    inlet_release(b, &t);
    stats(o); /* what was released has come back */
    nothing(b);
    inlet_release(a, &s);
    t.step = s.step = 0;
    /* Now one of the two has step 2, and nobody 4. */
    while (inlet_take(a, &s, &err) == 0 && inlet_take(b, &t, &err) == 0)
        poll(NULL, 0, 1);
    outlet_destroy(o); /* 4 goes to the same member */
    if (s.step == 2) {
        inlet_release(a, &s);
        get_release(a, 4);
        ended(b, ENODATA);
    } else {
        ck_assert_uint_eq(t.step, 2);
        get_release(b, 4);
        ended(a, ENODATA);
    }
    inlet_destroy(a);
    inlet_destroy(b);
}
END_TEST

/* What an evicted member has goes to others, and stays readable for itself. */
START_TEST(evict)
{
    outlet_t *o = writer(0.01, 0);
    inlet_t *a = join(o, "g", "k", 3, 1);
    inlet_t *b;
    struct inlet_step s;

    wait_readers(o, 1);
    put(o, 1, "x");
    put(o, 2, "x");
    s = get(a, 1);
    ck_assert_msg(put_wait(o, 3, "x", -1.) == 0, "%s", err.text); /* not for the group any more */
    ck_assert_uint_eq(stats(o).evicted, 1);
    ended(a, ESTALE);
    b = join(o, "g", "k", 3, 1);
    get_release(b, 1);
    get_release(b, 2);
    ck_assert_uint_eq(s.step, 1);
    ck_assert_uint_gt(stats(o).live, 0);
    ck_assert_int_eq(inlet_release(a, &s), 0);
    ck_assert_int_eq(outlet_drain(o, -1., &err), 0);
    inlet_destroy(a);
    wait_readers(o, 1);
    ck_assert_uint_eq(stats(o).live, 0);
    outlet_destroy(o);
    inlet_destroy(b);
}
END_TEST

/* Steps that are kept are for the first member; what waits when the writer ends is for all. */
START_TEST(keep)
{
    outlet_t *o = writer(0., 3);
    inlet_t *a;
    inlet_t *b;

    for (uint64_t step = 1; step <= 5; step++)
        put(o, step, "");
    a = member(o, NULL, 1);
    b = member(o, NULL, 1);
    wait_readers(o, 2);
    put(o, 6, "");
    get_release(a, 3);
    get(b, 4);
    get(a, 5);
    put(o, 7, "");
    outlet_destroy(o);
    get_release(a, 6);
    get_release(b, 7);
    ended(a, ENODATA);
    ended(b, ENODATA);
    inlet_destroy(a);
    inlet_destroy(b);
}
END_TEST

/* The queue is the group's; the writer waits for any member. */
static void *work(void *arg)
{
    inlet_t *i = arg;
    struct inlet_step s;
    uintptr_t n = 0;

    while (inlet_next(i, 30., &s, NULL) == 1) {
        inlet_release(i, &s);
        n++;
    }
    return (void *)n;
}

START_TEST(queue)
{
    outlet_t *o = writer(0., 0);
    inlet_t *i[3];
    pthread_t t[3];
    uintptr_t sum = 0;

    for (int k = 0; k < 3; k++)
        i[k] = join(o, "g", NULL, 1, 1);
    wait_readers(o, 3);
    put(o, 1, "");
    put(o, 2, "");
    ck_assert_int_eq(put_wait(o, 3, "", 0.), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(pthread_create(&t[k], NULL, work, i[k]), 0);
    for (uint64_t step = 3; step <= 500; step++)
        ck_assert_msg(put_wait(o, step, "", -1.) == 0, "%s", err.text);
    ck_assert_int_eq(outlet_drain(o, -1., &err), 0);
    outlet_destroy(o);
    for (int k = 0; k < 3; k++) {
        void *n;

        pthread_join(t[k], &n);
        sum += (uintptr_t)n;
        inlet_destroy(i[k]);
    }
    ck_assert_uint_eq(sum, 500);
}
END_TEST

START_TEST(limits)
{
    outlet_t *o = writer(0., 0);
    inlet_t *i[65];
    char name[16];

    for (int k = 0; k < 64; k++) {
        snprintf(name, sizeof(name), "g%d", k);
        ck_assert_ptr_nonnull(i[k] = join(o, name, NULL, 1, 1));
    }
    ck_assert_ptr_null(join(o, "more", NULL, 1, 1));
    ck_assert_int_eq(errno, EBUSY);
    ck_assert_ptr_nonnull(i[64] = join(o, "g0", NULL, 1, 1));
    /* A member that says something that is none. */
    ck_assert_int_eq(send(inlet_fd(i[1]), "hello", 5, MSG_NOSIGNAL), 5);
    ended(i[1], ECONNRESET);
    for (int k = 0; k < 65; k++)
        inlet_destroy(i[k]);
    wait_readers(o, 0);
    inlet_destroy(i[0] = join(o, "more", NULL, 1, 1));
    ck_assert_ptr_nonnull(i[0]);
    outlet_destroy(o);
}
END_TEST

static inlet_t *again(outlet_t *o, const char *var, uint64_t reader, uint64_t seen)
{
    struct knock_want w;
    inlet_t *i;

    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, "g", var, &err), 0);
    w.reader = reader;
    w.seen = seen;
    ck_assert_msg((i = inlet_connect(outlet_name(o), key, &w, 30., &err)) != NULL, "%s", err.text);
    return i;
}

/* A writer that takes the place of another one keeps steps for members that are awaited, and hands
 * out those that the other one has not given to any of them. */
START_TEST(await)
{
    outlet_t *o = writer(0., 0);
    struct inlet_step s;
    inlet_t *a;
    inlet_t *b;

    ck_assert(!outlet_wanted(o));
    for (uint64_t reader = 1; reader <= 4; reader++)
        outlet_await(o, reader, "g", false);
    outlet_await(o, 1, "g", false);
    outlet_await(o, 5, "no name", false);
    ck_assert(outlet_wanted(o));
    ck_assert_uint_eq(outlet_need(o, 3), 3);
    for (uint64_t step = 3; step <= 7; step++)
        put(o, step, step % 2 ? "odd" : "even");
    ck_assert_uint_eq(outlet_need(o, 8), 3);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    a = again(o, "k", 1, 4);
    wait_readers(o, 1);
    ck_assert_uint_eq(outlet_need(o, 8), 4);
    nothing(a);
    b = again(o, "k", 2, 6); /* steps before 6 were given */
    wait_readers(o, 2);
    ck_assert_uint_eq(outlet_need(o, 8), 6);
    ck_assert_uint_eq(outlet_seen(o), 6);
    outlet_forget(o, 3);
    nothing(a);
    ck_assert_uint_eq(inlet_floor(a), 0); /* the last one may have step 5 */
    outlet_forget(o, 4);
    s = get(a, 6);
    ck_assert_uint_eq(inlet_floor(a), 6);
    put(o, 8, "even"); /* for the one that has an even one */
    get_release(b, 7);
    nothing(b);
    inlet_release(a, &s);
    get_release(a, 8);
    ck_assert_int_eq(outlet_drain(o, -1., &err), 0);
    outlet_await(o, 1, "g", false); /* it is here */
    put(o, 9, "");
    get_release(a, 9);
    inlet_destroy(a);
    inlet_destroy(b);
    outlet_destroy(o);
}
END_TEST

/* A member that does not come is awaited as long as one that does not release a step; and a writer
 * may end while it awaits some. */
START_TEST(await_evict)
{
    outlet_t *o = writer(0.05, 0);
    inlet_t *a;

    outlet_await(o, 1, "g", false);
    outlet_await(o, 2, "g", false);
    put(o, 1, "");
    a = again(o, NULL, 1, 1);
    wait_readers(o, 1);
    for (uint64_t step = 2; step < LANE_SLOTS + 1; step++)
        put(o, step, "");
    nothing(a);
    ck_assert_msg(put_wait(o, LANE_SLOTS + 1, "", 0.) == -1 && errno == ETIMEDOUT, "%s", err.text);
    ck_assert_uint_eq(stats(o).evicted, 0);
    /* The other one is not awaited any more, and then the group waits for this one. */
    ck_assert_msg(put_wait(o, LANE_SLOTS + 1, "", 30.) == 0, "%s", err.text);
    ended(a, ESTALE);
    ck_assert_uint_eq(stats(o).evicted, 1);
    outlet_await(o, 3, "h", true);
    outlet_await(o, 4, "i", false);
    inlet_destroy(a);
    outlet_destroy(o);
}
END_TEST

static inlet_t *holder(outlet_t *o, uint32_t seconds, bool follow)
{
    struct knock_want w;
    inlet_t *i;

    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, "g", NULL, &err), 0);
    w.hold = seconds;
    w.reader = 7;
    w.follow = follow;
    i = inlet_connect(outlet_name(o), key, &w, 30., &err);
    ck_assert_msg(i != NULL, "%s", err.text);
    return i;
}

/* A group that is held gets steps without members, beginning with that which its last member has
 * not released; when the time is over, what it misses is counted for the next member. */
START_TEST(held)
{
    outlet_t *o = writer(0., 0);
    inlet_t *i = holder(o, 60, false);
    struct outlet_queue q = {0};
    struct inlet_step s;
    uint64_t live;
    uint64_t n;

    wait_readers(o, 1);
    put(o, 0, "");
    put(o, 1, "");
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    ck_assert_int_eq(inlet_release(i, &s), 0);
    ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
    inlet_destroy(i);
    wait_readers(o, 0);
    ck_assert(outlet_wanted(o));
    put(o, 2, "");
    i = holder(o, 1, false);
    for (uint64_t step = 1; step < 3; step++) {
        ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
        ck_assert_uint_eq(s.step, step);
        ck_assert_int_eq(inlet_release(i, &s), 0);
    }
    inlet_destroy(i);
    wait_readers(o, 0);
    n = 3;
    do {
        live = stats(o).live;
        put(o, n++, "");
        poll(NULL, 0, 5);
    } while (stats(o).live > live && n < LANE_SLOTS);
    put(o, n++, ""); /* only the last one but this is sure to be missed: */
    ck_assert(!outlet_wanted(o));
    i = holder(o, 0, false);
    for (uint64_t step = 3; step < n - 2; step++) {
        ck_assert_int_eq(inlet_next(i, 30., &s, &err), 1);
        ck_assert_uint_eq(s.step, step);
        ck_assert_int_eq(inlet_release(i, &s), 0);
    }
    ck_assert_uint_eq(outlet_get_queues(o, &q, 1), 1);
    ck_assert(q.reader == 7 && q.dropped == 2);
    inlet_destroy(i);
    outlet_destroy(o);
}
END_TEST

static void full(double evict_seconds, uint32_t seconds, bool follow)
{
    outlet_t *o = writer(evict_seconds, 0);
    inlet_t *i = holder(o, seconds, follow);
    uint64_t n = 0;

    wait_readers(o, 1);
    inlet_destroy(i);
    wait_readers(o, 0);
    while (n < LANE_SLOTS && put_wait(o, n, "", 0.) == 0)
        n++;
    if (seconds == 1 || evict_seconds > 0.)
        ck_assert_msg(put_wait(o, n, "", 30.) == 0, "%s", err.text);
    else {
        ck_assert_uint_eq(n, LANE_SLOTS);
        ck_assert_int_eq(put_wait(o, n, "", 0.), -1);
        ck_assert_int_eq(errno, ETIMEDOUT);
    }
    outlet_destroy(o);
}

/* A writer waits when the queue of a held group is full, but not longer than it is held, and not
 * longer than it waits for any reader. */
START_TEST(held_full)
{
    full(0., 1, false);
    full(0.05, 60, false);
    full(0., 60, false);
    full(0., 60, true);
    full(0.05, 60, true);
}
END_TEST

int main(void)
{
    RUN_SUITE("outlet_group", share, alone, keys, evict, keep, queue, limits, await, await_evict,
              held, held_full);
}
