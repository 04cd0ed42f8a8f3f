#!/usr/bin/env bash
# Policies, configurations and hooks that compute for ever: the broker goes on, and ends when it is
# told to.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck

# Each is ended by the bound on instructions or on processor time, or, as one call in C, pays for
# its work.
n=0
for body in 'while true do end' 'table.move({}, 1, 1 << 45, 1)' 'local s = string.rep("", 1 << 45)' \
    'local ok = {} ; for i = 1, 1 << 50 do ok[1] = i end'; do
    n=$((n + 1))
    echo "policy { priority = function(job, now) $body return 0 end }" >"endless$n.lua"
    # shellcheck disable=SC2016 # the session's own shell expands it
    "$FLUX" start --set=sched.queue-policy="$PWD/endless$n.lua" sh -c \
        'echo "$FLUX_URI" >uri.tmp && mv uri.tmp uri && exec sleep 1000' >session 2>&1 &
    session=$!
    ok "a session whose policy is '$body' starts" wait_until 30 test -s uri
    FLUX_URI=$(cat uri)
    rm -f uri
    export FLUX_URI
    ok "a job runs in spite of it" run_with_timeout 60 "$FLUX" wreckrun -n1 true
    case $body in
    *'rep("",'*) unlike "$("$FLUX" dmesg)" "priority" "the policy is used: nothing is nothing, however often" ;;
    *) like "$("$FLUX" dmesg)" "endless$n|priority" "the log names the policy" ;;
    esac
    broker=$("$FLUX" getattr broker.pid)
    # Many jobs, so that the policy is asked all the time where it is still used.
    "$FLUX" submit --cc=1-20 sleep 1000 >/dev/null
    kill -TERM "$broker"
    ended() { ! kill -0 "$session" 2>/dev/null; }
    ok "the session ends on SIGTERM" wait_until 60 ended
    wait "$session"
    is $? 143 "with the signal's exit code"
    unset FLUX_URI
done

echo 'while true do end' >endless-config.lua
exits 1 "a configuration that computes for ever" run_with_timeout 60 "$FLUX" start --config=endless-config.lua true
like "$err" 'too long' "ends the start with a sentence"

finish
