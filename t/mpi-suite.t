#!/usr/bin/env bash
# The test suite of mpi4py, unmodified, under five MPI libraries: as many tests pass as with their
# own launchers.
#
# SUITE_RUNS: ranks and brokers of each run (default 3/4; in CI four runs; in make soak, or with
# "all", all from 1/1 to 5/4). SUITE_MODULES: which modules, by a regular expression (default those
# that depend on the launcher; make soak: all; the others test the library alone).
# shellcheck disable=SC2154 # set by run and by suite.sh
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
# shellcheck source=t/mpi/wheels.sh
. "$SRCDIR/t/mpi/wheels.sh"
# shellcheck source=t/mpi/suite.sh
. "$SRCDIR/t/mpi/suite.sh"
# shellcheck source=t/mpi/leftovers.sh
. "$SRCDIR/t/mpi/leftovers.sh"
# These programs are other people's, and sanitized brokers only make them slow: t/mpi-pmix.t and its like
# have what the launcher does for them.
[ -z "${FLUX_TEST_SANITIZERS-}" ] || [ -n "${SOAK_TIME-}" ] || skip_all "with sanitizers it runs in make soak"
suite_get || skip_all "$wheel_why"
# The PMIx server has the libpmix of Open MPI 5 loaded before the sanitizer's runtime, which can
# live with that.
[ -z "${FLUX_TEST_SANITIZERS-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0"

ALL_RUNS="1/1 2/1 3/1 5/1 1/4 2/4 3/4 5/4"
if [ -n "${SOAK_TIME-}" ]; then
    SUITE_RUNS=${SUITE_RUNS:-$ALL_RUNS}
    SUITE_MODULES=${SUITE_MODULES-.}
    LIMIT=600
else
    SUITE_RUNS=${SUITE_RUNS:-3/4}
    [ "$SUITE_RUNS" != all ] || SUITE_RUNS=$ALL_RUNS
    SUITE_MODULES=${SUITE_MODULES-$SUITE_LAUNCHER}
    LIMIT=100
fi
export SESSION_LIMIT=$((LIMIT * 6))

# passes LIBRARY RANKS BROKERS
passes() {
    local mpi_env=() nodes=$(($2 < $3 ? $2 : $3))
    suite_of "$1"
    # What is known to be wrong in the library, whoever launches it.
    case $1/$3 in
    openmpi4/4) suite_tests+=(-x '*TestWinAllocateWorld*') ;; # windows over several nodes
    esac
    # Spawned processes spin beside those that wait for them: minutes on two cores.  t/mpi-spawn.t
    # has its own.
    [ -n "${SOAK_TIME-}" ] || mpi_env=(MPI4PY_TEST_SPAWN=0)
    run_watched "$LIMIT" "${suite_env[@]}" "${mpi_env[@]}" "$FLUX" wreckrun --overcommit \
        --exclusive -N"$nodes" -n"$2" "${suite_tests[@]}" </dev/null >suite.out 2>&1
    suite_status=$?
    [ "$suite_status" -eq 0 ] && suite_counts suite.out "$2"
}

for brokers in 1 4; do
    [[ " $SUITE_RUNS" == *"/$brokers"* ]] || continue
    hold "$brokers" --set=wrexec.share-hosts=no
    own_directories
    for run in $SUITE_RUNS; do
        [ "${run#*/}" = "$brokers" ] || continue
        for library in "${SUITE_LIBRARIES[@]}"; do
            desc="$library, ${run%/*} ranks, $brokers brokers"
            if ! suite_use "$library"; then
                skip 1 "$wheel_why"
                continue
            fi
            SECONDS=0
            if passes "$library" "${run%/*}" "$brokers"; then
                pass "$desc: $suite_count tests"
            else
                fail "$desc: the suite passes"
                note "$(grep -aE '^(ERROR|FAIL|Ran)' suite.out | sort | uniq -c | head -n 20)"
                note "$(tail -c 4000 suite.out)"
                # With more of these the limit of this test would end it without a word.
                case $suite_status in
                124 | 137)
                    release
                    bail "$desc: the suite does not end"
                    ;;
                esac
            fi
            note "$desc: $SECONDS s"
        done
    done
    release
    is "$status" 0 "a session of $brokers ends well"
done
nothing_in_shm
finish
