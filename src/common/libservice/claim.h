/* Who has what here: things that live only as long as the client or instance that asked for them,
 * indexed by sender and match tag, so that its end or a cancel touches nothing else.
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

/* Part of the thing; private but for reading. */
struct claim {
    struct list_node node; /* in claimant.claims */
    struct claimant *s;    /* NULL: no claim */
    uint32_t matchtag;
    /* The sender is gone, or (`canceled`) wants an end of this.  Called without a claim: it was
     * dropped before.  The thing may be freed.  A request is to be answered (claim_gone_why()) also
     * when nobody is there to hear it: brokers on the way keep it until its end. */
    void (*gone)(struct claim *c, bool canceled);
};

struct claims *claims_create(void);     /* NULL with ENOMEM */
void claims_destroy(struct claims *ss); /* NULL-safe; claims are dropped */

/* Claim for the sender of `req`.  -1 with ENOMEM; then there is no claim. */
int claim_take(struct claims *ss, struct claim *c, const flux_msg_t *req,
               void (*gone)(struct claim *c, bool canceled));
/* The same for something that no cancel is for. */
int claim_take_sender(struct claims *ss, struct claim *c, const flux_msg_t *req,
                      void (*gone)(struct claim *c, bool canceled));
/* The thing ends by itself.  Harmless without a claim (all zeros). */
void claim_drop(struct claims *ss, struct claim *c);

/* The sender of `msg` is gone. */
void claims_disconnect(struct claims *ss, const flux_msg_t *msg);
/* All senders at these ranks are gone.  The news of a single one comes by the way that its request
 * came, which may be broken; this does not. */
void claims_lost(struct claims *ss, const idset_t *ranks);
/* Rank of the broker of who sent a request; UINT32_MAX: this one. */
uint32_t claim_sender_rank(const flux_msg_t *msg);
/* The sender of `msg` cancels its request with this match tag. */
void claims_cancel(struct claims *ss, const flux_msg_t *msg, uint32_t matchtag);
/* "was canceled", or the like: the end of a sentence. */
const char *claim_gone_why(bool canceled);
size_t claims_count(const struct claims *ss);

#endif
