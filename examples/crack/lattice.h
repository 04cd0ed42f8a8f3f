/* lattice.h - the atoms of a step of crack.bonds, and who is bonded to whom. */
#ifndef CRACK_LATTICE_H
#define CRACK_LATTICE_H

#include "port.h"

/* Who is near whom: the neighbors of an atom, by number, are near[begin[i]] to near[begin[i + 1] -
 * 1], in rising order. */
struct adjacency {
    size_t *begin;
    uint32_t *near;
};

/* Atoms are numbered as LAMMPS does it; numbers that no atom has are of type 0. */
struct lattice {
    int64_t time;
    double length[3];
    uint32_t n;  /* all numbers are below it */
    size_t room; /* for atoms */
    size_t bonds_room;
    int32_t *type;
    double (*x)[3];
    struct adjacency bonds;
};

/* Read the step that a reader has begun. */
void lattice_read(struct lattice *l, port_t *in);
/* From atom `i` to `j`, on the shortest way through the periodic box. */
void lattice_vector(const struct lattice *l, uint32_t i, uint32_t j, double vector[3]);
bool adjacency_has(const struct adjacency *a, uint32_t i, uint32_t j);
void lattice_free(struct lattice *l);

#endif
