/* The client's side of the stream of a job's tasks, as wrexec.run and wrexec.listen make it: output
 * that is written here and paid back as credit, and standard input.  Not thread-safe; one reactor.
 */
#ifndef CMD_JOB_STDIO_H
#define CMD_JOB_STDIO_H

#include "libflux/courier.h"
#include "libexec/wrexec_wire.h"
#include "taskout.h"

struct job_stdio {
    flux_t *h;
    uint64_t id; /* of the job */
    outsink_t *sink[2];
    courier_t *courier; /* of credit, input and signals */
    size_t owed;        /* bytes of output that are not paid back yet */
    bool over;          /* nobody wants credit any more */
};

/* Open standard output and error; h and id are set.  -1 with ENOMEM. */
int job_stdio_open(struct job_stdio *s, const struct outsink_cb *cb);
void job_stdio_close(struct job_stdio *s);
/* Bytes of output that wait for room. */
size_t job_stdio_waiting(const struct job_stdio *s);
/* A message of output: write(arg, record) is called for each record in it, and the whole is owed.
 * -1: it is damaged. */
typedef void (*job_stdio_f)(void *arg, const struct wire_record *rec);
int job_stdio_output(struct job_stdio *s, const void *data, size_t len, job_stdio_f write,
                     void *arg);
/* Credit for what came, once most of it has gone out: to be called when some has. */
void job_stdio_pay_back(struct job_stdio *s);
/* Standard input: `head`, and `data`.  Nothing: its end.  -1 with ENOMEM. */
int job_stdio_input(struct job_stdio *s, const void *head, size_t headlen, const void *data,
                    size_t len);

#endif
