/* The sizes of jobs that a policy can place at present.
 *
 * A job fits exactly if its number of nodes is at most most[0], for a job of up to `small` nodes;
 * at most most[1], for a job of up to `medium` nodes; at most most[2], for a larger job.
 *
 * A mask has a bit for each class of sizes: up to 16 nodes each size is a class of its own, beyond
 * that each power of two has four.  So a set of jobs whose classes are known can be skipped at
 * once.
 *
 * Thread rules: values without state.
 */
#ifndef SCHED_LIMITS_H
#define SCHED_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define SCHED_SIZES 64 /* classes */

struct sched_limits {
    uint32_t small, medium;
    uint32_t most[3];
};

static inline bool sched_limits_fit(const struct sched_limits *l, uint32_t n)
{
    return n <= l->most[n <= l->small ? 0 : n <= l->medium ? 1 : 2];
}

/* The class of n >= 1 nodes. */
static inline unsigned sched_limits_class(uint32_t n)
{
    unsigned power;

    if (n <= 16)
        return n > 0 ? n - 1 : 0;
    power = 31 - (unsigned)__builtin_clz(n - 1);
    if (power >= 4 + (SCHED_SIZES - 16) / 4)
        return SCHED_SIZES - 1;
    return 16 + (power - 4) * 4 + (((n - 1) >> (power - 2)) & 3);
}

/* The classes of sizes from `lo` to `hi`; none if lo > hi. */
static inline uint64_t sched_limits_range(uint32_t lo, uint32_t hi)
{
    if (lo > hi)
        return 0;
    return (UINT64_MAX >> (SCHED_SIZES - 1 - sched_limits_class(hi))) &
           (UINT64_MAX << sched_limits_class(lo));
}

/* The classes that have a size that fits. */
static inline uint64_t sched_limits_mask(const struct sched_limits *l)
{
    uint32_t small = l->most[0] < l->small ? l->most[0] : l->small;
    uint32_t medium = l->most[1] < l->medium ? l->most[1] : l->medium;
    uint64_t mask = sched_limits_range(1, small);

    if (l->small < UINT32_MAX)
        mask |= sched_limits_range(l->small + 1, medium);
    if (l->medium < UINT32_MAX)
        mask |= sched_limits_range((l->medium > l->small ? l->medium : l->small) + 1, l->most[2]);
    return mask;
}

#endif
