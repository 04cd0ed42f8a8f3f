/* core_return.c - ranks that come back, and ranks that join late.
 *
 * Purpose: a broker that has ended, was cut off, or was absent when the session began, may be
 * started: the same rank, its next incarnation.  It joins by the same messages as at the start of a
 * session.
 *
 * Drawing (return): a broker is killed and started again.
 *
 *     rank 2                rank 1, its parent               rank 0
 *        |                         |                           |
 *      killed                      | overlay.lost              |
 *                                  |-------------------------->|
 *      started                     |                           | to all: overlay.down
 *        |                         |                           |
 *        | overlay.hello           |                           |
 *        |------------------------>| waits for overlay.down    |
 *        |                         |<--------------------------|
 *        |         overlay.welcome |                           |
 *        |<------------------------|                           |
 *        | loads its modules       |                           |
 *        |                         |                           |
 *        | overlay.ready           |                           |
 *        |------------------------>|-------------------------->|
 *        |                         |                           | to all: overlay.up, with
 *        |<------------------------|<--------------------------| the incarnation
 *      RUN
 *
 * Invariants:
 *  1. A broker welcomes the next incarnation of a child only after it has passed on the event that
 *     announced the loss of the earlier one, or has been told of it (core_view.c).  So a service
 *     between it and rank 0 is notified of the loss before it gets a message of the new broker.  A
 *     broker that has joined late itself does not welcome a child before the event which says that
 *     it is up, because that event lists the lost ranks.  A child may have left after the event
 *     that announced its loss, which another broker has reported: then no other event follows.
 *  2. On each plane, one connection carries a neighbor.  A neighbor that is connected is not
 *     replaced by another broker of its rank, with one exception: the predecessor on the ring, once
 *     the session counts it as lost.  So messages of an earlier incarnation that continues after
 *     its loss are not received.
 *  3. A request to a rank that is absent from the start, or that is not up when the broker above it
 *     comes back, is not held until the rank joins: it would be executed long after it was made.
 *
 * Failure: events that cannot be read are logged, and without memory read again (core_broken.c).
 * Without memory a child does not have to wait (invariant 1).
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libflux/overlay_wire.h"

/* --- the parent of a rank that comes back --- */

void return_await(core_t *c, struct peer *p, const idset_t *subtree)
{
    idset_t *reported = core_is_root(c) ? NULL : idset_intersect(subtree, c->up);
    /* Those that an event has announced as lost, and that have not joined since (invariant 1). */
    idset_t *told = reported ? idset_difference(census_gone(c), c->joined) : NULL;

    if (!told || idset_subtract(reported, told) < 0 ||
        idset_subtract(reported, c->unreported) < 0 || idset_empty(reported)) {
        idset_destroy(told);
        idset_destroy(reported);
        return;
    }
    idset_destroy(told);
    if (p->await && idset_add(reported, p->await) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note lost ranks", c->cfg.rank);
    idset_destroy(p->await);
    p->await = reported;
}

void return_settled(core_t *c, const idset_t *ranks)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (!p->await)
            continue;
        if (idset_subtract(p->await, ranks) == 0 && !idset_empty(p->await))
            continue;
        idset_destroy(p->await);
        p->await = NULL;
        join_hello_again(c, p);
    }
}

bool return_must_wait(const core_t *c, const struct peer *p, bool moved)
{
    return p->await || (c->parent && c->parent->lost) ||
           (!moved && c->joined_late && c->state < CORE_RUN);
}

void return_runs(core_t *c)
{
    for (uint32_t i = 0; c->joined_late && i < c->nchildren; i++) {
        if (!c->children[i]->await)
            join_hello_again(c, c->children[i]);
    }
}

/* Wait for the event on ranks below this broker, which has joined late, that the session counts as
 * up: they are below the brokers above, which have not detected their deaths yet, or below another
 * parent. */
static void await_others(core_t *c, const idset_t *lost)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        if (p->up || p->await || idset_test(lost, p->rank))
            continue;
        if (!(p->await = idset_create_range(p->rank, p->rank)))
            core_log(c, LOG_ERR, "rank %u is out of memory to note ranks that are up", c->cfg.rank);
    }
}

/* --- reports of the link --- */

void core_peer_back(core_t *c, enum core_plane plane, uint32_t rank)
{
    struct peer *p = plane == CORE_RING ? &c->ring_prev : hmap_get_u64(c->child_by_rank, rank);

    if (!p || p->rank != rank || (p->up && !p->lost && !p->gone))
        return;
    p->lost = p->gone = p->refused = p->broken = p->unread = false;
    p->joins = plane == CORE_RING;
    p->up = plane == CORE_RING && c->state != CORE_JOIN;
    p->waits_since = 0.;
    flux_msg_destroy(p->hello);
    p->hello = NULL;
    admit_forget(p);
}

bool core_peer_stale(const core_t *c, enum core_plane plane, uint32_t rank)
{
    return plane == CORE_RING && c->ring_prev.rank == rank && c->ring_prev.stale;
}

/* --- events --- */

/* These ranks are not up: fail the requests that are held for children that are not connected.
 * `next`: also for the successor on the ring. */
static void not_there(core_t *c, const idset_t *ranks, bool next)
{
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];

        p->absent |= !p->up && idset_test(ranks, p->rank);
    }
    c->ring_next.absent |= next && idset_test(ranks, c->ring_next.rank);
    for (uint32_t i = 0; i < c->nchildren; i++) {
        if (c->children[i]->absent)
            route_held(c, c->children[i]);
    }
    if (c->ring_next.absent)
        route_held(c, &c->ring_next);
}

void return_elsewhere(core_t *c, const idset_t *ranks)
{
    not_there(c, ranks, false);
}

/* Return the ranks of an event, or NULL after logging that they cannot be read. */
static idset_t *read_ranks(core_t *c, const char *topic, const char *text, const char *why)
{
    errmsg_t err = {""};
    idset_t *ids = text ? idset_parse(text, &err) : NULL;
    int saved = errno;

    if (!ids)
        core_log(c, LOG_ERR, "rank %u cannot read the event %s: %s", c->cfg.rank, topic,
                 text ? err.text : why);
    errno = saved;
    return ids;
}

void return_is_down(core_t *c, const idset_t *ranks, bool absent)
{
    (void)census_down(c, ranks);
    successor_down(c, ranks, absent);
    not_there(c, ranks, absent);
    late_down(c, ranks);
    return_settled(c, ranks);
    heal_announced(c, ranks);
    stale_down(c, ranks);
    heal_heard(c, ranks);
    (void)idset_subtract(c->untold, ranks); /* where they were does not matter */
    /* Its connection with an earlier parent was lost, and this was reported, when it had found this
     * parent already. */
    if (!absent && c->state == CORE_RUN && idset_test(ranks, c->cfg.rank))
        overlay_counted_lost(c, "the session counts this broker as lost");
}

int return_down(core_t *c, const flux_msg_t *event)
{
    struct overlay_down in = {0};
    errmsg_t err = {""};
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    json_t *owner = flux_schema_decode(&overlay_down_schema, json ? json : "", len, &in, &err);
    idset_t *ranks = read_ranks(c, "overlay.down", owner ? in.ranks : NULL, err.text);
    int rc = !ranks && errno == ENOMEM ? -1 : 0;

    if (ranks && census_down(c, ranks) < 0)
        rc = -1;
    else if (ranks)
        return_is_down(c, ranks, in.state && strcmp(in.state, "absent") == 0);
    idset_destroy(ranks);
    json_decref(owner);
    return rc;
}

void return_is_up(core_t *c, const idset_t *ranks, const idset_t *lost)
{
    (void)census_up(c, ranks);
    stale_up(c, ranks);
    late_up(c, ranks);
    heal_heard(c, ranks); /* earlier incarnations, whose loss another broker has reported */
    restore_back(c, ranks);
    if (lost && idset_test(ranks, c->cfg.rank)) {
        (void)census_down(c, lost);
        not_there(c, lost, false);
        late_down(c, lost);
        await_others(c, lost);
    }
    successor_up(c, ranks);
}

int return_up(core_t *c, const flux_msg_t *event, bool *run)
{
    struct overlay_up in = {0};
    errmsg_t err = {""};
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    json_t *owner = flux_schema_decode(&overlay_up_schema, json ? json : "", len, &in, &err);
    idset_t *ranks = read_ranks(c, "overlay.up", owner ? in.ranks : NULL, err.text);
    bool own = ranks && idset_test(ranks, c->cfg.rank);
    idset_t *lost = own && in.lost ? read_ranks(c, "overlay.up", in.lost, err.text) : NULL;
    bool unread = (!ranks || (own && in.lost && !lost)) && errno == ENOMEM;

    unread |=
        ranks && !unread && (census_up(c, ranks) < 0 || moves_up(c, ranks, in.incarnation) < 0);
    *run = own && !unread && (!in.state || strcmp(in.state, core_state_name(CORE_RUN)) == 0);

    if (ranks && !unread)
        return_is_up(c, ranks, lost);
    idset_destroy(lost);
    idset_destroy(ranks);
    json_decref(owner);
    return unread ? -1 : 0;
}

/* --- the root --- */

/* Publish that ranks of one incarnation are up. */
static void publish(core_t *c, const idset_t *group, uint32_t incarnation)
{
    struct overlay_up body = {.incarnation = incarnation,
                              .map = sessmap_number(c->map),
                              .state = core_state_name(c->state)};
    char *ranks = idset_format(group, 0);
    char *lost = idset_format(c->lost, 0);
    char *json = NULL;

    body.ranks = ranks;
    body.lost = lost;
    if (ranks && lost && (json = flux_schema_encode(&overlay_up_schema, &body)) &&
        event_publish_json(c, "overlay.up", json) == 0)
        core_log(c, LOG_NOTICE, "rank%s %s %s: incarnation %u", idset_count(group) == 1 ? "" : "s",
                 ranks, incarnation > 1 ? "came back" : "came late", incarnation);
    else
        core_log(c, LOG_ERR, "rank 0 is out of memory to say which ranks came back");
    free(json);
    free(ranks);
    free(lost);
}

void return_publish(core_t *c, idset_t *back)
{
    while (!idset_empty(back)) {
        uint32_t incarnation = sessmap_incarnation(c->map, idset_first(back));
        idset_t *group = idset_create();

        for (uint32_t r = idset_first(back); group && r != IDSET_NONE; r = idset_next(back, r)) {
            if (sessmap_incarnation(c->map, r) == incarnation && idset_set(group, r) < 0) {
                idset_destroy(group);
                group = NULL;
            }
        }
        if (!group || idset_subtract(back, group) < 0) {
            core_log(c, LOG_ERR, "rank 0 is out of memory to say which ranks came back");
            idset_destroy(group);
            return;
        }
        publish(c, group, incarnation);
        idset_destroy(group);
    }
}
