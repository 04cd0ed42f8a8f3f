/* km_wire.c - messages of the service "kvs".
 *
 * km_wire_methods[] lists every message, whichever file describes its payload, and doc/protocol.rst
 * prints the list.  Words in place of a schema name raw layouts, which doc/protocol.rst defines.
 *
 * Failure: none; this file contains only constants.
 */
#include "config.h"
#include "km_wire.h"
#include "libkvs/kvs_json_wire.h"

static const struct flux_field drop_fields[] = {
    FLUX_FIELD_STR(struct km_wire_drop, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_drop, userid, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct km_wire_drop, owner, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_drop, number, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_drop_schema = FLUX_SCHEMA(struct km_wire_drop, drop_fields);

static const struct flux_field abort_fields[] = {
    FLUX_FIELD_STR(struct km_wire_abort, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct km_wire_abort, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_abort, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_abort, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_abort, number, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct km_wire_abort, reason, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_abort_schema = FLUX_SCHEMA(struct km_wire_abort, abort_fields);

static const struct flux_field told_fields[] = {
    FLUX_FIELD_STR(struct km_wire_told, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct km_wire_told, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_told, nprocs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_told, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_told_schema = FLUX_SCHEMA(struct km_wire_told, told_fields);

static const struct flux_field collected_fields[] = {
    FLUX_FIELD_U64(struct km_wire_collected, collected, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_collected, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_collected, objects, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_collected, bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_collected_schema =
    FLUX_SCHEMA(struct km_wire_collected, collected_fields);

static const struct flux_field check_fields[] = {
    FLUX_FIELD_ARRAY(struct km_wire_check, namespaces, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_check_schema = FLUX_SCHEMA(struct km_wire_check, check_fields);

static const struct flux_field checked_fields[] = {
    FLUX_FIELD_ARRAY(struct km_wire_checked, gone, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_checked_schema =
    FLUX_SCHEMA(struct km_wire_checked, checked_fields);

static const struct flux_field gone_fields[] = {
    FLUX_FIELD_STR(struct km_wire_gone, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_gone, client, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_gone_schema = FLUX_SCHEMA(struct km_wire_gone, gone_fields);

static const struct flux_field some_fields[] = {
    FLUX_FIELD_STR(struct km_wire_some, namespace, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_some_schema = FLUX_SCHEMA(struct km_wire_some, some_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_BOOL(struct km_wire_stats, master, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct km_wire_stats, hash, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, objects, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, cached_objects, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, cached_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, cache_limit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, hits, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, misses, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, lookups, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, readdirs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, commits, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, commits_again, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, root_changes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, fences, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, fences_open, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, fence_calls, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, loads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, served, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, watchers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, watch_sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, watch_looked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, watch_pending, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, namespaces_known, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, senders, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, snapshots, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, expired, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, cached_in_all, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, collected, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, uploads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, upload_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, fence_msgs_in, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, fence_bytes_in, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, fence_bytes_local, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct km_wire_stats, on_disk, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, dirty_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, journal_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_rows, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_syncs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_checkpoints, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_loads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_failures, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_free_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_stats, disk_turns, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_stats_schema = FLUX_SCHEMA(struct km_wire_stats, stats_fields);

static const struct flux_field place_fields[] = {
    FLUX_FIELD_STR(struct km_wire_place, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_place, owner, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct km_wire_place, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_place, serial, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct km_wire_place, lost, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct km_wire_place, hash, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_place_schema = FLUX_SCHEMA(struct km_wire_place, place_fields);

static const struct flux_field serial_fields[] = {
    FLUX_FIELD_STR(struct km_wire_serial, namespace, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct km_wire_serial, serial, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
const struct flux_schema km_wire_serial_schema = FLUX_SCHEMA(struct km_wire_serial, serial_fields);

const struct flux_method km_wire_methods[] = {
    {.topic = "kvs.commit",
     .takes = "*for a namespace*: transaction",
     .gives = "root",
     .what = "apply a transaction; between instances with flag 4, and numbers before the "
             "transaction by which the master applies it once, however often it arrives"},
    {.topic = "kvs.fence",
     .takes =
         "u32 nprocs, u32 calls in this message, u32 rank, u32 number, u32 after, u8 flags, u8 "
         "length of the name, u8 length of the namespace, u8 0, u32 length of the ranks, u32 "
         "length of the callers, u32 heard, u32 before, namespace, name, ranks, callers, "
         "transaction",
     .gives = "root",
     .what = "one of *nprocs* transactions that are applied together; the response comes when the "
             "fence is complete"},
    {.topic = "kvs.lookup", .takes = "look-up", .gives = "answer", .what = "value of a key"},
    {.topic = "kvs.readdir",
     .takes = "look-up",
     .gives = "answer with entries",
     .what = "entries of a directory"},
    {.topic = "kvs.watch",
     .flags = FLUX_METHOD_STREAM,
     .takes = "look-up",
     .gives = "answer",
     .what = "a key now, and at each change"},
    {.topic = "kvs.version",
     .request = &kvs_ns_only_schema,
     .response = &kvs_version_answer_schema,
     .what = "version and root that this instance knows"},
    {.topic = "kvs.wait-version",
     .flags = FLUX_METHOD_STREAM,
     .request = &kvs_ns_version_schema,
     .response = &kvs_version_answer_schema,
     .what = "one response, when that version is here"},
    {.topic = "kvs.snapshot",
     .flags = FLUX_METHOD_STREAM,
     .request = &kvs_ns_rootref_schema,
     .gives = "root",
     .what = "keep a root (an empty rootref is the newest) until the stream ends"},
    {.topic = "kvs.store",
     .takes = "*for a namespace*: bytes of a value, at most 1 MiB",
     .gives = "u8 size of a hash, three zeros, hashes of its chunks of 32 KiB",
     .what = "upload a part of a value; between instances with flag 2, and u32 the sender's number "
             "for the client before the bytes"},
    {.topic = "kvs.fences",
     .flags = FLUX_METHOD_STREAM,
     .response = &kvs_fence_list_schema,
     .what = "fences that are not over and that the sender may use, as this instance knows them"},
    {.topic = "kvs.gc",
     .request = &kvs_ns_only_schema,
     .response = &km_wire_collected_schema,
     .what = "the response comes when there is no garbage"},
    {.topic = "kvs.stats",
     .request = &km_wire_some_schema,
     .response = &km_wire_stats_schema,
     .what = "counters of this instance"},
    {.topic = "kvs.dropcache",
     .request = &km_wire_some_schema,
     .response = &kvs_dropped_schema,
     .what = "drop cached objects"},
    {.topic = "kvs.namespace-create",
     .request = &kvs_ns_create_schema,
     .gives = "empty object",
     .what =
         "create a namespace (owner 0xffffffff: the sender); the response comes when its master "
         "serves it"},
    {.topic = "kvs.namespace-remove",
     .request = &kvs_ns_only_schema,
     .gives = "empty object",
     .what = "remove a namespace; the response comes when its master no longer serves it"},
    {.topic = "kvs.namespace-list", .response = &kvs_ns_list_schema, .what = "all namespaces"},
    {.topic = "kvs.load",
     .flags = FLUX_METHOD_INSTANCES,
     .takes = "*for a namespace*: hashes, at most 256",
     .gives =
         "for each u32 length, object; length 0xffffffff: there is none, 0xfffffffe: ask again",
     .what = "objects by hash"},
    {.topic = "kvs.getroot",
     .request = &kvs_ns_only_schema,
     .gives = "root",
     .what = "the root that this instance knows"},
    {.topic = "kvs.follow",
     .flags = FLUX_METHOD_STREAM | FLUX_METHOD_INSTANCES,
     .request = &kvs_ns_only_schema,
     .gives = "root",
     .what = "the root now, and newer ones"},
    {.topic = "kvs.fence-abort",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_abort_schema,
     .gives = "empty object",
     .what = "participants below this instance are gone"},
    {.topic = "kvs.fence-told",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_told_schema,
     .gives = "empty object",
     .what = "this many callers know that the fence was aborted"},
    {.topic = "kvs.store-gone",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_gone_schema,
     .gives = "empty object",
     .what = "a client that uploaded is gone"},
    {.topic = "kvs.namespace-find",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &kvs_ns_only_schema,
     .response = &km_wire_place_schema,
     .what = "to rank 0: where a namespace is"},
    {.topic = "kvs.namespace-open",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_place_schema,
     .gives = "empty object",
     .what = "from rank 0: be the master of a namespace"},
    {.topic = "kvs.namespace-close",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_serial_schema,
     .gives = "empty object",
     .what = "from rank 0: be its master no longer"},
    {.topic = "kvs.namespace-drop",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_drop_schema,
     .gives = "empty object",
     .what = "to rank 0: a removal, and who asks for it"},
    {.topic = "kvs.namespace-lost",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_serial_schema,
     .gives = "empty object",
     .what = "to rank 0: the master of a namespace is lost"},
    {.topic = "kvs.namespace-check",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_check_schema,
     .response = &km_wire_checked_schema,
     .what = "to rank 0: which of these were removed, by index"},
    {.topic = "kvs.namespace-register",
     .flags = FLUX_METHOD_INSTANCES,
     .request = &km_wire_place_schema,
     .gives = "empty object",
     .what = "to rank 0 after it began anew: the sender is the master of a namespace"},
    {.topic = "kvs.setroot",
     .flags = FLUX_METHOD_EVENT,
     .takes = "root",
     .what = "a new root of the primary namespace"},
    {.topic = "kvs.namespace-removed",
     .flags = FLUX_METHOD_EVENT,
     .request = &km_wire_serial_schema,
     .what = "a namespace was removed"},
    {.topic = "kvs.began",
     .flags = FLUX_METHOD_EVENT,
     .what = "the store of rank 0 is back from the disk"},
    FLUX_METHOD_END,
};
