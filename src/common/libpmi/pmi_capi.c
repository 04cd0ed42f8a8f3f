/* pmi_capi.c - libpmi.so: the PMI-1 functions over pmi_client.c.
 *
 * The interface has no handle: its functions mean "this process".  Therefore there is one static
 * struct, the only one in the project, and a mutex that makes each call atomic.
 *
 * Life of the process: BEFORE --PMI_Init--> UP --PMI_Finalize--> BEFORE.  Finalize closes the
 * connection, so a second PMI_Init fails unless this is a singleton.
 *
 * Invariants:
 *  1. client is NULL in BEFORE; every function that needs it goes through enter().
 *  2. The clique is computed at its first use from PMI_process_mapping, and kept.
 *  3. The library exports only PMI_* (libpmi.map) and depends only on libc, because it is
 *     loaded into arbitrary programs.
 *  4. It writes to stderr only in PMI_Init and PMI_Abort, where the caller cannot learn the reason
 *     of the failure.
 *
 * Failure: codes of pmi.h, from errno by map_errno().
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi.h"
#include "libpmi/pmi_client.h"
#include "libpmi/pmi_mapping.h"
#include "libpmi/pmi_wire.h"

static struct {
    pthread_mutex_t lock;
    struct pmi_client *client;
    struct pmi_mapping *mapping;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Leaves the lock held when it returns PMI_SUCCESS. */
static int enter(void)
{
    pthread_mutex_lock(&self.lock);
    if (self.client)
        return PMI_SUCCESS;
    pthread_mutex_unlock(&self.lock);
    return PMI_ERR_INIT;
}

static int leave(int code)
{
    pthread_mutex_unlock(&self.lock);
    return code;
}

static int map_errno(int rc)
{
    if (rc == 0)
        return PMI_SUCCESS;
    switch (errno) {
    case ENOMEM:
        return PMI_ERR_NOMEM;
    case EINVAL:
        return PMI_ERR_INVALID_ARG;
    case ERANGE:
        return PMI_ERR_INVALID_VAL_LENGTH;
    default:
        return PMI_FAIL;
    }
}

/* Return a number that the client knows. */
static int give_int(int *dst, int (*fn)(const struct pmi_client *))
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (!dst)
        return leave(PMI_ERR_INVALID_ARG);
    *dst = fn(self.client);
    return leave(PMI_SUCCESS);
}

/* Return a number that the server has to be asked for. */
static int ask_int(int *dst, int (*fn)(struct pmi_client *, int *, errmsg_t *))
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (!dst)
        return leave(PMI_ERR_INVALID_ARG);
    return leave(map_errno(fn(self.client, dst, NULL)));
}

static int give_size(int *dst, size_t (*fn)(const struct pmi_client *), size_t extra)
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (!dst)
        return leave(PMI_ERR_INVALID_ARG);
    *dst = (int)(fn(self.client) + extra);
    return leave(PMI_SUCCESS);
}

/* Was this process started by a spawn?  PMI-1 has no request for that, so the launcher sets a
 * variable. */
static int is_spawned(void)
{
    const char *s = getenv("PMI_SPAWNED");

    return s && strcmp(s, "0") != 0 ? PMI_TRUE : PMI_FALSE;
}

int PMI_Init(int *spawned)
{
    errmsg_t err = {.text = ""};

    if (!spawned)
        return PMI_ERR_INVALID_ARG;
    pthread_mutex_lock(&self.lock);
    if (self.client)
        return leave(PMI_FAIL);
    self.client = pmi_client_create_env(&err);
    if (!self.client) {
        int rc = errno == ENOMEM ? PMI_ERR_NOMEM : PMI_FAIL;

        fprintf(stderr, "%s\n", err.text);
        return leave(rc);
    }
    *spawned = is_spawned();
    return leave(PMI_SUCCESS);
}

int PMI_Initialized(PMI_BOOL *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    pthread_mutex_lock(&self.lock);
    *initialized = self.client ? PMI_TRUE : PMI_FALSE;
    return leave(PMI_SUCCESS);
}

int PMI_Finalize(void)
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    rc = map_errno(pmi_client_finalize(self.client, NULL));
    pmi_client_destroy(self.client);
    pmi_mapping_destroy(self.mapping);
    self.client = NULL;
    self.mapping = NULL;
    return leave(rc);
}

int PMI_Get_size(int *size)
{
    return give_int(size, pmi_client_size);
}

int PMI_Get_rank(int *rank)
{
    return give_int(rank, pmi_client_rank);
}

int PMI_Get_universe_size(int *size)
{
    return ask_int(size, pmi_client_universe_size);
}

int PMI_Get_appnum(int *appnum)
{
    return ask_int(appnum, pmi_client_appnum);
}

int PMI_Abort(int exit_code, const char error_msg[])
{
    bool alone;
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (error_msg && *error_msg)
        fprintf(stderr, "rank %d: PMI_Abort(%d): %s\n", pmi_client_rank(self.client), exit_code,
                error_msg);
    alone = pmi_client_is_singleton(self.client);
    rc = pmi_client_abort(self.client, exit_code, error_msg, NULL);
    return leave(rc < 0 || alone ? PMI_FAIL : PMI_SUCCESS);
}

int PMI_Barrier(void)
{
    int rc = enter();

    return rc != PMI_SUCCESS ? rc : leave(map_errno(pmi_client_barrier(self.client, NULL)));
}

/* The ranks of this node, or NULL.  The caller holds the lock. */
static const uint32_t *clique(size_t *n)
{
    struct pmi_client *c = self.client;
    int rank = pmi_client_rank(c);

    if (!self.mapping) {
        char *text = malloc(PMI_WIRE_LINE_MAX);

        if (!text)
            return NULL;
        if (pmi_client_get(c, "PMI_process_mapping", text, PMI_WIRE_LINE_MAX, NULL) == 0)
            self.mapping = pmi_mapping_parse(text, (size_t)pmi_client_size(c));
        free(text);
        if (!self.mapping)
            return NULL;
    }
    return pmi_mapping_ranks(self.mapping, (uint32_t)pmi_mapping_node(self.mapping, (uint32_t)rank),
                             n);
}

int PMI_Get_clique_size(int *size)
{
    int rc = enter();
    size_t n;

    if (rc != PMI_SUCCESS)
        return rc;
    if (!size)
        return leave(PMI_ERR_INVALID_ARG);
    if (!clique(&n))
        return leave(PMI_FAIL);
    *size = (int)n;
    return leave(PMI_SUCCESS);
}

int PMI_Get_clique_ranks(int ranks[], int length)
{
    const uint32_t *list;
    int rc = enter();
    size_t n;

    if (rc != PMI_SUCCESS)
        return rc;
    if (!ranks)
        return leave(PMI_ERR_INVALID_ARG);
    list = clique(&n);
    if (!list)
        return leave(PMI_FAIL);
    if (length < 0 || (size_t)length < n)
        return leave(PMI_ERR_INVALID_SIZE);
    for (size_t i = 0; i < n; i++)
        ranks[i] = (int)list[i];
    return leave(PMI_SUCCESS);
}

static int give_name(char *dst, int length)
{
    const char *name;
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (!dst)
        return leave(PMI_ERR_INVALID_ARG);
    name = pmi_client_kvsname(self.client);
    if (length < 0 || strlen(name) >= (size_t)length)
        return leave(PMI_ERR_INVALID_LENGTH);
    strcpy(dst, name);
    return leave(PMI_SUCCESS);
}

int PMI_KVS_Get_my_name(char kvsname[], int length)
{
    return give_name(kvsname, length);
}

int PMI_Get_id(char id_str[], int length)
{
    return give_name(id_str, length);
}

int PMI_Get_kvs_domain_id(char id_str[], int length)
{
    return give_name(id_str, length);
}

int PMI_Get_id_length_max(int *length)
{
    return give_size(length, pmi_client_name_max, 1);
}

int PMI_KVS_Get_name_length_max(int *length)
{
    return give_size(length, pmi_client_name_max, 1);
}

int PMI_KVS_Get_key_length_max(int *length)
{
    return give_size(length, pmi_client_key_max, 0);
}

int PMI_KVS_Get_value_length_max(int *length)
{
    return give_size(length, pmi_client_value_max, 0);
}

/* The caller holds the lock. */
static int check_kvs(const char *kvsname)
{
    if (!kvsname)
        return PMI_ERR_INVALID_ARG;
    return strcmp(kvsname, pmi_client_kvsname(self.client)) ? PMI_ERR_INVALID_KVS : PMI_SUCCESS;
}

static int check_key(const char *key)
{
    size_t max = pmi_client_key_max(self.client);

    if (!key || !*key)
        return PMI_ERR_INVALID_KEY;
    if (strlen(key) > max)
        return PMI_ERR_INVALID_KEY_LENGTH;
    return pmi_wire_word_ok(key, strlen(key), max) ? PMI_SUCCESS : PMI_ERR_INVALID_KEY;
}

static int check_value(const char *value)
{
    size_t max = PMI_CLIENT_VALUE_LIMIT;

    if (!value)
        return PMI_ERR_INVALID_VAL;
    if (strlen(value) > max)
        return PMI_ERR_INVALID_VAL_LENGTH;
    return pmi_wire_value_ok(value, strlen(value), max) ? PMI_SUCCESS : PMI_ERR_INVALID_VAL;
}

int PMI_KVS_Put(const char kvsname[], const char key[], const char value[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if ((rc = check_kvs(kvsname)) != PMI_SUCCESS || (rc = check_key(key)) != PMI_SUCCESS ||
        (rc = check_value(value)) != PMI_SUCCESS)
        return leave(rc);
    return leave(map_errno(pmi_client_put(self.client, key, value, NULL)));
}

int PMI_KVS_Commit(const char kvsname[])
{
    int rc = enter();

    return rc != PMI_SUCCESS ? rc : leave(check_kvs(kvsname));
}

int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length)
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if ((rc = check_kvs(kvsname)) != PMI_SUCCESS || (rc = check_key(key)) != PMI_SUCCESS)
        return leave(rc);
    if (!value)
        return leave(PMI_ERR_INVALID_VAL);
    if (length <= 0)
        return leave(PMI_ERR_INVALID_LENGTH);
    return leave(map_errno(pmi_client_get(self.client, key, value, (size_t)length, NULL)));
}

static int unsupported(void)
{
    int rc = enter();

    return rc != PMI_SUCCESS ? rc : leave(PMI_FAIL);
}

int PMI_KVS_Create(char kvsname[], int length)
{
    return unsupported();
}

int PMI_KVS_Destroy(const char kvsname[])
{
    return unsupported();
}

int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    return unsupported();
}

int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    return unsupported();
}

int PMI_Publish_name(const char service_name[], const char port[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    return leave(map_errno(pmi_client_publish(self.client, service_name, port, NULL)));
}

int PMI_Unpublish_name(const char service_name[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    return leave(map_errno(pmi_client_unpublish(self.client, service_name, NULL)));
}

int PMI_Lookup_name(const char service_name[], char port[])
{
    int rc = enter();

    if (rc != PMI_SUCCESS)
        return rc;
    if (!port)
        return leave(PMI_ERR_INVALID_ARG);
    return leave(map_errno(pmi_client_lookup(self.client, service_name, port,
                                             pmi_client_name_max(self.client) + 1, NULL)));
}

/* Keys and values in turn, for pmi_client_spawn().  NULL if memory is short. */
static const char **pair_list(const PMI_keyval_t *v, int n)
{
    const char **list = calloc(2 * (size_t)(n > 0 ? n : 0) + 1, sizeof(*list));

    for (int i = 0; list && i < n; i++) {
        list[2 * i] = v[i].key ? v[i].key : "";
        list[2 * i + 1] = v[i].val ? v[i].val : "";
    }
    return list;
}

static int spawn(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                 const int info_sizes[], const PMI_keyval_t *infos[], int npreput,
                 const PMI_keyval_t preputs[])
{
    struct pmi_client_command *list = calloc((size_t)count, sizeof(*list));
    const char **preput = pair_list(preputs, npreput);
    int rc = PMI_ERR_NOMEM;
    bool bad = !list || !preput;

    for (int i = 0; !bad && i < count; i++) {
        int n = info_sizes && infos && infos[i] ? info_sizes[i] : 0;
        const char **info = pair_list(n ? infos[i] : NULL, n);

        bad |= !info;
        list[i] = (struct pmi_client_command){.program = cmds[i],
                                              .argv = argvs ? argvs[i] : NULL,
                                              .nprocs = maxprocs[i],
                                              .ninfo = (size_t)(n > 0 ? n : 0),
                                              .info = info};
    }
    if (!bad)
        rc = map_errno(pmi_client_spawn(self.client, list, (size_t)count, preput,
                                        (size_t)(npreput > 0 ? npreput : 0), NULL));
    for (int i = 0; list && i < count; i++)
        free((void *)list[i].info);
    free(list);
    free(preput);
    return rc;
}

int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[])
{
    int rc = enter();
    size_t n = 0;

    if (rc != PMI_SUCCESS)
        return rc;
    if (count < 1 || !cmds || !maxprocs || (preput_keyval_size > 0 && !preput_keyval_vector))
        return leave(PMI_ERR_INVALID_ARG);
    rc = spawn(count, cmds, argvs, maxprocs, info_keyval_sizesp, info_keyval_vectors,
               preput_keyval_size, preput_keyval_vector);
    for (int i = 0; i < count && errors; i++) {
        for (int k = 0; k < maxprocs[i]; k++)
            errors[n++] = rc == PMI_SUCCESS ? PMI_SUCCESS : PMI_FAIL;
    }
    return leave(rc);
}

/* Read one option from args[0..n-1] into *kv.  Returns the number of arguments of the option, 0 if
 * there is none at the front, or -1 if memory is short. */
static int take_option(int n, char *args[], PMI_keyval_t *kv)
{
    bool with_value;

    if (n < 1 || !args[0] || args[0][0] != '-' || !args[0][1])
        return 0;
    with_value = n > 1 && args[1] && args[1][0] != '-';
    kv->key = strdup(args[0] + 1);
    kv->val = strdup(with_value ? args[1] : "");
    if (kv->key && kv->val)
        return with_value ? 2 : 1;
    free(kv->key);
    free(kv->val);
    return -1;
}

int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp, int *size)
{
    PMI_keyval_t *kv;

    if (num_args < 1)
        return PMI_ERR_INVALID_NUM_ARGS;
    if (!args)
        return PMI_ERR_INVALID_ARGS;
    if (!num_parsed)
        return PMI_ERR_INVALID_NUM_PARSED;
    if (!keyvalp)
        return PMI_ERR_INVALID_KEYVALP;
    if (!size)
        return PMI_ERR_INVALID_SIZE;
    *keyvalp = NULL;
    *size = *num_parsed = 0;
    kv = calloc(1, sizeof(*kv));
    if (!kv)
        return PMI_ERR_NOMEM;
    *num_parsed = take_option(num_args, args, kv);
    if (*num_parsed > 0) {
        *keyvalp = kv;
        *size = 1;
        return PMI_SUCCESS;
    }
    free(kv);
    if (*num_parsed == 0)
        return PMI_SUCCESS;
    *num_parsed = 0;
    return PMI_ERR_NOMEM;
}

int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size)
{
    PMI_keyval_t *kv;
    int taken = 0, n = 0, used;

    if (!argcp || !argvp || *argcp < 1)
        return PMI_ERR_INVALID_ARG;
    if (!keyvalp)
        return PMI_ERR_INVALID_KEYVALP;
    if (!size)
        return PMI_ERR_INVALID_SIZE;
    *keyvalp = NULL;
    *size = 0;
    kv = calloc((size_t)*argcp, sizeof(*kv));
    if (!kv)
        return PMI_ERR_NOMEM;
    while ((used = take_option(*argcp - 1 - taken, *argvp + 1 + taken, &kv[n])) > 0) {
        taken += used;
        n++;
    }
    if (used < 0) {
        PMI_Free_keyvals(kv, n);
        return PMI_ERR_NOMEM;
    }
    for (int i = 1; i + taken < *argcp; i++)
        (*argvp)[i] = (*argvp)[i + taken];
    if (taken)
        (*argvp)[*argcp - taken] = NULL;
    *argcp -= taken;
    if (n == 0) {
        free(kv);
        return PMI_SUCCESS;
    }
    *keyvalp = kv;
    *size = n;
    return PMI_SUCCESS;
}

int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size)
{
    if (size < 0 || (!keyvalp && size > 0))
        return PMI_ERR_INVALID_ARG;
    for (int i = 0; i < size; i++) {
        free(keyvalp[i].key);
        free(keyvalp[i].val);
    }
    free(keyvalp);
    return PMI_SUCCESS;
}

int PMI_Get_options(char *str, int *length)
{
    if (!str || !length)
        return PMI_ERR_INVALID_ARG;
    if (*length < 1)
        return PMI_ERR_INVALID_LENGTH;
    *str = '\0';
    *length = 0;
    return PMI_SUCCESS;
}
