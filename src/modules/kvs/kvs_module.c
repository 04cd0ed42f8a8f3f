/* kvs_module.c - the key-value store as a service: the life of an instance, its namespaces, and the
 * table of requests.
 *
 * One instance runs at each rank.  That of rank 0 is the master of the primary namespace: it has
 * the store (libkvs/kvsstore.h) and makes its roots.  The others have a cache of objects and the
 * newest root that they have heard of.
 *
 *    file            what
 *    kvs_ns.c        one namespace: its life and its root
 *    kvs_version.c   kvs.version, kvs.wait-version, the event kvs.setroot
 *    kvs_commit.c    commits up to the master, root changes
 *    kvs_fence.c     fences, merged on the way up
 *    kvs_load.c      objects from upstream, for readers here and instances below
 *    kvs_read.c      kvs.lookup, kvs.readdir
 *    kvs_watch.c     kvs.watch
 *    kvs_sender.c    who has what here
 *    kvs_stats.c     kvs.stats, kvs.dropcache
 *
 *    kvs.disconnect, kvs.cancel       see libflux/dispatch.h
 *
 * Invariants:
 *  1. The primary namespace is always in the table.
 *  2. Whatever waits here for a client or an instance below has a claim (kvs_sender.h), so the end
 *     of one touches nobody else's things.
 *  3. The store is in memory.  The master refuses to be unloaded or reloaded once there is something
 *     in it, and any instance does while a fence is open, unless it is forced.  A master that begins
 *     announces its first root.  Who knows a later one asks it, and when the answer is older than
 *     what was known before the question, the store began anew and its root is taken.
 *
 * Failure: an instance that cannot start says why and ends.  One that is stopped ends the fences
 * and commits it had passed on with an error: handed to its successor they would count twice.
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

struct cancel {
    uint32_t matchtag;
};
static const struct flux_field cancel_fields[] = {
    FLUX_FIELD_U32(struct cancel, matchtag, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema cancel_schema = FLUX_SCHEMA(struct cancel, cancel_fields);

/* --- work --- */

static void work_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct km *k = arg;
    struct list_node now;
    struct list_node *n;

    list_init(&now);
    while ((n = list_first(&k->busy))) {
        list_remove(n);
        list_append(&now, n);
    }
    while ((n = list_first(&now))) {
        list_remove(n);
        km_ns_work(list_entry(n, struct km_ns, work_node));
    }
}

/* --- namespaces --- */

struct km_ns *km_ns_request(struct km *k, const flux_msg_t *msg, const char *name, size_t len,
                            flux_handler_f cb)
{
    char text[KVS_NS_MAX + 1];
    struct km_ns *ns;

    if (kvs_ns_check(name, len, NULL) < 0) {
        flux_respond_error(k->h, msg, EINVAL,
                           "a namespace has 1 to %d letters, digits, '.', '_', '-'", KVS_NS_MAX);
        return NULL;
    }
    memcpy(text, name, len);
    text[len] = '\0';
    if (!(ns = hmap_get(k->spaces, text))) {
        flux_respond_error(k->h, msg, ENOENT, "there is no namespace '%s'", text);
        return NULL;
    }
    return km_ns_ready(ns, msg, cb) ? ns : NULL;
}

int km_decode(flux_t *h, const flux_msg_t *msg, struct kvs_ns_req *q)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    errmsg_t err;

    if (flux_msg_has_flag(msg, FLUX_MSGF_RAW) && kvs_ns_req_decode(data, len, q, &err) == 0)
        return 0;
    if (!flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        errmsg_fail(&err, EPROTO, "a request for %s has no raw payload", flux_msg_topic(msg));
    flux_respond_error(h, msg, errno, "%s", err.text);
    return -1;
}

/* The hash is the choice of rank 0: others learn it from the first root. */
int km_learn_hash(struct km *k, const char *ref, errmsg_t *err)
{
    size_t len = strcspn(ref, "-");

    if (k->blobref)
        return 0;
    if (len >= sizeof(k->hash))
        return errmsg_fail(err, EPROTO, "'%.40s' is no reference of a root", ref);
    memcpy(k->hash, ref, len);
    k->hash[len] = '\0';
    return (k->blobref = blobref_create(k->hash, err)) ? 0 : -1;
}

/* --- who is gone --- */

static void disconnect_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;

    km_senders_disconnect(k->senders, msg);
}

static void cancel_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct cancel in;
    json_t *owner;

    if (flux_request_decode(h, msg, &cancel_schema, &in, &owner) < 0)
        return;
    json_decref(owner);
    km_senders_cancel(k->senders, msg, in.matchtag);
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
    {FLUX_MSG_REQUEST, "kvs.getroot", km_getroot_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.version", km_version_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.wait-version", km_wait_version_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.stats", km_stats_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.dropcache", km_dropcache_cb, ANYBODY},
    {FLUX_MSG_REQUEST, "kvs.disconnect", disconnect_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_REQUEST, "kvs.cancel", cancel_cb, ANYBODY},
    {FLUX_MSG_EVENT, "kvs.setroot", km_setroot_cb, 0},
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
    if (!k->first) {
        km_ns_begin(k->primary);
        return;
    }
    if (!(k->blobref = blobref_create(k->hash, &err))) {
        fail_start(k, errno, "attribute content.hash", err.text);
        return;
    }
    if (km_ns_open(k->primary) < 0)
        fail_start(k, ENOMEM, "the store", "out of memory");
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
    size_t pos = 0;
    void *val;

    /* Who waits is not answered: the host does that, or hands the requests to the next instance. */
    flux_handlers_remove(k->handlers);
    flux_future_destroy(k->starting);
    flux_future_destroy(k->subscribing);
    while (k->spaces && hmap_next(k->spaces, &pos, NULL, NULL, &val))
        km_ns_destroy(val);
    hmap_destroy(k->spaces);
    km_senders_destroy(k->senders);
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
    k->first = flux_rank(h) == 0;
    k->cache_limit = CACHE_LIMIT;
    list_init(&k->busy);
    if (!(k->spaces = hmap_create_str(NULL)) || !(k->senders = km_senders_create()) ||
        !(k->primary = km_ns_create(k, KVS_NS_PRIMARY, 0)) ||
        !(k->defer = flux_defer_create(flux_get_reactor(h), work_cb, k)) ||
        !(k->handlers = flux_handlers_add(h, handlers, k)) || (!k->first && subscribe(k) < 0) ||
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
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        size_t open = km_fence_count(ns);
        if (ns->master && (ns->version > 0 || !list_empty(&ns->commits)))
            return errmsg_fail(err, EBUSY,
                               "the store is in its memory and would be lost, all %llu versions of "
                               "it: force it if that is meant",
                               (unsigned long long)ns->version);
        if (open > 0)
            return errmsg_fail(err, EBUSY,
                               "%zu open fence%s would be aborted: try again later, or force it",
                               open, open > 1 ? "s" : "");
    }
    return 0;
}

FLUX_MODULE_THAT_MAY_REFUSE(kvs, kvs_init, kvs_fini, kvs_may_stop);
