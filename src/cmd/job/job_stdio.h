/* The client's side of the stream of a job's tasks, as wrexec.run and wrexec.listen make it: output
 * that is written here and paid back as credit, and standard input.  Not thread-safe; one reactor.
 */
#ifndef CMD_JOBSTREAM_H
#define CMD_JOBSTREAM_H

#include "libflux/courier.h"
#include "libexec/wrexec_wire.h"
#include "taskout.h"

struct jobstream {
    flux_t *h;
    uint64_t id; /* of the job */
    outsink_t *sink[2];
    courier_t *courier; /* of credit, input and signals */
    size_t owed;        /* bytes of output that are not paid back yet */
    bool over;          /* nobody wants credit any more */
};

/* Open standard output and error; h and id are set.  -1 with ENOMEM. */
int jobstream_open(struct jobstream *s, const struct outsink_cb *cb);
void jobstream_close(struct jobstream *s);
/* Bytes of output that wait for room. */
size_t jobstream_waiting(const struct jobstream *s);
/* A message of output: write(arg, record) is called for each record in it, and the whole is owed.
 * -1: it is damaged. */
typedef void (*jobstream_f)(void *arg, const struct wire_record *rec);
int jobstream_output(struct jobstream *s, const void *data, size_t len, jobstream_f write,
                     void *arg);
/* Credit for what came, once most of it has gone out: to be called when some has. */
void jobstream_pay_back(struct jobstream *s);
/* Standard input: `head`, and `data`.  Nothing: its end.  -1 with ENOMEM. */
int jobstream_input(struct jobstream *s, const void *head, size_t headlen, const void *data,
                    size_t len);

#endif
