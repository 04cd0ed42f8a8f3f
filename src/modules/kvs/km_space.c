/* km_space.c - how an instance finds, opens and ends namespaces.
 *
 * Messages:
 *    kvs.namespace-find     {"namespace"} -> place; from instance to instance, up to rank 0
 *    kvs.namespace-open     place -> {}; from rank 0 to the rank that becomes the master
 *    kvs.namespace-close    {"namespace","serial"} -> {}; from rank 0 to the master
 *    event kvs.namespace-removed  {"namespace","serial"}
 *
 * A place is {"namespace","owner","rank","serial","lost","hash"}.  Rank 0 knows all places
 * (km_directory.c).  Any other instance requests a place from the instance above it when it needs
 * the place for the first time, and keeps the place until the namespace is removed or lost, or was
 * not used here for IDLE seconds.  A serial number is never used twice, so a message about a
 * removed namespace cannot be mistaken for one about a later namespace of the same name.
 *
 * state     what happens                                           left when
 * FINDING   kvs.namespace-find is under way; requests wait         a place or an error has arrived
 * KNOWN     at the master: requests are served.  Elsewhere: the    the namespace is removed, or
 *           root is followed once a request needs it               lost, or idle (km_space_expire)
 * ENDED     the namespace is not in the table; all requests that   the next deferral frees it
 *           waited have been answered
 *
 * Invariants:
 *  1. The primary namespace is KNOWN from the beginning and never ends.
 *  2. A namespace that ends leaves no memory behind and no request unanswered.
 *  3. A sender that owns neither the namespace nor the session is refused at the first instance
 *     that its request reaches; requests from other instances have been checked there.
 *  4. The state changes by these transitions only: FINDING to KNOWN (known(), km_space_master()),
 *     FINDING or KNOWN to ENDED (km_space_end()).
 *
 * Failure: when no place can be found, the requests that wait get the error.  The next request
 * searches again.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "km_disk.h"
#include "libutil/invariant.h"

#define SPACES_MAX 65536 /* namespaces in the table of an instance */
#define IDLE 60.         /* seconds without a request until an unused namespace ends here */

/* --- the end --- */

static const struct transition moves[] = {
    {KM_NS_FINDING, KM_NS_KNOWN, "known, km_space_master"},
    {KM_NS_FINDING, KM_NS_ENDED, "km_space_end"},
    {KM_NS_KNOWN, KM_NS_ENDED, "km_space_end"},
    TRANSITION_END,
};

static void set_state(struct km_ns *ns, enum km_ns_state state)
{
    TRANSITION(4, moves, ns->state, state);
    ns->state = state;
}

void km_space_end(struct km_ns *ns, int errnum, const char *fmt, ...)
{
    errmsg_t why = {""};
    va_list ap;

    if (ns->state == KM_NS_ENDED || ns == ns->k->primary)
        return;
    if (fmt) {
        va_start(ap, fmt);
        vsnprintf(why.text, sizeof(why.text), fmt, ap);
        va_end(ap);
    }
    set_state(ns, KM_NS_ENDED);
    (void)hmap_take(ns->k->spaces, ns->name);
    km_ns_shut(ns, errnum, why.text);
    /* The caller may still use `ns`: turn_cb() in km_ns.c frees it. */
    km_ns_poke(ns);
}

/* --- finding --- */

static void known(struct km_ns *ns)
{
    set_state(ns, KM_NS_KNOWN);
    early_serve(ns->early);
}

/* The topology has arrived (errnum 0), or the request for it has failed. */
void km_space_routed(struct km_ns *ns, int errnum, const char *error)
{
    if (errnum)
        km_space_end(ns, errnum, "%s", error);
    else
        known(ns);
}

static void found(struct km_ns *ns, const struct km_wire_place *p)
{
    struct km *k = ns->k;
    errmsg_t err;

    ns->owner = p->owner;
    ns->rank = p->rank;
    ns->serial = p->serial;
    if (p->lost) {
        km_space_end(ns, EHOSTUNREACH,
                     "namespace '%s' was lost with its master at rank %u: remove it, and make it "
                     "anew",
                     ns->name, p->rank);
        return;
    }
    if (p->rank == flux_rank(k->h)) {
        /* This rank was its master before the instance was restarted. */
        km_directory_tell_lost(k, ns->name, ns->serial);
        km_space_end(
            ns, EHOSTUNREACH,
            "namespace '%s' was lost when kvs was restarted at its master, rank %u: remove "
            "it, and make it anew",
            ns->name, p->rank);
        return;
    }
    if (km_module_learn_algorithm(k, p->hash, &err) < 0)
        km_space_end(ns, errno, "%s", err.text);
    else if (km_route_ready(k->route))
        known(ns);
    else
        km_route_wait(k->route, ns);
}

static void found_cb(flux_future_t *f, void *arg)
{
    struct km_ns *ns = arg;
    struct km_wire_place p;
    errmsg_t err;

    ns->finding = NULL;
    if (flux_rpc_get_struct(f, &km_wire_place_schema, &p, &err) < 0)
        km_space_end(ns, errno, "%s", err.text);
    else
        found(ns, &p);
    flux_future_destroy(f);
}

static void find(struct km_ns *ns)
{
    struct kvs_ns_only out = {ns->name};
    struct km_wire_place p;
    errmsg_t err;

    if (ns->k->first) {
        if (km_directory_find(ns->k->dir, ns->name, &p, &err) < 0)
            km_space_end(ns, errno, "%s", err.text);
        else
            found(ns, &p);
        return;
    }
    ns->finding = flux_rpc_struct(ns->h, "kvs.namespace-find", &kvs_ns_only_schema, &out,
                                  FLUX_NODEID_ANY, FLUX_MSGF_UPSTREAM | FLUX_MSGF_IDEMPOTENT);
    if (!ns->finding || flux_future_then(ns->finding, -1., found_cb, ns) < 0)
        km_space_end(ns, ENOMEM, "rank %u is out of memory for a namespace", flux_rank(ns->h));
}

bool km_space_permitted(const struct km_ns *ns, const flux_msg_t *msg)
{
    return flux_msg_rolemask(msg) & (FLUX_ROLE_OWNER | FLUX_ROLE_BROKER) ||
           (ns != ns->k->primary && flux_msg_userid(msg) == ns->owner);
}

/* The namespace of a request; its root may not be known yet.  NULL: the request was answered with
 * an error, or waits until the namespace is found, when `cb` gets it again. */
static struct km_ns *km_space_request(struct km *k, const flux_msg_t *msg, const char *name,
                                      size_t len, flux_handler_f cb)
{
    char text[KVS_NS_MAX + 1];
    struct km_ns *ns;
    errmsg_t err;

    /* The common case, without a look-up in the table. */
    if (len == sizeof(KVS_NS_PRIMARY) - 1 && memcmp(name, KVS_NS_PRIMARY, len) == 0 &&
        km_space_permitted(k->primary, msg))
        return k->primary;
    if (kvs_ns_check(name, len, &err) < 0) {
        flux_respond_error(k->h, msg, errno, "%s", err.text);
        return NULL;
    }
    memcpy(text, name, len);
    text[len] = '\0';
    if (!(ns = hmap_get(k->spaces, text))) {
        if (k->first && !k->started) { /* it may be restored from disk later */
            (void)km_ns_put_by(k->primary, msg, cb);
            return NULL;
        }
        if (k->first && km_directory_find(k->dir, text, NULL, &err) < 0) {
            flux_respond_error(k->h, msg, errno, "%s", err.text);
            return NULL;
        }
        if (hmap_count(k->spaces) >= SPACES_MAX) {
            flux_respond_error(k->h, msg, EAGAIN,
                               "rank %u has too many namespaces: try again later", flux_rank(k->h));
            return NULL;
        }
        if (!(ns = km_ns_create(k, text, FLUX_NODEID_ANY))) {
            flux_respond_error(k->h, msg, ENOMEM, "rank %u is out of memory for a namespace",
                               flux_rank(k->h));
            return NULL;
        }
    }
    ns->used = flux_now(k->h);
    if (ns->state == KM_NS_FINDING) {
        /* The place may be known before find() returns; then `cb` has the request again. */
        if (km_ns_put_by(ns, msg, cb) && !ns->finding && list_empty(&ns->route_node))
            find(ns);
        return NULL;
    }
    if (!km_space_permitted(ns, msg)) {
        flux_respond_error(k->h, msg, EPERM,
                           "namespace '%s' belongs to somebody else: only its "
                           "owner and that of the session may use it",
                           ns->name);
        return NULL;
    }
    return ns;
}

struct km_ns *km_space_request_ready(struct km *k, const flux_msg_t *msg, const char *name,
                                     size_t len, flux_handler_f cb)
{
    struct km_ns *ns = km_space_request(k, msg, name, len, cb);

    return ns && km_ns_ready(ns, msg, cb) ? ns : NULL;
}

int km_space_decode(flux_t *h, const flux_msg_t *msg, struct kvs_ns_req *q)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    errmsg_t err;

    if (!flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        errmsg_fail(&err, EPROTO, "a request for %s has no raw payload", flux_msg_topic(msg));
    else if (kvs_ns_req_decode(data, len, q, &err) == 0) {
        bool commit = strcmp(flux_msg_topic(msg), "kvs.commit") == 0;
        bool store = strcmp(flux_msg_topic(msg), "kvs.store") == 0;
        unsigned allowed = commit ? KVS_NS_DURABLE : 0;
        if (flux_msg_rolemask(msg) & FLUX_ROLE_BROKER)
            allowed |= (commit ? KVS_NS_NUMBERED | KVS_NS_AGAIN : 0) | (store ? KVS_NS_CLIENT : 0);
        if (!(q->flags & ~allowed))
            return 0;
        errmsg_fail(&err, EPROTO, "flags %#x are not for %s", q->flags, flux_msg_topic(msg));
    }
    flux_respond_error(h, msg, errno, "%s", err.text);
    return -1;
}

struct km_ns *km_space_request_plain(struct km *k, const flux_msg_t *msg, flux_handler_f cb)
{
    struct kvs_ns_only in;
    struct km_ns *ns;
    json_t *owner;

    if (flux_request_decode(k->h, msg, &kvs_ns_only_schema, &in, &owner) < 0)
        return NULL;
    ns = km_space_request_ready(k, msg, in.namespace, strlen(in.namespace), cb);
    json_decref(owner);
    return ns;
}

/* --- between instances --- */

void km_space_find_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct kvs_ns_only in;
    struct km_ns *ns;
    struct km_wire_place p;
    json_t *owner;
    errmsg_t err;

    if (flux_request_decode(h, msg, &kvs_ns_only_schema, &in, &owner) < 0)
        return;
    if (k->first && !k->started) {
        (void)km_ns_put_by(k->primary, msg, km_space_find_cb);
    } else if (k->first) {
        if (km_directory_find(k->dir, in.namespace, &p, &err) < 0)
            flux_respond_error(h, msg, errno, "%s", err.text);
        else
            flux_respond_struct(h, msg, &km_wire_place_schema, &p);
    } else if ((ns = km_space_request(k, msg, in.namespace, strlen(in.namespace),
                                      km_space_find_cb))) {
        p = (struct km_wire_place){.namespace = ns->name,
                                   .owner = ns->owner,
                                   .rank = ns->rank,
                                   .serial = ns->serial,
                                   .hash = k->hash};
        flux_respond_struct(h, msg, &km_wire_place_schema, &p);
    }
    json_decref(owner);
}

struct km_ns *km_space_master(struct km *k, const struct km_wire_place *p, errmsg_t *err)
{
    struct km_ns *ns = hmap_get(k->spaces, p->namespace);

    if (ns)
        km_space_end(ns, ENOENT, "namespace '%s' was removed", ns->name);
    if (km_module_learn_algorithm(k, p->hash, err) < 0)
        return NULL;
    if (!(ns = km_ns_create(k, p->namespace, flux_rank(k->h)))) {
        errmsg_fail(err, ENOMEM, "rank %u is out of memory for a namespace", flux_rank(k->h));
        return NULL;
    }
    ns->owner = p->owner;
    ns->serial = p->serial;
    ns->used = flux_now(k->h);
    set_state(ns, KM_NS_KNOWN);
    return ns;
}

int km_space_open(struct km *k, const struct km_wire_place *p, uint32_t id, errmsg_t *err)
{
    struct km_ns *ns = hmap_get(k->spaces, p->namespace);

    /* The request is sent again when a broker on the way dies. */
    if (ns && ns->master && p->serial && ns->serial == p->serial)
        return 0;
    if (!(ns = km_space_master(k, p, err)))
        return -1;
    if (km_ns_make(ns) == 0 && (id == 0 || km_keep_fresh(ns, id) == 0)) {
        km_ns_serve(ns);
    } else {
        km_space_end(ns, ENOMEM, "rank %u is out of memory for a namespace", flux_rank(k->h));
        return errmsg_fail(err, ENOMEM, "rank %u is out of memory for a namespace",
                           flux_rank(k->h));
    }
    return 0;
}

void km_space_open_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_wire_place p;
    json_t *owner;
    errmsg_t err;
    int rc;

    if (flux_request_decode(h, msg, &km_wire_place_schema, &p, &owner) < 0)
        return;
    rc = kvs_ns_check(p.namespace, strlen(p.namespace), &err);
    if (rc == 0 && strcmp(p.namespace, KVS_NS_PRIMARY) == 0)
        rc = errmsg_fail(&err, EINVAL, "the primary namespace is always open");
    if (rc < 0 || km_space_open(arg, &p, 0, &err) < 0)
        flux_respond_error(h, msg, errno, "%s", err.text);
    else
        flux_respond(h, msg, "{}");
    json_decref(owner);
}

bool km_space_removed(struct km *k, const char *name, uint64_t serial, km_forgotten_f done,
                      void *arg)
{
    struct km_ns *ns = hmap_get(k->spaces, name);
    bool waits;

    if (!ns || ns->serial != serial)
        return false;
    waits = ns->keep && km_keep_remove(ns->keep, done, arg) == 0;
    km_space_end(ns, ENOENT, "namespace '%s' was removed", name);
    return waits;
}

void km_space_close_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_wire_serial in;
    json_t *owner;

    if (flux_request_decode(h, msg, &km_wire_serial_schema, &in, &owner) < 0)
        return;
    (void)km_space_removed(arg, in.namespace, in.serial, NULL, NULL);
    flux_respond(h, msg, "{}");
    json_decref(owner);
}

void km_space_removed_cb(flux_t *h, const flux_msg_t *event, void *arg)
{
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    struct km_wire_serial in;
    json_t *owner = json ? flux_schema_decode(&km_wire_serial_schema, json, len, &in, NULL) : NULL;

    if (owner)
        (void)km_space_removed(arg, in.namespace, in.serial, NULL, NULL);
    json_decref(owner);
}

/* --- loss, idleness --- */

void km_space_lost(struct km *k, const idset_t *ranks)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        if (ns->state == KM_NS_KNOWN && ns != k->primary && idset_test(ranks, ns->rank))
            km_space_end(ns, EHOSTUNREACH, "namespace '%s' was lost with its master, rank %u",
                         ns->name, ns->rank);
    }
}

void km_space_rerouted(struct km *k)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        if (ns->state != KM_NS_KNOWN || ns->master || ns->rank == FLUX_NODEID_ROOT)
            continue;
        km_load_rerouted(ns);
        km_follow_rerouted(ns);
    }
}

void km_space_expire(struct km *k)
{
    double now = flux_now(k->h);
    size_t pos = 0;
    void *val;

    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        if (ns != k->primary && ns->state == KM_NS_KNOWN && !ns->master && now - ns->used > IDLE &&
            !km_ns_busy(ns))
            km_space_end(ns, 0, NULL);
    }
}
