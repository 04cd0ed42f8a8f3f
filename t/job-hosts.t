#!/bin/bash
# Jobs for hosts that are not there any more after a restart: told, not lost.
# shellcheck disable=SC2154 # set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"

for name in old new; do
    echo "resource { { nodes = '${name}[0-1]', cores = 2 }, emulate = true }" >$name.lua
done
hold 1 --statedir="$TEST_DIR/state" --set=resrc.config="$TEST_DIR/old.lua"
submit --hosts='old[0-1]' true
ok "a job for two hosts" "$FLUX" wreck wait "$id"
expect "$id" completed 0
"$FLUX" queue stop
submit --hosts='old1' true
release
hold 1 --statedir="$TEST_DIR/state" --set=resrc.config="$TEST_DIR/new.lua"
is "$("$FLUX" jobs -a -n | wc -l)" 2 "after a restart on other hosts both are there"
"$FLUX" queue start
run run_with_timeout 30 "$FLUX" wreck wait "$id"
isnt "$status" 0 "the one that was queued fails"
like "$("$FLUX" kvs get "job.$id.eventlog")" 'no node named old1' "... and says why"
expect "$id" failed -
fails "another one is refused" "$FLUX" submit --hosts='old1' true
like "$err" "no node named old1" "... with the reason"
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
