/* core_census.c - what every broker knows of every rank: its incarnation, and whether it is lost.
 *
 * Purpose: a broker that takes over an orphan (core_heal.c) must not take over an earlier broker of
 * that rank, or one that the session has counted as lost.  The reports of the ranks below do not
 * tell: a rank may have been lost, and may have come back, below another broker.  Nor must what
 * such a broker asks for be served (core_route.c): each request has the incarnation of the broker
 * where it has entered the session, 0 until that broker runs and so knows it.  So this file
 * collects what the events overlay.up and overlay.down announce of all ranks.  A broker that joins
 * late gets the incarnations with its welcome, and the lost ranks with the event that announces
 * it; one that has missed events gets both with the message that says so (core_view.c).
 *
 * Invariants:
 *  1. A rank without an entry in `incarnations` is the first incarnation of its rank, or was never
 *     up.
 *  2. `gone` has the ranks that an event has announced as not up, and none has announced as up
 *     since.
 *
 * Memory: an entry for each rank that has come back, or joined late.
 *
 * Failure: without memory an entry is missing, which is logged, until the event is read again.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "core_private.h"

struct census {
    hmap_t *incarnations; /* rank -> incarnation */
    idset_t *gone;
};

static void out_of_memory(const core_t *c)
{
    core_log((core_t *)c, LOG_ERR, "rank %u is out of memory for the incarnations of ranks",
             c->cfg.rank);
}

int census_note(core_t *c, const idset_t *ranks, uint32_t incarnation)
{
    struct census *s = c->census;
    int rc = 0;

    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (hmap_put_u64(s->incarnations, r, (void *)(uintptr_t)incarnation) < 0) {
            out_of_memory(c);
            rc = -1;
        }
    }
    return rc;
}

int census_up(core_t *c, const idset_t *ranks)
{
    if (idset_subtract(c->census->gone, ranks) == 0)
        return 0;
    out_of_memory(c);
    return -1;
}

int census_down(core_t *c, const idset_t *ranks)
{
    if (idset_add(c->census->gone, ranks) == 0)
        return 0;
    out_of_memory(c);
    return -1;
}

uint32_t census_incarnation(const core_t *c, uint32_t rank)
{
    uintptr_t known = (uintptr_t)hmap_get_u64(c->census->incarnations, rank);

    return known ? (uint32_t)known : 1;
}

bool census_is_gone(const core_t *c, uint32_t rank)
{
    return idset_test(c->census->gone, rank);
}

bool census_is_past(const core_t *c, uint32_t rank, uint32_t incarnation)
{
    uint32_t known = census_incarnation(c, rank);

    return incarnation > 0 &&
           (incarnation < known || (incarnation == known && census_is_gone(c, rank)));
}

const idset_t *census_gone(const core_t *c)
{
    return c->census->gone;
}

/* --- the welcome --- */

static uint32_t known(const void *arg, uint32_t rank)
{
    return census_incarnation(arg, rank);
}

json_t *census_list(const core_t *c)
{
    idset_t *back = idset_create();
    json_t *list;
    size_t pos = 0;
    uint64_t rank;
    void *val;
    int rc = back ? 0 : -1;

    while (rc == 0 && hmap_next(c->census->incarnations, &pos, NULL, &rank, &val)) {
        if ((uintptr_t)val > 1)
            rc = idset_set(back, (uint32_t)rank);
    }
    if (rc == 0 && idset_empty(back)) {
        idset_destroy(back);
        return NULL;
    }
    list = rc == 0 ? sessmap_group(back, known, c) : NULL;
    if (!list)
        out_of_memory(c);
    idset_destroy(back);
    return list;
}

void census_take(core_t *c, json_t *list)
{
    json_t *o;
    size_t i;

    json_array_foreach(list, i, o)
    {
        struct overlay_incarnation in = {0};
        idset_t *ranks = NULL;

        if (flux_schema_decode_json(&overlay_incarnation_schema, o, &in, NULL) < 0 ||
            !(ranks = idset_parse(in.ranks, NULL)))
            core_log(c, LOG_ERR, "rank %u cannot read the incarnations of ranks", c->cfg.rank);
        else
            (void)moves_up(c, ranks, in.incarnation);
        idset_destroy(ranks);
    }
}

/* --- start and end --- */

int census_init(core_t *c)
{
    struct census *s = c->census = calloc(1, sizeof(*s));

    return s && (s->incarnations = hmap_create_u64(NULL)) && (s->gone = idset_create()) ? 0 : -1;
}

void census_destroy(core_t *c)
{
    if (!c->census)
        return;
    hmap_destroy(c->census->incarnations);
    idset_destroy(c->census->gone);
    free(c->census);
    c->census = NULL;
}
