/* core_admit.c - brokers on hosts that were not part of the session when it began.
 *
 * Purpose: in a session by configuration file with more ranks than hosts, the ranks from
 * `cfg.named` on are for hosts that are added while the session runs (boot_roster.h).  A parent
 * asks its owner, which asks rank 0, whether a broker that joins at such a rank runs on the host
 * that has been added for it.
 *
 * Drawing (admit): a broker joins on a host that was added.
 *
 *     broker              its parent                                rank 0
 *        | overlay.hello        |                                      |
 *        |--------------------->| keeps it                             |
 *        |                      | overlay.admit: rank, host            |
 *        |                      |------------------------------------->|
 *        |                      |<-------------------------------------|
 *        | overlay.welcome      | handles the hello, or                |
 *        |<---------------------| overlay.refused, with the reason     |
 *
 * Invariants:
 *  1. One question about a child is open at a time, and its answer counts only for the connection
 *     that it was asked about: a child that connects again is asked about anew.
 *  2. An orphan has been admitted when it joined, and is not asked about.
 *
 * Failure: if rank 0 cannot be asked, the child is refused as by a broker that takes over no rank
 * now: it tries again.
 */
#include "config.h"
#include <errno.h>

#include "core_private.h"

bool admit_waits(core_t *c, struct peer *p, const struct control_hello *h, const flux_msg_t *msg)
{
    if (c->cfg.named == 0 || p->rank < c->cfg.named || p->admitted || h->below || !c->cbs.admit)
        return false;
    flux_msg_destroy(p->hello);
    p->hello = flux_msg_incref(msg);
    if (p->asking == 0) {
        if (++c->admit_last == 0)
            c->admit_last = 1;
        p->asking = c->admit_last;
        c->cbs.admit(c, p->rank, h->host ? h->host : "", p->asking, c->cbs_arg);
    }
    return true;
}

void admit_forget(struct peer *p)
{
    p->admitted = false;
    p->asking = 0;
}

void core_admitted(core_t *c, uint32_t rank, uint32_t number, int errnum, const char *why)
{
    struct peer *p = hmap_get_u64(c->child_by_rank, rank);

    if (!p || number == 0 || p->asking != number)
        return;
    p->asking = 0;
    if (errnum == 0) {
        p->admitted = true;
        join_hello_again(c, p);
        return;
    }
    flux_msg_destroy(p->hello);
    p->hello = NULL;
    join_refuse(c, p, why, errnum == EHOSTUNREACH || errnum == ETIMEDOUT);
}
