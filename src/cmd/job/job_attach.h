/* The client's side of running something and staying with it: what flux wreckrun and flux exec
 * share.
 *
 * Forwards standard input and signals, writes output as it comes, and knows the exit code at the
 * end.
 */
#ifndef CMD_JOB_ATTACH_H
#define CMD_JOB_ATTACH_H

#include "../cmd.h"
#include "libexec/wrexec_wire.h"

/* To be called first: a standard stream that is closed becomes /dev/null, so that no connection
 * takes its number. */
void job_attach_standard_fds(void);

/* Is there anything to read from standard input?  What reads /dev/null needs no messages for it. */
bool job_attach_stdin_useful(void);

struct job_attach_params {
    struct wrexec_run run;
    const char *fixed[WIRE_STRINGS]; /* working directory and files, see exec_wire.h */
    char *const *argv;
    char *const *env;
    bool label;      /* "TASK: " before each line */
    bool label_rank; /* the rank a task is on, instead of its number */
};
/* flux exec: run processes beside brokers to their end.  The exit code for the command; sentences
 * were printed. */
int job_attach_exec(struct cmd *c, const struct job_attach_params *p);

/* How a job is attached. */
struct job_attach_how {
    bool label; /* "TASK: " before each line */
    bool reads; /* pass standard input on */
    /* Not NULL: SIGINT, SIGTERM, SIGHUP, SIGQUIT and failed output cancel the job, with this note,
     * also while it runs; another signal does not wait for its end.  Else signals go to its
     * tasks. */
    const char *cancel_note;
    const struct job_attach_term *term; /* of standard input; NULL: it is passed on as it is */
    void *arg;                          /* of `term` */
};

typedef struct job_attach job_attach_t;

/* Standard input is a terminal whose size and hangup are passed on, too, in frames. */
struct job_attach_term {
    size_t max;  /* bytes a frame of input holds */
    size_t head; /* bytes before them, at most JOB_ATTACH_HEAD */
    size_t room; /* kept free in the window of input for job_attach_input() */
    void (*started)(void *arg, job_attach_t *ja);            /* there are tasks, which read input */
    void (*signal)(void *arg, job_attach_t *ja, int signum); /* SIGWINCH or SIGCONT came */
    void (*over)(void *arg);                                 /* no more input; may come again */
    /* Write the head for `len` bytes of input; 0: the frame for its end.  Returns its size. */
    size_t (*frame)(void *arg, void *head, size_t len);
};
#define JOB_ATTACH_HEAD 16

/* Follow the job that was submitted with JOB_FLAG_CLIENT to its end.  Returns its exit code, or
 * CMD_FAIL after an error message. */
int job_attach_job(struct cmd *c, flux_t *h, uint64_t id, const struct job_attach_how *how);
/* Send a whole frame, while there are tasks that read. */
void job_attach_input(job_attach_t *ja, const void *data, size_t len);

#endif
