/* slice.c - the amount of a long computation that is done before other work gets its turn.
 *
 * Invariants:
 *  1. The first call of flux_slice_more() in a slice returns true.
 *  2. On a shared loop, a slice takes at most FLUX_SLICE_SHARED, and FLUX_SLICE_HURRIED while the
 *     loop hurries.
 *  3. On a virtual clock, only the number of steps counts.
 *
 * Failure: none.
 */
#include "config.h"
#include "slice.h"

void flux_slice_begin(struct flux_slice *s, flux_reactor_t *r, double seconds, unsigned things)
{
    if (flux_reactor_is_part(r)) {
        double shared = flux_reactor_hurries(r) ? FLUX_SLICE_HURRIED : FLUX_SLICE_SHARED;

        if (seconds > shared)
            seconds = shared;
    }
    *s = (struct flux_slice){.r = r, .until = flux_reactor_clock(r) + seconds, .things = things};
}

bool flux_slice_more(struct flux_slice *s)
{
    if (s->n++ == 0)
        return true;
    if (flux_reactor_virtual(s->r))
        return s->n <= s->things;
    return flux_reactor_clock(s->r) < s->until;
}
