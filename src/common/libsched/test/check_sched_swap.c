/* check_sched_swap.c - reservations of whole nodes are the same number, whoever decides.
 *
 * Two schedulers get the same random jobs for whole nodes (some by all of their cores), which end
 * at the same times, often early.  The first decides with the engine for whole nodes.  In the queue
 * of the second there is also a job that needs a node that is down, and asks for cores: so
 * sched_pass.c decides there, or now this and now that if the job comes and goes.
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
#define RUNS_TURNS 80

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
    bool turns; /* the odd job comes and goes */
    bool odd;   /* it is there */
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

static void add_urgent(sched_t *s, uint64_t id, uint32_t urgency, const char *fmt, unsigned nodes,
                       double estimate)
{
    char text[128];
    struct rreq r;
    errmsg_t err;
    json_t *obj;
    struct sched_job job = {id, urgency, 0, (double)id, &r};

    snprintf(text, sizeof(text), fmt, nodes, estimate);
    obj = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(obj);
    ck_assert_msg(rreq_from_json(obj, &r, &err) == 0, "%s", err.text);
    ck_assert_msg(sched_add(s, &job, (double)id, &err) == 0, "%s", err.text);
    rreq_clear(&r);
    json_decref(obj);
}

static void add(sched_t *s, uint64_t id, const char *fmt, unsigned nodes, double estimate)
{
    add_urgent(s, id, 16, fmt, nodes, estimate);
}

static void add_odd(sched_t *s)
{
    add(s, ODD, "{\"nnodes\":%u,\"cores\":1,\"duration\":%f}", NODES + 1, 10.);
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
    ck_assert_int_eq(sched_policy_set_queue(s, sched_builtin(queue), arg, &err), 0);
    ck_assert_int_eq(sched_policy_set_nodes(s, sched_builtin("first-fit"), NULL, &err), 0);
    ck_assert_int_eq(sched_inventory(s, g, up, NULL, &err), 0);
    if (odd)
        add_odd(s);
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
    if (which == 1 && w->turns && upto(w, 4) == 0) {
        if (w->odd)
            ck_assert_int_eq(sched_remove(w->s[1], ODD), 0);
        else
            add_odd(w->s[1]);
        w->odd = !w->odd;
    }
    while (sched_pass(w->s[which], now, 1000, &ops))
        ;
    if ((next = sched_pass_next_time(w->s[which])) <= now)
        next = 0.;
    for (unsigned i = 0; i < NJOBS; i++) {
        const struct planned *j = &w->jobs[i];
        double t = j->start[which] < 0. ? j->submit : j->start[which] + j->runtime;

        if (t > now && (next == 0. || t < next))
            next = t;
    }
    return next;
}

static void same_starts(const char *queue, const char *arg, bool turns)
{
    for (uint64_t seed = 1; seed <= suite_runs(turns ? RUNS_TURNS : RUNS); seed++) {
        struct world w = {.seed = seed, .turns = turns, .odd = true};

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
    same_starts("easy", NULL, false);
}
END_TEST

START_TEST(all)
{
    same_starts("conservative", "all", false);
    same_starts("replan", "all", false);
}
END_TEST

START_TEST(some)
{
    same_starts("conservative", "4", false);
    same_starts("replan", "4", false);
}
END_TEST

START_TEST(turning)
{
    same_starts("easy", NULL, true);
    same_starts("conservative", "all", true);
    same_starts("conservative", "4", true);
    same_starts("replan", "all", true);
}
END_TEST

#define WHOLE "{\"nnodes\":%u,\"exclusive\":true,\"duration\":%f}"
#define CORE "{\"nnodes\":%u,\"cores\":1,\"duration\":%f}"

static void pass(struct world *w, double now)
{
    struct sched_ops ops = {alloc_cb, deny_cb, w};

    while (sched_pass(w->s[0], now, 1000, &ops))
        ;
}

static void end(struct world *w, uint64_t id, double now)
{
    ck_assert_int_eq(sched_free(w->s[0], id, now), 0);
    pass(w, now);
}

static void come(struct world *w, uint64_t id, const char *fmt, unsigned nodes, double estimate,
                 double now)
{
    w->jobs[id - 1].start[0] = -1.;
    add(w->s[0], id, fmt, nodes, estimate);
    pass(w, now);
}

/* Job 4 has a reservation before that of job 3, although it comes behind it: it was made when job 3
 * could not start as early as it could now.  A job for a core makes no difference, nor does its
 * end. */
START_TEST(never_later)
{
    for (int back = 0; back < 2; back++) {
        struct world w = {.s = {make("conservative", "all", false)}};

        come(&w, 1, WHOLE, 9, 50., 10000.);
        come(&w, 2, WHOLE, 3, 100., 10000.);
        come(&w, 3, WHOLE, 12, 100., 10000.);
        come(&w, 4, WHOLE, 9, 50., 10000.);
        end(&w, 2, 10030.);
        come(&w, 5, CORE, 1, 1000., 10031.);
        ck_assert_double_eq(w.jobs[4].start[0], -1.);
        if (back) {
            ck_assert_int_eq(sched_remove(w.s[0], 5), 0);
            pass(&w, 10040.);
        }
        end(&w, 1, 10050.);
        ck_assert_double_eq(w.jobs[3].start[0], 10050.);
        ck_assert_double_eq(w.jobs[2].start[0], -1.);
        end(&w, 4, 10100.);
        ck_assert_double_eq(w.jobs[2].start[0], 10100.);
        sched_destroy(w.s[0]);
    }
}
END_TEST

/* A job for a core goes before job 2, which gets a later reservation thereby.  When it runs and
 * only whole nodes are asked for again, that one counts, and not the one that was before. */
START_TEST(nothing_comes_back)
{
    struct world w = {.s = {make("conservative", "all", false)}};

    come(&w, 1, WHOLE, 12, 100., 10000.);
    come(&w, 2, WHOLE, 12, 100., 10000.);
    w.jobs[2].start[0] = -1.;
    add_urgent(w.s[0], 3, 20, CORE, 1, 900.);
    pass(&w, 10001.);
    end(&w, 1, 10100.);
    ck_assert_double_eq(w.jobs[2].start[0], 10100.);
    come(&w, 4, WHOLE, 2, 500., 10150.);
    ck_assert_double_eq(w.jobs[3].start[0], 10150.);
    come(&w, 5, WHOLE, 2, 2000., 10160.);
    pass(&w, 10200.);
    ck_assert_double_eq(w.jobs[4].start[0], -1.);
    end(&w, 4, 10650.);
    end(&w, 3, 11000.);
    ck_assert_double_eq(w.jobs[1].start[0], 11000.);
    ck_assert_double_eq(w.jobs[4].start[0], -1.);
    sched_destroy(w.s[0]);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("cases");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, one);
    tcase_add_test(tc, all);
    tcase_add_test(tc, some);
    tcase_add_test(tc, turning);
    tcase_add_test(tc, never_later);
    tcase_add_test(tc, nothing_comes_back);
    return run_case("sched_swap", tc);
}
