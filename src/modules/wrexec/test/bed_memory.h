/* The bed with allocations of the module that may fail: those of the test neither fail nor count
 * (libutil/test/fail_at.h).  Include it in the place of bed.h. */
#ifndef WREXEC_TEST_BED_MEMORY_H
#define WREXEC_TEST_BED_MEMORY_H

#include "libflux/test/sparing.h"

#include "bed.h"

static void sent_sparing(struct fake *f, flux_msg_t *msg)
{
    sparing++;
    sent(f, msg);
    sparing--;
}

#endif
