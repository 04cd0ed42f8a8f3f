/* check_pmi_mapping.c - known strings, random placements there and back, and strings to refuse. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_mapping.h"
#include "libutil/test/suite.h"

static void check_format(size_t n, const uint32_t *tasks, enum pmi_layout layout, const char *want)
{
    char *s = pmi_mapping_format(n, tasks, layout);

    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(s, want);
    free(s);
}

START_TEST(known)
{
    check_format(4, (uint32_t[]){2, 2, 2, 2}, PMI_LAYOUT_BLOCK, "(vector,(0,4,2))");
    check_format(3, (uint32_t[]){4, 4, 1}, PMI_LAYOUT_BLOCK, "(vector,(0,2,4),(2,1,1))");
    check_format(3, (uint32_t[]){1, 0, 1}, PMI_LAYOUT_BLOCK, "(vector,(0,1,1),(2,1,1))");
    check_format(2, (uint32_t[]){3, 3}, PMI_LAYOUT_CYCLIC, "(vector,(0,2,1))");
    check_format(3, (uint32_t[]){3, 1, 2}, PMI_LAYOUT_CYCLIC,
                 "(vector,(0,3,1),(0,1,1),(2,1,1),(0,1,1))");
    ck_assert_ptr_null(pmi_mapping_format(2, (uint32_t[]){0, 0}, PMI_LAYOUT_BLOCK));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(pmi_mapping_format(0, NULL, PMI_LAYOUT_BLOCK));
}
END_TEST

START_TEST(cliques)
{
    struct pmi_mapping *m = pmi_mapping_parse(" ( vector, (1,2,2), (0,1,1) )", 7);
    static const uint32_t node[7] = {1, 1, 2, 2, 0, 1, 1};
    const uint32_t *r;
    size_t n;

    ck_assert_ptr_nonnull(m);
    ck_assert_uint_eq(pmi_mapping_nnodes(m), 3);
    for (uint32_t i = 0; i < 7; i++)
        ck_assert_int_eq(pmi_mapping_node(m, i), (int)node[i]);
    ck_assert_int_eq(pmi_mapping_node(m, 7), -1);
    r = pmi_mapping_ranks(m, 1, &n);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(r[0], 0);
    ck_assert_uint_eq(r[1], 1);
    ck_assert_uint_eq(r[2], 5);
    ck_assert_uint_eq(r[3], 6);
    ck_assert_ptr_null(pmi_mapping_ranks(m, 3, &n));
    ck_assert_uint_eq(n, 0);
    pmi_mapping_destroy(m);
    pmi_mapping_destroy(NULL);
}
END_TEST

START_TEST(random_placements)
{
    uint32_t node_of[200], tasks[20];

    srandom(1);
    for (int round = 0; round < 3000; round++) {
        size_t nranks = 1 + (size_t)random() % 200, nnodes = 1 + (size_t)random() % 20;
        struct pmi_mapping *m;
        char *s;

        for (size_t r = 0; r < nranks; r++) {
            if (r && random() % 3)
                node_of[r] = node_of[r - 1];
            else
                node_of[r] = (uint32_t)((size_t)random() % nnodes);
        }
        s = pmi_mapping_format_ranks(nranks, node_of);
        m = pmi_mapping_parse(s, nranks);
        ck_assert_ptr_nonnull(m);
        for (size_t r = 0; r < nranks; r++)
            ck_assert_int_eq(pmi_mapping_node(m, (uint32_t)r), (int)node_of[r]);
        free(s);
        pmi_mapping_destroy(m);
        for (size_t i = 0; i < nnodes; i++)
            tasks[i] = 1 + (uint32_t)random() % 9;
        s = pmi_mapping_format(nnodes, tasks, random() % 2 ? PMI_LAYOUT_BLOCK : PMI_LAYOUT_CYCLIC);
        nranks = 0;
        for (size_t i = 0; i < nnodes; i++)
            nranks += tasks[i];
        m = pmi_mapping_parse(s, nranks);
        for (size_t i = 0; i < nnodes; i++) {
            size_t n;

            (void)pmi_mapping_ranks(m, (uint32_t)i, &n);
            ck_assert_uint_eq(n, tasks[i]);
        }
        free(s);
        pmi_mapping_destroy(m);
    }
}
END_TEST

START_TEST(bad)
{
    static const char *const s[] = {"",
                                    "(vector)",
                                    "(vector,",
                                    "(vector,())",
                                    "(vector,(0,1))",
                                    "(vector,(0,0,1))",
                                    "(vector,(0,1,0))",
                                    "(vector,(0,1,1)",
                                    "(vector,(0,1,1))x",
                                    "(vector,(-1,1,1))",
                                    "(vector,(0,1,99999999999))",
                                    "(vector,(4294967295,1,1))",
                                    "(vector,(4194303,4194304,1))",
                                    "(matrix,(0,1,1))",
                                    "vector,(0,1,1)"};

    for (size_t i = 0; i < sizeof(s) / sizeof(s[0]); i++) {
        errno = 0;
        ck_assert_msg(!pmi_mapping_parse(s[i], 4), "accepted: %s", s[i]);
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_ptr_null(pmi_mapping_parse("(vector,(0,1,1))", 0));
}
END_TEST

int main(void)
{
    RUN_SUITE("pmi_mapping", known, cliques, random_placements, bad);
}
