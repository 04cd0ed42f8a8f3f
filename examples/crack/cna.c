/* cna.c - which crystal the neighbors of each atom form: common neighbor analysis.
 *
 *    cna [--steps=N] [--always] [--readers=N]      one task
 *
 * Reads crack.bonds while the switch `crack` is on, or always, and ends after N steps.  Writes
 * crack.cna: a structure for each atom, with the numbers of LAMMPS.
 *
 * Each bond has a signature [D. Faken and H. Jonsson, Computational Materials Science 2, 279
 * (1994)]: how many neighbors its two atoms have in common, how many bonds these have among each
 * other, and with how many others of them each is bonded, at most and at least.  The signatures of
 * all bonds of an atom say which crystal it is in. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lattice.h"

enum { FCC = 1, HCP, BCC, ICOSAHEDRON, OTHER, STRUCTURES };

#define COMMON_MAX 16

/* What the bonds of an atom can be: parts of a crystal. */
enum { IN_FCC, IN_HCP, IN_ICOSAHEDRON, IN_BCC_NEAR, IN_BCC_FAR, SIGNATURES, IN_NONE = SIGNATURES };

static const struct signature {
    int common, bonds, most, least;
} signatures[SIGNATURES] = {
    [IN_FCC] = {4, 2, 1, 1},      [IN_HCP] = {4, 2, 2, 0},     [IN_ICOSAHEDRON] = {5, 5, 2, 2},
    [IN_BCC_NEAR] = {6, 6, 2, 2}, [IN_BCC_FAR] = {4, 4, 2, 2},
};

/* A structure, and how many bonds of each signature an atom in it has. */
static const struct {
    int32_t structure;
    size_t neighbors;
    int count[SIGNATURES];
} structures[] = {
    {FCC, 12, {[IN_FCC] = 12}},
    {HCP, 12, {[IN_FCC] = 6, [IN_HCP] = 6}},
    {ICOSAHEDRON, 12, {[IN_ICOSAHEDRON] = 12}},
    {BCC, 14, {[IN_BCC_NEAR] = 8, [IN_BCC_FAR] = 6}},
};

/* The neighbors that two atoms have in common: both lists rise. */
static int common_of(const struct adjacency *a, uint32_t i, uint32_t j, uint32_t *common)
{
    size_t p = a->begin[i], q = a->begin[j];
    int n = 0;

    while (p < a->begin[i + 1] && q < a->begin[j + 1]) {
        if (a->near[p] < a->near[q]) {
            p++;
        } else if (a->near[p] > a->near[q]) {
            q++;
        } else {
            if (n == COMMON_MAX)
                return -1;
            common[n++] = a->near[p++];
            q++;
        }
    }
    return n;
}

static size_t signature_of(const struct adjacency *a, uint32_t i, uint32_t j)
{
    uint32_t common[COMMON_MAX];
    int degree[COMMON_MAX] = {0};
    struct signature s = {.common = common_of(a, i, j, common), .least = COMMON_MAX};
    size_t k;

    for (int p = 0; p < s.common; p++) {
        for (int q = p + 1; q < s.common; q++) {
            if (adjacency_has(a, common[p], common[q])) {
                s.bonds++;
                degree[p]++;
                degree[q]++;
            }
        }
    }
    for (int p = 0; p < s.common; p++) {
        s.most = degree[p] > s.most ? degree[p] : s.most;
        s.least = degree[p] < s.least ? degree[p] : s.least;
    }
    for (k = 0; k < SIGNATURES; k++) {
        if (memcmp(&s, &signatures[k], sizeof(s)) == 0)
            break;
    }
    return k;
}

static int32_t structure_of(const struct adjacency *a, uint32_t i)
{
    size_t neighbors = a->begin[i + 1] - a->begin[i];
    int count[SIGNATURES + 1] = {0};

    if (neighbors != 12 && neighbors != 14)
        return OTHER;
    for (size_t k = a->begin[i]; k < a->begin[i + 1]; k++)
        count[signature_of(a, i, a->near[k])]++;
    for (size_t k = 0; k < sizeof(structures) / sizeof(structures[0]); k++) {
        if (neighbors == structures[k].neighbors &&
            memcmp(count, structures[k].count, sizeof(structures[k].count)) == 0)
            return structures[k].structure;
    }
    return OTHER;
}

int main(int argc, char *argv[])
{
    struct lattice l = {0};
    double readers = 0, steps = UINT32_MAX;
    bool always = false;
    int32_t *id = NULL, *structure = NULL;
    const struct stage_option options[] = {{.name = "steps", .min = 1., .value = &steps},
                                           {.name = "readers", .min = 0., .value = &readers},
                                           {.name = "always", .flag = &always},
                                           {.name = NULL}};

    stage_init("cna");
    stage_options(argc, argv, options);
    port_t *in = port_read("crack.bonds", always ? NULL : "crack");
    port_t *out = port_write("crack.cna", (uint32_t)readers);

    while (steps-- > 0 && port_next(in)) {
        uint32_t count[STRUCTURES] = {0}, n = 0;

        lattice_read(&l, in);
        id = stage_alloc(id, l.n, sizeof(*id));
        structure = stage_alloc(structure, l.n, sizeof(*structure));
        for (uint32_t i = 0; i < l.n; i++) {
            if (!l.type[i])
                continue;
            id[n] = (int32_t)i;
            structure[n] = structure_of(&l.bonds, i);
            count[structure[n++]]++;
        }
        printf("cna: time %" PRId64 ": %u atoms in fcc, %u in hcp, %u in bcc, %u in icosahedra, %u "
               "in no crystal\n",
               l.time, count[FCC], count[HCP], count[BCC], count[ICOSAHEDRON], count[OTHER]);
        fflush(stdout);
        port_put(out, "time", "i64", 1, 1, &l.time);
        port_put(out, "id", "i32", n, 1, id);
        port_put(out, "structure", "i32", n, 1, structure);
        port_end(out);
        port_end(in);
    }
    port_finish(in, out);
    lattice_free(&l);
    free(id);
    free(structure);
    return 0;
}
