/* Slices of a long computation, between which the reactor handles messages and timers:
 *
 *    struct flux_slice s;
 *
 *    flux_slice_begin(&s, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
 *    while (there is more to do && flux_slice_more(&s))
 *        do one step;
 *    if (there is more to do) continue in the next pass of the reactor (flux_defer_create)
 *
 * A slice is limited by time, since the same number of steps may take a microsecond or a second. It
 * has at least one step, so the computation makes progress however long a step takes.  On a virtual
 * clock, on which no time passes meanwhile, a slice is a number of steps, so that a simulation is
 * reproducible.
 *
 * Thread rules: those of the reactor.
 */
#ifndef FLUX_SLICE_H
#define FLUX_SLICE_H

#include <stdbool.h>

#include "reactor.h"

#define FLUX_SLICE_SECONDS 0.002
#define FLUX_SLICE_SHARED 0.0002   /* the limit on a part of a reactor (flux_reactor_create_part) */
#define FLUX_SLICE_HURRIED 0.00001 /* the same while the loop hurries (flux_reactor_hurry) */
#define FLUX_SLICE_THINGS 500

struct flux_slice {
    flux_reactor_t *r;
    double until;
    unsigned n, things;
};

/* `things`: number of steps on a virtual clock. */
void flux_slice_begin(struct flux_slice *s, flux_reactor_t *r, double seconds, unsigned things);
/* May one more step be done?  Call it before each step.  The call takes about 30 ns, so combine
 * steps that take less. */
bool flux_slice_more(struct flux_slice *s);

#endif
