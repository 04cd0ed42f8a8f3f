#!/bin/bash
# Commands that follow something return to the broker of a system session that is started again, after an
# orderly end and after a SIGKILL.
# shellcheck disable=SC2154 # set by run, ok
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs kvs dmesg logger
need ss hostname

port=$(free_ports 2)
cat >session.lua <<END
session {
    hosts = "$(hostname)",
    address = "tcp://127.0.0.1:$port",
    curve = false,
}
END
mkdir -m 700 run
export FLUX_URI="local://$PWD/run/local"

begin() {
    "$FLUX" start --config="$PWD/session.lua" --rundir="$PWD/run" --statedir="$PWD/state" -- \
        sleep 1000 >>broker.out 2>&1 </dev/null &
    broker=$!
    wait_until 30 "$FLUX" queue list
}

# flux top on a terminal, if there is one.
tops=
if command -v tmux >/dev/null && "$FLUX" top --help >/dev/null 2>&1; then
    tops=yes
    export TMUX_TMPDIR=$TEST_DIR
fi
tm() {
    tmux -L top -f /dev/null "$@"
}
shows() {
    tm capture-pane -p -t 0 | finds -E -- "$1"
}
top_returns() { # DESC NAME: it shows a new job of this name
    if [ -z "$tops" ]; then
        skip 1 "no tmux, or no flux top"
        return
    fi
    "$FLUX" submit --quiet --hold --name="$2" true
    ok "$1" wait_until 30 shows " $2"
}

top_away() { # DESC
    if [ -z "$tops" ]; then
        skip 1 "no tmux, or no flux top"
        return
    fi
    ok "$1" wait_until 30 shows "^connection lost, trying again"
}
top_is_there() {
    ! shows "^connection lost"
}

# Each ^C but the one that detaches is answered with a line.
sent=0
detach() {
    if [ "$(grep -c "once more" left.err)" -eq "$sent" ]; then
        kill -INT "$left"
        sent=$((sent + 1))
    fi
    all_dead "$left"
}

ok "a session begins" begin
ok "a job waits" "$FLUX" submit --hold sh -c 'echo from the job; exit 3'
id=$out
"$FLUX" kvs put t.a=1
"$FLUX" kvs watch t.a >watch.out 2>watch.err &
watch=$!
"$FLUX" kvs put t.b=x
"$FLUX" kvs watch --append -c 2 t.b >append.out 2>append.err &
append=$!
"$FLUX" dmesg -f -s test >dmesg.out 2>dmesg.err &
dmesg=$!
"$FLUX" wreck attach "$id" >attach.out 2>attach.err &
attach=$!
"$FLUX" wreck attach "$id" >left.out 2>left.err &
left=$!
"$FLUX" event sub there >event.out 2>event.err &
event=$!
[ -z "$tops" ] || tm new-session -d -x 100 -y 20 "env TERM=screen '$FLUX' top; sleep 100"
top_returns "flux top shows jobs" one
"$FLUX" logger --source=test first
ok "they follow" wait_until 20 grep -q first dmesg.out
ok "all of them" wait_until 20 grep -q 1 watch.out
wait_until 20 grep -q x append.out

# The job has no tasks yet, so it does not matter to it how the broker ends.
kill -TERM "$broker"
wait "$broker"
wait "$event"
isnt $? 0 "a command without the flag ends with the broker"
top_away "flux top says that the connection is lost"
ok "the session is started again" begin
"$FLUX" kvs put t.a=2
"$FLUX" logger --source=test second
ok "flux kvs watch returns" wait_until 30 grep -q 2 watch.out
ok "flux dmesg -f returns" wait_until 30 grep -q second dmesg.out
like "$(cat watch.err)" "the broker was started again" "and says so"
top_returns "flux top returns" two
[ -z "$tops" ] || ok "and says so no longer" top_is_there
wait_until 30 grep -q xx append.out
"$FLUX" kvs put --append t.b=y
ok "flux kvs watch --append returns" wait "$append"
is "$(cat append.out)" xxy "begins anew, and does not count that"
is "$(cat append.err)" "flux kvs watch: the broker was started again: t.b from its beginning" "and says so"

mapfile -t children < <(ps -o pid= --ppid "$broker" | tr -d ' ')
kill -KILL "$broker" "${children[@]}"
wait "$broker" 2>/dev/null
ok "^C twice detaches while the broker is away" wait_until 20 detach
wait "$left"
is $? 130 "and says that it was interrupted"
top_away "flux top says it again"
ok "the session is started after a SIGKILL" begin
"$FLUX" kvs put t.a=3
"$FLUX" logger --source=test third
ok "flux kvs watch returns again" wait_until 30 grep -q 3 watch.out
ok "flux dmesg -f returns again" wait_until 30 grep -q third dmesg.out
top_returns "flux top returns again" three
[ -z "$tops" ] || {
    tm kill-server
    rm -rf "$TMUX_TMPDIR"/tmux-*
}
is "$(grep -c first dmesg.out)" 1 "and no entry is printed twice"
ok "the job runs" "$FLUX" wreck release "$id"
wait "$attach"
is $? 3 "flux wreck attach has waited for it through both"
is "$(cat attach.out)" "from the job" "and prints its output"

# They would wait for the next session.
kill "$watch" "$dmesg"
wait "$watch" "$dmesg"
kill -TERM "$broker"
wait "$broker"
unset FLUX_URI
finish
