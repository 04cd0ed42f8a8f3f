# shellcheck shell=bash
# What every benchmark script begins with:   . "$(dirname "$0")/bench_lib.sh"
#
# Sets $BUILDDIR, $FLUX, $BENCH_DIR (the built benchmarks), and a private $TMPDIR which is removed
# at the end.
#
#     in_session N [OPTION...] -- COMMAND...   run it in a session of N brokers
#     figure NAME VALUE UNIT [REF_NAME REF [AIM]]
#                      print a line as bench.c does; AIM "<=3" or ">=3" for the value, "<=x3" for the
#                      ratio

set -u -o pipefail
SRCDIR=${FLUX_TEST_SRCDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
BUILDDIR=${FLUX_TEST_BUILDDIR:-$PWD}
export SRCDIR
FLUX=$BUILDDIR/src/cmd/flux
export BENCH_DIR=$BUILDDIR/t/bench
export LC_ALL=C
if [ ! -x "$FLUX" ]; then
    echo "bench: $FLUX is not there: run this from the build directory" >&2
    exit 1
fi
unset FLUX_URI
_root=$(mktemp -d /tmp/fb.XXXXXX) || exit 1
trap 'rm -rf "$_root"' EXIT
export TMPDIR=$_root

in_session() {
    local opts=(--size="$1")
    shift
    while [ "$1" != -- ]; do
        opts+=("$1")
        shift
    done
    shift
    "$FLUX" start "${opts[@]}" "$@" </dev/null
}

figure() {
    awk -v name="$1" -v value="$2" -v unit="$3" -v ref_name="${4-}" -v ref="${5-}" -v aim="${6-}" '
    function digits(v) { return sprintf(v >= 100 ? "%.0f" : v >= 10 ? "%.1f" : "%.2f", v) }
    BEGIN {
        ratio = rel = mark = ""
        if (ref_name != "") {
            if (ref > 0)
                rel = "x" sprintf("%.2f", ratio = value / ref)
            ref = digits(ref)
        }
        if (aim != "") {
            limit = substr(aim, 3)
            v = value
            if (sub(/^x/, "", limit))
                v = ratio
            if (aim ~ /^<=/)
                mark = v <= limit + 0 ? "ok" : "OVER"
            else
                mark = v >= limit + 0 ? "ok" : "UNDER"
            aim = substr(aim, 1, 2) " " substr(aim, 3)
        }
        printf "%-40s %9s %-5s  %-26s %9s %-5s %8s  %-10s %s\n", name, digits(value), unit,
            ref_name, ref, ref_name != "" ? unit : "", rel, aim, mark
    }'
}

# Median of the numbers on standard input.
median() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
