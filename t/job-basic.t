#!/bin/bash
# Jobs from submission to their end: states, results, what is on record, what is refused.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
hold 2

field() {
    "$FLUX" jobs -a -j "$1" | tr -d '\n' | sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",}]*\).*/\1/p"
}

submit true
is "$id" 1 "the first job has the id 1"
ok "... and ends" "$FLUX" wreck wait 1
expect 1 completed 0
is "$("$FLUX" kvs get job.1.eventlog | sed -n 's/.*"name":"\([a-z]*\)".*/\1/p' | tr '\n' ' ')" \
    "submit depend priority alloc start finish release free clean " "its log has all events in order"
like "$("$FLUX" kvs get job.1.jobspec)" '"command":\["true"\]' "its jobspec is on record"
like "$("$FLUX" kvs get job.1.R)" '"R_lite"' "... and its resources"
like "$("$FLUX" kvs get --raw job.1.env | tr '\0' '\n')" 'PATH=' "... and its environment"
is "$(field 1 result)" completed "a list says how it ended"

submit sh -c 'exit 3'
exits 3 "a job that fails" "$FLUX" wreck wait "$id"
expect "$id" failed 3
submit sh -c 'kill -9 $$'
exits 137 "a job that is killed" "$FLUX" wreck wait "$id"
expect "$id" failed 137
submit /no/such/program
run "$FLUX" wreck wait "$id"
is "$status" 127 "a program that is not there"
expect "$id" failed -
submit -N2 sh -c 'echo "$FLUX_JOB_ID $FLUX_NODE_ID $FLUX_JOB_NNODES" >"$FLUX_NODE_ID.out"'
ok "a job on both nodes" "$FLUX" wreck wait "$id"
is "$(cat 0.out 1.out)" "$id 0 2
$id 1 2" "... has a task on each"
expect "$id" completed 0

# Many at once.
submit --cc=1-200 sh -c 'echo {{cc}} >>cc.out'
is "$(wc -w <<<"$ids")" 200 "200 jobs at once"
is "$(tr ' ' '\n' <<<"$ids" | sort -n | tail -1)" "$((${ids%%$'\n'*} + 199))" "... have ids in a row"
ok "... and all end" "$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(sort -n cc.out | uniq | wc -l)" 200 "... and each has run"
is "$(wc -l <cc.out)" 200 "... once"

# Refused.
fails "more nodes than there are" "$FLUX" submit -N3 true
like "$err" "3 nodes" "... says so"
is "$out" "" "... and has no id"
fails "more cores than there are" "$FLUX" submit -c 100000 true
fails "a pool that is not there" "$FLUX" submit --pool=unobtainium=1 true
fails "a dependency on a job that is not there" "$FLUX" submit --dependency=afterok:999999 true
like "$err" "999999" "... says which"
submit true
is "$id" 206 "what was refused has taken no id"
ok "(it ends)" "$FLUX" wreck wait "$id"

# Acting on jobs.
fails "cancel a job that is not there" "$FLUX" cancel 9999
fails "cancel a job that has ended" "$FLUX" cancel 1
some_run() {
    [ "$("$FLUX" jobs | grep -c running)" -gt 0 ]
}
submit sleep 60
wait_until 10 some_run
ok "a signal" "$FLUX" wreck kill -s USR1 "$id"
exits 138 "... ends it" "$FLUX" wreck wait "$id"
expect "$id" failed 138
submit sleep 60
ok "cancel" "$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
isnt "$status" 0 "... and it ends"
expect "$id" canceled -
submit sleep 60
ok "an exception that does not end it" "$FLUX" wreck raise --severity=3 --type=test -m hello "$id"
like "$("$FLUX" kvs get "job.$id.eventlog")" '"type":"test","severity":3,"note":"hello"' "... is in its log"
fails "one with too long a note" "$FLUX" wreck raise --severity=3 --type=test -m "$(seq 2000)" "$id"
like "$err" "4096" "... is refused"
ok "one that does" "$FLUX" wreck raise --severity=0 --type=boom -m "that is it" "$id"
run "$FLUX" wreck wait "$id"
like "$(field "$id" exception)" boom "... is what ended it"
expect "$id" failed -

jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
