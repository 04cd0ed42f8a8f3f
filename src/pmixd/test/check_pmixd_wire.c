/* check_pmixd_wire.c - what the PMIx servers of a job say to each other. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "../pmixd_wire.h"

START_TEST(names)
{
    static const char *const bad[] = {"",      "q",       "q-",     "q-1",
                                      "q-1-",  "q--1",    "r-",     "r-1x",
                                      "x-1-2", "q-1-2-3", "q-+1-2", "q-99999999999999999-1"};
    struct box_name n;

    ck_assert_int_eq(pmixd_wire_box_name_parse("q-3-17", &n), 0);
    ck_assert(!n.answer && n.node == 3 && n.num == 17);
    ck_assert_int_eq(pmixd_wire_box_name_parse("r-4", &n), 0);
    ck_assert(n.answer && n.num == 4);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(pmixd_wire_box_name_parse(bad[i], &n) == -1, "%s was taken", bad[i]);
        ck_assert_int_eq(errno, EPROTO);
    }
}
END_TEST

START_TEST(published)
{
    static const char *const bad[] = {"",        " 1 00",   "ns",      "ns 1",   "ns 1 0",
                                      "ns x 00", "ns 1 0G", "ns 1 AB", "ns  00", "ns 1 00 00"};
    uint8_t value[] = {0, 0x7f, 0xff, ' '};
    struct published p = {"job-1", 5, 12, value, sizeof(value)}, q;
    char *text = pmixd_wire_published_format(&p);

    ck_assert_str_eq(text, "job-1 12 007fff20");
    ck_assert_int_eq(pmixd_wire_published_parse(text, &q), 0);
    ck_assert(q.nspace_len == 5 && !strncmp(q.nspace, "job-1", 5) && q.rank == 12);
    ck_assert(q.len == sizeof(value) && !memcmp(q.value, value, q.len));
    free(q.value);
    free(text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(pmixd_wire_published_parse(bad[i], &q) == -1, "'%s' was taken", bad[i]);
        ck_assert_int_eq(errno, EPROTO);
    }
}
END_TEST

START_TEST(groups)
{
    uint8_t data[2 * GROUP_HEAD + 3];
    struct group_part part;
    const void *p = data;
    size_t left = sizeof(data);

    pmixd_wire_group_part_head(data, 5, 3);
    memcpy(data + GROUP_HEAD, "abc", 3);
    pmixd_wire_group_part_head(data + GROUP_HEAD + 3, 0, 0);
    ck_assert_int_eq(pmixd_wire_group_part_next(&p, &left, &part), 1);
    ck_assert(part.context == 5 && part.len == 3 && !memcmp(part.data, "abc", 3));
    ck_assert_int_eq(pmixd_wire_group_part_next(&p, &left, &part), 1);
    ck_assert(part.context == 0 && part.len == 0);
    ck_assert_int_eq(pmixd_wire_group_part_next(&p, &left, &part), 0);
    for (size_t cut = 1; cut < GROUP_HEAD + 3; cut++) {
        p = data;
        left = cut;
        ck_assert_int_eq(pmixd_wire_group_part_next(&p, &left, &part), -1);
        ck_assert_int_eq(errno, EPROTO);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, names);
    tcase_add_test(tc, published);
    tcase_add_test(tc, groups);
    return run_case("pmixd_wire", tc);
}
