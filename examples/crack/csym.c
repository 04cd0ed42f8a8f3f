/* csym.c - how symmetric the surroundings of each atom are, and when the lattice breaks.
 *
 *    csym [--broken=N] [--readers=N]       one task
 *
 * Reads crack.bonds, and writes crack.csym: the central symmetry of each atom, and how many of the
 * bonds that it had in the first step are gone.  The central symmetry [C. Kelchner et al., Phys.
 * Rev. B 58, 11085 (1998)] of an atom with at least twelve neighbors is the sum of the six smallest
 * of the numbers |r(j) + r(k)|^2, where j and k are any two of the twelve nearest; it is near 0 in
 * a perfect crystal.  That of an atom with fewer neighbors is 0, as LAMMPS has it.
 *
 * When N atoms have lost a bond, the switch `crack` is turned on, with which a costlier analysis
 * joins.  Lines of output say where these atoms are, when their number changes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lattice.h"

#define NEAREST 12
#define TWOS (NEAREST * (NEAREST - 1) / 2)
#define NEIGHBORS_MAX 256

struct results {
    size_t n;
    int32_t *id;
    double *centro;
    int32_t *lost;
};

struct vector {
    double square; /* of the length */
    double v[3];
};

static int rising(const void *a, const void *b)
{
    const double p = *(const double *)a;
    const double q = *(const double *)b;

    return (p > q) - (p < q);
}

static double symmetry(const struct lattice *l, uint32_t i)
{
    const size_t *begin = l->bonds.begin;
    size_t n = begin[i + 1] - begin[i];
    struct vector near[NEIGHBORS_MAX];
    double two[TWOS];
    double sum = 0.;
    size_t k = 0;

    if (n < NEAREST)
        return 0.;
    if (n > NEIGHBORS_MAX)
        stage_die("atom %" PRIu32 " has %zu neighbors", i, n);
    for (size_t j = 0; j < n; j++) {
        double *v = near[j].v;

        lattice_vector(l, i, l->bonds.near[begin[i] + j], v);
        near[j].square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    }
    if (n > NEAREST)
        qsort(near, n, sizeof(near[0]), rising);
    for (size_t a = 0; a < NEAREST; a++) {
        for (size_t b = a + 1; b < NEAREST; b++) {
            two[k] = 0.;
            for (int d = 0; d < 3; d++) {
                double c = near[a].v[d] + near[b].v[d];

                two[k] += c * c;
            }
            k++;
        }
    }
    qsort(two, TWOS, sizeof(two[0]), rising);
    for (k = 0; k < NEAREST / 2; k++)
        sum += two[k];
    return sum;
}

/* The first adjacency is kept as it is, and the lattice gets new memory. */
static struct adjacency keep_first(struct lattice *l)
{
    struct adjacency first = l->bonds;

    l->bonds = (struct adjacency){NULL, NULL};
    l->bonds.begin = stage_alloc(NULL, l->room + 2, sizeof(*first.begin));
    memcpy(l->bonds.begin, first.begin, (l->n + 2) * sizeof(*first.begin));
    l->bonds.near = stage_alloc(NULL, l->bonds_room, sizeof(*first.near));
    memcpy(l->bonds.near, first.near, first.begin[l->n] * sizeof(*first.near));
    return first;
}

static int32_t count_lost(const struct adjacency *first, const struct adjacency *bonds, uint32_t i)
{
    int32_t lost = 0;

    for (size_t k = first->begin[i]; k < first->begin[i + 1]; k++)
        lost += !adjacency_has(bonds, i, first->near[k]);
    return lost;
}

/* The atoms that have lost bonds: how many, and where. */
struct crack {
    uint32_t atoms;
    double low[2];
    double high[2];
};

static struct crack crack_of(const struct lattice *l, const struct results *r)
{
    struct crack c = {0, {INFINITY, INFINITY}, {-INFINITY, -INFINITY}};

    for (size_t k = 0; k < r->n; k++) {
        if (!r->lost[k])
            continue;
        for (int d = 0; d < 2; d++) {
            c.low[d] = fmin(c.low[d], l->x[r->id[k]][d]);
            c.high[d] = fmax(c.high[d], l->x[r->id[k]][d]);
        }
        c.atoms++;
    }
    return c;
}

static void print(const struct crack *c, const char *what, int64_t time)
{
    printf("csym: time %" PRId64 ": %s%" PRIu32 " atoms have lost bonds", time, what, c->atoms);
    if (c->atoms)
        printf(", x %.2f to %.2f, y %.2f to %.2f", c->low[0], c->high[0], c->low[1], c->high[1]);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char *argv[])
{
    struct lattice l = {0};
    struct adjacency first = {NULL, NULL};
    struct results r = {0};
    struct crack crack = {0};
    double broken = 6, readers = 0;
    uint32_t atoms = 0; /* of the first step: all numbers are below it */
    bool on = false;
    const struct stage_option options[] = {{.name = "broken", .min = 1., .value = &broken},
                                           {.name = "readers", .min = 0., .value = &readers},
                                           {.name = NULL}};

    stage_init("csym");
    stage_options(argc, argv, options);
    port_t *in = port_read("crack.bonds", NULL);
    port_t *out = port_write("crack.csym", (uint32_t)readers);

    while (port_next(in)) {
        lattice_read(&l, in);
        if (!first.begin) {
            atoms = l.n;
            first = keep_first(&l);
            r.id = stage_alloc(NULL, atoms, sizeof(*r.id));
            r.centro = stage_alloc(NULL, atoms, sizeof(*r.centro));
            r.lost = stage_alloc(NULL, atoms, sizeof(*r.lost));
        }
        if (l.n != atoms)
            stage_die("the crystal has lost or won atoms");
        r.n = 0;
        for (uint32_t i = 0; i < l.n; i++) {
            if (!l.type[i])
                continue;
            r.id[r.n] = (int32_t)i;
            r.centro[r.n] = symmetry(&l, i);
            r.lost[r.n++] = count_lost(&first, &l.bonds, i);
        }
        uint32_t before = crack.atoms;

        crack = crack_of(&l, &r);
        if (crack.atoms >= broken && !on) {
            port_switch(in, "crack", on = true);
            print(&crack, "the lattice breaks: ", l.time);
        } else if (crack.atoms != before) {
            print(&crack, "", l.time);
        }
        port_put(out, "time", "i64", 1, 1, &l.time);
        port_put(out, "id", "i32", r.n, 1, r.id);
        port_put(out, "centro", "f64", r.n, 1, r.centro);
        port_put(out, "lost", "i32", r.n, 1, r.lost);
        port_end(out);
        port_end(in);
    }
    print(&crack, "the end: ", l.time);
    port_finish(in, out);
    lattice_free(&l);
    free(first.begin);
    free(first.near);
    free(r.id);
    free(r.centro);
    free(r.lost);
    return 0;
}
