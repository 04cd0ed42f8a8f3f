/* check_turns.c - how many messages a client may pass on, and in which order waiting clients are
 * served.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <limits.h>

#include "libutil/test/suite.h"
#include "src/broker/turns.h"

#define CLIENTS 8

/* Clients 0 to 4 belong to process 1, and the others to one process each. */
static struct turn turn[CLIENTS];

static turns_t *setup(void)
{
    turns_t *t = turns_create();

    ck_assert_ptr_nonnull(t);
    for (int i = 0; i < CLIENTS; i++) {
        turns_init(&turn[i]);
        ck_assert_int_eq(turns_join(t, &turn[i], i < 5 ? 1 : i), 0);
    }
    return t;
}

static void teardown(turns_t *t)
{
    for (int i = 0; i < CLIENTS; i++)
        turns_leave(t, &turn[i]);
    ck_assert(!turns_pending(t));
    ck_assert_ptr_null(turns_next(t));
    turns_destroy(t);
}

static int next(turns_t *t)
{
    struct turn *n = turns_next(t);

    return n ? (int)(n - turn) : -1;
}

START_TEST(clients)
{
    turns_t *t = setup();

    ck_assert_uint_eq(turns_clients(t, 1), 5);
    ck_assert_uint_eq(turns_clients(t, 6), 1);
    ck_assert_uint_eq(turns_clients(t, 99), 0);
    turns_leave(t, &turn[6]);
    turns_leave(t, &turn[6]);
    turns_leave(t, &turn[0]);
    ck_assert_uint_eq(turns_clients(t, 1), 4);
    ck_assert_uint_eq(turns_clients(t, 6), 0);
    teardown(t);
    errno = 11;
    turns_destroy(NULL);
    ck_assert_int_eq(errno, 11);
}
END_TEST

/* Alone, a process is not slowed down, however many of its clients send; it is alone again in the
 * second pass after another one has sent, or a moment after it, whichever is later. */
START_TEST(alone)
{
    turns_t *t = setup();

    (void)turns_share(t, &turn[0], 1.);
    ck_assert(turns_several(t, 1.));
    ck_assert_uint_eq(turns_share(t, &turn[0], 2.), TURNS_FEW);
    ck_assert(turns_several(t, 2.));
    ck_assert_uint_eq(turns_share(t, &turn[0], 3.), UINT_MAX);
    ck_assert_uint_eq(turns_share(t, &turn[1], 3.), UINT_MAX);
    ck_assert(!turns_several(t, 3.));
    ck_assert_uint_eq(turns_share(t, &turn[5], 3.), TURNS_FEW);
    ck_assert_uint_eq(turns_share(t, &turn[0], 3.), TURNS_FEW);
    ck_assert(turns_several(t, 3.0001));
    ck_assert(turns_several(t, 3.0005));
    ck_assert_uint_eq(turns_share(t, &turn[0], 3.0015), UINT_MAX);
    /* Others wait for so much at most, when they begin to send. */
    turns_used(&turn[0], TURNS_MANY);
    ck_assert_uint_eq(turns_share(t, &turn[1], 3.0015), 0);
    ck_assert_uint_eq(turns_share(t, &turn[1], 3.0016), UINT_MAX);
    teardown(t);
}
END_TEST

/* A process may pass on a limited number of messages per pass, through however many connections;
 * others may pass on theirs, and so may it in the next pass. */
START_TEST(share)
{
    turns_t *t = setup();

    (void)turns_share(t, &turn[5], 1.);
    ck_assert_uint_eq(turns_share(t, &turn[0], 1.), TURNS_FEW);
    turns_used(&turn[0], 3);
    ck_assert_uint_eq(turns_share(t, &turn[1], 1.), TURNS_FEW - 3);
    turns_used(&turn[1], TURNS_FEW - 3);
    ck_assert_uint_eq(turns_share(t, &turn[2], 1.), 0);
    ck_assert_uint_eq(turns_share(t, &turn[5], 1.), TURNS_FEW);
    ck_assert_uint_eq(turns_share(t, &turn[2], 1.0001), TURNS_FEW);
    teardown(t);
}
END_TEST

/* While one of its clients waits, no message of that process is passed on at once. */
START_TEST(waits)
{
    turns_t *t = setup();

    (void)turns_share(t, &turn[5], 1.);
    turns_wait(t, &turn[0]);
    ck_assert(turns_waits(&turn[0]) && !turns_waits(&turn[1]) && turns_pending(t));
    ck_assert_uint_eq(turns_share(t, &turn[1], 1.), 0);
    ck_assert_uint_eq(turns_share(t, &turn[5], 1.), TURNS_FEW);
    ck_assert_int_eq(next(t), 0);
    ck_assert(!turns_waits(&turn[0]) && !turns_pending(t));
    ck_assert_uint_eq(turns_share(t, &turn[1], 1.), TURNS_FEW);
    teardown(t);
}
END_TEST

/* Processes take turns, and in each turn one of their clients. */
START_TEST(order)
{
    turns_t *t = setup();

    for (int i = 0; i < 3; i++)
        turns_wait(t, &turn[i]);
    turns_wait(t, &turn[0]); /* it does already */
    turns_wait(t, &turn[6]);
    turns_wait(t, &turn[7]);
    ck_assert_int_eq(next(t), 0);
    turns_wait(t, &turn[0]);
    ck_assert_int_eq(next(t), 6);
    ck_assert_int_eq(next(t), 7);
    ck_assert_int_eq(next(t), 1);
    turns_wait(t, &turn[7]);
    turns_leave(t, &turn[2]);
    ck_assert_int_eq(next(t), 0);
    ck_assert_int_eq(next(t), 7);
    ck_assert_int_eq(next(t), -1);
    turns_wait(t, &turn[6]);
    turns_leave(t, &turn[6]);
    ck_assert_int_eq(next(t), -1);
    teardown(t);
}
END_TEST

int main(void)
{
    RUN_SUITE("turns", clients, alone, share, waits, order);
}
