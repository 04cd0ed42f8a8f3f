/* jm_time.c - jobs that wait for a time: one heap of jobs, and one timer for the first.
 *
 *    for     set when                             what happens then
 *    begin   a job is submitted with a begin      one dependency less (jm_depend.c)
 *            time
 *    limit   a job with a time limit is launched  exception "timeout": SIGTERM, and
 *    grace   SIGTERM was sent to the tasks        SIGKILL, and
 *    again   SIGKILL was sent to them             SIGKILL again, until wrexec reports the end
 *
 * Invariants:
 *  1. A job is in the heap exactly while its event (j->time.what) is not JM_TIME_NONE; it waits for
 *     one event at a time.
 *  2. The timer is set for the first time of the heap, or earlier.  It counts time during which the
 *     machine is suspended, as the times of the heap and of the scheduler's plans do.
 *
 * Failure: lack of memory is returned to the caller.
 */
#include "config.h"
#include "jm_private.h"

#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define AGAIN 10.

struct jm_time {
    struct jm_heap heap; /* jm_job.time.node */
    flux_watcher_t *clock;
    double clock_at; /* time for which the clock is set; 0: it is not set */
};

static void due(struct jm_job *j, double now)
{
    struct jm *jm = j->jm;
    enum jm_time_event what = j->time.what;
    char note[96];

    jm_time_clear(j);
    switch (what) {
    case JM_TIME_BEGIN:
        jm_depend_begin(j);
        break;
    case JM_TIME_LIMIT:
        snprintf(note, sizeof(note), "its time limit of %g s is over", j->spec->req.duration);
        jm_state_exception(j, "timeout", JOB_SEVERITY_FATAL, note, j->st.userid, true);
        break;
    case JM_TIME_GRACE:
    case JM_TIME_AGAIN:
        jm_exec_kill(jm, j->id, SIGKILL);
        jm_time_set(j, JM_TIME_AGAIN, now + AGAIN);
        break;
    case JM_TIME_NONE:
        break;
    }
}

static void clock_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct jm *jm = arg;
    double now = flux_reactor_now(r);
    struct jm_heap_node *n;

    jm->time->clock_at = 0;
    while ((n = jm_heap_first(&jm->time->heap)) && n->at <= now)
        due(list_entry(n, struct jm_job, time.node), now);
    jm_purge_check(jm);
    jm_module_kick(jm);
}

int jm_time_set(struct jm_job *j, enum jm_time_event what, double at)
{
    if (jm_heap_put(&j->jm->time->heap, &j->time.node, at) < 0)
        return -1;
    j->time.what = what;
    jm_module_kick(j->jm);
    return 0;
}

void jm_time_clear(struct jm_job *j)
{
    jm_heap_remove(&j->jm->time->heap, &j->time.node);
    j->time.what = JM_TIME_NONE;
}

void jm_time_flush(struct jm *jm)
{
    struct jm_heap_node *n = jm_heap_first(&jm->time->heap);
    double at = n ? n->at : INFINITY, purge = jm_purge_next(jm), now;

    if (purge < at)
        at = purge;
    if (!isfinite(at) || (jm->time->clock_at > 0 && jm->time->clock_at <= at))
        return;
    now = flux_reactor_now(jm->r);
    flux_timer_start(jm->time->clock, at > now ? at - now : 0., 0.);
    jm->time->clock_at = at;
}

int jm_time_create(struct jm *jm)
{
    struct jm_time *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->time = p;
    p->clock = flux_deadline_create(jm->r, clock_cb, jm);
    return p->clock ? 0 : -1;
}

void jm_time_destroy(struct jm *jm)
{
    struct jm_time *p = jm->time;

    if (!p)
        return;
    flux_watcher_destroy(p->clock);
    jm_heap_clear(&p->heap);
    free(p);
    jm->time = NULL;
}

void jm_time_stats(const struct jm *jm, struct job_stats *st)
{
    st->timers = jm->time->heap.n;
}
