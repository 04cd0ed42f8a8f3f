/* Allocations of a module that may fail, on a handle of the test's own: those of the test neither
 * fail nor count (libutil/test/fail_at.h).  Include it before what delivers messages, with
 * `sparing` set to 1 when the test begins; what a hook of the transport does has to be spared, too.
 */
#ifndef FLUX_TEST_SPARING_H
#define FLUX_TEST_SPARING_H

#include "libflux/handle.h"
#include "libutil/test/fail_at.h"

static void deliver(flux_t *h, flux_msg_t *msg)
{
    sparing--;
    flux_handle_deliver(h, msg);
    sparing++;
}

static int run_loop(flux_reactor_t *r)
{
    int rc;

    sparing--;
    rc = flux_reactor_run(r);
    sparing++;
    return rc;
}
#define flux_handle_deliver deliver
#define flux_reactor_run run_loop

#endif
