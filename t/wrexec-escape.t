#!/bin/bash
# Processes that hide from their job: another session, no environment, no parent.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun cancel
need setsid python3

# hidden NAME: ids of the processes with this last argument (which grep itself must not have)
hidden() {
    echo "hide-$1-$$" >name
    grep -lasxzFf name /proc/[0-9]*/cmdline | tr -dc '0-9\n'
}
gone() {
    test -z "$(hidden "$1")"
}
there() {
    test -n "$(hidden "$1")"
}
trap 'for name in untagged ended killed inner lost dropped; do kill -KILL $(hidden $name) 2>/dev/null; done' TERM

# hide.py NAME [COMMAND...]: a grandchild forgets all that it came with, then COMMAND
cat >hide.py <<END_PY
import os, sys
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in 0, 1, 2:
            os.dup2(null, fd)
        os.set_inheritable(w, False) # closed when it executes
        os.execve("/usr/bin/env", ["env", "-i", "python3", "-c",
                  "import signal; signal.pause()", "hide-%s-$$" % sys.argv[1]], {})
    os._exit(0)
os.close(w)
os.wait()
os.read(r, 1)
if len(sys.argv) > 2:
    os.execvp(sys.argv[2], sys.argv[2:])
END_PY

hold 1
other=$("$FLUX" submit -n1 --overcommit sh -c ': >up; exec sleep 600')
wait_until 30 test -e up || bail "no job runs"

# The tag of the job is in a limit, which everybody may lower.
run "$FLUX" wreckrun -n1 --overcommit bash -c 'ulimit -x 0; exec python3 hide.py untagged'
is "$status" 0 "a job that drops its tag and leaves a hidden process"
ok "... takes it along when it ends, beside another job" gone untagged
is "$("$FLUX" jobs -no '{state}' "$other")" running "... which goes on"

run "$FLUX" wreckrun -n1 --overcommit python3 hide.py ended
is "$status" 0 "a job that leaves a hidden process"
ok "... takes it along when it ends" gone ended

id=$("$FLUX" submit -n1 --overcommit python3 hide.py killed sleep 600)
ok "a hidden process of a job that goes on lives" wait_until 30 there killed
run "$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
ok "... until that is canceled" gone killed

# In a session inside the job, whose launcher has its own tags; killed, it leaves the work to the
# outer one.
run "$FLUX" wreckrun -n1 --overcommit "$FLUX" start "$FLUX" wreckrun -n1 sh -c \
    'python3 hide.py inner; trap "" TERM; kill -KILL $PPID; exec sleep 600'
ok "a job of a session inside a job takes its own along" gone inner
is "$("$FLUX" jobs -no '{state}' "$other")" running "the first job still runs"

id=$("$FLUX" submit -n1 --overcommit sh -c 'echo $$ >lost.task; exec python3 hide.py lost sleep 600')
wait_until 30 there lost || bail "no hidden process"
launcher=$(ps -o ppid= -p "$(cat lost.task)" | tr -d ' ')
is "$(cat "/proc/$launcher/comm")" flux-launcher "the parent of a task is the launcher"
kill -KILL "$launcher"
ok "after the launcher was killed, too" wait_until 30 gone lost

# SIGTERM reaches helpers in sessions of their own, which have until the end of the period of grace.
cat >helper.sh <<'END_SH'
trap 'read -r _ <go; : >cleaned; exit 0' TERM
: >ready
while :; do sleep 0.1; done
END_SH
mkfifo go
id=$("$FLUX" submit -n1 --overcommit sh -c 'setsid env -i sh helper.sh & echo $$ >leader; exec sleep 600')
wait_until 30 test -e ready || bail "no helper"
wait_until 30 test -s leader || bail "no task"
ok "a job with a helper is canceled" "$FLUX" cancel "$id"
leader_gone() {
    test ! -e "/proc/$(cat leader)"
}
wait_until 30 leader_gone || bail "the task lives on"
echo >go
run "$FLUX" wreck wait "$id"
ok "the helper got SIGTERM, and the time to clean up" test -e cleaned

# A helper is not a child of the launcher, so its id may be another process's by the time of the
# signal.  The launcher holds the process by a descriptor.
if command -v strace >/dev/null; then
    rm -f cleaned ready leader
    id=$("$FLUX" submit -n1 --overcommit sh -c \
        'setsid env -i sh helper.sh & echo $! >helper; echo $$ >leader; exec sleep 600')
    wait_until 30 test -e ready || bail "no helper"
    wait_until 30 test -s leader || bail "no task"
    strace -f -qq -o trace -e trace=kill,tkill,tgkill,pidfd_open,pidfd_send_signal \
        -p "$(ps -o ppid= -p "$(cat leader)" | tr -d ' ')" 2>strace.err &
    tracer=$!
    traced() {
        grep -q "^TracerPid:[[:space:]]*$tracer$" "/proc/$(ps -o ppid= -p "$(cat leader)" | tr -d ' ')/status"
    }
    if wait_until 10 traced; then
        "$FLUX" cancel "$id"
        wait_until 30 leader_gone || bail "the task lives on"
        echo >go
        run "$FLUX" wreck wait "$id"
        kill "$tracer"
        wait "$tracer"
        helper=$(cat helper)
        ok "the helper is told by a descriptor" grep -Eq "pidfd_open\($helper," trace
        ok "... which gets the signal" grep -Eq 'pidfd_send_signal\([0-9]+, SIGTERM' trace
        ok "... and not by its number" sh -c "! grep -Eq 'kill\($helper,|kill\([0-9]+, $helper,' trace"
    else
        "$FLUX" cancel "$id"
        echo >go
        skip 3 "strace may not trace the launcher"
        kill "$tracer" 2>/dev/null
    fi
else
    skip 3 "no strace"
fi
rm -f cleaned ready
id=$("$FLUX" submit -n1 --overcommit -o grace=1 sh -c 'setsid env -i sh helper.sh & exec sleep 600')
wait_until 30 test -e ready || bail "no helper"
"$FLUX" cancel "$id"
exits 143 "a helper that does not end is killed after the period of grace" \
    run_with_timeout 60 "$FLUX" wreck wait "$id"
ok "... before it was done" test ! -e cleaned
release

# The brokers of a session on one host have a common subreaper, which gets what a lost launcher
# leaves.
hold 2
id=$("$FLUX" submit -n1 --overcommit bash -c \
    '(ulimit -x 0; exec python3 hide.py dropped); echo $PPID >launcher; exec sleep 600')
wait_until 30 test -s launcher || bail "no job runs"
ok "a hidden process that has dropped its tag" wait_until 30 there dropped
kill -KILL "$(cat launcher)"
ok "... is found after the launcher was killed" wait_until 30 gone dropped
ok "... and the session goes on" "$FLUX" wreckrun -N2 true
release
finish
