#!/usr/bin/env bash
# Brokers that host none of its tasks are killed while a program of Debian's Open MPI begins, and
# while it runs: it ends with the right answers.
# shellcheck disable=SC2154 # set by lib.sh and heal.sh
# shellcheck source=t/mpi/own_shm.sh
. "$(dirname "$0")/mpi/own_shm.sh"
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun
need mpicc.openmpi
# Its libpmi.so has no sanitizer; a program without one cannot load ours that has.
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || skip_all "MPI programs cannot load a libpmi.so with sanitizers"
# shellcheck source=t/mpi/leftovers.sh
. "$SRCDIR/t/mpi/leftovers.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 # there are more ranks than processors
mpicc.openmpi -O1 -o mpi_rounds "$SRCDIR/t/mpi/mpi_rounds.c" >cc.log 2>&1 || skip_all "mpicc.openmpi does not work"

lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
further() {
    wait_until 60 lines "$1" $(($(wc -l <"$1") + 10))
}
kinds=(pmi)
if [ -x "$BUILDDIR/src/pmixd/flux-pmixd" ]; then
    kinds+=(pmix)
fi
for kind in "${kinds[@]}"; do
    # Ranks 4 and 7 are below rank 1, and rank 7 is below rank 3.
    hold 8 --topology=kary:2
    of_all 8
    rm -f stop
    "$FLUX" wreckrun "--mpi=$kind" --overcommit --ranks=4-7 -N4 -n4 ./mpi_rounds 4 stop >"$kind.out" 2>"$kind.err" &
    job=$!
    wait_until 60 lines "$kind.out" 10 || bail "the program does not run: $(cat "$kind.err")"
    kill -KILL "${pids[1]}"
    ok "$kind: a program goes on when a broker dies between its nodes" further "$kind.out"
    touch stop
    ok "it ends well" wait "$job"
    "$FLUX" wreckrun "--mpi=$kind" --overcommit --ranks=4-7 -N4 -n4 ./mpi_rounds 4 stop >begun.out 2>begun.err &
    job=$!
    kill -KILL "${pids[3]}"
    ok "so does one that begins while a broker dies" wait "$job"
    is "$(cat "$kind.out" begun.out | grep -c ': right$')" 8 "with the right answers of all"
    is "$(cat "$kind.err" begun.err)" "" "without complaint"
    release
    is "$status" 0 "the session ends well"
done
finish
