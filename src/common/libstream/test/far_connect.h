/* far_connect.h - connect to an address of a writer, in tests and benches.
 *
 * Returns a descriptor that does not block; -1 with errno.
 */
#ifndef STREAM_FAR_CONNECT_H
#define STREAM_FAR_CONNECT_H

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "libstream/far_addr.h"

static inline int far_connect(const char *address)
{
    struct pollfd p = {.fd = far_addr_begin(address), .events = POLLOUT};
    int saved;

    if (p.fd < 0 || (poll(&p, 1, 30000) == 1 && far_addr_connected(p.fd) == 1))
        return p.fd;
    saved = errno;
    close(p.fd);
    errno = saved;
    return -1;
}

#endif
