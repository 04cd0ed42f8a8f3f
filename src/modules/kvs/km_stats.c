/* km_stats.c - the counters of an instance.
 *
 *    kvs.stats      {"namespace"}, or nothing  -> counters of a namespace (nothing: the primary)
 *
 * Failure: EPROTO for another payload; the error of a namespace that cannot be used.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "km_disk.h"

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
    struct km_wire_stats s = {
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
        .commits_again = ns->st.commits_again,
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
        .senders = claims_count(ns->k->senders) + claims_count(ns->k->uploaders),
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
    flux_respond_struct(h, msg, &km_wire_stats_schema, &s);
}
