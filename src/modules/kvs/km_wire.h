/* km_wire.h - messages of the service "kvs": the list of all messages, and the JSON between
 * instances. libkvs/kvs_json_wire.h describes the JSON of clients, libkvs/kvs_wire.h raw payloads.
 *
 * Pointers in structs refer to the decoded message.  Constants: any thread.
 */
#ifndef KVS_KM_WIRE_H
#define KVS_KM_WIRE_H

#include "libschema/schema.h"

/* kvs.namespace-drop, to rank 0. */
struct km_wire_drop {
    const char *namespace;
    uint32_t userid;
    bool owner;      /* the user is the owner of the session */
    uint64_t number; /* random: the same when the request is sent again */
};
extern const struct flux_schema km_wire_drop_schema;

/* kvs.fence-abort. */
struct km_wire_abort {
    const char *namespace;
    const char *name;
    uint32_t nprocs;
    uint32_t rank;
    uint32_t number;
    const char *reason;
};
extern const struct flux_schema km_wire_abort_schema;

/* kvs.fence-told. */
struct km_wire_told {
    const char *namespace;
    const char *name;
    uint32_t nprocs;
    uint32_t count;
};
extern const struct flux_schema km_wire_told_schema;

/* Response to kvs.gc. */
struct km_wire_collected {
    uint64_t collected, dropped, objects, bytes;
};
extern const struct flux_schema km_wire_collected_schema;

/* kvs.namespace-check, to rank 0. */
struct km_wire_check {
    json_t *namespaces;
};
extern const struct flux_schema km_wire_check_schema;

struct km_wire_checked {
    json_t *gone;
};
extern const struct flux_schema km_wire_checked_schema;

/* kvs.store-gone. */
struct km_wire_gone {
    const char *namespace;
    uint32_t client;
};
extern const struct flux_schema km_wire_gone_schema;

/* kvs.stats, kvs.dropcache, kvs.gc.  Absent: the primary namespace. */
struct km_wire_some {
    const char *namespace;
};
extern const struct flux_schema km_wire_some_schema;

/* Response to kvs.stats: the counters of one namespace at this instance; namespaces_known, senders,
 * snapshots and cached_in_all count for all namespaces together. */
struct km_wire_stats {
    bool master;
    const char *hash;
    uint64_t version, objects, bytes, cached_objects, cached_bytes, cache_limit, hits, misses,
        dropped, lookups, readdirs, commits, commits_again, root_changes, fences, fences_open,
        fence_calls, loads, served, watchers, watch_sent, watch_looked, watch_pending,
        fence_msgs_in, fence_bytes_in, fence_bytes_local, namespaces_known, senders, snapshots,
        expired, cached_in_all, collected, uploads, upload_bytes;
    bool on_disk; /* if false, all following counters are 0 */
    uint64_t dirty_bytes, journal_bytes, disk_rows, disk_syncs, disk_checkpoints, disk_loads,
        disk_failures, disk_bytes, disk_free_bytes, disk_turns;
};
extern const struct flux_schema km_wire_stats_schema;

/* The place of a namespace: the response to kvs.namespace-find; the requests kvs.namespace-open and
 * kvs.namespace-register. */
struct km_wire_place {
    const char *namespace;
    uint32_t owner;
    uint32_t rank;
    uint64_t serial;
    bool lost;
    const char *hash;
};
extern const struct flux_schema km_wire_place_schema;
/* One of the namespaces that had this name: kvs.namespace-close, kvs.namespace-lost, event
 * kvs.namespace-removed. */
struct km_wire_serial {
    const char *namespace;
    uint64_t serial;
};
extern const struct flux_schema km_wire_serial_schema;

extern const struct flux_method km_wire_methods[];

#endif
