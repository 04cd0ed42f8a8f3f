/* jm_depend.c - jobs that wait for other jobs, or for a time.
 *
 * Each job has a list of the jobs that wait for it, so the start or end of a job costs as much as
 * it has dependents.  Each pass takes a slice of them (libflux/slice.h).  Until all are handled
 * they belong to a struct jm_fanout, which records the event and its result.
 *
 *    scheme      met when the other job                        can never be met when
 *    after       has started, or has ended without a start     -
 *    afterany    has ended                                     -
 *    afterok     has ended with success (result "completed")   it ended otherwise
 *    afternotok  has ended otherwise                           it ended with success
 *
 * In the log: dependency-add and dependency-remove {"description":"afterok:12"}, and for the begin
 * time "begin-time:SECONDS".  A dependency that was met at the submission has no event.
 *
 * Invariants:
 *  1. A struct jm_dep is in two lists, that of its job and that of its target (or of the fanout of
 *     its target, once that has ended).
 *  2. j->depend.n is the number of its struct jm_deps, plus one while the job waits for its begin
 *     time.
 *
 * Failure: a job with a dependency on an unknown job is refused.  A job with a dependency that can
 * never be met any more gets an exception "dependency", and ends.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"
#include "libutil/strvec.h"

/* One job waits for another. */
struct jm_dep {
    struct list_node by_job;    /* in jm_job.depend.deps */
    struct list_node by_target; /* in jm_job.depend.wanted_by */
    struct jm_job *job;
    enum job_dep_scheme scheme;
    uint64_t target;
};

#define BEGIN_LOOK 60. /* seconds between readings of the wall clock */

struct jm_depend {
    struct list_node failed;  /* jm_job.depend.failed */
    struct list_node fanouts; /* struct jm_fanout */
};

enum met { MET, WAIT, NEVER };

/* The jobs that are to be notified that a dependency is met. */
struct jm_fanout {
    struct list_node node; /* in jm.fanouts */
    struct list_node deps; /* jm_dep.by_target */
    bool success;
};

static enum met by_end(enum job_dep_scheme scheme, bool success)
{
    switch (scheme) {
    case JOB_DEP_AFTER:
    case JOB_DEP_AFTERANY:
        return MET;
    case JOB_DEP_AFTEROK:
        return success ? MET : NEVER;
    case JOB_DEP_AFTERNOTOK:
        return success ? NEVER : MET;
    }
    return NEVER;
}

static enum met look(struct jm *jm, const struct jobspec_dep *dep, struct jm_job **target,
                     bool *known)
{
    struct jm_ended *e;

    *known = true;
    if ((*target = jm_job_find(jm, dep->id))) {
        const struct jobstate *st = &(*target)->st;

        if (st->state == JOB_STATE_INACTIVE)
            return by_end(dep->scheme, jobstate_result(st) == JOB_RESULT_COMPLETED);
        if (dep->scheme == JOB_DEP_AFTER && (st->seen & (1u << JOB_EV_START)))
            return MET;
        return WAIT;
    }
    if ((e = jm_ended_find(jm, dep->id)))
        return by_end(dep->scheme, e->result == JOB_RESULT_COMPLETED);
    *known = false;
    return NEVER;
}

int jm_depend_check(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    const struct jobspec_dep *deps;
    size_t n;

    if (spec->ndeps == 0)
        return 0;
    if (jm_spec_parse(jm, spec, err) < 0)
        return -1;
    deps = jobspec_dependencies(spec->js, &n);
    for (size_t i = 0; i < n; i++) {
        struct jm_job *target;
        bool known;

        if (look(jm, &deps[i], &target, &known) == NEVER && !known)
            return errmsg_fail(err, ENOENT,
                               "it depends on job %" PRIu64 ", which does not exist (any more)",
                               deps[i].id);
    }
    return 0;
}

static void describe(const struct jm_dep *d, char *buf, size_t size)
{
    snprintf(buf, size, "%s:%" PRIu64, job_dep_name(d->scheme), d->target);
}

static void say(struct jm_job *j, enum job_event_type type, const char *text)
{
    struct job_event ev = {.event = type, .description = text};

    jm_state_event(j, &ev);
}

static void begin_text(const struct jm_job *j, char *buf, size_t size)
{
    snprintf(buf, size, "begin-time:%.15g", j->spec->begin);
}

static void never(struct jm_dep *d, bool known);

static int add_deps(struct jm_job *j)
{
    struct jm *jm = j->jm;
    const struct jobspec_dep *deps;
    char text[64];
    errmsg_t err;
    size_t n;

    if (jm_spec_parse(jm, j->spec, &err) < 0)
        return -1;
    deps = jobspec_dependencies(j->spec->js, &n);
    for (size_t i = 0; i < n; i++) {
        struct jm_job *target;
        struct jm_dep *d;
        bool known;
        enum met m = look(jm, &deps[i], &target, &known);

        if (m == MET)
            continue;
        if (!(d = calloc(1, sizeof(*d))))
            return -1;
        d->job = j;
        d->scheme = deps[i].scheme;
        d->target = deps[i].id;
        list_init(&d->by_job);
        list_init(&d->by_target);
        list_append(&j->depend.deps, &d->by_job);
        j->depend.n++;
        describe(d, text, sizeof(text));
        say(j, JOB_EV_DEP_ADD, text);
        if (m == WAIT)
            list_append(&target->depend.wanted_by, &d->by_target);
        else
            never(d, known);
    }
    return 0;
}

/* A begin time is a time of the day: the wall clock is checked again occasionally. */
static bool too_early(const struct jm_job *j)
{
    return j->spec->begin > flux_reactor_wall(j->jm->r);
}

static int set_begin(struct jm_job *j)
{
    double left = j->spec->begin - flux_reactor_wall(j->jm->r);

    return jm_time_set(j, JM_TIME_BEGIN,
                       flux_reactor_now(j->jm->r) + (left < BEGIN_LOOK ? left : BEGIN_LOOK));
}

int jm_depend_add(struct jm_job *j)
{
    char text[64];

    if (j->spec->ndeps > 0 && add_deps(j) < 0)
        return -1;
    if (too_early(j)) {
        if (set_begin(j) < 0)
            return -1;
        j->depend.begins = true;
        j->depend.n++;
        begin_text(j, text, sizeof(text));
        say(j, JOB_EV_DEP_ADD, text);
    }
    return 0;
}

void jm_depend_job_init(struct jm_job *j)
{
    list_init(&j->depend.deps);
    list_init(&j->depend.wanted_by);
    list_init(&j->depend.failed);
}

bool jm_depend_met(const struct jm_job *j)
{
    return j->depend.n == 0;
}

static void dep_free(struct jm_dep *d)
{
    list_remove(&d->by_job);
    list_remove(&d->by_target);
    d->job->depend.n--;
    free(d);
}

void jm_depend_drop(struct jm_job *j)
{
    struct list_node *n;

    while ((n = list_first(&j->depend.deps)))
        dep_free(list_entry(n, struct jm_dep, by_job));
    list_remove(&j->depend.failed);
    free(j->depend.note);
    j->depend.note = NULL;
    j->depend.begins = false;
    j->depend.n = 0;
}

static void met(struct jm_dep *d)
{
    struct jm_job *j = d->job;
    char text[64];

    describe(d, text, sizeof(text));
    dep_free(d);
    say(j, JOB_EV_DEP_REMOVE, text);
    jm_state_advance(j);
}

/* The job is ended in the next pass, not here: a chain of ten thousand jobs that each wait for the
 * preceding one would cause as many nested calls. */
static void never(struct jm_dep *d, bool known)
{
    struct jm_job *j = d->job;
    char text[64], note[160];

    describe(d, text, sizeof(text));
    snprintf(note, sizeof(note), "its dependency %s can never be met: job %" PRIu64 " %s", text,
             d->target,
             !known                         ? "is not on record any more"
             : d->scheme == JOB_DEP_AFTEROK ? "has ended without success"
                                            : "has ended with success");
    dep_free(d);
    j->depend.n++; /* so that the job does not continue meanwhile */
    if (!list_empty(&j->depend.failed))
        return;
    j->depend.note = strdup(note);
    list_append(&j->jm->depend->failed, &j->depend.failed);
    jm_module_kick(j->jm);
}

/* Notify some of these dependents.  The consequences for one can end others, on which further jobs
 * depend, and so on: each removes itself from its list. */
static void tell_some(struct jm *jm, struct list_node *deps, bool success)
{
    struct flux_slice slice;
    struct list_node *n;

    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(deps)) && flux_slice_more(&slice)) {
        struct jm_dep *d = list_entry(n, struct jm_dep, by_target);

        if (by_end(d->scheme, success) == MET)
            met(d);
        else
            never(d, true);
    }
}

/* Notify `deps`, whose target has started or ended; the rest are notified in later passes. */
static void tell(struct jm *jm, struct list_node *deps, bool success)
{
    struct jm_fanout *fan;
    struct list_node *n;

    tell_some(jm, deps, success);
    if (list_empty(deps))
        return;
    if (!(fan = calloc(1, sizeof(*fan)))) {
        while (!list_empty(deps))
            tell_some(jm, deps, success);
        return;
    }
    fan->success = success;
    list_init(&fan->deps);
    while ((n = list_first(deps))) {
        list_remove(n);
        list_append(&fan->deps, n);
    }
    list_append(&jm->depend->fanouts, &fan->node);
    jm_module_kick(jm);
}

static void end_failed(struct jm_job *j)
{
    char *note = j->depend.note;

    j->depend.note = NULL;
    /* The job may have ended for another reason meanwhile. */
    if (j->st.state == JOB_STATE_DEPEND)
        jm_state_exception(j, "dependency", JOB_SEVERITY_FATAL, note, j->st.userid, false);
    free(note);
}

void jm_depend_flush(struct jm *jm)
{
    struct list_node *n = list_first(&jm->depend->fanouts);
    struct flux_slice slice;

    if (n) {
        struct jm_fanout *fan = list_entry(n, struct jm_fanout, node);

        tell_some(jm, &fan->deps, fan->success);
        if (list_empty(&fan->deps)) {
            list_remove(n);
            free(fan);
        }
    }
    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&jm->depend->failed)) && flux_slice_more(&slice)) {
        list_remove(n);
        end_failed(list_entry(n, struct jm_job, depend.failed));
    }
    if (!list_empty(&jm->depend->fanouts) || !list_empty(&jm->depend->failed))
        jm_module_kick(jm);
}

void jm_depend_started(struct jm_job *j)
{
    struct list_node deps;

    list_init(&deps);
    LIST_FOREACH_SAFE(it, tmp, &j->depend.wanted_by)
    {
        if (list_entry(it, struct jm_dep, by_target)->scheme == JOB_DEP_AFTER) {
            list_remove(it);
            list_append(&deps, it);
        }
    }
    tell(j->jm, &deps, true);
}

void jm_depend_ended(struct jm_job *j)
{
    bool success =
        j->st.state == JOB_STATE_INACTIVE && jobstate_result(&j->st) == JOB_RESULT_COMPLETED;

    tell(j->jm, &j->depend.wanted_by, success);
}

void jm_depend_begin(struct jm_job *j)
{
    char text[64];

    if (!j->depend.begins || (too_early(j) && set_begin(j) == 0))
        return;
    j->depend.begins = false;
    j->depend.n--;
    begin_text(j, text, sizeof(text));
    say(j, JOB_EV_DEP_REMOVE, text);
    jm_state_advance(j);
}

char *jm_depend_text(const struct jm_job *j)
{
    strbuf_t *sb;
    char text[64];

    if (j->depend.n == 0)
        return NULL;
    sb = strbuf_create(0);
    LIST_FOREACH(it, &j->depend.deps)
    {
        describe(list_entry(it, struct jm_dep, by_job), text, sizeof(text));
        strbuf_addf(sb, "%s%s", sb && strbuf_len(sb) ? "," : "", text);
    }
    if (j->depend.begins) {
        begin_text(j, text, sizeof(text));
        strbuf_addf(sb, "%s%s", sb && strbuf_len(sb) ? "," : "", text);
    }
    return sb ? strbuf_take(sb) : NULL;
}

/* --- after a restart --- */

/* Dependencies that were added and not removed, by the log. */
static strvec_t *outstanding(const struct jm_job *j)
{
    strvec_t *v = strvec_create();
    struct job_event ev;
    struct job_log log;

    job_log_init(&log, strbuf_str(j->log), strbuf_len(j->log));
    while (v && job_log_next(&log, &ev, NULL) == 1) {
        if (ev.event == JOB_EV_DEP_ADD) {
            strvec_add(v, ev.description);
        } else if (ev.event == JOB_EV_DEP_REMOVE) {
            for (size_t i = 0; i < strvec_count(v); i++) {
                if (strcmp(strvec_at(v, i), ev.description) == 0) {
                    strvec_remove(v, i);
                    break;
                }
            }
        }
    }
    job_log_done(&log);
    return v;
}

static bool parse(const char *text, struct jobspec_dep *dep)
{
    const char *colon = strchr(text, ':');
    char scheme[32];
    int n;

    if (!colon || (size_t)(colon - text) >= sizeof(scheme) || str2u64(colon + 1, &dep->id) < 0)
        return false;
    memcpy(scheme, text, (size_t)(colon - text));
    scheme[colon - text] = '\0';
    if ((n = job_dep_parse(scheme)) < 0)
        return false;
    dep->scheme = (enum job_dep_scheme)n;
    return true;
}

static void restore_one(struct jm_job *j, const char *text)
{
    struct jm *jm = j->jm;
    struct jobspec_dep dep;
    struct jm_job *target;
    struct jm_dep *d;
    bool known;
    enum met m;

    if (!parse(text, &dep)) {
        if (too_early(j) && set_begin(j) == 0) {
            j->depend.begins = true;
            j->depend.n++;
            return;
        }
        say(j, JOB_EV_DEP_REMOVE, text);
        return;
    }
    m = look(jm, &dep, &target, &known);
    if (m == MET || !(d = calloc(1, sizeof(*d)))) {
        say(j, JOB_EV_DEP_REMOVE, text);
        return;
    }
    d->job = j;
    d->scheme = dep.scheme;
    d->target = dep.id;
    list_init(&d->by_job);
    list_init(&d->by_target);
    list_append(&j->depend.deps, &d->by_job);
    j->depend.n++;
    if (m == WAIT)
        list_append(&target->depend.wanted_by, &d->by_target);
    else
        never(d, known);
}

void jm_depend_restore(struct jm_job *j)
{
    strvec_t *v = outstanding(j);

    for (size_t i = 0; i < strvec_count(v); i++)
        restore_one(j, strvec_at(v, i));
    strvec_destroy(v);
}

int jm_depend_create(struct jm *jm)
{
    struct jm_depend *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->depend = p;
    list_init(&p->failed);
    list_init(&p->fanouts);
    return 0;
}

void jm_depend_destroy(struct jm *jm)
{
    struct jm_depend *p = jm->depend;
    struct list_node *n;

    if (!p)
        return;
    while ((n = list_first(&p->fanouts))) {
        list_remove(n);
        free(list_entry(n, struct jm_fanout, node));
    }
    free(p);
    jm->depend = NULL;
}

bool jm_depend_pending(const struct jm *jm)
{
    return !list_empty(&jm->depend->fanouts);
}
