#!/bin/bash
# What an idle session takes from the programs beside it: see bench_noise.c.
#
#     bench_noise.sh [SIZE]      (64)
#
# Every processor does units of a millisecond, for some seconds beside the session and for as long
# without one, in turn.  Which comes first changes from pair to pair.  The figure is the median of
# the pairs.
. "$(dirname "$0")/bench_lib.sh"

size=${1:-64}
PAIRS=9
SECONDS_EACH=3
turns=$("$BENCH_DIR/bench_noise" calibrate)

alone() {
    read -r units_alone slow_alone <<<"$("$BENCH_DIR/bench_noise" "$turns" $SECONDS_EACH)"
}
# The session has come up, and nobody asks it for anything.
# shellcheck disable=SC2016 # for the inner shell
beside() {
    read -r units_beside slow_beside <<<"$(in_session "$size" -- \
        sh -c 'sleep 2; exec "$BENCH_DIR/bench_noise" "$@"' sh "$turns" $SECONDS_EACH)"
}

echo "# an idle session of $size beside a program on every processor"
for ((pair = 0; pair < PAIRS; pair++)); do
    if [ $((pair % 2)) = 0 ]; then
        alone
        beside
    else
        beside
        alone
    fi
    awk -v a="$units_alone" -v b="$units_beside" 'BEGIN { print (a - b) * 100 / a }' >>"$TMPDIR/lost"
    echo "$slow_alone" >>"$TMPDIR/alone"
    echo "$slow_beside" >>"$TMPDIR/beside"
done
figure "units of 1 ms that are lost" "$(median <"$TMPDIR/lost")" % '' '' '<=0.5'
figure "a unit, p99.9" "$(median <"$TMPDIR/beside")" us "without a session" "$(median <"$TMPDIR/alone")"
