/* lattice.c - the atoms of a step of crack.bonds, and who is bonded to whom.
 *
 * The writers of the stream have each a part of the atoms, and of the pairs.  Put together, atoms
 * are in the places of their numbers, and each pair is in the lists of both its atoms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lattice.h"

/* What a writer has put. */
struct part {
    size_t atoms;
    size_t pairs;
    const int32_t *id;
    const int32_t *type;
    const double (*x)[3];
    const uint32_t (*pair)[2];
};

static struct part *read_parts(port_t *in)
{
    struct part *parts = stage_alloc(NULL, port_writers(in), sizeof(*parts));

    for (uint32_t w = 0; w < port_writers(in); w++) {
        const void *id, *type, *x, *pair;
        struct part *p = &parts[w];

        p->atoms = port_get(in, w, "id", "i32", 1, &id);
        p->pairs = port_get(in, w, "pair", "i32", 2, &pair);
        if (port_get(in, w, "type", "i32", 1, &type) != p->atoms ||
            port_get(in, w, "x", "f64", 3, &x) != p->atoms)
            stage_die("writer %u has arrays of different lengths", w);
        p->id = id;
        p->type = type;
        p->x = x;
        p->pair = pair;
    }
    return parts;
}

static void put_atoms(struct lattice *l, const struct part *parts, uint32_t n)
{
    l->n = 0;
    for (const struct part *p = parts; p < parts + n; p++) {
        for (size_t i = 0; i < p->atoms; i++) {
            if (p->id[i] < 0)
                stage_die("an atom has the number %d", p->id[i]);
            if ((uint32_t)p->id[i] >= l->n)
                l->n = (uint32_t)p->id[i] + 1;
        }
    }
    if (l->n > l->room) {
        l->room = l->n;
        l->type = stage_alloc(l->type, l->room, sizeof(*l->type));
        l->x = stage_alloc(l->x, l->room, sizeof(*l->x));
        l->bonds.begin = stage_alloc(l->bonds.begin, l->room + 2, sizeof(*l->bonds.begin));
    }
    memset(l->type, 0, l->n * sizeof(*l->type));
    for (const struct part *p = parts; p < parts + n; p++) {
        for (size_t i = 0; i < p->atoms; i++) {
            l->type[p->id[i]] = p->type[i];
            memcpy(l->x[p->id[i]], p->x[i], sizeof(p->x[i]));
        }
    }
}

static int rising(const void *a, const void *b)
{
    uint32_t p = *(const uint32_t *)a;
    uint32_t q = *(const uint32_t *)b;

    return (p > q) - (p < q);
}

static void put_bonds(struct lattice *l, const struct part *parts, uint32_t n)
{
    size_t *begin = l->bonds.begin;

    /* Counted two places behind, so that filling the lists leaves each beginning in its place. */
    memset(begin, 0, (l->n + 2) * sizeof(*begin));
    for (const struct part *p = parts; p < parts + n; p++) {
        for (size_t k = 0; k < p->pairs; k++) {
            if (p->pair[k][0] >= l->n || p->pair[k][1] >= l->n)
                stage_die("a bond of an atom that is not there");
            begin[p->pair[k][0] + 2]++;
            begin[p->pair[k][1] + 2]++;
        }
    }
    for (uint32_t i = 1; i <= l->n + 1; i++)
        begin[i] += begin[i - 1];
    if (begin[l->n + 1] > l->bonds_room) {
        l->bonds_room = begin[l->n + 1];
        l->bonds.near = stage_alloc(l->bonds.near, l->bonds_room, sizeof(*l->bonds.near));
    }
    for (const struct part *p = parts; p < parts + n; p++) {
        for (size_t k = 0; k < p->pairs; k++) {
            uint32_t i = p->pair[k][0], j = p->pair[k][1];

            l->bonds.near[begin[i + 1]++] = j;
            l->bonds.near[begin[j + 1]++] = i;
        }
    }
    for (uint32_t i = 0; i < l->n; i++)
        qsort(l->bonds.near + begin[i], begin[i + 1] - begin[i], sizeof(*l->bonds.near), rising);
}

void lattice_read(struct lattice *l, port_t *in)
{
    struct part *parts = read_parts(in);
    const void *box, *time;

    port_get(in, 0, "time", "i64", 1, &time);
    port_get(in, 0, "box", "f64", 3, &box);
    l->time = *(const int64_t *)time;
    for (int d = 0; d < 3; d++)
        l->length[d] = ((const double(*)[3])box)[1][d] - ((const double(*)[3])box)[0][d];
    put_atoms(l, parts, port_writers(in));
    put_bonds(l, parts, port_writers(in));
    free(parts);
}

void lattice_vector(const struct lattice *l, uint32_t i, uint32_t j, double vector[3])
{
    for (int d = 0; d < 3; d++) {
        vector[d] = l->x[j][d] - l->x[i][d];
        vector[d] -= l->length[d] * rint(vector[d] / l->length[d]);
    }
}

bool adjacency_has(const struct adjacency *a, uint32_t i, uint32_t j)
{
    for (size_t k = a->begin[i]; k < a->begin[i + 1] && a->near[k] <= j; k++) {
        if (a->near[k] == j)
            return true;
    }
    return false;
}

void lattice_free(struct lattice *l)
{
    free(l->type);
    free(l->x);
    free(l->bonds.begin);
    free(l->bonds.near);
}
