/* The number of free nodes from now on: a step function of time, for reservations that are a number
 * of nodes and a time.
 *
 * Thread rules: one thread per object.
 */
#ifndef SCHED_PROFILE_H
#define SCHED_PROFILE_H

#include <stddef.h>
#include <stdint.h>

struct sched_profile {
    double *at;    /* ascending; free[i] holds from at[i] up to at[i + 1], the last one forever */
    int64_t *free; /* negative while more nodes are down than were free */
    size_t n, room, skipped; /* the first `skipped` entries are in the past */
};

/* Zeroed memory is an empty profile; this function frees its memory. */
void sched_profile_clear(struct sched_profile *p);
/* Set the number of free nodes from this time on.  0, or -1 with ENOMEM. */
int sched_profile_reset(struct sched_profile *p, double now, int64_t free);
/* Drop the entries before this time. */
void sched_profile_advance(struct sched_profile *p, double now);
/* Add `by` free nodes in [from, to).  0, or -1 with ENOMEM. */
int sched_profile_add(struct sched_profile *p, double from, double to, int64_t by);
/* The earliest time from `from` on at which `nodes` are free for `length`.  `limit`: a known such
 * time (INFINITY: none is known).  Returns INFINITY if there is none. */
double sched_profile_find(const struct sched_profile *p, double from, int64_t nodes, double length,
                          double limit);

/* The first time from `from` on at which fewer nodes are free; INFINITY: never. */
double sched_profile_until(const struct sched_profile *p, double from, int64_t nodes);

#endif
