/* Silence: the time for which no message has arrived from a neighbor, and its consequences.
 *
 *    probe       each end sends a sign of life at least twice in this time
 *    slow        a neighbor that was silent for this time is slow, until a message arrives from it
 *    lost        a neighbor that was silent for this time is lost
 *    patience    replaces `slow` and `lost` where silence is not a sign of death: while the
 *                neighbor joins or leaves, or if it is rank 0
 *
 * Silence begins when the sign of life after the last message is due.
 *
 * Thread rules: those of the reactor.
 */
#ifndef BROKER_SILENCE_H
#define BROKER_SILENCE_H

#include <stdbool.h>

#include "libflux/reactor.h"
#include "libutil/errmsg.h"

/* Limits in seconds. */
struct silence_limits {
    double probe;
    double slow;
    double lost; /* 0: silence has no consequences */
    double patience;
};

/* Parse the limits.  A text may be NULL: the default applies.  Returns -1 with EINVAL and an error
 * message. */
int silence_limits_parse(struct silence_limits *lim, const char *probe, const char *slow,
                         const char *lost, const char *patience, errmsg_t *err);

/* A line: one direction of a connection. */
struct silence_line {
    double heard; /* time of the last message, of the reactor */
    bool slow;
    unsigned doubt; /* number of rounds in a row that found a limit passed */
};

enum silence_verdict {
    SILENCE_FINE,
    SILENCE_SLOW,  /* it is slow from now on */
    SILENCE_HEARD, /* it was slow, and a message has arrived */
    SILENCE_LOST,
};

typedef struct silence silence_t;

/* Create an object that calls `round` when all lines are to be judged; `probe`: send a sign of life
 * on each connection on which no data wait to be sent.  Nothing is called before silence_start(),
 * nor at all if lim->lost is 0.  Returns NULL with ENOMEM. */
silence_t *silence_create(flux_reactor_t *r, const struct silence_limits *lim,
                          void (*round)(void *arg, bool probe), void *arg);
void silence_destroy(silence_t *s); /* NULL-safe, keeps errno */
void silence_start(silence_t *s);

/* Start a line. */
void silence_begin(const silence_t *s, struct silence_line *line);
/* Note that data have arrived, now or `ago` seconds ago. */
void silence_heard(const silence_t *s, struct silence_line *line);
void silence_heard_ago(const silence_t *s, struct silence_line *line, double ago);
/* Return the verdict on a line.  Called only from within `round`. */
enum silence_verdict silence_judge(silence_t *s, struct silence_line *line, bool patient);
/* Return the number of seconds since data have arrived. */
double silence_length(const silence_t *s, const struct silence_line *line);

#endif
