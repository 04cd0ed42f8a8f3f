/* Declarations that the files of the module host share: see modhost.c. */
#ifndef BROKER_MODHOST_PRIVATE_H
#define BROKER_MODHOST_PRIVATE_H

#include <stdatomic.h>
#include <pthread.h>

#include "libflux/module.h"
#include "libutil/list.h"
#include "fairq.h"
#include "modhost.h"

enum state { LOADING, RUNNING, STOPPING };
/* From CODE_TOOK up: requests of weight CODE - CODE_TOOK were taken, of the account that is the
 * envelope's `from`. */
enum code {
    CODE_STOP = 1,
    CODE_ASK,
    CODE_ASK_RELOAD,
    CODE_READY,
    CODE_REFUSED,
    CODE_EXITED,
    CODE_TOOK
};

struct module;

/* Where a module runs.  All but `took` and `report` are called by the broker's thread. */
struct module_place {
    const char *name;
    bool
        sleeps; /* to wake a module costs a wake-up: requests with FLUX_MSGF_LAZY wait for others */
    int (*start)(struct module *m, errmsg_t *err); /* -1 with an error message */
    bool (*posted)(struct module *m); /* a message has come: must the module be woken before the
                                       * others? */
    void (*wake)(struct module *m);   /* there are messages for it; may free the module */
    void (*took)(struct module *m, uint32_t from, unsigned weight); /* requests were taken */
    void (*report)(struct module *m, enum code code);               /* READY or REFUSED */
    void (*join)(struct module *m);                                 /* after EXITED */
};
extern const struct module_place modhost_in_thread; /* modhost_thread.c */
extern const struct module_place modhost_on_loop;   /* modhost_loop.c */

/* Written where the module runs, read anywhere; times in nanoseconds. */
struct turns_of {
    _Atomic uint64_t n, ns, longest;
    _Atomic uint64_t longer; /* than module.turn-max */
};

struct module {
    struct list_node node;
    struct list_node asleep; /* in modhost.asleep: must be woken */
    const struct module_place *place;
    unsigned posted; /* messages since then */
    modhost_t *mh;
    char *name;
    char *path;
    int argc;
    char **argv;
    void *dso;
    const struct flux_module *desc;
    endpoint_t *ep;
    mailbox_t *inbox;
    pthread_t thread;
    enum state state;
    uint64_t received;
    uint64_t sent;
    uint64_t dropped;           /* requests without response that found the mailbox full */
    flux_msg_t *load_req;       /* answered when the module runs */
    flux_msg_t *stop_req;       /* answered when the module has stopped */
    bool reload;                /* start it again when it has stopped */
    bool initial;               /* counted by modhost_start() */
    bool successor;             /* started by a reload */
    flux_handover_t *inherited; /* until init has read it */
    struct turns_of turns;
    double logged; /* when a long turn was last logged */
    /* on the loop */
    bool begun;   /* init has succeeded */
    bool ready;   /* to be reported */
    bool refuses; /* to be reported */
    /* written by the thread before its EXITED envelope, read after it */
    int errnum;
    errmsg_t error;
    flux_handover_t *leaves; /* state for its successor; later messages of its handle are dropped */
    fairq_t *queue;          /* envelopes taken from the mailbox, by sender */
    struct envelope *rest;   /* rest of the last mailbox_take(), not yet in the queue */
    size_t nrest;
    /* the same for its REFUSED envelope */
    int refusal;
    errmsg_t refused;
    /* used only by the thread while it lives */
    flux_reactor_t *r;
    flux_watcher_t *w;
    flux_t *h;
    unsigned said; /* messages since the broker was last woken */
    bool ending;   /* it was asked to end, and waits for something */
    void *ctx;
    struct flux_module_host host;
    bool said_exit;
    uint64_t seed;
};

struct modhost {
    core_t *core;
    mailbox_t *outbox;
    atomic_uint queued; /* weight of clients' requests that no thread has reported as taken yet */
    struct envelope *rest; /* rest of the last mailbox_take() from it */
    size_t nrest;
    flux_watcher_t *watcher;
    struct list_node modules;
    struct list_node asleep;
    flux_watcher_t *waker;
    flux_handlers_t *handlers;
    char *places;    /* attribute module.place; may be NULL */
    double turn_max; /* seconds; 0: no limit */
    void (*loads)(void *arg, const char *name);
    void *arg;
    modhost_done_f start_done;
    void *start_arg;
    unsigned starting;
    errmsg_t start_error;
    modhost_done_f stop_done;
    void *stop_arg;
};

/* modhost.c */
struct module *modhost_find(modhost_t *mh, const char *name);
/* Load a module; the caller sets its load_req.  `place`: "loop", "thread" or NULL.  NULL with an
 * error message. */
struct module *modhost_load(modhost_t *mh, const char *path, int argc, char *const *argv,
                            const char *place, errmsg_t *err);
/* Stop a module: CODE_STOP; or ask it to stop, which it may refuse: CODE_ASK, CODE_ASK_RELOAD.  -1
 * with errno. */
int modhost_stop_one(struct module *m, enum code code);
/* Can the module's file be loaded again, and read the state that the module would leave?  -1 with
 * an error message. */
int modhost_may_follow(struct module *m, errmsg_t *err);

/* For the places: wake the module after all ready work; it has started, or refused to stop;
 * requests were taken; it has ended (frees it). */
void modhost_wake_later(struct module *m);
void modhost_ready(struct module *m);
void modhost_refused(struct module *m);
void modhost_taken(modhost_t *mh, uint32_t from, unsigned weight);
void modhost_exited(struct module *m);

/* modhost_serve.c */
/* The module's handle on reactor `r` (NULL: there was no memory for it), which it takes over.  -1:
 * see m->error. */
int modhost_serve_open(struct module *m, flux_reactor_t *r, const struct flux_handle_ops *ops);
int modhost_serve_init(struct module *m);          /* -1: see m->error */
void modhost_serve_fini(struct module *m, int rc); /* `rc`: of its reactor; errno, if negative */
void modhost_serve_close(struct module *m);        /* the opposite of _open(); harmless twice */
/* Serve waiting messages, for one slice.  MORE: call again; STOP: end the module; NEVER: it stops
 * its reactor itself, and there is nothing to be served until then. */
enum serve { SERVE_IDLE, SERVE_MORE, SERVE_STOP, SERVE_NEVER };
enum serve modhost_serve(struct module *m);
/* Count a turn, and log it if it was too long.  `what` did it; `topic` may be NULL. */
void modhost_serve_turn(struct module *m, const char *what, const char *topic, flux_watcher_f cb,
                        double seconds);
/* The next envelope: from the queue, then from the rest.  The broker's thread may call it once the
 * module has ended.  False: there is none. */
bool modhost_serve_next(struct module *m, struct envelope *l);

/* modhost_service.c */
extern const struct flux_handler modhost_handlers[]; /* their argument is the modhost_t */

#endif
