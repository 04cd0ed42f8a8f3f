#!/usr/bin/env bash
# When its time is up a task knows, and so does a session that runs in a job; also what is in that.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun getattr kvs

# time_of ID: what the R of this job says
time_of() {
    "$FLUX" kvs get "job.$1.R" | sed -n 's/.*"expiration":\([0-9.]*\).*/\1/p'
}
# same A B: the same time; it is told in microseconds
same() {
    [ -n "$1" ] && awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b < 0.001 && b - a < 0.001) }'
}
attr=("$FLUX" getattr sched.expiration)

hold 1
run "$FLUX" wreckrun -n1 sh -c 'echo ${FLUX_JOB_EXPIRATION-never}'
is "$out" never "a job without a limit has no end"
FLUX_JOB_EXPIRATION=5 run "$FLUX" wreckrun -n1 sh -c 'echo ${FLUX_JOB_EXPIRATION-never}'
is "$out" never "... whatever its client's environment says"
run "$FLUX" wreckrun -n1 -t 60s sh -c 'echo $FLUX_JOB_EXPIRATION'
ok "a job with a limit knows when its time is up" same "$out" "$(time_of 3)"
run "$FLUX" wreckrun -n1 "$FLUX" start "${attr[@]}"
is "$status" 1 "a session in a job without a limit has none"
run "$FLUX" wreckrun -n1 -t 60s "$FLUX" start "${attr[@]}"
ok "a session in a job with a limit knows it" same "$out" "$(time_of 5)"
run "$FLUX" wreckrun -n1 -t 60s "$FLUX" start --set=sched.expiration=99 "${attr[@]}"
is "$out" 99 "one that was told to end sooner does"
run "$FLUX" wreckrun -n1 -t 60s "$FLUX" start --set=sched.expiration=9999999999 "${attr[@]}"
ok "one that was told to end later does not" same "$out" "$(time_of 7)"
run "$FLUX" wreckrun -n1 -t 60s "$FLUX" start "$FLUX" wreckrun -n1 "$FLUX" start "${attr[@]}"
ok "a session in a job without a limit ends with the session around it" same "$out" "$(time_of 8)"
release
run env FLUX_JOB_ID=1 FLUX_TASK_RANK=0 FLUX_URI=local:///nowhere FLUX_JOB_EXPIRATION=soon "$FLUX" start "${attr[@]}"
is "$status" 1 "a time that is none does not count"
finish
