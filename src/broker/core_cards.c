/* core_cards.c - the addresses of ranks that have joined, on their way to the session map.
 *
 * Purpose: the map of rank 0 (sessmap.c) has the card of each rank: where it is reached, and by
 * which public key (core_keys.c).  The address of a rank is another one when its host has got
 * another one, and that of a host that was added is known to nobody before.  So each broker reports
 * where it listens, together with the report that it is ready.
 *
 * Format: the addresses of a set of ranks are one text with a line for each rank, in the order of
 * the ranks: the address, and if its events have one of their own, a tab and that.  An empty line:
 * the address is not known.  The text accompanies the names of ranks that no event has announced as
 * up yet (core_stale.c): `cards` in overlay.ready, and in the overlay.hello of an orphan and in
 * overlay.moved, since what was reported before may have died with a broker on the way.  So the
 * addresses do not need messages of their own.
 *
 * Distribution: what all brokers need of the map is in the events: states, incarnations, parents.
 * They do not need addresses: a broker has the cards of those above it from its welcome, and asks
 * its successor on the ring itself (core_successor.c).  At each of 16,384 brokers the addresses of
 * all would take 2 MB, and each start of a broker would send its own to all.  A program that needs
 * them asks rank 0 for what has changed since the number of its own copy of the map: overlay.map.
 *
 * Invariants:
 *  1. Rank 0 knows the address of a rank before it publishes that the rank is up.
 *  2. Other brokers keep the address of a rank only until an event says that it is up, or lost, or
 *     until it is no longer below them.
 *  3. A report that a rank is ready comes from its latest broker.  What an orphan says of a rank
 *     that is up here already, with an address, changes nothing: it is late, or the same.
 *
 * Failure: a text that does not fit its ranks is ignored, and logged.  Without memory an address is
 * not known, and flux up --addresses does not show it.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_private.h"
#include "libutil/strbuf.h"

#define PLACES_MAX 1024 /* in one answer to overlay.map: about a quarter of a megabyte */

/* Note the address of one rank, which is a line of a text without its end. */
static int note_line(core_t *c, uint32_t rank, const char *line, size_t len)
{
    char *copy = strndup(line, len);
    char *tab = copy ? strchr(copy, '\t') : NULL;
    int rc = -1;

    if (copy && !c->map) {
        if (hmap_put_u64(c->addresses, rank, copy) == 0)
            return 0;
    } else if (copy) {
        if (tab)
            *tab = '\0';
        rc = sessmap_set_address(c->map, rank, copy, tab ? tab + 1 : "");
    }
    free(copy);
    return rc;
}

/* Returns whether the text has one line for each of these ranks. */
static bool fits(const idset_t *ranks, const char *text)
{
    size_t lines = 0;

    for (; *text; lines++) {
        size_t len = strcspn(text, "\n");
        const char *tab = memchr(text, '\t', len);

        if (text[len] != '\n' || tab == text ||
            (tab && memchr(tab + 1, '\t', (size_t)(text + len - tab) - 1)))
            return false;
        text += len + 1;
    }
    return lines == idset_count(ranks);
}

/* Is this rank up here, and is it known where? */
static bool is_known(const core_t *c, uint32_t rank)
{
    return idset_test(c->up, rank) &&
           (c->map ? sessmap_address(c->map, rank) : hmap_get_u64(c->addresses, rank)) != NULL;
}

static void note_all(core_t *c, const idset_t *joined, const char *text, bool orphan)
{
    if (!text)
        return;
    if (!fits(joined, text)) {
        core_log(c, LOG_ERR, "rank %u cannot read the addresses of ranks below it", c->cfg.rank);
        return;
    }
    for (uint32_t r = idset_first(joined); r != IDSET_NONE; r = idset_next(joined, r)) {
        size_t len = strcspn(text, "\n");

        if (len > 0 && !(orphan && is_known(c, r)) && note_line(c, r, text, len) < 0)
            core_log(c, LOG_ERR, "rank %u is out of memory for the address of rank %u", c->cfg.rank,
                     r);
        text += len + 1;
    }
}

void cards_note(core_t *c, const idset_t *joined, const char *text)
{
    note_all(c, joined, text, false);
}

void cards_note_below(core_t *c, const idset_t *below, const char *joined, const char *text)
{
    idset_t *ranks = joined && text ? idset_parse(joined, NULL) : NULL;

    if (ranks && idset_subset(ranks, below))
        note_all(c, ranks, text, true);
    idset_destroy(ranks);
}

char *cards_text(core_t *c, const idset_t *ranks)
{
    idset_t *part = hmap_count(c->addresses) > 0 ? idset_intersect(ranks, c->joined) : NULL;
    strbuf_t *sb;
    char *text;

    if (!part || idset_empty(part)) {
        idset_destroy(part);
        return NULL;
    }
    sb = strbuf_create(0);
    for (uint32_t r = idset_first(part); r != IDSET_NONE; r = idset_next(part, r)) {
        const char *line = hmap_get_u64(c->addresses, r);

        strbuf_add(sb, line ? line : "");
        strbuf_addc(sb, '\n');
    }
    idset_destroy(part);
    if (!(text = strbuf_take(sb)))
        core_log(c, LOG_ERR, "rank %u is out of memory for addresses", c->cfg.rank);
    return text;
}

void cards_forget(core_t *c, const idset_t *ranks)
{
    if (hmap_count(c->addresses) == 0)
        return;
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r))
        hmap_del_u64(c->addresses, r);
}

void cards_begin(core_t *c)
{
    struct control_card own = {.rank = c->cfg.rank};
    char *line = NULL;

    if (!c->link->card || c->link->card(c->link_arg, &own) < 0 || !own.tree[0] ||
        strpbrk(own.tree, "\n\t") || strpbrk(own.event, "\n\t"))
        return;
    if (asprintf(&line, "%s%s%s", own.tree, own.event[0] ? "\t" : "", own.event) < 0)
        line = NULL;
    if (!line || note_line(c, c->cfg.rank, line, strlen(line)) < 0)
        core_log(c, LOG_ERR, "rank %u is out of memory for its address", c->cfg.rank);
    free(line);
}

void cards_map_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    core_t *c = arg;
    struct overlay_map_since in = {0};
    struct overlay_map out = {0};
    json_t *owner;

    if (!c->map) {
        flux_respond_error(h, req, EINVAL, "the session map is kept at rank 0, not at rank %u",
                           c->cfg.rank);
        return;
    }
    if (flux_request_decode(h, req, &overlay_map_since_schema, &in, &owner) < 0)
        return;
    out.map = sessmap_number(c->map);
    if ((out.places = sessmap_places(c->map, in.since, in.first, PLACES_MAX, &out.next)))
        flux_respond_struct(h, req, &overlay_map_schema, &out);
    else
        flux_respond_error(h, req, ENOMEM, "rank 0 is out of memory for the session map");
    json_decref(out.places);
    json_decref(owner);
}

/* --- start and end --- */

int cards_init(core_t *c)
{
    return (c->addresses = hmap_create_u64(free)) ? 0 : -1;
}

void cards_destroy(core_t *c)
{
    hmap_destroy(c->addresses);
}
