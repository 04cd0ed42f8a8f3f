/* What the files of the checker share.  See histcheck.c for how they work together. */
#ifndef HISTORY_HISTPRIV_H
#define HISTORY_HISTPRIV_H

#include "history.h"
#include "libutil/hmap.h"

#define NONE UINT32_MAX /* no operation */

/* A transaction, or all that takes part in a fence: takes effect at one place of the order. */
struct node {
    uint32_t op; /* the first one */
    bool known;  /* its version is: lo == hi */
    bool failed;
    bool applied; /* surely */
    bool reported;
    uint64_t lo, hi;       /* its version is between these, if it has any */
    uint32_t lo_op, hi_op; /* who showed that */
    uint32_t nwrites;
};

/* A write of one key. */
struct write {
    uint32_t key;
    uint8_t class; /* of its node: known, unknown, failed */
    enum hist_item_kind kind;
    uint32_t node;
    uint32_t op;
    uint32_t token;
    uint32_t mark; /* serial of the value at hand that has it */
    bool seen;     /* by anybody */
    uint64_t version;
};
enum { KNOWN, UNKNOWN, FAILED };

struct key {
    uint32_t first;          /* in writes: the known ones by version, */
    uint32_t known, unknown; /* then the unknown ones */
};

/* `before` takes effect before `after`. */
struct edge {
    uint32_t before, after;
    uint32_t key, op;
};

/* `node` does not take effect at all, or before `than`, or after version `v`. */
struct either {
    uint32_t node, than; /* INITIAL: the empty store */
    uint64_t v;
    uint32_t key, op;
};
#define INITIAL UINT32_MAX

struct check {
    const history_t *h;
    const struct hist_options *o;
    struct hist_report *r;
    uint32_t ns;
    bool oom;

    struct node *nodes;
    uint32_t nnodes;
    uint32_t *op_node; /* by operation: node + 1, 0: none */
    uint64_t *floor;   /* by operation, for those without a version: not older than this */

    struct write *writes;
    uint32_t nwrites;
    struct key *keys;      /* by number */
    uint32_t *token_write; /* by number: write + 1 */
    uint32_t serial;

    hmap_t *version_root;   /* version -> root */
    uint64_t *root_version; /* by number: the lowest, or HIST_NO_VERSION */
    uint32_t *root_op;      /* who was told */

    struct edge *edges;
    size_t nedges, edges_cap;
    hmap_t *edge_index;
    struct either *eithers;
    size_t neithers, eithers_cap;
    hmap_t *either_index;
};

/* Note a violation, with up to two operations (NONE) that show it. */
void hc_violation(struct check *c, enum hist_kind kind, uint32_t op1, uint32_t op2, const char *fmt,
                  ...) __attribute__((format(printf, 5, 6)));
const char *hc_key(const struct check *c, uint32_t key);

/* --- histvalue.c --- */

int hc_writes(struct check *c);  /* collect; -1 when memory is out */
void hc_reads(struct check *c);  /* every result of every read */
void hc_guards(struct check *c); /* every guard of every commit that took effect */

/* --- historder.c --- */

/* `a` takes effect before `b`, as `op` saw at `key`; `kind` when their versions say otherwise. */
void ho_before(struct check *c, uint32_t a, uint32_t b, uint32_t key, uint32_t op,
               enum hist_kind kind);
/* `node` did take effect, not after version v. */
void ho_seen(struct check *c, uint32_t node, uint64_t v, uint32_t op);
/* Not before version v. */
void ho_not_before(struct check *c, uint32_t node, uint64_t v, uint32_t op);
/* `node` has no effect at version v, other than before `than`. */
void ho_absent(struct check *c, uint32_t node, uint32_t than, uint64_t v, uint32_t key,
               uint32_t op);
/* Draw the conclusions. */
void ho_resolve(struct check *c);

#endif
