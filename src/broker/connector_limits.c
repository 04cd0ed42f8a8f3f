/* connector_limits.c - the limits of a broker's local connector, and the checks of connections and
 * requests against them.
 *
 * `cut_bytes` is far above `pause_bytes`: a client for which output waits is no longer read, so
 * only responses to earlier requests, events and streams can reach the bound at which it is
 * disconnected.  Many clients that read nothing would still take cut_bytes each: when more than
 * all_bytes wait for all clients together, the client for which the most bytes wait is
 * disconnected.
 *
 * Size of JSON: parsed JSON takes up to 80 times its size in memory.  A JSON request of more than
 * json_bytes is therefore refused before it is read, and one with more than json_values before a
 * module sees it.
 *
 * Descriptors: clients leave RESERVED of the broker's limited descriptors to
 * the broker itself, and one process gets at most per_process connections.  Clients beyond that get
 * an error, and are disconnected.
 */
#include "config.h"
#include "connector.h"

#include <errno.h>
#include <sys/resource.h>

#include "libschema/jsonsize.h"

#define RESERVED 32      /* descriptors */
#define JSON_SMALL 65536 /* too small to have too many values */

const struct connector_limits connector_limits_default = {
    .pause_bytes = 1024 * 1024,
    .pause_messages = 8192,
    .cut_bytes = 64 * 1024 * 1024,
    .all_bytes = 128 * 1024 * 1024,
    .pause_inflight = 32768,
    .json_bytes = FLUX_JSON_BYTES_MAX,
    .json_values = FLUX_JSON_VALUES_MAX,
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

int connector_check_json(const struct connector_limits *lim, const flux_msg_t *req, size_t dropped,
                         errmsg_t *err)
{
    size_t len;
    const char *text = flux_msg_payload(req, &len);

    if (dropped > 0)
        return errmsg_fail(err, EMSGSIZE,
                           "%s: a JSON payload of %zu bytes is too large: the limit is %zu",
                           flux_msg_topic(req), dropped, lim->json_bytes);
    if (len > JSON_SMALL && !flux_msg_has_flag(req, FLUX_MSGF_RAW) &&
        flux_json_count(text, len, lim->json_values) > lim->json_values)
        return errmsg_fail(err, EMSGSIZE, "%s: the JSON payload has more than %zu values",
                           flux_msg_topic(req), lim->json_values);
    return 0;
}
