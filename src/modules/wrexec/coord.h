/* Declarations shared by the files coord*.c, which work at rank 0 only. */
#ifndef WREXEC_COORD_H
#define WREXEC_COORD_H

#include "coord_listener.h"
#include "libkvs/kvs.h"
#include "libreduce/window.h"
#include "libservice/presence.h"
#include "libutil/buf.h"
#include "wrexec.h"

struct coord {
    struct ctx *ctx;
    /* The stream of the job module, and the reports that are sent to it at the end of the pass. */
    flux_msg_t *jobs_req;
    char jobs_sender[FLUX_SENDER_MAX];
    json_t *ended, *raise;
    uint64_t unraised;     /* messages dropped since the job module had a stream open */
    struct list_node past; /* the last messages with ends of jobs, oldest first */
    size_t past_bytes;
    struct window window;
    flux_watcher_t *flusher;
    flux_watcher_t *more;     /* handles the next slice of a launch */
    struct list_node waiting; /* wait for the tree or for marks of hosts, in order of arrival */
    size_t nwaiting;
    struct coord_output *output;
    struct coord_hosts *hosts;
    struct clients *clients;
    struct runs *runs;
    uint64_t next_spawn;
};

struct coord_job {
    struct subjob *j;
    struct coord *coord;
    struct listener *l;
    bool exec;
    bool gone; /* its client has disconnected: output for this client is discarded */
    bool terminating;
    uint32_t nsignals; /* a program: number of the last signal of its client */
    int signaled;      /* signal that the job module has sent to end the job; 0: none */
    bool failed;       /* the exit code and the error message are decided */
    int fail_code;     /* may be 0: MPI_Abort() with this code */
    char *fail_text;
    bool fail_lost; /* ... the loss of a node has decided them */
    flux_watcher_t *grace;
    double deadline; /* end of the grace period, by flux_now() */
    uint64_t *taken; /* standard input for all tasks: bytes taken, by node; NULL: for task 0 */
    uint64_t acked;  /* bytes taken by all nodes */
    uint32_t behind; /* number of nodes that have taken exactly that */
    /* coord_output.c */
    buf_t *outbuf;            /* output that has still to be committed */
    uint64_t kept, lost, cap; /* cap: 1 + bytes; 0: the limit of all jobs */
    uint64_t sent;            /* bytes of outbuf in the present commit */
    bool committing;
    struct list_node dirty, waiting;
    /* coord_spawn.c */
    struct list_node groups;  /* groups of tasks that tasks of the job have spawned */
    uint32_t spawned;         /* number of tasks spawned so far */
    json_t *failed_tasks;     /* failed tasks of groups that are over, as in struct wrexec_result */
    struct list_node answers; /* the last answers to requests for groups, newest last */
    uint32_t nanswers;
    uint64_t asker;           /* of a group: number of its request */
    struct coord_job *parent; /* job of a group; NULL: this is a job */
    struct list_node group;   /* in parent->groups */
    flux_msg_t *spawn_req;    /* NULL: it has been answered */
    idset_t *started;         /* nodes whose tasks run; when all do, the answer is due */
    bool refused;             /* the group was refused, which is not a failure of the job */
    uint64_t parent_id;       /* used during loading only */
};

/* coord.c: reports to the job module */
void coord_tell_ended(struct coord *r, struct coord_job *rj, const struct wrexec_result *res);
void coord_tell_raise(struct coord *r, uint64_t id, const char *type, int severity,
                      const char *note);
/* Start a job; takes over `spec`.  Returns -1 with errno and an error message. */
struct subjob *coord_start(struct coord *r, struct spec *spec, const struct launchrec *rec,
                           struct listener *l, errmsg_t *err);

/* coord_hosts.c */
struct coord_hosts *coord_hosts_create(struct coord *r);
void coord_hosts_destroy(struct coord_hosts *hs);
/* Returns whether a job can be launched.  If not, its nodes are asked for their marks, and
 * coord_ready() is called when they have answered. */
bool coord_hosts_known(struct coord_hosts *hs, const struct spec *s);
/* If names do not tell which nodes share a host, replace the spec and the JSON of the record by
 * ones with made-up names; the caller frees *json.  Returns 0, or -1 with ENOMEM and an error
 * message. */
int coord_hosts_tell(struct coord_hosts *hs, struct spec **spec, struct launchrec *rec, char **json,
                     errmsg_t *err);
void coord_hosts_save(const struct coord_hosts *hs, flux_handover_t *o);
void coord_hosts_load(struct coord_hosts *hs, flux_handover_t *o);

/* coord_spawn.c */
/* Refuse a group because of a failure before all its tasks have started: the group ends, its job
 * does not. */
void coord_spawn_refuse(struct coord_job *g, int errnum, const char *text);
/* End a group: merge its results into those of its job. */
void coord_spawn_over(struct coord_job *g, json_t *failed);
void coord_spawn_free(struct coord_job *rj);
void coord_spawn_save(const struct coord_job *rj, flux_handover_t *o);
void coord_spawn_load(struct coord_job *rj, flux_handover_t *o);
void coord_spawn_link(struct coord *r, flux_handover_t *o); /* after all jobs */

/* coord_job.c */
/* Returns whether a job is over: all its tasks, and the tasks that they have spawned, have
 * ended. */
bool coord_job_over(const struct coord_job *rj);
/* Send a signal to all these tasks. */
void coord_job_signal(struct coord_job *rj, int signum);
struct coord_job *coord_job_create(struct coord *r, struct subjob *j);
/* Decide the exit code and the error message of a job.  Only the first call counts. */
void coord_job_fail(struct coord_job *rj, int code, const char *text);
/* Send SIGTERM, and SIGKILL after the grace period. */
void coord_job_terminate(struct coord_job *rj, double grace);
void coord_job_save(const struct coord_job *rj, flux_handover_t *o);
void coord_job_load(struct coord_job *rj, flux_handover_t *o);

/* coord_client.c */
struct clients *coord_clients_create(struct coord *r);
void coord_clients_destroy(struct clients *cl);
void coord_clients_gone(struct clients *cl, const char *sender, uint32_t matchtag);
/* These ranks are lost: clients there may return. */
void coord_clients_lost(struct clients *cl, const idset_t *ranks);
/* The way to the sender of this notice was lost. */
void coord_clients_away(struct clients *cl, const flux_msg_t *notice);
/* Create a listener for a request that is answered like wrexec.listen.  Returns NULL with
 * ENOMEM. */
struct listener *coord_client_create(struct clients *cl, const flux_msg_t *req, uint64_t id,
                                     uint32_t window);
void coord_client_free(struct listener *l);                       /* of a job */
void coord_client_forget(struct clients *cl, struct listener *l); /* its program was not started */
/* Begin a job, for which a client may wait already. */
void coord_clients_job(struct clients *cl, struct coord_job *rj);
/* Send the result of a job to its client, or keep it for a client that arrives later. */
void coord_clients_result(struct clients *cl, struct coord_job *rj, const char *json);
/* End the requests of clients for a job that will not be started. */
void coord_clients_unknown(struct clients *cl, uint64_t id);
void coord_clients_save(struct clients *cl, flux_handover_t *o);
void coord_clients_load(struct clients *cl, flux_handover_t *o); /* after all jobs */

/* coord_output.c */
struct coord_output *coord_output_create(struct coord *r);
void coord_output_destroy(struct coord_output *o);
void coord_output_set_limit(struct coord_output *o, uint64_t bytes);
/* Keep records.  Returns false if they have to be offered again. */
bool coord_output_put(struct coord_output *o, struct coord_job *rj, const void *data, size_t len);
/* Returns whether all output is in the store.  If not, coord_job_finished() is called again. */
bool coord_output_settled(struct coord_output *o, struct coord_job *rj);
void coord_output_forget(struct coord_output *o, struct coord_job *rj);
void coord_output_save(const struct coord_output *o, flux_handover_t *ho);
void coord_output_load(struct coord_output *o, flux_handover_t *ho);     /* before any job */
void coord_output_take_up(struct coord_output *o, struct coord_job *rj); /* a loaded job */

/* coord_exec.c */
struct runs *coord_execs_create(struct coord *r);
void coord_execs_destroy(struct runs *rs);
void coord_execs_ready(struct runs *rs);
void coord_execs_gone(struct runs *rs, const char *sender, uint32_t matchtag);
void coord_execs_save(const struct runs *rs, flux_handover_t *o);
void coord_execs_load(struct runs *rs, flux_handover_t *o);

#endif
