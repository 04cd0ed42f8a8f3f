#!/bin/bash
# The wall clock is set forward and back under a session: limits last as long as they did, ends are
# recorded, nothing hangs, and what is displayed follows the clock.
# shellcheck disable=SC2154 # set by run, ok, submit
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs queue
# shellcheck source=t/jobs/lib.sh
. "$SRCDIR/t/jobs/lib.sh"
preload=$BUILDDIR/t/job/.libs/wallclock.so
[ -e "$preload" ] || skip_all "no $preload: make check builds it"
# The runtime of a sanitizer has to come before all that is preloaded.
case ${FLUX_TEST_SANITIZERS-} in
*address*) preload="$(gcc -print-file-name=libasan.so) $preload" ;;
esac
export WALLCLOCK=$TEST_DIR/step
set_clock() { # SECONDS, from what it really is
    echo "$1" >step.new && mv step.new step
}
set_clock 0
cat >two.lua <<'END'
resource { { nodes = "node[0-1]", cores = 8 }, emulate = true }
END
export LD_PRELOAD=$preload
hold 1 --set resrc.config="$TEST_DIR/two.lua"
unset LD_PRELOAD

# The proof of t/jobs compares times of jobs with each other: not here.
result() { # ID RESULT DESCRIPTION
    is "$("$FLUX" jobs -a -n -o '{result}' "$1" | tr -d ' ')" "$2" "$3"
}
over() {
    [ "$("$FLUX" jobs -a -n -o '{result}' "$1" | tr -d ' ')" = timeout ]
}
running() {
    [ "$("$FLUX" jobs -n -s run -o '{id}' "$1" | tr -d ' ')" = "$1" ]
}
submit -t 1h sh -c 'while [ ! -e go ]; do sleep 0.05; done'
long=$id
ok "a job with a limit of an hour" wait_until 20 running "$long"
set_clock 7200
ok "the clock is set forward by two hours: jobs run and end" submit --wait true
ok "... queue idle and wreck wait see that" run_with_timeout 30 "$FLUX" wreck wait "$id"
submit -t 1s sleep 600
ok "a limit of a second ends a job" wait_until 60 over "$id"
ok "... and the job with a limit of an hour still runs" running "$long"
started=$("$FLUX" kvs get "job.$id.eventlog" | sed -n '1s/.*"timestamp":\([0-9]*\).*/\1/p')
ok "times on record follow the clock" test "$started" -gt $(($(date +%s) + 7000))


# What the scheduler says, and what it is told, in times of the day as they are now.
about() { # TIME WANTED DESCRIPTION
    ok "$3" test "$((${1%.*} - $2))" -gt -600 -a "$((${1%.*} - $2))" -lt 600
}
ask() {
    run "$BUILDDIR/t/sched/sched_peer" ask "$@"
}
later() { # -> seconds: what the clock shows
    echo $(($(date +%s) + $(cat step)))
}
number() { # NAME <JSON: its value, without decimals
    sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}
R=$("$FLUX" kvs get "job.$id.R")
about "$(number starttime <<<"$R")" "$(later)" "so do times in R"
about "$(number expiration <<<"$R")" "$(later)" "... and its expiration"
expected() { # -> when the job is to start
    ask sched.why "{\"ids\":[$whole]}"
    sed -n "s/.*\[$whole,\([0-9]*\).*/\1/p" <<<"$out"
}
submit -N2 --exclusive -t 1m true
whole=$id
waits() { [ -n "$(expected)" ]; }
ok "a job that waits for all nodes" wait_until 20 waits
about "$(expected)" $(($(later) + 3600)) "... is expected when the job with a limit of an hour ends"
ask sched.why "{\"ids\":[$whole]}"
until=$(sed -n 's/.*until \([-0-9]* \)\?\([0-9:]*\).*/\1\2/p' <<<"$out")
about "$(date -u -d "${until#????-??-??}" +%s | awk -v now="$(later)" \
    '{ d = ($1 - now - 3600) % 86400; if (d > 43200) d -= 86400; if (d < -43200) d += 86400; print now + int(d) }')" \
    "$(later)" "... and told so"
set_clock -3600
about "$(expected)" $(($(later) + 3600)) "the clock is set back by three hours: so is that"
"$FLUX" cancel "$whole" || true
ask sched.expiration "{\"expiration\":$(($(later) + 1800))}"
set_clock 7200
ask sched.status '{}'
about "$(number expiration <<<"$out")" $(($(later) + 1800)) \
    "resources that go in half an hour do so when the clock is set"
submit -t 10m true
ok "... and a job with a limit of ten minutes starts" run_with_timeout 30 "$FLUX" wreck wait "$id"
ask sched.expiration '{"expiration":0}'

submit -t 3s sleep 600
short=$id
wait_until 20 running "$short"
set_clock -3600
ok "the clock is set back by an hour: a limit of three seconds is over in time" \
    wait_until 60 over "$short"
for _ in 1 2 3; do
    submit --cc=1-40 true
    ok "jobs run and end" run_with_timeout 60 "$FLUX" wreck wait "${ids//$'\n'/,}"
done
touch go
ok "the queue becomes idle" run_with_timeout 30 "$FLUX" queue idle
result "$long" completed "... when the job with a limit of an hour has ended"
like "$("$FLUX" dmesg | tail -1)" "job" "the log goes on"
release
is "$status" 0 "the session ends"
finish
