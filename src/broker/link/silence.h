/* Silence: for how long nothing has come from a neighbor, and what follows from it.
 *
 *    probe       each end sends a sign of life at least so often
 *    slow        a neighbor that was silent for so long is slow, until it is heard again
 *    lost        ... for so long is lost
 *    patience    ... for so long is lost, too, where silence is not a sign of death: it joins
 *                or leaves, or is rank 0
 *
 * Thread rules: those of the reactor.
 */
#ifndef BROKER_SILENCE_H
#define BROKER_SILENCE_H

#include <stdbool.h>

#include "libflux/reactor.h"
#include "libutil/errmsg.h"

/* Seconds. */
struct silence_limits {
    double probe;
    double slow;
    double lost; /* 0: nobody is lost, or slow, for silence */
    double patience;
};

/* The limits from their texts, each of which may be NULL: the default.  -1 with EINVAL and an error
 * message. */
int silence_limits_parse(struct silence_limits *lim, const char *probe, const char *slow,
                         const char *lost, const char *patience, errmsg_t *err);

/* One direction of a connection. */
struct silence_line {
    double heard; /* reactor time */
    bool slow;
    unsigned doubt; /* looks in a row that found a limit passed: to be checked once more */
};

enum silence_verdict {
    SILENCE_FINE,
    SILENCE_SLOW,  /* it is slow from now on */
    SILENCE_HEARD, /* it was slow, and was heard again */
    SILENCE_LOST,
};

typedef struct silence silence_t;

/* `round` is called when lines are to be judged, all of them; `probe`: send a sign of life on each
 * connection on which nothing waits to be sent.  NULL with ENOMEM.  Nothing is called before
 * silence_start(), nor at all if lim->lost is 0. */
silence_t *silence_create(flux_reactor_t *r, const struct silence_limits *lim,
                          void (*round)(void *arg, bool probe), void *arg);
void silence_destroy(silence_t *s); /* NULL-safe, keeps errno */
void silence_start(silence_t *s);

/* The line begins. */
void silence_begin(const silence_t *s, struct silence_line *line);
/* Something came, or did `ago` seconds ago. */
void silence_heard(const silence_t *s, struct silence_line *line);
void silence_heard_ago(const silence_t *s, struct silence_line *line, double ago);
/* From within `round` only. */
enum silence_verdict silence_judge(silence_t *s, struct silence_line *line, bool patient);
/* Seconds since it was heard. */
double silence_length(const silence_t *s, const struct silence_line *line);

#endif
