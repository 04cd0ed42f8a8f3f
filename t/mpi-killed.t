#!/usr/bin/env bash
# A file in /dev/shm that MPICH's first rank has made is removed when the job dies before MPICH does it.
# What MPICH says is said by a shell here: killing it at the right moment cannot be arranged.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
need od
[ -w /dev/shm ] || skip_all "/dev/shm is not there"
mine=mpich_shar_test$$
other=flux-test-other$$

# task NAME END: PMI-1 by hand: init, put the name of a file, then END
cat >task.sh <<'END'
ask() {
    echo "$1" >&"$PMI_FD"
    read -r _ <&"$PMI_FD"
}
: >"/dev/shm/$1"
ask "cmd=init pmi_version=1 pmi_subversion=1"
hex=$(printf /dev/shm/%s "$1" | od -An -v -tx1 | tr -d ' \n')
ask "cmd=put kvsname=job.$FLUX_JOB_ID key=-bcast-1-0 value=$hex"
eval "$2"
END
job() {
    run "$FLUX" wreckrun -n1 bash task.sh "$@"
}

hold 1
job $mine 'kill -KILL $$'
is "$status" 137 "a task of MPI is killed as it starts"
ok "what it said to have made is removed" test ! -e /dev/shm/$mine
job $mine 'ask cmd=finalize'
is "$status" 0 "a task that ends well"
ok "... keeps what it made" test -e /dev/shm/$mine
job $other 'kill -KILL $$'
is "$status" 137 "a task with a file that is not MPICH's"
ok "... keeps it" test -e /dev/shm/$other
release
rm -f "/dev/shm/$mine" "/dev/shm/$other"
finish
