/* The wrexec module's own interfaces: see wrexec.c for the whole. */
#ifndef WREXEC_WREXEC_H
#define WREXEC_WREXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "exec.h"
#include "libflux/module.h"
#include "libidset/idset.h"
#include "libtopology/topology.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "proto.h"
#include "result.h"

#define JOB_LOCAL UINT32_MAX
/* Numbers of what is no job (flux exec): never on record. */
#define JOB_EXEC_BIT (1ull << 52)

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    uint32_t rank;
    uint32_t size;
    topology_t *topo; /* NULL until the broker has said it */
    exec_t *exec;
    hmap_t *jobs;        /* id -> struct job */
    struct root *root;   /* at rank 0 */
    struct names *names; /* at rank 0 */
    flux_watcher_t *reaper;
    struct list_node over; /* jobs to be freed by the reaper */
    uint64_t njobs;
};

struct child {
    struct job *job;
    uint32_t rank;
    flux_future_t *f;
    idset_t *nodes; /* ranks of the job in its subtree */
    size_t owed;    /* credit not yet given back */
    bool done;
};

/* A piece of output that waits for credit. */
struct piece {
    struct list_node node;
    uint32_t src; /* index of child, or JOB_LOCAL */
    size_t len;
    flux_msg_t *msg; /* the response it is the payload of, or NULL: data */
    uint8_t data[];
};

/* An instance's part of a job.  It is finished when its own tasks and all children are and nothing
 * waits to be sent. */
struct job {
    struct ctx *ctx;
    uint64_t id;
    struct wrexec_start spec; /* `ranks` points nowhere */
    idset_t *ranks;
    uint32_t nnodes;
    uint32_t node;   /* number of this rank in the job, JOB_LOCAL: it has no task */
    flux_msg_t *req; /* to be answered with output and result; NULL: nobody listens */
    struct child *children;
    uint32_t nchildren;
    bool local_done;
    bool killed;
    bool finished;
    int64_t credit; /* towards `req` */
    size_t owed;    /* to the launcher */
    struct list_node pieces;
    struct result *result;
    struct list_node fences;
    bool named; /* the job's namespace is there */
    struct list_node over;
    struct rootjob *rj; /* at rank 0 */
};

/* job.c */
struct job *job_create(struct ctx *ctx, const struct wrexec_start *spec, errmsg_t *err);
void job_free(struct job *j);
/* Start here and below; what goes wrong is told like any other failure. */
void job_launch(struct job *j, const struct jobreq *strings, const void *payload, size_t len);
void job_frame(struct job *j, const struct wire_frame *f);
void job_launcher_lost(struct job *j, const char *why);
void job_credit(struct job *j, uint32_t bytes);
void job_send_notice(struct job *j, const struct wrexec_notice *n);
/* Send a signal to all tasks here and below; SIGKILL ends whatever is there. */
void job_signal(struct job *j, int signum);
/* Nobody listens any more: throw output away, end the job here and below. */
void job_abandon(struct job *j);
/* Something that was waited for is done. */
void job_check(struct job *j);
/* Bytes for the standard input of the tasks here. */
void job_stdin(struct job *j, const void *data, size_t len);
void job_fail(struct job *j, int code, const char *text);

/* pmi.c */
void job_fence(struct job *j, uint32_t num, const void *blob, size_t len);
#define JOB_NAMESPACE_MAX 32
/* The namespace of a job that has several nodes, once its tasks exchange something. */
void job_namespace(uint64_t id, char name[JOB_NAMESPACE_MAX]);
void job_fences_free(struct job *j);
/* A task publishes, looks up or removes a name: a frame PMI_NAME. */
void job_name(struct job *j, const void *payload, size_t len);

/* root.c */
struct root *root_create(struct ctx *ctx);
void root_destroy(struct root *r);
void root_run(flux_t *h, const flux_msg_t *req, void *arg);
void root_signal(flux_t *h, const flux_msg_t *req, void *arg);
void root_list(flux_t *h, const flux_msg_t *req, void *arg);
void root_stdin(flux_t *h, const flux_msg_t *req, void *arg);
void root_overlay_event(flux_t *h, const flux_msg_t *msg, void *arg);
/* From jobs at rank 0. */
void root_job_failed(struct job *j, int code, const char *text);
void root_job_finished(struct job *j);
void root_job_taken(struct job *j, uint32_t node, uint64_t bytes);
/* What becomes of output: passed on to whoever listens, kept for the KVS, or to be offered again
 * when job_credit() is called. */
enum root_output { ROOT_OUTPUT_PASS, ROOT_OUTPUT_KEPT, ROOT_OUTPUT_WAIT };
enum root_output root_job_output(struct job *j, const void *data, size_t len);
/* A client is gone (matchtag 0), or gave one of its requests up. */
void root_client_gone(struct root *r, const char *sender, uint32_t matchtag);
void rootjob_free(struct rootjob *rj);

/* record.c: what the KVS keeps of a job, see there.  Functions add to a transaction: -1 with errno.
 */
struct flux_kvs_txn;
int record_start(struct flux_kvs_txn *txn, struct job *j, const struct jobreq *strings,
                 const struct wrexec_run *run, double now);
int record_output(struct flux_kvs_txn *txn, struct job *j, uint32_t num, const void *data,
                  size_t len);
int record_end(struct flux_kvs_txn *txn, struct job *j, int code, const char *text, uint64_t lost,
               double now);
/* The command line for people, malloc'd, cut to a reasonable length. */
char *record_command(const struct jobreq *strings);

#endif
