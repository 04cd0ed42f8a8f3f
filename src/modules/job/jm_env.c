/* jm_env.c - environments in memory.
 *
 * Purpose: jobs with the same environment share one struct jm_env, found by a hash of its bytes and
 * compared.  It also records under which job the environment is in the key-value store, so that for
 * the next job it can be copied by reference (jm_store.c).
 *
 * Invariants:
 *  1. An environment is in the table exactly while it has references and is marked as shared.  When
 *     two environments have the same hash, the second one is not shared.
 *  2. An environment has a source exactly while the table of sources maps that job to it.
 *
 * Failure: lack of memory is returned to the caller, and nothing has changed.
 */
#include "config.h"
#include "jm_private.h"

#include <stdlib.h>
#include <string.h>

struct jm_env_table {
    hmap_t *by_hash;
    hmap_t *sources; /* job -> environment that is under it in the store */
};

struct jm_env *jm_env_share(struct jm_env *env)
{
    env->refs++;
    return env;
}

struct jm_env *jm_env_get(struct jm *jm, const char *data, size_t len)
{
    uint64_t hash = jm_spec_hash(data, len);
    struct jm_env *env = hmap_get_u64(jm->envs->by_hash, hash);
    bool taken = env != NULL;

    if (env && env->len == len && memcmp(env->data, data, len) == 0)
        return jm_env_share(env);
    if (!(env = calloc(1, sizeof(*env) + len + 1)))
        return NULL;
    env->hash = hash;
    env->refs = 1;
    env->len = len;
    if (len)
        memcpy(env->data, data, len);
    env->shared = !taken && hmap_put_u64(jm->envs->by_hash, hash, env) == 0;
    return env;
}

void jm_env_put(struct jm *jm, struct jm_env *env)
{
    if (!env || --env->refs > 0)
        return;
    if (env->shared)
        (void)hmap_take_u64(jm->envs->by_hash, env->hash);
    if (env->source && hmap_get_u64(jm->envs->sources, env->source) == env)
        (void)hmap_take_u64(jm->envs->sources, env->source);
    free(env);
}

int jm_env_table_create(struct jm *jm)
{
    struct jm_env_table *t = calloc(1, sizeof(*t));

    if (!t)
        return -1;
    jm->envs = t;
    t->by_hash = hmap_create_u64(NULL);
    t->sources = hmap_create_u64(NULL);
    return t->by_hash && t->sources ? 0 : -1;
}

void jm_env_table_destroy(struct jm *jm)
{
    struct jm_env_table *t = jm->envs;

    if (!t)
        return;
    hmap_destroy(t->by_hash);
    hmap_destroy(t->sources);
    free(t);
    jm->envs = NULL;
}

void jm_env_stats(const struct jm *jm, struct job_stats *st)
{
    st->envs = hmap_count(jm->envs->by_hash);
}

void jm_env_set_source(struct jm *jm, struct jm_env *env, uint64_t id)
{
    if (env->refs > 1 && hmap_put_u64(jm->envs->sources, id, env) == 0)
        env->source = id;
}

uint64_t jm_env_source(const struct jm_env *env)
{
    return env->source;
}

void jm_env_drop_source(struct jm *jm, uint64_t id)
{
    struct jm_env *env = hmap_take_u64(jm->envs->sources, id);

    if (env)
        env->source = 0;
}
