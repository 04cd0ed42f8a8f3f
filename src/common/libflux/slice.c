/* slice.c - how much of a long piece of work is done before others have their turn.
 *
 * Invariants:
 *  1. The first question of a slice is answered with yes.
 *  2. On a virtual clock only the number of things counts.
 *
 * Failure: none.
 */
#include "config.h"
#include "slice.h"

void flux_slice_begin(struct flux_slice *s, flux_reactor_t *r, double seconds, unsigned things)
{
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
