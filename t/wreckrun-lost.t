#!/bin/bash
# Brokers that die under a running job.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun

hold 7 --topology=kary:2
for victim in 6 2; do # a leaf, then an inner rank, below which rank 5 goes on
    n=$((victim == 6 ? 7 : 6))
    "$FLUX" wreckrun -N$n --env=MARK=lost$victim.$$ sleep 100 2>err.txt &
    pid=$!
    wait_until 10 marked_count lost$victim $n
    target=$(broker_pid $victim)
    kill -KILL "$target"
    wait $pid
    is $? 137 "a broker that dies ends the job (rank $victim)"
    like "$(cat err.txt)" "lost ranks? [0-9,-]*${victim}[0-9,-]* \(.*\) with tasks? [0-9]" \
        "... with a sentence"
    like "$("$FLUX" jobs -a -n -c1 -o result,exception,note)" \
        "^failed +node-lost +lost ranks? [0-9,-]*$victim" "flux jobs shows why"
    ok "... and all its tasks" wait_until 10 unmarked lost$victim
done
# The scheduler is told of it by another way than the jobs.
left() {
    "$FLUX" resource list | finds -E '^free +5 '
}
wait_until 20 left
run "$FLUX" wreckrun -n4 -l echo on
is "$(wc -l <<<"$out")" 4 "the next job runs on what is left"
fails "more than there ever was is refused" "$FLUX" wreckrun -N8 true
# A job that needs lost nodes waits, and whoever looks is told for which.
id=$("$FLUX" submit -N7 true)
why="waits for 7 nodes .*: only 5 such nodes are up; ranks 2,6 are down"
says_why() {
    "$FLUX" jobs --why -n "$id" | finds "$why"
}
ok "a job that needs the lost nodes says so" wait_until 20 says_why
ok "... and the log tells it" wait_until 20 sh -c "'$FLUX' dmesg | grep -q 'job $id $why'"
"$FLUX" cancel "$id"
release

hold 3
# A job that is to survive goes on without the node.
id=$("$FLUX" submit -N3 -n3 --survive-node-loss --env=MARK=survive.$$ \
    sh -c 'echo $FLUX_TASK_RANK; while [ ! -e enough ]; do sleep 0.05; done')
wait_until 10 marked_count survive 3
kill -KILL "$(broker_pid 2)"
noted() {
    "$FLUX" kvs get "job.$id.eventlog" | finds '"type":"node-lost","severity":1,"note":"lost rank 2 '
}
ok "a job that survives the loss of a node is told of it" wait_until 10 noted
touch enough
ok "... and completes on the others" "$FLUX" wreck wait "$id"
id=$("$FLUX" submit -N1 -n1 --survive-node-loss --ranks=1 --env=MARK=alone.$$ sleep 100)
wait_until 10 marked_count alone 1
kill -KILL "$(broker_pid 1)"
exits 137 "one that has no other node fails" "$FLUX" wreck wait "$id"
release

hold 2
"$FLUX" wreckrun -N2 --env=MARK=root.$$ sleep 100 2>err.txt &
pid=$!
wait_until 10 marked_count root 2
kill -KILL "$(broker_pid 0)"
wait $pid
isnt $? 0 "a client whose broker died ends"
ok "... and no task is left" wait_until 15 unmarked root
unset FLUX_URI
wait # for the session, whose initial program went with its broker
finish
