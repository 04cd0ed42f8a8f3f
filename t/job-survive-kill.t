#!/bin/bash
# What is killed under running jobs: launchers, tasks, parents of tasks, brokers.
# shellcheck disable=SC2016,SC2154 # the jobs expand; set by run and jobs/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck queue resource
. "$SRCDIR/t/jobs/lib.sh"

launcher() {
    "$FLUX" exec -r "$1" sh -c 'echo $PPID'
}

hold 5 --topology=kary:2

# --- a launcher ---
ok "a job over four nodes" submit -N4 --env=MARK=launcher.$$ sleep 1000
expect "$id" failed -
wait_until 20 marked_count launcher 4
kill -KILL "$(launcher 1)"
ok "ends when a launcher is killed" ended "$id"
ok "with all its tasks" wait_until 20 unmarked launcher
like "$("$FLUX" jobs -n -o '{result} {exception} {note}' "$id")" 'failed .*(launcher|lost|ended|killed)' \
    "and says why"
ok "the next job runs on all nodes" submit --wait -N5 true
expect "$id" completed 0

# --- a task, and its parent ---
ok "a job whose task is killed" submit --env=MARK=task.$$ sleep 1000
expect "$id" failed 137
wait_until 20 marked_count task 1
kill -KILL "$(marked task | head -n 1)"
ok "ends" ended "$id"
ok "a job whose task has children" submit --env=MARK=parent.$$ \
    sh -c 'echo $$ >parent.pid; sh -c "sleep 1000; :" & wait; wait'
expect "$id" failed 137
wait_until 20 marked_count parent 3
kill -KILL "$(cat parent.pid)"
ok "ends when the parent is killed" ended "$id"
ok "and the children are gone" wait_until 20 unmarked parent

# --- a node that is drained ---
ok "a job on node 2" submit --ranks=2 --env=MARK=drained.$$ sh -c 'touch on2; while [ ! -e go ]; do sleep 0.05; done'
expect "$id" completed 0
on2=$id
wait_until 20 test -e on2
ok "the node is drained under it" "$FLUX" resource drain 2 "smells of smoke"
ok "a job that fits elsewhere" submit --wait -N4 true
expect "$id" completed 0
ok "one that needs all nodes waits" submit -N5 true
expect "$id" completed 0
is "$("$FLUX" jobs -n -s run -o '{id}')" "$on2" "the job on the drained node goes on"
touch go
ok "and ends well" ended "$on2"
ok "the node comes back" "$FLUX" resource undrain 2
ok "the job that waited runs" "$FLUX" queue idle -t $((20 * PATIENCE))s

# --- a node that is lost ---
ok "a job on node 4" submit --ranks=4 --env=MARK=lost4.$$ sleep 1000
expect "$id" failed -
on4=$id
ok "a job on nodes 1 and 4" submit -N2 --ranks=1,4 --env=MARK=lost14.$$ sleep 1000
expect "$id" failed -
on14=$id
ok "a job elsewhere" submit --ranks=0 --env=MARK=other.$$ sh -c 'while [ ! -e go0 ]; do sleep 0.05; done'
expect "$id" completed 0
other=$id
wait_until 20 marked_count lost4 1
wait_until 20 marked_count lost14 2
kill -KILL "$(broker_pid 4)"
ok "the jobs on a node that is lost end" ended "$on4" "$on14"
ok "and their tasks" wait_until 20 unmarked lost14
is "$("$FLUX" jobs -n -s run -o '{id}')" "$other" "another goes on"
touch go0
ok "and ends well" ended "$other"
# The scheduler is told of it by another way than the jobs.
down_is() {
    "$FLUX" resource list | finds -E "^down +$1 "
}
wait_until 20 down_is 1
ok "the next job runs on what is left" submit --wait -N4 true
expect "$id" completed 0
ok "one that needs the lost node waits" submit -N5 true
expect "$id" canceled -
is "$("$FLUX" jobs -n -o '{state}' "$id")" pending "it does not start"
ok "and can be canceled" "$FLUX" cancel --wait --quiet "$id"

# --- an inner broker, with those below it ---
ok "a job over what is left" submit -N4 --env=MARK=inner.$$ sleep 1000
expect "$id" failed -
wait_until 20 marked_count inner 4
kill -KILL "$(broker_pid 1)"
ok "ends when an inner broker is lost" ended "$id"
ok "with all its tasks" wait_until 20 unmarked inner
ok "jobs still run" submit --wait true
expect "$id" completed 0
jobs_proved "the event logs prove it all"
release
finish
