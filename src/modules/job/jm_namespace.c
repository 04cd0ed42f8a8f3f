/* jm_namespace.c - remove namespaces of the key-value store that jobs have left.
 *
 * Purpose: the namespace of a job (wrexec's subjob_pmi_namespace()) is removed with the job.  If a
 * session is killed before that, the namespace is still on disk in the next session, where its
 * creators do not know it.  This file finds and removes it.
 *
 * Failure: a namespace that is not removed now is found again after the next restart.
 */
#include "config.h"
#include "jm_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"

struct jm_namespace {
    flux_future_t *f; /* the list, after a restart */
};

static void remove_one(struct jm *jm, uint64_t id)
{
    char name[32];

    snprintf(name, sizeof(name), "job-%" PRIu64, id);
    flux_future_destroy(flux_kvs_namespace_remove(jm->h, name));
}

void jm_namespace_retire(const struct jm_job *j)
{
    if (j->namespace)
        remove_one(j->jm, j->id);
}

static void namespaces_cb(flux_future_t *f, void *arg)
{
    struct jm *jm = arg;
    struct flux_kvs_namespace n;
    size_t pos = 0;
    uint64_t id;

    while (flux_kvs_namespace_next(f, &pos, &n, NULL) == 1) {
        struct jm_job *j;

        if (strncmp(n.name, "job-", 4) != 0 || str2u64(n.name + 4, &id) < 0 ||
            id >= jm_job_next_id(jm))
            continue;
        if ((j = jm_job_find(jm, id)))
            j->namespace = true;
        else
            remove_one(jm, id);
    }
    flux_future_destroy(f);
    jm->namespace->f = NULL;
}

void jm_namespace_sweep(struct jm *jm)
{
    if (!(jm->namespace->f = flux_kvs_namespace_list(jm->h)) ||
        flux_future_then(jm->namespace->f, -1., namespaces_cb, jm) < 0) {
        flux_future_destroy(jm->namespace->f);
        jm->namespace->f = NULL;
        flux_log(jm->h, LOG_ERR, "namespaces of jobs that ended are not removed: out of memory");
    }
}

int jm_namespace_create(struct jm *jm)
{
    return (jm->namespace = calloc(1, sizeof(*jm->namespace))) ? 0 : -1;
}

void jm_namespace_destroy(struct jm *jm)
{
    if (!jm->namespace)
        return;
    flux_future_destroy(jm->namespace->f);
    free(jm->namespace);
    jm->namespace = NULL;
}
