/* sched_whole.c - the engine for jobs of whole nodes that are alike: its calls, fcfs and easy.
 *
 *    phase    what happens                                       then (by)
 *    IDLE     a pass begins                                      HEADS (sched_whole_pass)
 *    HEADS    jobs start from the front.  At the first that      BEHIND (begin_behind), or IDLE
 *             does not fit (the head) fcfs ends; easy            (sched_whole_pass)
 *             continues behind it.  Conservative and replan
 *             do their pass (sched_reserve.c)
 *    BEHIND   each next job that may start is found and starts   IDLE (sched_whole_pass); HEADS if
 *                                                                the head is removed
 *                                                                (sched_whole_remove)
 *
 * easy, with interchangeable nodes: shadow is the earliest estimated end at which the head has
 * enough nodes, once all jobs that end by then have released theirs; extra is the number of nodes
 * left over.  A job starts if it fits and ends by shadow, or takes at most extra nodes, which then
 * shrinks.
 *
 * easy with a policy that refuses: shadow is the earliest estimated end at which the policy places
 * the head, on a set R.  A job that ends by shadow is placed in the present state; one that ends
 * later is placed in the present state with R and its marks taken (`beside`).  A start is taken in
 * both.
 *
 * Shadow is computed in each pass, and only once a job is found that might start: mostly there is
 * none.
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

#define FAR 1024 /* slots of `budget` for one look at a later state */

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

/* What comes behind the ':' means what it means in a session. */
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

/* Everything that has no jobs yet.  0, or -1. */
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
    {SCHED_WHOLE_HEADS, SCHED_WHOLE_BEHIND, "begin_behind"},
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

/* What a running job holds becomes free, and its marks go. */
static void give_back(sched_place_t *place, const struct sched_whole_job *j)
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

/* A policy that fails here fails in the pass, too, which then does without it. */
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
        set = j->set; /* its room is used again */
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
    give_back(w->place, j);
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

/* --- easy: the reservation of the head --- */

/* Where nodes can be exchanged. */
static void find_shadow(sched_whole_t *w)
{
    uint32_t need = w->head->nodes;
    uint32_t free = sched_place_nfree(w->place);
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    w->shadow = INFINITY;
    w->extra = UINT32_MAX;
    while ((e = sched_line_entry(&w->ends, &at))) {
        double end = sched_whole_ends(w, e->a);

        if (free >= need && end > w->shadow)
            break;
        free += e->nodes;
        w->shadow = end;
        sched_line_next(&w->ends, &at);
        w->work++;
    }
    if (free >= need)
        w->extra = free - need;
    w->known = true;
}

static void limit(sched_whole_t *w, int which)
{
    w->limited = sched_topology_limits_of(
        w->policy, w->state, sched_place_view(which ? w->beside : w->place), &w->limits[which]);
}

/* With a policy that refuses: R, the state beside it, and its limits.  0, or -1. */
static int find_set(sched_whole_t *w)
{
    struct sched_whole_job *head = (struct sched_whole_job *)(uintptr_t)w->head;
    struct sched_at at = {0, 0};
    struct sched_entry *e;

    w->shadow = INFINITY;
    sched_place_copy(w->later, w->place);
    while ((e = sched_line_entry(&w->ends, &at))) {
        const struct sched_whole_job *j = e->job;
        double end = sched_whole_ends(w, e->a);
        int rc;

        give_back(w->later, j);
        w->work += 2;
        sched_line_next(&w->ends, &at);
        e = sched_line_entry(&w->ends, &at);
        if (e && sched_whole_ends(w, e->a) <= end)
            continue;
        if ((rc = sched_whole_fits(w, w->later, head, end)) < 0)
            return -1;
        if (rc == 0)
            continue;
        if ((rc = sched_whole_select(w, w->later, head, end, &w->R)) < 0)
            return -1;
        if (rc == 1) {
            w->shadow = end;
            break;
        }
    }
    sched_place_copy(w->beside, w->place);
    if (w->shadow < INFINITY)
        sched_place_block(w->beside, &w->R);
    limit(w, 1);
    w->known = true;
    return 0;
}

bool sched_whole_shadow(sched_whole_t *w, const struct sched_whole_job **head, double *shadow,
                        uint32_t *extra)
{
    if (w->head && !w->known) {
        w->extra = 0;
        if (!w->policy->refuses)
            find_shadow(w);
        else if (find_set(w) < 0)
            return false;
    }
    if (!w->head || !w->known || !(w->shadow < INFINITY))
        return false;
    *head = w->head;
    *shadow = w->shadow;
    *extra = w->extra;
    return true;
}

/* --- easy: behind the head --- */

static void set_cursor(sched_whole_t *w, const struct sched_at *at)
{
    const struct sched_entry *e = sched_line_entry(&w->queue, at);

    w->cursor_key = e ? e->a : INFINITY;
    w->cursor_id = e ? e->b : UINT64_MAX;
}

static bool at_stop(const sched_whole_t *w, const struct sched_entry *e)
{
    return e->a > w->stop_key || (e->a == w->stop_key && e->b >= w->stop_id);
}

/* The look begins: at the job behind the head, up to the last one that is within the depth. */
static void begin_behind(sched_whole_t *w, struct sched_at at)
{
    struct sched_at stop;
    const struct sched_entry *e;

    w->head = sched_line_entry(&w->queue, &at)->job;
    w->known = w->limited = false;
    set_phase(w, SCHED_WHOLE_BEHIND);
    w->stop_key = INFINITY;
    w->stop_id = UINT64_MAX;
    if (w->depth > 0) {
        stop = sched_line_nth(&w->queue, w->depth);
        if ((e = sched_line_entry(&w->queue, &stop))) {
            w->stop_key = e->a;
            w->stop_id = e->b;
        }
    }
    sched_line_next(&w->queue, &at);
    set_cursor(w, &at);
}

/* Where nodes can be exchanged.  1: the budget is used up; 0: through; -1. */
static int behind_count(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = sched_line_from(&w->queue, w->cursor_key, w->cursor_id);

    for (;;) {
        uint32_t free = sched_place_nfree(w->place);
        uint32_t extra = w->known ? w->extra : UINT32_MAX;
        double shadow = w->known ? w->shadow : INFINITY;
        struct sched_entry *e = NULL;

        if (free > 0)
            e = sched_line_fit(&w->queue, &at, free, extra, w->now, shadow, &w->work);
        if (!e || at_stop(w, e))
            return 0;
        if (!w->known) {
            /* Somebody might start: only now it has to be known.  The same entry is asked again. */
            find_shadow(w);
            continue;
        }
        if (!(w->now + e->time <= w->shadow))
            w->extra -= e->nodes;
        if (sched_whole_select(w, w->place, e->job, w->now,
                               &((struct sched_whole_job *)e->job)->set) != 1 ||
            sched_whole_start(w, &at, ops) < 0)
            return -1;
        if (w->budget && w->work >= w->budget) {
            set_cursor(w, &at);
            return 1;
        }
    }
}

/* Might it start, as far as sums tell? */
static int might(sched_whole_t *w, const struct sched_entry *e, int which)
{
    if (w->limited)
        return sched_limits_fit(&w->limits[which], e->nodes);
    return sched_whole_fits(w, which ? w->beside : w->place, e->job, w->now);
}

/* The next job that might start.  Until R is known, `limits[1]` is not. */
static struct sched_entry *next_beside(sched_whole_t *w, struct sched_at *at)
{
    if (w->limited)
        return sched_line_fit_sizes(&w->queue, at, &w->limits[0], &w->limits[w->known ? 1 : 0],
                                    w->now, w->known ? w->shadow : INFINITY, &w->work);
    return sched_line_fit(&w->queue, at, sched_place_nfree(w->place), UINT32_MAX, 0., 0., &w->work);
}

/* A job that might start: with R known, may it, and where?  1, 0 or -1. */
static int place_beside(sched_whole_t *w, struct sched_entry *e)
{
    struct sched_whole_job *j = e->job;
    int which, rc;

    which = !(w->now + e->time <= w->shadow);
    if (which == 1 && (rc = might(w, e, 1)) != 1)
        return rc;
    return sched_whole_select(w, which ? w->beside : w->place, j, w->now, &j->set);
}

/* With a policy that refuses: likewise. */
static int behind_set(sched_whole_t *w, const struct sched_whole_ops *ops)
{
    struct sched_at at = sched_line_from(&w->queue, w->cursor_key, w->cursor_id);
    struct sched_entry *e;
    int rc;

    limit(w, 0);
    while ((e = next_beside(w, &at)) && !at_stop(w, e)) {
        struct sched_whole_job *j = e->job;

        rc = might(w, e, 0);
        if (rc == 1 && !w->known) {
            /* The same entry is asked again. */
            if (find_set(w) < 0)
                return -1;
            continue;
        }
        if (rc == 1)
            rc = place_beside(w, e);
        if (rc < 0)
            return -1;
        if (rc == 0)
            sched_line_next(&w->queue, &at);
        else {
            if (sched_whole_start(w, &at, ops) < 0)
                return -1;
            /* One that ends by the shadow may have nodes of R. */
            sched_place_block(w->beside, &j->set);
            limit(w, 0);
            limit(w, 1);
        }
        if (w->budget && ++w->work >= w->budget) {
            set_cursor(w, &at);
            return 1;
        }
    }
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
            if (w->queue_policy == SCHED_WHOLE_EASY)
                begin_behind(w, at);
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
        return w->policy->refuses ? behind_set(w, ops) : behind_count(w, ops);
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
