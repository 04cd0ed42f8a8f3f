/* coord_output.c - the output of jobs in the key-value store.
 *
 * Format: the value job.ID.output grows by records.  A record is a line "TASK STREAM LENGTH"
 * (STREAM is 1 for stdout, 2 for stderr), followed by LENGTH bytes.
 *
 * Invariants:
 *  1. One commit, for all jobs, is under way at a time.  Output that arrives during the commit goes
 *     into the next one.
 *  2. When more than HELD bytes wait, no further output is accepted.  The tasks concerned are
 *     blocked until the commit is over; then their jobs offer the output again
 *     (subjob_flow_flush()).
 *  3. The output of a job, including the heads of records, does not exceed the limit of the job.
 *     Output beyond the limit is lost: a "raise" reports the first loss, and the end of the job the
 *     number of lost bytes.
 *  4. The end of a job is reported only when its output is in the store.
 *  5. After a reload the next instance waits for the commit that is under way.
 *
 * Failure: the output in a failed commit is lost and reported as such.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD (4u << 20)
#define LIMIT (64ull << 20)

struct coord_output {
    struct coord *coord;
    uint64_t limit;
    size_t held;
    struct list_node dirty;     /* jobs with output to be committed */
    struct list_node waiting;   /* jobs whose output was not accepted */
    struct list_node committed; /* jobs with output in the present commit */
    flux_future_t *commit;
    flux_watcher_t *flusher;
};

static void lost(struct coord_output *o, struct coord_job *rj, uint64_t bytes, const char *why)
{
    char text[300];

    if (!rj->lost) {
        snprintf(text, sizeof(text), "output is lost from here on: %s", why);
        coord_tell_raise(o->coord, rj->j->id, "output", 1, text);
    }
    rj->lost += bytes;
}

/* End a commit; `why`: reason of its failure, or NULL.  Output that has arrived during the commit
 * goes into the next one. */
static void committed(struct coord_output *o, const char *why)
{
    struct list_node *n, over, again;

    list_init(&over);
    list_init(&again);
    while ((n = list_first(&o->committed))) {
        list_remove(n);
        list_append(&over, n);
    }
    while ((n = list_first(&over))) {
        struct coord_job *rj = list_entry(n, struct coord_job, dirty);

        list_remove(n);
        rj->committing = false;
        if (why)
            lost(o, rj, rj->sent, why);
        rj->sent = 0;
        if (rj->outbuf && buf_len(rj->outbuf) > 0)
            list_append(&o->dirty, &rj->dirty);
        else if (coord_job_over(rj))
            coord_job_finished(rj->j);
    }
    if (!list_empty(&o->dirty))
        flux_watcher_start(o->flusher);
    /* A job that finds no room again goes to the end of the queue. */
    while ((n = list_first(&o->waiting))) {
        list_remove(n);
        list_append(&again, n);
    }
    while ((n = list_first(&again))) {
        list_remove(n);
        subjob_flow_flush(list_entry(n, struct coord_job, waiting)->j);
    }
}

static void commit_cb(flux_future_t *f, void *arg)
{
    struct coord_output *o = arg;
    errmsg_t err;
    bool ok = (flux_kvs_commit_get(f, NULL, NULL, &err) == 0);

    flux_future_destroy(f);
    o->commit = NULL;
    committed(o, ok ? NULL : err.text);
}

static void flusher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct coord_output *o = arg;
    flux_kvs_txn_t *txn;
    struct list_node *n;
    char key[64];

    if (o->commit || list_empty(&o->dirty))
        return;
    txn = flux_kvs_txn_create();
    while ((n = list_first(&o->dirty))) {
        struct coord_job *rj = list_entry(n, struct coord_job, dirty);
        size_t len = buf_len(rj->outbuf);

        list_remove(n);
        list_append(&o->committed, n);
        rj->committing = true;
        rj->sent = len;
        snprintf(key, sizeof(key), "job.%" PRIu64 ".output", rj->j->id);
        if (!txn || flux_kvs_txn_append(txn, key, buf_data(rj->outbuf), len, NULL) < 0) {
            lost(o, rj, len, "out of memory");
            rj->sent = 0;
        }
        o->held -= len;
        buf_consume(rj->outbuf, len);
    }
    o->commit = txn ? flux_kvs_commit(o->coord->ctx->h, NULL, txn) : NULL;
    flux_kvs_txn_destroy(txn);
    if (o->commit && flux_future_then(o->commit, -1., commit_cb, o) == 0)
        return;
    flux_future_destroy(o->commit);
    o->commit = NULL;
    flux_log(o->coord->ctx->h, LOG_ERR, "no memory to keep output of jobs");
    committed(o, "out of memory");
}

bool coord_output_put(struct coord_output *o, struct coord_job *rj, const void *data, size_t len)
{
    uint64_t cap = rj->cap ? rj->cap - 1 : o->limit;
    struct wire_record rec;

    if (o->held > HELD) {
        if (list_empty(&rj->waiting))
            list_append(&o->waiting, &rj->waiting);
        return false;
    }
    if (!rj->outbuf && !(rj->outbuf = buf_create(0))) {
        lost(o, rj, len, "out of memory");
        return true;
    }
    while (exec_wire_record_next(&data, &len, &rec) == 1) {
        char head[48], *p;
        int n = snprintf(head, sizeof(head), "%u %u %u\n", rec.task, rec.stream, rec.len);

        if (rj->lost || rj->kept + (size_t)n + rec.len > cap) {
            char why[96];

            snprintf(why, sizeof(why), "its limit of %" PRIu64 " bytes is reached", cap);
            lost(o, rj, rec.len, why);
            continue;
        }
        if (!(p = buf_reserve(rj->outbuf, (size_t)n + rec.len))) {
            lost(o, rj, rec.len, "out of memory");
            continue;
        }
        memcpy(p, head, (size_t)n);
        if (rec.len)
            memcpy(p + n, rec.data, rec.len);
        buf_commit(rj->outbuf, (size_t)n + rec.len);
        rj->kept += (size_t)n + rec.len;
        o->held += (size_t)n + rec.len;
    }
    if (buf_len(rj->outbuf) > 0 && !rj->committing && list_empty(&rj->dirty)) {
        list_append(&o->dirty, &rj->dirty);
        if (!o->commit)
            flux_watcher_start(o->flusher);
    }
    return true;
}

bool coord_output_settled(struct coord_output *o, struct coord_job *rj)
{
    return !rj->committing && list_empty(&rj->dirty);
}

void coord_output_forget(struct coord_output *o, struct coord_job *rj)
{
    list_remove(&rj->dirty);
    list_remove(&rj->waiting);
    if (rj->outbuf)
        o->held -= buf_len(rj->outbuf);
}

void coord_output_set_limit(struct coord_output *o, uint64_t bytes)
{
    o->limit = bytes ? bytes : LIMIT;
}

struct coord_output *coord_output_create(struct coord *r)
{
    struct coord_output *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    o->coord = r;
    o->limit = LIMIT;
    list_init(&o->dirty);
    list_init(&o->waiting);
    list_init(&o->committed);
    if (!(o->flusher = flux_defer_create(flux_get_reactor(r->ctx->h), flusher_cb, o))) {
        free(o);
        return NULL;
    }
    return o;
}

void coord_output_destroy(struct coord_output *o)
{
    if (!o)
        return;
    flux_future_destroy(o->commit);
    flux_watcher_destroy(o->flusher);
    free(o);
}

/* --- reload --- */

void coord_output_save(const struct coord_output *o, flux_handover_t *ho)
{
    flux_handover_put_mark(ho, "output");
    flux_handover_put(ho, o->limit);
    flux_handover_put(ho, o->commit != NULL);
    flux_handover_put(ho, o->commit ? flux_rpc_tag(o->commit) : 0);
}

void coord_output_load(struct coord_output *o, flux_handover_t *ho)
{
    bool commit;
    uint32_t tag;

    flux_handover_get_mark(ho, "output");
    o->limit = flux_handover_get(ho, UINT64_MAX);
    commit = flux_handover_get(ho, 1);
    tag = (uint32_t)flux_handover_get(ho, UINT32_MAX);
    if (!commit)
        return;
    o->commit = flux_rpc_resume(o->coord->ctx->h, "", 0, 0, tag);
    if (!o->commit || flux_future_then(o->commit, -1., commit_cb, o) < 0)
        flux_handover_fail(ho, ENOMEM);
}

void coord_output_take_up(struct coord_output *o, struct coord_job *rj)
{
    size_t len = rj->outbuf ? buf_len(rj->outbuf) : 0;

    o->held += len;
    if (rj->committing)
        list_append(&o->committed, &rj->dirty);
    else if (len > 0)
        list_append(&o->dirty, &rj->dirty);
    if (len > 0 && !o->commit)
        flux_watcher_start(o->flusher);
}
