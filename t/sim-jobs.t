#!/usr/bin/env bash
# The services of jobs in the simulator: many seeds hold, a run can be replayed, and faults that are
# planted in what the services say to each other would be noticed.  FLUX_TEST_SEEDS=N: that many
# seeds.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"

SIM=$BUILDDIR/t/sim/sim
[ -x "$SIM" ] || skip_all "the simulator has not been built in $BUILDDIR"

# Sanitizers make it some ten times slower.
seeds=${FLUX_TEST_SEEDS:-150}
large=64
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || seeds=${FLUX_TEST_SEEDS:-16} large=32

plan 9

# What holds is told in a note, what does not with the line that replays it.
holds() {
    local what=$1
    shift
    if run "$SIM" --scenario=jobs "$@"; then
        pass "$what"
        note "$out"
    else
        note "$out $err" >&2
        fail "$what"
    fi
}
holds "$seeds seeds hold with 16 brokers, and some of them with $large" \
    --check="$seeds" --large="$large" --large-every=20
holds "as many hold with 3 brokers, where jobs have to wait" --check="$seeds" --size=3 --large=0
if run "$SIM" --scenario=feed --check="$seeds" --large=0; then
    pass "a log of jobs that is fed to the scheduler starts as the library says, job by job"
    note "$out"
else
    note "$out $err" >&2
    fail "a log of jobs that is fed to the scheduler starts as the library says, job by job"
fi
holds "one holds with 256 brokers" --seed=3 --size=256
# A fault that has no test but its seed: an attempt that had lost a node was over before its
# resources were on record, and they never were.
holds "what an attempt had that was over at once is on record" --seed=8136 --size=3

# Everything but the time that it took.
trace() {
    "$SIM" --scenario=jobs "$@" | sed 's/, [0-9.]* s:/:/'
}
is "$(trace --seed=7)" "$(trace --seed=7)" "the same seed gives the same run"

holds "faults planted in the services are noticed" --self-test --size=4
exits 1 "a failing run is a failure" "$SIM" --scenario=jobs --seed=1 --size=4 --plant=double-alloc
replay=$(sed -n 's/^replay: t.sim.sim //p' <<<"$out" | head -n 1)
failed=$(grep '^FAILED' <<<"$out" | head -n 1)
# shellcheck disable=SC2086 # the words of the line that was printed
run "$SIM" $replay
is "$(grep '^FAILED' <<<"$out")" "$failed" "and the line that it prints replays it"
