/* kvs_runs.c - a set of numbers as few arithmetic progressions.
 *
 * Where the numbers come from: ranks of processes.  A broker's own processes have numbers in a row,
 * or every sixteenth; what several brokers gathered is a few of those interleaved, so the set looks
 * the same again after some distance: after as many elements as rows were interleaved.  So the
 * distances from an element to its next few neighbours are the candidates; the one with which the
 * fewest chains remain is taken.
 *
 * Invariants:
 *  1. The chains of one distance are disjoint and cover the set, whatever the distance: a bad
 *     choice costs bytes, never an element.
 *  2. Cost is linear in the set: candidates are tried on a sample of fixed size.
 */
#include "config.h"
#include <stdbool.h>

#include "kvs_runs.h"

#define SAMPLE 2048
#define LAGS 64

/* Elements that end a chain with this distance: as many as there are chains. */
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
