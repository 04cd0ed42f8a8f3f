/* One namespace at one instance: its root, its objects, and all that waits for either.
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
#include "libkvs/kvs_json.h"
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
struct km_loads;
struct km_reads;
struct km_snapshots;
struct km_uploads;
struct km_gcs;
struct km_cache;
struct km_watch_table;
struct km_fence_table;
struct km_route;

/* Of km_ns.c alone; tests look at it. */
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
    uint32_t rank; /* of the master */
    bool master;   /* it is here */
    double used;   /* time of the last request for it */
    flux_future_t *finding;
    struct list_node route_node; /* while it waits for the topology (km_route.c) */
    courier_t *couriers[2]; /* to the next instance, to the master; NULL until they are needed */

    content_t *content;   /* NULL until the hash of the session is known */
    kvsstore_t *store;    /* master */
    struct km_keep *keep; /* master: what is on disk, if it is kept there */

    /* The root, once it is known. */
    bool ready;
    uint64_t version;
    uint8_t root[BLOBREF_DIGEST_MAX];
    char rootref[BLOBREF_TEXT_MAX];
    early_t *early; /* requests that came before */
    flux_future_t *getroot;
    bool asked_master; /* of whom, and at which version known here, getroot was asked */
    uint64_t asked_at;
    uint64_t doubt;              /* not 0: it may have been removed unheard (km_missed.c) */
    bool suspicious;             /* the store may have begun anew: ask the master */
    struct list_node refreshers; /* reads that need a newer root than this */

    /* What a file holds of it, which no other file sees. */
    struct km_follow *follow;
    struct km_version_waits *vwaits;
    struct km_commits *commit;
    struct km_loads *load;
    struct km_reads *read;
    struct km_snapshots *snapshot;
    struct km_uploads *upload;
    struct km_gcs *gc;
    struct km_cache *cache;
    struct km_fence_table *fences;
    struct km_tombstones *tombstones; /* fences that were aborted */
    struct km_watch_table *watches;

    struct {
        uint64_t lookups, readdirs, commits, root_changes, fences, loads, served, watch_sent,
            watch_looked;
        /* calls to fences: messages and bytes of instances below, and bytes of clients here */
        uint64_t fence_msgs_in, fence_bytes_in, fence_bytes_local;
    } st;
};

/* --- km_ns.c --- */

/* A namespace in the table of the instance.  NULL with ENOMEM. */
struct km_ns *km_ns_create(struct km *k, const char *name, uint32_t rank);
/* End all that is under way: who waits gets the error, or (errnum 0) is not answered: the host does
 * that, or hands it to the next instance. */
void km_ns_shut(struct km_ns *ns, int errnum, const char *why);
/* NULL-safe; shuts it with errnum 0. */
void km_ns_destroy(struct km_ns *ns);
/* Does anybody wait for something of it, or follow it? */
bool km_ns_busy(const struct km_ns *ns);
/* It is the master: make its store, empty.  -1 with ENOMEM or EIO. */
int km_ns_make(struct km_ns *ns);
/* Serve the root of its store. */
void km_ns_serve(struct km_ns *ns);
/* Both. */
int km_ns_open(struct km_ns *ns);
/* The instance has started: have the root. */
void km_ns_begin(struct km_ns *ns);
/* Have its work done soon, when all that came in was looked at; or have it freed, when it has
 * ended. */
void km_ns_poke(struct km_ns *ns);
/* The namespaces of an instance for which that is to be done.  NULL with ENOMEM; NULL-safe, frees
 * those that have ended. */
struct km_turns *km_ns_turns_create(struct km *k);
void km_ns_turns_destroy(struct km_turns *t);
/* Put a request by until there is news: `cb` gets it again.  false when it was answered. */
bool km_ns_put_by(struct km_ns *ns, const flux_msg_t *msg, flux_handler_f cb);
/* false after putting the request by: `cb` gets it again when there is a root. */
bool km_ns_ready(struct km_ns *ns, const flux_msg_t *msg, flux_handler_f cb);

/* A root was heard of: take it when it is newer.  -1 with EPROTO and an error message. */
int km_ns_root_heard(struct km_ns *ns, const struct kvs_root *r, errmsg_t *err);
void km_ns_root_set(struct km_ns *ns, uint64_t version, const uint8_t *digest);
/* Ask upstream (the master when `newest`) for the root; who waits is in `early` and `refreshers`.
 */
void km_ns_root_fetch(struct km_ns *ns, bool newest);
void km_ns_root_fill(const struct km_ns *ns, struct kvs_root *r);
void km_ns_respond_root(struct km_ns *ns, const flux_msg_t *req);
/* A request to the next instance towards the master, or to the master: raw, or in JSON. */
flux_future_t *km_ns_upstream(struct km_ns *ns, const char *topic, const void *data, size_t len,
                              bool master);
flux_future_t *km_ns_upstream_struct(struct km_ns *ns, const char *topic,
                                     const struct flux_schema *desc, const void *in, bool master,
                                     unsigned flags);
/* A request, encoded by `desc`, that waits in a queue to its receiver until that one has room for
 * it:  what it says may not be lost.  `master`: to the master itself, else to the next instance
 * towards it.  -1 with ENOMEM. */
int km_ns_upstream_post(struct km_ns *ns, const char *topic, const struct flux_schema *desc,
                        const void *in, bool master);

/* --- what each file holds of a namespace --- */

/* Parts of a namespace: NULL with ENOMEM; destroyed, NULL-safe, after km_X_shut(). */
struct km_commits *km_commit_create(void);
void km_commit_destroy(struct km_commits *x);
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
/* Does somebody wait for something in it? */
bool km_commit_busy(const struct km_ns *ns);
bool km_load_busy(const struct km_ns *ns);
bool km_upload_busy(const struct km_ns *ns);
bool km_read_busy(const struct km_ns *ns);
bool km_gc_busy(const struct km_ns *ns);
bool km_cache_busy(const struct km_ns *ns);
bool km_follow_busy(const struct km_ns *ns);
bool km_version_busy(const struct km_ns *ns);
size_t km_snapshot_count(const struct km_ns *ns);
bool km_commit_queued(const struct km_ns *ns); /* master: commits wait to be applied */
bool km_commit_open(const struct km_ns *ns);   /* master: a root change has more turns to come */

/* --- km_space.c --- */

/* It ends: it leaves the table, who waits gets the error (errnum 0: nobody waits), and it is freed
 * at the next deferral.  Not the primary. */
void km_space_end(struct km_ns *ns, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The topology is here (errnum 0), or cannot be had. */
void km_space_routed(struct km_ns *ns, int errnum, const char *error);

/* --- km_route.c --- */

/* Wait for the topology. */
void km_route_wait(struct km_route *rt, struct km_ns *ns);

/* --- km_follow.c --- */

/* Follow the root upstream. */
void km_follow(struct km_ns *ns);
/* Tell followers about a new root. */
void km_follow_work(struct km_ns *ns);
void km_follow_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_version.c --- */

/* Answer who waits for this version or an older one. */
void km_version_serve(struct km_ns *ns);
void km_version_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_commit.c --- */

struct km_fence;
/* Master: commit a complete fence; km_fence_done() gets the outcome. */
int km_commit_fence(struct km_ns *ns, struct km_fence *f);
void km_commit_work(struct km_ns *ns);
/* The store goes back to another root: give up the root change that is open, if any. */
void km_commit_give_up(struct km_ns *ns);
void km_commit_publish(struct km_ns *ns);
void km_commit_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_fence.c --- */

struct km_fence_table *km_fence_table_create(uint32_t first); /* fences are numbered from here */
void km_fence_shut(struct km_ns *ns, int errnum, const char *why);
void km_fence_table_destroy(struct km_fence_table *fs); /* NULL-safe, after that */
void km_fence_work(struct km_ns *ns);
void km_fence_txn(const struct km_fence *f, const void **txn, size_t *len);
/* Does it contain operations other than puts? */
bool km_fence_mixed(const struct km_fence *f);
/* Applied (errnum 0, the root is the new one) or refused; the fence is destroyed. */
void km_fence_done(struct km_ns *ns, struct km_fence *f, int errnum, const char *error);
size_t km_fence_count(const struct km_ns *ns);
uint64_t km_fence_calls(const struct km_ns *ns); /* that are here, of the fences that are open */

/* --- km_load.c --- */

/* Wait for objects.  Those that came are held until km_load_wait_clear(). */
struct km_load_wait;
struct km_load_wait_item;
typedef void (*km_load_wait_f)(struct km_load_wait *w);
struct km_load_wait {
    struct km_ns *ns;
    km_load_wait_f done; /* all came, or errnum != 0: the first error */
    unsigned waiting;
    int errnum;
    char error[128];
    struct list_node items;
};
void km_load_wait_init(struct km_load_wait *w, struct km_ns *ns, km_load_wait_f done);
/* Wait for digests in `miss`; done() is called later, never from here.  -1 with ENOMEM, or ENOENT
 * at the master, which has all there is. */
int km_load_wait_for(struct km_load_wait *w, const struct kvsmiss *miss);
void km_load_wait_clear(struct km_load_wait *w);

void km_load_work(struct km_ns *ns);
void km_load_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_read.c --- */

/* One read, for a request or a watcher. */
struct km_read;
typedef void (*km_read_f)(struct km_read *r, void *arg);
struct km_read {
    struct list_node node; /* in km_reads.all; free for others once it is over */
    struct km_ns *ns;
    struct km_load_wait wait;
    /* what is read: its key and cursor live with the owner */
    struct kvs_lookup_req q;
    /* Make the answer from the entry: 0, or -1 with EAGAIN when objects are missing (they are in
     * km_load_miss(); called again when they are here), EINPROGRESS when a slice of time is over
     * (called again for the next one), or another error. */
    int (*make)(struct km_read *r);
    struct km_listing *listing; /* what km_answer.c has made of a listing so far, or NULL */
    struct km_changes *changes; /* and km_delta.c of what differs */
    struct list_node slow_node; /* in km_slow.reads: waits for its next slice */
    bool turn;                  /* it has waited for its first one */
    bool held;                  /* master: its root is, until it is over */
    struct km_delta *delta;     /* what a watcher knows (km_delta.h) */
    /* Told of the links of each round; `nlinks` of them in the last one. */
    void (*followed)(struct km_read *r, unsigned nth, const char *path, size_t len);
    struct kvswalk_links links;
    unsigned nlinks;
    bool list;  /* entries, when it is a directory */
    bool fixed; /* at a root that was given */
    uint8_t root[BLOBREF_DIGEST_MAX];
    uint64_t version;
    unsigned refreshed;
    struct list_node refresh_node;
    km_read_f done;
    void *arg;
    /* the result: valid in done() */
    int errnum;
    errmsg_t err;
    bool gone; /* ENOENT: an object, not the key */
    struct treeobj_entry entry;
    uint8_t *answer; /* malloc'd (one byte more than len), taken over by who sets it to NULL */
    size_t len;
};
/* Start; done() may be called before this returns. */
void km_read_start(struct km_read *r);
void km_read_cancel(struct km_read *r); /* harmless when it is over */
void km_read_work(struct km *k);        /* a slice of the next read that takes several */
void km_read_again(
    struct km_read *r); /* with a newer root (errnum 0), or the error it could not be had for */
void km_read_shut(struct km_ns *ns, int errnum, const char *why);
/* Send r->answer as response to `req`. */
void km_read_respond(struct km_read *r, const flux_msg_t *req, bool more);

/* --- km_snapshot.c, km_upload.c --- */

/* A root that is held for something here; all zeros: none. */
struct km_snapshot_hold {
    struct km_ns *ns;
    flux_future_t *f; /* not the master: the stream from it */
    bool held;        /* at the master */
    bool ready;       /* cb() was called */
    uint64_t version;
    uint8_t root[BLOBREF_DIGEST_MAX];
    /* It is held, or (errnum != 0) cannot be. */
    void (*cb)(struct km_snapshot_hold *h, int errnum, const char *error);
};
/* Hold the newest root; cb() may be called before this returns. */
void km_snapshot_hold_newest(struct km_snapshot_hold *h, struct km_ns *ns,
                             void (*cb)(struct km_snapshot_hold *h, int errnum, const char *error));
void km_snapshot_hold_end(struct km_snapshot_hold *h); /* harmless on one of zeros */
/* `to` is let go, and `from` becomes it. */
void km_snapshot_hold_move(struct km_snapshot_hold *to, struct km_snapshot_hold *from);
void km_snapshot_shut(struct km_ns *ns, int errnum, const char *why);
void km_upload_shut(struct km_ns *ns, int errnum, const char *why);
/* Let go of what no commit has named in time. */
void km_upload_expire(struct km_ns *ns);
void km_upload_work(struct km_ns *ns);

/* --- km_gc.c --- */

/* Some garbage was collected: if there is *more, and somebody waits for all, more is. */
void km_gc_work(struct km_ns *ns, bool *more);
void km_gc_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_cache.c: kvs.dropcache --- */

void km_cache_shut(struct km_ns *ns, int errnum, const char *why);

/* --- km_cache.c --- */

/* Give back what is cached beyond the bound. */
void km_cache_work(struct km_ns *ns);
void km_cache_forget(struct km_ns *ns); /* it is no more */

/* --- km_answer.c --- */

/* km_read.make of look-ups and listings. */
int km_answer_make(struct km_read *r);
bool km_answer_crowded(const struct km *k); /* unfinished listings take much memory */
void km_answer_drop(struct km_read *r); /* an unfinished listing, if there is one; keeps errno */

/* --- km_watch.c --- */

struct km_watch_table *km_watch_table_create(void);
void km_watch_shut(struct km_ns *ns, int errnum, const char *why);
void km_watch_table_destroy(struct km_watch_table *ws); /* NULL-safe, after that */
void km_watch_work(struct km_ns *ns);
size_t km_watch_count(const struct km_ns *ns);
/* Is there a watcher that may have to look, at the root that is here? */
bool km_watch_pending(const struct km_ns *ns);

#endif
