/* km_private.h - the instance of the kvs module, and the functions of its files that other files
 * call. km_module.c describes how the files work together; km_ns.h describes one namespace. */
#ifndef KM_PRIVATE_H
#define KM_PRIVATE_H

#include "km_wire.h"
#include "km_ns.h"
#include "libservice/claim.h"
#include "libservice/grace.h"
#include "libservice/longlist.h"
#include "libservice/session.h"
#include "libservice/setup.h"
#include "libflux/module.h"
#include "libidset/idset.h"

/* Length of a slice of long work (a listing, the answers to many watchers).  A commit takes several
 * passes of the reactor, and each pass may contain such a slice, so this slice is shorter than
 * FLUX_SLICE_SECONDS. */
#define KM_SLICE_SECONDS (FLUX_SLICE_SECONDS / 8)

struct km_caches;
struct km_directory;
struct km_disk;
struct km_entries_sum;
struct km_load_miss;
struct km_missed;
struct km_relays;
struct km_route;
struct km_slow;

struct km {
    flux_t *h;
    bool first;   /* rank 0: the master of the primary namespace */
    bool started; /* the attributes have arrived */
    bool ending;  /* no request is answered any more */
    char hash[16];
    blobref_t *blobref;       /* NULL until the hash is known */
    hmap_t *spaces;           /* name -> struct km_ns */
    struct km_ns *primary;    /* never NULL */
    struct claims *senders;   /* requests: they end with the way of their sender */
    struct claims *uploaders; /* km_upload.c: they do not */
    session_t *session;
    grace_t *grace; /* timers of fences after the loss of ranks */
    longlist_t *fences;
    /* settings */
    uint64_t cache_limit;
    double expire; /* seconds after which unused objects and namespaces are dropped */
    /* Data that belongs to one file each. */
    struct km_turns *turns;
    struct km_caches *caches;
    struct km_directory *dir;
    struct km_disk *disk; /* rank 0, if the session has a statedir */
    struct km_entries_sum *entries;
    struct km_load_miss *miss;
    struct km_missed *missed;
    struct km_relays *relays;
    struct km_route *route;
    struct km_slow *slow;
};

/* The parts of an instance are created by make_parts() in km_module.c (NULL with ENOMEM), and
 * destroyed after all namespaces, except the relays and km_missed, which end before them.  The
 * functions that destroy them are NULL-safe. */

/* --- km_space.c --- */

/* The namespace of a request, if it is ready.  NULL: the request was answered with an error, or it
 * waits; `cb` gets it again when the namespace is ready. */
struct km_ns *km_space_request_ready(struct km *k, const flux_msg_t *msg, const char *name,
                                     size_t len, flux_handler_f cb);
/* As km_space_request_ready(), for a request with the payload {"namespace"}. */
struct km_ns *km_space_request_plain(struct km *k, const flux_msg_t *msg, flux_handler_f cb);
/* May the sender of the request use the namespace? */
bool km_space_permitted(const struct km_ns *ns, const flux_msg_t *msg);
/* Decode the raw payload of a request about a namespace.  -1: the request was answered with an
 * error. */
int km_space_decode(flux_t *h, const flux_msg_t *msg, struct kvs_ns_req *q);
/* Make this instance the master of a namespace, and add the namespace to the table.  NULL with
 * ENOMEM or EPROTO. */
struct km_ns *km_space_master(struct km *k, const struct km_wire_place *p, errmsg_t *err);
/* As km_space_master(), and open the namespace, empty.  `id`: its number on disk, or 0.  -1 with
 * ENOMEM or EPROTO. */
int km_space_open(struct km *k, const struct km_wire_place *p, uint32_t id, errmsg_t *err);
/* The namespace was removed.  True: it was kept on disk; `done` (if not NULL) is called when its
 * rows are deleted there, or with errnum != 0 if the deletion has failed so far. */
typedef void (*km_forgotten_f)(void *arg, int errnum, const char *error);
bool km_space_removed(struct km *k, const char *name, uint64_t serial, km_forgotten_f done,
                      void *arg);
void km_space_lost(struct km *k, const idset_t *ranks);
/* The tree has changed, or ranks were lost. */
void km_space_rerouted(struct km *k);
/* End the namespaces that were not used here for a while, and that no client waits for. */
void km_space_expire(struct km *k);

void km_space_find_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_space_open_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_space_close_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_space_removed_cb(flux_t *h, const flux_msg_t *event, void *arg);

/* --- km_module.c --- */

/* Seconds since the instance began. */
uint32_t km_module_clock(const struct km *k);
/* Learn the hash of the session: by its name, or from the text of a reference.  -1 with EPROTO or
 * ENOMEM. */
int km_module_learn_algorithm(struct km *k, const char *name, errmsg_t *err);
int km_module_learn_hash(struct km *k, const char *ref, errmsg_t *err);

/* --- km_disk.c --- */

/* Request the attribute statedir, and restore the namespaces in this directory.  `started` is
 * called later; by then all namespaces but the primary are open, and with a statedir the primary
 * is, too.  -1 with ENOMEM. */
int km_disk_start(struct km *k, void (*started)(struct km *k, int errnum, const char *error));
/* Called by the timer of the module: retry the removals of namespaces from disk that have
 * failed. */
void km_disk_tick(struct km *k);
/* Make all changes durable, answer the commits that wait for their rows, and close the file. */
void km_disk_stop(struct km *k);

/* --- km_directory.c --- */

struct km_directory *km_directory_create(struct km *k);
void km_directory_destroy(struct km_directory *d);
/* Look up a namespace that is live or lost: 0 with its place in *p (`p` may be NULL), or -1 with
 * ENOENT. */
int km_directory_find(struct km_directory *d, const char *name, struct km_wire_place *p,
                      errmsg_t *err);
void km_directory_lost(struct km_directory *d, const idset_t *ranks);
/* Report to rank 0 that the master of a namespace has ended, so that its contents are lost.  The
 * sender is the master, or an instance that finds no master at its rank. */
void km_directory_tell_lost(struct km *k, const char *name, uint64_t serial);
/* Add a namespace that was restored, and of which this instance is the master, to the directory and
 * to the table.  NULL with ENOMEM or EEXIST. */
struct km_ns *km_directory_restore(struct km *k, const char *name, uint32_t owner, errmsg_t *err);
/* The directory at rank 0 is empty after a restart: register the namespaces of which this instance
 * is the master. */
void km_directory_register(struct km *k);

void km_directory_create_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_directory_remove_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_directory_drop_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_directory_list_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_directory_lost_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_directory_register_cb(flux_t *h, const flux_msg_t *msg, void *arg);

/* Was the namespace removed since rank 0 started? */
bool km_directory_gone(const struct km_directory *d, const char *name, uint64_t serial);

/* --- km_missed.c --- */

struct km_missed *km_missed_create(struct km *k);
void km_missed_destroy(struct km_missed *m);
void km_missed_check_cb(flux_t *h, const flux_msg_t *msg, void *arg);
/* Events were lost: mark all namespaces as doubted, and check them with rank 0. */
void km_missed_doubt(struct km_missed *m);
/* Check the namespaces that are still doubted with rank 0. */
void km_missed_work(struct km_missed *m);

/* --- km_relay.c --- */

struct km_relays *km_relay_create(flux_t *h);
void km_relay_destroy(struct km_relays *rs);
/* At a rank other than 0: let rank 0 answer the request.  `in`: the payload of the request to it
 * (desc NULL: none). */
void km_relay_request(struct km_relays *rs, const flux_msg_t *msg, const char *topic,
                      const struct flux_schema *desc, const void *in);
/* At an instance that is not the master: pass the request on to the next instance towards the
 * master, and its answer back. */
void km_relay_up(struct km_ns *ns, const flux_msg_t *msg);

/* --- km_route.c --- */

struct km_route *km_route_create(struct km *k);
void km_route_destroy(struct km_route *rt);
/* Is the topology known? */
bool km_route_ready(const struct km_route *rt);
/* The next hop to `rank`. */
uint32_t km_route_hop(const struct km_route *rt, uint32_t rank);
/* The number of times that a rank has moved in the tree. */
uint64_t km_route_moves(const struct km_route *rt);
void km_route_moved_cb(flux_t *h, const flux_msg_t *event, void *arg);
/* session_ops.tree and session_ops.lost, with the context of the module. */
int km_route_tree(void *arg, int errnum, const char *why);
void km_route_lost(void *arg, const idset_t *ranks, bool now);
/* Handler of "event.lost" (events were lost on their way to this broker): request the state that
 * the lost events may have changed. */
void km_route_missed_cb(flux_t *h, const flux_msg_t *event, void *arg);

/* --- km_follow.c --- */

void km_follow_cb(flux_t *h, const flux_msg_t *msg, void *arg);

/* --- km_version.c --- */

void km_version_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_version_wait_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_version_getroot_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_version_setroot_cb(flux_t *h, const flux_msg_t *event, void *arg);
void km_version_began_cb(flux_t *h, const flux_msg_t *event, void *arg);
void km_version_missed(struct km *k);

/* --- km_stats.c --- */

void km_stats_cb(flux_t *h, const flux_msg_t *msg, void *arg);
/* As km_space_request_ready(), for a request that names a namespace, or that has no payload and
 * means the primary namespace. */
struct km_ns *km_stats_request(struct km *k, const flux_msg_t *msg, flux_handler_f cb);

/* --- km_gc.c, km_cache.c --- */

void km_gc_cb(flux_t *h, const flux_msg_t *msg, void *arg);
/* Drop unused objects in all namespaces; the seconds between two calls of it. */
void km_cache_expire(struct km *k);
double km_cache_period(const struct km *k);
void km_cache_drop_cb(flux_t *h, const flux_msg_t *msg, void *arg);
struct km_caches *km_cache_all_create(struct km *k);
void km_cache_all_destroy(struct km_caches *all);
size_t km_cache_all_bytes(const struct km_caches *all); /* of unused objects in all namespaces */

/* --- km_commit.c, km_fence.c, km_load.c, km_read.c, km_watch.c --- */

void km_commit_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_fence_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_fence_abort_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_fence_notified_cb(flux_t *h, const flux_msg_t *msg, void *arg);
longlist_t *km_fence_list_create(struct km *k); /* NULL with ENOMEM */
void km_fence_list_cb(flux_t *h, const flux_msg_t *msg, void *arg);
/* At the master: end the open fences that have participants at these ranks.  `now`: the ranks were
 * lost just now; else the time of the loss is not known. */
void km_fence_lost(struct km *k, const idset_t *ranks, bool now);
void km_load_cb(flux_t *h, const flux_msg_t *msg, void *arg);
struct km_load_miss *km_load_miss_create(void);
void km_load_miss_destroy(struct km_load_miss *x);
/* The list of missing objects of the operation in progress; _begin() empties it first. */
struct kvsmiss *km_load_miss(const struct km *k);
struct kvsmiss *km_load_miss_begin(const struct km *k);
void km_read_lookup_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_read_readdir_cb(flux_t *h, const flux_msg_t *msg, void *arg);
struct km_slow *km_read_slow_create(void);
void km_read_slow_destroy(struct km_slow *x);
void km_watch_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_snapshot_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_upload_store_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_upload_gone_cb(flux_t *h, const flux_msg_t *msg, void *arg);

#endif
