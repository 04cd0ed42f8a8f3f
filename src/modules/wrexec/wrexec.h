/* The wrexec module's own interfaces: see wrexec.c for the whole. */
#ifndef WREXEC_WREXEC_H
#define WREXEC_WREXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "edge.h"
#include "launchlink.h"
#include "libflux/module.h"
#include "libidset/idset.h"
#include "libtopology/topology.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libexec/wrexec_wire.h"
#include "libexec/exec_result.h"
#include "libexec/exec_spec.h"

#define JOB_LOCAL UINT32_MAX
/* Numbers of what is no job (flux exec): never on record. */
#define JOB_EXEC_BIT (1ull << 52)
/* ... and of what tasks of a job have spawned. */
#define JOB_SPAWN_BIT (1ull << 53)

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    uint32_t rank;
    uint32_t size;
    topology_t *topo; /* NULL until the broker has said it */
    char *shape;      /* what it was made of, and whether that is the text of a file */
    bool shape_text;
    struct settings *settings;
    bool ready; /* jobs may be launched: the tree and all settings are known */
    edges_t *edges;
    exec_t *exec;
    hmap_t *jobs;      /* id -> struct job */
    struct root *root; /* at rank 0 */
    struct names *names;
    flux_watcher_t *reaper;
    struct list_node over; /* jobs to be freed by the reaper */
    uint64_t njobs;
};

/* A child that has nodes of the job in its subtree. */
struct part {
    struct job *job;
    struct edge *edge;
    struct list_node node; /* in edge->parts, until it is done */
    size_t owed;           /* credit not yet given back */
    bool begun;            /* a task of it has begun with MPI */
    bool done;
};

/* A piece of output that waits for credit. */
struct piece {
    struct list_node node;
    uint32_t src; /* index of part, or JOB_LOCAL */
    size_t len;
    uint8_t data[];
};

/* An instance's part of a job.  It is finished when its own tasks and all children are and nothing
 * waits to be sent. */
struct job {
    struct ctx *ctx;
    uint64_t id;
    uint64_t nonce; /* random, of this launch: the same on all its nodes, and of no other */
    struct spec *spec;
    idset_t *ranks; /* of spec */
    uint32_t nnodes;
    uint32_t node;      /* number of this rank in the job, JOB_LOCAL: it has no task */
    uint32_t count;     /* tasks here */
    struct part *parts; /* sorted by edge */
    uint32_t nparts;
    uint32_t nopen; /* of them, those that are not done */
    bool local_done;
    bool killed;
    bool finished;
    bool deaf;       /* nobody wants output any more */
    uint32_t window; /* given to each child at first */
    int64_t credit;  /* towards the parent */
    size_t owed;     /* to the launcher */
    struct list_node pieces;
    struct result *result;
    struct list_node fences;
    bool named; /* the job's namespace is there */
    bool begun; /* with MPI: a task here or below */
    bool local_begun;
    struct list_node over;
    struct rootjob *rj; /* at rank 0 */
};

/* settings.c: read attributes, and call when all are there.  NULL with ENOMEM. */
struct settings *settings_ask(struct ctx *ctx, void (*done)(struct ctx *ctx));
bool settings_known(const struct settings *s);
void settings_destroy(struct settings *s); /* NULL-safe */

/* handover.c */
#define HANDOVER_FORM 2
/* All that goes on when the module is reloaded.  The latter, before anything is sent; what has waited is
 * looked at again by handover_go_on().  -1 with errno and a sentence. */
int handover_save(struct ctx *ctx, flux_handover_t *o, errmsg_t *err);
int handover_load(struct ctx *ctx, flux_handover_t *o, errmsg_t *err);
void handover_go_on(struct ctx *ctx);

/* wrexec.c: the tree of `shape`.  -1 with errno and a sentence. */
int tree_create(struct ctx *ctx, errmsg_t *err);

/* job.c */
struct job *job_create(struct ctx *ctx, struct spec *spec, errmsg_t *err); /* takes spec over */
void job_free(struct job *j);
/* Start here and below; what goes wrong is told like any other failure. */
void job_launch(struct job *j, const struct launchrec *rec);
/* From the launcher; from a child; from the parent. */
void job_frame(struct job *j, const struct wire_frame *f);
void job_child_frame(struct job *j, struct edge *e, const struct wire_frame *f);
void job_parent_frame(struct job *j, const struct wire_frame *f);
void job_part_lost(struct part *p, const char *why);
void job_launcher_lost(struct job *j, const char *why);
/* Send a signal to all tasks here and below; SIGKILL ends whatever is there. */
void job_signal(struct job *j, int signum);
/* Nobody listens any more: throw output away, end the job here and below. */
void job_abandon(struct job *j);
/* Something that was waited for is done. */
void job_check(struct job *j);
/* A child has told all there is to tell. */
void job_part_done(struct part *p);
void job_fail(struct job *j, int code, const char *text);
/* One frame to the parent, or to a child. */
void job_send_up(struct job *j, enum wire_type type, const void *fixed, size_t fixedlen,
                 const void *data, size_t len);
void job_send_down(struct part *p, enum wire_type type, const void *fixed, size_t fixedlen,
                   const void *data, size_t len);

/* jobflow.c */
/* Output came from the launcher (JOB_LOCAL) or part number `src`. */
void job_output(struct job *j, uint32_t src, const void *data, size_t len);
/* Pass on what waits. */
void job_flush(struct job *j);
/* Have a piece wait behind others.  -1 with ENOMEM. */
int job_piece_add(struct job *j, uint32_t src, const void *data, size_t len);
void job_piece_free(struct piece *p);
/* Bytes for the standard input of the tasks that read it, here and below. */
void job_stdin(struct job *j, const void *data, size_t len);
/* Some were taken at a node, or in vain. */
void job_taken(struct job *j, uint32_t node, uint32_t bytes);

/* pmi.c */
void job_fence(struct job *j, uint32_t num, const void *blob, size_t len);
#define JOB_NAMESPACE_MAX 32
/* The namespace of a job that has several nodes, once its tasks exchange something. */
void job_namespace(uint64_t id, char name[JOB_NAMESPACE_MAX]);
void job_fences_free(struct job *j);
void job_fences_save(const struct job *j, flux_handover_t *o);
void job_fences_load(struct job *j, flux_handover_t *o);
/* A task here (NULL) or below has begun with MPI. */
void job_begun(struct job *j, struct part *p);
/* Local tasks, or a part, are done: if they never began and others did, the job fails. */
void job_check_begun(struct job *j);
/* A task publishes, looks up or removes a name: a frame PMI_NAME. */
void job_name(struct job *j, const void *payload, size_t len);

/* A task asks for further tasks: a frame SPAWN. */
void job_spawn(struct job *j, const void *payload, size_t len);

/* root.c */
struct root *root_create(struct ctx *ctx);
void root_destroy(struct root *r);
void root_save(struct root *r, flux_handover_t *o);
void root_load(struct root *r, flux_handover_t *o); /* before any job */
/* The tree is known: what waited for it goes on. */
void root_ready(struct root *r);
void root_launch(flux_t *h, const flux_msg_t *req, void *arg);
void root_jobs(flux_t *h, const flux_msg_t *req, void *arg);
void root_kill(flux_t *h, const flux_msg_t *req, void *arg);
void root_stdin(flux_t *h, const flux_msg_t *req, void *arg);
void root_credit(flux_t *h, const flux_msg_t *req, void *arg);
/* A client is gone (matchtag 0), or gave one of its requests up. */
void root_client_gone(struct root *r, const char *sender, uint32_t matchtag);

/* rootjob.c: from jobs at rank 0 */
void root_job_failed(struct job *j, int code, const char *text);
void root_job_finished(struct job *j);
void root_job_started(struct job *j, uint32_t nodes); /* all tasks of so many nodes */
void root_job_note(struct job *j, const void *text, size_t len);
void root_job_taken(struct job *j, uint32_t node, uint64_t bytes);
/* What becomes of output: taken, or to be offered again by job_flush(). */
bool root_job_output(struct job *j, const void *data, size_t len);
void rootjob_free(struct rootjob *rj);

/* Output was taken: pass on that of the tasks it spawned. */
void root_job_flush(struct job *j);

/* listen.c, run.c and spawn.c: requests of clients */
void root_listen(flux_t *h, const flux_msg_t *req, void *arg);
void root_run(flux_t *h, const flux_msg_t *req, void *arg);
void root_spawn(flux_t *h, const flux_msg_t *req, void *arg);
void root_signal(flux_t *h, const flux_msg_t *req, void *arg);
void root_overlay_event(flux_t *h, const flux_msg_t *msg, void *arg);

#endif
