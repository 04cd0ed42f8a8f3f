#!/usr/bin/env bash
# flux top: as text and on a terminal; keys, sessions within, other sizes, the end.
# shellcheck disable=SC2016,SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need tmux
need_flux start batch submit cancel
"$FLUX" top --help >/dev/null 2>&1 || skip_all "flux top has not been built: no ncurses"

hold 2
# Before the brokers have said what they have, nodes are not known.
nodes_known() {
    "$FLUX" top --batch | finds 'of 2 used'
}
ok "nodes" wait_until 20 nodes_known
ok "as text" "$FLUX" top --batch
like "$out" '2 brokers, level 0' "what session"
fails "no terminal" sh -c "'$FLUX' top </dev/null"

cat >job.sh <<'END'
#!/bin/sh
#FLUX: -N1
flux submit --quiet --name=within sleep 100
exec sleep 100
END
id=$("$FLUX" batch --name=outer job.sh)
waits=$("$FLUX" submit --urgency=hold --name=waits true)

export TMUX_TMPDIR=$TEST_DIR
tm() {
    tmux -L top -f /dev/null "$@"
}
shows() {
    tm capture-pane -p -t 0 | finds -E -- "$1"
}
hides() {
    ! shows "$1"
}
tm new-session -d -x 100 -y 20 "env TERM=screen '$FLUX' top; echo code=\$?; sleep 100"
ok "a screen" wait_until 10 shows '^flux top: session, 2 brokers, level 0'
ok "a job that is a session" wait_until 10 shows "$id > running .* outer"
ok "a job that waits" wait_until 10 shows "$waits .* waits"
like "$("$FLUX" top --batch)" '1 running, 0 pending, 1 held, 0 ended' "the same as text"
tm send-keys p
ok "jobs that wait can be hidden" wait_until 10 hides " waits"
tm send-keys p
more=$("$FLUX" submit --name=another sleep 100)
ok "a new job appears" wait_until 10 shows "$more .* another"
"$FLUX" cancel "$more"
ok "and goes" wait_until 10 hides another
tm send-keys Home Enter
ok "into the session" wait_until 10 shows "session of job $id, 1 broker, level 1"
ok "with its job" wait_until 10 shows ' within'
tm send-keys Left
ok "out of it" wait_until 10 shows '^flux top: session, 2 brokers, level 0'
tm send-keys '?'
ok "keys" wait_until 5 shows 'up, down'
tm resize-window -x 60 -y 10
at_bottom() {
    tm capture-pane -p -t 0 | tail -n 1 | finds 'up, down'
}
ok "another size" wait_until 5 at_bottom
tm resize-window -x 100 -y 20
tm send-keys Home Enter
ok "into the session again" wait_until 10 shows "session of job $id"
"$FLUX" cancel "$id"
ok "which ends: back to the one around it" wait_until 10 shows '^flux top: session, 2 brokers, level 0'
tm send-keys q
ok "q quits" wait_until 5 shows '^code=0'
tm respawn-pane -k -t 0 "env TERM=screen '$FLUX' top; echo code=\$?; sleep 100"
ok "once more" wait_until 10 shows '^flux top: session, 2 brokers, level 0'
release
ok "the end of the session ends it" wait_until 10 shows '^code=1'
ok "with a sentence" shows 'connection'
tm kill-server
rm -rf "$TMUX_TMPDIR"/tmux-*

# More than the job module lists in one slice of its time, and fewer than are shown.
hold 1
"$FLUX" submit --quiet --urgency=hold --cc=1-900 true
ok "many jobs that wait" sh -c "'$FLUX' top --batch >top.out"
is "$(grep -c ' held ' top.out) $(grep -c 'more pending' top.out)" "900 0" "all of them are shown"
release
finish
