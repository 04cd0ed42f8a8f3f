#!/bin/bash
# MPI software, unmodified, under flux wreckrun and under the launcher of its MPI library: times and
# results.
#
#     bench_mpi_suite.sh [ROW...]     rows by a regular expression on their names; default: all
#
# Each row runs in a session of one broker and in one of four ("one node" and "four nodes"; brokers
# that share a host are one host to MPI), with the whole of each node for itself, and with
# mpiexec.hydra or mpirun --oversubscribe.  A result is what the program itself says of its run:
# residuals, energies, counts of tests.  It has to be that of the reference run.  A row whose
# program is not installed, and a library that PyPI does not give, say so.
# shellcheck disable=SC2034,SC2154,SC2317 # suite.sh sets and reads variables; functions are called by name
uri=${FLUX_URI-}
. "$(dirname "$0")/bench_lib.sh"
. "$SRCDIR/scripts/deps.sh"
. "$SRCDIR/t/mpi/wheels.sh"
. "$SRCDIR/t/mpi/suite.sh"
export FLUX
LIMIT=60
SCALAPACK=/usr/lib/x86_64-linux-gnu/scalapack
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# --- programs: prepare_X writes the input into the current directory and sets `words`; says_X
# prints the result of a run whose output is in the file `out`, and fails when it is wrong.

prepare_hpcc() {
    words=(hpcc)
    zcat -f /usr/share/doc/hpcc/examples/_hpccinf.txt |
        sed 's/^1000  /400   /' >hpccinf.txt
    rm -f hpccoutf.txt
}
says_hpcc() {
    grep -q '^Success=1' hpccoutf.txt && echo "success"
}

prepare_lammps() {
    words=(lmp -in in.lj -log none)
    cat >in.lj <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 100
run 200
END
}
says_lammps() {
    awk '$1 == 200 && NF >= 6 { energy = $5 } /^Total wall time/ { whole = 1 }
        END { if (!whole || energy == "") exit 1; print "energy " energy }' out
}

prepare_cp2k() {
    words=(env OMP_NUM_THREADS=1 cp2k.psmp -i H2O.inp)
    zcat -f /usr/share/doc/cp2k/examples/H2O.inp | sed 's/STEPS 5/STEPS 1/' >H2O.inp
    rm -f H2O_OT*
}
says_cp2k() {
    awk '/ENERGY\| Total FORCE_EVAL/ { energy = $NF } /PROGRAM ENDED AT/ { ended = 1 }
        END { if (!ended || energy == "") exit 1; printf "energy %.8f\n", energy }' out
}

prepare_netpipe() { # MPI library
    case $1 in
    mpich4) words=(NPmpich2) ;;
    *) words=(NPopenmpi) ;;
    esac
    words+=(-u 1048576 -n 10 -o np.out)
    rm -f np.out
}
says_netpipe() {
    awk 'END { if (NR < 50) exit 1; print NR " sizes" }' np.out
}

prepare_scalapack() {
    local dir=$SCALAPACK/${1%4}-tests
    words=("$dir/xdlu")
    cp "$dir/LU.dat" .
}
says_scalapack() {
    awk '/tests completed and passed residual checks/ { passed = $1 }
        /tests completed and failed residual checks/ { failed = $1 }
        END { if (!passed || failed) exit 1; print passed " tests" }' out
}

prepare_nwchem() {
    words=(nwchem.openmpi water.nw)
    cat >water.nw <<'END'
start water
geometry units angstroms
  O 0.0  0.000  0.117
  H 0.0  0.757 -0.469
  H 0.0 -0.757 -0.469
end
basis
  * library 6-31g*
end
dft
  xc b3lyp
end
task dft energy
END
    rm -f water.db water.movecs
}
says_nwchem() {
    awk '/Total DFT energy/ { energy = $NF } /Total times/ { ended = 1 }
        END { if (!ended || energy == "") exit 1; printf "energy %.6f\n", energy }' out
}

# Debian's h5py uses MPI by itself only below mpirun.
prepare_h5py() {
    words=(/usr/bin/python3 parallel.py)
    /usr/bin/python3 -c 'import h5py._debian_h5py_mpi' 2>/dev/null ||
        words[0]="python3 with h5py for MPI"
    cat >parallel.py <<'END'
from mpi4py import MPI
import numpy
from h5py import _debian_h5py_mpi as h5py

comm = MPI.COMM_WORLD
rank, size, n = comm.rank, comm.size, 1000000
with h5py.File("parallel.h5", "w", driver="mpio", comm=comm) as f:
    data = f.create_dataset("x", (size * n,), dtype="i8")
    with data.collective:
        data[rank * n : (rank + 1) * n] = numpy.arange(rank * n, (rank + 1) * n)
with h5py.File("parallel.h5", "r", driver="mpio", comm=comm) as f:
    other = (rank + 1) % size
    part = int(f["x"][other * n : (other + 1) * n].sum())
total = comm.reduce(part)
if rank == 0:
    print("sum", total, "of", size)
END
    rm -f parallel.h5
}
says_h5py() {
    grep '^sum [0-9]* of [0-9]*$' out
}

prepare_imb() {
    words=("$suite_dir/bin/IMB-MPI1" -npmin 2 -iter 200 -msglog 16)
}
says_imb() {
    awk '/^# Benchmarking/ { n++ } /All processes entering MPI_Finalize/ { ended = 1 }
        END { if (!ended || !n) exit 1; print n " benchmarks" }' out
}

# name, MPI library, ranks: MPICH 4 waits by spinning, which is for as many ranks as cores
ROWS="hpcc openmpi4 4
lammps openmpi4 4
cp2k openmpi4 4
netpipe openmpi4 2
netpipe mpich4 2
scalapack openmpi4 4
scalapack mpich4 2
nwchem openmpi4 4
h5py openmpi4 3
imb intel 2
mpi4py mpich4 2
mpi4py openmpi4 3
mpi4py mpich5 2
mpi4py openmpi5 3
mpi4py intel 2"

# --- one run ---

# prepare ROW LIBRARY: sets suite_env and words, or why
prepare() {
    suite_env=(env)
    case $1 in
    mpi4py | imb) suite_use "$2" || { why=$wheel_why && return 1; } ;;
    esac
    if [ "$1" = mpi4py ]; then
        SUITE_MODULES=$SUITE_LAUNCHER suite_of "$2"
        words=("${suite_tests[@]}")
        # Windows over several nodes are wrong in this library, whoever launches it.
        [ "$2" != openmpi4 ] || words+=(-x '*TestWinAllocateWorld*')
        return
    fi
    "prepare_$1" "$2"
    local program=${words[0]}
    [ "$program" != env ] || program=${words[2]}
    command -v "$program" >/dev/null || { why="$program is not installed" && return 1; }
}

# says ROW RANKS
says() {
    if [ "$1" = mpi4py ]; then
        suite_counts out "$2" && echo "$suite_count tests"
    else
        "says_$1" 2>/dev/null
    fi
}

# launcher HOW ROW LIBRARY RANKS: sets `launch`
launcher() {
    case $1/$3 in
    own/openmpi4) launch=(mpirun.openmpi --oversubscribe -n "$4") ;;
    own/openmpi5) launch=(mpirun --oversubscribe -n "$4") ;;
    own/*) launch=(mpiexec.hydra -n "$4") ;;
    *) launch=("$FLUX" wreckrun --overcommit --exclusive -N"$(($1 < $4 ? $1 : $4))" -n"$4") ;;
    esac
}

# measure HOW ROW LIBRARY RANKS: prints "SECONDS RESULT"
measure() {
    local how=$1 row=$2 library=$3 ranks=$4 begin code result dir
    dir=$TMPDIR/run.$how.$row.$library
    [ ! -t 2 ] || echo "bench_mpi_suite: $row, $library, $how" >&2
    mkdir -p "$dir" && cd "$dir" || return
    if ! prepare "$row" "$library"; then
        echo "- $why"
        return
    fi
    launcher "$how" "$row" "$library" "$ranks"
    begin=$EPOCHREALTIME
    # Spawned processes are for t/mpi-spawn.t: not every library's own launcher starts them.
    MPI4PY_TEST_SPAWN=0 timeout "$LIMIT" "${suite_env[@]}" "${launch[@]}" "${words[@]}" </dev/null >out 2>&1
    code=$?
    awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f ", b - a }'
    if [ "$code" -eq 124 ]; then
        echo "FAILED (not over after $LIMIT s)"
    elif ! result=$(says "$row" "$ranks") || [ "$code" -ne 0 ]; then
        echo "FAILED (exit code $code)"
        tail -n 5 out >&2
    else
        echo "$result"
    fi
}

suite_get || echo "bench_mpi_suite: $wheel_why" >&2
# In a session: all rows that were asked for.
if [ "${1-}" = --inside ]; then
    export FLUX_URI=$uri TMPDIR=$4
    while read -r row library ranks; do
        echo "$row/$library $(measure "$2" "$row" "$library" "$ranks")"
    done <"$3"
    exit
fi

deps_install suite || echo "bench: rows of what could not be installed will say so" >&2
pattern=${1:-.}
while read -r row; do
    [[ $row =~ $pattern ]] && echo "$row"
done <<<"$ROWS" >"$TMPDIR/rows"

while read -r row library ranks; do
    echo "$row/$library $(measure own "$row" "$library" "$ranks")"
done <"$TMPDIR/rows" >"$TMPDIR/own"
for nodes in 1 4; do
    in_session "$nodes" -- bash "$0" --inside "$nodes" "$TMPDIR/rows" "$TMPDIR" >"$TMPDIR/$nodes"
done

failed=0
while read -r row library ranks; do
    read -r _ own_time own < <(grep "^$row/$library " "$TMPDIR/own")
    for nodes in 1 4; do
        read -r _ time result < <(grep "^$row/$library " "$TMPDIR/$nodes")
        name="$row $library -n$ranks, $nodes node(s)"
        if [ "$own_time" = - ]; then
            echo "$name: $own"
        else
            figure "$name" "$time" s "its launcher: $own" "$own_time"
            [ "$result" = "$own" ] || { echo "    here: $result" && failed=1; }
        fi
    done
done <"$TMPDIR/rows"
exit "$failed"
