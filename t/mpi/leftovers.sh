# shellcheck shell=bash disable=SC2016 # the tasks expand
# What jobs leave in /dev/shm; to be sourced after lib.sh:
#
#     own_directories     while the session is there: remember where its jobs have their files
#     nothing_in_shm      after it: a test that they are gone, and nothing else came to stay
#
# Other sessions have directories there, too, and other MPI programs files that come and go.  An
# MPICH program that is killed while it starts leaves its mpich_shar_*, whoever launched it: the name
# is random and known to nobody else.

touch shm.stamp

own_directories() {
    "$FLUX" exec true # each broker has a launcher now
    "$FLUX" wreckrun -N"$("$FLUX" getattr size)" sh -c 'dirname "$FLUX_JOB_TMPDIR"' |
        sort -u >shm.own
}
_shm_left() {
    xargs -r ls -d 2>/dev/null <shm.own
    find /dev/shm -maxdepth 1 -user "$(id -u)" -newer shm.stamp ! -path /dev/shm \
        ! -name "flux-*" ! -name "mpich_shar_*" | sort
}
_shm_clean() {
    [ -z "$(_shm_left)" ]
}
nothing_in_shm() {
    ok "the session had directories in /dev/shm" test -s shm.own
    wait_until 10 _shm_clean
    is "$(_shm_left)" "" "nothing is left there"
}
