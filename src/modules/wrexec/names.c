/* names.c - the names that jobs publish for each other, at rank 0.
 *
 * Purpose: a job publishes an address (in MPI, a port) under a name (a service); other jobs of the
 * same user look the name up.  All requests go to rank 0, so a look-up that causally follows a
 * publication finds the name.
 *
 * Format: an entry in the key-value store, readable by every user:
 *
 *    pmi.names.UID.NAME    {"id":ID, "service":S, "port":P}
 *
 * NAME is the service, with %XX for any byte other than a letter, a digit, '_' or '-'.  A NAME that
 * would be too long is cut, and its digest is appended.  If two services have the same NAME, the
 * `service` of the entry tells them apart, and the second one is refused.
 *
 * Invariants:
 *  1. A name is published once: the commit requires its absence.
 *  2. A name is removed when its job has ended.  For a job that ends during its commit, this is
 *     checked when the answer arrives.
 *  3. The first request removes the names that an earlier instance left, unless that instance
 *     handed over: no job of that time exists any longer.
 *  4. A request that waits for a name is in a list of the name and in a list of its job; the end of
 *     either ends the wait.
 *  5. A request whose answer was lost with a broker is sent again, marked as repeated.  If its
 *     first copy has been served, it succeeds as well.
 *  6. At most REQUESTS_MAX requests wait or are under way, at most JOB_REQUESTS_MAX of one job.
 *
 * Failure: a request is answered with the error message of the store; a request beyond a bound,
 * with EAGAIN.
 */
#include "config.h"
#include "names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "libutil/fnv.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libexec/wrexec_names.h"

#define ROOT "pmi.names"
#define KEY_MAX 320
#define NAME_PART 200
#define REQUESTS_MAX 65536
#define JOB_REQUESTS_MAX 16384

struct names {
    flux_t *h;
    bool (*runs)(void *arg, uint64_t id);
    void *arg;
    hmap_t *owners;            /* job -> struct owner */
    struct list_node requests; /* requests under way */
    struct list_node waiters;
    hmap_t *counts; /* job -> number of its requests, stored as a pointer */
    size_t count;
    bool cleaned; /* the removal of old names has been requested */
    flux_future_t *clean;
};

struct owner {
    struct list_node keys; /* struct owned */
};

struct owned {
    struct list_node node;
    char key[KEY_MAX];
};

enum op { PUBLISH, LOOKUP, UNPUBLISH };

struct request {
    struct list_node node;
    struct names *n;
    flux_msg_t *msg;
    enum op op;
    uint64_t id;
    bool wait;
    bool repeated; /* the first copy may have been served: then there is nothing left to do */
    bool again;    /* the name was published after the look-up was sent */
    char *service;
    char key[KEY_MAX];
    flux_future_t *f;
};

struct kept {
    uint64_t id;
    const char *service;
    const char *port;
};
static const struct flux_field kept_fields[] = {
    FLUX_FIELD_U64(struct kept, id, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kept, service, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct kept, port, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema kept_schema = FLUX_SCHEMA(struct kept, kept_fields);

/* --- keys --- */

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static void make_key(char key[KEY_MAX], uint32_t uid, const char *service)
{
    uint64_t digest = fnv64_text(FNV64_BASIS, service);
    size_t at = (size_t)snprintf(key, KEY_MAX, ROOT ".%u.", uid), start = at;
    const char *p;

    for (p = service; *p; p++) {
        if (at - start + 3 > NAME_PART)
            continue;
        if (plain(*p))
            key[at++] = *p;
        else
            at += (size_t)snprintf(key + at, KEY_MAX - at, "%%%02X", (uint8_t)*p);
    }
    key[at] = '\0';
    if (at - start + 3 > NAME_PART)
        snprintf(key + at, KEY_MAX - at, "%%~%016" PRIx64, digest);
}

/* --- owners of names --- */

static void owner_free(void *arg)
{
    struct owner *o = arg;
    struct list_node *n;

    while ((n = list_first(&o->keys))) {
        list_remove(n);
        free(list_entry(n, struct owned, node));
    }
    free(o);
}

static int own(struct names *n, uint64_t id, const char *key)
{
    struct owner *o = hmap_get_u64(n->owners, id);
    struct owned *k = calloc(1, sizeof(*k));

    if (k && !o && (o = calloc(1, sizeof(*o)))) {
        list_init(&o->keys);
        if (hmap_put_u64(n->owners, id, o) < 0) {
            free(o);
            o = NULL;
        }
    }
    if (!k || !o) {
        free(k);
        errno = ENOMEM;
        return -1;
    }
    snprintf(k->key, sizeof(k->key), "%s", key);
    list_append(&o->keys, &k->node);
    return 0;
}

static struct owned *find_owned(struct names *n, uint64_t id, const char *key)
{
    struct owner *o = hmap_get_u64(n->owners, id);

    if (o)
        LIST_FOREACH(it, &o->keys)
        {
            struct owned *k = list_entry(it, struct owned, node);

            if (strcmp(k->key, key) == 0)
                return k;
        }
    return NULL;
}

static void forget(flux_future_t *f, void *arg)
{
    flux_future_destroy(f);
}

static void commit_and_forget(struct names *n, flux_kvs_txn_t *txn)
{
    flux_future_t *f = txn ? flux_kvs_commit(n->h, NULL, txn) : NULL;

    if (!f || flux_future_then(f, -1., forget, NULL) < 0)
        flux_future_destroy(f);
}

static void remove_key(struct names *n, const char *key)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();

    if (txn && flux_kvs_txn_unlink(txn, key, 0, NULL) == 0)
        commit_and_forget(n, txn);
    flux_kvs_txn_destroy(txn);
}

/* --- requests --- */

static size_t count_of(const struct names *n, uint64_t id)
{
    return (size_t)(uintptr_t)hmap_get_u64(n->counts, id);
}

static int count_change(struct names *n, uint64_t id, int by)
{
    size_t count = count_of(n, id) + (size_t)by;

    if (count == 0)
        hmap_take_u64(n->counts, id);
    else if (hmap_put_u64(n->counts, id, (void *)(uintptr_t)count) < 0)
        return -1;
    n->count += (size_t)by;
    return 0;
}

static void request_free(struct request *r)
{
    count_change(r->n, r->id, -1);
    list_remove(&r->node);
    flux_future_destroy(r->f);
    flux_msg_destroy(r->msg);
    free(r->service);
    free(r);
}

static void request_fail(struct request *r, int errnum, const char *text)
{
    flux_respond_error(r->n->h, r->msg, errnum, "%s", text);
    request_free(r);
}

static void start(struct request *r);

/* Look up a published name again for the requests that wait for it. */
static void wake(struct names *n, const char *key)
{
    struct list_node again;

    list_init(&again);
    LIST_FOREACH(it, &n->requests)
    {
        struct request *r = list_entry(it, struct request, node);

        r->again |= strcmp(r->key, key) == 0;
    }
    LIST_FOREACH_SAFE(it, tmp, &n->waiters)
    {
        struct request *r = list_entry(it, struct request, node);

        if (strcmp(r->key, key) == 0) {
            list_remove(it);
            list_append(&again, it);
        }
    }
    LIST_FOREACH_SAFE(it, tmp, &again)
    {
        struct request *r = list_entry(it, struct request, node);

        list_remove(it);
        list_append(&n->requests, it);
        start(r);
    }
}

static void published(flux_future_t *f, void *arg)
{
    struct request *r = arg;
    struct names *n = r->n;
    char key[KEY_MAX], text[400];
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        if (errno == EAGAIN && r->repeated && find_owned(n, r->id, r->key)) {
            flux_respond(n->h, r->msg, NULL);
            request_free(r);
            return;
        }
        snprintf(text, sizeof(text), "the name '%.100s' is published already", r->service);
        request_fail(r, errno == EAGAIN ? EEXIST : errno, errno == EAGAIN ? text : err.text);
        return;
    }
    if (!n->runs(n->arg, r->id) || own(n, r->id, r->key) < 0) {
        remove_key(n, r->key);
        request_fail(r, ESRCH, "the job that published a name is over");
        return;
    }
    snprintf(key, sizeof(key), "%s", r->key);
    flux_respond(n->h, r->msg, NULL);
    request_free(r);
    wake(n, key);
}

static void unpublished(flux_future_t *f, void *arg)
{
    struct request *r = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        request_fail(r, errno, err.text);
        return;
    }
    flux_respond(r->n->h, r->msg, NULL);
    request_free(r);
}

static void not_there(struct request *r)
{
    char text[200];

    if (r->wait) {
        flux_future_destroy(r->f);
        r->f = NULL;
        if (r->again) {
            start(r);
            return;
        }
        list_remove(&r->node);
        list_append(&r->n->waiters, &r->node);
        return;
    }
    snprintf(text, sizeof(text), "nobody has published the name '%.100s'", r->service);
    request_fail(r, ENOENT, text);
}

static void looked_up(flux_future_t *f, void *arg)
{
    struct request *r = arg;
    struct wrexec_named res;
    struct kept kept;
    const char *data;
    json_t *owner;
    size_t len;
    errmsg_t err;

    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0) {
        if (errno == ENOENT)
            not_there(r);
        else
            request_fail(r, errno, err.text);
        return;
    }
    owner = flux_schema_decode(&kept_schema, data, len, &kept, &err);
    if (!owner) {
        request_fail(r, errno, err.text);
        return;
    }
    if (strcmp(kept.service, r->service) != 0) {
        not_there(r);
    } else {
        res.port = kept.port;
        flux_respond_struct(r->n->h, r->msg, &wrexec_named_schema, &res);
        request_free(r);
    }
    json_decref(owner);
}

static flux_future_t *send_publish(struct request *r, const char *port, errmsg_t *err)
{
    struct kept kept = {r->id, r->service, port};
    char *json = flux_schema_encode(&kept_schema, &kept);
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f = NULL;

    if (json && txn && flux_kvs_txn_guard(txn, r->key, NULL, err) == 0 &&
        flux_kvs_txn_put(txn, r->key, json, err) == 0)
        f = flux_kvs_commit(r->n->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    free(json);
    return f;
}

static flux_future_t *send_unpublish(struct request *r, errmsg_t *err)
{
    struct owned *k = find_owned(r->n, r->id, r->key);
    flux_kvs_txn_t *txn;
    flux_future_t *f = NULL;

    if (!k) {
        errmsg_fail(err, ENOENT, "job %" PRIu64 " has not published the name '%.100s'", r->id,
                    r->service);
        return NULL;
    }
    txn = flux_kvs_txn_create();
    if (txn && flux_kvs_txn_unlink(txn, r->key, 0, err) == 0)
        f = flux_kvs_commit(r->n->h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    if (f) {
        list_remove(&k->node);
        free(k);
    }
    return f;
}

static const flux_future_f after[] = {published, looked_up, unpublished};

static void start(struct request *r)
{
    errmsg_t err = {"out of memory"};
    struct wrexec_name name;
    const char *json;
    json_t *owner = NULL;
    size_t len;

    r->again = false;
    errno = ENOMEM;
    if (r->op == LOOKUP) {
        r->f = flux_kvs_lookup(r->n->h, NULL, r->key, 0, NULL);
    } else if (r->op == UNPUBLISH) {
        r->f = send_unpublish(r, &err);
    } else {
        json = flux_msg_payload(r->msg, &len);
        owner = flux_schema_decode(&wrexec_name_schema, json, len, &name, &err);
        if (owner)
            r->f = send_publish(r, name.port, &err);
        json_decref(owner);
    }
    if (!r->f && errno == ENOENT && r->repeated) { /* unpublished by the first copy */
        flux_respond(r->n->h, r->msg, NULL);
        request_free(r);
    } else if (!r->f || flux_future_then(r->f, -1., after[r->op], r) < 0) {
        request_fail(r, errno, err.text);
    }
}

static void cleaned(flux_future_t *f, void *arg)
{
}

/* Later requests reach the store after this one, so no request has to wait for its answer. */
static void clean(struct names *n)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();

    n->cleaned = true;
    if (txn && flux_kvs_txn_unlink(txn, ROOT, FLUX_KVS_RECURSIVE, NULL) == 0 &&
        (n->clean = flux_kvs_commit(n->h, NULL, txn)))
        flux_future_then(n->clean, -1., cleaned, n);
    flux_kvs_txn_destroy(txn);
}

static struct request *request_create(struct names *n, const flux_msg_t *msg, uint64_t id,
                                      const char *service)
{
    struct request *r = calloc(1, sizeof(*r));

    if (!r || !(r->service = strdup(service)) || count_change(n, id, 1) < 0) {
        if (r)
            free(r->service);
        free(r);
        return NULL;
    }
    r->n = n;
    r->msg = flux_msg_incref(msg);
    r->id = id;
    make_key(r->key, flux_msg_userid(msg), service);
    list_init(&r->node);
    return r;
}

static int check(struct names *n, const struct wrexec_name *name, enum op *op, errmsg_t *err)
{
    static const char *const ops[] = {"publish", "lookup", "unpublish"};
    size_t i = 0;

    while (i < 3 && strcmp(ops[i], name->op) != 0)
        i++;
    *op = (enum op)i;
    if (i == 3 || (*op == PUBLISH) != (name->port != NULL) || (name->wait && *op != LOOKUP))
        return errmsg_fail(err, EINVAL, "wrexec.name: invalid operation '%.40s' with%s a port",
                           name->op, name->port ? "" : "out");
    if (!name->service[0] || strlen(name->service) > NAMES_SERVICE_MAX ||
        (name->port && strlen(name->port) > NAMES_PORT_MAX))
        return errmsg_fail(err, ENAMETOOLONG,
                           "a name needs 1 to %d bytes, and a port at most %d: choose shorter ones",
                           NAMES_SERVICE_MAX, NAMES_PORT_MAX);
    if (!n->runs(n->arg, name->id))
        return errmsg_fail(err, ESRCH, "job %" PRIu64 " is not running", name->id);
    return 0;
}

void names_request(names_t *n, const flux_msg_t *req)
{
    struct wrexec_name name = {0};
    struct request *r;
    json_t *owner;
    enum op op;
    errmsg_t err;

    if (flux_request_decode(n->h, req, &wrexec_name_schema, &name, &owner) < 0)
        return;
    if (check(n, &name, &op, &err) < 0) {
        flux_respond_error(n->h, req, errno, "%s", err.text);
    } else if (n->count >= REQUESTS_MAX || count_of(n, name.id) >= JOB_REQUESTS_MAX) {
        flux_respond_error(n->h, req, EAGAIN,
                           "job %" PRIu64 ": too many requests about names wait: try again later",
                           name.id);
    } else if (!(r = request_create(n, req, name.id, name.service))) {
        flux_respond_error(n->h, req, ENOMEM, "no memory for a name");
    } else {
        if (!n->cleaned)
            clean(n);
        r->op = op;
        r->wait = name.wait;
        r->repeated = name.repeated;
        list_append(&n->requests, &r->node);
        start(r);
    }
    json_decref(owner);
}

void names_job_over(names_t *n, uint64_t id)
{
    struct owner *o;
    flux_kvs_txn_t *txn;

    if (!n)
        return;
    if (!list_empty(&n->waiters))
        LIST_FOREACH_SAFE(it, tmp, &n->waiters)
        {
            struct request *r = list_entry(it, struct request, node);

            if (r->id == id)
                request_fail(r, ECANCELED, "the job that waits for a name is over");
        }
    if (hmap_count(n->owners) == 0 || !(o = hmap_take_u64(n->owners, id)))
        return;
    txn = flux_kvs_txn_create();
    LIST_FOREACH(it, &o->keys)
    {
        if (txn)
            flux_kvs_txn_unlink(txn, list_entry(it, struct owned, node)->key, 0, NULL);
    }
    if (txn && flux_kvs_txn_count(txn) > 0)
        commit_and_forget(n, txn);
    flux_kvs_txn_destroy(txn);
    owner_free(o);
}

/* --- reload --- */

static void save_requests(const struct list_node *list, flux_handover_t *o)
{
    LIST_FOREACH(it, list)
    {
        const struct request *r = list_entry(it, struct request, node);

        flux_handover_put_msg(o, r->msg);
        flux_handover_put(o, r->op);
        flux_handover_put(o, r->id);
        flux_handover_put(o, r->wait);
        flux_handover_put(o, r->again);
        flux_handover_put(o, r->repeated);
        flux_handover_put_str(o, r->service);
        flux_handover_put(o, r->f != NULL);
        flux_handover_put(o, r->f ? flux_rpc_tag(r->f) : 0);
    }
    flux_handover_put_msg(o, NULL);
}

void names_save(const names_t *n, flux_handover_t *o)
{
    size_t pos = 0;
    uint64_t id;
    void *val;

    flux_handover_put_mark(o, "names");
    flux_handover_put(o, n->cleaned);
    while (hmap_next(n->owners, &pos, NULL, &id, &val)) {
        LIST_FOREACH(it, &((struct owner *)val)->keys)
        {
            flux_handover_put_str(o, list_entry(it, struct owned, node)->key);
            flux_handover_put(o, id);
        }
    }
    flux_handover_put_str(o, NULL);
    save_requests(&n->requests, o);
    save_requests(&n->waiters, o);
}

static int load_request(struct names *n, struct list_node *list, const flux_msg_t *msg,
                        flux_handover_t *o)
{
    enum op op = (enum op)flux_handover_get(o, UNPUBLISH);
    uint64_t id = flux_handover_get(o, UINT64_MAX);
    bool wait = flux_handover_get(o, 1), again = flux_handover_get(o, 1);
    bool repeated = flux_handover_get(o, 1), asked;
    const char *service = flux_handover_get_str(o);
    struct request *r;
    uint32_t tag;

    asked = flux_handover_get(o, 1);
    tag = (uint32_t)flux_handover_get(o, UINT32_MAX);
    if (!service || asked != (list == &n->requests)) {
        flux_handover_fail(o, EPROTO);
        return -1;
    }
    if (!(r = request_create(n, msg, id, service)))
        return -1;
    r->op = op;
    r->wait = wait;
    r->repeated = repeated;
    r->again = again;
    list_append(list, &r->node);
    if (!asked)
        return 0;
    r->f = flux_rpc_resume(n->h, "", 0, 0, tag);
    return r->f ? flux_future_then(r->f, -1., after[op], r) : -1;
}

static void load_requests(struct names *n, struct list_node *list, flux_handover_t *o)
{
    flux_msg_t *msg;

    while ((msg = flux_handover_get_msg(o))) {
        if (load_request(n, list, msg, o) < 0)
            flux_handover_fail(o, ENOMEM);
        flux_msg_destroy(msg);
    }
}

void names_load(names_t *n, flux_handover_t *o)
{
    const char *key;

    flux_handover_get_mark(o, "names");
    n->cleaned = flux_handover_get(o, 1);
    while ((key = flux_handover_get_str(o))) {
        uint64_t id = flux_handover_get(o, UINT64_MAX);

        if (strlen(key) >= KEY_MAX)
            flux_handover_fail(o, EPROTO);
        else if (own(n, id, key) < 0)
            flux_handover_fail(o, ENOMEM);
    }
    load_requests(n, &n->requests, o);
    load_requests(n, &n->waiters, o);
}

names_t *names_create(flux_t *h, bool (*runs)(void *arg, uint64_t id), void *arg)
{
    names_t *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    n->h = h;
    n->runs = runs;
    n->arg = arg;
    list_init(&n->requests);
    list_init(&n->waiters);
    n->owners = hmap_create_u64(owner_free);
    n->counts = hmap_create_u64(NULL);
    if (!n->owners || !n->counts) {
        hmap_destroy(n->owners);
        hmap_destroy(n->counts);
        free(n);
        errno = ENOMEM;
        return NULL;
    }
    return n;
}

void names_destroy(names_t *n)
{
    int errnum = errno;
    struct list_node *it;

    if (!n)
        return;
    while ((it = list_first(&n->requests)) || (it = list_first(&n->waiters)))
        request_fail(list_entry(it, struct request, node), ECONNABORTED,
                     "the wrexec module of rank 0 was unloaded");
    flux_future_destroy(n->clean);
    hmap_destroy(n->owners);
    hmap_destroy(n->counts);
    free(n);
    errno = errnum;
}
