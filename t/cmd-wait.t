#!/usr/bin/env bash
# What is told while something is waited for, and how it ended: once, with the reason, and by name.
# shellcheck disable=SC2016,SC2154 # tasks expand; set by run
SESSION_LIMIT=200
. "$(dirname "$0")/lib.sh"
need tmux
need_flux start wreckrun submit alloc batch queue cancel wreck

# What COMMAND shows on a terminal, in the file $1 until that has $2: then it gets ^C.
on_terminal() {
    local file=$1 pattern=$2
    shift 2
    rm -f "$file"
    tmux -S "$TMPDIR/tm" -f /dev/null new-session -d -x 200 -y 20 "$* >/dev/null"
    tmux -S "$TMPDIR/tm" pipe-pane "cat >>$file"
    wait_until 30 grep -qE "$pattern" "$file" && shown=yes || shown=no
    tmux -S "$TMPDIR/tm" send-keys C-c 2>/dev/null
    tmux -S "$TMPDIR/tm" kill-server 2>/dev/null
    rm -f "$TMPDIR/tm"
}

# logged PATTERN NAME: a line of the log is like that, soon: ends of jobs are gathered for a moment.
logged() {
    ok "$2" wait_until 30 sh -c '"$0" dmesg | grep -qE "$1"' "$FLUX" "$1"
}

hold 2
big=$("$FLUX" submit -N2 -x -t 10m sleep 1000)
wait_until 30 sh -c "'$FLUX' jobs -n -s run -o '{id}' | grep -q ."

# Elsewhere than on a terminal: these wait while the following goes on.
late=()
for what in wreckrun alloc "submit --wait" "batch --wait --wrap"; do
    # shellcheck disable=SC2086 # words
    "$FLUX" $what --hold true </dev/null >/dev/null 2>"late.${what%% *}" &
    late+=($!)
done
shown=''
for what in "wreckrun true" "alloc -N1 true" "submit --wait true" "batch --wait --wrap true" "submit --watch true"; do
    on_terminal "out.${what%% *}" 'job[s 0-9]* *(\(|left).*expected at [0-9:]{8}.*: .*[a-z]' "$FLUX" "$what"
    is "$shown" yes "flux $what: what it waits for, and when it is expected to start"
    "$FLUX" jobs -n -o '{id}' -s pending | xargs -r "$FLUX" cancel --quiet
done
for what in wreckrun alloc submit batch; do
    wait_until 30 test -s "late.$what"
    like "$(<"late.$what")" "^flux $what: (job [0-9]+ has not started yet: held)$" "flux $what: elsewhere one line, with the reason"
done
"$FLUX" cancel -q -s held
wait "${late[@]}"
on_terminal out.wait '1 job left' "$FLUX" "wreck wait $big"
is "$shown" yes "flux wreck wait: how many are left"
on_terminal out.attach "job $big \(.C twice" "$FLUX wreck attach $big & sleep 1000; true"
is "$shown" yes "flux wreck attach: what the job does"
on_terminal out.idle "waiting for the queue to be empty; job $big" "$FLUX" "queue idle"
is "$shown" yes "flux queue idle: which job is left"
exits 1 "queue drain with a timeout" "$FLUX" queue drain -t 0.1
like "$err" "no jobs are accepted until 'flux queue enable'" "... says that the queue stays closed"
ok "it is opened again" "$FLUX" queue enable

"$FLUX" wreckrun -N1 --overcommit sleep 1000 >/dev/null 2>w.err &
waits=$!
wait_until 30 sh -c "'$FLUX' jobs -n -s pending -o '{id}' | grep -q ."
"$FLUX" cancel --quiet "$("$FLUX" jobs -n -s pending -o '{id}')"
wait "$waits"
is "$(grep -c cancel w.err)" 1 "that a job was canceled is told once"
"$FLUX" wreck attach "$big" 2>a.err &
waits=$!
"$FLUX" cancel --quiet "$big"
wait "$waits"
is "$(grep -c 'was canceled' a.err)" 1 "also to who is attached"

run "$FLUX" wreckrun -N2 -n4 sh -c 'test $FLUX_TASK_RANK = 2 && exit 3; test $FLUX_TASK_RANK = 1 && kill -9 $$; true'
is "$status" 137 "tasks that fail"
like "$err" "task 2 on [^ ]+ \(rank 1\): exit code 3" "one is named, with host, rank and exit code"
like "$err" "task 1 on [^ ]+ \(rank 0\): signal 9" "so is one that was killed"
unlike "$err" "task 0" "one that did not fail is not"
run "$FLUX" wreckrun -n20 --overcommit false
like "$err" "12 more tasks failed" "of many the first ones are named"
run "$FLUX" exec -r 1 sh -c 'exit 5'
like "$err" 'rank 1 on [^ ]+: exit code 5' "flux exec names ranks"
run "$FLUX" submit --quiet --wait sh -c 'exit 6'
like "$err" 'flux submit: job [0-9]+: task 0 on [^ ]+ \(rank [01]\): exit code 6' "flux submit --wait names the task"
for what in "submit --wait" "batch --wait --output=none --wrap" alloc; do
    # shellcheck disable=SC2086 # words
    run "$FLUX" $what -N2 -x sh -c 'exit 8' </dev/null
    like "$err" "^flux ${what%% *}: job [0-9]+: task 0 on [^ ]+ \(rank [01]\): exit code 8" "flux $what names the task"
done
for what in wreckrun alloc "submit --quiet --wait"; do
    # shellcheck disable=SC2086 # words
    "$FLUX" $what sh -c ': >began; exec sleep 1000' </dev/null >/dev/null 2>l.err &
    waits=$!
    wait_until 30 test -e began
    rm -f began
    id=$("$FLUX" jobs -n -s run -o '{id}')
    "$FLUX" module reload -f wrexec
    wait "$waits"
    is "$?" 137 "flux $what: its job is lost with the launcher"
    is "$(grep -v 'flux-launcher' l.err)" "flux ${what%% *}: job $id: wrexec was restarted" "... which is told once"
done
id=$("$FLUX" submit --output-limit=0 echo much)
run "$FLUX" wreck attach "$id"
is "$(grep -c "lost" <<<"$err")" 1 "flux wreck attach tells lost output once"
like "$err" "output is lost from here on: its limit of 0 bytes is reached; 5 bytes of output were lost" "... why, and how much"
id=$("$FLUX" submit -N2 -n4 sh -c 'test $FLUX_TASK_RANK != 2')
run "$FLUX" wreck attach "$id"
like "$err" "^flux wreck attach: job $id: task 2 on [^ ]+ \(rank 1\): exit code 1" "flux wreck attach names it"
run "$FLUX" job attach "$id"
like "$err" "job $id: task 2 on [^ ]+ \(rank 1\): exit code 1" "flux job attach as well"
unlike "$err" "task [013]" "... and no other"
run "$FLUX" wreck wait "$id"
like "$err" "^flux wreck wait: job $id: task 2 on [^ ]+ \(rank 1\): exit code 1" "flux wreck wait, too"
like "$("$FLUX" job info "$id")" "failed +task 2 on [^ ]+ \(rank 1\): exit code 1" "flux job info has it"
like "$("$FLUX" jobs -n -o '{failed}' "$id")" \
    "^task 2 on [^ ]+: exit code 1$" "so has a column of flux jobs"
logged "job $id .*has failed with exit code 1 \(task 2 on [^,]+, rank 1\)" "and flux dmesg"
run "$FLUX" submit --quiet --wait --overcommit -n20 false
is "$(grep -c 'task [0-9]' <<<"$err")" 8 "of many tasks the first ones are named"
like "$err" "job [0-9]+: 12 more tasks failed" "... and the others counted"

me=$(id -un)
for what in submit batch wreckrun alloc; do
    case $what in
    submit) set -- submit --quiet --wait ;;
    batch) set -- batch --quiet --wait --output=none --wrap ;;
    *) set -- "$what" ;;
    esac
    "$FLUX" "$@" sleep 1000 </dev/null >/dev/null 2>c.err &
    waits=$!
    wait_until 30 sh -c "'$FLUX' jobs -n -s run -o '{id}' | grep -q ."
    id=$("$FLUX" jobs -n -s run -o '{id}')
    "$FLUX" cancel -m 'not wanted' --quiet "$id"
    wait "$waits"
    # The session of an allocation says why it ends if it is up.
    is "$(grep -v '^flux-broker: the session ends: SIGTERM' c.err)" "flux $what: job $id was canceled by user $me: not wanted" \
        "flux $what: who canceled the job, and why, once"
done
is "$("$FLUX" jobs -n -o '{canceled_by} {note}' "$id")" "$me not wanted" "flux jobs has a column for that"
like "$("$FLUX" job info "$id")" "canceled +by $me" "flux job info says it"
like "$("$FLUX" job info "$id" eventlog)" '"type":"cancel".*"note":"not wanted".*"userid"' "the event log has it"
logged "job $id .*has ended: cancel by user $(id -u): not wanted" "flux dmesg, too"
release
finish
