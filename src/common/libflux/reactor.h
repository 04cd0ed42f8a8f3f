/* The reactor: one event loop per thread that waits for time, file descriptors, signals and
 * children, and calls back.  All waiting in Flux is done here.
 *
 * There are two kinds of engines: libev (flux_reactor_create), and any other that implements struct
 * flux_reactor_ops, such as the simulator's virtual clock.  Code that uses only timers and
 * deferrals runs on both.
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

/* Create a reactor on libev.  `signals`: true for the one reactor of a process that may watch
 * signals and children (libev's default loop).  NULL with errno. */
flux_reactor_t *flux_reactor_create(bool signals);
void flux_reactor_destroy(flux_reactor_t *r); /* NULL-safe, keeps errno; destroy watchers first */

/* Run until stopped, or until no started watcher is left.  Returns the value given to stop, else
 * 0. */
int flux_reactor_run(flux_reactor_t *r);
void flux_reactor_stop(flux_reactor_t *r, int rc);

/* The clock of durations and timeouts, in seconds, as of this pass of the loop.  It never goes
 * back, and does not leap when the wall clock is set.  Time during which the machine was suspended
 * counts (CLOCK_BOOTTIME), as does time during which the process was stopped.  All reactors of a
 * process have the same clock, which equaled the wall clock when the first of them was created; in
 * a simulation it is virtual. */
double flux_reactor_now(flux_reactor_t *r);
/* The wall clock, for people and for other programs.  It may be set at any moment, so it must not
 * be used to wait or to measure. */
double flux_reactor_wall(flux_reactor_t *r);
/* Convert between flux_reactor_now() and the wall clock as it is set at present, for times that are
 * exchanged with people or other processes. */
double flux_reactor_to_wall(flux_reactor_t *r, double t);
double flux_reactor_from_wall(flux_reactor_t *r, double wall);
/* Return the time of the next beat of `period` > 0 seconds, to which periodic work is set: the next
 * time at which the wall clock is a multiple of the period.  So the brokers of a session work at
 * the same moments, also on several hosts, and all sleep in between.  It is always between
 * flux_reactor_now() and one period (and a hundredth) later, also when the wall clock is set. */
double flux_reactor_beat(flux_reactor_t *r, double period);
/* Update flux_reactor_now() (after a long computation). */
void flux_reactor_update(flux_reactor_t *r);
/* A new reading, for measuring, which does not change flux_reactor_now().  It never goes back; only
 * the difference of two readings is meaningful. */
double flux_reactor_clock(flux_reactor_t *r);
/* Until flux_reactor_clock() is `until`, short requests are served on this loop: long computations
 * are done in shorter slices (slice.h) and deferrable work in smaller portions.  Concerns all parts
 * of the reactor.  Does nothing on a virtual clock. */
void flux_reactor_hurry(flux_reactor_t *r, double until);
bool flux_reactor_hurries(flux_reactor_t *r);
bool flux_reactor_virtual(const flux_reactor_t *r); /* true: no time passes during a callback */

/* Number of deferrals that were started and have not called back: the loop does not sleep while
 * there are any.  0 on engines other than libev. */
unsigned flux_reactor_deferred(const flux_reactor_t *r);

/* Call cb(arg) each time before the loop may sleep, after all deferrals, for work that is done once
 * per pass.  One callback per reactor; NULL removes it.  Does not keep flux_reactor_run() from
 * returning.  -1 with ENOTSUP on engines other than libev. */
int flux_reactor_before_sleep(flux_reactor_t *r, void (*cb)(void *arg), void *arg);

/* Create watchers, stopped.  NULL with ENOMEM, or ENOTSUP if the engine has no such watchers. */
flux_watcher_t *flux_timer_create(flux_reactor_t *r, flux_watcher_f cb, void *arg);
/* A timer that fires once and counts time during which the machine is suspended, for times that do
 * not depend on this machine: time limits, begin times, the end of a reservation.  Other timers
 * pause with the machine, so that no peer is declared lost for a silence during which nothing could
 * be sent or read.  flux_timer_start() with repeat 0.  Also NULL with EMFILE or ENFILE. */
flux_watcher_t *flux_deadline_create(flux_reactor_t *r, flux_watcher_f cb, void *arg);
flux_watcher_t *flux_fd_watcher_create(flux_reactor_t *r, int fd, int events, flux_watcher_f cb,
                                       void *arg);
flux_watcher_t *flux_signal_watcher_create(flux_reactor_t *r, int signum, flux_watcher_f cb,
                                           void *arg);
/* `revents` carries the wait status of the child. */
flux_watcher_t *flux_child_watcher_create(flux_reactor_t *r, int pid, flux_watcher_f cb, void *arg);
/* Called once, after all ready watchers have been handled and before the loop would sleep: the
 * place to send a batch.  Start it again for the next time. */
flux_watcher_t *flux_defer_create(flux_reactor_t *r, flux_watcher_f cb, void *arg);

/* No effect if started.  A timer starts anew with its last times. */
void flux_watcher_start(flux_watcher_t *w);
void flux_watcher_stop(flux_watcher_t *w); /* NULL-safe */
bool flux_watcher_active(const flux_watcher_t *w);
void flux_watcher_destroy(flux_watcher_t *w); /* stops; NULL-safe, keeps errno */
/* Let flux_reactor_run() return although this watcher is started. */
void flux_watcher_unref(flux_watcher_t *w);

/* Start a timer: first after `after` seconds, then every `repeat` seconds (0: once).  Restarts. */
void flux_timer_start(flux_watcher_t *w, double after, double repeat);
/* fd watcher: change the events to wait for (0 pauses it). */
void flux_fd_watcher_set(flux_watcher_t *w, int events);

/* --- a part of another reactor --- */

/* A user of a reactor, such as a module, can share the loop of another reactor: its own reactor is
 * then a part of that one, and its watchers are those of the loop.  Only flux_reactor_run() and
 * flux_reactor_before_sleep() do not work there (ENOTSUP). */
struct flux_reactor_part_ops {
    /* flux_reactor_stop() was called, with the value that flux_reactor_stopped() returns; the
     * watchers of the part no longer call back.  The part is still in use: destroy it later. */
    void (*stopped)(void *arg);
    /* The callback `cb` of a watcher, which it may have destroyed, has returned after that many
     * seconds. `what`: the kind of watcher, as words for a message. */
    void (*turn)(void *arg, const char *what, flux_watcher_f cb, double seconds);
};
/* Create a part of `whole`, which must be on libev (ENOTSUP) and outlive it.  Its destruction
 * destroys the watchers that are left.  NULL with errno. */
flux_reactor_t *flux_reactor_create_part(flux_reactor_t *whole,
                                         const struct flux_reactor_part_ops *ops, void *arg);
bool flux_reactor_is_part(const flux_reactor_t *r);

/* --- another engine --- */

struct flux_reactor_ops {
    double (*now)(void *impl);
    /* Call flux_watcher_fire(w) at time `at`; a second call changes the time. */
    int (*timer_set)(void *impl, flux_watcher_t *w, double at);
    void (*timer_clear)(void *impl, flux_watcher_t *w);
    /* Call flux_watcher_fire(w) after all ready watchers have been handled. */
    int (*defer)(void *impl, flux_watcher_t *w);
    void (*defer_clear)(void *impl, flux_watcher_t *w);
    void (*destroy)(void *impl); /* may be NULL */
    double (*wall)(void *impl);  /* the wall clock; NULL: the same as now() */
};
/* On such a reactor, fd, signal and child watchers give ENOTSUP, run does nothing, and stop only
 * records its call (see flux_reactor_stopped()). */
flux_reactor_t *flux_reactor_create_ops(const struct flux_reactor_ops *ops, void *impl);
/* For engines: call back.  Restarts a repeating timer. */
void flux_watcher_fire(flux_watcher_t *w);
/* For engines: private data per watcher. */
void flux_watcher_set_engine_data(flux_watcher_t *w, void *data);
void *flux_watcher_engine_data(const flux_watcher_t *w);
bool flux_reactor_stopped(const flux_reactor_t *r, int *rc);

#endif
