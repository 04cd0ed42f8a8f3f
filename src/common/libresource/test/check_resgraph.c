/* check_resgraph.c - inventories: JSON folded and unfolded, merging, looking, and what can never be
 * had. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resgraph.h"
#include "libutil/strbuf.h"
#include "libutil/test/suite.h"

static resgraph_t *parse(const char *text)
{
    errmsg_t err = {""};
    resgraph_t *g = resgraph_parse(text, strlen(text), &err);

    ck_assert_msg(g != NULL, "%s: %s", text, err.text);
    return g;
}

static void expect(const resgraph_t *g, const char *want)
{
    char *text = resgraph_format(g);

    ck_assert_str_eq(text, want);
    free(text);
}

static const char two_kinds[] =
    "{\"nodes\":[{\"ranks\":\"0-3\",\"hosts\":\"node[0-3]\",\"cores\":\"0-15\",\"memory\":65536,"
    "\"sockets\":[\"0-7\",\"8-15\"]},"
    "{\"ranks\":\"4-5\",\"hosts\":\"fat[0-1]\",\"cores\":\"0-31\",\"gpus\":\"0-3\","
    "\"memory\":262144,\"properties\":[\"bigmem\",\"gpu\"]}],"
    "\"pools\":[{\"name\":\"power\",\"count\":1000,\"unit\":\"kW\"}],\"emulated\":false}";

START_TEST(there_and_back)
{
    static const char *const texts[] = {
        "{\"nodes\":[],\"pools\":[],\"emulated\":true}",
        two_kinds,
        "{\"nodes\":[{\"ranks\":\"0-255\",\"hosts\":\"same\",\"cores\":\"0-1\"}],\"pools\":[],"
        "\"emulated\":false}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        resgraph_t *g = parse(texts[i]), *copy = resgraph_copy(g);

        expect(g, texts[i]);
        resgraph_destroy(g);
        expect(copy, texts[i]);
        resgraph_destroy(copy);
    }
}
END_TEST

#define NODE(x) "{\"nodes\":[{" x "}]}"

START_TEST(refused)
{
    static const struct {
        const char *text;
        const char *word;
    } tests[] = {
        {"", "JSON"},
        {"{}", "nodes"},
        {"{\"nodes\":[],\"other\":1}", "other"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a\""), "cores"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a b\",\"cores\":\"0\""), "nodes[0]"},
        {NODE("\"ranks\":\"0-2\",\"hosts\":\"a,b\",\"cores\":\"0\""), "2 host names"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a\",\"cores\":\"65536\""), "above"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a\",\"cores\":\"0-3\",\"sockets\":[\"0-1\"]"),
         "sockets"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a\",\"cores\":\"0-1\",\"sockets\":[\"0-1\",\"1\"]"),
         "two sockets"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a\",\"cores\":\"0\",\"properties\":[\"^x\"]"), "^x"},
        {NODE("\"ranks\":\"0\",\"hosts\":\"a\",\"cores\":\"0\"},{\"ranks\":\"0\",\"hosts\":\"b\","
              "\"cores\":\"1\""),
         "nodes[1]: rank 0"},
        {"{\"nodes\":[],\"pools\":[{\"name\":\"a\"}]}", "pools[0]"},
        {"{\"nodes\":[],\"pools\":[{\"name\":\"a\",\"count\":1,\"unit\":\"k\"},"
         "{\"name\":\"a\",\"count\":1,\"unit\":\"m\"}]}",
         "pool a"},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        errmsg_t err = {""};

        ck_assert_msg(!resgraph_parse(tests[i].text, strlen(tests[i].text), &err), "%s",
                      tests[i].text);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_msg(strstr(err.text, tests[i].word) != NULL, "%s: %s", tests[i].text, err.text);
    }
}
END_TEST

START_TEST(reduction)
{
    /* Out of order, as they come up a tree; all the same: one entry. */
    resgraph_t *g = resgraph_create();
    idset_t *gone = idset_create_range(16, 31);
    char text[200];

    for (uint32_t i = 0; i < 64; i++) {
        uint32_t rank = (i * 37) % 64;
        resgraph_t *one;

        snprintf(text, sizeof(text),
                 "{\"nodes\":[{\"ranks\":\"%u\",\"hosts\":\"n%u\",\"cores\":\"0-3\"}],"
                 "\"pools\":[{\"name\":\"lic\",\"count\":2}]}",
                 rank, rank);
        one = parse(text);
        ck_assert_int_eq(resgraph_merge(g, one, NULL), 0);
        resgraph_destroy(one);
    }
    expect(g, "{\"nodes\":[{\"ranks\":\"0-63\",\"hosts\":\"n[0-63]\",\"cores\":\"0-3\"}],"
              "\"pools\":[{\"name\":\"lic\",\"count\":128}],\"emulated\":false}");
    for (uint32_t r = 0; r < 64; r++)
        ck_assert_int_eq(resgraph_find_rank(g, r), r);
    ck_assert_int_eq(resgraph_find_rank(g, 64), -1);
    ck_assert_int_eq(resgraph_remove(g, gone), 0);
    ck_assert_uint_eq(resgraph_nnodes(g), 48);
    ck_assert_int_eq(resgraph_find_rank(g, 16), -1);
    ck_assert_int_eq(resgraph_find_rank(g, 32), 16);
    idset_destroy(gone);
    resgraph_destroy(g);
}
END_TEST

START_TEST(merge_refuses_a_rank_twice)
{
    resgraph_t *a = parse(two_kinds), *b = parse(two_kinds);
    errmsg_t err;

    ck_assert_int_eq(resgraph_merge(a, b, &err), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_str_eq(err.text, "rank 0 already exists");
    resgraph_destroy(a);
    resgraph_destroy(b);
}
END_TEST

START_TEST(looking)
{
    resgraph_t *g = parse(two_kinds);
    struct resgraph_node n;
    struct resgraph_pool p;
    idset_t *ids;
    errmsg_t err;
    strbuf_t *sb;
    char *text;
    rset_t *rs;

    ck_assert_uint_eq(resgraph_nnodes(g), 6);
    ck_assert_uint_eq(resgraph_ncores(g), 128);
    ck_assert_uint_eq(resgraph_ngpus(g), 8);
    ck_assert_uint_eq(idset_count(resgraph_kind_ranks(g, 0)), 4);
    ck_assert_uint_eq(idset_count(resgraph_kind_ranks(g, 1)), 2);
    ck_assert_ptr_null(resgraph_kind_ranks(g, 2));
    ck_assert(resgraph_node(g, 1, &n));
    ck_assert(n.rank == 1 && strcmp(n.host, "node1") == 0 && n.nsockets == 2 && n.memory == 65536);
    ck_assert(resgraph_node(g, 5, &n));
    ck_assert(strcmp(n.host, "fat1") == 0 && n.nsockets == 1 && n.nproperties == 2);
    ck_assert(!resgraph_node(g, 6, &n));
    ck_assert(resgraph_pool(g, 0, &p) && strcmp(p.unit, "kW") == 0 && p.count == 1000);
    ck_assert(!resgraph_pool(g, 1, &p));
    ids = resgraph_ranks_of_hosts(g, "fat0,node[2-3]", &err);
    text = idset_format(ids, 0);
    ck_assert_str_eq(text, "2-4");
    free(text);
    text = resgraph_hosts_of_ranks(g, ids);
    ck_assert_str_eq(text, "node[2-3],fat0");
    free(text);
    rs = resgraph_rset(g, ids);
    ck_assert_uint_eq(rset_ncores(rs), 64);
    ck_assert_uint_eq(rset_npools(rs), 0);
    rset_destroy(rs);
    rs = resgraph_rset(g, NULL);
    ck_assert_uint_eq(rset_ncores(rs), 128);
    ck_assert_uint_eq(rset_pool_count(rs, "power"), 1000);
    rset_destroy(rs);
    idset_destroy(ids);
    ck_assert_ptr_null(resgraph_ranks_of_hosts(g, "node1,nobody", &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(err.text, "there is no node named nobody");
    ck_assert_ptr_null(resgraph_ranks_of_hosts(g, "node[1-1000000]", &err));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_eq(err.text, "there is no node named node4");
    /* Names that are there, but more of them than nodes. */
    sb = strbuf_create(0);
    strbuf_add(sb, "node1");
    for (int i = 0; i < 2000; i++)
        strbuf_add(sb, ",node1");
    ck_assert_ptr_null(resgraph_ranks_of_hosts(g, strbuf_str(sb), &err));
    ck_assert_int_eq(errno, E2BIG);
    strbuf_destroy(sb);
    /* One that has gone is not found any more, and the others still are. */
    ids = idset_create_range(4, 4);
    ck_assert_int_eq(resgraph_remove(g, ids), 0);
    idset_destroy(ids);
    ck_assert_ptr_null(resgraph_ranks_of_hosts(g, "fat0", &err));
    ids = resgraph_ranks_of_hosts(g, "node2,fat1", &err);
    ck_assert_uint_eq(idset_count(ids), 2);
    idset_destroy(ids);
    resgraph_destroy(g);
}
END_TEST

static int count_vertex(const struct resgraph_vertex *v, void *arg)
{
    size_t *counts = arg;

    counts[v->type] += v->type == RESGRAPH_MEMORY ? v->count : 1;
    return 0;
}

START_TEST(walk)
{
    size_t counts[RESGRAPH_POOL + 1] = {0};
    resgraph_t *g = parse(two_kinds);

    ck_assert_int_eq(resgraph_walk(g, count_vertex, counts), 0);
    ck_assert_uint_eq(counts[RESGRAPH_CLUSTER], 1);
    ck_assert_uint_eq(counts[RESGRAPH_NODE], 6);
    ck_assert_uint_eq(counts[RESGRAPH_SOCKET], 4 * 2 + 2);
    ck_assert_uint_eq(counts[RESGRAPH_CORE], 128);
    ck_assert_uint_eq(counts[RESGRAPH_GPU], 8);
    ck_assert_uint_eq(counts[RESGRAPH_MEMORY], 4 * 65536 + 2 * 262144);
    ck_assert_uint_eq(counts[RESGRAPH_POOL], 1);
    resgraph_destroy(g);
}
END_TEST

START_TEST(satisfiable)
{
    static const struct {
        const char *req;
        const char *text; /* NULL: yes */
    } tests[] = {
        {"{}", NULL},
        {"{\"nnodes\":6,\"nslots\":16,\"cores\":1}", NULL},
        {"{\"nnodes\":2,\"nslots\":4,\"cores\":8,\"gpus\":1,\"memory\":65536}", NULL},
        {"{\"nslots\":128,\"cores\":1}", NULL},
        {"{\"nnodes\":4,\"exclusive\":true,\"ranks\":\"0-3\"}", NULL},
        {"{\"nnodes\":4,\"properties\":[\"^gpu\"]}", NULL},
        {"{\"nnodes\":1,\"pools\":[[\"power\",1000]]}", NULL},
        {"{\"nnodes\":7}", "needs 7 nodes; there are 6"},
        {"{\"nnodes\":4,\"nslots\":8,\"cores\":4}",
         "needs 4 nodes with 32 cores each; only 2 of 6 nodes have as many"},
        {"{\"nnodes\":4,\"nslots\":9,\"cores\":4}",
         "needs 4 nodes with 36 cores each; the largest of 6 nodes has 32"},
        {"{\"nnodes\":1,\"cores\":40}",
         "needs 1 node with 40 cores; the largest of 6 nodes has 32"},
        {"{\"nnodes\":3,\"cores\":1,\"gpus\":1}",
         "needs 3 nodes with 1 gpu each; only 2 of 6 nodes have as many"},
        {"{\"nnodes\":1,\"memory\":300000}",
         "needs 1 node with 300000 MiB of memory; the largest of 6 nodes has 262144"},
        {"{\"nnodes\":3,\"properties\":[\"gpu\"]}",
         "needs 3 nodes; there are 2 with these properties"},
        {"{\"nnodes\":3,\"ranks\":\"1,5\"}", "needs 3 nodes; there are 2 of these ranks"},
        {"{\"nnodes\":1,\"ranks\":\"1,7-8\"}",
         "there are no nodes with rank 7 and 1 other ranks that it names"},
        {"{\"nnodes\":1,\"properties\":[\"quiet\"]}", "there is no node with the property 'quiet'"},
        {"{\"nslots\":129,\"cores\":1}",
         "needs 129 slots with 1 core each; all 6 nodes have room for 128 "
         "(--overcommit lets tasks share cores)"},
        {"{\"nslots\":1,\"cores\":33}",
         "needs a slot with 33 cores; the largest of 6 nodes has 32"},
        {"{\"pools\":[[\"power\",1001]]}", "needs 1001 of pool power, which has 1000 kW in all"},
        {"{\"pools\":[[\"lic\",1]]}", "needs 1 of 'lic', but there is no such pool"},
        {"{\"nnodes\":1,\"nslots\":16777216,\"memory\":9007199254740992}",
         "needs 1 node with 18446744073709551615 MiB of memory; the largest of 6 nodes has 262144"},
    };
    resgraph_t *g = parse(two_kinds);

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        json_t *obj = json_loads(tests[i].req, 0, NULL);
        errmsg_t err = {""};
        struct rreq req;

        ck_assert_msg(rreq_from_json(obj, &req, &err) == 0, "%s", err.text);
        if (tests[i].text) {
            ck_assert_msg(resgraph_satisfiable(g, &req, &err) == -1, "%s", tests[i].req);
            ck_assert_str_eq(err.text, tests[i].text);
        } else {
            ck_assert_msg(resgraph_satisfiable(g, &req, &err) == 0, "%s: %s", tests[i].req,
                          err.text);
        }
        rreq_clear(&req);
        json_decref(obj);
    }
    resgraph_destroy(g);
}
END_TEST

/* The most of a range of slots is found, wherever it is. */
START_TEST(slots_of_a_range)
{
    static const struct {
        const char *req;   /* with the most that is wanted */
        uint32_t min, got; /* got 0: not even that */
    } tests[] = {
        {"{\"nslots\":1,\"cores\":1}", 1, 1},
        {"{\"nslots\":127,\"cores\":1}", 1, 127},
        {"{\"nslots\":128,\"cores\":1}", 1, 128},
        {"{\"nslots\":129,\"cores\":1}", 1, 128},
        {"{\"nslots\":16777216,\"cores\":1}", 1, 128},
        {"{\"nslots\":1000,\"cores\":1}", 128, 128},
        {"{\"nslots\":1000,\"cores\":1}", 129, 0},
        {"{\"nslots\":1000,\"cores\":32}", 1, 2},
        {"{\"nslots\":1000,\"cores\":33}", 1, 0},
        {"{\"nnodes\":2,\"nslots\":64,\"cores\":1}", 1, 32},
        {"{\"nnodes\":3,\"nslots\":64,\"cores\":1}", 1, 16},
        {"{\"nnodes\":6,\"nslots\":64,\"cores\":5}", 1, 3},
        {"{\"nnodes\":7,\"nslots\":64,\"cores\":1}", 1, 0},
        {"{\"nslots\":64,\"cores\":1,\"ranks\":\"0\"}", 1, 16},
    };
    resgraph_t *g = parse(two_kinds);

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        json_t *obj = json_loads(tests[i].req, 0, NULL);
        errmsg_t err = {""};
        struct rreq req;
        int rc;

        ck_assert_msg(rreq_from_json(obj, &req, &err) == 0, "%s", err.text);
        rc = resgraph_fit_slots(g, &req, tests[i].min, &err);
        ck_assert_msg(rc == (tests[i].got ? 0 : -1), "%s: %s", tests[i].req, err.text);
        ck_assert_msg(req.nslots == (tests[i].got ? tests[i].got : tests[i].min), "%s: %u",
                      tests[i].req, req.nslots);
        ck_assert((rc < 0) == (err.text[0] != '\0'));
        rreq_clear(&req);
        json_decref(obj);
    }
    resgraph_destroy(g);
}
END_TEST

START_TEST(fits_properties)
{
    resgraph_t *g = parse(two_kinds);
    struct rreq req = {.nslots = 1, .cores = 8, .gpus = 1};
    struct resgraph_node n;

    ck_assert(resgraph_node(g, 4, &n));
    ck_assert_int_eq(rreq_add_property(&req, "bigmem", NULL), 0);
    ck_assert(resgraph_fits_properties(&n, &req));
    ck_assert(resgraph_node(g, 0, &n));
    ck_assert(!resgraph_fits_properties(&n, &req));
    rreq_clear(&req);
    resgraph_destroy(g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, there_and_back);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, reduction);
    tcase_add_test(tc, merge_refuses_a_rank_twice);
    tcase_add_test(tc, looking);
    tcase_add_test(tc, walk);
    tcase_add_test(tc, satisfiable);
    tcase_add_test(tc, fits_properties);
    tcase_add_test(tc, slots_of_a_range);
    return run_case("resgraph", tc);
}
