/* idset.c - set of integers below 2^31, as a sorted vector of ranges.
 *
 * Format:
 *     set  = list | "[" list "]"
 *     list = "" | item *("," item)
 *     item = number | number "-" number          (no leading zeros, first <= second)
 *
 * Invariants:
 *  1. Ranges are sorted, disjoint and not adjacent (r[i].hi + 1 < r[i+1].lo).  A set thus has
 *     exactly one representation: equality is memory equality, and the formatted text is canonical.
 *  2. `count` is the number of members.
 *  3. Memory is proportional to the number of ranges.  Text of n items costs O(n log n), whatever
 *     their order and width.
 *
 * Failure: operations that change a set succeed or leave it unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strbuf.h"
#include "idset.h"

struct range {
    uint32_t lo;
    uint32_t hi;
};

struct idset {
    struct range *r;
    size_t n;
    size_t cap;
    size_t count;
};

static size_t width(struct range r)
{
    return (size_t)r.hi - r.lo + 1;
}

idset_t *idset_create(void)
{
    return calloc(1, sizeof(idset_t));
}

void idset_destroy(idset_t *ids)
{
    int saved = errno;

    if (ids) {
        free(ids->r);
        free(ids);
    }
    errno = saved;
}

/* Make room for `n` ranges in total. */
static int grow(idset_t *ids, size_t n)
{
    size_t cap = ids->cap ? ids->cap : 4;
    struct range *r;

    if (n <= ids->cap)
        return 0;
    while (cap < n)
        cap *= 2;
    r = reallocarray(ids->r, cap, sizeof(*r));
    if (!r)
        return -1;
    ids->r = r;
    ids->cap = cap;
    return 0;
}

/* Append a range that does not begin before the last one; there must be room. */
static void push(idset_t *ids, struct range r)
{
    struct range *last = ids->n > 0 ? &ids->r[ids->n - 1] : NULL;

    if (last && r.lo <= last->hi + 1) {
        if (r.hi > last->hi) {
            ids->count += r.hi - last->hi;
            last->hi = r.hi;
        }
        return;
    }
    ids->r[ids->n++] = r;
    ids->count += width(r);
}

/* Index of the first range that ends at or above `id`. */
static size_t find(const idset_t *ids, uint32_t id)
{
    size_t lo = 0;
    size_t hi = ids->n;

    if (hi > 0 && ids->r[hi - 1].hi < id)
        return hi;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (ids->r[mid].hi < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Replace `ndel` ranges from number `at` on by `nnew` others. */
static int splice(idset_t *ids, size_t at, size_t ndel, const struct range *new, size_t nnew)
{
    if (grow(ids, ids->n - ndel + nnew) < 0)
        return -1;
    for (size_t i = at; i < at + ndel; i++)
        ids->count -= width(ids->r[i]);
    if (ndel != nnew && at + ndel < ids->n)
        memmove(&ids->r[at + nnew], &ids->r[at + ndel],
                (ids->n - at - ndel) * sizeof(struct range));
    for (size_t i = 0; i < nnew; i++) {
        ids->r[at + i] = new[i];
        ids->count += width(new[i]);
    }
    ids->n += nnew;
    ids->n -= ndel;
    return 0;
}

static int check_range(const idset_t *ids, uint32_t lo, uint32_t hi)
{
    if (ids && lo <= hi && hi <= IDSET_MAX)
        return 0;
    errno = EINVAL;
    return -1;
}

int idset_range_set(idset_t *ids, uint32_t lo, uint32_t hi)
{
    struct range r = {lo, hi};
    size_t from;
    size_t to;

    if (check_range(ids, lo, hi) < 0)
        return -1;
    from = find(ids, lo > 0 ? lo - 1 : 0); /* an adjacent range is merged too */
    for (to = from; to < ids->n && ids->r[to].lo <= hi + 1; to++)
        ;
    if (to > from) {
        if (ids->r[from].lo < r.lo)
            r.lo = ids->r[from].lo;
        if (ids->r[to - 1].hi > r.hi)
            r.hi = ids->r[to - 1].hi;
    }
    return splice(ids, from, to - from, &r, 1);
}

int idset_range_clear(idset_t *ids, uint32_t lo, uint32_t hi)
{
    struct range rest[2];
    size_t nrest = 0;
    size_t from;
    size_t to;

    if (check_range(ids, lo, hi) < 0)
        return -1;
    from = find(ids, lo);
    for (to = from; to < ids->n && ids->r[to].lo <= hi; to++)
        ;
    if (from == to)
        return 0;
    if (ids->r[from].lo < lo)
        rest[nrest++] = (struct range){ids->r[from].lo, lo - 1};
    if (ids->r[to - 1].hi > hi)
        rest[nrest++] = (struct range){hi + 1, ids->r[to - 1].hi};
    return splice(ids, from, to - from, rest, nrest);
}

int idset_set(idset_t *ids, uint32_t id)
{
    return idset_range_set(ids, id, id);
}

int idset_clear(idset_t *ids, uint32_t id)
{
    return idset_range_clear(ids, id, id);
}

idset_t *idset_create_range(uint32_t lo, uint32_t hi)
{
    idset_t *ids = idset_create();

    if (ids && idset_range_set(ids, lo, hi) < 0) {
        idset_destroy(ids);
        return NULL;
    }
    return ids;
}

idset_t *idset_copy(const idset_t *ids)
{
    idset_t *copy = idset_create();

    if (!copy || !ids || ids->n == 0)
        return copy;
    if (grow(copy, ids->n) < 0) {
        idset_destroy(copy);
        return NULL;
    }
    memcpy(copy->r, ids->r, ids->n * sizeof(struct range));
    copy->n = ids->n;
    copy->count = ids->count;
    return copy;
}

bool idset_test(const idset_t *ids, uint32_t id)
{
    size_t i;

    if (!ids)
        return false;
    i = find(ids, id);
    return i < ids->n && ids->r[i].lo <= id;
}

size_t idset_count(const idset_t *ids)
{
    return ids ? ids->count : 0;
}

bool idset_empty(const idset_t *ids)
{
    return idset_count(ids) == 0;
}

bool idset_equal(const idset_t *a, const idset_t *b)
{
    size_t n = a ? a->n : 0;

    if (n != (b ? b->n : 0))
        return false;
    return n == 0 || memcmp(a->r, b->r, n * sizeof(struct range)) == 0;
}

bool idset_subset(const idset_t *a, const idset_t *b)
{
    size_t j = 0;

    if (idset_empty(a))
        return true;
    if (idset_count(a) > idset_count(b))
        return false;
    for (size_t i = 0; i < a->n; i++) {
        while (j < b->n && b->r[j].hi < a->r[i].lo)
            j++;
        if (j == b->n || b->r[j].lo > a->r[i].lo || b->r[j].hi < a->r[i].hi)
            return false;
    }
    return true;
}

bool idset_intersects(const idset_t *a, const idset_t *b)
{
    size_t i = 0;
    size_t j = 0;

    if (!a || !b)
        return false;
    while (i < a->n && j < b->n) {
        if (a->r[i].hi < b->r[j].lo)
            i++;
        else if (b->r[j].hi < a->r[i].lo)
            j++;
        else
            return true;
    }
    return false;
}

uint32_t idset_first(const idset_t *ids)
{
    return idset_empty(ids) ? IDSET_NONE : ids->r[0].lo;
}

uint32_t idset_last(const idset_t *ids)
{
    return idset_empty(ids) ? IDSET_NONE : ids->r[ids->n - 1].hi;
}

uint32_t idset_next(const idset_t *ids, uint32_t id)
{
    size_t i;

    if (!ids || id >= IDSET_MAX)
        return IDSET_NONE;
    i = find(ids, id + 1);
    if (i == ids->n)
        return IDSET_NONE;
    return ids->r[i].lo > id ? ids->r[i].lo : id + 1;
}

uint32_t idset_prev(const idset_t *ids, uint32_t id)
{
    size_t i;

    if (!ids || id == 0)
        return IDSET_NONE;
    i = find(ids, id - 1);
    if (i < ids->n && ids->r[i].lo <= id - 1)
        return id - 1;
    return i > 0 ? ids->r[i - 1].hi : IDSET_NONE;
}

uint32_t idset_nth(const idset_t *ids, size_t n)
{
    if (!ids || n >= ids->count)
        return IDSET_NONE;
    for (size_t i = 0; i < ids->n; i++) {
        if (n < width(ids->r[i]))
            return ids->r[i].lo + (uint32_t)n;
        n -= width(ids->r[i]);
    }
    return IDSET_NONE;
}

bool idset_next_range(const idset_t *ids, size_t *pos, uint32_t *lo, uint32_t *hi)
{
    if (!ids || *pos >= ids->n)
        return false;
    *lo = ids->r[*pos].lo;
    *hi = ids->r[*pos].hi;
    (*pos)++;
    return true;
}

idset_t *idset_union(const idset_t *a, const idset_t *b)
{
    idset_t *ids = idset_create();
    size_t an = a ? a->n : 0;
    size_t bn = b ? b->n : 0;
    size_t i = 0;
    size_t j = 0;

    if (!ids || grow(ids, an + bn) < 0) {
        idset_destroy(ids);
        return NULL;
    }
    while (i < an || j < bn) {
        if (j == bn || (i < an && a->r[i].lo <= b->r[j].lo))
            push(ids, a->r[i++]);
        else
            push(ids, b->r[j++]);
    }
    return ids;
}

idset_t *idset_intersect(const idset_t *a, const idset_t *b)
{
    idset_t *ids = idset_create();
    size_t i = 0;
    size_t j = 0;

    if (!ids || !a || !b)
        return ids;
    if (grow(ids, a->n + b->n) < 0) {
        idset_destroy(ids);
        return NULL;
    }
    while (i < a->n && j < b->n) {
        struct range ra = a->r[i];
        struct range rb = b->r[j];
        struct range both = {ra.lo > rb.lo ? ra.lo : rb.lo, ra.hi < rb.hi ? ra.hi : rb.hi};

        if (both.lo <= both.hi)
            push(ids, both);
        if (ra.hi < rb.hi)
            i++;
        else
            j++;
    }
    return ids;
}

idset_t *idset_difference(const idset_t *a, const idset_t *b)
{
    idset_t *ids = idset_create();
    size_t bn = b ? b->n : 0;
    size_t j = 0;

    if (!ids || !a)
        return ids;
    if (grow(ids, a->n + bn) < 0) {
        idset_destroy(ids);
        return NULL;
    }
    for (size_t i = 0; i < a->n; i++) {
        struct range r = a->r[i];
        bool gone = false;

        while (j < bn && b->r[j].hi < r.lo)
            j++;
        /* The last range of b may reach into the next range of a: keep it. */
        for (size_t k = j; !gone && k < bn && b->r[k].lo <= r.hi; k++) {
            if (b->r[k].lo > r.lo)
                push(ids, (struct range){r.lo, b->r[k].lo - 1});
            gone = b->r[k].hi >= r.hi;
            if (!gone) {
                r.lo = b->r[k].hi + 1;
                j = k + 1;
            }
        }
        if (!gone)
            push(ids, r);
    }
    return ids;
}

/* Move the contents of `from`, which is destroyed, to `to`. */
static int replace(idset_t *to, idset_t *from)
{
    struct range *old = to->r;

    if (!from)
        return -1;
    *to = *from;
    from->r = old;
    idset_destroy(from);
    return 0;
}

int idset_add(idset_t *a, const idset_t *b)
{
    /* One range, the common case of a reduction, needs no new vector. */
    if (idset_empty(b))
        return 0;
    if (b->n == 1)
        return idset_range_set(a, b->r[0].lo, b->r[0].hi);
    return replace(a, idset_union(a, b));
}

int idset_keep(idset_t *a, const idset_t *b)
{
    return replace(a, idset_intersect(a, b));
}

int idset_subtract(idset_t *a, const idset_t *b)
{
    if (!idset_intersects(a, b))
        return 0;
    if (b->n == 1)
        return idset_range_clear(a, b->r[0].lo, b->r[0].hi);
    return replace(a, idset_difference(a, b));
}

/* Parse the number at *p, and advance *p.  NULL, or an error. */
static const char *parse_number(const char **p, uint32_t *out)
{
    const char *s = *p;
    uint64_t n = 0;

    if (*s < '0' || *s > '9')
        return "a number is expected";
    if (*s == '0' && s[1] >= '0' && s[1] <= '9')
        return "a number begins with 0";
    for (; *s >= '0' && *s <= '9'; s++) {
        n = n * 10 + (uint64_t)(*s - '0');
        if (n > IDSET_MAX)
            return "a number is above 2147483647";
    }
    *out = (uint32_t)n;
    *p = s;
    return NULL;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *ra = a;
    const struct range *rb = b;

    return ra->lo < rb->lo ? -1 : ra->lo > rb->lo;
}

/* Parse the items of a text as ranges, in its order.  The set is not normalized yet. */
static const char *parse_items(idset_t *ids, const char **p, bool *nomem)
{
    const char *problem;
    struct range r;

    for (;;) {
        problem = parse_number(p, &r.lo);
        if (problem)
            return problem;
        r.hi = r.lo;
        if (**p == '-') {
            (*p)++;
            problem = parse_number(p, &r.hi);
            if (problem)
                return problem;
            if (r.hi < r.lo)
                return "a range falls";
        }
        if (grow(ids, ids->n + 1) < 0) {
            *nomem = true;
            return "out of memory";
        }
        ids->r[ids->n++] = r;
        if (**p != ',')
            return NULL;
        (*p)++;
    }
}

static void normalize(idset_t *ids)
{
    size_t n = ids->n;
    bool sorted = true;

    for (size_t i = 1; sorted && i < n; i++)
        sorted = ids->r[i - 1].lo <= ids->r[i].lo;
    if (!sorted)
        qsort(ids->r, n, sizeof(struct range), compare_ranges);
    ids->n = 0;
    ids->count = 0;
    for (size_t i = 0; i < n; i++)
        push(ids, ids->r[i]); /* writes at or before number i */
}

idset_t *idset_parse(const char *s, errmsg_t *err)
{
    idset_t *ids;
    const char *p = s;
    const char *problem = NULL;
    bool nomem = false;

    if (!s) {
        errmsg_fail(err, EINVAL, "idset: no text was given");
        return NULL;
    }
    ids = idset_create();
    if (!ids) {
        errmsg_fail(err, ENOMEM, "idset: out of memory");
        return NULL;
    }
    if (*p == '[')
        p++;
    if (*p != (*s == '[' ? ']' : '\0'))
        problem = parse_items(ids, &p, &nomem);
    if (!problem && *s == '[') {
        if (*p == ']')
            p++;
        else
            problem = "']' is expected";
    }
    if (!problem && *p != '\0')
        problem = "',' or the end is expected";
    if (problem) {
        errmsg_fail(err, nomem ? ENOMEM : EINVAL,
                    "idset \"%.60s\": %s at character %zu; write it like \"0-3,7\"", s, problem,
                    (size_t)(p - s) + 1);
        idset_destroy(ids);
        return NULL;
    }
    normalize(ids);
    return ids;
}

char *idset_format(const idset_t *ids, int flags)
{
    strbuf_t *sb = strbuf_create(0);
    bool brackets = (flags & IDSET_BRACKETS) && idset_count(ids) != 1;
    size_t n = ids ? ids->n : 0;

    if (brackets)
        strbuf_addc(sb, '[');
    for (size_t i = 0; i < n; i++) {
        const char *comma = i > 0 ? "," : "";

        if (ids->r[i].lo == ids->r[i].hi)
            strbuf_addf(sb, "%s%u", comma, ids->r[i].lo);
        else
            strbuf_addf(sb, "%s%u-%u", comma, ids->r[i].lo, ids->r[i].hi);
    }
    if (brackets)
        strbuf_addc(sb, ']');
    return strbuf_take(sb);
}
