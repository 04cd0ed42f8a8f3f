/* topology_file.c - trees from a file.
 *
 * Format, one line for each rank that has children:
 *     line   = [ parent ":" idset ] [ "#" comment ]        blanks around the parts are ignored
 *     parent = rank in decimal
 * Lines end with LF or CR LF; the last LF may be missing.
 *
 * A text is a tree over 0..N-1 if these conditions hold:
 *  1. Every rank that it names is below N, and no rank is the parent in two lines.
 *  2. Rank 0 has no parent, and each other rank has exactly one.
 *  3. A walk from rank 0 meets N ranks (otherwise some ranks form a cycle apart from the root).
 *
 * The walk is a loop, so no tree can exhaust the stack.  The size of an idset is checked before any
 * work of that size is done.
 *
 * Failure: EINVAL and an error message that names the source, the line and the rank.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strutil.h"
#include "topology_private.h"

struct parser {
    const char *name; /* for error messages */
    unsigned line;    /* current line, from 1 */
    uint32_t size;
    struct tree *tree;
    uint32_t *parent_line; /* line in which a rank is a parent; 0: none yet */
    uint32_t *child_line;  /* line in which a rank is a child; 0: none yet */
    errmsg_t *err;
};

#define BAD(p, fmt, ...)                                                                    \
    errmsg_fail((p)->err, EINVAL, "topology \"%.80s\" line %u: " fmt, (p)->name, (p)->line, \
                __VA_ARGS__)

void topology_tree_destroy(struct tree *tree)
{
    int saved = errno;

    if (tree) {
        free(tree->parent);
        free(tree->first);
        free(tree->child);
        free(tree->depth);
        free(tree->pre);
        free(tree->count);
        free(tree->order);
        free(tree);
    }
    errno = saved;
}

static struct tree *tree_alloc(uint32_t size)
{
    struct tree *tree = calloc(1, sizeof(*tree));

    if (!tree)
        return NULL;
    tree->parent = calloc(size, sizeof(uint32_t));
    tree->first = calloc((size_t)size + 1, sizeof(uint32_t));
    tree->child = calloc(size, sizeof(uint32_t));
    tree->depth = calloc(size, sizeof(uint32_t));
    tree->pre = calloc(size, sizeof(uint32_t));
    tree->count = calloc(size, sizeof(uint32_t));
    tree->order = calloc(size, sizeof(uint32_t));
    if (!tree->parent || !tree->first || !tree->child || !tree->depth || !tree->pre ||
        !tree->count || !tree->order) {
        topology_tree_destroy(tree);
        return NULL;
    }
    return tree;
}

/* Cut blanks off both ends, in place. */
static char *trim(char *s)
{
    char *end;

    s += strspn(s, " \t\r");
    end = s + strlen(s);
    while (end > s && strchr(" \t\r", end[-1]))
        end--;
    *end = '\0';
    return s;
}

static int add_children(struct parser *p, uint32_t parent, const idset_t *children)
{
    uint32_t id;

    if (idset_empty(children))
        return BAD(p, "rank %u has no children; leave the line out", parent);
    if (idset_last(children) >= p->size)
        return BAD(p, "child %u is not a rank; ranks are 0 to %u", idset_last(children),
                   p->size - 1);
    for (id = idset_first(children); id != IDSET_NONE; id = idset_next(children, id)) {
        if (id == 0)
            return BAD(p, "rank 0 is the root and cannot be a child (of rank %u)", parent);
        if (id == parent)
            return BAD(p, "rank %u is its own child", id);
        if (p->child_line[id])
            return BAD(p, "rank %u is a child already (of rank %u, line %u)", id,
                       p->tree->parent[id], p->child_line[id]);
        p->tree->parent[id] = parent;
        p->child_line[id] = p->line;
    }
    return 0;
}

static int parse_line(struct parser *p, char *line)
{
    char *comment = strchr(line, '#');
    char *colon;
    char *key;
    uint32_t parent;
    idset_t *children;
    errmsg_t why;
    int rc;

    if (comment)
        *comment = '\0';
    line = trim(line);
    if (*line == '\0')
        return 0;
    colon = strchr(line, ':');
    if (!colon)
        return BAD(p, "no ':' in \"%.40s\"; write \"PARENT: CHILDREN\", like \"0: 1-3\"", line);
    *colon = '\0';
    key = trim(line);
    if (str2u32(key, &parent) < 0)
        return BAD(p, "the parent \"%.40s\" is not a number", key);
    if (parent >= p->size)
        return BAD(p, "parent %u is not a rank; ranks are 0 to %u", parent, p->size - 1);
    if (p->parent_line[parent])
        return BAD(p, "rank %u has a line already (%u); put its children together", parent,
                   p->parent_line[parent]);
    p->parent_line[parent] = p->line;
    children = idset_parse(trim(colon + 1), &why);
    if (!children)
        return errmsg_fail(p->err, errno, "topology \"%.80s\" line %u: %s", p->name, p->line,
                           why.text);
    rc = add_children(p, parent, children);
    idset_destroy(children);
    return rc;
}

static int parse_lines(struct parser *p, const char *text, size_t len)
{
    while (len > 0) {
        const char *nl = memchr(text, '\n', len);
        size_t n = nl ? (size_t)(nl - text) : len;
        char *line;
        int rc;

        p->line++;
        if (memchr(text, '\0', n))
            return BAD(p, "there is a NUL byte in the %s", "text");
        line = strndup(text, n);
        if (!line)
            return errmsg_fail(p->err, ENOMEM, "topology \"%.80s\": out of memory", p->name);
        rc = parse_line(p, line);
        free(line);
        if (rc < 0)
            return -1;
        if (nl)
            n++;
        text += n;
        len -= n;
    }
    return 0;
}

/* Compute the lists of children from the parents; they are ascending, because ranks are visited in
 * order. */
static void link_children(struct tree *tree, uint32_t size)
{
    for (uint32_t r = 1; r < size; r++)
        tree->first[tree->parent[r] + 1]++;
    for (uint32_t r = 0; r < size; r++)
        tree->first[r + 1] += tree->first[r];
    /* `count` serves as the fill level here; walk() computes its real value. */
    for (uint32_t r = 1; r < size; r++) {
        uint32_t up = tree->parent[r];

        tree->child[tree->first[up] + tree->count[up]++] = r;
    }
}

/* Preorder walk from the root; returns the number of visited ranks. */
static uint32_t walk(struct tree *tree, uint32_t size)
{
    uint32_t n = 0;
    uint32_t r = 0;

    /* At first, order[] serves as the work list, too: the stack in its upper end never reaches the
     * lower end, as each rank is on at most one of them. */
    uint32_t top = size;

    tree->order[--top] = 0;
    while (top < size) {
        r = tree->order[top++];
        tree->pre[r] = n;
        tree->order[n++] = r;
        for (uint32_t i = tree->first[r + 1]; i > tree->first[r]; i--) {
            uint32_t c = tree->child[i - 1];

            tree->depth[c] = tree->depth[r] + 1;
            if (tree->depth[c] > tree->max_depth)
                tree->max_depth = tree->depth[c];
            tree->order[--top] = c;
        }
    }
    for (r = 0; r < size; r++)
        tree->count[r] = 1;
    for (uint32_t i = n; i > 1; i--) {
        r = tree->order[i - 1];
        tree->count[tree->parent[r]] += tree->count[r];
    }
    return n;
}

static int build(struct parser *p)
{
    struct tree *tree = p->tree;
    uint32_t r;

    for (r = 1; r < p->size; r++) {
        if (!p->child_line[r])
            return errmsg_fail(
                p->err, EINVAL,
                "topology \"%.80s\": rank %u has no parent by line %u, the last one; "
                "ranks 1 to %u must all be children",
                p->name, r, p->line, p->size - 1);
    }
    link_children(tree, p->size);
    if (walk(tree, p->size) == p->size)
        return 0;
    for (r = 1; r < p->size && tree->depth[r] > 0; r++)
        ;
    p->line = p->child_line[r];
    return BAD(p, "rank %u is not below rank 0: its parents form a cycle", r);
}

struct tree *topology_tree_create(const uint32_t *parent, uint32_t size)
{
    struct tree *tree = tree_alloc(size);

    if (!tree)
        return NULL;
    memcpy(tree->parent, parent, size * sizeof(*parent));
    tree->parent[0] = TOPOLOGY_NONE;
    link_children(tree, size);
    if (walk(tree, size) == size)
        return tree;
    topology_tree_destroy(tree);
    errno = EINVAL;
    return NULL;
}

struct tree *topology_tree_parse(const char *text, size_t len, const char *name, uint32_t size,
                                 errmsg_t *err)
{
    struct parser p = {.name = name, .size = size, .err = err};
    int rc;
    int saved;

    p.tree = tree_alloc(size);
    p.parent_line = calloc(size, sizeof(uint32_t));
    p.child_line = calloc(size, sizeof(uint32_t));
    if (!p.tree || !p.parent_line || !p.child_line) {
        rc = errmsg_fail(err, ENOMEM, "topology \"%.80s\": out of memory", name);
    } else {
        p.tree->parent[0] = TOPOLOGY_NONE;
        rc = parse_lines(&p, text, len);
        if (rc == 0)
            rc = build(&p);
    }
    saved = errno;
    free(p.parent_line);
    free(p.child_line);
    if (rc < 0) {
        topology_tree_destroy(p.tree);
        p.tree = NULL;
    }
    errno = saved;
    return p.tree;
}
