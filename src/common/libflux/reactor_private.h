/* Declarations that reactor.c and watcher.c share. */
#ifndef FLUX_REACTOR_PRIVATE_H
#define FLUX_REACTOR_PRIVATE_H

#include <ev.h>

#include "libutil/list.h"
#include "reactor.h"

struct flux_reactor {
    struct ev_loop *loop;  /* NULL on another engine */
    flux_reactor_t *whole; /* the reactor of which this is a part, or this reactor itself */
    const struct flux_reactor_part_ops *part;
    void *part_arg;
    struct list_node watchers; /* of a part */
    double hurry;              /* see flux_reactor_hurry() */
    unsigned deferred;         /* active deferrals */
    double now;                /* time of this pass; libev's own time follows the wall clock */
    bool signals;
    const struct flux_reactor_ops *ops;
    void *impl;
    bool stopped;
    int rc;
    void (*sleep_cb)(void *arg);
    void *sleep_arg;
    ev_prepare sleep;
};

enum flux_watcher_kind { KIND_TIMER, KIND_DEADLINE, KIND_FD, KIND_SIGNAL, KIND_CHILD, KIND_DEFER };

struct flux_watcher {
    flux_reactor_t *r;
    struct list_node node; /* in flux_reactor.watchers */
    enum flux_watcher_kind kind;
    bool active;
    bool unref;
    bool has_fd; /* ev.io.fd is the watcher's own */
    flux_watcher_f cb;
    void *arg;
    void *engine_data;
    double after;
    double repeat;
    union {
        ev_timer timer;
        ev_io io;
        ev_signal sig;
        ev_child child;
        ev_prepare prepare;
    } ev;
    ev_idle idle; /* a started deferral keeps the loop from sleeping */
};

#endif
