/* jm_sched.c - the link to the scheduler.
 *
 * Purpose: the stream sched.attach brings allocations and refusals.  The requests sched.feed report
 * to the scheduler which jobs are queued, changed or removed, and which resources are free again
 * (libsched/sched_wire.h).  Entries wait in lists and are sent in the next pass, at most
 * SCHED_FEED_ENTRIES per request, with at most SCHED_FEEDS_MAX requests unanswered.  So a scheduler
 * that is busy with a deep queue delays its own feed, but no submission.
 *
 * When a stream begins, or starts over, the scheduler has no state: first all jobs that have
 * resources are sent as "running", then all jobs in SCHED as "add", and then it is enabled.
 *
 * While no job is queued, the scheduler has nothing to decide when resources become free.  Then the
 * feed does not wake it (FLUX_MSGF_LAZY): it handles such a feed together with the next message,
 * which may be a request for the free resources.
 *
 * Invariants:
 *  1. While j->sched.fed is set, the scheduler has the job in its queue, or (j->sched.feeding) the
 *     next feeds will add it.
 *  2. For each accepted allocation, exactly one "free" is sent: from jm_state_cleanup(), or at once
 *     when messages have crossed and the job cannot use it any more.
 *  3. All running jobs of a generation are sent before any other entry.
 *
 * Failure: without a scheduler, jobs wait; the stream is requested again every AGAIN seconds.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsched/sched_wire.h"
#include "libservice/follow.h"
#include "libschema/jsonout.h"
#include "libutil/invariant.h"

#define AGAIN 0.25

struct jm_sched {
    follow_t *stream; /* sched.attach */
    uint64_t generation;
    struct list_node add;     /* jobs to be sent to it */
    struct list_node running; /* jobs that have resources, after it was attached */
    struct jm_ids free, remove, urgency;
    bool enabled;   /* the state to be sent */
    bool announced; /* it was sent */
    unsigned inflight;
    uint64_t feeds, allocs, denied, returned;
};

/* --- entries to be sent --- */

void jm_sched_job_init(struct jm_job *j)
{
    list_init(&j->sched.feed);
    j->sched.t_queued = flux_reactor_now(j->jm->r);
}

void jm_sched_job_clear(struct jm_job *j)
{
    list_remove(&j->sched.feed);
    free(j->sched.why);
}

void jm_sched_add(struct jm_job *j)
{
    struct jm_sched *s = j->jm->sched;

    if (j->sched.fed && !j->sched.feeding) {
        jm_sched_urgency(j);
        return;
    }
    j->sched.fed = true;
    if (j->sched.feeding || !s->generation)
        return;
    j->sched.feeding = true;
    list_append(&s->add, &j->sched.feed);
    jm_module_kick(j->jm);
}

static void push(struct jm *jm, struct jm_ids *v, uint64_t id)
{
    if (!jm->sched->generation)
        return;
    if (jm_ids_add(v, id) < 0)
        flux_log(jm->h, LOG_ERR, "out of memory for the scheduler: it is wrong about job %llu",
                 (unsigned long long)id);
    jm_module_kick(jm);
}

void jm_sched_remove(struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (!j->sched.fed)
        return;
    j->sched.fed = false;
    if (j->sched.feeding) {
        list_remove(&j->sched.feed);
        j->sched.feeding = false;
        return;
    }
    push(jm, &jm->sched->remove, j->id);
}

void jm_sched_urgency(struct jm_job *j)
{
    if (j->sched.fed && !j->sched.feeding)
        push(j->jm, &j->jm->sched->urgency, j->id);
}

void jm_sched_free(struct jm_job *j)
{
    struct jm *jm = j->jm;

    if (!j->sched.allocated)
        return;
    j->sched.allocated = false;
    if (j->sched.feeding) {
        /* The scheduler was not yet notified that this job runs. */
        list_remove(&j->sched.feed);
        j->sched.feeding = false;
        return;
    }
    push(jm, &jm->sched->free, j->id);
}

void jm_sched_enable(struct jm *jm)
{
    jm->sched->enabled = !jm_queue_stopped(jm, NULL) && !jm_queue_ending(jm);
    jm_module_kick(jm);
}

void jm_sched_set_why(struct jm_job *j, const char *reason, double estimate)
{
    free(j->sched.why);
    j->sched.why = strdup(reason);
    j->sched.estimate = estimate > 0 ? estimate : 0;
}

/* --- requests --- */

struct feed {
    strbuf_t *sb;
    size_t n;
};

/* Is there room for one more entry? */
static bool room(const struct feed *f)
{
    return f->n < SCHED_FEED_ENTRIES;
}

static void put_running(struct jm *jm, struct feed *f)
{
    struct list_node *n;

    if (!room(f) || list_empty(&jm->sched->running))
        return;
    jsonout_array(f->sb, "running");
    while (room(f) && (n = list_first(&jm->sched->running))) {
        struct jm_job *j = list_entry(n, struct jm_job, sched.feed);

        list_remove(n);
        j->sched.feeding = false;
        jsonout_object(f->sb, NULL);
        jsonout_uint(f->sb, "id", j->id);
        jsonout_text(f->sb, "R", j->r_json);
        jsonout_time(f->sb, "end", j->deadline);
        jsonout_object_end(f->sb);
        f->n++;
    }
    jsonout_array_end(f->sb);
}

static void put_add(struct jm *jm, struct feed *f)
{
    struct list_node *n;

    if (!room(f) || list_empty(&jm->sched->add))
        return;
    jsonout_array(f->sb, "add");
    while (room(f) && (n = list_first(&jm->sched->add))) {
        struct jm_job *j = list_entry(n, struct jm_job, sched.feed);

        list_remove(n);
        j->sched.feeding = false;
        jsonout_object(f->sb, NULL);
        jsonout_uint(f->sb, "id", j->id);
        jsonout_int(f->sb, "urgency", j->st.urgency);
        jsonout_time(f->sb, "t_submit", j->sched.t_queued);
        jsonout_uint(f->sb, "uid", j->st.userid);
        jsonout_text(f->sb, "req", j->spec->req_json);
        jsonout_object_end(f->sb);
        f->n++;
    }
    jsonout_array_end(f->sb);
}

static void put_ids(struct feed *f, const char *name, struct jm_ids *v)
{
    size_t n = v->n < SCHED_FEED_ENTRIES - f->n ? v->n : SCHED_FEED_ENTRIES - f->n;

    if (n == 0)
        return;
    jm_json_ids(f->sb, name, v, n);
    f->n += n;
    jm_ids_drop_first(v, n);
}

static void put_urgencies(struct jm *jm, struct feed *f)
{
    struct jm_ids *v = &jm->sched->urgency;
    bool open = false;
    size_t i;

    for (i = 0; i < v->n && room(f); i++) {
        struct jm_job *j = jm_job_find(jm, v->ids[i]);

        if (!j || !j->sched.fed)
            continue;
        if (!open)
            jsonout_array(f->sb, "urgency");
        open = true;
        jsonout_array(f->sb, NULL);
        jsonout_uint(f->sb, NULL, j->id);
        jsonout_int(f->sb, NULL, j->st.urgency);
        jsonout_array_end(f->sb);
        f->n++;
    }
    if (open)
        jsonout_array_end(f->sb);
    jm_ids_drop_first(v, i);
}

static void fed_cb(flux_future_t *f, void *arg)
{
    struct jm *jm = arg;
    errmsg_t err;

    jm->sched->inflight--;
    /* The loss of the scheduler is handled where its stream ends. */
    if (flux_rpc_get(f, &err) < 0 && errno == EPROTO && jm->sched->generation)
        follow_end(jm->sched->stream, EPROTO, err.text);
    flux_future_destroy(f);
    jm_module_kick(jm);
}

/* Are there only freed resources to be sent, for which no job waits?  One such feed at a time may
 * wait for the next message. */
static bool can_wait(struct jm *jm)
{
    const struct jm_sched *s = jm->sched;

    return s->inflight == 0 && list_empty(&s->running) && list_empty(&s->add) && !s->remove.n &&
           !s->urgency.n && s->announced == s->enabled &&
           jm_job_count_states(jm, JOB_STATE_BIT(JOB_STATE_SCHED)) == 0;
}

static void send_feed(struct jm *jm)
{
    struct jm_sched *s = jm->sched;
    unsigned flags = can_wait(jm) ? FLUX_MSGF_LAZY : 0;
    struct feed f = {.sb = strbuf_create(0)};
    flux_future_t *fut;
    char *json;

    jsonout_object(f.sb, NULL);
    jsonout_uint(f.sb, "generation", s->generation);
    put_running(jm, &f);
    put_ids(&f, "free", &s->free);
    put_add(jm, &f);
    put_urgencies(jm, &f);
    put_ids(&f, "remove", &s->remove);
    if (s->announced != s->enabled && list_empty(&s->running)) {
        jsonout_bool(f.sb, "enabled", s->enabled);
        s->announced = s->enabled;
    }
    jsonout_object_end(f.sb);
    json = f.sb ? strbuf_take(f.sb) : NULL;
    fut = json ? flux_rpc(jm->h, "sched.feed", json, FLUX_NODEID_ANY, flags) : NULL;
    free(json);
    if (!fut || flux_future_then(fut, -1., fed_cb, jm) < 0) {
        flux_future_destroy(fut);
        follow_end(s->stream, ENOMEM, "out of memory");
        return;
    }
    s->inflight++;
    s->feeds++;
}

void jm_sched_flush(struct jm *jm)
{
    struct jm_sched *s = jm->sched;

    while (s->generation && s->inflight < SCHED_FEEDS_MAX &&
           (!list_empty(&s->running) || !list_empty(&s->add) || s->free.n || s->remove.n ||
            s->urgency.n || s->announced != s->enabled))
        send_feed(jm);
}

/* --- reports of the scheduler --- */

/* The scheduler has no state: put all jobs that it must know into the lists. */
static void start_over(struct jm *jm, uint64_t generation)
{
    struct jm_sched *s = jm->sched;

    s->free.n = s->remove.n = s->urgency.n = 0;
    s->generation = generation;
    s->announced = false;
    for (struct jm_job *j = jm_job_first(jm); j; j = jm_job_next(j)) {
        if (j->sched.feeding) {
            list_remove(&j->sched.feed);
            j->sched.feeding = false;
        }
        if (generation && (j->sched.allocated || j->sched.fed)) {
            list_append(j->sched.allocated ? &s->running : &s->add, &j->sched.feed);
            j->sched.feeding = true;
        }
    }
    jm_sched_enable(jm);
}

static void give_back(struct jm *jm, uint64_t id)
{
    jm->sched->returned++;
    push(jm, &jm->sched->free, id);
}

static void take_alloc(struct jm *jm, const json_t *entry)
{
    struct sched_wire_alloc a = {0};
    struct jm_job *j;
    rset_t *r;
    char *text;
    errmsg_t err;

    if (flux_schema_decode_json(&sched_wire_alloc_schema, entry, &a, &err) < 0) {
        flux_log(jm->h, LOG_ERR, "an allocation cannot be read: %s", err.text);
        return;
    }
    j = jm_job_find(jm, a.id);
    if (!j || j->st.state != JOB_STATE_SCHED || !j->sched.fed || j->sched.feeding) {
        if (j && !j->sched.feeding)
            j->sched.fed = false;
        give_back(jm, a.id);
        return;
    }
    if (jm_queue_ending(jm)) {
        /* The allocation has crossed the end of the session, during which the job is to stay in the
         * queue. */
        give_back(jm, a.id);
        return;
    }
    if (!(r = rset_from_json(a.R, &err)) || !(text = json_dumps(a.R, JSON_COMPACT))) {
        rset_destroy(r);
        j->sched.fed = false;
        give_back(jm, a.id);
        jm_state_exception(j, "alloc", JOB_SEVERITY_FATAL, r ? "out of memory" : err.text,
                           j->st.userid, false);
        return;
    }
    INVARIANT(2, !j->sched.allocated);
    jm->sched->allocs++;
    j->sched.fed = false;
    j->sched.allocated = true;
    free(j->sched.why);
    j->sched.why = NULL;
    jm_state_allocated(j, r, text, a.switches, a.hops);
}

static void take_deny(struct jm *jm, const json_t *entry)
{
    struct sched_wire_deny d = {0};
    struct jm_job *j;
    errmsg_t err;

    if (flux_schema_decode_json(&sched_wire_deny_schema, entry, &d, &err) < 0 ||
        !(j = jm_job_find(jm, d.id)) || j->st.state != JOB_STATE_SCHED || !j->sched.fed)
        return;
    j->sched.fed = false;
    jm->sched->denied++;
    jm_state_exception(j, "alloc", JOB_SEVERITY_FATAL, d.note, j->st.userid, false);
}

static int take_cb(void *arg, flux_future_t *f, errmsg_t *err)
{
    struct jm *jm = arg;
    struct sched_answer a = {0};

    if (flux_rpc_get_struct(f, &sched_answer_schema, &a, err) < 0)
        return -1;
    if (a.attached)
        start_over(jm, a.attached);
    for (size_t i = 0; i < json_array_size(a.alloc); i++)
        take_alloc(jm, json_array_get(a.alloc, i));
    for (size_t i = 0; i < json_array_size(a.deny); i++)
        take_deny(jm, json_array_get(a.deny, i));
    jm_module_kick(jm);
    return 0;
}

static void ended_cb(void *arg, int errnum, const char *why, unsigned tries)
{
    struct jm *jm = arg;

    if (jm->sched->generation)
        flux_log(jm->h, LOG_WARNING, "no scheduler: %s", why);
    start_over(jm, 0);
}

/* --- life --- */

int jm_sched_create(struct jm *jm)
{
    static const struct follow_ops ops = {"sched.attach", AGAIN, AGAIN, NULL, take_cb, ended_cb};
    struct jm_sched *s = calloc(1, sizeof(*s));

    if (!s)
        return -1;
    jm->sched = s;
    list_init(&s->add);
    list_init(&s->running);
    return (s->stream = follow_create(jm->h, &ops, jm)) ? 0 : -1;
}

void jm_sched_destroy(struct jm *jm)
{
    struct jm_sched *s = jm->sched;

    if (!s)
        return;
    follow_destroy(s->stream);
    jm_ids_clear(&s->free);
    jm_ids_clear(&s->remove);
    jm_ids_clear(&s->urgency);
    free(s);
    jm->sched = NULL;
}

void jm_sched_start(struct jm *jm)
{
    jm_sched_enable(jm);
    follow_open(jm->sched->stream);
}

/* --- jobs that are read back, before the scheduler is attached --- */

bool jm_sched_fed(const struct jm_job *j)
{
    return j->sched.fed;
}

const char *jm_sched_why(const struct jm_job *j)
{
    return j->sched.why;
}

double jm_sched_estimate(const struct jm_job *j)
{
    return j->sched.estimate;
}

void jm_sched_restore(struct jm_job *j)
{
    if (j->st.t_submit < flux_reactor_wall(j->jm->r))
        j->sched.t_queued = flux_reactor_from_wall(j->jm->r, j->st.t_submit);
}

void jm_sched_restore_allocated(struct jm_job *j)
{
    j->sched.allocated = true;
}

void jm_sched_restore_queued(struct jm_job *j)
{
    j->sched.fed = true;
}

bool jm_sched_attached(const struct jm *jm)
{
    return jm->sched->generation != 0;
}

void jm_sched_stats(const struct jm *jm, struct job_stats *st)
{
    const struct jm_sched *s = jm->sched;

    st->allocs = s->allocs;
    st->returned = s->returned;
    st->denied = s->denied;
    st->feeds = s->feeds;
    st->feeding = s->inflight;
    st->sched = jm_sched_attached(jm);
}
