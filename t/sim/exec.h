/* Emulated tasks: the service wrexec of simulated sessions (exec.c). */
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include "sim.h"

/* What a task does is in its command: exec TIME CODE HOW.
 *    TIME   microseconds
 *    CODE   exit code
 *    HOW    letters: d SIGTERM does not end it; k nor does SIGKILL, for up to 25 seconds; f it
 *           cannot be started; l the node is lost to it half-way; n a note is raised;
 *           o output is lost; - nothing of that */
#define EXEC_FAIL_CODE 127
#define EXEC_LOST_CODE 137
#define EXEC_STUCK_MAX 25. /* seconds */

/* Jobs that run now, of the instance behind this module. */
size_t exec_running(const struct sim_ep *e);
/* How many seconds a job took from its launch to its end, whatever the wall clock was set to; < 0:
 * it has not ended at this instance. */
double exec_ran(const struct sim_ep *e, uint64_t id);

#endif
