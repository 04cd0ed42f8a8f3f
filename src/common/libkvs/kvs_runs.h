/* Runs: a set of numbers as a few arithmetic progressions.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_RUNS_H
#define KVS_RUNS_H

#include <stdint.h>

/* For n >= 2 numbers a[0] < a[1] < ..., return the step s > 0 that divides the set into the fewest
 * chains (x, x+s, x+2s, ...), judged by a sample.  next[i] becomes the index of a[i]+s, or n if
 * that is not in the set, and *chains the number of chains. */
uint64_t kvs_runs_step(const uint64_t *a, uint32_t n, uint32_t *next, uint32_t *chains);

#endif
