#!/bin/bash
# flux module reload wrexec while jobs run: nothing of them is lost, at whichever rank it is.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start module wreckrun submit wreck jobs cancel exec
export SESSION_LIMIT=400 # for hold in lib.sh
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
exchange=$BUILDDIR/src/common/libpmi/test/pmi_exchange
[ -x "$exchange" ] || skip_all "pmi_exchange has not been built: make check builds it"
cat >four.lua <<'END'
resource { nodes = "node[0-3]", cores = 4 }
END
# 0 is the parent of 1 and 2, and 1 of 3.
hold 4 --set=topology=kary:2 --set resrc.config="$TEST_DIR/four.lua"

reload() {
    "$FLUX" module reload "$@" wrexec
}
# At the root, between root and leaf, at a leaf, at all ranks one after the other, and at all at a
# time.
reload_everywhere() {
    local where
    for where in 0 1 3 0 1 2 3; do
        reload -r "$where" || return
    done
    reload -a && reload -a
}
launchers() {
    "$FLUX" exec -l sh -c 'echo $PPID' | sort
}
# Tasks that wait for a file.
gate='gate() { while [ ! -e "$1" ]; do sleep 0.05; done; }; '

# The launcher is the same, and only a successor may have it.
"$FLUX" wreckrun -N4 -n4 --env=MARK=stay.$$ sleep 600 2>stay.err &
stay=$!
wait_until 10 marked_count stay 1
before=$(launchers)
ok "reload at each rank under a job" reload_everywhere
is "$(launchers)" "$before" "... its launchers are what they were"
is "$("$FLUX" exec -l sh -c 'echo $PPID' | cut -d' ' -f2 | sort -u | wc -l)" 4 "... one a rank"
for rank in 0 1 3; do
    fails "unload at rank $rank is refused" "$FLUX" module unload -r $rank wrexec
    like "$err" 'with tasks at or below rank.*--force' "... with the reason"
done
ok "... and the job goes on" kill -0 $stay
kill -TERM $stay
wait $stay
is $? 143 "a signal arrives after the reloads"
ok "... nothing is left" wait_until 10 unmarked stay

# Output to a client that reads none of it for a while, so that all pipes and windows are full.
"$FLUX" wreckrun -N4 -n4 -l sh -c "$gate"'
    seq 1 60000; gate go; seq 60001 90000; exit $FLUX_TASK_RANK' 2>flow.err |
    sh -c 'dd bs=1 count=1 2>/dev/null; : >first; while [ ! -e drain ]; do sleep 0.05; done; cat' >flow.out &
flow=$!
wait_until 10 test -e first
ok "reload while output waits for its reader" reload_everywhere
: >drain
for _ in 1 2 3; do
    reload -a || fail "reload while output flows"
done
: >go
for where in 0 1 2 3; do
    reload -r $where || fail "reload while output flows"
done
wait $flow
for task in 0 1 2 3; do
    seq 1 90000 | sed "s/^/$task: /"
done | sort >flow.want
sort flow.out >flow.got
ok "... each byte has come, once" cmp flow.got flow.want
rm -f flow.* first drain go
run sh -c '"$0" wreckrun -N4 -n4 sh -c "exit \$((FLUX_TASK_RANK + 1))"' "$FLUX"
is "$status" 4 "exit codes of a job after it"

# Output that is kept; and a client that comes when the reloads are over.
id=$("$FLUX" wreckrun -d -N4 -n4 sh -c "$gate"'seq 1 20000; gate kept; seq 20001 30000')
wait_until 10 job_state_is "$id" running
ok "reload while output is kept" reload_everywhere
"$FLUX" wreck attach -l "$id" >kept.out 2>kept.err &
attach=$!
reload -a || fail "reload while a client attaches"
: >kept
reload -a || fail "reload while output is kept"
wait $attach
is $? 0 "... the job completes"
for task in 0 1 2 3; do
    seq 1 30000 | sed "s/^/$task: /"
done | sort >kept.want
ok "... who attaches sees all of it, once" cmp <(sort kept.out) kept.want
ok "... and it is on record" cmp <("$FLUX" wreck attach -q -l "$id" | sort) kept.want
expect "$id" completed 0
rm -f kept*

# Standard input, to all and to the first.
for who in all first; do
    mkfifo in
    n=4
    [ $who = all ] || n=1
    "$FLUX" wreckrun -N4 -n4 --stdin=$who sh -c 'cat >"$0.$FLUX_TASK_RANK"; exit 5' "in-$who" <in 2>in.err &
    pid=$!
    exec 9>in
    for piece in 1 2 3 4; do
        seq $((piece * 30000)) $((piece * 30000 + 29999)) >&9
        ok "reload under standard input ($who, $piece)" reload_everywhere
    done
    exec 9>&-
    wait $pid
    is $? 5 "... the end of file arrives"
    seq 30000 149999 >in.want
    for ((task = 0; task < n; task++)); do
        ok "... as all that was written, to task $task" cmp "in-$who.$task" in.want
    done
    rm -f in in.* in-*
done

# A barrier that one node has not entered yet.
"$FLUX" wreckrun -N4 -n8 sh -c "$gate"'
    if [ $FLUX_TASK_RANK = 7 ]; then gate in; fi; exec "$0"' "$exchange" >pmi.out 2>pmi.err &
pmi=$!
in_barrier() {
    "$FLUX" kvs namespace list | finds job-
}
ok "tasks are in a PMI barrier" wait_until 10 in_barrier
ok "reload meanwhile" reload_everywhere
: >in
wait $pmi
is $? 0 "... they come out of it"
is "$(sort -u pmi.out | wc -l)" 8 "... with everybody's cards"
ok "... and its namespace is gone at its end" wait_until 10 eval '! in_barrier'
rm -f in pmi.*

# Clients that wait: for a job that is queued, for one that runs, for programs past the queue.
blocker=$("$FLUX" submit -N4 -x sh -c "$gate"'gate unblock')
"$FLUX" wreckrun -N4 -n4 sh -c 'echo ran $FLUX_TASK_RANK' >queued.out 2>queued.err &
queued=$!
"$FLUX" wreck wait "$blocker" 2>wait.err &
waiter=$!
"$FLUX" exec -l sh -c "$gate"'gate go; echo past the queue; exit 3' >exec.out 2>exec.err &
exec_pid=$!
wait_until 10 job_state_is "$blocker" running
wait_until 10 eval '"$FLUX" jobs -n | finds pending'
ok "reload under clients that wait" reload_everywhere
: >go
wait $exec_pid
is "$?/$(sort exec.out | tr '\n' ' ')" \
    "3/0: past the queue 1: past the queue 2: past the queue 3: past the queue " "... flux exec ends as it should"
: >unblock
wait $waiter
is $? 0 "... who waits for a job is told of its end"
wait $queued
is "$?/$(sort queued.out | tr '\n' ' ')" "0/ran 0 ran 1 ran 2 ran 3 " "... and a queued job has its output"
expect "$blocker" completed 0
rm -f go unblock exec.* queued.*

# What ends a job.
id=$("$FLUX" submit -N4 -n4 sleep 600)
wait_until 10 job_state_is "$id" running
reload_everywhere || fail "reload before a cancel"
ok "cancel after a reload" "$FLUX" cancel "$id"
run run_with_timeout 30 "$FLUX" wreck wait "$id"
is "$status" 143 "... arrives"
id=$("$FLUX" submit -N4 -n4 -t 3s sleep 600)
wait_until 10 job_state_is "$id" running
reload_everywhere || fail "reload before the end of a time limit"
run run_with_timeout 30 "$FLUX" wreck wait "$id"
is "$status" 124 "a time limit ends a job after a reload"
expect "$id" timeout -
"$FLUX" wreckrun -N4 -n4 --grace=2s --kill-on-bad-exit sh -c "$gate"'
    if [ $FLUX_TASK_RANK = 2 ]; then gate bad; exit 9; fi
    trap ": >term.$FLUX_TASK_RANK" TERM; : >ready.$FLUX_TASK_RANK; while :; do sleep 0.1; done' 2>bad.err &
bad=$!
wait_until 10 test -e ready.0 -a -e ready.1 -a -e ready.3
: >bad
ok "a failed task ends its job, by SIGTERM first" wait_until 10 test -e term.0 -a -e term.3
ok "reload before SIGKILL follows" reload_everywhere
wait $bad
is $? 9 "... it follows, and the exit code is that of the task"
rm -f bad bad.err ready.* term.*
"$FLUX" wreckrun -N4 -n4 --env=MARK=lost.$$ sleep 600 2>lost.err &
lost=$!
wait_until 10 marked_count lost 1
reload_everywhere || fail "reload before a launcher is killed"
launcher=$("$FLUX" exec -r 3 sh -c 'echo $PPID')
kill -KILL "$launcher"
wait $lost
is $? 137 "a launcher that is lost after a reload is noticed"
like "$(cat lost.err)" "launcher of rank 3 was lost" "... and named"
ok "... what it left is ended" wait_until 20 unmarked lost
ok "... and the next one works" "$FLUX" wreckrun -N4 true

# Jobs of all kinds, and reloads wherever a seed says.
seed=${FLUX_TEST_SEED:-11}
note "FLUX_TEST_SEED=$seed"
RANDOM=$seed
(
    while [ ! -e enough ]; do
        "$FLUX" wreckrun -N4 -n8 "$exchange" >ring.out 2>ring.err || echo "exchange: $?"
        [ "$(sort -u ring.out | wc -l)" -eq 8 ] || echo "exchange: $(cat ring.out ring.err)"
        : >ring
    done >>ring.bad
) &
ring=$!
(
    while [ ! -e enough ]; do
        # Without labels, the pieces that the tasks write are printed as they come, and a piece
        # may end within a line.
        seq 1 5000 | "$FLUX" wreckrun -N4 -n4 -l --stdin=all sh -c 'cat; exit 7' >echo.out 2>echo.err
        [ $? -eq 7 ] || echo "input: $(cat echo.err)"
        for task in 0 1 2 3; do
            cmp <(sed -n "s/^$task: //p" echo.out) <(seq 1 5000) || echo "input: task $task"
        done
        [ "$(wc -l <echo.out)" -eq 20000 ] || echo "input: $(wc -l <echo.out) lines"
        : >echoed
    done >>echo.bad
) &
echo=$!
all=
for round in {1..40}; do
    ids=$("$FLUX" submit --cc=1-3 -N$((RANDOM % 4 + 1)) sh -c 'echo out {{cc}}; exit {{cc}}')
    all+=" $ids"
    reload -r $((RANDOM % 4)) || fail "round $round"
    [ $((RANDOM % 4)) -ne 0 ] || reload -a || fail "round $round, all"
done
ok "an exchange and a job with input end among reloads" wait_until 30 test -e ring -a -e echoed
: >enough
wait $ring $echo
is "$(cat ring.bad)" "" "40 rounds of reloads: each PMI exchange is right"
is "$(cat echo.bad)" "" "... each job reads its input and its output is right"
ok "... all jobs end" run_with_timeout 60 "$FLUX" queue idle
bad=0 want=1
for id in $all; do
    [ "$("$FLUX" jobs -n -o '{state} {code}' "$id" | tr -s ' ')" = "failed $want" ] || bad=$((bad + 1))
    "$FLUX" wreck attach -q "$id" 2>attach.err | sort -u >attach.out
    [ "$(cat attach.out)" = "out $want" ] || bad=$((bad + 1))
    expect "$id" failed $want
    want=$((want % 3 + 1))
done
is $bad 0 "... with exit code and output"
is "$("$FLUX" dmesg | grep -E ' (wrexec|broker)[.](err|warning)' | grep -vc "process $launcher")" 0 "... and no complaint"
jobs_proved "the event logs prove it"

# With force it is as before; and a session that ends under jobs leaves nothing.
"$FLUX" wreckrun -N4 -n4 --env=MARK=force.$$ sleep 600 2>force.err &
force=$!
wait_until 10 marked_count force 1
ok "a forced reload" "$FLUX" module reload --force wrexec
wait $force
isnt $? 0 "... ends the job"
ok "... and its tasks" wait_until 10 unmarked force

# A launcher that does not end holds up its module, and nothing else.
stopping() {
    "$FLUX" module list -r 3 | finds -E '^wrexec .*stopping'
}
launcher=$("$FLUX" exec -r 3 sh -c 'echo $PPID')
kill -STOP "$launcher"
"$FLUX" module unload --force -r 3 wrexec 2>unload.err &
unload=$!
ok "unload while its launcher hangs" wait_until 10 stopping
ok "... the broker answers" "$FLUX" ping -c 1 3
ok "... while it waits for its launcher" stopping
kill -CONT "$launcher"
wait $unload
is $? 0 "... and it is unloaded when the launcher has ended"
ok "load it again" "$FLUX" module load -r 3 wrexec
"$FLUX" submit -N4 -n4 --env=MARK=end.$$ sleep 600 >/dev/null
wait_until 10 marked_count end 1
reload_everywhere || fail "reload before the end"
release
is "$status" 0 "the session ends"
ok "... with all its tasks" wait_until 10 unmarked end
finish
