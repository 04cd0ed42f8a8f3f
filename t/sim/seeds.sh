# shellcheck shell=bash disable=SC2154 # set by run
# Many seeds of every scenario, in two halves; to be sourced after lib.sh:
#
#     seeds_hold 1|2    one test line: all scenarios hold for each seed of the first or the second half
#     seeds_again       one for each seed that has once shown a fault

# SCENARIO SEED WHAT: what the session did then.  A seed stands for another run once a scenario draws
# other things, so a fault that has no test but its seed is looked for anew then.
failed_once=(
    "launch 2000431 lost output that a node had sent when its parent died, and then a broker above"
    "launch 2002535 lost output of a job that stores it, likewise"
    "launch 2031830 failed a job because a broker between left slowly"
    "launch 20138 told of a job that had lost a node that a barrier had failed"
    "launch 200258 told of a job that had lost a node that its PMI data could not be read"
    "heal 2004051 ended the subtree of an orphan that counted as lost"
    "heal 2005277 let a later request overtake one that waited for an orphan"
    "apart 2001626 never welcomed a rank that two brokers had waited for"
    "jobs 2381 ended a wait that had come again past a lost broker when the loss was noticed above it"
    "history 1663 had two instances of the store wait for each other's objects"
    "history 178 kept requests whose end was told by another way"
    "history 2489 did so when a broker was started again"
    "barrier 200082 began a use of a name anew with what belonged to one that had ended before the last one"
    "streams 372 lost the way to a reader when an earlier copy of its request came after a later one"
    "streams 2119 sent a request again whose cancel had arrived"
    "history 2692 ended an orphan that only the broker it asked counted as lost"
)

SIM=$BUILDDIR/t/sim/sim
[ -x "$SIM" ] || skip_all "the simulator has not been built in $BUILDDIR"

seeds_hold() {
    # Sanitizers make it some ten times slower.  More seeds: t/sim/sim --check=N --seed=S.
    local seeds=100 every=4 first
    if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
        seeds=10
        every=6
    fi
    first=$((1 + ($1 - 1) * seeds))
    if run "$SIM" --check="$seeds" --seed="$first" --large-every="$every"; then
        pass "$seeds seeds from $first on hold"
        note "$out"
    else
        note "$out $err" >&2
        fail "$seeds seeds from $first on hold"
    fi
}

seeds_again() {
    local scenario seed what
    for what in "${failed_once[@]}"; do
        read -r scenario seed what <<<"$what"
        ok "$scenario holds with seed $seed, which $what" \
            "$SIM" --scenario="$scenario" --seed="$seed" --even-clocks
    done
}
