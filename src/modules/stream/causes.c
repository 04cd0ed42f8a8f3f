/* causes.c - the causes of the deaths of writers, as far as the session knows them.
 *
 * Purpose: a writer that is a task of a job names the job and the task when it joins.  When it
 * dies, its readers are notified at once, and a request to the module `job` (job.wait) asks how the
 * job has ended; the response follows when all tasks of the job have ended and are on record.  The
 * readers are then notified again, with the cause, or with the text "has died" if no cause is
 * known.  The stream keeps the last cause for lists.
 *
 * Invariants:
 *  1. Readers whose notice said that a cause may follow (`more`) are notified a second time, unless
 *     the stream ends first.
 *  2. At most CAUSES_MAX requests are open, each for at most CAUSE_SECONDS.
 *
 * Failure: the cause is "has died" in a session without jobs, and for a job that has not ended in
 * time.  For a task that is not on record as failed, it is "has died" and the text of the end of
 * the job, if there is one.
 */
#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "libjob/job.h"
#include "registry.h"

#define CAUSES_MAX 1024
#define CAUSE_SECONDS 1.5
#define CAUSE_LEN 200

struct cause {
    struct list_node node; /* in stream.causes */
    struct stream *s;
    flux_future_t *f;
    struct left *left; /* the second notice */
    uint64_t first;    /* first number of the writer in the feed */
    uint64_t job;
    uint32_t task;
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

/* Write how the task has ended, such as "ended by signal 9".  Returns false if that is not on
 * record. */
static bool task_end(const struct cause *c, const struct job_ended *e, char text[CAUSE_LEN])
{
    struct job_failed f;

    for (size_t i = 0; job_failed_at(e->failed, i, &f) == 0; i++) {
        if (f.task != c->task || f.rank != c->node_rank)
            continue;
        if (WIFSIGNALED(f.status))
            snprintf(text, CAUSE_LEN, "ended by signal %d", WTERMSIG(f.status));
        else
            snprintf(text, CAUSE_LEN, "ended with exit code %d", WEXITSTATUS(f.status));
        return true;
    }
    if (e->text && *e->text)
        snprintf(text, CAUSE_LEN, "has died: %.150s", e->text);
    return e->text && *e->text;
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
    causes_set(s, text);
    c->left = NULL;
    s->ctx->left++;
    feed_record_add(&s->members, &left->record, c->first);
    cause_free(c);
    registry_changed(s);
}

static void job_ended(flux_future_t *f, void *arg)
{
    struct cause *c = arg;
    char text[CAUSE_LEN];
    struct job_ended e;
    const json_t *ended;

    if (flux_job_wait_get(f, &ended, NULL) == 0 && flux_job_wait_at(ended, 0, &e, NULL) == 0 &&
        e.id == c->job && e.error == 0 && task_end(c, &e, text))
        cause_notify(c, text);
    else
        cause_notify(c, "has died");
}

bool causes_ask(const struct writer *w)
{
    struct ctx *ctx = w->s->ctx;
    struct cause *c;
    char id[24];

    if (!w->task_of || ctx->ncauses >= CAUSES_MAX || !(c = calloc(1, sizeof(*c))))
        return false;
    c->s = w->s;
    c->first = w->member.first;
    c->job = w->job;
    c->task = w->task;
    c->node_rank = claim_sender_rank(w->away.req);
    if (c->node_rank == UINT32_MAX)
        c->node_rank = flux_rank(ctx->h);
    list_append(&w->s->causes, &c->node);
    ctx->ncauses++;
    snprintf(id, sizeof(id), "%" PRIu64, w->job);
    if (!(c->left = registry_left_create(ctx, w->id, w->at.rank)) ||
        !(c->f = flux_job_wait(ctx->h, id)) ||
        flux_future_then(c->f, CAUSE_SECONDS, job_ended, c) < 0) {
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
