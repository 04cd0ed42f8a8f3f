/* A terminal in raw mode, given back as it was whatever happens to this program.
 *
 * Thread rules: for programs with one thread.
 */
#ifndef CMD_TERMRAW_H
#define CMD_TERMRAW_H

#include "libutil/errmsg.h"

typedef struct termraw termraw_t;

/* Switch `fd` to raw mode.  A small process beside this one gives it back when this one is killed.
 * NULL with errno and an error message. */
termraw_t *termraw_start(int fd, errmsg_t *err);
/* Raw once more, after this program was stopped and continued. */
void termraw_again(termraw_t *t);
/* Give it back, with what was written shown first.  NULL-safe, keeps errno. */
void termraw_stop(termraw_t *t);

#endif
