#!/usr/bin/env bash
# The broker of a client is killed and started again: the commands that follow something go on, and
# so do flux wreckrun and flux alloc, whose jobs have tasks elsewhere; not a byte of their streams is
# lost or doubled.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by release
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun alloc submit jobs wreck kvs dmesg logger overlay getattr

lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}
running() {
    [ "$("$FLUX" jobs -n -s running -o '{id}' | wc -l)" = "$1" ]
}
client() {
    FLUX_URI=${uris[3]} "$FLUX" "$@"
}

# Rank 7 is below rank 3, rank 3 below rank 1.
hold 8 --topology=kary:2 --restart --set=overlay.settle=0
of_all 8
client wreckrun --ranks=0,5,7 -N3 -n3 -l sh -c "$COUNT" stop.1 >count.out 2>count.err &
count=$!
mkfifo in
client wreckrun --ranks=0 -n1 cat <in >cat.out 2>cat.err &
cat=$!
exec 7>in
client wreckrun --ranks=4,5 -N2 -n2 -l sh -c \
    'while [ ! -e go ]; do sleep 0.01; done; seq $((FLUX_TASK_RANK * 10000000)) $((FLUX_TASK_RANK * 10000000 + 1500000))' \
    >bulk.out 2>bulk.err &
bulk=$!
client wreckrun --ranks=3,4 -N2 -n2 sleep 1000 >lost.out 2>lost.err &
lost=$!
wait_until 30 running 4 || bail "the jobs do not run"
wait_until 30 lines count.out 20 || bail "there is no output"
touch go
(seq 1 1500000 >&7) &
writer=$!
exec 7>&-
wait_until 30 lines bulk.out 2000 || bail "there is no output"
wait_until 30 lines cat.out 2000 || bail "no input is taken"
kill -KILL "${pids[3]}"
wait "$lost"
is $? 137 "a job with a task on its node fails"
like "$(cat lost.err)" "lost rank 3 .*with task 0" "and says why"
ok "the broker is started again" wait_until 30 again 3 2
ok "the job with much output ends well" wait "$bulk"
for task in 0 1; do
    is "$(sed -n "s/^$task: //p" bulk.out | cksum)" \
        "$(seq $((task * 10000000)) $((task * 10000000 + 1500000)) | cksum)" "the output of task $task is whole"
done
ok "standard input is taken" wait "$writer"
ok "to its end" wait "$cat"
is "$(cksum <cat.out)" "$(seq 1 1500000 | cksum)" "and is whole"
ok "the first job goes on" running 1
now=$(wc -l <count.out)
ok "so does its output" wait_until 30 lines count.out $((now + 200))
kill -KILL "$("$FLUX" getattr -r 3 broker.pid)"
ok "the broker is started once more" wait_until 30 again 3 3
now=$(wc -l <count.out)
ok "the output goes on again" wait_until 30 lines count.out $((now + 200))
touch stop.1
wait "$count"
is $? 12 "the exit code arrives"
is "$(whole count.out 3)" "3 whole" "no line is lost or doubled"
like "$(cat count.err)" "the broker was started again" "it says what happened"
release

# Commands that follow jobs, keys and the log.
hold 8 --topology=kary:2 --restart --set=overlay.settle=0
of_all 8
"$FLUX" kvs put t.a=1
client kvs watch t.a >watch.out 2>watch.err &
client dmesg -f -s test >dmesg.out 2>dmesg.err &
"$FLUX" submit --quiet --ranks=0,5 -N2 -n2 sh -c "$COUNT" stop.3
client wreck attach -l 1 >attach.out 2>attach.err &
attach=$!
client submit --quiet --watch --ranks=4 -n1 sh -c "$COUNT" stop.3 >submit.out 2>submit.err &
submit=$!
client submit --quiet --wait --ranks=7 -n1 sh -c "$COUNT" stop.3 >wait.out 2>wait.err &
wait=$!
client wreck wait 1 >ended.out 2>ended.err &
ended=$!
mkfifo typed
client alloc --ranks=6 -N1 sh -c 'echo begun; read -r line; echo "got $line"; exit 7' \
    <typed >alloc.out 2>alloc.err &
alloc=$!
exec 7>typed
"$FLUX" logger --source=test first
wait_until 30 running 4 || bail "the jobs do not run"
wait_until 30 grep -q begun alloc.out || bail "no command runs on the allocation"
for out in attach submit; do
    wait_until 30 lines $out.out 20 || bail "no output is shown"
done
wait_until 30 grep -q 1 watch.out || bail "the key is not watched"
wait_until 30 grep -q first dmesg.out || bail "the log is not followed"
kill -KILL "${pids[3]}"
ok "the broker is started again" wait_until 30 again 3 2
for out in attach submit; do
    now=$(wc -l <$out.out)
    ok "flux $out goes on" wait_until 30 lines $out.out $((now + 100))
done
"$FLUX" kvs put t.a=2
ok "so does flux kvs watch" wait_until 30 grep -q 2 watch.out
ok "flux dmesg -f returns" wait_until 30 grep -q "broker was started again" dmesg.err
"$FLUX" logger --source=test second
ok "and follows the log" wait_until 30 grep -q second dmesg.out
ok "flux alloc returns" wait_until 30 grep -q "broker was started again" alloc.err
echo later >&7
exec 7>&-
wait "$alloc"
is $? 7 "and ends with its command"
is "$(cat alloc.out)" $'begun\ngot later' "which has got what was typed afterwards"
touch stop.3
wait "$attach"
is $? 11 "flux wreck attach ends with its job"
is "$(whole attach.out 2)" "2 whole" "no line is lost or doubled"
wait "$submit"
is $? 10 "flux submit --watch ends with its job"
is "$(sed 's/^/0: /' submit.out | whole /dev/stdin 1)" "1 whole" "no line is lost or doubled"
wait "$wait"
is $? 10 "so does flux submit --wait"
wait "$ended"
is $? 11 "so does flux wreck wait"
release

# The client ends while its broker is away, or with it: the job is ended.
hold 4 --topology=kary:2 --set=job.client-grace=1s
of_all 4
interrupted() {
    kill -INT "$client" 2>/dev/null
    all_dead "$client"
}
ended() {
    ok "a job whose client does not come back is ended" wait_until 30 running 0
    like "$("$FLUX" jobs -a -n -o '{id}' | head -n 1 | xargs "$FLUX" wreck status 2>&1)" \
        "client has not come back" "it says why"
}
FLUX_URI=${uris[3]} "$FLUX" wreckrun --ranks=0 -n1 -l sh -c "$COUNT" stop.2 >left.out 2>left.err &
client=$!
wait_until 30 lines left.out 20 || bail "the job does not run"
kill -KILL "${pids[3]}"
ok "^C twice ends the client while its broker is away" wait_until 30 interrupted
wait "$client"
is $? 130 "with the code for that"
ended
FLUX_URI=${uris[2]} "$FLUX" wreckrun --ranks=0 -n1 -l sh -c "$COUNT" stop.2 >killed.out 2>killed.err &
client=$!
wait_until 30 lines killed.out 20 || bail "the job does not run"
kill -STOP "${pids[2]}"
kill -KILL "$client"
{ wait "$client"; } 2>/dev/null
kill -KILL "${pids[2]}"
ended
release
is "$status" 0 "the session ends well"
finish
