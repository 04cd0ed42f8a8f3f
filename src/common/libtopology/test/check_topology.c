/* check_topology.c - tree shapes against a naive model built from parent questions. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtopology/topology.h"
#include "libutil/fdutil.h"
#include "libutil/test/put_file.h"
#include "libutil/test/suite.h"

static topology_t *from_text(const char *text, uint32_t size, errmsg_t *err)
{
    return topology_create_text(text, strlen(text), "test", size, err);
}

static bool model_below(const topology_t *t, uint32_t anc, uint32_t r)
{
    while (r != anc && r != TOPOLOGY_NONE)
        r = topology_parent(t, r);
    return r == anc;
}

/* Everything but `parent` is checked against what the parents say. */
static void check_all(const topology_t *t)
{
    uint32_t n = topology_size(t);
    uint32_t max_depth = 0;

    ck_assert_uint_eq(topology_parent(t, 0), TOPOLOGY_NONE);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t depth = 0;
        uint32_t nchildren = 0;
        uint32_t count = 0;
        idset_t *children = topology_children(t, r);
        idset_t *below = topology_subtree(t, r);
        bool ok = true;

        for (uint32_t up = r; up != 0; up = topology_parent(t, up))
            ck_assert_uint_lt(++depth, n);
        if (depth > max_depth)
            max_depth = depth;
        ok &= topology_depth(t, r) == depth;
        for (uint32_t c = 0; c < n; c++) {
            bool is_below = model_below(t, r, c);
            uint32_t hop = topology_next_hop(t, r, c);

            if (topology_parent(t, c) == r)
                ok &= topology_child_at(t, r, nchildren++) == c && idset_test(children, c);
            count += is_below;
            ok &= topology_is_ancestor(t, r, c) == is_below && idset_test(below, c) == is_below;
            if (c == r)
                ok &= hop == r;
            else if (is_below)
                ok &= topology_parent(t, hop) == r && model_below(t, hop, c);
            else
                ok &= hop == topology_parent(t, r);
            if (!ok)
                ck_abort_msg("%s size %u: rank %u and %u", topology_spec(t), n, r, c);
        }
        ok &= topology_nchildren(t, r) == nchildren && idset_count(children) == nchildren;
        ok &= topology_child_at(t, r, nchildren) == TOPOLOGY_NONE;
        ok &= topology_subtree_count(t, r) == count && idset_count(below) == count;
        if (!ok)
            ck_abort_msg("%s size %u: rank %u", topology_spec(t), n, r);
        idset_destroy(children);
        idset_destroy(below);
    }
    ck_assert_uint_eq(topology_max_depth(t), max_depth);
}

START_TEST(regular)
{
    static const char *specs[] = {"kary:1", "kary:2", "kary:3", "kary:7",         "kary:16",
                                  "flat",   "binary", "chain",  "kary:4294967295"};
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 15, 16, 17, 40, 57};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            topology_t *t = topology_create(specs[i], sizes[j], NULL);

            ck_assert_ptr_nonnull(t);
            ck_assert_uint_eq(topology_size(t), sizes[j]);
            ck_assert_str_eq(topology_spec(t), specs[i]);
            for (uint32_t r = 1; r < sizes[j]; r++)
                ck_assert_uint_lt(topology_parent(t, r), r);
            check_all(t);
            topology_destroy(t);
        }
    }
}
END_TEST

START_TEST(known_shapes)
{
    topology_t *t = topology_create("kary:2", 16, NULL);

    ck_assert_uint_eq(topology_parent(t, 15), 7);
    ck_assert_uint_eq(topology_max_depth(t), 4);
    ck_assert_uint_eq(topology_next_hop(t, 0, 15), 1);
    ck_assert_uint_eq(topology_next_hop(t, 2, 15), 0);
    topology_destroy(t);
    t = topology_create("flat", 1000, NULL);
    ck_assert_uint_eq(topology_max_depth(t), 1);
    ck_assert_uint_eq(topology_nchildren(t, 0), 999);
    topology_destroy(t);
    t = topology_create("chain", TOPOLOGY_MAX_SIZE, NULL);
    ck_assert_uint_eq(topology_max_depth(t), TOPOLOGY_MAX_SIZE - 1);
    ck_assert_uint_eq(topology_next_hop(t, 0, TOPOLOGY_MAX_SIZE - 1), 1);
    ck_assert_uint_eq(topology_subtree_count(t, 1), TOPOLOGY_MAX_SIZE - 1);
    topology_destroy(t);
    t = topology_create("kary:16777214", TOPOLOGY_MAX_SIZE, NULL);
    ck_assert_uint_eq(topology_nchildren(t, 0), 16777214);
    ck_assert_uint_eq(topology_nchildren(t, 1), 1);
    ck_assert_uint_eq(topology_subtree_count(t, 0), TOPOLOGY_MAX_SIZE);
    topology_destroy(t);
}
END_TEST

START_TEST(bad_ranks)
{
    topology_t *reg = topology_create("kary:2", 5, NULL);
    topology_t *file = from_text("0: 1-4", 5, NULL);

    for (int i = 0; i < 2; i++) {
        topology_t *t = i ? file : reg;

        for (uint32_t r = 5; r != 0; r = r == 5 ? TOPOLOGY_NONE : 0) {
            ck_assert_uint_eq(topology_parent(t, r), TOPOLOGY_NONE);
            ck_assert_uint_eq(topology_nchildren(t, r), 0);
            ck_assert_uint_eq(topology_child_at(t, r, 0), TOPOLOGY_NONE);
            ck_assert_ptr_null(topology_children(t, r));
            ck_assert_int_eq(errno, EINVAL);
            ck_assert_uint_eq(topology_depth(t, r), TOPOLOGY_NONE);
            ck_assert(!topology_is_ancestor(t, 0, r) && !topology_is_ancestor(t, r, 0));
            ck_assert_uint_eq(topology_subtree_count(t, r), 0);
            ck_assert_ptr_null(topology_subtree(t, r));
            ck_assert_uint_eq(topology_next_hop(t, 0, r), TOPOLOGY_NONE);
            ck_assert_uint_eq(topology_next_hop(t, r, 0), TOPOLOGY_NONE);
            ck_assert_uint_eq(topology_ring_next(t, r), TOPOLOGY_NONE);
            ck_assert_uint_eq(topology_ring_prev(t, r), TOPOLOGY_NONE);
        }
        errno = 42;
        topology_destroy(t);
        topology_destroy(NULL);
        ck_assert_int_eq(errno, 42);
    }
}
END_TEST

START_TEST(bad_specs)
{
    static const char *specs[] = {
        "",        "kary",    "kary:",   "kary:0",
        "kary:-1", "kary:2x", "kary: 2", "kary:4294967296",
        "Flat",    "flat:2",  "binary2", "no-such-shape",
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        err.text[0] = '\0';
        ck_assert_msg(topology_create(specs[i], 4, &err) == NULL, "\"%s\" was taken", specs[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    ck_assert_ptr_null(topology_create(NULL, 4, &err));
    ck_assert_ptr_null(topology_create("kary:2", 0, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_null(topology_create("kary:2", TOPOLOGY_MAX_SIZE + 1, &err));
    ck_assert_ptr_null(topology_create("file:/nonexistent", 4, &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent"));
    ck_assert_ptr_null(topology_create("./nonexistent", 4, &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(topology_create("/", 4, &err));
    ck_assert_int_eq(errno, EISDIR);
    ck_assert_ptr_null(topology_create_text(NULL, 0, "x", 1, &err));
}
END_TEST

START_TEST(ring)
{
    topology_t *t = topology_create("kary:3", 5, NULL);
    topology_t *one = topology_create("kary:3", 1, NULL);

    ck_assert_uint_eq(topology_ring_next(t, 0), 1);
    ck_assert_uint_eq(topology_ring_next(t, 4), 0);
    ck_assert_uint_eq(topology_ring_prev(t, 0), 4);
    ck_assert_uint_eq(topology_ring_next(one, 0), 0);
    ck_assert_uint_eq(topology_ring_prev(one, 0), 0);
    topology_destroy(t);
    topology_destroy(one);
}
END_TEST

START_TEST(file_good)
{
    topology_t *t = from_text("# switches\r\n"
                              "\n"
                              " 1 :  2-3,6  # leaves\r\n"
                              "\t# nothing\n"
                              "0: [1,5]\n"
                              "5:4",
                              7, NULL);

    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(topology_parent(t, 6), 1);
    ck_assert_uint_eq(topology_parent(t, 4), 5);
    ck_assert_uint_eq(topology_next_hop(t, 0, 4), 5);
    ck_assert_uint_eq(topology_next_hop(t, 4, 6), 5);
    ck_assert_uint_eq(topology_max_depth(t), 2);
    check_all(t);
    topology_destroy(t);
    t = from_text("", 1, NULL);
    ck_assert_ptr_nonnull(t);
    check_all(t);
    topology_destroy(t);
}
END_TEST

START_TEST(file_bad)
{
    static const struct {
        const char *text;
        const char *say; /* what the error message must contain */
    } tests[] = {
        {"", "rank 1 has no parent"},
        {"0: 1-2\n", "rank 3 has no parent"},
        {"0: 1-3\n1: 2\n", "line 2: rank 2 is a child already (of rank 0, line 1)"},
        {"0: 1-4\n", "line 1: child 4"},
        {"4: 1-3\n", "line 1: parent 4"},
        {"0: 0-3\n", "rank 0 is the root"},
        {"0: 1-3\n\n1: 1\n", "line 3: rank 1 is its own child"},
        {"0: 1\n0: 2-3\n", "line 2: rank 0 has a line already (1)"},
        {"0: 1\n2: 3\n3: 2\n", "cycle"},
        {"0 1-3\n", "line 1: no ':'"},
        {"x: 1-3\n", "line 1: the parent \"x\""},
        {"-1: 1-3\n", "line 1"},
        {": 1-3\n", "line 1"},
        {"0: 1-3x\n", "line 1: idset"},
        {"0: 1 - 3\n", "line 1: idset"},
        {"0: 1, 3\n", "line 1: idset"},
        {"0:\n", "line 1: rank 0 has no children"},
        {"0: 0-2147483647\n", "line 1: child 2147483647"},
        {"0: 1-99999999999\n", "line 1: idset"},
        {"99999999999: 1\n", "line 1"},
        {"0: 1: 2\n", "line 1"},
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errno = 0;
        ck_assert_msg(from_text(tests[i].text, 4, &err) == NULL, "\"%s\"", tests[i].text);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_msg(strstr(err.text, tests[i].say) != NULL, "\"%s\": %s", tests[i].text,
                      err.text);
        ck_assert_ptr_nonnull(strstr(err.text, "\"test\""));
    }
    ck_assert_ptr_null(topology_create_text("0: 1\0-3\n", 9, "test", 4, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "line 1: there is a NUL"));
}
END_TEST

START_TEST(file_by_path)
{
    char *dir = dir_create_runtime("check-topology", NULL);
    char path[4096];
    char spec[5000];
    topology_t *t;

    ck_assert_ptr_nonnull(dir);
    snprintf(path, sizeof(path), "%s/tree", dir);
    put_file(path, "0: 1-2\n", 7, 0600);
    snprintf(spec, sizeof(spec), "file:%s", path);
    t = topology_create(path, 3, NULL);
    ck_assert_ptr_nonnull(t);
    ck_assert_str_eq(topology_spec(t), spec);
    topology_destroy(t);
    t = topology_create(spec, 3, NULL);
    ck_assert_ptr_nonnull(t);
    topology_destroy(t);
    ck_assert_int_eq(chdir(dir), 0);
    t = topology_create("tree", 3, NULL);
    ck_assert_ptr_nonnull(t);
    topology_destroy(t);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(dir_remove_tree(dir), 0);
    free(dir);
}
END_TEST

START_TEST(random_trees)
{
    srandom(_i + 1);
    for (int round = 0; round < 30; round++) {
        uint32_t n = 1 + (uint32_t)(random() % 40);
        uint32_t perm[40];
        uint32_t parent[40] = {0};
        char text[8192] = "";
        topology_t *t;
        topology_t *again;
        char *s;

        for (uint32_t i = 0; i < n; i++)
            perm[i] = i;
        for (uint32_t i = n - 1; i > 1; i--) { /* 0 stays the root */
            uint32_t j = 1 + (uint32_t)(random() % i);
            uint32_t x = perm[i];

            perm[i] = perm[j];
            perm[j] = x;
        }
        for (uint32_t i = 1; i < n; i++)
            parent[perm[i]] = perm[round % 3 ? random() % i : i - 1];
        for (uint32_t p = 0; p < n; p++) {
            const char *sep = ": ";

            for (uint32_t c = 1; c < n; c++) {
                if (parent[c] != p)
                    continue;
                if (*sep == ':')
                    sprintf(text + strlen(text), "%u", p);
                sprintf(text + strlen(text), "%s%u", sep, c);
                sep = ",";
            }
            if (*sep == ',')
                strcat(text, "\n");
        }
        t = from_text(text, n, NULL);
        ck_assert_msg(t != NULL, "%s", text);
        for (uint32_t r = 1; r < n; r++)
            ck_assert_uint_eq(topology_parent(t, r), parent[r]);
        check_all(t);
        s = topology_format_file(t);
        again = from_text(s, n, NULL);
        ck_assert_ptr_nonnull(again);
        for (uint32_t r = 1; r < n; r++)
            ck_assert_uint_eq(topology_parent(again, r), parent[r]);
        free(s);
        topology_destroy(again);
        topology_destroy(t);
    }
}
END_TEST

static void label(uint32_t rank, char *buf, size_t size, void *arg)
{
    snprintf(buf, size, "%s%u", (const char *)arg, rank);
}

/* Ranks that are moved take all below them along; moved back, they are where they were. */
START_TEST(moved)
{
    static const char *const shapes[] = {"kary:2", "chain", "kary:3"};

    for (size_t i = 0; i < 3; i++) {
        topology_t *t = topology_create(shapes[i], 40, NULL);
        topology_t *m = topology_create_over(t);
        idset_t *ranks = topology_children(t, 1);
        uint32_t first = idset_first(ranks);
        char *text;

        ck_assert_str_eq(topology_spec(m), topology_spec(t));
        for (uint32_t r = first; r != IDSET_NONE; r = idset_next(ranks, r))
            ck_assert_int_eq(topology_move(m, r, 0), 0);
        ck_assert_uint_eq(topology_nmoved(m), idset_count(ranks));
        ck_assert_uint_eq(topology_nchildren(m, 1), 0);
        ck_assert_uint_eq(topology_subtree_count(m, 1), 1);
        for (uint32_t r = first; r != IDSET_NONE; r = idset_next(ranks, r)) {
            ck_assert_uint_eq(topology_parent(m, r), 0);
            ck_assert_uint_eq(topology_subtree_count(m, r), topology_subtree_count(t, r));
            ck_assert_uint_eq(topology_next_hop(m, 0, r), r);
            ck_assert_uint_eq(topology_next_hop(m, 1, r), 0);
        }
        /* Below itself, to nowhere, the root, and one that is not there. */
        ck_assert_int_eq(topology_move(m, first, first), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_int_eq(topology_move(m, 0, 1), -1);
        ck_assert_int_eq(topology_move(m, first, 40), -1);
        ck_assert_int_eq(topology_move(m, 40, 1), -1);
        ck_assert_int_eq(errno, EINVAL);
        text = topology_format_file(m);
        ck_assert_ptr_nonnull(text);
        free(text);
        for (uint32_t r = first; r != IDSET_NONE; r = idset_next(ranks, r))
            ck_assert_int_eq(topology_move(m, r, 1), 0);
        ck_assert_uint_eq(topology_nmoved(m), 0);
        for (uint32_t r = 0; r < 40; r++) {
            ck_assert_uint_eq(topology_parent(m, r), topology_parent(t, r));
            ck_assert_uint_eq(topology_depth(m, r), topology_depth(t, r));
        }
        ck_assert_uint_eq(topology_max_depth(m), topology_max_depth(t));
        idset_destroy(ranks);
        topology_destroy(m);
        topology_destroy(t);
    }
}
END_TEST

/* All queries of the two trees have the same answers. */
static void expect_same(const topology_t *m, const topology_t *t, uint32_t size)
{
    ck_assert_uint_eq(topology_max_depth(m), topology_max_depth(t));
    for (uint32_t r = 0; r < size; r++) {
        idset_t *a = topology_subtree(m, r), *b = topology_subtree(t, r);

        ck_assert(idset_equal(a, b));
        ck_assert_uint_eq(topology_subtree_count(m, r), idset_count(b));
        ck_assert_uint_eq(topology_parent(m, r), topology_parent(t, r));
        ck_assert_uint_eq(topology_depth(m, r), topology_depth(t, r));
        ck_assert_uint_eq(topology_nchildren(m, r), topology_nchildren(t, r));
        for (uint32_t i = 0; i <= topology_nchildren(t, r); i++)
            ck_assert_uint_eq(topology_child_at(m, r, i), topology_child_at(t, r, i));
        for (uint32_t k = 0; k < size; k++) {
            ck_assert(topology_is_ancestor(m, r, k) == topology_is_ancestor(t, r, k));
            ck_assert_uint_eq(topology_next_hop(m, r, k), topology_next_hop(t, r, k));
        }
        idset_destroy(a);
        idset_destroy(b);
    }
}

/* After random moves a tree is the one that is read from its text; also over a tree that has moves
 * itself. */
START_TEST(random_moves)
{
    static const char *const shapes[] = {"kary:2", "chain", "kary:3", "flat"};
    const uint32_t size = 48;
    uint64_t x = 1 + (uint64_t)_i;

    for (size_t i = 0; i < 4; i++) {
        topology_t *base = topology_create(shapes[i], size, NULL);
        topology_t *half = topology_create_over(base);
        topology_t *m = topology_create_over(half);

        for (unsigned k = 0; k < 60; k++) {
            uint32_t rank = (uint32_t)((x = x * 6364136223846793005u + 1) >> 33) % size;
            uint32_t parent = (uint32_t)((x = x * 6364136223846793005u + 1) >> 33) % size;
            topology_t *to = k < 10 ? half : m;
            bool can = rank > 0 && !topology_is_ancestor(to, rank, parent);

            ck_assert_int_eq(topology_move(to, rank, parent), can ? 0 : -1);
            if (k % 10 == 9) {
                char *text = topology_format_file(m);
                topology_t *t = topology_create_text(text, strlen(text), "text", size, NULL);

                ck_assert_ptr_nonnull(t);
                expect_same(m, t, size);
                topology_destroy(t);
                free(text);
            }
        }
        topology_destroy(m);
        topology_destroy(half);
        topology_destroy(base);
    }
}
END_TEST

START_TEST(drawings)
{
    topology_t *t = topology_create("kary:2", 6, NULL);
    topology_t *one = topology_create("flat", 1, NULL);
    char *s = topology_format_tree(t, NULL, NULL);

    ck_assert_str_eq(s, "0\n"
                        "|-- 1\n"
                        "|   |-- 3\n"
                        "|   `-- 4\n"
                        "`-- 2\n"
                        "    `-- 5\n");
    free(s);
    s = topology_format_tree(one, label, "a\nb");
    ck_assert_str_eq(s, "a?b0\n");
    free(s);
    s = topology_format_dot(one, label, "\"\\");
    ck_assert_str_eq(
        s, "digraph topology {\n    node [shape=box];\n    0 [label=\"\\\"\\\\0\"];\n}\n");
    free(s);
    s = topology_format_dot(t, NULL, NULL);
    ck_assert_ptr_nonnull(strstr(s, "    2 [label=\"2\"];\n"));
    ck_assert_ptr_nonnull(strstr(s, "    2 -> 5;\n}\n"));
    free(s);
    s = topology_format_file(one);
    ck_assert_str_eq(s, "");
    free(s);
    topology_destroy(t);
    topology_destroy(one);
}
END_TEST

/* Every level indents by four: a chain of 10,000 would need 200 MB. */
START_TEST(deep_drawing)
{
    topology_t *t = topology_create("chain", 10000, NULL);
    char *s;

    errno = 0;
    ck_assert_ptr_null(topology_format_tree(t, NULL, NULL));
    ck_assert_int_eq(errno, E2BIG);
    topology_destroy(t);
    t = topology_create("chain", 1000, NULL);
    s = topology_format_tree(t, NULL, NULL);
    ck_assert_ptr_nonnull(s);
    free(s);
    topology_destroy(t);
}
END_TEST

/* Deep and large trees from a file: no recursion, no quadratic time. */
START_TEST(large_file)
{
    uint32_t n = 200000;
    char *text = malloc((size_t)n * 20);
    size_t len = 0;
    topology_t *t;
    idset_t *ids;

    for (uint32_t r = 0; r + 1 < n; r++)
        len += (size_t)sprintf(text + len, "%u: %u\n", r, r + 1);
    t = topology_create_text(text, len, "test", n, NULL);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(topology_max_depth(t), n - 1);
    ck_assert_uint_eq(topology_next_hop(t, 5, n - 1), 6);
    ck_assert_uint_eq(topology_next_hop(t, n - 1, 0), n - 2);
    ids = topology_subtree(t, 1);
    ck_assert_uint_eq(idset_count(ids), n - 1);
    idset_destroy(ids);
    topology_destroy(t);
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, regular);
    tcase_add_test(tc, known_shapes);
    tcase_add_test(tc, bad_ranks);
    tcase_add_test(tc, bad_specs);
    tcase_add_test(tc, ring);
    tcase_add_test(tc, file_good);
    tcase_add_test(tc, file_bad);
    tcase_add_test(tc, file_by_path);
    tcase_add_loop_test(tc, random_trees, 0, 4);
    tcase_add_test(tc, moved);
    tcase_add_loop_test(tc, random_moves, 0, 4);
    tcase_add_test(tc, drawings);
    tcase_add_test(tc, deep_drawing);
    tcase_add_test(tc, large_file);
    return run_case("topology", tc);
}
