/* core_view.c - what a broker that has missed events learns from its parent.
 *
 * Purpose: the brokers follow the state of the session by its events (core_overlay.c).  A broker
 * whose parent no longer keeps the events that it needs has missed some of these, perhaps the one
 * that says that it is up itself.  So the parent tells it the result with the same message.
 *
 * Format: "event.skip" {"to", "seq", "run", "gone", "incarnations"?, "moved"?}, from the parent:
 *
 *    to              events up to this one are not sent
 *    seq             the newest event that the parent has handled; what follows includes it
 *    run             the session runs
 *    gone            the ranks that are not up (core_census.c)
 *    incarnations    of all ranks whose incarnation is above 1
 *    moved           the last move of each rank that has ever moved (core_moves.c)
 *
 * The receiver compares this with what it knew, and handles the difference like the events: first
 * the later incarnations and the moves, next the ranks that are down, then those that are up.  A
 * rank that has a later incarnation was down, and is up unless it is gone again.
 *
 * Invariants:
 *  1. A broker sends its view before anything of a later event.  It has taken the view of its own
 *     parent before it tells its children which events it has missed.
 *  2. Events up to `seq` are delivered if they still arrive, and change nothing in the core
 *     (view_includes()): it may know of later ones.
 *
 * Failure: without memory the parent sends nothing, and the child requests the events again when
 * the next one arrives.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "control_wire.h"
#include "core_private.h"

/* --- the parent --- */

int view_send(core_t *c, struct peer *child, uint64_t to)
{
    char *gone = idset_format(census_gone(c), 0);
    struct control_skip out = {.to = to,
                               .seq = core_event_seq(c),
                               .run = core_session_runs(c),
                               .gone = gone,
                               .incarnations = census_list(c),
                               .moved = moves_list_all(c)};
    int rc = -1;

    if (gone && out.moved)
        rc = overlay_send(c, child, &control_down[CONTROL_SKIP], &out);
    else
        core_log(c, LOG_ERR, "rank %u is out of memory to say which events rank %u has missed",
                 c->cfg.rank, child->rank);
    if (rc < 0)
        broken_note(c, child); /* it waits for event.replayed */
    free(gone);
    json_decref(out.incarnations);
    json_decref(out.moved);
    return rc;
}

/* --- the child --- */

/* Add the ranks of the groups whose incarnation is later than is known here. */
static int add_later(const core_t *c, json_t *groups, idset_t *later)
{
    json_t *o;
    size_t i;

    json_array_foreach(groups, i, o)
    {
        struct overlay_incarnation in = {0};
        idset_t *ranks = NULL;
        int rc = 0;

        if (flux_schema_decode_json(&overlay_incarnation_schema, o, &in, NULL) < 0 ||
            !(ranks = idset_parse(in.ranks, NULL)))
            return -1;
        for (uint32_t r = idset_first(ranks); rc == 0 && r != IDSET_NONE; r = idset_next(ranks, r))
            rc = census_incarnation(c, r) < in.incarnation ? idset_set(later, r) : 0;
        idset_destroy(ranks);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* `down` becomes the ranks that were lost, or have left, since: `gone` without those that this
 * broker knows to be gone, and all that have been started again.  `up` becomes the ranks that have
 * come: those that it knows to be gone, and that have been started again, without `gone`. */
static int compare(const core_t *c, const idset_t *gone, json_t *groups, idset_t *down, idset_t *up)
{
    return add_later(c, groups, up) < 0 || idset_add(down, gone) < 0 ||
                   idset_subtract(down, census_gone(c)) < 0 || idset_add(down, up) < 0 ||
                   idset_add(up, census_gone(c)) < 0 || idset_subtract(up, gone) < 0
               ? -1
               : 0;
}

void view_take(core_t *c, const struct control_skip *in)
{
    idset_t *gone = idset_parse(in->gone, NULL);
    idset_t *down = idset_create(), *up = idset_create();

    if (!gone || !down || !up || compare(c, gone, in->incarnations, down, up) < 0) {
        core_log(c, LOG_ERR, "rank %u cannot read what has happened in the events it has missed",
                 c->cfg.rank);
    } else {
        c->view = in->seq;
        census_take(c, in->incarnations);
        moves_take(c, in->moved);
        return_is_down(c, down, false);
        return_is_up(c, up, gone);
        if (in->run && !idset_test(gone, c->cfg.rank))
            join_run(c);
    }
    idset_destroy(gone);
    idset_destroy(down);
    idset_destroy(up);
}

bool view_includes(const core_t *c, const flux_msg_t *event)
{
    return flux_msg_seq(event) <= c->view;
}
