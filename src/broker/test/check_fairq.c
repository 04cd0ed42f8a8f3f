/* check_fairq.c - turns of senders, their order, and that senders leave nothing behind. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdint.h>

#include "libutil/test/suite.h"
#include "src/broker/fairq.h"

static void put(fairq_t *q, uint32_t group, uint32_t sender, unsigned weight, int code)
{
    struct envelope l = {NULL, flux_msg_create(FLUX_MSG_REQUEST, "a.b"), code};

    ck_assert_ptr_nonnull(l.msg);
    ck_assert_int_eq(fairq_put(q, group, sender, weight, &l), 0);
}

/* The code of the next envelope, -1: there is none. */
static int next(fairq_t *q)
{
    struct envelope l;

    if (!fairq_next(q, &l))
        return -1;
    flux_msg_destroy(l.msg);
    return l.code;
}

static void expect(fairq_t *q, const int *codes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(next(q), codes[i]);
    ck_assert_int_eq(next(q), -1);
    ck_assert_uint_eq(fairq_count(q), 0);
    ck_assert_uint_eq(fairq_groups(q), 0);
}
#define EXPECT(q, ...) \
    expect(q, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

START_TEST(turns)
{
    fairq_t *q = fairq_create();

    ck_assert_int_eq(next(q), -1);
    for (int i = 0; i < 4; i++)
        put(q, 1, 1, 1, 10 + i);
    put(q, 2, 1, 1, 20);
    put(q, 2, 1, 1, 21);
    put(q, 3, 1, 1, 30);
    ck_assert_uint_eq(fairq_count(q), 7);
    EXPECT(q, 10, 20, 30, 11, 21, 12, 13);
    fairq_destroy(q);
}
END_TEST

/* A newcomer is served next, even if another sender has a thousand envelopes there. */
START_TEST(newcomer)
{
    fairq_t *q = fairq_create();

    for (int i = 0; i < 1000; i++)
        put(q, 1, 1, 1, i);
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(next(q), i);
    put(q, 2, 1, 1, 5000);
    ck_assert_int_eq(next(q), 5000);
    ck_assert_int_eq(next(q), 500);
    ck_assert(!fairq_has(q, 2, 1));
    ck_assert(fairq_has(q, 1, 1));
    for (int i = 501; i < 1000; i++)
        ck_assert_int_eq(next(q), i);
    fairq_destroy(q);
}
END_TEST

/* Endless newcomers leave one of five turns to those that wait for a further one. */
START_TEST(favored)
{
    fairq_t *q = fairq_create();
    int old = 0;

    for (int i = 0; i < 100; i++)
        put(q, 1, 1, 1, i);
    ck_assert_int_eq(next(q), old++);
    for (int i = 0; i < 50; i++) {
        int code;

        put(q, (uint32_t)(2 + i), 1, 1, 5000 + i);
        code = next(q);
        if (code < 5000)
            ck_assert_int_eq(code, old++);
    }
    ck_assert_int_eq(old, 11);
    for (int code = next(q); code >= 0; code = next(q))
        if (code < 5000)
            ck_assert_int_eq(code, old++);
    ck_assert_int_eq(old, 100);
    fairq_destroy(q);
}
END_TEST

/* Many senders of one group share its turn, and take turns within it. */
START_TEST(groups)
{
    fairq_t *q = fairq_create();

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            put(q, 7, (uint32_t)i, 1, 10 * i + k);
    put(q, 8, 0, 1, 100);
    put(q, 8, 0, 1, 101);
    ck_assert_uint_eq(fairq_groups(q), 2);
    ck_assert(fairq_has(q, 7, 2) && !fairq_has(q, 8, 2));
    EXPECT(q, 0, 100, 10, 101, 20, 1, 11, 21);
    fairq_destroy(q);
}
END_TEST

START_TEST(first)
{
    fairq_t *q = fairq_create();

    put(q, 1, 1, 1, 10);
    put(q, 1, 1, 1, 11);
    put(q, FAIRQ_FIRST, 5, 1, 1);
    put(q, 2, 1, 1, 20);
    put(q, FAIRQ_FIRST, 6, 1, 2);
    ck_assert(fairq_has(q, FAIRQ_FIRST, 0));
    ck_assert_int_eq(next(q), 1);
    ck_assert_int_eq(next(q), 2);
    ck_assert(!fairq_has(q, FAIRQ_FIRST, 0));
    ck_assert_int_eq(next(q), 10);
    put(q, FAIRQ_FIRST, 5, 1, 3);
    EXPECT(q, 3, 20, 11);
    fairq_destroy(q);
}
END_TEST

/* A large envelope costs turns, at most sixteen, while others have something to send. */
START_TEST(weights)
{
    fairq_t *q = fairq_create();

    put(q, 1, 1, 3, 10);
    put(q, 1, 1, 1, 11);
    for (int i = 0; i < 5; i++)
        put(q, 2, 1, 1, 20 + i);
    EXPECT(q, 10, 20, 21, 22, 11, 23, 24);
    put(q, 1, 1, 1000, 10);
    put(q, 1, 1, 1000, 11);
    put(q, 1, 1, 1, 12);
    for (int i = 0; i < 40; i++)
        put(q, 2, 1, 1, 100 + i);
    ck_assert_int_eq(next(q), 10);
    for (int i = 0; i < 17; i++)
        ck_assert_int_eq(next(q), 100 + i);
    ck_assert_int_eq(next(q), 11);
    for (int i = 17; i < 34; i++)
        ck_assert_int_eq(next(q), 100 + i);
    EXPECT(q, 12, 134, 135, 136, 137, 138, 139);
    /* alone */
    put(q, 1, 1, 1000, 10);
    put(q, 1, 1, 1000, 11);
    EXPECT(q, 10, 11);
    fairq_destroy(q);
}
END_TEST

/* From a seed: each sender's envelopes in order, nothing lost, and no waiting sender ahead of
 * another one by more than a turn. */
START_TEST(chance)
{
    enum { SENDERS = 16 };
    fairq_t *q = fairq_create();
    int put_in[SENDERS] = {0}, taken[SENDERS] = {0};
    unsigned seed = 4711;
    size_t waits = 0;

    for (int i = 0; i < 50000; i++) {
        unsigned s;

        seed = seed * 1103515245u + 12345u;
        s = (seed >> 16) % SENDERS;
        if ((seed >> 24) % 5 < 3) {
            /* The first senders send most. */
            s = s * s / SENDERS;
            put(q, 1 + s, s, 1, put_in[s]++ * SENDERS + (int)s);
            waits++;
        } else if (waits > 0) {
            int code = next(q);

            ck_assert_int_ge(code, 0);
            ck_assert_int_eq(code / SENDERS, taken[code % SENDERS]++);
            waits--;
        }
        ck_assert_uint_eq(fairq_count(q), waits);
    }
    while (fairq_groups(q) == SENDERS) {
        bool seen[SENDERS] = {false};

        for (int i = 0; i < SENDERS && fairq_groups(q) == SENDERS; i++) {
            int code = next(q);

            ck_assert(!seen[code % SENDERS]);
            seen[code % SENDERS] = true;
            ck_assert_int_eq(code / SENDERS, taken[code % SENDERS]++);
            waits--;
        }
    }
    for (int code = next(q); code >= 0; code = next(q), waits--)
        ck_assert_int_eq(code / SENDERS, taken[code % SENDERS]++);
    ck_assert_uint_eq(waits, 0);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(taken[i], put_in[i]);
    fairq_destroy(q);
}
END_TEST

/* What is left in it ends with it; so do envelopes without a message. */
START_TEST(destroyed)
{
    fairq_t *q = fairq_create();
    struct envelope l = {NULL, NULL, 3};

    for (uint32_t i = 0; i < 3000; i++)
        put(q, i % 7, i % 11, 1 + i % 5, (int)i);
    ck_assert_int_eq(fairq_put(q, 1, 1, 1, &l), 0);
    errno = 11;
    fairq_destroy(q);
    ck_assert_int_eq(errno, 11);
    fairq_destroy(NULL);
    ck_assert_int_eq(errno, 11);
}
END_TEST

int main(void)
{
    RUN_SUITE("fairq", turns, newcomer, favored, groups, first, weights, chance, destroyed);
}
