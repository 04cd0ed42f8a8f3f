#!/usr/bin/env bash
# Signals for jobs, and for processes beside brokers, while brokers between the client, the root and
# the tasks are killed: each task gets each signal once.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by hold and release
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun wreck jobs exec overlay getattr module
need python3

export D=$PWD
# Notes each signal, until there is the file "stop".
NOTES='n=0; trap "n=\$((n + 1)); echo \$n >>\$D/got.\$NAME" USR1; : >"$D/got.$NAME"
    while [ ! -e "$D/stop" ]; do read -rt 0.02 <> <(:); done; exit 0'

# got N: all of them have got N signals.
got() {
    local name
    for name in "${names[@]}"; do
        [ -e "got.$name" ] && [ "$(wc -l <"got.$name")" -ge "$1" ] || return 1
    done
}
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}
inflight() {
    FLUX_URI=${uris[$1]} "$FLUX" module stats broker | awk '$2 == "inflight" { print $3 }'
}
waits() {
    [ "$(inflight 3)" -gt "$1" ]
}
# The client is at rank 7; rank 7 is below rank 3, rank 3 below rank 1.
begin_session() {
    hold 8 --topology=kary:2 --restart --set=overlay.settle=0
    of_all 8
    incarnation=1
    rm -f stop got.*
}
# Stop rank 1, send a signal, and kill rank 1 when its request waits there.
fault() {
    local before
    before=$(inflight 3)
    kill -STOP "${pids[1]}"
    "$@" &
    command=$!
    wait_until 30 waits "$before"
    kill -KILL "${pids[1]}"
    wait "$command"
    code=$?
}
heal() {
    wait_until 30 again 1 $((++incarnation)) && "$FLUX" overlay restore 1 >restored
    pids[1]=$("$FLUX" getattr -r 1 broker.pid)
}
# each_once SEND: send signals by this function, while rank 1 dies twice in two ways.
each_once() {
    wait_until 30 got 0 || bail "the tasks do not run"
    for ((i = 1; i <= 5; i++)); do
        "$1"
        wait_until 30 got $i || bail "signal $i is missing"
    done
    fault "$1"
    is "$code" 0 "a signal whose way breaks is sent"
    ok "it arrives" wait_until 30 got 6
    heal
    # The way breaks at any moment of the request and its answer.
    "$1" &
    command=$!
    kill -KILL "${pids[1]}"
    wait "$command"
    is $? 0 "another one is sent while rank 1 dies"
    ok "it arrives, too" wait_until 30 got 7
    heal
    "$1"
    ok "so does the next one" wait_until 30 got 8
    touch stop
}
each_has() {
    local name
    for name in "${names[@]}"; do
        is "$(cat "got.$name")" "$(seq 8)" "$name has got each signal once"
    done
}

begin_session
names=(0 1 2)
at 7 wreckrun --ranks=4,5,7 -N3 -n3 bash -c "NAME=\$FLUX_TASK_RANK; $NOTES" >job.out 2>job.err &
job=$!
by_request() {
    at 7 wreck kill -s USR1 "$("$FLUX" jobs -n -s running -o '{id}')" 2>>kill.err
}
each_once by_request
ok "the job ends well" wait "$job"
is "$(cat job.err kill.err)" "" "there is no complaint"
each_has
release

# Real-time signals are queued, and each counts: those that wait at rank 1 when it dies, too.
begin_session
names=(0 1)
cat >realtime.py <<'END'
import os, signal
kind = signal.SIGRTMIN
signal.pthread_sigmask(signal.SIG_BLOCK, [kind])
with open("got." + os.environ["FLUX_TASK_RANK"], "w", buffering=1) as got:
    n = 0
    while not os.path.exists("stop"):
        if signal.sigtimedwait([kind], 0.02):
            n += 1
            got.write("%d\n" % n)
END
"$FLUX" wreckrun --ranks=4,7 -N2 -n2 python3 realtime.py >realtime.out 2>realtime.err &
job=$!
wait_until 30 got 0 || bail "the job does not run"
id=$("$FLUX" jobs -n -s running -o '{id}')
burst() {
    for ((i = 0; i < 10; i++)); do
        "$FLUX" wreck kill -s "$(kill -l RTMIN)" "$id" || fail "a signal is sent"
    done
}
burst
ok "real-time signals arrive" wait_until 30 got 10
kill -STOP "${pids[1]}"
burst
kill -KILL "${pids[1]}"
burst
ok "so do those that are sent while a broker dies" wait_until 30 got 30
touch stop
ok "the job ends well" wait "$job"
for name in "${names[@]}"; do
    is "$(cat "got.$name")" "$(seq 30)" "$name has got each signal once"
done
release

begin_session
names=(b4 b5)
FLUX_URI=${uris[7]} "$FLUX" exec -r 4,5 bash -c "NAME=b\$(\"$FLUX\" getattr rank); $NOTES" >exec.out 2>exec.err &
exec=$!
by_client() {
    kill -USR1 "$exec"
}
each_once by_client
ok "the processes beside brokers end well" wait "$exec"
is "$(cat exec.err)" "" "there is no complaint"
each_has
release
is "$status" 0 "the session ends well"
finish
