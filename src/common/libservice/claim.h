/* Claims: things that live only as long as the client or instance that asked for them.  They are
 * indexed by sender and match tag, so the end of a sender, or a cancel, touches nothing else.
 *
 * Thread rules: those of the handle.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include "libflux/dispatch.h"
#include "libidset/idset.h"
#include "libutil/list.h"

struct claims;
struct claimant;

/* Member of the thing; read-only for its owner. */
struct claim {
    struct list_node node; /* in claimant.claims */
    struct claimant *s;    /* NULL: no claim */
    uint32_t matchtag;
    size_t weight; /* bytes, or the like: claim_weigh() */
    /* The sender has disconnected, or (`canceled`) ends the request.  The claim was dropped
     * already, so the structure around it may be freed.  A pending request must be answered
     * (claim_gone_why()) even if no client reads the response: brokers on its way keep the request
     * until then. */
    void (*gone)(struct claim *c, bool canceled);
};

struct claims *claims_create(void);     /* NULL with ENOMEM */
void claims_destroy(struct claims *ss); /* NULL-safe; drops the claims */

/* Claim for the sender of `req`.  -1 with ENOMEM; then there is no claim. */
int claim_take(struct claims *ss, struct claim *c, const flux_msg_t *req,
               void (*gone)(struct claim *c, bool canceled));
/* The same for something that cannot be canceled. */
int claim_take_sender(struct claims *ss, struct claim *c, const flux_msg_t *req,
                      void (*gone)(struct claim *c, bool canceled));
/* The thing has ended by itself.  No effect without a claim (all zeros). */
void claim_drop(struct claims *ss, struct claim *c);

/* The sender of `msg` has disconnected. */
void claims_disconnect(struct claims *ss, const flux_msg_t *msg);
/* All senders at these ranks are gone.  The notice of a single sender takes the way of its
 * requests, which may be broken; this does not depend on it. */
void claims_lost(struct claims *ss, const idset_t *ranks);
/* Rank of the broker of a request's sender; UINT32_MAX: this broker. */
uint32_t claim_sender_rank(const flux_msg_t *msg);
/* The sender of `msg` cancels its request with this match tag. */
void claims_cancel(struct claims *ss, const flux_msg_t *msg, uint32_t matchtag);
/* "was canceled", or the like: ends an error message. */
const char *claim_gone_why(bool canceled);
/* Number of claims of the sender of `msg`. */
size_t claims_of_sender(const struct claims *ss, const flux_msg_t *msg);
/* What the thing takes of its service from now on; 0 when it is claimed. */
void claim_weigh(struct claim *c, size_t weight);
/* The sum of that, of all claims of the sender of `msg` but `except`, which may be NULL. */
size_t claims_weight_of_sender(const struct claims *ss, const flux_msg_t *msg,
                               const struct claim *except);
/* Number of senders. */
size_t claims_count(const struct claims *ss);

#endif
