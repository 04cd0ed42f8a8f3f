/* check_rset.c - sets of resources: RFC 20 there and back, what is refused, and the algebra against
 * a naive table of bits. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/rset.h"
#include "libutil/test/suite.h"

static rset_t *parse(const char *text)
{
    errmsg_t err = {""};
    rset_t *rs = rset_parse(text, strlen(text), &err);

    ck_assert_msg(rs != NULL, "%s: %s", text, err.text);
    return rs;
}

/* Text of the set, compared and freed. */
static void expect(const rset_t *rs, const char *want)
{
    char *text = rset_format(rs);

    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(there_and_back)
{
    static const char *const texts[] = {
        "{\"version\":1,\"execution\":{\"R_lite\":[],\"starttime\":0,\"expiration\":0}}",
        "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-3\",\"children\":"
        "{\"core\":\"0-3\",\"gpu\":\"0\"}}],\"nodelist\":[\"node[0-3]\"],\"starttime\":1.5,"
        "\"expiration\":60},\"pools\":{\"power\":100}}",
        "{\"version\":1,\"execution\":{\"R_lite\":["
        "{\"rank\":\"0,2\",\"children\":{\"core\":\"0\"}},"
        "{\"rank\":\"1\",\"children\":{\"core\":\"1\",\"memory\":64}}],"
        "\"nodelist\":[\"b,a,c\"],\"starttime\":0,\"expiration\":0}}",
        "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-255\",\"children\":{\"core\":"
        "\"0\"}}"
        "],\"nodelist\":[\"same\"],\"starttime\":0,\"expiration\":0}}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        rset_t *rs = parse(texts[i]);

        expect(rs, texts[i]);
        rset_destroy(rs);
    }
}
END_TEST

#define R(x) "{\"version\":1,\"execution\":{" x "}}"

START_TEST(refused)
{
    static const struct {
        const char *text;
        const char *word;
    } tests[] = {
        {"", "JSON"},
        {"[]", "object"},
        {"{\"version\":2,\"execution\":{\"R_lite\":[]}}", "version"},
        {"{\"version\":1}", "execution"},
        {"{\"version\":1,\"version\":1,\"execution\":{\"R_lite\":[]}}", "JSON"},
        {R("\"R_lite\":{}"), "R_lite"},
        {R("\"R_lite\":[1]"), "R_lite[0]"},
        {R("\"R_lite\":[{\"rank\":\"x\",\"children\":{}}]"), "R_lite[0].rank"},
        {R("\"R_lite\":[{\"rank\":\"0\",\"children\":{\"core\":\"9-1\"}}]"), "children.core"},
        {R("\"R_lite\":[{\"rank\":\"0\",\"children\":{\"disk\":\"1\"}}]"), "disk"},
        {R("\"R_lite\":[{\"rank\":\"0\",\"children\":{}},{\"rank\":\"0\",\"children\":{}}]"),
         "rank 0"},
        {R("\"R_lite\":[{\"rank\":\"0-2000000\",\"children\":{}}]"), "more than"},
        {R("\"R_lite\":[{\"rank\":\"0-1\",\"children\":{}}],\"nodelist\":[\"a,b,c\"]"), "3 hosts"},
        {R("\"R_lite\":[],\"nodelist\":[1]"), "nodelist[0]"},
        {R("\"R_lite\":[],\"starttime\":-1"), "time"},
        {"{\"version\":1,\"execution\":{\"R_lite\":[]},\"pools\":{\"a\":-1}}", "pools.a"},
        {"{\"version\":1,\"execution\":{\"R_lite\":[]},\"pools\":{\"\":1}}", "pools"},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errmsg_t err = {""};

        ck_assert_msg(!rset_parse(tests[i].text, strlen(tests[i].text), &err), "%s", tests[i].text);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_msg(strstr(err.text, tests[i].word) != NULL, "%s: %s", tests[i].text, err.text);
    }
}
END_TEST

START_TEST(nodes)
{
    rset_t *rs = rset_create();
    idset_t *cores = idset_create_range(0, 3), *more = idset_create_range(4, 5), *ranks;
    struct rset_node n;
    char *hosts;

    ck_assert_uint_eq(rset_nnodes(rs), 0);
    ck_assert_int_eq(rset_add_node(rs, 5, "n5", cores, NULL, 10), 0);
    ck_assert_int_eq(rset_add_node(rs, 1, "n1", cores, more, 0), 0);
    ck_assert_int_eq(rset_add_node(rs, 5, NULL, more, NULL, 1), 0);
    ck_assert_int_eq(rset_add_node(rs, 3, "n3", NULL, NULL, 0), 0);
    ck_assert_uint_eq(rset_nnodes(rs), 3);
    ck_assert_uint_eq(rset_ncores(rs), 10);
    ck_assert_uint_eq(rset_ngpus(rs), 2);
    ck_assert(rset_node(rs, 0, &n) && n.rank == 1 && strcmp(n.host, "n1") == 0);
    ck_assert(rset_node(rs, 2, &n) && n.rank == 5 && n.memory == 11 && idset_count(n.cores) == 6);
    ck_assert(!rset_node(rs, 3, &n));
    ck_assert(rset_find(rs, 3, &n) && idset_empty(n.cores));
    ck_assert(!rset_find(rs, 4, &n));
    ck_assert_int_eq(rset_add_node(rs, 1u << 31, NULL, NULL, NULL, 0), -1);
    ck_assert_int_eq(errno, EINVAL);
    hosts = rset_hosts(rs);
    ck_assert_str_eq(hosts, "n[1,3,5]");
    free(hosts);
    ranks = rset_ranks(rs);
    ck_assert_uint_eq(idset_count(ranks), 3);
    idset_destroy(ranks);
    ck_assert_int_eq(rset_add_pool(rs, "p", 3), 0);
    ck_assert_int_eq(rset_add_pool(rs, "p", 4), 0);
    ck_assert_int_eq(rset_add_pool(rs, "a b", 4), -1);
    ck_assert_uint_eq(rset_pool_count(rs, "p"), 7);
    ck_assert_uint_eq(rset_pool_count(rs, "q"), 0);
    ck_assert_ptr_null(rset_pool(rs, 1, NULL));
    rset_destroy(rs);
    idset_destroy(cores);
    idset_destroy(more);
}
END_TEST

/* --- algebra against bits --- */

#define NODES 12
#define CORES 10

struct bits {
    bool there[NODES];
    unsigned cores[NODES];
    unsigned memory[NODES];
    unsigned pool;
};

static rset_t *make(const struct bits *b)
{
    rset_t *rs = rset_create();

    for (uint32_t r = 0; r < NODES; r++) {
        idset_t *cores = idset_create();

        for (uint32_t c = 0; c < CORES; c++) {
            if (b->cores[r] & 1u << c)
                ck_assert_int_eq(idset_set(cores, c), 0);
        }
        if (b->there[r])
            ck_assert_int_eq(rset_add_node(rs, r, "h", cores, cores, b->memory[r]), 0);
        idset_destroy(cores);
    }
    ck_assert_int_eq(rset_add_pool(rs, "p", b->pool), 0);
    return rs;
}

static void draw(struct bits *b, unsigned density)
{
    memset(b, 0, sizeof(*b));
    for (int r = 0; r < NODES; r++) {
        b->there[r] = (unsigned)(rand() % 100) < density;
        if (b->there[r]) {
            b->cores[r] = (unsigned)rand() % (1u << CORES);
            b->memory[r] = (unsigned)rand() % 4;
        }
    }
    b->pool = (unsigned)rand() % 5;
}

enum op { UNION, DIFF };

static void naive(enum op op, const struct bits *a, const struct bits *b, struct bits *out)
{
    memset(out, 0, sizeof(*out));
    for (int r = 0; r < NODES; r++) {
        unsigned ma = a->memory[r], mb = b->memory[r];
        bool both = a->there[r] && b->there[r];

        if (op == UNION) {
            out->cores[r] = a->cores[r] | b->cores[r];
            out->memory[r] = ma + mb;
            out->there[r] = a->there[r] || b->there[r];
        } else {
            out->cores[r] = a->cores[r] & ~b->cores[r];
            out->memory[r] = ma > mb ? ma - mb : 0;
            out->there[r] = a->there[r] && (!both || out->cores[r] || out->memory[r]);
        }
    }
    if (op == UNION)
        out->pool = a->pool + b->pool;
    else
        out->pool = a->pool > b->pool ? a->pool - b->pool : 0;
}

static void check_op(enum op op, const struct bits *x, const struct bits *y)
{
    rset_t *a = make(x), *b = make(y), *got, *want;
    struct bits z;
    char *text;

    naive(op, x, y, &z);
    want = make(&z);
    text = rset_format(want);
    if (op == UNION) {
        ck_assert_int_eq(rset_add(a, b), 0);
        expect(a, text);
    } else {
        ck_assert_ptr_nonnull(got = rset_diff(a, b));
        expect(got, text);
        rset_destroy(got);
    }
    free(text);
    rset_destroy(a);
    rset_destroy(b);
    rset_destroy(want);
}

START_TEST(algebra)
{
    srand((unsigned)_i + 1);
    for (int round = 0; round < 300; round++) {
        struct bits x, y;

        draw(&x, 90);
        draw(&y, round % 2 ? 15 : 80);
        for (int op = UNION; op <= DIFF; op++)
            check_op((enum op)op, &x, &y);
    }
}
END_TEST

START_TEST(take_and_give_back)
{
    /* What an allocator does. */
    rset_t *all = rset_create(), *free_set, *job, *part, *rest;
    idset_t *cores = idset_create_range(0, 15), *two = idset_create_range(2, 3);
    idset_t *ranks = idset_create_range(10, 19);
    char name[16], *text;

    for (uint32_t r = 0; r < 4096; r++) {
        snprintf(name, sizeof(name), "node%u", r);
        ck_assert_int_eq(rset_add_node(all, r, name, cores, NULL, 1024), 0);
    }
    job = rset_create();
    ck_assert_int_eq(rset_add_node(job, 100, "node100", two, NULL, 24), 0);
    free_set = rset_diff(all, job);
    ck_assert_uint_eq(rset_ncores(free_set), 4096 * 16 - 2);
    ck_assert_int_eq(rset_add(free_set, job), 0);
    text = rset_format(all);
    expect(free_set, text);
    free(text);
    part = rset_of_ranks(all, ranks);
    ck_assert_uint_eq(rset_nnodes(part), 10);
    rest = rset_diff(all, part);
    ck_assert_uint_eq(rset_nnodes(rest), 4086);
    rset_destroy(rest);
    rest = rset_diff(all, all);
    ck_assert_uint_eq(rset_nnodes(rest), 0);
    rset_destroy(all);
    rset_destroy(free_set);
    rset_destroy(job);
    rset_destroy(part);
    rset_destroy(rest);
    rset_destroy(NULL);
    idset_destroy(cores);
    idset_destroy(two);
    idset_destroy(ranks);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, there_and_back);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, nodes);
    tcase_add_loop_test(tc, algebra, 0, 3);
    tcase_add_test(tc, take_and_give_back);
    return run_case("rset", tc);
}
