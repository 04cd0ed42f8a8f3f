#!/bin/bash
# PMI without brokers: real MPI libraries and the C API over the server in pmi_launch.
. "$(dirname "$0")/lib.sh"

LAUNCH=$BUILDDIR/src/common/libpmi/test/pmi_launch
EXCHANGE=$BUILDDIR/src/common/libpmi/test/pmi_exchange
LIBPMI=$BUILDDIR/src/common/libpmi/.libs/libpmi.so

if ! [ -x "$LAUNCH" ] || ! [ -x "$EXCHANGE" ] || ! [ -e "$LIBPMI" ]; then
    skip_all "pmi_launch is not built"
fi

# right_lines N OUTPUT: N lines, each of which says so
right_lines() {
    [ "$(grep -c 'right$' <<<"$2")" -eq "$1" ]
}

run "$EXCHANGE" "$LIBPMI"
is "$out" "rank 0 size 1 clique 1 sum 0" "the C API works alone"
run env PMI_SPAWNED=1 "$EXCHANGE" "$LIBPMI"
is "$out" "spawned rank 0 size 1 clique 1 sum 0" "PMI_Init reports to a spawned process that it is one"

run "$LAUNCH" -n 6 -N 2 -l "$LIBPMI" "$EXCHANGE"
is "$status" 0 "6 tasks on 2 nodes exchange cards through the C API"
is "$(grep -c 'size 6 clique 3 sum 15' <<<"$out")" 6 "each knows the job, its node and all cards"

run "$LAUNCH" -p -n 6 -l "$LIBPMI" "$EXCHANGE"
is "$(grep -c 'size 6 clique 6 sum 15' <<<"$out")" 6 "the same through PMI_PORT"

run env PMI_FD=9 "$EXCHANGE" "$LIBPMI"
is "$status" 1 "PMI_FD without PMI_RANK is not taken for a singleton"
like "$err" "PMI_RANK is missing" "... and a sentence says why"

nm -D --defined-only "$LIBPMI" >symbols 2>/dev/null
is "$(awk '{print $3}' symbols | grep -vc '^PMI_')" 0 "libpmi.so shows PMI_ names only"

MPI_SRC=$SRCDIR/t/mpi/mpi_ring.c
if [ -n "${FLUX_TEST_SANITIZERS:-}" ] && [ "$FLUX_TEST_SANITIZERS" != no ]; then
    libpmi_loads=
else
    libpmi_loads=yes
fi

if mpicc.mpich -O1 -o ring.mpich "$MPI_SRC" >cc.log 2>&1; then
    for n in 1 4 16; do
        run "$LAUNCH" -n $n ./ring.mpich $n
        ok "MPICH: $n ranks" right_lines $n "$out"
    done
    run "$LAUNCH" -n 4 -N 2 ./ring.mpich 4
    ok "MPICH: 4 ranks on 2 nodes" right_lines 4 "$out"
    run "$LAUNCH" -p -n 4 ./ring.mpich 4
    ok "MPICH: 4 ranks through PMI_PORT" right_lines 4 "$out"
    run "$LAUNCH" -n 2 ./ring.mpich 3
    is "$status" 1 "MPICH: MPI_Abort ends the job with its code"
else
    skip 6 "no MPICH"
fi

if [ -n "$libpmi_loads" ] && mpicc.openmpi -O1 -o ring.ompi "$MPI_SRC" >cc.log 2>&1; then
    allow_left "ompi.*"
    for n in 1 4; do
        run "$LAUNCH" -n $n -l "$LIBPMI" ./ring.ompi $n
        ok "Open MPI: $n ranks" right_lines $n "$out"
    done
    run "$LAUNCH" -n 4 -N 2 -l "$LIBPMI" ./ring.ompi 4
    ok "Open MPI: 4 ranks on 2 nodes" right_lines 4 "$out"
else
    skip 3 "no Open MPI, or a library with sanitizers which it cannot load"
fi
finish
