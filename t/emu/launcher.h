/* An emulated launcher: the service wrexec at rank 0, of sessions in one thread (t/sim/exec.c) and
 * of sessions with an emulated launcher (t/job/fake_wrexec.c).
 *
 * What a task does is in its command: NAME TIME CODE HOW.
 *    TIME   microseconds
 *    CODE   exit code
 *    HOW    letters: d SIGTERM does not end it; k nor does SIGKILL, for up to 25 seconds; f it
 *           cannot be started; l the node is lost to it half-way; n a note is raised;
 *           o output is lost; - nothing of that
 *
 * Thread rules: those of the handle.
 */
#ifndef T_LAUNCHER_H
#define T_LAUNCHER_H

#include "libflux/module.h"

#define LAUNCHER_FAIL_CODE 127
#define LAUNCHER_LOST_CODE 137
#define LAUNCHER_STUCK_MAX 25. /* seconds */

typedef struct launcher launcher_t;

enum launcher_fault { LAUNCHER_LOST_END, LAUNCHER_WRONG_CODE, LAUNCHER_IMMORTAL };

struct launcher_ops {
    /* All but `fail` may be NULL: no delay, always room, no fault, no matter. */
    double (*delay)(void *arg, double max); /* of a start or an end, in seconds */
    bool (*no_room)(void *arg, bool kill);  /* refuse this request with EAGAIN */
    bool (*plant)(void *arg, enum launcher_fault fault);
    void (*again)(void *arg);                 /* a job is launched that has run */
    void (*fail)(void *arg, const char *why); /* the request was wrong */
};

launcher_t *launcher_create(flux_t *h, const struct launcher_ops *ops, void *arg); /* or ENOMEM */
void launcher_destroy(launcher_t *x); /* NULL-safe, keeps errno */

/* Jobs that run now. */
size_t launcher_running(const launcher_t *x);
/* How many seconds a job took from its launch to its end, whatever the wall clock was set to; < 0:
 * it has not ended here. */
double launcher_ran(const launcher_t *x, uint64_t id);

#endif
