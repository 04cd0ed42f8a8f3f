#!/bin/bash
# Services reloaded under jobs that run and wait; nodes that are drained or lost.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs resource
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
cat >four.lua <<'END'
resource { nodes = "node[0-3]", cores = 2 }
END
hold 4 --set resrc.config="$TEST_DIR/four.lua"

count() {
    "$FLUX" jobs -a --no-header 2>/dev/null | grep -c "$1"
}
some_run() {
    [ "$(count running)" -gt 0 ]
}

for service in job sched resrc; do
    : >"$service.ran"
    submit --cc=1-24 sh -c "echo {{cc}} >>$service.ran; sleep 0.15"
    wait_until 10 some_run
    ok "reload $service" "$FLUX" module reload --force $service
    ok "... jobs go on" run_with_timeout 30 "$FLUX" queue idle
    is "$(sort -n $service.ran | uniq | wc -l)" 24 "... all have run"
    is "$(wc -l <$service.ran)" 24 "... once"
    for one in $ids; do
        expect "$one" completed 0
    done
done

# Ends that are told while nobody listens.
for round in 1 2 3 4 5 6; do
    submit --cc=1-150 true
    "$FLUX" module reload --force job || fail "reload $round"
    for one in $ids; do
        expect "$one" completed 0
    done
done
ok "job is reloaded while many jobs end" run_with_timeout 30 "$FLUX" queue idle
is "$(count failed)" 0 "... none is taken for dead"

: >wrexec.ran
# Until the reload nobody ends, so that nobody starts who would be ended before it has said so.
submit --cc=1-12 sh -c 'echo {{cc}} >>wrexec.ran; while [ ! -e reloaded ]; do sleep 0.05; done'
# Those that run are ended: not before they have said so.
eight_said() {
    [ "$(wc -l <wrexec.ran)" -ge 8 ]
}
wait_until 30 eight_said
ok "reload wrexec" "$FLUX" module reload --force wrexec
touch reloaded
ok "... the others go on" run_with_timeout 30 "$FLUX" queue idle
is "$(sort -n wrexec.ran | uniq | wc -l)" 12 "... all were started"
is "$(wc -l <wrexec.ran)" 12 "... once"
submit true
ok "... and a new one runs" "$FLUX" wreck wait "$id"

# Its resources are not in the store: nobody may be told that it has none.
submit sleep 60
gone=$id
wait_until 10 some_run
ok "the record of resources of a job is lost" "$FLUX" kvs unlink "job.$gone.R"
ok "... and job is reloaded" "$FLUX" module reload --force job
ok "... it is ended" ended "$gone"
run "$FLUX" kvs get "job.$gone.eventlog"
like "$out" '"lost".*its resources is missing' "... which is on record"
ok "... others run" run_with_timeout 20 "$FLUX" submit -N4 --wait true
"$FLUX" wreck purge --force "$gone" >/dev/null 2>&1 # there is no record of resources to be proved

# Drained: what runs stays, nothing new comes.
submit -N4 sleep 0.6
wide=$id
wait_until 10 some_run
ok "drain a node on which a job runs" "$FLUX" resource drain 3 for the test
ok "... the job ends as if nothing were" "$FLUX" wreck wait "$wide"
expect "$wide" completed 0
submit --cc=1-12 sh -c 'echo $FLUX_NODE_NAME >>where'
"$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(grep -c node3 where)" 0 "nothing is started there"
submit -N4 true
four=$id
for_node() {
    "$FLUX" jobs --why "$four" | finds 'pending.*drained'
}
ok "what needs it waits" wait_until 10 for_node
ok "undrain" "$FLUX" resource undrain 3
ok "... and it runs" "$FLUX" wreck wait "$four"
expect "$four" completed 0

# Lost: what runs there is dead.
submit --ranks=3 sleep 60
lost=$id
wait_until 10 some_run
pid=$("$FLUX" exec -r 3 sh -c 'echo $PPID')
broker=$(ps -o ppid= -p "$pid" | tr -d ' ')
kill -KILL "$broker"
run run_with_timeout 30 "$FLUX" wreck wait "$lost"
isnt "$status" 0 "the broker of a node is killed: its job is dead"
isnt "$status" 124 "... and that is noticed"
expect "$lost" failed -
# The scheduler is told of it by another way than the jobs.
down() {
    "$FLUX" resource list | finds -E '^down +1 '
}
wait_until 20 down
submit -N3 true
ok "a job on what is left" "$FLUX" wreck wait "$id"
expect "$id" completed 0
jobs_proved "the event logs prove it"
release
finish
