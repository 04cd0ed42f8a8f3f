/* check_sched_whole.c - jobs of whole nodes: small cases by hand, and what has to hold of any
 * workload.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsched/sched_replay.h"
#include "libsched/sched_whole.h"
#include "libutil/test/suite.h"

/* --- placing by hand --- */

static char placed[256]; /* "0-1" */

static int note_start(struct sched_whole_job *j, double now, void *arg)
{
    size_t len = 0;

    placed[0] = '\0';
    for (uint32_t i = 0; i < j->set.nrange; i++)
        len += (size_t)snprintf(placed + len, sizeof(placed) - len,
                                j->set.range[i].count > 1 ? "%s%u-%u" : "%s%u", i > 0 ? "|" : "",
                                j->set.range[i].first,
                                j->set.range[i].first + j->set.range[i].count - 1);
    *(struct sched_whole_job **)arg = j;
    return 0;
}

static sched_whole_t *machine(const char *tree, const char *queue, const char *select,
                              fattree_t **t)
{
    errmsg_t err = {""};
    struct sched_whole_options o = {.queue = queue, .select = select};
    sched_whole_t *w;

    *t = fattree_parse(tree, &err);
    ck_assert_msg(*t != NULL, "%s", err.text);
    o.tree = *t;
    w = sched_whole_create(&o, &err);
    ck_assert_msg(w != NULL, "%s", err.text);
    return w;
}

/* The nodes of a job that comes at `now`; "" when it does not start. */
static const char *submit(sched_whole_t *w, uint64_t id, uint32_t nodes, double now,
                          struct sched_whole_job **job)
{
    struct sched_whole_job *started = NULL;
    struct sched_whole_ops ops = {note_start, &started};
    struct sched_whole_job *j = sched_whole_add(w, now, id, now, nodes, 1000., NULL);

    placed[0] = '\0';
    ck_assert_int_eq(sched_whole_pass(w, now, 0, &ops), 0);
    if (started)
        ck_assert_ptr_eq(started, j);
    else
        sched_whole_remove(w, j);
    if (job)
        *job = started;
    return placed;
}

START_TEST(figure_machine)
{
    struct sched_whole_job *ten;
    fattree_t *t;
    sched_whole_t *w = machine("2,3,3", "fcfs", "interference-free", &t);

    ck_assert_str_eq(submit(w, 1, 2, 0., NULL), "0-1");
    ck_assert_str_eq(submit(w, 2, 4, 1., NULL), "3-6");
    ck_assert_str_eq(submit(w, 3, 10, 2., &ten), "2|9-17");
    ck_assert_str_eq(submit(w, 4, 4, 3., NULL), "");
    ck_assert_str_eq(submit(w, 5, 1, 4., NULL), "7");
    /* Marks go with their job. */
    sched_whole_end(w, ten, 5.);
    ck_assert_str_eq(submit(w, 6, 4, 5., NULL), "9-12");
    sched_whole_destroy(w);
    fattree_destroy(t);
}
END_TEST

START_TEST(waited_jobs)
{
    struct sched_whole_job *started = NULL;
    struct sched_whole_ops ops = {note_start, &started};
    fattree_t *t;
    sched_whole_t *w = machine("2,3,3", "fcfs", "interference-free:wait=10s", &t);

    ck_assert_str_eq(submit(w, 1, 4, 0., NULL), "0-3");
    ck_assert_str_eq(submit(w, 2, 10, 1., NULL), "6|9-17");
    ck_assert_ptr_nonnull(sched_whole_add(w, 2., 3, 2., 4, 1000., NULL));
    ck_assert_int_eq(sched_whole_pass(w, 12., 0, &ops), 0);
    ck_assert_ptr_null(started); /* 10 s are not more than 10 s */
    ck_assert_int_eq(sched_whole_pass(w, 13., 0, &ops), 0);
    ck_assert_ptr_nonnull(started);
    ck_assert_str_eq(placed, "4-5|7-8"); /* beside two others that cross these leaves */
    ck_assert_int_eq(started->set.crosses, SCHED_CROSS_LEAVES);
    sched_whole_destroy(w);
    fattree_destroy(t);
}
END_TEST

START_TEST(compact_and_buddy)
{
    struct sched_whole_job *a, *b;
    fattree_t *t;
    sched_whole_t *w = machine("2,3,3", "fcfs", "compact", &t);

    ck_assert_str_eq(submit(w, 1, 2, 0., NULL), "0-1");
    ck_assert_str_eq(submit(w, 2, 1, 1., NULL), "2");   /* the leaf with the fewest that do */
    ck_assert_str_eq(submit(w, 3, 5, 2., NULL), "3-7"); /* the pod with the fewest that do */
    ck_assert_str_eq(submit(w, 4, 10, 3., NULL), "8-17");
    sched_whole_destroy(w);
    fattree_destroy(t);

    w = machine("2,3,3", "fcfs", "buddy", &t);
    ck_assert(!sched_whole_could(w, 17));
    ck_assert(sched_whole_could(w, 16));
    ck_assert_str_eq(submit(w, 1, 3, 0., &a), "0-3"); /* 3 is kept with it */
    ck_assert_str_eq(submit(w, 2, 1, 1., NULL), "4");
    ck_assert_str_eq(submit(w, 3, 5, 2., &b), "8-15");
    ck_assert_str_eq(submit(w, 4, 4, 3., NULL), ""); /* 6 are free, but no block of 4 */
    sched_whole_end(w, a, 4.);
    ck_assert_str_eq(submit(w, 5, 4, 4., NULL), "0-3");
    sched_whole_end(w, b, 5.);
    ck_assert_str_eq(submit(w, 6, 8, 5., NULL), "8-15");
    sched_whole_destroy(w);
    fattree_destroy(t);
}
END_TEST

START_TEST(options)
{
    static const struct {
        const char *queue, *select;
    } bad[] = {{"eazy", "first-fit"},
               {"easy", "worst-fit"},
               {"easy", "first-fit:3"},
               {"easy", "interference-free:3"},
               {"easy", "interference-free:wait=-1"},
               {"easy", "easy"},
               {"conservative", "interference-free"},
               {"replan", "buddy"}};
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sched_whole_options o = {bad[i].queue, bad[i].select, 0, 10, NULL};

        errno = 0;
        ck_assert_int_eq(sched_whole_check(&o, &err), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_ptr_null(sched_whole_create(&o, &err));
    }
    ck_assert(sched_whole_is_topology("buddy"));
    ck_assert(sched_whole_is_topology("interference-free:wait=1h"));
    ck_assert(!sched_whole_is_topology("compact"));
    ck_assert(!sched_whole_is_topology("nothing"));
}
END_TEST

/* --- starts by hand --- */

static void replay(const char *queue, const char *select, uint32_t nnodes, uint32_t depth,
                   struct sched_replay_job *jobs, size_t n)
{
    struct sched_whole_options o = {queue, select, depth, nnodes, NULL};
    errmsg_t err = {""};

    ck_assert_msg(sched_replay(&o, jobs, n, NULL, &err) == 0, "%s", err.text);
}

static int64_t start_of(const struct sched_replay_job *jobs, size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].id == id)
            return jobs[i].start;
    }
    ck_abort();
    return 0;
}

#define CHECK_STARTS(queue, depth, jobs, ...)                                                 \
    do {                                                                                      \
        const int64_t want[] = {__VA_ARGS__};                                                 \
        struct sched_replay_job copy[sizeof(jobs) / sizeof((jobs)[0])];                       \
                                                                                              \
        memcpy(copy, jobs, sizeof(copy));                                                     \
        replay(queue, "first-fit", 10, depth, copy, sizeof(copy) / sizeof(copy[0]));          \
        for (size_t i_ = 0; i_ < sizeof(want) / sizeof(want[0]); i_++)                        \
            ck_assert_msg(start_of(copy, sizeof(copy) / sizeof(copy[0]), i_ + 1) == want[i_], \
                          "%s: job %zu starts at %jd, not %jd", queue, i_ + 1,                \
                          (intmax_t)start_of(copy, sizeof(copy) / sizeof(copy[0]), i_ + 1),   \
                          (intmax_t)want[i_]);                                                \
    } while (0)

/* 10 nodes.  Job 1 has 6 until 100; job 2 wants 8: shadow 100, extra 2. */
static const struct sched_replay_job shadow[] = {
    {1, 0, 100, 100, 6, 0}, {2, 1, 50, 50, 8, 0},
    {3, 2, 98, 98, 2, 0},   /* ends at the shadow: starts, and lowers nothing */
    {4, 2, 500, 500, 2, 0}, /* takes the two that are extra */
    {5, 3, 500, 500, 1, 0}, /* nothing is free */
};

START_TEST(easy_by_hand)
{
    CHECK_STARTS("fcfs", 0, shadow, 0, 100, 100, 150, 150);
    CHECK_STARTS("easy", 0, shadow, 0, 100, 2, 2, 150);
    /* Only the blocked head and the job behind it are considered. */
    CHECK_STARTS("easy", 2, shadow, 0, 100, 2, 3, 150);
    CHECK_STARTS("easy", 1, shadow, 0, 100, 100, 150, 150);
    CHECK_STARTS("conservative", 0, shadow, 0, 100, 2, 2, 150);
}
END_TEST

START_TEST(extra_is_used_up)
{
    static const struct sched_replay_job jobs[] = {
        {1, 0, 100, 100, 5, 0}, {2, 1, 50, 50, 8, 0},   {3, 2, 500, 500, 1, 0},
        {4, 3, 500, 500, 1, 0}, {5, 4, 500, 500, 1, 0},
    };

    /* Job 5 would be the third of two that are left over. */
    CHECK_STARTS("easy", 0, jobs, 0, 100, 2, 3, 150);
}
END_TEST

/* Job 1 ends early: reservations move forward once, in order; what is reserved starts when its time
 * comes, though nothing else happens then. */
START_TEST(conservative_by_hand)
{
    static const struct sched_replay_job jobs[] = {
        {1, 0, 10, 100, 5, 0}, {2, 0, 300, 300, 5, 0}, {3, 1, 100, 100, 10, 0},
        {4, 2, 98, 98, 5, 0},  {5, 3, 50, 50, 5, 0},
    };

    /* 3: 300; 4: 100 (before 3); 5: 198.  At 10: 3 stays, 4 to 10, 5 to 108. */
    CHECK_STARTS("conservative", 0, jobs, 0, 0, 300, 10, 108);
    CHECK_STARTS("replan", 0, jobs, 0, 0, 300, 10, 108);
    CHECK_STARTS("easy", 0, jobs, 0, 0, 300, 10, 108);
}
END_TEST

/* Job 6 moves forward, and job 5, which was considered before it, does not any more. */
START_TEST(compressed_once)
{
    static const struct sched_replay_job jobs[] = {
        {1, 0, 5, 20, 6, 0},  /* ends at 5, not at 20 */
        {2, 0, 40, 40, 4, 0}, /* until 40 */
        {3, 1, 10, 10, 8, 0}, /* reserved at 40 */
        {4, 2, 50, 50, 7, 0}, /* at 50 */
        {5, 2, 30, 30, 6, 0}, /* at 100: from 20 on job 3 is in its way */
        {6, 2, 16, 16, 6, 0}, /* at 20, moved to 5 */
    };

    CHECK_STARTS("conservative", 0, jobs, 0, 0, 40, 50, 100, 5);
    /* Anew, job 5 comes first. */
    CHECK_STARTS("replan", 0, jobs, 0, 0, 40, 50, 5, 100);
}
END_TEST

/* --- any workload --- */

#define NJOBS 120
static const uint32_t P = 3, L = 3, K = 4, N = 36;

struct held {
    int64_t start, end;
    bool leaf[9], pod[3], node[36]; /* links that it may use; nodes */
};

struct taken {
    const struct sched_replay_job *jobs;
    struct held held[NJOBS];
};

static int take(size_t i, const struct sched_range *range, size_t nrange, void *arg)
{
    struct taken *t = arg;
    struct held *h = &t->held[i];
    bool leaves[9] = {false}, pods[3] = {false};
    unsigned nleaves = 0, npods = 0, n = 0;

    for (size_t r = 0; r < nrange; r++) {
        for (uint32_t k = 0; k < range[r].count; k++) {
            uint32_t node = range[r].first + k;

            ck_assert_uint_lt(node, N);
            ck_assert(!h->node[node]);
            h->node[node] = true;
            n++;
            nleaves += !leaves[node / K];
            npods += !pods[node / K / L];
            leaves[node / K] = pods[node / K / L] = true;
        }
    }
    ck_assert_uint_eq(n, t->jobs[i].nodes);
    if (nleaves > 1)
        memcpy(h->leaf, leaves, sizeof(leaves));
    if (npods > 1)
        memcpy(h->pod, pods, sizeof(pods));
    return 0;
}

static unsigned both(const bool *a, const bool *b, size_t n)
{
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] && b[i];
    return sum;
}

/* Nodes, and links, that two jobs had at a time. */
static void count_shared(const struct taken *t, unsigned *nodes, unsigned *links)
{
    *nodes = *links = 0;
    for (size_t i = 0; i < NJOBS; i++) {
        const struct held *a = &t->held[i];

        for (size_t k = i + 1; k < NJOBS; k++) {
            const struct held *b = &t->held[k];

            if (a->start >= b->end || b->start >= a->end)
                continue;
            *nodes += both(a->node, b->node, N);
            *links += both(a->leaf, b->leaf, P * L) + both(a->pod, b->pod, P);
        }
    }
}

static void make_jobs(struct sched_replay_job *jobs, unsigned seed, uint32_t mult)
{
    srand(seed);
    for (size_t i = 0; i < NJOBS; i++) {
        static const uint32_t most[] = {3, 6, 14, 36};
        struct sched_replay_job *j = &jobs[i];

        j->id = i + 1;
        j->submit = rand() % 400;
        j->estimate = 1 + rand() % 60;
        j->runtime = rand() % 3 ? 1 + rand() % j->estimate : j->estimate;
        j->nodes = (1 + (uint32_t)rand() % most[rand() % 4]) * mult;
    }
}

static void run_random(unsigned seed, const char *queue, const char *select, uint32_t mult,
                       struct sched_replay_job *jobs, unsigned *nodes, unsigned *links)
{
    fattree_t *t = fattree_create(P, L * mult, K, NULL);
    struct sched_whole_options o = {.queue = queue, .select = select, .tree = t};
    struct taken taken = {.jobs = jobs};
    struct sched_replay_ops ops = {.started = take, .arg = &taken};
    errmsg_t err = {""};

    make_jobs(jobs, seed, mult);
    ck_assert_msg(sched_replay(&o, jobs, NJOBS, nodes ? &ops : NULL, &err) == 0, "%s", err.text);
    for (size_t i = 0; i < NJOBS; i++) {
        ck_assert_int_ge(jobs[i].start, jobs[i].submit);
        taken.held[i].start = jobs[i].start;
        taken.held[i].end = jobs[i].start + jobs[i].runtime;
    }
    if (nodes)
        count_shared(&taken, nodes, links);
    fattree_destroy(t);
}

START_TEST(nothing_shared)
{
    static const char *const selects[] = {"interference-free", "first-fit", "compact", "spread"};
    struct sched_replay_job jobs[NJOBS];
    unsigned nodes, links;

    for (size_t i = 0; i < 4; i++) {
        run_random((unsigned)_i, i % 2 ? "easy" : "fcfs", selects[i], 1, jobs, &nodes, &links);
        ck_assert_uint_eq(nodes, 0);
        if (i == 0)
            ck_assert_uint_eq(links, 0);
        else if (i == 1)
            ck_assert_uint_gt(links, 0); /* the check does see them */
    }
    run_random((unsigned)_i, "easy", "interference-free", 1, jobs, &nodes, &links);
    ck_assert_uint_eq(nodes + links, 0);
}
END_TEST

/* Where no policy refuses, which nodes are taken does not change a start; nor does twice of all. */
START_TEST(same_starts)
{
    static const char *const queues[] = {"fcfs", "easy", "conservative", "replan"};
    static const char *const selects[] = {"first-fit", "best-fit", "spread", "compact"};
    struct sched_replay_job one[NJOBS], other[NJOBS];

    for (size_t q = 0; q < 4; q++) {
        run_random((unsigned)_i, queues[q], "count", 1, one, NULL, NULL);
        for (size_t i = 0; i < 4; i++) {
            run_random((unsigned)_i, queues[q], selects[i], 1, other, NULL, NULL);
            for (size_t k = 0; k < NJOBS; k++)
                ck_assert_int_eq(one[k].start, other[k].start);
        }
        run_random((unsigned)_i, queues[q], "first-fit", 2, other, NULL, NULL);
        for (size_t k = 0; k < NJOBS; k++)
            ck_assert_int_eq(one[k].start, other[k].start);
    }
}
END_TEST

/* --- passes in slices --- */

struct sliced {
    struct sched_replay_job jobs[NJOBS];
    struct sched_whole_job *running[NJOBS];
};

static int start_sliced(struct sched_whole_job *w, double now, void *arg)
{
    struct sliced *sl = arg;
    size_t i = (size_t)(uintptr_t)w->owner;

    sl->jobs[i].start = (int64_t)now;
    sl->running[i] = w;
    return 0;
}

/* Each step of a pass is a slice, and somebody asks for the shadow in between. */
static void run_sliced(unsigned seed, const char *select, struct sliced *sl)
{
    fattree_t *t = fattree_create(P, L, K, NULL);
    struct sched_whole_options o = {.queue = "easy", .select = select, .tree = t};
    struct sched_whole_ops ops = {start_sliced, sl};
    const struct sched_whole_job *head;
    errmsg_t err;
    sched_whole_t *w = sched_whole_create(&o, &err);
    double shadow;
    uint32_t extra;
    size_t left = NJOBS;

    ck_assert_msg(w != NULL, "%s", err.text);
    make_jobs(sl->jobs, seed, 1);
    for (size_t i = 0; i < NJOBS; i++)
        sl->jobs[i].start = -1;
    for (int64_t now = 0; left > 0; now++) {
        bool stirred = false;

        for (size_t i = 0; i < NJOBS; i++) {
            if (!sl->running[i] || sl->jobs[i].start + sl->jobs[i].runtime != now)
                continue;
            sched_whole_end(w, sl->running[i], (double)now);
            sl->running[i] = NULL;
            stirred = true;
            left--;
        }
        for (size_t i = 0; i < NJOBS; i++) {
            const struct sched_replay_job *j = &sl->jobs[i];

            if (j->submit != now)
                continue;
            ck_assert_ptr_nonnull(sched_whole_add(w, (double)now, j->id, (double)now, j->nodes,
                                                  (double)j->estimate, (void *)(uintptr_t)i));
            stirred = true;
        }
        while (stirred && sched_whole_pass(w, (double)now, 1, &ops) == 1)
            sched_easy_shadow(w, &head, &shadow, &extra);
    }
    sched_whole_destroy(w);
    fattree_destroy(t);
}

START_TEST(same_in_slices)
{
    static const char *const selects[] = {"first-fit", "interference-free"};
    struct sched_replay_job whole[NJOBS];

    for (size_t k = 0; k < 2; k++) {
        struct sliced sl = {0};

        run_random((unsigned)_i, "easy", selects[k], 1, whole, NULL, NULL);
        run_sliced((unsigned)_i, selects[k], &sl);
        for (size_t i = 0; i < NJOBS; i++)
            ck_assert_int_eq(sl.jobs[whole[i].id - 1].start, whole[i].start);
    }
}
END_TEST

START_TEST(bad_logs)
{
    struct sched_whole_options o = {"easy", "buddy", 0, 18, NULL};
    struct sched_replay_job bad[] = {{1, 0, 0, 1, 1, 0},
                                     {1, 0, 2, 1, 1, 0},
                                     {1, 0, 1, 1, 0, 0},
                                     {1, INT64_MAX, 1, 1, 1, 0},
                                     {1, 0, 1, INT64_MAX, 1, 0}};
    struct sched_replay_job twice[] = {{1, 0, 1, 1, 1, 0}, {1, 0, 1, 1, 1, 0}};
    struct sched_replay_job large[] = {{1, 0, 10, 10, 17, 0}, {2, 0, 10, 10, 16, 0}};
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(sched_replay(&o, &bad[i], 1, NULL, &err), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    ck_assert_int_eq(sched_replay(&o, twice, 2, NULL, &err), -1);
    /* No block of 32 on 18 nodes: it delays nobody. */
    ck_assert_int_eq(sched_replay(&o, large, 2, NULL, &err), 0);
    ck_assert(large[0].start == SCHED_REPLAY_NEVER);
    ck_assert_int_eq(large[1].start, 0);
    ck_assert_int_eq(sched_replay(&o, NULL, 0, NULL, &err), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, figure_machine);
    tcase_add_test(tc, waited_jobs);
    tcase_add_test(tc, compact_and_buddy);
    tcase_add_test(tc, options);
    tcase_add_test(tc, easy_by_hand);
    tcase_add_test(tc, extra_is_used_up);
    tcase_add_test(tc, conservative_by_hand);
    tcase_add_test(tc, compressed_once);
    tcase_add_loop_test(tc, nothing_shared, 0, 20);
    tcase_add_loop_test(tc, same_starts, 0, 20);
    tcase_add_loop_test(tc, same_in_slices, 0, 20);
    tcase_add_test(tc, bad_logs);
    return run_case("sched_whole", tc);
}
