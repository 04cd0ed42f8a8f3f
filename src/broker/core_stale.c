/* core_stale.c - what is reported of brokers that the session has counted as lost.
 *
 * Purpose: a rank that is ready is new, or was up before: its earlier reports may have died with a
 * broker on their way, so a broker that takes over an orphan (core_heal.c), and the orphan itself,
 * report the ranks below it once more.  If such a rank was lost meanwhile, by the report of another
 * broker, it must not come back by that: it has to leave, or is dead, and one who names it has not
 * heard of it.  Only a broker that has joined brings a lost rank back.
 *
 * So each broker notes which ranks below it have joined, and were not announced as up yet.  All
 * others that it reports were up before: `again` in overlay.ready, and `below` without `joined` in
 * overlay.hello and overlay.moved.
 *
 * Denied ranks: a child has reported such a lost rank as moved, or as up.  It does not know yet
 * that the rank is lost, and passes on what that asks for.  When it hears of the loss, the rank is
 * about to leave, or it was elsewhere all the time, which the child has not heard; then the child
 * takes back what it has said (`named`), by reporting the loss.
 *
 *    a denied rank         until
 *    its requests fail     the child reports it as lost, or as ready after it has joined, or the
 *    its state is ignored  connection to the child ends, or an event says that the rank is up
 *
 * Invariants:
 *  1. A rank that is lost here becomes ready only if it has joined.  One that is up elsewhere again
 *     is not lost here.
 *  2. `joined` has no rank that an event has announced as up since it joined.
 *  3. A child takes back what it has said when it hears of the event, so before the next broker of
 *     the rank joins below it: no request of that one is refused.
 *
 * Failure: without memory, a rank may come back that has to leave, or requests of it are passed on;
 * that is logged.
 */
#include "config.h"

#include "core_private.h"

/* --- ranks that have joined --- */

int stale_note(core_t *c, const idset_t *ranks, const idset_t *again)
{
    idset_t *fresh = again ? idset_difference(ranks, again) : idset_copy(ranks);
    int rc = fresh && idset_add(c->joined, fresh) == 0 ? 0 : -1;

    idset_destroy(fresh);
    return rc;
}

void stale_named(core_t *c, const idset_t *ranks, bool hello)
{
    if ((hello && idset_subtract(c->named, c->named) < 0) || idset_add(c->named, ranks) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note which ranks it has named",
                 c->cfg.rank);
}

void stale_forget(core_t *c, const idset_t *ranks)
{
    (void)idset_subtract(c->joined, ranks);
    (void)idset_subtract(c->named, ranks);
    cards_forget(c, ranks);
}

/* Return the text of some of these ranks: those that have joined, or the others.  NULL: none, or
 * there is no memory. */
static char *part_text(const core_t *c, const idset_t *ranks, bool joined)
{
    idset_t *part = joined ? idset_intersect(ranks, c->joined) : idset_difference(ranks, c->joined);
    char *text = part && !idset_empty(part) ? idset_format(part, 0) : NULL;

    idset_destroy(part);
    return text;
}

char *stale_joined_text(const core_t *c, const idset_t *ranks)
{
    return part_text(c, ranks, true);
}

char *stale_again_text(const core_t *c, const idset_t *ranks)
{
    return part_text(c, ranks, false);
}

/* --- denied ranks --- */

void stale_deny(core_t *c, struct peer *p, uint32_t rank)
{
    core_log(c, LOG_NOTICE,
             "rank %u is counted as lost, and has to leave if it is below rank %u, which has named "
             "it",
             rank, p->rank);
    if ((!p->denied && !(p->denied = idset_create())) || idset_set(p->denied, rank) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to ignore reports of rank %u", c->cfg.rank,
                 rank);
}

void stale_allow(struct peer *p, const idset_t *ranks)
{
    if (p->denied && idset_subtract(p->denied, ranks) == 0 && idset_empty(p->denied)) {
        idset_destroy(p->denied);
        p->denied = NULL;
    }
}

void stale_drop(core_t *c, struct peer *p, idset_t *ranks, const idset_t *joined)
{
    idset_t *old = idset_intersect(ranks, c->lost);

    if (!old || (joined && idset_subtract(old, joined) < 0) || idset_subtract(ranks, old) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to ignore what is said of lost ranks",
                 c->cfg.rank);
    for (uint32_t r = old ? idset_first(old) : IDSET_NONE; r != IDSET_NONE; r = idset_next(old, r))
        stale_deny(c, p, r);
    idset_destroy(old);
}

/* --- events --- */

void stale_up(core_t *c, const idset_t *ranks)
{
    (void)idset_subtract(c->joined, ranks);
    cards_forget(c, ranks);
    if (!core_is_root(c)) /* those whose loss was reported here may have come back elsewhere */
        (void)idset_subtract(c->lost, ranks);
    for (uint32_t i = 0; i < c->nchildren; i++)
        stale_allow(c->children[i], ranks);
}

/* The parent denies those that it has been told of wrongly.  Those that are up here are about to
 * leave; the others have moved elsewhere, and nothing else would tell that they are not below this
 * broker. */
void stale_down(core_t *c, const idset_t *ranks)
{
    idset_t *named = idset_intersect(ranks, c->named);

    if (!named || idset_subtract(c->named, named) < 0 || idset_subtract(named, c->up) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to take back what it has said of lost ranks",
                 c->cfg.rank);
    else
        overlay_tell_lost(c, named);
    idset_destroy(named);
}

void stale_run(core_t *c)
{
    idset_t *begin = idset_difference(c->joined, census_gone(c)); /* the session does, with these */

    if (!begin || idset_subtract(c->joined, begin) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory to note which ranks have joined",
                 c->cfg.rank);
    else
        cards_forget(c, begin);
    idset_destroy(begin);
}

/* --- start and end --- */

int stale_init(core_t *c)
{
    return (c->joined = idset_create()) && (c->named = idset_create()) ? 0 : -1;
}

void stale_destroy(core_t *c)
{
    idset_destroy(c->joined);
    idset_destroy(c->named);
}
