#!/usr/bin/env bash
# mpi4py.futures: a pool of workers that are ranks of the job (python3 -m mpi4py.futures), and one
# of workers that are spawned (MPIPoolExecutor in a program of one rank).
# shellcheck disable=SC2154 # set by run and by suite.sh
. "$(dirname "$0")/mpi/own_shm.sh"
. "$(dirname "$0")/lib.sh"
need_flux start wreckrun
# shellcheck source=t/mpi/wheels.sh
. "$SRCDIR/t/mpi/wheels.sh"
# shellcheck source=t/mpi/suite.sh
. "$SRCDIR/t/mpi/suite.sh"
# shellcheck source=t/mpi/leftovers.sh
. "$SRCDIR/t/mpi/leftovers.sh"
# mpi4py of PyPI works with every library; Debian's is made for Open MPI 4.
wheel_mpi4py=
if wheel mpi4py "$MPI4PY_VERSION"; then
    wheel_mpi4py=$wheel/bin/python
elif ! /usr/bin/python3 -c 'import mpi4py.futures' 2>/dev/null; then
    skip_all "$wheel_why, and python3-mpi4py is not installed"
fi
# The PMIx server has the libpmix of Open MPI 5 loaded before the sanitizer's runtime, which can
# live with that.
[ -z "${FLUX_TEST_SANITIZERS-}" ] || [ -n "${SOAK_TIME-}" ] || skip_all "with sanitizers it runs in make soak"
[ -z "${FLUX_TEST_SANITIZERS-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0"
export SESSION_LIMIT=400
LIMIT=30
WATCHED=(flux-pmixd pool.py)
PER_LIBRARY=6

cat >pool.py <<'END'
import faulthandler
import os
import sys

# Where it waits is told before its time is over.
faulthandler.dump_traceback_later(float(os.environ["TELL_AFTER"]))
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor, as_completed


def square(x):
    return x * x


def me(_):
    return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def refuse(x):
    raise ValueError(f"not {x}")


def main():
    with MPIPoolExecutor(max_workers=int(sys.argv[1])) as pool:
        print("workers", pool.num_workers, flush=True)
        print("map", sum(pool.map(square, range(100))), flush=True)
        print("starmap", list(pool.starmap(pow, [(2, 3), (3, 2)])), flush=True)
        done = [f.result() for f in as_completed([pool.submit(square, i) for i in range(9)])]
        print("completed", sorted(done), flush=True)
        sizes = {size for _, size in pool.map(me, range(20))}
        print("world of a worker", sizes, flush=True)
        try:
            pool.submit(refuse, 7).result()
        except ValueError as e:
            print("error:", e, flush=True)
    with MPIPoolExecutor(max_workers=1) as pool:
        print("again", pool.submit(square, 12).result(), flush=True)
    sys.exit(int(sys.argv[2]))


if __name__ == "__main__":
    main()
END
# expected WORKERS WORLD
expected() {
    printf '%s\n' "workers $1" "map 328350" "starmap [8, 9]" "completed [0, 1, 4, 9, 16, 25, 36, 49, 64]" \
        "world of a worker {$2}" "error: not 7" "again 144"
}

export TELL_AFTER=$((LIMIT * PATIENCE - 2))

# job OPTION... WORD...: in the environment that chooses the library.  The next one would not end either.
job() {
    run run_watched "$LIMIT" "${suite_env[@]}" "$FLUX" wreckrun --overcommit "$@" </dev/null
    case $status in
    124 | 137)
        note "$err" >&2
        release
        bail "$library: a job does not end"
        ;;
    esac
}

# right CODE WORKERS WORLD DESC
right() {
    [ "$status" = "$1" ] || note "$err" >&2
    is "$status" "$1" "$4"
    is "$out" "$(expected "$2" "$3")" "... with its results"
}

hold 2
own_directories
for library in "${SUITE_LIBRARIES[@]}"; do
    python=${wheel_mpi4py:-/usr/bin/python3}
    if [ -z "$wheel_mpi4py" ] && [ "$library" != openmpi4 ]; then
        skip "$PER_LIBRARY" "$wheel_why, and Debian's is made for Open MPI"
        continue
    elif ! suite_use "$library"; then
        skip "$PER_LIBRARY" "$library: $wheel_why"
        continue
    fi
    # MPICH 4 spins, so no more ranks than cores.
    n=3
    [ "$library" != mpich4 ] || n=2
    job -N2 -n"$n" "$python" -m mpi4py.futures pool.py $((n - 1)) 0
    right 0 $((n - 1)) "$n" "$library: a pool of $((n - 1)) ranks"
    job -N2 -n"$n" "$python" -m mpi4py.futures pool.py $((n - 1)) 3
    right 3 $((n - 1)) "$n" "$library: ... whose program exits with 3"
    case $library in
    # The program waits forever for workers whose spawn failed, with mpiexec.hydra, too.
    mpich4) skip 2 "Debian's MPICH 4 cannot spawn" ;;
    # The workers of the first pool crash when they disconnect, with mpiexec.hydra, too.
    intel) skip 2 "Intel MPI crashes in MPI_Comm_disconnect" ;;
    *)
        job -N1 -n1 "$python" pool.py 2 0
        right 0 2 2 "$library: a pool of 2 workers that are spawned"
        ;;
    esac
done
release
is "$status" 0 "the session ends well"
nothing_in_shm
finish
