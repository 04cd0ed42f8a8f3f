#!/usr/bin/env bash
# Brokers inside the tree are killed: those below them keep their clients and modules, and connect to
# the next broker above.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up topo wreckrun kvs barrier event ping

published() { # the numbers of the events that the subscriber has seen
    cut -f 1 <seen
}

hold 8 --topology=kary:2 --set=orphan.timeout=0.1s
of_all 8
at 7 event sub --confirm some end >seen 2>seen.err &
subscriber=$!
wait_until 30 grep -q subscribed seen.err || bail "no subscription"
"$FLUX" kvs put before=1
"$FLUX" wreckrun -N1 -n1 sh -c 'while [ ! -e enough ]; do sleep 0.05; done; echo whole' >job.out 2>job.err &
job=$!
at 7 ping -i 0.01 0 >ping.out 2>ping.err &
ping=$!
wait_until 30 test -s ping.out

kill -KILL "${pids[1]}"
ok "only the one that was killed is lost" wait_until 30 up_is "7 of 8 up: 0,2-7; lost: 1"
ok "one below it has another parent" wait_until 30 below 3 0
ok "so has the other one" wait_until 30 below 4 0
ok "those below these have theirs" below 7 3
like "$("$FLUX" topo)" '1 \(lost\)' "flux topo shows it"
is "$(at 7 kvs get before)" 1 "the store is there"
ok "what is put there" at 7 kvs put after=2
is "$("$FLUX" kvs get after)" 2 "is seen elsewhere"
at 7 barrier -n 2 -t 60 meeting >barrier.7 2>&1 &
barrier=$!
ok "a barrier" at 4 barrier -n 2 -t 60 meeting
ok "for both" wait "$barrier"
ok "they take jobs" wait_until 30 "$FLUX" wreckrun -N7 -n7 true
for rank in 2 3 4 7; do
    ok "rank $rank is reached" at 5 ping -c 1 "$rank"
    ok "and reaches the others" at "$rank" ping -c 1 6
    ok "rank $rank is reached along the ring, across the gap" at 5 ping -c 1 --ring "$rank"
    ok "and reaches the others" at "$rank" ping -c 1 --ring 6
done
fails "the lost rank is not" at 5 ping -c 1 --ring 1
ok "an event from there" at 7 event pub some.thing '{}'
ok "reaches the subscriber there" wait_until 30 grep -q some.thing seen

kill -KILL "${pids[3]}"
ok "another one: below the root, now" wait_until 30 below 7 0
ok "two are lost" wait_until 30 up_is "6 of 8 up: 0,2,4-7; lost: 1,3"
ok "the store is there" at 7 kvs put third=3
ok "they take jobs" wait_until 30 "$FLUX" wreckrun -N6 -n6 true
"$FLUX" event pub end '{}'
ok "the subscriber sees the last event" wait_until 30 grep -q end seen
is "$(published | sort -n | uniq -d)" "" "none of them twice"
is "$(published)" "$(published | sort -n)" "and all in order"
unlike "$(cat seen)" event.lost "none was lost"
kill "$subscriber" "$ping"
wait "$subscriber" "$ping" 2>/dev/null
touch enough
wait "$job"
is $? 0 "a job on another node has noticed nothing"
is "$(cat job.out)" whole "its output is whole"
release
is "$status" 0 "the session ends well"

# --- several at once, in a chain
# ------------------------------------------------------------------

hold 7 --topology=chain --set=modules=log,barrier
of_all 7
kill -KILL "${pids[2]}" "${pids[3]}"
ok "those below two that are killed together" wait_until 30 below 4 1
ok "live" at 6 ping -c 1 0
ok "both are lost in the end" wait_until 60 up_is "5 of 7 up: 0-1,4-6; lost: 2-3"
kill -KILL "${pids[1]}"
ok "again" wait_until 30 below 4 0
ok "those that live have barriers" sh -c "FLUX_URI=${uris[6]} '$FLUX' barrier -n 2 -t 60 b & FLUX_URI=${uris[4]} '$FLUX' barrier -n 2 -t 60 b && wait \$!"
release
is "$status" 0 "the session ends well"

# --- all children of the root at once
# ------------------------------------------------------------------

hold 15 --topology=kary:2 --set=modules=log,barrier
of_all 15
kill -KILL "${pids[1]}" "${pids[2]}"
for rank in 3 4 5 6; do
    ok "rank $rank, below one of them, is below the root" wait_until 30 below "$rank" 0
done
for rank in 7 8 9 10 11 12 13 14; do
    ok "rank $rank is where it was" below "$rank" $(((rank - 1) / 2))
done
ok "nobody else is lost" wait_until 30 up_is "13 of 15 up: 0,3-14; lost: 1-2"
at 14 barrier -n 2 -t 60 far >barrier.14 2>&1 &
barrier=$!
ok "a barrier across the two subtrees" at 7 barrier -n 2 -t 60 far
ok "... for both" wait "$barrier"
ok "one subtree reaches the other" at 9 ping -c 1 12
release
is "$status" 0 "the session ends well"
finish
