/* jm_purge.c - remove ended jobs: their records here, and their directories in the store.
 *
 * Jobs are purged on request (job.purge: by ids; by age; all but the newest; all, when forced), and
 * by the settings job.purge-age and job.purge-count, whenever jobs have ended and when the oldest
 * becomes too old.  The list of ended jobs is in the order of their ends, so only jobs that are
 * purged are visited, some in each pass (jm_many.c).
 *
 * Invariant: the id of a purged job is never used again (job-next in the store).
 *
 * Failure: if the store refuses a removal, it is tried again.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "libjob/job_wire.h"

struct jm_purge {
    bool more; /* more jobs are to be purged than one pass did */
    uint64_t purged;
};

static void purge(struct jm *jm, struct jm_ended *e)
{
    jm_store_unlink(jm, e->id);
    jm_ended_drop(jm, e);
    jm->purge->purged++;
}

void jm_purge_check(struct jm *jm)
{
    double now = flux_reactor_wall(jm->r);
    struct flux_slice slice;
    struct jm_ended *e;

    jm->purge->more = false;
    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((e = jm_ended_first(jm))) {
        if (jm_ended_count(jm) <= jm->purge_count &&
            (jm->purge_age <= 0 || e->t_inactive + jm->purge_age > now))
            break;
        if (!flux_slice_more(&slice)) {
            jm->purge->more = true; /* the next pass continues */
            jm_module_kick(jm);
            break;
        }
        purge(jm, e);
    }
}

double jm_purge_next(const struct jm *jm)
{
    const struct jm_ended *e = jm_ended_first(jm);

    if (!e || jm->purge_age <= 0)
        return INFINITY;
    return flux_reactor_from_wall(jm->r, e->t_inactive + jm->purge_age);
}

void jm_purge_pass(struct jm *jm)
{
    if (jm->purge->more)
        jm_purge_check(jm);
}

/* --- on request --- */

struct purging {
    struct jm_many many;
    flux_msg_t *req;
    struct job_purge in;
    idset_t *ids; /* the ids of the request, or NULL */
    uint32_t next;
    struct jm_ids old; /* otherwise the jobs that are old enough; `at` of them were purged */
    size_t at;
    struct job_purged out;
};

static void purging_free(struct jm_many *m)
{
    struct purging *p = list_entry(m, struct purging, many);

    idset_destroy(p->ids);
    jm_ids_clear(&p->old);
    flux_msg_destroy(p->req);
    free(p);
}

static bool young(const struct jm *jm, const struct jm_ended *e, const struct job_purge *in)
{
    return in->age > 0 && e->t_inactive + in->age > flux_reactor_wall(jm->r);
}

static void purge_id(struct purging *p, uint64_t id)
{
    struct jm *jm = p->many.jm;
    struct jm_ended *e = jm_ended_find(jm, id);

    if (!e || !jm_request_may(p->req, e->uid) || young(jm, e, &p->in))
        return;
    purge(jm, e);
    p->out.purged++;
}

static bool purge_some(struct jm_many *m, struct flux_slice *slice)
{
    struct purging *p = list_entry(m, struct purging, many);

    for (; p->next != IDSET_NONE && flux_slice_more(slice); p->next = idset_next(p->ids, p->next))
        purge_id(p, p->next);
    while (p->at < p->old.n && flux_slice_more(slice))
        purge_id(p, p->old.ids[p->at++]);
    if (p->next != IDSET_NONE || p->at < p->old.n)
        return false;
    if (p->out.purged > 0) {
        char on[64];

        snprintf(on, sizeof(on), "%llu jobs that had ended", (unsigned long long)p->out.purged);
        jm_journal_request(m->jm, p->req, "purged", on, NULL);
    }
    jm_store_answer(m->jm, p->req, flux_schema_encode(&job_purged_schema, &p->out));
    purging_free(m);
    return true;
}

static int find_old(struct jm *jm, struct purging *p)
{
    size_t keep = p->in.keep > 0 ? (size_t)p->in.keep : 0, left = jm_ended_count(jm);

    for (struct jm_ended *e = jm_ended_first(jm); e; e = jm_ended_next(jm, e)) {
        if (left-- <= keep || young(jm, e, &p->in))
            break;
        if (jm_request_may(p->req, e->uid) && jm_ids_add(&p->old, e->id) < 0)
            return -1;
    }
    return 0;
}

/* Takes `ids` over. */
static void begin(struct jm *jm, const flux_msg_t *req, const struct job_purge *in, idset_t *ids)
{
    struct purging *p = calloc(1, sizeof(*p));

    if (p) {
        p->many = (struct jm_many){.jm = jm, .step = purge_some, .drop = purging_free};
        p->req = flux_msg_incref(req);
        p->in = *in;
        p->in.ids = NULL; /* it belongs to the caller */
        p->ids = ids;
        p->next = ids ? idset_first(ids) : IDSET_NONE;
    } else {
        idset_destroy(ids);
    }
    if (!p || (!ids && find_old(jm, p) < 0)) {
        flux_respond_error(jm->h, req, ENOMEM, "the job module is out of memory");
        if (p)
            purging_free(&p->many);
        return;
    }
    jm_many_start(jm, &p->many);
}

void jm_purge_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_purge in = {.keep = -1};
    idset_t *ids = NULL;
    json_t *owner;

    if (jm_request_early(jm, req, jm_purge_cb) ||
        flux_request_decode(h, req, &job_purge_schema, &in, &owner) < 0)
        return;
    if (!in.ids && in.age <= 0 && in.keep < 0 && !in.force)
        flux_respond_error(
            h, req, EINVAL,
            "no jobs were selected: give ids, an age, a number of jobs to keep, or force");
    else if (!jm_many_full(jm, req) && (!in.ids || (ids = jm_request_ids(jm, req, in.ids))))
        begin(jm, req, &in, ids);
    json_decref(owner);
}

int jm_purge_create(struct jm *jm)
{
    struct jm_purge *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->purge = p;
    return 0;
}

void jm_purge_destroy(struct jm *jm)
{
    struct jm_purge *p = jm->purge;

    if (!p)
        return;
    free(p);
    jm->purge = NULL;
}

void jm_purge_stats(const struct jm *jm, struct job_stats *st)
{
    st->purged = jm->purge->purged;
}
