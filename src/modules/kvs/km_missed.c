/* km_missed.c - find namespaces that were removed while an instance missed events.
 *
 *    kvs.namespace-check  {"namespaces":[{"namespace","serial"},...]} -> {"gone":[index,...]}; to
 *                         rank 0: which of these namespaces were removed
 *
 * Purpose: the event kvs.namespace-removed ends a namespace at all instances.  An instance that
 * learns that events were lost ("event.lost") doubts every namespace that it knows, and checks them
 * with rank 0.
 *
 *    state of a namespace   meaning                                left when (by)
 *    trusted                no event was lost since it was found   event.lost (km_missed_doubt)
 *    doubted                it is to be checked, or being checked  rank 0 has answered (answered)
 *
 * Invariants:
 *  1. One request is under way at a time, with at most BATCH namespaces.
 *  2. Rank 0 reports a namespace as gone only if it has assigned the serial itself since it
 *     started.  So no namespace ends because the directory was lost and its master has not
 *     registered yet.
 *  3. An answer is for a name and a serial, so it never ends a namespace that was created later.
 *
 * Failure: a namespace that could not be checked stays doubted, and the timer of the module has it
 * checked again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "km_private.h"

#define BATCH 1024 /* namespaces in one request */

/* --- at rank 0 --- */

/* The indices of the namespaces that are gone; NULL: the request was answered with an error. */
static json_t *gone_of(struct km *k, const flux_msg_t *msg, const json_t *namespaces)
{
    json_t *gone = json_array();
    size_t i;
    json_t *o;

    json_array_foreach((json_t *)namespaces, i, o)
    {
        struct km_wire_serial s;
        errmsg_t err;

        if (flux_schema_decode_json(&km_wire_serial_schema, o, &s, &err) < 0) {
            flux_respond_error(k->h, msg, EPROTO, "%s", err.text);
            json_decref(gone);
            return NULL;
        }
        if (km_directory_gone(k->dir, s.namespace, s.serial) &&
            json_array_append_new(gone, json_integer((json_int_t)i)) < 0)
            break;
    }
    if (!gone || i < json_array_size(namespaces)) {
        flux_respond_error(k->h, msg, ENOMEM, "rank 0 is out of memory");
        json_decref(gone);
        return NULL;
    }
    return gone;
}

void km_missed_check_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct km_wire_check in;
    struct km_wire_checked out;
    json_t *owner;

    if (flux_request_decode(h, msg, &km_wire_check_schema, &in, &owner) < 0)
        return;
    if (!k->first)
        flux_respond_error(h, msg, EPROTO, "rank %u does not keep the namespaces", flux_rank(h));
    else if (json_array_size(in.namespaces) > BATCH)
        flux_respond_error(h, msg, EINVAL, "at most %d namespaces are checked at once", BATCH);
    else if ((out.gone = gone_of(k, msg, in.namespaces))) {
        flux_respond_struct(h, msg, &km_wire_checked_schema, &out);
        json_decref(out.gone);
    }
    json_decref(owner);
}

/* --- elsewhere --- */

struct km_missed {
    struct km *k;
    flux_future_t *f;   /* the request under way, or NULL */
    json_t *asked;      /* the namespaces in this request */
    uint64_t doubts;    /* number of times that events were lost, */
    uint64_t asked_for; /* and its value when the request was sent */
};

static void forget(struct km_missed *m)
{
    flux_future_destroy(m->f);
    m->f = NULL;
    json_decref(m->asked);
    m->asked = NULL;
}

/* End the namespaces that are gone; the others in the request are trusted again. */
static void answered(struct km_missed *m, const json_t *gone)
{
    struct km_wire_serial s;
    size_t i;
    json_t *o;

    json_array_foreach((json_t *)gone, i, o)
    {
        const json_t *asked =
            json_is_integer(o) ? json_array_get(m->asked, (size_t)json_integer_value(o)) : NULL;
        if (asked && flux_schema_decode_json(&km_wire_serial_schema, asked, &s, NULL) == 0)
            (void)km_space_removed(m->k, s.namespace, s.serial, NULL, NULL);
    }
    json_array_foreach(m->asked, i, o)
    {
        struct km_ns *ns;

        if (flux_schema_decode_json(&km_wire_serial_schema, o, &s, NULL) == 0 &&
            (ns = hmap_get(m->k->spaces, s.namespace)) && ns->serial == s.serial &&
            ns->doubt <= m->asked_for)
            ns->doubt = 0;
    }
}

static void checked_cb(flux_future_t *f, void *arg)
{
    struct km_missed *m = arg;
    struct km_wire_checked out;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &km_wire_checked_schema, &out, &err) < 0) {
        flux_log(m->k->h, LOG_ERR, "cannot find out which namespaces were removed: %s", err.text);
        forget(m);
        return;
    }
    answered(m, out.gone);
    forget(m);
    km_missed_work(m);
}

void km_missed_work(struct km_missed *m)
{
    struct km_wire_check out = {NULL};
    struct km *k = m->k;
    size_t pos = 0;
    void *val;

    if (k->first || m->f)
        return;
    while (hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        struct km_wire_serial s = {ns->name, ns->serial};

        if (!ns->doubt || ns->state != KM_NS_KNOWN || ns == k->primary)
            continue;
        if (!out.namespaces && !(out.namespaces = json_array()))
            return;
        if (json_array_append_new(out.namespaces,
                                  flux_schema_encode_json(&km_wire_serial_schema, &s)) < 0 ||
            json_array_size(out.namespaces) == BATCH)
            break;
    }
    if (!out.namespaces)
        return;
    m->asked = out.namespaces;
    m->asked_for = m->doubts;
    m->f = flux_rpc_struct(k->h, "kvs.namespace-check", &km_wire_check_schema, &out,
                           FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    if (!m->f || flux_future_then(m->f, -1., checked_cb, m) < 0)
        forget(m);
}

void km_missed_doubt(struct km_missed *m)
{
    size_t pos = 0;
    void *val;

    m->doubts++;
    while (hmap_next(m->k->spaces, &pos, NULL, NULL, &val))
        ((struct km_ns *)val)->doubt = m->doubts;
    km_missed_work(m);
}

struct km_missed *km_missed_create(struct km *k)
{
    struct km_missed *m = calloc(1, sizeof(*m));

    if (m)
        m->k = k;
    return m;
}

void km_missed_destroy(struct km_missed *m)
{
    if (!m)
        return;
    forget(m);
    free(m);
}
