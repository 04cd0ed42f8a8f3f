#!/bin/bash
# flux wreckrun: signals, time limits, clients and launchers that die, and nothing left behind.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
hold 4

# A job of sleepers in the background; its own environment does not carry the mark.
sleepers() {
    local mark=$1 n=$2
    shift 2
    rm -f err.txt
    "$FLUX" wreckrun -N"$n" --env=MARK="$mark.$$" "$@" 2>err.txt &
    pid=$!
    wait_until 10 marked_count "$mark" "$n"
}

for sig in INT TERM HUP USR1 QUIT; do
    sleepers "$sig" 4 sleep 100
    kill -$sig $pid
    wait $pid
    is $? $((128 + $(kill -l $sig))) "SIG$sig is forwarded, and is the exit code"
    ok "... nothing is left" wait_until 5 unmarked "$sig"
done

# shellcheck disable=SC2016 # the task's shell expands it
sleepers stubborn 2 sh -c 'trap "echo got it >&2" INT; touch trapped.$FLUX_TASK_RANK
    while :; do sleep 0.1; done'
wait_until 10 test -e trapped.0 -a -e trapped.1
kill -INT $pid
# SIGINTs that tasks have handled.
handled() {
    [ "$(grep -c 'got it' err.txt)" -ge "$1" ]
}
ok "a task may handle SIGINT" wait_until 5 handled 2
ok "... and goes on" kill -0 $pid
sleep 2.1
kill -INT $pid
ok "a second one after more than 2 s is forwarded, too" wait_until 5 handled 4
ok "... and the command goes on" kill -0 $pid
# On a busy host it may be longer than 2 s between two.
wait_until 10 interrupted $pid
wait $pid
is $? 137 "two within 2 s kill"
ok "... everything" wait_until 5 unmarked stubborn

start=$SECONDS
exits 124 "a time limit" "$FLUX" wreckrun -N4 -t 300ms --env=MARK=limit.$$ sleep 100
like "$err" "time limit of 0.3" "... is named"
ok "... is kept" test $((SECONDS - start)) -lt 90
ok "... nothing is left" unmarked limit
exits 124 "a time limit for a task that ignores SIGTERM" "$FLUX" wreckrun -n1 -t 100ms \
    --env=MARK=limit2.$$ sh -c 'trap "" TERM; while :; do sleep 0.1; done'
ok "... nothing is left" unmarked limit2
exits 3 "a job that ends within its limit" "$FLUX" wreckrun -n1 -t 1h sh -c 'exit 3'

# What a task leaves behind dies with the job.
# shellcheck disable=SC2016 # the task's shell expands it
exits 0 "a task that leaves processes behind" "$FLUX" wreckrun -N2 --env=MARK=daemon.$$ sh -c '
    sleep 100 &
    setsid sh -c "sleep 100 & sleep 100 & wait" &
    (setsid sh -c "exec sleep 100 >/dev/null 2>&1 </dev/null" &)
    exit 0'
ok "... is over at once, and they with it" unmarked daemon
sleepers other 2 sleep 100
run "$FLUX" wreckrun -N2 --env=MARK=daemon2.$$ sh -c 'setsid sleep 100 & exit 0'
ok "the same beside another job" unmarked daemon2
ok "... which goes on" marked_count other 2
kill -TERM $pid
wait $pid

# A client that dies.
sleepers orphan 4 sleep 100
kill -KILL $pid
ok "SIGKILL of the client ends its job" wait_until 10 unmarked orphan
# shellcheck disable=SC2016 # the task's shell expands it
sleepers orphan2 2 sh -c 'trap "" TERM; while :; do sleep 0.1; done'
kill -KILL $pid
ok "... also a job that ignores SIGTERM" wait_until 15 unmarked orphan2

# A launcher that dies.
launchers() {
    local pid
    for pid in $(grep -lazxsF "FLUX_TEST_ID=$FLUX_TEST_ID" /proc/[0-9]*/environ | tr -dc '0-9\n'); do
        case $(readlink "/proc/$pid/exe") in
        */flux-launcher) echo "$pid" ;;
        esac
    done
}
four_launchers() {
    [ "$(launchers | wc -l)" = 4 ]
}
ok "one launcher a broker" wait_until 10 four_launchers
sleepers lost 4 sh -c 'setsid sleep 100 & sleep 100'
victim=$(launchers | tail -n 1)
kill -KILL "$victim"
wait $pid
is $? 137 "SIGKILL of a launcher ends the job"
like "$(cat err.txt)" "the launcher of rank [0-3] was lost" "... with a sentence"
ok "... and what it left is gone" wait_until 10 unmarked lost
ok "a new launcher runs the next job" "$FLUX" wreckrun -N4 true
ok "... so there are four again" wait_until 10 four_launchers

# All at once.
for i in 1 2 3 4 5 6 7 8; do
    "$FLUX" wreckrun -N4 -n8 sh -c "exit $i" 2>/dev/null &
    pids[i]=$!
done
bad=0
for i in 1 2 3 4 5 6 7 8; do
    wait "${pids[i]}"
    [ $? -eq $i ] || bad=$((bad + 1))
done
is $bad 0 "eight jobs at a time, each with its own exit code"

# A signal that cannot be delivered is told: there is nobody to take it.
sleepers untold 2 sh -c 'trap "touch untold; exit 3" USR1; sleep 100 & wait'
"$FLUX" module unload --force job
kill -USR1 $pid
ok "a signal that cannot be delivered" wait_until 10 grep -q 'a signal has possibly not reached the tasks: .*job' err.txt
ok "... does not end the client" kill -0 $pid
"$FLUX" module load job
again() { # the module knows the job when it has read what is on record
    kill -USR1 $pid
    [ -e untold ]
}
ok "... and is delivered when that is possible again" wait_until 20 again
wait $pid
ok "... and nothing is left" wait_until 5 unmarked untold

sleepers end 4 sleep 100
release
is "$status" 0 "the session ends while a job runs"
ok "... and so do its tasks" wait_until 5 unmarked end
wait $pid
isnt $? 0 "... and its client knows"
cat >deaf.sh <<'END'
"$1" submit sh -c 'trap "" TERM HUP; : >deaf; while :; do sleep 0.1; done'
while [ ! -e deaf ]; do sleep 0.05; done
END
ok "the session ends while tasks ignore signals" session 1 -- sh deaf.sh "$FLUX"
is "$err" "" "... and nothing is wrong"
finish
