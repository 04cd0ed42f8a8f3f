/* Runs: a set of numbers as few arithmetic progressions.
 *
 * Thread rules: any thread.
 */
#ifndef KVS_RUNS_H
#define KVS_RUNS_H

#include <stdint.h>

/* n numbers a[0] < a[1] < ... : the distance s > 0 with which chains (x, x+s, x+2s, ...) within the
 * set are fewest, as far as can be told from a part of it.  n >= 2.  With it next[i] becomes the
 * index of a[i]+s, or n when that is not in the set, and *chains the number of chains. */
uint64_t kvs_runs_step(const uint64_t *a, uint32_t n, uint32_t *next, uint32_t *chains);

#endif
