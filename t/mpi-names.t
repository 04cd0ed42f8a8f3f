#!/bin/bash
# Names that MPI jobs publish for each other, over PMI-1.
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
need mpicc.mpich
. "$SRCDIR/t/mpi/mpi_names.sh"
mpicc.mpich -O1 -o mpi_names "$SRCDIR/t/mpi/mpi_names.c" >cc.log 2>&1 || skip_all "mpicc.mpich does not work"

hold 4
mpi_names --env=WHAT=names
names_left
long=$(printf 'x%.0s' {1..250})
run "$FLUX" wreckrun -n2 ./mpi_names once "$long" "$long"
is "$status" 0 "a name and a port of 250 bytes"
run "$FLUX" wreckrun -n1 ./mpi_names once "dots.and/slashes~%" p
is "$status" 0 "a name with what keys cannot have"
names_left
release
finish
