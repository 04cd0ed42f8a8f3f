/* pmixd_modex.c - direct modex: the data of a task of another node, fetched on demand.
 *
 * Format: each server has a mailbox in the job's namespace, a directory that it watches.  NODE and
 * FROM are seats (pmixd_family.c), so the servers of all groups can be reached.  Numbers are
 * little-endian.
 *
 *    m.NODE.q-FROM-NUM    a request of server FROM: u32 number of the task
 *    m.NODE.r-NUM         the answer to the server's request NUM: i32 status of the library, bytes
 *
 * One transaction puts the answer and removes the request; the server that asked removes the
 * answer.  The library keeps the data that it has received, so each rank is requested once per
 * node, unless the library repeats the request.
 *
 * The library answers a request when the task has put its data, which may take long.  A time limit
 * of the requesting task (PMIX_TIMEOUT) is enforced here.
 *
 * Failure: a request that the library cannot answer is answered with the library's status.  An
 * unreadable mailbox fails the job.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"
#include "pmixd_wire.h"

/* --- asking --- */

struct modex_call {
    struct call call;
    pmix_nspace_t nspace;
    pmix_rank_t rank;
    int timeout; /* seconds, 0: none */
    pmix_modex_cbfunc_t cb;
    void *cbdata;
};

struct asked {
    struct pmixd *pd;
    uint64_t num;
    uint32_t rank;
    struct waiting wait;
    flux_watcher_t *timer;
    pmix_modex_cbfunc_t cb;
    void *cbdata;
};

static void release(void *arg)
{
    free(arg);
}

static void asked_over(struct asked *a, pmix_status_t status, const void *data, size_t len)
{
    char *copy = status == PMIX_SUCCESS ? malloc(len + 1) : NULL;

    hmap_take_u64(a->pd->modex, a->num);
    if (copy) {
        memcpy(copy, data, len);
        a->cb(PMIX_SUCCESS, copy, len, a->cbdata, release, copy);
    } else {
        a->cb(status == PMIX_SUCCESS ? PMIX_ERR_NOMEM : status, NULL, 0, a->cbdata, NULL, NULL);
    }
    flux_watcher_destroy(a->timer);
    list_remove(&a->wait.node);
    free(a);
}

static void timeout_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    asked_over(arg, PMIX_ERR_TIMEOUT, NULL, 0);
}

static void ask(void *arg)
{
    struct asked *a = arg;
    struct pmixd *pd = a->pd;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    char key[BOX_KEY_MAX];
    uint8_t value[4];

    snprintf(key, sizeof(key), "m.%u.q-%u-%" PRIu64, pmixd_family_seat_of(pd, a->rank), pd->seat,
             a->num);
    le_put32(value, a->rank);
    if (!txn || flux_kvs_txn_put_raw(txn, key, value, sizeof(value), NULL) < 0)
        asked_over(a, PMIX_ERR_NOMEM, NULL, 0);
    else
        pmixd_exchange_commit(pd, txn, "a request to another node");
    flux_kvs_txn_destroy(txn);
}

static void modex_run(struct pmixd *pd, struct call *call)
{
    struct modex_call *c = (struct modex_call *)(void *)call;
    const struct pmixd *g = pmixd_family_group_of_nspace(pd, c->nspace);
    struct asked *a;

    if (!g || c->rank >= g->ntasks) {
        c->cb(PMIX_ERR_NOT_FOUND, NULL, 0, c->cbdata, NULL, NULL);
        free(c);
        return;
    }
    if ((a = calloc(1, sizeof(*a))))
        *a = (struct asked){.pd = pd, .rank = g->first + c->rank, .cb = c->cb, .cbdata = c->cbdata};
    if (a && c->timeout > 0)
        a->timer = flux_timer_create(pd->r, timeout_cb, a);
    if (!a || (c->timeout > 0 && !a->timer) ||
        hmap_put_u64(pd->modex, a->num = ++pd->modex_seq, a) < 0) {
        c->cb(PMIX_ERR_NOMEM, NULL, 0, c->cbdata, NULL, NULL);
        free(a);
    } else {
        list_init(&a->wait.node);
        a->wait.go = ask;
        a->wait.arg = a;
        if (a->timer)
            flux_timer_start(a->timer, c->timeout, 0.);
        pmixd_exchange_when_ready(pd, &a->wait);
    }
    free(c);
}

pmix_status_t pmixd_modex_direct(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                 pmix_modex_cbfunc_t cb, void *cbdata)
{
    struct pmixd *pd = pmixd_self();
    struct modex_call *c;

    if (!(c = calloc(1, sizeof(*c))))
        return PMIX_ERR_NOMEM;
    *c = (struct modex_call){
        .call = {.run = modex_run}, .rank = proc->rank, .cb = cb, .cbdata = cbdata};
    PMIX_LOAD_NSPACE(c->nspace, proc->nspace);
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_TIMEOUT) && info[i].value.type == PMIX_INT)
            c->timeout = info[i].value.data.integer;
    pmixd_post(pd, &c->call);
    return PMIX_SUCCESS;
}

/* --- answering --- */

struct answer {
    struct call call;
    struct box_name from;
    pmix_status_t status;
    char *data; /* malloc'd */
    size_t len;
};

static void answer_run(struct pmixd *pd, struct call *call)
{
    struct answer *a = (struct answer *)(void *)call;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    char key[BOX_KEY_MAX];
    uint8_t *value = malloc(4 + a->len);
    bool bad = !txn || !value;

    if (!bad) {
        le_put32(value, (uint32_t)a->status);
        if (a->len)
            memcpy(value + 4, a->data, a->len);
        snprintf(key, sizeof(key), "m.%u.r-%" PRIu64, a->from.node, a->from.num);
        bad |= flux_kvs_txn_put_raw(txn, key, value, 4 + a->len, NULL) < 0;
        snprintf(key, sizeof(key), "m.%u.q-%u-%" PRIu64, pd->seat, a->from.node, a->from.num);
        bad |= flux_kvs_txn_unlink(txn, key, 0, NULL) < 0;
    }
    pmixd_exchange_commit(pd, bad ? NULL : txn, "an answer to another node");
    flux_kvs_txn_destroy(txn);
    free(value);
    free(a->data);
    free(a);
}

/* In the library's thread. */
static void response(pmix_status_t status, char *data, size_t size, void *cbdata)
{
    struct answer *a = cbdata;

    a->status = status;
    if (status == PMIX_SUCCESS && size > 0) {
        a->data = malloc(size);
        a->len = a->data ? size : 0;
        if (a->data)
            memcpy(a->data, data, size);
        else
            a->status = PMIX_ERR_NOMEM;
    }
    pmixd_post(pmixd_self(), &a->call);
}

static void request(struct pmixd *pd, const struct box_name *name, const void *data, size_t len)
{
    struct answer *a = calloc(1, sizeof(*a));
    pmix_status_t rc = PMIX_ERR_NOT_FOUND;
    pmix_proc_t p;

    if (!a) {
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no memory for an answer to another node");
        return;
    }
    a->call.run = answer_run;
    a->from = *name;
    if (len == 4 && pmixd_family_group_of(pd, le_get32(data)) == pd) {
        PMIX_LOAD_PROCID(&p, pd->nspace, le_get32(data) - pd->first);
        rc = PMIx_server_dmodex_request(&p, response, a);
    }
    if (rc == PMIX_SUCCESS)
        return;
    a->status = rc;
    answer_run(pd, &a->call);
}

static void answered(struct pmixd *pd, const struct box_name *name, const void *data, size_t len)
{
    struct asked *a = hmap_get_u64(pd->modex, name->num);
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    char key[BOX_KEY_MAX];

    snprintf(key, sizeof(key), "m.%u.r-%" PRIu64, pd->seat, name->num);
    if (txn && flux_kvs_txn_unlink(txn, key, 0, NULL) == 0)
        pmixd_exchange_commit(pd, txn, "the end of a request");
    flux_kvs_txn_destroy(txn);
    if (!a)
        return; /* its time limit has passed */
    if (len < 4)
        asked_over(a, PMIX_ERROR, NULL, 0);
    else
        asked_over(a, (pmix_status_t)le_get32(data), (const uint8_t *)data + 4, len - 4);
}

/* --- the mailbox --- */

static void box_cb(flux_future_t *f, void *arg)
{
    struct pmixd *pd = arg;
    struct flux_kvs_change c;
    struct box_name name;
    size_t pos = 0;
    errmsg_t err;
    int rc = 0;

    if (!flux_kvs_watch_absent(f))
        while ((rc = flux_kvs_change_next(f, &pos, &c, &err)) == 1) {
            if (c.change == FLUX_KVS_REMOVED || c.type != FLUX_KVS_VALUE || !c.data ||
                pmixd_wire_box_name_parse(c.key, &name) < 0)
                continue;
            if (name.answer)
                answered(pd, &name, c.data, c.size);
            else
                request(pd, &name, c.data, c.size);
        }
    if (rc < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server cannot hear other nodes: %s", err.text);
    else
        flux_future_next(f);
}

static void box_open(void *arg)
{
    struct pmixd *pd = arg;
    char key[BOX_KEY_MAX];

    snprintf(key, sizeof(key), "m.%u", pd->seat);
    pd->box = flux_kvs_watch(pd->h, pd->ns, key, FLUX_KVS_VALUES | FLUX_KVS_WATCH_DIFF);
    if (!pd->box || flux_future_then(pd->box, -1., box_cb, pd) < 0)
        pmixd_nodes_fail(pd, 1, -1, "the PMIx server has no memory for its mailbox");
}

void pmixd_modex_init(struct pmixd *pd)
{
    if (pd->box_asked)
        return;
    pd->box_asked = true;
    pd->open_box = (struct waiting){.go = box_open, .arg = pd};
    list_init(&pd->open_box.node);
    pmixd_exchange_when_ready(pd, &pd->open_box);
}
