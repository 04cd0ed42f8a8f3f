/* km_ns.c - one namespace at one instance: its creation, its root, its work, and its end.
 *
 * Purpose: an instance has a struct km_ns for each namespace that it knows. km_space.c describes
 * how an instance finds a namespace, with states of its own; the states here are those of the root.
 *
 * state      what happens                                       left when (by)
 * starting   the instance reads its attributes; requests wait   the attributes have arrived
 *            in `early`                                         (km_ns_begin; master: km_ns_serve)
 * fetching   not at the master: kvs.getroot (the primary) or    a root has arrived (km_ns_root_set)
 *            kvs.follow (others) is under way; requests wait
 * ready      requests are served                                the namespace ends (km_ns_shut)
 *
 * Roots: an instance receives new roots of the primary namespace with the event kvs.setroot, and of
 * other namespaces with the stream kvs.follow.  The answers to commits, fences, snapshots and
 * kvs.getroot also carry a root, which each instance on the way down takes before it passes the
 * answer on.  A newer root replaces an older one, never the other way round.  This gives clients
 * monotonic reads and read-your-writes; versions and fences carry causality from one broker to
 * another.
 *
 * Invariants:
 *  1. The version of the root never decreases, unless the master says that its store began anew
 *     (root_answered()). root and rootref always belong to that version.
 *  2. Work that can be combined is done in turn_cb(), which the deferral of the instance calls when
 *     all messages that have arrived are handled. turn_cb() never waits for more messages.
 *  3. Each request that waits (early, refreshers) is answered once, unless its sender has gone.
 *
 * Failure: when the master cannot be reached, the requests that wait for a root get the error.  The
 * next request fetches the root again.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_disk.h"
#include "km_tombstone.h"
#include "libutil/invariant.h"

#define EARLY_MAX 65536

/* --- work --- */

void km_ns_poke(struct km_ns *ns)
{
    if (list_empty(&ns->work_node))
        list_append(&ns->k->turns->busy, &ns->work_node);
    flux_watcher_start(ns->k->turns->defer);
}

static void work(struct km_ns *ns)
{
    if (ns->state == KM_NS_ENDED) {
        /* The thread of the driver may be reading objects of the namespace. */
        if (!ns->keep || km_keep_idle(ns->keep))
            km_ns_destroy(ns);
        return;
    }
    if (!ns->content)
        return;
    km_fence_work(ns);
    km_commit_work(ns);
    km_follow_work(ns);
    km_version_serve(ns);
    km_watch_work(ns);
    km_load_work(ns);
    km_upload_work(ns);
    km_cache_work(ns);
    /* Last: the requests that wait here are answered before the broker has an event to pass on. */
    if (ns->ready && ns->store && ns == ns->k->primary)
        km_commit_publish(ns);
}

static void turn_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km *k = arg;
    struct list_node now;
    struct list_node *n;

    list_init(&now);
    while ((n = list_first(&k->turns->busy))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        list_remove(n);
        work(list_entry(n, struct km_ns, work_node));
    }
    km_read_work(k);
}

struct km_turns *km_ns_turns_create(struct km *k)
{
    struct km_turns *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    list_init(&t->busy);
    if (!(t->defer = flux_defer_create(flux_get_reactor(k->h), turn_cb, k))) {
        free(t);
        return NULL;
    }
    return t;
}

void km_ns_turns_destroy(struct km_turns *t)
{
    struct list_node *n;

    if (!t)
        return;
    while ((n = list_first(&t->busy)))
        km_ns_destroy(list_entry(n, struct km_ns, work_node));
    flux_watcher_destroy(t->defer);
    free(t);
}

/* The destination of a request.  Rank 0 is the root of the tree, so the broker routes requests to
 * it, past brokers without an instance. */
static uint32_t towards(const struct km_ns *ns, bool master, unsigned *flags)
{
    if (master)
        return ns->rank;
    if (ns->rank != FLUX_NODEID_ROOT)
        return km_route_hop(ns->k->route, ns->rank);
    *flags |= FLUX_MSGF_UPSTREAM;
    return FLUX_NODEID_ANY;
}

bool km_ns_next_is_master(const struct km_ns *ns)
{
    unsigned flags = 0;

    return towards(ns, false, &flags) == ns->rank;
}

flux_future_t *km_ns_upstream(struct km_ns *ns, const char *topic, const void *data, size_t len,
                              bool master, unsigned flags)
{
    uint32_t rank = towards(ns, master, &flags);

    return flux_rpc_raw(ns->h, topic, data, len, rank, flags);
}

flux_future_t *km_ns_upstream_take(struct km_ns *ns, const char *topic, void *data, size_t len,
                                   bool master)
{
    unsigned flags = 0;
    uint32_t rank = towards(ns, master, &flags);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    if (!msg) {
        free(data);
        return NULL;
    }
    flux_msg_set_nodeid(msg, rank);
    flux_msg_set_flags(msg, flags);
    if (flux_msg_take_raw(msg, data, len) < 0) {
        flux_msg_destroy(msg);
        return NULL;
    }
    return flux_rpc_msg(ns->h, msg);
}

flux_future_t *km_ns_upstream_struct(struct km_ns *ns, const char *topic,
                                     const struct flux_schema *desc, const void *in, bool master,
                                     unsigned flags)
{
    uint32_t rank = towards(ns, master, &flags);

    return flux_rpc_struct(ns->h, topic, desc, in, rank, flags);
}

int km_ns_upstream_post(struct km_ns *ns, const char *topic, const struct flux_schema *desc,
                        const void *in, bool master)
{
    unsigned flags = 0;
    uint32_t rank = towards(ns, master, &flags);
    courier_t **c = &ns->couriers[master];
    char *json;

    if (!*c && !(*c = courier_create(ns->h, flags, NULL, NULL)))
        return -1;
    json = flux_schema_encode(desc, in);
    return json ? courier_post_json(*c, topic, rank, json) : -1;
}

/* --- requests before there is a root --- */

bool km_ns_put_by(struct km_ns *ns, const flux_msg_t *msg, flux_handler_f cb)
{
    return early_put(ns->early, msg, cb, ns->k);
}

bool km_ns_ready(struct km_ns *ns, const flux_msg_t *msg, flux_handler_f cb)
{
    if (ns->ready)
        return true;
    if (!km_ns_put_by(ns, msg, cb) || ns->master)
        return false;
    if (ns != ns->k->primary)
        km_follow(ns);
    else if (ns->k->started && !ns->getroot)
        km_ns_root_fetch(ns, false);
    return false;
}

/* --- the root --- */

void km_ns_root_fill(const struct km_ns *ns, struct kvs_root *r)
{
    r->version = ns->version;
    snprintf(r->ns, sizeof(r->ns), "%s", ns->name);
    snprintf(r->ref, sizeof(r->ref), "%s", ns->rootref);
}

void km_ns_respond_root(struct km_ns *ns, const flux_msg_t *req)
{
    struct kvs_root root;
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    km_ns_root_fill(ns, &root);
    flux_respond_raw(ns->h, req, buf, kvs_root_encode(&root, buf));
}

void km_ns_root_set(struct km_ns *ns, uint64_t version, const uint8_t *digest)
{
    INVARIANT(1, !ns->ready || version >= ns->version);
    ns->version = version;
    memcpy(ns->root, digest, blobref_size(ns->k->blobref));
    blobref_format(ns->k->blobref, digest, ns->rootref);
    ns->ready = true;
    km_ns_poke(ns); /* requests that wait for this version are answered then */
}

static int make_cache(struct km_ns *ns, errmsg_t *err)
{
    if (!ns->content && !(ns->content = content_create(ns->k->blobref, ns->k->cache_limit)))
        return errmsg_fail(err, ENOMEM, "out of memory for a cache");
    return 0;
}

int km_ns_root_heard(struct km_ns *ns, const struct kvs_root *r, errmsg_t *err)
{
    uint8_t digest[BLOBREF_DIGEST_MAX] = {0};

    if (ns->ready && r->version <= ns->version)
        return 0;
    if (km_module_learn_hash(ns->k, r->ref, err) < 0 || make_cache(ns, err) < 0)
        return -1;
    if (blobref_parse(ns->k->blobref, r->ref, strlen(r->ref), digest, err) < 0) {
        errno = EPROTO;
        return -1;
    }
    km_ns_root_set(ns, r->version, digest);
    early_serve(ns->early);
    return 0;
}

static void refresh_all(struct km_ns *ns, int errnum, const char *error)
{
    struct list_node now;
    struct list_node *n;

    list_init(&now);
    while ((n = list_first(&ns->refreshers))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct km_read *r = list_entry(n, struct km_read, refresh_node);
        r->errnum = errnum;
        if (errnum)
            errmsg_set(&r->err, "%s", error);
        km_read_again(r); /* removes the read from the list */
    }
}

/* Take the root of an answer.  When a request to the master was sent, this instance already had the
 * version `asked_at`.  So an answer with an older root, or with another root of the same version,
 * means that the store of the master has begun anew. */
static int root_answered(struct km_ns *ns, const struct kvs_root *r, errmsg_t *err)
{
    bool anew = ns->asked_master && ns->ready &&
                (r->version < ns->asked_at ||
                 (r->version == ns->version && strcmp(r->ref, ns->rootref) != 0));
    int rc;

    if (anew) {
        flux_log(ns->h, LOG_WARNING,
                 "the store began anew: its contents up to version %llu are lost",
                 (unsigned long long)ns->version);
        ns->ready = false; /* take any root */
    }
    rc = km_ns_root_heard(ns, r, err);
    ns->ready = ns->ready || anew;
    return rc;
}

static void getroot_cb(flux_future_t *f, void *arg)
{
    struct km_ns *ns = arg;
    struct kvs_root root;
    const void *data;
    size_t len;
    errmsg_t err = {""};
    int errnum = 0;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        root_answered(ns, &root, &err) < 0)
        errnum = errno ? errno : EPROTO;
    ns->getroot = NULL;
    flux_future_destroy(f);
    if (ns->suspicious)
        km_ns_root_fetch(ns, true);
    if (errnum && !ns->ready)
        early_fail(ns->early, errnum, err.text);
    refresh_all(ns, errnum, err.text);
}

void km_ns_root_fetch(struct km_ns *ns, bool newest)
{
    struct kvs_ns_only out = {ns->name};

    if (ns->getroot)
        return;
    ns->asked_master = newest;
    ns->asked_at = ns->version;
    if (newest)
        ns->suspicious = false;
    ns->getroot = km_ns_upstream_struct(ns, "kvs.getroot", &kvs_ns_only_schema, &out, newest,
                                        FLUX_MSGF_IDEMPOTENT);
    if (!ns->getroot || flux_future_then(ns->getroot, -1., getroot_cb, ns) < 0) {
        flux_future_destroy(ns->getroot);
        ns->getroot = NULL;
        early_fail(ns->early, ENOMEM, "the store is out of memory");
        refresh_all(ns, ENOMEM, "the store is out of memory");
    }
}

/* --- life --- */

/* Create all parts of a namespace.  The watches are the last part: if they exist, all parts exist.
 * False without memory. */
static bool make_parts(struct km_ns *ns)
{
    uint32_t first = (uint32_t)flux_random(ns->h);

    return (ns->forwards = km_forward_create(flux_random(ns->h))) &&
           (ns->follow = km_follow_create()) && (ns->vwaits = km_version_waits_create()) &&
           (ns->commit = km_commit_create()) && (ns->load = km_load_create()) &&
           (ns->read = km_read_create()) && (ns->snapshot = km_snapshot_create()) &&
           (ns->upload = km_upload_create(first)) && (ns->gc = km_gc_create()) &&
           (ns->cache = km_cache_create()) && (ns->tombstones = km_tombstone_create()) &&
           (ns->fences = km_fence_table_create(first)) && (ns->watches = km_watch_table_create());
}

static void destroy_parts(struct km_ns *ns)
{
    km_watch_table_destroy(ns->watches);
    km_fence_table_destroy(ns->fences);
    km_tombstone_destroy(ns, ns->tombstones);
    km_cache_destroy(ns->cache);
    km_gc_destroy(ns->gc);
    km_upload_destroy(ns->upload);
    km_snapshot_destroy(ns->snapshot);
    km_read_destroy(ns->read);
    km_load_destroy(ns->load);
    km_commit_destroy(ns->commit);
    km_forward_destroy(ns->forwards);
    km_version_waits_destroy(ns->vwaits);
    km_follow_destroy(ns->follow);
}

struct km_ns *km_ns_create(struct km *k, const char *name, uint32_t rank)
{
    struct km_ns *ns = calloc(1, sizeof(*ns));

    if (!ns)
        return NULL;
    ns->k = k;
    ns->h = k->h;
    ns->rank = rank;
    ns->master = rank == flux_rank(k->h);
    ns->state = KM_NS_FINDING;
    ns->owner = FLUX_USERID_UNKNOWN;
    list_init(&ns->work_node);
    list_init(&ns->route_node);
    list_init(&ns->refreshers);
    if (!(ns->name = strdup(name)) || !(ns->early = early_create(k->h, k->senders, EARLY_MAX)) ||
        !make_parts(ns) || hmap_put(k->spaces, name, ns) < 0) {
        km_ns_destroy(ns);
        errno = ENOMEM;
        return NULL;
    }
    return ns;
}

int km_ns_make(struct km_ns *ns)
{
    if (make_cache(ns, NULL) < 0 || !(ns->store = kvsstore_create(ns->content)))
        return -1;
    return 0;
}

void km_ns_serve(struct km_ns *ns)
{
    km_ns_root_set(ns, kvsstore_version(ns->store), kvsstore_root(ns->store));
    km_commit_publish(ns);
    early_serve(ns->early);
}

int km_ns_open(struct km_ns *ns)
{
    if (km_ns_make(ns) < 0)
        return -1;
    km_ns_serve(ns);
    return 0;
}

void km_ns_begin(struct km_ns *ns)
{
    if (!ns->master && !ns->ready)
        km_ns_root_fetch(ns, false);
}

bool km_ns_busy(const struct km_ns *ns)
{
    return early_count(ns->early) > 0 || km_version_busy(ns) || km_forward_busy(ns) ||
           km_read_busy(ns) || km_load_busy(ns) || km_follow_busy(ns) ||
           km_snapshot_count(ns) > 0 || km_upload_busy(ns) || km_gc_busy(ns) || km_cache_busy(ns) ||
           km_fence_count(ns) > 0 || km_watch_count(ns) > 0;
}

void km_ns_shut(struct km_ns *ns, int errnum, const char *why)
{
    ns->ready = false;
    flux_future_destroy(ns->finding);
    flux_future_destroy(ns->getroot);
    ns->finding = ns->getroot = NULL;
    list_remove(&ns->route_node);
    km_watch_shut(ns, errnum, why);
    km_read_shut(ns, errnum, why);
    km_load_shut(ns, errnum, why);
    if (ns->keep)
        km_keep_end(ns->keep, errnum, why);
    km_fence_shut(ns, errnum, why);
    km_forward_shut(ns, errnum, why);
    km_commit_shut(ns, errnum, why);
    km_version_shut(ns, errnum, why);
    km_snapshot_shut(ns, errnum, why);
    km_upload_shut(ns, errnum, why);
    km_gc_shut(ns, errnum, why);
    km_cache_shut(ns, errnum, why);
    km_follow_shut(ns, errnum, why);
    if (errnum)
        early_fail(ns->early, errnum, why);
}

void km_ns_destroy(struct km_ns *ns)
{
    if (!ns)
        return;
    if (ns->name && hmap_get(ns->k->spaces, ns->name) == ns)
        (void)hmap_take(ns->k->spaces, ns->name);
    if (ns->watches) {
        km_ns_shut(ns, 0, "");
        km_cache_forget(ns);
    }
    early_destroy(ns->early);
    courier_destroy(ns->couriers[0]);
    courier_destroy(ns->couriers[1]);
    list_remove(&ns->work_node);
    km_keep_destroy(ns->keep);
    destroy_parts(ns);
    kvsstore_destroy(ns->store);
    content_destroy(ns->content);
    free(ns->name);
    free(ns);
}
