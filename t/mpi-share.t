#!/bin/bash
# PMIx over brokers of one host: one server for the tasks of all, so that they share memory.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
[ -x "$BUILDDIR/src/pmixd/flux-pmixd" ] || skip_all "built without libpmix"
# shellcheck source=t/mpi/wheels.sh
. "$SRCDIR/t/mpi/wheels.sh"
# shellcheck source=t/mpi/leftovers.sh
. "$SRCDIR/t/mpi/leftovers.sh"
CLIENT=$BUILDDIR/t/mpi/pmix_client
[ -x "$CLIENT" ] || skip_all "pmix_client is not built"
export CLIENT SESSION_LIMIT=100 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

right() {
    is "$status/$(grep -c ': right$' <<<"$out")" "0/$1" "$2"
}
job() {
    run run_with_timeout 30 "$FLUX" wreckrun --overcommit "$@"
}
servers() {
    local pid
    for pid in $(pgrep -x flux-pmixd); do
        test_processes | grep -x "$pid"
    done
}
no_servers() {
    [ -z "$(servers)" ]
}
one_server() {
    [ "$(servers | wc -l)" = 1 ]
}
launcher_of() {
    "$FLUX" exec -r "$1" sh -c 'echo $PPID'
}
# start_stays OPTION...: a job of two nodes whose tasks have found their server, and stay: $id
start_stays() {
    rm -f pub.*
    id=$("$FLUX" submit "$@" --overcommit -N2 -n2 sh -c \
        'exec "$CLIENT" publish "n$FLUX_TASK_RANK" x <stays >pub.$FLUX_TASK_RANK')
    wait_until 20 sh -c 'grep -q published pub.0 && grep -q published pub.1'
}
end_of() {
    run_with_timeout 30 "$FLUX" wreck wait "$1" >/dev/null 2>&1
    echo $?
}
mkfifo stays
exec 9<>stays
have_openmpi5=
if openmpi5; then
    have_openmpi5=yes
fi

hold 4
for by in both pmix; do
    job --mpi=$by -N4 -n8 "$CLIENT" hello 8
    right 8 "$by: 8 tasks over 4 brokers"
    is "$(grep -c '^local size 8$' <<<"$out")/$(grep -c '^node of .*: 0$' <<<"$out")" 8/8 "... are on one node"
    job --mpi=$by -N3 -n7 --layout=cyclic "$CLIENT" direct 7
    right 7 "... in turns, an uneven number of them"
    job --mpi=$by -N4 -n8 "$CLIENT" group 8
    right 8 "... and groups"
    job --mpi=$by -N4 -n8 "$CLIENT" leave 7
    is "$status" 7 "a task that leaves without finalizing"
    like "$err" "task 7 left without MPI_Finalize" "... ends the job with a sentence"
    job --mpi=$by -N4 -n8 "$CLIENT" abort 42
    is "$status" 42 "PMIx_Abort"
    job --mpi=$by -N2 -n2 "$CLIENT" spawn
    right 2 "spawn"
    for node in 0 2; do
        job --mpi=$by -N4 -n8 sh -c '[ $FLUX_NODE_ID = "$0" ] && exit 3; exec "$CLIENT" hello 8' $node
        is "$status" 3 "tasks of node $node leave before they begin"
    done

    # The first to come are those of the first node, or the others; the others are the last to go.
    rm -f pid.*
    job --mpi=$by -N2 -n4 sh -c 'echo $$ >pid.$FLUX_TASK_RANK
        until [ $FLUX_NODE_ID = 0 ] || [ -s pid.0 ]; do sleep 0.02; done; exec "$CLIENT" hello 4'
    right 4 "the others come last"
    rm -f pid.*
    job --mpi=$by -N2 -n2 sh -c 'echo $$ >pid.$FLUX_TASK_RANK
        [ $FLUX_NODE_ID = 1 ] || exec "$CLIENT" publish first $$ </dev/null
        until [ -s pid.0 ] && ! kill -0 "$(cat pid.0)" 2>/dev/null; do sleep 0.02; done
        exec "$CLIENT" publish second $$ </dev/null'
    right 2 "they come when the tasks of the first node have gone"
    ok "... and no server stays" wait_until 10 no_servers

    # Whatever is lost, the job ends, and the server with it.
    for what in "launcher 0" "launcher 1" server; do
        start_stays --mpi=$by
        ok "$by: tasks of both nodes have one server" one_server
        case $what in
        launcher*) kill -KILL "$(launcher_of "${what#* }")" ;;
        server) kill -KILL "$(servers)" ;;
        esac
        isnt "$(end_of "$id")" 0 "a $what that is killed ends the job"
        like "$("$FLUX" wreck status "$id")" "lost" "... with a sentence"
        ok "... and no server stays" wait_until 10 no_servers
        job --mpi=$by -N4 -n8 "$CLIENT" hello 8
        right 8 "... nor anything that is in the way of the next job"
    done
    start_stays --mpi=$by
    ok "a job is canceled" "$FLUX" cancel "$id"
    is "$(end_of "$id")" 143 "... and ends so"
    ok "... with its server" wait_until 10 no_servers
    # Those of the other node have not come yet.
    rm -f pub.* late.*
    id=$("$FLUX" submit --mpi=$by --overcommit -N2 -n2 sh -c 'if [ $FLUX_NODE_ID = 0 ]; then
        exec "$CLIENT" publish first x </dev/null >pub.0; fi; echo $$ >late.1; exec sleep 1000')
    wait_until 20 sh -c 'grep -q right pub.0 && test -s late.1'
    ok "a job whose first node is over is canceled" "$FLUX" cancel "$id"
    isnt "$(end_of "$id")" 0 "... and ends"
    ok "... with its server" wait_until 10 no_servers
done
run "$FLUX" wreckrun --overcommit -N2 -n2 sh -c 'env | grep ^PMIX_SERVER_URI2= | sed "s,;.*,,; s,.*\\.server,server,"'
is "$out" $'server.0\nserver.0' "tasks of both nodes are told of one server"

what="Open MPI 5"
shared_memory() {
    local by
    for by in "${@:2}"; do
        OMPI_MCA_btl=self,$1 job "$by" -N4 -n8 ./mpi_ring 8
        right 8 "$what: 8 ranks over 4 brokers use shared memory and nothing else ($by)"
    done
}
if [ -z "$have_openmpi5" ]; then
    skip 2 "$wheel_why"
elif ! "$OPENMPI5/bin/mpicc" -O1 -o mpi_ring "$SRCDIR/t/mpi/mpi_ring.c" >cc.log 2>&1; then
    skip 2 "the mpicc of Open MPI 5 does not work: $(head -n 1 cc.log)"
else
    OMPI_MCA_pml=ob1 shared_memory sm --mpi=both --mpi=pmix
fi
what="Open MPI 4"
if mpicc.openmpi -O1 -o mpi_ring "$SRCDIR/t/mpi/mpi_ring.c" >cc.log 2>&1; then
    OMPI_MCA_pml=ob1 shared_memory vader --mpi=both --mpi=pmix
else
    skip 2 "there is no mpicc.openmpi"
fi
own_directories
release
nothing_in_shm

hold 2 --set=wrexec.share-hosts=no
job -N2 -n4 "$CLIENT" hello 4
right 4 "wrexec.share-hosts=no keeps brokers apart"
is "$(grep -c '^local size 2$' <<<"$out")" 4 "... with two tasks on each node"
release

# Two sessions at once whose jobs have equal numbers: what they share is not shared with each other.
if ! wheel mpich 5.0.2; then
    skip 2 "$wheel_why"
elif ! "$wheel/bin/mpicc" -O1 -o mpi_ring "$SRCDIR/t/mpi/mpi_ring.c" >cc.log 2>&1; then
    skip 2 "the mpicc of MPICH 5 does not work: $(head -n 1 cc.log)"
else
    export LD_LIBRARY_PATH=$wheel/lib
    pids=()
    for s in 1 2; do
        run_with_timeout 60 "$FLUX" start --size=2 sh -c 'for i in 1 2 3; do "$0" wreckrun --overcommit -N2 -n4 ./mpi_ring 4 || exit 1; done' \
            "$FLUX" >"two.$s" 2>&1 &
        pids+=($!)
    done
    for s in 1 2; do
        wait "${pids[s - 1]}"
        is "$?/$(grep -c ': right$' "two.$s")" 0/12 "MPICH 5: session $s of two at once"
    done
fi
finish
