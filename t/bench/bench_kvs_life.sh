#!/bin/bash
# A long life of the key-value store in little time: see bench_kvs_life.c.  In a session of four, and
# in one of one broker that keeps its state on disk.
#
#     bench_kvs_life.sh [COUNT]       (1000000)
. "$(dirname "$0")/bench_lib.sh"

in_session 4 -- "$BENCH_DIR/bench_kvs_life" "$@" || exit 1

state=$(mktemp -d "${FLUX_BENCH_DISK:-$BUILDDIR}/bench-disk.XXXXXX") || exit 1
trap 'rm -rf "$_root" "$state"' EXIT
in_session 1 --statedir="$state/flux" -- "$FLUX" kvs put bench=1 || exit 1
if [ ! -s "$state/flux/content.sqlite" ]; then
    echo "# sessions write no content.sqlite into their statedir: nothing on disk"
    exit 0
fi
in_session 1 --statedir="$state/flux" -- "$BENCH_DIR/bench_kvs_life" "$@"
