#!/bin/bash
# Thousands of short jobs of all fates at once; the event logs prove that each was treated well.
# shellcheck disable=SC2016,SC2154 # the jobs expand; set by run and jobs/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck queue resource
. "$SRCDIR/t/jobs/lib.sh"

# expect_all RESULT CODE ID...
expect_all() {
    local result=$1 code=$2 one
    shift 2
    for one in "$@"; do
        expect "$one" "$result" "$code"
    done
}
total=0
count() {
    # shellcheck disable=SC2086 # ids are words
    set -- $ids
    total=$((total + $#))
}

hold 4
# Of each fate many, all submitted before the first have ended.
ok "jobs that succeed" submit --cc=1-1500 true
count
# shellcheck disable=SC2086
expect_all completed 0 $ids

ok "jobs that exit with what they like" submit --cc=1-300 sh -c 'exit $((FLUX_JOB_CC % 5))'
count
n=0
for one in $ids; do
    n=$((n + 1))
    if [ $((n % 5)) -eq 0 ]; then
        expect "$one" completed 0
    else
        expect "$one" failed $((n % 5))
    fi
done

ok "jobs that kill themselves" submit --cc=1-50 sh -c 'kill -KILL $$'
count
# shellcheck disable=SC2086
expect_all failed 137 $ids

ok "jobs that cannot be started" submit --cc=1-50 /does/not/exist
count
# shellcheck disable=SC2086
expect_all failed 127 $ids

ok "jobs with several tasks on several nodes" submit --cc=1-100 -N2 -n4 \
    sh -c '[ $FLUX_TASK_RANK != 3 ] || exit 9'
count
# shellcheck disable=SC2086
expect_all failed 9 $ids

ok "jobs with a time limit" submit --cc=1-4 -t 0.2s sleep 100
count
# shellcheck disable=SC2086
expect_all timeout 124 $ids

# Chains: each link waits for the one before. What they depend on has not ended when they are
# submitted: one that cannot come true is refused then.
ok "a job that succeeds" submit sh -c 'while [ ! -e gate ]; do sleep 0.05; done'
count
expect "$id" completed 0
good=$id
ok "a job that fails" submit sh -c 'while [ ! -e gate ]; do sleep 0.05; done; exit 4'
count
expect "$id" failed 4
bad=$id
for scheme in after afterany afterok afternotok; do
    ok "$scheme a job that succeeds" submit --cc=1-20 --dependency="$scheme:$good" true
    count
    # shellcheck disable=SC2086
    case $scheme in
    afternotok) expect_all failed - $ids ;;
    *) expect_all completed 0 $ids ;;
    esac
    ok "$scheme a job that fails" submit --cc=1-20 --dependency="$scheme:$bad" true
    count
    # shellcheck disable=SC2086
    case $scheme in
    afterok) expect_all failed - $ids ;;
    *) expect_all completed 0 $ids ;;
    esac
done
touch gate
link=$good chained=0
for _ in 1 2 3 4 5 6 7 8; do
    submit --dependency="afterok:$link" true || break
    count
    expect "$id" completed 0
    link=$id chained=$((chained + 1))
done
is "$chained" 8 "a chain of jobs"

# Held ones, of which some are released and some are not.
ok "jobs that are held" submit --cc=1-40 --hold true
count
# shellcheck disable=SC2086
set -- $ids
ok "some are released" "$FLUX" wreck release "${@:1:20}"
expect_all completed 0 "${@:1:20}"
ok "others are canceled" "$FLUX" cancel --quiet "${@:21}"
expect_all canceled - "${@:21}"

# Canceled while they run and while they wait.
ok "jobs that would run for ever" submit --cc=1-60 --urgency=20 --name=forever sleep 1000
count
# shellcheck disable=SC2086
expect_all canceled - $ids
forever=$ids
ok "some of them run" wait_until 20 sh -c "'$FLUX' jobs -n -s run -o '{name}' | grep -q forever"

# Nodes go away and come back meanwhile.
ok "a node is drained" "$FLUX" resource drain 3 "under repair"
# shellcheck disable=SC2086
ok "they are canceled" "$FLUX" cancel --quiet $forever
ok "another node is drained" "$FLUX" resource drain 2 "under repair"
wait_until 20 sh -c "[ \$('$FLUX' jobs -n -o '{id}' | wc -l) -lt 500 ]"
ok "the nodes come back" "$FLUX" resource undrain 2-3
ok "all jobs end" "$FLUX" queue idle -t $((60 * PATIENCE))s
jobs_proved "the event logs prove it all" --count="$total"
is "$("$FLUX" jobs -n -o '{id}' | wc -l)" 0 "no job is active"
ok "history is purged" "$FLUX" wreck purge --force
is "$("$FLUX" kvs ls job 2>/dev/null | wc -w)" 0 "nothing of the jobs is left on record"
ok "ids go on" submit --wait true
ok "... where they were" test "$id" -gt "$total"
release
is "$status" 0 "the session ends well"
finish
