/* sched_whole.c - the engine for jobs of whole nodes that are alike: its calls, and fcfs.
 *
 *    phase    what happens                                       then (by)
 *    IDLE     a pass begins                                      HEADS (sched_whole_pass)
 *    HEADS    jobs start from the front.  At the first that      BEHIND (heads), or IDLE
 *             does not fit (the head) fcfs ends; easy            (sched_whole_pass)
 *             continues behind it (sched_easy.c).  Conservative
 *             and replan do their pass (sched_reserve.c)
 *    BEHIND   each next job that may start is found and starts   IDLE (sched_whole_pass); HEADS if
 *                                                                the head is removed
 *                                                                (sched_whole_remove)
 *
 * Invariants:
 *  1. A job is in `queue` or in `ends`.  The nodes that are not free in `place` are those of the
 *     sets of jobs in `ends`, and those that are down.
 *  2. Each job of the queue could be placed on the empty machine, so no head waits forever.
 *  3. The phase changes by the transitions of `moves` only.
 *
 * Failure: a pass returns -1 and has ended; the jobs that it has started keep running.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/invariant.h"
#include "sched_private.h"
#include "sched_whole_private.h"

#define FAR 1024 /* units of `budget` for one evaluation of a later state */

/* --- options --- */

static const struct {
    const char *name;
    enum sched_whole_queue queue;
} queues[] = {
    {"fcfs", SCHED_WHOLE_FCFS},
    {"easy", SCHED_WHOLE_EASY},
    {"conservative", SCHED_WHOLE_CONSERVATIVE},
    {"replan", SCHED_WHOLE_REPLAN},
};

struct found_queue {
    enum sched_whole_queue queue;
    uint32_t depth, reservations;
};

/* Parse the text behind ':', with the meaning that it has in a session. */
static int queue_argument(const char *name, const char *arg, struct found_queue *found,
                          errmsg_t *err)
{
    const struct sched_policy *p = sched_builtin(name);
    char why[160] = "it does not say why";
    void *state = p->queue->create(arg, why, sizeof(why));

    if (!state)
        return errmsg_fail(err, EINVAL, "queue policy %s: %.160s", name, why);
    sched_builtin_whole(p, state, &found->queue, &found->reservations);
    found->depth = sched_builtin_depth(p, state);
    if (p->queue->destroy)
        p->queue->destroy(state);
    return 0;
}

/* The policy "NAME[:ARG]". */
static int find_queue(const char *spec, struct found_queue *found, errmsg_t *err)
{
    size_t len = strcspn(spec, ":");

    for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
        if (strlen(queues[i].name) != len || memcmp(queues[i].name, spec, len) != 0)
            continue;
        *found = (struct found_queue){queues[i].queue, 0, UINT32_MAX};
        return spec[len] ? queue_argument(queues[i].name, spec + len + 1, found, err) : 0;
    }
    return errmsg_fail(err, EINVAL,
                       "there is no queue policy '%.60s': fcfs, easy, conservative and replan are",
                       spec);
}

/* The table of the policy "NAME[:ARG]", and its state. */
static int find_select(const char *spec, const struct sched_node_policy **policy, void **state,
                       errmsg_t *err)
{
    size_t len = strcspn(spec, ":");
    const char *arg = spec[len] ? spec + len + 1 : NULL;
    const struct sched_policy *p = NULL;
    char name[64];
    char why[160] = "it does not say why";

    if (len < sizeof(name)) {
        memcpy(name, spec, len);
        name[len] = '\0';
        p = sched_builtin(strcmp(name, "count") == 0 ? "first-fit" : name);
    }
    if (!p || !p->node)
        return errmsg_fail(err, EINVAL,
                           "there is no node policy '%.60s': count, first-fit, best-fit, spread, "
                           "compact, buddy and interference-free are",
                           spec);
    *policy = p->node;
    if (!(*state = p->node->create(arg, why, sizeof(why))))
        return errmsg_fail(err, EINVAL, "node policy %.60s: %.160s", name, why);
    return 0;
}

static void drop_state(const struct sched_node_policy *policy, void *state)
{
    if (policy && policy->destroy && state)
        policy->destroy(state);
}

static int together(const struct sched_node_policy *policy, enum sched_whole_queue queue,
                    const char *select, errmsg_t *err)
{
    if (policy->refuses && queue >= SCHED_WHOLE_CONSERVATIVE)
        return errmsg_fail(err, EINVAL,
                           "%s does not go with the node policy %.60s, which may refuse though "
                           "nodes enough are free: take fcfs or easy",
                           queues[queue].name, select);
    return 0;
}

int sched_whole_check(const struct sched_whole_options *o, errmsg_t *err)
{
    const struct sched_node_policy *policy = NULL;
    struct found_queue found;
    void *state = NULL;
    int rc = -1;

    if (find_queue(o->queue, &found, err) == 0 && find_select(o->select, &policy, &state, err) == 0)
        rc = together(policy, found.queue, o->select, err);
    int saved = errno;
    drop_state(policy, state);
    errno = saved;
    return rc;
}

bool sched_whole_is_topology(const char *select)
{
    const struct sched_node_policy *policy = NULL;
    void *state = NULL;
    bool refuses = find_select(select, &policy, &state, NULL) == 0 && policy->refuses;

    drop_state(policy, state);
    return refuses;
}

/* --- life --- */

static sched_switches_t *switches_of(const struct sched_whole_options *o)
{
    const fattree_t *t = o->tree;

    if (!t)
        return sched_place_switches_create(o->nnodes, NULL, 0, NULL, 0);
    return sched_place_switches_create(fattree_nnodes(t), fattree_leaves(t), fattree_nleaves(t),
                                       fattree_pods(t), fattree_npods(t));
}

/* Initialize all members of an engine without jobs.  0, or -1. */
static int start_empty(sched_whole_t *w, bool count)
{
    bool by_switch = w->policy->order == SCHED_NODES_BY_SELECT;

    w->next = INFINITY;
    w->now = -INFINITY;
    w->place = sched_place_create(w->sw, count, by_switch);
    w->empty = sched_place_create(w->sw, count, by_switch);
    if (w->policy->refuses) {
        w->later = sched_place_create(w->sw, count, by_switch);
        w->beside = sched_place_create(w->sw, count, by_switch);
    }
    if (!w->place || !w->empty || (w->policy->refuses && (!w->later || !w->beside)))
        return -1;
    return sched_profile_reset(&w->profile, -INFINITY, sched_place_nfree(w->place));
}

sched_whole_t *sched_whole_create(const struct sched_whole_options *o, errmsg_t *err)
{
    bool count = strcmp(o->select, "count") == 0;
    sched_whole_t *w = calloc(1, sizeof(*w));
    struct found_queue found;

    if (!w) {
        errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
        return NULL;
    }
    if (find_queue(o->queue, &found, err) < 0 ||
        find_select(o->select, &w->policy, &w->state, err) < 0 ||
        together(w->policy, found.queue, o->select, err) < 0) {
        sched_whole_destroy(w);
        return NULL;
    }
    w->queue_policy = found.queue;
    w->depth = found.depth ? found.depth : o->depth;
    w->reservations = found.reservations;
    w->sw = switches_of(o);
    if (!w->sw || start_empty(w, count) < 0) {
        sched_whole_destroy(w);
        errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
        return NULL;
    }
    return w;
}

sched_whole_t *sched_whole_create_on(const sched_switches_t *sw,
                                     const struct sched_node_policy *policy, void *state,
                                     enum sched_whole_queue queue, uint32_t depth,
                                     uint32_t reservations)
{
    sched_whole_t *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->borrowed = true;
    w->sw = (sched_switches_t *)(uintptr_t)sw;
    w->policy = policy;
    w->state = state;
    w->queue_policy = queue;
    w->depth = depth;
    w->reservations = reservations;
    w->overdue = SCHED_OVERDUE;
    w->stale = true;
    w->ended = true;
    if (start_empty(w, false) < 0) {
        sched_whole_destroy(w);
        errno = ENOMEM;
        return NULL;
    }
    return w;
}

void sched_whole_usable(sched_whole_t *w, const uint64_t *usable)
{
    const struct sched_plugin_view *v = sched_place_view(w->empty);
    uint32_t leaf = 0;
    uint32_t pod = 0;

    for (uint32_t n = 0; n < v->sw->nnodes; n++) {
        if ((usable[n / 64] >> (n % 64)) & 1)
            continue;
        sched_place_set_free(w->place, n, false);
        sched_place_set_free(w->empty, n, false);
    }
    if (!v->leaf_free)
        return;
    for (uint32_t p = 0; p < v->sw->npods; p++)
        pod = v->pod_free[p] > pod ? v->pod_free[p] : pod;
    leaf = v->leaf_most;
    sched_place_limit(w->place, leaf, pod);
    sched_place_limit(w->empty, leaf, pod);
}

struct sched_whole_job *sched_whole_run(sched_whole_t *w, uint64_t id, struct sched_set *set,
                                        struct sched_set *marks, double end, void *owner)
{
    struct sched_whole_job *j = calloc(1, sizeof(*j));
    struct sched_entry e = {end, id, 0., set->nodes, j};

    if (!j || !(j->marks = malloc(sizeof(*j->marks))) || sched_line_insert(&w->ends, &e) < 0) {
        if (j)
            free(j->marks);
        free(j);
        sched_place_set_clear(set);
        sched_place_set_clear(marks);
        errno = ENOMEM;
        return NULL;
    }
    j->id = id;
    j->end = end;
    j->nodes = set->nodes;
    j->running = true;
    j->owner = owner;
    j->set = *set;
    j->set.crosses = SCHED_CROSS_NOTHING;
    *j->marks = *marks;
    sched_place_take(w->place, &j->set);
    sched_place_mark(w->place, j->marks, 1);
    return j;
}

const struct sched_whole_job *sched_whole_head(const sched_whole_t *w)
{
    struct sched_at first = {0, 0};
    const struct sched_entry *e = sched_line_entry(&w->queue, &first);

    return e ? e->job : NULL;
}

static const struct transition moves[] = {
    {SCHED_WHOLE_IDLE, SCHED_WHOLE_HEADS, "sched_whole_pass"},
    {SCHED_WHOLE_HEADS, SCHED_WHOLE_BEHIND, "heads"},
    {SCHED_WHOLE_BEHIND, SCHED_WHOLE_HEADS, "sched_whole_remove"},
    {SCHED_WHOLE_HEADS, SCHED_WHOLE_IDLE, "sched_whole_pass, sched_whole_abort"},
    {SCHED_WHOLE_BEHIND, SCHED_WHOLE_IDLE, "sched_whole_pass, sched_whole_abort"},
    {SCHED_WHOLE_IDLE, SCHED_WHOLE_IDLE, "sched_whole_abort"},
    TRANSITION_END,
};

static void set_phase(sched_whole_t *w, enum sched_whole_phase phase)
{
    TRANSITION(3, moves, w->phase, phase);
    w->phase = phase;
}

void sched_whole_abort(sched_whole_t *w)
{
    set_phase(w, SCHED_WHOLE_IDLE);
}

void sched_whole_give_back(sched_place_t *place, const struct sched_whole_job *j)
{
    sched_place_give(place, &j->set);
    if (j->marks)
        sched_place_mark(place, j->marks, -1);
}

static void job_free(struct sched_whole_job *j)
{
    if (j->marks)
        sched_place_set_clear(j->marks);
    free(j->marks);
    sched_place_set_clear(&j->set);
    free(j);
}

static void free_line(struct sched_line *l)
{
    struct sched_at at = {0, 0};

    for (struct sched_entry *e; (e = sched_line_entry(l, &at)); sched_line_next(l, &at))
        job_free(e->job);
    sched_line_clear(l);
}

void sched_whole_destroy(sched_whole_t *w)
{
    int saved = errno;

    if (!w)
        return;
    free_line(&w->queue);
    free_line(&w->ends);
    for (struct sched_whole_job *j; (j = w->spare);) {
        w->spare = j->owner;
        job_free(j);
    }
    if (!w->borrowed)
        drop_state(w->policy, w->state);
    sched_place_destroy(w->place);
    sched_place_destroy(w->empty);
    sched_place_destroy(w->later);
    sched_place_destroy(w->beside);
    sched_place_set_clear(&w->R);
    sched_profile_clear(&w->profile);
    if (!w->borrowed)
        sched_place_switches_destroy(w->sw);
    free(w);
    errno = saved;
}

/* --- reports --- */

static void view_of(const struct sched_whole_job *j, struct sched_plugin_job *v)
{
    memset(v, 0, sizeof(*v));
    v->id = j->id;
    v->t_submit = j->submit;
    v->duration = j->estimate;
    v->nnodes = j->nodes;
    v->nslots = 1;
    v->exclusive = true;
}

int sched_whole_select(sched_whole_t *w, const sched_place_t *place, struct sched_whole_job *j,
                       double at, struct sched_set *set)
{
    struct sched_plugin_job v;

    view_of(j, &v);
    w->work += 4;
    return sched_place_select(place, w->policy, w->state, &v, at, set);
}

int sched_whole_fits(sched_whole_t *w, const sched_place_t *place, const struct sched_whole_job *j,
                     double at)
{
    struct sched_plugin_job v;

    w->work++;
    if (j->nodes > sched_place_nfree(place))
        return 0;
    if (!w->policy->refuses)
        return 1;
    view_of(j, &v);
    return sched_place_fits(place, w->policy, w->state, &v, at);
}

/* If the policy fails here, it also fails in the pass, which then uses no policy. */
bool sched_whole_could(const sched_whole_t *w, uint32_t nodes)
{
    struct sched_plugin_job v = {.id = 1, .nnodes = nodes, .nslots = 1, .exclusive = true};

    return nodes > 0 && nodes <= sched_place_nfree(w->empty) &&
           sched_place_fits(w->empty, w->policy, w->state, &v, 0.) != 0;
}

static void spare_job(sched_whole_t *w, struct sched_whole_job *j)
{
    if (j->marks) {
        job_free(j);
        return;
    }
    j->owner = w->spare;
    w->spare = j;
}

struct sched_whole_job *sched_whole_add(sched_whole_t *w, double key, uint64_t id, double submit,
                                        uint32_t nodes, double estimate, void *owner)
{
    struct sched_whole_job *j = w->spare;
    struct sched_entry e = {key, id, estimate, nodes, NULL};
    struct sched_set set = {0};

    if (j) {
        w->spare = j->owner;
        set = j->set; /* its memory is used again */
        set.nrange = set.nodes = 0;
    } else if (!(j = malloc(sizeof(*j))))
        return NULL;
    *j = (struct sched_whole_job){.key = key,
                                  .id = id,
                                  .submit = submit,
                                  .estimate = estimate,
                                  .nodes = nodes,
                                  .start = INFINITY,
                                  .set = set,
                                  .owner = owner};
    e.job = j;
    if (sched_line_insert(&w->queue, &e) < 0) {
        spare_job(w, j);
        return NULL;
    }
    w->unreserved++;
    return j;
}

void sched_whole_remove(sched_whole_t *w, struct sched_whole_job *j)
{
    sched_line_remove(&w->queue, j->key, j->id);
    if (w->queue_policy >= SCHED_WHOLE_CONSERVATIVE)
        sched_reserve_gone(w, j);
    if (w->head == j) {
        w->head = NULL;
        w->known = false;
        if (w->phase == SCHED_WHOLE_BEHIND)
            set_phase(w, SCHED_WHOLE_HEADS);
    }
    spare_job(w, j);
}

void sched_whole_end(sched_whole_t *w, struct sched_whole_job *j, double now)
{
    sched_line_remove(&w->ends, j->end, j->id);
    sched_whole_give_back(w->place, j);
    w->ended = true;
    if (w->queue_policy >= SCHED_WHOLE_CONSERVATIVE)
        sched_reserve_ended(w, j, now);
    spare_job(w, j);
}

size_t sched_whole_nwaiting(const sched_whole_t *w)
{
    return w->queue.count;
}

/* --- starting --- */

int sched_whole_start(sched_whole_t *w, struct sched_at *at, const struct sched_whole_ops *ops)
{
    struct sched_whole_job *j = sched_line_entry(&w->queue, at)->job;
    double reserved = j->start;
    struct sched_entry e;

    j->start = w->now;
    j->end = w->now + j->estimate;
    j->running = true;
    e = (struct sched_entry){j->end, j->id, j->estimate, j->set.nodes, j};
    if (sched_line_insert(&w->ends, &e) < 0 || ops->start(j, w->now, ops->arg) != 0) {
        struct sched_at there = sched_line_from(&w->ends, e.a, e.b);
        struct sched_entry *in = sched_line_entry(&w->ends, &there);
        int saved = errno;

        if (in && in->job == j)
            sched_line_take(&w->ends, &there);
        j->start = reserved;
        j->running = false;
        errno = saved;
        return -1;
    }
    sched_line_take(&w->queue, at);
    sched_place_take(w->place, &j->set);
    w->work += 8;
    return 0;
}

/* --- the pass --- */

static int heads(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    while ((e = sched_line_entry(&w->queue, &at))) {
        struct sched_whole_job *j = e->job;
        int rc = sched_whole_fits(w, w->place, j, w->now);

        if (rc == 1)
            rc = sched_whole_select(w, w->place, j, w->now, &j->set);
        if (rc < 0 || (rc == 1 && sched_whole_start(w, &at, ops) < 0))
            return -1;
        if (rc == 0) {
            if (w->queue_policy == SCHED_WHOLE_EASY) {
                set_phase(w, SCHED_WHOLE_BEHIND);
                sched_easy_begin(w, at);
            }
            return 0;
        }
        if (w->budget && w->work >= w->budget)
            return 1;
    }
    return 0;
}

static int go_on(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    int rc;

    if (w->queue_policy >= SCHED_WHOLE_CONSERVATIVE)
        return sched_reserve_pass(w, ops);
    if (w->phase == SCHED_WHOLE_HEADS && (rc = heads(w, ops)) != 0)
        return rc;
    if (w->phase == SCHED_WHOLE_BEHIND)
        return sched_easy_pass(w, ops);
    return 0;
}

int sched_whole_pass(sched_whole_t *w, double now, size_t budget, const struct sched_whole_ops *ops)
{
    int rc;

    w->work = 0;
    w->budget = budget;
    if (w->phase == SCHED_WHOLE_IDLE) {
        w->now = now;
        w->head = NULL;
        set_phase(w, SCHED_WHOLE_HEADS);
    }
    if ((rc = go_on(w, ops)) != 1) {
        set_phase(w, SCHED_WHOLE_IDLE);
        w->ended = false;
    }
    return rc;
}

double sched_whole_next(const sched_whole_t *w)
{
    return w->queue_policy >= SCHED_WHOLE_CONSERVATIVE ? w->next : INFINITY;
}
