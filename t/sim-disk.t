#!/usr/bin/env bash
# A session in one thread whose rank 0 loses its power, and is started anew on its disk, which has what
# was synced, and of the rest what the seed says: many seeds hold, a run can be replayed, and a disk or
# a driver that lies is noticed.  FLUX_TEST_SEEDS=N: that many seeds; `make soak` has 1000 of each size,
# from SOAK_SEED, and t/sim/soak.t 10,000 with 16 brokers.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

SIM=$BUILDDIR/t/sim/sim
[ -x "$SIM" ] || skip_all "the simulator has not been built in $BUILDDIR"

seeds=${FLUX_TEST_SEEDS:-30}
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || seeds=${FLUX_TEST_SEEDS:-3}
[ -z "${SOAK_TIME:-}" ] || seeds=1000

plan 4

# What holds is told in a note, what does not with the line that replays it.
holds() {
    local what=$1
    shift
    if run "$SIM" --scenario=disk --seed="${SOAK_SEED:-1}" "$@"; then
        pass "$what"
        note "$out"
    else
        note "$out $err" >&2
        fail "$what"
    fi
}
holds "$seeds seeds hold with 8 brokers" --check="$seeds" --size=8 --large=0
holds "as many hold with one" --check="$seeds" --size=1 --large=0
trace() {
    "$SIM" --scenario=disk "$@" | sed 's/, [0-9.]* s:/:/'
}
is "$(trace --seed=7)" "$(trace --seed=7)" "the same seed gives the same run"
# The power has to fail between an early answer and the sync: with seed 80 it does.
holds "a driver that answers early and a disk that has not synced are noticed" --self-test --size=4 --seed=80
