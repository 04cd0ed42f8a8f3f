/* km_stats.c - the counters of an instance.
 *
 *    kvs.stats      {"namespace"}, or nothing  -> counters of a namespace (nothing: the primary)
 *
 * Failure: EPROTO for another payload; the error that keeps a request from its namespace.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "km_disk.h"

struct stats {
    bool master;
    const char *hash;
    uint64_t version, objects, bytes, cached_objects, cached_bytes, cache_limit, hits, misses,
        dropped, lookups, readdirs, commits, root_changes, fences, fences_open, fence_calls, loads,
        served, watchers, watch_sent, watch_looked, watch_pending, fence_msgs_in, fence_bytes_in,
        fence_bytes_local, namespaces_known, senders, snapshots, expired, cached_in_all, collected,
        uploads, upload_bytes;
    bool on_disk; /* and what follows is about that */
    uint64_t dirty_bytes, journal_bytes, disk_rows, disk_syncs, disk_checkpoints, disk_loads,
        disk_failures, disk_bytes, disk_free_bytes, disk_turns;
};
static const struct flux_field stats_fields[] = {
    FLUX_FIELD_BOOL(struct stats, master, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct stats, hash, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, objects, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, cached_objects, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, cached_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, cache_limit, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, hits, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, misses, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, lookups, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, readdirs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, commits, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, root_changes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, fences, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, fences_open, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, fence_calls, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, loads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, served, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watchers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watch_sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watch_looked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watch_pending, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, namespaces_known, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, senders, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, snapshots, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, expired, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, cached_in_all, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, collected, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, uploads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, upload_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, fence_msgs_in, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, fence_bytes_in, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, fence_bytes_local, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_BOOL(struct stats, on_disk, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, dirty_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, journal_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_rows, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_syncs, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_checkpoints, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_loads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_failures, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_free_bytes, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, disk_turns, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema stats_schema = FLUX_SCHEMA(struct stats, stats_fields);

static size_t all_snapshots(const struct km *k)
{
    size_t n = 0;
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val))
        n += km_snapshot_count(val);
    return n;
}

struct km_ns *km_stats_request(struct km *k, const flux_msg_t *msg, flux_handler_f cb)
{
    struct km_wire_some r = {KVS_NS_PRIMARY};
    json_t *owner = NULL;
    struct km_ns *ns;

    if (flux_msg_payload(msg, NULL) &&
        flux_request_decode(k->h, msg, &km_wire_some_schema, &r, &owner) < 0)
        return NULL;
    ns = km_space_request_ready(k, msg, r.namespace, strlen(r.namespace), cb);
    json_decref(owner);
    return ns;
}

void km_stats_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns = km_stats_request(arg, msg, km_stats_cb);
    struct content_stats cs = {0};
    struct kvsstore_stats ss = {0};
    struct km_keep_stats ks;

    if (!ns)
        return;
    km_keep_stats(ns->keep, &ks);
    content_get_stats(ns->content, &cs);
    if (ns->store)
        kvsstore_get_stats(ns->store, &ss);
    struct stats s = {
        .master = ns->master,
        .hash = ns->k->hash,
        .version = ns->version,
        .objects = cs.objects,
        .bytes = cs.bytes,
        .cached_objects = cs.free_objects,
        .cached_bytes = cs.free_bytes,
        .cache_limit = ns->k->cache_limit,
        .hits = cs.hits,
        .misses = cs.misses,
        .dropped = cs.dropped,
        .lookups = ns->st.lookups,
        .readdirs = ns->st.readdirs,
        .commits = ns->st.commits,
        .root_changes = ns->st.root_changes,
        .fences = ns->st.fences,
        .fences_open = km_fence_count(ns),
        .fence_calls = km_fence_calls(ns),
        .loads = ns->st.loads,
        .served = ns->st.served,
        .watchers = km_watch_count(ns),
        .watch_sent = ns->st.watch_sent,
        .watch_looked = ns->st.watch_looked,
        .watch_pending = km_watch_pending(ns),
        .namespaces_known = hmap_count(ns->k->spaces),
        .senders = claims_count(ns->k->senders),
        .snapshots = all_snapshots(ns->k),
        .expired = cs.expired,
        .cached_in_all = km_cache_all_bytes(ns->k->caches),
        .collected = ss.collected,
        .uploads = ss.uploads,
        .upload_bytes = ss.upload_bytes,
        .fence_msgs_in = ns->st.fence_msgs_in,
        .fence_bytes_in = ns->st.fence_bytes_in,
        .fence_bytes_local = ns->st.fence_bytes_local,
        .on_disk = ns->keep != NULL,
        .dirty_bytes = ns->keep ? ss.dirty_bytes : 0,
        .journal_bytes = ks.journal_bytes,
        .disk_rows = ks.rows,
        .disk_syncs = ks.syncs,
        .disk_checkpoints = ks.checkpoints,
        .disk_loads = ks.loads,
        .disk_failures = ks.failures,
        .disk_bytes = ks.bytes,
        .disk_free_bytes = ks.free_bytes,
        .disk_turns = ks.turns,
    };
    flux_respond_struct(h, msg, &stats_schema, &s);
}
