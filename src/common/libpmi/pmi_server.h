/* The server side of PMI-1 for the tasks of one job on one node, as a state machine.
 *
 * It does no I/O and knows no time: the embedding feeds the bytes that clients sent and carries out
 * what it asks for through `struct pmi_server_ops`.  Pairs put by local tasks are handed over as
 * one blob (pmi_pack.h) when all local tasks have entered the barrier; what the other nodes had to
 * say comes back with pmi_server_merge() before pmi_server_barrier_done().  From then on a look-up
 * of any of them is answered locally.
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
    /* Deliver these bytes to the task's connection: all of them, in order.  An embedding whose
     * queue for a slow reader grows stops feeding that task's input, and so bounds it.  -1 when the
     * connection is broken: nothing more is sent to that task.  Required. */
    int (*send)(void *arg, size_t idx, const void *data, size_t len);

    /* All local tasks have entered the barrier.  `blob` holds the `npairs` pairs that they put
     * since the last one; it is valid during the call.  Answer, now or later, with
     * pmi_server_barrier_done().  Required. */
    void (*barrier)(void *arg, const void *blob, size_t len, size_t npairs);

    /* A task has put a pair, which is valid during the call.  May be NULL. */
    void (*put)(void *arg, size_t idx, const struct pmi_pair *pair);

    /* A task asks for the end of the job; `exitcode` is what it said.  `msg` may be "". */
    void (*abort)(void *arg, size_t idx, int exitcode, const char *msg);

    /* A task left properly; its connection may be closed. */
    void (*finalized)(void *arg, size_t idx);

    /* A task broke the protocol or left without finalize; nothing more is read from it.  `text` is
     * an error message.  Usually the job has to be ended, since its barriers cannot complete. */
    void (*client_error)(void *arg, size_t idx, const char *text);

    /* Name service, each NULL when there is none.  A return of 0 promises one call of
     * pmi_server_name_done() for that task, now or later; -1 answers the task with failure. */
    int (*publish)(void *arg, size_t idx, const char *service, const char *port);
    int (*lookup)(void *arg, size_t idx, const char *service);
    int (*unpublish)(void *arg, size_t idx, const char *service);

    /* A task asks for new processes: what, as in pmi_spawn.h; valid during the call.  NULL when
     * that cannot be.  0 promises one call of pmi_server_spawn_done() for that task, now or later;
     * -1 answers it with failure. */
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
    const int *appnums;    /* likewise, where tasks run different programs; NULL: appnum for all */

    size_t name_max;       /* 256: kvsname */
    size_t port_max;       /* 1024: names of services, and ports */
    size_t key_max;        /* 64 */
    size_t value_max;      /* 1024: announced to clients in general */
    size_t wide_value_max; /* 8192: announced to libpmi.so, and accepted */
    size_t store_max;      /* 256 MiB: bytes of all pairs held */
    size_t batch_max;      /* store_max: bytes of the blob handed over by one barrier */
};

/* NULL with EINVAL or ENOMEM and an error message in `err` (may be NULL). `ops` must stay valid. */
struct pmi_server *pmi_server_create(const struct pmi_server_ops *ops, void *arg,
                                     const struct pmi_server_params *params, errmsg_t *err);
void pmi_server_destroy(struct pmi_server *s); /* NULL-safe, keeps errno */

/* Put a pair before or beside the tasks (PMI_process_mapping, ...); it is not shipped.  -1 with
 * EINVAL, ENOSPC or ENOMEM. */
int pmi_server_preset(struct pmi_server *s, const char *key, const char *value);

/* Bytes came from a task.  -1 with EPROTO when that task is no longer listened to (client_error was
 * called, now or before, or the task aborted), EINVAL for an index out of range, or EBUSY within a
 * callback. */
int pmi_server_input(struct pmi_server *s, size_t idx, const void *data, size_t len);

/* The connection of a task ended.  Calls client_error when the task had not finalized, or when
 * others wait in a barrier that it did not enter; or, for a task that never said init, later, when
 * one of them enters a barrier. */
void pmi_server_eof(struct pmi_server *s, size_t idx);

/* Add the pairs of a blob, or of several in one.  -1 with EPROTO or ENOSPC (nothing was added), or
 * ENOMEM.  Pairs that came from here may be in it. */
int pmi_server_merge(struct pmi_server *s, const void *blob, size_t len);

/* Complete the barrier: all local tasks are answered.  `rc` 0 for success; else tasks get the error
 * that it failed, with `text` (may be NULL).  -1 with EINVAL when no barrier was handed over. */
int pmi_server_barrier_done(struct pmi_server *s, int rc, const char *text);

/* Complete publish, lookup or unpublish of a task. `port` is for a lookup that succeeded. -1 with
 * EINVAL when nothing is pending. */
int pmi_server_name_done(struct pmi_server *s, size_t idx, int rc, const char *port,
                         const char *text);

/* Complete a spawn of a task: with `rc` 0 all processes are there, and `jobid` (may be NULL) is the
 * name of their kvs; else none is, and `text` (may be NULL) says why.  -1 with EINVAL when nothing
 * is pending. */
int pmi_server_spawn_done(struct pmi_server *s, size_t idx, int rc, const char *jobid,
                          const char *text);

/* Has the task said init; has it said finalize? */
bool pmi_server_initialized(const struct pmi_server *s, size_t idx);
bool pmi_server_finalized(const struct pmi_server *s, size_t idx);

#endif
