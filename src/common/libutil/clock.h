/* Readings of the system's clocks, for measurements and timeouts outside a reactor.
 *
 * Code that runs in a reactor calls flux_now() instead, which a simulation replaces.  Thread-safe;
 * these functions cannot fail.
 */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>

/* The monotonic clock, in seconds and in microseconds since an unspecified moment.  It never goes
 * back, and setting the time of day does not move it. */
double clock_now(void);
uint64_t clock_now_us(void);

/* The same clock in seconds, but time during which the machine was suspended counts. */
double clock_boot(void);

/* The time of day, in seconds and in microseconds since 1970.  An administrator may set it. */
double clock_wall(void);
uint64_t clock_wall_us(void);

/* Seconds as the timeout of poll(2): milliseconds, rounded up; 0 if `seconds` is not positive; many
 * days if it is larger than that, or infinite. */
int clock_poll_ms(double seconds);

#endif
