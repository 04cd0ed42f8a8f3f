#!/bin/bash
# Debian's Open MPI, unmodified, over brokers, by PMI-1.
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
need mpicc.openmpi
export SESSION_LIMIT=200
# Its libpmi.so has no sanitizer; a program without one cannot load ours that has.
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || skip_all "MPI programs cannot load a libpmi.so with sanitizers"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
. "$SRCDIR/t/mpi/mpi_jobs.sh"
MPI_BY=--mpi=pmi # t/mpi-pmix.t has the rest
mpi_jobs mpicc.openmpi
