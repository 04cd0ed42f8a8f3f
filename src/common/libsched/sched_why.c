/* sched_why.c - the expected start of a job, and the reason why it still waits.
 *
 * A job with a reservation starts at that time at the latest.  For the other jobs among the first
 * DEPTH that wait, temporary reservations are made, their times noted, and the reservations
 * canceled.  An estimate thus assumes that no job arrives or ends early.  Estimates are made on
 * request, and at most once a second.
 *
 * Failure: ENOENT for a job that does not wait; ENOMEM; or a reason without an estimate.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched_private.h"
#include "sched_topology.h"
#include "sched_whole_private.h"

#define DEPTH 64
#define EVERY 1. /* seconds */
#define DAY 86400
#define LOGGED_MAX 8 /* lines of the log in a pass */
#define LIST_MAX 60  /* characters of a list of ranks */

struct text {
    char *at;
    size_t left;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->at, t->left, fmt, ap);
    va_end(ap);
    if (n > 0) {
        size_t used = (size_t)n < t->left ? (size_t)n : t->left - 1;

        t->at += used;
        t->left -= used;
    }
}

/* --- estimates --- */

/* The start of the job's reservation in the engine for whole nodes; negative: none. */
static double engine_start(sched_t *s, const struct job *j)
{
    const struct sched_whole_job *head;
    double shadow;
    uint32_t extra;

    if (!s->whole_valid || !j->whole)
        return -1.;
    if (j->whole->start < SCHED_NEVER)
        return j->whole->start;
    if (sched_easy_shadow(s->whole, &head, &shadow, &extra) && head->owner == j)
        return shadow;
    return -1.;
}

static void estimate_one(sched_t *s, struct job *j, double *floor)
{
    double when = s->now;
    size_t n;

    j->estimated = s->change;
    j->estimate = -1.;
    if (sched_shape_renew(s, j->shape) < 0 || !j->shape->available || sched_job_late(s, j, s->now))
        return;
    if (j->reserved && j->reserved->start > s->now)
        when = j->reserved->start;
    else if ((n = sched_plan_find(s, j, j->reserved, SCHED_NEVER, &when)) == 0) {
        /* It delays other jobs until it is too late for it. */
        if (sched_job_bounded(s, j) && sched_job_latest(s, j) > *floor)
            *floor = sched_job_latest(s, j);
        return;
    } else if (!j->reserved)
        sched_reservation_add(s, j, n, when);
    if (sched_builtin_strict(s->queue) && when < *floor)
        when = *floor;
    *floor = when;
    if (!sched_job_late(s, j, when))
        j->estimate = when;
}

static void estimates(sched_t *s, double now)
{
    struct job *made[DEPTH];
    size_t nmade = 0;
    double saved = s->now;
    double floor = now;
    struct sched_tree_node *n = sched_tree_first(&s->order);

    if (s->estimated == s->change ||
        (s->estimated != 0 && now >= s->estimated_at && now < s->estimated_at + EVERY))
        return;
    s->now = now;
    sched_exchange_forget(s);
    s->guessing = true;
    for (size_t i = 0; n && i < DEPTH; i++, n = sched_tree_after(&s->order, sched_tree_key(n))) {
        struct job *j = sched_job_of_order(n);
        bool had = j->reserved != NULL;

        estimate_one(s, j, &floor);
        if (!had && j->reserved)
            made[nmade++] = j;
    }
    while (nmade > 0)
        sched_reservation_cancel(s, made[--nmade]);
    s->now = saved;
    s->guessing = false;
    s->estimated = s->change;
    s->estimated_at = now;
}

/* --- the reason in words --- */

/* "4 nodes with 8 cores each", "16 slots of 2 cores", ... */
static void put_need(struct text *t, const struct shape *sh)
{
    uint32_t count = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
    const char *sep = " ";

    if (sh->req.nnodes > 0)
        put(t, "%u %snode%s", count, sh->req.exclusive ? "whole " : "", count == 1 ? "" : "s");
    else if (sh->gpus == 0 && sh->memory == 0 && !sh->req.exclusive) {
        uint64_t cores = (uint64_t)count * sh->cores;

        put(t, "%ju core%s", (uintmax_t)cores, cores == 1 ? "" : "s");
        if (sh->cores > 1)
            put(t, " by %u", sh->cores);
        return;
    } else
        put(t, "%u slot%s", count, count == 1 ? "" : "s");
    if (sh->cores > 0 && !(sh->req.exclusive && sh->req.cores <= 1)) {
        put(t, "%swith %u core%s", sep, sh->cores, sh->cores == 1 ? "" : "s");
        sep = ", ";
    }
    if (sh->gpus > 0) {
        put(t, "%s%s%u gpu%s", sep, *sep == ' ' ? "with " : "", sh->gpus, sh->gpus == 1 ? "" : "s");
        sep = ", ";
    }
    if (sh->memory > 0) {
        put(t, "%s%s%ju MiB", sep, *sep == ' ' ? "with " : "", (uintmax_t)sh->memory);
        sep = ", ";
    }
    if (*sep == ',' && count > 1)
        put(t, " each");
}

static void put_time(struct text *t, double when, double now, double shift)
{
    time_t secs = (time_t)(when + shift);
    time_t today = (time_t)(now + shift);
    struct tm tm;

    gmtime_r(&secs, &tm);
    if (secs / DAY != today / DAY)
        put(t, "%d-%02d-%02d ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
    put(t, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static uint64_t count_free(sched_t *s, struct shape *sh)
{
    if (sh->counted != s->change)
        sh->count = sched_select_count(s, sh);
    sh->counted = s->change;
    return sh->count;
}

/* The claim that ends at that time. */
static const struct claim *ends_at(const sched_t *s, double when)
{
    struct sched_tree_node *n =
        sched_tree_after(&s->ends, (struct sched_tree_key){when - 2. * SCHED_EPSILON, UINT64_MAX});
    const struct claim *c = n ? list_entry(n, struct claim, by_end) : NULL;

    return c && c->end <= when + 2. * SCHED_EPSILON ? c : NULL;
}

/* A claim of a job that overruns its time. */
static const struct claim *overdue(const sched_t *s, double now)
{
    struct sched_tree_node *n = sched_tree_first(&s->ends);
    const struct claim *c = n ? list_entry(n, struct claim, by_end) : NULL;

    return c && c->end <= now ? c : NULL;
}

/* Describe a pool with too little free. */
static bool put_pool(struct text *t, const sched_t *s, const struct shape *sh)
{
    for (size_t i = 0; i < sh->req.npools; i++) {
        const struct pool *p = &s->map->pools[sh->pools[i]];
        uint64_t free = p->total > p->used ? p->total - p->used : 0;

        if (free < sh->req.pools[i].count) {
            put(t, "waits for %ju of %s: %ju %s free", (uintmax_t)sh->req.pools[i].count, p->name,
                (uintmax_t)free, free == 1 ? "is" : "are");
            return true;
        }
    }
    return false;
}

static void put_holder(struct text *t, const sched_t *s, double when, double now, double shift)
{
    const struct claim *c = when > 0. ? ends_at(s, when) : NULL;

    if (c && c->end - now > SCHED_HORIZON / 2.)
        put(t, "; job %ju holds the rest and has no time limit", (uintmax_t)c->id);
    else if (c) {
        put(t, "; job %ju holds the rest until ", (uintmax_t)c->id);
        put_time(t, c->end, now, shift);
    } else if ((c = overdue(s, now)))
        put(t, "; job %ju should have ended", (uintmax_t)c->id);
}

/* The job at which the last pass stopped, or else the first one. */
static const struct job *stopped_at(const sched_t *s)
{
    const struct job *j = s->stopped ? hmap_get_u64(s->jobs, s->stopped) : NULL;

    return j && sched_tree_has(&j->order) ? j : sched_job_of_order(sched_tree_first(&s->order));
}

/* For the engine for whole nodes: describe the reservation that the job would delay. */
static bool put_delayed(struct text *t, sched_t *s, const struct job *j, double now, double shift)
{
    const struct sched_whole_job *head;
    double shadow;
    uint32_t extra;

    if (!s->whole_valid || !sched_easy_shadow(s->whole, &head, &shadow, &extra) || head->owner == j)
        return false;
    put(t, "would delay job %ju, which is to start at ", (uintmax_t)head->id);
    put_time(t, shadow > now ? shadow : now, now, shift);
    if (s->node->node->refuses)
        put(t, " on a set of nodes");
    else
        put(t, " on any %u nodes", head->nodes);
    return true;
}

/* There are enough free nodes, but the policy refuses. */
static bool put_refused(struct text *t, sched_t *s, const struct job *j, double now)
{
    struct sched_plugin_job view;
    char why[160];

    if (!s->whole_valid || !j->whole || !s->node->node->refuses)
        return false;
    sched_job_view(j, &view);
    if (!sched_topology_why(s->node->node, s->node_state, &view, sched_place_view(s->whole->place),
                            now, s->map->names.leaf_name, s->map->names.pod_name, why, sizeof(why)))
        return false;
    put(t, "%s", why);
    return true;
}

static void put_reason(struct text *t, sched_t *s, struct job *j, double when, double now,
                       double shift)
{
    struct shape *sh = j->shape;
    uint64_t want = sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots;
    size_t place = sched_tree_place(&s->order, sched_tree_key(&j->order));
    const struct job *first = stopped_at(s);
    uint64_t have = count_free(s, sh);

    if (!sh->req.nnodes && sh->gpus == 0 && sh->memory == 0 && !sh->req.exclusive) {
        want *= sh->cores;
        have *= sh->cores;
    }
    if (have < want) {
        put(t, "waits for ");
        put_need(t, sh);
        put(t, ": %ju %s free", (uintmax_t)have, have == 1 ? "is" : "are");
        put_holder(t, s, when, now, shift);
    } else if (put_pool(t, s, sh))
        put_holder(t, s, when, now, shift);
    else if (sched_builtin_strict(s->queue) &&
             sched_tree_before(sched_tree_key(&first->order), sched_tree_key(&j->order)))
        put(t, "waits behind job %ju: nobody passes it (fcfs)", (uintmax_t)first->id);
    else if (put_refused(t, s, j, now))
        ;
    else if (put_delayed(t, s, j, now, shift))
        ;
    else if (s->nreserved > 0 && s->reserved[0]->job != j) {
        put(t, "would delay job %ju, which is to start at ", (uintmax_t)s->reserved[0]->job->id);
        put_time(t, s->reserved[0]->start > now ? s->reserved[0]->start : now, now, shift);
        if (sched_exchange_movable(s, s->reserved[0]))
            put(t, " on any %u nodes", s->reserved[0]->job->shape->req.nnodes);
        else
            put(t, " on particular nodes");
    } else if (s->whole_valid && j->whole && j->whole->start < SCHED_NEVER) {
        put(t, "has any %u nodes reserved from ", sh->req.nnodes);
        put_time(t, j->whole->start, now, shift);
        put(t, " on");
    } else {
        put(t, "is about to be considered");
        return;
    }
    if (when < 0. && sched_job_bounded(s, j) && j->estimated != 0 && j->estimated == s->estimated) {
        put(t, "; as it looks, its time limit would end after ");
        put_time(t, s->expiration, now, shift);
        put(t, ", when the resources go");
    }
    if (place > 0)
        put(t, "; %zu job%s before it", place, place == 1 ? " is" : "s are");
}

/* "rank 3 is down", "ranks 4-5,9 are drained": of the nodes that the request allows.  Instead of a
 * long list, their number. */
static void put_ranks(struct text *t, const struct map *m, const struct shape *sh, bool drained)
{
    idset_t *ranks = idset_create();
    char *list = NULL;
    size_t n = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        const struct node *nd = &m->nodes[i];

        if (nd->usable || nd->drained != drained || !sched_shape_node_could(m, sh, i))
            continue;
        n++;
        if (ranks && idset_set(ranks, nd->rank) < 0) {
            idset_destroy(ranks);
            ranks = NULL;
        }
    }
    if (ranks && n > 0)
        list = idset_format(ranks, 0);
    if (n > 0 && list && strlen(list) <= LIST_MAX)
        put(t, "; rank%s %s %s", n == 1 ? "" : "s", list, n == 1 ? "is " : "are ");
    else if (n > 0)
        put(t, "; %zu node%s", n, n == 1 ? " is " : "s are ");
    if (n > 0)
        put(t, "%s", drained ? "drained" : "down");
    free(list);
    idset_destroy(ranks);
}

/* Too few of the nodes that the request allows are up. */
static void put_missing(struct text *t, const sched_t *s, const struct shape *sh)
{
    size_t up = sched_shape_suited(s, sh);

    put(t, "waits for ");
    put_need(t, sh);
    put(t, ": only %zu %s up", up,
        sh->req.nnodes > 0 ? (up == 1 ? "such node is" : "such nodes are") : "are");
    put_ranks(t, s->map, sh, false);
    put_ranks(t, s->map, sh, true);
}

void sched_why_log_missing(sched_t *s, struct shape *sh)
{
    struct sched_tree_node *n = sched_tree_first(&sh->jobs);
    char why[SCHED_REASON_MAX];
    struct text text = {why, sizeof(why)};
    const struct job *j = n || (n = sched_tree_first(&sh->endless)) ? sched_job_among(n) : NULL;

    if (!j || sh->missed || s->unheard || s->nmissed >= LOGGED_MAX)
        return;
    s->nmissed++;
    put_missing(&text, s, sh);
    sched_say(s, "job %ju %s", (uintmax_t)j->id, why);
    sh->missed = true;
}

/* Describe an obstacle that keeps the job from being considered at all. */
static bool put_obstacle(struct text *t, sched_t *s, const struct job *j, double now, double shift)
{
    const struct shape *sh = j->shape;
    errmsg_t err = {"it requests more than there is"};

    if (j->urgency == 0)
        put(t, "is held");
    else if (!s->ready)
        put(t, "waits until the resources are known");
    else if (!s->enabled)
        put(t, "waits: no jobs are started at present");
    else if (s->unheard)
        put(t, "waits until it is known which nodes are up: the module resrc does not answer");
    else if (!sh->possible) {
        resgraph_satisfiable(s->map->graph, &sh->req, &err);
        put(t, "can never run: %s", err.text);
    } else if (sched_job_late(s, j, now)) {
        put(t, "can never run: its time limit would end at ");
        put_time(t, now + j->duration, now, shift);
        put(t, " at the earliest, and the resources go at ");
        put_time(t, s->expiration, now, shift);
    } else if (!sh->available)
        put_missing(t, s, sh);
    else if (j->refused)
        put(t, "is kept back by the policy %s: %s", s->queue->name, j->refused);
    else
        return false;
    return true;
}

int sched_why_estimate(sched_t *s, uint64_t id, double now, double shift, double *t,
                       char why[SCHED_REASON_MAX])
{
    struct job *j = hmap_get_u64(s->jobs, id);
    struct text text = {why, SCHED_REASON_MAX};
    double when = -1.;

    if (!j) {
        errno = ENOENT;
        return -1;
    }
    *t = -1.;
    why[0] = '\0';
    if (s->ready && sched_shape_renew(s, j->shape) < 0)
        return -1;
    if (put_obstacle(&text, s, j, now, shift))
        return 0;
    estimates(s, now);
    if (j->reserved)
        when = j->reserved->start;
    else if ((when = engine_start(s, j)) >= 0.)
        ;
    else if (j->estimated != 0 && j->estimated == s->estimated)
        when = j->estimate;
    put_reason(&text, s, j, when, now, shift);
    if (when >= 0. && when < now + SCHED_HORIZON / 2.)
        *t = when > now ? when : now;
    return 0;
}
