#!/bin/bash
# Starting an MPI program (MPICH) of 16, 64 and 256 tasks over four brokers beside mpiexec.hydra; ranks of
# Open MPI 4 on fewer cores than ranks beside mpirun --oversubscribe.
#
#     bench_mpi.sh [start] [share]     (default: both)
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ROUNDS=${BENCH_ROUNDS:-7}

# ms COMMAND...: milliseconds that a run says; runs beside it take turns
ms() {
    "$@" | awk '{ print 1000 * $1 }'
}
if [ "${1-}" = --share ]; then
    export FLUX_URI=$uri
    program=$2
    for ((i = 0; i < ROUNDS; i++)); do
        for nodes in 1 4; do
            ms "$FLUX" wreckrun --overcommit -N$nodes -n4 "$program" >>"$TMPDIR/$nodes"
        done
        ms mpirun.openmpi --oversubscribe -n 4 "$program" >>"$TMPDIR/mpirun"
    done
    ref=$(median <"$TMPDIR/mpirun")
    figure "1,000 allreduces, 4 ranks, one broker" "$(median <"$TMPDIR/1")" ms \
        "mpirun --oversubscribe" "$ref" "<=x1"
    figure "1,000 allreduces, 4 ranks, four brokers" "$(median <"$TMPDIR/4")" ms \
        "mpirun --oversubscribe" "$ref" "<=x1"
    exit
fi

[ $# -gt 0 ] || set -- start share
for part in "$@"; do
    case $part in
    start) bash "$(dirname "$0")/bench_jobs.sh" mpi ;;
    share)
        echo "-- share"
        if mpicc.openmpi -O1 -o "$TMPDIR/mpi_allreduce" "$SRCDIR/t/bench/mpi_allreduce.c" 2>/dev/null; then
            in_session 4 -- bash "$0" --share "$TMPDIR/mpi_allreduce"
        else
            echo "Open MPI is not installed"
        fi
        ;;
    *) echo "bench_mpi: no part '$part'" >&2; exit 1 ;;
    esac
done
