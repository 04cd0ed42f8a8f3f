/* pmixd_job.c - the description of the job for the PMIx library, and for the environment of tasks.
 *
 * The job is one PMIx namespace, named by the launcher, with an application for each program.  A
 * node is here what shares memory: brokers of one host are one node, unless wrexec.share-hosts is
 * "no".  Without host names from the launcher nodes are called nodeK, not by the name of the host:
 * tasks of two nodes must not look for each other in shared memory.
 *
 *   job      size, universe, nodes, placement of tasks (as the library's own compressed maps)
 *   node     number, local tasks, directories
 *   task     rank, local rank, node; for every task of the job
 *
 * All directories are below pd->dir, which the survivor of launcher and server removes as a whole.
 * So tasks are notified that the resource manager cleans up.
 *
 * The calls into the library in this file wait for its thread.  They happen at the start, when
 * there is nothing else to do, and for each group of spawned tasks that appears.
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libutil/strbuf.h"
#include "libutil/strutil.h"

extern char **environ;

#define TEXT_MAX ((size_t)64 << 20)

/* --- waiting for the library's thread --- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    pmix_status_t status;
};

static void waiter_init(struct waiter *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, NULL);
    w->done = false;
}

static void waiter_cb(pmix_status_t status, void *arg)
{
    struct waiter *w = arg;

    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

/* The result of a call that may answer later; `rc` is its return value. */
static pmix_status_t waiter_result(struct waiter *w, pmix_status_t rc)
{
    if (rc == PMIX_SUCCESS) {
        pthread_mutex_lock(&w->lock);
        while (!w->done)
            pthread_cond_wait(&w->cond, &w->lock);
        pthread_mutex_unlock(&w->lock);
        rc = w->status;
    } else if (rc == PMIX_OPERATION_SUCCEEDED) {
        rc = PMIX_SUCCESS;
    }
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->cond);
    return rc;
}

static int library_fail(errmsg_t *err, const char *what, pmix_status_t rc)
{
    return errmsg_fail(err, EIO, "%s: %s", what, PMIx_Error_string(rc));
}

/* --- texts --- */

static void add_host(struct pmixd *pd, strbuf_t *sb, uint32_t node)
{
    const char *p = pd->hosts;

    for (uint32_t i = 0; p && i < node; i++)
        p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL;
    if (p && *p && *p != ',')
        strbuf_addf(sb, "%.*s", (int)strcspn(p, ","), p);
    else
        strbuf_addf(sb, "node%u", pd->first + node);
}

static char *host_name(struct pmixd *pd, uint32_t node)
{
    strbuf_t *sb = strbuf_create(0);

    if (!sb)
        return NULL;
    add_host(pd, sb, node);
    return strbuf_take(sb);
}

/* "node0,node1" and "0,1;2,3", in the order of the nodes. */
static int node_texts(struct pmixd *pd, char **names, char **ranks)
{
    strbuf_t *a = strbuf_create(TEXT_MAX), *b = strbuf_create(TEXT_MAX);

    for (uint32_t i = 0; a && b && i < pmi_mapping_nnodes(pd->map); i++) {
        size_t n;
        const uint32_t *list = pmi_mapping_ranks(pd->map, i, &n);

        if (n == 0)
            continue;
        if (strbuf_len(a) > 0) {
            strbuf_addc(a, ',');
            strbuf_addc(b, ';');
        }
        add_host(pd, a, i);
        for (size_t k = 0; k < n; k++)
            strbuf_addf(b, k ? ",%u" : "%u", list[k]);
    }
    *names = a ? strbuf_take(a) : NULL;
    *ranks = b ? strbuf_take(b) : NULL;
    if (!a || !*names || !*ranks) {
        free(*names);
        free(*ranks);
        return -1;
    }
    return 0;
}

static char *local_peers(struct pmixd *pd)
{
    strbuf_t *sb = strbuf_create(TEXT_MAX);

    for (size_t k = 0; sb && k < pd->nlocal; k++)
        strbuf_addf(sb, k ? ",%u" : "%u", pd->local[k]);
    return sb ? strbuf_take(sb) : NULL;
}

/* --- the job --- */

static void add_u32(void *list, const char *key, uint32_t val)
{
    PMIx_Info_list_add(list, key, &val, PMIX_UINT32);
}

static void add_rank(void *list, const char *key, pmix_rank_t val)
{
    PMIx_Info_list_add(list, key, &val, PMIX_PROC_RANK);
}

static void add_str(void *list, const char *key, const char *val)
{
    PMIx_Info_list_add(list, key, val, PMIX_STRING);
}

static int add_maps(struct pmixd *pd, void *list, errmsg_t *err)
{
    char *names, *ranks, *regex = NULL, *ppn = NULL;
    pmix_status_t rc;

    if (node_texts(pd, &names, &ranks) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    rc = PMIx_generate_regex(names, &regex);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_generate_ppn(ranks, &ppn);
    if (rc == PMIX_SUCCESS) {
        PMIx_Info_list_add(list, PMIX_NODE_MAP, regex, PMIX_REGEX);
        PMIx_Info_list_add(list, PMIX_PROC_MAP, ppn, PMIX_REGEX);
    }
    free(names);
    free(ranks);
    free(regex);
    free(ppn);
    return rc == PMIX_SUCCESS ? 0 : library_fail(err, "the placement cannot be written", rc);
}

static uint32_t app_of(const struct pmixd *pd, uint32_t rank)
{
    uint32_t lo = 0, hi = pd->napps;

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (pd->app_first[mid] <= rank)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Add an application.  If it is the only one, its values are those of the job. */
static int add_app(struct pmixd *pd, void *list, uint32_t app)
{
    void *one = PMIx_Info_list_start();
    pmix_data_array_t array;
    pmix_status_t rc = PMIX_ERR_NOMEM;

    if (one) {
        add_u32(one, PMIX_APPNUM, app);
        add_u32(one, PMIX_APP_SIZE, pd->app_first[app + 1] - pd->app_first[app]);
        add_rank(one, PMIX_APPLDR, pd->app_first[app]);
        rc = PMIx_Info_list_convert(one, &array);
    }
    if (rc == PMIX_SUCCESS) {
        rc = PMIx_Info_list_add(list, PMIX_APP_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
        PMIX_DATA_ARRAY_DESTRUCT(&array);
    }
    if (one)
        PMIx_Info_list_release(one);
    return rc == PMIX_SUCCESS ? 0 : -1;
}

static int add_proc(struct pmixd *pd, void *list, uint32_t node, uint32_t rank, uint16_t local)
{
    void *one = PMIx_Info_list_start();
    char *host = host_name(pd, node);
    uint32_t app = app_of(pd, rank);
    pmix_data_array_t array;
    pmix_status_t rc = PMIX_ERR_NOMEM;

    if (one && host) {
        add_rank(one, PMIX_RANK, rank);
        add_rank(one, PMIX_GLOBAL_RANK, rank);
        add_rank(one, PMIX_APP_RANK, rank - pd->app_first[app]);
        PMIx_Info_list_add(one, PMIX_LOCAL_RANK, &local, PMIX_UINT16);
        PMIx_Info_list_add(one, PMIX_NODE_RANK, &local, PMIX_UINT16);
        add_u32(one, PMIX_APPNUM, app);
        add_u32(one, PMIX_NODEID, node);
        add_str(one, PMIX_HOSTNAME, host);
        add_u32(one, PMIX_REINCARNATION, 0);
        rc = PMIx_Info_list_convert(one, &array);
    }
    if (rc == PMIX_SUCCESS) {
        rc = PMIx_Info_list_add(list, PMIX_PROC_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
        PMIX_DATA_ARRAY_DESTRUCT(&array);
    }
    if (one)
        PMIx_Info_list_release(one);
    free(host);
    return rc == PMIX_SUCCESS ? 0 : -1;
}

static int add_node(struct pmixd *pd, void *list)
{
    char *peers = local_peers(pd), *host = host_name(pd, pd->node);
    bool yes = true;
    int rc = -1;

    if (peers && host) {
        add_u32(list, PMIX_LOCAL_SIZE, (uint32_t)pd->nlocal);
        add_u32(list, PMIX_NODE_SIZE, (uint32_t)pd->nlocal);
        add_u32(list, PMIX_NODEID, pd->node);
        add_str(list, PMIX_LOCAL_PEERS, peers);
        add_rank(list, PMIX_LOCALLDR, pd->local[0]);
        add_str(list, PMIX_TMPDIR, pd->dir);
        add_str(list, PMIX_NSDIR, pd->dir);
        PMIx_Info_list_add(list, PMIX_TDIR_RMCLEAN, &yes, PMIX_BOOL);
        rc = 0;
    }
    free(peers);
    free(host);
    return rc;
}

static int add_job(struct pmixd *pd, void *list, errmsg_t *err)
{
    char id[32];

    bool yes = true;

    snprintf(id, sizeof(id), "%llu", (unsigned long long)pd->top);
    add_str(list, PMIX_JOBID, id);
    add_u32(list, PMIX_JOB_SIZE, pd->ntasks);
    add_u32(list, PMIX_UNIV_SIZE, pd->universe > pd->ntasks ? pd->universe : pd->ntasks);
    if (pd->first)
        PMIx_Info_list_add(list, PMIX_SPAWNED, &yes, PMIX_BOOL);
    add_u32(list, PMIX_MAX_PROCS, pd->ntasks);
    add_u32(list, PMIX_JOB_NUM_APPS, pd->napps);
    if (pd->napps == 1) {
        add_u32(list, PMIX_APP_SIZE, pd->ntasks);
        add_rank(list, PMIX_APPLDR, 0);
    }
    for (uint32_t i = 0; pd->napps > 1 && i < pd->napps; i++)
        if (add_app(pd, list, i) < 0)
            return errmsg_fail(err, ENOMEM, "out of memory");
    add_rank(list, PMIX_NPROC_OFFSET, 0);
    add_u32(list, PMIX_NUM_NODES, pd->nnodes);
    if (add_maps(pd, list, err) < 0)
        return -1;
    if (pd->nlocal > 0 && add_node(pd, list) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    for (uint32_t node = 0; node < pmi_mapping_nnodes(pd->map); node++) {
        size_t n;
        const uint32_t *ranks = pmi_mapping_ranks(pd->map, node, &n);

        for (size_t k = 0; k < n; k++)
            if (add_proc(pd, list, node, ranks[k], (uint16_t)k) < 0)
                return errmsg_fail(err, ENOMEM, "out of memory");
    }
    return 0;
}

int pmixd_job_register(struct pmixd *pd, errmsg_t *err)
{
    void *list = PMIx_Info_list_start();
    pmix_data_array_t array;
    struct waiter w;
    pmix_status_t rc;

    if (!list)
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (add_job(pd, list, err) < 0) {
        PMIx_Info_list_release(list);
        return -1;
    }
    rc = PMIx_Info_list_convert(list, &array);
    PMIx_Info_list_release(list);
    if (rc != PMIX_SUCCESS)
        return library_fail(err, "the job cannot be described", rc);
    waiter_init(&w);
    rc = waiter_result(&w, PMIx_server_register_nspace(pd->nspace, (int)pd->nlocal, array.array,
                                                       array.size, waiter_cb, &w));
    PMIX_DATA_ARRAY_DESTRUCT(&array);
    return rc == PMIX_SUCCESS ? 0 : library_fail(err, "the job cannot be registered", rc);
}

static int register_clients(struct pmixd *pd, errmsg_t *err)
{
    for (size_t i = 0; i < pd->nlocal; i++) {
        struct waiter w;
        pmix_status_t rc;
        pmix_proc_t p;

        PMIX_LOAD_PROCID(&p, pd->nspace, pd->local[i]);
        waiter_init(&w);
        rc = waiter_result(
            &w, PMIx_server_register_client(&p, getuid(), getgid(), NULL, waiter_cb, &w));
        if (rc != PMIX_SUCCESS)
            return library_fail(err, "a task cannot be registered", rc);
    }
    return 0;
}

static int start_library(struct pmixd *pd, pmix_server_module_t *module, errmsg_t *err)
{
    void *list = PMIx_Info_list_start();
    char *host = host_name(pd, pd->node);
    pmix_rank_t rank = pd->node;
    pmix_data_array_t array;
    pmix_status_t rc = PMIX_ERR_NOMEM;
    char name[sizeof(pd->nspace) + 8];

    snprintf(name, sizeof(name), "%s.server", pd->nspace);
    if (list && host) {
        add_str(list, PMIX_SERVER_NSPACE, name);
        PMIx_Info_list_add(list, PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
        add_str(list, PMIX_SERVER_TMPDIR, pd->dir);
        add_str(list, PMIX_SYSTEM_TMPDIR, pd->dir);
        add_str(list, PMIX_HOSTNAME, host);
        rc = PMIx_Info_list_convert(list, &array);
    }
    if (list)
        PMIx_Info_list_release(list);
    free(host);
    if (rc == PMIX_SUCCESS) {
        rc = PMIx_server_init(module, array.array, array.size);
        PMIX_DATA_ARRAY_DESTRUCT(&array);
    }
    return rc == PMIX_SUCCESS ? 0 : library_fail(err, "the PMIx library does not start", rc);
}

/* Remove variables PMIX_* from the environment: with them the library would act as a client. */
static void clean_environment(void)
{
    for (char **e = environ; *e;) {
        char name[128];

        if (!str_starts(*e, "PMIX_") || str_starts(*e, "PMIX_MCA_") ||
            strcspn(*e, "=") >= sizeof(name)) {
            e++;
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
        unsetenv(name); /* moves the rest up */
    }
    setenv("PMIX_MCA_gds", "hash", 0); /* no files that a crash leaves, and the faster start */
}

int pmixd_job_start(struct pmixd *pd, pmix_server_module_t *module, errmsg_t *err)
{
    clean_environment();
    if (start_library(pd, module, err) < 0 || pmixd_job_register(pd, err) < 0 ||
        register_clients(pd, err) < 0)
        return -1;
    return 0;
}

/* --- the environment of tasks --- */

static char **fork_environment(struct pmixd *pd, uint32_t rank)
{
    char **env = NULL;
    pmix_proc_t p;

    PMIX_LOAD_PROCID(&p, pd->nspace, rank);
    if (PMIx_server_setup_fork(&p, &env) != PMIX_SUCCESS)
        return NULL;
    return env;
}

static bool has(char *const *env, const char *var)
{
    for (; *env; env++)
        if (strcmp(*env, var) == 0)
            return true;
    return false;
}

/* Append the strings of `env` that are also in `other` (same), or that are not (!same). */
static uint32_t add_strings(buf_t *b, char *const *env, char *const *other, bool same, bool *bad)
{
    uint32_t n = 0;

    for (; *env; env++)
        if (has(other, *env) == same) {
            *bad |= buf_append(b, *env, strlen(*env) + 1) < 0;
            n++;
        }
    return n;
}

static void free_strings(char **env)
{
    for (char **e = env; e && *e; e++)
        free(*e);
    free(env);
}

buf_t *pmixd_job_environment(struct pmixd *pd, const uint32_t *ranks, size_t nranks,
                             uint32_t *common, uint32_t *each, errmsg_t *err)
{
    /* Strings that the environments of two tasks do not share differ from task to task; every task
     * has the same number of them. */
    buf_t *b = buf_create(0);
    char **first = fork_environment(pd, ranks[0]);
    char **other = fork_environment(pd, nranks > 1 ? ranks[1] : ranks[0]);
    bool bad = !b || !first || !other;

    if (!bad) {
        *common = add_strings(b, first, other, true, &bad);
        *each = 0;
    }
    for (size_t i = 0; !bad && nranks > 1 && i < nranks; i++) {
        char **env = i ? fork_environment(pd, ranks[i]) : NULL;
        uint32_t n = 0;

        if (i == 0 || env)
            n = add_strings(b, env ? env : first, env ? first : other, false, &bad);
        if (i == 0)
            *each = n;
        bad |= n != *each;
        free_strings(env);
    }
    free_strings(first);
    free_strings(other);
    if (!bad)
        return b;
    buf_destroy(b);
    errmsg_fail(err, EIO, "the PMIx library gives no environment for tasks");
    return NULL;
}
