#!/usr/bin/env bash
# Jobs that lose their node and are to run again: exactly once in each attempt.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs kvs
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"

lines_are() {
    [ "$(grep -c "$2" "$1" 2>/dev/null)" -eq "$3" ]
}
# of NAME: how often that event is in the log of the job.
of() {
    "$FLUX" kvs get "job.$id.eventlog" | grep -c "\"name\":\"$1\""
}
# Submit a job that notes where each attempt begins and ends.  The second argument is run before.
begin() {
    rm -f enough
    : >"$1"
    id=$("$FLUX" submit -N1 -n1 --requeue --ranks=1-3 sh -c \
        "${2:-}"'echo "begin $FLUX_JOB_ID" >>'"$1"'; while [ ! -e enough ]; do sleep 0.05; done; echo end >>'"$1")
    wait_until 30 lines_are "$1" begin 1
}

hold 4 --topology=flat --set=statedir="$PWD/state" --set=job.grace=0.5s
begin one
first=$("$FLUX" jobs -n -o ranks "$id" | xargs)
kill -KILL "$(broker_pid "$first")"
ok "a job whose node is lost runs again" wait_until 30 lines_are one begin 2
isnt "$("$FLUX" jobs -n -o ranks "$id" | xargs)" "$first" "on another node"
touch enough
ok "it completes" "$FLUX" wreck wait "$id"
is "$(xargs <one)" "begin $id begin $id end" "each attempt ran once, and the last to its end"
like "$("$FLUX" kvs get "job.$id.eventlog" | tr -d '\n')" \
    '"type":"node-lost","severity":1,"note":"lost rank '"$first"' .*"name":"requeue","context":\{"count":1,"R":\{"version":1,"execution":\{"R_lite":\[\{"rank":"'"$first"'",' \
    "the log has the loss, the count, and what the first attempt had"
n=$(of requeue)
is "$(of start)" $((n + 1)) "one start in each attempt"
is "$(of alloc)" $((n + 1)) "one allocation in each attempt"
is "$(of finish) $(of clean)" "1 1" "one end"
expect "$id" completed 0

# What is canceled meanwhile does not run again.
begin two 'trap "" TERM; '
"$FLUX" wreck raise --type=node-lost "$id"
"$FLUX" cancel "$id"
touch enough
"$FLUX" wreck wait "$id"
is "$("$FLUX" jobs -n -o result "$id") $(of requeue)" "canceled 0" "a job that is canceled is not queued again"

# An operator ends an attempt.
begin three
"$FLUX" wreck raise --type=node-lost -m "the node is on fire" "$id"
ok "an exception of that type by hand does the same" wait_until 30 lines_are three begin 2
"$FLUX" module reload job
ok "a job module that is loaded again still knows the job" wait_until 30 "$FLUX" jobs "$id"
touch enough
ok "the end of the first attempt is not taken for that of the second" "$FLUX" wreck wait "$id"
is "$("$FLUX" jobs -n -o result "$id") $(of requeue)" "completed 1" "it completes"

# One that changes nothing.
begin four
"$FLUX" wreck raise --severity=1 --type=node-lost "$id"
"$FLUX" module reload job
ok "a job module that is loaded again knows the job" wait_until 30 "$FLUX" jobs "$id"
touch enough
ok "a loss that did not end the job is not taken for one" "$FLUX" wreck wait "$id"
is "$("$FLUX" jobs -n -o result "$id") $(of requeue)" "completed 0" "it completes once"

# The tasks do not end by SIGTERM: SIGKILL is not forgotten.
begin five '[ -e twice ] || trap "" TERM; : >twice; '
"$FLUX" wreck raise --type=node-lost "$id"
"$FLUX" module reload job
ok "tasks that ignore SIGTERM are killed after a reload, too" wait_until 30 lines_are five begin 2
touch enough
ok "and the job runs again" "$FLUX" wreck wait "$id"

# The jobspec of one that runs is no longer there in parsed form.
rm -f enough
same='echo begin >>six; while [ ! -e enough ]; do sleep 0.05; done'
id=$("$FLUX" submit -n1 --requeue sh -c "$same")
wait_until 30 lines_are six begin 1
ok "the same job is submitted again while it runs" "$FLUX" submit -n1 --requeue sh -c "$same"
touch enough
ok "and both complete" "$FLUX" wreck wait "$id" "$out"

jobs_proved "each attempt had its resources for itself, and gave them back before the next one"
like "$out" "7 jobs, 7 of them with resources, in 1[0-9] attempts" "attempts that are over are part of the proof"

exits 1 "not for a job whose output goes to its client" "$FLUX" wreckrun --requeue true
like "$err" "cannot run again" "with a sentence"
exits 1 "not for one that survives" "$FLUX" submit --requeue --survive-node-loss true
like "$err" "cannot both survive" "with a sentence"
release
finish
