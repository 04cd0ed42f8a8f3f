/* pmixd_names.c - publish, look up, unpublish, by the names service of wrexec (wrexec_names.h).
 *
 * A call with several keys makes one request for each, and is answered when all are.  A key is
 * published as the service "pmix:KEY", with the port
 *
 *    NAMESPACE RANK HEX    the publisher, and the value as the library packs it
 *
 * Ranges and persistence are ignored: a published key is visible to all jobs of the user while its
 * job runs.  With PMIX_WAIT a look-up is answered when all keys exist; PMIX_TIMEOUT limits the
 * wait.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libexec/wrexec_names.h"
#include "pmixd_wire.h"

struct names_call;

#define TRIES_MAX 20 /* a try fails when a broker dies */

struct one {
    struct names_call *c;
    char key[PMIX_MAX_KEYLEN + 1];
    char *port; /* the port to publish, or the one that was found */
    flux_future_t *f;
    unsigned tries;
};

struct names_call {
    struct call call;
    struct pmixd *pd;
    const char *op;
    size_t n;
    struct one *ones;
    size_t left;
    pmix_status_t status;
    bool wait;
    int timeout;
    pmix_op_cbfunc_t done;
    pmix_lookup_cbfunc_t found;
    void *cbdata;
};

static void call_free(struct names_call *c)
{
    for (size_t i = 0; c->ones && i < c->n; i++) {
        free(c->ones[i].port);
        flux_future_destroy(c->ones[i].f);
    }
    free(c->ones);
    free(c);
}

static pmix_status_t status_of(int errnum)
{
    switch (errnum) {
    case EEXIST:
        return PMIX_ERR_DUPLICATE_KEY;
    case ENOENT:
        return PMIX_ERR_NOT_FOUND;
    case ENOMEM:
        return PMIX_ERR_NOMEM;
    case ETIMEDOUT:
        return PMIX_ERR_TIMEOUT;
    default:
        return PMIX_ERROR;
    }
}

/* --- values as text --- */

static char *to_text(const pmix_proc_t *proc, const pmix_value_t *value)
{
    pmix_data_buffer_t buf;
    pmix_byte_object_t bo = {NULL, 0};
    char *text = NULL;

    PMIX_DATA_BUFFER_CONSTRUCT(&buf);
    if (PMIx_Data_pack(NULL, &buf, (void *)value, 1, PMIX_VALUE) == PMIX_SUCCESS &&
        PMIx_Data_unload(&buf, &bo) == PMIX_SUCCESS) {
        struct published p = {proc->nspace, strlen(proc->nspace), proc->rank, (uint8_t *)bo.bytes,
                              bo.size};

        text = pmixd_wire_published_format(&p);
    }
    free(bo.bytes);
    PMIX_DATA_BUFFER_DESTRUCT(&buf);
    return text;
}

static int from_text(const char *text, pmix_pdata_t *out)
{
    pmix_data_buffer_t buf;
    pmix_byte_object_t bo;
    struct published p;
    int32_t one = 1;
    int rc = -1;

    if (pmixd_wire_published_parse(text, &p) < 0)
        return -1;
    if (p.nspace_len > PMIX_MAX_NSLEN) {
        free(p.value);
        return -1;
    }
    memcpy(out->proc.nspace, p.nspace, p.nspace_len);
    out->proc.rank = p.rank;
    bo.bytes = (char *)p.value; /* goes to the buffer */
    bo.size = p.len;
    PMIX_DATA_BUFFER_CONSTRUCT(&buf);
    if (PMIx_Data_load(&buf, &bo) == PMIX_SUCCESS &&
        PMIx_Data_unpack(NULL, &buf, &out->value, &one, PMIX_VALUE) == PMIX_SUCCESS)
        rc = 0;
    PMIX_DATA_BUFFER_DESTRUCT(&buf);
    return rc;
}

/* --- calls --- */

static void answer_lookup(struct names_call *c)
{
    pmix_pdata_t *data = NULL;
    size_t n = 0, room = 0;

    for (size_t i = 0; i < c->n; i++)
        room += c->ones[i].port != NULL;
    if (room > 0)
        PMIX_PDATA_CREATE(data, room);
    if (!data) {
        c->found(c->status == PMIX_SUCCESS ? PMIX_ERR_NOT_FOUND : c->status, NULL, 0, c->cbdata);
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        if (!c->ones[i].port || from_text(c->ones[i].port, &data[n]) < 0)
            continue;
        snprintf(data[n].key, sizeof(data[n].key), "%s", c->ones[i].key);
        n++;
    }
    c->found(n == c->n   ? PMIX_SUCCESS
             : n > 0     ? PMIX_ERR_PARTIAL_SUCCESS
             : c->status ? c->status
                         : PMIX_ERR_NOT_FOUND,
             data, n, c->cbdata);
    PMIX_PDATA_FREE(data, room);
}

static int send_one(struct names_call *c, struct one *o);

static void one_cb(flux_future_t *f, void *arg)
{
    struct one *o = arg;
    struct names_call *c = o->c;
    struct wrexec_named res;
    errmsg_t err;
    int rc = 0;

    /* A broker on the way has died.  The next request waits in the broker here for another way. */
    if (flux_future_errnum(f) == EHOSTUNREACH && o->tries < TRIES_MAX && send_one(c, o) == 0) {
        flux_future_destroy(f);
        return;
    }
    if (c->found && (rc = flux_rpc_get_struct(f, &wrexec_named_schema, &res, &err)) == 0)
        o->port = strdup(res.port);
    else if (!c->found)
        rc = flux_rpc_get(f, &err);
    if (rc < 0)
        c->status = status_of(flux_future_errnum(f));
    if (--c->left > 0)
        return;
    if (c->found)
        answer_lookup(c);
    else
        c->done(c->status, c->cbdata);
    call_free(c);
}

static int send_one(struct names_call *c, struct one *o)
{
    char service[PMIX_MAX_KEYLEN + 8];
    struct wrexec_name name = {.id = c->pd->id,
                               .op = c->op,
                               .service = service,
                               .port = o->port,
                               .wait = c->wait,
                               .repeated = o->tries > 0};
    flux_t *h = pmixd_handle(c->pd, NULL);
    flux_future_t *f;

    snprintf(service, sizeof(service), "pmix:%s", o->key);
    f = h ? flux_rpc_struct(h, "wrexec.name", &wrexec_name_schema, &name, FLUX_NODEID_ROOT, 0)
          : NULL;
    if (!f || flux_future_then(f, c->timeout > 0 ? c->timeout : -1., one_cb, o) < 0) {
        flux_future_destroy(f);
        return -1;
    }
    o->f = f;
    o->tries++;
    return 0;
}

static void names_run(struct pmixd *pd, struct call *call)
{
    struct names_call *c = (struct names_call *)(void *)call;
    flux_t *h = pmixd_handle(pd, NULL);
    size_t sent = 0;

    c->left = c->n;
    for (size_t i = 0; h && i < c->n; i++) {
        struct one *o = &c->ones[i];

        if (send_one(c, o) < 0)
            break;
        sent++;
    }
    if (sent == c->n)
        return;
    if (c->found)
        c->found(PMIX_ERR_UNREACH, NULL, 0, c->cbdata);
    else
        c->done(PMIX_ERR_UNREACH, c->cbdata);
    call_free(c);
}

static struct names_call *call_create(const char *op, size_t n, void *cbdata)
{
    struct names_call *c = calloc(1, sizeof(*c));

    if (!c || !(c->ones = calloc(n, sizeof(*c->ones)))) {
        free(c);
        return NULL;
    }
    c->call.run = names_run;
    c->pd = pmixd_self();
    c->op = op;
    c->n = n;
    c->status = PMIX_SUCCESS;
    c->cbdata = cbdata;
    for (size_t i = 0; i < n; i++)
        c->ones[i].c = c;
    return c;
}

static bool is_directive(const pmix_info_t *info)
{
    return PMIX_CHECK_KEY(info, PMIX_RANGE) || PMIX_CHECK_KEY(info, PMIX_PERSISTENCE) ||
           PMIX_CHECK_KEY(info, PMIX_USERID) || PMIX_CHECK_KEY(info, PMIX_GRPID) ||
           PMIX_CHECK_KEY(info, PMIX_TIMEOUT) || PMIX_CHECK_KEY(info, PMIX_WAIT);
}

static pmix_status_t post(struct names_call *c)
{
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

pmix_status_t pmixd_names_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                  pmix_op_cbfunc_t cb, void *cbdata)
{
    struct names_call *c;
    size_t n = 0;

    for (size_t i = 0; i < ninfo; i++)
        n += !is_directive(&info[i]);
    if (n == 0)
        return PMIX_ERR_BAD_PARAM;
    if (!(c = call_create("publish", n, cbdata)))
        return PMIX_ERR_NOMEM;
    c->done = cb;
    n = 0;
    for (size_t i = 0; i < ninfo; i++) {
        if (is_directive(&info[i]))
            continue;
        snprintf(c->ones[n].key, sizeof(c->ones[n].key), "%s", info[i].key);
        if (!(c->ones[n++].port = to_text(proc, &info[i].value))) {
            call_free(c);
            return PMIX_ERR_NOMEM;
        }
    }
    return post(c);
}

static struct names_call *keys_call(const char *op, char **keys, const pmix_info_t info[],
                                    size_t ninfo, void *cbdata)
{
    struct names_call *c;
    size_t n = 0;

    while (keys[n])
        n++;
    if (!(c = call_create(op, n, cbdata)))
        return NULL;
    for (size_t i = 0; i < n; i++)
        snprintf(c->ones[i].key, sizeof(c->ones[i].key), "%s", keys[i]);
    for (size_t i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT))
            c->wait = true;
        else if (PMIX_CHECK_KEY(&info[i], PMIX_TIMEOUT) && info[i].value.type == PMIX_INT)
            c->timeout = info[i].value.data.integer;
    }
    return c;
}

pmix_status_t pmixd_names_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                 size_t ninfo, pmix_lookup_cbfunc_t cb, void *cbdata)
{
    struct names_call *c;

    if (!keys || !keys[0])
        return PMIX_ERR_BAD_PARAM;
    if (!(c = keys_call("lookup", keys, info, ninfo, cbdata)))
        return PMIX_ERR_NOMEM;
    c->found = cb;
    return post(c);
}

pmix_status_t pmixd_names_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                    size_t ninfo, pmix_op_cbfunc_t cb, void *cbdata)
{
    struct names_call *c;

    /* Without keys: all keys of this task.  But a key is recorded with its job, not its task. */
    if (!keys || !keys[0])
        return PMIX_ERR_NOT_SUPPORTED;
    if (!(c = keys_call("unpublish", keys, info, ninfo, cbdata)))
        return PMIX_ERR_NOMEM;
    c->wait = false;
    c->done = cb;
    return post(c);
}
