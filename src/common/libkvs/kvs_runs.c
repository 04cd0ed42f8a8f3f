/* kvs_runs.c - a set of numbers as a few arithmetic progressions.
 *
 * The numbers are usually ranks of processes.  Those of one broker are consecutive, or every
 * sixteenth, say; a set gathered from several brokers interleaves a few such progressions.  The
 * candidates for the step are the distances from three elements to each of their next LAGS
 * elements; the step that yields the fewest chains is taken.
 *
 * Invariants:
 *  1. The chains of one step are disjoint and cover the set, whatever the step: a bad choice costs
 *     bytes, but loses no element.
 *  2. The cost is linear in the size of the set: candidates are tried on SAMPLE elements at most.
 */
#include "config.h"
#include <stdbool.h>

#include "kvs_runs.h"

#define SAMPLE 2048
#define LAGS 64

/* The number of chains with this step, or `limit` if there are at least as many. */
static uint32_t count_chains(const uint64_t *a, uint32_t n, uint64_t step, uint32_t limit)
{
    uint32_t chains = 0;
    for (uint32_t i = 0, j = 1; i < n; i++) {
        while (j < n && a[j] - a[i] < step)
            j++;
        if ((j >= n || a[j] - a[i] != step) && ++chains >= limit)
            break;
    }
    return chains;
}

uint64_t kvs_runs_step(const uint64_t *a, uint32_t n, uint32_t *next, uint32_t *chains)
{
    uint32_t sample = n < SAMPLE ? n : SAMPLE;
    uint32_t at[3] = {0, sample / 2, sample * 3 / 4};
    uint64_t best = a[1] - a[0];
    uint32_t fewest = count_chains(a, sample, best, UINT32_MAX);
    for (uint32_t lag = 1; lag <= LAGS && lag < sample && fewest > lag; lag++) {
        uint64_t tried = best;
        for (unsigned k = 0; k < 3; k++) {
            if (at[k] + lag >= sample)
                continue;
            uint64_t step = a[at[k] + lag] - a[at[k]];
            if (step == tried)
                continue;
            tried = step;
            uint32_t c = count_chains(a, sample, step, fewest);
            if (c < fewest) {
                fewest = c;
                best = step;
            }
        }
    }
    *chains = 0;
    for (uint32_t i = 0, j = 1; i < n; i++) {
        while (j < n && a[j] - a[i] < best)
            j++;
        bool there = j < n && a[j] - a[i] == best;
        next[i] = there ? j : n;
        *chains += !there;
    }
    return best;
}
