/* What cmd.c and the driver know of a command, and the commands do not. */
#ifndef CMD_CMD_PRIVATE_H
#define CMD_CMD_PRIVATE_H

#include "cmd.h"

struct cmd_private {
    flux_t *h;
    flux_reactor_t *reactor;
    char full_name[64];
    bool in_options;
    unsigned flags; /* of flux_open_flags() */
    bool returned;  /* to a broker that was started again */
    void (*back)(void *arg);
    void *back_arg;
    bool progress_shown;
    double progress_since; /* monotonic seconds, 0: nothing is under way */
};

typedef int (*cmd_f)(struct cmd *c, int argc, char **argv);

/* Run the command `name`, and free what it has opened; the exit code of the program. */
int cmd_run(const char *name, cmd_f fn, int argc, char **argv);
/* The list of commands, as `flux help` prints it. */
void cmd_print_list(void);
/* Is there such a command, built in or as a program?  What it does, "" when that is unknown, or
 * NULL. */
const char *cmd_summary(const char *name);
/* "; did you mean A or B?", or where all are listed.  Returns `buf`. */
const char *cmd_nearest(const char *name, char *buf, size_t size);

#endif
