/* outlet_wait.h - what a writer has counted, and until it has counted so much, in tests. */
#ifndef STREAM_OUTLET_WAIT_H
#define STREAM_OUTLET_WAIT_H

#include <poll.h>

#include "libstream/outlet.h"

static inline struct outlet_stats stats(outlet_t *o)
{
    struct outlet_stats st;

    outlet_get_stats(o, &st);
    return st;
}

static inline void wait_readers(outlet_t *o, unsigned n)
{
    while (stats(o).readers != n)
        poll(NULL, 0, 1);
}

/* Until steps of `bytes` bytes are needed. */
static inline void wait_live(outlet_t *o, uint64_t bytes)
{
    while (stats(o).live != bytes)
        poll(NULL, 0, 1);
}

#endif
