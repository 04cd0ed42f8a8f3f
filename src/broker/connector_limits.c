/* connector_limits.c - the limits of the local connector, as brokers have them.
 *
 * `cut_bytes` is far above `pause_bytes`: a client for which output waits is no longer read, so
 * only the answers to what it sent before, events and streams can reach the bound at which it is
 * disconnected.
 */
#include "config.h"
#include "connector.h"

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
