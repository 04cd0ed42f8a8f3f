#!/bin/bash
# Starting an MPI program of 16, 64 and 256 tasks (MPICH 4), or 16 tasks (other libraries), over
# four brokers; and ranks in 1,000 allreduces on one broker and on four; beside the launcher of each
# library (mpiexec.hydra, mpirun --oversubscribe).
#
#     bench_mpi.sh [start] [share]     (default: both)
#
# Libraries: MPICH 4 and Open MPI 4 of Debian; MPICH 5, Open MPI 5 and Intel MPI from PyPI.  A
# library that cannot be had says why.  There are four ranks, on however few cores; with MPICH 4,
# which spins, two.
# shellcheck disable=SC2154 # set by suite.sh
uri=${FLUX_URI-} # of the session it runs in: bench_lib.sh starts without
. "$(dirname "$0")/bench_lib.sh"
. "$SRCDIR/t/mpi/wheels.sh"
. "$SRCDIR/t/mpi/suite.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ROUNDS=${BENCH_ROUNDS:-7}

# compiler LIBRARY: sets suite_env, `own` (its launcher) and `cc` (a compiler for it); 1 with
# $wheel_why
compiler() {
    own=(mpiexec.hydra)
    case $1 in
    openmpi4) own=(mpirun.openmpi --oversubscribe) ;;
    openmpi5) own=(mpirun --oversubscribe) ;;
    esac
    # Intel's wheel has no compiler: its library takes the place of MPICH's.
    if [ "$1" = intel ]; then
        suite_use mpich5 || return 1
        cc=$suite_dir/bin/mpicc
        suite_use intel
        return
    fi
    suite_use "$1" || return 1
    case $1 in
    mpich4) cc=mpicc.mpich ;;
    openmpi4) cc=mpicc.openmpi ;;
    *) cc=$suite_dir/bin/mpicc ;;
    esac
}

# build LIBRARY PROGRAM: sets `program`, and what compiler() sets; else prints why not
build() {
    program=$TMPDIR/$2.$1
    if ! compiler "$1"; then
        echo "$1: $wheel_why"
        return 1
    elif ! "$cc" -O1 -o "$program" "$SRCDIR/t/bench/$2.c" 2>/dev/null; then
        echo "$1: $cc does not work"
        return 1
    fi
}

# said TIMES COMMAND...: the seconds that each run says, in milliseconds, into a file
said() {
    local file=$1
    shift
    "${suite_env[@]}" "$@" </dev/null | awk '{ print 1000 * $1 }' >>"$file"
}

# took TIMES COMMAND...: the milliseconds that a run takes
took() {
    local file=$1 begin=$EPOCHREALTIME
    shift
    "${suite_env[@]}" "$@" </dev/null >/dev/null || return
    awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print 1000 * (b - a) }' >>"$file"
}

# rounds ROUNDS RANKS said|took NODES...: runs beside each other take turns
rounds() {
    local rounds=$1 ranks=$2 how=$3 nodes i
    shift 3
    rm -f "$TMPDIR"/times.*
    for ((i = 0; i < rounds; i++)); do
        for nodes in "$@"; do
            $how "$TMPDIR/times.$nodes" "$FLUX" wreckrun --overcommit --cpu-affinity=off \
                -N"$((nodes < ranks ? nodes : ranks))" -n"$ranks" "$program" || return
        done
        $how "$TMPDIR/times.own" "${own[@]}" -n "$ranks" "$program" || return
    done
}

# compare LIBRARY NAME RANKS ROUNDS said|took NODES...
compare() {
    local library=$1 name=$2 ranks=$3 rounds=$4 nodes ref
    shift 4
    if ! rounds "$rounds" "$ranks" "$@"; then
        echo "$library -n$ranks, $name: a run failed"
        return
    fi
    ref=$(median <"$TMPDIR/times.own")
    for nodes in "${@:2}"; do
        figure "$library -n$ranks, $name, $nodes broker(s)" "$(median <"$TMPDIR/times.$nodes")" ms \
            "${own[0]}" "$ref" "<=x1"
    done
}

if [ "${1-}" = --inside ]; then
    export FLUX_URI=$uri
    for library in "${SUITE_LIBRARIES[@]}"; do
        ranks=4
        [ "$library" != mpich4 ] || ranks=2
        if [ "$2" = share ]; then
            build "$library" mpi_allreduce &&
                compare "$library" allreduces "$ranks" "$ROUNDS" said 1 4
        elif [ "$library" != mpich4 ]; then
            build "$library" mpi_hello && compare "$library" start 16 "${BENCH_ROUNDS:-3}" took 4
        fi
    done
    exit
fi

[ $# -gt 0 ] || set -- start share
for part in "$@"; do
    case $part in
    start)
        bash "$(dirname "$0")/bench_jobs.sh" mpi
        in_session 4 -- bash "$0" --inside start
        ;;
    share)
        echo "-- share"
        in_session 4 -- bash "$0" --inside share
        ;;
    *) echo "bench_mpi: no part '$part'" >&2 && exit 1 ;;
    esac
done
