/* core_successor.c - the successor on the ring, when its rank comes back.
 *
 * Purpose: a broker connects to its successor on the ring.  When a broker of that rank has been
 * started again, or joins late, this connection is made again, and perhaps to another address: the
 * host may have got one, and that of a host which has been added is not known earlier.  The
 * successor says itself where it listens: it has joined by the tree, which needs no address of it.
 *
 * Drawing (successor): rank 2 comes back with another address.
 *
 *     rank 1                          rank 0                        rank 2
 *        |                               |         overlay.ready      |
 *        |                               |<---------------------------|
 *        |  overlay.up (rank 2), to all  |                            |
 *        |<------------------------------|--------------------------->|
 *        | overlay.address               |                            |
 *        |--------- by the tree ------------------------------------->|
 *        |<-----------------------------------------------------------|
 *        | connects to this address                                   |
 *        |===========================================================>|
 *
 * Invariants:
 *  1. The successor is asked when overlay.up names it, or names this broker, unless it is connected
 *     then; if an earlier broker of its rank is still connected, when that is lost.  One request at
 *     a time is under way.  If the successor is lost meanwhile, its answer does not count.
 *  2. Requests that go around the ring wait meanwhile, as they do while a connection is made.
 *  3. Only the address comes from the answer.  The key of the successor remains the one that boot
 *     has named, so no broker on the way can direct the connection to a broker of its own.
 *  4. A connection that has not been made is given up for another address (`again` of the link),
 *     never one that has been made.
 *
 * Failure: without an answer within PATIENCE seconds, the broker connects to the earlier address.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "core_private.h"
#include "libflux/overlay_wire.h"

#define PATIENCE 10.

static bool is_connected(const core_t *c)
{
    const struct peer *p = &c->ring_next;

    return !p->lost && (!c->link->readdress || !c->link->reached ||
                        c->link->reached(c->link_arg, CORE_RING, p->rank));
}

/* Connect to the successor.  `tree`: its address; NULL: the earlier one. */
static void connect_again(core_t *c, const char *tree)
{
    struct peer *p = &c->ring_next;

    if (is_connected(c) || !c->link->again)
        return;
    if (c->link->again(c->link_arg, CORE_RING, p->rank, tree) < 0)
        return;
    if (!p->lost) {
        c->ring_next_due = true; /* when the end of the earlier attempt is reported */
        return;
    }
    p->lost = false;
    p->up = true;
}

static void is_up(core_t *c);

/* While a lost successor is asked, requests to it wait. */
static void wait_for_answer(core_t *c)
{
    struct peer *p = &c->ring_next;

    c->ring_ask_holds = p->lost;
    if (p->lost)
        p->lost = p->up = false;
}

/* That is over. */
static void answered(core_t *c)
{
    if (c->ring_ask_holds)
        c->ring_next.lost = true;
    c->ring_ask_holds = false;
}

static void answer_cb(flux_future_t *f, void *arg)
{
    core_t *c = arg;
    struct overlay_address a = {NULL};
    errmsg_t err;

    c->ring_ask = NULL;
    answered(c);
    if (flux_rpc_get_struct(f, &overlay_address_schema, &a, &err) < 0)
        core_log(c, LOG_DEBUG, "rank %u, the successor on the ring, does not say where it is: %s",
                 c->ring_next.rank, err.text);
    if (!c->ring_ask_void)
        connect_again(c, a.tree);
    else if (c->ring_ask_due)
        is_up(c);
    flux_future_destroy(f);
    route_held(c, &c->ring_next);
}

/* The broker of the successor is up. */
static void is_up(core_t *c)
{
    uint32_t rank = c->ring_next.rank;

    if (is_connected(c))
        return;
    if (c->ring_ask) {
        c->ring_ask_due = true;
        return;
    }
    if (c->link->readdress && !census_is_gone(c, rank)) {
        c->ring_ask_due = c->ring_ask_void = false;
        c->ring_ask = flux_rpc(c->h, "overlay.address", NULL, rank, FLUX_MSGF_IDEMPOTENT);
        if (c->ring_ask && flux_future_then(c->ring_ask, PATIENCE, answer_cb, c) == 0) {
            wait_for_answer(c);
            return;
        }
        successor_destroy(c);
    }
    connect_again(c, NULL);
}

void successor_lost(core_t *c)
{
    bool due = c->ring_next_due;

    c->ring_next.stale = c->ring_next_due = false;
    if (due)
        is_up(c);
}

void successor_down(core_t *c, const idset_t *ranks, bool absent)
{
    c->ring_prev.stale |= idset_test(ranks, c->ring_prev.rank);
    if (!idset_test(ranks, c->ring_next.rank))
        return;
    c->ring_ask_void = true;
    c->ring_ask_due = false;
    answered(c);
    route_held(c, &c->ring_next);
    c->ring_next.stale = !absent && !c->ring_next.lost;
    c->ring_next_due = false;
}

void successor_up(core_t *c, const idset_t *ranks)
{
    bool next = idset_test(ranks, c->ring_next.rank);

    if (idset_test(ranks, c->ring_prev.rank))
        c->ring_prev.stale = c->ring_prev.joins = false;
    if (next) {
        c->ring_next.absent = false;
        c->ring_next_due = c->ring_next.stale;
        c->ring_next.stale = false;
    }
    if ((next && !c->ring_next_due) || idset_test(ranks, c->cfg.rank))
        is_up(c);
}

void successor_address_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct control_card card = {.rank = c->cfg.rank};
    struct overlay_address a;

    if (!c->link->card || c->link->card(c->link_arg, &card) < 0) {
        flux_respond_error(h, req, ENOENT, "rank %u has no address", c->cfg.rank);
        return;
    }
    a.tree = card.tree;
    flux_respond_struct(h, req, &overlay_address_schema, &a);
}

void successor_destroy(core_t *c)
{
    flux_future_destroy(c->ring_ask);
    c->ring_ask = NULL;
}
