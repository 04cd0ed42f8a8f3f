/* The interfaces between the source files of the wrexec module.  wrexec.c has an overview. */
#ifndef WREXEC_WREXEC_H
#define WREXEC_WREXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "edge.h"
#include "ends.h"
#include "launchlink.h"
#include "retain.h"
#include "uplink.h"
#include "libflux/module.h"
#include "libidset/idset.h"
#include "libservice/session.h"
#include "libtopology/topology.h"
#include "libutil/hmap.h"
#include "libutil/list.h"
#include "libexec/wrexec_wire.h"
#include "libexec/exec_result.h"
#include "libexec/exec_spec.h"

#define JOB_LOCAL UINT32_MAX
#define JOB_LOST_CODE \
    (128 + 9) /* exit code of a job that loses tasks with their node or launcher */
/* Bit in the numbers of programs of flux exec, which are not jobs and never on record. */
#define JOB_EXEC_BIT (1ull << 52)
/* Bit in the numbers of groups of spawned tasks. */
#define JOB_SPAWN_BIT (1ull << 53)

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    uint32_t rank;
    uint32_t size;
    session_t *session;
    struct settings *settings;
    bool ready;            /* jobs can be launched: the tree and all settings are known */
    bool sweeping;         /* processes of an earlier broker of this rank are being ended */
    uint32_t remain;       /* number of these processes that cannot be ended */
    struct list_node asks; /* requests wrexec.remains: struct ask */
    edges_t *edges;
    uplinks_t *uplinks;
    uint32_t rounds;         /* the last round that a child was given */
    struct envblob *env;     /* environment of the last launch that is kept */
    flux_watcher_t *orphans; /* asks rank 0 for jobs that have lost their parent */
    flux_future_t *known_f;
    hmap_t
        *unknown[2]; /* jobs that rank 0 has said to be over: id -> nonce; newer ones, older ones */
    launchlink_t *exec;
    ends_t *ends;
    hmap_t *jobs;        /* id -> struct subjob */
    struct coord *coord; /* coordinator; NULL: not at rank 0 */
    struct names *names;
    flux_watcher_t *reaper;
    struct list_node over; /* jobs to be freed by the reaper */
    uint64_t njobs;
};

/* A child that has nodes of the job in its subtree. */
struct part {
    struct subjob *job;
    struct edge *edge;
    idset_t *ranks;        /* nodes of the job that the child is responsible for */
    struct list_node node; /* in edge->parts; or in job->former */
    uint32_t round;        /* the child's frames have this number (libexec/exec_wire.h) */
    size_t owed;           /* credit that was not given back yet */
    bool begun;            /* a task of the part has begun with MPI */
    bool done;
    bool unsent; /* its launch has to be sent */
};

/* A piece of output that waits for credit. */
struct piece {
    struct list_node node;
    struct part *part; /* NULL: of the tasks here (at rank 0 only) */
    bool lone;         /* its source is gone, and gets no credit */
    uint32_t rank;     /* the rank that has numbered it, and its number; unused at rank 0 */
    uint64_t number;
    size_t len;
    uint8_t data[];
};

/* The streams of numbered frames (libexec/exec_wire.h). */
enum stream { STREAM_OUTPUT, STREAM_OTHER, STREAMS };

/* A signal that children may lack. */
struct nth_signal {
    uint32_t number;
    uint32_t signum;
};

/* What rank 0 has of the numbered frames of a rank. */
struct origin {
    uint64_t seen[STREAMS];
    size_t unacked[STREAMS]; /* bytes, or frames, since the last acknowledgment */
};

/* An instance's part of a job.  It is finished when its own tasks and all children are done and
 * nothing waits to be sent. */
struct subjob {
    struct ctx *ctx;
    uint64_t id;
    uint64_t nonce; /* random number of this launch, the same on all its nodes */
    struct spec *spec;
    idset_t *ranks; /* ranks of `spec` */
    uint32_t nnodes;
    uint32_t node;       /* number of this rank in the job; JOB_LOCAL: it has no task */
    uint32_t count;      /* number of tasks on this rank */
    struct part **parts; /* sorted by edge */
    uint32_t nparts;
    struct list_node former; /* parts whose ranks other parts have */
    uint32_t nopen;          /* number of parts that are not done */
    bool local_done;
    bool killed;
    bool finished;   /* at other ranks than 0: the result was sent */
    bool deaf;       /* output is discarded */
    uint32_t window; /* first credit of each child */
    int64_t credit;  /* credit from the parent */
    size_t owed;     /* credit owed to the launcher */
    struct list_node pieces;
    struct result *result;
    struct list_node fences;
    bool named; /* the namespace of the job exists */
    bool begun; /* a task here or below has begun with MPI */
    bool local_begun;
    struct list_node asked; /* requests for the ends of tasks here: ends.c */
    struct list_node over;
    struct coord_job *rj; /* job at rank 0; NULL: at other ranks */
    /* subjob_heal.c */
    uplink_t *up;      /* the parent; NULL: at rank 0, or it is lost */
    uint32_t round;    /* number of our frames */
    struct kept *kept; /* the launch, for children; NULL: there are none, or no memory */
    idset_t *dead;     /* nodes of the job whose broker has died since its launch; NULL: none */
    idset_t *lost;     /* those of them whose tasks count as lost here; NULL: none */
    char *why;         /* reason for the first of these */
    bool started;      /* all tasks here are running (spawned tasks) */
    retain_t *retain[STREAMS]; /* our numbered frames; NULL: none so far, or at rank 0 */
    hmap_t *origins;           /* rank 0: rank -> struct origin; NULL: none so far */
    /* subjob_flow.c: signals and standard input */
    uint32_t nsignals;          /* number of the last signal */
    uint32_t *signal_of;        /* number of the last signal of each kind; NULL: none so far */
    struct nth_signal *signals; /* the last ones, in their order; NULL: none so far */
    uint32_t nkept;             /* number of these */
    bool kill_sent;             /* SIGKILL was sent to all tasks */
    struct buf *input;          /* standard input that some node may lack; NULL: none so far */
    uint64_t input_end;         /* position of its end */
    bool input_eof;
    uint64_t input_taken; /* bytes that all nodes have taken, as rank 0 says */
    uint64_t taken;       /* bytes that the tasks here have taken */
};

/* settings.c: read the attributes; `done` is called when all values are known.  Returns NULL with
 * ENOMEM. */
struct settings *settings_ask(struct ctx *ctx, void (*done)(struct ctx *ctx));
bool settings_known(const struct settings *s);
void settings_destroy(struct settings *s); /* NULL-safe */

/* handover.c */
#define HANDOVER_FORM 15
/* Save and load the state that survives a reload.  handover_load() sends nothing; handover_go_on()
 * then continues the work that has waited.  Returns -1 with errno and an error message. */
int handover_save(struct ctx *ctx, flux_handover_t *o, errmsg_t *err);
int handover_load(struct ctx *ctx, flux_handover_t *o, errmsg_t *err);
void handover_go_on(struct ctx *ctx);
/* A set of ranks; NULL: none. */
void handover_put_set(flux_handover_t *o, const idset_t *set);
idset_t *handover_get_set(flux_handover_t *o);

/* subjob.c */
struct subjob *subjob_create(struct ctx *ctx, struct spec *spec,
                             errmsg_t *err); /* takes spec over */
void subjob_free(struct subjob *j);
/* Start the tasks on these ranks of the job, here and below.  An error is reported
 * like any other failure. */
void subjob_launch(struct subjob *j, const idset_t *ranks, const struct launchrec *rec);
/* Handle a frame from the launcher; from a child; from the parent. */
void subjob_frame(struct subjob *j, const struct wire_frame *f);
void subjob_child_frame(struct subjob *j, struct edge *e, const struct wire_frame *f);
void subjob_parent_frame(struct subjob *j, const struct wire_frame *f);
/* Handle the loss of a part with the module of its child. */
void subjob_part_lost(struct part *p, const char *why);
/* Handle the loss of nodes of the job. */
void subjob_nodes_lost(struct subjob *j, const idset_t *nodes, const char *why);
void subjob_launcher_lost(struct subjob *j, const char *why);
/* When the parent has given up: discard output, and end the job here and below. */
void subjob_abandon(struct subjob *j);
/* Finish the job here if no task, child or piece of output is left. */
void subjob_check(struct subjob *j);
/* Free the job, from the loop: nothing will be asked for again. */
void subjob_end(struct subjob *j);
void subjob_count_killed(struct subjob *j, const idset_t *ranks);
/* Note that a child is done: its result has arrived, or it is lost; or that it is not. */
void subjob_part_done(struct part *p);
void subjob_part_undone(struct part *p);
void subjob_fail(struct subjob *j, int code, const char *text);
/* Send one frame to the parent (with the round before it), or to a child. */
void subjob_send_up(struct subjob *j, enum wire_type type, const void *fixed, size_t fixedlen,
                    const void *data, size_t len);
void subjob_send_down(struct part *p, enum wire_type type, const void *fixed, size_t fixedlen,
                      const void *data, size_t len);

/* subjob_heal.c */
/* At rank 0, which learns who is up again before it gets launches for them: the ranks of a new job
 * that are lost, and dead for it from now on.  The caller destroys the set; NULL with ENOMEM. */
idset_t *subjob_find_dead(struct subjob *j);
/* Distribute these ranks to children; the launches are `unsent`.  -1 with ENOMEM. */
int subjob_assign(struct subjob *j, const idset_t *ranks);
/* A parent sends the launch of a job that exists: with further ranks, maybe.  -1 with ENOMEM. */
int subjob_take_launch(struct subjob *j, const idset_t *ranks, const struct launchrec *rec);
/* Keep what further launches of the job need. */
void subjob_keep(struct subjob *j, const struct launchrec *rec);
void subjob_kept_free(struct subjob *j);
void subjob_kept_save(const struct subjob *j, flux_handover_t *o);
void subjob_kept_load(struct subjob *j, flux_handover_t *o);
/* Send the launch to a child. */
void subjob_part_launch(struct part *p, const struct launchrec *rec);
/* The child may not have got this launch: send it, and what the child may lack. */
void subjob_part_again(struct part *p);
/* Give the ranks of a part, whose edge is closed, to others; the dead ones among them are lost. */
void subjob_part_reassign(struct part *p, const char *why);
/* Repeat all that rank 0 may lack to the parent, here and below. */
void subjob_again(struct subjob *j, uint32_t round, uint32_t credit);
/* Tell the children that rank 0 has everything about the job. */
void subjob_over(struct subjob *j);
/* Find the part that is responsible for a rank, or by its edge; NULL: there is none. */
struct part *subjob_part_of(const struct subjob *j, uint32_t rank);
struct part *subjob_part_at(const struct subjob *j, const struct edge *e);
struct part *subjob_part_add(struct subjob *j, struct edge *e); /* NULL with ENOMEM */
/* The number of jobs that are not finished here. */
size_t subjob_all_running(const struct ctx *ctx);
/* All jobs: ranks were lost; the child of an edge, or the way to it; the parent. */
void subjob_all_ranks_lost(struct ctx *ctx, const idset_t *ranks);
void subjob_all_edge_lost(struct ctx *ctx, struct edge *e, int errnum, const char *why);
void subjob_all_edge_again(struct edge *e);
void subjob_all_parent_lost(struct ctx *ctx, const uplink_t *u, bool on_purpose);
/* Has rank 0 said that this job is over? */
bool subjob_is_unknown(const struct ctx *ctx, uint64_t id, uint64_t nonce);
void subjob_unknown_free(struct ctx *ctx);
/* Ask rank 0 for the jobs that have no parent; answer at rank 0. */
void subjob_all_orphans(struct ctx *ctx);
void subjob_all_known(struct ctx *ctx, const flux_msg_t *req);

/* subjob_flow.c */
/* Handle output from the launcher. */
void subjob_flow_output(struct subjob *j, const void *data, size_t len);
/* Handle a numbered frame from a child. */
void subjob_flow_numbered(struct subjob *j, struct part *p, const struct wire_numbered *n);
/* Send a numbered frame other than OUTPUT to rank 0, where `handle` takes it. */
void subjob_flow_tell(struct subjob *j, enum wire_type type, const void *data, size_t len);
/* At rank 0: take the frame that is not OUTPUT. */
void subjob_told(struct subjob *j, const struct wire_frame *f);
void subjob_flow_ack(struct subjob *j, const struct wire_frame *f);
/* Pass on the output that waits, as far as credit allows. */
void subjob_flow_flush(struct subjob *j);
/* Does any wait? */
bool subjob_flow_waits(const struct subjob *j);
/* Drop the pieces of children, which send them again. */
void subjob_flow_drop(struct subjob *j);
/* Append a piece to the queue.  Returns -1 with ENOMEM. */
int subjob_flow_piece_add(struct subjob *j, struct part *p, uint32_t rank, uint64_t number,
                          const void *data, size_t len);
void subjob_flow_piece_free(struct piece *p);
/* Pass bytes for standard input to the tasks that read it, here and below, at rank 0 (-1: bytes
 * before this position are missing); or from the parent, with the position and what all nodes have
 * taken.  No bytes: its end. */
int subjob_flow_stdin(struct subjob *j, uint64_t pos, const void *data, size_t len);
void subjob_flow_input(struct subjob *j, uint64_t pos, uint64_t taken, const void *data,
                       size_t len);
/* Note that the tasks of a node have taken this number of bytes in all, or discarded them. */
void subjob_flow_taken(struct subjob *j, uint32_t node, uint64_t bytes);
/* Send a signal to all tasks here and below.  SIGKILL also ends tasks that are being started. */
void subjob_signal(struct subjob *j, int signum);
void subjob_flow_signal(struct subjob *j, uint32_t number, int signum); /* from the parent */
/* Send a child the signals and the input that it may lack. */
void subjob_flow_catch_up(struct part *p);
void subjob_flow_free(struct subjob *j);
void subjob_flow_save(const struct subjob *j, flux_handover_t *o);
void subjob_flow_load(struct subjob *j, flux_handover_t *o);

/* subjob_pmi.c */
void subjob_pmi_fence(struct subjob *j, uint32_t num, const void *blob, size_t len);
#define JOB_NAMESPACE_MAX 32
/* Get the name of the namespace of a job that has several nodes, which exists once its tasks
 * exchange pairs. */
void subjob_pmi_namespace(uint64_t id, char name[JOB_NAMESPACE_MAX]);
void subjob_pmi_free(struct subjob *j);
void subjob_pmi_save(const struct subjob *j, flux_handover_t *o);
void subjob_pmi_load(struct subjob *j, flux_handover_t *o);
/* Note that a task has begun with MPI: on this rank (NULL), or in part `p`. */
void subjob_pmi_begun(struct subjob *j, struct part *p);
/* Check a job whose local tasks, or a part, are done: if they never began and others did, the job
 * fails. */
void subjob_pmi_check_begun(struct subjob *j);
/* Handle a frame PMI_NAME: a task publishes, looks up or removes a name. */
void subjob_pmi_name(struct subjob *j, const void *payload, size_t len);

/* Handle a frame SPAWN: a task asks for further tasks. */
void subjob_pmi_spawn(struct subjob *j, const void *payload, size_t len);

/* coord.c */
struct coord *coord_create(struct ctx *ctx);
void coord_destroy(struct coord *r);
void coord_save(struct coord *r, flux_handover_t *o);
void coord_load(struct coord *r, flux_handover_t *o); /* before any job */
/* When the tree is known: handle the requests that have waited for it. */
void coord_ready(struct coord *r);
void coord_launch(flux_t *h, const flux_msg_t *req, void *arg);
void coord_jobs(flux_t *h, const flux_msg_t *req, void *arg);
void coord_kill(flux_t *h, const flux_msg_t *req, void *arg);
void coord_stdin(flux_t *h, const flux_msg_t *req, void *arg);
void coord_credit(flux_t *h, const flux_msg_t *req, void *arg);
/* The brokers of these ranks, and their clients, are lost. */
void coord_ranks_lost(struct coord *r, const idset_t *ranks);
/* Handle a client that has disconnected, or whose way was lost (matchtag 0; `notice` tells which),
 * or that has canceled one of its requests. */
void coord_disconnect(struct coord *r, const flux_msg_t *notice, const char *sender,
                      uint32_t matchtag);

/* coord_job.c: functions for jobs at rank 0 */
void coord_job_failed(struct subjob *j, int code, const char *text);
/* Handle the loss of these nodes of the job. */
void coord_job_lost(struct subjob *j, const idset_t *ranks, const char *why);
void coord_job_finished(struct subjob *j);
void coord_spawn_started(struct subjob *j, uint32_t node); /* all its tasks have started */
void coord_job_note(struct subjob *j, bool warning, const void *text, size_t len);
void coord_job_taken(struct subjob *j, uint32_t node, uint64_t bytes);
/* Take output.  Returns false if subjob_flow_flush() has to offer it again. */
bool coord_job_output(struct subjob *j, const void *data, size_t len);
void coord_job_free(struct coord_job *rj);

/* After output was taken: pass on the output of the tasks that the job has spawned. */
void coord_job_flush(struct subjob *j);

/* coord_client.c, coord_exec.c and coord_spawn.c: requests of clients */
void coord_client_listen(flux_t *h, const flux_msg_t *req, void *arg);
void coord_exec_run(flux_t *h, const flux_msg_t *req, void *arg);
void coord_spawn_request(flux_t *h, const flux_msg_t *req, void *arg);
void coord_exec_signal(flux_t *h, const flux_msg_t *req, void *arg);

#endif
