/* env.c - the environment of tasks.
 *
 * Purpose: the environment is built once per job, from the variables of the client, except those
 * that do not apply to a task, and the variables of the job.  Some entries at the end of the vector
 * differ from task to task (struct env), so env_task() rewrites only these.  The changes by plugins
 * (struct changes) are a layer above the variables of the client.
 *
 * Shares: the cores, gpus and memory of a node are divided among its tasks.  Task i of n gets the
 * i-th of n parts of the sorted ids.  If there are fewer ids than tasks, each task gets one id, in
 * turn.
 *
 * Failure: -1 or NULL with ENOMEM.
 */
#include "config.h"
#include "launcher.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define ROOM 40

/* The variables of the client that do not apply to a task.  A prefix ends in '*'. */
static const char *const dropped[] = {
    "PMI_*",
    "PMIX_*",
    "OMPI_MCA_pmix",
    "FLUX_URI",
    "FLUX_JOB_ID",
    "FLUX_JOB_SIZE",
    "FLUX_JOB_NNODES",
    "FLUX_JOB_TMPDIR",
    "FLUX_JOB_LEVEL",
    "FLUX_JOB_EXPIRATION",
    "FLUX_TASK_*",
    "FLUX_NODE_ID",
    "FLUX_NODE_NAME",
    "FLUX_PMI_LIBRARY_PATH",
    "OMPI_MCA_orte_tmpdir_base",
    LAUNCHER_MARK "*",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "UCX_POSIX_DIR",
    "HYDI_CONTROL_FD",
    /* in a batch script: the nodes of the whole session instead of those of the job */
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
};

static bool is_dropped(const char *var)
{
    if (!strchr("POFHIU", var[0]))
        return false;
    for (size_t i = 0; i < sizeof(dropped) / sizeof(*dropped); i++) {
        size_t n = strlen(dropped[i]);

        if (var[0] != dropped[i][0])
            continue;
        if (dropped[i][n - 1] == '*' ? strncmp(var, dropped[i], n - 1) == 0
                                     : strncmp(var, dropped[i], n) == 0 && var[n] == '=')
            return true;
    }
    return false;
}

const char *env_get(char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

void env_strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

static int add(struct env *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int add(struct env *e, const char *fmt, ...)
{
    va_list ap;
    char *s;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -1;
    e->owned[e->nowned++] = s;
    e->vars[e->n++] = s;
    return 0;
}

void env_free(struct env *e)
{
    for (size_t i = 0; i < e->nowned; i++)
        free(e->owned[i]);
    for (size_t i = 0; i < ENV_SLOTS; i++)
        free(e->shares[i]);
    free(e->vars);
    memset(e, 0, sizeof(*e));
}

void env_compact(struct env *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n; i++)
        if (e->vars[i] && e->vars[i][0])
            e->vars[n++] = e->vars[i];
    e->vars[n] = NULL;
    e->n = n;
}

/* --- variables of the job --- */

static size_t name_length(const char *var)
{
    return (size_t)(strchrnul(var, '=') - var);
}

static size_t change_of(const struct changes *c, const char *name, size_t len)
{
    size_t i = 0;

    while (i < c->n && (strncmp(c->v[i], name, len) != 0 || name_length(c->v[i]) != len))
        i++;
    return i;
}

bool env_changes_find(const struct changes *c, const char *name, const char **val)
{
    size_t len = strlen(name), i = change_of(c, name, len);

    if (i == c->n)
        return false;
    *val = c->v[i][len] == '=' ? c->v[i] + len + 1 : NULL;
    return true;
}

int env_changes_set(struct changes *c, const char *var)
{
    size_t len = name_length(var), i = change_of(c, var, len);
    char *copy = len ? strdup(var) : NULL, **v;

    if (!copy)
        return -1;
    if (i == c->n) {
        if (!(v = realloc(c->v, (i + 1) * sizeof(*v)))) {
            free(copy);
            return -1;
        }
        c->v = v;
        c->n++;
    } else {
        free(c->v[i]);
    }
    c->v[i] = copy;
    return 0;
}

int env_changes_of_command(struct changes *c, const struct command *cmd)
{
    for (char **v = cmd->changes; *v; v++)
        if (!is_dropped(*v) && env_changes_set(c, *v) < 0)
            return -1;
    return 0;
}

void env_changes_clear(struct changes *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->v[i]);
    free(c->v);
    *c = (struct changes){NULL, 0};
}

char **env_changes_apply(const struct changes *c, char *const *env)
{
    size_t n = 0, k = 0;
    char **v;

    while (env[n])
        n++;
    if (!(v = calloc(n + c->n + 1, sizeof(*v))))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!c->n || change_of(c, env[i], name_length(env[i])) == c->n)
            v[k++] = env[i];
    for (size_t i = 0; i < c->n; i++)
        if (strchr(c->v[i], '='))
            v[k++] = c->v[i];
    return v;
}

/* Return the level of a session that a task would start: the environment of the launcher holds the
 * level of this session. */
static unsigned long job_level(void)
{
    const char *s = getenv("FLUX_JOB_LEVEL");

    return (s && getenv("FLUX_JOB_ID") ? strtoul(s, NULL, 10) : 0) + 1;
}

/* Returns whether the client or a plugin has set or removed a variable. */
static bool is_said(const struct nodejob *j, const char *name)
{
    const char *val;

    return env_get(j->env, name) || env_changes_find(&j->changes, name, &val);
}

static int add_mpi(struct env *e, struct nodejob *j)
{
    struct launcher *l = j->l;
    int rc = 0;

    if (j->dir && !(j->run.flags & WIRE_F_MPI_NONE)) {
        rc |= add(e, "OMPI_MCA_btl_vader_backing_directory=%s", j->dir);
        rc |= add(e, "OMPI_MCA_btl_sm_backing_directory=%s", j->dir);
        rc |= add(e, "OMPI_MCA_orte_tmpdir_base=%s", j->dir);
        /* Below MPICH.  A disk would be slow. */
        if (str_starts(j->dir, "/dev/shm/"))
            rc |= add(e, "UCX_POSIX_DIR=%s", j->dir);
    }
    if (task_has_pmi(j)) {
        rc |= add(e, "PMI_SIZE=%u", j->run.ntasks);
        rc |= add(e, "PMI_FD=%d", PMI_TASK_FD);
        if (j->run.parent)
            rc |= add(e, "PMI_SPAWNED=1");
        if (l->libpmi)
            rc |= add(e, "FLUX_PMI_LIBRARY_PATH=%s", l->libpmi);
        e->vars[e->n++] = e->pmirank;
    }
    /* MPICH 5 does not choose between PMI-1 and PMIx by itself. */
    if (task_has_pmi(j) && j->pmix && !is_said(j, "MPIR_CVAR_PMI_VERSION"))
        rc |= add(e, "MPIR_CVAR_PMI_VERSION=1");
    /* Without this variable Intel MPI refuses to spawn. */
    if (task_has_pmi(j) && !is_said(j, "I_MPI_SPAWN"))
        rc |= add(e, "I_MPI_SPAWN=on");
    e->n += pmix_env(j, e->vars + e->n);
    e->pmix = e->vars + e->n;
    return rc;
}

static int add_job(struct env *e, struct nodejob *j)
{
    int rc = 0;

    rc |= add(e, "FLUX_JOB_ID=%" PRIu64, task_job_number(j));
    rc |= add(e, "FLUX_JOB_NNODES=%u", j->run.nnodes);
    rc |= add(e, "FLUX_JOB_SIZE=%u", j->run.ntasks);
    rc |= add(e, "FLUX_JOB_LEVEL=%lu", job_level());
    rc |= add(e, "FLUX_NODE_ID=%u", j->run.node);
    rc |= add(e, "FLUX_NODE_NAME=%s", nodejob_node_name(j));
    if (j->dir)
        rc |= add(e, "FLUX_JOB_TMPDIR=%s", j->dir);
    if (j->run.expiration)
        rc |= add(e, "FLUX_JOB_EXPIRATION=%" PRIu64 ".%06" PRIu64, j->run.expiration / 1000000,
                  j->run.expiration % 1000000);
    return rc;
}

/* --- shares of resources --- */

static int add_id(strbuf_t *sb, uint32_t lo, uint32_t hi)
{
    const char *comma = strbuf_len(sb) ? "," : "";

    return lo == hi ? strbuf_addf(sb, "%s%u", comma, lo)
                    : strbuf_addf(sb, "%s%u-%u", comma, lo, hi);
}

/* Return part i of n of a set, as "NAME=set", or as a list "0,1,2" without ranges; malloc'd.  A set
 * that cannot be read, or is empty, has no parts. */
static char *share(const char *name, const idset_t *set, uint32_t i, uint32_t n, bool list)
{
    size_t count = idset_count(set), from, to;
    strbuf_t *sb = strbuf_create(0), *ids = strbuf_create(0);
    uint32_t lo = IDSET_NONE, hi = 0;

    if (count >= n) {
        from = count * i / n;
        to = count * (i + 1) / n;
    } else {
        from = count ? i % count : 0;
        to = from + (count > 0);
    }
    for (size_t k = from; k < to; k++) {
        uint32_t id = idset_nth(set, k);

        if (lo != IDSET_NONE && !list && id == hi + 1) {
            hi = id;
            continue;
        }
        if (lo != IDSET_NONE)
            add_id(ids, lo, hi);
        lo = hi = id;
    }
    if (lo != IDSET_NONE)
        add_id(ids, lo, hi);
    strbuf_addf(sb, "%s=%s", name, ids ? strbuf_str(ids) : "");
    strbuf_destroy(ids);
    return strbuf_take(sb);
}

static void drop_var(struct env *e, const char *name)
{
    size_t len = strlen(name), n = 0;

    for (size_t i = 0; i < e->n; i++)
        if (strncmp(e->vars[i], name, len) != 0 || e->vars[i][len] != '=')
            e->vars[n++] = e->vars[i];
    e->n = n;
}

/* FLUX_TASK_THREADS tells, when the client is itself a task, a number of threads that a launcher
 * has set from one that the user has set. */
static int add_threads(struct env *e, const struct nodejob *j, uint32_t n)
{
    const char *now = env_get(j->env, "OMP_NUM_THREADS");
    const char *ours = env_get(j->env, "FLUX_TASK_THREADS");

    if (now && ours && strcmp(now, ours) == 0)
        drop_var(e, "OMP_NUM_THREADS");
    else if (is_said(j, "OMP_NUM_THREADS"))
        return 0;
    return add(e, "OMP_NUM_THREADS=%u", n) | add(e, "FLUX_TASK_THREADS=%u", n);
}

bool env_shares_cores(const struct nodejob *j)
{
    uint32_t cores = (uint32_t)idset_count(j->cores);
    cpu_set_t set;

    if (j->run.flags & (WIRE_F_NESTED | WIRE_F_EXEC))
        return false;
    if (j->run.flags & WIRE_F_CROWDED)
        return true;
    if (cores > 0)
        return cores < j->ntasks;
    return sched_getaffinity(0, sizeof(set), &set) < 0 || (uint32_t)CPU_COUNT(&set) < j->ntasks;
}

/* Variables that make libraries yield the processor while they wait.  MPICH 5 calls sched_yield()
 * by itself, which does not help; its throttle sleeps for a microsecond after this number of
 * unsuccessful polls.  MPICH 4 has no such switch.  Intel MPI: 2 is sched_yield(). */
static const struct {
    const char *name, *value;
} patient[] = {
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"},
    {"MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "100"},
    {"I_MPI_THREAD_YIELD", "2"},
    {"OMP_WAIT_POLICY", "passive"},
};

/* Tasks that share cores, also with tasks of other brokers of the host, must not wait for each
 * other in a loop, as MPI libraries and OpenMP do by default. */
static int add_waiting(struct env *e, const struct nodejob *j)
{
    uint32_t cores = (uint32_t)idset_count(j->cores);
    int rc = 0;

    if (j->run.flags & WIRE_F_NESTED)
        return 0;
    if (cores >= j->ntasks)
        rc |= add_threads(e, j, cores / j->ntasks);
    if (!env_shares_cores(j))
        return rc;
    if (cores < j->ntasks)
        rc |= add_threads(e, j, 1);
    for (size_t i = 0; i < sizeof(patient) / sizeof(*patient); i++)
        if (!is_said(j, patient[i].name))
            rc |= add(e, "%s=%s", patient[i].name, patient[i].value);
    return rc;
}

/* Add the resources of the job on this node, if they are known. */
static int add_shares(struct env *e, struct nodejob *j)
{
    if (!(j->run.flags & WIRE_F_GPU_OFF) && !idset_empty(j->gpus)) {
        drop_var(e, "CUDA_VISIBLE_DEVICES");
        drop_var(e, "ROCR_VISIBLE_DEVICES");
        e->share_at[SLOT_GPUS] = e->n++;
        e->share_at[SLOT_CUDA] = e->n++;
        e->share_at[SLOT_ROCR] = e->n++;
    }
    if (!idset_empty(j->cores))
        e->share_at[SLOT_CORES] = e->n++;
    if (j->run.memory)
        return add(e, "FLUX_TASK_MEMORY=%" PRIu64, j->run.memory / j->ntasks);
    return 0;
}

static void set_share(struct env *e, enum env_slot slot, char *text)
{
    free(e->shares[slot]);
    e->shares[slot] = text;
    if (text)
        e->vars[e->share_at[slot]] = text;
}

void env_task(struct env *e, struct nodejob *j, const struct task *t)
{
    uint32_t i = (uint32_t)(t - j->tasks), n = j->ntasks;

    snprintf(e->rank, sizeof(e->rank), "FLUX_TASK_RANK=%u", t->rank);
    snprintf(e->local, sizeof(e->local), "FLUX_TASK_LOCAL_ID=%u", i);
    snprintf(e->pmirank, sizeof(e->pmirank), "PMI_RANK=%u", t->rank);
    if (e->share_at[SLOT_CORES] && (n > 1 || !e->shares[SLOT_CORES]))
        set_share(e, SLOT_CORES, share("FLUX_TASK_CORES", j->cores, i, n, false));
    if (e->share_at[SLOT_GPUS]) {
        bool all = (j->run.flags & WIRE_F_GPU_ALL) != 0;
        uint32_t k = all ? 0 : i, of = all ? 1 : n;

        set_share(e, SLOT_GPUS, share("FLUX_TASK_GPUS", j->gpus, k, of, false));
        set_share(e, SLOT_CUDA, share("CUDA_VISIBLE_DEVICES", j->gpus, k, of, true));
        set_share(e, SLOT_ROCR, share("ROCR_VISIBLE_DEVICES", j->gpus, k, of, true));
    }
    pmix_task_env(j, t, e->pmix);
}

static bool changes_by_task(const struct env *e, const char *s)
{
    bool is = (s == e->rank || s == e->local || s == e->pmirank);

    for (size_t i = 0; i < ENV_SLOTS; i++)
        is |= (s == e->shares[i]);
    return is;
}

char **env_copy(const struct env *e, const struct changes *c, char **texts)
{
    char **v = env_changes_apply(c, e->vars), *p;
    size_t len = 0;

    *texts = NULL;
    if (!v)
        return NULL;
    for (size_t i = 0; v[i]; i++)
        len += changes_by_task(e, v[i]) ? strlen(v[i]) + 1 : 0;
    if (!(*texts = p = malloc(len))) {
        free(v);
        return NULL;
    }
    for (size_t i = 0; v[i]; i++) {
        if (!changes_by_task(e, v[i]))
            continue;
        len = strlen(v[i]) + 1;
        v[i] = memcpy(p, v[i], len);
        p += len;
    }
    return v;
}

idset_t *env_task_cores(const struct nodejob *j, const struct task *t)
{
    char *text = share("", j->cores, (uint32_t)(t - j->tasks), j->ntasks, false);
    idset_t *set = text ? idset_parse(text + 1, NULL) : NULL;

    free(text);
    return set;
}

int env_build(struct env *e, struct nodejob *j)
{
    struct launcher *l = j->l;
    int rc = 0;

    e->vars =
        calloc(j->run.envc + ROOM + j->changes.n + pmix_env_max(j) + l->nouter, sizeof(*e->vars));
    if (!e->vars)
        return -1;
    /* The first entry is never a share: index 0 means that there is no share. */
    e->vars[e->n++] = j->mark;
    for (size_t i = 0; i < l->nouter; i++)
        e->vars[e->n++] = l->outer[i];
    for (uint32_t i = 0; i < j->run.envc; i++)
        if (!is_dropped(j->env[i]) &&
            (!j->changes.n ||
             change_of(&j->changes, j->env[i], name_length(j->env[i])) == j->changes.n))
            e->vars[e->n++] = j->env[i];
    for (size_t i = 0; i < j->changes.n; i++)
        if (strchr(j->changes.v[i], '='))
            e->vars[e->n++] = j->changes.v[i];
    if (l->uri)
        rc |= add(e, "FLUX_URI=%s", l->uri);
    e->vars[e->n++] = e->rank;
    e->vars[e->n++] = e->local;
    if (j->run.flags & WIRE_F_EXEC) {
        e->pmix = e->vars + e->n;
        return rc;
    }
    rc |= add_job(e, j);
    rc |= add_waiting(e, j);
    rc |= add_shares(e, j); /* after all removals, because it remembers indexes */
    rc |= add_mpi(e, j);
    return rc;
}
