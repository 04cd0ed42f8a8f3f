/* jm_env.c - environments in memory.
 *
 * Purpose: jobs with the same environment share one struct jm_env, found by a hash of its bytes and
 * compared.  It also records under which job the environment is in the key-value store, so that the
 * next job's is a copy by reference there (jm_store.c).
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

struct jm_env *jm_env_get(struct jm *jm, const char *data, size_t len)
{
    uint64_t hash = jm_spec_hash(data, len);
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
