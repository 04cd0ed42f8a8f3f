#!/bin/bash
# flux exec: processes beside brokers.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start exec
hold 4 --restart

run "$FLUX" exec -l "$FLUX" getattr rank
is "$(sort <<<"$out" | tr '\n' ' ')" "0: 0 1: 1 2: 2 3: 3 " "on all ranks, labeled by rank"
run "$FLUX" exec -r 1,3 -l "$FLUX" getattr rank
is "$(sort <<<"$out" | tr '\n' ' ')" "1: 1 3: 3 " "on chosen ranks, labeled by rank"
run "$FLUX" exec -x 0,2 "$FLUX" getattr rank
is "$(sort <<<"$out" | tr '\n' ' ')" "1 3 " "on all but some"
exits 3 "the greatest exit code" "$FLUX" exec sh -c "exit \$($FLUX getattr rank)"
exits 143 "a signal" "$FLUX" exec -r 2 sh -c 'kill $$'
run "$FLUX" exec -r 0-3 -l sh -c "test \$($FLUX getattr rank) = 2 || { sleep 0.2; echo alive; }; \
    exec no-such-program"
is "$status" 127 "a program that is not there"
run "$FLUX" exec -r 1 -d /usr pwd
is "$out" /usr "--dir"
run "$FLUX" exec -l cat <<<"to all"
is "$(sort <<<"$out" | tr '\n' ' ')" "0: to all 1: to all 2: to all 3: to all " \
    "standard input goes to all"
run "$FLUX" exec -n cat <<<"to none"
is "$out" "" "--noinput"
run "$FLUX" exec -r 0 sh -c 'echo ${FLUX_JOB_ID-none} ${PMI_FD-none}'
is "$out" "none none" "it is not a job"
exits 127 "a program that no rank has" "$FLUX" exec -r 0-1 no-such-program
like "$err" "cannot run 'no-such-program'" "... is named"
exits 2 "a rank that is not in the session" "$FLUX" exec -r 9 true
fails "no rank left" "$FLUX" exec -x 0-3 true
exits 2 "no command" "$FLUX" exec
exits 2 "a set of ranks that is none" "$FLUX" exec -r '0-' true
exits 2 "a host that is not there" "$FLUX" exec -r no-such-host true
like "$err" "no-such-host" "... is named"
exits 2 "a rank that is not there" "$FLUX" exec -r 99 true
ok "a host by its name" "$FLUX" exec -l -r "$(hostname)" hostname
is "$(wc -l <<<"$out")" 4 "... is all of its ranks"

# The broker of the command is lost.
mkfifo started
FLUX_URI=$("$FLUX" getattr -r 3 uri) "$FLUX" exec -n -r 1-2 sh -c 'echo $$; exec sleep 1000' \
    >started 2>lost.err &
command=$!
mapfile -t -n 2 processes <started
lost=$(broker_pid 3)
kill -KILL "$lost"
wait "$command"
is $? 1 "the command fails when its broker is killed"
is "$(cat lost.err)" "flux exec: the broker of rank 3, to which this command was connected, was lost: \
its processes end, too, and their exit codes are not known" "... says so in one sentence"
gone() {
    ! kill -0 "${processes[@]}" 2>/dev/null
}
is "${#processes[@]}" 2 "two processes had started"
ok "... and they end" wait_until 30 gone
returned() {
    [[ "$(broker_pid 3)" != @("$lost"|"") ]] && "$FLUX" up --quiet
}
ok "the broker is started again" wait_until 30 returned
release
is "$status" 0 "the session ends"
finish
