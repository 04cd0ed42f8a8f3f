#!/usr/bin/env bash
# What make check has no time for, in the session in one thread: many seeds of every scenario (that
# of streams has a test of its own), and a hundredth of 16384 brokers that die at once,
# after which all others go on.  SOAK_SEED: the first seed; SOAK_SEEDS: that many.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/../lib.sh"

SIM=$BUILDDIR/t/sim/sim
[ -x "$SIM" ] || skip_all "the simulator has not been built in $BUILDDIR"
first=${SOAK_SEED:-1}
seeds=${SOAK_SEEDS:-10000}

plan 6

# holds WHAT OPTION...: what does not hold is shown with the line that replays it.
holds() {
    local what=$1
    shift
    if run "$SIM" --seed="$first" "$@"; then
        pass "$what"
        note "$out"
    else
        note "$out $err" >&2
        fail "$what"
    fi
}
holds "$seeds seeds of every scenario hold" --check="$seeds" --large-every=50
holds "as many of the scenario of jobs" --scenario=jobs --check="$seeds" --large=64 --large-every=200
holds "as many of a log of jobs" --scenario=feed --check="$seeds" --large=0
holds "as many of parts of the network that are cut off, and come back" --scenario=parted \
    --check="$seeds" --large-every=50
holds "as many of losses of power, with brokers that stand still" --scenario=disk --check="$seeds" \
    --large-every=50
holds "164 of 16384 brokers die at once, and all others go on" --scenario=many --size=16384 \
    --topology=kary:16
