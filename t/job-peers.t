#!/bin/bash
# The job service beside stand-ins of its peers: what crosses, what gets lost, what comes too late.
# shellcheck disable=SC2154 # set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
PEERS=$BUILDDIR/t/job
[ -e "$PEERS/sched.la" ] || skip_all "the stand-ins have not been built"
hold 1 --set modules=log,hb,barrier,kvs

peers() {
    local name
    for name in "$@"; do
        "$FLUX" module load "$PEERS/.libs/$name.so" || bail "no stand-in for $name"
    done
}
# Number FIELD of what a service says about itself.
number() {
    "$FLUX" module stats "$1" | awk -v name="$2" '$2 == name { print $3 }'
}
is_state() {
    [ "$("$FLUX" kvs get "job.$1.eventlog" | grep -c "\"name\":\"$2\"")" -gt 0 ]
}

has_held() {
    [ "$(number job held)" -ge "$1" ]
}

# A job service that is alone waits for the others.
"$FLUX" module load job || bail "no job service"
start_bg "$FLUX" wreckrun run 60000000 0 -
wait_until 5 has_held 1
kill -9 "$bg"
{ wait "$bg"; } 2>/dev/null
peers resrc
submit 0 0 0
is "$id" 1 "a job is accepted while there is neither scheduler nor launcher"
is "$(number job submitted)" 1 "... and none of a client that is gone before it is considered"
peers sched wrexec
ok "... and runs when they are there" "$FLUX" wreck wait 1
expect 1 completed 0

submit run 0 7 -
exits 7 "the exit code of a job" "$FLUX" wreck wait "$id"
expect "$id" failed 7

# What crosses.
"$FLUX" queue stop
submit run 0 0 -
"$FLUX" queue start
exits 0 "a queue that was stopped and started" "$FLUX" wreck wait "$id"

# More than there are cores.
submit --cc=1-300 run 0 0 -
ok "300 jobs on 4 cores" "$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(number sched wrong)" 0 "... and the scheduler was told nothing wrong"

# Signals.
submit run 60000000 0 -
wait_until 10 is_state "$id" start
ok "cancel a job that runs" "$FLUX" cancel "$id"
exits 143 "... which ends by SIGTERM" "$FLUX" wreck wait "$id"
expect "$id" canceled -
submit --grace=0.2s run 60000000 0 d
wait_until 10 is_state "$id" start
ok "cancel a job that ignores SIGTERM" "$FLUX" cancel "$id"
exits 137 "... which ends by SIGKILL after its grace" "$FLUX" wreck wait "$id"
expect "$id" canceled -
submit -t 0.2s --grace=0.1s run 60000000 0 d
run "$FLUX" wreck wait "$id"
is "$status" 124 "the end of a time limit"
expect "$id" timeout -

# Beginning anew.
submit --cc=1-12 run 600000 0 -
"$FLUX" module reload sched
ok "the scheduler is reloaded while jobs run and wait" "$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(number sched wrong)" 0 "... and nothing wrong was told to the new one"
submit --cc=1-12 run 600000 0 -
wait_until 10 is_state "${ids%%$'\n'*}" start
"$FLUX" module reload --force job
ok "the job service is reloaded while jobs run and wait" "$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(number wrexec again) $(number wrexec wrong)" "0 0" "... and no job was launched twice"
is "$(number sched wrong)" 0 "... and nothing wrong was told to the scheduler"
for one in $ids; do
    expect "$one" completed 0
done
submit --cc=1-8 run 60000000 0 -
wait_until 10 is_state "${ids%%$'\n'*}" start
"$FLUX" module reload wrexec
run "$FLUX" wreck wait "${ids%%$'\n'*}"
is "$status" 137 "the launcher is reloaded: what ran is dead"
"$FLUX" cancel "${ids//$'\n'/,}"
"$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(number wrexec again) $(number wrexec wrong)" "0 0" "... and no job was launched twice"

# A launcher whose mailbox is full: what it refuses for want of room is sent again.
all_refused() {
    [ "$(number wrexec busy)" -eq 0 ]
}
four_run() {
    [ "$(number wrexec running)" -eq 4 ]
}
"$FLUX" module unload wrexec
ok "a launcher that has no room at first" "$FLUX" module load "$PEERS/.libs/wrexec.so" 4 4
submit --cc=1-4 run 60000000 0 -
ok "... starts jobs when it has" wait_until 10 four_run
is "$(number wrexec busy)" 4 "... after so many attempts"
is "$(number wrexec again) $(number wrexec wrong)" "0 0" "... each once"
"$FLUX" cancel "${ids//$'\n'/,}"
exits 143 "... and ends them" run_with_timeout 30 "$FLUX" wreck wait "${ids%%$'\n'*}"
ok "... after as many" all_refused
"$FLUX" wreck wait "${ids//$'\n'/,}"

none_runs() {
    [ "$(number sched running)" -eq 0 ]
}
wait_until 10 none_runs
is "$(number sched wrong)" 0 "the scheduler was told nothing wrong"
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
