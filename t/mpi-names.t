#!/bin/bash
# Names that MPI jobs publish for each other, over PMI-1.
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
need mpicc.mpich
. "$SRCDIR/t/mpi/mpi_names.sh"
mpicc.mpich -O1 -o mpi_names "$SRCDIR/t/mpi/mpi_names.c" >cc.log 2>&1 || skip_all "mpicc.mpich does not work"

hold 4
mpi_names --env=WHAT=names
names_left
long=$(printf 'x%.0s' {1..250})
run "$FLUX" wreckrun -n2 ./mpi_names once "$long" "$long"
is "$status" 0 "a name and a port of 250 bytes"
run "$FLUX" wreckrun -n1 ./mpi_names once "dots.and/slashes~%" p
is "$status" 0 "a name with what keys cannot have"
names_left
# MPICH 5 has ports of 480 bytes; here is what such a library says.
cat >port.sh <<'END'
# shellcheck disable=SC2154
ask() {
    echo "$1" >&"$PMI_FD"
    read -r answer <&"$PMI_FD"
    echo "$answer"
}
ask "cmd=init pmi_version=1 pmi_subversion=1"
ask "cmd=publish_name service=far port=$1"
ask "cmd=lookup_name service=far"
ask "cmd=unpublish_name service=far"
ask "cmd=finalize"
END
port=$(printf 'p%.0s' {1..1024})
run "$FLUX" wreckrun -n1 bash port.sh "$port"
like "$out" "lookup_result info=ok rc=0 msg=success port=$port" "a port of 1,024 bytes is published and found"
run "$FLUX" wreckrun -n1 bash port.sh "${port}p"
like "$out" "publish_result info=failed" "a longer one is refused"
names_left
release
finish
