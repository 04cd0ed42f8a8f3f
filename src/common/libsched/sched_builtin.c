/* sched_builtin.c - the built-in policies, as the same tables that plugins export.
 *
 * A queue policy decides what happens to the jobs that do not fit:
 *
 *    policy          1st           2nd ... depth-th   beyond
 *    fcfs            STOP
 *    easy            RESERVE       BACKFILL
 *    conservative    RESERVE       RESERVE            BACKFILL
 *    replan          RESERVE       RESERVE            BACKFILL
 *
 * The state of conservative and replan is their number of reservations (depth).  The state of easy
 * is the number of jobs that a pass considers, beginning with the first that does not fit (0: all).
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

void *sched_builtin_no_argument(const char *arg, char *err, size_t size)
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

/* Parse a text that consists of `name` and a number from 1 to `max`. */
static int get_number(const char *arg, const char *name, uint32_t max, uint32_t *number)
{
    return str_starts(arg, name) && str2u32(arg + strlen(name), number) == 0 && *number >= 1 &&
                   *number <= max
               ? 0
               : -1;
}

static void *easy_create(const char *arg, char *err, size_t size)
{
    uint32_t *depth = calloc(1, sizeof(*depth));

    if (!depth) {
        snprintf(err, size, "out of memory");
        return NULL;
    }
    if (arg && get_number(arg, "depth=", UINT32_MAX, depth) < 0) {
        snprintf(err, size,
                 "its argument must be depth=N, the number of jobs to consider, not '%s'", arg);
        free(depth);
        return NULL;
    }
    return depth;
}

static void *conservative_create(const char *arg, char *err, size_t size)
{
    uint32_t *depth = malloc(sizeof(*depth));

    if (!depth) {
        snprintf(err, size, "out of memory");
        return NULL;
    }
    *depth = SCHED_DEPTH_DEFAULT;
    if (arg && strcmp(arg, "all") == 0)
        *depth = UINT32_MAX;
    else if (arg && get_number(arg, "", DEPTH_MAX, depth) < 0) {
        snprintf(err, size, "the number of reservations is 1 to %d, or all, not '%s'", DEPTH_MAX,
                 arg);
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

static const struct sched_queue_policy fcfs = {.create = sched_builtin_no_argument,
                                               .blocked = fcfs_blocked};
static const struct sched_queue_policy easy = {
    .create = easy_create, .destroy = free, .blocked = easy_blocked};
static const struct sched_queue_policy conservative = {
    .create = conservative_create, .destroy = free, .blocked = conservative_blocked};
static const struct sched_queue_policy replan = {
    .create = conservative_create, .destroy = free, .blocked = conservative_blocked};
static const struct sched_node_policy first_fit = {.create = sched_builtin_no_argument,
                                                   .order = SCHED_NODES_BY_RANK};
static const struct sched_node_policy best_fit = {.create = sched_builtin_no_argument,
                                                  .order = SCHED_NODES_FULLEST};
static const struct sched_node_policy spread = {.create = sched_builtin_no_argument,
                                                .order = SCHED_NODES_EMPTIEST};

static const struct sched_policy builtin[] = {
    {SCHED_PLUGIN_ABI, "fcfs", &fcfs, NULL},
    {SCHED_PLUGIN_ABI, "easy", &easy, NULL},
    {SCHED_PLUGIN_ABI, "conservative", &conservative, NULL},
    {SCHED_PLUGIN_ABI, "replan", &replan, NULL},
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

const struct sched_policy *sched_builtin_at(size_t i)
{
    return i < NBUILTIN ? &builtin[i] : NULL;
}

bool sched_builtin_strict(const struct sched_policy *p)
{
    return p->queue->blocked == fcfs_blocked;
}

bool sched_builtin_replans(const struct sched_policy *p)
{
    return p->queue == &replan;
}

uint32_t sched_builtin_depth(const struct sched_policy *p, const void *state)
{
    return p->queue == &easy ? *(const uint32_t *)state : 0;
}

bool sched_builtin_whole(const struct sched_policy *p, const void *state,
                         enum sched_whole_queue *queue, uint32_t *reservations)
{
    *reservations = UINT32_MAX;
    if (p->queue == &fcfs)
        *queue = SCHED_WHOLE_FCFS;
    else if (p->queue == &easy)
        *queue = SCHED_WHOLE_EASY;
    else if (p->queue == &conservative || p->queue == &replan) {
        *queue = p->queue == &replan ? SCHED_WHOLE_REPLAN : SCHED_WHOLE_CONSERVATIVE;
        *reservations = *(const uint32_t *)state;
    } else
        return false;
    return true;
}

bool sched_builtin_reserves_all(const struct sched_policy *p)
{
    return p->queue == &conservative || p->queue == &replan;
}
