/* PMI barriers across nodes, over the key-value store.
 *
 * The pairs that the tasks of a node put since the last barrier are one value:
 *
 *    job.ID.pmi.NUM.NODE      NUM: number of the barrier in the job, from 0
 *
 * put by the node's fence "wrexec.ID.NUM", which all nodes of the job take part in.  The store
 * merges it on the way up and makes one root change of it; then each node reads the directory
 * job.ID.pmi.NUM once, with values, and hands the whole set to its launcher, which answers all its
 * tasks from it. So P tasks cost the session one fence, and one directory read a node, never P
 * times P look-ups.
 *
 * A job on one node does not wait for the store: its pairs are committed for the record.
 *
 * Failure: the tasks are told that the barrier failed, with the store's sentence, and the job
 * fails.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "libutil/buf.h"

struct fence {
    struct list_node node;
    struct job *job;
    uint32_t num;
    flux_future_t *f; /* the fence, then the read */
};

static void fence_free(struct fence *fe)
{
    list_remove(&fe->node);
    flux_future_destroy(fe->f);
    free(fe);
}

void job_fences_free(struct job *j)
{
    struct list_node *n;

    while ((n = list_first(&j->fences)))
        fence_free(list_entry(n, struct fence, node));
}

static void fence_done(struct fence *fe, int rc, const void *data, size_t len)
{
    struct job *j = fe->job;
    int32_t code = rc;

    exec_send(j->ctx->exec, WIRE_PMI_DONE, j->id, &code, sizeof(code), data, len);
    fence_free(fe);
}

static void fence_failed(struct fence *fe, const char *what, const char *why)
{
    struct job *j = fe->job;
    char text[400];

    snprintf(text, sizeof(text), "PMI barrier %u %s: %s (rank %u)", fe->num, what, why,
             j->ctx->rank);
    fence_done(fe, -1, text, strlen(text));
    job_fail(j, 1, text);
}

static void read_cb(flux_future_t *f, void *arg)
{
    struct fence *fe = arg;
    struct flux_kvs_dirent e;
    buf_t *all = NULL;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    /* No pairs anywhere, no directory. */
    if (flux_future_errnum(f) == ENOENT) {
        fence_done(fe, 0, NULL, 0);
        return;
    }
    all = buf_create(0);
    while ((rc = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1)
        if (!all || !e.data || buf_append(all, e.data, e.size) < 0)
            break;
    if (rc == 0)
        fence_done(fe, 0, buf_data(all), buf_len(all));
    else
        fence_failed(fe, "could not be read", rc < 0 ? err.text : "out of memory");
    buf_destroy(all);
}

static void fence_cb(flux_future_t *f, void *arg)
{
    struct fence *fe = arg;
    struct job *j = fe->job;
    char key[96];
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0) {
        fence_failed(fe, "failed", err.text);
        return;
    }
    flux_future_destroy(f);
    snprintf(key, sizeof(key), "job.%" PRIu64 ".pmi.%u", j->id, fe->num);
    fe->f = flux_kvs_readdir(j->ctx->h, NULL, key, FLUX_KVS_VALUES, NULL);
    if (!fe->f || flux_future_then(fe->f, -1., read_cb, fe) < 0)
        fence_failed(fe, "could not be read", strerror(errno));
}

static void note_cb(flux_future_t *f, void *arg)
{
    struct job *j = arg;
    errmsg_t err;

    if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
        flux_log(j->ctx->h, LOG_WARNING, "job %" PRIu64 ": PMI pairs are not on record: %s", j->id,
                 err.text);
    flux_future_destroy(f);
    j->commits--;
    job_check(j);
}

static flux_kvs_txn_t *pairs_txn(struct job *j, uint32_t num, const void *blob, size_t len,
                                 errmsg_t *err)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    char key[96];

    snprintf(key, sizeof(key), "job.%" PRIu64 ".pmi.%u.%u", j->id, num, j->node);
    if (!txn)
        errmsg_fail(err, ENOMEM, "out of memory");
    else if (len == 0 || flux_kvs_txn_put_raw(txn, key, blob, len, err) == 0)
        return txn;
    flux_kvs_txn_destroy(txn);
    return NULL;
}

void job_fence(struct job *j, uint32_t num, const void *blob, size_t len, bool note)
{
    errmsg_t err = {"out of memory"};
    flux_kvs_txn_t *txn = pairs_txn(j, num, blob, len, &err);
    struct fence *fe;
    flux_future_t *f;
    char name[96];

    if (note) {
        f = txn ? flux_kvs_commit(j->ctx->h, NULL, txn) : NULL;
        if (f && flux_future_then(f, -1., note_cb, j) == 0)
            j->commits++;
        else
            flux_future_destroy(f);
        flux_kvs_txn_destroy(txn);
        return;
    }
    if (!(fe = calloc(1, sizeof(*fe)))) {
        flux_kvs_txn_destroy(txn);
        job_fail(j, 1, "out of memory for a PMI barrier");
        return;
    }
    fe->job = j;
    fe->num = num;
    list_append(&j->fences, &fe->node);
    snprintf(name, sizeof(name), "wrexec.%" PRIu64 ".%u", j->id, num);
    if (txn)
        fe->f = flux_kvs_fence(j->ctx->h, NULL, name, j->nnodes, txn);
    flux_kvs_txn_destroy(txn);
    if (!fe->f || flux_future_then(fe->f, -1., fence_cb, fe) < 0)
        fence_failed(fe, "could not be entered", err.text);
}
