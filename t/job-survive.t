#!/bin/bash
# Jobs, clients and requests that do not behave: each job still ends as it should, and is on record.
# shellcheck disable=SC2016,SC2154 # the jobs expand; set by run and jobs/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck queue wreckrun
. "$SRCDIR/t/jobs/lib.sh"
client=$BUILDDIR/t/jobs/jobclient
[ -x "$client" ] || skip_all "t/jobs/jobclient has not been built"

hold 4

# --- tasks ---
ok "a task that ignores SIGTERM" submit --grace=0.3s --env=MARK=deaf.$$ \
    sh -c 'trap "" TERM; touch deaf.ready; while :; do sleep 1; done'
deaf=$id
wait_until 20 test -e deaf.ready
ok "is canceled" "$FLUX" cancel --wait --quiet "$deaf"
ok "and is gone, with its children" wait_until 10 unmarked deaf
expect "$deaf" canceled 137

ok "a task with a time limit that ignores SIGTERM" submit -t 0.3s --grace=0.3s \
    sh -c 'trap "" TERM; while :; do sleep 1; done'
expect "$id" timeout 124

ok "a task that leaves a daemon behind" submit --env=MARK=daemon.$$ \
    sh -c 'setsid sh -c "sleep 1000 & exec sleep 1000" >/dev/null 2>&1 & sleep 0.2; exit 3'
expect "$id" failed 3
ended "$id"
ok "which dies with the job" wait_until 10 unmarked daemon

# A bomb that stops by itself where a limit on processes does not hold (root has none).
ok "a fork bomb within its limits" submit -t 1s --grace=0.2s --env=MARK=bomb.$$ --rlimit=nproc=200 \
    sh -c 'f() { [ $1 -gt 6 ] || { f $(($1 + 1)) & f $(($1 + 1)) & }; exec sleep 1000; }; f 0'
expect "$id" timeout 124
ended "$id"
ok "is gone" wait_until 20 unmarked bomb
# The limit itself: root has to become somebody else for it to hold.
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=$((60000 + $$ % 5000)) --clear-groups)
ok "more processes than the limit allows" submit --env=MARK=limited.$$ --rlimit=nproc=20 "${as[@]}" \
    sh -c 'n=0; while [ $n -lt 60 ]; do sleep 1000 & n=$((n + 1)); done; exit 0'
expect "$id" failed 2
ended "$id"
ok "are refused, and those before are gone" wait_until 10 unmarked limited
ok "and others run" submit --wait true
expect "$id" completed 0

ok "10,000 arguments" submit sh -c '[ $# -eq 10000 ] && [ "${10000}" = 10000 ]' sh $(seq 1 10000)
expect "$id" completed 0
ok "an argument of 100,000 bytes" submit sh -c '[ ${#1} -eq 100000 ]' sh \
    "$(head -c 100000 /dev/zero | tr '\0' a)"
expect "$id" completed 0
ok "a variable that is not UTF-8 arrives" env BYTES=$'\xff\xfe' "$FLUX" wreckrun \
    sh -c '[ "$(printf %s "$BYTES" | od -An -tx1 | tr -d " ")" = fffe ]'

# --- output ---
ok "output without newline" submit printf 'no newline'
expect "$id" completed 0
is "$("$FLUX" wreck attach "$id")" "no newline" "is shown as it is"
ok "binary output" submit sh -c 'head -c 1000000 /dev/urandom | tee sent; head -c 1000 /dev/zero'
expect "$id" completed 0
"$FLUX" wreck attach "$id" >got
head -c 1000 /dev/zero >>sent
ok "arrives whole" cmp sent got
ok "64 MiB in one line" submit --output-limit=128M sh -c 'head -c 67108864 /dev/zero | tr "\0" x'
expect "$id" completed 0
is "$("$FLUX" wreck attach "$id" | wc -c)" 67108864 "arrives whole"
ok "more than is kept" submit --output-limit=100k sh -c 'head -c 1000000 /dev/zero | tr "\0" y'
expect "$id" completed 0
ended "$id"
run "$FLUX" wreck attach "$id"
was=$err
ok "is cut" test ${#out} -le 102400
like "$was" '[0-9]+.*(lost|dropped|kept|limit)' "and that is told"
ok "output to a file that cannot be made" submit -O "$TEST_DIR/{{id}}/file" echo x
expect "$id" failed -
ended "$id"
like "$("$FLUX" jobs -n -o '{note}' "$id")" 'No such file' "is an end with a sentence"

# --- clients ---
# Killed while it submits: what was accepted runs, nothing else happens.
"$FLUX" submit --cc=1-4000 true >ids &
pid=$!
wait_until 20 test -s ids
kill -KILL $pid
wait $pid 2>/dev/null
"$client" torn 2>/dev/null
isnt $? 0 "a client dies in the middle of a frame"
"$client" held 500 2>/dev/null
isnt $? 0 "a client dies before the answer"
ok "all that was accepted ends" "$FLUX" queue idle -t $((60 * PATIENCE))s
while read -r one; do
    expect "$one" completed 0
done < <(head -n -1 ids)

ok "a job whose output is followed" submit sh -c 'for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done'
expect "$id" completed 0
"$FLUX" wreck attach "$id" >attached &
pid=$!
wait_until 20 test -s attached
kill -KILL $pid
wait $pid 2>/dev/null
ok "goes on when who followed it is killed" ended "$id"
is "$("$FLUX" wreck attach "$id" | tr '\n' ' ')" "1 2 3 4 5 6 7 8 " "and its output can be read again"

"$FLUX" wreckrun --env=MARK=orphan.$$ sh -c 'touch orphan.ready; exec sleep 1000' &
pid=$!
wait_until 20 test -e orphan.ready
kill -KILL $pid
wait $pid 2>/dev/null
ok "a job of wreckrun ends with its client" wait_until 20 unmarked orphan

# --- requests ---
ok "a jobspec of every wrong shape" "$client" shapes
like "$out" '^[0-9]{3,} refused, [1-9][0-9]* accepted$' "most are refused"
ok "requests of random bytes" "$client" noise 7 1000
"$FLUX" cancel --quiet --all
ok "all jobs end" "$FLUX" queue idle -t $((60 * PATIENCE))s
ok "the service is well" submit --wait -N4 -n4 true
expect "$id" completed 0
jobs_proved "the event logs prove it all"
release
is "$status" 0 "the session ends well"
finish
