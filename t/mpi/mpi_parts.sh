# shellcheck shell=bash disable=SC2154 # set by run
# Several programs in one MPI_COMM_WORLD; to be sourced after lib.sh, in a session of four brokers, with
# ./mpi_parts built:
#
#     mpi_parts [OPTION...]     for flux wreckrun

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
