# shellcheck shell=bash
# A private Slurm on the loopback interface, for tests that have read t/lib.sh.  It needs root.
#
# The test puts its own files into $slurm, calls slurm_start with its own lines of slurm.conf on
# standard input, and starts what else it needs (slurm_daemon slurmd -D).

slurm=$TEST_DIR/slurm
mkdir -p "$slurm/munge" "$slurm/state" "$slurm/spool"
chmod 755 "$(dirname "$TEST_DIR")" "$TEST_DIR" "$slurm"
chmod 700 "$slurm/munge"
slurm_host=$(hostname -s)
slurm_daemons=()

slurm_stop() {
    local pid
    for pid in "${slurm_daemons[@]}"; do
        kill "$pid" 2>/dev/null
    done
    # Once one of them did not end in ten minutes.
    wait_until 5 all_dead "${slurm_daemons[@]}" || kill -KILL "${slurm_daemons[@]}" 2>/dev/null
    wait "${slurm_daemons[@]}" 2>/dev/null
}
slurm_give_up() { # REASON
    slurm_stop
    note "$(tail -n 5 "$slurm"/*.log "$slurm"/*.out 2>/dev/null)"
    skip_all "$1"
}
slurm_daemon() { # COMMAND...
    "$@" >"$slurm/$1.out" 2>&1 &
    slurm_daemons+=($!)
}
slurm_start() {
    # Below the ports that the kernel gives to whoever connects (ip_local_port_range).
    local port=$((20000 + ($$ * 3) % 12000))
    cat >"$slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$slurm_host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.log
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerType=sched/builtin
MpiDefault=none
$(cat)
END
    touch "$slurm/cgroup.conf"
    export SLURM_CONF=$slurm/slurm.conf
    head -c 128 /dev/urandom >"$slurm/munge/key"
    chmod 600 "$slurm/munge/key"
    slurm_daemon munged -F --force --key-file="$slurm/munge/key" --socket="$slurm/munge/socket" \
        --pid-file="$slurm/munge/pid" --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed"
    wait_until 5 test -S "$slurm/munge/socket" || slurm_give_up "munged does not start here"
    slurm_daemon slurmctld -D -i
}
