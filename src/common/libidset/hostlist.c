/* hostlist.c - ordered list of host names, with numbers folded into ranges (text:
 * hostlist_parse.c).
 *
 * In memory a list is a vector of groups of consecutive hosts: the text before and after the *last*
 * run of digits in the name, width, and first..last number.  A name always splits in the same way,
 * whether it came from a bracket or not, so equal names compare equal.
 *
 * Invariants:
 *  1. Expanding the groups in order gives the list; width 0 means "as many digits as needed".
 *  2. `start` of group i is the number of hosts before it.
 *  3. There are at most HOSTLIST_MAX hosts and HOSTLIST_TEXT_MAX bytes of group text.
 *  4. A number has at most 9 digits here; digits before those belong to the text before it.
 *
 * Failure: an operation that fails leaves the list unchanged.
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
#include "hostlist_private.h"

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

/* The parts of a name; points into the name. */
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

unsigned hostlist_digits(uint32_t n)
{
    unsigned d = 1;

    for (; n >= 10; n /= 10)
        d++;
    return d;
}

size_t hostlist_number_len(uint32_t n, unsigned width)
{
    unsigned digits = hostlist_digits(n);

    return digits > width ? digits : width;
}

void hostlist_put_number(char *to, uint32_t n, size_t len)
{
    for (; len-- > 0; n /= 10)
        to[len] = (char)('0' + n % 10);
}

hostlist_t *hostlist_create(void)
{
    return calloc(1, sizeof(hostlist_t));
}

/* Remove the groups from number n on. */
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
    while (begin > 0 && end - begin < HOSTLIST_DIGITS_MAX &&
           isdigit((unsigned char)name[begin - 1]))
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

/* Would the group write this number with the same digits? */
static bool same_width(const struct group *g, const struct split *sp)
{
    unsigned need = hostlist_digits(sp->num);

    return sp->ndigits == (need > g->width ? need : g->width);
}

static uint8_t natural_width(const struct split *sp)
{
    return sp->ndigits > hostlist_digits(sp->num) ? sp->ndigits : 0;
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

/* Append numbers sp->num..hi with the texts of sp; folded into the last group if possible. */
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
    /* If the group would write the first number with as many digits, either both pad to the same
     * width or neither pads from here on, so the later numbers agree as well. */
    if (g && sp->hasnum && sp->num == g->hi + 1 && same_text(g, sp) && same_width(g, sp)) {
        g->hi = hi;
        hl->count += n;
        return 0;
    }
    if (text > HOSTLIST_TEXT_MAX - hl->text) {
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
    return (struct split){
        .prefix = g->prefix,
        .suffix = g->suffix,
        .plen = g->plen,
        .slen = g->slen,
        .num = g->lo,
        .ndigits = (uint8_t)(g->width > hostlist_digits(g->lo) ? g->width : hostlist_digits(g->lo)),
        .hasnum = g->hasnum};
}

int hostlist_add_name(hostlist_t *hl, const char *name, size_t len)
{
    struct split sp = split_name(name, len);

    return add_group(hl, &sp, natural_width(&sp), sp.num);
}

struct hostlist_mark hostlist_set_mark(const hostlist_t *hl)
{
    return (struct hostlist_mark){hl->n, hl->n > 0 ? hl->g[hl->n - 1].hi : 0};
}

void hostlist_go_back(hostlist_t *hl, struct hostlist_mark m)
{
    drop_groups(hl, m.n);
    if (m.n > 0) {
        hl->count -= hl->g[m.n - 1].hi - m.hi;
        hl->g[m.n - 1].hi = m.hi;
    }
}

size_t hostlist_count(const hostlist_t *hl)
{
    return hl ? hl->count : 0;
}

/* Add the text between prefix and suffix: one number or a range. */
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

/* -1: it does not fit. */
static int format_name(const struct group *g, uint32_t num, char *name, size_t size)
{
    size_t n = g->hasnum ? hostlist_number_len(num, g->width) : 0;

    if (g->plen + n + g->slen >= size)
        return -1;
    memcpy(name, g->prefix, g->plen);
    hostlist_put_number(name + g->plen, num, n);
    memcpy(name + g->plen + n, g->suffix, (size_t)g->slen + 1);
    return 0;
}

char *hostlist_nth(const hostlist_t *hl, size_t n, char *name, size_t size)
{
    size_t lo = 0;
    size_t hi = hl ? hl->n : 0;

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
    if (format_name(&hl->g[lo], hl->g[lo].lo + ((uint32_t)n - hl->g[lo].start), name, size) < 0) {
        errno = ENOSPC;
        return NULL;
    }
    return name;
}

/* Replace the contents of `hl` by those of `from`, which is destroyed. */
static void replace(hostlist_t *hl, hostlist_t *from)
{
    hostlist_t old = *hl;

    *hl = *from;
    *from = old;
    hostlist_destroy(from);
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
            rc = hostlist_add_name(once, name, strlen(name));
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
