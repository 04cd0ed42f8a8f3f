/* causes.c - the causes of the deaths of writers, as far as the session knows them.
 *
 * Purpose: a writer that is a task of a job names the job and the task when it joins.  When it
 * dies, its readers are notified at once, and the module `wrexec` of the rank of the task is asked
 * how the task ended (wrexec.end), which it knows as soon as the task has, while others of the job
 * run.  The readers are then notified again, with the cause, or with the text "has died" if no
 * cause is known.  The stream keeps the last cause for lists, until another writer joins.
 *
 *    response                            cause
 *    the wait status of the task         "ended by signal 9", "ended with exit code 3"
 *    the rank is lost (EHOSTUNREACH)     "was lost with the broker of rank 2"
 *    any other error, or none in time    "has died"
 *
 * The task may be the parent of the writer, and outlive it for a moment, or for long.
 *
 * Invariants:
 *  1. Readers whose notice said that a cause may follow (`more`) are notified a second time, unless
 *     the stream ends first.
 *  2. At most CAUSES_MAX requests are open, each for at most CAUSE_SECONDS.
 *
 * Failure: a request or response that is lost with a broker on its way is sent again when the tree
 * has healed; CAUSE_SECONDS include a broker that is silent until it counts as lost.  Tasks that a
 * job has spawned count from 0, too: the end of one is that of the job's task of this number, if it
 * runs or has run on the same rank, and else not known.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "libexec/wrexec_wire.h"
#include "registry.h"

#define CAUSES_MAX 1024
#define CAUSE_SECONDS 10.
#define CAUSE_LEN 80

struct cause {
    struct list_node node; /* in stream.causes */
    struct stream *s;
    flux_future_t *f;
    struct left *left; /* the second notice */
    uint64_t first;    /* first number of the writer in the feed */
    uint64_t job;
    uint32_t node_rank; /* rank of the broker of the writer */
};

static void cause_free(struct cause *c)
{
    list_remove(&c->node);
    c->s->ctx->ncauses--;
    flux_future_destroy(c->f);
    free(c->left);
    free(c);
}

void causes_set(struct stream *s, const char *text)
{
    char *copy = text ? strdup(text) : NULL;

    free(s->cause);
    s->cause = copy;
}

/* Notify the readers of the cause. */
static void cause_notify(struct cause *c, const char *end)
{
    struct left *left = c->left;
    struct stream *s = c->s;
    char text[CAUSE_LEN + 60];

    snprintf(text, sizeof(text), "rank %" PRIu32 " of writer job %" PRIu64 " %s", left->rank,
             c->job, end);
    left->text = strdup(text);
    left->why = "has died";
    if (s->cause) /* no writer has joined since */
        causes_set(s, text);
    c->left = NULL;
    s->ctx->left++;
    feed_record_add(&s->members, &left->record, c->first);
    cause_free(c);
    registry_changed(s);
}

static void task_ended(flux_future_t *f, void *arg)
{
    struct cause *c = arg;
    char text[CAUSE_LEN] = "has died";
    struct wrexec_end end;

    if (flux_rpc_get_struct(f, &wrexec_end_schema, &end, NULL) < 0) {
        if (flux_future_errnum(f) == EHOSTUNREACH)
            snprintf(text, sizeof(text), "was lost with the broker of rank %u", c->node_rank);
    } else if (WIFSIGNALED(end.status)) {
        snprintf(text, sizeof(text), "ended by signal %d", WTERMSIG(end.status));
    } else {
        snprintf(text, sizeof(text), "ended with exit code %d", WEXITSTATUS(end.status));
    }
    cause_notify(c, text);
}

bool causes_ask(const struct writer *w)
{
    struct ctx *ctx = w->s->ctx;
    const struct wrexec_task task = {w->job, w->task};
    struct cause *c;

    if (!w->task_of || ctx->ncauses >= CAUSES_MAX || !(c = calloc(1, sizeof(*c))))
        return false;
    c->s = w->s;
    c->first = w->member.first;
    c->job = w->job;
    c->node_rank = claim_sender_rank(w->away.req);
    if (c->node_rank == UINT32_MAX)
        c->node_rank = flux_rank(ctx->h);
    list_append(&w->s->causes, &c->node);
    ctx->ncauses++;
    if (!(c->left = registry_left_create(ctx, w->id, w->at.rank)) ||
        !(c->f = flux_rpc_struct(ctx->h, "wrexec.end", &wrexec_task_schema, &task, c->node_rank,
                                 FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT)) ||
        flux_future_then(c->f, CAUSE_SECONDS, task_ended, c) < 0) {
        cause_free(c);
        return false;
    }
    return true;
}

void causes_drop(struct stream *s)
{
    LIST_FOREACH_SAFE(it, tmp, &s->causes)
    {
        cause_free(list_entry(it, struct cause, node));
    }
    causes_set(s, NULL);
}
