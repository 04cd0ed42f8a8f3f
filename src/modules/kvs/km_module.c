/* km_module.c - the key-value store as a service: an instance, its namespaces, its table of
 * requests.
 *
 * Purpose: one instance runs at each rank.  Each namespace has its master at one of the ranks; the
 * master of the primary namespace is rank 0.  The master holds the store (libkvs/kvsstore.h) and
 * makes new roots.  All other instances have a cache of objects, and the newest root that has
 * reached them.
 *
 *    file              contents
 *    km_ns.c           one namespace: its life and its root
 *    km_space.c        finding namespaces, and ending them
 *    km_directory.c    rank 0: the directory of all namespaces
 *    km_relay.c        requests that an instance passes on and whose answers it passes back
 *    km_route.c        the route to a master
 *    km_follow.c       roots of namespaces other than the primary
 *    km_version.c      kvs.version, kvs.wait-version, the event kvs.setroot
 *    km_commit.c       commits, and root changes at the master
 *    km_forward.c      commits on their way to the master
 *    km_once.c         commits that the master has received, in case they arrive again
 *    km_fence.c        fences, merged on the way up
 *    km_fence_part.c   the parts of a fence, one for each sender
 *    km_fence_end.c    the ends of recent fences, for instances that missed the answer
 *    km_fence_lost.c   fences after the loss of a broker
 *    km_fence_list.c   kvs.fences: the list of open fences
 *    km_merge.c        the merged transactions of one fence
 *    km_tombstone.c    aborted fences
 *    km_load.c         objects from upstream, for readers here and for instances below
 *    km_read.c         kvs.lookup, kvs.readdir
 *    km_answer.c       the responses to both
 *    km_entries.c      a response of many entries under construction
 *    km_watch.c        kvs.watch
 *    km_watchkey.c     the tree of watched keys
 *    km_delta.c        responses to watchers that contain only the changes
 *    km_snapshot.c     kvs.snapshot: old roots that are held
 *    km_upload.c       kvs.store: pieces of large values
 *    km_missed.c       namespaces that were removed while events were lost
 *    km_disk.c         the file on disk, if there is one
 *    km_driver.c       loading the driver of this file
 *    km_restore.c      restoring the namespaces from the file
 *    km_keep.c         the journal of a namespace
 *    km_checkpoint.c   checkpoints of a namespace, and the deletion of dead objects
 *    km_stats.c        kvs.stats
 *    km_cache.c        the size and age of caches; kvs.dropcache
 *    km_gc.c           kvs.gc
 *    km_wire.c         the descriptions of all messages
 *
 *    kvs.disconnect and kvs.cancel are described in libflux/dispatch.h.
 *
 * Invariants:
 *  1. The primary namespace is always in the table.
 *  2. Every request that waits here, of a client or of an instance below, has a claim
 *     (libservice/claim.h), so that the end of one client does not affect another.
 *  3. A store that is not kept on disk (km_disk.c) exists only in memory.  Its master refuses to be
 *     unloaded or reloaded while the store has contents, and any instance refuses while a fence is
 *     open, unless it is forced.  A new master announces its first root.  An instance that knows a
 *     later root requests the root from the master.  If the answer is older than the root that the
 *     instance had before its request, the store has begun anew, and the instance takes the root of
 *     the answer.
 *
 * Failure: an instance that cannot start reports the reason and ends.  An instance that is stopped
 * fails the fences and commits of its clients that it has passed on: if they were handed to the
 * next instance, they would count twice.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_entries.h"
#include "km_private.h"
#include "libflux/cancel_wire.h"

#define HASH "sha256"

/* The instance, with the members that only this file uses. */
struct kvs {
    struct km km;
    flux_handlers_t *handlers;
    setup_t *setup;
    double born;             /* reactor time */
    bool refused;            /* an attribute was refused */
    double fence_grace;      /* seconds */
    flux_future_t *starting; /* the event "kvs.began" */
    flux_future_t *events[3];
    flux_watcher_t *tick; /* timer of periodic work */
};

static struct kvs *kvs_of(const struct km *k)
{
    return list_entry(k, struct kvs, km);
}

/* --- the hash --- */

int km_module_learn_algorithm(struct km *k, const char *name, errmsg_t *err)
{
    if (k->blobref)
        return 0;
    snprintf(k->hash, sizeof(k->hash), "%s", name);
    return (k->blobref = blobref_create(k->hash, err)) ? 0 : -1;
}

/* Rank 0 chooses the hash: other instances learn it from the first root or place of a namespace. */
int km_module_learn_hash(struct km *k, const char *ref, errmsg_t *err)
{
    char name[sizeof(k->hash)];
    size_t len = strcspn(ref, "-");

    if (len >= sizeof(name))
        return errmsg_fail(err, EPROTO, "'%.40s' is not a reference of a root", ref);
    memcpy(name, ref, len);
    name[len] = '\0';
    return km_module_learn_algorithm(k, name, err);
}

uint32_t km_module_clock(const struct km *k)
{
    return (uint32_t)(flux_now(k->h) - kvs_of(k)->born);
}

static void set_tick(struct kvs *kvs)
{
    flux_reactor_t *r = flux_get_reactor(kvs->km.h);

    flux_timer_start(kvs->tick,
                     flux_reactor_beat(r, km_cache_period(&kvs->km)) - flux_reactor_now(r), 0.);
}

static void tick_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km *k = arg;
    size_t pos = 0;
    void *val;

    set_tick(kvs_of(k));
    while (hmap_next(k->spaces, &pos, NULL, NULL, &val))
        km_upload_expire(val);
    km_cache_expire(k);
    km_disk_tick(k);
    km_space_expire(k);
    km_missed_work(k->missed);
    if (k->primary->ready && k->primary->store)
        km_commit_publish(k->primary); /* if the last event failed */
}

/* --- clients that disconnect --- */

static void disconnect_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;

    claims_disconnect(k->senders, msg);
    if (!flux_msg_has_flag(msg, FLUX_MSGF_IDEMPOTENT)) /* else only its way was lost */
        claims_disconnect(k->uploaders, msg);
}

static void cancel_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    uint32_t matchtag;

    if (cancel_decode(h, msg, &matchtag) < 0)
        return;
    claims_cancel(k->senders, msg, matchtag);
    flux_respond(h, msg, NULL);
}

#define OWNER (FLUX_ROLE_OWNER | FLUX_ROLE_BROKER)
/* The namespace decides on the permission (km_space_permitted()). */
#define ANYBODY (OWNER | FLUX_ROLE_USER)

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "kvs.lookup", km_read_lookup_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.readdir", km_read_readdir_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.commit", km_commit_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.fence", km_fence_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.fences", km_fence_list_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.fence-abort", km_fence_abort_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.fence-told", km_fence_notified_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.watch", km_watch_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.snapshot", km_snapshot_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.store", km_upload_store_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.store-gone", km_upload_gone_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.load", km_load_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.follow", km_follow_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.getroot", km_version_getroot_cb, OWNER},
    {FLUX_MSG_REQUEST, "kvs.version", km_version_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.wait-version", km_version_wait_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.namespace-create", km_directory_create_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.namespace-remove", km_directory_remove_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.namespace-list", km_directory_list_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.namespace-drop", km_directory_drop_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.namespace-find", km_space_find_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.namespace-open", km_space_open_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.namespace-close", km_space_close_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.namespace-lost", km_directory_lost_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.namespace-register", km_directory_register_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.namespace-check", km_missed_check_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.stats", km_stats_cb, OWNER},
    {FLUX_MSG_REQUEST, "kvs.dropcache", km_cache_drop_cb, OWNER},
    {FLUX_MSG_REQUEST, "kvs.gc", km_gc_cb, OWNER},
    {FLUX_MSG_REQUEST, "kvs.disconnect", disconnect_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.cancel", cancel_cb, ANYBODY},
    {FLUX_MSG_EVENT, "kvs.setroot", km_version_setroot_cb, 0},
    {FLUX_MSG_EVENT, "kvs.began", km_version_began_cb, 0},
    {FLUX_MSG_EVENT, "kvs.namespace-removed", km_space_removed_cb, 0},
    {FLUX_MSG_EVENT, "event.lost", km_route_missed_cb, 0},
    {FLUX_MSG_EVENT, "overlay.moved", km_route_moved_cb, 0},
    FLUX_HANDLER_END,
};

/* --- life --- */

static void fail_start(struct km *k, int errnum, const char *what, const char *why)
{
    flux_module_fail(k->h, errnum, "%s: %s", what, why);
    errno = errnum;
    flux_reactor_stop(flux_get_reactor(k->h), -1);
}

static void said_cb(flux_future_t *f, void *arg)
{
    struct kvs *kvs = arg;

    if (flux_future_errnum(f) != 0)
        flux_log(kvs->km.h, LOG_ERR, "the start of the store could not be announced: %s",
                 flux_future_error(f));
    kvs->starting = NULL;
    flux_future_destroy(f);
}

/* Publish kvs.began: other instances then register their namespaces with the directory, and check
 * their roots. */
static void say_began(struct km *k)
{
    struct kvs *kvs = kvs_of(k);

    kvs->starting = flux_event_publish(k->h, "kvs.began", NULL);
    if (!kvs->starting || flux_future_then(kvs->starting, -1., said_cb, kvs) < 0)
        flux_log(k->h, LOG_ERR, "out of memory: the start of the store is not announced");
}

/* The namespaces on disk, if any are kept there, are restored. */
static void kept_cb(struct km *k, int errnum, const char *error)
{
    k->started = errnum == 0;
    if (errnum)
        fail_start(k, errnum, "no store", error);
    else if (k->disk)
        km_ns_serve(k->primary);
    else if (km_ns_open(k->primary) < 0)
        fail_start(k, ENOMEM, "the store", "out of memory");
    if (k->started && k->primary->version > 0)
        say_began(k);
    if (k->started)
        flux_module_started(k->h);
}

/* The attributes have arrived. */
static void begin(struct km *k)
{
    errmsg_t err;

    if (!k->first) {
        k->started = true;
        km_ns_begin(k->primary);
    } else if (!(k->blobref = blobref_create(k->hash, &err))) {
        fail_start(k, errno, "attribute content.hash", err.text);
    } else if (km_disk_start(k, kept_cb) < 0) {
        fail_start(k, ENOMEM, "the store", "out of memory");
    }
}

/* --- settings --- */

static int set_hash(void *arg, const char *value, errmsg_t *err)
{
    struct km *k = &((struct kvs *)arg)->km;

    if (!k->blobref) /* else the hash of rank 0 is known already */
        snprintf(k->hash, sizeof(k->hash), "%s", value);
    return 0;
}

static void ready(void *arg)
{
    struct kvs *kvs = arg;

    if (kvs->refused)
        return;
    set_tick(kvs);
    begin(&kvs->km);
}

static void refused(void *arg, const char *sentence)
{
    struct kvs *kvs = arg;

    kvs->refused = true;
    fail_start(&kvs->km, EINVAL, "no store", sentence);
}

static const struct setup_row rows[] = {
    SETUP_CALL("content.hash", set_hash),
    SETUP_SIZE("content.cache-limit", struct kvs, km.cache_limit),
    SETUP_SECONDS("content.expire", struct kvs, km.expire),
    SETUP_SECONDS("kvs.fence-grace", struct kvs, fence_grace),
    SETUP_END,
};
static const struct setup_table settings = {"kvs", rows, ready, refused};

/* --- events --- */

static void subscribed_cb(flux_future_t *f, void *arg)
{
    if (flux_future_errnum(f) != 0)
        fail_start(arg, flux_future_errnum(f), "events cannot be received", flux_future_error(f));
}

/* Subscribe to the events that rank 0 publishes. */
static int subscribe(struct kvs *kvs)
{
    static const char *const topics[] = {"kvs.setroot", "kvs.began", "kvs.namespace-removed"};

    for (int i = 0; !kvs->km.first && i < 3; i++) {
        kvs->events[i] = flux_event_subscribe(kvs->km.h, topics[i]);
        if (!kvs->events[i] || flux_future_then(kvs->events[i], -1., subscribed_cb, &kvs->km) < 0)
            return -1;
    }
    return 0;
}

static const struct session_ops session_ops = {.lost = km_route_lost, .tree = km_route_tree};

/* --- the end and the beginning --- */

static void spaces_fini(struct km *k)
{
    size_t pos = 0;
    void *val;

    while (k->spaces && hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        if (ns->master && ns != k->primary && !k->first)
            km_directory_tell_lost(k, ns->name, ns->serial);
        km_ns_destroy(ns);
    }
    km_ns_turns_destroy(k->turns);
    hmap_destroy(k->spaces);
}

static void kvs_fini(flux_t *h, void *arg)
{
    struct km *k = arg;
    struct kvs *kvs = kvs_of(k);

    /* Requests that wait are not answered here: the module host answers them, or passes them to the
     * next instance. */
    k->ending = true;
    flux_handlers_remove(kvs->handlers);
    flux_future_destroy(kvs->starting);
    setup_destroy(kvs->setup);
    for (int i = 0; i < 3; i++)
        flux_future_destroy(kvs->events[i]);
    km_relay_destroy(k->relays);
    km_missed_destroy(k->missed);
    km_disk_stop(k);
    spaces_fini(k);
    longlist_destroy(k->fences);
    km_route_destroy(k->route);
    km_directory_destroy(k->dir);
    km_cache_all_destroy(k->caches);
    km_read_slow_destroy(k->slow);
    km_load_miss_destroy(k->miss);
    km_entries_sum_destroy(k->entries);
    claims_destroy(k->senders);
    claims_destroy(k->uploaders);
    blobref_destroy(k->blobref);
    session_destroy(k->session);
    grace_destroy(k->grace);
    flux_watcher_destroy(kvs->tick);
    free(kvs);
}

static int make_parts(struct km *k)
{
    return (k->relays = km_relay_create(k->h)) && (k->missed = km_missed_create(k)) &&
                   (k->route = km_route_create(k)) && (k->dir = km_directory_create(k)) &&
                   (k->caches = km_cache_all_create(k)) && (k->slow = km_read_slow_create()) &&
                   (k->miss = km_load_miss_create()) && (k->entries = km_entries_sum_create()) &&
                   (k->turns = km_ns_turns_create(k))
               ? 0
               : -1;
}

static int kvs_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct kvs *kvs;
    struct km *k;

    if (setup_no_arguments("kvs", argc, argv, err) < 0)
        return -1;
    if (!(kvs = calloc(1, sizeof(*kvs))))
        return errmsg_fail(err, ENOMEM, "the kvs module is out of memory");
    k = &kvs->km;
    k->h = h;
    k->first = flux_is_root(h);
    snprintf(k->hash, sizeof(k->hash), "%s", HASH);
    if (!(k->session = session_create(h, &session_ops, k)) ||
        !(k->grace = grace_create(h, &kvs->fence_grace)) || !(k->senders = claims_create()) ||
        !(k->uploaders = claims_create()) || make_parts(k) < 0 ||
        !(k->spaces = hmap_create_str(NULL)) || !(k->fences = km_fence_list_create(k)) ||
        !(k->primary = km_ns_create(k, KVS_NS_PRIMARY, FLUX_NODEID_ROOT)) ||
        !(kvs->tick = flux_timer_create(flux_get_reactor(h), tick_cb, k)) ||
        !(kvs->handlers = flux_handlers_add(h, handlers, k)) || subscribe(kvs) < 0 ||
        !(kvs->setup = setup_create(h, &settings, kvs, 0, NULL, err))) {
        kvs_fini(h, k);
        return errmsg_fail(err, ENOMEM, "the kvs module is out of memory");
    }
    kvs->born = flux_now(h);
    if (flux_module_reloaded(h)) /* the instance before knew which ranks are lost */
        session_ask_lost(k->session);
    if (k->first)
        flux_module_starting(h);
    k->primary->state = KM_NS_KNOWN;
    *arg = k;
    return 0;
}

static int kvs_may_stop(flux_t *h, void *arg, errmsg_t *err)
{
    struct km *k = arg;
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        size_t open = km_fence_count(ns);
        if (ns->master && !ns->keep &&
            (ns->version > 0 || km_commit_open(ns) || km_commit_queued(ns)))
            return errmsg_fail(err, EBUSY,
                               "the store is in its memory and would be lost, all %llu versions of "
                               "it: use --force to unload it anyway",
                               (unsigned long long)ns->version);
        if (open > 0)
            return errmsg_fail(err, EBUSY,
                               "%zu open fence%s would be aborted: try again later, or use --force",
                               open, open > 1 ? "s" : "");
    }
    return 0;
}

/* OpenSSL needs a millisecond for the first hash in a process. */
static void kvs_prepare(void)
{
    blobref_destroy(blobref_create(HASH, NULL));
}

FLUX_MODULE(kvs, kvs_init, kvs_fini, .place = FLUX_PLACE_LOOP, .may_stop = kvs_may_stop,
            .prepare = kvs_prepare);
