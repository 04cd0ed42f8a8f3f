/* job_waitline.c - a status line on the terminal while a job has no visible effect.
 *
 * The service is queried every two seconds for the state of the job and the reason why it waits,
 * with one request at a time.  A failed query is not reported, because the line is informational
 * only.  Without a terminal, the query is sent every ten seconds, and two messages are printed once
 * each: that the job still waits, with the reason, and that the store has failed.  Nothing is
 * printed about a running job: many run for hours, in scripts whose errors are sent by mail.
 */
#include "config.h"
#include "job_waitline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs_table.h"
#include "libjob/job.h"
#include "libsubprocess/spawn.h"

#define EVERY 2.1 /* a little more than what cmd_progress() waits for */
#define SELDOM 10.

struct job_waitline {
    struct cmd *c;
    flux_t *h;
    uint64_t id; /* 0: several */
    const idset_t *ids;
    const char *tail;
    bool terminal;
    bool failed; /* that the store fails was said */
    bool waits;  /* that a job waits */
    flux_watcher_t *timer;
    flux_future_t *list;
};

static void tell(job_waitline_t *t, const struct job_info *i)
{
    const char *why = i->why ? i->why : flux_job_state_word(i);
    char when[64] = "";

    if (!t->terminal) {
        if (i->why && i->t_run > 0. && !t->failed) {
            cmd_error(t->c, "job %" PRIu64 " %s; this is tried again", i->id, i->why);
            t->failed = true;
        } else if (i->t_run <= 0. && !t->waits) {
            cmd_error(t->c, "job %" PRIu64 " has not started yet: %s", i->id, why);
            t->waits = true;
        }
        return;
    }
    if (i->t_run <= 0. && i->t_estimate > 0. && i->t_estimate <= JOBS_TIME_MAX) {
        time_t sec = (time_t)i->t_estimate;
        struct tm tm;

        if (localtime_r(&sec, &tm))
            strftime(when, sizeof(when), ", expected at %H:%M:%S", &tm);
    }
    if (t->id)
        cmd_progress(t->c, "flux %s: job %" PRIu64 " (%s%s): %s", t->c->name, t->id, t->tail, when,
                     why);
    else if (t->ids)
        cmd_progress(t->c, "flux %s: %zu job%s left%s%s; %" PRIu64 "%s: %s", t->c->name,
                     idset_count(t->ids), idset_count(t->ids) == 1 ? "" : "s", *t->tail ? ", " : "",
                     t->tail, i->id, when, why);
    else
        cmd_progress(t->c, "flux %s: %s; job %" PRIu64 "%s: %s", t->c->name, t->tail, i->id, when,
                     why);
}

static void list_cb(flux_future_t *f, void *arg)
{
    job_waitline_t *t = arg;
    struct job_info info = {0};
    const json_t *jobs;

    if (flux_future_errnum(f) == 0 && flux_job_list_get(f, &jobs, NULL) == 0 &&
        flux_job_list_at(jobs, 0, &info, NULL) == 0)
        tell(t, &info);
    flux_future_destroy(f);
    t->list = NULL;
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    job_waitline_t *t = arg;
    struct job_list query;
    char *ids = NULL;

    if (t->list)
        return;
    flux_job_list_init(&query);
    if (t->id ? asprintf(&ids, "%" PRIu64, t->id) < 0
              : t->ids && (idset_empty(t->ids) || !(ids = idset_format(t->ids, 0))))
        return;
    query.ids = ids;
    query.user = t->ids || t->id ? query.user : -1;
    query.estimates = t->terminal || !t->waits;
    query.max = 1;
    query.states = t->id ? query.states : JOB_STATES_ACTIVE;
    if ((t->list = flux_job_list(t->h, &query)))
        flux_future_then(t->list, -1., list_cb, t);
    free(ids);
}

static job_waitline_t *start(struct cmd *c, flux_t *h, uint64_t id, const idset_t *ids,
                             const char *tail)
{
    job_waitline_t *t;

    if (!(t = calloc(1, sizeof(*t))))
        return NULL;
    t->terminal = isatty(STDERR_FILENO);
    t->c = c;
    t->h = h;
    t->id = id;
    t->ids = ids;
    t->tail = tail;
    if (!(t->timer = flux_timer_create(flux_get_reactor(h), timer_cb, t))) {
        free(t);
        return NULL;
    }
    cmd_progress(c, "%s", ""); /* time runs from now on */
    flux_timer_start(t->timer, t->terminal ? EVERY : SELDOM, t->terminal ? EVERY : SELDOM);
    return t;
}

job_waitline_t *job_waitline_start(struct cmd *c, flux_t *h, uint64_t id, const char *tail)
{
    return start(c, h, id, NULL, tail);
}

job_waitline_t *job_waitline_start_set(struct cmd *c, flux_t *h, const idset_t *ids,
                                       const char *tail)
{
    return start(c, h, 0, ids, tail);
}

/* --- the end --- */

/* True when that was said. */
static bool tell_tasks(struct cmd *c, const struct job_ended *e, unsigned max)
{
    size_t count = job_failed_count(e->failed), n = 0;
    struct job_failed f;
    char text[128], where[300];

    for (; n < max && job_failed_at(e->failed, n, &f) == 0; n++) {
        snprintf(where, sizeof(where), "%s%.255s", f.host[0] ? " on " : "", f.host);
        cmd_error(c, "job %" PRIu64 ": task %u%s (rank %u): %s", e->id, f.task, where, f.rank,
                  spawn_status_text(f.status, text, sizeof(text)));
    }
    if (n > 0 && count > n)
        cmd_error(c, "job %" PRIu64 ": %zu more task%s failed", e->id, count - n,
                  count - n == 1 ? "" : "s");
    return n > 0;
}

void job_waitline_ended(struct cmd *c, const struct job_ended *e, const char *said, unsigned max)
{
    bool canceled = e->result && job_result_parse(e->result) == JOB_RESULT_CANCELED;
    char name[64];

    if (e->warning)
        cmd_error(c, "job %" PRIu64 ": warning: %s", e->id, e->warning);
    if (e->error)
        cmd_error(c, "%s", e->text ? e->text : "the job does not exist (any longer)");
    else if (canceled)
        cmd_error(c, "job %" PRIu64 " was canceled%s%s%s%s", e->id,
                  e->canceled_by >= 0 ? " by user " : "",
                  e->canceled_by >= 0 ? jobs_user_name((uint32_t)e->canceled_by, name, sizeof(name))
                                      : "",
                  e->text ? ": " : "", e->text ? e->text : "");
    else if (e->text && (!said || strcmp(said, e->text) != 0))
        cmd_error(c, "job %" PRIu64 ": %s", e->id, e->text);
    else if (!e->text && e->code && !tell_tasks(c, e, max))
        cmd_error(c, "job %" PRIu64 ": exit code %d", e->id, e->code);
}

void job_waitline_stop(job_waitline_t *t)
{
    int saved = errno;

    if (!t)
        return;
    cmd_progress_end(t->c);
    flux_watcher_destroy(t->timer);
    flux_future_destroy(t->list);
    free(t);
    errno = saved;
}
