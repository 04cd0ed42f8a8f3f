#!/usr/bin/env bash
# Sessions started by srun: a private Slurm of one node, on the loopback interface.
. "$(dirname "$0")/lib.sh"
need_flux start up getattr
need srun slurmctld slurmd munged
[ "$(id -u)" = 0 ] || skip_all "slurmd needs root here"

M=--set=modules=log
host=$(hostname -s)
# Below the ports that the kernel gives to whoever connects (ip_local_port_range).
port=$((20000 + ($$ * 3) % 12000))
dir=$TEST_DIR/slurm
mkdir -p "$dir/munge" "$dir/state" "$dir/spool"
chmod 755 "$(dirname "$TEST_DIR")" "$TEST_DIR" "$dir"
head -c 128 /dev/urandom >"$dir/munge/key"
chmod 700 "$dir/munge"
chmod 600 "$dir/munge/key"
cat >"$dir/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES State=UP OverSubscribe=YES
END
touch "$dir/cgroup.conf"
export SLURM_CONF=$dir/slurm.conf

daemons=()
stop_slurm() {
    local pid
    for pid in "${daemons[@]}"; do
        kill "$pid" 2>/dev/null
    done
    # Once one of them did not end in ten minutes.
    wait_until 5 all_dead "${daemons[@]}" || kill -KILL "${daemons[@]}" 2>/dev/null
    wait "${daemons[@]}" 2>/dev/null
}
give_up() {
    stop_slurm
    note "$(tail -n 5 "$dir"/*.log "$dir"/*.out 2>/dev/null)"
    skip_all "$1"
}
munged -F --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" \
    >"$dir/munged.out" 2>&1 &
daemons+=($!)
wait_until 5 test -S "$dir/munge/socket" || give_up "munged does not start here"
slurmctld -D -i >"$dir/slurmctld.out" 2>&1 &
daemons+=($!)
slurmd -D >"$dir/slurmd.out" 2>&1 &
daemons+=($!)
wait_until 20 sh -c "sinfo -h -o %T | grep -qE 'idle|mixed'" || give_up "slurmd does not start here"

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

stop_slurm
rm -rf "$dir"
finish
