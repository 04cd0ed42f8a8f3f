/* What the files of rank 0 share: root.c, rootjob.c, listen.c, output.c, run.c. */
#ifndef WREXEC_ROOT_H
#define WREXEC_ROOT_H

#include "libkvs/kvs.h"
#include "libreduce/window.h"
#include "libutil/buf.h"
#include "wrexec.h"

struct root {
    struct ctx *ctx;
    /* The job module's stream, and what it is to be told at the end of the pass. */
    flux_msg_t *jobs_req;
    char jobs_sender[FLUX_SENDER_MAX];
    json_t *ended, *raise;
    struct list_node told; /* the last messages with ends, oldest first */
    size_t told_bytes;
    struct window window;
    flux_watcher_t *flusher;
    struct list_node waiting; /* messages that came before the tree was known */
    size_t nwaiting;
    struct output *output;
    struct clients *clients;
    struct runs *runs;
    uint64_t next_spawn;
};

/* A client that listens to a job, or ran it. */
struct listener {
    struct list_node node; /* in its client's list */
    struct client *client;
    flux_msg_t *req;
    uint64_t id;
    struct rootjob *rj; /* NULL: the job is not there yet */
    int64_t credit;
    bool input;
};

struct rootjob {
    struct job *j;
    struct root *root;
    struct listener *l;
    bool exec;
    bool gone; /* who listened, or should have */
    bool terminating;
    int signaled;  /* a signal that ends programs was sent to it, by order; 0: none */
    bool failed;   /* what follows is decided */
    int fail_code; /* may be 0: MPI_Abort() with that code */
    char *fail_text;
    flux_watcher_t *grace;
    double deadline; /* when that ends, by flux_now() */
    uint64_t *taken; /* standard input to all: taken by each node */
    uint64_t acked;
    uint32_t behind; /* nodes that have taken just that */
    /* output.c */
    buf_t *outbuf;            /* what is to be committed */
    uint64_t kept, lost, cap; /* cap: 1 + bytes; 0: that of all jobs */
    uint64_t sent;            /* of it, in the commit under way */
    bool committing;
    struct list_node dirty, waiting;
    /* spawn.c */
    struct list_node groups; /* of tasks that its own have spawned, while they are there */
    uint32_t spawned;        /* tasks so far */
    json_t *failed_tasks;    /* of groups that are over, as in struct wrexec_result */
    struct rootjob *parent;  /* of a group; NULL: it is a job */
    struct list_node group;  /* in parent->groups */
    flux_msg_t *spawn_req;   /* until it is answered */
    uint32_t unstarted;      /* nodes; then the answer is due */
    bool refused;            /* it was given up, which is nobody's failure */
    uint64_t parent_id;      /* only while it is being loaded */
};

/* root.c: what the job module is told */
void root_tell_ended(struct root *r, struct rootjob *rj, const struct wrexec_result *res);
void root_tell_raise(struct root *r, uint64_t id, const char *type, int severity, const char *note);
/* Start a job; takes spec over.  -1 with errno and a sentence. */
struct job *root_start(struct root *r, struct spec *spec, const struct launchrec *rec,
                       struct listener *l, errmsg_t *err);

/* spawn.c */
/* The request for a group is answered: with an error and a sentence, or (0) with its name. */
void group_answer(struct rootjob *g, int errnum, const char *text);
/* A failure in a group before that: the group ends, its job does not. */
void group_refuse(struct rootjob *g, int errnum, const char *text);
/* A group is over: what became of it is its job's. */
void group_over(struct rootjob *g, json_t *failed);
void group_save(const struct rootjob *rj, flux_handover_t *o);
void group_load(struct rootjob *rj, flux_handover_t *o);
void groups_link(struct root *r, flux_handover_t *o); /* after all jobs */

/* rootjob.c */
/* A job is over when its tasks and those that they spawned are. */
bool rootjob_over(const struct rootjob *rj);
/* For all of these. */
void rootjob_signal(struct rootjob *rj, int signum);
struct rootjob *rootjob_create(struct root *r, struct job *j);
/* Decide the exit code and the sentence; the first one counts. */
void rootjob_fail(struct rootjob *rj, int code, const char *text);
/* SIGTERM, and SIGKILL after a while. */
void rootjob_terminate(struct rootjob *rj, double grace);
void rootjob_save(const struct rootjob *rj, flux_handover_t *o);
void rootjob_load(struct rootjob *rj, flux_handover_t *o);

/* listen.c */
struct clients *clients_create(struct root *r);
void clients_destroy(struct clients *cl);
void clients_gone(struct clients *cl, const char *sender, uint32_t matchtag);
/* A request that is to be answered as a listener is.  NULL with ENOMEM. */
struct listener *listener_create(struct clients *cl, const flux_msg_t *req, uint64_t id,
                                 uint32_t window);
void listener_free(struct listener *l);                       /* of a job */
void listener_forget(struct clients *cl, struct listener *l); /* of one that was not started */
void listener_notice(struct listener *l, const struct wrexec_notice *n);
/* A job begins, maybe one that is listened to already. */
void clients_job(struct clients *cl, struct rootjob *rj);
/* It has ended: tell who listens, or keep it for somebody who will. */
void clients_result(struct clients *cl, struct rootjob *rj, const char *json);
/* There will be no such job. */
void clients_unknown(struct clients *cl, uint64_t id);
void clients_save(struct clients *cl, flux_handover_t *o);
void clients_load(struct clients *cl, flux_handover_t *o); /* after all jobs */

/* output.c */
struct output *output_create(struct root *r);
void output_destroy(struct output *o);
void output_set_limit(struct output *o, uint64_t bytes);
/* Keep records: false when they have to be offered again. */
bool output_put(struct output *o, struct rootjob *rj, const void *data, size_t len);
/* Is all that was put in the store?  Else root_job_finished() will be called again. */
bool output_settled(struct output *o, struct rootjob *rj);
void output_forget(struct output *o, struct rootjob *rj);
void output_save(const struct output *o, flux_handover_t *ho);
void output_load(struct output *o, flux_handover_t *ho);   /* before any job */
void output_take_up(struct output *o, struct rootjob *rj); /* a job that was loaded */

/* run.c */
struct runs *runs_create(struct root *r);
void runs_destroy(struct runs *rs);
void runs_ready(struct runs *rs);
void runs_gone(struct runs *rs, const char *sender, uint32_t matchtag);
void runs_save(const struct runs *rs, flux_handover_t *o);
void runs_load(struct runs *rs, flux_handover_t *o);

#endif
