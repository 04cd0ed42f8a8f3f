#!/bin/bash
# What is on record of a job of flux wreckrun; detached jobs; sessions within a session; reloads.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun kvs module jobs wreck
hold 4
host=$(uname -n)

get() {
    "$FLUX" kvs get "$1" 2>/dev/null
}
# fields ID COLUMN...: of flux jobs
fields() {
    "$FLUX" jobs -n -o "$2" "$1" | tr -s ' '
}
state_is() {
    test "$(fields "$1" state)" = "$2"
}
last_id() {
    "$FLUX" jobs -a -n -o '{id}' | sort -n | tail -n 1
}

# The record is complete when the command has ended.
bad=0
for i in 1 2 3 4 5 6 7 8 9 10; do
    "$FLUX" wreckrun -N2 -n3 sh -c "exit $i" 2>/dev/null
    [ "$(fields $i state,code)" = "failed $i" ] || bad=$((bad + 1))
    "$FLUX" wreck eventlog $i |
        grep -q " finish status=$((i * 256)) started=[0-9.]* exited=[0-9.]* failed={\"count\":3," || bad=$((bad + 1))
done
is $bad 0 "ten jobs: ids from 1, and each on record when its command ends"
is "$(fields 3 nnodes,ntasks,ranks)" "2 3 0-1" "its size and its place"
like "$(get job.3.jobspec)" '"command": ?\["sh", ?"-c", ?"exit 3"\]' "its command"
like "$(get job.3.R)" '"R_lite"' "its resources"
ok "its times" "$FLUX" wreck timing 3
ok "a good one" "$FLUX" wreckrun -N4 true
is "$(fields 11 state,code)" "completed 0" "... is complete"
exits 127 "one that cannot start" "$FLUX" wreckrun -N4 no-such-program
is "$(fields 12 state,code)" "failed 127" "... has failed"
like "$("$FLUX" wreck status 12)" "no-such-program" "... for a reason"
"$FLUX" wreckrun -N4 sleep 100 2>/dev/null &
pid=$!
ok "a job that runs is on record as running" wait_until 5 state_is 13 running
kill -TERM $pid
wait $pid
like "$("$FLUX" wreck eventlog 13)" "finish status=15" "... and with its signal when it was ended"

# Detached.
id=$("$FLUX" wreckrun -d -N2 sh -c 'echo out $FLUX_TASK_RANK; echo err >&2; exit 2')
is "$id" 14 "a detached job"
ok "... is on record at once" test -n "$(get "job.$id.jobspec")"
ok "... ends by itself" wait_until 10 state_is "$id" failed
is "$(fields "$id" code)" 2 "... with its exit code"
run "$FLUX" wreck attach "$id"
is "$(sort <<<"$out" | tr '\n' ' ')/$(tr '\n' ' ' <<<"$err")" \
    "out 0 out 1 /err err flux wreck attach: job 14: task 0 on $host (rank 0): exit code 2 flux wreck attach: job 14: task 1 on $host (rank 1): exit code 2 " \
    "... and its output, and which tasks failed"
id=$("$FLUX" wreckrun -d -n1 --output-limit=4M head -c 20000000 /dev/zero)
ok "more output than is kept" wait_until 30 state_is "$id" completed
kept=$("$FLUX" wreck attach -q "$id" | wc -c)
ok "... is cut" test "$kept" -gt 4000000 -a "$kept" -lt 4500000
id=$("$FLUX" wreckrun -d -N2 -O 'file-{{id}}-{{node}}' sh -c 'echo in $FLUX_NODE_ID')
ok "a detached job with files" wait_until 10 state_is "$id" completed
is "$(cat "file-$id-0" "file-$id-1" | tr '\n' ' ')" "in 0 in 1 " "... writes to them"

# What tasks tell each other is the job's own affair, and does not stay.
exchange=$BUILDDIR/src/common/libpmi/test/pmi_exchange
changes() { # root changes that a job makes
    local before after
    before=$("$FLUX" kvs version | awk '{ print $1 }')
    "$FLUX" wreckrun -N4 -n8 "$@" >/dev/null || return
    after=$("$FLUX" kvs version | awk '{ print $1 }')
    echo $((after - before))
}
if [ -x "$exchange" ] && [ -x "$BUILDDIR/t/kvs/kvs_probe" ]; then
    ok "a PMI exchange over 4 nodes" "$FLUX" wreckrun -N4 -n8 "$exchange"
    is "$(fields "$(last_id)" code)" 0 "... is on record"
    # Long enough for each of its steps to be one.
    plain=$(changes sleep 0.5)
    like "$plain" "^[1-9]" "a job makes roots"
    ok "... and one that exchanges no more: it has a namespace" \
        test "$(changes "$exchange")" -le "$plain"
    is "$("$BUILDDIR/t/kvs/kvs_probe" list | awk '{ print $1 }')" primary "... which is gone at its end"
else
    skip 5 "pmi_exchange is not built"
fi

# A session in this session.
run run_with_timeout 30 "$FLUX" wreckrun -N4 "$FLUX" start "$FLUX" wreckrun --overcommit -N4 -n8 sh -c \
    'echo $FLUX_JOB_ID-$FLUX_TASK_RANK'
is "$status/$(sort <<<"$out" | tr '\n' ' ')" "0/1-0 1-1 1-2 1-3 1-4 1-5 1-6 1-7 " \
    "a session in the session runs a job of its own"

# Unloaded under a job, and loaded again.
"$FLUX" wreckrun -n1 --env=MARK=reload.$$ sleep 100 2>err.txt &
pid=$!
wait_until 10 marked_count reload 1
before=$(last_id)
run "$FLUX" module unload wrexec
is "$status" 1 "unload while a job runs is refused"
like "$err" '1 job with tasks at or below rank 0 would be killed.*--force' "... with the reason"
ok "reload is not" "$FLUX" module reload wrexec
ok "... and the job goes on" marked_count reload 1
ok "unless it is forced" "$FLUX" module reload --force wrexec
wait $pid
isnt $? 0 "... ends the job"
ok "... and its tasks" wait_until 10 unmarked reload
ok "... and the next runs" "$FLUX" wreckrun -n1 true
ok "ids go on" test "$(last_id)" -gt "$before"

release
is "$status" 0 "the session ends"
finish
