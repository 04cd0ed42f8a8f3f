#!/usr/bin/env bash
# flux barrier: named barriers across ranks, and what breaks them.
. "$(dirname "$0")/lib.sh"
need_flux start barrier

hold 4 --topology=kary:2 --set=modules=log,hb,barrier
for rank in 0 1 2 3; do
    uri[rank]=$("$FLUX" getattr --rank=$rank uri)
done

ok "one alone" "$FLUX" barrier --nprocs=1 alone
pids=()
for rank in 0 1 2; do
    FLUX_URI=${uri[rank]} "$FLUX" barrier together >"b$rank" 2>&1 &
    pids+=($!)
done
ok "a list shows who is waited for" wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'together +4 +3 +[^ ]+ +0-2 +3\$'"
like "$("$FLUX" barrier --list --json)" '"waits_for": *"3"' "in JSON, too"
is "$(jobs -r | grep -c together)" 3 "three of four wait"
FLUX_URI=${uri[3]} ok "the fourth comes" "$FLUX" barrier together
wait "${pids[@]}"
is $? 0 "and all go on"

# Twenty times the same name, two at each rank.
again() {
    local i
    FLUX_URI=${uri[$1]}
    export FLUX_URI
    for ((i = 0; i < 20; i++)); do
        "$FLUX" barrier -n 8 again || return 1
    done
}
pids=()
for rank in 0 1 2 3 0 1 2 3; do
    again "$rank" &
    pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do
    wait "$pid" || failed=$((failed + 1))
done
is "$failed" 0 "a name is used repeatedly"

"$FLUX" barrier -n 3 -t 20 wrong 2>wrong.err &
pid=$!
wait_until 10 sh -c "'$FLUX' module stats barrier | grep -q 'barriers.*1'"
exits 1 "participants that do not agree" "$FLUX" barrier -n 2 -t 20 wrong
wait "$pid"
is $? 1 "fail all"
like "$(cat wrong.err)" "wrong" "with a sentence"

"$FLUX" barrier -n 3 dies &
victim=$!
FLUX_URI=${uri[3]} "$FLUX" barrier -n 3 -t 20 dies 2>dies.err &
pid=$!
# Both have entered: what dies before it has entered is not missed.
wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'dies +3 +2 '"
disown "$victim"
kill -KILL "$victim"
wait "$pid"
is $? 1 "a participant that dies fails the barrier"
like "$(cat dies.err)" "barrier .dies. was aborted: a participant of rank 0 went away" "with a sentence"
exits 1 "a time limit" "$FLUX" barrier -n 2 -t 0.1 never
like "$err" 'no response within' "says so"
exits 2 "no name" "$FLUX" barrier
exits 2 "no processes" "$FLUX" barrier -n 0 x
exits 2 "a list of one" "$FLUX" barrier --list x
exits 2 "JSON of nothing" "$FLUX" barrier --json x

# Rank 3 is lost before anybody has entered there.
"$FLUX" barrier -t 100 missing 2>missing.err &
pid=$!
"$FLUX" barrier -n 2 --ranks=2-3 -t 100 two 2>two.err &
other=$!
wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'missing +4 +1 +[^ ]+ +0 +1-3\$'"
is "$("$FLUX" barrier -l | awk '$1 == "two" { print $6 }')" 2-3 "it is waited for"
kill -KILL "$(FLUX_URI=${uri[3]} "$FLUX" getattr broker.pid)"
wait "$pid"
is $? 1 "a rank that is lost before it enters fails the barrier"
like "$(cat missing.err)" "rank 3 is lost" "with its name"
wait "$other"
is $? 1 "also one of other ranks that was told where its participants are"
fails "the next one fails at once" "$FLUX" barrier -t 100 missing
like "$err" "rank 3 is lost" "says so, too"

release
is "$status" 0 "the session ends well"

# Nobody says where participants are, and a rank is lost that may have had one.
hold 3 --topology=flat --set=modules=log,barrier --set=barrier.grace=1s
"$FLUX" barrier -n 2 -t 100 unnamed 2>unnamed.err &
pid=$!
wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'unnamed +2 +1 +[^ ]+ +0 +-\$'"
kill -KILL "$("$FLUX" getattr -r 2 broker.pid)"
wait "$pid"
is $? 1 "a barrier without ranks fails when it stays incomplete after a loss"
like "$(cat unnamed.err)" "'unnamed' was aborted: 1 of 2 processes entered, .* at ranks 2, which are lost" \
    "with what is known"
release
hold 3 --topology=flat --set=modules=log,barrier --set=barrier.grace=1d
"$FLUX" barrier -n 2 -t 100 unnamed &
pid=$!
wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'unnamed +2 +1 +[^ ]+ +0 +-\$'"
kill -KILL "$("$FLUX" getattr -r 2 broker.pid)"
ok "until then the list shows the lost rank" \
    wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'unnamed +2 +1 +[^ ]+ +0 +2\$'"
"$FLUX" barrier -n 2 -t 100 later &
other=$!
ok "also for a barrier that begins after the loss" \
    wait_until 30 sh -c "'$FLUX' barrier --list | grep -Eq 'later +2 +1 +[^ ]+ +0 +2\$'"
ok "which can still complete" "$FLUX" barrier -n 2 -t 100 later
ok "for both" wait "$other"
ok "as can the first one" "$FLUX" barrier -n 2 -t 100 unnamed
ok "for both of its processes" wait "$pid"
release
finish
