/* core_moves.c - who is below whom: the tree as it is, and its changes.
 *
 * Purpose: the shape says where a rank belongs.  A rank that has moved has another parent than in
 * the shape: it has lost its own one (core_heal.c), returns to its place (core_restore.c), or was
 * given to a host (core_spread.c).
 *
 * Tree: this file keeps a tree with the ranks that have moved beside the shape (overlay_tree()).
 * Each broker changes its own tree when it takes over a child, or gives it back, when a broker
 * below it reports a move, and when the event overlay.moved arrives.  The root, which publishes
 * that event, puts a rank back into its place in the shape when the rank is lost or leaves; a guest
 * only when no orphan is below it any longer.
 *
 * Number: each rank numbers its moves: its incarnation in the high bits, and a count in the low
 * ones.  The root has the last number of an incarnation, for the return of a lost rank to its
 * place.
 *
 * Invariants:
 *  1. The number of the last move of a rank that is known never goes back: a report that arrives
 *     late is ignored.
 *  2. A report of a move may die with the broker that passes it on.  So each broker that has
 *     reported the move of a rank, and the parent that this rank has moved to, report it again to
 *     each later parent of theirs, until an event tells the move, or the loss of the rank.  An
 *     orphan does so in its hello: its new parent knows where all ranks below it are before it
 *     takes the orphan over.
 *  3. The place of an earlier broker of a rank ends with an event, or when the rank joins: no event
 *     may have told it (moves_joined()).
 *  4. Each broker is deeper in the shape than its parent (core_spread.c), so the tree stays a tree,
 *     in whatever order moves become known.
 *
 * Failure: a move in an event or a welcome that cannot be noted for lack of memory is noted soon
 * after (core_broken.c).  Other moves are lost: messages are routed by the shape, and some ranks
 * may be unreachable; that is logged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control_wire.h"
#include "core_private.h"
#include "libflux/overlay_wire.h"

/* A number of a move has the incarnation in its high bits, and a count of its moves in these low
 * bits. */
#define MOVES_BITS 16
#define MOVES_MAX ((1u << MOVES_BITS) - 1)

const topology_t *overlay_tree(const core_t *c)
{
    return c->tree ? c->tree : c->topo;
}

/* --- the tree --- */

/* Change the tree, and the set of moved ranks.  If this fails (-1, errno), both are unchanged. */
static int change_tree(core_t *c, uint32_t rank, uint32_t parent)
{
    bool home = topology_parent(c->topo, rank) == parent;
    bool before = idset_test(c->moved, rank);

    if (!c->tree && !(c->tree = topology_create_over(c->topo)))
        return -1;
    if (!home && idset_set(c->moved, rank) < 0)
        return -1;
    if (topology_move(c->tree, rank, parent) < 0) {
        if (!before)
            (void)idset_clear(c->moved, rank);
        return -1;
    }
    return home ? idset_clear(c->moved, rank) : 0;
}

bool moves_place(core_t *c, uint32_t rank, uint32_t parent)
{
    if (topology_parent(overlay_tree(c), rank) != parent && change_tree(c, rank, parent) < 0) {
        int saved = errno;

        core_log(c, LOG_ERR, "rank %u cannot note that rank %u is below rank %u: %s", c->cfg.rank,
                 rank, parent, strerror(saved));
        errno = saved;
        return false;
    }
    if (idset_empty(c->moved)) {
        topology_destroy(c->tree);
        c->tree = NULL;
    }
    return true;
}

/* Note that the rank, and all ranks below it, are below this parent since the move of this number.
 * Returns false if this move or a later one is known already. */
bool moves_note(core_t *c, uint32_t rank, uint32_t parent, uint32_t number)
{
    if (number <= (uintptr_t)hmap_get_u64(c->move_of, rank) || !moves_place(c, rank, parent))
        return false;
    if (hmap_put_u64(c->move_of, rank, (void *)(uintptr_t)number) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory for the number of a move of rank %u",
                 c->cfg.rank, rank);
    return true;
}

/* Return the last move of a rank that is known here. */
struct control_moved moves_last(const core_t *c, uint32_t rank)
{
    uint32_t number = (uint32_t)(uintptr_t)hmap_get_u64(c->move_of, rank);

    return (struct control_moved){
        .rank = rank, .parent = topology_parent(overlay_tree(c), rank), .move = number};
}

/* Add the last move of a rank. */
static int list_move(const core_t *c, json_t *list, uint32_t rank)
{
    struct control_moved m = moves_last(c, rank);

    return json_array_append_new(list, flux_schema_encode_json(&control_moved_schema, &m));
}

/* Return the last moves of these ranks, or NULL if there are none, or there is no memory. */
static json_t *list_moves(const core_t *c, const idset_t *ranks)
{
    json_t *list;

    if (idset_empty(ranks) || !(list = json_array()))
        return NULL;
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (list_move(c, list, r) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *moves_list(const core_t *c)
{
    return list_moves(c, c->moved);
}

json_t *moves_list_all(const core_t *c)
{
    json_t *list = json_array();
    size_t pos = 0;
    uint64_t rank;
    void *number;

    while (list && hmap_next(c->move_of, &pos, NULL, &rank, &number)) {
        if (list_move(c, list, (uint32_t)rank) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* Report a move: the root publishes it, and every other broker reports it to its parent, if it has
 * one. */
void moves_report(core_t *c, const struct control_moved *m)
{
    struct overlay_moved body = {m->rank, m->parent, m->move, 0};
    char *json = NULL;

    if (core_is_root(c)) {
        body.map = sessmap_moved(c->map, m->rank, topology_parent(overlay_tree(c), m->rank));
        if ((json = flux_schema_encode(&overlay_moved_schema, &body)))
            event_publish_json(c, "overlay.moved", json);
        if (!idset_empty(c->unplaced))
            moves_put_back(c, c->unplaced);
    } else if (c->parent->up) {
        overlay_send(c, c->parent, &control_up[CONTROL_MOVED], m);
    }
    free(json);
}

void moves_remember(core_t *c, uint32_t rank)
{
    (void)idset_clear(c->told, rank);
    if (!core_is_root(c) && idset_set(c->untold, rank) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note a rank that has moved", c->cfg.rank);
}

void moves_tell(core_t *c, const struct control_moved *m)
{
    moves_remember(c, m->rank);
    moves_report(c, m);
}

/* --- moves that are heard of --- */

/* Note that a rank of this subtree has moved to a parent elsewhere, with the ranks below it. */
static void moved_away(core_t *c, const idset_t *sub)
{
    if (idset_subtract(c->up, sub) < 0 || idset_subtract(c->unreported, sub) < 0 ||
        idset_add(c->elsewhere, sub) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note that ranks are elsewhere",
                 c->cfg.rank);
    heal_settled(c, sub);
    route_held(c, &c->unsettled);
    return_elsewhere(c, sub);
}

void moves_gave_up(core_t *c, uint32_t rank)
{
    idset_t *sub = topology_subtree(overlay_tree(c), rank);

    if (sub) {
        stale_forget(c, sub);
        moved_away(c, sub);
    } else {
        core_log(c, LOG_ERR, "rank %u is out of memory to note that rank %u is elsewhere",
                 c->cfg.rank, rank);
    }
    idset_destroy(sub);
}

/* A rank has moved to a parent elsewhere, so it lives, though the connection to it was lost here.
 * So do those of the ranks below it (`sub`, or NULL) whose loss no event has announced: the brokers
 * above have ignored what this one has reported of them (core_heal.c, invariant 8). */
static void lives_elsewhere(core_t *c, uint32_t rank, const idset_t *sub)
{
    idset_t *lost = sub ? idset_intersect(sub, c->lost) : NULL;
    int rc = sub && !lost ? -1 : 0;

    rc |= idset_clear(c->lost, rank) | idset_clear(c->unheard, rank);
    for (uint32_t r = lost ? idset_first(lost) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(lost, r)) {
        if (!census_is_gone(c, r))
            rc |= idset_clear(c->lost, r) | idset_clear(c->unheard, r);
    }
    if (rc < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note that rank %u lives", c->cfg.rank,
                 rank);
    idset_destroy(lost);
}

/* Remove from `sub`, which moves, the ranks below lost ranks that are pending here: by the events
 * these are below it, but they have a move of their own when they connect anywhere. */
static void keep_pending(const core_t *c, idset_t *sub)
{
    idset_t *all = c->pending && idset_intersects(sub, c->pending) ? idset_copy(sub) : NULL;

    for (uint32_t r = all ? idset_first(all) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(all, r)) {
        idset_t *below = census_is_gone(c, r) ? topology_subtree(overlay_tree(c), r) : NULL;

        if (below && idset_keep(below, c->pending) == 0)
            (void)idset_subtract(sub, below);
        idset_destroy(below);
    }
    idset_destroy(all);
}

/* The session counts this rank as moved.  Returns -1 without memory: it is to be noted again. */
static int has_moved(core_t *c, struct peer *child, const struct control_moved *m)
{
    uint32_t me = c->cfg.rank;
    idset_t *sub = NULL;
    int rc = 0;

    if (m->rank != me && !topology_is_ancestor(overlay_tree(c), me, m->parent) &&
        (topology_is_ancestor(overlay_tree(c), me, m->rank) ||
         (c->pending && idset_test(c->pending, m->rank))))
        sub = topology_subtree(overlay_tree(c), m->rank);
    if (m->move >= moves_last(c, m->rank).move)
        (void)idset_clear(c->untold, m->rank); /* else it is told once more */
    errno = 0;
    if (moves_note(c, m->rank, m->parent, m->move)) {
        bool put_back = (m->move & MOVES_MAX) == MOVES_MAX;

        if (!put_back && !core_is_root(c))
            lives_elsewhere(c, m->rank, sub);
        if (!put_back && sub) /* no event will announce the losses that were reported here */
            return_settled(c, sub);
        /* A lost rank is put back into its place: its orphans still wait here. */
        if (sub && c->pending && put_back)
            (void)idset_subtract(sub, c->pending);
        else if (sub)
            keep_pending(c, sub);
        if (sub)
            moved_away(c, sub);
    } else if (errno == ENOMEM) {
        rc = -1;
    }
    idset_destroy(sub);
    return rc;
}

int moves_event(core_t *c, const flux_msg_t *event)
{
    int rc = 0;
    struct overlay_moved in = {0};
    errmsg_t err = {""};
    size_t len;
    const char *json = flux_msg_payload(event, &len);
    json_t *owner = flux_schema_decode(&overlay_moved_schema, json ? json : "", len, &in, &err);

    if (owner) {
        struct control_moved m = {.rank = in.rank, .parent = in.parent, .move = in.move};

        rc = has_moved(c, NULL, &m);
    } else {
        rc = errno == ENOMEM ? -1 : 0;
        core_log(c, LOG_ERR, "rank %u cannot read the event overlay.moved: %s", c->cfg.rank,
                 err.text);
    }
    if (owner && !core_is_root(c))
        restore_plan(c); /* the broker of a guest's place may have moved to its own place */
    json_decref(owner);
    return rc;
}

static int note_below(core_t *c, struct peer *child, const struct control_moved *m)
{
    heal_moved_below(c, child, m);
    return 0;
}

/* Handle each move of a list, which a child has sent, or another broker (NULL).  Returns -1 if that
 * is to be done again. */
static int take_moves(core_t *c, struct peer *child, json_t *list,
                      int (*take)(core_t *, struct peer *, const struct control_moved *))
{
    int rc = 0;
    json_t *o;
    size_t i;

    json_array_foreach(list, i, o)
    {
        struct control_moved m = {0};

        if (flux_schema_decode_json(&control_moved_schema, o, &m, NULL) == 0)
            rc |= take(c, child, &m);
        else
            core_log(c, LOG_ERR, "rank %u cannot read which ranks have moved", c->cfg.rank);
    }
    return rc;
}

void moves_take(core_t *c, json_t *list)
{
    if (take_moves(c, NULL, list, has_moved) < 0)
        broken_moves(c, list);
    restore_plan(c);
}

void moves_below(core_t *c, struct peer *child, json_t *list)
{
    (void)take_moves(c, child, list, note_below);
}

/* Returns whether a lost rank has to stay below the broker that has had it as a guest: orphans
 * below it are pending there, and if that broker is lost, too, the one above has to know them. */
static bool has_orphans(const core_t *c, uint32_t rank)
{
    const topology_t *tree = overlay_tree(c);
    idset_t *sub;
    bool any;

    if (topology_is_ancestor(c->topo, topology_parent(tree, rank), rank) ||
        !(sub = topology_subtree(tree, rank)))
        return false;
    any = idset_intersects(sub, c->up);
    idset_destroy(sub);
    return any;
}

void moves_put_back(core_t *c, const idset_t *lost)
{
    idset_t *ranks = c->tree ? idset_intersect(lost, c->moved) : NULL;

    if (ranks && (idset_add(ranks, c->unplaced) < 0 || idset_keep(ranks, c->lost) < 0))
        core_log(c, LOG_ERR, "rank %u is out of memory for the places of lost ranks", c->cfg.rank);
    (void)idset_subtract(c->unplaced, c->unplaced);
    for (uint32_t r = ranks ? idset_first(ranks) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(ranks, r)) {
        struct control_moved m = moves_last(c, r);

        if (has_orphans(c, r) && idset_set(c->unplaced, r) == 0)
            continue;
        m.parent = topology_parent(c->topo, r);
        m.move |= MOVES_MAX; /* the last number of this incarnation */
        if (moves_note(c, r, m.parent, m.move))
            moves_tell(c, &m);
    }
    idset_destroy(ranks);
}

bool moves_apply(core_t *c, const struct control_moved *m)
{
    return moves_note(c, m->rank, m->parent, m->move);
}

static int note_move(core_t *c, struct peer *child, const struct control_moved *m)
{
    errno = 0;
    return !moves_apply(c, m) && errno == ENOMEM ? -1 : 0;
}

void moves_note_list(core_t *c, json_t *list)
{
    if (take_moves(c, NULL, list, note_move) < 0)
        broken_moves(c, list);
}

/* Return the ranks below whose last moves a new parent may not know; those that have returned to
 * their places are among them. */
static idset_t *moved_below(core_t *c)
{
    idset_t *ranks = idset_copy(c->moved);
    idset_t *sub = topology_subtree(overlay_tree(c), c->cfg.rank);

    if (!ranks || !sub || idset_add(ranks, c->untold) < 0 || idset_keep(ranks, sub) < 0 ||
        idset_clear(ranks, c->cfg.rank) < 0) {
        core_log(c, LOG_ERR, "rank %u is out of memory to report ranks that have moved",
                 c->cfg.rank);
        idset_destroy(ranks);
        ranks = NULL;
    }
    idset_destroy(sub);
    return ranks;
}

json_t *moves_list_below(core_t *c)
{
    idset_t *ranks = moved_below(c);
    json_t *list = ranks ? list_moves(c, ranks) : NULL;

    idset_subtract(c->told, c->told);
    if (list && idset_add(c->told, ranks) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note which moves it has told",
                 c->cfg.rank); /* it tells them again */
    idset_destroy(ranks);
    return list;
}

void moves_tell_again(core_t *c)
{
    idset_t *ranks = moved_below(c);

    if (!ranks)
        return;
    (void)idset_keep(c->untold, ranks);
    (void)idset_subtract(ranks, c->told);
    (void)idset_subtract(c->told, c->told);
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        struct control_moved m = moves_last(c, r);

        moves_report(c, &m);
    }
    idset_destroy(ranks);
}

/* --- incarnations --- */

int moves_up(core_t *c, const idset_t *ranks, uint32_t incarnation)
{
    int rc = census_note(c, ranks, incarnation);

    if (!heal_can(c))
        return rc;
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        uint32_t place = topology_parent(c->topo, r);

        /* Some brokers may not know yet where the earlier incarnation was. */
        errno = 0;
        if (r != FLUX_NODEID_ROOT && moves_note(c, r, place, incarnation << MOVES_BITS)) {
            (void)idset_clear(c->untold, r);
            if (c->map)
                sessmap_set_parent(c->map, r, place);
        } else if (errno == ENOMEM) {
            rc = -1;
        }
    }
    return rc;
}

void moves_joined(core_t *c, uint32_t child, const idset_t *joined)
{
    idset_t *moved = c->tree ? idset_intersect(joined, c->moved) : NULL;

    for (uint32_t r = moved ? idset_first(moved) : IDSET_NONE; r != IDSET_NONE;
         r = idset_next(moved, r)) {
        const topology_t *tree = overlay_tree(c);

        /* Otherwise it has joined late, and that was reported before. */
        if (r == child ? topology_parent(tree, r) != c->cfg.rank
                       : !topology_is_ancestor(tree, child, r))
            (void)moves_place(c, r, topology_parent(c->topo, r));
    }
    idset_destroy(moved);
}

uint32_t moves_first(const core_t *c, uint32_t rank)
{
    return census_incarnation(c, rank) << MOVES_BITS | 1;
}

uint32_t moves_number(const core_t *c)
{
    return census_incarnation(c, c->cfg.rank) << MOVES_BITS | c->moves;
}

uint32_t moves_next(core_t *c)
{
    c->moves += c->moves < MOVES_MAX - 1;
    return moves_number(c);
}

uint32_t moves_incarnation(uint32_t number)
{
    return number >> MOVES_BITS;
}

/* --- start and end --- */

int moves_init(core_t *c)
{
    return (c->moved = idset_create()) && (c->untold = idset_create()) &&
                   (c->told = idset_create()) && (c->unplaced = idset_create()) &&
                   (c->move_of = hmap_create_u64(NULL))
               ? 0
               : -1;
}

void moves_destroy(core_t *c)
{
    idset_destroy(c->moved);
    idset_destroy(c->untold);
    idset_destroy(c->told);
    idset_destroy(c->unplaced);
    hmap_destroy(c->move_of);
    topology_destroy(c->tree);
}
