# shellcheck shell=bash
# Debian packages that the project needs, and how to get the missing ones.  To be sourced.
#
#     deps_install build    what ./demo needs: to build flux, and to run an MPI program and LAMMPS with it
#     deps_install check    the same, and all that ./check and .ci/run need
#     deps_install bench    as for build, and what `make bench` compares with
#     deps_install suite    as for build, and the MPI software of t/bench/bench_mpi_suite.sh

DEPS_BUILD=(
    build-essential autoconf automake libtool pkg-config git xz-utils procps
    libjansson-dev libev-dev libzmq3-dev libsodium-dev libssl-dev liblua5.3-dev
    libhwloc-dev uuid-dev libsqlite3-dev libpmix-dev libncurses-dev zlib1g-dev check
    mpich libmpich-dev gnuplot-nox
    python3-dev python3-cffi lammps python3-lammps python3-numpy
)
DEPS_CHECK=(
    openmpi-bin libopenmpi-dev lua5.3 python3-venv
    python3-setuptools python3-wheel python3-pip
    clang clang-14 clang-format libclang-rt-14-dev shellcheck codespell valgrind libc6-dbg
    python3-sphinx python3-aafigure man-db bash-completion iproute2 nftables tmux strace slurm-wlm munge mmdebstrap
    libsimgrid-dev openssh-server openssh-client
)
DEPS_BENCH=(redis-server etcd-server)
DEPS_SUITE=(
    openmpi-bin libopenmpi-dev python3-venv
    hpcc cp2k netpipe-openmpi netpipe-mpich2 scalapack-mpi-test nwchem-openmpi
    python3-h5py-mpi
)

# Print those of the given packages that are not installed.
deps_missing() {
    local installed
    # dpkg-query fails when it does not know one of the names, which means that the package is missing:
    # no reason to leave a shell that runs under `set -e -o pipefail`.
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        sed -n 's/^installed //p' || true)
    printf '%s\n' "$@" | grep -vxF "$installed" || true
}

# Install what is missing of a set.  With nothing missing this takes a few milliseconds.  If something was,
# $deps_installed is not empty: what `configure` has found before is out of date (build.sh).
deps_installed=''
deps_install() {
    local set=$1 packages=("${DEPS_BUILD[@]}") missing sudo=()
    if [ "$set" = check ]; then
        packages+=("${DEPS_CHECK[@]}")
    elif [ "$set" = bench ]; then
        packages+=("${DEPS_BENCH[@]}")
    elif [ "$set" = suite ]; then
        packages+=("${DEPS_SUITE[@]}")
    fi
    if ! command -v dpkg-query >/dev/null; then
        echo "This is not Debian: assuming that what ${packages[*]} hold is installed." >&2
        return 0
    fi
    mapfile -t missing < <(deps_missing "${packages[@]}")
    if [ ${#missing[@]} -eq 0 ]; then
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "Missing packages, and neither root nor sudo to install them. As root, do:" >&2
            echo "    apt-get update && apt-get install ${missing[*]}" >&2
            return 1
        fi
        sudo=(sudo)
    fi
    echo "Installing with apt: ${missing[*]}"
    sudo+=(env DEBIAN_FRONTEND=noninteractive)
    if ! "${sudo[@]}" apt-get update -q </dev/null >/dev/null ||
        ! "${sudo[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" \
            </dev/null >/dev/null; then
        echo "apt could not install ${missing[*]}: see above." >&2
        return 1
    fi
    # shellcheck disable=SC2034 # for build.sh
    deps_installed=yes
}
