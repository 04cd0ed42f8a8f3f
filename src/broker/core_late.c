/* core_late.c - a broker that is started while the broker above it is dead.
 *
 * Purpose: a broker that joins while its parent is lost, has left or is absent, does not wait for
 * it: it joins at the nearest ancestor that is there.  When the parent is back, the broker returns
 * to its place (core_restore.c).
 *
 * Drawing (late): ranks 1 and 3 are dead; rank 3 is started.
 *
 *     rank 3                      rank 1                       rank 0
 *        |                           |                            |
 *        | connects                  |                            |
 *        |-----------------------> nobody                         |
 *        |                                                        |
 *        | connects to the next ancestor, with its key            |
 *        |------------------------------------------------------->|
 *        | overlay.hello                                          |
 *        |------------------------------------------------------->| rank 1 is not up, and the loss
 *        |                                        overlay.welcome | of rank 3 has been announced
 *        |<-------------------------------------------------------|
 *        | loads its modules                                      |
 *        | overlay.ready                                          |
 *        |------------------------------------------------------->| to all: overlay.up (rank 3)
 *        |<-------------------------------------------------------| to all: overlay.moved (rank 3)
 *      RUN
 *
 * Candidates: the parent first, then its ancestors, the nearest first; boot has named their
 * addresses and keys (core_ancestor_add()).  A broker leaves the parent that boot has connected it
 * to when it has not reached it for REACH seconds, or when it has got no welcome in half of
 * join_timeout: a process that is stopped is reached, too; at once if the parent has no host yet,
 * and so no address.  It leaves any later candidate when that
 * is not reached in TRY seconds, is lost, gives no welcome in a quarter of join_timeout, or refuses
 * it and says that another one may welcome it ("elsewhere").  After the last candidate it begins
 * again with the parent, after a pause that doubles up to PAUSE_MAX.
 *
 * Invariants:
 *  1. An ancestor welcomes the broker only if the session runs, no rank between the two is up or
 *     joins, and the loss of the earlier broker of this rank has been announced, or the rank was
 *     never up.  Each broker knows from events which ranks are not up (core_census.c).  The root
 *     also welcomes it before the session runs, when boot_timeout has passed and the quorum is not
 *     reached: ranks that are not up yet are absent.
 *  2. From its welcome until overlay.up, the broker is below the ancestor in the trees of both, by
 *     a place without a number (moves_place()).  With overlay.up, or overlay.run if the rank is up
 *     by then, the place becomes the first move of the new incarnation, which both number alike,
 *     and which the ancestor reports.
 *  3. If the earlier broker of the rank is pending here (core_heal.c), it is lost: its successor
 *     has the same key, and on a host only one of them can have the directory of the rank.  The
 *     successor does not wait until the time of the earlier one is over: when two brokers, one
 *     below the other, have died and are started again, the lower one would wait for heal_timeout
 *     each time.  Nor are neighbors on the ring asked, since they may hear the successor by now.
 *     The exception is one that another broker has heard (core_third.c): it lives, and its
 *     successor waits until it has arrived elsewhere, or is lost.
 *  4. An ancestor knows the key of a rank that was up below it (core_keys.c).  It asks boot for the
 *     key of a rank below it that is down and has reported none.
 *
 * Failure: a broker that no candidate welcomes within join_timeout shuts down (core_join.c).
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core_private.h"

#define REACH 2.      /* seconds for the parent to be reached */
#define TRY 2.        /* seconds for an ancestor to be reached */
#define PAUSE_MIN 0.5 /* seconds between two rounds through all candidates */
#define PAUSE_MAX 4.

struct late {
    flux_watcher_t *timer;
    json_t *cards; /* array of struct control_card: of the parent and the ranks above it */
    size_t at;     /* present candidate */
    bool first;    /* boot has connected this broker to it */
    double pause;
    double began; /* when the present candidate was tried */
    bool placed;  /* this broker is below an ancestor, and that is not its first move yet */
};

/* --- the broker that joins --- */

int core_ancestor_add(core_t *c, const struct control_card *card)
{
    json_t *o = flux_schema_encode_json(&control_card_schema, card);

    if (!o || json_array_append_new(c->late->cards, o) < 0) {
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* Returns whether this broker looks for another one to join at. */
static bool seeks(const core_t *c)
{
    return c->state == CORE_JOIN && heal_can(c) && c->link->reached &&
           json_array_size(c->late->cards) > 1;
}

/* Connect to a candidate.  Returns -1 if that is not possible. */
static int join_at(core_t *c, size_t at)
{
    struct late *l = c->late;
    struct control_card card;
    struct control_hello h;
    errmsg_t err;

    l->at = at;
    l->first = false;
    l->began = flux_reactor_now(c->r);
    if (flux_schema_decode_json(&control_card_schema, json_array_get(l->cards, at), &card, &err) <
            0 ||
        c->link->move(c->link_arg, &card, &err) < 0)
        return -1;
    flux_msg_destroy(c->parent->hello); /* the welcome of the one before */
    c->parent->hello = NULL;
    c->parent->unread = false;
    c->parent->rank = card.rank;
    c->parent->lost = false;
    join_fill_hello(c, &h);
    if (overlay_send(c, c->parent, &control_up[CONTROL_HELLO], &h) < 0)
        return -1;
    flux_timer_start(l->timer, TRY, 0.);
    return 0;
}

static void next(core_t *c)
{
    struct late *l = c->late;
    size_t n = json_array_size(l->cards);

    for (size_t at = l->at + 1; at < n; at++) {
        if (join_at(c, at) == 0)
            return;
    }
    l->at = n - 1; /* the round is over: the timer begins another one */
    l->pause = l->pause <= 0. ? PAUSE_MIN : l->pause * 2. < PAUSE_MAX ? l->pause * 2. : PAUSE_MAX;
    l->began = 0.;
    flux_timer_start(l->timer, l->pause, 0.);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    core_t *c = arg;
    struct late *l = c->late;
    double limit = c->cfg.join_timeout > 0. ? c->cfg.join_timeout / (l->first ? 2. : 4.) : INFINITY;

    if (!seeks(c))
        return;
    if (l->began <= 0.) {
        if (join_at(c, 0) < 0)
            next(c);
        return;
    }
    if (c->link->reached(c->link_arg, CORE_TREE, c->parent->rank) &&
        flux_reactor_now(r) - l->began < limit) {
        flux_timer_start(l->timer, TRY, 0.);
        return;
    }
    if (l->first)
        core_log(c, LOG_NOTICE,
                 "rank %u gets no welcome from its parent, rank %u: it tries to "
                 "join at another broker above",
                 c->cfg.rank, c->parent->rank);
    next(c);
}

bool late_begin(core_t *c)
{
    c->late->first = true;
    c->late->began = flux_reactor_now(c->r);
    if (seeks(c))
        flux_timer_start(c->late->timer, REACH, 0.);
    return seeks(c);
}

/* Returns whether boot knows no address of the parent: that has no host yet. */
static bool has_no_address(const core_t *c)
{
    struct control_card card;

    return flux_schema_decode_json(&control_card_schema, json_array_get(c->late->cards, 0), &card,
                                   NULL) == 0 &&
           !card.tree[0];
}

bool late_next(core_t *c)
{
    if (!seeks(c) || (c->late->first && !has_no_address(c)))
        return false;
    if (c->late->began > 0.)
        next(c);
    return true;
}

void late_welcomed(core_t *c)
{
    uint32_t me = c->cfg.rank;

    flux_watcher_stop(c->late->timer);
    if (topology_parent(c->topo, me) == c->parent->rank)
        return;
    core_log(c, LOG_NOTICE, "rank %u joins below rank %u, since the brokers between are not up", me,
             c->parent->rank);
    c->late->placed = moves_place(c, me, c->parent->rank);
}

/* --- the ancestor --- */

/* Returns whether a rank is down, or never came, as far as this broker knows. */
static bool is_down(const core_t *c, uint32_t rank)
{
    const struct peer *p = hmap_get_u64(c->child_by_rank, rank);
    bool gone = c->state == CORE_RUN ? census_is_gone(c, rank) : !idset_test(c->up, rank);

    return gone && !(p && p->up && !p->lost && !p->gone);
}

bool late_accepts(core_t *c, const struct peer *p, errmsg_t *why)
{
    if (!heal_can(c) || (c->state != CORE_RUN && !join_lacks_ranks(c))) {
        errmsg_set(why, "rank %u takes over no rank now", c->cfg.rank);
        return false;
    }
    for (uint32_t r = topology_parent(c->topo, p->rank); r != c->cfg.rank;
         r = topology_parent(c->topo, r)) {
        if (!is_down(c, r)) {
            errmsg_set(why, "rank %u, which is nearer to it, is not lost", r);
            return false;
        }
    }
    return true;
}

bool late_must_wait(core_t *c, struct peer *p)
{
    idset_t *rank;

    if (census_is_gone(c, p->rank) || (c->state != CORE_RUN && !idset_test(c->up, p->rank)))
        return false;
    if (!(rank = idset_create_range(p->rank, p->rank))) {
        core_log(c, LOG_ERR, "rank %u is out of memory for rank %u, which joins", c->cfg.rank,
                 p->rank);
        return true;
    }
    if (p->await)
        idset_destroy(p->await);
    p->await = rank;
    if (c->pending && idset_test(c->pending, p->rank) && !third_lives(c, p)) {
        idset_t *lost = idset_copy(rank);

        if (lost)
            overlay_ranks_lost(c, lost, RANK_LOST, c->cfg.rank,
                               "another broker of its rank has been started");
        idset_destroy(lost);
    }
    return p->await != NULL; /* at the root, the event has arrived already */
}

void late_take(core_t *c, struct peer *p)
{
    p->late = true;
    core_log(c, LOG_NOTICE, "rank %u joins below rank %u, since the brokers between are not up",
             p->rank, c->cfg.rank);
    moves_place(c, p->rank, c->cfg.rank);
    restore_taken(c, p);
}

void late_lost(core_t *c, struct peer *p)
{
    if (!p->late)
        return;
    p->late = false;
    moves_place(c, p->rank, topology_parent(c->topo, p->rank));
}

/* --- events --- */

/* Ask boot for the keys of ranks below that are down and have reported none. */
static void find_keys(core_t *c, const idset_t *ranks)
{
    idset_t *below = c->link->by_key && c->cbs.key ? topology_subtree(c->topo, c->cfg.rank) : NULL;

    if (!below || idset_keep(below, ranks) < 0) {
        idset_destroy(below);
        return;
    }
    for (uint32_t r = idset_first(below); r != IDSET_NONE; r = idset_next(below, r)) {
        char key[CORE_KEY_SIZE];
        idset_t *one;

        if (core_key_of(c, r) || topology_parent(c->topo, r) == c->cfg.rank ||
            !c->cbs.key(c, r, key, c->cbs_arg) || !(one = idset_create_range(r, r)))
            continue;
        keys_note(c, one, key);
        idset_destroy(one);
    }
    idset_destroy(below);
}

void late_down(core_t *c, const idset_t *ranks)
{
    if (heal_can(c))
        find_keys(c, ranks);
}

/* The places of these ranks become moves. */
static void settle(core_t *c, const idset_t *ranks)
{
    uint32_t me = c->cfg.rank;

    if (c->late->placed && idset_test(ranks, me)) {
        struct control_moved own = {.rank = me, .parent = c->parent->rank};

        c->late->placed = false;
        if (c->moves == 0) { /* it has not moved on as an orphan */
            c->moves = 1;
            own.move = moves_number(c);
            moves_apply(c, &own);
        }
    }
    for (uint32_t i = 0; i < c->nchildren; i++) {
        struct peer *p = c->children[i];
        struct control_moved m = {.rank = p->rank, .parent = me};

        if (!p->late || !idset_test(ranks, p->rank))
            continue;
        p->late = false;
        m.move = moves_first(c, p->rank);
        moves_apply(c, &m);
        moves_tell(c, &m);
    }
}

void late_up(core_t *c, const idset_t *ranks)
{
    settle(c, ranks);
}

void late_run(core_t *c)
{
    settle(c, c->up);
}

void late_missing(core_t *c)
{
    idset_t *ranks = idset_create_range(0, c->cfg.size - 1);

    if (ranks && idset_subtract(ranks, c->up) == 0 && heal_can(c))
        find_keys(c, ranks);
    idset_destroy(ranks);
}

/* --- start and end --- */

int late_init(core_t *c)
{
    struct late *l = c->late = calloc(1, sizeof(*l));

    return l && (l->cards = json_array()) && (l->timer = flux_timer_create(c->r, timer_cb, c)) ? 0
                                                                                               : -1;
}

void late_stop(core_t *c)
{
    flux_watcher_stop(c->late->timer);
}

void late_destroy(core_t *c)
{
    struct late *l = c->late;

    if (!l)
        return;
    flux_watcher_destroy(l->timer);
    json_decref(l->cards);
    free(l);
    c->late = NULL;
}
