/* check_retain.c - frames that are kept until they are acknowledged, in any order of adding,
 * sending, acknowledging and rewinding. */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "modules/wrexec/retain.h"

static void add(retain_t *r, uint64_t n)
{
    char text[64];

    snprintf(text, sizeof(text), "frame %lu", (unsigned long)n);
    ck_assert_int_eq(retain_add(r, n % 2 ? WIRE_OUTPUT : WIRE_NOTE, text, strlen(text)), 0);
}

/* The next frame to be sent is this one. */
static void comes(retain_t *r, uint64_t n)
{
    struct retained f;
    char text[64];

    ck_assert(retain_next(r, &f));
    snprintf(text, sizeof(text), "frame %lu", (unsigned long)n);
    ck_assert_uint_eq(f.number, n);
    ck_assert_int_eq(f.type, n % 2 ? WIRE_OUTPUT : WIRE_NOTE);
    ck_assert_uint_eq(f.len, strlen(text));
    ck_assert_int_eq(memcmp(f.data, text, f.len), 0);
    retain_sent(r);
}

START_TEST(repeats)
{
    retain_t *r = retain_create();
    struct retained f;

    ck_assert(!retain_next(r, &f));
    for (uint64_t n = 1; n <= 5; n++)
        add(r, n);
    for (uint64_t n = 1; n <= 3; n++)
        comes(r, n);
    ck_assert_uint_eq(retain_ack(r, 2), 2 * strlen("frame 1"));
    comes(r, 4);
    retain_rewind(r);
    comes(r, 3);
    ck_assert_uint_eq(retain_ack(r, 4), 2 * strlen("frame 1")); /* 4 is about to be sent again */
    comes(r, 5);
    ck_assert(!retain_next(r, &f));
    ck_assert_uint_eq(retain_ack(r, 1), 0);
    add(r, 6);
    comes(r, 6);
    ck_assert_uint_eq(retain_ack(r, UINT64_MAX), 2 * strlen("frame 1"));
    ck_assert_uint_eq(retain_bytes(r), 0);
    add(r, 7);
    comes(r, 7);
    retain_destroy(r);
    retain_destroy(NULL);
}
END_TEST

/* At each point of a random history, the frames that come are those that a list says. */
START_TEST(random_history)
{
    uint64_t added = 0, acked = 0, sent = 0;
    retain_t *r = retain_create();
    struct retained f;

    srandom((unsigned)_i);
    for (int step = 0; step < 2000; step++) {
        switch (random() % 5) {
        case 0:
        case 1:
            add(r, ++added);
            break;
        case 2:
            if (sent < added)
                comes(r, ++sent);
            break;
        case 3:
            if (random() % 10 == 0) {
                retain_rewind(r);
                sent = acked;
            }
            break;
        default:
            acked += added > acked ? (uint64_t)random() % (added - acked + 1) : 0;
            retain_ack(r, acked);
            sent = sent > acked ? sent : acked;
        }
        ck_assert(retain_next(r, &f) == (sent < added));
    }
    retain_destroy(r);
}
END_TEST

/* The next instance of the module goes on with what was sent and what was not. */
START_TEST(handed_over)
{
    retain_t *r = retain_create(), *next = retain_create();
    flux_handover_t *o = flux_handover_create();
    struct retained f;
    errmsg_t err;

    for (uint64_t n = 1; n <= 4; n++)
        add(r, n);
    comes(r, 1);
    comes(r, 2);
    retain_ack(r, 1);
    retain_save(r, o);
    ck_assert_int_eq(flux_handover_end(o, &err), 0);
    retain_load(next, o);
    ck_assert(flux_handover_ok(o));
    comes(next, 3);
    retain_rewind(next);
    for (uint64_t n = 2; n <= 4; n++)
        comes(next, n);
    ck_assert(!retain_next(next, &f));
    flux_handover_destroy(o);
    retain_destroy(r);
    retain_destroy(next);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("retain");

    tcase_add_test(tc, repeats);
    tcase_add_loop_test(tc, random_history, 0, 20);
    tcase_add_test(tc, handed_over);
    return run_case("retain", tc);
}
