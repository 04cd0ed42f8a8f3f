/* topology_draw.c - a topology as text: for people, for Graphviz, and as a file to read back.
 *
 * The drawing in lines:            The digraph:
 *     0                                digraph topology {
 *     |-- 1                                0 [label="0"];
 *     |   `-- 3                            0 -> 1;
 *     `-- 2                            }
 *
 * Invariants:
 *  1. Ranks are in preorder, children in ascending order.  They are found by parent and child
 *     queries, without recursion, so the text is the only memory, however deep the tree is.
 *  2. A label cannot break the drawing: control characters become '?', and quotation marks and
 *     backslashes are escaped in the digraph.
 *
 * Failure: ENOMEM, or E2BIG when the indentation makes the text larger than MAX_TEXT.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/strbuf.h"
#include "topology_private.h"

#define MAX_TEXT ((size_t)64 << 20)
#define INDENT 4

static void get_label(topology_label_f label_fn, void *arg, uint32_t rank, char *buf, size_t size)
{
    buf[0] = '\0';
    if (label_fn)
        label_fn(rank, buf, size, arg);
    else
        snprintf(buf, size, "%u", rank);
    buf[size - 1] = '\0';
    for (char *p = buf; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
}

/* Is `rank` the last child of its parent? */
static bool is_last(const topology_t *t, uint32_t rank)
{
    uint32_t parent = topology_parent(t, rank);

    return topology_child_at(t, parent, topology_nchildren(t, parent) - 1) == rank;
}

/* Number of `rank` among the children of its parent. */
static uint32_t child_index(const topology_t *t, uint32_t rank)
{
    uint32_t parent = topology_parent(t, rank);
    uint32_t lo = 0;
    uint32_t hi = topology_nchildren(t, parent);

    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (topology_child_at(t, parent, mid) <= rank)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* `indent` has the text left of the children of the ranks on the current path: INDENT bytes per
 * level. */
static char *format_tree(const topology_t *t, topology_label_f label_fn, void *arg)
{
    strbuf_t *out = strbuf_create(MAX_TEXT);
    strbuf_t *indent = strbuf_create(MAX_TEXT);
    char label[256];
    uint32_t rank = 0;
    int rc = 0;

    while (rc == 0 && rank != TOPOLOGY_NONE) {
        get_label(label_fn, arg, rank, label, sizeof(label));
        rc |= strbuf_addn(out, strbuf_str(indent), strbuf_len(indent));
        if (rank > 0)
            rc |= strbuf_add(out, is_last(t, rank) ? "`-- " : "|-- ");
        rc |= strbuf_addf(out, "%s\n", label);
        if (topology_nchildren(t, rank) > 0) {
            if (rank > 0)
                rc |= strbuf_add(indent, is_last(t, rank) ? "    " : "|   ");
            rank = topology_child_at(t, rank, 0);
            continue;
        }
        while (rank > 0 && is_last(t, rank)) {
            rank = topology_parent(t, rank);
            if (rank > 0)
                strbuf_trunc(indent, strbuf_len(indent) - INDENT);
        }
        rank = rank == 0 ? TOPOLOGY_NONE
                         : topology_child_at(t, topology_parent(t, rank), child_index(t, rank) + 1);
    }
    strbuf_destroy(indent);
    if (rc < 0) {
        strbuf_destroy(out);
        return NULL;
    }
    return strbuf_take(out);
}

char *topology_format_tree(const topology_t *t, topology_label_f label_fn, void *arg)
{
    topology_t *solid = t->base ? topology_solid(t) : NULL;
    char *text = t->base && !solid ? NULL : format_tree(solid ? solid : t, label_fn, arg);

    topology_destroy(solid);
    return text;
}

char *topology_format_dot(const topology_t *t, topology_label_f label_fn, void *arg)
{
    strbuf_t *out = strbuf_create(MAX_TEXT);
    char label[256];
    int rc = strbuf_add(out, "digraph topology {\n    node [shape=box];\n");

    for (uint32_t r = 0; rc == 0 && r < topology_size(t); r++) {
        get_label(label_fn, arg, r, label, sizeof(label));
        rc |= strbuf_addf(out, "    %u [label=\"", r);
        for (const char *p = label; *p; p++) {
            if (*p == '"' || *p == '\\')
                rc |= strbuf_addc(out, '\\');
            rc |= strbuf_addc(out, *p);
        }
        rc |= strbuf_add(out, "\"];\n");
    }
    for (uint32_t r = 1; rc == 0 && r < topology_size(t); r++)
        rc = strbuf_addf(out, "    %u -> %u;\n", topology_parent(t, r), r);
    strbuf_add(out, "}\n");
    return strbuf_take(out);
}

static char *format_file(const topology_t *t)
{
    strbuf_t *out = strbuf_create(MAX_TEXT);
    int rc = 0;

    for (uint32_t r = 0; rc == 0 && r < topology_size(t); r++) {
        idset_t *ids;
        char *s;

        if (topology_nchildren(t, r) == 0)
            continue;
        ids = topology_children(t, r);
        s = ids ? idset_format(ids, 0) : NULL;
        rc = s ? strbuf_addf(out, "%u: %s\n", r, s) : -1;
        free(s);
        idset_destroy(ids);
    }
    if (rc < 0) {
        strbuf_destroy(out);
        return NULL;
    }
    return strbuf_take(out);
}

char *topology_format_file(const topology_t *t)
{
    topology_t *solid = t->base ? topology_solid(t) : NULL;
    char *text = t->base && !solid ? NULL : format_file(solid ? solid : t);

    topology_destroy(solid);
    return text;
}
