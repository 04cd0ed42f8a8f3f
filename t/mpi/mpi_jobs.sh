# shellcheck shell=bash disable=SC2016,SC2086,SC2154 # the tasks expand; an option or nothing; set by run, ok and exits
# The tests of any MPI library, unmodified, over brokers; to be sourced after lib.sh:
#
#     mpi_jobs MPICC     compile mpi_ring, mpi_fail and mpi_parts with MPICC, run them, and `finish`
#
# MPI_BY: an option for all jobs, such as --mpi=pmi.

MPI_BY=${MPI_BY-}
. "$SRCDIR/t/mpi/leftovers.sh"
# shellcheck source=t/mpi/mpi_parts.sh
. "$SRCDIR/t/mpi/mpi_parts.sh"
right() {
    is "$status/$(grep -c ': right$' <<<"$out")" "0/$1" "$2"
}

ended_with() {
    if [ -z "$or" ]; then
        is "$status" "$1" "$2"
    else
        is $((status != 0 && status != 124)) 1 "$2 (code $status)"
    fi
}

mpi_jobs() {
    local mpicc=$1 prog size n nodes where or pid id
    for prog in mpi_ring mpi_fail mpi_parts; do
        "$mpicc" -O1 -o $prog "$SRCDIR/t/mpi/$prog.c" >cc.log 2>&1 || skip_all "$mpicc does not work"
    done

    for size in 1 4; do
        hold $size --set=wrexec.share-hosts=no
        for n in 1 4 16; do
            nodes=$((n < size ? n : size))
            run "$FLUX" wreckrun $MPI_BY --overcommit -N$nodes -n$n ./mpi_ring $n
            right $n "$n ranks on $nodes of $size brokers"
        done
        run "$FLUX" wreckrun $MPI_BY --overcommit -N1 -n4 ./mpi_ring 4
        right 4 "4 ranks on one of $size brokers"
        release
    done

    hold 4
    run "$FLUX" wreckrun $MPI_BY --overcommit -N4 -n8 ./mpi_ring 8
    right 8 "8 ranks on 4 brokers of one host, which is one node for MPI"
    run "$FLUX" wreckrun $MPI_BY --overcommit -N3 -n8 --layout=cyclic ./mpi_ring 8
    right 8 "... in turns"
    release

    hold 4 --set=wrexec.share-hosts=no
    for where in "-N1 -n4" "-N4 -n4" "-N2 -n5"; do
        # On several nodes the others lose their connections to a rank that is gone, and abort: who
        # is first ends the job.
        or='|aborted the job'
        [[ $where != *N1* ]] || or=
        # shellcheck disable=SC2086 # two words are meant
        exits 42 "MPI_Abort (42) with $where" run_with_timeout 30 \
            "$FLUX" wreckrun $MPI_BY --overcommit $where ./mpi_fail abort 42
        like "$out" "size [45]" "... all had started"
        like "$err" "aborted the job" "... and a sentence says so"
        # shellcheck disable=SC2086
        exits 6 "an error that is fatal has its class as exit code, $where" run_with_timeout 30 \
            "$FLUX" wreckrun $MPI_BY --overcommit $where ./mpi_fail fatal
        like "$err" "aborted the job" "... and a sentence says so"
        # shellcheck disable=SC2086
        run run_with_timeout 30 "$FLUX" wreckrun $MPI_BY --overcommit $where ./mpi_fail exit 7
        ended_with 7 "a rank that leaves without MPI_Finalize, $where"
        like "$err" "left without MPI_Finalize \(exit code 7\)$or" "... and a sentence says so"
        # shellcheck disable=SC2086
        run run_with_timeout 30 "$FLUX" wreckrun $MPI_BY --overcommit $where ./mpi_fail crash
        ended_with 139 "a rank that crashes, $where"
        like "$err" "signal 11$or" "... and a sentence says so"
    done
    ok "MPI_Abort (0) ends a job that completes" run_with_timeout 30 \
        "$FLUX" wreckrun $MPI_BY --overcommit -N1 -n4 ./mpi_fail abort 0
    exits 1 "MPI_Abort (256) does not" run_with_timeout 30 \
        "$FLUX" wreckrun $MPI_BY --overcommit -N1 -n4 ./mpi_fail abort 256
    id=$("$FLUX" submit $MPI_BY --overcommit -N1 -n4 ./mpi_fail abort 0)
    ok "... and jobs that depend on its success run" run_with_timeout 30 \
        "$FLUX" submit --wait --dependency="afterok:$id" true
    for where in "-N1 -n4" "-N4 -n4"; do
        # shellcheck disable=SC2086
        mpi_canceled $MPI_BY $where
        is "$status" 143 "the exit code of a job that is canceled, $where"
        like "$err" cancel "... which says that it was"
        unlike "$err" MPI_Finalize "... and nothing else"
    done
    run run_with_timeout 30 "$FLUX" wreckrun $MPI_BY --overcommit -N1 -n4 ./mpi_fail early 7
    ok "a rank that leaves before MPI_Init ends the others on its node" \
        test "$status" -ne 0 -a "$status" -ne 124
    exits 7 "... and those on other nodes" run_with_timeout 30 \
        "$FLUX" wreckrun $MPI_BY --overcommit -N4 -n4 ./mpi_fail early 7
    like "$err" "the tasks on rank 3 left before MPI_Init" "... and a sentence says so"
    run "$FLUX" wreckrun $MPI_BY --overcommit -N4 -n8 ./mpi_ring 8
    right 8 "the next job finds a clean place"
    "$FLUX" wreckrun $MPI_BY --overcommit -N4 -n4 ./mpi_ring 4 >one.out &
    pid=$!
    run "$FLUX" wreckrun $MPI_BY --overcommit -N4 -n8 ./mpi_ring 8
    right 8 "two jobs at a time: this one"
    wait $pid
    is "$?/$(grep -c ': right$' one.out)" 0/4 "... and that one"
    mpi_parts --mpi=pmi
    own_directories
    release
    nothing_in_shm
    finish
}
