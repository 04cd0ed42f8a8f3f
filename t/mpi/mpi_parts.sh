# shellcheck shell=bash disable=SC2154 # set by run
# Jobs that several tests of MPI run; to be sourced after lib.sh.  The options are those of flux wreckrun.
#
#     mpi_parts [OPTION...]        several programs in one MPI_COMM_WORLD, in a session of four brokers;
#                                  ./mpi_parts must be built
#     mpi_canceled [OPTION...]     ./mpi_fail, canceled when it runs: $status and $err

mpi_parts() {
    local where want="0 of 7: one, program 0, of 2, all
1 of 7: one, program 0, of 2, all
2 of 7: two, program 1, of 4, own
3 of 7: two, program 1, of 4, own
4 of 7: two, program 1, of 4, own
5 of 7: two, program 1, of 4, own
6 of 7: three, program 2, of 1, unset"
    for where in -N1 -N2 -N4 "-N3 --layout=cyclic"; do
        # shellcheck disable=SC2086 # two words are meant
        run run_with_timeout 30 "$FLUX" wreckrun --overcommit "$@" $where --env=PART=all \
            -n2 ./mpi_parts one : -n4 --env=PART=own ./mpi_parts two : --env=-PART ./mpi_parts three
        is "$status/$(sort <<<"$out")" "0/$want" "three programs in one world, $where $*"
    done
}

mpi_canceled() {
    rm -f stay.out # its last line is waited for
    "$FLUX" wreckrun --overcommit "$@" --name=stays ./mpi_fail stay >stay.out 2>stay.err &
    local pid=$!
    wait_until 30 grep -q stays stay.out
    "$FLUX" cancel "$("$FLUX" jobs -n -o '{id} {name}' | awk '$2 == "stays" { print $1 }')"
    status=0
    wait $pid || status=$?
    # shellcheck disable=SC2034 # as run sets it
    err=$(<stay.err)
}
