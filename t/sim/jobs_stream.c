/* jobs_stream.c - clients of the scenario `jobs` who wait for the end of jobs, or watch them.
 *
 *  1. job.wait tells the end of each job that was named once, the same to everybody, and then it is
 *     over.
 *  2. job.watch tells states that only go forward, up to the last; but that of a job which runs
 *     again when it loses a node goes from RUN back to SCHED.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

static void take_end(struct jobs_stream *st, const struct job_ended *e)
{
    struct jobs *j = st->jobs;
    struct jobs_rec *rec = hmap_get_u64(j->recs, e->id);
    int result = e->result ? job_result_parse(e->result) : -1;

    /* A job module that takes the place of another begins the answer anew. */
    if (st->left && !idset_test(st->left, (uint32_t)e->id) && !j->reloads)
        sim_fail(j->s, "the end of job %" PRIu64 " was told to one who does not wait for it",
                 e->id);
    if (st->left)
        idset_clear(st->left, (uint32_t)e->id);
    if (!rec || (e->error && (e->id > st->known || idset_test(j->purged, (uint32_t)e->id))))
        return;
    if (e->error)
        sim_fail(j->s, "job %" PRIu64 " was accepted, and is said not to be there", e->id);
    else if (rec->result >= 0 && (rec->result != result || rec->told_code != e->code))
        sim_fail(j->s, "two ends of job %" PRIu64 " were told: %s and %s", e->id,
                 job_result_name((enum job_result)rec->result), e->result);
    rec->result = result;
    rec->told_code = e->code;
}

static void wait_cb(flux_future_t *f, void *arg)
{
    struct jobs_stream *st = arg;
    const json_t *page;
    struct job_ended e;
    errmsg_t err;

    if (flux_job_wait_get(f, &page, &err) < 0) {
        st->over = true;
        if (errno == ENODATA && st->left && !idset_empty(st->left))
            sim_fail(st->jobs->s, "a wait is over before job %u has ended", idset_first(st->left));
        else if (errno != ENODATA && !jobs_excused(st->jobs, errno))
            sim_fail(st->jobs->s, "a wait failed: %s", err.text);
        flux_future_destroy(f);
        return;
    }
    for (size_t i = 0; i < json_array_size(page) && !st->jobs->s->failed; i++) {
        memset(&e, 0, sizeof(e));
        if (flux_job_wait_at(page, i, &e, &err) < 0)
            sim_fail(st->jobs->s, "the end of a job cannot be read: %s", err.text);
        else
            take_end(st, &e);
    }
    flux_future_next(f);
}

/* May it be queued again?  Who has submitted it may not have been told its id yet. */
static bool requeues(const struct jobs *j, uint64_t id)
{
    const struct jobs_rec *rec = hmap_get_u64(j->recs, id);

    return j->faults && (!rec || rec->requeue);
}

static void take_state(struct jobs_stream *st, uint64_t id, enum job_state state)
{
    uintptr_t last = (uintptr_t)hmap_get_u64(st->states, id);
    bool again = state == JOB_STATE_SCHED && last == JOB_STATE_RUN + 1u && requeues(st->jobs, id);

    if (state + 1u <= last && !again && !st->jobs->reloads)
        sim_fail(st->jobs->s, "who watches job %" PRIu64 " was told %s after %s", id,
                 job_state_name(state), job_state_name((enum job_state)(last - 1)));
    hmap_put_u64(st->states, id, (void *)(uintptr_t)(state + 1u));
}

static void watch_cb(flux_future_t *f, void *arg)
{
    struct jobs_stream *st = arg;
    const json_t *page;
    enum job_state state;
    uint64_t id;
    double t;
    errmsg_t err;

    if (flux_job_watch_get(f, &page, &err) < 0) {
        st->over = true;
        if (!jobs_excused(st->jobs, errno))
            sim_fail(st->jobs->s, "a watch failed: %s", err.text);
        flux_future_destroy(f);
        return;
    }
    for (size_t i = 0; i < json_array_size(page) && !st->jobs->s->failed; i++) {
        if (flux_job_watch_at(page, i, &id, &state, &t, &err) < 0)
            sim_fail(st->jobs->s, "a transition cannot be read: %s", err.text);
        else
            take_state(st, id, state);
    }
    flux_future_next(f);
}

void jobs_stream_add(struct jobs *j, struct sim_ep *client, bool wait, const char *ids)
{
    struct jobs_stream *st = sim_alloc(j->s, sizeof(*st));
    flux_future_t *f = wait ? flux_job_wait(client->h, ids) : flux_job_watch(client->h, ids);

    *st = (struct jobs_stream){.next = j->streams, .jobs = j, .client = client, .wait = wait};
    st->known = j->max_id;
    st->left = wait && ids ? idset_parse(ids, NULL) : NULL;
    st->states = hmap_create_u64(NULL);
    j->streams = st;
    if (f && flux_future_then(f, -1., wait ? wait_cb : watch_cb, st) == 0)
        return;
    sim_fail(j->s, "the end of jobs could not be asked for: %s", strerror(errno));
    flux_future_destroy(f);
}

void jobs_streams_check(struct jobs *j)
{
    for (struct jobs_stream *st = j->streams; st && !j->s->failed; st = st->next) {
        size_t pos = 0;
        uint64_t id;
        void *val;

        if (st->client->gone || st->over || !sim_connected(j->s, st->client->broker->rank))
            continue;
        if (st->wait)
            sim_fail(j->s, "rank %u: a wait is not over, though all jobs have ended (job %u)",
                     st->client->broker->rank, idset_first(st->left));
        /* One that ends between two job modules is not told by the second, who does not know what
         * the first has told. */
        while (!st->wait && !j->reloads && hmap_next(st->states, &pos, NULL, &id, &val)) {
            /* One that the store refused after all is not a job. */
            if ((uintptr_t)val != JOB_STATE_INACTIVE + 1u &&
                !(j->bad_store && !hmap_get_u64(j->recs, id)))
                sim_fail(j->s, "rank %u: who watches job %" PRIu64 " was not told its end",
                         st->client->broker->rank, id);
        }
    }
}

void jobs_streams_free(struct jobs *j)
{
    for (struct jobs_stream *st = j->streams; st; st = st->next) {
        idset_destroy(st->left);
        hmap_destroy(st->states);
    }
}
