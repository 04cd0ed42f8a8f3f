/* Declarations that the parts of the sched module share. */
#ifndef SCHED_MODULE_H
#define SCHED_MODULE_H

#include "libflux/module.h"
#include "libflux/slice.h"
#include "libservice/follow.h"
#include "libservice/setup.h"
#include "libsched/sched.h"
#include "libsched/sched_load.h"
#include "libsched/sched_wire.h"
#include "libutil/strbuf.h"

struct sent_estimate {
    uint64_t id;
    double t;        /* by the reactor's clock */
    uint64_t reason; /* hash of the text */
};

struct ctx {
    flux_t *h;
    flux_handlers_t *handlers;
    sched_t *s;
    flux_watcher_t *defer; /* the next slice */
    flux_watcher_t *timer; /* sched_pass_next_time() */
    setup_t *setup;

    /* the job module: */
    flux_msg_t *attach; /* NULL: none */
    uint64_t generation;
    bool enabled;
    uint32_t estimates;
    flux_watcher_t *estimate_timer;
    struct sent_estimate *sent; /* the last estimates that were sent, `estimates` of them */
    size_t nsent;
    double sent_shift;      /* difference of the wall clock and the reactor's when they were sent */
    strbuf_t *alloc, *deny; /* entries of the next response */
    bool broken;            /* some entries were lost for lack of memory */

    /* the resources: */
    follow_t *watch;
    resgraph_t *graph;
    idset_t *up, *drained;
    bool watch_failed; /* the failure was logged */

    /* the policies: */
    char *plugin_path;
    sched_loaded_t *queue, *node; /* NULL: the built-in default */

    uint64_t feeds, refused_feeds;
    double busy;
};

/* --- sched_module.c --- */

/* Schedule a pass, which runs once all received messages are handled. */
void sched_module_kick(struct ctx *ctx);

/* --- sched_feed.c --- */

void sched_feed_attach_cb(flux_t *h, const flux_msg_t *req, void *arg);
void sched_feed_cb(flux_t *h, const flux_msg_t *req, void *arg);
void sched_feed_cancel_cb(flux_t *h, const flux_msg_t *req, void *arg);
void sched_feed_disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Send the results of a slice to the job module. */
void sched_feed_answer(struct ctx *ctx);
extern const struct sched_ops sched_feed_ops; /* with a struct ctx */
/* Send the estimates that have changed. */
void sched_feed_estimates(struct ctx *ctx);

/* --- sched_watch.c --- */

int sched_watch_init(struct ctx *ctx);
void sched_watch_fini(struct ctx *ctx);

/* --- sched_policies.c --- */

/* Read arguments and attributes. */
int sched_policies_configure(struct ctx *ctx, int argc, char **argv, errmsg_t *err);
void sched_policies_fini(struct ctx *ctx);
void sched_policies_cb(flux_t *h, const flux_msg_t *req, void *arg);
/* Round to milliseconds: two clocks cannot be read at once, and a time must not change by being
 * converted there and back. */
double sched_policies_milliseconds(double t);
/* When the resources expire, by the wall clock as it is set now; 0: never. */
double sched_policies_expiration(const struct ctx *ctx);
void sched_policies_expiration_cb(flux_t *h, const flux_msg_t *req, void *arg);

#endif
