/* reshwloc_check.c - check the XML of hwloc before hwloc parses it (see the header).
 *
 * The parser recognizes elements <name attribute="value"...>, </name>, <name/>, and what begins
 * with <? or <!. Text between elements is skipped.
 *
 *    rule                                                                 why
 *    elements close in order, at most DEPTH_MAX deep; the outermost is    hwloc's reader stops in
 *    <topology version="2...">                                            the middle of others
 *    objects only in the topology or in objects; one below the            the tree has one root
 *    topology, a Machine
 *    an object has a type that hwloc 2 writes, and a gp_index             hwloc looks them up
 *                                                                         unchecked
 *    an object with CPUs has the four bitmaps, of the form 0x1f,,0x3,     hwloc joins and sorts
 *    each within that of its parent, which has CPUs, too                  them unchecked
 *    an index has at most INDEX_MAX_DIGITS digits                         it sizes arrays
 *
 * Failure: EINVAL with line and reason.
 */
#include <errno.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "reshwloc_check.h"

#define DEPTH_MAX 64
#define INDEX_MAX_DIGITS 6
#define BITMAP_MAX 4096 /* characters */
#define NAME_MAX_LEN 40
#define ATTRIBUTES_MAX 64

struct span {
    const char *s;
    size_t len;
};

struct attribute {
    struct span name;
    struct span value;
};

struct element {
    struct span name;
    struct attribute list[ATTRIBUTES_MAX];
    size_t n;
    bool closes; /* </name> */
    bool empty;  /* <name/> */
};

/* Sets of CPUs and of NUMA nodes, in the order of set_names. */
enum { NSETS = 4 };
static const char *const set_names[NSETS] = {"cpuset", "complete_cpuset", "nodeset",
                                             "complete_nodeset"};
struct sets {
    hwloc_bitmap_t of[NSETS]; /* NULL: the object has no such set */
};

struct open {
    struct span name;
    bool is_object;
    struct sets sets;
};

struct reader {
    const char *s;
    const char *end;
    const char *begin;
    struct open open[DEPTH_MAX];
    size_t depth;
    bool root_seen; /* the object below the topology */
    bool over;      /* the topology is closed */
    errmsg_t *err;
};

static bool is(struct span a, const char *text)
{
    return a.len == strlen(text) && memcmp(a.s, text, a.len) == 0;
}

static int bad(const struct reader *r, const char *why)
{
    unsigned line = 1;

    for (const char *p = r->begin; p < r->s && p < r->end; p++)
        line += *p == '\n';
    return errmsg_fail(r->err, EINVAL, "line %u of the XML: %s", line, why);
}

/* --- tokens --- */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct span take_name(struct reader *r)
{
    struct span a = {r->s, 0};

    while (r->s < r->end && name_char(*r->s))
        r->s++;
    a.len = (size_t)(r->s - a.s);
    return a;
}

static void skip_blanks(struct reader *r)
{
    while (r->s < r->end && (*r->s == ' ' || *r->s == '\n' || *r->s == '\t' || *r->s == '\r'))
        r->s++;
}

static int take_attribute(struct reader *r, struct element *e)
{
    struct attribute a;
    const char *q;

    a.name = take_name(r);
    if (a.name.len == 0 || a.name.len > NAME_MAX_LEN)
        return bad(r, "an attribute has no name");
    if (r->end - r->s < 2 || r->s[0] != '=' || r->s[1] != '"')
        return bad(r, "an attribute has no value in quotes");
    r->s += 2;
    if (!(q = memchr(r->s, '"', (size_t)(r->end - r->s))))
        return bad(r, "a value has no end");
    a.value = (struct span){r->s, (size_t)(q - r->s)};
    if (memchr(a.value.s, '<', a.value.len) || memchr(a.value.s, '>', a.value.len))
        return bad(r, "a value contains < or >");
    r->s = q + 1;
    for (size_t i = 0; i < e->n; i++) {
        if (e->list[i].name.len == a.name.len &&
            memcmp(e->list[i].name.s, a.name.s, a.name.len) == 0)
            return bad(r, "an attribute occurs twice");
    }
    if (e->n >= ATTRIBUTES_MAX)
        return bad(r, "an element has too many attributes");
    e->list[e->n++] = a;
    return 0;
}

/* Read an element after its '<'. */
static int take_element(struct reader *r, struct element *e)
{
    e->n = 0;
    e->empty = false;
    e->closes = r->s < r->end && *r->s == '/';
    r->s += e->closes;
    e->name = take_name(r);
    if (e->name.len == 0 || e->name.len > NAME_MAX_LEN)
        return bad(r, "an element has no name");
    for (;;) {
        const char *before = r->s;

        skip_blanks(r);
        if (r->s >= r->end)
            return bad(r, "an element has no end");
        if (*r->s == '>') {
            r->s++;
            return 0;
        }
        if (!e->closes && *r->s == '/' && r->end - r->s > 1 && r->s[1] == '>') {
            r->s += 2;
            e->empty = true;
            return 0;
        }
        if (e->closes || r->s == before)
            return bad(r, "an element is malformed");
        if (take_attribute(r, e) < 0)
            return -1;
    }
}

/* --- rules --- */

static const struct span *value_of(const struct element *e, const char *name)
{
    for (size_t i = 0; i < e->n; i++) {
        if (is(e->list[i].name, name))
            return &e->list[i].value;
    }
    return NULL;
}

static bool is_number(const struct span *v)
{
    if (v->len == 0 || v->len > INDEX_MAX_DIGITS)
        return false;
    for (size_t i = 0; i < v->len; i++) {
        if (v->s[i] < '0' || v->s[i] > '9')
            return false;
    }
    return true;
}

/* 0x1,0x00000003, with at most eight digits each.  A place between two others may be empty. */
static bool is_bitmap(const struct span *v)
{
    size_t i = 0;

    if (v->len == 0 || v->len > BITMAP_MAX || v->s[0] == ',' || v->s[v->len - 1] == ',')
        return false;
    while (i < v->len) {
        size_t digits = 0;

        if (v->s[i] == ',') {
            i++;
            continue;
        }
        if (v->len - i < 3 || v->s[i] != '0' || v->s[i + 1] != 'x')
            return false;
        for (i += 2; i < v->len && v->s[i] != ','; i++, digits++) {
            char c = v->s[i];

            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) || digits >= 8)
                return false;
        }
        if (digits == 0)
            return false;
    }
    return true;
}

static bool names_bitmap(struct span name)
{
    static const char end[] = "set";
    size_t n = sizeof(end) - 1;

    return name.len > n && memcmp(name.s + name.len - n, end, n) == 0;
}

static bool has_cpus(struct span type)
{
    static const char *const types[] = {"Machine",  "Package",  "Die",      "Core",     "PU",
                                        "Group",    "L1Cache",  "L2Cache",  "L3Cache",  "L4Cache",
                                        "L5Cache",  "L1iCache", "L2iCache", "L3iCache", "NUMANode",
                                        "MemCache", NULL};

    for (size_t i = 0; types[i]; i++) {
        if (is(type, types[i]))
            return true;
    }
    return false;
}

static bool is_device(struct span type)
{
    return is(type, "Bridge") || is(type, "PCIDev") || is(type, "OSDev") || is(type, "Misc");
}

static void sets_clear(struct sets *sets)
{
    for (size_t i = 0; i < NSETS; i++)
        hwloc_bitmap_free(sets->of[i]);
    *sets = (struct sets){0};
}

static int parse_set(struct reader *r, const struct span *v, hwloc_bitmap_t *set)
{
    char *text = strndup(v->s, v->len);
    int rc = -1;

    if (!text || !(*set = hwloc_bitmap_alloc()))
        errmsg_fail(r->err, ENOMEM, "out of memory while reading XML");
    else if (hwloc_bitmap_sscanf(*set, text) < 0)
        bad(r, "a set of CPUs or nodes is malformed");
    else
        rc = 0;
    free(text);
    return rc;
}

/* Read the sets of an object into `sets`, and compare them with those of its parent. */
static int check_sets(struct reader *r, const struct element *e, struct sets *sets)
{
    const struct open *in = &r->open[r->depth - 1];
    const struct span *v;

    for (size_t i = 0; i < NSETS; i++) {
        if (!(v = value_of(e, set_names[i])))
            return bad(r, "an object lacks some of its sets of CPUs and nodes");
        if (parse_set(r, v, &sets->of[i]) < 0)
            return -1;
        if (!in->is_object)
            continue;
        if (!in->sets.of[i])
            return bad(r, "an object with CPUs is inside a device");
        if (!hwloc_bitmap_isincluded(sets->of[i], in->sets.of[i]))
            return bad(r, "an object has CPUs or nodes that its parent does not have");
    }
    return 0;
}

static int check_object(struct reader *r, const struct element *e, struct sets *sets)
{
    const struct span *type = value_of(e, "type"), *v;

    if (!type || (!has_cpus(*type) && !is_device(*type)))
        return bad(r, "an object has a type that hwloc 2 does not write");
    if (!(v = value_of(e, "gp_index")) || !is_number(v))
        return bad(r, "an object has no gp_index");
    for (size_t i = 0; i < e->n; i++) {
        if (names_bitmap(e->list[i].name) && !is_bitmap(&e->list[i].value))
            return bad(r, "a set of CPUs or nodes is malformed");
    }
    if ((v = value_of(e, "os_index")) && !is_number(v))
        return bad(r, "an os_index is not a number, or too large");
    if (has_cpus(*type) && check_sets(r, e, sets) < 0)
        return -1;
    if ((is(*type, "PU") || is(*type, "NUMANode")) && !value_of(e, "os_index"))
        return bad(r, "a processing unit or NUMA node has no os_index");
    if (r->depth == 1) {
        if (r->root_seen || !is(*type, "Machine"))
            return bad(r, "the topology must contain exactly one object, a Machine");
        r->root_seen = true;
    }
    return 0;
}

static int opened(struct reader *r, const struct element *e)
{
    bool object = is(e->name, "object");
    struct sets sets = {0};
    const struct span *v;

    if (r->depth == 0) {
        if (r->over || !is(e->name, "topology"))
            return bad(r, "this is not a topology");
        if (!(v = value_of(e, "version")) || v->len < 2 || v->s[0] != '2' || v->s[1] != '.')
            return bad(r, "the topology is not of version 2 of hwloc");
    } else if (object) {
        if (r->depth > 1 && !r->open[r->depth - 1].is_object)
            return bad(r, "the parent of an object is not an object");
        if (check_object(r, e, &sets) < 0) {
            sets_clear(&sets);
            return -1;
        }
    }
    if (e->empty) {
        sets_clear(&sets);
        r->over |= r->depth == 0;
        return 0;
    }
    if (r->depth == DEPTH_MAX) {
        sets_clear(&sets);
        return bad(r, "elements are nested too deeply");
    }
    r->open[r->depth++] = (struct open){e->name, object, sets};
    return 0;
}

static int closed(struct reader *r, const struct element *e)
{
    const struct span *name;

    if (r->depth == 0)
        return bad(r, "an element is closed without having been opened");
    name = &r->open[r->depth - 1].name;
    if (name->len != e->name.len || memcmp(name->s, e->name.s, name->len) != 0)
        return bad(r, "elements are not closed in the reverse order of opening");
    sets_clear(&r->open[--r->depth].sets);
    r->over |= r->depth == 0;
    return 0;
}

int reshwloc_check(const char *xml, size_t len, errmsg_t *err)
{
    struct reader r = {.s = xml, .begin = xml, .end = xml + len, .err = err};
    struct element *e = malloc(sizeof(*e));
    int rc = 0;

    if (!e)
        return errmsg_fail(err, ENOMEM, "out of memory while reading XML");
    if (memchr(xml, '\0', len))
        rc = bad(&r, "it contains NUL bytes");
    while (rc == 0 && (r.s = memchr(r.s, '<', (size_t)(r.end - r.s)))) {
        r.s++;
        if (r.s < r.end && (*r.s == '?' || *r.s == '!')) {
            if (r.depth > 0)
                rc = bad(&r, "it contains <? or <! after the beginning");
            else if (!(r.s = memchr(r.s, '>', (size_t)(r.end - r.s))))
                break;
            continue;
        }
        if ((rc = take_element(&r, e)) == 0)
            rc = e->closes ? closed(&r, e) : opened(&r, e);
    }
    if (rc == 0 && (!r.over || !r.root_seen)) {
        r.s = r.end;
        rc = bad(&r, "it ends too early");
    }
    while (r.depth > 0)
        sets_clear(&r.open[--r.depth].sets);
    free(e);
    return rc;
}
