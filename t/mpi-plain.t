#!/usr/bin/env bash
# Plain mpirun and mpiexec, unmodified, in a session on two hosts: they run on both.
# shellcheck disable=SC2016,SC2154 # tasks expand; set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/mpi/wheels.sh
. "$SRCDIR/t/mpi/wheels.sh"
need unshare mount
# The daemons of Open MPI 5 may be ended with the session before they have cleaned up.
allow_left 'prted.*' 'prterun.*'
need_flux start wreckrun batch alloc exec
unshare -m -u true 2>/dev/null || skip_all "no namespaces without more privileges"
rsh=$(dirname "$FLUX")/flux-rsh

# Two hosts, n0 and n1, that differ in name only: a session whose brokers have a name of their own.
cat /etc/hosts - >hosts <<END
127.0.1.1 n0
127.0.2.1 n1
END
cat >host.sh <<'END'
#!/bin/sh
mount --bind "$HOSTS" /etc/hosts && hostname "n$FLUX_NODE_ID" && FLUX_NODE_NAME=n$FLUX_NODE_ID exec "$@"
END
chmod +x host.sh
export HOSTS=$PWD/hosts OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A launcher that does not end within the limit is the last one: what it was doing is printed.
LIMIT=15
export SESSION_LIMIT=200
on_two() {
    mkdir -p setup
    run run_watched "$LIMIT" "$FLUX" wreckrun -N2 -n2 unshare -m -u ./host.sh "$FLUX" start "$rsh" --setup "$PWD/setup" "$@"
    case $status in
    124 | 137)
        note "$err" >&2
        release
        bail "$* does not end"
        ;;
    esac
}

hold 2
on_two sh -c 'echo $FLUX_JOB_NODELIST; cat $HYDRA_HOST_FILE; flux exec -l -r n1 hostname; "$HYDRA_LAUNCHER_EXEC" -x n1 "hostname; echo" a b'
is "$status" 0 "the launchers' environment"
like "$out" 'n\[0-1\]' "the list of nodes"
like "$out" 'n0:[0-9]+.n1:[0-9]+' "the file of hosts"
like "$out" '1: n1' "flux exec by name"
if command -v mpiexec.hydra >/dev/null; then
    # From standard input that never ends: hydra is killed by SIGPIPE (exit code 141) now and then
    # when it forwards the end to tasks that have gone.
    mkfifo endless
    on_two sh -c 'exec mpiexec.hydra -ppn 1 -n 2 hostname 0<>endless'
    is "$(sort <<<"$out" | tr '\n' ' ')" "n0 n1 " "mpiexec of MPICH runs on both hosts" || note "exit code $status: $err"
else
    skip 1 "no MPICH"
fi
if command -v mpirun.openmpi >/dev/null; then
    on_two mpirun.openmpi --map-by node -n 2 hostname
    is "$(sort <<<"$out" | tr '\n' ' ')" "n0 n1 " "mpirun of Open MPI runs on both hosts" || note "exit code $status: $err"
else
    skip 1 "no Open MPI"
fi
# launched NAME WORD...: the launcher of a wheel puts one task on each of both hosts
launched() {
    on_two env LD_LIBRARY_PATH="$wheel/lib" I_MPI_ROOT="$wheel" OPAL_PREFIX="$wheel" "${@:2}" -n 2 hostname
    is "$(sort <<<"$out" | tr '\n' ' ')" "n0 n1 " "$1 runs on both hosts" || note "exit code $status: $err"
}
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in "mpich 5.0.2" "impi-rt 2021.18.0"; do
    # shellcheck disable=SC2086 # two words are meant
    if wheel $package; then
        # As above, from standard input that never ends.
        [ -p endless ] || mkfifo endless
        launched "mpiexec of ${package%% *}" sh -c 'exec "$0" "$@" 0<>endless' "$wheel/bin/mpiexec.hydra" -ppn 1
    else
        skip 1 "$wheel_why"
    fi
done
if openmpi5; then
    launched "mpirun of Open MPI 5" "$wheel/bin/mpirun" --map-by node
    # It is not where it was built for.
    launched "prterun" "$wheel/bin/prterun" --prefix "$wheel" --map-by node
else
    skip 2 "$wheel_why"
fi
ok "in flux batch" "$FLUX" batch --wait --quiet -N2 -O b.out --wrap 'echo $HYDRA_LAUNCHER_EXEC; cat $OMPI_MCA_orte_default_hostfile; flux wreckrun -n1 sh -c "echo ${HYDRA_HOST_FILE-none}"'
like "$(cat b.out)" '/flux-rsh' "the program that runs things on other nodes is set"
like "$(cat b.out)" 'slots=2' "and the slots of both brokers, which share a host"
ok "mpirun of Open MPI starts where FLUX_JOB_ID is set" sh -c "! command -v mpirun.openmpi || '$FLUX' batch --wait --quiet -N1 -O o.out --wrap 'mpirun.openmpi -n 1 hostname'"
like "$("$FLUX" alloc -N1 sh -c 'echo $HYDRA_HOST_FILE' </dev/null)" '/hosts$' "in flux alloc"
release
finish
