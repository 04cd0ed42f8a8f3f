/* sched_policy.c - put policies into use.
 *
 * The new policy's state is created before the old one is destroyed, so a policy that refuses
 * changes nothing.  A new queue policy gets the running jobs, and computes the priority of each
 * waiting job.  A node policy is used only if there is memory for its tables.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

struct made {
    void *state;
    char *arg;
};

static int policy_make(const struct sched_policy *p, void *(*create)(const char *, char *, size_t),
                       const char *arg, struct made *made, errmsg_t *err)
{
    char why[160] = "it does not say why";

    memset(made, 0, sizeof(*made));
    if (p->abi != SCHED_PLUGIN_ABI)
        return errmsg_fail(err, EINVAL,
                           "policy %s was built for version %d of the interface, not %d", p->name,
                           p->abi, SCHED_PLUGIN_ABI);
    if (arg && !(made->arg = strdup(arg)))
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    if (create && !(made->state = create(made->arg, why, sizeof(why)))) {
        free(made->arg);
        return errmsg_fail(err, EINVAL, "policy %s cannot be used: %s", p->name, why);
    }
    return 0;
}

/* A policy with a reservation for each job requires a node policy that places a job whenever there
 * are enough nodes. */
static int together(const struct sched_policy *queue, const struct sched_policy *node,
                    errmsg_t *err)
{
    if (node->node->refuses && sched_builtin_reserves_all(queue))
        return errmsg_fail(err, EINVAL,
                           "%s does not go with the node policy %s, which may refuse though nodes "
                           "enough are free: take fcfs or easy",
                           queue->name, node->name);
    return 0;
}

int sched_policy_set_queue(sched_t *s, const struct sched_policy *p, const char *arg, errmsg_t *err)
{
    struct made made;
    size_t pos = 0;
    void *val;

    if (!p->queue)
        return errmsg_fail(err, EINVAL, "%s is not a policy for the queue", p->name);
    if (s->node && together(p, s->node, err) < 0)
        return -1;
    if (policy_make(p, p->queue->create, arg, &made, err) < 0)
        return -1;
    sched_pass_end(s);
    sched_reservation_cancel_all(s);
    sched_alike_destroy(s);
    s->whole_forget = true;
    if (s->queue && s->queue->queue->destroy)
        s->queue->queue->destroy(s->queue_state);
    free(s->queue_arg);
    s->queue = p;
    s->queue_state = made.state;
    s->queue_arg = made.arg;
    s->no_priority = s->no_blocked = s->no_admit = false;
    while (p->queue->started && hmap_next(s->held, &pos, NULL, NULL, &val))
        p->queue->started(s->queue_state, &((struct claim *)val)->view, s->now);
    LIST_FOREACH(it, &s->all_jobs)
    {
        struct job *j = list_entry(it, struct job, link);

        sched_job_dequeue(s, j);
        sched_job_enqueue(s, j, s->now);
        free(j->refused);
        j->refused = NULL;
    }
    s->sweep = NULL;
    s->next_sweep = s->now + p->queue->reorder;
    sched_touch(s);
    return 0;
}

int sched_policy_set_nodes(sched_t *s, const struct sched_policy *p, const char *arg, errmsg_t *err)
{
    const struct sched_policy *before = s->node;
    struct made made;

    if (!p->node)
        return errmsg_fail(err, EINVAL, "%s is not a policy for nodes", p->name);
    if (p->node->order == SCHED_NODES_BY_SELECT && !p->node->select)
        return errmsg_fail(err, EINVAL, "policy %s has no select", p->name);
    if (s->queue && together(s->queue, p, err) < 0)
        return -1;
    if (policy_make(p, p->node->create, arg, &made, err) < 0)
        return -1;
    sched_pass_end(s);
    sched_reservation_cancel_all(s);
    sched_alike_destroy(s);
    s->node = p;
    if (s->map && sched_choose_renew(s) < 0) {
        /* If memory for the choices of a policy with `select` is short, nodes are taken in
         * order. */
        s->node = before;
        (void)sched_choose_renew(s);
        if (p->node->destroy)
            p->node->destroy(made.state);
        free(made.arg);
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    }
    if (before && before->node->destroy)
        before->node->destroy(s->node_state);
    free(s->node_arg);
    s->node_state = made.state;
    s->node_arg = made.arg;
    s->no_score = false;
    s->grown++;
    sched_touch(s);
    return 0;
}

const char *sched_policy_queue_name(const sched_t *s)
{
    return s->queue->name;
}

const char *sched_policy_nodes_name(const sched_t *s)
{
    return s->node->name;
}
