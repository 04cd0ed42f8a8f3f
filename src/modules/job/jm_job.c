/* jm_job.c - the table of active jobs: those that have not ended, or whose end is not recorded yet.
 *
 * Purpose: find a job by its id, list all jobs in order, count them by state, and give out ids.  A
 * job whose end is recorded is replaced by a small record (jm_ended.c).
 *
 * Invariants:
 *  1. An id is in at most one of the two tables, of active and of ended jobs.
 *  2. The list of jobs is in ascending order of ids.
 *
 * Failure: lack of memory is returned to the caller, and nothing has changed; a job whose record
 * cannot be made stays as it is, and its retirement is tried again.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define TRIM_AFTER 10000 /* jobs */

struct jm_job *jm_job_create(struct jm *jm, uint64_t id, struct jm_spec *spec, struct jm_env *env)
{
    struct jm_job *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    j->id = id;
    j->jm = jm;
    j->spec = spec;
    j->env = env;
    j->log_max = JM_EVENTLOG_MAX;
    j->canceled_by = -1;
    j->t_queued = flux_reactor_now(jm->r);
    list_init(&j->node);
    list_init(&j->dirty);
    list_init(&j->feed);
    list_init(&j->launch);
    list_init(&j->deps);
    list_init(&j->wanted_by);
    list_init(&j->waits);
    if (!(j->log = strbuf_create(0)) || hmap_put_u64(jm->active, id, j) < 0) {
        strbuf_destroy(j->log);
        free(j);
        errno = ENOMEM;
        return NULL;
    }
    list_append(&jm->jobs, &j->node);
    jm->nstate[JOB_STATE_NEW]++;
    return j;
}

void jm_job_destroy(struct jm_job *j)
{
    struct jm *jm;

    if (!j)
        return;
    jm = j->jm;
    jm->nfreed++;
    jm->nstate[j->st.state]--;
    (void)hmap_take_u64(jm->active, j->id);
    jm_time_clear(j);
    jm_depend_drop(j);
    jm_wait_ended(j, NULL);
    km_claim_drop(jm->senders, &j->claim);
    jm_watch_forget(j);
    list_remove(&j->node);
    list_remove(&j->dirty);
    list_remove(&j->feed);
    list_remove(&j->launch);
    jm_spec_put(jm, j->spec);
    jm_env_put(jm, j->env);
    strbuf_destroy(j->log);
    rset_destroy(j->r);
    free(j->r_json);
    free(j->uri);
    free(j->except_type);
    free(j->except_note);
    free(j->failed);
    free(j->why);
    free(j);
}

struct jm_job *jm_job_find(struct jm *jm, uint64_t id)
{
    return hmap_get_u64(jm->active, id);
}

/* What a burst of jobs took is given back to the system when it is over, not kept for the next. */
void jm_job_trim(struct jm *jm)
{
    if (jm->nfreed < TRIM_AFTER || jm->nfreed / 2 < hmap_count(jm->active))
        return;
    jm->nfreed = 0;
    (void)malloc_trim(0);
}

void jm_job_retire(struct jm_job *j)
{
    struct jm *jm = j->jm;
    struct jm_ended *e = jm_ended_create(j);

    if (!e || jm_ended_add(jm, e) < 0) {
        flux_log(jm->h, LOG_ERR, "out of memory for the record of job %llu",
                 (unsigned long long)j->id);
        jm_store_dirty(j);
        return;
    }
    jm_wait_ended(j, e);
    jm_journal_ended(jm, e);
    if (j->namespace)
        jm_load_remove_namespace(jm, j->id);
    jm_job_destroy(j);
}

void jm_job_fini(struct jm *jm)
{
    /* None is in a list of another one that goes before it. */
    LIST_FOREACH(it, &jm->jobs)
    jm_depend_drop(list_entry(it, struct jm_job, node));
    LIST_FOREACH_SAFE(it, tmp, &jm->jobs)
    jm_job_destroy(list_entry(it, struct jm_job, node));
    LIST_FOREACH_SAFE(it, tmp, &jm->ended_list)
    {
        struct jm_ended *e = list_entry(it, struct jm_ended, node);

        list_remove(it);
        free(e);
    }
    hmap_destroy(jm->active);
    hmap_destroy(jm->ended);
    hmap_destroy(jm->specs);
    hmap_destroy(jm->envs);
    hmap_destroy(jm->env_sources);
}
