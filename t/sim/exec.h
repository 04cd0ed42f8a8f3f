/* Emulated tasks: the service wrexec of simulated sessions (exec.c). */
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include "sim.h"
#include "emu/launcher.h"

/* launcher_running() and launcher_ran() of the instance behind this module. */
size_t exec_running(const struct sim_ep *e);
double exec_ran(const struct sim_ep *e, uint64_t id);

#endif
