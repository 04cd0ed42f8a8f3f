#!/bin/bash
# Jobs that wait for other jobs, or for a time.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
hold 1

depends() {
    "$FLUX" jobs -a -j "$1" | tr -d '\n' | sed -n 's/.*"dependency": *"\([^"]*\)".*/\1/p'
}

# A gate that jobs wait behind: it ends with the exit code in the file.
gate() {
    rm -f "open.$1"
    submit sh -c "while ! test -e open.$1; do sleep 0.02; done; exit \$(cat open.$1)"
    gate=$id
}
open_gate() {
    echo "$2" >"open.$1.tmp" && mv "open.$1.tmp" "open.$1"
}

gate a
submit --dependency=afterok:"$gate" sh -c 'test -e open.a && echo ok'
ok1=$id
is "$(depends "$ok1")" "afterok:$gate" "a list says what it waits for"
submit --dependency=afterany:"$gate" true
any=$id
submit --dependency=afternotok:"$gate" true
notok=$id
submit --dependency=after:"$gate" true
after=$id
ok "after: when the other has started" "$FLUX" wreck wait "$after"
like "$("$FLUX" jobs "$ok1")" depend "afterok waits until the other has ended"
open_gate a 0
ok "afterok: when it has ended well" "$FLUX" wreck wait "$ok1"
ok "afterany: when it has ended" "$FLUX" wreck wait "$any"
run "$FLUX" wreck wait "$notok"
isnt "$status" 0 "afternotok is ended when that can not be met any more"
like "$("$FLUX" kvs get "job.$notok.eventlog")" '"type":"dependency","severity":0' "... by an exception"
expect "$ok1" completed 0
expect "$any" completed 0
expect "$notok" failed -

gate b
submit --dependency=afterok:"$gate" true
first=$id
submit --dependency=afterok:"$first" true
second=$id
submit --dependency=afternotok:"$gate" true
notok=$id
open_gate b 1
ok "afternotok: when the other has failed" "$FLUX" wreck wait "$notok"
run "$FLUX" wreck wait "$second"
isnt "$status" 0 "what waits for what never comes is ended, too"
expect "$first" failed -
expect "$second" failed -
expect "$notok" completed 0

submit --dependency=afterok:"$first" true
run run_with_timeout 30 "$FLUX" wreck wait "$id"
isnt "$status" 0 "afterok of a job that has failed is a job that fails"
expect "$id" failed -
like "$("$FLUX" kvs get "job.$id.eventlog")" "afterok:$first can never be met: job $first has ended without" \
    "... with the reason on record"
submit --dependency=afterany:"$id" true
ok "... and others can depend on it" "$FLUX" wreck wait "$id"
expect "$id" completed 0
ok "afterany of one that has ended is not a dependency" "$FLUX" submit --dependency=afterany:"$first" true

# A long chain, ended from its beginning.
gate c
last=$gate
for _ in $(seq 50); do
    submit --dependency=afterok:"$last" true
    last=$id
done
open_gate c 1
run "$FLUX" wreck wait "$last"
isnt "$status" 0 "a chain of 50 is ended by its first"

# The begin time.
now=$(date +%s%N)
submit --begin-time=+1s sh -c 'date +%s%N >began'
ok "a job with a begin time starts" "$FLUX" wreck wait "$id"
ok "... not before" test $(($(cat began) - now)) -ge 900000000
submit --begin-time=+1h true
like "$("$FLUX" jobs "$id")" depend "... but waits"
ok "one that waits for its time is canceled" "$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
expect "$id" canceled -

# Canceled with what it depends on.
"$FLUX" queue stop
submit true
first=$id
submit --dependency=afterok:"$first" true
ok "a job and the one that waits for it are canceled" "$FLUX" cancel -m together "$first,$id"
run "$FLUX" wreck wait "$first,$id"
like "$("$FLUX" jobs -a -j "$id")" '"note": *"together"' "... and both for that reason"
expect "$id" canceled -
"$FLUX" queue start

"$FLUX" queue idle
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
