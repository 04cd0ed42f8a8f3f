#!/bin/bash
# Time limits and grace, urgency and hold, the queue's valves, how many may wait.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs queue
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
hold 1 --set job.max-queued=20

# Limits.
submit -t 0.3s sleep 60
run "$FLUX" wreck wait "$id"
is "$status" 124 "a time limit ends a job"
like "$("$FLUX" kvs get "job.$id.eventlog")" '"type":"timeout","severity":0,"note":"its time limit of 0.3 s' \
    "... by an exception that says so"
expect "$id" timeout 124
# On a busy host the time may be over before the task has set its trap.
for limit in 0.3s 3s 30s; do
    rm -f trapped
    submit -t $limit sh -c 'trap "echo bye >term; exit 0" TERM; touch trapped; while :; do sleep 0.02; done'
    run "$FLUX" wreck wait "$id"
    [ ! -e trapped ] || break
done
is "$(cat term)" bye "it is asked to end first"
expect "$id" timeout -
submit -t 0.3s --grace=0.3s sh -c 'trap "" TERM; while :; do sleep 0.02; done'
run "$FLUX" wreck wait "$id"
isnt "$status" 0 "who is deaf is killed after the grace"
expect "$id" timeout -
submit -t 30s true
ok "a job that keeps its limit" "$FLUX" wreck wait "$id"
expect "$id" completed 0

# Order.
"$FLUX" queue stop
submit --urgency=5 sh -c 'echo low >>order'
submit sh -c 'echo middle >>order'
submit --urgency=30 sh -c 'echo high >>order'
submit --hold sh -c 'echo held >>order'
held=$id
like "$("$FLUX" jobs "$held")" 'held|pending' "a job that is held waits"
like "$("$FLUX" queue list)" 'no|stop' "the queue is stopped"
"$FLUX" queue stop maintenance of the disk
like "$("$FLUX" jobs --why)" 'the queue is stopped: maintenance of the disk' "jobs say why they wait"
"$FLUX" queue start
wait_until 10 sh -c 'test "$(wc -l <order)" -eq 3'
like "$("$FLUX" jobs "$held")" 'held|pending' "what is held stays when others run"
ok "release it" "$FLUX" wreck release "$held"
ok "... and it runs" "$FLUX" wreck wait "$held"
expect "$held" completed 0
submit --hold true
ok "hold, cancel" "$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
expect "$id" canceled -
submit --hold true
ok "urgency" "$FLUX" wreck urgency "$id" 31
ok "... lets it go" "$FLUX" wreck wait "$id"
submit sleep 60
wait_until 10 sh -c "'$FLUX' jobs '$id' | grep -q running"
fails "the urgency of a job that runs" "$FLUX" wreck urgency "$id" 1
"$FLUX" cancel "$id"

# Valves.
ok "disable" "$FLUX" queue disable "for the test"
fails "nothing is accepted" "$FLUX" submit true
like "$err" "for the test" "... and why"
ok "enable" "$FLUX" queue enable
submit sleep 0.5
ok "drain waits until all have ended" "$FLUX" queue drain
like "$("$FLUX" jobs -a "$id")" completed "... indeed"
fails "... and accepts no more" "$FLUX" submit true
ok "enable again" "$FLUX" queue enable
ok "idle, when nothing is there" "$FLUX" queue idle

# How many may wait.
"$FLUX" queue stop
run "$FLUX" submit --cc=1-30 true
is "$(wc -l <<<"$out")" 20 "20 jobs may wait"
like "$err" "job.max-queued" "... the others are refused, and by what"
"$FLUX" queue start
ok "... and these run" "$FLUX" queue idle

jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
