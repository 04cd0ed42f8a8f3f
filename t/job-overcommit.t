#!/bin/bash
# --overcommit: more tasks than cores share those that there are, on all nodes that the job can get.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run and fails
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun submit jobs cancel wreck alloc

cat >res.lua <<'END'
resource { { nodes = "node[0-3]", cores = 2 }, emulate = true }
END
hold 4 --set=resrc.config="$PWD/res.lua"

# How many cores the latest job had.
last_cores() {
    "$FLUX" jobs -a -n -o '{id} {ncores}' | sort -n | tail -n 1 | cut -d' ' -f2
}

# placed OPTION... : how many tasks are where, as "COUNT NODE", and in `cores` what the job had.
placed() {
    run run_with_timeout 60 "$FLUX" wreckrun "$@" sh -c 'echo "$FLUX_NODE_ID of $FLUX_JOB_NNODES"'
    [ "$status" -eq 0 ] || note "$err"
    cores=$(last_cores)
    out=$(sort <<<"$out" | uniq -c | tr -s ' ' | sed 's/^ //' | tr '\n' ,)
}

fails "16 tasks on 8 cores" "$FLUX" wreckrun -n16 true
like "$err" "needs 16 slots with 1 core each; all 4 nodes have room for 8 .*--overcommit" "... name what helps"
placed -n16 --overcommit
is "$out" "4 0 of 4,4 1 of 4,4 2 of 4,4 3 of 4," "with --overcommit they are spread over all nodes"
is "$cores" 8 "... and have all of their cores"
placed -n18 --overcommit
is "$out" "6 0 of 4,4 1 of 4,4 2 of 4,4 3 of 4," "two more are with the first two cores"
placed -n3 --overcommit
is "$cores" 3 "tasks that fit have a core each"
placed -N2 -n16 --overcommit
is "$out" "8 0 of 2,8 1 of 2," "on two nodes if that is asked for"
is "$cores" 4 "... with the cores of these"
placed -N2 -n3 --overcommit -c2
is "$out" "2 0 of 2,1 1 of 2," "tasks of two cores each share them as well"
is "$cores" 4 "... and do not get more than there are"
placed -n16 --ranks=1-2 --overcommit
is "$out" "8 0 of 2,8 1 of 2," "of some ranks all are used"
fails "a task that fits nowhere" "$FLUX" wreckrun -n2 -c3 --overcommit true
like "$err" "needs a slot with 3 cores; the largest of 4 nodes has 2" "... is refused, with the reason"
fails "nodes that are not there" "$FLUX" wreckrun -N5 -n16 --overcommit true
like "$err" "needs 5 nodes; there are 4" "... too"
ok "flux alloc with more than there is" run_with_timeout 60 "$FLUX" alloc -n16 --overcommit true
is "$(last_cores)" 8 "... gets what there is"

# It takes what it shares: another job waits, and is not refused.
big=$("$FLUX" submit -n16 --overcommit sleep 600)
ok "a job has all cores" wait_until 30 sh -c '[ "$("$0" jobs -n -s running -o "{id} {ncores}")" = "$1 8" ]' "$FLUX" "$big"
small=$("$FLUX" submit -n16 --overcommit sh -c 'echo "$FLUX_NODE_ID"')
ok "one beside it waits" wait_until 30 sh -c '[ "$("$0" jobs -n -s pending -o "{id} {ncores}")" = "$1 8" ]' "$FLUX" "$small"
ok "the job module is reloaded" "$FLUX" module reload job
ok "... and the job that waits is read back with as many cores" wait_until 30 sh -c \
    '[ "$("$0" jobs -n -s pending -o "{id} {ncores}")" = "$1 8" ]' "$FLUX" "$small"
ok "the first is canceled" "$FLUX" cancel "$big"
run "$FLUX" wreck wait "$big"
run run_with_timeout 60 "$FLUX" wreck attach "$small"
is "$(sort <<<"$out" | uniq -c | tr -s ' ')" " 4 0
 4 1
 4 2
 4 3" "... and then is spread over all nodes, too"
release
finish
