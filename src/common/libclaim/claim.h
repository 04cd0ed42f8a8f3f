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

struct km_senders;
struct km_sender;

/* Part of the thing; private but for reading. */
struct km_claim {
    struct list_node node; /* in km_sender.claims */
    struct km_sender *s;   /* NULL: no claim */
    uint32_t matchtag;
    /* The sender is gone, or (`cancelled`) wants an end of this.  Called without a claim: it was
     * dropped before.  The thing may be freed.  A request is to be answered (km_gone_why()) also
     * when nobody is there to hear it: brokers on the way keep it until its end. */
    void (*gone)(struct km_claim *c, bool cancelled);
};

struct km_senders *km_senders_create(void);     /* NULL with ENOMEM */
void km_senders_destroy(struct km_senders *ss); /* NULL-safe; claims are dropped */

/* Claim for the sender of `req`.  -1 with ENOMEM; then there is no claim. */
int km_claim(struct km_senders *ss, struct km_claim *c, const flux_msg_t *req,
             void (*gone)(struct km_claim *c, bool cancelled));
/* The same for something that no cancel is for. */
int km_claim_sender(struct km_senders *ss, struct km_claim *c, const flux_msg_t *req,
                    void (*gone)(struct km_claim *c, bool cancelled));
/* The thing ends by itself.  Harmless without a claim (all zeros). */
void km_claim_drop(struct km_senders *ss, struct km_claim *c);

/* The sender of `msg` is gone. */
void km_senders_disconnect(struct km_senders *ss, const flux_msg_t *msg);
/* All senders at these ranks are gone.  The news of a single one comes by the way that its request
 * came, which may be broken; this does not. */
void km_senders_lost(struct km_senders *ss, const idset_t *ranks);
/* Rank of the broker of who sent a request; UINT32_MAX: this one. */
uint32_t km_sender_rank(const flux_msg_t *msg);
/* The sender of `msg` cancels its request with this match tag. */
void km_senders_cancel(struct km_senders *ss, const flux_msg_t *msg, uint32_t matchtag);
/* "was cancelled", or the like: the end of a sentence. */
const char *km_gone_why(bool cancelled);
size_t km_senders_count(const struct km_senders *ss);

#endif
