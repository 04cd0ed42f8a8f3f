/* check_sched_load.c - policies by name, in Lua, and what happens when they fail. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libsched/sched.h"
#include "libsched/sched_load.h"
#include "libutil/test/suite.h"

#define NJOBS 32

struct out {
    uint64_t order[NJOBS];
    uint32_t rank[NJOBS];
    unsigned n;
};

static char dir[] = "/tmp/check_sched_load.XXXXXX";
static char logged[256];

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct out *o = arg;
    struct rset_node rn;

    ck_assert(rset_node(R, 0, &rn));
    o->rank[o->n] = rn.rank;
    o->order[o->n++] = id;
    rset_destroy(R);
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
    ck_abort_msg("job %ju is denied: %s", (uintmax_t)id, note);
}

static void log_cb(const char *text, void *arg)
{
    snprintf(logged, sizeof(logged), "%s", text);
}

static const char *file(const char *name, const char *text)
{
    static char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static sched_t *make(void)
{
    static const char json[] =
        "{\"nodes\":[{\"ranks\":\"0-3\",\"hosts\":\"n[0-3]\",\"cores\":\"0-3\"}]}";
    sched_t *s = sched_create();
    resgraph_t *g = resgraph_parse(json, strlen(json), NULL);
    idset_t *up = resgraph_ranks(g);

    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(sched_inventory(s, g, up, NULL, NULL), 0);
    sched_set_log(s, log_cb, NULL);
    logged[0] = '\0';
    idset_destroy(up);
    resgraph_destroy(g);
    return s;
}

static void add(sched_t *s, uint64_t id, uint32_t cores, uint32_t uid)
{
    struct rreq r = {.nslots = 1, .cores = cores, .duration = 60.};
    struct sched_job job = {id, 16, uid, 0., &r};

    ck_assert_int_eq(sched_add(s, &job, 1000., NULL), 0);
}

static void pass(sched_t *s, double now, struct out *o)
{
    struct sched_ops ops = {alloc_cb, deny_cb, o};

    while (sched_pass(s, now, 1000, &ops))
        ;
}

static sched_loaded_t *load(const char *spec)
{
    errmsg_t err;
    sched_loaded_t *l = sched_load(spec, SCHED_FOR_QUEUE, dir, NULL, &err);

    ck_assert_msg(l != NULL, "%s: %s", spec, err.text);
    return l;
}

static void use(sched_t *s, const sched_loaded_t *l)
{
    const struct sched_policy *p = sched_loaded_policy(l);
    errmsg_t err;

    if (p->queue)
        ck_assert_msg(sched_policy_set_queue(s, p, sched_loaded_arg(l), &err) == 0, "%s", err.text);
    if (p->node)
        ck_assert_msg(sched_policy_set_nodes(s, p, sched_loaded_arg(l), &err) == 0, "%s", err.text);
}

START_TEST(names)
{
    static const char *const builtin[] = {
        "fcfs",     "easy",   "conservative", "replan", "first-fit",
        "best-fit", "spread", "compact",      "buddy",  "interference-free"};
    static const char *const bad[][2] = {
        {"nothing",
         "no policy nothing (built in: fcfs, easy, conservative, replan; policy-nothing.so is "
         "neither in sched.plugin-path nor with the modules)"},
        {"easyy", "no policy easyy; did you mean easy? (built in: fcfs, "},
        {"fcsf:1", "no policy fcsf; did you mean fcfs? ("},
        {"spraed", "no policy spraed (built in: fcfs, "},
        {"/no/such.so", "policy /no/such.so cannot be read: No such file or directory"},
        {"/no/such.lua", "cannot be read"},
        {"/etc/passwd", "policy /etc/passwd cannot be loaded"},
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++) {
        sched_loaded_t *l = load(builtin[i]);
        ck_assert_ptr_null(sched_loaded_arg(l));
        ck_assert_str_eq(sched_loaded_policy(l)->name, builtin[i]);
        sched_load_destroy(l);
    }
    sched_loaded_t *l = load("conservative:17");
    ck_assert_str_eq(sched_loaded_arg(l), "17");
    sched_load_destroy(l);
    file("mine.lua", "policy { backfill = 'none' }");
    l = load("mine");
    ck_assert_str_eq(sched_loaded_policy(l)->name, "mine");
    sched_load_destroy(l);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_ptr_null(sched_load(bad[i][0], SCHED_FOR_QUEUE, NULL, NULL, &err));
        ck_assert_msg(strstr(err.text, bad[i][1]) != NULL, "%s", err.text);
    }
    ck_assert_ptr_null(sched_load("first-fitt", SCHED_FOR_NODES, NULL, NULL, &err));
    ck_assert_str_eq(err.text,
                     "no policy first-fitt; did you mean first-fit? (built in: first-fit, "
                     "best-fit, spread, compact, buddy, interference-free; "
                     "policy-first-fitt.so is neither in sched.plugin-path nor with the "
                     "modules)");
}
END_TEST

START_TEST(lua_bad_files)
{
    static const struct {
        const char *text;
        const char *sentence;
    } tests[] = {
        {"", "it does not call policy"},
        {"policy {", "expected"},
        {"policy {}", "it has no function that decides anything"},
        {"policy { name = 'x' }", "it has no function that decides anything"},
        {"policy 'x'", "policy is called with one table"},
        {"policy { depth = 1 } policy { depth = 2 }", "called twice"},
        {"policy { deep = 1 }", "policy has no field \"deep\""},
        {"policy { 1 }", "policy has no field \"(without a name)\""},
        {"policy { depth = 'x' }", "policy.depth must be a number"},
        {"policy { depth = 0 }", "policy.depth is 1 to 10000"},
        {"policy { depth = 0/0 }", "policy.depth is 1 to 10000"},
        {"policy { backfill = 'all' }", "policy.backfill is \"none\", \"easy\" or"},
        {"policy { priority = 3 }", "policy.priority must be a function"},
        {"while true do end", "it computes for too long"},
        {"local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end", "memory"},
        {"os.exit(1)", "nil value"},
        {"io.write('x')", "nil value"},
        {"require 'os'", "nil value"},
        {"load('x')", "nil value"},
        {"pcall(error)", "nil value"},
        {"table.move({}, 1, 1e15, 2)", "too long"},
        {"setmetatable({}, {})", "nil value"},
        {"policy { score = coroutine.wrap(print) }", "nil value"},
        {"error({})", "an error that is not text"},
        {"\033Lua", "binary"},
    };
    errmsg_t err;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        const char *path = file("bad.lua", tests[i].text);

        ck_assert_ptr_null(sched_load(path, SCHED_FOR_QUEUE, NULL, NULL, &err));
        ck_assert_msg(strstr(err.text, tests[i].sentence) != NULL, "%s: %s", tests[i].text,
                      err.text);
    }
}
END_TEST

START_TEST(lua_decides)
{
    sched_t *s = make();
    struct out o = {0};
    char why[SCHED_REASON_MAX];
    double t;
    sched_loaded_t *l =
        load(file("fair.lua", "local running = {}\n"
                              "policy {\n"
                              "  name = 'fair.x', backfill = 'conservative', depth = 5,\n"
                              "  priority = function(job, now) return -job.ncores end,\n"
                              "  admit = function(job, now)\n"
                              "    return (running[job.uid] or 0) < 2, 'two of yours run' end,\n"
                              "  started = function(job)\n"
                              "    running[job.uid] = (running[job.uid] or 0) + 1 end,\n"
                              "  ended = function(job)\n"
                              "    running[job.uid] = running[job.uid] - 1 end,\n"
                              "  score = function(job, node)\n"
                              "    return node.host == 'n1' and 9 or -node.rank end,\n"
                              "}\n"));

    ck_assert_str_eq(sched_loaded_policy(l)->name, "fair");
    use(s, l);
    add(s, 1, 4, 7);
    add(s, 2, 3, 7);
    add(s, 3, 1, 7);
    add(s, 4, 2, 8);
    pass(s, 1000., &o);
    ck_assert_uint_eq(o.n, 3);
    ck_assert_uint_eq(o.order[0], 3);
    ck_assert_uint_eq(o.order[1], 4);
    ck_assert_uint_eq(o.order[2], 2);
    ck_assert_uint_eq(o.rank[0], 3);
    ck_assert_uint_eq(o.rank[1], 3);
    ck_assert_uint_eq(o.rank[2], 2);
    ck_assert_int_eq(sched_why_estimate(s, 1, 1000., 0, &t, why), 0);
    ck_assert_str_eq(why, "is kept back by the policy fair: two of yours run");
    ck_assert_int_eq(sched_free(s, 2, 1001.), 0);
    pass(s, 1001., &o);
    ck_assert_uint_eq(o.n, 4);
    ck_assert_str_eq(logged, "");
    /* A policy that comes later hears what runs already. */
    use(s, l);
    add(s, 5, 1, 7);
    add(s, 6, 1, 8);
    pass(s, 1002., &o);
    ck_assert_uint_eq(o.n, 5);
    ck_assert_uint_eq(o.order[4], 6);
    sched_destroy(s);
    sched_load_destroy(l);
}
END_TEST

/* Whatever a function does wrong, jobs are started as if it were not there, and that is said. */
START_TEST(lua_fails)
{
    static const struct {
        const char *text;
        const char *sentence;
    } tests[] = {
        {"policy { priority = function() error('x') end }", "gave no priority for job 1"},
        {"policy { priority = function() return 'x' end }", "gave no priority for job 1"},
        {"policy { priority = function() return 0/0 end }", "gave no priority for job 1"},
        {"policy { priority = function() end }", "gave no priority for job 1"},
        {"policy { priority = function() while true do end end }", "gave no priority for job 1"},
        {"policy { priority = function() return ('x'):rep(1e9) end }",
         "gave no priority for job 1"},
        {"policy { admit = function() error({}) end }", "could not say whether job 1 may start"},
        {"policy { admit = function() return 1 end }", "could not say whether job 1 may start"},
        {"policy { score = function(job, node) return node.nothing + 1 end }",
         "could not score node 0 for job 1"},
        {"policy { score = function(job, node) return {} end }",
         "could not score node 0 for job 1"},
        {"policy { backfill = 'easy', started = function() error('x') end }", ""},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        sched_t *s = make();
        sched_loaded_t *l = load(file("fails.lua", tests[i].text));
        struct sched_stats st;
        struct out o = {0};

        use(s, l);
        add(s, 1, 1, 0);
        add(s, 2, 1, 0);
        pass(s, 1000., &o);
        ck_assert_msg(o.n == 2 && o.order[0] == 1 && o.rank[0] == 0, "%s", tests[i].text);
        ck_assert_msg(strstr(logged, tests[i].sentence) != NULL, "%s: %s", tests[i].text, logged);
        sched_get_stats(s, &st);
        ck_assert_uint_eq(st.fallbacks, tests[i].sentence[0] != '\0');
        sched_destroy(s);
        sched_load_destroy(l);
    }
}
END_TEST

/* Priorities that change with time are asked for again. */
START_TEST(lua_reorders)
{
    sched_t *s = make();
    struct out o = {0};
    sched_loaded_t *l = load(file("ages.lua", "policy { backfill = 'none', reorder = 10,\n"
                                              "  priority = function(job, now)\n"
                                              "    return now < 1015 and -job.id or job.id end }"));

    use(s, l);
    for (uint64_t id = 1; id <= 6; id++)
        add(s, id, 4, 0);
    pass(s, 1000., &o);
    ck_assert_uint_eq(o.n, 4);
    ck_assert_uint_eq(o.order[0], 1);
    ck_assert_uint_eq(sched_queue_at(s, 0), 5);
    ck_assert(sched_pass_next_time(s) > 0.);
    pass(s, 1012., &o);
    ck_assert_uint_eq(sched_queue_at(s, 0), 5);
    pass(s, 1023., &o);
    ck_assert_uint_eq(sched_queue_at(s, 0), 6);
    ck_assert_uint_eq(sched_queue_at(s, 1), 5);
    ck_assert_uint_eq(sched_queue_at(s, 2), 0);
    sched_destroy(s);
    sched_load_destroy(l);
}
END_TEST

static int bad_create_policy(const char *arg)
{
    errmsg_t err;
    sched_t *s = make();
    const struct sched_policy old = {SCHED_PLUGIN_ABI + 1, "old", sched_builtin("easy")->queue,
                                     NULL};
    int rc = sched_policy_set_queue(s, &old, arg, &err);

    ck_assert_str_eq(err.text, "policy old was built for version 3 of the interface, not 2");
    ck_assert_str_eq(sched_policy_queue_name(s), "easy");
    sched_destroy(s);
    return rc;
}

START_TEST(versions)
{
    ck_assert_int_eq(bad_create_policy(NULL), -1);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("policies");
    char cmd[160];
    int failed;

    if (!mkdtemp(dir))
        return 1;
    tcase_add_test(tc, names);
    tcase_add_test(tc, lua_bad_files);
    tcase_add_test(tc, lua_decides);
    tcase_add_test(tc, lua_fails);
    tcase_add_test(tc, lua_reorders);
    tcase_add_test(tc, versions);
    failed = run_case("sched_load", tc);
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    return system(cmd) != 0 || failed ? 1 : 0;
}
