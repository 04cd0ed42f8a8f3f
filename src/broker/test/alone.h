/* alone.h - the links of a core without other brokers. */
#ifndef TEST_ALONE_H
#define TEST_ALONE_H

#include <errno.h>

#include "src/broker/core.h"

static inline int alone_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg,
                             bool force)
{
    errno = EHOSTUNREACH;
    return -1;
}

static inline int alone_publish(void *arg, const flux_msg_t *event)
{
    return 0;
}

static inline void alone_drop(void *arg, enum core_plane plane, uint32_t rank)
{
}

static const struct core_link_ops alone_ops = {
    .send = alone_send, .publish = alone_publish, .drop = alone_drop};

#endif
