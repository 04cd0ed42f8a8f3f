/* hostlist_parse.c - text to host list.
 *
 * Format:
 *     list = "" | name *("," name)
 *     name = *(letter | digit | "." | "-" | "_" | bracket), not empty, at most 8 brackets
 *     bracket = "[" item *("," item) "]"
 *     item = digits | digits "-" digits
 * In a range, a first number with a leading zero sets the width of all: "01-16" is 01, 02, ... 16.
 * The last number must have that width: "1-016" and "01-5" are refused.
 *
 * A short text that would expand to gigabytes is refused with E2BIG during the expansion.
 * hostlist_check() counts hosts without expanding them, in time linear in the text, and
 * hostlist_walk() passes on one name after the other and stores none.
 *
 * Failure: the error message says what is wrong and where; the list is unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "hostlist_private.h"

#define MAX_BRACKETS 8

struct parser {
    /* Handle a name; -1 with errno ends the parse. */
    int (*take)(struct parser *p, size_t len);
    hostlist_t *hl;
    hostlist_walk_f fn;
    void *arg;
    bool stopped; /* by fn */
    const char *text;
    const char *end;     /* of the name being expanded */
    const char *problem; /* the error, for EINVAL */
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

/* Parse the digits at *s, at most 9 of them. */
static int parse_number(struct parser *p, const char **s, uint32_t *num, unsigned *ndigits)
{
    const char *begin = *s;

    *num = 0;
    while (**s >= '0' && **s <= '9') {
        if (*s - begin == HOSTLIST_DIGITS_MAX)
            return bad(p, *s, "a number has more than 9 digits");
        *num = *num * 10 + (uint32_t)(**s - '0');
        (*s)++;
    }
    *ndigits = (unsigned)(*s - begin);
    return *ndigits > 0 ? 0 : bad(p, begin, "a number is expected");
}

/* Parse one item of a bracket at *s. */
static int parse_item(struct parser *p, const char **s, uint32_t *lo, uint32_t *hi, unsigned *width)
{
    const char *begin = *s;
    unsigned nlo;
    unsigned nhi;

    if (parse_number(p, s, lo, &nlo) < 0)
        return -1;
    *hi = *lo;
    *width = nlo > hostlist_digits(*lo) ? nlo : 0;
    if (**s == '-') {
        (*s)++;
        if (parse_number(p, s, hi, &nhi) < 0)
            return -1;
        if (*hi < *lo)
            return bad(p, begin, "a range falls");
        if (nhi != (hostlist_digits(*hi) > *width ? hostlist_digits(*hi) : *width))
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

/* Expand the rest of a name from `s`, after `len` bytes of p->name.  Checks the syntax, since the
 * first expansion passes over every byte. */
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
        return p->take(p, len);
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
            size_t n = hostlist_number_len((uint32_t)num, width);

            if (len + n > HOSTLIST_NAME_MAX)
                return bad(p, s, "a host name has more than 255 characters");
            hostlist_put_number(p->name + len, (uint32_t)num, n);
            if (expand(p, close + 1, len + n, nbrackets + 1) < 0)
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

/* Count the names between `s` and p->end: 0, with their number and the length of the longest. */
static int measure(struct parser *p, const char *s, uint64_t *count, size_t *longest)
{
    int nbrackets = 0;

    *count = 1;
    *longest = 0;
    while (s < p->end) {
        uint64_t items = 0;
        size_t digits = 0;

        if (*s != '[') {
            if (!name_char(*s))
                return bad(p, s, "a character is not allowed in a host name");
            ++*longest;
            s++;
            continue;
        }
        if (nbrackets++ == MAX_BRACKETS)
            return bad(p, s, "a name has more than 8 brackets");
        do {
            uint32_t lo, hi;
            unsigned width, n;

            s++;
            if (parse_item(p, &s, &lo, &hi, &width) < 0)
                return -1;
            items += (uint64_t)hi - lo + 1;
            n = hostlist_digits(hi) > width ? hostlist_digits(hi) : width;
            digits = n > digits ? n : digits;
        } while (*s == ',');
        if (*s != ']')
            return bad(p, s, s == p->end ? "']' is missing" : "',' or ']' is expected");
        s++;
        *longest += digits;
        /* Neither factor is above 2^32. */
        if (items > HOSTLIST_MAX || (*count *= items) > HOSTLIST_MAX) {
            errno = E2BIG;
            return -1;
        }
    }
    return *longest <= HOSTLIST_NAME_MAX ? 0
                                         : bad(p, s, "a host name has more than 255 characters");
}

/* Take the names of the list, or (without p->take) only count them. */
static int parse_list(struct parser *p, const char *s, uint64_t *total)
{
    uint64_t count;
    size_t longest;

    *total = 0;
    if (*s == '\0')
        return 0;
    for (;; s++) {
        p->end = name_end(s);
        if (p->end == s)
            return bad(p, s, "a host name is empty");
        if (*s == '-' || *s == '.')
            return bad(p, s, "a host name begins with '-' or '.'");
        if (p->take) {
            if (expand(p, s, 0, 0) < 0)
                return -1;
        } else if (measure(p, s, &count, &longest) < 0) {
            return -1;
        } else if ((*total += count) > HOSTLIST_MAX) {
            errno = E2BIG;
            return -1;
        }
        s = p->end;
        if (*s == '\0')
            return 0;
    }
}

static int fail(const struct parser *p, int errnum, errmsg_t *err)
{
    if (errnum == EINVAL)
        return errmsg_fail(err, errnum,
                           "hostlist \"%.60s\": %s at character %zu; write it like \"node[0-15]\"",
                           p->text, p->problem, (size_t)(p->where - p->text) + 1);
    if (errnum == E2BIG)
        return errmsg_fail(err, errnum,
                           "hostlist \"%.60s\": more than %u hosts, or %zu MiB of names", p->text,
                           HOSTLIST_MAX, HOSTLIST_TEXT_MAX >> 20);
    return errmsg_fail(err, errnum, "hostlist: out of memory");
}

static int add_name(struct parser *p, size_t len)
{
    return hostlist_add_name(p->hl, p->name, len);
}

int hostlist_append(hostlist_t *hl, const char *hosts, errmsg_t *err)
{
    struct parser p = {.take = add_name, .hl = hl, .text = hosts};
    struct hostlist_mark m;
    uint64_t total;
    int saved;

    if (!hl || !hosts)
        return errmsg_fail(err, EINVAL, "hostlist: no text was given");
    m = hostlist_set_mark(hl);
    if (parse_list(&p, hosts, &total) == 0)
        return 0;
    saved = errno;
    hostlist_go_back(hl, m);
    return fail(&p, saved, err);
}

static int walk_name(struct parser *p, size_t len)
{
    p->name[len] = '\0';
    if (p->fn(p->name, p->arg) == 0)
        return 0;
    p->stopped = true;
    return -1;
}

int hostlist_walk(const char *hosts, hostlist_walk_f fn, void *arg, errmsg_t *err)
{
    struct parser p = {.take = walk_name, .fn = fn, .arg = arg, .text = hosts};
    uint64_t total;

    if (parse_list(&p, hosts, &total) == 0)
        return 0;
    return p.stopped ? -1 : fail(&p, errno, err);
}

int hostlist_check(const char *hosts, size_t *count, errmsg_t *err)
{
    struct parser p = {.text = hosts};
    uint64_t total;

    if (parse_list(&p, hosts, &total) < 0)
        return fail(&p, errno, err);
    *count = (size_t)total;
    return 0;
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
