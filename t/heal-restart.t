#!/usr/bin/env bash
# flux start --restart: brokers that die are started again, and the session goes on with them.
# shellcheck disable=SC2016,SC2034,SC2154 # eval expands, and uses; set by hold and release
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
# shellcheck source=t/kvs/lib.sh
. "$SRCDIR/t/kvs/lib.sh"
need_flux start up wreckrun kvs exec ping resource overlay barrier
need_programs kvs_client

# again RANK N: its N-th broker is up.
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}
pid_of() {
    "$FLUX" getattr -r "$1" broker.pid
}

exits 2 "it needs --size" "$FLUX" start --restart true
for setting in link.transport=zmq tcp.address=127.0.0.1 tcp.interface=lo; do
    exits 2 "and UNIX sockets: not with $setting" "$FLUX" start --size=2 --restart --set=$setting true
done

hold 8 --topology=kary:2 --restart --set=orphan.timeout=0.1s --set=leave.jobs=wait --set=overlay.settle=0
ok "the session is up" wait_until 30 up_is "8 of 8 up: 0-7"
"$FLUX" kvs put before=1
"$FLUX" wreckrun -N1 -n1 sh -c 'while [ ! -e enough ]; do sleep 0.05; done; echo whole' >job.out 2>job.err &
job=$!

kill -KILL "$(pid_of 5)"
ok "a leaf that was killed is started again" wait_until 30 again 5 2
ok "the session is whole" wait_until 30 up_is "8 of 8 up: 0-7"
ok "it takes jobs" wait_until 30 "$FLUX" wreckrun -N8 -n8 true
like "$(cat "$_held/err")" "broker 5 is started again in 0.1 s" "flux start says so"

mapfile -t below < <(for rank in 3 4 7; do pid_of $rank; done)
kill -KILL "$(pid_of 1)"
ok "so is one inside the tree" wait_until 60 again 1 2
is "$(for rank in 3 4 7; do pid_of $rank; done | xargs)" "${below[*]}" "those below it live"
ok "the session is whole" wait_until 30 up_is "8 of 8 up: 0-7"
like "$("$FLUX" up --long)" $'\n *3 +up +0 +1 +1(\n|$)' "they are below the next one above"
like "$("$FLUX" up --long)" $'\n *1 +up +0 +1 +2(\n|$)' "and nobody is below it when it is back"
ok "the first job on all of them runs" run_with_timeout 30 "$FLUX" wreckrun -N8 -n8 true
is "$("$FLUX" exec -r 4 "$FLUX" kvs get before)" 1 "the store is known there"
ok "the ring is whole" "$FLUX" ping --ring -c 1 5

"$FLUX" exec -r 7 "$FLUX" ping -c 300 -i 0.005 0 >ping.out 2>ping.err &
ping=$!
"$FLUX" kvs put stream=before
"$FLUX" exec -r 4 "$FLUX" kvs watch -c 2 stream >watch.out 2>watch.err &
watch=$!
ok "a stream from below" wait_until 30 grep -q before watch.out
ok "requests from below" wait_until 30 test -s ping.out
"$FLUX" exec -r 4 "$FLUX" barrier -n 3 -t 60 meeting >barrier.4 2>&1 &
first=$!
ok "a barrier that was entered below" wait_until 30 eval '"$FLUX" barrier --list | finds meeting'
"$FLUX" exec -r 4 "$CLIENT" fence together 3 >fence.4 2>&1 &
fence=$!
ok "and a fence" wait_until 30 eval '"$FLUX" kvs fences | finds together'
run "$FLUX" overlay restore 1
is "$status $out" "0 moved: 3-4" "those that were below it return to it on request"
like "$("$FLUX" up --long)" $'\n *3 +up +1 +2 +1(\n|$)' "they are below it again"
"$FLUX" kvs put stream=after
ok "requests go on meanwhile" wait "$ping"
like "$(tail -n 1 ping.out)" 300 "all were answered"
ok "the stream, too" wait "$watch"
is "$(xargs <watch.out)" "before after" "nothing in it is lost or repeated"
"$FLUX" exec -r 4 "$FLUX" barrier -n 3 -t 60 meeting >barrier.4b 2>&1 &
second=$!
ok "the barrier, too" "$FLUX" exec -r 1 "$FLUX" barrier -n 3 -t 60 meeting
ok "for all" wait "$second"
ok "for tasks that began before the move, too" wait "$first"
"$FLUX" exec -r 4 "$CLIENT" fence together 3 >fence.4b 2>&1 &
second=$!
ok "the fence" "$FLUX" exec -r 1 "$CLIENT" fence together 3
ok "for all" wait "$second"
ok "for the call of before, too" wait "$fence"
ok "nothing is left to be moved" test -z "$("$FLUX" overlay restore)"
exits 2 "RANKS are ranks" "$FLUX" overlay restore 99
ok "it takes jobs" wait_until 30 "$FLUX" wreckrun -N8 -n8 true
kill -KILL "$(pid_of 1)"
ok "it dies again" wait_until 60 again 1 3
ok "those below it live again" wait_until 30 up_is "8 of 8 up: 0-7"
like "$("$FLUX" up --long)" $'\n *3 +up +0 +1 +1(\n|$)' "where they were"

run "$FLUX" overlay restart 5-6
is "$status $out" "0 rank 5 is up again
rank 6 is up again" "a rolling restart"
ok "of one after the other" again 6 2
ok "no drain is left" test -z "$("$FLUX" resource drain -j | grep leaving)"
fails "not of rank 0" "$FLUX" overlay restart 0-1
like "$err" "rank 0 cannot be restarted" "with a sentence"
kill -KILL "$(pid_of 5)"
ok "a second time" wait_until 30 again 5 4
kill -TERM "$(pid_of 5)"
ok "one that leaves is not started again" wait_until 30 up_is "7 of 8 up: 0-4,6-7; left: 5"
touch enough
wait "$job"
is $? 0 "a job on another node has noticed nothing"
is "$(cat job.out)" whole "its output is whole"

begun=$(grep -c "is started again" "$_held/err")
kill -TERM "$(pid_of 2)"
ok "one that leaves leaves alone" wait_until 30 up_is "6 of 8 up: 0-1,3-4,6-7; left: 2,5"
like "$("$FLUX" up --long)" $'\n *6 +up +0 ' "the one below it is below the next one above"
is "$(grep -c "is started again" "$_held/err")" "$begun" "it is not started again"

id=$("$FLUX" submit -N1 -n1 --ranks=7 sleep 1000)
ok "a job runs on rank 7" wait_until 30 eval '"$FLUX" jobs -n -o state "$id" | finds running'
"$FLUX" overlay restart 7 >restart.out 2>&1 &
restart=$!
ok "a restart waits for it" wait_until 30 eval '"$FLUX" resource drain | finds leaving.*restart'
kill -TERM "$(pid_of 7)"
ok "a signal ends the waiting, and the restart" wait_until 30 up_is "5 of 8 up: 0-1,3-4,6; left: 2,5,7"
is "$(grep -c "is started again" "$_held/err")" "$begun" "it is not started again, either"
kill "$restart" 2>/dev/null
wait "$restart"
release
is "$status" 0 "the session ends well"

# Rank 1 has come back, and has its subtree again.  So rank 3, when it loses the broker above it,
# connects to the new broker of rank 1, of which it has heard from above.
hold 5 --topology=chain --restart --set=overlay.settle=0
ok "a chain is up" wait_until 30 up_is "5 of 5 up: 0-4"
kill -KILL "$(pid_of 1)"
ok "a broker inside it is started again" wait_until 30 again 1 2
is "$("$FLUX" overlay restore 1)" "moved: 2" "it gets its subtree back"
ok "those below that have heard of it" run_with_timeout 30 "$FLUX" ping -c 1 3
kill -KILL "$(pid_of 2)"
ok "the next one, too" wait_until 30 again 2 2
ok "those below it are below the one that has come back" wait_until 30 below 3 1
is "$(grep -c "refused" "$_held/err")" 0 "no broker was refused"
release
is "$status" 0 "the session ends well"
finish
