/* sched_profile.c - the number of free nodes as a step function of time.
 *
 * Invariants:
 *  1. at[skipped..n) ascends strictly, and neighbors differ in `free`, except for the first pair.
 *  2. After a reset there is always at least one entry.
 *
 * Failure: -1 with ENOMEM; the profile is unchanged.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched_profile.h"

void sched_profile_clear(struct sched_profile *p)
{
    free(p->at);
    free(p->free);
    *p = (struct sched_profile){0};
}

/* Make room for two more entries. */
static int grow(struct sched_profile *p)
{
    size_t room = p->room ? 2 * p->room : 64;
    double *at;
    int64_t *free;

    if (p->n + 2 <= p->room)
        return 0;
    if (p->skipped > p->room / 2) {
        p->n -= p->skipped;
        memmove(p->at, p->at + p->skipped, p->n * sizeof(*p->at));
        memmove(p->free, p->free + p->skipped, p->n * sizeof(*p->free));
        p->skipped = 0;
        return 0;
    }
    if ((at = realloc(p->at, room * sizeof(*at))))
        p->at = at;
    if ((free = realloc(p->free, room * sizeof(*free))))
        p->free = free;
    if (!at || !free) {
        errno = ENOMEM;
        return -1;
    }
    p->room = room;
    return 0;
}

int sched_profile_reset(struct sched_profile *p, double now, int64_t free)
{
    p->n = p->skipped = 0;
    if (grow(p) < 0)
        return -1;
    p->at[0] = now;
    p->free[0] = free;
    p->n = 1;
    return 0;
}

/* The last entry that begins at or before t; the first entry if there is none. */
static size_t find(const struct sched_profile *p, double t)
{
    size_t lo = p->skipped;
    size_t hi = p->n;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (p->at[mid] <= t)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

void sched_profile_advance(struct sched_profile *p, double now)
{
    p->skipped = find(p, now);
    if (p->at[p->skipped] < now)
        p->at[p->skipped] = now;
}

/* Split at t.  Returns the place of the entry that begins there.  There must be room. */
static size_t split(struct sched_profile *p, double t)
{
    size_t i = find(p, t);

    if (p->at[i] >= t)
        return i;
    memmove(p->at + i + 2, p->at + i + 1, (p->n - i - 1) * sizeof(*p->at));
    memmove(p->free + i + 2, p->free + i + 1, (p->n - i - 1) * sizeof(*p->free));
    p->at[i + 1] = t;
    p->free[i + 1] = p->free[i];
    p->n++;
    return i + 1;
}

/* Remove entry i if it equals the preceding one. */
static void join(struct sched_profile *p, size_t i)
{
    if (i <= p->skipped || i >= p->n || p->free[i] != p->free[i - 1])
        return;
    memmove(p->at + i, p->at + i + 1, (p->n - i - 1) * sizeof(*p->at));
    memmove(p->free + i, p->free + i + 1, (p->n - i - 1) * sizeof(*p->free));
    p->n--;
}

int sched_profile_add(struct sched_profile *p, double from, double to, int64_t by)
{
    size_t i, k;

    if (from < p->at[p->skipped])
        from = p->at[p->skipped];
    if (!(from < to))
        return 0;
    if (grow(p) < 0)
        return -1;
    i = split(p, from);
    k = split(p, to);
    for (size_t m = i; m < k; m++)
        p->free[m] += by;
    join(p, k);
    join(p, i);
    return 0;
}

double sched_profile_find(const struct sched_profile *p, double from, int64_t nodes, double length,
                          double limit)
{
    size_t i = find(p, from);
    double start = from;

    for (;;) {
        size_t k;

        while (i < p->n && p->free[i] < nodes) {
            if (++i < p->n)
                start = p->at[i];
        }
        if (i == p->n)
            return INFINITY;
        if (start >= limit)
            return limit;
        for (k = i + 1; k < p->n && p->at[k] < start + length && p->free[k] >= nodes; k++)
            ;
        if (k == p->n || p->at[k] >= start + length)
            return start;
        i = k;
    }
}

double sched_profile_until(const struct sched_profile *p, double from, int64_t nodes)
{
    for (size_t i = find(p, from); i < p->n; i++) {
        if (p->free[i] < nodes)
            return p->at[i] > from ? p->at[i] : from;
    }
    return INFINITY;
}
