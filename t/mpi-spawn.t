#!/usr/bin/env bash
# Tasks that start further tasks: MPI_Comm_spawn by MPICH 5, Intel MPI, Open MPI 4 and 5,
# unmodified, and the same by PMI-1 alone. Debian's MPICH 4 cannot spawn, whoever launched it.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
export SESSION_LIMIT=300
# shellcheck source=t/mpi/wheels.sh
. "$SRCDIR/t/mpi/wheels.sh"
# shellcheck source=t/mpi/leftovers.sh
. "$SRCDIR/t/mpi/leftovers.sh"

# A hang was seen once: what waits for what is told.
WATCHED=(flux-pmixd /openmpi5)
job() {
    run run_watched 40 "$FLUX" wreckrun "$@"
    [ "$status" -ne 124 ] || note "$err"
}
last_id() {
    "$FLUX" jobs -a -n -o '{id}' | head -n 1
}
right() {
    is "$status/$(grep -c ': right$' <<<"$out")" "0/$1" "$2"
}

# --- PMI-1 by hand --------------------------------------------------------------------------------

# spawn N WORD... [-- LINE...]: ask for N of these words, with further lines of the block
cat >pmi.sh <<'END'
ask() {
    printf '%s\n' "$@" >&"$PMI_FD"
    read -r answer <&"$PMI_FD"
}
spawn() {
    local i=0 lines=(mcmd=spawn "nprocs=$1" "execname=$2" totspawns=1 spawnssofar=1)
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        i=$((i + 1))
        lines+=("arg$i=$1")
        shift
    done
    ask "${lines[@]}" "argcnt=$i" "${@:2}" endcmd
}
begin() {
    ask "cmd=init pmi_version=1 pmi_subversion=1"
    ask "cmd=get_my_kvsname"
    kvsname=${answer#*kvsname=}
}
END
cat >parent.sh <<'END'
. ./pmi.sh
begin
spawn 2 bash child.sh "a  b" -- preput_num=1 preput_key_0=port preput_val_0="the port"
echo "answer: ${answer%jobid=*}"
ask cmd=finalize
END
cat >child.sh <<'END'
. ./pmi.sh
begin
ask "cmd=get kvsname=$kvsname key=port"
port=${answer#*value=}
ask cmd=barrier_in
echo "task $FLUX_TASK_RANK of $PMI_SIZE, rank $PMI_RANK, spawned $PMI_SPAWNED, job $FLUX_JOB_ID, $1, $port"
ask cmd=finalize
exit "${CODE-0}"
END
# N... one spawn after the other; what is spawned stays until the file `go` is there
cat >many.sh <<'END'
. ./pmi.sh
begin
ask cmd=get_universe_size
echo "$answer"
for n; do
    spawn "$n" bash stay.sh
    echo "$n: ${answer%jobid=*}"
done
touch go
ask cmd=finalize
END
cat >stay.sh <<'END'
. ./pmi.sh
begin
echo "on $FLUX_NODE_NAME"
until [ -e go ]; do sleep 0.1; done
ask cmd=finalize
END

cat >res.lua <<'END'
resource { { nodes = "node[0-1]", cores = 3 }, emulate = true }
END
hold 2 --set=resrc.config="$PWD/res.lua"
job -n1 --overcommit bash parent.sh
is "$status" 0 "a task spawns two"
id=$(last_id)
is "$(sort <<<"$out")" "answer: cmd=spawn_result rc=0 msg=success 
task 0 of 2, rank 0, spawned 1, job $id, a  b, the port
task 1 of 2, rank 1, spawned 1, job $id, a  b, the port" \
    "... which are ranks of their own in the same job, and find what was put for them"
job -n1 --overcommit -l bash parent.sh
is "$(sort <<<"$out" | cut -d, -f1,2)" "0: answer: cmd=spawn_result rc=0 msg=success 
1: task 0 of 2, rank 0
2: task 1 of 2, rank 1" "... and numbered on in its output"
CODE=3 job -n1 --overcommit bash parent.sh
is "$status" 3 "the exit code of a spawned task counts"
like "$err" "task [12] on .*: exit code 3" "... and the job tells which one it was"

job -N2 -n2 -c3 --name=room bash -c '[ "$FLUX_TASK_RANK" = 1 ] || exec bash many.sh 2 3 2 1; until [ -e go ]; do sleep 0.1; done'
is "$status" 0 "a job spawns as many as it has cores for"
is "$(grep -v '^on' <<<"$out")" "cmd=universe_size size=6
2: cmd=spawn_result rc=0 msg=success 
3: cmd=spawn_result rc=-1 msg=3_tasks_cannot_be_spawned:_job_$(last_id)_has_room_for_2_more_(one_a_core;_give_it_cores_with_-c,_or_--overcommit)
2: cmd=spawn_result rc=0 msg=success 
1: cmd=spawn_result rc=-1 msg=1_task_cannot_be_spawned:_job_$(last_id)_has_room_for_0_more_(one_a_core;_give_it_cores_with_-c,_or_--overcommit)" \
    "... and what does not fit is refused"
is "$(grep ^on <<<"$out" | sort | uniq -c | tr -s ' ')" " 2 on node0
 2 on node1" "... they fill its nodes in turn"
rm go
job -N2 -n2 --overcommit bash -c '[ "$FLUX_TASK_RANK" = 1 ] || exec bash many.sh 4; until [ -e go ]; do sleep 0.1; done'
is "$(grep ^on <<<"$out" | sort | uniq -c | tr -s ' ')" " 2 on node0
 2 on node1" "with --overcommit they are spread over them"
rm go

# What cannot be started is refused, and the job goes on.
job -n1 --overcommit bash -c '. ./pmi.sh; begin; spawn 2 ./nonesuch; echo "$answer"; spawn 1 bash child.sh; echo "$answer"; ask cmd=finalize'
is "$status" 0 "a job goes on when what it spawns is not there"
like "$out" "rc=-1 msg=.*nonesuch" "... and its task is told why"
like "$out" "rc=0 msg=success" "... and can spawn something else"
# It leaves when the spawn has been answered: one that leaves before that may be a spawn that failed.
job -n1 --overcommit bash -c '. ./pmi.sh; begin; spawn 1 bash -c "until [ -e answered ]; do sleep 0.1; done"; touch answered; sleep 60'
is "$status" 1 "one that is spawned and leaves before MPI_Init ends the job"
like "$err" "spawned task 1 ended before MPI_Init" "... which says so"
job -n1 --overcommit bash -c '. ./pmi.sh; begin; spawn 1 bash -c ". ./pmi.sh; begin; ask cmd=abort\ exitcode=9"; sleep 60'
is "$status" 9 "one that is spawned aborts the job"

# The job ends with the last of them, whoever that is; its directory stays until then.
cat >last.sh <<'END'
. ./pmi.sh
begin
ask cmd=finalize
until [ -e go ]; do sleep 0.1; done
echo "late: $(ls -d "$FLUX_JOB_TMPDIR")"
END
"$FLUX" wreckrun -n1 --overcommit bash -c '. ./pmi.sh; begin; spawn 2 bash last.sh; echo "$FLUX_JOB_TMPDIR"; touch left; ask cmd=finalize' \
    >last.out 2>&1 &
pid=$!
wait_until 30 test -e left
id=$(last_id)
ok "the module can be reloaded meanwhile" "$FLUX" module reload wrexec
is "$("$FLUX" jobs -n -o '{state}' "$id")" running "a job runs on when those that spawned others have left"
touch go
wait $pid
is $? 0 "... until these have"
dir=$(head -n 1 last.out)
is "$(sort last.out | uniq -c | tr -s ' ')" " 1 $dir
 2 late: $dir" "... in the directory of the job"
rm go left

# All of them are ended with it.
"$FLUX" wreckrun -n1 --overcommit bash -c '. ./pmi.sh; begin; spawn 2 bash stay.sh; touch left; sleep 60' >stay.out 2>stay.err &
pid=$!
wait_until 30 test -e left
wait_until 30 sh -c '[ "$(grep -c ^on stay.out)" = 2 ]'
"$FLUX" cancel "$(last_id)"
wait $pid
is $? 143 "a job that is canceled ends what it has spawned"
unlike "$(cat stay.err)" MPI "... without a word of MPI"
rm left
job -n1 --overcommit --time-limit=1s bash -c '. ./pmi.sh; begin; spawn 2 bash stay.sh; ask cmd=finalize'
isnt "$status" 0 "a time limit ends spawned tasks, too"
like "$err" "time limit" "... and says so"
release
is "$status" 0 "the session ends well"

# --- MPI libraries --------------------------------------------------------------------------------

# library NAME PROGRAM OPTION...: what every library does; a session of two is there
library() {
    local name=$1 program=$2 pid where
    shift 2
    for where in "-N1 -n1" "-N1 -n2" "-N2 -n2"; do
        # shellcheck disable=SC2086 # two words are meant
        job "$@" --overcommit $where "$program" spawn 2
        right $((${where##*n} + 2)) "$name: two are spawned together, $where"
    done
    job "$@" --overcommit -N2 -n2 "$program" self 1
    right 4 "$name: each rank spawns"
    job "$@" --overcommit -N2 -n2 "$program" multiple 2 1
    right 5 "$name: two programs in one spawn"
    job "$@" --overcommit -N1 -n1 "$program" again 2 3
    right 9 "$name: three spawns, one after the other"
    job "$@" -N1 -n1 "$program" refused 2000
    right 1 "$name: what does not fit is an error that is returned"
    job "$@" --overcommit -N1 -n1 "$program" refused 2 /nonesuch
    right 1 "$name: what is not there, too"
    job "$@" --overcommit -N1 -n1 "$program" nested
    right 4 "$name: one that is spawned spawns another one"
    job "$@" --overcommit -N1 -n1 "$program" wdir /usr
    right 2 "$name: the info wdir"
    like "$out" "in /usr" "... counts"
    job "$@" --overcommit -N2 -n2 "$program" exits 7
    is "$status" 7 "$name: the exit code of one that is spawned is the job's"
    job "$@" --overcommit -N1 -n1 "$program" fails 42
    is "$status" 42 "... and that of its MPI_Abort"
    job "$@" --overcommit -N2 -n2 "$program" fails 42
    is "$((status == 0 || status == 124))" 0 "... with several nodes some error"
    rm -f stays.out
    "$FLUX" wreckrun "$@" --overcommit -N2 -n2 "$program" stays 2 >stays.out 2>stays.err &
    pid=$!
    wait_until 40 grep -q stays stays.out
    "$FLUX" cancel "$(last_id)"
    wait $pid
    is $? 143 "$name: cancel ends all of them"
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hold 2
own_directories
if [ -x "$BUILDDIR/src/pmixd/flux-pmixd" ] &&
    mpicc.openmpi -O1 -o openmpi4 "$SRCDIR/t/mpi/mpi_spawn.c" >cc.log 2>&1; then
    library "Open MPI 4" "$PWD/openmpi4" --mpi=pmix
    job --mpi=both --overcommit -N2 -n2 ./openmpi4 spawn 2
    right 4 "with both interfaces what Open MPI spawns has PMIx"
    job --mpi=both --overcommit -N1 -n1 ./openmpi4 nested
    right 4 "... and can spawn, too"
else
    skip 19 "there is no mpicc.openmpi, or no libpmix"
fi
# Open MPI 5 spawns by the libpmix of the host.  Others' libraries have no sanitizer: one of each interface, PMIx by
# Open MPI 4 and PMI-1 by MPICH 5, makes all requests of ours.
if [ -n "${FLUX_TEST_SANITIZERS-}" ]; then
    skip 17 "with sanitizers one library of each interface is enough"
elif [ ! -x "$BUILDDIR/src/pmixd/flux-pmixd" ]; then
    skip 17 "built without libpmix"
elif ! openmpi5 || ! "$OPENMPI5/bin/mpicc" -O1 -o openmpi5 "$SRCDIR/t/mpi/mpi_spawn.c" >cc.log 2>&1; then
    skip 17 "Open MPI 5 is not there: $wheel_why"
else
    library "Open MPI 5" "$PWD/openmpi5" --mpi=pmix
fi
if ! wheel mpich 5.0.2 || ! "$wheel/bin/mpicc" -O1 -o mpich5 "$SRCDIR/t/mpi/mpi_spawn.c" >cc.log 2>&1; then
    skip 19 "MPICH 5 is not there: $wheel_why"
else
    LD_LIBRARY_PATH=$wheel/lib library "MPICH 5" "$PWD/mpich5"
    LD_LIBRARY_PATH=$wheel/lib job --mpi=both --overcommit -N2 -n2 ./mpich5 spawn 2
    right 4 "with both interfaces what MPICH 5 spawns has PMI-1"
    LD_LIBRARY_PATH=$wheel/lib job --mpi=both --overcommit -N1 -n1 ./mpich5 nested
    right 4 "... and can spawn, too"
    # Intel's libmpi takes the place of MPICH's; it spawns only if I_MPI_SPAWN is on, as the
    # launcher sets it.
    if [ -n "${FLUX_TEST_SANITIZERS-}" ]; then
        skip 17 "with sanitizers one library of each interface is enough"
    elif ! wheel impi-rt 2021.18.0; then
        skip 17 "Intel MPI is not there: $wheel_why"
    else
        LD_LIBRARY_PATH=$wheel/lib I_MPI_ROOT=$wheel library "Intel MPI" "$PWD/mpich5"
    fi
fi
release
is "$status" 0 "the session ends well"
nothing_in_shm
finish
