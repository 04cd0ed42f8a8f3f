/* fattree_conf.c - a tree of switches from Slurm's topology.conf.
 *
 * Format (topology.conf(5)), one switch per line:
 *     line    = { word } [ "#" comment ]        blanks separate words
 *     word    = keyword "=" value               keywords in any case, each at most once
 *     keyword = SwitchName | Nodes | Switches | LinkSpeed
 * '\' at the end of a line joins the next line to it.  Nodes and Switches are hostlists; a line has
 * one of the two.  Lines end with LF or CR LF.
 *
 * Steps: lines are read (the lists of children stay text); switches are joined to their parents;
 * one walk from the root numbers leaves, nodes and pods.
 *
 * Invariants of an accepted file:
 *  1. Exactly one switch has no parent, and the walk from it meets every switch (so there is no
 *     cycle).
 *  2. No switch or node has two parents, or appears twice below one.  Each leaf has a node, every
 *     other switch a child.
 *  3. There are at most FATTREE_NODES_MAX nodes and as many switches.  Sizes of hostlists are
 *     checked before the lists are expanded.  The walk is a loop: no tree can exhaust the stack.
 *
 * Failure: EINVAL and an error message that names the file, the line and the switch or node.
 */
#include "config.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fattree_private.h"
#include "libidset/hostlist.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"

#define FILE_MAX_BYTES ((size_t)64 << 20)
#define NAME_MAX_BYTES 256

struct sw {
    char *name;
    char *below; /* hostlist */
    bool leaf;
    unsigned line;
    uint64_t speed;
    uint32_t parent;                        /* index, FATTREE_NONE: none yet */
    uint32_t first_child, last_child, next; /* indexes, FATTREE_NONE */
    uint32_t number;                        /* number in the walk */
    bool met;                               /* the walk has visited it */
};

struct parser {
    const char *file;
    unsigned line; /* at which a joined line begins */
    struct sw *sw;
    uint32_t nsw, room;
    hmap_t *by_name;  /* switch name -> index + 1 */
    uint32_t current; /* the switch whose list is walked */
    uint64_t nnodes;  /* announced by the lists so far */
    fattree_t *t;
    errmsg_t *err;
};

static int bad(struct parser *p, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int bad(struct parser *p, unsigned line, const char *fmt, ...)
{
    errmsg_t what;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what.text, sizeof(what.text), fmt, ap);
    va_end(ap);
    return errmsg_fail(p->err, EINVAL, "%.100s line %u: %.140s", p->file, line, what.text);
}

static int no_memory(struct parser *p)
{
    return errmsg_fail(p->err, ENOMEM, "%.100s: out of memory for the tree of switches", p->file);
}

/* --- lines --- */

struct words {
    char *name, *nodes, *switches, *speed;
};

static int keep_word(struct parser *p, struct words *w, char *word)
{
    static const struct {
        const char *key;
        size_t offset;
    } keys[] = {
        {"SwitchName", offsetof(struct words, name)},
        {"Nodes", offsetof(struct words, nodes)},
        {"Switches", offsetof(struct words, switches)},
        {"LinkSpeed", offsetof(struct words, speed)},
    };
    char *value = strchr(word, '=');

    if (!value)
        return bad(p, p->line, "'%.60s' is not KEYWORD=VALUE", word);
    *value++ = '\0';
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char **slot = (char **)(void *)((char *)w + keys[i].offset);

        if (strcasecmp(word, keys[i].key) != 0)
            continue;
        if (*slot)
            return bad(p, p->line, "%s occurs twice", keys[i].key);
        if (*value == '\0')
            return bad(p, p->line, "%s has no value", keys[i].key);
        *slot = value;
        return 0;
    }
    return bad(p, p->line,
               "'%.60s' is not a keyword: SwitchName, Nodes, Switches and LinkSpeed are", word);
}

static int add_switch(struct parser *p, const struct words *w)
{
    struct sw *s;

    if (p->nsw == p->room) {
        uint32_t room = p->room ? 2 * p->room : 64;
        struct sw *more = p->nsw < FATTREE_NODES_MAX ? realloc(p->sw, room * sizeof(*more)) : NULL;

        if (!more)
            return p->nsw < FATTREE_NODES_MAX
                       ? no_memory(p)
                       : bad(p, p->line, "there are more than %u switches", FATTREE_NODES_MAX);
        p->sw = more;
        p->room = room;
    }
    s = &p->sw[p->nsw];
    *s = (struct sw){.leaf = w->nodes != NULL,
                     .line = p->line,
                     .parent = FATTREE_NONE,
                     .first_child = FATTREE_NONE,
                     .last_child = FATTREE_NONE,
                     .next = FATTREE_NONE};
    if (w->speed && str2u64(w->speed, &s->speed) < 0)
        return bad(p, p->line, "LinkSpeed '%.60s' is not a number", w->speed);
    s->name = strdup(w->name);
    s->below = strdup(w->nodes ? w->nodes : w->switches);
    p->nsw++;
    if (!s->name || !s->below)
        return no_memory(p);
    if (hmap_get(p->by_name, s->name))
        return bad(p, p->line, "switch %.60s is described in line %u already", s->name,
                   p->sw[(uintptr_t)hmap_get(p->by_name, s->name) - 1].line);
    if (hmap_put(p->by_name, s->name, (void *)((uintptr_t)p->nsw)) < 0)
        return no_memory(p);
    return 0;
}

static int take_line(struct parser *p, char *text)
{
    struct words w = {0};
    char *save = NULL;

    text[strcspn(text, "#")] = '\0';
    for (char *word = strtok_r(text, " \t\r\v\f", &save); word;
         word = strtok_r(NULL, " \t\r\v\f", &save)) {
        if (keep_word(p, &w, word) < 0)
            return -1;
    }
    if (!w.name && !w.nodes && !w.switches && !w.speed)
        return 0;
    if (!w.name)
        return bad(p, p->line, "there is no SwitchName");
    if (strlen(w.name) >= NAME_MAX_BYTES || strpbrk(w.name, "[],"))
        return bad(p, p->line, "'%.60s' is not the name of one switch", w.name);
    if (!w.nodes == !w.switches)
        return bad(p, p->line, "switch %.60s has %s Nodes %s Switches: it takes one of them",
                   w.name, w.nodes ? "both" : "neither", w.nodes ? "and" : "nor");
    return add_switch(p, &w);
}

/* Lines that '\' joins are one. */
static int take_lines(struct parser *p, char *text, size_t len)
{
    unsigned line = 1;
    char *from = text;
    char *to = text; /* joined lines are copied to this place, never behind the read position */
    char *joined = text;

    p->line = 1;
    for (char *end = text + len; from < end;) {
        char *lf = memchr(from, '\n', (size_t)(end - from));
        size_t n = lf ? (size_t)(lf - from) : (size_t)(end - from);
        size_t next = n + (lf ? 1 : 0);
        bool more;

        if (n > 0 && from[n - 1] == '\r')
            n--;
        more = n > 0 && from[n - 1] == '\\';
        n -= more;
        memmove(to, from, n);
        to += n;
        from += next;
        line++;
        if (more) {
            /* A blank replaces the backslash, so that the joined words stay apart. */
            *to++ = ' ';
            if (from < end)
                continue;
        }
        /* There is room for the NUL: the LF's place, or the byte behind the text. */
        *to = '\0';
        if (take_line(p, joined) < 0)
            return -1;
        to = joined = from;
        p->line = line;
    }
    return p->nsw > 0 ? 0
                      : errmsg_fail(p->err, EINVAL, "%.100s: there is no switch in it", p->file);
}

/* --- the tree --- */

static int join(const char *name, void *arg)
{
    struct parser *p = arg;
    struct sw *s = &p->sw[p->current];
    uint32_t i = (uint32_t)(uintptr_t)hmap_get(p->by_name, name);
    struct sw *child;

    if (i-- == 0)
        return bad(p, s->line, "switch %.60s, below %.60s, is not described", name, s->name);
    child = &p->sw[i];
    if (child->parent != FATTREE_NONE)
        return bad(p, s->line, "switch %.60s is below %.60s already", name,
                   p->sw[child->parent].name);
    child->parent = p->current;
    if (s->last_child == FATTREE_NONE)
        s->first_child = i;
    else
        p->sw[s->last_child].next = i;
    s->last_child = i;
    return 0;
}

static int join_all(struct parser *p)
{
    for (p->current = 0; p->current < p->nsw; p->current++) {
        struct sw *s = &p->sw[p->current];
        errmsg_t why = {"it is not a hostlist"};
        size_t count;

        if (hostlist_check(s->below, &count, &why) < 0)
            return bad(p, s->line, "%.120s", why.text);
        if (count == 0)
            return bad(p, s->line, "switch %.60s has nothing below it", s->name);
        if (s->leaf)
            p->nnodes += count;
        if (p->nnodes > FATTREE_NODES_MAX || count > FATTREE_NODES_MAX)
            return bad(p, s->line, "there are more than %u nodes", FATTREE_NODES_MAX);
        if (!s->leaf && count > p->nsw)
            return bad(p, s->line, "switch %.60s has %zu switches below it, and %u are described",
                       s->name, count, p->nsw);
        p->err->text[0] = '\0';
        if (!s->leaf && hostlist_walk(s->below, join, p, &why) < 0)
            return p->err->text[0] ? -1 : bad(p, s->line, "%.120s", why.text);
    }
    return 0;
}

static int find_root(struct parser *p, uint32_t *root)
{
    *root = FATTREE_NONE;
    for (uint32_t i = 0; i < p->nsw; i++) {
        if (p->sw[i].parent != FATTREE_NONE)
            continue;
        if (*root != FATTREE_NONE)
            return bad(p, p->sw[i].line, "switches %.60s and %.60s are both roots: one is needed",
                       p->sw[*root].name, p->sw[i].name);
        *root = i;
    }
    if (*root == FATTREE_NONE)
        return bad(p, p->sw[0].line, "there is no root: switch %.60s is in a cycle", p->sw[0].name);
    return 0;
}

static int add_node(const char *name, void *arg)
{
    struct parser *p = arg;
    fattree_t *t = p->t;
    const struct sw *s = &p->sw[p->current];
    void *there = hmap_get(t->by_name, name);

    if (there) {
        uint32_t leaf = t->leaf_of[(uintptr_t)there - 1];

        return bad(p, s->line, "node %.60s is below %s %.60s already", name,
                   leaf == t->nleaves ? "the same switch" : "switch",
                   leaf == t->nleaves ? s->name : t->leaf_name[leaf]);
    }
    if (!(t->node_name[t->nnodes] = strdup(name)))
        return no_memory(p);
    t->leaf_of[t->nnodes++] = t->nleaves;
    return hmap_put(t->by_name, name, (void *)(uintptr_t)t->nnodes) < 0 ? no_memory(p) : 0;
}

/* Visit one switch of the walk. */
static int visit(struct parser *p, uint32_t i)
{
    fattree_t *t = p->t;
    struct sw *s = &p->sw[i];
    errmsg_t why = {""};
    char *name = strdup(s->name);

    if (!name)
        return no_memory(p);
    s->met = true;
    s->number = t->nsw;
    t->sw[t->nsw] = (struct fattree_switch){
        .name = name,
        .parent = s->parent == FATTREE_NONE ? FATTREE_NONE : p->sw[s->parent].number,
        .leaf = s->leaf ? t->nleaves : FATTREE_NONE,
        .speed = s->speed};
    t->nsw++;
    if (!s->leaf)
        return 0;
    t->leaf_name[t->nleaves] = name;
    t->pod_of[t->nleaves] = s->parent == FATTREE_NONE ? s->number : p->sw[s->parent].number;
    p->current = i;
    p->err->text[0] = '\0';
    if (hostlist_walk(s->below, add_node, p, &why) < 0)
        return p->err->text[0] ? -1 : bad(p, s->line, "%.120s", why.text);
    t->nleaves++;
    return 0;
}

static int walk(struct parser *p, uint32_t root)
{
    fattree_t *t = p->t;
    uint32_t i = root;

    while (i != FATTREE_NONE) {
        if (visit(p, i) < 0)
            return -1;
        if (p->sw[i].first_child != FATTREE_NONE) {
            i = p->sw[i].first_child;
            continue;
        }
        while (i != FATTREE_NONE && p->sw[i].next == FATTREE_NONE)
            i = p->sw[i].parent;
        if (i != FATTREE_NONE)
            i = p->sw[i].next;
    }
    for (uint32_t k = 0; t->nsw < p->nsw && k < p->nsw; k++) {
        if (!p->sw[k].met)
            return bad(p, p->sw[k].line,
                       "switch %.60s is in a cycle: no way leads to it from the "
                       "root",
                       p->sw[k].name);
    }
    return 0;
}

/* Compute levels and numbers of nodes, from the last switch of the walk to the first, so that
 * children precede their parents. */
static void measure_switches(fattree_t *t)
{
    for (uint32_t n = 0; n < t->nsw; n++)
        t->sw[n].nnodes = 0;
    for (uint32_t n = 0, i = 0; n < t->nnodes; n++) {
        while (t->sw[i].leaf != t->leaf_of[n])
            i++;
        t->sw[i].nnodes++;
    }
    for (uint32_t i = t->nsw; i-- > 1;) {
        struct fattree_switch *up = &t->sw[t->sw[i].parent];

        up->nnodes += t->sw[i].nnodes;
        if (up->level <= t->sw[i].level)
            up->level = t->sw[i].level + 1;
    }
}

/* Number the pods in the order of the walk.  On entry, `pods` has for each leaf the number of its
 * parent switch. */
static void number_pods(fattree_t *t, uint32_t *pods)
{
    for (uint32_t l = 0; l < t->nleaves; l++)
        pods[t->pod_of[l]] = 1;
    for (uint32_t i = 0; i < t->nsw; i++) {
        if (pods[i]) {
            t->pod_name[t->npods] = t->sw[i].name;
            pods[i] = t->npods++;
        }
    }
    for (uint32_t l = 0; l < t->nleaves; l++)
        t->pod_of[l] = pods[t->pod_of[l]];
}

static int build(struct parser *p)
{
    fattree_t *t = p->t;
    uint32_t *pods = calloc(p->nsw, sizeof(*pods));
    uint32_t root;
    int rc = -1;

    t->leaf_of = calloc(p->nnodes + 1, sizeof(*t->leaf_of));
    t->node_name = calloc(p->nnodes + 1, sizeof(*t->node_name));
    t->pod_of = calloc(p->nsw, sizeof(*t->pod_of));
    t->leaf_name = calloc(p->nsw, sizeof(*t->leaf_name));
    t->pod_name = calloc(p->nsw, sizeof(*t->pod_name));
    t->sw = calloc(p->nsw, sizeof(*t->sw));
    t->by_name = hmap_create_str(NULL);
    if (!pods || !t->leaf_of || !t->node_name || !t->pod_of || !t->leaf_name || !t->pod_name ||
        !t->sw || !t->by_name)
        no_memory(p);
    else if (find_root(p, &root) == 0 && walk(p, root) == 0) {
        number_pods(t, pods);
        measure_switches(t);
        rc = fattree_measure(t) == 0 ? 0 : no_memory(p);
    }
    free(pods);
    return rc;
}

fattree_t *fattree_parse_conf(const char *text, size_t len, const char *name, errmsg_t *err)
{
    errmsg_t own;
    struct parser p = {.file = name, .err = err ? err : &own};
    char *copy = malloc(len + 2);
    const char *nul = len > 0 ? memchr(text, '\0', len) : NULL;
    int rc = -1;

    p.by_name = hmap_create_str(NULL);
    p.t = calloc(1, sizeof(*p.t));
    if (!copy || !p.by_name || !p.t)
        no_memory(&p);
    else if (nul)
        errmsg_fail(p.err, EINVAL, "%.100s: byte %zu is a NUL: it is not a text", name,
                    (size_t)(nul - text) + 1);
    else {
        if (len > 0)
            memcpy(copy, text, len);
        rc = take_lines(&p, copy, len) == 0 && join_all(&p) == 0 && build(&p) == 0 ? 0 : -1;
    }
    int saved = errno;
    for (uint32_t i = 0; i < p.nsw; i++) {
        free(p.sw[i].name);
        free(p.sw[i].below);
    }
    free(p.sw);
    free(copy);
    hmap_destroy(p.by_name);
    if (rc < 0) {
        fattree_destroy(p.t);
        p.t = NULL;
    }
    errno = saved;
    return p.t;
}

fattree_t *fattree_read_conf(const char *path, errmsg_t *err)
{
    fattree_t *t;
    char *text;
    size_t len;

    if (file_read_all(path, FILE_MAX_BYTES, &text, &len) < 0) {
        errmsg_fail(err, errno, "%.150s cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    t = fattree_parse_conf(text, len, path, err);
    int saved = errno;
    free(text);
    errno = saved;
    return t;
}
