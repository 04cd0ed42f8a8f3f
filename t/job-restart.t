#!/bin/bash
# The whole session killed with SIGKILL, several times, while jobs are submitted, wait and run: what
# was accepted is there after the next start, queued jobs run once, what ran is recorded as dead,
# ids go on.  It is killed at each of the hold points of the job module (libutil/holdpoint.h), at a
# count that comes from the seed; in `make soak`, and in builds without hold points, at random
# moments.  RESTART_ROUNDS chooses how often, RESTART_SEED which ones.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs
need setsid
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"

rounds=${RESTART_ROUNDS:-4}
points=(jobs-sent jobs-recorded jobs-launching jobs-launched)
at_points=1
if [ -n "${SOAK_SEED:-}" ] || ! has_hold_points; then
    at_points=0
fi
seed=${RESTART_SEED:-${SOAK_SEED:-8}} # make soak takes another each time
RANDOM=$((seed % 32768))
note "seed $seed"
mkdir ran held
: >accepted

# What a session does until it is killed: jobs that say that they have run, some for a while.
cat >work <<'END'
#!/bin/bash
n=0
# One job of each life runs for certain when the session is killed: it goes before all that older
# lives left.
"$FLUX" submit --urgency=31 sh -c 'touch held/$FLUX_JOB_ID; echo x >>ran/$FLUX_JOB_ID; exec sleep 1000' >>accepted || exit 1
while n=$((n + 1)); do
    "$FLUX" submit --cc=1-5 sh -c 'echo x >>ran/$FLUX_JOB_ID; sleep 0.{{cc}}' >>accepted || exit 1
    [ -e working ] || touch working
    if [ $((n % 3)) -eq 0 ]; then
        "$FLUX" submit --dependency=afterany:"$(tail -1 accepted)" \
            sh -c 'echo x >>ran/$FLUX_JOB_ID' >>accepted || exit 1
    fi
    sleep 0.05
done
END
chmod +x work
export FLUX

# As many jobs as there were lives hold a core until they are killed.
holding() {
    [ "$(find held -type f | wc -l)" -ge "$1" ]
}
crash() {
    local sid hold_point=''
    rm -f working "$HOLD_FILE"
    if [ $at_points = 1 ]; then
        hold_point=${points[round % ${#points[@]}]}:$((1 + RANDOM % 20)):$TEST_DIR/$HOLD_FILE
    fi
    FLUX_HOLD_POINT=$hold_point setsid "$FLUX" start --size=2 --statedir="$TEST_DIR/state" ./work >out 2>err </dev/null &
    sid=$!
    wait_until 30 test -e working || return 1
    wait_until 30 holding "$round" || return 1
    if [ $at_points = 1 ]; then
        hold_point_arm
        wait_until 30 hold_point_reached $sid
    else
        sleep "0.$(printf %03d $((200 + RANDOM % 800)))"
    fi
    if ! kill -0 $sid || [ -e "$HOLD_FILE" ]; then
        note "$(cat err)" >&2
        kill_setsid $sid
        return 1
    fi
    kill_setsid $sid
    { wait $sid; } 2>/dev/null
    # Tasks are in sessions of their own; they end with their launchers.
    wait_until 20 no_processes
    rm -rf "$TMPDIR"/flux-*
}

good=0
for ((round = 1; round <= rounds; round++)); do
    crash || break
    good=$((good + 1))
done
is "$good" "$rounds" "the session was killed $rounds times"
accepted=$(sort -un accepted | wc -l)
note "$accepted jobs were accepted"
ok "some jobs were accepted" test "$accepted" -gt 10
is "$(wc -l <accepted)" "$accepted" "no id was given twice"

hold 2 --statedir="$TEST_DIR/state"
ok "what was queued runs to its end" run_with_timeout 50 "$FLUX" queue idle
lost=0 twice=0 wrong=0
"$FLUX" kvs dir -R job >dump 2>/dev/null
while read -r one; do
    log=$(grep -F "job.$one.eventlog =" dump)
    times=0
    [ ! -e "ran/$one" ] || times=$(wc -l <"ran/$one")
    case $log in
    *'"name":"clean"'*) ;;
    *) lost=$((lost + 1)) && note "job $one: $log" >&2 ;;
    esac
    [ "$times" -le 1 ] || twice=$((twice + 1))
    case $log in
    *'"status":0'*) [ "$times" -eq 1 ] || wrong=$((wrong + 1)) ;;
    *'"name":"start"'*) ;;
    *) wrong=$((wrong + 1)) && note "job $one never started: $log" >&2 ;;
    esac
done < <(sort -un accepted)
is "$lost" 0 "every job that was accepted has ended"
is "$twice" 0 "... none has run twice"
is "$wrong" 0 "... and what is said to be done has been"
undead=0
# Rank 0 may be the last to be killed, and record before that another broker, or the initial
# program, has gone.
for file in held/*; do
    log=$(grep -F "job.${file#held/}.eventlog =" dump)
    case $log in
    *"the session was restarted"* | *'"name":"exception"'*) ;;
    *) undead=$((undead + 1)) && note "job ${file#held/}: $log" >&2 ;;
    esac
done
is "$undead" 0 "what ran when a session was killed is recorded as dead"
submit true
ok "the next job runs" "$FLUX" wreck wait "$id"
ok "... and its id is new" test "$id" -gt "$(sort -n accepted | tail -1)"
jobs_proved "the event logs prove it"
ok "the queue is stopped" "$FLUX" queue stop "for a while"
submit true
release
is "$status" 0 "the session ends"
hold 2 --statedir="$TEST_DIR/state"
like "$("$FLUX" queue list)" "for a while" "an orderly restart: the queue is still stopped"
ok "... is started" "$FLUX" queue start
ok "... and its job runs" "$FLUX" wreck wait "$id"
jobs_proved "the event logs prove it"
release
is "$status" 0 "the session ends"
finish
