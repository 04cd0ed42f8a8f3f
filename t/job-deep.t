#!/bin/bash
# A deep queue that is held up: jobs come in, the first ones are listed, all are canceled.
# shellcheck disable=SC2154 # set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs queue cancel
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"

count=50000
[ -z "${FLUX_TEST_SANITIZERS:-}" ] || count=5000
echo "resource { { nodes = 'node[0-63]', cores = 16 }, emulate = true }" >deep.lua
hold 1 --set=resrc.config="$TEST_DIR/deep.lua"
ok "the queue is stopped" "$FLUX" queue stop
ok "$count jobs are submitted" "$FLUX" submit --quiet --cc=1-$count true
run "$FLUX" jobs -c 3 -n -o '{id} {state}'
is "$out" "1 pending
2 pending
3 pending" "the first three of them are listed"
ok "one in the middle is made urgent" "$FLUX" wreck urgency $((count / 2)) 20
is "$("$FLUX" jobs -c 2 -n -o '{id}' | tr '\n' ' ')" "$((count / 2)) 1 " "it is the first now"
run "$FLUX" jobs -c 1 -n -o '{info}'
like "$out" 'queue is stopped' "the list says why it waits"
is "$("$FLUX" jobs -a -c 5 -n -o '{id}' | wc -l)" 5 "of all no more are listed than are asked for"
ok "all are canceled" "$FLUX" cancel --all --quiet
ok "the queue becomes idle" "$FLUX" queue idle -t $((60 * PATIENCE))s
is "$("$FLUX" jobs -n -o '{id}' | wc -l)" 0 "no job is active"
jobs_proved "the event logs prove that each was canceled" --count=$count
release
is "$status" 0 "the session ends well"
finish
