#!/usr/bin/env bash
# Streams while they run: pause, resume, throttle, policies, switches, and what readers are told to be.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
. "$SRCDIR/t/stream/lib.sh"

hold 1

# A stream that is paused before its writer comes.
peer r 0 read paced timeout=60
wait_until 20 has paced readers 1
ok "flux stream pause" "$FLUX" stream pause paced
has paced paused true
is $? 0 "flux stream ls says so"
peer w 0 write paced 5 0 1
wait_until 20 above paced held 0
is "$(field paced step)" 0 "a writer waits while its stream is paused"
ok "flux stream resume" "$FLUX" stream resume paced
wait "${pid[w]}" "${pid[r]}"
is "$(tail -n 2 r.out | tr '\n' ' ')" "0-4 5 the end " "and goes on when it is resumed"

# One that runs already.
peer w 0 write runs 100000000 0 1
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
for rate in 0 nan 1e-9 1e99; do
    exits 2 "a rate of $rate" "$FLUX" stream throttle runs $rate
    like "$err" "RATE is a number of steps a second, 1e-06 to 1e\\+09, or none" "is refused"
done

# The first steps of one that is throttled before its writer comes.
peer r 0 read slow timeout=60
wait_until 20 has slow readers 1
"$FLUX" stream throttle slow 0.001
peer w 0 write slow 5 0 1
wait_until 20 above slow held 0
is "$(field slow step)" 1 "one step is published at once, and the next one waits"
"$FLUX" stream throttle slow none
wait "${pid[w]}" "${pid[r]}"

# Readers: who they are, what they have got, and another policy.
peer w 0 write stuck 3000 0 1 ready=1
opened w
peer r 0 read stuck ready=1
opened r
go w
wait_until 20 above stuck blocked 0
run "$FLUX" stream readers --json stuck
like "$out" "\"pid\": ${pid[r]}," "flux stream readers lists a reader"
like "$out" '"policy": "block"' "and its policy"
behind() {
    out=$("$FLUX" stream readers --json stuck)
    [ "$(sed -n 's/.*"queue": \([0-9]*\).*/\1/p' <<<"$out")" -gt 200000 ] && ! grep -q '"blocked": 0\.0,' <<<"$out"
}
wait_until 20 behind
pass "and what waits for it at the writer, and how long the writer has waited for it"
like "$out" '"connections": 0,' "without TCP"
reader=$(sed -n 's/.*"reader": \([0-9]*\),.*/\1/p' <<<"$out")
"$FLUX" module reload stream # whose next instance gets the requests of writers and readers
wait_until 20 has stuck writers 1
wait_until 20 has stuck readers 1
ok "flux stream policy" "$FLUX" stream policy stuck "$reader" latest
ended w 1
is "$last" "open " "lets a writer go on that the reader blocks"
like "$("$FLUX" stream readers stuck)" " latest " "is listed"
exits 2 "a policy that is none" "$FLUX" stream policy stuck "$reader" never
like "$err" "'never' is not a policy" "is refused"
exits 1 "the policy of a reader that is none" "$FLUX" stream policy stuck 1 latest
like "$err" "has no reader 1" "is an error"
go r
ended r
is "$last" "2999-2999 1 the end " "the reader goes on with the newest step"

# A switch: a reader costs nothing while it is off.
peer w 0 write gated 100000000 0 1
"$FLUX" stream cat --switch=gate --var=n --count=2 gated >gate.out &
cat=$!
wait_until 20 has gated readers 1
step=$(field gated step)
wait_until 20 above gated step "$step"
is "$(field gated bytes)" 0 "nothing is written for a reader that is off"
is "$("$FLUX" stream readers --json gated | grep -c '"on": false')" 1 "flux stream readers says that it is"
ok "flux stream switch on" "$FLUX" stream switch gate on
wait $cat
is $? 0 "the reader reads when the switch is on"
"$FLUX" stream cat --switch=gate --var=n --count=1 gated >gate2.out
is $? 0 "so does one that comes later"
"$FLUX" stream cat --switch=gate gated >/dev/null &
cat=$!
wait_until 20 above gated asked 0
pass "what readers ask for is counted"
above gated copied 0
is $? 0 "so is what was copied"
off() {
    "$FLUX" stream readers --json gated | grep -q '"on": false'
}
"$FLUX" module reload stream
wait_until 20 off
wait_until 20 above gated step 0
step=$(field gated step)
wait_until 20 above gated step "$step"
step=$(field gated step)
bytes=$(field gated bytes)
wait_until 20 above gated step "$step"
is "$(field gated bytes)" "$bytes" "a reload forgets which switches are on, and readers are off"
ok "flux stream switch on after a reload" "$FLUX" stream switch gate on
wait_until 20 above gated bytes "$bytes"
"$FLUX" event pub stream.switch '{"name": "gate", "on": false}'
wait_until 20 off
pass "a switch is an event"
exits 2 "a switch that is neither on nor off" "$FLUX" stream switch gate open
"$FLUX" stream rm gated
wait $cat
ended w

# How a writer ended that is a task of a job: what the session knows of that, a moment later.
job=$("$FLUX" submit -n 1 "$PEER" write cause 20 0 1 wait=2 crash=7)
peer r 0 read cause
peer s 0 read cause stay=1
ended r
is "$last" "0-6 7 stream 'cause': rank 0 of writer job $job ended by signal 9 in step 7 " \
    "a reader learns how the task ended that wrote"
like "$("$FLUX" stream ls cause)" "rank 0 of writer job $job ended by signal 9" "and so is flux stream ls"
job=$("$FLUX" submit -n 1 sh -c "'$PEER' write cause 20 0 1 wait=1 crash=7 start=append; exit 3")
exited() {
    "$FLUX" stream ls cause | grep -q "rank 0 of writer job $job ended with exit code 3"
}
wait_until 20 exited
pass "a task that only had started the writer"
"$FLUX" stream rm cause
ended s
like "$last" "the end" "a reader that stays sees the end of a stream that is removed"

release
is "$status" 0 "the session ends well"
finish
