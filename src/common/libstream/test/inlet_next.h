/* inlet_next.h - wait for the next step of one writer, in tests and benches.
 *
 * At most `timeout` seconds (< 0: without limit).  1, or -1 with the errors of inlet_take(), or
 * ETIMEDOUT.
 */
#ifndef STREAM_INLET_NEXT_H
#define STREAM_INLET_NEXT_H

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>

#include "libstream/inlet.h"
#include "libutil/clock.h"

static inline int inlet_next(inlet_t *i, double timeout, struct inlet_step *s, errmsg_t *err)
{
    double until = timeout < 0. ? INFINITY : clock_now() + timeout;
    bool last = false;

    for (;;) {
        int rc = inlet_take(i, s, err);

        if (rc != 0)
            return rc;
        if (last)
            return errmsg_fail(err, ETIMEDOUT, "no step has come within %g s", timeout);
        if (inlet_sleep(i)) {
            double left = until - clock_now();
            struct pollfd p = {.fd = inlet_fd(i), .events = POLLIN};

            poll(&p, 1, clock_poll_ms(left));
            inlet_wake(i);
            last = left <= 0.;
        }
    }
}

#endif
