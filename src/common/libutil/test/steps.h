/* A clock that advances at each look, so a test decides how many steps a slice has
 * (libflux/slice.h).  Include it in one file of a test program. */
#ifndef UTIL_TEST_STEPS_H
#define UTIL_TEST_STEPS_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long step_ns; /* each look at the clock finds it so much later */
static long stepped;

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ts);

    if (id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME) {
        stepped += step_ns;
        ts->tv_sec += (stepped + ts->tv_nsec) / 1000000000;
        ts->tv_nsec = (stepped + ts->tv_nsec) % 1000000000;
    }
    return rc;
}

#endif
