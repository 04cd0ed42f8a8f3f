/* pmi.h - the process management interface, version 1, in C.
 *
 * With these functions, a program that a launcher started learns its rank and the size of its job,
 * and exchanges small pieces of text (mostly addresses) with its peers: each process puts its own
 * texts, all processes enter the barrier, then each process gets the texts that it needs.  The
 * interface is that of Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for
 * Extreme-Scale Systems" (EuroMPI 2010).
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

/* Connect to the launcher.  *spawned is set to PMI_TRUE if PMI_Spawn_multiple() of a task
 * started this process.  A second call is an error (PMI_FAIL).  When the launcher's variables are
 * incomplete or it does not answer, an error message is written to stderr. */
int PMI_Init(int *spawned);
int PMI_Initialized(PMI_BOOL *initialized);
/* Leave the job.  The pairs that this process put stay visible to the others. */
int PMI_Finalize(void);

int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
/* The number of tasks that the job could have, at least its size; some launchers report -1:
 * unknown. */
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);

/* Ask the launcher to end the job with this exit code; `error_msg` (may be null) goes to stderr.
 * PMI_SUCCESS: the launcher was notified, and will end this process too.  PMI_FAIL: there is no
 * launcher, so the caller has to exit. */
int PMI_Abort(int exit_code, const char error_msg[]);

/* Returns when all processes of the job have called it.  PMI_KVS_Get() then finds all pairs that
 * were put before. */
int PMI_Barrier(void);

/* The processes on the same node as this one, itself included, in ascending order. PMI_FAIL when
 * the launcher does not report the placement; `length` is that of ranks[]. */
int PMI_Get_clique_size(int *size);
int PMI_Get_clique_ranks(int ranks[], int length);

/* The key-value space of the job has one name. */
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);

/* Keys are written once: another value for the same key is an error (PMI_FAIL).  Keys have no
 * blanks, values no control characters.  A value of more than PMI_KVS_Get_value_length_max() bytes,
 * up to 16 MiB, is stored in segments with keys of their own, which PMI_KVS_Get() joins: for that,
 * the key must leave room for "-seg-N/N". */
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
/* Has no effect: puts are sent at once. */
int PMI_KVS_Commit(const char kvsname[]);
/* PMI_FAIL, at once, when the key is not known (yet); PMI_ERR_INVALID_VAL_LENGTH when the value
 * does not fit in `length`. */
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);

/* These functions return PMI_FAIL: a job has a single space, which is read by key. */
int PMI_KVS_Create(char kvsname[], int length);
int PMI_KVS_Destroy(const char kvsname[]);
int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len);

/* Names for ports, if the launcher has a name service; else PMI_FAIL.  `port` of the look-up has
 * room for PMI_KVS_Get_name_length_max() bytes. */
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);

/* The identity of the job: the name of its key-value space. */
int PMI_Get_id(char id_str[], int length);
int PMI_Get_kvs_domain_id(char id_str[], int length);
int PMI_Get_id_length_max(int *length);

/* Ask the launcher to start programs as tasks of their own, with a key-value space of their own.
 * errors[] (may be null) gets PMI_SUCCESS, or PMI_FAIL when none was started, for each of the
 * processes. */
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[]);

/* Read "-key value" or "-key" from the front of args[0..num_args-1]: one option, *num_parsed
 * arguments, into a new array of *size elements for PMI_Free_keyvals().  If there is no option,
 * both numbers are 0.
 */
int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp,
                     int *size);
/* Take all options from the front of a program's arguments (after its name); they are removed from
 * *argvp and *argcp. */
int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size);
int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size);
/* A text about the options of this interface, which is empty: there are none. */
int PMI_Get_options(char *str, int *length);

#ifdef __cplusplus
}
#endif

#endif
