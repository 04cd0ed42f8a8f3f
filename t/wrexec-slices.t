#!/bin/bash
# A job of many tasks does not keep others of its node waiting while it is started.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun cancel
need ps

# Tasks that the launcher has when the small job, submitted after the large one, runs.  Before the
# launcher took slices it never had fewer than all; that it is seen in the midst of them may take
# some tries.
tasks=1500
# There are cores for two such jobs: neither waits for the resources of the other.
echo "resource { { nodes = \"node0\", cores = $((2 * tasks)) }, emulate = true }" >res.lua
hold 1 --set=resrc.config="$PWD/res.lua"
seen=$tasks
for _ in {1..20}; do
    id=$("$FLUX" submit -N1 -n$tasks --overcommit sleep 600)
    run "$FLUX" wreckrun -N1 -n1 --overcommit sh -c 'ps -o pid= --ppid $PPID | wc -l'
    [ "$status" -eq 0 ] || break
    seen=$out
    "$FLUX" cancel "$id"
    "$FLUX" wreck wait "$id" 2>wait.err
    [ "$seen" -ge $tasks ] || break
done
is "$status" 0 "a small job runs beside a large one"
ok "... while the tasks of that are being started ($seen)" test "$seen" -lt $tasks

# Standard input that comes meanwhile is for all of them.
run sh -c 'echo hello | "$0" wreckrun -N1 -n300 --overcommit --stdin=all wc -c' "$FLUX"
is "$(sort <<<"$out" | uniq -c | tr -s ' ')" " 300 6" "all tasks of a large job read standard input"
id=$("$FLUX" submit -N1 -n$tasks --overcommit sleep 600)
ok "a job is canceled as it starts" "$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
ok "... and leaves the launcher to others" "$FLUX" wreckrun -n1 true
run "$FLUX" wreckrun -N1 -n600 --overcommit --kill-on-bad-exit sh -c 'test $FLUX_TASK_RANK != 3 && exec sleep 600'
is "$status" 1 "a task that fails while others are being started ends the job"
release
finish
