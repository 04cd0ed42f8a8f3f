/* sim_run.c - one replay through libsched, with the nodes of each job.
 *
 * libsched decides.  This file records the start of each job, the ranges of its nodes, their mean
 * distance, and the number of groups of links that the job shared when it started.
 *
 * A job on one leaf uses no uplink.  A job on several leaves may use any uplink of each of them; a
 * job in several pods also any uplink of each of these pods.  leaf_uses and pod_uses count the
 * running jobs that may use the uplinks of a leaf or a pod; a job that starts where the count is
 * not 0 shares them.  Ends become known with the next start only: a heap of ends then corrects the
 * counts.
 *
 * Failure: errno and an error message; a replay is complete or absent.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct span {
    int64_t end;
    size_t job;
};

struct tracker {
    struct sim_run *run;
    const struct sim_machine *m;
    uint32_t *leaf_uses, *pod_uses;
    struct span *heap; /* of the jobs that cross a leaf's uplinks, the earliest end first */
    size_t nheap, heap_space;
    sim_progress_f progress;
    void *arg;
};

/* --- hops --- */

/* Average hops over the ordered pairs of distinct nodes of some ranges. */
static double sim_hops(const struct sim_machine *m, const struct sched_range *range, size_t n)
{
    double leaf_pairs = 0, pod_pairs = 0, all, in_leaf = 0, in_pod = 0, nodes = 0;
    uint32_t leaf = FATTREE_NONE, pod = FATTREE_NONE;

    if (!m->tree)
        return 0;
    /* Ranges ascend, and so do leaves and pods. */
    for (size_t i = 0; i < n; i++) {
        for (uint32_t x = range[i].first; x < range[i].first + range[i].count; x++) {
            uint32_t l = fattree_leaf(m->tree, x);

            if (l != leaf) {
                uint32_t p = fattree_pod(m->tree, l);

                leaf_pairs += in_leaf * (in_leaf - 1);
                in_leaf = 0;
                leaf = l;
                if (p != pod) {
                    pod_pairs += in_pod * (in_pod - 1);
                    in_pod = 0;
                    pod = p;
                }
            }
            in_leaf++;
            in_pod++;
            nodes++;
        }
    }
    leaf_pairs += in_leaf * (in_leaf - 1);
    pod_pairs += in_pod * (in_pod - 1);
    all = nodes * (nodes - 1);
    return all > 0 ? (2 * (pod_pairs - leaf_pairs) + 4 * (all - pod_pairs)) / all : 0;
}

/* --- links --- */

/* Add `by` to the counts of the groups of links that a job on these ranges may use.  Returns the
 * number of groups that were in use before; `crosses` tells whether the job uses any. */
static uint32_t use_links(struct tracker *t, const struct sim_place *p, int by, bool *crosses)
{
    const fattree_t *tree = t->m->tree;
    const struct sched_range *r = t->run->ranges + p->at;
    uint32_t first = fattree_leaf(tree, r[0].first);
    uint32_t last = fattree_leaf(tree, r[p->n - 1].first + r[p->n - 1].count - 1);
    bool several = fattree_pod(tree, first) != fattree_pod(tree, last);
    uint32_t leaf = FATTREE_NONE, pod = FATTREE_NONE, shared = 0;

    *crosses = first != last;
    if (first == last)
        return 0;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t from = fattree_leaf(tree, r[i].first);
        uint32_t to = fattree_leaf(tree, r[i].first + r[i].count - 1);

        for (uint32_t l = from; l <= to; l++) {
            if (l == leaf)
                continue;
            leaf = l;
            shared += t->leaf_uses[l] > 0;
            t->leaf_uses[l] += (uint32_t)by;
            if (several && fattree_pod(tree, l) != pod) {
                pod = fattree_pod(tree, l);
                shared += t->pod_uses[pod] > 0;
                t->pod_uses[pod] += (uint32_t)by;
            }
        }
    }
    return shared;
}

static void heap_down(struct span *h, size_t n, size_t i)
{
    struct span x = h[i];

    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && h[k + 1].end < h[k].end)
            k++;
        if (x.end <= h[k].end)
            break;
        h[i] = h[k];
    }
    h[i] = x;
}

static int heap_add(struct tracker *t, int64_t end, size_t job)
{
    size_t i;

    if (t->nheap == t->heap_space) {
        size_t space = t->heap_space ? t->heap_space * 2 : 256;
        struct span *h = reallocarray(t->heap, space, sizeof(*h));

        if (!h)
            return -1;
        t->heap = h;
        t->heap_space = space;
    }
    for (i = t->nheap++; i > 0 && t->heap[(i - 1) / 2].end > end; i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = (struct span){end, job};
    return 0;
}

static int track_links(struct tracker *t, size_t i)
{
    struct sim_place *p = &t->run->places[i];
    const struct sched_replay_job *j = &t->run->jobs[i];
    bool crosses;

    while (t->nheap > 0 && t->heap[0].end <= j->start) {
        use_links(t, &t->run->places[t->heap[0].job], -1, &crosses);
        t->heap[0] = t->heap[--t->nheap];
        if (t->nheap > 0)
            heap_down(t->heap, t->nheap, 0);
    }
    p->links = use_links(t, p, 1, &crosses);
    return crosses ? heap_add(t, j->start + j->runtime, i) : 0;
}

/* --- what libsched says --- */

static int started_cb(size_t i, const struct sched_range *range, size_t n, void *arg)
{
    struct tracker *t = arg;
    struct sim_run *r = t->run;
    struct sim_place *p = &r->places[i];

    *p = (struct sim_place){.at = r->nranges, .n = (uint32_t)n, .hops = -1};
    if (n == 0)
        return 0;
    if (r->nranges + n > r->space) {
        size_t space = (r->nranges + n) * 2;
        struct sched_range *ranges = reallocarray(r->ranges, space, sizeof(*ranges));

        if (!ranges)
            return -1;
        r->ranges = ranges;
        r->space = space;
    }
    memcpy(r->ranges + r->nranges, range, n * sizeof(*range));
    r->nranges += n;
    r->lists = true;
    p->hops = (float)sim_hops(t->m, range, n);
    return t->m->tree ? track_links(t, i) : 0;
}

static void progress_cb(size_t done, size_t njobs, void *arg)
{
    struct tracker *t = arg;

    if (t->progress)
        t->progress(done, njobs, t->arg);
}

/* Jobs that never started leave the arrays. */
static void forget_never(struct sim_run *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        if (r->jobs[i].start == SCHED_REPLAY_NEVER)
            continue;
        r->jobs[n] = r->jobs[i];
        r->places[n++] = r->places[i];
    }
    r->never = r->n - n;
    r->n = n;
}

static int replay(struct sim_run *r, const trace_t *trace, const struct sim_machine *m,
                  sim_progress_f progress, void *arg, errmsg_t *err)
{
    const struct sim_policy *p = &r->policy;
    const struct sched_whole_options options = {p->queue, p->select, p->depth, m->nodes, m->tree};
    struct tracker t = {.run = r, .m = m, .progress = progress, .arg = arg};
    const struct sched_replay_ops ops = {started_cb, progress_cb, &t};
    bool faster = p->speedup && sched_whole_is_topology(p->select);
    int rc = -1;

    r->n = trace_count(trace);
    r->jobs = calloc(r->n ? r->n : 1, sizeof(*r->jobs));
    r->places = calloc(r->n ? r->n : 1, sizeof(*r->places));
    t.leaf_uses = calloc(m->tree ? fattree_nleaves(m->tree) : 1, sizeof(*t.leaf_uses));
    t.pod_uses = calloc(m->tree ? fattree_npods(m->tree) : 1, sizeof(*t.pod_uses));
    if (!r->jobs || !r->places || !t.leaf_uses || !t.pod_uses) {
        errmsg_fail(err, ENOMEM, "out of memory for %zu jobs", r->n);
        goto done;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct trace_job *j = &trace_jobs(trace)[i];
        int64_t runtime =
            faster ? sim_speedup(p->speedup, p->seed, j->id, j->nodes, j->runtime) : j->runtime;

        r->jobs[i] = (struct sched_replay_job){(uint64_t)j->id, j->submit,          runtime,
                                               j->estimate,     (uint32_t)j->nodes, 0};
    }
    errmsg_set(err, "out of memory for the lists of nodes");
    if (sched_replay(&options, r->jobs, r->n, &ops, err) < 0)
        goto done;
    forget_never(r);
    rc = 0;
done:
    free(t.leaf_uses);
    free(t.pod_uses);
    free(t.heap);
    return rc;
}

struct sim_run *sim_run(const trace_t *trace, const struct sim_machine *m,
                        const struct sim_policy *policy, sim_progress_f progress, void *arg,
                        errmsg_t *err)
{
    struct sim_run *r = calloc(1, sizeof(*r));

    if (!r) {
        errmsg_set(err, "out of memory");
        return NULL;
    }
    r->policy = *policy;
    if (replay(r, trace, m, progress, arg, err) < 0) {
        sim_run_destroy(r);
        return NULL;
    }
    return r;
}

void sim_run_destroy(struct sim_run *r)
{
    int saved = errno;

    if (r) {
        free(r->jobs);
        free(r->places);
        free(r->ranges);
    }
    free(r);
    errno = saved;
}

int sim_run_write(const struct sim_run *r, FILE *f)
{
    if (fputs("job,submit,start,end,nodes,nodelist\n", f) < 0)
        return -1;
    for (size_t i = 0; i < r->n; i++) {
        const struct sched_replay_job *j = &r->jobs[i];
        const struct sim_place *p = &r->places[i];

        if (fprintf(f, "%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%u,", j->id, j->submit,
                    j->start, j->start + j->runtime, j->nodes) < 0)
            return -1;
        for (uint32_t k = 0; k < p->n; k++) {
            const struct sched_range *g = &r->ranges[p->at + k];
            const char *bar = k > 0 ? "|" : "";

            if (g->count > 1)
                fprintf(f, "%s%u-%u", bar, g->first, g->first + g->count - 1);
            else
                fprintf(f, "%s%u", bar, g->first);
        }
        if (putc('\n', f) == EOF)
            return -1;
    }
    return ferror(f) ? -1 : 0;
}
