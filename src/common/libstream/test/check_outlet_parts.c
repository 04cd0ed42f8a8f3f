/* check_outlet_parts.c - groups whose members divide the records of a step: who gets which parts,
 * and who gets them after that. */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inlet_next.h"
#include "libutil/test/suite.h"
#include "outlet_wait.h"

#define LOW 0xffffffffu
#define HIGH ((uint64_t)LOW << 32)

static const unsigned char key[KNOCK_KEY_LEN] = "the capability of this stream...";
static errmsg_t err;

static outlet_t *writer(double evict)
{
    struct outlet_opts opts = {.key = key, .space = 64 << 20, .evict = evict};
    outlet_t *o = outlet_create(&opts, &err);

    ck_assert_msg(o != NULL, "%s", err.text);
    return o;
}

static inlet_t *join(outlet_t *o, const char *field, const char *by, uint32_t depth, bool follow)
{
    struct knock_want w;

    knock_want_init(&w);
    ck_assert_int_eq(knock_group_set(&w, "g", field, &err), 0);
    ck_assert_int_eq(knock_by_set(&w, by, &err), 0);
    w.depth = depth;
    w.bytes = follow ? 1 : w.bytes;
    w.follow = follow;
    return inlet_connect(outlet_name(o), key, &w, 30., &err);
}

static inlet_t *member(outlet_t *o, const char *field, uint32_t depth)
{
    inlet_t *i = join(o, field, "record", depth, false);

    ck_assert_msg(i != NULL, "%s", err.text);
    return i;
}

static int put_wait(outlet_t *o, uint64_t step, double timeout)
{
    void *buf;

    if (outlet_begin(o, step, 8, timeout, &buf, &err) < 0)
        return -1;
    memcpy(buf, &step, 8);
    return outlet_commit(o, 8);
}

static void put(outlet_t *o, uint64_t step)
{
    ck_assert_msg(put_wait(o, step, 0.) == 0, "%s", err.text);
}

static void nothing(inlet_t *i)
{
    struct inlet_step s;

    ck_assert_int_eq(inlet_next(i, 0., &s, &err), -1);
    ck_assert_msg(errno == ETIMEDOUT, "%s", err.text);
}

static struct inlet_step get(inlet_t *i, uint64_t step, uint64_t parts)
{
    struct inlet_step s;

    ck_assert_msg(inlet_next(i, 30., &s, &err) == 1, "%s", err.text);
    ck_assert_uint_eq(s.step, step);
    ck_assert_uint_eq(s.parts, parts);
    return s;
}

static void get_release(inlet_t *i, uint64_t step, uint64_t parts)
{
    struct inlet_step s = get(i, step, parts);

    ck_assert_int_eq(inlet_release(i, &s), 0);
}

/* Both members have half of a step; the step is done when both have released their parts, and those
 * of one that has gone go to the other. */
START_TEST(halves)
{
    outlet_t *o = writer(0.);
    inlet_t *a = member(o, NULL, 1);
    inlet_t *b = member(o, NULL, 1);
    struct inlet_step s;

    ck_assert_ptr_null(join(o, NULL, "step", 1, false));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_eq(err.text, "group 'g' of the stream does not share the work by step: all "
                               "members share it in the same way");
    wait_readers(o, 2);
    put(o, 1);
    put(o, 2);
    s = get(a, 1, LOW);
    get(b, 1, HIGH);
    inlet_release(a, &s);
    s = get(a, 2, LOW);
    nothing(a);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    ck_assert_str_eq(err.text, "groups have not released 2 steps within 0 s");
    inlet_destroy(b);
    wait_readers(o, 1);
    inlet_release(a, &s);
    get_release(a, 1, HIGH);
    get_release(a, 2, HIGH);
    ck_assert_msg(outlet_drain(o, -1., &err) == 0, "%s", err.text);
    ck_assert_uint_eq(stats(o).live, 0);
    put(o, 3);
    get_release(a, 3, UINT64_MAX);
    outlet_destroy(o);
    inlet_destroy(a);
}
END_TEST

/* With a key, a part of the next step waits for the member that has this part. */
START_TEST(owner)
{
    outlet_t *o = writer(0.);
    inlet_t *a = member(o, "id", 1);
    inlet_t *b = member(o, "id", 1);
    struct inlet_step s;

    wait_readers(o, 2);
    for (uint64_t step = 1; step <= 3; step++)
        put(o, step);
    get_release(a, 1, LOW);
    s = get(b, 1, HIGH);
    get_release(a, 2, LOW);
    get_release(a, 3, LOW);
    nothing(a);
    inlet_release(b, &s);
    s.step = 0;
    while (inlet_take(a, &s, &err) == 0 && inlet_take(b, &s, &err) == 0)
        poll(NULL, 0, 1);
    ck_assert_uint_eq(s.step, 2);
    ck_assert_uint_eq(s.parts, HIGH);
    nothing(a);
    nothing(b);
    outlet_destroy(o);
    inlet_destroy(a);
    inlet_destroy(b);
}
END_TEST

/* What an evicted member has goes to others, and counts once; what waits when the writer ends goes
 * to all. */
START_TEST(evict)
{
    outlet_t *o = writer(0.01);
    inlet_t *a = member(o, "id", 2);
    inlet_t *b;
    struct inlet_step s;

    wait_readers(o, 1);
    for (uint64_t step = 0; step < 1024; step++)
        put(o, step);
    s = get(a, 0, UINT64_MAX);
    ck_assert_msg(put_wait(o, 1024, 30.) == 0, "%s", err.text); /* the group has no member now */
    ck_assert_uint_eq(stats(o).evicted, 1);
    b = member(o, "id", 2);
    for (uint64_t step = 0; step < 1000; step++)
        get_release(b, step, UINT64_MAX);
    ck_assert_int_eq(inlet_release(a, &s), 0);
    inlet_destroy(a);
    wait_readers(o, 1);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    outlet_destroy(o);
    for (uint64_t step = 1000; step < 1024; step++)
        get_release(b, step, UINT64_MAX);
    ck_assert_int_eq(inlet_next(b, 30., &s, &err), -1);
    ck_assert_int_eq(errno, ENODATA);
    inlet_destroy(b);
}
END_TEST

/* At a writer that follows, a step is for any member that claims it, until the floor has passed it;
 * and nobody is evicted. */
START_TEST(follow)
{
    outlet_t *o = writer(0.01);
    inlet_t *a = join(o, NULL, "record", 1, true);
    inlet_t *b = join(o, NULL, "record", 1, true);

    wait_readers(o, 2);
    put(o, 1);
    put(o, 2);
    inlet_claim(a, &(struct knock_claim){1, 1});
    get_release(a, 1, 0);
    inlet_claim(b, &(struct knock_claim){1, 1});
    get(b, 1, 0);
    ck_assert_int_eq(put_wait(o, 3, 0.05), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_uint_eq(stats(o).evicted, 0);
    inlet_claim(a, &(struct knock_claim){1, 1});
    get_release(a, 1, 0);
    ck_assert_int_eq(outlet_drain(o, 0., &err), -1);
    ck_assert_str_eq(err.text, "groups have not released 2 steps within 0 s");
    inlet_claim(b, &(struct knock_claim){KNOCK_NO_STEP, 3});
    ck_assert_int_eq(outlet_drain(o, -1., &err), 0);
    inlet_destroy(a);
    inlet_destroy(b);
    outlet_destroy(o);
}
END_TEST

/* --- chance --- */

#define MEMBERS 5
#define STEPS 300

static struct {
    outlet_t *o;
    inlet_t *in[MEMBERS];
    struct inlet_step held[MEMBERS][3];
    unsigned nheld[MEMBERS];
    uint64_t done[STEPS]; /* parts */
    unsigned ndone;       /* parts of all steps */
} w;

/* Check what a member was given.  With a key, no other member has the part, and no later step of it
 * is done. */
static void check(int m, const struct inlet_step *s, bool ordered)
{
    ck_assert_uint_ne(s->parts, 0);
    ck_assert_uint_eq(w.done[s->step] & s->parts, 0);
    for (int i = 0; i < MEMBERS; i++) {
        for (unsigned k = 0; k < w.nheld[i]; k++) {
            if (w.held[i][k].step == s->step || (ordered && i != m))
                ck_assert_uint_eq(w.held[i][k].parts & s->parts, 0);
        }
    }
    for (uint64_t n = s->step + 1; ordered && n < STEPS; n++)
        ck_assert_uint_eq(w.done[n] & s->parts, 0);
}

static void take(int m, bool ordered)
{
    struct inlet_step s;

    while (w.nheld[m] < 3 && inlet_take(w.in[m], &s, &err) == 1) {
        check(m, &s, ordered);
        w.held[m][w.nheld[m]++] = s;
    }
}

static void end(int m)
{
    struct inlet_step *s = w.held[m];

    if (w.nheld[m] == 0)
        return;
    w.done[s->step] |= s->parts;
    w.ndone += (unsigned)__builtin_popcountll(s->parts);
    ck_assert_int_eq(inlet_release(w.in[m], s), 0);
    memmove(s, s + 1, --w.nheld[m] * sizeof(*s));
}

static void turn(int m, bool ordered)
{
    if (!w.in[m]) {
        w.in[m] = member(w.o, ordered ? "id" : NULL, 1 + rand() % 3);
        return;
    }
    take(m, ordered);
    if (rand() % 20 == 0) {
        w.nheld[m] = 0;
        inlet_destroy(w.in[m]);
        w.in[m] = NULL;
    } else
        end(m);
}

/* Members come, go and release parts by chance: each part of each step is released once. */
static void by_chance(unsigned seed, bool ordered)
{
    uint64_t next = 0;

    memset(&w, 0, sizeof(w));
    srand(seed);
    w.o = writer(0.);
    w.in[0] = member(w.o, ordered ? "id" : NULL, 1);
    wait_readers(w.o, 1);
    while (w.ndone < 64 * STEPS) {
        int m = rand() % MEMBERS;

        if (next < STEPS && rand() % 4 == 0)
            put(w.o, next++);
        if (m > 0)
            turn(m, ordered);
        else { /* this one does not go, so that the group always has a member */
            take(0, ordered);
            end(0);
        }
    }
    ck_assert_msg(outlet_drain(w.o, 30., &err) == 0, "%s", err.text);
    for (int m = 0; m < MEMBERS; m++)
        inlet_destroy(w.in[m]);
    wait_readers(w.o, 0);
    ck_assert_uint_eq(stats(w.o).live, 0);
    outlet_destroy(w.o);
}

START_TEST(chance)
{
    for (unsigned seed = 1; seed <= 6; seed++)
        by_chance(seed, seed % 2);
}
END_TEST

int main(void)
{
    RUN_SUITE("outlet_parts", halves, owner, evict, follow, chance);
}
