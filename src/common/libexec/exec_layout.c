/* exec_layout.c - the distribution of tasks over nodes: see exec_layout.h.
 *
 * Each run is stored with its first node and, for block layouts, its first task.  In a cyclic
 * layout, task T is in the round r (counted from 0) with before(r) <= T < before(r + 1), where
 * before(r) is the number of tasks in earlier rounds: the sum over all runs of nodes * min(each,
 * r).  The round is found by bisection.
 */
#include "exec_layout.h"

#include <errno.h>
#include <stdlib.h>

struct layout {
    enum exec_layout_kind kind;
    uint32_t nnodes;
    uint32_t ntasks;
    uint32_t most; /* tasks on any node */
    size_t nruns;
    uint32_t *first_node; /* of each run */
    uint32_t *first_task; /* of each run, for block layouts */
    struct layout_run runs[];
};

layout_t *exec_layout_create(enum exec_layout_kind kind, const struct layout_run *runs,
                             size_t nruns, errmsg_t *err)
{
    layout_t *l;
    uint64_t nodes = 0, tasks = 0;

    for (size_t i = 0; i < nruns; i++) {
        if (runs[i].nodes == 0 || runs[i].each == 0 || i >= LAYOUT_RUNS_MAX)
            goto invalid;
        nodes += runs[i].nodes;
        tasks += (uint64_t)runs[i].nodes * runs[i].each;
        if (tasks > LAYOUT_TASKS_MAX)
            goto invalid;
    }
    if (nodes == 0)
        goto invalid;
    l = calloc(1, sizeof(*l) + nruns * (sizeof(*runs) + 2 * sizeof(uint32_t)));
    if (!l) {
        errmsg_fail(err, ENOMEM, "out of memory for the layout of a job");
        return NULL;
    }
    l->kind = kind;
    l->first_node = (uint32_t *)(void *)&l->runs[nruns];
    l->first_task = l->first_node + nruns;
    for (size_t i = 0; i < nruns; i++) {
        if (l->nruns > 0 && l->runs[l->nruns - 1].each == runs[i].each) {
            l->runs[l->nruns - 1].nodes += runs[i].nodes;
        } else {
            l->first_node[l->nruns] = l->nnodes;
            l->first_task[l->nruns] = l->ntasks;
            l->runs[l->nruns++] = runs[i];
        }
        l->nnodes += runs[i].nodes;
        l->ntasks += runs[i].nodes * runs[i].each;
        if (runs[i].each > l->most)
            l->most = runs[i].each;
    }
    return l;
invalid:
    errmsg_fail(err, EINVAL,
                "a job must have at least one task on each of its nodes, and at most %u in total",
                LAYOUT_TASKS_MAX);
    return NULL;
}

void exec_layout_destroy(layout_t *l)
{
    int errnum = errno;

    free(l);
    errno = errnum;
}

enum exec_layout_kind exec_layout_kind(const layout_t *l)
{
    return l->kind;
}

uint32_t exec_layout_nnodes(const layout_t *l)
{
    return l->nnodes;
}

uint32_t exec_layout_ntasks(const layout_t *l)
{
    return l->ntasks;
}

size_t exec_layout_nruns(const layout_t *l)
{
    return l->nruns;
}

const struct layout_run *exec_layout_runs(const layout_t *l)
{
    return l->runs;
}

/* The last run whose first node (or task) is <= val. */
static size_t find(const layout_t *l, const uint32_t *firsts, uint32_t val)
{
    size_t lo = 0, hi = l->nruns;

    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;

        if (firsts[mid] <= val)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

uint32_t exec_layout_count(const layout_t *l, uint32_t node)
{
    return l->runs[find(l, l->first_node, node)].each;
}

/* Tasks in the rounds before this one. */
static uint32_t before(const layout_t *l, uint32_t round)
{
    uint32_t n = 0;

    for (size_t i = 0; i < l->nruns; i++)
        n += l->runs[i].nodes * (l->runs[i].each < round ? l->runs[i].each : round);
    return n;
}

uint32_t exec_layout_task(const layout_t *l, uint32_t node, uint32_t i)
{
    size_t run = find(l, l->first_node, node);
    uint32_t at = node - l->first_node[run], task;

    if (l->kind == LAYOUT_BLOCK)
        return l->first_task[run] + at * l->runs[run].each + i;
    task = before(l, i) + at;
    for (size_t k = 0; k < run; k++)
        if (l->runs[k].each > i)
            task += l->runs[k].nodes;
    return task;
}

uint32_t exec_layout_node(const layout_t *l, uint32_t task, uint32_t *local)
{
    uint32_t lo = 0, hi = l->most, at;
    size_t run;

    if (l->kind == LAYOUT_BLOCK) {
        run = find(l, l->first_task, task);
        at = task - l->first_task[run];
        if (local)
            *local = at % l->runs[run].each;
        return l->first_node[run] + at / l->runs[run].each;
    }
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (before(l, mid) <= task)
            lo = mid;
        else
            hi = mid;
    }
    if (local)
        *local = lo;
    at = task - before(l, lo);
    for (run = 0; run < l->nruns; run++) {
        if (l->runs[run].each <= lo)
            continue;
        if (at < l->runs[run].nodes)
            break;
        at -= l->runs[run].nodes;
    }
    return run < l->nruns ? l->first_node[run] + at : 0;
}
