/* check_submit.c - submissions survive the way, and nothing else does. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/submit.h"
#include "libutil/le.h"
#include "libutil/test/suite.h"

static const char *const env0[] = {"A=1", "noname", "=x", "B=\xff\xfe", NULL};
static const char *const env1[] = {NULL};

static void *sample(size_t *len)
{
    submit_writer_t *w = submit_writer_create();
    void *frame;

    ck_assert_ptr_nonnull(w);
    ck_assert_ptr_null(submit_writer_frame(w, len));
    ck_assert_int_eq(submit_writer_env(w, env0), 0);
    ck_assert_int_eq(submit_writer_env(w, env1), 1);
    ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, "{}", 2, NULL), 0);
    ck_assert_int_eq(submit_writer_job(w, 1, 31, JOB_FLAG_CLIENT, "{\"a\":1}", 7, NULL), 0);
    ck_assert_uint_eq(submit_writer_count(w), 2);
    frame = submit_writer_frame(w, len);
    ck_assert_ptr_nonnull(frame);
    ck_assert_uint_eq(submit_writer_size(w), *len);
    submit_writer_destroy(w);
    return frame;
}

START_TEST(round_trip)
{
    size_t len;
    void *frame = sample(&len);
    struct submit_frame f;
    struct submit_env env;
    struct submit_job job;
    errmsg_t err = {""};

    ck_assert_msg(submit_decode(frame, len, &f, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(f.njobs, 2);
    ck_assert_uint_eq(f.nenvs, 2);
    ck_assert_uint_eq(f.number, 0);
    submit_frame_number(frame, len, UINT64_MAX - 7);
    ck_assert_msg(submit_decode(frame, len, &f, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(f.number, UINT64_MAX - 7);
    struct submit_frame it = f;
    ck_assert(submit_env_next(&it, &env));
    ck_assert_uint_eq(env.len, 9);
    ck_assert_mem_eq(env.data, "A=1\0B=\xff\xfe", 9);
    ck_assert(submit_env_next(&it, &env));
    ck_assert_uint_eq(env.len, 0);
    ck_assert(!submit_env_next(&it, &env));
    it = f;
    ck_assert(submit_job_next(&it, &job));
    ck_assert_uint_eq(job.env, 0);
    ck_assert_uint_eq(job.urgency, 16);
    ck_assert_uint_eq(job.flags, 0);
    ck_assert_uint_eq(job.len, 2);
    ck_assert(submit_job_next(&it, &job));
    ck_assert_uint_eq(job.env, 1);
    ck_assert_uint_eq(job.urgency, 31);
    ck_assert_uint_eq(job.flags, JOB_FLAG_CLIENT);
    ck_assert_mem_eq(job.jobspec, "{\"a\":1}", 7);
    ck_assert(!submit_job_next(&it, &job));
    free(frame);
}
END_TEST

START_TEST(cut_or_padded)
{
    size_t len;
    uint8_t *frame = sample(&len);
    struct submit_frame f;
    errmsg_t err;

    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(submit_decode(frame, n, &f, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert(err.text[0]);
    }
    ck_assert_int_eq(submit_decode(frame, len + 1, &f, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    free(frame);
}
END_TEST

/* Each u32 of the head and of the first job, made wrong. */
START_TEST(wrong_numbers)
{
    static const struct {
        size_t at;
        uint32_t value;
        int errnum;
    } cases[] = {
        {0, 0, EPROTO},           {4, 0, EPROTO},           {4, 1, EPROTO},  {4, 3, EPROTO},
        {4, 10001, EMSGSIZE},     {8, 1, EPROTO},           {8, 3, EPROTO},  {8, 1001, EMSGSIZE},
        {12, 16, EPROTO},         {12, 0xffffffff, EPROTO}, {16, 8, EPROTO}, {16, 10, EPROTO},
        {33, 2, EPROTO},          {37, 32, EPROTO},         {41, 4, EPROTO}, {45, 0, EPROTO},
        {45, 0xffffffff, EPROTO},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len;
        uint8_t *frame = sample(&len);
        struct submit_frame f;
        errmsg_t err = {""};

        le_put32(frame + cases[i].at, cases[i].value);
        ck_assert_msg(submit_decode(frame, len, &f, &err) == -1, "case %zu", i);
        ck_assert_int_eq(errno, cases[i].errnum);
        ck_assert(err.text[0]);
        free(frame);
    }
}
END_TEST

START_TEST(environments)
{
    ck_assert_int_eq(submit_env_check("", 0, NULL), 0);
    ck_assert_int_eq(submit_env_check("A=\0", 3, NULL), 0);
    ck_assert_int_eq(submit_env_check("A=1", 3, NULL), -1);
    ck_assert_int_eq(submit_env_check("A\0B=1", 6, NULL), -1);
    ck_assert_int_eq(submit_env_check("=1", 3, NULL), -1);
    ck_assert_int_eq(submit_env_check("", 1, NULL), -1);
}
END_TEST

START_TEST(writer_refuses)
{
    submit_writer_t *w = submit_writer_create();
    errmsg_t err = {""};
    char *big = calloc(1, SUBMIT_FRAME_MAX);

    ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, "{}", 2, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(submit_writer_env(w, env0), 0);
    ck_assert_int_eq(submit_writer_job(w, 0, 32, 0, "{}", 2, &err), -1);
    ck_assert_int_eq(submit_writer_job(w, 0, -1, 0, "{}", 2, &err), -1);
    ck_assert_int_eq(submit_writer_job(w, 0, 16, JOB_FLAGS_ALL + 1, "{}", 2, &err), -1);
    ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, "", 0, &err), -1);
    ck_assert_int_eq(submit_writer_job(w, -1, 16, 0, "{}", 2, &err), -1);
    ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, big, SUBMIT_FRAME_MAX, &err), -1);
    ck_assert_int_eq(errno, E2BIG);
    for (int i = 0; i < SUBMIT_JOBS_MAX; i++)
        ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, "{}", 2, &err), 0);
    ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, "{}", 2, &err), -1);
    ck_assert_int_eq(errno, E2BIG);
    submit_writer_clear(w);
    ck_assert_uint_eq(submit_writer_count(w), 0);
    ck_assert_int_eq(submit_writer_job(w, 0, 16, 0, "{}", 2, &err), 0);
    for (int i = 1; i < SUBMIT_ENVS_MAX; i++)
        ck_assert_int_eq(submit_writer_env(w, env1), i);
    ck_assert_int_eq(submit_writer_env(w, env1), -1);
    ck_assert_int_eq(errno, E2BIG);
    submit_writer_destroy(w);
    submit_writer_destroy(NULL);
    free(big);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, cut_or_padded);
    tcase_add_test(tc, wrong_numbers);
    tcase_add_test(tc, environments);
    tcase_add_test(tc, writer_refuses);
    return run_case("submit", tc);
}
