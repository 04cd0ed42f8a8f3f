#!/usr/bin/env bash
# A session in one thread: many seeds of every scenario hold.  These are the second half of the
# seeds; t/sim.t runs the first, beside this one.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/sim/seeds.sh
. "$SRCDIR/t/sim/seeds.sh"

plan $((1 + ${#failed_once[@]}))
seeds_hold 2
seeds_again
