/* km_version.c - versions: the current root, and requests that wait for a later one.
 *
 *    kvs.version       {"namespace"}            -> {"version","rootref"}
 *    kvs.wait-version  {"namespace","version"}  -> the same, in one response, when that version has
 *                                                  arrived; streaming, so that it can be canceled
 *    kvs.getroot       {"namespace"}            -> root (kvs_wire.h), between instances
 *    event kvs.setroot                root
 *    event kvs.began                  no payload: the master of the primary namespace has started,
 *                                     and has restored the namespace from disk.  If there was
 *                                     nothing to restore, the first root announces the start
 *
 * Invariants:
 *  1. The list of waits is sorted by version, so a new root touches only the waits that it ends:
 *     one slice at once, and the rest in the next passes of the reactor.
 *  2. A wait is answered once, unless its sender is gone.
 *
 * Failure: if an announced root is malformed, a message is logged, and the root is ignored.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_private.h"
#include "libflux/slice.h"

#define WAITS_MAX 262144 /* for one namespace at one instance */

struct km_version_waits {
    struct list_node all; /* kvs.wait-version, lowest version first */
    size_t n;
};

struct vwait {
    struct list_node node;
    struct claim claim;
    struct km_ns *ns;
    flux_msg_t *msg;
    uint64_t version;
};

static void respond_version(struct km_ns *ns, const flux_msg_t *req)
{
    struct kvs_version_answer v = {ns->version, ns->rootref};

    flux_respond_struct(ns->h, req, &kvs_version_answer_schema, &v);
}

static void vwait_free(struct vwait *v)
{
    list_remove(&v->node);
    v->ns->vwaits->n--;
    claim_drop(v->ns->k->senders, &v->claim);
    flux_msg_destroy(v->msg);
    free(v);
}

static void vwait_gone(struct claim *c, bool canceled)
{
    struct vwait *v = list_entry(c, struct vwait, claim);

    flux_respond_error(v->ns->h, v->msg, ENODATA, "the wait %s", claim_gone_why(canceled));
    vwait_free(v);
}

void km_version_serve(struct km_ns *ns)
{
    struct flux_slice s;
    struct list_node *n;

    if (list_empty(&ns->vwaits->all))
        return;
    flux_slice_begin(&s, flux_get_reactor(ns->h), KM_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&ns->vwaits->all))) {
        struct vwait *v = list_entry(n, struct vwait, node);
        if (v->version > ns->version)
            break;
        if (!flux_slice_more(&s)) {
            km_ns_poke(ns);
            break;
        }
        respond_version(ns, v->msg);
        vwait_free(v);
    }
}

void km_version_shut(struct km_ns *ns, int errnum, const char *why)
{
    LIST_FOREACH_SAFE(n, tmp, &ns->vwaits->all)
    {
        struct vwait *v = list_entry(n, struct vwait, node);
        if (errnum)
            flux_respond_error(ns->h, v->msg, errnum, "%s", why);
        vwait_free(v);
    }
}

/* A master has started, or events were lost: the root known here may be older than that of the
 * master, or the store may have begun anew.  Fetch the root from the master. */
static void master_began(struct km_ns *ns)
{
    if (ns->version == 0)
        return;
    ns->suspicious = true;
    km_ns_root_fetch(ns, true);
}

void km_version_began_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct km *k = arg;

    km_directory_register(k);
    if (!k->first)
        master_began(k->primary);
}

void km_version_missed(struct km *k)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;

        if (!ns->master)
            master_began(ns);
    }
}

void km_version_setroot_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    struct km *k = arg;
    struct km_ns *ns;
    struct kvs_root root;
    size_t len;
    const void *data = flux_msg_payload(event, &len);
    errmsg_t err;

    if (!data || kvs_root_decode(data, len, &root, &err) < 0) {
        flux_log(h, LOG_ERR, "an announced root is malformed: %s", data ? err.text : "it is empty");
        return;
    }
    if (!(ns = hmap_get(k->spaces, root.ns)))
        return;
    if (root.version == 0 && ns == k->primary)
        km_directory_register(k);
    /* The versions of announced roots rise, unless the master was loaded anew. */
    if (root.version == 0 && ns->version > 0)
        master_began(ns);
    else if (km_ns_root_heard(ns, &root, &err) < 0)
        flux_log(h, LOG_ERR, "an announced root is malformed: %s", err.text);
}

void km_version_getroot_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns = km_space_request_plain(arg, msg, km_version_getroot_cb);

    if (ns)
        km_ns_respond_root(ns, msg);
}

void km_version_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns = km_space_request_plain(arg, msg, km_version_cb);

    if (ns)
        respond_version(ns, msg);
}

static void wait_for(struct km_ns *ns, const flux_msg_t *msg, uint64_t version)
{
    struct vwait *v;
    struct list_node *after;

    if (ns->vwaits->n >= WAITS_MAX) {
        flux_respond_error(ns->h, msg, EAGAIN, "%d requests wait for versions at rank %u: too many",
                           WAITS_MAX, flux_rank(ns->h));
        return;
    }
    v = calloc(1, sizeof(*v));
    if (!v || claim_take(ns->k->senders, &v->claim, msg, vwait_gone) < 0) {
        flux_respond_error(ns->h, msg, ENOMEM, "the store is out of memory");
        free(v);
        return;
    }
    v->ns = ns;
    ns->vwaits->n++;
    v->msg = flux_msg_incref(msg);
    v->version = version;
    list_init(&v->node);
    /* Most waits are for the highest version: search from the end. */
    after = ns->vwaits->all.prev;
    while (after != &ns->vwaits->all && list_entry(after, struct vwait, node)->version > v->version)
        after = after->prev;
    list_push(after, &v->node);
}

void km_version_wait_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct kvs_ns_version in;
    struct km_ns *ns;
    json_t *owner;

    if (flux_request_decode(h, msg, &kvs_ns_version_schema, &in, &owner) < 0)
        return;
    ns = km_space_request_ready(arg, msg, in.namespace, strlen(in.namespace), km_version_wait_cb);
    json_decref(owner);
    if (!ns)
        return;
    if (in.version <= ns->version)
        respond_version(ns, msg);
    else
        wait_for(ns, msg, in.version);
}

/* --- life --- */

struct km_version_waits *km_version_waits_create(void)
{
    struct km_version_waits *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    list_init(&x->all);
    return x;
}

void km_version_waits_destroy(struct km_version_waits *x)
{
    free(x);
}

bool km_version_busy(const struct km_ns *ns)
{
    return !list_empty(&ns->vwaits->all);
}
