/* km_directory.c - the directory of all namespaces, at rank 0, and the requests about it.
 *
 *    kvs.namespace-create    {"namespace","owner","rank"} -> {}     owner 0xffffffff: the sender
 *    kvs.namespace-remove    {"namespace"} -> {}
 *    kvs.namespace-list      any -> {"namespaces":[{"namespace","owner","rank","lost"},...]}
 *    kvs.namespace-drop      {"namespace","userid","owner"} -> {}; to rank 0: that user removes it
 *    kvs.namespace-register  place -> {}; to rank 0, by courier: restore the entry of a master
 *                            after the directory was lost
 *    kvs.namespace-lost      {"namespace","serial"} -> {}; to rank 0, by courier: the master ended
 *
 * state     what happens                                       left when
 * OPENING   the master was asked to open the namespace         the master has answered: LIVE, or
 *                                                              (an error) the entry is freed
 * LIVE      look-ups find the namespace                        it is removed, or its master is lost
 * LOST      the list has it; its users get EHOSTUNREACH        it is removed
 * CLOSING   the master was asked to close it.  If it is kept   the event has its number: the entry
 *           on disk, it is deleted there; then the event       is freed
 *           kvs.namespace-removed is on its way
 *
 * Invariants:
 *  1. A name is in the directory at most once; it must be removed before it can be created again.
 *  2. A create is answered when the master serves the namespace, even if another create of the same
 *     name came first (EEXIST).  A remove is answered when the master no longer serves the
 *     namespace, and the namespace is deleted on disk (or its deletion has failed).
 *  3. Other instances identify the sender of these requests and pass them on (km_relay.c), with a
 *     random number.  A request that is sent again, since a broker on the way has died, has the
 *     same number, and gets the answer of the first: the last DONE_MAX answers are kept.
 *  4. The state changes by the transitions of `moves` only.
 *  5. The list is made in slices (libservice/longlist.h).
 *
 * Failure: the error of a master that cannot be reached is the response to the create; a remove
 * counts such a master as closed.  When kvs is restarted at rank 0, the masters at other ranks
 * register their namespaces again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "km_disk.h"
#include "libschema/jsonout.h"
#include "libutil/invariant.h"

#define ENTRIES_MAX 65536
#define DONE_MAX 4096

enum entry_state { OPENING, LIVE, LOST, CLOSING };

struct entry {
    struct km *k;
    uint64_t serial;
    uint32_t owner, rank;
    enum entry_state state;
    flux_future_t *f;
    struct list_node waiting; /* struct asker: requests that wait for the creation or the removal */
    struct longlist_place place;
    char name[KVS_NS_MAX + 1];
};

struct asker {
    struct list_node node;
    flux_msg_t *req;
    uint64_t number; /* 0: it is not sent again */
    bool late;       /* a second creation: EEXIST when the namespace is open */
};

/* The answer to a creation or a removal. */
struct done {
    struct list_node node; /* in km_directory.order */
    uint64_t number;
    int errnum;
    char text[]; /* of an error */
};

struct km_directory {
    hmap_t *entries;  /* rank 0: all namespaces; elsewhere empty */
    longlist_t *list; /* of `entries` and `primary` */
    struct entry primary;
    hmap_t *done;           /* number -> struct done */
    struct list_node order; /* of these, the oldest first */
    uint64_t first, serial; /* serials: all that were assigned are > first and <= serial */
    courier_t *courier;     /* of messages to rank 0 about namespaces */
};

/* --- entries --- */

static const struct transition moves[] = {
    {OPENING, LIVE, "opened, km_directory_register_cb, km_directory_restore"},
    {LIVE, LOST, "km_directory_lost, lost_one"},
    {LIVE, CLOSING, "close_entry"},
    {LOST, CLOSING, "close_entry"},
    TRANSITION_END,
};

static void set_state(struct entry *e, enum entry_state state)
{
    TRANSITION(4, moves, e->state, state);
    e->state = state;
}

static void asker_free(struct asker *a)
{
    list_remove(&a->node);
    flux_msg_destroy(a->req);
    free(a);
}

static void entry_free(struct entry *e)
{
    (void)hmap_take(e->k->dir->entries, e->name);
    longlist_remove(&e->place);
    LIST_FOREACH_SAFE(n, tmp, &e->waiting)
    asker_free(list_entry(n, struct asker, node));
    flux_future_destroy(e->f);
    free(e);
}

static void put_entry(strbuf_t *sb, const struct longlist_place *p, const flux_msg_t *req)
{
    const struct entry *e = list_entry(p, struct entry, place);
    struct kvs_ns_item item = {e->name, e->owner, e->rank, e->state == LOST};

    if (e->state == LIVE || e->state == LOST)
        jsonout_struct(sb, NULL, &kvs_ns_item_schema, &item);
}

struct km_directory *km_directory_create(struct km *k)
{
    struct km_directory *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    /* A random beginning, so that no serial is assigned again after a restart. */
    if (k->first)
        d->first = d->serial = flux_random(k->h) >> 4;
    list_init(&d->order);
    if (!(d->entries = hmap_create_str(NULL)) || !(d->done = hmap_create_u64(free)) ||
        !(d->list = longlist_create(k->h, k->senders, "namespaces", put_entry)) ||
        !(d->courier = courier_create(k->h, 0, NULL, NULL))) {
        km_directory_destroy(d);
        errno = ENOMEM;
        return NULL;
    }
    d->primary = (struct entry){.owner = geteuid(), .state = LIVE, .name = KVS_NS_PRIMARY};
    longlist_add(d->list, &d->primary.place);
    return d;
}

void km_directory_destroy(struct km_directory *d)
{
    size_t pos = 0;
    void *val;

    if (!d)
        return;
    while (d->entries && hmap_next(d->entries, &pos, NULL, NULL, &val))
        entry_free(val);
    hmap_destroy(d->entries);
    hmap_destroy(d->done);
    longlist_remove(&d->primary.place);
    longlist_destroy(d->list);
    courier_destroy(d->courier);
    free(d);
}

static struct entry *entry_new(struct km *k, const char *name, uint32_t owner, uint32_t rank,
                               uint64_t serial)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->k = k;
    e->owner = owner;
    e->rank = rank;
    e->serial = serial;
    list_init(&e->waiting);
    strcpy(e->name, name); /* kvs_ns_check() has checked its length */
    if (hmap_put(k->dir->entries, name, e) < 0) {
        free(e);
        return NULL;
    }
    longlist_add(k->dir->list, &e->place);
    return e;
}

static int asker_add(struct entry *e, const flux_msg_t *req, uint64_t number, bool late)
{
    struct asker *a = calloc(1, sizeof(*a));

    if (!a)
        return -1;
    a->req = flux_msg_incref(req);
    a->number = number;
    a->late = late;
    list_init(&a->node);
    list_append(&e->waiting, &a->node);
    return 0;
}

/* Is this the request for the creation that is under way? */
static bool asker_known(const struct entry *e, uint64_t number)
{
    LIST_FOREACH(it, &e->waiting)
    {
        const struct asker *a = list_entry(it, struct asker, node);

        if (number && a->number == number && !a->late)
            return true;
    }
    return false;
}

/* Without memory for it, the answer is not kept. */
static void done_keep(struct km_directory *d, uint64_t number, int errnum, const char *error)
{
    size_t len = errnum ? strlen(error) : 0;
    struct done *x;

    if (!number || hmap_get_u64(d->done, number) || !(x = malloc(sizeof(*x) + len + 1)))
        return;
    x->number = number;
    x->errnum = errnum;
    memcpy(x->text, errnum ? error : "", len + 1);
    if (hmap_put_u64(d->done, number, x) < 0) {
        free(x);
        return;
    }
    list_append(&d->order, &x->node);
    if (hmap_count(d->done) > DONE_MAX) {
        x = list_entry(list_first(&d->order), struct done, node);
        list_remove(&x->node);
        (void)hmap_del_u64(d->done, x->number);
    }
}

/* Returns whether the request was answered before, and is answered again. */
static bool done_before(struct km *k, const flux_msg_t *req, uint64_t number)
{
    const struct done *x = number ? hmap_get_u64(k->dir->done, number) : NULL;

    if (x && x->errnum)
        flux_respond_error(k->h, req, x->errnum, "%s", x->text);
    else if (x)
        flux_respond(k->h, req, "{}");
    return x != NULL;
}

/* Answer the requests that wait for the creation or the removal. */
static void entry_answer(struct entry *e, int errnum, const char *error)
{
    struct list_node *n;

    while ((n = list_first(&e->waiting))) {
        struct asker *a = list_entry(n, struct asker, node);
        if (!a->late)
            done_keep(e->k->dir, a->number, errnum, error);
        if (errnum)
            flux_respond_error(e->k->h, a->req, errnum, "%s", error);
        else if (a->late)
            flux_respond_error(e->k->h, a->req, EEXIST, "there is a namespace '%s' already",
                               e->name);
        else
            flux_respond(e->k->h, a->req, "{}");
        asker_free(a);
    }
}

static void entry_place(const struct entry *e, struct km_wire_place *p)
{
    *p = (struct km_wire_place){.namespace = e->name,
                                .owner = e->owner,
                                .rank = e->rank,
                                .serial = e->serial,
                                .lost = e->state == LOST,
                                .hash = e->k->hash};
}

int km_directory_find(struct km_directory *d, const char *name, struct km_wire_place *p,
                      errmsg_t *err)
{
    struct entry *e = hmap_get(d->entries, name);

    if (!e || e->state == OPENING || e->state == CLOSING)
        return errmsg_fail(err, ENOENT, "there is no namespace '%.64s'", name);
    if (p)
        entry_place(e, p);
    return 0;
}

bool km_directory_gone(const struct km_directory *d, const char *name, uint64_t serial)
{
    const struct entry *e = hmap_get(d->entries, name);

    return serial > d->first && serial <= d->serial &&
           (!e || e->serial != serial || e->state == CLOSING);
}

/* --- creation --- */

static void opened(struct entry *e, int errnum, const char *error)
{
    if (errnum == 0)
        set_state(e, LIVE);
    entry_answer(e, errnum, error);
    if (errnum)
        entry_free(e);
}

static void opened_cb(flux_future_t *f, void *arg)
{
    struct entry *e = arg;
    errmsg_t err = {""};
    int errnum = flux_rpc_get(f, &err) < 0 ? errno : 0;

    e->f = NULL;
    flux_future_destroy(f);
    opened(e, errnum, err.text);
}

/* The namespace is on disk, or (errnum != 0) could not be created there. */
static void kept_cb(void *arg, uint32_t id, int errnum, const char *error)
{
    struct entry *e = arg;
    struct km_wire_place p;
    errmsg_t err;

    errmsg_set(&err, "%s", error);
    entry_place(e, &p);
    if (errnum == 0 && km_space_open(e->k, &p, id, &err) < 0)
        errnum = errno;
    opened(e, errnum, err.text);
}

static void open_entry(struct entry *e)
{
    struct km *k = e->k;
    struct km_wire_place p;
    errmsg_t err = {""};

    entry_place(e, &p);
    if (e->rank == flux_rank(k->h)) {
        int rc = km_disk_create(k, e->name, e->owner, kept_cb, e);
        if (rc < 0)
            opened(e, ENOMEM, "rank 0 is out of memory for a namespace");
        else if (rc == 0)
            opened(e, km_space_open(k, &p, 0, &err) < 0 ? errno : 0, err.text);
        return;
    }
    e->f = flux_rpc_struct(k->h, "kvs.namespace-open", &km_wire_place_schema, &p, e->rank,
                           FLUX_MSGF_IDEMPOTENT);
    if (!e->f || flux_future_then(e->f, -1., opened_cb, e) < 0)
        opened(e, ENOMEM, "rank 0 is out of memory for a namespace");
}

static void create(struct km *k, const flux_msg_t *msg, const struct kvs_ns_create *in)
{
    struct entry *e = hmap_get(k->dir->entries, in->namespace);

    if (done_before(k, msg, in->number))
        return;
    if (e && e->state == CLOSING) {
        flux_respond_error(k->h, msg, EAGAIN, "namespace '%s' is being removed: try again",
                           in->namespace);
    } else if (e && e->state == OPENING) {
        /* The namespace must be usable when the response says that it exists. */
        if (asker_add(e, msg, in->number, !asker_known(e, in->number)) < 0)
            flux_respond_error(k->h, msg, ENOMEM, "rank 0 is out of memory for a namespace");
    } else if (e || strcmp(in->namespace, KVS_NS_PRIMARY) == 0) {
        flux_respond_error(k->h, msg, EEXIST, "there is a namespace '%s' already", in->namespace);
    } else if (in->rank >= flux_size(k->h)) {
        flux_respond_error(k->h, msg, EHOSTUNREACH,
                           "rank %u does not exist: the session has ranks 0-%u", in->rank,
                           flux_size(k->h) - 1);
    } else if (idset_test(session_lost(k->session), in->rank)) {
        flux_respond_error(k->h, msg, EHOSTUNREACH, "rank %u is lost: choose another", in->rank);
    } else if (hmap_count(k->dir->entries) >= ENTRIES_MAX) {
        flux_respond_error(k->h, msg, ENOSPC, "there are %d namespaces: remove one first",
                           ENTRIES_MAX);
    } else if (!(e = entry_new(k, in->namespace, in->owner, in->rank, ++k->dir->serial)) ||
               asker_add(e, msg, in->number, false) < 0) {
        if (e)
            entry_free(e);
        flux_respond_error(k->h, msg, ENOMEM, "rank 0 is out of memory for a namespace");
    } else {
        open_entry(e);
    }
}

/* --- removal --- */

static void removed_cb(flux_future_t *f, void *arg)
{
    struct entry *e = arg;

    if (flux_future_errnum(f) != 0)
        flux_log(e->k->h, LOG_ERR, "the removal of namespace '%s' could not be announced: %s",
                 e->name, flux_future_error(f));
    e->f = NULL;
    flux_future_destroy(f);
    entry_answer(e, 0, NULL);
    entry_free(e);
}

static void announce_removal(struct entry *e)
{
    struct km_wire_serial out = {e->name, e->serial};
    char *json = flux_schema_encode(&km_wire_serial_schema, &out);

    e->f = json ? flux_event_publish(e->k->h, "kvs.namespace-removed", json) : NULL;
    free(json);
    if (!e->f || flux_future_then(e->f, -1., removed_cb, e) < 0) {
        flux_log(e->k->h, LOG_ERR, "the removal of namespace '%s' is not announced: out of memory",
                 e->name);
        entry_answer(e, 0, NULL);
        entry_free(e);
    }
}

static void closed_cb(flux_future_t *f, void *arg)
{
    struct entry *e = arg;

    /* The master has closed the namespace, or could not be reached. */
    e->f = NULL;
    flux_future_destroy(f);
    (void)km_space_removed(e->k, e->name, e->serial, NULL, NULL);
    announce_removal(e);
}

/* The namespace was deleted on disk, or (errnum != 0) will be deleted later. */
static void forgotten_cb(void *arg, int errnum, const char *error)
{
    struct entry *e = arg;
    errmsg_t err;

    if (errnum) {
        errmsg_set(
            &err,
            "namespace '%s' is removed, but stays on disk until it can be deleted there: %.150s",
            e->name, error);
        entry_answer(e, errnum, err.text);
    }
    announce_removal(e);
}

static void close_entry(struct entry *e)
{
    struct km *k = e->k;
    struct km_wire_serial out = {e->name, e->serial};
    bool lost = e->state == LOST;

    set_state(e, CLOSING);
    if (lost || e->rank == flux_rank(k->h)) {
        if (!km_space_removed(k, e->name, e->serial, forgotten_cb, e))
            announce_removal(e);
        return;
    }
    e->f = flux_rpc_struct(k->h, "kvs.namespace-close", &km_wire_serial_schema, &out, e->rank,
                           FLUX_MSGF_IDEMPOTENT);
    if (!e->f || flux_future_then(e->f, -1., closed_cb, e) < 0) {
        flux_future_destroy(e->f);
        e->f = NULL;
        announce_removal(e);
    }
}

static void remove_entry(struct km *k, const flux_msg_t *msg, const struct km_wire_drop *in)
{
    struct entry *e = hmap_get(k->dir->entries, in->namespace);

    if (done_before(k, msg, in->number))
        return;
    if (strcmp(in->namespace, KVS_NS_PRIMARY) == 0) {
        flux_respond_error(k->h, msg, EPERM, "the primary namespace cannot be removed");
    } else if (!e || e->state == OPENING) {
        flux_respond_error(k->h, msg, ENOENT, "there is no namespace '%.64s'", in->namespace);
    } else if (!in->owner && in->userid != e->owner) {
        flux_respond_error(k->h, msg, EPERM,
                           "namespace '%s' belongs to somebody else: only its owner and that of "
                           "the session may remove it",
                           e->name);
    } else if (asker_add(e, msg, in->number, false) < 0) {
        flux_respond_error(k->h, msg, ENOMEM, "rank 0 is out of memory");
    } else if (e->state != CLOSING) {
        close_entry(e);
    }
}

/* --- messages of other instances --- */

void km_directory_lost(struct km_directory *d, const idset_t *ranks)
{
    size_t pos = 0;
    void *val;

    while (hmap_next(d->entries, &pos, NULL, NULL, &val)) {
        struct entry *e = val;
        if (e->state == LIVE && idset_test(ranks, e->rank))
            set_state(e, LOST);
    }
}

static void lost_one(struct km *k, const struct km_wire_serial *in)
{
    struct entry *e = hmap_get(k->dir->entries, in->namespace);

    if (e && e->serial == in->serial && e->state == LIVE)
        set_state(e, LOST);
}

void km_directory_lost_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_wire_serial in;
    json_t *owner;

    if (flux_request_decode(h, msg, &km_wire_serial_schema, &in, &owner) < 0)
        return;
    lost_one(arg, &in);
    flux_respond(h, msg, NULL);
    json_decref(owner);
}

static void post(struct km *k, const char *topic, const struct flux_schema *desc, const void *out)
{
    char *json = flux_schema_encode(desc, out);

    if (!json || courier_post_json(k->dir->courier, topic, FLUX_NODEID_ROOT, json) < 0)
        flux_log(k->h, LOG_ERR, "no memory to tell rank 0 about a namespace (%s)", topic);
}

void km_directory_tell_lost(struct km *k, const char *name, uint64_t serial)
{
    struct km_wire_serial out = {name, serial};

    if (k->first)
        lost_one(k, &out);
    else if (k->ending) /* if it is lost, an instance that finds no master here reports that
                         * (km_space.c) */
        flux_future_destroy(flux_rpc_struct(k->h, "kvs.namespace-lost", &km_wire_serial_schema,
                                            &out, FLUX_NODEID_ROOT, 0));
    else
        post(k, "kvs.namespace-lost", &km_wire_serial_schema, &out);
}

void km_directory_register_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct km_wire_place in;
    json_t *owner;

    if (flux_request_decode(h, msg, &km_wire_place_schema, &in, &owner) < 0)
        return;
    if (k->first && kvs_ns_check(in.namespace, strlen(in.namespace), NULL) == 0 &&
        !hmap_get(k->dir->entries, in.namespace)) {
        struct entry *e = entry_new(k, in.namespace, in.owner, in.rank, in.serial);
        if (e)
            set_state(e, LIVE);
        else
            flux_log(h, LOG_ERR, "out of memory for namespace '%s'", in.namespace);
    }
    flux_respond(h, msg, NULL);
    json_decref(owner);
}

struct km_ns *km_directory_restore(struct km *k, const char *name, uint32_t owner, errmsg_t *err)
{
    struct entry *e = NULL;
    struct km_wire_place p;

    if (hmap_get(k->dir->entries, name))
        errmsg_fail(err, EEXIST, "there is a namespace '%s' already", name);
    else if (!(e = entry_new(k, name, owner, flux_rank(k->h), ++k->dir->serial)))
        errmsg_fail(err, ENOMEM, "rank 0 is out of memory for a namespace");
    if (!e)
        return NULL;
    set_state(e, LIVE);
    entry_place(e, &p);
    return km_space_master(k, &p, err);
}

void km_directory_register(struct km *k)
{
    size_t pos = 0;
    void *val;

    while (!k->first && hmap_next(k->spaces, &pos, NULL, NULL, &val)) {
        struct km_ns *ns = val;
        struct km_wire_place p = {.namespace = ns->name,
                                  .owner = ns->owner,
                                  .rank = ns->rank,
                                  .serial = ns->serial,
                                  .hash = k->hash};
        if (ns->master)
            post(k, "kvs.namespace-register", &km_wire_place_schema, &p);
    }
}

/* --- requests --- */

/* Until all namespaces are restored from disk, requests about the directory wait, since it is
 * incomplete.  True: the request was put by. */
static bool too_early(struct km *k, const flux_msg_t *msg, flux_handler_f cb)
{
    if (!k->first || k->started)
        return false;
    (void)km_ns_put_by(k->primary, msg, cb);
    return true;
}

static bool is_owner(const flux_msg_t *msg)
{
    return flux_msg_rolemask(msg) & (FLUX_ROLE_OWNER | FLUX_ROLE_BROKER);
}

/* JSON has no unsigned integers. */
static uint64_t a_number(flux_t *h)
{
    return flux_random(h) >> 1;
}

void km_directory_create_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct kvs_ns_create in = {0};
    json_t *owner;
    errmsg_t err;

    if (flux_request_decode(h, msg, &kvs_ns_create_schema, &in, &owner) < 0)
        return;
    if (!k->first && !in.number)
        in.number = a_number(h);
    if (in.owner == FLUX_USERID_UNKNOWN)
        in.owner = flux_msg_userid(msg);
    if (kvs_ns_check(in.namespace, strlen(in.namespace), &err) < 0)
        flux_respond_error(h, msg, errno, "%s", err.text);
    else if (!is_owner(msg) && in.owner != flux_msg_userid(msg))
        flux_respond_error(h, msg, EPERM,
                           "only the owner of the session may make a namespace for somebody else");
    else if (too_early(k, msg, km_directory_create_cb))
        ;
    else if (k->first)
        create(k, msg, &in);
    else
        km_relay_request(k->relays, msg, "kvs.namespace-create", &kvs_ns_create_schema, &in);
    json_decref(owner);
}

void km_directory_remove_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct kvs_ns_only in;
    json_t *owner;

    if (flux_request_decode(h, msg, &kvs_ns_only_schema, &in, &owner) < 0)
        return;
    struct km_wire_drop drop = {in.namespace, flux_msg_userid(msg), is_owner(msg),
                                k->first ? 0 : a_number(h)};
    if (too_early(k, msg, km_directory_remove_cb))
        ;
    else if (k->first)
        remove_entry(k, msg, &drop);
    else
        km_relay_request(k->relays, msg, "kvs.namespace-drop", &km_wire_drop_schema, &drop);
    json_decref(owner);
}

void km_directory_drop_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct km_wire_drop in = {0};
    json_t *owner;

    if (flux_request_decode(h, msg, &km_wire_drop_schema, &in, &owner) < 0)
        return;
    if (too_early(k, msg, km_directory_drop_cb))
        ;
    else if (k->first)
        remove_entry(k, msg, &in);
    else
        flux_respond_error(h, msg, EPROTO, "rank %u does not keep the namespaces", flux_rank(h));
    json_decref(owner);
}

void km_directory_list_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;

    if (!k->first)
        km_relay_request(k->relays, msg, "kvs.namespace-list", NULL, NULL);
    else if (!too_early(k, msg, km_directory_list_cb))
        longlist_answer(k->dir->list, msg);
}
