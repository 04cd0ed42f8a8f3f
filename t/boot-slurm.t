#!/usr/bin/env bash
# Sessions started by srun: a private Slurm of one node, on the loopback interface.
. "$(dirname "$0")/lib.sh"
need_flux start up getattr
need srun slurmctld slurmd munged
[ "$(id -u)" = 0 ] || skip_all "slurmd needs root here"

# shellcheck source=t/slurm.sh
. "$SRCDIR/t/slurm.sh"

M=--set=modules=log
slurm_up() {
    sinfo -h -o %T 2>/dev/null | finds -E 'idle|mixed'
}
slurm_start slurm_up slurmd <<END
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$slurm_host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=$slurm_host Default=YES State=UP OverSubscribe=YES
END

srun_start() {
    local n=$1
    shift
    run_with_timeout 60 srun --quiet -n "$n" --overcommit --mpi=pmi2 "$FLUX" start "$M" "$@"
}
ok "four brokers" srun_start 4 "$FLUX" up
# shellcheck disable=SC2154 # set by ok
like "$out" "0-3" "all are there"
is "$(srun_start 4 "$FLUX" getattr boot.method)" pmi "by PMI"
is "$(srun_start 3 "$FLUX" getattr size)" 3 "the command runs once"
ok "over TCP" srun_start 3 --set=tcp.address=127.0.0.1 --set=link.transport=zmq "$FLUX" up
like "$out" "0-2" "all are there"
exits 5 "the command's exit code" srun_start 2 sh -c 'exit 5'
is "$(srun_start 2 "$FLUX" start "$M" --size=2 "$FLUX" getattr size)" 2 "a session in a session"
if ldconfig -p | finds 'libpmi\.so\.0'; then
    ok "Slurm's libpmi" run_with_timeout 30 srun --quiet -n 3 --overcommit "$FLUX" start "$M" \
        "$FLUX" up
    like "$out" "0-2" "all are there"
else
    fails "without a PMI" run_with_timeout 30 srun --quiet -n 2 --overcommit "$FLUX" start "$M" true
    # shellcheck disable=SC2154
    like "$err" "mpi=pmi2" "the sentence says what to do"
fi
ok "one broker needs none" run_with_timeout 30 srun --quiet -n 1 "$FLUX" start "$M" true
ok "said so" run_with_timeout 30 srun --quiet -n 2 --overcommit \
    "$FLUX" start --boot=single "$M" true

slurm_stop
rm -rf "$slurm"
finish
