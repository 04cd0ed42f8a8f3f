/* What the sources of the module host share: see modhost.c for the whole. */
#ifndef BROKER_MODHOST_PRIVATE_H
#define BROKER_MODHOST_PRIVATE_H

#include <stdatomic.h>
#include <pthread.h>

#include "libflux/module.h"
#include "libutil/list.h"
#include "fairq.h"
#include "modhost.h"

#define WAKE_AFTER 16

enum state { LOADING, RUNNING, STOPPING };
/* From CODE_TOOK up: requests of weight CODE - CODE_TOOK were taken, of the client that is the envelope's
 * `from`. */
enum code {
    CODE_STOP = 1,
    CODE_ASK,
    CODE_ASK_RELOAD,
    CODE_READY,
    CODE_REFUSED,
    CODE_EXITED,
    CODE_TOOK
};

struct module {
    struct list_node node;
    struct list_node asleep; /* in modhost.asleep: is to be woken */
    unsigned posted;         /* messages since that was so */
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
    flux_msg_t *load_req;       /* answered when it runs */
    flux_msg_t *stop_req;       /* answered when it has stopped */
    bool reload;                /* when it has stopped, start it again */
    bool initial;               /* counted by modhost_start() */
    bool successor;             /* started by a reload */
    flux_handover_t *inherited; /* until init has seen it */
    /* written by the thread before its EXITED envelope, read after it */
    int errnum;
    errmsg_t error;
    flux_handover_t *leaves; /* to its successor; what it sends from then on is dropped */
    fairq_t *queue;          /* what it has taken from the mailbox, by sender */
    struct envelope *rest;   /* of the last mailbox_take(): what is not in the queue yet */
    size_t nrest;
    /* the same for its REFUSED envelope */
    int refusal;
    errmsg_t refused;
    /* of the thread alone, while it lives */
    flux_reactor_t *r;
    flux_watcher_t *w;
    flux_t *h;
    unsigned said; /* messages that the broker was not told of */
    void *ctx;
    struct flux_module_host host;
    bool said_exit;
    uint64_t seed;
};

struct modhost {
    core_t *core;
    mailbox_t *outbox;
    atomic_uint queued; /* weight of clients' requests that no thread is known to have taken */
    flux_watcher_t *watcher;
    struct list_node modules;
    struct list_node asleep;
    flux_watcher_t *waker;
    flux_handlers_t *handlers;
    modhost_done_f start_done;
    void *start_arg;
    unsigned starting;
    errmsg_t start_error;
    modhost_done_f stop_done;
    void *stop_arg;
};

/* modhost.c */
struct module *modhost_find(modhost_t *mh, const char *name);
/* Load it beside the others; its load_req is the caller's to set.  NULL with a sentence. */
struct module *modhost_load(modhost_t *mh, const char *path, int argc, char *const *argv,
                            errmsg_t *err);
/* Have it stopped; CODE_STOP, or it may refuse: CODE_ASK, CODE_ASK_RELOAD.  -1 with errno. */
int modhost_stop_one(struct module *m, enum code code);
/* Can the file of a module be loaded anew, and read what the module would leave?  -1 with a sentence. */
int modhost_may_follow(struct module *m, errmsg_t *err);

/* modhost_thread.c */
/* The module's thread; `arg` is the struct module. */
void *modhost_thread_main(void *arg);
/* The next envelope to look at, from the queue or, after that, of what is not in it; by the broker's thread when
 * the module's has ended.  False: there is none. */
bool modhost_next_envelope(struct module *m, struct envelope *l);
/* What the thread has open: done by it at its end, else, when it has ended, by the broker's. */
void modhost_thread_close(struct module *m);

/* modhost_service.c */
extern const struct flux_handler modhost_handlers[]; /* their argument is the modhost_t */

#endif
