/* bonds.c - all pairs of atoms that are nearer than a cut-off.
 *
 *    bonds [--cutoff=R] [--readers=N]      one task or more, each for a part of the space
 *
 * Reads crack.slabs, and writes crack.bonds.  A task has some slabs of the box, of which it writes
 * the atoms, and reads one more at their right: it finds the pairs inside of its slabs, and those
 * across their right edge, so that each pair is found once, by one task.
 *
 * The slabs are cut into cells of at least the cut-off, so that the partners of an atom are in its
 * own cell and the 26 around it; half of these are visited, since the other half visits this one.
 * The box is periodic, and at least three cells wide: then no cell is its own second neighbor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"

/* Cells are numbered slab by slab, and each slab row by row. */
struct space {
    double low[3];
    double length[3];
    int cells[3]; /* of the box */
    int first;    /* slab of this task, and how many it has */
    int own;
    /* Its atoms, and behind them those of the slab at the right; both sorted by cell. */
    size_t n;
    size_t mine;
    size_t room;
    int32_t *id;
    int32_t *type;
    double (*x)[3];
    size_t *begin; /* where each cell begins */
};

struct pairs {
    size_t n;
    size_t room;
    int32_t (*ids)[2];
};

static void space_init(struct space *s, const double box[2][3], size_t slabs, double cutoff)
{
    s->cells[0] = (int)slabs;
    for (int d = 0; d < 3; d++) {
        s->low[d] = box[0][d];
        s->length[d] = box[1][d] - box[0][d];
        if (d > 0)
            s->cells[d] = (int)(s->length[d] / cutoff);
        if (s->cells[d] < 3 || s->length[d] / s->cells[d] < cutoff)
            stage_die("the box is not three times as large as the cut-off of %g", cutoff);
    }
    s->first = (int)(slabs * stage.rank / stage.size);
    s->own = (int)(slabs * (stage.rank + 1) / stage.size) - s->first;
}

static int cell_of(const struct space *s, int slab, const double *x)
{
    int at[3];

    for (int d = 1; d < 3; d++) {
        at[d] = (int)((x[d] - s->low[d]) / s->length[d] * s->cells[d]);
        if (at[d] >= s->cells[d])
            at[d] = s->cells[d] - 1;
    }
    return (slab * s->cells[1] + at[1]) * s->cells[2] + at[2];
}

/* What a helper has put. */
struct part {
    const int64_t *slab; /* where each one begins */
    const int32_t *id;
    const int32_t *type;
    const double (*x)[3];
};

static struct part *read_parts(port_t *in)
{
    struct part *parts = stage_alloc(NULL, port_writers(in), sizeof(*parts));

    for (uint32_t w = 0; w < port_writers(in); w++) {
        const void *slab, *id, *type, *x;
        size_t n = port_get(in, w, "id", "i32", 1, &id);

        port_get(in, w, "slab", "i64", 1, &slab);
        if (port_get(in, w, "type", "i32", 1, &type) != n ||
            port_get(in, w, "x", "f64", 3, &x) != n)
            stage_die("writer %u has arrays of different lengths", w);
        parts[w] = (struct part){slab, id, type, x};
    }
    return parts;
}

/* Visit the atoms of all slabs of this task: first to count those of each cell, then to put them in
 * their places. */
static void visit(struct space *s, const struct part *parts, uint32_t n, bool count)
{
    for (int slab = 0; slab <= s->own; slab++) {
        int global = (s->first + slab) % s->cells[0];

        for (const struct part *p = parts; p < parts + n; p++) {
            for (int64_t i = p->slab[global]; i < p->slab[global + 1]; i++) {
                size_t *cell = &s->begin[cell_of(s, slab, p->x[i]) + 1];

                if (count) {
                    ++*cell;
                    continue;
                }
                size_t at = --*cell;

                s->id[at] = p->id[i];
                s->type[at] = p->type[i];
                memcpy(s->x[at], p->x[i], sizeof(s->x[at]));
            }
        }
    }
}

static void space_read(port_t *in, struct space *s)
{
    struct part *parts = read_parts(in);
    size_t slab = (size_t)s->cells[1] * (size_t)s->cells[2];
    size_t cells = (size_t)(s->own + 1) * slab;

    s->begin = stage_alloc(s->begin, cells + 1, sizeof(*s->begin));
    memset(s->begin, 0, (cells + 1) * sizeof(*s->begin));
    visit(s, parts, port_writers(in), true);
    for (size_t c = 1; c <= cells; c++)
        s->begin[c] += s->begin[c - 1];
    s->n = s->begin[cells];
    if (s->n > s->room) {
        s->room = s->n + s->n / 8;
        s->id = stage_alloc(s->id, s->room, sizeof(*s->id));
        s->type = stage_alloc(s->type, s->room, sizeof(*s->type));
        s->x = stage_alloc(s->x, s->room, sizeof(*s->x));
    }
    visit(s, parts, port_writers(in), false);
    free(parts);
    /* What was the end of a cell is its beginning now. */
    memmove(s->begin, s->begin + 1, cells * sizeof(*s->begin));
    s->begin[cells] = s->n;
    s->mine = s->begin[(size_t)s->own * slab];
}

static bool near(const struct space *s, const double *a, const double *b, double cutoff)
{
    double sum = 0.;

    for (int d = 0; d < 3; d++) {
        double c = fabs(a[d] - b[d]);

        c = fmin(c, s->length[d] - c);
        sum += c * c;
    }
    return sum < cutoff * cutoff;
}

/* Pairs of an atom with those from `from` to `to`. */
static void pair_up(const struct space *s, struct pairs *p, size_t i, size_t from, size_t to,
                    double cutoff)
{
    if (p->n + (to - from) > p->room) {
        p->room = 2 * p->room + (to - from) + 1024;
        p->ids = stage_alloc(p->ids, p->room, sizeof(*p->ids));
    }
    for (size_t j = from; j < to; j++) {
        if (near(s, s->x[i], s->x[j], cutoff)) {
            p->ids[p->n][0] = s->id[i];
            p->ids[p->n][1] = s->id[j];
            p->n++;
        }
    }
}

static void find_pairs(const struct space *s, struct pairs *p, double cutoff)
{
    /* Steps to half of the cells around one: all of the next slab, and half of this one. */
    static const int half[13][3] = {{0, 0, 1},  {0, 1, -1}, {0, 1, 0},  {0, 1, 1}, {1, -1, -1},
                                    {1, -1, 0}, {1, -1, 1}, {1, 0, -1}, {1, 0, 0}, {1, 0, 1},
                                    {1, 1, -1}, {1, 1, 0},  {1, 1, 1}};
    const int *n = s->cells;

    p->n = 0;
    for (int c = 0; c < s->own * n[1] * n[2]; c++) {
        for (size_t i = s->begin[c]; i < s->begin[c + 1]; i++)
            pair_up(s, p, i, i + 1, s->begin[c + 1], cutoff);
        for (size_t k = 0; k < sizeof(half) / sizeof(half[0]); k++) {
            int slab = c / (n[1] * n[2]) + half[k][0];
            int y = (c / n[2] % n[1] + half[k][1] + n[1]) % n[1];
            int z = (c % n[2] + half[k][2] + n[2]) % n[2];
            int other = (slab * n[1] + y) * n[2] + z;

            for (size_t i = s->begin[c]; i < s->begin[c + 1]; i++)
                pair_up(s, p, i, s->begin[other], s->begin[other + 1], cutoff);
        }
    }
}

int main(int argc, char *argv[])
{
    struct space space = {0};
    struct pairs pairs = {0};
    double cutoff = 1.35, readers = 1;
    const struct stage_option options[] = {{.name = "cutoff", .min = 1e-6, .value = &cutoff},
                                           {.name = "readers", .min = 0., .value = &readers},
                                           {.name = NULL}};

    stage_init("bonds");
    stage_options(argc, argv, options);
    port_t *in = port_read("crack.slabs", NULL);
    port_t *out = port_write("crack.bonds", (uint32_t)readers);

    while (port_next(in)) {
        const void *box, *time, *begin;
        size_t slabs = port_get(in, 0, "slab", "i64", 1, &begin) - 1;

        port_get(in, 0, "box", "f64", 3, &box);
        port_get(in, 0, "time", "i64", 1, &time);
        space_init(&space, box, slabs, cutoff);
        space_read(in, &space);
        find_pairs(&space, &pairs, cutoff);
        port_put(out, "time", "i64", 1, 1, time);
        port_put(out, "box", "f64", 2, 3, box);
        port_put(out, "id", "i32", space.mine, 1, space.id);
        port_put(out, "type", "i32", space.mine, 1, space.type);
        port_put(out, "x", "f64", space.mine, 3, space.x);
        port_put(out, "pair", "i32", pairs.n, 2, pairs.ids);
        port_end(out);
        port_end(in);
    }
    port_finish(in, out);
    free(space.begin);
    free(space.id);
    free(space.type);
    free(space.x);
    free(pairs.ids);
    return 0;
}
