/* jm_job.c - the table of active jobs: those that have not ended, or whose end is not recorded yet.
 *
 * Purpose: find a job by its id, list all jobs in order, count them by state, and assign ids.  A
 * job whose end is recorded is replaced by a small record (jm_ended.c).
 *
 * Invariants:
 *  1. An id is in at most one of the two tables, of active and of ended jobs.
 *  2. The list of jobs is in ascending order of ids.
 *  3. The number of held jobs is that of the jobs in SCHED whose urgency is 0.
 *
 * Failure: lack of memory is returned to the caller, and nothing has changed; a job whose record
 * cannot be made stays as it is, and its retirement is tried again.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "libutil/invariant.h"

#define TRIM_AFTER 10000 /* jobs */

struct jm_job_table {
    hmap_t *by_id;
    struct list_node list; /* jm_job.node */
    uint32_t nstate[JOB_STATES];
    uint32_t nheld; /* number of jobs in SCHED with urgency 0 */
    uint64_t next_id;
    uint64_t nfreed; /* number freed, active or ended, since memory was returned to the system */
};

struct jm_job *jm_job_create(struct jm *jm, uint64_t id, struct jm_spec *spec, struct jm_env *env)
{
    struct jm_job *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    j->id = id;
    j->jm = jm;
    j->spec = spec;
    j->env = env;
    list_init(&j->node);
    jm_store_job_init(j);
    jm_sched_job_init(j);
    jm_exec_job_init(j);
    jm_depend_job_init(j);
    jm_wait_job_init(j);
    jm_client_job_init(j);
    if (jm_state_job_init(j) < 0 || hmap_put_u64(jm->jobs->by_id, id, j) < 0) {
        jm_state_job_clear(j);
        free(j);
        errno = ENOMEM;
        return NULL;
    }
    list_append(&jm->jobs->list, &j->node);
    jm->jobs->nstate[JOB_STATE_NEW]++;
    return j;
}

void jm_job_destroy(struct jm_job *j)
{
    struct jm *jm;

    if (!j)
        return;
    jm = j->jm;
    jm->jobs->nfreed++;
    jm->jobs->nstate[j->st.state]--;
    jm->jobs->nheld -= jm_job_held(j);
    (void)hmap_take_u64(jm->jobs->by_id, j->id);
    jm_time_clear(j);
    jm_depend_drop(j);
    jm_wait_ended(j, NULL);
    jm_client_job_clear(j);
    jm_watch_forget(j);
    jm_list_job_gone(j);
    list_remove(&j->node);
    jm_store_job_clear(j);
    jm_sched_job_clear(j);
    jm_exec_forget(j);
    jm_spec_put(jm, j->spec);
    jm_env_put(jm, j->env);
    jm_control_job_clear(j);
    jm_state_job_clear(j);
    free(j);
}

struct jm_job *jm_job_find(const struct jm *jm, uint64_t id)
{
    return hmap_get_u64(jm->jobs->by_id, id);
}

/* After a burst of jobs, return its memory to the system instead of keeping it for the next
 * burst. */
void jm_job_trim(struct jm *jm)
{
    if (jm->jobs->nfreed < TRIM_AFTER || jm->jobs->nfreed / 2 < hmap_count(jm->jobs->by_id))
        return;
    jm->jobs->nfreed = 0;
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
    jm_namespace_retire(j);
    jm_job_destroy(j);
}

/* --- queries --- */

struct jm_job *jm_job_first(const struct jm *jm)
{
    struct list_node *n = list_first(&jm->jobs->list);

    return n ? list_entry(n, struct jm_job, node) : NULL;
}

struct jm_job *jm_job_next(const struct jm_job *j)
{
    struct list_node *n = j->node.next;

    return n != &j->jm->jobs->list ? list_entry(n, struct jm_job, node) : NULL;
}

struct jm_job *jm_job_prev(const struct jm_job *j)
{
    struct list_node *n = j->node.prev;

    return n != &j->jm->jobs->list ? list_entry(n, struct jm_job, node) : NULL;
}

size_t jm_job_count(const struct jm *jm)
{
    return hmap_count(jm->jobs->by_id);
}

uint32_t jm_job_count_states(const struct jm *jm, unsigned states)
{
    uint32_t n = 0;

    for (int s = 0; s < JOB_STATES; s++)
        if (states & JOB_STATE_BIT(s))
            n += jm->jobs->nstate[s];
    return n;
}

bool jm_job_held(const struct jm_job *j)
{
    return j->st.state == JOB_STATE_SCHED && j->st.urgency == JOB_URGENCY_HOLD;
}

uint32_t jm_job_count_held(const struct jm *jm)
{
    return jm->jobs->nheld;
}

void jm_job_moved(struct jm_job *j, enum job_state was, bool held)
{
    struct jm_job_table *t = j->jm->jobs;

    t->nstate[was]--;
    t->nstate[j->st.state]++;
    t->nheld -= held;
    t->nheld += jm_job_held(j);
    INVARIANT(3, t->nheld <= t->nstate[JOB_STATE_SCHED]);
}

uint64_t jm_job_next_id(const struct jm *jm)
{
    return jm->jobs->next_id;
}

void jm_job_reserve(struct jm *jm, uint64_t id)
{
    if (id >= jm->jobs->next_id)
        jm->jobs->next_id = id + 1;
}

void jm_job_freed(struct jm *jm)
{
    jm->jobs->nfreed++;
}

static int by_id(const struct list_node *a, const struct list_node *b)
{
    const struct jm_job *x = list_entry(a, struct jm_job, node);
    const struct jm_job *y = list_entry(b, struct jm_job, node);

    return x->id < y->id ? -1 : x->id > y->id;
}

/* The jobs are in the order of the directory. */
void jm_job_sort(struct jm *jm)
{
    list_sort(&jm->jobs->list, by_id);
}

/* --- the table --- */

int jm_job_table_create(struct jm *jm)
{
    struct jm_job_table *t = calloc(1, sizeof(*t));

    if (!t)
        return -1;
    jm->jobs = t;
    t->next_id = 1;
    list_init(&t->list);
    return (t->by_id = hmap_create_u64(NULL)) ? 0 : -1;
}

void jm_job_table_destroy(struct jm *jm)
{
    struct jm_job_table *t = jm->jobs;

    if (!t)
        return;
    /* When a job is destroyed, no other job may depend on it. */
    LIST_FOREACH(it, &t->list)
    jm_depend_drop(list_entry(it, struct jm_job, node));
    LIST_FOREACH_SAFE(it, tmp, &t->list)
    jm_job_destroy(list_entry(it, struct jm_job, node));
    hmap_destroy(t->by_id);
    free(t);
    jm->jobs = NULL;
}

void jm_job_stats(const struct jm *jm, struct job_stats *st)
{
    st->active = jm_job_count(jm);
}
