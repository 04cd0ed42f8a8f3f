/* ends.c - how the tasks of this rank ended, for whoever asks.
 *
 * Purpose: the record of a job says how its tasks ended, but only when all of them have, and names
 * few of them.  The module `stream` needs the end of one task while the others run: its readers are
 * told why a writer has died.  It asks the rank of the task (wrexec.end):
 *
 *    the task                              the request
 *    belongs to a job that runs here       waits, and the launcher is asked (ASK_END); answered by
 *                                          its END, or by the DONE of the job (ends_past)
 *    belonged to one that has ended here   is answered at once, by one of the last PAST_MAX ends
 *    is not known                          fails with ENOENT
 *
 * So a job of which nobody asks costs one entry of `past` at its end, and no message.
 *
 * Invariants:
 *  1. A request waits in the list `asked` of its job only while the tasks of the job run here.
 *  2. `past` is a ring: `next` is the place of the next entry.  An entry with the job 0 is free.
 *
 * Failure: a request that cannot be kept, or that the launcher cannot be sent, fails.  One that has
 * lost its way is dropped; the brokers send it again when there is another way, and the launcher is
 * then asked again.  If the launcher dies, all tasks here end with it, by SIGKILL.
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libservice/claim.h"

#define PAST_MAX 512 /* a power of 2 */

struct past {
    uint64_t id;
    uint32_t lo, hi; /* tasks of the job */
    int status;
};

struct ends {
    struct ctx *ctx;
    struct claims *claims; /* of struct wait */
    struct past past[PAST_MAX];
    uint32_t next;
};

struct wait {
    struct list_node node; /* in subjob.asked */
    struct claim claim;
    ends_t *ends;
    flux_msg_t *req;
    uint32_t task;
};

static void wait_free(struct wait *w)
{
    list_remove(&w->node);
    claim_drop(w->ends->claims, &w->claim);
    flux_msg_destroy(w->req);
    free(w);
}

static void wait_gone(struct claim *c, bool canceled)
{
    struct wait *w = list_entry(c, struct wait, claim);

    flux_respond_error(w->ends->ctx->h, w->req, ENODATA, "the request %s",
                       claim_gone_why(canceled));
    wait_free(w);
}

/* -1 with ENOMEM. */
static int wait_create(struct subjob *j, const flux_msg_t *req, uint32_t task)
{
    struct wait *w = calloc(1, sizeof(*w));

    if (!w)
        return -1;
    w->ends = j->ctx->ends;
    w->task = task;
    w->req = flux_msg_incref(req);
    list_append(&j->asked, &w->node);
    if (claim_take(w->ends->claims, &w->claim, req, wait_gone) == 0)
        return 0;
    wait_free(w);
    errno = ENOMEM;
    return -1;
}

static void respond(const ends_t *e, const flux_msg_t *req, int status)
{
    const struct wrexec_end out = {status};

    flux_respond_struct(e->ctx->h, req, &wrexec_end_schema, &out);
}

/* Answer those who wait for the tasks lo..hi. */
static void answer(struct subjob *j, int status, uint32_t lo, uint32_t hi)
{
    LIST_FOREACH_SAFE(it, tmp, &j->asked)
    {
        struct wait *w = list_entry(it, struct wait, node);

        if (w->task < lo || w->task > hi)
            continue;
        respond(w->ends, w->req, status);
        wait_free(w);
    }
}

void ends_frame(struct subjob *j, const struct wire_frame *f)
{
    uint32_t i = exec_wire_u32(f->payload);

    if (i < j->count) {
        uint32_t task = exec_layout_task(j->spec->layout, j->node, i);

        answer(j, exec_wire_i32(f->payload + 4), task, task);
    }
}

void ends_past(struct subjob *j, int status, uint32_t lo, uint32_t hi)
{
    ends_t *e = j->ctx->ends;

    e->past[e->next++ % PAST_MAX] = (struct past){j->id, lo, hi, status};
    answer(j, status, lo, hi);
}

/* Of a job that ran here several times, the last end. */
static const struct past *find_past(const ends_t *e, uint64_t id, uint32_t task)
{
    for (uint32_t i = 1; i <= PAST_MAX; i++) {
        const struct past *p = &e->past[(e->next - i) % PAST_MAX];

        if (p->id && p->id == id && p->lo <= task && task <= p->hi)
            return p;
    }
    return NULL;
}

/* Ask the launcher, and wait. */
static void ask(struct subjob *j, const flux_msg_t *req, uint32_t task, uint32_t local)
{
    struct ctx *ctx = j->ctx;

    if (launchlink_try_send(ctx->exec, WIRE_ASK_END, j->id, &local, sizeof(local), NULL, 0) < 0 ||
        wait_create(j, req, task) < 0)
        flux_respond_error(ctx->h, req, errno, "rank %u cannot find out how task %u ended: %s",
                           ctx->rank, task, strerror(errno));
}

void ends_request(ends_t *e, const flux_msg_t *req)
{
    struct ctx *ctx = e->ctx;
    struct wrexec_task in;
    const struct past *p;
    struct subjob *j;
    uint32_t local;
    json_t *owner;

    if (flux_request_decode(ctx->h, req, &wrexec_task_schema, &in, &owner) < 0)
        return;
    json_decref(owner);
    j = hmap_get_u64(ctx->jobs, in.id);
    if (j && !j->local_done && in.task < exec_layout_ntasks(j->spec->layout) &&
        exec_layout_node(j->spec->layout, in.task, &local) == j->node)
        ask(j, req, in.task, local);
    else if ((p = find_past(e, in.id, in.task)))
        respond(e, req, p->status);
    else
        flux_respond_error(ctx->h, req, ENOENT,
                           "rank %u does not know how task %u of job %" PRIu64 " ended", ctx->rank,
                           in.task, in.id);
}

void ends_gone(ends_t *e, const flux_msg_t *msg, uint32_t matchtag)
{
    if (matchtag)
        claims_cancel(e->claims, msg, matchtag);
    else
        claims_disconnect(e->claims, msg);
}

void ends_job_free(struct subjob *j)
{
    struct list_node *n;

    while ((n = list_first(&j->asked))) {
        struct wait *w = list_entry(n, struct wait, node);

        flux_respond_error(j->ctx->h, w->req, ECANCELED,
                           "the wrexec module was unloaded meanwhile");
        wait_free(w);
    }
}

/* --- start, end, reload --- */

ends_t *ends_create(struct ctx *ctx)
{
    ends_t *e = calloc(1, sizeof(*e));

    if (!e || !(e->claims = claims_create())) {
        free(e);
        errno = ENOMEM;
        return NULL;
    }
    e->ctx = ctx;
    return e;
}

void ends_destroy(ends_t *e)
{
    if (!e)
        return;
    claims_destroy(e->claims);
    free(e);
}

/* The launcher was asked already. */
void ends_job_save(const struct subjob *j, flux_handover_t *o)
{
    LIST_FOREACH(it, &j->asked)
    {
        const struct wait *w = list_entry(it, struct wait, node);

        flux_handover_put_msg(o, w->req);
        flux_handover_put(o, w->task);
    }
    flux_handover_put_msg(o, NULL);
}

void ends_job_load(struct subjob *j, flux_handover_t *o)
{
    flux_msg_t *req;

    while ((req = flux_handover_get_msg(o))) {
        if (wait_create(j, req, (uint32_t)flux_handover_get(o, UINT32_MAX)) < 0)
            flux_handover_fail(o, ENOMEM);
        flux_msg_destroy(req);
    }
}

void ends_save(const ends_t *e, flux_handover_t *o)
{
    flux_handover_put_mark(o, "ends");
    for (uint32_t i = 0; i < PAST_MAX; i++) {
        const struct past *p = &e->past[(e->next + i) % PAST_MAX];

        if (!p->id)
            continue;
        flux_handover_put(o, p->id);
        flux_handover_put(o, p->lo);
        flux_handover_put(o, p->hi);
        flux_handover_put(o, (uint32_t)p->status);
    }
    flux_handover_put(o, 0);
}

void ends_load(ends_t *e, flux_handover_t *o)
{
    uint64_t id;

    flux_handover_get_mark(o, "ends");
    while ((id = flux_handover_get(o, UINT64_MAX))) {
        struct past *p = &e->past[e->next++ % PAST_MAX];

        p->id = id;
        p->lo = (uint32_t)flux_handover_get(o, UINT32_MAX);
        p->hi = (uint32_t)flux_handover_get(o, UINT32_MAX);
        p->status = (int)flux_handover_get(o, UINT32_MAX);
    }
}
