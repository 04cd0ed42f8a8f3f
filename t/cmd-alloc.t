#!/usr/bin/env bash
# flux alloc: with and without a terminal, exit codes, signals, the terminal given back.
# shellcheck disable=SC2016,SC2154 # the inner shell expands; set by run
. "$(dirname "$0")/lib.sh"
need tmux
need_flux start alloc jobs wreck

hold 2
alloc() {
    run_with_timeout 30 "$FLUX" alloc "$@"
}

# --- as a pipe ---

is "$(alloc -N2 "$FLUX" getattr size)" 2 "a session of the allocation's nodes"
is "$(alloc "$FLUX" getattr instance-level)" 1 "one level down"
exits 5 "the exit code" alloc sh -c 'exit 5'
exits 127 "no such command" alloc /no/such/command
is "$(echo input | alloc cat)" input "standard input"
head -c 3000000 /dev/urandom >data
alloc cat <data >copy
cmp data copy
is $? 0 "3 MB through it"
run alloc sh -c 'echo error >&2'
like "$err" error "standard error"
exits 124 "the time limit" alloc -t 1s sleep 100
fails "more nodes than there are" alloc -N3 true
like "$err" 3 "with a sentence"
"$FLUX" alloc sleep 100 &
bg=$!
running() {
    "$FLUX" jobs -n -s running -o '{id}' | finds .
}
ok "one that runs" wait_until 10 running
kill -TERM "$bg"
wait "$bg"
is $? 143 "SIGTERM ends it"
ok "and its job" wait_until 10 no_active_jobs
"$FLUX" alloc sleep 100 &
bg=$!
ok "one that runs" wait_until 10 running
kill -KILL "$bg"
wait "$bg" 2>/dev/null
ok "SIGKILL ends its job" wait_until 10 no_active_jobs

# While it waits.
"$FLUX" queue stop >/dev/null
queued() {
    "$FLUX" jobs -n -s pending -o '{id}' | finds .
}
for sig in TERM:143 HUP:129; do
    "$FLUX" alloc true &
    bg=$!
    ok "one that waits" wait_until 10 queued
    kill "-${sig%:*}" "$bg"
    wait "$bg"
    is $? "${sig#*:}" "SIG${sig%:*} ends it"
    ok "and takes its job out of the queue" wait_until 10 no_active_jobs
done
"$FLUX" alloc true &
bg=$!
ok "one that waits" wait_until 10 queued
kill -KILL "$bg"
wait "$bg" 2>/dev/null
ok "SIGKILL takes its job out of the queue" wait_until 10 no_active_jobs
"$FLUX" queue start >/dev/null

# --- on a terminal ---

export TMUX_TMPDIR=$TEST_DIR
tm() {
    tmux -L term -f /dev/null "$@"
}
shows() {
    tm capture-pane -p -t 0 >screen
    grep -qE "$1" screen
}
tm new-session -d -x 80 -y 24 "env PS1='prompt> ' sh"
tm set -g remain-on-exit on
ok "a shell" wait_until 10 shows 'prompt>'
# The line that is typed wraps somewhere, and must not look like the prompt there.
tm send-keys "stty -g >before; '$FLUX' alloc -N2 env PS1='in''ner> ' sh; echo code=\$?" Enter
ok "a shell on the allocation" wait_until 15 shows '^inner>'
tm send-keys 'stty size; tty' Enter
ok "its terminal has this one's size" wait_until 5 shows '^24 80' || note "$(cat screen)"
tm send-keys "'$FLUX' getattr size" Enter
ok "it is in the session" wait_until 5 shows '^2$'
tm resize-window -x 100 -y 30
resized() {
    tm send-keys 'stty size' Enter
    wait_until 1 shows '^30 100'
}
ok "a new size arrives" wait_until 10 resized
tm send-keys 'echo begin; sleep 100' Enter
ok "it sleeps" wait_until 5 shows '^begin'
# The shell itself gets a ^C that comes before the command is in the foreground, and waits on.
interrupted() {
    tm send-keys C-c
    tm send-keys 'echo interrupted $?' Enter
    wait_until 1 shows '^interrupted 130'
}
ok "^C goes to the command" wait_until 10 interrupted
"$FLUX" queue stop >/dev/null
tm send-keys 'exit 9' Enter
ok "its exit code" wait_until 10 shows '^code=9'
tm send-keys 'stty -g | cmp - before && echo same' Enter
ok "the terminal is as it was" wait_until 5 shows '^same'
tm send-keys "'$FLUX' alloc true; echo waiting=\$?" Enter
ok "one that waits" wait_until 10 queued
tm send-keys C-c
ok "^C ends it" wait_until 5 shows 'waiting=130'
ok "and takes its job out of the queue" wait_until 10 no_active_jobs
"$FLUX" queue start >/dev/null
tm send-keys "clear; '$FLUX' alloc sleep 100 & sleep 0.1; fg" Enter
ok "it runs" wait_until 10 running
raw() {
    stty -a -F "$(tm display -p -t 0 '#{pane_tty}')" | finds -- -icanon
}
ok "the terminal is raw" wait_until 5 raw
kill -KILL "$(pgrep -f -P "$(tm display -p -t 0 '#{pane_pid}')" 'alloc sleep 100')"
cooked() {
    ! raw
}
ok "killed with SIGKILL, the terminal is given back" wait_until 5 cooked
ok "and its job is gone" wait_until 10 no_active_jobs
tm kill-server
rm -rf "$TMUX_TMPDIR"/tmux-*
release
finish
