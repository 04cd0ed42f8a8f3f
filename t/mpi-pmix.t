#!/bin/bash
# PMIx: our own program as client, Open MPI 5, which speaks nothing else, and Debian's Open MPI 4.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run, ok and exits
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
[ -x "$BUILDDIR/src/pmixd/flux-pmixd" ] || skip_all "built without libpmix"
. "$SRCDIR/t/mpi/wheels.sh"
# shellcheck source=t/mpi/leftovers.sh
. "$SRCDIR/t/mpi/leftovers.sh"
# shellcheck source=t/mpi/mpi_parts.sh
. "$SRCDIR/t/mpi/mpi_parts.sh"
CLIENT=$BUILDDIR/t/mpi/pmix_client
[ -x "$CLIENT" ] || skip_all "pmix_client is not built"
export SESSION_LIMIT=500 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# right N DESC: this many tasks said so, and the job succeeded
right() {
    [ "$status" = 0 ] || note "$err" >&2
    is "$status/$(grep -c ': right$' <<<"$out")" "0/$1" "$2"
}
pmix() {
    run run_with_timeout 120 "$FLUX" wreckrun --mpi=pmix --overcommit "$@"
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

# Fetched now, not while a session is held.
have_openmpi5='' have_mpich5='' have_intel=''
if [ -n "${FLUX_TEST_SANITIZERS-}" ]; then
    # Others' libraries have no sanitizer; what they request of ours, Open MPI 4 and our own client do, too.
    wheel_why="with sanitizers Open MPI 4 is enough"
elif openmpi5; then
    have_openmpi5=yes
fi
if wheel mpich 5.0.2; then
    have_mpich5=$wheel
fi
if wheel impi-rt 2021.18.0; then
    have_intel=$wheel
fi

hold 1
pmix -n4 "$CLIENT" hello 4
right 4 "4 tasks on one node"
is "$(grep -c '^local size 4$' <<<"$out")" 4 "... which know that"
pmix -n4 "$CLIENT" group 4
right 4 "groups on one node"
release

hold 4 --set=wrexec.share-hosts=no
pmix -N4 -n8 "$CLIENT" hello 8
right 8 "8 tasks on 4 nodes: a fence with data"
is "$(grep -c '^local size 2$' <<<"$out")" 8 "... two on each"
is "$(grep '^node of' <<<"$out" | sort | cut -d' ' -f4 | tr -d '\n')" 00112233 "... which know where"
pmix -N3 -n7 "$CLIENT" hello 7
right 7 "an uneven number of them"
pmix -N4 -n16 "$CLIENT" direct 16
right 16 "direct modex: everybody's card, asked for one by one"
pmix -N4 -n8 "$CLIENT" subset 8
right 8 "fences of some tasks beside others"
pmix -N4 -n8 "$CLIENT" group 8
right 8 "groups with context ids"
is "$(grep -c "$(grep -m1 '^ids' <<<"$out")" <<<"$out")/$(grep '^odd' <<<"$out" | sort -u | wc -l)" \
    8/1 "... the same for all members"
FLUX_PMIX_LIBRARY=$PWD/none pmix -n1 true
is "$status" 126 "a job names a library that is not there"
like "$err" "FLUX_PMIX_LIBRARY=$PWD/none: No such file" "... and is told"
mkdir open
chmod 777 open
: >open/libpmix.so.2
FLUX_PMIX_LIBRARY=$PWD/open/libpmix.so.2 pmix -n1 true
is "$status" 126 "... or one that others can exchange"
like "$err" "FLUX_PMIX_LIBRARY: .*open' can be changed by everybody" "... and is told"
FLUX_PMIX_LIBRARY=libpmix.so.2 pmix -n1 true
like "$err" "absolute path" "... or one without its path"
pmix -N2 -n2 "$CLIENT" late
right 2 "a look-up gives up when its time is over"
pmix -N1 -n1 "$CLIENT" unpublish key value
right 1 "publish, look up, unpublish"
pmix -N2 -n2 "$CLIENT" spawn
right 2 "spawn starts a task, and refuses what does not fit"
"$FLUX" wreckrun --mpi=pmix -n1 "$CLIENT" lookup later wait >lookup.out 2>&1 &
pid=$!
# It stays until its standard input ends: the name goes with its job.
mkfifo publishes
"$FLUX" wreckrun --mpi=pmix -n1 "$CLIENT" publish later "a value" <publishes >publish.out 2>&1 &
publisher=$!
exec 9>publishes
wait $pid
is "$?/$(head -n 1 lookup.out)" "0/found a value" "another job waits for a name"
exec 9>&-
wait $publisher

pmix -N4 -n8 "$CLIENT" abort 42
is "$status" 42 "PMIx_Abort"
like "$err" "task 7 aborted the job: enough of this" "... says why"
unlike "$out" "went on" "... does not come back before the job is killed"
pmix -N4 -n8 "$CLIENT" leave 7
is "$status" 7 "a task that leaves without finalizing"
like "$err" "task 7 left without MPI_Finalize" "... ends the job with a sentence"

pmix -N4 -n8 sh -c '[ $FLUX_NODE_ID = 2 ] && exit 3; exec "$0" hello 8' "$CLIENT"
is "$status" 3 "tasks of a node that leave before they begin end the job"
like "$err" "the tasks on rank 2 left before MPI_Init" "... with a sentence"
pmix -N2 -n4 sh -c 'echo $$ >pid.$FLUX_TASK_RANK; [ $FLUX_TASK_RANK = 1 ] && exit 5
    until [ -s pid.1 ] && ! kill -0 "$(cat pid.1)" 2>/dev/null; do sleep 0.02; done
    exec "$0" hello 4' "$CLIENT"
is "$status" 5 "a task that leaves before others of its node begin"
like "$err" "task 1 left before MPI_Init" "... with a sentence"

# All publish the same name: one can, the others fail, and so does the job.
pmix -N4 -n4 "$CLIENT" publish stay here
is "$status/$(grep -c DUPLICATE <<<"$out" | tr 123 x)" 1/x "a name cannot be published twice"
"$FLUX" wreckrun --mpi=pmix -N2 -n2 sh -c 'echo up; sleep 100' >crash.out 2>crash.err &
pid=$!
wait_until 20 sh -c 'test "$(grep -c up crash.out)" -eq 2'
kill -KILL "$(servers | head -n 1)"
wait $pid
isnt $? 0 "a PMIx server that is killed ends the job"
like "$(cat crash.err)" "the PMIx server of node [01] was lost" "... with a sentence"
ok "... and no server stays" wait_until 10 no_servers
run "$FLUX" wreckrun --mpi=pmi -n2 sh -c 'echo "$PMIX_NAMESPACE${PMI_FD:-none}"'
is "$out" $'3\n3' "a job that wants PMI-1 does not hear of it"
run "$FLUX" wreckrun --mpi=none -n1 sh -c 'echo "$PMIX_NAMESPACE${PMI_FD:-none}"'
is "$out" none "nor of PMI, when the job wants none"

# By default both interfaces are there, and a server as soon as somebody connects.
both() {
    run run_with_timeout 120 "$FLUX" wreckrun --overcommit "$@"
}
described() {
    "$FLUX" wreckrun "$@" -N2 -n3 --overcommit sh -c 'env | grep ^PMIX_' |
        sed 's/job\.[0-9]*\.[0-9a-f]*/JOB/; s/127[.0-9]*:[0-9]*$/HOST:PORT/; s,=.*/pmix$,=DIR/pmix,' | sort
}
is "$(described)" "$(described --mpi=pmix)" "without an option tasks have the environment of --mpi=pmix"
is "$(described --mpi=both)" "$(described)" "... which is --mpi=both"
both -n1 sh -c 'echo $PMI_FD $PMI_SIZE'
is "$out" "3 1" "... and that of PMI-1"
pmix -n1 sh -c 'echo $PMI_FD $PMI_SIZE $MPIR_CVAR_PMI_VERSION'
is "$out" "3 1 1" "--mpi=pmix offers PMI-1, too, and MPICH 5 is told to use it"
mkfifo quiet
"$FLUX" wreckrun -N4 -n4 --stdin=all sh -c 'echo up; cat' <quiet >quiet.out 2>&1 &
pid=$!
exec 9>quiet
wait_until 20 sh -c 'test "$(grep -c up quiet.out)" -eq 4'
is "$(servers)" "" "no server is started for who does not ask"
exec 9>&-
wait $pid
for what in "hello 8" "direct 8" "subset 8" "group 8"; do
    # shellcheck disable=SC2086 # two words
    both -N4 -n8 "$CLIENT" $what
    right 8 "both: $what"
done
both -N1 -n16 "$CLIENT" hello 16
right 16 "16 at once on one node"
both -N2 -n2 "$CLIENT" spawn
right 2 "both: what is spawned"
both -N4 -n8 "$CLIENT" abort 42
is "$status" 42 "both: PMIx_Abort"
both -N4 -n8 "$CLIENT" leave 7
is "$status" 7 "both: a task that leaves without finalizing"
like "$err" "task 7 left without MPI_Finalize" "... ends the job with a sentence"
both -N4 -n8 sh -c '[ $FLUX_NODE_ID = 2 ] && exit 3; exec "$0" hello 8' "$CLIENT"
is "$status" 3 "both: tasks of a node that leave before they begin end the job"
both -N2 -n4 sh -c 'echo $$ >here.$FLUX_TASK_RANK; [ $FLUX_TASK_RANK = 1 ] && exit 5
    until [ -s here.1 ] && ! kill -0 "$(cat here.1)" 2>/dev/null; do sleep 0.02; done
    exec "$0" hello 4' "$CLIENT"
is "$status" 5 "both: a task that leaves before others of its node begin"
both -n1 bash -c 'a=${PMIX_SERVER_URI2##*//}; exec 3<>"/dev/tcp/${a%:*}/${a##*:}" && echo connected'
is "$status/$out" 0/connected "who connects and goes away does no harm"
# The launcher has one socket for all jobs, and an address for each.
address() {
    "$FLUX" wreckrun -n1 sh -c 'echo "${PMIX_SERVER_URI2##*//}"'
}
first=$(address)
second=$(address)
is "${first##*:}" "${second##*:}" "jobs share a port"
isnt "${first%:*}" "${second%:*}" "... and have addresses of their own"
wait_until 20 no_servers
both -n1 bash -c 'exec 3<>"/dev/tcp/$0/$1"; read -r -t 20 -u 3; echo $?' "${first%:*}" "${first##*:}"
is "$out" 1 "a connection to the address of a job that is over is closed"
both -n1 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0"; read -r -t 20 -u 3; echo $?' "${first##*:}"
is "$out" 1 "... and so is one to no job's address"
is "$(servers)" "" "... without a server"
own=$(hostname -I 2>/dev/null | cut -d " " -f 1)
if [ -n "$own" ]; then
    both -n1 bash -c '(exec 3<>"/dev/tcp/$0/$1" && read -r -t 20 -u 3); echo $?' "$own" "${first##*:}"
    is "$out" 1 "who connects by another address gets nothing"
else
    skip 1 "this host has no address but the loopback's"
fi
mkfifo stays
"$FLUX" wreckrun -n1 "$CLIENT" publish by-both value <stays >stays.out 2>stays.err &
pid=$!
exec 9>stays
wait_until 20 grep -q published stays.out
is "$(servers | wc -l)" 1 "one server for who asks"
kill -KILL "$(servers)"
# The task still waits for its input: what ends it is the loss of the server, and nothing else.
wait $pid
isnt $? 0 "both: a server that is killed ends the job"
like "$(cat stays.err)" "the PMIx server of node 0 was lost" "... with a sentence"
exec 9>&-
ok "... and no server stays" wait_until 10 no_servers

mpi_sizes() {
    local n nodes
    for n in "$@"; do
        nodes=$((n < 4 ? n : 4))
        pmix -N$nodes -n"$n" ./mpi_ring "$n"
        right "$n" "$what: $n ranks on $nodes nodes"
    done
}
mpi_one_node() {
    pmix -N1 -n4 ./mpi_ring 4
    right 4 "$what: 4 ranks on one of 4 nodes"
    pmix -N2 -n4 ./mpi_fail abort 42
    is "$status" 42 "$what: MPI_Abort"
    pmix -N2 -n4 ./mpi_fail crash
    # The others lose their connections to it: who is first ends the job.
    is $((status != 0 && status != 124)) 1 "$what: a rank that crashes (code $status)"
    like "$err" "signal 11|aborted the job" "... and a sentence says so"
}
# How a job ends is what its exit code says, as with PMI-1 (t/mpi/mpi_jobs.sh).
mpi_ends() {
    pmix -N2 -n4 ./mpi_fail abort 0
    is "$status" 0 "$what: MPI_Abort with 0 is a success"
    pmix -N2 -n4 ./mpi_fail abort 43
    is "$status" 43 "$what: MPI_Abort with another code"
    pmix -N2 -n4 ./mpi_fail fatal
    is "$status" 6 "$what: MPI_ERRORS_ARE_FATAL ends the job with MPI_ERR_RANK"
    mpi_canceled --mpi=pmix -N2 -n4
    is "$status" 143 "$what: a job that is canceled"
    like "$err" cancel "... says that it was"
}
build() {
    local prog
    for prog in mpi_ring mpi_fail mpi_parts; do
        "$1" -O1 -o $prog "$SRCDIR/t/mpi/$prog.c" >cc.log 2>&1 || return 1
    done
}

what="Open MPI 5"
if [ -z "$have_openmpi5" ]; then
    skip 20 "$wheel_why"
elif ! build "$OPENMPI5/bin/mpicc"; then
    skip 20 "the mpicc of Open MPI 5 does not work: $(head -n 1 cc.log)"
else
    mpi_sizes 1 4 16
    both -N4 -n8 ./mpi_ring 8
    right 8 "$what: 8 ranks without an option"
    mpi_one_node
    mpi_ends
    "$OPENMPI5/bin/mpicc" -O1 -o mpi_names "$SRCDIR/t/mpi/mpi_names.c" >cc.log 2>&1
    pmix -N1 -n1 ./mpi_names once here "some port"
    is "$status" 0 "$what: MPI_Publish_name, once"
    mpi_parts --mpi=pmix
    # The library of Open MPI on both sides.
    FLUX_PMIX_LIBRARY=$OPENMPI5/lib/openmpi/libpmix.so.2 \
        LD_LIBRARY_PATH=$OPENMPI5/lib:$OPENMPI5/lib/openmpi pmix -N4 -n8 "$CLIENT" group 8
    right 8 "$what: groups of its libpmix, with name and members"
    like "$out" "libpmix [5-9]" "... which is the one that was used"
fi
what="Open MPI 4"
if build mpicc.openmpi; then
    mpi_sizes 1 4 16
    both -N4 -n8 ./mpi_ring 8
    right 8 "$what: 8 ranks without an option"
    mpi_ends
    mpi_parts --mpi=pmix
else
    skip 13 "there is no mpicc.openmpi"
fi
# Programs without PMIx would be jobs of one rank each.
what="MPICH 4"
if build mpicc.mpich; then
    pmix -N2 -n2 ./mpi_ring 2
    right 2 "$what: 2 ranks with --mpi=pmix"
else
    skip 1 "there is no mpicc.mpich"
fi
if [ -z "$have_mpich5" ] || ! build "$have_mpich5/bin/mpicc"; then
    skip 2 "MPICH 5 is not there: $wheel_why"
else
    LD_LIBRARY_PATH=$have_mpich5/lib pmix -N4 -n4 ./mpi_ring 4
    right 4 "MPICH 5: 4 ranks with --mpi=pmix"
    if [ -z "$have_intel" ]; then
        skip 1 "Intel MPI is not there: $wheel_why"
    else
        # Its libmpi takes the place of MPICH's.
        LD_LIBRARY_PATH=$have_intel/lib I_MPI_ROOT=$have_intel pmix -N4 -n4 ./mpi_ring 4
        right 4 "Intel MPI: 4 ranks with --mpi=pmix"
    fi
fi
own_directories
release
ok "no server stays" wait_until 10 no_servers
nothing_in_shm
finish
