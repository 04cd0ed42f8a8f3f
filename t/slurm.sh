# shellcheck shell=bash
# A private Slurm on the loopback interface, for tests that have read t/lib.sh.  It needs root.
#
# The test puts its own files into $slurm, and calls slurm_start READY [DAEMON...] with its own lines
# of slurm.conf on standard input: that starts slurmctld and these daemons, and returns when the
# command READY succeeds.  A Slurm that is installed and does not start is a failure.

slurm=$TEST_DIR/slurm
mkdir -p "$slurm/munge" "$slurm/state" "$slurm/spool"
chmod 755 "$(dirname "$TEST_DIR")" "$TEST_DIR" "$slurm"
chmod 700 "$slurm/munge"
slurm_host=$(hostname -s)
slurm_daemons=()

slurm_stop() {
    local pid
    [ ${#slurm_daemons[@]} -gt 0 ] || return 0
    for pid in "${slurm_daemons[@]}"; do
        kill "$pid" 2>/dev/null
    done
    # Once one of them did not end in ten minutes.
    wait_until 5 all_dead "${slurm_daemons[@]}" || kill -KILL "${slurm_daemons[@]}" 2>/dev/null
    wait "${slurm_daemons[@]}" 2>/dev/null
    slurm_daemons=()
}
slurm_daemon() { # COMMAND...
    "$@" >"$slurm/$1.out" 2>&1 &
    slurm_daemons+=($!)
}
slurm_conf() { # PORT, of two in a row; LINES
    cat >"$slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$slurm_host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket
CredType=cred/munge
SlurmctldPort=$1
SlurmdPort=$(($1 + 1))
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
$2
END
}
# Is it up, or has one of its daemons ended?
slurm_settled() { # READY
    local pid
    "$1" && return
    for pid in "${slurm_daemons[@]}"; do
        ! all_dead "$pid" || return 0
    done
    return 1
}
slurm_start() { # READY [DAEMON...]
    local ready=$1 port lines daemon try
    shift
    lines=$(cat)
    touch "$slurm/cgroup.conf"
    export SLURM_CONF=$slurm/slurm.conf
    head -c 128 /dev/urandom >"$slurm/munge/key"
    chmod 600 "$slurm/munge/key"
    port=$(free_ports 2)
    for ((try = 0; try < 5; try++)); do
        slurm_conf "$port" "$lines"
        slurm_daemon munged -F --force --key-file="$slurm/munge/key" --socket="$slurm/munge/socket" \
            --pid-file="$slurm/munge/pid" --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed"
        wait_until 10 test -S "$slurm/munge/socket" || break
        slurm_daemon slurmctld -D -i
        for daemon in "$@"; do
            slurm_daemon "$daemon" -D
        done
        wait_until 30 slurm_settled "$ready"
        ! "$ready" || return 0
        slurm_stop
        # Another test may have taken a port that was free.
        cat "$slurm"/*.log "$slurm"/*.out 2>/dev/null | finds "Address already in use" || break
        rm -f "$slurm"/*.log "$slurm"/*.out
        port=$(free_ports 2 $((port + 20)))
    done
    slurm_stop
    note "$(tail -n 5 "$slurm"/*.log "$slurm"/*.out 2>/dev/null)"
    bail "Slurm does not start here"
}
