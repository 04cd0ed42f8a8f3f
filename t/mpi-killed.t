#!/usr/bin/env bash
# A file in /dev/shm that MPICH's first rank has made is removed when the job dies before MPICH does it.
# What MPICH says is said by a shell here: killing it at the right moment cannot be arranged.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
need od python3
[ -w /dev/shm ] || skip_all "/dev/shm is not there"
mine=mpich_shar_test$$
other=flux-test-other$$

# task NAME END: PMI-1 by hand: init, put the name of a file, then END
cat >task.sh <<'END'
ask() {
    echo "$1" >&"$PMI_FD"
    read -r answer <&"$PMI_FD"
}
: >"/dev/shm/$1"
ask "cmd=init pmi_version=1 pmi_subversion=1"
ask "cmd=get_my_kvsname"
kvsname=${answer#*kvsname=}
hex=$(printf /dev/shm/%s "$1" | od -An -v -tx1 | tr -d ' \n')
ask "cmd=put kvsname=$kvsname key=-bcast-1-0 value=$hex"
eval "$2"
END
job() {
    run "$FLUX" wreckrun -n1 bash task.sh "$@"
}

hold 1
job $mine 'kill -KILL $$'
is "$status" 137 "a task of MPI is killed as it starts"
ok "what it said to have made is removed" test ! -e /dev/shm/$mine
job $mine 'ask cmd=finalize'
is "$status" 0 "a task that ends well"
ok "... keeps what it made" test -e /dev/shm/$mine
job $other 'kill -KILL $$'
is "$status" 137 "a task with a file that is not MPICH's"
ok "... keeps it" test -e /dev/shm/$other

# MPICH 5 names a segment by a digest of the kvsname.
cat >five.py <<'END'
import os, signal, sys
conn = os.fdopen(int(os.environ["PMI_FD"]), "r+b", buffering=0)
def ask(line):
    conn.write(line.encode() + b"\n")
    return conn.readline().decode().split()
ask("cmd=init pmi_version=1 pmi_subversion=1")
digest, name = 2166136261, ask("cmd=get_my_kvsname")[1].split("=", 1)[1]
for c in name.encode():
    digest = (digest ^ c) * 16777619 & 0xffffffff
mine = "/dev/shm/mpich_shm_%x_0" % digest
others = "/dev/shm/mpich_shm_%x_0" % (digest ^ 1)
for path in mine, others:
    open(path, "w").close()
print(name, mine, others)
sys.stdout.flush()
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
ask("cmd=finalize")
END
segments=()
five() {
    run "$FLUX" wreckrun -n1 python3 five.py "$1"
    read -r name own others <<<"$out"
    segments+=("$own" "$others")
}
five killed
ok "the segment of MPICH 5 is removed" test ! -e "$own"
ok "... that of another job is not" test -e "$others"
first=$name
five well
ok "a job that ends well keeps it" test -e "$own"
isnt "$name" "$first" "the next job has another kvsname"
release
hold 1
five well
isnt "$name" "$first" "the first job of another session has a kvsname of its own"
release
rm -f "${segments[@]}"
rm -f "/dev/shm/$mine" "/dev/shm/$other"
finish
