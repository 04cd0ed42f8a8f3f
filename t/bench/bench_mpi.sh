#!/bin/bash
# Starting an MPI program (MPICH) of 16, 64 and 256 tasks over four brokers beside mpiexec.hydra.
exec bash "$(dirname "$0")/bench_jobs.sh" mpi
