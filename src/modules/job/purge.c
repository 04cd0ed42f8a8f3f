/* purge.c - forgetting jobs that are over: their records here and their directories in the store.
 *
 * On request (job.purge: these ids; older than an age; all but the newest so many; all, when
 * forced), and by the settings job.purge-age and job.purge-count, each time that jobs have ended
 * and when the oldest becomes too old.  The list of ended jobs is in order of their ends, so only
 * what goes is looked at.
 *
 * Invariant: an id that was purged never comes again (job-next in the store).
 *
 * Failure: what the store does not take now is tried again.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libjob/job_wire.h"

static void purge(struct jm *jm, struct jm_ended *e)
{
    jm_store_unlink(jm, e->id);
    jm_ended_drop(jm, e);
    jm->npurged++;
}

void jm_purge_check(struct jm *jm)
{
    double now = flux_reactor_now(jm->r);
    struct list_node *n;

    while ((n = list_first(&jm->ended_list))) {
        struct jm_ended *e = list_entry(n, struct jm_ended, node);

        if (hmap_count(jm->ended) <= jm->purge_count &&
            (jm->purge_age <= 0 || e->t_inactive + jm->purge_age > now))
            break;
        purge(jm, e);
    }
}

static bool young(const struct jm *jm, const struct jm_ended *e, const struct job_purge *in)
{
    return in->age > 0 && e->t_inactive + in->age > flux_reactor_now(jm->r);
}

static uint32_t purge_ids(struct jm *jm, const flux_msg_t *req, const idset_t *ids,
                          const struct job_purge *in)
{
    uint32_t n = 0;

    for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id)) {
        struct jm_ended *e = jm_ended_find(jm, id);

        if (!e || !jm_may(req, e->uid) || young(jm, e, in))
            continue;
        purge(jm, e);
        n++;
    }
    return n;
}

static uint32_t purge_oldest(struct jm *jm, const flux_msg_t *req, const struct job_purge *in)
{
    size_t keep = in->keep > 0 ? (size_t)in->keep : 0, left = hmap_count(jm->ended);
    uint32_t n = 0;

    LIST_FOREACH_SAFE(it, tmp, &jm->ended_list)
    {
        struct jm_ended *e = list_entry(it, struct jm_ended, node);

        if (left-- <= keep || young(jm, e, in))
            break;
        if (!jm_may(req, e->uid))
            continue;
        purge(jm, e);
        n++;
    }
    return n;
}

void jm_purge_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct jm *jm = arg;
    struct job_purge in = {.keep = -1};
    struct job_purged out;
    idset_t *ids = NULL;
    json_t *owner;

    if (jm_hold(jm, req, jm_purge_cb) ||
        flux_request_decode(h, req, &job_purge_schema, &in, &owner) < 0)
        return;
    if (!in.ids && in.age <= 0 && in.keep < 0 && !in.force) {
        flux_respond_error(h, req, EINVAL,
                           "which jobs is not said: give ids, an age, how many to keep, or force");
    } else if (!in.ids || (ids = jm_request_ids(jm, req, in.ids))) {
        out.purged = ids ? purge_ids(jm, req, ids, &in) : purge_oldest(jm, req, &in);
        jm_store_answer(jm, req, flux_schema_encode(&job_purged_schema, &out));
    }
    idset_destroy(ids);
    json_decref(owner);
}
