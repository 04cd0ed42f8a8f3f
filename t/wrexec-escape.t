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
trap 'for name in ended killed inner lost; do kill -KILL $(hidden $name) 2>/dev/null; done' TERM

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

run "$FLUX" wreckrun -n1 --overcommit python3 hide.py ended
is "$status" 0 "a job that leaves a hidden process"
ok "... takes it along when it ends" gone ended

id=$("$FLUX" submit -n1 --overcommit python3 hide.py killed sleep 600)
ok "a hidden process of a job that goes on lives" wait_until 30 there killed
run "$FLUX" cancel "$id"
run "$FLUX" wreck wait "$id"
ok "... until that is canceled" gone killed

# In a session inside the job, whose launcher has its own tags; killed, it leaves the work to the outer one.
run "$FLUX" wreckrun -n1 --overcommit "$FLUX" start "$FLUX" wreckrun -n1 sh -c \
    'python3 hide.py inner; trap "" TERM; kill -KILL $PPID; exec sleep 600'
ok "a job of a session inside a job takes its own along" gone inner
is "$("$FLUX" jobs -no '{state}' "$other")" running "the first job still runs"

id=$("$FLUX" submit -n1 --overcommit python3 hide.py lost sleep 600)
wait_until 30 there lost || bail "no hidden process"
launcher=$(ps -o ppid= -p "$(pgrep -n -f "^sleep 600")" | tr -d ' ')
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
rm -f cleaned ready
id=$("$FLUX" submit -n1 --overcommit -o grace=1 sh -c 'setsid env -i sh helper.sh & exec sleep 600')
wait_until 30 test -e ready || bail "no helper"
"$FLUX" cancel "$id"
exits 143 "a helper that does not end is killed after the period of grace" \
    run_with_timeout 60 "$FLUX" wreck wait "$id"
ok "... before it was done" test ! -e cleaned
release
finish
