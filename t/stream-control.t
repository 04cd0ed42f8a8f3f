#!/usr/bin/env bash
# Streams while they run: pause, resume and throttle.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start stream
PEER=$BUILDDIR/t/stream/peer

hold 1 --set=modules=log,barrier,stream

# peer NAME ARGUMENT...: start one in the background.
declare -A pid
peer() {
    local name=$1
    shift
    "$PEER" "$@" </dev/null >"$name.out" &
    pid[$name]=$!
}
# A number of a stream, as flux stream ls has it.
field() {
    "$FLUX" stream ls --json "$1" 2>/dev/null | sed -n "s/.*\"$2\": \([0-9.a-z]*\).*/\1/p"
}
has() {
    [ "$(field "$1" "$2")" = "$3" ]
}
above() {
    awk -v a="$(field "$1" "$2")" -v b="$3" 'BEGIN {exit !(a + 0 > b)}'
}

# A stream that is paused before its writer comes.
peer r read paced timeout=60
wait_until 20 has paced readers 1
ok "flux stream pause" "$FLUX" stream pause paced
has paced paused true
is $? 0 "flux stream ls says so"
peer w write paced 5 0 1
wait_until 20 above paced held 0
is "$(field paced step)" 0 "a writer waits while its stream is paused"
ok "flux stream resume" "$FLUX" stream resume paced
wait "${pid[w]}" "${pid[r]}"
is "$(tail -n 2 r.out | tr '\n' ' ')" "0-4 5 the end " "and goes on when it is resumed"

# One that runs already.
peer w write runs 100000000 0 1
wait_until 20 above runs step 0
"$FLUX" stream pause runs
wait_until 20 above runs held 0
step=$(field runs step)
wait_until 20 above runs held "$(field runs held)"
is "$(field runs step)" "$step" "a stream that runs is paused"
"$FLUX" stream resume runs
wait_until 20 above runs step "$step"
ok "flux stream throttle" "$FLUX" stream throttle runs 0.001
is "$(field runs limit)" 0.001 "flux stream ls has the limit"
wait_until 20 above runs held "$(field runs held)"
step=$(field runs step)
wait_until 20 above runs held "$(field runs held)"
is "$(field runs step)" "$step" "a stream is throttled"
ok "flux stream throttle none" "$FLUX" stream throttle runs none
wait_until 20 above runs step "$((step + 1000))"
pass "a stream that is not throttled any more runs on at once"
"$FLUX" stream pause runs
wait_until 20 above runs held "$(field runs held)"
ok "flux stream rm of one that is paused" "$FLUX" stream rm runs
wait "${pid[w]}"
is "$(tail -n 1 w.out)" "error: stream 'runs' was removed" "is an error of the writer"
exits 1 "flux stream pause of what is not there" "$FLUX" stream pause runs
like "$err" "no stream 'runs'" "says so"
exits 2 "a rate that is none" "$FLUX" stream throttle runs -1
exits 1 "a rate that is too small" "$FLUX" stream throttle runs 1e-9
like "$err" "1e-06 to 1e\\+09 steps a second" "is refused"

release
is "$status" 0 "the session ends well"
finish
