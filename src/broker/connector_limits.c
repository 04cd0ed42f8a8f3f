/* connector_limits.c - the limits of the local connector, as brokers have them, and the check of
 * those on connections.
 *
 * `cut_bytes` is far above `pause_bytes`: a client for which output waits is no longer read, so
 * only the answers to what it sent before, events and streams can reach the bound at which it is
 * disconnected.
 */
#include "config.h"
#include "connector.h"

#include <errno.h>
#include <sys/resource.h>

#define RESERVED 32 /* descriptors */

const struct connector_limits connector_limits_default = {
    .pause_bytes = 1024 * 1024,
    .pause_messages = 8192,
    .cut_bytes = 64 * 1024 * 1024,
    .pause_inflight = 32768,
    .json_bytes = 8 * 1024 * 1024,
    .json_values = 256 * 1024,
    .clients = 65536,
    .per_process = 4096,
};

int connector_check_room(const struct connector_limits *lim, const struct connector_room *r,
                         errmsg_t *err)
{
    struct rlimit files;

    if (r->mine >= lim->per_process)
        return errmsg_fail(
            err, EMFILE,
            "process %d has %u connections to the broker of rank %u, and may have no more: "
            "close some",
            (int)r->pid, r->mine, r->rank);
    if (r->clients > lim->clients)
        return errmsg_fail(err, EMFILE,
                           "the broker of rank %u has its maximum of %u clients: try again later",
                           r->rank, lim->clients);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        (rlim_t)r->fd + RESERVED >= files.rlim_cur)
        return errmsg_fail(
            err, EMFILE,
            "the broker of rank %u has no file descriptors for more clients: try again "
            "later, or start it with a higher limit than %lu (ulimit -n)",
            r->rank, (unsigned long)files.rlim_cur);
    return 0;
}
