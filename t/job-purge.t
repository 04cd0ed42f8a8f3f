#!/bin/bash
# The history of jobs: how much is kept, and forgetting it.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
hold 1 --set job.purge-count=50

kept() {
    "$FLUX" kvs ls job | wc -w
}
kept_is() {
    [ "$(kept)" -eq "$1" ]
}

submit --cc=1-10 true
"$FLUX" wreck wait "${ids//$'\n'/,}"
is "$(kept)" 10 "ten jobs are kept"
ok "purge some by their ids" "$FLUX" wreck purge 1-3
is "$(kept)" 7 "... seven are left"
fails "one that was purged is not there" "$FLUX" wreck wait 2
# The newest are those that ended last; of those above nobody knows which.
for _ in 1 2; do
    submit true
    "$FLUX" wreck wait "$id"
done
ok "purge all but the newest" "$FLUX" wreck purge --keep=2
is "$("$FLUX" kvs ls job | tr -d './' | sort -n | tr '\n' ' ')" "11 12 " "... the newest are left"
ok "purge by age: none is so old" "$FLUX" wreck purge --age=1h
is "$(kept)" 2 "... so they stay"
fails "purge what is not said" "$FLUX" wreck purge
submit sleep 60
ok "purge all" "$FLUX" wreck purge --force
is "$(kept)" 1 "... but what has not ended"
"$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
submit --cc=1-100 true
is "${ids%%$'\n'*}" 14 "ids never come again"
"$FLUX" wreck wait "${ids//$'\n'/,}"
ok "only the newest are kept: job.purge-count" wait_until 10 kept_is 50
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"

hold 1 --set job.purge-age=1s
ok "a job ends" submit --wait true
ok "... and is kept not longer than job.purge-age" wait_until 10 kept_is 0
release
finish
