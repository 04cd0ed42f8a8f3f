/* policy_small.c - a policy as a site would write it, with nothing but the installed header: small
 * jobs first, no more than this many jobs of a user at a time (the argument), and nodes with odd
 * ranks before those with even ones.
 *
 *    cc -shared -fPIC -o policy-small.so policy_small.c
 */
#include <flux/sched_plugin.h>
#include <stdio.h>
#include <stdlib.h>

#define USERS 64

struct state {
    long most;
    long running[USERS];
    char why[64];
};

static void *create(const char *arg, char *err, size_t size)
{
    struct state *st = calloc(1, sizeof(*st));
    char *end = NULL;

    if (!st) {
        snprintf(err, size, "out of memory");
        return NULL;
    }
    st->most = arg ? strtol(arg, &end, 10) : 1000000;
    if (end && (*end || st->most < 1)) {
        snprintf(err, size, "'%s' is not a number of jobs", arg);
        free(st);
        return NULL;
    }
    return st;
}

static int priority(void *state, const struct sched_plugin_job *job, double now, double *priority)
{
    (void)state;
    (void)now;
    *priority = -(double)job->ncores;
    return 0;
}

static int admit(void *state, const struct sched_plugin_job *job, double now, const char **why)
{
    struct state *st = state;

    (void)now;
    if (st->running[job->uid % USERS] < st->most)
        return 1;
    snprintf(st->why, sizeof(st->why), "%ld jobs of the user run already", st->most);
    *why = st->why;
    return 0;
}

static void started(void *state, const struct sched_plugin_job *job, double now)
{
    (void)now;
    ((struct state *)state)->running[job->uid % USERS]++;
}

static void ended(void *state, const struct sched_plugin_job *job, double now)
{
    (void)now;
    ((struct state *)state)->running[job->uid % USERS]--;
}

static int score(void *state, const struct sched_plugin_job *job,
                 const struct sched_plugin_node *node, double *score)
{
    (void)state;
    (void)job;
    *score = node->rank % 2 ? 0. : 1.;
    return 0;
}

static const struct sched_queue_policy queue = {
    .create = create,
    .destroy = free,
    .priority = priority,
    .admit = admit,
    .started = started,
    .ended = ended,
};
static const struct sched_node_policy node = {
    .order = SCHED_NODES_BY_SCORE,
    .score = score,
};
const struct sched_policy sched_policy = {SCHED_PLUGIN_ABI, "small", &queue, &node};
