/* Shape of the tree that joins ranks 0..N-1 (rank 0 is the root), and the ring through them.
 *
 * Shapes (`spec`):
 *   kary:K     every rank has at most K >= 1 children, filled level by level
 *   binary     kary:2
 *   chain      kary:1
 *   flat       all ranks are children of rank 0
 *   file:PATH  a tree from a file; a spec with '/' or the name of an existing file means the same
 *
 * The file has one line "PARENT: CHILDREN" for every rank with children, children as an idset:
 *     # two switches
 *     0: 1,5
 *     1: 2-4
 *     5: 6-8
 * '#' starts a comment, blank lines are skipped, lines come in any order, a parent has one line.
 * Ranks 1..N-1 must each occur exactly once as a child and be reachable from rank 0.
 *
 * A topology does not change once created, and any number of threads may use it; only those of
 * topology_create_over() change, and belong to one thread.  Regular shapes take constant memory,
 * trees from a file about 28 bytes a rank, moves about 32 bytes each.  A rank outside 0..N-1 is
 * answered with TOPOLOGY_NONE, 0, false or NULL/EINVAL.
 */
#ifndef TOPOLOGY_TOPOLOGY_H
#define TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libidset/idset.h"
#include "libutil/errmsg.h"

#define TOPOLOGY_NONE 0xffffffffU
#define TOPOLOGY_MAX_SIZE (1U << 24) /* most ranks a tree may have */

typedef struct topology topology_t;

/* Create from a spec as above.  NULL with EINVAL (bad spec, size or file), ENOENT and the like
 * (file cannot be read), EFBIG (file above 64 MiB) or ENOMEM, and an error message in `err`, which
 * may be NULL; it names the line when a file is at fault. */
topology_t *topology_create(const char *spec, uint32_t size, errmsg_t *err);

/* Create from the text of such a file, `name` is its source, for error messages.
 */
topology_t *topology_create_text(const char *text, size_t len, const char *name, uint32_t size,
                                 errmsg_t *err);

/* Create the same tree as `base`, which must live longer, and must not change; ranks of the new one
 * can be moved.  With M moved ranks, "constant time" below is O(M) for children, and
 * the time of a subtree is O(M depth).  NULL with ENOMEM. */
topology_t *topology_create_over(const topology_t *base);
/* Move a rank, with all below it, below another parent: O(M + depth).  Returns -1 with ENOMEM, or
 * with EINVAL: a rank does not exist, `rank` is the root, or `parent` is below it; then nothing has
 * changed. */
int topology_move(topology_t *t, uint32_t rank, uint32_t parent);
/* Number of ranks with another parent than in the base. */
size_t topology_nmoved(const topology_t *t);
void topology_destroy(topology_t *t); /* NULL-safe, keeps errno */

/* The canonical spec: "kary:K", "flat", "chain", "binary" or "file:PATH"; owned by `t`. */
const char *topology_spec(const topology_t *t);

/* Number of ranks. */
uint32_t topology_size(const topology_t *t);

/* Parent, TOPOLOGY_NONE for the root.  Constant time. */
uint32_t topology_parent(const topology_t *t, uint32_t rank);

/* Number of children, and child number i (from 0) in ascending order of ranks, TOPOLOGY_NONE when
 * there is none.  Constant time. */
uint32_t topology_nchildren(const topology_t *t, uint32_t rank);
uint32_t topology_child_at(const topology_t *t, uint32_t rank, uint32_t i);

/* The children as a set the caller destroys.  NULL with EINVAL or ENOMEM. */
idset_t *topology_children(const topology_t *t, uint32_t rank);

/* Hops from the root to `rank`, and the largest of these.  At most O(depth); the largest one of a
 * tree with moved ranks, O(N). */
uint32_t topology_depth(const topology_t *t, uint32_t rank);
uint32_t topology_max_depth(const topology_t *t);

/* Does the path from `rank` to the root lead through `anc`?  A rank is its own ancestor. */
bool topology_is_ancestor(const topology_t *t, uint32_t anc, uint32_t rank);

/* Number of ranks in the subtree of `rank`, including `rank`, O(depth), with moves O(N depth); and
 * the set of these ranks (destroyed by the caller; NULL with EINVAL or ENOMEM). */
uint32_t topology_subtree_count(const topology_t *t, uint32_t rank);
idset_t *topology_subtree(const topology_t *t, uint32_t rank);

/* The neighbor (a child or the parent) of `from` on the path to `to`; `to` itself when equal.
 * O(depth) for regular shapes, O(log children) for trees from a file. */
uint32_t topology_next_hop(const topology_t *t, uint32_t from, uint32_t to);

/* The ring runs through the ranks in ascending order and from N-1 back to 0. */
uint32_t topology_ring_next(const topology_t *t, uint32_t rank);
uint32_t topology_ring_prev(const topology_t *t, uint32_t rank);

/* Label of a rank in the drawings below: write it into `buf` of `size` bytes. */
typedef void (*topology_label_f)(uint32_t rank, char *buf, size_t size, void *arg);

/* Drawings as text to be freed by the caller: an indented tree of lines, a Graphviz digraph, and
 * the file format above.  label_fn may be NULL (the rank number).  NULL with ENOMEM, or E2BIG when
 * a deep tree would take more than 64 MiB of text. */
char *topology_format_tree(const topology_t *t, topology_label_f label_fn, void *arg);
char *topology_format_dot(const topology_t *t, topology_label_f label_fn, void *arg);
char *topology_format_file(const topology_t *t);

#endif
