/* helper.c - many writers of atoms become few, with the atoms in order of place.
 *
 *    helper [--cutoff=R] [--readers=N]     one task or more, each for a part of the writers
 *
 * Reads crack.atoms, and writes crack.slabs: the atoms wrapped into the periodic box, sorted by
 * slabs of at least R across the box, and where each slab begins; so that who needs a part of the
 * space gets it in one piece from each helper. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"

struct atoms {
    size_t n;
    size_t room;
    int32_t *id;
    int32_t *type;
    double (*x)[3];
};

static void atoms_room(struct atoms *a, size_t n)
{
    if (n > a->room) {
        a->room = n + n / 8;
        a->id = stage_alloc(a->id, a->room, sizeof(*a->id));
        a->type = stage_alloc(a->type, a->room, sizeof(*a->type));
        a->x = stage_alloc(a->x, a->room, sizeof(*a->x));
    }
    a->n = n;
}

/* Those of this task's writers, with each coordinate in low <= x < high. */
static void gather(port_t *in, struct atoms *a, const double box[2][3])
{
    a->n = 0;
    for (uint32_t w = stage.rank; w < port_writers(in); w += stage.size) {
        const void *id, *type, *x;
        size_t begin = a->n;
        size_t n = port_get(in, w, "id", "i32", 1, &id);

        if (port_get(in, w, "type", "i32", 1, &type) != n ||
            port_get(in, w, "x", "f64", 3, &x) != n)
            stage_die("writer %u has arrays of different lengths", w);
        atoms_room(a, begin + n);
        memcpy(a->id + begin, id, n * sizeof(*a->id));
        memcpy(a->type + begin, type, n * sizeof(*a->type));
        memcpy(a->x + begin, x, n * sizeof(*a->x));
    }
    for (size_t i = 0; i < a->n; i++) {
        for (int d = 0; d < 3; d++) {
            double length = box[1][d] - box[0][d];
            double *c = &a->x[i][d];

            if (*c < box[0][d])
                *c += length;
            if (*c >= box[1][d])
                *c -= length;
            if (!(*c >= box[0][d] && *c < box[1][d]))
                stage_die("atom %d is outside of the box", a->id[i]);
        }
    }
}

/* Sort by slab, counting; `begin` gets where each slab begins, and the number of atoms. */
static void sort(const struct atoms *from, struct atoms *to, const double box[2][3], int64_t *begin,
                 size_t slabs)
{
    double scale = (double)slabs / (box[1][0] - box[0][0]);
    size_t *slab = stage_alloc(NULL, from->n, sizeof(*slab));

    atoms_room(to, from->n);
    memset(begin, 0, (slabs + 1) * sizeof(*begin));
    for (size_t i = 0; i < from->n; i++) {
        slab[i] = (size_t)((from->x[i][0] - box[0][0]) * scale);
        if (slab[i] >= slabs)
            slab[i] = slabs - 1;
        begin[slab[i] + 1]++;
    }
    for (size_t s = 1; s <= slabs; s++)
        begin[s] += begin[s - 1];
    for (size_t i = from->n; i-- > 0;) {
        size_t at = (size_t)--begin[slab[i] + 1];

        to->id[at] = from->id[i];
        to->type[at] = from->type[i];
        memcpy(to->x[at], from->x[i], sizeof(to->x[at]));
    }
    /* What was the end of a slab is its beginning now. */
    memmove(begin, begin + 1, slabs * sizeof(*begin));
    begin[slabs] = (int64_t)from->n;
    free(slab);
}

int main(int argc, char *argv[])
{
    struct atoms atoms = {0}, sorted = {0};
    double cutoff = 1.35, readers = 1;
    int64_t *begin = NULL;
    const struct stage_option options[] = {{.name = "cutoff", .min = 1e-6, .value = &cutoff},
                                           {.name = "readers", .min = 0., .value = &readers},
                                           {.name = NULL}};

    stage_init("helper");
    stage_options(argc, argv, options);
    port_t *in = port_read("crack.atoms", NULL);
    port_t *out = port_write("crack.slabs", (uint32_t)readers);

    while (port_next(in)) {
        const void *box, *time;

        if (port_get(in, 0, "box", "f64", 3, &box) != 2 ||
            port_get(in, 0, "time", "i64", 1, &time) != 1)
            stage_die("crack.atoms has no box, or no time");
        const double(*edges)[3] = box;
        size_t slabs = (size_t)fmax((edges[1][0] - edges[0][0]) / cutoff, 1.);

        begin = stage_alloc(begin, slabs + 1, sizeof(*begin));
        gather(in, &atoms, edges);
        sort(&atoms, &sorted, edges, begin, slabs);
        port_put(out, "time", "i64", 1, 1, time);
        port_put(out, "box", "f64", 2, 3, box);
        port_put(out, "slab", "i64", slabs + 1, 1, begin);
        port_put(out, "id", "i32", sorted.n, 1, sorted.id);
        port_put(out, "type", "i32", sorted.n, 1, sorted.type);
        port_put(out, "x", "f64", sorted.n, 3, sorted.x);
        port_end(out);
        port_end(in);
    }
    port_finish(in, out);
    free(begin);
    for (struct atoms *a = &atoms; a; a = a == &atoms ? &sorted : NULL) {
        free(a->id);
        free(a->type);
        free(a->x);
    }
    return 0;
}
