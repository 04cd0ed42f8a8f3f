/* sched_alike.c - the scheduler's use of the engine for whole nodes (sched_whole.h).
 *
 * A pass is done by one of two parts of the scheduler:
 *
 *    the engine      if all nodes are of one kind, none is held by jobs without cores alone, each
 *                    waiting shape is `alike` (whole nodes, any of them), the queue policy is built
 *                    in, the node policy does not score and has not failed, the resources do not
 *                    expire, and resrc reports node states.  A reservation is a number of nodes
 *                    (with policies that refuse: a set) and a time
 *    sched_pass.c    otherwise.  A reservation has particular nodes; those of a job for any whole
 *                    nodes can be exchanged (sched_swap.c, sched_exchange.c)
 *
 * The engine holds a copy of the waiting and the running jobs, and follows arrivals, starts and
 * ends.  A change that it cannot express (nodes go down, a job for parts of nodes arrives, a job is
 * reported as running, a policy changes) drops the copy.  The next pass that can use the engine
 * makes a new one, and keeps the reservations unless nodes were lost or the policy has changed.
 *
 * With several reservations (conservative), they are kept also when the next pass is done by the
 * other part: those of the engine get particular nodes, at the same times (hand_over()), and those
 * of sched_pass.c become numbers again.
 *
 * Invariants, while whole_valid:
 *  1. The engine has each waiting job of an available shape (job->whole) and each held claim
 *     (claim->whole).  It does not have jobs that wait for nodes that are down.
 *  2. A node that several claims share belongs to the claim that ends last.
 *
 * And while sched_pass.c decides:
 *  3. No job has a reservation of the engine, so an outdated one cannot be used later.
 *
 * Failure: if memory is short, there is no engine, and sched_pass.c decides.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"
#include "sched_whole_private.h"

#define HANDED_MAX 1000 /* reservations, each of which takes a walk over all nodes */

void sched_alike_drop(sched_t *s)
{
    s->whole_valid = false;
}

void sched_alike_destroy(sched_t *s)
{
    s->whole_forget |= s->whole != NULL; /* jobs got their reservations from it */
    sched_whole_destroy(s->whole);
    s->whole = NULL;
    s->whole_valid = false;
}

double sched_alike_next(const sched_t *s)
{
    double next = sched_whole_next(s->whole);

    return next < INFINITY ? next : -1.;
}

size_t sched_alike_reserved(const sched_t *s)
{
    const sched_whole_t *w = s->whole;

    if (w->queue_policy == SCHED_WHOLE_FCFS || w->queue.count == 0)
        return 0;
    if (w->queue_policy == SCHED_WHOLE_EASY)
        return 1;
    return w->queue.count < w->reservations ? w->queue.count : w->reservations;
}

/* --- changes --- */

/* The start of the job's reservation, whichever part made it. */
static double reserved_for(const sched_t *s, const struct job *j)
{
    if (s->whole_forget)
        return INFINITY;
    if (j->reserved && sched_builtin_reserves_all(s->queue))
        return j->reserved->start;
    return j->whole ? j->whole->start : INFINITY;
}

static int add(sched_t *s, struct job *j)
{
    double start = reserved_for(s, j);

    j->whole = sched_whole_add(s->whole, j->order.a, j->id, j->t_submit, j->shape->req.nnodes,
                               j->duration, j);
    if (!j->whole)
        return -1;
    j->whole->start = start;
    return 0;
}

void sched_alike_added(sched_t *s, struct job *j)
{
    j->whole = NULL;
    if (!s->whole_valid)
        return;
    if (sched_shape_renew(s, j->shape) < 0 || !j->shape->alike || !j->shape->possible)
        sched_alike_drop(s);
    else if (j->shape->available && sched_whole_could(s->whole, j->shape->req.nnodes) &&
             add(s, j) < 0)
        sched_alike_drop(s);
}

void sched_alike_removed(sched_t *s, struct job *j)
{
    if (s->whole_valid && j->whole)
        sched_whole_remove(s->whole, j->whole);
    s->moved += j->whole != NULL;
    j->whole = NULL;
}

void sched_alike_held(sched_t *s, struct claim *c)
{
    c->whole = NULL;
    if (!s->whole_starts)
        sched_alike_drop(s);
}

void sched_alike_released(sched_t *s, struct claim *c)
{
    if (s->whole_valid && c->whole && !c->shares)
        sched_whole_end(s->whole, c->whole, s->now);
    else
        sched_alike_drop(s);
    c->whole = NULL;
}

/* --- a new copy --- */

/* Add a claim to the engine, with the usable nodes of which it is the last claim to end. */
static int copy_claim(sched_t *s, struct claim *c)
{
    struct sched_set set = {0};
    struct sched_set marks = {0};
    int rc = sched_choose_set(c, &marks);

    c->shares = false;
    for (size_t i = 0; rc == 0 && i < c->npieces; i++) {
        const struct piece *p = sched_claim_piece(c, i);
        const struct node *nd = &s->map->nodes[p->node];

        c->shares |= nd->nheld > 1;
        if (nd->usable && nd->held_last->claim == c)
            rc = sched_place_set_add(&set, p->node, 1);
    }
    if (rc < 0) {
        sched_place_set_clear(&set);
        sched_place_set_clear(&marks);
        return -1;
    }
    marks.crosses = c->crosses ? c->crosses : SCHED_CROSS_NOTHING;
    c->whole = sched_whole_run(s->whole, c->id, &set, &marks, c->end, c);
    return c->whole ? 0 : -1;
}

static int copy_all(sched_t *s)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(s->held, &pos, NULL, NULL, &val)) {
        if (copy_claim(s, val) < 0)
            return -1;
    }
    for (struct sched_tree_node *n = sched_tree_first(&s->order); n;
         n = sched_tree_after(&s->order, sched_tree_key(n))) {
        struct job *j = sched_job_of_order(n);

        if (!j->shape->available || !sched_whole_could(s->whole, j->shape->req.nnodes))
            j->whole = NULL;
        else if (add(s, j) < 0)
            return -1;
    }
    return 0;
}

static bool make(sched_t *s, enum sched_whole_queue queue, uint32_t reservations)
{
    sched_whole_t *former = s->whole; /* jobs still refer to reservations there */
    bool ok;

    s->whole = sched_whole_create_on(s->map->sw, s->node->node, s->node_state, queue,
                                     sched_builtin_depth(s->queue, s->queue_state), reservations);
    ok = s->whole != NULL;
    if (ok) {
        sched_whole_usable(s->whole, s->map->at_least);
        ok = copy_all(s) == 0;
        s->whole->ended = s->moved != s->moved_before;
    }
    sched_whole_destroy(former);
    s->work += s->map->n / 4 + sched_tree_size(&s->order) / 2;
    s->whole_valid = ok;
    s->whole_forget = !ok;
    if (!ok)
        sched_alike_destroy(s);
    return ok;
}

/* --- the copy is dropped --- */

struct due {
    double start;
    struct job *job;
};

static int by_start(const void *x, const void *y)
{
    const struct due *a = x;
    const struct due *b = y;

    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->job->id < b->job->id ? -1 : a->job->id > b->job->id;
}

/* Hand over to sched_pass.c, which gets the reservations in the order of their start, so that there
 * are nodes for each.  A reservation is lost if there are no nodes for it; if memory is short, all
 * are lost. */
static void hand_over(sched_t *s)
{
    bool keep = !s->whole_forget && !s->choices && sched_builtin_reserves_all(s->queue) &&
                !sched_builtin_replans(s->queue);
    size_t count = sched_tree_size(&s->order), n = 0;
    struct due *due = NULL;

    if (!s->whole && !s->whole_forget)
        return;
    if (keep)
        due = malloc((count + 1) * sizeof(*due));
    for (struct sched_tree_node *t = sched_tree_first(&s->order); t;
         t = sched_tree_after(&s->order, sched_tree_key(t))) {
        struct job *j = sched_job_of_order(t);

        if (due && j->whole && j->whole->start < INFINITY && sched_shape_renew(s, j->shape) == 0 &&
            j->shape->alike && !sched_job_late(s, j, j->whole->start))
            due[n++] = (struct due){j->whole->start, j};
        j->whole = NULL;
    }
    if (n > 0)
        qsort(due, n, sizeof(*due), by_start);
    for (size_t i = 0; i < n && i < HANDED_MAX; i++)
        if (sched_exchange_place(s, due[i].job, due[i].start))
            due[i].job->reserved->moved = s->moved_before;
    free(due);
    sched_alike_destroy(s);
    s->whole_forget = false;
}

/* --- passes --- */

static bool all_alike(sched_t *s)
{
    LIST_FOREACH(it, &s->all_shapes)
    {
        struct shape *sh = list_entry(it, struct shape, link);

        if (sched_tree_size(&sh->jobs) + sched_tree_size(&sh->endless) == 0)
            continue;
        if (sched_shape_renew(s, sh) < 0 || !sh->alike)
            return false;
    }
    return true;
}

/* Does a job for gpus or memory alone hold a node, with all cores free?  A job for all cores fits
 * there, but a job for whole nodes does not. */
static bool held_without_cores(const struct map *m)
{
    return m->ncores_at_least[m->max_cores] > m->nempty;
}

static void deny_all(sched_t *s, struct sched_tree *t, const struct sched_ops *ops)
{
    struct sched_tree_node *n;

    while ((n = sched_tree_first(t)))
        sched_pass_deny(s, sched_job_among(n), ops);
}

/* Deny the jobs of shapes that can never fit, and log shapes that wait for missing nodes. */
static void sort_out(sched_t *s, const struct sched_ops *ops)
{
    /* Shapes are not removed during a pass. */
    LIST_FOREACH_SAFE(it, tmp, &s->all_shapes)
    {
        struct shape *sh = list_entry(it, struct shape, link);

        if (sh->epoch != s->epoch)
            continue;
        if (!sh->possible) {
            deny_all(s, &sh->jobs, ops);
            deny_all(s, &sh->endless, ops);
        } else if (!sh->available)
            sched_why_log_missing(s, sh);
    }
}

bool sched_alike_begin(sched_t *s, const struct sched_ops *ops)
{
    enum sched_whole_queue queue;
    uint32_t reservations;

    /* The states of nodes are not known at present: reservations stay. */
    if (s->unheard) {
        sched_alike_drop(s);
        return false;
    }
    if (!s->map->alike || held_without_cores(s->map) || s->expiration < SCHED_NEVER ||
        s->no_score || (s->node->node->order == SCHED_NODES_BY_SCORE) ||
        !sched_builtin_whole(s->queue, s->queue_state, &queue, &reservations) || !all_alike(s)) {
        sched_alike_drop(s);
        hand_over(s);
        return false;
    }
    /* Jobs that are denied here are not in the engine. */
    sort_out(s, ops);
    if (!s->whole_valid && !make(s, queue, reservations))
        return false;
    sched_reservation_cancel_all(s);
    return true;
}

static int start_cb(struct sched_whole_job *w, double now, void *arg)
{
    const struct sched_ops *ops = ((void **)arg)[1];
    sched_t *s = ((void **)arg)[0];
    struct job *j = w->owner;
    struct span sp = {.from = s->now, .to = s->now + j->duration, .now = s->now, .alone = true};
    uint32_t want = j->shape->req.nnodes;
    size_t n = 0;
    struct claim *c;

    for (uint32_t i = 0; i < w->set.nrange && n < want; i++) {
        for (uint32_t k = 0; k < w->set.range[i].count && n < want; k++)
            s->choice[n++] = (struct choice){w->set.range[i].first + k, j->shape->nslots, 0.};
    }
    if (!(c = sched_select_claim(s, j, n, &sp)))
        return -1;
    c->crosses = w->set.crosses;
    j->whole = NULL; /* the engine removes it from its queue itself */
    s->stats.decisions++;
    s->whole_starts = true;
    if (sched_pass_start(s, j, c, ops) < 0) {
        s->whole_starts = false;
        j->whole = w;
        return -1;
    }
    s->whole_starts = false;
    c->whole = w;
    c->shares = false;
    w->owner = c;
    return 0;
}

bool sched_alike_pass(sched_t *s, const struct sched_ops *ops)
{
    void *arg[2] = {s, (void *)(uintptr_t)ops};
    struct sched_whole_ops whole_ops = {start_cb, arg};
    double next = sched_whole_next(s->whole);
    size_t budget = s->budget > s->work ? s->budget - s->work : 1;
    const struct sched_whole_job *head;
    int rc;

    /* A timer may expire slightly before its reservation begins. */
    if (next > s->now && next <= s->now + SCHED_EPSILON)
        s->now = next;
    rc = sched_whole_pass(s->whole, s->now, budget, &whole_ops);
    s->work = s->budget;
    if (rc < 0 && errno == EINVAL) {
        s->no_score = true;
        s->grown++; /* shapes that the policy has refused may fit */
        s->stats.fallbacks++;
        sched_say(s, "node policy %s could not select nodes: lowest ranks are taken",
                  s->node->name);
        sched_alike_drop(s);
        sched_touch(s); /* sched_pass.c starts the jobs that were not considered */
    } else if (rc < 0)
        sched_alike_drop(s);
    head = rc == 0 ? sched_whole_head(s->whole) : NULL;
    s->stopped = head && s->whole_valid ? head->id : 0;
    return rc != 1;
}
