/* flux jobs, for commands that do the same with other defaults. */
#ifndef CMD_CMD_JOBS_H
#define CMD_CMD_JOBS_H

#include "../cmd.h"

/* Parse the arguments of `flux jobs` and print.  `all`: as if --all were given.  An exit code. */
int jobs_main(struct cmd *c, int argc, char **argv, bool all);

#endif
