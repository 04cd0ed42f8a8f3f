/* sched_builtin.c - the policies that are always there, as the same tables that plugins have.
 *
 * Queue: what a policy decides is what happens to the first job that does not fit, and to the next.
 *
 *    policy          1st           2nd ... depth-th   beyond
 *    fcfs            STOP
 *    easy            RESERVE       BACKFILL
 *    conservative    RESERVE       RESERVE            BACKFILL
 *
 * The state of the conservative one is its depth.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"
#include "sched_private.h"
#include "sched_topology.h"

#define DEPTH_MAX 10000

void *sched_no_argument(const char *arg, char *err, size_t size)
{
    static const char nothing;

    if (!arg)
        return (void *)(uintptr_t)&nothing;
    snprintf(err, size, "it takes no argument, but got '%s'", arg);
    return NULL;
}

static enum sched_blocked fcfs_blocked(void *state, const struct sched_plugin_job *job,
                                       uint32_t reserved, double now)
{
    return SCHED_BLOCKED_STOP;
}

enum sched_blocked sched_builtin_blocked(uint32_t reserved)
{
    return reserved == 0 ? SCHED_BLOCKED_RESERVE : SCHED_BLOCKED_BACKFILL;
}

static enum sched_blocked easy_blocked(void *state, const struct sched_plugin_job *job,
                                       uint32_t reserved, double now)
{
    return sched_builtin_blocked(reserved);
}

static void *conservative_create(const char *arg, char *err, size_t size)
{
    uint32_t *depth = malloc(sizeof(*depth));

    if (!depth) {
        snprintf(err, size, "out of memory");
        return NULL;
    }
    *depth = SCHED_DEPTH_DEFAULT;
    if (arg && (str2u32(arg, depth) < 0 || *depth < 1 || *depth > DEPTH_MAX)) {
        snprintf(err, size, "the number of reservations is 1 to %d, not '%s'", DEPTH_MAX, arg);
        free(depth);
        return NULL;
    }
    return depth;
}

static enum sched_blocked conservative_blocked(void *state, const struct sched_plugin_job *job,
                                               uint32_t reserved, double now)
{
    const uint32_t *depth = state;

    return reserved < *depth ? SCHED_BLOCKED_RESERVE : SCHED_BLOCKED_BACKFILL;
}

static const struct sched_queue_policy fcfs = {.create = sched_no_argument,
                                               .blocked = fcfs_blocked};
static const struct sched_queue_policy easy = {.create = sched_no_argument,
                                               .blocked = easy_blocked};
static const struct sched_queue_policy conservative = {
    .create = conservative_create, .destroy = free, .blocked = conservative_blocked};
static const struct sched_node_policy first_fit = {.create = sched_no_argument,
                                                   .order = SCHED_NODES_BY_RANK};
static const struct sched_node_policy best_fit = {.create = sched_no_argument,
                                                  .order = SCHED_NODES_FULLEST};
static const struct sched_node_policy spread = {.create = sched_no_argument,
                                                .order = SCHED_NODES_EMPTIEST};

static const struct sched_policy builtin[] = {
    {SCHED_PLUGIN_ABI, "fcfs", &fcfs, NULL},
    {SCHED_PLUGIN_ABI, "easy", &easy, NULL},
    {SCHED_PLUGIN_ABI, "conservative", &conservative, NULL},
    {SCHED_PLUGIN_ABI, "first-fit", NULL, &first_fit},
    {SCHED_PLUGIN_ABI, "best-fit", NULL, &best_fit},
    {SCHED_PLUGIN_ABI, "spread", NULL, &spread},
    {SCHED_PLUGIN_ABI, "compact", NULL, &sched_compact},
    {SCHED_PLUGIN_ABI, "buddy", NULL, &sched_buddy},
    {SCHED_PLUGIN_ABI, "interference-free", NULL, &sched_interference_free},
};
#define NBUILTIN (sizeof(builtin) / sizeof(builtin[0]))

const struct sched_policy *sched_builtin(const char *name)
{
    for (size_t i = 0; i < NBUILTIN; i++) {
        if (strcmp(builtin[i].name, name) == 0)
            return &builtin[i];
    }
    return NULL;
}

const char *sched_builtin_name(size_t i)
{
    return i < NBUILTIN ? builtin[i].name : NULL;
}

bool sched_builtin_strict(const struct sched_policy *p)
{
    return p->queue->blocked == fcfs_blocked;
}
