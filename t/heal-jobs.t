#!/usr/bin/env bash
# A broker inside the tree is killed under jobs whose tasks are below it and elsewhere: no byte of
# their output is lost or doubled, statuses are complete, signals and standard input arrive; only
# tasks on the node of that broker are lost.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by hold and release
. "$(dirname "$0")/mpi/own_shm.sh"
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun wreck kvs exec overlay jobs getattr

# again RANK N: its N-th broker is up.
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}
pid_of() {
    "$FLUX" getattr -r "$1" broker.pid
}
lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
# further FILE: there are 200 more lines.
further() {
    local now
    now=$(wc -l <"$1")
    wait_until 30 lines "$1" $((now + 200))
}

# A rank that is lost too often is held off, so there are several sessions.
begin_session() {
    if [ -n "${incarnation-}" ]; then
        release
        is "$status" 0 "the session ends well"
    fi
    hold 8 --topology=kary:2 --restart --set=overlay.settle=0
    incarnation=1
}
begin_session

# Ranks 3 and 4 are below rank 1, and rank 7 is below rank 3.
"$FLUX" wreckrun --ranks=3,4,5,7 -N4 -n4 -l sh -c "$COUNT" stop.1 >count.out 2>count.err &
job=$!
wait_until 30 lines count.out 100 || bail "the job does not run"
kill -KILL "$(pid_of 1)"
ok "the broker that was killed is started again" wait_until 30 again 1 $((++incarnation))
ok "a job with tasks below it goes on" further count.out
touch stop.1
wait "$job"
is $? 13 "it ends with the worst code of its tasks"
is "$(whole count.out 4)" "4 whole" "no line is lost or doubled"
like "$(cat count.err)" "task 3 .*rank 7.*: exit code 13" "the statuses are complete"
is "$(grep -c 'exit code' count.err)" 4 "of all tasks"

"$FLUX" overlay restore 1 >restored
"$FLUX" wreckrun --ranks=3-5,7 -N4 -n4 -l sh -c 'while [ ! -e go ]; do sleep 0.01; done; seq $((FLUX_TASK_RANK * 1000000)) $((FLUX_TASK_RANK * 1000000 + 400000))' \
    >heavy.out 2>heavy.err &
job=$!
touch go
wait_until 30 lines heavy.out 2000 || bail "there is no output"
kill -KILL "$(pid_of 1)"
ok "a job with much output ends well" wait "$job"
for task in 0 1 2 3; do
    is "$(sed -n "s/^$task: //p" heavy.out | cksum)" "$(seq $((task * 1000000)) $((task * 1000000 + 400000)) | cksum)" \
        "the output of task $task is whole"
done
ok "the broker is started again" wait_until 30 again 1 $((++incarnation))
ok "it gets its subtree back" "$FLUX" overlay restore 1

mkfifo in
"$FLUX" wreckrun --ranks=7 -n1 cat <in >cat.out 2>cat.err &
job=$!
exec 7>in
seq 1 20000 >&7
wait_until 30 lines cat.out 20000
(seq 20001 400000 >&7) &
writer=$!
wait_until 30 lines cat.out 30000
kill -KILL "$(pid_of 1)"
ok "standard input is taken" wait "$writer"
exec 7>&-
ok "to its end" wait "$job"
is "$(cksum <cat.out)" "$(seq 1 400000 | cksum)" "and is whole"
begin_session

"$FLUX" wreckrun --ranks=3,4,5,7 -N4 -n4 -l bash -c 'n=0; trap "n=\$((n + 1)); echo got \$n" USR1; echo ready
    until [ $n -ge 4 ]; do read -rt 0.02 <> <(:) ; done; exit 7' >signal.out 2>signal.err &
job=$!
wait_until 30 lines signal.out 4 || bail "the job does not run"
id=$("$FLUX" jobs -n -s running -o '{id}')
"$FLUX" wreck kill -s USR1 "$id"
ok "a signal arrives" wait_until 30 lines signal.out 8
"$FLUX" overlay restore 1 >restored
kill -KILL "$(pid_of 1)"
"$FLUX" wreck kill -s USR1 "$id"
ok "a signal that is sent while a broker dies arrives" wait_until 30 lines signal.out 12
ok "the broker is started again" wait_until 30 again 1 $((++incarnation))
"$FLUX" wreck kill -s USR1 "$id"
ok "the next one, too" wait_until 30 lines signal.out 16
"$FLUX" wreck kill -s USR1 "$id"
wait "$job"
is $? 7 "and the last"
is "$(sort signal.out | uniq -c | sed 's/^ *//' | grep -c '^1 [0-3]: got [1-4]$')" 16 "each once"

# Some of the tasks have ended before; and the job is killed afterwards.
"$FLUX" overlay restore 1 >restored
"$FLUX" wreckrun --ranks=3,4,5,7 -N4 -n4 sh -c '[ $FLUX_TASK_RANK -lt 2 ] && exit 3; touch ready.$FLUX_TASK_RANK; exec sleep 1000' >killed.out 2>killed.err &
job=$!
wait_until 30 test -e ready.2 -a -e ready.3 || bail "the job does not run"
id=$("$FLUX" jobs -n -s running -o '{id}')
kill -KILL "$(pid_of 1)"
ok "the broker is started again" wait_until 30 again 1 $((++incarnation))
"$FLUX" wreck kill "$id"
wait "$job"
is $? 143 "a job whose tasks have ended in part before can be killed"
like "$("$FLUX" wreck status "$id" 2>&1)" "3" "their statuses are known"

# A task on the node of the broker that dies is lost, and with it the job.
"$FLUX" wreckrun --ranks=1,3 -N2 -n2 sleep 1000 >lost.out 2>lost.err &
job=$!
running() {
    id=$("$FLUX" jobs -n -s running -o '{id}') && [[ $id ]]
}
wait_until 30 running
"$FLUX" wreckrun --ranks=3,5 -N2 -n2 -l sh -c "$COUNT" stop.2 >count2.out 2>count2.err &
other=$!
wait_until 30 lines count2.out 20
kill -KILL "$(pid_of 1)"
wait "$job"
is $? 137 "a job with a task there fails"
like "$(cat lost.err)" "lost rank 1 .*with task 0" "and names this task alone"
ok "the other one goes on" further count2.out
touch stop.2
wait "$other"
is "$(whole count2.out 2)" "2 whole" "its output is whole"
# Two brokers, one below the other, die repeatedly, and instances of the launcher are reloaded
# while ways are being found.
begin_session
"$FLUX" wreckrun --ranks=3,4,7 -N3 -n3 -l --survive-node-loss sh -c "$COUNT" stop.3 >survive.out 2>survive.err &
job=$!
"$FLUX" wreckrun --ranks=4,5,7 -N3 -n3 -l sh -c "$COUNT" stop.3 >often.out 2>often.err &
often=$!
wait_until 30 lines survive.out 20
wait_until 30 lines often.out 20
for ((n = 1; n <= 2; n++)); do
    pids=("$(pid_of 1)" "$(pid_of 3)")
    kill -KILL "${pids[@]}"
    for rank in 0 7; do
        "$FLUX" exec -r $rank "$FLUX" module reload wrexec
    done
    wait_until 30 again 1 $((++incarnation))
    wait_until 30 again 3 $((n + 1))
    ok "a job below two dead brokers goes on" further often.out
    "$FLUX" overlay restore >restored
done
ok "so does one that has lost one of its nodes, and survives that" further survive.out
is "$(grep -c 'lost rank 3 .*with task 0' survive.err)" 1 "it says so once"
touch stop.3
wait "$often"
is $? 12 "they end"
is "$(whole often.out 3)" "3 whole" "the output is whole"
wait "$job"
is $? 12 "the tasks that are left decide the code"
is "$(whole survive.out 3 | tail -n 1)" "2 whole" "and their output is whole"
release
is "$status" 0 "the session ends well"
finish
