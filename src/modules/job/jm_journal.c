/* jm_journal.c - messages to the session's log (flux dmesg) about jobs and about the users who
 * control them.
 *
 *    message                                  level    logged
 *    a job was started, or has completed      info     together, after GATHER seconds
 *    a job has ended otherwise, and why       notice   together, likewise
 *    a job does not run as requested          warning  together, likewise
 *    who canceled, raised, held, purged ...   notice   once for each request
 *    who stopped, started ... the queue       notice   likewise
 *
 * Up to LINES gathered jobs of a kind have a line each.  If there are more, the jobs that were
 * started or have completed share one line with their ids; so do the failures and the warnings
 * after the first LINES.  A thousand jobs a second thus cost about twenty messages.
 *
 * A reader of the log may first request that all gathered messages be logged (job.journal).  So a
 * user who was notified of the end of jobs finds it in the log.
 *
 * Invariant: the timer runs exactly while there are gathered messages.
 *
 * Failure: if memory is short, a line is missing.
 */
#include "config.h"
#include "jm_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job_wire.h"

#define GATHER 0.1 /* seconds */
#define LINES 4

struct jm_journal {
    idset_t *ids[JM_JOURNAL_KINDS]; /* to be logged; NULL: none */
    flux_watcher_t *timer;
};

static const char *name_of(const struct jm *jm, uint32_t id)
{
    const struct jm_job *j = jm_job_find(jm, id);
    const struct jm_ended *e = j ? NULL : jm_ended_find(jm, id);

    return j ? j->spec->name : e ? jm_ended_text(e, JM_TEXT_NAME) : "purged";
}

static void tell_started(struct jm *jm, uint32_t id)
{
    struct jm_job *j = jm_job_find(jm, id);
    struct jm_ended *e = j ? NULL : jm_ended_find(jm, id);
    char *hosts = j && j->r ? rset_hosts(j->r) : NULL;
    const char *where = hosts ? hosts : e ? jm_ended_text(e, JM_TEXT_HOSTS) : "";

    flux_log(jm->h, LOG_INFO, "job %u (%s) was started%s%s", id, name_of(jm, id),
             where[0] ? " on " : "", where);
    free(hosts);
}

static void tell_completed(struct jm *jm, uint32_t id)
{
    const struct jm_ended *e = jm_ended_find(jm, id);

    if (e)
        flux_log(jm->h, LOG_INFO, "job %u (%s) has completed after %.3g s", id, name_of(jm, id),
                 e->t_run > 0 && e->t_cleanup > e->t_run ? e->t_cleanup - e->t_run : 0.);
}

/* " (task 2 on node1, rank 1, and 3 more)", or "". */
static const char *first_failed(const struct jm_ended *e, char *buf, size_t size)
{
    json_t *failed = json_loads(jm_ended_text(e, JM_TEXT_FAILED), 0, NULL);
    size_t count = job_failed_count(failed);
    struct job_failed f;
    char more[40] = "";

    buf[0] = '\0';
    if (count > 1)
        snprintf(more, sizeof(more), ", and %zu more", count - 1);
    if (job_failed_at(failed, 0, &f) == 0)
        snprintf(buf, size, " (task %u on %.200s, rank %u%s)", f.task,
                 f.host[0] ? f.host : "its node", f.rank, more);
    json_decref(failed);
    return buf;
}

static void tell_failed(struct jm *jm, uint32_t id)
{
    const struct jm_ended *e = jm_ended_find(jm, id);
    const char *type, *note;
    char where[320];

    if (!e)
        return;
    type = jm_ended_text(e, JM_TEXT_TYPE);
    note = jm_ended_text(e, JM_TEXT_NOTE);
    if (e->canceled_by >= 0)
        flux_log(jm->h, LOG_NOTICE,
                 "job %u (%s) of user %u has ended: cancel by user %" PRIi64 "%s%s", id,
                 name_of(jm, id), e->uid, e->canceled_by, note[0] ? ": " : "", note);
    else if (type[0])
        flux_log(jm->h, LOG_NOTICE, "job %u (%s) of user %u has ended: %s%s%s", id, name_of(jm, id),
                 e->uid, type, note[0] ? ": " : "", note);
    else
        flux_log(jm->h, LOG_NOTICE, "job %u (%s) of user %u has failed with exit code %d%s", id,
                 name_of(jm, id), e->uid, e->code, first_failed(e, where, sizeof(where)));
}

static void tell_warned(struct jm *jm, uint32_t id)
{
    const struct jm_job *j = jm_job_find(jm, id);
    const struct jm_ended *e = j ? NULL : jm_ended_find(jm, id);

    if (j || e)
        flux_log(jm->h, LOG_WARNING, "job %u (%s): %s", id, name_of(jm, id),
                 !j           ? jm_ended_text(e, JM_TEXT_WARNING)
                 : j->warning ? j->warning
                              : "");
}

static const struct {
    int level;
    const char *many;
    void (*one)(struct jm *jm, uint32_t id);
} kinds[JM_JOURNAL_KINDS] = {
    [JM_JOURNAL_STARTED] = {LOG_INFO, "were started", tell_started},
    [JM_JOURNAL_COMPLETED] = {LOG_INFO, "have completed", tell_completed},
    [JM_JOURNAL_FAILED] = {LOG_NOTICE, "have failed, too", tell_failed},
    [JM_JOURNAL_WARNED] = {LOG_WARNING, "do not run as was asked for, too", tell_warned},
};

static void tell(struct jm *jm, enum jm_journal_kind kind, idset_t *ids)
{
    uint32_t id = idset_first(ids);
    char *text;

    for (int i = 0; i < LINES && id != IDSET_NONE; i++, id = idset_next(ids, id)) {
        if (kind < JM_JOURNAL_FAILED && idset_count(ids) > LINES)
            break;
        kinds[kind].one(jm, id);
        if (kind >= JM_JOURNAL_FAILED)
            (void)idset_clear(ids, id);
    }
    if (id == IDSET_NONE || !(text = idset_format(ids, 0)))
        return;
    flux_log(jm->h, kinds[kind].level, "%zu job%s %s: %s", idset_count(ids),
             idset_count(ids) == 1 ? "" : "s", kinds[kind].many, text);
    free(text);
}

static void tell_all(struct jm *jm)
{
    for (int kind = 0; kind < JM_JOURNAL_KINDS; kind++) {
        if (jm->journal->ids[kind])
            tell(jm, (enum jm_journal_kind)kind, jm->journal->ids[kind]);
        idset_destroy(jm->journal->ids[kind]);
        jm->journal->ids[kind] = NULL;
    }
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    tell_all(arg);
}

void jm_journal_add(struct jm *jm, enum jm_journal_kind kind, uint64_t id)
{
    idset_t **ids = &jm->journal->ids[kind];

    if (id > IDSET_MAX || (!*ids && !(*ids = idset_create())))
        return;
    (void)idset_set(*ids, (uint32_t)id);
    if (!flux_watcher_active(jm->journal->timer))
        flux_timer_start(jm->journal->timer, GATHER, 0.);
}

void jm_journal_ended(struct jm *jm, const struct jm_ended *e)
{
    jm_journal_add(jm, e->result == JOB_RESULT_COMPLETED ? JM_JOURNAL_COMPLETED : JM_JOURNAL_FAILED,
                   e->id);
}

void jm_journal_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;

    flux_watcher_stop(jm->journal->timer);
    tell_all(jm);
    /* The log service gets the lines before this response is sent. */
    flux_respond(h, req, "{}");
}

void jm_journal_request(struct jm *jm, const flux_msg_t *req, const char *what, const char *on,
                        const char *note)
{
    flux_log(jm->h, LOG_NOTICE, "user %u %s %s%s%s", flux_msg_userid(req), what, on,
             note && note[0] ? ": " : "", note ? note : "");
}

int jm_journal_create(struct jm *jm)
{
    struct jm_journal *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->journal = p;
    return (p->timer = flux_timer_create(jm->r, timer_cb, jm)) ? 0 : -1;
}

void jm_journal_destroy(struct jm *jm)
{
    struct jm_journal *p = jm->journal;

    if (!p)
        return;
    if (p->timer)
        tell_all(jm);
    flux_watcher_destroy(p->timer);
    free(p);
    jm->journal = NULL;
}
