#!/bin/bash
# Streams beside ADIOS2's engine SST, one writer and one reader: the same program in Python, bench_sst.py, with
# the package adios2 of PyPI, and with flux.adios2. SST_RUNS are the runs of which the median counts. The wheel has
# no MPI, so there are no groups of writers. FLUX_TEST_PYPI=1 permits pip to install the wheel for this run.
. "$(dirname "$0")/bench_lib.sh"

python=${SST_PYTHON:-/usr/bin/python3} runs=${SST_RUNS:-3}
if ! "$python" -c 'import numpy' 2>/dev/null; then
    echo "bench_sst: Debian's Python has no NumPy: . scripts/deps.sh && deps_install build" >&2
    exit 0
fi
if ! "$python" -c 'import adios2' 2>/dev/null; then
    if [ -z "${FLUX_TEST_PYPI-}" ]; then
        echo "bench_sst: adios2 is not installed, and FLUX_TEST_PYPI is not set" >&2
        exit 0
    fi
    "$python" -m venv --system-site-packages "$TMPDIR/venv" || exit 1
    python=$TMPDIR/venv/bin/python3
    "$python" -m pip install -q adios2 || exit 1
fi
cd "$TMPDIR" || exit 1

# both PACKAGE BYTES STEPS PAUSE: what the reader prints.
both() {
    local name=b$((++count)) writer
    timeout 200 "$FLUX" env "$python" -B "$SRCDIR/t/bench/bench_sst.py" "$1" write "$name" "${@:2}" >write.out 2>&1 &
    writer=$!
    timeout 200 "$FLUX" env "$python" -B "$SRCDIR/t/bench/bench_sst.py" "$1" read "$name" "${@:2}" ||
        cat write.out >&2
    wait "$writer"
}

# inside OUT: measure in the session, packages in turn.
inside() {
    local out=$1 run package
    for ((run = 0; run < runs; run++)); do
        for package in flux.adios2 adios2; do
            both "$package" $((16 << 20)) 100 0 >>"$out/$package.16M"
            both "$package" 1024 1000 0 >>"$out/$package.1K"
            both "$package" 1024 1000 0.002 >>"$out/$package.late"
        done
    done
}
if [ "${1-}" = --inside ]; then
    count=0
    export FLUX_URI=$SST_URI
    inside "$2"
    exit
fi
out=$TMPDIR
# shellcheck disable=SC2016 # expanded in the session, the address of which bench_lib.sh forgets
in_session 1 --set=modules=log,stream -- env FLUX_TEST_BUILDDIR="$BUILDDIR" FLUX_TEST_SRCDIR="$SRCDIR" SST_RUNS="$runs" \
    SST_PYTHON="$python" sh -c 'SST_URI=$FLUX_URI exec bash "$FLUX_TEST_SRCDIR/t/bench/bench_sst.sh" --inside "$0"' "$out" || exit 1
middle() { awk -v n="$2" '{ print $n }' "$out/$1" | median; }
figure "steps of 16 MiB, in Python" "$(middle flux.adios2.16M 1)" /s "SST" "$(middle adios2.16M 1)" ">=x1"
figure "steps of 1 KiB flat out, in Python" "$(middle flux.adios2.1K 1)" /s "SST" "$(middle adios2.1K 1)" ">=x1"
figure "steps of 1 KiB at 500/s, half of them" "$(middle flux.adios2.late 1)" us "SST" "$(middle adios2.late 1)" "<=x1"
figure "the same, 99%" "$(middle flux.adios2.late 2)" us "SST" "$(middle adios2.late 2)" "<=x1"
