#!/bin/bash
# The log of the session says what became of jobs, and who did what to jobs, queue and nodes.
# shellcheck disable=SC2154 # set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs resource dmesg
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
cat >two.lua <<'END'
resource { { nodes = "node[0-1]", cores = 8 }, emulate = true }
END
hold 1 --set resrc.config="$TEST_DIR/two.lua"
me=$(id -u)

says() { # PATTERN DESCRIPTION
    wait_until 20 logged "$1" || "$FLUX" dmesg | tail -5
    ok "$2" logged "$1"
}

submit --name=good true
says "info.*job $id \(good\) was started on node0" "a job that was started, and where"
says "info.*job $id \(good\) has completed after [0-9.e-]+ s" "... and that it has completed"
ok "a job to its end" "$FLUX" submit --wait --name=told true
ok "... which flux dmesg has at once" logged "info.*job [0-9]+ \(told\) has completed"
submit --name=bad sh -c 'exit 3'
says "notice.*job $id \(bad\) of user $me has failed with exit code 3" "a job that fails, and its exit code"
submit -t 0.1s sleep 60
says "notice.*job $id \(sleep\) of user $me has ended: timeout: its time limit" "a time limit"
submit --hold true
held=$id
ok "cancel one" "$FLUX" cancel -m "not wanted" "$held"
says "notice.*user $me canceled 1 job of $held: not wanted" "who canceled a job"
says "notice.*job $held \(true\) of user $me has ended: cancel by user $me: not wanted" "... and that it has ended for that"
submit --dependency=afterok:"$held" true
says "job $id .*has ended: dependency: its dependency afterok:$held can never be met" \
    "a dependency that cannot be met"
ok "stop the queue" "$FLUX" queue stop for repair
says "notice.*user $me stopped the queue: for repair" "who stopped the queue"
ok "start it" "$FLUX" queue start
says "notice.*user $me started the queue" "... and started it"
ok "drain a node" "$FLUX" resource drain node1 broken fan
says "notice.*user $me drained node1 \(rank 1\): broken fan" "who drained a node"
ok "undrain it" "$FLUX" resource undrain node1
says "notice.*user $me undrained node1" "... and undrained it"

# Of many there is one line each.
"$FLUX" dmesg --clear
begin=$(date +%s%N)
submit --cc=1-200 true
ok "many jobs" run_with_timeout 60 "$FLUX" queue idle
covered() {
    "$FLUX" dmesg | grep -cE 'jobs? .*completed' >lines
    "$FLUX" dmesg | sed -n 's/.* \([0-9]*\) jobs have completed.*/\1/p; s/.*job [0-9]* (true) has completed.*/1/p' |
        awk '{ n += $1 } END { exit n != 200 }'
}
ok "all are in the log" wait_until 20 covered
# What ends within a tenth of a second shares a line if it is more than four jobs, however long the host takes for all.
ok "... in four lines at most for each tenth of a second" \
    test "$(cat lines)" -le $((4 * (2 + ($(date +%s%N) - begin) / 100000000)))
ok "purge" "$FLUX" wreck purge --force
says "notice.*user $me purged 2[0-9][0-9] jobs that had ended" "who purged how many"
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
