#!/usr/bin/env bash
# A session in one thread: many seeds of every scenario hold.  These are the second half of the
# seeds; t/sim.t runs the first, beside this one.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/sim/seeds.sh
. "$SRCDIR/t/sim/seeds.sh"

plan $((2 + ${#failed_once[@]}))
seeds_hold 2
seeds_again

# The session is parted, or brokers stand still, and all of them come back.
parted=${FLUX_TEST_SANITIZERS:+10}
ok "parts of a session that are cut off for a while come back" \
    "$SIM" --scenario=parted --check="${parted:-60}" --seed=1 --large=0
note "$out"
