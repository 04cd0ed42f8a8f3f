/* Claims: a service marks an object (a pending request, a watch, a lock...) as one that lives only
 * as long as the client or instance that requested it.  Claims are indexed by sender and match tag,
 * so the cost of a disconnect or a cancel depends on the claims of that sender only.
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

/* A member of the claimed object; read-only for its owner. */
struct claim {
    struct list_node node; /* in claimant.claims */
    struct claimant *s;    /* NULL: no claim */
    uint32_t matchtag;
    uint64_t way;  /* of the request (flux_msg_way()); 0: of no importance */
    size_t weight; /* bytes, or the like: claim_weigh() */
    /* The sender has disconnected, or (`canceled`) has canceled the request.  The claim was dropped
     * already, so the object may be freed.  A pending request must be answered (claim_gone_why())
     * even if no client reads the response: brokers on its way keep the request until then. */
    void (*gone)(struct claim *c, bool canceled);
};

struct claims *claims_create(void);     /* NULL with ENOMEM */
void claims_destroy(struct claims *ss); /* NULL-safe; drops the claims */

/* Claim for the sender of `req`.  -1 with ENOMEM; then there is no claim. */
int claim_take(struct claims *ss, struct claim *c, const flux_msg_t *req,
               void (*gone)(struct claim *c, bool canceled));
/* The same for a request that cannot be canceled, and whose way does not matter: the claim lasts
 * beyond it. */
int claim_take_sender(struct claims *ss, struct claim *c, const flux_msg_t *req,
                      void (*gone)(struct claim *c, bool canceled));
/* Drop the claim of an object that ends by itself.  No effect without a claim (all zeros). */
void claim_drop(struct claims *ss, struct claim *c);

/* Drop all claims of the sender of `notice` (NAME.disconnect).  If only a way from it was lost,
 * drop those of the requests that came this way, and those whose way does not matter. */
void claims_disconnect(struct claims *ss, const flux_msg_t *notice);
/* Call `each` for all claims of the sender of `msg`; it may not drop any. */
void claims_each(const struct claims *ss, const flux_msg_t *msg,
                 void (*each)(struct claim *c, void *arg), void *arg);
/* Drop a claim as if its sender had disconnected. */
void claim_expire(struct claims *ss, struct claim *c);
/* Drop all claims of senders at these ranks, which are lost.  A disconnect message of a sender
 * takes the path of its requests, which may be broken; this function does not depend on it. */
void claims_lost(struct claims *ss, const idset_t *ranks);
/* Rank of the broker of a request's sender; UINT32_MAX: this broker. */
uint32_t claim_sender_rank(const flux_msg_t *msg);
/* Drop the claim that the sender of `msg` made by the request with this match tag, and that it
 * cancels. */
void claims_cancel(struct claims *ss, const flux_msg_t *msg, uint32_t matchtag);
/* "was canceled", or the like: ends an error message. */
const char *claim_gone_why(bool canceled);
/* Number of claims of the sender of `msg`. */
size_t claims_of_sender(const struct claims *ss, const flux_msg_t *msg);
/* Set the amount of the service's resources that the object uses; 0 at first. */
void claim_weigh(struct claim *c, size_t weight);
/* The sum of these amounts over all claims of the sender of `msg`, except `except` (may be
 * NULL). */
size_t claims_weight_of_sender(const struct claims *ss, const flux_msg_t *msg,
                               const struct claim *except);
/* Number of senders. */
size_t claims_count(const struct claims *ss);

#endif
