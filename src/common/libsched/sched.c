/* sched.c - the functions for the owner of the scheduler: add and free jobs, change nodes and the
 * inventory.
 *
 * Where a job is:
 *
 *    in ->jobs, ->order and a tree of its shape   it waits
 *    in ->jobs only                               it is held back (urgency 0)
 *    as a claim in ->held and ->ends              it has resources
 *    as a claim in ->later and ->ends             it was freed during the pass under way
 *
 * Invariants:
 *  1. An id is in at most one of these states.
 *  2. During a pass no resource becomes free: freed claims wait in ->later until the pass ends.  A
 *     change of a node's state ends the pass.  A job that did not fit thus still does not fit, and
 *     a pass in slices makes the decisions of an uninterrupted pass.
 *
 * Failure: a call that fails with ENOMEM keeps all jobs and claims.  It may have ended the pass and
 * canceled reservations; sched_inventory() may have put the new inventory into use.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

void sched_say(sched_t *s, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (!s->log)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    s->log(text, s->log_arg);
}

void sched_touch(sched_t *s)
{
    s->dirty = true;
    s->change++;
}

void sched_set_log(sched_t *s, void (*log)(const char *text, void *arg), void *arg)
{
    s->log = log;
    s->log_arg = arg;
}

void sched_enable(sched_t *s, bool on)
{
    if (s->enabled != on)
        sched_touch(s);
    s->enabled = on;
}

int sched_set_expiration(sched_t *s, double t)
{
    if (!(t >= 0.) || isinf(t)) {
        errno = EINVAL;
        return -1;
    }
    sched_pass_end(s);
    s->expiration = t > 0. ? t : SCHED_NEVER;
    s->moved++;
    sched_alike_drop(s);
    sched_touch(s);
    return 0;
}

double sched_expiration(const sched_t *s)
{
    return s->expiration < SCHED_NEVER ? s->expiration : 0.;
}

/* --- jobs of the queue --- */

void sched_job_view(const struct job *j, struct sched_plugin_job *v)
{
    const struct shape *sh = j->shape;

    *v = (struct sched_plugin_job){
        .id = j->id,
        .uid = j->uid,
        .urgency = j->urgency,
        .t_submit = j->t_submit,
        .duration = j->no_limit ? 0. : j->duration,
        .nnodes = sh->req.nnodes,
        .nslots = sh->nslots,
        .cores = sh->req.cores,
        .gpus = sh->req.gpus,
        .memory = sh->req.memory,
        .ncores = (uint64_t)sh->cores * (sh->req.nnodes > 0 ? sh->req.nnodes : sh->nslots),
        .exclusive = sh->req.exclusive,
    };
}

static double sched_job_priority(sched_t *s, struct job *j, double now)
{
    struct sched_plugin_job view;
    double priority;

    if (s->no_priority || !s->queue->queue->priority)
        return j->urgency;
    sched_job_view(j, &view);
    if (s->queue->queue->priority(s->queue_state, &view, now, &priority) == 0 && !isnan(priority))
        return priority;
    s->no_priority = true;
    s->stats.fallbacks++;
    sched_say(s, "queue policy %s gave no priority for job %ju: urgencies count instead",
              s->queue->name, (uintmax_t)j->id);
    return j->urgency;
}

void sched_job_enqueue(sched_t *s, struct job *j, double now)
{
    if (j->urgency == 0) {
        s->nheld_back++;
        return;
    }
    j->order.a = j->among.a = -sched_job_priority(s, j, now);
    j->order.b = j->among.b = j->id;
    j->order.weight = j->no_limit ? -SCHED_NEVER : j->duration;
    j->among.weight = j->duration;
    sched_tree_insert(&s->order, &j->order);
    sched_tree_insert(j->no_limit ? &j->shape->endless : &j->shape->jobs, &j->among);
    sched_alike_added(s, j);
}

void sched_job_dequeue(sched_t *s, struct job *j)
{
    if (!sched_tree_has(&j->order)) {
        s->nheld_back--;
        return;
    }
    sched_alike_removed(s, j);
    sched_tree_remove(&s->order, &j->order);
    sched_tree_remove(j->no_limit ? &j->shape->endless : &j->shape->jobs, &j->among);
}

void sched_job_destroy(sched_t *s, struct job *j)
{
    sched_reservation_cancel(s, j);
    sched_job_dequeue(s, j);
    if (s->sweep == &j->link)
        s->sweep = j->link.next;
    list_remove(&j->link);
    hmap_del_u64(s->jobs, j->id);
    sched_shape_put(s, j->shape);
    sched_bound_drop(j);
    free(j->refused);
    free(j);
}

int sched_add(sched_t *s, const struct sched_job *in, double now, errmsg_t *err)
{
    struct job *j;

    if (in->id == 0 || in->urgency > 31 || !(in->req->duration >= 0.))
        return errmsg_fail(err, EINVAL,
                           "job %ju: ids are from 1, urgencies 0 to 31, durations not negative",
                           (uintmax_t)in->id);
    if (hmap_get_u64(s->jobs, in->id) || hmap_get_u64(s->held, in->id))
        return errmsg_fail(err, EEXIST, "job %ju is known to the scheduler already",
                           (uintmax_t)in->id);
    if (!(j = calloc(1, sizeof(*j))) || !(j->shape = sched_shape_get(s, in->req))) {
        free(j);
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    }
    j->id = in->id;
    j->uid = in->uid;
    j->urgency = in->urgency;
    j->t_submit = in->t_submit;
    j->no_limit = in->req->duration == 0. || in->req->duration > SCHED_HORIZON;
    j->duration = j->no_limit ? SCHED_HORIZON : in->req->duration;
    if (hmap_put_u64(s->jobs, j->id, j) < 0) {
        sched_shape_put(s, j->shape);
        free(j);
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    }
    list_append(&s->all_jobs, &j->link);
    sched_job_enqueue(s, j, now);
    sched_touch(s);
    return 0;
}

int sched_remove(sched_t *s, uint64_t id)
{
    struct job *j = hmap_get_u64(s->jobs, id);

    if (!j) {
        errno = ENOENT;
        return -1;
    }
    s->moved += j->reserved != NULL;
    sched_job_destroy(s, j);
    sched_touch(s);
    return 0;
}

int sched_urgency(sched_t *s, uint64_t id, uint32_t urgency, double now)
{
    struct job *j = hmap_get_u64(s->jobs, id);

    if (!j || urgency > 31) {
        errno = j ? EINVAL : ENOENT;
        return -1;
    }
    s->moved += j->reserved != NULL;
    sched_reservation_cancel(s, j);
    sched_job_dequeue(s, j);
    j->urgency = urgency;
    sched_job_enqueue(s, j, now);
    sched_touch(s);
    return 0;
}

bool sched_sweep(sched_t *s)
{
    while (s->sweep && s->sweep != &s->all_jobs && s->work < s->budget) {
        struct job *j = list_entry(s->sweep, struct job, link);

        s->sweep = s->sweep->next;
        s->work += 8;
        if (sched_tree_has(&j->order)) {
            sched_job_dequeue(s, j);
            sched_job_enqueue(s, j, s->now);
        }
    }
    if (s->sweep != &s->all_jobs && s->sweep)
        return false;
    if (s->sweep)
        sched_touch(s);
    s->sweep = NULL;
    return true;
}

/* --- jobs that have resources --- */

int sched_hold(sched_t *s, struct claim *c)
{
    if (hmap_put_u64(s->held, c->id, c) < 0)
        return -1;
    c->by_end.a = c->by_pool.a = c->end;
    c->by_end.b = c->by_pool.b = c->id;
    sched_tree_insert(&s->ends, &c->by_end);
    if (c->pools)
        sched_tree_insert(&s->pool_ends, &c->by_pool);
    sched_swap_held(s, c);
    sched_exchange_held(s, c);
    sched_map_hold(s->map, c);
    sched_choose_held(s, c);
    sched_alike_held(s, c);
    if (s->queue->queue->started)
        s->queue->queue->started(s->queue_state, &c->view, s->now);
    return 0;
}

/* The claim has been removed from ->held. */
void sched_release(sched_t *s, struct claim *c)
{
    sched_tree_remove(&s->ends, &c->by_end);
    if (c->pools)
        sched_tree_remove(&s->pool_ends, &c->by_pool);
    sched_alike_released(s, c);
    sched_choose_released(s, c);
    sched_map_release(s->map, c);
    sched_swap_released(s, c);
    if (s->queue->queue->ended)
        s->queue->queue->ended(s->queue_state, &c->view, s->now);
    sched_claim_destroy(c);
    s->grown++;
    s->moved++;
    sched_touch(s);
}

int sched_free(sched_t *s, uint64_t id, double now)
{
    struct claim *c = hmap_take_u64(s->held, id);

    if (!c) {
        errno = ENOENT;
        return -1;
    }
    if (s->phase == PHASE_IDLE) {
        s->now = now;
        sched_release(s, c);
    } else {
        c->later = s->later;
        s->later = c;
        sched_touch(s);
    }
    return 0;
}

int sched_running(sched_t *s, uint64_t id, const rset_t *R, double end, double now, errmsg_t *err)
{
    const struct node *nd;
    struct claim *c;

    if (id == 0 || hmap_get_u64(s->jobs, id) || hmap_get_u64(s->held, id))
        return errmsg_fail(err, EEXIST, "job %ju is known to the scheduler already", (uintmax_t)id);
    if (!(c = sched_claim_from_rset(s->map, id, R)))
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    if ((nd = sched_map_taken(s->map, c))) {
        errmsg_fail(err, EEXIST, "job %ju cannot have that of node %u: another job has it",
                    (uintmax_t)id, nd->rank);
        sched_claim_destroy(c);
        return -1;
    }
    sched_pass_end(s);
    /* The resources that it has may be reserved for others. */
    sched_reservation_cancel_all(s);
    c->start = now;
    c->end = end > 0. ? end : now + SCHED_HORIZON;
    c->view = (struct sched_plugin_job){.id = id,
                                        .duration = end > now ? end - now : 0.,
                                        .nnodes = (uint32_t)rset_nnodes(R),
                                        .nslots = 1,
                                        .ncores = rset_ncores(R)};
    s->now = now;
    if (sched_hold(s, c) < 0) {
        sched_claim_destroy(c);
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    }
    sched_touch(s);
    return 0;
}

/* --- nodes --- */

static bool wanted(const struct node *nd, const idset_t *up, const idset_t *drained)
{
    return idset_test(up, nd->rank) && !idset_test(drained, nd->rank);
}

int sched_nodes(sched_t *s, const idset_t *up, const idset_t *drained, errmsg_t *err)
{
    bool lost = false;

    sched_pass_end(s);
    for (uint32_t i = 0; i < s->map->n; i++) {
        bool usable = wanted(&s->map->nodes[i], up, drained);

        lost |= s->map->nodes[i].usable && !usable;
        s->map->nodes[i].drained = idset_test(drained, s->map->nodes[i].rank);
        sched_map_set_usable(s->map, i, usable);
    }
    if (lost)
        sched_reservation_cancel_all(s);
    s->unheard = false;
    sched_alike_drop(s);
    if (lost)
        s->whole_forget = true;
    s->epoch++;
    s->grown++;
    s->moved++;
    sched_touch(s);
    return 0;
}

void sched_unheard(sched_t *s)
{
    sched_pass_end(s);
    for (uint32_t i = 0; i < s->map->n; i++)
        sched_map_set_usable(s->map, i, false);
    sched_reservation_cancel_all(s);
    sched_alike_drop(s);
    s->unheard = true;
    s->epoch++;
    sched_touch(s);
}

/* Convert all claims to another map.  Returns a list by ->later; NULL with errno 0 when there are
 * no claims. */
static struct claim *move_claims(sched_t *s, const struct map *m)
{
    struct claim *list = NULL;
    size_t pos = 0;
    void *val;

    errno = 0;
    while (hmap_next(s->held, &pos, NULL, NULL, &val)) {
        struct claim *c = val;
        rset_t *R = sched_claim_rset(s->map, c);
        struct claim *fresh = R ? sched_claim_from_rset(m, c->id, R) : NULL;

        rset_destroy(R);
        if (!fresh) {
            while ((fresh = list)) {
                list = fresh->later;
                sched_claim_destroy(fresh);
            }
            errno = ENOMEM;
            return NULL;
        }
        fresh->start = c->start;
        fresh->end = c->end;
        fresh->view = c->view;
        fresh->later = list;
        list = fresh;
        errno = 0;
    }
    return list;
}

static void swap_claims(sched_t *s, struct claim *list)
{
    struct claim *c;

    s->ends.root = s->pool_ends.root = NULL;
    while ((c = list)) {
        list = c->later;
        sched_claim_destroy(hmap_get_u64(s->held, c->id));
        /* Cannot fail: the key is there. */
        (void)hmap_put_u64(s->held, c->id, c);
        c->by_end.a = c->by_pool.a = c->end;
        c->by_end.b = c->by_pool.b = c->id;
        sched_tree_insert(&s->ends, &c->by_end);
        if (c->pools)
            sched_tree_insert(&s->pool_ends, &c->by_pool);
        /* Claims that were added before the inventory was known may overlap. */
        if (sched_map_taken(s->map, c)) {
            sched_say(s, "job %ju runs on resources that another job has", (uintmax_t)c->id);
            c->npieces = 0;
        }
        sched_map_hold(s->map, c);
    }
}

int sched_inventory(sched_t *s, const resgraph_t *g, const idset_t *up, const idset_t *drained,
                    errmsg_t *err)
{
    struct map *m = sched_map_create(g);
    struct choice *choice = m ? calloc(2 * m->n + 1, sizeof(*choice)) : NULL;
    double *times = m ? calloc(m->n + 1, sizeof(*times)) : NULL;
    uint64_t *bits = m ? calloc(m->cw + m->gw + 1, sizeof(*bits)) : NULL;
    struct claim *list = NULL;

    sched_pass_end(s);
    if (choice && times && bits && s->map)
        list = move_claims(s, m);
    else
        errno = choice && times && bits ? 0 : ENOMEM;
    if (errno != 0) {
        sched_map_destroy(m);
        free(choice);
        free(times);
        free(bits);
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory for the inventory");
    }
    sched_reservation_cancel_all(s);
    sched_alike_destroy(s);
    s->whole_forget = true;
    sched_map_destroy(s->map);
    free(s->choice);
    free(s->times);
    free(s->bits);
    s->map = m;
    s->choice = choice;
    s->times = times;
    s->bits = bits;
    swap_claims(s, list);
    s->ready = g != NULL;
    if (sched_choose_renew(s) < 0)
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory for the inventory");
    return sched_nodes(s, up, drained, err);
}

/* --- life --- */

sched_t *sched_create(void)
{
    sched_t *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    list_init(&s->all_shapes);
    list_init(&s->all_jobs);
    s->epoch = s->grown = s->change = 1;
    s->enabled = true;
    s->expiration = s->too_late = SCHED_NEVER;
    if (!(s->jobs = hmap_create_u64(NULL)) || !(s->held = hmap_create_u64(NULL)) ||
        !(s->shapes = hmap_create_u64(NULL)) ||
        sched_policy_set_queue(s, sched_builtin("easy"), NULL, NULL) < 0 ||
        sched_policy_set_nodes(s, sched_builtin("first-fit"), NULL, NULL) < 0 ||
        sched_inventory(s, NULL, NULL, NULL, NULL) < 0) {
        sched_destroy(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

void sched_clear(sched_t *s)
{
    size_t pos = 0;
    void *val;

    sched_pass_end(s);
    LIST_FOREACH_SAFE(it, tmp, &s->all_jobs)
    sched_job_destroy(s, list_entry(it, struct job, link));
    while (s->held && hmap_next(s->held, &pos, NULL, NULL, &val)) {
        struct claim *c = val;

        hmap_take_u64(s->held, c->id);
        sched_release(s, c);
    }
    if (s->map)
        sched_touch(s);
}

void sched_destroy(sched_t *s)
{
    int saved = errno;

    if (!s)
        return;
    sched_clear(s);
    if (s->queue && s->queue->queue->destroy)
        s->queue->queue->destroy(s->queue_state);
    if (s->node && s->node->node->destroy)
        s->node->node->destroy(s->node_state);
    free(s->queue_arg);
    free(s->node_arg);
    hmap_destroy(s->jobs);
    hmap_destroy(s->held);
    hmap_destroy(s->shapes);
    sched_alike_destroy(s);
    sched_choose_destroy(s);
    sched_exchange_destroy(s);
    sched_map_destroy(s->map);
    free(s->reserved);
    free(s->heap);
    free(s->frees);
    free(s->choice);
    free(s->times);
    free(s->bits);
    free(s);
    errno = saved;
}

/* --- queries --- */

uint64_t sched_queue_at(const sched_t *s, size_t i)
{
    struct job *j = sched_job_of_order(sched_tree_nth(&s->order, i));

    return j ? j->id : 0;
}

void sched_get_stats(const sched_t *s, struct sched_stats *st)
{
    *st = s->stats;
    st->queued = hmap_count(s->jobs);
    st->held = s->nheld_back;
    st->running = hmap_count(s->held);
    st->nodes = s->map->n;
    st->nodes_up = s->map->nusable;
    st->reserved = s->whole_valid ? sched_alike_reserved(s) : s->nreserved;
    st->shapes = s->nshapes;
}

/* The resources of all nodes that are (not) free, and the quantities, as a set. */
static rset_t *collect(const sched_t *s, bool allocated)
{
    const struct map *m = s->map;
    rset_t *R = rset_create();
    size_t words = m->cw + m->gw;

    if (!R)
        return NULL;
    for (uint32_t n = 0; n < m->n; n++) {
        const struct node *nd = &m->nodes[n];
        uint64_t memory = nd->used_memory;
        uint64_t any = 0;

        if (!allocated && !nd->usable)
            continue;
        if (!allocated)
            memory = nd->memory > memory ? nd->memory - memory : 0;
        for (size_t w = 0; w < words; w++) {
            s->bits[w] = sched_map_free(m, n)[w];
            if (allocated)
                s->bits[w] ^= sched_map_all(m, n)[w];
            any |= s->bits[w];
        }
        if ((any || (allocated && nd->nheld > 0)) &&
            sched_claim_add_to_rset(m, R, n, s->bits, memory) < 0)
            goto fail;
    }
    for (size_t i = 0; i < m->npools; i++) {
        uint64_t count = allocated ? m->pools[i].used : m->pools[i].total - m->pools[i].used;

        if (!allocated && m->pools[i].used > m->pools[i].total)
            count = 0;
        if (count > 0 && rset_add_pool(R, m->pools[i].name, count) < 0)
            goto fail;
    }
    return R;
fail:
    rset_destroy(R);
    errno = ENOMEM;
    return NULL;
}

rset_t *sched_allocated(const sched_t *s)
{
    return collect(s, true);
}

rset_t *sched_available(const sched_t *s)
{
    return collect(s, false);
}
