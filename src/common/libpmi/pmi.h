/* pmi.h - the process management interface, version 1, in C.
 *
 * A program that a launcher started learns here its rank and the size of its job, and exchanges
 * small pieces of text (addresses, mostly) with its peers: each puts its own, all enter the
 * barrier, each gets what it needs.  The interface is that of Balaji et al., "PMI: A Scalable
 * Parallel Process-Management Interface for Extreme-Scale Systems" (EuroMPI 2010).
 *
 * Without a launcher (neither PMI_FD nor PMI_PORT in the environment) the program is rank 0 of 1.
 *
 * All functions return PMI_SUCCESS, or PMI_FAIL, or one of PMI_ERR_*; except for PMI_Init and
 * PMI_Initialized they return PMI_ERR_INIT before PMI_Init and after PMI_Finalize, and
 * PMI_ERR_INVALID_ARG for a null pointer.  Lengths of buffers count the terminating NUL.  All
 * functions may be called from any thread; calls are carried out one after the other.
 */
#ifndef FLUX_PMI_H
#define FLUX_PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL -1
#define PMI_ERR_INIT 1
#define PMI_ERR_NOMEM 2
#define PMI_ERR_INVALID_ARG 3
#define PMI_ERR_INVALID_KEY 4
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL 6
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH 8
#define PMI_ERR_INVALID_NUM_ARGS 9
#define PMI_ERR_INVALID_ARGS 10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP 12
#define PMI_ERR_INVALID_SIZE 13
#define PMI_ERR_INVALID_KVS 14

typedef int PMI_BOOL;
#define PMI_TRUE 1
#define PMI_FALSE 0

typedef struct PMI_keyval_t {
    char *key;
    char *val;
} PMI_keyval_t;

/* Connect to the launcher.  *spawned is set to PMI_FALSE: jobs are not spawned by jobs here.  A
 * second call is an error (PMI_FAIL).  When the launcher's variables are incomplete or it does not
 * answer, an error message on stderr says so. */
int PMI_Init(int *spawned);
int PMI_Initialized(PMI_BOOL *initialized);
/* Leave the job in order.  All puts of this process stay visible to the others. */
int PMI_Finalize(void);

int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
/* Tasks that the job could have, at least the size; some launchers say -1, for unknown. */
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);

/* Ask the launcher to end the job with this exit code; `error_msg` (may be null) goes to stderr.
 * The call returns: PMI_SUCCESS when the launcher was notified, and will end this process too;
 * PMI_FAIL when there is none, so that the caller has to exit. */
int PMI_Abort(int exit_code, const char error_msg[]);

/* Returns when all processes of the job have called it.  What they put before can then be got. */
int PMI_Barrier(void);

/* The processes on the same node as this one, itself included, in ascending order. PMI_FAIL when
 * the launcher does not tell the placement; `length` is that of ranks[]. */
int PMI_Get_clique_size(int *size);
int PMI_Get_clique_ranks(int ranks[], int length);

/* The key-value space of the job has one name. */
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);

/* Keys are written once: another value for the same key is an error (PMI_FAIL).  Keys have no
 * blanks, values no control characters.  A value longer than PMI_KVS_Get_value_length_max() says,
 * up to 16 MiB, goes in segments under keys of its own, which PMI_KVS_Get() puts together: for that
 * the key has to leave room for "-seg-N/N". */
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
/* Puts are sent at once, so there is nothing left to do here. */
int PMI_KVS_Commit(const char kvsname[]);
/* PMI_FAIL, at once, when the key is not known (yet); PMI_ERR_INVALID_VAL_LENGTH when the value
 * does not fit in `length`. */
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);

/* These answer PMI_FAIL: a job has the one space, read by key. */
int PMI_KVS_Create(char kvsname[], int length);
int PMI_KVS_Destroy(const char kvsname[]);
int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len);

/* Names for ports, where the launcher keeps them; else PMI_FAIL.  `port` of the look-up has room
 * for PMI_KVS_Get_name_length_max() bytes. */
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);

/* The identity of the job: the name of its key-value space. */
int PMI_Get_id(char id_str[], int length);
int PMI_Get_kvs_domain_id(char id_str[], int length);
int PMI_Get_id_length_max(int *length);

/* Ask the launcher to start programs as a job of their own; Flux answers that it does not:
 * PMI_FAIL, and in errors[] (may be null) PMI_FAIL for each of the processes. */
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[]);

/* Read "-key value" or "-key" from the front of args[0..num_args-1]: one option, *num_parsed
 * arguments, into a new array of *size elements for PMI_Free_keyvals().  No option there: 0 and 0.
 */
int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp,
                     int *size);
/* Take all options from the front of a program's arguments (after its name); those are removed from
 * *argvp and *argcp. */
int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size);
int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size);
/* A text about options for this interface; there are none, so it is empty. */
int PMI_Get_options(char *str, int *length);

#ifdef __cplusplus
}
#endif

#endif
