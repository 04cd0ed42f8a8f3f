#!/usr/bin/env bash
# The end of a job that is a session: by itself, canceled, out of time, killed.  Nothing is left.
# shellcheck disable=SC2016,SC2154 # the scripts expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch submit cancel jobs pstree
# shellcheck source=t/nest/lib.sh
. "$SRCDIR/t/nest/lib.sh"

nodes 4 4
hold 4 --set=resrc.config="$PWD/res.lua" --set=live.lost=60s
sockets() {
    find "$TMPDIR" -type s | wc -l
}
before=$(sockets)

# A tree of sessions three levels deep, which writes a line when each level was asked to end.
cat >tree.sh <<END
#!/bin/sh
# LEVELS
trap 'echo level \$1 >>asked; exit 0' TERM HUP
if [ \$1 -gt 1 ]; then
    "$FLUX" batch --quiet -N2 -O tree.out tree.sh \$((\$1 - 1))
else
    "$FLUX" submit --quiet sh -c 'trap "echo job >>asked; exit 0" TERM; echo up >>up; sleep 100 & wait'
    "$FLUX" submit --quiet sh -c 'trap "" TERM HUP; echo up >>up; while :; do sleep 100; done'
fi
sleep 100 &
wait
END
tree() {
    rm -f up asked
    id=$("$FLUX" batch -N2 -n4 -O tree.out "$@" tree.sh 3)
    wait_until 20 is_up || note "$(cat tree.out; "$FLUX" pstree)"
}
# Its time may be over before that.
is_up() {
    [ "$(wc -l <up)" = 2 ] || no_active_jobs
}
gone() {
    no_active_jobs && only_this_session && [ "$(sockets)" -le "$before" ]
}

# SIGTERM and SIGHUP may both come before the shell is gone: asked twice is asked.  Each level has
# half the time of the one around it, which on a busy host may be over.
for _ in 1 2 3; do
    tree
    "$FLUX" cancel "$id"
    wait_until 15 gone
    asked=$(sort -u asked | tr '\n' ' ')
    [ "$asked" = "job level 1 level 2 level 3 " ] && break
    note "asked: $asked"
done
ok "a canceled tree of sessions is gone" gone
is "$asked" "job level 1 level 2 level 3 " "all were asked before"
like "$("$FLUX" jobs -n -a -o '{result}' "$id")" "[Cc]anceled" "the job was canceled"

tree -t 3s
ok "so is one whose time is up" wait_until 15 gone
is "$("$FLUX" wreck wait "$id"; echo $?)" 124 "which is its exit code"

# Who ends first takes the rest along.
cat >short.sh <<END
#!/bin/sh
"$FLUX" submit --quiet sleep 100
"$FLUX" batch --quiet -N1 -O /dev/null tree.sh 1
until [ "\$("$FLUX" jobs -n -s running | wc -l)" = 2 ]; do sleep 0.05; done
exit 4
END
exits 4 "a script that ends before its jobs" "$FLUX" batch --wait --quiet -N2 -O short.out short.sh
ok "takes them along" wait_until 10 gone

# Killed brokers.
victim() { # RANK: the id of that broker of the session at level 1
    local pid
    for pid in $(test_processes); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null |
            grep -cxE "FLUX_JOB_LEVEL=1|FLUX_TASK_RANK=$1" | finds -x 2 &&
            [ "$(cat "/proc/$pid/comm")" = flux-broker ]; then
            echo "$pid"
        fi
    done
}
for rank in 0 1; do
    tree
    kill -KILL "$(victim "$rank")"
    [ "$rank" = 0 ] || "$FLUX" cancel "$id"
    ok "killed: rank $rank of a session, and nothing is left" wait_until 20 gone
done
tree
for pid in $(test_processes); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = flux-launcher ] && kill -KILL "$pid" 2>/dev/null
done
ok "killed: all launchers at once, and nothing is left" wait_until 20 gone

# The broker of the parent is stopped while a session comes up and ends.
cat >alone.sh <<END
: >ready
while [ ! -e go ]; do sleep 0.05; done
"$FLUX" start true >alone.out 2>&1
echo \$? >alone.status
END
id=$("$FLUX" submit -n1 sh alone.sh)
ok "a job is about to start a session" wait_until 20 test -e ready
brokers=()
for pid in $(test_processes); do
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = flux-broker ] && brokers+=("$pid")
done
are_stopped() {
    local pid
    for pid in "${brokers[@]}"; do
        grep -q '^State:.T' "/proc/$pid/status" || return
    done
}
is ${#brokers[@]} 5 "its parent has four brokers, and the process that started them"
kill -STOP "${brokers[@]}"
ok "... which are stopped" wait_until 10 are_stopped
touch go
ok "a session ends while its parent is stopped" wait_until 60 test -s alone.status
ok "... which still is" are_stopped
kill -CONT "${brokers[@]}"
is "$(cat alone.status)" 0 "... with its exit code"
unlike "$(cat alone.out)" "did not end within" "... and waits for no answer of the parent's"
ok "... which goes on" wait_until 20 gone

tree
release
ok "the session around it ends" wait_until 20 only_this_session
finish
