/* check_sched_basic.c - what the scheduler decides in small cases that can be followed by hand. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsched/sched.h"
#include "libutil/test/suite.h"

#define NJOBS 64

/* What has come out: R as text by id. */
struct out {
    char *R[NJOBS];
    bool denied[NJOBS];
    char note[256];
    unsigned order[NJOBS];
    unsigned n;
};

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct out *o = arg;

    ck_assert_uint_lt(id, NJOBS);
    ck_assert_ptr_null(o->R[id]);
    rset_set_times(R, 0., 0.);
    o->R[id] = rset_format(R);
    o->order[o->n++] = (unsigned)id;
    rset_destroy(R);
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
    struct out *o = arg;

    o->denied[id] = true;
    snprintf(o->note, sizeof(o->note), "%s", note);
}

static void out_clear(struct out *o)
{
    for (size_t i = 0; i < NJOBS; i++)
        free(o->R[i]);
    memset(o, 0, sizeof(*o));
}

static void pass(sched_t *s, double now, struct out *o)
{
    struct sched_ops ops = {alloc_cb, deny_cb, o};

    while (sched_pass(s, now, 1000, &ops))
        ;
}

static resgraph_t *graph(const char *json)
{
    errmsg_t err;
    resgraph_t *g = resgraph_parse(json, strlen(json), &err);

    ck_assert_msg(g != NULL, "%s", err.text);
    return g;
}

static sched_t *make(const char *queue, const char *arg, const char *node, const char *json)
{
    sched_t *s = sched_create();
    resgraph_t *g = graph(json);
    idset_t *up = resgraph_ranks(g);
    errmsg_t err;

    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin(queue), arg, &err), 0);
    ck_assert_int_eq(sched_policy_set_nodes(s, sched_builtin(node), NULL, &err), 0);
    ck_assert_int_eq(sched_inventory(s, g, up, NULL, &err), 0);
    idset_destroy(up);
    resgraph_destroy(g);
    return s;
}

static void add(sched_t *s, uint64_t id, uint32_t urgency, const char *req)
{
    struct rreq r;
    errmsg_t err;
    json_t *obj = json_loads(req, 0, NULL);
    struct sched_job job = {id, urgency, 0, 0., &r};

    ck_assert_ptr_nonnull(obj);
    ck_assert_msg(rreq_from_json(obj, &r, &err) == 0, "%s", err.text);
    ck_assert_msg(sched_add(s, &job, 1000., &err) == 0, "%s", err.text);
    rreq_clear(&r);
    json_decref(obj);
}

/* Does the job have this? (text of ranks and cores: "0-1:0-3") */
static void has(const struct out *o, uint64_t id, const char *ranks, const char *cores)
{
    char want[128];

    ck_assert_msg(o->R[id] != NULL, "job %ju has nothing", (uintmax_t)id);
    snprintf(want, sizeof(want), "\"rank\":\"%s\",\"children\":{\"core\":\"%s\"", ranks, cores);
    ck_assert_msg(strstr(o->R[id], want) != NULL, "job %ju has %s", (uintmax_t)id, o->R[id]);
}

static void why(sched_t *s, uint64_t id, double now, double when, const char *text)
{
    char got[SCHED_REASON_MAX];
    double t;

    ck_assert_int_eq(sched_why_estimate(s, id, now, 0, &t, got), 0);
    ck_assert_str_eq(got, text);
    ck_assert_msg(fabs(t - when) < 1e-3, "%f", t);
}

#define FOUR "{\"nodes\":[{\"ranks\":\"0-3\",\"hosts\":\"n[0-3]\",\"cores\":\"0-3\"}]}"

START_TEST(node_policies)
{
    static const struct {
        const char *node;
        const char *ranks[3];
    } tests[] = {
        {"first-fit", {"0", "0", "0"}},
        {"best-fit", {"0", "0", "0"}},
        {"spread", {"0", "1", "2"}},
    };

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        sched_t *s = make("easy", NULL, tests[i].node, FOUR);
        struct out o = {0};

        for (unsigned id = 1; id <= 3; id++)
            add(s, id, 16, "{\"nnodes\":1,\"cores\":1}");
        pass(s, 1000., &o);
        for (unsigned id = 1; id <= 3; id++) {
            char core[2] = {tests[i].ranks[2][0] == '2' ? '0' : (char)('0' + id - 1)};
            has(&o, id, tests[i].ranks[id - 1], core);
        }
        out_clear(&o);
        sched_destroy(s);
    }
}
END_TEST

/* A job without cores leaves its nodes to one for all of their cores, but not to one for whole
 * nodes. */
START_TEST(all_cores)
{
    sched_t *s = make("easy", NULL, "first-fit",
                      "{\"nodes\":[{\"ranks\":\"0-1\",\"hosts\":\"n[0-1]\",\"cores\":\"0-3\","
                      "\"gpus\":\"0\"}]}");
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":2,\"cores\":0,\"gpus\":1}");
    pass(s, 1000., &o);
    ck_assert_ptr_nonnull(o.R[1]);
    add(s, 2, 16, "{\"nnodes\":2,\"exclusive\":true}");
    pass(s, 1001., &o);
    ck_assert_ptr_null(o.R[2]);
    ck_assert_int_eq(sched_remove(s, 2), 0);
    add(s, 3, 16, "{\"nnodes\":2,\"cores\":4}");
    pass(s, 1002., &o);
    has(&o, 3, "0-1", "0-3");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* --- a policy that selects what it must not --- */

/* Its argument says how: nodes and idle nodes that it wants, as bits, or nothing for an error. */
static void *wrong_create(const char *arg, char *err, size_t size)
{
    return strdup(arg);
}

static int wrong_select(void *state, const struct sched_plugin_job *job,
                        const struct sched_plugin_view *view, double at,
                        struct sched_plugin_set *set)
{
    unsigned nodes, idle;

    if (sscanf(state, "%u,%u", &nodes, &idle) != 2)
        return -1;
    set->nodes[0] = nodes;
    set->idle[0] = idle;
    return 1;
}

START_TEST(select_is_checked)
{
    static const struct sched_node_policy node = {.create = wrong_create,
                                                  .destroy = free,
                                                  .order = SCHED_NODES_BY_SELECT,
                                                  .select = wrong_select};
    static const struct sched_policy wrong = {SCHED_PLUGIN_ABI, "wrong", NULL, &node};
    /* Node 0 is taken, and two are wanted. */
    static const char *const answers[] = {"3,0", "2,0", "0,0", "6,1", "48,0", "6,16", ""};
    static const char *const jobs[] = {"{\"nnodes\":2,\"exclusive\":true}",
                                       "{\"nnodes\":2,\"cores\":1}"};
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    struct sched_stats st;
    struct out o = {0};
    errmsg_t err;

    ck_assert_int_eq(sched_policy_set_nodes(s, &wrong, "10,0", &err), 0);
    add(s, 1, 16, jobs[0]);
    pass(s, 1000., &o);
    ck_assert_ptr_nonnull(strstr(o.R[1], "\"rank\":\"1,3\""));
    out_clear(&o);
    sched_destroy(s);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        for (size_t k = 0; k < 2; k++) {
            s = make("easy", NULL, "first-fit", FOUR);
            add(s, 1, 16, "{\"nnodes\":1,\"exclusive\":true}");
            pass(s, 1000., &o);
            ck_assert_int_eq(sched_policy_set_nodes(s, &wrong, answers[i], &err), 0);
            add(s, 2, 16, jobs[k]);
            pass(s, 1001., &o);
            has(&o, 2, "1-2", k == 0 ? "0-3" : "0");
            sched_get_stats(s, &st);
            ck_assert_uint_eq(st.fallbacks, 1);
            out_clear(&o);
            sched_destroy(s);
        }
    }
}
END_TEST

/* Refuses job 2, and fails for job 3. */
static int picky_select(void *state, const struct sched_plugin_job *job,
                        const struct sched_plugin_view *view, double at,
                        struct sched_plugin_set *set)
{
    return job->id == 2 ? 0 : -1;
}

/* What a policy has refused is considered again when the policy has failed. */
START_TEST(select_fails_later)
{
    static const struct sched_node_policy node = {.create = wrong_create,
                                                  .destroy = free,
                                                  .order = SCHED_NODES_BY_SELECT,
                                                  .select = picky_select};
    static const struct sched_policy picky = {SCHED_PLUGIN_ABI, "picky", NULL, &node};
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    struct out o = {0};
    errmsg_t err;

    ck_assert_int_eq(sched_policy_set_nodes(s, &picky, "", &err), 0);
    add(s, 2, 16, "{\"nnodes\":2,\"cores\":1}");
    pass(s, 1000., &o);
    ck_assert_ptr_null(o.R[2]);
    add(s, 3, 16, "{\"nnodes\":1,\"cores\":2}");
    pass(s, 1001., &o);
    pass(s, 1001., &o);
    ck_assert_ptr_nonnull(o.R[2]);
    ck_assert_ptr_nonnull(o.R[3]);
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* --- out of memory --- */

static unsigned fail_at; /* this call of calloc() from now on fails; 0: none */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    if (fail_at > 0 && --fail_at == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(n, size);
}

/* Without memory for its tables, a node policy is not used, and the old one stays. */
START_TEST(no_memory_for_policy)
{
    sched_t *s = make("easy", NULL, "best-fit", FOUR);
    struct out o = {0};
    unsigned failed;
    errmsg_t err;

    for (failed = 0; sched_policy_nodes_name(s)[0] != 'c'; failed++) {
        fail_at = failed + 1;
        int rc = sched_policy_set_nodes(s, sched_builtin("compact"), NULL, &err);
        fail_at = 0;
        if (rc == 0)
            break;
        ck_assert_int_eq(errno, ENOMEM);
        ck_assert_str_eq(sched_policy_nodes_name(s), "best-fit");
    }
    ck_assert_uint_gt(failed, 0);
    ck_assert_str_eq(sched_policy_nodes_name(s), "compact");
    add(s, 1, 16, "{\"nnodes\":2,\"cores\":1}");
    pass(s, 1000., &o);
    has(&o, 1, "0-1", "0");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* Best-fit fills the hole that is just large enough. */
START_TEST(best_fit_holes)
{
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    struct out o = {0};
    errmsg_t err;

    add(s, 1, 16, "{\"nnodes\":1,\"cores\":1,\"ranks\":\"0\"}");
    add(s, 2, 16, "{\"nnodes\":1,\"cores\":3,\"ranks\":\"2\"}");
    pass(s, 1000., &o);
    ck_assert_int_eq(sched_policy_set_nodes(s, sched_builtin("best-fit"), NULL, &err), 0);
    add(s, 3, 16, "{\"nnodes\":1,\"cores\":1}");
    add(s, 4, 16, "{\"nnodes\":1,\"cores\":2}");
    add(s, 5, 16, "{\"nnodes\":2,\"exclusive\":true}");
    add(s, 6, 16, "{\"nslots\":1,\"cores\":1}");
    pass(s, 1000., &o);
    has(&o, 3, "2", "3");
    has(&o, 4, "0", "1-2");
    has(&o, 5, "1,3", "0-3");
    has(&o, 6, "0", "3");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

START_TEST(fcfs)
{
    sched_t *s = make("fcfs", NULL, "first-fit", FOUR);
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":2,\"exclusive\":true,\"duration\":100}");
    add(s, 2, 16, "{\"nnodes\":3,\"exclusive\":true,\"duration\":100}");
    add(s, 3, 16, "{\"nslots\":1,\"cores\":1,\"duration\":1}");
    add(s, 4, 31, "{\"nslots\":1,\"cores\":1,\"duration\":500}");
    pass(s, 1000., &o);
    ck_assert_uint_eq(o.n, 2);
    ck_assert_uint_eq(o.order[0], 4);
    has(&o, 4, "0", "0");
    has(&o, 1, "1-2", "0-3");
    why(s, 2, 1000., 1100.,
        "waits for 3 whole nodes: 1 is free; job 1 holds the rest until 00:18:20");
    why(s, 3, 1000., 1100., "waits behind job 2: nobody passes it (fcfs); 1 job is before it");
    ck_assert_int_eq(sched_free(s, 1, 1050.), 0);
    pass(s, 1050., &o);
    has(&o, 2, "1-3", "0-3");
    has(&o, 3, "0", "1");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* The resources go at 2000. */
START_TEST(expiration)
{
    sched_t *s = make("fcfs", NULL, "first-fit", FOUR);
    struct out o = {0};
    double late;

    ck_assert_int_eq(sched_set_expiration(s, -1.), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(sched_set_expiration(s, (double)INFINITY), -1);
    ck_assert_int_eq(sched_set_expiration(s, (double)NAN), -1);
    ck_assert(sched_expiration(s) == 0.);
    ck_assert_int_eq(sched_set_expiration(s, 2000.), 0);
    ck_assert(sched_expiration(s) == 2000.);
    add(s, 1, 16, "{\"nnodes\":4,\"exclusive\":true,\"duration\":1001}");
    add(s, 2, 16, "{\"nnodes\":2,\"exclusive\":true,\"duration\":1000}");
    add(s, 3, 16, "{\"nnodes\":3,\"exclusive\":true,\"duration\":700}");
    add(s, 4, 16, "{\"nnodes\":1,\"exclusive\":true}");
    pass(s, 1000., &o);
    ck_assert_uint_eq(o.n, 1);
    has(&o, 2, "0-1", "0-3");
    why(s, 1, 1000., -1.,
        "can never run: its time limit would end at 00:33:21 at the earliest, and the resources go "
        "at 00:33:20");
    why(s, 3, 1000., -1.,
        "waits for 3 whole nodes: 2 are free; as it looks, its time limit would end after "
        "00:33:20, "
        "when the resources go; 1 job is before it");
    why(s, 4, 1000., 1300., "waits behind job 3: nobody passes it (fcfs); 2 jobs are before it");
    /* Until it is too late for it. */
    late = sched_pass_next_time(s);
    ck_assert(fabs(late - 1300.) < 1e-3);
    /* While no jobs are started, there is no time for which to wait. */
    sched_enable(s, false);
    pass(s, late, &o);
    ck_assert(sched_pass_next_time(s) < 0.);
    sched_enable(s, true);
    pass(s, late, &o);
    ck_assert_uint_eq(o.n, 2);
    has(&o, 4, "2", "0-3");
    /* They stay longer. */
    ck_assert_int_eq(sched_set_expiration(s, 5000.), 0);
    why(s, 3, 1400., 3999., "waits for 3 whole nodes: 1 is free; 1 job is before it");
    ck_assert_int_eq(sched_free(s, 4, 1400.), 0);
    pass(s, 1400., &o);
    why(s, 1, 1402., 2000.,
        "waits for 4 whole nodes: 2 are free; job 2 holds the rest until 00:33:20");
    ck_assert_int_eq(sched_free(s, 2, 1500.), 0);
    pass(s, 1500., &o);
    has(&o, 1, "0-3", "0-3");
    ck_assert_int_eq(sched_free(s, 1, 1600.), 0);
    /* They are gone already: who has no limit starts. */
    ck_assert_int_eq(sched_set_expiration(s, 1590.), 0);
    add(s, 5, 16, "{\"nslots\":1,\"cores\":1}");
    pass(s, 1600., &o);
    has(&o, 5, "0", "0");
    ck_assert_ptr_null(o.R[3]);
    /* Behind one that seems to come too late the next gets the reservation. */
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin("easy"), NULL, NULL), 0);
    ck_assert_int_eq(sched_set_expiration(s, 2000.), 0);
    ck_assert_int_eq(sched_free(s, 5, 1600.), 0);
    ck_assert_int_eq(sched_remove(s, 3), 0);
    add(s, 6, 16, "{\"nnodes\":3,\"exclusive\":true,\"duration\":100}");
    add(s, 7, 16, "{\"nnodes\":2,\"exclusive\":true,\"duration\":350}");
    add(s, 8, 16, "{\"nnodes\":4,\"exclusive\":true,\"duration\":200}");
    add(s, 9, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":201}");
    add(s, 10, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":100}");
    pass(s, 1600., &o);
    has(&o, 6, "0-2", "0-3");
    has(&o, 10, "3", "0-3");
    ck_assert_ptr_null(o.R[9]);
    why(s, 8, 1600., 1700.,
        "waits for 4 whole nodes: 0 are free; job 6 holds the rest until 00:28:20; 1 job is before "
        "it");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

START_TEST(easy)
{
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":2,\"exclusive\":true,\"duration\":100}");
    add(s, 2, 16, "{\"nnodes\":3,\"exclusive\":true,\"duration\":100}");
    add(s, 3, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":101}"); /* on the node to spare */
    add(s, 4, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":101}"); /* would delay 2 */
    add(s, 5, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":100}"); /* ends in time */
    add(s, 6, 16, "{\"nnodes\":1,\"exclusive\":true}");                  /* has no limit */
    pass(s, 1000., &o);
    has(&o, 1, "0-1", "0-3");
    ck_assert_ptr_null(o.R[2]);
    ck_assert_ptr_nonnull(o.R[3]);
    ck_assert_ptr_null(o.R[4]);
    ck_assert_ptr_nonnull(o.R[5]);
    ck_assert_ptr_null(o.R[6]);
    why(s, 2, 1000., 1100.,
        "waits for 3 whole nodes: 0 are free; job 1 holds the rest until 00:18:20");
    ck_assert_int_eq(sched_free(s, 5, 1010.), 0);
    pass(s, 1010., &o);
    ck_assert_ptr_null(o.R[4]);
    why(s, 4, 1010., 1101.,
        "would delay job 2, which is to start at 00:18:20 on any 3 nodes; 1 job is before it");
    ck_assert_int_eq(sched_free(s, 1, 1020.), 0);
    pass(s, 1020., &o);
    ck_assert_ptr_nonnull(o.R[2]);
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* A job for one core waits, so that sched_pass.c decides.  The reservation of job 5 is a number of
 * nodes all the same: job 6 may have one that was reserved, since another will be free by then. */
START_TEST(easy_counts)
{
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    struct out o = {0};

    for (uint64_t id = 1; id <= 2; id++)
        add(s, id, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":100}");
    for (uint64_t id = 3; id <= 4; id++)
        add(s, id, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":50}");
    add(s, 5, 16, "{\"nnodes\":3,\"exclusive\":true,\"duration\":100}");
    add(s, 6, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":1000}");
    add(s, 7, 16, "{\"nslots\":1,\"cores\":1,\"duration\":1000}");
    add(s, 8, 16, "{\"nslots\":1,\"cores\":1,\"duration\":50}");
    pass(s, 1000., &o);
    ck_assert_uint_eq(o.n, 4);
    ck_assert_int_eq(sched_free(s, 3, 1020.), 0);
    pass(s, 1020., &o);
    has(&o, 6, "2", "0-3");
    ck_assert_int_eq(sched_free(s, 4, 1030.), 0);
    pass(s, 1030., &o);
    ck_assert_ptr_null(o.R[7]);
    has(&o, 8, "3", "0");
    why(s, 7, 1030., 1200.,
        "would delay job 5, which is to start at 00:18:20 on any 3 nodes; 1 job is before it");
    ck_assert_int_eq(sched_free(s, 8, 1080.), 0);
    pass(s, 1080., &o);
    ck_assert_ptr_null(o.R[7]);
    ck_assert_int_eq(sched_free(s, 1, 1100.), 0);
    ck_assert_int_eq(sched_free(s, 2, 1100.), 0);
    pass(s, 1100., &o);
    has(&o, 5, "0-1,3", "0-3");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* Jobs that start at once use up none of the reservations. */
START_TEST(limited_reservations)
{
    static const char *const queue[] = {"conservative", "replan"};

    for (size_t i = 0; i < 2; i++) {
        sched_t *s = make(queue[i], "1", "first-fit", FOUR);
        struct out o = {0};

        for (uint64_t id = 1; id <= 3; id++)
            add(s, id, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":100}");
        pass(s, 1000., &o);
        ck_assert_uint_eq(o.n, 3);
        /* Job 5 would delay job 4, and job 6 has no reservation, but does not delay it. */
        add(s, 4, 16, "{\"nnodes\":4,\"exclusive\":true,\"duration\":100}");
        add(s, 5, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":200}");
        add(s, 6, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":90}");
        pass(s, 1000., &o);
        ck_assert_ptr_null(o.R[5]);
        has(&o, 6, "3", "0-3");
        out_clear(&o);
        sched_destroy(s);
    }
}
END_TEST

/* The third job fits beside the second, but not beside its own predecessor's reservation. */
START_TEST(conservative)
{
    sched_t *s = make("conservative", NULL, "first-fit", FOUR);
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":3,\"exclusive\":true,\"duration\":100}");
    add(s, 2, 16, "{\"nnodes\":2,\"exclusive\":true,\"duration\":100}");
    add(s, 3, 16, "{\"nnodes\":4,\"exclusive\":true,\"duration\":100}");
    add(s, 4, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":200}");
    add(s, 5, 16, "{\"nnodes\":1,\"exclusive\":true,\"duration\":250}");
    pass(s, 1000., &o);
    ck_assert_uint_eq(o.n, 2);
    has(&o, 1, "0-2", "0-3");
    has(&o, 4, "3", "0-3");
    why(s, 2, 1000., 1100.,
        "waits for 2 whole nodes: 0 are free; job 1 holds the rest until 00:18:20");
    why(s, 3, 1000., 1200.,
        "waits for 4 whole nodes: 0 are free; job 4 holds the rest until 00:20:00; 1 job is before "
        "it");
    why(s, 5, 1000., 1300., "waits for 1 whole node: 0 are free; 2 jobs are before it");
    ck_assert_int_eq(sched_free(s, 4, 1050.), 0);
    pass(s, 1050., &o);
    ck_assert_ptr_null(o.R[5]);
    why(s, 3, 1050., 1200., "waits for 4 whole nodes: 1 is free; 1 job is before it");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* The job that holds all nodes ends while a job for parts of nodes waits, so that nobody counts
 * whole nodes.  When they are counted again, what had been reserved for after that job is due. */
START_TEST(conservative_anew)
{
    sched_t *s = make("conservative", NULL, "first-fit", FOUR);
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":4,\"exclusive\":true}");
    add(s, 2, 16, "{\"nnodes\":4,\"exclusive\":true,\"duration\":100}");
    pass(s, 1000., &o);
    has(&o, 1, "0-3", "0-3");
    add(s, 3, 16, "{\"nslots\":1,\"cores\":1}");
    ck_assert_int_eq(sched_free(s, 1, 1010.), 0);
    ck_assert_int_eq(sched_remove(s, 3), 0);
    pass(s, 1010., &o);
    has(&o, 2, "0-3", "0-3");
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

START_TEST(never)
{
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    idset_t *up = idset_parse("0-2", NULL);
    idset_t *drained = idset_parse("1", NULL);
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":5}");
    add(s, 2, 16, "{\"nnodes\":1,\"cores\":64}");
    add(s, 3, 16, "{\"nslots\":17,\"cores\":1}");
    add(s, 4, 16, "{\"nslots\":1,\"cores\":1,\"pools\":[[\"power\",1]]}");
    pass(s, 1000., &o);
    for (unsigned id = 1; id <= 4; id++)
        ck_assert(o.denied[id]);
    ck_assert_int_eq(sched_nodes(s, up, drained, NULL), 0);
    add(s, 5, 16, "{\"nnodes\":3}");
    add(s, 6, 16, "{\"nnodes\":2}");
    add(s, 7, 0, "{\"nnodes\":1}");
    pass(s, 1000., &o);
    ck_assert(!o.denied[5]);
    ck_assert_ptr_null(o.R[5]);
    has(&o, 6, "0,2", "0");
    why(s, 5, 1000., -1.,
        "waits for 3 nodes with 1 core each: only 2 such nodes are up; rank 3 is down; "
        "rank 1 is drained");
    why(s, 7, 1000., -1., "is held");
    ck_assert_int_eq(sched_urgency(s, 7, 16, 1000.), 0);
    pass(s, 1000., &o);
    has(&o, 7, "0", "1");
    sched_enable(s, false);
    add(s, 8, 16, "{\"nnodes\":1}");
    pass(s, 1000., &o);
    why(s, 8, 1000., -1., "waits: no jobs are started at present");
    ck_assert_int_eq(sched_remove(s, 8), 0);
    ck_assert_int_eq(sched_remove(s, 8), -1);
    ck_assert_int_eq(errno, ENOENT);
    out_clear(&o);
    idset_destroy(up);
    idset_destroy(drained);
    sched_destroy(s);
}
END_TEST

START_TEST(kinds_of_resources)
{
    sched_t *s = make("easy", NULL, "first-fit",
                      "{\"nodes\":[{\"ranks\":\"0-1\",\"hosts\":\"a[0-1]\",\"cores\":\"0-7\","
                      "\"memory\":1000},{\"ranks\":\"2-3\",\"hosts\":\"g[0-1]\",\"cores\":\"8-15\","
                      "\"gpus\":\"0-3\",\"memory\":4000,\"properties\":[\"gpu\"]}],"
                      "\"pools\":[{\"name\":\"power\",\"count\":100}]}");
    struct out o = {0};
    errmsg_t err;

    add(s, 1, 16, "{\"nnodes\":1,\"cores\":1,\"gpus\":3}");
    add(s, 2, 16, "{\"nslots\":3,\"gpus\":1}");
    add(s, 3, 16, "{\"nnodes\":1,\"cores\":1,\"memory\":2000}");
    add(s, 4, 16, "{\"nnodes\":1,\"cores\":1,\"properties\":[\"^gpu\"]}");
    add(s, 5, 16, "{\"nslots\":1,\"cores\":1,\"ranks\":\"3\"}");
    add(s, 6, 16, "{\"nslots\":1,\"cores\":1,\"pools\":[[\"power\",60]],\"duration\":50}");
    add(s, 7, 16, "{\"nslots\":1,\"cores\":1,\"pools\":[[\"power\",60]],\"duration\":50}");
    add(s, 8, 16, "{\"nslots\":1,\"cores\":1,\"pools\":[[\"power\",40]],\"duration\":50}");
    add(s, 9, 16, "{\"nslots\":1,\"cores\":1,\"pools\":[[\"power\",40]],\"duration\":500}");
    pass(s, 1000., &o);
    has(&o, 1, "2", "8\",\"gpu\":\"0-2");
    ck_assert_ptr_nonnull(strstr(o.R[2], "\"gpu\":\"3\""));
    ck_assert_ptr_nonnull(strstr(o.R[2], "\"gpu\":\"0-1\""));
    ck_assert_ptr_nonnull(strstr(o.R[3], "2000"));
    has(&o, 3, "2", "9");
    has(&o, 4, "0", "0");
    has(&o, 5, "3", "8");
    ck_assert_ptr_nonnull(strstr(o.R[6], "\"power\":60"));
    ck_assert_ptr_null(o.R[7]);
    ck_assert_ptr_nonnull(o.R[8]);
    ck_assert_ptr_null(o.R[9]);
    why(s, 7, 1000., 1050.,
        "waits for 60 of power: 0 are free; job 6 holds the rest until 00:17:30");
    ck_assert_int_eq(sched_free(s, 6, 1050.), 0);
    ck_assert_int_eq(sched_free(s, 8, 1050.), 0);
    pass(s, 1050., &o);
    ck_assert_ptr_nonnull(o.R[7]);
    ck_assert_ptr_nonnull(o.R[9]);
    rset_t *all = sched_allocated(s);
    rset_t *rest = sched_available(s);
    ck_assert_uint_eq(rset_ncores(all) + rset_ncores(rest), 32);
    ck_assert_int_eq(rset_add(rest, all), 0); /* no core is in both */
    ck_assert_uint_eq(rset_ncores(rest), 32);
    ck_assert_uint_eq(rset_pool_count(all, "power"), 100);
    rset_destroy(all);
    rset_destroy(rest);
    ck_assert_int_eq(sched_free(s, 99, 1050.), -1);
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin("spread"), NULL, &err), -1);
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin("fcfs"), "x", &err), -1);
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin("conservative"), "0", &err), -1);
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin("conservative"), "7", &err), 0);
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* What is held now and what is reserved for later are not added up: they are not there at once. */
START_TEST(quantities_over_time)
{
    sched_t *s =
        make("easy", NULL, "first-fit",
             "{\"nodes\":[{\"ranks\":\"0\",\"hosts\":\"a\",\"cores\":\"0-7\",\"memory\":100}],"
             "\"pools\":[{\"name\":\"power\",\"count\":10}]}");
    struct out o = {0};

    add(s, 1, 16, "{\"nnodes\":1,\"memory\":70,\"duration\":60}");
    add(s, 2, 16, "{\"nnodes\":1,\"memory\":40,\"duration\":60}");
    add(s, 3, 16, "{\"nnodes\":1,\"memory\":30,\"duration\":90}");
    pass(s, 1000., &o);
    ck_assert_ptr_null(o.R[2]);
    ck_assert_ptr_nonnull(o.R[3]);
    why(s, 2, 1000., 1060.,
        "waits for 1 node with 1 core, 40 MiB: 0 are free; job 1 holds the rest until 00:17:40");
    for (unsigned id = 1; id <= 3; id++)
        ck_assert_int_eq(id == 2 ? sched_remove(s, id) : sched_free(s, id, 1000.), 0);
    add(s, 4, 16, "{\"nnodes\":1,\"pools\":[[\"power\",7]],\"duration\":60}");
    add(s, 5, 16, "{\"nnodes\":1,\"pools\":[[\"power\",4]],\"duration\":60}");
    add(s, 6, 16, "{\"nnodes\":1,\"pools\":[[\"power\",3]],\"duration\":90}");
    pass(s, 1000., &o);
    ck_assert_ptr_null(o.R[5]);
    ck_assert_ptr_nonnull(o.R[6]);
    out_clear(&o);
    sched_destroy(s);
}
END_TEST

/* Jobs that run already; another inventory under them. */
START_TEST(told_to_run)
{
    sched_t *s = make("easy", NULL, "first-fit", FOUR);
    resgraph_t *g =
        graph("{\"nodes\":[{\"ranks\":\"0-1\",\"hosts\":\"n[0-1]\",\"cores\":\"0-3\"}]}");
    const char *text = "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"1-2\",\"children\":"
                       "{\"core\":\"0-1\"}}],\"nodelist\":[\"n[1-2]\"],\"starttime\":0,"
                       "\"expiration\":0}}";
    errmsg_t err;
    rset_t *R = rset_parse(text, strlen(text), &err);
    idset_t *up = idset_parse("0-3", NULL);
    struct out o = {0};
    struct sched_stats st;

    ck_assert_msg(R != NULL, "%s", err.text);
    ck_assert_int_eq(sched_running(s, 1, R, 1100., 1000., &err), 0);
    ck_assert_int_eq(sched_running(s, 2, R, 0., 1000., &err), -1);
    ck_assert_str_eq(err.text, "job 2 cannot have that of node 1: another job has it");
    add(s, 3, 16, "{\"nnodes\":4,\"cores\":4}");
    add(s, 4, 16, "{\"nnodes\":2,\"cores\":3,\"duration\":10}");
    pass(s, 1000., &o);
    ck_assert_ptr_null(o.R[3]);
    has(&o, 4, "0,3", "0-2");
    why(s, 3, 1000., 1100.,
        "waits for 4 nodes with 4 cores each: 0 are free; job 1 holds the rest until 00:18:20");
    ck_assert_int_eq(sched_inventory(s, g, up, NULL, &err), 0);
    pass(s, 1000., &o);
    ck_assert(o.denied[3]);
    ck_assert_str_eq(o.note, "needs 4 nodes; there are 2");
    ck_assert_int_eq(sched_free(s, 4, 1001.), 0);
    ck_assert_int_eq(sched_free(s, 1, 1001.), 0);
    add(s, 5, 16, "{\"nnodes\":2,\"exclusive\":true}");
    pass(s, 1001., &o);
    has(&o, 5, "0-1", "0-3");
    sched_get_stats(s, &st);
    ck_assert_uint_eq(st.running, 1);
    ck_assert_uint_eq(st.queued, 0);
    ck_assert_uint_eq(st.nodes, 2);
    ck_assert_uint_eq(st.denied, 1);
    sched_clear(s);
    sched_get_stats(s, &st);
    ck_assert_uint_eq(st.running, 0);
    out_clear(&o);
    rset_destroy(R);
    idset_destroy(up);
    resgraph_destroy(g);
    sched_destroy(s);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cases");

    tcase_add_test(tc, node_policies);
    tcase_add_test(tc, best_fit_holes);
    tcase_add_test(tc, all_cores);
    tcase_add_test(tc, select_is_checked);
    tcase_add_test(tc, select_fails_later);
    tcase_add_test(tc, no_memory_for_policy);
    tcase_add_test(tc, fcfs);
    tcase_add_test(tc, expiration);
    tcase_add_test(tc, easy);
    tcase_add_test(tc, easy_counts);
    tcase_add_test(tc, limited_reservations);
    tcase_add_test(tc, conservative);
    tcase_add_test(tc, conservative_anew);
    tcase_add_test(tc, never);
    tcase_add_test(tc, kinds_of_resources);
    tcase_add_test(tc, quantities_over_time);
    tcase_add_test(tc, told_to_run);
    return run_case("sched_basic", tc);
}
