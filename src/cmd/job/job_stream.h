/* The client's side of the stream of a job's tasks, as wrexec.run and wrexec.listen make it: output
 * that is paid back as credit, standard input, and another request when a broker on the way dies.
 *
 * Not thread-safe; one reactor.
 */
#ifndef CMD_JOB_STREAM_H
#define CMD_JOB_STREAM_H

#include "libflux/future.h"
#include "libexec/wrexec_wire.h"

typedef struct job_stream job_stream_t;

/* Each may destroy the stream. */
struct job_stream_cb {
    /* `taken` of the notice: more bytes of input that were taken. */
    void (*notice)(void *arg, const struct wrexec_notice *n);
    void (*output)(void *arg, const void *data, size_t len); /* records */
    void (*result)(void *arg, const char *json, size_t len);
    void (*failed)(void *arg, int errnum, const char *why); /* no result will come */
};

/* Follow a job, or run a program (the payload of wrexec.run, whose window is given).  NULL with
 * ENOMEM. */
job_stream_t *job_stream_listen(flux_t *h, const struct wrexec_listen *l,
                                const struct job_stream_cb *cb, void *arg);
job_stream_t *job_stream_run(flux_t *h, const void *data, size_t len, uint32_t window,
                             const struct job_stream_cb *cb, void *arg);
/* If it is not over, the service is told.  NULL-safe, keeps errno. */
void job_stream_destroy(job_stream_t *s);
/* The job has ended, as another service says: a stream that waits for its launch is to end. */
void job_stream_ended(job_stream_t *s);
/* Has the own broker gone away, so that nothing is heard of the job until it is back? */
bool job_stream_away(const job_stream_t *s);
/* `waiting`: bytes of output that were not written yet.  Credit is sent for a quarter of the window
 * or more, once no more than that waits. */
void job_stream_pay(job_stream_t *s, size_t waiting);
/* Standard input: `head`, and `data`.  Nothing: its end.  -1 with ENOMEM. */
int job_stream_input(job_stream_t *s, const void *head, size_t headlen, const void *data,
                     size_t len);

#endif
