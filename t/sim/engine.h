/* Reactors on the virtual clock.  Not thread-safe. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "clock.h"
#include "libflux/reactor.h"

/* A reactor whose timers and deferrals are events of `owner` on clock `c`; both must outlive it.
 * `wall`: by how many seconds the wall clock differs from it, also to outlive it.  `rate`: how fast
 * its clock runs, 1 as a rule.  NULL with ENOMEM. */
flux_reactor_t *engine_create(vclock_t *c, struct vowner *owner, const double *wall, double rate);

/* The reactor's time in seconds at a time of the clock. */
double engine_seconds(int64_t ns);

#endif
