#!/usr/bin/env bash
# The service of streams in the simulator: writers and readers join, leave and die, brokers fail, and
# everybody is told what is. FLUX_TEST_SEEDS=N: that many seeds; `make soak` has 1000, from SOAK_SEED.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

SIM=$BUILDDIR/t/sim/sim
[ -x "$SIM" ] || skip_all "the simulator has not been built in $BUILDDIR"

seeds=${FLUX_TEST_SEEDS:-100}
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || seeds=${FLUX_TEST_SEEDS:-16}
[ -z "${SOAK_TIME:-}" ] || seeds=1000

plan 4

# What holds is told in a note, what does not with the line that replays it.
holds() {
    local what=$1
    shift
    if run "$SIM" --scenario=streams "$@"; then
        pass "$what"
        note "$out"
    else
        note "$out $err" >&2
        fail "$what"
    fi
}
holds "$seeds seeds hold with 16 brokers, and some of them with 128" \
    --check="$seeds" --seed="${SOAK_SEED:-1}" --large=128 --large-every=50
holds "as many hold with 3 brokers" --check="$seeds" --seed="${SOAK_SEED:-1}" --size=3 --large=0
trace() {
    "$SIM" --scenario=streams "$@" | sed 's/, [0-9.]* s:/:/'
}
is "$(trace --seed=7)" "$(trace --seed=7)" "the same seed gives the same run"
holds "faults planted in what the service says are noticed" --self-test
