/* The interfaces between the sources of flux-pmixd; overview: pmixd.c. */
#ifndef PMIXD_PMIXD_H
#define PMIXD_PMIXD_H

#include <netinet/in.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "libflux/flux.h"
#include "libidset/idset.h"
#include "libkvs/kvs.h"
#include "libpmi/pmi_mapping.h"
#include "libutil/buf.h"
#include "libutil/errmsg.h"
#include "libutil/hmap.h"
#include "libutil/list.h"

struct pmixd;
struct served;

/* A call that the library's thread passes to the main thread.  It is the first member of a larger
 * structure, which `run` owns. */
struct call {
    struct list_node node;
    void (*run)(struct pmixd *pd, struct call *c);
};

/* An operation that waits until the job's namespace is ready. */
struct waiting {
    struct list_node node;
    void (*go)(void *arg);
    void *arg;
};

struct pmixd {
    /* The job, from the options */
    uint64_t id;
    uint32_t node;
    uint32_t nnodes;
    uint32_t ntasks;
    uint64_t top;      /* the job that these tasks belong to: `id`, unless they were spawned */
    uint32_t first;    /* number in it of the first of them */
    uint32_t seat;     /* of this server: node + first */
    uint32_t universe; /* tasks that it has room for */
    const char *mapping;
    const char *dir; /* the server's directory: made and removed here */
    const char *uri;
    const char *hosts;   /* comma-separated names of the nodes; NULL: nodeK */
    const char *apps;    /* comma-separated numbers of tasks per program; NULL: one program */
    uint32_t *app_first; /* rank of the first task of each, and at last the number of all tasks */
    uint32_t napps;
    struct pmi_mapping *map;
    const uint32_t *local; /* ranks on this node */
    size_t nlocal;
    pmix_nspace_t nspace;
    int door;                   /* connections come through it; -1: none, or the library has it */
    struct sockaddr_in address; /* where tasks connect, when there is a door */
    char ns[32];                /* the job's namespace in the store */

    flux_reactor_t *r;
    int fd; /* to the launcher */
    bool failed;
    flux_t *h; /* NULL until needed */

    /* Calls from the library's thread */
    pthread_mutex_t lock;
    struct list_node calls;
    int wake; /* eventfd */

    /* pmixd_door.c, under the lock */
    int listener; /* the library's socket, when that is the door; -1: not yet */
    bool open;
    pthread_cond_t opened;

    /* pmixd_nodes.c */
    const char *ranks;          /* of the first node's tasks; NULL: all that are local */
    uint32_t followers, joined; /* nodes that may join, and that have */
    struct list_node served;    /* the launchers; the first has started us */
    pthread_mutex_t speaking;   /* guards writes to them, and served_by and begun */
    struct served **served_by;  /* of each task; NULL: not here, or not yet */
    bool begun;                 /* some task has connected */
    int passed;                 /* descriptor for the next PMIX_JOIN; -1: none */
    bool ready, leaving;

    /* pmixd_exchange.c */
    hmap_t *seqs; /* name of a group of nodes -> how many exchanges it had */
    bool ns_asked;
    bool ns_ready;
    flux_future_t *ns_made;
    struct list_node waiting;
    uint64_t contexts; /* group contexts given out by this node */

    /* pmixd_family.c */
    struct list_node families;  /* other groups of the job */
    struct list_node strangers; /* calls that wait for a group to be known */
    flux_future_t *family_watch;
    struct waiting open_family, tell_family;
    bool watching, reported;
    flux_watcher_t *patience; /* with them */
    bool late;                /* it has ended */

    /* pmixd_spawn.c */
    hmap_t *spawns; /* tag -> struct spawn_call */
    uint32_t spawn_seq;

    /* pmixd_modex.c */
    struct waiting open_box;
    bool box_asked;
    flux_future_t *box;
    hmap_t *modex; /* number -> struct asked */
    uint64_t modex_seq;
};

/* pmixd.c */
/* From any thread. */
void pmixd_post(struct pmixd *pd, struct call *c);
/* Fill in the programs from `apps`.  -1 with an error message. */
int pmixd_read_apps(struct pmixd *pd, errmsg_t *err);
/* The handle, connected at the first call.  NULL with errno and an error message. */
flux_t *pmixd_handle(struct pmixd *pd, errmsg_t *err);

/* pmixd_nodes.c */
/* Begin to serve the launcher that has started this program.  -1 with an error message. */
int pmixd_nodes_init(struct pmixd *pd, errmsg_t *err);
/* Fail the job, with its exit code, the rank concerned (-1: none), and the reason.  Only the first
 * failure counts. */
void pmixd_nodes_fail(struct pmixd *pd, int code, int64_t rank, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Tell a task's launcher that the task has connected or finalized; from any thread. */
enum { PMIXD_CONNECTED = 1, PMIXD_FINALIZED };
void pmixd_nodes_tell_client(struct pmixd *pd, uint32_t rank, uint32_t what);
/* Ask for further tasks for this one: `request` is the frame SPAWN (exec_wire.h) without its first
 * number. */
void pmixd_nodes_ask_spawn(struct pmixd *pd, uint32_t rank, uint32_t tag, const void *request,
                           size_t len);
/* The tasks may start. */
void pmixd_nodes_ready(struct pmixd *pd);

/* pmixd_job.c */
/* Start the library, and tell it about the job.  -1 with an error message. */
int pmixd_job_start(struct pmixd *pd, pmix_server_module_t *module, errmsg_t *err);
/* Tell the library about these tasks, of this server or of another group of the job. */
int pmixd_job_register(struct pmixd *about, errmsg_t *err);
/* The environment of these tasks: strings with their NULs, first `*common` strings for all, then
 * `*each` strings for each task in turn. */
buf_t *pmixd_job_environment(struct pmixd *pd, const uint32_t *ranks, size_t nranks,
                             uint32_t *common, uint32_t *each, errmsg_t *err);

/* pmixd_door.c */
/* Set the address to which the tasks connect, ADDRESS:PORT.  -1: malformed. */
int pmixd_door_address(struct pmixd *pd, const char *text);
/* The job is known to the library: let tasks in. */
void pmixd_door_open(struct pmixd *pd);

/* pmixd_server.c: what the library calls */
pmix_server_module_t *pmixd_server_module(struct pmixd *pd);

/* pmixd_exchange.c */
/* Each node of `nodes` (this one included) contributes some bytes and gets the concatenation of all
 * contributions, in no particular order.  `done` is called once, with an error message or NULL. */
typedef void (*exchange_f)(void *arg, const char *error, const void *data, size_t len);
void pmixd_exchange(struct pmixd *pd, const char *what, const idset_t *nodes, const void *data,
                    size_t len, exchange_f done, void *arg);
/* Seats of the servers of these processes, and numbers in the job of these in *ranks when that is
 * not NULL.  NULL with EINVAL when they are not all of this job, ENOENT when some are of a group
 * that is not known yet. */
idset_t *pmixd_exchange_nodes_of(struct pmixd *pd, const pmix_proc_t *procs, size_t n,
                                 idset_t **ranks);
/* Call w->go once the namespace is ready; the caller keeps `w` until then. */
void pmixd_exchange_when_ready(struct pmixd *pd, struct waiting *w);
/* Commit without waiting; a failure fails the job. */
void pmixd_exchange_commit(struct pmixd *pd, flux_kvs_txn_t *txn, const char *what);

/* pmixd_family.c */
/* The group of a namespace, or of the task with this number in the job; NULL: not known (yet). */
const struct pmixd *pmixd_family_group_of_nspace(struct pmixd *pd, const char *nspace);
const struct pmixd *pmixd_family_group_of(struct pmixd *pd, uint32_t number);
/* The seat of the server of that task; UINT32_MAX: not known. */
uint32_t pmixd_family_seat_of(struct pmixd *pd, uint32_t number);
/* Can a namespace be that of a group of this job?  From any thread. */
bool pmixd_family_may_be_ours(const struct pmixd *pd, const char *nspace);
/* Run a call again when another group is known, or, with pd->late set, when that takes too long. */
void pmixd_family_await(struct pmixd *pd, struct call *c);
/* Watch for other groups from now on; describe this group to them. */
void pmixd_family_watch(struct pmixd *pd);
void pmixd_family_tell(struct pmixd *pd);

/* pmixd_spawn.c */
#define PMIXD_NSPACE_PREFIX "flux-"
pmix_status_t pmixd_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                          const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cb,
                          void *cbdata);
/* The answer: an errno, or 0 and the name of the new tasks. */
void pmixd_spawned(struct pmixd *pd, uint32_t tag, int errnum, const char *name);

/* pmixd_modex.c */
/* Open the mailbox of this node, once the namespace is there. */
void pmixd_modex_init(struct pmixd *pd);
pmix_status_t pmixd_modex_direct(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                 pmix_modex_cbfunc_t cbfunc, void *cbdata);

/* pmixd_names.c */
pmix_status_t pmixd_names_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                  pmix_op_cbfunc_t cbfunc, void *cbdata);
pmix_status_t pmixd_names_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                 size_t ninfo, pmix_lookup_cbfunc_t cbfunc, void *cbdata);
pmix_status_t pmixd_names_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                    size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);

/* The one of this process: the library's callbacks carry no argument of ours. */
struct pmixd *pmixd_self(void);

#endif
