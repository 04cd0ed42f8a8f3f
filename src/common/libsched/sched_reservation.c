/* sched_reservation.c - the reservations of waiting jobs.
 *
 * A reservation is a claim that begins at a later time.  It is entered at its nodes (sched_map.c)
 * and, for exchanges of nodes, in sched_exchange.c.
 *
 * Invariant: s->reserved is sorted by start.
 *
 * Failure: -1 with ENOMEM; then the job keeps its former reservation.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_private.h"

size_t sched_reservation_place(const sched_t *s, double start)
{
    size_t lo = 0;
    size_t hi = s->nreserved;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->reserved[mid]->start <= start)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int sched_reservation_room(sched_t *s)
{
    size_t room = s->reserved_room ? 2 * s->reserved_room : 64;
    struct claim **more;

    if (s->nreserved < s->reserved_room)
        return 0;
    if (!(more = realloc(s->reserved, room * sizeof(*more)))) {
        errno = ENOMEM;
        return -1;
    }
    s->reserved = more;
    s->reserved_room = room;
    return 0;
}

void sched_reservation_enter(sched_t *s, struct job *j, struct claim *c)
{
    size_t at = sched_reservation_place(s, c->start);

    memmove(s->reserved + at + 1, s->reserved + at, (s->nreserved - at) * sizeof(*s->reserved));
    s->reserved[at] = c;
    s->nreserved++;
    c->job = j;
    c->moved = s->moved;
    j->reserved = c;
    sched_exchange_reserved(s, c, 1);
    sched_map_reserve(s->map, c);
}

int sched_reservation_add(sched_t *s, struct job *j, size_t nchoice, double when)
{
    struct span sp = {.from = when,
                      .to = when + j->duration,
                      .now = s->now,
                      .future = true,
                      .nreserved = SIZE_MAX,
                      .own = j->reserved};
    struct claim *c;

    if (sched_reservation_room(s) < 0 || !(c = sched_select_claim(s, j, nchoice, &sp)))
        return -1;
    if (j->reserved)
        sched_claim_destroy(sched_reservation_take(s, j));
    sched_reservation_enter(s, j, c);
    return 0;
}

struct claim *sched_reservation_take(sched_t *s, struct job *j)
{
    struct claim *c = j->reserved;
    size_t at = sched_reservation_place(s, c->start);

    while (s->reserved[at - 1] != c)
        at--;
    memmove(s->reserved + at - 1, s->reserved + at, (s->nreserved - at) * sizeof(*s->reserved));
    s->nreserved--;
    sched_map_unreserve(s->map, c);
    sched_exchange_reserved(s, c, -1);
    j->reserved = NULL;
    c->job = NULL;
    return c;
}

void sched_reservation_cancel(sched_t *s, struct job *j)
{
    sched_bound_drop(j);
    if (j->reserved)
        sched_claim_destroy(sched_reservation_take(s, j));
}

void sched_reservation_cancel_all(sched_t *s)
{
    while (s->nreserved > 0)
        sched_reservation_cancel(s, s->reserved[s->nreserved - 1]->job);
}

void sched_reservation_cancel_behind(sched_t *s, const struct job *j)
{
    for (size_t i = s->nreserved; i-- > 0;) {
        if (sched_tree_before(sched_tree_key(&j->order),
                              sched_tree_key(&s->reserved[i]->job->order)))
            sched_reservation_cancel(s, s->reserved[i]->job);
    }
}
