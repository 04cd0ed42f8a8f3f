/* entries.c - the entries of a barrier (interface: entries.h).
 *
 * Invariants:
 *  1. `ranks` are the ranks with a number above 0 in `by_rank`; total is the sum of these numbers.
 *  2. `news` is a subset of `ranks`: those whose numbers have grown since they were reported.
 *
 * Failure: if memory is short, a number stays as it was.
 */
#include "config.h"
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/strbuf.h"

struct entries {
    hmap_t *by_rank; /* rank -> number, as a pointer's value */
    idset_t *ranks;
    idset_t *news;
    uint64_t total;
};

entries_t *entries_create(void)
{
    entries_t *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    if (!(e->by_rank = hmap_create_u64(NULL)) || !(e->ranks = idset_create()) ||
        !(e->news = idset_create())) {
        entries_destroy(e);
        errno = ENOMEM;
        return NULL;
    }
    return e;
}

void entries_destroy(entries_t *e)
{
    int saved = errno;

    if (!e)
        return;
    hmap_destroy(e->by_rank);
    idset_destroy(e->ranks);
    idset_destroy(e->news);
    free(e);
    errno = saved;
}

uint64_t entries_total(const entries_t *e)
{
    return e->total;
}

const idset_t *entries_ranks(const entries_t *e)
{
    return e->ranks;
}

static uint32_t number(const entries_t *e, uint32_t rank)
{
    return (uint32_t)(uintptr_t)hmap_get_u64(e->by_rank, rank);
}

static int raise_to(entries_t *e, uint32_t rank, uint32_t to)
{
    uint32_t from = number(e, rank);

    if (to <= from)
        return 0;
    if (idset_set(e->ranks, rank) < 0 || idset_set(e->news, rank) < 0 ||
        hmap_put_u64(e->by_rank, rank, (void *)(uintptr_t)to) < 0) {
        if (from == 0) {
            (void)idset_clear(e->ranks, rank);
            (void)idset_clear(e->news, rank);
        }
        errno = ENOMEM;
        return -1;
    }
    e->total += to - from;
    INVARIANT(1, idset_count(e->ranks) == hmap_count(e->by_rank));
    return 0;
}

int entries_add(entries_t *e, uint32_t rank)
{
    return raise_to(e, rank, number(e, rank) + 1);
}

/* Parse digits, up to INT32_MAX. */
static bool read_number(const char **p, uint32_t *out)
{
    uint32_t n = 0;

    if (**p < '0' || **p > '9')
        return false;
    for (; **p >= '0' && **p <= '9'; ++*p) {
        uint32_t digit = (uint32_t)(**p - '0');

        if (n > (INT32_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

int entries_merge(entries_t *e, const char *text, uint32_t size, errmsg_t *err)
{
    const char *p = text;

    while (*p) {
        uint32_t lo, hi, n;

        if (!read_number(&p, &lo))
            break;
        hi = lo;
        if (*p == '-' && (++p, !read_number(&p, &hi)))
            break;
        if (lo > hi || hi >= size || *p++ != ':' || !read_number(&p, &n) || n == 0)
            break;
        for (uint32_t r = lo; r <= hi; r++) {
            if (raise_to(e, r, n) < 0)
                return errmsg_fail(err, ENOMEM, "out of memory for the entries of a barrier");
        }
        if (*p == '\0')
            return 0;
        if (*p++ != ',' || *p == '\0')
            break;
    }
    return *text ? errmsg_fail(err, EPROTO, "'%.40s' does not say who has entered a barrier", text)
                 : 0;
}

bool entries_news(const entries_t *e)
{
    return !idset_empty(e->news);
}

char *entries_format_news(const entries_t *e)
{
    strbuf_t *sb = strbuf_create(0);
    uint32_t r = sb ? idset_first(e->news) : IDSET_NONE;

    while (r != IDSET_NONE) {
        uint32_t lo = r, hi = r, n = number(e, r);

        while ((r = idset_next(e->news, hi)) == hi + 1 && number(e, r) == n)
            hi = r;
        strbuf_addf(sb, "%s%u", strbuf_len(sb) ? "," : "", lo);
        if (hi > lo)
            strbuf_addf(sb, "-%u", hi);
        strbuf_addf(sb, ":%u", n);
    }
    return strbuf_take(sb);
}

void entries_reported(entries_t *e)
{
    (void)idset_range_clear(e->news, 0, IDSET_MAX);
}

int entries_renew(entries_t *e)
{
    return idset_add(e->news, e->ranks);
}
