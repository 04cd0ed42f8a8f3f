/* A line on the terminal while nothing is to be seen of a job: in which state it is, and why. */
#ifndef CMD_JOBTELL_H
#define CMD_JOBTELL_H

#include "cmd.h"

typedef struct jobtell jobtell_t;

/* From two seconds on, when standard error is a terminal: "flux NAME: job 7 (TAIL): waits for ...".
 * `tail` is borrowed.  NULL when it is no terminal, or without memory: then there is no such line. */
jobtell_t *jobtell_start(struct cmd *c, flux_t *h, uint64_t id, const char *tail);
/* Something is to be seen, or it is over: no more.  NULL-safe, keeps errno. */
void jobtell_stop(jobtell_t *t);

#endif
