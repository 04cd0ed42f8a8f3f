# shellcheck shell=bash
# Configure and build out of tree; shared by ./check, ./demo and .ci/run.  To be sourced, after
# deps.sh, with the top of the source tree as current directory.

# Make `configure` if it is missing; once it is there, make itself renews it when needed.
build_bootstrap() {
    if [ ! -x configure ] || [ ! -f config/tap-driver.sh ]; then
        ./autogen.sh >&2
    fi
}

# How ./check and ./demo configure the directory that they share: invariants are checked at run time.  A build
# by hand, for production or measurements, is without.
# shellcheck disable=SC2034 # for those who source this
BUILD_CHECKED=(--enable-invariants)

# build_configure DIR [CONFIGURE-OPTION...]: configure in DIR unless that was done already, with
# the same options by the same `configure`, which has seen all packages that are installed now: after
# ./demo, ./check installs more.
build_configure() {
    local dir=$1 src=$PWD
    shift
    mkdir -p "$dir"
    if [ ! -f "$dir/Makefile" ] || [ configure -nt "$dir/config.status" ] || [ -n "${deps_installed-}" ] ||
        [ "$(cat "$dir/.configured-with" 2>/dev/null)" != "$*" ]; then
        (cd "$dir" && "$src/configure" -q "$@") || return 1
        echo "$*" >"$dir/.configured-with"
    fi
}
