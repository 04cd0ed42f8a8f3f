/* kvs_module.c - the key-value store as a service: life, roots and versions, and the table of
 * requests.
 *
 * One instance runs at each rank.  That of rank 0 is the master: it has the store
 * (libkvs/kvsstore.h) and makes its roots.  The others have a cache of objects and the newest root
 * that they have heard of.
 *
 *    file            what
 *    kvs_commit.c    commits up to the master, root changes, the event kvs.setroot
 *    kvs_fence.c     fences, merged on the way up
 *    kvs_load.c      objects from upstream, for readers here and instances below
 *    kvs_read.c      kvs.lookup, kvs.readdir
 *    kvs_watch.c     kvs.watch
 *
 *    kvs.version       (any payload)  -> {"version","rootref"}
 *    kvs.wait-version  {"version"}    -> the same, when that version is here; streaming
 *    kvs.getroot       (any payload)  -> root (kvs_wire.h), between instances
 *    kvs.stats         (any payload)  -> counters
 *    kvs.dropcache     (any payload)  -> {"dropped"}: objects that can be loaded again
 *    kvs.disconnect, kvs.cancel       see libflux/dispatch.h
 *    event kvs.setroot                root
 *
 * A root is heard of by the event, and by every answer that passes on the way down; a newer one
 * replaces the older, never the other way round.  That gives monotonic reads and read-your-writes;
 * versions and fences carry causality from one broker to another.
 *
 * state     what happens                                         left when
 * starting  attributes are asked for; requests wait in `early`   both are here
 * asking    not the master: kvs.getroot is on its way            a root is heard of
 * ready     serving                                              the end
 *
 * Invariants:
 *  1. version never falls; root and rootref always belong to it.
 *  2. Work that may be put together is done in work_cb(), from a deferral: after all that came in
 * was looked at, never after a wait.
 *  3. What waits (early, vwaits, refreshers) is answered once, or its sender is gone.
 *  4. The store is in memory.  The master refuses to be unloaded or reloaded once there is something
 *     in it, and any instance does while a fence is open, unless it is forced.  A master that begins
 *     announces its first root.  Who knows a later one asks it, and when the answer is older than
 *     what was known before the question, the store began anew and its root is taken.
 *
 * Failure: no way to the master: who waits for a root gets the error, and the next request asks
 * again.  An instance that is stopped ends the fences and commits it had passed on with an error:
 * handed to its successor they would count twice.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_private.h"
#include "libflux/attr.h"
#include "libutil/size.h"

#define CACHE_LIMIT (16u * 1024 * 1024)
#define EARLY_MAX 65536

struct early {
    struct list_node node;
    flux_msg_t *msg;
    flux_handler_f cb;
};

struct vwait {
    struct list_node node;
    flux_msg_t *msg;
    uint64_t version;
};

struct version {
    uint64_t version;
    const char *rootref;
};
static const struct flux_field version_fields[] = {
    FLUX_FIELD_U64(struct version, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct version, rootref, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema version_schema = FLUX_SCHEMA(struct version, version_fields);

static const struct flux_field wait_fields[] = {
    FLUX_FIELD_U64(struct version, version, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema wait_schema = FLUX_SCHEMA(struct version, wait_fields);

struct cancel {
    uint32_t matchtag;
};
static const struct flux_field cancel_fields[] = {
    FLUX_FIELD_U32(struct cancel, matchtag, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema cancel_schema = FLUX_SCHEMA(struct cancel, cancel_fields);

struct stats {
    bool master;
    const char *hash;
    uint64_t version, objects, bytes, cached_objects, cached_bytes, cache_limit, hits, misses,
        dropped, lookups, readdirs, commits, root_changes, fences, fences_open, loads, served,
        watchers, watch_sent, watch_looked;
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
    FLUX_FIELD_U64(struct stats, loads, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, served, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watchers, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watch_sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct stats, watch_looked, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema stats_schema = FLUX_SCHEMA(struct stats, stats_fields);

/* --- work --- */

void km_poke(struct km *k)
{
    flux_watcher_start(k->defer);
}

static void work_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km *k = arg;

    if (!k->content)
        return;
    km_fence_work(k);
    km_commit_work(k);
    km_watch_work(k);
    km_load_work(k);
    content_trim(k->content);
}

flux_future_t *km_upstream(struct km *k, const char *topic, const void *data, size_t len,
                           bool master)
{
    return flux_rpc_raw(k->h, topic, data, len, master ? 0 : FLUX_NODEID_ANY,
                        master ? 0 : FLUX_MSGF_UPSTREAM);
}

/* --- requests before there is a root --- */

bool km_ready(struct km *k, const flux_msg_t *msg, flux_handler_f cb)
{
    struct early *e;

    if (k->ready)
        return true;
    if (k->nearly >= EARLY_MAX || !(e = calloc(1, sizeof(*e)))) {
        flux_respond_error(k->h, msg, EAGAIN, "the store at rank %u is not ready: try again later",
                           flux_rank(k->h));
        return false;
    }
    e->msg = flux_msg_incref(msg);
    e->cb = cb;
    list_append(&k->early, &e->node);
    k->nearly++;
    if (k->started && !k->master && !k->getroot)
        km_root_fetch(k, false);
    return false;
}

static struct early *early_take(struct km *k, flux_msg_t **msg, flux_handler_f *cb)
{
    struct list_node *n = list_first(&k->early);
    struct early *e;

    if (!n)
        return NULL;
    e = list_entry(n, struct early, node);
    list_remove(n);
    k->nearly--;
    *msg = e->msg;
    *cb = e->cb;
    free(e);
    return e;
}

static void early_free(struct km *k, struct early *e)
{
    list_remove(&e->node);
    k->nearly--;
    flux_msg_destroy(e->msg);
    free(e);
}

static void early_serve(struct km *k)
{
    flux_msg_t *msg;
    flux_handler_f cb;

    while (k->ready && early_take(k, &msg, &cb)) {
        cb(k->h, msg, k);
        flux_msg_destroy(msg);
    }
}

static void early_fail(struct km *k, int errnum, const char *error)
{
    flux_msg_t *msg;
    flux_handler_f cb;

    while (early_take(k, &msg, &cb)) {
        flux_respond_error(k->h, msg, errnum, "%s", error);
        flux_msg_destroy(msg);
    }
}

/* --- roots and versions --- */

void km_respond_root(struct km *k, const flux_msg_t *req, uint64_t version, const char *rootref)
{
    struct kvs_root root = {.version = version};
    uint8_t buf[KVS_ROOT_WIRE_MAX];

    snprintf(root.ref, sizeof(root.ref), "%s", rootref);
    flux_respond_raw(k->h, req, buf, kvs_root_encode(&root, buf));
}

static void respond_version(struct km *k, const flux_msg_t *req)
{
    struct version v = {k->version, k->rootref};

    flux_respond_struct(k->h, req, &version_schema, &v);
}

static void vwait_free(struct vwait *v)
{
    list_remove(&v->node);
    flux_msg_destroy(v->msg);
    free(v);
}

void km_root_set(struct km *k, uint64_t version, const uint8_t *digest)
{
    struct list_node *n;

    k->version = version;
    memcpy(k->root, digest, blobref_size(k->blobref));
    blobref_format(k->blobref, digest, k->rootref);
    k->ready = true;
    while ((n = list_first(&k->vwaits)) && list_entry(n, struct vwait, node)->version <= version) {
        respond_version(k, list_entry(n, struct vwait, node)->msg);
        vwait_free(list_entry(n, struct vwait, node));
    }
    km_poke(k);
}

/* The hash is the master's choice: others learn it from the first root. */
static int learn_hash(struct km *k, const char *ref, errmsg_t *err)
{
    size_t len = strcspn(ref, "-");

    if (len >= sizeof(k->hash))
        return errmsg_fail(err, EPROTO, "'%.40s' is no reference of a root", ref);
    memcpy(k->hash, ref, len);
    k->hash[len] = '\0';
    if (!(k->blobref = blobref_create(k->hash, err)))
        return -1;
    if (!(k->content = content_create(k->blobref, k->cache_limit))) {
        blobref_destroy(k->blobref);
        k->blobref = NULL;
        return errmsg_fail(err, ENOMEM, "out of memory for a cache");
    }
    return 0;
}

int km_root_heard(struct km *k, const struct kvs_root *r, errmsg_t *err)
{
    uint8_t digest[BLOBREF_DIGEST_MAX] = {0};

    if (k->ready && r->version <= k->version)
        return 0;
    if (!k->blobref && learn_hash(k, r->ref, err) < 0)
        return -1;
    if (blobref_parse(k->blobref, r->ref, strlen(r->ref), digest, err) < 0) {
        errno = EPROTO;
        return -1;
    }
    km_root_set(k, r->version, digest);
    early_serve(k);
    return 0;
}

static void refresh_all(struct km *k, int errnum, const char *error)
{
    struct list_node now;
    struct list_node *n;

    list_init(&now);
    while ((n = list_first(&k->refreshers))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        struct km_read *r = list_entry(n, struct km_read, refresh_node);
        r->errnum = errnum;
        if (errnum)
            errmsg_set(&r->err, "%s", error);
        km_read_again(r); /* takes itself out of the list */
    }
}

/* What was asked of the master was asked after all that was known then had been heard of. */
static int root_answered(struct km *k, const struct kvs_root *r, errmsg_t *err)
{
    bool anew =
        k->asked_master && k->ready &&
        (r->version < k->asked_at || (r->version == k->version && strcmp(r->ref, k->rootref) != 0));
    int rc;

    if (anew) {
        flux_log(k->h, LOG_WARNING, "the store began anew: what it had up to version %llu is lost",
                 (unsigned long long)k->version);
        k->ready = false; /* any root is news */
    }
    rc = km_root_heard(k, r, err);
    k->ready = k->ready || anew;
    return rc;
}

static void getroot_cb(flux_future_t *f, void *arg)
{
    struct km *k = arg;
    struct kvs_root root;
    const void *data;
    size_t len;
    errmsg_t err = {""};
    int errnum = 0;

    if (flux_rpc_get_raw(f, &data, &len, &err) < 0 || kvs_root_decode(data, len, &root, &err) < 0 ||
        root_answered(k, &root, &err) < 0)
        errnum = errno ? errno : EPROTO;
    k->getroot = NULL;
    flux_future_destroy(f);
    if (k->suspicious)
        km_root_fetch(k, true);
    if (errnum && !k->ready)
        early_fail(k, errnum, err.text);
    refresh_all(k, errnum, err.text);
}

void km_root_fetch(struct km *k, bool newest)
{
    if (k->getroot)
        return;
    k->asked_master = newest;
    k->asked_at = k->version;
    if (newest)
        k->suspicious = false;
    k->getroot = km_upstream(k, "kvs.getroot", NULL, 0, newest);
    if (!k->getroot || flux_future_then(k->getroot, -1., getroot_cb, k) < 0) {
        flux_future_destroy(k->getroot);
        k->getroot = NULL;
        early_fail(k, ENOMEM, "the store is out of memory");
        refresh_all(k, ENOMEM, "the store is out of memory");
    }
}

static void setroot_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct km *k = arg;
    struct kvs_root root;
    size_t len;
    const void *data = flux_msg_payload(event, &len);
    errmsg_t err;

    if (!data || kvs_root_decode(data, len, &root, &err) < 0) {
        flux_log(h, LOG_ERR, "an announced root is bad: %s", data ? err.text : "it is empty");
        return;
    }
    /* Announcements rise, unless the master was loaded anew. */
    if (root.version == 0 && k->version > 0) {
        /* A master has begun.  Is this old news, or has what we know become so? */
        k->suspicious = true;
        km_root_fetch(k, true);
    } else if (km_root_heard(k, &root, &err) < 0) {
        flux_log(h, LOG_ERR, "an announced root is bad: %s", err.text);
    }
}

static void getroot_request_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;

    if (km_ready(k, msg, getroot_request_cb))
        km_respond_root(k, msg, k->version, k->rootref);
}

static void version_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;

    if (km_ready(k, msg, version_cb))
        respond_version(k, msg);
}

static void wait_version_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct version in;
    struct vwait *v;
    struct list_node *after;
    json_t *owner;

    if (!km_ready(k, msg, wait_version_cb) ||
        flux_request_decode(h, msg, &wait_schema, &in, &owner) < 0)
        return;
    json_decref(owner);
    if (in.version <= k->version) {
        respond_version(k, msg);
        return;
    }
    if (!(v = calloc(1, sizeof(*v)))) {
        flux_respond_error(h, msg, ENOMEM, "the store is out of memory");
        return;
    }
    v->msg = flux_msg_incref(msg);
    v->version = in.version;
    /* Mostly for the highest version: look from the end. */
    after = k->vwaits.prev;
    while (after != &k->vwaits && list_entry(after, struct vwait, node)->version > v->version)
        after = after->prev;
    list_push(after, &v->node);
}

/* --- who is gone --- */

static bool is_from(const flux_msg_t *msg, const char *sender)
{
    char buf[FLUX_SENDER_MAX];

    return strcmp(flux_msg_sender(msg, buf, sizeof(buf)), sender) == 0;
}

static void disconnect_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    char sender[FLUX_SENDER_MAX];

    flux_msg_sender(msg, sender, sizeof(sender));
    LIST_FOREACH_SAFE(n, tmp, &k->early)
    {
        struct early *e = list_entry(n, struct early, node);
        if (is_from(e->msg, sender))
            early_free(k, e);
    }
    LIST_FOREACH_SAFE(n, tmp, &k->vwaits)
    {
        struct vwait *v = list_entry(n, struct vwait, node);
        if (is_from(v->msg, sender))
            vwait_free(v);
    }
    km_fence_disconnect(k, sender);
    km_watch_disconnect(k, sender);
}

static void cancel_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    char sender[FLUX_SENDER_MAX];
    struct cancel in;
    json_t *owner;

    if (flux_request_decode(h, msg, &cancel_schema, &in, &owner) < 0)
        return;
    json_decref(owner);
    flux_msg_sender(msg, sender, sizeof(sender));
    LIST_FOREACH_SAFE(n, tmp, &k->early)
    {
        struct early *e = list_entry(n, struct early, node);
        if (flux_msg_matchtag(e->msg) == in.matchtag && is_from(e->msg, sender)) {
            flux_respond_error(h, e->msg, ENODATA, "the request was cancelled");
            early_free(k, e);
        }
    }
    LIST_FOREACH_SAFE(n, tmp, &k->vwaits)
    {
        struct vwait *v = list_entry(n, struct vwait, node);
        if (flux_msg_matchtag(v->msg) == in.matchtag && is_from(v->msg, sender)) {
            flux_respond_error(h, v->msg, ENODATA, "the wait was cancelled");
            vwait_free(v);
        }
    }
    km_watch_cancel(k, sender, in.matchtag);
}

/* --- looking --- */

static void stats_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct content_stats cs = {0};

    if (!km_ready(k, msg, stats_cb))
        return;
    content_get_stats(k->content, &cs);
    struct stats s = {
        .master = k->master,
        .hash = k->hash,
        .version = k->version,
        .objects = cs.objects,
        .bytes = cs.bytes,
        .cached_objects = cs.free_objects,
        .cached_bytes = cs.free_bytes,
        .cache_limit = k->cache_limit,
        .hits = cs.hits,
        .misses = cs.misses,
        .dropped = cs.dropped,
        .lookups = k->st.lookups,
        .readdirs = k->st.readdirs,
        .commits = k->st.commits,
        .root_changes = k->st.root_changes,
        .fences = k->st.fences,
        .fences_open = km_fence_count(k),
        .loads = k->st.loads,
        .served = k->st.served,
        .watchers = km_watch_count(k),
        .watch_sent = k->st.watch_sent,
        .watch_looked = k->st.watch_looked,
    };
    flux_respond_struct(h, msg, &stats_schema, &s);
}

static void dropcache_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    char json[48];

    if (!km_ready(k, msg, dropcache_cb))
        return;
    snprintf(json, sizeof(json), "{\"dropped\":%zu}", content_drop(k->content));
    flux_respond(h, msg, json);
}

#define ANYBODY (FLUX_ROLE_OWNER | FLUX_ROLE_BROKER)

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "kvs.lookup", km_lookup_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.readdir", km_readdir_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.commit", km_commit_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.fence", km_fence_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.fence-abort", km_fence_abort_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.watch", km_watch_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.load", km_load_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.getroot", getroot_request_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.version", version_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.wait-version", wait_version_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.stats", stats_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.dropcache", dropcache_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.disconnect", disconnect_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.cancel", cancel_cb, ANYBODY},
    {FLUX_MSG_EVENT, "kvs.setroot", setroot_cb, 0},
    FLUX_HANDLER_END,
};

/* --- life --- */

static void fail_start(struct km *k, int errnum, const char *what, const char *why)
{
    flux_module_fail(k->h, errnum, "%s: %s", what, why);
    errno = errnum;
    flux_reactor_stop(flux_get_reactor(k->h), -1);
}

/* The attributes are here. */
static void begin(struct km *k)
{
    errmsg_t err;

    k->started = true;
    if (!k->master) {
        if (!k->ready)
            km_root_fetch(k, false);
        return;
    }
    if (!(k->blobref = blobref_create(k->hash, &err))) {
        fail_start(k, errno, "attribute content.hash", err.text);
        return;
    }
    if (!(k->content = content_create(k->blobref, k->cache_limit)) ||
        !(k->store = kvsstore_create(k->content))) {
        fail_start(k, ENOMEM, "the store", "out of memory");
        return;
    }
    km_root_set(k, kvsstore_version(k->store), kvsstore_root(k->store));
    km_commit_publish(k);
    early_serve(k);
}

static void limit_cb(flux_future_t *f, void *arg)
{
    struct km *k = arg;
    const char *value;
    errmsg_t err;

    k->starting = NULL;
    if (flux_attr_future_get(f, &value, &err) == 0 && size_parse(value, &k->cache_limit, &err) < 0)
        fail_start(k, EINVAL, "attribute content.cache-limit", err.text);
    else
        begin(k);
    flux_future_destroy(f);
}

static void hash_cb(flux_future_t *f, void *arg)
{
    struct km *k = arg;
    const char *value;
    errmsg_t err;

    k->starting = NULL;
    if (flux_attr_future_get(f, &value, &err) < 0)
        value = "sha256";
    snprintf(k->hash, sizeof(k->hash), "%s", value);
    k->starting = flux_attr_get_async(k->h, "content.cache-limit");
    if (!k->starting || flux_future_then(k->starting, -1., limit_cb, k) < 0)
        fail_start(k, ENOMEM, "the store", "out of memory");
    flux_future_destroy(f);
}

static void subscribed_cb(flux_future_t *f, void *arg)
{
    struct km *k = arg;

    if (flux_future_errnum(f) != 0)
        fail_start(k, flux_future_errnum(f), "roots are not announced here", flux_future_error(f));
    k->subscribing = NULL;
    flux_future_destroy(f);
}

/* The master announces roots itself. */
static int subscribe(struct km *k)
{
    k->subscribing = flux_event_subscribe(k->h, "kvs.setroot");
    return k->subscribing ? flux_future_then(k->subscribing, -1., subscribed_cb, k) : -1;
}

static void kvs_fini(flux_t *h, void *arg)
{
    struct km *k = arg;

    /* Who waits is not answered: the host does that, or hands the requests to the next instance. */
    flux_handlers_remove(k->handlers);
    flux_future_destroy(k->starting);
    flux_future_destroy(k->subscribing);
    flux_future_destroy(k->getroot);
    if (k->watches)
        km_watches_destroy(k);
    km_read_fini(k);
    km_load_fini(k);
    km_commit_fini(k);
    if (k->fences)
        km_fences_destroy(k);
    LIST_FOREACH_SAFE(n, tmp, &k->early)
    early_free(k, list_entry(n, struct early, node));
    LIST_FOREACH_SAFE(n, tmp, &k->vwaits)
    vwait_free(list_entry(n, struct vwait, node));
    kvsstore_destroy(k->store);
    content_destroy(k->content);
    blobref_destroy(k->blobref);
    flux_watcher_destroy(k->defer);
    free(k);
}

static int kvs_init(flux_t *h, int argc, char **argv, void **arg, errmsg_t *err)
{
    struct km *k;

    if (argc > 0)
        return errmsg_fail(err, EINVAL, "the kvs module takes no argument, got '%s'", argv[0]);
    if (!(k = calloc(1, sizeof(*k))))
        return errmsg_fail(err, ENOMEM, "the kvs module is out of memory");
    k->h = h;
    k->master = flux_rank(h) == 0;
    k->cache_limit = CACHE_LIMIT;
    list_init(&k->early);
    list_init(&k->vwaits);
    list_init(&k->refreshers);
    list_init(&k->forwards);
    list_init(&k->commits);
    list_init(&k->loads);
    list_init(&k->serves);
    list_init(&k->reads);
    if (!(k->fences = km_fences_create()) || !(k->watches = km_watches_create()) ||
        !(k->defer = flux_defer_create(flux_get_reactor(h), work_cb, k)) ||
        !(k->handlers = flux_handlers_add(h, handlers, k)) || (!k->master && subscribe(k) < 0) ||
        !(k->starting = flux_attr_get_async(h, "content.hash")) ||
        flux_future_then(k->starting, -1., hash_cb, k) < 0) {
        kvs_fini(h, k);
        return errmsg_fail(err, ENOMEM, "the kvs module is out of memory");
    }
    *arg = k;
    return 0;
}

static int kvs_may_stop(flux_t *h, void *arg, errmsg_t *err)
{
    struct km *k = arg;

    if (k->master && (k->version > 0 || !list_empty(&k->commits)))
        return errmsg_fail(err, EBUSY,
                           "the store is in its memory and would be lost, all %llu versions of it: "
                           "force it if that is meant",
                           (unsigned long long)k->version);
    if (km_fence_count(k) > 0)
        return errmsg_fail(err, EBUSY,
                           "%zu open fence%s would be aborted: try again later, or force it",
                           km_fence_count(k), km_fence_count(k) > 1 ? "s" : "");
    return 0;
}

FLUX_MODULE_THAT_MAY_REFUSE(kvs, kvs_init, kvs_fini, kvs_may_stop);
