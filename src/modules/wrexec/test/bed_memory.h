/* The bed with allocations of the module that may fail: those of the test neither fail nor count
 * (libutil/test/fail_at.h).  Include it in the place of bed.h. */
#ifndef WREXEC_TEST_BED_MEMORY_H
#define WREXEC_TEST_BED_MEMORY_H

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
#include "bed.h"

static void sent_sparing(struct fake *f, flux_msg_t *msg)
{
    sparing++;
    sent(f, msg);
    sparing--;
}

#endif
