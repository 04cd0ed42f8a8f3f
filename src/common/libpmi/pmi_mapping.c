/* pmi_mapping.c - formatting and parsing of PMI_process_mapping.
 *
 *   mapping = "(vector" 1*("," "(" first "," count "," ppn ")") ")"      blanks allowed between
 *
 * Writing: ranks -> runs of equal nodes -> blocks of neighboring nodes with equal runs; if the
 * list of blocks repeats a shorter list, only the shorter one is written, because readers wrap
 * around.  Therefore a block layout of equal nodes and a cyclic one are one block each.
 *
 * Invariants:
 *  1. What is written here is read back to the same placement (tested on random placements).
 *  2. Every accepted string covers exactly the requested ranks; the last block may be used in part.
 *  3. Reading takes time and memory in the number of ranks and the largest node number in use, both
 *     bounded, whatever the numbers in the string are.
 *
 * Failure: EINVAL or ENOMEM, nothing is left allocated.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_mapping.h"

#define BLOCK_TEXT_MAX 36 /* ",(4294967295,4294967295,4294967295)" */

struct block {
    uint32_t first;
    uint32_t count;
    uint32_t ppn;
};

struct pmi_mapping {
    size_t nranks;
    size_t nnodes;
    uint32_t *node_of; /* by rank */
    uint32_t *start;   /* by node: its first place in ranks[]; nnodes + 1 entries */
    uint32_t *ranks;   /* grouped by node */
};

static void *fail_null(int errnum)
{
    errno = errnum;
    return NULL;
}

/* Blocks of a placement; at most nranks. */
static size_t make_blocks(size_t nranks, const uint32_t *node_of, struct block *blocks)
{
    size_t n = 0;

    for (size_t r = 0; r < nranks;) {
        size_t end = r + 1;
        struct block *last = n ? &blocks[n - 1] : NULL;
        uint32_t ppn;

        while (end < nranks && node_of[end] == node_of[r])
            end++;
        ppn = (uint32_t)(end - r);
        if (last && last->ppn == ppn && last->first + last->count == node_of[r])
            last->count++;
        else
            blocks[n++] = (struct block){node_of[r], 1, ppn};
        r = end;
    }
    return n;
}

/* The length of the shortest list that, repeated, gives all n blocks. */
static size_t shortest_period(const struct block *b, size_t n)
{
    for (size_t p = 1; p <= n / 2; p++) {
        if (n % p == 0 && !memcmp(b, b + p, (n - p) * sizeof(*b)))
            return p;
    }
    return n;
}

static char *write_blocks(const struct block *b, size_t n)
{
    size_t cap = 16 + n * BLOCK_TEXT_MAX;
    char *text = malloc(cap);
    size_t len;

    if (!text)
        return NULL;
    len = (size_t)snprintf(text, cap, "(vector");
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(text + len, cap - len, ",(%u,%u,%u)", b[i].first, b[i].count,
                                b[i].ppn);
    snprintf(text + len, cap - len, ")");
    return text;
}

char *pmi_mapping_format_ranks(size_t nranks, const uint32_t *node_of)
{
    struct block *blocks;
    size_t n;
    char *text;

    if (nranks == 0 || nranks > PMI_MAPPING_RANKS_MAX)
        return fail_null(EINVAL);
    for (size_t r = 0; r < nranks; r++) {
        if (node_of[r] >= PMI_MAPPING_NODES_MAX)
            return fail_null(EINVAL);
    }
    blocks = calloc(nranks, sizeof(*blocks));
    if (!blocks)
        return NULL;
    n = make_blocks(nranks, node_of, blocks);
    text = write_blocks(blocks, shortest_period(blocks, n));
    free(blocks);
    return text;
}

static void place_block(size_t nnodes, const uint32_t *tasks, uint32_t *node_of)
{
    size_t r = 0;

    for (size_t i = 0; i < nnodes; i++) {
        for (uint32_t k = 0; k < tasks[i]; k++)
            node_of[r++] = (uint32_t)i;
    }
}

/* The list of nodes with room shrinks from round to round, so the work is that of the ranks. */
static int place_cyclic(size_t nnodes, const uint32_t *tasks, uint32_t *node_of)
{
    uint32_t *open = calloc(nnodes, sizeof(*open));
    size_t nopen = 0, r = 0;

    if (!open)
        return -1;
    for (size_t i = 0; i < nnodes; i++) {
        if (tasks[i])
            open[nopen++] = (uint32_t)i;
    }
    for (uint32_t round = 1; nopen; round++) {
        size_t still = 0;

        for (size_t i = 0; i < nopen; i++) {
            node_of[r++] = open[i];
            if (tasks[open[i]] > round)
                open[still++] = open[i];
        }
        nopen = still;
    }
    free(open);
    return 0;
}

char *pmi_mapping_format(size_t nnodes, const uint32_t *tasks, enum pmi_layout layout)
{
    uint32_t *node_of;
    size_t nranks = 0;
    char *text = NULL;

    if (nnodes == 0 || nnodes > PMI_MAPPING_NODES_MAX)
        return fail_null(EINVAL);
    for (size_t i = 0; i < nnodes; i++) {
        nranks += tasks[i];
        if (nranks > PMI_MAPPING_RANKS_MAX)
            return fail_null(EINVAL);
    }
    if (nranks == 0)
        return fail_null(EINVAL);
    node_of = calloc(nranks, sizeof(*node_of));
    if (!node_of)
        return NULL;
    if (layout == PMI_LAYOUT_BLOCK)
        place_block(nnodes, tasks, node_of);
    else if (place_cyclic(nnodes, tasks, node_of) < 0)
        goto out;
    text = pmi_mapping_format_ranks(nranks, node_of);
out:
    free(node_of);
    return text;
}

static void skip_blanks(const char **p)
{
    while (**p == ' ')
        (*p)++;
}

static bool take_char(const char **p, char c)
{
    skip_blanks(p);
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

static bool take_number(const char **p, uint32_t max, uint32_t *value)
{
    uint64_t n = 0;
    const char *start;

    skip_blanks(p);
    for (start = *p; **p >= '0' && **p <= '9'; (*p)++) {
        n = n * 10 + (uint64_t)(**p - '0');
        if (n > max)
            return false;
    }
    *value = (uint32_t)n;
    return *p != start;
}

static bool take_block(const char **p, struct block *b)
{
    return take_char(p, '(') && take_number(p, PMI_MAPPING_NODES_MAX - 1, &b->first) &&
           take_char(p, ',') && take_number(p, PMI_MAPPING_NODES_MAX, &b->count) &&
           take_char(p, ',') && take_number(p, PMI_MAPPING_RANKS_MAX, &b->ppn) &&
           take_char(p, ')') && b->count > 0 && b->ppn > 0 &&
           b->first + b->count <= PMI_MAPPING_NODES_MAX;
}

/* -1 with EINVAL or ENOMEM. */
static int read_blocks(const char *str, struct block **blocks, size_t *nblocks)
{
    size_t cap = 1;

    for (const char *p = str; *p; p++)
        cap += *p == '(';
    *nblocks = 0;
    *blocks = calloc(cap, sizeof(**blocks));
    if (!*blocks)
        return -1;
    if (!take_char(&str, '('))
        goto bad;
    skip_blanks(&str);
    if (strncmp(str, "vector", 6) != 0)
        goto bad;
    str += 6;
    while (take_char(&str, ',')) {
        if (!take_block(&str, &(*blocks)[*nblocks]))
            goto bad;
        (*nblocks)++;
    }
    if (*nblocks == 0 || !take_char(&str, ')'))
        goto bad;
    skip_blanks(&str);
    if (*str == '\0')
        return 0;
bad:
    free(*blocks);
    errno = EINVAL;
    return -1;
}

static void place_ranks(struct pmi_mapping *m, const struct block *b, size_t nblocks)
{
    size_t r = 0;

    while (r < m->nranks) {
        for (size_t i = 0; i < nblocks; i++) {
            for (uint32_t k = 0; k < b[i].count && r < m->nranks; k++) {
                for (uint32_t j = 0; j < b[i].ppn && r < m->nranks; j++)
                    m->node_of[r++] = b[i].first + k;
                if (b[i].first + k >= m->nnodes)
                    m->nnodes = b[i].first + k + 1;
            }
        }
    }
}

/* Counting sort of the ranks by node. */
static int group_ranks(struct pmi_mapping *m)
{
    m->start = calloc(m->nnodes + 1, sizeof(*m->start));
    m->ranks = calloc(m->nranks, sizeof(*m->ranks));
    if (!m->start || !m->ranks)
        return -1;
    for (size_t r = 0; r < m->nranks; r++)
        m->start[m->node_of[r]]++;
    for (size_t i = 1; i <= m->nnodes; i++)
        m->start[i] += m->start[i - 1];
    for (size_t r = m->nranks; r-- > 0;)
        m->ranks[--m->start[m->node_of[r]]] = (uint32_t)r;
    return 0;
}

struct pmi_mapping *pmi_mapping_parse(const char *str, size_t nranks)
{
    struct pmi_mapping *m;
    struct block *blocks;
    size_t nblocks;

    if (nranks == 0 || nranks > PMI_MAPPING_RANKS_MAX)
        return fail_null(EINVAL);
    if (read_blocks(str, &blocks, &nblocks) < 0)
        return NULL;
    m = calloc(1, sizeof(*m));
    if (!m)
        goto nomem;
    m->nranks = nranks;
    m->node_of = calloc(nranks, sizeof(*m->node_of));
    if (!m->node_of)
        goto nomem;
    place_ranks(m, blocks, nblocks);
    if (group_ranks(m) < 0)
        goto nomem;
    free(blocks);
    return m;
nomem:
    free(blocks);
    pmi_mapping_destroy(m);
    return fail_null(ENOMEM);
}

void pmi_mapping_destroy(struct pmi_mapping *m)
{
    int saved = errno;

    if (m) {
        free(m->node_of);
        free(m->start);
        free(m->ranks);
        free(m);
    }
    errno = saved;
}

size_t pmi_mapping_nnodes(const struct pmi_mapping *m)
{
    return m->nnodes;
}

int pmi_mapping_node(const struct pmi_mapping *m, uint32_t rank)
{
    if (rank >= m->nranks) {
        errno = EINVAL;
        return -1;
    }
    return (int)m->node_of[rank];
}

const uint32_t *pmi_mapping_ranks(const struct pmi_mapping *m, uint32_t node, size_t *n)
{
    if (node >= m->nnodes) {
        *n = 0;
        return NULL;
    }
    *n = m->start[node + 1] - m->start[node];
    return m->ranks + m->start[node];
}
