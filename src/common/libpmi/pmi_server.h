/* The server side of PMI-1 for the tasks of one job on one node, as a state machine.
 *
 * The server does no I/O and uses no clock: the embedding passes in the bytes that clients sent,
 * and carries out the operations of `struct pmi_server_ops`.  Pairs put by local tasks are handed
 * over as one blob (pmi_pack.h) when all local tasks have entered the barrier; the embedding adds
 * the pairs of the other nodes by pmi_server_merge() before it calls pmi_server_barrier_done().
 * From then on a look-up of any of them is answered locally.
 *
 * A task is named by its local index, 0..nlocal-1.  One server is to be used by one thread at a
 * time. Callbacks run inside the pmi_server_*() call that caused them.  A callback may call any
 * function of this header except pmi_server_input() and pmi_server_destroy(), and `send` none of
 * them.
 */
#ifndef PMI_SERVER_H
#define PMI_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

struct pmi_server;
struct pmi_pair; /* pmi_pack.h */

struct pmi_server_ops {
    /* Deliver these bytes to the task's connection: all of them, in order.  When the queue for a
     * slow reader grows, the embedding should stop reading from that task, which bounds the queue.
     * -1 when the connection is broken: the server then sends nothing more to that task.
     * Required. */
    int (*send)(void *arg, size_t idx, const void *data, size_t len);

    /* All local tasks have entered the barrier.  `blob` holds the `npairs` pairs that they put
     * since the last barrier; it is valid during the call.  The embedding completes the barrier,
     * now or later, by pmi_server_barrier_done().  Required. */
    void (*barrier)(void *arg, const void *blob, size_t len, size_t npairs);

    /* A task has put a pair, which is valid during the call.  May be NULL. */
    void (*put)(void *arg, size_t idx, const struct pmi_pair *pair);

    /* A task requests the end of the job with `exitcode`.  `msg` may be "". */
    void (*abort)(void *arg, size_t idx, int exitcode, const char *msg);

    /* A task has finalized; its connection may be closed. */
    void (*finalized)(void *arg, size_t idx);

    /* A task violated the protocol, or left without finalize; nothing more is read from it.  `text`
     * is an error message.  Usually the embedding has to end the job, since its barriers cannot
     * complete. */
    void (*client_error)(void *arg, size_t idx, const char *text);

    /* Name service; each function is NULL when there is none.  0: the embedding will call
     * pmi_server_name_done() once for that task, now or later; -1: the task gets an error. */
    int (*publish)(void *arg, size_t idx, const char *service, const char *port);
    int (*lookup)(void *arg, size_t idx, const char *service);
    int (*unpublish)(void *arg, size_t idx, const char *service);

    /* A task requests new processes: the request (pmi_spawn.h) is valid during the call.  NULL when
     * spawning is not supported.  0: the embedding will call pmi_server_spawn_done() once for that
     * task, now or later; -1: the task gets an error. */
    int (*spawn)(void *arg, size_t idx, const void *request, size_t len);
};

/* Zeros in the last group mean the defaults. */
struct pmi_server_params {
    const char *kvsname;    /* a word, the same on all nodes */
    uint32_t size;          /* tasks of the job */
    uint32_t universe_size; /* 0: as size */
    int appnum;
    size_t nlocal;         /* tasks on this node, 1.. */
    const uint32_t *ranks; /* their ranks in the job, nlocal of them */
    const int *appnums;    /* likewise, if tasks run different programs; NULL: appnum for all */

    size_t name_max;       /* 256: kvsname */
    size_t port_max;       /* 1024: names of services, and ports */
    size_t key_max;        /* 64 */
    size_t value_max;      /* 1024: announced to clients in general */
    size_t wide_value_max; /* 8192: announced to libpmi.so, and the limit for all clients */
    size_t store_max;      /* 256 MiB: bytes of all pairs held */
    size_t batch_max;      /* store_max: bytes of the blob of one barrier */
};

/* NULL with EINVAL or ENOMEM and an error message in `err` (may be NULL). `ops` must stay valid. */
struct pmi_server *pmi_server_create(const struct pmi_server_ops *ops, void *arg,
                                     const struct pmi_server_params *params, errmsg_t *err);
void pmi_server_destroy(struct pmi_server *s); /* NULL-safe, keeps errno */

/* Put a pair that does not come from a task (PMI_process_mapping, ...); it is not part of the blob.
 * -1 with EINVAL, ENOSPC or ENOMEM. */
int pmi_server_preset(struct pmi_server *s, const char *key, const char *value);

/* Process bytes from a task.  -1 with EPROTO when nothing more is read from that task (client_error
 * was called, now or before, or the task aborted), EINVAL for an index out of range, or EBUSY
 * within a callback. */
int pmi_server_input(struct pmi_server *s, size_t idx, const void *data, size_t len);

/* The connection of a task ended.  Calls client_error if the task had not finalized, or if other
 * tasks wait in a barrier that it did not enter.  For a task that never sent init, client_error is
 * called later, when another task enters a barrier. */
void pmi_server_eof(struct pmi_server *s, size_t idx);

/* Add the pairs of a blob, or of several blobs in one.  -1 with EPROTO or ENOSPC (nothing was
 * added), or ENOMEM.  The blob may include pairs of this server. */
int pmi_server_merge(struct pmi_server *s, const void *blob, size_t len);

/* Complete the barrier: all local tasks get their response.  With `rc` other than 0 they get the
 * error `text` (may be NULL).  -1 with EINVAL when no barrier was handed over. */
int pmi_server_barrier_done(struct pmi_server *s, int rc, const char *text);

/* Complete publish, lookup or unpublish of a task. `port` is the result of a successful lookup. -1
 * with EINVAL when the task has no pending request. */
int pmi_server_name_done(struct pmi_server *s, size_t idx, int rc, const char *port,
                         const char *text);

/* Complete a spawn of a task.  `rc` 0: all processes were started, and `jobid` (may be NULL) is the
 * name of their kvs.  Else none was started, and `text` (may be NULL) is the error message.  -1
 * with EINVAL when the task has no pending spawn. */
int pmi_server_spawn_done(struct pmi_server *s, size_t idx, int rc, const char *jobid,
                          const char *text);

/* Has the task sent init; has it sent finalize? */
bool pmi_server_initialized(const struct pmi_server *s, size_t idx);
bool pmi_server_finalized(const struct pmi_server *s, size_t idx);

#endif
