/* sim_speedup.c - the speedup of a job whose links no other job uses.
 *
 * A reduction r of the runtime, in millionths: max(1, floor((runtime*(10^6-r) + 500000) / 10^6)).
 *    pctX  X percent for jobs of more than 4 nodes
 *    V1    0-10, 0-20 or 0-30 percent for all jobs
 *    V2    0-10 or 0-20 percent for 5 to 128 nodes; 0-10, 10-20 or 10-30 for more; else nothing
 * A job's id and the seed select one of the ranges.  Its size selects the place in the range, which
 * grows up to the upper end for 512 or more nodes.
 *
 * [S. Pollard et al., "Evaluation of an interference-free node allocation policy on fat-tree
 * clusters", SC18; G. Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014]
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MILLION INT64_C(1000000)

struct percents {
    int lo, hi;
};

static uint64_t splitmix64(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* X of pctX, or -1. */
static int percent(const char *name)
{
    size_t n;

    if (strncmp(name, "pct", 3) != 0)
        return -1;
    n = strspn(name + 3, "0123456789");
    if (n < 1 || n > 3 || name[3 + n] || atoi(name + 3) > 100)
        return -1;
    return atoi(name + 3);
}

bool sim_speedup_known(const char *name)
{
    return strcmp(name, "none") == 0 || strcmp(name, "V1") == 0 || strcmp(name, "V2") == 0 ||
           percent(name) >= 0;
}

static int64_t reduction(const char *name, uint64_t seed, int64_t id, int64_t nodes)
{
    static const struct percents all[] = {{0, 10}, {0, 20}, {0, 30}};
    static const struct percents middle[] = {{0, 10}, {0, 20}};
    static const struct percents large[] = {{0, 10}, {10, 20}, {10, 30}};
    const struct percents *bins = all;
    uint64_t nbins = 3;
    int64_t lo, hi;

    if (name[0] == 'p')
        return nodes > 4 ? (int64_t)percent(name) * 10000 : 0;
    if (strcmp(name, "V2") == 0) {
        if (nodes < 5)
            return 0;
        bins = nodes <= 128 ? middle : large;
        nbins = nodes <= 128 ? 2 : 3;
    }
    bins += splitmix64(seed ^ (uint64_t)id) % nbins;
    lo = (int64_t)bins->lo * 10000;
    hi = (int64_t)bins->hi * 10000;
    return lo + (hi - lo) * (nodes < 512 ? nodes : 512) / 512;
}

int64_t sim_speedup(const char *name, uint64_t seed, int64_t id, int64_t nodes, int64_t runtime)
{
    int64_t r, faster;

    if (strcmp(name, "none") == 0)
        return runtime;
    r = reduction(name, seed, id, nodes);
    /* runtime is at most 10^12, so this stays below 2^63. */
    faster = (runtime * (MILLION - r) + MILLION / 2) / MILLION;
    return faster > 1 ? faster : 1;
}
