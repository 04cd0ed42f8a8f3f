#!/usr/bin/env bash
# A file in /dev/shm that MPICH's first rank has made is removed when the job dies before MPICH does
# it. What MPICH says is said by a shell here: killing it at the right moment cannot be arranged.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/mpi/own_shm.sh"
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

# UCX, below Debian's MPICH, has files of random names, too: in the directory of the job.
cat >ucx.c <<'END'
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    char line[4096];
    FILE *f;

    MPI_Init(&argc, &argv);
    if ((f = fopen("/proc/self/maps", "r"))) {
        while (fgets(line, sizeof(line), f))
            if (strstr(line, "/ucx_shm_"))
                printf("%s", strchr(line, '/'));
        fclose(f);
    }
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    raise(SIGKILL);
    return 0;
}
END
if [ -z "${FLUX_TEST_SANITIZERS:-}" ] && command -v mpicc.mpich >/dev/null && mpicc.mpich -o ucx ucx.c >cc.log 2>&1; then
    run run_with_timeout 30 "$FLUX" wreckrun --overcommit -n2 sh -c 'echo "in $FLUX_JOB_TMPDIR"; : >"${UCX_POSIX_DIR:-/dev/shm}/ucx_shm_test"; exec ./ucx'
    dir=$(sed -n 's/^in //p' <<<"$out" | head -n 1)
    is "$(grep ucx_shm <<<"$out" | grep -v "^$dir/")" "" "UCX has its files in the directory of the job"
    ok "which is removed with those that a killed task has left" wait_until 10 test ! -e "$dir"
    is "$(ls /dev/shm/ucx_shm_* 2>/dev/null)" "" "and there are no others"
else
    skip 3 "no MPICH"
fi

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

# Three brokers on two hosts, a, a and b: the numbers of the segments are those of the hosts.
cat >hosts.py <<'END'
import os, signal, sys, time
def names(text):
    digest = 2166136261
    for c in text.encode():
        digest = (digest ^ c) * 16777619 & 0xffffffff
    return ["/dev/shm/mpich_%s_%x_%d" % (kind, digest, n) for n in range(3) for kind in ("shm", "vci")]
rank = os.environ["FLUX_TASK_RANK"]
if sys.argv[1] == "pmi":
    conn = os.fdopen(int(os.environ["PMI_FD"]), "r+b", buffering=0)
    def ask(line):
        conn.write(line.encode() + b"\n")
        return conn.readline().decode().strip()
    ask("cmd=init pmi_version=1 pmi_subversion=1")
    job = ask("cmd=get_my_kvsname").split("=", 2)[2]
    mapping = ask("cmd=get kvsname=%s key=PMI_process_mapping" % job)
else:
    job = os.environ["PMIX_NAMESPACE"]
if rank == "0":
    for path in names(job):
        open(path, "w").close()
    with open("segments", "w") as f:
        print(*names(job), sep="\n", file=f)
if sys.argv[1] == "pmi":
    ask("cmd=barrier_in")
    # Only the named tasks die, when the others have finalized: their death ends those that have
    # not.
    if rank in sys.argv[2:]:
        while any(str(r) not in sys.argv[2:] and not os.path.exists("final.%d" % r) for r in range(3)):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)
    ask("cmd=finalize")
    open("final." + rank, "w").close()
else:
    os.execl(os.environ["CLIENT"], "pmix_client", "leave", "7")
END
cat >hosts.sh <<'END'
case $FLUX_TASK_RANK in 2) FLUX_NODE_NAME=b ;; *) FLUX_NODE_NAME=a ;; esac
export FLUX_NODE_NAME
exec "$FLUX" start "$@"
END
# on_hosts LEFT DESC MODE [RANK...]: which numbers are left
on_hosts() {
    rm -f final.*
    run run_with_timeout 60 "$FLUX" wreckrun --overcommit -N1 -n3 bash hosts.sh "${OPTIONS[@]}" \
        "$FLUX" wreckrun --overcommit "--mpi=$3" -N3 -n3 python3 hosts.py "${@:3}"
    isnt "$status" 0 "$2: the job fails"
    is "$(xargs ls -d 2>/dev/null <segments | sed 's/.*_//' | sort -u | xargs)" "$1" "... its segments are removed"
    xargs rm -f <segments
}
export FLUX
OPTIONS=()
hold 1
on_hosts 2 "PMI, brokers on hosts a, a, b" pmi 0 1 2
on_hosts "1 2" "... where the task of the second broker alone is killed" pmi 1
on_hosts "0 2" "... or that of the third" pmi 2
export CLIENT=$BUILDDIR/t/mpi/pmix_client
if [ -x "$CLIENT" ] && [ -x "$BUILDDIR/src/pmixd/flux-pmixd" ]; then
    on_hosts 2 "PMIx" pmix
    on_hosts 2 "both" both
else
    skip 4 "built without libpmix"
fi
OPTIONS=(--set=wrexec.share-hosts=no)
on_hosts "" "brokers that are kept apart" pmi 0 1 2
release
rm -f "${segments[@]}"
rm -f "/dev/shm/$mine" "/dev/shm/$other"
finish
