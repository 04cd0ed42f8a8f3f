#!/bin/bash
# Debian's MPICH, unmodified, over brokers.
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
need mpicc.mpich
export SESSION_LIMIT=200
. "$SRCDIR/t/mpi/mpi_jobs.sh"
mpi_jobs mpicc.mpich
