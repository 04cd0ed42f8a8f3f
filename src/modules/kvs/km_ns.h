/* km_ns.h - one namespace at one instance: its root, its objects, and the requests that wait for a
 * root or an object.
 *
 * Thread rules: those of the handle.
 */
#ifndef KM_NS_H
#define KM_NS_H

#include "libservice/claim.h"
#include "libservice/early.h"
#include "libcontent/content.h"
#include "libflux/courier.h"
#include "libflux/module.h"
#include "libkvs/kvs_json_wire.h"
#include "libkvs/kvs_key.h"
#include "libkvs/kvs_txn.h"
#include "libkvs/kvs_wire.h"
#include "libkvs/kvsstore.h"
#include "libkvs/kvswalk.h"
#include "libutil/hmap.h"
#include "libutil/list.h"

struct km;
struct km_keep;
struct km_follow;
struct km_version_waits;
struct km_commits;
struct km_forwards;
struct km_loads;
struct km_reads;
struct km_snapshots;
struct km_uploads;
struct km_gcs;
struct km_cache;
struct km_watch_table;
struct km_fence_table;
struct km_route;

/* Private to km_ns.c and its tests. */
struct km_turns {
    flux_watcher_t *defer;
    struct list_node busy;
};

/* See km_space.c. */
enum km_ns_state { KM_NS_FINDING, KM_NS_KNOWN, KM_NS_ENDED };

struct km_ns {
    struct km *k;
    flux_t *h;
    struct list_node work_node; /* in km_turns.busy */
    char *name;
    enum km_ns_state state;
    uint64_t serial;
    uint32_t owner;
    uint32_t rank; /* rank of the master */
    bool master;   /* this instance is the master */
    double used;   /* time of the last request for this namespace */
    flux_future_t *finding;
    struct list_node route_node; /* while the namespace waits for the topology (km_route.c) */
    courier_t *couriers[2]; /* to the next instance, to the master; NULL before the first use */

    content_t *content;   /* NULL until the hash of the session is known */
    kvsstore_t *store;    /* master */
    struct km_keep *keep; /* master: its journal on disk, or NULL */

    /* The root, if `ready`. */
    bool ready;
    uint64_t version;
    uint8_t root[BLOBREF_DIGEST_MAX];
    char rootref[BLOBREF_TEXT_MAX];
    early_t *early; /* requests that wait for the root */
    flux_future_t *getroot;
    bool asked_master;           /* getroot was sent to the master; else to the next instance */
    uint64_t asked_at;           /* the version known here when getroot was sent */
    uint64_t doubt;              /* not 0: the event of its removal may be lost (km_missed.c) */
    bool suspicious;             /* the store may have begun anew: fetch the root from the master */
    struct list_node refreshers; /* reads that need a newer root than `root` */

    /* Data that belongs to one file each. */
    struct km_follow *follow;
    struct km_version_waits *vwaits;
    struct km_commits *commit;
    struct km_forwards *forwards;
    struct km_loads *load;
    struct km_reads *read;
    struct km_snapshots *snapshot;
    struct km_uploads *upload;
    struct km_gcs *gc;
    struct km_cache *cache;
    struct km_fence_table *fences;
    struct km_tombstones *tombstones; /* aborted fences */
    struct km_watch_table *watches;

    struct {
        uint64_t lookups, readdirs, commits, commits_again, root_changes, fences, loads, served,
            watch_sent, watch_looked;
        /* calls to fences: messages and bytes from instances below, and bytes from clients of this
         * broker */
        uint64_t fence_msgs_in, fence_bytes_in, fence_bytes_local;
    } st;
};

/* --- km_ns.c --- */

/* Create a namespace, and add it to the table of the instance.  NULL with ENOMEM. */
struct km_ns *km_ns_create(struct km *k, const char *name, uint32_t rank);
/* End all requests of the namespace that are in progress: with the error, or (errnum 0) without an
 * answer, since the module host answers them or passes them to the next instance. */
void km_ns_shut(struct km_ns *ns, int errnum, const char *why);
/* NULL-safe; calls km_ns_shut() with errnum 0. */
void km_ns_destroy(struct km_ns *ns);
/* Does any request wait for the namespace, or any client follow it? */
bool km_ns_busy(const struct km_ns *ns);
/* At the master: create its store, empty.  -1 with ENOMEM or EIO. */
int km_ns_make(struct km_ns *ns);
/* Start to serve the root of its store. */
void km_ns_serve(struct km_ns *ns);
/* km_ns_make(), then km_ns_serve(). */
int km_ns_open(struct km_ns *ns);
/* The instance has started: fetch the root if this instance is not the master and has none. */
void km_ns_begin(struct km_ns *ns);
/* Schedule the work for the namespace (or its destruction, if it has ended): it is done after all
 * messages that have arrived are handled. */
void km_ns_poke(struct km_ns *ns);
/* The scheduled namespaces of an instance.  Create: NULL with ENOMEM.  Destroy: NULL-safe, destroys
 * the namespaces that are still scheduled. */
struct km_turns *km_ns_turns_create(struct km *k);
void km_ns_turns_destroy(struct km_turns *t);
/* Keep a request until the state of the namespace changes, when `cb` gets it again.  False: it was
 * answered with an error. */
bool km_ns_put_by(struct km_ns *ns, const flux_msg_t *msg, flux_handler_f cb);
/* Has the namespace a root?  If not, the request is kept, and `cb` gets it again when the root has
 * arrived. */
bool km_ns_ready(struct km_ns *ns, const flux_msg_t *msg, flux_handler_f cb);

/* Take a root that has arrived, if it is newer.  -1 with EPROTO and an error message. */
int km_ns_root_heard(struct km_ns *ns, const struct kvs_root *r, errmsg_t *err);
void km_ns_root_set(struct km_ns *ns, uint64_t version, const uint8_t *digest);
/* Request the root from the next instance, or (`newest`) from the master.  The answer serves the
 * requests in `early` and the reads in `refreshers`. */
void km_ns_root_fetch(struct km_ns *ns, bool newest);
void km_ns_root_fill(const struct km_ns *ns, struct kvs_root *r);
void km_ns_respond_root(struct km_ns *ns, const flux_msg_t *req);
/* Send a request to the next instance towards the master, or to the master: raw, or in JSON. */
flux_future_t *km_ns_upstream(struct km_ns *ns, const char *topic, const void *data, size_t len,
                              bool master, unsigned flags);
flux_future_t *km_ns_upstream_struct(struct km_ns *ns, const char *topic,
                                     const struct flux_schema *desc, const void *in, bool master,
                                     unsigned flags);
/* As km_ns_upstream(), with a payload as flux_msg_take_raw() takes it. */
flux_future_t *km_ns_upstream_take(struct km_ns *ns, const char *topic, void *data, size_t len,
                                   bool master);
/* Is the next instance towards the master the master itself, according to the topology known
 * here? */
bool km_ns_next_is_master(const struct km_ns *ns);
/* Send a request that must not be lost, encoded by `desc`: the request waits in a queue until its
 * receiver has room for it.  `master`: the receiver is the master, else the next instance towards
 * it.  -1 with ENOMEM. */
int km_ns_upstream_post(struct km_ns *ns, const char *topic, const struct flux_schema *desc,
                        const void *in, bool master);

/* --- the parts of a namespace, one for each file --- */

/* Create: NULL with ENOMEM.  Destroy: NULL-safe, after km_X_shut(). */
struct km_commits *km_commit_create(void);
void km_commit_destroy(struct km_commits *x);
struct km_forwards *km_forward_create(uint64_t sender); /* a random number */
void km_forward_destroy(struct km_forwards *fw);
struct km_loads *km_load_create(void);
void km_load_destroy(struct km_loads *x);
struct km_uploads *km_upload_create(uint32_t first); /* clients are numbered from here */
void km_upload_destroy(struct km_uploads *x);
struct km_reads *km_read_create(void);
void km_read_destroy(struct km_reads *x);
struct km_snapshots *km_snapshot_create(void);
void km_snapshot_destroy(struct km_snapshots *x);
struct km_gcs *km_gc_create(void);
void km_gc_destroy(struct km_gcs *x);
struct km_cache *km_cache_create(void);
void km_cache_destroy(struct km_cache *x);
struct km_follow *km_follow_create(void);
void km_follow_destroy(struct km_follow *x);
struct km_version_waits *km_version_waits_create(void);
void km_version_waits_destroy(struct km_version_waits *x);
/* Do requests or clients wait for this part? */
bool km_forward_busy(const struct km_ns *ns);
bool km_load_busy(const struct km_ns *ns);
bool km_upload_busy(const struct km_ns *ns);
bool km_read_busy(const struct km_ns *ns);
bool km_gc_busy(const struct km_ns *ns);
bool km_cache_busy(const struct km_ns *ns);
bool km_follow_busy(const struct km_ns *ns);
bool km_version_busy(const struct km_ns *ns);
size_t km_snapshot_count(const struct km_ns *ns);
bool km_commit_queued(const struct km_ns *ns); /* master: commits wait to be applied */
bool km_commit_open(const struct km_ns *ns);   /* master: a root change is open */

/* --- km_space.c --- */

/* End a namespace other than the primary: it is removed from the table, the requests that wait get
 * the error (errnum 0: no request waits), and it is freed at the next deferral. */
void km_space_end(struct km_ns *ns, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The topology has arrived (errnum 0), or the request for it has failed. */
void km_space_routed(struct km_ns *ns, int errnum, const char *error);

/* --- km_route.c --- */

/* Wait for the topology. */
void km_route_wait(struct km_route *rt, struct km_ns *ns);

/* --- km_follow.c --- */

/* Follow the root upstream. */
void km_follow(struct km_ns *ns);
/* The next instance towards the master may be another one now. */
void km_follow_rerouted(struct km_ns *ns);
/* Send a new root to the followers. */
void km_follow_work(struct km_ns *ns);
void km_follow_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_version.c --- */

/* Answer the requests that wait for the current version or an older one. */
void km_version_serve(struct km_ns *ns);
void km_version_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_commit.c --- */

struct km_fence;
/* At the master: commit a complete fence; km_fence_done() gets the outcome. */
int km_commit_fence(struct km_ns *ns, struct km_fence *f);
void km_commit_work(struct km_ns *ns);
/* The store returns to an earlier root: give up the open root change, if there is one. */
void km_commit_give_up(struct km_ns *ns);
void km_commit_publish(struct km_ns *ns);
void km_commit_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_forward.c --- */

/* Pass a commit on to the next instance. */
void km_forward_commit(struct km_ns *ns, const flux_msg_t *msg, const struct kvs_ns_req *q);
void km_forward_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_fence.c --- */

struct km_fence_table *km_fence_table_create(uint32_t first); /* fences are numbered from here */
void km_fence_shut(struct km_ns *ns, int errnum, const char *why);
void km_fence_table_destroy(struct km_fence_table *fs); /* NULL-safe, after that */
void km_fence_work(struct km_ns *ns);
void km_fence_txn(const struct km_fence *f, const void **txn, size_t *len);
/* Does the fence contain operations other than puts? */
bool km_fence_mixed(const struct km_fence *f);
/* The fence was applied (errnum 0; the root of the namespace is the new one) or refused.  The fence
 * is destroyed. */
void km_fence_done(struct km_ns *ns, struct km_fence *f, int errnum, const char *error);
size_t km_fence_count(const struct km_ns *ns);
uint64_t km_fence_calls(const struct km_ns *ns); /* calls to open fences that have arrived here */

/* --- km_load.c --- */

/* Wait for objects.  Objects that have arrived are held until km_load_wait_clear(). */
struct km_load_wait;
struct km_load_wait_item;
typedef void (*km_load_wait_f)(struct km_load_wait *w);
struct km_load_wait {
    struct km_ns *ns;
    km_load_wait_f
        done; /* called when all have arrived, or have failed: errnum is the first error */
    unsigned waiting;
    int errnum;
    char error[128];
    struct list_node items;
};
void km_load_wait_init(struct km_load_wait *w, struct km_ns *ns, km_load_wait_f done);
/* Wait for the objects of the digests in `miss`; done() is called later, never from here.  -1 with
 * ENOMEM, or at the master ENOENT if an object is neither in memory nor on disk. */
int km_load_wait_for(struct km_load_wait *w, const struct kvsmiss *miss);
void km_load_wait_clear(struct km_load_wait *w);

void km_load_work(struct km_ns *ns);
/* The next instance towards the master may be another one now. */
void km_load_rerouted(struct km_ns *ns);
void km_load_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_read.c --- */

/* One read, for a request or a watcher. */
struct km_read;
typedef void (*km_read_f)(struct km_read *r, void *arg);
struct km_read {
    struct list_node node; /* in km_reads.all; other lists may use it after the end of the read */
    struct km_ns *ns;
    struct km_load_wait wait;
    /* what is read: `key` and `cursor` in it point to memory of the owner */
    struct kvs_lookup_req q;
    /* Make the answer from the entry: 0, or -1 with EAGAIN when objects are missing (their digests
     * are in km_load_miss(); make() is called again when they have arrived), EINPROGRESS when a
     * slice of time is over (make() is called again in the next slice), or another error. */
    int (*make)(struct km_read *r);
    struct km_listing *listing; /* the unfinished listing (km_answer.c), or NULL */
    struct km_changes *changes; /* the unfinished list of differences (km_delta.c), or NULL */
    struct list_node slow_node; /* in km_slow.reads, while the read waits for its next slice */
    bool turn;                  /* the read has waited for its first slice */
    bool held;                  /* master: its root is held until the read is over */
    struct km_delta *delta;     /* the state known to a watcher (km_delta.h) */
    /* Called for each link that is followed; `nlinks`: the number of links followed in the last
     * round. */
    void (*followed)(struct km_read *r, unsigned nth, const char *path, size_t len);
    struct kvswalk_links links;
    unsigned nlinks;
    bool list;  /* the answer of a directory has its entries */
    bool fixed; /* the read is at a given root */
    uint8_t root[BLOBREF_DIGEST_MAX];
    uint64_t version;
    unsigned refreshed;
    struct list_node refresh_node;
    km_read_f done;
    void *arg;
    /* the result: valid in done() */
    int errnum;
    errmsg_t err;
    bool gone; /* ENOENT is for an object, not for the key */
    struct treeobj_entry entry;
    uint8_t
        *answer; /* malloc'd (one byte more than len); done() may take it, and sets it to NULL */
    size_t len;
};
/* Start; done() may be called before this returns. */
void km_read_start(struct km_read *r);
void km_read_cancel(struct km_read *r); /* harmless if the read is over */
void km_read_work(struct km *k);        /* do a slice of the next read that takes several slices */
void km_read_again(
    struct km_read *r); /* begin again at the newer root (errnum 0), or end with the error */
void km_read_shut(struct km_ns *ns, int errnum, const char *why);
/* Send r->answer as response to `req`. */
void km_read_respond(struct km_read *r, const flux_msg_t *req, bool more);

/* --- km_snapshot.c, km_upload.c --- */

/* A root that is held for a diff-watch of this instance.  All zeros: no root is held. */
struct km_snapshot_hold {
    struct km_ns *ns;
    flux_future_t *f; /* not the master: the stream from the master */
    bool held;        /* at the master */
    bool ready;       /* cb() was called */
    uint64_t version;
    uint8_t root[BLOBREF_DIGEST_MAX];
    /* The root is held, or (errnum != 0) cannot be held. */
    void (*cb)(struct km_snapshot_hold *h, int errnum, const char *error);
};
/* Hold the newest root; cb() may be called before this returns. */
void km_snapshot_hold_newest(struct km_snapshot_hold *h, struct km_ns *ns,
                             void (*cb)(struct km_snapshot_hold *h, int errnum, const char *error));
void km_snapshot_hold_end(struct km_snapshot_hold *h); /* harmless if all zeros */
/* Release the root that `to` holds, and move the root that `from` holds to `to`. */
void km_snapshot_hold_move(struct km_snapshot_hold *to, struct km_snapshot_hold *from);
void km_snapshot_shut(struct km_ns *ns, int errnum, const char *why);
void km_upload_shut(struct km_ns *ns, int errnum, const char *why);
/* Release uploads to which no commit has referred in time. */
void km_upload_expire(struct km_ns *ns);
void km_upload_work(struct km_ns *ns);

/* --- km_gc.c --- */

/* For the requests kvs.gc that wait: collect more garbage (*more: there is some left), and answer
 * the requests when no garbage is left. */
void km_gc_work(struct km_ns *ns, bool *more);
void km_gc_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_cache.c: kvs.dropcache --- */

void km_cache_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_cache.c --- */

/* Free cached objects beyond the bound. */
void km_cache_work(struct km_ns *ns);
void km_cache_forget(struct km_ns *ns); /* the namespace has ended */

/* --- km_answer.c --- */

/* km_read.make of look-ups and listings. */
int km_answer_make(struct km_read *r);
bool km_answer_crowded(const struct km *k); /* unfinished listings take much memory */
void km_answer_drop(struct km_read *r); /* the unfinished listing, if there is one; keeps errno */

/* --- km_watch.c --- */

struct km_watch_table *km_watch_table_create(void);
void km_watch_shut(struct km_ns *ns, int errnum, const char *why);
void km_watch_table_destroy(struct km_watch_table *ws); /* NULL-safe, after that */
void km_watch_work(struct km_ns *ns);
size_t km_watch_count(const struct km_ns *ns);
/* Is there a watcher that may have to do a look-up at the current root? */
bool km_watch_pending(const struct km_ns *ns);

#endif
