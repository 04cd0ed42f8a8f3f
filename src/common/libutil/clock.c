/* clock.c - readings of the system's clocks.
 *
 * A reading in seconds is a double: it resolves a microsecond for more than a century, which is
 * enough for timeouts and for output.  A reading in microseconds is exact.
 *
 * Failure: none.  These clocks exist on every system that the product runs on.
 */
#include "config.h"
#include <time.h>

#include "clock.h"

static double seconds(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static uint64_t microseconds(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

double clock_now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

uint64_t clock_now_us(void)
{
    return microseconds(CLOCK_MONOTONIC);
}

double clock_boot(void)
{
    return seconds(CLOCK_BOOTTIME);
}

double clock_wall(void)
{
    return seconds(CLOCK_REALTIME);
}

uint64_t clock_wall_us(void)
{
    return microseconds(CLOCK_REALTIME);
}

int clock_poll_ms(double seconds)
{
    return seconds > 1e6 ? 1000000000 : seconds > 0. ? (int)(seconds * 1e3) + 1 : 0;
}
