# shellcheck shell=bash disable=SC2016 # the tasks expand
# What jobs leave in /dev/shm; to be sourced after lib.sh:
#
#     own_directories     while the session is there: remember where its jobs have their files
#     nothing_in_shm      after it: a test that they are gone, and nothing else came to stay
#
# Other programs have files there that come and go, other tests of MPI, too: only a test that runs
# with a /dev/shm of its own (own_shm.sh) looks for more than the session's own.  An MPICH program
# that is killed while it starts leaves its mpich_shar_*, whoever launched it.

_shm_is_own() {
    [ -n "${MPI_TEST_NAMESPACE-}" ] && [ -e /dev/shm/.of-this-test ]
}

own_directories() {
    run_watched 30 "$FLUX" exec true # each broker has a launcher now
    run_watched 30 "$FLUX" wreckrun -N"$("$FLUX" getattr size)" sh -c 'dirname "$FLUX_JOB_TMPDIR"' |
        sort -u >shm.own
}
_shm_left() {
    xargs -r ls -d 2>/dev/null <shm.own
    ! _shm_is_own || find /dev/shm -mindepth 1 -maxdepth 1 ! -name .of-this-test ! -name "flux-*" \
        ! -name "mpich_shar_*" | sort
}
_shm_clean() {
    [ -z "$(_shm_left)" ]
}
nothing_in_shm() {
    ok "the session had directories in /dev/shm" test -s shm.own
    wait_until 10 _shm_clean
    is "$(_shm_left)" "" "nothing is left there"
}
