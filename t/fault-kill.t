#!/usr/bin/env bash
# Brokers, and flux start itself, killed with SIGKILL: what they were asked ends with a sentence,
# the rest of the session goes on, and nothing is left.
. "$(dirname "$0")/lib.sh"
need_flux start up ping barrier event wreckrun
SESSION_LIMIT=150
MODULES=--set=modules=log,hb,barrier

uri_of() {
    "$FLUX" getattr -r "$1" uri
}
# at URI COMMAND...: run it as a client of that broker, for at most 30 seconds.
at() {
    local uri=$1
    shift
    FLUX_URI=$uri run_with_timeout 30 "$@"
}
lost_is() {
    [[ $("$FLUX" up) == *"lost: $1" ]]
}
gone() {
    local pid
    for pid in "$@"; do
        [ ! -e "/proc/$pid" ] || [ "$(cut -d' ' -f3 "/proc/$pid/stat")" = Z ] || return 1
    done
}
no_rundirs() {
    [ -z "$(ls -A "$TMPDIR")" ]
}
# Wait for a command that was started in the background, and look at its end.
ended() {
    local pid=$1 log=$2 desc=$3
    wait "$pid"
    status=$?
    is "$status" 1 "$desc: ends with an error"
    like "$(cat "$log")" '(rank|connection|broker).* (lost|reached|gone|closed)' "$desc: says why"
}

# --- a leaf, with requests in flight -------------------------------------------------------------

# Those below a lost broker do not look for another one above (t/heal-tree.t).
hold 7 --topology=kary:2 "$MODULES" --set=heal.timeout=0 --set=orphan.timeout=$((60 * PATIENCE))s \
    --set=live.lost=60s
pids=()
uris=()
for i in 0 1 2 3 4 5 6; do
    pids+=("$(broker_pid "$i")")
    uris+=("$(uri_of "$i")")
done

"$FLUX" event sub >events.out 2>events.err &
sub=$!
wait_until 20 sh -c "'$FLUX' event pub some.thing '{}' && test -s events.out"
at "${uris[6]}" "$FLUX" barrier -n 3 -t 60 meeting >b6.out 2>b6.err &
b6=$!
"$FLUX" barrier -n 3 -t 60 meeting >b0.out 2>b0.err &
b0=$!
at "${uris[3]}" "$FLUX" barrier -n 2 -t 60 other >b3.out 2>b3.err &
b3=$!
# NAME NPROCS ENTERED: the barrier as the root knows it.
listed() {
    "$FLUX" barrier --list | finds -E "^$1 +$2 +$3 "
}
wait_until 20 listed meeting 3 2
wait_until 20 listed other 2 1
kill -STOP "${pids[6]}"
"$FLUX" ping -c 1 -t 60 6 >p0.out 2>p0.err &
p0=$!
at "${uris[3]}" "$FLUX" ping -c 1 -t 60 6 >p3.out 2>p3.err &
p3=$!
at "${uris[5]}" "$FLUX" ping --ring -c 1 -t 60 6 >p5.out 2>p5.err &
p5=$!
at "${uris[4]}" "$FLUX" getattr -r 6 rank >g4.out 2>g4.err &
g4=$!
is_waiting() {
    [ "$("$FLUX" module stats --json -r "$1" broker | grep -o '"inflight": *[0-9]*' | tr -dc 0-9)" -ge "$2" ]
}
wait_until 20 is_waiting 2 3
kill -KILL "${pids[6]}"
ended "$p0" p0.err "a ping from rank 0 to a killed leaf"
ended "$p3" p3.err "a ping from rank 3 to it"
ended "$p5" p5.err "a ping along the ring to it"
ended "$g4" g4.err "a request of another kind"
wait "$b6"
isnt $? 0 "a barrier's participant at the killed leaf ends"
like "$(cat b6.err)" "the connection to the broker was lost" "with a sentence"
wait "$b0"
is $? 1 "the barrier aborts for the others"
like "$(cat b0.err)" "(rank|aborted|lost)" "with a sentence"
ok "the loss is known" wait_until 20 lost_is 6
exits 1 "up" "$FLUX" up
like "$out" '6 of 7 up: 0-5.*lost: 6' "shows it"
exits 1 "up --json" "$FLUX" up --json
like "$out" '"lost": "6"' "shows it"
exits 1 "a new request to it" "$FLUX" ping -c 1 6
like "$err$out" '(rank 6|6!broker)' "names it"
exits 1 "a new request to it from elsewhere" at "${uris[3]}" "$FLUX" ping -c 1 6
exits 1 "along the ring" at "${uris[5]}" "$FLUX" ping --ring -c 1 6
exits 1 "a client of it" at "${uris[6]}" "$FLUX" up
like "$err" "no broker listens at .*/6/local" "is told"
ok "the event says so" wait_until 20 grep -q 'overlay.down.*"6"' events.out
kill -0 "$b3"
is $? 0 "a barrier without a participant there waits on"
ok "and completes" "$FLUX" barrier -n 2 -t 30 other
wait "$b3"
is $? 0 "for both"
ok "an event still reaches everybody" "$FLUX" event pub some.other '{}'
ok "the subscriber too" wait_until 20 grep -q some.other events.out

# --- an interior broker
# ----------------------------------------------------------------------------

kill -STOP "${pids[1]}"
"$FLUX" ping -c 1 -t 60 3 >p0.out 2>p0.err &
p0=$!
at "${uris[4]}" "$FLUX" ping -c 1 -t 60 0 >p4.out 2>p4.err &
p4=$!
at "${uris[3]}" "$FLUX" event pub some.thing '{}' >e3.out 2>e3.err &
e3=$!
wait_until 20 is_waiting 0 1
kill -KILL "${pids[1]}"
ended "$p0" p0.err "a ping through a killed interior broker"
wait "$p4"
status=$?
if [ "$status" = 1 ]; then
    like "$(cat p4.err)" '(rank|connection)' "a ping up through it ends with a sentence"
else
    is "$status" 0 "a ping up through it ends"
fi
wait "$e3"
status=$?
if [ "$status" = 1 ]; then
    like "$(cat e3.err)" '(rank|connection|broker).* (lost|reached|gone|closed)' "an event published below it: says why not"
else
    is "$status" 0 "an event published below it has found another way"
fi
ok "the loss of the subtree is known" wait_until 20 lost_is '1,3-4,6'
ok "an orphan serves its clients" at "${uris[3]}" "$FLUX" ping -c 1 3
ok "and is told what it is" at "${uris[3]}" "$FLUX" getattr rank
ok "an orphan reaches the rest along the ring" at "${uris[3]}" "$FLUX" ping -c 1 --ring 5
ok "by itself, where the tree is broken" at "${uris[3]}" "$FLUX" ping -c 1 4
like "$out" 'ring:3' "as the hops say"
ok "an orphan is reached along the ring" at "${uris[2]}" "$FLUX" ping -c 1 --ring 3
exits 1 "what has no way" "$FLUX" ping -c 1 3
like "$err" 'rank 3' "says so"
ok "an orphan's event passes the gap in the ring by the tree" at "${uris[4]}" "$FLUX" event pub an.orphan '{}'
ok "the subscriber gets it" wait_until 20 grep -q an.orphan events.out
exits 1 "an orphan's module" at "${uris[4]}" "$FLUX" barrier -n 2 -t 30 orphans
like "$err" "rank 4 has lost its parent, rank 1" "says why not"
ok "the rest goes on" at "${uris[5]}" "$FLUX" ping -c 3 -i 0 0
ok "a barrier of the rest" sh -c "'$FLUX' barrier -n 2 -t 30 rest & FLUX_URI=${uris[5]} '$FLUX' barrier -n 2 -t 30 rest && wait \$!"
kill "$sub"
release
is "$status" 0 "the session ends well"
ok "and its orphans with it" wait_until 20 gone "${pids[@]}"
ok "no file is left" wait_until 10 no_rundirs

# --- several at once, and orphans that are left alone
# ----------------------------------------------

hold 16 --topology=kary:2 "$MODULES" --set=heal.timeout=0 --set=orphan.timeout=1s
pids=()
for i in $(seq 0 15); do
    pids+=("$(broker_pid "$i")")
done
kill -KILL "${pids[3]}" "${pids[5]}" "${pids[11]}" "${pids[12]}" "${pids[14]}"
ok "five at once are lost, with their subtrees" wait_until 20 lost_is '3,5,7-8,11-12,14-15'
ok "orphans go down by themselves" wait_until 20 gone "${pids[7]}" "${pids[8]}" "${pids[15]}"
ok "the others are there" "$FLUX" ping -c 1 13
release
is "$status" 0 "the session ends well"
ok "no file is left" wait_until 10 no_rundirs

# --- rank 0
# ------------------------------------------------------------------------------------------

hold 7 --topology=kary:2 "$MODULES"
pids=()
for i in 0 1 2 3 4 5 6; do
    pids+=("$(broker_pid "$i")")
done
uri5=$(uri_of 5)
"$FLUX" ping -i 0.1 5 >p.out 2>p.err &
p0=$!
at "$uri5" "$FLUX" event sub >s.out 2>s.err &
s5=$!
ok "clients of ranks 0 and 5 are served" \
    wait_until 20 sh -c "'$FLUX' event pub some.thing '{}' && test -s s.out && test -s p.out"
kill -KILL "${pids[0]}"
ok "without rank 0 all brokers are gone within seconds" wait_until 15 gone "${pids[@]}"
wait "$_held_pid"
is $? 137 "flux start says by which signal"
like "$(cat "$_held/err")" 'broker 0 was killed' "and with a sentence"
wait "$p0"
isnt $? 0 "clients of rank 0 end"
like "$(cat p.err)" "the connection to the broker was lost" "with a sentence"
wait "$s5"
isnt $? 0 "clients of other ranks end"
like "$(cat s.err)" "the connection to the broker was lost" "with a sentence"
unset FLUX_URI
ok "the initial program is gone" wait_until 15 no_processes
ok "no file is left" wait_until 10 no_rundirs

# --- flux start itself
# -------------------------------------------------------------------------------

mkfifo fifo
# shellcheck disable=SC2016 # for the inner shell
"$FLUX" start --size=5 --topology=kary:2 sh -c 'echo $$ >program.pid
    "$0" wreckrun -N5 -n5 sh -c "echo \$\$ >task.\$PMI_RANK; exec sleep 1000" &
    while [ "$(cat task.* | wc -l)" -lt 5 ]; do sleep 0.05; done 2>/dev/null
    for i in 0 1 2 3 4; do "$0" getattr -r $i broker.pid; done >pids.tmp; mv pids.tmp pids
    exec cat fifo' "$FLUX" >start.out 2>start.err &
start=$!
ok "a session is up" wait_until 30 test -s pids
mapfile -t pids <pids
mapfile -t -O 5 pids <program.pid
mapfile -t -O 6 pids < <(cat task.*)
is "${#pids[@]}" 11 "with tasks on all ranks"
kill -KILL "$start"
wait "$start"
ok "without flux start brokers, tasks and initial program are gone within seconds" \
    wait_until 15 gone "${pids[@]}"
ok "and everything else" wait_until 15 no_processes
ok "no file is left" wait_until 10 no_rundirs

# --- while it comes up
# -------------------------------------------------------------------------------

# Whenever a rank dies, either the session was up already and the program runs to its end, or flux
# start fails with a sentence; it never hangs, and leaves nothing.
failed=0
bad=0
for sockets in 0 0 0 4 12 24 36 48; do # how far the start has come: two for each broker
    for victim in 0 13; do
        "$FLUX" start --size=24 --topology=kary:2 "$MODULES" sh -c 'exit 42' >up.out 2>up.err &
        start=$!
        children=()
        # As soon as there is such a broker: a moment later it may have met the others.
        while [ "${#children[@]}" -le "$victim" ] && kill -0 "$start" 2>/dev/null; do
            read -r -a children <"/proc/$start/task/$start/children"
        done 2>/dev/null
        while [ "$(find "$TMPDIR" -type s | wc -l)" -lt "$sockets" ] && kill -0 "$start" 2>/dev/null; do
            :
        done 2>/dev/null
        [ "${#children[@]}" -le "$victim" ] || kill -KILL "${children[$victim]}" 2>/dev/null
        if ! wait_until 60 gone "$start"; then
            bad=$((bad + 1))
            kill -KILL "$start"
        fi
        wait "$start"
        code=$?
        if [ "$code" = 1 ] || [ "$code" = 137 ]; then
            failed=$((failed + 1))
            grep -qE "broker|rank" up.err || {
                bad=$((bad + 1))
                note "$sockets sockets, victim $victim: exit code $code without a sentence"
            }
        elif [ "$code" != 42 ]; then
            bad=$((bad + 1))
            note "$sockets sockets, victim $victim: exit code $code: $(cat up.err)"
        fi
    done
done
note "$failed of 16 sessions failed to come up"
ok "some failed" [ "$failed" -gt 0 ]
is "$bad" 0 "a rank that dies while the session comes up: an error with a sentence, or no harm"
ok "no file is left" wait_until 10 no_rundirs
finish
