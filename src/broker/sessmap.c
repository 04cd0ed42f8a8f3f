/* sessmap.c - the session map.
 *
 * Invariants:
 *  1. Each change adds one to the number.
 *  2. The incarnation of a rank never falls, and grows by one each time that a broker of the rank
 *     becomes ready.  It is 0 if and only if the rank is absent, or joins for the first time.
 *  3. The map of a number, together with the places that have changed since, is the present map.
 *     What has no number of its own counts as part of the next change: so it may be told twice,
 *     and is never left out.
 *
 * The card of a rank that is lost, or has left, stays until its next broker is ready.
 *
 * Memory: 48 bytes for each rank, and those of its card, about 150, at rank 0 alone.
 *
 * Failure: without memory for a card the rank has none in the map, and is otherwise complete.
 */
#include "config.h"
#include "sessmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/overlay_wire.h"
#include "libutil/invariant.h"

struct place {
    uint64_t changed; /* number of its latest change */
    uint32_t incarnation;
    enum rank_state state;
    enum rank_state before; /* joining: what it was */
    uint32_t parent;
    char *tree; /* NULL: not known */
    char *event;
    char *key;
};

static const char *const names[RANK_NSTATES] = {
    [RANK_ABSENT] = "absent", [RANK_JOINING] = "joining",   [RANK_UP] = "up",
    [RANK_SLOW] = "slow",     [RANK_DRAINING] = "draining", [RANK_LOST] = "lost",
    [RANK_LEFT] = "left",
};

struct sessmap {
    uint32_t size;
    uint64_t number;
    struct place places[];
};

sessmap_t *sessmap_create(const topology_t *shape)
{
    uint32_t size = topology_size(shape);
    sessmap_t *m = calloc(1, sizeof(*m) + size * sizeof(m->places[0]));

    if (!m)
        return NULL;
    m->size = size;
    for (uint32_t r = 1; r < size; r++)
        m->places[r].parent = topology_parent(shape, r);
    return m;
}

void sessmap_destroy(sessmap_t *m)
{
    int saved = errno;

    for (uint32_t r = 0; m && r < m->size; r++) {
        free(m->places[r].tree);
        free(m->places[r].event);
        free(m->places[r].key);
    }
    free(m);
    errno = saved;
}

static bool is_there(enum rank_state s)
{
    return s == RANK_UP || s == RANK_SLOW || s == RANK_DRAINING;
}

static bool may_change(enum rank_state from, enum rank_state to)
{
    return to == RANK_JOINING                       ? !is_there(from)
           : to == RANK_SLOW || to == RANK_DRAINING ? is_there(from)
                                                    : true;
}

void sessmap_change(sessmap_t *m, const idset_t *ranks, enum rank_state to)
{
    m->number++;
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE && r < m->size;
         r = idset_next(ranks, r)) {
        struct place *p = &m->places[r];

        if (!may_change(p->state, to))
            continue;
        p->changed = m->number;
        if (to == RANK_UP)
            p->incarnation += !is_there(p->state);
        if (to == RANK_JOINING)
            p->before = p->state == RANK_JOINING ? p->before : p->state;
        if (p->state == RANK_JOINING && to == RANK_LOST)
            p->state = p->before;
        else
            p->state = p->incarnation > 0 || to == RANK_JOINING ? to : RANK_ABSENT;
        INVARIANT(2,
                  p->state == RANK_JOINING || (p->state == RANK_ABSENT) == (p->incarnation == 0));
    }
}

uint64_t sessmap_moved(sessmap_t *m, uint32_t rank, uint32_t parent)
{
    m->number++;
    if (rank < m->size) {
        m->places[rank].parent = parent;
        m->places[rank].changed = m->number;
    }
    return m->number;
}

void sessmap_set_parent(sessmap_t *m, uint32_t rank, uint32_t parent)
{
    if (rank >= m->size || m->places[rank].parent == parent)
        return;
    m->places[rank].parent = parent;
    m->places[rank].changed = m->number + 1;
}

/* Replace a part of a card.  NULL: it is unknown. */
static int set_part(const sessmap_t *m, struct place *p, char **part, const char *text)
{
    char *copy;

    if (*part && text ? strcmp(*part, text) == 0 : !*part && !text)
        return 0;
    copy = text ? strdup(text) : NULL;
    free(*part);
    *part = copy;
    p->changed = m->number + 1;
    return copy || !text ? 0 : -1;
}

int sessmap_set_address(sessmap_t *m, uint32_t rank, const char *tree, const char *event)
{
    struct place *p;

    if (rank >= m->size)
        return 0;
    p = &m->places[rank];
    if (set_part(m, p, &p->tree, tree) == 0 &&
        set_part(m, p, &p->event, event[0] ? event : NULL) == 0)
        return 0;
    (void)set_part(m, p, &p->tree, NULL); /* never half of it, nor that of an earlier broker */
    (void)set_part(m, p, &p->event, NULL);
    return -1;
}

int sessmap_set_key(sessmap_t *m, uint32_t rank, const char *key)
{
    return rank < m->size ? set_part(m, &m->places[rank], &m->places[rank].key, key) : 0;
}

const char *sessmap_key(const sessmap_t *m, uint32_t rank)
{
    return rank < m->size ? m->places[rank].key : NULL;
}

const char *sessmap_address(const sessmap_t *m, uint32_t rank)
{
    return rank < m->size ? m->places[rank].tree : NULL;
}

uint32_t sessmap_parent(const sessmap_t *m, uint32_t rank)
{
    return rank < m->size ? m->places[rank].parent : 0;
}

static int add_place(json_t *list, const struct place *p, uint32_t rank)
{
    struct overlay_place out = {.rank = rank,
                                .state = names[p->state],
                                .incarnation = p->incarnation,
                                .parent = p->parent,
                                .address = p->tree,
                                .event = p->event,
                                .key = p->key};

    return json_array_append_new(list, flux_schema_encode_json(&overlay_place_schema, &out));
}

json_t *sessmap_places(const sessmap_t *m, uint64_t since, uint32_t first, size_t max,
                       uint32_t *next)
{
    json_t *list = json_array();
    int rc = list ? 0 : -1;

    *next = 0;
    for (uint32_t r = first; rc == 0 && r < m->size; r++) {
        if (since > 0 && m->places[r].changed <= since)
            continue;
        if (json_array_size(list) == max) {
            *next = r;
            break;
        }
        rc = add_place(list, &m->places[r], r);
    }
    if (rc < 0) {
        json_decref(list);
        list = NULL;
        errno = ENOMEM;
    }
    return list;
}

uint64_t sessmap_number(const sessmap_t *m)
{
    return m->number;
}

uint32_t sessmap_incarnation(const sessmap_t *m, uint32_t rank)
{
    return rank < m->size ? m->places[rank].incarnation : 0;
}

char *sessmap_ranks(const sessmap_t *m, enum rank_state state)
{
    idset_t *ids = idset_create();
    char *text = NULL;
    int rc = ids ? 0 : -1;

    for (uint32_t r = 0; rc == 0 && r < m->size; r++)
        rc = m->places[r].state == state ? idset_set(ids, r) : 0;
    if (rc == 0)
        text = idset_format(ids, 0);
    idset_destroy(ids);
    return text;
}

typedef uint32_t (*incarnation_f)(const void *arg, uint32_t rank);

/* Add the ranks with the incarnation of rank `first` to the list, and take them out of `left`. */
static int add_group(json_t *list, idset_t *left, uint32_t first, incarnation_f of, const void *arg)
{
    struct overlay_incarnation in = {.incarnation = of(arg, first)};
    idset_t *group = idset_create();
    char *text = NULL;
    json_t *o = NULL;
    int rc = group ? 0 : -1;

    for (uint32_t r = first; rc == 0 && r != IDSET_NONE; r = idset_next(left, r))
        rc = of(arg, r) == in.incarnation ? idset_set(group, r) : 0;
    if (rc == 0 && (text = idset_format(group, 0))) {
        in.ranks = text;
        o = flux_schema_encode_json(&overlay_incarnation_schema, &in);
    }
    rc = o && json_array_append_new(list, o) == 0 && idset_subtract(left, group) == 0 ? 0 : -1;
    idset_destroy(group);
    free(text);
    return rc;
}

json_t *sessmap_group(idset_t *ranks, incarnation_f of, const void *arg)
{
    json_t *list = json_array();
    int rc = list ? 0 : -1;

    while (rc == 0 && !idset_empty(ranks))
        rc = add_group(list, ranks, idset_first(ranks), of, arg);
    if (rc < 0) {
        json_decref(list);
        list = NULL;
        errno = ENOMEM;
    }
    return list;
}

static uint32_t incarnation_of(const void *m, uint32_t rank)
{
    return sessmap_incarnation(m, rank);
}

json_t *sessmap_incarnations(const sessmap_t *m)
{
    idset_t *back = idset_create();
    json_t *list;
    int rc = back ? 0 : -1;

    for (uint32_t r = 0; rc == 0 && r < m->size; r++)
        rc = m->places[r].incarnation > 1 ? idset_set(back, r) : 0;
    list = rc == 0 ? sessmap_group(back, incarnation_of, m) : NULL;
    idset_destroy(back);
    return list;
}

const char *sessmap_state_name(enum rank_state state)
{
    return names[state];
}

enum rank_state sessmap_state_find(const char *name)
{
    int state = 0;

    while (state < RANK_NSTATES && strcmp(names[state], name) != 0)
        state++;
    return (enum rank_state)state;
}
