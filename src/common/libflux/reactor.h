/* The reactor: one loop per thread that waits for time, file descriptors, signals and children, and
 * calls back.  Everything in Flux that waits, waits here.
 *
 * Two engines stand behind this interface: libev (flux_reactor_create) and any other that fills in
 * struct flux_reactor_ops, such as the simulator's virtual clock.  Code that uses timers and
 * deferrals only runs on both.
 *
 * Thread rules: a reactor and its watchers belong to one thread.
 */
#ifndef FLUX_REACTOR_H
#define FLUX_REACTOR_H

#include <stdbool.h>

typedef struct flux_reactor flux_reactor_t;
typedef struct flux_watcher flux_watcher_t;

enum { FLUX_POLLIN = 1, FLUX_POLLOUT = 2, FLUX_POLLERR = 4 };

typedef void (*flux_watcher_f)(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);

/* A reactor on libev.  `signals`: true for the one reactor of a process that may watch signals and
 * children (libev's default loop).  NULL with errno. */
flux_reactor_t *flux_reactor_create(bool signals);
void flux_reactor_destroy(flux_reactor_t *r); /* NULL-safe, keeps errno; destroy watchers first */

/* Run until stopped or no started watcher is left.  Returns the value given to stop (0 without). */
int flux_reactor_run(flux_reactor_t *r);
void flux_reactor_stop(flux_reactor_t *r, int rc);

/* The clock of durations, limits and timeouts, in seconds: it never goes back or leaps, wherever the
 * wall clock is set to.  All reactors of a process have the same, which was the wall clock's when the
 * first of them was created; virtual in a simulation.  Of this pass of the loop. */
double flux_reactor_now(flux_reactor_t *r);
/* The wall clock, for what people read and what other programs are told: it may be set at any moment,
 * so nothing is to be waited for, nor measured, with it. */
double flux_reactor_wall(flux_reactor_t *r);
/* Convert between a time of flux_reactor_now() and one of the wall clock as it is set at present: at
 * the border of what waits for a time and what people and other processes say and are told. */
double flux_reactor_to_wall(flux_reactor_t *r, double t);
double flux_reactor_from_wall(flux_reactor_t *r, double wall);
/* Take a fresh reading first (after a long computation). */
void flux_reactor_update(flux_reactor_t *r);
/* A fresh reading, for measuring: it never goes back, and what flux_reactor_now() says stays as it
 * is.  Only the difference of two readings means something. */
double flux_reactor_clock(flux_reactor_t *r);
bool flux_reactor_virtual(const flux_reactor_t *r); /* no time passes while something is done */

/* Call cb(arg) each time before the loop may sleep, after all deferrals: for what is done once for
 * all that one pass brought.  One for each reactor; NULL: no more.  Does not keep
 * flux_reactor_run() from returning.  -1 with ENOTSUP on another engine than libev. */
int flux_reactor_before_sleep(flux_reactor_t *r, void (*cb)(void *arg), void *arg);

/* Create watchers, stopped.  NULL with ENOMEM, or ENOTSUP where the engine has no such thing. */
flux_watcher_t *flux_timer_create(flux_reactor_t *r, flux_watcher_f cb, void *arg);
flux_watcher_t *flux_fd_watcher_create(flux_reactor_t *r, int fd, int events, flux_watcher_f cb,
                                       void *arg);
flux_watcher_t *flux_signal_watcher_create(flux_reactor_t *r, int signum, flux_watcher_f cb,
                                           void *arg);
/* `revents` carries the wait status of the child. */
flux_watcher_t *flux_child_watcher_create(flux_reactor_t *r, int pid, flux_watcher_f cb, void *arg);
/* Called once, after everything that is ready now was handled and before the loop would block: the
 * place to send what was batched.  Start it again for the next time. */
flux_watcher_t *flux_defer_create(flux_reactor_t *r, flux_watcher_f cb, void *arg);

/* No effect when started.  A timer starts anew with the times it was given last. */
void flux_watcher_start(flux_watcher_t *w);
void flux_watcher_stop(flux_watcher_t *w); /* NULL-safe */
bool flux_watcher_active(const flux_watcher_t *w);
void flux_watcher_destroy(flux_watcher_t *w); /* stops; NULL-safe, keeps errno */
/* A started watcher that must not keep flux_reactor_run() from returning. */
void flux_watcher_unref(flux_watcher_t *w);

/* Start a timer: first after `after` seconds, then every `repeat` (0: once).  Restarts. */
void flux_timer_start(flux_watcher_t *w, double after, double repeat);
/* fd watcher: change the events waited for (0 pauses it). */
void flux_fd_watcher_set(flux_watcher_t *w, int events);

/* --- another engine --- */

struct flux_reactor_ops {
    double (*now)(void *impl);
    /* Arrange that flux_watcher_fire(w) is called at time `at`; a second call moves it. */
    int (*timer_set)(void *impl, flux_watcher_t *w, double at);
    void (*timer_clear)(void *impl, flux_watcher_t *w);
    /* Arrange for flux_watcher_fire(w) when all that is due now was handled. */
    int (*defer)(void *impl, flux_watcher_t *w);
    void (*defer_clear)(void *impl, flux_watcher_t *w);
    void (*destroy)(void *impl); /* may be NULL */
    double (*wall)(void *impl);  /* the wall clock; NULL: the same as now() */
};
/* fd, signal and child watchers give ENOTSUP on such a reactor, and run/stop do nothing (stop
 * records that it was called, see flux_reactor_stopped()). */
flux_reactor_t *flux_reactor_create_ops(const struct flux_reactor_ops *ops, void *impl);
/* For engines: call back.  Re-arms a repeating timer. */
void flux_watcher_fire(flux_watcher_t *w);
/* For engines: a slot of their own per watcher. */
void flux_watcher_set_engine_data(flux_watcher_t *w, void *data);
void *flux_watcher_engine_data(const flux_watcher_t *w);
bool flux_reactor_stopped(const flux_reactor_t *r, int *rc);

#endif
