/* jm_table.c - the jobs, what they share, and what is kept of them when they are over.
 *
 * A job that is not over is a struct jm_job; one that is over and on record is a struct jm_ended,
 * one block of some two hundred bytes.  Jobspecs and environments are shared by all jobs in memory
 * that have the same bytes, found by a hash and compared; a batch of a thousand equal jobs has one
 * of each.  Parsed jobspecs are kept until the launch while there are less than PARSED_MAX; others
 * are parsed again when they are needed.
 *
 * Invariants:
 *  1. An id is in at most one of the two tables.
 *  2. A spec or env is in its table exactly while refs > 0 and shared; two texts with one hash: the
 *     second is not shared.
 *  3. jm.jobs is in ascending order of ids, jm.ended_list in order of ends.
 *
 * Failure: out of memory is told to the caller, and nothing was changed; a job whose small record
 * cannot be made stays as it is and is tried again.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define PARSED_MAX 4096
#define ENDED_STEPS 1000
#define TRIM_AFTER 10000 /* jobs */

/* FNV-1a by eight bytes: only spreads; equality is decided by the bytes. */
static uint64_t hash_bytes(const char *data, size_t len)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ len;

    while (len >= 8) {
        uint64_t v;

        memcpy(&v, data, 8);
        h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
        data += 8;
        len -= 8;
    }
    for (size_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)data[i]) * UINT64_C(1099511628211);
    return h ^ (h >> 29);
}

/* --- jobspecs --- */

static void spec_unparse(struct jm *jm, struct jm_spec *spec)
{
    if (!spec->js)
        return;
    jobspec_destroy(spec->js);
    spec->js = NULL;
    jm->nparsed--;
}

int jm_spec_parse(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    if (spec->js)
        return 0;
    if (!(spec->js = jobspec_parse(spec->text, spec->len, err)))
        return -1;
    jm->nparsed++;
    return 0;
}

void jm_spec_idle(struct jm *jm, struct jm_spec *spec, bool launched)
{
    if (jm->nparsed > PARSED_MAX || (launched && spec->refs == 1))
        spec_unparse(jm, spec);
}

static void spec_free(struct jm *jm, struct jm_spec *spec)
{
    spec_unparse(jm, spec);
    rreq_clear(&spec->req);
    free(spec->req_json);
    free(spec->impossible);
    free(spec->name);
    free(spec);
}

void jm_spec_put(struct jm *jm, struct jm_spec *spec)
{
    if (!spec || --spec->refs > 0)
        return;
    if (spec->shared)
        (void)hmap_take_u64(jm->specs, spec->hash);
    spec_free(jm, spec);
}

/* Hosts that it may run on are ranks to the scheduler. */
static int restrict_hosts(struct jm *jm, struct jm_spec *spec, const char *hosts, errmsg_t *err)
{
    idset_t *ranks;

    if (!hosts || !jm->inventory)
        return 0;
    if (!(ranks = resgraph_ranks_of_hosts(jm->inventory, hosts, err))) {
        /* One that was accepted before a restart is not lost for that: see jm_load.c. */
        if (jm->ready || errno != ENOENT)
            return -1;
        spec->impossible = strdup(err->text);
        return spec->impossible ? 0 : -1;
    }
    if (!spec->req.ranks) {
        spec->req.ranks = ranks;
        return 0;
    }
    if (idset_keep(spec->req.ranks, ranks) < 0) {
        idset_destroy(ranks);
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    }
    idset_destroy(ranks);
    return 0;
}

static int spec_digest(struct jm *jm, struct jm_spec *spec, errmsg_t *err)
{
    const jobspec_t *js = spec->js;
    json_t *req;
    uint64_t slots;
    size_t ndeps;

    (void)jobspec_dependencies(js, &ndeps);
    spec->ndeps = (uint32_t)ndeps;
    spec->begin = jobspec_begin(js);
    spec->grace = jobspec_options(js)->grace;
    spec->ntasks = jobspec_ntasks(js);
    if (rreq_copy(&spec->req, jobspec_rreq(js)) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    if (restrict_hosts(jm, spec, jobspec_hosts(js), err) < 0)
        return -1;
    slots = jobspec_nslots(js);
    spec->nnodes = spec->req.nnodes;
    spec->ncores = (uint32_t)(slots * spec->req.cores);
    req = rreq_to_json(&spec->req);
    spec->req_json = req ? json_dumps(req, JSON_COMPACT) : NULL;
    json_decref(req);
    spec->name = strdup(jobspec_name(js));
    if (!spec->req_json || !spec->name)
        return errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
    return 0;
}

struct jm_spec *jm_spec_get(struct jm *jm, const char *text, size_t len, errmsg_t *err)
{
    uint64_t hash = hash_bytes(text, len);
    struct jm_spec *spec = hmap_get_u64(jm->specs, hash);
    bool taken = spec != NULL;
    jobspec_t *js;
    int saved;

    if (spec && spec->len == len && memcmp(spec->text, text, len) == 0) {
        spec->refs++;
        return spec;
    }
    if (!(js = jobspec_parse(text, len, err)))
        return NULL;
    if (!(spec = calloc(1, sizeof(*spec) + len + 1))) {
        jobspec_destroy(js);
        errmsg_fail(err, ENOMEM, "out of memory for a jobspec");
        return NULL;
    }
    spec->hash = hash;
    spec->refs = 1;
    spec->len = len;
    memcpy(spec->text, text, len);
    spec->js = js;
    jm->nparsed++;
    if (spec_digest(jm, spec, err) < 0) {
        saved = errno;
        spec_free(jm, spec);
        errno = saved;
        return NULL;
    }
    spec->shared = !taken && hmap_put_u64(jm->specs, hash, spec) == 0;
    return spec;
}

/* --- environments --- */

struct jm_env *jm_env_get(struct jm *jm, const char *data, size_t len)
{
    uint64_t hash = hash_bytes(data, len);
    struct jm_env *env = hmap_get_u64(jm->envs, hash);
    bool taken = env != NULL;

    if (env && env->len == len && memcmp(env->data, data, len) == 0) {
        env->refs++;
        return env;
    }
    if (!(env = calloc(1, sizeof(*env) + len + 1)))
        return NULL;
    env->hash = hash;
    env->refs = 1;
    env->len = len;
    if (len)
        memcpy(env->data, data, len);
    env->shared = !taken && hmap_put_u64(jm->envs, hash, env) == 0;
    return env;
}

void jm_env_put(struct jm *jm, struct jm_env *env)
{
    if (!env || --env->refs > 0)
        return;
    if (env->shared)
        (void)hmap_take_u64(jm->envs, env->hash);
    if (env->source && hmap_get_u64(jm->env_sources, env->source) == env)
        (void)hmap_take_u64(jm->env_sources, env->source);
    free(env);
}

/* --- jobs that are not over --- */

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

/* --- jobs that are over --- */

struct jm_ended *jm_ended_find(struct jm *jm, uint64_t id)
{
    return hmap_get_u64(jm->ended, id);
}

const char *jm_ended_text(const struct jm_ended *e, int which)
{
    const char *p = e->text;

    for (int i = 0; i < which; i++)
        p += strlen(p) + 1;
    return p;
}

struct jm_ended *jm_ended_create(const struct jm_job *j)
{
    idset_t *set = j->r ? rset_ranks(j->r) : NULL;
    char *ranks = set ? idset_format(set, 0) : NULL;
    char *hosts = j->r ? rset_hosts(j->r) : NULL;
    const char *texts[] = {j->spec ? j->spec->name : NULL,
                           ranks,
                           hosts,
                           j->except_type,
                           j->except_note,
                           j->uri,
                           j->failed};
    size_t len = 0;
    struct jm_ended *e = NULL;
    char *p;

    if (j->r && (!ranks || !hosts))
        goto out;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        len += (texts[i] ? strlen(texts[i]) : 0) + 1;
    if (!(e = calloc(1, sizeof(*e) + len)))
        goto out;
    list_init(&e->node);
    e->id = j->id;
    e->t_submit = j->st.t_submit;
    e->t_depend = j->st.t_depend;
    e->t_run = j->st.t_run;
    e->t_cleanup = j->st.t_cleanup;
    e->t_inactive = j->st.t_inactive;
    e->uid = j->st.userid;
    e->canceled_by = j->canceled_by;
    e->urgency = (uint8_t)j->st.urgency;
    e->result = (uint8_t)jobstate_result(&j->st);
    e->code = jobstate_code(&j->st);
    if (j->spec) {
        e->duration = j->spec->req.duration;
        e->nnodes = j->r ? (uint32_t)rset_nnodes(j->r) : j->spec->nnodes;
        e->ncores = j->r ? (uint32_t)rset_ncores(j->r) : j->spec->ncores;
        e->ntasks = j->spec->ntasks;
    }
    p = e->text;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t n = texts[i] ? strlen(texts[i]) : 0;

        if (n)
            memcpy(p, texts[i], n);
        p += n + 1;
    }
out:
    idset_destroy(set);
    free(ranks);
    free(hosts);
    return e;
}

int jm_ended_add(struct jm *jm, struct jm_ended *e)
{
    struct list_node *n = &jm->ended_list;
    int steps = 0;

    if (hmap_put_u64(jm->ended, e->id, e) < 0) {
        free(e);
        errno = ENOMEM;
        return -1;
    }
    /* Jobs end in order, but for those read back: jm_ended_sort().  Not so when the clock was set back:
     * then the order in which they have ended counts. */
    while (jm->ready && steps++ < ENDED_STEPS && n->prev != &jm->ended_list &&
           list_entry(n->prev, struct jm_ended, node)->t_inactive > e->t_inactive)
        n = n->prev;
    list_append(n, &e->node);
    return 0;
}

static int by_end(const void *a, const void *b)
{
    const struct jm_ended *x = *(struct jm_ended *const *)a, *y = *(struct jm_ended *const *)b;

    if (x->t_inactive != y->t_inactive)
        return x->t_inactive < y->t_inactive ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void jm_ended_sort(struct jm *jm)
{
    size_t n = 0, max = hmap_count(jm->ended);
    struct jm_ended **all = calloc(max + 1, sizeof(*all));

    if (!all) {
        flux_log(jm->h, LOG_ERR, "out of memory: ended jobs are not in the order of their ends");
        return;
    }
    LIST_FOREACH_SAFE(it, tmp, &jm->ended_list)
    {
        list_remove(it);
        all[n++] = list_entry(it, struct jm_ended, node);
    }
    qsort(all, n, sizeof(*all), by_end);
    for (size_t i = 0; i < n; i++)
        list_append(&jm->ended_list, &all[i]->node);
    free(all);
}

void jm_ended_drop(struct jm *jm, struct jm_ended *e)
{
    struct jm_env *env = hmap_take_u64(jm->env_sources, e->id);

    if (env)
        env->source = 0;
    (void)hmap_take_u64(jm->ended, e->id);
    list_remove(&e->node);
    jm->nfreed++;
    free(e);
}

/* What a burst of jobs took is given back to the system when it is over, not kept for the next. */
void jm_table_trim(struct jm *jm)
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

void jm_table_fini(struct jm *jm)
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
