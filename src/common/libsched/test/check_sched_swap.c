/* check_sched_swap.c - reservations of whole nodes are the same number, whoever decides.
 *
 * Two schedulers get the same random jobs for whole nodes (some by all of their cores), which end at
 * the same times, often early.  The first decides with the engine for whole nodes.  In the queue of the second there is
 * also a job that needs a node that is down, and asks for cores: so sched_pass.c decides there.
 * Each job has to start at the same time in both, on whatever nodes.
 */
#include "config.h"
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libsched/sched.h"
#include "libutil/test/suite.h"

#define NODES 12 /* another one is down */
#define NJOBS 120
#define ODD 1000
#define RUNS 200

struct planned {
    double submit, estimate, runtime;
    uint32_t nodes;
    double start[2]; /* by scheduler; negative: not yet */
    bool ended[2];
};

struct world {
    sched_t *s[2];
    struct planned jobs[NJOBS];
    unsigned which;
    uint64_t seed;
};

static unsigned upto(struct world *w, unsigned n)
{
    w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((w->seed >> 33) % n);
}

static void alloc_cb(uint64_t id, rset_t *R, double now, double end, void *arg)
{
    struct world *w = arg;

    ck_assert_uint_lt(id - 1, NJOBS);
    w->jobs[id - 1].start[w->which] = now;
    rset_destroy(R);
}

static void deny_cb(uint64_t id, const char *note, void *arg)
{
    ck_abort_msg("job %ju was denied: %s", (uintmax_t)id, note);
}

static void add(sched_t *s, uint64_t id, const char *fmt, unsigned nodes, double estimate)
{
    char text[128];
    struct rreq r;
    errmsg_t err;
    json_t *obj;
    struct sched_job job = {id, 16, 0, (double)id, &r};

    snprintf(text, sizeof(text), fmt, nodes, estimate);
    obj = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(obj);
    ck_assert_msg(rreq_from_json(obj, &r, &err) == 0, "%s", err.text);
    ck_assert_msg(sched_add(s, &job, (double)id, &err) == 0, "%s", err.text);
    rreq_clear(&r);
    json_decref(obj);
}

static sched_t *make(const char *queue, const char *arg, bool odd)
{
    static const char json[] =
        "{\"nodes\":[{\"ranks\":\"0-12\",\"hosts\":\"n[0-12]\",\"cores\":\"0-1\"}]}";
    errmsg_t err;
    resgraph_t *g = resgraph_parse(json, strlen(json), &err);
    idset_t *up = idset_parse("0-11", NULL);
    sched_t *s = sched_create();

    ck_assert(s && g && up);
    ck_assert_int_eq(sched_set_queue_policy(s, sched_builtin(queue), arg, &err), 0);
    ck_assert_int_eq(sched_set_node_policy(s, sched_builtin("first-fit"), NULL, &err), 0);
    ck_assert_int_eq(sched_inventory(s, g, up, NULL, &err), 0);
    if (odd)
        add(s, ODD, "{\"nnodes\":%u,\"cores\":1,\"duration\":%f}", NODES + 1, 10.);
    idset_destroy(up);
    resgraph_destroy(g);
    return s;
}

static void make_jobs(struct world *w)
{
    double submit = 10000.;

    for (unsigned i = 0; i < NJOBS; i++) {
        struct planned *j = &w->jobs[i];

        submit += upto(w, 12);
        j->submit = submit;
        j->nodes = 1 + (upto(w, 3) == 0 ? upto(w, NODES) : upto(w, 4));
        j->estimate = 1 + upto(w, 5) * 20 + upto(w, 30);
        j->runtime = upto(w, 2) == 0 ? j->estimate : 1 + upto(w, (unsigned)j->estimate);
        j->start[0] = j->start[1] = -1.;
        j->ended[0] = j->ended[1] = false;
    }
}

/* Ends, then arrivals, then one pass.  Returns the time of the next event, or 0. */
static double instant(struct world *w, unsigned which, double now, unsigned *arrived)
{
    struct sched_ops ops = {alloc_cb, deny_cb, w};
    double next = 0.;

    w->which = which;
    for (unsigned i = 0; i < NJOBS; i++) {
        struct planned *j = &w->jobs[i];

        if (j->start[which] < 0. || j->ended[which] || j->start[which] + j->runtime > now)
            continue;
        ck_assert_int_eq(sched_free(w->s[which], i + 1, now), 0);
        j->ended[which] = true;
    }
    for (; *arrived < NJOBS && w->jobs[*arrived].submit <= now; (*arrived)++)
        add(w->s[which], *arrived + 1,
            *arrived % 3 ? "{\"nnodes\":%u,\"exclusive\":true,\"duration\":%f}"
                         : "{\"nnodes\":%u,\"cores\":2,\"duration\":%f}",
            w->jobs[*arrived].nodes, w->jobs[*arrived].estimate);
    while (sched_pass(w->s[which], now, 1000, &ops))
        ;
    if ((next = sched_next_time(w->s[which])) <= now)
        next = 0.;
    for (unsigned i = 0; i < NJOBS; i++) {
        const struct planned *j = &w->jobs[i];
        double t = j->start[which] < 0. ? j->submit : j->start[which] + j->runtime;

        if (t > now && (next == 0. || t < next))
            next = t;
    }
    return next;
}

static void same_starts(const char *queue, const char *arg)
{
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        struct world w = {.seed = seed};

        make_jobs(&w);
        for (unsigned which = 0; which < 2; which++) {
            unsigned arrived = 0;

            w.s[which] = make(queue, arg, which == 1);
            for (double now = w.jobs[0].submit; now > 0.;)
                now = instant(&w, which, now, &arrived);
            ck_assert_uint_eq(arrived, NJOBS);
            sched_destroy(w.s[which]);
        }
        for (unsigned i = 0; i < NJOBS; i++) {
            ck_assert(w.jobs[i].start[0] >= 0.);
            ck_assert_msg(w.jobs[i].start[0] == w.jobs[i].start[1],
                          "%s, seed %ju: job %u starts at %f, not at %f", queue, (uintmax_t)seed,
                          i + 1, w.jobs[i].start[1], w.jobs[i].start[0]);
        }
    }
}

START_TEST(one)
{
    same_starts("easy", NULL);
}
END_TEST

START_TEST(all)
{
    same_starts("conservative", "all");
    same_starts("replan", "all");
}
END_TEST

START_TEST(some)
{
    same_starts("conservative", "4");
    same_starts("replan", "4");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cases");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, one);
    tcase_add_test(tc, all);
    tcase_add_test(tc, some);
    return run_case("sched_swap", tc);
}
