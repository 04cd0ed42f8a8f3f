/* What work costs apart from time: how often threads are woken up, and system calls.  These counts
 * do not depend on the host.
 */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Voluntary context switches of all threads of these processes until now: how often they were
 * woken. */
double bench_wakeups(const pid_t *pids, size_t n);

/* Count the system calls of all threads of these processes, and of the processes that they start
 * meanwhile, by ptrace(2): a process of its own traces them, and they are slow meanwhile.  False
 * with a line of output if that is not permitted.
 */
bool bench_calls_start(const pid_t *pids, size_t n);
uint64_t bench_calls(void); /* since then */
void bench_calls_stop(void);

#endif
