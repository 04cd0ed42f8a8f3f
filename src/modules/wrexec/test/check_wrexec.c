/* The pure parts of wrexec: frames, records, requests, layout, results. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "src/modules/wrexec/layout.h"
#include "src/modules/wrexec/proto.h"
#include "src/modules/wrexec/result.h"
#include "src/modules/wrexec/wire.h"

START_TEST(layout_covers_all_tasks)
{
    for (uint32_t nnodes = 1; nnodes <= 17; nnodes++) {
        for (uint32_t ntasks = nnodes; ntasks <= 70; ntasks++) {
            uint32_t next = 0;

            for (uint32_t node = 0; node < nnodes; node++) {
                ck_assert_uint_eq(layout_first(ntasks, nnodes, node), next);
                for (uint32_t i = 0; i < layout_count(ntasks, nnodes, node); i++)
                    ck_assert_uint_eq(layout_node(ntasks, nnodes, next++), node);
            }
            ck_assert_uint_eq(next, ntasks);
            ck_assert_uint_le(
                layout_count(ntasks, nnodes, 0) - layout_count(ntasks, nnodes, nnodes - 1), 1);
        }
    }
}
END_TEST

START_TEST(frames)
{
    uint8_t buf[64];
    struct wire_frame f;
    errmsg_t err;
    int32_t signum = 15;

    wire_header(buf, WIRE_SIGNAL, 0x123456789abcull, 4);
    memcpy(buf + WIRE_HEADER, &signum, 4);
    for (size_t n = 0; n < WIRE_HEADER + 4; n++)
        ck_assert_int_eq(wire_parse(buf, n, &f, &err), 0);
    ck_assert_int_eq(wire_parse(buf, sizeof(buf), &f, &err), WIRE_HEADER + 4);
    ck_assert_int_eq(f.type, WIRE_SIGNAL);
    ck_assert_uint_eq(f.job, 0x123456789abcull);
    ck_assert_int_eq(wire_i32(f.payload), 15);
    wire_header(buf, WIRE_KILL, 1, 0);
    ck_assert_int_eq(wire_parse(buf, WIRE_HEADER, &f, &err), WIRE_HEADER);
}
END_TEST

START_TEST(bad_frames)
{
    static const struct {
        unsigned type;
        uint32_t len;
    } bad[] = {{0, 0},
               {7, 0},
               {15, 0},
               {22, 0},
               {65535, 0},
               {WIRE_SIGNAL, 5},
               {WIRE_SIGNAL, 0},
               {WIRE_KILL, 1},
               {WIRE_RUN, 8},
               {WIRE_OUTPUT, UINT32_MAX},
               {WIRE_STDIN, WIRE_STDIN_WINDOW + 5}};
    uint8_t buf[64] = {0};
    struct wire_frame f;
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        wire_header(buf, (enum wire_type)bad[i].type, 1, bad[i].len);
        errno = 0;
        ck_assert_int_eq(wire_parse(buf, sizeof(buf), &f, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    wire_header(buf, WIRE_KILL, 1, 0);
    buf[6] ^= 1;
    ck_assert_int_eq(wire_parse(buf, sizeof(buf), &f, &err), -1);
}
END_TEST

START_TEST(records)
{
    uint8_t buf[64];
    const void *p = buf;
    size_t left = 2 * WIRE_RECORD + 5;
    struct wire_record r;

    wire_record_header(buf, 7, 1, 5);
    memcpy(buf + WIRE_RECORD, "hello", 5);
    wire_record_header(buf + WIRE_RECORD + 5, 8, 2, 0);
    ck_assert_int_eq(wire_record_next(&p, &left, &r), 1);
    ck_assert_uint_eq(r.task, 7);
    ck_assert_uint_eq(r.stream, 1);
    ck_assert_mem_eq(r.data, "hello", 5);
    ck_assert_int_eq(wire_record_next(&p, &left, &r), 1);
    ck_assert_uint_eq(r.task, 8);
    ck_assert_uint_eq(r.len, 0);
    ck_assert_int_eq(wire_record_next(&p, &left, &r), 0);

    for (size_t cut = 1; cut < WIRE_RECORD + 5; cut++) {
        p = buf;
        left = cut;
        ck_assert_int_eq(wire_record_next(&p, &left, &r), -1);
    }
    wire_record_header(buf, 7, 3, 0);
    p = buf;
    left = WIRE_RECORD;
    ck_assert_int_eq(wire_record_next(&p, &left, &r), -1);
}
END_TEST

static const char strings[] = "/tmp\0\0\0\0prog\0arg\0A=1";

START_TEST(run_payload)
{
    struct wire_run run = {.flags = WIRE_F_STDIN_ALL,
                           .nnodes = 4,
                           .node = 3,
                           .ntasks = 9,
                           .window = 1000,
                           .argc = 2,
                           .envc = 1};
    uint8_t buf[WIRE_RUN_FIXED + sizeof(strings)];
    struct wire_run got;
    errmsg_t err;

    wire_run_put(buf, &run);
    memcpy(buf + WIRE_RUN_FIXED, strings, sizeof(strings));
    ck_assert_int_eq(wire_run_get(buf, sizeof(buf), &got, &err), 0);
    ck_assert_uint_eq(got.ntasks, 9);
    ck_assert_uint_eq(got.node, 3);
    ck_assert_str_eq(got.strings, "/tmp");
    for (size_t n = 0; n < sizeof(buf); n++)
        ck_assert_int_eq(wire_run_get(buf, n, &got, &err), -1);
    run.node = 4;
    wire_run_put(buf, &run);
    ck_assert_int_eq(wire_run_get(buf, sizeof(buf), &got, &err), -1);
    run.node = 0;
    run.argc = 3;
    wire_run_put(buf, &run);
    ck_assert_int_eq(wire_run_get(buf, sizeof(buf), &got, &err), -1);
    run.argc = 2;
    run.flags = 64;
    wire_run_put(buf, &run);
    ck_assert_int_eq(wire_run_get(buf, sizeof(buf), &got, &err), -1);
}
END_TEST

START_TEST(job_requests)
{
    const char *fixed[WIRE_STRINGS] = {"/home", NULL, "out", NULL};
    char *argv[] = {(char *)"a", (char *)"\xff\x01", (char *)"", NULL};
    char *envp[] = {(char *)"X=1", NULL};
    struct jobreq req = {.json = "{}", .json_len = 2}, got;
    char *mem = jobreq_strings(fixed, argv, envp, &req);
    errmsg_t err;
    size_t len;
    void *data = jobreq_encode(&req, &len);

    ck_assert_ptr_nonnull(mem);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(jobreq_decode(data, len, &got, &err), 0);
    ck_assert_uint_eq(got.argc, 3);
    ck_assert_uint_eq(got.envc, 1);
    ck_assert_mem_eq(got.json, "{}", 2);
    ck_assert_str_eq(jobreq_string(&got, WIRE_S_CWD), "/home");
    ck_assert_str_eq(jobreq_string(&got, WIRE_S_IN), "");
    ck_assert_str_eq(jobreq_string(&got, WIRE_S_OUT), "out");
    ck_assert_str_eq(jobreq_string(&got, WIRE_STRINGS + 1), "\xff\x01");
    ck_assert_str_eq(jobreq_string(&got, WIRE_STRINGS + 3), "X=1");
    for (size_t n = 0; n < len; n++)
        ck_assert_int_eq(jobreq_decode(data, n, &got, &err), -1);
    ck_assert_int_eq(jobreq_decode(NULL, 0, &got, &err), -1);
    free(data);
    free(mem);
}
END_TEST

START_TEST(results_merge)
{
    struct result *a = result_create(), *b = result_create();
    errmsg_t err;
    json_t *json, *bad;
    char *text;

    ck_assert_int_eq(result_worst(a), 0);
    result_add(a, 0, 0, 7);
    result_add(a, 3 << 8, 8, 8);
    result_add(b, 0, 10, 15);
    result_add(b, SIGSEGV, 9, 9);
    json = result_to_json(b);
    ck_assert_int_eq(result_merge(a, json, &err), 0);
    json_decref(json);
    json = result_to_json(a);
    text = json_dumps(json, JSON_COMPACT);
    ck_assert_str_eq(text, "[[0,\"0-7,10-15\"],[11,\"9\"],[768,\"8\"]]");
    ck_assert_int_eq(result_worst(a), 128 + SIGSEGV);
    free(text);
    json_decref(json);
    for (int i = 0; i < 4; i++) {
        static const char *const texts[] = {"[1]", "[[1]]", "[[\"x\",\"1\"]]", "[[1,\"x\"]]"};

        bad = json_loads(texts[i], 0, NULL);
        ck_assert_int_eq(result_merge(a, bad, &err), -1);
        json_decref(bad);
    }
    result_destroy(a);
    result_destroy(b);
    result_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wrexec");
    TCase *tc = tcase_create("wrexec");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, layout_covers_all_tasks);
    tcase_add_test(tc, frames);
    tcase_add_test(tc, bad_frames);
    tcase_add_test(tc, records);
    tcase_add_test(tc, run_payload);
    tcase_add_test(tc, job_requests);
    tcase_add_test(tc, results_merge);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
