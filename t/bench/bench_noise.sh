#!/bin/bash
# What an idle session takes from the programs beside it: see bench_noise.c; and whether it takes it
# everywhere at the same moments: see bench_beat.c.
#
#     bench_noise.sh [SIZE]      (64)
#
# Every processor does units of a millisecond, for some seconds beside the session and for as long
# without one, in turn.  Which comes first changes from pair to pair.  The figure is the median of
# the pairs.
#
# Brokers work every 0.4 s.  The windows of 50 ms after these moments, and of 10 ms before them, are
# 15% of all time: this would be the part of the session's work there if it came at any time.  All of
# it is to come there.  The worst beat, and the line that says which brokers were late, tell whether a
# broker goes its own way or the host ran all of them late.
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

# shellcheck disable=SC2016 # for the inner shell
{
    read -r time time_least turns turns_least all_turns cpu
    read -r late
} < <(in_session "$size" -- sh -c '
    for rank in $(seq 0 $(($1 - 1))); do
        pids="${pids-} $("$2" getattr -r "$rank" broker.pid)"
    done
    sleep 3
    exec "$BENCH_DIR/bench_beat" 0.4 0.05 100 $pids' sh "$size" "$FLUX")
figure "an idle session" "$cpu" %core '' '' '<=1'
figure "turns of a broker on a processor, a second" \
    "$(awk -v n="$all_turns" -v size="$size" 'BEGIN { print n / size / 40 }')" ""
figure "its time within 50 ms of a beat" "$time" % "in the worst beat" "$time_least" ">=100"
figure "its turns within 50 ms of a beat" "$turns" % "in the worst beat" "$turns_least" ">=100"
echo "# brokers that were late, of 100 beats: $late"
