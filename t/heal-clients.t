#!/usr/bin/env bash
# Brokers between a client and the root are killed: its job goes on, and ends only with the client;
# not a byte of its streams is lost or doubled; a client whose end cannot be reported is missed.
# shellcheck disable=SC2016 # the tasks expand
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun submit jobs wreck exec overlay getattr

lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
state_is() {
    [ "$("$FLUX" jobs -a -n -o '{state} {result}' | grep -c "$1")" = "$2" ]
}
running() {
    [ "$("$FLUX" jobs -n -s running -o '{id}' | wc -l)" = "$1" ]
}
# again RANK N: its N-th broker is up.
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}

# Rank 7 is below rank 3, rank 3 below rank 1.
hold 8 --topology=kary:2
of_all 8
at 7 wreckrun --ranks=0,5 -N2 -n2 -l sh -c "$COUNT" stop.1 >count.out 2>count.err &
job=$!
wait_until 30 lines count.out 20 || bail "the job does not run"
kill -KILL "${pids[1]}"
ok "the client's broker has another way to the root" wait_until 30 below 3 0
ok "the job goes on" running 1
kill -KILL "${pids[3]}"
ok "its broker has another parent" wait_until 30 below 7 0
ok "the job goes on, again" running 1
touch stop.1
wait "$job"
is $? 11 "the exit code arrives"
is "$(whole count.out 2)" "2 whole" "no line is lost or doubled"
like "$(cat count.err)" "task 1 .*rank 5.*: exit code 11" "the statuses are complete"
release

# Much output, and input, while the broker above dies repeatedly.
hold 8 --topology=kary:2 --restart --set=overlay.settle=0
of_all 8
mkfifo in
FLUX_URI=${uris[7]} "$FLUX" wreckrun --ranks=0 -n1 cat <in >cat.out 2>cat.err &
cat=$!
exec 7>in
FLUX_URI=${uris[7]} "$FLUX" wreckrun --ranks=0,4,5 -N3 -n3 -l sh -c \
    'seq $((FLUX_TASK_RANK * 10000000)) $((FLUX_TASK_RANK * 10000000 + 2000000))' >bulk.out 2>bulk.err &
bulk=$!
FLUX_URI=${uris[7]} "$FLUX" exec -l -r 0,5 sh -c 'seq 1 2000000; exit 8' >exec.out 2>exec.err &
exec=$!
(seq 1 1500000 >&7) &
writer=$!
exec 7>&-
for ((n = 1; n <= 3; n++)); do
    before=$(($(wc -l <bulk.out) + $(wc -l <cat.out)))
    wait_until 30 eval '(($(wc -l <bulk.out) + $(wc -l <cat.out) > before))' || bail "nothing moves"
    kill -KILL "$("$FLUX" getattr -r 1 broker.pid)"
    ok "the broker is started again" wait_until 30 again 1 $((n + 1))
    "$FLUX" overlay restore 1 >restored
done
ok "a job with much output ends well" wait "$bulk"
for task in 0 1 2; do
    is "$(sed -n "s/^$task: //p" bulk.out | cksum)" \
        "$(seq $((task * 10000000)) $((task * 10000000 + 2000000)) | cksum)" "the output of task $task is whole"
done
ok "standard input is taken" wait "$writer"
ok "to its end" wait "$cat"
is "$(cksum <cat.out)" "$(seq 1 1500000 | cksum)" "and is whole"
wait "$exec"
is $? 8 "a program beside brokers ends with its code"
for rank in 0 5; do
    is "$(sed -n "s/^$rank: //p" exec.out | cksum)" "$(seq 1 2000000 | cksum)" "its output on rank $rank is whole"
done
is "$(cat bulk.err cat.err)" "" "there is no complaint"
release

# Commands that wait for jobs, or follow them.
hold 8 --topology=kary:2
of_all 8
FLUX_URI=${uris[7]} "$FLUX" submit --quiet --watch --ranks=0 -n1 sh -c "$COUNT" stop.3 >watch.out 2>watch.err &
watch=$!
wait_until 30 running 1 || bail "the job does not run"
first=$("$FLUX" jobs -n -s running -o '{id}')
FLUX_URI=${uris[7]} "$FLUX" submit --wait --ranks=4-5 -n1 --cc=1-2 sh -c \
    'while [ ! -e '"$PWD"'/stop.4.$FLUX_JOB_CC ]; do sleep 0.01; done; exit 6' >wait.out 2>wait.err &
wait=$!
wait_until 30 running 3 || bail "the jobs do not run"
FLUX_URI=${uris[7]} "$FLUX" wreck wait "$("$FLUX" jobs -n -s running -o '{id}' | paste -sd,)" >ended.out 2>ended.err &
ended=$!
FLUX_URI=${uris[7]} "$FLUX" wreck attach -q "$first" >attach.out 2>attach.err &
attach=$!
wait_until 30 lines watch.out 20 || bail "no output is shown"
wait_until 30 lines attach.out 20 || bail "no output is shown"
touch stop.4.1
wait_until 30 running 2
kill -KILL "${pids[1]}"
ok "the broker of these commands has another way" wait_until 30 below 3 0
touch stop.3
wait "$watch"
is $? 10 "flux submit --watch ends with its job"
wait "$attach"
is $? 10 "so does flux wreck attach"
kill -KILL "${pids[3]}"
ok "and the next way" wait_until 30 below 7 0
touch stop.4.2
wait "$wait"
is $? 6 "flux submit --wait ends with its jobs"
wait "$ended"
is $? 10 "so does flux wreck wait"
for out in watch.out attach.out; do
    is "$(sed 's/^/0: /' $out | whole /dev/stdin 1)" "1 whole" "$out is whole"
done
is "$(grep -v 'exit code' ended.err)" "" "there is no complaint"
release

# The notice of the client's end is lost with a broker that has stopped.
hold 8 --topology=kary:2
of_all 8
FLUX_URI=${uris[7]} "$FLUX" wreckrun --ranks=0 -n1 -l sh -c "$COUNT" stop.2 >killed.out 2>killed.err &
client=$!
wait_until 30 lines killed.out 20 || bail "the job does not run"
kill -STOP "${pids[1]}"
kill -KILL "$client"
{ wait "$client"; } 2>/dev/null
kill -KILL "${pids[1]}"
ok "a job whose client has ended unheard is ended" wait_until 30 running 0
like "$("$FLUX" jobs -a -n -o '{id}' | head -n 1 | xargs "$FLUX" wreck status 2>&1)" "client went away" \
    "it says why"
# A client that is killed when all is well.
FLUX_URI=${uris[7]} "$FLUX" wreckrun --ranks=0 -n1 -l sh -c "$COUNT" stop.2 >killed.out 2>killed.err &
client=$!
wait_until 30 running 1
kill -KILL "$client"
{ wait "$client"; } 2>/dev/null
ok "so is one whose client is killed later" wait_until 30 running 0
release
is "$status" 0 "the session ends well"
finish
