#!/usr/bin/env bash
# A broker inside the tree is killed while services are at work for those below it: nobody who takes
# part is lost, so a barrier and a fence go on, streams go on, and what may be asked twice is answered.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun kvs barrier dmesg logger
CLIENT=$BUILDDIR/t/kvs/kvs_client
[ -x "$CLIENT" ] || skip_all "t/kvs/kvs_client has not been built"

two_of_three() {
    "$FLUX" barrier --list >barriers && grep -Eq '^meeting +3 +2 ' barriers
}
fence_of() {
    "$FLUX" kvs fences >listed && grep -Eq "^primary +all +7 +$1 " listed
}
running() {
    id=$("$FLUX" jobs -n -s running -o '{id}') && [[ $id ]]
}

hold 8 --topology=kary:2
of_all 8

# Ranks 3 and 7 are below rank 1, and rank 7 is below rank 3.
"$FLUX" kvs put counter=0
at 7 kvs watch counter >watch.out 2>watch.err &
watch=$!
at 7 dmesg -f -r 0 >dmesg.out 2>dmesg.err &
dmesg=$!
"$FLUX" logger "line of before"
wait_until 30 grep -q "line of before" dmesg.out
"$FLUX" wreckrun -N1 -n1 sh -c 'while [ ! -e enough ]; do sleep 0.05; done' >job.out 2>job.err &
job=$!
wait_until 30 running || bail "the job does not run"
at 7 wreck wait "$id" >wait.out 2>&1 &
waits=$!
entering=()
for rank in 4 7; do
    at "$rank" barrier -n 3 -t 60 meeting >"barrier.$rank" 2>&1 &
    entering+=($!)
done
wait_until 30 two_of_three || bail "they do not enter"
# A fence of all ranks but the one that dies, whose calls come from above and below it.
fences=()
for rank in 2 3 4 5 6 7; do
    FLUX_URI=${uris[rank]} run_with_timeout 60 "$CLIENT" fence all 7 "all.$rank=$rank" >"fence.$rank" 2>&1 &
    fences+=($!)
done
wait_until 30 fence_of 6 || bail "the fence does not gather"
wait_until 30 grep -q 0 watch.out
# Commits, 64 at a time, pass through the dead broker, and through one that lives.
"$FLUX" kvs put log=""
FLUX_URI=${uris[7]} run_with_timeout 60 "$CLIENT" append log enough.appended >append.out 2>append.err &
appends=$!
lines() {
    "$FLUX" kvs get log >appended && (($(wc -l <appended) > $1))
}
wait_until 30 lines 100 || bail "nothing is appended"

kill -KILL "${pids[1]}"
ok "those below the one that was killed have another parent" wait_until 30 below 3 0
ok "all of them" wait_until 30 below 4 0
ok "the barrier waits" two_of_three
ok "the last one enters it" "$FLUX" barrier -n 3 -t 60 meeting
ok "those below the dead broker leave it" wait "${entering[@]}"
is "$(cat barrier.4 barrier.7)" "" "without complaint"
"$CLIENT" fence all 7 all.0=0 >fence.0
ok "a fence is complete with the last call" wait "${fences[@]}"
is "$(cat fence.[2-7] | sort -u | wc -l)" 1 "and is one for all"
is "$("$FLUX" kvs ls all | tr -s '[:space:]' ' ')" "0 2 3 4 5 6 7 " "with every call"
"$FLUX" kvs put counter=1
ok "who watches a value there sees the next one" wait_until 30 grep -q 1 watch.out
is "$(cat watch.err)" "" "without complaint"
"$FLUX" logger "line of after"
ok "who follows a log elsewhere goes on" wait_until 30 grep -q "line of after" dmesg.out
is "$(cat dmesg.err)" "" "without complaint"
is "$(grep -c 'line of' dmesg.out)" 2 "and sees each line once"
before=$(wc -l <appended)
wait_until 30 lines $((before + 1000))
touch enough.appended
ok "whoever was committing when a broker died on the way is told that all commits were applied" \
    wait "$appends"
is "$(cat append.err)" "" "without complaint"
"$FLUX" kvs get log >appended
{ seq "$(cat append.out)" && echo; } >numbers
ok "each of them once, in order" cmp appended numbers
touch enough
ok "who waits for a job" wait "$waits"
ok "hears of its end" wait "$job"
kill "$watch" "$dmesg"
wait "$watch" "$dmesg" 2>/dev/null
# Another broker stops before it dies: requests from below it are on their way through it.
under_way() {
    local stats
    stats=$(at 5 module stats -r 5 broker 2>&1) || return
    inflight=$(sed -n 's/.*[[:space:]]inflight[[:space:]]*//p' <<<"$stats")
    [ "${inflight:-0}" -ge "$1" ]
}
asked=("jobs -a" "jobs --why" "kvs get counter" "kvs ls" "kvs namespace list" "resource list"
    "resource status" "queue list" "dmesg" "getattr -r 0 size" "module list -r 0"
    "module stats -r 0 kvs" "live history" "topo" "wreck ls")
asking=()
wait_until 30 under_way 1 || bail "requests that are under way are not counted"
before=$inflight
kill -STOP "${pids[2]}"
for i in "${!asked[@]}"; do
    # shellcheck disable=SC2086 # the words of the command
    at 5 ${asked[i]} >"asked.$i" 2>&1 &
    asking+=($!)
done
wait_until 30 under_way $((before + ${#asked[@]} / 2))
kill -KILL "${pids[2]}"
for i in "${!asked[@]}"; do
    ok "flux ${asked[i]}, under way through a broker that dies, is answered" wait "${asking[i]}"
done
is "$(cat asked.2)" "1" "what was asked for is the answer"
release
is "$status" 0 "the session ends well"
finish
