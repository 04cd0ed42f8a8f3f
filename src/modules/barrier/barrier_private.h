/* What the files of the barrier module share: see barrier.c. */
#ifndef BARRIER_PRIVATE_H
#define BARRIER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ended.h"
#include "entries.h"
#include "libflux/barrier_wire.h"
#include "libflux/courier.h"
#include "libflux/module.h"
#include "libidset/idset.h"
#include "libservice/claim.h"
#include "libservice/grace.h"
#include "libservice/longlist.h"
#include "libservice/session.h"
#include "libservice/setup.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/list.h"

/* A participant at this broker, or an instance below. */
struct party {
    struct claim claim;
    struct barrier *b;
    flux_msg_t *req; /* the request to answer */
    uint32_t rank;   /* its rank, if known, else FLUX_NODEID_ANY */
    bool child;
    char sender[];
};

struct join {
    struct list_node node; /* in barrier.joins */
    struct barrier *b;
    flux_future_t *f;
    bool before; /* ranks have moved since */
};

struct barrier {
    struct ctx *ctx;
    char *name;
    uint32_t nprocs;
    entries_t *entries;
    uint32_t seq;
    uint64_t after; /* number of the last use of the name that ended, as far as known here and
                     * below */
    bool shared;    /* with other instances: it was reported to one, or one has joined */
    unsigned tries; /* number of joins that failed since ranks have moved */
    uint64_t moves; /* value of ctx.moves when `tries` was 0 */
    uint32_t here;  /* participants at this broker */
    double since;
    struct longlist_place place;
    idset_t *ranks;      /* announced ranks of participants */
    grace_wait_t *grace; /* rank 0: lost ranks that may have had participants; or NULL */
    hmap_t *parties;     /* sender -> struct party */
    struct list_node joins;
    unsigned njoins;        /* since ranks last moved */
    struct list_node dirty; /* in ctx.dirty while there is something to tell, or it has to fail */
    bool gone;              /* a participant is, */
    uint32_t gone_rank;     /* which was at this rank */
};

struct ctx {
    bool reloads; /* this instance ends, and another one replaces it */
    flux_t *h;
    flux_handlers_t *handlers;
    session_t *session;
    flux_watcher_t *defer;
    courier_t *courier; /* for aborts to the instance above, since a lost abort would leave all
                         * participants waiting */
    hmap_t *barriers;   /* name -> struct barrier */
    struct claims *senders;
    longlist_t *longlist;
    struct list_node dirty;
    setup_t *setup; /* rank 0 */
    double grace_seconds;
    grace_t *grace;
    ended_table_t *ended;
    uint64_t moves; /* number of events about moved ranks in the tree */
    idset_t *lost;  /* ranks */
    uint64_t entered, joins, completed, failed;
};

/* --- barrier_use.c --- */

/* Create the barrier of a name, which has none.  NULL with ENOMEM. */
struct barrier *barrier_create(struct ctx *ctx, const char *name, uint32_t nprocs);
/* Destroy a barrier that is not in ctx->barriers.  Nobody is answered. */
void barrier_free(void *val);
/* Store a participant, or an instance below, with its request.  NULL with ENOMEM. */
struct party *barrier_party_add(struct barrier *b, const char *sender, const flux_msg_t *req,
                                bool child);
/* Return the rank in a sender's text "RANK.NUMBER"; FLUX_NODEID_ANY for one at this broker. */
uint32_t barrier_sender_rank(const char *sender);
/* There are new entries: release, fail, or report to the instance above.  Afterwards the barrier
 * may no longer exist. */
void barrier_advance(struct barrier *b);
/* End the barrier for all below, and for all above unless the end came from there; destroy it. */
void barrier_fail(struct barrier *b, bool from_above, int errnum, const char *reason);
void barrier_failf(struct barrier *b, bool from_above, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Fail a barrier, and destroy it, since a participant has gone (b->gone). */
void barrier_gone(struct barrier *b);
/* Rank 0: these lost ranks may have had participants, unless these have announced their ranks. */
void barrier_suspect(struct barrier *b, const idset_t *lost);
/* There is something to report, or the barrier has to fail: do so soon. */
void barrier_news(struct barrier *b);
/* Tell the instance above that a barrier failed here or below.  `last`: this instance ends. */
void barrier_send_abort(struct ctx *ctx, const struct barrier_abort *a, bool last);
void barrier_abort_above(struct barrier *b, int errnum, const char *reason, bool last);
/* The deferral of ctx->dirty. */
void barrier_flush_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg);

#endif
