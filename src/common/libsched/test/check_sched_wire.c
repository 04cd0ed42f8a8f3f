/* check_sched_wire.c - entries of the scheduler's messages, right and wrong. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libsched/sched_wire.h"
#include "libutil/test/suite.h"

START_TEST(estimates)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "[1]",
        "[1,2]",
        "[1,2,3]",
        "[1,\"x\",\"y\"]",
        "[\"1\",2,\"y\"]",
        "[-1,2,\"y\"]",
        "[1,2,\"y\",4]",
        "[1.5,2,\"y\"]",
    };
    json_t *entry = sched_wire_estimate_encode(7, 12.5, "waits");
    const char *reason;
    errmsg_t err;
    uint64_t id;
    double t;

    ck_assert_int_eq(sched_wire_estimate_decode(entry, &id, &t, &reason, &err), 0);
    ck_assert(id == 7 && t == 12.5);
    ck_assert_str_eq(reason, "waits");
    json_decref(entry);
    entry = sched_wire_estimate_encode(8, -1., "waits");
    ck_assert(json_is_null(json_array_get(entry, 1)));
    ck_assert_int_eq(sched_wire_estimate_decode(entry, &id, &t, &reason, &err), 0);
    ck_assert(t < 0.);
    json_decref(entry);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        entry = json_loads(bad[i], 0, NULL);
        ck_assert_ptr_nonnull(entry);
        ck_assert_int_eq(sched_wire_estimate_decode(entry, &id, &t, &reason, &err), -1);
        ck_assert_int_eq(errno, EPROTO);
        json_decref(entry);
    }
}
END_TEST

START_TEST(urgencies)
{
    static const char *const bad[] = {"[]", "[1]", "[1,32]", "[1,-1]", "[1,\"2\"]", "[1,2,3]", "7"};
    json_t *entry = json_loads("[7,31]", 0, NULL);
    errmsg_t err;
    uint64_t id;
    uint32_t u;

    ck_assert_int_eq(sched_wire_urgency_decode(entry, &id, &u, &err), 0);
    ck_assert(id == 7 && u == 31);
    json_decref(entry);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        entry = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        ck_assert_ptr_nonnull(entry);
        ck_assert_int_eq(sched_wire_urgency_decode(entry, &id, &u, &err), -1);
        json_decref(entry);
    }
}
END_TEST

START_TEST(answers)
{
    struct sched_answer in = {0};
    struct sched_answer out = {.attached = 5};
    char *text = flux_schema_encode(&sched_answer_schema, &out);
    json_t *owner = flux_schema_decode(&sched_answer_schema, text, strlen(text), &in, NULL);

    ck_assert_str_eq(text, "{\"attached\":5}");
    ck_assert_ptr_nonnull(owner);
    ck_assert_uint_eq(in.attached, 5);
    json_decref(owner);
    free(text);
    out.deny = json_array();
    text = flux_schema_encode(&sched_answer_more_schema, &out);
    ck_assert_str_eq(text, "{\"deny\":[]}");
    json_decref(out.deny);
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("messages");

    tcase_add_test(tc, estimates);
    tcase_add_test(tc, urgencies);
    tcase_add_test(tc, answers);
    return run_case("sched_wire", tc);
}
