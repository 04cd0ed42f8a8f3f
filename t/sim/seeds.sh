# shellcheck shell=bash disable=SC2154 # set by run
# Many seeds of every scenario, in two halves; to be sourced after lib.sh:
#
#     seeds_hold 1|2    one test line: all scenarios hold for each seed of the first or the second half

SIM=$BUILDDIR/t/sim/sim
[ -x "$SIM" ] || skip_all "the simulator has not been built in $BUILDDIR"

seeds_hold() {
    # Sanitizers make it some ten times slower.  More seeds: t/sim/sim --check=N --seed=S.
    local seeds=100 every=4 first
    if [ -n "${FLUX_TEST_SANITIZERS:-}" ]; then
        seeds=15
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
