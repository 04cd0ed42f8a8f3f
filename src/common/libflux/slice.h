/* Slices of long work: between two of them the reactor handles whatever has come in meanwhile.
 *
 *    struct flux_slice s;
 *
 *    flux_slice_begin(&s, r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
 *    while (there is more to do && flux_slice_more(&s))
 *        do one thing;
 *    if (there is more to do)
 *        come back in the next pass of the reactor (flux_defer_create)
 *
 * A slice is bounded by time, since the same number of things may take a microsecond or a second.
 * In each slice one thing is done at least, so that work goes on whatever it takes.  On a virtual
 * clock, where no time passes meanwhile, a slice is a number of things, so that a simulation is the
 * same each time.
 *
 * Thread rules: those of the reactor.
 */
#ifndef FLUX_SLICE_H
#define FLUX_SLICE_H

#include <stdbool.h>

#include "reactor.h"

#define FLUX_SLICE_SECONDS 0.002
#define FLUX_SLICE_THINGS 500

struct flux_slice {
    flux_reactor_t *r;
    double until;
    unsigned n, things;
};

/* `things`: on a virtual clock. */
void flux_slice_begin(struct flux_slice *s, flux_reactor_t *r, double seconds, unsigned things);
/* May one thing more be done?  Asked before each; takes some 30 ns, so a thing that takes less
 * should be several. */
bool flux_slice_more(struct flux_slice *s);

#endif
