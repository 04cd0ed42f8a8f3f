/* check_outlet_team.c - readers that are offered the same steps: when they begin, which steps they
 * do not get, and who may be one of them. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ends.h"
#include "libutil/test/suite.h"

static struct knock_want want(uint32_t rank, uint32_t size, const char *policy)
{
    struct knock_want w;

    knock_want_init(&w);
    w.reader = rank + 1;
    ck_assert_int_eq(knock_policy_parse(&w, policy, &err), 0);
    ck_assert_int_eq(knock_team_set(&w, "t", rank, size, &err), 0);
    return w;
}

static inlet_t *member(outlet_t *o, uint32_t rank, uint32_t size, const char *policy)
{
    struct knock_want w = want(rank, size, policy);
    inlet_t *i = reader_try(writer_address(o), &w);

    ck_assert_msg(i != NULL, "%s", err.text);
    return i;
}

/* No member is offered a step before all have come, and then all get the kept ones; when one has
 * gone, the others go on, and so does one that takes its place. */
START_TEST(begins)
{
    outlet_t *o;
    inlet_t *m[3];

    ends_way = (enum way)_i;
    o = writer(0., 2);
    m[0] = member(o, 0, 3, "block");
    m[2] = member(o, 2, 3, "block");
    wait_readers(o, 2);
    for (uint64_t step = 0; step < 5; step++)
        put(o, step);
    get_error(m[0], ETIMEDOUT);
    get_error(m[2], ETIMEDOUT);
    ck_assert_int_eq(outlet_wait(o, 1, 0., &err), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_str_eq(err.text, "0 of 1 readers, and 2 members of teams that are not complete, have "
                               "come within 0 s");
    m[1] = member(o, 1, 3, "block");
    ck_assert_int_eq(outlet_wait(o, 3, 60., &err), 0);
    put(o, 5);
    for (int k = 0; k < 3; k++) {
        for (uint64_t step = 3; step < 6; step++)
            get_release(m[k], step);
    }
    inlet_destroy(m[1]);
    wait_readers(o, 2);
    put(o, 6);
    m[1] = member(o, 1, 3, "block");
    wait_readers(o, 3);
    put(o, 7);
    for (int k = 0; k < 3; k++) {
        if (k == 1)
            get_release(m[1], 5);
        get_release(m[k], 6);
        get_release(m[k], 7);
    }
    outlet_destroy(o);
    for (int k = 0; k < 3; k++) {
        get_error(m[k], ENODATA);
        inlet_destroy(m[k]);
    }
}
END_TEST

/* Members that read at their own pace, from a seed: they get the same steps, whatever the policy
 * is, and a writer waits for the slowest one, or for nobody. */
START_TEST(same)
{
    static const char *const policies[] = {"block", "sample:3", "drop-oldest", "drop-newest",
                                           "latest"};
    const char *policy = policies[_i];
    uint64_t got[3][200];
    struct inlet_step s;
    size_t n[3] = {0};
    inlet_t *m[3];
    outlet_t *o;

    srand((unsigned)_i + 7);
    ends_way = RING;
    o = writer(0., 0);
    for (uint32_t k = 0; k < 3; k++)
        m[k] = member(o, k, 3, policy);
    wait_readers(o, 3);
    for (uint64_t step = 0; step < 200;) {
        int k = rand() % 4;

        if (k == 3)
            step += put_wait(o, step, 0.) == 0;
        else if (inlet_take(m[k], &s, &err) == 1) {
            got[k][n[k]++] = s.step;
            inlet_release(m[k], &s);
        }
    }
    outlet_destroy(o);
    for (int k = 0; k < 3; k++) {
        while (inlet_take(m[k], &s, &err) == 1) {
            got[k][n[k]++] = s.step;
            inlet_release(m[k], &s);
        }
        ck_assert_uint_eq(n[k], n[0]);
        ck_assert_mem_eq(got[k], got[0], n[0] * sizeof(uint64_t));
        inlet_destroy(m[k]);
    }
    if (_i < 2) {
        ck_assert_uint_eq(n[0], _i == 0 ? 200 : 67);
        for (size_t i = 0; i < n[0]; i++)
            ck_assert_uint_eq(got[0][i], _i == 0 ? i : 3 * i);
    } else if (_i == 4)
        ck_assert(n[0] > 10 && n[0] < 199);
}
END_TEST

/* A policy that is changed, and a switch, are those of all members. */
START_TEST(changed)
{
    struct knock_want w = want(1, 2, "sample:2");
    outlet_t *o;
    inlet_t *m[2];

    ends_way = RING;
    o = writer(0., 0);
    for (uint32_t k = 0; k < 2; k++)
        m[k] = member(o, k, 2, "block");
    wait_readers(o, 2);
    put(o, 0);
    outlet_want(o, &w, 1);
    put(o, 1);
    put(o, 2);
    w.off = true;
    outlet_want(o, &w, 1);
    put(o, 3);
    put(o, 4);
    w.off = false;
    outlet_want(o, &w, 1);
    put(o, 6);
    outlet_destroy(o);
    for (int k = 0; k < 2; k++) {
        get_release(m[k], 0);
        get_release(m[k], 2);
        get_release(m[k], 6);
        get_error(m[k], ENODATA);
        inlet_destroy(m[k]);
    }
}
END_TEST

static void refused(outlet_t *o, struct knock_want w, int errnum, const char *text)
{
    ck_assert_ptr_null(reader_try(writer_address(o), &w));
    ck_assert_msg(errno == errnum, "%s", err.text);
    ck_assert_str_eq(err.text, text);
}

START_TEST(refusals)
{
    static const char other[] = "team 't' of the stream has another size than %u, or another "
                                "policy: all members have the same";
    struct knock_want w;
    char text[120];
    outlet_t *o;
    inlet_t *m;

    knock_want_init(&w);
    ck_assert_int_eq(knock_team_set(&w, "t", 2, 2, &err), -1);
    ck_assert_str_eq(err.text, "rank 2 of 2 readers is not possible: a team has at most 1024, and "
                               "the first one has rank 0");
    ck_assert_int_eq(knock_team_set(&w, "t", 0, 1025, &err), -1);
    ck_assert_int_eq(knock_team_set(&w, "a b", 0, 1, &err), -1);
    ends_way = (enum way)_i;
    o = writer(0., 0);
    m = member(o, 0, 2, "block");
    refused(o, want(0, 2, "block"), EEXIST,
            "team 't' of the stream has a reader of rank 0 already");
    snprintf(text, sizeof(text), other, 3);
    refused(o, want(1, 3, "block"), EINVAL, text);
    snprintf(text, sizeof(text), other, 2);
    refused(o, want(1, 2, "latest"), EINVAL, text);
    refused(o, want(1, 2, "sample:2"), EINVAL, text);
    inlet_destroy(m);
    wait_readers(o, 0);
    m = member(o, 1, 2, "latest"); /* the team ends with its last member */
    inlet_destroy(m);
    outlet_destroy(o);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("outlet_team");

    tcase_add_loop_test(tc, begins, 0, WAYS);
    tcase_add_loop_test(tc, same, 0, 5);
    tcase_add_test(tc, changed);
    tcase_add_loop_test(tc, refusals, 0, WAYS);
    tcase_set_timeout(tc, 60);
    return run_case("outlet_team", tc);
}
