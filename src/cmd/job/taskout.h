/* Output of tasks on its way to this program's own streams: never blocking, labeled by lines when
 * that is wanted, else as it comes, except that lines of several tasks are not mixed.
 *
 * An outsink is a stream of this program; a taskout is one job's output, which goes to two of them.
 * Several taskouts may share sinks.
 *
 * Not thread-safe; one reactor.
 */
#ifndef CMD_TASKOUT_H
#define CMD_TASKOUT_H

#include "../cmd.h"

typedef struct outsink outsink_t;
typedef struct taskout taskout_t;

struct outsink_cb {
    /* Writing fails for good: errnum is EPIPE if there is no reader any more.  Waiting output was
     * dropped, and later output will be. */
    void (*failed)(void *arg, int errnum);
    /* Some or all of the waiting output was written. */
    void (*drained)(void *arg);
    void *arg;
};

/* `fd` is not taken over; one that is not open swallows everything.  NULL with ENOMEM. */
outsink_t *outsink_create(flux_reactor_t *r, int fd, const struct outsink_cb *cb);
void outsink_destroy(outsink_t *s); /* NULL-safe, keeps errno */
void outsink_write(outsink_t *s, const void *data, size_t len);
/* Write what waits as far as there is room now; the reactor does so by itself. */
void outsink_flush(outsink_t *s);
/* Bytes that wait for room. */
size_t outsink_waiting(const outsink_t *s);

struct taskout_params {
    bool label;           /* "PREFIXTASK: " before each line */
    const char *prefix;   /* "" when NULL; borrowed */
    const idset_t *ranks; /* label with member number TASK of it instead; may come later */
};

/* `out` and `err` are not taken over, and have to live longer.  NULL with ENOMEM. */
taskout_t *taskout_create(const struct taskout_params *p, outsink_t *out, outsink_t *err);
void taskout_destroy(taskout_t *t); /* NULL-safe, keeps errno */
void taskout_set_ranks(taskout_t *t, const idset_t *ranks);
/* `stream`: 1 standard output, 2 standard error. */
void taskout_write(taskout_t *t, uint32_t task, uint32_t stream, const void *data, size_t len);
/* At the end: write what is held, and begin a new line after it if there are labels. */
void taskout_finish(taskout_t *t);

#endif
