/* hostlist.c - ordered list of host names, numbers folded into ranges.
 *
 * Text format owned here:
 *     list = "" | name *("," name)
 *     name = *(letter | digit | "." | "-" | "_" | bracket), not empty, at most 8 brackets
 *     bracket = "[" item *("," item) "]"
 *     item = digits | digits "-" digits
 * In a range a first number with a leading zero sets the width of all: "01-16" is 01, 02, ... 16.
 * The last number must be written as it comes out: "1-016" and "01-5" are refused.
 *
 * In memory a list is a vector of groups of consecutive hosts: text before and after the *last* run
 * of digits of the name, width, and first..last number.  A name always splits in the same way,
 * whether it came from a bracket or not, so equal names compare equal.
 *
 * Invariants:
 *  1. Expanding the groups in order gives the list; width 0 means "as many digits as needed".
 *  2. start of group i is the number of hosts before it.
 *  3. At most HOSTLIST_MAX hosts and MAX_TEXT bytes of group text: text of a few bytes that
 *     multiplies out to gigabytes is refused with E2BIG while it is being expanded.
 *  4. A number has at most 9 digits here; digits before those belong to the text before it.
 *
 * Failure: an operation that fails leaves the list as it was.
 */
#include "config.h"
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/hmap.h"
#include "libutil/strbuf.h"
#include "hostlist.h"

#define MAX_TEXT ((size_t)64 << 20)
#define MAX_BRACKETS 8
#define MAX_DIGITS 9

struct group {
    char *prefix; /* one block: prefix NUL suffix NUL */
    const char *suffix;
    uint32_t start;
    uint32_t lo; /* numbers lo..hi; a name without digits has hasnum == false, lo == hi == 0 */
    uint32_t hi;
    uint16_t plen;
    uint16_t slen;
    uint8_t width;
    bool hasnum;
};

struct hostlist {
    struct group *g;
    size_t n;
    size_t cap;
    size_t count;
    size_t text; /* bytes of prefix blocks */
};

/* A name taken apart; points into the name. */
struct split {
    const char *prefix;
    const char *suffix;
    uint16_t plen;
    uint16_t slen;
    uint32_t num;
    uint8_t ndigits;
    bool hasnum;
};

static uint32_t group_size(const struct group *g)
{
    return g->hi - g->lo + 1;
}

static unsigned digits_of(uint32_t n)
{
    unsigned d = 1;

    for (; n >= 10; n /= 10)
        d++;
    return d;
}

hostlist_t *hostlist_create(void)
{
    return calloc(1, sizeof(hostlist_t));
}

/* Drop the groups from number n on. */
static void drop_groups(hostlist_t *hl, size_t n)
{
    while (hl->n > n) {
        struct group *g = &hl->g[--hl->n];

        hl->count -= group_size(g);
        hl->text -= (size_t)g->plen + g->slen + 2;
        free(g->prefix);
    }
}

void hostlist_destroy(hostlist_t *hl)
{
    int saved = errno;

    if (hl) {
        drop_groups(hl, 0);
        free(hl->g);
        free(hl);
    }
    errno = saved;
}

static struct split split_name(const char *name, size_t len)
{
    struct split sp = {.prefix = name, .plen = (uint16_t)len, .suffix = name + len};
    size_t end = len;
    size_t begin;

    while (end > 0 && !isdigit((unsigned char)name[end - 1]))
        end--;
    if (end == 0)
        return sp;
    begin = end;
    while (begin > 0 && end - begin < MAX_DIGITS && isdigit((unsigned char)name[begin - 1]))
        begin--;
    for (size_t i = begin; i < end; i++)
        sp.num = sp.num * 10 + (uint32_t)(name[i] - '0');
    sp.ndigits = (uint8_t)(end - begin);
    sp.plen = (uint16_t)begin;
    sp.suffix = name + end;
    sp.slen = (uint16_t)(len - end);
    sp.hasnum = true;
    return sp;
}

static bool same_text(const struct group *g, const struct split *sp)
{
    return g->hasnum == sp->hasnum && g->plen == sp->plen && g->slen == sp->slen &&
           memcmp(g->prefix, sp->prefix, sp->plen) == 0 &&
           memcmp(g->suffix, sp->suffix, sp->slen) == 0;
}

/* Would the group write this number with just these digits? */
static bool same_width(const struct group *g, const struct split *sp)
{
    unsigned need = digits_of(sp->num);

    return sp->ndigits == (need > g->width ? need : g->width);
}

static uint8_t natural_width(const struct split *sp)
{
    return sp->ndigits > digits_of(sp->num) ? sp->ndigits : 0;
}

static int room_for_group(hostlist_t *hl)
{
    size_t cap = hl->cap ? hl->cap * 2 : 4;
    struct group *g;

    if (hl->n < hl->cap)
        return 0;
    g = reallocarray(hl->g, cap, sizeof(*g));
    if (!g)
        return -1;
    hl->g = g;
    hl->cap = cap;
    return 0;
}

/* Text before and after the number, in one block. */
static char *make_text(const struct split *sp)
{
    char *s = malloc((size_t)sp->plen + sp->slen + 2);

    if (!s)
        return NULL;
    memcpy(s, sp->prefix, sp->plen);
    s[sp->plen] = '\0';
    memcpy(s + sp->plen + 1, sp->suffix, sp->slen);
    s[sp->plen + 1 + sp->slen] = '\0';
    return s;
}

/* Append numbers sp->num..hi with the texts of sp; folded into the last group where it fits. */
static int add_group(hostlist_t *hl, const struct split *sp, uint8_t width, uint32_t hi)
{
    struct group *g = hl->n > 0 ? &hl->g[hl->n - 1] : NULL;
    uint32_t n = hi - sp->num + 1;
    size_t text = (size_t)sp->plen + sp->slen + 2;
    char *s;

    if (n > HOSTLIST_MAX - hl->count) {
        errno = E2BIG;
        return -1;
    }
    /* When the first number has as many digits as the group would give it, either both pad to the
     * same width or neither pads from here on: the later numbers agree as well. */
    if (g && sp->hasnum && sp->num == g->hi + 1 && same_text(g, sp) && same_width(g, sp)) {
        g->hi = hi;
        hl->count += n;
        return 0;
    }
    if (text > MAX_TEXT - hl->text) {
        errno = E2BIG;
        return -1;
    }
    if (room_for_group(hl) < 0)
        return -1;
    s = make_text(sp);
    if (!s)
        return -1;
    hl->g[hl->n++] = (struct group){.prefix = s,
                                    .suffix = s + sp->plen + 1,
                                    .start = (uint32_t)hl->count,
                                    .lo = sp->num,
                                    .hi = hi,
                                    .plen = sp->plen,
                                    .slen = sp->slen,
                                    .width = width,
                                    .hasnum = sp->hasnum};
    hl->count += n;
    hl->text += text;
    return 0;
}

static struct split split_group(const struct group *g)
{
    return (struct split){.prefix = g->prefix,
                          .suffix = g->suffix,
                          .plen = g->plen,
                          .slen = g->slen,
                          .num = g->lo,
                          .ndigits =
                              (uint8_t)(g->width > digits_of(g->lo) ? g->width : digits_of(g->lo)),
                          .hasnum = g->hasnum};
}

static int add_name(hostlist_t *hl, const char *name, size_t len)
{
    struct split sp = split_name(name, len);

    return add_group(hl, &sp, natural_width(&sp), sp.num);
}

/* The state before an append, to go back to when it fails half-way. */
struct mark {
    size_t n;
    uint32_t hi; /* of the last group, which an append may extend */
};

static struct mark set_mark(const hostlist_t *hl)
{
    return (struct mark){hl->n, hl->n > 0 ? hl->g[hl->n - 1].hi : 0};
}

static void go_back(hostlist_t *hl, struct mark m)
{
    drop_groups(hl, m.n);
    if (m.n > 0) {
        hl->count -= hl->g[m.n - 1].hi - m.hi;
        hl->g[m.n - 1].hi = m.hi;
    }
}

struct parser {
    hostlist_t *hl;
    const char *text;
    const char *end;     /* of the name being expanded */
    const char *problem; /* what is wrong, for EINVAL */
    const char *where;
    char name[HOSTLIST_NAME_MAX + 1];
};

static int bad(struct parser *p, const char *where, const char *problem)
{
    p->problem = problem;
    p->where = where;
    errno = EINVAL;
    return -1;
}

/* Digits at *s, at most 9 of them. */
static int parse_number(struct parser *p, const char **s, uint32_t *num, unsigned *ndigits)
{
    const char *begin = *s;

    *num = 0;
    while (**s >= '0' && **s <= '9') {
        if (*s - begin == MAX_DIGITS)
            return bad(p, *s, "a number has more than 9 digits");
        *num = *num * 10 + (uint32_t)(**s - '0');
        (*s)++;
    }
    *ndigits = (unsigned)(*s - begin);
    return *ndigits > 0 ? 0 : bad(p, begin, "a number is expected");
}

/* One item of a bracket at *s. */
static int parse_item(struct parser *p, const char **s, uint32_t *lo, uint32_t *hi, unsigned *width)
{
    const char *begin = *s;
    unsigned nlo;
    unsigned nhi;

    if (parse_number(p, s, lo, &nlo) < 0)
        return -1;
    *hi = *lo;
    *width = nlo > digits_of(*lo) ? nlo : 0;
    if (**s == '-') {
        (*s)++;
        if (parse_number(p, s, hi, &nhi) < 0)
            return -1;
        if (*hi < *lo)
            return bad(p, begin, "a range falls");
        if (nhi != (digits_of(*hi) > *width ? digits_of(*hi) : *width))
            return bad(p, begin, "the ends of a range are padded differently");
        if (*hi - *lo >= HOSTLIST_MAX) {
            errno = E2BIG;
            return -1;
        }
    }
    return 0;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* Expand the rest of a name from `s`, `len` bytes of p->name being done.  Syntax is checked here,
 * as the first expansion passes over every byte. */
static int expand(struct parser *p, const char *s, size_t len, int nbrackets)
{
    uint32_t lo;
    uint32_t hi;
    unsigned width;

    for (; s < p->end && *s != '['; s++) {
        if (!name_char(*s))
            return bad(p, s, "a character is not allowed in a host name");
        if (len == HOSTLIST_NAME_MAX)
            return bad(p, s, "a host name has more than 255 characters");
        p->name[len++] = *s;
    }
    if (s == p->end)
        return add_name(p->hl, p->name, len);
    if (nbrackets == MAX_BRACKETS)
        return bad(p, s, "a name has more than 8 brackets");
    s++;
    for (const char *close = memchr(s, ']', (size_t)(p->end - s));; s++) {
        if (!close)
            return bad(p, s, "']' is missing");
        if (parse_item(p, &s, &lo, &hi, &width) < 0)
            return -1;
        if (s != close && *s != ',')
            return bad(p, s, "',' or ']' is expected");
        for (uint64_t num = lo; num <= hi; num++) {
            int n =
                snprintf(p->name + len, sizeof(p->name) - len, "%0*u", (int)width, (unsigned)num);

            if (n < 0 || len + (size_t)n > HOSTLIST_NAME_MAX)
                return bad(p, s, "a host name has more than 255 characters");
            if (expand(p, close + 1, len + (size_t)n, nbrackets + 1) < 0)
                return -1;
        }
        if (s == close)
            return 0;
    }
}

/* End of the name that begins at `s`: the next ',' outside brackets. */
static const char *name_end(const char *s)
{
    bool inside = false;

    for (; *s && (inside || *s != ','); s++) {
        if (*s == '[')
            inside = true;
        else if (*s == ']')
            inside = false;
    }
    return s;
}

static int parse_list(struct parser *p, const char *s)
{
    if (*s == '\0')
        return 0;
    for (;; s++) {
        p->end = name_end(s);
        if (p->end == s)
            return bad(p, s, "a host name is empty");
        if (*s == '-' || *s == '.')
            return bad(p, s, "a host name begins with '-' or '.'");
        if (expand(p, s, 0, 0) < 0)
            return -1;
        s = p->end;
        if (*s == '\0')
            return 0;
    }
}

int hostlist_append(hostlist_t *hl, const char *hosts, errmsg_t *err)
{
    struct parser p;
    struct mark m;
    int saved;

    if (!hl || !hosts)
        return errmsg_fail(err, EINVAL, "hostlist: no text was given");
    m = set_mark(hl);
    p.hl = hl;
    p.text = hosts;
    if (parse_list(&p, hosts) == 0)
        return 0;
    saved = errno;
    go_back(hl, m);
    if (saved == EINVAL)
        return errmsg_fail(err, saved,
                           "hostlist \"%.60s\": %s at character %zu; write it like \"node[0-15]\"",
                           hosts, p.problem, (size_t)(p.where - p.text) + 1);
    if (saved == E2BIG)
        return errmsg_fail(err, saved,
                           "hostlist \"%.60s\": more than %u hosts, or %zu MiB of names", hosts,
                           HOSTLIST_MAX, MAX_TEXT >> 20);
    return errmsg_fail(err, saved, "hostlist: out of memory");
}

hostlist_t *hostlist_parse(const char *s, errmsg_t *err)
{
    hostlist_t *hl = hostlist_create();

    if (!hl) {
        errmsg_fail(err, ENOMEM, "hostlist: out of memory");
        return NULL;
    }
    if (hostlist_append(hl, s, err) < 0) {
        hostlist_destroy(hl);
        return NULL;
    }
    return hl;
}

int hostlist_append_list(hostlist_t *hl, const hostlist_t *other)
{
    struct mark m = set_mark(hl);
    size_t n = other ? other->n : 0;
    uint32_t last = n > 0 ? other->g[n - 1].hi : 0; /* would move if it is the same list */

    for (size_t i = 0; i < n; i++) {
        struct split sp = split_group(&other->g[i]);

        if (add_group(hl, &sp, other->g[i].width, i + 1 == n ? last : other->g[i].hi) < 0) {
            int saved = errno;

            go_back(hl, m);
            errno = saved;
            return -1;
        }
    }
    return 0;
}

hostlist_t *hostlist_copy(const hostlist_t *hl)
{
    hostlist_t *copy = hostlist_create();

    if (copy && hostlist_append_list(copy, hl) < 0) {
        hostlist_destroy(copy);
        return NULL;
    }
    return copy;
}

size_t hostlist_count(const hostlist_t *hl)
{
    return hl ? hl->count : 0;
}

/* Add what stands between the texts: one number or a range. */
static void format_numbers(strbuf_t *sb, const struct group *g)
{
    strbuf_addf(sb, "%0*u", g->width, g->lo);
    if (g->hi > g->lo)
        strbuf_addf(sb, "-%0*u", g->width, g->hi);
}

char *hostlist_format(const hostlist_t *hl)
{
    strbuf_t *sb = strbuf_create(0);
    size_t n = hl ? hl->n : 0;

    for (size_t i = 0; i < n;) {
        const struct group *g = &hl->g[i];
        struct split sp = split_group(g);
        size_t j = i + 1;
        bool many;

        while (g->hasnum && j < n && same_text(&hl->g[j], &sp))
            j++;
        many = j > i + 1 || g->hi > g->lo;
        strbuf_addf(sb, "%s%s%s", i > 0 ? "," : "", g->prefix, many ? "[" : "");
        for (size_t k = i; g->hasnum && k < j; k++) {
            if (k > i)
                strbuf_addc(sb, ',');
            format_numbers(sb, &hl->g[k]);
        }
        strbuf_addf(sb, "%s%s", many ? "]" : "", g->suffix);
        i = j;
    }
    return strbuf_take(sb);
}

static int format_name(const struct group *g, uint32_t num, char *name, size_t size)
{
    if (!g->hasnum)
        return snprintf(name, size, "%s", g->prefix);
    return snprintf(name, size, "%s%0*u%s", g->prefix, g->width, num, g->suffix);
}

char *hostlist_nth(const hostlist_t *hl, size_t n, char *name, size_t size)
{
    size_t lo = 0;
    size_t hi = hl ? hl->n : 0;
    int len;

    if (n >= hostlist_count(hl)) {
        errno = ENOENT;
        return NULL;
    }
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (hl->g[mid].start <= n)
            lo = mid;
        else
            hi = mid;
    }
    len = format_name(&hl->g[lo], hl->g[lo].lo + ((uint32_t)n - hl->g[lo].start), name, size);
    if (len < 0 || (size_t)len >= size) {
        errno = ENOSPC;
        return NULL;
    }
    return name;
}

/* Group with that name, or NULL with ENOENT; *num is its number. */
static struct group *find(const hostlist_t *hl, const char *name, uint32_t *num)
{
    size_t len = name ? strlen(name) : 0;
    struct split sp;

    if (hl && len > 0 && len <= HOSTLIST_NAME_MAX) {
        sp = split_name(name, len);
        for (size_t i = 0; i < hl->n; i++) {
            struct group *g = &hl->g[i];

            if (sp.num >= g->lo && sp.num <= g->hi && same_text(g, &sp) &&
                (!sp.hasnum || same_width(g, &sp))) {
                *num = sp.num;
                return g;
            }
        }
    }
    errno = ENOENT;
    return NULL;
}

ssize_t hostlist_find(const hostlist_t *hl, const char *name)
{
    uint32_t num;
    struct group *g = find(hl, name, &num);

    return g ? (ssize_t)(g->start + (num - g->lo)) : -1;
}

int hostlist_remove(hostlist_t *hl, const char *name)
{
    uint32_t num;
    struct group *g = find(hl, name, &num);
    struct split sp;
    char *text;
    size_t i;

    if (!g)
        return -1;
    i = (size_t)(g - hl->g);
    if (g->lo == g->hi) {
        hl->text -= (size_t)g->plen + g->slen + 2;
        free(g->prefix);
        memmove(g, g + 1, (hl->n - i - 1) * sizeof(*g));
        hl->n--;
    } else if (num == g->lo) {
        g->lo++;
        i++; /* its start stays, those behind it move */
    } else if (num == g->hi) {
        g->hi--;
        i++;
    } else {
        sp = split_group(g);
        text = make_text(&sp);
        if (!text || room_for_group(hl) < 0) {
            free(text);
            errno = ENOMEM;
            return -1;
        }
        g = &hl->g[i];
        memmove(g + 1, g, (hl->n - i) * sizeof(*g));
        hl->n++;
        hl->text += (size_t)g->plen + g->slen + 2;
        g[0].hi = num - 1;
        g[1].lo = num + 1;
        g[1].prefix = text;
        g[1].suffix = text + g->plen + 1;
        g[1].start = g->start + group_size(g) + 1; /* one too many, as behind it */
        i++;
    }
    hl->count--;
    for (; i < hl->n; i++)
        hl->g[i].start--;
    return 0;
}

/* One host, as a reference to the group it is in. */
struct ref {
    const struct group *g;
    uint32_t num;
};

static unsigned ref_digits(const struct ref *r)
{
    unsigned need = digits_of(r->num);

    return need > r->g->width ? need : r->g->width;
}

static struct split split_ref(const struct ref *r)
{
    struct split sp = split_group(r->g);

    sp.num = r->num;
    sp.ndigits = (uint8_t)ref_digits(r);
    return sp;
}

static int compare_refs(const void *a, const void *b)
{
    const struct ref *x = a;
    const struct ref *y = b;
    int c = x->g == y->g ? 0 : strcmp(x->g->prefix, y->g->prefix);

    if (c == 0 && x->g != y->g)
        c = strcmp(x->g->suffix, y->g->suffix);
    if (c == 0)
        c = (int)x->g->hasnum - (int)y->g->hasnum;
    if (c == 0)
        c = x->num < y->num ? -1 : x->num > y->num;
    if (c == 0)
        c = (int)ref_digits(x) - (int)ref_digits(y);
    return c;
}

/* All hosts of a list as references; `count` of them. */
static struct ref *make_refs(const hostlist_t *hl)
{
    struct ref *refs = reallocarray(NULL, hl->count + 1, sizeof(*refs));
    size_t n = 0;

    for (size_t i = 0; refs && i < hl->n; i++) {
        for (uint64_t num = hl->g[i].lo; num <= hl->g[i].hi; num++)
            refs[n++] = (struct ref){&hl->g[i], (uint32_t)num};
    }
    return refs;
}

/* Give `hl` the content of `from`, which is destroyed. */
static void replace(hostlist_t *hl, hostlist_t *from)
{
    hostlist_t old = *hl;

    *hl = *from;
    *from = old;
    hostlist_destroy(from);
}

int hostlist_sort(hostlist_t *hl)
{
    struct ref *refs = make_refs(hl);
    hostlist_t *sorted = hostlist_create();
    int rc = refs && sorted ? 0 : -1;

    if (rc == 0)
        qsort(refs, hl->count, sizeof(*refs), compare_refs);
    for (size_t i = 0; rc == 0 && i < hl->count; i++) {
        struct split sp = split_ref(&refs[i]);

        rc = add_group(sorted, &sp, natural_width(&sp), sp.num);
    }
    free(refs);
    if (rc < 0) {
        hostlist_destroy(sorted);
        errno = ENOMEM;
        return -1;
    }
    replace(hl, sorted);
    return 0;
}

int hostlist_unique(hostlist_t *hl)
{
    hostlist_t *once = hostlist_create();
    hmap_t *seen = hmap_create_str(NULL);
    char name[HOSTLIST_NAME_MAX + 1];
    int rc = once && seen ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < hl->count; i++) {
        if (!hostlist_nth(hl, i, name, sizeof(name)) || hmap_get(seen, name))
            continue;
        rc = hmap_put(seen, name, hl);
        if (rc == 0)
            rc = add_name(once, name, strlen(name));
    }
    hmap_destroy(seen);
    if (rc < 0) {
        hostlist_destroy(once);
        errno = ENOMEM;
        return -1;
    }
    replace(hl, once);
    return 0;
}
