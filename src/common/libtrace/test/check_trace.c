/* check_trace.c - logs of jobs: numbers, lines, what is kept, what is derived. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libtrace/trace.h"
#include "libutil/test/suite.h"
#include "libutil/test/text_file.h"

#define REST " -1 1 -1 -1 -1 -1 -1 -1 -1\n"

static trace_t *good(const char *text, uint32_t ppn)
{
    char path[] = TEXT_FILE;
    errmsg_t err;
    trace_t *t;

    text_file_create(path, text, strlen(text));
    t = trace_read(path, ppn, &err);
    ck_assert_msg(t != NULL, "%s", err.text);
    unlink(path);
    return t;
}

/* The error message begins behind the name of the file. */
static void bad(const char *text, const char *sentence)
{
    char path[] = TEXT_FILE;
    errmsg_t err;

    text_file_create(path, text, strlen(text));
    errno = 0;
    ck_assert_ptr_null(trace_read(path, 1, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(strncmp(err.text, path, strlen(path)), 0);
    ck_assert_str_eq(err.text + strlen(path), sentence);
    unlink(path);
}

START_TEST(swf_fields)
{
    trace_t *t = good("; UnixStartTime: 0\n\n7 12.9 5 30.7 9 -1 -1 -1 -1" REST
                      "3\t10 -1 20 9 -1 -1 5 40" REST "4 11 -1 -1 -1 -1 -1 0 0" REST,
                      4);
    const struct trace_job *j = trace_jobs(t);
    struct trace_dropped d;

    ck_assert_uint_eq(trace_count(t), 3);
    ck_assert_int_eq(j[0].submit, 12);
    ck_assert_int_eq(j[0].runtime, 30);
    ck_assert_int_eq(j[0].estimate, 30);
    ck_assert_int_eq(j[0].nodes, 3);
    ck_assert_int_eq(j[1].nodes, 2);
    ck_assert_int_eq(j[1].estimate, 40);
    trace_keep(t, 2, false, 0, &d);
    ck_assert_uint_eq(trace_count(t), 1);
    ck_assert_uint_eq(d.runtime, 1);
    ck_assert_uint_eq(d.processors, 0);
    ck_assert_uint_eq(d.larger, 1);
    trace_destroy(t);
}
END_TEST

START_TEST(overrun)
{
    static const char text[] = "2 5 -1 30 1 -1 -1 1 20" REST "1 5 -1 10 1 -1 -1 1 20" REST;
    struct trace_dropped d;
    trace_t *t = good(text, 1);

    trace_keep(t, 1, false, 0, &d);
    ck_assert_int_eq(trace_jobs(t)[0].id, 1);
    ck_assert_int_eq(trace_jobs(t)[1].runtime, 20);
    trace_destroy(t);
    t = good(text, 1);
    trace_keep(t, 1, true, 0, &d);
    ck_assert_int_eq(trace_jobs(t)[1].estimate, 30);
    trace_destroy(t);
    t = good(text, 1);
    trace_keep(t, 1, true, 1, &d);
    ck_assert_uint_eq(trace_count(t), 1);
    trace_destroy(t);
}
END_TEST

START_TEST(csv_fields)
{
    trace_t *t = good("NNodes,\"JobID\",Elapsed,Other,Submit,Timelimit\r\n"
                      "2,17,1-00:00:01,\"a,b\",2000-03-01T00:00:00,Partition_Limit\r\n"
                      "3,18,60.9,,951868801,02:00:00\n",
                      9);
    const struct trace_job *j = trace_jobs(t);

    ck_assert_uint_eq(trace_count(t), 2);
    ck_assert_int_eq(j[0].submit, 951868800);
    ck_assert_int_eq(j[0].runtime, 86401);
    ck_assert_int_eq(j[0].estimate, 86401);
    ck_assert_int_eq(j[0].nodes, 2);
    ck_assert_int_eq(j[1].submit, 951868801);
    ck_assert_int_eq(j[1].runtime, 60);
    ck_assert_int_eq(j[1].estimate, 7200);
    trace_destroy(t);
}
END_TEST

START_TEST(sentences)
{
    bad("", " holds no job");
    bad("1 2 3\n", ", line 1 is too short: it has 3 of the 18 fields of SWF");
    bad(";\n-1 0 -1 1 1 -1 -1 1 1" REST, ", line 2: the id is negative");
    bad("1 1e3 -1 1 1 -1 -1 1 1" REST, ", line 1: the submit time '1e3' is not a number");
    bad("1 0 -1 1 1 -1 -1 1 9999999999999" REST,
        ", line 1: the time requested '9999999999999' is out of range");
    bad("JobID,NNodes,Timelimit,Submit,Elapsed\n1,1,0,0\n",
        ", line 2 is too short: it has 4 fields");
    bad("JobID,JobID,Timelimit,Submit,Elapsed\n", ", line 1: there are two columns JobID");
    bad("JobID,NNodes,Timelimit,Submit,Elapsed\n1,1,0,0,00:60:00\n",
        ", line 2: Elapsed '00:60:00' is not a duration [D-]HH:MM:SS");
}
END_TEST

START_TEST(derived)
{
    static const struct trace_derive d = {
        .days = 1, .max_nodes = 2, .machine = 4, .load = 0.5, .mult = 3};
    trace_t *t = good("9 100 -1 100000 4 -1 -1 4 200000" REST "8 200 -1 50 1 -1 -1 1 60" REST
                      "7 90000 -1 50 1 -1 -1 1 60" REST "6 50 -1 0 1 -1 -1 1 60" REST,
                      1);
    const struct trace_job *j;
    errmsg_t err;

    ck_assert_int_eq(trace_derive(t, &d, &err), 0);
    j = trace_jobs(t);
    ck_assert_uint_eq(trace_count(t), 2);
    ck_assert_int_eq(j[0].id, 1);
    ck_assert_int_eq(j[0].submit, 0);
    ck_assert_int_eq(j[0].runtime, 86400);
    ck_assert_int_eq(j[0].estimate, 86400);
    ck_assert_int_eq(j[0].nodes, 6);
    ck_assert_int_eq(j[1].submit, 86425); /* (2 * 86400 + 50) / (4 * 0.5) */
    ck_assert_int_eq(j[1].nodes, 3);
    trace_destroy(t);
}
END_TEST

int main(void)
{
    RUN_SUITE("trace", swf_fields, overrun, csv_fields, sentences, derived);
}
